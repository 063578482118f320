"""A run too large for the memory: its frames are made a part at a time while they are written to its directory."""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl
from polars.io.plugins import register_io_source

from penstock.inputs import as_path
from penstock.results import rundir
from penstock.results.columns import COLUMNS
from penstock.results.run import Run, empty_frame, version
from penstock.scratch import CHUNK

Parts = Callable[[], Iterator[pl.DataFrame]]


class StreamedRun(Run):
    """A Run of which `save` is all that one should want: a frame that is asked for is in memory as a whole.

    streams  frames by name, each as a function that gives its rows, part by part; the first part may have none
    frames   the others
    """

    def __init__(self, streams: Mapping[str, Parts], frames: Mapping[str, pl.DataFrame], summary: dict[str, Any]) -> None:
        self.streams, self.small = dict(streams), dict(frames)
        self.ports, self.summary, self.inputs = self.small.pop("ports"), summary, {}

    def _whole(self, name: str) -> pl.DataFrame:
        return pl.concat(self.streams[name]()) if name in self.streams else self.small.get(name, empty_frame(name))

    @cached_property
    def flows(self) -> pl.DataFrame:  # type: ignore[override]
        return self._whole("flows")

    @cached_property
    def switches(self) -> pl.DataFrame:  # type: ignore[override]
        return self._whole("switches")

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
        return f"<Run {self.label}: {self.summary.get('flows_started', 0):,} flows, {self.summary.get('drops', 0):,} drops>"

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """As Run.save; takes memory for a part of a frame at a time."""

        def write(folder: Path) -> None:
            nothing = empty_frame("flows"), empty_frame("switches")
            Run(*nothing, self.ports, extra=self.small, summary=self.summary, inputs=self.inputs).save(folder)
            for name, parts in self.streams.items():
                write_frame(folder / f"{name}.parquet", name, parts())

        return rundir.write_directory(as_path(path, "path", "a run directory"), write, overwrite=overwrite)


def write_frame(file: Path, name: str, parts: Iterator[pl.DataFrame]) -> None:
    """Write the parts of a frame of COLUMNS, at least one, to a Parquet file, in row groups of a fixed size."""
    about = {c.name: {"unit": c.unit, "description": c.text} for c in COLUMNS[name].values()}
    first = next(parts)

    def rows(with_columns: Any, predicate: Any, n_rows: Any, batch_size: Any) -> Iterator[pl.DataFrame]:
        return chain([first], parts)

    metadata = {"penstock": version(), "columns": json.dumps(about)}
    register_io_source(rows, schema=first.schema).sink_parquet(file, row_group_size=CHUNK, metadata=metadata)
