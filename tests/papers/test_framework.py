"""The reproduction framework with made-up experiments: verdicts, outputs, the cache, the registry."""

import io
import json
import re
import tomllib
from functools import partial
from pathlib import Path

import polars as pl
import pytest
from fake import SPEC, draw, experiment, run, with_runs
from made import about, as_said, ascending, holds, within
from rich.console import Console

from penstock_net import identity
from penstock_net.errors import ClaimFailed, Interrupted, PenstockError, SpecError
from penstock_net.spec import Spec, parse_spec
from penstock_papers import EXPERIMENTS, Differs, records, reproduce, state
from penstock_papers.claims import (
    DIFFERS,
    FAIL,
    FROM_PAPER,
    NOT_JUDGED,
    OPEN,
    OURS,
    PASS,
    judge,
    over_seeds,
    stale_differences,
)
from penstock_papers.registry import Experiments, _natural

DOCUMENTED = Path(__file__).parents[2] / "docs" / "differences.md"
pytestmark = pytest.mark.usefixtures("own_cache")


banded = partial(within, why="the paper's range")


# -- claims


def test_a_number_within_its_band_passes():
    assert banded("a", "b", "c", 0.5, 0.4, 0.6).ok
    assert not banded("a", "b", "c", 0.7, 0.4, 0.6).ok
    assert banded("a", "b", "c", 5, None, 6).band == "<= 6"
    assert banded("a", "b", "c", 5, 4).band == ">= 4"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_none_never_passes(value):
    claim = banded("a", "b", "c", value, 0)
    assert not claim.ok
    json.dumps(claim.record(), allow_nan=False)


def test_an_order_must_be_strict():
    assert ascending("a", "b", "c", {"x": 1, "y": 2, "z": 3}).ok
    assert not ascending("a", "b", "c", {"x": 1, "y": 1}).ok
    assert not ascending("a", "b", "c", {"x": 1, "y": float("nan")}).ok


def test_quick_judges_order_only():
    claims = [
        banded("number", "", "", 9, 0, 1),
        banded("any-scale", "", "", 9, 0, 1, quick=True),
        ascending("order", "", "", {"x": 2, "y": 1}),
        holds("condition", "", "", 1.0, True),
    ]
    assert [c.verdict for c in judge(claims, "quick", {})] == [NOT_JUDGED, FAIL, FAIL, PASS]
    assert [c.verdict for c in judge(claims, "paper", {})] == [FAIL, FAIL, FAIL, PASS]


def test_a_documented_difference_is_no_failure_and_no_excuse_for_others():
    claims = [banded("known", "", "", 9, 0, 1), banded("fine", "", "", 0.5, 0, 1), banded("new", "", "", 9, 0, 1)]
    table = {"known": Differs("because", "here", (8, 10)), "fine": Differs("because", "here", (8, 10))}
    assert [c.verdict for c in judge(claims, "paper", table)] == [DIFFERS, PASS, FAIL]


def test_a_difference_is_our_predicted_number_at_its_scales():
    table = {"known": Differs("because", "here", expected=(8, 10))}

    def verdict(ours, scale="paper"):
        return judge([banded("known", "", "", ours, 0, 1, quick=True)], scale, table)[0].verdict

    assert [verdict(ours) for ours in (7.9, 8, 9, 10, 10.1, float("nan"))] == [FAIL, DIFFERS, DIFFERS, DIFFERS, FAIL, FAIL]
    assert verdict(9, "quick") == FAIL


def test_a_difference_without_a_prediction_explains_no_number():
    claims = [banded("number", "", "", 9, 0, 1), holds("share", "", "", 0.2, False), holds("state", "", "", "off", False)]
    table = {name: Differs("because", "here") for name in ("number", "share", "state")}
    assert [claim.verdict for claim in judge(claims, "paper", table)] == [FAIL, FAIL, DIFFERS]


@pytest.mark.parametrize("seeds", [1, 2])
def test_a_condition_s_number_is_predicted_with_several_seeds_too(seeds):
    def verdict(value):
        claims = over_seeds([[holds("pfc", "", "", value, value == 0)]] * seeds)
        return judge(claims, "paper", {"pfc": Differs("because", "here", (0.1, 0.5))})[0].verdict

    assert [verdict(value) for value in (0.0, 0.3, 90.0)] == [PASS, DIFFERS, FAIL]


