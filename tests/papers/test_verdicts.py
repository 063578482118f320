"""Every record of the repository: its verdicts are those of the present claims on its points, and of bands that are logged."""

import json
import math
from typing import Any

import pytest

from penstock_papers import EXPERIMENTS, records
from penstock_papers.claims import judge, over_seeds
from penstock_papers.records import RECORDS, judged, place, points

KEPT = [(id, scale) for id, scales in records.load().items() for scale in scales]


def alike(one: Any, other: Any) -> bool:
    """Equal, but for the last digits of numbers: a sum or a logarithm of numpy rounds as the processor's vector unit does."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-12) or str(one) == str(other)
    return bool(one == other)


@pytest.mark.parametrize("id, scale", KEPT, ids=lambda text: text)
def test_a_record_has_the_verdicts_of_the_present_claims(id, scale):
    """Whoever changes a claim runs `penstock reproduce ID --scale SCALE --judge-again`."""
    record, experiment = records.of(RECORDS, id, scale), EXPERIMENTS[id]
    data = points(RECORDS, id, record)
    found = over_seeds([experiment.claims(each, scale) for each in data.values()])
    claims = judge(found, scale, experiment.differs, experiment.calibrated)
    assert alike({**record, **judged(experiment, claims)}, record)
    assert len(data) == len(record["seeds"]) and record["title"] == experiment.title


def test_numbers_are_alike_but_for_their_last_digits():
    record = {"claims": {"a": {"value": 1.0128427935980533, "verdict": "PASS"}}, "seeds": [1, math.nan]}
    assert alike(record, {"claims": {"a": {"value": 1.012842793598053, "verdict": "PASS"}}, "seeds": [1, math.nan]})
    for other in (
        {"value": 1.01284279, "verdict": "PASS"},
        {"value": 1.0128427935980533, "verdict": "FAIL"},
        {"verdict": "PASS"},
    ):
        assert not alike(record, {"claims": {"a": other}, "seeds": [1, math.nan]})
    assert not alike(record, {**record, "seeds": [1, 2]}) and not alike(record, {**record, "seeds": [1]})


def test_records_are_there():
    assert len(KEPT) > 90


def test_a_record_belongs_to_a_figure_and_has_its_points():
    for id, scale in KEPT:
        assert id in EXPERIMENTS and place(RECORDS, id, scale, "parquet").exists()
        assert json.loads(place(RECORDS, id, scale).read_text())["scale"] == scale
