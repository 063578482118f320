"""Throughput of the data plane: `python -m penstock_net.vswitch.bench`. One core, without the applications' time.

Doorbells are compared with polling on queues chosen by Zipf's law, as in figure 16 of the Backdraft paper (NSDI 2022).
"""

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from penstock_net.vswitch.dataplane.switch import Switch
from penstock_net.vswitch.memory.region import Region, cycle_count

BIG = {"rings": 4096, "bells": 4096, "buffers": 4096, "buffer_bytes": 64}


def frame(port: int, length: int = 64, source: int = 1, target: int = 2) -> bytes:
    """A frame of `length` bytes: UDP from 10.0.0.`source` to 10.0.0.`target`, from port `port`."""
    body = port.to_bytes(2, "big") + b"\x07\xd0" + (length - 34).to_bytes(2, "big") + bytes(length - 40)
    ip = b"\x45\0" + (length - 14).to_bytes(2, "big") + b"\0\0\0\0\x40\x11\0\0" + bytes([10, 0, 0, source, 10, 0, 0, target])
    return b"\2" * 6 + b"\4" * 6 + b"\x08\0" + ip + body


def pair(queues: int, buffer_bytes: int = 64, **settings: object) -> tuple[Region, Region, Switch]:
    """A sender, a receiver and their switch, all driven by this thread; `queues`: the sender's transmit queues."""
    shape = {**BIG, "queues": queues, "rings": max(4096, 2 * queues), "buffer_bytes": buffer_bytes}
    sender, receiver = Region.create(**shape), Region.create(**{**shape, "queues": 2 * queues})  # one sender may use half
    switch = Switch(**{"mode": "dpfq", "th_net": "100MB", "flows": 65536, "idle": "100s", **settings})
    switch.attach("a", Region.attach(sender.fd, sender.shape), ["10.0.0.1"])
    switch.attach("b", Region.attach(receiver.fd, receiver.shape), ["10.0.0.2"])
    sender.doorbells = switch.settings["doorbells"]
    return sender, receiver, switch


def cycles_per_second() -> float:
    start, at = time.perf_counter(), cycle_count()
    time.sleep(0.05)
    return float((cycle_count() - at) / (time.perf_counter() - start))


