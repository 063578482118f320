"""Training of a model by data, tensor, pipeline and expert parallelism, as computations, messages and collectives.

Rank (stage, d, t) of `pipeline` stages, `data` replicas and `tensor` parts is number (stage * data + d) * tensor + t, as in
Megatron-LM: tensor groups are neighbours, then come the replicas. docs/training.md says what an iteration consists of.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock_net.errors import SpecError
from penstock_net.inputs import MAX_FLOW_BYTES, boolean, one_of, time_ps, whole
from penstock_net.units import parse_size
from penstock_net.workload.algorithms import ALGORITHMS, WITHIN_SERVERS, in_servers
from penstock_net.workload.connections import CONNECTIONS
from penstock_net.workload.flows import PRIORITIES, Flows, host_numbers
from penstock_net.workload.placement import placed
from penstock_net.workload.taskgraph import TaskGraph

if TYPE_CHECKING:
    from penstock_net.topology import Topology

__all__ = ["training"]

SCHEDULES = ("1f1b", "gpipe")
_MANY = 200_000  # layers computed, over all stages, microbatches and iterations: some seconds of preparation
FORWARD, BACKWARD = "forward", "backward"


def training(
    topo: "Topology",
    *,
    tensor: int = 1,
    pipeline: int = 1,
    data: int | None = None,
    expert: int = 1,
    layers: int = 8,
    parameters: str | int = "100MB",
    expert_parameters: str | int = "0B",
    activations: str | int = "8MB",
    forward: str = "1ms",
    backward: str = "2ms",
    optimizer: str = "0s",
    microbatches: int = 1,
    schedule: str = "1f1b",
    overlap: bool = True,
    iterations: int = 2,
    all_reduce: str = "ring",
    all_to_all: str = "direct",
    sendrecv: str = "direct",
    chunks: int = 1,
    connections: str = CONNECTIONS[0],
    latency: str | Mapping[str, str] | None = None,
    hosts: Any = None,
    placement: str = "packed",
    start: str = "0s",
    seed: int = 1,
    index: int = 0,
    class_name: str = "training",
    priority: int = 0,
) -> Flows:
    """Iterations of the training of a model, one rank per host.

    tensor, pipeline, data   ranks that share a layer, stages, replicas; data None: all hosts that there are
    expert                   replicas that share the experts of a layer; divides data
    layers                   of the whole model, divided equally among the stages
    parameters               gradients of a layer on one rank, which all replicas reduce
    expert_parameters        those of its experts, which the replicas that hold the same experts reduce
    activations              of one microbatch between two layers, all tensor ranks together
    forward, backward        time of one layer, one microbatch, on one rank; optimizer: at the end of an iteration
    microbatches, schedule   per iteration and replica, in the order "1f1b" or "gpipe"
    overlap                  gradients of a layer are reduced as soon as they are there; otherwise after the last backward
    all_reduce, all_to_all   algorithms; sendrecv: that of messages between stages; chunks: of the all-reduce of gradients
    connections              which messages from a rank to another share a path, congestion state and sequence: those of one piece
                             ("channel"), all ("pair"), none ("message")
    latency                  what starting a message takes, see `collective`
    hosts, placement         see `placed`
    SpecError names whatever is out of range or does not divide.
    """
    plan = _Plan(
        tensor=whole(tensor, "tensor", 1),
        pipeline=whole(pipeline, "pipeline", 1),
        data=0,
        expert=whole(expert, "expert", 1),
        layers=whole(layers, "layers", 1),
        parameters=_size(parameters, "parameters"),
        expert_parameters=_size(expert_parameters, "expert_parameters"),
        activations=_size(activations, "activations"),
        forward_ps=time_ps(forward, "forward"),
        backward_ps=time_ps(backward, "backward"),
        optimizer_ps=time_ps(optimizer, "optimizer"),
        microbatches=whole(microbatches, "microbatches", 1),
        schedule=one_of(schedule, "schedule", SCHEDULES),
        overlap=boolean(overlap, "overlap"),
        iterations=whole(iterations, "iterations", 1),
        all_reduce=one_of(all_reduce, "all_reduce", ALGORITHMS["all_reduce"]),
        all_to_all=one_of(all_to_all, "all_to_all", ALGORITHMS["all_to_all"]),
        sendrecv=one_of(sendrecv, "sendrecv", ALGORITHMS["sendrecv"]),
        chunks=whole(chunks, "chunks", 1),
    )
    for key in ("all_reduce", "all_to_all", "sendrecv"):
        if getattr(plan, key) in WITHIN_SERVERS:
            in_servers(getattr(plan, key), topo.servers, key)
    plan = plan.with_data(topo, data, hosts)
    listed = hosts if hasattr(hosts, "__len__") else None
    ranks = placed(topo, plan.ranks if listed is None else list(listed)[: plan.ranks], placement, seed, index)
    start_ps = time_ps(start, "start")
    graph = TaskGraph(
        ranks,
        start_ps=start_ps,
        priority=whole(priority, "priority", 0, PRIORITIES - 1),
        compute_class=class_name,
        connections=connections,
        servers=topo.servers,
        latency=latency,
    )
    _Job(plan, graph, class_name).run()
    asked = {name: getattr(plan, name) for name in plan.__dataclass_fields__}
    asked |= {"connections": connections} | ({} if latency is None else {"latency": latency})
    return graph.flows({"kind": "training", **asked, "placement": placement, "class": class_name, "start_ps": start_ps})


def _size(value: str | int, what: str) -> int:
    size = parse_size(value, what)
    if not 0 <= size <= MAX_FLOW_BYTES:
        raise SpecError(f"must be between 0 and {MAX_FLOW_BYTES} B", path=what, value=value)
    return size


@dataclass(frozen=True)
class _Plan:
    """The arguments of `training`, checked; times in ps, sizes in bytes."""

    tensor: int
    pipeline: int
    data: int
    expert: int
    layers: int
    parameters: int
    expert_parameters: int
    activations: int
    forward_ps: int
    backward_ps: int
    optimizer_ps: int
    microbatches: int
    schedule: str
    overlap: bool
    iterations: int
    all_reduce: str
    all_to_all: str
    sendrecv: str
    chunks: int

    @property
    def ranks(self) -> int:
        return self.tensor * self.pipeline * self.data

    @property
    def depth(self) -> int:
        """Layers of a stage."""
        return self.layers // self.pipeline

    def with_data(self, topo: "Topology", data: int | None, hosts: Any) -> "_Plan":
        """The plan with its number of replicas.  SpecError: something does not divide, or there are too few hosts."""
        there, each = len(host_numbers(topo, hosts, least=1)), self.tensor * self.pipeline
        shape = f"tensor = {self.tensor} x pipeline = {self.pipeline}"
        if data is None:
            if there < each or there % each:
                raise SpecError(
                    f"{shape} does not divide {there} hosts", path="tensor", value=self.tensor, remedy="give data too"
                )
            data = there // each
        data = whole(data, "data", 1)
        if each * data > there:
            rule = f"{shape} x data = {data} is {each * data} ranks, but there are {there} hosts"
            raise SpecError(rule, path="data", value=data, remedy=f"at most {there // each}")
        if each * data < 2:
            raise SpecError("one rank has nobody to talk to", path="data", value=data, remedy="give at least two ranks")
        if data % self.expert:
            raise SpecError(f"must divide data = {data}", path="expert", value=self.expert)
        if self.layers % self.pipeline:
            remedy = f"nearest: {max(1, round(self.layers / self.pipeline)) * self.pipeline}"
            raise SpecError(f"must be a multiple of pipeline = {self.pipeline}", path="layers", value=self.layers, remedy=remedy)
        work = self.layers * self.microbatches * self.iterations
        if work > _MANY:
            rule = f"layers x microbatches x iterations is {work}, more than {_MANY}"
            raise SpecError(rule, path="iterations", value=self.iterations, remedy="fewer of them, or longer layers")
        plan = _Plan(**{**{name: getattr(self, name) for name in self.__dataclass_fields__}, "data": data})
        plan.check_sizes()
        return plan

    def check_sizes(self) -> None:
        """SpecError: a message would have less than a byte."""
        least = {
            "activations": max(
                self.tensor if self.tensor > 1 or self.pipeline > 1 else 0, self.expert * self.tensor if self.expert > 1 else 0
            ),
            "parameters": self.data * self.chunks if self.data > 1 and self.parameters else 0,
            "expert_parameters": self.data // self.expert * self.chunks if self.expert_parameters else 0,
        }
        for name, bytes_ in least.items():
            if getattr(self, name) < bytes_:
                raise SpecError("fewer than one per piece", path=name, value=getattr(self, name), remedy=f"at least {bytes_} B")

    def order(self, stage: int) -> Iterator[tuple[str, int]]:
        """The microbatches of an iteration as a stage computes them.

        gpipe: all forward, then all backward, the last one first. 1f1b: as many forward as there are stages behind, then one
        forward and one backward in turn, then the rest backward.
        """
        m = self.microbatches
        if self.schedule == "gpipe":
            yield from ((FORWARD, i) for i in range(m))
            yield from ((BACKWARD, i) for i in reversed(range(m)))
            return
        ahead = min(self.pipeline - 1 - stage, m)
        yield from ((FORWARD, i) for i in range(ahead))
        for i in range(m - ahead):
            yield FORWARD, ahead + i
            yield BACKWARD, i
        yield from ((BACKWARD, i) for i in range(m - ahead, m))


class _Job:
    """Adds the tasks of a plan to a graph. Arrays of tasks are shaped (data, tensor), one per stage."""

    def __init__(self, plan: _Plan, graph: TaskGraph, label: str) -> None:
        self.plan, self.graph, self.label = plan, graph, label
        self.ranks = np.arange(plan.ranks).reshape(plan.pipeline, plan.data, plan.tensor)
        self.ready = [graph.begin(ranks) for ranks in self.ranks]  # the last task of each rank's computations
        self.iteration = 0

    def run(self) -> None:
        for iteration in range(self.plan.iterations):
            self.iteration = iteration
            self.iterate()

    def iterate(self) -> None:
        """One iteration: a stage goes on with its order as soon as what it needs next has been sent to it."""
        plan = self.plan
        orders = [list(plan.order(stage)) for stage in range(plan.pipeline)]
        last = [order[-1] for order in orders]
        came: dict[tuple[str, int, int], np.ndarray] = {}  # activations and gradients under way to (what, stage, microbatch)
        reduced: list[list[np.ndarray]] = [[] for _ in orders]
        while any(orders):
            for stage, order in enumerate(orders):
                while order and (self._first(order[0][0], stage) or (order[0][0], stage, order[0][1]) in came):
                    what, batch = order.pop(0)
                    arrived = came.pop((what, stage, batch), None)
                    done = self._stage(stage, what, batch, arrived, reduced[stage] if (what, batch) == last[stage] else None)
                    to = stage + (1 if what == FORWARD else -1)
                    if 0 <= to < plan.pipeline:
                        came[what, to, batch] = self._send(stage, to, done, f"{what} {batch}")
        for stage, ranks in enumerate(self.ranks):
            after = [self.ready[stage], *reduced[stage][-1:]]
            self.ready[stage] = self.graph.compute(ranks, plan.optimizer_ps, after, "optimizer", self.iteration)

    def _first(self, what: str, stage: int) -> bool:
        """Whether a stage needs nothing from another one."""
        return stage == (0 if what == FORWARD else self.plan.pipeline - 1)

    def _send(self, stage: int, to: int, after: np.ndarray, name: str) -> np.ndarray:
        """The activations, or their gradients, of a microbatch: every tensor rank sends its part to its counterpart."""
        size = self.plan.activations // self.plan.tensor
        label = f"{self.label}/pipeline"
        ends = self.ranks[stage], self.ranks[to]
        return self.graph.send(*ends, size, [after], name, self.iteration, label, self.plan.sendrecv)

    def _stage(
        self, stage: int, what: str, batch: int, arrived: np.ndarray | None, reduced: list[np.ndarray] | None
    ) -> np.ndarray:
        """All layers of a stage for one microbatch; returns the tasks that end it, one per rank.

        reduced: given with the last backward of the iteration, when the gradients are complete; the last task of their
        all-reduces is appended.
        """
        plan = self.plan
        name = f"{what} {batch}"
        after = [self.ready[stage]] + ([] if arrived is None else [arrived])
        work = 0  # time computed since the last task, ps
        for layer in range(plan.depth) if what == FORWARD else reversed(range(plan.depth)):
            whole_ps = plan.forward_ps if what == FORWARD else plan.backward_ps
            for half, time in enumerate((whole_ps // 2, whole_ps - whole_ps // 2)):
                mixes = half == (1 if what == FORWARD else 0)  # the half of a layer that has the experts
                if mixes and plan.expert > 1:
                    after, work = [self._experts(stage, self._compute(stage, work, after, name), "dispatch")], 0
                work += time
                if mixes and plan.expert > 1:
                    after, work = [self._experts(stage, self._compute(stage, work, after, name), "combine")], 0
                if plan.tensor > 1:
                    after, work = [self._tensor(stage, self._compute(stage, work, after, name), name)], 0
            if reduced is not None and plan.overlap:
                after, work = [self._compute(stage, work, after, name)], 0
                self._reduce(stage, layer, after[0], reduced)
        self.ready[stage] = self._compute(stage, work, after, name) if work or len(after) > 1 else after[0]
        if reduced is not None and not plan.overlap:
            for layer in reversed(range(plan.depth)):
                self._reduce(stage, layer, self.ready[stage], reduced)
        return self.ready[stage]

    def _compute(self, stage: int, work: int, after: list[np.ndarray], name: str) -> np.ndarray:
        if not work and len(after) == 1:
            return after[0]
        return self.graph.compute(self.ranks[stage], work, after, name, self.iteration)

    def _tensor(self, stage: int, after: np.ndarray, name: str) -> np.ndarray:
        """All-reduce of the activations within every tensor group."""
        plan = self.plan
        return self._collective(
            "all_reduce", self.ranks[stage], plan.activations, after, f"tensor {name}", "tensor", plan.all_reduce
        )

    def _experts(self, stage: int, after: np.ndarray, name: str) -> np.ndarray:
        """All-to-all of the activations within every group of replicas that share experts."""
        plan = self.plan
        size = plan.activations // plan.tensor
        shape = (plan.data // plan.expert, plan.expert, plan.tensor)
        groups, waits = (a.reshape(shape).transpose(0, 2, 1).reshape(-1, plan.expert) for a in (self.ranks[stage], after))
        ends = self._collective("all_to_all", groups, size, waits, name, "expert", plan.all_to_all)
        return ends.reshape(shape[0], plan.tensor, plan.expert).transpose(0, 2, 1).reshape(plan.data, plan.tensor)

    def _reduce(self, stage: int, layer: int, after: np.ndarray, reduced: list[np.ndarray]) -> None:
        """All-reduces of the gradients of a layer, behind those that the ranks are busy with."""
        plan = self.plan
        number = stage * plan.depth + layer
        options = {"chunks": plan.chunks}
        if plan.data > 1 and plan.parameters:
            waits = [after.T, *(last.T for last in reduced[-1:])]
            ends = self._collective(
                "all_reduce",
                self.ranks[stage].T,
                plan.parameters,
                waits,
                f"gradients {number}",
                "data",
                plan.all_reduce,
                **options,
            )
            reduced.append(ends.T)
        same = plan.data // plan.expert
        if same > 1 and plan.expert_parameters:
            shape = (same, plan.expert, plan.tensor)
            groups = self.ranks[stage].reshape(shape).transpose(1, 2, 0).reshape(-1, same)
            waits = [a.reshape(shape).transpose(1, 2, 0).reshape(-1, same) for a in (after, *reduced[-1:])]
            ends = self._collective(
                "all_reduce",
                groups,
                plan.expert_parameters,
                waits,
                f"expert gradients {number}",
                "data",
                plan.all_reduce,
                **options,
            )
            reduced.append(ends.reshape(plan.expert, plan.tensor, same).transpose(2, 0, 1).reshape(plan.data, plan.tensor))

    def _collective(
        self,
        kind: str,
        groups: np.ndarray,
        size: int,
        after: np.ndarray | list[np.ndarray],
        name: str,
        of: str,
        algorithm: str,
        chunks: int = 1,
    ) -> np.ndarray:
        waits, label = after if isinstance(after, list) else [after], f"{self.label}/{of}"
        return self.graph.collective(kind, groups, size, waits, name, self.iteration, label, algorithm=algorithm, chunks=chunks)
