"""Checks of what a user hands in: every value is taken or refused by a SpecError that is data, never by a traceback."""

import datetime
import math
import pickle
import tomllib

import numpy as np
import pytest
from drawn import examples
from hypothesis import example, given
from hypothesis import strategies as st

from penstock_net import inputs
from penstock_net.errors import ABSENT, PenstockError, SchemeError, SpecError, nearest
from penstock_net.spec import parse_spec
from penstock_net.units import format_size, format_time, parse_rate, parse_time, ps_per_byte

NUMBERS = st.integers() | st.integers(-(10**400), 10**400) | st.floats()
TEXTS = st.text(max_size=20) | st.from_regex(r"[+-]?\d{1,5}(\.\d{1,5})?(e[+-]?\d{1,9})?\s?(us|MB|Gbps|B|s)?", fullmatch=True)
LEAVES = st.booleans() | NUMBERS | TEXTS | st.dates() | st.datetimes() | st.times()
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=6
)
HELPERS = {
    "whole": lambda value: inputs.whole(value, "a.b", -5, 100),
    "whole above": lambda value: inputs.whole(value, "a.b", 0),
    "real": lambda value: inputs.real(value, "a.b", 0, 1),
    "positive": lambda value: inputs.positive(value, "a.b"),
    "boolean": lambda value: inputs.boolean(value, "a.b"),
    "word": lambda value: inputs.one_of(value, "a.b", ["core", "host"]),
    "table": lambda value: inputs.as_table(value, "a.b"),
    "tables": lambda value: inputs.as_tables(value, "a.b"),
    "list": lambda value: list(inputs.elements(value, "a.b", "such as [1]")),
    "path": lambda value: inputs.as_path(value, "a.b", "a file"),
    "time": lambda value: inputs.time_ps(value, "a.b"),
    "size": lambda value: inputs.size_bytes(value, "a.b"),
    "rate": lambda value: parse_rate(value, "a.b"),
    "pace": lambda value: ps_per_byte(value, "a.b"),
}


@pytest.mark.parametrize("helper", HELPERS)
@examples(150)
@given(VALUES)
@example(10**5000)
@example(-(10**400))
@example(math.nan)
@example("1e999999999s")
@example("9" * 5000 + "s")
@example(datetime.date(2022, 1, 1))
@example("a\nb\x85c\u2028d")
@example({"\n": [10**5000]})
def test_any_value_is_taken_or_refused_with_its_fields(helper, value):
    try:
        HELPERS[helper](value)
    except SpecError as error:
        assert error.path.startswith("a.b") and error.rule and error.place == ""
        assert error.value is value or error.value is ABSENT or error.path != "a.b" or error.value == value
        assert len(str(error).splitlines()) == 1 and len(str(error)) < 500
        assert error.rule in str(error) and error.remedy in str(error)


@given(VALUES)
def test_tables_know_their_keys(value):
    try:
        inputs.known_keys(inputs.as_table(value, "a"), ["queues", "rate"], "a")
    except SpecError as error:
        assert error.path == "a" or error.rule == "unknown key"


@pytest.mark.parametrize(
    "call, given_, path, rule, remedy",
    [
        (lambda v: inputs.whole(v, "x", 1, 8), 9, "x", "must be between 1 and 8", "nearest: 8"),
        (lambda v: inputs.whole(v, "x", 1, 8), -1, "x", "must be between 1 and 8", "nearest: 1"),
        (lambda v: inputs.whole(v, "x", 1), 0, "x", "must be at least 1", ""),
        (lambda v: inputs.whole(v, "x", 1), True, "x", "must be a whole number", ""),
        (lambda v: inputs.real(v, "x", high=2), 2.5, "x", "must be at most 2", ""),
        (lambda v: inputs.real(v, "x"), math.inf, "x", "must be a finite number", ""),
        (lambda v: inputs.real(v, "x"), 10**400, "x", "must be a finite number", ""),
        (lambda v: inputs.positive(v, "x"), 0.0, "x", "must be greater than zero", ""),
        (lambda v: inputs.boolean(v, "x"), 1, "x", "must be true or false", ""),
        (lambda v: inputs.size_bytes(v, "x"), "2e9GB", "x", "must be at most 1000000000GB", ""),
        (lambda v: inputs.one_of(v, "x", ("core", "host")), "hots", "x", "must be one of core, host", 'did you mean "host"?'),
        (lambda v: inputs.as_table(v, "x"), [], "x", "must be a table", ""),
        (lambda v: inputs.as_tables(v, "x"), {}, "x", "must be a list of tables", ""),
        (lambda v: inputs.known_keys(v, ["queues"], "x"), {"queus": 1}, "x.queus", "unknown key", 'did you mean "queues"?'),
    ],
)
def test_what_a_refusal_says(call, given_, path, rule, remedy):
    with pytest.raises(SpecError) as caught:
        call(given_)
    error = caught.value
    assert (error.path, error.rule, error.remedy) == (path, rule, remedy)
    assert error.value is ABSENT or error.value == given_


