"""Every byte that a port sends is of data, of an acknowledgement or of a control frame, on every hop."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from networks import Measure, flow_list, hosts_under, simulate, unbounded

from penstock_net.topology import leaf_spine

CROSSING = [
    "bolt",
    "conweave",
    "dcpim",
    "dcqcn:cnp",
    "expresspass",
    "homa",
    "ndp",
    "sird",
    "uec:rccc",
]  # frames of theirs cross several links


@pytest.mark.parametrize("scheme", ["bfc", "cbfc", "floodgate", "pfc", *CROSSING])
def test_hosts_are_sent_as_much_data_as_they_send(scheme):
    topo = unbounded(leaf_spine(hosts=8, tors=4, spines=2))
    flows = flow_list(topo, [*((i, 7, 150_000) for i in range(4)), (4, 5, 20_000)])
    run = simulate(topo, flows, scheme, host=hosts_under(scheme), measure=Measure(sample="0s"))
    ports = run.ports
    assert run.summary["drops"] == 0 and run.summary["flows_finished"] == len(flows)
    data = (ports["tx_bytes"] - ports["ack_bytes"] - ports["control_bytes"]).to_numpy()
    sent, told = (data[(ports[end] < topo.hosts).to_numpy()].sum() for end in ("node", "peer"))
    assert sent == told + ports["trimmed_bytes"].sum() > flows.bytes.sum()
    spines = (ports["node"] >= topo.hosts + 4).to_numpy()
    assert bool(ports["control_bytes"].to_numpy()[spines].any()) or scheme not in CROSSING
