"""Workloads of SimAI, as AICB writes them, and of ASTRA-sim 1.0, whose format it was: layers of a model, each with three phases
of computation and a collective.

    HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 1 pp: 1 all_gpus: 4
    1
    mlp -1  1000 ALLREDUCE 4096  2000 NONE 0  3000 ALLREDUCE 8192  100

A layer is its name, a number without meaning, then nanoseconds, collective and bytes of the forward pass, of the gradients of
inputs and of those of weights, and the nanoseconds of the update. One iteration is the forward pass of all layers, and from the
last layer back to the first the gradients of inputs, then of weights. A rank waits for the collectives of the first two
phases; those of weights go on beside, one after another, and the layer's update after its own; so the end of an iteration is the
last of them. Ranks are numbered by tensor, expert, data and pipeline parallelism, the first fastest.

A file that begins with MICRO has the phases of its layers one after another, among all ranks.

Of ASTRA-sim 1.0 are DATA, MODEL and HYBRID_TRANSFORMER, which is as above. With DATA, weights come first, only their collectives
are run, among all ranks, and the first layer has no gradients of inputs. With MODEL only the others are run, among all ranks;
those of inputs go on beside the computation of weights' gradients, and the first layer has none. A cycle is taken as a ns.
"""

import re

from penstock_net.errors import SpecError
from penstock_net.inputs import MAX_FLOW_BYTES, MAX_TIME_PS, inside, read_text, whole_cell
from penstock_net.topology.graph import MAX_HOSTS
from penstock_net.workload.traces.dag import MAX_OPERATIONS, Call, Trace

POLICY = "HYBRID_TRANSFORMER_FWD_IN_BCKWD"
DATA, MODEL, HYBRID = "DATA", "MODEL", "HYBRID_TRANSFORMER"
MICRO = "MICRO"
_KINDS = {
    "ALLREDUCE": "all_reduce",
    "ALLGATHER": "all_gather",
    "REDUCESCATTER": "reduce_scatter",
    "ALLTOALL": "all_to_all",
    "BROADCAST": "broadcast",
}
_COLLECTIVE = re.compile(rf"({'|'.join(_KINDS)})(?:_(TP|DP|EP|DP_EP))?")
_PHASES = ("forward", "input gradient", "weight gradient")
_GROUPS = ("TP", "TP", "DP")  # of each, unless the name of the collective says otherwise
_IGNORED = {"vpp": "virtual stages (vpp)", "ga": "micro-batches (ga)", "pp_comm": "transfers between pipeline stages (pp_comm)"}
_SIZES = {"model_parallel_NPU_group": "TP", "ep": "EP", "pp": "PP", "all_gpus": "ranks"}

Phase = tuple[int, tuple[str, str, int] | None]  # ps, and kind, group and bytes
Layer = tuple[int, str, list[Phase], int]  # line, name, phases, ps of the update


def read(path: str, ranks: int | None = None) -> Trace:
    """The trace in a file; `ranks` is for a file that has no all_gpus."""
    return _Workload(path, read_text(path), ranks).trace


