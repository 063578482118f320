"""Backdraft (NSDI 2022), figure 9 with Homa: a victim's RPCs beside a growing load of others, on the real switch.

Section 6.1: three clients with Homa on one machine; two send RPCs of fixed size to one server, the victim sends others to
another. The set-up is that of figure 9 without Homa (fig09): one switch, clients at one port as at a network card, and the
switch's core as the bottleneck. Here every message is one of Homa: requests of one frame of 200 B or four of 1280 B are sent
blindly, being shorter than RTTbytes (100 KB), and answered with 64 B; the text gives no size. The victim's have 64 B, and answers
of 200. The server asks for missing frames of a request after RESEND_INTERVAL, and the client asks about an RPC of which it has
heard nothing for three times that: 2 and 6 ms in the code that section 6.1 cites for it (PlatformLab/Homa, src/TransportImpl.cc,
lines 30 to 36 at 392b577 and 47265bf). With the 2 us of the text it is (ours).

The application is open-loop: RPCs arrive by a Poisson process, whatever is under way. No more than 2048 are, twice the slots of
BESS's queue; others wait in the application, and the victim's latency counts from the arrival. BESS has one queue of 1024 slots
for all clients, and loses what finds it full, as a network card does. In Backdraft every RPC has a queue in either direction, and
what has no room waits; with 16 queues, as in fig09, RPCs share them (ours). Load is the share of the core that requests and
answers of the competitors need by its cost model, without doorbells and without what Homa repeats. What Homa costs its host's
processor is not modelled: the frames that it handles for an RPC are counted instead. Virtual time; the seed is that of arrivals.
"""

from dataclasses import dataclass
from typing import Any

import polars as pl

from penstock_net.vswitch.bench import rig
from penstock_net.vswitch.bench.rig import COSTS, Bench, Row
from penstock_papers.backdraft import _setup as setup
from penstock_papers.backdraft._setup import PREVENTS, value
from penstock_papers.backdraft._switch import each
from penstock_papers.backdraft.fig09 import HIGH, LOADS, MS, SIZES, VICTIM_NS, VICTIMS, in_id, measured_tails, tails
from penstock_papers.cache import Runs
from penstock_papers.claims import FROM_PAPER, OURS
from penstock_papers.sentences import Numbers, holds, within
from penstock_papers.style import BLUE, GREEN, ORANGE, PAGE, PURPLE, RED, SKY, figure, legend_above, lettered, log_axis

TITLE = "A victim's requests beside a growing load, with Homa (real switch)"
PAPER = "Backdraft, NSDI 2022, section 6.1, figure 9"
SEEDS = {"paper": 3}  # a tail of 20 ms
OPEN = 2048  # RPCs of the competitors, of which more than BESS's queue holds are under way at a time
ANSWER = 64
MORE_WORK = "without Backdraft, the CPU usage of Homa increases 8-10%"


@dataclass(frozen=True)
class Case:
    """A series: one queue, or a number of them for the competitors; Homa's RESEND_INTERVAL."""

    queues: int
    resend_ns: float
    look: tuple[str, str]

    @property
    def single(self) -> bool:
        """Whether all clients have one queue."""
        return self.queues == 1


BESS, BACKDRAFT = "BESS (lossy)", "Backdraft"
BESS_MS, BACKDRAFT_MS = "BESS (lossy), 2 ms", "Backdraft, 2 ms"
FEW, FEW_MS = "Backdraft, 16 queues", "Backdraft, 16 queues, 2 ms"
JUDGED, TEXT = (BESS_MS, BACKDRAFT_MS), (BESS, BACKDRAFT)
SERIES = {
    BESS: Case(1, 2e3, (RED, "s")),
    BACKDRAFT: Case(OPEN, 2e3, (BLUE, "o")),
    FEW: Case(16, 2e3, (GREEN, "^")),
    BESS_MS: Case(1, 2e6, (ORANGE, "D")),
    BACKDRAFT_MS: Case(OPEN, 2e6, (SKY, "v")),
    FEW_MS: Case(16, 2e6, (PURPLE, "P")),
}


CLAIMS = tuple(
    row
    for size in SIZES
    for row in (
        *tails(size, *JUDGED, kind=FROM_PAPER),
        holds(f"no-loss-{in_id(size)}", f"{size}: frames that Backdraft drops", PREVENTS, "0"),
        within(
            f"work-{in_id(size)}",
            f"{size}: frames that Homa sends for an RPC at load {HIGH}, BESS over Backdraft",
            MORE_WORK,
            1.04,
            1.2,
            why="half of 8 % to double of 10 %; frames are counted, not a processor's time",
            kind=OURS,
        ),
        *tails(size, *TEXT, "us-"),
        *tails(size, BESS, FEW, "few-")[1:],
    )
)


