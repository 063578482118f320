"""A stand-in for the compiled simulator: it returns plausible random runs immediately.

`install(monkeypatch)` puts it in the place of `simulate`, and of what builds topologies, flows and schemes.
"""

import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl

from penstock_net.composition import parse as real_parse
from penstock_net.errors import SpecError, nearest
from penstock_net.results.run import Run
from penstock_net.results.sweep import Sweep

SCHEMES = {"bfc": 1.2, "hpcc": 2.0, "dcqcn": 6.0, "ideal_fq": 1.0, "dctcp": 4.0, "floodgate": 1.5}
HOSTS, SWITCHES = 16, 4
calls: list[dict[str, Any]] = []
interrupt_at: list[str] = []  # names of schemes that a Ctrl-C meets half-way


def topology_build(params: dict[str, Any]) -> Any:
    if params.get("kind") not in ("leaf_spine", "star"):
        kind, known = params.get("kind"), ["leaf_spine", "star"]
        raise SpecError("unknown", path="kind", value=kind, remedy=nearest(kind, known))
    return SimpleNamespace(hosts=HOSTS, switches=SWITCHES, kind=params["kind"], params=params, changes=())


def workload_build(params: Any, topo: Any, duration_ps: int, seed: int, force: bool) -> Any:
    tables = [params] if isinstance(params, dict) else params
    load = sum(table.get("load", 0) for table in tables)
    if load > 1 and not force:
        raise SpecError("more than the network carries", path="load", value=load, remedy="--force runs it all the same")
    return Flows(2000)


class Flows(SimpleNamespace):
    def __init__(self, count: int) -> None:
        super().__init__(count=count, nominal=[], computes=np.arange(count) == 0)

    def __len__(self) -> int:
        return self.count

    def realised(self, topo: Any, duration_ps: int) -> dict[str, Any]:
        return {"flows": self.count, "nominal": self.nominal}


def parse(text: str, overrides: dict[str, Any] | None = None) -> Any:
    for part in text.split("+"):
        name = part.split(":")[0]
        if name not in SCHEMES and not name.endswith(".py"):
            raise SpecError("unknown", path="name", value=name, remedy=nearest(name, SCHEMES))
    values = {"queues": 32}
    for key, value in (overrides or {}).items():
        name = key.removeprefix(f"{text}.")
        if name not in ("queues", "eta"):
            raise SpecError("unknown key", path=key, remedy=nearest(key, ["queues", "eta"]))
        values[name] = value
    # a run's key names what a scheme includes, and worker processes are not faked
    parts = {} if text.endswith(".py") else {part: {} for part in real_parse(text).parts}
    parts[text] = dict(values)
    shown = {f"{text}.{name}": value for name, value in values.items()}
    return SimpleNamespace(name=text, parts=parts, host={}, set_by_user={}, parameters=lambda: shown)


def simulate(
    topo: Any,
    flows: Any,
    *,
    scheme: Any,
    seed: int = 1,
    threads: int = 1,
    duration_ps: int = 10**9,
    drain: bool = True,
    measure: Any = None,
    host: Any = None,
    in_network: Any = None,
    progress: Any = None,
    on_interrupt: str = "raise",
) -> Run:
    calls.append(
        {
            "scheme": scheme,
            "seed": seed,
            "threads": threads,
            "duration_ps": duration_ps,
            "drain": drain,
            "measure": measure,
            "host": host,
        }
    )
    interrupted = False
    try:
        for i in range(1, 11):
            if progress:
                progress(
                    SimpleNamespace(
                        time_ps=duration_ps * i // 10,
                        end_ps=duration_ps,
                        packet_hops=i * 10**6,
                        flows_done=i * len(flows) // 10,
                        flows_total=len(flows),
                        wall_s=i * 0.1,
                        share=i / 10,
                    )
                )
            if i == 5 and scheme.name in interrupt_at:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        interrupted = True
    run = synthetic(scheme.name, len(flows), seed, duration_ps)
    run.summary |= {"threads": threads, "scheme_parameters": scheme.parameters()}
    if interrupted:
        run.summary["interrupted"] = True
        run.summary["warnings"] = ["interrupted at half the time"]
    return run


