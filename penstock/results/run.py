"""The results of one simulation: frames, a summary, and the directory they are kept in.

    run.flows                      polars DataFrame, a row per flow            run.summary["drops"]
    run.slowdown(99)               99th percentile of the slowdown by flow size
    run.save("runs/bfc"); Run.load("runs/bfc")

`COLUMNS` and `SUMMARY` say what everything means; docs/outputs.md and `penstock explain` are made from them.
"""

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl

from penstock.errors import SpecError, nearest
from penstock.results import rundir


class Column(NamedTuple):
    """Type, unit ("" for a plain number or text) and meaning of a column."""

    dtype: Any
    unit: str
    text: str


I64, I32, I16, I8, F64, TEXT, FLAG = pl.Int64, pl.Int32, pl.Int16, pl.Int8, pl.Float64, pl.String, pl.Boolean

COLUMNS: dict[str, dict[str, Column]] = {
    "flows": {
        "flow_id": Column(I64, "", "number of the flow, in the order of the workload (sorted by start)"),
        "src": Column(I32, "node", "host that sends"),
        "dst": Column(I32, "node", "host that receives"),
        "bytes": Column(I64, "B", "payload of the flow, without headers"),
        "class": Column(pl.Enum, "", "which part of the workload the flow belongs to, such as poisson or incast"),
        "priority": Column(I8, "", "0 is the highest of 8"),
        "start_ns": Column(F64, "ns", "when the flow is handed to the NIC; null: it never was"),
        "finish_ns": Column(F64, "ns", "when its last byte reached the receiver; null: unfinished"),
        "fct_ns": Column(F64, "ns", "flow completion time, finish_ns - start_ns"),
        "ideal_fct_ns": Column(
            F64,
            "ns",
            "exact completion time of this flow alone in the empty network, data headers "
            "included, headers that only this scheme needs not",
        ),
        "slowdown": Column(F64, "", "fct / ideal fct, from picoseconds; 1 for a flow that met no other"),
        "retransmitted_bytes": Column(I64, "B", "payload sent more than once"),
        "paused_ns": Column(F64, "ns", "time during which the sender had data of this flow and a pause held it"),
    },
    "switches": {
        "time_ns": Column(F64, "ns", "time of the sample"),
        "switch": Column(I32, "node", "the switch"),
        "buffer_bytes": Column(I64, "B", "shared buffer in use"),
        "max_queue_bytes": Column(I64, "B", "longest egress queue of the switch at this moment"),
        "active_flows": Column(I32, "flows", "flows with packets waiting at the egress port that has most of them"),
    },
    "ports": {
        "node": Column(I32, "node", "host or switch whose egress this is"),
        "port": Column(I32, "", "number of the port within the node"),
        "peer": Column(I32, "node", "node at the other end of the link"),
        "tx_bytes": Column(I64, "B", "bytes sent, headers, acknowledgements and control frames included"),
        "tx_packets": Column(I64, "packets", "packets sent, acknowledgements and control frames included"),
        "drops": Column(I64, "packets", "packets lost at this egress or on its link"),
        "drop_reason": Column(TEXT, "", "why, with counts, as in 'buffer full: 12, link loss: 3'; null: none"),
        "ecn_marks": Column(I64, "packets", "packets marked here"),
        "pauses_sent": Column(I64, "frames", "pause frames that this node sent out of this port, to hold its peer"),
        "pauses_received": Column(I64, "frames", "pause frames that came in on this port, to hold this egress"),
        "paused_ns": Column(F64, "ns", "time during which the whole egress was held by a pause (PFC)"),
        "max_queue_bytes": Column(
            I64, "B", "most that was stored for this port, in its queues or held back in virtual output queues"
        ),
        "utilization": Column(F64, "", "time spent sending / simulated time"),
        "ack_bytes": Column(I64, "B", "the acknowledgements in tx_bytes"),
        "control_bytes": Column(I64, "B", "the control frames in tx_bytes (pauses, credits), and those that wait to be sent"),
    },
    "pauses": {
        "time_ns": Column(F64, "ns", "when the pause or resume took effect"),
        "node": Column(I32, "node", "node whose egress is held"),
        "port": Column(I32, "", "the egress port"),
        "queue": Column(I32, "", "the queue; -1: the whole port"),
        "paused": Column(FLAG, "", "true: pause, false: resume"),
    },
    "queues": {
        "time_ns": Column(F64, "ns", "time of the sample"),
        "node": Column(I32, "node", "host or switch"),
        "port": Column(I32, "", "the egress port"),
        "queue": Column(I32, "", "number of the queue within the port"),
        "bytes": Column(I64, "B", "bytes waiting; queues that are empty have no row"),
        "paused": Column(FLAG, "", "whether a pause holds the queue"),
    },
    "active_flows": {
        "node": Column(I32, "node", "the switch"),
        "port": Column(I32, "", "the egress port"),
        "active_flows": Column(I32, "flows", "number of flows with packets waiting at this port"),
        "samples": Column(I64, "samples", "how many samples saw that number"),
    },
    "packets": {
        "time_ns": Column(F64, "ns", "when it happened"),
        "node": Column(I32, "node", "where"),
        "port": Column(I32, "", "the egress port"),
        "in_port": Column(I32, "", "the port on which it came in"),
        "queue": Column(I32, "", "the egress queue; -1: none"),
        "upstream_q": Column(I32, "", "before it was queued here: the queue it came from; after: the egress queue"),
        "event": Column(TEXT, "", "enqueue, dequeue, drop, hold (in a virtual output queue) or receive (a control frame)"),
        "kind": Column(I8, "", "0 data, 1 acknowledgement, 2 control frame"),
        "flow_id": Column(I64, "", "the flow, as in flows.parquet"),
        "offset_bytes": Column(I64, "B", "position of the packet's first payload byte in the flow"),
        "bytes": Column(I64, "B", "size on the wire"),
        "ecn": Column(FLAG, "", "whether it carries a congestion mark"),
        "queue_bytes": Column(I64, "B", "length of its queue, just after the event"),
        "port_bytes": Column(I64, "B", "data queued at the port, just after the event"),
    },
    "port_series": {
        "time_ns": Column(F64, "ns", "time of the sample"),
        "node": Column(I32, "node", "host or switch"),
        "port": Column(I32, "", "the egress port"),
        "queue_bytes": Column(I64, "B", "data waiting at the port"),
        "tx_bytes": Column(I64, "B", "sent so far, everything counted"),
        "ack_bytes": Column(I64, "B", "the acknowledgements among them"),
        "control_bytes": Column(I64, "B", "the control frames among them"),
        "active_queues": Column(I32, "", "queues with data that no pause holds"),
        "active_flows": Column(I32, "flows", "flows with packets waiting; -1: this scheme does not count them"),
    },
    "flow_series": {
        "time_ns": Column(F64, "ns", "time of the sample"),
        "flow_id": Column(I64, "", "an unfinished flow"),
        "acked_bytes": Column(I64, "B", "acknowledged so far"),
        "window_bytes": Column(I64, "B", "its window; -1: none"),
    },
    "queueing": {
        "node": Column(I32, "node", "the switch"),
        "port": Column(I32, "", "the egress port"),
        "class": Column(TEXT, "", "class of the flows, as in flows.parquet"),
        "packets": Column(I64, "packets", "data packets of the class sent by this port"),
        "queueing_ns": Column(F64, "ns", "sum of their times from arrival to the start of transmission"),
    },
    "nodes": {
        "node": Column(I32, "node", "number of the host or switch"),
        "name": Column(TEXT, "", "its name"),
        "tier": Column(I8, "", "0 host, 1 ToR, 2 aggregation or spine, 3 core"),
        "max_buffer_bytes": Column(I64, "B", "most of its buffer that the switch used; 0 for a host"),
        "max_voqs": Column(I32, "queues", "most virtual output queues of the switch that held packets at the same time"),
    },
}

