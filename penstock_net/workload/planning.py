"""Which instances serve which request, and what of its KV cache is there already: decided by arrival, without a network.

    served = Plan(prefill=2, decode=2, tokens_per_second=10_000, ...).serve(requests)

A prefill instance computes one prompt after another, in the order of arrival. Blocks are prefixes: a block that an instance has
is of use only if it has all blocks of the request before it. The last token of a prompt is always computed and sent.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from penstock_net.errors import SpecError
from penstock_net.workload.requests import Request

ASSIGNMENTS = ("least_loaded", "in_turn", "prefix")


class Served(NamedTuple):
    """A request and where it is served.

    cached          tokens of its prompt that the prefill instance need not compute, fetched ones included
    fetched         blocks that it fetches from the store
    stored          blocks that go to the store when they are computed
    sent            tokens that the decode instance does not have
    sources         earlier requests whose transfers bring the others there
    prefill_ps      what the computation takes
    free_ps         when it ends, if nothing waits for a network
    """

    arrival_ps: int
    input_tokens: int
    output_tokens: int
    prefill: int
    decode: int
    cached: int
    fetched: tuple[int, ...]
    stored: tuple[int, ...]
    sent: int
    sources: tuple[int, ...]
    prefill_ps: int
    free_ps: int


@dataclass
class Plan:
    """Instances, and what is chosen of them so far.

    prefill, decode     how many                            tokens_per_second   of a prefill instance
    assign              one of ASSIGNMENTS                  block               tokens of a block
    keeps               whether instances keep blocks       store               hosts that do so for all of them
    """

    prefill: int
    decode: int
    tokens_per_second: float
    assign: str
    block: int
    keeps: bool
    store: int
    computed: dict[int, int] = field(default_factory=dict)  # by block: when it first was, without a network
    places: dict[int, int] = field(default_factory=dict)  # by block: its host of the store; they take turns

    def __post_init__(self) -> None:
        self.free = [0] * self.prefill
        self.given = [0] * self.prefill, [0] * self.decode
        self.kept: list[set[int]] = [set() for _ in range(self.prefill)]
        self.brought: list[dict[int, int]] = [{} for _ in range(self.decode)]  # by block: the request that did

    def serve(self, requests: list[Request]) -> list[Served]:
        """The requests, which come in this order.  SpecError: one has more blocks than its prompt can have."""
        for number, request in enumerate(requests):
            if len(request.blocks) > (most := -(-request.input_tokens // self.block)):
                names = f"request {number} names {len(request.blocks)} blocks"
                rule = f"{names}, but its {request.input_tokens} tokens are at most {most}"
                raise SpecError(rule, path="block", value=self.block, remedy="give the tokens of a block in this file")
        return [self._serve(number, request) for number, request in enumerate(requests)]

    def _serve(self, number: int, request: Request) -> Served:
        now, blocks = request.arrival_ps, self._blocks(request)
        p = self._choose(number, blocks, self.kept, self.given[0], [max(free, now) for free in self.free])
        d = self._choose(number, blocks, self.brought, self.given[1], [0] * self.decode)
        own = self._have(blocks, self.kept[p])
        reached = own + self._in_store(blocks[own:], now) if self.store else own
        cached = min(reached * self.block, request.input_tokens - 1)
        took = round(Fraction(request.input_tokens - cached) * 10**12 / Fraction(self.tokens_per_second))
        self.free[p] = max(self.free[p], now) + took
        there = self._have(blocks, self.brought[d])
        sent = request.input_tokens - min(there * self.block, request.input_tokens - 1)
        self.given[0][p] += request.input_tokens
        self.given[1][d] += request.input_tokens
        sources = tuple(dict.fromkeys(self.brought[d][block] for block in blocks[:there]))
        new = [block for block in dict.fromkeys(blocks[reached:]) if block not in self.computed] if self.store else []
        for block in new:
            self.places[block] = len(self.places) % self.store
            self.computed[block] = self.free[p]
        self.kept[p].update(blocks)
        for block in blocks:
            self.brought[d].setdefault(block, number)
        return Served(*request[:3], p, d, cached, tuple(blocks[own:reached]), tuple(new), sent, sources, took, self.free[p])

    def _blocks(self, request: Request) -> tuple[int, ...]:
        """The whole blocks that its prompt begins with."""
        return request.blocks[: request.input_tokens // self.block] if self.keeps else ()

    @staticmethod
    def _have(blocks: tuple[int, ...], there: Collection[int]) -> int:
        """How many of the blocks are there, up to the first that is not."""
        return next((i for i, block in enumerate(blocks) if block not in there), len(blocks))

    def _in_store(self, blocks: tuple[int, ...], now: int) -> int:
        """How many of the blocks had been computed by now, up to the first that had not."""
        return next((i for i, block in enumerate(blocks) if self.computed.get(block, now + 1) > now), len(blocks))

    def _choose(
        self, number: int, blocks: tuple[int, ...], there: Sequence[Collection[int]], given: list[int], free: list[int]
    ) -> int:
        """The instance for a request; of equally good ones the lowest."""
        if self.assign == "in_turn":
            return number % len(there)
        hits = [self._have(blocks, each) if self.assign == "prefix" else 0 for each in there]
        return min(range(len(there)), key=lambda i: (-hits[i], free[i], given[i], i))
