"""The tables of `show`, no wider than the terminal; `--wide` and `--json` have exact numbers in all columns."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from penstock_net.units import format_size
from penstock_net.vswitch.support import losses
from penstock_net.vswitch.world import time

NAME = 20  # characters of a port's name


def size(count: float) -> str:
    """Bytes with a unit, three significant digits."""
    return format_size(count, " ", digits=3)


def count(number: int) -> str:
    """A number, exact up to six digits."""
    if number < 10**6:
        return f"{number:,}"
    scale, unit = next(((s, u) for s, u in ((10**6, "M"), (10**9, "G")) if number < 999.95 * s), (10**12, "T"))
    return f"{number / scale:,.1f} {unit}"


def duration(ns: float) -> str:
    """ns with a unit, three significant digits."""
    if ns < 1:
        return "0"
    for unit in ("ns", "us", "ms"):
        if ns < 999.5:
            return f"{ns:.3g} {unit}"
        ns /= 1000
    return f"{ns:.3g} s" if ns < 99.5 else f"{ns:,.0f} s"


def rate(bytes_per_s: float) -> str:
    """Bytes/s as bit/s; "-" while it is not known (0)."""
    return size(8 * bytes_per_s).replace("B", "bit/s") if bytes_per_s else "-"


def short(text: Any, most: int = NAME) -> str:
    text = "-" if text is None else str(text)
    return text if len(text) <= most else text[: most - 1] + "…"


def end_of(address: str, port: int) -> str:
    if not port:
        return address
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def flow_text(row: dict[str, Any]) -> str:
    """Source, destination and protocol of a flow."""
    protocol = {6: "TCP", 17: "UDP", 1: "ICMP", 58: "ICMPv6", 0: "Ethernet"}.get(row["protocol"], row["protocol"])
    return f"{end_of(row['source'], row['source_port'])} > {end_of(row['target'], row['target_port'])} {protocol}"


def reasons(drops: dict[str, int]) -> str:
    """Drops by reason, the most frequent first."""
    return ", ".join(f"{reason} {number:,}" for reason, number in sorted(drops.items(), key=lambda item: (-item[1], item[0])))


def port_state(row: dict[str, Any]) -> str:
    """A port's state; for an overlay port the state of the peer, with the time of its silence if it is dead."""
    peer = row.get("device", {}).get("overlay")
    if not peer or row["state"] != "up" or peer["state"] == "up":
        return str(row["state"])
    return f"dead for {duration(peer['silent_ns'])}" if peer["state"] == "dead" else str(peer["state"])


def _counted(row: dict[str, Any], kind: str) -> dict[str, int]:
    return losses.of_kind(losses.counted(row), kind)


def lost_text(counts: dict[str, int]) -> str:
    """Number of lost frames, and by reason in brackets: "4,810 (4,798 socket_lost, 12 full)"."""
    named = losses.reasons_text(counts)
    return f"{sum(counts.values()):,} ({named})" if named else "0"


def loss_line(rows: list[dict[str, Any]]) -> str:
    """The line below the table of ports: losses since the switch was started, from rows of its ledger."""
    others = [(kind, losses.total(rows, kind)) for kind in losses.KINDS[1:]]
    more = "".join(f"; {kind.replace('_', ' ')} {lost_text(counts)}" for kind, counts in others if counts)
    return f"lost since the switch was started, in all: {lost_text(losses.total(rows))}{more}"


def life_line(life: dict[str, Any]) -> str:
    """The line about a switch with which other processes have gone on."""
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(life["started"]))
    return f"up since {since}, upgraded {'once' if life['upgrades'] == 1 else str(life['upgrades']) + ' times'}"


