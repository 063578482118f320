"""Cost of each operation of the switch (ns), as measured once: the cost model of the virtual clock.

`python -m penstock_net.vswitch.bench.costs` measures it again on this machine.
"""

import statistics
from dataclasses import asdict, dataclass

from penstock_net.vswitch.bench.bench import cycles_per_second, frame, pair


@dataclass(frozen=True)
class Costs:
    """Ns of the switch's core: of a turn of its loop, of a frame that is delivered, of each of its bytes, of a frame that is
    dropped because a queue is full, of a doorbell answered or rung, of a check of a transmit queue.

    Medians on one core of a Zen 3 virtual machine at 2.445 GHz, with warm caches.
    """

    turn: float = 35
    frame: float = 37
    byte: float = 0.055
    drop: float = 41
    bell: float = 2.5
    look: float = 0.85


def per_frame(length: int, bell_each: bool, rounds: int = 100) -> float:
    """Ns for a delivered frame of `length` bytes, with a doorbell for each frame or one for 32."""
    sender, receiver, switch = pair(64, max(64, -(-length // 64) * 64))
    hertz, took = cycles_per_second(), []
    text = [frame(1000 + q, length) for q in range(64)]
    for _ in range(rounds):
        if bell_each:
            sent = sum(sender.send(q, [text[q]]) for q in range(64) for _ in range(8))
        else:
            sent = sum(sender.send(q, [text[q]] * 32) for q in range(16))
        cycles = 0
        while switch.waiting():
            cycles += switch.turns(1)
        assert len(receiver.receive(2 * sent)) == sent
        took.append(cycles / hertz * 1e9 / sent)
    return statistics.median(took)


def per_drop(rounds: int = 100) -> float:
    """Ns for a frame that the switch drops because a queue is full."""
    sender, _, switch = pair(64, mode="lossy", th_goal="1KB", th_over="2KB", th_net="4KB")
    hertz, took = cycles_per_second(), []
    for _ in range(rounds):
        before = sum(switch.ports()[0]["drops"].values())
        sent = sum(sender.send(q, [frame(1000 + q)] * 32) for q in range(16))
        cycles = 0
        while switch.waiting():
            cycles += switch.turns(1)
        if sum(switch.ports()[0]["drops"].values()) - before == sent:
            took.append(cycles / hertz * 1e9 / sent)
    return statistics.median(took)


def per_turn(queues: int, doorbells: bool, rounds: int = 200) -> float:
    """Ns of a turn without work, with `queues` transmit queues in use."""
    sender, receiver, switch = pair(queues, doorbells=doorbells)
    for q in range(queues):
        while not sender.send(q, [frame(1000 + q)]):
            switch.turns(20)
            receiver.receive(5000)
    switch.turns(100)
    receiver.receive(5000)
    hertz = cycles_per_second()
    return statistics.median(switch.turns(10) / 10 / hertz * 1e9 for _ in range(rounds))


def measured() -> Costs:
    """The costs on this machine."""
    short, long, rung = per_frame(64, False), per_frame(1472, False), per_frame(64, True)
    byte = (long - short) / (1472 - 64)
    turn = per_turn(64, True)
    # polling also checks the receiver's transmit queues, twice as many
    return Costs(turn, short - 64 * byte, byte, per_drop(), (rung - short) / 2, (per_turn(1024, False) - turn) / 3072)


if __name__ == "__main__":
    for name, value in asdict(measured()).items():
        print(f"{name:6} {value:8.3f} ns   (default: {getattr(Costs(), name)})")
