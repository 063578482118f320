"""PFC with its headroom never drops; BFC drops only when the shared buffer is truly full."""

import dataclasses
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st
from networks import (
    BFC,
    PFC,
    HostConfig,
    Measure,
    flow_list,
    headroom_buffer,
    incasts,
    networks,
    one_dst,
    reasons,
    simulate,
)

from penstock_net.composition import parse
from penstock_net.errors import SpecError
from penstock_net.topology import dumbbell, leaf_spine, star

QUIET = Measure(sample="0s")


def check_lossless(topo, flows, scheme, finish=True, **arguments):
    """simulate() itself raises InvariantError if a lossless scheme drops."""
    run = simulate(topo, flows, scheme, measure=QUIET, **arguments)
    assert run.summary["drops"] == 0, f"{scheme} {scheme.set_by_user}: {reasons(run)} on {topo.links.tolist()}"
    if finish:
        assert run.summary["flows_finished"] == len(flows), f"{scheme}: {run.summary['warnings']}"
    return run


@pytest.mark.parametrize("delay", ["10ns", "100ns", "1us", "10us", "100us"])
@pytest.mark.parametrize("spare", [0, 1000, 30_000])
def test_incast_into_the_least_buffer(delay, spare):
    """16 senders at full rate, the buffer is the headroom and `spare` bytes."""
    topo = headroom_buffer(star(hosts=17, delay=delay), spare)
    run = check_lossless(topo, one_dst(topo, 200_000), PFC())
    assert run.ports["pauses_sent"].sum() > 0, "an incast that does not pause proves nothing"
    topo = headroom_buffer(leaf_spine(hosts=16, tors=4, spines=2, delay=delay, uplink_rate="40Gbps"), spare)
    check_lossless(topo, one_dst(topo, 200_000), PFC())


def test_the_buffer_below_the_headroom_is_refused():
    topo = headroom_buffer(star(hosts=5), -1)
    with pytest.raises(SpecError, match="headroom"):
        simulate(topo, one_dst(topo, 1000), "pfc")


@examples(75)
@given(networks(), st.data())
def test_random_networks_rates_and_delays(topo, data):
    host = HostConfig(mtu=data.draw(st.sampled_from([1000, 200, 1460])), rto="1s")
    scheme = PFC(
        alpha=data.draw(st.sampled_from([0.0, 0.05, 0.11, 0.5, 1.0])),
        xon=data.draw(st.sampled_from([0, 3072, 50_000])),
        headroom=data.draw(st.sampled_from([0.0, 2.0, 3.0])),
    )
    topo = headroom_buffer(topo, data.draw(st.integers(0, 100_000)), host, scheme.parts["pfc"]["headroom"])
    check_lossless(topo, data.draw(incasts(topo, 0)), scheme, host=host, max_time_ps=100 * 10**12)


@examples(40)
@given(networks(ps_per_byte=(40, 400), delay_ps=(10_000, 3_000_000)), st.data())
def test_random_traffic_in_all_directions(topo, data):
    """Cyclic waiting may block such a network for ever (the deadlock of PFC), but nothing may be dropped."""
    topo = headroom_buffer(topo, data.draw(st.integers(0, 20_000)))
    check_lossless(topo, data.draw(incasts(topo, None, 40_000, (10, 40))), PFC(), finish=False, max_time_ps=10**10)


def prioritised(data, topo, priorities, dst, flows=(2, 30), most_bytes=60_000):
    """Random flows of all priorities within a short time, all to `dst` (None: to anywhere)."""
    items = []
    for _ in range(data.draw(st.integers(*flows))):
        to = data.draw(st.integers(0, topo.hosts - 1)) if dst is None else dst
        src = data.draw(st.integers(0, topo.hosts - 1).filter(lambda host, to=to: host != to))
        size, start = data.draw(st.integers(1, most_bytes)), data.draw(st.integers(0, 5000))
        items.append((src, to, size, f"{start}ns", data.draw(st.integers(0, priorities - 1))))
    return classed(topo, items)


def classed(topo, items):
    """Flows (src, dst, bytes, start, priority)."""
    return flow_list(topo, [dict(zip(("src", "dst", "bytes", "start", "priority"), item)) for item in items])


def check_priorities(topo, flows, lossless, parameters, finish=True, **arguments):
    """No packet of a lossless priority is lost, in the least buffer that is accepted; the others may lose some."""
    run = simulate(topo, flows, PFC(**parameters), measure=QUIET, **arguments)
    safe = run.flows.filter(run.flows["priority"].is_in(lossless))
    assert safe["retransmitted_bytes"].sum() == 0, f"{parameters}: {reasons(run)} on {topo.links.tolist()}"
    assert not finish or safe["finish_ns"].null_count() == 0, run.summary["warnings"]
    return run


