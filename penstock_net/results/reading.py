"""What is in a run directory, checked while it is read: digests, the types of the summary and of the columns."""

import json
import math
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from penstock_net.errors import SpecError
from penstock_net.results import digests, rundir
from penstock_net.results.columns import COLUMNS, Column
from penstock_net.results.samples import KEY, Grid, Samples

AGAIN = "run the simulation again"
AS_IT_IS = f"{AGAIN}; without {digests.FILE} the folder is read as it is"
LARGEST = 2**63 - 1
FIRST = {  # columns of the first version, which have a value in every row
    "flows": ("flow_id", "src", "dst", "bytes", "class", "priority"),
    "switches": ("time_ns", "switch", "buffer_bytes"),
    "ports": ("node", "port", "peer", "tx_bytes", "tx_packets", "drops"),
    "pauses": ("time_ns", "node", "port", "queue", "paused"),
}


class Content(NamedTuple):
    """The content of a run directory; the samples of switches are not among the frames."""

    frames: dict[str, pl.DataFrame]
    samples: Samples
    summary: dict[str, Any]
    inputs: dict[str, Path]


def read(folder: Path) -> Content:
    """Read a run directory; columns that the version which wrote it did not have are null.

    SpecError: a file is missing, is not what was written, or does not hold what a run has there.
    """
    for name, wrong in digests.problems(folder):
        raise SpecError(wrong, remedy=AGAIN if wrong in ("is missing", "is empty") else AS_IT_IS, place=folder / name)
    summary, names = read_summary(folder), digests.names_in(folder)
    files = [folder / name for name in names if "/" not in name] if names else list(folder.iterdir())
    found = {path.stem for path in files if path.suffix == ".parquet"}
    for name in ("flows", "switches", "ports"):
        if name not in found:
            raise SpecError(f"{name}.parquet is missing", remedy=AGAIN, place=folder)
    frames = {name: read_frame(folder, name) for name in sorted(found - {"switches"})}
    inputs = {name: path for name, path in rundir.inputs_of(folder).items() if names is None or name in names}
    return Content(frames, read_samples(folder), summary, inputs)


def read_summary(folder: Path) -> dict[str, Any]:
    """The summary of a run.  SpecError: it is not one."""
    with _told(folder / "summary.json") as file:
        return checked_summary(json.loads(file.read_text()))


def read_frame(folder: Path, name: str, columns: list[str] | None = None) -> pl.DataFrame:
    """A frame of a run, or some columns of it.  SpecError: it is not one."""
    with _told(folder / f"{name}.parquet") as file:
        return with_all_columns(name, pl.read_parquet(file, columns=columns), columns)


def read_samples(folder: Path) -> Samples:
    """The samples of the switches of a run; all have rows if an older version wrote it.  SpecError: they are none."""
    with _told(folder / "switches.parquet") as file:
        text = pl.read_parquet_metadata(file).get(KEY)
        return Samples(with_all_columns("switches", pl.read_parquet(file)), None if text is None else Grid.parse(text))


def scan_frame(folder: Path, name: str) -> pl.LazyFrame:
    """A frame of a run that is read as far as it is used, with a row for every sample of every switch."""
    file = folder / f"{name}.parquet"
    if name == "switches" and KEY in pl.read_parquet_metadata(file):
        return read_samples(folder).lazy()
    return pl.scan_parquet(file)


@contextmanager
def _told(file: Path) -> Iterator[Path]:
    """Errors of reading a file as SpecError."""
    try:
        yield file
    except (OSError, ValueError, OverflowError, RecursionError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        why = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise SpecError(f"cannot be read ({why})", remedy=AGAIN, place=file) from error


def dtype(column: Column) -> Any:
    """The polars type of a column."""
    return getattr(pl, column.dtype)


def with_all_columns(name: str, frame: pl.DataFrame, columns: list[str] | None = None) -> pl.DataFrame:
    """A frame that was read, with missing columns added as null; columns that are not penstock's come last.

    columns: those that were asked for; None: all.  ValueError: a column does not hold what a run has there.
    """
    known = {key: c for key, c in COLUMNS.get(name, {}).items() if columns is None or key in columns}
    for column in FIRST.get(name, ()):
        if column in known and (column not in frame.columns or frame[column].null_count()):
            raise ValueError(f"column {column}: a value is missing")
    frame = frame.with_columns(_checked(frame[c.name], c) for c in known.values() if c.name in frame.columns)
    missing = [pl.lit(None, dtype=dtype(c)).alias(c.name) for c in known.values() if c.name not in frame.columns]
    if not missing:
        return frame
    return frame.with_columns(missing).select(*known, *(c for c in frame.columns if c not in known))


def _checked(values: pl.Series, column: Column) -> pl.Series:
    """A column in its type, or one that older versions had."""
    wanted, found = dtype(column), values.dtype
    texts = (pl.String, pl.Categorical, pl.Enum)
    numbers = (found.is_integer() and wanted.is_integer()) or (found.is_numeric() and wanted.is_float())
    if not (found == wanted or found == pl.Null or numbers or (found in texts and wanted in (pl.String, pl.Enum))):
        raise ValueError(f"column {column.name}: {found}, and not {column.dtype}")
    if found.is_float() and not values.is_finite().all():
        raise ValueError(f"column {column.name}: a number that is not finite")
    return values if found in texts or found == wanted else values.cast(pl.String if wanted == pl.Enum else wanted)


# -- the summary -------------------------------------------------------------------------------------------------------


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= LARGEST and math.isfinite(value)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _flag(value: Any) -> bool:
    return isinstance(value, bool) or value is None


def _table(value: Any) -> bool:
    return isinstance(value, dict)


def _table_of_numbers(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_number, value.values()))


def _table_of_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_text, value.values()))


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_text, value))


def _sources(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(map(_table, value)))


def _bounds(value: Any) -> bool:
    return value is None or (isinstance(value, list) and len(value) == 2 and all(map(_number, value)) and value[0] <= value[1])


def _spec(value: Any) -> bool:
    try:
        return bool(tomllib.loads(value)) or not value
    except (TypeError, AttributeError, ValueError, RecursionError):
        return False


def _deadlock(value: Any) -> bool:
    return value is None or _table(value)


NUMBERS = (
    *("seed", "threads", "duration_ns", "end_ns", "wall_s", "packet_hops", "packet_hops_per_s", "peak_memory_bytes"),
    *("flows_started", "flows_finished", "drops", "pfc_pause_fraction", "retransmissions", "max_buffer_bytes"),
    "printed",
)
KINDS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(NUMBERS, _number),
    **dict.fromkeys(("scheme", "label", "key", "spec_key", "penstock", "window"), _text),
    **dict.fromkeys(("scheme_parameters", "realised", "training"), _table),
    "spec": _spec,
    "code": _table_of_texts,
    "drain": _table_of_numbers,
    "counts": _table_of_numbers,
    "meanings": _table_of_texts,
    "window_ns": _bounds,
    "nominal": _sources,
    "deadlock": _deadlock,
    "interrupted": _flag,
    "warnings": _texts,
}


def checked_summary(content: Any) -> dict[str, Any]:
    """What summary.json holds.  ValueError: it is not the summary of a run."""
    if not isinstance(content, dict):
        raise ValueError("not an object")
    wrong = [key for key, fits in KINDS.items() if key in content and not fits(content[key])]
    if wrong:
        raise ValueError(f"{wrong[0]} is not what a run has there")
    return content
