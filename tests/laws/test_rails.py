"""Rails and planes: how many switches a flow meets, what they are made of, and that planes are apart."""

import networkx as nx
import numpy as np
import polars as pl
import pytest
from networks import FIFO, Measure, flow_list, simulate

from penstock_net.cli import main
from penstock_net.errors import SpecError
from penstock_net.report.inventory import bisection_bps, inventory
from penstock_net.report.network import network
from penstock_net.topology import behind_vswitches, clos, fat_tree, from_file, leaf_spine, parking_lot, planes, rails, sites, star

QUIET = Measure(sample="0s", flows=False)


def switches_between(topo, src, dst):
    return {len(topo.path_links(number, src, dst, seed=1)) - 1 for number in range(20)}


@pytest.mark.parametrize("ports, count", [(1, 1), (2, 1), (2, 2)])
def test_a_flow_meets_one_switch_on_its_rail_and_three_elsewhere(ports, count):
    topo = rails(servers=6, gpus=4, segment=3, spines=2, ports=ports, planes=count)
    for gpu in range(4):
        assert switches_between(topo, gpu, 4 + gpu) == {1}, "another server of the segment"
        assert switches_between(topo, gpu, 3 * 4 + gpu) == {3}, "a server of another segment"
        for other in set(range(4)) - {gpu}:
            assert switches_between(topo, gpu, 4 + other) == switches_between(topo, gpu, other) == {3}, "another rail"


def test_numbers_of_switches_and_cables():
    """By hand, and the published ones of DeepSeek's planes: 64 leaves and 32 spines of 64 ports each, 16 384 hosts in eight."""
    topo = rails(servers=64, gpus=8, segment=16, spines=8, ports=2, planes=2)
    leaves = 4 * 8 * 2 * 2
    assert (topo.hosts, topo.switches) == (512, leaves + 2 * 8)
    assert len(topo.host_links) == 512 * 2 * 2 and len(topo.core_links) == leaves * 8
    one_plane = leaf_spine(hosts=2048, tors=64, spines=32)
    assert one_plane.switches * 8 == 768 and set(one_plane.port_count[one_plane.hosts :]) == {64}
    expected = [
        "switches      16 ToR of 18 ports, 8 spine/aggregation of 4 ports",
        "cables        256 of hosts, 32 between switches",
        "bisection     1600Gbps between the hosts of half of the ToRs and the others, each way",
    ]
    assert inventory(planes(hosts=64, planes=4, tors=4, spines=2, rate="100Gbps")) == expected


@pytest.mark.parametrize(
    "shape, switches, cables",
    [
        # Alibaba's HPN: 15 360 GPUs with two ports of 200 Gbit/s, on two leaves of 128 NICs; spines with a port for every leaf
        (
            {"ports": 2, "spines": 120},
            "240 ToR of 248 ports, 120 spine/aggregation of 240 ports",
            "30720 of hosts, 28800 between",
        ),
        # its dual plane: first ports and second ports never meet, and a spine has half of the leaves
        (
            {"planes": 2, "spines": 60},
            "240 ToR of 188 ports, 120 spine/aggregation of 120 ports",
            "30720 of hosts, 14400 between",
        ),
    ],
    ids=["dual ToR", "dual plane"],
)
def test_the_published_sizes_of_hpn(shape, switches, cables):
    topo = rails(servers=1920, gpus=8, segment=128, rate="200Gbps", uplink_rate="400Gbps", **shape)
    found = inventory(topo)
    assert topo.hosts == 15_360 and found[0].split(None, 1)[1] == switches and found[1].split(None, 1)[1].startswith(cables)
    leaves = [{topo.names[peer] for peer in topo.peers(host)} for host in (0, 8, 127 * 8)]
    assert leaves[0] == leaves[1] == leaves[2] and len(leaves[0]) == 2, "a rail of a segment has two leaves"


def test_a_tor_that_fails_takes_half_of_a_gpu_s_ports():
    """Dual ToR: all of its flows go on by the other leaf of the rail, within the segment and beyond it."""
    topo = rails(servers=4, gpus=2, segment=2, ports=2, spines=2, rate="200Gbps")
    gone = topo.with_changes([{"time": "0s", "switch": "tor0", "up": False}])
    flows = flow_list(topo, [(0, to, 100_000, "1us") for to in (2, 4, 6, 5) for _ in range(8)])
    for net, ports in ((topo, 2), (gone, 1)):
        run = simulate(net, flows, FIFO(), measure=QUIET)
        assert run.summary["flows_finished"] == len(flows) and run.summary["drops"] == 0
        assert (run.ports.filter(pl.col("node") == 0)["tx_bytes"] > 0).sum() == ports


