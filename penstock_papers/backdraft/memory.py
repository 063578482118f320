"""Backdraft (NSDI 2022), section 6.5 (no figure): the memory that a virtual switch needs over the network's round-trip time.

What arrives between the first overlay pause frame and its effect at the sender must be stored: the paper estimates it as the
network's bandwidth-delay product, 12.5 MB at 100 Gbit/s and 1 ms, for the whole switch and not for each flow. Here one server
sends at the rate of its link to an application of another that takes 1 Gbit/s, as 1 or 16 flows. The memory of the receiving
virtual switch is not bounded, and the most that it holds is measured. PFC is off; the round trip is that of the two
links in either direction. Every flow may also hold its threshold of 64 KB, so that 16 flows need 3 times the memory of one at
30 us, and 1.08 times at 1 ms.
"""

from typing import Any

import polars as pl

from penstock_papers import frames
from penstock_papers.backdraft import _setup as setup
from penstock_papers.backdraft._setup import PREVENTS, Scheme, Servers, value
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import Differs
from penstock_papers.sentences import Numbers, about, holds
from penstock_papers.style import BLACK, BLUE, COLUMN, ORANGE, SKY, figure, legend_above, log_axis

TITLE = "Memory of a virtual switch over the round-trip time"
PAPER = "Backdraft, NSDI 2022, section 6.5 (no figure)"
RTTS_US = {"quick": (30, 100), "paper": (10, 30, 100, 300, 1000)}
LONGEST = {scale: rtts[-1] for scale, rtts in RTTS_US.items()}
RATES = {"quick": (100,), "paper": (10, 40, 100)}  # Gbit/s
FULL, FLOWS = 100, (1, 16)
SPEED, TRIPS = "1Gbps", 4  # of the receiver; round trips that a run lasts
UNBOUNDED = Scheme("Backdraft", {"name": "backdraft", "most": "1GB"}, like="backdraft")
BDP = "can be estimated by bandwidth-delay product for different network line-rates"
DIFFERS: dict[str, Differs] = {}


CLAIMS = (
    *(
        about(f"bdp-{rate}", f"memory over BDP, {rate} Gbit/s, {longest} us", BDP, 1, quick=True).at(scale)
        for scale, longest in LONGEST.items()
        for rate in RATES[scale]
    ),
    about(
        "memory",
        "memory at 100 Gbit/s and 1 ms, MB",
        "a 100 Gbps network with a 1ms RTT only requires 12.5 MB of buffering",
        12.5,
    ).at("paper"),
    *(
        about(
            "flows",
            f"memory for {FLOWS[-1]} flows over that for one, {FULL} Gbit/s, {longest} us",
            "this buffering requirement is for the entire switch and not per-flow",
            1,
        ).at(scale)
        for scale, longest in LONGEST.items()
    ),
    holds("no-drops", "packets dropped, with any number of flows", PREVENTS, "0"),
)


def specs(scale: str) -> dict[str, Spec]:
    """One for each rate of the links, round-trip time and number of flows."""
    return {f"{rate}Gbps, {rtt} us, {flows}": one(rate, rtt, flows) for rate, flows in lines(scale) for rtt in RTTS_US[scale]}


def lines(scale: str) -> list[tuple[int, int]]:
    """(rate in Gbit/s, number of flows) of each line of the figure."""
    return [(rate, 1) for rate in RATES[scale]] + [(FULL, FLOWS[-1])]


def one(rate: int, rtt: int, flows: int) -> Spec:
    """The spec of one point."""
    network = Servers(2, rate=f"{rate}Gbps", app_rate=f"{rate}Gbps", delay=f"{rtt * 1000 // 4}ns", vswitch_buffer="0B")
    receiver = network.app(1)
    traffic = setup.endless([(network.app(0), receiver)] * flows, "UDP")
    return setup.spec([UNBOUNDED], network.table({receiver: SPEED}), [traffic], f"{TRIPS * rtt}us", sample=f"{rtt}us")


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """Panel "memory": x round-trip time, us, y most bytes stored; "bdp": y of what the network holds in that time; "drops"."""
    parts = []
    for rate, flows in lines(scale):
        for rtt in RTTS_US[scale]:
            label = f"{rate}Gbps, {rtt} us, {flows}"
            port = runs.scan(label, "ports").filter(pl.col("peer") == 1).collect().row(0, named=True)
            found = {
                "memory": port["max_queue_bytes"],
                "bdp": rate * 1e9 / 8 * rtt / 1e6,
                "drops": runs.summary(label)["drops"],
            }
            parts += [frames.rows(panel, series(rate, flows), [rtt], [y]) for panel, y in found.items()]
    return pl.concat(parts)


def series(rate: int, flows: int) -> str:
    """The name of a line."""
    return f"{rate} Gbit/s" + (f", {flows} flows" if flows > 1 else "")


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """The memory is the bandwidth-delay product, of the switch and not of each flow."""

    def at_longest(panel: str, rate: int, flows: int = 1) -> float:
        return value(data, panel, series(rate, flows), LONGEST[scale])

    alone, many = (at_longest("memory", FULL, flows) for flows in FLOWS)
    drops = float(data.filter(pl.col("panel") == "drops")["y"].sum())
    return {
        **{f"bdp-{rate}": at_longest("memory", rate) / at_longest("bdp", rate) for rate in RATES[scale]},
        **({"memory": alone / 1e6} if scale == "paper" else {}),
        "flows": many / alone,
        "no-drops": (drops == 0, drops),
    }


def plot(data: pl.DataFrame) -> Any:
    """Memory over the round-trip time, with the bandwidth-delay product."""
    made, axes = figure(width=COLUMN, height=2.6)
    names = data["series"].unique(maintain_order=True).to_list()
    looks = dict(zip(sorted(names, key=len), ((SKY, "o"), (BLUE, "s"), (ORANGE, "^"), (BLACK, "x"))))
    for name in names:
        colour, marker = looks[name]
        points, bdp = (setup.line(data, panel, name) for panel in ("memory", "bdp"))
        if "flows" not in name:
            axes.plot(bdp["x"], bdp["y"] / 1e6, color=colour, linestyle=":")
        style = "none" if "flows" in name else "-"
        axes.plot(points["x"], points["y"] / 1e6, label=name, color=colour, marker=marker, linestyle=style)
    log_axis(axes.xaxis)
    log_axis(axes.yaxis)
    axes.set_xlabel("round-trip time (us); dotted: BDP")
    axes.set_ylabel("memory (MB)")
    legend_above(made, axes, columns=2)
    return made
