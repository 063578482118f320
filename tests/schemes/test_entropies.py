"""Entropies: what carries them, the load balancers that choose them, and their composition with transports."""

import random
from types import SimpleNamespace

import pytest
from alone import Alone, check_mistake
from drawn import examples
from helpers import DATA, acted, check_alone, check_bad, check_threads, network, planted, traced
from hypothesis import Phase, given
from hypothesis import strategies as st
from paper import entropies
from test_host_hooks import scheme as of_hooks

from penstock_net.composition import parse
from penstock_net.errors import SchemeError
from penstock_net.hashing import choice
from penstock_net.sim.config import HostConfig
from penstock_net.sim.simulate import simulate
from penstock_net.topology import leaf_spine, star
from penstock_net.workload import flow_list

MS = 10**9
ACK, TRIMMED = 1, 32


class Balancer(Alone):
    """A load balancer's file as plain Python; its random numbers are those of `draws`."""

    def __init__(self, name, text="", draws=0, **parameters):
        self.drawn = random.Random(draws)
        super().__init__(name, parameters, text)
        self.flow.hash = 0x1234567
        self.update(
            draw=lambda *_: self.drawn.randrange(1 << 31),
            hash31=lambda number, seed: number * 1000 + seed,
            RANDOM_PATH=4,
            TRIMMED=TRIMMED,
        )

    def next(self):
        """-> the entropy of a packet that leaves now."""
        pkt = SimpleNamespace()
        self["on_send"](self.me, self.node, self.flow, pkt)
        assert pkt.way == 0x1234567 * 1000 + pkt.entropy
        return pkt.entropy

    def answer(self, entropy, now=0, ecn=0, rejected=0):
        self.node.now = now
        if "on_ack" in self:
            self["on_ack"](self.me, self.node, self.flow, SimpleNamespace(entropy=entropy, ecn=ecn, rejected=rejected))

    def expire(self, now):
        self.node.now = now
        if "on_expiry" in self:
            self["on_expiry"](self.me, self.node, self.flow)


def sent(balancer, count):
    return [balancer.next() for _ in range(count)]


# ---- dialogues, by hand ----


def test_reps_takes_good_entropies_again_the_oldest_one_first():
    reps = Balancer("reps", draws=5)
    reps.answer(5)
    reps.answer(7)
    assert sent(reps, 2) == [5, 7]
    assert len(set(sent(reps, 40))) > 20  # random
    for entropy in range(1, 11):
        reps.answer(entropy)
    assert sent(reps, 8) == [3, 4, 5, 6, 7, 8, 9, 10]
    assert len(set(sent(reps, 40))) > 20


def test_reps_ignores_marks_and_what_was_cut_on_the_way():
    reps = Balancer("reps", draws=1)
    reps.answer(1, ecn=1)
    reps.answer(2, rejected=1)
    reps.answer(3)
    assert sent(reps, 2)[0] == 3 and reps.mine.fresh == 0


def test_reps_freezes_after_a_timeout_and_then_explores():
    reps = Balancer("reps", draws=2)
    for entropy in range(101, 111):
        reps.answer(entropy)
    sent(reps, 8)
    reps.expire(MS)
    ring = [109, 110, 103, 104, 105, 106, 107, 108]
    assert sent(reps, 18) == [*ring, *ring, 109, 110]
    reps.expire(2 * MS)  # while frozen: nothing
    reps.answer(120, 3 * MS)
    assert sent(reps, 2) == [120, 104]
    reps.answer(121, 11 * MS)
    explored = sent(reps, 16)
    assert max(explored) < 64 and len(set(explored)) > 8
    assert reps.next() == 121 and reps.next() < 64


def test_reps_whose_good_paths_have_all_died_explores_at_a_timeout():
    """No ACK comes back, so nothing but a timeout can end the freeze."""
    reps = Balancer("reps", draws=2)
    for entropy in range(101, 109):
        reps.answer(entropy)
    reps.expire(MS)
    assert min(sent(reps, 16)) > 100
    reps.expire(10 * MS)  # still frozen
    assert min(sent(reps, 16)) > 100
    reps.expire(11 * MS)
    assert max(sent(reps, 16)) < 64 and reps.next() < 64 and reps.mine.frozen_until == 0


def test_oblivious_takes_all_in_every_round():
    oblivious = Balancer("oblivious", draws=3)
    rounds = [sent(oblivious, 64) for _ in range(3)]
    assert all(sorted(one) == list(range(64)) for one in rounds) and rounds[0] != rounds[1] != rounds[2]


