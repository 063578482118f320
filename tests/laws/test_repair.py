"""Go-back-N, timeouts, links that lose frames, go down, come back and change their rate."""

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
    trace,
)

from penstock_net.errors import SpecError
from penstock_net.topology import dumbbell, leaf_spine, star

TRACE = Measure(sample="0s", packets=True)


def check_delivery(run, flows, topo) -> None:
    """All flows finish, and every byte of each of them passed its last switch."""
    assert run.summary["flows_finished"] == len(flows), run.summary["warnings"]
    passed = (
        trace(run)
        .with_columns(
            at_last=pl.struct("node", "flow_id").map_elements(
                lambda r: r["node"] in topo.peers(int(flows.dst[r["flow_id"]])), return_dtype=pl.Boolean
            )
        )
        .filter("at_last")
    )
    for number, size in enumerate(flows.bytes.tolist()):
        offsets = passed.filter(pl.col("flow_id") == number)["offset_bytes"].unique().sort().to_list()
        assert offsets == list(range(0, size, 1000)), f"flow {number} of {size} B: only {len(offsets)} packets arrived"


@pytest.mark.parametrize("loss", [0.001, 0.01, 0.05])
@pytest.mark.parametrize("scheme", ["fifo", "bfc", "dqa", "dqa:stochastic"])
def test_every_flow_survives_link_loss(loss, scheme):
    topo = leaf_spine(hosts=8, tors=2, spines=2).with_loss(loss)
    flows = flow_list(topo, [(i, (i + k) % 8, 150_000) for i in range(8) for k in (1, 3, 4)])
    run = simulate(topo, flows, scheme, measure=TRACE, host=HostConfig(rto="200us"))
    check_delivery(run, flows, topo)
    assert run.flows["retransmitted_bytes"].sum() > 0 and set(reasons(run)) == {"link loss"}
    rate = run.summary["drops"] / run.ports["tx_packets"].sum()
    assert abs(rate - loss) < 4 * (loss / run.ports["tx_packets"].sum()) ** 0.5, f"{rate:.4f} of the frames were lost, not {loss}"


def test_retransmissions_are_counted_exactly():
    """Bytes sent by the host = bytes of the flow + retransmitted, headers aside."""
    topo = star(hosts=3).with_loss(0.03)
    flows = flow_list(topo, [(0, 1, 500_000), (2, 1, 123_456)])
    run = simulate(topo, flows, "fifo", host=HostConfig(rto="100us", header=0))
    for row in run.flows.iter_rows(named=True):
        sent = run.ports.filter(pl.col("node") == row["src"])["tx_bytes"].item()
        assert sent == row["bytes"] + row["retransmitted_bytes"]


@pytest.mark.parametrize(("size", "packets"), [(1, 1), (1000, 1), (1001, 2)])
def test_a_part_of_a_packet_that_is_sent_again_is_a_packet(size, packets):
    """The link is cut while the only flow is on it, and back before its sender tries again."""
    cut = [{"time": time, "a": "host1", "b": "switch0", "up": up} for time, up in (("500ns", False), ("10us", True))]
    topo = star(hosts=2).with_changes(cut)
    run = simulate(topo, flow_list(topo, [(0, 1, size)]), "fifo", host=HostConfig(rto="100us"))
    assert run.flows["retransmitted_bytes"].to_list() == [size] and run.summary["retransmissions"] == packets


@examples(25)
@given(networks(ps_per_byte=(10, 400), delay_ps=(50_000, 3_000_000)), st.data())
def test_random_networks_with_loss(topo, data):
    topo = topo.with_loss(data.draw(st.sampled_from([0.001, 0.02, 0.2])))
    flows = data.draw(incasts(topo, None, 30_000))
    run = simulate(
        topo,
        flows,
        data.draw(st.sampled_from(["fifo", "bfc"])),
        host=HostConfig(rto="1ms"),
        measure=TRACE,
        max_time_ps=60 * 10**12,
    )
    check_delivery(run, flows, topo)


def down(topo, a, b, at_ns, until_ns):
    return topo.with_changes(
        [{"time": f"{at_ns}ns", "a": a, "b": b, "up": False}, {"time": f"{until_ns}ns", "a": a, "b": b, "up": True}]
    )


