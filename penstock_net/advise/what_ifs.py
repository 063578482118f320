"""What if: small simulations of a switch with its job, each before (settings as they are) and after (as advised), as specs.

`cases` makes them; `penstock_net.sweeps.what_ifs` simulates them; `measured` reads the numbers of a run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from penstock_net.advise.job import Job
from penstock_net.advise.network import Network, leaf_spine, star
from penstock_net.advise.settings import K_MAX, K_MIN, P_MAX, Advice, default_marking, share
from penstock_net.advise.sonic import Config
from penstock_net.advise.values import LARGEST_MTU, Values, advised, now, scheme, watchdog
from penstock_net.errors import SpecError
from penstock_net.inputs import time_ps
from penstock_net.results.intervals import Interval, RatioInterval, interval, ratio_interval
from penstock_net.results.statistic import Statistic
from penstock_net.spec.toml import write_toml
from penstock_net.units import format_size

if TYPE_CHECKING:
    from penstock_net.results.run import Run

BEFORE, AFTER = "as it is", "advised"
DISTANCE = 32  # packets that may overtake one before it counts as lost
BY_FLOW, SPRAYED, WAITING = "by flow", "by packet", f"by packet, distance {DISTANCE}"
SPRAYING = "dcqcn+spray+recovery:irn"
PATHS: dict[str, dict[str, Any]] = {  # what a scheme's table has for them
    BY_FLOW: {},
    SPRAYED: {"name": SPRAYING},
    WAITING: {"name": SPRAYING, "recovery": {"distance": DISTANCE}},
}
SHARED = (16, 4, 1)  # parts of the shared buffer
BYSTANDERS = ("0us", "20us", "40us", "60us")  # when they start
LARGEST_FAN_IN = 256
MARKING = (0.25, 1.0, 4.0)  # times K_max of the default
RISES = (2, 8)  # K_max to K_min
PERCENTS = (1, 5, 20)
WHOLE = "nothing"  # fails
START = "10us"  # of what goes wrong
SLOWER = 4
STOPPED = "1Mbps"  # of a receiver that has stopped
SENDERS = 32  # to the server of a storm
STORM = 2  # times the longest time of a watchdog, for which there is traffic

WHAT = {
    "incast": "bystanders of an incast, by the shared buffer and the fan-in",
    "ecn": "ECN: slowdown of short and of long flows, by K_min, K_max, P_max",
    "failures": "a dead spine, a slow link, fewer spines",
    "storm": "a server that pauses without end, a receiver that stops",
}
STATISTICS: dict[str, dict[str, str]] = {  # of `penstock sweep --statistic`, or columns of its table
    "incast": {"bystanders p99": "p99 slowdown of bystanders flows", "incast": "max fct of incast flows"},
    "ecn": {"short p99": "p99 slowdown of all flows < 100KB", "long p99": "p99 slowdown of all flows >= 1MB"},
    "failures": {"p50": "p50 slowdown of all flows", "p99": "p99 slowdown of all flows", "slowest": "max fct of all flows"},
    "storm": {"p99": "p99 slowdown of all flows"},
}
COLUMNS = {
    "incast": ("bystanders p99", "incast", "buffer", "paused", "drops"),
    "ecn": ("short p99", "long p99", "both", "buffer", "paused", "drops"),
    "failures": ("p50", "p99", "slowest", "again", "drops", "not done"),
    "storm": ("stuck", "others", "p99", "drops", "storms"),
}
UNITS = {"incast": "us", "slowest": "us", "again": "%", "buffer": "MB", "paused": "%"}
MEANS = {
    "bystanders p99": "99th percentile of their slowdown",
    "incast": "its last flow's time",
    "buffer": "most that a switch held",
    "paused": "share of the time that ports were paused",
    "short p99": "flows below 100 KB",
    "long p99": "flows of 1 MB and more",
    "both": "square root of their product",
    "p50": "of the slowdown of all flows",
    "p99": "of the slowdown of flows that have ended",
    "slowest": "the last flow's time",
    "again": "bytes sent again, of those of all flows",
    "not done": "flows that had not ended",
    "stuck": "flows to other servers that had not ended",
    "others": "flows to other servers",
    "drops": "packets",
    "storms": "times that a watchdog acted",
}
LABELS = {"again": "sent again", "incast": "incast time", "storms": "acted"}


@dataclass(frozen=True)
class Case:
    """One simulation: its file in `specs`, what varies, whose settings it has, and its spec and network as text."""

    what: str
    name: str
    varied: dict[str, str]
    settings: str
    spec: str
    network_name: str
    network: str


@dataclass(frozen=True)
class Result:
    """A case with its numbers over the seeds, and each seed's."""

    case: Case
    numbers: dict[str, Interval | RatioInterval]
    values: dict[str, list[float | None]]


