"""What `show` says of pauses, flows and waiting frames is what there is."""

from collections import Counter
from typing import TYPE_CHECKING, Any

from penstock_net.vswitch.simulation.laws import BOUND_NS, MS, Broken

if TYPE_CHECKING:
    from penstock_net.vswitch.simulation.machine import Machine

LONGEST_NS = 5 * MS  # of a pause of a transmit queue
LATE_NS = 1 * MS  # after the end of a pause the queue is served, at the latest
LOOKS = 16  # flows are looked at once in so many looks, since they are many


def check(machine: "Machine", switch: Any) -> None:
    """To be called between two turns.  Broken: `show` says what cannot be."""
    if machine.layout.runs_scheme:
        return
    if machine.world.now - machine.record.awake_ns > LATE_NS:
        check_pauses(switch, machine.world.now)
    if machine.looks % LOOKS == 0:
        check_flows(switch)
    machine.looks += 1


def check_pauses(switch: Any, now: int) -> None:
    """Broken: a pause is too long, has not ended when it was over, or is of a port that is not there."""
    try:
        pauses = switch.pauses(0)  # when they end
    except KeyError as error:
        raise Broken(f"a queue is paused of a port that is not there: number {error}") from None
    for row in pauses:
        left = row["left_ns"] - now
        if row["queue"] is None and left <= 0:
            continue  # of a whole port: it is over, and kept until the next one
        if left < -LATE_NS:
            raise Broken(f"queue {row['queue']} of {row['port']} is paused, {-left} ns after the end of its pause")
        if left > LONGEST_NS and not row["to_device"]:
            raise Broken(f"queue {row['queue']} of {row['port']} is paused for {left} ns more, and {LONGEST_NS} are the most")


def check_flows(switch: Any) -> None:
    """Broken: the flows of a port were paused more often, or for longer, than the port was since it came last."""
    ports, flows = {row["port"]: row for row in (*switch.detached, *switch.ports())}, switch.flows()
    for key in ("pauses", "paused_ns"):
        of_ports, of_flows = {name: row[key] for name, row in ports.items()}, Counter[str]()
        for row in flows:
            of_flows[row["from"] or ""] += row[key]
        for name in [name for name in switch.numbers if of_flows[name] > of_ports.get(name, 0)]:
            raise Broken(f"{key} of port {name} are {of_ports.get(name, 0)}, and those of its flows {of_flows[name]}")
    if switch.queues != (room := sum(region.shape["queues"] for region in switch.regions.values())):
        raise Broken(f"the switch counts {switch.queues} queues, and its ports have {room}")


def check_quiet(machine: "Machine") -> None:
    """Broken: when nothing is wrong, and nobody has sent for long, something waits."""
    if machine.layout.runs_scheme:
        return
    rows, flows = machine.call(lambda switch: (switch.left(), switch.flows()))
    for row in rows:
        for key in ("waiting_frames", "not_taken_frames"):
            if row[key]:
                raise Broken(f"{row[key]} frames wait at {row['port']} ({key}) {BOUND_NS // MS} ms after the last one")
    for row in flows:
        for key in ("waiting_bytes", "behind_bytes"):
            if row[key]:
                raise Broken(f"{row[key]} bytes of a flow from {row['from']} to {row['to']} wait ({key}), and no frame")
