"""Credits of links, beside a transcription of the specification's rules, dialogues computed by hand, and their laws."""

import dataclasses
from collections import defaultdict

import numpy as np
import polars as pl
import pytest
from drawn import examples
from helpers import DATA, EVERYTHING, US, acted, check_alone, check_bad, check_threads, network, planted, rows_of
from hypothesis import given
from hypothesis import strategies as st
from paper import cbfc

from penstock_net.composition import parse
from penstock_net.errors import SchemeError, SpecError
from penstock_net.sim.builder import build, compose
from penstock_net.sim.config import HostConfig, Measure
from penstock_net.sim.settings import Settings
from penstock_net.sim.simulate import simulate
from penstock_net.topology import Topology, behind_vswitches, dragonfly, fat_tree, leaf_spine, make_links, star
from penstock_net.workload import Flows, flow_list

HEADER = 48
SWITCH = 2  # of two hosts and one switch


def two_hosts(gaps, delays, loss=0.0, buffer=10_000_000):
    """host0 - switch - host1."""
    links = make_links([0, 1], [SWITCH, SWITCH], gaps, delays, loss)
    names = ("host0", "host1", "switch0")
    return Topology("file", 2, 1, links, np.array([buffer]), names, np.array([0, 0, 1], dtype=np.int8), {})


def hop_by_hop(packets, size, gaps, delays, limits, spacing, scheme="cbfc", **more):
    """-> times at which packets of one flow that nobody answers leave the first host, and the switch."""
    topo = two_hosts(gaps, delays)
    host = HostConfig(mtu=size - HEADER, header=HEADER)
    flow = {"src": 0, "dst": 1, "bytes": packets * (size - HEADER), "open_loop": True}
    parameters = {"limit": limits, "cf_spacing": f"{spacing}B", "cc_timer": 0, **more}
    run = simulate(topo, flow_list(topo, [flow]), parse(scheme, parameters), host=host, measure=EVERYTHING)
    rows = [row for row in rows_of(run) if row.node == SWITCH and row.kind == DATA]
    took = delays[0] + size * gaps[0]
    return [row.at - took for row in rows if row.event == "enqueue"], [row.at for row in rows if row.event == "dequeue"]


def model(packets, size, gaps, delays, limits, spacing, **mistake):
    links = [cbfc.Link(gap, delay, limits, spacing) for gap, delay in zip(gaps, delays)]
    return tuple(cbfc.chain([size] * packets, links, **mistake))


# ---- dialogues ----


def test_the_dialogue_of_three_packets():
    """100 Gbit/s, 1 us, 4160 B: 33 credits, .3328 us.  Of 99 credits three packets go; the first has left the switch at 1.6656,
    its CF_Update of .00064 arrives at 2.66624, and with it the fourth leaves.  Those behind it follow a packet later each."""
    left, forwarded = hop_by_hop(6, 4160, (80, 80), (US, US), 99, 800)
    assert left == [0, 332_800, 665_600, 2_666_240, 2_999_040, 3_331_840]
    assert forwarded == [time + 1_332_800 for time in left]


def test_the_dialogue_with_the_default_spacing():
    """The second CF_Update waits until 6400 B, .512 us, have passed since the first one; it tells of the second packet
    only, since the third has 0.1536 us to go, and the third one follows .512 us later."""
    left, _ = hop_by_hop(6, 4160, (80, 80), (US, US), 99, 6400)
    assert left == [0, 332_800, 665_600, 2_666_240, 3_178_240, 3_690_240]


def test_a_packet_as_long_as_the_limit():
    """One at a time: there, on, its update back, 2 x 1 us + 2 x .3328 + .00064."""
    left, _ = hop_by_hop(4, 4160, (80, 80), (US, US), 33, 800)
    assert left == [i * 2_666_240 for i in range(4)]


