"""Figures, tables and the HTML report."""

import re
from html.parser import HTMLParser
from pathlib import Path

import matplotlib.colors
import numpy as np
import polars as pl
import pytest
from fake_simulator import synthetic

from penstock.errors import SpecError
from penstock.report import html, plots, tables
from penstock.results.run import Run

RUNS = [synthetic(name, 3000) for name in ("bfc", "hpcc", "dcqcn", "ideal_fq")]


@pytest.mark.parametrize("kind", plots.KINDS)
@pytest.mark.parametrize("count", [1, 4])
def test_every_figure_has_labels_and_fits_a_column(kind: str, count: int):
    figure = plots.draw(kind, *RUNS[:count])
    axes = figure.axes[0]
    assert figure.get_size_inches()[0] == plots.WIDTH
    assert axes.get_xlabel()
    if kind != "pause_time":
        assert axes.get_ylabel() and len(axes.get_lines()) >= count
        names = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
        assert names == ([run.label for run in RUNS] if count > 1 else [])
    else:
        assert len(axes.patches) == count
    assert plots.render(figure, "png")[:4] == b"\x89PNG"


@pytest.mark.parametrize(("form", "start"), [("pdf", b"%PDF"), ("svg", b"<?xml"), ("eps", b"%!PS"), ("png", b"\x89PNG")])
def test_formats_and_repeatable_bytes(tmp_path: Path, form: str, start: bytes):
    path = plots.save(plots.slowdown(*RUNS), tmp_path / f"a.{form}")
    assert path.read_bytes().startswith(start)
    if form != "eps":
        assert plots.render(plots.slowdown(*RUNS), form) == path.read_bytes()
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_fonts_are_embedded_as_outlines_that_editors_can_read():
    assert b"/Type3" not in plots.render(plots.slowdown(*RUNS), "pdf")


def test_colours_belong_to_families_and_can_be_told_apart():
    again = plots.styles((RUNS[3], RUNS[0]))
    assert again[1]["color"] == plots.styles((RUNS[0],))[0]["color"] == plots.COLOURS["bfc"]
    assert plots.family("hpcc:ns3") == plots.family("hpcc+pfc") == "hpcc"
    assert plots.family("dcqcn+floodgate") == "floodgate" and plots.family("my_scheme") == "my_scheme"
    looks = plots.styles(tuple(synthetic(n, 10) for n in ("hpcc", "hpcc+pfc", "mine", "yours", "bfc")))
    assert len({(look["color"], str(look["linestyle"])) for look in looks}) == 5
    colours = {name: np.array(matplotlib.colors.to_rgb(c)) for name, c in plots.COLOURS.items()}
    papers = [colours[name] for name in ("bfc", "hpcc", "dcqcn", "dctcp", "ideal_fq", "floodgate", "backdraft")]
    assert min(np.abs(a - b).max() for i, a in enumerate(papers) for b in papers[:i]) > 0.2


def test_curves_are_right():
    run = RUNS[1]
    x, y = plots._cdf(np.array([3, 1, 1, 2]))
    assert x.tolist() == [1, 1, 2, 3] and y.tolist() == [0, 0.5, 0.75, 1]
    x, y = plots._cdf(np.arange(10**6))
    assert len(x) <= plots.POINTS + 1 and x[-1] == 10**6 - 1 and y[-1] == 1
    line = plots.slowdown(run).axes[0].get_lines()[0]
    table = run.slowdown(99, class_=run.background())
    assert line.get_ydata().tolist() == table["slowdown"].to_list()
    top = plots.timeseries(run).axes[0].get_lines()[0].get_ydata().max()
    assert top == run.switches["buffer_bytes"].max() / 1e6


