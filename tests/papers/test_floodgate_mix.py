"""Floodgate's figures of the incast mix on two racks and for a moment: specs, statistics, claims and panels, not the numbers."""

import functools
import json

import polars as pl
import pytest

from penstock_net.spec import parse_spec
from penstock_papers import EXPERIMENTS, framework
from penstock_papers import cache as store
from penstock_papers.claims import judge
from penstock_papers.floodgate import _setup as setup
from penstock_papers.floodgate import fig08, fig09, fig11, fig20, fig22, table2
from penstock_papers.floodgate._mix import STATISTICS, TEXT, TRIO
from penstock_papers.floodgate._setup import DCQCN, FLOODGATE, HOPS, WORKLOADS
from penstock_papers.registry import SCALES
from penstock_papers.unknowns import of_paper

MIX = ("fig02", "fig08", "fig09", "fig10", "table2", "fig11", "fig21", "fig22", "fig23")
SMALL = {**setup.FABRIC, "hosts": 32, "tors": 2, "spines": 2}
WITH = [scheme.legend for scheme in TRIO[1:]]


@pytest.fixture
def small(monkeypatch):
    """Two racks, an incast of twenty flows, and ten microseconds of Poisson flows."""
    monkeypatch.setattr(setup, "FABRIC", SMALL)
    monkeypatch.setattr(setup, "DURATION", {scale: dict.fromkeys(WORKLOADS, "40us") for scale in SCALES})
    monkeypatch.setattr(setup, "incast", functools.partial(setup.incast, [0, 16], 20))
    monkeypatch.setattr(setup, "poisson", functools.partial(setup.poisson, exclude=[0, 16]))


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """The figures share their runs."""
    return tmp_path_factory.mktemp("runs")


@pytest.mark.parametrize("id", MIX)
def test_every_step_of_a_figure(id, small, cache, tmp_path):
    experiment = EXPERIMENTS[f"floodgate/{id}"]
    runs = framework.run_all(experiment, "paper", 1, cache, 1, None)
    data = framework.measured(experiment, runs, "paper")
    claims = judge(experiment.claims(data, "paper"), "paper", experiment.differs)
    ids = [claim.id for claim in claims]
    assert len(set(ids)) == len(ids) and set(experiment.differs) <= set(ids)
    json.dumps([claim.record() for claim in claims], allow_nan=False)
    (tmp_path / "out").mkdir()
    framework.write(experiment, tmp_path / "out", "paper", {1: data}, claims)
    for panel in experiment.draw(data).axes:
        assert panel.get_lines() or panel.patches


@pytest.mark.parametrize("id", MIX)
@pytest.mark.parametrize("scale", SCALES)
def test_specs_are_the_paper_s_and_quick_is_shorter(id, scale):
    for label, table in EXPERIMENTS[f"floodgate/{id}"].specs(scale).items():
        spec = parse_spec(table, name=label)
        assert spec.topology.model_dump() == {"file": None, **setup.FABRIC}
        assert table["run"]["duration"] == setup.DURATION[scale][label.split("-")[0]]
        assert [source["kind"] for source in table["workload"]] == (["poisson"] if id == "fig22" else ["poisson", "incast"])


def test_the_figures_share_their_runs():
    """Those of figures 9, 10, 11 and of table 2 are all among figure 8's, but for one that has other thresholds."""
    keys = {}
    for id in MIX[1:-2]:
        specs = [parse_spec(table) for table in EXPERIMENTS[f"floodgate/{id}"].specs("paper").values()]
        keys[id] = {store.key(spec.only(scheme)) for spec in specs for scheme in spec.schemes}
    assert all(len(keys[id] - keys["fig08"]) == (id == "table2") for id in keys) and len(keys["fig08"]) == 36


