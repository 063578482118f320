"""Calibrating: every candidate of an unknown is run on the figure that chooses and on the claims that are held out.

    for found in calibrate(unknown, scale="paper"):         # after each candidate on each figure
        ...

Runs are those of the figures with the candidates' patches, through the cache, so that an interrupted calibration goes on from
where it was, and a figure that shows the chosen candidate needs no further run.  What is declared to be read by no claim is run
once, and for a few milliseconds.  A recorded calibration goes on with what it lacks, on any machine.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from rich.table import Table

from penstock_net.errors import PenstockError, SpecError
from penstock_net.files import write_file
from penstock_net.identity import code_hash, home, key
from penstock_net.results.rundir import is_whole
from penstock_net.spec import parse_spec
from penstock_net.testing.bench import machine
from penstock_net.version import version
from penstock_papers import cache as store
from penstock_papers import calibrations, records
from penstock_papers.cache import Progress
from penstock_papers.calibrations import CHOOSES, HELD_OUT, Calibration
from penstock_papers.candidates import as_read, with_candidate
from penstock_papers.claims import FROM_PAPER, Claim, judge, over_seeds
from penstock_papers.framework import measured, run_all
from penstock_papers.registry import EXPERIMENTS, Experiment
from penstock_papers.unknowns import FILE, Candidate, Chooser, Unknown, check, of_paper

Experiments = Mapping[str, Experiment]


def chosen(paper: str, name: str | None, folder: Path, experiments: Experiments = EXPERIMENTS) -> list[Unknown]:
    """The unknowns of a paper that a calibration decides, or that of a name, checked.  SpecError: there is none."""
    found = [each for each in of_paper(paper, folder) if each.chooser and name in (None, each.name)]
    if not found:
        known = ", ".join(each.name for each in of_paper(paper, folder) if each.chooser) or "none"
        rule = f"{paper} has no unknown that a calibration decides" + (f" of the name {name}" if name else "")
        raise SpecError(rule, path="calibrate", remedy=f"{folder / paper / FILE} has {known}")
    for each in found:
        check(each, experiments)
    return found


def _chooser(unknown: Unknown) -> Chooser:
    assert unknown.chooser, unknown.name
    return unknown.chooser


def figures(unknown: Unknown, scale: str, experiments: Experiments = EXPERIMENTS) -> list[str]:
    """The calibrating figure, then those with held-out claims that have this scale."""
    held = [id for id in unknown.held() if scale in experiments[id].scales]
    return list(dict.fromkeys([_chooser(unknown).figure, *held]))


def seeds_of(unknown: Unknown, id: str, scale: str, seeds: Sequence[int] | None, experiments: Experiments) -> list[int]:
    """Those of the calibrating figure are declared, of others too or the figure's own; `seeds` replace both."""
    chooser = _chooser(unknown)
    own = chooser.seeds if id == chooser.figure else chooser.held_seeds or experiments[id].seeds.get(scale, 1)
    return list(seeds or range(1, 1 + own)) if experiments[id].takes_seeds else [1]


# -- what it costs ------------------------------------------------------------------------------------------------------


def cost(
    unknown: Unknown,
    scale: str,
    seeds: Sequence[int] | None = None,
    cache: Path | None = None,
    experiments: Experiments = EXPERIMENTS,
    known: Mapping[str, Any] | None = None,
    before: Calibration | None = None,
) -> str:
    """How many different runs there are, how many of them are not in the cache, and their time by the figures' records.

    The figures of `before` on which every candidate has been run are not counted.
    """
    folder, known = cache or home() / "runs", records.load() if known is None else known
    runs: dict[str, bool] = {}
    seconds, untimed = 0.0, 0
    ids = [id for id in figures(unknown, scale, experiments) if not before or calibrations.missing(before, id)]
    for id in ids:
        of_figure = dict(_runs(unknown, experiments[id], scale, seeds_of(unknown, id, scale, seeds, experiments), folder))
        new = [name for name, cached in of_figure.items() if not cached and name not in runs]
        record = known.get(id, {}).get(scale)
        specs = experiments[id].specs
        per_seed = len(store.single(specs(scale, 1))) if specs else 0
        if record and per_seed:
            seconds += len(new) * record["run_s"] / len(record["seeds"]) / per_seed
        else:
            untimed += len(new)
        runs |= of_figure
    missing = sum(not cached for cached in runs.values())
    timed = f", about {seconds / 60:.0f} min of one core by the records" if missing > untimed else ""
    more = f"; of {untimed} no time is recorded" if untimed else ""
    text = f"{len(unknown.candidates)} candidates, {len(ids)} figures, {len(runs)} runs"
    return f"{unknown.paper} {unknown.name}: {text}, {missing} of them not in the cache{timed}{more}"


