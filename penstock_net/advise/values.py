"""What a simulation has of a switch's settings: those that are advised, and those that a configuration has now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock_net.advise.formulas import Fit, Sonic
from penstock_net.advise.platform import ByHand
from penstock_net.advise.settings import Advice
from penstock_net.advise.site import Ports, Switch
from penstock_net.advise.sonic import Config, Port, group_of, lossless_pool, name_in, number, ports_of, queue_of

MOST_RATES = 8
NO_HEADROOM = 1  # byte: 0 would be the simulator's own
MARKS = ("all", "green", "green_yellow", "green_red")


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
    profiles = [[_profile(config, port, i) for port, i in _lossless(ports, switch, kind)] for kind in switch.ports]
    every = [row for rows in profiles for row in rows]
    xoff = tuple(max(min(_bytes(row, "xoff") for row in rows), NO_HEADROOM) for rows in profiles)
    private = 0 if switch.shares else 1
    thresholds = [found for row in every if (found := number(row.get("dynamic_th"), -8, 7)) is not None]
    shared = number(config.rows("BUFFER_POOL").get(lossless_pool(config), {}).get("xoff")) or 0
    wred = next(_marking(config, ports, switch), None)
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
    formula = switch.platform.formula
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
    if isinstance(formula, Fit | ByHand):
        table["response"] = f"{formula.response_ns:g}ns"
    if isinstance(formula, Sonic) or (isinstance(formula, ByHand) and formula.cell):
        table["cell"] = formula.cell
    return table


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
        need = switch.platform.headroom(kind.gbps, kind.metres).total
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


def _bytes(row: dict[str, Any], name: str) -> int:
    return number(row.get(name)) or 0


def _marking(config: Config, ports: dict[str, Port], switch: Switch) -> Iterator[tuple[int, int, int]]:
    """K_min, K_max and P_max of each lossless queue that marks."""
    for kind in switch.ports:
        for port, i in _lossless(ports, switch, kind):
            queue = port.queues.get(queue_of(config, port, i), {})
            row = config.rows("WRED_PROFILE").get(name_in(queue.get("wred_profile", "")), {})
            low, high = number(row.get("green_min_threshold")), number(row.get("green_max_threshold"))
            if str(row.get("ecn", "")).removeprefix("ecn_") in MARKS and low is not None and high is not None and low <= high:
                percent = number(row.get("green_drop_probability"), 0, 100)
                yield low, high, 100 if percent is None else percent
