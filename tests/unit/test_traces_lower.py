"""Traces as flows: exactly the times of the trace, whatever the network does; bytes and dependencies are conserved."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import penstock_net as ps
from penstock_net.errors import SpecError
from penstock_net.workload.placement import PLACEMENTS, placed
from penstock_net.workload.traces import convert, place
from penstock_net.workload.traces.dag import CALC, COLLECTIVE, COLLECTIVES, RECV, SEND, Call, Trace
from penstock_net.workload.traces.expand import at_most, expand
from penstock_net.workload.traces.lower import _Lowering, lower


@st.composite
def traces(draw):
    """Operations in an order in which they could have run, so that nothing waits in a circle."""
    ranks = draw(st.integers(2, 5))
    trace = Trace("drawn", ranks)
    own = [[] for _ in range(ranks)]

    def add(op):
        rank = trace.rank[op]
        for earlier in draw(st.lists(st.sampled_from(own[rank]), max_size=3, unique=True)) if own[rank] else ():
            trace.wait(op, earlier, draw(st.booleans()))
        own[rank].append(op)

    for _ in range(draw(st.integers(1, 25))):
        kind = draw(st.sampled_from([SEND, SEND, CALC, CALC, COLLECTIVE]))
        if kind == SEND:
            src, dst = draw(st.integers(0, ranks - 1)), draw(st.integers(0, ranks - 1))
            size, tag = draw(st.integers(0, 200)), draw(st.integers(0, 1))
            add(trace.send(src, dst, size, tag))
            add(trace.recv(dst, src, size, tag))
        elif kind == CALC:
            add(trace.calc(draw(st.integers(0, ranks - 1)), draw(st.integers(0, 50))))
        else:
            group = tuple(draw(st.permutations(range(ranks)))[: draw(st.integers(1, ranks))])
            root = draw(st.integers(0, len(group) - 1))
            call = Call(draw(st.sampled_from(COLLECTIVES)), group, draw(st.integers(0, 40)), root)
            for rank in group:
                add(trace.collective(rank, call))
    return trace


def replay(trace, calls, partner, took, acknowledged, eager):
    """When each message starts, and each operation begins, by running the operations: took[m] after its start a message has
    arrived, acknowledged[m] after it the sender knows. Messages are ("op", send) and ("call", first member, number).
    """
    starts, begin, complete = {}, {}, {}

    def began(op):
        if op not in begin:
            own = [(p, s) for c, p, s in zip(trace.child, trace.parent, trace.on_start) if c == op]
            begin[op] = max([began(p) if s else completed(p) for p, s in own], default=0)
        return begin[op]

    def started(message):
        if message not in starts:
            if message[0] == "op":
                starts[message] = began(message[1])
            else:
                _, first, number = message
                ops, schedule = calls[first]
                parents = schedule.parent[schedule.child == number]
                own = ops[schedule.src[number]]
                starts[message] = max([began(own), *(arrived(("call", first, int(p))) for p in parents)])
        return starts[message]

    def arrived(message):
        return started(message) + took(message)

    def completed(op):
        if op not in complete:
            kind, local = trace.kind[op], trace.rank[op] == trace.peer[op]
            if kind == CALC:
                complete[op] = began(op) + trace.amount[op]
            elif kind == SEND:
                at_once = local or trace.amount[op] <= eager
                complete[op] = began(op) if at_once else began(op) + acknowledged(("op", op))
            elif kind == RECV:
                sent = partner[op]
                complete[op] = max(began(op), completed(sent) if local else arrived(("op", sent)))
            else:
                first = next(f for f, (ops, _) in calls.items() if op in ops)
                ops, schedule = calls[first]
                member = ops.index(op)
                inward = np.flatnonzero(schedule.dst == member)
                out = np.flatnonzero(schedule.src == member)
                ends = [arrived(("call", first, int(m))) for m in inward]
                ends = ends or [started(("call", first, int(m))) + acknowledged(("call", first, int(m))) for m in out]
                complete[op] = max([began(op), *ends])
        return complete[op]

    for op, kind in enumerate(trace.kind):
        if kind == SEND and trace.rank[op] != trace.peer[op]:
            started(("op", op))
    for first, (_, schedule) in calls.items():
        for number in range(len(schedule.src)):
            started(("call", first, number))
    for op in range(len(trace)):
        began(op)
    return starts, begin


def evaluate(lowering, took, acknowledged):
    """When each flow starts by the rule of Flows: `gap` after the last parent, not before `start`."""
    parents = [[] for _ in lowering.src]
    for child, parent in zip(lowering.child, lowering.parent):
        parents[child].append(parent)
    begins: dict[int, int] = {}

    def begin(flow):
        if flow not in begins:
            ends = []
            for parent in parents[flow]:
                assert lowering.src[flow] in (lowering.dst[parent], lowering.src[parent])
                received = lowering.dst[parent] == lowering.src[flow]
                ends.append(begin(parent) + (took if received else acknowledged)[parent])
            begins[flow] = max(lowering.start[flow], max(ends) + lowering.gap[flow]) if ends else lowering.start[flow]
        return begins[flow]

    return [begin(flow) for flow in range(len(parents))]


@given(traces(), st.integers(0, 2**32), st.sampled_from([0, 50, 1000]))
def test_flows_start_exactly_when_the_trace_sends_whatever_the_network_does(trace, seed, eager):
    lowering = _Lowering(trace, np.arange(trace.ranks), eager)
    calls = {}
    for op, (_, schedule, member, _) in sorted(lowering.calls.items()):
        key = lowering.calls[op][0], id(schedule)
        calls.setdefault(key, ([None] * schedule.members, schedule))[0][member] = op
    calls = {ops[0]: (ops, schedule) for ops, schedule in calls.values() if len(schedule.src)}
    messages = {("op", op): flow for op, flow in lowering.flow_of.items()}
    for first in calls:
        base, schedule, _, _ = lowering.calls[first]
        messages |= {("call", first, number): base + number for number in range(len(schedule.src))}
    try:
        lowering.flows()
    except SpecError as error:
        assert "nothing is sent" in str(error) and lowering.src == lowering.dst
        return
    rng = np.random.default_rng(seed)
    took = rng.integers(0, 100, len(lowering.src))
    acknowledged = took + rng.integers(0, 30, len(took))
    local = np.array(lowering.src) == np.array(lowering.dst)
    took[local] = acknowledged[local] = 0
    assert not np.array(lowering.bytes)[local].any() and np.array(lowering.bytes)[~local].all()
    every = [ops for ops in (calls[first][0] for first in calls)]
    starts, begun = replay(
        trace,
        {**calls, **{op: ([op], expand("barrier", 1, 0)) for op in trace.calls if not any(op in ops for ops in every)}},
        lowering.partner,
        lambda m: int(took[messages[m]]),
        lambda m: int(acknowledged[messages[m]]),
        eager,
    )
    begins = evaluate(lowering, took, acknowledged)
    assert {message: begins[flow] for message, flow in messages.items()} == starts
    entered = [flow for flow in np.flatnonzero(local).tolist() if lowering.operation[flow] >= 0]
    sending = {op for ops, _ in calls.values() for op in ops}
    reported = {op for op, kind in enumerate(trace.kind) if op in sending or (kind == CALC and trace.amount[op])}
    assert {lowering.origin[f]: begins[f] - lowering.gap[f] for f in entered} == {op: begun[op] for op in reported}


@given(traces())
def test_bytes_are_conserved(trace):
    sent = sum(
        max(trace.amount[op], 1) for op, kind in enumerate(trace.kind) if kind == SEND and trace.rank[op] != trace.peer[op]
    )
    first = {op for op, call in trace.calls.items() if trace.rank[op] == call.group[0]}
    for op in first:
        call = trace.calls[op]
        n, size = len(call.group), call.bytes
        if n == 1:
            continue
        pieces = [size // n + (i < size % n) for i in range(n)]
        sent += {
            "all_reduce": 2 * (n - 1) * size,
            "all_gather": (n - 1) * size,
            "reduce_scatter": (n - 1) * size,
            "all_to_all": (n - 1) * size,
            "broadcast": (n - 1) * size,
            "reduce": (n - 1) * size,
            "gather": size - pieces[call.root],
            "scatter": size - pieces[call.root],
            "barrier": 2 * (n - 1),
        }[call.kind]
    if sent:
        assert lower(trace, np.arange(trace.ranks)).bytes.sum() == sent


@pytest.mark.parametrize("kind", COLLECTIVES)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8])
@pytest.mark.parametrize("size", [0, 1, 5, 8, 1000])
@pytest.mark.parametrize("root", [0, -1])
def test_every_member_has_in_the_end_what_the_collective_promises(kind, n, size, root):
    """By who has heard of whom: a message carries all that its sender has at that moment."""
    root %= n
    schedule = expand(kind, n, size, root)
    assert len(schedule.src) <= at_most(kind, n)
    heard = [{i} for i in range(n)]
    waiting = {i: set(schedule.parent[schedule.child == i].tolist()) for i in range(len(schedule.src))}
    done: set[int] = set()
    while len(done) < len(waiting):
        ready = [i for i in waiting if i not in done and waiting[i] <= done]
        assert ready, "messages wait in a circle"
        carried = {i: set(heard[schedule.src[i]]) for i in ready}
        for i in ready:
            heard[schedule.dst[i]] |= carried[i]
        done |= set(ready)
    if n == 1 or (size < n and kind != "barrier" and not (size and kind in ("all_reduce", "broadcast", "reduce"))):
        return
    everyone = set(range(n))
    if kind in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier"):
        assert heard == [everyone] * n
    elif kind in ("broadcast", "scatter"):
        assert all(root in each for each in heard)
    else:
        assert heard[root] == everyone


def chain(*, branches):
    """Rank 1 receives two messages, computes for `branches` after each, and then sends."""
    trace = Trace("t", 3)
    trace.send(0, 1, 100)
    trace.send(2, 1, 200)
    got = trace.recv(1, 0, 100), trace.recv(1, 2, 200)
    last = trace.send(1, 0, 7)
    trace.recv(0, 1, 7)
    for op, time in zip(got, branches):
        compute = trace.calc(1, time)
        trace.wait(compute, op)
        trace.wait(last, compute)
    return lower(trace, np.arange(3))


def test_a_computation_is_a_flow_of_its_host_to_itself():
    flows = chain(branches=(5, 9))
    assert flows.computes.tolist() == [False, False, True, False, True] and flows.src[flows.computes].tolist() == [1, 1]
    assert flows.gap_ps.tolist() == [0, 0, 5, 0, 9] and flows.start_ps.tolist() == [0, 0, 5, 9, 9]
    assert [ends.tolist() for ends in flows.edges()] == [[2, 3, 3, 4], [0, 2, 4, 1]]
    assert [flows.operations.listed[i].kind for i in flows.operations.number] == ["send", "send", "compute", "send", "compute"]


def test_a_computation_that_waits_for_nothing_begins_with_the_trace():
    trace = Trace("t", 2)
    trace.wait(trace.send(0, 1, 100), trace.calc(0, 7))
    trace.recv(1, 0, 100)
    flows = lower(trace, np.array([4, 2]))
    assert flows.start_ps.tolist() == [0, 7, 7] and flows.gap_ps.tolist() == [0, 0, 7]
    assert flows.operations.number.tolist() == [-1, 0, 1] and flows.operations.jobs[0].tolist() == [4, 2]


def test_a_rank_that_comes_late_leaves_a_collective_when_it_comes():
    """What rank 1 sends after a broadcast waits for what it did before, too: its part may have come long ago."""
    trace = Trace("t", 3)
    trace.send(2, 1, 5)
    got = trace.recv(1, 2, 5)
    called = [trace.collective(rank, Call("broadcast", (0, 1), 8)) for rank in (0, 1)]
    trace.wait(called[1], got)
    trace.wait(trace.send(1, 0, 7), called[1])
    trace.recv(0, 1, 7)
    flows = lower(trace, np.arange(3))
    child, parent = flows.edges()
    size = flows.bytes.tolist()
    before = set(parent[child == size.index(7)].tolist())
    (entered,) = before - {size.index(8)}
    assert flows.computes[entered] and parent[child == entered].tolist() == [size.index(5)]


def test_a_long_chain_of_receipts_does_not_grow_with_its_square():
    trace = Trace("t", 2)
    last = None
    for _ in range(500):
        trace.send(0, 1, 1)
        got = trace.recv(1, 0, 1)
        compute = trace.calc(1, 3)
        trace.wait(compute, got)
        if last is not None:
            trace.wait(got, last)
        last = compute
    end = trace.send(1, 0, 1)
    trace.recv(0, 1, 1)
    trace.wait(end, last)
    flows = lower(trace, np.arange(2))
    assert len(flows) < 1200 and len(flows.after[1]) < 2500


def test_names_are_short_and_can_be_printed():
    trace = Trace("t", 1)
    trace.calc(0, 1, name="a\nb")
    trace.calc(0, 1, name="x" * 1000)
    assert list(trace.names.values()) == ["a\\nb", "x" * 100]


def refused(trace):
    with pytest.raises(SpecError) as caught:
        lower(trace, np.arange(trace.ranks))
    return str(caught.value)


def test_what_cannot_be_is_named_with_its_place():
    trace = Trace("f", 2)
    trace.send(0, 1, 5, place=3)
    assert refused(trace) == "f:3: the send of rank 0 to rank 1, tag 0, which is never received"
    trace.recv(1, 0, 4, place=9)
    assert refused(trace) == "f:9: receives 4 bytes of the 5 that f:3 sends"
    trace = Trace("f", 2)
    a, b = trace.calc(0, 1, 7), trace.calc(0, 1, 8)
    trace.wait(a, b)
    trace.wait(b, a)
    assert refused(trace).startswith("f:7: waits for itself")
    trace = Trace("f", 2)
    for rank in (0, 1):  # each sends only when it has received: both wait for ever
        sent = trace.send(rank, 1 - rank, 1, place=10 + rank)
        trace.wait(sent, trace.recv(rank, 1 - rank, 1, place=20 + rank))
    assert "waits for itself, by way of other ranks" in refused(trace)
    trace = Trace("f", 2)
    assert "nothing is sent" in refused(trace)
    trace.collective(0, Call("all_reduce", (0, 1), 8), 4)
    assert refused(trace) == "f:4: rank 1 does not call this all_reduce, the 1. of its group"
    trace.collective(1, Call("all_reduce", (0, 1), 9), 5)
    assert refused(trace) == "f:5: rank 1 calls all_reduce of 9 B, where f:4 calls all_reduce of 8 B"
    trace = Trace("f", 32767)
    for rank in range(trace.ranks):
        trace.collective(rank, Call("all_to_all", tuple(range(trace.ranks)), 10**9), 1)
        if rank == 2:
            break
    with pytest.raises(SpecError, match="does not call this all_to_all"):
        lower(trace, np.arange(trace.ranks))


def test_placements():
    assert place(4).tolist() == [0, 1, 2, 3]
    assert place(4, hosts=9).tolist() == [0, 1, 2, 3]
    assert place(5, "strided", 8, 4).tolist() == [0, 4, 1, 5, 2]
    drawn = place(5, "random", 8, seed=3)
    assert len(set(drawn.tolist())) == 5 and drawn.max() < 8
    assert not np.array_equal(drawn, place(5, "random", 8, seed=4)) and np.array_equal(drawn, place(5, "random", 8, seed=3))
    for wrong in (dict(hosts=3), dict(placement="strided"), dict(rack=2), dict(placement="strided", hosts=8, rack=3)):
        with pytest.raises(SpecError):
            place(4, **wrong)
    with pytest.raises(SpecError, match="did you mean"):
        place(4, "strided_")


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_the_ranks_of_a_trace_are_placed_as_those_of_a_job(placement):
    topo = ps.leaf_spine(hosts=24, tors=6)
    rack = 4 if placement == "strided" else None
    seed = 5 if placement == "random" else None
    assert place(9, placement, 24, rack, seed).tolist() == placed(topo, 9, placement, seed=5).tolist()


def test_options_of_other_formats_are_refused(tmp_path):
    file = tmp_path / "a.goal"
    file.write_text("num_ranks 1\n")
    for options in (dict(ranks=3), dict(groups="x"), dict(format="gaol"), dict(eager=-1)):
        with pytest.raises(SpecError):
            convert(file, **options)
