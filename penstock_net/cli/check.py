"""penstock check"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer


def command(
    what: Annotated[
        list[Path],
        typer.Argument(metavar="SCHEME.py|DIR...", help="Schemes of your own; runs, sweeps.", show_default=False),
    ],
) -> None:
    """Check a scheme of your own, or that runs are still what was written.

    Examples:

        penstock check my_scheme.py

        penstock check runs/loads runs/first

    A scheme: it compiles, is deterministic, loses no data, and does bounded work per packet. A run: every file has the digest
    that SHA256SUMS in its folder names, so that bits that flipped, files that were cut off and edits are found; a sweep: so has
    each of its runs, and its table is the one that was written. The status is 1 if anything is wrong.
    """
    from penstock_net.errors import SpecError

    failed = 0
    for path in what:
        if not (path.is_file() or path.is_dir()):
            raise SpecError("no such file", place=path)
        wrong = 0
        for verdict, text in _folder(path) if path.is_dir() else _scheme(path):
            typer.echo(f"{verdict:<6} {text}")
            wrong += verdict == "FAILED"
        typer.echo(f"{path}: {f'{wrong} failed' if wrong else 'all checks passed'}")
        failed += wrong
    if failed:
        raise typer.Exit(1)


def _scheme(path: Path) -> Iterator[tuple[str, str]]:
    from penstock_net.testing import check_scheme

    for found in check_scheme(path) or ():
        yield "ok" if found.passed else "FAILED", found.name + (f": {found.message}" if found.message else "")


def _folder(path: Path) -> Iterator[tuple[str, str]]:
    """A verdict of every run of a folder, and of its table if it is a sweep.  SpecError: there is none."""
    from penstock_net.results.rundir import all_runs
    from penstock_net.results.sweep import check_table, is_sweep

    for run in all_runs([path]):
        yield from _run(run)
    if is_sweep(path):
        wrong = check_table(path)
        yield "FAILED" if wrong else "ok", wrong or f"{path}: the table of the sweep"


def _run(path: Path) -> Iterator[tuple[str, str]]:
    from penstock_net.errors import SpecError
    from penstock_net.results import digests
    from penstock_net.results.reading import read
    from penstock_net.results.rundir import damage

    wrong: list[str] = []
    try:
        read(path)
    except SpecError as error:  # that names one file
        wrong = [f"{path / name} {text}" for name, text in digests.problems(path)] or [damage(path) or str(error)]
    for text in wrong:
        yield "FAILED", text
    if not wrong:
        names = digests.names_in(path)
        what = f"{len(names)} files" if names else f"it can be read, but has no {digests.FILE}: an older version wrote it"
        yield "ok", f"{path}: {what}"
