"""The schemes of figures 9 to 12 of BFC (NSDI 2022) that have no PFC, HPCC-PFC and ExpressPass: set-up, statistics and claims.

HPCC-PFC "replaces PFC with perfect retransmission" (section 6.2.1): `hpcc:bfc+recovery:bfc` without PFC. A switch drops a
packet when its shared buffer is full, and tells the sender, which sends it again, see `_rivals`.

ExpressPass is what section 6.2.1 ran, the simulator of its authors, whose copy the BFC authors have published
(preeyshah/ns2-xpass, ce4d77a): `expresspass:bfc` has its rule and both of its additions (`air`, short flows begin slowly; `ecs`,
senders stop early), which are always on there, and the 16 credits of the text.  All else is that of its script,
scripts/large-scale-fattree.tcl, in specs of their own, "...-expresspass": load of the ToRs' uplinks, exponential arrivals, 1460 B
in frames of 1538 B, 75 MB for each port, and 10 ms after the last arrival for flows to finish.  Slowdowns are those of its
script_fct.py, see `by_script`.  Its buffer is not shown, as in the paper.

(Ours), beside it in figures 9 and 10: the 8 credits of that script.
"""

from collections.abc import Sequence

import polars as pl

from penstock_papers import ages
from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc import _rivals as rivals
from penstock_papers.bfc._fabric import BFC, DCQCN, DCTCP, HPCC, IDEAL, UPLINKS, Scheme, value
from penstock_papers.bfc._rivals import EXPRESSPASS, HPCC_PFC
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import MORE, OURS
from penstock_papers.sentences import Numbers, Row, about, within

SERIES = (HPCC_PFC, EXPRESSPASS)
APART = "-expresspass"  # of the specs with ExpressPass's set-up
ACK = 60  # bytes
FRAME = 84  # bytes of a credit in the mean, and of a REQUEST or STOP
NS_PER_BYTE = 0.08  # of a link
WORST = "Out of all the schemes, DCQCN is worst on latency for small flow sizes, both at the average and the tail"
IMPROVES = "With ideal retransmission, HPCC performance improves, especially for short and medium flows"
SUFFERS = "HPCC without PFC has higher tail buffer occupancy and suffers packet loss"
STILL_WORSE = "Compared to BFC, overall performance is still worse for both long and short flows"
IDENTICAL = "Without incast, the performance is identical to HPCC as PFC is never triggered in this scenario (arXiv 1909.09923)"
LEAST = "Across all systems, ExpressPass achieves the worst throughput for long flows"
SECTION_1 = "ExpressPass achieves 35% better short flow tail latency, but 17x worse average case performance for long flows"


def expresspass_spec(
    traffic: str, duration: str, sizes: str = "google", load: float = 0.6, incast: float = 0.0, beside: Sequence[Scheme] = ()
) -> dict[str, Spec]:
    """The spec of ExpressPass for a traffic; the arguments are those of `fabric.spec`.

    beside  others of it
    """
    spec = fabric.spec([EXPRESSPASS, *beside], duration, sizes, load, incast, UPLINKS)
    return {traffic + APART: rivals.as_its_script(spec)}


# -- statistics


def measure(runs: Runs, traffic: str, sizes: str, beside: Sequence[Scheme] = ()) -> pl.DataFrame:
    """Both schemes: slowdowns and totals, the buffer of HPCC-PFC, the credits that ExpressPass wastes."""
    parts = [part(runs, traffic, HPCC_PFC) for part in (fabric.buffers, fabric.totals)]
    of_expresspass = (expresspass(runs, traffic, sizes, each) for each in (EXPRESSPASS, *beside))
    return pl.concat([fabric.statistics(runs, traffic, HPCC_PFC, sizes), *parts, *of_expresspass])


