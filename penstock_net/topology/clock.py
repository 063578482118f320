"""What so many bytes take on a link: exactly, or in whole nanoseconds as in simulators with such a clock (`link_clock`)."""

from collections.abc import Callable
from typing import Any

import numpy as np

Packet = tuple[int, int, int]  # payload of a full one, header, ACK, bytes
Took = Callable[[Any, Any], Any]  # bytes, ps per byte -> ps
NS = 1000


def in_whole_ns(size: Any, rate: Any) -> Any:
    """Time for so many bytes at a rate of ps per byte, cut to whole nanoseconds as in fabric/wire.py; at least one, 0: no such
    link.  ps."""
    return np.where(np.asarray(rate) > 0, np.maximum((size * rate + 1) // NS, 1.0) * NS, 0.0)


CLOCKS: dict[str, Took] = {"ps": np.multiply, "ns": in_whole_ns}