def test_a_difference_whose_claim_passes_is_stale_at_its_scales():
    table = {name: Differs("because", "here", (8, 10)) for name in ("met", "missed")}
    claims = [banded(name, "", "", ours, 0, 1, quick=True) for name, ours in (("met", 0.5), ("missed", 9), ("other", 0.5))]
    assert stale_differences(judge(claims, "paper", table), "paper", table) == ["met"]
    assert stale_differences(judge(claims, "quick", table), "quick", table) == []


def test_a_band_with_two_open_ends_is_refused():
    with pytest.raises(ValueError, match="cannot fail"):
        banded("a", "", "", 1)
    with pytest.raises(ValueError, match="needs its reason"):
        within("a", "", "", 1, 0, 2, why="")


def test_half_and_double_of_the_paper_s_number_or_of_a_gain():
    assert about("a", "", "8", 4, 8).band == about("a", "", "8", 4, 8, gain=True).band == "4 .. 16"
    assert about("a", "", "8", 4, 8).ok and not about("a", "", "8", 3.9, 8).ok and about("a", "", "1.4", 1, 1.4).ok
    small = about("a", "", "1.4 times", 1.19, 1.4, gain=True)
    assert (small.low, small.high, small.ok) == (pytest.approx(1.2), pytest.approx(1.8), False)


def test_a_word_of_the_paper_has_one_band():
    assert not as_said("a", "", "is greatly reduced", 1.9, "greatly").ok and as_said("a", "", "Greatly reduced", 2, "greatly").ok
    found = [as_said("a", "", "slightly worse", factor, "slightly").ok for factor in (0.8, 0.99, 1.3, 1.5)]
    assert found == [False, True, True, False]
    with pytest.raises(ValueError, match='have no "greatly"'):
        as_said("a", "", "reduced", 2, "greatly")


def test_a_claim_of_several_seeds_is_judged_by_its_interval():
    def over(*values, low=1, high=2):
        return over_seeds([[banded("a", "", "", value, low, high)] for value in values])

    def verdict(*values, **band):
        return judge(over(*values, **band), "paper", {})[0].verdict

    assert verdict(1.4, 1.5, 1.6) == PASS  # 1.5 +- 0.25
    assert verdict(1.1, 1.2, 1.3) == OPEN  # 1.2 +- 0.25
    assert verdict(0.8, 0.9, 1.0) == OPEN
    assert verdict(0.1, 0.2, 0.3) == FAIL
    assert verdict(1.1, 1.2, 1.3, low=None) == PASS
    assert verdict(1.5, 1.5, float("nan")) == FAIL
    assert verdict(0, 0.1, 0, low=0, high=0) == FAIL  # never is never in any run
    assert verdict(0, 0, 0, low=0, high=0) == PASS
    assert over(0.1, 0.1, 0.1)[0].ours == "0.1 ± 0"  # their mean, rounded, is another number
    claim = over(1.4, 1.5, 1.6)[0]
    assert (claim.ours, claim.value, claim.seeds) == ("1.5 ± 0.25", pytest.approx(1.5), 3)
    known = {"a": Differs("because", "here", expected=(0.1, 0.3))}
    assert judge(over(0.1, 0.2, 0.3), "paper", known)[0].verdict == DIFFERS


def test_an_order_must_hold_with_every_seed():
    def verdict(*held):
        return judge(over_seeds([[holds("a", "", "", "x", ok)] for ok in held]), "paper", {})[0].verdict

    assert [verdict(True, True), verdict(True, True, False), verdict(True, False), verdict(False, False)] == [
        PASS,
        OPEN,
        FAIL,
        FAIL,
    ]


# -- a reproduction directory


def test_reproduce_leaves_everything(tmp_path, simulated):
    outcome = run(with_runs(), tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "claims.json",
        "data.parquet",
        "figure.png",
        "figure.pdf",
        "spec.toml",
        "summary.json",
    }
    assert outcome.data["series"].to_list() == ["base/bfc", "base/hpcc"]
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["id"] == "fake/fig01" and summary["scale"] == "quick" and summary["wall_s"] >= 0
    assert set(summary["runs"]) == {"base/bfc, seed 1", "base/hpcc, seed 1"}


def test_claims_json_has_the_columns_of_judged_claims(tmp_path):
    claims = [banded("a", "claim", "about 1", 1.0, 0.9, 1.1, quick=True), banded("b", "claim", "2", 9, 1, 3)]
    run(experiment(claims), tmp_path)
    written = json.loads((tmp_path / "claims.json").read_text())
    said = {"id": "a", "kind": "paper", "claim": "claim", "paper": "about 1", "why": "the paper's range"}
    band = {"band": "0.9 .. 1.1", "low": 0.9, "high": 1.1}
    assert written == [{**said, **band, "ours": 1.0, "value": 1.0, "seeds": 1, "verdict": "PASS"}]
    assert [c["id"] for c in json.loads((tmp_path / "summary.json").read_text())["not_judged"]] == ["b"]


