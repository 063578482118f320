"""Ctrl-C: the run so far is there, marked as interrupted, and obeys the laws."""

import json
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import penstock
from penstock.results.run import Run

PROGRAM = textwrap.dedent("""
    import json, sys
    from penstock.sim.config import Measure
    from penstock.sim.simulate import simulate
    from penstock.topology import leaf_spine
    from penstock.workload import poisson

    topo = leaf_spine(hosts=32, tors=4, spines=4)
    flows = poisson(topo, sizes="google", load=0.8, duration="40ms", seed=1)
    shown = []
    def progress(p):
        if not shown and p.flows_done > 100:
            shown.append(1)
            print("running", flush=True)
    run = simulate(topo, flows, "bfc", threads=int(sys.argv[2]), progress=progress, measure=Measure(sample="20us"))
    run.save(sys.argv[1])
    print(json.dumps({"interrupted": run.summary["interrupted"], "of": len(flows)}))
""")


def interrupted(tmp_path, threads):
    path = Path(penstock.__file__).parent.parent
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "run"), str(threads)],
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(path), "PATH": "/usr/bin:/bin"},
    )
    assert child.stdout.readline() == "running\n"
    began = time.monotonic()
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=60)
    return json.loads(out), child.returncode, time.monotonic() - began


def check(tmp_path, threads):
    told, code, took = interrupted(tmp_path, threads)
    assert code == 0 and told["interrupted"] is True, f"exit code {code}"
    assert took < 30, f"{took:.1f} s from Ctrl-C to the end"
    run = Run.load(tmp_path / "run")
    done = run.summary["flows_finished"]
    assert run.summary["interrupted"] is True and 100 < done <= run.summary["flows_started"] < told["of"] == run.flows.height
    end = run.summary["end_ns"]
    assert run.flows["finish_ns"].max() <= end and run.flows["start_ns"].max() < end and run.switches["time_ns"].max() <= end
    assert run.flows["slowdown"].drop_nulls().min() >= 1.0
    assert run.slowdown(99).height > 0 and run.ports["tx_bytes"].sum() > 0


def test_ctrl_c(tmp_path):
    check(tmp_path, 1)


def test_ctrl_c_with_threads(tmp_path):
    check(tmp_path, 2)
