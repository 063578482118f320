"""Figures 2, 3 and 9 to 12 of HPCC and its abstract: networks, loads, statistics, and every claim at scale quick."""

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from penstock_net.spec import parse_spec
from penstock_papers import EXPERIMENTS, framework, reproduce
from penstock_papers.claims import DIFFERS, FROM_PAPER, NOT_JUDGED, OURS, PASS, stale_differences
from penstock_papers.hpcc import _fabric as fabric
from penstock_papers.hpcc import _testbed as testbed
from penstock_papers.hpcc import abstract, fig02, fig03, fig09, fig10, fig11
from penstock_papers.registry import SCALES

MACRO = ["hpcc/fig02", "hpcc/fig03", "hpcc/fig09", "hpcc/fig10", "hpcc/fig11", "hpcc/fig12", "hpcc/abstract"]
DCQCN, HPCC = fig10.SCHEMES


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Runs are shared: those of the abstract are of figures 10 and 11."""
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("id", MACRO)
def test_quick_claims_pass(id, tmp_path, cache):
    outcome = reproduce(id, out=tmp_path, cache=cache, console=Console(quiet=True))
    judged = [claim for claim in outcome.claims if claim.verdict != NOT_JUDGED]
    assert judged and {claim.verdict for claim in judged} <= {PASS, DIFFERS}
    assert stale_differences(outcome.claims, "quick", EXPERIMENTS[id].differs) == []
    ids = [claim.id for claim in outcome.claims]
    assert len(set(ids)) == len(ids) and set(EXPERIMENTS[id].differs) <= set(ids)
    slowdowns = outcome.data.filter(pl.col("panel").is_in(["p50", "p95", "p99"]))["y"]
    assert len(slowdowns) == 0 or slowdowns.min() > 0.999
    for panel in EXPERIMENTS[id].draw(outcome.data).axes:
        assert panel.get_lines() or panel.patches


# -- networks and traffic


def built(fabric_table):
    flows = [{"kind": "list", "flows": [[0, 1, "1000B", "0s"]]}]
    return parse_spec(fabric.spec(fabric_table, [HPCC], flows, "1us")).build_topology()


def test_networks_have_the_paper_s_numbers():
    tree, bed, pod = (built(table) for table in (fabric.FAT_TREE, testbed.TESTBED, testbed.POD))
    assert (tree.hosts, tree.switches) == (320, 16 + 20 + 20) and np.bincount(tree.tier).tolist() == [320, 20, 20, 16]
    assert np.bincount(bed.tier).tolist() == [32, 4, 1] and np.bincount(pod.tier).tolist() == [232, 16, 8]
    assert tree.capacity_bps("host") == 320 * 100e9
    for topo in (tree, pod):  # nothing is oversubscribed
        assert topo.capacity_bps("core") >= topo.capacity_bps("host")
    assert (bed.capacity_bps("core"), bed.capacity_bps("host")) == (4 * 100e9, 64 * 25e9)


def test_servers_of_the_testbed_are_at_two_tors_and_a_tor_has_one_link_to_the_agg():
    """Section 5.1: 16 servers at ToR1 and ToR2, 16 at ToR3 and ToR4."""
    topo = built(testbed.TESTBED)
    at = {}
    for a, b in topo.links[["a", "b"]].tolist():
        at.setdefault(a, []).append(b)
    tors, agg = [32, 33, 34, 35], 36
    assert [at[host] for host in range(32)] == [tors[:2]] * 16 + [tors[2:]] * 16
    assert [at[tor] for tor in tors] == [[agg]] * 4


@pytest.mark.parametrize("name", testbed.READINGS)
def test_a_reading_of_the_testbed_has_the_load_that_it_says(name):
    """From the flows: of both tiers, or of the servers' links; what crosses is counted by hand."""
    reading = testbed.READINGS[name]
    spec = parse_spec(fig10.of_reading(reading, "paper")["50 %"])
    topo = spec.build_topology()
    flows = spec.build_flows(topo)
    side = flows.src // 16 != flows.dst // 16  # racks of NICs, pairs of servers: 16 ends each
    seconds = spec.duration_ps / 1e12
    servers = flows.bytes.sum() * 8 / seconds / topo.capacity_bps("host")
    uplinks = flows.bytes[side].sum() * 8 / seconds / (4 * reading.links * 100e9)
    assert topo.capacity_bps("core") == 4 * reading.links * 100e9
    assert (servers + uplinks) / 2 if reading.load == "tiers" else servers == pytest.approx(0.5, rel=0.03)
    assert uplinks / servers == pytest.approx(reading.uplinks, rel=0.03) and uplinks < 1


