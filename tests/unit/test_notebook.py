"""What a notebook shows of penstock's objects, in a kernel and without one."""

import io
import json
import re
import shutil
import sys
from base64 import b64decode
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from matplotlib.image import imread

import penstock_net as ps
from penstock_net import progress
from penstock_net.results.sweep import Sweep

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import notebooks  # noqa: E402

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
LIMIT_MS = 300_000  # of whatever the browser does, however busy the machine
PICTURES = {"first_run": 1, "own_scheme": 2, "paper_figure": 3, "study": 5, "training": 1}
TOPO = ps.star(hosts=3)
FLOWS = ps.flow_list(TOPO, [(0, 1, "10KB", "1us"), (2, 1, "20KB", "3us")])


def shown(book) -> list[list]:
    """What each cell of code has shown, without bars of progress."""
    cells = [cell.outputs for cell in book.cells if cell.cell_type == "code"]
    return [[o for o in outputs if "data" not in o or o.data.get("text/html") != ""] for outputs in cells]


def written(outputs: list) -> str:
    """What a cell has printed."""
    return "".join(said.text for said in outputs if said.output_type == "stream")


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """executed(path): a notebook with its outputs, and the folder in which it ran. Each runs once."""

    @cache
    def run(path):
        folder = tmp_path_factory.mktemp(path.stem)
        return notebooks.execute(path, folder), folder

    return run


@pytest.mark.parametrize("path", notebooks.BOOKS, ids=lambda path: path.stem)
def test_the_examples(path, executed):
    """In a kernel: no cell fails or writes to stderr, pictures are sharp and show something, tables are tables."""
    book, folder = executed(path)
    cells = shown(book)
    found = [said for outputs in cells for said in outputs if "data" in said]
    pictures = [said for said in found if "image/png" in said.data]
    assert len(pictures) == PICTURES[path.stem] and any("<table" in said.data.get("text/html", "") for said in found)
    for said in pictures:
        pixels = imread(io.BytesIO(b64decode(said.data["image/png"])), format="png")[..., :3]
        wanted = said.metadata["image/png"]["width"]
        assert 300 < wanted < 900 and pixels.shape[1] == 2 * wanted
        assert 0.002 < (pixels.min(axis=2) < 0.7).mean() < 0.5, "curves and text on white"
        edge = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
        assert (edge > 0.9).all(), "nothing is cut off"
    page, files = notebooks.as_page(book, path.stem)
    assert len(files) == len(pictures) and str(folder) not in page
    CHECKS.get(path.stem, lambda cells, folder: None)(cells, folder)


def check_first_run(cells, folder):
    """Every object has a picture or a table of its own, and the bars of progress are gone."""
    topo, flows, runs, _, table = cells
    assert "32 hosts" in topo[0].data["text/html"] and "incast" in flows[0].data["text/html"]
    assert len(runs) == 1 and "<strong>Run bfc</strong>" in runs[0].data["text/html"] and "<table" in table[0].data["text/html"]


def check_own_scheme(cells, folder):
    """The debugger has stopped in the scheme, and the core goes on as if it had not."""
    stopped = next(text for text in map(written, cells) if "Breakpoint 1" in text)
    assert re.search(r"\(0, \d+, \d+\)\n2\.\d+\n", stopped) and '"flows_finished": 3' in stopped
    assert written(cells[-1]).startswith("wrong.py line 24: division by zero")


def check_paper_figure(cells, folder):
    """The file can be printed, the table be typeset."""
    assert (folder / "slowdown.pdf").read_bytes().startswith(b"%PDF")
    assert re.search(r"Type 3 fonts: 0, TrueType: [1-9]", "".join(map(written, cells)))
    assert r"\bottomrule" in written(cells[-1])


def check_study(cells, folder):
    """75 runs; BFC is the worst of all flows and the best of others, and the numbers say why."""
    runs = ps.Sweep.load(folder / "runs-200us").runs
    assert runs.height == 75 and [runs[name].n_unique() for name in ("scheme", "workload.0.load", "seed")] == [5, 3, 5]
    assert b"/Type3" not in (folder / "slowdown.pdf").read_bytes()
    tables = [said.data["text/html"] for outputs in cells for said in outputs if "text/html" in said.get("data", {})]
    row = r"<td>&quot;(\w+)&quot;</td>" + 3 * r"<td>[\d.]+</td>" + "</tr>"
    (ranked,) = filter(None, (re.findall(row, table) for table in tables))
    assert len(ranked) == 5 and ranked[-1] == "bfc"
    share, last, median, best = (float(line.split()[-1]) for line in written(cells[-1]).splitlines())
    assert share == 1 and 0.95 < last < 1.05 and median > 1.2 and best < 0.7


