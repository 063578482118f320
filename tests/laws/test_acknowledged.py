"""Flows that wait for a flow of their own host to be acknowledged, and traces that are simulated: exact times on an idle star."""

import json
import subprocess
import sys

import numpy as np
import pytest
from networks import Measure, flow_list, simulate

from penstock_net.testing.cases import digest, run_case
from penstock_net.topology import leaf_spine, star
from penstock_net.workload.traces import convert

RATE, DELAY, HEADER, ACK = 80, 1_000_000, 48, 60
NS = 1000


def wire(size):
    """From the start of a message of one packet to its arrival, over two links; the same for an acknowledgement."""
    return 2 * (size * RATE + DELAY)


def times(run):
    ps = {name: np.rint(run.flows[f"{name}_ns"].to_numpy() * 1000).astype(np.int64) for name in ("start", "finish")}
    return ps["start"].tolist(), ps["finish"].tolist()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("scheme", ["fifo", "dqa", "pfc", "bfc", "hpcc"])
def test_a_flow_starts_when_its_own_host_has_the_last_acknowledgement(scheme, threads):
    topo = star(hosts=4)
    flows = flow_list(
        topo,
        [
            {"src": 0, "dst": 1, "bytes": 500},
            {"src": 0, "dst": 2, "bytes": 700, "after": [0], "gap": "3us"},
            {"src": 1, "dst": 3, "bytes": 900, "after": [0], "gap": "1us"},
        ],
    )
    run = simulate(topo, flows, scheme, threads=threads, measure=Measure(sample="0s"))
    start, finish = times(run)
    assert run.summary["flows_finished"] == 3
    assert start[2] == finish[0] + 1_000_000
    assert start[1] > finish[0] + 3_000_000
    if scheme != "hpcc":  # whose frames carry telemetry
        assert start[1] == wire(500 + HEADER) + wire(ACK) + 3_000_000


def test_a_chain_under_congestion_sends_one_after_another():
    """As the triggers of htsim: every host sends to each other one in turn, each when the one before is acknowledged."""
    topo = leaf_spine(hosts=8, tors=2, spines=2, uplink_rate="20Gbps")
    items = []
    for host in range(8):
        for turn in range(1, 8):
            after = [len(items) - 1] if turn > 1 else []
            items.append({"src": host, "dst": (host + turn) % 8, "bytes": 30_000, "after": after})
    flows = flow_list(topo, items)
    runs = [simulate(topo, flows, "bfc", threads=threads, measure=Measure(sample="0s")) for threads in (1, 2)]
    for run in runs:
        assert run.summary["flows_finished"] == len(items)
        start, finish = times(run)
        child, parent = flows.edges()
        assert all(start[c] > finish[p] for c, p in zip(child.tolist(), parent.tolist()))
    assert times(runs[0]) == times(runs[1])


def test_a_trace_takes_its_exact_time(tmp_path):
    """Rank 0 computes 5 us and sends; rank 1 computes 2 us after the message, or 4 us after one of rank 2, whichever is later."""
    trace = tmp_path / "a.goal"
    trace.write_text("""num_ranks 4
rank 0 {
l1: calc 5000
l2: send 1000b to 1 tag 0
l2 requires l1
}
rank 1 {
l1: recv 1000b from 0 tag 0
l2: recv 500b from 2 tag 0
l3: calc 2000
l4: calc 4000
l5: send 200b to 3 tag 0
l3 requires l1
l4 requires l2
l5 requires l3
l5 requires l4
}
rank 2 {
l1: calc 4000
l2: send 500b to 1
l2 requires l1
}
rank 3 {
l1: recv 200b from 1
}
""")
    topo = star(hosts=4)
    run = simulate(topo, convert(trace).flows, "fifo", measure=Measure(sample="0s"))
    start, finish = times(run)
    by_size = dict(zip(run.flows["bytes"].to_list(), zip(start, finish)))
    first, second = 5000 * NS + wire(1000 + HEADER), 4000 * NS + wire(500 + HEADER)
    assert by_size[1000] == (5000 * NS, first) and by_size[500] == (4000 * NS, second)
    last = max(first + 2000 * NS, second + 4000 * NS)
    assert by_size[200] == (last, last + wire(200 + HEADER))


INTERPRETED = """
import json, sys
from penstock_net.sim.interpreted import install
install()
from penstock_net.testing.cases import digest, run_case
print(json.dumps([digest(run_case(case)) for case in json.load(sys.stdin)]))
"""


def test_the_interpreted_core_agrees():
    """Also with loss, so that the last acknowledgement may be sent more than once."""
    flows = [
        {"src": 0, "dst": 1, "bytes": 30_000},
        {"src": 0, "dst": 2, "bytes": 20_000, "after": [0], "gap": "1us"},
        {"src": 0, "dst": 3, "bytes": 10_000, "after": [1, 3], "gap": "2us"},
        {"src": 3, "dst": 0, "bytes": 25_000},
    ]
    case = {"topology": {"kind": "star", "hosts": 4}, "flows": flows, "scheme": "bfc", "host": {"rto": "200us"}}
    cases = [case, {**case, "topology": {**case["topology"], "loss": 0.02}}]
    compiled = [digest(run_case(case)) for case in cases]
    assert all(digest(run_case(case, threads=2)) == one for case, one in zip(cases, compiled))
    done = subprocess.run([sys.executable, "-B", "-c", INTERPRETED], input=json.dumps(cases), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == json.loads(json.dumps(compiled))