def test_a_failed_claim_raises_after_everything_was_written(tmp_path):
    claims = [banded("low", "it is large", "1", 0.1, 0.9, 1.1)]
    with pytest.raises(ClaimFailed, match=r"low: it is large: ours 0\.1") as caught:
        run(experiment(claims), tmp_path, scale="paper")
    assert caught.value.exit_status == 1
    assert json.loads((tmp_path / "claims.json").read_text())[0]["verdict"] == "FAIL"
    assert (tmp_path / "figure.pdf").exists() and (tmp_path / "summary.json").exists()


def test_a_difference_is_reported_with_its_reason(tmp_path):
    claims = [banded("low", "it is large", "1", 0.1, 0.9, 1.1)]
    run(experiment(claims, differs={"low": Differs("the paper rounds", "fake", (0.1, 0.2))}), tmp_path, scale="paper")
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["differs"] == {
        "low": {"reason": "the paper rounds", "see": "docs/differences.md#fake", "expected": [0.1, 0.2]}
    }
    assert summary["verdicts"] == {"DIFFERS": 1}


def test_the_table_shows_claim_paper_ours_band_and_verdict(tmp_path):
    console = Console(record=True, width=160, file=io.StringIO())
    claims = [banded("a", "the claim", "about 1", 1.02, 0.9, 1.1, quick=True)]
    reproduce("fake/fig01", out=tmp_path, experiments=experiment(claims), console=console)
    shown = console.export_text()
    for text in ("the claim", "about 1", "1.02", "0.9 .. 1.1", "PASS"):
        assert text in shown


def test_claims_of_our_own_are_counted_apart_and_shown_as_such(tmp_path):
    console = Console(record=True, width=160, file=io.StringIO())
    claims = [holds("a", "theirs", "as the paper says", 1.0, True), holds("b", "a check", "not in it", 1.0, True, kind=OURS)]
    outcome = reproduce("fake/fig01", out=tmp_path, experiments=experiment(claims), console=console)
    assert outcome.summary["verdicts"] == {"PASS": 1} and outcome.summary["ours"] == {"PASS": 1}
    assert [claim.kind for claim in outcome.claims] == [FROM_PAPER, OURS]
    shown = console.export_text()
    assert "as the paper says" in shown and "(ours)" in shown and "not in it" not in shown


def test_a_claim_counts_once_and_a_measurement_overrules_a_count():
    def record(**verdicts):
        return {"claims": {name: {"kind": "ours" if name == "o" else "paper", "verdict": v} for name, v in verdicts.items()}}

    assert records.verdicts({"quick": record(a="FAIL"), "paper": record(a="PASS", b="PASS", o="PASS")}) == {"PASS": 2}
    assert records.verdicts({"paper": record(a="PASS", b="PASS"), "real": record(b="DIFFERS")}) == {"PASS": 1, "DIFFERS": 1}
    assert not records.verdicts({})


def schemes_of(id):
    return set(records.set_up(EXPERIMENTS[id], "paper", 1)[0])


def test_the_schemes_of_a_figure_are_those_of_its_runs_and_what_they_include():
    macro = {
        "bfc",
        "dqa",
        "dcqcn",
        "dctcp",
        "ecn",
        "hpcc",
        "telemetry",
        "ideal_fq",
        "pfc",
        "window_cap",
        "recovery",
        "expresspass",
    }
    assert schemes_of("bfc/fig09") == macro
    assert schemes_of("hpcc/fig06") == {"hpcc", "telemetry", "pfc"}


def test_every_spec_file_is_a_spec(tmp_path, simulated):
    specs = {"with incast": SPEC, "plain": {**SPEC, "scheme": {"name": "bfc"}}}
    run(with_runs(lambda scale: specs), tmp_path)
    assert sorted(path.name for path in tmp_path.glob("*.toml")) == ["spec.plain.toml", "spec.with_incast.toml"]
    for path in tmp_path.glob("*.toml"):
        assert parse_spec(path.read_text()).duration_ps == 10**9
        assert tomllib.loads(path.read_text())["run"]["seed"] == 1


