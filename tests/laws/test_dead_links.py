"""Links that die and lose what is sent over them: nobody stays paused, who has another path ends, and all bytes are counted."""

import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st
from networks import Measure, available, flow_list, hosts_under, same, simulate

from penstock_net.cli import main
from penstock_net.composition import parse
from penstock_net.sim import results
from penstock_net.sim.layouts import DROPS
from penstock_net.sim.settings import Settings
from penstock_net.sim.simulate import Runner
from penstock_net.topology import SwitchChange, build, changes, leaf_spine, planes, star

QUIET = Measure(sample="0s", flows=False)
LINK_DOWN = DROPS.index("link down")
BACKPRESSURE = ["bfc", "bfc+spray", "bfc+reps", "pfc", "dcqcn:bfc", "cbfc", "cbfc+spray", "pyrrha", "floodgate", "backdraft"]
BACKPRESSURE += ["dcqcn:bfc+floodgate", "floodgate:ideal", "bfc_tofino2", "pfc_tagged", "hpcc", "pyrrha:ns3"]
SCHEMES = sorted({*BACKPRESSURE, *available(), "uec+mixed"} - {"valiant"})
DIES = {"time": "15us", "a": "tor0", "b": "spine0", "up": False}
WITHIN = [(0, 1), (4, 5)]  # without the core
RTO = "100us"


def network(*tables, **more):
    return leaf_spine(hosts=8, tors=2, spines=2, buffer="1MB", **more).with_changes(tables)


def crowd(topo, size=60_000):
    """Incasts over the core both ways, so that pauses stand when a link dies; long after it two flows within racks, and a flow of
    each host over the core."""
    pairs = [(src, 4) for src in range(4)] + [(src, 0) for src in range(4, 8)] + [(i, (i + 4) % 8) for i in range(8)]
    flows = [(src, dst, size, f"{i}us") for i, (src, dst) in enumerate(pairs)]
    return flow_list(topo, flows + [(*pair, size, "5ms") for pair in WITHIN] + [(i, (i + 4) % 8, 3_000, "7ms") for i in range(8)])


def in_the_end(topo, flows, scheme, end_ps=9 * 10**9, **settings):
    """The state of the core, in which bytes are conserved; and the src, dst of flows that have not ended."""
    runner = at_the_end(topo, flows, scheme, end_ps, **settings)
    outcome = runner.outcome()
    results.check_invariants(outcome)
    hang = runner.per_flow["finish"] < 0
    return outcome, list(zip(flows.src[hang].tolist(), flows.dst[hang].tolist()))


def at_the_end(topo, flows, scheme, end_ps=9 * 10**9, **settings):
    host = hosts_under(scheme, rto=RTO)
    made = Settings(topo, flows, parse(scheme), duration_ps=end_ps, drain=False, measure=QUIET, host=host, **settings)
    runner = Runner(made)
    runner.loop()
    return runner


def is_paused(outcome):
    return bool((outcome.ports["paused"].astype(bool) | (outcome.ports["paused_queues"] > 0)).any())


def stored(outcome):
    return sum(int(outcome.ports[name].sum()) for name in ("queued_bytes", "held_bytes"))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_nobody_waits_for_a_link_that_is_dead(scheme):
    """It dies for good in the middle of incasts."""
    topo = network({**DIES, "on_down": "lose"})
    outcome, unfinished = in_the_end(topo, crowd(topo), scheme)
    assert not unfinished and not is_paused(outcome) and stored(outcome) == 0
    assert outcome.ports["drops"][:, LINK_DOWN].sum() > 0


@pytest.mark.parametrize("scheme", SCHEMES)
def test_nobody_is_paused_for_a_link_that_is_silent(scheme):
    """What hashes to it never ends, and is sent again and again; it stops no other one."""
    topo = network({**DIES, "on_down": "silent"})
    outcome, unfinished = in_the_end(topo, crowd(topo), scheme)
    assert not is_paused(outcome) and not set(unfinished) & set(WITHIN)
    assert outcome.ports["drops"][:, LINK_DOWN].sum() > 0


