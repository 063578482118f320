"""What became of open-loop flows: bytes sent, received and lost, exactly, and what a run says of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock_net.errors import InvariantError
from penstock_net.workload.limits import open_loop

if TYPE_CHECKING:
    from penstock_net.sim.starts import Starts


@dataclass(frozen=True)
class OpenLoop:
    """The open-loop flows of a run.

    numbers         of these flows, ascending
    sent, received  int64, bytes of payload of each
    lost            bytes of payload, as they were counted where they were lost
    afloat          packets that are still on their way
    size            int64, bytes of each flow
    """

    numbers: np.ndarray
    sent: np.ndarray
    received: np.ndarray
    size: np.ndarray
    lost: int
    afloat: int

    @classmethod
    def of(cls, starts: Starts, state: dict[str, Any]) -> OpenLoop | None:
        """None: no flow is open-loop."""
        which = open_loop(starts.flows)
        if which is None or starts.unsent is None or starts.missing is None:
            return None
        numbers = np.flatnonzero(which)
        size = starts.flows.bytes[numbers]
        sent, received = size - starts.unsent[numbers], size - starts.missing[numbers]
        return cls(numbers, sent, received, size, state["lost"], state["afloat"])

    def frame(self) -> dict[str, np.ndarray]:
        """The columns of the frame open_loop."""
        return {
            "flow_id": self.numbers,
            "sent_bytes": self.sent,
            "received_bytes": self.received,
            "lost_bytes": self.sent - self.received,
        }

    def record(self) -> dict[str, Any]:
        """The entry of the summary."""
        sent, received = int(self.sent.sum()), int(self.received.sum())
        return {"flows": len(self.numbers), "sent_bytes": sent, "received_bytes": received, "lost_bytes": self.lost}

    def waiting(self, part: slice) -> np.ndarray:
        """int64: which of the flows of a part have not finished, though all that they have sent was received or lost: no drain
        would finish them."""
        ended = (self.sent == self.size) & (self.received < self.size) & (self.afloat == 0)
        numbers = self.numbers[ended]
        return numbers[(numbers >= part.start) & (numbers < part.stop)]

    def warnings(self) -> list[str]:
        """That something was lost."""
        if not self.lost:
            return []
        short, sent = int(np.count_nonzero(self.received < self.sent)), int(self.sent.sum())
        return [
            f"{short} of {len(self.numbers)} open-loop flows lost {self.lost:,} of {sent:,} bytes ({self.lost / sent:.2%}): what "
            f"lost something never finishes, and has no completion time (open_loop.parquet)"
        ]

    def check(self) -> None:
        """InvariantError: bytes that were sent are neither received nor lost nor on their way, or the reverse."""
        left = int((self.sent - self.received).sum()) - self.lost
        bad = (self.received < 0) | (self.received > self.sent) | (self.sent > self.size)
        if bad.any() or left < 0 or self.afloat < 0 or (left == 0) != (self.afloat == 0):
            raise InvariantError(
                f"open-loop flows have sent {int(self.sent.sum()):,} B, of which {int(self.received.sum()):,} B were received "
                f"and {self.lost:,} B lost, with {self.afloat} packets on their way"
            )
