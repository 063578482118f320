"""The network between two simulated switches, and what it knows of each frame: which it has lost, and in which order they came.

It reads datagrams of the overlay (docs/vswitch-overlay.md): frames are in FRAME, or in FIRST, MIDDLE and LAST.
"""

from typing import TYPE_CHECKING

from penstock_net.vswitch.simulation import frames
from penstock_net.vswitch.simulation.frames import Frame
from penstock_net.vswitch.simulation.laws import MACS, MS

if TYPE_CHECKING:
    from penstock_net.vswitch.simulation.pair import Pair
    from penstock_net.vswitch.world.simulated.datagrams import Address

CONTENT_AT, KIND_AT, SESSION, NUMBER = 40, 3, slice(8, 16), slice(16, 24)
STATE, FRAME, FIRST, MIDDLE, LAST = 2, 5, 6, 7, 8
Datagram = tuple[bytes, bytes, bytes]  # its sender, session and number
LATEST_NS = 30 * MS  # more than that no datagram is late


class Wire:
    """What it does to datagrams now, and what it has done."""

    def __init__(self, pair: "Pair", delay_ns: int) -> None:
        self.pair, self.usual_ns = pair, delay_ns
        self.loss = self.doubles = self.late = 0.0  # of the datagrams
        self.more_ns = 0  # that each takes
        self.is_cut = False
        self.frame_of: dict[tuple[bytes, bytes], Frame] = {}  # of datagrams with a part of one, by session and number
        self.lies: dict[bytes, Frame] = {}
        self.places: dict[Frame, int] = {}  # in which order they came
        self.sent: dict[frames.Flow, int] = {}  # the last number of each flow
        self.lost: dict[Datagram, Frame | None] = {}  # of which a copy was lost, and
        self.came: set[Datagram] = set()  # of which one has come
        pair.world.network.fates, pair.world.network.see = self.fates, self.see

    def calm(self) -> None:
        self.loss = self.doubles = self.late = 0.0
        self.more_ns, self.is_cut = 0, False

    def fates(self, source: "Address", target: "Address", parts: list[bytes]) -> list[list[int]]:
        """Delays of the copies of each datagram."""
        draw = self.pair.world.random
        found: list[list[int]] = []
        for _ in parts:
            copies = 0 if self.is_cut or draw.random() < self.loss else 2 if draw.random() < self.doubles else 1
            found.append([self._delay() for _ in range(copies)])
        return found

    def _delay(self) -> int:
        draw = self.pair.world.random
        late = draw.randrange(LATEST_NS) if draw.random() < self.late else 0
        return self.usual_ns + self.more_ns + late

    # ---- What it sees ----

    def see(self, what: str, source: "Address", data: bytes) -> None:
        self.pair.forger.see(what, source, data)
        if len(data) < CONTENT_AT or not STATE <= data[KIND_AT] <= LAST:
            return
        frame, datagram = self._frame(data), (source.host, data[SESSION], data[NUMBER])
        if what in ("lost", "full"):
            self.lost[datagram] = frame
        elif what == "came":
            self.came.add(datagram)
        if frame is None:
            return
        if what == "sent" and data[KIND_AT] in (FRAME, FIRST):
            if self.sent.get(frame.flow, -1) >= frame.number:
                self.pair.record.fail(f"{self.pair.record.text(frame)} was sent after number {self.sent[frame.flow]}")
            self.sent[frame.flow] = frame.number
        elif what == "came" and data[KIND_AT] in (FRAME, LAST):
            self.places.setdefault(frame, len(self.places))

    def lost_from(self, host: bytes) -> int:
        """Datagrams of a sender that have not come: those that the other end should miss."""
        return sum(datagram[0] == host and datagram not in self.came for datagram in self.lost)

    def lost_frames(self) -> int:
        return len({frame for datagram, frame in self.lost.items() if frame and datagram not in self.came})

    def _read(self, content: bytes) -> Frame:
        """What a frame is; one that lies is a flow of its own."""
        lie = content[MACS:]
        if lie not in self.pair.record.lies:
            return frames.marked(content)
        return self.lies.setdefault(lie, Frame(frames.Flow(-1, 0, len(self.lies), 0, 0), 0))

    def _frame(self, data: bytes) -> Frame | None:
        """The frame of which a datagram has bytes."""
        kind, session, number = data[KIND_AT], data[SESSION], int.from_bytes(data[NUMBER], "little")
        if kind == FRAME:
            return self._read(data[CONTENT_AT:])
        if kind == FIRST:
            self.frame_of[session, data[NUMBER]] = frames.marked(data[CONTENT_AT:])
        elif kind in (MIDDLE, LAST) and (session, data[NUMBER]) not in self.frame_of:
            before = (number - 1).to_bytes(8, "little")
            if (session, before) in self.frame_of:
                self.frame_of[session, data[NUMBER]] = self.frame_of[session, before]
        return self.frame_of.get((session, data[NUMBER])) if kind in (FIRST, MIDDLE, LAST) else None
