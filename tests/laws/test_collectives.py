"""A collective alone on an idle network takes exactly its alpha-beta time, to the picosecond; so does a step of training.

A message of b bytes over links of delays d_1..d_h takes alpha + beta (b + header): alpha is the sum of the delays, and every
link that it is stored and forwarded on takes its own beta. The times here are worked out from the algorithms' definitions, not
from the package's expansion of them.
"""

import itertools
import math

import numpy as np
import pytest
from networks import HostConfig, Measure, Topology, make_links, simulate

from penstock_net.topology import leaf_spine, star
from penstock_net.workload.algorithms import default_algorithm, expand
from penstock_net.workload.collectives import collective
from penstock_net.workload.placement import placed
from penstock_net.workload.taskgraph import TaskGraph
from penstock_net.workload.traces.dag import Call, Trace
from penstock_net.workload.traces.lower import lower
from penstock_net.workload.training import training

BETA, HEADER, ACK = 80, 48, 60  # 100 Gbit/s, ps per byte; bytes
MTU = 31_000  # messages of one packet, unless a test says otherwise
HOST = HostConfig(mtu=MTU)
SCHEMES = ["fifo", "pfc", "bfc", "dqa"]


def uneven(hosts: int) -> Topology:
    """A star whose links have different delays."""
    delays = 1_000_000 + 37_000 * ((np.arange(hosts) * 7) % hosts)
    links = make_links(np.arange(hosts), np.full(hosts, hosts), BETA, delays)
    names = [*(f"host{i}" for i in range(hosts)), "switch"]
    return Topology("uneven", hosts, 1, links, [12_000_000], names, [0] * hosts + [1], {})


NETWORKS = {
    "star": lambda: star(hosts=16),
    "uneven": lambda: uneven(16),
    "racks of one": lambda: leaf_spine(hosts=16, tors=16, spines=1),
}


def alpha_beta(topo: Topology, a: int, b: int, size: int) -> int:
    """Time of one packet from host to host, ps, from the delays and the number of links of the path."""
    if topo.kind == "leaf_spine":
        delay, links = 4_000_000, 4
        if topo.host_switches[a] == topo.host_switches[b]:
            delay, links = 2_000_000, 2
    else:
        delay, links = int(topo.links["delay_ps"][a] + topo.links["delay_ps"][b]), 2
    return delay + links * BETA * (size + HEADER)


def taken(topo, flows, scheme, host=HOST) -> int:
    run = simulate(topo, flows, scheme, host=host, measure=Measure(sample="0s", flows=False))
    assert run.summary["warnings"] == [] or scheme != "fifo"
    (ns,) = run.frame("operations")["time_ns"]
    return round(ns * 1000)


