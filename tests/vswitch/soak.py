"""Honest traffic through a switch beside faults that are drawn at random from a seed, for as long as one likes.

    python tests/vswitch/soak.py --seconds 3600 --seed 7

Honest: frames between native applications, datagrams and streams between TAPs (soak_traffic.py). Faults (soak_faults.py): up to
three at a time, first each of them once, then at random. With `--overlay` streams also go to a second switch, over a network in
user space (soak_wire.py) that harms datagrams, and the second switch is restarted.

Checked: every frame between native applications arrives, once and in order; streams arrive as they were sent; datagrams arrive,
once and unchanged, and one that does not was at least counted by the switch. Honest traffic goes on at any time. In the end the
switch has no flow and nothing queued, holds as many descriptors, threads and as much memory as before, and ends by itself, and no
process is left.
"""

import argparse
import contextlib
import json
import os
import random
import resource
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import soak_faults
import soak_wire
from daemons import adopt_orphans, end_descendants
from proven import accounted, certain
from soak_traffic import A, B, Datagrams, Frames, Streams
from waiting import LIMIT_S, until

from penstock_net.vswitch.attach.lab import Namespace
from penstock_net.vswitch.bench.networks import UP, wait_for
from penstock_net.vswitch.client.client import connect
from penstock_net.vswitch.daemon import protocol

HERE, THERE, THIRD, FAR, RENEWED = "10.79.0.1", "10.79.0.2", "10.79.0.3", "10.79.0.4", "10.79.0.5"
ADDRESSES = {"a": A, "b": B, "c": soak_faults.C, "d": soak_faults.D, "p": THIRD}
NATIVE = {"rings": 128, "queues": 64, "bells": 256, "buffers": 1024, "buffer_bytes": 2048}
MOST_FAULTS = 3
WARM_STEPS = 15  # of each fault, before memory is measured
GROWTH = 8 << 20  # bytes of mapped memory
STACK, _ = resource.getrlimit(resource.RLIMIT_STACK)  # bytes of a thread's stack: threads are counted by themselves
GIVES_BACK = ("env", "MALLOC_ARENA_MAX=1", "MALLOC_MMAP_THRESHOLD_=131072", "MALLOC_TRIM_THRESHOLD_=131072")  # what is freed
REFUSED = ("no_route", "spoofed", "malformed")  # reasons: refused by rule, and none of the honest


OVERLAY = """
[[port]]
name = "{name}"
kind = "udp"
local = "{local[0]}:{local[1]}"
peer = "{peer[0]}:{peer[1]}"
secret = "000102030405060708090a0b0c0d0e0f"
addresses = {addresses}
"""


def spec(path, taps, natives):
    """A switch's file: a TAP in each of these namespaces, some of which have a name, and ports for applications."""
    lines = [f'[switch]\nsocket = "{path}"\n']
    for name, (space, address) in taps.items():
        place = json.dumps(space if isinstance(space, str) else f"/proc/{os.getpid()}/fd/{space.fd}")
        lines.append(f'[[port]]\nname = "{name}"\nkind = "tap"\ndevice = "sw0"\nnetns = {place}\naddresses = ["{address}"]\n')
    lines += [f'[[port]]\nname = "{name}"\naddresses = ["{address}"]\n' for name, address in natives.items()]
    return "".join(lines)


