"""beyond/pyrrha: which flows are which, what is the best and the worst other approach, and the set-up of its runs, by hand."""

import polars as pl
import pytest

from penstock_net.spec import parse_spec
from penstock_papers import EXPERIMENTS
from penstock_papers.beyond import pyrrha
from penstock_papers.claims import OURS


def test_flows_are_of_the_incast_of_its_pod_or_elsewhere():
    rows = [(0, 20, "poisson"), (20, 15, "poisson"), (16, 127, "poisson"), (30, 0, "incast"), (31, 0, "incast")]
    flows = pl.DataFrame(rows, schema={"src": pl.Int32, "dst": pl.Int32, "class": pl.Categorical}, orient="row")
    taken = pyrrha.times(flows.with_columns(fct_ns=pl.Series([1e3, 2e3, 3e3, 4e3, 5e3])))
    assert {kind: list(us) for kind, us in taken.items()} == {
        "uncongested": [1, 2, 3],
        "victims": [1, 2],
        "others": [3],
        "incast": [4, 5],
    }


def made_up():
    """Every number is 10, but for those of Pyrrha, and of the best and the worst other."""
    odd = {"Pyrrha": 5, "HPCC": 8, "BFC": 40}
    lost = {("drops", "TIMELY"): 3}
    rows = []
    for scheme in pyrrha.ALL:
        for panel in pyrrha.STATISTICS:
            rows += [(panel, scheme.legend, kind, odd.get(scheme.legend, 10)) for kind in ("uncongested", "victims", "incast")]
        counted = {"drops": lost.get(("drops", scheme.legend), 0), "refused": 0, "queues": 64}
        rows += [(panel, scheme.legend, "", counted.get(panel, odd.get(scheme.legend, 10))) for panel in pyrrha.MEASURES]
    schema = {"panel": pl.String, "series": pl.String, "traffic": pl.String, "y": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(x=0.0)


def test_the_best_and_the_worst_other_approach():
    found = pyrrha.numbers(made_up(), "paper")
    assert found["average-best"] == (pytest.approx(1 - 5 / 8), "HPCC")
    assert found["average-worst"] == (pytest.approx(1 - 5 / 40), "BFC")
    assert found["tail-best"] == (8 / 5, "HPCC") and found["tail-worst"] == (8, "BFC")
    assert found["incast-average"] == found["incast-tail"] == (5 / 8, "HPCC")
    assert found["queues"] == 64 / 256 and found["pauses"] == found["control"] == 5 / 40
    assert found["lossless"] == (False, "TIMELY 3") and found["obeyed"] == (True, "none")


def test_what_is_not_of_the_abstract_is_ours():
    claims = EXPERIMENTS["beyond/pyrrha"].claims(made_up(), "paper")
    of_paper = {claim.id for claim in claims if claim.kind != OURS}
    assert of_paper == {f"{panel}-{end}" for panel in pyrrha.STATISTICS for end in ("best", "worst")} | {
        f"incast-{panel}" for panel in pyrrha.STATISTICS
    }
    EXPERIMENTS["beyond/pyrrha"].draw(made_up())


def test_the_flows_are_those_of_the_authors_files():
    """50 000 of Web Server, and 720 of 30 to 40 packets at once to a host that has no other ones, none from its pod."""
    made = [parse_spec(spec) for spec in pyrrha.specs("paper").values()]
    one, other = (spec.build_flows(spec.build_topology()) for spec in made)
    assert (one.start_ps == other.start_ps).all() and (one.bytes == other.bytes).all()
    crowd = one.dst == pyrrha.RECEIVER
    assert crowd.sum() == 720 and 49_000 < (~crowd).sum() < 51_000
    assert one.start_ps[crowd].max() < 200_000 and one.src[crowd].min() >= pyrrha.POD
    assert not (one.src == pyrrha.RECEIVER).any() and one.start_ps[~crowd].min() >= 30_000_000
    assert set(one.bytes[crowd] // 1460) == set(range(30, 41)) and not (one.bytes[crowd] % 1460).any()
