"""Which runs are the same: comments, colours and what only shows results change no key; code that simulates does."""

import ast
import json
import os
import shutil
import subprocess
import sys

import pytest

from penstock_net import identity
from penstock_net.built import changed
from penstock_net.results.run import Run
from penstock_net.sources import BUILT, code_digest, code_of, digest

HERE = identity.PACKAGE
SPEC = """
[topology]
kind = "leaf_spine"
spines = 1
tors = 2
hosts = 4

[[workload]]
kind = "incast"
fan_in = 2
size = "10KB"
load = 0.1

[scheme]
name = "fifo"

[run]
duration = "100us"
"""


ABSENT = """
import sys
from importlib import metadata

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "penstock_papers":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
whole = metadata.entry_points
metadata.entry_points = lambda **of: [each for each in whole(**of) if not each.value.startswith("penstock_papers")]
"""


@pytest.fixture
def copied(tmp_path):
    """A copy of the package, without the papers and the real switch."""
    shutil.copytree(HERE, tmp_path / HERE.name, ignore=shutil.ignore_patterns("vswitch", "*.c", "__pycache__"))
    (tmp_path / "small.toml").write_text(SPEC)
    return tmp_path


def penstock(folder, *words):
    return python(folder, "import sys; from penstock_net.cli import main; sys.exit(main(sys.argv[1:]))", *words)


