"""Servers with an NVSwitch: what leaves by which link, PXN, two-level all-reduce and the start of messages, to the picosecond.

Times are compared with a transcription (tests/paper/scale_up.py) or a closed form; planted mistakes must be found by one of them.
"""

import sys
import types

import numpy as np
import polars as pl
import pytest
from networks import HostConfig, Measure, simulate
from paper.scale_up import Network, pxn_all_to_all, two_level_all_reduce

from penstock_net.cli import main
from penstock_net.errors import SpecError
from penstock_net.topology import rails, scale_up, star
from penstock_net.topology.scale_up import Servers
from penstock_net.workload import algorithms, build, flow_list, latency
from penstock_net.workload.collectives import collective
from penstock_net.workload.latency import TABLE
from penstock_net.workload.taskgraph import TaskGraph
from penstock_net.workload.traces import convert
from penstock_net.workload.traces.dag import Call, Trace
from penstock_net.workload.traces.lower import ScaleUp, lower
from penstock_net.workload.training import training

NV, NIC, HEADER = 2, 20, 48  # ps per byte: 4 Tbit/s and 400 Gbit/s
QUIET = Measure(sample="0s", flows=False)
HOST = HostConfig(mtu=31_000)


def servers(count=4, gpus=8, scale_up_delay="25ns", delay="500ns", **more):
    rates = {"rate": "400Gbps", "scale_up_rate": "4Tbps"}
    return rails(servers=count, gpus=gpus, spines=1, **rates, scale_up_delay=scale_up_delay, delay=delay, **more)


def taken(topo, flows, host=HOST):
    """ps of the only operation."""
    run = simulate(topo, flows, "fifo", host=host, measure=QUIET)
    (ns,) = run.frame("operations")["time_ns"]
    return round(ns * 1000)


def one(size, inside):
    """A packet of so many bytes over a switch."""
    rate, delay = (NV, 25_000) if inside else (NIC, 500_000)
    return 2 * (rate * (size + HEADER) + delay)


# -- the network ---------------------------------------------------------------------------------------------------------


def test_flows_leave_by_nvlink_within_a_server_and_by_the_nic_elsewhere():
    topo = servers(count=4, segment=2)
    flows = flow_list(topo, [(0, 7, 20_000), (0, 8, 20_000), (0, 9, 20_000, "50us"), (0, 16, 20_000, "90us")])
    run = simulate(topo, flows, "fifo", host=HOST, measure=QUIET)
    assert [round(ns * 1000) for ns in run.flows["fct_ns"][:2]] == [one(20_000, True), one(20_000, False)]
    assert run.flows["slowdown"].to_list() == [1.0] * 4
    sent = run.ports.filter(pl.col("node") == 0).sort("port")["tx_bytes"].to_list()
    assert sent == [3 * 20_048, 20_048], "the NIC is port 0, NVLink port 1"
    assert [len(topo.path_links(0, 0, to, seed=1)) - 1 for to in (7, 8, 9, 16)] == [1, 1, 3, 3]


def test_without_its_nvlink_a_gpu_uses_its_nic():
    topo = servers().with_changes([{"time": "1ns", "a": "host0", "b": "nvswitch0", "up": False}])
    run = simulate(topo, flow_list(topo, [(0, 1, 20_000, "1us")]), "fifo", host=HOST, measure=QUIET)
    assert round(run.flows["fct_ns"][0] * 1000) == 4 * (NIC * 20_048 + 500_000)


def test_one_server_at_simais_rate():
    """64 MiB around 8 GPUs of 2880 Gbit/s and 25 ns: 14 steps of 23.35 us and a packet each, and at most an ACK a packet."""
    topo = rails(servers=1, gpus=8, scale_up_rate="2880Gbps")
    for mtu, ack in ((8192, 60), (4096, 1)):
        time = taken(topo, collective(topo, bytes=2**26, algorithm="two_level"), HostConfig(mtu=mtu, header=0, ack=ack))
        beta, packets = 8e12 / 2.88e12, 2**23 // mtu
        least = 14 * ((2**23 + mtu) * beta + 50_000)
        assert abs(14 * (2**23 * beta + 50_000) / 1e6 - 326.9) < 0.05
        assert least - 50 < time < least + 14 * (packets + 2) * ack * beta
        assert time == taken(topo, collective(topo, bytes=2**26), HostConfig(mtu=mtu, header=0, ack=ack)), "the same ring"


