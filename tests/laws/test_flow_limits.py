"""A rate or a window of a flow bounds what its transport sends: exactly, and whatever the transport."""

import numpy as np
import polars as pl
import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st
from networks import HostConfig, Measure, available, flow_list, simulate

from penstock_net.errors import SpecError
from penstock_net.topology import leaf_spine, star
from penstock_net.workload import flows_from_csv, flows_from_parquet, flows_to_csv, flows_to_parquet

FRAME, ACK, BYTE, DELAY = 1048, 60, 80, 1_000_000  # B, B, ps, ps
STAR = star(hosts=5)  # 100 Gbit/s, 1 us
GRANTED = [name for name, one in available().items() if one.fabric.get("one_link")]
SENDING = [
    name for name in ("fifo", "bfc", "pfc", "floodgate", "dctcp", "hpcc", "powertcp", "swift", "dcqcn", "timely", "pfabric")
]
QUIET = Measure(sample="0s")


def one(size, **limits):
    return flow_list(STAR, [{"src": 0, "dst": 1, "bytes": size, **limits}])


@examples(80)
@given(st.integers(10_000, 10**11), st.integers(1, 60), st.integers(1, 1000), st.sampled_from(["from start", "from due time"]))
def test_a_lone_flow_has_exactly_its_rate(rate, packets, last, pacing):
    """Each packet begins as long after the one before it as that takes at the rate, to the picosecond."""
    size = (packets - 1) * 1000 + last
    run = simulate(STAR, one(size, rate=rate), measure=QUIET, host=HostConfig(pacing=pacing, rto="1s"), max_time_ps=10**15)
    gap = int(FRAME * (8e12 / rate))
    if gap > FRAME * BYTE:
        end = (last + 48) * BYTE
        behind = (packets - 2) * gap + 2 * FRAME * BYTE + end if packets > 1 else 0  # at the switch, if it is short
        assert round(run.flows["fct_ns"][0] * 1000) == max((packets - 1) * gap + 2 * end, behind) + 2 * DELAY
    else:
        assert run.flows["slowdown"][0] == 1


@pytest.mark.parametrize("rate", ["7Gbps", "33Gbps", "99Gbps"])
@pytest.mark.parametrize("scheme", SENDING)
def test_no_transport_is_faster_than_the_rate(scheme, rate):
    """Nor slower, alone on an idle path where it would have all of it."""
    free, bound = (simulate(STAR, one(500_000, **given_), scheme, measure=QUIET) for given_ in ({}, {"rate": rate}))
    sent = bound.frame("ports").filter((pl.col("node") == 0) & (pl.col("port") == 0))["tx_bytes"][0]  # with telemetry, if any
    wire = sent * 8 / float(rate[:-4])  # ns
    assert bound.flows["fct_ns"][0] >= wire - 1200 * 8 / float(rate[:-4])
    if free.flows["fct_ns"][0] < 0.9 * wire:
        assert bound.flows["fct_ns"][0] == pytest.approx(wire + 2_000, rel=0.01)


@pytest.mark.parametrize("scheme", SENDING)
def test_windows_are_kept(scheme):
    """With room for two packets, two of them a round trip; what each scheme makes of its own window is left to it."""
    run = simulate(STAR, one(40_000, window="2KB"), scheme, measure=QUIET)
    trip = 2 * FRAME * BYTE + 2 * ACK * BYTE + 4 * DELAY  # of the first packet and its ACK
    least = 19 * trip / 1000
    assert run.flows["fct_ns"][0] >= 0.98 * least
    if scheme == "fifo":
        assert run.flows["fct_ns"][0] * 1000 == 19 * trip + 3 * FRAME * BYTE + 2 * DELAY


def test_a_window_is_a_window_of_any_size():
    """As window_cap is, for one flow of two."""
    both = flow_list(STAR, [{"src": 0, "dst": 2, "bytes": 60_000, "window": 7_300}, {"src": 1, "dst": 3, "bytes": 60_000}])
    ours = simulate(STAR, both, "fifo", measure=QUIET).flows
    theirs = simulate(STAR, flow_list(STAR, [(0, 2, 60_000)]), "fifo+window_cap", measure=QUIET)
    capped = simulate(STAR, flow_list(STAR, [(0, 2, 60_000)]), _capped(7_300), measure=QUIET)
    assert ours["fct_ns"][0] == capped.flows["fct_ns"][0] > theirs.flows["fct_ns"][0]
    assert ours["slowdown"][1] == 1


def _capped(size):
    from penstock_net.composition import parse

    return parse("fifo+window_cap", {"cap": size})


