"""Beyond the papers: ExpressPass beside the numbers of its own paper (Cho, Jang and Han, SIGCOMM 2017).

* figures 8a and 16: a second long flow joins one on the same link, base RTT 100 us: RTTs from its start until it has its half,
  that is, until three RTTs in a row with 75 to 125 % of it begin.  10 Gbit/s and, in figure 16, 100; the first w is 1/2
* figure 8b: a flow of one packet, RTT 100 us: credits that are wasted
* figure 10: a flow over 1 to 6 links, each of which has a flow of its own, 4 us per link: data on the least used link, of what
  credits leave.  "Naive" receivers send credits at the maximum rate; here alpha 1, and w and losses that change nothing
* figure 15: 4 to 1024 long flows on one link, RTT 100 us, started within 10 ms: data on the link, Jain's index of the flows'
  bytes in 100 ms, longest queue
* figure 20, table 3: random flows of Web Server and Cache Follower sizes between 192 hosts, 3:1 oversubscribed, load 0.2 to 0.6
  of the ToRs' uplinks: credits wasted, of those that senders received; longest queue of any port of a switch

Judged is Algorithm 1 as the paper prints it (feedback "printed").  Beside it, (ours), the same with the cut of the authors'
simulator (kaist-ina/ns2-xpass), of the rate at which credits came through, which is this package's default; all of that
simulator's rule, where a flow aims at less loss the more of the link it has; and, but for random flows, the default with queues
that lose credits at random, the more the longer they are ("uniform random dropping", section 3).

Set-up of sections 3 and 6 and of that simulator: packets of 1538 B with 1460 B of payload; credits of 64 to 72 B, since frames
have 64 B, not 84 to 92 B: data may have 95.8 % of a link, not 94.8 %, and gaps are 1 % shorter.  Credit queues of 8, w_min 0.01,
target 0.1; alpha and the first w are 1/16 unless said otherwise.  Random flows: 8 core, 16 aggregation and 32 ToR switches; the
longest RTT is 52 us, on links of 4 us and with 1 us in each host there, of 4.333 us here; the load includes headers.  Web Server
has the paper's 100 000 flows; the distributions are those of Homa's simulator (means 63 and 693 KB; 64 and 701 KB there).
Buffers have no limit here, so that the bound of 250 packets is a claim.

Scale quick: no random flows; up to 16 flows and 2 links.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from penstock_papers import frames
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import OURS, Differs
from penstock_papers.hpcc.fig14 import jain
from penstock_papers.sentences import Numbers, Row, about, ascending, within
from penstock_papers.style import BLACK, BLUE, DASHES, GREEN, ORANGE, PAGE, PURPLE, RED, figure, lettered, log_axis

TITLE = "ExpressPass beside its published convergence, waste, utilisation and queues"
PAPER = "Beyond the papers: ExpressPass, SIGCOMM 2017, figures 8, 10, 15, 16, 20 and table 3"
SEEDS = {"paper": 10}  # gaps and sizes of credits are random
REDUCED = "Cache Follower 10 000 of 100 000 flows, which are as many bytes as Web Server's 100 000"
PAYLOAD, FRAME, CREDIT, SPREAD = 1460, 1538, 68, 8
LEFT = FRAME / (FRAME + CREDIT)  # of a link, for data
ACK = 60
HOST: dict[str, Any] = {"mtu": PAYLOAD, "header": FRAME - PAYLOAD, "ack": ACK}
RTT_US = 100
ONE_WAY = {10: "16us", 100: "16600ns"}  # of each of three links, with the time of the packets on them: 100 us there and back
ALPHAS = {"1": 1.0, "1/2": 0.5, "1/4": 0.25, "1/8": 0.125, "1/16": 0.0625, "1/32": 0.03125}
REPEATS = {"quick": 2, "paper": 5}  # of figures 8a and 16
JOINS_US, JOINED_RTTS, NEAR = 5000, 60, 0.25
LINKS = {"quick": (1, 2), "paper": (1, 2, 3, 4, 5, 6)}
NAIVES = ("naive", "naive-random")
NAIVE = {"alpha": 1.0, "w_init": 0.0001, "w_min": 0.0001, "w_max": 0.0001, "target": 1.0}
FLOWS = {"quick": (4, 16), "paper": (4, 16, 64, 256, 1024)}
MS = {"quick": 10, "paper": 100}  # an interval of figure 15, after one that is left out
# sizes, Gbit/s, load, alpha: ms in which 100 000 and 10 000 flows come
RANDOM = {
    ("web_server", 10, 0.2, "1/16"): 414,
    ("web_server", 10, 0.4, "1/16"): 207,
    ("web_server", 10, 0.6, "1/16"): 138,
    ("web_server", 10, 0.6, "1/2"): 138,
    ("web_server", 40, 0.6, "1/16"): 34.5,
    ("web_server", 40, 0.6, "1/2"): 34.5,
    ("cache_follower", 10, 0.6, "1/16"): 152,
    ("cache_follower", 10, 0.6, "1/2"): 152,
}
RULES = {"paper": "Algorithm 1", "came": "authors' cut", "code": "authors' rule", "random": "credits lost at random"}
ON_RANDOM = {"quick": (), "paper": ("paper", "came", "code")}
SET: dict[str, dict[str, Any]] = {
    "paper": {"feedback": "printed"},
    "came": {},
    "code": {"feedback": "code"},
    "random": {"drop": "random"},
}
NAMES = {"web_server": "Web Server", "cache_follower": "Cache Follower"}
# published
CONVERGENCE = dict(zip(ALPHAS, (2, 3, 4, 5, 6, 14)))
WASTED = dict(zip(ALPHAS, (80, 40, 20, 10, 4, 2)))
FAST = {"1/2": 3, "1/16": 6}  # RTTs at 100 Gbit/s
WASTE = dict(zip(list(RANDOM)[2:], (19, 34, 31, 60, 9, 11)))  # percent
QUEUES = dict(zip(list(RANDOM)[:3], (30.76, 29.31, 20.75))) | {list(RANDOM)[6]: 32.30}  # KB
LEAST_USED = {"feedback": {2: 98.0, 6: 97.8}, "naive": {2: 83.3, 6: 60.0}}  # percent
ONE_LINK_KB, BOUND_KB = 1.34, 250 * FRAME / 1e3
UNEVEN = Differs(
    "a full queue drops more of a slow flow's credits than of a fast one's: three quarters of the link are used",
    "beyond-expresspass",
    expected=(74, 78),
    scales=("quick", "paper"),
)
TWO = Differs("two packets; less than one of 1538 B is no count of them", "beyond-expresspass", expected=(3.07, 3.08))
DIFFERS = {
    "links-naive-2": UNEVEN,
    **{f"{rule}queue": TWO for rule in ("", "came-", "code-", "random-")},
}


def tag(alpha: str) -> str:
    """1/16 as "1-16", for labels and ids."""
    return alpha.replace("/", "-")


def named(key: tuple[str, int, float, str]) -> str:
    """The series of one of RANDOM."""
    return f"{NAMES[key[0]]}, {key[1]} Gbit/s, {key[3]}"


def _of_ours(row: Row, rule: str) -> Row:
    """The row under another rule than the paper's."""
    return replace(row, id=f"{rule}-{row.id}", claim=f"{RULES[rule]}: {row.claim}", kind=OURS)


