"""Checks of a configuration of SONiC. Each is a function of a `View` that yields findings; all of them are in CHECKS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from penstock_net.advise.fields import ranges, references
from penstock_net.advise.finding import Finding
from penstock_net.advise.platform import Platform
from penstock_net.advise.settings import share
from penstock_net.advise.sonic import (
    Config,
    Port,
    group_of,
    lossless_pool,
    metres_in,
    name_in,
    number,
    numbers,
    ports_of,
    queue_of,
)
from penstock_net.errors import SpecError

CNP_DSCP = "48"  # of most NICs
MOST_SHARED = 8  # to one: shipped tables have up to 6
COLOURS = ("green", "yellow", "red")
MAPS = ("dscp_to_tc_map", "tc_to_queue_map", "tc_to_pg_map", "pfc_to_queue_map", "pfc_to_pg_map")


@dataclass(frozen=True)
class View:
    """What checks look at: the configuration, its ports, the platform if it is known, configurations of neighbours."""

    config: Config
    ports: dict[str, Port]
    platform: Platform | None
    neighbours: tuple[Config, ...] = ()

    @property
    def lossless(self) -> list[Port]:
        """Ports with PFC."""
        return [port for port in self.ports.values() if port.pfc]

    def profile(self, port: Port, group: int) -> dict[str, str]:
        """The profile of a priority group; empty, if it has none."""
        return self.config.rows("BUFFER_PROFILE").get(port.groups.get(group, ""), {})

    def lines(self, port: Port, table: str, key: str) -> dict[str, str]:
        """The map of a table that a port uses."""
        return self.config.rows(table).get(port.maps.get(key, ""), {})


def check(config: Config, platform: Platform | None = None, neighbours: tuple[Config, ...] = ()) -> list[Finding]:
    """All findings, errors first."""
    view = View(config, ports_of(config), platform, neighbours)
    found = [*ranges(config), *references(config), *(one for each in CHECKS for one in each(view))]
    return sorted(dict.fromkeys(found), key=lambda finding: finding.severity)


# ---- Headroom ----


def headroom(view: View) -> Iterator[Finding]:
    """A priority's headroom is less than what its platform needs for the port's speed and cable."""
    if view.platform is None:
        return
    needs: dict[tuple[int, int], tuple[int, int, str] | str] = {}
    for port in view.lossless:
        if not port.mbit or port.mbit % 1000 or not port.metres:
            continue
        at = (port.mbit // 1000, port.metres)
        if at not in needs:
            try:
                need = view.platform.headroom(*at)
                needs[at] = need.total, int(need.total * (1 - need.slack)), need.reason
            except SpecError as error:
                needs[at] = error.rule
        need_of = needs[at]
        if isinstance(need_of, str):
            yield Finding("warning", "headroom", f"PORT|{port.name}", need_of, "no headroom can be judged there")
            continue
        for priority in sorted(port.pfc):
            group = group_of(view.config, port, priority)
            given = number(view.profile(port, group).get("xoff"))
            if given is not None and given < need_of[1]:
                text = f"xoff {given} B is less than {need_of[0]} B, of {at[0]}G and {at[1]} m: {need_of[2]}"
                yield Finding("error", "headroom", f"BUFFER_PROFILE|{port.groups[group]} xoff", text, f"xoff {need_of[0]}")


def no_cable(view: View) -> Iterator[Finding]:
    """A port with PFC has no length of cable: buffermgrd makes no profile for it."""
    for port in view.lossless:
        if port.metres == 0 or not any(port.name in row for row in view.config.rows("CABLE_LENGTH").values()):
            text = "a port with PFC has no length of cable, so it has no headroom"
            yield Finding("error", "no cable", f"CABLE_LENGTH|AZURE {port.name}", text, "give the length, such as 40m")


def wrong_profile(view: View) -> Iterator[Finding]:
    """A profile whose name is of another speed or cable than the port's."""
    for port in view.lossless:
        for priority in sorted(port.pfc):
            group = group_of(view.config, port, priority)
            name = port.groups.get(group, "")
            words = name.split("_")
            if len(words) != 5 or not name.startswith("pg_lossless_") or not port.mbit or not port.metres:
                continue
            if (number(words[2]), metres_in(words[3])) != (port.mbit, port.metres):
                right = f"pg_lossless_{port.mbit}_{port.metres}m_profile"
                text = f"{name} is for another speed or cable than {port.mbit} Mbit/s and {port.metres} m"
                yield Finding("error", "wrong profile", f"BUFFER_PG|{port.name}|{group}", text, right)


