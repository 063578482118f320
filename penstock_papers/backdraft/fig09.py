"""Backdraft (NSDI 2022), figure 9: a victim's requests beside a growing load of others, on the real switch.

Section 6.1: three clients on one machine; two send messages of fixed size to one server, the victim sends requests to another.
BESS has one queue for each application, so all of them wait in one queue for the switch's core; in Backdraft every RPC has a
queue. The clients are not Homa's, as in fig09_homa, so that all claims are (ours): messages of the competitors arrive by a
Poisson process, of one frame of 200 B or four of 1280 B, in 2, 16 or 64 RPCs at a time, a number that the paper does not give;
they are not answered. The victim has 16 streams of requests (64 B, answers of 200 B) with 200 us between them, and its latency
counts from their arrival. Load is the share of the switch's core that the competitors' frames need by its cost model
(`penstock_net.vswitch.bench.costs`), without doorbells. All are at one switch, clients at one port, as at a network card. Servers
take 20 ns. Virtual time; the seed is that of the arrivals.
"""

from typing import Any

import polars as pl

from penstock_net.vswitch.bench import rig
from penstock_net.vswitch.bench.rig import COSTS, Bench, Row
from penstock_papers import sentences
from penstock_papers.backdraft import _setup as setup
from penstock_papers.backdraft._setup import PREVENTS, value
from penstock_papers.backdraft._switch import each
from penstock_papers.cache import Runs
from penstock_papers.claims import OURS, Differs
from penstock_papers.sentences import Numbers, about, holds, within
from penstock_papers.style import BLUE, GREEN, PAGE, RED, SKY, figure, legend_above, lettered, log_axis

TITLE = "A victim's requests beside a growing load (real switch)"
PAPER = "Backdraft, NSDI 2022, section 6.1, figure 9"
SIZES = {"200 B": (200, 1), "5 KB": (1280, 4)}  # a frame, frames of a message
LOADS = {"quick": (0.1, 1.1), "paper": (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1)}
LOW, HIGH = LOADS["paper"][0], LOADS["paper"][-1]
VICTIMS, VICTIM_NS = 16, 200_000.0
MS = {"quick": 4, "paper": 20}
SEEDS = {"paper": 3}  # a tail of 20 ms
BESS, BACKDRAFT = "BESS (lossy), 16 RPCs", "Backdraft, 16 RPCs"
SERIES = {BESS: 16, "Backdraft, 2 RPCs": 2, BACKDRAFT: 16, "Backdraft, 64 RPCs": 64}
LOOKS = dict(zip(SERIES, ((RED, "s"), (SKY, "v"), (BLUE, "o"), (GREEN, "^"))))
INFLATES = "while it inflates by over 20x with BESS"
STABLE = "When the RPC load increases, the completion time with Backdraft remains stable"
BETTER = "the Homa-based RPC application achieves 20x lower tail latency at the 99th percentile"
ROUND = Differs(
    "at full load a request and its answer wait for a round of the competitors' 16 queues each, 2 KB of every queue: 2 x 7.7 us "
    "with 200 B, 2 x 3.4 with 5 KB, beside 0.4 and 0.8 without; with two RPCs at a time it hardly shows",
    "backdraft-rounds",
)
DIFFERS = {
    "stable-200b": ROUND.expecting(27, 54),
    "stable-5kb": ROUND.expecting(6.8, 13.6),
}


def tails(size: str, lossy: str, lossless: str, prefix: str = "", kind: str = OURS) -> tuple[sentences.Row, ...]:
    """The paper's sentences on the victim's tail, of two series."""
    name = in_id(size)
    return (
        within(
            f"{prefix}inflates-{name}",
            f"{size}: the victim's p99 with {lossy} at load {HIGH} over {LOW}",
            INFLATES,
            20,
            why="the paper says over 20 and names no upper end",
            kind=kind,
        ),
        within(
            f"{prefix}stable-{name}",
            f"{size}: the same with {lossless}",
            STABLE,
            0.5,
            2,
            why="stable: half to twice of what it was",
            kind=kind,
        ),
        about(
            f"{prefix}better-{name}", f"{size}: the victim's p99 at load {HIGH}, {lossy} over {lossless}", BETTER, 20, kind=kind
        ),
    )


