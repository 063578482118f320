"""Link-level retry: what links have that send lost frames again themselves."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from penstock_net.errors import SpecError
from penstock_net.inputs import below_one, boolean, known_keys, one_of, size_bytes, time_ps, whole

MOST_FRAMES = (1 << 14) - 1  # half of the numbers of frames, which are counted in a circle
MOST_REPLAYS = 1000
ON_FLUSH = ("best_effort", "block", "discard")  # in the order of the core's constants


@dataclass(frozen=True)
class Llr:
    """Link-level retry of links (UEC 1.0, 5.1): frames are kept where they were sent until the other end has them.

    on         whether it is on at first
    frames     that may wait for an acknowledgement
    bytes      of them; `"0B"`: what the link needs for its rate
    timeout    without an acknowledgement, after which all are sent again; `"0s"`: 5 us, and the link's delay there and back
    spacing    bytes of line between two acknowledgements; a frame that is missing is asked for at once
    replays    that may follow one another without an acknowledgement, then it flushes; 0: any number
    on_flush   what becomes of frames until the other end has answered: `best_effort` sends them unprotected, `block` keeps them
               back, `discard` throws them away
    silent     a frame that is lost again when it is sent again is not asked for, and waits for the timeout
    ack_loss   probability that an acknowledgement is lost
    unseen     probability that nothing is noticed of a frame that is lost, until the next one comes; otherwise it is damaged
    """

    on: bool = True
    frames: int = MOST_FRAMES
    bytes: str | int = "0B"
    timeout: str | int | float = "0s"
    spacing: str | int = "2048B"
    replays: int = 0
    on_flush: str = "best_effort"
    silent: bool = False
    ack_loss: float = 0.0
    unseen: float = 0.0

    def __post_init__(self) -> None:
        boolean(self.on, "llr.on")
        boolean(self.silent, "llr.silent")
        whole(self.frames, "llr.frames", 1, MOST_FRAMES)
        size_bytes(self.bytes, "llr.bytes")
        time_ps(self.timeout, "llr.timeout")
        size_bytes(self.spacing, "llr.spacing")
        whole(self.replays, "llr.replays", 0, MOST_REPLAYS)
        one_of(self.on_flush, "llr.on_flush", ON_FLUSH)
        for name in ("ack_loss", "unseen"):
            if getattr(self, name) != 1:
                below_one(getattr(self, name), f"llr.{name}")

    @classmethod
    def read(cls, table: Mapping[str, Any]) -> "Llr":
        """From a table such as that of a spec.  SpecError names the key."""
        known_keys(table, [field.name for field in fields(cls)], "llr")
        return cls(**table)

    def numbers(self, frame: int) -> dict[str, int]:
        """As the core takes them; `frame`: bytes of a full one.  SpecError: it may keep less than that."""
        most = size_bytes(self.bytes, "llr.bytes")
        if 0 < most < frame:
            rule = f"a frame of {frame} B could never be kept"
            raise SpecError(
                rule, path="topology.llr.bytes", value=self.bytes, remedy="give it more, or 0B for what its link needs"
            )
        return {
            "frames": self.frames,
            "bytes": most,
            "timeout": time_ps(self.timeout, "llr.timeout"),
            "spacing": size_bytes(self.spacing, "llr.spacing"),
            "replays": self.replays,
            "on_flush": ON_FLUSH.index(self.on_flush),
            "silent": int(self.silent),
            "ack_loss": round(self.ack_loss * 2**31),
            "unseen": round(self.unseen * 2**31),
        }
