"""Floodgate's figures 6, 16 to 18, 20, 24 and the presets: specs, claims on made-up data, the measures they rest on."""

import json

import numpy as np
import polars as pl
import pytest

from penstock_net.spec import parse_spec
from penstock_papers import EXPERIMENTS, sentences
from penstock_papers import cache as store
from penstock_papers.cache import Runs
from penstock_papers.floodgate import _hops as hops
from penstock_papers.floodgate import _setup as setup
from penstock_papers.floodgate import fig06, fig16, fig17, fig18, fig20, fig24, presets
from penstock_papers.registry import SCALES

FIGURES = ["fig06", "fig16", "fig17", "fig18", "fig20", "fig24", "presets"]


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize("scale", SCALES)
def test_specs_are_accepted(figure, scale):
    for label, table in EXPERIMENTS[f"floodgate/{figure}"].specs(scale).items():
        spec = parse_spec(table, name=label)
        assert len(set(spec.labels())) == len(spec.schemes)
        assert scale == "paper" or spec.duration_ps <= 60_000_000_000


def judged(module, data, scale="paper"):
    """Whether each claim holds; the ids are distinct, DIFFERS knows no others, and all of it goes into JSON."""
    claims = sentences.claims(module.CLAIMS, module.numbers(data, scale), scale)
    ok = {claim.id: claim.ok for claim in claims}
    assert len(ok) == len(claims) and set(module.DIFFERS) <= set(ok)
    json.dumps([claim.record() for claim in claims], allow_nan=False)
    return ok


def drawn(module, data):
    """Every panel of the figure shows something."""
    for axes in EXPERIMENTS[module.__name__.removeprefix("penstock_papers.").replace(".", "/")].draw(data).axes:
        assert axes.get_lines() or axes.patches or axes.collections


def test_figure_6():
    def data(average, down):
        frames = []
        for load in map(str, fig06.LOADS):
            for scheme, time, buffers in zip(fig06.SHOWN, (100, average), ((10, 180, 172), (12, 100, down))):
                frames += [setup.rows(name, scheme.legend, [0], [time], load) for name in fig06.STATISTICS]
                frames.append(setup.rows("buffer", scheme.legend, [0, 1, 2], buffers, load))
                frames.append(setup.rows("CDF", scheme.legend, [1, 10], [0, 1], load))
        return pl.concat(frames)

    assert all(judged(fig06, data(69.4, 10)).values())
    worse = judged(fig06, data(101, 200))
    assert not any(worse[f"0.8-{id}"] for id in ("better", "average", "down-lower", "down"))
    assert worse["0.4-core"] and worse["0.4-up"]
    drawn(fig06, data(69.4, 10))


def settled(case, k_max, bound=None):
    """Half of K_max up to the inflection, a packet more with each flow from there on, up to a bound."""
    flows = np.arange(1, case.flows + 1)
    beyond = np.maximum(flows - case.inflection(k_max), 0) * fig16.PACKET_KB
    return np.minimum(np.where(beyond > 0, k_max + beyond, k_max / 2), bound or np.inf)


def test_figure_16():
    def data(scale, bound):
        frames = []
        for name, case in fig16.CASES[scale].items():
            for text, k_max in fig16.MARKING.items():
                for scheme, limit in zip(fig16.SCHEMES, (None, bound)):
                    y = settled(case, k_max, limit)
                    frames += [
                        setup.rows(p, f"{scheme.legend}, {text}", np.arange(1, len(y) + 1), y, name)
                        for p in ("settled", "least", "most")
                    ]
        return pl.concat(frames)

    for scale in SCALES:
        assert all(judged(fig16, data(scale, 300), scale).values())
    unbounded = judged(fig16, data("paper", 5000))
    assert not unbounded["1300-bounded"] and not unbounded["1300-far"] and unbounded["1300-40-slope"]
    assert fig16.knee(np.array([1.0, 5, 2, 6, 7]), 3) == 4 and fig16.knee(np.array([4.0, 5]), 3) == 1
    drawn(fig16, data("paper", 300))


def test_figure_17():
    def data(core):
        frames = []
        for t in fig17.TIMERS["paper"]:
            frames.append(setup.rows("overhead", "credits", [t], [1 / t]))
            frames += [setup.rows("buffer", hop, [t], [y]) for hop, y in zip(setup.HOPS, (100 / t, t, t))]
            frames += [setup.rows("FCT", name, [t], [50 + t]) for name in fig17.STATISTICS]
        for x in fig17.THRESHOLDS["paper"]:
            frames += [setup.rows("thre_credit", hop, [x], [y]) for hop, y in zip(setup.HOPS, (1, core(x), 2))]
        return pl.concat(frames)

    good = data(lambda x: 1 if 1 <= x <= 38 else 2)
    assert all(judged(fig17, good).values())
    assert [id for id, ok in judged(fig17, data(lambda x: x)).items() if not ok] == ["thre-core"]
    drawn(fig17, good)


