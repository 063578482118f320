"""Backdraft's figures at scale quick: what they claim holds, and fails when the schemes change places."""

import json
import math
import os
import shutil

import numpy as np
import polars as pl
import pytest

import penstock_net as ps
from penstock_net.errors import SpecError
from penstock_net.spec import parse_spec
from penstock_net.vswitch.attach import open as attach
from penstock_net.vswitch.bench import noise, rig, two_switches
from penstock_papers import EXPERIMENTS, framework, headlines
from penstock_papers.backdraft import _setup as setup
from penstock_papers.backdraft import (
    _switch,
    abstract,
    bfc,
    fig04,
    fig04_switch,
    fig05,
    fig09,
    fig09_homa,
    fig10,
    fig11,
    fig12,
    fig13,
    fig13_switch,
    fig14,
    fig15,
    fig15_switch,
    fig16,
    fig19,
    memory,
    table3,
)
from penstock_papers.claims import FROM_PAPER, OURS, judge, stale_differences
from penstock_papers.registry import SCALES

FIGURES = {
    "bfc": bfc,
    "fig04": fig04,
    "fig05": fig05,
    "fig11": fig11,
    "fig13": fig13,
    "fig15": fig15,
    "memory": memory,
    "table3": table3,
}
SWITCH = {
    "fig04_switch": fig04_switch,
    "fig09": fig09,
    "fig09_homa": fig09_homa,
    "fig10": fig10,
    "fig12": fig12,
    "fig13_switch": fig13_switch,
    "fig14": fig14,
    "fig15_switch": fig15_switch,
    "fig16": fig16,
    "fig19": fig19,
}


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Each figure's runs and data, made once."""
    cache, found = tmp_path_factory.mktemp("runs"), {}

    def of(id):
        if id not in found:
            experiment = EXPERIMENTS[f"backdraft/{id}"]
            runs = framework.run_all(experiment, "quick", 1, cache, 1, None)
            found[id] = runs, framework.measured(experiment, runs, "quick")
        return found[id]

    return of


def failed(id, data):
    """The claims that are judged at scale quick and do not hold, nor are known to differ."""
    experiment = EXPERIMENTS[f"backdraft/{id}"]
    claims = judge(experiment.claims(data, "quick"), "quick", experiment.differs)
    known = {claim.id for scale in experiment.scales for claim in experiment.claims(data, scale)}
    assert len({claim.id for claim in claims}) == len(claims) and set(experiment.differs) <= known
    json.dumps([claim.record() for claim in claims], allow_nan=False)
    return {claim.id for claim in claims if claim.verdict == "FAIL"}


@pytest.mark.parametrize("id", [*FIGURES, *SWITCH])
def test_a_figure_holds_and_is_drawn(id, measured, tmp_path):
    _, data = measured(id)
    assert failed(id, data) == set()
    experiment = EXPERIMENTS[f"backdraft/{id}"]
    claims = judge(experiment.claims(data, "quick"), "quick", experiment.differs)
    assert stale_differences(claims, "quick", experiment.differs) == []
    (tmp_path / "out").mkdir()
    framework.write(experiment, tmp_path / "out", "quick", {1: data}, experiment.claims(data, "quick"))
    for panel in experiment.draw(data).axes:
        assert panel.get_lines() or panel.patches


@pytest.mark.parametrize("id", FIGURES)
@pytest.mark.parametrize("scale", SCALES)
def test_specs_are_accepted(id, scale):
    for label, table in FIGURES[id].specs(scale).items():
        spec = parse_spec(table, name=label)
        assert len(set(spec.labels())) == len(spec.schemes)