def python(folder, code, *words):
    call = [sys.executable, "-P", "-c", code, *words]
    given = {**os.environ, "PYTHONPATH": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
    done = subprocess.run(call, cwd=folder, env=given, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def append(folder, file, text, build=True):
    """Change a source, and, with `build`, say that what is compiled was made from it."""
    path = folder / HERE.name / file
    path.write_text(path.read_text() + text)
    made = json.loads((folder / HERE.name / BUILT).read_text())
    if build and file in made:
        made[file] = [digest(path.read_bytes()), code_digest(path.read_bytes(), path.suffix)]
        (folder / HERE.name / BUILT).write_text(json.dumps(made))


def test_a_run_is_found_until_code_that_simulates_changes(copied):
    run = ("run", "small.toml", "--out", "r")
    status, said = penstock(copied, *run)
    assert status == 0, said
    append(copied, "palette.py", "\n# a comment\nANOTHER_COLOUR = 1\n")
    append(copied, "fabric/line.py", "\n# a comment\n")
    assert "finished before" in penstock(copied, *run)[1]
    append(copied, "fabric/line.py", "\nANOTHER = 1\n")
    status, said = penstock(copied, *run)
    assert status and "it was made by another version of the simulator: the code of fabric differs" in said
    assert penstock(copied, *run, "--force")[0] == 0


def test_what_is_compiled_must_be_the_code_that_is_there(copied):
    """Otherwise the results of one code would be kept under the name of another."""
    run = ("run", "small.toml", "--out", "r", "--force")
    append(copied, "fabric/line.py", "\n# a comment\n", build=False)
    assert penstock(copied, *run)[0] == 0
    append(copied, "fabric/line.py", "\nANOTHER = 1\n", build=False)
    status, said = penstock(copied, *run)
    assert status == 2 and "error: the compiled simulator was made before fabric/line.py was changed; build it again" in said
    assert "Traceback" not in said and "build_ext --inplace" in said
    (copied / HERE.name / BUILT).unlink()
    status, said = penstock(copied, *run)
    assert status == 2 and "it is not known what the compiled simulator was made from" in said


def test_every_source_of_the_compiled_simulator_is_recorded():
    made = json.loads((HERE / BUILT).read_text())
    compiled = [path for path in HERE.rglob("*.py") if path.with_suffix(".pxd").exists() and "vswitch" not in path.parts]
    assert {path.relative_to(HERE).as_posix() for path in compiled} <= set(made) and len(compiled) > 60
    assert {"fabric/heap.pxd", "fabric/faults.h", "composition/hooks.py"} <= set(made)
    assert not [name for name in made if "inline" in name or (name.startswith("schemes/") and name.endswith(".pxd"))]
    assert changed() == []


def test_a_sweep_repeats_runs_of_other_code_and_says_so(copied):
    sweep = ("sweep", "small.toml", "--seeds", "2", "--workers", "1", "--out", "s")
    status, said = penstock(copied, *sweep)
    assert status == 0, said
    append(copied, "palette.py", "\nANOTHER_COLOUR = 1\n")
    assert "2 of them finished before" in penstock(copied, *sweep)[1]
    append(copied, "fabric/line.py", "\nANOTHER = 1\n")
    status, said = penstock(copied, *sweep)
    assert status == 0 and "2 runs, 0 of them finished before" in said
    assert "2 runs in s are not used: it was made by another version of the simulator: the code of fabric differs" in said


def test_an_old_run_directory_loads_and_is_refused_with_a_cause(copied):
    status, said = penstock(copied, "run", "small.toml", "--out", "r")
    assert status == 0, said
    summary = copied / "r/summary.json"
    new = json.loads(summary.read_text())
    old = {name: value for name, value in new.items() if name not in ("spec_key", "code")} | {"key": "0" * 16}
    summary.write_text(json.dumps(old))
    (copied / "r/SHA256SUMS").unlink()
    run = Run.load(copied / "r")
    assert run.flows.height == run.summary["flows_started"]
    status, said = penstock(copied, "run", "small.toml", "--out", "r")
    assert status and "it is of another experiment, or was made by another version of the simulator" in said
    assert "--force" in said


def test_a_users_scheme_is_compiled_again_when_code_changes(copied):
    (copied / "mine.py").write_text('"""Does nothing."""\n')
    compiled_as = "from pathlib import Path; from penstock_net.composition.load import content_key, declarations_of; "
    compiled_as += "print(content_key(declarations_of(Path('mine.py'))))"
    first = python(copied, compiled_as)
    assert first[0] == 0, first
    append(copied, "fabric/line.py", "\n# a comment\n")
    append(copied, "palette.py", "\nANOTHER_COLOUR = 1\n")
    assert python(copied, compiled_as) == first
    append(copied, "fabric/line.py", "\nANOTHER = 1\n")
    status, said = python(copied, compiled_as)
    assert status == 0 and said != first[1]


def test_run_needs_neither_the_papers_nor_the_real_switch(copied):
    (copied / "sitecustomize.py").write_text(ABSENT)
    assert "No module named" in python(copied, "import penstock_papers")[1]
    assert not (copied / HERE.name / "vswitch").exists()
    status, said = penstock(copied, "run", "small.toml", "--out", "r")
    assert status == 0, said


def test_comments_and_docstrings_are_no_code():
    text = '# cython: x\n"""Says\nwhat."""\nlimit = "é # no"  # é, B\nclass A:\n    """\n    é\n    """\n\n    # why\n'
    assert code_of(text + '    b = """\n\n"""\n') == '# cython: x\nlimit = "é # no"\nclass A:\n    b = """\n\n"""\n'
    assert code_of('a = "http://b"; // c\n/* d */', ".h") == 'a = "http://b";\n'
    for path in HERE.rglob("*.py"):
        source = path.read_text()
        left, whole = (ast.dump(_without_docstrings(ast.parse(text))) for text in (code_of(source), source))
        assert left == whole, path


def _without_docstrings(tree):
    for node in ast.walk(tree):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if documented and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return tree


def test_what_simulates_is_what_the_simulator_imports():
    """A module that `simulate` reaches and that is not counted is named here, with the reason."""
    decides_nothing = {"errors.py": "words", "identity.py": "itself", "palette.py": "colours", "processes.py": "who computes"}
    decides_nothing |= {"files.py": "how files are written", "sources.py": "itself", "built.py": "refuses"}
    decides_nothing |= {
        "plot_kinds.py": "plots",
        "pcapng.py": "a file format",
        "version.py": "a number",
        "trace": "pictures of a run",
        "report": "pages",
        "notebook.py": "tables",
        "progress.py": "bars",
        "stderr.py": "messages",
    }
    assert _reached("sim/simulate.py") <= {*identity.SIMULATES, *decides_nothing, "schemes", "__init__.py"}
    assert set(identity.SIMULATES) <= _reached("spec/__init__.py") | _reached("sim/simulate.py")


def _reached(start):
    """The folders and loose modules that a module imports, directly or not."""
    left, seen = [HERE / start], {HERE / "__init__.py"}
    while left:
        path = left.pop()
        if path in seen or not path.exists():
            continue
        seen.add(path)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(HERE.name):
                base = HERE.joinpath(*node.module.split(".")[1:])
                names = [base, *(base / each.name for each in node.names)]
                left += [file for name in names for file in (name.with_suffix(".py"), name / "__init__.py")]
    return {path.relative_to(HERE).parts[0] for path in seen}


def test_a_scheme_that_does_not_run_changes_no_key():
    assert identity.code(frozenset(["bfc"])).keys() - identity.code(frozenset(["pfc"])).keys() == {"schemes/bfc.py"}
