"""Runs that trace every packet at every hop, and the behaviour of a sender reconstructed from the trace alone."""

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from paper import drr

from penstock_net.composition import FOLDER, parse
from penstock_net.errors import SpecError
from penstock_net.sim.config import HostConfig, Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import leaf_spine, star
from penstock_net.workload import flow_list

US = 1_000_000
DATA, ACK, CONTROL = 0, 1, 2
PAUSE = 1
QUANTUM = 1048
QUEUED_ACKS = HostConfig(ack_priority="data")  # so that the trace shows every packet but the control frames
SAMPLES = Measure(sample="0.1us", packets=True, flow_series=True, flows=False)
EVERYTHING = Measure(sample="0s", flows=False, packets=True, pauses=True)


FAILED = ("tor0", "spine0"), ("tor1", "spine1")


class Row(NamedTuple):
    at: int  # ps
    node: int
    port: int
    in_port: int
    queue: int
    upstream_q: int
    event: str
    kind: int
    flow: int
    offset: int
    size: int
    ecn: bool
    queue_bytes: int
    port_bytes: int


def network(hosts=16, tors=4, spines=2, **more):
    return leaf_spine(hosts=hosts, tors=tors, spines=spines, **more)


def bouncing(each=4, size="1MB"):
    """A network whose ToRs 0 and 1 reach each other by way of others only, and flows there and back, and between ToRs 2 and 3."""
    changes = [{"time": "1ps", "a": tor, "b": spine, "up": False} for tor, spine in FAILED]
    topo = network(hosts=4 * each, buffer="1MB").with_changes(changes)
    pairs = [(tor * each + i, to * each + i) for tor, to in ((0, 1), (1, 0), (2, 3), (3, 2)) for i in range(each)]
    return topo, flow_list(topo, [(src, dst, size, "1us") for src, dst in pairs])


def incast(topo, senders, dst=0, size=60_000, every_ns=0, more=()):
    """Flows of all senders to one host, and some others: (src, dst, bytes, start)."""
    sizes = size if isinstance(size, list) else [size] * len(senders)
    flows = [(src, dst, s, f"{1000 + i * every_ns}ns") for i, (src, s) in enumerate(zip(senders, sizes))]
    return flow_list(topo, [*flows, *more])


def classed(topo, items):
    """Flows (src, dst, bytes, start, class, priority)."""
    names = ("src", "dst", "bytes", "start", "class", "priority")
    return flow_list(topo, [dict(zip(names, item)) for item in items])


def traced(topo, flows, scheme, parameters=None, measure=EVERYTHING, **more):
    """A run under a scheme -> the run and its packets, in the order in which they happened at each node."""
    run = simulate(topo, flows, parse(scheme, parameters), measure=measure, **more)
    assert run.summary["flows_finished"] == len(flows)
    return run, rows_of(run)


def rows_of(run):
    frame = run.extra["packets"]
    at = np.round(frame["time_ns"].to_numpy() * 1000).astype(np.int64).tolist()
    return [Row(t, *values) for t, values in zip(at, frame.drop("time_ns").iter_rows())]


def pauses_of(run):
    """(node, port) -> pauses and resumes as they took effect: (time, queue, whether paused)."""
    out = defaultdict(list)
    for t, node, port, queue, paused in run.pauses.iter_rows():
        out[node, port].append((round(t * 1000), queue, paused))
    return out


def peers_of(topo):
    """(node, port) -> (peer, its port, delay, ps per byte)."""
    out = {}
    for link in topo.links:
        a, b, port_a, port_b, ps_per_byte, delay, _ = link.tolist()
        out[a, port_a] = (b, port_b, delay, ps_per_byte)
        out[b, port_b] = (a, port_a, delay, ps_per_byte)
    return out


def switch_rows(topo, rows):
    """Switch -> its rows."""
    out = {node: [] for node in range(topo.hosts, topo.hosts + topo.switches)}
    for row in rows:
        if row.node >= topo.hosts:
            out[row.node].append(row)
    return out


def check_frames(run, topo, sent, on_their_way=2):
    """`sent`: (switch, ingress port) -> (time, queue, whether a pause) of each frame decided on.  The neighbours obeyed
    exactly these, in this order, no sooner than the wire allows; the last ones may still have been on their way."""
    obeyed, peers, count = pauses_of(run), peers_of(topo), 0
    assert set(obeyed) <= {peers[key][:2] for key in sent}
    for key, frames in sent.items():
        node, port, delay, ps_per_byte = peers[key]
        got = obeyed[node, port]
        assert [f[1:] for f in got] == [f[1:] for f in frames[: len(got)]], f"what {node} obeyed on port {port}"
        assert len(frames) - len(got) <= on_their_way
        for (decided, _, _), (effective, _, _) in zip(frames, got):
            assert delay + 64 * ps_per_byte <= effective - decided <= delay + (64 + 2200) * ps_per_byte
        count += len(got)
    return count


class LazyDRR(drr.DRR):
    """A paused queue keeps its place until its turn comes; only then it leaves the round."""

    def pause(self, i):
        self.paused[i] = True

    def next_visit(self):
        while self.active_list:
            i = self.active_list.popleft()
            if self.eligible(i):
                return i
            self.DC[i] = 0
        return None


# ---- a sender, from the trace ----


@dataclass
class Acknowledgement:
    at: int  # when it reached the sender
    seq: int
    snd_nxt: int  # of the sender then
    ecn: bool
    offset: int  # of the packet that it answers
    links: list  # of that packet: rows of its departures


@dataclass
class Sent:
    at: int
    offset: int
    size: int


