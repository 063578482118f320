"""PFC beyond its threshold pauses, however small the headroom is: what is dropped at an ingress was preceded by a pause.

Every drop of a random incast is compared with the pauses that its sender obeyed. A pause that goes out with it arrives after the
delay of the link and its own time, and waits for the frame that is being sent; by then the sender must be paused. Where
nothing is stored no pause could spare a packet, and none is asked for.
"""

from math import ceil

import polars as pl
import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st
from networks import HostConfig, Measure, simulate

from penstock_net.composition import parse
from penstock_net.sim.headroom import headroom
from penstock_net.sim.settings import Settings
from penstock_net.topology import star
from penstock_net.units import format_size
from penstock_net.workload import Flows, flow_list

DELAY_NS, NS_PER_BYTE = 1000, 0.08
RECEIVER = 6
FULL = ("buffer full", "headroom pool full")


def incast(topo, priorities, size):
    flows = [{"src": i, "dst": RECEIVER, "bytes": size, "start": f"{i}us", "priority": i % priorities} for i in range(RECEIVER)]
    return flow_list(topo, flows)


def dropped(run, topo):
    """(time, sender, queue) of each packet that had no room at the switch."""
    packets = run.frame("packets").filter((pl.col("event") == "drop") & (pl.col("node") == topo.hosts))
    flows = run.flows.select("flow_id", "src", "priority")
    return packets.join(flows, on="flow_id").select("time_ns", "src", "priority").rows()


def unpaused(run, topo, frame, priorities):
    """The drops that no pause of their sender has followed at once, or was there before."""
    last = DELAY_NS + (2 * frame + 2 * 64) * NS_PER_BYTE  # the latest effect of a pause that was sent with the drop
    state: dict[tuple[int, int], list[tuple[float, bool]]] = {}
    for time, node, _, queue, paused in run.pauses.sort("time_ns", maintain_order=True).iter_rows():
        if node < topo.hosts:
            state.setdefault((node, max(queue, 0)), []).append((time, bool(paused)))
    found = []
    for time, src, priority in dropped(run, topo):
        events = state.get((src, priority if priorities > 1 else 0), [])
        before = [paused for at, paused in events if at <= time]
        soon = [paused for at, paused in events if time < at <= time + last]
        if not (before and before[-1]) and not any(soon):
            found.append((time, src, priority))
    return found


@st.composite
def settings(draw):
    """Thresholds static and dynamic, with room for one packet at least; headrooms from a byte to more than enough."""
    mtu = draw(st.sampled_from([64, 300, 1000, 1460, 4000, 9000]))
    frame = mtu + 48
    room = frame + 42 + 254  # with telemetry, in cells
    priorities = draw(st.sampled_from([1, 1, 2, 3]))
    static = draw(st.booleans())
    given = {
        "priorities": priorities,
        "alpha": 0 if static else draw(st.sampled_from([0.02, 0.11, 0.5, 1.0, 8.0])),
        "reserve": draw(st.integers(room, 8 * room)) if static else draw(st.sampled_from([0, frame, 5000])),
        "xon": draw(st.sampled_from([0, 1000, 3072])),
        "headroom_bytes": draw(st.sampled_from([1, 63, frame - 1, frame, 2 * frame, 5000, 14_000, 40_000])),
        "cell": draw(st.sampled_from([0, 0, 192, 254])),
    }
    if draw(st.booleans()):
        given["headroom_pool"] = draw(st.sampled_from([1, frame, 3 * frame, 20_000]))
    share = max(30 * frame, 100_000, ceil(1.5 * room / given["alpha"]) if given["alpha"] else 0)  # the first packet has room
    buffer = share + room + 64 + 7 * priorities * (given["headroom_bytes"] + given["reserve"])
    return mtu, given, buffer


@examples(40)
@given(settings(), st.sampled_from(["pfc", "pfc_tagged", "hpcc"]))
def test_a_drop_at_an_ingress_is_preceded_by_a_pause(drawn, scheme):
    mtu, given, buffer = drawn
    topo = star(hosts=7, rate="100Gbps", delay="1us", buffer=buffer)
    full = {f"pfc.{key}": value for key, value in given.items()}
    host = HostConfig(mtu=mtu, rto="500us")
    measure = Measure(sample="0s", packets=True, pauses=True)
    flows = incast(topo, given["priorities"], 80 * mtu)
    run = simulate(topo, flows, parse(scheme, full), host=host, measure=measure, max_time_ps=3 * 10**9)
    assert not unpaused(run, topo, mtu + 48, given["priorities"])
    for host_number in range(RECEIVER):  # nobody is stopped for ever
        events = run.pauses.filter(pl.col("node") == host_number).sort("time_ns", maintain_order=True)
        assert run.flows["finish_ns"].null_count() == 0 or events["paused"].to_list()[-1:] != [True]


def test_an_ingress_that_holds_nothing_resumes():
    """Others hold all of the buffer when its first packet comes: it is dropped, its neighbour paused until there is room."""
    topo = star(hosts=7, buffer="100KB")
    flows = flow_list(topo, [(i, RECEIVER, "200KB", "0s" if i < 5 else "30us") for i in range(RECEIVER)])
    scheme = parse("pfc", {"alpha": 8.0, "headroom_bytes": "1B", "refresh": 0})
    run = simulate(topo, flows, scheme, measure=Measure(sample="0s", packets=True, pauses=True), host=HostConfig(rto="200us"))
    late = [time for time, src, _ in dropped(run, topo) if src == 5]
    mine = run.pauses.filter(pl.col("node") == 5)["paused"].to_list()
    assert late and not unpaused(run, topo, 1048, 1)
    assert mine and mine == [True, False] * (len(mine) // 2)
    assert run.summary["flows_finished"] == len(flows)


@pytest.mark.parametrize(("given", "lacks"), [("1B", True), ("14KB", True), ("29KB", False), ("0B", False)])
def test_a_run_warns_of_too_little_headroom_as_explain_does(given, lacks):
    topo = star(hosts=3, rate="100Gbps", delay="1us", buffer="4MB")
    flows = flow_list(topo, [(0, 2, "5MB"), (1, 2, "5MB")])
    run = simulate(topo, flows, parse("pfc", {"headroom_bytes": given}), measure=Measure(sample="0s"))
    told = [text for text in run.summary["warnings"] if "too little" in text]
    found = headroom(Settings(topo, Flows.none(), parse("pfc", {"headroom_bytes": given})), "pfc")
    short = int((found.needed - found.given)[found.given > 0].max())
    assert (short > 0) == lacks == bool(told)
    if lacks:
        assert told[0].startswith("3 links of 100Gbps, 1us: pfc's headroom of ")
        assert f" is {format_size(short)} too little" in told[0]
        assert run.ports["pauses_sent"].sum() > 10
