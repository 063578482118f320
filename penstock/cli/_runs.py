"""The runs that a command is given by their folders."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.results.run import Run


def load(paths: Iterable[str]) -> list["Run"]:
    """All of them; a folder of several schemes stands for all its runs. Folders tell equal labels apart."""
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
