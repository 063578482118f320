"""Pauses: none lasts for ever when frames are lost; a flow runs out of packets as rarely as BFC's appendix C states."""

import dataclasses

import numpy as np
import polars as pl
import pytest
from networks import BFC, HostConfig, Measure, flow_list, make_links, one_dst, simulate, trace
from paper.bfc import E_f, E_f_max

from penstock_net.topology import Topology, leaf_spine, star


@pytest.mark.parametrize("control_loss", [0.01, 0.1, 0.3])
@pytest.mark.parametrize("queues", [1, 32])
def test_no_pause_lasts_for_ever(control_loss, queues):
    """The bitmap is sent again every 10 us: a lost resume costs that much, not the flow."""
    topo = leaf_spine(hosts=16, tors=4, spines=2, uplink_rate="50Gbps")
    flows = one_dst(topo, 100_000) + flow_list(topo, [(i, (i + 5) % 16, 100_000) for i in range(16)])
    run = simulate(
        topo,
        flows,
        BFC(queues=queues),
        control_loss=control_loss,
        max_time_ps=10**11,
        measure=Measure(sample="0s", pauses=True),
    )
    assert run.summary["flows_finished"] == len(flows), run.summary["warnings"]
    lost = run.ports["drop_reason"].drop_nulls().str.contains("link loss").sum()
    assert lost and run.pauses["paused"].sum() > 100, "without lost pauses this proves nothing"
    assert run.flows["retransmitted_bytes"].sum() == 0, "only control frames are lost here, and no flow waits for an RTO"


def paused_for_ever(run) -> int:
    """Queues whose last change was a pause."""
    last = run.pauses.group_by("node", "port", "queue", maintain_order=True).last()
    return int(last["paused"].sum())


def incast_without_every_resume(refresh):
    """The constructed case: an incast over links that lose 3 of 10 pauses and resumes."""
    topo = star(hosts=9)
    measure = Measure(sample="0s", pauses=True)
    settings = {"control_loss": 0.3, "max_time_ps": 20 * 10**9, "measure": measure}
    return simulate(topo, one_dst(topo, 300_000), BFC(refresh=refresh), **settings)


def test_without_the_bitmap_a_lost_resume_is_for_ever():
    run = incast_without_every_resume("0us")
    assert run.summary["flows_finished"] < 8 and paused_for_ever(run) > 0, "expected a flow that is never resumed"
    assert run.summary["end_ns"] == 20e6 and run.summary["warnings"]
    assert run.flows["finish_ns"].null_count() == 8 - run.summary["flows_finished"]


def test_the_bitmap_makes_up_for_lost_resumes():
    run = incast_without_every_resume("10us")
    assert run.summary["flows_finished"] == 8 and run.summary["end_ns"] < 1e6


@pytest.mark.parametrize("control_loss", [0.01, 0.1, 0.3])
def test_pfc_repeats_itself_too(control_loss):
    """Its frames are repeated every 50 us; what a lost pause lets through may be dropped, and is sent again."""
    topo = star(hosts=9, buffer="600KB")
    settings = {"control_loss": control_loss, "max_time_ps": 10**11, "host": HostConfig(rto="500us")}
    run = simulate(topo, one_dst(topo, 300_000), "pfc", **settings)
    assert run.summary["flows_finished"] == 8, run.summary["warnings"]
    assert run.ports["pauses_sent"].sum() > 0


def test_every_pause_is_lifted_in_the_end():
    topo = leaf_spine(hosts=16, tors=4, spines=2)
    flows = one_dst(topo, 200_000) + flow_list(topo, [(0, 15, 10, "2ms")])  # the last one gives the resumes time to arrive
    run = simulate(topo, flows, "bfc", measure=Measure(sample="0s", pauses=True))
    assert run.pauses["paused"].sum() > 0 and paused_for_ever(run) == 0


# ---- Appendix C: E_f(x, Th) ----


def one_hop(upstream_ps: int, bottleneck_ps: int, delay_ps: int) -> Topology:
    """host0 - (rate x mu) - switch - (rate mu) - host1: the upstream is a NIC that always has more to send."""
    links = make_links([0, 1], [2, 2], [upstream_ps, bottleneck_ps], delay_ps)
    return Topology("file", 2, 1, links, np.zeros(1, dtype=np.int64), ("a", "b", "s"), np.array([0, 0, 1]), {})