Column = tuple[str, Callable[[dict[str, Any]], str]]
PORTS: list[Column] = [
    ("port", lambda r: short(r["port"])),
    ("state", port_state),
    ("flows", lambda r: count(r["flows"])),
    ("frames in", lambda r: count(r["received_frames"])),
    ("in", lambda r: size(r["received_bytes"])),
    ("frames out", lambda r: count(r["sent_frames"])),
    ("out", lambda r: size(r["sent_bytes"])),
    ("pauses", lambda r: count(r["pauses"])),
    ("refused", lambda r: count(sum(_counted(r, losses.REFUSED).values()))),
    ("lost", lambda r: lost_text(_counted(r, losses.LOST))),
]
FLOWS: list[Column] = [
    ("to", lambda r: short(r["to"])),
    ("queue", lambda r: str(r["queue"])),
    ("waiting", lambda r: size(r["waiting_bytes"])),
    ("longest", lambda r: size(r["longest_bytes"])),
    ("taken at", lambda r: rate(r["rate_bytes_per_s"])),
    ("frames", lambda r: count(r["frames"])),
    ("pauses", lambda r: count(r["pauses"])),
    ("dropped", lambda r: count(r["dropped"])),
    ("flow", flow_text),
]
PAUSES: list[Column] = [
    ("port", lambda r: short(r["port"])),
    ("queue", lambda r: "all" if r["queue"] is None else str(r["queue"])),
    ("left", lambda r: "-" if r["left_ns"] is None else duration(r["left_ns"])),
]
DETACHED: list[Column] = [*PORTS[:2], *PORTS[3:7], ("not taken", lambda r: count(r.get("not_taken_frames", 0))), *PORTS[8:]]
LOSSES: list[Column] = [
    ("port", lambda r: short(r["port"])),
    ("kind", lambda r: r["kind"].replace("_", " ")),
    ("frames", lambda r: f"{r['frames']:,}"),
    ("reason", lambda r: r["reason"]),
    ("way", lambda r: r["way"]),
    ("by", lambda r: r["by"]),
    ("what it means", lambda r: r["text"].replace("`", "")),
]
EVENTS: list[Column] = [
    ("time", lambda r: time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(r["time"]))),
    ("event", lambda r: r["event"]),
    ("port", lambda r: short(r["port"])),
    ("what", lambda r: r["text"]),
]
ADDRESSES: list[Column] = [
    ("port", lambda r: short(r["port"])),
    ("vlan", lambda r: str(r["vlan"] or "-")),
    ("address", lambda r: r["address"]),
    ("kind", lambda r: r["kind"]),
    ("age", lambda r: "-" if r["age_ns"] is None else duration(r["age_ns"])),
]
CAPTURES: list[Column] = [
    ("frames", lambda r: count(r["frames"])),
    ("bytes", lambda r: size(r["bytes"])),
    ("missed", lambda r: count(r["missed"])),
    ("what", lambda r: "drops" if r["only_drops"] else "all"),
    ("ports", lambda r: ", ".join(r["ports"])),
]
COLUMNS = {
    "ports": PORTS,
    "losses": LOSSES,
    "flows": FLOWS,
    "addresses": ADDRESSES,
    "pauses": PAUSES,
    "events": EVENTS,
    "detached": DETACHED,
    "captures": CAPTURES,
}
LEFT_ALIGNED = (
    "port",
    "state",
    "to",
    "flow",
    "what",
    "ports",
    "lost",
    "kind",
    "reason",
    "way",
    "by",
    "what it means",
    "event",
    "address",
)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], width: int | None = None) -> list[str]:
    """The lines of a table, cut at `width` characters."""
    cells = [list(heads), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*cells)]
    lines = [
        "  ".join(
            cell.ljust(size) if head in LEFT_ALIGNED else cell.rjust(size) for head, cell, size in zip(heads, row, widths)
        ).rstrip()
        for row in cells
    ]
    return [short(line, width) for line in lines] if width else lines


def shown(what: str, found: Any, width: int | None = None) -> list[str]:
    """The lines of the answer to `show what`: a table of rows, cut at `width`, or names and values of a dict."""
    if isinstance(found, dict):
        keys = max(map(len, found))
        return [f"{key.ljust(keys)}  {value_text(key, value)}" for key, value in found.items()]
    if not found:
        return [f"no {what}"]
    if what not in COLUMNS or not isinstance(found[0], dict):
        return wide(found)
    columns = COLUMNS[what]
    lines = table([head for head, _ in columns], [[text(row) for _, text in columns] for row in found], width)
    for row in found:
        if why := (row.get("device") or {}).get("why"):
            lines.append(f"{row['state']}, port {row['port']}: {why}")
        overlay = (row.get("device") or {}).get("overlay", {})
        if overlay.get("path") == "narrow":
            lines.append(f"path, port {row['port']}: {losses.path_text(overlay)}")
        if row.get("drops"):
            worst = sorted(row["drops_by_queue"].items(), key=lambda item: -sum(item[1].values()))[:3]
            queues = ", ".join(f"queue {queue}: {sum(drops.values()):,}" for queue, drops in worst)
            lines.append(f"dropped, port {row['port']}: {reasons(row['drops'])}" + (f" (most: {queues})" if queues else ""))
    return lines


def value_text(key: str, value: Any) -> str:
    if key.startswith("th_"):
        return size(value)
    if key in ("spin", "idle"):
        return duration(value)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else cell(value)


def wide(found: Any) -> list[str]:
    """The lines of a table with all columns and exact numbers."""
    rows = found if isinstance(found, list) else [found]
    heads = list(dict.fromkeys(key for row in rows for key in row))
    return table(heads, [[cell(row.get(key)) for key in heads] for row in rows])


def cell(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{k}={cell(v)}" for k, v in value.items()) or "-"
    if isinstance(value, list):
        return ",".join(map(str, value))
    return "-" if value is None else str(value)
