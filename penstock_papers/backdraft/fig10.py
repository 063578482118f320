"""Backdraft (NSDI 2022), figure 10: the contribution of each component with a slow receiver, on the real switch.

Section 6.2: 50 UDP flows to a receiver that spends 0, 500 or 5000 extra cycles on each frame, beside 10 flows of requests to
Memcached, from the same port of one switch with one core. Lossy and BP (PFC) are BESS with one queue for each application. DPFQ
gives every flow a transmit and a receive queue, and drops what does not fit, as the paper's does; it polls its queues. DQ are
doorbells; ON is Backdraft. "DPFQ, waiting" is a step that the paper does not have: mode `dpfq`, whose transmit queues wait
instead of losing frames. UDP sends 64 B frames as fast as its queues take them (64 KB in the one queue, 4 KB in each of many).
A request is of 64 B, its answer of 200 B; Memcached takes 5.35 us for it on one of four cores (section 2: 187 thousand a second
and core). There is no TCP: a request that was lost is sent again after 1 ms. Virtual time; a cycle is 1 / 2.445 ns; the seed is
that of the flow table's hashes. Goodput and the core's time, which come from the cost model, are (ours) there. Scale "real"
measures goodput; what concerns the receiver without extra cycles is not judged by it: one core that drives all applications
cannot overload the switch.
"""

from dataclasses import replace
from typing import Any

import polars as pl

from penstock_net.vswitch.bench import rig
from penstock_net.vswitch.bench.rig import CYCLE_NS, Bench, Row
from penstock_papers import frames
from penstock_papers.backdraft import _setup as setup
from penstock_papers.backdraft._setup import value
from penstock_papers.backdraft._switch import core_ns, each, in_virtual_time
from penstock_papers.cache import Runs
from penstock_papers.claims import MORE, OURS, Differs
from penstock_papers.sentences import Numbers, about, ascending, holds, within
from penstock_papers.style import GREEN, ORANGE, PAGE, PURPLE, RED, SKY, YELLOW, figure, legend_above, lettered, log_axis

TITLE = "What each component is worth with a slow receiver (real switch)"
PAPER = "Backdraft, NSDI 2022, section 6.2, figure 10"
SCALES = ("quick", "paper", "real")
SEEDS = {"real": 3}  # rates in real time
UDP_FLOWS, REQUESTS, CORES, BASE_NS = 50, 10, 4, 20.0
CYCLES = (0, 500, 5000)
SLOWEST = CYCLES[-1]
MS = {"quick": 4, "paper": 40}
PER_FLOW = {"th_goal": "32KB", "th_over": "128KB", "th_net": "512KB"}
LOSSY, BP, DPFQ, DQ, WAITING, ON = "lossy", "BP", "DPFQ", "DPFQ+DQ", "DPFQ+DQ, waiting", "DPFQ+DQ+ON (Backdraft)"
MODES: dict[str, dict[str, Any]] = {
    LOSSY: rig.bess(),
    BP: rig.bess("pfc"),
    DPFQ: {**PER_FLOW, "mode": "lossy", "doorbells": False},
    DQ: {**PER_FLOW, "mode": "lossy"},
    WAITING: {**PER_FLOW, "mode": "dpfq"},
    ON: {**PER_FLOW, "mode": "backdraft"},
}
LOOKS = dict(zip(MODES, (RED, PURPLE, YELLOW, ORANGE, GREEN, SKY)))
EXTRA = (
    "for the 0, 500, and 5 K cycle receiver, Backdraft achieves 22%, 10%, and 200% and higher goodput than the lossy counterpart"
)
GAINS = {0: 1.22, 500: 1.1, 5000: 3.0}
ALWAYS = "Backdraft always outperforms BESS, even when the latter is augmented with lossless capabilities using PFC"
LESS_CPU = "higher throughput and lower CPU overheads than lossy switching"
LESS = f"lower: by a twentieth or more; {MORE}"
NOTHING_LOST = Differs(
    "a receiver that spends no extra cycles is faster than the switch here, so nothing is lost that could be saved",
    "backdraft-components",
    expected=(0.98, 0.9999),
)
MORE_GOODPUT = (
    *(
        about(f"goodput-{cycles}", f"goodput of ON over lossy, {cycles} cycles", EXTRA, number, gain=True)
        for cycles, number in GAINS.items()
    ),
    about(
        "goodput-caption", f"goodput of ON over lossy, {SLOWEST} cycles", "while achieving 1.9x higher goodput", 1.9, gain=True
    ),
    about(
        "memcached",
        "goodput of Memcached, ON over lossy, largest of the cycles",
        "improve its goodput by up to 2.71x when compared to BESS",
        2.71,
        gain=True,
    ),
)
DIFFERS = {
    "goodput-0": NOTHING_LOST,
    "always": NOTHING_LOST,
    "tail-bp": Differs(
        "the tail is what 1024 slots last the slow receiver, 2.1 ms, and up to as long again in the sender; Backdraft's is 16 us",
        "backdraft-components",
        expected=(131, 262),
    ),
}


