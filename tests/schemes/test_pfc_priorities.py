"""Priority flow control of single priorities against the transcription: every pause, resume and drop, and what it stops."""

from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
from helpers import (
    DATA,
    EVERYTHING,
    FAILED,
    QUEUED_ACKS,
    US,
    acted,
    check_alone,
    check_bad,
    check_frames,
    classed,
    network,
    outcome,
    pauses_of,
    peers_of,
    planted,
    rows_of,
    switch_rows,
    traced,
)
from paper import pfc
from test_pfc import Switch

from penstock_net import pause_times
from penstock_net.composition import parse
from penstock_net.errors import PenstockError, SchemeError, SpecError
from penstock_net.sim.config import HostConfig, Measure
from penstock_net.sim.headroom import headroom as headroom_of
from penstock_net.sim.settings import Settings
from penstock_net.sim.simulate import simulate
from penstock_net.topology import star
from penstock_net.workload import flow_list

FRACTIONS = {0.0: (0, 1), 0.11: (11, 100), 0.125: (1, 8), 0.25: (1, 4), 0.5: (1, 2)}
FRAME = 1048 + 64
MIXED = {"priorities": 8, "lossless": [3, 4], "alpha": 0.125}


def crowd(topo, priorities, size=90_000):
    """Incasts of all priorities to one host, and flows of all priorities across."""
    hosts = topo.hosts
    flows = [(1 + i % 15, 0, size + 1300 * i, f"{1000 + 100 * i}ns", "in", i % priorities) for i in range(2 * (hosts - 1))]
    flows += [(i, hosts - 1 - i, 60_000, f"{3 * i}us", "across", (i + 1) % priorities) for i in range(hosts // 2)]
    return classed(topo, flows)


def model_of(topo, node, values):
    """A priority group for each ingress and priority, in this order."""
    count, groups = values["priorities"], []
    for p in range(int(topo.port_count[node])):
        _, _, delay, ps_per_byte = peers_of(topo)[node, p]
        bdp = delay // ps_per_byte + 1
        headroom = max(int(values["headroom"] * bdp), 2 * bdp + 3 * FRAME + 64 * (count - 1))
        for n in range(count):
            alpha = FRACTIONS[values["priority_alpha"][n] or values["alpha"]]
            reserve = values["priority_reserve"][n] or values["reserve"]
            groups.append(pfc.Port(headroom, alpha, lossless=bool(values["lossless"] >> n & 1), own_reserve=reserve))
    buffer = int(topo.buffer_bytes[node - topo.hosts]) - FRAME
    return Switch(buffer, groups, 0, pause_at_threshold=True, resume_offset=values["xon"])


def replay(topo, rows, values, priority_of):
    """-> (switch, ingress) -> frames that the transcription sends, and the number of packets that it drops."""
    sent, drops, count = defaultdict(list), 0, values["priorities"]
    for node, mine in switch_rows(topo, rows).items():
        model = model_of(topo, node, values)
        for row in mine:
            if row.event == "receive":
                continue
            priority = priority_of(row)
            group, frames = row.in_port * count + priority, []
            if row.event == "dequeue":
                assert row.queue == priority
                frames = model.on_dequeue(group, row.size)
            else:
                where, frames = model.on_enqueue(group, row.size)
                assert (where is None) == (row.event == "drop"), f"{row}: the transcription has {where}"
                drops += where is None
            for frame in frames:
                sent[node, frame.port // count].append((row.at, frame.port % count, frame.kind == "pause"))
    return {key: frames for key, frames in sent.items() if frames}, drops


def frames_of(events, refresh_ps, end):
    """What one port obeyed as PFC frames, (time, frame); the state is sent again every `refresh_ps`."""
    found, paused, again = [], set(), 0
    for at, priority, pause in [*events, (end, 0, False)]:
        while again + refresh_ps <= at:
            again += refresh_ps
            found.append((again, pfc.state_frame(paused)))
        found.append((at, pfc.pfc_frame(priority, pause)))
        paused ^= {priority} if pause != (priority in paused) else set()
    return found


CASES = {
    "three": ({"priorities": 3}, "1MB"),
    "eight": ({"priorities": 8, "alpha": 0.25}, "2.2MB"),
    "mixed": (MIXED, "800KB"),
    "static": ({"priorities": 3, "alpha": 0, "reserve": "20KB"}, "2MB"),
    "each its own": (
        {"priorities": 3, "priority_alpha": [0.5, 0, 0.125], "priority_reserve": [0, "9KB"], "lossless": [0, 1]},
        "1MB",
    ),
    "headroom": ({"priorities": 2, "headroom": 6.0, "xon": 0}, "1.5MB"),
}


def check_decisions(name, host, scheme="pfc"):
    """Pauses, resumes and drops are those of the transcription, and lossless priorities lose nothing."""
    parameters, buffer = CASES[name]
    topo, parameters = network(buffer=buffer), {**parameters, "refresh": 0}
    values = parse("pfc", parameters).values("pfc")
    flows = crowd(topo, values["priorities"])
    run, rows = traced(topo, flows, scheme, parameters, host=host)
    sent, drops = replay(topo, rows, values, lambda row: int(flows.priority[row.flow]))
    assert check_frames(run, topo, sent, 2 * values["priorities"]) > 50
    assert (drops > 0) == ("lossless" in parameters) and drops == run.summary["drops"]
    pausing = {queue for frames in sent.values() for _, queue, _ in frames}
    assert pausing == {n for n in range(values["priorities"]) if values["lossless"] >> n & 1}
    assert run.flows.filter(run.flows["priority"].is_in(sorted(pausing)))["retransmitted_bytes"].sum() == 0


@pytest.mark.parametrize("host", [HostConfig(), QUEUED_ACKS], ids=["", "queued ACKs"])
@pytest.mark.parametrize("name", CASES)
def test_every_decision_is_the_transcription_s(name, host):
    check_decisions(name, host)


MISTAKES = {
    "one group for all": ("return min(pkt.priority, pfc.priorities - 1)", "return 0"),
    "another priority is paused": ("pause_queue(node, port, i, ", "pause_queue(node, port, (i + 1) % pfc.priorities, "),
    "a frame pauses all": ("if named & 1 << i and command_of(pkt) != RESUME:", "if command_of(pkt) != RESUME:"),
    "a frame resumes all": ("elif named & 1 << i or command_of(pkt) == REFRESH:", "elif command_of(pkt) != PAUSE:"),
    "a pause resumes the others": ("elif named & 1 << i or command_of(pkt) == REFRESH:", "else:"),
    "lossy priorities pause": ("    if not pfc.lossless & 1 << i:\n        return\n", ""),
    "lossy priorities have headroom": ("                if pfc.lossless & 1 << i:\n", "                if pfc.lossless:\n"),
    "lossless ones have none": (
        "if pfc.lossless & 1 << i:\n                    group",
        "if not pfc.lossless & 1 << i:\n                    group",
    ),
    "headroom is shared": ("shared_size -= group.headroom_size + group.reserve", "shared_size -= group.reserve"),
    "reserves are shared": ("shared_size -= group.headroom_size + group.reserve", "shared_size -= group.headroom_size"),
    "one alpha": ("pfc.priority_alpha[i] if pfc.priority_alpha[i] > 0 else alpha_of(pfc, node, port)", "pfc.alpha"),
    "one reserve": ("pfc.priority_reserve[i] if pfc.priority_reserve[i] > 0 else pfc.reserve", "pfc.reserve"),
    "credited to the first group": (
        ", priority_of(pfc, pkt))\n        size = stored(pfc, pkt.size)\n    if group.headroom > 0",
        ", 0)\n        size = stored(pfc, pkt.size)\n    if group.headroom > 0",
    ),
    "the first is resumed": ("RESUME, 1 << priority_of(pfc, pkt), 0", "RESUME, 1, 0"),
    "the first is paused": ("PAUSE, 1 << i, 0", "PAUSE, 1, 0"),
    "no margin for a large alpha": ("mine.shared_size -= stored(pfc, most)", "mine.shared_size -= 0"),
    "less headroom": ("whole(pfc.headroom * bdp)", "whole(2.0 * bdp)"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found(name, tmp_path):
    file = planted(tmp_path, "pfc", *MISTAKES[name])
    with pytest.raises((AssertionError, PenstockError)):
        check_decisions("each its own", HostConfig(), file)


@pytest.mark.parametrize("name", ["three", "mixed"])
def test_a_paused_priority_sends_nothing_and_the_others_go_on(name):
    """What leaves a port is what the eight timers of the transcription permit, with the frames that came."""
    parameters, buffer = CASES[name]
    topo = network(buffer=buffer)
    flows = crowd(topo, parameters["priorities"])
    run, rows = traced(topo, flows, "pfc", parameters)
    told, peers, meanwhile, stopped = pauses_of(run), peers_of(topo), 0, 0
    for (node, port), events in told.items():
        mac = pfc.PausedPort(peers[node, port][3])
        departures = [row for row in rows if (row.node, row.port, row.event) == (node, port, "dequeue")]
        frames = frames_of(events, 50 * US, departures[-1].at if departures else 0)
        for row in departures:
            while frames and frames[0][0] < row.at:
                mac.receive(*reversed(frames.pop(0)))
            might = mac.may_start(row.queue, row.at)  # a frame of the same instant may have come before or after
            while frames and frames[0][0] == row.at:
                mac.receive(*reversed(frames.pop(0)))
            assert might or mac.may_start(row.queue, row.at), f"{row} left while its priority was paused"
            meanwhile += any(not mac.may_start(n, row.at) for n in range(8))
        stopped += sum(paused for _, _, paused in events)
    assert stopped > 20 and meanwhile > 100


def test_without_thresholds_in_common_priorities_change_nothing_for_one_of_them():
    """Static thresholds, all flows of one priority: pausing its queue is pausing the port."""
    topo = network(buffer="6MB")
    given = {"alpha": 0, "reserve": "40KB"}
    flows = flow_list(topo, [(1 + i % 15, 0, 90_000 + 1300 * i, f"{100 * i}ns") for i in range(30)])
    runs = [simulate(topo, flows, parse("pfc", {**given, "priorities": n, "headroom": 4.0})) for n in (1, 2, 8)]
    assert runs[0].ports["pauses_sent"].sum() > 20
    for run in runs[1:]:
        assert run.flows["finish_ns"].equals(runs[0].flows["finish_ns"])
        for column in ("tx_bytes", "pauses_sent", "max_queue_bytes"):
            assert run.ports[column].equals(runs[0].ports[column])
        assert run.ports["paused_ns"].equals(runs[0].ports["paused_ns"])
    assert runs[0].ports["paused_ns"].sum() > 0


def test_an_incast_of_one_priority_does_not_stop_another():
    """A victim of the same senders and links: of the same priority it waits for the incast, of another one it does not."""
    topo = network(buffer="2MB")
    took = {}
    for priority in (1, 0):
        flows = [(i, 0, 400_000, "0us", "incast", 1) for i in range(1, 16)]
        flows = classed(topo, [*flows, (4, 15, 100_000, "40us", "victim", priority)])
        run = simulate(topo, flows, parse("pfc", {"priorities": 2, "alpha": 0.05}), measure=Measure(pauses=True))
        took[priority] = run.flows.filter(run.flows["class"].cast(str) == "victim")["slowdown"].item()
        times = pause_times(run)
        assert set(times["queue"]) == {1} and times["paused_ns"].sum() > 100_000 and times["pauses"].sum() > 10
    assert took[0] < 1.1 and took[1] > 5


def test_pause_times_add_up():
    topo = network(buffer="1MB")
    run = simulate(topo, crowd(topo, 3), parse("pfc", {"priorities": 3}), measure=Measure(pauses=True))
    expected = defaultdict(float)
    for (node, port), events in pauses_of(run).items():
        for queue in range(3):
            own = [event for event in events if event[1] == queue]
            expected[node, port, queue] += sum(until[0] - since[0] for since, until in pairwise(own) if since[2])
            if own and own[-1][2]:
                expected[node, port, queue] += round(run.summary["end_ns"] * 1000) - own[-1][0]
    found = {row[:3]: row[4] for row in pause_times(run).iter_rows()}
    assert found == pytest.approx({key: ps / 1000 for key, ps in expected.items() if key in found})
    assert set(found) == {key for key, ps in expected.items() if ps} and len({queue for _, _, queue in found}) == 3
    assert pause_times(run)["pauses"].sum() == run.ports["pauses_received"].sum()


# ---- Packets with priorities of their own ----

SEVERAL = str(Path(__file__).parent / "hooks/several.py")
OF_PACKETS = {"three": {"priorities": 3}, "eight": {"priorities": 8, "alpha": 0.25}, "mixed": MIXED}


def of_packets(topo, parameters):
    """A run in which packets of a flow have all priorities in turn -> run, rows, priority of a row."""
    count = parameters["priorities"]
    flows = flow_list(topo, [(1 + i % 15, 0, 90_000 + 1300 * i, f"{1000 + 100 * i}ns") for i in range(30)])
    flows += flow_list(topo, [(i, 15 - i, 60_000, f"{3 * i}us") for i in range(8)])
    given = {**{f"pfc.{name}": value for name, value in parameters.items()}, "pfc.refresh": 0, "several.count": count}
    run, rows = traced(topo, flows, f"{SEVERAL}+pfc", given)
    return run, rows, lambda row: (row.flow + row.offset // 1000) % count


@pytest.mark.parametrize("name", OF_PACKETS)
def test_each_packet_counts_for_its_own_priority(name):
    """Pauses, resumes and drops are those of the transcription, by the priority that a packet has on arrival."""
    parameters, topo = OF_PACKETS[name], network(buffer=CASES[name][1])
    run, rows, priority_of = of_packets(topo, parameters)
    values = parse("pfc", {**parameters, "refresh": 0}).values("pfc")
    sent, drops = replay(topo, [row for row in rows if row.node >= topo.hosts], values, priority_of)
    assert check_frames(run, topo, sent, 2 * values["priorities"]) > 50
    assert (drops > 0) == ("lossless" in parameters) and drops == run.summary["drops"]
    lossless = {n for n in range(values["priorities"]) if values["lossless"] >> n & 1}
    assert {queue for frames in sent.values() for _, queue, _ in frames} == lossless
    assert not any(priority_of(row) in lossless for row in rows if row.event == "drop")


@pytest.mark.parametrize("name", OF_PACKETS)
def test_a_nic_stops_the_packets_of_a_paused_priority_and_no_others(name):
    """What a NIC sends is what pauses permit; it is idle only if they stop the next packet of every flow that it has."""
    topo = network(buffer=CASES[name][1])
    run, rows, priority_of = of_packets(topo, OF_PACKETS[name])
    told, peers, kept, meanwhile, idle = pauses_of(run), peers_of(topo), 0, 0, 0
    starts = [round(1000 * start) for start in run.flows.sort("flow_id")["start_ns"]]
    for host in range(1, 8):  # they receive nothing, so that they send no acknowledgements
        tor, port, delay, ps_per_byte = peers[host, 0]
        came = [row for row in rows if (row.node, row.in_port, row.kind) == (tor, port, DATA)]
        left = [row for row in came if row.event in ("enqueue", "drop")]
        left = [(row.at - delay - row.size * ps_per_byte, row.at - delay, row) for row in left]
        kept += sum(row.event == "enqueue" and row.kind == DATA for row in rows if row.node == host)
        for i, (since, _, row) in enumerate(left):
            paused, changing = paused_at(told[host, 0], since)
            assert priority_of(row) not in paused - changing, f"host {host} sent {row}"
            meanwhile += bool(paused)
            free = left[i - 1][1] if i else since
            if since > free and "lossless" not in OF_PACKETS[name]:
                idle += 1
                paused, changing = paused_at(told[host, 0], free)
                following = {row.flow: row for *_, row in reversed(left[i:]) if starts[row.flow] <= free}
                assert all(priority_of(row) in paused | changing for row in following.values()), f"host {host} idle at {free}"
    assert kept > 20 and meanwhile > 50 and (idle > 10 or "lossless" in OF_PACKETS[name])


def paused_at(events, at):
    """The priorities that are paused at a time, and those of which that changes then."""
    last = {queue: paused for t, queue, paused in events if t < at}
    return {queue for queue, paused in last.items() if paused}, {queue for t, queue, _ in events if t == at}


def test_a_paused_priority_stops_only_the_flows_that_are_at_it():
    """A flow whose packets are of a paused priority waits; another one of its host, which has been demoted less, does not."""
    topo = network(buffer="3MB")
    given = {"pfc.priorities": 8, "pfc.alpha": 0.02, "pias.thresholds": ["20KB"]}
    flows = [(i, 0, 300_000, "0us") for i in range(1, 16)]
    flows = flow_list(topo, [*flows, *((4, 15, 15_000, f"{40 + 10 * i}us") for i in range(10))])
    run = simulate(topo, flows, parse("pias", given), measure=Measure(pauses=True))
    times = pause_times(run).filter(node=4)
    assert set(times["queue"]) == {1} and times["paused_ns"].sum() > 50_000
    short = run.flows.filter(run.flows["bytes"] == 15_000)
    assert short["slowdown"].max() < 1.7 and run.summary["drops"] == 0


@pytest.mark.parametrize("scheme", ["pias", "homa+pfc", "homa+spray+pfc", "pias+ets"])
@pytest.mark.parametrize("host", [HostConfig(), QUEUED_ACKS], ids=["", "queued ACKs"])
def test_transports_with_priorities_of_their_own(scheme, host):
    topo = network(buffer="2.2MB")
    flows = flow_list(topo, [(1 + i % 15, 0, 90_000 + 1300 * i, f"{1000 + 100 * i}ns") for i in range(30)])
    levels = {"pias.thresholds": ["5KB", "20KB", "40KB"]} if "pias" in scheme else {"cutoffs": ["20KB", "60KB", "90KB"]}
    given = {"pfc.priorities": 8, **levels}
    runs = [
        simulate(topo, flows, parse(scheme, given), threads=n, host=host, measure=Measure(sample="0s", pauses=True))
        for n in (1, 2, 3)
    ]
    run = runs[0]
    assert run.summary["flows_finished"] == len(flows) and run.summary["drops"] == 0 and acted(run)
    assert len(set(pause_times(run)["queue"])) > 1 and run.ports["pauses_sent"].sum() > 20
    assert all(other.flows.equals(run.flows) and other.ports.equals(run.ports) for other in runs[1:])
    check_alone(scheme, given)


# ---- Headroom ----


def blocked_sender():
    """Host 1's priority 1 is paused at full speed while its egress serves priority 0. At 4431.36 ns the 29th packet is beyond the
    reserve; half a ns before, a full frame to host 1 has started, which delays the pause."""
    topo = star(hosts=4, rate="100Gbps", delay="1us", buffer="2MB")
    flows = [(2, 0, 400_000, "0us", "first", 0), (1, 0, 300_000, "1us", "held", 1), (3, 1, 1000, "3347ns", "back", 0)]
    return topo, classed(topo, flows)


def refused(headroom):
    topo, flows = blocked_sender()
    given = {"priorities": 2, "alpha": 0, "reserve": "30KB", "headroom_bytes": headroom}
    run = simulate(topo, flows, parse("pfc", given), host=HostConfig(rto="1s"), max_time_ps=10**9)
    return run.summary["drops"]


def test_one_byte_less_headroom_than_needed_loses_packets():
    """What an adversary can make arrive after the pause is within a packet of what the formula says; the formula suffices."""
    topo, flows = blocked_sender()
    formula = int(headroom_of(Settings(topo, flows, parse("pfc", {"priorities": 2})), "pfc").needed[1, 1])
    low, high = 1, 2 * formula  # refused(low), not refused(high)
    assert refused(low) and not refused(high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if refused(middle) else (low, middle)
    assert refused(high - 1) and not refused(high)
    assert formula - 2 * 1048 - 200 < high <= formula
    run = simulate(topo, flows, parse("pfc", {"priorities": 2, "headroom": 0, "alpha": 0, "reserve": "30KB"}))
    assert run.summary["drops"] == 0 and run.ports["pauses_sent"].sum() > 0


@pytest.mark.parametrize("buffer", ["2.2MB", "100MB"])
@pytest.mark.parametrize("priorities", [1, 3, 8])
def test_time_is_paused_if_and_only_if_there_are_pauses(priorities, buffer):
    """A port counts as paused while it, or a priority of it, is: as long as the log of pauses says."""
    topo = network(buffer=buffer)
    flows = crowd(topo, priorities)
    run = simulate(topo, flows, parse("pfc", {"priorities": priorities}), measure=Measure(pauses=True, window="run"))
    paused = defaultdict(float)
    for (node, port), events in run.pauses.sort("time_ns", maintain_order=True).group_by("node", "port"):
        stopped, since = set(), 0.0
        for row in events.iter_rows(named=True):
            before = bool(stopped)
            (stopped.add if row["paused"] else stopped.discard)(row["queue"])
            if stopped and not before:
                since = row["time_ns"]
            elif before and not stopped:
                paused[node, port] += row["time_ns"] - since
        paused[node, port] += run.summary["end_ns"] - since if stopped else 0.0
    found = {(row["node"], row["port"]): row["paused_ns"] for row in run.ports.iter_rows(named=True) if row["paused_ns"]}
    assert found == pytest.approx(paused)
    assert (run.summary["pfc_pause_fraction"] > 0) == bool(paused) == (buffer == "2.2MB")


def test_too_small_a_buffer_is_refused():
    topo = star(hosts=4, delay="1us", buffer="1MB")
    flows = flow_list(topo, [(1, 0, 1000)])
    simulate(topo, flows, parse("pfc", {"priorities": 5}))
    with pytest.raises(SpecError, match=r"the lossless headroom of switch0 alone takes 1\.20"):
        simulate(topo, flows, parse("pfc", {"priorities": 8}))
    simulate(topo, flows, parse("pfc", {"priorities": 8, "lossless": [3, 4]}))


# ---- Deadlocks, watchdog ----


def bouncing(priority):
    """As helpers.bouncing, of one priority, with other traffic of priority 0."""
    changes = [{"time": "1ps", "a": tor, "b": spine, "up": False} for tor, spine in FAILED]
    topo = network(buffer="1.5MB").with_changes(changes)
    pairs = [(tor * 4 + i, to * 4 + i) for tor, to in ((0, 1), (1, 0), (2, 3), (3, 2)) for i in range(4)]
    flows = [(src, dst, "1MB", "1us", "bounced", priority) for src, dst in pairs]
    return topo, classed(topo, [*flows, *((4 * tor, 4 * tor + 1, "30KB", "900us", "near", 0) for tor in range(4))])


def test_a_deadlock_is_of_one_priority():
    topo, flows = bouncing(5)
    scheme = parse("pfc", {"priorities": 8, "lossless": [0, 5]})
    run = simulate(topo, flows, scheme, max_time_ps=20_000 * US)
    assert run.summary["deadlock"]["priority"] == 5 and len(run.summary["deadlock"]["egresses"]) == 4
    assert any("deadlock of priority 5 since" in warning for warning in run.summary["warnings"])
    near = run.flows.filter(run.flows["class"].cast(str) == "near")
    assert near["slowdown"].max() < 1.5, "another priority is not stuck"
    freed = simulate(topo, flows, parse(scheme, {"watchdog": "100us", "restoration": "300us"}), max_time_ps=20_000 * US)
    assert freed.summary["flows_finished"] == len(flows) and freed.summary["drops"] > 0
    assert freed.summary["deadlock"] is None


def test_a_watchdog_that_sees_only_short_pauses_changes_nothing():
    topo = network(buffer="1MB")
    runs = [simulate(topo, crowd(topo, 3), parse("pfc", {"priorities": 3, **given})) for given in ({}, {"watchdog": "200ms"})]
    assert outcome(runs[0]) == outcome(runs[1]) and runs[0].ports["pauses_sent"].sum() > 20


# ---- Beneath congestion control; the same on any number of threads ----

SMALL_MARKS = {"k_min": "5KB", "k_max": "20KB"}
OVER = {
    "pfc": {},
    "hpcc": {},
    "hpcc:ns3": {},
    "dcqcn": SMALL_MARKS,
    "dcqcn:ns3": {**SMALL_MARKS, "ecn.per": 0},
}


@pytest.mark.parametrize("scheme", OVER)
def test_congestion_control_over_eight_priorities(scheme):
    topo = network(buffer="2.2MB")
    parsed = parse(scheme, {**OVER[scheme], "priorities": 8})
    runs = [
        simulate(topo, crowd(topo, 8), parsed, threads=n, measure=EVERYTHING if n == 1 else Measure(sample="0s", flows=False))
        for n in (1, 2, 3)
    ]
    run = runs[0]
    assert run.summary["flows_finished"] == len(run.flows) and run.summary["drops"] == 0 and acted(run)
    assert all(other.flows.equals(run.flows) and other.ports.equals(run.ports) for other in runs[1:])
    if scheme == "pfc":
        assert {queue for events in pauses_of(run).values() for _, queue, _ in events} == set(range(8))
    queues = {row.queue for row in rows_of(run) if row.event == "dequeue" and row.node >= topo.hosts}
    assert queues == set(range(8))


def test_lost_frames_do_not_stop_a_priority_for_ever():
    topo = network(buffer="12MB")
    scheme = parse("pfc", {"priorities": 3, "alpha": 0.005, "headroom": 8.0, "refresh": "2us"})
    run = simulate(topo, crowd(topo, 3), scheme, control_loss=0.1)
    assert run.summary["flows_finished"] == len(run.flows) and run.ports["pauses_sent"].sum() > 20
    assert run.ports["drops"].sum() > 0  # the lost frames


def test_a_lone_flow_finishes_in_the_ideal_time():
    check_alone("pfc", {"priorities": 8})
    check_alone("pfc", {"priorities": 8, "host.ack_priority": "data"})
    check_alone("pfc", MIXED)


# ---- What is refused ----


@pytest.mark.parametrize(
    "scheme, message",
    [
        ("bfc+pfc", "pfc needs a queue for each priority of flows.*; dqa chooses queues"),
        ("pfc+dqa", "dqa chooses queues"),
        ("ideal_fq+pfc", "ideal_fq chooses queues"),
        ("phost+pfc", "phost sets the priority of packets and decides itself what a port stores or sends"),
        ("pfabric+pfc", "pfabric sets the priority of packets and decides itself"),
        ("expresspass+pfc", "expresspass chooses queues"),
        ("pias+pfc", "pias gives packets 8 priorities, pfc has 2; give pfc 8 of them"),
        ("homa+pfc", "homa gives packets 8 priorities, pfc has 2; give pfc 8 of them"),
    ],
)
def test_parts_that_queue_otherwise_are_refused(scheme, message):
    topo = star(hosts=3)
    with pytest.raises(PenstockError, match=message):
        simulate(topo, flow_list(topo, [(0, 1, 1000)]), parse(scheme, {"pfc.priorities": 2}))


def test_fewer_priorities_than_homa_has():
    topo = star(hosts=3)
    with pytest.raises(SchemeError, match="homa gives packets 16 priorities, pfc has 8; give homa at most 8"):
        simulate(topo, flow_list(topo, [(0, 1, 1000)]), parse("homa+pfc", {"pfc.priorities": 8, "homa.priorities": 16}))
    scheme = parse("homa+pfc", {"pfc.priorities": 4, "homa.priorities": 4, "unscheduled": 2})
    simulate(topo, flow_list(topo, [(0, 1, 1000)]), scheme)


def test_nic_queues_are_those_of_the_priorities():
    topo = star(hosts=3)
    with pytest.raises(SchemeError, match="nic_queues"):
        simulate(topo, flow_list(topo, [(0, 1, 1000)]), parse("pfc", {"priorities": 2}), host=HostConfig(nic_queues=4))


def test_a_priority_that_the_scheme_does_not_have():
    topo = star(hosts=3)
    flows = classed(topo, [(0, 1, 1000, "0us", "flows", 4)])
    with pytest.raises(SpecError, match="the scheme has 4 priorities, so it must be below 4"):
        simulate(topo, flows, parse("pfc", {"priorities": 4}))
    simulate(topo, flows, parse("pfc", {"priorities": 5}))
    simulate(topo, flows, "pfc")


def test_bad_parameters():
    check_bad("pfc", {"priorities": 9}, "1..8")
    check_bad("pfc", {"lossless": [8]}, "lossless")
    check_bad("pfc", {"lossless": "3, x"}, "lossless")
    check_bad("pfc", {"lossless": 2.5}, "lossless")
    check_bad("pfc", {"priority_alpha": [0.1, 129]}, "0..128")
    check_bad("pfc", {"priority_reserve": ["1KB"] * 9}, "at most 8")


@pytest.mark.parametrize("given, mask", [([], 0), ([3], 8), (3, 8), ("3,4", 24), ("", 0), ([0, 0, 7], 129), ((1,), 2)])
def test_a_set_is_a_mask(given, mask):
    assert parse("pfc", {"priorities": 8, "lossless": given}).values("pfc")["lossless"] == mask
