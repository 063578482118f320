"""The headroom of a lossless scheme: what each ingress must be able to store after it has paused its neighbour.

Between the decision and the last byte from the neighbour there are two delays of the link, and up to three frames: one in
transmission at either end and the one that triggered the pause. With several priorities the pauses of the others, 64 B each,
may go first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.topology.changes import LinkChange
from penstock.units import format_size

if TYPE_CHECKING:
    from penstock.topology import Topology

PAUSE = 64  # bytes of a pause frame


@dataclass(frozen=True)
class Headroom:
    """Headroom and reserve by the parameters of a scheme; arrays are by link, and the same at both of its ends.

    frame  bytes of a full packet with its headers
    """

    topo: Topology
    values: Mapping[str, Any]
    frame: int

    @property
    def priorities(self) -> int:
        return int(self.values.get("priorities", 1))

    def is_lossless(self, priority: int) -> bool:
        return bool(self.values.get("lossless", 1) >> priority & 1)

    def reserve(self, priority: int) -> int:
        """Bytes of each ingress that only this priority can use."""
        own = self.values.get("priority_reserve", ())
        return int((own[priority] if own else 0) or self.values.get("reserve", 0))

    def text_of_threshold(self, priority: int) -> str:
        """What an ingress may hold of a priority before it pauses or drops."""
        own = self.values.get("priority_alpha", ())
        alpha = (own[priority] if own else 0) or self.values.get("alpha", 0)
        reserve = f"{format_size(self.reserve(priority))} of its own"
        return f"threshold {alpha:g} x free buffer + {reserve}" if alpha else f"static threshold, {reserve}"

    @cached_property
    def needed(self) -> np.ndarray:
        """Bytes that can arrive after a pause; no more headroom than that is needed for one priority."""
        bdp = self._bdp
        return 2 * bdp + 3 * (self.frame + PAUSE) + PAUSE * (self.priorities - 1)

    @cached_property
    def of_priority(self) -> np.ndarray:
        """Headroom of one lossless priority, bytes."""
        if self.values.get("headroom_bytes"):
            return np.full(len(self.topo.links), int(self.values["headroom_bytes"]))
        return np.maximum((self.values["headroom"] * self._bdp).astype(np.int64), self.needed)

    @cached_property
    def needs(self) -> np.ndarray:
        """Bytes of headroom and reserve of each node."""
        lossless = sum(self.is_lossless(i) for i in range(self.priorities))
        of_link = lossless * self.of_priority + sum(self.reserve(i) for i in range(self.priorities))
        found = np.zeros(self.topo.nodes, dtype=np.int64)
        for end in "ab":
            np.add.at(found, self.topo.links[end], of_link)
        return found

    @property
    def spare(self) -> int:
        """Bytes that a switch needs beside: a packet, and with several priorities another one that an alpha above 1 may take."""
        return self.frame if self.priorities == 1 else 2 * self.frame + PAUSE

    @cached_property
    def _bdp(self) -> np.ndarray:
        """Rate x delay, bytes, at the highest rate that a link ever has."""
        links = self.topo.links
        fastest = links["ps_per_byte"].copy()
        for change in self.topo.changes:
            if isinstance(change, LinkChange) and change.ps_per_byte:
                fastest[change.link] = min(fastest[change.link], change.ps_per_byte)
        bdp: np.ndarray = links["delay_ps"] // fastest + 1
        return bdp
