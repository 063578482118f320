"""Who paused whom: intervals and causes by hand and by brute force, the tree of pauses, and the network's picture."""

import json

import networkx
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock_net as ps
from penstock_net.errors import SpecError
from penstock_net.report.network import network
from penstock_net.report.pause_data import PauseView, table, views
from penstock_net.report.plots.pauses import chosen
from penstock_net.results.columns import COLUMNS
from penstock_net.results.links import Links
from penstock_net.results.pause_times import pause_times
from penstock_net.results.pause_tree import Pauses, Tree
from penstock_net.results.pauses import by_port, by_queue, causes, common, intervals, length, union, within
from penstock_net.results.run import Run

SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=8)


def grid(spans) -> np.ndarray:
    """Which of 40 units of time are in a span."""
    inside = np.zeros(40, dtype=bool)
    for start, end in spans:
        inside[int(start) : int(end)] = True
    return inside


def rows(spans) -> np.ndarray:
    return np.array(spans, dtype=float).reshape(-1, 2)


@given(SPANS, SPANS)
def test_union_and_common_time(a, b):
    left, right = union([rows(a)]), union([rows(b)])
    for spans in (left, right):
        assert (spans[1:, 0] > spans[:-1, 1]).all() and (spans[:, 1] > spans[:, 0]).all()
    assert (grid(left) == grid(a)).all()
    assert (grid(union([rows(a), rows(b)])) == grid(a) | grid(b)).all()
    assert (grid(common(left, right)) == grid(a) & grid(b)).all()
    assert within(left, 10, 30) == grid(a)[10:30].sum()
    assert length(common(left, right)) == (grid(a) & grid(b)).sum()


def run_of(links, pauses, names=None, tiers=None, end_ns=1000.0, delay_ns=0.0) -> Run:
    """A run with these links (node, node) and these rows (time_ns, node, port, queue, paused) of its log of pauses."""
    count = max(map(max, links)) + 1
    ports: list[tuple[int, int, int]] = []
    numbers = [0] * count
    for a, b in links:
        for node, peer in ((a, b), (b, a)):
            ports.append((node, numbers[node], peer))
            numbers[node] += 1
    frame = {"node": [p[0] for p in ports], "port": [p[1] for p in ports], "peer": [p[2] for p in ports]}
    zero = {c.name: [0] * len(ports) for c in COLUMNS["ports"].values() if c.name not in frame and c.dtype != "String"}
    zero["delay_ns"] = [delay_ns] * len(ports)
    host = [numbers[node] == 1 for node in range(count)]
    tiers = tiers or [0 if host[node] else 1 for node in range(count)]
    run = Run.from_arrays(
        {
            "start_ps": [0],
            "finish_ps": [1],
            "ideal_ps": [1],
            "src": [0],
            "dst": [1],
            "bytes": [1],
            "class_id": [0],
            "priority": [0],
        }
        | {"classes": ("list",)},
        summary={"scheme": "pfc", "end_ns": end_ns},
    )
    run.ports = pl.DataFrame(frame | zero)
    run.extra["nodes"] = pl.DataFrame(
        {"node": range(count), "name": names or [f"n{node}" for node in range(count)], "tier": tiers}
    )
    if pauses is not None:
        run.pauses = log_of(pauses)
    return run


def log_of(rows) -> pl.DataFrame:
    """A log of pauses of rows (time_ns, node, port, queue, paused)."""
    schema = {"time_ns": pl.Float64, "node": pl.Int32, "port": pl.Int32, "queue": pl.Int32, "paused": pl.Boolean}
    return pl.DataFrame(rows, schema=schema, orient="row")


# -- intervals and causes


