"""Ultra Ethernet's transport under NSCC, and trimming: dialogues of the simulator, a transcription beside both, laws, goldens."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from alone import Alone
from helpers import DATA, EVERYTHING, acted, check_bad, check_threads, rows_of
from paper import uec

from penstock_net.composition import FOLDER, parse
from penstock_net.sim.config import HostConfig, Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import fat_tree, leaf_spine, star
from penstock_net.workload import flow_list

US = 1_000_000
R = 9_348_480  # two tiers, 1 us, 100 Gbit/s
HOST = HostConfig(mtu=4086, header=64, ack=64)
RACK = leaf_spine(hosts=16, tors=2, spines=8)
ONE = [(1, 0, 400_000, 0)]
TWO = [(1, 0, 400_000, 0), (2, 0, 400_000, US)]
SEVEN = [(i, 0, 400_000, (i - 1) * US) for i in range(1, 8)]


# ---- the simulator's dialogues: the transcription, in that simulator's order, has them to the byte and picosecond ----


def simulated(flows, target=None):
    senders, _ = uec.run(flows, 16, uec.Constants(R, target=target), as_simulator=True)
    return senders


def test_one_flow_in_a_rack():
    (sender,) = simulated(ONE)
    assert sender.done == 36_844_000 == 97 * 332_000 + 332_000 + 2 * US + 297_760 + 2 * (US + 5_120)
    assert sender.acks == 26


def test_two_flows_whose_average_delay_stays_below_the_target():
    senders = simulated(TWO)
    assert [s.done for s in senders] == [69_345_760, 69_048_000] and sum(s.acks for s in senders) == 190
    assert next((before, after) for *_, before, after in senders[0].log if before > after) == (175_284, 87_642)


# number of the ACK: time in ns, packets acknowledged, delay in ns, whether it was marked, cwnd after it
FIRST = {
    1: (4_674.24, 1, 0, 0, 87_642),
    3: (7_662.24, 7, 996, 1, 87_642),
    23: (20_942.24, 27, 7_636, 1, 84_904),
    30: (25_922.24, 34, 9_601.76, 1, 56_730),
    35: (29_242.24, 39, 9_601.76, 1, 57_207),
    38: (31_234.24, 42, 9_601.76, 1, 30_012),
    46: (36_546.24, 50, 8_937.76, 1, 15_006),
    49: (38_870.24, 53, 8_937.76, 0, 24_286),
    55: (45_536.48, 60, 664, 0, 25_094),
    56: (46_200.48, 61, 969.76, 0, 25_902),
    57: (49_214.72, 63, 0, 0, 30_987),
    61: (54_884.96, 71, 0, 0, 37_452),
    66: (67_500.96, 88, 969.76, 0, 51_669),
}
SECOND = {
    1: (6_002.24, 1, 0, 0, 93_790),
    2: (7_994.24, 4, 996, 1, 93_790),
    22: (21_274.24, 24, 7_636, 1, 91_082),
    31: (26_918.24, 33, 9_273.76, 1, 57_008),
    35: (29_574.24, 37, 9_273.76, 1, 57_485),
    39: (32_230.24, 41, 9_273.76, 1, 29_278),
    47: (37_542.24, 49, 8_609.76, 1, 14_639),
    50: (39_202.24, 52, 8_609.76, 0, 28_651),
    55: (46_532.48, 60, 969.76, 0, 29_459),
    56: (46_864.48, 61, 637.76, 0, 32_742),
    57: (52_202.72, 65, 664, 0, 36_452),
    60: (59_200.96, 76, 0, 0, 45_342),
    64: (66_836.96, 88, 969.76, 0, 55_517),
}


def test_two_flows_every_change_of_their_windows():
    senders = simulated(TWO, US)
    assert [s.done for s in senders] == [74_072_480, 73_110_720] and sum(s.acks for s in senders) == 137
    for sender, table in zip(senders, (FIRST, SECOND)):
        found = {
            n: (now / 1000, cum, round(d) / 1000, int(ecn), cwnd) for n, now, cum, d, ecn, _, cwnd in sender.log if n in table
        }
        assert found == table


def test_quick_adapt_of_seven_flows():
    senders = simulated(SEVEN, US)
    sixth = senders[6].log[5]
    assert sixth[1:5] == (39_202_240, 6, 22_193_760, True) and sixth[5:] == (175_284, 20_750)


# ---- this package beside the transcription, packet by packet ----


def both(flows, scheme="uec:nscc_htsim", target=None):
    """-> the times at which data left the switch for host 0, and when senders knew the end: of a run, of the transcription."""
    exact = not scheme.endswith("htsim")
    parameters = {"trim.depth": 1000, "trim.unmarked": 6, "trim.marked": 6, "target": f"{target or 0}ps"}
    given = flow_list(RACK, [(src, dst, size, f"{start}ps") for src, dst, size, start in flows])
    made = simulate(RACK, given, parse(scheme, parameters), host=HOST, measure=EVERYTHING)
    senders, switch = uec.run(flows, 16, uec.Constants(R, target=target, exact=exact), stall=not exact)
    assert made.flows["acked_ns"].to_list() == [pytest.approx(s.done / 1000, abs=1e-6) for s in senders]
    found = [(r.at, r.flow, r.offset // 4086, r.ecn) for r in rows_of(made) if r.kind == DATA and r.event == "dequeue"]
    assert found == switch.out
    return made, senders, switch


@pytest.mark.parametrize("scheme", ["uec", "uec:nscc_htsim"])
@pytest.mark.parametrize("flows, target", [(ONE, None), (TWO, None), (TWO, US), (SEVEN, US), (SEVEN, None)])
def test_as_transcribed(flows, target, scheme):
    made, senders, switch = both(flows, scheme, target)
    assert made.ports["ecn_marks"].sum() == switch.marks
    answers = made.ports.filter(made.ports["node"] == 0)["tx_bytes"].item()
    assert answers == 64 * sum(s.acks for s in senders)


MISTAKES = {
    "T is R": ("0.75 * world.base_rtt", "1.0 * world.base_rtt"),
    "no fast increase": ("mine.fast_count > mine.cwnd or mine.growing", "mine.fast_count > 100 * mine.cwnd"),
    "fast at once": ("mine.fast_count > mine.cwnd or mine.growing", "mine.fast_count > 0"),
    "eta twice": ("uec.eta = 0.15", "uec.eta = 0.3"),
    "alpha": ("uec.alpha = 4.0", "uec.alpha = 5.0"),
    "fair": ("uec.fair = 5.0", "uec.fair = 50.0"),
    "gamma": ("GAMMA = 0.8", "GAMMA = 0.7"),
    "more than half": ("LEAST = 0.5", "LEAST = 0.3"),
    "a faster average": ("GAIN = 0.0125", "GAIN = 0.025"),
    "decrease for every mark": ("and node.now - mine.decreased_at > mine.base", ""),
    "marks are not echoed": ("react(uec, node, flow, gained, delay, pkt.ecn)", "react(uec, node, flow, gained, delay, 0)"),
    "quick adapt never": ("mine.achieved < cut(uec, mine.largest / GATE)", "mine.achieved < 0"),
    "quick adapt later": ("FAR = 4.0", "FAR = 30.0"),
    "nothing is ignored": ("            mine.to_ignore = mine.in_flight\n", ""),
    "first window": ("1.5 * cut(uec, base", "1.0 * cut(uec, base"),
    "an answer for each": ("return 1 if answers or mine.owed >= uec.ack_bytes else 0", "return 1"),
    "the first one not": ("carried.asks or mine.count == 0 or", "carried.asks or"),
    "marks wait": ("1 if pkt.ecn or carried.asks or", "1 if carried.asks or"),
    "asks too late": ("mine.in_flight + pkt.size >= mine.cwnd", "mine.in_flight >= mine.cwnd"),
    "one packet more": ("mine.in_flight + size_of(uec, flow, index) > mine.cwnd", "mine.in_flight > mine.cwnd"),
    "adjusts early": ("uec.adjust_bytes = 8 *", "uec.adjust_bytes = 4 *"),
    "the base is the network's": ("    if rtt < mine.base:\n", "    if rtt < 0:\n"),
}


class FileOf(Alone):
    """The scheme's file as plain Python, for one flow; `bits`: what its masks are handled with."""

    def __init__(self, text, size, target):
        self.size = size
        self.incoming = None
        super().__init__("uec:nscc_htsim", {"target": f"{target or 0}ps"}, text, header=64, base_rtt=R, bdp=116_856)

    def call(self, hook, now=0, pkt=None):
        if hook == "on_start":
            self.flow.__dict__.update(size=self.size, rto=0, resend=0, window=0)
            self.me.at.world.mtu = 4086
            self.update(
                TRIMMED=32,
                RETRANSMITTED=2,
                has_bit=has_bit,
                set_bit=set_bit,
                clear_bit=clear_bit,
                bit=lambda i: 1 << i,
                lowest_bit=lambda bits: (bits & -bits).bit_length() - 1,
                my_incoming=lambda _, i: i,
            )
            self["set_up"](self.me)
        super().call(hook, now, pkt)