def test_a_host_takes_packets_at_once():
    """Over a last hop that is slow to answer: nothing is held there, so that its update leaves as the packet has come."""
    left, forwarded = hop_by_hop(5, 4160, (80, 80), (US, 10 * US), 33, 800)
    assert np.diff(forwarded).tolist() == [2 * 10 * US + 332_800 + 640] * 4
    assert left[1] == 1_665_600 + US + 640


# ---- the transcription ----

CHAINS = st.fixed_dictionaries(
    {
        "packets": st.integers(2, 40),
        "size": st.sampled_from([112, 256, 1048, 4160]),
        "gaps": st.tuples(st.sampled_from([20, 80, 320]), st.sampled_from([20, 80, 320])),
        "delays": st.tuples(st.integers(10_000, 3 * US), st.integers(10_000, 3 * US)),
        "limits": st.integers(33, 400),
        "spacing": st.sampled_from([800, 6400, 20_000]),
    }
)


@examples(60)
@given(CHAINS)
def test_every_packet_leaves_when_the_transcription_says(case):
    assert hop_by_hop(**case) == model(**case)


MISTAKES = ("frees_at_once", "frees_when_stored", "no_spacing", "rounds_down", "one_less", "long_update")
CASES = [
    {"packets": 20, "size": size, "gaps": (80, gap), "delays": (US, US // 4), "limits": limit, "spacing": 6400}
    for size, gap, limit in ((4160, 80, 99), (1048, 80, 90), (1048, 320, 72))
]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_planted_mistakes_are_found(mistake):
    value = 1 if mistake == "one_less" else True
    assert any(hop_by_hop(**case) != model(**case, **{mistake: value}) for case in CASES)


def test_the_planted_mistakes_are_mistakes():
    assert all(hop_by_hop(**case) == model(**case) for case in CASES)


# in the scheme itself: what is right, what is wrong
PLANTED = {
    "free as a packet begins to leave": (
        "egress.until = node.now + ceil(pkt.size * port.ps_per_byte)",
        "egress.until = node.now",
    ),
    "no spacing": ("when = max(end.earliest, when)", "when = max(node.now, when)"),
    "rounded down": ("size + cbfc.overhead + cbfc.credit - 1, 1)", "size + cbfc.overhead, cbfc.credit)"),
    "a credit too many": ("    if after <= limit:", "    if after <= limit + cost(cbfc, 1048):"),
    "a whole frame for an update": ("frame.size = SET * (changed if changed > 0 else cbfc.vcs)", "frame.size = 64"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("mistake", PLANTED)
def test_mistakes_planted_in_the_scheme_are_found(mistake, tmp_path):
    name = planted(tmp_path, "cbfc", *PLANTED[mistake])
    assert any(hop_by_hop(**case, scheme=name, unchecked=True) != model(**case) for case in CASES)


def test_a_lone_flow_is_ideal():
    check_alone("cbfc", {"cc_timer": 0})
    check_alone("cbfc", {"cc_timer": 0, "vcs": 2})


# ---- law 1: no credits beyond the limit, and no drop ----


def reserved(topo, name, parameters=None, host=None):
    """The buffers that a scheme reserves, as it is refused with less."""
    small = dataclasses.replace(topo, buffer_bytes=np.full(topo.switches, 10**9))
    given = Settings(small, Flows.none(), parse(name, parameters), host=host or HostConfig(), duration_ps=1)
    made = compose(given)
    sim = build(given, made)
    return np.array([sim.scheme_state("cbfc", topo.hosts + i, -1)["reserved"] for i in range(topo.switches)])


def least(topo, name="cbfc", parameters=None, host=None):
    return dataclasses.replace(topo, buffer_bytes=reserved(topo, name, parameters, host))


def crowd(topo, size=60_000):
    return flow_list(topo, [(i, 0, size, "1us") for i in range(1, topo.hosts)])


def most_stored(topo, run, credit=128):
    """(switch, ingress) -> the most credits that its packets held at once, the last bit of each counted."""
    rates = {}
    for link in topo.links.tolist():
        rates[link[0], link[2]] = rates[link[1], link[3]] = link[4]
    changes = defaultdict(list)
    for row in rows_of(run):
        if row.node >= topo.hosts and row.event in ("enqueue", "dequeue"):
            k = cbfc.cost(row.size, credit)
            end = row.at + round(row.size * rates[row.node, row.port]) if row.event == "dequeue" else row.at
            changes[row.node, row.in_port].append((end, -k if row.event == "dequeue" else k))
    return {key: int(np.cumsum([k for _, k in sorted(found)]).max()) for key, found in changes.items()}


@pytest.mark.parametrize("delay", ["10ns", "1us", "20us"])
@pytest.mark.parametrize("parameters", [{}, {"limit": 40}, {"vcs": 2}], ids=["full rate", "little", "two channels"])
def test_worst_case_senders_lose_nothing_with_the_least_buffer(delay, parameters):
    for topo in (star(hosts=9, delay=delay), leaf_spine(hosts=16, tors=4, spines=2, delay=delay, uplink_rate="40Gbps")):
        exact = least(topo, parameters=parameters)
        run = simulate(exact, crowd(exact), parse("cbfc", parameters), measure=EVERYTHING)
        assert run.summary["drops"] == 0 and run.summary["flows_finished"] == topo.hosts - 1
        found = most_stored(exact, run)
        if parameters.get("limit"):
            assert max(found.values()) <= 40 and max(found.values()) > 40 - 9


def test_a_byte_less_is_refused():
    topo = least(star(hosts=4))
    topo = dataclasses.replace(topo, buffer_bytes=topo.buffer_bytes - 1)
    with pytest.raises(SpecError, match=r"cbfc reserves .* of switch0 for its 4 links"):
        simulate(topo, crowd(topo), parse("cbfc"))


def test_a_limit_below_a_packet_is_refused():
    with pytest.raises(SpecError, match="a full packet takes 9 credits"):
        simulate(star(hosts=3), crowd(star(hosts=3)), parse("cbfc", {"limit": 8}))


@st.composite
def any_network(draw):
    kind = draw(st.sampled_from(["star", "leaf_spine", "fat_tree"]))
    delay = f"{draw(st.integers(10, 5000))}ns"
    rate = draw(st.sampled_from(["10Gbps", "100Gbps", "400Gbps", "30Gbps"]))
    if kind == "star":
        return star(hosts=draw(st.integers(2, 9)), delay=delay, rate=rate)
    if kind == "leaf_spine":
        return leaf_spine(hosts=8, tors=2, spines=2, delay=delay, rate=rate)
    return fat_tree(k=4, delay=delay, rate=rate)


@examples(25)
@given(any_network(), st.data())
def test_random_traffic_loses_nothing_and_stays_within_its_credits(topo, data):
    limit, credit, overhead = (
        data.draw(numbers) for numbers in (st.integers(20, 80), st.sampled_from([64, 128, 256]), st.integers(-16, 127))
    )
    parameters = {"limit": limit + 20, "credit": f"{credit}B", "overhead": overhead, "cf_spacing": "800B"}
    hosts = st.integers(0, topo.hosts - 1)
    items = data.draw(st.lists(st.tuples(hosts, hosts, st.integers(1, 30_000), st.integers(0, 3000)), min_size=1, max_size=20))
    items = [(a, b, size, f"{start}ns") for a, b, size, start in items if a != b] or [(0, 1, 5000, "0ns")]
    exact = least(topo, parameters=parameters)
    run = simulate(exact, flow_list(exact, items), parse("cbfc", parameters), measure=EVERYTHING)
    assert run.summary["drops"] == 0 and run.summary["flows_finished"] == len(items)
    if overhead == 0:
        assert max(most_stored(exact, run, credit).values()) <= limit + 20


# ---- law 2: throughput ----


@examples(30)
@given(
    st.integers(33, 400),
    st.integers(50_000, 3 * US),
    st.sampled_from([800, 6400]),
    st.sampled_from([1048, 4160]),
    st.sampled_from(["switch", "host"]),
)
def test_a_channel_has_at_least_the_throughput_of_the_closed_form(limit, delay, spacing, size, receiver):
    """Over the hop in question alone: the other one has neither delay nor want of credits."""
    limits = [limit, 5000] if receiver == "switch" else [5000, limit]
    topo = two_hosts((80, 80), (delay, 1000) if receiver == "switch" else (1000, delay))
    host = HostConfig(mtu=size - HEADER, header=HEADER)
    flow = {"src": 0, "dst": 1, "bytes": 300 * (size - HEADER), "open_loop": True}
    times = hop_by_hop(300, size, (80, 80), (delay, 1000) if receiver == "switch" else (1000, delay), max(limits), spacing)
    assert np.diff(times[0]).max() == 80 * size  # with credits in plenty: line rate
    expected = cbfc.throughput(80, delay, limit, size, 80 * size if receiver == "switch" else 0, spacing=spacing)
    run = simulate(
        topo, flow_list(topo, [flow]), parse("cbfc", {"limit": limit, "cf_spacing": f"{spacing}B"}), host=host, measure=EVERYTHING
    )
    rows = [
        row.at for row in rows_of(run) if row.node == SWITCH and row.event == ("enqueue" if receiver == "switch" else "dequeue")
    ]
    reached = 80 * size * 200 / (rows[-1] - rows[-201])
    short = 2 * 1000 + 2 * 80 * size + 81 * spacing  # what the other hop, of the same limit, may cost
    assert reached >= min(expected, limit // cbfc.cost(size) * 80 * size / short) * 0.999


@pytest.mark.parametrize("spacing,at_host,at_switch", [(6400, 297, 330), (800, 264, 297)])
def test_what_a_link_of_1_us_needs(spacing, at_host, at_switch):
    assert cbfc.for_full_rate(80, US, 4160, 0, spacing=spacing) == at_host
    assert cbfc.for_full_rate(80, US, 4160, 332_800, spacing=spacing) == at_switch


@pytest.mark.parametrize("size", [1048, 4160])
@pytest.mark.parametrize("delay", [25_000, 200_000, US, 10 * US])
def test_the_default_limit_is_full_rate_and_two_packets_less_is_not(delay, size):
    """Over a hop into a switch; with the spacing that no packet divides both numbers are a packet apart at most."""
    k, need = cbfc.cost(size), cbfc.for_full_rate(80, delay, size, 80 * size, spacing=800)
    for limit, full in ((0, True), (need, True), (need - 2 * k, False)):
        if limit < 0 or (limit and limit < k):
            continue
        left, _ = hop_by_hop(400, size, (80, 80), (delay, 10_000), limit, 800)
        assert (max(np.diff(left)) == 80 * size) == full, (limit, need)


# ---- law 3: leaks ----


def test_without_cc_updates_three_losses_stop_a_channel_for_good_and_with_them_none_is_longer_than_their_period():
    """Credits for three packets."""
    topo = two_hosts((80, 80), (US, US), [0.02, 0.0])
    flows = flow_list(topo, [{"src": 0, "dst": 1, "bytes": "4MB", "open_loop": True}])
    host = HostConfig(mtu=4112, header=HEADER)
    for timer in (0, "50us"):
        parameters = {"limit": 99, "cf_spacing": "800B", "cc_timer": timer}
        run = simulate(topo, flows, parse("cbfc", parameters), host=host, measure=EVERYTHING, max_time_ps=20_000 * US)
        rows = [row for row in rows_of(run) if row.node == SWITCH and row.kind == DATA]
        times = [row.at for row in rows if row.event == "enqueue"]
        lost = sum(row.event == "drop" for row in rows)
        if timer == 0:
            assert lost == 3 and times[-1] < 2000 * US
        else:
            assert lost > 10 and len(times) + lost == 973  # all packets of 4112 B
            assert max(np.diff(times)) <= 2 * 50 * US + 3 * US


def test_lost_updates_repair_themselves():
    topo = star(hosts=5)
    run = simulate(topo, crowd(topo), parse("cbfc", {"limit": 30}), control_loss=0.3)
    assert run.summary["flows_finished"] == 4 and set(run.ports["drop_reason"].drop_nulls().str.split(":").list.first()) == {
        "link loss"
    }


# ---- law 5: channels share nothing ----


def test_a_channel_that_is_stuck_takes_nothing_from_another():
    """Priority 1 goes to a host that reads 1 Mbit/s; priority 0 to another one, over the same links between the switches."""
    topo = leaf_spine(hosts=4, tors=2, spines=1).with_changes([{"time": "1ps", "a": "host3", "b": "tor1", "rate": "1Mbps"}])
    items = [(1, 3, "2MB", "0us", "flows", 1), (0, 2, "2MB", "10us", "flows", 0)]
    flows = flow_list(topo, [dict(zip(("src", "dst", "bytes", "start", "class", "priority"), item)) for item in items])
    apart = simulate(topo, flows, parse("cbfc", {"vcs": 2, "cc_timer": 0}), max_time_ps=2000 * US)
    together = simulate(topo, flows, parse("cbfc", {"cc_timer": 0}), max_time_ps=2000 * US)
    assert apart.flows.filter(pl.col("priority") == 0)["slowdown"].item() == 1.0
    assert together.flows.filter(pl.col("priority") == 0)["slowdown"].item() != 1.0


# ---- law 7: counters wrap ----


def counted(start, **more):
    topo = leaf_spine(hosts=8, tors=2, spines=2)
    run = simulate(
        topo, crowd(topo, 100_000), parse("cbfc", {"start": start, "limit": 40, **more}), measure=Measure(pauses=True), **LOSSY
    )
    return [frame.write_csv() for frame in (run.flows, run.ports, run.pauses)]


LOSSY = {"control_loss": 0.05}


@pytest.mark.parametrize("more", [{}, {"vcs": 3}])
def test_results_do_not_depend_on_where_counters_begin(more):
    first = counted(0, **more)
    assert first == counted(2**20 - 1, **more) == counted(2**19 + 3, **more)


# ---- pools ----


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"pool": 100},
        {"pool": 100, "pool_most": 45},
        {"pool": 100, "sharing": "dynamic"},
        {"pool": 100, "sharing": "dynamic", "pool_share": -2},
        {"pool": 100, "sharing": "dynamic", "pool_share": 1},
        {"port_limit": 70},
        {"pool": 100, "port_limit": 110},
    ],
)
def test_what_two_channels_may_have_of_a_pool(parameters):
    """Two flows of a host begin at once: the first priority sends until it may not, then the second one."""
    topo = star(hosts=2, delay="1ms")
    flows = flow_list(topo, [{"src": 0, "dst": 1, "bytes": "1MB", "priority": i, "open_loop": True} for i in range(2)])
    scheme = parse("cbfc", {"vcs": 2, "limits": [40, 50], **parameters})
    run = simulate(topo, flows, scheme, measure=EVERYTHING, max_time_ps=1900 * US)
    rows = [row for row in rows_of(run) if row.node == SWITCH and row.event == "enqueue"]
    dynamic = parameters.get("pool_share", 0) if parameters.get("sharing") else None
    shared = cbfc.Shared([40, 50], parameters.get("pool", 0), parameters.get("port_limit"), parameters.get("pool_most"), dynamic)
    expected = [shared.burst(i, 9) for i in range(2)]
    assert [sum(row.queue_bytes >= 0 and row.flow == i for row in rows) for i in range(2)] == expected


# ---- with others ----


@pytest.mark.parametrize(
    "name", ["dcqcn", "hpcc", "swift", "uec", "timely", "powertcp", "bfc", "spray", "dqa", "dctcp", "window_cap"]
)
def test_it_takes_the_place_of_pfc_under_any_transport(name):
    scheme = parse(f"{name}+cbfc")
    assert "pfc" not in scheme.parts and "cbfc" in scheme.parts
    topo = network(hosts=8, tors=2, spines=2, buffer="6MB")
    run = simulate(topo, crowd(topo, 200_000), scheme)
    assert run.summary["drops"] == 0 and run.summary["flows_finished"] == 7


def test_pfc_that_is_named_stays():
    assert "pfc" in parse("dcqcn+pfc+cbfc").parts


def test_acknowledgements_among_the_data_take_credits():
    topo = star(hosts=5)
    host = HostConfig(ack_priority="data")
    exact = least(topo, parameters={"vcs": 2, "limit": 20}, host=host)
    run = simulate(exact, crowd(exact), parse("cbfc", {"vcs": 2, "limit": 20}), host=host, measure=EVERYTHING)
    assert run.summary["drops"] == 0 and run.summary["flows_finished"] == 4
    assert max(most_stored(exact, run).values()) <= 20


def test_channels_of_a_dragonfly_and_servers_with_a_switch():
    topo = dragonfly(p=2, a=4, h=2)
    pairs = [(i, (i + topo.hosts // 2) % topo.hosts, "100KB") for i in range(topo.hosts)]
    run = simulate(topo, flow_list(topo, pairs), parse("valiant+cbfc", {"vcs": 3, "limit": 40}))
    assert run.summary["drops"] == 0 and run.summary["flows_finished"] == topo.hosts
    servers = behind_vswitches(leaf_spine(hosts=4, tors=2, spines=2), apps=2, buffer="2MB")
    run = simulate(servers, crowd(servers), parse("cbfc"))
    assert run.summary["drops"] == 0 and run.summary["flows_finished"] == servers.hosts - 1


def test_a_switch_and_a_link_that_fail_and_come_back():
    changes = [
        {"time": "20us", "switch": "spine0", "up": False},
        {"time": "60us", "switch": "spine0", "up": True},
        {"time": "100us", "a": "tor0", "b": "spine1", "up": False},
        {"time": "150us", "a": "tor0", "b": "spine1", "up": True},
    ]
    topo = leaf_spine(hosts=8, tors=2, spines=2).with_changes(changes)
    flows = flow_list(topo, [(i, 4 + i, "3MB") for i in range(4)])
    run = simulate(topo, flows, parse("cbfc", {"cc_timer": "20us"}), host=HostConfig(rto="300us"))
    assert run.summary["flows_finished"] == 4 and acted(run)


def test_any_threads_give_the_same_bits():
    run = check_threads("cbfc", {"limit": 40})
    assert run.ports["pauses_received"].sum() > 0
    check_threads("dcqcn+cbfc", {"cbfc.vcs": 2})


# ---- what is refused ----


def test_what_cannot_be():
    check_bad("cbfc", {"plain_switches": "*0"}, "cbfc is of both ends of a link")
    check_bad("cbfc", {"cf_spacing": "100B"}, "cf_spacing")
    topo = star(hosts=3)
    with pytest.raises(SpecError, match="cbfc does not see acknowledgements"):
        simulate(topo, crowd(topo), parse("cbfc"), host=HostConfig(ack_priority="data"))
    with pytest.raises(SchemeError, match=r"cbfc counts packets as they are, and telemetry may change .*name cbfc last"):
        simulate(topo, crowd(topo), parse("cbfc+telemetry"))
    with pytest.raises(SchemeError, match="leave one of them out"):
        simulate(topo, crowd(topo), parse("pias+cbfc", {"cbfc.vcs": 2}))
