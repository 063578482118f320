"""One self-contained, interactive page of a sweep: means over the seeds with 95 % intervals, as a table and as figures."""

from collections import Counter
from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import polars as pl

from penstock_net.files import write_file
from penstock_net.report import elements, figures, sweeps
from penstock_net.report.figures import Table
from penstock_net.report.plots.canvas import looks_of
from penstock_net.report.plots.sweeps import axis_of, lines_of, looks_of_lines, parts_of
from penstock_net.results import cells
from penstock_net.results.run import Run
from penstock_net.results.sweep import KEY, SCHEME, SEED, Sweep
from penstock_net.results.sweep_table import NOTE, columns
from penstock_net.units import format_size
from penstock_net.version import version

INTERVAL = "95 % interval of the mean over the seeds"
ANY = "any"  # value of a parameter
DRAWN = "short_p99"  # statistic, at first
CURVE = {"x": "bytes", "y": "mean", "low": "low", "high": "high"}


def page(sweep: Sweep, title: str = "penstock report") -> str:
    """The page as text.  SpecError: none of the sweep's runs is there."""
    read = _Runs(sweep)
    names, lines = sweeps.schemes(sweep), lines_of(sweep)
    varied = [name for name in sweep.parameters if sweep.runs[name].n_unique() > 1]
    statistics = columns(sweep)
    data: dict[str, Any] = {
        "schemes": [{"label": name, **elements.look(look)} for name, look in zip(names, looks_of(names))],
        "parameters": varied,
        "statistics": figures.STATISTICS,
        "curves": _curves(sweep, lines, varied),
        "slowdown": read.curves(lines),
        "against": {x: _against(sweep, x, varied) for x in varied or [SCHEME]},
        "axes": {name: axis_of(name, sweep.limits)[0] for name in statistics},
    }
    band = f"; band: {INTERVAL}" * sweep.has_intervals
    bars = f"; bars: {INTERVAL}" * sweep.has_intervals
    slowdown = f"FCT slowdown by flow size{band}"
    main = Template(elements.asset("sweep.html")).substitute(
        warnings="".join(f'<p class="warning">{escape(text)}</p>\n' for text in read.warnings()),
        schemes="".join(elements.choice(number, name) for number, name in enumerate(names)),
        parameters="".join(_choice(sweep, number, name) for number, name in enumerate(varied)),
        classes=elements.options(read.classes, next(iter(read.classes))),
        statistics=elements.options(figures.STATISTICS, "p99"),
        comparison=elements.table(sweeps.table(sweep), "Comparison: means over the seeds"),
        note=escape(f"{NOTE}; {cells.note(sweep.limits)}"),
        slowdown=elements.figure("slowdown", slowdown, read.table(lines)),
        x=elements.options({x: x for x in varied or [SCHEME]}, (varied or [SCHEME])[0]),
        y=elements.options({name: cells.heading(name) for name in statistics}, DRAWN if DRAWN in statistics else statistics[0]),
        bars=escape(f"A statistic against a parameter{bars}"),
        runs=elements.table(_all(sweep), "Every run of the sweep"),
        spec=read.spec,
    )
    contents = {"comparison": "Comparison", "figures": "Figures", "runs": "Runs"}
    return elements.shell(title, _subtitle(sweep, read, varied), contents, main, data, ("common.js", "sweep.js"))


def write(sweep: Sweep, path: str | Path, title: str = "penstock report") -> Path:
    """Write the page.  SpecError: none of the sweep's runs is there, or it cannot be written."""
    return write_file(Path(path), page(sweep, title).encode())


