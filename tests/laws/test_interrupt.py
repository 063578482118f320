"""Ctrl-C: the results so far are kept, marked as interrupted, and obey the laws."""

import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import penstock_net
from penstock_net.results.run import Run

# Eight flows of 1 TB keep the core busy for hours, so the run ends because of the signal or not at all.

PROGRAM = textwrap.dedent("""
    import json, sys
    from penstock_net.sim.config import Measure
    from penstock_net.sim.simulate import simulate
    from penstock_net.topology import leaf_spine
    from penstock_net.workload import flow_list, poisson

    topo = leaf_spine(hosts=32, tors=4, spines=4)
    flows = poisson(topo, sizes="google", load=0.6, duration="1ms", seed=1)
    flows += flow_list(topo, [*((i, 31, "1TB") for i in range(8)), (2, 29, "1KB", "1000s")])
    shown = []
    def progress(p):
        if not shown and p.flows_done > 100:
            shown.append(1)
            print("running", flush=True)
    try:
        simulate(topo, flows, "bfc", threads=int(sys.argv[2]), progress=progress, measure=Measure(sample="1ms"))
    except KeyboardInterrupt as interrupt:
        interrupt.run.save(sys.argv[1])
        print(json.dumps({"told": str(interrupt), "of": len(flows)}))
""")


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c(tmp_path, threads):
    environment = {"PYTHONPATH": str(Path(penstock_net.__file__).parents[1]), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "run"), str(threads)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
        try:
            assert child.stdout.readline() == "running\n"
            child.send_signal(signal.SIGINT)
            told = json.loads(child.communicate(timeout=600)[0])
        finally:
            child.kill()
    assert child.returncode == 0 and told["told"].startswith("bfc: interrupted at ")
    run = Run.load(tmp_path / "run")
    done = run.summary["flows_finished"]
    assert run.summary["interrupted"] is True and 100 < done <= run.summary["flows_started"] < told["of"] == run.flows.height
    end = run.summary["end_ns"]
    assert run.flows["finish_ns"].max() <= end and run.flows["start_ns"].max() < 1e12 and run.switches["time_ns"].max() <= end
    assert run.flows["slowdown"].drop_nulls().min() >= 1.0
    never, begun = told["of"] - run.summary["flows_started"], run.summary["flows_started"] - done
    assert run.summary["warnings"][0] == f"{run.interruption}: {never:,} flows never started, {begun:,} had not finished"
    assert run.slowdown(99).height > 0 and run.ports["tx_bytes"].sum() > 0
