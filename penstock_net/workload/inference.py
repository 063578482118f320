"""Inference with prefill and decode on different hosts: requests as computations and the transfers of their KV caches.

`planning` says which instance serves which request and what of its cache is there already; here that becomes flows. Prefill
instance p has hosts p * prefill_ranks and following of those that take part, the decode instances and the store come behind.
docs/inference.md says what a request consists of.
"""

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock_net.errors import SpecError
from penstock_net.inputs import MAX_FLOW_BYTES, MAX_TIME_PS, boolean, one_of, positive, real, time_ps, whole
from penstock_net.topology.graph import MAX_HOSTS
from penstock_net.units import format_time, parse_size
from penstock_net.workload import requests as arrivals
from penstock_net.workload.connections import ALONE, numbered
from penstock_net.workload.flows import PRIORITIES, Flows, class_name, class_number, csr, host_numbers
from penstock_net.workload.operations import HERE, NO_OPERATION, PREFILL, ROLES, Operations, Requests
from penstock_net.workload.placement import placed
from penstock_net.workload.planning import ASSIGNMENTS, Plan, Served
from penstock_net.workload.streams import stream

if TYPE_CHECKING:
    from penstock_net.topology import Topology

__all__ = ["inference"]

SENDS = ("whole", "layer")
CONNECTED = ("pair", "message")
KV, STORE, EXPERTS = "kv", "store", "experts"  # classes of flows
MAX_SKEW = 10.0
MAX_LAYERS = 1000
_MANY = 5_000_000  # flows