def _least_used(way: str) -> tuple[Row, ...]:
    """Figure 10; at scale quick of those links that it has runs for."""
    return tuple(
        within(
            f"links-{way}-{n}",
            f"{n} links, {way}: data on the least used link, % of what credits leave",
            f"{percent}%",
            percent - 5,
            min(percent + 5, 100),
            why="5 points to either side; dividing equally at each link, naive receivers give 83.3 and 64.3 %",
            quick=True,
        ).at(*(scale for scale, links in LINKS.items() if n in links))
        for n, percent in LEAST_USED[way].items()
    )


OF_A_RULE = (
    *(
        about(f"f8a-{tag(name)}", f"10 Gbit/s, alpha {name}: RTTs to converge", str(rtts), rtts)
        for name, rtts in CONVERGENCE.items()
    ),
    *(
        about(f"f16-{tag(name)}", f"100 Gbit/s, alpha {name}: RTTs to converge", f"{rtts} RTTs", rtts)
        for name, rtts in FAST.items()
    ),
    ascending(
        "order",
        "RTTs to converge, by alpha",
        "as the initial rate decreases, the convergence time increases from 2 RTTs to 14 RTTs",
        quick=False,
    ),
    *_least_used("feedback"),
    *(
        within(
            f"used-{end}",
            f"4 to 1024 flows: {end} data on the link, % of what credits leave",
            "approximately 95% of utilization due to the reserved bandwidth for credits",
            98.1,
            100.1,
            why="93 to 94.9 % of the link there, where credits leave 94.8 %",
            quick=True,
        )
        for end in ("least", "most")
    ),
    within(
        "fair",
        "4 to 1024 flows: lowest fairness index over 100 ms",
        "very good fairness",
        0.9,
        1,
        why="very good: at least 0.9; 1: all alike",
    ),
    about("queue", "4 to 1024 flows: longest queue, KB", "maximum queuing of 1.34 KB", ONE_LINK_KB),
)
OF_RANDOM_FLOWS = (
    *(
        about(
            f"waste-{key[0]}-{key[1]}-{tag(key[3])}", f"{named(key)}, load {key[2]:g}: credits wasted, %", f"{percent}%", percent
        )
        for key, percent in WASTE.items()
    ),
    *(
        about(f"queue-{key[0]}-{key[2]:g}", f"{named(key)}, load {key[2]:g}: longest queue, KB", f"{kb:.2f}", kb)
        for key, kb in QUEUES.items()
    ),
    within(
        "lossless",
        "10 Gbit/s, all random flows: longest queue of any port, KB",
        "zero data loss; 250 packets per port",
        0,
        BOUND_KB,
        why="its buffer: above it data would be lost",
    ),
    within(
        "load",
        "Web Server: longest queue at load 0.6 / at 0.2",
        "ExpressPass's max queue is not proportional to the load",
        0.5,
        2,
        why="far from the three times of a queue that is proportional to the load",
    ),
)
CLAIMS = (
    *(
        row if rule == "paper" else _of_ours(row, rule)
        for rule in RULES
        for row in (*OF_A_RULE, *(row.at("paper") for row in OF_RANDOM_FLOWS if rule in ON_RANDOM["paper"]))
    ),
    *(
        within(
            f"one-{tag(name)}",
            f"alpha {name}: credits wasted by a flow of one packet",
            str(wasted),
            0.75 * wasted,
            1.25 * wasted,
            why="25 % to either side: alpha RTT / gap, of which the RTT is given to some microseconds, in whole credits",
            quick=True,
        )
        for name, wasted in WASTED.items()
    ),
    *_least_used("naive"),
    *(_of_ours(row, "random") for row in _least_used("naive")),
)