def test_figure_18():
    def data(entry_22, ideal):
        shares = dict.fromkeys((fig18.IDEAL.legend, fig18.NS3_IDEAL.legend), ideal)
        shares.update({fig18.FLOODGATE.legend: 0.1, fig18.ENTRY_22.legend: entry_22})
        frames = []
        for scheme in fig18.SHOWN:
            for kind, y in zip(fig18.COLOURS, (70, 4.5, shares.get(scheme.legend, 0))):
                frames += [
                    setup.rows("mean", kind, [0], [y], scheme.legend),
                    setup.rows("time", kind, [0, 1], [y, y], scheme.legend),
                ]
        return pl.concat(frames)

    assert all(judged(fig18, data(0.15, 3)).values())
    bad = judged(fig18, data(0.5, 0.05))
    assert not any(bad[id] for id in ("practical-22", "practical-single", "ideal", "order"))
    drawn(fig18, data(0.15, 3))


def test_figure_20():
    def data(ideal_on_web):
        frames = []
        for workload in fig20.CASES:
            ideal = ideal_on_web if workload == "web_server" else 5
            for scheme, y in zip(fig20.SHOWN, (10, ideal, 20, 40, 1)):
                frames += [setup.rows(panel, scheme.legend, [0], [y], workload) for panel in (*fig20.STATISTICS, "short")]
                frames.append(setup.rows("CDF", scheme.legend, [1, 10], [0, 1], workload))
        return pl.concat(frames)

    assert all(judged(fig20, data(15)).values())
    bad = judged(fig20, data(5))
    assert not bad["web_server-ideal-ave"] and not bad["short"] and bad["memcached-ideal-ave"]
    drawn(fig20, data(15))


def test_figure_24():
    def data(blocking, voqs):
        frames = []
        for case, times in (("non-blocking", 1.0), ("blocking", blocking)):
            for panel in fig24.PANELS:
                y = voqs if panel == "VOQs" else times
                frames += [setup.rows(panel, "PFC w/ tag", [x], [y], case) for x in fig24.XOFF_KB]
                frames += [setup.rows(panel, scheme.legend, [0], [1], case) for scheme in (fig24.DCQCN, fig24.FLOODGATE)]
        return pl.concat(frames)

    assert all(judged(fig24, data(1.5, 10)).values())
    bad = judged(fig24, data(0.9, 0.5))
    assert [id for id, ok in bad.items() if ok] == ["free-avg", "free-p99"]
    drawn(fig24, data(1.5, 10))


def test_presets():
    def data(with_floodgate):
        frames = []
        for fabric, schemes in presets.SHOWN.items():
            for i, scheme in enumerate(schemes):
                on = "+floodgate" in scheme.table["name"]
                credits = {presets.ENTRY.legend: 2, presets.CREDIT_BYTES.legend: 3}.get(scheme.legend, 1)
                numbers = (with_floodgate if on else 100, with_floodgate if on else 100, 5, 0 if on else 1 + i, credits)
                frames += [setup.rows(panel, scheme.legend, [0], [y], fabric) for panel, y in zip(presets.PANELS, numbers)]
        return pl.concat(frames)

    assert all(judged(presets, data(50)).values())
    bad = judged(presets, data(120))
    assert not any(ok for id, ok in bad.items() if id.startswith(("better", "leaf", "fat"))) and bad["spread"]
    drawn(presets, data(50))


def test_what_an_authors_scheme_is():
    """One difference at a time, and the parameters go to Floodgate alone."""
    one = hops.named(setup.FLOODGATE, "m 1.5", m=1.5)
    assert one.legend == "m 1.5" and one.table == {**setup.FLOODGATE.table, "floodgate": {"m": 1.5}}
    assert presets.NS3.table["name"].endswith("+floodgate:ns3") and "floodgate" not in setup.FLOODGATE.table


def test_shares_are_of_the_links_between_switches(tmp_path):
    """Two hosts, two ToRs and a core: 400 Gbit/s are 50 B/ns, on four ports. Only they count."""
    nodes = {"node": np.arange(5), "name": list("abxyz"), "tier": np.array([0, 0, 1, 1, 2])}
    links = [(0, 0, 2), (1, 0, 3), (2, 0, 0), (2, 1, 4), (3, 0, 1), (3, 1, 4), (4, 0, 2), (4, 1, 3)]
    node, port, peer = (np.array(column) for column in zip(*links))
    between = np.isin(node, [2, 3, 4]) & np.isin(peer, [2, 3, 4])
    sent = {"tx_bytes": 1000, "ack_bytes": 100, "control_bytes": 50}
    series = {"time_ns": np.repeat([0.0, 10.0], 8), "node": np.tile(node, 2), "port": np.tile(port, 2)}
    for name, size in sent.items():
        series[name] = np.concatenate([np.zeros(8, np.int64), np.where(between, size // 4, 10**6)])
    tmp_path.joinpath("run").mkdir()
    for name, table in (("nodes", nodes), ("ports", {"node": node, "port": port, "peer": peer}), ("port_series", series)):
        pl.DataFrame(table).write_parquet(tmp_path / "run" / f"{name}.parquet")
    runs = Runs({"traffic": store.Entry("traffic", "", tmp_path / "run", True, 0.0)})
    found = hops.shares(runs, "traffic").row(0, named=True)
    assert found == pytest.approx({"time_ns": 10, "data": 42.5, "credits": 2.5, "ACKs": 5.0}, abs=0.2)