FILES = {
    "flows": "a row per flow",
    "switches": "a row per sample and switch",
    "ports": "a row per egress port",
    "pauses": "a row per pause and resume; when [measure] pauses = true",
    "queues": "a row per sample and queue that is not empty; when [measure] queues = true",
    "active_flows": "how often each port had how many active flows; when [measure] flows = true",
    "packets": "a row per packet and hop; when [measure] packets = true",
    "port_series": "a row per sample and port; when [measure] port_series = true",
    "flow_series": "a row per sample and unfinished flow; when [measure] flow_series = true",
    "queueing": "queueing time by switch, port and class of flow; when [measure] queueing = true",
    "nodes": "a row per node, in the order of their numbers",
}

SUMMARY: dict[str, tuple[str, str]] = {
    "scheme": ("", "the scheme, with its parameters in scheme_parameters"),
    "scheme_parameters": ("", "every parameter of the scheme, defaults included"),
    "label": ("", "its name in folders and legends"),
    "spec": ("", "the whole experiment as TOML text; also in spec.toml"),
    "penstock": ("", "version that made the run"),
    "seed": ("", "of every random stream"),
    "threads": ("", "used; they do not change the results"),
    "duration_ns": ("ns", "during which flows arrive"),
    "end_ns": ("ns", "simulated time at which the run ended"),
    "wall_s": ("s", "real time that it took"),
    "packet_hops": ("packets", "packets handled, counted at each hop"),
    "packet_hops_per_s": ("1/s", "packet_hops / wall_s"),
    "peak_memory_bytes": ("B", "largest resident memory of the process"),
    "flows_started": ("flows", "handed to a NIC"),
    "flows_finished": ("flows", "received in full"),
    "drops": ("packets", "lost anywhere, acknowledgements and control frames included"),
    "pfc_pause_fraction": ("", "time that switch-to-switch and host egresses spent held by PFC / all port time"),
    "retransmissions": ("packets", "data packets sent more than once"),
    "max_buffer_bytes": ("B", "most of its buffer that any switch used"),
    "nominal": ("", "what the workload was asked for"),
    "realised": ("", "loads that the generated flows really offer"),
    "interrupted": ("", "true: stopped before its end; what is here is right as far as it goes"),
    "warnings": ("", "what to know before you trust the numbers, such as: the congestion control never acted"),
}

