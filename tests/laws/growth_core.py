"""The core as plain Python: what it does for flows, hosts, packets and timers.

    python tests/laws/growth_core.py   for every case: its counts at three sizes, as JSON

A process of its own, since the interpreted core takes the place of the compiled one.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from growth import HOMES, Stage, Work, lines, three

import penstock_net as ps

CORE = tuple(f"{HOMES[0]}/{folder}/" for folder in ("fabric", "schemes", "sim/core"))
SCHEMES = [
    "backdraft",
    "bfc_tofino2",
    "dcpim",
    "dcqcn",
    "dqa",
    "expresspass",
    "floodgate",
    "homa",
    "hpcc",
    "ndp",
    "pfabric",
    "pfc",
]
SCHEMES += ["phost", "sird", "swift", "timely"]


@dataclass
class Case:
    """Flows, of a size, that start in a star of so many hosts."""

    flows: list[dict[str, Any]]
    hosts: int = 3
    scheme: str = "bfc"
    options: dict[str, Any] = field(default_factory=dict)


def flow(src: int, dst: int, size: int = 100, **more: Any) -> dict[str, Any]:
    return {"src": src, "dst": dst, "bytes": size, **more}


def thinking(flows: int) -> Case:
    """Flows of one host that wait for their time, all at once, one after another: think times."""
    later = [flow(0, 1, after=[0], gap=f"{3 * (i * 7 % flows)}us") for i in range(flows)]
    return Case([flow(1, 0), *later], scheme="fifo")


def dependent(flows: int) -> Case:
    return Case([flow(i % 2, 1 - i % 2, after=[i - 1] * (i > 0)) for i in range(flows)])


def fan_in(hosts: int) -> Case:
    return Case([flow(i, 0, 1500) for i in range(1, hosts)], hosts, "pfc")


def fan_in_of_bfc(hosts: int) -> Case:
    return Case([flow(i, 0, 1500) for i in range(1, hosts)], hosts)


def together(flows: int) -> Case:
    """Flows of a host at once: more than its NIC has queues."""
    return Case([flow(0, 1 + i % 2, 1500) for i in range(flows)])


def in_turn(flows: int) -> Case:
    return Case([flow(0, 1, start=f"{20 * i}us") for i in range(flows)])


def idle(hosts: int) -> Case:
    return Case([flow(0, 1, 1500)], hosts)


def idle_by_destination(hosts: int) -> Case:
    """NICs with a queue for each destination."""
    return Case([flow(0, 1, 1500)], hosts, "floodgate:ideal")


def packets(number: int) -> Case:
    return Case([flow(0, 1, 1000 * number)])


def everybody(hosts: int) -> Case:
    """A flow from each host to the next one."""
    return Case([flow(i, (i + 1) % hosts, 1500) for i in range(hosts)], hosts)


def sampled(us: int) -> Case:
    return Case([flow(0, 1), flow(0, 1, start=f"{us}us")], options={"measure": ps.Measure(port_series=True, flow_series=True)})


def with_scheme(scheme: str) -> Callable[[int], Case]:
    """Flows of two hosts to one, under a scheme: its queues, timers, credits."""
    return lambda flows: Case([flow(i % 2, 2, 1500) for i in range(flows)], scheme=scheme)


def simulated(case: Callable[[int], Case]) -> Callable[[int], Work]:
    def stage(size: int) -> Work:
        made = case(size)
        topo = ps.star(hosts=made.hosts)
        flows = ps.flow_list(topo, made.flows)
        options = {"measure": ps.Measure(sample="0s")} | made.options
        return lambda: ps.simulate(topo, flows, made.scheme, **options)

    return stage


STAGES = [
    Stage("flows of a host that wait for their time", simulated(thinking), (12, 4)),
    Stage("dependent flows", simulated(dependent), (12, 4)),
    Stage("fan-in", simulated(fan_in), (4, 3)),
    Stage(
        "fan-in under bfc",
        simulated(fan_in_of_bfc),
        (4, 2),
        {"lines": 1.4},
        "all senders are told again what is paused, as long as it lasts",
    ),
    Stage("flows of a host at once", simulated(together), (12, 4)),
    Stage("flows of a host, one after another", simulated(in_turn), (12, 4)),
    Stage("idle hosts", simulated(idle), (4, 3)),
    Stage("idle hosts with queues by destination", simulated(idle_by_destination), (8, 4)),
    Stage("hosts that send", simulated(everybody), (4, 2)),
    Stage("packets of a flow", simulated(packets), (4, 3)),
    Stage("samples of a network that is idle", simulated(sampled), (20, 3)),
    *(Stage(f"flows under {name}", simulated(with_scheme(name)), (16 if name == "ndp" else 4, 2)) for name in SCHEMES),
]


def counts(stage: Stage) -> list[int]:
    stage.work(stage.sizes[0])()
    return [lines(stage.work(size), CORE)[0] for size in three(stage.sizes)]


if __name__ == "__main__":
    from penstock_net.sim.interpreted import install

    install()
    print(json.dumps({stage.name: counts(stage) for stage in STAGES}))
