"""The schemes of figures 9 to 12 of BFC (NSDI 2022) that have no PFC, HPCC-PFC and ExpressPass: set-up, statistics and claims.

HPCC-PFC "replaces PFC with perfect retransmission" (section 6.2.1): `hpcc:bfc+recovery:perfect` without PFC. A switch drops a
packet when its shared buffer is full, and tells the sender, which sends it again and does not slow down, see `_rivals`.

ExpressPass has the parameters of section 6.2.1 (alpha 0.5, w_init 0.0625, 16 credits), the algorithm of its own paper, and
neither of the two additions of its authors' simulator (`air`, short flows begin slowly; `ecs`, senders stop early):
section 6.2.2 explains its results by credits that receivers generate "for an additional RTT before learning that a flow is
finished", which these additions all but remove. Its switches have 75 MB for each port in specs of their own, "...-expresspass".
Its flows are those of the others, with the lognormal arrivals of section 6.2.1; the scripts of its simulator have exponential
ones. Its buffer is not shown, as in the paper. Both have the load in the core only, which the paper's claims are judged with.
"""

from typing import Any

import polars as pl

from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc import _rivals as rivals
from penstock_papers.bfc._fabric import BFC, DCQCN, DCTCP, HPCC, IDEAL, value
from penstock_papers.bfc._rivals import EXPRESSPASS, HPCC_PFC
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import MORE, OURS
from penstock_papers.sentences import Numbers, Row, within

SERIES = (HPCC_PFC, EXPRESSPASS)
APART = "-expresspass"  # of the specs with ExpressPass's buffers
CREDIT, FRAME, ACK = 68, 64, 60  # bytes: a credit's mean size, a REQUEST or STOP, an ACK
WORST = "Out of all the schemes, DCQCN is worst on latency for small flow sizes, both at the average and the tail"
IMPROVES = "With ideal retransmission, HPCC performance improves, especially for short and medium flows"
SUFFERS = "HPCC without PFC has higher tail buffer occupancy and suffers packet loss"
STILL_WORSE = "Compared to BFC, overall performance is still worse for both long and short flows"
IDENTICAL = "Without incast, the performance is identical to HPCC as PFC is never triggered in this scenario (arXiv 1909.09923)"
LEAST = "Across all systems, ExpressPass achieves the worst throughput for long flows"
EXISTING = "the tail latency for short flows with BFC is still 5-30x better than existing schemes"


def expresspass_spec(traffic: str, *args: Any, **kwargs: Any) -> dict[str, Spec]:
    """The spec of ExpressPass for a traffic; the arguments are those of `fabric.spec` without the schemes."""
    return {traffic + APART: rivals.with_large_buffers(fabric.spec([EXPRESSPASS], *args, **kwargs))}


# -- statistics


def measure(runs: Runs, traffic: str, sizes: str) -> pl.DataFrame:
    """Both schemes: slowdowns and totals, the buffer of HPCC-PFC, the credits that ExpressPass wastes."""
    parts = [part(runs, traffic, HPCC_PFC) for part in (fabric.buffers, fabric.totals)]
    return pl.concat([fabric.statistics(runs, traffic, HPCC_PFC, sizes), *parts, expresspass(runs, traffic, sizes)])


def expresspass(runs: Runs, traffic: str, sizes: str) -> pl.DataFrame:
    """Slowdowns, unfinished flows and wasted credits. Drops are left out: nearly all are credits, which it drops by design."""
    spec = traffic + APART
    unfinished = fabric.totals(runs, spec, EXPRESSPASS).filter(pl.col("panel") == "unfinished")
    waste = fabric.points(spec, EXPRESSPASS, "wasted", [0], [wasted(runs, spec)])
    found = pl.concat([fabric.statistics(runs, spec, EXPRESSPASS, sizes), unfinished, waste])
    return found.with_columns(traffic=pl.lit(traffic))