def specs(scale: str, seed: int = 1) -> dict[str, Spec]:
    """A spec for every run: RULE-f8-ALPHA-REPEAT, RULE-links-N, RULE-flows-N, RULE-random-..., one-ALPHA, naive or not."""
    made: dict[str, Spec] = {}
    for rule in RULES:
        for k in range(REPEATS[scale]):
            for name, alpha in ALPHAS.items():
                made[f"{rule}-f8-{tag(name)}-{k}"] = _joining(10, alpha, rule, 100 * seed + k)
            for name in FAST:
                made[f"{rule}-f16-{tag(name)}-{k}"] = _joining(100, ALPHAS[name], rule, 100 * seed + k)
        for n in LINKS[scale]:
            made[f"{rule}-links-{n}"] = _links(n, SET[rule], seed)
        for n in FLOWS[scale]:
            made[f"{rule}-flows-{n}"] = _one_link(n, MS[scale], rule, seed)
        if rule in ON_RANDOM[scale]:
            made |= {_label(rule, *key): _random(*key, ms, rule, seed) for key, ms in RANDOM.items()}
    made |= {f"one-{tag(name)}": _one_packet(alpha, seed) for name, alpha in ALPHAS.items()}
    for n in LINKS[scale]:
        made[f"naive-links-{n}"] = _links(n, NAIVE, seed)
        made[f"naive-random-links-{n}"] = _links(n, {**NAIVE, **SET["random"]}, seed)
    return made


