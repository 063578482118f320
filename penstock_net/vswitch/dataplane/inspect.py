"""Inspection of a switch between two turns of its workers: longest queues, undelivered frames, captures, changed addresses."""

import bisect
import contextlib
import itertools

import cython
import numpy as np

from penstock_net.errors import PenstockError
from penstock_net.vswitch.support.settings import address_words

if not cython.compiled:
    from penstock_net.vswitch.dataplane.flowtable import is_misled, renew_flow
    from penstock_net.vswitch.dataplane.inspect import lengths_of, link_mirror, no_mirrors, set_mirrors, worker_of
    from penstock_net.vswitch.dataplane.leftovers import next_waiting_queue, scan_budget, unread_frames
    from penstock_net.vswitch.dataplane.receiver import waiting_now
    from penstock_net.vswitch.dataplane.state import WAITS_KEPT, flow_at, port_at, signed_of, view_of, wait_count
    from penstock_net.vswitch.dataplane.stations import forget_mac
    from penstock_net.vswitch.memory.layout import NO_HIGH, load64

SUMMED = ("flows", "waiting_bytes", "longest_bytes", "rate_bytes_per_s", "frames", "bytes", "dropped", "pauses", "paused_ns")
MOST_QUEUES = 64  # of a port that are listed one by one


def share_captures(first, captures):
    """Set the captures that all workers record into."""
    first.mirrors = no_mirrors()
    for each in captures:
        link_mirror(first, each)
    for k in range(1, first.workers):
        set_mirrors(first, k, first.mirrors)


def restart_misled_flows(worker):
    """Restart flows whose target has changed with the addresses; frames already delivered stay."""
    for i in range(worker.flow_top):
        flow = flow_at(worker, i)
        if flow.used and is_misled(worker, flow):
            renew_flow(worker, flow)


def forget_macs(worker, addresses):
    """Forget the stations that have one of these addresses, since a port has it."""
    for text in addresses if worker.stations else ():
        words = address_words(text)
        if words[0] == NO_HIGH:
            forget_mac(worker.stations, words[1])


# ---- The longest flows ----


def pick_longest(first, most):
    """(queued bytes, worker, number) of the flows with the most queued bytes, longest first; and the sums over the others.

    At equal queues, flows that have carried more come first.
    """
    chosen, others = [], dict.fromkeys(SUMMED, 0)
    for k in range(first.workers):
        chosen += longest_of(worker_of(first, k), k, most, others)
    chosen.sort(reverse=True)
    for _, _, k, i in chosen[most:]:
        flow = flow_at(worker_of(first, k), i)
        waiting = waiting_now(worker_of(first, k), flow)
        add(others, 1, waiting, flow.longest, flow.rate, flow.frames, flow.sent, flow.dropped, flow.pauses, flow.paused_ns)
    others["rate_bytes_per_s"] = round(others["rate_bytes_per_s"])
    return [(waiting, k, i) for waiting, _, k, i in chosen[:most]], others


def longest_of(worker, k, most, others):
    """(queued bytes, bytes carried, worker, number) of one worker, in any order; its other flows are added to the sums."""
    lengths = np.full(worker.flow_top, -1, dtype=np.int64)
    carried = np.zeros(worker.flow_top, dtype=np.int64)
    values, bytes_carried = lengths_of(lengths.ctypes.data), lengths_of(carried.ctypes.data)
    for i in range(worker.flow_top):
        if flow_at(worker, i).used:
            values[i] = waiting_now(worker, flow_at(worker, i))
            bytes_carried[i] = flow_at(worker, i).sent
    order = np.lexsort((-carried, -lengths))[:most].tolist()
    chosen = [(int(lengths[i]), int(carried[i]), k, i) for i in order if lengths[i] >= 0]
    for _, _, _, i in chosen:
        lengths[i] = -1
    count = waiting = longest = frames = total = dropped = pauses = paused = 0
    rate = 0.0
    for i in range(worker.flow_top):
        flow = flow_at(worker, i)
        if values[i] >= 0:
            count += 1
            waiting += values[i]
            longest = max(longest, flow.longest)
            rate += flow.rate
            frames += flow.frames
            total += flow.sent
            dropped += flow.dropped
            pauses += flow.pauses
            paused += flow.paused_ns
    add(others, count, waiting, longest, rate, frames, total, dropped, pauses, paused)
    return chosen


def add(others, *numbers):
    for key, number in zip(SUMMED, numbers):
        others[key] = max(others[key], number) if key == "longest_bytes" else others[key] + number


# ---- A port ----


def waits_row(port):
    """Waiting times of measured frames in the switch: count, sum in ns, percentiles, and a histogram by powers of two of us."""
    counts = [wait_count(port, i) for i in range(WAITS_KEPT)]
    sums, samples = list(itertools.accumulate(counts)), sum(counts)
    row = {"samples": samples, "sum_ns": port.waited_ns}
    for percent in (50, 99):
        row[f"p{percent}_us"] = 1 << bisect.bisect_left(sums, (percent * samples + 99) // 100) if samples else 0
    return {**row, "counts": counts}


def details_of(port, driver):
    """More columns of a port's row: waiting times, and the counters of its device, unless that has been deleted."""
    row = {"waits": waits_row(port), "device": {}}
    with contextlib.suppress(OSError, PenstockError):
        row["device"] = driver.row() if driver else {}
    return row


def count_waiting(first, number, name, scan):
    """Frames that wait at a port: not taken by the switch, by queue for the longest; and not taken by the application.

    `scan` is scratch memory.
    """
    port = port_at(worker_of(first, port_at(first, number).home), number)
    sent = sum([port_at(worker_of(first, k), number).sent_bytes for k in range(first.workers)])
    view = view_of(port)
    scan.budget = scan_budget(view)
    queues = {}
    queue = next_waiting_queue(port, 0, scan)
    while queue >= 0:
        queues[queue] = {"frames": scan.frames, "bytes": scan.bytes}
        queue = next_waiting_queue(port, queue + 1, scan)
    longest = sorted(queues, key=lambda q: (-queues[q]["bytes"], q))[:MOST_QUEUES]
    return {
        "port": name,
        "waiting_frames": sum(q["frames"] for q in queues.values()),
        "waiting_bytes": sum(q["bytes"] for q in queues.values()),
        "waiting_by_queue": {q: queues[q] for q in longest},
        "not_taken_frames": unread_frames(view),
        "not_taken_bytes": max(0, sent - signed_of(load64(view.total[1]) - port.total_base)),
    }