def test_intervals_by_hand():
    def paused(*rows: tuple[float, int, bool]) -> list:
        log = log_of([(time, 3, 0, queue, on) for time, queue, on in rows])
        return by_port(by_queue(intervals(log), 100)).get((3, 0), np.empty((0, 2))).tolist()

    assert paused((1, -1, True), (3, -1, False), (5, -1, True), (6, -1, False)) == [[1, 3], [5, 6]]
    assert paused((1, 0, True), (2, 1, True), (3, 0, False), (7, 1, False)) == [[1, 7]]
    assert paused((1, 0, True), (4, 0, False), (4, 1, True), (9, 1, False)) == [[1, 9]]
    assert paused((2, -1, True)) == [[2, 100]]
    assert paused((1, -1, True), (3, -1, False), (8, 2, True)) == [[1, 3], [8, 100]]
    assert paused((1, -1, False), (2, -1, True), (3, -1, True), (4, -1, False)) == [[2, 4]]  # what changes nothing
    assert paused((5, -1, True), (5, -1, False)) == paused() == []


def test_a_pause_that_does_not_end_lasts_until_the_run_does():
    """Not until the arrivals do: the run goes on for 300 ns."""
    run = run_of([(0, 1), (1, 2)], [(100, 1, 0, -1, True), (150, 1, 0, -1, False), (900, 1, 0, -1, True), (650, 0, 0, 2, True)])
    run.summary |= {"duration_ns": 700.0, "end_ns": 1000.0}
    found = pause_times(run).select("node", "port", "queue", "pauses", "paused_ns").rows()
    assert found == [(0, 0, 2, 1, 350.0), (1, 0, -1, 2, 150.0)]


def test_causes_by_hand():
    """host0 - tor2 - spine3 - tor4 - host1; spine3's port to tor4 is paused, then tor2's to spine3, then host0's to tor2."""
    run = run_of([(0, 2), (2, 3), (3, 4), (4, 1)], None, delay_ns=10.0)
    log = log_of(
        [
            (0, 4, 0, -1, True),  # 0: the port back from tor4 causes nothing at spine3
            (100, 3, 1, 5, True),  # 1: a queue of spine3 towards tor4
            (110, 3, 1, 6, True),  # 2: another
            (112, 2, 1, -1, True),  # 3: was sent at 102, when only the first was paused
            (130, 0, 0, -1, True),  # 4: caused by 3
            (140, 2, 1, -1, False),
            (145, 0, 0, -1, False),
            (150, 2, 1, -1, True),  # 5: caused by 2, the latest of two queues
            (155, 0, 0, -1, True),  # 6: was sent at 145, when tor2 was not paused
            (160, 3, 1, 6, False),
            (160, 3, 1, 5, False),
            (165, 2, 1, -1, False),
            (175, 2, 1, -1, True),  # 7: was sent at 165, after spine3 was resumed
        ]
    )
    pauses = intervals(log)
    assert pauses["end_ns"].to_list() == [None, 160, 160, 140, 145, 165, None, None]
    assert sorted(causes(pauses, Links.of(run.ports))) == [(1, 3), (2, 5), (3, 4)]


def test_a_queue_that_is_paused_again_at_once_is_paused():
    """As under a scheme that resumes and pauses in one instant: what is caused afterwards has the second pause as its cause."""
    run = run_of([(0, 2), (2, 3), (3, 1)], None, delay_ns=10.0)
    pauses = intervals(log_of([(100, 2, 1, 0, True), (160, 2, 1, 0, False), (160, 2, 1, 0, True), (175, 0, 0, -1, True)]))
    assert pauses["end_ns"].to_list() == [160, None, None]
    assert list(causes(pauses, Links.of(run.ports))) == [(1, 2)]


# Two hosts at each of the switches 4, 5 and 6, of which 4 and 5 are joined twice; 7 joins all three, and 6 leads to 8 alone.
WEB = [(0, 4), (1, 4), (2, 5), (3, 6), (9, 6), (4, 5), (4, 5), (4, 7), (5, 7), (6, 7), (6, 8), (8, 10), (8, 11)]
WEB_PORTS = run_of(WEB, None, delay_ns=3.0).ports
TOGGLES = st.tuples(st.integers(0, 3), st.sampled_from(WEB_PORTS.select("node", "port").rows()), st.integers(-1, 1))