# -- two levels ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count, gpus", [(1, 8), (2, 8), (5, 4), (4, 1), (3, 2)])
def test_two_levels(count, gpus):
    """Reduce-scatter, all-reduce per rail, all-gather: the sum of their steps, and what the transcription says."""
    topo, size = servers(count, gpus), 3000 * count * gpus
    segment, part = size // gpus, size // gpus // count
    steps = 2 * (gpus - 1) * one(segment, True) + 2 * (count - 1) * one(part, False)
    ends = Network(NV, 25_000, NIC, 500_000).ends(two_level_all_reduce(count, gpus, size))
    flows = collective(topo, bytes=size, algorithm="two_level")
    assert taken(topo, flows) == steps == max(ends.values())


@pytest.mark.parametrize("chunks", [1, 16])
def test_two_levels_of_large_buffers(chunks):
    """At least the bytes over each link; with chunks the levels overlap, and the slower one decides."""
    topo, size, s = servers(2), 8 * 2**20, 2
    time = taken(topo, collective(topo, bytes=size, algorithm="two_level", chunks=chunks), HostConfig(mtu=8192))
    inside, rail = 7 / 8 * size * NV, 2 * (s - 1) / s * size / 8 * NIC
    if chunks == 1:
        assert inside + rail + inside < time < 1.12 * (inside + rail + inside)
    else:
        assert 2 * inside < time < 2 * inside + rail, "the levels overlap"
    flat = taken(topo, collective(topo, bytes=size), HostConfig(mtu=8192))
    assert time < flat / 2, "a flat ring is as slow as the NIC in it"


