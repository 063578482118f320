"""What a switch is to be set to: each setting with its reason and its source; and what that leaves of the buffer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, floor

from penstock_net.advise.formulas import Parts, Sonic
from penstock_net.advise.platform import ByHand
from penstock_net.advise.site import Ports, Switch
from penstock_net.errors import SpecError
from penstock_net.units import format_size

# SONiC's default, files/build_templates/qos_config.j2: bytes, bytes, percent.
K_MIN, K_MAX, P_MAX = 1_048_576, 2_097_152, 5
DETECTION_MS, DETECTION_PORTS, LONGEST_POLL_MS = 200, 32, 1000


@dataclass(frozen=True)
class Class:
    """Ports of one kind with the profile of their lossless priorities, in bytes."""

    ports: Ports
    xoff: int
    xon: int
    xon_offset: int | None
    size: int
    parts: Parts | None
    reason: str
    source: str


@dataclass(frozen=True)
class Budget:
    """The buffer of a switch, in bytes: pool + headroom + reserve are the buffer.

    promised  all headrooms together     headroom  what is set aside for them     reserve  of all priorities of all ports
    pool      what is left to share; below zero: it does not fit
    """

    buffer: int
    promised: int
    headroom: int
    reserve: int
    pool: int


@dataclass(frozen=True)
class Row:
    """One setting: `of` names the ports that it is for."""

    setting: str
    of: str
    value: str
    reason: str
    source: str


@dataclass(frozen=True)
class Advice:
    """All of a switch.  k_min, k_max in bytes, p_max in percent, watchdog times in ms."""

    switch: Switch
    classes: tuple[Class, ...]
    budget: Budget
    dynamic_th: int
    k_min: int
    k_max: int
    p_max: int
    detection_ms: int
    poll_ms: int
    simulated: str = ""  # why, if a simulation has chosen ECN

    @property
    def fits(self) -> bool:
        """Whether the buffer is known, and something of it is left to share."""
        return self.switch.buffer > 0 and self.budget.pool > 0


def advise(switch: Switch) -> Advice:
    """The settings of a switch.  SpecError: its platform has neither a row nor a formula for a port."""
    classes = tuple(_class(switch, kind) for kind in switch.ports)
    budget = _budget(switch, classes)
    threshold = switch.platform.table.get("dynamic_th", 0)
    k_min, k_max, p_max = _ecn(switch, budget.pool, 2.0**threshold)
    detection = detection_ms(switch.count)
    poll = min(detection, LONGEST_POLL_MS)
    return Advice(switch, classes, budget, threshold, k_min, k_max, p_max, detection, poll)


def detection_ms(ports: int) -> int:
    """SONiC's detection and restoration time for so many ports with PFC (`pfcwd start_default`), at most 5000 ms."""
    return min(DETECTION_MS * max(1, ceil(ports / DETECTION_PORTS)), 5000)


def share(pool: float, alpha: float, n: int) -> float:
    """Bytes that each of n ingresses holds when all of them are at their thresholds."""
    return alpha * pool / (1 + n * alpha)


def _class(switch: Switch, kind: Ports) -> Class:
    of = switch.platform.at_port(kind.mtu)
    found = of.headroom(kind.gbps, kind.metres)
    if kind.dynamic:
        found = replace(found, reason=f"{found.reason}, with PORT mtu {kind.mtu} B")
    values = of.profile(found, kind.lanes, switch.shares)
    offset = values.get("xon_offset")
    return Class(kind, found.total, values["xon"], offset, values["size"], found.parts, found.reason, found.source)


def _budget(switch: Switch, classes: tuple[Class, ...]) -> Budget:
    each = [(len(one.ports.names) * len(switch.lossless), one) for one in classes]
    promised = sum(count * one.xoff for count, one in each)
    reserve = sum(count * (one.size if switch.shares else one.size - one.xoff) for count, one in each)
    headroom = switch.pool or ceil(promised / (switch.ratio or 1))
    return Budget(switch.buffer, promised, headroom, reserve, switch.buffer - headroom - reserve)