def wasted(runs: Runs, spec: str) -> float:
    """Per cent of the credits that reach a sender and find nothing to send.

    By what the links to hosts carry: data, of which as many bytes as hosts send, ACKs, a REQUEST and a STOP of every flow, and
    credits. (Control frames are counted where they are made.)
    """
    hosts = runs.scan(spec, "nodes").filter(pl.col("tier") == 0).select("node")
    ports = runs.scan(spec, "ports").select("node", "peer", "tx_packets", "tx_bytes", "ack_bytes", "control_bytes")
    made = ports.join(hosts, on="node").select(pl.col("tx_bytes") - pl.col("ack_bytes") - pl.col("control_bytes")).sum()
    came = ports.join(hosts.rename({"node": "peer"}), on="peer").select(pl.col("tx_packets", "tx_bytes", "ack_bytes").sum())
    packets, size, acks = came.collect().row(0)
    others = 2 * runs.summary(spec)["flows_started"]
    credits = (size - made.collect().item() - acks - FRAME * others) / CREDIT
    data = packets - acks / ACK - others - credits
    return float(100 * (1 - data / credits))


# -- claims: their rows, and their numbers


def latency_rows() -> list[Row]:
    """DCQCN's short flows against those of both schemes."""
    return [
        within(
            f"dcqcn-worst-{panel}", f"short flows, {what}: DCQCN / worse of HPCC-PFC and ExpressPass ({{}})", WORST, 1, why=MORE
        )
        for panel, what in (("avg", "average"), ("p99", "p99"))
    ]


def worst_latency(data: pl.DataFrame, traffic: str) -> Numbers:
    """The numbers of `latency_rows`."""
    found: Numbers = {}
    for panel in ("avg", "p99"):
        of = {each.legend: value(data, traffic, each, f"short {panel}") for each in (*SERIES, DCQCN)}
        next_worst = max((each.legend for each in SERIES), key=of.__getitem__)
        found[f"dcqcn-worst-{panel}"] = (of["DCQCN"] / of[next_worst], next_worst)
    return found


def incast_rows(prefix: str = "", where: str = "") -> list[Row]:
    """HPCC-PFC against HPCC and BFC when packets are dropped."""
    better = "improves is more than 1; HPCC's tail is at most 30 times BFC's, which is still better"
    short = "worse is more than 1; HPCC, on which it improves, has at most 30"
    long = "worse is more than 1; the abstract has at most 5 for the schemes that are deployed"
    said: tuple[tuple[str, str, str, float | None, str], ...] = (
        ("short", "short flows, p99: HPCC / HPCC-PFC", IMPROVES, 30, better),
        ("medium", "flows of 200 to 1000 KB, average: HPCC / HPCC-PFC", IMPROVES, None, MORE),
        ("especially", "HPCC / HPCC-PFC, average: smaller of short and medium flows ({}) / long flows", IMPROVES, None, MORE),
        ("buffer", "buffer in use, p99: HPCC-PFC / HPCC", SUFFERS, None, MORE),
        ("loss", "packets dropped under HPCC-PFC", SUFFERS, None, f"any; {MORE}"),
        ("worse-short", "short flows, p99: HPCC-PFC / BFC", STILL_WORSE, 30, short),
        ("worse-long", "flows > 3 MB, average: HPCC-PFC / BFC", STILL_WORSE, 5, long),
    )
    return [within(f"{prefix}recovery-{id}", f"{where}{what}", paper, 1, high, why=why) for id, what, paper, high, why in said]


def recovery_with_incast(data: pl.DataFrame, traffic: str, prefix: str = "") -> Numbers:
    """The numbers of `incast_rows`."""

    def over(panel: str, one: fabric.Scheme, other: fabric.Scheme) -> float:
        return value(data, traffic, one, panel) / value(data, traffic, other, panel)

    gain = {group: over(f"{group} avg", HPCC, HPCC_PFC) for group in ("short", "medium", "long")}
    least = min(("short", "medium"), key=gain.__getitem__)
    deep = {each.legend: rivals.buffer_at(data, traffic, each, 0.99) for each in (HPCC_PFC, HPCC)}
    return {
        f"{prefix}recovery-short": over("short p99", HPCC, HPCC_PFC),
        f"{prefix}recovery-medium": gain["medium"],
        f"{prefix}recovery-especially": (gain[least] / gain["long"], least),
        f"{prefix}recovery-buffer": deep["HPCC-PFC"] / deep["HPCC"],
        f"{prefix}recovery-loss": value(data, traffic, HPCC_PFC, "drops"),
        f"{prefix}recovery-worse-short": over("short p99", HPCC_PFC, BFC),
        f"{prefix}recovery-worse-long": over("long avg", HPCC_PFC, BFC),
    }