MTU = 1000
GOOGLE_BINS = tuple(MTU * n for n in (1, 2, 4, 8, 16, 64, 256, 1024))
FACEBOOK_BINS = tuple(MTU * n for n in (3, 12, 48, 192, 768, 3072, 12288, 49152))
SHORT_BYTES, LONG_BYTES = 3_000, 3_000_000  # the papers' "short" is below, "long" above


@functools.cache
def version() -> str:
    """Of the installed package."""
    from importlib import metadata

    try:
        return metadata.version("penstock")
    except metadata.PackageNotFoundError:
        return "0+source"


def make_frame(name: str, data: Mapping[str, Any], *, null_below_zero: Sequence[str] = ()) -> pl.DataFrame:
    """A frame with exactly the columns of COLUMNS[name]; a column x_ns may be given as x_ps (integers).

    null_below_zero: columns in which a negative time means "never".
    """
    spec, series = COLUMNS[name], []
    unknown = [key for key in data if key not in spec and f"{key.removesuffix('_ps')}_ns" not in spec]
    if unknown:
        raise ValueError(f"{name}: no column {unknown[0]!r}")
    for column, (dtype, _, _) in spec.items():
        if column.removesuffix("_ns") + "_ps" in data:
            ps = np.asarray(data[column.removesuffix("_ns") + "_ps"])
            values = ps / 1000.0
            if column in null_below_zero:
                values[ps < 0] = np.nan
            series.append(pl.Series(column, values, dtype=pl.Float64, nan_to_null=column in null_below_zero))
        elif column in data:
            given = data[column]
            made = pl.Series(column, given if isinstance(given, (pl.Series, list)) else np.asarray(given))
            series.append(made if dtype is pl.Enum else made.cast(dtype))
        else:
            raise ValueError(f"{name}: the column {column!r} is missing")
    return pl.DataFrame(series)