def no_group(view: View) -> Iterator[Finding]:
    """A priority has PFC, and no profile with headroom for its group."""
    for port in view.lossless:
        for priority in sorted(port.pfc):
            group = group_of(view.config, port, priority)
            if group not in port.groups:
                text = f"priority {priority} has PFC, and its priority group no profile: no headroom"
                yield Finding("error", "no group", f"BUFFER_PG|{port.name}|{group}", text, "give it a lossless profile")
            elif port.groups[group] != "NULL" and "xoff" not in (view.profile(port, group) or {"xoff": ""}):
                text = f"priority {priority} has PFC, and the profile of its group no xoff"
                yield Finding("error", "no group", f"BUFFER_PG|{port.name}|{group}", text, "give it a lossless profile")


def no_pfc(view: View) -> Iterator[Finding]:
    """A group has headroom, and no priority that leads to it has PFC."""
    for port in view.ports.values():
        paused = {group_of(view.config, port, priority) for priority in port.pfc}
        for group in sorted(set(port.groups) - paused):
            if "xoff" in view.profile(port, group):
                text = f"group {group} is lossless, and no priority of it has PFC: its headroom is never used, packets are lost"
                yield Finding("error", "no pfc", f"PORT_QOS_MAP|{port.name} pfc_enable", text, f"add {group}")


def pool_too_small(view: View) -> Iterator[Finding]:
    """All headrooms are many times the pool that they share, or one of them is more than it."""
    name = lossless_pool(view.config)
    shared = number(view.config.rows("BUFFER_POOL").get(name, {}).get("xoff"))
    if not shared:
        return
    sizes = []
    for port in view.lossless:
        groups = {group_of(view.config, port, priority) for priority in port.pfc}
        sizes += [number(view.profile(port, group).get("xoff")) or 0 for group in sorted(groups)]
    place = f"BUFFER_POOL|{name} xoff"
    if sizes and max(sizes) > shared:
        text = f"the pool of headroom, {shared} B, is less than one headroom of {max(sizes)} B"
        yield Finding("error", "pool", place, text, f"at least {sum(sizes) // MOST_SHARED + 1}")
    elif sum(sizes) > MOST_SHARED * shared:
        text = f"all headrooms, {sum(sizes)} B, are {sum(sizes) / shared:.1f} times the pool that they share, {shared} B"
        yield Finding("warning", "pool", place, text, f"shipped tables have up to 6 : 1; {sum(sizes) // MOST_SHARED + 1}")


def buffer_too_small(view: View) -> Iterator[Finding]:
    """Private headrooms, reserves and the pool are more than the platform has."""
    buffer = view.platform.table.get("buffer", 0) if view.platform else 0
    pool = view.config.rows("BUFFER_POOL").get(lossless_pool(view.config), {})
    if not buffer or "xoff" in pool or number(pool.get("size")) is None:
        return
    sizes = 0
    for port in view.lossless:
        for group in {group_of(view.config, port, priority) for priority in port.pfc}:
            sizes += number(view.profile(port, group).get("size")) or 0
    total = sizes + (number(pool["size"]) or 0)
    if total > buffer:
        text = f"pool {pool['size']} B and lossless groups {sizes} B are {total - buffer} B more than the buffer, {buffer} B"
        yield Finding(
            "error", "buffer", f"BUFFER_POOL|{lossless_pool(view.config)} size", text, "a smaller pool, or shared headroom"
        )


def thresholds(view: View) -> Iterator[Finding]:
    """A profile has two thresholds or none, one that its pool does not take, or lies in a pool of the wrong side."""
    lossless = {port.groups.get(group_of(view.config, port, i)) for port in view.lossless for i in port.pfc}
    for name, row in view.config.rows("BUFFER_PROFILE").items():
        place = f"BUFFER_PROFILE|{name}"
        if "dynamic_th" in row and "static_th" in row:
            yield Finding("error", "threshold", place, "has dynamic_th and static_th", "leave out one of them")
        elif "dynamic_th" not in row and "static_th" not in row:
            yield Finding("error", "threshold", place, "has neither dynamic_th nor static_th", 'dynamic_th "0"')
        pool = view.config.rows("BUFFER_POOL").get(name_in(row.get("pool", "")), {})
        if pool.get("type") == "egress" and name in lossless:
            yield Finding(
                "error", "threshold", f"{place} pool", "a priority group's profile is in an egress pool", "an ingress pool"
            )


# ---- ECN ----


