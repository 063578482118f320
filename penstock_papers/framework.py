"""Reproducing a figure: run what is not cached, measure, judge the claims, draw, and write the results to a directory.

    outcome = reproduce("bfc/fig04", scale="paper", out="reproductions/bfc/fig04")

writes claims.json, data.parquet, figure.png, figure.pdf, summary.json and the spec files that `penstock run` accepts.
"""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console
from rich.table import Table

from penstock_net.errors import ClaimFailed, SpecError, nearest
from penstock_net.files import new_files, reason
from penstock_net.identity import code_hash, home
from penstock_net.spec import parse_spec
from penstock_net.version import version
from penstock_papers import bands, records
from penstock_papers import cache as store
from penstock_papers.cache import Entry, Progress, Runs, Spec
from penstock_papers.changes import changes_of
from penstock_papers.claims import (
    CALIBRATED,
    DIFFERS,
    FAIL,
    FROM_PAPER,
    NOT_JUDGED,
    OPEN,
    OURS,
    SHOWN,
    Claim,
    judge,
    over_seeds,
    shown,
)
from penstock_papers.local import remember
from penstock_papers.registry import EXPERIMENTS, FOLDER, Experiment
from penstock_papers.style import save

REMEDY = "give another folder with --out"
COLUMNS = ("series", "x", "y")
COLOURS = {"PASS": "green", "FAIL": "bold red", "DIFFERS": "yellow", OPEN: "cyan", CALIBRATED: "blue", NOT_JUDGED: "dim"}


@dataclass(frozen=True)
class Outcome:
    """The results of a reproduction, which are also in the folder `out`."""

    id: str
    scale: str
    out: Path
    claims: list[Claim]
    data: pl.DataFrame
    summary: dict[str, Any]


