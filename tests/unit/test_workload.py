"""Random traffic: statistics of Poisson sources and incasts, loads, merging, random streams, [[workload]] tables."""

import inspect
import tracemalloc

import numpy as np
import polars as pl
import pytest
from scipy import stats

from penstock_net import topology, workload
from penstock_net.errors import SpecError
from penstock_net.topology import leaf_spine, star
from penstock_net.workload import KINDS, Flows, all_to_all, build, flow_list, incast, poisson
from penstock_net.workload.distributions import SizeDistribution

MS = 10**9
TOPO = leaf_spine(hosts=128, tors=8, spines=8, rate="100Gbps", delay="1us", buffer="12MB")
SMALL = leaf_spine(hosts=16, tors=4, spines=2)


def says(text, function, *args, **kwargs):
    with pytest.raises(SpecError) as error:
        function(*args, **kwargs)
    assert text in str(error.value)
    assert "\n" not in str(error.value)


@pytest.fixture(scope="module")
def google():
    return poisson(TOPO, sizes="google", load=0.6, duration="2ms", seed=3).check(TOPO)


# -- poisson ----------------------------------------------------------------------------------------------------------


def test_rate_is_load_times_capacity_over_the_mean_size(google):
    expected = 2e-3 * 0.6 * 6400e9 / (8 * SizeDistribution.load("google").mean())
    assert abs(len(google) - expected) < 4 * np.sqrt(expected)
    assert google.nominal[0]["flows_per_s"] == pytest.approx(expected / 2e-3)


def test_gaps_are_exponential(google):
    gaps = np.diff(google.start_ps)
    mean = 1e12 / google.nominal[0]["flows_per_s"]
    assert gaps.mean() == pytest.approx(mean, rel=4 / np.sqrt(len(gaps)))
    assert stats.kstest(gaps[:20_000] / mean, "expon").pvalue > 1e-3
    assert np.corrcoef(gaps[1:], gaps[:-1])[0, 1] == pytest.approx(0, abs=4 / np.sqrt(len(gaps)))


@pytest.mark.parametrize("sigma", [0.5, 2.0])
def test_gaps_are_lognormal_with_the_sigma_and_mean_asked_for(sigma):
    flows = poisson(TOPO, load=0.6, duration="4ms", arrivals="lognormal", sigma=sigma, seed=5)
    mean = 1e12 / flows.nominal[0]["flows_per_s"]
    gaps = np.diff(flows.start_ps).astype(float)
    log = np.log(gaps[gaps > 50])  # the clock's picosecond shows below
    beyond = stats.norm.sf((np.log(50 / mean) + sigma**2 / 2) / sigma)
    assert len(log) / len(gaps) == pytest.approx(beyond, abs=2e-3)
    mu = -(sigma**2) / 2 + np.log(mean)
    truncated = stats.truncnorm((np.log(50) - mu) / sigma, np.inf, loc=mu, scale=sigma)
    assert stats.kstest(log[:50_000], truncated.cdf).pvalue > 1e-3
    spread = np.sqrt(np.exp(sigma**2) - 1)
    assert gaps.mean() == pytest.approx(mean, rel=4 * spread / np.sqrt(len(gaps)))


def test_sizes_follow_the_distribution(google):
    dist = SizeDistribution.load("google")
    sizes = np.sort(google.bytes[:100_000])
    empirical = np.searchsorted(sizes, dist.bytes, side="right") / len(sizes)
    assert np.abs(empirical - dist.cdf(dist.bytes)).max() < stats.kstwobign.ppf(1 - 1e-3) / np.sqrt(len(sizes))


def test_pairs_are_uniform_and_never_to_oneself():
    flows = poisson(SMALL, load=0.6, duration="2ms", seed=11)
    counts = np.zeros((16, 16))
    np.add.at(counts, (flows.src, flows.dst), 1)
    assert np.all(np.diag(counts) == 0)
    assert stats.chisquare(counts[~np.eye(16, dtype=bool)]).pvalue > 1e-3


