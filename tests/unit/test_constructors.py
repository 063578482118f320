"""Constructors of schemes have signatures: at run time, and in the stub that editors and type checkers read."""

import ast
import inspect
from pathlib import Path

import pytest

import penstock_net as ps
from penstock_net import composition
from penstock_net.composition.signatures import included, stub

STUB = Path(composition.__file__).with_name("constructors.pyi")


def test_the_stub_is_up_to_date():
    assert STUB.read_text() == stub(composition.available()), "run: setup.py build_ext --inplace"


@pytest.mark.parametrize("title, name", composition.classes().items())
def test_the_stub_has_every_parameter_with_its_default(title, name):
    function = next(node for node in ast.parse(STUB.read_text()).body if isinstance(node, ast.FunctionDef) and node.name == title)
    in_stub = {a.arg: ast.literal_eval(d) for a, d in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)}
    at_run_time = {key: p.default for key, p in inspect.signature(getattr(ps, title)).parameters.items()}
    assert in_stub == at_run_time
    assert set(composition.available()[name].parameters) <= set(in_stub)
    documented = ast.get_docstring(function)
    assert all(f"    {key} (" in documented for key in in_stub)


@pytest.mark.parametrize("title, name", composition.classes().items())
def test_defaults_are_what_a_scheme_has_without_arguments(title, name):
    made = getattr(ps, title)
    defaults = {key: p.default for key, p in inspect.signature(made).parameters.items()}
    explicit = made(**defaults)
    assert {part: explicit.values(part) for part in explicit.parts} == {part: made().values(part) for part in made().parts}
    assert set(explicit.parts) == {name, *included(name, composition.available())}


def test_annotations_name_choices_and_units():
    parameters = inspect.signature(ps.HPCC).parameters
    assert parameters["reaction"].annotation == "Literal['hpcc', 'per_ack', 'per_rtt']"
    assert (parameters["eta"].annotation, parameters["w_ai"].annotation) == ("float", "str | int | float")
    assert "eta (number 0.01..1, default 0.95): target utilisation" in ps.HPCC.__doc__
