"""link_clock = "ns": times on the line and gaps of paced flows are cut to whole nanoseconds, and nothing else is."""

from fractions import Fraction
from itertools import pairwise

import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st
from networks import HostConfig, Measure, flow_list, networks, simulate

from penstock_net.errors import SpecError
from penstock_net.spec import parse_spec
from penstock_net.topology import star

QUIET = Measure(sample="0s")
CBR = '''
"""Each flow is paced at a rate that is not the line's."""
parameters = {"rate": ("rate", "37Gbps", "of each flow")}


def on_start(cbr, node, flow, pkt):
    set_rate(flow, cbr.rate)
'''


def whole_ns(size, ps_per_byte, cut=lambda ps: max(1, ps // 1000)):
    """On a link of exactly this many ps per byte, ps.  A rate is a double, so what it misses whole nanoseconds by is no rest."""
    return 1000 * cut(int(size * Fraction(ps_per_byte) + Fraction(1, 2)))


def alone(path, size, host, took=whole_ns):
    """When the last byte of a flow is received, ps: packet by packet, link by link."""
    free, arrived = [0] * len(path), 0
    for start in range(0, size, host.mtu):
        arrived = 0
        for i, (ps_per_byte, delay) in enumerate(path):
            free[i] = max(free[i], arrived) + took(min(host.mtu, size - start) + host.header, ps_per_byte)
            arrived = free[i] + delay
    return arrived


def paths(topo, run, seed):
    at = {(link[node], link[port]): link for link in topo.links for node, port in (("a", "port_a"), ("b", "port_b"))}
    for flow, row in enumerate(run.flows.iter_rows(named=True)):
        hops = (at[hop] for hop in topo.path_links(flow, row["src"], row["dst"], seed))
        yield row, [(float(link["ps_per_byte"]), int(link["delay_ps"])) for link in hops]


@examples(40)
@given(networks(ps_per_byte=(1, 900)), st.data())
def test_a_lone_flow_to_the_picosecond(topo, data):
    """At any rates, also those of fractions of a picosecond a byte; ideal times are those of the same clock."""
    host = HostConfig(mtu=data.draw(st.sampled_from([1000, 100, 4096])), header=data.draw(st.integers(0, 100)), rto="1s")
    sizes = data.draw(st.lists(st.integers(1, 60_000), min_size=1, max_size=4))
    seed = data.draw(st.integers(0, 2**31 - 1))
    pairs = [(i % topo.hosts, (i + 1) % topo.hosts) for i in range(len(sizes))]
    listed = [(src, dst, size, f"{i * 10}ms") for i, ((src, dst), size) in enumerate(zip(pairs, sizes))]
    run = simulate(topo, flow_list(topo, listed), "fifo", seed=seed, host=host, measure=QUIET, link_clock="ns")
    for row, path in paths(topo, run, seed):
        assert round(1000 * row["fct_ns"]) == alone(path, row["bytes"], host), path
        assert row["slowdown"] == 1.0 and row["sender_slowdown"] == 1.0


@pytest.mark.parametrize(
    "mistake",
    [lambda ps: -(-ps // 1000), lambda ps: (ps + 500) // 1000, lambda ps: ps / 1000],
    ids=["up", "to the nearest", "not at all"],
)
def test_mistakes_about_it_are_seen(mistake):
    topo, host = star(hosts=2, rate="100Gbps"), HostConfig()
    run = simulate(topo, flow_list(topo, [(0, 1, "100KB")]), host=host, measure=QUIET, link_clock="ns")
    (row, path), *_ = paths(topo, run, 1)
    assert alone(path, 100_000, host) == round(1000 * row["fct_ns"]) == 101 * 83_000 + 2 * 10**6
    assert alone(path, 100_000, host, lambda size, rate: whole_ns(size, rate, mistake)) != round(1000 * row["fct_ns"])


def test_a_frame_takes_a_nanosecond_at_least():
    """On links so fast that it would take none, such as those within servers."""
    topo = star(hosts=2, rate="8Tbps")
    run = simulate(topo, flow_list(topo, [(0, 1, "1B")]), measure=QUIET, link_clock="ns")
    assert run.flows["fct_ns"].to_list() == [2002.0] and run.flows["slowdown"].to_list() == [1.0]


def test_gaps_of_paced_flows(tmp_path):
    """1048 B take 226.59 ns at 37 Gbit/s."""
    (tmp_path / "cbr.py").write_text(CBR)
    topo = star(hosts=2, rate="100Gbps")
    for clock, gap in (("ps", 226_594), ("ns", 226_000)):
        measure = Measure(sample="0s", packets=True)
        run = simulate(topo, flow_list(topo, [(0, 1, "20KB")]), str(tmp_path / "cbr.py"), measure=measure, link_clock=clock)
        packets = run.frame("packets")
        arrived = packets.filter((packets["node"] == 2) & (packets["event"] == "enqueue") & (packets["kind"] == 0))["time_ns"]
        gaps = [round(1000 * (after - before)) for before, after in pairwise(arrived.to_list())]
        assert len(gaps) == 19 and {abs(found - gap) <= 1 for found in gaps} == {True}


def test_a_link_that_changes_its_rate_keeps_the_clock():
    topo = star(hosts=2, rate="100Gbps").with_changes([{"time": "1us", "a": "host0", "b": "switch0", "rate": "56Gbps"}])
    run = simulate(topo, flow_list(topo, [(0, 1, 1000, "2us")]), measure=QUIET, link_clock="ns")
    assert run.flows["fct_ns"].to_list() == [149.0 + 83.0 + 2000.0]


def test_without_it_nothing_warns_and_nothing_changes():
    topo = star(hosts=3)
    flows = flow_list(topo, [(0, 2, "50KB"), (1, 2, "50KB")])
    default, exact, coarse = (
        simulate(topo, flows, measure=QUIET, **more) for more in ({}, {"link_clock": "ps"}, {"link_clock": "ns"})
    )
    assert default.flows.equals(exact.flows) and not default.flows.equals(coarse.flows)
    assert not any("link_clock" in text for text in exact.summary["warnings"])
    assert any("faster than their rate" in text for text in coarse.summary["warnings"])


def test_in_a_spec():
    table = {
        "run": {"duration": "10us", "link_clock": "ns"},
        "topology": {"kind": "star", "hosts": 2},
        "scheme": {"name": "fifo"},
        "workload": {"kind": "list", "flows": [[0, 1, "10KB"]]},
    }
    spec, without = parse_spec(table), parse_spec({**table, "run": {"duration": "10us"}})
    assert spec.key() != without.key() and "link_clock" not in without.to_toml() and parse_spec(spec.to_toml()) == spec
    topo = spec.build_topology()
    fct = [each.simulate(each.schemes[0], topo, each.build_flows(topo)).flows["fct_ns"][0] for each in (without, spec)]
    assert fct == [11 * 83.84 + 2000, 11 * 83.0 + 2000]
    with pytest.raises(SpecError, match=r'run\.link_clock = "us"'):
        parse_spec({**table, "run": {"duration": "10us", "link_clock": "us"}})


def test_what_is_refused():
    topo = star(hosts=2)
    flows = flow_list(topo, [(0, 1, "1KB")])
    with pytest.raises(SpecError, match=r'link_clock = "us": \w'):
        simulate(topo, flows, link_clock="us")
    with pytest.raises(SpecError, match=r'link_clock = "ns": switches that cut through .*leave it out'):
        simulate(topo.with_cut_through(True), flows, link_clock="ns")