def test_inter_rack_pairs_are_uniform_over_other_racks():
    flows = poisson(SMALL, load=0.6, duration="2ms", seed=11, pairs="inter_rack")
    counts = np.zeros((16, 16))
    np.add.at(counts, (flows.src, flows.dst), 1)
    same = np.arange(16)[:, None] // 4 == np.arange(16) // 4
    assert np.all(counts[same] == 0)
    assert stats.chisquare(counts[~same]).pvalue > 1e-3


def test_a_subset_of_hosts():
    flows = poisson(SMALL, load=0.1, duration="1ms", hosts=[1, 5, "host9"], pairs="inter_rack")
    assert set(flows.src) == set(flows.dst) == {1, 5, 9}
    assert set(poisson(SMALL, load=0.1, duration="1ms", hosts=3).src) == {0, 1, 2}
    says("in one rack", poisson, SMALL, hosts=[0, 1, 2], pairs="inter_rack")
    says("occurs twice", poisson, SMALL, hosts=[0, 1, 1])
    says("hosts.1 = 16: hosts are 0 to 15", poisson, SMALL, hosts=[0, 16])
    says('did you mean "host3"?', poisson, SMALL, hosts=[0, "hots3"])


@pytest.mark.parametrize("sizes", ["facebook_hadoop", "google", "memcached"])
@pytest.mark.parametrize("load_on", ["core", "host"])
def test_realised_load_is_the_nominal_one(sizes, load_on):
    loads = [
        poisson(TOPO, sizes=sizes, load=0.4, load_on=load_on, duration="1ms", seed=seed).realised(TOPO, MS) for seed in range(8)
    ]
    realised = np.array([load[f"load_{load_on}"] for load in loads])
    assert realised.mean() == pytest.approx(0.4, abs=4 * realised.std(ddof=1) / np.sqrt(8) + 0.002)


def test_realised_load_counts_what_leaves_the_rack(google):
    """Uniform pairs of 128 hosts under 8 ToRs: 15 of 127 destinations lie in the source's rack."""
    load = google.realised(TOPO, 2 * MS)
    assert load["load_crossing"] / load["load_core"] == pytest.approx(112 / 127, rel=0.05)
    assert load["load_host"] == pytest.approx(load["load_core"] / 2)
    assert load["flows"] == len(google)
    assert load["bytes"] == google.bytes.sum()
    assert load["nominal"][0]["load"] == 0.6
    assert google.realised(TOPO, MS)["flows"] == np.sum(google.start_ps < MS)


