"""What flows are part of: collectives, messages and computations of a job whose ranks lie on hosts; requests to a served model.

`Flows.operations` has it for workloads that have such steps; `penstock_net.results.steps` and `.requests` make a run's reports
of it.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from penstock_net.errors import SpecError
from penstock_net.workload.algorithms import ALGORITHMS

NO_OPERATION = -1
COMPUTE, SEND = "compute", "send"  # kinds of operations that are not collectives
KINDS = (COMPUTE, SEND, *ALGORITHMS, "reduce", "gather", "scatter", "barrier")
ROOTED = (SEND, "broadcast", "scatter")  # those that can be done as soon as one rank has begun
LONGEST_NAME = 100


class Operation(NamedTuple):
    """One collective, message or computation.

    kind        one of KINDS: a collective, "send" (one message to another rank) or "compute"
    name        what it is for, such as "gradients 3" or "forward 0"
    algorithm   of a collective
    ranks       how many take part
    bytes       as NCCL counts, see `algorithms.expand`; 0: a computation or a barrier
    job         index into `Operations.jobs`
    iteration   of the job, from 0
    """

    kind: str
    name: str
    algorithm: str
    ranks: int
    bytes: int
    job: int
    iteration: int


PREFILL, HERE, ROLES = (
    0,
    1,
    2,
)  # what a flow does for its request: computes its prompt, waits for its cache


@dataclass(frozen=True, eq=False)
class Requests:
    """The requests of a workload.

    part    int64 by flow: request * ROLES + PREFILL or HERE; -1: none of both
    table   by request, int64: what is known of it before the run, by name
    """

    part: np.ndarray
    table: dict[str, np.ndarray]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(next(iter(self.table.values())))

    def chosen(self, flows: np.ndarray) -> "Requests":
        """Those of some of the flows: a mask, or their numbers in another order."""
        return Requests(self.part[flows], self.table)


@dataclass(frozen=True, eq=False)
class Operations:
    """The operations of a workload.

    number   int32 by flow: index into `listed`; NO_OPERATION: none
    listed   the operations
    jobs     by job: int32 array, the host of each rank
    requests of a served model; None: there are none
    """

    number: np.ndarray
    listed: tuple[Operation, ...]
    jobs: tuple[np.ndarray, ...]
    requests: Requests | None = None

    def __post_init__(self) -> None:
        number = np.asarray(self.number, dtype=np.int32)
        if len(number) and not NO_OPERATION <= number.min() <= number.max() < len(self.listed):
            raise SpecError(f"there are {len(self.listed)}", path="flows.operations", value=int(number.max()))
        number.flags.writeable = False
        object.__setattr__(self, "number", number)

    @classmethod
    def none(cls, flows: int) -> "Operations":
        """Of flows that are part of no operation."""
        return cls(np.full(flows, NO_OPERATION, dtype=np.int32), (), ())

    def chosen(self, flows: np.ndarray) -> "Operations":
        """Those of some of the flows: a mask, or their numbers in another order."""
        requests = None if self.requests is None else self.requests.chosen(flows)
        return Operations(self.number[flows], self.listed, self.jobs, requests)

    def joined(self, other: "Operations", is_mine: np.ndarray) -> "Operations":
        """Of flows of both, merged; is_mine: bool by merged flow."""
        number = np.empty(len(is_mine), dtype=np.int32)
        number[is_mine] = self.number
        number[~is_mine] = np.where(other.number < 0, NO_OPERATION, other.number + len(self.listed))
        theirs = tuple(operation._replace(job=operation.job + len(self.jobs)) for operation in other.listed)
        return Operations(number, self.listed + theirs, self.jobs + other.jobs, _joined(self.requests, other.requests, is_mine))

    def content(self) -> list[Any]:
        """All that a hash of it must cover, but for `number`."""
        own: list[Any] = [self.listed, [job.tolist() for job in self.jobs]]
        if self.requests is not None:
            own += [self.requests.part.tolist(), {name: column.tolist() for name, column in self.requests.table.items()}]
        return own


def _joined(ours: Requests | None, theirs: Requests | None, is_mine: np.ndarray) -> Requests | None:
    """Of flows of both, merged."""
    both = [(requests, flows) for requests, flows in ((ours, is_mine), (theirs, ~is_mine)) if requests is not None]
    if not both:
        return None
    part, before = np.full(len(is_mine), -1, dtype=np.int64), 0
    for requests, flows in both:
        part[flows] = np.where(requests.part < 0, -1, requests.part + before * ROLES)
        before += requests.count
    return Requests(part, {name: np.concatenate([requests.table[name] for requests, _ in both]) for name in both[0][0].table})
