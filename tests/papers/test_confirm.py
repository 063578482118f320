"""Confirming a record: which runs are repeated, what makes it fail, and that its numbers stay as they were."""

import json
from dataclasses import replace

import polars as pl
import pytest
from fake import SPEC, experiment, run, with_runs

from penstock_net.cli import main
from penstock_net.errors import ClaimFailed, SpecError
from penstock_net.spec import Spec
from penstock_papers import confirm, everything, records, verdicts

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
    experiments, folder = with_runs(lambda scale: specs), tmp_path / "records"
    run(experiments, tmp_path / "out", record=folder)
    monkeypatch.setattr(records, "code_hash", lambda schemes: "other code")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another cache"))
    simulated.clear()
    return experiments, folder


def repeat(recorded, **options):
    experiments, folder = recorded
    return confirm.confirm(ID, folder, "quick", experiments=experiments, **options)


def kept(recorded):
    return records.load(recorded[1])[ID]["quick"]


def test_the_shortest_run_of_every_scheme_is_repeated_and_the_record_is_of_the_present_code(recorded, simulated):
    before = kept(recorded)
    assert records.other_code(before) and set(before["checks"]) == {"short/bfc, seed 1", "short/hpcc, seed 1"}
    assert repeat(recorded) == list(before["checks"]) and simulated == ["bfc", "hpcc"]
    after = kept(recorded)
    assert not records.other_code(after) and after["code"] == "other code"
    assert {name for name in after if after[name] != before[name]} <= {"code", "commit", "date", "penstock"}


def test_a_run_that_has_changed_fails_and_leaves_the_record_as_it_was(recorded, monkeypatch):
    pretend, before = Spec.simulate, kept(recorded)

    def later(spec, table, *arguments, **options):
        made = pretend(spec, table, *arguments, **options)
        if table.name == "hpcc":
            made = replace(made, flows=made.flows.with_columns(pl.col("finish_ns") + 0.001))
        return made

    monkeypatch.setattr(Spec, "simulate", later)
    with pytest.raises(ClaimFailed, match=r"1 of 2 runs.*changed.*short/hpcc, seed 1"):
        repeat(recorded)
    assert kept(recorded) == before


def test_the_specs_must_be_the_same(recorded, simulated):
    _, folder = recorded
    other = with_runs(lambda scale: {"short": SPEC})
    with pytest.raises(SpecError, match="its specs have changed"):
        confirm.confirm(ID, folder, "quick", experiments=other)
    assert not simulated


def test_without_runs_there_is_nothing_to_repeat(tmp_path):
    folder = tmp_path / "records"
    with pytest.raises(SpecError, match="no record of fake/fig01"):
        confirm.confirm(ID, folder, "quick", experiments=experiment([]))
    run(experiment([]), tmp_path / "out", record=folder)
    with pytest.raises(SpecError, match="fake/fig01 has no runs at scale quick"):
        confirm.confirm(ID, folder, "quick", experiments=experiment([]))


def test_the_command_confirms_one_record_or_all_of_other_code(tmp_path, capsys, monkeypatch):
    words = ["--confirm", "--record", str(tmp_path)]
    assert main(["reproduce", "bfc/fig02", "--confirm", "--seeds", "2"]) == 2
    assert main(["reproduce", "bfc/fig02", *words]) == 1 and "no record of bfc/fig02" in capsys.readouterr().err
    old = dict.fromkeys(verdicts.KEYS, "") | {"schemes": [], "checks": {"a, seed 1": ""}, "seeds": [1]}
    for place in ("bfc/fig02.quick", "bfc/fig03.paper"):
        (tmp_path / f"{place}.json").parent.mkdir(exist_ok=True)
        (tmp_path / f"{place}.json").write_text(json.dumps(old))
    assert everything.unconfirmed(None, "quick", tmp_path) == ["bfc/fig02"]
    assert everything.unconfirmed("hpcc", "quick", tmp_path) == []
    assert main(["reproduce", "--all", *words]) == 1 and "0 of 1 records confirmed" in capsys.readouterr().out
