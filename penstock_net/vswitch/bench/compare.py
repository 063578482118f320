"""The switch beside a veth pair, a bridge and Open vSwitch's userspace datapath: `python -m penstock_net.vswitch.bench compare`.

Every round measures each row over every network in turn, so that all of them see the same machine. TCP and the flood of small
datagrams are iperf3's, a stream each; latency is that of requests of 64 B, 2000 a second. CPU time is that of the whole machine,
so run nothing else meanwhile. Networks that do not work on this machine are left out, with the reason.
"""

import itertools
import json
import os
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock_net.errors import PenstockError
from penstock_net.vswitch.bench.bench import queues
from penstock_net.vswitch.bench.networks import NETWORKS, TRAFFIC, Network, echo, need_root, wait_for
from penstock_net.vswitch.bench.noise import processor_times
from penstock_net.vswitch.bench.record import Record, about

WAYS = ("switch", "veth", "bridge", "ovs")
NAMES = {"switch": "the switch", "veth": "veth pair", "bridge": "Linux bridge", "ovs": "Open vSwitch, userspace"}
MANY = 16384, 8  # transmit queues: doorbells with many beside few
Row = dict[str, Any]
Values = dict[str, float]


def iperf3(network: Network, *words: str) -> dict[str, Any]:
    """Run iperf3 from left to right; returns the summary at the end of its report."""
    server = network["right"].start("iperf3", "-s", "-1", "--forceflush")
    wait_for(server, "listening")
    text = network["left"].run("iperf3", "-c", network.address("right"), "-J", *words, timeout=120)
    server.wait(30)
    found: dict[str, Any] = json.loads(text)["end"]
    return found


def busy() -> float:
    """CPU time of all programs and of the kernel so far, s."""
    return processor_times(Path("/proc/stat").read_text(), sorted(os.sched_getaffinity(0)))[0]


def tcp(network: Network, seconds: float) -> Values:
    """Gbit/s of a TCP stream, and CPU seconds of the machine per Gbit."""
    before = busy()
    received = iperf3(network, "-t", f"{seconds:g}")["sum_received"]
    return {
        "TCP, Gbit/s": received["bits_per_second"] / 1e9,
        "CPU per Gbit, ms": 1e3 * (busy() - before) / (8e-9 * received["bytes"]),
    }


def small(network: Network, seconds: float) -> Values:
    """Datagrams of 18 B (frames of 64 B) received from a sender at full speed, Mpps."""
    found = iperf3(network, "-u", "-b", "0", "-l", "18", "-t", f"{seconds:g}")["sum"]
    return {"UDP 64 B received, Mpps": (found["packets"] - found["lost_packets"]) / found["seconds"] / 1e6}


def latency(network: Network, seconds: float) -> Values:
    """Median and p99 of round trips, us, by UDP and by TCP."""
    peer, found = echo(network), Values()
    for name, words in (("UDP", ()), ("TCP", ("--tcp",))):
        program = network["left"].start(*TRAFFIC, "probe", peer, "--seconds", f"{seconds:g}", *words)
        wait_for(program, "ready")
        took = json.loads(wait_for(program, "{"))
        found |= {f"latency p50, {name}, us": took["p50"], f"latency p99, {name}, us": took["p99"]}
    return found


def idle(network: Network, seconds: float) -> Values:
    """CPU time of the switching process while nothing is sent, per cent of a processor."""
    time.sleep(1)
    before, start = cpu_of(network.pid), time.monotonic()
    time.sleep(seconds)
    share = (cpu_of(network.pid) - before) / (time.monotonic() - start)
    return {f"idle, {len(network.spaces)} TAPs, % of a core": 100 * share}


