"""penstock plot"""

from pathlib import Path
from typing import Annotated, Any

import typer

from penstock_net.cli import _tables
from penstock_net.plot_kinds import DEFAULTS, KINDS


def command(
    kind: Annotated[str, typer.Argument(metavar="KIND", show_default=False, help="One of the kinds above.")],
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="Run directories; RUN=LABEL names one in the legend.", show_default=False),
    ],
    where: _tables.Where,
    colour: Annotated[
        list[str],
        typer.Option(
            "--colour",
            metavar="LABEL=COLOUR",
            default_factory=list,
            show_default=False,
            help="Colour of a run or scheme, such as bfc=black or hpcc=#D55E00; repeatable.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="figure.pdf, .png, .svg or .eps.", show_default=False)],
    class_: Annotated[
        str | None,
        typer.Option("--class", help="Flows: of a class, of several (a,b), all but one (!a), or all.", show_default=False),
    ] = None,
    priority: Annotated[str | None, typer.Option(help="Flows: of a priority, such as 0 or 0..3.", show_default=False)] = None,
    size: Annotated[str | None, typer.Option(help="Flows: of a size, such as ..3KB or 1MB..", show_default=False)] = None,
    time: Annotated[
        str | None, typer.Option(help="Figures over time: a part of it, such as 0.2ms..1ms.", show_default=False)
    ] = None,
    percentile: Annotated[float | None, typer.Option(help="slowdown: which percentile (99).", show_default=False)] = None,
    bins: Annotated[
        str | None,
        typer.Option(
            help="slowdown: a number of bins with equal shares of the flows; google, facebook, log; or sizes, 1KB,10KB,1MB.",
            show_default=False,
        ),
    ] = None,
    clock: Annotated[
        str | None, typer.Option(help="slowdown: measured at the receiver (default) or the sender.", show_default=False)
    ] = None,
    by: Annotated[str | None, typer.Option(help="throughput: by run (default), class or flow.", show_default=False)] = None,
    flow: Annotated[
        str | None, typer.Option(help="throughput --by flow, record: numbers of flows, such as 3,17.", show_default=False)
    ] = None,
    port: Annotated[
        str | None,
        typer.Option(help="link_rate, port, port_life, pause_tree, record: such as tor0:3.", show_default=False),
    ] = None,
    queue: Annotated[int | None, typer.Option(help="port: one queue, by number.", show_default=False)] = None,
    column: Annotated[
        str | None, typer.Option(help="timeseries: buffer_bytes, max_queue_bytes or active_flows.", show_default=False)
    ] = None,
    switch: Annotated[
        str | None, typer.Option(help="timeseries, record: one switch, by name or number.", show_default=False)
    ] = None,
    record: Annotated[
        str | None, typer.Option(help="record: window, or a name in records.parquet, such as tokens.", show_default=False)
    ] = None,
    x: Annotated[
        str | None,
        typer.Option("--x", help="against: a parameter, such as load; pareto: a statistic.", show_default=False),
    ] = None,
    y: Annotated[
        str | None,
        typer.Option(
            "--y",
            help='against, pareto: a statistic, such as short_p99 or "p99.9 slowdown of flows < 10KB".',
            show_default=False,
        ),
    ] = None,
    width: Annotated[str, typer.Option(metavar="column|page", help="Width of the figure: of a column or a page.")] = "column",
    caption: Annotated[
        str | None, typer.Option(help='Text below the figure; "" for none; default: what it is of.', show_default=False)
    ] = None,
    font: Annotated[
        str | None, typer.Option(help='Family of fonts, such as serif or "Times New Roman".', show_default=False)
    ] = None,
    font_size: Annotated[float | None, typer.Option(help="Size of axis titles in points (9).", show_default=False)] = None,
    order: Annotated[str | None, typer.Option(metavar="A,B", help="Runs or schemes that come first.", show_default=False)] = None,
) -> None:
    from penstock_net.cli._runs import load, mark_differences, part_of, sweep
    from penstock_net.report import plots

    plots.check_format(out)
    look = plots.style(
        width,  # type: ignore[arg-type]
        True if caption is None else caption,
        font,
        font_size,
        order.split(",") if order else (),
        dict(_colour(text) for text in colour),
    )
    given: dict[str, Any] = {
        "class_": class_.split(",") if class_ and "," in class_ else class_,
        "priority": priority,
        "size": size,
        "time": time,
        "percentile": percentile,
        "bins": None if bins is None else _bins(bins),
        "clock": clock,
        "by": by,
        "flows": None if flow is None else _numbers(flow),
        "port": port,
        "queue": queue,
        "column": column,
        "switch": switch,
        "record": record,
        "x": x,
        "y": y,
    }
    options = {name: value for name, value in given.items() if value is not None}
    _check(plots.check_kind(kind), options)
    swept = part_of(sweep(runs), where)
    with look:
        if swept:
            figure = plots.draw_sweep(kind, swept, **options)
        else:
            loaded = look.sorted(load(runs), lambda run: run.label)
            figure = plots.draw(kind, *loaded, **options)
            mark_differences(loaded)
        plots.save(figure, out)
    typer.echo(f"written to {out}")


def _numbers(text: str) -> list[int]:
    from penstock_net.inputs import whole_cell

    return [whole_cell(part.strip(), "flow", 0, 2**31) for part in text.split(",")]


def _bins(text: str) -> Any:
    from penstock_net.inputs import size_bytes, whole_cell

    if text.isdecimal():
        return whole_cell(text, "bins", 1, 1000)
    return text if text.isalpha() else [size_bytes(part.strip(), "bins") for part in text.split(",")]


def _colour(text: str) -> tuple[str, str]:
    from penstock_net.errors import SpecError

    label, sign, colour = text.rpartition("=")
    if not sign or not label:
        raise SpecError("expected LABEL=COLOUR, such as bfc=black", place=f"--colour {text}")
    return label, colour


def _check(kind: str, options: dict[str, Any]) -> None:
    """SpecError for an option that figures of this kind do not have."""
    import inspect

    from penstock_net.errors import SpecError
    from penstock_net.report import plots

    for name in options:
        owners = [known for known, draw in plots.KINDS.items() if name in inspect.signature(draw).parameters]
        if kind not in owners:
            shown = {"class_": "class", "flows": "flow"}.get(name, name)
            raise SpecError(f"--{shown}: belongs to penstock plot {', '.join(owners)}; not to {kind}")


def _help() -> str:
    """The help of the command, made of KINDS."""
    lines = ["Draw one figure of one or several runs, at the width of a paper's column.", ""]
    for name, kind in KINDS.items():
        more = [f"`{need}`" for need in kind.needs if need not in DEFAULTS]
        lines.append(f"* **{name}**: {kind.text}{'; needs [measure] ' + ', '.join(more) if more else ''}")
    lines += ["", "Examples:", ""]
    for name, kind in KINDS.items():
        lines += [" ".join(f"penstock plot {name} runs/example {kind.example} -o {name}.pdf".split()), ""]
    return "\n".join(lines)


command.__doc__ = _help()
