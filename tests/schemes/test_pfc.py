"""Priority flow control against the transcription of the reference simulator's accounting: every pause and resume."""

from collections import defaultdict
from itertools import pairwise

import pytest
from helpers import (
    EVERYTHING,
    PAUSE,
    QUEUED_ACKS,
    US,
    bouncing,
    check_alone,
    check_bad,
    check_frames,
    check_threads,
    incast,
    network,
    outcome,
    pauses_of,
    peers_of,
    rows_of,
    switch_rows,
    traced,
)
from paper import pfc

from penstock_net.composition import parse
from penstock_net.errors import SpecError
from penstock_net.sim.config import HostConfig, Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import behind_vswitches, leaf_spine, with_receivers
from penstock_net.workload import flow_list


class Switch(pfc.Switch):
    """As the fabric decides: while there is something in its headroom, what comes goes there too."""

    def on_enqueue(self, i, size):
        port = self.ports[i]
        if port.headroom_bytes == 0:
            return super().on_enqueue(i, size)
        assert port.paused
        if port.headroom_bytes + size > port.headroom:
            return None, []
        port.headroom_bytes += size
        return (0, 0, size), []


def model_of(topo, node, values):
    """Alpha as a fraction; headroom of every ingress as the scheme sizes it."""
    alpha = {0.11: (11, 100), 0.125: (1, 8), 0.5: (1, 2)}[values["alpha"]]
    ports = []
    for p in range(int(topo.port_count[node])):
        _, _, delay, ps_per_byte = peers_of(topo)[node, p]
        bdp = delay // ps_per_byte + 1
        ports.append(pfc.Port(max(int(values["headroom"] * bdp), 2 * bdp + 3 * (1048 + 64)), alpha))
    return Switch(
        int(topo.buffer_bytes[node - topo.hosts]), ports, values["reserve"], pause_at_threshold=True, resume_offset=values["xon"]
    )


def replay(topo, rows, scheme, parameters=None):
    """-> (switch, ingress) -> frames that the transcription sends, and how much headroom was ever in use."""
    values, sent, headroom = parse(scheme, parameters).values("pfc"), defaultdict(list), 0
    for node, mine in switch_rows(topo, rows).items():
        model = model_of(topo, node, values)
        for row in mine:
            frames = []
            if row.event == "enqueue":
                where, frames = model.on_enqueue(row.in_port, row.size)
                assert where is not None, "the transcription drops what the fabric took"
                headroom += where[2]
            elif row.event == "dequeue":
                frames = model.on_dequeue(row.in_port, row.size)
            for frame in frames:
                sent[node, frame.port].append((row.at, -1, frame.kind == "pause"))
    return sent, headroom


def crowd(topo):
    return incast(
        topo,
        range(1, 16),
        size=[90_000 + 1300 * i for i in range(15)],
        every_ns=100,
        more=[(i, 15 - i, 60_000, f"{3 * i}us") for i in range(8)],
    )


@pytest.mark.parametrize(
    "parameters",
    [{}, {"reserve": 4096, "alpha": 0.125}, {"alpha": 0.5, "xon": 0}, {"headroom": 8.0}],
    ids=["paper", "ns3", "alpha", "headroom"],
)
def test_every_decision_is_the_transcription_s(parameters):
    topo, parameters = network(buffer="1MB"), {**parameters, "refresh": 0}
    run, rows = traced(topo, crowd(topo), "pfc", parameters)
    sent, headroom = replay(topo, rows, "pfc", parameters)
    assert check_frames(run, topo, sent) > 50
    assert run.summary["drops"] == 0
    nodes = {node for node, _ in pauses_of(run)}
    assert max(nodes) >= topo.hosts and headroom > 0
    assert (min(nodes) < topo.hosts) == (parameters.get("alpha") != 0.5), "NICs are paused, too, unless a port may hold a lot"


def test_acknowledgements_in_the_data_lane():
    topo = network(buffer="1MB")
    run, rows = traced(topo, crowd(topo), "pfc:ns3", {"refresh": 0}, host=QUEUED_ACKS)
    sent, _ = replay(topo, rows, "pfc:ns3", {"refresh": 0})
    assert check_frames(run, topo, sent) > 50 and run.summary["drops"] == 0


