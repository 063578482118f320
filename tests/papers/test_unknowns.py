"""Unknowns of a paper: declarations that are refused, candidates as patches of specs, and a calibration of a toy paper."""

import json
import math

import pytest
from fake import SPEC

from penstock_net.cli import main
from penstock_net.errors import SpecError
from penstock_papers import calibrate, calibrations, choices, records, unknowns
from penstock_papers.candidates import as_read, differences, unsettled, with_candidate
from penstock_papers.claims import CALIBRATED, FAIL, PASS, judge
from penstock_papers.forms import form
from penstock_papers.framework import run_all
from penstock_papers.patches import Patch, apply, same
from penstock_papers.registry import Experiments
from penstock_papers.unknowns import log_distance

FIGURE = """
import polars as pl

from penstock_papers import within
from penstock_papers.style import figure

TITLE = "A figure of mine"
PAPER = "Mine, section 1, figure 1"
SEEDS = {"paper": 2}


def specs(scale):
    return {"one": {
        "run": {"duration": "1us", "seed": 1},
        "topology": {"kind": "star", "hosts": 2, "rate": RATE},
        "scheme": {"name": "fifo", "label": "x"},
        "workload": [{"kind": "list", "flows": [[0, 1, "1KB", "0s"]]}],
    }}


def measure(runs, scale):
    return pl.DataFrame({"series": ["a"], "x": [1.0], "y": [runs["one"].flows["fct_ns"][0]]})


CLAIMS = (
    within("fct", "the completion time, ns", "2200 ns", 2100, 2300, why="the paper's number", quick=True),
    within("fast", "the same", "at most 2500 ns", None, 2500, why="the paper's bound", quick=True),
    within("slow", "the same", "at least 3000 ns", 3000, None, why="the paper's bound", quick=True),
)


def numbers(data, scale):
    return dict.fromkeys(("fct", "fast", "slow"), data["y"][0])


def plot(data):
    made, axes = figure()
    axes.plot(data["x"], data["y"])
    return made
"""
DECLARED = """
[[unknown]]
name = "rate"
question = "How fast are the links?"
by = "calibration"
chosen = "100"
why = "the calibration has not been run"
figures = ["mine/fig01", "mine/fig02"]
not_yet = {"mine/fig02" = "it has 25"}
held_out = ["mine/fig02", "mine/fig01 fast"]

[unknown.chooser]
figure = "mine/fig01"
scale = "quick"
seeds = 2
statistics = [{claim = "fct", number = 2200}]

[[unknown.candidate]]
name = "100"
source = "text: section 1"
set = [{at = "topology", keys = {rate = "100Gbps"}}]

[[unknown.candidate]]
name = "10"
source = "code: somebody/something 1234567, mix/config.txt"
set = [{at = "topology", keys = {rate = "10000Mbps"}}]

[[unknown.candidate]]
name = "none"
source = "ours: a topology that cannot be"
set = [{at = "topology", keys = {hosts = 1}}]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(records, "_git", lambda *words: "")
    unknowns.of_paper.cache_clear()
    paper = tmp_path / "figures" / "mine"
    paper.mkdir(parents=True)
    (paper / "__init__.py").write_text("")
    (paper / "fig01.py").write_text(FIGURE.replace("RATE", '"100Gbps"'))
    (paper / "fig02.py").write_text(FIGURE.replace("RATE", '"25Gbps"'))
    (paper / "unknowns.toml").write_text(DECLARED)
    yield paper.parent
    unknowns.of_paper.cache_clear()


def declared(folder, text=DECLARED):
    """The only unknown of the toy paper, with this declaration, checked against its figures."""
    (folder / "mine/unknowns.toml").write_text(text)
    unknowns.of_paper.cache_clear()
    (found,) = unknowns.of_paper("mine", folder)
    unknowns.check(found, Experiments.of_folder(folder))
    return found


WRONG = [
    ('"mine/fig02 other-*"', 'held_out = ["mine/fig02"', "has no such claim"),
    ('"mine/fig09"', '"mine/fig01", "mine/fig02"]\nnot_yet', "there is no such figure"),
    ("", 'held_out = ["mine/fig02", "mine/fig01 fast"]\n', "without held-out claims shows nothing"),
    ('chosen = "1"', 'chosen = "100"', "is no candidate"),
    ('by = "taste"', 'by = "calibration"', "must say what decides"),
    ('by = "text"', 'by = "calibration"', "what is decided otherwise has none"),
    ('source = "somebody said so"', 'source = "text: section 1"', "must begin with one of code, statement, text, ours"),
    ('claim = "fcts"', 'claim = "fct"', "has no such claim"),
    ("number = -1", "number = 2200", "has no logarithm"),
    ('held_out = ["mine/fig01 fct"]', 'held_out = ["mine/fig02", "mine/fig01 fast"]', "holds out what chooses"),
    ('at = "switch"', 'at = "topology", keys = {hosts', "is no place in a spec"),
    ("[{at = 'topology'}]", '[{at = "topology", keys = {rate = "100Gbps"}}]', "sets nothing"),
    ('scale = "huge"', 'scale = "quick"', "has no such scale"),
    ('seeds = 2\nunread = ["mine/fig02 two"]', "seeds = 2", "is no run of a figure that chooses or is held out"),
    ('seeds = 2\nunread = ["mine/fig01"]', "seeds = 2", "names a figure and runs of it"),
    ("colour = 1", 'why = "the calibration has not been run"', "there is no such key"),
]


@pytest.mark.parametrize("new, old, message", WRONG, ids=[message for *_, message in WRONG])
def test_a_declaration_that_says_nothing_or_names_what_is_not_there_is_refused(folder, new, old, message):
    if message == "there is no such figure":
        text = DECLARED.replace('figures = ["mine/fig01", "mine/fig02"]', 'figures = ["mine/fig01", "mine/fig02", "mine/fig09"]')
    elif message == "has no such claim" and "other" in new:
        text = DECLARED.replace('held_out = ["mine/fig02"', f"held_out = [{new}")
    elif message == "is no place in a spec":
        text = DECLARED.replace('at = "topology", keys = {hosts', 'at = "switch", keys = {hosts')
    else:
        assert DECLARED.count(old) == 1
        text = DECLARED.replace(old, new)
    with pytest.raises(SpecError, match=message):
        declared(folder, text)


def test_axes_are_candidates_of_all_combinations_but_those_that_do_not_go_together(folder):
    axes = "".join(
        f'[[unknown.axis]]\n[[unknown.axis.option]]\nname = "{a}"\nsource = "text: 1"\n{more}\n'
        f'[[unknown.axis.option]]\nname = "{b}"\nsource = "text: 2"\n'
        for a, b, more in (("a", "b", 'without = ["d"]'), ("c", "d", ""))
    )
    text = (
        DECLARED.split("[[unknown.candidate]]")[0]
        .replace('chosen = "100"', 'chosen = "a, c"')
        .replace('{"mine/fig02" = "it has 25"}', "{}")
    )
    found = declared(folder, text + axes)
    assert list(found.candidates) == ["a, c", "b, c", "b, d"] and found.candidates["b, c"].source == "text: 2; text: 1"


def test_what_is_declared_before_the_runs_is_hashed_and_what_is_chosen_afterwards_is_not(folder):
    before = declared(folder).declaration
    assert declared(folder, DECLARED.replace('chosen = "100"', 'chosen = "10"')).declaration == before
    assert declared(folder, DECLARED.replace("number = 2200", "number = 2100")).declaration != before
    assert declared(folder, DECLARED.replace('rate = "100Gbps"', 'rate = "40Gbps"')).declaration != before


# -- patches ------------------------------------------------------------------------------------------------------------


def patched(at, tables, beside=(), **keys):
    """The [[scheme]] tables of a spec with a patch, and the keys that it changes."""
    specs, found = apply([Patch.of({"at": at, **keys}, "set")], "mine/fig01", {"s": {**SPEC, "scheme": tables}}, beside)
    return specs["s"]["scheme"], [(each.where, each.before, each.after) for each in found]


def test_a_key_that_has_the_value_already_leaves_the_table_as_it_is():
    tables = [{"name": "dcqcn:config", "dcqcn": {"window": True}, "pfc": {"alpha": 2}}, {"name": "bfc"}]
    assert patched("scheme.dcqcn", tables, keys={"window": True, "increase_interval": "900000ns", "pfc.alpha": 2.0}) == (
        tables,
        [],
    )
    made, found = patched("scheme.dcqcn", tables, keys={"window": False})
    assert made == [{"name": "dcqcn:config", "pfc": {"alpha": 2}}, {"name": "bfc"}] and len(found) == 1, (
        "a default is not written"
    )
    made, found = patched("scheme.pfc", tables, keys={"alpha": 0.5})
    assert [table["pfc"] for table in made if "pfc" in table] == [{"alpha": 0.5}] and found == [
        ("dcqcn:config (pfc) alpha", 2, 0.5)
    ]


def test_a_key_is_set_where_it_is_written():
    """`assignment` beside the name of `bfc` is dqa's, and `alpha` beside that of `expresspass` is not PFC's."""
    made, _ = patched("scheme.bfc", [{"name": "bfc", "assignment": "rotating"}], keys={"dqa.assignment": "literal"})
    assert made == [{"name": "bfc", "assignment": "literal"}]
    made, _ = patched("scheme.dcqcn", [{"name": "dcqcn+dqa"}], keys={"window": True})
    assert made == [{"name": "dcqcn+dqa", "dcqcn": {"window": True}}]


def test_tables_without_the_part_and_those_beside_stay():
    tables = [{"name": "hpcc+recovery:perfect", "pfc": False}, {"name": "pfc", "label": "PFC, ours"}, {"name": "ndp"}]
    assert patched("scheme.pfc", tables, beside=["*, ours"], keys={"alpha": 3}) == (tables, [])
    assert patched("scheme.hpcc", tables, keys={"pfc.alpha": 3}) == (tables, [])


def test_a_variant_is_another_preset_of_one_of_the_schemes():
    made, found = patched("scheme.hpcc", [{"name": "hpcc:bfc+dqa:stochastic"}], variant="ns3")
    assert made == [{"name": "hpcc:ns3+dqa:stochastic"}] and len(found) == 1
    assert patched("scheme.hpcc", [{"name": "hpcc"}], variant="")[1] == []


def test_workloads_are_patched_by_kind_and_specs_by_name():
    spec = {**SPEC, "workload": [{"kind": "poisson", "sizes": "google", "load": 0.5}, {"kind": "incast", "load": 0.5}]}
    patch = Patch.of({"at": "workload.poisson", "times": {"load": 0.5}, "specs": ["!b*"]}, "set")
    made, found = apply([patch], "mine/fig01", {"a": spec, "b1": spec})
    assert [w["load"] for w in made["a"]["workload"]] == [0.25, 0.5] and made["b1"] == spec and len(found) == 1
    assert spec["workload"][0]["load"] == 0.5, "the figure's own spec"
    whole = Patch.of({"at": "topology", "table": {"kind": "star", "hosts": 8}}, "set")
    made, found = apply([whole], "mine/fig01", {"a": spec})
    assert made["a"]["topology"] == {"kind": "star", "hosts": 8}
    assert {each.where for each in found} == {"topology.rate", "topology.delay", "topology.hosts"}
    assert same("20MB", 20_000_000) and same("1us", "1000ns") and not same("20MB", "20MiB") and not same(1, True)


# -- distances ----------------------------------------------------------------------------------------------------------


def test_distances_are_logarithms():
    assert log_distance(2, 4, 8) == log_distance(16, 4, 8) == pytest.approx(math.log(2)) and log_distance(5, 4, 8) == 0
    assert log_distance(0, 1, 2) == log_distance(math.nan, 1, 2) == math.inf and log_distance(3, None, 4) == 0
    half = unknowns.Statistic("a", 0.35, 0.35, complement=True)
    assert half.distance(0.35) == 0 and half.distance(1 - 1.3) == pytest.approx(math.log(2)) and half.distance(None) == math.inf
    both = unknowns.Chooser("f", "quick", 1, (unknowns.Statistic("a", 1, 1), unknowns.Statistic("b", 5, 30)))
    assert both.distance({"a": math.e**3, "b": 30 * math.e**4}) == pytest.approx(5) and both.distance({"a": 1}) == math.inf


# -- a calibration ------------------------------------------------------------------------------------------------------


def test_a_figure_s_claim_that_chooses_is_never_a_pass(folder):
    figure = Experiments.of_folder(folder)["mine/fig01"]
    assert figure.calibrated == {"fct"}

    def verdicts(y):
        import polars as pl

        data = pl.DataFrame({"series": ["a"], "x": [1.0], "y": [y]})
        return [claim.verdict for claim in judge(figure.claims(data, "quick"), "quick", {}, figure.calibrated)]

    assert verdicts(2200.0) == [CALIBRATED, PASS, FAIL] and verdicts(5000.0) == [FAIL, FAIL, PASS]


def test_what_is_contradicted_is_run_and_never_chosen(folder):
    """The nearest one, of which the text says otherwise."""
    contradicted = DECLARED.replace('source = "text: section 1"', 'source = "text: section 1"\nagainst = "text: section 2"')
    with pytest.raises(SpecError, match=r"rate\.chosen = .100.: is contradicted: text: section 2; choose"):
        declared(folder, contradicted)
    with pytest.raises(SpecError, match=r"against = .I like it.: must begin with one of code, statement, text;"):
        declared(folder, contradicted.replace("text: section 2", "I like it"))
    found = declared(
        folder, contradicted.replace('chosen = "100"', 'chosen = "10"').replace('{"mine/fig02" = "it has 25"}', "{}")
    )
    assert found.contradicted() == {"100"} and found.declaration != declared(folder).declaration
    *_, made = calibrate.calibrate(found, "quick", experiments=Experiments.of_folder(folder))
    assert calibrations.nearest(made, found.contradicted()) == "10" != calibrations.nearest(made)


def test_figures_that_do_not_show_what_is_chosen_are_named_with_the_key(folder):
    found, figures = declared(folder), Experiments.of_folder(folder)
    assert differences(found, figures["mine/fig01"]) == [] and list(unsettled((found,), figures)) == []
    (said,) = map(str, differences(found, figures["mine/fig02"]))
    assert said == "mine/fig02, one: topology.rate is '25Gbps', declared '100Gbps'"
    now = declared(folder, DECLARED.replace('{"mine/fig02" = "it has 25"}', '{"mine/fig01" = "why"}'))
    first, second = unsettled((now,), figures)
    assert "mine/fig01 shows the chosen '100': delete it" in first and said in second


def test_every_candidate_is_run_and_what_is_held_out_is_counted(folder, tmp_path):
    found, figures = declared(folder), Experiments.of_folder(folder)
    assert "3 candidates, 2 figures" in calibrate.cost(found, "quick", experiments=figures, known={})
    *_, made = calibrate.calibrate(found, "quick", experiments=figures)
    candidates = made["candidates"]
    assert calibrations.nearest(made) == "100" and candidates["100"]["distance"] < 0.05 < candidates["10"]["distance"]
    assert "error" in candidates["none"] and candidates["none"]["distance"] is None
    assert made["seeds"] == {"mine/fig01": [1, 2], "mine/fig02": [1]} and len(candidates["10"]["distances"]) == 2
    of_100, of_10 = (calibrations.agreement(made, name) for name in ("100", "10"))
    assert (of_100.held, of_100.judged) == (3, 4), "fct and fast of figure 2, fast of figure 1; not slow"
    assert (of_10.held, of_10.judged) == (1, 4) and of_10.distance > of_100.distance and calibrations.moved(made) == 4
    assert candidates["100"]["figures"]["mine/fig01"].keys() == {"fct", "fast"}
    roles = {name: claim["role"] for name, claim in candidates["100"]["figures"]["mine/fig01"].items()}
    assert roles == {"fct": calibrations.CHOOSES, "fast": calibrations.HELD_OUT}
    figure = with_candidate(figures["mine/fig02"], found, found.candidates["10"])
    assert figure.specs("quick")["one"]["topology"]["rate"] == "10000Mbps"
    assert "0 of them not in the cache" not in calibrate.cost(found, "quick", [7], experiments=figures, known={})
    assert "7 runs, 3 of them not in the cache" in calibrate.cost(found, "quick", experiments=figures, known={})


def test_what_no_claim_reads_is_run_once_as_the_figure_has_it(folder):
    """A second run, that nothing reads: with its own seed 1, for all seeds and candidates."""
    one, figures = figures_with_a_second_run(folder)
    plain = declared(folder)
    assert "13 runs" in calibrate.cost(plain, "quick", experiments=figures, known={})
    found = declared(folder, DECLARED.replace("seeds = 2", f'seeds = 2\nunread = ["{one} two"]'))
    assert found.is_unread(one, "two") and not found.is_unread(one, "one") and not found.is_unread("mine/fig02", "two")
    assert "8 runs" in calibrate.cost(found, "quick", experiments=figures, known={})
    specs = as_read(figures[one], found, found.candidates["10"]).specs("quick", 2)
    assert [specs[name]["topology"]["rate"] for name in ("one", "two")] == ["10000Mbps", "100Gbps"]
    assert [specs[name]["run"]["seed"] for name in ("one", "two")] == [2, 1]
    *_, made = calibrate.calibrate(found, "quick", experiments=figures)
    *_, whole = calibrate.calibrate(plain, "quick", experiments=figures)
    assert made["candidates"] == whole["candidates"] and made["declaration"] == whole["declaration"]


def test_what_no_claim_reads_is_short(folder):
    one, figures = figures_with_a_second_run(folder, "70ms")
    found = declared(folder, DECLARED.replace("seeds = 2", f'seeds = 2\nunread = ["{one} two"]'))
    specs = as_read(figures[one], found, found.candidates["10"]).specs("quick", 2)
    assert specs["two"]["run"]["duration"] == "2ms"
    assert specs["one"]["run"] == figures[one].specs("quick", 2)["one"]["run"]


def figures_with_a_second_run(folder, duration="2us"):
    path = folder / "mine" / "fig01.py"
    two = f'    }}\n    return {{"one": base, "two": {{**base, "run": {{**base["run"], "duration": "{duration}"}}}}}}\n'
    path.write_text(path.read_text().replace('return {"one": {', "base = {").replace("    }}\n", two, 1))
    return "mine/fig01", Experiments.of_folder(folder)


def test_only_what_was_declared_is_recorded(folder, tmp_path, monkeypatch):
    found, figures = declared(folder), Experiments.of_folder(folder)
    *_, made = calibrate.calibrate(found, "quick", [1], experiments=figures)
    with pytest.raises(SpecError, match="declared at scale quick with 2 seeds"):
        calibrate.add(found, made, tmp_path / "records", figures)
    made["seeds"]["mine/fig01"] = [1, 2]
    monkeypatch.setattr(calibrate.records, "changed", lambda name: True)
    with pytest.raises(SpecError, match="declared before they are run"):
        calibrate.add(found, made, tmp_path / "records", figures)
    monkeypatch.setattr(calibrate.records, "changed", lambda name: False)
    calibrate.add(found, made, tmp_path / "records", figures)
    assert calibrations.load("mine", "rate", tmp_path / "records") == json.loads(json.dumps(made))


def test_a_recorded_calibration_goes_on_with_the_figures_that_it_lacks(folder, tmp_path, monkeypatch):
    found, figures = declared(folder), Experiments.of_folder(folder)
    made = list(calibrate.calibrate(found, "quick", experiments=figures))
    assert len(made) == 5, "three candidates on figure 1, of which one cannot be run, then two"
    first, whole = made[3], made[4]
    assert calibrations.missing(first, "mine/fig01") == [] and calibrations.missing(first, "mine/fig02") == ["10"]
    with monkeypatch.context() as patched:
        patched.setattr(calibrations, "load", lambda paper, name: first)
        assert "candidates not run yet: `mine/fig02` (1 of 3)" in "\n".join(choices.calibration(found))
        patched.setattr(calibrations, "load", lambda paper, name: whole)
        assert "not run yet" not in "\n".join(choices.calibration(found))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another machine"))
    monkeypatch.setattr(calibrate.records, "changed", lambda name: False)
    calibrate.add(found, first, tmp_path / "records", figures)
    before = calibrate.recorded(found, tmp_path / "records")
    assert "3 candidates, 1 figures, 3 runs" in calibrate.cost(found, "quick", experiments=figures, known={}, before=before)
    run = []
    monkeypatch.setattr(calibrate, "run_all", lambda own, *rest: run.append(own.id) or run_all(own, *rest))
    (again,) = calibrate.calibrate(found, "quick", experiments=figures, before=before)
    assert run == ["mine/fig02"] and again["candidates"] == json.loads(json.dumps(whole))["candidates"]
    assert list(calibrate.calibrate(found, "quick", experiments=figures, before=again)) == []
    assert calibrate.recorded(declared(folder, DECLARED.replace("number = 2200", "number = 2201")), tmp_path / "records") is None


def test_held_out_figures_have_the_seeds_that_are_declared(folder):
    found = declared(folder, DECLARED.replace("seeds = 2", "seeds = 2\nheld_seeds = 3"))
    *_, made = calibrate.calibrate(found, "quick", experiments=Experiments.of_folder(folder))
    assert made["seeds"] == {"mine/fig01": [1, 2], "mine/fig02": [1, 2, 3]}
    assert "with seeds 1 to 3" in "\n".join(choices.calibration(found))
    with pytest.raises(SpecError, match="must be a number of seeds"):
        declared(folder, DECLARED.replace("seeds = 2", "seeds = 2\nheld_seeds = 0"))


def test_what_cannot_be_recorded_is_refused_before_it_is_run(folder, tmp_path, capsys):
    words = ["reproduce", "--calibrate", "mine", "--from", str(folder), "--out", str(tmp_path / "out")]
    assert main([*words, "--record", str(tmp_path / "records")]) == 2
    assert "--from goes without --record" in capsys.readouterr().err
    found = declared(folder)
    calibrate.recordable(found, "quick", None)
    for scale, seeds in (("paper", None), ("quick", [1])):
        with pytest.raises(SpecError, match="declared at scale quick with 2 seeds"):
            calibrate.recordable(found, scale, seeds)


def test_the_page_shows_what_all_candidates_give(folder, tmp_path, monkeypatch):
    found, figures = declared(folder), Experiments.of_folder(folder)
    *_, made = calibrate.calibrate(found, "quick", experiments=figures)
    assert "Not run yet." in "\n".join(choices.calibration(found))
    monkeypatch.setattr(calibrations, "load", lambda paper, name: made)
    page = "\n".join(choices.calibration(found))
    assert "| **100** |" in page and "| 10 |" in page and "3 of 4 (75 %)" in page and "1 of 4 (25 %)" in page
    assert page.index("| **100** |") < page.index("| 10 |") and "has changed since" not in page
    made["declaration"] = "another"
    assert "the declaration has changed since" in "\n".join(choices.calibration(found))


def test_the_command(folder, tmp_path, capsys):
    words = ["reproduce", "--calibrate", "mine", "--from", str(folder), "--out", str(tmp_path / "out")]
    assert main([*words, "--unknown", "rate"]) == 0
    said = capsys.readouterr().out
    assert said.index("not in the cache") < said.index("100 (chosen)") and (tmp_path / "out/rate.quick.json").exists()
    assert main([*words, "--unknown", "delay"]) == 2 and "has rate" in capsys.readouterr().err
    assert main(["reproduce", "bfc/fig09", "--unknown", "rate"]) == 2


# -- kinds of claims ----------------------------------------------------------------------------------------------------

FORMS = [
    ("direction", None, None, "", ""),
    ("direction", 1, None, "better", "the paper gives no number: a larger effect agrees with it"),
    ("bound", 0, 0, "never", "never"),
    ("bound", 35, None, "consistently higher than 35us", "the paper's bound"),
    ("word", 1, 1.2, "slightly", '"slightly": a factor from 1 to 1.2'),
    ("word", 1.5, None, "degrades", "degrades: a factor of 1.5 or more"),
    ("number", 5, 20, "10 %", "half and double of the paper's number"),
    ("number", 900, 1_100, "1,000", "a tenth either way"),
    ("range", 5, 30, "5-30x better", "the range that the paper names"),
    ("range", 2.3, 3, "2.3-3x worse", "as it is written"),
]


@pytest.mark.parametrize("kind, low, high, paper, why", FORMS)
def test_the_kind_of_a_claim(kind, low, high, paper, why):
    assert form({"low": low, "high": high, "paper": paper, "why": why}) == kind
