"""Packets of a flow that take turns of the links of their host, as a NIC with an entropy value for each sends them."""

import numpy as np
import polars as pl
import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st
from networks import HostConfig, Measure, available, flow_list, hosts_under, same, simulate

from penstock_net.errors import SpecError
from penstock_net.spec import parse_spec
from penstock_net.topology import planes, rails, star
from penstock_net.workload.collectives import collective

QUIET = Measure(sample="0s", flows=False)
MTU, HEADER, PS, DELAY = 1000, 48, 80, 1_000_000
FRAME = (MTU + HEADER) * PS
HOST = HostConfig(ports="packet", rto="1s")
IN_ANY_ORDER = sorted(
    name for name, part in available().items() if part.fabric.get("reordering") == 1 and not part.fabric.get("one_link")
)


def network(hosts=4, count=4, **more):
    """Planes of one ToR each."""
    return planes(hosts=hosts, planes=count, tors=1, spines=1, **more)


def sent(run, host):
    return run.ports.filter(pl.col("node") == host).sort("port")["tx_bytes"].to_numpy()


def alone(size, count):
    """By hand: port p sends packets p, p + count, ...; each crosses one switch."""
    packets = [min(MTU, size - at) for at in range(0, size, MTU)]
    ends = []
    for port in range(min(count, len(packets))):
        mine = [(payload + HEADER) * PS for payload in packets[port::count]]
        down = 0
        up = np.cumsum(mine)
        for at, time in zip(up, mine):
            down = max(down, at + DELAY) + time
        ends.append(int(down) + DELAY)
    return max(ends)