def senders(topo, flows, rows, mtu=1000):
    """Flow -> what its host sent and which ACKs came home, when; needs ACKs in the data lane and no losses."""
    peers = peers_of(topo)
    sent, acks = defaultdict(list), defaultdict(list)
    links = defaultdict(list)
    sizes, sources = flows.bytes.tolist(), flows.src.tolist()
    for row in rows:
        node, _, delay, ps_per_byte = peers[row.node, row.in_port if row.event == "enqueue" else row.port]
        wire = delay + row.size * ps_per_byte
        if row.event == "enqueue" and row.kind == DATA and node == sources[row.flow]:
            sent[row.flow].append(Sent(row.at - wire, row.offset, row.size))
        elif row.event == "dequeue" and row.kind == DATA:
            links[row.flow, row.offset].append(row)
        elif row.event == "dequeue" and row.kind == ACK and node == sources[row.flow]:
            acks[row.flow].append(Acknowledgement(row.at + wire, row.offset, 0, row.ecn, -1, []))
    for flow, got in acks.items():
        mine, k, snd_nxt = sent[flow], 0, 0
        for ack in got:
            while k < len(mine) and mine[k].at < ack.at:  # at one instant the ACK comes first
                snd_nxt = min(mine[k].offset + mtu, sizes[flow])
                k += 1
            ack.snd_nxt = snd_nxt
            ack.offset = (ack.seq - 1) // mtu * mtu
            ack.links = links[flow, ack.offset]
    return sent, acks


def check_windows(run, flow, trajectory):
    """trajectory: (time, W) after each ACK.  The window at every sample is the last of them, in whole bytes."""
    frame = run.extra["flow_series"]
    frame = frame.filter(frame["flow_id"] == flow)
    times, windows = np.array([t for t, _ in trajectory]), [w for _, w in trajectory]
    compared = set()
    for t, window in zip(frame["time_ns"].to_numpy(), frame["window_bytes"].to_list()):
        k = int(np.searchsorted(times, round(t * 1000), side="right")) - 1
        if k >= 0:
            assert windows[k] - 1 - 1e-6 <= window <= max(windows[k], 1) + 1e-6, f"flow {flow}, {t} ns, ACK {k}"
            compared.add(k)
    return len(compared)


def check_sending(sent, acks, windows, gap_of, moves=False, line=80):
    """A flow alone on its NIC: each packet leaves when line, window and pace allow, no sooner and no later.

    windows: at the start and after each ACK; gap_of(k, at): ps per byte of the pace after k ACKs, at a time.
    A new pace holds from the next packet on, or `moves` one that waits too, unless it only waits for the line; `moves` may say
    so of the k-th ACK.
    """
    acked, k = 0, 0
    for last, packet in pairwise(sent):
        while k < len(acks) and acks[k].at <= last.at:
            acked, k = max(acked, acks[k].seq), k + 1
        free = last.at + last.size * line
        due = last.at + int(last.size * gap_of(k, last.at))
        ready = due <= free and packet.offset - acked < windows[k]
        now = last.at
        while True:
            if packet.offset - acked < max(int(windows[k]), 1):
                expected = max(free, now) if ready else max(free, due, now)
                if k == len(acks) or expected < acks[k].at:
                    break
            now, acked, k = acks[k].at, max(acked, acks[k].seq), k + 1
            ready = ready and now <= free  # when the line was free the window was shut
            if not ready and (moves(k) if callable(moves) else moves):
                due = last.at + int(last.size * gap_of(k, now))
        assert abs(packet.at - expected) <= 1, f"packet at {packet.offset}: sent at {packet.at}, not at {expected}"


# ---- what every scheme must do ----


def counters(rows):
    """Of every departure: bytes that its port had sent before it, and bytes that had come for it."""
    sent, came, out = {}, {}, {}
    for row in rows:
        key = row.node, row.port
        if row.event == "enqueue":
            came[key] = came.get(key, 0) + row.size
        elif row.event == "dequeue":
            out[*key, row.at] = sent.get(key, 0), came[key]
            sent[key] = sent.get(key, 0) + row.size
    return out


def outcome(run):
    """The results that must not depend on threads."""
    return run.flows.write_csv(), run.ports.write_csv(), run.switches.write_csv(), run.summary["packet_hops"]


def check_threads(scheme, parameters=None, topo=None, **more):
    topo = topo or network()
    flows = incast(topo, range(4, 16), size=80_000, every_ns=150, more=[(0, 9, 300_000, "0us"), (1, 13, 200_000, "2us")])
    scheme, measure = parse(scheme, parameters), Measure(sample="5us")
    runs = [simulate(topo, flows, scheme, threads=n, measure=measure, **more) for n in (1, 2)]
    assert outcome(runs[0]) == outcome(runs[1])
    return runs[0]


def check_alone(scheme, parameters=None, sizes=(1, 1000, 5500, 2_000_000)):
    """Flows that meet no other finish in the ideal time, to the picosecond."""
    topo = network()
    flows = flow_list(topo, [(i, 15 - i, size, f"{i * 500}us") for i, size in enumerate(sizes)])
    run = simulate(topo, flows, parse(scheme, parameters))
    assert run.flows["slowdown"].to_list() == [1.0] * len(sizes)


def planted(folder, scheme, right, wrong, times=1):
    """The name of a scheme like this one of the package, but with a mistake where `right` stands, so many times."""
    text = (FOLDER / f"{scheme}.py").read_text()
    assert text.count(right) == times
    file = folder / f"{scheme}.py"
    file.write_text(text.replace(right, wrong))
    return str(file)


def check_bad(scheme, parameters, message):
    with pytest.raises(SpecError, match=message):
        simulate(star(hosts=2), flow_list(star(hosts=2), [(0, 1, 1000, "0us")]), parse(scheme, parameters))


def acted(run) -> bool:
    """No warning that the congestion control or the flow control never acted."""
    return not any("never acted" in warning for warning in run.summary["warnings"])