def test_the_figure_is_drawn_from_the_written_data_and_always_the_same(tmp_path):
    seen = []
    run(experiment([], plot=lambda data: seen.append(data) or draw(data)), tmp_path / "a")
    run(experiment([]), tmp_path / "b")
    assert seen[0].equals(pl.read_parquet(tmp_path / "a" / "data.parquet").drop("seed"))
    for name in ("figure.png", "figure.pdf"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_folder_that_cannot_hold_the_results_is_refused_before_the_work(tmp_path, simulated):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "spec.toml").write_text("mine")
    for out, why in (("file", "be written"), ("file/below", "be written"), ("other", "not a reproduction")):
        with pytest.raises(SpecError, match=why):
            run(with_runs(), tmp_path / out)
    assert not simulated and (tmp_path / "other" / "spec.toml").read_text() == "mine"


# -- the cache


def test_a_second_time_nothing_is_simulated(tmp_path, simulated):
    first = run(with_runs(), tmp_path / "a")
    again = run(with_runs(), tmp_path / "b", threads=2)
    assert simulated == ["bfc", "hpcc"]
    assert again.data.equals(first.data)
    assert [entry["cached"] for entry in again.summary["runs"].values()] == [True, True]


def test_workers_simulate_what_the_cache_lacks(tmp_path, simulated):
    """In other processes, all of it at once; afterwards nothing is left to simulate here."""
    flows = [[0, 1, 5000, "1us"]]
    base = {**SPEC, "run": {"duration": "10us"}, "workload": [{"kind": "list", "flows": flows}]}
    specs = {"base": base, "one": {**base, "scheme": {"name": "dctcp"}}}
    first = run(with_runs(lambda scale: specs), tmp_path / "a", workers=2, cache=tmp_path / "cache")
    assert [entry["cached"] for entry in first.summary["runs"].values()] == [False] * 3
    again = run(with_runs(lambda scale: specs), tmp_path / "b", workers=2, cache=tmp_path / "cache")
    assert simulated == [] and again.data.equals(first.data)
    assert [entry["cached"] for entry in again.summary["runs"].values()] == [True] * 3


def test_a_run_that_fails_in_a_worker_is_reported_as_without_workers(tmp_path):
    broken = {**SPEC, "topology": {"kind": "star", "hosts": 2, "buffer": "1B"}}
    texts = set()
    for workers in (1, 2):
        with pytest.raises(PenstockError) as error:
            run(with_runs(lambda scale: {"base": SPEC, "bad": broken}), tmp_path / f"{workers}", workers=workers)
        texts.add(str(error.value))
    assert len(texts) == 1


def test_a_further_scheme_costs_only_itself(tmp_path, simulated):
    run(with_runs(), tmp_path)
    more = {**SPEC, "scheme": [*SPEC["scheme"], {"name": "dctcp"}]}
    run(with_runs(lambda scale: {"base": more}), tmp_path)
    assert simulated == ["bfc", "hpcc", "dctcp"]


def test_another_value_or_other_code_is_another_run(tmp_path, simulated, monkeypatch):
    run(with_runs(), tmp_path)
    run(with_runs(lambda scale: {"base": {**SPEC, "run": {"duration": "2ms"}}}), tmp_path)
    assert simulated == ["bfc", "hpcc"] * 2
    monkeypatch.setattr(identity, "code_hash", lambda schemes: "other")
    run(with_runs(), tmp_path)
    assert simulated == ["bfc", "hpcc"] * 3


def test_the_order_of_the_keys_and_the_label_are_not_part_of_the_name(tmp_path, simulated):
    one = {**SPEC, "scheme": {"name": "bfc"}}
    run(with_runs(lambda scale: {"one": one}), tmp_path)
    run(with_runs(lambda scale: {"two": dict(reversed(one.items()))}), tmp_path)
    assert simulated == ["bfc"]


def test_an_interrupted_run_is_not_kept(tmp_path, simulated, monkeypatch):
    def fail(spec, table, topo, flows, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(Spec, "simulate", fail)
    with pytest.raises(KeyboardInterrupt):
        run(with_runs(), tmp_path, cache=tmp_path / "runs")
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())


def test_a_run_that_ctrl_c_cut_short_is_not_kept(tmp_path, simulated, monkeypatch, capsys):
    def cut(spec, table, topo, flows, **kwargs):
        partial = whole(spec, table, topo, flows)
        if table.name == "hpcc":
            raise Interrupted(partial)
        return partial

    whole = Spec.simulate
    monkeypatch.setattr(Spec, "simulate", cut)
    with pytest.raises(KeyboardInterrupt):
        run(with_runs(), tmp_path / "out", cache=tmp_path / "runs")
    assert len(list((tmp_path / "runs").iterdir())) == 1
    assert "goes on from there" in capsys.readouterr().err


