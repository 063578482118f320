"""Beyond the papers: NDP beside the data of its own paper (Handley et al., SIGCOMM 2017), figures 14, 16, 20, 21 and 22.

ndp.csv has what its authors' simulator gave (nets-cs-pub-ro/NDP, sim/EXAMPLES: incast_shortflows, incast_scaling, permutation,
in_and_out, failure), one run each, as they published it beside the paper:

* figure 16: 1 to 431 hosts of a fat tree of 432 send 450 KB to one, at once; first and last completion
* figure 20: 1 to 8000 hosts of one of 8192 send 270 KB, with first windows of 1, 10 and 23 packets; last completion, and packets
  sent again because they came back (bounces) or because they were trimmed (NACKs)
* figure 14: a random permutation of 432 hosts; payload rate of each flow, in the last 10 of its 20 ms
* figure 21: A sends to B, C, D and E, F sends to E, in a fat tree of 128 hosts; payload rates
* figure 22: a random permutation of 128 hosts where a core switch sends to an upper switch of one pod at 1 Gbit/s, with and
  without the path penalty; payload rates in the second 100 of 200 ms.  The figure is of windows of 15 packets, their data of 23;
  for 15 the paper has a sentence

Set-up (sections 6.1, 6.2 and the scripts): 10 Gbit/s, 1 us per link, packets of 9000 B with headers of 64 B, all other packets
64 B; a window of 23 packets unless said otherwise, queues of 8.  Their queue of 72 000 B holds 7 packets of 9064 B, and their
pulls are as far apart as payloads of 9000 B, 0.7 % closer than what they call; here queues have 8 packets, as the paper says,
and pulls the pace of the link; figure 14 is run with theirs, too.  Timeouts are off, there and here, but for figure 22: the
queue of headers of the slow link loses answers, their receivers count bytes regardless of holes, here an RTO of 10 ms, longer
than that queue lasts (8.7 ms), fills them.

The completion time of a lone flow and of up to 8 with a window of one packet has no random part, so ours is theirs to the
nanosecond that they published.

Scale quick: incasts of up to 51 senders, the others in a fat tree of 432 hosts, the permutation in one of 128; figure 22 in the
last 20 of 60 ms.
"""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from penstock_papers import frames
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import OURS, Differs
from penstock_papers.sentences import Numbers, holds, within
from penstock_papers.style import BLACK, BLUE, DASHES, ORANGE, PAGE, figure, legend_above, lettered, log_axis

TITLE = "NDP beside its published completion times, retransmissions and rates"
PAPER = "Beyond the papers: NDP, SIGCOMM 2017, figures 14, 16, 20, 21 and 22"
SEEDS = {"paper": 3}  # paths are random
MTU, HEADER, HOPS = 9000, 64, 6
PACKET_US, DELAY_US = (MTU + HEADER) * 8 / 10e3, 1.0
PATH_US = (HOPS - 1) * PACKET_US + HOPS * DELAY_US  # what an idle path adds to the last packet of a saturated link
NEVER = "10s"
FAILURE_RTO = "10ms"
DEFAULT = 23  # packets of the first window
SHORT, LARGE = 50, 30  # packets of the flows of figures 16 and 20
ARITY: dict[str, Any] = {
    "short": 12,
    "large": {"quick": 12, "paper": 32},
    "permutation": {"quick": 8, "paper": 12},
    "shares": 8,
    "failure": 8,
}
SENDERS = {"quick": (1, 11, 51), "paper": tuple(range(1, 432, 10))}
MANY = {"quick": (1, 2, 4, 100), "paper": (1, 2, 4, 8, 20, 50, 100, 200, 500, 1000, 2000, 4000, 8000)}
WINDOWS = (1, 10, 23)
END_MS, LAST_MS = 20, 10
FAILURE_MS = {"quick": (40, 60), "paper": (100, 200)}  # rates are measured from and to
FAILURES = {"penalty": (True, DEFAULT), "no penalty": (False, DEFAULT), "no penalty, 15": (False, 15)}  # path_penalty, window
HIT = 6.0  # Gbit/s: less has only who receives by the slow link
OURS_HERE, THEIRS = "penstock", "published"
AS_THEY_RUN = {"depth": 7, "pull_gap": round(MTU / (MTU + HEADER), 4)}
EXACT = 0.001  # us
MOST = 10 * MTU / (MTU + HEADER)  # Gbit/s that headers leave
A, B, C, D, E, F = 0, 124, 125, 126, 127, 2
FLOWS = {"A to B": (A, B), "A to C": (A, C), "A to D": (A, D), "A to E": (A, E), "F to E": (F, E)}
POORLY = "without it NDP does quite poorly, with 15 flows reaching just 3Gbps of throughput"
LOOKS = dict(zip(WINDOWS, (BLUE, BLACK, ORANGE)))
DIFFERS: dict[str, Differs] = {}