def _ecn(switch: Switch, pool: int, alpha: float) -> tuple[int, int, int]:
    """K_min, K_max, P_max: those that the switch has, if a queue is marked before its ingress pauses, or the default."""
    now, limit = switch.marking, share(max(pool, 0), alpha, switch.fan_in)
    if now and now[2] and (now[1] <= limit or not switch.buffer):
        return now
    return (*(default_marking(pool, alpha, switch.fan_in) if switch.buffer else (K_MIN, K_MAX)), P_MAX)


def default_marking(pool: int, alpha: float, n: int) -> tuple[int, int]:
    """K_min, K_max: SONiC's default, or less, in the same ratio, so that a queue is marked before its ingress pauses."""
    limit = floor(share(max(pool, 0), alpha, n))
    return (K_MIN, K_MAX) if limit >= K_MAX or limit < 2 else (limit // 2, limit)


def rows(advice: Advice) -> list[Row]:
    """All settings with their reasons."""
    out: list[Row] = []
    switch, budget = advice.switch, advice.budget
    table = f"shipped table of {switch.platform.name}" if switch.platform.table else "SONiC's default"
    profile = {Sonic: "SONiC's formula: latency of the pipeline", ByHand: "by hand: one and two largest packets"}
    own = profile.get(type(switch.platform.formula), table)
    for one in advice.classes:
        of = one.ports.text
        out.append(Row("xoff", of, f"{one.xoff} B", one.reason, one.source))
        what = "beside the pool of headroom" if switch.shares else "xoff included"
        out.append(Row("size", of, f"{one.size} B", f"the priority's own, {what}", own))
        offset = f", offset {one.xon_offset} B" if one.xon_offset is not None else ""
        out.append(Row("xon", of, f"{one.xon} B{offset}", "resumes at the larger of xon and threshold - offset", own))
    everywhere = "all ports"
    for setting in ("size", "xon"):
        alike = [row for row in out if row.setting == setting]
        if len({row.value for row in alike}) == 1:
            out = [row for row in out if row.setting != setting] + [replace(alike[0], of=everywhere)]
    if switch.shares:
        times = f", {budget.promised / budget.headroom:.2f} : 1" if budget.promised > budget.headroom else ""
        why = f"{budget.promised} B promised{times}"
        source = table if switch.pool == switch.platform.table.get("headroom_pool") else "as it is" if switch.pool else "site"
        out.append(Row("pool of headroom", everywhere, f"{budget.headroom} B", why, source))
    if switch.buffer:
        why = f"{budget.buffer} - {budget.headroom} headroom - {budget.reserve} reserve"
        out.append(Row("pool", everywhere, f"{budget.pool} B", why, "sum"))
    alpha = 2.0**advice.dynamic_th
    out.append(Row("dynamic_th", everywhere, str(advice.dynamic_th), f"alpha = 2^{advice.dynamic_th} = {alpha:g}", table))
    marking = {"K_min": f"{advice.k_min} B", "K_max": f"{advice.k_max} B", "P_max": f"{advice.p_max} %"}
    reasons, source = _why_marking(advice, alpha)
    for (setting, value), reason in zip(marking.items(), reasons):
        said = (advice.simulated, "simulation") if advice.simulated else (reason, source)
        out.append(Row(setting, everywhere, value, *said))
    why = f"{DETECTION_MS} ms x ceil({switch.count} / {DETECTION_PORTS}); restoration the same, poll {advice.poll_ms} ms"
    out.append(Row("watchdog", everywhere, f"{advice.detection_ms} ms, drop", why, "SONiC's pfcwd start_default"))
    return out


def _why_marking(advice: Advice, alpha: float) -> tuple[tuple[str, str, str], str]:
    """Reasons of K_min, K_max and P_max, and their source."""
    switch, pool = advice.switch, max(advice.budget.pool, 0)
    kept = switch.marking == (advice.k_min, advice.k_max, advice.p_max)
    default = (advice.k_min, advice.k_max, advice.p_max) == (K_MIN, K_MAX, P_MAX)
    limit = share(pool, alpha, switch.fan_in)
    at = f"{alpha:g} x {format_size(pool)} / (1 + {switch.fan_in} x {alpha:g}) = {format_size(limit, digits=4)}"
    where = "below" if kept or default else "kept at"
    why = f"{where} what an ingress holds when it pauses: {at}"
    if not switch.buffer:
        why = "the buffer is not known: a smaller one may pause before"
    low = f"{advice.k_min / advice.k_max:.3g} of K_max" if kept and advice.k_max else "half of K_max"
    source = "as it is" if kept and not default else "SONiC's default" if default else "SONiC's default, scaled down"
    return (low, why, "of packets at K_max"), source


def assumed(switch: Switch) -> str:
    """Which packets the headroom is for; ports may differ in their MTU."""
    return "; or ".join(dict.fromkeys(switch.platform.at_port(kind.mtu).assumes for kind in switch.ports))


def remarks(advice: Advice) -> list[str]:
    """What the headroom assumes, whether the rows are those of this hardware, what is not known, and when a pool runs out."""
    switch = advice.switch
    of = switch.platform
    out = [f"headroom is for: {assumed(switch)}"]
    if not of.holds_for(switch.hwsku):
        out.append(f"its rows are those of {', '.join(of.holds)}; {switch.hwsku} may have others")
    if not switch.buffer:
        out.append("the buffer is not known, so the pool is not said and no rows are written: give buffer, what packets may take")
    return [*out, *runs_out(advice)]


def runs_out(advice: Advice) -> list[str]:
    """How much the pool of headroom is good for: ports at the same time, and how long cables may be."""
    switch, budget = advice.switch, advice.budget
    out: list[str] = []
    if not switch.shares:
        return out
    for one in advice.classes:
        most = budget.headroom // one.xoff
        all_of = len(one.ports.names) * len(switch.lossless)
        kind = f"{one.ports.gbps}G, {one.ports.metres} m"
        if most < all_of:
            out.append(
                f"{kind}: the pool of headroom is full when {most + 1} of {all_of} priorities of ports fill theirs at once"
            )
        else:
            out.append(f"{kind}: the pool of headroom holds all {all_of} at once")
        senders = min(switch.fan_in, len(one.ports.names))
        if senders > 1:
            longest = _longest(advice, one, senders)
            where = f"with cables above {longest} m" if longest else "with any cable"
            out.append(f"{kind}: {senders} senders at once fill it {where}")
    return out


def _longest(advice: Advice, one: Class, senders: int) -> int:
    """The longest cable, in metres up to 100 km, with which the pool holds the headrooms of so many ports; 0: none."""

    def holds(metres: int) -> bool:
        try:
            need = advice.switch.platform.at_port(one.ports.mtu).headroom(one.ports.gbps, metres).total
        except SpecError:
            return False
        return need * senders <= advice.budget.headroom

    low, high = 0, 100_000
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def why_not(advice: Advice) -> str:
    """Why headrooms and reserves leave nothing, and what would; "": they do."""
    budget, switch = advice.budget, advice.switch
    if advice.fits or not switch.buffer:
        return ""
    text = f"headroom {format_size(budget.headroom)} and reserve {format_size(budget.reserve)} leave nothing of the buffer, "
    text += f"{format_size(budget.buffer)}: {format_size(-budget.pool)} too much"
    left = budget.buffer / 2 - budget.reserve
    if left <= 0:
        return f"{text}; the reserves alone take half of it: fewer ports or priorities"
    ratio = ceil(2 * budget.promised / left) / 2
    return f'{text}; shared_headroom = "{max(ratio, 1.5):g}:1" leaves half of it to share' + (
        "" if switch.shares else " (a burst from all ports at once then loses packets)"
    )