def plain_rows(prefix: str = "", where: str = "") -> list[Row]:
    """HPCC-PFC is HPCC where PFC would not pause; ours: nothing is dropped either."""
    same, full = "identical is within 1 %", "no buffer is full if PFC would not pause"
    short, long = (f"{where}{what}: HPCC-PFC / HPCC" for what in ("short flows, p99", "flows > 3 MB, average"))
    return [
        within(f"{prefix}recovery-same-short", short, IDENTICAL, 0.99, 1.01, why=same),
        within(f"{prefix}recovery-same-long", long, IDENTICAL, 0.99, 1.01, why=same),
        within(f"{prefix}recovery-loss", f"{where}packets dropped under HPCC-PFC", "", 0, 0, why=full, kind=OURS),
    ]


def recovery_without_incast(data: pl.DataFrame, traffic: str, prefix: str = "") -> Numbers:
    """The numbers of `plain_rows`."""
    with_loss, hpcc = ({p: value(data, traffic, each, p) for p in ("short p99", "long avg")} for each in (HPCC_PFC, HPCC))
    return {
        f"{prefix}recovery-same-short": with_loss["short p99"] / hpcc["short p99"],
        f"{prefix}recovery-same-long": with_loss["long avg"] / hpcc["long avg"],
        f"{prefix}recovery-loss": value(data, traffic, HPCC_PFC, "drops"),
    }


def throughput_rows() -> list[Row]:
    """ExpressPass's long flows against those of every other scheme; ours: without DCQCN, of which long flows are slow here."""
    what = "flows > 3 MB, average: ExpressPass ({} flows finished)"
    unknown = "long flows of DCQCN depend on parameters that are not published"
    return [
        within("expresspass-worst", f"{what} / worst other scheme ({{}})", LEAST, 1, why=MORE),
        within("expresspass-worst-but-dcqcn", f"{what} / worst other scheme but DCQCN ({{}})", unknown, 1, why=MORE, kind=OURS),
    ]


def least_throughput(data: pl.DataFrame, traffic: str) -> Numbers:
    """The numbers of `throughput_rows`."""
    others = (DCQCN, DCTCP, HPCC, HPCC_PFC, BFC, IDEAL)
    mean = {each.legend: value(data, traffic, each, "long avg") for each in (*others, EXPRESSPASS)}
    count = fabric.curve(data, traffic, EXPRESSPASS.label, "long avg")["flows"][0]
    worst, but_dcqcn = (max((each.legend for each in kept), key=mean.__getitem__) for kept in (others, others[1:]))
    return {
        "expresspass-worst": (mean["ExpressPass"] / mean[worst], count, worst),
        "expresspass-worst-but-dcqcn": (mean["ExpressPass"] / mean[but_dcqcn], count, but_dcqcn),
    }


def best_rows(prefix: str = "", where: str = "", incast: bool = False) -> list[Row]:
    """BFC's FCTs are better than ExpressPass's: short flows and long ones; `incast`: the tail by the range of the paper."""
    short, long = f"{where}short flows (< 3 KB)", f"{where}flows > 3 MB"
    p99 = f"{short}, p99: ExpressPass / BFC"
    return [
        within(f"{prefix}expresspass-p99", p99, EXISTING, 5, 30, why=fabric.RANGE)
        if incast
        else within(f"{prefix}expresspass-p99", p99, fabric.BEST, 1, why=MORE),
        within(f"{prefix}expresspass-avg", f"{short}, average: ExpressPass / BFC", fabric.BEST, 1, why=MORE),
        within(f"{prefix}expresspass-long", f"{long}, average: ExpressPass / BFC", fabric.BEST, 1, why=MORE),
    ]


def best(data: pl.DataFrame, traffic: str, prefix: str = "") -> Numbers:
    """The numbers of `best_rows`."""
    panels = {"p99": "short p99", "avg": "short avg", "long": "long avg"}
    return {
        f"{prefix}expresspass-{id}": value(data, traffic, EXPRESSPASS, panel) / value(data, traffic, BFC, panel)
        for id, panel in panels.items()
    }
