"""Figures 9 to 12 of BFC on a small fabric and for a moment: specs, statistics, claims and panels, not the numbers."""

import numpy as np
import polars as pl
import pytest
from steps import every_step

from penstock_net.results.run import Run
from penstock_net.spec import parse_spec
from penstock_papers import EXPERIMENTS, Runs
from penstock_papers import cache as store
from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc import _rivals as rivals
from penstock_papers.bfc import _without_pfc as without_pfc
from penstock_papers.bfc import fig09, fig10, fig11, fig12
from penstock_papers.claims import FROM_PAPER, OURS
from penstock_papers.registry import SCALES
from penstock_papers.sentences import claims

MACRO = {"bfc/fig09": fig09, "bfc/fig10": fig10, "bfc/fig11": fig11, "bfc/fig12": fig12}
SMALL = {"kind": "leaf_spine", "hosts": 32, "tors": 4, "spines": 4, "rate": "100Gbps", "delay": "1us", "buffer": "6MB"}
FEW = {"kind": "incast", "fan_in": 20, "total": "500KB", "every": "50us", "replace": True}


@pytest.fixture
def small(monkeypatch):
    """The experiments on 32 hosts for 0.1 ms."""
    monkeypatch.setattr(fabric, "FABRIC", SMALL)
    monkeypatch.setattr(fabric, "INCAST", FEW)
    for module in MACRO.values():
        monkeypatch.setattr(module, "DURATION", dict.fromkeys(SCALES, "100us"))


@pytest.mark.parametrize("id", MACRO)
def test_every_step_of_a_figure(id, small, tmp_path):
    experiment = EXPERIMENTS[id]
    _, data, claims = every_step(id, tmp_path)
    slowdowns = data.filter(pl.col("panel").is_in(["avg", "p95", "p99"]))["y"].drop_nulls()
    assert slowdowns.min() > 0.999
    apart = {"expresspass"} if id == "bfc/fig12" else {"expresspass", "hpcc_pfc"}
    beside = {each.label for each in getattr(MACRO[id], "BESIDE", ())}
    assert apart | beside <= set(data["scheme"]) <= apart | beside | set(fabric.KNOWN)
    drawn = {line.get_label() for panel in experiment.draw(data).axes for line in panel.get_lines()}
    assert {scheme.legend for scheme in without_pfc.SERIES if scheme.label in apart} <= drawn
    beside |= {"dcqcn_win", "hpcc80", *(("bfc64", "bfc128") if id == "bfc/fig09" else ())}
    of_others = pl.col("scheme").is_in(beside) | pl.col("traffic").str.ends_with("-core")
    changed = data.with_columns(y=pl.when(of_others).then(3 * pl.col("y")).otherwise(pl.col("y")))
    assert judged_of_the_paper(experiment.claims(changed, "paper")) == judged_of_the_paper(claims)


def judged_of_the_paper(claims):
    """What (ours), beside the paper's series, must not change."""
    return {claim.id: (str(claim.ours), claim.ok) for claim in claims if claim.kind == FROM_PAPER}


@pytest.mark.parametrize("id", MACRO)
@pytest.mark.parametrize("scale", SCALES)
def test_specs_are_the_paper_s_and_quick_is_shorter(id, scale):
    for label, table in EXPERIMENTS[id].specs(scale).items():
        spec = parse_spec(table, name=label)
        alone = without_pfc.APART in label
        buffer = rivals.EXPRESSPASS_BUFFER if alone else fabric.FABRIC["buffer"]
        assert spec.topology.model_dump() == {"file": None, **fabric.FABRIC, "buffer": buffer}
        assert alone == all(table.name.startswith("expresspass") for table in spec.schemes)
        assert spec.duration_ps == 50_000_000_000 or (scale == "quick" and spec.duration_ps <= 4_000_000_000)
        name, _, load_of = label.partition("-")
        assert spec.workload[0].extra["load_on"] == "host"
        poisson = spec.workload[0].extra["load"] * 128 / 64  # of the hosts' links, and of the uplinks
        if load_of == fabric.CORE:
            poisson *= 112 / 127  # of the flows that go to another rack
        nominal = poisson + 0.05 * (len(spec.workload) - 1)
        assert nominal == pytest.approx(int(name.removeprefix("load")) / 100 if "load" in name else 0.6, rel=1e-4)


def test_core_load_is_that_of_the_links_between_tor_and_spine():
    """By the paths of the flows, not by the formula: 60 % of the links upwards, 53 % with the other definition."""
    found = {}
    for load_of in (fabric.CORE, fabric.UPLINKS):
        spec = parse_spec(fabric.spec([fabric.BFC], "4ms", load=0.6, load_of=load_of))
        topo = spec.build_topology()
        flows = spec.build_flows(topo)
        rack = topo.host_switches
        crossing = flows.bytes[rack[flows.src] != rack[flows.dst]].sum() * 8
        found[load_of] = crossing / (topo.capacity_bps("core") * 4e-3)
        everything = flows.bytes.sum() * 8 / (topo.capacity_bps("core") * 4e-3)
        assert crossing / flows.bytes.sum() / 8 == pytest.approx(112 / 127, abs=0.02)
        assert everything == pytest.approx(0.6 * (127 / 112 if load_of == fabric.CORE else 1), rel=0.1)
    assert found[fabric.CORE] == pytest.approx(0.6, rel=0.1)


def test_a_definition_of_load_is_the_paper_s_or_ours():
    for id, experiment in ((id, EXPERIMENTS[id]) for id in MACRO):
        labels = experiment.specs("paper")
        assert {label.endswith("-core") for label in labels} == {True, False}, id
    assert (fabric.kind_of(fabric.UPLINKS), fabric.kind_of(fabric.CORE)) == (FROM_PAPER, OURS)
    assert fabric.prefix_of(fabric.UPLINKS) == ("", "") and fabric.prefix_of(fabric.CORE)[0] == "core-"


