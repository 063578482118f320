"""Backdraft (NSDI 2022), figures 4 and 17: throughput, loss and completion time over the receiver's speed.

Section 2.1: clients send requests to a server that cannot keep up, with Homa (figure 4) or DCTCP (figure 17); losses in the
virtual switch reach 10 %, and completion times grow. Here the hosts have no congestion control (lossy), Homa, or DCTCP, which
virtual switches mark for, too; section A.1.1 states that this does not help. Every 3.2 ms 32 requests of 125
KB go to the same server, 10 Gbit/s on average, from eight servers chosen at random, each at 12.5 Gbit/s, so that the network is
never the bottleneck. The receiver takes 12.5 to 100 Gbit/s. The retransmission timeout is 1 ms.

DCTCP then loses nothing, also with up to 128 requests of the same total: its hosts react within a round trip, and their first
windows fit into the virtual switch's queue. Those of 256 requests do not: "many" (ours), at the slowest receiver. There Backdraft
stores them in its larger memory; no queue is long enough for a pause. The paper does not give the clients' number of connections.

Homa's receivers ask for what is missing after 2 ms without news, and senders repeat what was never answered after 6 ms: in the
code that the paper cites for RESEND_INTERVAL (PlatformLab/Homa, src/TransportImpl.cc, line 36 at 392b577 and 47265bf) it is
BASE_TIMEOUT_US, 2000, and PING_INTERVAL_US three times that. With the 2 us of section 6.1 (and 1 ms) it is (ours). Receivers
grant by the rate of their links, not by that of their application. Homa's virtual switches have a buffer of 1024 packets for all
that they forward, which here is for one application. With 2 us a receiver that is slow asks for what only waits, too, and senders
send it again, at line rate: of 256 requests, which take minutes to simulate, Homa has none here.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from penstock_papers import frames
from penstock_papers.backdraft import _setup as setup
from penstock_papers.backdraft._setup import BACKDRAFT, LOSSY, PREVENTS, SWITCH, VSWITCH, Scheme, Servers, value
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import MORE, OURS, Differs
from penstock_papers.sentences import Numbers, about, ascending, holds, within
from penstock_papers.style import PAGE, figure, legend_above, lettered, log_axis

TITLE = "Loss and completion time over the speed of the receiver"
PAPER = "Backdraft, NSDI 2022, sections 2.1 and A.1.1, figures 4 and 17"
SEEDS = {"paper": 3}  # losses are random
CLIENTS = 8
NETWORK = Servers(CLIENTS + 1, app_rate="12.5Gbps")
FAN_IN = 4 * CLIENTS
EVENT_BYTES, EVERY_US = 4_000_000, 3200
SPEEDS = {"quick": (12.5, 100.0), "paper": (12.5, 25.0, 50.0, 75.0, 100.0)}
EVENTS = {"quick": 2, "paper": 20}
MARKED = Scheme("lossy, DCTCP", {**LOSSY.table, "name": "dctcp+backdraft", "pfc": False}, like="dctcp")
SCHEMES = (LOSSY, MARKED, BACKDRAFT)
HOMA = Scheme("lossy, Homa", {"name": "homa", "homa": {"resend": "2ms"}})
HOMA_TEXT = Scheme("lossy, Homa, 2 us (ours)", {"name": "homa", "homa": {"resend": "2us"}}, nth=1)
RTO = ((HOMA, "6ms"), (HOMA_TEXT, "1ms"))
SHOWN = (*SCHEMES, HOMA)
SLIGHT = (
    "even a slight slow down of the receiver application can cause the 99.9th percentile latency to hit values higher than 1ms"
)
SLIGHTLY = 75.0  # Gbit/s, of a receiver that is slightly slower than what it is sent; not among the speeds of scale quick
SLIGHT_MS = f"99.9th percentile at {SLIGHTLY:g} Gbit/s, of 100 that arrive, {{}}, ms"
HIGHER = "the paper says higher than 1 ms and names no upper end"
DIFFERS = {
    "loss-dctcp": Differs(
        "DCTCP's hosts react within a round trip, and the first windows of 32 requests fit into the queue",
        "backdraft-repetition",
        expected=(0, 0),
        scales=("quick", "paper"),
    ),
    "loss": Differs(
        "hosts send again from the lost packet on, at line rate: of what two to eight of them send, a receiver of one's rate "
        "takes a half to an eighth",
        "backdraft-repetition",
        expected=(0.5, 0.875),
    ),
    "slight": Differs(
        "the queue of 1024 packets holds the 1 MB by which 4 MB that arrive at 100 Gbit/s exceed such a receiver: the tail is "
        "that of the client with the most of 32 requests, 8 to 11 of 84 us each",
        "backdraft-repetition",
        expected=(0.67, 0.93),
    ),
    "p99-growth": Differs(
        "what is sent again leaves the slowest receiver 3.9 Gbit/s of 10: what 64 ms leave behind lasts another 100 ms, twice "
        "that for requests that others overtake, beside 0.84 ms",
        "backdraft-repetition",
        expected=(119, 238),
    ),
}


CLAIMS = (
    about("loss", "share of packets lost at the slowest receiver, lossy", "packet loss can reach even 10%", 0.1, kind=OURS),
    holds(
        "loss-dctcp",
        "share of packets lost at the slowest receiver, DCTCP",
        "DCTCP still is unable to prevent packet loss",
        "> 0",
    ),
    within(
        "loss-dctcp-many",
        "the same with 256 requests at a time",
        "-",
        0.01,
        1.0,
        why="1 % or more is lost; at most all",
        quick=True,
        kind=OURS,
    ),
    holds("no-loss", "packets lost with Backdraft, at any speed", PREVENTS, "0"),
    holds("edge", "packets lost in the network, of all", "all packet loss occurs at the end-host", "0", kind=OURS),
    within("p99", "99th percentile at the slowest receiver: lossy / Backdraft", "-", 1.0, quick=True, why=MORE, kind=OURS),
    about(
        "p99-growth",
        "99th percentile, lossy: slowest receiver / fastest",
        "RPC completion time can increase by ~9.3x at 99th",
        9.3,
        kind=OURS,
    ),
    within("slight", SLIGHT_MS.format("lossy"), SLIGHT, 1.0, why=HIGHER, kind=OURS).at("paper"),
    about(
        "homa-loss",
        "share of packets lost at the slowest receiver, Homa",
        "Packet loss can reach even 10% when only one core is assigned to the server application",
        0.1,
    ),
    holds("homa-edge", "packets lost in the network, Homa", "all packet loss occurs at the end-host", "0"),
    about(
        "homa-p99-growth",
        "99th percentile, Homa: slowest receiver / fastest",
        "RPC completion time can increase by ~9.3x at 99th",
        9.3,
    ),
    within("homa-slight", SLIGHT_MS.format("Homa"), SLIGHT, 1.0, why=HIGHER).at("paper"),
    ascending(
        "goodput",
        "goodput at the slowest receiver, Gbit/s",
        "Backdraft prevents packet loss and achieves higher throughput and lower tail latency",
    ),
    within(
        "full",
        "goodput of Backdraft at the slowest receiver over what it can take",
        "-",
        0.95,
        1.01,
        why="5 % for the first and the last packet's way; it can take no more",
        quick=True,
        kind=OURS,
    ),
)


def specs(scale: str) -> dict[str, Spec]:
    """One for each speed of the receiver, and one of many small requests; Homa's with the smaller buffer."""
    slowest, many = min(SPEEDS[scale]), 256
    cases = {**{f"{speed:g}Gbps": (speed, FAN_IN) for speed in SPEEDS[scale]}, "many": (slowest, many)}
    found = {name: requests(*case, EVENTS[scale]) for name, case in cases.items()}
    small = replace(NETWORK, vswitch_buffer=setup.SLOTS)
    homa = {
        f"{name}/{scheme.legend}": requests(*case, EVENTS[scale], [scheme], small, rto)
        for name, case in cases.items()
        for scheme, rto in RTO
        if name != "many"
    }
    return found | homa