SWAPPED = [
    ("fig04", "lossy", "Backdraft", {"no-loss", "goodput", "full", "p99"}),
    ("fig13", "lossless (PFC)", "Backdraft", {"throughput", "victims", "no-frames", "receiver-frames", "spreading"}),
    ("table3", "lossless (PFC)", "Backdraft", {"overlay-drops", "overlay-pauses", "overlay-fast", "reduced"}),
    ("table3", "lossy", "Backdraft", {"overlay-drops"}),
    ("fig15", "Backdraft without rates", "Backdraft", {"fewer"}),
    ("fig15", "lossless (PFC)", "Backdraft", {"no-frames", "fewer"}),
    ("fig11", fig11.STATIC, fig11.DYNAMIC, {"dynamic", "memory"}),
    ("fig04_switch", "lossy", "Backdraft", {"speed", "no-loss", "goodput", "full"}),
    ("fig09_homa", *fig09_homa.JUDGED, {"no-loss-200b", "no-loss-5kb"}),
    ("fig10", fig10.BP, fig10.DQ, {"no-loss", "loss", "dpfq"}),
    ("fig10", fig10.ON, fig10.LOSSY, {"no-loss", "loss", "slower"}),
    ("fig12", fig12.SHORT, fig12.DPFQ, {"no-pause", "pauses", "growth", "goodput", "tail-short"}),
    (
        "fig13_switch",
        fig13_switch.PFC,
        fig13_switch.BACKDRAFT,
        {
            "throughput",
            "victims",
            "no-frames",
            "receiver-frames",
            "spreading",
            "tail",
            "reduced",
            "overlay-pauses",
            "overlay-drops",
            "overlay-fast",
        },
    ),
    ("fig13_switch", fig13_switch.DPFQ, fig13_switch.BACKDRAFT, {"victims", "no-frames", "alone", "overlay-drops"}),
    ("fig13_switch", fig13_switch.LOSSY, fig13_switch.BACKDRAFT, {"no-drops", "lossy", "lossy-drops", "overlay-drops"}),
    ("fig15_switch", fig15_switch.PFC, fig15_switch.BACKDRAFT, {"no-frames"}),
    ("fig14", "lossy", "Backdraft", {"full", "no-loss", "victims"}),
    ("fig16", fig16.DOORBELLS, fig16.POLLING, {"flat"}),
    ("fig19", "lossy", "Backdraft", {"twice", "no-loss", "loss", "full", "half", "wasted"}),
    ("bfc", "BFC", "BFC + Backdraft", {"spreads-same-server", "prevents-same-server", "queues", "unfinished"}),
]


@pytest.mark.parametrize(("id", "one", "other", "expected"), SWAPPED)
def test_claims_fail_when_schemes_change_places(id, one, other, expected, measured):
    _, data = measured(id)
    assert failed(id, data.with_columns(pl.col("series").replace({one: other, other: one}))) >= expected


def test_homa_s_timers_are_those_of_the_code_that_is_cited():
    """src/TransportImpl.cc: BASE_TIMEOUT_US 2000, RESEND_INTERVAL the same, PING_INTERVAL three times it; the text has ours."""
    assert {fig09_homa.SERIES[series].resend_ns for series in fig09_homa.JUDGED} == {2e6}
    assert {fig09_homa.SERIES[series].resend_ns for series in fig09_homa.TEXT} == {2e3}
    for figure, end, ours in (
        (fig04, f"/{fig04.HOMA.legend}", fig04.HOMA_TEXT.legend),
        (fig05, f", {fig05.HOMA}", fig05.HOMA_TEXT),
    ):
        specs = figure.specs("paper")
        found = [spec for label, spec in specs.items() if label.endswith(end)]
        tables = [spec["scheme"] if isinstance(spec["scheme"], dict) else spec["scheme"][0] for spec in found]
        assert {(table["homa"]["resend"], spec["host"]["rto"]) for table, spec in zip(tables, found)} == {("2ms", "6ms")}
        assert "(ours)" in ours and len([label for label in specs if label.endswith(ours)]) == len(found) > 1


def test_loss_that_costs_nothing_fails(measured):
    _, data = measured("fig05")
    assert {f"falls-requests-{timeout}" for timeout in ("100-us", "4-ms")} <= failed("fig05", data.with_columns(y=pl.lit(1.0)))


