"""The results of one simulation: frames, a summary, and the directory they are kept in.

    run.flows                      polars DataFrame, a row per flow            run.summary["drops"]
    run.slowdown(99)               99th percentile of the slowdown by flow size
    run.save("runs/bfc"); Run.load("runs/bfc")

`penstock.results.columns` describes every column.
"""

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from penstock.errors import SpecError, nearest
from penstock.inputs import one_of, real
from penstock.results import rundir
from penstock.results.columns import COLUMNS, PER_FLOW, Column
from penstock.units import format_time

CLOCKS = ("receiver", "sender")  # where the completion of a flow is measured
NEVER = ("start_ns", "finish_ns", "fct_ns", "acked_ns")  # a negative time in these means "never"
MTU = 1000
GOOGLE_BINS = tuple(MTU * n for n in (1, 2, 4, 8, 16, 64, 256, 1024))
FACEBOOK_BINS = tuple(MTU * n for n in (3, 12, 48, 192, 768, 3072, 12288, 49152))
SHORT_BYTES, LONG_BYTES = 3_000, 3_000_000  # the papers' "short" is below, "long" above


@functools.cache
def version() -> str:
    """Version of the installed package."""
    from importlib import metadata

    try:
        return metadata.version("penstock")
    except metadata.PackageNotFoundError:
        return "0+source"


def dtype(column: Column) -> Any:
    """The polars type of a column."""
    return getattr(pl, column.dtype)


def make_frame(name: str, data: Mapping[str, Any], *, null_below_zero: Sequence[str] = ()) -> pl.DataFrame:
    """A frame with exactly the columns of COLUMNS[name]; a column x_ns may be given as x_ps (integers, ps).

    null_below_zero: columns in which a negative time means "never".  ValueError: a column is unknown or missing.
    """
    spec, series = COLUMNS[name], []
    unknown = [key for key in data if key not in spec and f"{key.removesuffix('_ps')}_ns" not in spec]
    if unknown:
        raise ValueError(f"{name}: no column {unknown[0]!r}")
    for column in spec.values():
        if column.key != column.name and column.key in data:
            ps = np.asarray(data[column.key])
            values = ps / 1000.0
            if column.name in null_below_zero:
                values[ps < 0] = np.nan
            series.append(pl.Series(column.name, values, dtype=pl.Float64, nan_to_null=column.name in null_below_zero))
        elif column.name in data:
            given = data[column.name]
            made = pl.Series(column.name, given if isinstance(given, (pl.Series, list)) else np.asarray(given))
            series.append(made if column.dtype == "Enum" else made.cast(dtype(column)))
        elif column.optional:
            rows = len(series[0]) if series else 0
            series.append(pl.Series(column.name, [None] * rows, dtype=dtype(column)))
        else:
            raise ValueError(f"{name}: the column {column.name!r} is missing")
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
    ideal_acked_ps: Any = None,
    flow_id: Any = None,
    **per_flow: Any,
) -> pl.DataFrame:
    """The flows frame of numpy columns in ps and bytes; start_ps, finish_ps and acked_ps of -1 mean "never".

    ideal_ps        completion time of each flow alone: until its last byte is at the receiver
    ideal_acked_ps  until its last acknowledgement is at the sender; None: no sender_slowdown
    per_flow        what the core counts by flow (columns.PER_FLOW), such as acked_ps; default: the initial value
    Memory: about 110 bytes per flow, and temporarily 16 more.
    """
    start, finish, ideal = (np.asarray(a, dtype=np.int64) for a in (start_ps, finish_ps, ideal_ps))
    count = len(start)
    counted = {c.key: np.asarray(per_flow.pop(c.key, np.full(count, c.per_flow))) for c in PER_FLOW if c.name != "finish_ns"}
    if per_flow:
        raise ValueError(f"flows: no column {next(iter(per_flow))!r}")
    fct = np.where(finish < 0, -1, finish - start)
    acked = counted["acked_ps"]
    alone = np.ones(count) if ideal_acked_ps is None else np.asarray(ideal_acked_ps)
    acked_after = np.full(count, -1) if ideal_acked_ps is None else np.where(acked < 0, -1, acked - start)
    names = pl.Series(list(classes), dtype=pl.Enum(list(classes)))
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
            "slowdown": _ratio(fct, ideal),
            "sender_slowdown": _ratio(acked_after, alone),
            **counted,
        },
        null_below_zero=NEVER,
    )


