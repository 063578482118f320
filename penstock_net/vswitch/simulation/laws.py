"""What holds on every schedule: the record of frames that were sent and have come, and what is checked of it."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from penstock_net.errors import PenstockError
from penstock_net.vswitch.simulation import frames
from penstock_net.vswitch.simulation.frames import Flow, Frame

MS = 1_000_000
BOUND_NS = 25 * MS  # in which a frame arrives between two ports with which nothing is wrong
CLASS_BOUND_NS = 600 * MS  # in which it does if its flow has a class of an edge, since its receiver did not read
MACS = 12  # bytes of a frame's Ethernet addresses
LONGEST = 64  # frames that a failure names


class Broken(PenstockError):
    """A law did not hold."""


class Record:
    """All frames of a run. A port is disturbed while something is wrong with it that was done to it."""

    def __init__(self, now: Callable[[], int], names: list[str]) -> None:
        self.now, self.names = now, names
        self.under_way: dict[Frame, int] = {}  # when they were accepted
        self.in_class: dict[Frame, int] = {}  # the same, of those that wait in a class of an edge at first
        self.may_be_late: dict[Frame, int] = {}  # of these, those whose ports something was wrong with when they were late
        self.last: dict[Flow, int] = {}  # the last number that has come
        self.sent = self.came = 0
        # Of frames that lie, without their Ethernet addresses: how many have not come, and the port to which they may.
        self.lies: dict[bytes, tuple[int, int | None]] = {}
        self.lies_left = 0  # those that have not come, and questions without an answer, of which that counts
        self.perhaps_counted = 0  # those of which it does not: who loses one before the switch has read it may count it
        # Who has asked at a port for an address: when, and of which port that is.
        self.questions: dict[tuple[int, bytes, bytes], list[tuple[int, int]]] = {}
        self.late_questions: dict[tuple[int, bytes, bytes], list[tuple[int, int]]] = {}  # the same, of those that may be late
        self.ignored: Counter[str] = Counter()  # frames that came where no program was that takes them
        self.disturbed: dict[int, set[str]] = {}  # reasons, by number of the port
        self.disturbed_until: dict[int, int] = {}
        self.awake_ns = 0  # when what stood still has gone on
        self.events = hashlib.blake2b(digest_size=16)
        self.see: Callable[[str], None] = _nobody  # is told of each event, and
        self.see_frame: Callable[[int, bytes, bool], None] = _nobody  # of each frame: at which port, and whether it goes in
        self.may_pause_all = False  # who does not read pauses also those who send to others
        self.sent_by: Counter[int] = Counter()  # frames, by number of the port
        self.came_to: Counter[int] = Counter()
        # Ports at which nothing may be wrong, or a frame of a flow may be late; and what a frame's place in its flow is.
        self.needs: Callable[[Flow], Sequence[int]] = lambda flow: (flow.source, flow.target)
        self.place: Callable[[Frame], int] = lambda frame: frame.number
        self.failure = ""  # the first that was seen where nobody could be told

    # ---- What happens ----

    def note(self, *what: object) -> None:
        """An event of the run."""
        self.events.update(repr((self.now(), *what)).encode())
        if self.see is not _nobody:
            self.see(" ".join(map(str, what)))

    def accepted(self, frame: Frame, data: bytes, in_class: bool = False) -> None:
        """The switch, or the kernel in front of it, has taken a frame; in_class: of a flow that has a class of an edge."""
        if self.see is not _nobody:
            self.see(f"sent {self.text(frame)}")
        self.see_frame(frame.flow.source, data, True)
        (self.in_class if in_class else self.under_way)[frame] = self.now()
        self.sent += 1
        self.sent_by[frame.flow.source] += 1

    def lied(self, data: bytes, at: int, to: int | None, counts: bool = True) -> None:
        """A frame that lies was taken, which may come to a port at most; counts: as one that has not come, until it has."""
        self.note("lie", at, data)
        self.see_frame(at, data, True)
        content = data[MACS:]
        self.lies[content] = (self.lies.get(content, (0, to))[0] + 1, to)
        self.lies_left += counts
        self.perhaps_counted += not counts
        self.sent += counts
        self.sent_by[at] += counts

    def _lie_came(self, data: bytes, at: int) -> None:
        content = data[MACS:]
        left, to = self.lies[content]
        self.note("lie came", at, data)
        self.see_frame(at, data, False)
        if to != at or not left:
            what = "twice" if to == at else f"to {self.names[at]}"
            self.fail(f"a frame that lies came {what}: {data[:LONGEST].hex()}")
        self.lies[content] = (left - 1, to)
        self.lies_left -= 1
        self.came += 1
        self.came_to[at] += 1

    def arrived(self, data: bytes, at: int) -> None:
        """A program has received a frame at a port."""
        if data[MACS:] in self.lies:
            self._lie_came(data, at)
            return
        frame = frames.read(data)
        self.events.update(f"({self.now()}, 'came', {at}, {frame!r})".encode())  # as `note` does, for what happens most
        if self.see is not _nobody:
            self.see(f"came {at} {frame}")
        self.see_frame(at, data, False)
        among = self._among(frame)
        if frame is None:
            self.fail(f"a frame that nobody sent came to {self.names[at]}: {data[:LONGEST].hex()}")
        elif frame.flow.target != at:
            self.fail(f"{self.text(frame)} came to {self.names[at]}")
        elif among is None:
            self.fail(f"{self.text(frame)} came twice")
        elif self.last.get(frame.flow, -1) >= self.place(frame):
            self.fail(f"{self.text(frame)} came after number {self.last[frame.flow]}")
        else:
            self.last[frame.flow] = self.place(frame)
            del among[frame]
            self.came += 1
            self.came_to[at] += 1

    def asked(self, at: int, to: int, who: bytes, target: bytes, data: bytes) -> None:
        """A program at a port asks for an address; by IPv6 that counts as a frame that has not come, until it is answered."""
        self.note("asked", at, target)
        self.see_frame(at, data, True)
        self.questions.setdefault((at, who, target), []).append((self.now(), to))
        self._count_question(at, target, 1)

    def _count_question(self, at: int, target: bytes, sent: int) -> None:
        if len(target) == 16:  # of those by ARP nobody counts which the switch does not answer
            self.sent += sent
            self.sent_by[at] += sent
            self.came += 1 - sent
            self.came_to[at] += 1 - sent
            self.lies_left += 2 * sent - 1

    def answered(self, data: bytes, at: int, who: bytes, target: bytes, is_right: bool) -> None:
        """The switch has answered."""
        self.note("answered", at, target, is_right)
        self.see_frame(at, data, False)
        waiting = self.questions.get((at, who, target)) or self.late_questions.get((at, who, target))
        if waiting and is_right:
            waiting.pop(0)
            self._count_question(at, target, 0)
        else:
            why = "is wrong" if waiting else "nobody waits for"
            self.fail(f"an answer came to {self.names[at]} that {why}: {data[:LONGEST].hex()}")

    def _check_questions(self) -> None:
        late = self.now() - BOUND_NS
        for key, waiting in self.questions.items():
            while waiting and waiting[0][0] <= late:
                since, to = waiting.pop(0)
                if self.is_fine(key[0], since) and self.is_fine(to, since):
                    raise Broken(f"{self.names[key[0]]} has no answer to who has {key[2].hex()} in {BOUND_NS // MS} ms")
                self.late_questions.setdefault(key, []).append((since, to))

    def unanswered(self, address_bytes: int = 16) -> int:
        """Questions for addresses of that length, those of IPv6, that have no answer, since something was wrong."""
        return sum(len(waiting) for key, waiting in self.late_questions.items() if len(key[2]) == address_bytes)

    def ignore(self, data: bytes, at: int, why: str) -> None:
        """A frame came to an interface, and no program there takes it."""
        if data[MACS:] in self.lies:
            self._lie_came(data, at)
            return
        frame = frames.read(data)
        self.note("ignored", at, frame, why)
        self.see_frame(at, data, False)
        among = self._among(frame)
        if frame is None or among is None:
            self.fail(f"a frame that nobody sent came to {self.names[at]}, {why}: {data[:LONGEST].hex()}")
            return
        if self.is_fine(at, among.pop(frame)):
            self.fail(f"{self.text(frame)} came to {self.names[at]}, where no program takes it: {why}")
        self.ignored[why] += 1

    def _among(self, frame: Frame | None) -> dict[Frame, int] | None:
        """The frames that have not come among which it is; None: it is none of them."""
        for found in (self.under_way, self.in_class, self.may_be_late):
            if frame in found:
                return found
        return None

    def not_come(self) -> list[Frame]:
        """Frames that were accepted, and of which nobody knows more."""
        return [frame for found in (self.under_way, self.in_class, self.may_be_late) for frame in found]

    def moved(self) -> int:
        """So often a frame has been sent, or has come."""
        return self.sent + self.came + self.ignored.total()

    def fail(self, why: str) -> None:
        self.failure = self.failure or why

    def text(self, frame: Frame) -> str:
        flow = frame.flow
        return f"frame {frame.number} of {self.names[flow.source]}.{flow.life} queue {flow.queue} to {self.names[flow.target]}"

    # ---- What is wrong on purpose ----

    def disturb(self, at: int, why: str) -> None:
        """From now on something is wrong with a port."""
        self.disturbed.setdefault(at, set()).add(why)

    def calm(self, at: int, why: str) -> None:
        """It is so no longer."""
        if why in self.disturbed.get(at, set()):
            self.disturbed[at].discard(why)
            self.disturbed_until[at] = self.now()

    def is_fine(self, at: int, since: int) -> bool:
        """Whether nothing has been wrong with a port since then."""
        return not self.disturbed.get(at) and self.disturbed_until.get(at, -1) < since

    def stood(self, ns: int) -> None:
        """Everything has stood still for a time, which counts for nothing."""
        for found in (self.under_way, self.in_class):
            for frame in found:
                found[frame] += ns
        for waiting in self.questions.values():
            waiting[:] = [(since + ns, to) for since, to in waiting]
        for at in self.disturbed_until:
            self.disturbed_until[at] += ns
        self.awake_ns = self.now()

    # ---- Laws ----

    def check(self) -> None:
        """Broken: a frame was not as it should be, or is late though nothing is wrong with either of its ports."""
        if self.failure:
            raise Broken(self.failure)
        self._check(self.under_way, BOUND_NS)
        self._check(self.in_class, CLASS_BOUND_NS)
        self._check_questions()

    def _check(self, found: dict[Frame, int], bound_ns: int) -> None:
        late = self.now() - bound_ns
        excused = []
        for frame, since in found.items():
            if since > late:
                break
            fine = all(self.is_fine(at, since) for at in self.needs(frame.flow))
            if fine and not self.may_pause_all:
                raise Broken(f"{self.text(frame)} has not come in {bound_ns // MS} ms, with nothing wrong at either port")
            excused.append(frame)
        for frame in excused:  # for ever: each is looked at once
            self.may_be_late[frame] = found.pop(frame)

    def account(self, counted: Counter[str]) -> None:
        """Broken: frames that have not come are not those that are counted, by what counts them."""
        missing = self.sent - self.came - self.ignored.total()
        if not 0 <= counted.total() - missing <= self.perhaps_counted + self.unanswered(4):
            names = ", ".join(f"{number} {reason}" for reason, number in counted.items() if number)
            first = ", ".join(self.text(frame) for frame in [*self.may_be_late, *self.in_class, *self.under_way][:3])
            raise Broken(f"{missing} frames have not come, and {counted.total()} are counted ({names}); the first: {first}")


def _nobody(*_: object) -> None:
    pass


def joined(counters: Iterable[Counter[str]]) -> Counter[str]:
    """Their sum."""
    found: Counter[str] = Counter()
    for each in counters:
        found.update(each)
    return found