def test_pfc_by_rate_is_that_of_the_authors_simulator_and_the_figures_show_what_was_chosen():
    """Its third.cc: a shift of 2, one less for each doubling of the hosts' rate; 8 rate x delay of headroom, BUFFER_SIZE 20."""

    def shift(rate, nic):
        found = 2
        while rate > nic and found > 0:
            found, rate = found - 1, rate // 2
        return found

    (unknown,) = (each for each in of_paper("floodgate") if each.name == "pfc-alpha")
    candidates = {name: {patch.at: dict(patch.keys) for patch in each.patches} for name, each in unknown.candidates.items()}
    by_rate = candidates["by rate, 20 MiB"]["scheme.pfc"]
    at = dict(zip(by_rate["rates"], by_rate["rate_alpha"]))
    for nic, rates in ((100, (100, 200, 400)), (10, (10, 20))):
        for rate in rates:
            assert at.get(f"{rate}Gbps", by_rate["alpha"]) == 2.0 ** -shift(rate, nic)
    assert len(candidates) == 6 and all(
        (c["scheme.pfc"]["headroom"], c["scheme.pfc"]["reserve"]) == (8, 4096) for c in candidates.values()
    )
    chosen = candidates[unknown.chosen]
    assert {key: value for key, value in chosen["scheme.pfc"].items() if value} == setup.PFC
    assert chosen["topology"]["buffer"] == setup.FABRIC["buffer"] == setup.FAT_TREE["buffer"]
    assert all(one["pfc"] is setup.PFC for one in setup.CONTROLS.values())


def test_flows_that_share_an_entry_of_the_flow_table():
    """Three flows to host 0 of which two are together, one to host 20; one entry, then so many that none is shared."""
    rows = [(0, 0, 0.0, 10.0), (1, 0, 5.0, 20.0), (2, 0, 10.0, 30.0), (3, 20, 0.0, 30.0), (4, 0, 0.0, None)]
    flows = pl.DataFrame(rows, schema=["flow_id", "dst", "start_ns", "finish_ns"], orient="row")
    assert fig20.sharing(flows, 1, 1) == 2 and fig20.sharing(flows, 10**6, 1) == 1
    crowd = pl.DataFrame({"flow_id": range(100), "dst": [0] * 100, "start_ns": [0.0] * 100, "finish_ns": [1.0] * 100})
    found = [fig20.sharing(crowd, entries, 1) for entries in (1, 10, 100, 10_000)]
    assert found[0] == 100 and found == sorted(found, reverse=True) and 10 < found[1] < 30 and found[3] <= 2


def made_up(panels):
    """data.parquet of {panel: {series: {traffic: y}}}."""
    return pl.concat(
        setup.rows(panel, series, [0], [y], traffic)
        for panel, lines in panels.items()
        for series, values in lines.items()
        for traffic, y in values.items()
    )


def failed(id, data, scale="paper"):
    """The claims that do not hold."""
    return {claim.id for claim in EXPERIMENTS[f"floodgate/{id}"].claims(data, scale) if not claim.ok}


def test_figure_2_names_the_flows_that_starve():
    def lines(start, dip):
        times = [0.005 + 0.01 * i for i in range(300)]
        near = [80.0 if t > start else 0.0 for t in times]
        far = [dip if 1 < t < 2 else 80.0 for t in times]
        return times, {"victims of incast": near, "victims of PFC": far}

    def data(begin, dip, held):
        frames = [setup.rows("pfc", DCQCN.legend, [0], [5.0]), setup.rows("pfc", FLOODGATE.legend, [0], [held])]
        for name, start, level in ((DCQCN.legend, 1.8, 30.0), (TEXT.legend, 1.8, 30.0), (FLOODGATE.legend, begin, dip)):
            times, both = lines(start, level)
            frames += [setup.rows("throughput", name, times, y, kind) for kind, y in both.items()]
        return pl.concat(frames)

    assert failed("fig02", data(0.04, 80.0, 0.0)) == set()
    assert failed("fig02", data(2.5, 20.0, 7.0)) == {
        "order",
        "at-once",
        "starved",
        "downgrade",
        "steady",
        "pfc",
    }


def test_figure_8_names_whom_floodgate_harms():
    def data(factor):
        frames = {panel: {} for panel in (*STATISTICS, fig08.AVERAGE, fig08.MEDIAN)}
        for panel, lines in frames.items():
            for control in setup.CONTROLS:
                times = dict(zip(WORKLOADS, (100.0, 100.0, 100.0, 100.0)))
                gains = dict(zip(WORKLOADS, (200.0 if "99" in panel else 50.0, 5.0, 2.5, 2.1)))
                lines[control] = times
                lines[f"{control}+Floodgate"] = {w: factor * times[w] / gains[w] for w in WORKLOADS}
                lines[f"{control}+ideal"] = lines[f"{control}+Floodgate"]
        return made_up(frames)

    assert failed("fig08", data(1.0)) == set()
    assert {"never-worse-avg", "never-worse-p99", "victims-ave-web_search", "best-avg"} <= failed("fig08", data(3.0))


