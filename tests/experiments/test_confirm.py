"""Confirming a record: which runs are repeated, what makes it fail, and that its numbers stay as they were."""

import json
from dataclasses import replace

import polars as pl
import pytest
from fake import SPEC, experiment, run, with_runs

from penstock.cli import main
from penstock.errors import ClaimFailed, SpecError
from penstock.experiments import confirm, everything, records
from penstock.spec import Spec

pytestmark = pytest.mark.usefixtures("own_cache")
ID = "fake/fig01"


def test_the_fingerprint_is_of_every_value_but_not_of_columns_that_are_new(tmp_path):
    frame = pl.DataFrame({"bytes": [1, 2], "fct_ns": [5.0, None], "class": ["a", "b"]})
    columns = {"flows": ["bytes", "class", "fct_ns"]}

    def fingerprint(frame, columns=columns):
        frame.write_parquet(tmp_path / "flows.parquet")
        return confirm.fingerprint(tmp_path, columns)

    first = fingerprint(frame)
    assert first == fingerprint(frame.with_columns(new=pl.lit(1))) == fingerprint(frame.select("class", "fct_ns", "bytes"))
    assert first == fingerprint(frame.with_columns(pl.col("class").cast(pl.Enum(["a", "b", "c"]))))
    changed = [
        frame.with_columns(bytes=pl.Series([1, 3])),
        frame.with_columns(fct_ns=pl.Series([5.0, 0.0])),
        frame.with_columns(fct_ns=pl.Series([5.0, 5e-9 + 5])),
        frame.with_columns(pl.Series("class", ["ab", ""])),
        frame.drop("bytes"),
        frame.head(1),
    ]
    assert len({first, *map(fingerprint, changed)}) == 1 + len(changed)
    assert fingerprint(frame, {"ports": ["node"]}) == fingerprint(frame, {})


@pytest.fixture
def recorded(tmp_path, simulated, monkeypatch):
    """A record of two specs with two schemes each, whose sources have changed since; the second spec is the shorter run."""
    specs = {"long": SPEC, "short": {**SPEC, "run": {"duration": "2ms", "seed": 3}}}
    pretend = Spec.simulate

    def simulate(spec, table, topo, flows, **options):
        made = pretend(spec, table, topo, flows, **options)
        made.summary["wall_s"] = 1e9 / spec.duration_ps
        return made

    monkeypatch.setattr(Spec, "simulate", simulate)
    experiments, file = with_runs(lambda scale: specs), tmp_path / "records.json"
    run(experiments, tmp_path / "out", record=file)
    for name in ("sources", "simulator"):
        monkeypatch.setattr(records, name, lambda id: "new sources")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another cache"))
    simulated.clear()
    return experiments, file


def repeat(recorded, **options):
    experiments, file = recorded
    return confirm.confirm(ID, file, "quick", experiments=experiments, **options)


def test_the_shortest_run_of_every_scheme_is_repeated_and_the_record_is_current_again(recorded, simulated):
    before = records.load(recorded[1])[ID]["quick"]
    assert records.stale(ID, before) and set(before["runs"]) == {
        f"{a}/{b}, seed 1" for a in ("long", "short") for b in ("bfc", "hpcc")
    }
    found = repeat(recorded)
    assert found["runs"] == ["short/bfc, seed 1", "short/hpcc, seed 1"] and simulated == ["bfc", "hpcc"]
    after = records.load(recorded[1])[ID]["quick"]
    assert not records.stale(ID, after) and after == before | {"confirmed": found}
    assert (found["sources"], after["sources"]) == ("new sources", before["sources"])
    assert (found["simulator"], after["simulator"]) == ("new sources", before["simulator"])


def test_a_record_without_points_is_confirmed_if_what_judges_is_the_same(recorded, monkeypatch):
    records_file = recorded[1]
    found = records.load(records_file)
    del found[ID]["quick"]["points"]
    records_file.write_text(json.dumps(found))
    assert records.stale(ID, found[ID]["quick"])
    with monkeypatch.context() as patch, pytest.raises(SpecError, match="claims, its measurements or its specs have changed"):
        patch.setattr(records, "judging", lambda id: "other")
        repeat(recorded)
    repeat(recorded)
    assert not records.stale(ID, records.load(records_file)[ID]["quick"])


def test_a_run_that_has_changed_fails_and_leaves_the_record_stale(recorded, monkeypatch):
    pretend = Spec.simulate

    def later(spec, table, *arguments, **options):
        made = pretend(spec, table, *arguments, **options)
        if table.name == "hpcc":
            made = replace(made, flows=made.flows.with_columns(pl.col("finish_ns") + 0.001))
        return made

    monkeypatch.setattr(Spec, "simulate", later)
    with pytest.raises(ClaimFailed, match=r"1 of 2 runs.*changed.*short/hpcc, seed 1"):
        repeat(recorded)
    assert records.stale(ID, records.load(recorded[1])[ID]["quick"])


@pytest.mark.parametrize("module, what", [(confirm, "measuring"), (records, "specs")])
def test_what_measures_and_the_specs_must_be_the_same(recorded, simulated, monkeypatch, module, what):
    monkeypatch.setattr(module, what, lambda id, *of: "other")
    with pytest.raises(SpecError, match="claims, its measurements or its specs have changed"):
        repeat(recorded)
    assert not simulated


def test_without_runs_there_is_nothing_to_repeat(tmp_path):
    file = tmp_path / "records.json"
    with pytest.raises(SpecError, match="no runs of fake/fig01"):
        confirm.confirm(ID, file, "quick", experiments=experiment([]))
    run(experiment([]), tmp_path / "out", record=file)
    with pytest.raises(SpecError, match="no runs of fake/fig01"):
        confirm.confirm(ID, file, "quick", experiments=experiment([]))


def test_the_command_confirms_one_record_or_all_that_are_stale(tmp_path, capsys):
    file = tmp_path / "records.json"
    words = ["--confirm", "--record", str(file)]
    assert main(["reproduce", "bfc/fig02", "--confirm"]) == 2
    assert main(["reproduce", "bfc/fig02", *words]) == 1 and "no runs of bfc/fig02" in capsys.readouterr().err
    file.write_text('{"bfc/fig02": {"quick": {"sources": "old"}}, "bfc/fig03": {"paper": {"sources": "old"}}}')
    assert everything.unconfirmed(None, "quick", file) == ["bfc/fig02"]
    assert everything.unconfirmed("hpcc", "quick", file) == []
    assert main(["reproduce", "--all", *words]) == 1 and "0 of 1 records confirmed" in capsys.readouterr().out