def reproduce(
    id: str,
    scale: str = "quick",
    out: str | Path | None = None,
    threads: int = 1,
    progress: Progress | None = None,
    cache: str | Path | None = None,
    console: Console | None = None,
    experiments: Mapping[str, Experiment] = EXPERIMENTS,
    record: Path | None = None,
    seeds: Sequence[int] | None = None,
    workers: int = 1,
) -> Outcome:
    """Reproduce one figure and print its claims. Raises ClaimFailed, after everything has been written, when one fails.

    `out` is reproductions/ID by default; `progress(what, fraction)` is called during the runs; `cache`: its folder;
    `record`: a folder to which the figure's record and points are added; `seeds`: of the traffic and the hashes, by
    default as many as the figure asks for; `workers`: runs at the same time, in processes of their own, each with `threads`.
    Every statistic is that of one run; shown and judged is its mean over the seeds with the 95 % interval.
    """
    experiment = experiments[id]
    if scale not in experiment.scales:
        raise SpecError(f"{id} has no such scale", path="scale", value=scale, remedy=nearest(scale, experiment.scales))
    if seeds and not experiment.takes_seeds:
        raise SpecError(f"{id} takes no seeds", path="seeds", remedy="leave --seeds out")
    seeds = seeds or range(1, 1 + experiment.seeds.get(scale, 1))
    started = time.perf_counter()
    out = Path(out) if out else Path("reproductions") / id
    check_out(out)
    folder = Path(cache) if cache else home() / "runs"
    runs = {seed: run_all(experiment, scale, seed, folder, threads, progress, workers) for seed in seeds}
    found = {seed: measured(experiment, runs[seed], scale, seed) for seed in seeds}
    runs[seeds[-1]].report(id, 1.0)
    seen = over_seeds([experiment.claims(data, scale) for data in found.values()])
    claims = judge(seen, scale, experiment.differs, experiment.calibrated)
    with new_files(out, REMEDY) as made:
        write(experiment, made, scale, found, claims)
        summary = summarise(experiment, scale, claims, runs, time.perf_counter() - started)
        (made / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
        names = {path.name for path in made.iterdir()}
    for stale in out.glob("spec*.toml"):
        if stale.name not in names:
            stale.unlink()
    if experiment.folder == FOLDER:
        remember(id, out)
    if record:
        records.add(record, id, records.record_of(experiment, summary, claims, runs, found), found)
    (console or Console()).print(table(experiment, claims))
    fail_if_any(id, claims, out)
    return Outcome(id, scale, out, claims, bands.joined(found), summary)


def check_out(out: Path) -> None:
    """Create the directory, before the runs.  SpecError: it cannot be written or holds something else."""
    try:
        if out.is_dir() and any(out.glob("[!.]*")) and not (out / "claims.json").exists():
            raise SpecError("is not empty and not a reproduction", place=out, remedy=REMEDY)
        out.mkdir(parents=True, exist_ok=True)
        (out / ".probe").write_bytes(b"")
        (out / ".probe").unlink()
    except OSError as error:
        raise SpecError(f"cannot be written ({reason(error)})", place=out, remedy=REMEDY) from error


def run_all(
    experiment: Experiment, scale: str, seed: int, cache: Path, threads: int, progress: Progress | None, workers: int = 1
) -> Runs:
    """Every spec of the experiment with one seed, from the cache or simulated now, as many at once as there are workers."""
    specs = experiment.specs(scale, seed) if experiment.specs else {}
    entries: dict[str, Entry] = {}
    try:
        made = store.fill(specs, cache, threads, workers, progress) if workers > 1 else {}
        for label, spec in specs.items():
            for entry in store.run_spec(spec, label, cache, threads, progress):
                entries[entry.label] = made.get(entry.label, entry)
    except KeyboardInterrupt:
        print("\nthe runs that had ended are kept; the same command goes on from there", file=sys.stderr)
        raise
    return Runs(entries, progress)


def measured(experiment: Experiment, runs: Runs, scale: str, seed: int = 1) -> pl.DataFrame:
    """The plotted points.  SpecError: the plot cannot be redrawn from them."""
    data = experiment.points(runs, scale, seed)
    missing = [name for name in COLUMNS if name not in data.columns]
    if missing or data.is_empty():
        what = f"lack the column {', '.join(missing)}" if missing else "are empty"
        raise SpecError(f"experiment {experiment.id}: its data {what}", remedy="measure() must return series, x and y")
    return data


def write(experiment: Experiment, out: Path, scale: str, found: Mapping[int, pl.DataFrame], claims: list[Claim]) -> None:
    """claims.json, data.parquet, the specs of the first seed, and the figure drawn from what was written."""
    judged = [claim.record() for claim in claims if claim.verdict != NOT_JUDGED]
    (out / "claims.json").write_text(json.dumps(judged, indent=2) + "\n")
    bands.joined(found).write_parquet(out / "data.parquet")
    write_specs(experiment.specs(scale, min(found)) if experiment.specs else {}, out)
    save(bands.draw(experiment.draw, bands.means_of(pl.read_parquet(out / "data.parquet"))), out)


def write_specs(specs: Mapping[str, Spec], out: Path) -> None:
    """spec.toml, or spec.LABEL.toml for each of several."""
    for label, spec in specs.items():
        name = "spec.toml" if len(specs) == 1 else f"spec.{slug(label)}.toml"
        (out / name).write_text(parse_spec(spec, name=f"spec {label}").to_toml())


def slug(label: str) -> str:
    """A label as part of a file name."""
    return "".join(char if char.isalnum() or char in "+-_." else "_" for char in label)


def summarise(experiment: Experiment, scale: str, claims: list[Claim], runs: Mapping[int, Runs], wall_s: float) -> dict[str, Any]:
    """The content of summary.json.  Of it wall_s and run_s, the time of its runs whenever that was, depend on the machine."""
    schemes, _ = records.set_up(experiment, scale, next(iter(runs)))
    return {
        "id": experiment.id,
        "title": experiment.title,
        "paper": experiment.paper,
        "scale": scale,
        "seeds": list(runs),
        "changes": len(changes_of(experiment.id)),
        "window": {"window": experiment.window, "reason": experiment.window_reason},
        "penstock": version(),
        "code": code_hash(frozenset(schemes)),
        "schemes": schemes,
        "sources": records.sources(experiment, scale, next(iter(runs))),
        "wall_s": round(wall_s, 3),
        "run_s": round(sum(map(_simulated_s, runs.values())) or wall_s, 1),
        "verdicts": records.counted(claims, FROM_PAPER),
        "ours": records.counted(claims, OURS),
        "not_judged": [claim.record() for claim in claims if claim.verdict == NOT_JUDGED],
        "differs": {claim.id: experiment.differs[claim.id].record() for claim in claims if claim.verdict == DIFFERS},
        "runs": {
            f"{label}, seed {seed}": {"key": entry.key, "cached": entry.cached, "wall_s": round(entry.wall_s, 3)}
            for seed, of_seed in runs.items()
            for label, entry in of_seed.entries.items()
        },
    }


def _simulated_s(runs: Runs) -> float:
    """Seconds that the runs took when they were simulated."""
    return sum(float(runs.summary(label)["wall_s"]) for label in runs)


def table(experiment: Experiment, claims: list[Claim]) -> Table:
    """claim | paper | ours | band | verdict."""
    seeds = max((claim.seeds for claim in claims), default=1)
    averaged = f"mean of {seeds} seeds with the 95 % interval; " if seeds > 1 else ""
    made = Table(
        title=f"{experiment.id}: {experiment.title}",
        caption=f"{experiment.paper}; {averaged}measurement window: {experiment.window}; {changed(experiment.id)}",
        title_justify="left",
    )
    for name in SHOWN:
        made.add_column(name, overflow="fold")
    for claim in claims:
        *cells, verdict = shown(claim.record())
        made.add_row(*cells, f"[{COLOURS[verdict]}]{verdict}[/]")
    return made


def changed(id: str) -> str:
    """How often the figure was changed after a result had been seen."""
    count = len(changes_of(id))
    times = "change" if count == 1 else "changes"
    return f"{count or 'no'} {times} after results were seen" + (" (penstock_papers/changes.toml)" if count else "")


def fail_if_any(id: str, claims: list[Claim], out: Path) -> None:
    """Raise ClaimFailed with the first failed claim and the number of all."""
    failed = [claim for claim in claims if claim.verdict == FAIL]
    if failed:
        first = failed[0]
        raise ClaimFailed(
            f"{id}: {len(failed)} of {len(claims)} claims failed; {first.id}: {first.claim}: ours {first.ours}, "
            f"band {first.band}. Everything is in {out}; a known difference belongs in the experiment's DIFFERS table"
        )
