"""Every file and column of a run directory: the one list from which frames, metadata and documentation are made.

A new column of flows.parquet is a line here, with `per_flow`, and one where the core fills it,
`world.results.NAME[flow.number] = ...`: the array, its C declaration (written by `setup.py`), the frame, `penstock explain` and
docs/outputs.md follow.  A column of a log is a line here and a field of its row in fabric/rows.pxd.

This module imports nothing of the package: `setup.py` reads it before anything is built.
"""

from typing import NamedTuple


class Column(NamedTuple):
    """A column of a frame.

    name      with its unit as the suffix, `_ns` or `_bytes`
    dtype     name of the polars type
    unit      "" for a plain number or text
    text      what it means
    source    the field of the core's row or counter that it is a copy of; "": that of the same name, or computed
    per_flow  initial value of the core's int64 for each flow; -1 means "never" and becomes null; None: the core has none
    optional  may be left out when a Run is made from arrays, and is null then
    """

    name: str
    dtype: str
    unit: str
    text: str
    source: str = ""
    per_flow: int | None = None
    optional: bool = False

    @property
    def key(self) -> str:
        """The name under which its values come from the core: times are in ps there."""
        return self.name.removesuffix("_ns") + "_ps" if self.name.endswith("_ns") else self.name

    @property
    def stem(self) -> str:
        """The name without its unit."""
        return self.name.removesuffix("_ns").removesuffix("_bytes")