def _runs(unknown: Unknown, experiment: Experiment, scale: str, seeds: Sequence[int], folder: Path) -> Iterator[tuple[str, bool]]:
    """The key of every run, and whether the cache has it."""
    seen = set()
    for candidate in unknown.candidates.values():
        specs = as_read(experiment, unknown, candidate).specs
        if not specs:
            return
        for seed in seeds:
            for label, spec in specs(scale, seed).items():
                tables = spec["scheme"] if isinstance(spec["scheme"], list) else [spec["scheme"]]
                bare = [{name: value for name, value in table.items() if name != "label"} for table in tables]
                rest = json.dumps({name: value for name, value in spec.items() if name != "scheme"}, sort_keys=True)
                new = [table for table in bare if (rest, json.dumps(table, sort_keys=True)) not in seen]
                seen |= {(rest, json.dumps(table, sort_keys=True)) for table in new}
                if new:
                    numbered = [{**table, "label": f"n{i}"} for i, table in enumerate(new)]
                    checked = parse_spec({**spec, "scheme": numbered}, name=f"spec {label}")
                    for each in checked.schemes:
                        name = key(checked.only(each))
                        yield name, is_whole(folder / name)


# -- running ------------------------------------------------------------------------------------------------------------


def calibrate(
    unknown: Unknown,
    scale: str = "quick",
    seeds: Sequence[int] | None = None,
    cache: Path | None = None,
    threads: int = 1,
    workers: int = 1,
    progress: Progress | None = None,
    experiments: Experiments = EXPERIMENTS,
    before: Calibration | None = None,
) -> Iterator[Calibration]:
    """Every candidate on the figure that chooses, then on those with held-out claims: numbers, verdicts and distances.

    Yields what is found after each candidate on each figure; `before` is what was yielded, and kept, by an earlier call.  A
    candidate that cannot be run, such as one that overloads a link, has no distance, and says why.
    """
    if scale not in experiments[_chooser(unknown).figure].scales:
        raise SpecError(f"{_chooser(unknown).figure} has no such scale", path="scale", value=scale, remedy="give another one")
    ids = figures(unknown, scale, experiments)
    schemes = frozenset(name for id in ids for name in _schemes(unknown, experiments[id], scale))
    made: Calibration = {
        "unknown": unknown.name,
        "paper": unknown.paper,
        "scale": scale,
        "declaration": unknown.declaration,
        "penstock": version(),
        "schemes": sorted(schemes),
        "commit": records.commit(),
        "date": records.today(),
        "machine": machine(),
        "seeds": {},
        "candidates": {name: {"distance": None, "distances": [], "code": {}, "figures": {}} for name in unknown.candidates},
    }
    if before:
        made |= {name: deepcopy(before[name]) for name in ("seeds", "candidates")}
    for id in ids:
        of_figure = made["seeds"][id] = seeds_of(unknown, id, scale, seeds, experiments)
        for name in calibrations.missing(made, id):
            candidate, found = unknown.candidates[name], made["candidates"][name]
            try:
                own = as_read(experiments[id], unknown, candidate)
                data = {}
                for seed in of_figure:
                    who = _named(progress, f"{name}, {id}, seed {seed}")
                    runs = run_all(own, scale, seed, cache or home() / "runs", threads, who, workers)
                    data[seed] = own.claims(measured(own, runs, scale, seed), scale)
            except PenstockError as error:
                found["error"] = str(error)
                yield deepcopy(made)
                continue
            seen = judge(over_seeds(list(data.values())), scale, own.differs)
            found["figures"][id], found["code"][id] = dict(_kept(unknown, candidate, id, seen)), code_hash(schemes)
            if id == _chooser(unknown).figure:
                found["distance"] = _finite(_distance(unknown, candidate, seen))
                found["distances"] = [_finite(_distance(unknown, candidate, each)) for each in data.values()]
            yield deepcopy(made)


def _schemes(unknown: Unknown, experiment: Experiment, scale: str) -> set[str]:
    candidates = unknown.candidates.values()
    return {name for each in candidates for name in records.set_up(with_candidate(experiment, unknown, each), scale, 1)[0]}


def _named(progress: Progress | None, who: str) -> Progress | None:
    return progress and (lambda what, fraction: progress(f"{who}: {what}", fraction))


def _finite(distance: float) -> float | None:
    return round(distance, 6) if math.isfinite(distance) else None


def _by_id(candidate: Candidate, id: str, claims: Sequence[Claim]) -> Iterator[tuple[Claim, Claim]]:
    """The paper's claims, each with the one whose number is judged in its place."""
    known, reads = {claim.id: claim for claim in claims}, candidate.reads.get(id, {})
    for claim in claims:
        if claim.kind == FROM_PAPER:
            yield claim, known[reads.get(claim.id, claim.id)]


def _distance(unknown: Unknown, candidate: Candidate, claims: Sequence[Claim]) -> float:
    chooser = _chooser(unknown)
    return chooser.distance({claim.id: read.value for claim, read in _by_id(candidate, chooser.figure, claims)})