def flow_frame(
    *,
    start_ps: Any,
    finish_ps: Any,
    ideal_ps: Any,
    src: Any,
    dst: Any,
    bytes: Any,
    class_id: Any,
    classes: Sequence[str],
    priority: Any,
    retransmitted_bytes: Any = None,
    paused_ps: Any = None,
    flow_id: Any = None,
) -> pl.DataFrame:
    """The flows frame of numpy columns in ps and bytes; start_ps and finish_ps of -1 mean "never".

    Takes about 90 bytes per flow, and 16 more while it works.
    """
    start, finish, ideal = (np.asarray(a, dtype=np.int64) for a in (start_ps, finish_ps, ideal_ps))
    count = len(start)
    never = finish < 0
    fct = finish - start
    slowdown = fct / ideal
    slowdown[never] = np.nan
    fct[never] = -1
    names = pl.Series(list(classes), dtype=pl.Enum(list(classes)))
    zeros = np.zeros(count, dtype=np.int64)
    return make_frame(
        "flows",
        {
            "flow_id": np.arange(count) if flow_id is None else flow_id,
            "src": src,
            "dst": dst,
            "bytes": bytes,
            "class": names.gather(np.asarray(class_id).astype(np.uint32)),
            "priority": priority,
            "start_ps": start,
            "finish_ps": finish,
            "fct_ps": fct,
            "ideal_fct_ps": ideal,
            "slowdown": pl.Series(slowdown, nan_to_null=True),
            "retransmitted_bytes": zeros if retransmitted_bytes is None else retransmitted_bytes,
            "paused_ps": zeros if paused_ps is None else paused_ps,
        },
        null_below_zero=("start_ns", "finish_ns", "fct_ns"),
    )


