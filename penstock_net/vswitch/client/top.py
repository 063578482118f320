"""Live statistics of a running switch.

A table of its ports and longest queues while it runs, and a plot at the end:

    history = watch(path, interval=0.2, seconds=10)
    draw(history).savefig("switch.png")
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock_net.errors import SpecError
from penstock_net.palette import BLUE, DASHES, GREEN, ORANGE, OTHERS, PAGE, PURPLE, RC, RED, SKY
from penstock_net.vswitch.client.tables import flow_text, loss_line, lost_text
from penstock_net.vswitch.daemon import places, protocol
from penstock_net.vswitch.support import losses
from penstock_net.vswitch.world import time

SHOWN = 8  # flows in a table or picture: those with the longest queues
MOST = 64  # flows in a request
COLOURS = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY, *OTHERS)


@dataclass
class Sample:
    """Ports and flows at one moment, by name, and the losses since the switch was started: rows of its ledger."""

    at: float
    ports: dict[str, dict[str, Any]]
    flows: dict[str, dict[str, Any]]
    losses: list[dict[str, Any]] = field(default_factory=list)


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

    def lost_rate(self, port: str) -> float:
        """Frames lost at a port per second, all reasons together, between the last two samples."""
        before, now = self.samples[-2:][0], self.samples[-1]
        if port not in before.ports or port not in now.ports or now.at == before.at:
            return 0.0
        counts = [sum(lost_at(sample.ports[port]).values()) for sample in (before, now)]
        return max(0.0, (counts[1] - counts[0]) / (now.at - before.at))


def lost_at(row: dict[str, Any]) -> dict[str, int]:
    """Frames lost at a port, by reason."""
    return losses.of_kind(losses.counted(row), losses.LOST)


def look(path: str, began: float, allow_uid: int | None = None) -> Sample:
    """Take a sample of the switch."""
    at = time.monotonic() - began
    answer = protocol.ask(path, {"show": "ports"}, allow_uid=allow_uid)
    flows = protocol.ask(path, {"show": "flows", "most": MOST}, allow_uid=allow_uid)["flows"]
    return Sample(at, {row["port"]: row for row in answer["ports"]}, {flow_text(row): row for row in flows}, answer["losses"])


def watch(
    path: str | None = None,
    interval: float = 1.0,
    seconds: float | None = None,
    tell: Callable[[History], None] | None = None,
    allow_uid: int | None = None,
    most: int | None = None,
) -> History:
    """Sample a switch every `interval` s for `seconds`, until Ctrl-C or until it stops; `tell` is called after each sample.

    `most`: number of latest samples to keep; None: all.
    """
    path, began = path or places.default_socket(), time.monotonic()
    history = History([look(path, began, allow_uid)])
    try:
        while seconds is None or time.monotonic() - began < seconds:
            time.sleep(interval)
            try:
                history.samples.append(look(path, began, allow_uid))
            except SpecError:
                break  # it has gone down
            if most:
                del history.samples[:-most]
            if tell:
                tell(history)
    except KeyboardInterrupt:
        pass
    return history


def table(history: History) -> Any:
    """Tables of the ports' rates since the previous sample and of the flows with the longest queues."""
    from rich.console import Group
    from rich.table import Table

    history, now = History(history.samples[-2:]), history.samples[-1]
    of_ports = Table(box=None)
    for head in ("port", "frames/s in", "Mbit/s in", "frames/s out", "Mbit/s out", "pauses/s", "flows", "lost/s", "lost"):
        of_ports.add_column(head, justify="left" if head in ("port", "lost") else "right")
    for name, row in sorted(now.ports.items()):
        last = port_rates(history, name)
        of_ports.add_row(
            name,
            f"{last['received_frames']:,.0f}",
            f"{8e-6 * last['received_bytes']:,.1f}",
            f"{last['sent_frames']:,.0f}",
            f"{8e-6 * last['sent_bytes']:,.1f}",
            f"{last['pauses']:,.1f}",
            str(row["flows"]),
            f"{last['lost']:,.1f}",
            lost_text(lost_at(row)),
        )
    of_flows = Table(box=None)
    for head in ("flow", "waiting B", "longest B", "Mbit/s taken", "pauses", "dropped"):
        of_flows.add_column(head, justify="left" if head == "flow" else "right")
    rates = {name: (history.taken(name)[1] or [0.0])[-1] for name in now.flows}
    for name in sorted(now.flows, key=lambda n: (-now.flows[n]["waiting_bytes"], -rates[n], n))[:SHOWN]:
        row = now.flows[name]
        of_flows.add_row(
            name,
            f"{row['waiting_bytes']:,}",
            f"{row['longest_bytes']:,}",
            f"{rates[name]:,.1f}",
            f"{row['pauses']:,}",
            f"{row['dropped']:,}",
        )
    return Group(of_ports, loss_line(now.losses), "", of_flows)


def port_rates(history: History, name: str) -> dict[str, float]:
    """The increase per second of a port's counters between the last two samples, and of its lost frames."""
    columns = ("received_frames", "received_bytes", "sent_frames", "sent_bytes", "pauses")
    return {c: (history.rates(name, c)[1] or [0.0])[-1] for c in columns} | {"lost": history.lost_rate(name)}


def interval(history: History) -> dict[str, Any]:
    """The last two samples as a dict for programs (`top --json`): rates per second, lost frames in all and by port, flows."""
    history = History(history.samples[-2:])
    before, now = history.samples[0], history.samples[-1]
    ports = {
        name: {
            **{f"{key}_per_s": rate for key, rate in port_rates(history, name).items()},
            **{kind: losses.of_kind(losses.counted(row), kind) for kind in losses.KINDS},
            "flows": row["flows"],
        }
        for name, row in sorted(now.ports.items())
    }
    flows = [
        {**row, "taken_bytes_per_s": 125_000 * (history.taken(name)[1] or [0.0])[-1]} for name, row in sorted(now.flows.items())
    ]
    lost = {kind: losses.total(now.losses, kind) for kind in losses.KINDS}
    return {"time_s": now.at, "interval_s": now.at - before.at, **lost, "ports": ports, "flows": flows}


def draw(history: History) -> Any:
    """A matplotlib Figure: rates and queue lengths of the largest flows over time; losses in its title."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from penstock_net.printing import Figure

    with matplotlib.rc_context(RC):
        made = Figure(figsize=(PAGE, 4.4), layout="constrained")
        FigureCanvasAgg(made)
        above, below = made.subplots(2, 1, sharex=True)
        for i, name in enumerate(history.largest_flows()):
            look = {"color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[i // len(COLOURS) % len(DASHES)]}
            above.plot(*history.taken(name), label=name, **look)
            below.plot(*zip(*[(s.at, s.flows[name]["waiting_bytes"] / 1000) for s in history.samples if name in s.flows]), **look)
        lost = losses.total(history.samples[-1].losses)
        above.set(
            ylabel="Taken (Mbit/s)",
            ylim=(0, None),
            title=f"Frames lost in the switch, at its devices and in sockets: {lost_text(lost)}",
        )
        below.set(ylabel="Waiting (KB)", xlabel="Time (s)", ylim=(0, None))
        if above.lines:
            made.legend(*above.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return made
