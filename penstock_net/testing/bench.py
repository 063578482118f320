"""Packet-hops per second on fixed scenarios, as reported in docs/performance.md.

A packet-hop is one packet from host to host that crosses one link: data, ACK, or a control frame such as a credit, token, grant
or pull, which transports that receivers drive have in place of ACKs.  Frames between neighbours, such as pauses, are not counted.
Every measurement runs in a process of its own, so that peak memory is that of one run; the time is that of the event loop,
without building the network or collecting results.
"""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from penstock_net.errors import SpecError, nearest

FLOW_BYTES = 1_000_000
EVENT_LOOP = "--toggle-collect=*engine_run_windows*"  # callgrind counts in this function and in what it calls
# flows of 1 MB, load of the core links (ls128) or of the host links (others), in 100 Gbit/s; fg160 is Floodgate's network
# and begins with an incast of 720 flows. In the last two all hosts begin at once: "pattern" says what they send.
SCENARIOS: dict[str, dict[str, Any]] = {
    "ls128": {
        "topology": {"kind": "leaf_spine", "hosts": 128, "tors": 8, "spines": 8},
        "flows": 2000,
        "load_of": 64,
        "load": 0.6,
    },
    "ft1024": {"topology": {"kind": "fat_tree", "k": 16}, "flows": 3000, "load_of": 1024, "load": 0.4},
    "fg160": {
        "topology": {
            "kind": "leaf_spine",
            "hosts": 160,
            "tors": 10,
            "spines": 4,
            "uplink_rate": "400Gbps",
            "delay": "600ns",
            "buffer": "20MB",
        },
        "flows": 3000,
        "load_of": 160,
        "load": 0.8,
        "incast": 720,
    },
    "rails1024": {
        "topology": {"kind": "rails", "servers": 128, "segment": 32, "spines": 16, "ports": 2, "rate": "200Gbps"},
        "flows": 3000,
        "load_of": 4096,
        "load": 0.4,
    },
    "dragonfly1056": {
        "topology": {"kind": "dragonfly", "p": 4, "a": 8, "h": 4},
        "flows": 3000,
        "load_of": 1056,
        "load": 0.4,
    },
    "permutation8192": {
        "topology": {"kind": "leaf_spine", "hosts": 8192, "tors": 128, "spines": 64, "rate": "400Gbps", "buffer": "64MB"},
        "pattern": "permutation",
        "bytes": FLOW_BYTES,
        "host": {"mtu": 4000},
    },
    "all_to_all1024": {"topology": {"kind": "fat_tree", "k": 16}, "pattern": "all_to_all", "bytes": 1000},
}
GENERAL = ("fifo", "pfc", "bfc", "hpcc", "dcqcn", "dctcp", "ideal_fq")
RIVALS = (
    "dcqcn+floodgate",
    "dcqcn+pfc_tagged",
    "dcqcn+cbfc",
    "pyrrha",
    "backdraft",
    "timely",
    "swift",
    "bolt",
    "powertcp",
    "theta_powertcp",
    "pias",
    "pfabric",
    "homa",
    "sird",
    "dcpim",
    "ndp",
    "phost",
    "expresspass",
    "hpcc+recovery:irn",
    "hpcc+recovery:perfect",
    "hpcc+sfq",
    "pfc+ets",
    "bfc+srf",
    "bfc_tofino2",
    "dctcp+dynamic_threshold",
    "pfc+window_cap+spray",
    "hpcc+flowlet",
    "bfc+rtt_target",
    "pfc+valiant",
    "pfc+dimension_order",
    "uec+mixed",
    "uec:rccc+mixed",
    "uec:both+mixed",
    "mrc",
    "ndp+reps",
    "ecn+oblivious",
    "dctcp+plb",
    "dctcp+least_queue",
    "dcqcn+conweave",
    "fncc",
)
SCHEMES = {
    "ls128": (*GENERAL, *RIVALS),
    "ft1024": GENERAL,
    "fg160": ("dcqcn", "dcqcn+floodgate", "dcqcn+floodgate:ideal", "hpcc+floodgate", "dcqcn+pfc_tagged", "bfc"),
    "rails1024": ("fifo", "bfc", "hpcc"),
    "dragonfly1056": ("fifo", "bfc", "valiant+pfc", "valiant:ugal+pfc", "valiant:minimal+pfc"),
    "permutation8192": ("dctcp+spray",),
    "all_to_all1024": ("fifo", "bfc", "hpcc"),
}
INCAST_BYTES = 51_100