@dataclass
class Run:
    """Frames, summary and spec of one simulation; `extra` holds the frames that not every run has."""

    flows: pl.DataFrame
    switches: pl.DataFrame
    ports: pl.DataFrame
    pauses: pl.DataFrame | None = None
    queues: pl.DataFrame | None = None
    extra: dict[str, pl.DataFrame] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_arrays(
        cls,
        flows: Mapping[str, Any],
        *,
        switches: Mapping[str, Any] | None = None,
        ports: Mapping[str, Any] | None = None,
        summary: Mapping[str, Any] | None = None,
        **optional: Mapping[str, Any],
    ) -> "Run":
        """A run from numpy columns: `flows` as `flow_frame` takes them, the others as `make_frame` does.

        optional: frames by name (pauses, queues, active_flows, packets, nodes). Fills in what the summary can be told
        from the frames.
        """

        def frame(name: str, data: Mapping[str, Any] | None) -> pl.DataFrame:
            return empty_frame(name) if data is None else make_frame(name, data)

        frames = {name: frame(name, data) for name, data in optional.items() if data is not None}
        run = cls(
            flow_frame(**flows),
            frame("switches", switches),
            frame("ports", ports),
            frames.pop("pauses", None),
            frames.pop("queues", None),
            frames,
            dict(summary or {}),
        )
        run._complete()
        return run

    def _complete(self) -> None:
        out = self.summary
        out.setdefault("penstock", version())
        out.setdefault("flows_started", self.flows.height - self.flows["start_ns"].null_count())
        out.setdefault("flows_finished", self.flows.height - self.flows["finish_ns"].null_count())
        out.setdefault("drops", int(self.ports["drops"].sum()))
        if self.switches.height:
            out.setdefault("max_buffer_bytes", int(self.switches["buffer_bytes"].max()))  # type: ignore[arg-type]
        if out.get("wall_s") and "packet_hops" in out:
            out.setdefault("packet_hops_per_s", out["packet_hops"] / out["wall_s"])
        out.setdefault("warnings", [])

    def __repr__(self) -> str:
        return f"<Run {self.label}: {self.flows.height:,} flows, {self.summary.get('drops', 0):,} drops>"

    @property
    def label(self) -> str:
        """Name in folders and legends."""
        return str(self.summary.get("label") or self.summary.get("scheme") or "run")

    @property
    def scheme(self) -> str:
        """Name of the scheme."""
        return str(self.summary.get("scheme") or self.label)

    @property
    def frames(self) -> dict[str, pl.DataFrame]:
        """All frames by name."""
        named = {
            "flows": self.flows,
            "switches": self.switches,
            "ports": self.ports,
            "pauses": self.pauses,
            "queues": self.queues,
            **self.extra,
        }
        return {name: frame for name, frame in named.items() if frame is not None}

    def frame(self, name: str) -> pl.DataFrame:
        """A frame by name; SpecError says how to get one that this run does not have."""
        if name in self.frames:
            return self.frames[name]
        switch = {"active_flows": "flows"}.get(name, name)
        how = f"; run again with [measure] {switch} = true" if name in COLUMNS else nearest(name, self.frames)
        raise SpecError(f'run "{self.label}": has no {name}{how}')

    # -- slowdown

    def selected(self, class_: str | Sequence[str] | None = None) -> pl.DataFrame:
        """The flows of some classes: "incast", ["a", "b"], or all but one: "!incast"."""
        if class_ is None:
            return self.flows
        wanted = [class_] if isinstance(class_, str) else list(class_)
        known = self.flows["class"].unique().cast(pl.String).to_list()
        for name in wanted:
            if name.removeprefix("!") not in known and not name.startswith("!"):
                raise SpecError(f'run "{self.label}": no flows of class "{name}"{nearest(name, known)}')
        keep = [name for name in wanted if not name.startswith("!")] or known
        keep = [name for name in keep if f"!{name}" not in wanted]
        return self.flows.filter(pl.col("class").cast(pl.String).is_in(keep))

    def background(self) -> list[str] | None:
        """The classes that are not incast, for `class_`; None if there is no incast or nothing else.

        The papers show the slowdown of these flows and give that of the incast flows apart.
        """
        known = sorted(self.flows["class"].unique().cast(pl.String).to_list())
        other = [name for name in known if not name.startswith("incast")]
        return other if other and other != known else None

    def slowdown(
        self,
        percentile: float | Sequence[float] = 99,
        by: Literal["size", "class", "priority"] = "size",
        bins: str | Sequence[int] | None = None,
        class_: str | Sequence[str] | None = None,
        statistic: Literal["percentile", "mean", "max"] = "percentile",
    ) -> pl.DataFrame:
        """FCT slowdown of the finished flows, a row per size bin (or class, or priority) that has flows.

        percentile  0 to 100, linear interpolation; several give a column each (p50, p99) instead of `slowdown`
        bins        upper bounds in bytes, "google" or "facebook" (the BFC paper's), "log" (1, 3, 10 KB..); None: the
                    paper's for the paper's workloads, else "log"
        class_      as in `selected`
        Columns: above_bytes (exclusive), to_bytes (null: no bound), bytes (median size), flows, unfinished, slowdown.
        """
        if by not in ("size", "class", "priority"):
            raise SpecError(f'by = "{by}": must be one of size, class, priority')
        values = self._statistics(percentile, statistic)
        flows = self.selected(class_)
        bounds = self._bounds(bins) if by == "size" else []
        if by == "size":
            index = np.searchsorted(np.asarray(bounds, dtype=np.int64), flows["bytes"].to_numpy(), side="left")
            flows = flows.with_columns(pl.Series("bin", index.astype(np.int32)))
        key = "bin" if by == "size" else by
        done = pl.col("slowdown").is_not_null()
        table = (
            flows.group_by(key)
            .agg(
                pl.col("bytes").filter(done).median().alias("bytes"),
                done.sum().cast(I64).alias("flows"),
                (~done).sum().cast(I64).alias("unfinished"),
                *values,
            )
            .sort(key)
        )
        if by == "size":
            table = table.with_columns(
                pl.col("bin").map_elements(lambda i: bounds[i - 1] if i else 0, return_dtype=I64).alias("above_bytes"),
                pl.col("bin")
                .map_elements(lambda i: bounds[i] if i < len(bounds) else None, return_dtype=I64, skip_nulls=False)
                .alias("to_bytes"),
            )
            table = table.select("above_bytes", "to_bytes", pl.exclude("above_bytes", "to_bytes", "bin"))
        return table

    @staticmethod
    def _statistics(percentile: float | Sequence[float], statistic: str) -> list[pl.Expr]:
        value = pl.col("slowdown")
        if statistic in ("mean", "max"):
            return [value.mean() if statistic == "mean" else value.max()]
        if statistic != "percentile":
            raise SpecError(f'statistic = "{statistic}": must be one of percentile, mean, max')
        many = [percentile] if isinstance(percentile, (int, float)) else list(percentile)
        for p in many:
            if not 0 <= p <= 100:
                raise SpecError(f"percentile = {p}: must be between 0 and 100")
        if isinstance(percentile, (int, float)):
            return [value.quantile(percentile / 100, "linear")]
        return [value.quantile(p / 100, "linear").alias(f"p{p:g}") for p in many]

    def _bounds(self, bins: str | Sequence[int] | None) -> list[int]:
        named = {"google": GOOGLE_BINS, "facebook": FACEBOOK_BINS}
        if bins is None:
            bins = self._usual_bins()
        if isinstance(bins, str):
            if bins in named:
                return list(named[bins])
            if bins != "log":
                raise SpecError(f'bins = "{bins}": no such bins{nearest(bins, [*named, "log"])}')
            sizes = self.flows["bytes"]
            low, high = (int(sizes.min()), int(sizes.max())) if len(sizes) else (1, 1)  # type: ignore[arg-type]
            steps = [m * 10**e for e in range(13) for m in (1, 3)]
            return [s for s in steps if s >= low and s < high] or [high]
        bounds = [int(b) for b in bins]
        if bounds != sorted(set(bounds)) or not bounds:
            raise SpecError(f"bins = {bounds}: must be increasing numbers of bytes")
        return bounds

    def _usual_bins(self) -> str:
        sizes = {str(source.get("sizes")) for source in self.summary.get("nominal") or [] if source.get("sizes")}
        if len(sizes) == 1:
            name = sizes.pop()
            return "google" if name == "google" else "facebook" if name.startswith("facebook") else "log"
        return "log"

    # -- the directory

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the run directory, whole or not at all. SpecError: it exists already, or cannot be written.

        overwrite: replace an earlier run there; files that penstock did not make stay.
        """

        def write(folder: Path) -> None:
            for name, frame in self.frames.items():
                about = {column: {"unit": c.unit, "description": c.text} for column, c in COLUMNS.get(name, {}).items()}
                frame.write_parquet(folder / f"{name}.parquet", metadata={"penstock": version(), "columns": json.dumps(about)})
            if self.summary.get("spec"):
                (folder / "spec.toml").write_text(str(self.summary["spec"]))
            (folder / "summary.json").write_text(json.dumps(self.summary, indent=2, default=_plain) + "\n")

        return rundir.write_directory(Path(path), write, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path) -> "Run":
        """The run that `save` wrote. SpecError: there is none, or a file is damaged."""
        folder = rundir.one_run(Path(path))
        frames: dict[str, Any] = {}
        here = folder / "summary.json"
        try:
            summary = json.loads(here.read_text())
            if not isinstance(summary, dict):
                raise ValueError("not an object")
            for here in sorted(folder.glob("*.parquet")):
                frames[here.stem] = pl.read_parquet(here)
        except (OSError, ValueError, pl.exceptions.PolarsError) as error:
            why = str(error).splitlines()[0]
            raise SpecError(f"{here}: cannot be read ({why}); run the simulation again") from error
        for name in ("flows", "switches", "ports"):
            if name not in frames:
                raise SpecError(f"{folder}: {name}.parquet is missing; run the simulation again")
        return cls(
            frames.pop("flows"),
            frames.pop("switches"),
            frames.pop("ports"),
            frames.pop("pauses", None),
            frames.pop("queues", None),
            frames,
            summary,
        )


def empty_frame(name: str) -> pl.DataFrame:
    """A frame of COLUMNS[name] without rows."""
    return pl.DataFrame(schema={c: TEXT if col.dtype is pl.Enum else col.dtype for c, col in COLUMNS[name].items()})


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(value) if isinstance(value, (set, tuple, frozenset)) else str(value)
