"""What the last rank of a step waited for: the chain of messages and computations that ended when it did.

Each link of the chain is known from the run: a flow begins a given time after the last of those that it waits for has arrived, so
the last one before it is the one that counts.  A message is late by what it takes beyond its time alone in the empty network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from penstock_net.sim.results import Outcome

NO_STEP = -1


def add_waits(training: dict[str, Any], outcome: Outcome, start: np.ndarray, busy: np.ndarray) -> None:
    """Add `waited_for` to the iterations and the jobs of `summary["training"]`; None: the step has not ended, or sent nothing.

    start: when each flow was handed to its NIC, ps; busy: the share of the run for which each port sent.
    compute_ns, late_ns   of the chain: its computations, and what its messages took beyond their times alone
    src, dst, messages    ranks whose messages have most of late_ns, and how many of them are in the chain
    pair_late_ns          how late these were, and of that
    pair_behind_ns        what they waited for earlier messages of their connection
    pair_paused_ns        how long queues of their flows were paused at the sender, by schemes that pause flows
    port                  the busiest one on their path, from its host on; null: their packets may take several paths
    utilization, max_queue_bytes  of this port: the share of the run for which it sent, and its longest queue in the run
    paused_port           the one on their path (of several: of the sender) that was paused longest as a whole; null: none was
    paused_port_ns        for how long, in the run
    """
    chains = Chains(outcome, start, busy)
    found = {(row["job"], row["iteration"]): chains.of(row["job"], row["iteration"]) for row in training["iterations"]}
    chains.know_alone([number for chain in found.values() for number in chain])
    for row in training["iterations"]:
        row["waited_for"] = chains.reason([found[row["job"], row["iteration"]]], row["job"])
    for job in training["jobs"]:
        job["waited_for"] = chains.reason([chain for (number, _), chain in found.items() if number == job["job"]], job["job"])


class Chains:
    """The chains of a run."""

    def __init__(self, outcome: Outcome, start: np.ndarray, busy: np.ndarray) -> None:
        flows = outcome.settings.flows
        operations = flows.operations
        assert operations is not None
        self.outcome, self.flows, self.operations, self.start, self.busy = outcome, flows, operations, start, busy
        self.finish, self.acked = outcome.per_flow["finish"], outcome.per_flow["acked"]
        listed = [(operation.job, operation.iteration) for operation in operations.listed]
        self.numbers = {step: number for number, step in enumerate(sorted(set(listed)))}
        step_of_operation = np.array([self.numbers[step] for step in listed], dtype=np.int32)
        self.step = np.where(operations.number < 0, NO_STEP, step_of_operation[operations.number])
        members = np.flatnonzero(self.step >= 0)
        steps, ends, count = self.step[members], self.finish[members], len(self.numbers)
        self.open = np.zeros(count, dtype=bool)
        self.open[steps[ends < 0]] = True
        latest, self.last = np.full(count, -1, dtype=np.int64), np.full(count, len(flows), dtype=np.int64)
        np.maximum.at(latest, steps, ends)
        final = ends == latest[steps]
        np.minimum.at(self.last, steps[final], members[final])
        self.alone: dict[int, int] = {}
        self.behind: dict[int, int] = {}

    def of(self, job: int, iteration: int) -> list[int]:
        """The flows of the chain of a step, the last one first."""
        step = self.numbers[job, iteration]
        number = None if self.open[step] else int(self.last[step])
        chain: list[int] = []
        while number is not None and self.step[number] == step:
            chain.append(number)
            number = self._before(number)
        return chain

    def _before(self, number: int) -> int | None:
        """The last to arrive of those that a flow waits for; None: it waits for none."""
        if self.flows.after is None:
            return None
        offsets, parents = self.flows.after
        known = parents[offsets[number] : offsets[number + 1]]
        if not len(known):
            return None
        arrived = np.where(self.flows.dst[known] == self.flows.src[number], self.finish[known], self.acked[known])
        return int(known[int(arrived.argmax())])

    def know_alone(self, numbers: list[int]) -> None:
        """Find out what the messages among these flows take alone."""
        sent = np.array([number for number in dict.fromkeys(numbers) if not self.computes(number)], dtype=np.int64)
        if not len(sent):
            return
        leaders = self.outcome.paths
        of_path = sent if leaders is None else leaders[sent]
        received, _ = self.outcome.settings.alone_ps(sent, of_path, self.flows.bytes[sent])
        self.alone = dict(zip(sent.tolist(), received.tolist()))
        connections = self.flows.connections
        if connections is not None and not self.outcome.composition.by_message:
            order = np.lexsort((self.finish, connections.of))
            same = connections.of[order[1:]] == connections.of[order[:-1]]
            before = np.full(len(order), -1, dtype=np.int64)
            before[order[1:]] = np.where(same & (connections.of[order[1:]] > 0), self.finish[order[:-1]], -1)
            waited = np.maximum(0, before[sent] - self.start[sent])
            self.behind = dict(zip(sent.tolist(), waited.tolist()))

    def computes(self, number: int) -> bool:
        """Whether a flow is a computation."""
        return bool(self.flows.src[number] == self.flows.dst[number])

    def reason(self, chains: list[list[int]], job: int) -> dict[str, Any] | None:
        """What `add_waits` says of some steps of a job together."""
        numbers = [number for chain in chains for number in chain]
        sent = [number for number in numbers if number in self.alone]
        if not sent:
            return None
        late = {number: int(self.finish[number] - self.start[number]) - self.alone[number] for number in sent}
        pairs: dict[tuple[int, int], list[int]] = {}
        for number in sent:
            pairs.setdefault((int(self.flows.src[number]), int(self.flows.dst[number])), []).append(number)
        src, dst = max(sorted(pairs), key=lambda pair: sum(late[number] for number in pairs[pair]))
        own = pairs[src, dst]
        rank = {int(host): place for place, host in enumerate(self.operations.jobs[job])}
        return {
            "compute_ns": sum(int(self.flows.gap_ps[number]) for number in numbers if number not in self.alone) / 1000,
            "late_ns": sum(late.values()) / 1000,
            "src": rank.get(src),
            "dst": rank.get(dst),
            "messages": len(own),
            "pair_late_ns": sum(late[number] for number in own) / 1000,
            "pair_behind_ns": sum(min(late[number], self.behind.get(number, 0)) for number in own) / 1000,
            "pair_paused_ns": int(self.outcome.per_flow["paused"][own].sum()) / 1000,
            **self._ports(max(own, key=lambda number: late[number]), src, dst),
        }

    def _ports(self, number: int, src: int, dst: int) -> dict[str, Any]:
        """Of the ports on the path of a message: the busiest one, and the one that was paused longest."""
        path = self._path(number, src, dst)
        topo, ports = self.outcome.settings.topo, self.outcome.ports
        links = path or [(src, port) for port in range(int(topo.first_port[src + 1] - topo.first_port[src]))]
        places = np.array([topo.first_port[node] + port for node, port in links])
        paused = ports["paused_ps"][places]
        longest, busiest = int(paused.argmax()), int(self.busy[places].argmax())
        found: dict[str, Any] = dict.fromkeys(("port", "utilization", "max_queue_bytes"))
        if path:
            queue = self.outcome.phases.port_maxima("max_queue_bytes")[places[busiest]]
            found = {
                "port": self._name(path[busiest]),
                "utilization": float(self.busy[places[busiest]]),
                "max_queue_bytes": int(queue),
            }
        where = self._name(links[longest]) if paused[longest] else None
        return found | {"paused_port": where, "paused_port_ns": int(paused[longest]) / 1000}

    def _name(self, port: tuple[int, int]) -> str:
        return f"{self.outcome.settings.topo.names[port[0]]}:{port[1]}"

    def _path(self, number: int, src: int, dst: int) -> list[tuple[int, int]]:
        """(node, port) of each hop of a message; none if its packets may take several paths."""
        settings, composition = self.outcome.settings, self.outcome.composition
        several = composition.reordering or any("choose_path" in part.hooks for part in composition.parts)
        several = bool(several or composition.chooses_ports or settings.in_turn or settings.reductions)
        if several or settings.paths is not None or settings.topo.changes:
            return []
        leaders = self.outcome.paths
        return settings.topo.path_links(int(number if leaders is None else leaders[number]), src, dst, settings.seed)