def test_round_up_and_steps_keep_the_load_exact():
    for options in ({"round_up": 1000}, {"interpolate": False}):
        flows = poisson(TOPO, sizes="memcached", load=0.3, duration="200us", seed=2, **options)
        assert flows.realised(TOPO, MS // 5)["load_core"] == pytest.approx(0.3, rel=0.01)


def test_arrivals_lie_in_the_window():
    flows = poisson(TOPO, load=0.5, start="3us", duration="7us", seed=1)
    assert 3 * 10**6 <= flows.start_ps[0] < flows.start_ps[-1] < 10**7


def test_a_load_so_low_that_nothing_starts():
    with pytest.raises(SpecError, match=r"load = 1e-12: one flow per 3633\.73s on average, but flows arrive for 1us only"):
        poisson(TOPO, load=1e-12, duration="1us")


def test_no_flow_at_all_is_refused():
    """About one flow is expected: some seeds have none."""
    every_ps = int(10**12 / poisson(TOPO, load=0.1, duration="1ms").nominal[0]["flows_per_s"])
    tables = [{"kind": "poisson", "load": 0.1}]
    refused = 0
    for seed in range(20):
        try:
            assert len(build(tables, TOPO, every_ps + 1000, seed))
        except SpecError as error:
            refused += 1
            assert str(error).startswith("workload: no flow starts within")
    assert 0 < refused < 20


def test_overload_above_the_tors_is_seen():
    clos = topology.clos(pods=2, tors=2, aggs=2, cores=2, hosts_per_tor=8, uplink_rate="100Gbps")
    flows = poisson(clos, load=0.8, load_on="host", pairs="inter_rack", sizes="google_rpc_2008", duration="200us", seed=1)
    assert list(flows.overloaded(clos, MS // 5)) == ["ToR - spine/aggregation", "spine/aggregation - core"]
    assert not poisson(clos, load=0.2, load_on="host", duration="200us", seed=1).overloaded(clos, MS // 5)
    together = all_to_all(clos, bytes="1MB")
    assert together.realised(clos, MS // 100)["load_links"]["ToR - spine/aggregation"] > 1
    assert not together.overloaded(clos, MS // 100)  # a burst, not a load


def test_same_seed_same_flows_and_other_streams_are_apart(google):
    again = poisson(TOPO, sizes="google", load=0.6, duration="2ms", seed=3)
    assert again.key() == google.key()
    other = poisson(TOPO, sizes="google", load=0.6, duration="2ms", seed=3, index=1)
    n = min(len(other), len(google))
    assert other.key() != google.key()
    assert np.corrcoef(other.src[:n], google.src[:n])[0, 1] == pytest.approx(0, abs=4 / np.sqrt(n))
    lognormal = poisson(TOPO, sizes="google", load=0.3, duration="2ms", seed=3, arrivals="lognormal")
    n = min(len(lognormal), len(google))
    assert np.array_equal(lognormal.bytes[:n], google.bytes[:n])  # sizes are drawn from their own stream


def test_known_values_of_a_seed():
    """The trace of a seed is part of every published result: it must not change."""
    flows = poisson(TOPO, load=0.6, duration="1us", seed=1)
    assert flows.start_ps[:4].tolist() == KNOWN["start"]
    assert flows.bytes[:4].tolist() == KNOWN["bytes"]
    assert list(zip(flows.src[:4].tolist(), flows.dst[:4].tolist())) == KNOWN["pairs"]


KNOWN = {
    "start": [2280, 16674, 18761, 18980],
    "bytes": [109, 59740, 284, 519],
    "pairs": [(57, 39), (96, 62), (95, 101), (122, 2)],
}


def test_memory_is_little_more_than_the_columns():
    tracemalloc.start()
    flows = poisson(TOPO, sizes="google", load=0.6, duration="5ms")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.4 * 26 * len(flows) + 10e6


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"load": 1.2}, "load = 1.2: more than the links can carry"),
        ({"load": 0}, "load = 0: must be greater than zero"),
        ({"load": -0.5}, "load = -0.5"),
        ({"load": float("nan")}, "load = nan"),
        ({"load": "60%"}, 'load = "60%": must be a finite number; write 0.6'),
        ({"load_on": "cor"}, 'did you mean "core"?'),
        ({"arrivals": "poisson"}, 'arrivals = "poisson": must be one of exponential, lognormal'),
        ({"arrivals": "lognormal", "sigma": 0}, "sigma = 0"),
        ({"pairs": "interrack"}, 'did you mean "inter_rack"?'),
        ({"duration": "0s"}, 'duration = "0s": must be greater than zero'),
        ({"duration": "5"}, "the unit is missing"),
        ({"duration": "1e9s"}, 'duration = "1e9s": must be at most 4611686s'),
        ({"duration": "100s"}, "flows would start"),
        ({"start": "-1us"}, 'start = "-1us": must be zero or more'),
        ({"sizes": "gogle"}, 'did you mean "google"?'),
        ({"seed": -1}, "seed = -1"),
        ({"seed": 1.5}, "seed = 1.5: must be a whole number"),
        ({"priority": 8}, "priority = 8: must be between 0 and 7"),
        ({"class_name": "a,b"}, 'class = "a,b": must be 1 to 64 letters, digits or _.+:/- (spaces inside)'),
        ({"hosts": 1}, "hosts = 1: must be between 2 and 16"),
        ({"hosts": "all"}, 'hosts = "all": must be a number of hosts or a list of hosts'),
    ],
)
def test_bad_poisson_parameters(options, text):
    says(text, poisson, SMALL, **options)


def test_overload_by_force_and_core_load_without_a_core():
    assert len(poisson(SMALL, load=1.2, duration="10us", force=True)) > 0
    says('load_on = "host"', poisson, star(hosts=4), load=0.5)
    flows = poisson(star(hosts=4), load=0.5, load_on="host", duration="1ms")
    assert flows.realised(star(hosts=4), MS)["load_core"] is None


# -- incast -----------------------------------------------------------------------------------------------------------


def test_incast_as_in_the_bfc_paper():
    flows = incast(TOPO, fan_in=100, total="20MB", every="500us", duration="50ms", seed=4).check(TOPO)
    assert len(flows) == 100 * 100
    starts, counts = np.unique(flows.start_ps, return_counts=True)
    assert np.array_equal(starts, np.arange(100) * 500 * 10**6)
    assert np.all(counts == 100)
    assert np.all(flows.bytes == 200_000)
    assert flows.classes == ("incast",)
    assert flows.realised(TOPO, 50 * MS)["load_core"] == pytest.approx(0.05)
    for event in range(100):
        part = slice(100 * event, 100 * event + 100)
        assert len(set(flows.dst[part])) == 1
        assert len(set(flows.src[part])) == 100
    assert stats.chisquare(np.bincount(flows.dst[::100] // 16, minlength=8)).pvalue > 1e-3


def test_incast_senders_are_uniform_over_the_others():
    flows = incast(SMALL, fan_in=5, total="5KB", every="1us", duration="2ms", receivers=[3])
    counts = np.bincount(flows.src, minlength=16)
    assert counts[3] == 0
    assert set(flows.dst) == {3}
    assert stats.chisquare(np.delete(counts, 3)).pvalue > 1e-3


def test_incast_with_replacement():
    always = incast(SMALL, fan_in=15, total="15KB", duration="5ms", replace=True)
    assert any(len(set(always.src[i : i + 15])) < 15 for i in range(0, len(always), 15))
    once = incast(SMALL, fan_in=15, total="15KB", duration="5ms")
    assert all(len(set(once.src[i : i + 15])) == 15 for i in range(0, len(once), 15))
    many = incast(SMALL, fan_in=40, size="1KB", duration="5ms").check(SMALL)  # more senders than hosts
    assert len(many) == 400


def test_incast_as_in_the_hpcc_paper():
    """60 senders of 500 KB, Poisson events, 2 % of the host capacity."""
    flows = incast(TOPO, fan_in=60, size="500KB", load=0.02, load_on="host", arrivals="exponential", duration="400ms")
    assert flows.nominal[0]["every_ps"] == pytest.approx(8 * 60 * 500e3 / (0.02 * 12800e9) * 1e12)
    events = np.unique(flows.start_ps)
    assert flows.realised(TOPO, 400 * MS)["load_host"] == pytest.approx(0.02, rel=4 / np.sqrt(len(events)))
    gaps = np.diff(np.concatenate([[0], events])) / flows.nominal[0]["every_ps"]
    assert stats.kstest(gaps, "expon").pvalue > 1e-3


def test_incast_shares_out_every_byte_and_may_jitter():
    flows = incast(SMALL, fan_in=3, total=10, every="1ms", duration="1ms", start="2ms", jitter="100ns")
    assert sorted(flows.bytes) == [3, 3, 4]
    assert 2 * MS <= flows.start_ps.min() <= flows.start_ps.max() <= 2 * MS + 10**5


def test_jitter_takes_every_value_up_to_the_one_given():
    flows = incast(SMALL, fan_in=3, total=10, every="1us", duration="100us", jitter="2ps")
    late = flows.start_ps % 1_000_000
    assert np.bincount(late).tolist() == [pytest.approx(100, abs=40)] * 3


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"total": "1MB", "size": "1KB"}, "give one of them"),
        ({"every": "1us", "load": 0.1}, "give one of them"),
        ({"fan_in": 0}, "fan_in = 0: must be between"),
        ({"fan_in": 2.5}, "fan_in = 2.5: must be a whole number"),
        ({"total": 5, "fan_in": 10}, "fewer bytes than senders"),
        ({"size": "2TB"}, "more than 1000000000000 B per flow"),
        ({"every": "0s"}, 'every = "0s": must be greater than zero'),
        ({"load": 2.0}, "more than the links can carry"),
        ({"arrivals": "lognormal"}, 'arrivals = "lognormal": must be one of periodic, exponential'),
        ({"replace": "no"}, 'replace = "no": must be true or false'),
        ({"receivers": []}, "receivers: 0 hosts"),
        ({"every": "1ps", "duration": "1s"}, "flows would start"),
    ],
)
def test_bad_incast_parameters(options, text):
    says(text, incast, SMALL, **options)


