"""A link that gets slow changes nothing for the ports that do not use it, and headroom is that of its highest rate."""

import dataclasses

import numpy as np
import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st
from networks import PFC, Measure, flow_list, hosts_under, networks, simulate
from test_goldens import CASES

from penstock_net.composition import parse
from penstock_net.sim.config import HostConfig
from penstock_net.sim.headroom import headroom
from penstock_net.sim.settings import Settings
from penstock_net.topology import behind_vswitches, leaf_spine, star, with_receivers
from penstock_net.topology.changes import LinkChange
from penstock_net.workload import Flows

SLOW = ["10Gbps", "100Mbps", "10Mbps", "1Mbps"]
LOGGED = Measure(sample="0s", pauses=True)


@pytest.mark.parametrize("priorities", [1, 3])
@pytest.mark.parametrize("rate", SLOW)
def test_a_slow_host_pauses_nobody_else_earlier(rate, priorities):
    """Hosts 4 and 6 fill the port to host 5; that the link of host 0 is slow, at any rate, changes nothing for them."""
    topo = star(hosts=8, buffer="8MB").with_changes([{"time": "1us", "a": "host0", "b": "switch0", "rate": rate}])
    others = [(2, 3, "2MB"), (4, 5, "2MB"), (6, 5, "2MB")]
    flows = [flow_list(topo, [*others, *more]) for more in ([], [(0, 1, "2KB", "2us")])]
    alone, run = (simulate(topo, f, PFC(priorities=priorities), measure=LOGGED, max_time_ps=4 * 10**8) for f in flows)
    usual = simulate(star(hosts=8, buffer="8MB"), flows[0], PFC(priorities=priorities), measure=LOGGED)
    for found in (alone, run):
        assert found.flows["fct_ns"].to_list()[:3] == usual.flows["fct_ns"].to_list()
        assert found.pauses.rows() == usual.pauses.rows() and usual.pauses.height > 2


@pytest.mark.parametrize("name", CASES)
def test_a_slow_host_changes_nothing_for_others_under_any_scheme(name):
    """As above, of every scheme and preset, with the parameters that make it act: the same times, and the same pauses."""
    scheme, parameters, _ = CASES[name]
    made, usual = parse(scheme, parameters), star(hosts=8, buffer="8MB")
    slow = usual.with_changes([{"time": "1us", "a": "host0", "b": "switch0", "rate": "10Mbps"}])
    flows = [(2, 3, "1MB"), (4, 5, "1MB"), (6, 5, "1MB")]
    runs = []
    for topo, more in ((usual, []), (slow, [(0, 1, "2KB", "2us")])):
        host = hosts_under(made, rto="1ms")
        runs.append(simulate(topo, flow_list(topo, [*flows, *more]), made, measure=LOGGED, host=host, max_time_ps=2 * 10**9))
    found, alone = (run.flows.filter(run.flows["src"] != 0)["fct_ns"].to_list() for run in runs)
    assert found == alone and runs[0].pauses.rows() == runs[1].pauses.rows()


@pytest.mark.parametrize("rate", SLOW)
def test_a_slow_application_changes_no_threshold_of_its_virtual_switch(rate):
    """As much is stored for it at any rate before the uplink is paused; the application beside it sends as if it were alone."""
    topo = behind_vswitches(leaf_spine(hosts=2, tors=2, spines=1, buffer="12MB"), apps=2, buffer="1MB")
    topo = with_receivers(topo, [{"host": 0, "rate": rate}])
    run = simulate(topo, flow_list(topo, [(2, 0, "2MB"), (1, 3, "2MB")]), "pfc", measure=LOGGED, max_time_ps=3 * 10**8)
    most = run.frame("nodes").filter(node=topo.hosts)["max_buffer_bytes"].item()
    assert 80_000 < most < 140_000 and run.flows["slowdown"][1] < 1.01


@st.composite
def changing(draw):
    """A network with some changes of rates, of whole links or of what one end sends."""
    topo = draw(networks())
    changes = []
    for i in range(draw(st.integers(0, 6))):
        link = draw(st.integers(0, len(topo.links) - 1))
        node = draw(st.sampled_from([None, int(topo.links["a"][link]), int(topo.links["b"][link])]))
        changes.append(LinkChange(i, link, None, draw(st.integers(1, 10**6)), node))
    return dataclasses.replace(topo, changes=tuple(changes))


@examples(40)
@given(changing(), st.sampled_from([{}, {"headroom": 0}, {"priorities": 3}, {"headroom_bytes": 5000}]), st.integers(100, 9000))
def test_headroom_is_that_of_the_highest_rates(topo, given, frame):
    """What docs/modelling.md says, the largest at any time: what links need at the highest of their rates, not at the lowest."""
    topo = dataclasses.replace(topo, buffer_bytes=np.full(topo.switches, 10**12))
    host = HostConfig(mtu=frame - 48)
    found = headroom(Settings(topo, Flows.none(), parse("pfc", given), host=host), "pfc")
    for link, row in enumerate(topo.links):
        ends = [int(row["a"]), int(row["b"])]
        rates = [[float(row["ps_per_byte"])] * 2]  # ps per byte that each end sends with, one after another
        for change in (c for c in topo.changes if c.link == link):
            rates.append([change.ps_per_byte if change.node in (None, ends[i]) else rates[-1][i] for i in range(2)])
        for i in (i for i in range(2) if ends[i] >= topo.hosts):
            bdp = max(int(row["delay_ps"] / theirs) + 1 for theirs in (pair[1 - i] for pair in rates))
            needed = 2 * bdp + 3 * (frame + 64) + 64 * (given.get("priorities", 1) - 1)
            assert found.needed[i, link] == needed
            assert found.given[i, link] == (given.get("headroom_bytes") or max(needed, int(given.get("headroom", 3) * bdp)))
            assert found.late[i, link] == (frame + 64) * max(max(int(pair[i] / pair[1 - i]) - 1, 0) for pair in rates)