def published(panel: str, window: int = DEFAULT) -> pl.DataFrame:
    """x and y of a panel of ndp.csv: senders and us or packets; percent of the flows and Gbit/s; flow and Gbit/s."""
    table = pl.read_csv(Path(__file__).with_name("ndp.csv"), schema_overrides={"x": pl.Float64})
    return table.filter((pl.col("panel") == panel) & (pl.col("window") == window)).select("x", "y")


def by_x(panel: str, window: int = DEFAULT) -> dict[int, float]:
    """The numbers of such a panel."""
    return {int(x): y for x, y in published(panel, window).iter_rows()}


LAST, SHARES = by_x("last"), by_x("shares").values()
LAST_LARGE, BOUNCES, NACKS = ({window: by_x(panel, window) for window in WINDOWS} for panel in ("large", "bounces", "nacks"))
# numbers of senders with claims of their own
ALONE = {window: (1, 2, 4) if window == 1 else (1,) for window in WINDOWS}
FEW_OF = {scale: [n for n in (11, 51, 101, 201, 301, 401, 431) if n in senders] for scale, senders in SENDERS.items()}
MANY_OF = {scale: [n for n in (8, 20, 100, 1000, 8000) if n in senders] for scale, senders in MANY.items()}
AGAIN_OF = {scale: [n for n in senders if n >= 100] for scale, senders in MANY_OF.items()}
CLAIMS = (
    *(
        within(
            f"exact-{id}",
            f"{what}: last completion, us",
            f"{theirs:.3f}",
            theirs - EXACT,
            theirs + EXACT,
            why="no random part: to the nanosecond in which it is published",
            quick=True,
        )
        for id, what, theirs in (
            ("short-1", f"1 of 450 KB, window {DEFAULT}", LAST[1]),
            *(
                (f"w{window}-{n}", f"{n} of 270 KB, window {window}", LAST_LARGE[window][n])
                for window in WINDOWS
                for n in ALONE[window]
            ),
        )
    ),
    *(
        within(
            f"last-{n}",
            f"{n} of 450 KB: last completion / published",
            f"{LAST[n] / 1e3:.4g} ms",
            *((0.98, 1.02) if n < 100 else (0.995, 1.005)),
            why="one run each: fewer than 100 scatter by up to 2 % about the published law, more by 0.4 %",
        ).at(scale)
        for scale, judged in FEW_OF.items()
        for n in judged
    ),
    within(
        "optimal",
        "450 KB, mean over the numbers of senders: last completion above the optimum, %",
        "a completion time just 1% slower than optimal",
        0,
        2,
        why="twice the paper's number; below 0 the link would carry more than it can",
    ),
    within(
        "fair",
        "450 KB, largest of all numbers of senders: slowest / fastest flow",
        "the slowest flow taking at most 20% longer to finish than the fastest one",
        1,
        1.2,
        why="the paper's bound; 1: all alike",
    ),
    *(
        within(
            f"large-{window}-{n}",
            f"{n} of 270 KB, window {window}: last completion / published",
            f"{LAST_LARGE[window][n] / 1e3:.4g} ms",
            *((0.97, 1.03) if n < 100 else (0.995, 1.005)),
            why="one run each: fewer than 100 scatter by up to 3 % about the published law, more by 0.4 %",
        ).at(scale)
        for scale, judged in MANY_OF.items()
        for window in WINDOWS
        for n in judged
    ),
    within(
        "worst",
        "270 KB, window 23, largest of all numbers of senders: last completion above the optimum, %",
        "small incasts see the worst overheads, but still finish within 2% of optimal",
        0,
        2,
        why="the paper's bound; below 0 the link would carry more than it can",
    ),
    *(
        within(
            f"again-{window}-{n}",
            f"{n} of 270 KB, window {window}: packets sent again / published",
            f"{(BOUNCES[window][n] + NACKS[window][n]) / (n * LARGE):.3g} a packet",
            0.75,
            1.25,
            why="25 % to either side: how many of the first window fit is given, but queues hold 8 packets, and 7 there",
        ).at(scale)
        for scale, judged in AGAIN_OF.items()
        for window in WINDOWS[1:]
        for n in judged
    ),
    holds(
        "mechanism",
        "270 KB, window 23: NACKs outnumber bounces below 100 senders, bounces NACKs above",
        "For smaller incasts, NACKs are the main mechanism. Above 100 flows, return-to-sender becomes the main mechanism",
        "at all numbers of senders",
        quick=False,
    ),
    within(
        "again-most",
        "270 KB, window 23, largest of all numbers of senders: retransmissions per packet",
        "even with the largest incasts and a 23-packet IW, the mean number of retransmissions barely exceeds one",
        1,
        1.5,
        why="barely more than one: less than a half more, as in figure 20b",
    ),
    within(
        "utilisation",
        "permutation: mean payload rate, Gbit/s",
        "NDP has an utilization of 92%; 9.249 in the published data",
        9.249 * 0.95,
        min(9.249 * 1.05, MOST),
        why="5 %: between queues of six, eight and ten packets in figure 17; at most what headers leave",
    ),
    within(
        "slowest",
        "permutation: slowest flow, Gbit/s",
        "even the slowest flow gets 9Gb/s; 8.849 in the published data",
        8.849 * 0.9,
        min(8.849 * 1.1, MOST),
        why="10 % to either side of the published data, whose permutation is another",
    ),
    within(
        "utilisation-theirs",
        "permutation, queues of 7 packets and pulls by payloads: mean payload rate / published",
        "9.249 in the published data",
        0.99,
        1.01,
        why="432 flows: the means of two permutations differ by less",
        kind=OURS,
    ),
    *(
        within(
            f"share-{name.lower().replace(' to ', '-')}",
            f"{name}: payload rate / published",
            f"{theirs:.2f} Gb/s",
            0.97,
            1.03,
            why="3 %: four equal shares of a link, and what they leave of another; the published four differ by 5 %",
        )
        for name, theirs in zip(FLOWS, SHARES)
    ),
    *(
        row
        for name, paper, mean, slowest, share, why in (
            ("penalty", "with the path penalty", 9.642, 9.216, 0.1, "10 % as without a failure: another permutation"),
            (
                "no-penalty",
                "without",
                9.171,
                4.139,
                0.25,
                "25 %: another permutation, and the fourteen that use the link range from 4.1 to 4.9 there",
            ),
        )
        for row in (
            within(
                f"failure-mean-{name}",
                f"permutation with a slow link, {paper}, window 23: mean payload rate, Gbit/s",
                f"{mean} in the published data",
                mean * 0.95,
                min(mean * 1.05, MOST),
                why="5 % as without a failure: queues have 8 packets, and 7 there; at most what headers leave",
            ),
            within(
                f"failure-slowest-{name}",
                f"permutation with a slow link, {paper}, window 23: slowest flow, Gbit/s",
                f"{slowest} in the published data",
                slowest * (1 - share),
                min(slowest * (1 + share), MOST),
                why=why,
            ),
        )
    ),
    within(
        "failure-hit",
        f"permutation with a slow link, without, window 15: flows of less than {HIT:g} Gbit/s",
        POORLY,
        12,
        16,
        why="flows to the 16 hosts of the pod, but for those from within, 2 on average: 12 to 16 in 97 % of permutations",
    ),
    within(
        "failure-hit-rate",
        "permutation with a slow link, without, window 15: mean payload rate of these flows, Gbit/s",
        POORLY,
        2,
        4,
        why="3 Gbit/s, to a third: it is a rounded number, of another permutation",
    ),
)