def test_collisions_are_those_of_random_hashing():
    for queues in (64, 1000, 10_000):
        expected = 1 - (1 - 1 / queues) ** (fig11.ACTIVE - 1)
        assert fig11.collisions(queues) == pytest.approx(expected, abs=0.01)


def test_counters_by_hand(measured):
    """PFC pauses egresses as often as pauses are logged; the data delivered to an application are those that its link carried."""
    runs, data = measured("fig13")
    label = "0.5Gbps/lossless (PFC)"
    log = runs.scan(label, "pauses").collect().filter(pl.col("paused") & (pl.col("queue") == -1))
    switch, ms = 12, runs.summary(label)["end_ns"] / 1e6
    assert log.filter(pl.col("node") == switch).height == pytest.approx(
        setup.value(data, "frames of the server", "lossless (PFC)", 0.5) * ms
    )
    assert log.filter(pl.col("node").is_between(8, 11) & (pl.col("port") == 2)).height == pytest.approx(
        setup.value(data, "frames of the switch", "lossless (PFC)", 0.5) * ms
    )
    assert setup.delivered(runs, label, fig13.SLOW) == pytest.approx(0.5, rel=0.05)


def test_a_victim_that_never_ended_has_waited(measured):
    runs, _ = measured("bfc")
    found, end = bfc.victims(runs, "slow/BFC"), runs.summary("slow/BFC")["end_ns"]
    flows = (
        runs.scan("slow/BFC", "flows")
        .collect()
        .filter((pl.col("class").cast(pl.String) == "victims") & (pl.col("start_ns") < 0.8 * end))
    )
    assert len(found) == len(flows) and found["late"].sum() == flows["finish_ns"].null_count() > 0
    waited = ((end - flows["start_ns"]) / flows["ideal_fct_ns"]).to_numpy()
    assert np.allclose(found["slowdown"].to_numpy()[found["late"].to_numpy()], waited[found["late"].to_numpy()])


def two_flows(scheme, **parameters):
    """A slow and a fast application in one server, sent to across a switch."""
    topo = ps.behind_vswitches(ps.star(hosts=2, rate="100Gbps", delay="1us", buffer="2MB"), apps=2, rate="20Gbps", buffer="4MB")
    topo = ps.with_receivers(topo, [{"host": 2, "rate": "1Gbps"}])
    flows = ps.flow_list(topo, [(0, 2, "10MB"), (1, 3, "10MB")])
    run = ps.simulate(topo, flows, scheme, duration="3ms", drain=False, measure=ps.Measure(pauses=True, sample="0us"))
    return run, run.ports.with_columns(pl.col("drops").fill_null(0))


def test_pfc_of_virtual_switches_alone():
    """With senders = "edge" the switch between obeys, sends no pauses and drops; with "all" nothing is lost."""
    run, ports = two_flows(ps.PFC(senders="edge"))
    held = run.pauses.filter(pl.col("queue") == -1)["node"].unique().to_list()
    assert held == [6]  # the switch, by the virtual switch of the receivers
    assert ports.filter(pl.col("node") == 6)["drops"].sum() > 0 == ports.filter(pl.col("node") < 6)["drops"].sum()
    run, ports = two_flows(ps.PFC())
    assert ports["drops"].sum() == 0 and {4, 6} <= set(run.pauses.filter(pl.col("queue") == -1)["node"].to_list())


def test_memory_by_hand(measured):
    """What arrives in a round trip, less what the receiver takes in that time, on top of the threshold."""
    _, data = measured("memory")
    rtt = memory.RTTS_US["quick"][-1]
    arrives, taken, most = 100e9 / 8 * rtt / 1e6, 1e9 / 8 * rtt / 1e6, 64_000
    assert setup.value(data, "bdp", "100 Gbit/s", rtt) == arrives
    found = setup.value(data, "memory", "100 Gbit/s", rtt)
    assert found == pytest.approx(arrives - taken + most, abs=30_000)
    assert setup.value(data, "memory", "100 Gbit/s, 16 flows", rtt) > found, "every flow has a threshold"


