"""Figures and tables."""

import io
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import matplotlib.colors
import numpy as np
import polars as pl
import pytest
from fake_simulator import synthetic
from matplotlib.colors import to_rgb
from PIL import Image

import penstock_net
import penstock_net as ps
import penstock_papers
from penstock_net import palette
from penstock_net.cli import main
from penstock_net.cli._runs import load
from penstock_net.errors import SpecError
from penstock_net.plot_kinds import DEFAULTS, KINDS
from penstock_net.report import plots, tables
from penstock_net.report.plots import canvas, flows
from penstock_net.report.plots.select import FlowFilter
from penstock_net.results.distribution import Distribution
from penstock_net.results.run import Run
from penstock_net.sim.config import Measure
from penstock_papers import style

RUNS = [synthetic(name, 3000) for name in ("bfc", "hpcc", "dcqcn", "ideal_fq")]
MS = 1e6  # ns


@pytest.fixture(scope="module")
def recorded() -> list[Run]:
    """Three short runs with every recording that a figure needs."""
    topo = ps.leaf_spine(hosts=8, tors=2, spines=2, rate="100Gbps", delay="1us", buffer="300KB")
    flows = ps.poisson(topo, sizes="google", load=0.5, duration="60us", seed=1)
    flows = flows + ps.incast(topo, fan_in=6, total="600KB", every="30us", duration="60us", seed=1)
    logs: dict[str, Any] = dict.fromkeys(("pauses", "queues", "port_series", "flow_series"), True)
    measure = ps.Measure(sample="1us", **logs)
    return [ps.simulate(topo, flows, scheme=name, duration="60us", measure=measure) for name in ("bfc", "hpcc", "ideal_fq")]


# of sweeps: test_sweeps.py; of ranks: test_ranks_are_drawn; of what schemes record: tests/schemes/test_recording.py
OF_RUNS = [kind for kind in plots.KINDS if kind not in ("against", "pareto", "rank_timeline", "record", "ttft")]


@pytest.mark.parametrize("kind", OF_RUNS)
@pytest.mark.parametrize("count", [1, 3])
def test_every_figure_has_labels_and_fits_a_column(recorded: list[Run], kind: str, count: int):
    figure = plots.draw(kind, *recorded[:count])
    drawn = plots.render(figure, "png")
    axes = [panel for panel in figure.axes if panel.get_label() != "<colorbar>"]
    assert figure.get_size_inches()[0] == plots.WIDTH and figure.get_size_inches()[1] < 9
    assert Image.open(io.BytesIO(drawn)).width == round(plots.WIDTH * 300)
    assert axes[-1].get_xlabel()
    if kind in ("port", "link_rate", "pause_map", "pause_tree"):
        titles = [panel.get_title(loc="left") for panel in axes]
        shown = [run.label for run in recorded if run.pauses.height or not kind.startswith("pause")]
        assert titles == (shown if count > 1 else [""])
    elif kind == "pause_time":
        assert [text.get_text() for text in axes[0].get_yticklabels()] == [run.label for run in recorded[:count]]
    else:
        names = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
        wanted = [run.label for run in recorded[:count] if kind != "active_flows" or run.label != "hpcc"]
        assert names == (wanted if count > 1 else [])
        assert len(axes[0].get_lines()) >= len(wanted)
    if not kind.startswith("pause"):
        assert axes[0].get_ylabel() or figure._supylabel.get_text()


@pytest.mark.parametrize("kind", OF_RUNS)
def test_nothing_is_cut_off(recorded: list[Run], kind: str):
    """Every text lies within the figure, whatever the labels are."""
    runs = [replace(run, summary=run.summary | {"label": f"{run.label}, a long label of its own"}) for run in recorded]
    figure = plots.draw(kind, *runs)
    figure.draw_without_rendering()
    everything = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    assert everything.x0 > -0.02 and everything.x1 < width + 0.02, everything
    assert everything.y0 > -0.02 and everything.y1 < height + 0.02, everything


