"""`host.control`: frames of schemes have so many bytes on every link, and the presets of a scheme may say how many."""

import pytest
from networks import HostConfig, flow_list, simulate

from penstock_net.composition import parse
from penstock_net.sim.config import Measure
from penstock_net.topology import leaf_spine

CONTROL = 2  # kind of a packet
SCHEMES = {  # with parameters that make them act
    "bfc": {"queues": 4},
    "pfc": {"alpha": 0.01},
    "dcqcn:cnp": {"ecn.k_min": "5KB", "ecn.k_max": "6KB"},
    "homa": {"rtt_bytes": "5KB"},
    "sird": {"unsch": 0},
    "dcpim": {},
    "ndp": {},
    "phost": {},
    "expresspass": {"spread": 0},
}
OF_40 = ("phost", "dcpim")  # by their presets


def frames(scheme, parameters, host=None):
    """Sizes of the frames of a scheme in an incast."""
    topo = leaf_spine(hosts=8, tors=2, spines=1, buffer="600KB")
    flows = flow_list(topo, [(i, 0, 120_000, f"{i}us") for i in range(1, 8)])
    run = simulate(topo, flows, parse(scheme, parameters), host=host or HostConfig(), measure=Measure(packets=True))
    assert run.summary["flows_finished"] == 7
    rows = run.extra["packets"]
    found = rows.filter((rows["kind"] == CONTROL) & (rows["event"] == "receive"))
    assert len(found) > 5
    return set(found["bytes"].to_list())


@pytest.mark.parametrize("scheme", SCHEMES)
def test_frames_have_the_bytes_that_the_hosts_say(scheme):
    parameters = SCHEMES[scheme]
    assert frames(scheme, parameters) == {40 if scheme in OF_40 else 64}
    key = {"host.control": 84} if scheme in OF_40 else {}
    assert frames(scheme, {**parameters, **key}, HostConfig(control=84)) == {84}
