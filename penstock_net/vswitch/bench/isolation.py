"""Latency of a flow beside disturbances by others, over the switch and over a bridge: see `bench isolation`.

The victim sends 2000 requests of 64 B a second by UDP from namespace `left` to `right`, and records the time until each answer.
The disturbances in `DISTURBANCES` run beside it, between the same two namespaces where possible, so that they share both ports
with it. Every run creates its network anew; the networks take turns. A request without an answer counts with its age.

The load generators run on the same processors as the switch. "load elsewhere" shows what that alone costs the victim: the same
load passes a separate bridge between separate namespaces, while the victim's requests pass the switch.
"""

import contextlib
import itertools
import json
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from penstock_net.errors import PenstockError
from penstock_net.vswitch.attach.lab import DutyCycle
from penstock_net.vswitch.bench.networks import NETWORKS, TRAFFIC, Network, echo, need_root, stopped, wait_for
from penstock_net.vswitch.bench.record import Record, about

RATE = 2000  # requests a second
WARM_S = 0.7  # of a disturbance, before the victim's requests count
STOP_S, AFTER_S = 2.0, 0.5  # the switch is stopped so long; requests count from so long after it
TIMES = 3  # a run is good if its p99 is at most so many times the median of the p99s of the unloaded runs
GOAL = 29, 30  # so many runs of so many
ELSEWHERE = "load elsewhere"
WAYS = ("switch", ELSEWHERE, "bridge")
NAMES = {"switch": "penstock, TAPs", ELSEWHERE: "penstock, and the load over a bridge", "bridge": "Linux bridge, veth pairs"}
SENDERS = [f"sender{i}" for i in range(1, 10)]
Row = dict[str, Any]


@contextlib.contextmanager
def nothing(network: Network) -> Iterator[None]:
    """No disturbance: the victim alone."""
    yield


@contextlib.contextmanager
def slow_receiver(network: Network) -> Iterator[None]:
    """iperf3 sends 400 Mbit/s of UDP to a receiver that runs one millisecond in ten."""
    server = network["right"].start("iperf3", "-s", "-p", "5201", "--forceflush")
    wait_for(server, "listening")
    with DutyCycle(server.pid, 0.001, 0.009):
        target = network.address("right")
        network["left"].start("iperf3", "-u", "-c", target, "-p", "5201", "-b", "400M", "-l", "1000", "-t", "60")
        yield


@contextlib.contextmanager
def load(network: Network, rate: float, ports: int, *words: object, sink: tuple[str, ...] = ()) -> Iterator[None]:
    """Datagrams from left to right, `rate` a second."""
    network.traffic("right", "sink", 7000, "--ports", ports, *sink)
    network.traffic("left", "flows", f"{network.address('right')}:7000", "--rate", rate, "--ports", ports, *words)
    yield


def unread_socket(network: Network) -> contextlib.AbstractContextManager[None]:
    """8000 datagrams of 1000 B a second go to a socket that is never read."""
    return load(network, 8000, 1, "--size", 1000, sink=("--unread",))


@contextlib.contextmanager
def incast(network: Network) -> Iterator[None]:
    """Nine other namespaces send 100 Mbit/s each to the victim's server's."""
    network.traffic("right", "sink", 7000, "--ports", len(SENDERS))
    target = network.address("right")
    words = "--rate", "12500", "--size", "1000"
    for program in [network[name].start(*TRAFFIC, "flows", f"{target}:{7000 + i}", *words) for i, name in enumerate(SENDERS)]:
        wait_for(program, "ready")
    yield


def new_flows(network: Network) -> contextlib.AbstractContextManager[None]:
    """10 000 datagrams a second, each of a flow that has been idle for two seconds."""
    return load(network, 10_000, 40, "--sockets", 500)


def many_flows(network: Network) -> contextlib.AbstractContextManager[None]:
    """4000 flows that send a datagram every 80 ms each, which is less than `idle`."""
    return load(network, 50_000, 20, "--sockets", 200)


