"""Applications killed while they send and receive: their resources are released within 100 ms, others are not affected.

python tests/vswitch/fuzz_kill.py --kills 2000              # at a random instant
python tests/vswitch/fuzz_kill.py --kills 2000 --step       # after 0, 1, 2, ... instructions of a send or a receive
"""

import argparse
import ctypes
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from frames import payload_of, udp
from proven import certain
from waiting import Stopwatch

from penstock_net.vswitch.client.client import connect
from penstock_net.vswitch.daemon import protocol

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"
FORK = multiprocessing.get_context("fork")
TRACEME, SINGLESTEP = 0, 9
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
LIBC.ptrace.restype = ctypes.c_long


def victim(path, seed, step):
    """Sends to b, receives what a sends, opens and closes queues; with `step`, stops once it is in the midst of it."""
    rng = random.Random(seed)
    if step:
        LIBC.ptrace(TRACEME, 0, None, None)
    with connect("c", path, buffers=256, queues=16, rings=64) as port:
        frames = [udp(C, B, p, payload=bytes(rng.randrange(900))) for p in range(1, 40)]
        calls = [
            lambda: port.send(rng.randrange(16), rng.choices(frames, k=rng.randrange(1, 20)), weight=rng.randrange(3)),
            lambda: port.receive(5),
            lambda: port.close_queue(rng.randrange(16)),
        ]
        for _ in range(rng.randrange(3, 60) if step else 1 << 60):
            rng.choice(calls)()
        call = calls[seed % 3]
        os.kill(os.getpid(), signal.SIGSTOP)
        call()
        os.kill(os.getpid(), signal.SIGSTOP)


def stepped(pid, count):
    """Let a traced process, which stops itself, make so many instructions more; how many it made."""
    _, status = os.waitpid(pid, 0)
    assert os.WIFSTOPPED(status), status
    for made in range(count):
        if LIBC.ptrace(SINGLESTEP, pid, None, None) < 0:
            return made
        _, status = os.waitpid(pid, 0)
        if not os.WIFSTOPPED(status) or os.WSTOPSIG(status) != signal.SIGTRAP:
            return made
    return count


class Run:
    def __init__(self, seed, step=False):
        self.rng, self.step, self.folder = random.Random(seed), step, tempfile.TemporaryDirectory()
        self.path = str(Path(self.folder.name) / "s.sock")
        spec = Path(self.folder.name) / "s.toml"
        spec.write_text(
            f'[switch]\nsocket = "{self.path}"\nidle = "10ms"\n'
            + "".join(f'[[port]]\nname = "{n}"\naddresses = ["{a}"]\n' for n, a in (("a", A), ("b", B), ("c", C)))
        )
        code = "import sys; from penstock_net.cli import main; sys.exit(main())"
        command = [sys.executable, "-c", code, "vswitch", "up", str(spec)]
        self.switch = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.switch.stdout.readline().startswith("up: ")
        self.a, self.b = connect("a", self.path), connect("b", self.path)
        self.sent = self.received = self.foreign = self.instructions = 0
        self.times = []

    def pump(self):
        """The well-behaved pair; a also sends to the application that will be killed."""
        if self.sent - self.received < 200:
            self.sent += self.a.send(0, [udp(A, B, payload=b"%d" % (self.sent + i)) for i in range(8)])
        if self.a.waiting(2) < 4000:
            self.a.send(2, [udp(A, C, self.rng.randrange(9), payload=bytes(99))] * 4)
        self.take()

    def take(self):
        for _, frame in self.b.receive(1000):
            if frame[29] == 1:
                expected = int(payload_of(frame)) == self.received
                certain(expected, "a frame of the well-behaved pair is lost, doubled or overtaken")
                self.received += 1
            else:
                self.foreign += 1

    def ports(self):
        return {row["port"]: row for row in protocol.ask(self.path, {"show": "ports"})["ports"]}

    def left(self):
        """Resources still held by an application that has ended: memory, the port, flows from or to it."""
        regions = Path(f"/proc/{self.switch.pid}/maps").read_text().count("memfd:penstock")
        flows = protocol.ask(self.path, {"show": "flows"})["flows"]
        return regions != 2 or "c" in self.ports() or any(f["from"] != "a" or f["to"] != "b" for f in flows)

    def kill_one(self, number):
        child = FORK.Process(target=victim, args=(self.path, number, self.step), daemon=True)
        child.start()
        end = time.monotonic() + 120
        if self.step:
            self.instructions += stepped(child.pid, (number // 3) * 7 % 4000)
        else:
            while "c" not in self.ports():
                assert time.monotonic() < end and child.is_alive()
            end_of_life = time.monotonic() + self.rng.choice([0, 0.001, 0.005, 0.02]) * self.rng.random()
            while time.monotonic() < end_of_life or not self.foreign:
                self.pump()
                assert time.monotonic() < end, "the application that is to die sends nothing"
        os.kill(child.pid, signal.SIGKILL)
        child.join(60)
        watch, end = Stopwatch(self.switch.pid), time.monotonic() + 120
        while self.left():
            self.pump()
            assert time.monotonic() < end, "what was a dead application's has not come back"
        self.times.append(watch.elapsed())

    def finish(self):
        end = time.monotonic() + 120
        while self.received < self.sent and time.monotonic() < end:
            self.take()
        assert self.received == self.sent
        rows = self.ports()
        assert rows["a"]["nonsense"] == rows["b"]["nonsense"] == 0 and "0" not in rows["a"]["drops_by_queue"], rows["a"]
        self.a.close(), self.b.close()
        certain(self.switch.poll() is None, "the switch has died")
        self.switch.send_signal(signal.SIGTERM)
        assert self.switch.wait(60) == 0
        self.folder.cleanup()

    def report(self):
        times = sorted(self.times)
        how = f"after {self.instructions} single steps in all" if self.step else "at random instants"
        return (
            f"{len(times)} applications killed {how}; reclaimed within {1e3 * times[len(times) // 2]:.1f} ms (median), "
            f"{1e3 * times[-1]:.1f} ms (longest), {sum(t < 0.1 for t in times)} of them within 100 ms; {self.received} honest "
            f"frames in order, {self.foreign} of the dead"
        )


def run(seed, kills, step=False):
    one = Run(seed, step)
    try:
        for number in range(kills):
            one.kill_one(number)
        one.finish()
    finally:
        one.switch.kill()
    return one


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--step", action="store_true")
    chosen = parser.parse_args()
    print("seed", chosen.seed, flush=True)
    print(run(chosen.seed, chosen.kills, chosen.step).report())


if __name__ == "__main__":
    main()
