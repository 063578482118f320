"""The command line over a fake simulator: outputs, refusals, interruption."""

import importlib
import json
import os
import signal
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType, SimpleNamespace

import fake_simulator
import polars as pl
import pytest

from penstock_net.cli import COMMANDS, _app, main
from penstock_net.results.run import Run

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def fake(monkeypatch, tmp_path: Path):
    fake_simulator.install(monkeypatch)
    monkeypatch.chdir(tmp_path)
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def program(*arguments: str) -> list[str]:
    return [sys.executable, str(HERE / "fake_cli.py"), *arguments]


def fails(capsys, *arguments: str, status: int = 2) -> str:
    assert main(list(arguments)) == status
    error = capsys.readouterr().err
    assert "Traceback" not in error
    message = error[error.index("error: ") :].strip()
    assert len(message.splitlines()) <= 2
    return message


def test_help_shows_examples_and_loads_nothing_heavy(capsys):
    for name in COMMANDS:
        assert main([name, "--help"]) == 0
        text = capsys.readouterr().out
        assert "Example" in text and f"penstock {name}" in text
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys; from penstock_net.cli import main; main(['--help']); print(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert not {"numpy", "polars", "matplotlib", "pydantic", "networkx"} & set(loaded)


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("penstock ")


@pytest.fixture
def broken(monkeypatch):
    """An entry point of a package that is gone, beside a command that works."""
    group = "penstock.commands"
    entries = [metadata.EntryPoint("gone", "no_such_package:command", group), metadata.EntryPoint("ls", "os:getcwd", group)]
    monkeypatch.setattr(_app, "others", lambda: entries)
    _app.application.cache_clear()
    yield
    _app.application.cache_clear()


def test_a_command_that_cannot_be_loaded_breaks_no_other(capsys, broken):
    assert main(["--help"]) == 0
    shown = capsys.readouterr()
    assert "gone" not in shown.out and " ls " in shown.out and not shown.err
    assert main(["ls"]) == 0 and main(["schemes"]) == 0
    for arguments in ([], ["--help"], ["here", "--option", "2"]):
        message = fails(capsys, "gone", *arguments, status=1)
        assert message == (
            "error: command \"gone\": cannot be loaded (ModuleNotFoundError: No module named 'no_such_package'); "
            "install or remove the package no_such_package"
        )


def test_one_scheme_lies_in_the_folder_itself(capsys):
    assert (
        main(
            [
                "run",
                "quickstart",
                "--scheme",
                "bfc",
                "--set",
                "scheme.queues=64",
                "--seed",
                "7",
                "--threads",
                "2",
                "--out",
                "out",
            ]
        )
        == 0
    )
    run = Run.load("out")
    assert run.summary["seed"] == 7 and run.label == "bfc"
    call = fake_simulator.calls[0]
    assert (call["seed"], call["threads"], call["duration_ps"], call["drain"]) == (7, 2, 10 * 10**9, True)
    assert call["measure"].sample_ps == 2_000_000 and call["host"].rto_ps == 4 * 10**9
    assert call["scheme"].parameters() == {"bfc.queues": 64}
    shown = capsys.readouterr()
    assert "short" in shown.out and "bfc" in shown.out and "written to out" in shown.out
    assert main(["run", "out", "--out", "again"]) == 0  # a run directory is a spec
    assert Path("again/spec.toml").read_text() == Path("out/spec.toml").read_text()


def test_several_schemes_lie_side_by_side_with_a_comparison():
    assert main(["run", "quickstart", "--out", "out"]) == 0
    assert sorted(os.listdir("out")) == [
        "bfc",
        "comparison.csv",
        "dcqcn-bfc",
        "hpcc",
        "ideal_fq",
        "slowdown.pdf",
        "slowdown.png",
        "spec.toml",
    ]
    assert pl.read_csv("out/comparison.csv")["scheme"].to_list() == ["bfc", "hpcc", "dcqcn-bfc", "ideal_fq"]
    assert Run.load("out/hpcc").scheme == "hpcc"


def test_without_out_no_run_is_ever_replaced():
    for _ in range(3):
        assert main(["run", "quickstart", "--scheme", "bfc"]) == 0
    assert sorted(os.listdir("runs")) == ["quickstart", "quickstart-2", "quickstart-3"]


def test_computations_are_not_counted_as_flows(capsys):
    assert main(["run", "quickstart", "--scheme", "bfc"]) == 0
    assert "bfc: 1,999 flows arrive in " in capsys.readouterr().err  # 2,000, of which one is a computation


@pytest.mark.parametrize("out", ["", ".", "{here}"])
def test_the_current_folder_cannot_be_that_of_a_run(capsys, tmp_path: Path, out: str):
    error = fails(capsys, "run", "quickstart", "--scheme", "bfc", "--out", out.format(here=tmp_path))
    assert "is the current folder" in error and "such as --out" in error and os.listdir(".") == []
    assert main(["run", "quickstart", "--out", out.format(here=tmp_path)]) == 0  # several schemes lie in folders of their own
    assert Path("bfc", "summary.json").exists()


def test_a_mount_point_cannot_be_the_folder_of_a_run(capsys, monkeypatch):
    Path("volume").mkdir()
    monkeypatch.setattr(Path, "is_mount", lambda path: path.name == "volume")
    assert "volume: is a mount point" in fails(capsys, "run", "quickstart", "--scheme", "bfc", "--out", "volume")
    assert main(["run", "quickstart", "--scheme", "bfc", "--out", "volume/bfc"]) == 0


def test_force(capsys):
    assert main(["run", "quickstart", "--scheme", "bfc", "--out", "out"]) == 0
    assert "--force" in fails(capsys, "run", "quickstart", "--scheme", "bfc", "--seed", "2", "--out", "out")
    assert len(fake_simulator.calls) == 1  # refused before the work
    assert main(["run", "quickstart", "--scheme", "hpcc", "--out", "out", "--force"]) == 0
    assert Run.load("out").scheme == "hpcc"
    assert "several schemes" in fails(capsys, "run", "quickstart", "--out", "out", "--force")


def test_dry_run_prints_a_spec_that_loads(capsys):
    assert main(["run", "quickstart", "--dry-run", "--seed", "5"]) == 0
    text = capsys.readouterr().out
    Path("my.toml").write_text(text)
    assert main(["run", "my.toml", "--dry-run"]) == 0
    assert capsys.readouterr().out == text and "seed = 5" in text
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ("run nope.toml", "no such file"),
        ("run quikstart", 'did you mean "quickstart"?'),
        ("run quickstart --scheme bfcc", '--scheme bfcc: scheme.name = "bfcc": unknown; did you mean "bfc"?'),
        ("run quickstart --set scheme.0.qeues=3", 'did you mean "queues"?'),
        ("run quickstart --set topology.kind=str", 'did you mean "star"?'),
        ("run quickstart --set run.duration=-1ms", "greater than zero"),
        ("run quickstart --set run.duration=1parsec", "unknown unit"),
        ("run quickstart --set workload.0.load=3", "more than the network carries"),
        ("run quickstart --threads 0", "--threads"),
        ("run quickstart --threads x", "--threads"),
        ("run quickstart --seed -1", "--seed"),
        ("run quickstart --frob", "--frob"),
        ("run", "Missing argument"),
        ("frob", 'no such command "frob"'),
        ("rnu", 'did you mean "run"?'),
        ("run quickstart --out file", "cannot be written"),
        ("run quickstart --scheme bfc --out file", "is a file"),
        ("run quickstart --out /proc/x", "cannot be written"),
        ("plot slowdwn run -o a.pdf", 'did you mean "slowdown"?'),
        ("plot slowdown nope -o a.pdf", "no such folder"),
        ("plot slowdown nope --where load=0.6 -o a.pdf", "no such folder"),
        ("report nope --table latex --statistic short_p99", "no such folder"),
        ("plot slowdown run -o a.doc", "must end in"),
        ("plot slowdown run", "--out"),
        ("plot slowdown run --switch 3 -o a.pdf", "belongs to penstock plot timeseries"),
        ("plot slowdown run --percentile 200 -o a.pdf", "between 0 and 100"),
        ("plot slowdown run -o file/a.pdf", "cannot be written"),
        ("report nope", "no such folder"),
        ("report run -o a.pdf", "must end in .html"),
        ("explain nope", "no such folder"),
        ("explain file", "not a run directory"),
        ("reproduce", "give a figure"),
        ("reproduce bfc/fig999", "there is none of that name"),
        ("check nope.py", "no such file"),
        ("sweep quickstart --param run.seed", "expected KEY=V1,V2"),
        ("sweep quickstart", "--seeds 10, or --param"),
        ("sweep quickstart --param run.seed=1,,2", "expected values such as"),
        ("sweep quickstart --seeds 0", "is empty"),
        ("sweep quickstart --seeds 3 --param run.seed=1", "are the same"),
        ("sweep quickstart --param run.seed=1,1", "the same run"),
        ("sweep quickstart --param run.seed=1 --param run.seed=2", "given twice"),
        ("sweep quickstart --param run.seed=1 --on moon", "must be local, dask://HOST:PORT, slurm or kubernetes"),
        ("sweep quickstart --param scheme=bfc,bfcc", 'did you mean "bfc"?'),
        ("sweep quickstart --param run.seed=1 --out file", "cannot be written"),
    ],
)
def test_bad_input_is_one_or_two_lines_and_status_2(capsys, arguments: str, rule: str):
    Path("file").write_text("x")
    fake_simulator.synthetic("bfc", 10).save("run")
    assert rule in fails(capsys, *arguments.split())
    assert not fake_simulator.calls and not Path("runs").exists()


