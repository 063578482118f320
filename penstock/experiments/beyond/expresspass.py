"""Beyond the papers: ExpressPass beside the numbers of its own paper (Cho, Jang and Han, SIGCOMM 2017).

* figure 8a, 16: a second long flow joins one on the same link, base RTT 100 us: RTTs from its start until it has its half, that
  is, until three RTTs in a row with 75 to 125 % of it begin.  Figure 8a: 10 Gbit/s, w 1/2; figure 16: 10 and 100 Gbit/s, w is
  alpha
* figure 8b: a flow of one packet, RTT 100 us: credits that are wasted
* figure 10: a flow over 1 to 6 links, each of which has a flow of its own, 4 us per link: data on the least used link, of what
  credits leave.  "Naive" receivers send credits at the maximum rate; here alpha 1, and w and losses that change nothing
* figure 15: 4 to 1024 long flows on one link, RTT 100 us, started within 10 ms: data on the link, Jain's index of the flows'
  bytes in 100 ms, longest queue
* figure 20, table 3: random flows of Web Server and Cache Follower sizes between 192 hosts, 3:1 oversubscribed, load 0.2 to 0.6
  of the ToRs' uplinks: credits wasted, of those that senders received; longest queue of any port of a switch

Set-up of sections 3 and 6 and of the authors' simulator (kaist-ina/ns2-xpass): packets of 1538 B with 1460 B of payload; sizes of
credits vary about 84 B, from 64 to 104 here, since frames have 64 B or more, from 76 to 92 there; rates and gaps are the same.
Algorithm 1, credit queues of 8, w_min 0.01, target 0.1; alpha and the first w are 1/16 unless said otherwise.  8 core, 16
aggregation and 32 ToR switches; the longest RTT is 52 us, on links of 4 us and with 1 us in each host there, of 4.333 us here;
the load includes headers.  Web Server has the paper's 100 000
flows, Cache Follower 10 000 of its 100 000; the distributions are those of Homa's simulator (means 63 and 693 KB; 64 and 701 KB
there).  Buffers have no limit here, so that the bound of 250 packets is a claim.

Scale quick: no random flows; up to 16 flows and 2 links.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock.experiments import frames
from penstock.experiments.cache import Runs, Spec
from penstock.experiments.claims import OURS, Claim, Differs, about, ascending, within
from penstock.experiments.hpcc.fig14 import jain
from penstock.experiments.style import BLUE, DASHES, GREEN, ORANGE, PAGE, RED, figure, legend_above, lettered, log_axis

TITLE = "ExpressPass beside its published convergence, waste, utilisation and queues"
PAPER = "Beyond the papers: ExpressPass, SIGCOMM 2017, figures 8, 10, 15, 16, 20 and table 3"
PAYLOAD, FRAME, CREDIT, SPREAD = 1460, 1538, 84, 40
LEFT = FRAME / (FRAME + CREDIT)  # of a link, for data
HOST: dict[str, Any] = {"mtu": PAYLOAD, "header": FRAME - PAYLOAD}
RTT_US = 100
ONE_WAY = {10: "16us", 100: "16600ns"}  # of each of three links, with the time of the packets on them: 100 us there and back
ALPHAS = {"1": 1.0, "1/2": 0.5, "1/4": 0.25, "1/8": 0.125, "1/16": 0.0625, "1/32": 0.03125}
REPEATS = {"quick": 2, "paper": 5}  # of figures 8a and 16
JOINS_US, JOINED_RTTS, NEAR = 5000, 60, 0.25
LINKS = {"quick": (1, 2), "paper": (1, 2, 3, 4, 5, 6)}
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
NAMES = {"web_server": "Web Server", "cache_follower": "Cache Follower"}
# published
CONVERGENCE = dict(zip(ALPHAS, (2, 3, 4, 5, 6, 14)))
WASTED = dict(zip(ALPHAS, (80, 40, 20, 10, 4, 2)))
JOINING = {(10, "1/2"): 3, (100, "1/2"): 3, (10, "1/16"): 6, (100, "1/16"): 6}
WASTE = dict(zip(list(RANDOM)[2:], (19, 34, 31, 60, 9, 11)))  # percent
QUEUES = dict(zip(list(RANDOM)[:3], (30.76, 29.31, 20.75))) | {list(RANDOM)[6]: 32.30}  # KB
ONE_LINK_KB, BOUND_KB = 1.34, 250 * FRAME / 1e3
DIFFERS: dict[str, Differs] = {}


def specs(scale: str, seed: int = 1) -> dict[str, Spec]:
    """A spec for every run: `f8-ALPHA-REPEAT`, `f16-GBPS-ALPHA-REPEAT`, `one-ALPHA`, `links-N-naive`, `flows-N`, `random-...`."""
    made: dict[str, Spec] = {}
    for k in range(REPEATS[scale]):
        made |= {f"f8-{tag(name)}-{k}": _joining(10, alpha, 0.5, 100 * seed + k) for name, alpha in ALPHAS.items()}
        for gbps, name in JOINING:
            made[f"f16-{gbps}-{tag(name)}-{k}"] = _joining(gbps, ALPHAS[name], ALPHAS[name], 100 * seed + k)
    made |= {f"one-{tag(name)}": _one_packet(alpha, seed) for name, alpha in ALPHAS.items()}
    for n in LINKS[scale]:
        made |= {f"links-{n}-{name}": _links(n, parameters, seed) for name, parameters in (("feedback", {}), ("naive", NAIVE))}
    made |= {f"flows-{n}": _one_link(n, MS[scale], seed) for n in FLOWS[scale]}
    if scale == "paper":
        made |= {_label(*key): _random(*key, ms, seed) for key, ms in RANDOM.items()}
    return made


def tag(alpha: str) -> str:
    """1/16 as "1-16", for labels and ids."""
    return alpha.replace("/", "-")


def _label(sizes: str, gbps: int, load: float, alpha: str) -> str:
    return f"random-{sizes}-{gbps}-{load:g}-{tag(alpha)}"


def _spec(topology: dict[str, Any], flows: list[Any], us: int, sample: str, seed: int, **parameters: Any) -> Spec:
    return {
        "run": {"duration": f"{us}us", "drain": False, "seed": seed},
        "topology": {**topology, "buffer": "0B"},
        "scheme": {"name": "expresspass", "spread": SPREAD, **parameters},
        "workload": [{"kind": "list", "flows": flows}],
        "host": HOST,
        "measure": {"sample": sample, "port_series": True},
    }


def _joining(gbps: int, alpha: float, w: float, seed: int) -> Spec:
    topology = {"kind": "dumbbell", "left": 2, "right": 2, "rate": f"{gbps}Gbps", "delay": ONE_WAY[gbps]}
    flows = [[0, 2, "10GB", "0s"], [1, 3, "10GB", f"{JOINS_US}us"]]
    end = JOINS_US + JOINED_RTTS * RTT_US
    return _spec(topology, flows, end, f"{RTT_US}us", seed, alpha=alpha, w_init=w)


def _one_packet(alpha: float, seed: int) -> Spec:
    topology = {"kind": "dumbbell", "left": 1, "right": 1, "rate": "10Gbps", "delay": ONE_WAY[10]}
    return _spec(topology, [[0, 1, PAYLOAD, "0s"]], 10 * RTT_US, "0s", seed, alpha=alpha)


def _links(n: int, parameters: dict[str, float], seed: int) -> Spec:
    topology = {"kind": "parking_lot", "hops": n, "cross": 1, "rate": "10Gbps", "delay": "4us"}
    flows = [[0, 1, "10GB", "0s"], *([2 + 2 * k, 3 + 2 * k, "10GB", "0s"] for k in range(n))]
    return _spec(topology, flows, 21_000, "10ms", seed, **parameters)


def _one_link(n: int, ms: int, seed: int) -> Spec:
    topology = {"kind": "dumbbell", "left": n, "right": n, "rate": "10Gbps", "delay": ONE_WAY[10]}
    starts = np.random.default_rng(seed).uniform(0, 10_000, n)
    flows = [[k, n + k, "10GB", f"{start:.0f}us"] for k, start in enumerate(starts)]
    return _spec(topology, flows, 2000 * ms + 1000, f"{ms}ms", seed)


def _random(sizes: str, gbps: int, load: float, alpha: str, ms: float, seed: int) -> Spec:
    share = round(load * PAYLOAD / FRAME, 6)
    return {
        "run": {"duration": f"{ms:g}ms", "seed": seed},
        "topology": {
            "kind": "clos",
            **{"pods": 8, "tors": 4, "aggs": 2, "cores": 8, "hosts_per_tor": 6},
            **{"rate": f"{gbps}Gbps", "uplink_rate": f"{gbps}Gbps", "delay": "4333ns", "buffer": "0B"},
        },
        "scheme": {"name": "expresspass", "spread": SPREAD, "alpha": ALPHAS[alpha], "w_init": ALPHAS[alpha]},
        "workload": [{"kind": "poisson", "sizes": sizes, "load": share, "load_on": "core"}],
        "host": HOST,
        "measure": {"sample": "0s"},
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """Numbers by panel and series; x: alpha, links, flows or load."""
    parts = []
    for name, alpha in ALPHAS.items():
        rtts = np.mean([converged(runs, f"f8-{tag(name)}-{k}") for k in range(REPEATS[scale])])
        parts += [
            frames.rows("f8", "w 1/2", [alpha], [rtts]),
            frames.rows("one", "one packet", [alpha], [_wasted_by_one(runs, name)]),
        ]
    for gbps, name in JOINING:
        rtts = np.mean([converged(runs, f"f16-{gbps}-{tag(name)}-{k}") for k in range(REPEATS[scale])])
        parts.append(frames.rows("f16", f"{gbps} Gbit/s", [ALPHAS[name]], [rtts]))
        shares = joined(runs, f"f16-{gbps}-{tag(name)}-0")
        parts.append(frames.rows("rates", f"{gbps} Gbit/s, {name}", np.arange(len(shares)), shares))
    for n in LINKS[scale]:
        for way in ("feedback", "naive"):
            parts.append(frames.rows("links", way, [n], [min(_used(runs, f"links-{n}-{way}", 10)) / LEFT]))
    for n in FLOWS[scale]:
        label, ms = f"flows-{n}", MS[scale]
        parts.append(frames.rows("used", "flows", [n], _used(runs, label, ms)))
        parts.append(frames.rows("jain", "flows", [n], [jain(_sent(runs, label, ms, range(n, 2 * n)))]))
        parts.append(frames.rows("queue", "flows", [n], [_longest_kb(runs, label)]))
    for key in RANDOM if scale == "paper" else ():
        sizes, gbps, load, alpha = key
        series = f"{NAMES[sizes]}, {gbps} Gbit/s, {alpha}"
        parts.append(frames.rows("waste", series, [load], [wasted(runs, _label(*key))]))
        parts.append(frames.rows("longest", series, [load], [_longest_kb(runs, _label(*key))]))
    return pl.concat(parts)


def joined(runs: Runs, label: str) -> np.ndarray:
    """Of the second flow, in each RTT from its start: its data, relative to half of what the link can carry."""
    sent = _series(runs, label).filter((pl.col("peer") == 3) & (pl.col("time_ns") >= JOINS_US * 1e3)).sort("time_ns")["data"]
    gbps = float(runs[label].ports["rate_bps"].max()) / 1e9  # type: ignore[arg-type]
    return np.diff(sent.to_numpy()) * 8 / (RTT_US * 1e3 * gbps * LEFT / 2)


def converged(runs: Runs, label: str) -> float:
    """RTTs until the first of three RTTs in a row with its share; infinite: never."""
    near = np.abs(joined(runs, label) - 1) <= NEAR
    found = np.flatnonzero(near[:-2] & near[1:-1] & near[2:])
    return float(found[0]) if len(found) else float("inf")


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
    """Data on each link from a switch to the next, in the second interval of `ms`, relative to its rate."""
    series = _series(runs, label)
    hosts = int(series["node"].min())  # type: ignore[arg-type]
    ahead = series.filter((pl.col("peer") > pl.col("node")) & (pl.col("node") >= hosts)).sort("node", "time_ns")
    ends = [ahead.filter(pl.col("time_ns") == end * ms * 1e6)["data"].to_numpy() for end in (1, 2)]
    return (8 * (ends[1] - ends[0]) / (ms * 1e6 * 10)).tolist()


def _longest_kb(runs: Runs, label: str) -> float:
    """Of the ports of switches."""
    run = runs[label]
    hosts = run.frame("nodes").filter(pl.col("tier") == 0).height
    return float(run.ports.filter(pl.col("node") >= hosts)["max_queue_bytes"].max()) / 1e3  # type: ignore[arg-type]


def wasted(runs: Runs, label: str) -> float:
    """Percent of the credits that reached senders.  What else reaches hosts: a REQUEST and a STOP of 64 B for each flow."""
    run = runs[label]
    hosts = run.frame("nodes").filter(pl.col("tier") == 0).height
    control = int(run.ports.filter((pl.col("node") >= hosts) & (pl.col("peer") < hosts))["control_bytes"].sum())
    credits = (control - 2 * 64 * run.flows.height) / CREDIT
    return float(100 * (1 - -(-run.flows["bytes"] // PAYLOAD).sum() / credits))


def claims(data: pl.DataFrame, scale: str) -> list[Claim]:
    """Every published number; from the paper's text that the rates do not depend on the link, nor queues on the load."""

    def value(panel: str, series: str, x: float) -> float:
        return frames.value(data, panel=panel, series=series, x=x)

    found = []
    for name, alpha in ALPHAS.items():
        found.append(
            about(
                f"f8a-{tag(name)}",
                f"alpha {name}, w 1/2: RTTs to converge",
                str(CONVERGENCE[name]),
                value("f8", "w 1/2", alpha),
                CONVERGENCE[name],
            )
        )
    for (gbps, name), rtts in JOINING.items():
        took = value("f16", f"{gbps} Gbit/s", ALPHAS[name])
        found.append(
            about(f"f16-{gbps}-{tag(name)}", f"{gbps} Gbit/s, alpha and w {name}: RTTs to converge", f"{rtts} RTTs", took, rtts)
        )
    found.append(
        ascending(
            "order",
            "RTTs to converge, w 1/2, by alpha",
            "as the initial rate decreases, the convergence time increases from 2 RTTs to 14 RTTs",
            {name: value("f8", "w 1/2", ALPHAS[name]) for name in ("1", "1/4", "1/32")},
        )
    )
    for name, alpha in ALPHAS.items():
        found.append(
            within(
                f"one-{tag(name)}",
                f"alpha {name}: credits wasted by a flow of one packet",
                str(WASTED[name]),
                value("one", "one packet", alpha),
                0.75 * WASTED[name],
                1.25 * WASTED[name],
                why="25 % to either side: alpha RTT / gap, of which the RTT is given to some microseconds, in whole credits",
                quick=True,
            )
        )
    return [*found, *_links_claims(data, scale), *_flows_claims(data, scale), *(_random_claims(data) if scale == "paper" else ())]