def test_readings_are_those_that_the_uplinks_can_carry():
    assert len(testbed.READINGS) == 12 and testbed.READINGS["servers, 1 link, tiers, all ports"] == testbed.DRAWN
    too_much = testbed.Reading("servers", 1, "hosts")
    assert too_much.of_hosts(0.5) * too_much.uplinks > 1 and too_much not in testbed.READINGS.values()
    probe = testbed.READINGS["NICs, 1 link, tiers, all ports"]
    assert (probe.of_hosts(0.5), probe.of_hosts(0.5) * probe.uplinks) == (
        pytest.approx(0.247, abs=1e-3),
        pytest.approx(0.753, abs=1e-3),
    )


def test_pfc_is_that_of_the_authors_simulator():
    """Its third.cc: a shift of 3, one less for each doubling of the servers' rate; other ports of the same rate keep it."""

    def shift(rate, nic):
        found = 3
        while rate > nic and found > 0:
            found, rate = found - 1, rate // 2
        return found

    pfc = fabric.PFC
    at = dict(zip(pfc["rates"], zip(pfc["rate_alpha"], pfc["host_alpha"])))
    for nic, uplink in ((100, 400), (25, 100)):
        assert at[f"{uplink}Gbps"][0] == 2.0 ** -shift(uplink, nic)
        assert at.get(f"{nic}Gbps", (0, pfc["alpha"]))[1] == 2.0 ** -shift(nic, nic)
    assert pfc["reserve"] == 4096 and 1 / (1 + 1 / pfc["alpha"]) == pytest.approx(0.11, abs=0.002)


def test_the_simulations_have_the_authors_maxstage_and_the_testbed_the_text_s():
    for figure, stage, beside in ((fig11, 0, 5), (fig10, None, 0)):
        found = {table["label"]: table for spec in figure.specs("paper").values() for table in spec["scheme"]}
        hpcc = {label: table for label, table in found.items() if table["name"].startswith("hpcc")}
        assert hpcc["HPCC"]["name"] == ("hpcc:ns3" if stage == 0 else "hpcc") and "max_stage" not in hpcc["HPCC"]
        assert [table["max_stage"] for table in hpcc.values() if "max_stage" in table] == [beside]


@pytest.mark.parametrize(
    ("network", "dst", "low", "high"),
    [("TESTBED", 1, 5.35, 5.4), ("TESTBED", 31, 8.45, 8.5), ("RACK", 1, 5.35, 5.4), ("FAT_TREE", 319, 12, 13)],
)
def test_base_rtts_are_the_paper_s(network, dst, low, high):
    """Us, of a packet of 1000 B and its ACK; T, which HPCC is given, is a little longer."""
    table = getattr(fabric if network == "FAT_TREE" else testbed, network) | ({"hosts": 9} if network == "RACK" else {})
    spec = parse_spec(fabric.spec(table, [DCQCN], [{"kind": "list", "flows": [[0, dst, "1000B", "0s"]]}], "20us"))
    topo = spec.build_topology()
    run = spec.simulate(spec.schemes[0], topo, spec.build_flows(topo))
    rtt = run.flows.select((pl.col("acked_ns") - pl.col("start_ns")) / 1e3).item()
    assert low <= rtt <= high <= float(fabric.T[table["rate"]].removesuffix("us"))


