"""Ultra Ethernet's transport, and trimming: dialogues, a transcription, laws.  Goldens: test_uec_beside_htsim.py."""

from itertools import pairwise
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from alone import Alone, zeros
from helpers import DATA, EVERYTHING, acted, check_bad, check_threads, rows_of
from paper import uec

from penstock_net.composition import FOLDER, parse
from penstock_net.sim.config import HostConfig, Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import leaf_spine, star
from penstock_net.workload import flow_list

US = 1_000_000
R = 9_348_480  # two tiers, 1 us, 100 Gbit/s
HOST = HostConfig(mtu=4086, header=64, ack=64)
RACK = leaf_spine(hosts=16, tors=2, spines=8)
ONE = [(1, 0, 400_000, 0)]
TWO = [(1, 0, 400_000, 0), (2, 0, 400_000, US)]
SHORT = [(1, 0, 60_000, 0), (2, 0, 60_000, US // 3)]
SEVEN = [(i, 0, 400_000, (i - 1) * US) for i in range(1, 8)]


# ---- the simulator's dialogues: the transcription, in that simulator's order, has them to the byte and picosecond ----


def simulated(flows, target=None, **more):
    senders, _ = uec.run(flows, 16, uec.Constants(R, target=target), as_simulator=True, **more)
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


UNMARKED = 10**12  # a switch does not mark what leaves for hosts if these give credit
# number of a pull, when it arrives (ns): one for each packet of the first window, then one for every 64 quanta
PULLS = [(17, 4_679.36), (33, 5_025.9), (244, 9_369.96), (308, 9_721.62), (372, 11_045.5), (436, 12_369.4), (500, 13_693.3)]


@pytest.mark.parametrize("windows", [False, True])
def test_one_flow_with_credit(windows):
    (sender,) = simulated(ONE, threshold=UNMARKED, windows=windows, credit=True)
    assert sender.done == 36_844_000 and sender.acks == 26 and len(sender.pulls) == 59
    assert [number for _, number in sender.pulls[:5]] == [17, 33, 49, 65, 82]
    arrived = {number: now / 1000 for now, number in sender.pulls}
    assert [arrived[number] for number, _ in PULLS] == [pytest.approx(now, abs=0.06) for _, now in PULLS]


def test_two_flows_with_credit():
    senders = simulated(TWO, threshold=UNMARKED, windows=False, credit=True)
    assert [s.done for s in senders] == [66_060_000, 69_345_760]
    assert sum(s.acks for s in senders) == 69 and sum(len(s.pulls) for s in senders) == 112
    gaps = [round(b - a, -4) / US for a, b in pairwise(sorted(now for s in senders for now, _ in s.pulls))]
    assert set(gaps[:5]) == {0.33, 0.35} and set(gaps[40:60]) == {1.32}


# ---- this package beside the transcription, packet by packet ----


def settings_of(scheme):
    """What the transcription is told of a scheme."""
    control = scheme.partition(":")[2].partition("_")[0]
    exact, credit = not scheme.endswith("htsim"), control in ("rccc", "both")
    more = {"stall": scheme.endswith("htsim") and control != "rccc", "windows": control != "rccc", "credit": credit}
    return exact, more | ({"threshold": UNMARKED} if credit else {})


def both(flows, scheme="uec:nscc_htsim", target=None, first=0):
    """-> the times at which data left the switch for host 0, and when senders knew the end: of a run, of the transcription."""
    exact, more = settings_of(scheme)
    parameters = {"trim.depth": 1000, "trim.unmarked": 6, "trim.marked": 6, "target": f"{target or 0}ps", "first_window": first}
    given = flow_list(RACK, [(src, dst, size, f"{start}ps") for src, dst, size, start in flows])
    made = simulate(RACK, given, parse(scheme, parameters), host=HOST, measure=EVERYTHING)
    senders, switch = uec.run(flows, 16, uec.Constants(R, target=target, exact=exact, first=first or None), **more)
    assert made.flows["acked_ns"].to_list() == [pytest.approx(s.done / 1000, abs=1e-6) for s in senders]
    found = [(r.at, r.flow, r.offset // 4086, r.ecn) for r in rows_of(made) if r.kind == DATA and r.event == "dequeue"]
    assert found == switch.out
    return made, senders, switch


CREDITS = ["uec:rccc", "uec:rccc_htsim", "uec:both", "uec:both_htsim"]


@pytest.mark.parametrize("scheme", ["uec", "uec:nscc_htsim", *CREDITS])
@pytest.mark.parametrize("flows, target", [(ONE, None), (TWO, None), (TWO, US), (SEVEN, US), (SEVEN, None), (SHORT, None)])
def test_as_transcribed(flows, target, scheme):
    made, senders, switch = both(flows, scheme, target)
    assert made.ports["ecn_marks"].sum() == switch.marks
    assert made.ports.filter(made.ports["node"] == 0)["tx_bytes"].item() == 64 * sum(s.acks + len(s.pulls) for s in senders)


@pytest.mark.parametrize("first", [100, 20_000, 50 * 4150])
def test_a_first_window(first):
    """At least a packet, at most the largest one, which is the default: the simulator's 50 packets are more than that here."""
    ended = [[s.done for s in both(SEVEN, "uec", None, size)[1]] for size in (first, 0)]
    assert (ended[0] == ended[1]) == (first == 50 * 4150)


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
    "asks too late": ("mine.in_flight + pkt.size >= mine.cwnd", "mine.in_flight >= mine.cwnd"),
    "one packet more": ("mine.in_flight + size_of(uec, flow, index) > mine.cwnd", "mine.in_flight > mine.cwnd"),
    "adjusts early": ("uec.adjust_bytes = 8 *", "uec.adjust_bytes = 4 *"),
    "the base is the network's": ("    if rtt < mine.base:\n", "    if rtt < 0:\n"),
}


IN_RECEIVERS = {
    "an answer for each": ("return 1 if answers or mine.owed >= me.ack_bytes else 0", "return 1"),
    "the first one not": ("carried.asks or mine.count == 0 or", "carried.asks or"),
    "marks wait": ("1 if pkt.ecn or carried.asks or", "1 if carried.asks or"),
}
IN_CREDIT = {  # which file, and what is wrong
    "speculation goes on": ("uec_receiver", "        mine.credit = min(mine.credit, 0)\n", ""),
    "packets are free": ("uec_receiver", "mine.credit -= pkt.size", "mine.credit -= 0"),
    "headers are free": ("uec_receiver", "mine.credit -= pkt.size", "mine.credit -= pkt.size - 64"),
    "credit without end": ("uec_receiver", "min(mine.credit + QUANTUM * (quanta - mine.pulled), mine.most)", "10**9"),
    "half a quantum": ("uec_receiver", "QUANTUM * (quanta - mine.pulled)", "128 * (quanta - mine.pulled)"),
    "pulls as fast as the line": ("uec_receiver", "PULL_RATE = 0.99", "PULL_RATE = 1.0"),
    "longer pulls": ("uec_receiver", "PULLED = 64", "PULLED = 128"),
    "beyond what is asked": ("uec_receiver", "max(min(PULLED, mine.target - mine.granted), 0)", "PULLED"),
    "one pull for each request": ("uec_receiver", "    if mine.target > mine.granted:\n", "    if 0:\n"),
    "nothing for who is content": ("uec_receiver", "    elif which == ASKING or mine.granted", "    elif 0 and mine.granted"),
    "who is content has all": ("uec_receiver", "< most_of(me, node, port_at(node, 0)) // QUANTUM", "< 10**9"),
    "any old target": ("uec_receiver", "if carried.target > mine.target or", "if carried.target >= 0 or"),
    "whole flows are pulled": ("uec_receiver", "        leave(me, node, incoming)\n        return\n", "        return\n"),
    "asks for all": ("uec", "min(asked, mine.most) - carried.credit", "asked - carried.credit"),
    "asks for what it has": ("uec", "min(asked, mine.most) - carried.credit", "min(asked, mine.most)"),
    "asks for nothing at first": ("uec", "    if carried.speculates and left > 0:", "    if 0:"),
    "never asks for an answer": ("uec", "        if mine.credit <= 0:\n            mine.asked = 1\n", ""),
    "sends without credit": ("uec", "lacks = 1 if uec.credits and mine.credit <= 0 else 0", "lacks = 0"),
    "a window too": ("uec", "    if uec.windows and mine.in_flight + size_of", "    if mine.in_flight + 20000 + size_of"),
}


def has_bit(table, i):
    return table[i // 64] >> i % 64 & 1


def set_bit(table, i):
    table[i // 64] |= 1 << i % 64


def clear_bit(table, i):
    table[i // 64] &= ~(1 << i % 64)


BITS = {
    "TRIMMED": 32,
    "RETRANSMITTED": 2,
    "has_bit": has_bit,
    "set_bit": set_bit,
    "clear_bit": clear_bit,
    "bit": lambda i: 1 << i,
    "lowest_bit": lambda bits: (bits & -bits).bit_length() - 1,
    "my_incoming": lambda _, incoming: incoming,
}
PORT = SimpleNamespace(ps_per_byte=80, peer_ps_per_byte=80, up=0, down=0)


class ReceiverFile(dict):
    """The file of receivers as plain Python, at one host; `wake(when)`: for its timer; of what it sends: (flow, frame)."""

    def __init__(self, text, credits, wake=None, flow=None):
        super().__init__(BITS, DATA=0, NO_FLOW=None, NEVER=2**62, whole=int, hash31=max, command_of=lambda _: 0)
        exec(text or (FOLDER / "uec_receiver.py").read_text(), self)
        world = SimpleNamespace(mtu=4086, base_rtt=R, host_count=16, in_turn=0)
        self.me = SimpleNamespace(ack_bytes=16_384, credits=credits, back=0, rates=0, whole_ps=1)
        self.me.at = SimpleNamespace(index=0, kind=3, world=world)
        self.node, self.incoming, self.sent = SimpleNamespace(now=0, port_count=1), {}, []
        self.here, self.mine = zeros(self["node_state"], {}, {}), zeros(self["flow_state"], {}, {})
        self.update(
            my_packet=lambda _, pkt: pkt,
            my_frame=lambda _, frame: frame,
            my_flow=lambda *_: self.mine,
            my_node=lambda *_: self.here,
            port_of=lambda _: PORT,
            port_at=lambda *_: PORT,
            inbound_ps_per_byte=lambda _: PORT.peer_ps_per_byte,
            incoming_at=lambda _, number: self.incoming[number],
            new_frame=lambda *_: SimpleNamespace(),
            about_incoming=lambda frame, incoming: setattr(frame, "flow", incoming.number),
            send_along=lambda _, slot, src, way, frame: self.sent.append((src, frame)),
            flow_of=lambda *_: flow,
            try_send=lambda *_: None,
            wake_by=lambda _, index, when: wake(when),
        )

    def hook(self, name, now, *given):
        self.node.now = now
        return self[name](self.me, self.node, *given)

    def incoming_of(self, number, src):
        if number not in self.incoming:
            fresh = zeros(self["incoming_state"], {}, {})
            fresh.__dict__.update(number=number, src=src, expected=0, complete=0, hash=0)
            self.incoming[number] = fresh
        return self.incoming[number]


class FileOf(Alone):
    """The scheme's file as plain Python, for one flow, with that of receivers."""

    def __init__(self, text, size, target, control="nscc", receivers=""):
        self.size, self.control, self.receivers, self.credit = size, control, receivers, None
        world = {"header": 64, "base_rtt": R, "bdp": 116_856, "in_turn": 0}
        super().__init__(f"uec:{control}_htsim", {"target": f"{target or 0}ps"}, text, **world)

    def call(self, hook, now=0, pkt=None):
        if hook == "on_start":
            self.flow.__dict__.update(size=self.size, rto=0, resend=0, window=0)
            self.me.at.world.mtu = 4086
            self.me.control = ("nscc", "rccc", "both").index(self.control)
            self.update(BITS, report_loss=self.report)
            self["set_up"](self.me)
            self.credit = ReceiverFile(self.receivers, int(self.control != "nscc"), flow=self.flow)
        if (hook in ("on_start", "on_ack") and self.control != "nscc") or hook == "on_send":
            self.credit.hook(hook, now, self.flow, pkt)
        super().call(hook, now, pkt)

    def report(self, node, flow, offset):
        flow.lost = offset
        self["on_loss"](self.me, node, flow)


class FileSender(uec.Sender):
    """A sender of the transcription's network that does what the files say."""

    files: ClassVar[dict] = {}

    def begin(self):
        self.file = FileOf(size=self.size, **self.files)
        super().begin()

    def backlog(self, _):
        flow = self.file.flow
        return flow.sent < flow.size and flow.sent - flow.acked < flow.window

    def pick(self, _):
        if not self.backlog(0):
            return None
        flow, seq = self.file.flow, self.file.flow.sent
        flow.sent = min(seq + 4086, flow.size)
        pkt = SimpleNamespace(seq=seq, size=flow.sent - seq + 64, payload=flow.sent - seq, flags=0, ecn=0, in_port=0)
        self.file.call("on_send", self.net.now, pkt)
        says = {"src": self.number, "ecn": False, "pkt": pkt, "end": flow.sent, "last": flow.sent == flow.size}
        return uec.Packet("data", self.flow, seq // 4086, pkt.size, self.dst, says)

    def arrive(self, pkt, _):
        if pkt.kind == "pull":
            self.pulls.append((self.net.now, pkt.says["frame"].quanta))
            self.file.credit.hook("on_control", self.net.now, None, pkt.says["frame"])
            self.line.kick()
            return
        self.acks += 1
        self.file.flow.acked = pkt.says["cum"]
        self.file.call("on_ack", self.net.now, pkt.says["pkt"])
        self.log.append((self.net.now, round(self.file.mine.cwnd, 3), self.file.mine.average))
        if pkt.says["cum"] == self.size:
            self.done = self.net.now
        self.line.kick()


class FileReceiver(uec.Receiver):
    files: ClassVar[dict] = {}

    def __init__(self, net, pacer=None):
        super().__init__(net)
        control = self.files["control"]
        self.file, self.due = ReceiverFile(self.files["receivers"], int(control != "nscc"), self.wake), None

    def wake(self, when):
        if self.due is None or when < self.due:
            self.due = when
            self.net.at(when, self, (uec.TIMER, 0), lambda: self.due == when and self.expire())

    def expire(self):
        self.due = None
        self.file.hook("on_timer", self.net.now)
        self.send_pulls()

    def send_pulls(self):
        for src, frame in self.file.sent:
            self.answers.append(uec.Packet("pull", frame.flow, 0, 64, src, {"frame": frame}))
            self.line.kick()
        self.file.sent.clear()

    def arrive(self, pkt, _):
        says = pkt.says
        incoming = self.file.incoming_of(pkt.flow, says["src"])
        incoming.expected = says["end"]
        incoming.complete = int(says["last"])
        says["pkt"].ecn = int(says["ecn"])
        if self.file.hook("on_data", self.net.now, incoming, says["pkt"]):
            answer = {"cum": says["end"], "pkt": says["pkt"]}
            self.answers.append(uec.Packet("ack", pkt.flow, pkt.offset, 64, says["src"], answer))
            self.line.kick()


def in_python(monkeypatch, flows, target, text="", control="nscc", receivers=""):
    """The same network, with the hosts of the files; the windows after each ACK, and pulls, of both."""
    more = settings_of(f"uec:{control}_htsim")[1]
    senders, _ = uec.run(flows, 16, uec.Constants(R, target=target), **more)
    with monkeypatch.context() as patch:
        files = {"text": text, "target": target, "control": control, "receivers": receivers}
        patch.setattr(FileSender, "files", files)
        patch.setattr(FileReceiver, "files", files)
        patch.setattr(uec, "Sender", FileSender)
        patch.setattr(uec, "Receiver", FileReceiver)
        found, _ = uec.run(flows, 16, uec.Constants(R, target=target), **more)
    assert [s.done for s in found] == [s.done for s in senders]
    for file, sender in zip(found, senders):
        assert [(now, cwnd) for now, cwnd, _ in file.log] == [(now, cwnd) for _, now, *_, cwnd in sender.log]
        assert file.pulls == sender.pulls


CASES = ((TWO, US), (SEVEN, US), (SEVEN, None), (SHORT, None))


@pytest.mark.parametrize("mistake", MISTAKES | IN_RECEIVERS)
def test_a_mistake_is_found(monkeypatch, mistake):
    name = "uec" if mistake in MISTAKES else "uec_receiver"
    text = (FOLDER / f"{name}.py").read_text()
    right, wrong = (MISTAKES | IN_RECEIVERS)[mistake]
    assert text.count(right) == 1
    changed = {"text" if name == "uec" else "receivers": text.replace(right, wrong)}
    with pytest.raises(AssertionError):
        for flows, target in CASES:
            in_python(monkeypatch, flows, target, **changed)


@pytest.mark.parametrize("mistake", IN_CREDIT)
def test_a_mistake_with_credit_is_found(monkeypatch, mistake):
    name, right, wrong = IN_CREDIT[mistake]
    text = (FOLDER / f"{name}.py").read_text()
    assert text.count(right) == 1
    changed = {"text" if name == "uec" else "receivers": text.replace(right, wrong)}
    with pytest.raises(AssertionError):
        for control in ("rccc", "both"):
            for flows, target in CASES:
                in_python(monkeypatch, flows, target, control=control, **changed)


@pytest.mark.parametrize("control", ["nscc", "rccc", "both"])
def test_the_files_in_python(monkeypatch, control):
    for flows, target in CASES:
        in_python(monkeypatch, flows, target, control=control)


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
            file["refuse"](file.me, file.node, file.flow, index, 1, rtt, 1)
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
    "the window stays": ("            mine.cwnd -= size\n", ""),
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


# ---- laws ----


def test_a_timeout_is_of_packets_that_have_been_in_flight_for_so_long():
    """Of four packets one is sent again 21 us after the first: the others are lost when the timer ends, it is a timeout later."""
    file = FileOf("", 10**6, None)
    mine, timeout = file.mine, file.mine.timeout

    def send(index, now, flags=0):
        file.flow.sent = max(file.flow.sent, (index + 1) * 4086)
        file.call("on_send", now, SimpleNamespace(seq=index * 4086, size=4150, payload=4086, flags=flags, ecn=0))

    def expire(now):
        file.node.now = now
        file["on_timeout"](file.me, file.node, file.flow)
        return [index for index in range(4) if has_bit(mine.again, index)]

    file["try_send"] = lambda *_: None
    for index in range(4):
        send(index, index * 332_000)
    file.node.now = 20 * US
    file["refuse"](file.me, file.node, file.flow, 2, 1, 20 * US, 1)
    assert file["choose_packet"](file.me, file.node, file.flow) == 2 * 4086
    send(2, 21 * US, BITS["RETRANSMITTED"])
    assert expire(timeout - 1000) == [] and file.flow.rto == 1000
    assert expire(timeout) == [0, 1, 3]
    assert expire(2 * timeout - 1000) == [0, 1, 3] and expire(2 * timeout) == [0, 1, 2, 3]
    assert mine.in_flight == 0 and timeout == pytest.approx(72_768_000 * 17 / 16, rel=0.01)


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


@pytest.mark.parametrize("scheme", ["uec", "uec:rccc", "uec:both", "uec:both_htsim"])
@pytest.mark.parametrize("rate, bound", [("100Gbps", 1.1), ("800Gbps", 1.25)])
def test_three_flows_share_a_link_at_any_rate(rate, bound, scheme):
    topo = star(hosts=4, rate=rate)
    flows = flow_list(topo, [(i, 0, 20_000_000, "0us") for i in (1, 2, 3)])
    made = simulate(topo, flows, parse(scheme), host=HOST, measure=Measure(sample="0s"))
    ideal = 3 * 20_000_000 * 4150 / 4086 * 8 / float(rate[:3]) / 1000  # us
    assert made.flows["acked_ns"].max() / 1000 < bound * ideal


def test_flows_of_a_host_share_what_they_ask_for():
    """Hosts 1, 2 and 3 send four flows each, to the same four hosts; pulls do not fill queues, so nothing is cut."""
    topo = star(hosts=8)
    flows = flow_list(topo, [(src, dst, 1_000_000, "0us") for src in (1, 2, 3) for dst in (4, 5, 6, 7)])
    made = simulate(topo, flows, parse("uec:rccc"), host=HOST, measure=Measure(sample="0s"))
    assert made.flows["acked_ns"].max() / 1000 < 1.2 * 4 * 1_000_000 * 4150 / 4086 * 8 / 1e5


def test_receivers_pull_less_in_an_oversubscribed_network():
    """Eight flows between racks, over two uplinks of a fourth of that: the least rate of pulls is 0.9 of what these have."""
    topo = leaf_spine(hosts=16, tors=2, spines=2)
    flows = flow_list(topo, [(i, 8 + i, 4_000_000, "0us") for i in range(8)])
    rates, none = (
        simulate(topo, flows, parse("uec:rccc+oblivious", {"uec_receiver.rates": on}), host=HOST, measure=Measure(sample="0s"))
        for on in (True, False)
    )
    ideal = 4 * 4_000_000 * 4150 / 4086 * 8 / 1e5
    assert rates.flows["acked_ns"].max() / 1000 < 1.1 * ideal / (0.9 * 0.99)
    assert rates.summary["retransmissions"] < 0.3 * none.summary["retransmissions"]


def test_lost_pulls_and_packets_are_repaired():
    topo = star(hosts=4).with_loss(0.05)
    flows = flow_list(topo, [(i, 0, 300_000, "0us") for i in (1, 2, 3)])
    for control in ("rccc", "both"):
        made = simulate(topo, flows, parse(f"uec:{control}"), host=HOST, control_loss=0.05, measure=Measure(sample="0s"))
        assert made.summary["flows_finished"] == 3


@pytest.mark.parametrize("scheme", ["uec+reps", "uec+oblivious", "uec+mixed", "uec:rccc+reps", "uec:both+mixed"])
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
