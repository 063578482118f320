"""The report page in headless Chromium: layout, no errors, every interaction, the tree as Python computes it, pictures.

Skipped without Chromium (Debian: apt install chromium) or playwright.  Pictures are compared without their text, because fonts
differ between machines; `python tests/unit/test_report_browser.py` makes them anew.
"""

import io
import re
import shutil
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from fake_simulator import synthetic_sweep
from matplotlib.image import imread

import penstock_net as ps
from penstock_net.report import html, sweep_page
from penstock_net.results.pause_tree import Pauses, Tree
from penstock_net.results.run import Run
from penstock_net.results.sweep import Sweep

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
LIMIT_MS = 300_000  # of whatever the browser does, however busy the machine
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
Axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed").Axe
if CHROMIUM is None and __name__ != "__main__":
    pytest.skip("Chromium is not installed", allow_module_level=True)

PICTURES = Path(__file__).parent / "data" / "report"
PLAIN = "* {color: transparent !important; caret-color: transparent} svg text {display: none} .modebar {display: none}"
TOLERANCE = 0.08  # share of the drawn pixels that may differ


@cache
def runs() -> tuple[Run, ...]:
    """An incast under a scheme that pauses ports, and under one that pauses queues; one without a log of pauses."""
    topo = ps.leaf_spine(hosts=16, tors=4, spines=2, buffer="1MB")
    flows = ps.flow_list(topo, [(src, 15, f"{20 + 30 * src}KB", f"{src}us") for src in range(12)])
    made = [
        ps.simulate(topo, flows, scheme=scheme, seed=1, duration="100us", measure=ps.Measure(pauses=log, window="run"))
        for scheme, log in (("pfc", True), ("bfc", True), ("hpcc", False))
    ]
    for run in made:  # what differs from machine to machine
        run.summary |= {"wall_s": 1.0, "packet_hops_per_s": 1e6, "peak_memory_bytes": 10**8}
    return tuple(made)


@pytest.fixture(scope="module")
def browser() -> Iterator:
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, timeout=LIMIT_MS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> str:
    return html.write(runs(), tmp_path_factory.mktemp("report") / "report.html").as_uri()


@pytest.fixture
def page(browser, report) -> Iterator:
    """The page at 1400 px; the test fails if the browser reports an error."""
    with opened(browser, report, 1400) as tab:
        yield tab


class opened:
    def __init__(self, browser, url: str, width: int, **options) -> None:
        self.tab = browser.new_page(viewport={"width": width, "height": 900}, **options)
        self.tab.set_default_timeout(LIMIT_MS)
        self.errors: list[str] = []
        self.tab.on("console", lambda message: self.errors.append(message.text))
        self.tab.on("pageerror", lambda error: self.errors.append(str(error)))
        self.tab.on("request", lambda request: request.url == url or self.errors.append(f"loads {request.url[:80]}"))
        self.tab.goto(url)

    def __enter__(self):
        return self.tab

    def __exit__(self, kind, *_) -> None:
        self.tab.close()
        assert kind is not None or not self.errors


def curves(page, figure: str) -> list[dict]:
    return page.evaluate(
        "name => document.getElementById(name + '-plot').data.map(t => ({name: t.name, y: Array.from(t.y)}))", figure
    )


def text(page, selector: str) -> str:
    return page.locator(selector).inner_text()


# -- layout


@pytest.mark.parametrize("width", [400, 800, 1400])
def test_it_fits_its_width(browser, report, width: int):
    with opened(browser, report, width) as page:
        page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        cells = "[...document.querySelectorAll('th, td, li, p')].filter(e => e.innerText.length > 20 && e.offsetParent)"
        narrow = page.evaluate(f"{cells}.filter(e => e.getBoundingClientRect().width < 80).map(e => e.innerText)")
        assert narrow == []
        wide = page.evaluate(
            "Math.max(...[...document.querySelectorAll('main > section')].map(e => e.getBoundingClientRect().width))"
        )
        assert wide > 0.9 * width
        boxes = [plot.bounding_box() for plot in page.locator("figure .plot").all()]
        assert len(boxes) == 6 and all(box["width"] >= min(width - 40, 400) for box in boxes)
        assert page.locator("#picture svg").bounding_box()["width"] <= width


