"""Live statistics of a running switch.

A table of its ports and longest queues while it runs, and a plot at the end:

    history = watch(path, interval=0.2, seconds=10)
    draw(history).savefig("switch.png")
"""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import SpecError
from penstock.palette import BLUE, DASHES, GREEN, ORANGE, OTHERS, PAGE, PURPLE, RC, RED, SKY
from penstock.vswitch.daemon import places, protocol

SHOWN = 8  # flows in a table or picture: those with the longest queues
MOST = 64  # flows in a request
COLOURS = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY, *OTHERS)


@dataclass
class Sample:
    """Ports and flows at one moment, by name."""

    at: float
    ports: dict[str, dict[str, Any]]
    flows: dict[str, dict[str, Any]]


@dataclass
class History:
    """Samples in order; the first is at time 0."""

    samples: list[Sample] = field(default_factory=list)

    def rates(self, port: str, column: str) -> tuple[list[float], list[float]]:
        """Times (s) and the increase per second of a port's counter since the previous sample."""
        times, rates = [], []
        for before, now in zip(self.samples, self.samples[1:]):
            if port in before.ports and port in now.ports:
                times.append(now.at)
                rates.append((now.ports[port][column] - before.ports[port][column]) / (now.at - before.at))
        return times, rates

    def largest_flows(self) -> list[str]:
        """The flows with the most bytes, largest first, without those below 1 % of the largest."""
        most: dict[str, int] = {}
        for sample in self.samples:
            for name, row in sample.flows.items():
                most[name] = max(most.get(name, 0), row["bytes"])
        names = sorted(most, key=lambda name: (-most[name], name))[:SHOWN]
        return [name for name in names if most[name] * 100 >= most[names[0]]]

    def taken(self, flow: str) -> tuple[list[float], list[float]]:
        """Times (s) and the rate at which the receiver of a flow took data since the previous sample (Mbit/s)."""
        times, rates = [], []
        seen = [(s.at, s.flows[flow]["bytes"] - s.flows[flow]["waiting_bytes"]) for s in self.samples if flow in s.flows]
        for (before, old), (now, new) in itertools.pairwise(seen):
            times.append(now)
            rates.append(max(0.0, 8e-6 * (new - old) / (now - before)))  # its counters may have restarted
        return times, rates

    def losses(self) -> tuple[int, int]:
        """Frames dropped by the switch, and lost by the kernel at its devices, as of the last sample."""
        rows = self.samples[-1].ports.values()
        return sum(sum(row["drops"].values()) for row in rows), sum(row["device"].get("kernel_lost") or 0 for row in rows)


def name_of(row: dict[str, Any]) -> str:
    return f"{row['source']}:{row['source_port']} to {row['target']}:{row['target_port']}"


def look(path: str, began: float, allow_uid: int | None = None) -> Sample:
    """Take a sample of the switch."""
    at = time.monotonic() - began
    ports = protocol.ask(path, {"show": "ports"}, allow_uid=allow_uid)["ports"]
    flows = protocol.ask(path, {"show": "flows", "most": MOST}, allow_uid=allow_uid)["flows"]
    return Sample(at, {row["port"]: row for row in ports}, {name_of(row): row for row in flows})


def watch(
    path: str | None = None,
    interval: float = 1.0,
    seconds: float | None = None,
    tell: Callable[[History], None] | None = None,
    allow_uid: int | None = None,
) -> History:
    """Sample a switch every `interval` s for `seconds`, until Ctrl-C or until it stops; `tell` is called after each sample."""
    path, began = path or places.default_socket(), time.monotonic()
    history = History([look(path, began, allow_uid)])
    try:
        while seconds is None or time.monotonic() - began < seconds:
            time.sleep(interval)
            try:
                history.samples.append(look(path, began, allow_uid))
            except SpecError:
                break  # it has gone down
            if tell:
                tell(history)
    except KeyboardInterrupt:
        pass
    return history


def table(history: History) -> Any:
    """Tables of the ports' rates since the previous sample and of the flows with the longest queues."""
    from rich.console import Group
    from rich.table import Table

    now = history.samples[-1]
    of_ports = Table(box=None)
    for head in ("port", "frames/s in", "Mbit/s in", "frames/s out", "Mbit/s out", "pauses/s", "drops", "flows"):
        of_ports.add_column(head, justify="left" if head == "port" else "right")
    for name, row in sorted(now.ports.items()):
        last = {
            c: (history.rates(name, c)[1] or [0.0])[-1]
            for c in ("received_frames", "received_bytes", "sent_frames", "sent_bytes", "pauses")
        }
        drops = ", ".join(f"{reason} {count:,}" for reason, count in row["drops"].items()) or "0"
        of_ports.add_row(
            name,
            f"{last['received_frames']:,.0f}",
            f"{8e-6 * last['received_bytes']:,.1f}",
            f"{last['sent_frames']:,.0f}",
            f"{8e-6 * last['sent_bytes']:,.1f}",
            f"{last['pauses']:,.1f}",
            drops,
            str(row["flows"]),
        )
    of_flows = Table(box=None)
    for head in ("flow", "waiting B", "longest B", "Mbit/s taken", "pauses", "dropped"):
        of_flows.add_column(head, justify="left" if head == "flow" else "right")
    for name in sorted(now.flows, key=lambda n: (-now.flows[n]["waiting_bytes"], n))[:SHOWN]:
        row = now.flows[name]
        of_flows.add_row(
            name,
            f"{row['waiting_bytes']:,}",
            f"{row['longest_bytes']:,}",
            f"{8e-6 * row['rate_bytes_per_s']:,.1f}",
            f"{row['pauses']:,}",
            f"{row['dropped']:,}",
        )
    return Group(of_ports, "", of_flows)


def draw(history: History) -> Any:
    """A matplotlib Figure: rates and queue lengths of the largest flows over time; losses in its title."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(RC):
        made = Figure(figsize=(PAGE, 4.4), layout="constrained")
        FigureCanvasAgg(made)
        above, below = made.subplots(2, 1, sharex=True)
        for i, name in enumerate(history.largest_flows()):
            look = {"color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[i // len(COLOURS) % len(DASHES)]}
            above.plot(*history.taken(name), label=name, **look)
            below.plot(*zip(*[(s.at, s.flows[name]["waiting_bytes"] / 1000) for s in history.samples if name in s.flows]), **look)
        dropped, lost = history.losses()
        above.set(
            ylabel="Taken (Mbit/s)",
            ylim=(0, None),
            title=f"{dropped:,} frames dropped by the switch, {lost:,} lost by the kernel at its devices",
        )
        below.set(ylabel="Waiting (KB)", xlabel="Time (s)", ylim=(0, None))
        if above.lines:
            made.legend(*above.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return made