def inference(
    topo: "Topology",
    *,
    file: str | None = None,
    rate: float | None = None,
    input_tokens: Any = None,
    output_tokens: Any = None,
    duration: str | int | float | None = None,
    requests: int | None = None,
    prefill: int = 1,
    decode: int = 1,
    prefill_ranks: int = 1,
    decode_ranks: int = 1,
    assign: str = "least_loaded",
    tokens_per_second: float = 10_000,
    kv_bytes: str | int = "160KB",
    layers: int = 1,
    send: str = "whole",
    prefix_cache: bool = True,
    block: int = 512,
    store: int = 0,
    first_step: str = "0s",
    steps: int = 0,
    step: str = "20ms",
    expert_bytes: str | int = "0B",
    skew: float = 0.0,
    connections: str = CONNECTED[0],
    hosts: Any = None,
    placement: str = "packed",
    start: str = "0s",
    seed: int = 1,
    index: int = 0,
    class_name: str = "inference",
    priority: int = 0,
) -> Flows:
    """Requests to a model that is served by instances for prefill and others for decode, a host for each rank with its NIC.

    file                     the requests: lines of a trace of Mooncake, or CSV with arrival_s,input_tokens,output_tokens
    rate                     or so many of them per second, at random times, with lengths input_tokens and output_tokens: a
                             number, or several of which each request draws one
    duration, requests       those that come within this time from `start` on; at most so many, the first ones
    prefill, decode          instances; prefill_ranks, decode_ranks: the hosts of each
    assign                   which instances serve a request: "least_loaded", "in_turn", or "prefix", those that have most of its
                             prefix, and of these the least loaded
    tokens_per_second        of a prefill instance, which computes one prompt after another
    kv_bytes                 of a token in the KV cache, of all layers and ranks together
    layers, send             the cache is sent when the whole prompt is computed, or each of `layers` equal parts when it is
    prefix_cache, block      instances keep the blocks of tokens that the file names, each of so many tokens; what a prefill
                             instance has is not computed, what a decode instance has is not sent
    store                    hosts that keep all blocks, too: they get what is computed, prefill instances fetch what they lack
    first_step               from when the cache is at the decode instance until the first token
    steps, step              of every decode instance from `start` on: after `step` of computing each rank sends its tokens to the
                             experts, an all-to-all of `expert_bytes` per rank, and gets them back, before it goes on
    skew                     the k-th most popular expert rank gets a share in proportion to 1 / k^skew; each step draws the order
    connections              all messages from a host to another share a path, congestion state and sequence ("pair"), or none
    hosts, placement         see `placed`
    SpecError names whatever is out of range, contradicts another key, or is wrong in the file.
    """
    start_ps = time_ps(start, "start")
    plan = Plan(
        prefill=whole(prefill, "prefill", 1, MAX_HOSTS),
        decode=whole(decode, "decode", 1, MAX_HOSTS),
        tokens_per_second=positive(tokens_per_second, "tokens_per_second"),
        assign=one_of(assign, "assign", ASSIGNMENTS),
        block=whole(block, "block", 1, arrivals.MAX_TOKENS),
        keeps=boolean(prefix_cache, "prefix_cache"),
        store=whole(store, "store", 0, MAX_HOSTS),
    )
    if plan.store and not plan.keeps:
        raise SpecError("there is nothing to store", path="store", value=store, remedy="leave it out, or set prefix_cache")
    shape = [whole(prefill_ranks, "prefill_ranks", 1, MAX_HOSTS), whole(decode_ranks, "decode_ranks", 1, MAX_HOSTS)]
    taken = plan.prefill * shape[0] + plan.decode * shape[1] + plan.store
    there = len(host_numbers(topo, hosts))
    if taken > there:
        rule = f"prefill, decode and store take {taken} hosts, but there are {there}"
        raise SpecError(rule, path="prefill", value=prefill, remedy="use fewer instances or ranks")
    listed = taken if not hasattr(hosts, "__len__") else list(hosts)[:taken]
    ranks = placed(topo, listed, placement, seed, index)
    token, experts = _size(kv_bytes, "kv_bytes", 1), _size(expert_bytes, "expert_bytes", 0)
    layers, send = whole(layers, "layers", 1, MAX_LAYERS), one_of(send, "send", SENDS)
    wait = time_ps(first_step, "first_step")
    found = _requests(file, rate, input_tokens, output_tokens, duration, seed, index)
    end_ps = MAX_TIME_PS if duration is None else time_ps(duration, "duration", positive=True)
    within = [request for request in found if request.arrival_ps < end_ps]
    if plan.store and not any(request.blocks for request in found):
        raise SpecError("no request names blocks", path="store", value=store, remedy="give a file with hash_ids, or leave it out")
    if not within:
        raise SpecError(f"the first request comes at {format_time(found[0].arrival_ps)}", path="duration", value=duration)
    served = plan.serve(within if requests is None else within[: whole(requests, "requests", 1)])
    job = _Job(plan, ranks, shape, token, layers if send == "layer" else 1, start_ps, class_name)
    job.check(served)
    for request in served:
        job.add(request)
    steps = whole(steps, "steps", 0, 10**6)
    step_ps, skew = time_ps(step, "step"), real(skew, "skew", 0, MAX_SKEW)
    if bool(steps) != bool(experts):
        path, other = ("expert_bytes", "steps") if experts else ("steps", "expert_bytes")
        raise SpecError(f"{other} must be given, too", path=path, value=expert_bytes if experts else steps)
    if steps:
        job.exchange(steps, step_ps, experts, skew, stream(seed, index, "experts"))
    lengths = {"rate": rate, "input_tokens": input_tokens, "output_tokens": output_tokens}
    nominal = {
        "kind": "inference",
        **(lengths if file is None else {"file": str(file)}),
        "requests": len(served),
        "prefill": plan.prefill,
        "decode": plan.decode,
        "prefill_ranks": shape[0],
        "decode_ranks": shape[1],
        "assign": assign,
        "tokens_per_second": tokens_per_second,
        "kv_bytes": token,
        "layers": layers,
        "send": send,
        "prefix_cache": prefix_cache,
        "block": plan.block,
        "store": plan.store,
        "first_step_ps": wait,
        "steps": steps,
        "step_ps": step_ps,
        "expert_bytes": experts,
        "skew": skew,
        "connections": connections,
        "placement": placement,
        "class": class_name,
        "start_ps": start_ps,
    }
    if late := len(found) - len(within):
        nominal["left_out"] = late
    return job.flows(served, wait, one_of(connections, "connections", CONNECTED), priority, nominal)


def _size(value: str | int, path: str, low: int) -> int:
    size = parse_size(value, path)
    if not low <= size <= MAX_FLOW_BYTES:
        raise SpecError(f"must be between {low} and {MAX_FLOW_BYTES} B", path=path, value=value)
    return size


def _requests(
    file: Any, rate: Any, input_tokens: Any, output_tokens: Any, duration: Any, seed: int, index: int
) -> list[arrivals.Request]:
    """Those of the file, or at random."""
    if file is None and rate is None:
        raise SpecError("is missing", path="rate", remedy="give it, or a file of requests")
    if file is not None and rate is not None:
        raise SpecError("file is given, too", path="rate", value=rate, remedy="give one of them")
    for path, value in (("input_tokens", input_tokens), ("output_tokens", output_tokens)):
        if file is not None and value is not None:
            raise SpecError("the file says it", path=path, value=value, remedy="leave it out")
    if file is not None:
        return arrivals.read(file)
    if duration is None:
        raise SpecError("is missing", path="duration", remedy="rate needs it")
    during = time_ps(duration, "duration", positive=True)
    return arrivals.poisson(rate, input_tokens, output_tokens, duration_ps=during, seed=seed, index=index)


