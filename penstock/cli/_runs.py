"""Loads the runs of the folders that a command was given."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.results.run import Run


def load(paths: Iterable[str]) -> list["Run"]:
    """Load every run; a folder of several schemes stands for all its runs. Equal labels get the folder's name appended."""
    from penstock.results.run import Run
    from penstock.results.rundir import all_runs

    folders = all_runs(paths)
    runs = [Run.load(folder) for folder in folders]
    labels = [run.label for run in runs]
    for run, folder in zip(runs, folders):
        if labels.count(run.label) > 1:
            where = folder.resolve()
            name = where.parent.name if where.name == run.label else where.name
            run.summary["label"] = f"{run.label} {name}"
    return runs