# -- flows ------------------------------------------------------------------------------------------------------------


def test_merging_keeps_order_classes_and_both_sources(google):
    events = incast(TOPO, duration="2ms", every="100us")
    both = (google + events).check(TOPO)
    assert len(both) == len(google) + len(events)
    assert both.classes == ("poisson", "incast")
    assert np.all(np.diff(both.start_ps) >= 0)
    assert np.array_equal(both.bytes[both.class_id == 0], google.bytes)
    assert np.array_equal(both.src[both.class_id == 1], events.src)
    assert [source["kind"] for source in both.nominal] == ["poisson", "incast"]
    loads = both.realised(TOPO, 2 * MS)
    assert sum(part["load_core"] for part in loads["classes"].values()) == pytest.approx(loads["load_core"])
    assert sum([google, events]).key() == both.key()
    assert (events + google).classes == ("incast", "poisson")


def test_equal_starts_keep_the_order_of_the_sum():
    a = flow_list(SMALL, [(0, 1, 10, "1us"), (0, 2, 20, "1us")], class_name="a")
    b = flow_list(SMALL, [(3, 1, 30, "1us"), (3, 2, 40, "0s")], class_name="b")
    assert (a + b).bytes.tolist() == [40, 10, 20, 30]
    assert (a + Flows.empty()).bytes.tolist() == (Flows.empty() + a).bytes.tolist() == [10, 20]