def cpu_of(pid: int) -> float:
    """CPU time of a process's threads, s: by the scheduler's clock, as idle threads run for less than a tick."""
    return sum(int(task.read_text().split()[0]) for task in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


# row -> what it measures, its number of namespaces, the networks that have one
ROWS: dict[str, tuple[Callable[[Network, float], Values], int, tuple[str, ...]]] = {
    "tcp": (tcp, 2, WAYS),
    "small": (small, 2, WAYS),
    "latency": (latency, 2, WAYS),
    "idle 2": (idle, 2, ("switch", "ovs")),
    "idle 10": (idle, 10, ("switch", "ovs")),
    "doorbells": (lambda network, seconds: {}, 0, ("switch",)),
}
# value -> the network that the goal is about, whether more is better, the goal as a ratio; idle: per cent
GOALS: dict[str, tuple[str, bool, float]] = {
    "TCP, Gbit/s": ("veth", True, 0.65),
    "UDP 64 B received, Mpps": ("bridge", True, 0.5),
    "latency p99, UDP, us": ("bridge", False, 3),
    "latency p99, TCP, us": ("bridge", False, 3),
}
DOORBELLS, DOORBELLS_GOAL = f"doorbells, {MANY[0]} queues over {MANY[1]}", 0.7
IDLE, IDLE_GOAL = "idle, 10 TAPs, % of a core", 1.0


def measure(way: str, row: str, seconds: float) -> Values:
    """One run of a row over a network."""
    function, count, _ = ROWS[row]
    if row == "doorbells":
        many, few = (queues(number)["doorbell"] for number in MANY)
        return {DOORBELLS: many / few}
    names = ["left", "right", *(f"n{i}" for i in range(3, count + 1))]
    with NETWORKS[way](names) as network:
        return function(network, seconds)


def run(record: Record, runs: int, rows: list[str], say: Callable[[str], None]) -> None:
    """Make all runs that the record does not have yet.  After a KeyboardInterrupt the record has the complete ones."""
    need_root()
    if not shutil.which("iperf3"):
        raise PenstockError("iperf3 is not installed; throughput is measured with it")
    skipped: dict[str, str] = {}
    for number, row, way in itertools.product(range(runs), rows, WAYS):
        if way not in ROWS[row][2] or way in skipped or record.has(run=number, row=row, way=way):
            continue
        try:
            found = measure(way, row, record.settings["seconds"])
        except PenstockError as error:
            if way != "ovs":
                raise
            skipped[way] = str(error)
            say(f"{NAMES[way]} is left out: {error}")
            continue
        record.add({"run": number, "row": row, "way": way, "values": found})
        say(f"{number + 1:3} of {runs}  {way:6}  " + "  ".join(f"{name} {value:.4g}" for name, value in found.items()))


# ---- Results ----


def medians(rows: list[Row], way: str) -> Values:
    """Medians of every value over one network."""
    found: dict[str, list[float]] = {}
    for row in rows:
        if row["way"] == way:
            for name, value in row["values"].items():
                found.setdefault(name, []).append(value)
    return {name: statistics.median(values) for name, values in found.items()}


def ratios(rows: list[Row], way: str) -> Values:
    """Ratio of every value of the switch to that of another network in the same round: median over the rounds."""
    found: dict[str, list[float]] = {}
    for row in rows:
        if row["way"] != "switch":
            continue
        for other in rows:
            if other["way"] == way and (other["run"], other["row"]) == (row["run"], row["row"]):
                for name, value in row["values"].items():
                    if other["values"].get(name):
                        found.setdefault(name, []).append(value / other["values"][name])
    return {name: statistics.median(values) for name, values in found.items()}


def verdict(name: str, mine: Values, beside: dict[str, Values]) -> str:
    """The goal of a row, and whether it is reached; empty without a goal, or if the other network was not measured."""
    if name in GOALS:
        way, more, limit = GOALS[name]
        if (found := beside[way].get(name)) is None:
            return ""
        text, fine = (
            f"{'at least' if more else 'at most'} {limit:g} of the {NAMES[way]}",
            found >= limit if more else found <= limit,
        )
    elif name == DOORBELLS:
        text, fine = f"at least {DOORBELLS_GOAL:g}", mine[name] >= DOORBELLS_GOAL
    elif name == IDLE:
        text, fine = f"under {IDLE_GOAL:g}", mine[name] < IDLE_GOAL
    else:
        return ""
    return f"{text}: {'reached' if fine else 'not reached'}"


def table(rows: list[Row]) -> str:
    """The results in Markdown: the switch's values, ratios to the others', goals."""
    mine, beside = medians(rows, "switch"), {way: ratios(rows, way) for way in WAYS[1:]}
    lines = [f"| | {NAMES['switch']} | {' | '.join(f'over {NAMES[way]}' for way in WAYS[1:])} | goal |", "|---" * 6 + "|"]
    for name in mine:
        cells = [f"{beside[way][name]:.2f}" if name in beside[way] else "-" for way in WAYS[1:]]
        lines.append(f"| {name} | {mine[name]:.3g} | {' | '.join(cells)} | {verdict(name, mine, beside)} |")
    rounds = 1 + max(row["run"] for row in rows)
    lines += ["", f"Medians of {rounds} rounds; a ratio is of two values of one round, penstock's to the other's. {about(rows)}"]
    return "\n".join(lines)


def picture(rows: list[Row], path: Path) -> None:
    """The ratios of every round as dots, and the goals as lines."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.ticker import LogLocator, NullFormatter

    from penstock_net.palette import BLUE, GREEN, ORANGE, PAGE, RC
    from penstock_net.printing import Figure

    names = [name for name in medians(rows, "switch") if any(name in ratios(rows, way) for way in WAYS[1:])]
    with matplotlib.rc_context(RC):
        made = Figure(figsize=(PAGE, 3.2), layout="constrained")
        FigureCanvasAgg(made)
        axes = made.subplots()
        for side, (way, colour) in enumerate(zip(WAYS[1:], (BLUE, ORANGE, GREEN))):
            dots = [
                (found[name], len(names) - at + 0.22 - 0.22 * side)
                for number in sorted({row["run"] for row in rows})
                for found in [ratios([row for row in rows if row["run"] == number], way)]
                for at, name in enumerate(names)
                if name in found
            ]
            if dots:
                axes.plot(
                    *zip(*dots), "o", color=colour, markersize=3.5, alpha=0.7, markeredgewidth=0, label=f"over {NAMES[way]}"
                )
            for at, name in enumerate(names):
                if name in GOALS and GOALS[name][0] == way:
                    y = len(names) - at + 0.22 - 0.22 * side
                    axes.plot([GOALS[name][2]] * 2, [y - 0.12, y + 0.12], color=colour, linewidth=1.4)
        axes.axvline(1, color="#888888", linewidth=0.8)
        axes.set(
            xscale="log", xlabel="the switch / the other; a bar is a goal", yticks=range(len(names), 0, -1), yticklabels=names
        )
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.grid(axis="y", visible=False)
        made.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)
        path.parent.mkdir(parents=True, exist_ok=True)
        made.savefig(path, dpi=160)
