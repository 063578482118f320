"""The results of one simulation: frames, a summary, and the directory they are kept in.

    run.flows                      polars DataFrame, a row per flow            run.summary["drops"]
    run.slowdown(99)               99th percentile of the slowdown by flow size
    run.save("runs/bfc"); Run.load("runs/bfc")

`penstock_net.results.columns` describes every column.
"""

import json
import os
import resource
import sys
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import polars as pl

from penstock_net.errors import SpecError, nearest
from penstock_net.inputs import as_path, one_of, real
from penstock_net.notebook import block
from penstock_net.results import digests, rundir
from penstock_net.results.columns import FILES
from penstock_net.results.frames import about_samples, empty_frame, flow_frame, make_frame, write_frames
from penstock_net.results.reading import read
from penstock_net.results.samples import Samples
from penstock_net.units import format_size, format_time
from penstock_net.version import version

if TYPE_CHECKING:
    from penstock_net.results.pause_tree import PauseTree

CLOCKS = ("receiver", "sender")  # where the completion of a flow is measured
MTU = 1000
GOOGLE_BINS = tuple(MTU * n for n in (1, 2, 4, 8, 16, 64, 256, 1024))
FACEBOOK_BINS = tuple(MTU * n for n in (3, 12, 48, 192, 768, 3072, 12288, 49152))
COUNTED = ("flows_started", "flows_finished", "drops", "retransmissions", "packet_hops")  # in the summary, as a notebook shows it
SHORT_BYTES, LONG_BYTES = 3_000, 3_000_000  # the papers' "short" is below, "long" above


