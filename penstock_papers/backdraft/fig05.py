"""Backdraft (NSDI 2022), figures 5 (a, b) and 18: what uniform packet loss costs.

Section 2.1: a virtual switch drops packets at random; the highest rate of requests with Homa halves at a loss probability of 1
%, and the throughput of TCP falls too. The hosts have Homa, or go-back-N after a NACK of the receiver or a timeout. A request
is a packet of 200 B, whose loss only the timeout repairs, so the timeout decides. Homa's receiver asks for what is missing
after 2 ms, RESEND_INTERVAL of the code that section 6.1 cites for it, and a packet of which the receiver knows nothing is
repeated after 6 ms, its PING_INTERVAL (see fig04). (Ours): the 2 us of section 6.1, with 6 us, which is 2 us after the ACK of a
packet was due, with Homa and as the timeout of go-back-N; timeouts of 100 us and 4 ms. So is the stream in place of TCP: one of
25 MB without congestion control, which repeats a round trip for each loss, and waits for a timeout when a retransmission is
lost. Two servers, 100 Gbit/s; half of the loss is on each of the two links of the path.

Requests are closed-loop: each of 8 clients sends the next when it has the answer, and the rate is the sum of the clients'
rates.
"""

import itertools
from typing import Any

import numpy as np
import polars as pl

from penstock_papers import frames
from penstock_papers.backdraft import _setup as setup
from penstock_papers.backdraft._setup import value
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import FROM_PAPER, OURS, Differs
from penstock_papers.sentences import Numbers, about, holds, within
from penstock_papers.style import BLUE, GREEN, ORANGE, PAGE, PURPLE, RED, SKY, YELLOW, figure, legend_above, lettered, log_axis

TITLE = "What packet loss costs requests and streams"
PAPER = "Backdraft, NSDI 2022, sections 2.1 and A.1.2, figures 5 and 18"
SEEDS = {"paper": 3}  # losses are random
LOSSES = (0.0, 1e-4, 1e-3, 1e-2, 1e-1)
CLIENTS = 8
TIMEOUTS = {"requests, Homa's timeout": "6us", "requests, timeout 100 us": "100us", "requests, timeout 4 ms": "4ms"}
STREAMS = {"stream, timeout 100 us": "100us", "stream, timeout 4 ms": "4ms"}
TIMER_ALONE, SHORT, LONG = TIMEOUTS
HOMA, HOMA_TEXT = "requests, Homa", "requests, Homa, 2 us (ours)"
TIMERS = {HOMA: ("2ms", "6ms"), HOMA_TEXT: ("2us", "6us")}  # of the receiver, of the sender
RPCS = (*TIMERS, *TIMEOUTS)
STREAM = next(iter(STREAMS))
FALLING = {series: series.replace(", timeout ", "-").replace(" ", "-") for series in (SHORT, LONG, *STREAMS)}  # in ids
RATE = "rate of requests at 1 % loss over that without"
REQUESTS = {"quick": 40, "paper": 400}
RPCS_HALVED = "the maximum sustainable RPCs-per-second can be halved with a packet loss probability of just 10^-2"
FIVEFOLD = "RPC completion time increase to 5x higher with mere packet loss probability of 10^-2"
HALVED = "half of the paper's 0.5, and as far above it: 1 would be no effect"
LOOKS = dict(
    zip(
        (*RPCS, *STREAMS),
        ((PURPLE, "P"), (YELLOW, "X"), (GREEN, "v"), (BLUE, "o"), (RED, "s"), (SKY, "^"), (ORANGE, "D")),
        strict=True,
    )
)
TIMER = Differs(
    "two packets in a hundred requests are lost, and each costs 6.9 us beside a request's 4.2; what Homa costs a processor is "
    "not modelled",
    "backdraft-homa-timer",
)
DIFFERS = {
    "requests": TIMER.expecting(0.955, 0.985),
    "milliseconds": TIMER.expecting(10, 12),
}


CLAIMS = (
    *(
        row
        for prefix, where, kind in (("", "", OURS), ("homa-", "Homa: ", FROM_PAPER))
        for row in (
            within(f"{prefix}requests", f"{where}{RATE}", RPCS_HALVED, 0.25, 0.75, why=HALVED, kind=kind),
            about(f"{prefix}tail", f"{where}99th percentile of a request at 1 % loss over that without", FIVEFOLD, 5, kind=kind),
            within(
                f"{prefix}milliseconds",
                f"{where}99th percentile of a request at 1 % loss, us",
                "Homa experiences millisecond scale tail latency with even 10^-2 drop probability",
                1000,
                10_000,
                why="milliseconds: one to ten",
                kind=kind,
            ),
        )
    ),
    *(
        holds(f"falls-{name}", f"{series}: relative rate from 0 to 10 % loss", "-", "falls (within 2 %), below half", kind=OURS)
        for series, name in FALLING.items()
    ),
    within("requests-short", f"{RATE}, timeout 100 us", "-", 0.25, 0.75, why=HALVED, kind=OURS),
    within("requests-slow", "the same, timeout 4 ms", "-", 0.0, 0.5, why="halved or worse", kind=OURS),
    within("stream", f"{STREAM}: throughput at 1 % loss", "-", 0.25, 0.75, why=HALVED, kind=OURS),
)