def test_print(page):
    page.emulate_media(media="print")
    assert not page.locator("#statistic").is_visible() and page.locator("#comparison").is_visible()
    pdf = page.pdf(prefer_css_page_size=True)
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 8
    page.emulate_media(media="screen")
    page.wait_for_function("document.querySelector('#slowdown-plot').offsetWidth > 400")


def test_without_scripts_it_shows_its_tables(browser, report):
    with opened(browser, report, 1400, java_script_enabled=False) as page:
        assert "need JavaScript" in text(page, "body") and "short p99" in text(page, "#comparison")
        assert not page.locator("#slowdown-plot").is_visible() and not page.locator("#controls").is_visible()
        assert "congested" in text(page, "#pauses")


@pytest.mark.parametrize("width", [400, 1400])
def test_for_screen_readers_and_keyboards(browser, report, width: int):
    with opened(browser, report, width) as page:
        found = Axe().run(page)  # the rules of WCAG 2 and of good practice that a program can check
        assert found.violations_count == 0, found.generate_report()
        assert page.locator("#picture svg").get_attribute("aria-label") == "Network of 16 hosts, 6 switches and 24 links"


# -- figures


def test_choosing_runs(page):
    assert [curve["name"] for curve in curves(page, "slowdown")] == ["pfc", "bfc", "hpcc"]
    page.get_by_label("bfc", exact=True).uncheck()
    assert [curve["name"] for curve in curves(page, "slowdown")] == ["pfc", "hpcc"]
    assert [curve["name"] for curve in curves(page, "buffer")] == ["pfc", "hpcc"]
    assert page.locator("#comparison tbody tr:visible").count() == 2
    page.get_by_label("bfc", exact=True).check()
    assert page.locator("#comparison tbody tr:visible").count() == 3


@pytest.mark.parametrize(
    ("choice", "options"), [("p50", {"percentile": 50}), ("p99.9", {"percentile": 99.9}), ("max", {"statistic": "max"})]
)
def test_choosing_a_percentile(page, choice: str, options: dict):
    page.locator("#statistic").select_option(choice)
    for curve, run in zip(curves(page, "slowdown"), runs()):
        assert curve["y"] == pytest.approx(run.slowdown(**options)["slowdown"].to_list(), rel=1e-4)


