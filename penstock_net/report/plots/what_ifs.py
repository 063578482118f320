"""What-ifs of `penstock advise` as pictures, a figure for each: bystanders of an incast, the ECN trade, failures, storms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock_net.advise.what_ifs import AFTER, BEFORE, Result, WhatIfs
from penstock_net.inputs import natural
from penstock_net.palette import BLUE, GREEN, MARKERS, ORANGE, PAGE, PURPLE, RED
from penstock_net.report.plots.canvas import GREY, active

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = (BLUE, ORANGE, GREEN, PURPLE, RED)
HEIGHT, BAR = 2.7, 0.12  # inches: of a figure, of a bar
ROOM = (0.6, 1.6)  # beside the points, for bars that may be longer
WIDTH = 0.62 * PAGE


def figure_of(what: str, made: WhatIfs) -> Figure:
    """The figure of one what-if that was simulated."""
    return DRAWN[what](made)


def _canvas(height: float = HEIGHT) -> tuple[Figure, Axes]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from penstock_net.printing import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots()


def bystanders(made: WhatIfs) -> Figure:
    """Slowdown of bystanders by fan-in; a colour for each size of the shared buffer, dashed as it is."""
    results = made.of("incast")
    sizes = list(dict.fromkeys(one.case.varied["shared"] for one in results))
    several = any(one.case.settings == BEFORE for one in results)
    with active():
        figure, axes = _canvas()
        for settings, line in ((BEFORE, "--"), (AFTER, "-")):
            for size, colour, marker in zip(sizes, COLOURS, MARKERS):
                own = [one for one in results if (one.case.varied["shared"], one.case.settings) == (size, settings)]
                name = f"{size}, {settings}" if several else size
                if own:
                    _line(axes, own, name, color=colour, linestyle=line, marker=marker)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        ticks = sorted({int(one.case.varied["fan-in"]) for one in results})
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.minorticks_off()
        _plain(axes.yaxis, [value for one in results for value in _ends(one, "bystanders p99")])
        axes.set_ylim(1, 1.3 * max(3.0, *(value for one in results for value in _ends(one, "bystanders p99"))))
        axes.set_xlabel("senders at once")
        axes.set_ylabel("bystanders' slowdown, p99")
        axes.legend(title="shared buffer", frameon=False, loc="upper left", fontsize=7, title_fontsize=7)
    return figure


def _line(axes: Axes, own: list[Result], label: str, **look: Any) -> None:
    numbers = [one.numbers["bystanders p99"] for one in own]
    x = [int(one.case.varied["fan-in"]) for one in own]
    axes.plot(x, [number.mean for number in numbers], label=label, markersize=4, **look)
    if not any(math.isnan(number.low) for number in numbers):
        axes.fill_between(x, [n.low for n in numbers], [n.high for n in numbers], color=look["color"], alpha=0.12, linewidth=0)


def trade(made: WhatIfs) -> Figure:
    """Short against long flows: a dot for each point of the grid, the default and the chosen one with their intervals."""
    results = [one for one in made.of("ecn") if not math.isnan(one.numbers["both"].mean)]
    x_name, y_name = "long p99", "short p99"
    with active():
        figure, axes = _canvas()
        percents = sorted({one.case.varied["P_max"] for one in results if one.case.settings == AFTER}, key=natural)
        for percent, colour, marker in zip(percents, COLOURS, MARKERS):
            own = [one for one in results if one.case.varied["P_max"] == percent and one.case.settings == AFTER]
            places = [(one.numbers[x_name].mean, one.numbers[y_name].mean) for one in own]
            axes.plot(*zip(*places), marker, color=colour, markersize=4, label=f"P_max {percent}")
        special = [(one, "as it is", RED) for one in results if one.case.settings == BEFORE]
        if made.choice and not made.choice.has:
            special.append((made.choice.default, "default", GREY))
        if made.choice and made.choice.changed:
            special.append((made.choice.chosen, "chosen", "black"))
        for one, label, colour in special:
            x, y = one.numbers[x_name], one.numbers[y_name]
            if math.isnan(x.mean) or math.isnan(y.mean):
                continue
            bars: dict[str, Any] = {} if math.isnan(x.low) or math.isnan(y.low) else {"xerr": _bar(x), "yerr": _bar(y)}
            look: dict[str, Any] = {"markerfacecolor": "none", "markersize": 9, "elinewidth": 0.8, "capsize": 2}
            axes.errorbar([x.mean], [y.mean], fmt="o", color=colour, label=label, **look, **bars)
        axes.set_xlabel("flows of 1 MB and more, slowdown p99")
        axes.set_ylabel("flows below 100 KB, slowdown p99")
        for limit, name in ((axes.set_xlim, x_name), (axes.set_ylim, y_name)):
            means = [one.numbers[name].mean for one in results if not math.isnan(one.numbers[name].mean)]
            if means:
                limit(ROOM[0] * min(means), ROOM[1] * max(means))
        axes.legend(frameon=False, fontsize=7, loc="upper right")
    return figure


def failures(made: WhatIfs) -> Figure:
    """Bars of the slowdown by what fails."""
    return _bars(made.of("failures"), "p99", "slowdown of all flows, p99")


def storm(made: WhatIfs) -> Figure:
    """Bars of the flows to other servers that had not ended."""
    return _bars(made.of("storm"), "stuck", "flows to other servers that had not ended")


def _bars(results: list[Result], name: str, label: str) -> Figure:
    kinds = list(dict.fromkeys(next(iter(one.case.varied.values())) for one in results))
    others = list(dict.fromkeys(_rest(one, results) for one in results))
    with active():
        figure, axes = _canvas(max(HEIGHT, 0.9 + BAR * (len(results) + len(kinds))))
        place, ticks = 0.0, []
        for kind in kinds:
            first = place
            for one in (one for one in results if next(iter(one.case.varied.values())) == kind):
                number, colour = one.numbers[name], COLOURS[others.index(_rest(one, results)) % len(COLOURS)]
                hatch = "////" if one.case.settings == BEFORE else None
                error = (
                    None if math.isnan(number.low) else [[max(number.mean - max(number.low, 0), 0)], [number.high - number.mean]]
                )
                look: dict[str, Any] = {
                    "error_kw": {"elinewidth": 0.8, "capsize": 1.5},
                    "hatch": hatch,
                    "edgecolor": "white",
                    "linewidth": 0,
                }
                mean = 0 if math.isnan(number.mean) else number.mean
                axes.barh(place, mean, 0.85, color=colour, xerr=error, **look)
                place += 1
            ticks.append((first + place - 1) / 2)
            place += 0.6
        for other, colour in zip(others, COLOURS):
            if other:
                axes.barh([0], [0], color=colour, label=other)
        axes.set_yticks(ticks, kinds)
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set_xlim(
            0, ROOM[1] * max(0.5, *(one.numbers[name].mean for one in results if not math.isnan(one.numbers[name].mean)))
        )
        axes.set_xlabel(label)
        if any(others):
            figure.legend(frameon=False, fontsize=7, loc="outside upper right", ncols=min(len(others), 2))
    return figure


def _rest(one: Result, results: list[Result]) -> str:
    """What else varies, for the legend."""
    names = list(one.case.varied)[1:]
    words = [one.case.varied[name] if name == "paths" else f"{name} {one.case.varied[name]}" for name in names]
    several = len({each.case.settings for each in results}) > 1
    return ", ".join([*words, *([one.case.settings] if several else [])])


def _ends(one: Result, name: str) -> list[float]:
    number = one.numbers[name]
    return [value for value in (number.mean, number.low, number.high) if not math.isnan(value)]


def _bar(number: Any) -> list[list[float]]:
    return [[number.mean - number.low], [number.high - number.mean]]


def _plain(axis: Any, values: list[float]) -> None:
    """Ticks 1, 2, 5, 10 ... with plain numbers, on a logarithmic axis."""
    high = max(values, default=10.0)
    ticks = [base * 10**power for power in range(5) for base in (1, 2, 5)]
    inside = [tick for tick in ticks if tick <= max(high, 3) * 1.3]
    axis.set_ticks(inside, [f"{tick:g}" for tick in inside])


DRAWN: dict[str, Callable[[WhatIfs], Figure]] = {"incast": bystanders, "ecn": trade, "failures": failures, "storm": storm}