@dataclass(frozen=True)
class Choice:
    """What the ECN grid says: the case that stands for the advice, and by how much it is better than the default.

    ratio  default / chosen of the score, by seed; 1 if the default stays
    has    the default is not SONiC's, but what the switch has
    """

    chosen: Result
    default: Result
    best: Result
    ratio: RatioInterval
    has: bool = False

    @property
    def before(self) -> str:
        """What the default is called."""
        return "what the switch has" if self.has else "the default"

    @property
    def changed(self) -> bool:
        """Whether it is another point than the default."""
        return self.chosen.case.name != self.default.case.name


@dataclass(frozen=True)
class WhatIfs:
    """All results of a switch, what was left out and why, the ECN point that they say, the folder of the specs, and what of the
    switch is not simulated."""

    results: tuple[Result, ...]
    left_out: tuple[str, ...]
    seeds: tuple[int, ...]
    choice: Choice | None = None
    folder: str = "specs"
    optimistic: tuple[str, ...] = ()

    def command(self, name: str) -> str:
        """What repeats a row."""
        return f"penstock run {self.folder}/{name} --seeds {','.join(map(str, self.seeds))}"

    def of(self, what: str) -> list[Result]:
        """Those of one what-if."""
        return [result for result in self.results if result.case.what == what]


# ---- Cases ----


def cases(advice: Advice, job: Job, before: Config | None, only: tuple[str, ...] = ()) -> tuple[list[Case], list[str]]:
    """Of all what-ifs or of those named; and which are left out, and why.  SpecError: no such what-if, or a bad fabric."""
    wanted = only or tuple(WHAT)
    for name in wanted:
        if name not in WHAT:
            raise SpecError("no such what-if", path="--what-if", value=name, remedy=f"one of {', '.join(WHAT)}")
    made = _Maker(advice, job, before)
    found = [case for name in WHAT if name in wanted for case in MAKE[name](made)]
    return found, made.left_out


class _Maker:
    """What all cases of a switch have in common."""

    def __init__(self, advice: Advice, job: Job, before: Config | None) -> None:
        self.advice, self.job, self.switch = advice, job, advice.switch
        self.settings = {BEFORE: now(before, advice)} if before else {}
        self.settings[AFTER] = advised(advice)
        self.left_out: list[str] = []
        self.alone = star(self.switch)
        self.net = self.network(1)

    def network(self, share: int) -> Network:
        if self.job.fabric is None:
            return self.alone
        try:
            return leaf_spine(self.switch, self.job.fabric, share)
        except SpecError as error:
            raise self.job.placed(error) from None

    def case(
        self,
        what: str,
        varied: dict[str, str],
        settings: str,
        values: Values,
        net: Network,
        *,
        workload: list[dict[str, Any]] | None = None,
        buffer: int = 0,
        pfc: dict[str, Any] | None = None,
        topology: dict[str, Any] | None = None,
        run: dict[str, Any] | None = None,
        paths: str = BY_FLOW,
    ) -> Case:
        table = scheme(self.switch, values, net.servers, self.job.dcqcn)
        table["pfc"] |= pfc or {}
        table |= PATHS[paths]
        name = "-".join([what, *varied.values(), *([settings] if len(self.settings) > 1 else [])])
        file = re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-")
        network = "switch.txt" if net is self.alone else f"fabric-{net.spines}.txt"
        spec = {
            "run": self.job.run | (run or {}),
            "topology": {"file": network, "buffer": f"{buffer or self.switch.buffer}B", **(topology or {})},
            "scheme": table,
            "workload": [self.lossless(one) for one in (workload or self.job.workload)],
            "host": {"mtu": LARGEST_MTU, **self.job.host},
        }
        return Case(what, file, varied, settings, write_toml(spec), network, net.text)

    def lossless(self, table: dict[str, Any]) -> dict[str, Any]:
        """A workload that has a priority, the first lossless one if it does not say one."""
        return {"priority": self.switch.lossless[0], **table}


