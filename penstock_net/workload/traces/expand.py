"""Collectives of traces as messages between the members of a group: `algorithms.expand`, and what it has not.

all_reduce, all_gather, reduce_scatter   ring; of fewer bytes than members: a tree, and direct messages
all_to_all, gather, scatter              direct messages, all at once
                                         or, all_reduce and all_to_all, another algorithm that is asked for
broadcast, reduce                        a binary tree from the root, and to it
barrier                                  a tree of 1 byte, up and down
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from penstock_net.topology.scale_up import Servers
from penstock_net.workload import algorithms
from penstock_net.workload.flows import csr


@dataclass(frozen=True, eq=False)
class Schedule:
    """Messages: src, dst (places in the group) and bytes; message child[i] waits for parent[i], which its sender receives.

    algorithm  as in the head of this file
    relayed    bool: the receiver only passes it on; None: no message
    """

    algorithm: str
    members: int
    src: np.ndarray
    dst: np.ndarray
    bytes: np.ndarray
    child: np.ndarray
    parent: np.ndarray
    relayed: np.ndarray | None = None

    @cached_property
    def waits(self) -> np.ndarray:
        """Whether a message waits for another one."""
        waits = np.zeros(len(self.src), dtype=bool)
        waits[self.child] = True
        return waits

    @cached_property
    def _by_sender(self) -> tuple[np.ndarray, np.ndarray]:
        return csr(self.src, np.arange(len(self.src)), self.members)

    @cached_property
    def _by_receiver(self) -> tuple[np.ndarray, np.ndarray]:
        kept = np.arange(len(self.src)) if self.relayed is None else np.flatnonzero(~self.relayed)
        return csr(self.dst[kept], kept, self.members)

    def sent_by(self, member: int) -> np.ndarray:
        """The messages that a member sends."""
        offsets, messages = self._by_sender
        return messages[offsets[member] : offsets[member + 1]]

    def received_by(self, member: int) -> np.ndarray:
        """The messages that a member receives for itself."""
        offsets, messages = self._by_receiver
        return messages[offsets[member] : offsets[member + 1]]


def at_most(kind: str, members: int) -> int:
    """How many messages a collective has, or a few more."""
    steps = {"all_reduce": 2 * (members - 1), "all_gather": members - 1, "reduce_scatter": members - 1, "all_to_all": members - 1}
    return steps.get(kind, 2) * members


@lru_cache(maxsize=256)
def expand(
    kind: str, members: int, size: int, root: int = 0, algorithm: str = "", places: tuple[tuple[int, int], ...] = ()
) -> Schedule:
    """The messages of a collective of `dag.COLLECTIVES`; `size` as in `dag.Call`.

    algorithm  where it has not fewer bytes than members; "": as in the head of this file
    places     server and place in it of each member, for algorithms that need them
    """
    n = members
    if n == 1 or (not size and kind != "barrier"):
        return _direct(n, *np.empty((3, 0), dtype=np.int64))
    if kind == "barrier" or (kind == "all_reduce" and size < n):
        return _of("tree", n, algorithms.expand("all_reduce", n, 1 if kind == "barrier" else size, algorithm="tree"))
    if kind in ("broadcast", "reduce"):
        down = _of("tree", n, algorithms.expand("broadcast", n, size, algorithm="tree", root=root))
        return down if kind == "broadcast" else Schedule("tree", n, down.dst, down.src, down.bytes, down.parent, down.child)
    pieces = algorithms.cut(size, n)
    if kind in ("gather", "scatter"):
        other, one = np.delete(np.arange(n), root), np.full(n - 1, root)
        src, dst = (other, one) if kind == "gather" else (one, other)
        return _direct(n, src, dst, pieces[other])
    if size >= n:
        algorithm = algorithm or algorithms.default_algorithm(kind)
        server, place = np.array(places).reshape(-1, 2).T
        servers = Servers(server, place) if places else None
        return _of(algorithm, n, algorithms.expand(kind, n, size, algorithm=algorithm, servers=servers))
    shift, src = (axis.ravel() for axis in np.mgrid[1:n, 0:n])
    dst = (src + shift) % n
    return _direct(n, src, dst, pieces[src if kind == "all_gather" else dst])


def _of(algorithm: str, members: int, messages: algorithms.Messages) -> Schedule:
    columns = (messages.src, messages.dst, messages.bytes, messages.child, messages.parent, messages.relayed)
    return Schedule(algorithm, members, *columns)


def _direct(n: int, src: np.ndarray, dst: np.ndarray, size: np.ndarray) -> Schedule:
    """Messages that wait for nothing; those of 0 bytes are not sent."""
    kept, none = size > 0, np.empty(0, dtype=np.int64)
    return Schedule("direct", n, src[kept], dst[kept], size[kept], none, none)
