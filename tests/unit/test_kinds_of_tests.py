"""Each test of vswitch/ is of a kind (vswitch/kinds.txt), and CONTRIBUTING.md has the table of these kinds.

What a computed test may not do, and which cases are tried again.
"""

import ast
import sys
from pathlib import Path

import kinds
import pytest

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


def test_a_computed_test_may_start_some_programs():
    """Python 3.13 says twice that one is started, if its whole path is given."""
    sys.audit("os.posix_spawn", "/usr/bin/gcc", ["gcc"], {})
    with pytest.raises(BaseException, match="a test of real time"):
        sys.audit("os.posix_spawn", "/usr/bin/true", ["true"], {})


class Case:
    """Of a test of which `./test` has one in two cases."""

    path, originalname = TESTS / "unit/test_bad_inputs.py", "test_files_without_end"

    def __init__(self, value):
        self.name, self.callspec = f"{self.originalname}[{value}]", self
        self.params = {"value": value}


def test_each_case_that_has_failed_is_tried_again(request):
    """Of two that had failed, one was left out of the last try, which said that all was well."""
    conftest = request.config.pluginmanager.getplugin(str(TESTS / "conftest.py"))
    cases = [Case(value) for value in range(4)]
    assert conftest.thorough_cases(cases, failed=False) == cases[2:]
    assert conftest.thorough_cases(cases, failed=True) == []