def marking(view: View) -> Iterator[Finding]:
    """ECN begins above where it ends."""
    for name, row in view.config.rows("WRED_PROFILE").items():
        for colour in COLOURS:
            low, high = (number(row.get(f"{colour}_{end}_threshold")) for end in ("min", "max"))
            if low is not None and high is not None and low > high:
                text = f"{colour}_min_threshold {low} B is above {colour}_max_threshold {high} B"
                yield Finding("error", "marking", f"WRED_PROFILE|{name}", text, "exchange them")


def late_marking(view: View) -> Iterator[Finding]:
    """A lossless queue is marked in full only when its ingress has paused its neighbour."""
    for port in view.lossless:
        for priority in sorted(port.pfc):
            queue = queue_of(view.config, port, priority)
            name = name_in(port.queues.get(queue, {}).get("wred_profile", ""))
            high = number(view.config.rows("WRED_PROFILE").get(name, {}).get("green_max_threshold"))
            profile = view.profile(port, group_of(view.config, port, priority))
            threshold = number(profile.get("dynamic_th"), -8, 7)
            pool = view.config.rows("BUFFER_POOL").get(name_in(profile.get("pool", "")), {})
            size = number(pool.get("size"))
            if high is None or threshold is None or size is None:
                continue
            held = int(share(size, 2.0**threshold, 1))
            if high > held:
                text = f"green_max_threshold {high} B is above {held} B, where a lone ingress pauses: PFC comes before ECN"
                yield Finding("warning", "late marking", f"WRED_PROFILE|{name} green_max_threshold", text, f"at most {held}")


def no_marking(view: View) -> Iterator[Finding]:
    """A lossless queue marks nothing."""
    for port in view.lossless:
        for priority in sorted(port.pfc):
            queue = queue_of(view.config, port, priority)
            name = name_in(port.queues.get(queue, {}).get("wred_profile", ""))
            row = view.config.rows("WRED_PROFILE").get(name)
            if not name or (row is not None and row.get("ecn") in (None, "ecn_none")):
                text = f"queue {queue} is lossless and marks no ECN: pauses are all that slows senders"
                yield Finding(
                    "warning", "no marking", f"QUEUE|{port.name}|{queue} wred_profile", text, "bind a profile with ecn_all"
                )


# ---- Maps ----


def no_traffic(view: View) -> Iterator[Finding]:
    """No DSCP leads to a lossless traffic class."""
    for port in view.lossless:
        rows = view.lines(port, "DSCP_TO_TC_MAP", "dscp_to_tc_map")
        for missing in sorted(port.pfc - numbers(",".join(map(str, rows.values())))) if rows else ():
            text = f"no DSCP leads to traffic class {missing}, which has PFC: nothing is lossless"
            yield Finding(
                "warning", "no traffic", f"DSCP_TO_TC_MAP|{port.maps['dscp_to_tc_map']}", text, "map the DSCP of RoCE to it"
            )


def congestion_notes(view: View) -> Iterator[Finding]:
    """CNPs wait in a lossless queue behind the data that they are about."""
    for port in view.lossless:
        traffic = number(view.lines(port, "DSCP_TO_TC_MAP", "dscp_to_tc_map").get(CNP_DSCP), 0, 7)
        if traffic in port.pfc:
            text = f"DSCP {CNP_DSCP}, of CNPs, leads to the lossless traffic class {traffic}: they are paused with the data"
            place = f"DSCP_TO_TC_MAP|{port.maps['dscp_to_tc_map']} {CNP_DSCP}"
            yield Finding("warning", "cnp", place, text, "a class of its own, with strict priority")


def groups_differ(view: View) -> Iterator[Finding]:
    """A traffic class is counted in one group, and pauses are for another; or it shares the group of a lossless class."""
    for port in view.lossless:
        rows = view.lines(port, "TC_TO_PRIORITY_GROUP_MAP", "tc_to_pg_map")
        place = f"TC_TO_PRIORITY_GROUP_MAP|{port.maps.get('tc_to_pg_map', '')}"
        lossless = {group_of(view.config, port, priority) for priority in port.pfc}
        for traffic, value in rows.items():
            group, own = number(value, 0, 63), number(traffic, 0, 7)
            if group is None or own is None:
                continue
            if own in port.pfc and group != group_of(view.config, port, own):
                text = f"traffic class {own} is counted in group {group}, and pauses come from {group_of(view.config, port, own)}"
                yield Finding("error", "two groups", f"{place} {own}", text, "one group for both maps")
            elif own not in port.pfc and group in lossless:
                text = f"traffic class {own} has no PFC and takes the headroom of the lossless group {group}"
                yield Finding("error", "two groups", f"{place} {own}", text, "a group of its own")


