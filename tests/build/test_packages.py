"""Packages: an sdist builds, a wheel of it works where there is no compiler, and one file is rebuilt alone.

The wheel is compiled without optimisation, which takes a minute instead of three; what it computes is the same.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
QUICK_FLAGS = "-O0 -g0 -w -ffp-contract=off"
SIMULATION = """
import penstock as ps
topo = ps.star(hosts=3, rate="100Gbps", delay="1us")
flows = ps.flow_list(topo, [(0, 2, "100KB"), (1, 2, "100KB")])
print(ps.simulate(topo, flows, scheme="bfc+dqa", seed=1).summary["flows_finished"], ps.__file__)
"""
SCHEME = "def on_dequeue(mine, node, port, queue, pkt):\n    port.ecn_marks += 1\n"
OWN_SCHEME = """
import penstock as ps
topo = ps.star(hosts=2)
ps.simulate(topo, ps.flow_list(topo, [(0, 1, "1KB")]), scheme="mine.py", seed=1)
"""


def run(*command: object, **options) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)


def checked(*command: object, **options) -> str:
    done = run(*command, **options)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


def make_sdist(folder: Path) -> Path:
    """The sdist, from a copy of the clone, so that tests which run beside this one see no file change."""
    clone = folder / "clone"
    unwanted = shutil.ignore_patterns(".*", "build", "site", "tests", "*.so", "*.c", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, clone, ignore=unwanted)
    code = f"from setuptools import build_meta; build_meta.build_sdist({str(folder)!r})"
    checked(sys.executable, "-c", code, cwd=clone)
    return next(folder.glob("*.tar.gz"))


def suffixes(names: list[str]) -> set[str]:
    return {Path(name).suffix for name in names}


def test_sdist_wheel_and_an_empty_environment_without_a_compiler(tmp_path):
    sdist = make_sdist(tmp_path)
    with tarfile.open(sdist) as archive:
        names = archive.getnames()
    assert not suffixes(names) & {".c", ".so", ".pyi"} and {".py", ".pxd", ".h", ".csv", ".toml"} <= suffixes(names)

    environment = {**os.environ, "PENSTOCK_CFLAGS": QUICK_FLAGS}
    checked(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, sdist, env=environment)
    wheel = next(tmp_path.glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert ".c" not in suffixes(names), "generated C is of no use to who installs the package"
    assert {"penstock/py.typed", "penstock/fabric/state.pxd", "penstock/fabric/state.h"} <= set(names)
    assert {path.relative_to(ROOT).as_posix() for path in (ROOT / "penstock/report/page").iterdir()} <= set(names)
    compiled = {name.split(".")[0] for name in names if name.endswith(".so")}
    # what users' schemes and editors read beside each compiled module
    assert all({f"{name}.py", f"{name}.pxd"} <= set(names) for name in compiled) and len(compiled) > 40
    assert all(f"{name}.pyi" in names for name in compiled if not name.startswith("penstock/schemes/"))

    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty/bin/python"
    checked(python, "-m", "pip", "install", "-q", wheel)
    # nothing but this environment is on PATH: no C compiler
    alone = {"PATH": str(python.parent), "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    finished, where = checked(python, "-c", SIMULATION, cwd=tmp_path, env=alone).split()
    assert finished == "2" and where.startswith(str(tmp_path / "empty"))
    assert "bfc" in checked(tmp_path / "empty/bin/penstock", "schemes", cwd=tmp_path, env=alone)

    (tmp_path / "mine.py").write_text(SCHEME)
    failed = run(python, "-c", OWN_SCHEME, cwd=tmp_path, env=alone)
    said = failed.stderr.strip().splitlines()[-1]
    assert failed.returncode == 1 and "SchemeError" in said and "mine.py" in said and "needs a C compiler" in said, failed.stderr


def test_one_file_is_rebuilt_alone(tmp_path):
    """The command of CONTRIBUTING.md, in a copy of the clone as it was built."""
    clone = tmp_path / "clone"
    shutil.copytree(ROOT, clone, ignore=shutil.ignore_patterns(".*", "build", "site", "tests", "*.egg-info", "__pycache__"))
    libraries = sorted((clone / "penstock").rglob("*.so"))
    assert libraries, "not built in place: pip install -e ."
    before = {path: path.stat().st_mtime_ns for path in libraries}
    changed = clone / "penstock/fabric/pacing.py"
    changed.write_text(changed.read_text() + "\n")
    checked(sys.executable, "setup.py", "-q", "build_ext", "--inplace", cwd=clone)
    rebuilt = [path.name.split(".")[0] for path in libraries if path.stat().st_mtime_ns != before[path]]
    assert rebuilt == ["pacing"]


def test_stubs_are_those_of_the_sources():
    """Editors and mypy see what is there now."""
    sys.path.insert(0, str(ROOT / "tools"))
    from stubs import stub

    modules = [path for path in sorted((ROOT / "penstock").rglob("*.py")) if path.with_suffix(".pxd").exists()]
    for path in modules:
        if path.parent.name != "schemes" or path.parent.parent.name == "vswitch":
            assert path.with_suffix(".pyi").read_text() == stub(path), f"{path.name}: run setup.py build_ext --inplace"
