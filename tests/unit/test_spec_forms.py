"""A parameter of a scheme can be written in several forms: --set replaces all of them, and a file has one of them."""

from pathlib import Path

import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st

import penstock_net as ps
from penstock_net.cli import main
from penstock_net.composition import available, convert, parse, places
from penstock_net.errors import SpecError
from penstock_net.spec import parse_spec
from penstock_net.sweeps.axes import Axis
from penstock_net.sweeps.points import points_of

BASE = '[run]\nduration = "1ms"\n[topology]\nkind = "star"\n[workload]\nkind = "permutation"\nbytes = "1KB"\n[scheme]\n'
EXAMPLE = Path(__file__).parents[2] / "examples/delay.py"
VALUES = (True, False, 1, 2, 3, 0.25, 0.5, 20, 2000, "7us", "9us", "2ms", "7KB", "90KB", "3MB", "7Gbps", "200Gbps", [1], ["1KB"])


def names() -> list[str]:
    """Every scheme, every preset, and every scheme with pfc in a composition."""
    found = available()
    presets = [f"{name}:{preset}" for name, one in found.items() for preset in one.presets if preset != "default"]
    return [*found, *presets, *(f"{name}+pfc" for name in found if name not in ("pfc", "pfc_tagged"))]


def composed(name: str) -> dict[str, object]:
    return parse(name, {"unusual": True}).parameters()


def is_bound(name: str, full: str) -> bool:
    """Whether another parameter leaves this one a single value: no notices apart, a single priority."""
    if full in ("pfc.lossless", "pfc.storm_priorities"):
        return True
    return full == "dcqcn.cnp_delay" and not composed(name)["dcqcn.cnp_interval"]


PARAMETERS = [(name, full) for name in names() for full in composed(name) if not is_bound(name, full)]


def other_value(name: str, full: str) -> object:
    """A value of a parameter that is not the present one."""
    part, _, parameter = full.rpartition(".")
    kind = available()[part].parameters[parameter][0]
    now = convert(full, kind, composed(name)[full])
    for value in (*VALUES, *kind.split()[1:]):
        try:
            if convert(full, kind, value) != now and parse(name, {"unusual": True, full: value}):
                return value
        except SpecError:
            pass
    raise AssertionError(f"{full}: no other value")


def written(value: object) -> str:
    return (
        str(value).lower()
        if isinstance(value, bool)
        else f'"{value}"'
        if isinstance(value, str)
        else str(value).replace("'", '"')
    )


def forms(name: str, full: str) -> list[str]:
    """The keys that mean a parameter."""
    parameter = full.rpartition(".")[2]
    plain = [parameter] if places(name, {parameter: 0}).get(parameter) == full else []
    return [*plain, full, f'"{full}"']


@given(choice=st.sampled_from(PARAMETERS), data=st.data())
@examples(60)
def test_set_wins_over_every_form_of_a_parameter(choice, data):
    name, full = choice
    part, _, parameter = full.rpartition(".")
    now, value = composed(name)[full], other_value(name, full)
    in_file = data.draw(st.sampled_from([*forms(name, full), f"[scheme.{part}]"]))
    line = f"{in_file}\n{parameter} = {written(now)}" if in_file.startswith("[") else f"{in_file} = {written(now)}"
    key = data.draw(st.sampled_from([form for form in forms(name, full) if '"' not in form]))
    if f"scheme.{key}".count(".") == 1 or name.split(":")[0] != part:
        key = data.draw(st.sampled_from([key, f"0.{key}"]))
    text = f'{BASE}name = "{name}"\nunusual = true\n{line}\n'
    unchanged = parse_spec(text)
    changed = parse_spec(text, sets=[f"scheme.{key}={written(value)}"])
    for spec, expected in ((unchanged, now), (changed, value)):
        assert spec.build_scheme(spec.schemes[0]).parameters()[full] == expected
        (table,) = spec.complete().schemes
        assert table.extra[part][parameter] == expected
        assert parse_spec(spec.to_toml()).build_scheme(spec.schemes[0]).parameters()[full] == expected


@given(choice=st.sampled_from(PARAMETERS), data=st.data())
@examples(50)
def test_two_forms_in_a_file_are_refused_with_both_lines(choice, data):
    name, full = choice
    one, two = data.draw(st.lists(st.sampled_from(forms(name, full)), min_size=2, max_size=2, unique=True))
    value = written(composed(name)[full])
    with pytest.raises(SpecError) as caught:
        parse_spec(f'{BASE}name = "{name}"\nunusual = true\n{one} = {value}\n{two} = {value}\n', name="my.toml")
    assert "is the same parameter as" in str(caught.value) and "my.toml:11" in str(caught.value)