def test_a_paused_port_sends_nothing():
    """Between pause and resume no data packet leaves; one that was being sent is finished."""
    topo = network(buffer="1MB")
    run, rows = traced(topo, crowd(topo), "pfc")
    departures = defaultdict(list)
    for row in rows:
        if row.event == "dequeue":
            departures[row.node, row.port].append(row.at)
    looked_at = 0
    for key, events in pauses_of(run).items():
        for (since, _, paused), (until, _, _) in pairwise(events):
            if paused:
                looked_at += 1
                assert not [t for t in departures[key] if since < t < until]
    assert looked_at > 20


def test_lossless_with_little_buffer_and_time_adds_up():
    topo = network(buffer="1MB")
    run = simulate(topo, crowd(topo), "pfc", measure=Measure(sample="5us", pauses=True))
    assert run.summary["drops"] == 0 and run.summary["max_buffer_bytes"] <= 1_000_000
    held = defaultdict(int)
    for (node, port), events in pauses_of(run).items():
        held[node, port] = sum(until - since for (since, _, paused), (until, _, _) in pairwise(events) if paused)
        if events[-1][2]:
            held[node, port] += round(run.summary["end_ns"] * 1000) - events[-1][0]
    for row in run.ports.iter_rows(named=True):
        assert row["paused_ns"] == pytest.approx(held[row["node"], row["port"]] / 1000)
    assert sum(held.values()) > 0


def test_without_it_the_same_crowd_loses_packets():
    topo = network(buffer="300KB")
    run = simulate(topo, crowd(topo), "fifo")
    assert run.summary["drops"] > 0 and run.summary["flows_finished"] == len(run.flows)


def test_lost_frames_do_not_stop_a_port_for_ever():
    """Lost frames are repeated; with headroom for that time nothing is dropped."""
    topo = network(buffer="12MB")
    scheme = parse("pfc", {"alpha": 0.005, "headroom": 8.0, "refresh": "2us"})
    run = simulate(topo, crowd(topo), scheme, control_loss=0.1)
    assert run.summary["flows_finished"] == len(run.flows) and run.ports["pauses_sent"].sum() > 20
    assert run.ports["drops"].sum() > 0  # the lost frames


def test_a_lone_flow_finishes_in_the_ideal_time():
    check_alone("pfc")
    check_alone("pfc:ns3")


def test_any_number_of_threads_gives_the_same_results():
    run = check_threads("pfc", topo=network(buffer="1MB"))
    assert run.ports["pauses_sent"].sum() > 0


def test_bad_parameters_are_refused():
    check_bad("pfc", {"alpha": 129}, "0..128")
    check_bad("pfc", {"xon": "3 parsecs"}, "unit")
    with pytest.raises(SpecError, match="headroom"):
        simulate(network(buffer="100KB"), crowd(network()), "pfc")


# The watchdog

DETECT, RESTORE = 100 * US, 300 * US
WATCHDOG = {"watchdog": "100us", "restoration": "300us"}


def test_the_watchdog_ends_a_deadlock():
    """A port of a switch is paused for the detection time at most, and not again before the restoration time has passed."""
    topo, flows = bouncing()
    runs = [
        simulate(topo, flows, parse("pfc", given), max_time_ps=20_000 * US, measure=Measure(pauses=True))
        for given in ({}, WATCHDOG)
    ]
    assert [run.summary["flows_finished"] == len(flows) for run in runs] == [False, True]
    assert runs[0].summary["deadlock"] and not runs[1].summary["deadlock"]
    assert runs[0].summary["drops"] == 0 < runs[1].summary["drops"]
    reasons = runs[1].ports.filter(runs[1].ports["drops"] > 0)["drop_reason"]
    assert all(reason.startswith("refused by the scheme") for reason in reasons)
    lasted, ended = [], 0
    for (node, _), events in pauses_of(runs[1]).items():
        for (since, _, paused), (until, _, _) in pairwise(events):
            if paused and node >= topo.hosts:
                lasted.append(until - since)
                ended += lasted[-1] == DETECT
                later = [at for at, _, again in events if again and at >= until]
                assert lasted[-1] < DETECT or not later or later[0] - until > RESTORE
    assert max(lasted) == DETECT and ended >= 2
    nics = [b[0] - a[0] for key, e in pauses_of(runs[1]).items() if key[0] < topo.hosts for a, b in pairwise(e) if a[2]]
    assert max(nics) > DETECT, "the watchdog is that of switches"