def test_busy_time_counts_overlaps_once():
    flows = pl.DataFrame({"start_ns": [0.0, 1.0, 10.0, 12.0], "finish_ns": [5.0, 3.0, 11.0, 20.0]})
    assert fig04.busy_ns(flows) == 5 + 1 + 8


# ---- On the real switch ----

THROUGHPUT = (
    "throughput",
    "goodput",
    "fast flow, ",
    "slow flow, ",
    "rate of requests",
    "the receiver uses",
    "A to B",
    "core time",
)


@pytest.mark.parametrize("id", SWITCH)
def test_throughput_of_the_cost_model_is_no_claim_of_the_paper(id, measured):
    """In virtual time; Bench.go in real time measures it."""
    claims = EXPERIMENTS[f"backdraft/{id}"].claims(measured(id)[1], "quick")
    modelled = [claim for claim in claims if any(word in claim.claim for word in THROUGHPUT)]
    assert {claim.kind for claim in modelled} <= {OURS}, [claim.id for claim in modelled if claim.kind != OURS]


def test_goodput_is_the_paper_s_where_it_is_measured(measured):
    claims = {claim.id: claim.kind for claim in EXPERIMENTS["backdraft/fig10"].claims(measured("fig10")[1], "real")}
    assert set(claims) == {"no-loss", "loss", "dpfq", "goodput-500", "goodput-5000", "goodput-caption", "memcached"}
    assert set(claims.values()) == {FROM_PAPER}
    found = abstract.ratios(measured("fig10")[1], (abstract.GOODPUT, abstract.PFC))
    assert list(found[abstract.GOODPUT]) == ["5000 cycles"] and len(found[abstract.PFC]) == 3


RANDOM = {
    "fig04_switch": lambda seed: fig04_switch.requests(fig04_switch.HOMA, 0.01, "quick", seed),
    "fig09": lambda seed: fig09.work("200 B", fig09.BACKDRAFT, 1.1, "quick", seed),
    "fig09_homa": lambda seed: fig09_homa.work("200 B", fig09_homa.BACKDRAFT, 0.5, "quick", seed),
    "fig12": lambda seed: fig12.work(fig12.FAST, fig12.SHORT, 1024, "quick", seed),
    "fig14": lambda seed: fig14.work("Backdraft", 1.0, "quick", seed),
    "fig16": lambda seed: fig16.work(1024, fig16.DOORBELLS, seed),
}


@pytest.mark.parametrize("id", SWITCH)
def test_figures_in_virtual_time_have_seeds_or_say_that_they_have_no_random_numbers(id):
    experiment = EXPERIMENTS[f"backdraft/{id}"]
    repeated = "real" in experiment.seeds  # rates in real time
    assert experiment.takes_seeds == (id in RANDOM or repeated)
    assert ("no random numbers" in experiment.about.replace("\n", " ")) != experiment.takes_seeds
    if id in RANDOM:
        assert RANDOM[id](1) == RANDOM[id](1) != RANDOM[id](2)


def test_seeds_of_the_abstract_and_of_hashes():
    assert EXPERIMENTS["backdraft/abstract"].takes_seeds
    assert fig11.collisions(1000, 1) != fig11.collisions(1000, 2) == pytest.approx(fig11.collisions(1000, 1), abs=0.01)


def test_figures_in_virtual_time_are_the_same_each_time(measured):
    for id in ("fig10", "fig13_switch", "fig15_switch", "fig19"):
        again = framework.measured(EXPERIMENTS[f"backdraft/{id}"], framework.Runs({}), "quick")
        assert again.equals(measured(id)[1])