def follows(ends: dict) -> set:
    """The pairs (egress, next egress) on a shortest path from a switch, or a host, to a host."""
    graph = networkx.Graph(WEB)
    hosts = [node for node in graph if graph.degree(node) == 1]
    hops = dict(networkx.all_pairs_shortest_path_length(graph))
    return {
        (a, b)
        for a in ends
        for b in ends
        if b[0] == ends[a][0] and b != ends[a]
        if any(hops[a[0]][host] == 2 + hops[ends[b][0]][host] for host in hosts)
    }


def test_the_links_that_follow_each_other_are_those_of_the_shortest_paths():
    links = Links.of(WEB_PORTS)
    assert {(a, b) for a in links.far_end for b in links.following(a)} == follows(links.far_end)
    assert {(a, b) for b in links.far_end for a in links.preceding(b)} == follows(links.far_end)


@given(st.lists(TOGGLES, max_size=80))
def test_causes_of_any_log(toggles):
    """As found by looking at all pairs of pauses."""
    links, paused, time, rows = Links.of(WEB_PORTS), set(), 0.0, []
    for wait, port, queue in toggles:
        time += wait
        paused ^= {(*port, queue)}
        rows.append((time, *port, queue, (*port, queue) in paused))
    pauses = intervals(log_of(rows))
    table = pauses.select("node", "port", "start_ns", "end_ns").rows()
    expected, next_to = [], follows(links.far_end)
    for effect, (*port, start, end) in enumerate(table):
        latest = {}
        for cause, (node, number, begin, until) in enumerate(table):
            if (tuple(port), (node, number)) in next_to and begin <= start - 3 and (until is None or start - 3 < until):
                latest[node, number] = cause
        if start != end:
            expected += [(cause, effect) for cause in latest.values()]
    assert sorted(causes(pauses, links)) == sorted(expected)


# -- the tree


# Hosts 0 and 1 at switch a, 2 and 3 at b, under the spine s.  An incast fills b, which pauses s; s pauses a, and a the host 0.
# The spine also pauses b, but nothing goes from s through b to s.
NAMES = ["h0", "h1", "h2", "h3", "a", "b", "s"]
LINKS = [(0, 4), (1, 4), (2, 5), (3, 5), (4, 6), (5, 6)]
A_S, B_S, S_A, S_B, H0 = (4, 2), (5, 2), (6, 0), (6, 1), (0, 0)
LOG = [
    (0, *B_S, -1, True),
    (100, *S_B, -1, True),
    (200, *A_S, -1, True),
    (300, *H0, -1, True),
    (500, *S_B, -1, False),
    (600, *A_S, -1, False),
    (700, *H0, -1, False),
]
TIERS = [0, 0, 0, 0, 1, 1, 2]


def plain(tree: Tree) -> tuple:
    return tree.port, tree.paused_ns, tree.rest_ns, [plain(branch) for branch in tree.branches]


def test_the_tree_of_an_incast():
    pauses = Pauses.of(run_of(LINKS, LOG, NAMES, TIERS))
    assert pauses.ports[B_S].tolist() == [[0, 1000]]  # in force at the end
    assert plain(pauses.causes(H0, 0, 1000)) == (H0, 400, 100, [(A_S, 300, 100, [(S_B, 200, 200, [])])])
    assert plain(pauses.causes(H0, 0, 350)) == (H0, 50, 0, [(A_S, 50, 0, [(S_B, 50, 50, [])])])
    assert plain(pauses.victims(S_B, 0, 1000)) == (S_B, 400, 100, [(A_S, 300, 100, [(H0, 200, 200, [])])])
    assert plain(pauses.causes((1, 0), 0, 1000)) == ((1, 0), 0, 0, [])
    assert pauses.causes(H0, 0, 1000).text(pauses).splitlines()[2] == "    s -> b: 200 ns, alone 200 ns"


def test_a_cause_is_earlier_by_the_delay_of_the_link():
    """The host was told from 290 to 690, a was paused of it from 290 to 600: told from 280 to 590, s was paused until 500."""
    pauses = Pauses.of(run_of(LINKS, LOG, NAMES, TIERS, delay_ns=10.0))
    assert plain(pauses.causes(H0, 0, 1000)) == (H0, 400, 90, [(A_S, 310, 90, [(S_B, 220, 220, [])])])
    assert plain(pauses.victims(S_B, 0, 1000)) == (S_B, 400, 90, [(A_S, 310, 90, [(H0, 220, 220, [])])])


