"""Figures of runs at the width of a paper's column: vector-safe fonts, colours that colour-blind readers can distinguish.

Every function takes runs and returns a matplotlib Figure:

    slowdown(bfc, hpcc).savefig("fct.pdf")          save(buffer_cdf(bfc, hpcc), "buffer.pdf")

A scheme family has the same colour in every figure; a second run of the same family gets other dashes and markers. Statistics
over time are of the runs' measurement window, which a caption names; figures over time show the rest in grey.

    canvas     size, legend, caption, looks, lines with a band: for figures elsewhere, too
    select     flows by class, priority and size; switches, ports, spans of time
    flows      slowdown of runs, fct_cdf, throughput
    switches   buffer_cdf, timeseries, active_flows
    ports      link_rate, port, port_life, pause_map, pause_time
    pauses     pause_tree
    ranks      rank_timeline
    requests   ttft
    records    record: windows, and what schemes record, over time
    agreement  of a run beside another simulator
    sweeps     slowdown and `against` of a sweep, with intervals over its seeds
    pareto     of a sweep: which of its points are on the front
    style      width, caption, fonts, order and colours of the figures that are made within it
"""

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock_net.errors import SpecError, nearest
from penstock_net.files import write_file
from penstock_net.report.plots.agreement import agreement
from penstock_net.report.plots.canvas import COLOURS, HEIGHT, POINTS, WIDTH, active, draw_bars, draw_lines, styles
from penstock_net.report.plots.flows import fct_cdf, throughput
from penstock_net.report.plots.pareto import pareto
from penstock_net.report.plots.pauses import pause_tree
from penstock_net.report.plots.ports import link_rate, pause_map, pause_time, port, port_life
from penstock_net.report.plots.ranks import rank_timeline
from penstock_net.report.plots.records import record
from penstock_net.report.plots.requests import ttft
from penstock_net.report.plots.style import style
from penstock_net.report.plots.sweeps import against, slowdown
from penstock_net.report.plots.switches import active_flows, buffer_cdf, timeseries
from penstock_net.results.run import Run
from penstock_net.results.sweep import Sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "COLOURS",
    "FORMATS",
    "HEIGHT",
    "KINDS",
    "POINTS",
    "WIDTH",
    "active_flows",
    "against",
    "agreement",
    "buffer_cdf",
    "check_format",
    "check_kind",
    "draw",
    "draw_bars",
    "draw_lines",
    "fct_cdf",
    "link_rate",
    "pareto",
    "pause_map",
    "pause_time",
    "pause_tree",
    "port",
    "port_life",
    "rank_timeline",
    "record",
    "render",
    "save",
    "slowdown",
    "style",
    "styles",
    "throughput",
    "timeseries",
    "ttft",
]

KINDS: dict[str, Callable[..., "Figure"]] = {
    made.__name__: made
    for made in (
        slowdown,
        fct_cdf,
        throughput,
        link_rate,
        port,
        port_life,
        pause_map,
        pause_tree,
        pause_time,
        buffer_cdf,
        timeseries,
        active_flows,
        record,
        rank_timeline,
        ttft,
        against,
        pareto,
    )
}
OF_SWEEPS: dict[str, Callable[..., "Figure"]] = {"slowdown": slowdown, "against": against, "pareto": pareto}
FORMATS = ("pdf", "png", "svg", "eps")


def __dir__() -> list[str]:
    """What is for users, for completion."""
    return sorted(__all__)


def draw(kind: str, *runs: Run, **options: Any) -> "Figure":
    """The figure of a kind of KINDS, with its options.  SpecError: no such kind."""
    return KINDS[check_kind(kind)](*runs, **options)


def draw_sweep(kind: str, sweep: Sweep, **options: Any) -> "Figure":
    """The figure of a sweep, with means and intervals over its seeds.  SpecError: this kind is of single runs only."""
    if check_kind(kind) not in OF_SWEEPS:
        rule = f"a sweep can be drawn as {' or '.join(OF_SWEEPS)}"
        raise SpecError(
            rule, path="plot", value=kind, remedy=f"or give run directories, such as {sweep.path}/{sweep.runs['key'][0]}"
        )
    return OF_SWEEPS[check_kind(kind)](sweep, **options)


def check_kind(kind: str) -> str:
    """The name of a kind of figure in KINDS; "-" may stand for "_".  SpecError: no such kind."""
    name = kind.replace("-", "_")
    if name not in KINDS:
        raise SpecError(f'plot "{kind}": no such kind', remedy=nearest(name, KINDS))
    return name


def check_format(path: str | Path) -> str:
    """The figure format of a file name's suffix.  SpecError: it is not one of FORMATS."""
    form = Path(path).suffix.lower().removeprefix(".")
    if form not in FORMATS:
        raise SpecError(f"a figure must end in {', '.join('.' + known for known in FORMATS)}", place=path)
    return form


def render(figure: "Figure", form: str) -> bytes:
    """The figure as a file's content; the same figure gives the same bytes."""
    clean = {
        "png": {"Software": None},
        "svg": {"Date": None, "Creator": None},
        "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    }.get(form)
    out = io.BytesIO()
    with active():
        figure.savefig(out, format=form, metadata=clean)
    return out.getvalue()


def save(figure: "Figure", path: str | Path) -> Path:
    """Write a figure atomically, in the format of the suffix.  SpecError: unknown format, or it cannot be written."""
    return write_file(Path(path), render(figure, check_format(path)))