def test_pointing_at_a_curve(page):
    place = page.locator("#slowdown-plot .scatterlayer .trace").nth(0).locator(".points path").nth(1).bounding_box()
    page.mouse.move(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
    page.wait_for_selector("#slowdown-plot .hoverlayer .hovertext")
    shown = page.locator("#slowdown-plot .hoverlayer").text_content()
    assert "pfc" in shown and "FCT slowdown:" in shown and "flows" in shown


def test_zooming(page):
    limits = "document.getElementById('buffer_time-plot')._fullLayout.xaxis.range.slice()"
    page.locator("#buffer_time-plot").scroll_into_view_if_needed()
    before = page.evaluate(limits)
    area = page.locator("#buffer_time-plot .nsewdrag").bounding_box()
    middle = area["y"] + area["height"] / 2
    page.mouse.move(area["x"] + 0.3 * area["width"], middle)
    page.mouse.down()
    page.mouse.move(area["x"] + 0.6 * area["width"], middle, steps=4)
    page.mouse.up()
    page.wait_for_function(f"{limits}[0] > {before[0] + 1e-9}")
    low, high = page.evaluate(limits)
    assert low == pytest.approx(before[0] + 0.3 * (before[1] - before[0]), abs=0.05 * before[1]) and high < 0.7 * before[1]


# -- pauses


def strokes(page) -> list[str]:
    return page.evaluate("networks[view.run].lines.map(line => line.half.getAttribute('stroke'))")


def test_the_time_slider(page):
    whole = strokes(page)
    page.locator("#time").evaluate("slider => { slider.value = 40; slider.dispatchEvent(new Event('input')); }")
    assert strokes(page) != whole and re.search(r"\d µs to \d+(\.\d+)? µs", text(page, "#time-text"))
    pauses = Pauses.of(runs()[0])
    step = pauses.end_ns / 200
    share = page.evaluate("networks[0].ports.map((_, port) => networks[0].paused(port, view.range))")
    for number, port in enumerate(sorted(pauses.links.far_end)):
        tree = pauses.causes(port, 40 * step, 41 * step)
        assert share[number] == pytest.approx(tree.paused_ns / step, abs=1e-3)
    page.get_by_role("button", name="Window").click()
    assert strokes(page) == whole


def test_clicking_a_port_shows_its_pauses_and_a_pause_sets_the_time(page):
    number = sorted(Pauses.of(runs()[0]).links.far_end).index((11, 0))
    page.locator(f".hit[data-port='{number}']").click()
    assert text(page, "#port-title").startswith("host11 → tor2: paused") and page.locator("#port").input_value() == str(number)
    assert page.evaluate("document.getElementById('wave').data.map(trace => trace.name)") == ["port"]
    page.locator("#wave").scroll_into_view_if_needed()
    spans = Pauses.of(runs()[0]).ports[11, 0]
    longest = int(np.argmax(spans[:, 1] - spans[:, 0]))
    x, y = page.evaluate(
        "x => { const plot = document.getElementById('wave'), box = plot.getBoundingClientRect(), full = plot._fullLayout;"
        "return [box.x + full._size.l + full.xaxis.d2p(x), box.y + full._size.t + full._size.h / 2]; }",
        spans[longest][0] / 1e6,
    )
    page.mouse.move(x + 1, y)
    page.wait_for_selector("#wave .hoverlayer .hovertext")
    page.mouse.click(x + 1, y)
    page.wait_for_function("view.range !== null")
    assert page.evaluate("view.range") == pytest.approx(spans[longest], abs=1)
    assert text(page, "#port-title").startswith("host11 → tor2: paused 100 %")


GROWN = """([run, port, way, start, end]) => {
  const net = networks[run], grow = (port, spans, path) => {
    const {branches, rest} = net.tree(port, spans)(way);
    return [port, total(spans), rest, branches.map(b => path.includes(b.port) ? [b.port, total(b.spans), total(b.spans), []]
      : grow(b.port, b.spans, [...path, b.port]))];
  };
  return grow(port, common(net.spans[port] || [], [[start, end]]), [port]);
}"""


@pytest.mark.parametrize("run", [0, 1])
@pytest.mark.parametrize("way", ["causes", "victims"])
def test_the_tree_is_that_of_python(page, run: int, way: str):
    pauses = Pauses.of(runs()[run])
    numbers = {port: number for number, port in enumerate(sorted(pauses.links.far_end))}

    def same(tree: Tree, shown: list) -> None:
        assert shown[0] == numbers[tree.port] and shown[1:3] == pytest.approx([tree.paused_ns, tree.rest_ns], abs=100)
        assert {branch[0] for branch in shown[3]} == {numbers[branch.port] for branch in tree.branches}
        for branch in tree.branches:
            same(branch, next(one for one in shown[3] if one[0] == numbers[branch.port]))

    assert len(pauses.ports) > 10
    for port in pauses.ports:
        for start, end in ((0, pauses.end_ns), (0.2 * pauses.end_ns, 0.4 * pauses.end_ns)):
            tree = getattr(pauses, way)(port, round(start), round(end))
            same(tree, page.evaluate(GROWN, [run, numbers[port], way, round(start), round(end)]))


def test_the_tree_on_the_page_leads_to_the_congestion(page):
    page.locator("#port").select_option(label=page.locator("#port option", has_text="host11 → tor2").inner_text())
    for _ in range(3):
        page.locator("#causes button[aria-expanded=false]").evaluate_all("all => all.forEach(one => one.click())")
    shown = text(page, "#causes")
    assert "tor2 → spine" in shown and "→ tor3" in shown and "tor3 itself congested" in shown
    page.locator("#causes button", has_text="→ tor3").first.click()
    assert "→ tor3: paused" in text(page, "#port-title") and "tor2 → spine" in text(page, "#victims")


def test_a_run_without_a_log_says_how_to_record_one(page):
    assert "measure.pauses=true" in text(page, "#pauses")
    page.locator("#network-run").select_option("hpcc")
    assert page.locator("#time").is_disabled() and page.locator("#picture svg").is_visible()


def test_enlarging_the_picture_scrolls_it_and_not_the_page(page):
    before = page.locator("#picture svg").bounding_box()["width"]
    page.get_by_label("Enlarge the picture").click()
    assert page.locator("#picture svg").bounding_box()["width"] == pytest.approx(1.6 * before, rel=0.02)
    assert page.evaluate("document.documentElement.scrollWidth") <= 1400


# -- the page of a sweep


@pytest.fixture(scope="module")
def swept(tmp_path_factory) -> tuple[Sweep, str]:
    """A sweep and its page."""
    folder = tmp_path_factory.mktemp("sweep")
    sweep = synthetic_sweep(folder)
    return sweep, sweep_page.write(sweep, folder / "sweep.html").as_uri()


@pytest.mark.parametrize("width", [400, 1400])
def test_a_sweep_fits_its_width_and_is_for_screen_readers(browser, swept, width: int):
    with opened(browser, swept[1], width) as page:
        page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        boxes = [plot.bounding_box() for plot in page.locator("figure .plot").all()]
        assert len(boxes) == 2 and all(box["width"] >= min(width - 40, 400) for box in boxes)
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize(
    ("choice", "options"),
    [("p99", {}), ("p50", {"percentile": 50}), ("mean", {"statistic": "mean"}), ("max", {"statistic": "max"})],
)
def test_slowdown_of_a_sweep_is_that_of_python(browser, swept, choice: str, options: dict):
    with opened(browser, swept[1], 1400) as page:
        page.locator("#class").select_option("all")
        page.locator("#statistic").select_option(choice)
        read = "document.getElementById('slowdown-plot').data.map(t => [t.name, t.y, t.customdata || null])"
        shown = page.evaluate(read)
    lines = {name: (y, custom) for name, y, custom in shown if custom}
    table = swept[0].slowdown(**options)
    assert lines.keys() == {"bfc, load 0.4", "bfc, load 0.8", "hpcc, load 0.4", "hpcc, load 0.8"}
    assert sum(custom is None for _, _, custom in shown) == 4  # the bands
    for (load, scheme), part in table.group_by("workload.0.load", "scheme"):
        y, custom = lines[f"{scheme}, load {load}"]
        assert y == pytest.approx(part["mean"].to_list(), rel=1e-4)
        assert [low for low, _, _ in custom] == pytest.approx(part["low"].fill_null(part["mean"]).to_list(), rel=1e-4)
        assert [high for _, high, _ in custom] == pytest.approx(part["high"].fill_null(part["mean"]).to_list(), rel=1e-4)
        assert [runs for _, _, runs in custom] == part["runs"].to_list()


def test_a_statistic_against_a_parameter_with_error_bars(browser, swept):
    bars = "below: t.error_y.arrayminus, above: t.error_y.array"
    read = f"document.getElementById('against-plot').data.map(t => ({{name: t.name, x: t.x, y: t.y, {bars}}}))"
    with opened(browser, swept[1], 1400) as page:
        shown = page.evaluate(read)
        page.locator("#y").select_option("max_buffer_bytes")
        buffers = page.evaluate(read)
    means = swept[0].over_seeds("short_p99").filter(pl.col("scheme") == "hpcc")
    assert [(line["name"], line["x"]) for line in shown] == [("bfc", [0.4, 0.8]), ("hpcc", [0.4, 0.8])]
    assert shown[1]["y"] == pytest.approx(means["mean"].to_list())
    assert shown[1]["above"] == pytest.approx((means["high"] - means["mean"]).to_list())
    assert shown[1]["below"] == pytest.approx((means["mean"] - means["low"]).to_list())
    assert [line["y"] for line in buffers] == [pytest.approx([2, 2]), pytest.approx([6, 6])]  # MB


def test_choosing_schemes_and_values_of_a_sweep(browser, swept):
    names = "id => document.getElementById(id).data.filter(t => t.name && t.customdata).map(t => t.name)"
    with opened(browser, swept[1], 1400) as page:
        assert page.locator("#comparison tbody tr:visible").count() == 4
        page.get_by_label("bfc", exact=True).uncheck()
        assert page.evaluate(names, "slowdown-plot") == ["hpcc, load 0.4", "hpcc, load 0.8"]
        assert page.evaluate(names, "against-plot") == ["hpcc"] and page.locator("#comparison tbody tr:visible").count() == 2
        page.locator("select.parameter").select_option("0.8")
        assert page.evaluate(names, "slowdown-plot") == ["hpcc, load 0.8"]
        assert text(page, "#slowdown-legend") == "hpcc, load 0.8" and text(page, "#against-legend") == "hpcc"
        assert page.evaluate("document.getElementById('against-plot').data[0].x") == [0.8]


# -- pictures


def test_sizes_on_an_axis_are_written_as_everywhere(page):
    """1 KB is 1000 B, with a capital K; an axis of less than two decades has labels, too."""
    assert page.evaluate("[1, 999, 1000, 20000, 1.5e6, 1e9, 12345].map(bytesText)") == [
        "1 B",
        "999 B",
        "1 KB",
        "20 KB",
        "1.5 MB",
        "1 GB",
        "12.3 KB",
    ]
    labels = page.locator("#slowdown-plot .xtick text").all_text_contents()
    assert len(labels) >= 2 and all(re.fullmatch(r"\d+ [KMG]?B", label) for label in labels)


def test_ranks_over_time(browser, tmp_path):
    """A bar per operation and rank, rows named by job and rank; without the run there is no figure."""
    topo = ps.star(hosts=4)
    flows = ps.training(topo, hosts=[0, 1], data=2, layers=2, parameters="50KB", class_name="a")
    flows += ps.training(topo, hosts=[2, 3], data=2, layers=1, parameters="50KB", class_name="b")
    run, other = ps.simulate(topo, flows, scheme="pfc"), runs()[0].changed(summary=runs()[0].summary | {"label": "other"})
    with opened(browser, html.write([run, other], tmp_path / "r.html").as_uri(), 1400) as page:
        assert page.locator("#timeline0-plot .ytick text").all_text_contents() == ["a 0", "a 1", "b 0", "b 1"]
        drawn = page.evaluate("document.getElementById('timeline0-plot').data.map(t => [t.name, t.x.length])")
        table = run.frame("timeline").drop_nulls().filter(pl.col("finish_ns") > pl.col("start_ns"))
        assert sum(count for _, count in drawn) == table.height and "all-reduce" in dict(drawn)
        assert page.locator("#timeline0").bounding_box()["width"] > 1000
        page.locator("#schemes input").first.click()
        assert not page.locator("#timeline0").is_visible()


def pictures(page) -> dict[str, bytes]:
    """The figures and the network as PNGs without text, at a fixed size."""
    page.add_style_tag(content=PLAIN)
    page.locator("#controls").evaluate("bar => { bar.style.position = 'static'; }")
    page.mouse.move(0, 0)
    names = {
        "slowdown": "#slowdown-plot",
        "buffer": "#buffer-plot",
        "pause_time": "#pause_time-plot",
        "network": "#picture",
        "wave": "#wave",
    }
    return {name: page.locator(selector).screenshot(animations="disabled") for name, selector in names.items()}


def different(name: str, png: bytes) -> float:
    """Share of the pixels drawn in a picture, or in the stored one, that are not the same in both."""
    made, stored = (imread(source)[..., :3] for source in (io.BytesIO(png), PICTURES / f"{name}.png"))
    assert made.shape[1] == stored.shape[1] and abs(made.shape[0] - stored.shape[0]) <= 2, name
    made, stored = made[: len(stored)], stored[: len(made)]
    drawn = ((made < 0.97) | (stored < 0.97)).any(axis=2)
    return float((np.abs(made - stored).max(axis=2) > 0.2).sum() / drawn.sum())


def test_pictures_are_as_stored(page):
    for name, png in pictures(page).items():
        assert different(name, png) < TOLERANCE, name
    page.evaluate("document.querySelector('#schemes input').click()")
    page.mouse.move(0, 0)
    assert different("slowdown", page.locator("#slowdown-plot").screenshot()) > TOLERANCE


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True, parents=True)
    address = html.write(runs(), Path(sys.argv[1])).as_uri()
    with (
        playwright.sync_playwright() as started,
        opened(started.chromium.launch(executable_path=CHROMIUM, timeout=LIMIT_MS), address, 1400) as tab,
    ):
        for file, png in pictures(tab).items():
            (PICTURES / f"{file}.png").write_bytes(png)