def test_mixed_skips_what_was_marked_and_forgives():
    """The only entropies are 0 and 1. A mark of 1: the walk takes 0 once more, then 1 again."""
    mixed = Balancer("mixed", draws=4, entropy_bits=1)
    mixed.answer(1, ecn=1)
    assert 1 not in sent(mixed, 1) and 1 in sent(mixed, 3)
    mixed.answer(0, rejected=1)
    assert mixed.mine.penalty[0] == 4
    mixed.expire(0)
    assert mixed.mine.penalty[0] == 15


# ---- beside the transcription ----

steps = st.lists(
    st.tuples(st.sampled_from(["send"] * 6 + ["good"] * 4 + ["mark", "nack", "timeout"]), st.integers(0, 63), st.integers(0, MS)),
    min_size=40,
    max_size=400,
)


def model_of(name, seed, **parameters):
    drawn = random.Random(seed)
    number = lambda: drawn.randrange(1 << 31) & 63  # noqa: E731
    if name == "oblivious":
        rounds = entropies.entropies(iter(number, -1))
        return SimpleNamespace(send=lambda: next(rounds), answer=lambda *_: None, timeout=lambda *_: None)
    if name == "mixed":
        mixed = entropies.Mixed(number, **parameters)
        return SimpleNamespace(
            send=mixed.send,
            answer=lambda _, entropy, kind: mixed.answer(entropy, kind),
            timeout=lambda _: mixed.answer(0, "timeout"),
        )
    reps = entropies.Reps(number, 10 * MS)
    return SimpleNamespace(send=reps.send, answer=lambda now, e, kind: reps.answer(now, e, kind == "good"), timeout=reps.timeout)


def compare(name, walk, text="", seed=7, **parameters):
    scheme, model, now = Balancer(name, text, seed, **parameters), model_of(name, seed, **parameters), 0
    for what, entropy, later in walk:
        now += later
        if what == "send":
            assert scheme.next() == model.send()
        elif what == "timeout":
            scheme.expire(now)
            model.timeout(now)
        else:
            scheme.answer(entropy, now, ecn=int(what == "mark"), rejected=int(what == "nack"))
            model.answer(now, entropy, what)


@pytest.mark.parametrize("name, parameters", [("reps", {}), ("oblivious", {}), ("mixed", {}), ("mixed", {"recycle": False})])
@examples(60, phases=[Phase.explicit, Phase.generate])
@given(walk=steps)
def test_as_transcribed(name, parameters, walk):
    compare(name, walk, **parameters)


MISTAKES = {
    "any good one": ("reps", "mine.head + SLOTS - mine.fresh - 1) % SLOTS", "mine.head + SLOTS - 1) % SLOTS"),
    "taken for ever": ("reps", "        mine.fresh -= 1\n", ""),
    "marks are good": ("reps", "if not pkt.ecn and not answer.rejected:", "if not answer.rejected:"),
    "cut on the way is good": ("reps", "if not pkt.ecn and not answer.rejected:", "if not pkt.ecn:"),
    "more fresh ones than slots": ("reps", "min(mine.fresh + 1, SLOTS)", "mine.fresh + 1"),
    "freezes again": ("reps", "if mine.frozen_until == 0 and mine.explore == 0:", "if mine.explore == 0:"),
    "freezes while exploring": ("reps", "if mine.frozen_until == 0 and mine.explore == 0:", "if mine.frozen_until == 0:"),
    "never thaws": ("reps", "and node.now >= mine.frozen_until:", "and node.now < 0:"),
    "thaws at an ACK only": (
        "reps",
        "    thaw(reps, node, flow)\n    if mine.frozen_until == 0",
        "    if mine.frozen_until == 0",
    ),
    "keeps the ring": ("reps", "        mine.filled = 0\n        mine.fresh = 0\n", ""),
    "explores less": ("reps", "EXPLORED = 16", "EXPLORED = 15"),
    "frozen beyond the ring": ("reps", "mine.next % mine.filled + 1", "mine.next % SLOTS + 1"),
    "one mask": ("oblivious", "    if mine.index == 0:\n", "    if mine.index == 0 and mine.mask == 0:\n"),
    "no mask": ("oblivious", "mine.index ^ mine.mask", "mine.index"),
    "the youngest first": ("mixed", "mine.ring[mine.first]", "mine.ring[(mine.first + mine.good - 1) % SLOTS]"),
    "a mark as bad as a cut": ("mixed", "MARKED = 1", "MARKED = 4"),
    "a cut as good as a mark": ("mixed", "REJECTED = 4", "REJECTED = 1"),
    "penalties without end": ("mixed", "min(mine.penalty[entropy] + penalty, MOST)", "mine.penalty[entropy] + penalty"),
    "no pardon": ("mixed", "        mine.penalty[entropy] -= 1\n", ""),
    "pardon for all": (
        "mixed",
        "            if mine.penalty[entropy] == 0:",
        "            mine.penalty[entropy] -= 1\n            if mine.penalty[entropy] <= 0:",
    ),
    "half a round": ("mixed", "for _ in range(1 << mixed.entropy_bits):", "for _ in range(8):"),
    "timeouts are forgotten": ("mixed", "punish(mixed, flow, 0, MOST)", "punish(mixed, flow, 0, 0)"),
}


