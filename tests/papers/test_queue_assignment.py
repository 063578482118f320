"""beyond/queue_assignment with made-up numbers: what a distance is, and when a claim fails."""

import polars as pl
import pytest

from penstock_net.schemes.dqa import parameters
from penstock_net.spec import parse_spec
from penstock_papers import frames
from penstock_papers.beyond import queue_assignment as study
from penstock_papers.registry import EXPERIMENTS


def made_up(**changed):
    """Every number is 2, and better ones 4; `changed`: rule -> factor of its slowdowns of short flows."""
    parts = []
    for traffic, load_of in study.mixes("paper"):
        for queues in study.queues_of("paper", load_of):
            for rule in study.RULES:
                for panel in (*study.SLOWDOWNS, study.BUFFER):
                    if panel != study.INCAST or "incast" in traffic:
                        y = 2 * changed.get(rule, 1) if panel == study.SHORT else 2
                        parts.append(frames.rows(panel, rule, [queues], [y], traffic=study.named(traffic, load_of)))
    for rule in study.RULES:
        for panel, y in {"isolation": 2, "spread": 0.01, "throughput": 35, "delay": 1, "queues": 2}.items():
            parts.append(frames.rows(panel, rule, [16], [y], traffic=study.SMALL))
    return pl.concat(parts)


def failed(data):
    return {claim.id for claim in EXPERIMENTS["beyond/queue_assignment"].claims(data, "paper") if not claim.ok}


def test_a_rule_is_measured_by_the_best_reading():
    data = made_up(literal=0.5, penstock=0.6, shortest=0.1)
    assert study.worst(data, "penstock", (study.SHORT,)) == pytest.approx(1.2)
    assert study.worst(data, "unpaused", (study.SHORT,)) == pytest.approx(2)
    assert study.worst(data, "penstock", (study.LONG,)) == 1


def test_ten_per_cent_decide():
    assert not {id for id in failed(made_up(penstock=1.05)) if id.startswith("near")}
    assert {id for id in failed(made_up(penstock=1.2)) if id.startswith("near")} == {
        f"near-{study.named(*mix)}-short" for mix in study.mixes("paper")
    }


def test_a_reading_that_is_best_everywhere_is_no_conflict():
    assert "conflict" in failed(made_up())
    everywhere = {rule: 2.0 for rule in study.READINGS}
    assert "conflict" in failed(made_up(**everywhere | {"rotating": 1}))


def test_the_specs_name_every_rule():
    assert set(study.RULES) | {"single"} == set(parameters["assignment"][0].split()[1:])
    for spec in EXPERIMENTS["beyond/queue_assignment"].specs("quick", 1).values():
        checked = parse_spec(spec)
        assert [table.parameters["assignment"] for table in checked.schemes] == list(study.RULES)


def test_the_figure_shows_every_rule():
    drawn = EXPERIMENTS["beyond/queue_assignment"].draw(made_up())
    assert len(drawn.axes) == len(study.SHOWN) * len(study.TRAFFICS)
    assert [text.get_text() for text in drawn.axes[0].get_yticklabels()] == list(study.RULES)