@examples(75)
@given(networks(), st.data())
def test_single_priorities_on_random_networks(topo, data):
    priorities = data.draw(st.integers(2, 8))
    lossless = data.draw(st.sampled_from([list(range(priorities)), [priorities - 1], [0], list(range(0, priorities, 2))]))
    host = HostConfig(
        mtu=data.draw(st.sampled_from([1000, 200])), rto="1s", ack_priority=data.draw(st.sampled_from(["control", "data"]))
    )
    given_alpha = data.draw(st.sampled_from([0.0, 0.05, 0.11, 1.0, 8.0]))
    parameters = {
        "alpha": given_alpha,
        "priority_alpha": data.draw(st.sampled_from([[], [0.5], [0, 0.02, 2]])),
        "xon": data.draw(st.sampled_from([0, 3072])),
        "headroom": data.draw(st.sampled_from([0.0, 3.0])),
        "priorities": priorities,
        "lossless": lossless,
    }
    spare = data.draw(st.integers(0, 100_000))
    topo = headroom_buffer(topo, spare, host, parameters["headroom"], priorities, len(lossless))
    flows = prioritised(data, topo, priorities, 0)
    check_priorities(topo, flows, lossless, parameters, host=host, max_time_ps=100 * 10**12)


@examples(30)
@given(networks(ps_per_byte=(40, 400), delay_ps=(10_000, 3_000_000)), st.data())
def test_single_priorities_in_all_directions(topo, data):
    """Some may wait for ever in a circle; nothing lossless is dropped."""
    priorities = data.draw(st.integers(2, 8))
    lossless = sorted(data.draw(st.sets(st.integers(0, priorities - 1), min_size=1)))
    topo = headroom_buffer(topo, data.draw(st.integers(0, 20_000)), None, 3.0, priorities, len(lossless))
    flows = prioritised(data, topo, priorities, None, (10, 40), 40_000)
    parameters = {"priorities": priorities, "lossless": lossless}
    check_priorities(topo, flows, lossless, parameters, finish=False, max_time_ps=10**10)


SEVERAL = str(Path(__file__).parents[1] / "schemes/hooks/several.py")


