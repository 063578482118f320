"""A run too large for the memory: its frames are made a part at a time while they are written to its directory."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl
from polars.io.plugins import register_io_source

from penstock_net.results.frames import about_columns, about_samples, empty_frame, write_frames
from penstock_net.results.run import Run
from penstock_net.results.samples import Grid, Samples
from penstock_net.scratch import CHUNK

Parts = Callable[[], Iterator[pl.DataFrame]]


class StreamedRun(Run):
    """A Run of which `save` is all that one should want: a frame that is asked for is in memory as a whole.

    streams  frames by name, each as a function that gives its rows, part by part; the first part may have none
    frames   the others
    grid     what tells of the samples of switches that are not in their stream
    """

    def __init__(
        self, streams: Mapping[str, Parts], frames: Mapping[str, pl.DataFrame], summary: dict[str, Any], grid: Grid | None
    ) -> None:
        self.streams, self.small, self.grid = dict(streams), dict(frames), grid
        self.ports, self.summary, self.inputs = self.small.pop("ports"), summary, {}

    def _whole(self, name: str) -> pl.DataFrame:
        return pl.concat(self.streams[name]()) if name in self.streams else self.small.get(name, empty_frame(name))

    @cached_property
    def flows(self) -> pl.DataFrame:  # type: ignore[override]
        return self._whole("flows")

    @cached_property
    def samples(self) -> Samples:  # type: ignore[override]
        return Samples(self._whole("switches"), self.grid)

    @cached_property
    def pauses(self) -> pl.DataFrame | None:  # type: ignore[override]
        return self._whole("pauses") if "pauses" in self.streams else None

    @cached_property
    def queues(self) -> pl.DataFrame | None:  # type: ignore[override]
        return self._whole("queues") if "queues" in self.streams else None

    @cached_property
    def extra(self) -> dict[str, pl.DataFrame]:  # type: ignore[override]
        own = ("flows", "switches", "pauses", "queues")
        return self.small | {name: self._whole(name) for name in self.streams if name not in own}

    def __repr__(self) -> str:
        flows, drops = self.summary.get("flows_started", 0), self.summary.get("drops", 0)
        return f"<Run {self.label}: {flows:,} flows, {drops:,} drops{self._note()}>"

    def _write_frames(self, folder: Path) -> None:
        """Takes memory for a part of a frame at a time."""
        write_frames(folder, {"ports": self.ports, **self.small})
        for name, parts in self.streams.items():
            about = about_samples(self.grid) if name == "switches" else about_columns(name)
            write_frame(folder / f"{name}.parquet", parts(), about)


def write_frame(file: Path, parts: Iterator[pl.DataFrame], about: dict[str, str]) -> None:
    """Write the parts of a frame, at least one, to a Parquet file, in row groups of a fixed size; about: its metadata."""
    first = next(parts)

    def rows(with_columns: Any, predicate: Any, n_rows: Any, batch_size: Any) -> Iterator[pl.DataFrame]:
        return chain([first], parts)

    register_io_source(rows, schema=first.schema).sink_parquet(file, row_group_size=CHUNK, metadata=about)