def requests(
    speed: float, fan_in: int, events: int, schemes: Sequence[Scheme] = SCHEMES, network: Servers = NETWORK, rto: str = "1ms"
) -> Spec:
    """Bursts of this number of requests, of the same total size, to a receiver of this speed."""
    traffic = {
        "kind": "incast",
        "fan_in": fan_in,
        "size": EVENT_BYTES // fan_in,
        "hosts": list(range(1, CLIENTS + 1)),
        "every": f"{EVERY_US}us",
        "receivers": [0],
        "jitter": "1us",
    }
    slow = network.table({0: f"{speed:g}Gbps"})
    return setup.spec(schemes, slow, [traffic], f"{events * EVERY_US - 1}us", drain=True, host={"rto": rto})


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: speed of the receiver, Gbit/s; y: goodput while requests are under way (Gbit/s), lost packets (share of those that came
    to the virtual switch), 99th and 99.9th percentile of completion (ms), packets lost in the network. x: 0: of many requests."""
    parts = []
    for x, name in ((0, "many"), *((speed, f"{speed:g}Gbps") for speed in SPEEDS[scale])):
        for scheme in (*SHOWN, HOMA_TEXT) if x else SCHEMES:
            label = f"{name}/{scheme.legend}"
            table, flows = setup.ports(runs, label, NETWORK), runs.scan(label, "flows")
            lost = setup.total(table, "drops", VSWITCH)
            to_app = table.filter(pl.col("peer") == 0).row(0, named=True)
            passed = (to_app["tx_bytes"] - to_app["control_bytes"] - to_app["ack_bytes"]) / 1048
            done = flows.select("start_ns", "finish_ns", "bytes").sort("start_ns").collect()
            fct_ms = flows.select(pl.col("fct_ns") / 1e6).collect()["fct_ns"]
            found = {
                "goodput": float(done["bytes"].sum()) * 8 / busy_ns(done),
                "p99": fct_ms.quantile(0.99, "linear"),
                "p999": fct_ms.quantile(0.999, "linear"),
                "loss": lost / (lost + passed),
                "lost in the network": setup.total(table, "drops", SWITCH),
            }
            parts += [frames.rows(panel, scheme.legend, [x], [y]) for panel, y in found.items()]
    return pl.concat(parts)


def busy_ns(flows: pl.DataFrame) -> float:
    """Time in which any of the flows, in the order of their starts, is under way."""
    start, end = flows["start_ns"].to_numpy(), np.maximum.accumulate(flows["finish_ns"].to_numpy())
    return float(end[-1] - start[0] - np.maximum(start[1:] - end[:-1], 0).sum())


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """The lossy switch loses a tenth of the packets, Backdraft none, and the tail reflects it; Homa, which figure 4 has, too."""
    lossy, marked, overlay, homa = (scheme.legend for scheme in SHOWN)
    slowest, fastest = min(SPEEDS[scale]), max(SPEEDS[scale])
    loss, p99 = (
        {name: value(data, panel, name, slowest) for name in (lossy, marked, overlay, homa)} for panel in ("loss", "p99")
    )
    network = {scheme.legend: float(setup.line(data, "lost in the network", scheme.legend)["y"].sum()) for scheme in SHOWN}
    core, everywhere = sum(network.values()) - network[homa], float(setup.line(data, "loss", overlay)["y"].sum())
    slight = {id: value(data, "p999", name, SLIGHTLY) for id, name in (("slight", lossy), ("homa-slight", homa))}
    return {
        "loss": loss[lossy],
        "loss-dctcp": (loss[marked] > 0, loss[marked]),
        "loss-dctcp-many": value(data, "loss", marked),
        "no-loss": (everywhere == 0, everywhere),
        "edge": (core == 0, core),
        "p99": p99[lossy] / p99[overlay],
        "p99-growth": p99[lossy] / value(data, "p99", lossy, fastest),
        "homa-loss": loss[homa],
        "homa-edge": (network[homa] == 0, network[homa]),
        "homa-p99-growth": p99[homa] / value(data, "p99", homa, fastest),
        **(slight if scale == "paper" else {}),
        "goodput": {name: value(data, "goodput", name, slowest) for name in (lossy, overlay)},
        "full": value(data, "goodput", overlay, slowest) * 1.048 / slowest,
    }


def plot(data: pl.DataFrame) -> Any:
    """Throughput, loss and completion time."""
    made, grid = figure(1, 3, width=PAGE, height=2.3)
    texts = {"goodput": "goodput (Gbit/s)", "loss": "lost packets (%)", "p99": "p99 of requests (ms)"}
    for axes, (panel, text) in zip(grid, texts.items()):
        for scheme in (*SHOWN, HOMA_TEXT):
            points = setup.line(data, panel, scheme.legend).filter(pl.col("x") > 0)
            axes.plot(points["x"], points["y"] * (100 if panel == "loss" else 1), label=scheme.legend, **scheme.style)
        axes.set_xlabel("speed of the receiver (Gbit/s)")
        axes.set_ylabel(text)
    grid[0].set_ylim(bottom=0)
    grid[1].set_ylim(-2, 100)
    log_axis(grid[2].yaxis)
    lettered(grid, ("throughput", "loss", "completion time"))
    legend_above(made, grid[0], columns=3)
    return made