def peak_memory() -> int:
    """The largest resident memory of this process so far, bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


class Frames(Mapping[str, pl.DataFrame]):
    """Frames by name; that of the switches is made when it is asked for."""

    def __init__(self, frames: Mapping[str, pl.DataFrame | Samples]) -> None:
        self._frames = frames

    def __repr__(self) -> str:
        return f"<Frames: {', '.join(self)}>"

    def __getitem__(self, name: str) -> pl.DataFrame:
        found = self._frames[name]
        return found.whole if isinstance(found, Samples) else found

    def __contains__(self, name: object) -> bool:
        return name in self._frames

    def __iter__(self) -> Iterator[str]:
        return iter(self._frames)

    def __len__(self) -> int:
        return len(self._frames)


class _Switches:
    """Run.switches: all rows of Run.samples."""

    def __get__(self, run: "Run | None", owner: type) -> Any:
        return self if run is None else run.samples.whole

    def __set__(self, run: "Run", frame: pl.DataFrame) -> None:
        run.samples = Samples(frame)


@dataclass
class Run:
    """Frames, summary and spec of one simulation; `extra` holds the frames that not every run has.

    switches   a row for every sample of every switch, made when it is first asked for
    samples    the same, without rows for switches that were idle
    inputs     the files that the spec names, by their name in the run directory: contents, or where they are
    simulated  the number of the process that has simulated it; 0: it was read, or made by hand
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
    simulated: int = field(default=0, repr=False)
    samples: Samples = field(init=False, repr=False)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Run):
            return NotImplemented
        return self.frames.keys() == other.frames.keys() and all(f.equals(other.frames[n]) for n, f in self.frames.items())

    __hash__ = None  # type: ignore[assignment]

    def fingerprint(self) -> str:
        """32 hex digits of the results: names, types and values of all frames; no times of the computer, paths or versions.

        Equal for equal runs, in memory or saved: a test that pins it fails when any result changes.
        """
        return fingerprint(self.frames)

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
        if self.samples.height:
            out.setdefault("max_buffer_bytes", int(self.samples.rows["buffer_bytes"].max() or 0))  # type: ignore[arg-type]
        if out.get("wall_s") and "packet_hops" in out:
            out.setdefault("packet_hops_per_s", out["packet_hops"] / out["wall_s"])
        out.setdefault("warnings", [])

    def changed(self, **parts: Any) -> Self:
        """A copy with other attributes."""
        other = copy(self)
        for name, value in parts.items():
            setattr(other, name, value)
        return other

    def __repr__(self) -> str:
        return f"<Run {self.label}: {self.flows.height:,} flows, {self.summary.get('drops', 0):,} drops{self._note()}>"

    def _note(self) -> str:
        """What a line about the run ends with."""
        return f"; {self.interruption}" if self.interruption else ""

    def _repr_html_(self) -> str:
        said = self.summary
        rows = [(name.replace("_", " "), f"{said[name]:,}") for name in COUNTED if said.get(name) is not None]
        if said.get("max_buffer_bytes"):
            rows.append(("largest buffer", format_size(float(f"{said['max_buffer_bytes']:.4g}"))))
        if said.get("end_ns"):
            rows.append(("simulated time", format_time(float(f"{said['end_ns']:.4g}") * 1000)))
        notes = [f"statistics of {self.window_text}", *(f"warning: {warning}" for warning in said.get("warnings") or [])]
        return block(f"Run {self.label}", rows, notes)

    @property
    def interruption(self) -> str:
        """When the run was ended early: "interrupted at 2.2ms of 6ms"; "" if it was not."""
        if not self.summary.get("interrupted"):
            return ""
        end, arrivals = (float(self.summary.get(key) or 0) for key in ("end_ns", "duration_ns"))
        at = format_time(float(f"{end:.3g}") * 1000)
        when = f" of {format_time(float(f'{arrivals:.3g}') * 1000)}" if end < arrivals else ", in the drain"
        return f"interrupted at {at}{when}"

    @property
    def label(self) -> str:
        """Name in folders and legends."""
        return str(self.summary.get("label") or self.summary.get("scheme") or "run")

    @property
    def scheme(self) -> str:
        """Name of the scheme."""
        return str(self.summary.get("scheme") or self.label)

    @property
    def frames(self) -> Mapping[str, pl.DataFrame]:
        """All frames by name."""
        named = {
            "flows": self.flows,
            "switches": self.samples,
            "ports": self.ports,
            "pauses": self.pauses,
            "queues": self.queues,
            **self.extra,
        }
        return Frames({name: frame for name, frame in named.items() if frame is not None})

    @property
    def requests(self) -> pl.DataFrame:
        """A row per request of kind = "inference".  SpecError: there are none."""
        return self.frame("requests")

    @property
    def counts(self) -> dict[str, int]:
        """What schemes have counted, by name, such as "bolt.moved"; counts.parquet has it by node, port and flow."""
        return dict(self.summary.get("counts") or {})

    @property
    def printed(self) -> str:
        """What schemes have printed, a line each: time, node, scheme and line of its file, text; "" if nothing."""
        if "prints" not in self.frames:
            return ""
        from penstock_net.results import prints

        names = self.extra["nodes"]["name"].to_list() if "nodes" in self.extra else None
        return prints.lines(self.frames["prints"], names)

    def frame(self, name: str) -> pl.DataFrame:
        """A frame by name.  SpecError: the run does not have it; the message names the setting that records it."""
        if name in self.frames:
            return self.frames[name]
        when = FILES.get(name, "").partition("; when ")[2]
        how = f"run again with {when}" if when.startswith("[measure]") else f"a run has it when {when}"
        how = how if when else nearest(name, self.frames)
        raise SpecError(f'run "{self.label}": has no {name}', remedy=how)

    # -- ports and pauses

    def pause_tree(self, port: str | None = None, time: str | None = None) -> "PauseTree":
        """Why a port was paused: the ports whose pauses caused it, those that caused these, down to where the congestion is.

        port  "tor0:3", or "host0:0" for the only port of a host; None: the port that was paused longest
        time  "0.2ms..1ms": its pauses in a part of the time; None: in the whole run
        A notebook shows a table; `print` and `.table` have it as text and as a frame; `ps.plot.pause_tree(run)` draws it.
        SpecError: no such port, or the run did not record its pauses.
        """
        from penstock_net.results.pause_tree import PauseTree

        return PauseTree.of(self, port, time)

    def pause_causes(self) -> pl.DataFrame:
        """A row per pause of a port or queue, with the pause that caused it: a tree below each pause that nothing caused.

        pause             its number; pauses are numbered as they begin
        cause             the pause that caused it, of several the one that began first; null: the congestion began here
        root, depth       the pause at the top of its tree, and how many causes are between: 0 for that one itself
        causes, caused    how many pauses caused it; how many are below it in its tree
        node, port, queue, link   the egress that was paused; queue -1: all of it
        start_ns, end_ns  end_ns is null if it did not end
        SpecError: the run did not record its pauses.
        """
        from penstock_net.results.pause_tree import pause_causes

        return pause_causes(self)

    def port_life(self, port: str | None = None, time: str | None = None) -> pl.DataFrame:
        """A port's queue, rate, utilization and pauses over time, a row per sample; `ps.plot.port_life(run)` draws it.

        port         "tor0:3"; None: the switch port with the longest queue, of those ever paused
        time         "0.2ms..1ms", a part of the time; None: the whole run
        time_ns      of the sample; queue_bytes are as of then, the others the mean since the sample before
        rate_bps     sent on the wire, headers, acknowledgements and control frames included
        utilization  rate_bps / rate of the link at the end of the run; a packet may make it a bit more than 1
        paused       share of the time in which the port, or a queue of it, was paused; null: the run has no pauses
        SpecError: no such port, or the run has no port_series.
        """
        from penstock_net.results.port_life import port_life

        return port_life(self, port, time)

    # -- the measurement window

    @property
    def window(self) -> tuple[float, float] | None:
        """Start and end of the measurement window, ns; None: the run was saved by a version that had none."""
        bounds = self.summary.get("window_ns")
        return None if bounds is None else (float(bounds[0]), float(bounds[1]))

    @property
    def window_text(self) -> str:
        """The window for captions: "arrivals, 0us to 10ms", "the whole run, ..."; and that the run was interrupted."""
        if self.window is None:
            return "none (the run was made by an older version: statistics are of the whole run)"
        low, high = (format_time(Fraction(bound) * 1000) if bound else "0" for bound in self.window)
        kind = {"arrivals": "arrivals, ", "run": "the whole run, "}.get(str(self.summary.get("window")), "")
        return f"{kind}{low} to {high}{self._note()}"

    def within(self, frame: str | pl.DataFrame) -> pl.DataFrame:
        """The rows of a frame (or of a frame by name) whose `time_ns`, or `start_ns`, lies in the window.

        Flows that never started are kept.  Without a window: all rows.  SpecError: the run does not have the frame.
        For the samples of switches, `window_samples` is the same without a row for each idle switch.
        """
        rows = self.frame(frame) if isinstance(frame, str) else frame
        if self.window is None:
            return rows
        time = rows["time_ns" if "time_ns" in rows.columns else "start_ns"]
        low, high = self.window
        before_end = time <= high if self.summary.get("window") == "run" else time < high
        in_time = (time >= low) & before_end
        return rows if in_time.all() else rows.filter(in_time | time.is_null())

    @property
    def window_samples(self) -> Samples:
        """The samples of switches in the window.  Without a window: all."""
        if self.window is None:
            return self.samples
        return self.samples.between(*self.window, with_last=self.summary.get("window") == "run")

    # -- slowdown

    def selected(self, class_: str | Sequence[str] | None = None) -> pl.DataFrame:
        """The flows that started in the window, of some classes: "incast", ["a", "b"], or all but one: "!incast".

        SpecError: no such class.
        """
        if class_ is None:
            return self.within(self.flows)
        wanted = [class_] if isinstance(class_, str) else list(class_)
        known = self.classes
        if "!" in wanted:
            raise SpecError("must name a class after the !", path="class", value="!", remedy=nearest("", known))
        for name in wanted:
            if name.removeprefix("!") not in known and not name.startswith("!"):
                raise SpecError(f'run "{self.label}": no flows of class "{name}"', remedy=nearest(name, known))
        keep = [name for name in wanted if not name.startswith("!")] or known
        keep = [name for name in keep if f"!{name}" not in wanted]
        return self.within(self.flows).filter(pl.col("class").cast(pl.String).is_in(keep))

    @property
    def classes(self) -> list[str]:
        """The classes that flows have, sorted."""
        return sorted(self.flows["class"].value_counts()["class"].cast(pl.String).to_list())

    def background(self) -> list[str] | None:
        """The classes that are not incast, for `class_`; None if there is no incast or nothing else.

        The papers show the slowdown of these flows and report that of the incast flows separately.
        """
        known = self.classes
        other = [name for name in known if not name.startswith("incast")]
        return other if other and other != known else None

    def slowdown(
        self,
        percentile: float | Sequence[float] = 99,
        by: Literal["size", "class", "priority"] = "size",
        bins: str | int | Sequence[int] | None = None,
        class_: str | Sequence[str] | None = None,
        statistic: Literal["percentile", "mean", "max"] = "percentile",
        clock: Literal["receiver", "sender"] = "receiver",
    ) -> pl.DataFrame:
        """FCT slowdown of the finished flows that started in the window, a row per size bin (or class, priority) that has any.

        percentile  0 to 100, linear interpolation; several give a column each (p50, p99) instead of `slowdown`
        bins        upper bounds in bytes, "google" or "facebook" (the BFC paper's), "log" (1, 3, 10 KB..); a number: so
                    many, with equal shares of the finished flows; None: the paper's for the paper's workloads, else "log"
        class_      as in `selected`
        clock       "receiver": a flow ends when its last byte has arrived; "sender": when its last acknowledgement has
        Columns: above_bytes (exclusive), to_bytes (null: no bound), bytes (median size), flows, unfinished, slowdown.
        """
        one_of(by, "by", ("size", "class", "priority"))
        values = self._statistics(percentile, statistic)
        flows = self.by_clock(self.selected(class_), clock)
        bounds = self._bounds(bins, flows) if by == "size" else []
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
            checked_percentile(p)
        if isinstance(percentile, (int, float)):
            return [value.quantile(percentile / 100, "linear")]
        return [value.quantile(p / 100, "linear").alias(f"p{p:g}") for p in many]

    def _bounds(self, bins: str | int | Sequence[int] | None, flows: pl.DataFrame) -> list[int]:
        named = {"google": GOOGLE_BINS, "facebook": FACEBOOK_BINS}
        if bins is None:
            bins = self._usual_bins()
        if isinstance(bins, int):
            from penstock_net.results.bins import equal_shares

            return equal_shares(flows.drop_nulls("slowdown")["bytes"].to_numpy(), bins)
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

        return rundir.write_directory(as_path(path, "path", "a run directory"), self._write, overwrite=overwrite)

    def _write(self, folder: Path) -> None:
        self._write_frames(folder)
        if self.summary.get("spec"):
            (folder / "spec.toml").write_text(str(self.summary["spec"]))
        if self.printed:
            (folder / "prints.txt").write_text(self.printed)
        rundir.write_inputs(folder, self.inputs)
        if self.simulated == os.getpid():
            self.summary["peak_memory_bytes"] = peak_memory()
        (folder / "summary.json").write_text(json.dumps(self.summary, indent=2, default=_plain) + "\n")
        digests.write(folder)

    def _write_frames(self, folder: Path) -> None:
        frames = self.frames
        write_frames(folder, {name: frames[name] for name in frames if name != "switches"})
        self.samples.rows.write_parquet(folder / "switches.parquet", metadata=about_samples(self.samples.grid))

    @classmethod
    def load(cls, path: str | Path) -> "Run":
        """Read a run that `save` wrote; columns that the version which wrote it did not have are null.

        SpecError: `path` is no run, or a file is not what was written.
        """
        frames, samples, summary, inputs = read(rundir.one_run(Path(path)))
        run = cls(
            frames.pop("flows"),
            samples.rows,
            frames.pop("ports"),
            frames.pop("pauses", None),
            frames.pop("queues", None),
            frames,
            summary,
            inputs,
        )
        return run.changed(samples=samples)


Run.switches = _Switches()  # type: ignore[assignment]


def checked_percentile(value: Any, path: str = "percentile") -> float:
    """A percentile, 0 to 100.  SpecError: it is none, or a share, such as 0.99."""
    number = real(value, path, 0, 100)
    if 0 < number < 1:
        raise SpecError("is a share, and percentiles are 0 to 100", path=path, value=value, remedy=f"write {100 * number:g}")
    return number


def fingerprint(frames: Mapping[str, pl.DataFrame]) -> str:
    """32 hex digits of frames: names, types and values."""
    digest = sha256()
    for name, frame in sorted(frames.items()):
        digest.update(f"{name} {frame.height}\n".encode())
        for column in frame:
            digest.update(f"{column.name} {column.dtype.base_type()}\n".encode())
            digest.update(column.is_null().to_numpy().tobytes())
            numbers = column.dtype.is_numeric()
            values = column.fill_null(0).to_numpy().tobytes() if numbers else json.dumps(column.to_list()).encode()
            digest.update(values)
    return digest.hexdigest()[:32]


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(value) if isinstance(value, (set, tuple, frozenset)) else str(value)
