"""Options of the commands that print tables of results."""

from typing import Annotated

import typer

Form = Annotated[
    str,
    typer.Option(
        "--table",
        metavar="text|latex|csv|markdown",
        help="How the table is printed; in forms other than text nothing else is on standard output. LaTeX: for booktabs.",
    ),
]
Statistics = Annotated[
    list[str],
    typer.Option(
        "--statistic",
        metavar="NAME",
        default_factory=list,
        show_default=False,
        help='Of a sweep: a column of the table, such as short_p99 or "p99.9 slowdown of flows < 10KB"; repeatable.',
    ),
]
Where = Annotated[
    list[str],
    typer.Option(
        "--where",
        metavar="KEY=VALUE,..",
        default_factory=list,
        show_default=False,
        help="Of a sweep: only runs with these values of a parameter, scheme or seed, such as load=0.7; repeatable.",
    ),
]


def check(form: str) -> str:
    """A form of tables.  SpecError: there is none of this name."""
    if form == "text":  # the default, which needs nothing else
        return form
    from penstock_net.inputs import one_of
    from penstock_net.results.printed import FORMS

    return one_of(form, "table", FORMS)


def check_statistics(names: list[str]) -> None:
    """SpecError: one of them is no statistic; before anything runs."""
    from penstock_net.results.statistic import Statistic

    for name in names:
        if " " in name:
            Statistic.parse(name)
