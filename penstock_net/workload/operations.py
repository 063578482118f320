"""What flows are part of: collectives, messages and computations of a job whose ranks lie on hosts.

`Flows.operations` has it for workloads that have such steps; `penstock_net.results.steps` makes a run's reports of it.
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


@dataclass(frozen=True, eq=False)
class Operations:
    """The operations of a workload.

    number   int32 by flow: index into `listed`; NO_OPERATION: none
    listed   the operations
    jobs     by job: int32 array, the host of each rank
    """

    number: np.ndarray
    listed: tuple[Operation, ...]
    jobs: tuple[np.ndarray, ...]

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
        return Operations(self.number[flows], self.listed, self.jobs)

    def joined(self, other: "Operations", is_mine: np.ndarray) -> "Operations":
        """Of flows of both, merged; is_mine: bool by merged flow."""
        number = np.empty(len(is_mine), dtype=np.int32)
        number[is_mine] = self.number
        number[~is_mine] = np.where(other.number < 0, NO_OPERATION, other.number + len(self.listed))
        theirs = tuple(operation._replace(job=operation.job + len(self.jobs)) for operation in other.listed)
        return Operations(number, self.listed + theirs, self.jobs + other.jobs)

    def content(self) -> list[Any]:
        """All that a hash of it must cover, but for `number`."""
        return [self.listed, [job.tolist() for job in self.jobs]]
