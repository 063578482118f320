"""Incasts as in the Floodgate paper: whole packets, other racks, receivers in turn, hosts left out of Poisson traffic."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats
from test_workload import says

from penstock_net.errors import SpecError
from penstock_net.spec import load_spec
from penstock_net.topology import fat_tree, from_file, leaf_spine, star
from penstock_net.workload import build, incast, long_flows, poisson

MS = 10**9
LEAF_SPINE = {
    "hosts": 160,
    "tors": 10,
    "spines": 4,
    "rate": "100Gbps",
    "uplink_rate": "400Gbps",
    "delay": "600ns",
    "buffer": "20MB",
}
TOPO = leaf_spine(**LEAF_SPINE)
SMALL = leaf_spine(hosts=16, tors=4, spines=2)
FIRSTS = list(range(0, 160, 16))
MIX = {
    "fan_in": 720,
    "size": "30..40 x 1460B",
    "load": 0.5,
    "load_on": "receiver",
    "replace": True,
    "jitter": "99ns",
    "receivers": FIRSTS,
    "order": "in_turn",
    "pairs": "inter_rack",
}
BACKGROUND = {"sizes": "web_server", "load": 0.8, "load_on": "host", "pairs": "inter_rack"}
EVERY = 5_886_720_000  # ps: 8 * 720 * 35 * 1460 B / (0.5 * 100 Gbit/s)


@pytest.fixture(scope="module")
def events():
    return incast(TOPO, **MIX, duration=f"{100 * EVERY}ps", seed=5).check(TOPO)


# -- the incast mix (section 6) ---------------------------------------------------------------------------------------


def test_sizes_are_whole_packets_uniform_over_the_range(events):
    packets, rest = np.divmod(events.bytes, 1460)
    assert not rest.any()
    counts = np.bincount(packets)
    assert np.flatnonzero(counts).tolist() == list(range(30, 41))
    assert stats.chisquare(counts[30:]).pvalue > 1e-3


def test_the_whole_jitter_occurs_and_no_more():
    late = incast(SMALL, fan_in=200, replace=True, size="1KB", jitter="2ps", every="1us", duration="1us").start_ps
    assert set(late.tolist()) == {0, 1, 2}


def test_senders_are_uniform_over_the_other_racks(events):
    assert np.all(events.src // 16 != events.dst // 16)
    to_first = np.bincount(events.src[events.dst == 0], minlength=160)
    assert stats.chisquare(to_first[16:]).pvalue > 1e-3
    assert np.bincount(events.src[:720]).max() > 720 / 144  # with replacement


def test_receivers_in_turn_at_the_period_that_the_load_of_one_link_gives(events):
    assert events.nominal[0]["every_ps"] == EVERY
    assert events.nominal[0]["event_bytes"] == 720 * 35 * 1460
    assert events.dst[::720].tolist() == FIRSTS * 10
    number, late = np.divmod(events.start_ps, EVERY)
    assert np.array_equal(number, np.repeat(np.arange(100), 720))
    assert late.min() >= 0 and late.max() <= 99_000
    assert stats.kstest(late / 99_000, "uniform").pvalue > 1e-3


def test_load_of_the_receivers_link(events):
    """All of it would be on one link; with ten receivers each has a tenth."""
    duration = 100 * EVERY
    spread = np.std(np.arange(30, 41)) / 35 / np.sqrt(len(events))
    on_one_link = 8 * events.bytes.sum() / (duration / 1e12 * 100e9)
    assert on_one_link == pytest.approx(0.5, rel=4 * spread)
    assert events.realised(TOPO, duration)["load_host"] == pytest.approx(on_one_link / 160)
    one = incast(TOPO, **{**MIX, "receivers": [0]}, duration="600ms")
    assert one.nominal[0]["every_ps"] == EVERY


def test_excluded_hosts_are_left_out_and_all_other_flows_stay():
    everything = poisson(TOPO, **BACKGROUND, duration="2ms", seed=3)
    rest = poisson(TOPO, **BACKGROUND, duration="2ms", seed=3, exclude=FIRSTS)
    touched = np.isin(everything.src, FIRSTS) | np.isin(everything.dst, FIRSTS)
    for column in ("start_ps", "src", "dst", "bytes"):
        assert np.array_equal(getattr(rest, column), getattr(everything, column)[~touched])
    assert touched.mean() == pytest.approx(1 - 150 / 160 * 135 / 144, abs=4 * np.sqrt(0.12 * 0.88 / len(everything)))
    assert rest.nominal[0]["exclude"] == FIRSTS
    assert everything.nominal[0]["exclude"] is None
    assert rest.nominal[0]["flows_per_s"] == everything.nominal[0]["flows_per_s"]
    assert poisson(TOPO, **BACKGROUND, duration="1ms", exclude=[]).nominal[0]["exclude"] == []
    assert len(poisson(SMALL, load=0.1, duration="100us", exclude=16)) == 0


def test_realised_load_of_the_background():
    loads = np.array(
        [
            [
                poisson(TOPO, **BACKGROUND, duration="2ms", seed=seed, exclude=out).realised(TOPO, 2 * MS)["load_host"]
                for out in (None, FIRSTS)
            ]
            for seed in range(8)
        ]
    )
    error = 4 * loads.std(axis=0, ddof=1) / np.sqrt(8)
    assert loads[:, 0].mean() == pytest.approx(0.8, abs=error[0] + 0.002)
    assert loads[:, 1].mean() == pytest.approx(0.8 * 150 / 160 * 135 / 144, abs=error[1] + 0.002)


def test_the_preset_is_the_mix():
    spec = load_spec("floodgate")
    topo = spec.build_topology()
    assert topo == TOPO
    flows = spec.build_flows(topo)
    by_hand = poisson(TOPO, **BACKGROUND, exclude=FIRSTS, duration="2ms") + incast(TOPO, **MIX, duration="2ms", index=1)
    assert flows.key() == by_hand.key()
    assert spec.host.mtu == 1460


def test_what_is_not_asked_for_changes_nothing():
    """The senders of a seed do not depend on sizes, load or order; those of existing options never change."""
    plain = incast(SMALL, fan_in=3, duration="2ms", seed=9, receivers=[3, 5])
    assert list(zip(plain.src.tolist(), plain.dst.tolist())) == KNOWN
    ranged = incast(SMALL, fan_in=3, size="1..9 x 1KB", duration="2ms", seed=9, receivers=[3, 5])
    assert np.array_equal(ranged.src, plain.src) and np.array_equal(ranged.start_ps, plain.start_ps)
    twice = [incast(SMALL, fan_in=3, size="1..9 x 1KB", every=every, duration="2ms", seed=9) for every in ("500us", "1ms")]
    assert np.array_equal(twice[0].bytes[:6], twice[1].bytes)


KNOWN = [(2, 5), (8, 5), (1, 5), (4, 5), (13, 5), (9, 5), (11, 3), (2, 3), (4, 3), (8, 5), (12, 5), (10, 5)]


# -- the other incasts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tors", [5, 20, 40])
def test_pure_incast(tors):
    """Figure 14: all hosts but the destination send it one flow, once; 16 hosts per ToR."""
    topo = leaf_spine(**{**LEAF_SPINE, "hosts": 16 * tors, "tors": tors})
    flows = incast(topo, fan_in=topo.hosts - 1, size="30..40 x 1460B", receivers=[0], duration="1us")
    assert np.sort(flows.src).tolist() == list(range(1, topo.hosts))
    assert not flows.dst.any() and not flows.start_ps.any()


@pytest.mark.parametrize("times", [1, 12, 24])
def test_successive_incasts(times):
    """Figure 15: each host sends to one destination, then to another, and so on."""
    receivers = [16 * (i % 10) + i // 10 for i in range(24)]
    flows = build(
        {
            "kind": "incast",
            "fan_in": 159,
            "size": "30..40 x 1460B",
            "receivers": receivers,
            "order": "in_turn",
            "every": "1us",
            "duration": f"{times}us",
        },
        TOPO,
        MS,
        1,
    )
    assert len(flows) == 159 * times
    for i in range(times):
        event = slice(159 * i, 159 * i + 159)
        assert set(flows.start_ps[event]) == {i * 10**6}
        assert set(flows.dst[event]) == {receivers[i]}
        assert set(flows.src[event]) == set(range(160)) - {receivers[i]}


def test_a_flow_every_7700_us():
    """Figure 16: long flows to one receiver that arrive one by one, from anywhere or from hosts in a given order."""
    flows = incast(TOPO, fan_in=1, size="1GB", receivers=[0], pairs="inter_rack", every="7.7ms", duration="770ms")
    assert np.array_equal(flows.start_ps, np.arange(100) * 7_700_000_000)
    assert set(flows.dst) == {0} and flows.src.min() >= 16
    given = long_flows(TOPO, [(16 + i, 0) for i in range(100)], bytes="1GB", every="7.7ms")
    assert np.array_equal(given.start_ps, flows.start_ps)


# -- networks ---------------------------------------------------------------------------------------------------------


def paper_rtt_ps(topo, payload=1460):
    """Largest over pairs: twice the propagation delay, and what a packet's payload takes at each hop, one way."""
    longest = 0
    for dst in range(1, topo.hosts):
        links = [topo.links[topo.link(node, topo.peers(node)[port])] for node, port in topo.path_links(0, 0, dst, 1)]
        longest = max(longest, sum(2 * int(link["delay_ps"]) + payload * int(link["ps_per_byte"]) for link in links))
    return longest