def idle_fraction(x_ps: int, mu_ps: int, delay_ps: int, th: float, mtu: int) -> float:
    """Fraction of time in which the bottleneck's queue is empty, between the first and the last packet sent there."""
    topo = one_hop(x_ps, mu_ps, delay_ps)
    size = 400 * delay_ps // mu_ps  # 200 one-hop round trips
    run = simulate(
        topo,
        flow_list(topo, [(0, 1, size)]),
        BFC(th=th, refresh=0),
        host=HostConfig(mtu=mtu, header=0),
        measure=Measure(sample="0s", packets=True),
    )
    sent = trace(run).filter(pl.col("node") == 2)
    times, sizes = sent["time_ns"].to_numpy()[20:], sent["bytes"].to_numpy()[20:]
    later = len(times) // 5  # after the start has been forgotten
    times, sizes = times[later:], sizes[later:]
    busy = sizes[:-1].sum() * mu_ps / 1000
    return 1 - busy / (times[-1] - times[0])


@pytest.mark.parametrize(
    "x, th, most",
    [
        (2.0, 1.0, 0.20),
        (1.1, 1.0, 0.076),
        (1.5, 1.0, None),
        (3.0, 1.0, None),
        (1.25, 1.0, None),
        (2.0, 0.5, None),
        (2.0, 2.0, None),
        (1.5, 0.25, None),
    ],
)
def test_a_flow_is_short_of_packets_as_appendix_c_says(x, th, most):
    mu_ps, delay_ps = 660, 20_000_000  # HRTT * mu is 60 kB: packets of 100 B make it nearly a fluid
    measured, expected = idle_fraction(round(mu_ps / x), mu_ps, delay_ps, th, 100), E_f(x, th)
    assert abs(measured - expected) < 0.02, f"x = {x}, Th = {th}: idle {measured:.4f} of the time, E_f = {expected:.4f}"
    if most:
        assert expected <= most + 5e-4 and measured < most + 0.02


def test_the_worst_case_is_at_twice_the_drain_rate():
    """(5): for Th = HRTT * mu the largest E_f is 20 %, at x = 2."""
    assert E_f_max(1.0) == (0.2, 2.0)
    idle = {x: idle_fraction(round(660 / x), 660, 20_000_000, 1.0, 100) for x in (1.2, 2.0, 5.0)}
    assert max(idle, key=idle.get) == 2.0 and idle[2.0] < 0.22, idle


@pytest.mark.parametrize("th", [0.25, 0.5, 1.0, 2.0])
def test_the_queue_stays_within_the_threshold_and_one_round_trip(th):
    """Phases 1 and 2 of appendix C: at the peak the queue is Th + (x - 1) HRTT mu, and a few packets."""
    topo = one_hop(330, 660, 20_000_000)
    run = simulate(
        topo,
        flow_list(topo, [(0, 1, 3_000_000)]),
        BFC(th=th, refresh=0),
        host=HostConfig(mtu=100, header=0),
        measure=Measure(sample="0s"),
    )
    peak = run.ports.filter((pl.col("node") == 2) & (pl.col("peer") == 1))["max_queue_bytes"].item()
    hrtt_mu = 2 * 20_000_000 / 660
    assert abs(peak - (th + 1) * hrtt_mu) < 1000, f"peak {peak} B, expected {(th + 1) * hrtt_mu:.0f} B"


def test_unequal_delays_use_the_largest_round_trip():
    """Th is HRTT * mu / N of the longest link, whichever port the packets come in on."""
    topo = one_hop(330, 660, 20_000_000)
    links = topo.links.copy()
    links["delay_ps"][0] = 1_000_000
    topo = dataclasses.replace(topo, links=links)
    run = simulate(topo, flow_list(topo, [(0, 1, 3_000_000)]), BFC(refresh=0), host=HostConfig(mtu=100, header=0))
    peak = run.ports.filter((pl.col("node") == 2) & (pl.col("peer") == 1))["max_queue_bytes"].item()
    assert abs(peak - (40_000_000 + 2_000_000) / 660) < 1000, peak
