"""PFC as switches have it, beyond the accounting in pfc.py.

* Response time (IEEE 802.1Qbb, annex O): between the arrival of a PFC frame at a port and its effect. Frames take effect in the
  order in which they came.
* Cells: a packet occupies whole cells of the buffer.
* Headroom pool (SONiC: `xoff` of BUFFER_POOL): each priority group may use up to its own headroom (`xoff` of BUFFER_PROFILE), all
  of them together no more than the pool. The buffer that is shared is what the pool and the reserves leave.
"""

from dataclasses import dataclass, field

from . import pfc


@dataclass
class SlowPort:
    """The end of a link that obeys each frame a response time after it came; several priorities."""

    response: int  # ps
    frames: list[tuple[int, int, bool]] = field(default_factory=list)  # arrival, priority, whether it pauses

    def receive(self, now, priority, pause):
        self.frames.append((now, priority, pause))

    def paused(self, priority, now):
        """What the last frame says that came a response time ago or earlier."""
        told = [pause for came, n, pause in self.frames if n == priority and came + self.response <= now]
        return bool(told) and told[-1]

    def changes(self, priority):
        """(time, whether paused) of each change."""
        out, state = [], False
        for came, n, pause in self.frames:
            if n == priority and pause != state:
                state = pause
                out.append((came + self.response, pause))
        return out


def occupied(size, cell):
    """Bytes of the cells that a packet occupies."""
    cells = 0
    while cells * cell < size:
        cells += 1
    return cells * cell


class PooledSwitch(pfc.Switch):
    """Packets in cells; headroom out of one pool."""

    def __init__(self, buffer, ports, reserve, pool, cell, **more):
        super().__init__(buffer + sum(port.headroom for port in ports) - pool, ports, reserve, **more)
        self.pool, self.cell = pool, cell
        self.full = occupied(pfc.Switch.full, cell)

    def on_enqueue(self, i, size):
        """-> (where, frames sent); where is None for a packet that is dropped, "pool" if only the pool was full."""
        size = occupied(size, self.cell)
        used = sum(port.headroom_bytes for port in self.ports)
        port = self.ports[i]
        if port.headroom_bytes > 0:  # what follows goes there too, as long as something is there
            where, frames = ((0, 0, size), []) if port.headroom_bytes + size <= port.headroom else (None, self.refuse(i))
            if where and used + size <= self.pool:
                port.headroom_bytes += size
        else:
            before = (port.reserve_bytes, port.shared_bytes, port.headroom_bytes, port.paused)
            where, frames = super().on_enqueue(i, size)
            if where and where[2] and used + where[2] > self.pool:
                port.reserve_bytes, port.shared_bytes, port.headroom_bytes, port.paused = before
        if where and where[2] and used + where[2] > self.pool:
            return "pool", self.refuse(i)
        return where, frames

    def on_dequeue(self, i, size):
        return super().on_dequeue(i, occupied(size, self.cell))
