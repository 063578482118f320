"""The headroom that `penstock advise` gives by hand is the engine's bound: it loses nothing, and two frames less lose packets."""

import dataclasses

import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st
from test_pfc_priorities import blocked_sender
from test_pfc_switches import refused

from penstock_net.advise.platform import ByHand
from penstock_net.advise.settings import advise
from penstock_net.advise.site import read_site
from penstock_net.composition import parse
from penstock_net.sim.config import HostConfig
from penstock_net.sim.headroom import headroom
from penstock_net.sim.settings import Settings
from penstock_net.sim.simulate import simulate
from penstock_net.topology import star
from penstock_net.workload import Flows, flow_list

SITE = """
[[switch]]
response = "2.14us"
buffer = "4MB"
lossless = [0]
shared_headroom = "none"
ports = [{ count = 9, rate = "400Gbps", cable = "40m" }]
[traffic]
mtu = 1000
"""


@examples(40)
@given(
    st.sampled_from([10, 100, 400, 800]),
    st.integers(1, 2000),
    st.sampled_from([0, 300, 2140, 9000]),
    st.sampled_from([0, 64, 192, 254, 4096]),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.integers(1, 8),
    st.sampled_from([256, 1000, 4096, 9000]),
)
def test_the_bound_is_that_of_the_engine(gbps, metres, response, cell, small, lossless, mtu):
    topo = star(hosts=3, rate=f"{gbps}Gbps", delay=f"{metres}m", buffer="1GB")
    scheme = parse("pfc", {"priorities": lossless, "response": f"{response}ns", "cell": cell, "small_packets": small})
    found = headroom(Settings(topo, Flows.none(), scheme, host=HostConfig(mtu=mtu)), "pfc")
    assert ByHand(mtu, response, cell, small, lossless).xoff(gbps, metres).total == found.needed[1, 0]


@pytest.mark.parametrize("response", [50, 2140])
def test_two_frames_less_than_advised_lose_packets(response):
    """198 m are 1 us, the delay of the adversary's links, who makes arrive what is within two frames of the bound."""
    topo, flows = blocked_sender()
    topo = dataclasses.replace(topo, buffer_bytes=topo.buffer_bytes * 4)
    given = {"priorities": 2, "alpha": 0, "reserve": "30KB", "response": f"{response}ns"}
    advised = ByHand(1000, response, lossless=2).xoff(100, 198).total
    assert refused(given, flows, topo, advised) == 0 < refused(given, flows, topo, advised - 2 * 1048 - 200)


def test_an_incast_at_400_gbit_over_40_m(tmp_path):
    """Eight senders, a neighbour silent after 2.14 us: the advised buffer loses nothing; the headroom of the cable alone does."""
    path = tmp_path / "site.toml"
    path.write_text(SITE)
    advice = advise(read_site(path)[0])
    assert advice.switch.buffer == advice.budget.pool + advice.budget.headroom + advice.budget.reserve
    topo = star(hosts=9, rate="400Gbps", delay="40m", buffer=f"{advice.switch.buffer}B")
    flows = flow_list(topo, [(1 + i, 0, "600KB") for i in range(8)])
    xoff, cable = advice.classes[0].xoff, ByHand(1000, 0).xoff(400, 40).total
    drops = []
    for size in (xoff, cable):
        given = {"response": "2.14us", "alpha": 2.0**advice.dynamic_th, "headroom_bytes": size, "refresh": 0}
        run = simulate(topo, flows, parse("pfc", given), host=HostConfig(rto="1s"), max_time_ps=10**9)
        assert run.ports["pauses_sent"].sum() > 0
        drops.append(run.summary["drops"])
    assert drops[0] == 0 < drops[1] and xoff - cable == 107_001