def test_kinds_are_described_once():
    assert list(plots.KINDS) == list(KINDS)
    options = {field.name for field in fields(Measure)}
    for kind in KINDS.values():
        assert {need.split(" = ")[0] for need in kind.needs} <= options


@pytest.mark.parametrize(("form", "start"), [("pdf", b"%PDF"), ("svg", b"<?xml"), ("eps", b"%!PS"), ("png", b"\x89PNG")])
def test_formats_and_repeatable_bytes(tmp_path: Path, form: str, start: bytes):
    path = plots.save(plots.slowdown(*RUNS), tmp_path / f"a.{form}")
    assert path.read_bytes().startswith(start)
    if form != "eps":
        assert plots.render(plots.slowdown(*RUNS), form) == path.read_bytes()
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("way", ["render", "savefig"])
@pytest.mark.parametrize("form", ["pdf", "eps"])
def test_fonts_are_embedded_as_truetype_in_every_way_of_saving(way: str, form: str):
    figure = plots.slowdown(*RUNS)
    if way == "render":
        content = plots.render(figure, form)
    else:
        out = io.BytesIO()
        figure.savefig(out, format=form)
        content = out.getvalue()
    truetype, type3 = {"pdf": (b"/FontFile2", b"/Type3"), "eps": (b"/FontType 42", b"/FontType 3")}[form]
    assert truetype in content and type3 not in content


@pytest.mark.parametrize("package", [penstock_net, penstock_papers])
def test_every_figure_is_of_the_class_that_embeds_truetype(package: Any):
    for path in Path(package.__file__).parent.rglob("*.py"):
        text = path.read_text()
        if "Figure(figsize" in text or "plt.subplots(" in text:
            assert "from penstock_net.printing import Figure" in text, path


def test_figures_of_papers_embed_truetype_too():
    figure, axes = style.figure()
    axes.set_title("a")
    out = io.BytesIO()
    figure.savefig(out, format="pdf")
    assert b"/FontFile2" in out.getvalue() and b"/Type3" not in out.getvalue()


@pytest.mark.parametrize("log_axis", [canvas.log_axis, style.log_axis])
@pytest.mark.parametrize("low", [1.0, 1.3, 2.1, 6.3, 950.0])
@pytest.mark.parametrize("ratio", [1.02, 1.1, 1.5, 2, 4, 9, 50, 1e4, 1e12])
def test_a_log_axis_always_has_readable_labels(log_axis: Any, low: float, ratio: float):
    figure, axes = style.figure()
    axes.set_ylim(low, low * ratio)
    log_axis(axes.yaxis, lambda value, _: f"{value:g}")
    axes.set_ylim(low, low * ratio)
    figure.draw_without_rendering()
    labels = [
        tick.label1.get_text()
        for tick in axes.yaxis.get_major_ticks()
        if low <= tick.get_loc() <= low * ratio and tick.label1.get_text()
    ]
    assert 1 < len(labels) == len(set(labels)) < 14


def test_colours_belong_to_families_and_can_be_told_apart():
    again = plots.styles((RUNS[3], RUNS[0]))
    assert again[1]["color"] == plots.styles((RUNS[0],))[0]["color"] == plots.COLOURS["bfc"]
    assert palette.family("hpcc:ns3") == palette.family("hpcc+pfc") == "hpcc"
    assert palette.family("dcqcn+floodgate") == "floodgate" and palette.family("my_scheme") == "my_scheme"
    looks = plots.styles(tuple(synthetic(n, 10) for n in ("hpcc", "hpcc+pfc", "mine", "yours", "bfc")))
    assert len({(look["color"], str(look["linestyle"])) for look in looks}) == 5
    colours = {name: np.array(matplotlib.colors.to_rgb(c)) for name, c in plots.COLOURS.items()}
    papers = [colours[name] for name in ("bfc", "hpcc", "dcqcn", "dctcp", "ideal_fq", "floodgate", "backdraft")]
    assert min(np.abs(a - b).max() for i, a in enumerate(papers) for b in papers[:i]) > 0.2