def _label(rule: str, sizes: str, gbps: int, load: float, alpha: str) -> str:
    return f"{rule}-random-{sizes}-{gbps}-{load:g}-{tag(alpha)}"


def _spec(topology: dict[str, Any], flows: list[Any], us: int, sample: str, seed: int, **parameters: Any) -> Spec:
    return {
        "run": {"duration": f"{us}us", "drain": False, "seed": seed},
        "topology": {**topology, "buffer": "0B"},
        "scheme": {"name": "expresspass", "spread": SPREAD, **parameters},
        "workload": [{"kind": "list", "flows": flows}],
        "host": HOST,
        "measure": {"sample": sample, "port_series": True},
    }


def _joining(gbps: int, alpha: float, rule: str, seed: int) -> Spec:
    topology = {"kind": "dumbbell", "left": 2, "right": 2, "rate": f"{gbps}Gbps", "delay": ONE_WAY[gbps]}
    flows = [[0, 2, "10GB", "0s"], [1, 3, "10GB", f"{JOINS_US}us"]]
    end = JOINS_US + JOINED_RTTS * RTT_US
    return _spec(topology, flows, end, f"{RTT_US}us", seed, alpha=alpha, w_init=0.5, **SET[rule])


def _one_packet(alpha: float, seed: int) -> Spec:
    topology = {"kind": "dumbbell", "left": 1, "right": 1, "rate": "10Gbps", "delay": ONE_WAY[10]}
    return _spec(topology, [[0, 1, PAYLOAD, "0s"]], 10 * RTT_US, "0s", seed, alpha=alpha)


def _links(n: int, parameters: dict[str, Any], seed: int) -> Spec:
    topology = {"kind": "parking_lot", "hops": n, "cross": 1, "rate": "10Gbps", "delay": "4us"}
    flows = [[0, 1, "10GB", "0s"], *([2 + 2 * k, 3 + 2 * k, "10GB", "0s"] for k in range(n))]
    return _spec(topology, flows, 21_000, "10ms", seed, **parameters)


def _one_link(n: int, ms: int, rule: str, seed: int) -> Spec:
    topology = {"kind": "dumbbell", "left": n, "right": n, "rate": "10Gbps", "delay": ONE_WAY[10]}
    starts = np.random.default_rng(seed).uniform(0, 10_000, n)
    flows = [[k, n + k, "10GB", f"{start:.0f}us"] for k, start in enumerate(starts)]
    return _spec(topology, flows, 2000 * ms + 1000, f"{ms}ms", seed, **SET[rule])


