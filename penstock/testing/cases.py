"""Tiny cases and the digest of a run: the same from the compiled and the interpreted core, on any number of threads."""

import hashlib
import json
from pathlib import Path
from typing import Any

from penstock.composition import parse
from penstock.results.run import Run
from penstock.sim.config import HostConfig, Measure
from penstock.sim.simulate import simulate
from penstock.topology import build
from penstock.workload import flow_list


def run_case(case: dict[str, Any], threads: int = 1) -> Run:
    """Run {"topology": table, "flows": [(src, dst, bytes, start)...], "scheme": name, "parameters": {}, ...}."""
    topo = build(case["topology"])
    flows = flow_list(topo, [tuple(f) for f in case["flows"]])
    scheme = parse(case["scheme"], case.get("parameters"))
    return simulate(
        topo,
        flows,
        scheme,
        seed=case.get("seed", 1),
        threads=threads,
        control_loss=case.get("control_loss", 0.0),
        measure=Measure(sample="5us", pauses=True),
        host=HostConfig(**case.get("host", {})),
    )


def digest(run: Run) -> dict[str, Any]:
    """Everything that must not differ, in short: results of flows, counters of ports, samples, pauses."""
    frames = {"flows": run.flows, "ports": run.ports, "switches": run.switches, "pauses": run.pauses}
    out: dict[str, Any] = {}
    for name, frame in frames.items():
        assert frame is not None
        text = frame.write_csv(float_precision=3)
        out[name] = hashlib.sha256(text.encode()).hexdigest()[:16]
    out |= {k: run.summary[k] for k in ("packet_hops", "drops", "flows_finished", "retransmissions", "max_buffer_bytes")}
    out["pauses_sent"] = int(run.ports["pauses_sent"].sum())
    out["control_bytes"] = int(run.ports["control_bytes"].sum())
    out["max_voqs"] = int(run.frame("nodes")["max_voqs"].max())  # type: ignore[arg-type]
    out["ecn_marks"] = int(run.ports["ecn_marks"].sum())
    out["warnings"] = run.summary["warnings"]
    return out


def print_digest(path: str) -> None:
    """For `python -m penstock.sim.interpreted CASE.json`."""
    print(json.dumps(digest(run_case(json.loads(Path(path).read_text())))))
