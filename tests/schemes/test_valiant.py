"""Valiant's routing, UGAL and dimension order: the port and the virtual channel of every packet at every switch."""

import itertools
from itertools import count

import numpy as np
import pytest
from helpers import QUEUED_ACKS, check_alone, check_bad, check_threads, pauses_of, peers_of, planted, switch_rows, traced
from paper import dragonfly as paper
from paper import torus as rings

from penstock_net.composition import parse
from penstock_net.errors import SpecError
from penstock_net.hashing import choice, flow_hash, node_seed
from penstock_net.sim.simulate import simulate
from penstock_net.topology import dragonfly, torus
from penstock_net.workload import flow_list

RANDOM_PATH = 4
FEW = {"p": 2, "a": 3, "h": 2, "groups": 4}


def crossing(topo, size=12_000):
    """Several flows of every host, to others near and far, whose queues differ."""
    hosts = topo.hosts
    return flow_list(topo, [(i, (i + k) % hosts, size + 7 * i, f"{k}us") for i in range(hosts) for k in (1, 3, 6, 7, 13)])


def rows_by_packet(topo, flows, row):
    """(destination, hash) of the packet of a row: data, or the ACK that comes back."""
    h = int(flow_hash(row.flow, 1))
    return (int(flows.src[row.flow]), ~h) if row.kind else (int(flows.dst[row.flow]), h)


def differs(scheme, policy="valiant", bias=0, shape=FEW, classes=3):
    """Whether a packet takes another port, or waits in another queue, than the transcription says."""
    topo = dragonfly(**shape)
    parameters = {"policy": policy, "bias": bias, "classes": classes}
    flows, routes, peers = crossing(topo), topo.routes(), peers_of(topo)
    _, rows = traced(topo, flows, scheme, parameters, host=QUEUED_ACKS)
    group_of = {host: int(topo.group[topo.host_switches[host] - topo.hosts]) for host in range(topo.hosts)}
    routers, packets, waiting = {}, {}, {}
    for node in range(topo.hosts, topo.nodes):
        numbers, random = count(1), int(flow_hash(node + (1 << 41), 1)) * 4 + RANDOM_PATH
        mine = set(np.flatnonzero(topo.host_switches == node).tolist())
        draw = lambda numbers=numbers, random=random: int(flow_hash(next(numbers), random)) % topo.hosts  # noqa: E731
        routers[node] = paper.Router(int(topo.group[node - topo.hosts]), mine, group_of.get, draw)
    used = set()
    for row in sorted((row for mine in switch_rows(topo, rows).values() for row in mine), key=lambda row: row.at):
        node, key = row.node, (row.kind, row.flow, row.offset)
        if row.event != "enqueue":
            waiting[node, row.port] = row.port_bytes
            continue
        dst, h = rows_by_packet(topo, flows, row)

        def port(host, node=node, h=h):
            ports = routes.ports(node, host)
            return ports[int(choice(h, node_seed(node, 1), len(ports))) if len(ports) > 1 else 0]

        came = peers[node, row.in_port][0]
        if came < topo.hosts:
            packets[key] = paper.Packet(dst)
            routers[node].from_host(packets[key], policy, port, lambda out, node=node: waiting.get((node, out), 0), bias)
        elif row.kind:  # of several ACKs with the same number none is known again
            waiting[node, row.port] = row.port_bytes
            continue
        else:
            far = topo.group[came - topo.hosts] != routers[node].group
            routers[node].from_router(packets[key], far, classes)
        last = dst in routers[node].mine
        used.add((packets[key].mid is not None, packets[key].vc))
        if row.port != routers[node].next_port(packets[key], port):
            return True
        if not last and row.queue != packets[key].vc:
            return True
        waiting[node, row.port] = row.port_bytes
    wanted = {"valiant": {(True, 0), (False, 1), (False, 2)}, "ugal": {(True, 0), (False, 0), (False, 2)}, "minimal": set()}
    assert used >= wanted[policy] or classes < 3, "no such packets: the test says nothing"
    return False


@pytest.mark.parametrize("policy", ["valiant", "ugal", "minimal"])
@pytest.mark.parametrize("shape", [FEW, {"p": 1, "a": 4, "h": 1}], ids=["several links", "one link"])
def test_every_packet_goes_and_waits_as_the_transcription_says(policy, shape):
    assert not differs("valiant", policy, 1000, shape, 2 if policy == "minimal" else 3)


MISTAKES = {
    "by way of the own group": ("elif group != home and group != node.group:", "elif group != home:"),
    "to the very host": ("if node.group == group_of(node, mine.via):", "if is_at(node, pkt, mine.via):"),
    "one class in a group": ("step = 2", "step = 1"),
    "a class for ever": ("step = port.label & 1", "step = 0"),
}
OF_UGAL = {
    "as long": ("2 * way.bytes", "way.bytes"),
    "less, not at most": ("direct.bytes <= 2", "direct.bytes < 2"),
}


