"""The simulation of a switch with its settings: a spec and its network, to run, to sweep, and to change."""

from __future__ import annotations

from penstock_net.advise.network import star
from penstock_net.advise.settings import Advice
from penstock_net.advise.values import LARGEST_MTU, advised, not_simulated, scheme
from penstock_net.spec.toml import write_toml

NETWORK = "network.txt"


def files(advice: Advice) -> dict[str, str]:
    """spec.toml and network.txt: a host at each port with PFC, an incast to the first one, and bystanders."""
    switch = advice.switch
    priority = switch.lossless[0]
    fan_in = max(min(switch.fan_in if switch.fan_in > 1 else 16, switch.count - 1), 1)
    incast = {"kind": "incast", "fan_in": fan_in, "size": "1MB", "every": "1ms", "receivers": ["h0"], "priority": priority}
    around = {"kind": "permutation", "bytes": "200KB", "class": "bystanders", "priority": priority}
    spec = {
        "run": {"duration": "100us", "max_time": "50ms"},
        "topology": {"file": NETWORK, "buffer": f"{switch.buffer}B"},
        "scheme": scheme(switch, advised(advice), (), {}),
        "workload": [incast, around] if switch.count > 1 else [],
        "host": {"mtu": LARGEST_MTU},
    }
    notes = "".join(f"# {line}\n" for line in not_simulated(switch))
    return {"spec.toml": notes + write_toml(spec), NETWORK: star(switch).text} if switch.count > 1 else {}