def numbers(**schemes):
    """Rows of a traffic "t": average of medium and long flows, p99 of both, by scheme."""
    panels = ("medium avg", "long avg", "medium p99", "long p99")
    known = {each.label: each for each in fabric.KNOWN.values()}
    return pl.concat(
        fabric.points("t", known[label], panel, [0], [y]) for label, values in schemes.items() for panel, y in zip(panels, values)
    )


def test_claims_of_medium_and_long_flows_by_hand():
    data = numbers(
        bfc=(5.75, 4, 20, 10),
        ideal_fq=(5, 3, 20, 25),
        hpcc=(4, 8, 1, 1),
        dctcp=(5, 5, 1, 1),
        dcqcn=(3, 16, 1, 1),
    )

    def judged(rows, numbers):
        return {claim.id: (claim.value, claim.ok, claim.kind) for claim in claims(rows, numbers, "paper")}

    medium = judged(fabric.medium_rows(), fabric.medium_flows(data, "t"))
    assert medium == {
        "medium-bfc": (pytest.approx(1.15), True, FROM_PAPER),
        "medium-tail-bfc": (pytest.approx(2.0), True, FROM_PAPER),
        "medium-ideal_fq": (pytest.approx(1.0), True, FROM_PAPER),
        "medium-tail-ideal_fq": (pytest.approx(0.8), False, FROM_PAPER),
    }
    long = judged(fabric.long_rows(), fabric.long_flows(data, "t"))
    assert long == {
        "long-best": (pytest.approx(1.25), True, FROM_PAPER),
        "long-hpcc": (pytest.approx(0.5), False, FROM_PAPER),
        "long-dctcp": (pytest.approx(1.6), True, OURS),
    }


def test_the_figures_share_their_runs():
    """Figure 10's active flows under incast are those of figure 9's run of BFC."""
    both = [parse_spec(module.specs("paper")["incast"]) for module in (fig09, fig10)]
    of_9, of_10 = ({store.key(spec.only(table)) for table in spec.schemes} for spec in both)
    assert of_10 < of_9


def runs_of(tmp_path, **columns):
    """A run of two racks of two hosts and a spine with these flows."""
    n = len(columns["src"])
    flows = {
        "start_ps": np.zeros(n, np.int64),
        "bytes": np.full(n, 1000),
        "class_id": np.zeros(n, np.int64),
        "classes": ["poisson", "incast"],
        "priority": np.zeros(n, np.int64),
        **columns,
    }
    nodes = {
        "node": np.arange(7),
        "name": list("abcdxyz"),
        "tier": np.array([0, 0, 0, 0, 1, 1, 2]),
        "max_buffer_bytes": np.zeros(7),
        "max_voqs": np.zeros(7),
    }
    Run.from_arrays(flows, nodes=nodes, summary={"duration_ns": 1000.0, "end_ns": 20_000.0}).save(tmp_path / "run")
    return Runs({"traffic": store.Entry("traffic", "", tmp_path / "run", True, 0.0)})


def test_the_paper_s_slowdown_ends_with_the_last_ack_at_the_sender(tmp_path):
    """What has arrived, but is not acknowledged, has not finished, and counts with its age, 20 us, over an ideal of 8."""
    runs = runs_of(
        tmp_path,
        src=[0, 0, 0, 0, 0],
        dst=[2, 1, 3, 3, 3],
        finish_ps=np.array([8_000_000, 8_000_000, -1, 8_000_000, 8_000_000]),
        acked_ps=np.array([12_000_000, 10_000_000, -1, 12_000_000, -1]),
        ideal_ps=np.full(5, 4_000_000),
        ideal_acked_ps=np.full(5, 8_000_000),
        class_id=[0, 0, 0, 1, 0],
    )
    found = fabric.counted(runs, "traffic").collect()
    assert found["slowdown"].to_list() == [1.5, 1.25, 2.5, 2.5] and found["finished"].to_list() == [True, True, False, False]
    assert fabric.counted(runs, "traffic", incast=True).collect().height == 1


def test_bins_are_those_of_the_simulator(tmp_path):
    """An upper bound belongs to its bin."""
    n = 4
    runs = runs_of(
        tmp_path,
        src=[0] * n,
        dst=[2] * n,
        bytes=[1, 1000, 1001, 5_000_000],
        ideal_ps=np.full(n, 10**6),
        ideal_acked_ps=np.full(n, 2 * 10**6),
        finish_ps=np.full(n, 10**6),
        acked_ps=np.full(n, 2 * 10**6),
    )
    table = fabric._by_size(fabric.counted(runs, "traffic"), fabric.SIZES["google"])
    assert table["bin"].to_list() == [0, 1, 8] and table["flows"].to_list() == [2, 1, 1]


def test_outstanding_flows_and_their_growth(tmp_path):
    """Four flows start, at 0, 250, 500 and 750 ns; the first ends at 600 ns."""
    runs = runs_of(
        tmp_path,
        src=[0] * 4,
        dst=[2] * 4,
        start_ps=np.arange(4) * 250_000,
        ideal_ps=np.full(4, 10**6),
        finish_ps=np.array([600_000, -1, -1, -1]),
    )
    times, flows = fig12.outstanding(runs, "traffic", fabric.BFC)
    assert dict(zip((1e6 * times).round(), flows))[500.0] == 3 and flows[-1] == 3 and len(flows) == fig12.INSTANTS
    assert fig12.growth(np.full(200, 7.0)) == 1 and fig12.growth(np.arange(200.0)) > 2
