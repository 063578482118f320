"""All metrics of a switch as OpenMetrics text.

The text is generated here: the format is small, and a client library would store the values a second time. Cardinality is
bounded: of flows, pauses and queues with drops the largest are listed, the others are summed.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from penstock_net.vswitch.daemon.events import read
from penstock_net.vswitch.ports.base import COUNTERS as PORT_COUNTERS
from penstock_net.vswitch.support import losses
from penstock_net.vswitch.support.settings import DEVICE_STATES, REASON_NAMES, STATE_NAMES

MOST = 50  # flows, pauses, and queues per port that are shown one by one
CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PREFIX = "penstock_vswitch_"
LABELS = ("source", "source_port", "target", "target_port", "protocol", "from", "to", "queue")
# Numbers that only grow while a port, a flow or the switch exists; others are gauges.
COUNTERS = {
    "received_frames",
    "received_bytes",
    "sent_frames",
    "sent_bytes",
    "pauses",
    "paused_ns",
    "bells_answered",
    "bells_rung",
    "nonsense",
    "frames",
    "bytes",
    "dropped",
    "rounds",
    "rounds_with_work",
    "naps",
    *PORT_COUNTERS,
    "kernel_lost",
    "malformed",
    "answered",
    "multicast",
    "stations_learned",
    "stations_moved",
    "stations_beyond",
    "to_unknown",
    "waits_for_buffer",
    "shared_queues",
    "full_sockets",
    "sent_direct",
    "pauses_sent",
    "pauses_received",
    "unknown_flow",
    "truncated",
    "forged",
    "old_pauses",
    "sessions",
    "deaths",
    "window_cuts",
    "late",
    "duplicates",
    "too_old",
    "other_session",
    "other_version",
    "other_super_frames",
    "hellos_sent",
    "hellos_received",
    "hellos_ignored",
    "states_sent",
    "states_received",
    "asked",
    "frames_cut",
    "segments_sent",
    "segments_joined",
    "frames_in_parts",
    "parts_lost",
    "unsendable",
    "lost_at_peer",
    "probes_sent",
    "path_narrowed",
}
HELP = {
    "port_received_frames": "Frames that entered the switch at a port and were delivered.",
    "port_received_bytes": "Bytes that entered the switch at a port and were delivered.",
    "port_sent_frames": "Frames delivered to the application at a port.",
    "port_sent_bytes": "Bytes delivered to the application at a port.",
    "port_pauses": "Pauses of transmit queues of a port, or of the whole port.",
    "port_paused": "Duration of these pauses, summed over queues.",
    "port_nonsense": "Protocol errors of the application at a port.",
    "port_flows": "Flows to a port.",
    "device_stations": "Ethernet addresses that a port has learned and not forgotten.",
    "device_stations_beyond": "Frames from addresses that were not learned, as the port has as many as it may have.",
    "device_to_unknown": "Frames to an Ethernet address that no port has, copied to learning ports.",
    "flow_waiting_bytes": "Bytes in the receive queue of a flow, not yet taken by its application.",
    "flow_longest_bytes": "Largest number of bytes in the receive queue so far.",
    "flow_rate_bytes_per_second": "Rate at which the application takes data, as measured by the switch; 0: not known.",
    "rounds": "Iterations of the worker's loop.",
    "rounds_with_work": "Iterations of the worker's loop that moved frames or handled events.",
    "start_time": "When the switch was started, s since 1970; an upgrade does not change it.",
    "upgrades": "How often a new process has gone on with the switch.",
    "naps": "Number of times that the worker went to sleep.",
}


class Page:
    """Metric families, in the order in which they were first added."""

    def __init__(self) -> None:
        self.families: dict[str, tuple[str, str, str, list[str]]] = {}

    def add(self, name: str, value: float, labels: Mapping[str, Any], kind: str = "gauge", help: str = "") -> None:
        """Add a sample; a name that ends with _ns is converted to seconds."""
        unit = "bytes" if name.endswith("bytes") else ""
        if name.endswith("_ns"):
            name, unit = name[:-3], "seconds"
        elif name.endswith("_per_s"):
            name += "econd"
        text = HELP.get(name, help) or name.replace("_", " ").capitalize() + "."
        if unit == "seconds":
            name += "_seconds"
        suffix = {"counter": "_total", "info": "_info"}.get(kind, "")
        _, _, _, lines = self.families.setdefault(PREFIX + name, (kind, unit, text, []))
        shown = ",".join(f'{key}="{escaped(value)}"' for key, value in labels.items())
        number = seconds(value) if unit == "seconds" else str(int(value) if isinstance(value, bool) else value)
        lines.append(f"{PREFIX}{name}{suffix}{{{shown}}} {number}" if shown else f"{PREFIX}{name}{suffix} {number}")

    def add_histogram(self, name: str, counts: Sequence[int], sum_ns: int, labels: Mapping[str, Any], help: str) -> None:
        """Add a histogram of times; `counts`: how many were up to 1 us, 2 us, 4 us and so on, the last: longer ones."""
        _, _, _, lines = self.families.setdefault(PREFIX + name, ("histogram", "seconds", help, []))
        shown = "".join(f'{key}="{escaped(value)}",' for key, value in labels.items())
        total = 0
        for i, count in enumerate(counts):
            total += count
            edge = "+Inf" if i == len(counts) - 1 else f"{2**i / 1e6:.9g}"
            lines.append(f'{PREFIX}{name}_bucket{{{shown}le="{edge}"}} {total}')
        lines += [f"{PREFIX}{name}_count{{{shown[:-1]}}} {total}", f"{PREFIX}{name}_sum{{{shown[:-1]}}} {seconds(sum_ns)}"]

    def text(self) -> str:
        out = []
        for name, (kind, unit, help, lines) in self.families.items():
            out.append(f"# TYPE {name} {kind}")
            out += [f"# UNIT {name} {unit}"] * bool(unit)
            out.append(f"# HELP {name} {escaped(help)}")
            out += lines
        return "\n".join([*out, "# EOF\n"])


def escaped(value: Any) -> str:
    """A label value, escaped for quotation marks."""
    text = "" if value is None else str(value)
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def seconds(ns: float) -> str:
    """ns as decimal seconds, exact: counters may exceed the precision of a float of seconds."""
    whole, rest = divmod(int(ns), 10**9)
    return f"{whole}.{rest:09d}"


def page(found: Mapping[str, Any], most: int = MOST) -> str:
    """OpenMetrics text of a `snapshot`; `most`: number of flows, pauses, and queues per port that are listed."""
    out = Page()
    out.add(
        "switch", 1, {key: value for key, value in found["settings"].items() if isinstance(value, str)}, "info", "Text settings."
    )
    for key, value in found["settings"].items():
        if not isinstance(value, str):
            name = f"{key}_bytes" if key.startswith("th_") else f"{key}_ns" if key in ("spin", "idle") else key
            out.add(f"setting_{name}", value, {}, help=f"The setting {key}.")
    counters = found["counters"]
    for i, row in enumerate(counters if isinstance(counters, list) else [counters]):
        _numbers(out, "", row, {"worker": i} if isinstance(counters, list) else {})
    if life := found.get("life"):
        out.add("start_time_seconds", life["started"], {}, help=HELP["start_time"])
        out.add("upgrades", life["upgrades"], {}, "counter", HELP["upgrades"])
    for row in found["ports"]:
        _port(out, row, most)
    _losses(out, found["losses"])
    for row in found["flows"]:
        _numbers(out, "flow_", row, {key: row[key] for key in LABELS})
    for key, value in found["other_flows"].items():
        out.add(
            "other_flows" if key == "flows" else f"other_flows_{key}",
            value,
            {},
            help="Total over the flows that are not listed: those with shorter queues.",
        )
    _pauses(out, found["pauses"], [row["port"] for row in found["ports"]], most)
    for port, row in found["totals"].items():
        for key, value in row.items():
            out.add(
                f"detached_{key}",
                value,
                {"port": port},
                "counter",
                "Of applications that have detached; lost: frames that they sent and the switch had not taken.",
            )
    out.add("captures", len(found["captures"]), {}, help="Captures in progress.")
    out.add("capture_missed_frames", sum(row["missed"] for row in found["captures"]), {}, help="Frames missed by them.")
    return out.text()


def _numbers(out: Page, prefix: str, row: Mapping[str, Any], labels: Mapping[str, Any]) -> None:
    for key, value in row.items():
        if isinstance(value, (int, float)) and key not in labels:
            out.add(prefix + key, value, labels, "counter" if key in COUNTERS else "gauge")


def _port(out: Page, row: Mapping[str, Any], most: int) -> None:
    label = {"port": row["port"]}
    texts = {
        key: ",".join(map(str, value)) if isinstance(value, list) else value
        for key, value in row.items()
        if isinstance(value, (str, list)) and key not in ("port", "state")
    }
    out.add("port", 1, {**label, **texts}, "info", "A port to which an application is attached.")
    for state in dict.fromkeys((*STATE_NAMES, *(DEVICE_STATES if row.get("device") else ()), row["state"])):
        out.add("port_state", state == row["state"], {**label, PREFIX + "port_state": state}, "stateset", "State of a port.")
    _numbers(out, "port_", row, label)
    _numbers(out, "device_", row.get("device", {}), label)
    for part in ("overlay", "edge"):
        _numbers(out, f"{part}_", row.get("device", {}).get(part, {}), label)
    for reason in dict.fromkeys((*REASON_NAMES, *row["drops"])):
        out.add(
            "port_dropped_frames",
            row["drops"].get(reason, 0),
            {**label, "reason": reason},
            "counter",
            "Frames that entered the switch at a port and were dropped.",
        )
    out.add_histogram(
        "port_wait_seconds",
        row["waits"]["counts"],
        row["waits"]["sum_ns"],
        label,
        "Time from when the switch saw a frame until it was delivered, of one frame in 64 doorbells.",
    )
    queues = sorted(row["drops_by_queue"].items(), key=lambda item: (-sum(item[1].values()), item[0]))
    for queue, drops in queues[:most]:
        for reason, count in drops.items():
            out.add(
                "queue_dropped_frames",
                count,
                {**label, "queue": queue, "reason": reason},
                "counter",
                "Frames of a transmit queue that were dropped, for the queues with the most drops.",
            )


LOSS_HELP = {
    losses.LOST: "Frames that were accepted and lost, since the switch was started, of all applications of a port.",
    losses.REFUSED: "Frames that a rule forbids, since the switch was started.",
    losses.NOT_CARRIED: "Frames that the switch does not forward, such as broadcasts, since it was started.",
}


def _losses(out: Page, counts: Mapping[str, Mapping[str, int]]) -> None:
    """The families lost, refused and not_carried, by port and reason: zeros too, so that an alert sees the first one."""
    for kind in losses.KINDS:
        for port, of_port in counts.items():
            for reason, number in of_port.items():
                if losses.place_of(reason).kind == kind:
                    out.add(kind, number, {"port": port, "reason": reason}, "counter", LOSS_HELP[kind])


def _queue(row: Mapping[str, Any]) -> str:
    return "all" if row["queue"] is None else f"{'device ' if row.get('to_device') else ''}{row['queue']}"


def _pauses(out: Page, rows: list[dict[str, Any]], ports: list[str], most: int) -> None:
    paused = Counter(row["port"] for row in rows if row["queue"] is not None)
    for port in ports:
        out.add(
            "port_paused_queues",
            paused[port],
            {"port": port},
            help="Transmit queues of a port that are paused now.",
        )
    rows = sorted(rows, key=lambda row: (-(row["left_ns"] or 0), row["port"], -1 if row["queue"] is None else row["queue"]))
    for row in rows[:most]:
        out.add(
            "pause_left_ns",
            row["left_ns"] or 0,
            {"port": row["port"], "queue": _queue(row)},
            help="Remaining time of the pause of a transmit queue, of a queue to a device, or of a whole port.",
        )
    out.add("other_pauses", len(rows[most:]), {}, help="Pauses that are not listed: those that end earlier.")
    out.add("other_pauses_left_ns", sum(row["left_ns"] or 0 for row in rows[most:]), {}, help="Sum of their remaining times.")


def snapshot(switch: Any, most: int = MOST) -> dict[str, Any]:
    """All values of the page, read at one instant; to be called by `Switch.call`."""
    flows, others = switch.longest_flows(most)
    ports, _, counts = read(switch)
    return {
        "settings": switch.settings,
        "counters": switch.counters(),
        "ports": ports,
        "losses": counts,
        "flows": flows,
        "other_flows": others,
        "pauses": switch.pauses(),
        "captures": [each.row() for each in switch.captures],
        "totals": {port: dict(row) for port, row in switch.totals.items()},
    }
