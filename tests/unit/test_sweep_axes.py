"""What varies in a sweep: keys that vary together, points with names, changes of the network, files of points."""

import re
from pathlib import Path

import pytest

import penstock_net as ps
from penstock_net.cli import main
from penstock_net.errors import SpecError
from penstock_net.results.sweep import Sweep
from penstock_net.spec import load_spec
from penstock_net.sweeps.axes import PROFILES, Axis, combinations, of, parse, profiles

SPEC = """
[run]
duration = "20us"
[topology]
kind = "leaf_spine"
hosts = 4
tors = 2
spines = 2
[scheme]
name = "dcqcn"
[[workload]]
kind = "poisson"
sizes = "google"
load = 0.5
load_on = "host"
"""
DEAD = '[{time="1us", switch="spine0", up=false}]'
SLOW = '[{time="1us", a="tor0", b="spine0", rate="10Gbps"}]'


@pytest.fixture
def spec(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(SPEC)
    return "mine.toml"


@pytest.mark.parametrize(
    ("text", "axis"),
    [
        ("workload.0.load=0.3,0.6", Axis(("workload.0.load",), (("0.3",), ("0.6",)))),
        ("run.seed=1..3", Axis(("run.seed",), (("1",), ("2",), ("3",)))),
        ("scheme=bfc:early,hpcc", Axis(("scheme",), (("bfc:early",), ("hpcc",)))),
        ("a.b,a.c=1,2;3,4", Axis(("a.b", "a.c"), (("1", "2"), ("3", "4")))),
        ("a.b, a.c = 1, 2; 3, 4", Axis(("a.b", "a.c"), (("1", "2"), ("3", "4")))),
        ("a.b,a.c=1,2", Axis(("a.b", "a.c"), (("1", "2"),))),
        ("a.b,a.c=one: 1,2; two: 3,4", Axis(("a.b", "a.c"), (("1", "2"), ("3", "4")), ("one", "two"))),
        ("a.b=[1,2];[3]", Axis(("a.b",), (("[1,2]",), ("[3]",)))),
        (
            f"topology.changes=none: []; dead spine: {DEAD}; slow link: {SLOW}",
            Axis(("topology.changes",), (("[]",), (DEAD,), (SLOW,)), ("none", "dead spine", "slow link")),
        ),
    ],
)
def test_texts(text, axis):
    assert parse(text) == axis


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("a.b", "expected KEY=V1,V2"),
        ("=1", "expected KEY=V1,V2"),
        ("a.b,a.c=1,2;3", "1 values for 2 keys"),
        ("a.b,a.c=1,2,3", "3 values for 2 keys"),
        ("a.b,a.b=1,2", "a key is empty, or there twice"),
        ("a.b,=1,2", "a key is empty, or there twice"),
        ("a.b,a.c=one: 1,2; 3,4", "some points have a name and others none"),
        ("a.b,a.c=one: 1,2; one: 3,4", "two points have this name"),
        ("a.b=1;", "expected values of each key"),
        ("a.b,a.c=1,", "expected values of each key"),
        ("a.b=[1;2", "brackets that are not closed"),
        ("@nothing", '"nothing" are no profiles of penstock'),
        ("@nothing.toml", "nothing.toml"),
    ],
)
def test_texts_that_are_wrong(text, rule):
    with pytest.raises(SpecError, match=re.escape(rule)):
        parse(text)


def test_python():
    assert of("a.b", [1, "x", True]) == Axis(("a.b",), (("1",), ("x",), ("true",)))
    assert of(("a.b", "a.c"), [("1KB", 2), (3, 4.5)]) == Axis(("a.b", "a.c"), (("1KB", "2"), ("3", "4.5")))
    assert of(("a.b",), {"one": (1,)}).names == ("one",)
    made = of("topology.changes", {"none": [], "dead": [{"time": "1us", "switch": "spine0", "up": False}]})
    assert made.points == (("[]",), ('[{time = "1us", switch = "spine0", up = false}]',)) and made.names == ("none", "dead")
    for key, values in [("a.b", "x"), ("a.b", []), (("a", "b"), [1, 2]), ((), [()]), (3, [1]), ("a", [None])]:
        with pytest.raises(SpecError):
            of(key, values)


def test_names_of_columns():
    assert Axis(("scheme.ecn.k_min", "scheme.ecn.k_max", "run.x"), ()).column == "scheme.ecn.k_min,k_max,run.x"


def test_combinations_are_a_product():
    axes = [parse("a.x,a.y=p: 1,2; q: 3,4"), parse("b.z=5,6")]
    made = list(combinations(axes))
    assert [columns for columns, _ in made] == [{"a.x,y": n, "b.z": z} for n in "pq" for z in "56"]
    assert made[3][1] == {"a.x": "3", "a.y": "4", "b.z": "6"}