def test_only_links_that_follow_on_a_path_are_causes():
    pauses = Pauses.of(run_of(LINKS, LOG, NAMES, TIERS))
    assert pauses.links.following(S_B) == [(5, 0), (5, 1)]  # to b's hosts, not back up
    assert pauses.links.following(H0) == [(4, 1), A_S] and pauses.links.following(A_S) == [S_B]
    assert pauses.links.preceding(S_B) == [A_S] and pauses.links.following((4, 0)) == []


def test_pauses_of_queues_count_for_their_port():
    log = [
        (0, *A_S, 3, True),
        (5, *A_S, 4, True),
        (10, *A_S, 3, False),
        (20, *A_S, 4, False),
        (40, *A_S, 3, True),
        (50, *A_S, 3, False),
    ]
    pauses = Pauses.of(run_of(LINKS, log, NAMES, TIERS))
    assert pauses.ports == {A_S: pytest.approx(rows([(0, 20), (40, 50)]))}
    view = PauseView(run_of(LINKS, log, NAMES, TIERS))
    assert view.by_queue and view.queues[4] == 5  # by the highest number, 4
    assert view.paused[A_S] == pytest.approx((20 + 15) / 5)


def test_a_whole_port_that_is_paused_counts_whole():
    """Though another switch pauses single queues, of which four paused ones make a paused port."""
    view = PauseView(run_of(LINKS, [(0, *A_S, 3, True), (40, *A_S, 3, False), (0, *S_B, -1, True), (80, *S_B, -1, False)]))
    assert view.queues[A_S[0]] == view.queues[S_B[0]] == 4
    assert (view.paused[A_S], view.paused[S_B]) == (10, 80)


def test_pauses_that_are_close_are_joined_so_that_few_are_left():
    times = np.cumsum([0, 10, 5, 10, 20, 10, 7, 10, 50, 10])  # gaps of 5, 20, 7 and 50
    log = [(time, *port, -1, i % 2 == 0) for port in (A_S, S_B) for i, time in enumerate(times)]
    pauses = Pauses.of(run_of(LINKS, log, NAMES, TIERS))
    coarse, gap = pauses.coarser(6)
    assert pauses.count == 10 and coarse.count == 6 and gap == 20
    assert coarse.ports[S_B].tolist() == [[0, 25], [45, 72], [122, 132]]
    assert pauses.coarser(10) == (pauses, 0) and pauses.coarser(0)[0].count == 4
    many, few = run_of(LINKS, log, NAMES, TIERS), run_of(LINKS, LOG, NAMES, TIERS)
    drawn = [view.drawn for view in views([many, few, run_of(LINKS, None)])]
    assert drawn[0] is not None and drawn[0].count == 10 and drawn[2] is None


def test_a_loop_of_pauses_ends_the_tree():
    ring = [(node, 5 + node) for node in range(5)] + [(5 + node, 5 + (node + 1) % 5) for node in range(5)]
    run = run_of(ring, None)
    ends = Links.of(run.ports).far_end
    onward = [next(p for p in sorted(ends) if p[0] == 5 + node and ends[p][0] == 5 + (node + 1) % 5) for node in range(5)]
    run = run_of(ring, [(0, *port, -1, True) for port in onward])
    tree, chain = Pauses.of(run).causes(onward[0], 0, 100), []
    while tree.branches:
        chain.append(tree.port)
        assert len(tree.branches) == 1 and tree.rest_ns == 0
        tree = tree.branches[0]
    assert chain == onward and tree.loop and tree.port == onward[0]


