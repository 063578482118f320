"""Unknowns of a paper: what its text leaves open, the candidates, what chooses, and what is held out; declared before the runs.

PAPER/unknowns.toml has a table for each:

    [[unknown]]
    name = "dcqcn"
    question = "With which parameters was DCQCN run?"
    by = "calibration"                      # or "code", "statement", "text": authors' code or statement first, then the text
    chosen = "window"                       # the candidate that the figures show
    why = "what decided, or that the calibration has not been run"
    figures = ["bfc/fig09"]                 # that hang on it
    beside = ["dcqcn_win"]                  # labels of [[scheme]] tables that show another candidate beside it, which stay
    not_yet = {"bfc/fig26" = "why"}         # figures whose set-up is not that of the chosen one
    held_out = ["bfc/fig10", "bfc/fig09 long-*"]   # of a calibration: figures, with patterns of their claims

    [unknown.chooser]                       # of a calibration
    figure = "bfc/table1"
    scale = "paper"
    seeds = 20
    held_seeds = 1                          # seeds of the other figures; without it, those of each figure
    statistics = [{claim = "throughput-dcqcn", number = 10.0}, {claim = "p99", range = [5, 30]}]
    unread = ["bfc/table1 one/hpcc"]        # runs that no claim reads that chooses or is held out: run once, short

    [[unknown.candidate]]
    name = "window"
    source = "code: repository and commit, file"   # code, statement, text or ours
    set = [{at = "scheme.dcqcn", keys = {window = true}}]      # patches of specs, see penstock_papers.patches
    reads = {"hpcc/fig10" = {"queue" = "seen-queue"}}          # claims that are judged by the number of another one
    against = "text: section 3"                     # what contradicts it: it is run and shown with all others, but never chosen

Instead of candidates an unknown may have axes, lists of such tables ([[unknown.axis]] with [[unknown.axis.option]]), whose
product they are; `without` of an option names options of other axes that do not go with it.
"""

from __future__ import annotations

import itertools
import json
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock_net.errors import SpecError, nearest
from penstock_papers.patches import Patch

if TYPE_CHECKING:
    from penstock_papers.registry import Experiment

FOLDER = Path(__file__).resolve().parent
FILE = "unknowns.toml"
CALIBRATION = "calibration"
BY = ("code", "statement", "text", CALIBRATION)
KEYS = ("name", "question", "by", "chosen", "why", "figures", "beside", "not_yet", "held_out", "chooser", "candidate", "axis")
SOURCES = ("code", "statement", "text", "ours")  # what a candidate's source begins with
CLAIM_OF_PAPER = "paper"  # kind of the claims that are held out


@dataclass(frozen=True)
class Statistic:
    """A number of the paper that chooses.

    claim       its id in the calibrating figure
    low, high   the paper's number, twice, or its range
    complement  the logarithm is that of 1 - number: of a reduction, of which the paper measured what is left
    """

    claim: str
    low: float
    high: float
    complement: bool = False

    def distance(self, value: float | None) -> float:
        """Natural logarithm of the factor from our number to the paper's, 0 inside of its range; infinite without a number."""
        if value is None:
            return math.inf
        low, high = (1 - self.high, 1 - self.low) if self.complement else (self.low, self.high)
        return log_distance(1 - value if self.complement else value, low, high)

    @property
    def target(self) -> str:
        """The paper's number, or its range."""
        return f"{self.low:g}" if self.low == self.high else f"{self.low:g} .. {self.high:g}"


def log_distance(value: float, low: float | None, high: float | None) -> float:
    """|ln| of the factor by which a number lies outside of a band of positive numbers; infinite if there is none."""
    if not math.isfinite(value) or (low or 1) <= 0 or (high or 1) <= 0:
        return math.inf
    if low is not None and value < low:
        return math.log(low / value) if value > 0 else math.inf
    return math.log(value / high) if high is not None and value > high else 0.0


@dataclass(frozen=True)
class Chooser:
    """The figure that chooses: at a scale, with seeds 1 to `seeds`, by the distance of these statistics from the paper's.

    The other figures, whose claims are held out, are run with the seeds 1 to `held_seeds`; None: with as many as each asks for.
    `unread`: figures with patterns of the runs that no claim reads which chooses or is held out.
    """

    figure: str
    scale: str
    seeds: int
    statistics: tuple[Statistic, ...]
    held_seeds: int | None = None
    unread: tuple[str, ...] = ()

    def distance(self, numbers: Mapping[str, float | None]) -> float:
        """Square root of the sum of the squares of the statistics' distances: 0.69 is a factor of two in one of them."""
        return math.hypot(*(each.distance(numbers.get(each.claim)) for each in self.statistics))