def flows_of(scenario: str, count: int | None = None) -> tuple[Any, Any]:
    """The topology and the flows of a scenario: uniform pairs and start times; `count` flows instead of the scenario's.

    Where there is a pattern: what all hosts send, or the first `count` of them.
    """
    from penstock_net import workload
    from penstock_net.topology import build
    from penstock_net.workload import Flows

    spec = SCENARIOS[scenario]
    topo = build(spec["topology"])
    if "pattern" in spec:
        return topo, getattr(workload, spec["pattern"])(topo, bytes=spec["bytes"], hosts=range(count or topo.hosts))
    n = count or spec["flows"]
    rng = np.random.default_rng(1)
    span = n * FLOW_BYTES * 80 / (spec["load"] * spec["load_of"])
    src = rng.integers(0, topo.hosts, n)
    start = np.sort(rng.integers(0, int(span), n))
    dst = (src + 1 + rng.integers(0, topo.hosts - 1, n)) % topo.hosts
    size = np.full(n, FLOW_BYTES)
    crowd = slice(0, spec.get("incast", 0) if count is None else 0)
    src[crowd] = src[crowd] // 2 + topo.hosts // 2
    dst[crowd], start[crowd], size[crowd] = 0, 0, INCAST_BYTES
    return topo, Flows(
        start_ps=start,
        src=src,
        dst=dst,
        bytes=size,
        class_id=np.zeros(n, np.int8),
        priority=np.zeros(n, np.int8),
        classes=("poisson",),
        after=None,
        nominal=[],
    )


def measure(scenario: str, scheme: str, threads: int, count: int | None = None) -> dict[str, Any]:
    """One run in this process: packet-hops, wall and CPU time of the event loop, CPU time of all of it (s), packet-hops/s,
    peak memory (MB), finished flows."""
    from penstock_net.composition import parse
    from penstock_net.sim import results
    from penstock_net.sim.config import HostConfig, Measure
    from penstock_net.sim.settings import Settings
    from penstock_net.sim.simulate import Runner

    topo, flows = flows_of(scenario, count)
    end = int(flows.start_ps[-1]) + 1
    measured, host = Measure(sample="0us"), HostConfig(**SCENARIOS[scenario].get("host", {}))
    runner = Runner(Settings(topo, flows, parse(scheme), threads=threads, duration_ps=end, measure=measured, host=host))
    began = time.perf_counter(), time.process_time()
    runner.loop()
    wall, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
    summary = results.collect(runner.outcome()).summary
    hops = summary["packet_hops"]
    return {
        "scenario": scenario,
        "scheme": scheme,
        "threads": threads,
        "packet_hops": hops,
        "wall_s": wall,
        "cpu_s": cpu,
        "process_cpu_s": time.process_time(),
        "packet_hops_per_s": hops / wall,
        "peak_memory_MB": summary["peak_memory_bytes"] / 1e6,
        "flows_finished": summary["flows_finished"],
    }


def in_process(arguments: Iterable[Any], prefix: Iterable[str] = ()) -> dict[str, Any]:
    """`measure` in a new process, below the command `prefix`.  SpecError: it failed."""
    command = [*prefix, sys.executable, "-m", "penstock_net.testing.bench", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": "0"})
    if done.returncode:
        raise SpecError(
            f"the benchmark {' '.join(map(str, arguments))} failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"
        )
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def instructions_per_hop(scenario: str, scheme: str) -> float | None:
    """Instructions per packet-hop in the event loop, counted by callgrind, whatever else the machine does; None: no valgrind."""
    if not shutil.which("valgrind"):
        return None
    with tempfile.NamedTemporaryFile() as log:
        prefix = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", f"--log-file={log.name}", EVENT_LOOP)
        hops = in_process((scenario, scheme, 1, 40), prefix)["packet_hops"]
        found = re.search(r"Collected : (\d+)", log.read().decode())
    return int(found[1]) / hops if found else None


def run(
    scenarios: Iterable[str] = tuple(SCENARIOS),
    schemes: Iterable[str] | None = None,
    threads: Iterable[int] = (1, 2),
    repeat: int = 3,
    instructions: bool = False,
) -> list[dict[str, Any]]:
    """The median run of each scenario, scheme (None: those that the scenario is for) and number of threads."""
    rows = []
    for scenario in scenarios:
        if scenario not in SCENARIOS:
            raise SpecError(f'unknown scenario "{scenario}"', remedy=nearest(scenario, SCENARIOS))
        for scheme in schemes or SCHEMES[scenario]:
            for n in threads:
                runs = sorted((in_process((scenario, scheme, n)) for _ in range(repeat)), key=lambda r: r["wall_s"])
                row = runs[len(runs) // 2]
                row["fastest"] = runs[0]["packet_hops_per_s"]
                if instructions and n == 1:
                    row["instructions_per_hop"] = instructions_per_hop(scenario, scheme)
                rows.append(row)
    return rows


def machine() -> str:
    """Processor model, number of processors and Python version of this machine."""
    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as file:
            name = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), name)
    except OSError:
        pass
    return f"{name}, {os.cpu_count()} processors, Python {platform.python_version()}"


if __name__ == "__main__":
    scenario, scheme, threads, *count = sys.argv[1:]
    print(json.dumps(measure(scenario, scheme, int(threads), int(count[0]) if count else None)))
