"""A conservation law over a whole switch: the frames that went in are those that came out, that are parked, and that are lost.

Every frame is counted where it passes; between two places that count, none may be missing.  A frame of several TCP segments or
UDP datagrams is one; a device counts what was cut out of it there, beyond one, as `further_in` and `further_out`, also what a
vhost-user port cuts for a guest that takes no super-frames, of which a segment without room is the one that waits.  To be called
by `Switch.call`, when nothing moves: `unaccounted` is empty unless a frame has vanished, or has come from nowhere.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock_net.vswitch.support import losses
from penstock_net.vswitch.support.settings import LINE_DROPS


def balance(switch: Any) -> dict[str, Any]:
    """Frames `in` and `out` of all ports, those `parked` in the switch, those lost and refused by reason, and `unaccounted`."""
    ports = switch.ports()
    switch.ledger.look(ports)
    rows = [{**row, **left} for row, left in zip(ports, switch.left())]
    sums = {kind: losses.total(switch.ledger.rows(), kind) for kind in losses.KINDS}
    gone = switch.totals.values()
    devices = [row.get("device") or {} for row in rows]
    # In the ports, for the kernel to take; what waits in an overlay are datagrams, of which several may be of one frame.
    waiting = sum(device.get("waiting_out", 0) for device in devices if "overlay" not in device)
    taken = sum(row["received_frames"] + refused(row) + row["waiting_frames"] for row in rows)
    return {
        "in": taken + sum(row["received_frames"] + row["dropped_frames"] + row["lost_frames"] for row in gone),
        "out": sum(row["sent_frames"] - row["not_taken_frames"] for row in rows)
        - waiting
        + sum(row["sent_frames"] - row["not_delivered_frames"] for row in gone),
        "parked": sum(row["waiting_frames"] + row["not_taken_frames"] for row in rows) + waiting,
        **sums,
        "unaccounted": unaccounted(rows, gone, switch.counters().get("lost_on_lines", 0)),
    }


def refused(row: Mapping[str, Any]) -> int:
    """Frames of a port that were dropped before they were taken: not those that a scheme has dropped on a line."""
    return sum(number for name, number in row["drops"].items() if "line" not in row or name not in LINE_DROPS)


def unaccounted(rows: Sequence[Mapping[str, Any]], gone: Iterable[Mapping[str, int]] = (), on_lines: int = 0) -> dict[str, int]:
    """Frames missing by place, negative if there are too many.

    `rows`: those of Switch.ports() with those of `left`; `gone`: the sums of applications that have detached; `on_lines`: frames
    that a scheme has lost.  Those that are on its lines now are missing.
    """
    found: Counter[str] = Counter({"between ports": -on_lines})
    copies = spare = 0
    for row in (*rows, *gone):
        found["between ports"] += row["received_frames"] - row["sent_frames"]
    for row in rows:
        device = row.get("device") or {}
        if "taken_in" not in device or device["kind"] == "pcap":
            continue
        port = row["port"]
        taken = row["received_frames"] + refused(row) + row["waiting_frames"]
        if count := device["taken_in"] - taken:
            found[f"{port}: in the queues of its device"] += count
        if count := row["sent_frames"] - device["taken_out"] - row["not_taken_frames"]:
            found[f"{port}: in its receive queues"] += count
        if "overlay" in device:  # its datagrams are no frames; `lost_on_the_way` says what a network has lost
            continue
        here = device["malformed"] + device["of_the_link"] + device["not_carried"] + device["wrong_vlan"] + device["taken_in"]
        here += device["station_spoofed"] + device["same_port"] + device["to_unknown"]
        if count := device["frames_in"] + device["further_in"] - here:
            found[f"{port}: as they came in"] += count
        gone = device["evicted_out"] + device["queued_when_gone"] + device["device_gone"] + device["wrong_vlan_out"]
        copies += device["taken_out"] + device["further_out"] + device["answered"] + device["flooded"] - gone
        copies -= device["frames_out"] + device["errors_out"] + device["waiting_out"] + device["copies_waiting_out"]
        if device["kind"] == "vhost-user":  # without a guest; what is cut for one is lost in segments
            copies -= device["lost"]
        spare += device["too_long"]  # of both ways
    if not 0 <= copies <= spare:
        found["as they went out"] = copies
    return {place: count for place, count in found.items() if count}