@dataclass(frozen=True)
class Candidate:
    """A possible answer: its source, the patches of specs that make it, and claims that are judged by another one's number.

    against  what the paper, its code or its authors say that contradicts it: it is run, but not chosen; "" if nothing does
    """

    name: str
    source: str
    patches: tuple[Patch, ...] = ()
    reads: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    against: str = ""


@dataclass(frozen=True)
class Unknown:
    """One unknown of a paper, as the file has it.

    axes         what its candidates are the product of: a single axis of them, if the file lists them
    declaration  a hash of what must be said before the runs
    """

    paper: str
    name: str
    question: str
    by: str
    chosen: str
    why: str
    figures: tuple[str, ...]
    candidates: Mapping[str, Candidate]
    axes: tuple[tuple[Candidate, ...], ...]
    beside: tuple[str, ...] = ()
    not_yet: Mapping[str, str] = field(default_factory=dict)
    chooser: Chooser | None = None
    held_out: tuple[str, ...] = ()
    declaration: str = ""

    def held(self) -> dict[str, list[str]]:
        """Patterns of the claims that are held out, by figure."""
        found: dict[str, list[str]] = {}
        for text in self.held_out:
            figure, _, pattern = text.partition(" ")
            found.setdefault(figure, []).append(pattern or "*")
        return found

    def contradicted(self) -> frozenset[str]:
        """The candidates that are not chosen, however near they are."""
        return frozenset(name for name, each in self.candidates.items() if each.against)

    def is_unread(self, figure: str, run: str) -> bool:
        """Whether no claim that chooses or is held out reads a run of a figure."""
        patterns = (text.partition(" ") for text in (self.chooser.unread if self.chooser else ()))
        return any(id == figure and fnmatchcase(run, pattern) for id, _, pattern in patterns)

    def is_held(self, figure: str, claim: str) -> bool:
        """Whether a claim of the paper is held out: one that chooses never is."""
        chooses = self.chooser is not None and self.chooser.figure == figure and claim in _ids(self.chooser)
        return not chooses and any(fnmatchcase(claim, pattern) for pattern in self.held().get(figure, ()))


def _ids(chooser: Chooser) -> set[str]:
    return {each.claim for each in chooser.statistics}


# -- reading ------------------------------------------------------------------------------------------------------------


@cache
def of_paper(paper: str, folder: Path = FOLDER) -> tuple[Unknown, ...]:
    """The declarations of a paper; none without a file.  SpecError: the file is wrong."""
    path = folder / paper / FILE
    if not path.exists():
        return ()
    try:
        tables = tomllib.loads(path.read_text())
        known(tables, ("unknown",), "")
        found = tuple(_unknown(paper, table) for table in tables.get("unknown", ()))
        if twice := [a.name for a, b in itertools.combinations(found, 2) if a.name == b.name]:
            raise SpecError("there are two of that name", path="name", value=twice[0], remedy="rename one of them")
        return found
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"is no TOML ({error})", place=path) from error
    except SpecError as error:
        raise SpecError(error.rule, path=error.path, remedy=error.remedy, place=path, **_value(error)) from error


def _value(error: SpecError) -> dict[str, Any]:
    return {"value": error.value}


def calibrated(id: str, folder: Path = FOLDER) -> frozenset[str]:
    """The claims of a figure that choose between candidates of a calibration."""
    unknowns = of_paper(id.split("/")[0], folder)
    return frozenset(claim for each in unknowns if each.chooser and each.chooser.figure == id for claim in _ids(each.chooser))


def known(table: Mapping[str, Any], keys: Iterable[str], where: str) -> None:
    """SpecError: a table has another key."""
    keys = tuple(keys)
    for key in table:
        if key not in keys:
            raise SpecError("there is no such key", path=f"{where}.{key}".lstrip("."), remedy=nearest(key, keys))


def _text(table: Mapping[str, Any], key: str, where: str) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not value.strip():
        raise SpecError("must be a text", path=f"{where}.{key}", remedy="every unknown says it")
    return value