def test_a_large_tree_is_cut():
    count = 5
    full = [(node, count + node) for node in range(count)]
    full += [(count + a, 2 * count + b) for a in range(count) for b in range(count)]
    full += [(2 * count + b, 3 * count + c) for b in range(count) for c in range(count)]
    full += [(3 * count + c, 4 * count + c) for c in range(count)]
    run = run_of(full, None)
    everything = Pauses.of(run_of(full, [(0, *port, -1, True) for port in sorted(Links.of(run.ports).far_end)]))
    text = everything.causes((0, 0), 0, 100).text(everything)
    assert len(text.splitlines()) < 3000


def test_parallel_links_are_told_apart():
    ends = Links.of(run_of([(0, 2), (1, 3), (2, 3), (2, 3)], None).ports).far_end
    assert ends[2, 1] == (3, 1) and ends[2, 2] == (3, 2) and ends[3, 2] == (2, 2)


def test_without_a_log_it_says_how_to_record_one():
    assert Pauses.of(run_of(LINKS, [])).ports == {}
    with pytest.raises(SpecError, match="pauses = true"):
        Pauses.of(run_of(LINKS, None))


def test_the_tree_of_a_real_run():
    topo = ps.leaf_spine(hosts=16, tors=4, spines=2, buffer="1MB")
    flows = ps.flow_list(topo, [(src, 15, "300KB") for src in range(12)])
    run = ps.simulate(topo, flows, scheme="pfc", seed=1, measure=ps.Measure(pauses=True))
    pauses = Pauses.of(run)
    for (node, port), spans in pauses.ports.items():  # the log agrees with the counters
        total = run.ports.filter(pl.col("node") == node, pl.col("port") == port)["window_paused_ns"].item()
        assert within(spans, *run.window) == pytest.approx(total)
    assert {port[0] for port in pauses.ports} <= set(range(12)) | set(range(16, 22))
    tree = pauses.causes((0, 0), 0, pauses.end_ns)
    assert tree.paused_ns > 0 and any(pauses.names[b.port[0]] == "tor0" for b in tree.branches)
    shown = table([PauseView(run)])
    assert len(shown.rows) and "congested" in shown.rows[0][-1]
    data = json.loads(json.dumps(PauseView(run).data()))
    assert data["recorded"] and len(data["ports"]) == 2 * (16 + 8) and data["lanes"].keys() == data["causes"].keys()


# -- the picture


def test_tiers_are_rows_and_hosts_are_below_their_switch():
    net = network(run_of(LINKS, None, NAMES, TIERS))
    assert net is not None
    assert len({*net.y[:4]}) == len({*net.y[4:6]}) == 1 and net.y[6] < net.y[4] < net.y[0]
    assert net.x[0] < net.x[1] < net.x[2] < net.x[3]
    assert net.x[4] == pytest.approx(net.x[:2].mean()) and net.host.tolist() == [True] * 4 + [False] * 3
    assert net.text() == "Network of 4 hosts, 3 switches and 6 links"
    assert net.x.min() >= 0 and net.x.max() <= net.size[0] and net.y.max() <= net.size[1]


@pytest.mark.parametrize(
    "graph",
    [
        networkx.cycle_graph(6),
        networkx.path_graph(2),
        networkx.star_graph(5),
        networkx.hypercube_graph(4),
        networkx.random_regular_graph(3, 20, 1),
    ],
)
def test_other_shapes_have_no_two_nodes_at_one_place(graph):
    graph = networkx.convert_node_labels_to_integers(graph)
    count = len(graph)
    links = [(2 * node + i, 2 * count + node) for node in range(count) for i in range(2)] + [
        (2 * count + a, 2 * count + b) for a, b in graph.edges
    ]
    net = network(run_of(links, None))
    assert net is not None
    places = np.column_stack([net.x, net.y])
    apart = np.linalg.norm(places[:, None] - places[None], axis=2) + 1000 * np.eye(len(places))
    assert apart.min() > 5 and np.isfinite(places).all()
    assert (network(run_of(links, None)).x == net.x).all()  # type: ignore[union-attr]


def test_a_run_without_ports_has_no_picture():
    run = run_of(LINKS, None)
    run.ports = run.ports.clear()
    assert network(run) is None and PauseView(run).data() is None


# -- in Python: from a run


