"""Points that are kept with a record: what they are a hash of, when they may be judged again, and that it takes no run."""

from dataclasses import replace

import polars as pl
import pytest
from fake import experiment, run, with_runs

from penstock.cli import main
from penstock.errors import SpecError
from penstock.experiments import confirm, everything, measuring, points, records, within

pytestmark = pytest.mark.usefixtures("own_cache")
ID = "fake/fig01"


def judged(high, seen=None):
    def claims(data, scale):
        if seen is not None:
            seen.append(data)
        return [within("a", "", "", data["y"].mean(), 0, high, why="the paper's range", quick=True)]

    return claims


@pytest.fixture
def recorded(tmp_path, simulated):
    """A record of two seeds whose claim fails, and the experiment with a band that it lies in."""
    file, data = tmp_path / "records.json", []
    with pytest.raises(Exception, match="1 of 1 claims failed"):
        run(with_claims(judged(2, data)), tmp_path / "out", record=file, seeds=[3, 5])
    simulated.clear()
    return file, data


def with_claims(claims):
    return {ID: replace(with_runs()[ID], claims=claims)}


def again(file, claims):
    return points.judge_again(ID, file, "quick", with_claims(claims))


def test_the_same_claims_get_the_same_verdicts_from_the_same_points_without_a_run(recorded, simulated):
    file, data = recorded
    before, seen = records.load(file), []
    assert [claim.verdict for claim in again(file, judged(2, seen))] == ["FAIL"]
    assert records.load(file) == before and not simulated
    assert len(seen) == len(data) == 2 and all(a.equals(b) for a, b in zip(seen, data))


def test_other_claims_are_recorded_with_the_commit_that_judged(recorded, monkeypatch):
    file, _ = recorded
    monkeypatch.setattr(records, "judging", lambda id: "other claims")
    monkeypatch.setattr(records, "check_moved", lambda *of: None)
    assert records.stale(ID, records.load(file)[ID]["quick"])
    before = records.load(file)[ID]["quick"]
    assert [claim.verdict for claim in again(file, judged(1000))] == ["PASS"]
    after = records.load(file)[ID]["quick"]
    assert not records.stale(ID, after) and after["judged"] == records.when() and after["verdicts"] == {"PASS": 1}
    kept = ("commit", "sources", "simulator", "runs", "points", "seeds", "run_s", "date")
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}


def test_a_moved_band_needs_an_entry_in_the_log(recorded):
    file, _ = recorded
    before = file.read_bytes()
    with pytest.raises(SpecError, match=r"changes\.toml"):
        again(file, judged(1000))
    assert file.read_bytes() == before


def other_points(file):
    path = points.place(file, ID, "quick")
    data = pl.read_parquet(path)
    data.with_columns(pl.col("y") + 1e-9).write_parquet(path)


def no_points(file):
    points.place(file, ID, "quick").write_bytes(b"PAR1")


REFUSED = {
    "measures": (lambda file, patch: patch.setattr(points, "measuring", lambda id: "other"), "measurements or its specs"),
    "specs": (lambda file, patch: patch.setattr(records, "specs", lambda *of: "other"), "measurements or its specs"),
    "simulator": (lambda file, patch: patch.setattr(records, "simulator", lambda id: "other"), "simulator has changed"),
    "points": (lambda file, patch: other_points(file), "other points than its record"),
    "damaged": (lambda file, patch: no_points(file), "cannot be read as points"),
    "missing": (lambda file, patch: file.write_text("{}"), "no points of fake/fig01"),
}


@pytest.mark.parametrize("change, message", REFUSED.values(), ids=REFUSED)
def test_points_of_another_state_are_not_judged(recorded, monkeypatch, change, message):
    file, _ = recorded
    change(file, monkeypatch)
    before = file.read_bytes()
    with pytest.raises(SpecError, match=message):
        again(file, judged(2))
    assert file.read_bytes() == before


def test_after_a_confirmation_the_points_of_another_simulator_may_be_judged(recorded, monkeypatch):
    """Also when the claims have changed at the same time, which then stay to be judged."""
    file, _ = recorded
    for name in ("simulator", "judging"):
        monkeypatch.setattr(records, name, lambda id, name=name: f"another {name}")
    confirm.confirm(ID, file, "quick", experiments=with_claims(judged(2)))
    assert records.stale(ID, records.load(file)[ID]["quick"])
    again(file, judged(2))
    assert not records.stale(ID, records.load(file)[ID]["quick"])


