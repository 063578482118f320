"""Virtual cut-through: which switches forward a packet when its header has arrived, and what a flow alone takes then."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from penstock_net.errors import SpecError, nearest
from penstock_net.inputs import boolean, elements, size_bytes, within_range

HEADER = "64B"  # as of HPE's 5700, and the smallest frame; what a switch of RoCE parses, Ethernet to BTH, is 54 to 74 bytes
MOST = 9216  # of a header, bytes
SAME = 1e-3  # ps: times of different sums that are the same


def headers(which: Any, header: Any, given: np.ndarray, names: Sequence[str], tier: np.ndarray) -> np.ndarray:
    """int64 by switch: after so many bytes it may forward a packet; 0: it stores and forwards.

    which   True or False: all of them, but those within servers; patterns of names; None: those that `given` has
    header  bytes, such as "64B"; None: that of `given`, or HEADER
    """
    size = size_bytes(header if header is not None else int(given.max()) or HEADER, "cut_through_header")
    within_range(size, "cut_through_header", 1, MOST, header)
    if which is None:
        if not given.any():
            raise SpecError("no switch cuts through", path="cut_through_header", value=header, remedy="add cut_through = true")
        return np.where(given > 0, size, 0)
    able = tier > 0
    if isinstance(which, (bool, np.bool_)) or not isinstance(which, (list, tuple)):
        return np.where(able & boolean(which, "cut_through"), size, 0)
    chosen = np.zeros(len(names), dtype=bool)
    for i, pattern in enumerate(elements(which, "cut_through", 'such as ["spine*"]')):
        found = np.array([fnmatchcase(name, str(pattern)) for name in names]) & able
        if not isinstance(pattern, str) or not found.any():
            rule = "is no pattern of the names of switches; those within servers store and forward"
            remedy = nearest(str(pattern), [name for name, may in zip(names[-2000:], able[-2000:]) if may])
            raise SpecError(rule, path=f"cut_through.{i}", value=pattern, remedy=remedy or "such as tor*")
        chosen |= found
    return np.where(chosen, size, 0)


def described(found: np.ndarray, names: Sequence[str], tier: np.ndarray) -> str:
    """A line about what `headers` found."""
    cut = np.flatnonzero(found)
    if (found[tier > 0] > 0).all():
        return f"cut-through   all switches, after {found[cut[0]]} B of a packet"
    shown = ", ".join(names[i] for i in map(int, cut[:8])) + (f" and {len(cut) - 8} more" if len(cut) > 8 else "")
    return f"cut-through   {shown}, after {found[cut[0]]} B of a packet; the others store and forward"


def lone_times_ps(
    there: list[np.ndarray],
    back: list[np.ndarray],
    header: list[np.ndarray],
    delays: tuple[np.ndarray, np.ndarray],
    sizes: np.ndarray,
    mtu: int,
    overhead: int,
    ack: int,
) -> tuple[np.ndarray, np.ndarray]:
    """`routes.lone_times_ps` where switches cut through: header[i] is of the node behind link i of there + back.

    Packet by packet, until all links have the pace of the slowest before them and each packet meets what the one before it met;
    then the rest but the last follow at that pace. That is after some packets a link.
    """
    full = (sizes - 1) // mtu
    last = sizes - full * mtu + overhead
    state = _Tandem(np.array(there + back), np.array(header), len(there), ack)
    going = np.flatnonzero(full > 0)
    number = 0
    while len(going):
        steady = state.send(going, np.full(len(going), mtu + overhead))
        number += 1
        left = full[going] - number
        state.repeat(going[steady], left[steady])
        going = going[~steady & (left > 0)]
    state.send(np.arange(len(sizes)), last)
    received = state.done[len(there) - 1] + delays[0]
    return received.astype(np.int64), (state.done[-1] + delays[0] + delays[1]).astype(np.int64)


class _Tandem:
    """Links one behind another that packets of each of many flows take, without their delays, which move all times alike.

    done[i]   when link i has sent the last packet so far, float64 by flow, ps
    began[i]  when it began to; before the first one: NaN
    """

    def __init__(self, rates: np.ndarray, header: np.ndarray, there: int, ack: int):
        self.rates, self.header, self.there, self.ack = rates, header, there, ack
        self.done, self.began = np.zeros_like(rates), np.full_like(rates, np.nan)

    def send(self, flows: np.ndarray, size: np.ndarray) -> np.ndarray:
        """The next packet of some flows, of so many bytes, and its ACK; returns of which flows all others will follow alike."""
        pace = np.zeros(len(flows))
        steady = np.ones(len(flows), dtype=bool)
        whole = head = np.zeros(len(flows))  # when all of it, its header has arrived at the next link
        may_cut = steady & False
        for i, (rate, header) in enumerate(zip(self.rates[:, flows], self.header[:, flows])):
            size = size if i != self.there else np.full(len(flows), self.ack)
            free, took = self.done[i, flows], size * rate
            cuts = may_cut & (took >= whole - head) & (free <= head + 1)
            start = np.maximum(np.where(cuts, head, whole), free)
            slower = took > pace
            pace = np.maximum(pace, took)
            steady &= (np.abs(start - self.began[i, flows] - pace) < SAME) & ~(slower & cuts)
            self.began[i, flows], self.done[i, flows] = start, start + took
            whole, head = start + took, start + np.ceil(header * rate - SAME)
            may_cut = (header > 0) & (size > header)
        return steady

    def repeat(self, flows: np.ndarray, count: np.ndarray) -> None:
        """So many more packets of each of these flows, at the pace of the last one."""
        took = (self.done - self.began)[:, flows]
        more = count * np.maximum.accumulate(took, axis=0)
        self.began[:, flows] += more
        self.done[:, flows] += more