def test_curves_are_right():
    run = RUNS[1]
    x, y = canvas.cdf(Distribution.of(np.array([3, 1, 1, 2])))
    assert x.tolist() == [1, 1, 2, 3] and y.tolist() == [0, 0.5, 0.75, 1]
    x, y = canvas.cdf(Distribution.of(np.arange(10**6)))
    assert len(x) <= plots.POINTS + 1 and x[-1] == 10**6 - 1 and y[-1] == 1
    line = plots.slowdown(run).axes[0].get_lines()[0]
    table = run.slowdown(99, class_=run.background())
    assert line.get_ydata().tolist() == table["slowdown"].to_list()
    top = plots.timeseries(run).axes[0].get_lines()[0].get_ydata().max()
    assert top == run.switches["buffer_bytes"].max() / 1e6


def test_options():
    assert "50th" in plots.slowdown(RUNS[0], percentile=50).axes[0].get_ylabel()
    assert "mean" in plots.slowdown(RUNS[0], statistic="mean").axes[0].get_ylabel()
    assert flows.ordinal(99.9) == "99.9th" and flows.ordinal(1) == "1st" and flows.ordinal(12) == "12th"
    assert "switch 17" in plots.timeseries(RUNS[0], switch=17, column="active_flows").axes[0].get_ylabel()
    bare = Run(RUNS[0].flows, RUNS[0].switches, RUNS[0].ports, summary=RUNS[0].summary)
    assert plots.active_flows(bare).axes[0].get_lines()


def test_a_missing_recording_says_what_to_do(recorded: list[Run]):
    for kind, described in ((name, KINDS[name]) for name in OF_RUNS):
        run = Run(recorded[1].flows, recorded[1].switches.clear(), recorded[1].ports, summary=recorded[1].summary)
        if described.needs:
            with pytest.raises(SpecError, match=r"run it again with \[measure\] ") as caught:
                plots.draw(kind, run)
            assert all(need in str(caught.value) for need in described.needs)
        else:
            plots.draw(kind, run)
    bare = Run(recorded[0].flows, recorded[0].switches, recorded[0].ports, recorded[0].pauses, summary=recorded[0].summary)
    with pytest.raises(SpecError, match="queues = true"):
        plots.port(bare, queue=0)


def test_the_window_is_drawn_and_the_drain_is_grey(recorded: list[Run]):
    run = recorded[0]
    start, end = run.window
    assert 0 <= start < end < run.summary["end_ns"]
    inside = run.switches.filter(pl.col("time_ns").is_between(start, end, closed="left"))
    assert 0 < inside.height < run.switches.height
    x = plots.buffer_cdf(run).axes[0].get_lines()[0].get_xdata()
    assert x.max() == inside["buffer_bytes"].max() / 1e6
    assert run.window_text in plots.buffer_cdf(run)._supxlabel.get_text()
    grey = [patch for patch in plots.timeseries(run).axes[0].patches if patch.get_facecolor()[:3] == to_rgb(canvas.SHADE)]
    assert grey[-1].get_x() == end / MS
    assert "grey: outside this window" in plots.timeseries(run)._supxlabel.get_text()
    assert not canvas.outside([run], start, end) and "grey" not in canvas.time_caption([run], start, end)
    early = replace(run, summary=run.summary | {"window_ns": [start, end / 2]})
    assert canvas.outside([run, early], 0, end) == [] and "windows differ" in plots.buffer_cdf(run, early)._supxlabel.get_text()
    later = replace(run, summary=run.summary | {"window_ns": [start + 1, end]})  # as with another seed
    assert run.summary["window"] == "arrivals" and canvas.window_text([run, later]).startswith(
        "arrivals, from the first flow to "
    )
    assert "windows differ" in canvas.window_text([run, replace(later, summary=later.summary | {"window": "given"})])
    assert "windows differ" in canvas.window_text([run, replace(later, summary=later.summary | {"interrupted": True})])
    before = replace(run, summary={key: value for key, value in run.summary.items() if key != "window_ns"})
    assert "no measurement window" in plots.buffer_cdf(before)._supxlabel.get_text()
    assert plots.buffer_cdf(before).axes[0].get_lines()[0].get_xdata().max() == run.switches["buffer_bytes"].max() / 1e6


