"""Beyond the papers: which queue a new flow gets under BFC, by every reading of the paper and by rules beyond it.

The readings of sections 3.3.1 and 4 of BFC (NSDI 2022) and four rules that are not in the paper (`assignment` in docs/schemes.md)
on the set-ups of its figures: 9 (Google, 55 % and 5 % incast), 10 (Google, 60 %), 11 (Facebook, 55 % and 5 % incast; 60 %) and
12 (Facebook, 95 %) with 32, 64 and 128 queues and both definitions of load (see bfc/_fabric); 7 and 8 (16 queues) and table 1.
Shorter than the figures, so that all of them can be run: 10 ms of Google and 20 ms of Facebook instead of 50.

A rule is judged by its distance: its number over the best one of the five readings, same set-up, same number of queues, same
seed. All claims are ours. docs/queue-assignment.md explains the rules and what came out.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_papers import frames
from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc import fig07, fig08, table1
from penstock_papers.bfc._fabric import CORE, UPLINKS
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import OURS, Differs
from penstock_papers.frames import Scheme
from penstock_papers.sentences import Numbers, holds, within
from penstock_papers.style import BLACK, BLUE, GREEN, ORANGE, PAGE, figure, legend_above, lettered, log_axis

TITLE = "BFC by the queue that a new flow gets"
PAPER = "Beyond the papers: the readings of BFC's queue assignment (NSDI 2022, sections 3.3.1 and 4) compared"
READINGS = ("literal", "unpaused", "reserved", "rotating", "rotating_unpaused")
OTHERS = ("shortest", "joined", "two_choices", "stochastic", "penstock")
RULES = (*READINGS, *OTHERS)
OURS_IS = "penstock"
NEAR = 1.1  # "within 10 % of the best reading"
QUEUES = {"quick": (32,), "paper": (32, 64, 128)}
LOADS = {"quick": (CORE,), "paper": (CORE, UPLINKS)}
SEEDS = {"paper": 5}
GOOGLE, FACEBOOK = "google", "facebook_hadoop"
TRAFFICS = {  # name: sizes, load, the part of it that is incast
    "google-incast": (GOOGLE, 0.6, 0.05),
    "google": (GOOGLE, 0.6, 0.0),
    "facebook-incast": (FACEBOOK, 0.6, 0.05),
    "facebook": (FACEBOOK, 0.6, 0.0),
    "facebook-95": (FACEBOOK, 0.95, 0.0),
}
TITLES = {
    "google-incast": "Google, 5 % incast",
    "google": "Google, 60 %",
    "facebook-incast": "Facebook, 5 % incast",
    "facebook": "Facebook, 60 %",
    "facebook-95": "Facebook, 95 %",
}
DURATION = {"quick": {GOOGLE: "1ms", FACEBOOK: "4ms"}, "paper": {GOOGLE: "10ms", FACEBOOK: "20ms"}}
SHORT, MEDIUM, LONG, INCAST = "short p99", "medium p99", "long avg", "incast p99"
BUFFER = "buffer"
SLOWDOWNS = (SHORT, MEDIUM, LONG, INCAST)
SHOWN = {SHORT: "short flows, p99", MEDIUM: "medium flows, p99", LONG: "long flows, average"}
SMALL = "small"  # figures 7 and 8, table 1
TH_US = 2.0  # of figure 7
WINDOW, WINDOW_REASON = "arrivals", "that of the figures whose set-ups are used"
DIFFERS: dict[str, Differs] = {}
BETTER: dict[str, Any] = {"isolation": min, "throughput": max, "delay": min, "queues": max}
WHAT = {
    "isolation": "figure 8, mean FCT of group 1",
    "throughput": "table 1, throughput of the long flow",
    "delay": "table 1, p99 delay of single packets",
    "queues": "figure 7, queues in use by two flows",
}


def mixes(scale: str) -> list[tuple[str, str]]:
    """Traffic and definition of load; the authors' definition with 32 queues only."""
    return [(traffic, load_of) for load_of in LOADS[scale] for traffic in TRAFFICS]


def named(traffic: str, load_of: str) -> str:
    """The label of a traffic with this definition of load."""
    return traffic if load_of == CORE else f"{traffic}-{load_of}"


def judged(scale: str) -> list[tuple[str, str]]:
    """Traffics and their slowdowns."""
    traffics = [named(traffic, load_of) for traffic, load_of in mixes(scale)]
    return [(traffic, panel) for traffic in traffics for panel in SLOWDOWNS if panel != INCAST or "incast" in traffic]


