"""Connections: messages of a pair of hosts are one flow of the sender, from one to the next."""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from drawn import examples
from networks import Measure, hosts_under, same, simulate

from penstock_net.composition import parse
from penstock_net.errors import SpecError
from penstock_net.sim import simulate as core
from penstock_net.sim import starts
from penstock_net.testing.cases import digest, run_case
from penstock_net.topology import leaf_spine, star
from penstock_net.workload import Flows, flow_list
from penstock_net.workload.collectives import collective
from penstock_net.workload.connections import grouped
from penstock_net.workload.flowfile import flows_from_csv, flows_from_parquet, flows_to_csv, flows_to_parquet
from penstock_net.workload.flows import csr
from penstock_net.workload.traces import convert

BY_SENDER = [
    *("fifo", "pfc", "bfc", "bfc_tofino2", "floodgate", "pyrrha", "ideal_fq", "sfq", "dqa", "backdraft", "pfc_tagged"),
    *("dcqcn", "hpcc", "swift", "dctcp", "timely", "powertcp", "theta_powertcp", "dcqcn+window_cap", "bfc+dctcp", "rtt_target"),
    *("spray", "flowlet", "recovery:irn", "spray+recovery:irn", "dcqcn+pfc", "dcqcn:cnp", "fncc"),
]
BY_MESSAGE = ["dcpim", "homa", "sird", "ndp", "phost", "expresspass", "pfabric", "srf", "pias"]
PAIRS = ((0, 4), (1, 4), (2, 5), (3, 4))
DROP = ["fifo", "spray", "flowlet", "recovery:irn", "spray+recovery:irn"]  # which lose packets in a small buffer
MTU, HEADER = 1000, 48


def network(buffer="12MB", loss=0.0):
    return leaf_spine(hosts=8, tors=2, spines=4, buffer=buffer).with_loss(loss)


def messages(sizes, pairs=PAIRS, every=0, connection: int | None = 0):
    """The same messages from each src to its dst: the k-th of all pairs before the next one, `every` ps apart."""
    src, dst = np.array(pairs).T
    n, k = len(pairs), len(sizes)
    start, numbers = np.repeat(np.arange(k) * every, n), None if connection is None else np.full(n * k, connection)
    zeros = np.zeros(n * k)
    return Flows(start, np.tile(src, k), np.tile(dst, k), np.repeat(sizes, n), zeros, zeros, ("a",), connection=numbers)


def last_of(run):
    """(finish, acked, retransmitted) of the messages of each src together."""
    flows = run.flows
    return [
        (part["finish_ns"].max(), part["acked_ns"].max(), part["retransmitted_bytes"].sum())
        for _, part in sorted(flows.partition_by("src", as_dict=True).items())
    ]


@pytest.mark.parametrize("scheme", BY_SENDER)
def test_messages_back_to_back_are_one_flow(scheme):
    """To the picosecond, also where packets are lost and sent again; messages of whole packets, but for the last one."""
    sizes = [20_000, 64_000, 1_000, 37_123]
    settings = {"host": hosts_under(scheme, rto="100us"), "seed": 3}
    drops = [network("60KB")] if scheme in DROP else []
    for topo in (network(), network(loss=0.01), *drops):
        cut = simulate(topo, messages(sizes), scheme, **settings)
        whole = simulate(topo, messages([sum(sizes)], connection=None), scheme, **settings)
        assert last_of(cut) == last_of(whole)
        assert cut.summary["packet_hops"] == whole.summary["packet_hops"]


@pytest.mark.parametrize("scheme", ["fifo", "bfc", "hpcc", "recovery:irn", "homa"])
def test_a_connection_of_one_message_is_a_flow(scheme):
    topo = network("60KB") if scheme == "fifo" else network()
    for sizes in ([1], [1_500], [90_001]):
        same(simulate(topo, messages(sizes), scheme), simulate(topo, messages(sizes, connection=None), scheme), scheme)
    apart = messages([30_500, 2, 999], every=5_000)
    numbered = messages([30_500, 2, 999], every=5_000)
    object.__setattr__(numbered, "connection", np.arange(len(numbered), dtype=np.int32))
    object.__setattr__(apart, "connection", None)
    same(simulate(topo, apart, scheme), simulate(topo, numbered, scheme), scheme)