@pytest.mark.parametrize("on_down", ["lose", "silent"])
def test_no_root_is_kept_over_a_link_that_is_dead(on_down):
    """Nothing is told again without a refresh; what was told over the link ends with it, whoever had told it."""
    topo = network({**DIES, "on_down": on_down})
    sim = at_the_end(topo, crowd(topo), "pyrrha:ns3").sim
    states = [sim.scheme_state("pyrrha", switch, -1) for switch in range(topo.hosts, topo.hosts + topo.switches)]
    assert sum(state["most_ciqs"] for state in states) > 0
    assert not any(state["ciqs_used"] or any(state["upstream"]) for state in states)


def paused_by_root(changes):
    """Five flows to host 5, each on one of two planes, under `pyrrha:ns3`: those that have not ended."""
    topo = planes(hosts=8, planes=2, tors=1, spines=1, rate="100Gbps", delay="1us", buffer="4MB").with_changes(changes)
    return in_the_end(topo, flow_list(topo, [(src, 5, 300_000) for src in range(5)]), "pyrrha:ns3", 3 * 10**9, seed=3)[1]


GONE = [("host0", {}), ("host0", {"on_down": "lose"}), ("host0", {"on_down": "silent"}), ("host5", {})]


@pytest.mark.parametrize("host, way", GONE, ids=str)
def test_no_host_keeps_a_root_over_a_link_that_is_gone(host, way):
    """Of a sender, so that no end of the pause comes; or of the receiver, so that there is none.  A silent link comes back."""
    link = {"a": host, "b": "tor0"}
    back = [{"time": "400us", **link, "up": True}] if way == {"on_down": "silent"} else []
    assert not paused_by_root([{"time": "12us", **link, "up": False, **way}, *back])


def test_a_host_forgets_roots_over_a_link_that_is_down():
    """What ends the pause is on the wire when the link goes down, and nothing is told again."""
    link = {"a": "host1", "b": "switch0"}
    topo = star(hosts=6, rate="100Gbps", delay="1us", buffer="4MB")
    topo = topo.with_changes([{"time": "14500ns", **link, "up": False}, {"time": "30us", **link, "up": True}])
    flows = flow_list(topo, [(src, 0, 300_000) for src in range(1, 6)])
    assert not in_the_end(topo, flows, "pyrrha:ns3", 3 * 10**9, seed=3)[1]


def test_without_it_they_hang():
    """What is queued for a link that is gone keeps whom it has paused, which was all that there was."""
    topo = network(DIES)
    outcome, unfinished = in_the_end(topo, crowd(topo, 300_000), "bfc+spray")
    assert unfinished and is_paused(outcome) and stored(outcome) > 0


@pytest.mark.parametrize("scheme", ["bfc", "pfc", "cbfc", "floodgate", "pyrrha", "pyrrha:ns3"])
def test_a_switch_that_stays_away_leaves_nothing_waiting(scheme):
    """With `lose` its neighbours discard what they have for it."""
    topo = network({"time": "30us", "switch": "spine0", "up": False, "on_down": "lose"})
    assert topo.changes == (SwitchChange(30_000_000, topo.node("spine0"), False, "lose"),) and build(topo.spec) == topo
    outcome, unfinished = in_the_end(topo, crowd(topo), scheme)
    assert not unfinished and not is_paused(outcome) and stored(outcome) == 0


@pytest.mark.parametrize("scheme", ["fifo", "bfc+spray", "cbfc"])
@pytest.mark.parametrize("on_down", ["lose", "silent"])
def test_what_is_sent_arrives_or_is_lost(scheme, on_down):
    """To the byte, of data, ACKs and frames together; each packet that is lost has its reason."""
    topo = network({**DIES, "on_down": on_down})
    outcome, _ = in_the_end(topo, crowd(topo), scheme)
    ports, switches = outcome.ports, outcome.nodes[topo.hosts :]
    at_hosts = ports["node"] < topo.hosts
    sent = ports["tx_bytes"][at_hosts].sum() + switches["frame_bytes"].sum()
    came = ports["rx_bytes"][at_hosts].sum() + switches["frame_bytes_received"].sum()
    under_way = sum(int(ports[name].sum()) for name in ("queued_bytes", "control_bytes", "wire_bytes"))
    lost = ports["dropped_bytes"].sum()
    assert sent == came + lost + under_way and lost > 500
    assert ports["drops"].sum() == ports["drops"][:, LINK_DOWN].sum() > 5


