"""What schemes say that a port needs of the buffer: the closed forms, and with less, packets are lost or links idle."""

import numpy as np
import polars as pl
import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st
from networks import HostConfig, Measure, flow_list, parse, simulate
from paper import cbfc

from penstock_net.composition import available
from penstock_net.sim.buffers import CABLES, RATES, buffer_needs, saying, says
from penstock_net.topology import Topology, leaf_spine, make_links, star

US = 1_000_000
HEADER, CONTROL = 48, 64
QUIET = Measure(sample="0s")
XON = 3072


def host_of(size):
    return HostConfig(mtu=size - HEADER, header=HEADER)


def need(scheme, gap, delay, size):
    """The row of a port between two switches, of packets of so many bytes."""
    found = buffer_needs(scheme, rates=[8e12 / gap], cables=[f"{delay}ps"], host=host_of(size))
    return found.row(0, named=True)


def line(into, out, delay, buffer=0):
    """host0 - switch - host1, at so many ps a byte."""
    links = make_links([0, 1], [2, 2], [into, out], [delay, US // 100])
    names = ("host0", "host1", "switch0")
    return Topology("file", 2, 1, links, np.array([buffer]), names, np.array([0, 0, 1], dtype=np.int8), {})


def sent(topo, scheme, parameters, size, packets):
    """A run of one flow over the line."""
    flows = flow_list(topo, [(0, 1, packets * (size - HEADER), "0us")])
    return simulate(topo, flows, parse(scheme, parameters), host=host_of(size), measure=QUIET)


# ---- the closed forms ----


def closed(scheme, gap, delay, size):
    """-> bytes to lose nothing, and for the full rate."""
    turn, frame = 2 * delay / gap, size + CONTROL
    if scheme == "pfc":
        return turn + 3 * frame, 2 * turn + 5 * frame + XON
    if scheme == "bfc":
        return 2 * turn + 3 * frame, 2 * turn + 3 * frame
    return 128 * cbfc.cost(size), 128 * cbfc.for_full_rate(gap, delay, size, gap * size)


@pytest.mark.parametrize("scheme", ["pfc", "cbfc", "bfc"])
@pytest.mark.parametrize("mtu", [1000, 4096])
def test_closed_forms(scheme, mtu):
    """At every rate and length of the default table, within a packet; and nothing shrinks as cables or rates grow."""
    size = mtu + HEADER
    table = buffer_needs(scheme, host=HostConfig(mtu=mtu, header=HEADER))
    assert len(table) == len(RATES) * len(CABLES)
    for row in table.iter_rows(named=True):
        lossless, full = closed(scheme, 8000 / row["rate_gbps"], row["delay_ns"] * 1000, size)
        assert abs(row["lossless_bytes"] - lossless) <= size and abs(row["full_rate_bytes"] - full) <= 128 * cbfc.cost(size)
        assert row["lossless_bytes"] <= row["full_rate_bytes"]
    for column in ("lossless_bytes", "full_rate_bytes"):
        for by, along in (("rate_gbps", "delay_ns"), ("delay_ns", "rate_gbps")):
            assert table.sort(by, along).group_by(by).agg(pl.col(column).diff().min() >= 0)[column].all()


def test_a_table_is_of_what_runs_set_up():
    """The headroom, limits and thresholds of a network's ports are those of its table, whose hosts and cables it has."""
    topo = leaf_spine(hosts=4, tors=2, spines=1, rate="400Gbps", delay="40m")
    for scheme in ("pfc", "cbfc", "bfc"):
        ports = buffer_needs(scheme, topo=topo, host=host_of(4144))
        table = buffer_needs(scheme, rates=["400Gbps"], cables=["40m"], host=host_of(4144))
        sizes = ["lossless_bytes", "full_rate_bytes", "flows"]
        assert ports.select(sizes).unique().rows() == table.select(sizes).rows() and ports["ports"].sum() == 8


def test_who_says_what_it_needs():
    assert saying() == [name for name, found in available().items() if says(found)] == ["bfc", "cbfc", "pfc"]


# ---- with less, packets are lost ----

SLOW = 8000  # of 1 Gbit/s: what comes is stored


def drops(scheme, gap, delay, size, less):
    """Packets lost over a link of a scheme with the buffer that it needs, less so many bytes."""
    found = need(scheme, gap, delay, size)["lossless_bytes"] - less
    packets = 3 * found // size + 20
    if scheme == "pfc":
        given = {"alpha": 0, "reserve": 2 * size, "headroom_bytes": found}
        run = sent(line(gap, SLOW, delay, 10**9), "pfc", given, size, packets)
    else:
        threshold = whole_turn(gap, delay)
        run = sent(line(gap, SLOW, delay, found), "bfc", {"th_bytes": threshold}, size, packets)
    assert run.ports["pauses_sent"].sum() > 0
    return run.summary["drops"]


def whole_turn(gap, delay):
    """The threshold of a port of this rate: BFC's own is that of the slow one here."""
    return int(2 * delay / gap)


POINTS = [(80, US, 1048), (20, US // 5, 4160), (10, 2 * US, 4160)]


@pytest.mark.parametrize("scheme", ["pfc", "bfc"])
@pytest.mark.parametrize("gap, delay, size", POINTS)
def test_nothing_is_lost_with_it_and_something_with_three_packets_less(scheme, gap, delay, size):
    """Three: the packet that pauses, one behind which the pause may wait, and one that has just begun to leave."""
    assert drops(scheme, gap, delay, size, 0) == 0
    assert drops(scheme, gap, delay, size, 3 * (size + CONTROL)) > 0


def test_credit_of_one_packet_loses_nothing():
    for gap, delay, size in POINTS:
        limit = need("cbfc", gap, delay, size)["lossless_bytes"] // 128
        run = sent(line(gap, SLOW, delay, 128 * 5 * limit), "cbfc", {"limits": [limit]}, size, 50)
        assert run.summary["drops"] == 0 and run.summary["flows_finished"] == 1


# ---- with less, links idle ----


def idle(scheme, gap, delay, size, less):
    """Bytes that the line out of the switch could have sent more while a flow passed, in each turn. The line into it is a tenth
    faster, so that after eleven times what it may store it has been full, and pauses. With credit, a turn is 100 packets."""
    found = need(scheme, gap, delay, size)
    into, packets = gap, 2000
    if scheme == "pfc":
        into, given = gap / 1.1, {"alpha": 0, "reserve": found["full_rate_bytes"] - found["lossless_bytes"] - less}
        packets = 50 * found["full_rate_bytes"] // size
    else:
        given = {"limit": (found["full_rate_bytes"] - less) // 128, "cc_timer": 0}
    run = sent(line(into, gap, delay, 10**9), scheme, given, size, packets)
    turns = packets * size / (12 * found["full_rate_bytes"]) if scheme == "pfc" else packets / 100
    there = run.flows["fct_ns"].item() * 1000 - size * into - delay - US // 100
    return (there / gap - packets * size) / turns


@pytest.mark.parametrize("scheme", ["pfc", "cbfc"])
@pytest.mark.parametrize("gap, delay, size", POINTS)
def test_the_line_never_idles_with_it_and_with_four_packets_less_it_does(scheme, gap, delay, size):
    """Four: a resume may wait behind a packet, comes when a packet has begun to leave, and one is the least that is stored; with
    a packet less than these, so much of the line is not used."""
    assert abs(idle(scheme, gap, delay, size, 0)) < size / 10
    assert idle(scheme, gap, delay, size, 4 * (size + CONTROL)) > size


@given(st.sampled_from([80, 40, 20, 10]), st.integers(100_000, 3 * US), st.sampled_from([1048, 4160]))
@examples(6)
def test_anywhere(gap, delay, size):
    for scheme in ("pfc", "bfc"):
        assert drops(scheme, gap, delay, size, 0) == 0 and drops(scheme, gap, delay, size, 3 * (size + CONTROL)) > 0
    for scheme in ("pfc", "cbfc"):
        assert abs(idle(scheme, gap, delay, size, 0)) < size / 10


def share_of_line(scheme, senders, delay, size=1048):
    """Of the receiver's line, used by so many long flows to one host."""
    topo = star(hosts=senders + 1, delay=f"{delay}ps", buffer="100MB")
    flows = flow_list(topo, [(i, 0, 1000 * (size - HEADER), "0us") for i in range(1, senders + 1)])
    run = simulate(topo, flows, parse(scheme), host=host_of(size), measure=QUIET)
    return senders * 1000 * size * 80 / (run.flows["fct_ns"].max() * 1000 - 2 * delay - size * 80)


def test_bfc_needs_as_many_flows_as_it_says():
    """Its buffer is the same for any number of flows: with few, the paper's rule lets links idle after each resume; resumed
    early, they idle for less than a packet."""
    for delay in (150_000, 400_000):
        flows = need("bfc", 80, delay, 1048)["flows"]
        assert flows == 2 * delay // (80 * 1048) + 1 and need("bfc:early", 80, delay, 1048)["flows"] == 1
        assert share_of_line("bfc", flows, delay) > 0.97 > 0.9 > share_of_line("bfc", 2, delay)
        assert share_of_line("bfc:early", 2, delay) > 0.95