def test_which_pause_caused_which_by_hand():
    """b's pauses of s are the cause of s's of a, and those of h0's: a tree below each of the first two."""
    log = [
        (0, *B_S, -1, True),  # 0: causes nothing: nothing goes from s through b to s
        (100, *S_B, -1, True),  # 1: began by itself
        (200, *A_S, -1, True),  # 2: caused by 1
        (300, *H0, -1, True),  # 3: caused by 2, and so are those of
        (310, 1, 0, -1, True),  # 4: the other host
        (400, *S_B, -1, False),
        (500, *A_S, -1, False),
        (600, *H0, -1, False),
        (700, *H0, -1, True),  # 5: began by itself
    ]
    made = run_of(LINKS, log, NAMES, TIERS, delay_ns=10.0).pause_causes()
    assert made.select("pause", "cause", "root", "depth", "causes", "caused").rows() == [
        (0, None, 0, 0, 0, 0),
        (1, None, 1, 0, 0, 3),
        (2, 1, 1, 1, 1, 2),
        (3, 2, 1, 2, 1, 0),
        (4, 2, 1, 2, 1, 0),
        (5, None, 5, 0, 0, 0),
    ]
    assert made["link"].to_list() == ["b to s", "s to b", "a to s", "h0 to a", "h1 to a", "h0 to a"]
    assert made["end_ns"].to_list() == [None, 400, 500, 600, None, None]


def test_of_several_causes_the_one_that_began_first_is_the_parent():
    log = [(0, 4, 1, -1, True), (5, *A_S, -1, True), (50, *H0, -1, True)]
    assert run_of(LINKS, log, NAMES, TIERS).pause_causes().select("cause", "causes").rows() == [(None, 0), (None, 0), (0, 2)]


@given(st.lists(TOGGLES, max_size=80), st.sampled_from([0.0, 3.0]))
def test_pauses_of_any_log_are_trees(toggles, delay_ns):
    """Each has at most one parent, which is one of its causes and began before; roots are those without a paused cause."""
    run, paused, time, rows = run_of(WEB, None, delay_ns=delay_ns), set(), 0.0, []
    for wait, port, queue in toggles:
        time += wait
        paused ^= {(*port, queue)}
        rows.append((time, *port, queue, (*port, queue) in paused))
    run.pauses = log_of(rows)
    made = run.pause_causes().rows(named=True)
    known: dict[int, set[int]] = {row["pause"]: set() for row in made}
    for cause, effect in causes(intervals(run.pauses), Links.of(run.ports)):
        known[effect].add(cause)
    below = dict.fromkeys(known, 0)
    for row in made:
        above, path = row, []
        while above["cause"] is not None:
            assert above["cause"] in known[above["pause"]] and made[above["cause"]]["start_ns"] <= above["start_ns"]
            above = made[above["cause"]]
            path.append(above["pause"])
            below[above["pause"]] += 1
            assert len(path) <= len(made)
        assert (row["root"], row["depth"]) == (above["pause"], len(path)) and row["causes"] == len(known[row["pause"]])
        assert (row["cause"] is None) == (not known[row["pause"]]) or delay_ns == 0
    assert [row["caused"] for row in made] == list(below.values())


def test_the_tree_of_a_run_in_a_notebook():
    run = run_of(LINKS, LOG, NAMES, TIERS)
    tree = run.pause_tree()
    assert tree.table.rows() == [
        (0, *B_S, "b to s", 1000, 1000, ""),
    ], "the port that was paused longest"
    tree = run.pause_tree("h0:0")
    assert tree.table.select("depth", "link", "paused_ns", "alone_ns").rows() == [
        (0, "h0 to a", 400, 100),
        (1, "a to s", 300, 100),
        (2, "s to b", 200, 200),
    ]
    assert str(tree).splitlines()[1] == "  a -> s: 300 ns, alone 100 ns"
    html = tree._repr_html_()
    assert (
        "Why h0 to a was paused" in html
        and "<th>paused</th><th>alone</th>" in html
        and html.count('<th style="text-align: left">') == 4
        and "\u2003a to s</th><td>300ns</td><td>100ns</td>" in html
    )
    assert "was not paused" in run.pause_tree("h1:0")._repr_html_()
    assert run.pause_tree("h0:0", "0ns..350ns").table["paused_ns"].to_list() == [50, 50, 50]
    with pytest.raises(SpecError, match="no such node"):
        run.pause_tree("h9:0")
    with pytest.raises(SpecError, match="pauses = true"):
        run_of(LINKS, None).pause_tree()