def pieces(size: int, n: int) -> list[int]:
    return [size // n + (i < size % n) for i in range(n)]


def around(topo, hosts, size: int, steps: int, segment) -> int:
    """A ring: the longest chain of `steps` messages, each sent when the one before it has come."""
    n, parts = len(hosts), pieces(size, len(hosts))
    chains = []
    for first in range(n):
        chain = [(first + s) % n for s in range(steps)]
        chains.append(sum(alpha_beta(topo, hosts[r], hosts[(r + 1) % n], parts[segment(r, s)]) for s, r in enumerate(chain)))
    return max(chains)


def doubling(topo, hosts, steps: list[tuple[int, list[int]]]) -> int:
    """Exchanges with rank xor distance, one after another; steps: distance, and what every rank sends."""
    n = len(hosts)
    begin = [0] * n
    for distance, sizes in steps:
        come = [begin[r ^ distance] + alpha_beta(topo, hosts[r ^ distance], hosts[r], sizes[r ^ distance]) for r in range(n)]
        free = [begin[r] + BETA * (sizes[r] + HEADER) for r in range(n)]
        assert all(come[r] >= free[r] for r in range(n)), "the test is wrong: a rank would send two messages at once"
        begin = [max(begin[r], come[r]) for r in range(n)]
    return max(begin)


def halves(n: int, size: int, scatter: bool, gather: bool) -> list[tuple[int, list[int]]]:
    """Distances and sizes of recursive halving, then doubling, of segments that differ by at most a byte."""
    parts = pieces(size, n)
    k = int(math.log2(n))

    def owned(rank: int, bit: int) -> int:
        return sum(part for i, part in enumerate(parts) if i >> bit == rank >> bit)

    down = [(1 << b, [owned(r ^ (1 << b), b) for r in range(n)]) for b in reversed(range(k))] if scatter else []
    up = [(1 << b, [owned(r, b) for r in range(n)]) for b in range(k)] if gather else []
    return down + up


def expected(topo, kind: str, algorithm: str, hosts, size: int) -> int:
    n = len(hosts)
    if algorithm == "ring" and kind == "all_reduce":
        return around(topo, hosts, size, 2 * (n - 1), lambda r, s: (r - s) % n)
    if algorithm == "ring" and kind == "reduce_scatter":
        return around(topo, hosts, size, n - 1, lambda r, s: (r - s - 1) % n)
    if algorithm == "ring" and kind == "all_gather":
        return around(topo, hosts, size, n - 1, lambda r, s: (r - s) % n)
    if algorithm == "ring" and kind == "broadcast":
        return sum(alpha_beta(topo, a, b, size) for a, b in itertools.pairwise(hosts))
    if algorithm == "pairwise":  # in step s rank i waits for i - s
        parts, begin = pieces(size, n), [0] * n
        for s in range(1, n):
            sent = begin
            begin = [max(sent[r], sent[(r - s) % n] + alpha_beta(topo, hosts[(r - s) % n], hosts[r], parts[r])) for r in range(n)]
        return max(begin)
    if kind == "sendrecv":
        return max(alpha_beta(topo, hosts[i], hosts[(i + 1) % n], size) for i in range(n))
    both = kind == "all_reduce"
    return doubling(topo, hosts, halves(n, size, both or kind == "reduce_scatter", both or kind == "all_gather"))


EXACT = [
    ("all_reduce", "ring"),
    ("all_reduce", "halving_doubling"),
    ("reduce_scatter", "ring"),
    ("reduce_scatter", "halving"),
    ("all_gather", "ring"),
    ("all_gather", "doubling"),
    ("all_to_all", "pairwise"),
    ("broadcast", "ring"),
    ("sendrecv", "direct"),
]


@pytest.mark.parametrize("kind, algorithm", EXACT)
@pytest.mark.parametrize("network", NETWORKS)
def test_alpha_beta(kind, algorithm, network):
    topo = NETWORKS[network]()
    ranks = (2, 4, 8, 16) if algorithm in ("halving_doubling", "halving", "doubling") else (2, 3, 8, 13)
    cases = zip(ranks, (16, 9_999, 20_001, 30_000), ("packed", "strided", "random", "random"), SCHEMES)
    for n, size, placement, scheme in cases:
        if kind == "all_to_all" and network == "uneven":
            continue  # ranks that are early send to one host at once
        if network == "racks of one":
            size -= size % n  # segments of unequal length drift until a packet meets an acknowledgement at the spine
        flows = collective(topo, collective=kind, algorithm=algorithm, bytes=size, hosts=n, placement=placement, seed=5)
        hosts = placed(topo, n, placement, seed=5).tolist()
        late = taken(topo, flows, scheme) - expected(topo, kind, algorithm, hosts, size)
        assert late == 0, (n, size, placement, scheme)


def test_a_ring_through_two_racks():
    """Packed: one message at a time crosses each way between the racks, and takes longer than those within."""
    topo = leaf_spine(hosts=8, tors=2, spines=1)
    flows = collective(topo, bytes=80_000)
    assert taken(topo, flows, "pfc") == expected(topo, "all_reduce", "ring", list(range(8)), 80_000)


@pytest.mark.parametrize("n, size", [(3, 3000), (6, 60_000), (8, 8 * 31_000)])
def test_direct_all_to_all(n, size):
    """Every rank sends its n - 1 blocks back to back, in an order in which no two ranks send to the same one."""
    block = BETA * (size // n + HEADER)
    topo = star(hosts=n, delay="50us")  # the last block is sent before the first acknowledgement is
    flows = collective(topo, collective="all_to_all", algorithm="direct", bytes=size)
    assert taken(topo, flows, "fifo") == 10**8 + (n - 1) * block + block


@pytest.mark.parametrize("n", [2, 3, 4, 7, 16])
@pytest.mark.parametrize("root", [0, 1])
def test_tree_broadcast(n, root):
    """Down a tree: two packets on a rank's link, between them the acknowledgement of what it has received itself."""
    topo, size, w = star(hosts=n), 5000, BETA * (5000 + HEADER)
    came = [0] * n
    for rank in range(n):
        for place, child in enumerate(c for c in (2 * rank + 1, 2 * rank + 2) if c < n):
            came[child] = came[rank] + 2 * w + 2_000_000 + place * (w + (ACK * BETA if rank else 0))
    assert taken(topo, collective(topo, collective="broadcast", bytes=size, root=root), "bfc") == max(came)


@pytest.mark.parametrize("n, chunks", [(2, 5), (3, 1), (3, 6), (8, 40)])
def test_a_chain_of_chunks_is_a_pipeline(n, chunks):
    """The first chunk passes n - 1 ranks; each one behind it follows after a packet and its own acknowledgement, which goes
    first; the second one waits for that of the first as well."""
    topo, w = star(hosts=n), BETA * (3000 + HEADER)
    flows = collective(topo, collective="broadcast", algorithm="ring", bytes=3000 * chunks, chunks=chunks)
    ack = ACK * BETA if n > 2 and chunks > 1 else 0
    assert taken(topo, flows, "fifo") == (n - 1) * (2 * w + 2_000_000) + (chunks - 1) * (w + ack) + ack


@pytest.mark.parametrize("n, size", [(2, 20_000), (5, 100_000), (8, 8 * 11_000)])
def test_a_ring_of_several_packets(n, size):
    """Segments of whole packets of 1000 B, shorter than a round trip: from the second step on an acknowledgement goes between."""
    topo, wire, count = star(hosts=n), BETA * (1000 + HEADER), size // n // 1000
    step = (count + 1) * wire + 2_000_000
    steps = 2 * (n - 1)
    flows = collective(topo, bytes=size)
    assert taken(topo, flows, "fifo", HostConfig(mtu=1000)) == steps * step + (steps - 1) * ACK * BETA


def test_the_extra_ranks_of_halving_and_doubling():
    """Of 3 ranks 0 gives its buffer to 1, which takes part with 2, and gets the sum back.

    Two halves have one header more than the whole: so long the buffer of 0 waits for the half of 2 at the link of 1.
    """
    topo, size = star(hosts=3), 10_000
    flows = collective(topo, algorithm="halving_doubling", bytes=size)
    one, half = (alpha_beta(topo, 0, 1, part) for part in (size, size // 2))
    assert taken(topo, flows, "fifo") == one + HEADER * BETA + 2 * half + one


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
@pytest.mark.parametrize("stages, batches", [(2, 1), (2, 4), (4, 3), (4, 8)])
def test_a_pipeline_takes_its_time(schedule, stages, batches):
    """Stages with long computations and one-packet messages: the times of the schedule, from its definition."""
    topo, f, b, size = star(hosts=stages), 40_000_000, 90_000_000, 4000
    hop = alpha_beta(topo, 0, 1, size)
    plan = {"microbatches": batches, "schedule": schedule, "forward": "40us", "backward": "90us"}
    flows = training(topo, pipeline=stages, data=1, layers=stages, activations=size, iterations=3, **plan)
    run = simulate(topo, flows, "fifo", host=HOST, measure=Measure(sample="0s", flows=False))

    free, came = [0] * stages, {}
    for _ in range(3):
        orders = []
        for s in range(stages):
            ahead = batches if schedule == "gpipe" else min(stages - 1 - s, batches)
            order = [("f", i) for i in range(ahead)]
            if schedule == "gpipe":
                order += [("b", i) for i in reversed(range(batches))]
            else:
                for i in range(batches - ahead):
                    order += [("f", ahead + i), ("b", i)]
                order += [("b", i) for i in range(batches - ahead, batches)]
            orders.append(order)
        came.clear()
        while any(orders):
            for s, order in enumerate(orders):
                while order:
                    what, i = order[0]
                    source = s - 1 if what == "f" else s + 1
                    if 0 <= source < stages and (what, s, i) not in came:
                        break
                    order.pop(0)
                    free[s] = max(free[s], came.get((what, s, i), 0)) + (f if what == "f" else b)
                    came[what, s + 1 if what == "f" else s - 1, i] = free[s] + hop
    ends = run.frame("ranks").filter(run.frame("ranks")["iteration"] == 2)["finish_ns"]
    # a message may wait for the acknowledgement of one that came just before it, of 4.8 ns
    late = np.rint(ends.to_numpy() * 1000).astype(int) - free
    assert np.all(late >= 0) and np.all(late <= 3 * 2 * (batches + stages) * ACK * BETA), late
    if batches == 1:
        assert not late.any()
    assert run.frame("ranks")["compute_ns"].to_list() == [batches * 130_000.0] * 3 * stages


def test_data_parallel_steps_overlap_computation_and_reduction():
    """Two layers: the gradients of the second are reduced while the first is computed; then those of the first."""
    topo, n, size = star(hosts=4), 4, 40_000
    reduce = around(topo, range(n), size, 2 * (n - 1), lambda r, s: 0)
    plan = {"layers": 2, "parameters": size, "forward": "10us", "optimizer": "3us"}
    between = ACK * BETA  # of the last packet of one all-reduce, before the first of the next
    for backward, exposed in ((100_000_000, reduce), (1_000_000, 2 * reduce + between - 1_000_000)):
        flows = training(topo, backward=f"{backward}ps", iterations=2, **plan)
        run = simulate(topo, flows, "fifo", host=HOST, measure=Measure(sample="0s", flows=False))
        step = 20_000_000 + 2 * backward + exposed + 3_000_000
        assert [round(ns * 1000) for ns in run.frame("ranks")["step_ns"]] == [step] * 2 * n
        assert [round(ns * 1000) for ns in run.frame("ranks")["exposed_ns"]] == [exposed] * 2 * n
    flows = training(topo, backward="100us", iterations=1, overlap=False, **plan)
    run = simulate(topo, flows, "fifo", host=HOST, measure=Measure(sample="0s", flows=False))
    assert round(run.summary["training"]["step_ns"] * 1000) == 20_000_000 + 200_000_000 + 2 * reduce + between + 3_000_000


@pytest.mark.parametrize("threads", [1, 2])
def test_bits_do_not_depend_on_threads(threads):
    topo = leaf_spine(hosts=8, tors=2, spines=2)
    plan = {"tensor": 2, "pipeline": 2, "layers": 2, "microbatches": 2, "parameters": "100KB", "activations": "30KB"}
    flows = training(topo, forward="5us", backward="7us", placement="random", **plan)
    one, other = (simulate(topo, flows, "bfc", threads=t, measure=Measure(sample="0s")) for t in (1, threads))
    assert one == other and one.summary["flows_finished"] == one.flows.height == (~flows.computes).sum()


def test_computations_that_take_no_time_release_one_another():
    """A long chain of them ends at the moment at which it began, and needs no stack."""
    topo = star(hosts=2)
    graph = TaskGraph(np.arange(2))
    ready = graph.begin(np.arange(2))
    for _ in range(20_000):
        ready = graph.compute(np.arange(2), 0, [ready])
    sent = graph.send(np.array([0]), np.array([1]), 1000, [ready[:1]])
    graph.compute(np.array([1]), 7000, [sent, ready[1:]])
    run = simulate(topo, graph.flows(), "fifo", measure=Measure(sample="0s"))
    assert run.flows["start_ns"].to_list() == [0.0]
    assert run.frame("timeline")["finish_ns"].max() * 1000 == alpha_beta(topo, 0, 1, 1000) + 7000


@pytest.mark.parametrize(
    "kind, algorithm", [("all_reduce", "ring"), ("all_reduce", "tree"), ("all_gather", "ring"), ("broadcast", "tree")]
)
def test_a_rank_that_comes_late_passes_nothing_on_before_it_comes(kind, algorithm):
    topo, late, ranks = star(hosts=4), 1, np.arange(4)
    graph = TaskGraph(ranks)
    ready = graph.begin(ranks)
    computed = graph.compute(ranks, np.where(ranks == late, 10**9, 0), [ready])
    graph.collective(kind, ranks.reshape(1, -1), 40_000, [computed], algorithm=algorithm)
    run = simulate(topo, graph.flows(), "fifo", host=HOST, measure=Measure(sample="0s"))
    sent = run.flows.filter(run.flows["src"] == late)
    assert sent.height and sent["start_ns"].min() >= 10**6
    assert run.flows["finish_ns"].null_count() == 0


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
def test_a_trace_reports_what_the_same_job_of_tasks_reports(kind):
    """Ranks compute, one of them longer, take part in a collective and compute again; then rank 0 sends to rank 3."""
    topo, ranks, times, size = star(hosts=8), np.arange(4), np.array([9, 2, 30, 4]) * 10**6, 40_000
    hosts, algorithm = np.array([6, 1, 3, 2]), default_algorithm(kind)
    trace = Trace("trace", 4)
    for rank in ranks.tolist():
        first = trace.calc(rank, int(times[rank]), name="forward")
        reduced = trace.collective(rank, Call(kind, (0, 1, 2, 3), size))
        last = trace.calc(rank, 5 * 10**6, name="backward")
        trace.wait(reduced, first)
        trace.wait(last, reduced)
        if rank == 0:
            trace.wait(trace.send(0, 3, 3000), last)
    trace.recv(3, 0, 3000)
    graph = TaskGraph(hosts)
    computed = graph.compute(ranks, times, [graph.begin(ranks)], "forward")
    ends = graph.collective(kind, ranks[None], size, [computed[None]], algorithm=algorithm)
    finished = graph.compute(ranks, 5 * 10**6, [ends[0]], "backward")
    graph.send(np.array([0]), np.array([3]), 3000, [finished[:1]])
    one, other = (
        simulate(topo, flows, "fifo", host=HOST, measure=Measure(sample="0s")) for flows in (lower(trace, hosts), graph.flows())
    )
    assert one.frame("ranks").equals(other.frame("ranks")) and one.frame("ranks")["compute_ns"].sum() == 65_000
    for frame in ("timeline", "operations"):
        columns = [name for name in one.frame(frame).columns if name != "operation"]
        assert one.frame(frame).select(columns).sort(columns).equals(other.frame(frame).select(columns).sort(columns))


@pytest.mark.parametrize("kind, factor", [("broadcast", 1), ("reduce", 1), ("scatter", 1 / 2), ("gather", 1 / 2)])
@pytest.mark.parametrize("came", [(10**7, 1), (1, 10**7)])
def test_rooted_collectives_of_traces(kind, factor, came):
    """Between rank 0, the root, and another: one sends when it comes, and the other one is done when it has come and has it."""
    topo, size = star(hosts=2), 8000
    sender, receiver = (0, 1) if kind in ("broadcast", "scatter") else (1, 0)
    operation = two_ranks(topo, Call(kind, (0, 1), size), came)
    end = max(came[sender] + alpha_beta(topo, 0, 1, size if factor == 1 else size // 2), came[receiver])
    ready = min(came) if sender == 0 else max(came)
    assert [round(operation[name] * 1000) for name in ("start_ns", "ready_ns", "finish_ns")] == [min(came), ready, end]
    if end == ready:
        assert operation["bus_bandwidth_bps"] is None
    else:
        assert operation["bus_bandwidth_bps"] == pytest.approx(factor * size * 8e12 / (end - ready))


@pytest.mark.parametrize("came", [(10**7, 1), (1, 10**7)])
def test_a_barrier_has_no_bandwidth(came):
    topo = star(hosts=2)
    operation = two_ranks(topo, Call("barrier", (0, 1), 0), came)
    one = alpha_beta(topo, 0, 1, 1)
    assert round(operation["finish_ns"] * 1000) == max(came[0], came[1] + one) + one
    assert operation["bus_bandwidth_bps"] is None and operation["bytes"] == 0 and operation["algorithm"] == "tree"


def two_ranks(topo, call, came) -> dict:
    """The report of a collective that ranks 0 and 1 enter at these times, ps."""
    trace = Trace("trace", 2)
    for rank in (0, 1):
        trace.wait(trace.collective(rank, call), trace.calc(rank, came[rank]))
    run = simulate(topo, lower(trace, np.arange(2)), "fifo", host=HOST, measure=Measure(sample="0s"))
    (operation,) = run.frame("operations").rows(named=True)
    return operation


def test_computations_that_overlap_count_once():
    """A trace may compute at the same time what kind = "training" computes one after another."""
    trace = Trace("trace", 2)
    first = trace.calc(0, 10 * 10**6)
    second = trace.calc(0, 25 * 10**6)
    inner, later = trace.calc(0, 4 * 10**6), trace.calc(0, 2 * 10**6)
    trace.wait(inner, first)
    trace.wait_all(later, (inner, second))
    trace.wait(trace.send(0, 1, 1000), later)
    trace.recv(1, 0, 1000)
    run = simulate(star(hosts=2), lower(trace, np.arange(2)), "fifo", host=HOST)
    sender, receiver = run.frame("ranks").rows(named=True)
    assert (sender["compute_ns"], sender["step_ns"], sender["exposed_ns"]) == (27_000, 27_000, 0)
    assert receiver["compute_ns"] == 0


def test_a_computation_within_another_counts_once():
    """20 us; within it 5 us; and from 5 us on 10 us more: 20 us, and with 30 us from 10 us on it would be 40."""
    trace = Trace("trace", 2)
    whole, first = trace.calc(0, 20 * 10**6), trace.calc(0, 5 * 10**6)
    second, third = trace.calc(0, 10 * 10**6), trace.calc(0, 25 * 10**6)
    trace.wait(second, first)
    trace.wait(third, second)
    trace.wait_all(trace.send(0, 1, 1000), (whole, third))
    trace.recv(1, 0, 1000)
    run = simulate(star(hosts=2), lower(trace, np.arange(2)), "fifo", host=HOST)
    sender = run.frame("ranks").row(0, named=True)
    assert (sender["compute_ns"], sender["step_ns"], sender["exposed_ns"]) == (40_000, 40_000, 0)


def test_a_rank_that_only_sends_has_a_step():
    trace = Trace("trace", 2)
    trace.send(0, 1, 1000)
    trace.recv(1, 0, 1000)
    run = simulate(star(hosts=2), lower(trace, np.arange(2)), "fifo", host=HOST)
    assert round(run.summary["training"]["step_ns"] * 1000) == alpha_beta(star(hosts=2), 0, 1, 1000)


def test_progress_counts_messages_only():
    topo, seen = star(hosts=4), []
    simulate(
        topo,
        collective(topo, bytes=400_000),
        "fifo",
        progress=lambda report: seen.append((report.flows_done, report.flows_total)),
    )
    assert seen[-1] == (24, 24)


def test_a_run_that_ends_early_says_what_is_unfinished():
    topo = star(hosts=4)
    run = simulate(topo, collective(topo, bytes="4MB"), "fifo", duration="50us", drain=False)
    (operation,) = run.frame("operations").rows(named=True)
    assert operation["start_ns"] == 0 and operation["finish_ns"] is None is operation["bus_bandwidth_bps"]
    assert run.frame("timeline")["finish_ns"].null_count() == 4
    assert run.summary["training"]["step_ns"] is None


def test_the_bus_bandwidth_is_nccls():
    topo = star(hosts=4)
    run = simulate(topo, collective(topo, bytes=400_000), "fifo", host=HOST, measure=Measure(sample="0s"))
    (operation,) = run.frame("operations").rows(named=True)
    assert operation["bus_bandwidth_bps"] == pytest.approx(400_000 * 8 / (operation["time_ns"] / 1e9) * 2 * 3 / 4)
    assert len(expand("all_reduce", 4, 400_000)) == run.flows.height