class _Workload:
    def __init__(self, path: str, text: str, ranks: int | None) -> None:
        self.path = path
        lines = [(number, line.split()) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
        if len(lines) < 2:
            raise SpecError("two lines, a header and a number of layers, must come first", place=path)
        with inside(place=f"{path}:{lines[0][0]}"):
            self.sizes, notes = _header(lines[0][1], ranks)
            self.groups = groups_of(**self.sizes)
        self.trace = Trace(path, self.sizes["ranks"])
        for sentence in notes:
            self.trace.note(sentence)
        with inside(place=f"{path}:{lines[1][0]}"):
            if len(lines[1][1]) != 1:
                raise SpecError("expected the number of layers", value=" ".join(lines[1][1]))
            count = whole_cell(lines[1][1][0], "layers", 0, MAX_OPERATIONS)
        if count != len(lines) - 2:
            raise SpecError(f"{count} layers are announced, {len(lines) - 2} follow", remedy="is the file truncated?", place=path)
        groups = ("DP", "DP", "DP") if lines[0][1][0] == MICRO else _GROUPS
        layers = [(number, words[0], *_layer(words, groups, f"{path}:{number}")) for number, words in lines[2:]]
        if 7 * count * self.trace.ranks > MAX_OPERATIONS:
            rule = f"{count} layers on {self.trace.ranks} ranks are more than {MAX_OPERATIONS} operations"
            raise SpecError(rule, remedy="convert a part of the file", place=path)
        for rank in range(self.trace.ranks):
            loops = {MICRO: self._in_turn, DATA: self._data, MODEL: self._model}
            loops.get(lines[0][1][0], self._iteration)(rank, layers)

    def _in_turn(self, rank: int, layers: list[Layer]) -> None:
        """The phases of a file of MICRO, one after another, all of them among all ranks."""
        last: int | None = None
        for line, layer, phases, update in layers:
            for phase in phases:
                last = self._phase(rank, line, phase, [last], layer)
            last = self._compute(rank, line, update, [last], layer)

    def _iteration(self, rank: int, layers: list[Layer]) -> None:
        last: int | None = None
        beside: int | None = None  # the last collective of weights
        for line, layer, phases, _ in layers:
            last = self._phase(rank, line, phases[0], [last], f"forward {layer}")
        for line, layer, phases, update in reversed(layers):
            last = self._phase(rank, line, phases[1], [last], f"backward {layer}")
            last = self._compute(rank, line, phases[2][0], [last], f"backward {layer}")
            if phases[2][1]:
                beside = self._collective(rank, line, phases[2][1], [last, beside], f"gradients {layer}")
                beside = self._compute(rank, line, update, [beside], f"update {layer}")
            else:
                last = self._compute(rank, line, update, [last], f"update {layer}")

    def _data(self, rank: int, layers: list[Layer]) -> None:
        """The loop of ASTRA-sim for DATA."""
        last: int | None = None
        beside: int | None = None
        for line, layer, phases, _ in layers:
            last = self._compute(rank, line, phases[0][0], [last], f"forward {layer}")
        for line, layer, phases, update in reversed(layers):
            last = self._compute(rank, line, phases[2][0], [last], f"backward {layer}")
            beside = self._gradients(rank, line, phases[2][1], update, [last, beside], layer)
            if layers[0][0] != line:
                last = self._compute(rank, line, phases[1][0], [last], f"backward {layer}")
            unused = sum(phase[1] is not None for phase in phases[:2])
            if unused:
                self.trace.note(f"collectives of the forward pass and of inputs, which {DATA} does not run", unused)

    def _model(self, rank: int, layers: list[Layer]) -> None:
        """The loop of ASTRA-sim for MODEL."""
        last: int | None = None
        for line, layer, phases, _ in layers:
            last = self._phase(rank, line, phases[0], [last], f"forward {layer}")
        for line, layer, phases, update in reversed(layers):
            last = self._compute(rank, line, phases[1][0], [last], f"backward {layer}")
            inputs: int | None = None
            if phases[1][1] and layers[0][0] != line:
                inputs = self._collective(rank, line, phases[1][1], [last], f"backward {layer}")
            elif phases[1][1]:
                self.trace.note(f"collectives of the inputs of the first layer, which {MODEL} does not run")
            if phases[2][1]:
                self.trace.note(f"collectives of weights, which {MODEL} does not run")
            weights = self._compute(rank, line, phases[2][0], [last], f"backward {layer}")
            last = self._compute(rank, line, update, [weights, inputs], f"update {layer}")

    def _gradients(
        self, rank: int, line: int, what: tuple[str, str, int] | None, update: int, after: list[int | None], layer: str
    ) -> int | None:
        """The collective of a layer's weights and its update, which go on beside; the last of them."""
        beside = self._collective(rank, line, what, after, f"gradients {layer}") if what else after[0]
        return self._compute(rank, line, update, [beside, after[1]], f"update {layer}")

    def _phase(self, rank: int, line: int, phase: Phase, after: list[int | None], name: str) -> int | None:
        computed = self._compute(rank, line, phase[0], after, name)
        return self._collective(rank, line, phase[1], [computed], name) if phase[1] else computed

    def _compute(self, rank: int, line: int, time_ps: int, after: list[int | None], name: str) -> int:
        op = self.trace.calc(rank, time_ps, line, name)
        self.trace.wait_all(op, (earlier for earlier in after if earlier is not None))
        return op

    def _collective(self, rank: int, line: int, what: tuple[str, str, int], after: list[int | None], name: str) -> int | None:
        kind, group, size = what
        members = self.groups[group][rank]
        if len(members) == 1:
            self.trace.note(f"collectives of groups of one rank ({group})")
            return after[0]
        op = self.trace.collective(rank, Call(kind, members, size), line, name)
        self.trace.wait_all(op, (earlier for earlier in after if earlier is not None))
        return op


def _header(words: list[str], ranks: int | None) -> tuple[dict[str, int], list[str]]:
    """The sizes of the groups, and what else the header says."""
    if words[0] not in (POLICY, MICRO, DATA, MODEL, HYBRID):
        read = ", ".join((POLICY, HYBRID, DATA, MODEL, MICRO))
        rule = f"this is a workload of ASTRA-sim 1.0 of the policy {words[0]}; only {read} are read"
        raise SpecError(rule, remedy="its groups are dimensions of a network of ASTRA-sim, which the file does not have")
    if words[0] in (DATA, MODEL) and len(words) > 1:
        raise SpecError(f"only {POLICY} and {HYBRID} have more words in this line", value=" ".join(words[1:]))
    given = {}
    for key, value in zip(words[1::2], [*words[2::2], ""]):
        name = key.removesuffix(":")
        if name not in (*_SIZES, *_IGNORED, "checkpoints", "checkpoint_initiates"):
            raise SpecError("unknown word of the header", value=key)
        if name in given:
            raise SpecError("occurs twice", path=name)
        given[name] = whole_cell(value, name, 0, MAX_FLOW_BYTES)
    for name in ("checkpoints", "checkpoint_initiates"):
        if given.get(name):
            raise SpecError("computing layers again from a checkpoint is not supported", path=name, value=given[name])
    if words[0] == HYBRID and "model_parallel_NPU_group" not in given:
        rule = "is not in the file, so that the groups are dimensions of a network of ASTRA-sim"
        raise SpecError(rule, path="model_parallel_NPU_group", remedy=f"write {HYBRID} model_parallel_NPU_group: N")
    sizes = {of: max(given.get(name, 1), 1) for name, of in _SIZES.items() if of != "ranks"}
    total = given.get("all_gpus") or ranks
    if ranks not in (None, total):
        raise SpecError(f"the file says all_gpus: {total}", path="ranks", value=ranks, remedy="leave it out")
    if total is None:
        raise SpecError("the number of ranks is not in the file", path="all_gpus", remedy="give --ranks N")
    whole_cell(str(total), "all_gpus", 1, MAX_HOSTS)
    if words[0] == MODEL:
        sizes["TP"] = total
    one = sizes["TP"] * sizes["PP"] * sizes["EP"]
    if total % one:
        raise SpecError(f"must be a multiple of tensor x expert x pipeline, {one}", path="all_gpus", value=total)
    notes = [what for name, what in _IGNORED.items() if given.get(name, 0) > 1]
    if sizes["PP"] > 1:
        notes.append("pipeline stages (pp), each of which computes all layers of the file on its own")
    return {**sizes, "ranks": total}, notes


def groups_of(TP: int, EP: int, PP: int, ranks: int) -> dict[str, list[tuple[int, ...]]]:
    """For each kind of group and each rank the ranks of its group."""
    stage = ranks // PP
    place = {"TP": 1, "EP": TP, "DP_EP": TP * EP, "DP": TP}
    size = {"TP": TP, "EP": EP, "DP_EP": stage // (TP * EP), "DP": stage // TP}
    found = {}
    for kind, stride in place.items():
        shared: dict[int, tuple[int, ...]] = {}
        for rank in range(ranks):
            first = rank - rank // stride % size[kind] * stride
            shared.setdefault(first, tuple(range(first, first + stride * size[kind], stride)))
        found[kind] = [shared[rank - rank // stride % size[kind] * stride] for rank in range(ranks)]
    return found


def _layer(words: list[str], groups: tuple[str, ...], where: str) -> tuple[list[Phase], int]:
    """The phases of a layer, and the time of its update, ps."""
    with inside(place=where):
        if len(words) != 12:
            raise SpecError(f"a layer has 12 columns, this line {len(words)}")
        phases = [_phase(words[at : at + 3], name, group) for at, name, group in zip((2, 5, 8), _PHASES, groups)]
        return phases, _time(words[11], "update")


def _phase(words: list[str], name: str, group: str) -> Phase:
    time = _time(words[0], name)
    size = whole_cell(words[2], f"{name}.bytes", 0, MAX_FLOW_BYTES)
    if words[1] == "NONE":
        return time, None
    match = _COLLECTIVE.fullmatch(words[1])
    if not match:
        raise SpecError(f"known are NONE, {', '.join(_KINDS)}, each perhaps with _EP or _DP_EP", path=name, value=words[1])
    return time, (_KINDS[match[1]], match[2] or group, size)


def _time(text: str, name: str) -> int:
    return 1000 * whole_cell(text, name, 0, MAX_TIME_PS // 1000)