def test_leaf_spine_has_the_papers_rtt_and_bdp():
    """5.1 us and 64 KB."""
    assert paper_rtt_ps(TOPO) == 5_092_000
    assert paper_rtt_ps(TOPO) / 80 == 63_650
    assert TOPO.core_capacity_bps == TOPO.host_capacity_bps


def test_fat_tree_is_the_papers_but_its_rtt_is_longer():
    """32 edge, 32 aggregation, 16 core switches and 128 hosts; six hops of 600 ns are 7.9 us and 99 KB."""
    topo = fat_tree(k=8, rate="100Gbps", delay="600ns", buffer="20MB")
    assert (topo.hosts, np.bincount(topo.tier)[1:].tolist()) == (128, [32, 32, 16])
    assert paper_rtt_ps(topo) == 7_900_800


def test_testbed():
    """Section 5.2: 3 ToRs, one core, 2 hosts each; 4 senders of other racks. 45 KB at 10 Gbit/s are 36 us."""
    topo = leaf_spine(hosts=6, tors=3, spines=1, rate="10Gbps", uplink_rate="20Gbps", delay="4.062us")
    assert paper_rtt_ps(topo) == 36_000_000
    assert topo.core_capacity_bps == topo.host_capacity_bps
    flows = incast(topo, fan_in=4, size="45KB", receivers=[0], pairs="inter_rack", duration="1us")
    assert np.sort(flows.src).tolist() == [2, 3, 4, 5]