# -- an independent model: one connection over an idle switch, with a window of bytes --------------------------------------


def model(posts, window, ps_per_byte, delay, straddles=False, waits=False, fresh=False):
    """(finish, acked) of each message in ps. posts: (time, bytes), in the order in which they are posted.

    What may be got wrong: packets of bytes of two messages (`straddles`), a message that waits until the one before is
    acknowledged (`waits`), a window for each message (`fresh`).
    """
    todo = []  # (message, ready, payload) by packet
    for number, (time, size) in enumerate(posts):
        todo += [[number, time, min(MTU, size - at)] for at in range(0, size, MTU)]
    if straddles:
        for one, other in pairwise(todo):
            moved = min(MTU - one[2], other[2]) if one[0] != other[0] and other[1] <= posts[one[0]][0] else 0
            one[2], other[2] = one[2] + moved, other[2] - moved
    lines = dict.fromkeys(("host", "down", "back", "up"), 0)  # when they are free

    def over(line, at, size):
        lines[line] = max(lines[line], at) + size * ps_per_byte
        return lines[line] + delay

    finish, acked = {}, {}
    flying = []  # (message, time of the ACK) by packet sent
    for number, ready, payload in (entry for entry in todo if entry[2]):
        own = [at for message, at in flying if not fresh or message == number]
        at = max(ready, own[-(window // MTU)] if len(own) >= window // MTU else 0)
        if waits and number:
            at = max(at, max([time for message, time in flying if message < number], default=0))
        came = over("down", over("host", at, payload + HEADER), payload + HEADER)
        back = over("up", over("back", came, 60), 60)
        flying.append((number, back))
        finish[number], acked[number] = came, back
    return [(finish[i], acked[i]) for i in range(len(posts))]


def simulated(posts, window):
    topo = star(hosts=2)
    flows = [{"src": 0, "dst": 1, "bytes": size, "start": f"{time}ps", "connection": 0} for time, size in posts]
    run = simulate(topo, flow_list(topo, flows), parse("fifo+window_cap", {"cap": window}), measure=Measure(sample="0s"))
    return [tuple(round(1000 * t) for t in row) for row in run.flows.select("finish_ns", "acked_ns").rows()]


@examples(30)
@given(
    st.lists(st.tuples(st.integers(0, 3_000_000), st.integers(1, 6_000)), min_size=1, max_size=6),
    st.integers(1, 40),
)
def test_an_independent_model(gaps, packets):
    times = np.cumsum([time for time, _ in gaps]).tolist()
    posts = [(time + i, size) for i, (time, (_, size)) in enumerate(zip(times, gaps))]
    assert simulated(posts, packets * MTU) == model(posts, packets * MTU, 80, 1_000_000)


@pytest.mark.parametrize("mistake", ["straddles", "waits", "fresh"])
def test_mistakes_are_seen(mistake):
    posts = [(0, 5_300), (0, 7_000), (0, 400)]
    found = simulated(posts, 6 * MTU)
    assert found == model(posts, 6 * MTU, 80, 1_000_000) != model(posts, 6 * MTU, 80, 1_000_000, **{mistake: True})
    if mistake != "straddles":
        assert model(posts, 6 * MTU, 80, 1_000_000)[-1] != model(posts, 6 * MTU, 80, 1_000_000, **{mistake: True})[-1]


# -- whatever the sizes and times -----------------------------------------------------------------------------------------


def job(seed=1, count=60, hosts=8):
    """Messages of any size between few pairs, of which some wait for others and rest in between."""
    rng = np.random.default_rng(seed)
    src = rng.integers(0, 3, count)
    dst = (src + rng.integers(1, 3, count)) % hosts
    start = np.sort(rng.integers(0, 60_000_000, count))
    child = np.flatnonzero((np.arange(count) > 10) & (rng.random(count) < 0.6))
    parent = np.array([rng.choice(np.flatnonzero((src[:i] == src[i]) | (dst[:i] == src[i]))) for i in child])
    size = rng.choice([1, 700, 1_000, 4_321, 60_000], count)
    gap = np.where(np.isin(np.arange(count), child), 3_000_000, 0)
    zeros, number = np.zeros(count), rng.integers(-1, 2, count)
    return Flows(start, src, dst, size, zeros, zeros, ("a",), csr(child, parent, count), [], gap, connection=number)


SCHEMES = ["fifo", "bfc", "hpcc", "recovery:irn", "swift", "homa", "dcqcn"]


def of(scheme):
    measure = Measure(sample="2us", flow_series=True, packets=True)
    return {"host": hosts_under(scheme, rto="100us"), "seed": 5, "measure": measure}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_all_arrive_in_order_and_once(scheme):
    """Every message ends, those of a connection in the order in which they were posted, and hosts get each byte once."""
    topo, flows = network(loss=0.02), job()
    run = simulate(topo, flows, scheme, **of(scheme))
    rows = run.flows
    assert rows["finish_ns"].null_count() == rows["acked_ns"].null_count() == 0
    assert (rows["acked_ns"] >= rows["finish_ns"]).all() and (rows["slowdown"] >= 1).all()
    if scheme != "homa":
        for _, part in rows.with_columns(connection=flows.connection).group_by("src", "dst", "connection"):
            if part["connection"][0] >= 0:
                assert part.sort("start_ns", "finish_ns")["finish_ns"].is_sorted()
    assert run.frame("flow_series")["flow_id"].is_in(rows["flow_id"].to_list()).all()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_same_bits(scheme, monkeypatch, tmp_path):
    """On any number of threads, in chunks, and from a checkpoint on."""
    topo, flows = network(loss=0.01), job(2)
    whole = simulate(topo, flows, scheme, **of(scheme))
    for threads in (2, 3):
        same(whole, simulate(topo, flows, scheme, threads=threads, **of(scheme)), f"{scheme}, {threads} threads")
    with monkeypatch.context() as patch:
        patch.setattr(starts, "FLOWS_AT_ONCE", 7)
        patch.setattr(core, "CHUNK_S", 1e-9)
        same(whole, simulate(topo, flows, scheme, **of(scheme)), f"{scheme}, in chunks")

    class Interrupted(core.Runner):
        def due(self):
            self.left = getattr(self, "left", 60) - 1
            self.stop = self.left == 0
            return False

        def __init__(self, *given):
            super().__init__(*given)
            self.keeper.due = self.due

    with monkeypatch.context() as patch:
        patch.setattr(core, "Runner", Interrupted)
        patch.setattr(core, "CHUNK_S", 1e-9)
        part = simulate(topo, flows, scheme, checkpoint=tmp_path / "state", on_interrupt="return", **of(scheme))
    assert part.summary["interrupted"]
    same(whole, simulate(topo, flows, scheme, threads=2, checkpoint=tmp_path / "state", **of(scheme)), f"{scheme}, resumed")


INTERPRETED = """
import json, sys
from penstock_net.sim.interpreted import install
install()
from penstock_net.testing.cases import digest, run_case
print(json.dumps([digest(run_case(case)) for case in json.load(sys.stdin)]))
"""


def test_the_interpreted_core_agrees():
    flows = [{"src": 0, "dst": 1 + i % 2, "bytes": 2_500 + 777 * i, "start": f"{i // 3}us", "connection": 0} for i in range(8)]
    flows += [{"src": 0, "dst": 1, "bytes": 10_500, "after": [7], "gap": "9us", "connection": 0}]
    case = {"topology": {"kind": "star", "hosts": 4, "loss": 0.02}, "flows": flows, "host": {"rto": "200us"}}
    cases = [{**case, "scheme": scheme} for scheme in ("bfc", "recovery:irn", "homa")]
    compiled = [digest(run_case(case)) for case in cases]
    done = subprocess.run([sys.executable, "-B", "-c", INTERPRETED], input=json.dumps(cases), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == json.loads(json.dumps(compiled))


# -- what lasts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["bfc", "dcqcn", "homa"])
def test_messages_take_one_path(scheme):
    """Those of a connection cross one spine, and as many flows by themselves several."""

    def spines(connection):
        run = simulate(network(), messages([5_000] * 12, pairs=[(0, 4)], every=30_000_000, connection=connection), scheme)
        return int((run.ports.filter((run.ports["node"] == 8) & (run.ports["peer"] >= 10))["tx_packets"] > 4).sum())

    assert spines(0) == 1 < spines(None)


@pytest.mark.parametrize("scheme", ["dcqcn", "dctcp", "hpcc", "swift"])
def test_the_rate_lasts(scheme):
    """After an incast has ended, a second message begins with what the first one has come to, not with a full window."""
    topo = star(hosts=8)
    crowd = [(i, 7, 400_000, "0s") for i in range(1, 6)]

    def second(**connection):
        mine = [{"src": 0, "dst": 7, "bytes": 400_000, **connection}]
        mine += [{"src": 0, "dst": 7, "bytes": 200_000, "start": "230us", **connection}]
        run = simulate(topo, flow_list(topo, [*crowd, *mine]), scheme)
        return run.flows.filter(run.flows["bytes"] == 200_000)["fct_ns"][0]

    assert second(connection=0) > second()


@pytest.mark.parametrize("scheme", BY_MESSAGE)
def test_schemes_of_messages_say_so(scheme):
    run = simulate(network(), messages([3_000, 2_000]), scheme)
    assert any("sends each message of a connection as a flow by itself" in text for text in run.summary["warnings"])
    assert run.flows["finish_ns"].null_count() == 0


def test_a_slow_link_is_met_by_all_messages_of_a_pair_or_by_none():
    """One uplink at a quarter of its rate: messages apart all suffer a little, those of connections fully or not at all."""
    slow = [{"time": "0s", "a": "tor0", "b": "spine0", "rate": "25Gbps"}]
    topo = leaf_spine(hosts=16, tors=2, spines=8, uplink_rate="800Gbps").with_changes(slow)
    pairs, count = 8, 10
    numbers, zeros = np.arange(pairs * count), np.zeros(pairs * count)
    after = csr(numbers[pairs:], numbers[:-pairs], pairs * count)

    def slowest(connection, seed):
        """How many messages of each pair needed twice the time that most did."""
        src, dst, size = numbers % pairs, pairs + numbers % pairs, np.full(len(numbers), 250_000)
        flows = Flows(zeros, src, dst, size, zeros, zeros, ("a",), after, connection=connection)
        run = simulate(topo, flows, "pfc", seed=seed, measure=Measure(sample="0s"))
        slow = run.flows["fct_ns"].to_numpy() > 2 * run.flows["ideal_fct_ns"].min()
        return slow.reshape(count, pairs).sum(axis=0).tolist()

    kept = [slowest(zeros, seed) for seed in (1, 2, 3)]
    apart = [slowest(None, seed) for seed in (1, 2, 3)]
    assert {0, count} >= {found for run in kept for found in run} and any(count in run for run in kept)
    assert any(0 < found < count for run in apart for found in run)


def test_traces(tmp_path):
    """Messages of a trace share the connection of their ranks; by their tags, or not at all, if asked."""
    trace = tmp_path / "two.goal"
    sends = "\n".join(f"l{i}: send 3000b to 1 tag {i % 2}" for i in range(6))
    receipts = "\n".join(f"l{i}: recv 3000b from 0 tag {i % 2}" for i in range(6))
    trace.write_text(f"num_ranks 2\nrank 0 {{\n{sends}\n}}\nrank 1 {{\n{receipts}\n}}\n")
    found = {kind: convert(trace, connections=kind).flows.connection for kind in (None, "pair", "channel", "message")}
    assert found["message"] is None and found[None].tolist() == found["pair"].tolist() == [0] * 6
    assert sorted(found["channel"].tolist()) == [0] * 3 + [1] * 3
    with pytest.raises(SpecError, match="connections"):
        convert(trace, connections="pairs")


def test_jobs():
    """Collectives and training: by piece, by pair of ranks, or each message by itself; groups of several jobs stay apart."""
    topo = star(hosts=4)
    made = {kind: collective(topo, bytes="1MB", chunks=3, connections=kind) for kind in ("channel", "pair", "message")}
    sends = ~made["pair"].computes
    assert set(made["channel"].connection[sends]) == {0, 1, 2} and set(made["pair"].connection[sends]) == {0}
    assert (made["pair"].connection[~sends] == -1).all() and made["message"].connection is None
    both = made["pair"] + made["channel"]
    assert len(set(zip(both.src[both.connection >= 0], both.connection[both.connection >= 0]))) == 4 * (1 + 3)
    assert made["pair"].key() != made["channel"].key() != made["message"].key()


@examples(40)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(-1, 2)), max_size=30))
def test_grouping(rows):
    """Against dictionaries: the flows of each connection, its first one, and how many they are."""
    rows = [row for row in rows if row[0] != row[1]]
    src, dst, number = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    members = {}
    for i, row in enumerate(rows):
        if row[2] >= 0:
            members.setdefault(row, []).append(i)
    several = sorted((found for found in members.values() if len(found) > 1), key=lambda found: found[0])
    found = grouped(number, src, dst)
    assert found.first.tolist() == [flows[0] for flows in several] and found.size.tolist() == [len(flows) for flows in several]
    place = {i: k + 1 for k, flows in enumerate(several) for i in flows}
    assert found.of.tolist() == [place.get(i, 0) for i in range(len(rows))]
    assert found.leaders().tolist() == [several[place[i] - 1][0] if i in place else i for i in range(len(rows))]


def test_refusals(tmp_path):
    topo = star(hosts=4)
    mixed = [{"src": 0, "dst": 1, "bytes": 9, "priority": i, "connection": 4} for i in range(2)]
    with pytest.raises(SpecError, match=r"flows.1.priority = 1: flow 0, of the same connection from host 0 to host 1"):
        flow_list(topo, mixed)
    with pytest.raises(SpecError, match=r"flows.0.connection = 1: is a computation"):
        flow_list(topo, [{"src": 0, "dst": 0, "bytes": 0, "connection": 1}])
    for wrong in (-1, 2**31, "a"):
        with pytest.raises(SpecError, match="connection"):
            flow_list(topo, [{"src": 0, "dst": 1, "bytes": 9, "connection": wrong}])
    with pytest.raises(SpecError, match="connections"):
        collective(topo, connections="both")


def test_files(tmp_path):
    """CSV and Parquet keep the column, with nothing where a flow is by itself."""
    topo, flows = network(), job()
    for path, write, read in (
        (tmp_path / "flows.csv", flows_to_csv, flows_from_csv),
        (tmp_path / "flows.parquet", flows_to_parquet, flows_from_parquet),
    ):
        write(flows, path)
        assert read(path, topo).connection.tolist() == flows.connection.tolist()
    text = "src,dst,bytes,start_ns,connection\n0,1,10,0,2\n0,1,10,0,\n"
    (tmp_path / "own.csv").write_text(text)
    assert flows_from_csv(tmp_path / "own.csv", topo).connection.tolist() == [2, -1]