def has_bit(table, i):
    return table[i // 64] >> i % 64 & 1


def set_bit(table, i):
    table[i // 64] |= 1 << i % 64


def clear_bit(table, i):
    table[i // 64] &= ~(1 << i % 64)


class FileSender(uec.Sender):
    """A sender of the transcription's network that does what the file says."""

    text, target = "", None

    def begin(self):
        self.file = FileOf(self.text, self.size, self.target)
        super().begin()

    def backlog(self, _):
        flow = self.file.flow
        return flow.sent < flow.size and flow.sent - flow.acked < flow.window

    def pick(self, _):
        if not self.backlog(0):
            return None
        flow, seq = self.file.flow, self.file.flow.sent
        flow.sent = min(seq + 4086, flow.size)
        pkt = SimpleNamespace(seq=seq, size=flow.sent - seq + 64, flags=0, ecn=0)
        self.file.call("on_send", self.net.now, pkt)
        says = {"src": self.number, "ecn": False, "pkt": pkt, "end": flow.sent, "file": self.file}
        return uec.Packet("data", self.flow, seq // 4086, pkt.size, self.dst, says)

    def arrive(self, pkt, _):
        self.acks += 1
        self.file.flow.acked = pkt.says["cum"]
        self.file.call("on_ack", self.net.now, pkt.says["pkt"])
        self.log.append((self.net.now, round(self.file.mine.cwnd, 3), self.file.mine.average))
        if pkt.says["cum"] == self.size:
            self.done = self.net.now
        self.line.kick()


class FileReceiver(uec.Receiver):
    def arrive(self, pkt, _):
        says, file = pkt.says, pkt.says["file"]
        if file.incoming is None:
            file.incoming = SimpleNamespace(expected=0, complete=0, arrived=[0] * 32, cum=0, count=0, total=0, owed=0, asked=0)
        file.incoming.expected = says["end"]
        file.incoming.complete = int(says["end"] == file.size)
        says["pkt"].ecn = int(says["ecn"])
        if file["on_data"](file.me, None, file.incoming, says["pkt"]):
            self.answers.append(
                uec.Packet("ack", pkt.flow, pkt.offset, 64, says["src"], {"cum": says["end"], "pkt": says["pkt"]})
            )
            self.line.kick()


def in_python(monkeypatch, flows, target, text):
    """The same network, with the file's hosts; the windows after each ACK of both."""
    senders, _ = uec.run(flows, 16, uec.Constants(R, target=target))
    with monkeypatch.context() as patch:
        patch.setattr(FileSender, "text", text)
        patch.setattr(FileSender, "target", target)
        patch.setattr(uec, "Sender", FileSender)
        patch.setattr(uec, "Receiver", FileReceiver)
        files, _ = uec.run(flows, 16, uec.Constants(R, target=target))
    assert [s.done for s in files] == [s.done for s in senders]
    for file, sender in zip(files, senders):
        assert [(now, cwnd) for now, cwnd, _ in file.log] == [(now, cwnd) for _, now, *_, cwnd in sender.log]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(monkeypatch, mistake):
    text = (FOLDER / "uec.py").read_text()
    right, wrong = MISTAKES[mistake]
    assert text.count(right) == 1
    with pytest.raises(AssertionError):
        for flows, target in ((TWO, US), (SEVEN, US), (SEVEN, None)):
            in_python(monkeypatch, flows, target, text.replace(right, wrong))


def test_the_file_in_python(monkeypatch):
    for flows, target in ((TWO, US), (SEVEN, US), (SEVEN, None)):
        in_python(monkeypatch, flows, target, (FOLDER / "uec.py").read_text())


# ---- NACKs ----


def nacks(text):
    """ACKs and NACKs in a random order, few bytes where NACKs are many: windows of the file and of the transcription."""
    chosen, now = np.random.default_rng(5), 0
    file, window = FileOf(text, 10**9, None), uec.Window(uec.Constants(R))
    for k in range(3000):
        now += int(chosen.integers(100_000, 900_000))
        marked, rtt, bad = int(chosen.integers(2)), int(chosen.integers(5, 40)) * US, k % 400 > 300
        file.node.now = now
        if bad and k % 400 < 350 and chosen.integers(3):
            index = file.mine.cum + int(chosen.integers(30))
            file.flow.sent = 10**8
            set_bit(file.mine.out, index % 2048)
            file["refuse"](file.me, file.node, file.flow, index, 1, rtt)
            window.nack(now, 4150, rtt)
            assert has_bit(file.mine.again, index % 2048) and not has_bit(file.mine.out, index % 2048)
        else:
            n = 300 if bad else 8300
            carried = {"total": file.mine.total + n, "bits": 0, "first": 0, "again": 0, "stamp": now - rtt}
            set_bit(file.mine.out, 2000)
            file["on_ack"](file.me, file.node, file.flow, SimpleNamespace(ecn=marked, index=2000, cut=0, **carried))
            window.counted(n)
            window.ack(now, n, window.delay(rtt, marked), marked)
        file.mine.in_flight = window.in_flight = 8300 * 5
        assert (file.mine.cwnd, file.mine.average, file.mine.base) == (window.cwnd, window.avg, window.base)


IN_NACKS = {
    "the window stays": ("        mine.cwnd -= size\n", ""),
    "a sample of an unmarked one": (
        "0.25 * mine.base if not pkt.ecn and delay > uec.t else float(delay)",
        "float(delay)",
    ),
    "no sample": ("    smooth(uec, flow, float(uec.at.world.base_rtt))\n", ""),
    "no trigger": ("    mine.trigger = 1\n", ""),
    "ignored ones do not count": ("    mine.ignored += size\n", ""),
    "twice": ("if not quick_adapt(uec, node, flow, 0, 1):", "if quick_adapt(uec, node, flow, 0, 1) < 2:"),
    "the trigger stays": ("            mine.trigger = 0\n", ""),
    "lost for ever": ("    set_bit(mine.again, index % RING)\n", ""),
}


def test_nacks_as_transcribed():
    nacks((FOLDER / "uec.py").read_text())


@pytest.mark.parametrize("mistake", IN_NACKS)
def test_a_mistake_in_nacks_is_found(mistake):
    text = (FOLDER / "uec.py").read_text()
    right, wrong = IN_NACKS[mistake]
    assert text.count(right) == 1
    with pytest.raises(AssertionError):
        nacks(text.replace(right, wrong))


# ---- goldens of the simulator: percentiles within 5 %, packets sent again within 20 % ----

ONCE = "13-6 1-4 6-0 2-13 10-5 15-1 8-14 14-2 5-15 4-12 12-11 0-8 9-7 7-9 3-10 11-3"
PAIRS = [tuple(map(int, pair.split("-"))) for pair in ONCE.split()]
GOLDEN = {  # pods, pairs, parameters: p50, p95 and largest time (us) until the sender knows, packets sent again
    "one flow": (4, [(0, 15)], {}, (176.2, 176.2, 176.2), 0),
    "both ways": (4, [(0, 15), (15, 0)], {}, (176.8, 176.8, 176.8), 0),
    "15 to 1": (4, [(i, 0) for i in range(1, 16)], {}, (2287.7, 2478.5, 2478.5), 811),
    "a permutation": (4, PAIRS, {"entropy_bits": 7}, (190.8, 194.0, 194.0), 0),
}


@pytest.mark.parametrize("case", GOLDEN)
def test_golden(case):
    k, pairs, parameters, times, again = GOLDEN[case]
    topo = fat_tree(k=k)
    flows = flow_list(topo, [(src, dst, 2_000_000, "0us") for src, dst in pairs])
    made = simulate(topo, flows, parse("uec+mixed", parameters), host=HOST, measure=Measure(sample="0s"))
    found = np.percentile(made.flows["acked_ns"].to_numpy() / 1000, (50, 95, 100))
    assert found == pytest.approx(times, rel=0.05)
    assert made.summary["retransmissions"] == pytest.approx(again, rel=0.2) and made.summary["drops"] == 0
    if case == "one flow":
        assert made.flows["acked_ns"].item() == pytest.approx(176_199.52, abs=1e-6)
        assert made.ports.filter(made.ports["node"] == 15)["tx_bytes"].item() == 124 * 64


# ---- laws ----


def test_what_is_cut_is_sent_again_once_and_queues_are_bounded():
    topo = star(hosts=16)
    flows = flow_list(topo, [(i, 0, 300_000, "0us") for i in range(1, 16)])
    made = simulate(topo, flows, parse("uec", {"trim.depth": 20}), host=HOST, measure=Measure(sample="0s"))
    trims = made.ports["trims"].sum()
    assert made.summary["retransmissions"] == trims > 100 and made.summary["drops"] == 0
    assert 19 * 4150 < made.ports["max_queue_bytes"].max() <= 20 * 4150 + 2 * 20 * 4150
    assert made.summary["flows_finished"] == 15 and acted(made)


def longest_silence(scheme, count, every):
    """Between two packets of a flow, ps; nothing is cut or lost."""
    flows = flow_list(RACK, [(i, 0, 400_000, f"{every * (i - 1)}ns") for i in range(1, 1 + count)])
    marks = {"trim.depth": 1000, "trim.unmarked": 6, "trim.marked": 6, "target": "1us"}
    made = simulate(RACK, flows, parse(scheme, marks), host=HOST, measure=EVERYTHING)
    times = {}
    for r in rows_of(made):
        if r.kind == DATA and r.event == "dequeue":
            times.setdefault(r.flow, []).append(r.at)
    return max(b - a for at in times.values() for a, b in pairwise(at)), made.summary["retransmissions"]


@pytest.mark.parametrize("count, every", [(6, 300), (6, 1000)])
def test_a_flow_stalls_until_its_timeout_only_if_that_is_asked_for(count, every):
    """The rule: with data to send, and all packets arrived, a flow is not silent for two round trips; here also of the queue."""
    waits, again = longest_silence("uec:nscc_htsim", count, every)
    assert waits > 65 * US and again > 0  # of 73 us and what passes until that is looked at
    waits, again = longest_silence("uec", count, every)
    assert waits < 4 * R and again == 0


@pytest.mark.parametrize("rate, bound", [("100Gbps", 1.1), ("800Gbps", 1.25)])
def test_three_flows_share_a_link_at_any_rate(rate, bound):
    topo = star(hosts=4, rate=rate)
    flows = flow_list(topo, [(i, 0, 20_000_000, "0us") for i in (1, 2, 3)])
    made = simulate(topo, flows, parse("uec"), host=HOST, measure=Measure(sample="0s"))
    ideal = 3 * 20_000_000 * 4150 / 4086 * 8 / float(rate[:3]) / 1000  # us
    assert made.flows["acked_ns"].max() / 1000 < bound * ideal


@pytest.mark.parametrize("scheme", ["uec+reps", "uec+oblivious", "uec+mixed"])
def test_losses_are_repaired_on_any_number_of_threads(scheme):
    topo = leaf_spine(hosts=16, tors=4, spines=2).with_loss(0.005)
    made = check_threads(scheme, {"host.rto": "100us"}, topo)
    assert made.summary["flows_finished"] == 14 and made.summary["retransmissions"] > 5


def test_under_other_transports_timeouts_repair_what_was_cut():
    topo = star(hosts=8)
    flows = flow_list(topo, [(i, 0, 100_000, "0us") for i in range(1, 8)])
    made = simulate(topo, flows, parse("window_cap+trim", {"trim.depth": 20}), host=HostConfig(rto="100us"))
    assert made.summary["flows_finished"] == 7 and made.ports["trims"].sum() > 20


def test_bad_parameters_are_refused():
    check_bad("uec", {"ack_bytes": 0}, "ack_bytes")
    check_bad("uec", {"trim.depth": -1}, "0..1000000")