CLAIMS = (
    holds("no-loss", "frames lost with BP and with ON", "BESS with PFC and Backdraft both report zero packet loss", "0"),
    holds(
        "loss",
        "frames lost without (Mpps)",
        "Without PFC for BESS and without the overlay network for Backdraft, packets may be dropped",
        "> 0",
    ),
    ascending("dpfq", f"p99 of requests at {SLOWEST} cycles (us)", "DPFQ, in contrast, keeps the overall latency low"),
    *(row.at("real") for row in MORE_GOODPUT if row.id != "goodput-0"),
    *in_virtual_time(
        *(replace(row, kind=OURS) for row in MORE_GOODPUT),
        within("always", "goodput of ON over lossy and over BP, smallest of the cycles", ALWAYS, 1.0, why=MORE, kind=OURS),
        *(
            within(
                f"cpu-{cycles}",
                f"the switch's core time for a delivered frame, ON over lossy, {cycles} cycles",
                LESS_CPU,
                None,
                0.95,
                why=LESS,
                kind=OURS,
            )
            for cycles in CYCLES[1:]
        ),
        ascending(
            "slower",
            "frames that the lossy switch loses (Mpps), over the cycles",
            "Slower receivers have more detrimental impact on the performance",
        ),
        ascending("more", f"frames lost at {SLOWEST} cycles (Mpps)", "This results in even more packet loss at the receiver"),
        ascending(
            "polling", "goodput at 0 cycles (Gbit/s)", "combining DPFQ and doorbell queues (DPFQ+DQ) improves goodput", kind=OURS
        ),
        about(
            "tail-lossy",
            "p99 of requests, lossy over ON, largest of the cycles",
            "Backdraft improves tail latency up to 5.65x compared to BESS",
            5.65,
        ),
        about(
            "tail-bp",
            "p99 of requests, BP over ON, largest of the cycles",
            "45.2x compared to BESS augmented with PFC at the 99th percentile",
            45.2,
        ),
    ),
)


def measure(runs: Runs, scale: str, seed: int = 1) -> pl.DataFrame:
    """Panels "lost" (Mpps), "goodput" (Gbit/s, UDP and answers), "udp", "answers", "p50" and "p99" (us), "busy" (ns of the
    switch's core for each delivered frame), over the cycles."""
    return each(runs, "backdraft/fig10", [(mode, cycles, scale, seed) for mode in MODES for cycles in CYCLES], work)