def specs(scale: str) -> dict[str, Spec]:
    """For each loss probability the requests and the stream, with either timeout."""
    made = {}
    for loss in LOSSES:
        network = {"kind": "star", "hosts": 2, "rate": "100Gbps", "delay": "1us", "buffer": "12MB", "loss": 1 - (1 - loss) ** 0.5}
        for name, (resend, timeout) in TIMERS.items():
            asked = {"name": "homa", "homa": {"resend": resend}}
            made[f"{loss:g}, {name}"] = spec(network, {"kind": "list", "flows": rounds(REQUESTS[scale])}, timeout, asked)
        for name, timeout in TIMEOUTS.items():
            made[f"{loss:g}, {name}"] = spec(network, {"kind": "list", "flows": rounds(REQUESTS[scale])}, timeout)
        for name, timeout in STREAMS.items():
            made[f"{loss:g}, {name}"] = spec(network, {"kind": "list", "flows": [[0, 1, "25MB"]]}, timeout)
    return made


def spec(network: dict[str, Any], traffic: dict[str, Any], timeout: str, scheme: dict[str, Any] | None = None) -> Spec:
    """The spec of one traffic pattern without flow control."""
    return {
        "run": {"duration": "1us", "seed": 1, "max_time": "20s"},
        "topology": network,
        "scheme": scheme or {"name": "fifo"},
        "workload": [traffic],
        "measure": {"sample": "0us"},
        "host": {"rto": timeout},
    }


def rounds(requests: int) -> list[dict[str, Any]]:
    """Alternating requests and answers of every client: flow i waits for flow i - 1 of the same client."""
    flows: list[dict[str, Any]] = []
    for client in range(CLIENTS):
        for i in range(2 * requests):
            flow = {"src": i % 2, "dst": 1 - i % 2, "bytes": 200, "class": f"client{client}"}
            flows.append(flow if i == 0 else {**flow, "after": len(flows) - 1})
    return flows


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """Panel "rate": x loss, y rate relative to that without loss; "absolute": y thousand requests/s, or Gbit/s; "p99": y us."""
    parts = []
    for series in (*RPCS, *STREAMS):
        labels = [f"{loss:g}, {series}" for loss in LOSSES]
        rate = np.array([rate_of(runs, label, series) for label in labels])
        parts += [frames.rows("rate", series, LOSSES, rate / rate[0]), frames.rows("absolute", series, LOSSES, rate)]
        if series in RPCS:
            parts.append(frames.rows("p99", series, LOSSES, [tail(runs, label) for label in labels]))
    return pl.concat(parts)


def rate_of(runs: Runs, label: str, series: str) -> float:
    """Requests a millisecond of all clients, or Gbit/s."""
    flows = runs.scan(label, "flows")
    if series in STREAMS:
        row = flows.collect().row(0, named=True)
        return float(row["bytes"] * 8 / row["fct_ns"])
    clients = flows.group_by("class").agg(pl.len().alias("flows"), pl.col("finish_ns").max()).collect()
    return float((clients["flows"] / 2 / clients["finish_ns"] * 1e6).sum())


def tail(runs: Runs, label: str) -> float:
    """99th percentile of the time between the beginning of a request and its answer, us."""
    flows = runs.scan(label, "flows").sort("class", "flow_id").collect()
    begin, end = flows["start_ns"].to_numpy()[::2], flows["finish_ns"].to_numpy()[1::2]
    return float(np.quantile(end - begin, 0.99)) / 1000


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """One per cent of loss halves the rates, and moves the tail to the timeout."""
    found = {**of_homa(data, TIMER_ALONE, ""), **of_homa(data, HOMA, "homa-")}
    for series, name in FALLING.items():
        rates = setup.line(data, "rate", series)["y"].to_list()
        falls = all(later <= 1.02 * rate for rate, later in itertools.pairwise(rates)) and rates[-1] < 0.5
        found[f"falls-{name}"] = falls, ", ".join(f"{rate:.3g}" for rate in rates)
    at_1 = {"requests-short": SHORT, "requests-slow": LONG, "stream": STREAM}
    return {**found, **{id: value(data, "rate", series, 0.01) for id, series in at_1.items()}}


def of_homa(data: pl.DataFrame, series: str, prefix: str) -> Numbers:
    """What 1 % of loss does to Homa, of Homa or of its timer alone."""
    tail, without = (value(data, "p99", series, loss) for loss in (0.01, 0.0))
    rate = value(data, "rate", series, 0.01)
    return {f"{prefix}requests": rate, f"{prefix}tail": tail / without, f"{prefix}milliseconds": tail}


def plot(data: pl.DataFrame) -> Any:
    """Relative rate and tail over the loss probability."""
    made, (left, right) = figure(1, 2, width=PAGE, height=2.3)
    for panel, axes in (("rate", left), ("p99", right)):
        for series in (*RPCS, *STREAMS):
            points = setup.line(data, panel, series).filter(pl.col("x") > 0)
            if len(points):
                colour, marker = LOOKS[series]
                axes.plot(points["x"], points["y"], label=series, color=colour, marker=marker)
        axes.set_xscale("log")
        axes.set_xlabel("probability of loss")
    left.set_ylabel("rate / rate without loss")
    left.set_ylim(0, 1.05)
    left.axhline(0.5, color="#999999", linewidth=0.7, linestyle=":")
    right.set_ylabel("p99 of requests (us)")
    log_axis(right.yaxis)
    lettered((left, right), ("throughput", "completion time"))
    legend_above(made, left, columns=3)
    return made