class Soak:
    """A switch with two TAPs and four ports for applications, honest traffic over it, and the faults that are on."""

    def __init__(self, seed, stack, names, overlay=False):
        self.rng, self.stack, self.names = random.Random(seed), stack, list(names)
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        self.path, self.here, self.there = f"{folder}/s.sock", HERE, THERE
        spaces = [stack.enter_context(Namespace(name)) for name in ("left", "right", "third", "switch")]
        self.left, self.right, self.third, middle = spaces
        self.renewed, self.renewed_at = stack.enter_context(soak_faults.named(f"soak{os.getpid()}")), RENEWED
        taps = {"left": (self.left, HERE), "right": (self.right, THERE), "renewed": (self.renewed, RENEWED)}
        text = spec(self.path, taps, ADDRESSES)
        if overlay:
            self.far, self.folder, self.middle = stack.enter_context(Namespace("far")), folder, middle
            text += OVERLAY.format(name="far", local=soak_wire.NEAR[0], peer=soak_wire.NEAR[1], addresses=json.dumps([FAR]))
            wait_for(middle.start(sys.executable, soak_wire.__file__, str(seed)), "ready")
            self.start_far_switch()
        (Path(folder) / "s.toml").write_text(text)
        self.switch = middle.start(*GIVES_BACK, *UP, f"{folder}/s.toml")
        wait_for(self.switch, "up: ", starts=True)
        a, b = (stack.enter_context(connect(name, self.path, **NATIVE)) for name in "ab")
        self.frames = Frames(a, b)
        self.far_streams = []
        self.datagrams = stack.enter_context(contextlib.closing(Datagrams(self.left, self.right, THERE, seed)))
        self.streams = stack.enter_context(contextlib.closing(Streams(self.left, self.right, THERE, seed)))
        if overlay:
            far = Streams(self.left, self.far, FAR, seed + 1, steady=False)
            self.far_streams.append(stack.enter_context(contextlib.closing(far)))
        self.honest = self.frames, self.datagrams, self.streams, *self.far_streams
        self.active, self.port = {}, 20_000
        self.begun, self.steps, self.longest = Counter(), 0, 0.0
        self.memory = []
        self.before = None

    # ---- One step ----

    def step(self):
        """Honest traffic, a step of every fault, and perhaps another fault or one less."""
        self.pump()
        for fault in list(self.active):
            generator, left = self.active[fault]
            next(generator)
            self.active[fault] = generator, left - 1
            if left == 1:
                self.end(fault)
        self.steps += 1

    def pump(self):
        """Offer and take until each steady kind has made some progress, however long that takes."""
        start, before = time.monotonic(), [kind.progress() for kind in self.honest]
        for kind in self.honest:
            kind.offer()
        while True:
            for kind in self.honest:
                kind.take()
            if all(kind.progress() > count for kind, count in zip(self.honest, before) if kind.steady):
                break
            assert time.monotonic() - start < LIMIT_S, f"honest traffic has stopped: {self.report()}"
            time.sleep(0.001)
            for kind in self.honest:
                kind.offer()
        self.longest = max(self.longest, time.monotonic() - start)
        time.sleep(0.005)

    def begin(self, fault, steps):
        generator = {**soak_faults.FAULTS, **soak_faults.OF_TWO}[fault](self, random.Random(self.rng.random()))
        self.active[fault] = generator, steps
        self.begun[fault] += 1
        next(generator)

    def free_ports(self, count):
        """The first of so many UDP ports in a row, which no receiver has had for long."""
        self.port = (self.port if self.port < 60_000 else 20_000) + count
        return self.port - count

    def start_far_switch(self):
        """A switch behind the network, with one TAP."""
        text = spec(f"{self.folder}/far.sock", {"far": (self.far, FAR)}, {})
        text += OVERLAY.format(name="near", local=soak_wire.FAR[0], peer=soak_wire.FAR[1], addresses=json.dumps([HERE]))
        (Path(self.folder) / "far.toml").write_text(text)
        self.far_switch = self.middle.start(*UP, f"{self.folder}/far.toml")
        wait_for(self.far_switch, "up: ", starts=True)

    def harm(self, **shares):
        """Tell the network what to do to datagrams."""
        with self.middle.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.sendto(json.dumps(shares).encode(), soak_wire.CONTROL)

    def end(self, fault):
        self.active.pop(fault)[0].close()

    def end_all(self):
        for fault in list(self.active):
            self.end(fault)

    def warm_up(self):
        """Every fault once, alone; then what the switch holds is what it should hold in the end."""
        for fault in self.rng.sample(self.names, len(self.names)):
            self.begin(fault, WARM_STEPS)
            while fault in self.active:
                self.step()
        self.settle()
        self.before = self.held()

    def draw(self):
        """One step with faults at random."""
        idle = [fault for fault in self.names if fault not in self.active]
        if idle and len(self.active) < MOST_FAULTS and self.rng.random() < 0.2:
            self.begin(self.rng.choice(idle), self.rng.randrange(10, 100))
        self.step()
        if self.steps % 200 == 0:
            self.memory.append(self.held()["memory"])

    # ---- Checks ----

    def held(self):
        """What the switch's process holds: memory in bytes, descriptors, threads, memory of applications.

        Memory is what is mapped, not what is resident: pages of the switch's tables become resident as they are first used."""
        proc = Path(f"/proc/{self.switch.pid}")
        maps = [line.split() for line in (proc / "maps").read_text().splitlines()]
        private = [fields[0].split("-") for fields in maps if fields[1] == "rw-p" and fields[5:] in ([], ["[heap]"])]
        sizes = [int(end, 16) - int(start, 16) for start, end in private]
        return {
            "memory": sum(size for size in sizes if size != STACK),
            "descriptors": len(list((proc / "fd").iterdir())),
            "threads": len(list((proc / "task").iterdir())),
            "regions": (proc / "maps").read_text().count("memfd:penstock"),
        }

    def rows(self):
        return protocol.ask(self.path, {"show": "ports"})["ports"]

    def lost(self):
        """Frames lost by port and reason, as the switch counts them."""
        found = Counter()
        for row in [*self.rows(), *protocol.ask(self.path, {"show": "detached"})["detached"]]:
            device = row.get("device") or {}
            device = {**device, **(device.get("edge") or {})}
            kernel = {key: device.get(key) or 0 for key in ("kernel_lost", "not_read", "class_dropped", "socket_lost")}
            for reason, count in {**row.get("drops", {}), **kernel}.items():
                found[f"{row['port']} {reason}"] += count
        return +found

    def settle(self):
        """No faults; all honest traffic arrives, then nothing is under way and the switch is idle."""
        self.end_all()
        self.finish(True)
        end = time.monotonic() + LIMIT_S
        while any(kind.under_way() for kind in self.honest):
            assert time.monotonic() < end, f"honest traffic has not arrived: {self.report()}"
            for kind in self.honest:
                kind.take()
            for kind in (self.streams, *self.far_streams):
                kind.offer()
            time.sleep(0.001)
        until(self.drained, "all flows are removed")
        until(lambda: not {row["port"] for row in self.rows()} & {"c", "d", "p"}, "applications have detached")
        self.finish(False)

    def drained(self):
        """Whether the switch has no flow; b takes what applications sent that have been killed since."""
        self.frames.take()
        return not protocol.ask(self.path, {"show": "flows"})["flows"]

    def finish(self, last):
        """Whether the streams that are under way are the last ones."""
        for kind in (self.streams, *self.far_streams):
            kind.last = last

    def check(self):
        """Everything is as it was after the warm-up, and what is missing was counted."""
        self.settle()
        until(lambda: all(self.held()[key] <= self.before[key] for key in ("descriptors", "threads", "regions")), self.held())
        grown = self.held()["memory"] - self.before["memory"]
        assert grown < GROWTH, f"memory has grown by {grown >> 20} MB: {self.memory}"
        missing, lost = len(self.datagrams.missing), self.lost()
        counted = sum(count for reason, count in lost.items() if reason.split()[1] not in REFUSED)
        certain(missing <= counted, f"{missing} honest datagrams are missing, and only {counted} frames counted as lost: {lost}")
        assert missing == 0, f"{missing} honest datagrams are lost: {lost}"
        accounted(protocol.ask(self.path, {"show": "balance"})["balance"])
        answer = protocol.ask(self.path, {"drain": True, "seconds": 30}, 60)
        assert answer["drained"], answer
        certain(self.switch.poll() is None, "the switch has ended")
        self.switch.send_signal(signal.SIGTERM)
        self.switch.wait(60)
        certain(self.switch.returncode >= 0, f"the switch was ended by signal {-self.switch.returncode}")

    def report(self):
        faults = ", ".join(f"{name} {count}" for name, count in sorted(self.begun.items()))
        lost = (
            ", ".join(f"{reason} {count:,}" for reason, count in sorted(self.lost().items()))
            if self.switch.poll() is None
            else ""
        )
        return (
            f"{self.steps} steps, longest {self.longest:.2f} s; faults: {faults}\n"
            f"frames {self.frames.received:,} of {self.frames.sent:,}, datagrams {self.datagrams.received:,} of "
            f"{self.datagrams.sent:,}, streams {self.streams.complete:,} with {self.streams.bytes / 1e6:,.0f} MB\n"
            f"streams to the other switch: {sum(kind.complete for kind in self.far_streams):,}, begun anew "
            f"{sum(kind.forgotten for kind in self.far_streams):,}\n"
            f"active: {', '.join(self.active) or 'none'}; mapped memory, MB: {[size >> 20 for size in self.memory[-20:]]}\n"
            f"lost by port and reason: {lost or 'nothing'}"
        )


def run(seed, steps=0, seconds=0.0, overlay=False, names=None):
    """At least so many steps after the warm-up, and so many seconds; the report."""
    names = names or [*soak_faults.FAULTS, *(soak_faults.OF_TWO if overlay else [])]
    with contextlib.ExitStack() as stack:
        soak = Soak(seed, stack, names, overlay)
        stack.callback(soak.end_all)
        soak.warm_up()
        last, end = soak.steps + steps, time.monotonic() + seconds
        while soak.steps < last or time.monotonic() < end:
            soak.draw()
        soak.end_all()
        text = soak.report()
        soak.check()
        return soak, text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--overlay", action="store_true", help="with a second switch and a bad network between the two")
    known = [*soak_faults.FAULTS, *soak_faults.OF_TWO]
    parser.add_argument("--only", action="append", choices=known, help="this fault; may be repeated")
    chosen = parser.parse_args()
    print("seed", chosen.seed, flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C: what was started is ended
    adopt_orphans()
    print(run(chosen.seed, 0, chosen.seconds, chosen.overlay, chosen.only)[1])
    assert not (left := end_descendants()), f"processes are left: {left}"


if __name__ == "__main__":
    main()
