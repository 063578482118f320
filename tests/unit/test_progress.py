"""How far a run is, how fast it has been of late and how long it will take."""

from types import SimpleNamespace

import numpy as np
import pytest

from penstock_net import progress as bars
from penstock_net.sim.simulate import simulate
from penstock_net.sim.work import Work
from penstock_net.topology import star
from penstock_net.workload import flow_list
from penstock_net.workload.collectives import ring_all_reduce


def work_of(flows, end_ps, *times, ps_per_byte=80):
    work = Work(flows, end_ps, ps_per_byte)
    return [work.share(time) for time in times]


def test_a_phase_without_traffic_is_no_work():
    topo = star(hosts=4)
    phases = [(0, 1, "1KB", f"{i}us") for i in range(100)] + [(1, 2, "1KB", f"{900 + i / 3:g}us") for i in range(300)]
    found = work_of(flow_list(topo, phases), 10**9, 0, 10**8, 5 * 10**8, 9 * 10**8, 10**9)
    assert found == pytest.approx([0, 0.25, 0.25, 0.25, 1], abs=0.002)


def test_a_long_flow_is_work_while_it_sends():
    found = work_of(flow_list(star(hosts=4), [(0, 1, "10MB")]), 10**9, 0, 2 * 10**8, 4 * 10**8, 8 * 10**8, 10**9)
    assert found == pytest.approx([0, 0.25, 0.5, 1, 1], abs=0.002)


def test_flows_beyond_the_end_and_those_that_wait():
    assert work_of(flow_list(star(hosts=4), [(0, 1, "1GB")]), 10**6, 0, 5 * 10**5, 10**6) == pytest.approx([0, 0.5, 1])
    assert work_of(ring_all_reduce(star(hosts=4), bytes=4000), 100, 25) == [0.25]


def test_shares_rise_to_one():
    seen = []
    flows = flow_list(star(hosts=4), [(i % 4, (i + 1) % 4, "100KB", f"{i**2}us") for i in range(30)])
    simulate(star(hosts=4), flows, "fifo", progress=seen.append)
    shares = [report.share for report in seen]
    assert shares == sorted(shares) and len(set(shares)) > 1 and 0.9 < shares[-1] <= 1


def pace_of(*points):
    pace = bars.Pace()
    for wall_s, share, hops in points:
        pace.add(SimpleNamespace(wall_s=wall_s, share=share, packet_hops=hops))
    return pace


def test_the_pace_is_that_of_late():
    """A machine that is ten times as slow after an hour: the estimate follows."""
    fast = [(float(t), 1e-5 * t, 1000 * t) for t in range(3600)]
    slow = [(3600.0 + t, 0.036 + 1e-6 * t, 3_600_000 + 100 * t) for t in range(1200)]
    assert pace_of(*fast).left_s() == pytest.approx((1 - 0.036) / 1e-5, rel=0.01)
    later = pace_of(*fast, *slow)
    assert later.left_s() == pytest.approx((1 - 0.0372) / 1e-6, rel=0.01) and later.hops_per_s() == pytest.approx(100, rel=0.02)
    assert len(later.marks) < 200


def test_what_was_before_a_checkpoint_does_not_count():
    resumed = [(36_000.0 + t, 0.9 + 0.001 * t, 10**9 + 500 * t) for t in range(20)]
    assert pace_of(*resumed).left_s() == pytest.approx(81, rel=0.01) and pace_of(*resumed).hops_per_s() == pytest.approx(500)
    assert pace_of(resumed[0]).left_s() is None and pace_of(resumed[0]).hops_per_s() == 0


def test_the_steps_of_time_are_exact_in_the_sum():
    starts = np.array([5.0, 5.0, 999.0, 0.0])
    work = Work(flow_list(star(hosts=4), [(0, 1, "1KB")]), 1000, 80)
    assert work._since(starts)[[0, 5, 6, 1000]].tolist() == [0, 5, 8, 1 + 2 * 995 + 1000]