def test_options():
    assert "50th" in plots.slowdown(RUNS[0], percentile=50).axes[0].get_ylabel()
    assert "mean" in plots.slowdown(RUNS[0], statistic="mean").axes[0].get_ylabel()
    assert plots._ordinal(99.9) == "99.9th" and plots._ordinal(1) == "1st" and plots._ordinal(12) == "12th"
    assert "switch 17" in plots.timeseries(RUNS[0], switch=17, column="active_flows").axes[0].get_ylabel()
    bare = Run(RUNS[0].flows, RUNS[0].switches, RUNS[0].ports, summary=RUNS[0].summary)
    assert plots.active_flows(bare).axes[0].get_lines()


def test_a_run_without_samples_says_what_to_do():
    run = Run(RUNS[0].flows, RUNS[0].switches.clear(), RUNS[0].ports, summary=RUNS[0].summary)
    for kind in ("buffer_cdf", "timeseries", "active_flows"):
        with pytest.raises(SpecError, match="--set measure"):
            plots.draw(kind, run)
    with pytest.raises(SpecError, match="samples of switch 99"):
        plots.timeseries(RUNS[0], switch=99)


def test_what_cannot_be_drawn():
    for call, rule in (
        (lambda: plots.draw("slowdwn", *RUNS), 'did you mean "slowdown"'),
        (lambda: plots.slowdown(), "at least one run"),
        (lambda: plots.timeseries(RUNS[0], column="bytes"), "cannot be drawn"),
        (lambda: plots.check_format("a.doc"), "must end in .pdf"),
        (lambda: plots.check_format("a"), "must end in .pdf"),
    ):
        with pytest.raises(SpecError, match=re.escape(rule)):
            call()


def test_the_table(tmp_path: Path):
    frame = tables.comparison(RUNS)
    assert frame["scheme"].to_list() == ["bfc", "hpcc", "dcqcn", "ideal_fq"]
    flows = RUNS[0].selected("!incast").drop_nulls("slowdown")
    assert frame["short_p99"][0] == pytest.approx(np.percentile(flows.filter(flows["bytes"] < 3000)["slowdown"], 99))
    text = tables.text(RUNS)
    assert len(text.splitlines()) == 6 and max(map(len, text.splitlines())) <= 105
    nothing = Run(RUNS[0].flows.clear(), RUNS[0].switches, RUNS[0].ports)
    assert "-" in tables.text([nothing])


class _Checker(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for key, value in attrs if key in ("src", "href")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_report_is_one_whole_page(tmp_path: Path):
    run = synthetic("bfc", 500)
    run.summary |= {
        "warnings": ["<script>alert(1)</script>"],
        "spec": '[run]\nduration = "1ms" # <b>',
        "label": "b<f>c",
    }
    path = html.write([run, RUNS[1]], tmp_path / "report.html", title="A & B")
    page = path.read_text()
    checker = _Checker()
    checker.feed(page)
    assert not checker.open
    assert len(checker.links) == len(plots.KINDS) and all(link.startswith("data:image/svg") for link in checker.links)
    assert "<script" not in page and "A &amp; B" in page and "b&lt;f&gt;c" in page
    with pytest.raises(SpecError, match="at least one run"):
        html.page([])


def test_by_the_sender_s_clock():
    run = RUNS[1]
    assert "by the sender" in plots.slowdown(run, clock="sender").axes[0].get_ylabel()
    table = tables.comparison([run], clock="sender")
    flows = run.selected("poisson").filter(pl.col("bytes") < 3000)
    assert table["short_p99"][0] == flows["sender_slowdown"].quantile(0.99, "linear") != tables.comparison([run])["short_p99"][0]
    page = html.page([run], clock="sender")
    assert tables.SENDER_NOTE in page and tables.NOTE not in page
    with pytest.raises(SpecError, match='clock = "x": must be one of receiver, sender'):
        html.page([run], clock="x")


def test_a_report_of_a_run_without_samples():
    run = Run(RUNS[0].flows, RUNS[0].switches.clear(), RUNS[0].ports, summary=RUNS[0].summary)
    assert "has no samples" in html.page([run])
