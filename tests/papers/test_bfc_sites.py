"""Figure 26 of BFC, two data centres, on small ones and for a moment."""

import polars as pl
import pytest
from steps import every_step
from test_macro import SMALL

from penstock_net.spec import parse_spec
from penstock_papers import EXPERIMENTS
from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc import fig09, fig10, fig11, fig26
from penstock_papers.registry import SCALES


def test_every_step_of_the_figure(monkeypatch, tmp_path):
    monkeypatch.setattr(fabric, "FABRIC", SMALL)
    for name, number in {"HOSTS": 8, "TORS": 2, "SPINES": 2, "LONG_FLOWS": 2}.items():
        monkeypatch.setattr(fig26, name, number)
    small = {"hosts_per_site": 8, "tors": 2, "spines": 2, "long_delay": "5us"}
    monkeypatch.setattr(fig26, "NETWORK", fig26.NETWORK | small)
    for module in (fig09, fig10, fig11, fig26):
        monkeypatch.setattr(module, "DURATION", dict.fromkeys(SCALES, "100us"))
    _, data, claims = every_step("bfc/fig26", tmp_path)
    assert data.filter(pl.col("panel").is_in(["avg", "p95", "p99"]))["y"].drop_nulls().min() > 0.999
    used = {each.label: fabric.value(data, fig26.TWO, each, "long") for each in fig26.SHOWN}
    assert all(0 < share <= 100 for share in used.values())
    judged = {claim.id: claim for claim in claims}
    assert judged["long-bfc"].value == pytest.approx(used["bfc"])


def test_the_network_and_the_flows_are_the_paper_s():
    table = EXPERIMENTS["bfc/fig26"].specs("paper")[fig26.TWO]
    assert parse_spec(table).duration_ps == 50_000_000_000
    spec = parse_spec({**table, "run": {**table["run"], "duration": "10ms"}})
    topo = spec.build_topology()
    assert topo.hosts == 2 * 64 and topo.links["delay_ps"].max() == 200 * 10**6
    flows = spec.build_flows(topo)
    site = flows.src // 64 == flows.dst // 64
    ends = list(zip(flows.src[~site].tolist(), flows.dst[~site].tolist()))
    assert len(ends) == 40 and sum(src < 64 for src, _ in ends) == 20 and len(set(ends)) == 40
    assert flows.bytes[~site].min() == 10 * 10**9
    local = flows.bytes[site].sum() * 8
    assert local / (topo.capacity_bps("core") * 10e-3) == pytest.approx(0.6, rel=0.1)


def test_the_single_data_centre_is_figure_11_s():
    one = parse_spec(EXPERIMENTS["bfc/fig26"].specs("paper")[fig26.ONE])
    figure = parse_spec(EXPERIMENTS["bfc/fig11"].specs("paper")["plain"])
    keys = ({spec.only(table).key() for table in spec.schemes} for spec in (one, figure))
    assert next(keys) < next(keys)