_FRAMES: dict[str, list[Column]] = {
    "flows": [
        Column("flow_id", "Int64", "", "number of the flow, in the order of the workload (sorted by start)"),
        Column("src", "Int32", "node", "host that sends"),
        Column("dst", "Int32", "node", "host that receives"),
        Column("bytes", "Int64", "B", "payload of the flow, without headers"),
        Column("class", "Enum", "", "which part of the workload the flow belongs to, such as poisson or incast"),
        Column("priority", "Int8", "", "0 is the highest of 8"),
        Column("start_ns", "Float64", "ns", "when the flow is handed to the NIC; null: never"),
        Column("finish_ns", "Float64", "ns", "when its last byte reached the receiver; null: unfinished", per_flow=-1),
        Column("fct_ns", "Float64", "ns", "flow completion time, finish_ns - start_ns"),
        Column(
            "ideal_fct_ns",
            "Float64",
            "ns",
            "exact completion time of this flow alone in the empty network, including data headers but not headers that "
            "only this scheme adds",
        ),
        Column("slowdown", "Float64", "", "fct / ideal fct, computed from picoseconds; 1 for a flow without contention"),
        Column("retransmitted_bytes", "Int64", "B", "payload sent more than once", per_flow=0),
        Column(
            "paused_ns", "Float64", "ns", "time during which the sender had data of this flow to send and was paused", per_flow=0
        ),
        Column(
            "acked_ns",
            "Float64",
            "ns",
            "when the acknowledgement of its last byte reached the sender; null: not before the end of the run",
            per_flow=-1,
        ),
        Column(
            "sender_slowdown",
            "Float64",
            "",
            "slowdown measured at the sender: (acked_ns - start_ns) / the same time for this flow alone in the empty network, "
            "both including the path of its last acknowledgement; computed from picoseconds",
        ),
        Column("lost_packets", "Int64", "packets", "packets and acknowledgements of it that were lost", per_flow=0),
        Column(
            "timeout_ns",
            "Float64",
            "ns",
            "time without progress that only a retransmission timeout ended; while packets are held up and not lost, too",
            per_flow=0,
        ),
    ],
    "switches": [
        Column("time_ns", "Float64", "ns", "time of the sample", source="time"),
        Column("switch", "Int32", "node", "the switch", source="node"),
        Column("buffer_bytes", "Int64", "B", "shared buffer in use"),
        Column("max_queue_bytes", "Int64", "B", "longest egress queue of the switch at the time of the sample"),
        Column(
            "active_flows",
            "Int32",
            "flows",
            "flows with queued packets at the egress port that has most of them; -1: they are not counted",
            source="flows",
        ),
    ],
    "ports": [
        Column("node", "Int32", "node", "host or switch whose egress this is"),
        Column("port", "Int32", "", "number of the port within the node"),
        Column("peer", "Int32", "node", "node at the other end of the link"),
        Column("tx_bytes", "Int64", "B", "bytes sent, headers, acknowledgements and control frames included"),
        Column("tx_packets", "Int64", "packets", "packets sent, acknowledgements and control frames included"),
        Column("drops", "Int64", "packets", "packets lost at this egress or on its link"),
        Column("drop_reason", "String", "", "reasons with counts, as in 'buffer full: 12, link loss: 3'; null: no drops"),
        Column("ecn_marks", "Int64", "packets", "packets marked here"),
        Column("pauses_sent", "Int64", "frames", "pause frames sent out of this port, to pause the peer"),
        Column("pauses_received", "Int64", "frames", "pause frames received on this port, to pause this egress"),
        Column(
            "paused_ns",
            "Float64",
            "ns",
            "time during which the egress, or a priority of it, was paused (PFC); not queues of flows",
        ),
        Column(
            "max_queue_bytes",
            "Int64",
            "B",
            "largest number of bytes stored for this port, in its queues and in virtual output queues",
        ),
        Column("utilization", "Float64", "", "time spent sending in the measurement window / length of the window"),
        Column("ack_bytes", "Int64", "B", "the acknowledgements in tx_bytes"),
        Column(
            "control_bytes",
            "Int64",
            "B",
            "the control frames in tx_bytes (pauses, credits, grants, packets of in-network reductions), on every hop",
            source="frame_bytes",
        ),
        Column("window_tx_bytes", "Int64", "B", "tx_bytes in the measurement window", optional=True),
        Column("window_paused_ns", "Float64", "ns", "paused_ns in the measurement window", optional=True),
        Column("window_max_queue_bytes", "Int64", "B", "max_queue_bytes in the measurement window", optional=True),
        Column("trims", "Int64", "packets", "packets whose payload was cut off here", optional=True),
        Column("trimmed_bytes", "Int64", "B", "what was cut off from them", optional=True),
        Column("returns", "Int64", "packets", "packets sent back to their source from here", optional=True),
        Column("rate_bps", "Int64", "bit/s", "rate of the link in this direction, at the end of the run", optional=True),
        Column("delay_ns", "Float64", "ns", "propagation delay of the link", optional=True),
        Column("storms", "Int64", "times", "times that a watchdog ended a pause of this egress", optional=True),
        Column("restored", "Int64", "times", "times that it obeyed pauses again afterwards", optional=True),
    ],
    "pauses": [
        Column("time_ns", "Float64", "ns", "when the pause or resume took effect", source="time"),
        Column("node", "Int32", "node", "node whose egress is paused"),
        Column("port", "Int32", "", "the egress port"),
        Column("queue", "Int32", "", "the queue, which is the priority if these are paused apart; -1: the whole port"),
        Column("paused", "Boolean", "", "true: pause, false: resume"),
    ],
    "queues": [
        Column("time_ns", "Float64", "ns", "time of the sample", source="time"),
        Column("node", "Int32", "node", "host or switch"),
        Column("port", "Int32", "", "the egress port"),
        Column("queue", "Int32", "", "number of the queue within the port"),
        Column("bytes", "Int64", "B", "bytes queued; empty queues have no row"),
        Column("paused", "Boolean", "", "whether the queue is paused"),
    ],
    "active_flows": [
        Column("node", "Int32", "node", "the switch"),
        Column("port", "Int32", "", "the egress port"),
        Column("active_flows", "Int32", "flows", "number of flows with packets queued at this port"),
        Column("samples", "Int64", "samples", "number of samples in the measurement window with that many active flows"),
    ],
    "packets": [
        Column("time_ns", "Float64", "ns", "time of the event", source="time"),
        Column("node", "Int32", "node", "host or switch of the event"),
        Column("port", "Int32", "", "the egress port"),
        Column("in_port", "Int32", "", "the ingress port"),
        Column("queue", "Int32", "", "the egress queue; -1: none"),
        Column("upstream_q", "Int32", "", "until queued here: its queue upstream (their number: none); then: the egress queue"),
        Column("event", "String", "", "enqueue, dequeue, drop, hold (in a virtual output queue) or receive (a control frame)"),
        Column("kind", "Int8", "", "0 data, 1 acknowledgement, 2 control frame"),
        Column("flow_id", "Int64", "", "the flow, as in flows.parquet; of a connection the first", source="number"),
        Column(
            "offset_bytes", "Int64", "B", "position of the packet's first payload byte in the flow or connection", source="seq"
        ),
        Column("bytes", "Int64", "B", "size on the wire", source="size"),
        Column("ecn", "Boolean", "", "whether it carries a congestion mark"),
        Column("queue_bytes", "Int64", "B", "length of its queue, just after the event"),
        Column("port_bytes", "Int64", "B", "data queued at the port, just after the event"),
    ],
    "port_series": [
        Column("time_ns", "Float64", "ns", "time of the sample", source="time"),
        Column("node", "Int32", "node", "host or switch"),
        Column("port", "Int32", "", "the egress port"),
        Column("queue_bytes", "Int64", "B", "data queued at the port", source="bytes"),
        Column("tx_bytes", "Int64", "B", "sent so far, headers, acknowledgements and control frames included"),
        Column("ack_bytes", "Int64", "B", "the acknowledgements in tx_bytes"),
        Column("control_bytes", "Int64", "B", "the control frames in tx_bytes", source="frame_bytes"),
        Column("active_queues", "Int32", "", "queues with data that are not paused", source="active"),
        Column(
            "active_flows", "Int32", "flows", "flows with packets queued; -1: this scheme does not count them", source="flows"
        ),
    ],
    "flow_series": [
        Column("time_ns", "Float64", "ns", "time of the sample", source="time"),
        Column("flow_id", "Int64", "", "an unfinished flow", source="number"),
        Column("acked_bytes", "Int64", "B", "acknowledged so far", source="acked"),
        Column("window_bytes", "Int64", "B", "its window; -1: none", optional=True),
    ],
    "records": [
        Column("time_ns", "Float64", "ns", "time of the sample at which the value was found changed"),
        Column("name", "String", "", "what is recorded, with its scheme, such as bolt.tokens; summary.json explains: meanings"),
        Column("node", "Int32", "node", "host or switch; of a flow the one that sends"),
        Column("port", "Int32", "", "the port; null: it is of the node or of a flow"),
        Column("flow_id", "Int64", "", "the flow, of a connection the first; null: it is of a node or port"),
        Column("value", "Float64", "", "from then on, until the next row; 0 before the first; times in ns, rates in bit/s"),
    ],
    "prints": [
        Column("time_ns", "Float64", "ns", "when the line was printed"),
        Column("node", "Int32", "node", "host or switch; null: before the run, in set_up"),
        Column("scheme", "String", "", "the scheme that printed it"),
        Column("line", "Int32", "", "line of its file"),
        Column("text", "String", "", "the text of the line"),
    ],
    "counts": [
        Column("name", "String", "", "what is counted, with its scheme, such as bolt.moved; summary.json explains: meanings"),
        Column("node", "Int32", "node", "host or switch; of a flow the one that sends"),
        Column("port", "Int32", "", "the port; null: it is of the node or of a flow"),
        Column("flow_id", "Int64", "", "the flow, of a connection the first; null: it is of a node or port"),
        Column("value", "Int64", "", "the count at the end of the run"),
    ],
    "queueing": [
        Column("node", "Int32", "node", "the switch"),
        Column("port", "Int32", "", "the egress port"),
        Column("class", "String", "", "class of the flows, as in flows.parquet"),
        Column("packets", "Int64", "packets", "data packets of the class sent by this port"),
        Column("queueing_ns", "Float64", "ns", "sum over these packets of the time from arrival to the start of transmission"),
    ],
    "operations": [
        Column("operation", "Int32", "", "number of the collective or message, in the order of the workload"),
        Column("job", "Int32", "", "which [[workload]] with ranks it belongs to, from 0"),
        Column("iteration", "Int32", "", "iteration of the job, from 0"),
        Column("kind", "String", "", "all_reduce, all_gather, ..; send: a message from one rank to another"),
        Column("name", "String", "", "what it is for, such as gradients 3"),
        Column("algorithm", "String", "", "such as ring; empty: a single message"),
        Column("ranks", "Int32", "", "how many take part"),
        Column("bytes", "Int64", "B", "as NCCL counts: the buffer of a rank, the whole one where ranks have parts"),
        Column("start_ns", "Float64", "ns", "when the first rank entered it"),
        Column("ready_ns", "Float64", "ns", "when the last rank entered it; of a broadcast, scatter or message: when it began"),
        Column("finish_ns", "Float64", "ns", "when the last rank had received all that was for it; null: unfinished"),
        Column("time_ns", "Float64", "ns", "finish_ns - ready_ns"),
        Column(
            "bus_bandwidth_bps",
            "Float64",
            "bit/s",
            "NCCL's bus bandwidth: bytes / time, times 2 (n - 1) / n for an all-reduce of "
            "n ranks, (n - 1) / n for reduce-scatter, all-gather, all-to-all, gather and scatter, 1 for the rest; barrier: null",
        ),
        Column("slowest_rank", "Int32", "rank", "the rank that was done last; the lowest of several"),
        Column("paused_ns", "Float64", "ns", "paused_ns of its flows, added up"),
    ],
    "timeline": [
        Column("job", "Int32", "", "which [[workload]] with ranks, from 0"),
        Column("rank", "Int32", "rank", "rank of the job"),
        Column("host", "Int32", "node", "its host"),
        Column("iteration", "Int32", "", "iteration of the job, from 0"),
        Column("operation", "Int32", "", "the operation, as in operations.parquet, which has no computations"),
        Column("kind", "String", "", "compute, send or a collective"),
        Column("name", "String", "", "what it is for, such as forward 0"),
        Column("start_ns", "Float64", "ns", "when the rank entered it; null: never"),
        Column(
            "finish_ns",
            "Float64",
            "ns",
            "when the rank had received all that was for it, or the computation was done; null: unfinished",
        ),
        Column("paused_ns", "Float64", "ns", "paused_ns of the flows that the rank sent for it, added up"),
    ],
    "ranks": [
        Column("job", "Int32", "", "which [[workload]] with ranks, from 0"),
        Column("iteration", "Int32", "", "iteration of the job, from 0"),
        Column("rank", "Int32", "rank", "rank of the job"),
        Column("host", "Int32", "node", "its host"),
        Column("start_ns", "Float64", "ns", "when the rank began the iteration"),
        Column("finish_ns", "Float64", "ns", "when it had ended it; null: unfinished"),
        Column("step_ns", "Float64", "ns", "from the end of its iteration before, or from start_ns, to finish_ns"),
        Column("compute_ns", "Float64", "ns", "time during which it computes"),
        Column("exposed_ns", "Float64", "ns", "step_ns - compute_ns: communication that no computation hides, and waiting"),
        Column("paused_ns", "Float64", "ns", "paused_ns of the flows that it sent, added up"),
    ],
    "open_loop": [
        Column("flow_id", "Int64", "", "an open-loop flow"),
        Column("sent_bytes", "Int64", "B", "payload that it has sent"),
        Column("received_bytes", "Int64", "B", "payload that has arrived; the flow has finished once this is all of it"),
        Column("lost_bytes", "Int64", "B", "sent_bytes - received_bytes: lost, or still on its way where the run was cut off"),
    ],
    "requests": [
        Column("request", "Int32", "", "number of the request, in the order of the workload"),
        Column("arrival_ns", "Float64", "ns", "when it came"),
        Column("input_tokens", "Int64", "tokens", "of its prompt"),
        Column("output_tokens", "Int64", "tokens", "of its answer"),
        Column("prefill", "Int32", "", "the prefill instance that computed its prompt"),
        Column("decode", "Int32", "", "the decode instance that got its cache"),
        Column("cached_tokens", "Int64", "tokens", "those of the prompt that were not computed, fetched ones included"),
        Column("fetched_tokens", "Int64", "tokens", "fetched from the store, in whole blocks"),
        Column("sent_tokens", "Int64", "tokens", "those whose cache the decode instance did not have"),
        Column("kv_bytes", "Int64", "B", "their cache, sent from prefill to decode"),
        Column("queue_ns", "Float64", "ns", "from its arrival until its computation began"),
        Column("prefill_ns", "Float64", "ns", "from then until its prompt was computed on all ranks; null: not in this run"),
        Column("transfer_ns", "Float64", "ns", "from then until its whole cache was at the decode instance; null: it was not"),
        Column("first_token_ns", "Float64", "ns", "when its first token came, first_step after that; null: it did not"),
        Column("ttft_ns", "Float64", "ns", "time to first token, first_token_ns - arrival_ns"),
        Column(
            "ttft_without_network_ns", "Float64", "ns", "the same if messages took no time: queue, prefill and first_step only"
        ),
    ],
    "llr": [
        Column("node", "Int32", "node", "host or switch at this end of the link"),
        Column("port", "Int32", "", "number of the port within the node"),
        Column("peer", "Int32", "node", "node at the other end"),
        Column("tx_ok", "Int64", "frames", "protected frames sent from here, each counted once"),
        Column("tx_replay", "Int64", "frames", "those sent again"),
        Column("tx_discard", "Int64", "frames", "thrown away after a flush, before the other end had answered"),
        Column("rx_ok", "Int64", "frames", "passed on: the expected ones"),
        Column("rx_bad", "Int64", "frames", "damaged on the wire to here"),
        Column("rx_missing_seq", "Int64", "frames", "thrown away since one before them was missing"),
        Column("rx_duplicate_seq", "Int64", "frames", "thrown away since they had been passed on before"),
        Column("rx_replay", "Int64", "times", "times that the other end began to send again"),
        Column("ack_tx", "Int64", "sets", "acknowledgements sent from here"),
        Column("ack_rx", "Int64", "sets", "acknowledgements received here"),
        Column("nack_tx", "Int64", "sets", "times that frames were asked for again from here"),
        Column("nack_rx", "Int64", "sets", "times that they were asked for here"),
        Column("timeouts", "Int64", "times", "times that nothing had been acknowledged for too long, and all was sent again"),
        Column("flushes", "Int64", "times", "times that it gave up"),
        Column("max_kept_bytes", "Int64", "B", "largest number of bytes that waited for an acknowledgement"),
    ],
    "nodes": [
        Column("node", "Int32", "node", "number of the host or switch"),
        Column("name", "String", "", "its name"),
        Column("tier", "Int8", "", "0 host, 1 ToR, 2 aggregation or spine, 3 core"),
        Column("max_buffer_bytes", "Int64", "B", "largest buffer use of the switch; 0 for a host"),
        Column("window_max_buffer_bytes", "Int64", "B", "max_buffer_bytes in the measurement window", optional=True),
        Column(
            "max_voqs",
            "Int32",
            "queues",
            "largest number of virtual output queues of the switch in use at the same time",
            source="voqs_max",
        ),
    ],
}
COLUMNS: dict[str, dict[str, Column]] = {file: {c.name: c for c in columns} for file, columns in _FRAMES.items()}
PER_FLOW = tuple(c for c in COLUMNS["flows"].values() if c.per_flow is not None)