@pytest.mark.parametrize("size", [1, 1000, 5000])
def test_the_last_packet_is_lost(size):
    """Only the timeout detects it, between 1 and 1.25 RTO after the last progress."""
    last = 1000 * (size // 1000) or size
    topo = star(hosts=2)
    alone = int(simulate(topo, flow_list(topo, [(0, 1, size)]), "fifo").flows["finish_ns"][0])
    cut = down(topo, "host1", "switch0", alone - 500, alone + 200)  # the last packet is on the last wire
    run = simulate(cut, flow_list(cut, [(0, 1, size)]), "fifo", host=HostConfig(rto="1ms"), measure=TRACE)
    assert reasons(run) == {"link down": run.summary["drops"]} and run.summary["flows_finished"] == 1
    assert 1e6 < run.flows["finish_ns"][0] < 1.3e6 + 2 * alone, f"finished at {run.flows['finish_ns'][0]} ns"
    assert run.flows["retransmitted_bytes"][0] >= min(size, last)


@pytest.mark.parametrize("lost_ns", range(1100, 4200, 250))
def test_the_last_acknowledgement_is_lost(lost_ns):
    """The receiver is done, the sender retransmits: the finish time stays that of the first arrival.

    Two frames of 548 B at 80 ps per byte and two links of 1 us; the ACK's 60 B come to the switch a link later.
    """
    topo = star(hosts=2)
    flows = flow_list(topo, [(0, 1, 500)])
    whole = simulate(topo, flows, "fifo").flows["finish_ns"][0]
    assert whole == pytest.approx(2000 + 2 * 548 * 0.08)
    cut = down(topo, "host0", "switch0", lost_ns, lost_ns + 300)
    run = simulate(cut, flows, "fifo", host=HostConfig(rto="100us"), measure=TRACE)
    assert run.summary["flows_finished"] == 1 and run.flows["finish_ns"][0] == whole
    forwarded = whole + 1000 + 60 * 0.08
    on_the_wire = lost_ns + 300 > forwarded and lost_ns < forwarded + 1000 + 60 * 0.08
    assert run.summary["drops"] == on_the_wire
    assert run.flows["retransmitted_bytes"][0] == 500 * run.summary["drops"]


@pytest.mark.parametrize("scheme", ["fifo", "bfc", "dqa"])
@pytest.mark.parametrize("where", [("tor0", "spine0"), ("tor1", "spine1"), ("host0", "tor0"), ("host7", "tor1")])
@pytest.mark.parametrize("sample", ["0s", "2us"])
def test_a_link_goes_down_and_comes_back(scheme, where, sample):
    topo = down(leaf_spine(hosts=8, tors=2, spines=2), *where, 20_000, 300_000)
    flows = flow_list(topo, [(i, (i + k) % 8, 400_000) for i in range(8) for k in (1, 4)])
    run = simulate(topo, flows, scheme, host=HostConfig(rto="100us"), measure=Measure(sample=sample))
    assert run.summary["flows_finished"] == len(flows), run.summary["warnings"]
    assert {"link down"} <= set(reasons(run)) <= {"link down", "no route"}, reasons(run)
    again = simulate(topo, flows, scheme, host=HostConfig(rto="100us"), measure=Measure(sample=sample), threads=2)
    assert again.flows.equals(run.flows) and again.ports.equals(run.ports)


def test_traffic_moves_to_the_other_spine_at_once():
    topo = leaf_spine(hosts=4, tors=2, spines=2).with_changes([{"time": "10us", "a": "tor0", "b": "spine0", "up": False}])
    flows = flow_list(topo, [(0, 2, 100_000, f"{i * 20}us") for i in range(1, 30)])
    run = simulate(topo, flows, "fifo", measure=TRACE)
    assert run.summary["drops"] == 0 and (run.flows["slowdown"] == 1.0).all()
    assert not trace(run).filter((pl.col("node") == topo.node("spine0")) & (pl.col("time_ns") > 12_000)).height


@pytest.mark.parametrize("rto", ["4ms", "100s"])
@pytest.mark.parametrize("sample", ["0s", "2us", "50us"])
def test_a_packet_that_waited_for_the_link_leaves_when_it_is_up(rto, sample):
    """Nothing else happens in the network: the packet sent at the very moment of the change must not be forgotten."""
    topo = down(star(hosts=2), "host0", "switch0", 0, 10_000)
    run = simulate(topo, flow_list(topo, [(0, 1, 500, "1us")]), "fifo", host=HostConfig(rto=rto), measure=Measure(sample=sample))
    assert run.flows["finish_ns"][0] == 10_000 + 2 * 548 * 0.08 + 2000


def test_a_rate_changes_during_a_run():
    """10 Gbit/s until 100 us, 100 Gbit/s from then on: exact for a flow whose packets are sent back to back."""
    topo = star(hosts=2, rate="10Gbps").with_changes(
        [{"time": "100us", "a": f"host{i}", "b": "switch0", "rate": "100Gbps"} for i in (0, 1)]
    )
    run = simulate(topo, flow_list(topo, [(0, 1, 1_000_000)]), "fifo")
    slow = -(-100_000 // 838.4)  # packets whose sending began before the change
    expected = slow * 838.4 + (1000 - slow) * 83.84
    assert abs(run.flows["finish_ns"][0] - expected - 2000 - 838.4) < 838.4
    assert run.ports["utilization"].max() <= 1.0, f"a port was busy {run.ports['utilization'].max():.3f} of the time"


@pytest.mark.parametrize("scheme", [BFC(), PFC()], ids=str)
def test_slower_and_faster_while_paused(scheme):
    changes = [
        {"time": f"{t}us", "a": "host0", "b": "switch0", "rate": r}
        for t, r in ((20, "10Gbps"), (200, "50Gbps"), (400, "100Gbps"))
    ]
    topo = star(hosts=6).with_changes(changes)
    run = simulate(topo, one_dst(topo, 500_000), scheme)
    assert run.summary["flows_finished"] == 5 and run.summary["drops"] == 0


@examples(30)
@given(st.data())
def test_links_that_come_and_go_at_random(data):
    """As long as every link is up in the end, every flow finishes; with bfc no pause is left behind."""
    topo = leaf_spine(hosts=6, tors=2, spines=2)
    changes = []
    for _ in range(data.draw(st.integers(1, 6))):
        link = topo.links[data.draw(st.integers(0, len(topo.links) - 1))]
        start = data.draw(st.integers(0, 100_000))
        ends = {"a": topo.names[link["a"]], "b": topo.names[link["b"]]}
        changes += [
            {"time": f"{start}ns", **ends, "up": False},
            {"time": f"{start + data.draw(st.integers(1, 200_000))}ns", **ends, "up": True},
        ]
    topo = topo.with_changes(
        changes + [{"time": "350us", "a": topo.names[x["a"]], "b": topo.names[x["b"]], "up": True} for x in topo.links]
    )
    flows = data.draw(incasts(topo, None, 200_000, (5, 20)))
    run = simulate(
        topo,
        flows,
        data.draw(st.sampled_from(["fifo", "bfc", "dqa:stochastic"])),
        host=HostConfig(rto="100us"),
        measure=Measure(sample="0s"),
    )
    assert run.summary["flows_finished"] == len(flows), run.summary["warnings"]
    assert set(reasons(run)) <= {"link down", "no route"}


def test_go_back_n_on_a_full_buffer():
    topo = dumbbell(left=6, right=1, bottleneck_rate="10Gbps", buffer="30KB")
    flows = flow_list(topo, [(i, 6, 100_000) for i in range(6)])
    run = simulate(topo, flows, "fifo", measure=TRACE)
    check_delivery(run, flows, topo)
    assert set(reasons(run)) == {"buffer full"} and run.flows["retransmitted_bytes"].sum() > 0


def test_pfc_survives_a_link_that_fails_at_the_wrong_moment():
    """host1's resume is on its wire when the link goes down for 20 us."""
    topo = headroom_buffer(star(hosts=4), 20_000)
    flows = one_dst(topo, 10**6)
    pauses = simulate(topo, flows, PFC(), measure=Measure(sample="0s", pauses=True)).pauses
    resumed = pauses.filter((pl.col("node") == 1) & ~pl.col("paused"))["time_ns"].to_list()
    for at_ns in [int(t) - 500 for t in resumed[:5]]:
        run = simulate(
            down(topo, "host1", "switch0", at_ns, at_ns + 20_000),
            flows,
            PFC(),
            max_time_ps=10**11,
            measure=Measure(sample="0s"),
        )
        assert run.summary["flows_finished"] == 3, f"link down at {at_ns} ns: {run.summary['warnings']}"


def test_utilization_of_a_link_that_gets_slower():
    topo = star(hosts=2).with_changes([{"time": "50us", "a": f"host{i}", "b": "switch0", "rate": "10Gbps"} for i in (0, 1)])
    run = simulate(topo, flow_list(topo, [(0, 1, 700_000)]), "fifo")
    assert run.ports["utilization"].max() <= 1.0, f"a port was busy {run.ports['utilization'].max():.3f} of the time"


def test_pfc_when_a_link_gets_faster():
    """Headroom grows with the rate, and the buffer must have room for that from the start."""
    slow = star(hosts=17, rate="10Gbps", delay="20us")
    changes = [{"time": "1us", "a": f"host{i}", "b": "switch0", "rate": "100Gbps"} for i in range(1, 17)]
    topo = star(hosts=17, rate="10Gbps", delay="20us", buffer="14MB").with_changes(changes)
    run = simulate(topo, one_dst(topo, 10**6), PFC(), measure=Measure(sample="0s"))
    assert run.summary["drops"] == 0, reasons(run)
    assert run.ports["pauses_sent"].sum() > 0
    with pytest.raises(SpecError, match="headroom of switch0"):
        simulate(headroom_buffer(slow, 20_000).with_changes(changes), one_dst(topo, 10**6), PFC())
