"""Jobs as graphs of tasks: computations, messages and collectives of ranks, each after others, as flows.

    graph = TaskGraph(hosts)                              # hosts[r] is the host of rank r
    ready = graph.begin(ranks)                            # numbers of tasks, one per rank
    ready = graph.compute(ranks, 10**6, [ready])          # 1 us on each rank
    ready = graph.collective("all_reduce", groups, 10**6, [ready.reshape(groups.shape)])
    flows = graph.flows()

A computation is a flow from a host to itself: it starts its gap after the last of what it waits for, which may be messages from
several hosts and computations of its own host, and is done at that moment. All numbers are those of the flows.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from penstock_net.errors import SpecError
from penstock_net.inputs import MAX_TIME_PS, one_of
from penstock_net.topology.scale_up import Servers
from penstock_net.workload.algorithms import ALGORITHMS, PXN, WITHIN_SERVERS, default_algorithm, expand, in_servers
from penstock_net.workload.connections import ALONE, CONNECTIONS, numbered
from penstock_net.workload.flows import Flows, class_name, class_number, csr
from penstock_net.workload.latency import latency_of
from penstock_net.workload.operations import SEND, Operation, Operations

MAX_TASKS = 2**27  # 14 GB of columns and dependencies


class TaskGraph:
    """Collects the tasks of one job. `after` is always a list of arrays of task numbers, each of the shape of the ranks.

    connections: which messages of a rank to another one share a connection, see `penstock_net.workload.connections`
    servers: of the network, `Topology.servers`, for algorithms that know which ranks are in one server
    latency: what starting a message takes, see `penstock_net.workload.latency`; None: nothing

    A task can only wait for tasks that end on its own rank: computations there, messages to it, collectives it took part in.
    """

    def __init__(
        self,
        hosts: np.ndarray,
        *,
        start_ps: int = 0,
        priority: int = 0,
        compute_class: str = "compute",
        connections: str = CONNECTIONS[0],
        servers: Servers | None = None,
        latency: Any = None,
    ) -> None:
        self.hosts = np.asarray(hosts, dtype=np.int32)
        self.servers = None if servers is None else servers.of(self.hosts)
        self.latency = latency_of(latency, self.servers)
        self.start_ps, self.priority = start_ps, priority
        self.connections = one_of(connections, "connections", CONNECTIONS)
        self.classes = [class_name(compute_class)]
        self.listed: list[Operation] = []
        self.tasks = 0
        self._columns: dict[str, list[np.ndarray]] = {
            name: [] for name in ("src", "dst", "bytes", "gap", "class", "operation", "channel")
        }
        self._edges: list[tuple[np.ndarray, np.ndarray]] = []

    def begin(self, ranks: np.ndarray) -> np.ndarray:
        """The first task of each rank, done at `start_ps`."""
        return self._add(ranks, ranks, 0, 0, 0, -1, [])

    def compute(
        self, ranks: np.ndarray, time_ps: int | np.ndarray, after: Sequence[np.ndarray], name: str = "compute", iteration: int = 0
    ) -> np.ndarray:
        """A computation on each of the ranks: it takes time_ps from the end of the last task that it waits for."""
        operation = self._operation("compute", name, "", np.size(ranks), 0, iteration)
        return self._add(ranks, ranks, 0, time_ps, 0, operation, after)

    def send(
        self,
        src: np.ndarray,
        dst: np.ndarray,
        size: int,
        after: Sequence[np.ndarray],
        name: str = "send",
        iteration: int = 0,
        class_name: str = "send",
        algorithm: str = "direct",
    ) -> np.ndarray:
        """A message of so many bytes from each of the ranks `src` to another one; the task is done, at `dst`, on receipt.

        algorithm   "pxn": to another rail by way of the rank of the own server that is on it
        """
        one_of(algorithm, "algorithm", ALGORITHMS["sendrecv"])
        label = class_number(class_name, self.classes)
        operation = len(self.listed) + np.arange(np.size(src)).reshape(np.shape(src))
        for _ in range(np.size(src)):
            self._operation(SEND, name, "", 2, size, iteration)
        if algorithm == PXN:
            relay = in_servers(algorithm, self.servers).relays(src, dst)
            passed = (relay >= 0) & (relay != src)
            first = self._message(src, np.where(passed, relay, dst), size, algorithm, label, operation, after, 0)
            ends, done = (relay[passed], dst[passed]), first.copy()
            done[passed] = self._message(*ends, size, algorithm, label, operation[passed], [first[passed]], 0)
            return done
        return self._message(src, dst, size, algorithm, label, operation, after, 0)

    def collective(
        self,
        kind: str,
        groups: np.ndarray,
        size: int,
        after: Sequence[np.ndarray],
        name: str = "",
        iteration: int = 0,
        class_name: str = "",
        **options: Any,
    ) -> np.ndarray:
        """The same collective in several groups, ranks[group, place]; returns the numbers of the tasks that end it, alike.

        kind, size, options  collective, bytes, and algorithm, chunks, root of `algorithms.expand`
        A rank enters it when all its tasks in `after` are done, and leaves it when it has received all that is for it; what it
        sends may be under way still. These two moments are tasks of their own: the flows of a group are begins, messages, ends.
        """
        count, n = groups.shape
        algorithm = str(options.get("algorithm", ""))
        first = len(self.listed)
        for _ in range(count):
            self._operation(kind, name or kind, algorithm, n, size, iteration)
        operation = first + np.arange(count)[:, None]
        each = np.broadcast_to(operation, (count, n))
        label = class_number(class_name or kind, self.classes)
        begins = self._add(groups, groups, 0, 0, 0, each, after)
        sent = []
        for members, servers in self._alike(groups, algorithm):
            messages = expand(kind, n, size, **options, servers=servers)
            ranks, shape = groups[members], (len(members), len(messages))
            src, dst, number = ranks[:, messages.src], ranks[:, messages.dst], np.broadcast_to(operation[members], shape)
            sizes, piece = (np.broadcast_to(column, shape) for column in (messages.bytes, messages.piece))
            numbers = self._message(src, dst, sizes, algorithm or default_algorithm(kind), label, number, [], piece)
            self._depend(numbers[:, messages.child], numbers[:, messages.parent])
            self._depend(numbers, begins[members][:, messages.src])  # a rank that comes late does not pass on what came before it
            kept = slice(None) if messages.relayed is None else np.flatnonzero(~messages.relayed)
            sent.append((members[:, None], messages.dst[kept], numbers[:, kept]))
        ends = self._add(groups, groups, 0, 0, 0, each, [begins])
        for members, receiver, numbers in sent:
            self._depend(ends[members, receiver], numbers)
        return ends

    def _alike(self, groups: np.ndarray, algorithm: str) -> Iterator[tuple[np.ndarray, Servers | None]]:
        """Groups whose messages are alike, as rows of `groups`, and which of their ranks are in one server."""
        if algorithm not in WITHIN_SERVERS:
            yield np.arange(len(groups)), None
            return
        servers = in_servers(algorithm, self.servers)
        found: dict[bytes, list[int]] = {}
        for row, ranks in enumerate(groups):
            number = np.unique(servers.server[ranks], return_inverse=True)[1]
            found.setdefault(np.stack((number, servers.place[ranks], servers.server[ranks] < 0)).tobytes(), []).append(row)
        for rows in found.values():
            yield np.array(rows), servers.of(groups[rows[0]])

    def _message(
        self,
        src: np.ndarray,
        dst: np.ndarray,
        size: int | np.ndarray,
        algorithm: str,
        label: int,
        operation: np.ndarray,
        after: Sequence[np.ndarray],
        channel: int | np.ndarray,
    ) -> np.ndarray:
        """Numbers of new messages, of the shape of `src`, each of which starts its latency after what it waits for."""
        return self._add(src, dst, size, self.latency.of(algorithm, src, dst, self.servers), label, operation, after, channel)

    def flows(self, nominal: dict[str, Any] | None = None) -> Flows:
        """All tasks as flows, in the order in which they were added."""
        columns = {name: np.concatenate(parts) if parts else np.empty(0) for name, parts in self._columns.items()}
        after = None
        if self._edges:
            child, parent = (np.concatenate(ends) for ends in zip(*self._edges))
            after = csr(child, parent, self.tasks)
        return Flows(
            np.full(self.tasks, self.start_ps),
            columns["src"],
            columns["dst"],
            columns["bytes"],
            columns["class"],
            np.full(self.tasks, self.priority),
            tuple(self.classes),
            after,
            [] if nominal is None else [nominal],
            columns["gap"],
            Operations(columns["operation"], tuple(self.listed), (self.hosts,)),
            numbered(self.connections, columns["channel"]),
        )

    def _add(
        self,
        src: np.ndarray,
        dst: np.ndarray,
        size: int | np.ndarray,
        gap_ps: int | np.ndarray,
        label: int,
        operation: int | np.ndarray,
        after: Sequence[np.ndarray],
        channel: int | np.ndarray = ALONE,
    ) -> np.ndarray:
        """Numbers of new tasks, of the shape of `src`."""
        n = np.size(src)
        if self.tasks + n > MAX_TASKS:
            raise SpecError(f"more than {MAX_TASKS} tasks", remedy="use fewer ranks, iterations, microbatches or chunks")
        if np.any(np.asarray(gap_ps) > MAX_TIME_PS):
            raise SpecError(f"must be at most {MAX_TIME_PS} ps", path="time_ps", value=int(np.max(gap_ps)))
        numbers = np.arange(self.tasks, self.tasks + n).reshape(np.shape(src))
        self.tasks += n
        values = {
            "src": self.hosts[src],
            "dst": self.hosts[dst],
            "bytes": size,
            "gap": gap_ps,
            "class": label,
            "operation": operation,
            "channel": channel,
        }
        for name, value in values.items():
            dtype = {"bytes": np.int64, "gap": np.int64, "class": np.int8}.get(name, np.int32)
            flat = np.ravel(value).astype(dtype)
            self._columns[name].append(np.broadcast_to(flat, n) if flat.size == 1 else flat)
        for parents in after:
            self._depend(numbers, parents)
        return numbers

    def _depend(self, child: np.ndarray, parent: np.ndarray) -> None:
        self._edges.append((np.ravel(child).astype(np.int32), np.ravel(parent).astype(np.int32)))

    def _operation(self, kind: str, name: str, algorithm: str, ranks: int, size: int, iteration: int) -> int:
        self.listed.append(Operation(kind, name, algorithm, ranks, size, 0, iteration))
        return len(self.listed) - 1
