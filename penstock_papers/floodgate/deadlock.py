"""Floodgate (CoNEXT 2021), section 4.2 and figure 4: VOQs shared by traffic up and down deadlock, two groups do not.

A small network with middle switches: two pods of two ToRs with 8 hosts each, an aggregation switch per pod, one core. 8 hosts of
either pod receive an incast of 160 flows each from everywhere. An aggregation switch has 4 VOQs for its 16 destinations, so that
some share one: traffic up waits behind traffic down and the other way round, in both pods, each for the other's credits. With two
groups of 2 VOQs, or with a VOQ for each destination, everything finishes. The credit timer is 1 us, which makes windows small
against the incast; buffers are unlimited, so that PFC plays no part; the retransmission timeout is the default, 4 ms.
"""

from typing import Any

import polars as pl

from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import Differs
from penstock_papers.floodgate import _setup as setup
from penstock_papers.floodgate._setup import value
from penstock_papers.sentences import Numbers, ascending, within
from penstock_papers.style import COLUMN, DASHES, GREEN, ORANGE, SKY, figure, legend_above

TITLE = "Deadlock of virtual output queues shared by traffic up and down"
PAPER = "Floodgate, CoNEXT 2021, section 4.2 and figure 4"
NETWORK = {
    "kind": "clos",
    "pods": 2,
    "tors": 2,
    "aggs": 1,
    "cores": 1,
    "hosts_per_tor": 8,
    "rate": "100Gbps",
    "uplink_rate": "400Gbps",
    "delay": "600ns",
    "buffer": 0,
}
HOSTS = 32
RECEIVERS = [host for host in range(HOSTS) if host % 8 < 4]
FAN_IN = 160
SCHEMES = {
    "4 VOQs, mixed": (setup.scheme(variant="Floodgate", t="1us", voqs=4, groups=1), ORANGE),
    "2 + 2 VOQs, apart": (setup.scheme(variant="Floodgate", t="1us", voqs=4, groups=2), GREEN),
    "100 VOQs, mixed": (setup.scheme(variant="Floodgate", t="1us", voqs=100, groups=1), SKY),
}
MIXED, APART, MANY = SCHEMES
SHOWN_MS, END_MS, BIN_US = 2, 100, 20
DIFFERS: dict[str, Differs] = {}
CLAIMS = (
    within(
        "mixed",
        f"{MIXED}: flows that have not finished after {END_MS} ms",
        "a deadlock could occur",
        1,
        quick=True,
        why="any flow that never finishes shows the deadlock",
    ),
    within(
        "mixed-stops",
        f"{MIXED}: when the last data reached a host (ms)",
        "a cyclic dependency, therefore results in a deadlock",
        high=END_MS / 2,
        quick=True,
        why="nothing moves in the second half of the run; the sooner it stops the clearer",
    ),
    within(
        "apart",
        f"{APART}: flows that have not finished",
        "packets will not be held in the buffer endlessly",
        0,
        0,
        quick=True,
        why="without a deadlock every flow finishes",
    ),
    within(
        "many",
        f"{MANY}: flows that have not finished",
        "corner cases could occur where packets with different destination hosts queue in the same VOQ",
        0,
        0,
        quick=True,
        why="with a VOQ for each destination every flow finishes",
    ),
    ascending("voqs", "most VOQs in use at once", "the number of VOQs is limited"),
)


def specs(scale: str) -> dict[str, Spec]:
    """One traffic, at both scales: an incast a microsecond, to each receiver in turn."""
    one = {**setup.incast(RECEIVERS, FAN_IN), "every": "1us"}
    traffic = {key: value for key, value in one.items() if not key.startswith("load")}
    table = setup.spec(
        [setup.Scheme(name, scheme.table) for name, (scheme, _) in SCHEMES.items()], [traffic], f"{len(RECEIVERS)}us", NETWORK
    )
    return {
        "pods": {
            **table,
            "run": {**table["run"], "max_time": f"{END_MS}ms"},
            "measure": {"sample": f"{BIN_US}us", "port_series": True},
        }
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """Panel "throughput": x ms, y Gbit/s of data to all hosts; "unfinished": y flows; "last": y ms of the last data; "voqs"."""
    frames = []
    for name in SCHEMES:
        label = f"pods/{name}"
        series = throughput(runs, label)
        summary = runs.summary(label)
        last = series.filter(pl.col("rate") > 0)["ms"].max()
        shown = series.filter(pl.col("ms") <= SHOWN_MS)
        frames += [
            setup.rows("throughput", name, shown["ms"], shown["rate"]),
            setup.rows("unfinished", name, [0], [summary["flows_started"] - summary["flows_finished"]]),
            setup.rows("last", name, [0], [last]),
            setup.rows("voqs", name, [0], [setup.max_voqs(runs, label)]),
        ]
    return pl.concat(frames)


def throughput(runs: Runs, label: str) -> pl.DataFrame:
    """ms, rate (Gbit/s): data sent by ToRs to hosts."""
    down = setup.ports(runs, label).filter(pl.col("to") == 0).select("node", "port")
    series = runs.scan(label, "port_series").join(down.lazy(), on=["node", "port"])
    data = (pl.col("tx_bytes") - pl.col("ack_bytes") - pl.col("control_bytes")).sum().alias("data")
    sums = series.group_by("time_ns").agg(data).sort("time_ns")
    rate = pl.col("data").diff() * 8 / pl.col("time_ns").diff()
    return sums.select((pl.col("time_ns") / 1e6).alias("ms"), rate.alias("rate")).drop_nulls().collect()


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Mixed VOQs deadlock, the others finish."""
    left = {name: value(data, "unfinished", name) for name in SCHEMES}
    last = {name: value(data, "last", name) for name in SCHEMES}
    return {
        "mixed": left[MIXED],
        "mixed-stops": last[MIXED],
        "apart": left[APART],
        "many": left[MANY],
        "voqs": {name: value(data, "voqs", name) for name in (MIXED, MANY)},
    }


def plot(data: pl.DataFrame) -> Any:
    """A line per scheme."""
    made, axes = figure(width=COLUMN * 1.4, height=2.4)
    for (name, (_, colour)), dash in zip(SCHEMES.items(), (DASHES[0], DASHES[0], DASHES[1])):
        line = data.filter((pl.col("panel") == "throughput") & (pl.col("series") == name)).sort("x")
        axes.plot(line["x"], line["y"], color=colour, linestyle=dash, label=name)
    axes.set(xlabel="Time (ms)", ylabel="Data to all hosts (Gbit/s)", xlim=(0, SHOWN_MS), ylim=(0, None))
    legend_above(made, axes, columns=3)
    return made