def synthetic(name: str, count: int = 20000, seed: int = 1, duration_ps: int = 2 * 10**9) -> Run:
    """A random run with the columns of a real one."""
    rng = np.random.default_rng([seed, sum(map(ord, name))])
    bad = SCHEMES.get(name.split("+")[0].split(":")[0], 2.5)
    size = np.clip((10 ** rng.normal(3.8, 1.1, count)).astype(np.int64), 1, 30_000_000)
    start = np.sort(rng.integers(0, duration_ps, count))
    ideal = 8_000_000 + size * 84
    incast = rng.random(count) < 0.05
    delay = rng.exponential(bad - 0.9, count) * np.where(size < 1e5, 1.5, 1) * (1 + incast * 5)
    fct = (ideal * (1 + delay)).astype(int)
    finish = np.where(rng.random(count) < 0.999, start + fct, -1)
    samples = duration_ps // 2_000_000
    times = np.repeat(np.arange(samples) * 2_000_000, SWITCHES)
    level = np.abs(np.sin(times / 3e8)) * rng.exponential(bad * 3e5, len(times))
    ports = np.arange(SWITCHES * 8)
    zero = np.zeros(len(ports), dtype=int)
    return Run.from_arrays(
        {
            "start_ps": start,
            "finish_ps": finish,
            "ideal_ps": ideal,
            "acked_ps": np.where(finish < 0, -1, finish + 4_000_000),
            "ideal_acked_ps": ideal + 4_000_000,
            "src": rng.integers(0, HOSTS, count),
            "dst": rng.integers(0, HOSTS, count),
            "bytes": size,
            "class_id": incast.astype(int),
            "classes": ("poisson", "incast"),
            "priority": np.zeros(count, dtype=int),
        },
        switches={
            "time_ps": times,
            "switch": np.tile(HOSTS + np.arange(SWITCHES), samples),
            "buffer_bytes": level.astype(int),
            "max_queue_bytes": (level / 3).astype(int),
            "active_flows": rng.geometric(0.3, len(times)),
        },
        ports={
            "node": HOSTS + ports // 8,
            "port": ports % 8,
            "peer": ports % HOSTS,
            "tx_bytes": zero + 10**9,
            "ack_bytes": zero + 5 * 10**7,
            "control_bytes": zero + 10**6,
            "tx_packets": zero + 10**6,
            "drops": zero,
            "drop_reason": [None] * len(ports),
            "ecn_marks": zero,
            "pauses_sent": zero,
            "pauses_received": zero,
            "paused_ps": zero,
            "max_queue_bytes": zero + 10**5,
            "utilization": zero + 0.6,
            "window_tx_bytes": zero + 10**9,
            "window_paused_ps": zero,
            "window_max_queue_bytes": zero + 10**5,
        },
        active_flows={
            "node": np.repeat(HOSTS + ports // 8, 60),
            "port": np.repeat(ports % 8, 60),
            "active_flows": np.tile(np.arange(60), len(ports)),
            "samples": np.tile((1000 * 0.85 ** np.arange(60)).astype(int), len(ports)),
        },
        summary={
            "scheme": name,
            "seed": seed,
            "duration_ns": duration_ps / 1000,
            "wall_s": 1.5 * bad,
            "packet_hops": 40_000_000,
            "pfc_pause_fraction": max(0.0, (bad - 1.5) / 100),
            "retransmissions": 0,
            "scheme_parameters": {"queues": 32},
        },
    )


def install(monkeypatch: Any = None) -> None:
    """Replace the simulator, and forget earlier calls."""
    calls.clear()
    interrupt_at.clear()
    patches = (
        ("penstock_net.composition", "parse", parse),
        ("penstock_net.topology", "build", topology_build),
        ("penstock_net.topology.cautions", "cautions", lambda topo: []),
        ("penstock_net.workload", "build", workload_build),
        ("penstock_net.sim.simulate", "simulate", simulate),
        ("penstock_net.sim.settings", "Settings", lambda *_, **__: None),
        ("penstock_net.sim.simulate", "Runner", lambda settings: None),
        ("penstock_net.workload.expected", "Expected", SimpleNamespace(of=lambda topo, flows, mtu: f"{len(flows):,} flows")),
    )
    homes = {home: importlib.import_module(home) for home in (*(home for home, _, _ in patches), "penstock_papers.registry")}
    for home, name, function in patches:  # after the imports, so that no module keeps a replacement as its own name
        if monkeypatch is None:
            setattr(homes[home], name, function)
        else:
            monkeypatch.setattr(homes[home], name, function)


def synthetic_sweep(folder: Path) -> Sweep:
    """Two schemes, two loads, three seeds."""
    rows = []
    for scheme, factor in (("bfc", 1), ("hpcc", 3)):
        for load in (0.4, 0.8):
            for seed in (1, 2, 3):
                key = f"{scheme}-{load}-{seed}"
                run = synthetic(scheme, 200, seed=seed)
                run.flows = run.flows.with_columns(slowdown=pl.col("slowdown") * factor + load)
                run.save(folder / key)
                values = {"short_p99": factor * load + seed, "max_buffer_bytes": 10**6 * seed * factor}
                rows.append({"workload.0.load": load, **values, "scheme": scheme, "seed": seed, "key": key})
    pl.DataFrame(rows).write_parquet(folder / "sweep.parquet")
    return Sweep.load(folder)