@examples(50)
@given(networks(), st.data())
def test_packets_of_several_priorities_on_random_networks(topo, data):
    """Each packet has a priority of its own: those of lossless ones are never dropped, neither to one host nor to all."""
    count = data.draw(st.integers(2, 8))
    lossless = sorted(data.draw(st.sets(st.integers(0, count - 1), min_size=1)))
    host = HostConfig(
        mtu=data.draw(st.sampled_from([1000, 200])), rto="1s", ack_priority=data.draw(st.sampled_from(["control", "data"]))
    )
    given = {"alpha": data.draw(st.sampled_from([0.0, 0.11, 1.0, 8.0])), "headroom": data.draw(st.sampled_from([0.0, 3.0]))}
    topo = headroom_buffer(topo, data.draw(st.integers(0, 100_000)), host, given["headroom"], count, len(lossless))
    all_ways = data.draw(st.booleans())
    flows = data.draw(incasts(topo, None if all_ways else 0))
    scheme = parse(f"{SEVERAL}+pfc", {"several.count": count, "priorities": count, "lossless": lossless, **given})
    measure, until = Measure(sample="0s", packets=True), 10**10 if all_ways or len(lossless) < count else 100 * 10**12
    run = simulate(topo, flows, scheme, host=host, measure=measure, max_time_ps=until)
    lost = run.extra["packets"].filter((pl.col("event") == "drop") & (pl.col("kind") == 0))
    of = {(flow + offset // host.mtu) % count for flow, offset in lost.select("flow_id", "offset_bytes").iter_rows()}
    assert not of & set(lossless), f"{given}: {reasons(run)} on {topo.links.tolist()}"
    assert all_ways or len(lossless) < count or run.summary["flows_finished"] == len(flows), run.summary["warnings"]


@pytest.mark.parametrize("delay", ["10ns", "1us", "100us"])
@pytest.mark.parametrize("alpha", [0.0, 0.11, 16.0])
def test_an_incast_of_eight_priorities_into_the_least_buffer(delay, alpha):
    topo = headroom_buffer(star(hosts=17, delay=delay), 0, None, 3.0, 8, 8)
    flows = classed(topo, [(host, 0, 60_000, "0s", priority) for host in range(1, 17) for priority in range(8)])
    run = check_priorities(topo, flows, range(8), {"priorities": 8, "alpha": alpha})
    assert run.summary["drops"] == 0 and run.ports["pauses_sent"].sum() > 0


@pytest.mark.parametrize("alpha", [1, 2, 4, 16])
def test_generous_thresholds(alpha):
    """alpha > 1 lets one ingress hold more than what is free: the headroom of the others must stay untouched."""
    for delay in ("10ns", "1us"):
        topo = headroom_buffer(star(hosts=9, delay=delay), 40_000)
        flows = flow_list(topo, [(h, d, 100_000, f"{100 * h}ns") for h in range(1, 9) for d in (0, 1 + h % 8)])
        check_lossless(topo, flows, PFC(alpha=alpha))


@pytest.mark.parametrize("alpha", [0.11, 1.0, 2.0, 16.0])
def test_unbounded_switches_never_pause(alpha):
    topo = star(hosts=5, buffer="0B")
    run = check_lossless(topo, one_dst(topo, 200_000), PFC(alpha=alpha))
    assert run.ports["pauses_sent"].sum() == 0


@pytest.mark.parametrize("delay", ["10ns", "100ns"])
def test_pauses_do_not_wait_behind_acknowledgements(delay):
    """One-byte flows make more acknowledgement bytes than data: a pause that queued behind them would be too late."""
    topo = headroom_buffer(star(hosts=17, delay=delay), 2000)
    small = [(1, 2 + (i // 4) % 15, 1, f"{i}ns") for i in range(0, 3000, 4)]
    check_lossless(topo, flow_list(topo, small + [(h, 0, 200_000) for h in range(1, 17)]), PFC())


@pytest.mark.parametrize("other", ["bfc", "dqa", "bfc:stochastic"])
def test_lossless_below_other_schemes(other):
    topo = headroom_buffer(star(hosts=17), 10_000)
    name = "dqa:stochastic+bfc+pfc" if other == "bfc:stochastic" else f"{other}+pfc"
    run = simulate(topo, one_dst(topo, 100_000), name, measure=QUIET)
    assert run.summary["drops"] == 0


# ---- BFC ----


def full(run, topo) -> None:
    """Every drop is for a full buffer, and the buffer was full to within a packet."""
    assert set(reasons(run)) <= {"buffer full"}, reasons(run)
    if run.summary["drops"]:
        size = int(topo.buffer_bytes.max())
        assert size - 1048 < run.summary["max_buffer_bytes"] <= size, f"dropped at {run.summary['max_buffer_bytes']} of {size} B"


@pytest.mark.parametrize("queues", [1, 4, 32])
@pytest.mark.parametrize("buffer", ["5KB", "100KB", "6MB", "12MB"])
def test_bfc_drops_only_when_the_buffer_is_full(queues, buffer):
    topo = star(hosts=33, buffer=buffer)
    flows = flow_list(topo, [(h, 0, 50_000) for h in range(1, 33) for _ in range(4)])
    run = simulate(topo, flows, BFC(queues=queues), measure=QUIET, max_time_ps=10**13)  # 5 KB: many timeouts
    full(run, topo)
    assert run.summary["flows_finished"] == len(flows)
    assert (run.summary["drops"] > 0) == (buffer in ("5KB", "100KB")), f"{buffer}: {run.summary['drops']} drops"


def test_bfc_needs_little_buffer():
    """Pauses hold a long incast to about two one-hop bandwidth-delay products per queue, however much is sent."""
    topo = star(hosts=9, buffer="0B")
    deep = [simulate(topo, one_dst(topo, size), "bfc", measure=QUIET).summary["max_buffer_bytes"] for size in (10**6, 4 * 10**6)]
    assert deep[0] == deep[1] < 8 * 2 * 25_000 + 8 * 25_000, deep


@examples(30)
@given(networks(ps_per_byte=(40, 400), delay_ps=(100_000, 3_000_000)), st.data())
def test_bfc_on_random_networks(topo, data):
    size = data.draw(st.sampled_from([3000, 30_000, 300_000]))
    topo = type(topo)(
        **{**{f: getattr(topo, f) for f in topo.__dataclass_fields__}, "buffer_bytes": np.full(topo.switches, size)}
    )
    flows = data.draw(incasts(topo, 0))
    run = simulate(topo, flows, BFC(queues=data.draw(st.sampled_from([1, 2, 32]))), measure=QUIET, max_time_ps=100 * 10**12)
    full(run, topo)
    assert run.summary["flows_finished"] == len(flows), run.summary["warnings"]


def test_a_dumbbell_of_two_way_traffic_is_lossless():
    topo = headroom_buffer(dumbbell(left=4, right=4, bottleneck_rate="10Gbps", delay="2us"), 5000)
    flows = flow_list(
        topo,
        [(i, 4 + (i + k) % 4, 60_000) for i in range(4) for k in range(3)]
        + [(4 + i, (i + k) % 4, 60_000) for i in range(4) for k in range(3)],
    )
    check_lossless(topo, flows, PFC())


def test_nothing_is_lost_when_links_become_faster():
    """The incast runs at ten times the rates that the links had at first, and uses up what is shared."""
    topo = star(hosts=17, rate="10Gbps")
    changes = [{"time": "5us", "a": f"host{i}", "b": "switch0", "rate": "100Gbps"} for i in range(1, 17)]
    topo = dataclasses.replace(topo.with_changes(changes), buffer_bytes=headroom_buffer(star(hosts=17), 1000).buffer_bytes)
    flows = flow_list(topo, [(i, 0, 200_000, "20us") for i in range(1, 17)])
    run = check_lossless(topo, flows, PFC(alpha=8), finish=False, duration="80us", drain=False)
    assert run.ports["pauses_sent"].sum() > 0