def _ratio(time_ps: np.ndarray, ideal_ps: np.ndarray) -> pl.Series:
    """time / ideal; null where the time is negative."""
    out = time_ps / ideal_ps
    out[time_ps < 0] = np.nan
    return pl.Series(out, nan_to_null=True)


_SUMMARY = {"scheme": str, "label": str, "warnings": list}  # types that readers of a run rely on


@dataclass
class Run:
    """Frames, summary and spec of one simulation; `extra` holds the frames that not every run has.

    inputs   the files that the spec names, by their name in the run directory: contents, or where they are
    `==` compares the results, that is, the frames; the summary holds wall times.
    """

    flows: pl.DataFrame
    switches: pl.DataFrame
    ports: pl.DataFrame
    pauses: pl.DataFrame | None = None
    queues: pl.DataFrame | None = None
    extra: dict[str, pl.DataFrame] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, bytes | Path] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Run):
            return NotImplemented
        return self.frames.keys() == other.frames.keys() and all(f.equals(other.frames[n]) for n, f in self.frames.items())

    __hash__ = None  # type: ignore[assignment]

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

        optional: frames by name (pauses, queues, active_flows, packets, nodes). Summary keys that follow from the frames
        are filled in.
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
        """A frame by name.  SpecError: the run does not have it; the message names the setting that records it."""
        if name in self.frames:
            return self.frames[name]
        switch = {"active_flows": "flows"}.get(name, name)
        how = f"run again with [measure] {switch} = true" if name in COLUMNS else nearest(name, self.frames)
        raise SpecError(f'run "{self.label}": has no {name}', remedy=how)

    # -- the measurement window

    @property
    def window(self) -> tuple[float, float] | None:
        """Start and end of the measurement window, ns; None: the run was saved by a version that had none."""
        bounds = self.summary.get("window_ns")
        return None if bounds is None else (float(bounds[0]), float(bounds[1]))

    @property
    def window_text(self) -> str:
        """The window for captions: "arrivals, 0us to 10ms", "the whole run, ..."."""
        if self.window is None:
            return "none (the run was made by an older version: statistics are of the whole run)"
        low, high = (format_time(Fraction(bound) * 1000) if bound else "0" for bound in self.window)
        kind = {"arrivals": "arrivals, ", "run": "the whole run, "}.get(str(self.summary.get("window")), "")
        return f"{kind}{low} to {high}"

    def within(self, frame: str | pl.DataFrame) -> pl.DataFrame:
        """The rows of a frame (or of a frame by name) whose `time_ns`, or `start_ns`, lies in the window.

        Flows that never started are kept.  Without a window: all rows.  SpecError: the run does not have the frame.
        """
        rows = self.frame(frame) if isinstance(frame, str) else frame
        if self.window is None:
            return rows
        time = pl.col("time_ns" if "time_ns" in rows.columns else "start_ns")
        low, high = self.window
        in_time = time.is_between(low, high) if self.summary.get("window") == "run" else (time >= low) & (time < high)
        return rows.filter(in_time | time.is_null())

    # -- slowdown

    def selected(self, class_: str | Sequence[str] | None = None) -> pl.DataFrame:
        """The flows that started in the window, of some classes: "incast", ["a", "b"], or all but one: "!incast".

        SpecError: no such class.
        """
        if class_ is None:
            return self.within(self.flows)
        wanted = [class_] if isinstance(class_, str) else list(class_)
        known = self.flows["class"].unique().cast(pl.String).to_list()
        if "!" in wanted:
            raise SpecError("must name a class after the !", path="class", value="!", remedy=nearest("", known))
        for name in wanted:
            if name.removeprefix("!") not in known and not name.startswith("!"):
                raise SpecError(f'run "{self.label}": no flows of class "{name}"', remedy=nearest(name, known))
        keep = [name for name in wanted if not name.startswith("!")] or known
        keep = [name for name in keep if f"!{name}" not in wanted]
        return self.within(self.flows).filter(pl.col("class").cast(pl.String).is_in(keep))

    def background(self) -> list[str] | None:
        """The classes that are not incast, for `class_`; None if there is no incast or nothing else.

        The papers show the slowdown of these flows and report that of the incast flows separately.
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
        clock: Literal["receiver", "sender"] = "receiver",
    ) -> pl.DataFrame:
        """FCT slowdown of the finished flows that started in the window, a row per size bin (or class, priority) that has any.

        percentile  0 to 100, linear interpolation; several give a column each (p50, p99) instead of `slowdown`
        bins        upper bounds in bytes, "google" or "facebook" (the BFC paper's), "log" (1, 3, 10 KB..); None: the
                    paper's for the paper's workloads, else "log"
        class_      as in `selected`
        clock       "receiver": a flow ends when its last byte has arrived; "sender": when its last acknowledgement has
        Columns: above_bytes (exclusive), to_bytes (null: no bound), bytes (median size), flows, unfinished, slowdown.
        """
        one_of(by, "by", ("size", "class", "priority"))
        values = self._statistics(percentile, statistic)
        flows = self.by_clock(self.selected(class_), clock)
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
                done.sum().cast(pl.Int64).alias("flows"),
                (~done).sum().cast(pl.Int64).alias("unfinished"),
                *values,
            )
            .sort(key)
        )
        if by == "size":
            table = table.with_columns(
                pl.col("bin").map_elements(lambda i: bounds[i - 1] if i else 0, return_dtype=pl.Int64).alias("above_bytes"),
                pl.col("bin")
                .map_elements(lambda i: bounds[i] if i < len(bounds) else None, return_dtype=pl.Int64, skip_nulls=False)
                .alias("to_bytes"),
            )
            table = table.select("above_bytes", "to_bytes", pl.exclude("above_bytes", "to_bytes", "bin"))
        return table

    def by_clock(self, flows: pl.DataFrame, clock: str) -> pl.DataFrame:
        """Flows of this run, with the slowdown that a clock measures ("receiver" or "sender") as `slowdown`."""
        one_of(clock, "clock", CLOCKS)
        if clock == "sender" and self.flows["acked_ns"].null_count() == self.flows.height > 0:
            raise SpecError(
                f'run "{self.label}": has no acked_ns, which clock = "sender" needs', remedy="run the simulation again"
            )
        return flows if clock == "receiver" else flows.with_columns(slowdown=pl.col("sender_slowdown"))

    @staticmethod
    def _statistics(percentile: float | Sequence[float], statistic: str) -> list[pl.Expr]:
        value = pl.col("slowdown")
        if one_of(statistic, "statistic", ("percentile", "mean", "max")) != "percentile":
            return [value.mean() if statistic == "mean" else value.max()]
        many = [percentile] if isinstance(percentile, (int, float)) else list(percentile)
        for p in many:
            real(p, "percentile", 0, 100)
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
                raise SpecError("no such bins", path="bins", value=bins, remedy=nearest(bins, [*named, "log"]))
            sizes = self.flows["bytes"]
            low, high = (int(sizes.min()), int(sizes.max())) if len(sizes) else (1, 1)  # type: ignore[arg-type]
            steps = [m * 10**e for e in range(13) for m in (1, 3)]
            return [s for s in steps if s >= low and s < high] or [high]
        bounds = [int(b) for b in bins]
        if bounds != sorted(set(bounds)) or not bounds:
            raise SpecError("must be increasing numbers of bytes", path="bins", value=bounds)
        return bounds

    def _usual_bins(self) -> str:
        sizes = {str(source.get("sizes")) for source in self.summary.get("nominal") or [] if source.get("sizes")}
        if len(sizes) == 1:
            name = sizes.pop()
            return "google" if name == "google" else "facebook" if name.startswith("facebook") else "log"
        return "log"

    # -- the directory

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the run directory atomically. SpecError: it exists already, or cannot be written.

        overwrite: replace an earlier run there; files that penstock did not write are kept.
        """

        def write(folder: Path) -> None:
            for name, frame in self.frames.items():
                about = {c.name: {"unit": c.unit, "description": c.text} for c in COLUMNS.get(name, {}).values()}
                frame.write_parquet(folder / f"{name}.parquet", metadata={"penstock": version(), "columns": json.dumps(about)})
            if self.summary.get("spec"):
                (folder / "spec.toml").write_text(str(self.summary["spec"]))
            rundir.write_inputs(folder, self.inputs)
            (folder / "summary.json").write_text(json.dumps(self.summary, indent=2, default=_plain) + "\n")

        return rundir.write_directory(Path(path), write, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path) -> "Run":
        """Read a run that `save` wrote; columns that the version which wrote it did not have are null.

        SpecError: `path` is no run, or a file is damaged.
        """
        folder = rundir.one_run(Path(path))
        frames: dict[str, Any] = {}
        here = folder / "summary.json"
        try:
            summary = _summary(json.loads(here.read_text()))
            for here in sorted(folder.glob("*.parquet")):
                frames[here.stem] = _with_all_columns(here.stem, pl.read_parquet(here))
        except (OSError, ValueError, RecursionError, pl.exceptions.PolarsError) as error:
            why = str(error).splitlines()[0]
            raise SpecError(f"cannot be read ({why})", remedy="run the simulation again", place=here) from error
        for name in ("flows", "switches", "ports"):
            if name not in frames:
                raise SpecError(f"{name}.parquet is missing", remedy="run the simulation again", place=folder)
        return cls(
            frames.pop("flows"),
            frames.pop("switches"),
            frames.pop("ports"),
            frames.pop("pauses", None),
            frames.pop("queues", None),
            frames,
            summary,
            rundir.inputs_of(folder),
        )


def _summary(content: Any) -> dict[str, Any]:
    """What summary.json holds.  ValueError: it is not the summary of a run."""
    if not isinstance(content, dict):
        raise ValueError("not an object")
    wrong = [key for key, kind in _SUMMARY.items() if not isinstance(content.get(key, kind()), kind)]
    bounds = content.get("window_ns")
    if bounds is not None:
        numbers = isinstance(bounds, list) and all(isinstance(bound, (int, float)) for bound in bounds)
        wrong += [] if numbers and len(bounds) == 2 else ["window_ns"]
    if wrong:
        raise ValueError(f"{wrong[0]} is not what a run has there")
    return content


def empty_frame(name: str) -> pl.DataFrame:
    """A frame of COLUMNS[name] without rows."""
    return pl.DataFrame(schema={c.name: pl.String if c.dtype == "Enum" else dtype(c) for c in COLUMNS[name].values()})


def _with_all_columns(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """A frame that was read, with missing columns added as null; columns that are not penstock's come last."""
    known = COLUMNS.get(name, {})
    missing = [pl.lit(None, dtype=dtype(c)).alias(c.name) for c in known.values() if c.name not in frame.columns]
    if not missing:
        return frame
    return frame.with_columns(missing).select(*known, *(c for c in frame.columns if c not in known))


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(value) if isinstance(value, (set, tuple, frozenset)) else str(value)