def test_frames_are_read_by_column(tmp_path, simulated):
    found = []

    def measure(runs, scale):
        assert "base/bfc" in runs and "base" not in runs
        found.append(runs.scan("base/bfc", "flows").select("bytes").collect()["bytes"].to_list())
        with pytest.raises(SpecError, match="has no queues"):
            runs.scan("base/bfc", "queues")
        with pytest.raises(SpecError, match="no spec of that label"):
            runs.summary("base/bcf")
        return pl.DataFrame({"series": ["a"], "x": [1.0], "y": [runs.summary("base/bfc")["flows_started"]]})

    run(experiment([], specs=lambda scale: {"base": SPEC}, measure=measure), tmp_path)
    assert found == [[100]]


def test_progress_names_the_run(tmp_path, simulated):
    heard = []
    run(with_runs(), tmp_path, progress=lambda what, fraction: heard.append((what, fraction)))
    assert heard == [("base/bfc", 0.5), ("base/hpcc", 0.5), ("fake/fig01", 1.0)]


# -- bad input


def test_unknown_names_are_refused_with_the_nearest(tmp_path):
    with pytest.raises(SpecError, match='did you mean "bfc/fig04"'):
        EXPERIMENTS["bfc/figs04"]
    with pytest.raises(SpecError, match='did you mean "paper"'):
        run(experiment([]), tmp_path, scale="papers")


def test_a_label_that_is_not_there_is_refused(tmp_path, simulated):
    def measure(runs, scale):
        return runs["base/bcf"]

    with pytest.raises(SpecError, match='did you mean "base/bfc"'):
        run(experiment([], specs=lambda scale: {"base": SPEC}, measure=measure), tmp_path)


@pytest.mark.parametrize("data", [pl.DataFrame({"x": [1], "y": [1]}), pl.DataFrame({"series": [], "x": [], "y": []})])
def test_data_that_cannot_be_redrawn_is_refused(tmp_path, data):
    with pytest.raises(SpecError, match="series"):
        run(experiment([], measure=lambda runs, scale: data), tmp_path)


# -- the registry


def test_the_state_of_a_figure(tmp_path):
    assert state("fake/fig01") is None
    run(experiment([holds("a", "", "", 1.0, True)]), tmp_path / "fake" / "fig01")
    for found in (state("fake/fig01"), state("fake/fig01", tmp_path)):
        assert found.verdicts == {"PASS": 1} and found.scale == "quick" and found.current
    assert str(found) == "1 PASS (quick)"
    (tmp_path / "fake" / "fig01" / "summary.json").write_text("{")
    assert state("fake/fig01") is None


def test_experiments_are_found_by_listing(tmp_path, monkeypatch):
    (tmp_path / "listed" / "paper").mkdir(parents=True)
    for name in ("__init__", "paper/__init__", "paper/_shared", "paper/fig02", "paper/fig10"):
        (tmp_path / "listed" / f"{name}.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    found = Experiments(tmp_path / "listed", "listed")
    assert list(found) == ["paper/fig02", "paper/fig10"] and len(found) == 2 and "paper/fig02" in found
    with pytest.raises(SpecError, match="paper/fig02: its file has no TITLE, PAPER, CLAIMS, measure, numbers, plot"):
        found["paper/fig02"]


def test_figures_come_in_the_order_of_their_numbers():
    ids = ["bfc/fig10", "bfc/table1", "bfc/fig9", "hpcc/a1", "bfc/deadlock"]
    assert sorted(ids, key=_natural) == ["bfc/deadlock", "bfc/fig9", "bfc/fig10", "bfc/table1", "hpcc/a1"]


@pytest.mark.parametrize("id", list(EXPERIMENTS))
def test_every_experiment_is_complete(id):
    found = EXPERIMENTS[id]
    assert found.title and found.paper and found.about
    for scale in ("quick", "paper"):
        for label, spec in (found.specs(scale) if found.specs else {}).items():
            parse_spec(spec, name=f"{id} {label}")


@pytest.mark.parametrize("id", list(EXPERIMENTS))
def test_every_difference_is_documented(id):
    differs, text = EXPERIMENTS[id].differs, DOCUMENTED.read_text()
    anchors = {
        re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-") for line in text.splitlines() if line.startswith("#")
    } | set(re.findall(r'(?:id|name)="([^"]+)"', text))
    for claim, difference in differs.items():
        assert difference.reason, claim
        assert difference.anchor in anchors, f"{claim}: docs/differences.md has no #{difference.anchor}"
