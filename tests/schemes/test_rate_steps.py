"""A run warns of rates that rise in steps made for slower links, where a rate was changed at all."""

import pytest

from penstock_net.composition import parse
from penstock_net.sim.simulate import simulate
from penstock_net.topology import star
from penstock_net.workload import flow_list


def told(rate, given=None, senders=(1, 2, 3), scheme="dcqcn"):
    topo = star(hosts=4, rate=rate, buffer="16MB")
    flows = flow_list(topo, [(src, 0, "2MB") for src in senders])
    return [text for text in simulate(topo, flows, parse(scheme, given or {})).summary["warnings"] if "slower links" in text]


@pytest.mark.parametrize(("rate", "warned"), [("40Gbps", 0), ("100Gbps", 0), ("200Gbps", 0), ("400Gbps", 1), ("800Gbps", 1)])
def test_the_default_is_for_40_gbit(rate, warned):
    assert len(told(rate)) == warned


def test_what_it_says():
    (text,) = told("400Gbps")
    assert text.startswith("dcqcn.r_ai = 40Mbps is 0.0001 of a line of 400Gbps") and "would be 400Mbps" in text


def test_a_step_that_was_set():
    assert not told("400Gbps", {"r_ai": "400Mbps"}) and told("100Gbps", {"r_ai": "10Mbps"})


def test_none_where_no_rate_has_changed():
    """A lone flow is never marked, so no step is ever made; other schemes have none."""
    assert not told("400Gbps", senders=(1,)) and not told("400Gbps", scheme="hpcc")
