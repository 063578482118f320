"""What a record holds and refuses, which changes it survives, and judging its points again without a run."""

import json
from dataclasses import replace
from functools import partial

import polars as pl
import pytest
from fake import SPEC, experiment, run, with_runs
from made import ascending, holds, within

from penstock_net.cli import main
from penstock_net.errors import SpecError
from penstock_papers import everything, framework, pages, records, verdicts
from penstock_papers.changes import changes
from penstock_papers.claims import OURS

pytestmark = pytest.mark.usefixtures("own_cache")
ID = "fake/fig01"
banded = partial(within, why="the paper's range")


def test_a_record_keeps_every_claim_and_what_it_was_made_with(tmp_path):
    claims = [banded("a", "", "about 1", 1.02, 0.9, 1.1, quick=True), holds("b", "", "", "x", True, kind=OURS)]
    folder = tmp_path / "records"
    run(experiment(claims), tmp_path / "out", record=folder)
    found = records.load(folder)[ID]["quick"]
    written = json.loads((tmp_path / "out" / "claims.json").read_text())
    assert [{"id": id, **claim} for id, claim in found["claims"].items()] == written
    assert found["claims"]["a"]["paper"] == "about 1" and found["claims"]["a"]["why"] == "the paper's range"
    assert (found["verdicts"], found["ours"], found["seeds"], found["scale"]) == ({"PASS": 1}, {"PASS": 1}, [1], "quick")
    assert found["machine"] and found["date"] and found["title"] == "A title" and found["checks"] == {}
    run(experiment(claims), tmp_path / "out", record=folder, scale="paper")
    assert list(records.load(folder)[ID]) == ["quick", "paper"]
    assert verdicts.recorded(folder) == {ID: ("A title", "1 PASS (quick scale); (ours): 1 PASS; 1 PASS; (ours): 1 PASS")}


def test_only_what_simulates_makes_a_record_one_of_other_code(tmp_path, simulated, monkeypatch):
    folder = tmp_path / "records"
    run(with_runs(), tmp_path / "out", record=folder)
    found = records.load(folder)[ID]["quick"]
    assert found["schemes"] == ["bfc", "dqa", "hpcc", "pfc", "telemetry"] and not records.other_code(found)
    monkeypatch.setattr(records, "code_hash", lambda schemes: f"another simulator of {sorted(schemes)}")
    assert records.other_code(found) and records.verdicts({"quick": found}) == records.verdicts({"quick": found | {"code": ""}})


def test_a_record_of_another_set_up_is_known_and_said_on_its_page(tmp_path, simulated, monkeypatch):
    folder = tmp_path / "records"
    run(with_runs(), tmp_path / "out", record=folder)
    found = records.load(folder)[ID]["quick"]
    other = {**SPEC, "workload": [{"kind": "poisson", "sizes": "google", "load": 0.4}]}
    for experiments, changed in ((with_runs(), False), (with_runs(lambda scale: {"base": other}), True)):
        assert records.other_set_up(experiments[ID], found) == changed
        monkeypatch.setattr(pages, "EXPERIMENTS", experiments)
        assert ("set-up has changed since" in next(pages.of_scale(ID, found))) == changed


def test_what_is_no_record_is_refused(tmp_path):
    (tmp_path / "z").mkdir()
    (tmp_path / "z/fig01.paper.json").write_text("[]")
    for reader in (records.load, verdicts.recorded):
        with pytest.raises(SpecError, match=r"fig01\.paper\.json: is not a record"):
            reader(tmp_path)
    (tmp_path / "z/fig01.paper.json").write_text("{")
    with pytest.raises(SpecError, match="cannot be read as a record"):
        records.of(tmp_path, "z/fig01", "paper")
    with pytest.raises(SpecError, match="has no record of z/fig02 at scale paper"):
        records.of(tmp_path, "z/fig02", "paper")


MOVED = [
    [banded("a", "", "", 1.0, 0, 3, quick=True)],
    [banded("a", "", "", 1.0, None, 2, quick=True)],
    [banded("a", "", "", 1.0, 0, 2, quick=True, kind=OURS)],
    [],
]