def test_the_figure_of_the_tree_has_its_rows_and_times():
    run = run_of(LINKS, LOG, NAMES, TIERS)
    (panel,) = ps.plot.pause_tree(run, port="h0:0", time="0ns..1us").axes
    assert [text.get_text() for text in panel.get_yticklabels()] == ["h0 to a", "   a to s", "      s to b"]
    spans = [[tuple(path.get_extents().intervalx * 1e6) for path in bars.get_paths()] for bars in panel.collections]
    expected = [[(300, 700)], [(600, 700)], [(300, 600)], [(500, 600)], [(300, 500)], [(300, 500)]]
    assert spans == [[pytest.approx(span) for span in bars] for bars in expected]
    calm = run_of(LINKS, [], NAMES, TIERS)
    assert "no pauses: pfc" in ps.plot.pause_tree(run, calm, port="h0:0")._supxlabel.get_text()
    for port in (None, "h0:0"):
        with pytest.raises(SpecError, match="paused"):
            ps.plot.pause_tree(calm, port=port)


def test_a_large_tree_is_drawn_with_the_ports_that_were_paused_longest():
    branches = [Tree((1, n), rows([(0, n + 1)]), [Tree((2, n), rows([(0, n + 1)]), [])]) for n in range(20)]
    shown = chosen(Tree((0, 0), rows([(0, 30)]), branches))
    ports = [branch.port for _, branch in shown]
    assert len(ports) == 14 and ports[:3] == [(0, 0), (1, 13), (1, 14)] and all((1, n) in ports for node, n in ports if node == 2)


def test_a_port_from_sample_to_sample():
    """Two flows at full rate for one host: its port is busy until the last byte, and their hosts are paused."""
    topo = ps.star(hosts=3, rate="100Gbps", delay="1us", buffer="1MB")
    flows = ps.flow_list(topo, [(0, 2, "1MB"), (1, 2, "1MB")])
    measure = ps.Measure(sample="2us", port_series=True, pauses=True)
    run = ps.simulate(topo, flows, scheme="pfc", measure=measure)
    life = run.port_life("switch0:2")
    assert life.equals(run.port_life()), "the port with the longest queue"
    busy = life.filter(pl.col("time_ns").is_between(6000, 160_000))
    assert busy["utilization"].is_between(0.9, 1.01).all()
    assert (life["paused"][1:] == 0).all()
    sent = (life["rate_bps"][1:] * life["time_ns"].diff()[1:]).sum() / 8e9
    assert sent == pytest.approx(run.ports.filter(node=3, port=2)["tx_bytes"].item(), rel=0.01)  # but for the last sample
    curves = [panel.get_lines()[0].get_ydata() for panel in ps.plot.port_life(run, port="switch0:2").axes]
    for curve, values, scale in zip(curves, ("queue_bytes", "utilization", "paused"), (1e-3, 100, 100)):
        assert curve[1:] == pytest.approx(life[values].to_numpy()[1:] * scale)
    host = run.port_life("host0:0")
    paused = (host["paused"] * host["time_ns"].diff()).sum()
    assert 0 < paused == pytest.approx(pause_times(run).filter(node=0)["paused_ns"].sum(), rel=0.05)
    assert run.port_life("host0:0", "10us..20us")["time_ns"].to_list() == [10_000, 12_000, 14_000, 16_000, 18_000, 20_000]
    run.pauses = None
    assert run.port_life()["paused"].null_count() == run.port_life().height
    with pytest.raises(SpecError, match="port_series = true"):
        ps.simulate(topo, flows, scheme="pfc").port_life()
