"""The gate against Python calls in hot code: it passes on the core and finds what it is there for."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def gate():
    spec = importlib.util.spec_from_file_location("no_python_calls", ROOT / "tools/no_python_calls.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_core_calls_no_python(gate):
    files = gate.generated(ROOT / "penstock_net")
    assert files, "no generated C: install with pip install -e . or run setup.py build_ext --inplace"
    report = gate.check(files)
    assert not report.found, "\n".join(report.found)
    modules = {f.stem for f in files}
    assert {"queueing", "switch", "sender", "engine", "bfc"} <= modules and report.checked > 20 * len(modules)


def compiled(tmp_path, pxd, py):
    """The C of a module, made by Cython."""
    from Cython.Compiler.Main import CompilationOptions
    from Cython.Compiler.Main import compile as cythonize

    file = tmp_path / "example.py"
    file.write_text(py)
    file.with_suffix(".pxd").write_text(pxd)
    result = cythonize(str(file), options=CompilationOptions(language_level=3), full_module_name="example")
    assert not result.num_errors
    return file.with_suffix(".c")


PY = "def inner(x):\n    return x + 1\n\ndef outer(x):\n    return inner(x)\n\ndef set_up(x):\n    return int(x)\n"


@pytest.mark.parametrize("promise, hot, found", [("noexcept nogil", 2, 0), ("nogil", 2, 2)])
def test_a_forgotten_noexcept_is_found(gate, tmp_path, promise, hot, found):
    pxd = f"cdef long inner(long x) {promise}\ncdef long outer(long x) {promise}\ncdef long set_up(object x)\n"
    report = gate.check([compiled(tmp_path, pxd, PY)], package=tmp_path)
    assert report.checked == hot  # set_up holds the GIL on purpose
    assert bool(report.found) == bool(found)
    assert not found or any("example.outer calls" in line for line in report.found)


def test_names_are_taken_apart(gate):
    assert gate.split_name("__pyx_f_12penstock_net_6fabric_5state_port_at") == ("penstock_net.fabric.state", "port_at")
    assert gate.split_name("__pyx_f_12penstock_net_7schemes_4hpcc_on_ack") == ("penstock_net.schemes.hpcc", "on_ack")


def test_nothing_to_check_is_a_failure(gate, tmp_path, capsys):
    assert gate.main([str(tmp_path)]) == 1
    assert "nothing to check" in capsys.readouterr().out