def expresspass(runs: Runs, traffic: str, sizes: str, scheme: Scheme = EXPRESSPASS) -> pl.DataFrame:
    """Slowdowns, unfinished flows and wasted credits. Drops are left out: nearly all are credits, which it drops by design."""
    spec = traffic + APART
    unfinished = fabric.totals(runs, spec, scheme).filter(pl.col("panel") == "unfinished")
    waste = fabric.points(spec, scheme, "wasted", [0], [wasted(runs, fabric.of(runs, spec, scheme))])
    slowdowns = fabric.of_flows(by_script(runs, fabric.of(runs, spec, scheme)), spec, scheme, sizes)
    return pl.concat([slowdowns, unfinished, waste]).with_columns(traffic=pl.lit(traffic))


def by_script(runs: Runs, label: str, incast: bool = False) -> pl.LazyFrame:
    """Bytes, slowdown and finished, as the authors' script_fct.py has the slowdown: incast flows or all others.

    A flow ends when the last STOP has reached its receiver; here, when its last byte has, which is the same where the STOP
    follows it, and up to an RTT later where it was sent early.  4 us are taken off, 2 in a rack, and the rest is divided by an
    ideal of 8 us and the time of as many packets of 1000 B as the flow has, whole ones and one more, and 3 more; in a rack 4 us
    and 1 more.  So a lone short flow has 1.
    """
    in_rack = pl.col("src") // _per_rack() == pl.col("dst") // _per_rack()
    delay, hops = pl.when(in_rack).then(2000).otherwise(4000), pl.when(in_rack).then(1).otherwise(3)
    packets = pl.when(pl.col("bytes") > 1000).then(pl.col("bytes") // 1000 + 1).otherwise(1)
    ideal = 2 * delay + (packets + hops) * pl.min_horizontal("bytes", 1000) * NS_PER_BYTE
    of_incast = pl.col("class").cast(pl.String) == "incast"
    flows = ages.counted(runs, label, "receiver").filter(of_incast if incast else ~of_incast)
    return flows.select("bytes", "finished", slowdown=(pl.col("fct_ns") - delay) / ideal)


def _per_rack() -> int:
    return int(fabric.FABRIC["hosts"] // fabric.FABRIC["tors"])


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
    credits = (size - made.collect().item() - acks) / FRAME - others
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
    """BFC's FCTs are better than ExpressPass's: short flows and long ones; `incast`: not the tail, see `section_1`."""
    short, long = f"{where}short flows (< 3 KB)", f"{where}flows > 3 MB"
    p99 = f"{short}, p99: ExpressPass / BFC"
    return [
        *(() if incast else (within(f"{prefix}expresspass-p99", p99, fabric.BEST, 1, why=MORE),)),
        within(f"{prefix}expresspass-avg", f"{short}, average: ExpressPass / BFC", fabric.BEST, 1, why=MORE),
        within(f"{prefix}expresspass-long", f"{long}, average: ExpressPass / BFC", fabric.BEST, 1, why=MORE),
    ]


def section_1() -> list[Row]:
    """The introduction on ExpressPass, with the traffic of figure 9: without incasts BFC's tail leaves nothing to better."""
    return [
        about("expresspass-35", "short flows (< 3 KB), p99: by how much ExpressPass is below BFC (share)", SECTION_1, 0.35),
        about("expresspass-17", "flows > 3 MB, average: ExpressPass / BFC", SECTION_1, 17),
    ]


def of_section_1(data: pl.DataFrame, traffic: str) -> Numbers:
    """The numbers of `section_1`."""
    tail, mean = (
        value(data, traffic, EXPRESSPASS, panel) / value(data, traffic, BFC, panel) for panel in ("short p99", "long avg")
    )
    return {"expresspass-35": 1 - tail, "expresspass-17": mean}


def best(data: pl.DataFrame, traffic: str, prefix: str = "", incast: bool = False) -> Numbers:
    """The numbers of `best_rows`."""
    panels = {**({} if incast else {"p99": "short p99"}), "avg": "short avg", "long": "long avg"}
    return {
        f"{prefix}expresspass-{id}": value(data, traffic, EXPRESSPASS, panel) / value(data, traffic, BFC, panel)
        for id, panel in panels.items()
    }