def test_the_victim_of_fig09_waits_behind_the_others_in_one_queue(measured):
    """Claims of fig09 are numbers of the paper's scale: judged here as far as they show at scale quick."""
    _, data = measured("fig09")
    low, high = fig09.LOADS["quick"]
    for size in fig09.SIZES:
        tail = {series: [setup.value(data, f"p99, {size}", series, load) for load in (low, high)] for series in fig09.SERIES}
        assert tail[fig09.BESS][1] > 8 * tail[fig09.BACKDRAFT][1] and tail[fig09.BESS][1] > 10 * tail[fig09.BESS][0]


def test_a_timer_shorter_than_the_queues_fills_them(measured):
    """Overloaded, Homa's hosts send a multiple of the frames that are needed with 2 us, hardly more with 2 ms."""
    _, data = measured("fig09_homa")
    low, high = fig09_homa.LOADS["quick"]
    for size, (_, frames) in fig09_homa.SIZES.items():
        for series, case in fig09_homa.SERIES.items():
            sent, answered = (
                [setup.value(data, f"{panel}, {size}", series, load) for load in (low, high)] for panel in ("frames", "answered")
            )
            assert sent[0] == pytest.approx(frames + 1, rel=1e-3) and answered[0] == pytest.approx(1, abs=0.05)
            if case.resend_ns < 1e4:
                assert sent[1] > 2 * (frames + 1) and answered[1] < 0.5
            else:
                assert sent[1] < 1.2 * (frames + 1) and answered[1] > 0.75
        tail = {series: setup.value(data, f"p99, {size}", series, high) for series in fig09_homa.SERIES}
        assert tail[fig09_homa.FEW_MS] < tail[fig09_homa.FEW] < tail[fig09_homa.BACKDRAFT] / 10
        assert tail[fig09_homa.FEW_MS] < tail[fig09_homa.BESS_MS] / 5 < tail[fig09_homa.BACKDRAFT_MS] / 5


def test_requests_on_the_real_switch_pay_for_loss(measured):
    """A request that was lost costs its timeout, so the rate is that of a round trip and the timeouts in it."""
    _, data = measured("fig04_switch")
    for series, timeout in fig04_switch.TIMEOUTS.items():
        again = 1 / 0.99**2 - 1
        assert setup.value(data, "requests", series, 0.01) == pytest.approx(5600 / (5600 + again * timeout), rel=0.3)


def test_bess_is_one_queue():
    """Two flows of one application end in the same receive queue, and the faster core waits for the slower one."""
    bench = rig.Bench(rig.bess(slots=64))
    a, b = bench.app("a"), bench.app("b", service=[100, 10_000])
    for core in range(2):
        bench.udp(a, b, 1000, gap=1000, core=core, kind=core)
    bench.run(1, 10)
    assert len(bench.switch.flows()) == 1
    assert bench.rate(b, 0) < 0.2 and bench.lost() > 0.8


def test_two_switches_by_hand(measured):
    """What the lossy switch drops is what is too much for the receiver; a held link carries no more than the slow one takes."""
    _, data = measured("fig13_switch")
    too_much = (fig13_switch.TABLE_OFFERED - fig13_switch.TABLE_SPEED) / (8 * fig13_switch.LENGTH) * 1e3
    assert setup.value(data, "table drops", "lossy") == pytest.approx(too_much, rel=0.01)
    assert setup.value(data, "fast", "lossless (PFC)") == pytest.approx(fig13_switch.TABLE_SPEED, rel=0.15)
    for speed in (2.0, 0.5):
        slow = setup.value(data, "all", "lossy", speed) - setup.value(data, "victim", "lossy", speed)
        assert slow == pytest.approx(speed, rel=0.02)