def offered(spec):
    """The load of the hosts' links by class, from the flows."""
    topo = spec.build_topology()
    flows = spec.build_flows(topo)
    capacity = topo.capacity_bps("host") * spec.duration_ps / 1e12
    return {name: flows.bytes[flows.class_id == k].sum() * 8 / capacity for k, name in enumerate(flows.classes)}


@pytest.mark.parametrize(
    ("figure", "label", "load"),
    [(fig02, "plain", 0.3), (fig03, "50 %", 0.5), (fig11, "plain", 0.5)],
)
def test_loads_are_those_of_the_hosts_links(figure, label, load):
    assert offered(parse_spec(figure.specs("paper")[label])) == {"poisson": pytest.approx(load, rel=0.04)}


@pytest.mark.parametrize("figure", [fig02, fig11])
def test_incasts_add_two_per_cent(figure):
    spec = parse_spec(figure.specs("paper")["incast"])
    found = offered(spec)
    assert found["poisson"] == pytest.approx(0.3, rel=0.04) and found["incast"] == pytest.approx(0.02, rel=0.35)
    topo = spec.build_topology()
    flows = spec.build_flows(topo)
    of_incast = flows.class_id == flows.classes.index("incast")
    events = np.unique(flows.start_ps[of_incast], return_index=True, return_counts=True)
    assert set(events[2]) == {60} and set(flows.bytes[of_incast]) == {500_000}
    first = flows.start_ps[of_incast] == events[0][0]
    assert len(set(flows.src[of_incast][first])) == 60 and len(set(flows.dst[of_incast][first])) == 1


@pytest.mark.parametrize("id", MACRO)
@pytest.mark.parametrize("scale", SCALES)
def test_specs_share_queues_and_pfc(id, scale):
    """ACKs queue behind data, every scheme has section 5.1's PFC, and HPCC its T."""
    for label, table in EXPERIMENTS[id].specs(scale).items():
        spec = parse_spec(table, name=label)
        assert spec.host.ack_priority == "data"
        for scheme in table["scheme"]:
            if scheme["pfc"]:
                assert scheme["pfc"] == fabric.PFC or scheme["label"] == fig11.ELEVEN.label
            else:  # section 5.3: GBN and IRN without PFC
                assert id == "hpcc/fig12" and not scheme["label"].endswith("PFC")
            wanted = fabric.T[table["topology"]["rate"]] if scheme["name"].split("+")[0].split(":")[0] == "hpcc" else None
            assert scheme.get("t") == wanted


def test_increases_are_in_proportion_to_the_rate():
    """5 and 50 Mbit/s for each 25 Gbit/s (DCQCN), 10 and 50 for each 10 (TIMELY), as in the authors' script."""
    for rate, gbps in (("25Gbps", 25), ("100Gbps", 100)):
        made = {name: scheme.table for name, scheme in fabric.schemes(rate).items()}
        assert (made["DCQCN"]["r_ai"], made["DCQCN"]["r_hai"]) == (f"{5 * gbps // 25}Mbps", f"{50 * gbps // 25}Mbps")
        assert (made["TIMELY"]["delta"], made["TIMELY"]["r_hai"]) == (f"{gbps}Mbps", f"{5 * gbps}Mbps")
        assert made["DCQCN+win"] == {**made["DCQCN"], "window": True}


# -- statistics by hand


class Made:
    """Runs with frames of our own."""

    def __init__(self, **frames):
        self.frames = frames

    def scan(self, label, frame):
        return self.frames[frame].lazy()

    def summary(self, label):
        return {"duration_ns": 1000.0, "drops": 3, "end_ns": 500.0, "flows_started": 5, "flows_finished": 4}