def test_merging_renumbers_dependencies():
    chain = [{"src": 0, "dst": 1, "bytes": 5, "start": "2us"}, {"src": 1, "dst": 2, "bytes": 6, "start": "2us", "after": [0]}]
    a, b = flow_list(SMALL, chain), flow_list(SMALL, [(3, 4, 7, "1us"), (3, 4, 8, "9us")])
    for merged in (a + b, b + a, a + b + a):
        merged.check(SMALL)
        child, parent = merged.edges()
        assert merged.bytes[child].tolist() == [6] * len(child)
        assert merged.bytes[parent].tolist() == [5] * len(child)


def test_columns_are_sorted_with_their_dependencies_and_read_only():
    flows = Flows([5, 1, 3], [1, 0, 0], [2, 1, 1], [10, 20, 30], [0, 0, 0], [0, 0, 0], ("x",), ([0, 1, 1, 1], [1]))
    assert flows.start_ps.tolist() == [1, 3, 5]
    assert [edge.tolist() for edge in flows.edges()] == [[2], [0]]
    with pytest.raises(ValueError, match="read-only"):
        flows.bytes[0] = 1
    assert "3 of 60 B" in repr(flows)


def test_check_names_the_flow():
    def columns(**changes):
        base = {
            "start_ps": [0, 1],
            "src": [0, 1],
            "dst": [1, 2],
            "bytes": [10, 10],
            "class_id": [0, 0],
            "priority": [0, 0],
            "classes": ("x",),
        }
        return Flows(**{**base, **changes})

    columns().check(SMALL)
    says("flows.1.src = 99: hosts are 0 to 15", columns(src=[0, 99]).check, SMALL)
    says("flows.0.dst = -1", columns(dst=[-1, 2]).check, SMALL)
    says("flows.1.dst = 1: must differ from src", columns(dst=[1, 1]).check, SMALL)
    says("flows.1.bytes = 0", columns(bytes=[1, 0]).check, SMALL)
    says("flows.0.start_ps = -1", columns(start_ps=[-1, 0]).check, SMALL)
    says("flows.1.priority = 9", columns(priority=[0, 9]).check, SMALL)
    says("waits for flow 1, from host", columns(after=([0, 1, 1], [1])).check, SMALL)
    says("flows.0.after: waits for itself: flow 0 after 1 after 0", columns(dst=[1, 0], after=([0, 1, 2], [1, 0])).check, SMALL)
    says("priority = 300: does not fit into int8", columns, priority=np.array([0, 300]))
    says("bytes = 1.5: does not fit into int64", columns, bytes=[1, 1.5])
    says("src = nan", columns, src=[0, np.nan])
    says("class_id = 1", columns, class_id=[0, 1])
    says("flows.src: has shape", columns, src=[0])
    says("(CSR)", columns, after=([0, 1], [1]))
    says("parent 7 is not one", columns, after=([0, 0, 1], [7]))


def test_key_depends_on_all_there_is(google):
    base = flow_list(SMALL, [(0, 1, 10, "1us"), (1, 2, 10, "1us")])
    others = [
        flow_list(SMALL, [(0, 1, 10, "1us"), (1, 2, 11, "1us")]),
        flow_list(SMALL, [(0, 1, 10, "1us"), (1, 2, 10, "1us")], class_name="other"),
        flow_list(SMALL, [(0, 1, 10, "1us"), {"src": 1, "dst": 2, "bytes": 10, "start": "1us", "after": [0]}]),
    ]
    assert len({flows.key() for flows in [base, *others]}) == 4


def test_frames_there_and_back(google):
    both = google + flow_list(
        TOPO, [(0, 1, 9, "1.234567us"), {"src": 1, "dst": 0, "bytes": 8, "start": "1us", "after": 0, "class": "b"}]
    )
    frame = both.to_frame()
    assert frame.columns == ["flow_id", "src", "dst", "bytes", "class", "priority", "start_ns", "after", "gap_ns"]
    back = Flows.from_frame(frame, both.nominal)
    assert back.key() == both.key()
    assert Flows.from_frame(pl.DataFrame({"src": [0], "dst": [1], "bytes": [5], "start_ns": [0.25]})).start_ps[0] == 250
    says("flows.dst: the column is missing", Flows.from_frame, frame.drop("dst"))
    says("is of type String", Flows.from_frame, frame.with_columns(start_ns=pl.lit("soon")))


# -- [[workload]] tables ----------------------------------------------------------------------------------------------


def test_tables_build_what_the_functions_do():
    tables = [{"kind": "poisson", "sizes": "google", "load": 0.6}, {"kind": "incast", "every": "200us", "fan_in": 10}]
    built = build(tables, TOPO, MS, 7)
    by_hand = poisson(TOPO, load=0.6, duration="1ms", seed=7, index=0) + incast(
        TOPO, fan_in=10, every="200us", duration="1ms", seed=7, index=1
    )
    assert built.key() == by_hand.key()
    assert build(tables[0], TOPO, MS, 7).key() == build(tables[:1], TOPO, MS, 7).key()


