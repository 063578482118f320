"""Each test of vswitch/ is of a kind (vswitch/kinds.txt), and CONTRIBUTING.md has the table of these kinds."""

import ast
from pathlib import Path

import kinds

TESTS = Path(__file__).parents[1]
FILES = {path.name: path for path in (TESTS / kinds.FOLDER).glob("test_*.py")}


def names_in(path):
    """Names of functions of a file, tests among them."""
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


def test_each_file_is_of_a_kind():
    whole = {line for line in kinds.read() if "::" not in line}
    assert whole == FILES.keys(), "a line of tests/vswitch/kinds.txt is missing, or too many"


def test_each_test_that_is_named_is_there():
    named = [line.split("::") for line in kinds.read() if "::" in line]
    assert named and not [line for line in named if line[1] not in names_in(FILES[line[0]])]


def test_a_test_is_named_only_if_it_is_of_another_kind_than_its_file():
    known = kinds.read()
    assert not [line for line, kind in known.items() if "::" in line and kind == known[line.partition("::")[0]]]


def test_the_table_is_that_of_the_file():
    assert kinds.table() in (TESTS.parent / "CONTRIBUTING.md").read_text(), "run: python tests/kinds.py --write"