def test_a_syntax_error_gives_line_and_column(capsys):
    Path("bad.toml").write_text("[run]\nduration = 5ms\n")
    assert fails(capsys, "run", "bad.toml").startswith("error: bad.toml:2:13: not valid TOML")


def test_a_full_disk_at_the_end(capsys, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    assert "No space left on device" in fails(capsys, "run", "quickstart", "--scheme", "bfc", "--out", "out")
    assert os.listdir(".") == []


def test_an_interrupted_run_is_kept(capsys):
    fake_simulator.interrupt_at.append("hpcc")
    assert main(["run", "quickstart", "--out", "out"]) == 130
    assert sorted(p.name for p in Path("out").iterdir() if p.is_dir()) == ["bfc", "hpcc"]
    assert Run.load("out/hpcc").summary["interrupted"] is True
    assert len(pl.read_csv("out/comparison.csv")) == 2
    shown = capsys.readouterr()
    assert "interrupted; partial results are in out" in shown.err and "warning: hpcc" in shown.err


def test_interrupted_outside_the_simulator(monkeypatch, capsys):
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("penstock_net.topology.build", stop)
    assert main(["run", "quickstart"]) == 130
    assert capsys.readouterr().err == "error: interrupted\n"


def test_a_closed_pipe_is_no_error(tmp_path: Path):
    done = subprocess.run(
        f"{' '.join(program('explain'))} | head -1; echo ${{PIPESTATUS[0]}}",
        shell=True,
        text=True,
        executable="/bin/bash",
        capture_output=True,
        cwd=tmp_path,
    )
    assert "Traceback" not in done.stderr and done.stdout.splitlines()[-1] == "0"


def test_plot_report_and_explain(capsys):
    assert main(["run", "quickstart", "--out", "out"]) == 0
    for kind in ("slowdown", "buffer-cdf", "timeseries", "active_flows", "pause_time"):
        assert main(["plot", kind, "out", "-o", f"{kind}.png"]) == 0
        assert Path(f"{kind}.png").stat().st_size > 5000
    assert main(["plot", "timeseries", "out/bfc", "--column", "max_queue_bytes", "--switch", "17", "-o", "q.pdf"]) == 0
    assert main(["report", "out", "-o", "report.html"]) == 0
    assert "ideal_fq" in Path("report.html").read_text()
    assert main(["run", "quickstart", "--scheme", "bfc", "--out", "second"]) == 0
    assert main(["report", "out", "second", "-o", "report.html"]) == 0
    assert "bfc second" in Path("report.html").read_text() and "bfc out" in Path("report.html").read_text()
    capsys.readouterr()
    assert main(["explain", "out/bfc"]) == 0
    assert "retransmitted_bytes" in capsys.readouterr().out


def test_runs_that_differ_in_more_than_the_scheme_are_marked(capsys):
    for name, load in (("bfc", 0.5), ("hpcc", 0.7), ("dcqcn", 0.7)):
        run = fake_simulator.synthetic(name, 50)
        run.summary["spec"] = f'[[workload]]\nkind = "poisson"\nload = {load}\n[scheme]\nname = "{name}"\n'
        run.save(name)
    assert main(["plot", "slowdown", "bfc", "hpcc", "-o", "a.pdf"]) == 0
    assert "warning: workload.0.load differs: bfc 0.5, hpcc 0.7" in capsys.readouterr().err
    assert main(["plot", "slowdown", "hpcc", "dcqcn", "-o", "b.pdf"]) == 0
    assert "load" not in capsys.readouterr().err


# -- sweep


def sweep(*more: str) -> int:
    return main(
        [
            "sweep",
            "quickstart",
            "--param",
            "workload.0.load=0.5,0.6",
            "--param",
            "scheme=bfc,hpcc",
            "--out",
            "out",
            "--workers",
            "1",
            *more,
        ]
    )


def test_run_with_several_seeds_is_a_sweep(capsys):
    assert (
        main(
            [
                "run",
                "quickstart",
                "--scheme",
                "bfc",
                "--scheme",
                "floodgate",
                "--seeds",
                "2..3",
                "--set",
                "run.duration=1us",
                "--out",
                "out",
            ]
        )
        == 0
    )
    assert sorted(pl.read_parquet("out/sweep.parquet").select("scheme", "seed").rows()) == [
        ("bfc", 2),
        ("bfc", 3),
        ("floodgate", 2),
        ("floodgate", 3),
    ]
    assert "±" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--seed 1", "--dry-run"])
def test_options_that_do_not_go_with_seeds(capsys, option):
    assert "cannot be given with --seeds 3" in fails(capsys, *f"run quickstart --seeds 3 {option}".split())


def test_a_sweep_and_its_resumption(capsys):
    assert sweep() == 0
    table = pl.read_parquet("out/sweep.parquet")
    assert table["workload.0.load"].to_list() == [0.5, 0.5, 0.6, 0.6]
    assert table["scheme"].to_list() == ["bfc", "hpcc", "bfc", "hpcc"]
    assert all(Run.load(Path("out") / key).scheme == scheme for key, scheme in zip(table["key"], table["scheme"]))
    assert len(fake_simulator.calls) == 4
    assert sweep("--param", "run.seed=1,2") == 0
    assert len(fake_simulator.calls) == 8 and len(pl.read_parquet("out/sweep.parquet")) == 8
    assert "4 of them finished before" in capsys.readouterr().err


def test_an_interrupted_sweep_goes_on_where_it_was():
    fake_simulator.interrupt_at.append("hpcc")
    assert sweep() == 130
    assert len(pl.read_parquet("out/sweep.parquet")) == 1
    fake_simulator.interrupt_at.clear()
    assert sweep() == 0
    assert len(pl.read_parquet("out/sweep.parquet")) == 4 and len(fake_simulator.calls) == 5


def test_a_point_that_fails_does_not_end_the_sweep(capsys):
    assert (
        main(
            [
                "sweep",
                "quickstart",
                "--param",
                "workload.0.load=0.5,0.9,3",
                "--param",
                "scheme=bfc",
                "--out",
                "out",
                "--workers",
                "1",
            ]
        )
        == 1
    )
    assert "1 of 3 runs failed, the first with: " in capsys.readouterr().err
    assert len(pl.read_parquet("out/sweep.parquet")) == 2


def test_a_sweep_in_processes(tmp_path: Path):
    done = subprocess.run(
        program(
            "sweep",
            "quickstart",
            "--param",
            "run.seed=1,2,3",
            "--param",
            "scheme=bfc",
            "--workers",
            "2",
            "--out",
            "out",
        ),
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert pl.read_parquet(tmp_path / "out" / "sweep.parquet")["run.seed"].to_list() == [1, 2, 3]


def test_dask_that_is_not_installed(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert 'pip install "penstock-net[dask]"' in fails(
        capsys, "sweep", "quickstart", "--param", "run.seed=1", "--on", "dask://a:1"
    )


# -- commands that stand for others


def module(monkeypatch, name: str, **names: object) -> None:
    """A module of the package with these names only."""
    package, _, last = f"penstock_net.{name}".rpartition(".")
    made = ModuleType(f"penstock_net.{name}")
    made.__dict__.update(names)
    monkeypatch.setitem(sys.modules, f"penstock_net.{name}", made)
    monkeypatch.setattr(importlib.import_module(package), last, made, raising=False)


def test_bench(capsys, monkeypatch):
    module(monkeypatch, "testing.bench", run=lambda: [{"scenario": "bfc", "packet_hops_per_s": 1.2e7}])
    assert main(["bench", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"scenario": "bfc", "packet_hops_per_s": 1.2e7}]
    assert main(["bench"]) == 0
    assert capsys.readouterr().out.split() == ["scenario", "packet_hops_per_s", "bfc", "1.2e+07"]


def test_check(capsys, monkeypatch):
    Path("mine.py").write_text("")
    found = [
        SimpleNamespace(name="compiles", passed=True, message=""),
        SimpleNamespace(name="repeats itself", passed=False, message="seed 3 differs"),
    ]
    module(monkeypatch, "testing", check_scheme=lambda path: found)
    assert main(["check", "mine.py"]) == 1
    assert "FAILED repeats itself: seed 3 differs" in capsys.readouterr().out
    found.pop()
    assert main(["check", "mine.py"]) == 0


def test_lists(capsys, monkeypatch):
    scheme = SimpleNamespace(
        doc="Backpressure.\n\nLong.",
        includes=["dqa"],
        presets={"ns3": {"queues": 8}},
        parameters={"queues": ("int32", 32, "physical queues")},
    )
    monkeypatch.setattr("penstock_net.composition.available", lambda: {"bfc": scheme})
    monkeypatch.setattr("penstock_net.composition.preset_values", lambda name, preset: scheme.presets[preset])
    assert main(["schemes"]) == 0
    assert "bfc: Backpressure." in capsys.readouterr().out
    assert main(["schemes", "bfc"]) == 0
    assert "physical queues" in capsys.readouterr().out
    assert 'did you mean "bfc"?' in fails(capsys, "schemes", "bfcc")
    assert main(["topologies"]) == 0 and main(["workloads"]) == 0
    assert "google" in capsys.readouterr().out


def test_plain_progress_is_sparse(capsys):
    from penstock_net import progress as bars

    report = SimpleNamespace(time_ps=10**8, end_ps=10**12, packet_hops=0, flows_done=0, flows_total=20, wall_s=0.0, share=0.0)
    with bars.Progress("bfc", 10**9) as progress:
        progress(report)
        assert capsys.readouterr().err == ""
        progress.last -= bars.PLAIN_EVERY_S
        vars(report).update(time_ps=5 * 10**8, packet_hops=10**7, flows_done=10, wall_s=2.0, share=0.25)
        progress(report)
    assert capsys.readouterr().err == "bfc: 500us of 1ms   5 M hops/s   10/20 flows   0:06 left\n"
    report.time_ps = 2 * 10**9
    assert bars.describe(report, progress.pace, 10**9).endswith("draining")
