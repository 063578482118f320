"""BFC's variants against their transcriptions: traffic classes, incast label; NICs and switches without BFC."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from helpers import (
    QUANTUM,
    QUEUED_ACKS,
    LazyDRR,
    check_bad,
    check_frames,
    check_sending,
    check_threads,
    incast,
    network,
    pauses_of,
    peers_of,
    planted,
    senders,
    traced,
)
from paper.bfc_variants import Classes, labelled, one_class
from paper.drr import Strict
from paper.queue_assignment import READINGS
from test_bfc import crowd, replay
from test_dqa import ASSIGNMENTS, drawn, model_of, packet_of

from penstock_net.composition import parse
from penstock_net.errors import SpecError
from penstock_net.hashing import choice, node_seed
from penstock_net.sim.config import Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import star
from penstock_net.workload import flow_list

NO_BITMAP = {"refresh": 0}


class Levels:
    """Strict priority of classes with `queues` each, below it the round robin; a queue's number counts class by class."""

    def __init__(self, classes, queues):
        self.each, self.strict = queues, Strict([LazyDRR(queues, QUANTUM) for _ in range(classes)])

    def of(self, queue):
        return self.strict.levels[queue // self.each], queue % self.each

    def enqueue(self, queue, size):
        self.strict.enqueue(queue // self.each, queue % self.each, size)

    def dequeue(self):
        level, queue, size = self.strict.dequeue()
        return level * self.each + queue, size

    def pause(self, queue):
        level, q = self.of(queue)
        level.pause(q)

    def resume(self, queue):
        level, q = self.of(queue)
        level.resume(q)


def replay_variant(topo, flows, parameters, model_of, packet_of, dqa=None, **more):
    """Run BFC and compare every choice and every frame with the transcription -> the run, its rows, the number of frames.

    `dqa`: a file to be used instead of the package's.
    """
    parameters = {**NO_BITMAP, **parameters}
    run, rows = traced(topo, flows, f"bfc+{dqa}" if dqa else "bfc", {**parameters, "dqa": False} if dqa else parameters)
    sent = replay(topo, run, rows, "bfc", parameters, model_of, packet_of, **more)
    return run, rows, check_frames(run, topo, sent)


# ---- Traffic classes


# `literal` and `rotating` give new flows paused queues, whose place in the round is not the model's
@pytest.mark.parametrize("assignment", [name for name in READINGS if name not in ("literal", "rotating")])
def test_classes_have_queues_of_their_own(assignment):
    check_classes(assignment)


def check_classes(assignment, dqa=None):
    """Their parts of a flow table so small that flows share entries."""
    topo, queues = network(), {"queues": 12, "classes": 3, "assignment": assignment, "table": 4}
    flows = crowd(topo)
    flows = replace(flows, priority=(np.arange(len(flows)) % 3).astype("int8"))

    def model(topo, node, values):
        draws, reading = drawn(node), one_class(READINGS[ASSIGNMENTS[values["assignment"]]])
        mine = {**values, "queues": values["queues"] // 3}
        return Classes([model_of(topo, node, mine, reading, draws) for _ in range(3)])

    def packet(row, flows, values):
        p = packet_of(row, flows, {**values, "queues": values["queues"] // 3})
        return replace(p, destination_hash=place(row, flows, values), priority=int(flows["priority"][row.flow]))

    def place(row, flows, values):
        return int(choice(flows["dst"][row.flow], node_seed(row.node, 1) + 3, 16 * values["queues"]))

    _, rows, frames = replay_variant(topo, flows, queues, model, packet, dqa, link_of=lambda values: Levels(3, 4))
    assert frames > 100
    used = {(row.queue // 4, int(flows.priority[row.flow])) for row in rows if row.event == "enqueue"}
    assert used == {(i, i) for i in range(3)}


def test_classes_share_the_rotating_start():
    """Each class stays within its queues, and packets of lower priorities than there are classes belong to the last one."""
    topo, flows = network(), crowd(network())
    flows = replace(flows, priority=(np.arange(len(flows)) % 4).astype("int8"))
    _, rows = traced(topo, flows, "bfc", {"queues": 10, "classes": 3, "assignment": "rotating"})
    first = (0, 3, 6, 10)
    stored = [row for row in rows if row.event == "enqueue"]
    used = [{row.queue for row in stored if min(flows.priority[row.flow], 2) == c} for c in range(3)]
    assert all(min(queues) >= first[c] and max(queues) < first[c + 1] and len(queues) > 1 for c, queues in enumerate(used))


def test_a_class_does_not_wait_for_a_lower_one():
    """Alone in its class, a flow shares no queue, though there are more flows than queues; it is as fast as alone."""
    topo = network()
    flows = incast(topo, range(4, 16), size=60_000, more=[(3, 0, 50_000, "2us")])
    flows = replace(flows, priority=np.where(flows.src == 3, 0, 1).astype("int8"))
    (mine,) = np.flatnonzero(flows.src == 3)
    fct = [simulate(topo, flows, parse("bfc", {"queues": 4, "classes": n})).flows["slowdown"][int(mine)] for n in (1, 2)]
    assert fct[1] < 1.1 < 2 < fct[0]


def test_more_classes_than_queues():
    topo = network()
    flows = replace(crowd(topo), priority=(np.arange(21) % 2).astype("int8"))
    run = simulate(topo, flows, parse("bfc", {"queues": 2, "classes": 8}))
    assert run.summary["flows_finished"] == len(flows)


# ---- Incast label


def of_class(flows, incast):
    """The flows, some of them labelled."""
    return replace(flows, class_id=incast.astype("int8"), classes=("other", "incast"))


@pytest.mark.parametrize("assignment", ["reserved", "rotating", "two_choices"])
@pytest.mark.parametrize("queues", [4, 24])
def test_labelled_flows_share_a_queue(queues, assignment):
    check_label(queues, assignment)


def check_label(queues, assignment, dqa=None):
    """The last one; the others have the rest, of which a random one where none is empty."""
    topo, last = network(), queues - 1
    flows = crowd(topo)
    flows = of_class(flows, (flows.dst == 0) & (flows.src % 3 == 0))
    random = []

    def model(topo, node, values):
        draws = drawn(node)
        made = model_of(topo, node, values, labelled(READINGS[assignment]))

        def draw():
            random.append(node)
            return next(draws)

        made.draw = draw
        return made

    def packet(row, flows, values):
        return replace(packet_of(row, flows, values), incast=flows["class"][row.flow] == "incast" and row.kind == 0)

    given = {"incast_label": True, "queues": queues, "assignment": assignment}
    _, rows, frames = replay_variant(topo, flows, given, model, packet, dqa)
    assert frames > 100 and (len(random) > 5 or queues == 24)
    stored = [row for row in rows if row.event == "enqueue"]
    assert {row.queue for row in stored if flows.class_id[row.flow]} == {last}
    assert last not in {row.queue for row in stored if not flows.class_id[row.flow]}


def test_a_label_without_the_option_is_none():
    topo = network()
    flows = crowd(topo)
    runs = [simulate(topo, made, parse("bfc")) for made in (flows, of_class(flows, flows.dst == 0))]
    assert runs[0].flows["finish_ns"].equals(runs[1].flows["finish_ns"])
    alone = simulate(topo, flows, parse("bfc", {"incast_label": True, "queues": 1}))  # there is no queue for them
    assert alone.flows["finish_ns"].equals(simulate(topo, flows, parse("bfc", {"queues": 1})).flows["finish_ns"])


def test_the_label_isolates_other_flows():
    """With fewer queues than incast flows, a flow to the receiver of the incast gets half of the link."""
    topo = star(hosts=18)
    flows = flow_list(topo, [*((i, 0, 100_000, "0us") for i in range(1, 17)), (17, 0, 100_000, "5us")])
    flows = of_class(flows, flows.src < 17)
    fct = [simulate(topo, flows, parse("bfc", {"queues": 4, "incast_label": on})).flows["slowdown"][16] for on in (False, True)]
    assert fct[1] < 2.6 and fct[0] > 4


# ---- NICs and switches without BFC


def test_nics_that_ignore_pauses():
    topo = network()
    measure = Measure(sample="5us", pauses=True)
    runs = [
        simulate(topo, crowd(topo), parse(*scheme), measure=measure)
        for scheme in (("bfc",), ("bfc", {"nic_pauses": False}), ("bfc+window_cap", {"nic_pauses": False, "cap": "20KB"}))
    ]
    paused = [{node for node, _ in pauses_of(run) if node < topo.hosts} for run in runs]
    assert len(paused[0]) > 5 and not paused[1] and not paused[2]
    buffer = [run.summary["max_buffer_bytes"] for run in runs]
    assert buffer[0] < buffer[1] and buffer[2] < buffer[1]
    assert all(run.summary["flows_finished"] == len(run.flows) for run in runs)


def check_nics(scheme="bfc"):
    """A flow at each NIC: pauses hold the queues of switches alone; NICs send when line and window allow."""
    topo, cap = network(), 30_000
    flows = incast(topo, range(3, 16), size=150_000, every_ns=400)
    given = {**NO_BITMAP, "nic_pauses": False, "queues": 4, "cap": cap}
    run, rows = traced(topo, flows, f"{scheme}+window_cap", given, host=QUEUED_ACKS)
    told = replay(topo, run, rows, "bfc", {**NO_BITMAP, "queues": 4})
    peers = peers_of(topo)
    to_switches = {key: frames for key, frames in told.items() if peers[key][0] >= topo.hosts}
    assert check_frames(run, topo, to_switches) > 20
    assert sum(len(frames) for key, frames in told.items() if key not in to_switches) > 20
    sent, acks = senders(topo, flows, rows)
    for flow, got in acks.items():
        check_sending(sent[flow], got, [cap] * (len(got) + 1), lambda *_: 0)


def test_nics_that_ignore_pauses_send_on():
    check_nics()


IN_NICS = {
    "NICs are paused": ("if node.is_host and not bfc.nic_pauses:", "if 0:"),
    "switches ignore pauses, too": ("if node.is_host and not bfc.nic_pauses:", "if not bfc.nic_pauses:"),
    "NICs obey the first of them": (
        "if node.is_host and not bfc.nic_pauses:",
        "if node.is_host and not bfc.nic_pauses and value_of(pkt):",
    ),
}


@pytest.mark.parametrize("mistake", IN_NICS)
def test_a_mistake_about_nics_is_found(tmp_path, mistake):
    file = planted(tmp_path, "bfc", *IN_NICS[mistake])
    with pytest.raises(AssertionError):
        check_nics(file)


def test_plain_switches_have_no_scheme():
    """Spine switches without BFC pause nobody and obey nobody, and use one queue, as those of fifo do."""
    topo = network()
    run, rows = traced(topo, crowd(topo), "bfc", {"plain_switches": "spine*"})
    spines = [i for i, name in enumerate(topo.names) if name.startswith("spine")]
    assert {row.queue for row in rows if row.node in spines and row.event == "enqueue"} == {0}
    assert not any(node in spines for node, _ in pauses_of(run))
    counts = dict(run.ports.group_by("node").agg(pl.col("pauses_sent").sum()).iter_rows())
    assert all(counts[node] == 0 for node in spines) and sum(counts.values()) > 0


def test_all_switches_plain_is_fifo():
    topo = network()
    measure = Measure(sample="5us")
    plain, fifo = (
        simulate(topo, crowd(topo), scheme, measure=measure)
        for scheme in (parse("bfc", {"plain_switches": ["spine*", "tor*"], "nic_queues": 1}), "fifo")
    )
    assert plain.flows["finish_ns"].equals(fifo.flows["finish_ns"]) and plain.switches.equals(fifo.switches)


def test_a_plain_switch_among_those_of_a_lossless_scheme_may_drop():
    topo = network(buffer="200KB")
    flows = incast(topo, range(4, 16), size=60_000)
    run = simulate(topo, flows, parse("pfc", {"plain_switches": "tor*", "headroom": 0.5}))
    assert run.summary["drops"] > 0 and run.summary["flows_finished"] == len(flows)


def test_plain_switches_are_looked_for_once(monkeypatch):
    compared = []
    monkeypatch.setattr(
        "penstock_net.topology.wiring.fnmatchcase", lambda name, pattern: compared.append(name) or name == pattern
    )
    topo = network()
    simulate(topo, incast(topo, [4], size=1000), parse("bfc", {"plain_switches": "spine0"}))
    assert compared == list(topo.names[topo.hosts :])


def test_bad_switches_are_refused():
    topo = star(hosts=2)
    with pytest.raises(SpecError, match="plain_switches"):
        parse("bfc", {"plain_switches": 7})
    with pytest.raises(SpecError, match="no switch has this name"):
        simulate(topo, flow_list(topo, [(0, 1, 1000, "0us")]), parse("bfc", {"plain_switches": "host0"}))
    check_bad("bfc", {"classes": 9}, "1..8")


@pytest.mark.parametrize(
    "parameters",
    [{"classes": 3}, {"nic_pauses": False}, {"plain_switches": "tor0"}],
    ids=["classes", "nics", "plain"],
)
def test_any_number_of_threads_gives_the_same_results(parameters):
    run = check_threads("bfc", {"queues": 8, **parameters})
    assert run.ports["pauses_sent"].sum() > 0
