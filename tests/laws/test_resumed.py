"""A run that was interrupted goes on to the same bits, for every scheme, on any number of threads; saving changes nothing."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "unit"))
from drawn import examples
from networks import HostConfig, Measure, cutting, fitting, flow_list, hosts_under, incasts, networks, same, simulate
from test_core_equality import CASES, LONG, SERVERS, SMALL, WAITING, incast_flows
from test_deadlock import bouncing
from test_same_bits import SCENARIOS

import penstock_net
from penstock_net.composition import parse
from penstock_net.sim import simulate as core
from penstock_net.sim import starts
from penstock_net.topology import build, leaf_spine
from penstock_net.workload import poisson
from penstock_net.workload.collectives import ring_all_reduce

EVERYTHING = Measure(sample="700ns", pauses=True, queues=True, packets=True, port_series=True, flow_series=True, queueing=True)
INSIDE = str(Path(__file__).parent.parent / "schemes/hooks/inside.py")
MACHINES = {"threads", "wall_s", "packet_hops_per_s", "peak_memory_bytes"}  # what a summary has of machines


class Interrupted(core.Runner):
    """A run that ends after so many windows as Ctrl-C would end it, and leaves a checkpoint."""

    def __init__(self, settings, progress, checkpoint, windows=None, every=None):
        super().__init__(settings, progress, checkpoint)
        self.left, self.every, self.saved = windows, every, 0
        self.keeper.due = self.due

    def due(self):
        """Called between two windows, when the run has not ended."""
        if self.left is not None:
            self.left -= 1
            self.stop = self.stop or self.left == 0
        now = bool(self.every) and not self.stop and not self.saved % self.every
        self.saved += 1
        return now


@pytest.fixture
def run(monkeypatch, tmp_path):
    """run(topo, flows, scheme, interruptions=[(windows, threads), ...], **settings): interrupted there, then to its end."""
    monkeypatch.setattr(core, "CHUNK_S", 1e-9)  # one window per call of the core
    path = tmp_path / "state"

    def simulated(topo, flows, scheme, interruptions, *, threads=1, every=None, **settings):
        path.unlink(missing_ok=True)
        stopped = 0
        for windows, on in interruptions:
            with monkeypatch.context() as patch:
                patch.setattr(core, "Runner", lambda *given, n=windows: Interrupted(*given, windows=n))
                part = simulate(topo, flows, scheme, threads=on, checkpoint=path, on_interrupt="return", **settings)
            if not part.summary["interrupted"]:
                break
            stopped += 1
        with monkeypatch.context() as patch:
            patch.setattr(core, "Runner", lambda *given: Interrupted(*given, every=every))
            return simulate(topo, flows, scheme, threads=threads, checkpoint=path, **settings), stopped

    return simulated


def equal(a, b, what) -> None:
    """All frames, and the summary but for what depends on the machine."""
    same(a, b, what)
    one, other = ({key: value for key, value in run.summary.items() if key not in MACHINES} for run in (a, b))
    assert one == other, what


SETTINGS = {"seed": 11, "measure": EVERYTHING}


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenarios(run, name):
    topo, flows, scheme, settings = SCENARIOS[name]()
    settings = {**SETTINGS, **settings}
    whole = simulate(topo, flows, scheme, **settings)
    for interruptions, threads in (([(5, 1)], 1), ([(12, 1), (9, 3), (14, 2)], 3), ([(28, 3)], 1)):
        again, stopped = run(topo, flows, scheme, interruptions, threads=threads, **settings)
        assert stopped, "it was not interrupted"
        equal(whole, again, f"{name}, {interruptions}, then {threads} threads")


@pytest.mark.parametrize("windows", [5, 9, 14])
def test_links_that_retry(run, windows):
    """What they keep, and send again just then, is in the checkpoint."""
    topo = leaf_spine(hosts=8, tors=2, spines=2, buffer="1MB").with_loss(0.1).with_llr(replays=3)
    flows = flow_list(topo, [(i, 0, "40KB", "0us") for i in range(1, 8)] + [(0, 5, "40KB")])
    whole = simulate(topo, flows, "bfc", **SETTINGS)
    again, stopped = run(topo, flows, "bfc", [(windows, 1), (5, 3)], threads=2, **SETTINGS)
    assert stopped == 2 and whole.frame("llr")["tx_replay"].sum() > 100
    equal(whole, again, windows)


@pytest.mark.parametrize(
    "name", ["few and apart", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("bfc", "changes"))]
)
def test_saving_changes_nothing(run, name):
    topo, flows, scheme, settings = SCENARIOS[name]()
    settings = {**SETTINGS, **settings}
    whole = simulate(topo, flows, scheme, **settings)
    equal(whole, run(topo, flows, scheme, [], every=1, threads=2, **settings)[0], f"{name}, saved after each window")


@pytest.mark.parametrize("scheme, parameters", [c[:2] for c in CASES], ids=[f"{c[0]}{len(c[1])}" for c in CASES])
def test_every_scheme(run, scheme, parameters):
    table = SERVERS if "backdraft" in scheme or "senders" in parameters else SMALL
    topo = build({**table, "loss": 0.005})
    flows = flow_list(topo, WAITING + incast_flows() + LONG)
    settings = {"host": hosts_under(parse(scheme, parameters), rto="200us"), "measure": EVERYTHING, "control_loss": 0.01}
    whole = simulate(topo, flows, parse(scheme, parameters), **settings)
    for interruptions in ([(17, 2), (8, 1)], [(40, 1), (41, 3)]):
        again, stopped = run(topo, flows, parse(scheme, parameters), interruptions, threads=2, **settings)
        assert stopped, "it was not interrupted"
        equal(whole, again, f"{scheme}, {interruptions}")


OWN = '''
"""Counts in all places that a scheme has: marks what a flow, a port, a node or a queue has seen too often."""

parameters = {
    "most": ("int32", 3, "packets of a flow and a queue that are not marked"),
    "rows": ("int32", 8, "entries of a table"),
}
structs = {"pair": {"seen": "int64", "bytes": "bytes"}}
packet_state = {"path": "int32"}
queue_state = {"seen": "int32"}
flow_state = {"acks": "int64"}
port_state = {"few": "int32[4]", "by_queue": "pair[rows]", "many": "mask[100]"}
node_state = {"by_host": "int64[hosts]", "seen": "int64"}
scheme_state = {"weights": "int32[500]"}
fabric = {"queues": 8}

def set_up(own):
    for i in range(500):
        own.weights[i] = 1 + i % 3


def on_enqueue(own, node, port, queue, pkt):
    mine = my_packet(own, pkt)
    if pkt.kind != DATA:
        return
    mine.path = mine.path + port.slot
    my_queue(own, queue).seen += own.weights[pkt.number % 500]


def on_dequeue(own, node, port, queue, pkt):
    if pkt.kind != DATA:
        return
    here = my_port(own, port)
    here.few[pkt.number % 4] += 1
    here.many[pkt.number % 100] = here.many[pkt.number % 100] ^ bit(pkt.number % 60)
    pair = by_queue_at(here, queue.index)
    pair.seen += 1
    pair.bytes += pkt.size
    there = my_node(own, node)
    there.by_host[pkt.dst] += 1
    there.seen += 1
    if (my_queue(own, queue).seen + pair.seen + there.by_host[pkt.dst] + here.few[0]) % own.most == 0:
        pkt.ecn = 1
        port.ecn_marks += 1


def on_send(own, node, flow, pkt):
    my_packet(own, pkt).path = 1


def on_ack(own, node, flow, pkt):
    state = my_flow(own, flow)
    state.acks += 1
    if pkt.ecn:
        flow.window = max(2000, 30000 - 100 * state.acks)
    else:
        flow.window = 60000
'''


def test_a_scheme_of_ones_own(run, tmp_path):
    """With state in every place, some of it in tables."""
    path = tmp_path / "counts.py"
    path.write_text(OWN)
    topo = build({**SMALL, "loss": 0.002})
    flows = flow_list(topo, incast_flows() + LONG)
    settings = {"host": HostConfig(rto="200us"), "measure": EVERYTHING}
    whole = simulate(topo, flows, str(path), **settings)
    assert whole.ports["ecn_marks"].sum() > 20
    for interruptions in ([(30, 1)], [(12, 3), (15, 2)]):
        again, stopped = run(topo, flows, str(path), interruptions, threads=2, **settings)
        assert stopped == len(interruptions)
        equal(whole, again, str(interruptions))


def test_what_a_scheme_counts_records_and_prints(run):
    topo = build(SMALL)
    flows = flow_list(topo, incast_flows() + LONG)
    settings = {"measure": Measure(sample="1us", records=True)}
    whole = simulate(topo, flows, INSIDE, **settings)
    assert whole.summary["printed"] > 20 and whole.counts["inside.cuts"] > 20
    for interruptions in ([(30, 1)], [(12, 3), (15, 2)]):
        again, stopped = run(topo, flows, INSIDE, interruptions, threads=2, **settings)
        assert stopped == len(interruptions)
        equal(whole, again, str(interruptions))
        assert again.counts == whole.counts and again.printed == whole.printed


RANKED = '''
"""Ranks at random; packets become the first ones of their queues as they come, so that these are not in the order of arrival."""

parameters = {"serve": ("int32 0..1", 0, "1: the earliest packet of the best one's flow is sent")}
fabric = {"reordering": 1}


def rank_packet(ranked, node, port, pkt):
    return hash31(pkt.seq // 1000, pkt.number) % 5


def on_enqueue(ranked, node, port, queue, pkt):
    best = best_packet(node, port)
    if best != NO_PACKET and hash31(pkt.seq, pkt.number) % 3 == 0:
        move_to_head(node, port, queue, best)
    worst = worst_packet(node, port)
    if worst != NO_PACKET and worst != pkt and port.bytes > 40000:
        drop_queued(node, port, queue, worst)


def next_queue(ranked, node, port):
    best = best_packet(node, port)
    if best != NO_PACKET and ranked.serve:
        move_to_head(node, port, queue_at(port, 0), earliest_packet(node, port, best))
    return 0
'''


@pytest.mark.parametrize("serve", [0, 1])
def test_ranked_packets_in_any_order(run, tmp_path, serve):
    path = tmp_path / "ranked.py"
    path.write_text(RANKED)
    scheme = parse(str(path), {"serve": serve})
    topo = build(SMALL)
    flows = flow_list(topo, incast_flows() + LONG)
    settings = {"host": HostConfig(rto="200us"), "measure": EVERYTHING}
    whole = simulate(topo, flows, scheme, **settings)
    assert whole.summary["drops"] > 20
    for interruptions in ([(20, 1)], [(12, 3), (6, 2), (5, 1), (40, 2)]):
        again, stopped = run(topo, flows, scheme, interruptions, threads=2, **settings)
        assert stopped == len(interruptions)
        equal(whole, again, str(interruptions))


@pytest.mark.parametrize("measure", [{"window": "20us..50us"}, {"window": "run", "warmup": "25us"}, {}])
def test_the_measurement_window(run, measure):
    topo = leaf_spine(hosts=16, tors=4, spines=2)
    flows = poisson(topo, sizes="google", load=0.7, load_on="host", duration="60us", seed=2)
    settings = {"measure": Measure(sample="1us", queueing=True, **measure), "duration": "60us"}
    whole = simulate(topo, flows, "bfc", **settings)
    for windows in (10, 30, 70):
        equal(whole, run(topo, flows, "bfc", [(windows, 1)], threads=2, **settings)[0], f"{measure}, after {windows} windows")


def test_flows_that_are_loaded_in_batches(run, monkeypatch):
    monkeypatch.setattr(starts, "FLOWS_AT_ONCE", 7)
    topo = leaf_spine(hosts=16, tors=4, spines=2)
    flows = poisson(topo, sizes="google", load=0.7, load_on="host", duration="60us", seed=2)
    flows += ring_all_reduce(topo, bytes="100KB")
    whole = simulate(topo, flows, "bfc", **SETTINGS)
    for windows in (3, 20, 45, 80):
        equal(whole, run(topo, flows, "bfc", [(windows, 2)], **SETTINGS)[0], f"after {windows} windows")


def test_a_flow_that_waits_for_two(run):
    """One of them is done before the interruption, the other one after it."""
    topo = leaf_spine(hosts=8, tors=2, spines=2)
    items = [{"src": 0, "dst": 1, "bytes": 2000}, {"src": 2, "dst": 1, "bytes": 200_000}]
    flows = flow_list(topo, [*items, {"src": 1, "dst": 3, "bytes": 9000, "after": [0, 1]}])
    whole = simulate(topo, flows, "bfc", measure=EVERYTHING)
    again, stopped = run(topo, flows, "bfc", [(15, 1)], measure=EVERYTHING)
    assert stopped
    equal(whole, again, "after 15 windows")


def test_a_deadlock_is_found(run):
    """Also if the first look at the paused queues was before the interruption."""
    topo, flows = bouncing()
    settings = {"max_time_ps": 10**9, "measure": Measure(pauses=True)}
    whole = simulate(topo, flows, "pfc", **settings)
    assert whole.summary["deadlock"]
    looked = 0
    for windows in (20, 501, 505):
        again, stopped = run(topo, flows, "pfc", [(windows, 1)], **settings)
        equal(whole, again, f"after {windows} windows")
        looked += stopped
    assert looked


@examples(20)
@given(networks(ps_per_byte=(10, 400), delay_ps=(10_000, 3_000_000)), st.data())
def test_random_networks(tmp_path_factory, topo, data):
    topo = data.draw(cutting(topo)).with_loss(data.draw(st.sampled_from([0.0, 0.01])))
    flows = data.draw(incasts(topo, None, 40_000))
    scheme = data.draw(st.sampled_from(fitting(topo, ["fifo", "bfc", "dqa", "hpcc", "ndp", "floodgate", "homa"])))
    settings = {
        "host": HostConfig(rto="500us"),
        "control_loss": data.draw(st.sampled_from([0.0, 0.1])),
        "max_time_ps": 10**13,
        "measure": Measure(sample="5us", packets=True, pauses=True, flow_series=True),
        "seed": data.draw(st.integers(1, 1000)),
    }
    whole = simulate(topo, flows, scheme, **settings)
    path = tmp_path_factory.mktemp("checkpoint") / "state"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(core, "CHUNK_S", 1e-9)
        for windows in data.draw(st.lists(st.integers(1, 300), min_size=1, max_size=3)):
            patch.setattr(core, "Runner", lambda *given, n=windows: Interrupted(*given, windows=n))
            threads = data.draw(st.integers(1, 3))
            part = simulate(topo, flows, scheme, threads=threads, checkpoint=path, on_interrupt="return", **settings)
            if not part.summary["interrupted"]:
                break
        patch.undo()
        equal(whole, simulate(topo, flows, scheme, checkpoint=path, threads=data.draw(st.integers(1, 3)), **settings), scheme)


PROGRAM = textwrap.dedent("""
    import sys
    from penstock_net.sim import simulate as core
    from penstock_net.sim.checkpoint import Checkpoint
    from penstock_net.sim.config import Measure
    from penstock_net.topology import leaf_spine
    from penstock_net.workload import poisson

    topo = leaf_spine(hosts=32, tors=4, spines=4)
    flows = poisson(topo, sizes="google", load=0.6, duration="3ms", seed=1)
    core.CHUNK_S = 0.001
    path, scheme, threads = sys.argv[1:4]
    print("begun", flush=True)
    run = core.simulate(topo, flows, scheme, threads=int(threads), measure=Measure(pauses=True),
                        checkpoint=Checkpoint(path + ".checkpoint", every="5ms"))
    run.save(path)