def test_nvswitches_are_counted_apart():
    """They add links and switches within servers, and nothing to what servers send one another."""
    plain, topo = (rails(servers=4, gpus=4, segment=2, spines=2, scale_up_rate=rate) for rate in (None, "2880Gbps"))
    assert (topo.hosts, topo.switches) == (plain.hosts, plain.switches + 4)
    assert topo.servers.server.tolist() == [i // 4 for i in range(16)] and topo.servers.place.tolist() == [0, 1, 2, 3] * 4
    assert bisection_bps(topo) == bisection_bps(plain) > 0 and topo.host_capacity_bps == plain.host_capacity_bps
    assert (topo.host_switches == plain.host_switches).all() and (topo.host_bps == plain.host_bps).all()
    assert topo.base_rtt_ps() == plain.base_rtt_ps() and plain.servers is None
    switches, cables, _ = inventory(topo)
    assert switches == "switches      4 scale-up of 4 ports, 8 ToR of 4 ports, 2 spine/aggregation of 8 ports"
    assert cables == "cables        16 of hosts, 16 between switches, 16 within servers"
    assert "in servers    2880Gbps 25ns; 4 servers" in topo.describe()


def test_servers_of_files(tmp_path):
    """NVSwitches are known by name or tier; a host that has no other link keeps that one as its own."""
    file = tmp_path / "network.csv"
    rows = [f"gpu{i},nvswitch{i // 2},2Tbps,25ns" for i in range(4)] + [f"gpu{i},rail{i % 2},400Gbps,1us" for i in range(4)]
    file.write_text("\n".join(["a,b,rate,delay", *rows]))
    topo = from_file(file)
    assert topo.servers.server.tolist() == [0, 0, 1, 1] and topo.tier.tolist() == [0] * 6 + [1] * 2
    assert [topo.names[i] for i in topo.host_switches] == ["rail0", "rail1"] * 2 and set(topo.host_bps) == {4e11}
    file.write_text("\n".join(["a,b,rate,delay", *rows[:4], *rows[4:6]]))
    topo = from_file(file, hosts="gpu*")
    assert topo.host_bps.tolist() == [4e11, 4e11, 2e12, 2e12]
    assert [topo.names[i] for i in topo.host_switches] == ["rail0", "rail1", "nvswitch1", "nvswitch1"]
    run = simulate(topo, flow_list(topo, [(2, 3, 1000)]), FIFO(), measure=QUIET)
    assert run.flows["slowdown"][0] == 1.0 and network(run).host.tolist() == [True] * 4 + [False] * 4


def test_servers_and_virtual_switches_are_not_mixed():
    with pytest.raises(
        SpecError, match="vswitches: host0 has a link to a switch within its server already; leave out scale_up_rate"
    ):
        behind_vswitches(rails(servers=2, gpus=2, scale_up_rate="2Tbps"))
    with pytest.raises(
        SpecError, match='scale_up_delay = "1us": is of links to an NVSwitch, and there is none; give scale_up_rate'
    ):
        rails(scale_up_delay="1us")


def test_explain_prints_it(tmp_path, capsys):
    spec = tmp_path / "mine.toml"
    text = '[run]\nduration = "1ms"\n[topology]\nkind = "rails"\nservers = 4\n'
    spec.write_text(text + '[[workload]]\nkind = "poisson"\nsizes = "google"\nload = 0.1\n[[scheme]]\nname = "fifo"\n')
    main(["explain", "--network", str(spec)])
    text = capsys.readouterr().out
    assert text.startswith("rails: 32 hosts, 16 switches") and "\nbisection     6400Gbps between" in text
    main(["explain", "--network", str(spec), "--headroom", str(spec)])
    assert "stands alone" in capsys.readouterr().err


@pytest.mark.parametrize(
    "topo",
    [
        leaf_spine(hosts=16, tors=4, spines=2),
        leaf_spine(hosts=16, tors=4, spines=8, uplink_rate="400Gbps"),
        fat_tree(k=4),
        fat_tree(k=4, uplink_rate="40Gbps"),
        clos(pods=2, tors=2, aggs=2, cores=2, hosts_per_tor=4, uplink_rate="100Gbps"),
        rails(servers=4, gpus=4, segment=2, spines=2, ports=2),
        planes(hosts=8, planes=2, tors=2, spines=1),
    ],
    ids=lambda topo: f"{topo.kind} {topo.params.get('uplink_rate', '')}",
)
def test_the_bisection_is_a_maximum_flow(topo):
    """Over all ways to send between the two halves, by networkx."""
    graph = nx.DiGraph()
    for link in topo.links:
        a, b, gbps = int(link["a"]), int(link["b"]), round(8000 / link["ps_per_byte"])
        for ends in ((a, b), (b, a)):
            graph.add_edge(*ends, capacity=gbps)
    first = {host: min(topo.peers(host)) for host in range(topo.hosts)}  # ToR
    half = sorted(set(first.values()))[: len(set(first.values())) // 2]
    for host, tor in first.items():
        graph.add_edge(*(("from", host) if tor in half else (host, "to")))  # without a limit
    assert bisection_bps(topo) == nx.maximum_flow_value(graph, "from", "to") * 1e9


@pytest.mark.parametrize(
    "topo", [star(hosts=4), parking_lot(), sites(), leaf_spine(hosts=12, tors=3)], ids=lambda topo: topo.kind
)
def test_no_bisection_where_there_is_no_simple_answer(topo):
    assert bisection_bps(topo) == 0 and len(inventory(topo)) == 2


def test_a_plane_that_fails_takes_its_share_of_every_host():
    """Flows of all ports share what is left; nothing leaves by the dead one, and a host is no way between planes."""
    count = 4
    topo = planes(hosts=4, planes=count, tors=2, spines=1, buffer=0)
    flows = flow_list(topo, [(0, 2, 20_000)] * 64)
    ends = {}
    for name, changes in (("whole", []), ("less", [{"time": "0s", "switch": "tor1", "up": False}])):
        run = simulate(topo.with_changes(changes), flows, FIFO(), measure=QUIET)
        assert run.summary["flows_finished"] == 64
        sent = run.ports.filter(pl.col("node") == 0).sort("port")["tx_bytes"].to_numpy()
        ends[name] = sent
    assert (ends["whole"] > 0).all() and ends["whole"].sum() == ends["less"].sum()
    assert (ends["less"] > 0).sum() == count - 1
    for number in range(20):
        hops = topo.path_links(number, 0, 2, seed=1)
        assert all(node >= topo.hosts for node, _ in hops[1:])
        plane = {int(topo.names[node].removeprefix("tor")) // 2 for node, _ in hops[1:] if topo.names[node].startswith("tor")}
        assert len(plane) == 1 and np.isin(hops[0][1], list(plane))