@examples(12)
@given(st.data())
def test_links_that_die_and_come_back(data):
    """Any way of going down, in any order: if all is up in the end, every flow ends and nobody is paused."""
    tables = []
    for spine in ("spine0", "spine1"):
        times = sorted(data.draw(st.lists(st.integers(0, 200_000), min_size=2, max_size=6, unique=True)))
        ways = [data.draw(st.sampled_from(changes.ON_DOWN)) for _ in times]
        tables += [{"time": f"{t}ns", "a": "tor0", "b": spine, "up": False, "on_down": way} for t, way in zip(times, ways)]
        tables.append({"time": f"{times[-1] + data.draw(st.integers(1, 100_000))}ns", "a": "tor0", "b": spine, "up": True})
    scheme = data.draw(st.sampled_from(["bfc", "bfc+spray", "pfc", "cbfc", "floodgate", "pyrrha", "pfc_tagged", "uec+mixed"]))
    plain = network(*tables)
    cuts = scheme != "cbfc" and data.draw(st.booleans())
    topo = plain.with_cut_through(list(plain.names[plain.hosts :]), 64) if cuts else plain.with_llr()
    outcome, unfinished = in_the_end(topo, crowd(topo, 20_000), scheme)
    assert not unfinished and not is_paused(outcome) and stored(outcome) == 0


@pytest.mark.parametrize("scheme", ["bfc", "cbfc", "floodgate"])
def test_same_bits(scheme, monkeypatch, tmp_path):
    """On two threads, and from a checkpoint while the link is dead on."""
    from penstock_net.sim import simulate as core

    topo = network({**DIES, "on_down": "silent"}, {"time": "90us", "a": "tor0", "b": "spine0", "up": False, "on_down": "lose"})
    settings = {"measure": Measure(sample="2us"), "seed": 3, "host": hosts_under(scheme, rto=RTO)}
    whole = simulate(topo, crowd(topo), scheme, **settings)
    same(whole, simulate(topo, crowd(topo), scheme, threads=2, **settings), "threads")

    class Interrupted(core.Runner):
        left = 3  # chunks: the link is dead then

        def __init__(self, *given):
            super().__init__(*given)
            self.keeper.due = self.due

        def due(self):
            self.left -= 1
            self.stop = self.left == 0
            return False

    path = tmp_path / "state"
    with monkeypatch.context() as patched:
        patched.setattr(core, "Runner", Interrupted)
        patched.setattr(core, "CHUNK_S", 0.0)
        assert simulate(topo, crowd(topo), scheme, checkpoint=path, on_interrupt="return", **settings).summary["interrupted"]
    same(whole, simulate(topo, crowd(topo), scheme, checkpoint=path, **settings), "checkpoint")


def test_what_is_said():
    topo = network({**DIES, "on_down": "silent"}, {"time": "1us", "switch": "spine1", "night": "3us", "on_down": "silent"})
    assert topo.describe().splitlines()[-1] == (
        "silent        tor0 - spine1, tor1 - spine1, tor0 - spine0: 3 failures, the first at 1us; "
        "routes stay, and packets are lost"
    )
    assert build(topo.spec) == topo
    states = changes.LinkStates(topo.links)
    seen = []
    for change in topo.changes:
        states.apply(change)
        seen.append((states.state(topo.link("tor0", "spine0")), states.down))
    assert [state for state, _ in seen] == [0, 0, 0, 0, 3] and not any(down for _, down in seen)


def test_a_dry_run_says_it(tmp_path, capsys, monkeypatch):
    text = (
        '[run]\nduration = "9us"\n[topology]\nkind = "dumbbell"\nleft = 1\nright = 1\nchanges = [{ time = "2us", a = "switch0", '
    )
    text += 'b = "switch1", up = false, on_down = "silent" }]\n[scheme]\nname = "fifo"\n'
    text += '[[workload]]\nkind = "list"\nflows = [[0, 1, 1000]]\n'
    monkeypatch.chdir(tmp_path)
    for on_down in ("silent", "lose"):
        (tmp_path / "my.toml").write_text(text.replace("silent", on_down))
        main(["run", "my.toml", "--dry-run"])
        out, err = capsys.readouterr()
        assert f'on_down = "{on_down}"' in out and ("without a route" in err) == (on_down == "lose")