def _unknown(paper: str, table: Mapping[str, Any]) -> Unknown:
    where = _text(table, "name", "unknown")
    known(table, KEYS, where)
    by = _text(table, "by", where)
    if by not in BY:
        raise SpecError("must say what decides", path=f"{where}.by", value=by, remedy=f"one of {', '.join(BY)}")
    axes, candidates = _candidates(table, where)
    chosen = _text(table, "chosen", where)
    if chosen not in candidates:
        raise SpecError("is no candidate", path=f"{where}.chosen", value=chosen, remedy=nearest(chosen, candidates))
    if candidates[chosen].against:
        rule = f"is contradicted: {candidates[chosen].against}"
        raise SpecError(rule, path=f"{where}.chosen", value=chosen, remedy="choose another candidate")
    if not table.get("figures"):
        raise SpecError("names no figure", path=f"{where}.figures", remedy="name those that hang on the unknown")
    chooser = _chooser(table["chooser"], where) if "chooser" in table else None
    held_out = tuple(table.get("held_out", ()))
    if (by == CALIBRATION) != (chooser is not None):
        rule = "a calibration has a chooser, and what is decided otherwise has none"
        raise SpecError(rule, path=f"{where}.chooser", remedy="see penstock_papers/unknowns.py")
    if chooser and not held_out:
        rule = "a calibration without held-out claims shows nothing"
        raise SpecError(rule, path=f"{where}.held_out", remedy="name figures or claims that do not choose")
    if held_out and not chooser:
        raise SpecError("only a calibration holds claims out", path=f"{where}.held_out", remedy="leave it out")
    return Unknown(
        paper,
        where,
        question=_text(table, "question", where),
        by=by,
        chosen=chosen,
        why=_text(table, "why", where),
        figures=tuple(table["figures"]),
        candidates=candidates,
        axes=axes,
        beside=tuple(table.get("beside", ())),
        not_yet=dict(table.get("not_yet", {})),
        chooser=chooser,
        held_out=held_out,
        declaration=_declaration(table),
    )


def _declaration(table: Mapping[str, Any]) -> str:
    """A hash of what must be said before the runs: all but what was chosen, texts about it, and what no claim reads."""
    kept = {key: table.get(key) for key in ("name", "candidate", "axis", "chooser", "held_out")}
    if kept["chooser"]:
        kept["chooser"] = {key: value for key, value in kept["chooser"].items() if key != "unread"}
    return sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16]


def _chooser(table: Mapping[str, Any], where: str) -> Chooser:
    path = f"{where}.chooser"
    known(table, ("figure", "scale", "seeds", "held_seeds", "statistics", "unread"), path)
    statistics = tuple(_statistic(each, path) for each in table.get("statistics", ()))
    if not statistics:
        raise SpecError("names no statistic", path=f"{path}.statistics", remedy="give claims with the paper's numbers")
    seeds, held_seeds = table.get("seeds", 1), table.get("held_seeds")
    for key, value in {"seeds": seeds, "held_seeds": 1 if held_seeds is None else held_seeds}.items():
        if not isinstance(value, int) or value < 1:
            raise SpecError("must be a number of seeds", path=f"{path}.{key}", value=value, remedy="1 or more")
    unread = tuple(table.get("unread", ()))
    if bad := [text for text in unread if not isinstance(text, str) or not text.partition(" ")[2]]:
        remedy = 'such as "bfc/fig09 incast/*"'
        raise SpecError("names a figure and runs of it", path=f"{path}.unread", value=bad[0], remedy=remedy)
    return Chooser(_text(table, "figure", path), table.get("scale", "paper"), seeds, statistics, held_seeds, unread)


def _statistic(table: Mapping[str, Any], where: str) -> Statistic:
    path = f"{where}.statistics"
    known(table, ("claim", "number", "range", "complement"), path)
    if ("number" in table) == ("range" in table):
        raise SpecError("has the paper's number or its range", path=f"{path}.{table.get('claim')}", remedy="give one of the two")
    low, high = table["range"] if "range" in table else (table["number"], table["number"])
    found = Statistic(_text(table, "claim", path), float(low), float(high), bool(table.get("complement", False)))
    if not math.isfinite(found.distance(found.low)):
        raise SpecError("has no logarithm", path=f"{path}.{found.claim}", value=low, remedy="give positive numbers")
    return found


def _candidates(table: Mapping[str, Any], where: str) -> tuple[tuple[tuple[Candidate, ...], ...], dict[str, Candidate]]:
    """The axes, and their product by name."""
    if ("candidate" in table) == ("axis" in table):
        raise SpecError("has candidates, or axes of them", path=where, remedy="give [[unknown.candidate]] or [[unknown.axis]]")
    apart = set[frozenset[str]]()  # names that do not go together
    if "axis" in table:
        axes = tuple(_axis(axis, where, apart) for axis in table["axis"])
    else:
        axes = (tuple(_candidate(each, f"{where}.candidate") for each in table["candidate"]),)
    found = [_joined(each) for each in itertools.product(*axes) if not _apart(each, apart)]
    names = [each.name for each in found]
    if len(names) < 2:
        raise SpecError("one candidate is no choice", path=where, remedy="name another one, with its source")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SpecError("two candidates have that name", path=where, value=twice[0], remedy="rename one of them")
    return axes, dict(zip(names, found))


def _axis(table: Mapping[str, Any], where: str, apart: set[frozenset[str]]) -> tuple[Candidate, ...]:
    known(table, ("option",), f"{where}.axis")
    options = table.get("option", ())
    apart |= {frozenset((each.get("name", ""), other)) for each in options for other in each.get("without", ())}
    return tuple(_candidate(each, f"{where}.axis", "without") for each in options)