@pytest.mark.parametrize("count", [1, 2, 4, 8])
@pytest.mark.parametrize("size", [1, MTU, MTU + 1, 2 * MTU, 7 * MTU + 3, 100_001, 1_000_000])
def test_a_flow_alone_has_the_rate_of_all_ports(count, size):
    """To the picosecond, and it is its ideal time; ports carry as many packets, but for one."""
    topo = network(count=count)
    run = simulate(topo, flow_list(topo, [(0, 1, size)]), "spray", host=HOST, measure=QUIET)
    assert round(run.flows["fct_ns"][0] * 1000) == alone(size, count)
    assert run.flows["slowdown"][0] == run.flows["sender_slowdown"][0] == 1.0
    packets = -(-sent(run, 0) // (MTU + HEADER))
    assert packets.sum() == -(-size // MTU) and np.ptp(packets) <= 1


def model(flows, count, mistake=""):
    """(time, port, flow) of every packet of a host, as it is sent: each port has a round robin of the flows whose turn it is.

    flows: (start, packets, first port), to hosts of their own, so that nothing waits behind the host.
    """
    free, rings, left, out = [0] * count, [[] for _ in range(count)], [n for _, n, _ in flows], []

    def serve(port, now):
        if free[port] > now or not rings[port]:
            return
        flow = rings[port].pop(-1 if mistake == "the last one first" else 0)
        out.append((now, port, flow))
        free[port] = now + FRAME
        left[flow] -= 1
        if left[flow]:
            step = {"the same port": 0, "every second port": 2}.get(mistake, 1)
            there = (port + step) % count
            rings[there].append(flow)
            serve(there, now)

    starts = sorted((start, flow) for flow, (start, _, _) in enumerate(flows))
    while starts or any(rings):
        times = [free[port] for port in range(count) if rings[port]] + [start for start, _ in starts[:1]]
        now = max(min(times), out[-1][0] if out else 0)
        for port in range(count):
            serve(port, now)
        while starts and starts[0][0] <= now:
            _, flow = starts.pop(0)
            first = 0 if mistake == "all begin at the first port" else flows[flow][2]
            rings[first].append(flow)
            serve(first, now)
    return sorted(out)


def simulated(topo, flows, seed):
    """The same of the simulator: when packets reach the ToR of each plane."""
    listed = flow_list(topo, [(0, 1 + i, n * MTU, f"{start}ps") for i, (start, n) in enumerate(flows)])
    run = simulate(topo, listed, "spray", host=HOST, seed=seed, measure=Measure(sample="0s", packets=True))
    came = run.frame("packets").filter((pl.col("event") == "enqueue") & (pl.col("bytes") == MTU + HEADER))
    first = [topo.path_links(i, 0, 1 + i, seed)[0][1] for i in range(len(flows))]
    planes_of = [int(topo.names[node].removeprefix("tor")) for node in came["node"]]
    sent = [round(ns * 1000) - FRAME - DELAY for ns in came["time_ns"]]
    return sorted(zip(sent, planes_of, came["flow_id"].to_list())), first


@examples(40)
@given(
    st.lists(st.tuples(st.integers(0, 2_000_000), st.integers(1, 12)), min_size=1, max_size=6),
    st.integers(1, 5),
    st.integers(0, 1000),
)
def test_an_independent_model(flows, count, seed):
    """Starts differ, so that the order of starts decides nothing."""
    flows = [(1 + start + i, n) for i, (start, n) in enumerate(sorted(flows))]
    found, first = simulated(network(hosts=8, count=count), flows, seed)
    assert found == model([(*flow, port) for flow, port in zip(flows, first)], count)


@pytest.mark.parametrize("mistake", ["the same port", "every second port", "the last one first", "all begin at the first port"])
def test_mistakes_are_seen(mistake):
    flows = [(1, 9), (2, 7), (3, 8), (50_000, 3), (60_000, 4)]
    found, first = simulated(network(hosts=8, count=3), flows, 1)
    flows = [(*flow, port) for flow, port in zip(flows, first)]
    assert found == model(flows, 3) != model(flows, 3, mistake)


def test_flows_share_all_ports():
    """Eight flows of a host on three ports take as long as their bytes do on all of them; by flow the fullest port decides."""
    topo = network(hosts=9, count=3)
    flows = flow_list(topo, [(0, 1 + i, 300_000) for i in range(8)])
    runs = {ports: simulate(topo, flows, "spray", host=HostConfig(ports=ports), measure=QUIET) for ports in ("packet", "flow")}
    last = {ports: round(run.flows["fct_ns"].max() * 1000) for ports, run in runs.items()}
    assert last["packet"] <= 800 * FRAME + FRAME + 2 * DELAY + 8 * FRAME
    fullest = sent(runs["flow"], 0).max() // (MTU + HEADER)
    assert last["flow"] >= fullest * FRAME + FRAME + 2 * DELAY and fullest >= 900


@pytest.mark.parametrize("count", [2, 4])
def test_a_dead_plane_costs_its_share(count):
    """A flow goes on by the others at once, and has 1 / count less; nothing is sent into the dead one."""
    topo = network(count=count, buffer="12MB")
    flows = flow_list(topo, [(0, 1, 2_000_000, "1us")])
    dead = topo.with_changes([{"time": "0s", "switch": "tor1", "up": False}])
    whole, less = (simulate(net, flows, "spray", host=HOST, measure=QUIET).flows["fct_ns"][0] for net in (topo, dead))
    assert less / whole == pytest.approx(count / (count - 1), rel=0.03)
    later = topo.with_changes([{"time": "20us", "switch": "tor1", "up": False}])
    run = simulate(later, flows, "recovery:irn", host=hosts_under("recovery:irn", ports="packet", rto="50us"), measure=QUIET)
    assert run.summary["flows_finished"] == 1 and sent(run, 0)[1] < 20_000_000 / PS


def test_a_port_that_is_paused_is_passed_over():
    """An incast fills plane 0 alone; a flow of all planes goes on by the others."""
    topo = network(hosts=10, count=2, buffer="800KB")
    into = [{"time": "0s", "a": f"host{i}", "b": "tor1", "up": False} for i in range(3, 10)]
    flows = [(i, 2, 300_000) for i in range(3, 10)] + [(0, 1, 600_000, "30us"), (0, 2, 100_000, "10us")]
    run = simulate(topo.with_changes(into), flow_list(topo, flows), "spray+pfc", host=HOST, measure=QUIET)
    assert run.summary["drops"] == 0 and run.summary["flows_finished"] == len(flows)
    paused = run.ports.filter(pl.col("node") == 0).sort("port")["pauses_received"].to_list()
    assert paused[0] > 0 and paused[1] == 0
    assert run.flows.filter(pl.col("bytes") == 600_000)["slowdown"][0] < 2.2  # of what it has with both ports: one is enough
    assert sent(run, 0)[1] > sent(run, 0)[0]


@pytest.mark.parametrize("scheme", [*IN_ANY_ORDER, "spray+pfc", "dctcp+spray", "hpcc+spray", "dcqcn+recovery:irn", "swift+spray"])
def test_every_scheme(scheme):
    """All arrives, with the same bits on two threads and with a time of its own by flow."""
    topo = rails(servers=4, gpus=2, segment=2, spines=2, ports=2, buffer="3MB")
    pairs = [(src, dst) for src in range(8) for dst in (0, 3, 5) if src != dst]
    flows = flow_list(topo, [(src, dst, 30_000, f"{src}us") for src, dst in pairs])
    host = HostConfig(ports="packet")
    scheme = f"{scheme}:irn" if scheme == "recovery" else scheme
    runs = [simulate(topo, flows, scheme, threads=threads, host=host, measure=QUIET) for threads in (1, 2)]
    assert runs[0].summary["flows_finished"] == len(flows)
    same(*runs, scheme)
    assert runs[0].fingerprint() != simulate(topo, flows, scheme, measure=QUIET).fingerprint()


def test_messages_of_a_connection():
    """An all-reduce whose messages share connections uses all ports, too: half of the time of one port."""
    times = {}
    for ports in ("packet", "flow"):
        topo = network(hosts=4, count=2)
        flows = collective(topo, bytes=8_000_000)
        run = simulate(topo, flows, "spray", host=HostConfig(ports=ports), measure=QUIET)
        times[ports] = run.frame("operations")["time_ns"][0]
    assert times["flow"] / times["packet"] > 1.85


def test_hosts_with_one_link_are_as_before():
    topo = star(hosts=4)
    flows = flow_list(topo, [(i, 3, 50_000) for i in range(3)])
    for scheme in ("fifo", "bfc", "spray"):
        same(simulate(topo, flows, scheme, host=HOST), simulate(topo, flows, scheme, host=HostConfig(rto="1s")), scheme)


@pytest.mark.parametrize(
    "scheme, says",
    [
        ("fifo", 'host.ports = "packet": packets overtake one another, .*; add a scheme whose receivers do'),
        ("hpcc", 'host.ports = "packet": packets overtake one another'),
        ("bfc+spray", 'host.ports = "packet": the scheme pauses the NIC queue of a flow, .*; use another scheme'),
    ],
)
def test_refused(scheme, says):
    topo = network()
    with pytest.raises(SpecError, match=says):
        simulate(topo, flow_list(topo, [(0, 1, 1000)]), scheme, host=HOST)


def test_a_spec():
    text = (
        '[run]\nduration = "1ms"\n[topology]\nkind = "planes"\nhosts = 16\n[host]\nports = "packet"\n[scheme]\nname = "spray"\n'
    )
    text += '[[workload]]\nkind = "permutation"\nbytes = "100KB"\n'
    spec = parse_spec(text)
    assert spec.host.ports == "packet" and parse_spec(spec.to_toml()) == spec
    with pytest.raises(SpecError, match=r'host\.ports = "plane": must be one of flow, packet, rail'):
        parse_spec(text.replace('"packet"', '"plane"'))


# -- by rail: the connections of two hosts, as channels that are bound to NICs ------------------------------------------------

RAIL = HostConfig(ports="rail", rto="1s")


def messages(topo, connections, size=200_000):
    """Two messages of each connection from host 0 to 1."""
    return flow_list(topo, [{"src": 0, "dst": 1, "bytes": size, "connection": c} for c in connections for _ in range(2)])


@pytest.mark.parametrize("seed", range(6))
def test_a_connection_has_the_port_of_its_number(seed):
    """So as many connections as ports are not in one another's way, whatever the seed; two of one port share it."""
    topo = network(count=4)
    run = simulate(topo, messages(topo, [0, 1, 2, 3]), "fifo", host=RAIL, seed=seed, measure=QUIET)
    assert sent(run, 0).tolist() == [400 * (MTU + HEADER)] * 4
    one = (400 + 1) * FRAME + 2 * DELAY
    assert {round(ns * 1000) for ns in run.flows.sort("finish_ns")["finish_ns"][4:]} == {one}
    run = simulate(topo, messages(topo, [1, 5]), "fifo", host=RAIL, seed=seed, measure=QUIET)
    assert sent(run, 0).tolist() == [0, 800 * (MTU + HEADER), 0, 0]


def test_channels_of_a_collective_use_all_ports_alike():
    """Four pieces on four NICs: every port of every host carries as much; by hash none of the seeds gives that."""
    topo, packets = network(count=4), {}
    for ports in ("rail", "flow"):
        for seed in range(4):
            flows = collective(topo, bytes=4 * 4 * 16_000, chunks=4)
            run = simulate(topo, flows, "fifo", host=HostConfig(ports=ports), seed=seed, measure=QUIET)
            carried = run.ports.filter(pl.col("node") < 4)
            packets[ports, seed] = (carried["tx_bytes"] - carried["ack_bytes"]).to_numpy()
    assert all(np.ptp(packets["rail", seed]) == 0 < np.ptp(packets["flow", seed]) for seed in range(4))


def test_a_connection_leaves_a_rail_that_is_dead():
    topo = network(count=2).with_changes([{"time": "20us", "switch": "tor0", "up": False}])
    run = simulate(topo, messages(topo, [0, 1], 1_000_000), "fifo", host=HostConfig(ports="rail", rto="50us"), measure=QUIET)
    assert run.summary["flows_finished"] == 4 and sent(run, 0)[0] < 20_000_000 / PS + MTU + HEADER < sent(run, 0)[1]


def test_flows_without_a_connection_are_as_by_flow():
    topo = network()
    mixed = [{"src": 0, "dst": 1, "bytes": 50_000, "start": f"{i}us", **({"connection": 2} if i % 2 else {})} for i in range(8)]
    plain = [{key: value for key, value in item.items() if key != "connection"} for item in mixed]
    by_rail, by_flow = HostConfig(ports="rail"), HostConfig()
    runs = [simulate(topo, flow_list(topo, plain), "bfc", host=host) for host in (by_rail, by_flow)]
    same(*runs, "no connections")
    run = simulate(topo, flow_list(topo, mixed), "bfc", host=by_rail, measure=QUIET)
    alone = simulate(topo, flow_list(topo, plain[::2]), "bfc", host=by_flow, measure=QUIET)
    assert run.summary["flows_finished"] == 8 and sent(run, 0)[2] >= 4 * 50 * (MTU + HEADER)
    assert sent(run, 0).sum() == 2 * sent(alone, 0).sum()


@pytest.mark.parametrize("scheme", ["bfc", "hpcc", "pfc", "dcqcn"])
def test_rails_on_any_threads(scheme):
    topo = network(hosts=8, count=2, buffer="12MB")
    flows = collective(topo, collective="all_to_all", bytes=8 * 9000, chunks=2)
    runs = [simulate(topo, flows, scheme, host=RAIL, threads=threads, measure=QUIET) for threads in (1, 3)]
    same(*runs, scheme)
