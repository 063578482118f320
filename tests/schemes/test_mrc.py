"""MRC: its paths and losses beside a transcription, planted mistakes, and what a link, a plane and a mark cost in networks."""

import random
from itertools import pairwise
from types import SimpleNamespace

import pytest
from alone import Alone, check_mistake
from helpers import DATA, acted, check_bad, check_threads, traced
from paper import mrc
from test_uec import BITS

from penstock_net.composition import parse
from penstock_net.errors import SchemeError
from penstock_net.sim.config import Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import fat_tree, leaf_spine, planes
from penstock_net.workload import flow_list

US = 1_000_000
PROBE, ANSWER = 3, 4
GOOD, SUSPECT, OUT = 0, 1, 2
BASE = 8 * US


class Sender(Alone):
    """The file of paths as plain Python, at a host whose packets leave by the ports that the test says."""

    def __init__(self, text="", ports=1, **parameters):
        super().__init__("mrc", parameters, text, base_rtt=BASE, in_turn=int(ports > 1))
        self.mine.__dict__.update(dict.fromkeys(self["flow_counts"], 0))
        self.sent, self.timer, self.avoided, self.port = [], None, 0, 0
        self.flow.__dict__.update(hash=77, src=3, dst=9, lost=0, next_active=None)
        self.node.port_count, self.node.id = ports, 3
        self.down = set()
        self.update(
            BITS,
            NO_FLOW=None,
            ACK=1,
            hash31=lambda number, seed: number * 1000 + seed,
            port_of=lambda _: SimpleNamespace(slot=self.port),
            port_at=lambda _, slot: SimpleNamespace(slot=slot, down=int(slot in self.down)),
            my_frame=lambda _, frame: frame,
            first_flow_of=lambda _: self.flow,
            flow_of=lambda *_: self.flow,
            command_of=lambda frame: frame.command,
            new_frame=lambda _, kind, command: SimpleNamespace(command=command),
            about_sent=lambda frame, flow: setattr(frame, "flow", flow),
            about_flow=lambda frame, other: setattr(frame, "flow", other.flow),
            send_along=lambda _, slot, host, way, frame: self.sent.append((slot, host, way, frame)),
            set_timer=lambda _, index, when: setattr(self, "timer", None if when == self["NEVER"] else when),
            wake_by=lambda _, index, when: setattr(self, "timer", min(when, self.timer or when)),
            avoid_ports=lambda _, ports: setattr(self, "avoided", ports),
        )
        self.me.at.kind = 20
        self["on_start"](self.me, self.node, self.flow, None)

    def call(self, hook, now=0, pkt=None):
        """Not before the host is there."""

    def packet(self, index, now=0, port=0):
        """-> the value that packet takes."""
        self.node.now, self.port, pkt = now, port, SimpleNamespace(seq=1000 * index)
        self["on_send"](self.me, self.node, self.flow, pkt)
        assert pkt.way == 1000 * self.flow.hash + pkt.entropy or pkt.way == pkt.entropy + 1000 * self.flow.hash
        return pkt.entropy

    def ack(self, value, now=0, ecn=0):
        self.node.now = now
        self["on_ack"](self.me, self.node, self.flow, SimpleNamespace(entropy=value, ecn=ecn))

    def lose(self, index, now=0):
        self.node.now, self.flow.lost = now, 1000 * index
        self["on_loss"](self.me, self.node, self.flow)

    def expire(self, now):
        """-> the values that are probed at this time."""
        self.node.now, self.sent, self.timer = now, [], None
        self["on_timer"](self.me, self.node)
        return [frame.value for *_, frame in self.sent]

    def answer(self, value):
        self["on_control"](self.me, self.node, None, SimpleNamespace(command=ANSWER, value=value))


# ---- dialogues, by hand ----


def test_values_have_equal_turns_at_each_port():
    sender = Sender(ports=2, values=7)  # three for each; one is left over
    assert [sender.packet(i, port=i % 2) for i in range(12)] == [1, 4, 2, 5, 0, 3, 1, 4, 2, 5, 0, 3]