def _kept(unknown: Unknown, candidate: Candidate, id: str, claims: Sequence[Claim]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What is recorded of the claims that choose or are held out."""
    chooser = _chooser(unknown)
    choosing = {each.claim for each in chooser.statistics} if id == chooser.figure else set()
    for claim, read in _by_id(candidate, id, claims):
        role = CHOOSES if claim.id in choosing else HELD_OUT if unknown.is_held(id, claim.id) else ""
        if role:
            kept = {name: value for name, value in read.record().items() if name in ("value", "ours", "low", "high", "verdict")}
            yield claim.id, records.json_of({"role": role, **kept})


# -- telling ------------------------------------------------------------------------------------------------------------


def save(calibration: Calibration, folder: Path) -> Path:
    """Write a calibration whole, as NAME.SCALE.json."""
    path = folder / f"{calibration['unknown']}.{calibration['scale']}.json"
    write_file(path, (json.dumps(calibration, indent=1) + "\n").encode())
    return path


def add(unknown: Unknown, calibration: Calibration, folder: Path, experiments: Experiments = EXPERIMENTS) -> Path:
    """Put a calibration into a folder of records.  SpecError: it is not the one that was declared, and committed, before."""
    chooser, seeds = _chooser(unknown), calibration["seeds"]
    declared = {id: seeds_of(unknown, id, chooser.scale, None, experiments) for id in seeds}
    recordable(unknown, calibration["scale"], None if seeds == declared else [*seeds.values()])
    return save(calibration, calibrations.place(folder, unknown.paper, unknown.name, chooser.scale).parent)


def recordable(unknown: Unknown, scale: str, seeds: Sequence[Any] | None) -> None:
    """SpecError: a calibration of this scale and these seeds, None for those declared, is not the one that was declared."""
    chooser = _chooser(unknown)
    if scale != chooser.scale or seeds:
        rule = f"{unknown.name} is declared at scale {chooser.scale} with {chooser.seeds} seeds"
        raise SpecError(rule, path="record", remedy="give that scale and no --seeds, or no --record")
    if records.changed(FILE):
        rule = f"{FILE} differs from the commit"
        raise SpecError(rule, path="record", remedy="commit it first: candidates are declared before they are run")


def recorded(unknown: Unknown, folder: Path) -> Calibration | None:
    """What a folder of records has of a calibration as it is declared now; None: nothing, or of another declaration."""
    found = calibrations.load(unknown.paper, unknown.name, folder)
    same = found and (found["scale"], found["declaration"]) == (_chooser(unknown).scale, unknown.declaration)
    return found if same else None


def table(unknown: Unknown, calibration: Calibration) -> Table:
    """candidate | the statistics that choose | distance, over seeds | held-out claims."""
    chooser = _chooser(unknown)
    best = "" if calibrations.missing(calibration, chooser.figure) else _nearest(unknown, calibration)
    title = f"{unknown.paper} {unknown.name}: {unknown.question}"
    seeds = len(calibration["seeds"][chooser.figure])
    moved = calibrations.moved(calibration)
    caption = (
        f"{chooser.figure}, scale {calibration['scale']}, {seeds} seed{'s' * (seeds > 1)}; distance: root of the sum "
        "of the squares of |ln ours / paper's|; held out: claims that hold, mean |ln| outside of the bands; "
        f"{moved} verdicts differ between candidates"
    )
    made = Table(title=title, caption=caption, title_justify="left")
    for name in (
        "candidate",
        *(f"{each.claim} ({each.target})" for each in chooser.statistics),
        "distance",
        "by seed",
        "held out",
    ):
        made.add_column(name, overflow="fold")
    for name, found in calibration["candidates"].items():
        mark = " (chosen)" * (name == unknown.chosen) + " (nearest)" * (name == best)
        mark += " (contradicted)" * (name in unknown.contradicted())
        if "error" in found:
            made.add_row(f"{name}{mark}", *["-"] * len(chooser.statistics), "-", "-", found["error"])
            continue
        numbers = [_shown(found["figures"][chooser.figure].get(each.claim, {}).get("value")) for each in chooser.statistics]
        spread = [each for each in found["distances"] if each is not None]
        by_seed = f"{min(spread):.2f} .. {max(spread):.2f}" if spread and seeds > 1 else ""
        agreed = str(calibrations.agreement(calibration, name))
        made.add_row(f"{name}{mark}", *numbers, _shown(found["distance"]), by_seed, agreed, style="bold" if name == best else "")
    return made


def _nearest(unknown: Unknown, calibration: Calibration) -> str:
    try:
        return calibrations.nearest(calibration, unknown.contradicted())
    except SpecError:
        return ""


def _shown(number: float | None) -> str:
    return "-" if number is None else f"{number:.4g}"
