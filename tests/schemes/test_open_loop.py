"""Open-loop flows, against a switch by hand: what arrives, when, and what is lost, to the byte and the picosecond."""

import sys
from pathlib import Path
from types import ModuleType

import pytest
from drawn import examples
from hypothesis import assume, given
from hypothesis import strategies as st
from paper import open_loop

from penstock_net.sim.config import Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import star
from penstock_net.workload import flow_list

BYTE, DELAY = 80, 1_000_000  # 100 Gbit/s, 1 us
QUIET = Measure(sample="0s", flows=False)
RATES = [0, 3_000_000_000, 41_000_000_000, 70_000_000_001, 99_900_000_000, 250_000_000_000]


def check(buffer, given_, by_hand=open_loop):
    """given_: (start in ps, bytes, rate, receiver: 0 or 1) of hosts 2, 3, ...; returns what was lost by hand."""
    topo = star(hosts=2 + len(given_), buffer=buffer)
    listed = [
        {"src": 2 + i, "dst": dst, "bytes": size, "start": f"{start}ps", "open_loop": True} | ({"rate": rate} if rate else {})
        for i, (start, size, rate, dst) in enumerate(given_)
    ]
    flows = flow_list(topo, listed)
    run = simulate(topo, flows, measure=QUIET, max_time_ps=10**15)
    table = run.frame("open_loop")
    gaps = [8e12 / rate if rate else 0 for _, _, rate, _ in given_]
    senders = [by_hand.Sender(start, size, gap, dst) for (start, size, _, dst), gap in zip(given_, gaps)]
    received, lost, finish, last = by_hand.run(senders, BYTE, DELAY, buffer)
    order = [int(src) - 2 for src in run.flows["src"]]
    assert table["flow_id"].to_list() == list(range(len(flows)))
    assert table["sent_bytes"].to_list() == [given_[i][1] for i in order]
    assert table["received_bytes"].to_list() == [received[i] for i in order]
    assert table["lost_bytes"].to_list() == [lost[i] for i in order]
    ends = [None if at is None else round(at * 1000) for at in run.flows["finish_ns"]]
    assert ends == [finish[i] for i in order]
    assert round(run.summary["end_ns"] * 1000) == last
    assert run.ports["ack_bytes"].sum() == 0 and run.summary["retransmissions"] == 0
    return lost


FLOWS = st.lists(
    st.tuples(st.integers(0, 10**7), st.integers(1, 70_000), st.sampled_from(RATES), st.integers(0, 1)), min_size=1, max_size=7
).map(lambda flows: [(8 * start + i, size, rate, dst) for i, (start, size, rate, dst) in enumerate(flows)])


@examples(40)
@given(st.integers(1048, 60_000), FLOWS)
def test_every_byte_is_where_it_is_by_hand(buffer, flows):
    senders = [open_loop.Sender(start, size, 8e12 / rate if rate else 0) for start, size, rate, _ in flows]
    times = [at for sender in senders for at, _ in open_loop.departures(sender, BYTE)]
    assume(len(set(times)) == len(times))  # the order of packets that come together is drawn
    check(buffer, flows)


CROWD = [(1, 60_000, 41_000_000_000, 0), (500_003, 50_500, 0, 0), (700_005, 70_001, 70_000_000_001, 0), (90_007, 9_000, 0, 1)]


def test_rates():
    assert sum(check(9_000, CROWD)) > 20_000
    assert sum(check(200_000, CROWD)) == 0
    assert check(5_000, [(3, 50_000, 250_000_000_000, 0)]) == [0]  # no faster than the line


MISTAKES = {
    "the gap begins when the packet has left": ("due = begin +", "due = free +"),
    "a rate counts payload only": ("int((payload + HEADER) * sender.gap)", "int(payload * sender.gap)"),
    "the packet on the line is still stored": (
        "                used -= payload + HEADER\n                begin(",
        "                begin(",
    ),
    "each port has a buffer": ("if used + payload + HEADER > buffer", "if sum(p + HEADER for _, p in waiting[dst]) > buffer"),
    "the buffer holds payload": ("used + payload + HEADER > buffer", "used + payload > buffer"),
    "what is lost comes back": ("            gone[number] += payload\n", "            received[number] += payload\n"),
    "it has finished though something is lost": ("if received[number] == senders[number].size", "if received[number]"),
    "the run ends when the last flow finishes": ("        last = max(last, free[dst] + delay)\n", ""),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_planted_mistakes_are_noticed(name):
    old, new = MISTAKES[name]
    text = Path(open_loop.__file__).read_text()
    assert text.count(old) == 1
    wrong = ModuleType("wrong")
    wrong.__file__ = open_loop.__file__
    sys.modules["wrong"] = wrong
    try:
        exec(text.replace(old, new), wrong.__dict__)
        with pytest.raises(AssertionError):
            check(9_000, CROWD, wrong)
            check(2_000, [(1, 20_000, 0, 0), (900_000, 40_000, 0, 0)], wrong)
            check(3_124, [*CROWD, (200_009, 70_000, 0, 1)], wrong)
    finally:
        del sys.modules["wrong"]