def test_blocking_leaf_spine():
    """Figure 24."""
    topo = leaf_spine(**{**LEAF_SPINE, "uplink_rate": "200Gbps"})
    assert topo.host_capacity_bps == 2 * topo.core_capacity_bps


# -- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"size": "40..30 x 1460B"}, 'must go from 1 or more packets up to as many or more; write "30..40 x 1460B"'),
        ({"size": "0..3 x 1460B"}, 'write "1..3 x 1460B"'),
        ({"size": "30..40"}, 'size = "30..40": is not a range of whole packets; write it as "30..40 x 1460B"'),
        ({"size": "30KB..40KB"}, "is not a range of whole packets"),
        ({"size": "1.5..3 x 1460B"}, "is not a range of whole packets"),
        ({"size": "-3..3 x 1460B"}, "is not a range of whole packets"),
        ({"size": "30..40 x 1460"}, "the unit is missing"),
        ({"size": "30..40 x 0B"}, 'size = "0B": must be greater than zero'),
        ({"size": "30..40 x 1.5B"}, "is not a whole number of B"),
        ({"size": "1..2000 x 1GB"}, "more than 1000000000000 B per flow"),
        ({"size": "30..40 x 1460B", "total": "1MB"}, "give one of them"),
        ({"order": "inturn"}, 'did you mean "in_turn"?'),
        ({"order": True}, "order = true: must be one of random, in_turn"),
        ({"pairs": "other"}, 'pairs = "other": must be one of any, inter_rack'),
        ({"load": 0.5, "load_on": "receivers"}, 'did you mean "receiver"?'),
        ({"load": 1.5, "load_on": "receiver"}, "more than the links can carry"),
        ({"hosts": [4, 5], "receivers": [0, 6], "pairs": "inter_rack"}, "all senders are in the rack of host 6"),
    ],
)
def test_bad_incasts(options, text):
    says(text, incast, SMALL, **options)


def test_other_refusals(tmp_path):
    says('use pairs = "any"', incast, star(hosts=4), pairs="inter_rack")
    says("exclude.1 = 16: hosts are 0 to 15", poisson, SMALL, exclude=[0, 16])
    says('exclude = "host0"', poisson, SMALL, exclude="host0")
    says("exclude: host 3 occurs twice", poisson, SMALL, exclude=[3, "host3"])
    says("must be one of core, host", poisson, SMALL, load_on="receiver")
    says('workload.0.ordr: unknown key; did you mean "order"?', build, {"kind": "incast", "ordr": "in_turn"}, SMALL, MS, 1)
    says('workload.0.size = "9..3 x 1KB"', build, {"kind": "incast", "size": "9..3 x 1KB"}, SMALL, MS, 1)
    (tmp_path / "net.txt").write_text("h0 s 10Gbps 1us\nh1 s 10Gbps 1us\nh2 s 40Gbps 1us\n")
    mixed = from_file(tmp_path / "net.txt")
    says("different rates", incast, mixed, load=0.5, load_on="receiver")
    assert incast(mixed, load=0.5, load_on="receiver", receivers=[2], fan_in=1).nominal[0]["every_ps"] == 8 * 20e6 / 20e9 * 1e12


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.integers(1, 10**6), st.sampled_from(["", " ", "  "]))
def test_any_range_is_read(low, more, packet, space):
    size = f"{low}{space}..{space}{low + more}{space}x{space}{packet}B"
    assume((low + more) * packet <= 10**12)
    flows = incast(SMALL, fan_in=2, size=size, duration="1ms").check(SMALL)
    assert not np.any(flows.bytes % packet)
    assert np.all((low <= flows.bytes // packet) & (flows.bytes // packet <= low + more))
    assert flows.nominal[0]["event_bytes"] == packet * (2 * low + more)


def test_a_range_beyond_the_largest_flow_is_refused():
    assert incast(SMALL, fan_in=1, size="1..1000000 x 1MB", duration="1ms").nominal
    says("make it smaller", incast, SMALL, fan_in=1, size="1..1000001 x 1MB")


@given(st.text(st.sampled_from("0123456789.x BKM-"), max_size=12))
def test_any_other_text_is_refused_in_one_line(text):
    try:
        incast(SMALL, fan_in=2, size=text, duration="1ms").check(SMALL)
    except SpecError as error:
        assert str(error).startswith("size = ") and "\n" not in str(error)
