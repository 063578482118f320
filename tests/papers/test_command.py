"""`penstock reproduce`: what it calls and says."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import penstock_papers
from penstock_net.cli import main
from penstock_papers import framework, local, registry, verdicts

LONG = "bfc/fig09_with_a_long_name"


@pytest.fixture
def figures(monkeypatch):
    """Two figures, of which one has a record, so that the list needs nothing of its file."""
    found = SimpleNamespace(ids=lambda: ["bfc/fig09", LONG])
    monkeypatch.setattr(type(registry.EXPERIMENTS), "ids", lambda experiments: found.ids())
    monkeypatch.setattr(
        type(registry.EXPERIMENTS), "__getitem__", lambda experiments, id: SimpleNamespace(title={LONG: "T" * 90}[id])
    )
    monkeypatch.setattr(verdicts, "recorded", lambda: {"bfc/fig09": ("FCT slowdown", "17 PASS, 2 FAIL")})
    monkeypatch.setattr(local, "state", lambda id: "1 PASS (quick)" if id == "bfc/fig09" else None)


def test_the_list(capsys, figures):
    assert main(["reproduce", "--list"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    where = first.index("FCT slowdown")
    assert second.index("TTT") == where and second.endswith("  not reproduced yet")
    assert first.endswith("  recorded: 17 PASS, 2 FAIL; here: 1 PASS (quick)")


def test_the_list_imports_no_figure():
    """It is quick because it takes titles and verdicts from the records."""
    code = "import sys; from penstock_net.cli import main; main(['reproduce', '--list']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "hpcc/fig06" in done.stdout and done.returncode == 0
    heavy = {"polars", "matplotlib", "numpy", "penstock_papers.framework", "penstock_net.spec"}
    assert not heavy & set(done.stderr.split())


def test_a_figure(capsys, monkeypatch, figures):
    calls = []
    monkeypatch.setattr(framework, "reproduce", lambda id, **options: calls.append((id, options["scale"], options["out"])))
    assert main(["reproduce", "bfc/fig09", "--scale", "paper", "--out", "o"]) == 0
    assert calls == [("bfc/fig09", "paper", Path("o"))] and penstock_papers.EXPERIMENTS
    assert main(["reproduce", "bfc/fig9"]) == 2
    assert 'did you mean "bfc/fig09"?' in capsys.readouterr().err
