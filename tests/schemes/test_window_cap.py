"""The window cap: no flow ever has more unacknowledged bytes, whatever other schemes it is combined with."""

import pytest
from helpers import QUEUED_ACKS, check_alone, check_bad, check_sending, check_threads, senders, traced

from penstock_net.composition import parse
from penstock_net.sim.config import Measure
from penstock_net.topology import star
from penstock_net.workload import flow_list

MEASURE = Measure(sample="0.5us", packets=True, flow_series=True, flows=False)


def crowd(topo):
    return flow_list(topo, [(i, 0, 120_000, f"{i}us") for i in range(1, 5)])


@pytest.mark.parametrize("cap", ["500B", "7000B", "30KB"])
def test_every_departure(cap):
    """Nothing but the cap and the line decides when a packet leaves."""
    topo = star(hosts=5)
    flows = crowd(topo)
    run, rows = traced(topo, flows, "window_cap", {"cap": cap}, measure=MEASURE, host=QUEUED_ACKS)
    most = parse("window_cap", {"cap": cap}).values("window_cap")["cap"]
    assert set(run.extra["flow_series"]["window_bytes"]) == {most}
    sent, acks = senders(topo, flows, rows)
    for flow, got in acks.items():
        check_sending(sent[flow], got, [most] * (len(got) + 1), lambda *_: 0)


def test_the_default_is_one_bdp():
    topo = star(hosts=5)
    run, _ = traced(topo, crowd(topo), "fifo+window_cap", measure=MEASURE)
    assert set(run.extra["flow_series"]["window_bytes"]) == {-(-topo.base_rtt_ps() // 80)}


@pytest.mark.parametrize("scheme", ["hpcc", "dctcp", "dcqcn", "bfc", "fifo"])
def test_named_last_it_overrides_the_others(scheme):
    topo = star(hosts=5)
    run, _ = traced(topo, crowd(topo), scheme + "+window_cap", {"cap": "20KB"}, measure=MEASURE)
    windows = run.extra["flow_series"]["window_bytes"]
    assert windows.max() == 20_000
    assert (windows.min() < 20_000) == (scheme == "hpcc"), "HPCC asks for less at times"


def test_a_lone_flow_finishes_in_the_ideal_time():
    check_alone("window_cap")
    check_alone("fifo+window_cap")


def test_any_number_of_threads_gives_the_same_results():
    check_threads("bfc+window_cap", {"cap": "30KB"})
    check_threads("hpcc+window_cap", {"cap": "50KB"})


def test_bad_parameters_are_refused():
    check_bad("window_cap", {"cap": -1}, "zero or more")