def test_figure_9_compares_distributions():
    def data(times):
        frames = []
        for scheme in TRIO:
            for kind in fig09.KINDS:
                time = times.get(kind, 50.0) if scheme is DCQCN else 50.0
                frames.append(setup.rows("cdf", scheme.legend, [0, 2 * time], [0, 1], kind))
                frames += [setup.rows(panel, scheme.legend, [0], [time], kind) for panel in STATISTICS]
        return pl.concat(frames)

    assert failed("fig09", data({"victims of incast": 500.0, "victims of PFC": 80.0})) == set()
    assert {"victims-of-PFC-deciles", "incast-ave"} <= failed("fig09", data({"victims of PFC": 40.0, "incast": 40.0}))


def test_table_2_is_judged_cell_by_cell():
    def data(printed, with_it):
        frames = {}
        for i, tier in enumerate(table2.TIERS):
            frames[tier] = {name: dict.fromkeys(WORKLOADS, with_it) for name in WITH}
            frames[tier][DCQCN.legend] = {workload: float(cells[i]) for workload, cells in printed.items()}
            frames[tier][TEXT.legend] = {"web_server": 1.0}
        return made_up(frames)

    assert failed("table2", data(table2.PRINTED, 0.0)) == set()
    other = {**table2.PRINTED, "hadoop": (1.0, 0.0, 0.0)}
    assert failed("table2", data(other, 1.0)) == {"none-Floodgate", "none-ideal", "hadoop-host", "hadoop-core", "triggered"}


def test_figure_11_finds_where_packets_are():
    both = functools.partial(dict.fromkeys, fig11.SHOWN)
    buffers = {
        "DCQCN": {"web_server": (5.0, 6.0, 12.0), "hadoop": (1.0, 5.0, 12.0)},
        WITH[0]: {"web_server": (2.0, 1.0, 2.0), "hadoop": (1.1, 1.0, 2.0)},
        WITH[1]: both((0.2, 0.1, 0.2)),
    }
    waits = {
        "DCQCN": {"web_server": (20.0, 20.0, 20.0), "hadoop": (2.0, 20.0, 10.0)},
        WITH[0]: both((1.0, 1.0, 5.0)),
        WITH[1]: both((1.0, 1.0, 5.0)),
    }

    def data(voqs):
        panels = {"VOQs": {scheme.legend: dict.fromkeys(WORKLOADS, voqs) for scheme in TRIO}}
        for what, table in (("buffer", buffers), ("queueing", waits)):
            for i, hop in enumerate(HOPS):
                panels[f"{what} {hop}"] = {name: {w: cells[i] for w, cells in of.items()} for name, of in table.items()}
        return made_up(panels)

    assert failed("fig11", data(1.0)) == set()
    assert failed("fig11", data(2.0)) == {"voqs"}


@pytest.mark.parametrize("id", ["fig10", "fig21", "fig22"])
def test_ratios_of_the_schemes_are_judged(id):
    def data(ours, ideal):
        y = dict(zip((scheme.legend for scheme in TRIO), (10.0, ours, ideal)))
        lines = {name: {**dict.fromkeys(WORKLOADS, value), "memcached": 0.9 * value} for name, value in y.items()}
        panels = dict.fromkeys((*STATISTICS, "buffer"), lines)
        return made_up({**panels, "VOQs": {FLOODGATE.legend: dict.fromkeys(WORKLOADS, 0.0 if ours < 11 else 1.0)}})

    good = (4.0, 2.0) if id == "fig10" else (9.9, 10.5)
    assert failed(id, data(*good)) == set()
    assert len(failed(id, data(20.0, 21.0))) >= 4


def test_pure_poisson_excludes_nobody():
    assert all("exclude" not in source for table in fig22.specs("paper").values() for source in table["workload"])