def walks():
    """Some of everything; timeouts with few good answers; no good answers at all."""
    chosen = random.Random(11)
    every = [
        (chosen.choice(["send"] * 5 + ["good"] * 4 + ["mark", "nack"]), chosen.randrange(64), 20_000_000) for _ in range(3000)
    ]
    for k in range(400, 3000, 400):
        every[k : k + 20] = [
            ("timeout", 0, 0),
            *[("send", 0, 0)] * 12,
            ("good", 1, 11 * MS),
            ("timeout", 0, 0),
            *[("send", 0, 0)] * 5,
        ]
    few = [*[("good", e, 0) for e in range(3)], ("timeout", 0, 0), *[("send", 0, 0)] * 9, ("timeout", 0, 9 * MS)]
    few += [("good", 9, 2 * MS), *[("send", 0, 0)] * 40]
    few += [*[("good", e, 0) for e in range(8)], ("timeout", 0, 0), ("timeout", 0, 11 * MS), *[("send", 0, 0)] * 20]
    bad = [(chosen.choice(["send"] * 7 + ["mark"] * 2 + ["nack"]), chosen.randrange(64), 0) for _ in range(3000)]
    bad += (
        [("mark", e, 0) for e in range(64) for _ in range(20)]
        + [("send", 0, 0)] * 3000
        + [("timeout", 0, 0), *[("send", 0, 0)] * 200]
    )
    return every, few, bad


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(mistake):
    name, right, wrong = MISTAKES[mistake]

    def compare_all(text=""):
        for walk in walks():
            compare(name, walk, text)

    compare_all()
    check_mistake(name, right, wrong, compare_all)


# ---- in the network ----

CROSSING = [(i, (i + 4 * k) % 16, 150_000 + 7 * i, f"{i}us") for i in range(16) for k in (1, 2)]


def test_without_a_balancer_a_flow_keeps_its_path():
    topo = network(spines=4)
    alone, carried = (simulate(topo, flow_list(topo, CROSSING), parse(name)) for name in ("window_cap", "window_cap+entropy"))
    assert alone.flows.equals(carried.flows)


def ways(topo, rows):
    """(flow, offset) -> the spine that this packet crossed."""
    return {(r.flow, r.offset): r.node for r in rows if r.kind == DATA and r.event == "dequeue" and r.node >= topo.hosts + 4}


def test_in_every_round_each_path_is_taken_as_often_as_entropies_hash_to_it():
    topo, orders = network(spines=4), []
    _, rows = traced(topo, flow_list(topo, CROSSING), "oblivious")
    taken = ways(topo, rows)
    for flow in range(len(CROSSING)):
        first, second = ([taken[flow, 1000 * (64 * k + n)] for n in range(64)] for k in range(2))
        assert sorted(first) == sorted(second) and len(set(first)) == 4
        orders.append(first != second)  # by another mask
    assert sum(orders) > 20


def test_one_entropy_is_one_path():
    topo = network(spines=4)
    _, rows = traced(topo, flow_list(topo, CROSSING), "oblivious", {"entropy_bits": 0})
    taken = ways(topo, rows)
    assert all(len({node for (f, _), node in taken.items() if f == flow}) <= 1 for flow in range(len(CROSSING)))


def entropy_alone():
    scheme = Alone.__new__(Alone)
    dict.__init__(scheme, DATA=0, ACK=1, TRIMMED=TRIMMED, my_packet=lambda _, pkt: pkt, pick=choice, path_count=lambda *_: 4)
    from penstock_net.composition import FOLDER

    exec((FOLDER / "entropy.py").read_text(), scheme)
    return scheme


