"""The simulation of a switch with its settings: a spec and its network, to run, to sweep, and to change."""

from __future__ import annotations

from typing import Any

from penstock_net.advise.formulas import Fit, Sonic
from penstock_net.advise.platform import ByHand
from penstock_net.advise.settings import Advice
from penstock_net.spec.toml import write_toml

NETWORK = "network.txt"


def files(advice: Advice) -> dict[str, str]:
    """spec.toml and network.txt: a host at each port with PFC, an incast to the first one, and bystanders."""
    switch = advice.switch
    links = [
        f"h{number} switch {kind.gbps}Gbps {kind.metres}m"
        for number, kind in enumerate(kind for kind in switch.ports for _ in kind.names)
    ]
    priority = switch.lossless[0]
    fan_in = max(min(switch.fan_in if switch.fan_in > 1 else 16, switch.count - 1), 1)
    incast = {"kind": "incast", "fan_in": fan_in, "size": "1MB", "every": "1ms", "receivers": ["h0"], "priority": priority}
    around = {"kind": "permutation", "bytes": "200KB", "class": "bystanders", "priority": priority}
    spec = {
        "run": {"duration": "100us", "max_time": "50ms"},
        "topology": {"file": NETWORK, "buffer": f"{switch.buffer}B"},
        "scheme": {
            "name": "dcqcn",
            "ecn": {"k_min": advice.k_min, "k_max": advice.k_max, "p_max": advice.p_max / 100},
            "pfc": _pfc(advice),
        },
        "workload": [incast, around] if switch.count > 1 else [],
        "host": {"mtu": 4096},
    }
    return {"spec.toml": write_toml(spec), NETWORK: "\n".join(links) + "\n"} if switch.count > 1 else {}


def _pfc(advice: Advice) -> dict[str, Any]:
    """What the simulator's PFC has of the settings; of ports of one rate with several cables it has the largest headroom."""
    switch, formula = advice.switch, advice.switch.platform.formula
    largest: dict[int, int] = {}
    for one in advice.classes:
        largest[one.ports.gbps] = max(largest.get(one.ports.gbps, 0), one.xoff)
    rates = dict(sorted(largest.items(), reverse=True)[:8])
    reserve = max(one.size if switch.shares else one.size - one.xoff for one in advice.classes)
    table: dict[str, Any] = {
        "priorities": 8,
        "lossless": list(switch.lossless),
        "alpha": 2.0**advice.dynamic_th,
        "xon": max(one.xon_offset or 0 for one in advice.classes) or 3072,
        "priority_reserve": [reserve if i in switch.lossless else 0 for i in range(8)],
        "rates": [f"{gbps}Gbps" for gbps in rates],
        "rate_headroom": list(rates.values()),
    }
    if switch.shares:
        table["headroom_pool"] = advice.budget.headroom
    if isinstance(formula, Fit | ByHand):
        table["response"] = f"{formula.response_ns:g}ns"
    if isinstance(formula, Sonic) or (isinstance(formula, ByHand) and formula.cell):
        table["cell"] = formula.cell
    return table