@pytest.mark.parametrize("count", [1, 2])
def test_titles_of_axes_are_not_cut_off(recorded: list[Run], count):
    for kind in (plots.port, plots.link_rate, plots.timeseries):
        figure = kind(*recorded[:count])
        figure.draw_without_rendering()
        titles = [panel.yaxis.label for panel in figure.axes] + [figure._supylabel] * bool(figure._supylabel)
        boxes = [title.get_window_extent() for title in titles if title.get_text()]
        assert boxes and all(box.y0 >= 0 and box.y1 <= figure.bbox.height for box in boxes), kind.__name__


def test_a_long_drain_is_cut_unless_it_is_asked_for(recorded: list[Run]):
    run = replace(recorded[0], summary=recorded[0].summary | {"window_ns": [0.0, 10_000.0]})
    figure = plots.timeseries(run)
    assert figure.axes[0].get_xlim() == (0, 0.015)
    assert "last flow done at" in " ".join(figure._supxlabel.get_text().split())
    assert plots.timeseries(run, time="0us..").axes[0].get_xlim()[1] == run.summary["end_ns"] / MS
    assert plots.timeseries(run, time="5us..9us").axes[0].get_xlim() == (0.005, 0.009)


def test_fct_cdf(recorded: list[Run]):
    run = recorded[1]
    done = run.within("flows").filter(pl.col("class") == "poisson")["fct_ns"].drop_nulls()
    line = plots.fct_cdf(run).axes[0].get_lines()[0]
    assert line.get_xdata().max() == done.max() / 1000 and line.get_ydata()[-1] == 1
    assert np.interp(done.median() / 1000, line.get_xdata(), line.get_ydata()) == pytest.approx(0.5, abs=0.03)
    for most_us in (25, 65, 130, 1500):  # wherever the times lie, an axis with one number says nothing
        times = pl.Series(np.geomspace(2.1, most_us, run.flows.height) * 1000)
        axes = plots.fct_cdf(replace(run, flows=run.flows.with_columns(fct_ns=times))).axes[0]
        low, high = axes.get_xlim()
        assert sum(low <= tick <= high for tick in axes.get_xticks()) >= 2
    with pytest.raises(SpecError, match="none of these flows has finished"):
        plots.fct_cdf(replace(run, flows=run.flows.with_columns(fct_ns=pl.lit(None, dtype=pl.Float64))))


@pytest.mark.filterwarnings("error")
def test_slowdown_of_runs_without_finished_flows(recorded: list[Run]):
    nothing = pl.lit(None, dtype=pl.Float64)
    run = replace(recorded[0], flows=recorded[0].flows.with_columns(slowdown=nothing, finish_ns=nothing))
    for runs in ([run], [run, recorded[1]]):
        figure = plots.slowdown(*runs)
        assert plots.render(figure, "png") and "no finished flows: bfc" in figure._supxlabel.get_text()


