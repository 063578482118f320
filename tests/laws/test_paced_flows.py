"""Paced flows that share a NIC: each has its rate, whatever the others', as long as all of them together are below the line's."""

from itertools import pairwise

import polars as pl
import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st
from networks import HostConfig, Measure, available, flow_list, simulate

from penstock_net.composition import parse
from penstock_net.sim.settings import Settings
from penstock_net.topology import star

CBR = '''
"""Each flow is paced at a share of its line, by its number, whatever happens."""

parameters = {"shares": ("float64[8] 0..1", [0.25], "of each flow, from number 0 on")}


def on_start(cbr, node, flow, pkt):
    set_rate(flow, cbr.shares[flow.number] * 8e12 / port_of(flow).ps_per_byte)
'''
HEADER = 48
NS_PER_BYTE = 0.08
FROM_NS, TO_NS = 500_000, 6_500_000


@pytest.fixture(scope="module")
def cbr(tmp_path_factory):
    path = tmp_path_factory.mktemp("schemes") / "cbr.py"
    path.write_text(CBR)
    return str(path)


def packets_of(cbr, shares, mtu=1000, pacing="from due time"):
    """Packets of each flow that were acknowledged between two times; all flows leave one host, each to a host of its own."""
    topo = star(hosts=1 + len(shares), rate="100Gbps", delay="1us", buffer="4MB")
    flows = flow_list(topo, [(0, 1 + i, "200MB") for i in range(len(shares))])
    measure = Measure(sample="500us", flows=False, flow_series=True)
    host = HostConfig(mtu=mtu, pacing=pacing)
    scheme = parse(cbr, {"shares": shares})
    run = simulate(topo, flows, scheme, measure=measure, host=host, max_time_ps=1000 * TO_NS + 1)
    series = run.frame("flow_series").sort("flow_id")
    ends = [series.filter(pl.col("time_ns") == at)["acked_bytes"].to_numpy() for at in (FROM_NS, TO_NS)]
    return ((ends[1] - ends[0]) / mtu).tolist()


def expected(share, mtu):
    return share * (TO_NS - FROM_NS) / ((mtu + HEADER) * NS_PER_BYTE)


@examples(30)
@given(st.data())
def test_rates_below_the_line_s_are_had(cbr, data):
    """Within 0.1 %, and the packet that a count is off by at each end."""
    weights = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=8))
    total = data.draw(st.sampled_from([0.3, 0.55, 0.83, 0.95, 0.98]))
    shares = [total * weight / sum(weights) for weight in weights]
    mtu = data.draw(st.sampled_from([500, 1000, 1460]))
    for share, count in zip(shares, packets_of(cbr, shares, mtu)):
        assert abs(count - expected(share, mtu)) <= 0.001 * expected(share, mtu) + 1, f"{share} of {shares}, {mtu} B"


@pytest.mark.parametrize(
    "shares, locked", [((0.25, 0.3), (0.25, 0.25)), ((0.33, 0.5), (0.25, 0.5)), ((0.05, 0.9), (0.048, 0.862))]
)
def test_from_the_start_of_a_packet_periods_lock(cbr, shares, locked):
    """As in ns-3, whose results need it: a packet that waits for the other flow's moves all later ones of its flow."""
    for pacing, wanted in (("from start", locked), ("from due time", shares)):
        found = [count / expected(1, 1000) for count in packets_of(cbr, list(shares), pacing=pacing)]
        assert found == pytest.approx(wanted, rel=0.002 if pacing == "from due time" else 0.02)


def test_a_long_wait_is_made_up_for_in_part(cbr):
    """A link is down for 1 ms: of the 119 packets that were due meanwhile those of the last 128 packet times are sent at once."""
    changes = [{"time": f"{time}us", "a": "host0", "b": "switch0", "up": up} for time, up in ((100, False), (1100, True))]
    topo = star(hosts=2, rate="100Gbps", delay="1us").with_changes(changes)
    flows = flow_list(topo, [(0, 1, "20MB")])
    measure = Measure(sample="0s", packets=True)
    run = simulate(
        topo, flows, parse(cbr, {"shares": [0.1]}), measure=measure, host=HostConfig(rto="1s"), max_time_ps=1_300_000_000
    )
    mine = run.frame("packets").filter((pl.col("node") == topo.hosts) & (pl.col("event") == "enqueue") & (pl.col("flow_id") == 0))
    times = [time for time in mine.sort("time_ns")["time_ns"].to_list() if time > 1_100_000]
    slot = (1000 + HEADER) * NS_PER_BYTE
    at_once = next(i for i, (a, b) in enumerate(pairwise(times)) if b - a > 1.5 * slot) + 1
    assert 12 <= at_once <= 16
    later = [b - a for a, b in pairwise(times[at_once:])]
    assert later and min(later) >= 9.9 * slot


def test_schemes_after_simulators_pace_as_these_do():
    """What sets rates in the package and follows its authors' simulator is paced from the start of a packet."""
    topo = star(hosts=3)
    flows = flow_list(topo, [(0, 2, "5KB")])

    def pacing(name):
        return Settings(topo, flows, parse(name)).host.pacing

    simulators = ("hpcc", "fncc", "dcqcn", "timely", "powertcp", "theta_powertcp")
    names = [name if key == "default" else f"{name}:{key}" for name in simulators for key in available()[name].presets]
    names += ["dctcp:ns3", "dctcp:bfc", "dctcp:bfc_slow_start", "dctcp:floodgate", "backdraft", "hpcc+dqa"]
    assert {pacing(name) for name in names} == {"from start"}
    assert {pacing(name) for name in ("fifo", "swift", "bfc")} == {"from due time"}
    assert pacing(parse("hpcc", {"host.pacing": "from due time"})) == "from due time"