CLAIMS = (
    *(
        within(
            f"near-{traffic}-{panel.partition(' ')[0]}",
            f"{traffic}: {panel}: penstock over the best reading, worst number of queues",
            "near the best reading",
            None,
            NEAR,
            why="below the best reading is better",
            kind=OURS,
        ).at(scale)
        for scale in LOADS
        for traffic, panel in judged(scale)
    ),
    *(
        within(
            f"near-{panel}",
            f"{what}: penstock's distance from the best reading",
            "near the best reading",
            None,
            NEAR,
            why="below 1 is better",
            kind=OURS,
        )
        for panel, what in WHAT.items()
    ),
    within("spread", "figure 8: largest sd / mean", "close to 0", 0, 0.05, why="as bfc/fig08", kind=OURS, quick=True),
    holds(
        "conflict",
        f"readings within {NEAR:g} of the best one everywhere, short and long flows",
        "they conflict",
        "none",
        kind=OURS,
        quick=False,
    ),
)


def schemes(queues: int) -> list[Scheme]:
    """All rules with a number of queues."""
    return [Scheme(rule, {"name": "bfc", "assignment": rule, "queues": queues}, run=f"{rule} {queues}") for rule in RULES]


def queues_of(scale: str, load_of: str) -> tuple[int, ...]:
    """Numbers of queues of the runs with a definition of load."""
    return QUEUES[scale] if load_of == CORE else QUEUES[scale][:1]


def specs(scale: str, seed: int = 1) -> dict[str, Spec]:
    """A spec per traffic and definition of load, with all rules and numbers of queues, and those of the small set-ups."""
    made = {}
    for traffic, load_of in mixes(scale):
        sizes, load, incast = TRAFFICS[traffic]
        shown = [scheme for queues in queues_of(scale, load_of) for scheme in schemes(queues)]
        spec = fabric.spec(shown, DURATION[scale][sizes], sizes, load, incast, load_of)
        made[named(traffic, load_of)] = {**spec, "run": {**spec["run"], "seed": seed}}
    for label, spec in fig08.specs(scale, seed).items():
        made[f"fig08 {label}"] = {**spec, "scheme": _tables(fig08.QUEUES)}
    for label, spec in table1.specs(scale, seed).items():
        made[f"table1 {label}"] = {**spec, "scheme": _tables(32)}
    th_bytes = round(TH_US * fig07.BYTES_PER_US)
    for label, spec in fig07.specs("quick").items():
        made[f"fig07 {label}"] = {
            **spec,
            "run": {**spec["run"], "seed": seed},
            "scheme": [{**table, "th_bytes": th_bytes} for table in _tables(fig07.QUEUES)],
        }
    return made