def test_filters(recorded: list[Run]):
    run = recorded[0]
    flows = run.flows.with_columns(priority=(pl.col("flow_id") % 3).cast(pl.Int8))
    run = replace(run, flows=flows)
    poisson = flows.filter(pl.col("class") == "poisson")

    def chosen(**how: Any) -> pl.DataFrame:
        return FlowFilter(**how).apply(run).flows

    assert chosen().equals(poisson) and chosen(class_="all").equals(flows) and chosen(class_=None).equals(flows)
    assert chosen(class_="!poisson").equals(flows.filter(pl.col("class") == "incast"))
    assert chosen(class_=["incast", "poisson"]).height == flows.height
    assert chosen(priority=1).equals(poisson.filter(pl.col("priority") == 1))
    assert chosen(priority="1..2", class_="all").equals(flows.filter(pl.col("priority") >= 1))
    assert chosen(size="..1KB").equals(poisson.filter(pl.col("bytes") <= 1000))
    assert chosen(size="1KB..").equals(poisson.filter(pl.col("bytes") >= 1000))
    assert chosen(size="500B..2KB").equals(poisson.filter(pl.col("bytes").is_between(500, 2000)))
    assert FlowFilter(priority="1..2", size="..2KB").text(run) == "poisson, priority 1 to 2, up to 2 KB"
    assert FlowFilter("!incast", size="1KB..").text(run) == "not incast, from 1 KB" and FlowFilter("all").text(run) == ""
    figure = plots.slowdown(run, size="..2KB")
    assert max(figure.axes[0].get_lines()[0].get_xdata()) <= 2000 and "up to 2 KB" in figure._supxlabel.get_text()
    for how, rule in (
        ({"class_": "x"}, "no flows of class"),
        ({"priority": "9"}, "priority = 9: must be between 0 and 7"),
        ({"priority": "high"}, "must be a whole number"),
        ({"priority": "5..7"}, "has no flows of poisson, priority 5 to 7; it has classes incast, poisson; priorities 0, 1, 2"),
        ({"size": "3KB..1KB"}, "the range is empty"),
        ({"size": ".."}, 'must be a value or a range; such as "1KB..10KB"'),
        ({"size": "1KB..2KB..3KB"}, "must be a"),
        ({"size": "3"}, "the unit is missing"),
    ):
        with pytest.raises(SpecError, match=re.escape(rule)):
            chosen(**how)


def test_throughput_adds_up_to_the_bytes(recorded: list[Run]):
    run = recorded[1]
    end = run.summary["end_ns"]
    whole = plots.throughput(run, time=f"0us..{end + 10_000:.0f}ns")
    (line,) = whole.axes[0].get_lines()
    times, rates = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
    assert np.diff(times) == pytest.approx(0.001)  # ms: one sample
    assert rates.sum() * 1000 / 8 == pytest.approx(run.flows["bytes"].sum())
    assert rates.max() <= 8 * 100
    classes = plots.throughput(run, by="class", time=f"0us..{end + 10_000:.0f}ns").axes[0].get_lines()
    both = {each.get_label(): np.asarray(each.get_ydata()) for each in classes}
    assert set(both) == {"poisson", "incast"} and sum(both.values()) == pytest.approx(rates)
    flows = plots.throughput(run, by="flow").axes[0].get_lines()
    largest = run.flows.sort("bytes", descending=True)["flow_id"][:6].to_list()
    assert {each.get_label() for each in flows} == {f"flow {number}" for number in largest}
    (only,) = plots.throughput(run, by="flow", flows=[largest[0]], time=f"0us..{end + 10_000:.0f}ns").axes[0].get_lines()
    assert np.sum(only.get_ydata()) * 1000 / 8 == pytest.approx(run.flows["bytes"].max())
    with pytest.raises(SpecError, match="flow = 99999999"):
        plots.throughput(run, by="flow", flows=[99999999])


def test_the_map_has_the_pauses_of_the_log(recorded: list[Run]):
    run = recorded[1]
    end = run.summary["end_ns"]
    (panel, _) = plots.pause_map(run, time=f"0us..{end:.0f}ns").axes
    shares = panel.get_images()[0].get_array().filled(0) / 100
    total = shares.sum() * end / shares.shape[1]
    ports = run.ports.filter(pl.col("paused_ns") > 0)
    assert shares.shape[0] == ports.height and total == pytest.approx(ports["paused_ns"].sum(), rel=0.01)
    calm = replace(run, pauses=run.pauses.clear(), summary=run.summary | {"label": "calm"})
    assert "no pauses: calm" in plots.pause_map(run, calm)._supxlabel.get_text()
    with pytest.raises(SpecError, match="no link was paused"):
        plots.pause_map(calm)