def _links_claims(data: pl.DataFrame, scale: str) -> list[Claim]:
    """Figure 10; at scale quick those that it has runs for."""
    found = []
    numbers = {("naive", 2): 83.3, ("feedback", 2): 98.0, ("naive", 6): 60.0, ("feedback", 6): 97.8}
    for (way, n), percent in numbers.items():
        if n in LINKS[scale]:
            found.append(
                within(
                    f"links-{way}-{n}",
                    f"{n} links, {way}: data on the least used link, % of what credits leave",
                    f"{percent}%",
                    100 * frames.value(data, panel="links", series=way, x=n),
                    percent - 5,
                    min(percent + 5, 100),
                    why="5 points to either side; dividing equally at each link, naive receivers give 83.3 and 64.3 %",
                    quick=True,
                )
            )
    return found


def _flows_claims(data: pl.DataFrame, scale: str) -> list[Claim]:
    """Figure 15."""
    used, fair, queue = (frames.chosen(data, panel=panel).sort("x") for panel in ("used", "jain", "queue"))
    least, most = 100 * used["y"].min(), 100 * used["y"].max()  # type: ignore[operator]
    said = "approximately 95% of utilization due to the reserved bandwidth for credits"
    why = "2 points below what credits leave, 94.8 %, which the link cannot exceed"
    return [
        within("used-least", "4 to 1024 flows: least data on the link, %", said, least, 93, 94.9, why=why, quick=True),
        within("used-most", "4 to 1024 flows: most data on the link, %", said, most, 93, 94.9, why=why, quick=True),
        within(
            "fair",
            "4 to 1024 flows: lowest fairness index over 100 ms",
            "very good fairness",
            fair["y"].min(),
            0.9,
            1,
            why="very good: at least 0.9; 1: all alike",
        ),
        about("queue", "4 to 1024 flows: longest queue, KB", "maximum queuing of 1.34 KB", queue["y"].max(), ONE_LINK_KB),
    ]


def _random_claims(data: pl.DataFrame) -> list[Claim]:
    """Figure 20 and table 3."""
    found = []
    for (sizes, gbps, load, alpha), percent in WASTE.items():
        series = f"{NAMES[sizes]}, {gbps} Gbit/s, {alpha}"
        ours = frames.value(data, panel="waste", series=series, x=load)
        id = f"waste-{sizes.split('_')[0]}-{gbps}-{tag(alpha)}"
        found.append(about(id, f"{series}, load {load:g}: credits wasted, %", f"{percent}%", ours, percent))
    for (sizes, gbps, load, alpha), kb in QUEUES.items():
        series = f"{NAMES[sizes]}, {gbps} Gbit/s, {alpha}"
        ours = frames.value(data, panel="longest", series=series, x=load)
        id = f"queue-{sizes.split('_')[0]}-{load:g}"
        found.append(about(id, f"{series}, load {load:g}: longest queue, KB", f"{kb:.2f}", ours, kb))
    longest = frames.chosen(data, panel="longest").filter(pl.col("series").str.contains("10 Gbit/s"))["y"].max()
    found.append(
        within(
            "lossless",
            "10 Gbit/s, all random flows: longest queue of any port, KB",
            "zero data loss; 250 packets per port",
            longest,
            0,
            BOUND_KB,
            why="its buffer: above it data would be lost",
        )
    )
    by_load = [frames.value(data, panel="longest", series="Web Server, 10 Gbit/s, 1/16", x=load) for load in (0.2, 0.6)]
    found.append(
        within(
            "load",
            "Web Server: longest queue at load 0.6 / at 0.2",
            "ExpressPass's max queue is not proportional to the load",
            by_load[1] / by_load[0],
            0.5,
            2,
            why="far from the three times of a queue that is proportional to the load",
            kind=OURS,
        )
    )
    return found


