"""penstock check"""

from pathlib import Path
from typing import Annotated

import typer


def command(
    scheme: Annotated[Path, typer.Argument(metavar="MY_SCHEME.py", help="Your scheme.", show_default=False)],
) -> None:
    """Check a scheme of your own: it compiles, is deterministic, loses no data, and does bounded work per packet.

    Example:

        penstock check my_scheme.py
    """
    from penstock.errors import SpecError

    if not scheme.is_file():
        raise SpecError("no such file", place=scheme)
    from penstock.testing import check_scheme

    failed = 0
    for found in check_scheme(scheme) or ():
        verdict = "ok    " if found.passed else "FAILED"
        typer.echo(f"{verdict} {found.name}" + (f": {found.message}" if found.message else ""))
        failed += not found.passed
    typer.echo(f"{scheme}: {f'{failed} failed' if failed else 'all checks passed'}")
    if failed:
        raise typer.Exit(1)