def test_groups_have_as_many_flows_and_leave_incasts_out():
    n = 400
    flows = pl.DataFrame(
        {
            "bytes": np.arange(n, 0, -1),
            "class": ["poisson"] * (n - 1) + ["incast"],
            "start_ns": np.zeros(n),
            "acked_ns": [None] + [2000.0] * (n - 1),
            "sender_slowdown": np.arange(n, 0, -1) / 10,
            "ideal_fct_ns": np.full(n, 1000.0),
        }
    )
    runs = Made(flows=flows)
    counted = fabric.counted(runs, "")["bytes"].to_list()
    assert counted == list(range(2, n))  # the largest is unfinished and too young to count, the smallest of an incast
    data = fabric.slowdowns(runs, "t", HPCC)
    line = fabric.curve(data, "t", "HPCC", "p50")
    assert line.height == fabric.GROUPS and line["x"].to_list()[-1] == n - 1
    assert np.diff(line["x"]).tolist() == pytest.approx([n / 20] * 19, abs=1)
    first = np.arange(2, 22) / 10  # 398 flows: the first group has 20
    assert line["y"][0] == pytest.approx(np.median(first)) and fabric.value(data, "t", "HPCC", "latency p95") == 2.0


def test_queues_by_samples_and_by_bytes(monkeypatch):
    """Nine of ten samples are empty, but two thirds of the bytes find 8 KB in front of them."""
    samples = pl.DataFrame({"queue_bytes": [0] * 9 + [8000], "sent": [100] * 9 + [1800]})
    monkeypatch.setattr(fabric, "switch_samples", lambda runs, label, between=False: samples)
    data = fabric.queues(Made(), "t", HPCC)
    found = {
        panel: fabric.value(data, "t", "HPCC", panel) for panel in ("queue p50", "queue p95", "seen queue p50", "seen queue p95")
    }
    assert found == {"queue p50": 0, "queue p95": 8, "seen queue p50": 8, "seen queue p95": 8}


def test_samples_are_of_switches_and_of_the_arrivals():
    rows = [(0, 0, 0, 50, 10), (1, 0, 0, 7, 100), (1, 0, 500, 8, 150), (1, 0, 1500, 9, 950), (1, 1, 500, 4, 30)]
    series = pl.DataFrame(rows, schema=["node", "port", "time_ns", "queue_bytes", "tx_bytes"], orient="row")
    ports = pl.DataFrame({"node": [0, 1, 1], "port": [0, 0, 1], "peer": [1, 0, 2]})
    runs = Made(nodes=pl.DataFrame({"node": [0, 1, 2], "tier": [0, 1, 2]}), port_series=series, ports=ports)
    assert fabric.switch_samples(runs, "").rows() == [(7, 0), (8, 50), (4, 0)]
    assert fabric.switch_samples(runs, "", between=True).rows() == [(4, 0)]  # port 1 leads to a switch


def test_totals_by_hand():
    data = fabric.totals(Made(ports=pl.DataFrame({"paused_ns": [0.0, 20.0]})), "t", HPCC)
    assert [fabric.value(data, "t", "HPCC", panel) for panel in ("pfc", "drops", "unfinished")] == [1.0, 3, 1]


def test_recovery_is_for_good(monkeypatch):
    """The queue that is left is acknowledged at line rate; then the flow is slow until 3 ms."""
    times = np.arange(1, 21) * 0.2  # ms
    long = np.select([times <= 1.01, times <= 1.41, times <= 1.61, times <= 3.01], [20, 10, 20, 12], 20).astype(float)
    monkeypatch.setattr(fig09, "_rates", lambda *given: (times, np.stack([long, 0 * long], axis=1)))
    runs = Made(flows=pl.DataFrame({"bytes": [fig09.SHORT_BYTES], "acked_ns": [1.4e6]}))
    data = fig09._long_short(runs, HPCC)
    assert fabric.value(data, "long-short", "HPCC", "recovery") == pytest.approx(1600)


