"""Beyond the papers: every scheme of the package that controls congestion or flow, on six traffics of one small network.

Network: 32 hosts in 4 racks, 8 spines, 100 Gbit/s, 1 us, 6 MB per switch; the uplinks carry what the hosts send.  ECMP unless a
scheme names another path.  Traffics, the same flows for all schemes:

* short RPCs: the Google sizes (BFC) at 40 % of the hosts' links
* web search: flows of 1.7 MB on average at 50 %
* incast mix: the Facebook sizes (BFC) at 40 %, and 60 flows of 100 KB to one host every 500 us
* all-to-all: 200 KB from every host to every other, at once
* permutation: 5 MB from every host to one other, at once
* slow receivers: two applications in each of 16 servers; four of them take 10 Gbit/s, and are sent 400 KB by eight senders every
  400 us; the flows that are judged are those between other applications, the Facebook sizes at 20 % of the servers' links

Parameters are the defaults, those of the papers; DCQCN has a window, as in BFC's paper (preset dcqcn:bfc).  Without lossless
Ethernet switches have dynamic thresholds with alpha = 1.  Homa has 8 levels and the cutoffs of each traffic, by section 3.4 of
its paper; Homa and pHost spray packets, as their papers do.
PIAS has the thresholds for web search.  HPCC with BFC or Floodgate and BFC with Backdraft are compositions beyond the papers.

Measures: `tail`, the 99th percentile of the slowdown of flows of up to 10 KB; `mean`, the average slowdown of flows of more than
100 KB; `buffer`, the largest in use at any switch of the network, KB; `fairness`, Jain's index of 1 / slowdown of flows of more
than 100 KB (1: all alike); `overhead`, the bytes on all links beyond the payload, relative to it (headers alone: 4.8 % of full
packets), %.  Slowdowns are by the receiver's clock.

Scale paper is five times as long; docs/which-scheme.md is made at scale quick by tools/which_scheme.py.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_papers import ages, frames
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import OURS, Differs
from penstock_papers.frames import Scheme
from penstock_papers.sentences import Numbers, ascending, holds
from penstock_papers.style import PAGE, figure

TITLE = "Every scheme on six traffics"
PAPER = "Beyond the papers: which scheme to use when"
SEEDS = {"quick": 5, "paper": 3}
SERVERS, RACKS = 32, 4
NETWORK: dict[str, Any] = {"kind": "leaf_spine", "hosts": SERVERS, "tors": RACKS, "spines": 8, "delay": "1us", "buffer": "6MB"}
SLOW = [0, 8, 16, 24]  # applications
FAST = [host for host in range(SERVERS) if host % 2]
APPS: dict[str, Any] = {
    **NETWORK,
    "hosts": SERVERS // 2,
    "vswitches": {"apps": 2, "rate": "100Gbps", "delay": "500ns", "buffer": "8MB"},
    "receivers": [{"host": host, "rate": "10Gbps"} for host in SLOW],
}
TRAFFICS = {
    "rpc": "Short RPCs",
    "search": "Web search",
    "incast": "Incast mix",
    "all_to_all": "All-to-all",
    "permutation": "Permutation",
    "slow": "Slow receivers",
}
SIZES = {"rpc": "google", "search": "websearch", "incast": "facebook_hadoop", "slow": "facebook_hadoop"}
DURATION = {"rpc": 300, "search": 8000, "incast": 2000, "all_to_all": 100, "permutation": 100, "slow": 3200}  # us
LONGER = {"quick": 1, "paper": 5}
FACEBOOK = {"unscheduled": 2, "cutoffs": [57560]}
HOMA: dict[str, dict[str, Any]] = {  # levels of blind packets and their cutoffs, by docs/schemes.md, Cutoffs of Homa
    "rpc": {"unscheduled": 5, "cutoffs": [1469, 6922, 27168, 77666]},
    "search": {"unscheduled": 1},
    "incast": FACEBOOK,
    "all_to_all": {"unscheduled": 1},
    "permutation": {"unscheduled": 1},
    "slow": FACEBOOK,
}
SHORT_BYTES, LONG_BYTES = 10_000, 100_000

LOSSY = {"pfc": False, "dynamic_threshold": {"alpha": 1}}
SCHEMES = (
    Scheme("PFC alone", {"name": "pfc+window_cap"}),
    Scheme("PFC alone, sprayed", {"name": "pfc+window_cap+spray"}, 1),
    Scheme("DCQCN", {"name": "dcqcn:bfc"}),
    Scheme("DCQCN, IRN", {"name": "dcqcn:bfc+dynamic_threshold+recovery:irn", **LOSSY}, 1),
    Scheme("TIMELY", {"name": "timely"}),
    Scheme("DCTCP", {"name": "dctcp"}),
    Scheme("DCTCP, lossy", {"name": "dctcp+dynamic_threshold", **LOSSY}, 1),
    Scheme("DCTCP, flowlets", {"name": "dctcp+flowlet"}, 2),
    Scheme("PIAS", {"name": "pias"}),
    Scheme("Swift", {"name": "swift"}),
    Scheme("HPCC", {"name": "hpcc"}),
    Scheme("HPCC, IRN", {"name": "hpcc+dynamic_threshold+recovery:irn", **LOSSY}, 1),
    Scheme("HPCC, perfect retransmission", {"name": "hpcc+dynamic_threshold+recovery:perfect", **LOSSY}, 3),
    Scheme("PowerTCP", {"name": "powertcp"}),
    Scheme("theta-PowerTCP", {"name": "theta_powertcp"}),
    Scheme("HPCC+SFQ", {"name": "hpcc+sfq"}, 2),
    Scheme("HPCC+DQA", {"name": "hpcc+dqa"}, 4),
    Scheme("ExpressPass", {"name": "expresspass"}),
    Scheme("Homa", {"name": "homa+spray"}),
    Scheme("pHost", {"name": "phost+spray"}),
    Scheme("NDP", {"name": "ndp"}),
    Scheme("pFabric", {"name": "pfabric"}),
    Scheme("BFC", {"name": "bfc"}),
    Scheme("BFC+SRF", {"name": "bfc+srf"}, 1),
    Scheme("BFC on Tofino2", {"name": "bfc_tofino2"}, 2),
    Scheme("BFC+RTT target", {"name": "bfc+rtt_target"}, 3),
    Scheme("HPCC+BFC", {"name": "hpcc+bfc"}, 4),
    Scheme("DCQCN+Floodgate", {"name": "dcqcn:bfc+floodgate"}),
    Scheme("HPCC+Floodgate", {"name": "hpcc+floodgate"}, 1),
    Scheme("DCQCN+PFC w tag", {"name": "dcqcn:bfc+pfc_tagged"}),
    Scheme("DCTCP+Backdraft", {"name": "dctcp+backdraft"}),
    Scheme("BFC+Backdraft", {"name": "bfc+backdraft", "bfc": {"edge_th_bytes": "300KB"}}, 1),
    Scheme("Ideal-FQ", {"name": "ideal_fq"}),
    Scheme("Ideal-SRF", {"name": "ideal_fq+srf"}, 1),
)
ABSENT = {  # schemes of the package that are no entry of their own, nor a part of one, and why
    "fifo": "it controls nothing",
    "valiant": "it is for dragonflies",
    "dimension_order": "it is for tori",
    **dict.fromkeys(("uec", "uec_receiver", "trim", "cbfc", "pyrrha", "bolt", "sird"), "it is younger than this comparison"),
    **dict.fromkeys(("dcpim", "conweave", "fncc"), "it is younger than this comparison"),
    **dict.fromkeys(
        ("entropy", "reps", "mixed", "oblivious", "plb", "least_queue", "mrc", "reorder"), "it is younger than this comparison"
    ),
    "ets": "it shares a link between priorities, and all flows here have the same",
}
IDEALS = ("Ideal-FQ", "Ideal-SRF")  # a queue for every flow and no limit of the buffer: no switch has them
MEASURES = {
    "tail": "short flows, p99 slowdown",
    "mean": "long flows, mean slowdown",
    "buffer": "largest buffer (KB)",
    "fairness": "Jain's index, long flows",
    "overhead": "bytes beyond the payload (%)",
}
DIFFERS: dict[str, Differs] = {}
ORDERS = {  # traffic, measure, schemes, why
    "rpc-homa": ("rpc", "tail", ("Homa", "DCTCP"), "Homa, section 5: short messages below those of DCTCP-like transports"),
    "incast-bfc": ("incast", "tail", ("BFC", "HPCC", "DCQCN"), "BFC, abstract: lower tail latency for short flows"),
    "incast-floodgate": ("incast", "tail", ("DCQCN+Floodgate", "DCQCN"), "Floodgate, abstract"),
    "incast-buffer": ("incast", "buffer", ("NDP", "HPCC", "DCQCN"), "NDP, section 3: eight packets; HPCC: near-zero queues"),
    "permutation-ndp": (
        "permutation",
        "mean",
        ("NDP", "DCTCP"),
        "NDP, section 6: packets over all paths, no collisions of ECMP",
    ),
    "search-hpcc": ("search", "tail", ("HPCC", "DCTCP"), "HPCC, section 5.3: all others maintain standing queues"),
    "slow-backdraft": ("slow", "tail", ("BFC+Backdraft", "BFC"), "Backdraft, section 2.2: slow receivers spread congestion"),
}
CLAIMS = (
    holds("finish", "every traffic and scheme: all flows finish", "no scheme may leave a flow behind", "all finish", kind=OURS),
    *(
        ascending(id, f"{TRAFFICS[traffic]}: {MEASURES[panel]}", why, kind=OURS)
        for id, (traffic, panel, _, why) in ORDERS.items()
    ),
)


def specs(scale: str) -> dict[str, Spec]:
    """One for each traffic, all schemes over the same flows."""
    return {traffic: _spec(traffic, scale) for traffic in TRAFFICS}


def _spec(traffic: str, scale: str) -> Spec:
    tables = [_tuned(scheme, traffic) for scheme in SCHEMES]
    return {
        "run": {"duration": f"{DURATION[traffic] * LONGER[scale]}us", "seed": 1, "max_time": "1s"},
        "topology": APPS if traffic == "slow" else NETWORK,
        "scheme": tables,
        "workload": _workloads(traffic),
        "measure": {"sample": "0us"},
    }


def _workloads(traffic: str) -> list[dict[str, Any]]:
    if traffic == "all_to_all":
        return [{"kind": "all_to_all", "bytes": "200KB"}]
    if traffic == "permutation":
        return [{"kind": "permutation", "bytes": "5MB"}]
    loads = {"rpc": 0.4, "search": 0.5, "incast": 0.4, "slow": 0.1}
    flows = {"kind": "poisson", "sizes": SIZES[traffic], "load": loads[traffic], "load_on": "host"}
    crowd = {"kind": "incast", "fan_in": 60, "size": "100KB", "every": "500us", "start": "100us"}
    late = {"kind": "incast", "fan_in": 8, "total": "400KB", "every": "100us", "receivers": SLOW, "order": "in_turn"}
    if traffic == "incast":
        return [flows, crowd]
    return [{**flows, "hosts": FAST}, {**late, "hosts": SLOW_SENDERS}] if traffic == "slow" else [flows]


SLOW_SENDERS = [host for host in range(SERVERS) if host % 2 == 0]


def _tuned(scheme: Scheme, traffic: str) -> dict[str, Any]:
    """The [[scheme]] table; Homa's levels depend on the traffic."""
    return {**scheme.table, "label": scheme.legend, **({"homa": HOMA[traffic]} if scheme.legend == "Homa" else {})}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: 0; y: a number of MEASURES, or `unfinished`, `drops`, for every traffic, panel and scheme (series)."""
    parts = []
    for traffic in TRAFFICS:
        for scheme in SCHEMES:
            numbers = measured(runs, f"{traffic}/{scheme.legend}", traffic)
            parts += [frames.rows(panel, scheme.legend, [0], [y], traffic=traffic) for panel, y in numbers.items()]
    return pl.concat(parts)


def measured(runs: Runs, label: str, traffic: str) -> dict[str, float]:
    """The numbers of one run; those that its traffic does not have are left out."""
    said = runs.summary(label)
    flows = runs.scan(label, "flows").collect()
    judged = ages.counted(runs, label, "receiver").filter(pl.col("class").cast(pl.String) != "incast").collect()
    short, long = (judged.filter(wanted)["slowdown"].to_numpy() for wanted in (_is_short(), _is_long()))
    nodes = runs.scan(label, "nodes").filter(pl.col("tier") > 0).collect()
    sent = runs.scan(label, "ports").select(pl.col("tx_bytes").sum()).collect().item()
    found = {"unfinished": said["flows_started"] - said["flows_finished"], "drops": said["drops"]}
    if len(short) >= 100:
        found["tail"] = float(np.quantile(short, 0.99))
    if len(long) >= 10:
        rates = 1 / long
        found |= {"mean": float(long.mean()), "fairness": float(rates.sum() ** 2 / len(rates) / (rates**2).sum())}
    found["buffer"] = nodes["max_buffer_bytes"].max() / 1e3  # type: ignore[operator]
    found["overhead"] = 100 * (sent / _payload(flows, traffic) - 1)
    return found


def _is_short() -> pl.Expr:
    return pl.col("bytes") <= SHORT_BYTES


def _is_long() -> pl.Expr:
    return pl.col("bytes") > LONG_BYTES


def _payload(flows: pl.DataFrame, traffic: str) -> float:
    """Bytes of the flows times the links of their paths."""
    apps = 2 if traffic == "slow" else 1
    src, dst, size = (flows[column].to_numpy() for column in ("src", "dst", "bytes"))
    servers = SERVERS // apps
    same_server, same_rack = src // apps == dst // apps, src // apps // (servers // RACKS) == dst // apps // (servers // RACKS)
    links = np.where(same_server, 0, np.where(same_rack, 2, 4)) + (2 if apps > 1 else 0)
    return float((size * links).sum())


def of(data: pl.DataFrame, traffic: str, panel: str) -> dict[str, float]:
    """A measure by scheme; NaN where there is none."""
    return {scheme.legend: frames.value(data, panel=panel, series=scheme.legend, traffic=traffic) for scheme in SCHEMES}


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """All flows finish; a few orders that the papers state, on this network."""
    late = {f"{traffic} {name}": n for traffic in TRAFFICS for name, n in of(data, traffic, "unfinished").items() if n}
    found: Numbers = {"finish": (not late, frames.text(late) or "all do")}
    for id, (traffic, panel, names, _) in ORDERS.items():
        measured = of(data, traffic, panel)
        found[id] = {name: measured[name] for name in names}
    return found


def plot(data: pl.DataFrame) -> Any:
    """Two tables of numbers, coloured by their ratio to the best that can be built: tail and mean, by scheme and traffic."""
    from matplotlib.colors import LogNorm

    made, grid = figure(1, 2, width=PAGE, height=6.2, sharey=True)
    for axes, panel in zip(grid, ("tail", "mean")):
        shown = [traffic for traffic in TRAFFICS if not np.isnan(list(of(data, traffic, panel).values())).all()]
        numbers = np.array([list(of(data, traffic, panel).values()) for traffic in shown]).T
        built = [scheme.legend not in IDEALS for scheme in SCHEMES]
        ratio = np.maximum(numbers / np.nanmin(numbers[built], axis=0), 1)
        axes.imshow(ratio, cmap="YlOrRd", norm=LogNorm(1, 30), aspect="auto")
        for (row, column), number in np.ndenumerate(numbers):
            colour = "white" if ratio[row, column] > 12 else "black"
            axes.text(column, row, "" if np.isnan(number) else f"{number:.3g}", ha="center", va="center", size=6.5, color=colour)
        axes.set_xticks(range(len(shown)), [TRAFFICS[traffic] for traffic in shown], rotation=30, ha="right")
        axes.set_yticks(range(len(SCHEMES)), [scheme.legend for scheme in SCHEMES])
        axes.tick_params(length=0)
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        axes.set_title(MEASURES[panel].capitalize())
    return made
