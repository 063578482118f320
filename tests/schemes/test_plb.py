"""PLB: every decision beside the transcription, and what it does to flows that meet on a link."""

import random

import pytest
from alone import Alone, check_mistake
from helpers import acted, check_alone, check_bad, check_threads
from paper import plb

from penstock_net.composition import parse
from penstock_net.hashing import choice, flow_hash, node_seed
from penstock_net.sim.config import HostConfig
from penstock_net.sim.simulate import simulate
from penstock_net.topology import leaf_spine, star
from penstock_net.workload import flow_list

US, MS = 10**6, 10**9
RETRANSMITTED = 2
PACKET = 1000


class Packet:
    def __init__(self, flags=0):
        self.flags, self.payload, self.ecn, self.rejected = flags, PACKET, 0, 0


class Sender(Alone):
    """The scheme's file as plain Python at a sender; its random numbers are those of `draws`."""

    def __init__(self, text="", draws=0, **parameters):
        drawn = random.Random(draws)
        super().__init__("plb", parameters, text)
        self.flow.hash = 77
        self.mine.repathed = 0
        self.update(draw=lambda *_: drawn.randrange(1 << 31), hash31=lambda a, b: (a, b))
        self.update(RANDOM_PATH=4, RETRANSMITTED=RETRANSMITTED)

    def send(self, now, again=False):
        """-> the entropy of a packet, a new one unless it is sent again."""
        pkt = Packet(RETRANSMITTED if again else 0)
        self.flow.sent += 0 if again else PACKET
        self.call("on_send", now, pkt)
        assert pkt.way == ((77, pkt.entropy) if pkt.entropy else 77)
        return pkt.entropy

    def expire(self, now):
        self.node.now = now
        self["on_expiry"](self.me, self.node, self.flow)

    def answer(self, now, acked, marked=0, rejected=0, packets=1):
        self.flow.acked = acked
        pkt = Packet()
        pkt.ecn, pkt.rejected, pkt.packets = marked, rejected, packets
        self.call("on_ack", now, pkt)


def pair(text="", seed=3, **parameters):
    """The scheme and the transcription, with the same random numbers and parameters."""
    drawn = random.Random(seed)
    names = {"rounds": "rehash_rounds", "idle_rounds": "idle_rehash_rounds"}
    more = {names.get(key, key): value for key, value in parameters.items() if key != "suspend"}
    model = plb.Connection(lambda: drawn.randrange(1 << 31), 50 * US, **more)
    return Sender(text, seed, **{"suspend": "50us", **parameters}), model


def walk(text="", seed=0, share=0.5, **parameters):
    """A flow that sends in bursts, is marked now and then, and times out: the same labels, and how often it moved."""
    scheme, model = pair(text, seed, **parameters)
    chosen = random.Random(100 + seed)
    now, out, marking, draining = 0, [], share, False
    for _ in range(4000):
        now += chosen.randrange(2 * US)
        draining = bool(out) if draining else chosen.random() < 0.02
        if draining and not out:
            now += 100 * US  # idle
        if chosen.random() < 0.01:
            marking = chosen.choice([0.0, 0.3, 0.6, 1.0])
        what = chosen.random()
        if what < 0.003:
            scheme.expire(now)
            model.timeout(now)
        elif what < 0.01 and out:
            assert scheme.send(now, again=True) == model.label
        elif (what < 0.5 and len(out) < 20 and not draining) or not out:
            una, nxt = scheme.flow.acked, scheme.flow.sent
            assert scheme.send(now) == model.send(now, una, nxt), (now, una)
            out.append(nxt + PACKET)
        else:
            count = min(chosen.choice([0, 1, 1, 1, 2]), len(out))  # 0: what came is beyond a gap
            acked = out[count - 1] if count else scheme.flow.acked
            del out[:count]
            marked = int(chosen.random() < marking)
            rejected = int(marked and chosen.random() < 0.2)
            scheme.answer(now, acked, marked - rejected, rejected, max(count, 1))
            model.ack(now, acked, scheme.flow.sent, PACKET * max(count, 1), marked)
        assert scheme.mine.entropy == model.label
    assert scheme.mine.repathed == model.rehashes
    return model.rehashes


CASES = [{}, {"threshold": 0.25}, {"rounds": 4, "idle_rounds": 1}, {"idle_rounds": 0, "rounds": 3}, {"suspend": "0s"}]


@pytest.mark.parametrize("parameters", CASES[:4])
@pytest.mark.parametrize("seed", range(3))
def test_every_packet_has_the_label_of_the_transcription(seed, parameters):
    assert walk(seed=seed, **parameters) > 3