def test_bytes_of_two_levels():
    """By link: (k - 1)/k of the buffer twice over NVLink, 2 (s - 1)/s of a k-th over the NIC."""
    topo, size = servers(4), 4 * 8 * 5000
    run = simulate(topo, collective(topo, bytes=size, algorithm="two_level"), "fifo", host=HOST, measure=QUIET)
    inside = run.flows.filter(pl.col("src") // 8 == pl.col("dst") // 8)["bytes"].sum()
    assert inside == 32 * 2 * 7 * size // 8 and run.flows["bytes"].sum() - inside == 32 * 2 * 3 * size // 4 // 8
    spines = run.ports.filter(pl.col("node") == topo.node("spine0"))["tx_bytes"].sum()
    assert spines == 0


def in_any_order(messages, rng):
    """Messages one after another, each of which has all that it waits for, drawn."""
    waiting = np.bincount(messages.child, minlength=len(messages))
    left = set(range(len(messages)))
    while left:
        ready = [i for i in left if not waiting[i]]
        assert ready, "messages wait for one another in a circle"
        i = int(rng.choice(ready))
        left.remove(i)
        np.subtract.at(waiting, messages.child[messages.parent == i], 1)
        yield i


def layout(ranks):
    """Of the servers, places of ranks."""
    server, place = np.array(ranks).T
    return Servers(server, place)


@pytest.mark.parametrize("seed", range(8))
def test_every_rank_gets_every_sum_in_any_order(seed):
    """Whatever comes first, a message carries what is added up: it waits for all that is in it.  Ranks in any order."""
    rng = np.random.default_rng(seed)
    count, gpus = [(3, 2), (2, 3), (4, 1), (1, 4)][seed % 4]
    n, size = count * gpus, count * gpus * 2 + 1
    servers = layout(rng.permutation([(s, 2 * g + 1) for s in range(count) for g in range(gpus)]))
    messages = algorithms.expand("all_reduce", n, size, algorithm="two_level", chunks=2, servers=servers)
    held = [np.full(size, 1 << rank) for rank in range(n)]
    for i in in_any_order(messages, rng):
        at = slice(messages.offset[i], messages.offset[i] + messages.bytes[i])
        there, given = held[messages.dst[i]][at], held[messages.src[i]][at]
        assert not messages.reduces[i] or not (there & given).any(), "added twice"
        held[messages.dst[i]][at] = there | given if messages.reduces[i] else given
    assert all((values == (1 << n) - 1).all() for values in held)


@pytest.mark.parametrize("seed", range(4))
def test_every_block_arrives_in_any_order(seed):
    rng = np.random.default_rng(seed)
    servers = layout([(0, 0), (1, 0), (0, 1), (1, 1), (0, 3), (1, 3)] if seed % 2 else [(0, 0), (0, 1), (1, 1), (2, 0), (2, 1)])
    n, size = len(servers.server), 10 * len(servers.server)
    messages = algorithms.expand("all_to_all", n, size, algorithm="pxn", servers=servers)
    held = {rank: {(rank, to) for to in range(n)} for rank in range(n)}  # blocks (from, to) that a rank has
    for i in in_any_order(messages, rng):
        src, dst = int(messages.src[i]), int(messages.dst[i])
        count = messages.bytes[i] // 10
        to = {messages.offset[i] // 10} if messages.relayed[i] else {dst}
        there = servers.server[src] != servers.server[dst]
        carried = {block for block in held[src] if block[1] in to and (there or block[0] == src)}
        assert len(carried) == count
        held[src] -= carried
        held[dst] |= carried
    assert all({(other, rank) for other in range(n)} == held[rank] for rank in range(n))


# -- PXN -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3, 6])
def test_all_to_all_by_rail(count):
    """Links so long that no ACK is in the way; of two GPUs in a server each has NVLink to itself."""
    topo, block = servers(count, 2, scale_up_delay="60us", delay="70us"), 4000
    flows = collective(topo, collective="all_to_all", algorithm="pxn", bytes=2 * count * block)
    ends = Network(NV, 60_000_000, NIC, 70_000_000).ends(in_turn(pxn_all_to_all(count, 2, block), count, 2))
    assert taken(topo, flows) == max(ends.values())


def in_turn(messages, count, gpus):
    """In the order in which a rank sends: to the rank behind it first."""
    n = count * gpus

    def turn(item):
        key, (sender, _, _, _) = item
        me, to = (a * gpus + b for a, b in (sender, key[2]))
        return key[0] == "rail", (to - me) % n

    return dict(sorted(messages.items(), key=turn))


@pytest.mark.parametrize("gpus", [2, 8])
def test_sends_to_the_next_rank_by_rail(gpus):
    """The last GPU of a server sends to the first of the next one by way of the first of its own."""
    topo = servers(4, gpus)
    flows = collective(topo, collective="sendrecv", algorithm="pxn", bytes=9000)
    assert taken(topo, flows) == one(9000, True) + one(9000, False)
    straight = taken(topo, collective(topo, collective="sendrecv", bytes=9000))
    assert straight == 4 * (NIC * 9048 + 500_000) + 3 * NIC * 9048, "all four go by the spine to one leaf"


def test_what_pxn_moves():
    """No byte crosses a spine; NVLink has 7/8 of what leaves the servers more; an eighth of the messages leaves."""
    topo, n, block = servers(4), 32, 3000
    runs = {}
    for algorithm in ("direct", "pxn"):
        flows = collective(topo, collective="all_to_all", algorithm=algorithm, bytes=n * block)
        runs[algorithm] = simulate(topo, flows, "fifo", host=HOST, measure=QUIET)
    found = {}
    for algorithm, run in runs.items():
        inside = run.flows["src"] // 8 == run.flows["dst"] // 8
        crossed = run.ports.filter(pl.col("node") == topo.node("spine0"))["tx_bytes"].sum()
        sums = (run.flows.filter(chosen)["bytes"] for chosen in (inside, ~inside))
        found[algorithm] = [(len(part), part.sum()) for part in sums], crossed
    (near, far), crossed = found["direct"]
    (near_pxn, far_pxn), crossed_pxn = found["pxn"]
    assert crossed > 0 and crossed_pxn == 0
    assert far == (n * 24, n * 24 * block) and far_pxn == (far[0] // 8, far[1])
    assert near_pxn[1] - near[1] == 7 * far[1] // 8
    times = [run.frame("operations")["time_ns"][0] for run in runs.values()]
    assert times[1] < times[0], "one spine of 400 Gbit/s is much less than the rails"


def test_a_relay_does_not_wait_for_what_it_passes_on():
    """Its own all-to-all is over when it has its own blocks."""
    topo = servers(2, 2)
    flows = collective(topo, collective="all_to_all", algorithm="pxn", bytes=4 * 3000)
    child, parent = flows.edges()
    ends = np.flatnonzero(flows.computes)[-4:]
    messages = [i for i in parent[np.isin(child, ends)].tolist() if not flows.computes[i]]
    assert len(messages) == 8 and sorted(flows.bytes[messages].tolist()) == [3000] * 4 + [6000] * 4
    assert np.count_nonzero(~flows.computes) == 12


def test_ranks_of_a_part_of_a_server():
    """Where nobody of the group has the receiver's place, the message goes straight."""
    topo = servers(2)
    flows = collective(topo, collective="all_to_all", algorithm="pxn", bytes=30_000, hosts=[0, 1, 8, 10])
    sent = ~flows.computes
    pairs = sorted(zip(flows.src[sent].tolist(), flows.dst[sent].tolist()))
    assert pairs == sorted([(0, 1), (1, 0), (8, 10), (10, 8), (1, 0), (0, 8), (0, 10), (1, 10), (10, 8), (8, 0), (8, 1), (10, 1)])


# -- the start of messages -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("latency, inside, outside", [("6us", 6000, 6000), ({"scale_up": "3us", "network": "9us"}, 3000, 9000)])
def test_latency_of_two_levels(latency, inside, outside):
    topo, size = servers(3), 3 * 8 * 3000
    flows = collective(topo, bytes=size, algorithm="two_level", latency=latency)
    ends = Network(NV, 25_000, NIC, 500_000, latency=(inside * 1000, outside * 1000)).ends(two_level_all_reduce(3, 8, size))
    without = taken(topo, collective(topo, bytes=size, algorithm="two_level"))
    assert taken(topo, flows) == max(ends.values()) == without + 1000 * (14 * inside + 4 * outside)


@pytest.mark.parametrize(
    "protocol, ring, tree, rail",
    [("ll", 7200, 7400, 9300), ("ll128", 15_900, 15_250, 18_000), ("simple", 11_800, 12_400, 22_400)],
)
def test_latencies_of_simai(protocol, ring, tree, rail):
    """By step: of a ring and of a chain of a tree within a server, of a ring between servers, and of what the table has not."""
    one_server, several = servers(1), servers(4, 1)
    for topo, given, steps, step in (
        (one_server, {"algorithm": "ring", "bytes": 80_000}, 14, ring),
        (one_server, {"algorithm": "two_level", "bytes": 80_000}, 14, ring),
        (several, {"algorithm": "ring", "bytes": 80_000}, 6, rail),
        (several, {"algorithm": "two_level", "bytes": 80_000}, 6, rail),
        (one_server, {"collective": "all_reduce", "algorithm": "tree", "bytes": 8000, "hosts": 2}, 2, tree),
        (one_server, {"collective": "sendrecv", "bytes": 9000}, 1, 6000),
        (servers(4), {"collective": "sendrecv", "algorithm": "pxn", "bytes": 9000}, 2, 6000),
        (star(hosts=4), {"algorithm": "ring", "bytes": 8000}, 6, rail),
    ):
        late = taken(topo, collective(topo, **given, latency=protocol)) - taken(topo, collective(topo, **given))
        assert late == 1000 * steps * step, given
    assert TABLE["nvls"][0][2] == 25_000 and TABLE["nvls_tree"][1][2] == 20_900 and TABLE["pat"][1][2] == 22_000


# -- jobs ----------------------------------------------------------------------------------------------------------------------


def test_training_by_servers():
    """Tensor parts within servers, experts over two, gradients on two levels, stages on another rail: to the picosecond."""
    topo = servers(2, 2, scale_up_delay="60us", delay="70us")
    plan = {"tensor": 1, "data": 4, "layers": 1, "parameters": 4 * 3000, "iterations": 1, "forward": "1ms", "backward": "2ms"}
    flows = training(topo, **plan, all_reduce="two_level", latency={"scale_up": "1us", "network": "2us"})
    run = simulate(topo, flows, "fifo", host=HOST, measure=QUIET)
    ends = Network(NV, 60_000_000, NIC, 70_000_000, latency=(10**6, 2 * 10**6)).ends(two_level_all_reduce(2, 2, 4 * 3000))
    assert round(run.summary["training"]["step_ns"] * 1000) == 3 * 10**9 + max(ends.values())
    plan |= {"expert": 4, "expert_parameters": 0, "parameters": 0, "activations": 4 * 3000}
    flows = training(topo, **plan, all_to_all="pxn")
    run = simulate(topo, flows, "fifo", host=HOST, measure=QUIET)
    messages, begins = in_turn(pxn_all_to_all(2, 2, 3000), 2, 2), dict.fromkeys([(0, 0), (0, 1), (1, 0), (1, 1)], 0)
    for computed in (500, 500, 0, 1000):  # us before each all-to-all: half of a layer, the experts, and the same backward
        begins = {gpu: time + computed * 10**6 for gpu, time in begins.items()}
        ends = Network(NV, 60_000_000, NIC, 70_000_000).ends(messages, begins)
        own = [(key[2], time) for key, time in ends.items() if key[0] != "relay"]
        begins = {gpu: max([begins[gpu], *(time for to, time in own if to == gpu)]) for gpu in begins}
    assert round(run.summary["training"]["step_ns"] * 1000) == max(begins.values()) + 10**9


def test_stages_on_other_rails():
    """Rank 0 and 1 are stages on GPU 0 of one server and GPU 1 of another; GPU 1 of the first one is a rank, too."""
    topo = servers(2, 2)
    graph = TaskGraph(np.array([0, 3, 1]), servers=topo.servers)
    ready = graph.begin(np.arange(3))
    there = graph.send(np.array([0]), np.array([1]), 9000, [ready[:1]], algorithm="pxn")
    graph.send(np.array([1]), np.array([0]), 9000, [there], algorithm="pxn")
    run = simulate(topo, graph.flows(), "fifo", host=HOST, measure=QUIET)
    there, back = (round(ns * 1000) for ns in run.frame("operations")["time_ns"])
    assert there == one(9000, True) + one(9000, False) and back == 4 * (NIC * 9048 + 500_000), "nobody on the second server"
    assert run.frame("operations")["ranks"].to_list() == [2, 2]


GOAL = """\
num_ranks 4
rank 0 {
l1: calc 5000
l2: send 9000b to 3 tag 1
l3: send 9000b to 2 tag 2
l4: send 9000b to 1 tag 3
l2 requires l1
l3 requires l2
l4 requires l3
}
rank 1 {
l1: recv 9000b from 0 tag 3
}
rank 2 {
l1: recv 9000b from 0 tag 2
}
rank 3 {
l1: recv 9000b from 0 tag 1
l2: calc 2000
l2 requires l1
}
"""


def test_messages_of_a_trace(tmp_path):
    """Three in turn, each when the one before is acknowledged: by the other GPU to another rail, along the rail, and within."""
    file, topo, ack = tmp_path / "step.goal", servers(2, 2), 60
    file.write_text(GOAL)
    inside, rail = (2 * ((ack * rate) + delay) for rate, delay in ((NV, 25_000), (NIC, 500_000)))
    for given, near, far in ((None, 0, 0), ("2us", 2, 2), ({"scale_up": "1us", "network": "3us"}, 1, 3)):
        made = convert(file, gpus=2, sendrecv="pxn", latency=given, eager=0)
        run = simulate(topo, made.flows, "fifo", host=HOST, measure=QUIET)
        near, far = near * 10**6, far * 10**6
        first = 5_000_000 + near + one(9000, True)
        second = first + inside + far + one(9000, False)
        third = second + rail + near + one(9000, True)
        ends = {(r["src"], r["dst"]): round((r["start_ns"] + r["fct_ns"]) * 1000) for r in run.flows.sort("start_ns").to_dicts()}
        assert ends == {(0, 1): third, (1, 3): first + far + one(9000, False), (0, 2): second}
        computed = run.frame("timeline").filter((pl.col("kind") == "compute") & (pl.col("rank") == 3))["finish_ns"]
        assert round(computed[0] * 1000) == first + far + one(9000, False) + 2_000_000


@pytest.mark.parametrize("gpus, latency", [(2, None), (2, "ll"), (4, None)])
def test_collectives_of_a_trace(gpus, latency):
    """As the same collectives of a workload, which have laws above."""
    topo = servers(8 // gpus, gpus, scale_up_delay="60us", delay="70us")
    for kind, algorithm in (("all_reduce", "two_level"), ("all_to_all", "pxn")):
        trace = Trace("trace", 8)
        for rank in range(8):
            trace.collective(rank, Call(kind, tuple(range(8)), 24_000))
        scale_up = ScaleUp(Servers.even(8, gpus), {kind: algorithm}, latency)
        times = [
            taken(topo, lower(trace, np.arange(8), connections="message", scale_up=scale_up)),
            taken(
                topo, collective(topo, collective=kind, algorithm=algorithm, bytes=24_000, latency=latency, connections="message")
            ),
        ]
        assert times[0] == times[1]


SIMAI = """\
HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 checkpoints: 0 checkpoint_initiates: 0
1
layer  -1  1000 ALLREDUCE 80000  1000 ALLREDUCE 80000  1000 ALLREDUCE 80000  100
"""


def test_a_workload_of_simai(tmp_path):
    """Tensor groups are in one server, where two levels are a ring; replicas are of two servers of four, two in each."""
    file, topo = tmp_path / "layers.txt", servers(2, 4)
    file.write_text(SIMAI)
    runs = {}
    for algorithm in (None, "two_level"):
        given = {} if algorithm is None else {"all_reduce": algorithm, "gpus": 4}
        runs[algorithm] = simulate(topo, convert(file, ranks=8, **given).flows, "fifo", host=HOST, measure=QUIET)
    far = {name: run.flows.filter(pl.col("src") // 4 != pl.col("dst") // 4)["bytes"].sum() for name, run in runs.items()}
    assert far == {None: 2 * 2 * 6 * 20_000, "two_level": 2 * 4 * 40_000}
    assert {row["algorithm"] for row in runs["two_level"].frame("operations").to_dicts()} == {"two_level"}
    assert runs["two_level"].summary["training"]["step_ns"] < runs[None].summary["training"]["step_ns"]


@pytest.mark.parametrize(
    "options, says",
    [
        ({"all_reduce": "two_level"}, 'all_reduce = "two_level": is for all_reduce, and .* has none; leave it out'),
        ({"sendrecv": "pxn"}, 'sendrecv = "pxn": needs servers.*gpus'),
        ({"sendrecv": "direct", "gpus": 2}, "gpus = 2: is for the algorithms pxn and two_level, and for a latency that differs"),
        ({"latency": "6us", "gpus": 2}, "gpus = 2: is for"),
        ({"sendrecv": "ring"}, 'sendrecv = "ring": must be one of direct, pxn'),
        ({"latency": "fast"}, 'latency = "fast": must be a time or a protocol'),
    ],
)
def test_options_of_traces(tmp_path, options, says):
    file = tmp_path / "step.goal"
    file.write_text(GOAL)
    with pytest.raises(SpecError, match=says):
        convert(file, **options)


def test_the_command_takes_them(tmp_path):
    file, out = tmp_path / "step.goal", tmp_path / "step.parquet"
    file.write_text(GOAL)
    assert not main(["convert", str(file), str(out), "--gpus", "2", "--sendrecv", "pxn", "--latency", "simple"])
    flows = build({"kind": "flows", "file": str(out)}, servers(2, 2), 10**9, 1)
    assert sorted(set(flows.gap_ps.tolist())) == [0, 2_000_000, 5_000_000, 6_000_000]
    assert np.count_nonzero(~flows.computes) == 4


@pytest.mark.parametrize("threads", [1, 2])
def test_bits_do_not_depend_on_threads(threads):
    topo = servers(4, 4, segment=2)
    plan = {"tensor": 2, "pipeline": 2, "layers": 2, "expert": 4, "parameters": "100KB", "activations": "30KB"}
    more = {"all_reduce": "two_level", "all_to_all": "pxn", "sendrecv": "pxn", "latency": "simple"}
    flows = training(topo, forward="5us", backward="7us", **plan, **more)
    runs = [simulate(topo, flows, "bfc", threads=count, measure=QUIET) for count in (1, threads)]
    assert runs[0] == runs[1] and runs[0].summary["flows_finished"] == (~flows.computes).sum()


@pytest.mark.parametrize(
    "topo, given, says",
    [
        (star(hosts=4), {"algorithm": "two_level"}, 'algorithm = "two_level": needs servers, .*scale_up_rate'),
        (star(hosts=4), {"collective": "all_to_all", "algorithm": "pxn"}, 'algorithm = "pxn": needs servers'),
        (star(hosts=4), {"latency": {"scale_up": "1us"}}, "latency = .*: tells messages within servers from others"),
        (servers(2), {"algorithm": "two_level", "hosts": 12}, 'algorithm = "two_level": needs as many .* here are 4 or 8; place'),
        (servers(2), {"latency": "ll12"}, 'latency = "ll12": must be a time or a protocol, one of ll, ll128, simple'),
        (servers(2), {"latency": "soon"}, 'latency = "soon": must be a time or a protocol'),
        (servers(2), {"latency": "-1us"}, 'latency = "-1us": must be zero or more'),
        (servers(2), {"latency": {"nvlink": "1us"}}, "latency.nvlink"),
    ],
)
def test_refused(topo, given, says):
    with pytest.raises(SpecError, match=says):
        collective(topo, **given)


# -- planted mistakes ------------------------------------------------------------------------------------------------------------


MISTAKES = {
    "a rail begins before its server has reduced": ("edges.append((me[adds], at(0, k", "tuple((me[adds], at(0, k"),
    "the all-gather does not wait for the rail": ("in range(s - 2, 2 * (s - 1)):", "in range(0):"),
    "it waits for the reduce-scatter of the rail only": ("range(s - 2, 2 * (s - 1)):", "range(s - 2, s - 1):"),
    "it waits for the all-gather of the rail only": ("range(s - 2, 2 * (s - 1)):", "range(s - 1, 2 * (s - 1)):"),
    "a part is added before the server has reduced it": ("adds = step < s\n", "adds = step < 1\n"),
    "a part is passed on before the server has reduced it": ("adds = step < s\n", "adds = step < s - 1\n"),
    "a rail has the whole buffer": ("parts[j, piece, part], begins", "parts.sum(axis=2)[j, piece], begins"),
    "rails are crossed": ("rank[(server + 1) % s, j], parts", "rank[(server + 1) % s, (j + 1) % k], parts"),
    "what is passed on leaves at once": (
        "position[kept][passed],\n        np.flatnonzero(passed),",
        "position[:0],\n        position[:0],",
    ),
    "messages are not joined": ("np.unique(keys, return", "np.unique(np.arange(len(keys)), return"),
    "messages to all of a rail are joined": ("len(servers.server) + to) *", "len(servers.server) + to * 0) *"),
    "what is joined has the size of one": ("weights=direct.bytes[joined],", "weights=direct.bytes[joined] / 2,"),
    "the receiver's server relays": ("servers.relays(direct.src, direct.dst)", "servers.relays(direct.dst, direct.src)"),
}


def planted(module, right, wrong):
    """The module, with a mistake."""
    with open(module.__file__) as file:
        text = file.read()
    assert text.count(right) == 1
    made = types.ModuleType(module.__name__)
    with_mistake = compile(text.replace(right, wrong), module.__file__, "exec", dont_inherit=True)
    sys.modules[module.__name__], kept = made, sys.modules[module.__name__]  # dataclasses look for their module
    try:
        exec(with_mistake, made.__dict__)
    finally:
        sys.modules[module.__name__] = kept
    return made


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(mistake, monkeypatch):
    """By a wrong time, by flows that wait for what their host does not see, or by a message to oneself."""
    made = planted(algorithms, *MISTAKES[mistake])
    for kind, name in (("all_reduce", "two_level"), ("all_to_all", "pxn")):
        monkeypatch.setitem(algorithms.ALGORITHMS[kind], name, made.ALGORITHMS[kind][name])
    with pytest.raises((AssertionError, SpecError)):
        test_two_levels(5, 4)
        for seed in range(8):
            test_every_rank_gets_every_sum_in_any_order(seed)
            test_every_block_arrives_in_any_order(seed)
        test_all_to_all_by_rail(3)
        test_what_pxn_moves()


BELOW = {  # what algorithms and messages ask for: module, class, method, what is right, the mistake
    "a relay is on its own rail": (scale_up, "Servers", "relays", "self.place[dst]], -1)", "self.place[src]], -1)"),
    "a relay is in the receiver's server": (scale_up, "Servers", "relays", "at[self.server[src]", "at[self.server[dst]"),
    "a message within a server has a relay": (scale_up, "Servers", "relays", " & (self.server[src] != self.server[dst])", ""),
    "all are in one server": (scale_up, "Servers", "within", " & (self.server[src] == self.server[dst])", ""),
    "NVLink starts as the network does": (
        latency,
        "Latency",
        "of",
        "None:\n            return out",
        "None or 1:\n            return out",
    ),
    "all algorithms start alike": (latency, "Latency", "of", "self.network.get(algorithm", 'self.network.get(""'),
}


@pytest.mark.parametrize("mistake", BELOW)
def test_a_planted_mistake_below_is_found(mistake, monkeypatch, tmp_path):
    module, owner, method, right, wrong = BELOW[mistake]
    made = planted(module, right, wrong)
    monkeypatch.setattr(getattr(module, owner), method, getattr(getattr(made, owner), method))
    with pytest.raises((AssertionError, SpecError)):
        test_sends_to_the_next_rank_by_rail(8)
        test_latencies_of_simai("simple", 11_800, 12_400, 22_400)
        test_messages_of_a_trace(tmp_path)


@pytest.mark.parametrize("scheme", ["pfc", "bfc", "backdraft", "floodgate", "dqa"])
def test_schemes_that_pause_lose_nothing_in_servers(scheme):
    """An incast within a server and from others, on one thread and on two."""
    topo = rails(servers=3, gpus=3, spines=1, rate="200Gbps", scale_up_rate="1Tbps", buffer="1MB")
    flows = flow_list(topo, [(src, 0, 200_000, "1us") for src in range(1, 9)] + [(4, 5, 30_000), (5, 0, 30_000)])
    runs = [simulate(topo, flows, scheme, threads=threads, measure=QUIET) for threads in (1, 2)]
    assert runs[0] == runs[1] and runs[0].summary["flows_finished"] == len(flows)
    assert runs[0].summary["drops"] == 0 or scheme == "dqa"
