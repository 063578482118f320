"""The HTML report: one whole page, its numbers, what differs between the runs. test_report_browser.py opens it."""

import json
import re
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from fake_simulator import synthetic

from penstock_net.errors import SpecError
from penstock_net.report import elements, figures, html, plots, tables
from penstock_net.report.differences import Difference, differences
from penstock_net.results.run import Run

RUNS = [synthetic(name, 3000) for name in ("bfc", "hpcc", "dcqcn", "ideal_fq")]
VOID = ("meta", "input", "br")
SPEC = """
[run]
duration = "1ms"
seed = 1
threads = {threads}
[topology]
kind = "leaf_spine"
rate = "{rate}"
[scheme]
name = "{scheme}"
[[workload]]
kind = "poisson"
load = {load}
"""


class Checker(HTMLParser):
    """Collects what is open, what the page would load, and its headings, labels and ids."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.headings: list[int] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.regions: list[str | None] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.links += [value or "" for key, value in attrs if key in ("src", "href")]
        self.ids += [given["id"] or ""] if "id" in given else []
        self.references += (given.get("aria-labelledby") or given.get("aria-describedby") or "").split()
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if given.get("role") in ("region", "img"):
            self.regions.append(given.get("aria-label"))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def data_of(page: str) -> dict:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found
    return json.loads(found.group(1))


def test_it_is_one_whole_page_without_anything_to_load(tmp_path: Path):
    run = synthetic("bfc", 500)
    run.summary |= {
        "warnings": ["<script>alert(1)</script>"],
        "spec": '[run]\nduration = "1ms" # <b>',
        "label": "b<f>c </script><!-- $x",
    }
    path = html.write([run, RUNS[1]], tmp_path / "report.html", title="A & B $title")
    page = path.read_text()
    checker = Checker(page)
    assert not checker.open
    assert checker.links == ["#comparison", "#figures", "#pauses", "#runs"]
    assert "<script>alert" not in page and "A &amp; B $title" in page and "b&lt;f&gt;c" in page
    assert data_of(page)["runs"][0]["label"] == run.summary["label"]
    assert len(page) < 2e6
    with pytest.raises(SpecError, match="at least one run"):
        html.page([])


def test_what_a_screen_reader_needs():
    checker = Checker(html.page(RUNS))
    assert checker.headings[0] == 1 and all(b - a <= 1 for a, b in zip(checker.headings, checker.headings[1:]))
    assert checker.regions and all(checker.regions)
    assert set(checker.references) <= set(checker.ids) and len(set(checker.ids)) == len(checker.ids)


def test_curves_are_those_of_the_runs():
    found = {figure.name: figure for figure in figures.figures(RUNS, "receiver")}
    curve = found["slowdown"].variants["background|p99"][1]
    assert curve is not None
    table = RUNS[1].slowdown(99, class_=RUNS[1].background())
    assert curve["y"] == pytest.approx(table["slowdown"].to_list(), rel=1e-4) and curve["n"] == table["flows"].to_list()
    worst = found["slowdown"].variants["all|max"][1]
    assert worst is not None and max(worst["y"]) == pytest.approx(RUNS[1].flows["slowdown"].max(), rel=1e-4)
    incast = found["slowdown_cdf"].variants["=incast|"][2]
    flows = RUNS[2].selected("incast")["slowdown"].drop_nulls()
    assert incast is not None and incast["x"][-1] == pytest.approx(flows.max(), rel=1e-4) and incast["y"][-1] == 1
    buffer = found["buffer"]
    assert buffer.table.heads[-1] == "largest" and buffer.table.runs == [0, 1, 2, 3]
    assert float(buffer.table.rows[0][-1]) == pytest.approx(RUNS[0].switches["buffer_bytes"].max() / 1e6, rel=0.01)


def test_a_class_that_a_run_has_not():
    other = synthetic("hpcc", 50)
    other.flows = other.selected("poisson")
    found = figures.figures([RUNS[0], other], "receiver")[0]
    assert found.variants["=incast|p50"][0] and found.variants["=incast|p50"][1] is None


def test_the_same_looks_as_in_plots():
    for look, style in zip(html.looks(RUNS), plots.styles(tuple(RUNS))):
        assert look["colour"] == style["color"] and elements.SYMBOLS[style["marker"]] == look["symbol"]


def test_by_the_sender_s_clock():
    page = html.page([RUNS[1]], clock="sender")
    assert (
        escape(tables.note([RUNS[1]], "sender")) in page
        and escape(tables.note([RUNS[1]])) not in page
        and "by the sender&#x27;s clock" in page
    )
    curve = data_of(page)["figures"][0]["variants"]["background|p99"][0]
    table = RUNS[1].slowdown(99, class_=RUNS[1].background(), clock="sender")
    assert curve["y"] == pytest.approx(table["slowdown"].to_list(), rel=1e-4)
    with pytest.raises(SpecError, match='clock = "x": must be one of receiver, sender'):
        html.page([RUNS[1]], clock="x")


def test_short_is_below_3kb_and_long_above_3mb():
    """A flow of exactly 3 KB or 3 MB is neither."""
    sizes = [2_999, 3_000, 3_001, 2_999_999, 3_000_000, 3_000_001]
    same = {"start_ps": [0] * 6, "src": [0] * 6, "dst": [1] * 6, "class_id": [0] * 6, "priority": [0] * 6, "ideal_ps": [100] * 6}
    flows = {**same, "bytes": sizes, "finish_ps": [100, 200, 300, 400, 500, 600], "classes": ("poisson",)}
    row = tables.row(Run.from_arrays(flows, summary={"scheme": "bfc"}))
    assert [row[key] for key in ("short_p50", "short_p99", "long_p50", "long_p99")] == [1, 1, 6, 6]


def test_a_run_without_samples_or_flows():
    run = Run(RUNS[0].flows, RUNS[0].switches.clear(), RUNS[0].ports, summary=RUNS[0].summary)
    assert "has no samples" in html.page([run])
    empty = Run(RUNS[0].flows.clear(), RUNS[0].switches.clear(), RUNS[0].ports.clear())
    assert not Checker(html.page([empty])).open


def with_spec(**keys: object) -> Run:
    run = synthetic("bfc", 100)
    run.summary["spec"] = SPEC.format(**{"rate": "100Gbps", "load": 0.5, "threads": 1, "scheme": "bfc"} | keys)
    return run


def test_runs_that_differ_in_their_scheme_only():
    assert differences([with_spec(), with_spec(scheme="hpcc", threads=4)]) == []
    assert "differ in more" not in html.page([with_spec(), with_spec(scheme="hpcc")])


def test_what_else_differs_is_said():
    runs = [with_spec(), with_spec(load=0.8, rate="40Gbps"), with_spec()]
    assert differences(runs) == [
        Difference("topology.rate", ["100Gbps", "40Gbps", "100Gbps"]),
        Difference("workload.0.load", ["0.5", "0.8", "0.5"]),
    ]
    page = html.page(runs)
    assert "These runs differ in more than their scheme" in page and "<code>workload.0.load</code>" in page


def test_runs_without_a_spec_are_compared_by_what_they_simulated():
    seeds = differences([synthetic("bfc", 100, seed=1), synthetic("bfc", 100, seed=2)])
    assert seeds == [Difference("seed", ["1", "2"]), Difference("flows", ["flows 1", "flows 2"])]
    assert differences([with_spec(), synthetic("bfc", 100)]) == []
    same, other = synthetic("bfc", 100), synthetic("bfc", 100)
    other.flows = other.flows.with_columns(bytes=other.flows["bytes"] + 1)
    assert differences([same, other]) == [Difference("flows", ["flows 1", "flows 2"])]
    other.flows, other.ports = same.flows, other.ports.head(3)
    assert differences([same, other]) == [Difference("network", ["network 1", "network 2"])]


def test_networks_and_flows_are_numbered_in_the_order_in_which_they_differ():
    """Two runs of the same flows, then another one: it has the second, not the third."""
    (flows,) = differences([synthetic("bfc", number) for number in (100, 100, 50, 100)])
    assert flows == Difference("flows", ["flows 1", "flows 1", "flows 2", "flows 1"])


def test_cells_have_their_units():
    """A drain is ns, a wall time s, a buffer bytes, a fraction a share."""
    found = [tables.show(*cell) for cell in (("drain_ns", 1500.0), ("wall_s", 90.0), ("max_buffer_bytes", 12_345))]
    assert found == ["1.5us", "90s", "12.3KB"] and tables.show("pfc_pause_fraction", 0.0123) == "1.2 %"


def test_a_scheme_of_one_s_own_is_no_difference():
    """Its file is the scheme, and so is a setting of hosts that only some schemes decide themselves."""
    own, built_in = with_spec(), with_spec(scheme="hpcc")
    own.summary["spec"] += '\n[inputs]\n"inputs/bolt.py" = "faa139"\n[host]\npacing = "from due time"\n'
    assert differences([own, built_in]) == []
    other = with_spec(scheme="dcqcn")
    other.summary["spec"] += '\n[inputs]\n"inputs/sizes.csv" = "faa139"\n[host]\npacing = "from start"\n'
    assert {difference.key for difference in differences([own, built_in, other])} == {"inputs.inputs/sizes.csv", "host.pacing"}


def test_runs_that_are_measured_as_a_whole_have_no_window_that_differs():
    runs = [synthetic("bfc", 50), synthetic("hpcc", 50)]
    for run, end in zip(runs, (1e6, 2.5e6)):
        run.summary |= {"window": "run", "window_ns": [0, end]}
    assert tables.window_note(runs) == "measurement window: the whole of each run, which ended after 1ms to 2.5ms"
    assert plots.canvas.window_text(runs) == "the whole of each run"
    runs[0].summary["window"] = "arrivals"
    assert "measurement windows differ" in tables.window_note(runs) and "differ" in plots.canvas.window_text(runs)