def measure(runs: Runs, scale: str, seed: int = 1) -> pl.DataFrame:
    """Panels "WHAT, SIZE" by load: "p99", us of the victim's RPCs; "lost", share of frames lost at the switch or before it;
    "frames", that Homa sends for each RPC of the competitors; "answered", share of these RPCs."""
    cases = [(size, series, load, scale, seed) for size in SIZES for series in SERIES for load in LOADS[scale]]
    return each(runs, "backdraft/fig09_homa", cases, work)


def work(size: str, series: str, load: float, scale: str, seed: int) -> list[Row]:
    """Simulate one point."""
    (frame, frames), case = SIZES[size], SERIES[series]
    bench = Bench(rig.bess(length=frame) if case.single else {"mode": "backdraft"}, seed=seed)
    room: dict[str, Any] = {"queues": 4096, "rings": 8192, "buffer_bytes": 1280, "buffers": 16384, "service": [20.0]}
    clients = bench.app("clients", **room)
    servers = [bench.app(name, **room) for name in ("competitors'", "victim's")]
    cost = frames * (COSTS.frame + frame * COSTS.byte) + COSTS.frame + ANSWER * COSTS.byte
    common: dict[str, Any] = {
        "poisson": True,
        "resend": case.resend_ns,
        "most": frame * (rig.BESS_SLOTS if case.single else 64),
        "spills": case.single,
    }
    bench.calls(
        clients, servers[0], 1000, frame, ANSWER, frames=frames, count=OPEN, queues=case.queues, gap=cost / load, **common
    )
    first = 0 if case.single else case.queues
    bench.calls(
        clients,
        servers[1],
        9000,
        64,
        200,
        count=4 * VICTIMS,
        queues=1 if case.single else 4 * VICTIMS,
        queue=first,
        gap=VICTIM_NS / VICTIMS,
        kind=1,
        **common,
    )
    bench.run(1, MS[scale])
    counted = bench.harness.counters()
    asks, answers = bench.harness.called(clients), bench.harness.called(servers[0])
    spilled = sum(found["spilled"] for found in asks)
    theirs = asks[0]
    sent = theirs["sent"] + theirs["asked"] + answers[0]["sent"] + answers[0]["asked"]
    found = {
        "p99": bench.p99(clients, 1),
        "lost": (counted["drops"] + spilled) / (counted["drops"] + spilled + counted["frames"]),
        "frames": sent / max(theirs["finished"], 1),
        "answered": theirs["finished"] * cost / load / (1e6 * MS[scale]),
    }
    bench.close()
    return [(f"{panel}, {size}", series, load, y) for panel, y in found.items()]


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """BESS inflates the victim's tail, Backdraft does not."""
    found: Numbers = {}
    lossless = [series for series, case in SERIES.items() if not case.single]
    for size in SIZES:
        lost = max(value(data, f"lost, {size}", series, load) for series in lossless for load in LOADS[scale])
        without, with_it = (value(data, f"frames, {size}", series, HIGH) for series in JUDGED)
        few = measured_tails(data, size, BESS, FEW, "few-")
        found |= {
            **measured_tails(data, size, *JUDGED),
            f"no-loss-{in_id(size)}": (lost == 0, lost),
            f"work-{in_id(size)}": without / with_it,
            **measured_tails(data, size, *TEXT, "us-"),
            **{id: number for id, number in few.items() if not id.startswith("few-inflates")},
        }
    return found


def plot(data: pl.DataFrame) -> Any:
    """The victim's tail over the load, a panel for each size."""
    made, grid = figure(1, 2, width=PAGE, height=2.4, sharey=True)
    for axes, size in zip(grid, SIZES):
        for series, case in SERIES.items():
            points = setup.line(data, f"p99, {size}", series)
            colour, marker = case.look
            axes.plot(100 * points["x"], points["y"], label=series, color=colour, marker=marker, clip_on=False)
        axes.set_xlabel("competing load (% of the core)")
        log_axis(axes.yaxis)
    grid[0].set_ylabel("p99 of RPCs (us)")
    lettered(grid, SIZES)
    legend_above(made, grid[0], columns=3)
    return made
