"""The laws with virtual switches: lone flows, conservation, losslessness, with varying receivers and delayed frames."""

import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st
from networks import SHAPES, Measure, flow_list, frames, incasts, reasons, same, simulate, unbounded
from test_lone_flow import SIZES, check_alone, in_turn, some_pairs

from penstock_net.composition import parse
from penstock_net.sim import results
from penstock_net.sim.config import HostConfig
from penstock_net.sim.settings import Settings
from penstock_net.sim.simulate import Runner
from penstock_net.topology import behind_vswitches, leaf_spine, star, with_receivers

QUIET = Measure(sample="0s", flows=False)
EVERYTHING = Measure(sample="3us", pauses=True, queues=True, packets=True, port_series=True, flow_series=True)


@st.composite
def receivers(draw, hosts):
    """Some applications that are slow, change, or come and go."""
    out = []
    for _ in range(draw(st.integers(1, 4))):
        table = {
            "host": draw(st.integers(0, hosts - 1)),
            "rate": f"{draw(st.integers(300, 60_000))}Mbps",
            "start": f"{draw(st.integers(0, 60))}us",
        }
        if draw(st.booleans()):
            table |= {"on": f"{draw(st.integers(1, 40))}us", "off": f"{draw(st.integers(1, 40))}us", "until": "400us"}
        if not any(
            table["host"] == kept["host"] and ("on" in table or "on" in kept or table["start"] == kept["start"]) for kept in out
        ):
            out.append(table)  # two rates of one host at one time are refused
    return out


@pytest.mark.parametrize("scheme", ["fifo", "dqa", "pfc", "backdraft", "backdraft+pfc"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_lone_flow_takes_the_ideal_time_through_virtual_switches(shape, scheme):
    """At rates that no application is too slow for; the paces of backdraft's senders are never touched."""
    plain = SHAPES[shape]()
    topo = unbounded(behind_vswitches(plain, apps=1 if shape == "star" else 2, rate="100Gbps", delay="300ns"))
    check_alone(topo, in_turn(topo, some_pairs(topo, len(SIZES)), SIZES, HostConfig()), scheme, HostConfig(), seed=4, threads=2)


def test_a_lone_flow_to_a_slow_application_loses_no_time_to_pauses():
    """The application is never without a packet, so the flow ends as early as if nobody had been paused."""
    topo = with_receivers(unbounded(behind_vswitches(star(hosts=2), delay="500ns")), [{"host": 1, "rate": "5Gbps"}])
    flows = flow_list(topo, [(0, 1, 8_000_000, "0s")])
    held, free = (simulate(topo, flows, s, measure=QUIET, host=HostConfig(rto="1s")) for s in ("backdraft", "fifo"))
    assert held.flows["finish_ns"].to_list() == free.flows["finish_ns"].to_list()
    assert held.ports["pauses_sent"].sum() > 5 and held.ports["max_queue_bytes"].max() < free.ports["max_queue_bytes"].max() / 10


SERVERS = behind_vswitches(leaf_spine(hosts=4, tors=2, spines=2, buffer="3MB"), apps=2, buffer="3MB")
SCHEMES = ["backdraft", "bfc+backdraft", "hpcc+backdraft", "pfc+backdraft", "fifo", "bfc"]


@examples(25)
@given(receivers(SERVERS.hosts), st.sampled_from(SCHEMES), st.integers(5, 300), st.sampled_from([0.0, 0.02]), st.data())
def test_bytes_are_conserved_at_any_time(tables, scheme, end_us, loss, data):
    """In the middle of a run, with frames on their way from switch to switch and rates that have just changed."""
    topo = with_receivers(SERVERS, tables).with_loss(loss)
    flows = data.draw(incasts(topo, None, most_bytes=400_000, flows=(5, 30)))
    small = {"backdraft.th_goal": "3KB", "backdraft.th_over": "6KB"} if "backdraft" in scheme else {}
    settings = Settings(
        topo,
        flows,
        parse(scheme, small),
        threads=data.draw(st.integers(1, 3)),
        duration_ps=end_us * 1_000_000,
        drain=False,
        measure=QUIET,
        control_loss=loss,
    )
    runner = Runner(settings)
    runner.loop()
    results.check_invariants(runner.outcome())


@examples(25)
@given(receivers(SERVERS.hosts), st.sampled_from(["backdraft", "bfc+backdraft"]), st.integers(0, 99), st.data())
def test_everything_arrives_and_threads_change_nothing(tables, scheme, seed, data):
    topo = with_receivers(SERVERS, tables)
    flows = data.draw(incasts(topo, None, most_bytes=150_000))
    run = simulate(topo, flows, scheme, seed=seed, measure=EVERYTHING)
    assert run.summary["flows_finished"] == len(flows)
    same(run, simulate(topo, flows, scheme, seed=seed, threads=3, measure=EVERYTHING), scheme)
    assert frames(run)["packets"].height > 0


@pytest.mark.parametrize("course", [{}, {"on": "300us", "off": "200us", "until": "30ms"}], ids=["slow", "on and off"])
def test_pfc_has_headroom_for_a_pause_that_waits_behind_a_slow_packet(course):
    """Slow applications fill an uplink of 10 Gbit/s at 100."""
    topo = behind_vswitches(star(hosts=3, rate="10Gbps", buffer="2MB"), apps=4, delay="5us", buffer="12MB")
    topo = with_receivers(topo, [{"host": host, "rate": "200Mbps", **course} for host in range(4)])
    run = simulate(
        topo, flow_list(topo, [(i, 4 + i, 3_000_000, "0s") for i in range(4)]), "pfc", measure=QUIET, host=HostConfig(rto="50ms")
    )
    assert not reasons(run) and run.ports["pauses_sent"].sum() > 10


@examples(25)
@given(receivers(SERVERS.hosts), st.integers(0, 7), st.data())
def test_pfc_loses_nothing_to_receivers_that_vary(tables, dst, data):
    """Applications that take little may still send much: their pauses wait behind slow packets."""
    topo = with_receivers(behind_vswitches(leaf_spine(hosts=4, tors=2, spines=2), apps=2, buffer="12MB"), tables)
    flows = data.draw(incasts(topo, data.draw(st.sampled_from([None, dst])), most_bytes=1_000_000))
    run = simulate(topo, flows, "pfc", measure=QUIET, host=HostConfig(rto="10ms"))
    assert not reasons(run) and run.summary["flows_finished"] == len(flows)
