"""Backdraft (NSDI 2022), figures 4 and 5, on the real switch: loss over the receiver's speed, and what loss costs requests.

Section 2.1. (a, b) As in backdraft/fig04: every 3.2 ms 32 messages of 125 KB go to the same application, 10 Gbit/s on average,
from eight applications that send at 12.5 Gbit/s each; the receiver takes 12.5 to 100 Gbit/s. Frames are of 1500 B, nothing is
sent again. BESS has one queue for each application, Backdraft one for each message's flow; the receiver has memory for 1024
frames with either. (c) As in backdraft/fig05: eight clients send a request of 200 B, wait for its answer of 200 B and send the
next; a server like Memcached takes 5.35 us on one of eight cores. Frames are lost at random in both directions. Homa's receiver
asks for what is missing after 2 us (RESEND_INTERVAL, section 6.1; 2 ms in the code that it cites, see fig04): here a request is
sent again 2 us after its answer was due. Timeouts of 100 us and 4 ms beside it are ours. Virtual time, in which rates and
goodput are (ours); the seed is that of losses.

Scale "real", as root, is figure 5b: TCP of the kernel (iperf3, one connection, 1 s, median of five rounds) between two namespaces
whose TAPs are joined by a bridge of this package, which loses frames of 1500 B at random in both directions.
"""

import itertools
import json
import statistics
from contextlib import ExitStack
from typing import Any

import polars as pl

from penstock_net.vswitch.attach.lab import Namespace
from penstock_net.vswitch.attach.open import faults
from penstock_net.vswitch.bench import networks, noise, rig
from penstock_net.vswitch.bench.rig import Bench, Row
from penstock_net.vswitch.ports.base import Bridge
from penstock_papers import frames
from penstock_papers.backdraft import _setup as setup
from penstock_papers.backdraft._setup import PREVENTS, value
from penstock_papers.backdraft._switch import each, in_virtual_time
from penstock_papers.backdraft.fig05 import FIVEFOLD, HALVED, RATE, RPCS_HALVED
from penstock_papers.cache import Runs
from penstock_papers.claims import OURS, Differs
from penstock_papers.sentences import Numbers, about, ascending, holds, within
from penstock_papers.style import COLUMN, GREEN, ORANGE, PAGE, PURPLE, RED, SKY, figure, lettered, log_axis

TITLE = "Loss over the receiver's speed, and what loss costs (real switch)"
PAPER = "Backdraft, NSDI 2022, sections 2.1 and A.1.2, figures 4, 5 and 18"
SEEDS = {"paper": 3, "real": 3}  # losses are random
SCALES = ("quick", "paper", "real")
CLIENTS, EACH, LENGTH, MESSAGE, EVERY_MS, SENDER_GBPS = 8, 4, 1500, 84, 3.2, 12.5
OFFERED_GBPS = CLIENTS * EACH * MESSAGE * LENGTH * 8 / (EVERY_MS * 1e6)
SPEEDS = {"quick": (12.5, 100.0), "paper": (12.5, 25.0, 50.0, 75.0, 100.0)}
SLOWEST, FASTEST = SPEEDS["paper"][0], SPEEDS["paper"][-1]
EVENTS = {"quick": 2, "paper": 10}
LOSSY, BACKDRAFT = "lossy", "Backdraft"
MODES: dict[str, dict[str, Any]] = {LOSSY: rig.bess(length=LENGTH), BACKDRAFT: {"mode": "backdraft"}}
LOSSES = (0.0, 1e-4, 1e-3, 1e-2, 1e-1)
SERVICE_NS, RESEND_NS, SWITCH_NS = 1e6 / 187, 2e3, 300.0  # SWITCH_NS: two passes through the switch, without queueing
TIMEOUTS = {"Homa's timeout": SERVICE_NS + SWITCH_NS + RESEND_NS, "timeout 100 us": 1e5, "timeout 4 ms": 4e6}
HOMA, SHORT, LONG = TIMEOUTS
FALLING = {SHORT: "100-us", LONG: "4-ms"}  # in ids
REQUESTS_MS = {"quick": 50, "paper": 500}
TCP, TCP_ROUNDS = "TCP of the kernel", 5
CAN_HALVE = "Packet loss of 10^-2 can halve the throughput (figure 5)"
TIMER = Differs(
    "two frames in a hundred requests are lost, and each costs 7.7 us beside a request's 5.7; what Homa costs a processor is "
    "not modelled",
    "backdraft-homa-timer",
)
DIFFERS = {
    "loss": Differs(
        "all clients send at once: of 2688 frames the receiver takes 336 meanwhile, and the queue holds up to 1024",
        "backdraft-repetition",
        expected=(0.49, 0.875),
    ),
    "requests": TIMER.expecting(0.955, 0.985),
    "tail": TIMER.expecting(2.2, 2.49),
}


