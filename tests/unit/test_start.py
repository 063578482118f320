"""What a command loads before it does anything: packages that it does not need are not imported, whatever the machine's speed."""

import subprocess
import sys

import pytest

from penstock_net.cli._address_space import needed

HEAVY = {"numpy", "polars", "pydantic", "rich", "markdown_it", "pygments", "networkx", "scipy", "matplotlib", "Cython"}
SPEC = """
[run]
duration = "10us"

[topology]
kind = "star"
hosts = 4

[scheme]
name = "bfc"

[[workload]]
kind = "list"
flows = [[0, 1, "1KB"]]
"""


def loaded(*arguments, cwd=None):
    """The modules that a command has loaded when it ends."""
    code = f"import sys\nfrom penstock_net.cli import main\nmain({list(arguments)!r})\nprint('loaded', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=cwd)
    return set(done.stdout.splitlines()[-1].split()[1:])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("start")
    (folder / "tiny.toml").write_text(SPEC)
    return loaded("run", "tiny.toml", "--out", "run", cwd=folder)


def test_the_version_needs_almost_nothing():
    modules = loaded("--version")
    assert not modules & (HEAVY | {"typer"}) and len(modules) < 200


def test_the_help_needs_the_commands_only():
    modules = loaded("--help")
    assert not modules & HEAVY and len(modules) < 280
    assert {"penstock_net.cli.run", "penstock_papers.command"} <= modules


def test_a_run_loads_what_it_uses(run):
    assert run & HEAVY == {"numpy", "polars", "pydantic"}
    assert not {"numpy.random", "penstock_papers", "penstock_net.cli.sweep", "penstock_net.composition.translate"} & run
    assert len({name for name in run if not name.startswith(("numpy", "polars", "pydantic"))}) <= 420


def test_a_run_reads_the_files_of_its_own_schemes(run):
    assert {name for name in run if name.startswith("penstock_net.schemes.")} == {
        "penstock_net.schemes.bfc",
        "penstock_net.schemes.dqa",
    }
    code = "import penstock_net.spec as s, penstock_net.composition as c; c.parse('bfc'); print(c.built_in.cache_info().currsize)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "2\n"


def test_each_scheme_file_is_parsed_once():
    """`uec` and `mixed` share the packet state of parts that come with them, whose files are not parsed again for that."""
    code = (
        "import ast, penstock_net.composition as c; parse = ast.parse; parsed = []"
        "; ast.parse = lambda *given, **named: parsed.append(given) or parse(*given, **named)"
        "; parts = c.parse('uec+mixed').parts; print(len(parsed), len(parts))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "5 5\n"


def test_the_table_of_a_run_needs_no_query_engine(monkeypatch):
    """7 MB of pages of polars, in a run that needs them for nothing else."""
    import polars as pl

    import penstock_net as ps
    from penstock_net.report import tables

    run = ps.simulate(topo := ps.star(hosts=4), ps.flow_list(topo, [(0, 1, 1000)]), "bfc")
    monkeypatch.setattr(pl.DataFrame, "lazy", lambda *_, **__: pytest.fail("polars was asked to plan a query"))
    assert "bfc" in tables.shown([run])


def test_the_end_of_the_process_looks_for_no_garbage():
    code = "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count() > 1000))"
    code += "; from penstock_net.cli import main; main(['--version'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "True"


def test_a_module_is_no_public_name():
    """`from penstock_net import hashing` asks the package for the name first, which must not load all topologies and schemes."""
    code = "import sys; from penstock_net import hashing; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"penstock_net.topology", "penstock_net.composition"} & set(done.stdout.split())


@pytest.mark.skipif(sys.platform != "linux", reason="other systems count other things as address space")
@pytest.mark.parametrize("share", [0.3, 0.6, 0.99, 1.0])
def test_a_small_address_space_is_refused_or_enough(tmp_path, share):
    """Never a traceback or a signal, whatever `ulimit -v` says; the libraries abort where they cannot map."""
    import resource

    (tmp_path / "tiny.toml").write_text(SPEC)
    limit = int(share * needed())
    done = subprocess.run(
        [sys.executable, "-m", "penstock_net", "run", "tiny.toml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    if share == 1:
        assert done.returncode == 0, done.stderr
        return
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: ulimit -v {limit // 1024} is too little") and done.stderr.count("\n") == 1


def test_the_help_needs_little_address_space():
    assert (
        "Commands"
        in subprocess.run(
            ["sh", "-c", f"ulimit -v 200000; exec {sys.executable} -m penstock_net --help"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )
