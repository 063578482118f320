"""Ultra Ethernet's transport under an incast beside other traffic: nobody waits for an answer that nobody owes."""

import pytest

from penstock_net.spec import parse_spec

SPEC = {
    "run": {"duration": "60us", "max_time": "5ms"},
    "topology": {"kind": "leaf_spine", "hosts": 32, "tors": 4, "spines": 2, "rate": "100Gbps", "delay": "1us"},
    "host": {"mtu": 4086, "header": 64},
    "workload": [
        {"kind": "poisson", "sizes": "google", "load": 0.3, "load_on": "host"},
        {"kind": "incast", "fan_in": 60, "size": "50KB", "every": "1ms", "start": "20us"},
    ],
    "measure": {"sample": "0us"},
}


@pytest.mark.parametrize("preset", ["nscc", "rccc", "both", "both_htsim"])
@pytest.mark.parametrize("seed", [1, 3])
def test_a_window_of_one_packet_that_is_not_answered_is_given_back(preset, seed):
    """What arrives after the packet that asks for an answer was cut is answered by nobody, and filled the window for ever."""
    spec = parse_spec({**SPEC, "run": {**SPEC["run"], "seed": seed}, "scheme": {"name": f"uec:{preset}+mixed"}})
    topo = spec.build_topology()
    said = spec.simulate(spec.schemes[0], topo, spec.build_flows(topo)).summary
    assert said["retransmissions"] > 0
    assert said["flows_finished"] == said["flows_started"] > 2000