CHECKS = {
    "first_run": check_first_run,
    "own_scheme": check_own_scheme,
    "paper_figure": check_paper_figure,
    "study": check_study,
}


@pytest.mark.parametrize("path", notebooks.BOOKS, ids=lambda path: path.stem)
def test_what_is_stored(path):
    """Text alone: outputs would be large, change with every version, and name the machine. The pages in the site have them."""
    text = path.read_text()
    book = json.loads(text)
    code = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    assert len(book["cells"]) <= 40 and all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert all(cell["metadata"] == {} for cell in book["cells"]) and book["metadata"].keys() == {"kernelspec", "language_info"}
    assert not re.search(r"/(home|root|tmp|usr|work)/|\b20\d\d-\d\d|\d\d:\d\d:\d\d", text)
    assert text == json.dumps(book, indent=1, ensure_ascii=False) + "\n"
    for cell, after in zip(book["cells"], book["cells"][1:]):
        assert cell["cell_type"] == "markdown" or after["cell_type"] == "markdown", "a sentence before each cell of code"
    for link in re.findall(r"\]\((?![a-z]+:)([^)#]+)", text):
        assert (path.parent / link).is_file(), link


def test_the_example_as_html(tmp_path, executed):
    """As nbconvert exports it, in Chromium: figures and tables are there, light and dark, and nothing is wider than its cell."""
    exporter = pytest.importorskip("nbconvert", reason="nbconvert is not installed").HTMLExporter()
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    book, _ = executed(notebooks.FOLDER / "first_run.ipynb")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, timeout=LIMIT_MS)
        for theme in ("light", "dark"):
            exporter.theme = theme
            file = tmp_path / f"{theme}.html"
            file.write_text(exporter.from_notebook_node(book)[0])
            tab = browser.new_page(viewport={"width": 1000, "height": 900}, color_scheme=theme)
            tab.set_default_timeout(LIMIT_MS)
            tab.route(re.compile("^https?:"), lambda route: route.abort())  # MathJax, which no cell needs
            tab.goto(file.as_uri(), wait_until="domcontentloaded")
            look(tab, theme)
            tab.close()
        browser.close()


def look(tab, theme):
    """Figures are loaded, tables are there, what is written can be read, and no output is cut off."""
    images = "[...document.querySelectorAll('.jp-OutputArea img')].map(i => [i.complete && i.naturalWidth, i.clientWidth])"
    assert [(wide > 600 and 300 < shown < 600) for wide, shown in tab.evaluate(images)] == [True]
    assert tab.locator(".jp-OutputArea table").count() == 3 and tab.locator(".jp-OutputArea pre").count() >= 1
    cut = "[...document.querySelectorAll('.jp-OutputArea-output')].filter(e => e.scrollWidth > e.clientWidth + 1).length"
    assert tab.evaluate(cut) == 0
    assert tab.evaluate("getComputedStyle(document.querySelector('.jp-OutputArea pre')).fontFamily").endswith("monospace")
    dark = theme == "dark"
    for of in (".jp-OutputArea td", ".jp-OutputArea strong", ".jp-OutputArea pre"):
        text, below = tab.evaluate(COLOURS, of)
        assert (text > 150) == dark and (below < 100) == dark and abs(text - below) > 120, (theme, of, text, below)


# Brightness, 0 to 255, of an element's text and of the first background below it.
COLOURS = """of => {
  const bright = text => text.match(/[\\d.]+/g).map(Number);
  let place = document.querySelector(of);
  const text = bright(getComputedStyle(place).color).slice(0, 3).reduce((a, b) => a + b) / 3;
  for (; place; place = place.parentElement) {
    const [red, green, blue, there = 1] = bright(getComputedStyle(place).backgroundColor);
    if (there > 0.5) return [text, (red + green + blue) / 3];
  }
  return [text, 255];
}"""


def test_tables_say_what_the_objects_are():
    run = ps.simulate(TOPO, FLOWS, "fifo")
    assert "<tr><th>flows</th><td>2 flows</td><td>30KB</td></tr></table><div>starts: 1us to 3us</div>" in FLOWS._repr_html_()
    assert '<pre style="font-family: monospace">star: 3 hosts' in TOPO._repr_html_()
    assert repr(run.frames) == f"<Frames: {', '.join(run.frames)}>" and "flows, switches, ports" in repr(run.frames)
    once = ps.flow_list(TOPO, [(0, 1, "10KB", "1us"), (2, 1, "20KB", "1us")])
    assert "<div>starts: 1us</div>" in once._repr_html_()
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
