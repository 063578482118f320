"""Tiny cases and the digest of a run, which must be equal for the compiled and the interpreted core, on any number of threads.

python -m penstock_net.testing.cases CASE.json [--interpreted]      # prints the digest
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock_net.results.run import Run
    from penstock_net.sim.simulate import Progress

SUMMARY = ("packet_hops", "drops", "flows_finished", "retransmissions", "max_buffer_bytes", "warnings")
FRAMES = ("flows", "ports", "switches", "nodes", "pauses", "queues", "packets", "port_series", "flow_series", "queueing")


def run_case(case: dict[str, Any], threads: int = 1, progress: Callable[[Progress], None] | None = None) -> Run:
    """Run {"topology": table, "flows": as flow_list takes them, "scheme": name, "parameters": {}, ...}, measuring all.

    What "host" says has precedence over the scheme's preset.  "paths" are rows of a file of paths with the "columns".
    """
    import polars as pl

    from penstock_net.composition import parse
    from penstock_net.sim.config import HostConfig, Measure
    from penstock_net.sim.simulate import simulate
    from penstock_net.topology import build
    from penstock_net.workload import flow_list

    topo = build(case["topology"])
    hosts = case.get("host", {})
    everything: Any = dict.fromkeys(("pauses", "queues", "packets", "port_series", "flow_series", "queueing", "records"), True)
    return simulate(
        topo,
        flow_list(topo, case["flows"]),
        parse(case["scheme"], {**{f"host.{key}": value for key, value in hosts.items()}, **case.get("parameters", {})}),
        seed=case.get("seed", 1),
        threads=threads,
        control_loss=case.get("control_loss", 0.0),
        paths=pl.DataFrame(case["paths"], orient="row", schema=case["columns"]) if "paths" in case else None,
        link_clock=case.get("link_clock", "ps"),
        measure=Measure(sample="5us", **everything),
        host=HostConfig(**hosts),
        progress=progress,
    )


def digest(run: Run) -> dict[str, Any]:
    """Digest of everything that must not differ: a hash of every frame, the summary, and counters of the scheme's actions."""
    missing = set(FRAMES) - set(run.frames)
    assert not missing, f"not measured: {missing}"
    texts = {name: frame.write_csv(float_precision=3) for name, frame in run.frames.items()}
    out: dict[str, Any] = {name: hashlib.sha256(text.encode()).hexdigest()[:16] for name, text in texts.items()}
    out |= {key: run.summary[key] for key in SUMMARY}
    out |= {key: int(run.ports[key].sum()) for key in ("pauses_sent", "control_bytes", "ecn_marks")}
    out["max_voqs"] = int(run.frame("nodes")["max_voqs"].max())  # type: ignore[arg-type]
    return out


def main(arguments: list[str]) -> int:
    """Print the digest of the case in a file."""
    paths = [argument for argument in arguments if argument != "--interpreted"]
    if len(paths) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    if "--interpreted" not in arguments:
        print(json.dumps(digest(run_case(json.loads(Path(paths[0]).read_text())))))
        return 0
    from penstock_net.sim.interpreted import Left, install

    install()
    try:
        print(json.dumps(digest(run_case(json.loads(Path(paths[0]).read_text())))))
    except Left as left:
        print(left, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