def _random(sizes: str, gbps: int, load: float, alpha: str, ms: float, rule: str, seed: int) -> Spec:
    share = round(load * PAYLOAD / FRAME, 6)
    return {
        "run": {"duration": f"{ms:g}ms", "seed": seed},
        "topology": {
            "kind": "clos",
            **{"pods": 8, "tors": 4, "aggs": 2, "cores": 8, "hosts_per_tor": 6},
            **{"rate": f"{gbps}Gbps", "uplink_rate": f"{gbps}Gbps", "delay": "4333ns", "buffer": "0B"},
        },
        "scheme": {"name": "expresspass", "spread": SPREAD, "alpha": ALPHAS[alpha], "w_init": ALPHAS[alpha], **SET[rule]},
        "workload": [{"kind": "poisson", "sizes": sizes, "load": share, "load_on": "core"}],
        "host": HOST,
        "measure": {"sample": "0s"},
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """Numbers by panel and series; x: alpha, links, flows or load; rule: of RULES, or naive."""
    parts = [part for rule in RULES for part in _of_rule(runs, scale, rule)]
    for name, alpha in ALPHAS.items():
        parts.append(frames.rows("one", "one packet", [alpha], [_wasted_by_one(runs, name)], rule="paper"))
    for n in LINKS[scale]:
        for rule in NAIVES:
            parts.append(frames.rows("links", "naive", [n], [min(_used(runs, f"{rule}-links-{n}", 10))], rule=rule))
    return pl.concat(parts)


def _of_rule(runs: Runs, scale: str, rule: str) -> list[pl.DataFrame]:
    def point(panel: str, series: str, x: float, y: float) -> None:
        parts.append(frames.rows(panel, series, [x], [y], rule=rule))

    parts: list[pl.DataFrame] = []
    for panel, names, gbps in (("f8", ALPHAS, 10), ("f16", FAST, 100)):
        for name in names:
            label = f"{rule}-{panel}-{tag(name)}"
            rtts = np.mean([converged(runs, f"{label}-{k}") for k in range(REPEATS[scale])])
            point(panel, f"{gbps} Gbit/s", ALPHAS[name], float(rtts))
            if name in FAST:
                shares = joined(runs, f"{label}-0")
                parts.append(frames.rows("rates", f"{gbps} Gbit/s, {name}", np.arange(len(shares)), shares, rule=rule))
    for n in LINKS[scale]:
        point("links", "feedback", n, min(_used(runs, f"{rule}-links-{n}", 10)))
    for n in FLOWS[scale]:
        label, ms = f"{rule}-flows-{n}", MS[scale]
        point("used", "flows", n, _used(runs, label, ms)[0])
        point("jain", "flows", n, jain(_sent(runs, label, ms, range(n, 2 * n))))
        point("queue", "flows", n, _longest_kb(runs, label))
    for key in RANDOM if rule in ON_RANDOM[scale] else ():
        point("waste", named(key), key[2], wasted(runs, _label(rule, *key)))
        point("longest", named(key), key[2], _longest_kb(runs, _label(rule, *key)))
    return parts


def joined(runs: Runs, label: str) -> np.ndarray:
    """Of the second flow, in each RTT from its start: its data, relative to half of what the link can carry."""
    sent = _series(runs, label).filter((pl.col("peer") == 3) & (pl.col("time_ns") >= JOINS_US * 1e3)).sort("time_ns")["data"]
    gbps = float(runs[label].ports["rate_bps"].max()) / 1e9  # type: ignore[arg-type]
    return np.diff(sent.to_numpy()) * 8 / (RTT_US * 1e3 * gbps * LEFT / 2)


def converged(runs: Runs, label: str) -> float:
    """RTTs until the first of three RTTs in a row with its share; JOINED_RTTS: not in that time."""
    near = np.abs(joined(runs, label) - 1) <= NEAR
    found = np.flatnonzero(near[:-2] & near[1:-1] & near[2:])
    return float(found[0]) if len(found) else float(JOINED_RTTS)


def _wasted_by_one(runs: Runs, alpha: str) -> int:
    """All but one of the credits that the sender of one packet receives; with them comes an acknowledgement."""
    ports = runs[f"one-{tag(alpha)}"].ports
    return int(ports.filter((pl.col("node") >= 2) & (pl.col("peer") == 0))["tx_packets"].sum()) - 2


def _series(runs: Runs, label: str) -> pl.DataFrame:
    """time_ns, node, peer and the bytes of data sent so far from every port of a switch."""
    run = runs[label]
    hosts = int(run.frame("nodes").filter(pl.col("tier") == 0).height)
    data = pl.col("tx_bytes") - pl.col("ack_bytes") - pl.col("control_bytes")
    ports = run.ports.filter(pl.col("node") >= hosts).select("node", "port", "peer")
    return run.frame("port_series").join(ports, on=["node", "port"]).select("time_ns", "node", "peer", data=data)


def _sent(runs: Runs, label: str, ms: int, hosts: Any) -> np.ndarray:
    """Bytes of data that each of the hosts was sent in the second interval of `ms`."""
    series = _series(runs, label).filter(pl.col("peer").is_in(list(hosts))).sort("peer", "time_ns")
    ends = [series.filter(pl.col("time_ns") == end * ms * 1e6)["data"].to_numpy() for end in (1, 2)]
    return ends[1] - ends[0]


def _used(runs: Runs, label: str, ms: int) -> list[float]:
    """Data on each link from a switch to the next, in the second interval of `ms`, relative to the most that it can carry."""
    series = _series(runs, label)
    hosts = int(series["node"].min())  # type: ignore[arg-type]
    ahead = series.filter((pl.col("peer") > pl.col("node")) & (pl.col("node") >= hosts)).sort("node", "time_ns")
    ends = [ahead.filter(pl.col("time_ns") == end * ms * 1e6)["data"].to_numpy() for end in (1, 2)]
    return (8 * (ends[1] - ends[0]) / (ms * 1e6 * 10 * LEFT)).tolist()


def _longest_kb(runs: Runs, label: str) -> float:
    """Of the ports of switches."""
    run = runs[label]
    hosts = run.frame("nodes").filter(pl.col("tier") == 0).height
    return float(run.ports.filter(pl.col("node") >= hosts)["max_queue_bytes"].max()) / 1e3  # type: ignore[arg-type]


def wasted(runs: Runs, label: str) -> float:
    """Percent of the credits that reached senders: of the packets to hosts what is not data, acknowledgement, REQUEST or STOP."""
    run = runs[label]
    hosts = run.frame("nodes").filter(pl.col("tier") == 0).height
    ports = run.ports.filter((pl.col("node") >= hosts) & (pl.col("peer") < hosts))
    packets = int(((run.flows["bytes"] + PAYLOAD - 1) // PAYLOAD).sum())
    answers = int(ports["ack_bytes"].sum()) // ACK
    credits = int(ports["tx_packets"].sum()) - packets - answers - 2 * run.flows.height
    return 100 * (1 - packets / credits)


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Every published number under Algorithm 1, and the same under the authors' rule, (ours); what no rule has a part in."""
    found: Numbers = {}
    for rule in RULES:
        part = frames.chosen(data, rule=rule)
        made = {**_convergence(part), **_least(part, scale, "feedback"), **_one_link_used(part)}
        made |= _random_flows(part) if rule in ON_RANDOM[scale] else {}
        found |= {id if rule == "paper" else f"{rule}-{id}": number for id, number in made.items()}
    naive, at_random = (_least(frames.chosen(data, rule=rule), scale, "naive") for rule in NAIVES)
    return {
        **found,
        **{f"one-{tag(name)}": frames.value(data, panel="one", x=alpha) for name, alpha in ALPHAS.items()},
        **naive,
        **{f"random-{id}": number for id, number in at_random.items()},
    }


def _convergence(data: pl.DataFrame) -> Numbers:
    """Figures 8a and 16."""
    took = {name: frames.value(data, panel="f8", x=alpha) for name, alpha in ALPHAS.items()}
    return {
        **{f"f8a-{tag(name)}": rtts for name, rtts in took.items()},
        **{f"f16-{tag(name)}": frames.value(data, panel="f16", x=ALPHAS[name]) for name in FAST},
        "order": {name: took[name] for name in ("1", "1/4", "1/32")},
    }


def _least(data: pl.DataFrame, scale: str, way: str) -> Numbers:
    """Figure 10."""
    return {f"links-{way}-{n}": 100 * frames.value(data, panel="links", x=n) for n in LEAST_USED[way] if n in LINKS[scale]}


def _one_link_used(data: pl.DataFrame) -> Numbers:
    """Figure 15."""
    used, fair, queue = (frames.chosen(data, panel=panel).sort("x")["y"].to_numpy() for panel in ("used", "jain", "queue"))
    return {"used-least": 100 * used.min(), "used-most": 100 * used.max(), "fair": fair.min(), "queue": queue.max()}


def _random_flows(data: pl.DataFrame) -> Numbers:
    """Figure 20 and table 3."""
    waste, longest = (
        {key: frames.value(data, panel=panel, series=named(key), x=key[2]) for key in RANDOM} for panel in ("waste", "longest")
    )
    low, _, high = list(RANDOM)[:3]
    return {
        **{f"waste-{key[0]}-{key[1]}-{tag(key[3])}": waste[key] for key in WASTE},
        **{f"queue-{key[0]}-{key[2]:g}": longest[key] for key in QUEUES},
        "lossless": max(kb for key, kb in longest.items() if key[1] == 10),
        "load": longest[high] / longest[low],
    }


def plot(data: pl.DataFrame) -> Any:
    """Algorithm 1 in blue, with random losses in green, the authors' rule in orange; crosses are published."""
    made, grid = figure(2, 3, width=PAGE, height=4.4)
    (rtts, packet, links), (rates, flows, random) = grid
    shades = dict(zip(RULES, (BLUE, PURPLE, ORANGE, GREEN)))
    alphas = list(ALPHAS.values())
    packet.plot(alphas, frames.chosen(data, panel="one").sort("x", descending=True)["y"], "o-", ms=3, color=BLUE)
    packet.plot(alphas, list(WASTED.values()), "x", color=BLACK)
    for rule, dashes, label in zip(NAIVES, DASHES, ("naive", None)):
        naive = frames.chosen(data, panel="links", rule=rule)
        links.plot(naive["x"], 100 * naive["y"], "o", linestyle=dashes, ms=3, color=RED, label=label)
    for rule, colour in shades.items():
        part = frames.chosen(data, rule=rule)
        for panel, dashes in (("f8", "-"), ("f16", DASHES[2])):
            points = frames.chosen(part, panel=panel).sort("x")
            label = RULES[rule] if panel == "f8" else None
            rtts.plot(points["x"], points["y"], "o", linestyle=dashes, ms=3, color=colour, label=label)
        points = frames.chosen(part, panel="links")
        links.plot(points["x"], 100 * points["y"], "o-", ms=3, color=colour)
        for name, dashes in zip(FAST, DASHES):
            points = frames.chosen(part, panel="rates", series=f"10 Gbit/s, {name}").filter(pl.col("x") < 30)
            rates.step(points["x"], points["y"] / 2, where="post", color=colour, linestyle=dashes)
        for panel, dashes in (("used", "-"), ("jain", DASHES[2])):
            points = frames.chosen(part, panel=panel).sort("x")
            flows.plot(points["x"], 100 * points["y"], "o", linestyle=dashes, ms=3, color=colour)
        if rule in ON_RANDOM["paper"]:
            _bars(random, part, colour, list(shades).index(rule))
    rtts.plot(alphas, list(CONVERGENCE.values()), "x", color=BLACK, label="published")
    for way, colour in (("feedback", BLACK), ("naive", RED)):
        links.plot(list(LEAST_USED[way]), list(LEAST_USED[way].values()), "x", color=colour)
    rtts.set(ylabel="RTTs to converge", xlabel="First rate (of the maximum)", ylim=(0, JOINED_RTTS))
    packet.set(ylabel="Credits wasted\nby one packet", xlabel="First rate (of the maximum)")
    log_axis(packet.yaxis, None, (1, 2, 5))
    for axes in (rtts, packet):
        axes.set_xscale("log", base=2)
        axes.set_xticks(alphas, list(ALPHAS))
        axes.minorticks_off()
    links.set(ylabel="Least used link (%)", xlabel="Links", ylim=(50, 102))
    rates.set(ylabel="Share of the second flow", xlabel="RTTs from its start", ylim=(0, 1))
    flows.set_xscale("log", base=4)
    flows.set_xticks(FLOWS["paper"], [str(n) for n in FLOWS["paper"]])
    flows.set(ylabel="Data; dotted: fairness (%)", xlabel="Flows on the link", ylim=(70, 102))
    random.set(ylabel="Credits wasted (%)", ylim=(0, None))
    lettered(
        grid.flat, ("figure 8a; dotted: 16", "figure 8b", "figure 10; dashed: random", "figure 16", "figure 15", "figure 20")
    )
    handles = [*rtts.get_legend_handles_labels()[0], *links.get_legend_handles_labels()[0]]
    made.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    return made


def _bars(axes: Any, data: pl.DataFrame, colour: str, place: int) -> None:
    """Percent wasted of the runs of figure 20; at scale quick only what is published."""
    at = np.arange(len(WASTE)) + 0.35 * (place - 0.5)
    waste = [frames.value(data, panel="waste", series=named(key), x=key[2]) for key in WASTE]
    axes.bar(at, waste, 0.35, color=colour, lw=0)
    if not place:
        axes.plot(range(len(WASTE)), list(WASTE.values()), "x", color=BLACK)
        axes.set_xticks(range(len(WASTE)), [f"{NAMES[key[0]].split()[0]}\n{key[1]}G\n{key[3]}" for key in WASTE], size=6)