@pytest.mark.parametrize("after", MOVED, ids=["wider", "open", "ours", "gone"])
def test_a_band_that_has_moved_is_recorded_with_an_entry_in_the_log_only(tmp_path, monkeypatch, after):
    folder = tmp_path / "records"
    other = [holds("b", "", "", 1.0, True, "small"), ascending("c", "", "", {"x": 1, "y": 2})]

    def record(claims, entries):
        for module in (framework, records):
            monkeypatch.setattr(module, "changes_of", lambda id: entries)
        run(experiment([*claims, *other]), tmp_path / "out", record=folder)

    def kept():
        return {path.name: path.read_bytes() for path in sorted(folder.rglob("*.*"))}

    for ours in (1.0, 1.5):  # another number is no other band
        record([banded("a", "", "", ours, 0, 2 + 1e-12 * ours, quick=True)], [])
    before = kept()
    with pytest.raises(SpecError, match="another band or kind: a") as caught:
        record(after, [])
    assert "changes.toml" in str(caught.value) and kept() == before and len(before) == 2
    record(after, [changes()[0]])
    assert kept() != before


# ---- Judging again ----


def judged(high, seen=None):
    def claims(data, scale):
        if seen is not None:
            seen.append(data)
        return [within("a", "", "", data["y"].mean(), 0, high, why="the paper's range", quick=True)]

    return claims


@pytest.fixture
def recorded(tmp_path, simulated):
    """A record of two seeds whose claim fails, and the points that were judged."""
    folder, data = tmp_path / "records", []
    with pytest.raises(Exception, match="1 of 1 claims failed"):
        run(with_claims(judged(2, data)), tmp_path / "out", record=folder, seeds=[3, 5])
    simulated.clear()
    return folder, data


def with_claims(claims):
    return {ID: replace(with_runs()[ID], claims=claims)}


def again(folder, claims):
    return records.judge_again(ID, folder, "quick", with_claims(claims))


def test_the_same_claims_get_the_same_verdicts_from_the_same_points_without_a_run(recorded, simulated):
    folder, data = recorded
    before, seen = records.load(folder), []
    assert [claim.verdict for claim in again(folder, judged(2, seen))] == ["FAIL"]
    assert records.load(folder) == before and not simulated
    assert len(seen) == len(data) == 2 and all(a.equals(b) for a, b in zip(seen, data))


def test_other_claims_change_the_verdicts_and_nothing_else(recorded, monkeypatch):
    folder, _ = recorded
    monkeypatch.setattr(records, "check_moved", lambda *of: None)
    before = records.load(folder)[ID]["quick"]
    assert [claim.verdict for claim in again(folder, judged(1000))] == ["PASS"]
    after = records.load(folder)[ID]["quick"]
    assert after["verdicts"] == {"PASS": 1}
    same = set(before) - {"verdicts", "claims"}
    assert {name: after[name] for name in same} == {name: before[name] for name in same}


def test_a_moved_band_needs_an_entry_in_the_log(recorded):
    folder, _ = recorded
    before = records.load(folder)
    with pytest.raises(SpecError, match=r"changes\.toml"):
        again(folder, judged(1000))
    assert records.load(folder) == before


def other_points(path):
    pl.read_parquet(path).with_columns(pl.col("y") + 1e-9).write_parquet(path)


@pytest.mark.parametrize(
    "change, message",
    [
        (other_points, "other points than its record"),
        (lambda path: path.write_bytes(b"PAR1"), "cannot be read as points"),
        (lambda path: path.unlink(), "cannot be read as points"),
    ],
    ids=["other", "damaged", "gone"],
)
def test_points_that_are_not_those_of_the_record_are_not_judged(recorded, change, message):
    folder, _ = recorded
    change(records.place(folder, ID, "quick", "parquet"))
    before = records.load(folder)
    with pytest.raises(SpecError, match=message):
        again(folder, judged(2))
    assert records.load(folder) == before


def test_the_command(tmp_path, capsys):
    folder = tmp_path / "records"
    words = ["--judge-again", "--record", str(folder)]
    assert main(["reproduce", "bfc/fig02", "--judge-again", "--seeds", "2"]) == 2
    assert main(["reproduce", "bfc/fig02", "--out", str(tmp_path / "out"), "--record", str(folder)]) == 0
    assert everything.with_record("bfc", "quick", folder) == ["bfc/fig02"] and not everything.with_record("hpcc", "quick", folder)
    capsys.readouterr()
    assert main(["reproduce", "bfc/fig02", *words]) == 0 and "bfc/fig02: Cumulative bytes" in capsys.readouterr().out
    assert main(["reproduce", "--all", *words]) == 0 and "1 of 1 figures judged" in capsys.readouterr().out
    assert main(["reproduce", "bfc/fig03", *words]) == 1 and "no record of bfc/fig03" in capsys.readouterr().err