def _incast(made: _Maker) -> Iterator[Case]:
    """Of the buffer a part of what is shared is there. Bystanders are a permutation of all but the receiver, again and again."""
    switch, budget, net = made.switch, made.advice.budget, made.net
    most = net.hosts - 1
    if most < 2:
        made.left_out.append("incast: it takes three ports at least")
        return
    others = [f"h{number}" for number in range(1, net.hosts)]
    around = [
        {"kind": "permutation", "bytes": "200KB", "class": "bystanders", "hosts": others, "start": start} for start in BYSTANDERS
    ]
    for fan_in in sorted({min(n, most) for n in (8, switch.fan_in if switch.fan_in > 1 else 32, LARGEST_FAN_IN)}):
        incast = {"kind": "incast", "fan_in": fan_in, "size": "1MB", "every": "1s", "receivers": ["h0"]}
        for part in SHARED:
            shared = budget.pool // part
            varied = {"fan-in": str(fan_in), "shared": format_size(shared, digits=3)}
            for name, values in made.settings.items():
                size = shared + budget.headroom + budget.reserve
                run = {"duration": "100us", "max_time": "50ms"}
                yield made.case("incast", varied, name, values, net, workload=[incast, *around], buffer=size, run=run)


def _ecn(made: _Maker) -> Iterator[Case]:
    """K_max is never above what an ingress holds when it pauses. The grid is the same whatever a configuration has now, so that
    advice on what was advised finds the same."""
    values = made.settings[AFTER]
    if BEFORE in made.settings:
        old = made.settings[BEFORE]
        yield made.case("ecn", _marks(old), BEFORE, replace(values, k_min=old.k_min, k_max=old.k_max, p_max=old.p_max), made.net)
    limit = math.floor(share(made.advice.budget.pool, values.alpha, made.switch.fan_in))
    _, middle = default_marking(made.advice.budget.pool, values.alpha, made.switch.fan_in)
    points = [values]
    for times in MARKING:
        high = min(round(middle * times), max(limit, middle))
        points += [replace(values, k_min=high // rise, k_max=high, p_max=percent) for rise in RISES for percent in PERCENTS]
    seen: list[dict[str, str]] = []
    for point in points:
        if _marks(point) not in seen:
            seen.append(_marks(point))
            yield made.case("ecn", _marks(point), AFTER, point, made.net)


def _marks(values: Values) -> dict[str, str]:
    if values.p_max == 100 and values.k_min == values.k_max:
        return {"K_min": "-", "K_max": "-", "P_max": "-"}
    sizes = (format_size(size, digits=3) for size in (values.k_min, values.k_max))
    return dict(zip(("K_min", "K_max", "P_max"), (*sizes, f"{values.p_max:g}%")))


def _failures(made: _Maker) -> Iterator[Case]:
    """Of a fabric; of one switch a slow host link is all that can fail without cutting somebody off."""
    net = made.net
    slow: dict[str, Any]
    if net.leaves:
        slow = {"a": "leaf0", "b": "spine0", "rate": f"{net.uplink_gbps / SLOWER:g}Gbps"}
        if net.uplinks > net.spines:
            slow["parallel"] = 0
    else:
        made.left_out.append("failures: a dead spine and fewer spines need [fabric] in the job")
        slow = {"a": "h0", "b": "switch", "rate": f"{made.switch.ports[0].gbps / SLOWER:g}Gbps"}
    broken: dict[str, dict[str, Any]] = {WHOLE: {}, "slow link": {"changes": [{"time": START, **slow}]}}
    if net.leaves and net.spines > 1:
        broken["dead spine"] = {"changes": [{"time": START, "switch": "spine0", "up": False}]}
    for paths in PATHS if net.leaves else (BY_FLOW,):
        for what, topology in broken.items():
            yield from _both(made, what, net, topology, paths)
        for part in (2, 4):
            if net.spines >= part:
                fewer = made.network(part)
                yield from _both(made, f"{net.spines - fewer.spines} of {net.spines} spines", fewer, {}, paths)


def _both(made: _Maker, fails: str, net: Network, topology: dict[str, Any], paths: str) -> Iterator[Case]:
    varied = {"fails": fails, "paths": paths} if net.leaves else {"fails": fails}
    for name, values in made.settings.items():
        yield made.case("failures", varied, name, values, net, topology=topology, paths=paths)


def _storm(made: _Maker) -> Iterator[Case]:
    """h0 sends pauses, or takes no packets; without a watchdog, and with one whose milliseconds are microseconds.

    Others send h0 twice what a switch can share, so that the buffer is full before a watchdog acts, as it is in milliseconds.
    """
    paused = {"storm_host": 0, "storm_start": START, "storm_priorities": list(made.switch.lossless)}
    stopped = {"receivers": [{"host": 0, "rate": STOPPED, "start": START}]}
    longest = max(values.detection_ms for values in made.settings.values())
    duration = max(time_ps(made.job.run["duration"], "run.duration"), STORM * longest * 10**6)
    run = {"duration": f"{duration}ps", "max_time": f"{3 * duration}ps", "drain": True}
    to_it = {
        "kind": "incast",
        "fan_in": min(SENDERS, made.net.hosts - 1),
        "total": f"{2 * made.advice.budget.pool}B",
        "every": "1s",
        "receivers": ["h0"],
        "class": "to h0",
    }
    values, workload = made.settings[AFTER], [*made.job.workload, to_it]
    kinds: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {"server pauses": (paused, {}), "receiver stops": ({}, stopped)}
    for kind, (pfc, topology) in kinds.items():
        each: dict[str, tuple[str, Values, dict[str, Any]]] = {"none": (AFTER, values, {})}
        for name, own in made.settings.items():
            if own.detection_ms:
                text = f"{own.detection_ms}us, {own.action}"
                each[text if text not in each else f"{text} ({name})"] = (name, own, watchdog(own))
        for text, (name, own, more) in each.items():
            varied = {"what": kind, "watchdog": text}
            yield made.case("storm", varied, name, own, made.net, workload=workload, pfc=pfc | more, topology=topology, run=run)


MAKE: dict[str, Callable[[_Maker], Iterator[Case]]] = {"incast": _incast, "ecn": _ecn, "failures": _failures, "storm": _storm}


# ---- Numbers ----


def measured(what: str, run: Run) -> dict[str, float | None]:
    """The numbers of a run by the columns of its what-if: times in us, sizes in MB, shares in percent."""
    out: dict[str, float | None] = {}
    for name, text in STATISTICS[what].items():
        try:
            value = Statistic.parse(text)(run)
        except SpecError:  # it has no flow of this class
            value = None
        out[name] = value / 1000 if value is not None and UNITS.get(name) == "us" else value
    summary = run.summary
    flows = run.frame("flows")
    to_others = flows.filter(pl.col("dst") != 0)
    out |= {
        "buffer": (summary["max_buffer_bytes"] or 0) / 1e6,
        "paused": 100 * (summary["pfc_pause_fraction"] or 0.0),
        "again": 100 * int(flows["retransmitted_bytes"].sum()) / max(int(flows["bytes"].sum()), 1),
        "drops": summary["drops"],
        "not done": summary["flows_started"] - summary["flows_finished"],
        "storms": summary.get("storms") or 0,
        "stuck": to_others["fct_ns"].null_count(),
        "others": to_others.height,
    }
    if what == "ecn":
        out["both"] = _both_of(out)
    return {name: out[name] for name in COLUMNS[what]}


def _both_of(values: dict[str, float | None]) -> float | None:
    known = [value for name in ("short p99", "long p99") if (value := values[name]) is not None]
    return math.exp(sum(map(math.log, known)) / len(known)) if known else None


def is_ratio(name: str) -> bool:
    """Whether a column has slowdowns, whose intervals are on a logarithmic scale."""
    return name.endswith(("p99", "p50")) or name == "both"


def result(case: Case, of_seeds: list[dict[str, float | None]]) -> Result:
    """The numbers of a case over its seeds."""
    values = {name: [one[name] for one in of_seeds] for name in COLUMNS[case.what]}
    numbers = {name: ratio_interval(found) if is_ratio(name) else interval(found) for name, found in values.items()}
    return Result(case, numbers, values)


def choose(results: list[Result], advice: Advice) -> Choice | None:
    """The ECN point with the lowest score if it is better than the default by more than its interval, else the default."""
    default_marks = _marks(advised(advice))
    grid = [one for one in results if one.case.settings == AFTER and not math.isnan(one.numbers["both"].mean)]
    default = next((one for one in grid if one.case.varied == default_marks), None)
    if default is None:
        return None
    best = min(grid, key=lambda one: one.numbers["both"].mean)
    pairs = [(a, b) for a, b in zip(default.values["both"], best.values["both"]) if a is not None and b is not None]
    ratio = ratio_interval([a / b for a, b in pairs])
    better = best is not default and len(pairs) > 1 and ratio.low > 1
    marking = advice.switch.marking
    has = marking == (advice.k_min, advice.k_max, advice.p_max) and marking != (K_MIN, K_MAX, P_MAX)
    return Choice(best if better else default, default, best, ratio, has)


def marks_of(found: Result) -> tuple[int, int, int]:
    """K_min, K_max in bytes and P_max in percent of a case of the ECN grid."""
    import tomllib

    ecn = tomllib.loads(found.case.spec)["scheme"]["ecn"]
    return int(ecn["k_min"]), int(ecn["k_max"]), round(100 * ecn["p_max"])


# ---- Text ----


def shown(name: str, number: Interval | RatioInterval) -> str:
    """A number with its interval."""
    if math.isnan(number.mean):
        return "-"
    unit = f" {UNITS[name]}" if name in UNITS else ""
    low, high = number.low, number.high
    if math.isnan(low) or f"{low:.3g}" == f"{high:.3g}":
        return f"{_short(number.mean)}{unit}"
    if isinstance(number, RatioInterval):
        return f"{_short(number.mean)} ({_short(low)} to {_short(high)}){unit}"
    return f"{_short(number.mean)} +- {_short(number.half)}{unit}"


def _short(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(results: list[Result]) -> list[list[str]]:
    """Head and rows of one what-if: what varies, settings, numbers, file."""
    first = results[0].case
    several = len({one.case.settings for one in results}) > 1
    names = COLUMNS[first.what]
    head = [*first.varied, *(["settings"] if several else []), *(LABELS.get(name, name) for name in names), "spec"]
    out = [head]
    for one in results:
        own = [one.case.settings] if several else []
        out.append(
            [*one.case.varied.values(), *own, *(shown(name, one.numbers[name]) for name in names), f"{one.case.name}.toml"]
        )
    return out


def legend(what: str) -> str:
    """What the columns of a what-if are."""
    return "; ".join(f"{LABELS.get(name, name)}: {MEANS[name]}" for name in COLUMNS[what])


def said(choice: Choice) -> str:
    """What was chosen, in a line."""
    default, best, ratio = choice.default, choice.best, choice.ratio
    low, high, percent = best.case.varied.values()
    point = f"K_min {low}, K_max {high}, P_max {percent}"
    if best is default:
        return f"{choice.before}, {point}, is the best of the grid"
    if math.isnan(ratio.factor):
        return f"{point} is the best of the grid with this seed; whether that is real takes more seeds, so {choice.before} stays"
    within = f"95 % interval {_short(ratio.low)} to {_short(ratio.high)}"
    by = f"{choice.before.removeprefix('the ')} / this of both: {_short(ratio.mean)}, {within}"
    if choice.changed:
        return f"{point} is better than {choice.before} ({by}), and is chosen"
    return f"{point} is the best of the grid, and not better than {choice.before} beyond chance ({by}), which stays"


def concluded(made: WhatIfs, what: str) -> str:
    """What a what-if says, in a line; "": its numbers alone."""
    if what == "ecn" and made.choice:
        return said(made.choice)
    return said_of_distance(made.of(what)) if what == "failures" else ""


def said_of_distance(results: list[Result]) -> str:
    """What a distance does where packets take all paths and nothing fails, in a line; "" if nothing was sprayed."""
    whole = [one for one in results if one.case.settings == AFTER and one.case.varied["fails"] == WHOLE]
    found = {one.case.varied.get("paths"): one for one in whole}
    soon, late = found.get(SPRAYED), found.get(WAITING)
    if soon is None or late is None:
        return ""
    pairs = [(a, b) for a, b in zip(soon.values["p99"], late.values["p99"]) if a and b]
    ratio = ratio_interval([a / b for a, b in pairs])
    again = " and ".join(f"{_short(one.numbers['again'].mean)} %" for one in (soon, late))
    words = f"by packet, without and with recovery.distance = {DISTANCE}, {again} of the bytes are sent again"
    if len(pairs) < 2:
        return f"{words}; whether the distance is better takes more seeds"
    if soon.numbers["not done"].mean or late.numbers["not done"].mean:
        return f"{words}; flows have not ended, so that the p99 are not of the same ones"
    verdict = "better" if ratio.low > 1 else "worse" if ratio.high < 1 else "not different beyond chance"
    within = f"95 % interval {_short(ratio.low)} to {_short(ratio.high)}"
    return f"{words}; with it the p99 is {verdict} (without / with: {_short(ratio.mean)}, {within})"
