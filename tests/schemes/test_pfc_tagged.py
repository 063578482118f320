"""PFC with a destination tag: which sender is paused for which destination, what is held, and when it resumes."""

from collections import defaultdict

import polars as pl
import pytest
from helpers import DATA, QUEUED_ACKS, check_bad, check_threads, incast, network, traced

from penstock_net.sim.config import HostConfig, Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import behind_vswitches, leaf_spine, with_receivers
from penstock_net.workload import flow_list

VICTIM = [(4, 1, 100_000, "20us"), (8, 2, 100_000, "20us")]


def crowd(topo, size=150_000):
    return incast(topo, range(4, 16), size=size, more=VICTIM)


def test_only_the_crowded_destination_is_held_back():
    topo = network()
    run, rows = traced(topo, crowd(topo), "pfc_tagged", host=QUEUED_ACKS)
    held = {r.flow for r in rows if r.event == "hold"}
    assert held and {int(run.flows["dst"][f]) for f in held} == {0}
    assert run.ports["pauses_sent"].sum() > 0 and run.summary["drops"] == 0
    assert run.frame("nodes")["max_voqs"].max() == 1
    assert run.ports["paused_ns"].sum() == 0, "no port was paused as a whole"


def test_thresholds_are_obeyed():
    """The last hop asks for a pause when the queue to the destination exceeds xoff; pauses and resumes follow each other."""
    topo = network()
    run, rows = traced(topo, crowd(topo), "pfc_tagged", {"xoff": "50KB", "xon": "20KB", "lease": "1ms"}, host=QUEUED_ACKS)
    last_hop = 16
    length = [
        (r.at, r.port_bytes)
        for r in rows
        if r.node == last_hop and r.port == 0 and r.kind == DATA and r.event in ("enqueue", "dequeue")
    ]
    first = next(at for at, b in length if b > 50_000)
    came = sorted(r.at for r in rows if r.node > 19 and r.event == "receive")
    assert came and came[0] > first + 1_000_000
    assert run.summary["max_buffer_bytes"] > 50_000


def test_order_within_a_flow_is_kept():
    topo = network()
    run, rows = traced(topo, crowd(topo), "pfc_tagged", {"voqs": 1}, host=QUEUED_ACKS)
    assert any(r.event == "hold" for r in rows)
    seen = defaultdict(int)
    for r in rows:
        if r.event == "dequeue" and r.kind == DATA:
            assert r.offset >= seen[r.node, r.flow]
            seen[r.node, r.flow] = r.offset
    assert run.flows["retransmitted_bytes"].sum() == 0


def test_hosts_are_paused_for_that_destination_alone():
    topo = network()
    flows = incast(topo, range(4, 16), size=600_000, more=[(i, 1 + i % 3, 50_000, "60us") for i in range(4, 16)])
    calm = {}
    for pause in (False, True):
        run, _ = traced(topo, flows, "pfc_tagged", {"host_pause": pause}, host=QUEUED_ACKS)
        others = run.flows.filter(pl.col("dst") > 0)
        calm[pause] = run.summary["max_buffer_bytes"]
        assert others["slowdown"].max() < 6, "the others pass"
        assert others["paused_ns"].sum() == 0
        paused = run.flows.filter(pl.col("dst") == 0)["paused_ns"].sum()
        assert (paused > 0) == pause
    assert calm[True] < calm[False]


@pytest.mark.parametrize("control_loss", [0.1, 0.5])
@pytest.mark.parametrize("host_pause", [False, True])
def test_a_lost_resume_does_not_block_for_ever(control_loss, host_pause):
    topo = leaf_spine(hosts=16, tors=4, spines=2, buffer="4MB")
    from penstock_net.composition import parse

    run = simulate(
        topo,
        crowd(topo),
        parse("pfc_tagged", {"host_pause": host_pause}),
        control_loss=control_loss,
        measure=Measure(sample="0s"),
        host=HostConfig(rto="1ms"),
    )
    assert run.summary["flows_finished"] == run.flows.height


def test_pauses_are_renewed_after_a_link_has_changed_its_rate():
    """What a switch has paused stays paused, though its set-up is repeated: the changes are those of a link that nobody uses."""
    topo, stored = network(), {}
    changes = [{"time": f"{t}us", "a": "tor0", "b": "host1", "rate": "50Gbps"} for t in range(20, 600, 3)]
    for name, net in {"steady": topo, "changed": topo.with_changes(changes)}.items():
        run, _ = traced(
            net,
            incast(net, range(4, 16), size=900_000),
            "pfc_tagged",
            {"lease": "6us", "xoff": "200KB", "xon": "1KB"},
            host=QUEUED_ACKS,
        )
        stored[name] = run.ports["max_queue_bytes"].to_list(), run.ports["pauses_sent"].to_list()
    assert sum(stored["steady"][1]) > 100 and stored["changed"] == stored["steady"]


def test_quiet_networks_are_left_alone():
    topo = network()
    flows = flow_list(topo, [(4, 0, 500_000)])
    run, rows = traced(topo, flows, "pfc_tagged")
    assert run.flows["slowdown"][0] == 1 and not any(r.event == "hold" for r in rows)


def test_any_number_of_threads_gives_the_same_results():
    check_threads("pfc_tagged", {"xoff": "20KB", "xon": "10KB"})
    check_threads("hpcc+pfc_tagged", {"host_pause": True})


def test_bad_parameters_are_refused():
    check_bad("pfc_tagged", {"voqs": 0}, "1..4096")


# ---- Behind virtual switches ----


def test_the_switch_before_a_virtual_switch_is_a_last_hop():
    """PFC of a small virtual switch stops the way to its server before its own queue is long: the switch before it has to ask."""
    topo = behind_vswitches(leaf_spine(hosts=8, tors=2, spines=1, buffer="4MB"), apps=1, buffer="400KB")
    topo = with_receivers(topo, [{"host": 7, "rate": "1Gbps"}])
    flows = flow_list(topo, [(0, 7, "2MB"), *((3, dst, "300KB", "400us") for dst in (4, 5, 6))])
    for name, most in (("pfc", None), ("pfc_tagged", 4)):
        others = simulate(topo, flows, name, host=HostConfig(rto="1s"), max_time_ps=2 * 10**9).flows["slowdown"][1:]
        assert others.null_count() == (0 if most else 3) and (others.max() or 0) < (most or 1), name


def test_every_destination_of_a_server_is_resumed():
    """Two applications share the way from the last switch: when it is empty both may be sent to, whoever's packet left last."""
    topo = behind_vswitches(leaf_spine(hosts=4, tors=2, spines=1), apps=2, buffer="300KB")
    topo = with_receivers(topo, [{"host": 6, "rate": "2Gbps"}])
    flows = flow_list(topo, [*((src, 6, "500KB") for src in range(4)), *((src, 7, "1MB") for src in range(4))])
    run = simulate(topo, flows, "pfc_tagged", host=HostConfig(rto="1s"), max_time_ps=10**11)
    assert run.summary["flows_finished"] == len(flows) and run.summary["drops"] == 0