class _Runs:
    """What the page needs of the sweep's runs, each of which is read once.

    slowdown  as Sweep.over_runs gives it, by choice of flows, statistic and to_bytes
    classes   the choices of flows: a key, and what it means
    """

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self.windows: dict[str, None] = {}
        self.read = 0
        self.warned: Counter[str] = Counter()
        self.classes: dict[str, str] = {}
        self.spec = ""
        self.slowdown = sweep.over_runs(self._of, ["choice", "statistic", "to_bytes"], x="bytes", ratio=True)
        order = [figures.BACKGROUND, figures.ALL]
        self.classes = {key: self.classes[key] for key in [*order, *sorted(self.classes)] if key in self.classes}

    def _of(self, run: Run) -> pl.DataFrame:
        self.read += 1
        self.windows[run.window_text] = None
        self.warned.update(map(str, run.summary.get("warnings") or []))
        if not self.spec and run.summary.get("spec"):
            text = escape(str(run.summary["spec"]))
            self.spec = f"<details><summary>Spec of the first run</summary><pre>{text}</pre></details>"
        parts = []
        self.classes |= figures.classes([run])
        for choice in {figures.BACKGROUND: "", **figures.classes([run])}:
            found = figures.binned(run, choice, "receiver").filter(pl.col("flows") > 0)
            long = found.unpivot(
                list(figures.STATISTICS), index=["to_bytes", "bytes"], variable_name="statistic", value_name="value"
            )
            parts.append(long.with_columns(pl.col("value").cast(pl.Float64), pl.lit(choice).alias("choice")))
        return pl.concat(parts)

    def curves(self, lines: Sequence[tuple[str, dict[str, Any]]]) -> dict[str, list[dict[str, list[Any]]]]:
        """A curve for each line, by "choice|statistic"."""
        out: dict[str, list[dict[str, list[Any]]]] = {
            f"{choice}|{name}": [] for choice in self.classes for name in figures.STATISTICS
        }
        for rows in parts_of(self.slowdown, lines):
            own = rows.partition_by("choice", "statistic", as_dict=True)
            for choice in self.classes:
                for name in figures.STATISTICS:
                    part = own.get((choice, name), self.slowdown.clear())
                    curve = {key: figures.short(part[of].fill_null(part["mean"])) for key, of in CURVE.items()}
                    out[f"{choice}|{name}"].append(curve | {"n": part["runs"].to_list()})
        return out

    def table(self, lines: Sequence[tuple[str, dict[str, Any]]]) -> Table:
        """The numbers of the first choice of flows."""
        numbers = sweeps.schemes(self.sweep)
        made = Table(["curve, flow size", *figures.STATISTICS.values()])
        shown = self.slowdown.filter(pl.col("choice") == next(iter(self.classes)))
        for (label, values), rows in zip(lines, parts_of(shown, lines)):
            for (upto,), part in rows.group_by("to_bytes", maintain_order=True):
                found = {row["statistic"]: cells.mean("", row) for row in part.iter_rows(named=True)}
                size = "largest" if upto is None else f"to {format_size(upto)}"  # type: ignore[arg-type]
                made.rows.append([f"{label}, {size}", *(found.get(name, "-") for name in figures.STATISTICS)])
                made.runs.append(numbers.index(str(values[SCHEME])))
        return made

    def warnings(self) -> list[str]:
        """What the runs warned of, and how many runs are missing."""
        found = [f"{count} of {self.read} runs: {text}" for text, count in self.warned.most_common()]
        if self.read < len(self.sweep):
            missing = len(self.sweep) - self.read
            found.append(f"{missing} of {len(self.sweep)} runs are not in the folder; the figure by flow size is without them")
        if len(self.windows) > 1:
            found.append(f"The measurement windows of the runs differ: {'; '.join(self.windows)}")
        return found


def _curves(
    sweep: Sweep, lines: Sequence[tuple[str, dict[str, Any]]], varied: Sequence[str], without: str = ""
) -> list[dict[str, Any]]:
    """What is the same of a curve in every choice: scheme (its number), values of the parameters (as text), label and look."""
    names = sweeps.schemes(sweep)
    return [
        {
            "scheme": names.index(str(values[SCHEME])),
            "values": [str(values[name]) if name in values else ANY for name in varied],
            "label": label,
            **elements.look(look),
        }
        for (label, values), look in zip(lines, looks_of_lines(sweep, lines, without))
    ]


def _against(sweep: Sweep, x: str, varied: Sequence[str]) -> dict[str, Any]:
    """The statistics against a parameter: curves with x, and by statistic means and lengths of the bars below and above."""
    numeric = sweep.runs[x].dtype.is_numeric()
    means = sweep.over_seeds(*columns(sweep))
    lines = lines_of(sweep, without=x)
    curves = _curves(sweep, lines, varied, without=x)
    for curve, rows in zip(curves, parts_of(means, lines)):
        part = rows.sort(x, maintain_order=True) if numeric else rows
        curve["x"] = part[x].unique(maintain_order=True).to_list()
        curve["at"] = list(map(str, curve["x"]))
        curve["y"], curve["below"], curve["above"] = {}, {}, {}
        for name in columns(sweep):
            own = part.filter(pl.col("statistic") == name)
            factor = axis_of(name)[1]
            curve["y"][name] = [None if value is None else factor * value for value in own["mean"]]
            curve["below"][name] = (factor * (own["mean"] - own["low"]).fill_null(0)).to_list()
            curve["above"][name] = (factor * (own["high"] - own["mean"]).fill_null(0)).to_list()
    return {"numeric": numeric, "curves": curves}


def _choice(sweep: Sweep, number: int, name: str) -> str:
    """A select of one value of a parameter, or all."""
    values = [str(value) for value in sweep.runs[name].unique(maintain_order=True)]
    choices = elements.options({ANY: "all"} | {value: value for value in values}, ANY)
    return f'<label><code>{escape(name)}</code> <select class="parameter" data-parameter="{number}">{choices}</select></label>\n'


def _all(sweep: Sweep) -> Table:
    """A row per run, the folder first."""
    numbers, names = sweeps.schemes(sweep), columns(sweep)
    made = Table(["folder", *sweep.parameters, "scheme", "seed", *map(cells.heading, names)])
    for row in sweep.runs.iter_rows(named=True):
        keys = [str(row[name]) for name in (KEY, *sweep.parameters, SCHEME, SEED)]
        made.rows.append([*keys, *(cells.show(name, row[name]) for name in names)])
        made.runs.append(numbers.index(str(row[SCHEME])))
    return made


def _subtitle(sweep: Sweep, read: _Runs, varied: Sequence[str]) -> str:
    seeds, schemes = sweep.runs[SEED].n_unique(), len(sweeps.schemes(sweep))
    counts = [(len(sweep), "run"), (schemes, "scheme"), (seeds, "seed")]
    parts = [", ".join(f"{count:,} {what}{'s' * (count != 1)}" for count, what in counts)]
    parts += [f"varied: {', '.join(varied)}"] * bool(varied)
    parts += [f"measurement window: {next(iter(read.windows))}"] * (len(read.windows) == 1)
    return "; ".join(["a sweep of " + parts[0], *parts[1:], f"report by penstock {version()}"])