CLAIMS = (
    within("tcp", "throughput of TCP at 1 % loss over that without", CAN_HALVE, 0.25, 0.75, why=HALVED).at("real"),
    *in_virtual_time(
        about("loss", f"share of frames lost at {SLOWEST} Gbit/s, lossy", "packet loss can reach even 10%", 0.1),
        ascending(
            "speed",
            "share of frames lost over the receiver's speed, lossy",
            "when the endpoint cannot process incoming packets fast enough, the drop rate increases",
        ),
        holds("no-loss", "frames lost with Backdraft, at any speed", PREVENTS, "0"),
        ascending("goodput", f"goodput at {SLOWEST} Gbit/s (Gbit/s)", "-", kind=OURS),
        within(
            "full",
            f"goodput of Backdraft at {SLOWEST} Gbit/s over what is offered",
            "-",
            0.98,
            1.02,
            why="2 % for the frames on the way when the run begins and ends",
            quick=True,
            kind=OURS,
        ),
        within("requests", RATE, RPCS_HALVED, 0.25, 0.75, why=HALVED, kind=OURS),
        about("tail", "p99 of a request at 1 % loss over that without", FIVEFOLD, 5, kind=OURS),
        within("requests-short", f"{RATE}, timeout 100 us", "-", 0.25, 0.75, why=HALVED, kind=OURS),
        within("requests-slow", "the same, timeout 4 ms", "-", 0.0, 0.5, why="halved or worse", kind=OURS),
        *(
            holds(
                f"falls-{name}", f"{series}: relative rate from 0 to 10 % loss", "-", "falls (within 2 %), below half", kind=OURS
            )
            for series, name in FALLING.items()
        ),
    ),
)


def measure(runs: Runs, scale: str, seed: int = 1) -> pl.DataFrame:
    """Panels "loss" (share) and "goodput" (Gbit/s) over the receiver's speed; "requests": rate relative to that without loss.

    At scale real panel "tcp": throughput relative to that without loss, and "absolute", Gbit/s, over the probability of loss."""
    if scale == "real":
        return tcp(runs, seed)
    cases: list[tuple[Any, ...]] = [(messages, mode, speed, scale) for mode in MODES for speed in SPEEDS[scale]]
    cases += [(requests, series, loss, scale, seed) for series in TIMEOUTS for loss in LOSSES]
    data = each(runs, "backdraft/fig04_switch", cases, lambda work, *case: work(*case))
    base = {series: value(data, "requests", series) for series in TIMEOUTS}
    relative = pl.col("y") / pl.col("series").replace_strict(base, default=1.0, return_dtype=pl.Float64)
    return data.with_columns(pl.when(pl.col("panel") == "requests").then(relative).otherwise(pl.col("y")).alias("y"))


def messages(mode: str, speed: float, scale: str) -> list[Row]:
    """Events of 32 messages at once, at fixed times: without random numbers."""
    bench = Bench(MODES[mode])
    receiver = bench.app("receiver", queues=128, buffers=rig.BESS_SLOTS, buffer_bytes=1536, service=[8 * LENGTH / speed])
    for client in range(CLIENTS):
        app = bench.app(f"client{client}", queues=8, buffers=1024, rings=64, buffer_bytes=1536, send=8 * LENGTH / SENDER_GBPS)
        for i in range(EACH):
            single = mode == LOSSY
            bench.udp(
                app,
                receiver,
                1000 if single else 1000 + i,
                queue=0 if single else i,
                length=LENGTH,
                burst=MESSAGE,
                gap=1e6 * EVERY_MS,
                most=1 << 20,
            )
    bench.run(0, EVERY_MS * EVENTS[scale])
    found = {"loss": bench.lost(), "goodput": bench.goodput(receiver)}
    bench.close()
    return [(panel, mode, speed, y) for panel, y in found.items()]


def requests(series: str, loss: float, scale: str, seed: int) -> list[Row]:
    """Requests a second, in thousands, and their tail in us."""
    bench = Bench({"mode": "backdraft"}, seed=seed)
    clients = bench.app("clients", buffer_bytes=256, loss=loss)
    server = bench.app("server", buffer_bytes=256, service=[SERVICE_NS] * CLIENTS, loss=loss)
    for i in range(CLIENTS):
        bench.rpc(
            clients, server, 1000 + i, 200, 200, queue=i, answer_queue=i, core=i, timeout=TIMEOUTS[series], phase=i * 731.0
        )  # clients that begin together would go on in lockstep
    bench.run(1, REQUESTS_MS[scale])
    found = {"requests": 1e3 * bench.rate(clients), "p99": bench.p99(clients)}
    bench.close()
    return [(panel, series, loss, y) for panel, y in found.items()]


def tcp(runs: Runs, seed: int) -> pl.DataFrame:
    """Throughput of TCP at every probability of loss, in rounds, so that other load on the machine concerns all alike."""
    networks.need_root()
    rounds = each(
        runs, "backdraft/fig04_switch", [(1 + nth,) for nth in range((seed - 1) * TCP_ROUNDS, seed * TCP_ROUNDS)], tcp_round
    )
    gbps = [statistics.median(frames.chosen(rounds, panel="round", x=loss)["y"]) for loss in LOSSES]
    relative = [y / gbps[0] for y in gbps]
    return pl.concat([frames.rows("tcp", TCP, LOSSES, relative), frames.rows("absolute", TCP, LOSSES, gbps)])