def test_rates_share_a_nic():
    """Flows of one host have their rates together, if the NIC has them all."""
    rates = [10, 25, 33, 30]
    flows = flow_list(STAR, [{"src": 0, "dst": 1 + i, "bytes": 1000 * 40 * r, "rate": f"{r}Gbps"} for i, r in enumerate(rates)])
    run = simulate(STAR, flows, measure=QUIET)
    for fct, rate in zip(run.flows["fct_ns"].to_list(), rates):
        alone = (40 * rate - 1) * FRAME * 8 / rate + 2 * FRAME * BYTE / 1000 + 2000
        assert -1 < fct - alone <= 3 * FRAME * BYTE / 1000  # the last packet waits for one of each of the others at most


@pytest.mark.parametrize("name", GRANTED)
def test_receivers_that_say_when_a_flow_sends_refuse_it(name):
    for limits, column in (({"rate": "1Gbps"}, "rate_bps"), ({"window": "3KB"}, "window_bytes")):
        with pytest.raises(
            SpecError, match=rf"flows\.0\.{column} = .*: receivers of {name} say when a flow sends.*; leave it out"
        ):
            simulate(STAR, one(5000, **limits), name)


def test_messages_of_a_connection_have_the_same():
    message = {"src": 0, "dst": 2, "bytes": 5000, "connection": 1}
    run = simulate(STAR, flow_list(STAR, [{**message, "rate": "1Gbps"}] * 3), measure=QUIET)
    assert run.flows["fct_ns"].max() == pytest.approx(15 * FRAME * 8 + 2000, rel=0.08)
    with pytest.raises(
        SpecError, match=r"flows\.1\.rate_bps = 0: flow 0, of the same connection, has 1000000000; a connection has one"
    ):
        flow_list(STAR, [{**message, "rate": "1Gbps"}, message])


def test_files_have_them(tmp_path):
    flows = flow_list(
        STAR, [{"src": 0, "dst": 1, "bytes": 9, "rate": "2Gbps"}, (1, 2, 9), {"src": 2, "dst": 0, "bytes": 9, "window": 4}]
    )
    for write, read, name in ((flows_to_csv, flows_from_csv, "f.csv"), (flows_to_parquet, flows_from_parquet, "f.parquet")):
        write(flows, tmp_path / name)
        again = read(tmp_path / name, STAR)
        assert again.limits is not None and np.array_equal(again.limits, flows.limits)
    assert flows.key() != flow_list(STAR, [(0, 1, 9), (1, 2, 9), (2, 0, 9)]).key()
    both = flow_list(STAR, [(3, 1, 9, "1us")]) + flows
    assert both.limits.rate_bps.tolist() == [2 * 10**9, 0, 0, 0] and both.until(1).limits.window_bytes.tolist() == [0, 0, 4]
    plain = "src,dst,bytes,start_ns"
    for cell, rule in (("0", "must be between 10000 and"), ("1e20", "must be between"), ("x", "is not a number")):
        (tmp_path / "bad.csv").write_text(f"{plain},rate_bps\n0,1,9,0,{cell}\n")
        with pytest.raises(SpecError, match=rf"bad\.csv:2: rate_bps = \"{cell}\": {rule}"):
            flows_from_csv(tmp_path / "bad.csv", STAR)
    (tmp_path / "empty.csv").write_text(f"{plain},rate_bps,window_bytes\n0,1,9,0,,\n")
    assert flows_from_csv(tmp_path / "empty.csv", STAR).limits is None


def test_other_flows_are_as_they_were():
    """A bound that never binds changes no bit."""
    topo = leaf_spine(hosts=8, tors=2, spines=2)
    pairs = [(i, (i + 3) % 8, 20_000 + i) for i in range(8)]
    plain = simulate(topo, flow_list(topo, pairs), "hpcc")
    wide = [{"src": s, "dst": d, "bytes": b, "rate": "400Gbps", "window": "1GB"} for s, d, b in pairs]
    bound = simulate(topo, flow_list(topo, wide), "hpcc")
    for name in plain.frames:
        assert plain.frame(name).equals(bound.frame(name)), name


@pytest.mark.parametrize("column, rule", [("rate_bps", "10000 and 1000000000000000"), ("window_bytes", "1 and 1000000000000")])
def test_both_ends_of_a_range_are_allowed_and_nothing_beyond(column, rule):
    from penstock_net.workload.limits import RANGES, Limits, checked

    low, high = RANGES[column]
    assert f"{low} and {high}" == rule

    def given(value):
        none = np.zeros(1, np.int64)
        return checked(Limits(none, none, none)._replace(**{column: np.array([value], np.int64)}), 1)

    for value in (low, high):
        assert getattr(given(value), column).tolist() == [value]
    for value in (low - 1, high + 1):
        if value:  # 0 is none
            with pytest.raises(SpecError, match=rf"flows\.0\.{column} = {value}: must be a whole number between {rule}"):
                given(value)
    assert given(0) is None