@pytest.mark.parametrize("inside", ["pfc.alpha = 0.11", "alpha = 0.11", "[scheme.pfc]\nalpha = 0.11", '"pfc.alpha" = 0.11'])
@pytest.mark.parametrize("key", ["pfc.alpha", "alpha", "0.alpha", "0.pfc.alpha"])
def test_the_command_shows_and_sweeps_the_value_that_was_set(inside, key, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("my.toml").write_text(f'{BASE}name = "pfc"\n{inside}\n')
    assert main(["run", "my.toml", "--dry-run", "--set", f"scheme.{key}=0.9"]) == 0
    out = capsys.readouterr().out
    assert "alpha = 0.9" in out and "0.11" not in out


def test_a_sweep_over_a_parameter_that_the_file_writes_in_another_form(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("my.toml").write_text(f'{BASE}name = "pfc"\npfc.alpha = 0.11\n')
    made = [parse_spec(point.toml) for point in points_of("my.toml", [Axis(("scheme.pfc.alpha",), (("0.01",), ("4",)))], [])]
    assert [spec.build_scheme(spec.schemes[0]).parameters()["pfc.alpha"] for spec in made] == [0.01, 4]
    for other in ("--set", "--param"):
        assert main(["sweep", "my.toml", "--param", "scheme.pfc.alpha=0.01,4", other, "scheme.0.alpha=1", "--out", "sw"]) == 2


@pytest.mark.parametrize(
    "sets, says",
    [
        (["scheme.alpha=1", "scheme.0.pfc.alpha=2"], "--set scheme.0.pfc.alpha=2: is the same key as in --set scheme.alpha=1"),
        (["workload.bytes=1", "workload.0.bytes=2"], "--set workload.0.bytes=2: is the same key as in --set workload.bytes=1"),
        (["scheme.0.pfc={alpha=2}"], "scheme.alpha (my.toml:10); keep one of the two"),
        (["scheme.pfc.x=2"], "no such parameter"),
        (["scheme.0.alpha.x=2"], "scheme.0.alpha = 0.5 (my.toml:10) is not a table"),
        (["scheme.name=dcqcn", "host.ack_priority=control"], 'the scheme "dcqcn" (my.toml:10) sets it to "data"'),
    ],
)
def test_sets_that_contradict_the_file_or_each_other_name_both_places(sets, says):
    text = f'{BASE}name = "pfc"\nalpha = 0.5\n' if "dcqcn" not in sets[0] else f'{BASE}name = "pfc"\nhost.ack_priority = "data"\n'
    with pytest.raises(SpecError) as caught:
        parse_spec(text, name="my.toml", sets=sets)
    assert says in str(caught.value)
    assert parse_spec(text, sets=["run.seed=1", "run.seed=2"]).run.seed == 2


def test_a_set_before_the_name_of_the_scheme_means_the_new_scheme():
    spec = parse_spec(f'{BASE}name = "pfc"\nalpha = 0.5\n', sets=["scheme.0.pfc.alpha=2", "scheme.name=dcqcn"])
    assert spec.build_scheme(spec.schemes[0]).parameters()["pfc.alpha"] == 2


def test_hosts_are_as_the_table_says_or_as_the_scheme_does_never_silently_otherwise():
    """The preset sets ack_priority = "data"."""
    with_host = BASE.replace("[run]", '[host]\nack_priority = "control"\n[run]')
    with pytest.raises(SpecError) as caught:
        parse_spec(with_host + 'name = "hpcc:ns3"\n', name="my.toml")
    assert 'my.toml:2: host.ack_priority = "control": the scheme "hpcc:ns3" (my.toml:10) sets it to "data"' in str(caught.value)
    spec = parse_spec(BASE + 'name = "hpcc:ns3"\n')
    assert spec.complete().schemes[0].extra["host"] == {"ack_priority": "data", "pacing": "from start"}
    assert 'ack_priority = "control"' not in spec.to_toml() and parse_spec(spec.to_toml()) == spec
    own = parse_spec(BASE + 'name = "hpcc:ns3"\nhost.ack_priority = "control"\n')
    assert own.build_scheme(own.schemes[0]).host == {"ack_priority": "control", "pacing": "from start"}
    equal = parse_spec(BASE.replace("[run]", '[host]\nrto = "45000ns"\n[run]') + 'name = "pfabric"\n')
    assert equal.host.rto_ps == 45_000_000
    for bad in ('host.ack = "x"', "host.x = 1"):
        with pytest.raises(SpecError, match="host"):
            parse_spec(BASE + f'name = "bfc"\n{bad}\n')


def test_schemes_chosen_twice_have_parameters_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = parse_spec(BASE + 'name = "dcqcn"\npfc.alpha = 0.1\n', schemes=["dcqcn=a", "dcqcn=b"], sets=["scheme.a.pfc.alpha=9"])
    assert [table.extra["pfc"]["alpha"] for table in spec.schemes] == [9, 0.1]
    (tmp_path / "mine.py").write_text(EXAMPLE.read_text())
    spec = parse_spec(BASE + 'name = "./mine.py"\nbeta = 0.5\n', base=tmp_path, schemes=["./mine.py"])
    assert spec.schemes[0].parameters == {"beta": 0.5}


def test_in_python():
    assert parse("pfc", {"pfc.alpha": 2}).set_by_user == parse("pfc", {"alpha": 2}).set_by_user == {"pfc.alpha": 2}
    assert parse(ps.PFC(alpha=1), {"pfc.alpha": 2}).parameters()["pfc.alpha"] == 2
    made = ps.HPCC(alpha=0.5, pfc=True)
    assert parse(made.name, made.set_by_user) == made
    without = parse("hpcc", {"pfc": False})
    assert parse(without.name, without.set_by_user) == without
    with pytest.raises(SpecError, match=r"pfc.alpha = 2: is the same parameter as alpha; keep one"):
        parse("pfc", {"alpha": 1, "pfc.alpha": 2})
