"""What a simulation has of a switch's settings: those that are advised, and those that a configuration has now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock_net.advise.platform import ByHand
from penstock_net.advise.settings import Advice, Class
from penstock_net.advise.site import Ports, Switch
from penstock_net.advise.sonic import Config, Port, group_of, lossless_pool, marking_of, number, ports_of

MOST_RATES = 8
LARGEST_MTU = 4096  # of simulated hosts
NO_HEADROOM = 1  # byte: 0 would be the simulator's own


@dataclass(frozen=True)
class Values:
    """Settings of a switch, in bytes.

    xoff      headroom of a priority, by kind of port in the order of the switch's
    xon       resumes so far below its threshold           reserve       own of each lossless priority
    pool      that all headrooms share; 0: private ones    alpha         of the rest of the buffer
    k_min, k_max, p_max   ECN; p_max in percent; k_min is the whole buffer if nothing is marked
    detection_ms, poll_ms  of the watchdog; 0: there is none               action  what it does: "drop" or "forward"
    """

    xoff: tuple[int, ...]
    xon: int
    reserve: int
    pool: int
    alpha: float
    k_min: int
    k_max: int
    p_max: float
    detection_ms: int
    poll_ms: int
    action: str = "drop"


def advised(advice: Advice) -> Values:
    """Those that are advised."""
    switch = advice.switch
    return Values(
        tuple(one.xoff for one in advice.classes),
        max(one.xon_offset or 0 for one in advice.classes) or 3072,
        max(one.size if switch.shares else one.size - one.xoff for one in advice.classes),
        advice.budget.headroom if switch.shares else 0,
        2.0**advice.dynamic_th,
        advice.k_min,
        advice.k_max,
        advice.p_max,
        advice.detection_ms,
        advice.poll_ms,
    )


def now(config: Config, advice: Advice) -> Values:
    """Those that a configuration has: of each kind of port the smallest headroom, of the others what is found first.

    What it does not say is as advised, but for a headroom, marking and a watchdog, which it then does not have.
    """
    switch, better = advice.switch, advised(advice)
    ports = ports_of(config)
    profiles = [
        [_own(one)] if one.ports.dynamic else [_profile(config, port, i) for port, i in _lossless(ports, switch, one.ports)]
        for one in advice.classes
    ]
    every = [row for rows in profiles for row in rows]
    xoff = tuple(max(min(_bytes(row, "xoff") for row in rows), NO_HEADROOM) for rows in profiles)
    private = 0 if switch.shares else 1
    thresholds = [found for row in every if (found := number(row.get("dynamic_th"), -8, 7)) is not None]
    shared = number(config.rows("BUFFER_POOL").get(lossless_pool(config), {}).get("xoff")) or 0
    wred = marking_of(config, [ports[name] for name in _names(switch)], switch.lossless)
    watchdog = config.rows("PFC_WD").get(next(_names(switch)), {})
    return Values(
        xoff,
        max(_bytes(row, "xon_offset") for row in every) or 3072,
        max(max(_bytes(row, "size") - private * _bytes(row, "xoff"), 0) for row in every),
        (shared or better.pool) if switch.shares else 0,
        2.0 ** thresholds[0] if thresholds else better.alpha,
        *(wred or (switch.buffer, switch.buffer, 100)),
        number(watchdog.get("detection_time"), 1, 60_000) or 0,
        number(config.rows("PFC_WD").get("GLOBAL", {}).get("POLL_INTERVAL"), 1, 60_000) or 0,
        "forward" if watchdog.get("action") in ("forward", "alert") else "drop",
    )


def scheme(switch: Switch, values: Values, servers: tuple[Ports, ...], dcqcn: dict[str, Any]) -> dict[str, Any]:
    """The table [scheme] of a spec: DCQCN with these settings.  `servers`: kinds of ports to hosts, of a leaf."""
    ecn = {"k_min": values.k_min, "k_max": values.k_max, "p_max": values.p_max / 100}
    return {"name": "dcqcn", "ecn": ecn, "pfc": _pfc(switch, values, servers)} | ({"dcqcn": dcqcn} if dcqcn else {})


def _pfc(switch: Switch, values: Values, servers: tuple[Ports, ...]) -> dict[str, Any]:
    """Of ports of one rate with several cables it has the headroom of those that lack most of what they need, or the largest."""
    to_hosts = _by_rate(switch, values, [kind for kind in switch.ports if kind in servers])
    others = _by_rate(switch, values, [kind for kind in switch.ports if kind not in servers])
    rates = sorted({*to_hosts, *others}, reverse=True)[:MOST_RATES]
    table: dict[str, Any] = {
        "priorities": 8,
        "lossless": list(switch.lossless),
        "alpha": values.alpha,
        "xon": values.xon,
        "priority_reserve": [values.reserve if i in switch.lossless else 0 for i in range(8)],
        "rates": [f"{gbps}Gbps" for gbps in rates],
        "rate_headroom": [others.get(gbps) or to_hosts[gbps] for gbps in rates],
    }
    if others and to_hosts:
        table["host_headroom"] = [to_hosts.get(gbps) or others[gbps] for gbps in rates]
    if values.pool:
        table["headroom_pool"] = values.pool
    return table | _parts(switch)


def _parts(switch: Switch) -> dict[str, Any]:
    """What the platform's data have of response and cells.

    Of responses that differ by rate it is the shortest. Cells take as much of the buffer as the platform's formula says.
    """
    of, table = switch.platform, dict[str, Any]()
    responses = _responses(switch)
    if responses:
        table["response"] = f"{min(responses):g}ns"
    if of.cell:
        table["cell"] = of.cell
    if of.cell and of.formula:
        full, worst = (ByHand(LARGEST_MTU, 0, of.cell, small).blow_up for small in (0.0, 1.0))
        share = (of.formula.blow_up - full) / (worst - full)
        table["small_packets"] = round(min(max(share, 0.0), 1.0), 4)
    return table


def _responses(switch: Switch) -> list[float]:
    found = [switch.platform.response_ns(kind.gbps) for kind in switch.ports]
    return sorted({time for time in found if time is not None})


def not_simulated(switch: Switch) -> list[str]:
    """Which of cable, response and cells a simulation of the switch does not have, in a line; none, if it has all three."""
    of = switch.platform
    out: list[str] = []
    responses = _responses(switch)
    known = {"response": bool(responses), "cells": of.cell > 0 or isinstance(of.formula, ByHand)}
    missing = [what for what, there in known.items() if not there]
    if missing:
        there = " and ".join(["cable", *(what for what, found in known.items() if found)])
        lacks = f"{' and '.join(missing)} of {of.name}: not known"
        out.append(f"{lacks}, so that of cable, response and cells only {there} can be simulated, which is optimistic")
    if len(responses) > 1:
        slower = f"up to {responses[-1]:.0f} ns at slower ports"
        out.append(f"the response is simulated as {responses[0]:.0f} ns at all ports; it is {slower}, so that is optimistic")
    return out


def watchdog(values: Values) -> dict[str, Any]:
    """Keys of pfc for its watchdog, with a microsecond for each millisecond; none, if there is none."""
    if not values.detection_ms:
        return {}
    time, poll = f"{values.detection_ms}us", f"{values.poll_ms}us"
    return {"watchdog": time, "restoration": time, "poll": poll, "action": values.action}


def _by_rate(switch: Switch, values: Values, kinds: list[Ports]) -> dict[int, int]:
    found: dict[int, tuple[float, int]] = {}
    for kind in kinds:
        size = values.xoff[switch.ports.index(kind)]
        need = switch.platform.at_port(kind.mtu).headroom(kind.gbps, kind.metres).total
        rank = (min(size / need, 1.0), -size)
        found[kind.gbps] = min(found.get(kind.gbps, rank), rank)
    return {gbps: -size for gbps, (_, size) in found.items()}


def _names(switch: Switch) -> Iterator[str]:
    yield from (name for kind in switch.ports for name in kind.names)


def _lossless(ports: dict[str, Port], switch: Switch, kind: Ports) -> list[tuple[Port, int]]:
    """The ports of a kind with each of their lossless priorities."""
    return [(ports[name], i) for name in kind.names for i in sorted(ports[name].pfc & set(switch.lossless))]


def _profile(config: Config, port: Port, priority: int) -> dict[str, Any]:
    return config.rows("BUFFER_PROFILE").get(port.groups.get(group_of(config, port, priority), ""), {})


def _own(one: Class) -> dict[str, Any]:
    """The profile that SONiC computes."""
    return {"xoff": str(one.xoff), "size": str(one.size), "xon_offset": str(one.xon_offset or 0)}


def _bytes(row: dict[str, Any], name: str) -> int:
    return number(row.get(name)) or 0