@pytest.mark.parametrize("lossless", [False, True])
def test_the_network_between_two_switches_waits_or_drops(lossless):
    """Nobody reads at first: a lossless network fills up to the sender, the other one drops behind it."""
    network = two_switches.Network("10Gbps", lossless, two_switches.Clock(), buffer="256KiB")
    (near, far), accepted, seen = network.servers, [], []
    for number in range(1000):
        if near.send(number.to_bytes(4, "big") + bytes(1496)):
            accepted.append(number)
        network.clock.ns += 2000
        network.forward()
    for _ in range(1000):
        network.clock.ns += 2000
        network.forward()
        while frame := far.receive():
            seen.append(int.from_bytes(frame[:4], "big"))
    assert len(seen) + network.drops == len(accepted) and seen == sorted(set(seen))
    if lossless:
        assert network.drops == 0 and seen == accepted and 300 < len(accepted) < 400, "two buffers of 173 frames"
    else:
        assert len(accepted) == 1000 and network.drops > 600


def test_polling_and_doorbells_by_hand():
    """A look at each of 256 queues in a turn; a frame has at most a doorbell of its sender and one of its receiver."""
    polling, bells = (fig16.work(256, series)[0][3] for series in (fig16.POLLING, fig16.DOORBELLS))
    assert polling > 256 / 64 and 0 < bells <= 2


def test_time_of_the_core_by_hand(measured):
    """A frame costs what the model says; the lossy switch pays for those it drops, too."""
    _, data = measured("fig19")
    forward = rig.COSTS.frame + 64 * rig.COSTS.byte
    lost = setup.value(data, "lost", "lossy")
    busy = {mode: setup.value(data, "busy", mode) for mode in fig19.MODES}
    assert busy["Backdraft"] == pytest.approx(forward, abs=2 * rig.COSTS.bell)
    assert busy["lossy"] == pytest.approx(forward + rig.COSTS.drop * lost / (1 - lost), rel=0.1)


def test_throughput_over_queues_is_judged_in_real_time_only():
    def rates(polling, many):
        found = [("Mpps", fig16.DOORBELLS, count, many if count > 8 else 10.0) for count in fig16.COUNTS["real"]]
        return _switch.table(found + [("Mpps", fig16.POLLING, count, polling if count > 8 else 10.0) for _, _, count, _ in found])

    claims = {claim.id: claim.ok for claim in EXPERIMENTS["backdraft/fig16"].claims(rates(1.0, 9.0), "real")}
    assert claims == {"ratio-real": True, "flat-real": True, "few-real": True}
    assert [claim.ok for claim in EXPERIMENTS["backdraft/fig16"].claims(rates(3.0, 9.0), "real")] == [False, True, True]
    assert [claim.ok for claim in EXPERIMENTS["backdraft/fig16"].claims(rates(0.3, 3.0), "real")] == [True, False, True]
    assert {
        claim.kind for claim in EXPERIMENTS["backdraft/fig16"].claims(_switch.table(fig16.work(8, fig16.DOORBELLS)), "quick")
    } == {OURS}
    goodput = pl.concat(headlines.rows(headline, {"5000 cycles": 1.5}) for headline in (abstract.GOODPUT, abstract.MEMCACHED))
    found = EXPERIMENTS["backdraft/abstract"].claims(pl.concat([goodput, abstract.many_queues(rates(1.0, 9.0))]), "real")
    assert [(claim.id, claim.value, claim.ok, claim.kind) for claim in found] == [
        ("goodput-largest", 1.5, True, FROM_PAPER),
        ("memcached-largest", 1.5, True, FROM_PAPER),
        ("queues-largest", 9.0, True, FROM_PAPER),
        ("slowdown-largest", 0.9, True, FROM_PAPER),
    ]


def test_a_busy_machine_is_tried_again_and_then_refused(monkeypatch):
    calls = []

    def busy(*case):
        calls.append(case)
        if len(calls) < 3:
            raise noise.MachineBusy("busy")
        return [("panel", "series", 0.0, 1.0), ("machine", "others", 0.0, 0.01)]

    monkeypatch.setattr(_switch, "PAUSE_S", 0.0)
    found = _switch.each(framework.Runs({}), "id", [("a",), ("b",)], busy)
    assert calls == [("a",), ("a",), ("a",), ("b",)]
    assert found.filter(pl.col("panel") == "machine")["x"].to_list() == [0.0, 1.0]
    monkeypatch.setattr(_switch, "PATIENCE_S", 0.0)
    with pytest.raises(noise.MachineBusy):
        _switch.each(framework.Runs({}), "id", [("a",)], lambda *case: (_ for _ in ()).throw(noise.MachineBusy("busy")))