def test_keys_that_vary_together(spec, capsys):
    """The command, and the same from Python in the same folder; the values have arrived in the specs."""
    pairs = "ecn.k_min,scheme.ecn.k_max=100KB,400KB;1MB,2MB"
    assert main(["sweep", spec, "--param", pairs, "--workers", "1"]) == 0
    sweep = Sweep.load("runs/mine-sweep")
    assert sweep.parameters == ("ecn.k_min", "scheme.ecn.k_max") and len(sweep) == 2
    values = [(run.summary["scheme_parameters"]["ecn.k_min"], run.summary["scheme_parameters"]["ecn.k_max"]) for _, run in sweep]
    assert values == [("100KB", "400KB"), ("1MB", "2MB")]
    again = ps.sweep(spec, {("ecn.k_min", "scheme.ecn.k_max"): [("100KB", "400KB"), ("1MB", "2MB")]})
    assert again.runs.equals(sweep.runs) and "2 of them finished before" in capsys.readouterr().err


def test_failures_vary(spec):
    sweep = ps.sweep(
        spec,
        {"topology.changes": {"none": [], "dead spine": [{"time": "1us", "switch": "spine0", "up": False}]}},
        seeds=2,
        workers=1,
    )
    assert sweep.runs["topology.changes"].to_list() == ["none", "none", "dead spine", "dead spine"]
    used = {row["topology.changes"]: int(run.ports.filter(node=6)["tx_packets"].sum()) for row, run in sweep if row["seed"] == 1}
    assert used["none"] > 3 * used["dead spine"]  # spine0 sends nothing after 1 us
    assert sweep.where(changes="none").runs.height == 2


def test_one_value_of_a_change(spec):
    Path("mine.toml").write_text(SPEC.replace("[scheme]", f"changes = {SLOW}\n[scheme]"))
    loaded = load_spec(spec, sets=["topology.changes.0.rate=20Gbps"])
    assert [round(8e12 / change.ps_per_byte) for change in loaded.build_topology().changes] == [20_000_000_000]
    for key, rule in [
        ("topology.changes.1.rate=1Gbps", "topology.changes has 1 tables, numbered from 0"),
        ("topology.changes.0=1", "names one of 1 tables as a whole"),
        ("topology.changes.x.rate=1Gbps", "topology.changes has 1 tables"),
    ]:
        with pytest.raises(SpecError, match=re.escape(rule)):
            load_spec(spec, sets=[key])


def test_profiles(spec):
    for path in PROFILES.glob("*.toml"):
        axis = profiles(path.stem)
        made = [load_spec(spec, sets=[f"{k}={v}" for k, v in zip(axis.keys, point)]) for point in axis.points]
        assert len({each.to_toml() for each in made}) == len(axis.names) > 1
        assert path.read_text().count("source = ") == len(axis.names)
    Path("own.toml").write_text('keys = ["run.seed"]\n[[point]]\nname = "a"\nvalues = [1]\n')
    assert parse("@own.toml") == Axis(("run.seed",), (("1",),), ("a",))
    for text in ("x", "keys = 1", 'keys = ["a"]\n[[point]]\nname = "a"', 'keys = ["a"]\npoint = 1'):
        Path("bad.toml").write_text(text)
        with pytest.raises(SpecError, match="is no file of profiles"):
            parse("@bad.toml")


def test_keys_given_twice(spec, capsys):
    for more in (["--param", "ecn.k_min=1KB"], ["--set", "ecn.k_min=1KB"]):
        assert main(["sweep", spec, "--param", "ecn.k_min,ecn.k_max=1KB,2KB;3KB,4KB", *more]) == 2
    assert "is given twice" in capsys.readouterr().err


def test_schemes_are_named_as_run_names_them(tmp_path, monkeypatch, capsys):
    """--scheme, as often as there are schemes, is --param scheme=..., and not both are given."""
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(SPEC)
    assert main(["sweep", "mine.toml", "--scheme", "bfc", "--scheme", "hpcc", "--dry-run"]) == 0
    listed = capsys.readouterr().out
    assert main(["sweep", "mine.toml", "--param", "scheme=bfc,hpcc", "--dry-run"]) == 0
    assert capsys.readouterr().out == listed and "2 runs" in listed
    assert main(["sweep", "mine.toml", "--scheme", "bfc", "--param", "scheme=hpcc", "--dry-run"]) == 2
    assert "scheme" in capsys.readouterr().err
