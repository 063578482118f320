"""Priority flow control against the transcription of the reference simulator's accounting: every pause and resume."""

from collections import defaultdict
from itertools import pairwise

import pytest
from helpers import (
    QUEUED_ACKS,
    check_alone,
    check_bad,
    check_frames,
    check_threads,
    incast,
    network,
    pauses_of,
    peers_of,
    switch_rows,
    traced,
)
from paper import pfc

from penstock.composition import parse
from penstock.errors import SpecError
from penstock.sim.config import Measure
from penstock.sim.simulate import simulate


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
    check_bad("pfc", {"alpha": 17}, "0..16")
    check_bad("pfc", {"xon": "3 parsecs"}, "unit")
    with pytest.raises(SpecError, match="headroom"):
        simulate(network(buffer="100KB"), crowd(network()), "pfc")