def test_rates_of_flows_that_begin_and_end():
    """A flow of 1000 B is there at 1 and 2 us, and has ended at 3 us; another begins after 1 us."""
    series = pl.DataFrame({"time_ns": [1000, 2000, 2000, 3000], "flow_id": [0, 0, 1, 1], "acked_bytes": [250, 500, 125, 250]})
    runs = Made(flows=pl.DataFrame({"flow_id": [0, 1], "bytes": [1000, 10**6]}), flow_series=series)
    times, rates = fig09._rates(runs, "t", HPCC)
    assert times.tolist() == [0.002, 0.003] and rates.tolist() == [[2.0, 1.0], [4.0, 1.0]]


def test_fair_shares_end_one_second_after_another():
    """The bytes of the four flows are what a fair link carries in seven steps."""
    assert sum(fig09.STEPS) == pytest.approx(7)
    flows = parse_spec(fig09.specs("paper")["fairness"]).workload[0].extra["flows"]
    assert [flow[3] for flow in flows] == ["0ms", "1000ms", "2000ms", "3000ms"]


def test_a_gain_is_the_mean_over_the_sizes_and_its_worst_point_is_beside_it():
    lines = {name: [(100, 4.0), (120_000, 6.0), (10**6, 1.0)] for name in fig11.OTHERS} | {
        "HPCC": [(100, 2.0), (120_000, 2.0), (10**6, 5)]
    }
    lines["DCTCP"] = [(100, 8.0), (120_000, 3.0), (10**6, 1.0)]
    parts = [fabric.rows("t", fig11.SCHEMES[name], "p95", *zip(*points)) for name, points in lines.items()]
    data = pl.concat(parts)
    assert fig11._gain(data, "t", "DCTCP", least=True) == 1.5
    assert fig11._gain(data, "t", "DCTCP") == pytest.approx((4 * 1.5) ** 0.5)


def test_what_is_ours_is_not_the_paper_s(cache):
    runs = framework.run_all(EXPERIMENTS["hpcc/fig10"], "quick", 1, cache, 1, None)
    claims = EXPERIMENTS["hpcc/fig10"].claims(fig10.measure(runs, "quick"), "quick")
    weaker = ("50-order", "50-queue")  # than 50-reduction and the queues' lengths, which are judged beside them
    kinds = {(claim.id.startswith("seen-") or "-high" in claim.id or claim.id in weaker, claim.kind) for claim in claims}
    assert kinds == {(True, OURS), (False, FROM_PAPER)}


def test_the_abstract_s_factors_by_hand(monkeypatch):
    numbers = {"DCQCN": 40.0, "TIMELY": 60.0, "HPCC": 2.0}

    def slowdowns(runs, traffic, scheme):
        panels = {"short p99": numbers[scheme.legend], "short p95": numbers[scheme.legend] / 2, "long p50": 3.0}
        return pl.concat(fabric.rows(traffic, scheme, panel, [0], [y]) for panel, y in panels.items())

    def queues(runs, traffic, scheme):
        return pl.concat(fabric.rows(traffic, scheme, f"queue {p}", [0], [20.0]) for p in ("p50", "p99"))

    monkeypatch.setattr(fabric, "slowdowns", slowdowns)
    monkeypatch.setattr(fabric, "queues", queues)
    monkeypatch.setattr(fabric, "queues_between", lambda runs, traffic, scheme: queues(runs, traffic, scheme).clear())
    monkeypatch.setattr(fabric, "totals", lambda runs, traffic, scheme: fabric.rows(traffic, scheme, "pfc", [0], [0.0]))
    data = abstract.measure({}, "quick")
    assert data.filter(pl.col("panel") == "fct").height == 6
    found = {claim.id: (claim.value, claim.ok) for claim in EXPERIMENTS["hpcc/abstract"].claims(data, "paper")}
    assert found["fct-largest"] == (30.0, True) and found["testbed-largest"] == (20.0, True)
    assert found["throughput"] == (1.0, True) and found["queue-p99"] == (20.0, True) and found["queue-p50"] == (20.0, False)
    assert found["pfc-hpcc"] == (0.0, True) and found["pfc-others"] == (0.0, False)