class _Job:
    """Collects the flows.

    shape    ranks of a prefill and of a decode instance
    token    bytes in the cache           parts   of the cache that are sent by themselves
    """

    def __init__(self, plan: Plan, ranks: np.ndarray, shape: list[int], token: int, parts: int, start_ps: int, name: str) -> None:
        self.plan, self.token, self.parts, self.start_ps = plan, token, parts, start_ps
        self.units = math.lcm(*shape)
        ends = np.cumsum([0, plan.prefill * shape[0], plan.decode * shape[1], plan.store])
        hosts = [ranks[low:high].tolist() for low, high in pairwise(ends)]
        self.prefill = [hosts[0][i : i + shape[0]] for i in range(0, len(hosts[0]), shape[0])]
        self.decode = [hosts[1][i : i + shape[1]] for i in range(0, len(hosts[1]), shape[1])]
        self.store = hosts[2]
        self.name, self.classes = class_name(name), [class_name(name)]
        self.rows: list[tuple[int, int, int, int, int, int, int]] = []  # start, src, dst, bytes, gap, class, part
        self.edges: list[tuple[int, int]] = []
        self.last: dict[int, int] = {}  # by host: what its prefill instance has computed last
        self.here: list[dict[int, int]] = []  # by request and decode host: all of its cache is there
        self.written: dict[int, list[int]] = {}  # by block: the messages that bring it to the store
        self.pairs = self._overlaps(*shape)

    def _overlaps(self, p: int, d: int) -> list[tuple[int, int, int]]:
        """(prefill rank, decode rank, end) of the parts of a cache that both hold, in units; ranks hold equal shares in order."""
        ends = sorted({self.units // p * (i + 1) for i in range(p)} | {self.units // d * (i + 1) for i in range(d)})
        return [((end - 1) * p // self.units, (end - 1) * d // self.units, end) for end in ends]

    def check(self, served: list[Served]) -> None:
        """SpecError: too many flows, a cache too large for a flow, a time out of range."""
        p, d = len(self.prefill[0]), len(self.decode[0])
        each = p + self.parts * (p + len(self.pairs)) + d + 2 * len(self.store) * p
        if each * len(served) > _MANY:
            rule = f"{len(served)} requests are about {each * len(served)} flows, more than {_MANY}"
            raise SpecError(rule, path="requests", remedy='give fewer, or send = "whole"')
        for request in served:
            if (size := request.sent * self.token) > MAX_FLOW_BYTES:
                rule = f"a cache of {request.sent} tokens has {size} B, more than {MAX_FLOW_BYTES}"
                raise SpecError(rule, path="kv_bytes", value=self.token, remedy="make it smaller")
        latest = max(max(request.free_ps, request.arrival_ps) for request in served) + self.start_ps
        if latest > MAX_TIME_PS:
            rule, rate = "computing would take more than 53 days", self.plan.tokens_per_second
            raise SpecError(rule, path="tokens_per_second", value=rate, remedy="raise it, or give fewer requests")

    def _flow(
        self, start: int, src: int, dst: int, after: Iterable[int], size: int = 0, of: str = "", gap: int = 0, part: int = -1
    ) -> int:
        """The number of a new flow; `of` is the second half of the name of its class."""
        number = len(self.rows)
        label = class_number(f"{self.name}/{of}", self.classes) if of else 0
        self.rows.append((start, src, dst, size, gap, label, part))
        self.edges += [(number, parent) for parent in after]
        return number

    def add(self, request: Served) -> None:
        """The flows of the next request."""
        number, start = len(self.here), self.start_ps + request.arrival_ps
        prefill, decode = self.prefill[request.prefill], self.decode[request.decode]
        fetched = self._fetch(request, start, prefill)
        total, came = request.sent * self.token, {host: list[int]() for host in decode}
        computed, done = dict[int, int](), 0
        for i, host in enumerate(prefill):
            after = [self._flow(start, host, host, ()), *fetched[i]]
            if host in self.last:
                after.append(self.last[host])
            self.last[host] = computed[host] = self._compute(request, number, start, host, after, 0)
        for part in range(self.parts):
            for i, j, end in self.pairs:
                until = total * (part * self.units + end) // (self.parts * self.units)
                if until > done:
                    src, dst = prefill[i], decode[j]
                    came[dst].append(self._flow(start, src, dst, (computed[src],), until - done, KV))
                    done = until
            if part + 1 < self.parts:
                for host in prefill:
                    self.last[host] = computed[host] = self._compute(request, number, start, host, [computed[host]], part + 1)
        self._keep(request, start, prefill, computed)
        others = [self.here[source] for source in request.sources]
        self.here.append({})
        for host, messages in came.items():
            if messages:
                after = messages + [ends[host] for ends in others if host in ends]
                self.here[number][host] = self._flow(start, host, host, after, part=number * ROLES + HERE)

    def _compute(self, request: Served, number: int, start: int, host: int, after: list[int], part: int) -> int:
        """One part of the prompt on one rank."""
        low, high = (request.prefill_ps * k // self.parts for k in (part, part + 1))
        return self._flow(start, host, host, after, gap=high - low, part=number * ROLES + PREFILL)

    def _fetch(self, request: Served, start: int, prefill: list[int]) -> list[list[int]]:
        """The messages from the store, by prefill rank: each gets its share of the blocks of each host of the store."""
        came: list[list[int]] = [[] for _ in prefill]
        for store, blocks in self._by_store(request.fetched):
            after = sorted({message for block in blocks for message in self.written[block]})
            size, done = len(blocks) * self.plan.block * self.token, 0
            for i, host in enumerate(prefill):
                until = size * (i + 1) // len(prefill)
                if until > done:
                    came[i].append(self._flow(start, store, host, after, until - done, STORE))
                    done = until
        return came

    def _keep(self, request: Served, start: int, prefill: list[int], computed: dict[int, int]) -> None:
        """The messages to the store, of what has been computed."""
        for store, blocks in self._by_store(request.stored):
            size, done, messages = len(blocks) * self.plan.block * self.token, 0, list[int]()
            for i, host in enumerate(prefill):
                until = size * (i + 1) // len(prefill)
                if until > done:
                    messages.append(self._flow(start, host, store, (computed[host],), until - done, STORE))
                    done = until
            self.written |= dict.fromkeys(blocks, messages)

    def _by_store(self, blocks: tuple[int, ...]) -> list[tuple[int, list[int]]]:
        """The hosts of the store, each with those of the blocks that it keeps."""
        found: dict[int, list[int]] = {}
        for block in blocks:
            found.setdefault(self.store[self.plan.places[block]], []).append(block)
        return sorted(found.items())

    def exchange(self, steps: int, step_ps: int, size: int, skew: float, rng: "np.random.Generator") -> None:
        """The steps of all decode instances: tokens to the experts and back."""
        n = len(self.decode[0])
        if n < 2:
            raise SpecError("one rank has all experts", path="expert_bytes", value=size, remedy="give decode_ranks = 2 or more")
        if (many := len(self.rows) + len(self.decode) * steps * n * (2 * n + 1)) > _MANY:
            raise SpecError(f"about {many} flows, more than {_MANY}", path="steps", value=steps, remedy="give fewer")
        shares = np.arange(1, n + 1, dtype=float) ** -skew
        popular = np.floor(size * shares / shares.sum()).astype(np.int64)
        for hosts in self.decode:
            ready = [[self._flow(self.start_ps, host, host, ())] for host in hosts]
            for _ in range(steps):
                given = rng.permutation(popular).tolist()
                begun = [self._flow(self.start_ps, host, host, ready[i], gap=step_ps) for i, host in enumerate(hosts)]
                there, back = ([[number] for number in begun] for _ in range(2))
                for here, after in ((there, [[number] for number in begun]), (back, there)):
                    for i in range(n):
                        for j in range(n):
                            src, dst, bytes_ = (i, j, given[j]) if here is there else (i, j, given[i])
                            if i != j and bytes_:
                                here[dst].append(self._flow(self.start_ps, hosts[src], hosts[dst], after[src], bytes_, EXPERTS))
                ready = back

    def flows(self, served: list[Served], wait_ps: int, connections: str, priority: int, nominal: dict[str, Any]) -> Flows:
        """All flows."""
        start, src, dst, size, gap, label, part = np.array(self.rows, dtype=np.int64).T
        child, parent = np.array(self.edges, dtype=np.int64).reshape(-1, 2).T
        priorities = np.full(len(start), whole(priority, "priority", 0, PRIORITIES - 1))
        known = [
            {
                "arrival_ps": self.start_ps + request.arrival_ps,
                "input_tokens": request.input_tokens,
                "output_tokens": request.output_tokens,
                "prefill": request.prefill,
                "decode": request.decode,
                "cached_tokens": request.cached,
                "fetched_tokens": len(request.fetched) * self.plan.block,
                "sent_tokens": request.sent,
                "kv_bytes": request.sent * self.token,
                "first_step_ps": wait_ps,
                "without_ps": request.free_ps - request.arrival_ps + wait_ps,
            }
            for request in served
        ]
        table = {name: np.array([row[name] for row in known], dtype=np.int64) for name in known[0]}
        requests = Requests(part, table)
        return Flows(
            start,
            src,
            dst,
            size,
            label,
            priorities,
            tuple(self.classes),
            csr(child, parent, len(start)),
            [nominal],
            gap,
            Operations(np.full(len(start), NO_OPERATION), (), (), requests),
            numbered("pair" if connections == "pair" else "message", np.where(src == dst, ALONE, 0)),
        )
