"""What a record refuses, and what makes it stale: bands that have moved, and other specs."""

import json
from dataclasses import replace
from datetime import date
from functools import partial

import pytest
from fake import experiment, run

from penstock.errors import SpecError
from penstock.experiments import ascending, framework, holds, records, within
from penstock.experiments.changes import changes
from penstock.experiments.claims import OURS

pytestmark = pytest.mark.usefixtures("own_cache")

banded = partial(within, why="the paper's range")


def test_a_record_of_other_specs_is_stale(tmp_path, monkeypatch):
    run(experiment([holds("a", "", "", 1.0, True)]), tmp_path / "out", record=tmp_path / "records.json")
    found = records.load(tmp_path / "records.json")["fake/fig01"]["quick"]
    assert not records.stale("fake/fig01", found)
    monkeypatch.setattr(records, "specs", lambda *of: "with another window")
    assert records.stale("fake/fig01", found)


MOVED = [
    [banded("a", "", "", 1.0, 0, 3, quick=True)],
    [banded("a", "", "", 1.0, None, 2, quick=True)],
    [banded("a", "", "", 1.0, 0, 2, quick=True, kind=OURS)],
    [],
]


@pytest.mark.parametrize("after", MOVED, ids=["wider", "open", "ours", "gone"])
def test_a_band_that_has_moved_is_recorded_with_an_entry_in_the_log_only(tmp_path, monkeypatch, after):
    file = tmp_path / "records.json"
    other = [holds("b", "", "", 1.0, True, "small"), ascending("c", "", "", {"x": 1, "y": 2})]

    def record(claims, entries):
        for module in (framework, records):
            monkeypatch.setattr(module, "changes_of", lambda id: entries)
        run(experiment([*claims, *other]), tmp_path / "out", record=file)

    for ours in (1.0, 1.5):  # another number is no other band
        record([banded("a", "", "", ours, 0, 2 + 1e-12 * ours, quick=True)], [])
    before = file.read_text()
    with pytest.raises(SpecError, match="another band or kind: a") as caught:
        record(after, [])
    assert "changes.toml" in str(caught.value) and file.read_text() == before
    record(after, [changes()[0]])
    assert file.read_text() != before


def test_a_record_without_the_number_of_changes_needs_an_entry_since_its_date(tmp_path, monkeypatch):
    file = tmp_path / "records.json"
    old = {"a": {"kind": "paper", "band": "2 or more", "low": None, "high": None}}
    file.write_text(json.dumps({"fake/fig01": {"quick": {"scale": "quick", "date": "2026-11-22", "claims": old}}}))
    entry = replace(changes()[0], date=date(2026, 11, 21))
    monkeypatch.setattr(records, "changes_of", lambda id: [entry])
    moved = experiment([holds("a", "", "", 1.0, True, "1 or more")])
    with pytest.raises(SpecError, match="gone since its last record"):
        run(moved, tmp_path / "out", record=file)
    monkeypatch.setattr(records, "changes_of", lambda id: [replace(entry, date=date(2026, 11, 22))])
    run(moved, tmp_path / "out", record=file)