def maps_differ(view: View) -> Iterator[Finding]:
    """Ports map in different ways: what is lossless on one is not on the next."""
    for what in MAPS:
        used: dict[str, str] = {}
        for port in view.lossless:
            used.setdefault(port.maps.get(what, ""), port.name)
        if len(used) > 1:
            named = ", ".join(f"{name or 'none'} ({port})" for name, port in list(used.items())[:3])
            text = f"ports with PFC have different maps: {named}"
            yield Finding("warning", "maps differ", f"PORT_QOS_MAP {what}", text, "one map for all of them")


def pause_elsewhere(view: View) -> Iterator[Finding]:
    """A pause stops a queue that is not the one of its traffic class, or one whose buffer is lossy."""
    for port in view.lossless:
        rows = view.lines(port, "TC_TO_QUEUE_MAP", "tc_to_queue_map")
        for priority in sorted(port.pfc):
            queue = queue_of(view.config, port, priority)
            of_class = number(rows.get(str(priority)), 0, 63)
            place = f"MAP_PFC_PRIORITY_TO_QUEUE|{port.maps.get('pfc_to_queue_map', '')} {priority}"
            if of_class is not None and of_class != queue:
                text = f"pauses of priority {priority} stop queue {queue}, and its packets wait in queue {of_class}"
                yield Finding("error", "pause elsewhere", place, text, f"queue {of_class}")
            profile = view.config.rows("BUFFER_PROFILE").get(port.buffers.get(queue, ""), {})
            if "lossy" in name_in(profile.get("pool", "")):
                text = f"queue {queue}, which pauses of priority {priority} stop, is in a lossy pool: it drops"
                yield Finding("error", "pause elsewhere", f"BUFFER_QUEUE|{port.name}|{queue} profile", text, "a lossless profile")


# ---- Watchdog ----


def no_watchdog(view: View) -> Iterator[Finding]:
    """A port with PFC has no watchdog, or another set of priorities than PFC."""
    for port in view.lossless:
        if port.name not in view.config.rows("PFC_WD"):
            text = "a port with PFC has no watchdog: one stuck NIC can stop the fabric"
            yield Finding("warning", "no watchdog", f"PFC_WD|{port.name}", text, "penstock advise --out writes one")
        if port.watched and port.watched != port.pfc:
            text = f"watches priorities {sorted(port.watched)}, and PFC is on for {sorted(port.pfc)}"
            yield Finding("warning", "no watchdog", f"PORT_QOS_MAP|{port.name} pfcwd_sw_enable", text, "the same as pfc_enable")


def watchdog_polls(view: View) -> Iterator[Finding]:
    """The watchdog looks less often than its times."""
    rows = view.config.rows("PFC_WD")
    poll = number(rows.get("GLOBAL", {}).get("POLL_INTERVAL"))
    for name, row in rows.items():
        for key in ("detection_time", "restoration_time"):
            time = number(row.get(key))
            if name != "GLOBAL" and poll is not None and time is not None and time < poll:
                text = f"{time} ms is shorter than POLL_INTERVAL, {poll} ms"
                yield Finding("error", "polls", f"PFC_WD|{name} {key}", text, f"at least {poll}")


# ---- Links ----


def ends_differ(view: View) -> Iterator[Finding]:
    """The two ends of a link are configured in different ways."""
    names = {str(one.rows("DEVICE_METADATA").get("localhost", {}).get("hostname")): one for one in view.neighbours}
    others = {name: ports_of(one) for name, one in names.items()}
    for name, row in view.config.rows("DEVICE_NEIGHBOR").items():
        here = view.ports.get(name)
        there = others.get(str(row.get("name")), {}).get(str(row.get("port")))
        if here is None or there is None:
            continue
        for what, mine, theirs in (
            ("speed", here.mbit, there.mbit),
            ("cable", here.metres, there.metres),
            ("priorities with PFC", sorted(here.pfc), sorted(there.pfc)),
            ("mtu", here.mtu, there.mtu),
        ):
            if mine != theirs:
                text = f"{what} {mine}, and {theirs} at the other end, {row.get('name')} {row.get('port')}"
                yield Finding("error", "ends differ", f"PORT|{name}", text, "the same at both ends")


CHECKS: tuple[Callable[[View], Iterator[Finding]], ...] = (
    headroom,
    no_cable,
    wrong_profile,
    no_group,
    no_pfc,
    pool_too_small,
    buffer_too_small,
    thresholds,
    marking,
    late_marking,
    no_marking,
    no_traffic,
    congestion_notes,
    groups_differ,
    maps_differ,
    pause_elsewhere,
    no_watchdog,
    watchdog_polls,
    ends_differ,
)
