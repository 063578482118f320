"""The kinds of figures: what each shows, which recording it needs, an example. Imports nothing, so that `--help` is fast.

`report.plots` has a function of the same name for each; `penstock plot --help` and docs/plots.md are made of this list.
"""

from typing import NamedTuple


class Kind(NamedTuple):
    """A kind of figure.

    text      what it shows, in a few words
    needs     the settings of [measure] that record it, as in a spec file; empty: every run has it
    example   options of an example
    detail    what a reader of docs/plots.md should know
    """

    text: str
    needs: tuple[str, ...] = ()
    example: str = ""
    detail: str = ""


SAMPLES, COUNTS = 'sample = "2us"', "flows = true"
DEFAULTS = (SAMPLES, COUNTS)  # recorded unless a spec says otherwise

KINDS: dict[str, Kind] = {
    "slowdown": Kind(
        "FCT slowdown by flow size",
        example="--percentile 50",
        detail="A point per size bin, at the median size of its flows. `--bins 10` makes bins with equal shares of the "
        "flows, at equal distances, as figure 11 of HPCC (SIGCOMM 2019) has them. `--clock sender` measures until the "
        "last acknowledgement. Of a sweep: means over the seeds with 95 % intervals; colour and marker are those of "
        "the scheme, dashes those of the other parameters. More than eight curves have no intervals: choose some with "
        "`--where load=0.7`.",
    ),
    "fct_cdf": Kind("CDF of the flow completion time", example="--size ..10KB", detail="Finished flows only."),
    "throughput": Kind(
        "acknowledged payload per time: of all flows, by class or by flow",
        (SAMPLES, "flow_series = true"),
        "--by class",
        "`--by run` is a curve per run; `--by class` and `--by flow` a panel per run. `--by flow` shows the six largest flows, "
        "or those of `--flow 3,17`.",
    ),
    "link_rate": Kind(
        "what a port sends, per time",
        (SAMPLES, "port_series = true"),
        "--port tor0:8",
        "Bytes on the wire: headers, acknowledgements and control frames are included. The port as in `port`.",
    ),
    "port": Kind(
        "queue of one port over time, shaded where it is paused",
        (SAMPLES, "port_series = true", "pauses = true"),
        "--port tor0:8",
        "`--port NODE:PORT` names the node or gives its number; default: the switch port with the longest queue, of those that "
        "were paused. `--queue 3` shows one queue, with its pauses and those of the port; it needs `queues = true`.",
    ),
    "port_life": Kind(
        "queue, rate and pauses of one port over time",
        (SAMPLES, "port_series = true", "pauses = true"),
        "--port tor0:8",
        "Below one another: the longest queue, what the port sends in percent of its rate, and for how much of the time it, or a "
        "queue of it, is paused. The port as in `port`; `Run.port_life` has the numbers.",
    ),
    "pause_map": Kind(
        "share of time that each link was paused, over time",
        ("pauses = true",),
        detail="A row per egress port that was ever paused, in the order of a path: from the hosts up to the core, and down "
        "again. A port counts as paused while it, or at least one of its queues, is.",
    ),
    "pause_tree": Kind(
        "why a port was paused: the ports that caused it, and so on",
        ("pauses = true",),
        detail="The first row is the port, those indented below it are the ports whose pauses caused its pauses. Pale: a port "
        "below was paused, too. Dark: none was, so that the end of this link was congested itself. `--port NODE:PORT` names a "
        "port, such as `host0:0`; default: the one that was paused longest. `Run.pause_tree` has the same as a table.",
    ),
    "pause_time": Kind("share of port time paused by PFC", detail="A bar per run."),
    "buffer_cdf": Kind("CDF of the buffer in use at a switch", (SAMPLES,), detail="Over the samples of all switches."),
    "timeseries": Kind(
        "buffer, longest queue or active flows over time",
        (SAMPLES,),
        "--column max_queue_bytes --switch tor0",
        "`--column buffer_bytes` (default), `max_queue_bytes` or `active_flows`: the largest of all switches, or that of "
        "`--switch`, a name or number.",
    ),
    "active_flows": Kind(
        "CDF of the number of active flows at a port",
        (SAMPLES, COUNTS),
        detail="Schemes with a queue per flow or a flow table count active flows; others are left out, and the caption says so. "
        "A dotted line marks the number of queues.",
    ),
    "record": Kind(
        "windows of flows, or numbers that a scheme records, over time",
        (SAMPLES, "flow_series = true"),
        "--record window",
        "`--record window` shows the windows of the largest flows, or those of `--flow 3,17`. A number that the scheme's file "
        "declares as a record is named as in the column `name` of `records.parquet`, or by the end of that; it needs "
        "`records = true` instead, and is of flows, of ports (`--port tor0:8`) or of nodes (`--switch tor0`).",
    ),
    "rank_timeline": Kind(
        "what each rank of a job computes and communicates, over time",
        detail="A row per rank: computations above, collectives and messages below, from when the rank enters until it has all "
        "that is for it. The workload must have ranks, as those of [training.md](training.md) do.",
    ),
    "ttft": Kind(
        "time to first token of requests to a served model",
        detail="Bars are the 50th and the 99th percentile, black lines what they would be if messages took no time. The workload "
        "must have requests, as that of [inference.md](inference.md) does.",
    ),
    "against": Kind(
        "a statistic of a sweep against one of its parameters, with 95 % intervals over the seeds",
        example="--x load --y short_p99",
        detail="`--y` is a column of `sweep.parquet`, or any statistic by name, such as `p99.9 slowdown of flows < 10KB`. Of the "
        "other kinds, `slowdown` and `pareto` draw a sweep, too.",
    ),
    "pareto": Kind(
        "which points of a sweep are worth having: two statistics against each other",
        example="--x short_p99 --y max_buffer_bytes",
        detail="A mark is a point of the sweep, its parameters and scheme; less is better in both. The front is by the "
        "99th percentiles of short and long flows, the largest buffer, the time paused by PFC, and `--x` and `--y`: a point "
        "with an empty mark has another one that is as good in all of these and better in one, blue if that may be chance. "
        "`penstock sweep --pareto` prints the same as a table ([tutorial](tutorial.md#which-points-are-worth-having)).",
    ),
}