DISTURBANCES: dict[str, Callable[[Network], contextlib.AbstractContextManager[None]]] = {
    "nothing": nothing,
    "a slow receiver": slow_receiver,
    "an unread socket": unread_socket,
    "an incast of 9": incast,
    "10 000 new flows/s": new_flows,
    "4 000 flows": many_flows,
    "a stop of the switch": nothing,
}
STOP = "a stop of the switch"
ROWS = tuple(DISTURBANCES)


def measure(way: str, beside: str, seconds: float) -> Row:
    """One run: the victim's percentiles (us), packets that arrived per second, frames lost."""
    names = ["left", "right", *(SENDERS if beside == "an incast of 9" else [])]
    with contextlib.ExitStack() as stack:
        if way == ELSEWHERE:
            network, loaded = (stack.enter_context(NETWORKS[each](names)) for each in ("switch", "bridge"))
        else:
            network = loaded = stack.enter_context(NETWORKS[way](names))
        peer = echo(network)
        with DISTURBANCES[beside](loaded):
            time.sleep(WARM_S)
            skip = WARM_S + STOP_S + AFTER_S if beside == STOP else 0.0
            start, before = time.monotonic(), network.received("right")
            program = network["left"].start(
                *TRAFFIC, "probe", peer, "--rate", str(RATE), "--seconds", str(seconds), "--skip", str(skip)
            )
            wait_for(program, "ready")
            if beside == STOP:
                stop_for(network.pid, start)
            found: Row = json.loads(wait_for(program, "{"))
            took = time.monotonic() - start
            found["received_per_s"] = round((network.received("right") - before) / took)
        return found | {"lost_by_the_switch": network.lost()}


def stop_for(pid: int, start: float) -> None:
    """Stop the switch WARM_S after the start.  PenstockError: it was stopped for longer than intended."""
    time.sleep(WARM_S)
    with stopped(pid):
        time.sleep(STOP_S)
    if time.monotonic() - start > WARM_S + STOP_S + AFTER_S - 0.1:
        raise PenstockError("the switch was stopped for too long, since this program had no processor; the run does not count")


def run(record: Record, runs: int, beside: list[str], say: Callable[[str], None]) -> None:
    """Make all runs that the record does not have yet.  After a KeyboardInterrupt the record has the complete ones."""
    need_root()
    if not shutil.which("iperf3"):
        raise PenstockError("iperf3 is not installed; the slow receiver is one")
    for number, what, way in itertools.product(range(runs), beside, WAYS):
        if record.has(run=number, beside=what, way=way) or way not in ways(what):
            continue
        found = measure(way, what, record.settings["seconds"])
        record.add({"run": number, "beside": what, "way": way, **found})
        say(f"{number + 1:3} of {runs}  {way:14}  {what:20} median {found['p50']:8.1f} us  p99 {found['p99']:9.1f} us")


def ways(beside: str) -> tuple[str, ...]:
    """The networks of a row: a bridge cannot be stopped, and "nothing" has no load that could run elsewhere."""
    return {STOP: ("switch",), "nothing": ("switch", "bridge")}.get(beside, WAYS)


# ---- Results ----


def chosen(rows: list[Row], beside: str, way: str) -> list[Row]:
    """The runs of one row and column of the table."""
    return [row for row in rows if row["beside"] == beside and row["way"] == way]


def tail(rows: list[Row], beside: str, way: str) -> float:
    """Median of the p99s of the runs of a row and column, us."""
    found = chosen(rows, beside, way)
    return statistics.median(row["p99"] for row in found) if found else float("nan")


def good(rows: list[Row], beside: str, way: str, limit: float) -> int:
    """Number of runs whose p99 is at most TIMES the limit."""
    return sum(row["p99"] <= TIMES * limit for row in chosen(rows, beside, way))


def microseconds(value: float) -> str:
    """Microseconds with three significant digits."""
    return f"{value:,.0f}" if value >= 99.5 else f"{value:.1f}"


