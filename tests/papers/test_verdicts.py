"""Every record of the repository: its verdicts are those of the present claims on its points, and of bands that are logged."""

import json

import pytest

from penstock_papers import EXPERIMENTS, records
from penstock_papers.claims import judge, over_seeds
from penstock_papers.records import RECORDS, judged, place, points

KEPT = [(id, scale) for id, scales in records.load().items() for scale in scales]


@pytest.mark.parametrize("id, scale", KEPT, ids=lambda text: text)
def test_a_record_has_the_verdicts_of_the_present_claims(id, scale):
    """Whoever changes a claim runs `penstock reproduce ID --scale SCALE --judge-again`."""
    record, experiment = records.of(RECORDS, id, scale), EXPERIMENTS[id]
    data = points(RECORDS, id, record)
    found = over_seeds([experiment.claims(each, scale) for each in data.values()])
    claims = judge(found, scale, experiment.differs, experiment.calibrated)
    assert {**record, **judged(experiment, claims)} == record
    assert len(data) == len(record["seeds"]) and record["title"] == experiment.title


def test_records_are_there():
    assert len(KEPT) > 90


def test_a_record_belongs_to_a_figure_and_has_its_points():
    for id, scale in KEPT:
        assert id in EXPERIMENTS and place(RECORDS, id, scale, "parquet").exists()
        assert json.loads(place(RECORDS, id, scale).read_text())["scale"] == scale