def forward(length: int = 64, flows: int = 16, repeats: int = 300) -> float:
    """Mpps through flow table and copy, frames of `length` bytes: the best round, since the machine is shared."""
    sender, receiver, switch = pair(64, max(64, -(-length // 64) * 64))
    frames = [[frame(1000 + q, length)] * 64 for q in range(flows)]
    best, hertz = 0.0, cycles_per_second()
    for _ in range(repeats):
        sent = sum(sender.send(q, frames[q]) for q in range(flows))
        took = 0
        while switch.waiting():
            took += switch.turns(8)
        got = len(receiver.receive(2 * sent))
        assert got == sent, (got, sent)
        best = max(best, sent / took * hertz / 1e6)
    return best


def drained(count: int, rig: tuple[Region, Region, Switch], weights: Any, rng: np.random.Generator, hertz: float) -> float:
    """Mpps of 512 frames over `count` queues, from their enqueueing to the delivery of the last."""
    sender, receiver, switch = rig
    chosen = np.unique(rng.choice(count, 512, p=weights), return_counts=True)
    total = sum(sender.send(int(q), [frame(1000 + int(q) % 60000)] * int(n)) for q, n in zip(*chosen, strict=True))
    took, before = 0, switch.delivered()
    while switch.delivered() - before < total:
        took += switch.turns(1)
    assert len(receiver.receive(2 * total)) == total
    return total / took * hertz / 1e6


def queues(count: int, blocks: int = 5, rounds: int = 16, seed: int = 1) -> dict[str, float]:
    """Mpps with `count` transmit queues open; doorbells and polling in alternating blocks, so that they do not share caches."""
    both = [pair(count, doorbells=doorbells) for doorbells in (True, False)]
    rng, weights, hertz = np.random.default_rng(seed), 1 / np.arange(1, count + 1), cycles_per_second()
    for start in range(0, count, 512):  # use every queue, so that polling must check it
        for sender, receiver, switch in both:
            for q in range(start, min(count, start + 512)):
                sender.send(q, [frame(1000 + q % 60000)])
            switch.turns(40)
            receiver.receive(5000)
    best = [
        [max(drained(count, rig, weights / weights.sum(), rng, hertz) for _ in range(rounds)) for rig in both]
        for _ in range(blocks)
    ]
    bell, poll = np.array(best).T
    return {
        "doorbell": round(float(bell.max()), 2),
        "poll": round(float(poll.max()), 3),
        "ratio": round(float(bell.max() / poll.max()), 2),
        "ratio_median": round(float(np.median(bell / poll)), 2),
    }


class Rig:
    """Two senders and two receivers, each with a thread on the CPU of the worker that its port belongs to."""

    def __init__(self, count: int, crossing: bool) -> None:
        self.switch = Switch(mode="dpfq", th_net="100MB", idle="100s", workers=count)
        self.apps = [Region.create(**{**BIG, "queues": 64}) for _ in range(4)]
        for i, app in enumerate(self.apps):
            self.switch.attach("abcd"[i], Region.attach(app.fd, app.shape), [f"10.0.0.{1 + i}"])
        targets = [[2, 3], [3, 2]] if crossing else [[2], [3]]
        self.frames = [
            [frame(1000 + q, source=1 + s, target=1 + targets[s][q % len(targets[s])]) for q in range(16)] for s in range(2)
        ]
        cpus = sorted(os.sched_getaffinity(0))
        self.threads = [
            ThreadPoolExecutor(1, initializer=os.sched_setaffinity, initargs=(0, {cpus[k % len(cpus)]})) for k in range(count)
        ]

    def fill(self, s: int) -> int:
        return sum(self.apps[s].send(q, [self.frames[s][q]] * 120) for q in range(16))

    def round(self, hertz: float) -> float:
        """One round: all frames sent and received; returns Mpps."""
        count = len(self.threads)
        fills = [self.threads[s % count].submit(self.fill, s) for s in range(2)]
        sent = [fill.result() for fill in fills]
        shares, start = sent if count == 2 else [sum(sent)], cycle_count() + int(hertz / 1000)
        ends = [self.threads[k].submit(self.switch.race, k, shares[k], start) for k in range(count)]
        took = max(end.result() for end in ends) - start
        found = [self.threads[k % count].submit(self.apps[2 + k].receive, sum(sent)) for k in range(2)]
        assert sum(len(frames.result()) for frames in found) == sum(sent)
        return sum(sent) / took * hertz / 1e6


def workers(crossing: bool, repeats: int = 300) -> dict[str, float]:
    """Mpps of two senders with one worker and with two, in alternating rounds.

    Each sender has a receiver of the same worker; with `crossing`, half of its frames go to the other receiver.
    """
    rigs, hertz = [Rig(1, crossing), Rig(2, crossing)], cycles_per_second()
    one, two = np.array([[rig.round(hertz) for rig in rigs] for _ in range(repeats)]).T
    return {
        "one": round(float(one.max()), 1),
        "two": round(float(two.max()), 1),
        "ratio": round(float(two.max() / one.max()), 2),
        "ratio_median": round(float(np.median(two / one)), 2),
    }


def extension(repeats: int = 2000) -> dict[str, float]:
    """Cycles to append a frame, and one that extends the queue by a ring, without the cycles of the clock itself."""
    plain, extended = Region.create(rings=256).extension_cycles(repeats)
    return {
        "push_median": float(np.median(plain)),
        "extend_median": float(np.median(extended)),
        "extend_p90": float(np.percentile(extended, 90)),
        "extend_p99": float(np.percentile(extended, 99)),
    }


def main() -> None:
    results: dict[str, object] = {"load_average": os.getloadavg()[0]}
    results["mpps_64"] = round(forward(64), 2)
    results["mpps_1500"] = round(forward(1500), 2)
    results["extension_cycles"] = extension()
    results["queues"] = {count: queues(count) for count in (8, 64, 256, 1024, 2048, 4096, 16384)}
    results["workers"] = {"apart": workers(False), "crossing": workers(True)}
    json.dump(results, sys.stdout, indent=1)
    print()