def cells(rows: list[Row], beside: str, way: str) -> list[str]:
    """Median of the medians and of the p99s with the highest of each, lost requests, good runs; dashes without a run."""
    mine = chosen(rows, beside, way)
    if not mine:
        return ["-"] * 4
    pairs = [(statistics.median(row[p] for row in mine), max(row[p] for row in mine)) for p in ("p50", "p99")]
    requests, lost = (sum(row[key] for row in mine) for key in ("requests", "lost"))
    return [
        *(f"{microseconds(middle)} ({microseconds(most)})" for middle, most in pairs),
        f"{lost:,} of {requests:,}" if lost else "0",
        f"{good(rows, beside, way, tail(rows, 'nothing', 'switch' if way == ELSEWHERE else way))} of {len(mine)}",
    ]


def table(rows: list[Row]) -> str:
    """The results in Markdown, a line for every disturbance and network."""
    heads = ["beside", "over", "median, us", "p99, us", "lost", f"within {TIMES} times"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for beside in (beside for beside in ROWS if any(row["beside"] == beside for row in rows)):
        lines += [f"| {beside} | {way} | {' | '.join(cells(rows, beside, way))} |" for way in ways(beside)]
    networks = "; ".join(f"{way}: {NAMES[way]}" for way in WAYS)
    lines += ["", f"{networks}. Median of the runs, and the highest in brackets. {about(rows)}", "", *verdicts(rows)]
    return "\n".join(lines)


def verdicts(rows: list[Row]) -> Iterator[str]:
    """A line per disturbance: whether enough runs are good, and the same for the load elsewhere."""
    for beside in ROWS:
        count = len(chosen(rows, beside, "switch"))
        if beside != "nothing" and count:
            fine = good(rows, beside, "switch", tail(rows, "nothing", "switch"))
            word = f"goal {GOAL[0]} of {GOAL[1]}: {'reached' if fine * GOAL[1] >= GOAL[0] * count else 'not reached'}"
            line = f"* beside {beside}: p99 within {TIMES} times the unloaded one in {fine} of {count} runs ({word})"
            if chosen(rows, beside, ELSEWHERE):
                fine = good(rows, beside, "switch", tail(rows, beside, ELSEWHERE))
                line += f"; within {TIMES} times that with the load elsewhere in {fine}"
            yield line


def picture(rows: list[Row], path: Path) -> None:
    """Every run as a dot: median and p99 of the victim over every network."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.ticker import LogLocator, NullFormatter

    from penstock_net.palette import BLUE, GREEN, ORANGE, PAGE, RC
    from penstock_net.printing import Figure

    shown = [beside for beside in ROWS if any(row["beside"] == beside for row in rows)]
    with matplotlib.rc_context(RC):
        made = Figure(figsize=(PAGE, 4.2), layout="constrained")
        FigureCanvasAgg(made)
        axes = made.subplots(1, 2, sharey=True)
        for panel, (p, title) in zip(axes, (("p50", "Median"), ("p99", "99th percentile"))):
            for side, (way, colour) in enumerate(zip(WAYS, (BLUE, GREEN, ORANGE))):
                for at, beside in enumerate(shown):
                    values = [row[p] / 1e3 for row in chosen(rows, beside, way)]
                    spread = [len(shown) - at + 0.26 - 0.26 * side + 0.1 * ((i * 0.618) % 1 - 0.5) for i in range(len(values))]
                    label = NAMES[way] if values and NAMES[way] not in panel.get_legend_handles_labels()[1] else None
                    panel.plot(values, spread, "o", color=colour, markersize=2.6, alpha=0.6, markeredgewidth=0, label=label)
                if p == "p99" and chosen(rows, "nothing", way):
                    panel.axvline(TIMES * tail(rows, "nothing", way) / 1e3, color=colour, linewidth=0.8, linestyle=(0, (4, 2)))
            panel.set(xscale="log", xlabel="Round trip (ms)", title=title)
            panel.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if p == "p50" else (1,)))
            panel.xaxis.set_major_formatter("{x:g}")
            panel.xaxis.set_minor_formatter(NullFormatter())
            panel.grid(axis="y", visible=False)
        axes[0].set_yticks(range(len(shown), 0, -1), shown)
        made.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        path.parent.mkdir(parents=True, exist_ok=True)
        made.savefig(path, dpi=160)