def _apart(options: tuple[Candidate, ...], apart: set[frozenset[str]]) -> bool:
    return any(frozenset((one.name, other.name)) in apart for one, other in itertools.combinations(options, 2))


def _joined(options: tuple[Candidate, ...]) -> Candidate:
    """Options of different axes as one candidate: "ns3, window, no clamp"."""
    if len(options) == 1:
        return options[0]
    reads = {figure: claims for option in options for figure, claims in option.reads.items()}
    patches = tuple(patch for option in options for patch in option.patches)
    source = "; ".join(dict.fromkeys(option.source for option in options))
    against = "; ".join(option.against for option in options if option.against)
    return Candidate(", ".join(option.name for option in options), source, patches, reads, against)


def _candidate(table: Mapping[str, Any], where: str, *also: str) -> Candidate:
    known(table, ("name", "source", "set", "reads", "against", *also), where)
    name = _text(table, "name", where)
    source = _source(table, "source", SOURCES, f"{where}.{name}")
    against = _source(table, "against", SOURCES[:3], f"{where}.{name}") if "against" in table else ""
    patches = tuple(Patch.of(each, f"{where}.{name}.set") for each in table.get("set", ()))
    return Candidate(name, source, patches, table.get("reads", {}), against)


def _source(table: Mapping[str, Any], key: str, kinds: tuple[str, ...], where: str) -> str:
    source = _text(table, key, where)
    if source.split(":")[0] not in kinds or ":" not in source:
        remedy = 'such as "text: section 6.2" or "code: repository and commit, file"'
        raise SpecError(f"must begin with one of {', '.join(kinds)}", path=f"{where}.{key}", value=source, remedy=remedy)
    return source


# -- against the figures ------------------------------------------------------------------------------------------------


def check(unknown: Unknown, experiments: Mapping[str, Experiment]) -> None:
    """SpecError: an unknown names figures, scales or claims that do not exist, or holds nothing out."""
    held = unknown.held()
    reads = [figure for each in unknown.candidates.values() for figure in each.reads]
    patched = [figure for each in unknown.candidates.values() for patch in each.patches for figure in patch.figures]
    chooser = [unknown.chooser.figure] if unknown.chooser else []
    for id in (*unknown.figures, *unknown.not_yet, *held, *reads, *patched, *chooser):
        if id not in experiments:
            raise SpecError(f"{unknown.name}: there is no such figure", path="figure", value=id, remedy=nearest(id, experiments))
    if outside := [id for id in (*unknown.not_yet, *patched) if id not in unknown.figures]:
        rule = f"{unknown.name}: does not hang on it by its own list"
        raise SpecError(rule, path="figure", value=outside[0], remedy="name it in `figures`")
    if unknown.chooser:
        experiment = experiments[unknown.chooser.figure]
        if unknown.chooser.scale not in experiment.scales:
            remedy = nearest(unknown.chooser.scale, experiment.scales)
            raise SpecError(f"{experiment.id} has no such scale", path="scale", value=unknown.chooser.scale, remedy=remedy)
        for claim in _ids(unknown.chooser):
            _exists(unknown, experiment, claim)
        for text in unknown.chooser.unread:
            _is_run(unknown, experiments, text)
    for id, patterns in held.items():
        for pattern in patterns:
            if not any(fnmatchcase(row.id, pattern) and unknown.is_held(id, row.id) for row in experiments[id].rows):
                _exists(unknown, experiments[id], pattern)
                raise SpecError(
                    f"{unknown.name}: holds out what chooses", path="held_out", value=f"{id} {pattern}", remedy="name others"
                )
    for candidate in unknown.candidates.values():
        for id, claims in candidate.reads.items():
            for pair in claims.items():
                for claim in pair:
                    _exists(unknown, experiments[id], claim)


def _is_run(unknown: Unknown, experiments: Mapping[str, Experiment], text: str) -> None:
    """SpecError: no run of a calibration's figure has such a label."""
    from penstock_papers.cache import labels

    id, _, pattern = text.partition(" ")
    assert unknown.chooser
    specs = experiments[id].specs if id in (unknown.chooser.figure, *unknown.held()) else None
    scale = unknown.chooser.scale
    runs = labels(specs(scale, 1)) if specs and scale in experiments[id].scales else []
    if not any(fnmatchcase(run, pattern) for run in runs):
        rule = f"{unknown.name}: is no run of a figure that chooses or is held out"
        raise SpecError(rule, path="unread", value=text, remedy=nearest(pattern, runs))


def _exists(unknown: Unknown, experiment: Experiment, claim: str) -> None:
    ids = [row.id for row in experiment.rows]
    if not any(fnmatchcase(id, claim) for id in ids):
        rule = f"{unknown.name}: {experiment.id} has no such claim"
        raise SpecError(rule, path="claim", value=claim, remedy=nearest(claim, ids))
