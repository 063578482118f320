"""A flow without contention takes exactly the ideal time, by the receiver's and the sender's clock, to the last ps."""

import math
from fractions import Fraction

import numpy as np
import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st
from networks import (
    BFC,
    SHAPES,
    HostConfig,
    Measure,
    Topology,
    available,
    flow_list,
    networks,
    simulate,
    unbounded,
)

from penstock_net.composition import parse
from penstock_net.sim.builder import clocks
from penstock_net.sim.settings import Settings
from penstock_net.topology import leaf_spine, star
from penstock_net.workload import Flows

SCHEMES = [s for s in ("fifo", "dqa", "dqa:stochastic", "dqa:single", "pfc", "ideal_fq") if s.split(":")[0] in available()]
SIZES = [1, 2, 999, 1000, 1001, 1460, 8191, 65_536, 1_000_000, 4_321_987]


def in_turn(topo: Topology, pairs, sizes, host: HostConfig):
    """Flows that start one after another, each long after the one before has been acknowledged."""
    at, items = 0, []
    for (src, dst), size in zip(pairs, sizes):
        items.append((src, dst, size, f"{at}ps"))
        slowest = math.ceil(topo.links["ps_per_byte"].max())
        packets = -(-size // host.mtu)
        at += (size + packets * (host.header + host.ack)) * slowest * 8 + 4 * topo.base_rtt_ps(host.mtu, host.header, host.ack)
    return flow_list(topo, items)


def check_alone(topo: Topology, flows, scheme, host: HostConfig, seed: int, threads: int = 1) -> None:
    run = simulate(topo, flows, scheme, seed=seed, host=host, threads=threads, measure=Measure(sample="0s"))
    for row in run.flows.iter_rows(named=True):
        assert row["slowdown"] == 1.0, (
            f"{scheme}, seed {seed}, {host}: a lone flow of {row['bytes']} B from {row['src']} to {row['dst']} took "
            f"{row['fct_ns']} ns, ideal {row['ideal_fct_ns']} ns, on {topo.links.tolist()}"
        )
        assert row["sender_slowdown"] == 1.0, (
            f"{scheme}, seed {seed}, {host}: the sender of a lone flow of {row['bytes']} B from {row['src']} to {row['dst']} had "
            f"its last ACK at {row['acked_ns']} ns, {row['sender_slowdown']} times the ideal, on {topo.links.tolist()}"
        )
    assert run.summary["drops"] == 0 and run.summary["retransmissions"] == 0


def some_pairs(topo: Topology, count: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    src = rng.integers(0, topo.hosts, count)
    return list(zip(src.tolist(), ((src + rng.integers(1, topo.hosts, count)) % topo.hosts).tolist()))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_and_size(shape, scheme):
    topo, host = unbounded(SHAPES[shape]()), HostConfig()
    check_alone(topo, in_turn(topo, some_pairs(topo, len(SIZES)), SIZES, host), scheme, host, seed=3)


@pytest.mark.parametrize("shape", ["leaf_spine", "fat_tree", "clos"])
def test_backpressure_leaves_a_lone_flow_alone(shape):
    """No link is slower than the one before it, and one packet is no backlog: bfc pauses nothing."""
    topo, host = SHAPES[shape](), HostConfig()
    if shape != "leaf_spine":  # down from faster links: stay within what one packet may queue
        topo = type(topo)(
            **{
                **{f: getattr(topo, f) for f in topo.__dataclass_fields__},
                "links": np.array([(*l.tolist()[:4], 80, *l.tolist()[5:]) for l in topo.links], topo.links.dtype),
            }
        )
    flows = in_turn(topo, some_pairs(topo, len(SIZES)), SIZES, host)
    for scheme in ("bfc", BFC(queues=1, nic_queues=1), "bfc+pfc"):
        check_alone(topo, flows, scheme, host, seed=5, threads=2)


@pytest.mark.parametrize(
    "host",
    [
        HostConfig(mtu=1),
        HostConfig(mtu=64, header=0),
        HostConfig(mtu=256, header=98, ack=1),
        HostConfig(mtu=1460, header=40, ack=84),
        HostConfig(mtu=9000, header=48),
        HostConfig(mtu=31_900, header=48),
        HostConfig(ack_priority="data"),
    ],
    ids=str,
)
def test_every_kind_of_host(host):
    sizes = [s for s in SIZES if s <= 2000 * host.mtu]
    for shape in ("oversubscribed", "parking_lot"):
        topo = unbounded(SHAPES[shape]())
        check_alone(topo, in_turn(topo, some_pairs(topo, len(sizes)), sizes, host), "fifo", host, seed=1)


@examples(125)
@given(networks(whole=True), st.data())
def test_every_random_network(topo, data):
    """Any rates that are whole ps per byte, delays from 10 ns to 20 us, any packet size."""
    host = HostConfig(
        mtu=data.draw(st.sampled_from([1000, 100, 1460, 4096])),
        header=data.draw(st.integers(0, 100)),
        ack=data.draw(st.integers(1, 100)),
        rto="1s",
    )
    sizes = data.draw(st.lists(st.integers(1, 60_000), min_size=1, max_size=6))
    seed = data.draw(st.integers(0, 2**31 - 1))
    pairs = some_pairs(topo, len(sizes), seed)
    flows = in_turn(topo, pairs, sizes, host)
    check_alone(topo, flows, data.draw(st.sampled_from(SCHEMES)), host, seed, data.draw(st.integers(1, 2)))


@examples(40)
@given(networks(ps_per_byte=(10, 800), delay_ps=(1_000_000, 5_000_000), alike=True, whole=True), st.data())
def test_bfc_on_every_random_network_of_equal_links(topo, data):
    sizes = data.draw(st.lists(st.integers(1, 100_000), min_size=1, max_size=6))
    host = HostConfig(rto="1s")
    seed = data.draw(st.integers(0, 2**31 - 1))
    check_alone(topo, in_turn(topo, some_pairs(topo, len(sizes), seed), sizes, host), "bfc", host, seed)


@examples(75)
@given(networks(), st.data())
def test_rates_of_fractions_of_a_picosecond_a_byte(topo, data):
    """Each port rounds the time of packets in a row up by less than 1 ps: never before the exact time, at most 1 ps a hop after.

    Rates are kept to 2^-32 ps a byte, which is less than 0.001 ps for these flows.
    """
    host = HostConfig(mtu=data.draw(st.sampled_from([1000, 100, 4096])), header=data.draw(st.integers(0, 100)), rto="1s")
    sizes = data.draw(st.lists(st.integers(1, 200_000), min_size=1, max_size=4))
    pairs, seed = some_pairs(topo, len(sizes), data.draw(st.integers(0, 2**31 - 1))), data.draw(st.integers(0, 2**31 - 1))
    run = simulate(topo, in_turn(topo, pairs, sizes, host), "fifo", seed=seed, host=host, measure=Measure(sample="0s"))
    for flow, row in enumerate(run.flows.iter_rows(named=True)):
        path = [topo.links[link] for link in links_of(topo, flow, row, seed)]
        exact = alone(path, row["bytes"], host)
        late = round(1000 * row["fct_ns"]) - exact
        assert -0.001 < late <= len(path), f"{float(late)} ps after the exact time on {path}, {row['bytes']} B, {host}"
        assert row["slowdown"] >= 1.0


@examples(60)
@given(st.floats(6, 13), st.data())
def test_any_rate(power, data):
    """From 1 Mbit/s to 10 Tbit/s a row of packets takes its time within a millionth."""
    rate = data.draw(st.sampled_from([round(10**power), round(10 ** round(power)) + data.draw(st.integers(0, 999))]))
    topo = star(hosts=2, rate=rate)
    size, host = min(20_000_000, rate // 16), HostConfig(mtu=31_000, rto="10s")
    run = simulate(topo, flow_list(topo, [(0, 1, size)]), "fifo", host=host, measure=Measure(sample="0s"))
    wire = size + host.header * -(-size // host.mtu)
    last = min(size, host.mtu) + host.header
    exact = Fraction(8 * 10**12, rate) * (wire + last) + 2 * 10**6
    assert abs(round(run.flows["fct_ns"][0] * 1000) - exact) < exact / 10**6 and size > host.mtu


def links_of(topo: Topology, flow: int, row, seed: int) -> list[int]:
    at = {(link[node], link[port]): i for i, link in enumerate(topo.links) for node, port in (("a", "port_a"), ("b", "port_b"))}
    return [at[hop] for hop in topo.path_links(flow, row["src"], row["dst"], seed)]


def alone(path, size: int, host: HostConfig, rounded=lambda ps: ps, of_rate=Fraction) -> Fraction:
    """When the last byte of a flow is received, ps, by exact rates: packet by packet, link by link.

    What may be got wrong: how the time of each packet is `rounded`, and what is made `of_rate`.
    """
    free, arrived = [Fraction(0)] * len(path), Fraction(0)
    for start in range(0, size, host.mtu):
        arrived = Fraction(0)
        for i, link in enumerate(path):
            time = (min(host.mtu, size - start) + host.header) * of_rate(link["ps_per_byte"])
            free[i] = max(free[i], arrived) + rounded(time)
            arrived = free[i] + int(link["delay_ps"])
    return arrived


@pytest.mark.parametrize(
    "mistake",
    [{"rounded": math.ceil}, {"rounded": math.floor}, {"rounded": round}, {"of_rate": round}, {"of_rate": math.ceil}],
    ids=["each packet up", "each packet down", "each packet to the nearest", "whole ps per byte", "whole ps per byte, up"],
)
def test_mistakes_about_fractions_are_seen(mistake):
    """In a row of packets at a rate whose bytes take no whole picoseconds."""
    host, seen = HostConfig(), False
    for rate in ("7200Gbps", "56Gbps", "300Gbps", "10.3125Gbps"):
        topo = star(hosts=2, rate=rate)
        run = simulate(topo, flow_list(topo, [(0, 1, "1MB")]), "fifo", host=host, measure=Measure(sample="0s"))
        found = round(1000 * run.flows["fct_ns"][0])
        assert 0 <= found - alone(topo.links, 10**6, host) <= 2
        seen |= not -0.001 < found - alone(topo.links, 10**6, host, **mistake) <= 2
    assert seen


@examples(30)
@given(networks(whole=True), st.integers(0, 2**31 - 1), st.integers(0, 1000))
def test_a_host_sends_by_its_own_clock(topo, seed, ppm):
    """All else is as without `clock_ppm`: switches and their rates, delays, the ideal times."""
    host = HostConfig(rto="1s", clock_ppm=ppm)
    pairs = some_pairs(topo, 3, seed)
    flows = in_turn(topo, pairs, [1, 1500, 90_000], host)
    run = simulate(topo, flows, "fifo", seed=seed, host=host, measure=Measure(sample="0s"))
    clock = clocks(Settings(topo, Flows.none(), parse("fifo"), host=host, seed=seed))
    assert (abs(clock[: topo.hosts] - 1) <= ppm * 1e-6 + 1e-15).all() and (clock[topo.hosts :] == 1).all()
    for flow, row in enumerate(run.flows.iter_rows(named=True)):
        path = [topo.links[link].copy() for link in links_of(topo, flow, row, seed)]
        assert round(row["ideal_fct_ns"] * 1000) == alone(path, row["bytes"], host)
        path[0]["ps_per_byte"] *= clock[row["src"]]
        assert -0.001 < round(1000 * row["fct_ns"]) - alone(path, row["bytes"], host) <= len(path)


def test_mistakes_about_clocks_are_seen():
    """The sender's clock counts, on its own link: not the receiver's, not at the switch, and a fast one takes less time."""
    topo, host = star(hosts=2), HostConfig(clock_ppm=1000)
    run = simulate(topo, flow_list(topo, [(0, 1, "1MB")]), "fifo", host=host, seed=3, measure=Measure(sample="0s"))
    clock = clocks(Settings(topo, Flows.none(), parse("fifo"), host=host, seed=3))
    found = round(1000 * run.flows["fct_ns"][0])

    def said(first, second=1.0):
        path = [link.copy() for link in topo.links]
        for link, factor in zip(path, (first, second)):
            link["ps_per_byte"] *= factor
        return alone(path, 10**6, host)

    assert clock[0] > 1 + 1e-5 and abs(clock[0] - clock[1]) > 1e-5
    assert -0.001 < found - said(clock[0]) <= 2
    for mistake in (said(clock[1]), said(clock[0], clock[1]), said(2 - clock[0]), said(1.0)):
        assert abs(found - mistake) > 2


def test_clocks_differ_by_host_and_seed():
    topo, host = leaf_spine(hosts=64), HostConfig(clock_ppm=100)
    runs = [clocks(Settings(topo, Flows.none(), parse("fifo"), host=host, seed=seed)) for seed in (1, 2)]
    found = (np.array(runs)[:, :64] - 1) * 1e6
    assert len(set(found.ravel())) == 128 and found.min() < -90 and found.max() > 90 and abs(found.mean()) < 20
