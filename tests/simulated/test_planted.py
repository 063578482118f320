"""The table of mistakes that tools/planted.py puts into the switch, and the page that says what finds them."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import mistakes as patches
import pytest

ROOT = pathlib.Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("planted", ROOT / "tools/planted.py")
planted = importlib.util.module_from_spec(SPEC)
sys.modules["planted"] = planted
SPEC.loader.exec_module(planted)


def test_each_mistake_is_one_text_of_its_file():
    """`mistakes` ends otherwise, which while this file is imported would end all tests; many are where nothing can be patched."""
    known = planted.mistakes()
    compiled = [each for each in known if each.file and (ROOT / each.path).with_suffix(".pxd").exists()]
    assert sum(bool(each.named) for each in known) >= 25
    assert len(compiled) >= 50
    assert {each.name for each in known if each.patch} <= patches.MISTAKES.keys()


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"before": "no such text"}, "one: its text is 0 times in penstock_net/vswitch/memory/rings.py"),
        ({"before": "return"}, "one: its text is .* times"),
        ({"after": "def push(view, end, word):"}, "one: its text is 1 times"),
        ({"run": "three"}, "one: it needs a part, a run"),
        ({"patch": "mistakes"}, "one: it needs a part, a run"),
    ],
)
def test_a_row_that_is_wrong_is_named(tmp_path, changed, said):
    row = {"name": "one", "part": "memory", "file": "memory/rings.py", "before": "def push(view, end, word):", "after": ""}
    lines = [f'{key} = "{value}"' for key, value in {**row, **changed}.items()]
    (tmp_path / "table.toml").write_text("\n".join(["[[mistake]]", *lines]))
    with pytest.raises(SystemExit, match=said):
        planted.mistakes(tmp_path / "table.toml")


def test_a_row_of_the_page_is_one_of_the_table():
    known, lines = {each.name: each for each in planted.mistakes()}, planted.rows_of_page(planted.PAGE.read_text())
    assert lines.keys() <= known.keys()
    assert len(lines) >= 60
    for name, line in lines.items():
        assert f" | `{known[name].place}` | " in line
        assert " | not in " in line or not known[name].missed, name


def test_the_page_keeps_what_was_not_run_again():
    one, two, gone = (planted.Mistake(name, "edges", file="attach/edge.py") for name in ("one", "two", "gone"))
    empty = f"head\n{planted.BEGIN}{planted.END}tail\n"
    rows = [planted.Row(each, 3, 4, "a law\nmore", 0.5) for each in (one, two, gone)]
    before = planted.page(empty, [one, two, gone], rows)
    after = planted.page(before, [one, two], [planted.Row(one._replace(missed="a reason"), None, 9, "all laws have held", 60.0)])
    assert after.startswith("head\n") and after.endswith("tail\n")
    assert planted.rows_of_page(after) == {
        "one": "| one | `attach/edge.py` | not in 9 seeds | a reason |\n",
        "two": "| two | `attach/edge.py` | seed 3 | a law |\n",
    }
    assert planted.page(after, [one, two], []) == after


@pytest.mark.real_time
def test_a_mistake_is_put_in_found_and_undone(tmp_path):
    """In a process of its own, as builds change what a process has; the second one is found if the first one is undone."""
    names = ["eventfd of a port", "keeper's thread goes on"]
    command = [sys.executable, ROOT / "tools/planted.py", "--seconds", "20", *names]
    said = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "TMPDIR": str(tmp_path)}).stdout
    assert [any(name in line and ": seed " in line for line in said.splitlines()) for name in names] == [True, True], said
    assert not any(tmp_path.iterdir())