def flow_results_pxd() -> str:
    """The struct of arrays by flow number that the core fills, as the text of fabric/flow_results.pxd."""
    lines = [
        "# Generated by setup.py from penstock_net/results/columns.py",
        "from libc.stdint cimport int64_t",
        "",
        "cdef struct FlowResults:",
        *(f"    int64_t* {c.stem}" for c in PER_FLOW),
    ]
    return "\n".join(lines) + "\n"


def flow_setter_pxd() -> str:
    """The function that sets one of these arrays by its name, as the text of sim/core/flow_setter.pxd.

    It works on a Python string, so it is kept away from what schemes are compiled with.
    """
    setters = [f'    {"el" * bool(i)}if name == "{c.stem}":\n        results.{c.stem} = values' for i, c in enumerate(PER_FLOW)]
    lines = [
        "# Generated by setup.py from penstock_net/results/columns.py",
        "from libc.stdint cimport int64_t",
        "from penstock_net.fabric.flow_results cimport FlowResults",
        "",
        "cdef inline void set_flow_result(FlowResults* results, str name, int64_t* values) except *:",
        *setters,
        "    else:",
        "        raise KeyError(name)",
    ]
    return "\n".join(lines) + "\n"


FILES = {
    "flows": "a row per flow",
    "switches": "a row per sample and switch in which something is stored; all other samples are zeros, and the metadata of the "
    "file, key samples, tells of them: Run.switches has every row",
    "ports": "a row per egress port",
    "pauses": "a row per pause and resume; when [measure] pauses = true",
    "queues": "a row per sample and queue that is not empty; when [measure] queues = true",
    "active_flows": "distribution of the number of active flows at each port; when [measure] flows = true",
    "packets": "a row per packet and hop; when [measure] packets = true",
    "port_series": "a row per sample and port; when [measure] port_series = true",
    "flow_series": "a row per sample and unfinished flow; when [measure] flow_series = true",
    "records": "a row per change of what the scheme's file declares as records, seen by samples; when [measure] records = true",
    "prints": "a row per line that schemes print, the first 10,000, also in prints.txt; when a scheme's file calls print",
    "counts": "a row per node, port or flow and count of a scheme that is not 0; when the scheme's file declares counts",
    "queueing": "queueing time by switch, port and class of flow; when [measure] queueing = true",
    "operations": "a row per collective and message of ranks; when the workload has such",
    "timeline": "a row per rank and operation or computation; when the workload has such",
    "ranks": "a row per rank and iteration; when the workload has such",
    "requests": "a row per request to a served model; when a [[workload]] has kind inference",
    "open_loop": "a row per open-loop flow; when the workload has such",
    "llr": "a row per port of a link with link-level retry; when the topology has llr",
    "nodes": "a row per node, in the order of their numbers",
}