def plot(data: pl.DataFrame) -> Any:
    """Ours beside the published numbers, which are crosses."""
    made, grid = figure(2, 3, width=PAGE, height=4.4)
    alphas = list(ALPHAS.values())
    (rtts, wasted_one, links), (rates, flows, random) = grid
    _line(rtts, data, "f8", "w 1/2", BLUE)
    rtts.plot(alphas, list(CONVERGENCE.values()), "x", color=BLUE)
    for gbps, colour in ((10, ORANGE), (100, GREEN)):
        _line(rtts, data, "f16", f"{gbps} Gbit/s", colour)
    rtts.plot([0.5, 0.0625], [3, 6], "x", color=ORANGE)
    rtts.set(ylabel="RTTs to converge", xlabel="First rate (of the maximum)", ylim=(0, None))
    _line(wasted_one, data, "one", "one packet", BLUE)
    wasted_one.plot(alphas, list(WASTED.values()), "x", color=BLUE)
    log_axis(wasted_one.yaxis, None, (1, 2, 5))
    wasted_one.set(ylabel="Credits wasted\nby a packet", xlabel="First rate (of the maximum)")
    for axes in (rtts, wasted_one):
        axes.set_xscale("log", base=2)
        axes.set_xticks(alphas, list(ALPHAS))
        axes.minorticks_off()
    for way, colour, published in (("feedback", BLUE, {2: 98.0, 6: 97.8}), ("naive", RED, {2: 83.3, 6: 60})):
        part = frames.chosen(data, panel="links", series=way)
        links.plot(part["x"], 100 * part["y"], "o-", ms=3, color=colour)
        links.plot(list(published), list(published.values()), "x", color=colour)
        links.annotate(way, (part["x"][-1], 100 * part["y"][-1]), (0, -11), textcoords="offset points", ha="right", color=colour)
    links.set(ylabel="Least used link\n(% of the most data)", xlabel="Links", ylim=(50, 102))
    for (gbps, name), dashes in zip(JOINING, DASHES):
        part = frames.chosen(data, panel="rates", series=f"{gbps} Gbit/s, {name}").filter(pl.col("x") < 25)
        rates.step(part["x"], part["y"] / 2, where="post", color=ORANGE if gbps == 10 else GREEN, linestyle=dashes)
    rates.set(ylabel="Second flow's share", xlabel="RTTs from its start", ylim=(0, 1))
    for panel, colour, scale, label in (("used", BLUE, 100, "data (% of the link)"), ("jain", GREEN, 100, "fairness (%)")):
        part = frames.chosen(data, panel=panel).sort("x")
        flows.plot(part["x"], part["y"] * scale, "o-", ms=3, color=colour)
        flows.annotate(label, (part["x"][0], scale * part["y"][0]), (0, -11), textcoords="offset points", color=colour)
    flows.set_xscale("log", base=4)
    flows.set(ylabel="Data, fairness (%)", xlabel="Flows on the link", ylim=(80, 102))
    shown = [key for key in WASTE if len(frames.chosen(data, panel="waste"))]
    places = range(len(shown))
    ours = [frames.value(data, panel="waste", series=f"{NAMES[key[0]]}, {key[1]} Gbit/s, {key[3]}", x=key[2]) for key in shown]
    random.bar(places, ours, 0.6, color=BLUE, lw=0)
    random.plot(places, [WASTE[key] for key in shown], "x", color=RED)
    random.set_xticks(places, [f"{NAMES[key[0]][:3]} {key[1]}G\n{key[3]}" for key in shown], size=5)
    random.set(ylabel="Credits wasted (%)")
    rtts.plot([], [], "x", color="0.35", label="published")
    titles = ("figures 8a and 16", "figure 8b", "figure 10", "figure 16", "figure 15", "figure 20")
    lettered(grid.flat, titles)
    legend_above(made, rtts, columns=4)
    return made


def _line(axes: Any, data: pl.DataFrame, panel: str, series: str, colour: str) -> None:
    part = frames.chosen(data, panel=panel, series=series).sort("x")
    axes.plot(part["x"], part["y"], "o-", ms=3, color=colour, label=series)