def obeyed(rows, port):
    """Pauses and resumes of a port as they take effect, by the frames that it hears: (time, whether paused)."""
    found, paused, since, ignored_until, queued = [], False, 0, 0, 0
    for row in (row for row in rows if row.port == port):
        while paused and since + DETECT < row.at:
            since += DETECT
            if queued:
                paused, ignored_until = False, since + RESTORE
                found.append((since, False))
        if row.event in ("enqueue", "dequeue"):
            queued = row.port_bytes
        elif row.event == "receive" and row.flow == PAUSE and row.at < ignored_until:
            ignored_until = row.at + RESTORE
        elif row.event == "receive" and (row.flow == PAUSE) != paused:
            paused, since = not paused, row.at
            found.append((row.at, paused))
    return found


def test_which_pauses_are_obeyed():
    """All frames are heard once: a port that has ignored pauses obeys the first one a restoration time after the last one."""
    topo, flows = bouncing()
    run = simulate(topo, flows, parse("pfc", {**WATCHDOG, "refresh": 0}), max_time_ps=8_000 * US, measure=EVERYTHING)
    told = pauses_of(run)
    looked_at = 0
    for node, mine in switch_rows(topo, rows_of(run)).items():
        for port in range(int(topo.port_count[node])):
            expected = obeyed(mine, port)
            assert [(at, paused) for at, _, paused in told[node, port] if at < 7_800 * US] == [
                event for event in expected if event[0] < 7_800 * US
            ]
            looked_at += len(expected)
    assert looked_at > 50


def test_a_watchdog_that_sees_only_short_pauses_changes_nothing():
    topo = network(buffer="1MB")
    runs = [simulate(topo, crowd(topo), parse("pfc", given)) for given in ({}, {"watchdog": "200ms"})]
    assert outcome(runs[0]) == outcome(runs[1]) and runs[0].ports["pauses_sent"].sum() > 20
    assert runs[1].ports["storms"].sum() == 0 and not any("watchdog" in warning for warning in runs[1].summary["warnings"])


@pytest.mark.parametrize("priorities", [1, 3])
def test_a_watchdog_that_acts_is_told(priorities):
    """A server stops taking packets for good, and another one for a while, after which pauses are obeyed again."""
    topo = behind_vswitches(leaf_spine(hosts=4, tors=2, spines=1, buffer="2MB"), apps=1, buffer="1MB")
    slow = [{"host": 3, "rate": "1Mbps"}, {"host": 2, "rate": "100Mbps", "on": "300us", "off": "9ms", "until": "1ms"}]
    flows = flow_list(topo, [(0, 3, "2MB"), (1, 2, "2MB")])
    scheme = parse("pfc", {"priorities": priorities, **WATCHDOG})
    run = simulate(with_receivers(topo, slow), flows, scheme, host=HostConfig(rto="1s"), max_time_ps=3_000 * US)
    stormy = run.ports.filter(run.ports["storms"] > 0).select("peer", "storms", "restored")
    told = {peer: counts for peer, *counts in stormy.iter_rows()}
    stuck, freed = (topo.names.index(f"vswitch{i}") for i in (3, 2))
    assert told[stuck][0] == told[stuck][1] + 1 and told[freed] == [1, 1]
    [text] = [warning for warning in run.summary["warnings"] if "vswitch3)" in warning]
    lost = run.ports.filter(node=stuck)["drops"].sum()
    assert text.startswith("the watchdog at tor1 port ") and text.endswith(f"; vswitch3 dropped {lost} packets") and lost > 100


def test_threads_with_a_watchdog():
    topo, flows = bouncing()
    scheme = parse("pfc", WATCHDOG)
    runs = [simulate(topo, flows, scheme, threads=n, max_time_ps=20_000 * US) for n in (1, 2)]
    assert outcome(runs[0]) == outcome(runs[1]) and runs[0].summary["drops"] > 0