def test_one_port(recorded: list[Run]):
    run = recorded[1]
    ports = run.ports.filter((pl.col("node") >= 8) & (pl.col("pauses_received") > 0))
    busiest = ports.sort("max_queue_bytes", descending=True).row(0, named=True)
    figure = plots.port(run)
    names = dict(run.frames["nodes"].select("node", "name").iter_rows())
    assert f"{names[busiest['node']]} to {names[busiest['peer']]}" in figure.axes[0].get_ylabel()
    shaded = figure.axes[0].collections[0].get_paths()
    assert len(shaded) > 0
    by_name, by_number = (plots.port(run, port=f"{node}:{busiest['port']}") for node in (names[busiest["node"]], busiest["node"]))
    assert by_name.axes[0].get_ylabel() == by_number.axes[0].get_ylabel() == figure.axes[0].get_ylabel()
    node, slot, queue = recorded[0].queues.filter(pl.col("bytes") == pl.col("bytes").max()).select("node", "port", "queue").row(0)
    with pytest.raises(SpecError, match=r"queue = 77: was empty at every sample of .*; those that held packets most often: "):
        plots.port(recorded[0], port=f"{node}:{slot}", queue=77)
    queued = recorded[0].queues.filter((pl.col("node") == node) & (pl.col("port") == slot))
    one = plots.port(recorded[0], port=f"{node}:{slot}", queue=queue).axes[0]
    series = queued.filter(pl.col("queue") == queue)
    low, high = (edge * MS for edge in one.get_xlim())
    most = series.filter(pl.col("time_ns").is_between(low, high))["bytes"].max()
    assert max(one.get_lines()[0].get_ydata()) == most / 1000 > 0
    end = run.summary["end_ns"]
    rate = plots.link_rate(run, port="tor0:0", time=f"0us..{end:.0f}ns").axes[0].get_lines()[0].get_ydata()
    sent = run.frames["port_series"].filter((pl.col("node") == 8) & (pl.col("port") == 0))["tx_bytes"]
    assert np.sum(rate) * 1000 / 8 == pytest.approx(sent.max() - sent.min())
    for given, rule in (
        ("tor0", "must be a node and a port"),
        ("tor9:1", 'did you mean "tor'),
        ("tor0:77", "its ports: 0 (to host0), 1 (to host1)"),
        ("elsewhere:1", "known: 0 (host0) to 11 (spine1)"),
    ):
        with pytest.raises(SpecError, match=re.escape(rule)):
            plots.port(run, port=given)
    other = replace(run, ports=run.ports.with_columns(peer=pl.col("peer") + 1))
    with pytest.raises(SpecError, match="different networks"):
        plots.link_rate(run, other, port="tor0:0")


def test_one_switch(recorded: list[Run]):
    assert "tor1" in plots.timeseries(*recorded, switch="tor1").axes[0].get_ylabel()
    assert "tor1" in plots.timeseries(*recorded, switch=9).axes[0].get_ylabel()
    with pytest.raises(SpecError, match=re.escape("switch = 3: host3 is no switch; switches: 8 (tor0), 9 (tor1), 10 (spine0)")):
        plots.timeseries(recorded[0], switch=3)
    with pytest.raises(SpecError, match="no such node"):
        plots.timeseries(RUNS[0], switch=99)


def test_schemes_that_count_no_active_flows_are_named(recorded: list[Run]):
    for figure in (plots.active_flows(*recorded), plots.timeseries(*recorded, column="active_flows")):
        assert [text.get_text() for text in figure.legends[0].get_texts()] == ["bfc", "ideal_fq"]
        assert len(figure.axes[0].get_lines()) >= 2 and "not counted by hpcc" in figure._supxlabel.get_text()
        assert all(np.min(line.get_xdata()) >= 0 and np.min(line.get_ydata()) >= 0 for line in figure.axes[0].get_lines())
    for kind, more in (("active_flows", {}), ("timeseries", {"column": "active_flows"})):
        with pytest.raises(SpecError, match="not counted by hpcc; schemes with a queue per flow do"):
            plots.draw(kind, recorded[1], **more)


