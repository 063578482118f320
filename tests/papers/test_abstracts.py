"""The numbers of the abstracts beside ours: factors, claims and panels by hand; the runs are those of the figures."""

import math

import polars as pl
import pytest

from penstock_net.spec import parse_spec
from penstock_papers import EXPERIMENTS, frames, headlines
from penstock_papers import cache as store
from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc import abstract as bfc
from penstock_papers.headlines import Headline, factor
from penstock_papers.registry import SCALES
from penstock_papers.sentences import claims

RANGE = Headline("tail", "p99", "2 - 10x", 2, 10)


def ends(data):
    """The claims on both ends of RANGE."""
    table = (headlines.smallest(RANGE), headlines.largest(RANGE))
    return claims(table, headlines.ends(data, (RANGE,), (RANGE,)), "paper")


def test_ends_of_a_range_by_hand():
    data = headlines.rows(RANGE, {"a": 3.0, "b": 1.9, "c": 10.0})
    small, large = ends(data)
    assert (small.id, small.value, small.ok, small.claim) == ("tail-smallest", 1.9, False, "p99, smallest (b)")
    assert (large.id, large.value, large.ok, large.paper) == ("tail-largest", 10.0, True, "2 - 10x")


def test_a_factor_has_half_and_double():
    assert (factor("a", "b", "c", 20).low, factor("a", "b", "c", 20).high) == (10, 40)


def test_a_factor_that_could_not_be_measured_does_not_pass():
    data = headlines.rows(RANGE, {"a": math.nan})
    assert not any(claim.ok for claim in ends(data))
    mixed = headlines.rows(RANGE, {"a": math.nan, "b": 4.0})
    assert [claim.value for claim in ends(mixed)] == [4.0, 4.0]


def test_the_picture_has_every_factor():
    other = factor("goodput", "goodput", "2x", 2)
    data = pl.concat([headlines.rows(RANGE, {"a": 3.0, "b": 1.9}), headlines.rows(other, {"c": 5.0})])
    panels = headlines.plot(data, (RANGE, other)).axes
    assert [[text.get_text() for text in panel.get_yticklabels()] for panel in panels] == [["a", "b"], ["c"]]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(
    ("paper", "figures"),
    [
        ("bfc", ("fig09", "fig10", "fig11", "fig12")),
        ("floodgate", ("fig06", "fig08", "fig14")),
        ("hpcc", ("fig10", "fig11")),
    ],
)
def test_the_runs_are_those_of_the_figures(paper, figures, scale):
    def keys(id):
        return {
            store.key(spec.only(scheme))
            for label, table in EXPERIMENTS[id].specs(scale).items()
            for spec in [parse_spec(table, name=label)]
            for scheme in spec.schemes
        }

    assert keys(f"{paper}/abstract") <= set().union(*(keys(f"{paper}/{figure}") for figure in figures))


def test_the_abstract_of_bfc_has_the_seeds_of_its_figures():
    """With a seed, too, its runs are theirs, in the cache."""
    seeds = [EXPERIMENTS[f"bfc/{name}"].seeds for name in ("abstract", "fig09", "fig10", "fig11", "fig12")]
    assert seeds == [{"paper": 10}] * 5
    for seed in (1, 3):
        found = [EXPERIMENTS[id].specs("paper", seed) for id in ("bfc/abstract", "bfc/fig09")]
        ours, figure = (parse_spec(specs[label]) for specs, label in zip(found, ("google incast", "incast")))
        in_figure = {store.key(figure.only(scheme)) for scheme in figure.schemes}
        assert {store.key(ours.only(scheme)) for scheme in ours.schemes} < in_figure


def test_factors_of_bfc_by_hand(monkeypatch):
    def statistics(runs, traffic, scheme, sizes):
        of_scheme = {"bfc": 1, "ideal_fq": 0.5 if "9" in traffic else 1, "hpcc": 3, "dctcp": 4, "dcqcn": 8}[scheme.label]
        scale = {"google": 1, "facebook_hadoop": 2}[sizes] * of_scheme
        panels = {"short p99": 5.0 * scale, "long avg": 1.0 + scale}
        return pl.concat(frames.rows(p, scheme.legend, [0], [y], scheme=scheme.label, traffic=traffic) for p, y in panels.items())

    monkeypatch.setattr(fabric, "statistics", statistics)
    data = bfc.measure({}, "quick")
    short = dict(frames.chosen(data, panel="short").select("series", "y").iter_rows())
    assert len(short) == 12 and short["Google with incast, HPCC"] == 3 and short["Facebook, DCQCN"] == 8
    values = {claim.id: claim.value for claim in EXPERIMENTS["bfc/abstract"].claims(data, "quick")}
    ranges = {"short-smallest": 3, "short-largest": 8, "long-smallest": 2, "long-largest": 17 / 3}
    assert values == pytest.approx(ranges | {"optimal-short-largest": 2, "optimal-long-largest": 1.5})
    assert set(frames.chosen(data, panel="optimal-short")["series"]) == {
        "Google with incast",
        "Google",
        "Facebook with incast",
        "Facebook",
        "Facebook at 90%",
    }