@pytest.mark.parametrize("mistake", [*MISTAKES, *OF_UGAL])
def test_a_planted_mistake_is_found(tmp_path, mistake):
    file = planted(tmp_path, "valiant", *(MISTAKES | OF_UGAL)[mistake])
    policy = "ugal" if mistake in OF_UGAL else "valiant"
    assert differs(file, policy, 0 if mistake == "less, not at most" else 1000)


def differs_in_a_torus(scheme, dims):
    topo = torus(dims=dims)
    places = list(itertools.product(*map(range, dims)))
    flows, peers = crossing(topo), peers_of(topo)
    _, rows = traced(topo, flows, scheme, host=QUEUED_ACKS)
    before, halves = {}, set()
    for row in sorted((row for mine in switch_rows(topo, rows).values() for row in mine), key=lambda row: row.at):
        dst, h = rows_by_packet(topo, flows, row)
        here, there = places[row.node - topo.hosts], places[dst]
        if row.event != "enqueue" or here == there:
            continue
        key, peer = (row.kind, row.flow, row.offset), peers[row.node, row.port][0]
        if peer < topo.hosts:
            return True
        next_place, d = places[peer - topo.hosts], rings.first_wrong(here, there)
        ways = [(*here[:d], place, *here[d + 1 :]) for place in rings.towards(here[d], there[d], dims[d])]
        if len(ways) > 1:
            halves.add(next_place == ways[0])
            ports = sorted(
                p for (n, p), (to, *_) in peers.items() if n == row.node and to - topo.hosts in map(places.index, ways)
            )
            if row.port != ports[int(choice(h, node_seed(row.node, 1), 2))]:
                return True
        channel = rings.channel(
            before.get(key) if peers[row.node, row.in_port][0] >= topo.hosts else None, d, here[d], next_place[d], dims[d]
        )
        if next_place not in ways or row.queue != channel:
            return True
        before[key] = (d, channel)
    assert len(halves) == (2 if any(size % 2 == 0 and size > 2 for size in dims) else 0)
    return False


@pytest.mark.parametrize("dims", [[5], [4, 3], [3, 2, 4]], ids=str)
def test_every_packet_goes_dimension_by_dimension(dims):
    assert not differs_in_a_torus("dimension_order", dims)


OF_TORUS = {
    "no dateline": ("    if way.label & 1:", "    if 0:"),
    "a link too late": ("    if way.label & 1:", "    if port.label & 1:"),
    "any dimension": (
        "pick(pkt.hash, node.hash_seed, alike(node, pkt))",
        "pick(pkt.hash, node.hash_seed, path_count(node, pkt))",
    ),
}


@pytest.mark.parametrize("mistake", OF_TORUS)
def test_a_planted_mistake_in_a_torus_is_found(tmp_path, mistake):
    assert differs_in_a_torus(planted(tmp_path, "dimension_order", *OF_TORUS[mistake]), [4, 3])


def classes_paused(scheme):
    """Of links between switches of a ring, all of which carry as much: those in which packets left that were paused there."""
    topo = torus(dims=[6], hosts_per_switch=3, buffer="300KB", delay="100ns")
    flows = flow_list(topo, [(i, (i + 6) % topo.hosts, "100KB") for i in range(topo.hosts)])
    run, rows = traced(topo, flows, f"{scheme}+pfc", {"pfc.priorities": 2, "pfc.alpha": 0.02}, host=QUEUED_ACKS)
    left = {(row.node, row.port, row.queue) for row in rows if row.event == "dequeue"}
    told = {
        (node, port, queue) for (node, port), events in pauses_of(run).items() for _, queue, _ in events if node >= topo.hosts
    }
    assert told <= left
    return {queue for _, _, queue in told}


def test_a_pause_is_of_the_class_in_which_packets_came(tmp_path):
    """Those beyond the dateline are charged to class 1; a planted mistake charges them to class 0."""
    assert classes_paused("dimension_order") == {0, 1}
    file = planted(tmp_path, "dimension_order", "pkt.priority = mine.next", "pkt.priority = 0")
    assert classes_paused(file) == {0}


@pytest.mark.parametrize("scheme", ["valiant:ugal", "dimension_order+pfc"])
def test_threads_give_the_same_bits(scheme):
    topo = dragonfly(p=2, a=2, h=2, groups=5) if "ugal" in scheme else torus(dims=[4, 5])
    check_threads(scheme, {"pfc.priorities": 2} if "pfc" in scheme else None, topo)


def test_other_networks_are_as_without_it():
    check_alone("valiant")
    check_alone("dimension_order")


def test_what_does_not_fit():
    check_bad("valiant", {"classes": 9}, "classes")
    for scheme, said in (
        ("valiant+spray", "valiant and spray both choose the path"),
        ("valiant+dqa", "both choose the queue"),
        ("valiant+expresspass", "expresspass"),
    ):
        check_bad(scheme, None, said)
    topo = dragonfly(**FEW).with_cut_through()
    with pytest.raises(SpecError, match="valiant chooses other ports"):
        simulate(topo, crossing(topo), parse("valiant"))