def test_the_command(recorded: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)
    recorded[1].save("runs/a/hpcc")
    recorded[1].save("runs/b=2/hpcc")
    recorded[0].save("runs/a/bfc")

    def fails(*words: str) -> str:
        assert main(["plot", *words, "-o", "x.png"]) == 2
        return capsys.readouterr().err

    assert [run.label for run in load(["runs/a/hpcc=HPCC, tuned", "runs/a/bfc"])] == ["HPCC, tuned", "bfc"]
    assert [run.label for run in load(["runs/a", "runs/b=2/hpcc"])] == ["bfc", "hpcc a", "hpcc b=2"]
    assert [run.label for run in load(["runs/a", "runs/b=2/hpcc=other"])] == ["bfc", "hpcc", "other"]
    assert "holds several runs, which cannot share a label; give one of them: bfc, hpcc" in fails("slowdown", "runs/a=x")
    assert "two runs have this label" in fails("slowdown", "runs/a/bfc=x", "runs/a/hpcc=x")
    assert "two runs have this label" in fails("slowdown", "runs/a/bfc=hpcc", "runs/a/hpcc")
    assert "the label is empty" in fails("slowdown", "runs/a/bfc=")
    assert "no such folder" in fails("slowdown", "runs/nothing=x")
    assert "--size: belongs to penstock plot slowdown, fct_cdf, throughput; not to port" in fails(
        "port", "runs/a", "--size", "1KB.."
    )
    assert "--flow: belongs to penstock plot throughput" in fails("port", "runs/a", "--flow", "1")
    assert 'flow = "x": is not a number' in fails("throughput", "runs/a", "--by", "flow", "--flow", "x")
    assert "time = " in fails("port", "runs/a", "--time", "1s..2s")
    assert (
        main(["plot", "throughput", "runs/a", "--class", "poisson,incast", "--by", "flow", "--flow", "1,2", "-o", "x.pdf"]) == 0
    )
    assert main(["plot", "pause-map", "runs/a", "--time", "10us..", "-o", "y.svg"]) == 0
    assert main(["plot", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for name, kind in KINDS.items():
        assert name in text and f"penstock plot {name} runs/example" in text
        assert all(need in text for need in kind.needs if need not in DEFAULTS)


def test_a_line_with_a_band():
    figure, (axes,) = canvas.canvas()
    look = plots.styles(RUNS[:1])[0]
    plots.draw_lines(axes, [1, 2, 3], [2, 3, 4], [1, 2, 3], [3, 4, 6], look, "bfc")
    (band,) = axes.collections
    assert band.get_datalim(axes.transData).y0 == 1 and band.get_datalim(axes.transData).y1 == 6
    assert axes.get_lines()[0].get_label() == "bfc" and axes.get_lines()[0].get_color() == look["color"]
    plots.draw_bars(axes, [1, 2], [2, 3], [1, 2.5], [4, 3.5], look, "bars")
    assert plots.render(figure, "png")[:4] == b"\x89PNG"


# Machado, Oliveira and Fernandes (2009), severity 1, of linear RGB
DEFICIENCIES = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_colours_for_colour_blind_readers(deficiency: str):
    """Schemes of the papers, and curves of one run, differ by 10 in CIELAB (76) at least, or in their marker."""

    def seen(colour: str) -> np.ndarray:
        linear = np.array(to_rgb(colour))
        linear = np.where(linear <= 0.04045, linear / 12.92, ((linear + 0.055) / 1.055) ** 2.4)
        linear = np.clip(np.array(DEFICIENCIES[deficiency]) @ linear, 0, 1)
        xyz = (
            np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ linear / [0.9505, 1, 1.089]
        )
        f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
        return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])

    names = ("bfc", "hpcc", "dcqcn", "dctcp", "ideal_fq", "floodgate", "backdraft", "timely")
    for looks in ([canvas.look_of(name) for name in names], canvas.series_looks(6)):
        for i, one in enumerate(looks):
            for other in looks[:i]:
                apart = float(np.linalg.norm(seen(one["color"]) - seen(other["color"])))
                assert apart > 10 or one.get("marker") != other.get("marker"), (one, other, apart)