def work(mode: str, cycles: int, scale: str, seed: int = 1) -> list[Row]:
    """Simulate one bar of each panel."""
    bench, single = Bench(MODES[mode], seed=seed), mode in (LOSSY, BP)
    client = bench.app("client", queues=64, buffer_bytes=256)
    receiver = bench.app("udp", queues=128, buffer_bytes=256, service=[BASE_NS + cycles * CYCLE_NS])
    memcached = bench.app("memcached", queues=32, buffer_bytes=256, service=[1e6 / 187] * CORES)
    for i in range(UDP_FLOWS):
        bench.udp(client, receiver, 1000 if single else 1000 + i, queue=0 if single else i, most=65536 if single else 4096)
    for i in range(REQUESTS):
        port, queue = (2000, 0) if single else (2000 + i, UDP_FLOWS + i)
        bench.rpc(
            client,
            memcached,
            port,
            queue=queue,
            answer_queue=0 if single else i,
            answer_length=200,
            kind=1,
            core=i % CORES,
            timeout=1e6,
        )
    seen = bench.go(scale, 2, MS.get(scale, 0))
    udp, answers = bench.goodput(receiver), bench.goodput(client, 1)
    counters, ns = bench.harness.counters(), bench.harness.received(client)[2]
    found = {
        "lost": 1e3 * counters["drops"] / ns,
        "goodput": udp + answers,
        "udp": udp,
        "answers": answers,
        "p99": bench.p99(client, 1),
        "p50": bench.p99(client, 1, 0.5),
    }
    if scale != "real":
        found["busy"] = core_ns(bench)
    bench.close()
    return [(panel, mode, cycles, y) for panel, y in found.items()] + seen


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Only PFC and ON lose nothing; ON has the best goodput and tail."""
    lost = {mode: max(value(data, "lost", mode, cycles) for cycles in CYCLES) for mode in MODES}

    def ratios(panel: str, above: str, below: str) -> dict[int, float]:
        return {cycles: value(data, panel, above, cycles) / value(data, panel, below, cycles) for cycles in CYCLES}

    gain = ratios("goodput", ON, LOSSY)
    found = {
        "no-loss": (lost[BP] == lost[ON] == 0, frames.text({mode: lost[mode] for mode in (BP, ON)})),
        "loss": (min(lost[LOSSY], lost[DPFQ], lost[DQ]) > 0, frames.text({mode: lost[mode] for mode in (LOSSY, DPFQ, DQ)})),
        "dpfq": {mode: value(data, "p99", mode, SLOWEST) for mode in (DPFQ, BP)},
        **{f"goodput-{cycles}": gain[cycles] for cycles in CYCLES if cycles or scale != "real"},
        "goodput-caption": gain[SLOWEST],
        "memcached": max(ratios("answers", ON, LOSSY).values()),
    }
    if scale == "real":
        return found
    busy = ratios("busy", ON, LOSSY)
    return {
        **found,
        "always": min(*gain.values(), *ratios("goodput", ON, BP).values()),
        **{f"cpu-{cycles}": busy[cycles] for cycles in CYCLES[1:]},
        "slower": {str(cycles): value(data, "lost", LOSSY, cycles) for cycles in CYCLES},
        "more": {mode: value(data, "lost", mode, SLOWEST) for mode in (DPFQ, DQ)},
        "polling": {mode: value(data, "goodput", mode, 0) for mode in (DPFQ, DQ)},
        "tail-lossy": max(ratios("p99", LOSSY, ON).values()),
        "tail-bp": max(ratios("p99", BP, ON).values()),
    }


def plot(data: pl.DataFrame) -> Any:
    """Loss, goodput and tail, a group of bars for each receiver."""
    made, grid = figure(1, 3, width=PAGE, height=2.6)
    for axes, panel in zip(grid, ("lost", "goodput", "p99")):
        for nth, mode in enumerate(MODES):
            points = setup.line(data, panel, mode)
            places = [CYCLES.index(int(x)) + 0.14 * (nth - 2.5) for x in points["x"]]
            axes.bar(places, points["y"], 0.13, label=mode, color=LOOKS[mode])
        axes.set_xticks(range(len(CYCLES)), [str(cycles) for cycles in CYCLES])
        axes.set_xlabel("extra cycles of the receiver")
    for axes, text in zip(grid, ("lost (Mpps)", "goodput (Gbit/s)", "p99 of requests (us)")):
        axes.set_ylabel(text)
    log_axis(grid[2].yaxis)
    lettered(grid, ("loss", "goodput", "completion time"))
    legend_above(made, grid[0], columns=3)
    return made