""")


@pytest.mark.parametrize("scheme", ["bfc", "hpcc"])
def test_killed_at_any_time(tmp_path, scheme):
    """Also while a checkpoint is written, as most are here: the one before it is used, in a new process."""
    environment = {"PYTHONPATH": str(Path(penstock_net.__file__).parents[1]), "PATH": "/usr/bin:/bin"}
    path, killed = tmp_path / "run", 0

    def begin(threads):
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(path), scheme, str(threads)], stdout=subprocess.PIPE, text=True, env=environment
        )

    for threads, seconds in zip((1, 2, 1, 2, 1, 2), (0.15, 0.3, 0.5, 0.31, 0.7, 0.23)):
        with begin(threads) as child:
            assert child.stdout.readline() == "begun\n"
            try:
                child.wait(timeout=seconds)
                break  # a fast machine has ended it
            except subprocess.TimeoutExpired:
                killed += 1
            child.kill()
    if not path.exists():
        with begin(1) as child:
            assert child.wait(timeout=300) == 0
    assert killed and (tmp_path / "run.checkpoint").exists()
    topo = leaf_spine(hosts=32, tors=4, spines=4)
    flows = poisson(topo, sizes="google", load=0.6, duration="3ms", seed=1)
    equal(
        simulate(topo, flows, scheme, measure=Measure(pauses=True)),
        penstock_net.Run.load(path),
        f"{scheme}, killed {killed} times",
    )
