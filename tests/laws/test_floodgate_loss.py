"""Floodgate on networks that lose data, credits and links (section 4.3): no flow is stuck, and all windows recover."""

import polars as pl
import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st
from networks import HostConfig, Measure, flow_list, incasts, networks, reasons, simulate, trace

from penstock_net.composition import parse
from penstock_net.topology import clos, leaf_spine

QUIET = Measure(sample="0s", flows=False)


@st.composite
def parameters(draw):
    return {
        "m": draw(st.sampled_from([0.1, 1.0])),
        "t": draw(st.sampled_from([0, "1us", "10us"])),
        "voqs": draw(st.sampled_from([2, 3, 100])),
        "thre_credit": draw(st.sampled_from([0.2, 10.0])),
        "credit_bytes": draw(st.sampled_from([0, 5000])),
        "syn_timeout": draw(st.sampled_from(["20us", "200us"])),
        "lease": "20us",
        "host_pause": draw(st.booleans()),
    }


SHAPES = {
    "two tiers": lambda: leaf_spine(hosts=12, tors=4, spines=2),
    "three tiers": lambda: clos(pods=2, tors=2, aggs=2, cores=2, hosts_per_tor=3, uplink_rate="100Gbps"),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("loss", [0.05, 0.1])
@examples(25)
@given(data=st.data())
def test_every_flow_finishes_whatever_is_lost(shape, loss, data):
    topo = SHAPES[shape]()
    if data.draw(st.booleans(), "data, too"):
        topo = topo.with_loss(loss)
    flows = data.draw(incasts(topo, data.draw(st.sampled_from([None, 0])), 60_000))
    scheme, seed = parse("floodgate", data.draw(parameters())), data.draw(st.integers(1, 99))
    host = HostConfig(rto="200us")
    run = simulate(topo, flows, scheme, seed=seed, control_loss=loss, measure=QUIET, host=host, max_time_ps=10**12)
    assert run.summary["flows_finished"] == len(flows), run.summary["warnings"]
    assert set(reasons(run)) <= {"link loss"}


@examples(25)
@given(networks(ps_per_byte=(10, 400), delay_ps=(50_000, 3_000_000)), st.data())
def test_random_networks_without_loss(topo, data):
    """A VOQ for each destination, or a graph without groups could lock up (section 4.2); any windows, any rates."""
    flows = data.draw(incasts(topo, None, 30_000))
    chosen = {**data.draw(parameters()), "voqs": 100}
    run = simulate(topo, flows, parse("floodgate", chosen), measure=QUIET, max_time_ps=10**12)
    assert run.summary["flows_finished"] == len(flows), run.summary["warnings"]
    assert run.summary["drops"] == 0 == run.summary["retransmissions"]


@pytest.mark.parametrize("shape", SHAPES)
@examples(25)
@given(data=st.data())
def test_links_that_come_and_go(shape, data):
    """Every flow with a path to its destination finishes; afterwards no bytes count as in flight: a lone flow is not delayed."""
    topo = SHAPES[shape]()
    between = topo.links[topo.links["a"] >= topo.hosts]
    changes, lost = [], data.draw(st.sets(st.integers(0, len(between) - 1), min_size=1, max_size=4))
    for i in sorted(lost):
        ends = {"a": topo.names[between[i]["a"]], "b": topo.names[between[i]["b"]]}
        start = data.draw(st.integers(1, 60_000))
        stop = start + data.draw(st.integers(1, 90_000))
        changes += [{"time": f"{start}ns", **ends, "up": False}, {"time": f"{stop}ns", **ends, "up": True}]
    net = topo.with_changes(changes)
    anyone = st.tuples(st.integers(0, 11), st.sampled_from([0, 1, 7]), st.integers(1, 150_000), st.integers(0, 50_000))
    drawn = data.draw(st.lists(anyone, min_size=5, max_size=25))
    storm = [(src, dst, size, f"{at}ns") for src, dst, size, at in drawn if src != dst]
    alone = [(11, 0, 300_000, "50ms"), (11, 1, 300_000, "51ms"), (0, 7, 300_000, "52ms")]
    flows = flow_list(net, storm + alone)
    chosen = {**data.draw(parameters()), "m": 1.0}
    run = simulate(net, flows, parse("floodgate", chosen), measure=QUIET, host=HostConfig(rto="200us"), max_time_ps=10**12)
    assert run.summary["flows_finished"] == len(flows), run.summary["warnings"]
    assert run.flows["slowdown"][len(storm) :].to_list() == [1.0] * 3
    assert set(reasons(run)) <= {"link down", "no route"}


@pytest.mark.parametrize("scheme", ["floodgate", "floodgate:ideal", "floodgate:ns3"])
def test_links_that_stay_away(scheme):
    topo = leaf_spine(hosts=12, tors=4, spines=3)
    cuts = [
        {"time": "30us", "a": "tor0", "b": "spine0", "up": False},
        {"time": "45us", "a": "tor2", "b": "spine1", "up": False},
        {"time": "50us", "a": "tor0", "b": "spine1", "up": False},
    ]
    flows = flow_list(topo, [(s, d, 200_000, f"{s}us") for s in range(3, 12) for d in (0, 1)])
    run = simulate(
        topo.with_changes(cuts),
        flows,
        scheme,
        measure=Measure(sample="0s", flows=False, packets=True),
        host=HostConfig(rto="200us"),
        max_time_ps=10**11,
    )
    assert run.summary["flows_finished"] == len(flows)
    last = trace(run).filter(pl.col("node") == topo.node("tor0"))["time_ns"].max()
    assert last < 10e6