def tcp_round(seed: int) -> list[Row]:
    """Gbit/s at every probability of loss, on a machine that was quiet before.  MachineBusy: it was not."""
    noise.look_first("before the run", noise.two_processors())
    return [("round", TCP, loss, stream_gbps(loss, seed)) for loss in LOSSES]


def stream_gbps(loss: float, seed: int) -> float:
    """Gbit/s that a TCP connection delivers in a second."""
    with ExitStack() as stack:
        left, right = (stack.enter_context(Namespace(name)) for name in ("left", "right"))
        near = stack.enter_context(left.tap("10.77.0.1/24", headers=False))
        far = stack.enter_context(right.tap("10.77.0.2/24", headers=False))
        stack.enter_context(Bridge(near, faults(far, drop=loss, seed=seed)))
        server = right.start("iperf3", "-s", "-1", "--forceflush")
        networks.wait_for(server, "listening")
        report = json.loads(left.run("iperf3", "-c", "10.77.0.2", "-J", "-t", "1", timeout=120))
        server.wait(30)
    return float(report["end"]["sum_received"]["bits_per_second"]) / 1e9


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """A slow receiver loses a tenth of the frames, with Backdraft none; one per cent of loss halves the requests."""
    if scale == "real":
        return {"tcp": value(data, "tcp", TCP, 0.01)}
    lost = {mode: [value(data, "loss", mode, speed) for speed in SPEEDS[scale]] for mode in MODES}
    goodput = {mode: value(data, "goodput", mode, SLOWEST) for mode in MODES}
    rate = {series: [value(data, "requests", series, loss) for loss in LOSSES] for series in TIMEOUTS}
    at = LOSSES.index(0.01)
    found = {
        "loss": lost[LOSSY][0],
        "speed": {f"{FASTEST:g} Gbit/s": lost[LOSSY][-1], f"{SLOWEST:g} Gbit/s": lost[LOSSY][0]},
        "no-loss": (max(lost[BACKDRAFT]) == 0, max(lost[BACKDRAFT])),
        "goodput": goodput,
        "full": goodput[BACKDRAFT] / OFFERED_GBPS,
        "requests": rate[HOMA][at],
        "tail": value(data, "p99", HOMA, 0.01) / value(data, "p99", HOMA),
        "requests-short": rate[SHORT][at],
        "requests-slow": rate[LONG][at],
    }
    for series, name in FALLING.items():
        values = rate[series]
        falls = all(later <= 1.02 * earlier for earlier, later in itertools.pairwise(values)) and values[-1] < 0.5
        found[f"falls-{name}"] = falls, ", ".join(f"{y:.3g}" for y in values)
    return found


def plot(data: pl.DataFrame) -> Any:
    """Goodput and loss over the receiver's speed; rate of requests over loss. At scale real TCP's throughput over loss."""
    if data["panel"].is_in(["tcp"]).any():
        return plot_tcp(data)
    made, grid = figure(1, 3, width=PAGE, height=2.3)
    for mode, colour, marker in ((LOSSY, RED, "s"), (BACKDRAFT, SKY, "o")):
        for axes, panel, scale in ((grid[0], "goodput", 1), (grid[1], "loss", 100)):
            points = setup.line(data, panel, mode)
            axes.plot(points["x"], scale * points["y"], label=mode, color=colour, marker=marker, clip_on=False)
    for series, colour, marker in ((HOMA, GREEN, "v"), (SHORT, ORANGE, "^"), (LONG, PURPLE, "D")):
        points = setup.line(data, "requests", series).filter(pl.col("x") > 0)
        grid[2].plot(points["x"], points["y"], label=series, color=colour, marker=marker, clip_on=False)
    for axes, text in zip(grid, ("goodput (Gbit/s)", "lost frames (%)", "rate / rate without loss")):
        axes.set_ylabel(text)
        axes.set_xlabel("receiver's speed (Gbit/s)")
        axes.set_ylim(bottom=0)
    grid[0].legend(loc="lower left", frameon=False)
    grid[2].set_ylim(0, 1.7)
    grid[2].legend(loc="upper right", frameon=False)
    grid[2].set_xlabel("probability of loss")
    log_axis(grid[2].xaxis)
    lettered(grid, ("throughput", "loss", "requests"))
    return made


def plot_tcp(data: pl.DataFrame) -> Any:
    """Throughput of TCP, relative to that without loss."""
    made, axes = figure(width=COLUMN, height=2.4)
    points = setup.line(data, "tcp", TCP).filter(pl.col("x") > 0)
    axes.plot(points["x"], points["y"], color=SKY, marker="o", clip_on=False)
    axes.set_ylabel("rate / rate without loss")
    axes.set_xlabel("probability of loss")
    axes.set_ylim(bottom=0)
    log_axis(axes.xaxis)
    return made