def test_a_record_whose_bands_are_refused_keeps_its_points(recorded, tmp_path):
    file, _ = recorded
    path = points.place(file, ID, "quick")
    before = path.read_bytes()
    with pytest.raises(SpecError, match=r"changes\.toml"):
        run(experiment([]), tmp_path / "out", record=file)
    assert path.read_bytes() == before


def test_the_command(tmp_path, capsys):
    file = tmp_path / "records.json"
    words = ["--judge-again", "--record", str(file)]
    assert main(["reproduce", "bfc/fig02", "--judge-again"]) == 2
    assert main(["reproduce", "bfc/fig02", "--out", str(tmp_path / "out"), "--record", str(file)]) == 0
    assert everything.with_points("bfc", "quick", file) == ["bfc/fig02"] and not everything.with_points("hpcc", "quick", file)
    capsys.readouterr()
    assert main(["reproduce", "bfc/fig02", *words]) == 0 and "bfc/fig02: Cumulative bytes" in capsys.readouterr().out
    assert main(["reproduce", "--all", *words]) == 0 and "1 of 1 figures judged" in capsys.readouterr().out
    assert main(["reproduce", "bfc/fig03", *words]) == 1 and "no points of bfc/fig03" in capsys.readouterr().err


# ---- What the points depend on ----

FIGURE = """
from penstock.experiments.bfc import _shared as shared
from penstock.experiments.bfc._shared import base
from penstock.experiments.claims import within
TOP, UNUSED = 3, 4
LIMIT: int = 5
@shared.decorated
def measure(runs, scale):
    return shared.table(runs, base) + helper()
def helper():
    return TOP
def claims(data, scale):
    return [within(LIMIT)] + shared.judged()
"""
SHARED = """
base = 1
scale = 2
def decorated(f):
    return f
def table(runs, base):
    return [base * scale]
def judged():
    return []
for name in ():
    print(name)
"""


@pytest.fixture
def figure(tmp_path, monkeypatch):
    """A figure's file and one that it shares with others, in a package of the test's own."""
    folder = tmp_path / "penstock" / "experiments"
    (folder / "bfc").mkdir(parents=True)
    for name, value in (("PACKAGE", tmp_path / "penstock"), ("FOLDER", folder)):
        monkeypatch.setattr(measuring, name, value)
    monkeypatch.setattr(measuring, "statistics", lambda id: set())
    monkeypatch.setattr(measuring, "real_switch", lambda file: set())

    def written(figure, shared):
        (folder / "bfc" / "fig.py").write_text(figure)
        (folder / "bfc" / "_shared.py").write_text(shared)
        measuring._parsed.cache_clear()
        return measuring.measuring("bfc/fig")

    return written


SAME = [
    ("LIMIT: int = 5", "LIMIT: int = 6"),
    ("within(LIMIT)", "within(2 * LIMIT)"),
    ("return []", "return [1]"),
    ("return TOP", "return TOP  # 3"),
]
OTHER = [
    ("TOP, UNUSED = 3", "TOP, UNUSED = 2"),
    ("return TOP", "return -TOP"),
    ("(runs, base) + helper()", "(runs, base)"),
    ("base = 1", "base = 2"),
    ("scale = 2", "scale = 3"),
    ("return f", "return lambda: f"),
    ("@shared.decorated", ""),
    ("in ():", "in (1,):"),
    ("[base * scale]", "[base + scale]"),
]


@pytest.mark.parametrize("old, new", SAME)
def test_what_judges_does_not_count(figure, old, new):
    assert figure(FIGURE, SHARED) == figure(FIGURE.replace(old, new), SHARED.replace(old, new))


@pytest.mark.parametrize("old, new", OTHER)
def test_what_measures_counts(figure, old, new):
    assert old in FIGURE + SHARED
    assert figure(FIGURE, SHARED) != figure(FIGURE.replace(old, new), SHARED.replace(old, new))


def test_a_module_that_is_handed_on_counts_as_a_whole(figure):
    whole = FIGURE.replace("+ helper()", "+ helper(shared)")
    assert figure(whole, SHARED) != figure(whole, SHARED.replace("return []", "return [1]"))