def test_scale_real_is_only_for_figures_that_have_it(tmp_path):
    with pytest.raises(SpecError, match="bfc/fig04 has no such scale"):
        framework.reproduce("bfc/fig04", scale="real", out=tmp_path)
    assert "real" in EXPERIMENTS["backdraft/fig19"].scales


@pytest.fixture
def however_busy(monkeypatch):
    """Measurements in real time report whatever else the machine does."""
    for limit in ("STOLEN", "OTHERS", "TAKEN", "ROUND_TRIP"):
        monkeypatch.setattr(noise, limit, 1e9)
    monkeypatch.setattr(noise, "BEFORE_S", 0.0)


def test_cycles_of_an_extension_are_measured(monkeypatch, however_busy):
    monkeypatch.setattr(fig12, "APPENDS", 500)
    experiment = EXPERIMENTS["backdraft/fig12"]
    data = framework.measured(experiment, framework.Runs({}), "real")
    for series in (fig12.APPENDED, fig12.EXTENDED):
        cycles = setup.line(data, "cycles", series)["y"].to_list()
        assert len(cycles) == len(fig12.PERCENTILES) and cycles == sorted(cycles) and cycles[0] >= 0
    assert [claim.id for claim in experiment.claims(data, "real")] == ["extension-p10", "extension-p50", "extension-p90"]
    assert experiment.draw(data).axes


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("iperf3"), reason="needs root and iperf3")
def test_tcp_of_the_kernel_meets_loss(monkeypatch, however_busy):
    """The bridge loses the share that it is told to, and TCP is slower for it: by how much depends on the machine."""
    wires = []

    def faults(port, *, drop, seed):
        wires.append((drop, attach.faults(port, drop=drop, seed=seed)))
        return wires[-1][1]

    monkeypatch.setattr(fig04_switch, "faults", faults)
    monkeypatch.setattr(fig04_switch, "LOSSES", (0.0, 0.01, 0.3))
    monkeypatch.setattr(fig04_switch, "TCP_ROUNDS", 1)
    experiment = EXPERIMENTS["backdraft/fig04_switch"]
    data = framework.measured(experiment, framework.Runs({}), "real")
    assert [drop for drop, _ in wires] == [0.0, 0.01, 0.3]
    for drop, wire in wires:
        lost = {way: numbers["dropped"] for way, numbers in wire.report().items()}
        frames = {"in": wire.counters["frames_in"] + lost["in"], "out": wire.counters["frames_out"]}
        for way, number in frames.items():  # five standard deviations
            assert abs(lost[way] - drop * number) <= 5 * math.sqrt(drop * (1 - drop) * number), (drop, way)
    assert setup.value(data, "absolute", fig04_switch.TCP) > 0 and setup.value(data, "tcp", fig04_switch.TCP, 0.3) < 1
    assert [claim.id for claim in experiment.claims(data, "real")] == ["tcp"]
    assert experiment.draw(data).axes


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_scale_real_runs(monkeypatch, however_busy):
    """However busy the machine: what cannot depend on that, nothing lost with Backdraft, is judged."""
    monkeypatch.setattr(rig, "REAL_S", 0.05)
    data = framework.measured(EXPERIMENTS["backdraft/fig19"], framework.Runs({}), "real")
    claims = {claim.id: claim for claim in EXPERIMENTS["backdraft/fig19"].claims(data, "real")}
    assert claims["no-loss"].ok and set(claims) == {"no-loss", "loss", "slow"}
    seen = data.filter(pl.col("panel") == "machine")["series"]
    assert seen.unique().sort().to_list() == ["others", "round_trip", "stolen", "taken"]
    assert EXPERIMENTS["backdraft/fig19"].draw(data).axes