def specs(scale: str) -> dict[str, Spec]:
    """A spec for each incast, `SIZE-WINDOW-SENDERS`, for the permutation, also as they run it, and for the five flows."""
    made = {f"short-{DEFAULT}-{n}": _incast(ARITY["short"], SHORT, n, DEFAULT) for n in SENDERS[scale]}
    for window in WINDOWS:
        made |= {f"large-{window}-{n}": _incast(ARITY["large"][scale], LARGE, n, window) for n in MANY[scale]}
    arity = ARITY["permutation"][scale]
    order = np.random.default_rng(1).permutation(arity**3 // 4).tolist()
    made["permutation"] = _long(arity, list(zip(order, [*order[1:], order[0]])))
    made["as they run"] = {**made["permutation"], "scheme": {**made["permutation"]["scheme"], **AS_THEY_RUN}}
    made["shares"] = _long(ARITY["shares"], list(FLOWS.values()))
    return made | {name: _failure(scale, *chosen) for name, chosen in FAILURES.items()}


def _incast(arity: int, packets: int, senders: int, window: int) -> Spec:
    hosts = arity**3 // 4
    flows = [[hosts - 1 - k, 0, packets * MTU, "0s"] for k in range(senders)]
    return {**_network(arity, flows, window), "run": {"duration": NEVER}}


def _long(arity: int, pairs: list[tuple[int, int]], window: int = DEFAULT, end_ms: int | None = None) -> Spec:
    spec = _network(arity, [[src, dst, "1GB", "0s"] for src, dst in pairs], window)
    measured = {"flow_series": True, "sample": f"{LAST_MS}ms"}
    return {**spec, "run": {"duration": f"{(end_ms or END_MS) + 1}ms", "drain": False}, "measure": measured}


def _failure(scale: str, penalty: bool, window: int) -> Spec:
    arity = ARITY["failure"]
    order = np.random.default_rng(1).permutation(arity**3 // 4).tolist()
    spec = _long(arity, list(zip(order, [*order[1:], order[0]])), window, FAILURE_MS[scale][1])
    slow = {"time": "1ns", "a": "core0", "b": "agg0", "of": "core0", "rate": "1Gbps"}
    return {
        **spec,
        "topology": {**spec["topology"], "changes": [slow]},
        "scheme": {**spec["scheme"], "path_penalty": penalty},
        "host": {**spec["host"], "rto": FAILURE_RTO},
    }


def _network(arity: int, flows: list[Any], window: int) -> Spec:
    return {
        "topology": {"kind": "fat_tree", "k": arity, "rate": "10Gbps", "delay": f"{DELAY_US:g}us", "buffer": "0B"},
        "scheme": {"name": "ndp", "iw": window},
        "workload": [{"kind": "list", "flows": flows}],
        "host": {"mtu": MTU, "header": HEADER, "ack": HEADER, "rto": NEVER},
        "measure": {"sample": "0s"},
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """Ours and published, by panel and window, at our x: those of `published`."""
    parts = []
    for n in SENDERS[scale]:
        took = runs[f"short-{DEFAULT}-{n}"].flows["fct_ns"].to_numpy() / 1e3
        parts += [_row("first", DEFAULT, n, took.min()), _row("last", DEFAULT, n, took.max())]
    for window in WINDOWS:
        for n in MANY[scale]:
            run = runs[f"large-{window}-{n}"]
            bounces = run.ports["returns"].sum()
            parts.append(_row("large", window, n, run.flows["fct_ns"].to_numpy().max() / 1e3))
            parts.append(_row("bounces", window, n, bounces))
            parts.append(_row("nacks", window, n, run.summary["retransmissions"] - bounces))
    for label in ("permutation", "as they run"):
        rates = np.sort(_rates(runs, label))
        parts.append(_row(label, DEFAULT, np.linspace(0, 100, len(rates)), rates))
    parts.append(_row("shares", DEFAULT, np.arange(len(FLOWS)), _rates(runs, "shares")))
    for name, (_, window) in FAILURES.items():
        rates = np.sort(_rates(runs, name, *FAILURE_MS[scale]))
        parts.append(_row(name, window, np.linspace(0, 100, len(rates)), rates))
    for panel, window in {(part["panel"][0], part["window"][0]) for part in parts}:
        theirs = published("permutation" if panel == "as they run" else panel, window)
        parts.append(frames.rows(panel, THEIRS, theirs["x"], theirs["y"], window=window))
    return pl.concat(parts).sort("panel", "window", "series", "x")


def _row(panel: str, window: int, x: Any, y: Any) -> pl.DataFrame:
    return frames.rows(panel, OURS_HERE, np.atleast_1d(x), np.atleast_1d(np.asarray(y, float)), window=window)


def _rates(runs: Runs, label: str, since_ms: int | None = None, until_ms: int | None = None) -> np.ndarray:
    """Gbit/s of payload acknowledged of each flow, between LAST_MS and END_MS unless told."""
    since, until = since_ms or LAST_MS, until_ms or END_MS
    samples = runs[label].frame("flow_series").filter(pl.col("time_ns").is_in([since * 1e6, until * 1e6]))
    acked = samples.sort("time_ns").group_by("flow_id", maintain_order=True).agg(pl.col("acked_bytes"))
    return np.array([8 * (after - before) / ((until - since) * 1e6) for before, after in acked.sort("flow_id")["acked_bytes"]])


def overhead(panel: str, senders: Any, last_us: Any) -> Any:
    """How much later than the best possible the last flow ends, percent (section 6.2): a saturated link after an idle path."""
    best = senders * (SHORT if panel == "last" else LARGE) * PACKET_US + PATH_US
    return 100 * (last_us / best - 1)


def _pairs(data: pl.DataFrame, panel: str, window: int = DEFAULT) -> list[tuple[int, float, float]]:
    """(x, ours, published) where there are both."""
    ours, theirs = (frames.chosen(data, panel=panel, series=series, window=window) for series in (OURS_HERE, THEIRS))
    both = ours.join(theirs, on="x", suffix="_theirs").sort("x")
    return [(int(x), y, other) for x, y, other in both.select("x", "y", "y_theirs").iter_rows()]


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """What has no random part to the nanosecond; the rest in a band around each published number; the paper's sentences."""
    return {**_short(data, scale), **_large(data, scale), **_sent_again(data, scale), **_long_flows(data), **_slow_link(data)}


def _ours(data: pl.DataFrame, panel: str, n: int, window: int = DEFAULT) -> float:
    return frames.value(data, panel=panel, series=OURS_HERE, window=window, x=n)


def _short(data: pl.DataFrame, scale: str) -> Numbers:
    """Figure 16."""
    last, first = (_pairs(data, panel) for panel in ("last", "first"))
    return {
        "exact-short-1": _ours(data, "last", 1),
        **{f"last-{n}": _ours(data, "last", n) / LAST[n] for n in FEW_OF[scale]},
        "optimal": np.mean([overhead("last", n, ours) for n, ours, _ in last]),
        "fair": max(slowest / fastest for (_, slowest, _), (_, fastest, _) in zip(last, first)),
    }


def _large(data: pl.DataFrame, scale: str) -> Numbers:
    """Figure 20a."""
    found: Numbers = {"worst": max(overhead("large", n, ours) for n, ours, _ in _pairs(data, "large"))}
    for window, published in LAST_LARGE.items():
        found |= {f"exact-w{window}-{n}": _ours(data, "large", n, window) for n in ALONE[window]}
        found |= {f"large-{window}-{n}": _ours(data, "large", n, window) / published[n] for n in MANY_OF[scale]}
    return found


def _sent_again(data: pl.DataFrame, scale: str) -> Numbers:
    """Figure 20b."""
    bounces, nacks = ({n: ours for n, ours, _ in _pairs(data, panel)} for panel in ("bounces", "nacks"))
    few, many = [n for n in bounces if 1 < n < 100], [n for n in bounces if n > 100]
    return {
        **{
            f"again-{window}-{n}": (_ours(data, "bounces", n, window) + _ours(data, "nacks", n, window))
            / (BOUNCES[window][n] + NACKS[window][n])
            for window in WINDOWS[1:]
            for n in AGAIN_OF[scale]
        },
        "mechanism": (
            all(nacks[n] > bounces[n] for n in few) and all(bounces[n] > nacks[n] for n in many),
            ", ".join(f"{n}: {bounces[n]:.0f} and {nacks[n]:.0f}" for n in (*few, *many)),
        ),
        "again-most": max((bounces[n] + nacks[n]) / (n * LARGE) for n in bounces),
    }


def _long_flows(data: pl.DataFrame) -> Numbers:
    """Figures 14 and 21."""
    ours, theirs = (frames.chosen(data, panel=panel, series=OURS_HERE)["y"] for panel in ("permutation", "as they run"))
    shares = zip(FLOWS, _pairs(data, "shares"))
    return {
        "utilisation": ours.mean(),
        "slowest": ours.min(),
        "utilisation-theirs": float(theirs.to_numpy().mean()) / 9.249,
        **{f"share-{name.lower().replace(' to ', '-')}": rate / published for name, (_, rate, published) in shares},
    }


def _slow_link(data: pl.DataFrame) -> Numbers:
    """Figure 22."""
    rates = {
        name: frames.chosen(data, panel=name, series=OURS_HERE, window=window)["y"].to_numpy()
        for name, (_, window) in FAILURES.items()
    }
    hit = rates["no penalty, 15"][rates["no penalty, 15"] < HIT]
    return {
        **{f"failure-mean-{name.replace(' ', '-')}": rates[name].mean() for name in ("penalty", "no penalty")},
        **{f"failure-slowest-{name.replace(' ', '-')}": rates[name].min() for name in ("penalty", "no penalty")},
        "failure-hit": len(hit),
        "failure-hit-rate": hit.mean() if len(hit) else float("nan"),
    }


def plot(data: pl.DataFrame) -> Any:
    """Figures 16, 20a, 20b above, the spread of figure 16, 14, 21, 22 below; lines are ours, dashes or rings are published."""
    made, grid = figure(3, 3, width=PAGE, height=6.4)
    for panel in ("first", "last"):
        _draw(grid[0, 0], data, panel, DEFAULT, ORANGE, change=lambda _, y: y / 1e3)
    grid[0, 0].set(ylabel="First and last\ncompletion (ms)", xlabel="Senders of 450 KB")
    for window, colour in LOOKS.items():
        _draw(grid[0, 1], data, "large", window, colour, change=lambda x, y: overhead("large", x, y), label=f"window {window}")
        for panel, marker in (("nacks", "s"), ("bounces", "^")):
            if window > 1:
                _draw(grid[0, 2], data, panel, window, colour, change=lambda x, y: y / (x * LARGE), marker=marker)
    grid[0, 1].set(ylabel="Above the optimum (%)", xlabel="Senders of 270 KB", ylim=(-0.5, 5))
    grid[0, 2].set(ylabel="Sent again\n(per packet)", xlabel="Senders of 270 KB")
    for mark, what in (("s", "NACKs"), ("^", "bounces")):
        grid[0, 2].plot([], [], mark, color="0.35", markersize=3, label=what)
    grid[0, 2].legend(loc="upper left", handlelength=1, borderpad=0)
    for axes in grid[0, 1:]:
        log_axis(axes.xaxis)
    for series, dashes in ((OURS_HERE, "-"), (THEIRS, DASHES[2])):
        first, last = (frames.chosen(data, panel=panel, series=series)["y"].to_numpy() for panel in ("first", "last"))
        x = frames.chosen(data, panel="last", series=series)["x"]
        grid[1, 0].plot(x, last / first, color=ORANGE, linestyle=dashes)
    grid[1, 0].set(ylabel="Slowest / fastest flow", xlabel="Senders of 450 KB", ylim=(1, None))
    _draw(grid[1, 1], data, "permutation", DEFAULT, ORANGE)
    _draw(grid[1, 1], data, "as they run", DEFAULT, BLUE)
    grid[1, 1].text(5, 8.1, "queues of 7,\npulls by payloads", color=BLUE, size=7)
    grid[1, 1].set(ylabel="Payload rate (Gbit/s)", xlabel="Flows of the permutation (%)", ylim=(8, 10.05))
    for place, series in ((-0.2, OURS_HERE), (0.2, THEIRS)):
        shares = frames.chosen(data, panel="shares", series=series)
        looks = {"color": ORANGE} if series == OURS_HERE else {"color": "white", "edgecolor": ORANGE, "hatch": "////"}
        grid[1, 2].bar(shares["x"] + place, shares["y"], 0.4, lw=0.6, **looks)
    grid[1, 2].set_xticks(range(len(FLOWS)), [name.replace(" to ", "→") for name in FLOWS])
    grid[1, 2].set(ylabel="Payload rate (Gbit/s)")
    for name, colour in (("penalty", ORANGE), ("no penalty", BLUE)):
        _draw(grid[2, 0], data, name, DEFAULT, colour)
    _draw(grid[2, 0], data, "no penalty, 15", FAILURES["no penalty, 15"][1], BLACK)
    for y, text, colour in ((7, "with", ORANGE), (6, "without path penalty", BLUE), (5, "without, window 15", BLACK)):
        grid[2, 0].text(20, y, text, color=colour, size=7)
    grid[2, 0].set(ylabel="Payload rate (Gbit/s)", xlabel="Flows (%), a slow link", ylim=(0, 10.05))
    for axes in grid[2, 1:]:
        axes.remove()
    grid[0, 1].plot([], [], color="0.35", linestyle=DASHES[2], label=THEIRS)
    lettered(
        grid.flat[:7], ["figure 16", "figure 20a", "figure 20b", "figure 16, fairness", "figure 14", "figure 21", "figure 22"]
    )
    legend_above(made, grid[0, 1], columns=4)
    return made


def _draw(
    axes: Any,
    data: pl.DataFrame,
    panel: str,
    window: int,
    colour: str,
    *,
    change: Any = lambda _, y: y,
    label: str | None = None,
    marker: str = "",
) -> None:
    for series, dashes in ((OURS_HERE, "-"), (THEIRS, DASHES[2])):
        part = frames.chosen(data, panel=panel, series=series, window=window)
        x, y = part["x"].to_numpy(), part["y"].to_numpy()
        shown = {"marker": marker, "markersize": 3} if marker else {}
        axes.plot(x, change(x, y), color=colour, linestyle=dashes, label=label, **shown)
        label = None