def in_id(size: str) -> str:
    """The name of a size in the ids of claims."""
    return size.lower().replace(" ", "")


CLAIMS = tuple(
    row
    for size in SIZES
    for row in (
        *tails(size, "BESS", "Backdraft"),
        holds(f"no-loss-{in_id(size)}", f"{size}: frames that Backdraft drops", PREVENTS, "0", kind=OURS),
    )
)


def measure(runs: Runs, scale: str, seed: int = 1) -> pl.DataFrame:
    """Panel "p99, SIZE": x load, y us of the victim's requests; "lost, SIZE": y share of all frames."""
    cases = [(size, mode, load, scale, seed) for size in SIZES for mode in SERIES for load in LOADS[scale]]
    return each(runs, "backdraft/fig09", cases, work)


def work(size: str, mode: str, load: float, scale: str, seed: int) -> list[Row]:
    """Simulate one point."""
    frame, frames = SIZES[size]
    single, streams = mode == BESS, SERIES[mode]
    bench = Bench(rig.bess(length=frame) if single else {"mode": "backdraft"}, seed=seed)
    clients = bench.app("clients", queues=256, buffer_bytes=1280, buffers=8192, service=[20.0])
    servers = [bench.app(name, queues=256, buffer_bytes=1280, service=[20.0]) for name in ("competitors'", "victim's")]
    cost = COSTS.frame + frame * COSTS.byte
    for i in range(streams):
        bench.udp(
            clients,
            servers[0],
            1000 if single else 1000 + i,
            length=frame,
            burst=frames,
            queue=0 if single else i,
            gap=frames * streams * cost / load,
            poisson=True,
            most=frame * (rig.BESS_SLOTS if single else 64),
        )
    for i in range(VICTIMS):
        queue = 0 if single else streams + i
        bench.rpc(
            clients,
            servers[1],
            3000 if single else 3000 + i,
            64,
            200,
            queue=queue,
            answer_queue=0 if single else i,
            gap=VICTIM_NS,
            poisson=True,
            kind=1,
            timeout=1e6,
            most=frame * rig.BESS_SLOTS,
        )
    bench.run(1, MS[scale])
    found = {"p99": bench.p99(clients, 1), "lost": bench.lost()}
    bench.close()
    return [(f"{panel}, {size}", mode, load, y) for panel, y in found.items()]


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """BESS inflates the victim's tail, Backdraft does not."""
    found: Numbers = {}
    for size in SIZES:
        lost = max(value(data, f"lost, {size}", BACKDRAFT, load) for load in LOADS[scale])
        found |= {**measured_tails(data, size, BESS, BACKDRAFT), f"no-loss-{in_id(size)}": (lost == 0, lost)}
    return found


def measured_tails(data: pl.DataFrame, size: str, lossy: str, lossless: str, prefix: str = "") -> Numbers:
    """The numbers of `tails`."""
    tail = {series: [value(data, f"p99, {size}", series, load) for load in (LOW, HIGH)] for series in (lossy, lossless)}
    return {
        f"{prefix}inflates-{in_id(size)}": tail[lossy][1] / tail[lossy][0],
        f"{prefix}stable-{in_id(size)}": tail[lossless][1] / tail[lossless][0],
        f"{prefix}better-{in_id(size)}": tail[lossy][1] / tail[lossless][1],
    }


def plot(data: pl.DataFrame) -> Any:
    """The victim's tail over the load, a panel for each size."""
    made, grid = figure(1, 2, width=PAGE, height=2.4, sharey=True)
    for axes, size in zip(grid, SIZES):
        for mode, (colour, marker) in LOOKS.items():
            points = setup.line(data, f"p99, {size}", mode)
            axes.plot(100 * points["x"], points["y"], label=mode, color=colour, marker=marker, clip_on=False)
        axes.set_xlabel("competing load (% of the core)")
        log_axis(axes.yaxis)
    grid[0].set_ylabel("p99 of requests (us)")
    lettered(grid, SIZES)
    legend_above(made, grid[0], columns=2)
    return made
