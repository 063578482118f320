"""Receivers that say when others send do so as fast as their links bring data, not as fast as these take it."""

import pytest
from helpers import CONTROL, traced

from penstock_net.sim.config import HostConfig
from penstock_net.topology import star
from penstock_net.workload import flow_list

SLOW = 800 * 1048  # ps of a full packet at 10 Gbit/s; the receiver sends at 100
WINDOW = 20
# command of what they pace, and parameters with which not all that it pays for is on its way before
PACED = {
    "ndp": (3, {"iw": 20}),
    "homa": (3, {"k": 1}),
    "sird": (4, {"unsch": 0}),
    "phost": (4, {"free": 2, "ahead": 60}),
    "dcpim": (8, {"at_once": 1}),
}


def incast(scheme, parameters=None):
    """Of four senders to host 0, whose link brings 10 Gbit/s."""
    slow = {"time": "1ps", "a": "host0", "b": "switch0", "of": "switch0", "rate": "10Gbps"}
    topo = star(hosts=5, buffer="200KB").with_changes([slow])
    flows = flow_list(topo, [(src, 0, 100_000, "1us") for src in range(1, 5)])
    return traced(topo, flows, scheme, parameters, host=HostConfig(rto="10ms"))


@pytest.mark.parametrize("scheme", PACED)
def test_it_is_given_as_fast_as_the_link_brings_data(scheme):
    """Twenty of them in a row, in no less than the time of fifteen packets: dcpim's four channels may give at once."""
    command, parameters = PACED[scheme]
    _, rows = incast(scheme, parameters)
    given = [r.at for r in rows if r.kind >= CONTROL and r.event == "receive" and r.node > 0 and r.flow == command]
    assert len(given) > 100
    assert min(b - a for a, b in zip(given, given[WINDOW:])) >= 15 * SLOW


def test_credits_call_no_more_data_than_the_link_brings():
    """Which every port sees to; with as many as the receiver's line takes the buffer is full, and packets are lost."""
    run, _ = incast("expresspass")
    assert run.summary["drops"] == 0 and run.ports["max_queue_bytes"].max() < 4 * 1048
