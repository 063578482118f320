"""What led to a failure: the last questions of each task to the simulated world and their answers, steps and frames; and a pcap.

Nothing here draws from the seed, or waits: a run with a trace has the same bits.
"""

import functools
import inspect
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock_net import pcapng
from penstock_net.files import write_file
from penstock_net.vswitch.simulation.laws import Record
from penstock_net.vswitch.world.simulated.kernel import Simulated
from penstock_net.vswitch.world.simulated.parts import BEGIN_NS, DATE_NS, Poll, Set
from penstock_net.vswitch.world.simulated.sockets import Socket

MOST_EVENTS, MOST_FRAMES = 20_000, 50_000  # that are kept: the last
LONGEST = 120  # characters of an argument or an answer
UNTOLD = ("now_ns",)  # each event has its time
OBJECTS: dict[type, tuple[str, ...]] = {  # what is asked of what the world has given
    Socket: ("accept", "bind", "connect", "listen", "recv", "recvmsg", "send", "sendall", "send_fds", "shutdown", "close"),
    Set: ("register", "modify", "unregister", "poll", "close"),
    Poll: ("poll",),
}


class Trace:
    """The last events and frames of a run."""

    def __init__(self, world: Simulated, record: Record, begin: int) -> None:
        self.world, self.names, self.begin = world, record.names, begin
        self.events: deque[str] = deque(maxlen=MOST_EVENTS)
        self.frames: deque[bytes] = deque(maxlen=MOST_FRAMES)
        self.count = 0
        record.see, record.see_frame = self.note, self.frame
        for name, part in world.parts.items():
            for asked, function in list(vars(part).items()):
                if callable(function) and not inspect.isclass(function) and name != "threading":
                    setattr(part, asked, self._told(f"{name}.{asked}", function))
        world.calls = _Calls(self, world)

    def note(self, text: str) -> None:
        """Something has happened: its time, who runs, what it is."""
        self.count += 1
        ms = (self.world.now - self.begin) / 1e6
        self.events.append(f"{ms:13.6f} ms  {self.world.tasks.current.name:<12} {text}")

    def frame(self, at: int, data: bytes, comes_in: bool) -> None:
        """A frame at a port: it goes into the switch, or has come out."""
        flags = pcapng.INBOUND if comes_in else pcapng.OUTBOUND
        self.frames.append(pcapng.packet(at, self.world.now - BEGIN_NS + DATE_NS, data, flags=flags))

    def _told(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, of which each call is noted, and the calls of what it gives."""

        @functools.wraps(function, assigned=(), updated=())
        def ask(*arguments: Any, **named: Any) -> Any:
            given = ", ".join([*map(_text, arguments), *(f"{key}={_text(value)}" for key, value in named.items())])
            try:
                answer = function(*arguments, **named)
            except BaseException as error:
                self.note(f"{name}({given}): {error!r}")
                raise
            self.note(f"{name}({given}) = {_text(answer)}")
            for each in answer if isinstance(answer, tuple) else (answer,):
                for method in OBJECTS.get(type(each), ()):
                    setattr(each, method, self._told(f"{_text(each)}.{method}", getattr(each, method)))
            return answer

        return ask

    # ---- Files ----

    def write_text(self, path: str | Path, failure: str) -> None:
        """The events; `failure` is the last line."""
        first = f"# the last {len(self.events)} of {self.count} events: time since the begin, task, what it has asked = answer"
        lines = [first, *self.events, f"# {failure or 'all laws have held'}"]
        write_file(Path(path), ("\n".join(lines) + "\n").encode())

    def write_pcap(self, path: str | Path) -> None:
        """The frames, as pcapng, with an interface for each port."""
        blocks = [pcapng.section(), *(pcapng.interface(name) for name in self.names), *self.frames]
        write_file(Path(path), b"".join(blocks))


class _Calls:
    """What compiled code asks, noted."""

    def __init__(self, trace: Trace, world: Simulated) -> None:
        self.trace, self.world = trace, world

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self.world, name)
        if name not in UNTOLD:
            asked = self.trace._told(name, asked)
        self.__dict__[name] = asked
        return asked


def _text(value: Any) -> str:
    if isinstance(value, (bytes, bytearray)):
        return f"{len(value)} bytes {bytes(value[:32]).hex()}{'...' if len(value) > 32 else ''}"
    if type(value) in OBJECTS:
        return f"{type(value).__name__.lower()} {getattr(value, 'number', '')}".rstrip()
    text = repr(value)
    if " at 0x" in text:  # which is another one in each process
        return type(value).__name__
    return text if len(text) <= LONGEST else text[:LONGEST] + "..."