def _tables(queues: int) -> list[dict[str, Any]]:
    return [{**scheme.table, "label": scheme.legend} for scheme in schemes(queues)]


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: queues per port; series: the rule; panel: what y is; traffic: that of the spec, or SMALL.

    Slowdowns by the sender's clock; `buffer`: the largest in use at a switch, MB. SMALL has the panels `isolation` (figure 8:
    mean completion time of group 1 while there are queues for all flows, us), `spread` (its largest standard deviation over the
    mean), `throughput` and `delay` (table 1: % and us) and `queues` (figure 7: queues in use by two flows).
    """
    parts = []
    for traffic, load_of in mixes(scale):
        for queues in queues_of(scale, load_of):
            for scheme in schemes(queues):
                parts += _of_traffic(runs, named(traffic, load_of), scheme, queues, TRAFFICS[traffic][0])
    for rule in RULES:
        for panel, (queues, y) in small(runs, rule, scale).items():
            parts.append(frames.rows(panel, rule, [queues], [y], traffic=SMALL))
    return pl.concat(parts)


def _of_traffic(runs: Runs, traffic: str, scheme: Scheme, queues: int, sizes: str) -> list[pl.DataFrame]:
    found = fabric.statistics(runs, traffic, scheme, sizes)
    numbers = {panel: fabric.value(found, traffic, scheme, panel) for panel in (SHORT, MEDIUM, LONG)}
    label = fabric.of(runs, traffic, scheme)
    crowd = fabric.counted(runs, label, incast=True).select(pl.col("slowdown").quantile(0.99, "linear")).collect().item()
    if crowd is not None:
        numbers[INCAST] = crowd
    numbers[BUFFER] = runs.summary(label)["max_buffer_bytes"] / 1e6
    return [frames.rows(panel, scheme.legend, [queues], [y], traffic=traffic) for panel, y in numbers.items()]


def small(runs: Runs, rule: str, scale: str) -> dict[str, tuple[int, float]]:
    """Panel -> number of queues and y, of figures 7 and 8 and table 1 under a rule."""
    means, spreads = [], []
    for flows in fig08.GROUP_2[scale]:
        if fig08.GROUP_1 + flows <= fig08.QUEUES:
            times = fig08.times(runs, flows, rule, prefix="fig08 ")
            means.append(times.mean())
            spreads.append(times.std() / times.mean())
    throughput, delays = table1.one_run(runs[f"table1 {table1.TRAFFIC}/{rule}"])
    pairs = [label for label in runs if label.startswith("fig07 ") and label.endswith(f"/{rule}")]
    return {
        "isolation": (fig08.QUEUES, float(np.mean(means))),
        "spread": (fig08.QUEUES, float(max(spreads))),
        "throughput": (32, throughput),
        "delay": (32, float(np.percentile(delays, 99))),
        "queues": (fig07.QUEUES, float(min(len(fig07.queue_of(runs[label])) for label in pairs))),
    }


def distances(data: pl.DataFrame, panels: tuple[str, ...] = SLOWDOWNS) -> pl.DataFrame:
    """traffic, x (queues), panel, series (rule), distance: y over the smallest y of the readings."""
    numbers = data.filter(pl.col("panel").is_in(panels) & pl.col("y").is_not_null())
    key = ["traffic", "x", "panel"]
    best = numbers.filter(pl.col("series").is_in(READINGS)).group_by(key).agg(pl.col("y").min().alias("best"))
    return numbers.join(best, on=key).with_columns((pl.col("y") / pl.col("best")).alias("distance"))


def worst(data: pl.DataFrame, rule: str, panels: tuple[str, ...], traffic: str = "") -> float:
    """The largest distance of a rule over the numbers of queues, and over all traffics unless one is given."""
    found = distances(data, panels).filter(pl.col("series") == rule)
    found = found.filter(pl.col("traffic") == traffic) if traffic else found
    return float(found["distance"].max()) if len(found) else float("nan")  # type: ignore[arg-type]


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Our rule is near the best reading in every set-up, and no reading is."""
    found: Numbers = {
        f"near-{traffic}-{panel.partition(' ')[0]}": worst(data, OURS_IS, (panel,), traffic) for traffic, panel in judged(scale)
    }
    for panel, better in BETTER.items():
        at = {rule: frames.value(data, panel=panel, series=rule, traffic=SMALL) for rule in RULES}
        best = better(at[rule] for rule in READINGS)
        found[f"near-{panel}"] = at[OURS_IS] / best if better is min else best / at[OURS_IS]
    near = [rule for rule in READINGS if max(worst(data, rule, (panel,)) for panel in (SHORT, LONG)) <= NEAR]
    return {
        **found,
        "spread": frames.value(data, panel="spread", series=OURS_IS, traffic=SMALL),
        "conflict": (not near, ", ".join(near) or "none"),
    }


def plot(data: pl.DataFrame) -> Any:
    """Slowdowns by rule: bars for 32 queues, markers for more."""
    made, grid = figure(len(SHOWN), len(TRAFFICS), width=1.5 * PAGE, height=6.6, sharey=True)
    colours = [GREEN if rule == OURS_IS else BLUE if rule in READINGS else ORANGE for rule in RULES]
    places = np.arange(len(RULES))
    for row, panel in zip(grid, SHOWN):
        row[0].set_ylabel(f"Slowdown of\n{SHOWN[panel]}")
        for axes, traffic in zip(row, TRAFFICS):
            part = frames.chosen(data, traffic=named(traffic, CORE), panel=panel).with_columns(pl.col("y").fill_null(np.nan))
            at = {(rule, queues): y for rule, queues, y in part.select("series", "x", "y").iter_rows()}
            bars = [at[rule, 32] for rule in RULES]
            axes.barh(places, bars, 0.7, color=colours)
            for queues, marker in ((64, "o"), (128, "D")):
                if (RULES[0], queues) in at:
                    y = [at[rule, queues] for rule in RULES]
                    axes.plot(y, places, marker, color="white", mec=BLACK, ms=3.5, label=f"{queues} queues")
            axes.set_yticks(places, RULES)
            axes.grid(visible=False, axis="y")
            if np.isnan(bars).all():
                axes.set_xticks([])
                axes.text(0.5, 0.5, "none has finished", ha="center", transform=axes.transAxes)
            elif panel == SHORT:
                log_axis(axes.xaxis, None, (1, 2, 5) if np.nanmax(bars) < 20 else (1,))
                axes.set_xlim(left=0.9)
    grid[0][0].invert_yaxis()
    lettered(grid[0], TITLES.values())
    if len(set(data["x"])) > 2:
        legend_above(made, grid[0][0], columns=2)
    return made