MISTAKES = {
    "more than the threshold": ("if mine.marked < plb.threshold", "if mine.marked <= plb.threshold"),
    "congested rounds need not follow one another": ("        mine.congested = 0\n    elif", "        pass\n    elif"),
    "a mark for every packet": ("mine.marked += pkt.payload * packets_answered(node, pkt)", "mine.marked += pkt.payload"),
    "cut packets do not count": ("if pkt.ecn or my_packet(plb, pkt).rejected:", "if pkt.ecn:"),
    "marks are kept": ("    mine.marked = 0\n", ""),
    "rounds of one ACK": ("    mine.round_end = flow.sent\n", ""),
    "only when idle": ("enough = 1 if mine.congested >= plb.rounds else 0", "enough = 0"),
    "never when idle": ("    if idle and 0 <", "    if 0 and 0 <"),
    "idle or not": ("    if idle and 0 <", "    if 0 <"),
    "idle rounds for all": ("        check(plb, node, flow, True)", "        pass"),
    "at every packet": ("flow.sent - pkt.payload <= flow.acked:", "flow.sent >= flow.acked:"),
    "what is sent again is no first packet": ("not pkt.flags & RETRANSMITTED and", "pkt.flags & RETRANSMITTED and"),
    "counts on": ("    mine.congested = 0\n    mine.repathed", "    mine.repathed"),
    "not after timeouts": ("def on_expiry(plb, node, flow):\n    move", "def on_expiry(plb, node, flow):\n    my_flow"),
    "never suspended": ("and node.now >= mine.suspended_until:", "and node.now >= 0:"),
    "always as long": ("(1.0 + draw(node, RANDOM_PATH) / 2147483648.0)", "(1.0 + draw(node, RANDOM_PATH) * 0)"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(mistake):
    def compare(text):
        for parameters in CASES[:4]:
            walk(text, 1, **parameters)

    check_mistake("plb", *MISTAKES[mistake], compare)


def test_half_of_the_bytes_for_twelve_rounds():
    """By hand: a round of two packets, one of them marked, is congested; the twelfth one in a row moves the flow."""
    sender = Sender()
    for _ in range(3):
        sender.send(0)
    sender.answer(0, PACKET)  # the first round is the first packet
    for k in range(1, 27):
        sender.send(k)
        sender.answer(k, (k + 1) * PACKET, k % 2)
        assert (sender.mine.repathed > 0) == (k >= 24)


# ---- in the network ----


def meeting(count=2, size="4MB"):
    """Flows between two racks that ECMP gives the same of two spines."""
    topo = leaf_spine(hosts=2 * count, tors=2, spines=2)
    seeds = node_seed(topo.hosts, 1)
    ways = [int(choice(int(flow_hash(i, 1)), seeds, 2)) for i in range(40)]
    alike = [i for i in range(40) if ways[i] == ways[0]][:count]
    numbers = range(max(alike) + 1)
    return topo, flow_list(
        topo, [(alike.index(i), count + alike.index(i), size) if i in alike else (0, count, "1KB", "1s") for i in numbers]
    )


def test_elephants_on_one_link_part():
    """Their windows fill the link twice, so that every packet is marked; each attempt parts them with probability 1/2."""
    topo, flows = meeting()
    marks = {"ecn.k_min": "20KB", "ecn.k_max": "20KB"}
    stays, moves = (simulate(topo, flows, parse(f"ecn+window_cap+{name}", marks)) for name in ("entropy", "plb"))
    long = flows.bytes > 1000
    together, apart = (run.flows["fct_ns"].to_numpy()[long].max() for run in (stays, moves))
    ideal = 4_000_000 * 1.048 * 0.08
    assert together > 1.9 * ideal
    rounds = 2 * topo.base_rtt_ps() / 1000  # of a full queue
    assert ideal + 12 * rounds / 2 < apart < ideal + 60 * rounds / 2 and 0 < moves.counts["plb.repathed"] < 12


def test_a_flow_without_congestion_stays():
    topo = leaf_spine(hosts=8, tors=2, spines=4)
    flows = flow_list(topo, [(i, (i + 4) % 8, 400_000, f"{3 * i}us") for i in range(8)])
    for scheme in ("window_cap", "dctcp"):
        with_it = simulate(topo, flows, parse(f"{scheme}+plb"))
        without = simulate(topo, flows, parse(f"{scheme}+entropy"))
        assert with_it.flows.equals(without.flows) and with_it.counts["plb.repathed"] == 0


def test_a_timeout_moves_a_flow():
    topo = star(hosts=2).with_loss(0.2)
    run = simulate(topo, flow_list(topo, [(0, 1, 500, f"{i}ms") for i in range(20)]), "plb", host=HostConfig(rto="100us"))
    assert run.counts["plb.repathed"] == run.flows["retransmitted_bytes"].sum() // 500 > 3


@pytest.mark.parametrize("scheme", ["dctcp+plb", "uec+plb", "swift+ecn+plb", "plb+cbfc"])
def test_composed_with_a_transport(scheme):
    run = check_threads(scheme, {"plb.rounds": 2, "plb.idle_rounds": 1})
    assert acted(run) and run.summary["flows_finished"] == len(run.flows)


def test_flows_that_meet_no_other_are_ideal():
    check_alone("plb")


def test_bad_parameters_are_refused():
    check_bad("plb", {"threshold": 2}, "threshold")
    check_bad("plb", {"rounds": 0}, "rounds")
    check_bad("dctcp+plb+reps", None, "plb and reps both choose the entropy")
    check_bad("dctcp+plb+spray", None, "plb and spray both choose the path")
