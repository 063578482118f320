"""What the BFC paper leaves open: candidates that differ, what chooses among them, and bands that its sentences can miss."""

import math

import polars as pl
import pytest

from penstock_net.composition import parse
from penstock_papers import EXPERIMENTS
from penstock_papers.bfc import _dcqcn, _srf, fig19
from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc._variants import ASSIGNMENTS, HARDWARE, IMPLEMENTED, NS3, VARIANTS

BY_LABEL = {  # a label of the figure's first spec, and the BFC that it has
    "fig07": ("2us", HARDWARE),
    "fig08": ("dynamic", HARDWARE),
    "fig09": ("bfc64", NS3),
    "fig28": ("table1", NS3),
    "table1": ("BFC", NS3),
}


def values_of(table):
    """All parameters of DCQCN by its [[scheme]] table."""
    name, keys = table["name"], {key: value for key, value in table.items() if key != "name"}
    return parse(name, keys).values("dcqcn")


def test_the_candidates_differ_and_the_preset_is_one_of_them():
    found = {name: values_of(table) for name, table in _dcqcn.candidates().items()}
    assert len(found) == 28 and len({tuple(each.items()) for each in found.values()}) == 28
    assert found["paper, window, clamp, cut"] == values_of({"name": VARIANTS["dcqcn"]})
    assert found["paper, no window, clamp, cut"] == values_of({"name": "dcqcn"})


def test_the_distance_by_hand():
    assert _dcqcn.distance(10.0, 30.4) == 0
    assert _dcqcn.distance(20.0, 30.4) == _dcqcn.distance(5.0, 30.4) == pytest.approx(math.log(2))
    assert _dcqcn.distance(5.0, 60.8) == pytest.approx(math.sqrt(2) * math.log(2))


def test_table_1_shows_the_chosen_one_and_the_one_without_a_window():
    (spec,) = EXPERIMENTS["bfc/table1"].specs("quick").values()
    tables = {table["label"]: {key: value for key, value in table.items() if key != "label"} for table in spec["scheme"]}
    assert values_of(tables["DCQCN"]) == _values("paper, window, clamp, cut")
    assert values_of(tables["DCQCN, no window"]) == _values("paper, no window, clamp, cut")


def _values(candidate):
    return values_of(_dcqcn.candidates()[candidate])


def test_each_figure_has_the_bfc_of_its_implementation():
    assert set(IMPLEMENTED) == {"fig07", "fig08"} and NS3["assignment"] in ASSIGNMENTS
    assert len({parse("bfc", {"assignment": each}).values("dqa")["assignment"] for each in ASSIGNMENTS}) == 5
    first = {figure: next(iter(EXPERIMENTS[f"bfc/{figure}"].specs("quick").values()))["scheme"] for figure in BY_LABEL}
    for figure, (label, wanted) in BY_LABEL.items():
        (table,) = [table for table in first[figure] if table["label"] == label]
        assert table.items() >= wanted.items(), figure


@pytest.mark.parametrize(("paused", "ok"), [(0.0, True), (0.029, True), (0.031, False), (math.nan, False)])
def test_never_is_less_than_a_flow_feels(paused, ok):
    (row,) = fabric.pfc_rows()
    assert row.with_number(paused).ok == ok
    assert fabric.UNSEEN / 100 * 50_000 < 2 * 8  # us of 50 ms, and two base round trips


def test_homa_s_hump_is_judged_on_its_own_curve():
    tails = ((_srf.HOMA, 2.0, 50.0), (_srf.HOMA_ECMP, 2.0, 2.9), (_srf.BFC_SRF, 160.0, 127.0), (_srf.IDEAL_SRF, 2.0, 3.0))
    same = dict.fromkeys(("short avg", "short p95", "short p99", "drops"), 1.0)
    data = pl.concat(
        fabric.points(sizes, scheme, panel, [0], [y])
        for sizes in _srf.WORKLOADS
        for scheme, half, one in tails
        for panel, y in {"half BDP": half, "1 BDP": one, **same}.items()
    )
    found = fig19.numbers(data, "paper")
    judged = {row.id: row.with_number(found[row.id]) for row in fig19.CLAIMS}
    assert judged["hump-homa-google"].ok and judged["hump-homa-google"].value == 25
    assert not judged["hump-homa-ecmp-google"].ok and judged["hump-homa-ecmp-google"].value == pytest.approx(1.45)
    assert not judged["between-homa-google"].ok and judged["between-homa-google"].kind == "ours"