def test_adding_a_source_leaves_the_others_as_they_were():
    one = build([{"kind": "poisson", "load": 0.2}], TOPO, MS, 7)
    two = build([{"kind": "poisson", "load": 0.2}, {"kind": "poisson", "load": 0.2, "class": "more"}], TOPO, MS, 7)
    assert np.array_equal(two.start_ps[two.class_id == 0], one.start_ps)
    n = min(len(one), np.sum(two.class_id == 1))
    assert not np.array_equal(two.start_ps[two.class_id == 1][:n], one.start_ps[:n])


def test_a_source_that_starts_later_ends_with_the_run():
    flows = build({"kind": "poisson", "load": 0.2, "start": "800us"}, TOPO, MS, 7)
    assert 800 * 10**6 <= flows.start_ps[0] < flows.start_ps[-1] < MS
    says("start earlier", build, {"kind": "poisson", "start": "1ms"}, TOPO, MS, 7)


def test_every_kind_can_be_built(tmp_path):
    (tmp_path / "f.csv").write_text("src,dst,bytes,start_ns\n0,1,10,0\n")
    more = {"flows": {"file": str(tmp_path / "f.csv")}, "list": {"flows": [[0, 1, "1MB", "0s"]]}}
    more["inference"] = {"rate": 20_000, "input_tokens": 5, "output_tokens": 1}
    for kind in KINDS:
        assert len(build({"kind": kind, **more.get(kind, {})}, SMALL, MS, 1)) > 0
    assert len(build([], SMALL, MS, 1)) == 0


@pytest.mark.parametrize(
    ("table", "text"),
    [
        (
            {"kind": "poison"},
            'workload.0.kind = "poison": must be one of incast, poisson, all_to_all, ',
        ),
        ({}, "workload.0.kind = None"),
        ({"kind": "poisson", "lod": 0.5}, 'workload.0.lod: unknown key; did you mean "load"?'),
        ({"kind": "poisson", "force": True}, "workload.0.force: unknown key"),
        ({"kind": "incast", "fanin": 5}, 'workload.0.fanin: unknown key; did you mean "fan_in"?'),
        ({"kind": "poisson", "load": 3}, "workload.0.load = 3"),
        ({"kind": "poisson", "duration": "1000s"}, "workload.0.duration: about "),
        ({"kind": "flows"}, 'workload.0.file: is missing; kind = "flows" needs it'),
        ({"kind": "flows", "file": "gone.csv"}, 'workload.0.file = "gone.csv": cannot be read: No such file or directory'),
        ({"kind": "flows", "file": 5}, "file = 5"),
        ({"kind": "list", "flows": 5}, "workload.0.flows = 5"),
        ({"kind": "list", "flows": []}, "workload.0.flows: the list is empty"),
        ({"kind": "list", "flows": [[0, 0, 5]]}, "workload.0.flows.0.dst = 0: must differ from src, a flow needs two hosts"),
        ({"kind": "list", "flows": [{"src": 0, "dst": 1, "byte": 5}]}, "workload.0.flows.0.byte: unknown key"),
        ({"kind": "ring_all_reduce", "bytes": 3}, "workload.0.bytes = 3: fewer than one per piece"),
        ({"kind": "permutation", "hosts": 99}, "workload.0.hosts = 99: must be between 2 and 16"),
    ],
)
def test_bad_tables(table, text):
    says(text, build, table, SMALL, MS, 1)


GENERATORS = sorted({*KINDS, "flow_list", "long_flows"} - {"flows", "list"})


@pytest.mark.parametrize("name", GENERATORS)
@pytest.mark.parametrize("topo", [None, "leaf_spine", [SMALL]])
def test_every_generator_says_that_it_needs_a_topology(name, topo):
    make = getattr(workload, name)
    others = [p for p in inspect.signature(make).parameters.values() if p.default is p.empty][1:]
    says("must be of type Topology; such as ps.star(hosts=16)", make, topo, *([(0, 1, 10)] for _ in others))


def test_the_second_table_is_named_as_such():
    says("workload.1.load = 7", build, [{"kind": "poisson", "load": 0.1}, {"kind": "poisson", "load": 7}], SMALL, MS, 1)