def test_a_mark_passes_the_value_over_for_a_time():
    sender = Sender(values=3, suspect="5us")
    assert [sender.packet(i) for i in range(3)] == [1, 2, 0]
    sender.ack(2, now=US, ecn=1)
    sender.ack(1, now=US)
    assert [sender.packet(i, now=2 * US) for i in range(4)] == [1, 0, 1, 0]
    assert [sender.packet(i, now=6 * US) for i in range(3)] == [1, 2, 0]
    for value in range(3):
        sender.ack(value, now=7 * US, ecn=1)
    assert [sender.packet(i, now=8 * US) for i in range(3)] == [1, 2, 0], "there are suspect ones only"
    sender.ack(1, now=8 * US, ecn=1)  # until 13 us
    assert [sender.packet(i, now=12 * US) for i in range(4)] == [2, 0, 2, 0]


def test_without_a_time_a_mark_is_of_one_base_rtt():
    sender = Sender(values=2)
    sender.ack(1, ecn=1)
    assert [sender.packet(i, now=BASE - 1) for i in range(2)] == [0, 0] and sender.packet(0, now=BASE) == 1


def test_a_loss_takes_a_value_out_until_a_probe_is_answered():
    sender = Sender(values=3, probe="20us", suspect="5us")
    assert [sender.packet(i) for i in range(3)] == [1, 2, 0]
    sender.lose(1, now=10 * US)
    sender.lose(1, now=11 * US)  # it is out already
    assert sender.mine.state == [GOOD, GOOD, OUT, *[GOOD] * 253] and sender.timer == 30 * US
    sender.ack(2, now=12 * US, ecn=1)  # of a packet before it: neither mark nor time brings it back
    assert [sender.packet(i, now=25 * US) for i in range(4)] == [1, 0, 1, 0]
    assert sender.expire(29 * US) == [] and sender.timer == 30 * US
    assert sender.expire(30 * US) == [2] and sender.timer == 50 * US
    assert sender.expire(50 * US) == [2] and sender.timer == 70 * US
    (slot, host, way, frame), *_ = sender.sent
    assert (slot, host, way) == (0, 9, 77 * 1000 + 2) and frame.source == 3 and frame.flow is sender.flow
    sender.answer(2)
    sender.answer(2)
    assert [sender.packet(i, now=51 * US) for i in range(3)] == [1, 2, 0]
    assert sender.expire(70 * US) == [] and sender.timer is None
    assert (sender.mine.lost, sender.mine.restored, sender.mine.gone) == (1, 1, 0)


def test_a_port_of_which_all_are_out_is_avoided():
    sender = Sender(ports=2, values=4)
    assert [sender.packet(i, port=i % 2) for i in range(4)] == [1, 3, 0, 2]
    sender.lose(0)
    assert sender.avoided == 0
    sender.lose(2)
    assert sender.avoided == 1
    sender.lose(1)
    sender.lose(3)
    assert sender.avoided == 3 and [sender.packet(i, port=0) for i in range(3)] == [1, 0, 1], "they go by what is out"
    assert sender.expire(100 * US) == [0, 1, 2, 3] and [slot for slot, *_ in sender.sent] == [0, 0, 1, 1]
    sender.down.add(0)
    sender.expire(200 * US)
    assert [slot for slot, *_ in sender.sent] == [1, 1], "a link that is down takes no probes"
    sender.answer(3)
    assert sender.avoided == 1


def test_a_receiver_answers_by_the_port_at_which_the_probe_came():
    sender = Sender()
    probe = SimpleNamespace(command=PROBE, value=5, way=123, source=2, flow="a flow")
    sender["on_control"](sender.me, sender.node, SimpleNamespace(slot=1), probe)
    ((slot, host, way, frame),) = sender.sent
    assert (slot, host, way) == (1, 2, ~123) and (frame.command, frame.value, frame.flow) == (ANSWER, 5, "a flow")


# ---- beside the transcription ----