SUMMARY: dict[str, tuple[str, str]] = {
    "scheme": ("", "the scheme, with its parameters in scheme_parameters"),
    "scheme_parameters": ("", "every parameter of the scheme, defaults included"),
    "label": ("", "its name in folders and legends"),
    "spec": ("", "the whole experiment as TOML text; also in spec.toml"),
    "key": ("", "hash of spec_key and code: `penstock run` and `sweep` do not repeat a run of the same key"),
    "spec_key": ("", "hash of the spec and the contents of the files that it names"),
    "code": ("", "hashes of the simulator's code that can change this result, by folder or file; comments are no code"),
    "penstock": ("", "version that made the run"),
    "seed": ("", "seed of every random stream"),
    "threads": ("", "threads used; the results do not depend on them"),
    "duration_ns": ("ns", "time during which flows arrive"),
    "end_ns": ("ns", "simulated time at which the run ended"),
    "window": ("", "the measurement window as specified: arrivals, run, or its bounds"),
    "window_ns": ("ns", "start and end of the measurement window; a run without it was made before there was one"),
    "wall_s": ("s", "wall-clock time of the run"),
    "packet_hops": (
        "packets",
        "data packets, acknowledgements and control frames from host to host, such as credits, counted at each hop",
    ),
    "packet_hops_per_s": ("1/s", "packet_hops / wall_s"),
    "peak_memory_bytes": ("B", "largest resident memory of the process, until the results were written"),
    "flows_started": ("flows", "handed to a NIC"),
    "flows_finished": ("flows", "received in full"),
    "drops": ("packets", "packets lost anywhere, acknowledgements and control frames included"),
    "pfc_pause_fraction": (
        "",
        "time in the measurement window that switch-to-switch and host egresses were paused by PFC / all port time in it",
    ),
    "pauses": (
        "",
        "a row for each priority that is paused apart, else one with priority null, over the whole run: pauses of egresses, "
        "paused_ns of all of them together; of queues of flows the pauses only",
    ),
    "storms": ("times", "pauses that a watchdog ended, at any egress"),
    "retransmissions": ("packets", "data packets sent more than once"),
    "max_buffer_bytes": ("B", "largest buffer use of any switch in the measurement window"),
    "drain": ("", "from the end of the window to the end of the run: ns, pfc_pause_fraction, max_buffer_bytes"),
    "nominal": ("", "the sources of the workload, as specified"),
    "realised": ("", "loads offered by the generated flows"),
    "training": (
        "",
        "of a workload with ranks: step_ns, mean over the iterations, null if there are several jobs; jobs, of each its "
        "name (the class of its flows), step_ns, steps that ended, exposed_ns (mean over ranks and iterations of those of "
        "ranks.parquet), and of the collective that moves most bytes the median bus_bandwidth_bps; iterations, each with "
        "step_ns, slowest_rank and longest time in pauses of a rank; operations, by kind and name, with their bus "
        "bandwidth. waited_for of a job and an iteration: the chain of messages and computations that ended last: compute_ns; "
        "late_ns, what its messages took beyond their times alone; src and dst, the ranks whose messages have most of that: how "
        "many messages, pair_late_ns, of it pair_behind_ns behind earlier ones of their connection, and pair_paused_ns, how long "
        "their flows were paused at the sender; port, the busiest on their path, with utilization and max_queue_bytes of the run "
        "(null: several paths); paused_port, which was paused longest, with paused_port_ns",
    ),
    "in_network": (
        "",
        "of a workload of which switches reduce something: groups; depth, links from the farthest host to the root of its tree; "
        "accumulators, the most that a switch used at once for a group, of mtu bytes each",
    ),
    "open_loop": (
        "",
        "of a workload with open-loop flows: flows, and sent_bytes, received_bytes and lost_bytes of all of them, payload; what "
        "is still on its way is in the first only",
    ),
    "counts": ("", "what schemes count, by name, over all nodes, ports or flows and the whole run; counts.parquet has each"),
    "printed": ("lines", "lines that schemes have printed"),
    "meanings": ("", "what the files of the schemes say of what they count and record, by name"),
    "deadlock": (
        "",
        "egresses that pause one another in a circle at the end of an unfinished run, each paused by the next one: since_ns, "
        "when the last packet came to one of their queues; egresses, [node, port] each; names; priority, where priorities are "
        "paused apart; null: none was found",
    ),
    "interrupted": ("", "true: stopped before its end; the results up to then are valid"),
    "warnings": ("", "conditions that limit what the results mean, such as: the congestion control never acted"),
}