def test_what_is_cut_before_the_last_switch_is_rejected():
    scheme, me = entropy_alone(), SimpleNamespace(at=SimpleNamespace(world=SimpleNamespace(host_count=16)))
    for kind, flags, peer, expected in ((0, TRIMMED, 20, 1), (0, TRIMMED, 3, 0), (0, 1, 20, 0), (1, TRIMMED, 20, 0)):
        pkt = SimpleNamespace(kind=kind, flags=flags, rejected=0)
        scheme["on_enqueue"](me, None, SimpleNamespace(peer_node=peer), None, pkt)
        assert pkt.rejected == expected


def test_data_and_acks_have_the_way_of_their_entropy_and_frames_that_of_their_flow():
    scheme, node = entropy_alone(), SimpleNamespace(hash_seed=99)
    for kind, way in ((0, 77), (1, ~77), (2, 5)):
        pkt = SimpleNamespace(kind=kind, way=77, hash=5)
        assert scheme["choose_path"](None, node, None, pkt) == choice(way, 99, 4)


def slowed():
    """Four paths, one of them with a quarter of the rate."""
    topo = leaf_spine(hosts=8, tors=2, spines=4)
    topo = topo.with_changes([{"time": "1ns", "a": "tor0", "b": "spine3", "rate": "25Gbps"}])
    return topo, flow_list(topo, [(i, 4 + i, 2_000_000) for i in range(3)])


@pytest.mark.parametrize("balancer", ["reps", "mixed"])
def test_a_slow_path_is_used_less(balancer):
    topo, flows = slowed()
    evenly, chosen = (simulate(topo, flows, parse(f"ecn+{name}")) for name in ("oblivious", balancer))
    sent = chosen.ports.filter(chosen.ports["node"] == 8)
    slow, other = (sent.filter(sent["peer"] == spine)["tx_bytes"].item() for spine in (13, 12))
    assert slow < 0.6 * other and chosen.flows["fct_ns"].max() < 0.7 * evenly.flows["fct_ns"].max()


@pytest.mark.parametrize("scheme", ["bfc+reps", "ndp+reps", "reps+ndp", "ndp+oblivious", "dcqcn+mixed", "homa+oblivious"])
def test_composed_with_a_transport(scheme):
    run = check_threads(scheme)
    assert acted(run) and run.summary["flows_finished"] == len(run.flows)


@pytest.mark.parametrize("scheme", ["ndp+oblivious", "oblivious+ndp"])
def test_ndp_leaves_its_paths_to_the_balancer(scheme):
    """With one entropy a flow of it has one path, else all."""
    topo = network(spines=4)
    for bits, count in ((0, 1), (6, 4)):
        _, rows = traced(topo, flow_list(topo, CROSSING), scheme, {"entropy_bits": bits})
        taken = ways(topo, rows)
        assert {len({node for (f, _), node in taken.items() if f == flow}) for flow in range(len(CROSSING))} == {count}


def test_two_balancers_are_refused():
    with pytest.raises(SchemeError, match="both choose"):
        simulate(*slowed(), parse("spray+reps"))
    with pytest.raises(SchemeError, match="both choose"):
        simulate(*slowed(), parse("reps+oblivious"))


def test_flows_that_meet_no_other_are_ideal():
    for balancer in ("reps", "oblivious", "mixed"):
        check_alone(balancer)


def test_every_timeout_is_told():
    """A flow of one packet is sent again after each of them, and for no other reason."""
    topo = star(hosts=2).with_loss(0.3)
    flows = flow_list(topo, [(0, 1, 500, f"{10 * i}ms") for i in range(40)])
    run = simulate(topo, flows, parse(of_hooks("expiry")), host=HostConfig(rto="100us"))
    told = run.ports.filter(run.ports["node"] == 0)["ecn_marks"].item()
    assert told == run.flows["retransmitted_bytes"].sum() // 500 > 20


def test_bad_parameters_are_refused():
    check_bad("reps", {"entropy_bits": 17}, "0..16")
    check_bad("mixed", {"entropy_bits": 9}, "0..8")
    check_bad("oblivious", {"entropy_bits": -1}, "0..16")
    check_bad("reps", {"freeze": "0us"}, "freeze")


def test_a_planted_mistake_in_the_carrier_is_found(tmp_path):
    """Were the way that of the flow's hash alone, one path of four would carry all of a flow."""
    file = planted(tmp_path, "oblivious", "hash31(flow.hash, sent.entropy)", "hash31(flow.hash, 0)")
    topo = network(spines=4)
    _, rows = traced(topo, flow_list(topo, CROSSING), file)
    taken = ways(topo, rows)
    assert len({node for (flow, _), node in taken.items() if flow == 1}) == 1