def test_numbers_of_other_types_are_accepted():
    assert inputs.whole(np.int64(3), "x", 0) == inputs.whole(3.0, "x", 0) == 3 and type(inputs.whole(3.0, "x", 0)) is int
    assert inputs.real(np.float32(0.5), "x") == inputs.real(np.int8(1), "x") / 2 == 0.5
    assert inputs.boolean(np.bool_(True), "x") is True


def test_the_text_of_an_error_is_made_of_its_fields():
    assert str(SpecError("no such file")) == "no such file"
    assert str(SpecError("is missing", path="run.duration")) == "run.duration: is missing"
    assert str(SpecError("bad", path="a", value="x", remedy="ok", place="f:3")) == 'f:3: a = "x": bad; ok'
    assert [str(SpecError("r", path="a", value=v)) for v in (True, None, 0.5)] == ["a = true: r", "a = None: r", "a = 0.5: r"]
    table = {"a b": [1, "x", False], "loss": {"c": 0.5}}
    assert str(SpecError("r", path="a", value=table)) == 'a = {"a b" = [1, "x", false], loss = {c = 0.5}}: r'
    assert str(SpecError("r", path="a", value="x" * 500)) == f'a = "{"x" * 80}": r'


def test_an_error_is_completed_on_its_way_out():
    with pytest.raises(SpecError) as caught, inputs.inside("workload.0"), inputs.inside("flows"):
        inputs.whole("3", "src", 0)
    assert caught.value.path == "workload.0.flows.src" and caught.value.place == ""
    with pytest.raises(SchemeError) as caught, inputs.inside("scheme"), inputs.inside(place="f.csv:3"):
        raise SchemeError("bad", path="src")
    assert (caught.value.path, caught.value.place) == ("src", "f.csv:3")  # the key is of the file, not of the scheme


@pytest.mark.parametrize("error", [SpecError("r"), SpecError("r", path="p", value=[1], remedy="m", place="l"), SchemeError("r")])
def test_an_error_survives_a_process_boundary(error):
    """A sweep's processes hand theirs over."""
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and vars(again) == vars(error) and str(again) == str(error)
    assert isinstance(again, PenstockError) and again.exit_status == 2


def test_remedies():
    assert nearest("bfcc", ["bfc", "hpcc"]) == 'did you mean "bfc"?'
    assert nearest("x", ["bfc", "hpcc"]) == "known: bfc, hpcc"
    assert nearest("x", []) == ""


@pytest.mark.parametrize("text", ["x = " + "9" * 5000, "x = " + "[" * 5000, "x = 0x" + "f" * 5000])
def test_toml_of_absurd_size_is_refused(text):
    with pytest.raises(SpecError) as caught:
        parse_spec(text, name="my.toml")
    assert len(str(caught.value).splitlines()) <= 2


@examples(100)
@given(st.sampled_from(["run.seed", "run.duration", "run.drain", "topology.hosts", "workload.0.load", "measure.sample"]), VALUES)
def test_any_value_of_a_spec_is_taken_or_refused_with_its_key(key, value):
    section, _, rest = key.partition(".")
    content = tomllib.loads('[run]\nduration = "1ms"\n[topology]\nkind = "star"\n[[workload]]\nkind = "poisson"\n')
    table = content[section][0] if section == "workload" else content.setdefault(section, {})
    table[rest.rpartition(".")[2]] = value
    try:
        spec = parse_spec(content)
        if section == "topology":
            spec.build_topology()
    except SpecError as error:
        assert error.path.startswith(section) and error.rule and len(str(error).splitlines()) == 1


@pytest.mark.parametrize(
    "text, shown",
    [
        (format_size(999_600, " ", 3), "1 MB"),
        (format_size(10**13), "10000GB"),
        (format_time(999_999_999), "1ms"),
        (format_time(10**19), "10000000s"),
        (format_size(0), "0B"),
    ],
)
def test_numbers_are_shown_in_the_unit_that_fits(text, shown):
    assert text == shown
    assert parse_time("1ms") == 10**9
