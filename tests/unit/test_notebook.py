"""What a notebook shows of penstock's objects, in a kernel and without one."""

import sys
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

import penstock_net as ps
from penstock_net import progress
from penstock_net.results.sweep import Sweep

EXAMPLE = Path(__file__).parents[2] / "examples" / "notebooks" / "first_run.ipynb"
TOPO = ps.star(hosts=3)
FLOWS = ps.flow_list(TOPO, [(0, 1, "10KB", "1us"), (2, 1, "20KB", "3us")])


def test_the_example():
    """Every object has a picture or a table of its own, and the bars of progress are gone."""
    import nbformat
    from nbclient import NotebookClient

    book = nbformat.read(EXAMPLE, as_version=4)
    NotebookClient(book, timeout=600, kernel_name="python3").execute()
    topo, flows, runs, figure, table = (
        [o for o in cell.outputs if "data" in o] for cell in book.cells if cell.cell_type == "code"
    )
    assert "32 hosts" in topo[0].data["text/html"] and "incast" in flows[0].data["text/html"]
    assert [o.data["text/html"] for o in runs[:-1]] == ["", ""], "a bar for each run, removed"
    assert "<strong>Run bfc</strong>" in runs[-1].data["text/html"]
    assert figure[0].data["image/png"] and 300 < figure[0].metadata["image/png"]["width"] < 600
    assert "<table" in table[0].data["text/html"]


def test_tables_say_what_the_objects_are():
    run = ps.simulate(TOPO, FLOWS, "fifo")
    assert "<tr><th>flows</th><td>2 flows</td><td>30KB</td></tr></table><div>starts: 1us to 3us</div>" in FLOWS._repr_html_()
    assert "<pre>star: 3 hosts" in TOPO._repr_html_()
    shown = run._repr_html_()
    assert "<th>flows finished</th><td>2</td>" in shown and f"statistics of {run.window_text}" in shown
    hostile = run.changed(summary=run.summary | {"label": "<script>", "warnings": ["a < b"]})._repr_html_()
    assert "<script>" not in hostile and "warning: a &lt; b" in hostile


def test_a_sweep_is_a_line_and_a_table():
    runs = pl.DataFrame(
        {"workload.0.load": [0.5, 0.5, 0.7], "scheme": "bfc", "seed": [1, 2, 1], "key": ["a", "b", "c"], "drops": 0}
    )
    sweep = Sweep(Path("runs/loads"), runs, ("workload.0.load",))
    assert repr(sweep) == "<Sweep runs/loads: 3 runs, 2 workload.0.load, 2 seed>"
    assert "<strong>Sweep runs/loads: 3 runs" in sweep._repr_html_() and "0.7" in sweep._repr_html_()


@pytest.mark.parametrize("given", [False, None])
def test_no_progress(given, capsys):
    ps.simulate(TOPO, FLOWS, "fifo", progress=given)
    assert capsys.readouterr().err == ""


def test_progress_as_lines_and_as_a_bar_of_the_notebook(monkeypatch, capsys):
    monkeypatch.setattr(progress, "PLAIN_EVERY_S", 0.0)
    ps.simulate(TOPO, FLOWS, "fifo", progress=True)
    assert "2/2 flows" in capsys.readouterr().err
    seen = []
    html = SimpleNamespace(HTML=str, display=lambda shown, display_id: seen.append(shown) or SimpleNamespace(update=seen.append))
    shell = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=1), display=html)
    for name, module in (("IPython", shell), ("IPython.display", html)):
        monkeypatch.setitem(sys.modules, name, module)
    ps.simulate(TOPO, FLOWS, "fifo", progress=True)
    assert "fifo" in seen[0] and 'max="1"' in seen[0] and "2/2 flows" in seen[-2] and seen[-1] == ""
