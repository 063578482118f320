"""Priority flow control with a dynamic threshold on a shared buffer (HPCC, SIGCOMM 2019, section 5.1: "PFC is triggered
when an ingress queue consumes more than 11 % of the free buffer"), and the accounting of the HPCC simulator.

Buffer = reserve of every port + headroom of every port + shared. A packet goes to its ingress port's reserve, then to
the shared buffer while the port stays within the threshold, then to its headroom; it is dropped when the headroom is
full as well, and pauses then, too: what exceeds the threshold does. free = shared buffer not in use by any port. A port
is an ingress port, or a pair (port, priority).
Resume: headroom empty and (shared use 0, or shared use + 3 KiB <= threshold), looked at when a packet of it leaves.

Of IEEE 802.1Qbb, clause 36: a PFC frame has a priority_enable_vector and eight times, in quanta of 512 bits of the link; it sets
the timer of each priority that it enables, 0 ends a pause. The eight timers run apart, and frames being sent are finished.
A priority without PFC has no headroom and never pauses: what exceeds its share of the buffer is dropped.
"""

from dataclasses import dataclass
from typing import NamedTuple

QUANTUM_BITS = 512
LONGEST = 0xFFFF  # quanta


class Frame(NamedTuple):
    kind: str  # "pause" | "resume"
    port: int


class PfcFrame(NamedTuple):
    priority_enable_vector: int  # bit n: time[n] is to be obeyed
    time: tuple[int, ...]  # of eight priorities, quanta


def pfc_frame(priority, pause):
    """A frame about one priority."""
    return PfcFrame(1 << priority, tuple(LONGEST if pause and n == priority else 0 for n in range(8)))


def state_frame(paused):
    """A frame about all priorities: those in `paused` are paused, the others are not."""
    return PfcFrame(0xFF, tuple(LONGEST if n in paused else 0 for n in range(8)))


class PausedPort:
    """The end of a link that obeys PFC frames: until when each priority is paused, ps."""

    def __init__(self, ps_per_byte):
        self.quantum_ps = QUANTUM_BITS // 8 * ps_per_byte
        self.until = [0] * 8

    def receive(self, frame, now):
        for n in range(8):
            if frame.priority_enable_vector >> n & 1:
                self.until[n] = now + frame.time[n] * self.quantum_ps

    def may_start(self, priority, now):
        """Whether a frame of this priority may be given to the MAC."""
        return now >= self.until[priority]


@dataclass
class Port:
    headroom: int  # bytes
    alpha: tuple[int, int]  # threshold = free * alpha[0] // alpha[1]
    reserve_bytes: int = 0
    shared_bytes: int = 0
    headroom_bytes: int = 0
    paused: bool = False
    lossless: bool = True
    own_reserve: int | None = None  # instead of the switch's

    def __post_init__(self):
        if not self.lossless:
            self.headroom = 0

    @property
    def static(self):
        """Nothing of it is shared: the reserve is XOFF, and XON lies the resume offset below."""
        return self.alpha[0] == 0


def headroom(ps_per_byte, delay_ps):
    """3 x rate x delay."""
    return 3 * delay_ps // ps_per_byte


def paper(buffer, headrooms, ports=None):
    """11 % of the free buffer, no reserve, paused when the use is *more than* the threshold."""
    return Switch(buffer, [Port(h, (11, 100)) for h in headrooms], reserve=0, pause_at_threshold=False)


def ns3(buffer, headrooms, rate_ratios=None):
    """Shift 3 (one less per doubling of the port's rate over the NIC's), 4 KiB reserve, paused *at* the threshold."""
    ratios = rate_ratios or [1] * len(headrooms)
    shifts = [max(0, 3 - (ratio.bit_length() - 1)) for ratio in ratios]
    ports = [Port(h, (1, 1 << shift)) for h, shift in zip(headrooms, shifts, strict=True)]
    return Switch(buffer, ports, reserve=4096, pause_at_threshold=True)


class Switch:
    full = 1048  # bytes of a full packet

    def __init__(self, buffer, ports, reserve, pause_at_threshold, resume_offset=3072):
        self.ports = ports
        self.reserve = reserve
        self.pause_at_threshold = pause_at_threshold
        self.resume_offset = resume_offset
        self.shared = buffer - sum(p.headroom + self.reserve_of(p) for p in ports)
        if self.shared <= 0:
            raise ValueError("headroom and reserve leave no shared buffer")

    def reserve_of(self, port):
        return self.reserve if port.own_reserve is None else port.own_reserve

    def threshold(self, port):
        free = max(0, self.shared - sum(p.shared_bytes for p in self.ports))
        return free * port.alpha[0] // port.alpha[1]

    def on_enqueue(self, i, size):
        """-> (where, frames sent); `where` is how the packet's bytes are spread: (reserve, shared, headroom), or None
        for a packet that is dropped."""
        port = self.ports[i]
        to_reserve = min(size, self.reserve_of(port) - port.reserve_bytes)
        to_shared = size - to_reserve
        over = to_shared > 0 and port.shared_bytes + to_shared > self.threshold(port)
        if over and port.headroom_bytes + size > port.headroom:
            return None, self.refuse(i)
        if over:
            port.headroom_bytes += size
            where = (0, 0, size)
        else:
            port.reserve_bytes += to_reserve
            port.shared_bytes += to_shared
            where = (to_reserve, to_shared, 0)
        if not port.paused and self.should_pause(port):
            port.paused = True
            return where, [Frame("pause", i)]
        return where, []

    def on_dequeue(self, i, size):
        """-> frames sent. Bytes leave the headroom first, then the shared buffer, then the reserve."""
        port = self.ports[i]
        from_headroom = min(size, port.headroom_bytes)
        from_shared = min(size - from_headroom, port.shared_bytes)
        port.headroom_bytes -= from_headroom
        port.shared_bytes -= from_shared
        port.reserve_bytes -= size - from_headroom - from_shared
        assert port.reserve_bytes >= 0
        resumed = [i] if port.paused and self.should_resume(port) else []
        resumed += [j for j, other in enumerate(self.ports) if j != i and other.paused and self.may_try(other)]
        for j in resumed:
            self.ports[j].paused = False
        return [Frame("resume", j) for j in resumed]

    def refuse(self, i):
        """-> frames sent when a packet is dropped: a pause, however small the headroom is; none where nothing stored could leave
        and make room for what is held back."""
        port = self.ports[i]
        if port.paused or not port.lossless or not (port.reserve_bytes or self.stored()):
            return []
        port.paused = True
        return [Frame("pause", i)]

    def may_try(self, port):
        """An ingress that holds nothing sees no packet leave: it resumes when a full packet has room, or when all have left."""
        room = self.reserve_of(port) + self.threshold(port)
        return not (port.reserve_bytes or port.shared_bytes or port.headroom_bytes) and (room >= self.full or not self.stored())

    def stored(self):
        return sum(p.shared_bytes + p.headroom_bytes for p in self.ports)

    def should_pause(self, port):
        if not port.lossless:
            return False
        if port.headroom_bytes > 0:
            return True
        if port.static:
            return port.reserve_bytes >= self.reserve_of(port)
        if self.pause_at_threshold:
            return port.shared_bytes >= self.threshold(port)
        return port.shared_bytes > self.threshold(port)

    def should_resume(self, port):
        if port.headroom_bytes > 0:
            return False
        if port.static:
            return port.reserve_bytes == 0 or port.reserve_bytes + self.resume_offset <= self.reserve_of(port)
        return port.shared_bytes == 0 or port.shared_bytes + self.resume_offset <= self.threshold(port)