def walk(seed, ports, values, count=700):
    """What happens to a sender: (what, time, port or value, packet)."""
    drawn, now, packet = random.Random(seed), 0, 0
    for _ in range(count):
        now += drawn.choice([0, 0, 100_000, US])
        what = drawn.choice(["send"] * 8 + ["mark", "mark", "good", "lose", "lose", "answer", "timer"])
        if what == "send":
            again = drawn.random() < 0.1 and packet
            yield what, now, drawn.randrange(ports), drawn.randrange(packet) if again else packet
            packet += 0 if again else 1
        else:
            yield what, now, drawn.randrange(max(values // ports, 1) * ports), drawn.randrange(packet) if packet else 0


PATHS = [(1, 1, 5), (2, 4, 13), (3, 2, 2), (4, 1, 64), (5, 3, 256), (6, 8, 4)]  # seed, ports, values


def compare_paths(text=""):
    for seed, ports, values in PATHS:
        sender = Sender(text, ports, values=values, suspect="6us", probe="11us")
        model = mrc.Paths(values, ports, 6 * US, 11 * US)
        for what, now, number, packet in walk(seed, ports, values):
            if what == "send":
                assert sender.packet(packet, now, number) == model.send(now, number, packet)
            elif what in ("mark", "good"):
                sender.ack(number, now, ecn=int(what == "mark"))
                if what == "mark":
                    model.marked(now, number)
            elif what == "lose":
                sender.lose(packet, now)
                model.lost(now, packet)
                assert not model.out or sender.timer <= min(model.out.values())
            elif what == "answer":
                sender.answer(number)
                model.answered(number)
            else:
                probed, timer = model.due(now)
                assert sender.expire(now) == probed and sender.timer == timer
                assert [slot for slot, *_ in sender.sent] == [number // sender.mine.share for number in probed]
            assert {port for port in range(64) if sender.avoided >> port & 1} == model.dead_planes()
            assert sender.mine.gone == len(model.out)


def test_paths_as_transcribed():
    compare_paths()


MISTAKES = {
    "one port has all": ("mine.share = max(mrc.values // mine.ports, 1)", "mine.share = mrc.values"),
    "a port has none": ("max(mrc.values // mine.ports, 1)", "mrc.values // mine.ports + 1"),
    "all ports share values": ("    return plane * mine.share + chosen", "    return chosen"),
    "no turns": ("    mine.turn[plane] = chosen\n", ""),
    "turns of all ports together": ("(mine.turn[plane] + i) % mine.share", "(mine.turn[0] + i) % mine.share"),
    "suspect for ever": ("mine.state[value] == SUSPECT and node.now >= mine.until[value]", "0"),
    "suspect a moment longer": ("node.now >= mine.until[value]", "node.now > mine.until[value]"),
    "suspect ones are as good": ("        if mine.state[value] == GOOD:\n", "        if mine.state[value] != OUT:\n"),
    "the last suspect one": ("mine.state[value] == SUSPECT and chosen < 0:", "mine.state[value] == SUSPECT:"),
    "out before suspect": ("        if mine.state[value] == SUSPECT and chosen < 0:\n            chosen = k\n", ""),
    "marks mean nothing": ("    if pkt.ecn and mine", "    if 0 and mine"),
    "a mark brings back": ("pkt.ecn and mine.state[value] != OUT", "pkt.ecn"),
    "the first mark counts": ("pkt.ecn and mine.state[value] != OUT", "pkt.ecn and mine.state[value] == GOOD"),
    "a loss is a mark": ("    mine.state[value] = OUT\n", "    mine.state[value] = SUSPECT\n"),
    "the value of another packet": ("mine.value[flow.lost // mrc.at.world.mtu % RING]", "mine.value[flow.lost % RING]"),
    "lost twice": ("value < 0 or mine.state[value] == OUT", "value < 0"),
    "a probe at once": (
        "    mine.until[value] = node.now + mrc.probe\n    mine.gone",
        "    mine.until[value] = node.now\n    mine.gone",
    ),
    "one probe": ("                mine.until[value] = node.now + mrc.probe\n", "                mine.until[value] = NEVER\n"),
    "no timer": ("    wake_by(node, mrc.at.index, mine.until[value])\n", "    wake_by(node, mrc.at.index, NEVER)\n"),
    "the timer ends": ("    set_timer(node, mrc.at.index, soonest)", "    set_timer(node, mrc.at.index, NEVER)"),
    "a port is avoided early": ("if mine.dead[plane] == mine.share:", "if mine.dead[plane] == 1:"),
    "a dead port is taken": ("        mine.avoided |= bit(plane)\n", ""),
    "avoided for ever": ("        mine.avoided &= ~bit(value // mine.share)\n", ""),
    "back, but as suspect": (
        "        mine.state[value] = GOOD\n        mine.gone",
        "        mine.state[value] = SUSPECT\n        mine.gone",
    ),
    "back, and not counted": ("        mine.dead[value // mine.share] -= 1\n", ""),
    "any answer counts": (
        "    if mine.state[value] == OUT:\n        mine.state[value] = GOOD\n",
        "    if 1:\n        mine.state[value] = GOOD\n",
    ),
    "probes by one port": ("slot = value // mine.share if mine.ports > 1 else port_of(flow).slot", "slot = 0"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_paths_is_found(mistake):
    check_mistake("mrc", *MISTAKES[mistake], compare_paths)


class GapFile(Alone):
    """The file of gaps as plain Python."""

    def __init__(self, text="", **parameters):
        super().__init__("reorder", parameters, text, base_rtt=BASE)
        self.mine.__dict__.update(dict.fromkeys(self["flow_counts"], 0))
        self.lost = []
        self.update(BITS, report_loss=lambda _, flow, offset: self.lost.append(offset // 1000))

    def transmit(self, index, now):
        self.node.now, self.flow.sent = now, max(self.flow.sent, 1000 * (index + 1))
        again = int(1000 * index < getattr(self, "high", 0))
        self.high = self.flow.sent
        self["on_send"](self.me, self.node, self.flow, SimpleNamespace(index=index, again=again))
        return now

    def answer(self, index, stamp, cum, cut=0, first=0, bits=0):
        """-> the packets that are lost."""
        self.flow.acked, self.lost = 1000 * cum, []
        self["on_ack"](self.me, self.node, self.flow, SimpleNamespace(index=index, stamp=stamp, cut=cut, first=first, bits=bits))
        return self.lost


def compare_gaps(text=""):
    """Packets of which some get lost, cut or late; ACKs of some of them are lost, and others have come by their bitmaps."""
    for seed, bound, steps in ((1, "9us", 1200), (2, "0us", 1200), (3, "30us", 2500)):
        drawn, now, sent, come, ways, cum = random.Random(seed), 900 * US, 0, set(), [], 0
        file, model = (
            GapFile(text, bound=bound),
            mrc.Gaps(parse("reorder", {"bound": bound}).values("reorder")["bound"] or 2 * BASE),
        )
        again = []
        for _ in range(steps):
            now += drawn.randrange(US) // 1024 * 1024  # as the file counts
            if ways and ways[0][0] <= now:
                _, index, stamp, fate = ways.pop(0)
                if fate == "cut" and index not in come:
                    model.heard({index})
                    assert file.answer(index, stamp, cum, cut=1) == []
                    again.append(index)
                elif fate != "cut":
                    come.add(index)
                    while cum in come:
                        cum += 1
                    if drawn.random() < 0.2:
                        continue  # the ACK is lost
                    first = max(index - 63, cum + 1) if drawn.random() < 0.7 else index
                    bits = sum(1 << i for i in range(64) if first + i in come)
                    model.heard({*range(cum - 400, cum), index} | {first + i for i in range(64) if bits >> i & 1})
                    lost = model.came(stamp)
                    assert file.answer(index, stamp, cum, first=first, bits=bits) == lost
                    again += lost
            elif sent - len(come) < 300:
                again = [i for i in again if i not in come]
                index = again.pop(0) if again else sent
                sent = max(sent, index + 1)
                file.transmit(index, now)
                model.send(now, index)
                fate = drawn.choice(["come"] * 12 + ["cut", "lost", "late"])
                if fate != "lost":
                    ways.append((now + 20 * US + drawn.randrange(40 * US if fate == "late" else 3 * US), index, now, fate))
                    ways.sort()
        assert file.mine.lost > 30


def test_gaps_as_transcribed():
    compare_gaps()


IN_GAPS = {
    "twice the bound": ("base_rtt) >> TICK", "base_rtt) >> TICK - 1"),
    "no default": ("reorder.bound if reorder.bound > 0 else 2 * reorder.at.world.base_rtt", "reorder.bound"),
    "what is cut has come in time": ("    if answer.cut:\n        return\n", ""),
    "what is cut is lost": ("    if answer.index >= mine.cum:\n", "    if answer.index >= mine.cum and not answer.cut:\n"),
    "what was sent later is lost": (" and older < SPAN // 2", ""),
    "no bitmap": ("    if answer.bits:\n", "    if 0:\n"),
    "half a bitmap": ("        mine.out[(word + 1) % WORDS] &= ~(found >> (64 - shift))\n", ""),
    "what is sent again waits": (
        "    mine.sent_at[index] = (node.now >> TICK) & SPAN\n",
        "    if not my_packet(reorder, pkt).again:\n        mine.sent_at[index] = (node.now >> TICK) & SPAN\n",
    ),
    "sent again once": (
        "    set_bit(mine.out, index)\n    if my",
        "    if not my_packet(reorder, pkt).again:\n        set_bit(mine.out, index)\n    if my",
    ),
    "stops at what was sent again": ("            elif not has_bit(mine.twice, index % RING):\n", "            else:\n"),
    "lost again and again": ("                clear_bit(mine.out, index % RING)\n                mine", "                mine"),
}


@pytest.mark.parametrize("mistake", IN_GAPS)
def test_a_mistake_in_gaps_is_found(mistake):
    check_mistake("reorder", *IN_GAPS[mistake], compare_gaps)


def test_times_of_gaps_wrap_around():
    file = GapFile(bound="5.5us")
    start = (1 << 41) - 3 * US  # 2^31 units of 2^10 ps
    for i in range(8):
        file.transmit(i, start + i * US)
    assert file.answer(7, start + 7 * US, 0, first=7, bits=1) == [0, 1]


# ---- in networks ----

DIES = 50 * US
QUIET = Measure(sample="0s", flows=False)
NO_QUEUE = {"values": 16, "bound": "2us"}  # of a flow alone: its packets do not overtake one another


def spines(*changes):
    return leaf_spine(hosts=8, tors=2, spines=4).with_changes(list(changes))


def dark(until=None, at=DIES, link=("tor0", "spine0")):
    """A link that is dark from a time on, of which nobody is told."""
    ends = dict(zip("ab", link))
    down = {"time": f"{at}ps", **ends, "up": False, "on_down": "hold"}
    return [down] + ([{"time": f"{until}ps", **ends, "up": True}] if until else [])


def arrivals(topo, rows, a="tor0", b="spine0"):
    """When data packets came for a link at its end `a`."""
    link = topo.links[topo.link(a, b)]
    node, port = topo.node(a), int(link["port_a"] if link["a"] == topo.node(a) else link["port_b"])
    return [row.at for row in rows if row.kind == DATA and row.event == "enqueue" and (row.node, row.port) == (node, port)]


def finished(topo, flows, parameters=None, scheme="mrc"):
    run = simulate(topo, flow_list(topo, flows), parse(scheme, parameters), measure=QUIET)
    assert run.summary["flows_finished"] == len(flows)
    return run


def test_a_link_that_dies_is_left_within_a_round_trip_and_the_bound():
    """And a turn of all values; what is lost is the share of one window that this link has."""
    topo, packet = spines(*dark()), 1048 * 80
    run, rows = traced(topo, flow_list(topo, [(0, 4, 1_000_000)]), "mrc", NO_QUEUE)
    used, lost = arrivals(topo, rows), run.counts["reorder.lost"]
    share = sum(at < DIES for at in used) / ((DIES - US) / packet)
    assert 0.1 < share < 0.6 and DIES < used[-1] < DIES + topo.base_rtt_ps() + 2 * US + 16 * packet
    assert 0 < lost <= share * 1.5 * topo.base_rtt_ps() / packet + 1
    assert lost == run.summary["retransmissions"] and run.flows["timeout_ns"].item() == 0
    assert run.counts["mrc.lost"] == round(16 * share) and run.counts["mrc.restored"] == 0


def test_goodput_falls_by_the_share_of_the_link():
    flows = [(i, 4 + i, 4_000_000) for i in range(4)]
    healthy, hurt = (finished(topo, flows, {"values": 256}) for topo in (spines(), spines(*dark())))
    before, after = (run.flows["fct_ns"].mean() * 1000 for run in (healthy, hurt))
    assert 0.9 < (after - DIES) / ((before - DIES) * 4 / 3) < 1.1
    assert (hurt.flows["timeout_ns"] > 0).sum() <= 1, "nothing comes behind the last packet of a flow"


@pytest.mark.parametrize("count", [2, 4])
def test_a_plane_that_dies_costs_one_of_them(count):
    """Its spine does; hosts go on to see their links."""
    night = {"time": f"{DIES}ps", "switch": "spine0", "night": "5ms", "on_down": "hold"}
    topo = planes(hosts=4, planes=count, tors=2, spines=1)
    flows = [(0, 2, 2_000_000 * count)]
    before, after = (finished(t, flows).flows["fct_ns"].item() * 1000 for t in (topo, topo.with_changes([night])))
    assert before < 1.1 * 2000 * 1048 * 80 and 0.97 < (after - DIES) / ((before - DIES) * count / (count - 1)) < 1.15


def test_what_is_trimmed_takes_nothing_out():
    run = finished(spines(), [(i, 0, 300_000) for i in range(1, 8)])
    assert run.ports["trims"].sum() == run.summary["retransmissions"] > 300
    assert run.counts["mrc.lost"] == run.counts["reorder.lost"] == 0 < run.counts["mrc.suspected"]


def test_packets_take_planes_in_turn():
    topo = planes(hosts=4, planes=3, tors=2, spines=2)
    _, rows = traced(topo, flow_list(topo, [(0, 2, 300_000), (1, 3, 100_000)]), "mrc", {"values": 12})
    for flow, size in ((0, 300), (1, 100)):
        taken = [
            row.offset // 1000 for row in rows if row.kind == DATA and row.event == "enqueue" and row[1] == 4 and row.flow == flow
        ]
        assert len(taken) in (size // 3, size // 3 + 1) and {b - a for a, b in pairwise(taken)} == {3}


def test_a_path_comes_back_when_its_probe_is_answered():
    back = 120 * US
    topo = spines(*dark(back))
    run, rows = traced(topo, flow_list(topo, [(0, 4, 4_000_000)]), "mrc", {**NO_QUEUE, "probe": "20us"})
    used = [at for at in arrivals(topo, rows) if at > DIES + 20 * US]
    assert run.counts["mrc.restored"] == run.counts["mrc.lost"] > 0
    assert back < used[0] < back + 20 * US + topo.base_rtt_ps() and len(used) > 100


def test_where_every_path_is_out_packets_go_on():
    topo = leaf_spine(hosts=2, tors=2, spines=1).with_changes(dark(400 * US))
    run = finished(topo, [(0, 1, 1_000_000)], {"values": 4})
    assert run.counts["mrc.lost"] >= 4 and run.flows["fct_ns"].item() < 700_000


def test_in_a_fat_tree():
    """Nobody waits for a timeout, but for what had been lost of the end of a flow."""
    topo = fat_tree(k=4).with_changes(dark(link=("agg0", "core0")))
    run = finished(topo, [(i, (i + 8) % 16, 2_000_000) for i in range(16)])
    assert (run.flows["timeout_ns"] > 0).sum() <= 1 and run.counts["mrc.lost"] > 20
    assert run.flows["fct_ns"].max() < 420_000


def test_a_port_that_is_down_is_not_taken():
    """Routes are those of the links that are left."""
    topo = planes(hosts=4, planes=2, tors=2, spines=1).with_changes([{"time": "20us", "a": "host0", "b": "tor0", "up": False}])
    run = finished(topo, [(0, 2, 2_000_000), (2, 0, 2_000_000)])
    assert run.flows["timeout_ns"].sum() == 0 and run.flows["fct_ns"].max() < 220_000


@pytest.mark.parametrize("topo", [None, planes(hosts=16, planes=2, tors=4, spines=2)])
def test_on_two_threads(topo):
    run = check_threads("mrc", {"values": 16}, topo)
    assert acted(run) and run.summary["flows_finished"] == len(run.flows)


def test_bad_parameters_are_refused():
    check_bad("mrc", {"values": 257}, "1..256")
    check_bad("mrc", {"probe": "0us"}, "probe")
    with pytest.raises(SchemeError, match="both choose"):
        finished(spines(), [(0, 4, 1000)], scheme="mrc+reps")
