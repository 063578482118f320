"""The TOML description: what is accepted, what is refused and how, overrides, round trip, hash."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_net.errors import SpecError
from penstock_net.sim.config import HostConfig, Measure
from penstock_net.spec import Spec, load_spec, parse_spec, presets
from penstock_net.spec.toml import write_toml

TEXT = """
[run]
duration = "5ms"
seed = 1
[topology]
kind = "leaf_spine"
hosts = 128
[[scheme]]
name = "bfc"
queues = 32
[[scheme]]
name = "hpcc:ns3"
[[workload]]
kind = "poisson"
load = 0.60
[[workload]]
kind = "incast"
every = "500us"
[measure]
sample = "2us"
[host]
rto = "4ms"
"""

SCHEME = "def on_enqueue(me, node, port, queue, pkt):\n    pkt.ecn = 1\n"


def changed(old: str, new: str) -> str:
    assert old in TEXT
    return TEXT.replace(old, new)


def refused(text: str, **options: object) -> str:
    with pytest.raises(SpecError) as caught:
        parse_spec(text, name="my.toml", **options)
    message = str(caught.value)
    assert len(message.splitlines()) <= 2
    assert caught.value.exit_status == 2
    return message


def test_values_and_defaults():
    spec = parse_spec(TEXT)
    assert spec.duration_ps == 5 * 10**9
    assert spec.run.drain and spec.run.threads == 1 and spec.max_time_ps is None
    assert spec.measure == Measure(sample="2us") and spec.measure.sample_ps == 2_000_000
    assert spec.host == HostConfig() and spec.host.rto_ps == 4 * 10**9
    assert spec.topology.extra == {"hosts": 128}
    assert [s.name for s in spec.schemes] == ["bfc", "hpcc:ns3"]
    assert spec.schemes[0].parameters == {"queues": 32}
    assert spec.labels() == ["bfc", "hpcc-ns3"]
    assert [w.kind for w in spec.workload] == ["poisson", "incast"]


def test_one_scheme_and_one_workload_may_be_plain_tables():
    spec = parse_spec(
        '[run]\nduration = 1\n[topology]\nkind = "star"\n[scheme]\nname = "bfc"\ndqa.queues = 8\n[workload]\nkind = "poisson"\n'
    )
    assert spec.schemes[0].parameters == {"dqa.queues": 8}
    assert spec.duration_ps == 10**12
    assert len(spec.workload) == 1


@pytest.mark.parametrize(
    ("old", "new", "place", "rule"),
    [
        ("duration =", "durration =", "my.toml:3: run.durration", 'unknown key; did you mean "duration"?'),
        ("[topology]", "[topolgy]", "my.toml:5: topolgy", 'did you mean "topology"?'),
        ('"5ms"', '"5 parsec"', 'my.toml:3: run.duration = "5 parsec"', 'unknown unit "parsec"'),
        ('"5ms"', '"5"', 'my.toml:3: run.duration = "5"', "the unit is missing"),
        ('"5ms"', '"-5ms"', 'my.toml:3: run.duration = "-5ms"', "greater than zero"),
        ('"5ms"', '"0ms"', "run.duration", "greater than zero"),
        ('duration = "5ms"', "", "my.toml:2: run.duration", "is missing"),
        ("seed = 1", "seed = -1", "my.toml:4: run.seed = -1", "must be between 0 and"),
        ("seed = 1", "seed = 1.5", "run.seed = 1.5", "whole number"),
        ("seed = 1", "seed = true", "run.seed = true", "whole number"),
        ("seed = 1", "drain = 1", "run.drain = 1", "true or false"),
        ("seed = 1", "threads = 0", "run.threads = 0", "must be between 1 and 1024; nearest: 1"),
        ("seed = 1", 'max_time = "1"', "run.max_time", "unit is missing"),
        ('kind = "leaf_spine"', "", "my.toml:5: topology", "needs a kind"),
        ('kind = "poisson"', "", "workload.0.kind", "is missing"),
        ('kind = "incast"', "", "my.toml:16: workload.1.kind", "is missing"),
        ('name = "bfc"', "name = 3", "my.toml:9: scheme.0.name = 3", "must be a text"),
        ('sample = "2us"', 'sampel = "2us"', "my.toml:20: measure.sampel", 'did you mean "sample"?'),
        ('sample = "2us"', "queues = 1", "measure.queues = 1", "true or false"),
        ('sample = "2us"', 'sample = "-2us"', 'measure.sample = "-2us"', "zero or more"),
        ("[measure]", "[[measure]]", "measure = ", "must be a table, such as [measure]"),
        ('rto = "4ms"', 'ack_priority = "dat"', 'my.toml:22: host.ack_priority = "dat"', 'did you mean "data"?'),
        ('rto = "4ms"', "mtu = 0", "host.mtu = 0", "must be at least 1"),
        ('rto = "4ms"', 'rto = "4"', "host.rto", "unit is missing"),
    ],
)
def test_bad_values_name_place_value_and_rule(old: str, new: str, place: str, rule: str):
    message = refused(changed(old, new))
    assert place in message and rule in message


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("hosts = 128", "hosts = ", "my.toml:7:9"),
        ("[run]", "[run", "my.toml:2:5"),
        ("seed = 1", "seed 1", "my.toml:4:6"),
        ('"5ms"', '"5ms', "my.toml:3"),
        ("[measure]", "[run]", "my.toml:19"),
    ],
)
def test_syntax_errors_name_line_and_column(old: str, new: str, place: str):
    message = refused(changed(old, new))
    assert message.startswith(place) and "not valid TOML" in message


def test_a_file_cut_off():
    assert "my.toml:1:" in refused("x = [1,")


def test_no_workload_no_scheme():
    assert "workload" in refused('[run]\nduration = "1ms"\n[topology]\nkind = "star"\n[scheme]\nname = "bfc"\n')
    assert "at least one" in refused('workload = []\n[run]\nduration = "1ms"\n[topology]\nkind = "star"\n')
    spec = parse_spec('[run]\nduration = "1ms"\n[topology]\nkind = "star"\n[workload]\nkind = "poisson"\n', name="my.toml")
    with pytest.raises(SpecError, match=r"my\.toml: scheme: there is none"):
        _ = spec.schemes


def test_overrides():
    spec = parse_spec(
        TEXT,
        sets=[
            "run.duration=1ms",
            "scheme.0.queues=64",
            "workload.0.load=0.7",
            "topology.hosts=64",
            "workload.incast.every=1ms",
            "measure.queues=true",
            "scheme.bfc.sticky=2.5",
            "workload.0.hosts=[0, 1]",
        ],
    )
    assert spec.duration_ps == 10**9
    assert spec.schemes[0].parameters == {"queues": 64, "sticky": 2.5}
    assert spec.workload[0].extra == {"load": 0.7, "hosts": [0, 1]} and spec.workload[1].extra == {"every": "1ms"}
    assert spec.topology.extra == {"hosts": 64}
    assert spec.measure.queues is True


def test_options_win_over_sets_and_sets_over_the_file():
    spec = parse_spec(TEXT, sets=["run.seed=2"], options={"run.seed": 3, "run.threads": None})
    assert spec.run.seed == 3 and spec.run.threads == 1
    assert parse_spec(TEXT, sets=["run.seed=2"], options={"run.seed": 0}).run.seed == 0


def test_chosen_schemes_keep_their_parameters():
    spec = parse_spec(TEXT, schemes=["dctcp", "bfc"], sets=["scheme.bfc.sticky=3"])
    assert [(s.name, s.parameters) for s in spec.schemes] == [("dctcp", {}), ("bfc", {"queues": 32, "sticky": 3})]
    assert parse_spec(TEXT, schemes=["bfc"], sets=["scheme.queues=3"]).schemes[0].parameters == {"queues": 3}


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ("foo", "expected KEY=VALUE"),
        ("foo=1", 'unknown section "foo"'),
        ("rnu.seed=1", 'did you mean "run"?'),
        ("run=1", "names a whole table"),
        ("scheme.queues=3", "which of the 2 scheme tables?"),
        ("scheme.7.queues=3", "numbered from 0"),
        ("workload.0=3", "names a whole table"),
        ("topology.hosts.x=1", "not a table"),
        ("run.seed=-1", "--set run.seed=-1: run.seed = -1: must be between 0 and"),
        ("run.sed=1", 'did you mean "seed"?'),
        ("run.duration=5 parsec", 'unknown unit "parsec"'),
        ("measure.sample=x", "--set measure.sample=x"),
        (".=1", "expected"),
        ("scheme.name=hpcc", "which of"),
    ],
)
def test_bad_overrides(given: str, rule: str):
    message = refused(TEXT, sets=[given])
    assert "--set " + given in message or rule.startswith("did you")
    assert rule in message


ONE = """
[run]
duration = "1ms"
[topology]
kind = "star"
[scheme]
name = "bfc"
[workload]
kind = "poisson"
load = 0.4
"""


@pytest.mark.parametrize(("given", "head"), [("workload.1.load=0.5", "workload"), ("scheme.1.queues=3", "scheme")])
def test_a_number_beyond_the_only_table_is_refused(given: str, head: str):
    assert f"{head} has 1 tables, numbered from 0" in refused(ONE, sets=[given])
    assert parse_spec(ONE, sets=[given.replace(".1.", ".0.")]).workload[0].kind == "poisson"


def test_a_bad_option_is_named_as_such():
    assert refused(TEXT, options={"run.seed": -3}).startswith("--seed -3: run.seed = -3")
    assert "give one of the two" in refused(TEXT, schemes=["bfc"], sets=["scheme.name=hpcc"])


def test_the_most_exact_option_is_named():
    """--scheme says which scheme it is, --set the value that is wrong."""
    assert refused(ONE, schemes=["hpcc"], sets=["scheme.eta=7"]).startswith("--set scheme.eta=7: scheme.eta = 7: must be")


@pytest.mark.parametrize(
    ("old", "new", "build", "path", "line"),
    [
        ("hosts = 128", "hosts = 127", "topology", "topology.hosts", 7),
        ("hosts = 128", "host = 128", "topology", "topology.host", 7),
        ('"leaf_spine"', '"leafspine"', "topology", "topology.kind", 6),
        ("hosts = 128", "changes = [{time = 1}]", "topology", "topology.changes.0.a", 7),
        ("queues = 32", "queus = 32", "scheme", "scheme.0.queus", 10),
        ("queues = 32", "queues = -1", "scheme", "scheme.0.queues", 10),
        ("hpcc:ns3", "hpcc:ns4", "scheme", "scheme.1.name", 12),
        ("load = 0.60", "load = 0", "flows", "workload.0.load", 15),
        ('every = "500us"', 'evry = "500us"', "flows", "workload.1.evry", 18),
        ('"incast"', '"incst"', "flows", "workload.1.kind", 17),
    ],
)
def test_errors_of_the_builders_name_the_place(old: str, new: str, build: str, path: str, line: int):
    """The key is data, and the line of the file is found by it."""
    with pytest.raises(SpecError) as caught:
        spec = parse_spec(changed(old, new), name="my.toml")
        if build == "scheme":
            for table in spec.schemes:
                spec.build_scheme(table)
        topo = spec.build_topology()
        spec.build_flows(topo)
    assert caught.value.path == path and caught.value.place == f"my.toml:{line}"
    assert str(caught.value).startswith(f"my.toml:{line}: {path}")


def test_labels_are_distinct_and_fit_for_folders(tmp_path: Path):
    twice = changed('name = "hpcc:ns3"', 'name = "bfc"\nqueues = 128')
    assert parse_spec(twice).labels() == ["bfc,queues=32", "bfc,queues=128"]
    assert "both called" in refused(changed('name = "hpcc:ns3"', 'name = "bfc"\nqueues = 32'))
    assert parse_spec(changed('name = "hpcc:ns3"', 'name = "bfc"\nlabel = "mine"')).labels() == ["bfc", "mine"]
    assert "label" in refused(changed('name = "hpcc:ns3"', 'name = "hpcc"\nlabel = "a/b"'))
    for bad in ("..", ".", " "):
        assert "label" in refused(changed('name = "hpcc:ns3"', f'name = "hpcc"\nlabel = "{bad}"'))
    (tmp_path / "my_scheme.py").write_text(SCHEME)
    assert parse_spec(changed('"hpcc:ns3"', '"dcqcn+./my_scheme.py"'), base=tmp_path).labels()[1] == "dcqcn+my_scheme"


def test_file_names_become_absolute(tmp_path: Path):
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "mine.py").write_text(SCHEME)
    path = folder / "my.toml"
    path.write_text(
        changed('kind = "incast"\nevery = "500us"', 'kind = "flows"\nfile = "flows.csv"').replace("hpcc:ns3", "./mine.py")
    )
    spec = load_spec(path)
    assert spec.workload[1].extra["file"] == str(folder / "flows.csv")
    assert spec.schemes[1].name == str(folder / "mine.py")
    assert spec.labels()[1] == "mine" and spec.name == "my"


def test_round_trip():
    spec = parse_spec(TEXT, sets=['workload.0.class="a\\"b\\\\ü"', "workload.0.hosts=[1, 2.5]"])
    again = parse_spec(spec.to_toml())
    assert again == spec and again.to_toml() == spec.to_toml() and again.key() == spec.key()
    assert "None" not in spec.to_toml()


VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(st.characters(codec="utf-8"), min_size=1), VALUES, max_size=4))
def test_any_content_survives_toml(table: dict[str, object]):
    import tomllib

    assert tomllib.loads(write_toml({"table": table})) == {"table": table}


@given(st.text(max_size=200))
def test_any_text_is_accepted_or_refused_politely(text: str):
    try:
        parse_spec(text)
    except SpecError as error:
        assert len(str(error).splitlines()) <= 2


@given(st.text(max_size=40))
def test_any_override_is_accepted_or_refused_politely(text: str):
    for given_text in (text, f"run.{text}", f"scheme.{text}", f"workload.0.load={text}", f"run.duration={text}"):
        with contextlib.suppress(SpecError):
            parse_spec(TEXT, sets=[given_text])


def test_the_key_follows_the_content(tmp_path: Path):
    spec = parse_spec(TEXT)
    same = [
        parse_spec(changed('"5ms"', '"5000us"')),
        parse_spec(TEXT, options={"run.threads": 8}),
        parse_spec(changed('name = "bfc"', 'name = "bfc"\nlabel = "other"')),
    ]
    other = [
        parse_spec(TEXT, options={"run.seed": 2}),
        parse_spec(TEXT, sets=["scheme.0.queues=33"]),
        parse_spec(TEXT, sets=["host.mtu=1500"]),
        parse_spec(TEXT, sets=["measure.pauses=true"]),
        parse_spec(TEXT, sets=["run.drain=false"]),
        parse_spec(TEXT, sets=["run.control_loss=0.01"]),
        spec.only(spec.scheme[0]),
    ]
    assert {s.key() for s in same} == {spec.key()}
    assert len({s.key() for s in [spec, *other]}) == len(other) + 1
    file = tmp_path / "flows.csv"
    file.write_text("a")
    text = changed('kind = "incast"\nevery = "500us"', f'kind = "flows"\nfile = "{file}"')
    before = parse_spec(text).key()
    file.write_text("b")
    assert parse_spec(text).key() != before


def test_loading(tmp_path: Path):
    for source, rule in (
        ("nope.toml", "no such file"),
        ("quikstart", 'did you mean "quickstart"?'),
        (str(tmp_path), "without a spec.toml"),
        ("a/b", "no such file"),
    ):
        with pytest.raises(SpecError, match=rule.replace("?", r"\?")):
            load_spec(source)
    binary = tmp_path / "x.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match="UTF-8"):
        load_spec(binary)
    run = tmp_path / "bfc"
    run.mkdir()
    (run / "spec.toml").write_text(TEXT)
    assert load_spec(run).name == "bfc"


@pytest.mark.parametrize("name", presets())
def test_presets_load_and_survive_a_round_trip(name: str):
    spec = load_spec(name)
    assert isinstance(spec, Spec) and spec.name == name
    assert parse_spec(spec.to_toml()) == spec


def test_there_are_presets():
    assert "quickstart" in presets()
    assert [s.name for s in load_spec("quickstart").schemes] == ["bfc", "hpcc", "dcqcn:bfc", "ideal_fq"]


def test_a_list_of_flows_may_wait_and_compute():
    """`after` and `gap` in a spec, through its own text."""
    text = """
        run = { duration = "1ms" }
        topology = { kind = "star", hosts = 3 }
        [[workload]]
        kind = "list"
        flows = [[0, 1, "1KB", "1us"], { src = 1, dst = 2, bytes = "2KB", after = [0], gap = "5us" }]
    """
    spec = parse_spec(parse_spec(text).to_toml())
    flows = spec.build_flows(spec.build_topology())
    (child,), (parent,) = flows.edges()
    assert flows.gap_ps[child] == 5 * 10**6 and flows.dst[parent] == flows.src[child] == 1


def test_two_equal_schemes_with_labels_of_their_own():
    spec = load_spec("quickstart", schemes=["bfc=few", "bfc=many"], sets=["scheme.0.queues=16", "scheme.many.queues=64"])
    assert spec.labels() == ["few", "many"]
    assert [table.parameters["queues"] for table in spec.schemes] == [16, 64]
    with pytest.raises(SpecError, match="label"):
        load_spec("quickstart", schemes=["bfc=a/b"])
    with pytest.raises(SpecError, match="label"):
        load_spec("quickstart", schemes=["bfc="])


def test_loss_of_control_frames_reaches_the_simulator_and_the_hash():
    table = {
        "run": {"duration": "10us", "control_loss": 0.5},
        "topology": {"kind": "star", "hosts": 6},
        "scheme": {"name": "bfc"},
        "workload": {"kind": "list", "flows": [[i, 5, "100KB"] for i in range(5)]},
    }
    spec, without = parse_spec(table), parse_spec({**table, "run": {"duration": "10us"}})
    assert spec.key() != without.key() and "control_loss" not in without.to_toml()
    assert parse_spec(spec.to_toml()) == spec
    topo = spec.build_topology()
    drops = [each.simulate(each.schemes[0], topo, each.build_flows(topo)).summary["drops"] for each in (without, spec)]
    assert drops[0] == 0 < drops[1]
    assert "run.control_loss = 1: must be a probability" in refused(changed("seed = 1", "control_loss = 1"))