def test_what_cannot_be_drawn():
    for call, rule in (
        (lambda: plots.draw("slowdwn", *RUNS), 'did you mean "slowdown"'),
        (lambda: plots.slowdown(), "at least one run"),
        (lambda: plots.slowdown([]), "a list is no run; give runs one by one"),
        (lambda: plots.port("runs/bfc", port="tor0:1"), "a str is no run; give runs one by one"),
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
    assert len(text.splitlines()) == 6 and max(map(len, text.splitlines())) <= 112
    nothing = Run(RUNS[0].flows.clear(), RUNS[0].switches, RUNS[0].ports)
    assert "-" in tables.text([nothing])


def test_by_the_sender_s_clock():
    run = RUNS[1]
    assert "by the sender" in plots.slowdown(run, clock="sender").axes[0].get_ylabel()
    table = tables.comparison([run], clock="sender")
    flows = run.selected("poisson").filter(pl.col("bytes") < 3000)
    assert table["short_p99"][0] == flows["sender_slowdown"].quantile(0.99, "linear") != tables.comparison([run])["short_p99"][0]


def test_ranks_are_drawn():
    topo = ps.leaf_spine(hosts=8, tors=2, spines=2)
    flows = ps.training(topo, pipeline=2, layers=2, microbatches=2, forward="20us", backward="30us", parameters="200KB")
    runs = [ps.simulate(topo, flows, scheme=name) for name in ("bfc", "pfc")]
    figure = plots.draw("rank_timeline", *runs)
    plots.render(figure, "png")
    assert [panel.get_title(loc="left") for panel in figure.axes] == ["bfc", "pfc"]
    names = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    assert names == ["forward", "backward", "all-reduce", "message"]
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == [str(rank) for rank in range(8)]
    part = plots.draw("rank_timeline", runs[0], time="0us..40us")
    assert "all-reduce" not in [text.get_text() for legend in part.legends for text in legend.get_texts()]


def test_a_run_without_ranks_is_refused(recorded: list[Run]):
    with pytest.raises(SpecError, match="its workload has no ranks"):
        plots.draw("rank_timeline", recorded[0])


def served(scheme: str = "pfc", **given: object) -> Run:
    topo = ps.star(hosts=2)
    flows = ps.inference(topo, rate=2000, duration="5ms", input_tokens=[100, 400], output_tokens=1, kv_bytes=1000, **given)
    return ps.simulate(topo, flows, scheme=scheme)


def test_time_to_first_token_is_drawn():
    runs = [served(name, tokens_per_second=10**6) for name in ("bfc", "pfc")]
    figure = plots.draw("ttft", *runs)
    plots.render(figure, "png")
    (axes,) = figure.axes
    widths = sorted(bar.get_width() for container in axes.containers for bar in container)
    expected = [np.percentile(run.requests["ttft_ns"].to_numpy(), p) / 1e6 for run in runs for p in (50, 99)]
    assert widths == pytest.approx(sorted(expected))
    without = sorted(float(line[0][0]) for lines in axes.collections for line in lines.get_segments())
    column = "ttft_without_network_ns"
    alone = [np.percentile(run.requests[column].to_numpy(), p) / 1e6 for run in runs for p in (50, 99)]
    assert without == pytest.approx(sorted(alone))
    assert [text.get_text() for text in axes.get_yticklabels()] == ["bfc", "pfc"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["p50", "p99", "no network"]
    assert len(plots.ttft(runs[0], percentiles=[90]).axes[0].containers) == 1


def test_a_run_without_requests_is_refused(recorded: list[Run]):
    with pytest.raises(SpecError, match="has no requests; a run has it when a"):
        plots.ttft(*recorded)
    late = served(tokens_per_second=1.0)
    unfinished = late.changed(extra={**late.extra, "requests": late.requests.with_columns(ttft_ns=pl.lit(None, pl.Float64))})
    with pytest.raises(SpecError, match="no request has its first token; let the run drain"):
        plots.ttft(unfinished)
    for wrong in ([], [1, 2, 3, 4], [101], [0.99], "x", 5):
        with pytest.raises(SpecError, match="percentiles"):
            plots.ttft(late, percentiles=wrong)


def test_completion_shows_what_is_for_users():
    assert dir(plots) == sorted(plots.__all__) and "SpecError" not in dir(plots)
