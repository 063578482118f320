"""Applications of the simulated machine, at ports of shared memory."""

from collections import Counter, deque
from select import EPOLLIN
from typing import TYPE_CHECKING

from penstock_net.errors import PenstockError
from penstock_net.vswitch import world
from penstock_net.vswitch.client.client import Port, connect
from penstock_net.vswitch.simulation import frames, lies
from penstock_net.vswitch.simulation.laws import MS
from penstock_net.vswitch.world.simulated.descriptors import Counter as Eventfd

if TYPE_CHECKING:
    from penstock_net.vswitch.simulation.machine import Machine

SHAPE = {"rings": 64, "queues": 2 * frames.SIX + 1, "bells": 64, "buffers": 128, "buffer_bytes": 2048}
WINDOW = 12_000  # bytes of a queue that an application has waiting
FIRST_AGAIN_NS, LAST_AGAIN_NS, LONGEST_SLEEP_NS = 50_000, 2 * MS, 2_000 * MS
ONE = (1).to_bytes(8, "little")


class App:
    """An application at a port: it sends what it is told to, and reads as it is told to."""

    def __init__(self, machine: "Machine", name: str, life: int) -> None:
        self.machine, self.name, self.life = machine, name, life
        self.wanted: deque[tuple[str, int | lies.Lie, bool]] = deque()  # receivers, lengths or lies, whether by IPv6
        self.numbers: Counter[int] = Counter()  # of frames, by queue
        self.most = 32  # frames that it reads at once; 0: it does not read
        self.pause_ns = 0  # between two readings
        self.half = False  # it does not ring for what it sends
        self.over = False
        self.port: Port | None = None
        self.orders = Eventfd(0)  # raised when it is told something
        self.task = machine.world.tasks.process(f"{name}.{life}", self._run)

    def _run(self) -> None:
        record, at = self.machine.record, self.machine.layout.number(self.name)
        while self.port is None:
            try:
                self.port = connect(self.name, self.machine.socket, **SHAPE)
            except PenstockError:
                if self.over:
                    return
                world.time.sleep(0.002)
        if not (self.over or self.half):
            record.calm(at, "not there")
        again_ns = FIRST_AGAIN_NS
        while not self.over:
            sent = self._send()
            came = self.port.receive(self.most) if self.most else []
            for _, data in came:
                record.arrived(data, at)
            if self.port.gone:
                record.disturb(at, "not there")
                break
            if self.pause_ns:
                self._sleep(self.pause_ns)
            elif not self.wanted and not came:
                self._sleep(LONGEST_SLEEP_NS)
            elif not sent and not came:  # its windows are full
                again_ns = min(2 * again_ns, LAST_AGAIN_NS)
                self._sleep(again_ns)
            if sent:
                again_ns = FIRST_AGAIN_NS
        self.port.close()

    def told(self) -> None:
        """Something else is asked of it."""
        self.orders.write(ONE)

    def _sleep(self, ns: int) -> None:
        """Until it is told something, or a frame comes that it may read now, or so long."""
        assert self.port
        files = [self.orders, *(self.machine.world.table.get(fd) for fd in (self.port.connection.fileno(),))]
        if reads := self.most and not self.pause_ns:
            if not self.port.sleep():
                return
            files.append(self.machine.world.table.get(self.port.fileno()))
        self.machine.world.wait(self.machine.world.now + ns, lambda: any(file.ready() & EPOLLIN for file in files), files)
        self.orders.read(8)
        if reads:
            self.port.clear()

    def _send(self) -> int:
        """Send what the windows permit; how many frames that were."""
        assert self.port
        sent = 0
        while self.wanted:
            to, size, by_six = self.wanted[0]
            if isinstance(size, lies.Lie):
                if not self.port.send(lies.QUEUE, [size.data]):
                    break
                self.machine.record.lied(size.data, self.machine.layout.number(self.name), size.to)
                self.wanted.popleft()
                sent += 1
                continue
            queue = self.machine.layout.number(to) + by_six * frames.SIX
            if self.port.waiting(queue) + size > WINDOW:
                break
            found = self.machine.frame(self.name, self.life, queue, to, self.numbers[queue], size)
            if found is None:
                self.wanted.popleft()
                continue
            self.port.region.doorbells = not self.half
            if not self.port.send(queue, [found[1]]):
                break
            self.numbers[queue] += 1
            self.machine.record.accepted(*found)
            self.wanted.popleft()
            sent += 1
        return sent
