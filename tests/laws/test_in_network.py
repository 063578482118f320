"""All-reduce in switches: its time on an idle tree to the picosecond, what the window and a slow child do to it, what it moves.

A chunk is what one packet carries: c bytes with its header. On a tree of depth D whose links all take r ps per byte and d ps, m
chunks of c bytes and a last one of l take r (m c + l + (2 D - 1) c) + 2 D d: the first chunk is stored and forwarded 2 D times.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))
from drawn import examples
from networks import HostConfig, Measure, available, flow_list, make_links, same, simulate
from paper.in_network import Group, Network

from penstock_net.errors import SpecError
from penstock_net.sim import simulate as core
from penstock_net.sim.config import InNetwork
from penstock_net.spec import parse_spec
from penstock_net.topology import Topology, fat_tree, leaf_spine, planes, rails, star
from penstock_net.topology.trees import Trees
from penstock_net.workload import Flows
from penstock_net.workload.collectives import collective
from penstock_net.workload.taskgraph import TaskGraph
from penstock_net.workload.traces import convert
from penstock_net.workload.training import training

MTU, HEADER, RATE, DELAY = 1000, 48, 80, 1_000_000
C = MTU + HEADER
QUIET = Measure(sample="0s", flows=False)
NETWORKS = {
    1: lambda: star(hosts=5),
    2: lambda: leaf_spine(hosts=8, tors=4, spines=3),
    3: lambda: fat_tree(k=4),
}


def reduce(topo, size, scheme="fifo", measure=QUIET, host=None, hosts=None, threads=1, **given):
    flows = collective(topo, algorithm="in_network", bytes=size, hosts=hosts)
    given = InNetwork(**{"window": 2**20, **given})
    return simulate(topo, flows, scheme, measure=measure, host=host or HostConfig(), in_network=given, threads=threads)


def taken(run) -> int:
    """Time of the only collective, ps."""
    (ns,) = run.frame("operations")["time_ns"]
    return round(ns * 1000)


def idle(depth, size, rate=RATE, delay=DELAY, mtu=MTU):
    """By the law above."""
    full, rest = divmod(size, mtu)
    full, rest = (full, rest) if rest else (full - 1, mtu)
    if full == 0:
        return 2 * depth * (rate * (rest + HEADER) + delay)
    return rate * ((full + 2 * depth - 1) * (mtu + HEADER) + rest + HEADER) + 2 * depth * delay


# -- time -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", NETWORKS)
@pytest.mark.parametrize("size", [1, MTU, 1001, 64 * MTU, 123_456])
def test_an_idle_tree(depth, size):
    run = reduce(NETWORKS[depth](), size)
    assert taken(run) == idle(depth, size)
    assert run.summary["in_network"]["depth"] == depth


@pytest.mark.parametrize("depth", NETWORKS)
def test_the_window(depth):
    """A window of the tree's bandwidth-delay product is enough; of one packet less, it is W chunks per round trip."""
    trip = 2 * depth * (DELAY + C * RATE)
    enough = -(-trip // (C * RATE))
    for window in (1, 3, enough - 1, enough):
        m = 4 * window + 3
        run = reduce(NETWORKS[depth](), m * MTU, window=window)
        rounds, more = divmod(m - 1, window)
        assert taken(run) == max(rounds * trip + more * C * RATE, (m - 1) * C * RATE) + trip
        assert run.summary["in_network"]["accumulators"] <= window
    assert taken(run) == idle(depth, m * MTU)


def test_switches_that_cut_through_store_what_they_add():
    topo = NETWORKS[2]().with_cut_through()
    assert taken(reduce(topo, 64 * MTU)) == idle(2, 64 * MTU)


@pytest.mark.parametrize("percent", [10, 25, 100])
def test_a_slow_child_slows_all(percent):
    """However many there are: a chunk takes its time at the slowest, in both directions at once."""
    links = make_links(np.arange(6), np.full(6, 6), [RATE] * 5 + [RATE * (100 + percent) // 100], DELAY)
    names = [*(f"host{i}" for i in range(6)), "switch"]
    topo = Topology("uneven", 6, 1, links, [0], names, [0] * 6 + [1], {})
    short, long = taken(reduce(topo, 100 * MTU)), taken(reduce(topo, 300 * MTU))
    assert long - short == 200 * C * RATE * (100 + percent) // 100
    finish = reduce(topo, 300 * MTU).flows["finish_ns"]
    assert round(1000 * (finish.max() - finish.min())) == C * RATE * percent // 100  # of the last chunk


def test_a_server():
    """NVLS: 8 GPUs on one NVSwitch of 2880 Gbit/s and 25 ns per GPU, 64 MiB; SimAI's template of a server."""
    size, mtu = 64 << 20, 31_000
    topo = star(hosts=8, rate="2880Gbps", delay="25ns")
    time = taken(reduce(topo, size, host=HostConfig(mtu=mtu, header=0)))
    least = size * 8e12 / 2.88e12
    traversal = 2 * 25_000 + mtu * 8e12 / 2.88e12
    assert least == pytest.approx(186.4e6, rel=1e-4)
    assert least + traversal - mtu < time < least + traversal + 10
    ring = simulate(topo, collective(topo, bytes=size), "fifo", measure=QUIET, host=HostConfig(mtu=mtu, header=0))
    assert taken(ring) / time == pytest.approx(1.75, rel=0.01)


def test_a_server_of_a_network_of_rails():
    """NVLS: the tree of a server's GPUs is its NVSwitch, whatever else there is; SimAI's time to start within a server."""
    topo, m = rails(servers=4, gpus=4, segment=2, spines=2, rate="100Gbps", scale_up_rate="4Tbps", scale_up_delay="25ns"), 50
    for latency, start in ((None, 0), ("simple", 25_000_000)):
        flows = collective(topo, algorithm="in_network", bytes=m * MTU, hosts=range(4, 8), latency=latency)
        run = simulate(topo, flows, "fifo", measure=QUIET)
        assert taken(run) == start + idle(1, m * MTU, rate=2, delay=25_000) and run.summary["in_network"]["depth"] == 1
        ports = run.ports.filter(run.ports["tx_bytes"] > 0)
        assert set(ports["node"]) == {4, 5, 6, 7, topo.node("nvswitch1")}


def test_jobs_and_traces_reduce_in_their_servers(tmp_path):
    """A tensor group's all-reduces in training, and a trace's: each takes what the law says, one after another."""
    topo = rails(servers=2, gpus=4, spines=1, rate="100Gbps", scale_up_rate="4Tbps", scale_up_delay="25ns")
    plan = {"tensor": 4, "layers": 1, "microbatches": 1, "parameters": 0, "activations": 20 * MTU, "iterations": 1}
    flows = training(topo, **plan, forward="10us", backward="20us", all_reduce="in_network")
    run = simulate(topo, flows, "fifo", measure=QUIET)
    step = 30_000_000 + 4 * idle(1, 20 * MTU, rate=2, delay=25_000)
    assert round(run.summary["training"]["step_ns"] * 1000) == step and run.summary["in_network"]["depth"] == 1
    file = tmp_path / "layers.txt"
    file.write_text(
        "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 4 checkpoints: 0 checkpoint_initiates: 0\n1\n"
        f"layer  -1  10000 ALLREDUCE {20 * MTU}  20000 ALLREDUCE {20 * MTU}  0 NONE 0  0\n"
    )
    made = convert(file, ranks=8, all_reduce="in_network")
    run = simulate(topo, made.flows, "fifo", measure=QUIET)
    reduced = run.frame("operations").filter(run.frame("operations")["algorithm"] == "in_network")
    assert reduced.height == 4 and {round(ns * 1000) for ns in reduced["time_ns"]} == {idle(1, 20 * MTU, rate=2, delay=25_000)}


def test_starting():
    """What a rank takes before its first byte: of protocols of NCCL, SimAI's time of NVLS between servers."""
    topo = star(hosts=4)
    flows = collective(topo, algorithm="in_network", bytes=5_000, latency="simple")
    assert taken(simulate(topo, flows, "fifo", measure=QUIET)) == 18_000_000 + idle(1, 5_000)


def test_what_it_moves():
    """Every host sends and receives its buffer once: a ring moves 2 (n - 1) / n of it."""
    n, m = 8, 50
    topo = star(hosts=n)
    ports = reduce(topo, m * MTU).ports
    assert (ports["tx_bytes"] == m * C).all() and ports["drops"].sum() == 0
    ring = simulate(topo, collective(topo, bytes=m * MTU), "fifo", host=HostConfig(mtu=m * MTU // n, header=0))
    payload = (ring.ports["tx_bytes"] - ring.ports["ack_bytes"]).to_numpy()
    assert np.all(payload == 2 * (n - 1) * m * MTU // n)


def test_rows():
    """A flow per host: it ends with the next host, when that has everything; what waits for the collective starts then."""
    topo = leaf_spine(hosts=8, tors=4, spines=3)
    graph = TaskGraph(np.arange(8))
    ready = graph.begin(np.arange(8)[None])
    reduced = graph.collective("all_reduce", np.arange(8)[None], 20 * MTU, [ready], algorithm="in_network")
    graph.compute(np.arange(8), 5_000_000, [reduced.ravel()])
    flows = graph.flows()
    run = simulate(topo, flows, "fifo", in_network=InNetwork(window=10**6))
    sends = run.flows.filter(run.flows["bytes"] > 0)
    assert sends["bytes"].to_list() == [20 * MTU] * 8 and sorted(sends["dst"]) == list(range(8))
    assert set(sends["finish_ns"]) == set(sends["acked_ns"]) == {idle(2, 20 * MTU) / 1000}
    assert run.summary["end_ns"] == idle(2, 20 * MTU) / 1000 + 5_000
    assert run.summary["flows_finished"] == 8


# -- against the transcription --------------------------------------------------------------------------------------------


def uneven(hosts, tors, rng):
    """Leaves below one root, links of all kinds."""
    switches = [hosts + i for i in range(tors + 1)]
    a = [*range(hosts), *switches[1:]]
    b = [*(switches[1 + i % tors] for i in range(hosts)), *[switches[0]] * tors]
    rates, delays = rng.integers(40, 200, len(a)), rng.integers(100_000, 3_000_000, len(a))
    names = [f"n{i}" for i in range(hosts + tors + 1)]
    links = make_links(a, b, rates.astype(float), delays)
    return Topology("uneven", hosts, tors + 1, links, [0] * (tors + 1), names, [0] * hosts + [2] + [1] * tors, {})


def groups_of(topo, sizes, rng):
    """Collectives of all hosts or of some, whose hosts begin at times of their own, and the same for the transcription."""
    total, groups = None, []
    for i, size in enumerate(sizes):
        members = np.arange(topo.hosts) if i == 0 else np.sort(rng.choice(topo.hosts, 2 + rng.integers(topo.hosts - 1), False))
        starts = i * 10_000_000 + rng.integers(0, 5_000_000, len(members))
        graph = TaskGraph(members)
        ranks = np.arange(len(members))
        late = graph.compute(ranks, starts, [graph.begin(ranks)])
        graph.collective("all_reduce", ranks[None], size, [late[None]], algorithm="in_network")
        total = graph.flows() if total is None else total + graph.flows()
        tree = Trees(topo).tree(members, turn=i)
        parent = {n: None if p < 0 else int(tree.node[p]) for n, p in zip(tree.node.tolist(), tree.parent.tolist())}
        chunks = [MTU + HEADER] * ((size - 1) // MTU) + [(size - 1) % MTU + 1 + HEADER]
        groups.append(Group(parent, chunks, dict(zip(members.tolist(), starts.tolist()))))
    return total, groups


def transcribed(topo, window, room, groups):
    rate, delay = {}, {}
    for link in topo.links:
        for a, b in ((int(link["a"]), int(link["b"])), (int(link["b"]), int(link["a"]))):
            rate[a, b], delay[a, b] = int(link["ps_per_byte"]), int(link["delay_ps"])
    Network(rate, delay, window, room).run(groups)
    return [{host: time for host, time in sorted(group.done.items())} for group in groups]


def ends(flows: Flows, run):
    """By collective and host: when it had everything, ps."""
    found = {}
    for row in run.flows.filter(run.flows["bytes"] > 0).iter_rows(named=True):
        mine = found.setdefault(int(flows.operations.number[row["flow_id"]]), {})
        mine[row["dst"]] = None if row["finish_ns"] is None else round(row["finish_ns"] * 1000)
    return [dict(sorted(found[number].items())) for number in sorted(found)]


@examples(30)
@given(st.integers(0, 2**32), st.integers(2, 9), st.integers(1, 3), st.integers(1, 20_000), st.integers(1, 12))
def test_an_independent_transcription(seed, hosts, tors, size, window):
    """Links of any rate and delay, hosts that begin whenever they like."""
    rng = np.random.default_rng(seed)
    topo = uneven(hosts, min(tors, hosts), rng)
    flows, groups = groups_of(topo, [size], rng)
    run = simulate(topo, flows, "fifo", measure=QUIET, in_network=InNetwork(window))
    assert ends(flows, run) == transcribed(topo, window, 0, groups)
    assert run.summary["in_network"]["accumulators"] <= min(window, len(groups[0].chunks))


@examples(30)
@given(st.integers(0, 2**32), st.integers(3, 9), st.lists(st.integers(1, 9_000), min_size=2, max_size=4), st.integers(1, 12))
def test_groups_that_wait_for_room(seed, hosts, sizes, window):
    """A switch that reduces one group at a time."""
    rng = np.random.default_rng(seed)
    topo = uneven(hosts, min(3, hosts), rng)
    flows, groups = groups_of(topo, sizes, rng)
    run = simulate(topo, flows, "fifo", measure=QUIET, in_network=InNetwork(window, groups=1))
    assert ends(flows, run) == transcribed(topo, window, 1, groups)


def digest(threads=1):
    """Of a small case: whether the ends are the transcription's, and all frames."""
    found = []
    for sizes, window, room in (([6_500], 3, 0), ([4_000, 2_300], 2, 1)):
        rng = np.random.default_rng(5)
        topo = uneven(5, 2, rng)
        flows, groups = groups_of(topo, sizes, rng)
        given, measure = InNetwork(window, groups=room), Measure(sample="9us")
        run = simulate(topo, flows, "fifo", measure=measure, in_network=given, max_time_ps=10**9, threads=threads)
        found.append(ends(flows, run) == transcribed(topo, window, room, groups))
        found.append([frame.write_csv() for _, frame in sorted(run.frames.items())])
    return found


MISTAKES = {
    "a sum of one part": ("world.parts[place] == seat.children", "world.parts[place] == 1"),
    "an accumulator that is not cleared": ("        world.parts[place] = 0\n", ""),
    "a window of one more": ("flow.window = world.chunks * world.mtu", "flow.window = (world.chunks + 1) * world.mtu"),
    "nobody waits for room": ("seat_at(node.worker.world, seat.before).ended", "True"),
    "room after the first sum": ("if seq + payload == seat.size:", "if seq >= 0:"),
    "one child asks for all": ("seat.asked == seat.children", "seat.asked == 1"),
    "one child gets no sum": ("seat.child + seat.children):", "seat.child + max(1, seat.children - 1)):"),
    "no header": ("payload + node.worker.world.header", "payload"),
    "each leaf is a root": ("if seat.parent >= 0:", "if seat.parent >= 0 and below != SUM:"),
}
INTERPRETED = """
import json, sys
from pathlib import Path
from penstock_net.sim.interpreted import install
install()
from penstock_net.fabric import reduction
sys.path.insert(0, sys.argv[1])
import test_in_network as laws
from penstock_net.sim.core import lifetimes, sender
text, found = Path(reduction.__file__).read_text(), []
for right, wrong in [("", ""), *laws.MISTAKES.values()]:
    assert not right or text.count(right) == 1, right
    exec(compile(text.replace(right, wrong) if right else text, "reduction.py", "exec"), reduction.__dict__)
    lifetimes.enter, sender.next_chunk = reduction.enter, reduction.next_chunk
    try:
        found.append(laws.digest())
    except Exception as error:
        found.append([repr(error)])
print(json.dumps(found))
"""


def test_the_interpreted_core_agrees_and_mistakes_are_seen():
    command = [sys.executable, "-B", "-c", INTERPRETED, str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    right, *wrong = json.loads(done.stdout)
    assert right == digest() and right[0] is right[2] is True
    missed = [name for name, found in zip(MISTAKES, wrong) if True is found[0] is found[-2]]
    assert not missed


# -- beside other traffic -------------------------------------------------------------------------------------------------


def crowded(topo):
    """Two reductions, one after the other, and an incast of data that fills the buffer of a leaf."""
    flows = flow_list(topo, [(i, 0, 60_000, f"{i}us") for i in range(1, 8)])
    return flows + collective(topo, algorithm="in_network", bytes=40_300, hosts=[0, 1, 2, 5, 7])


@pytest.mark.parametrize("scheme", sorted(available()))
def test_nothing_is_lost_under_any_scheme(scheme):
    """Data has no buffer but for two packets at a time; sums come all the same, and not later than the window allows."""
    topo = leaf_spine(hosts=8, tors=4, spines=2, buffer="300KB")
    run = simulate(topo, crowded(topo), scheme, measure=Measure(sample="0s"), max_time_ps=10**10, in_network=InNetwork(16))
    sums = run.flows.filter(run.flows["class"] == "collective")
    assert sums["finish_ns"].null_count() == 0 and (sums["slowdown"] >= 1).all()
    assert run.summary["in_network"]["accumulators"] <= 16


def test_same_bits(monkeypatch, tmp_path):
    """On any number of threads, and from a checkpoint on."""
    topo = leaf_spine(hosts=8, tors=4, spines=2, buffer="30KB")
    settings = {"measure": Measure(sample="2us", packets=True, flow_series=True), "in_network": InNetwork(8, groups=1), "seed": 3}
    flows = crowded(topo) + collective(topo, algorithm="in_network", bytes=9_999)
    whole = simulate(topo, flows, "fifo", **settings)
    assert whole.flows["finish_ns"].null_count() == 0 and whole.summary["drops"]
    for threads in (2, 3):
        same(whole, simulate(topo, flows, "fifo", threads=threads, **settings), f"{threads} threads")
    for windows in (5, 12, 30):

        class Interrupted(core.Runner):
            left = windows

            def __init__(self, *given):
                super().__init__(*given)
                self.keeper.due = self.due

            def due(self):
                self.left -= 1
                self.stop = self.left == 0
                return False

        with monkeypatch.context() as patch:
            patch.setattr(core, "Runner", Interrupted)
            patch.setattr(core, "CHUNK_S", 1e-9)
            part = simulate(topo, flows, "fifo", checkpoint=tmp_path / "state", on_interrupt="return", **settings)
        assert part.summary["interrupted"]
        same(whole, simulate(topo, flows, "fifo", threads=2, checkpoint=tmp_path / "state", **settings), f"from {windows}")
        (tmp_path / "state").unlink()


def test_a_slow_start_holds_all_back_by_the_window():
    """A host that begins late stalls the others when their window is full, and none of them sends more."""
    topo = star(hosts=4)
    graph = TaskGraph(np.arange(4))
    late = graph.compute(np.arange(4), np.array([0, 0, 0, 500_000_000]), [graph.begin(np.arange(4))])
    graph.collective("all_reduce", np.arange(4)[None], 200 * MTU, [late[None]], algorithm="in_network")
    run = simulate(topo, graph.flows(), "fifo", in_network=InNetwork(32), duration="400us", drain=False)
    sent = run.ports.filter(run.ports["node"] < 4)["tx_bytes"].to_list()
    assert sent == [32 * C] * 3 + [0] and run.summary["in_network"]["accumulators"] == 32


# -- what is refused ------------------------------------------------------------------------------------------------------


def test_refusals():
    topo = leaf_spine(hosts=8, tors=4, spines=2)
    for network, options, message in (
        (topo.with_loss(0.01), {}, "topology.links.loss: a link loses packets; what switches reduce"),
        (topo.with_changes([{"time": "1us", "a": "tor0", "b": "spine0", "up": False}]), {}, "a link or a switch fails"),
        (topo, {"root": "spin"}, 'in_network.root = "spin": no switch has this name.*spine'),
        (topo, {"root": "tor1"}, None),
        (topo, {"window": 0}, "in_network.window = 0"),
        (topo, {"groups": -1}, "in_network.groups = -1"),
        (topo, {"root": 3}, "in_network.root = 3"),
    ):
        if message is None:
            assert reduce(network, 1000, **options).summary["in_network"]["depth"] == 4 - 1
            continue
        with pytest.raises(SpecError, match=message):
            reduce(network, 1000, **options)
    with pytest.raises(SpecError, match="control_loss: links lose control frames"):
        simulate(topo, collective(topo, algorithm="in_network"), control_loss=0.1)
    with pytest.raises(SpecError, match="chunks = 2: switches reduce packet by packet"):
        collective(topo, algorithm="in_network", chunks=2)


def test_hosts_with_several_links():
    """In planes a tree is in one of them, with dual ToRs every host hangs on one of its two; groups take turns."""
    topo, hosts = planes(hosts=8, planes=2, tors=2, spines=2), np.arange(8)
    trees = [Trees(topo).tree(hosts, turn=turn) for turn in range(4)]
    ports = [set(tree.up[tree.node < 8].tolist()) for tree in trees]
    assert ports == [{0}, {0}, {1}, {1}] and {tree.depth for tree in trees} == {2}
    rate, delay = float(topo.links["ps_per_byte"][0]), int(topo.links["delay_ps"][0])
    run = reduce(topo, 50_000, "pfc", root=topo.names[int(trees[3].node[0])])
    assert taken(run) == idle(2, 50_000, rate, delay)
    used = run.ports.filter((run.ports["node"] < 8) & (run.ports["tx_bytes"] > 0))
    assert used["port"].to_list() == [1] * 8
    dual = rails(servers=4, gpus=2, segment=2, spines=2, ports=2)
    assert taken(reduce(dual, 50_000, "pfc")) == idle(2, 50_000, float(dual.links["ps_per_byte"][0]), 500_000)


def test_no_tree():
    """Each two of the hosts have a switch, but all three none, and switches are joined by hosts only."""
    links = make_links([0, 0, 1, 1, 2, 2], [3, 4, 4, 5, 5, 3], RATE, DELAY)
    topo = Topology("apart", 3, 3, links, [0] * 3, list("abcstu"), [0] * 3 + [1] * 3, {})
    with pytest.raises(SpecError, match="no such switch reaches all hosts of a group, such as a and c, over switches alone"):
        reduce(topo, 1000)
    assert taken(reduce(topo, 1000, hosts=[0, 2])) == idle(1, 1000)


def test_flows_of_other_programs_are_checked():
    """A file may say that any flows are reduced; they are refused unless each host sends and receives as much, once."""
    topo = star(hosts=4)
    flows = collective(topo, algorithm="in_network", bytes=5_000)
    for change in ({"bytes": np.where(flows.bytes, 5_000 + flows.src, 0)}, {"connection": np.where(flows.computes, -1, 0)}):
        columns = dict(zip(("start_ps", "src", "dst", "bytes", "class_id", "priority"), flows.columns))
        parts = {"after": flows.after, "gap_ps": flows.gap_ps, "operations": flows.operations, **columns, **change}
        wrong = Flows(classes=flows.classes, **parts)
        with pytest.raises(SpecError, match="in_network"):
            simulate(topo, wrong, "fifo")


def test_groups_that_wait_for_one_another():
    """Two collectives of which the first as listed waits for the second: with room for one they would never end."""
    topo = star(hosts=4)
    hosts = np.arange(4)

    def job():
        graph = TaskGraph(hosts)
        first = graph.collective("all_reduce", hosts[None], 5_000, [], algorithm="in_network")
        second = graph.collective("all_reduce", hosts[None], 5_000, [], algorithm="in_network")
        begins = np.arange(4)  # of the first one: the first tasks of all
        graph._depend(begins, second.ravel())
        return graph.flows(), first

    flows, _ = job()
    with pytest.raises(SpecError, match=r"in_network\.groups = 1: collectives would wait for one another"):
        simulate(topo, flows, "fifo", in_network=InNetwork(groups=1))
    assert simulate(topo, flows, "fifo", in_network=InNetwork(groups=2)).flows["finish_ns"].null_count() == 0


def test_a_spec():
    """[in_network] of a spec: read, written, and part of the run's key; a spec without it keeps its own."""
    text = '[run]\nduration = "1ms"\n[topology]\nkind = "star"\nhosts = 4\n[[workload]]\nkind = "collective"\n'
    text += 'algorithm = "in_network"\nbytes = "100KB"\n[scheme]\nname = "pfc"\n'
    plain, given = parse_spec(text), parse_spec(text + '[in_network]\nwindow = 8\nroot = "s*"\n')
    assert plain.in_network == InNetwork() and "in_network]" not in plain.to_toml()
    assert parse_spec(given.to_toml()) == given and given.key() != plain.key()
    topo = given.build_topology()
    run = given.simulate(given.schemes[0], topo, given.build_flows(topo))
    assert run.summary["in_network"] == {"groups": 1, "depth": 1, "accumulators": 1}
    with pytest.raises(SpecError, match=r"in_network\.windo: .*window"):
        parse_spec(text + "[in_network]\nwindo = 8\n")
