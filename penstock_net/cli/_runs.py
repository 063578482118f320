"""Loads the runs of the folders that a command was given."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock_net.results.run import Run
    from penstock_net.results.sweep import Sweep


def load(given: Iterable[str]) -> list["Run"]:
    """Load every run; a folder of several schemes stands for all its runs.

    RUN=LABEL gives a run a label of its own.  Of those without one, equal labels get the folder's name appended.
    SpecError: no such run, an empty label, one label for several runs, or the same label twice.
    """
    from penstock_net.errors import SpecError
    from penstock_net.results.run import Run
    from penstock_net.results.rundir import all_runs

    found: list[tuple[Path, str]] = []
    for text in given:
        path, label = _split(text)
        folders = all_runs([path])
        if label and len(folders) > 1:
            names = ", ".join(folder.name for folder in folders)
            raise SpecError("holds several runs, which cannot share a label", place=path, remedy=f"give one of them: {names}")
        found += [(folder, label) for folder in folders]
    runs = [Run.load(folder) for folder, _ in found]
    labels = Counter(label or run.label for run, (_, label) in zip(runs, found))
    for run, (folder, label) in zip(runs, found):
        if label:
            if labels[label] > 1:
                raise SpecError("two runs have this label", path="label", value=label, remedy="give each a label of its own")
            run.summary["label"] = label
        elif labels[run.label] > 1:
            where = folder.resolve()
            name = where.parent.name if where.name == run.label else where.name
            run.summary["label"] = f"{run.label} {name}"
    return runs


def mark_differences(runs: list["Run"]) -> None:
    """Print a warning for every setting besides the scheme that is not the same in all runs."""
    from penstock_net.report.differences import differences
    from penstock_net.stderr import say

    for key, values in differences(runs):
        say(f"warning: {key} differs: " + ", ".join(f"{run.label} {value}" for run, value in zip(runs, values)))


def sweep(given: Iterable[str]) -> "Sweep | None":
    """The sweep in the folder that was given; None: it holds none.  SpecError: no such folder, or a sweep and something else."""
    from penstock_net.errors import SpecError
    from penstock_net.results.sweep import Sweep, is_sweep

    paths = list(given)
    for path, _ in map(_split, paths):
        if not Path(path).exists():
            raise SpecError("no such folder", place=path)
    found = [path for path in paths if is_sweep(path)]
    if found and len(paths) > 1:
        raise SpecError("is a sweep, which is drawn by itself", place=found[0], remedy="give it alone")
    return Sweep.load(found[0]) if found else None


def part_of(sweep: "Sweep | None", where: Iterable[str]) -> "Sweep | None":
    """The runs of a sweep that KEY=VALUE,VALUE choose.  SpecError: it is no sweep, no such parameter or value."""
    from penstock_net.errors import SpecError
    from penstock_net.results.sweep import SCHEME, SEED

    for text in where:
        key, sign, values = text.partition("=")
        if not sign or not key or not values:
            raise SpecError("expected KEY=VALUE, such as load=0.7", place=f"--where {text}")
        if sweep is None:
            raise SpecError("chooses runs of a sweep, and this is none", remedy="leave it out", place=f"--where {text}")
        name = sweep.parameter(key, (*sweep.parameters, SCHEME, SEED))
        known = {str(value): value for value in sweep.runs[name].unique(maintain_order=True)}
        numbers = {_number(value): value for value in known.values() if _number(value) is not None}
        chosen = [known.get(value.strip(), numbers.get(_number(value), value)) for value in values.split(",")]
        sweep = sweep.where(**{name.replace(".", "__"): chosen})
    return sweep


def _number(value: object) -> float | None:
    try:
        return float(str(value))
    except ValueError:
        return None


def _split(text: str) -> tuple[str, str]:
    """(path, label) of RUN=LABEL; a folder of that whole name has no label."""
    from penstock_net.errors import SpecError

    path, sign, label = text.rpartition("=")
    if not sign or Path(text).exists():
        return text, ""
    if not label.strip() or not path:
        raise SpecError("the label is empty", place=text, remedy="write it as RUN=LABEL")
    return path, label.strip()
