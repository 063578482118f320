"""Checks of what a user hands in: numbers, choices, tables. Whatever is wrong ends in a SpecError that names it."""

import csv
import io
import math
import operator
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from penstock_net.errors import ABSENT, SpecError, closest, nearest
from penstock_net.units import format_size, format_time, parse_delay, parse_size, parse_time

MAX_FLOW_BYTES = 10**12  # so that the bytes of millions of flows still add up in int64
MAX_TIME_PS = 2**62
MAX_SEED = 2**63 - 1
MAX_SIZE = 10**18

# Bounded, so that no cell can make exact arithmetic slow.
_NUMBER = re.compile(r"[+-]?(?:\d{1,40}\.?\d{0,40}|\.\d{1,40})(?:[eE][+-]?\d{1,3})?", re.ASCII)


def whole(value: Any, path: str, low: int, high: int | None = None) -> int:
    """`value` as an int in [low, high]; numpy's integers and 3.0 are accepted, 2.5, True and "3" are not."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        exact: Any = int(value) if isinstance(value, float) and value.is_integer() else value
        number = operator.index(exact)
    except TypeError:  # also of arrays, which have __index__
        raise SpecError("must be a whole number", path=path, value=value) from None
    within_range(number, path, low, high, value)
    return number


def instance(value: Any, kind: type, path: str, remedy: str = "") -> None:
    """SpecError unless `value` is a `kind`; the remedy says how to make one."""
    if not isinstance(value, kind):
        raise SpecError(f"must be of type {kind.__name__}", path=path, value=value, remedy=remedy)


def elements(values: Any, path: str, remedy: str) -> Iterator[Any]:
    """An iterator over `values`, if they are a list or the like; the remedy shows one."""
    try:
        return iter(values)
    except TypeError:
        raise SpecError("must be a list", path=path, value=values, remedy=remedy) from None


def as_path(value: Any, path: str, of: str) -> Path:
    """`value` as a Path, if it is one or a text; `of` is what must be there: "a run directory"."""
    if not isinstance(value, (str, os.PathLike)):
        raise SpecError(f"must be the path of {of}", path=path, value=value)
    return Path(value)


def real(value: Any, path: str, low: float | None = None, high: float | None = None) -> float:
    """`value` as a finite float in [low, high]; numpy's numbers are accepted, True and "3" are not."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.number)) or not _finite(value):
        share = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*%\s*", value) if isinstance(value, str) else None
        remedy = f"write {float(share[1]) / 100:g}" if share else ""
        raise SpecError("must be a finite number", path=path, value=value, remedy=remedy)
    within_range(value, path, low, high)
    return float(value)


def positive(value: Any, path: str) -> float:
    """`value` as a finite float above zero."""
    number = real(value, path)
    if number <= 0:
        raise SpecError("must be greater than zero", path=path, value=value)
    return number


def below_one(value: Any, path: str) -> float:
    """`value` as a probability, at least 0 and less than 1."""
    number = real(value, path)
    if not 0 <= number < 1:
        raise SpecError("must be a probability, at least 0 and less than 1", path=path, value=value)
    return number


def _finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except (OverflowError, TypeError):  # beyond float64, complex
        return False


def within_range(number: Any, path: str, low: Any = None, high: Any = None, value: Any = ABSENT) -> None:
    """SpecError unless low <= number <= high, which may be None; `value` is what was given, where that looks different."""
    if (low is not None and not number >= low) or (high is not None and not number <= high):
        if low is None or high is None:
            rule = f"must be at most {high}" if low is None else f"must be at least {low}"
            remedy = ""
        else:
            rule, remedy = f"must be between {low} and {high}", f"nearest: {low if number < low else high}"
        raise SpecError(rule, path=path, value=number if value is ABSENT else value, remedy=remedy)


def boolean(value: Any, path: str) -> bool:
    """`value` if it is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise SpecError("must be true or false", path=path, value=value)
    return bool(value)


def time_ps(value: Any, path: str, *, positive: bool = False) -> int:
    """Picoseconds of "1us", at most 53 days, so that times fit into int64."""
    time = parse_time(value, path, positive=positive)
    if time > MAX_TIME_PS:
        raise SpecError(f"must be at most {format_time(MAX_TIME_PS)}", path=path, value=value)
    return time


def delay_ps(value: Any, path: str) -> int:
    """Picoseconds of a link's delay, above zero: "1us", or what light takes through "40m" of fibre; at most 53 days."""
    delay = parse_delay(value, path, positive=True)
    if delay > MAX_TIME_PS:
        raise SpecError(f"must be at most {format_time(MAX_TIME_PS)}", path=path, value=value)
    return delay


def size_bytes(value: Any, path: str) -> int:
    """Bytes of "12MB", so many that sizes fit into int64."""
    size = parse_size(value, path)
    if size > MAX_SIZE:
        raise SpecError(f"must be at most {format_size(MAX_SIZE)}", path=path, value=value)
    return size


def one_of(value: Any, path: str, known: Iterable[str]) -> str:
    """`value` if it is one of the known words."""
    known = list(known)
    if not isinstance(value, str) or value not in known:
        raise SpecError(f"must be one of {', '.join(known)}", path=path, value=value, remedy=closest(value, known))
    return value


def known_keys(table: Iterable[Any], known: Iterable[str], path: str = "") -> None:
    """SpecError for the first key of `table`, which is at `path`, that is not known."""
    known = list(known)
    for key in table:
        if key not in known:
            raise unknown_key(key, known, path)


def unknown_key(key: Any, known: Iterable[str], path: str = "", what: str = "key") -> SpecError:
    """The error for a key (or a column, an option) that does not exist."""
    return SpecError(f"unknown {what}", path=f"{path}.{key}" if path else str(key) or '""', remedy=nearest(key, known))


def as_table(value: Any, path: str, example: str = "") -> dict[str, Any]:
    """`value` as a dict with texts as keys, if it is a table; `example` shows one: "vswitches = {apps = 2}"."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise SpecError("must be a table" + (f", such as {example}" if example else ""), path=path, value=value)
    return dict(value)


def as_tables(value: Any, path: str, example: str = "") -> list[dict[str, Any]]:
    """`value` as a list of dicts, if it is a list of tables."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, Mapping) for item in value):
        raise SpecError("must be a list of tables" + (f", such as {example}" if example else ""), path=path, value=value)
    return [as_table(item, f"{path}.{i}") for i, item in enumerate(value)]


@contextmanager
def inside(path: str = "", place: object = "") -> Iterator[None]:
    """Completes a SpecError from within the block: its key lies below `path`, its input at `place`."""
    try:
        yield
    except SpecError as error:
        error.within(path, place)
        raise


def decimal(cell: str, path: str) -> Fraction:
    """The exact value of a cell such as "12", "0.25", "1e6"."""
    if _NUMBER.fullmatch(cell):
        return Fraction(cell)
    if not cell:
        raise SpecError("is empty", path=path, remedy="write a number")
    if cell.lstrip("+-").lower() in ("inf", "infinity", "nan"):
        raise SpecError("must be a finite number", path=path, value=cell)
    raise SpecError("is not a number", path=path, value=cell, remedy="write digits only, such as 1500 or 0.25")


def whole_cell(cell: str, path: str, low: int, high: int) -> int:
    """A cell as an int in [low, high]."""
    if cell.isdecimal() and cell.isascii() and len(cell) < 19:
        number = int(cell)
        if low <= number <= high:
            return number
    exact = decimal(cell, path)
    if exact.denominator != 1:
        near = max(low, min(high, round(exact)))
        raise SpecError(f"must be a whole number, such as {near}", path=path, value=cell)
    within_range(exact, path, low, high, cell)
    return int(exact)


SEPARATORS = ",;|\t"


def separator(header: str) -> str:
    """What separates the columns that a line names."""
    return next((char for char in SEPARATORS if char in header), ",")


class Table:
    """A CSV file with a header line; lines that begin with # are comments, kept apart. Columns are separated by commas, or by
    what separates the header's, of SEPARATORS.

    `comments` are the texts after the #, as far as it has been read, `columns` the header's names, `rows()` the cells with their
    line numbers.
    Anything that is not such a file (not UTF-8, empty, a row of another width) is a SpecError with file:line; one that cannot
    be read is an error of `key`, which named it.
    """

    def __init__(self, path: str | os.PathLike[str], example: str, key: str = "file") -> None:
        as_path(path, key, "a CSV file")
        self.path = os.fspath(path)
        text = read_text(self.path, key)
        self.comments: list[str] = []
        self.ends_with_newline = text.endswith(("\n", "\r"))
        self.separator = separator(next((line for line in text.splitlines() if line.strip() and not line.startswith("#")), ""))
        lines = self._without_comments(text)
        self._reader = csv.reader(lines, strict=True, skipinitialspace=True, delimiter=self.separator)
        first = next(self._cells(), None)
        if first is None:
            raise SpecError("the file is empty", remedy=f'it must begin with a header line such as "{example}"', place=self.path)
        self.header_line, self.columns = first
        if _NUMBER.fullmatch(self.columns[0]):
            where = self.where(self.header_line)
            raise SpecError("the header line is missing", remedy=f'put "{example}" above the data', place=where)

    def where(self, line: int) -> str:
        """file:line, to begin a message with."""
        return f"{self.path}:{line}"

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """(line number, cells) of every data row; all have as many cells as the header."""
        for line, cells in self._cells():
            if len(cells) != len(self.columns):
                raise SpecError(
                    f"{len(cells)} columns, but the header has {len(self.columns)} ({','.join(self.columns)})",
                    remedy="is the file truncated?",
                    place=self.where(line),
                )
            yield line, cells

    def _without_comments(self, text: str) -> Iterator[str]:
        for line in io.StringIO(text, newline=""):
            if line.startswith("#"):
                self.comments.append(line[1:].strip())
                yield "\n"
            else:
                yield line

    def _cells(self) -> Iterator[tuple[int, list[str]]]:
        try:
            for cells in self._reader:
                cells = [*map(str.strip, cells)]
                if any(cells):
                    yield self._reader.line_num, cells
        except csv.Error as error:
            raise SpecError(f"is not CSV: {error}", remedy="check the quotes", place=self.where(self._reader.line_num)) from None


def read_bytes(path: str, key: str = "file") -> bytes:
    """The content of a regular file; SpecError of `key`, which named it: there is none (FIFOs and devices have no end)."""
    try:
        if os.path.exists(path) and not os.path.isdir(path) and not os.path.isfile(path):
            raise SpecError("is not a regular file", path=key, value=path, remedy="write its content to a file first")
        with open(path, "rb") as file:
            return file.read()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SpecError(f"cannot be read: {reason}", path=key, value=path, remedy="check the path") from None


def read_text(path: str, key: str = "file") -> str:
    """The text of a file in UTF-8; SpecError if there is none: of `key`, which named it, or at the line that is not text."""
    raw = read_bytes(path, key)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        byte = f"0x{raw[error.start]:02x}"
        raise SpecError(f"byte {byte} is not UTF-8 text", remedy="save the file as UTF-8", place=f"{path}:{line}") from None


def left_out(place: object, what: str) -> None:
    """Warns of something that a file has and that is not read."""
    remark(place, f"not read: {what}")


def remark(place: object, what: str) -> None:
    """Warns of what a file says, or does not say."""
    warnings.warn(f"{place}: {what}", UserWarning, stacklevel=3)


def natural(name: str) -> list[tuple[int, int, str]]:
    """A key that sorts names as people do: h2 before h10."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name) if part]


MAX_VALUES = 100_000
_RANGE = re.compile(r"([+-]?[\d.]+?)([A-Za-z]*)\.\.([+-]?[\d.]+?)([A-Za-z]*)(?:\.\.([\d.]+?)([A-Za-z]*))?", re.ASCII)


def parts(text: str, sign: str, place: str) -> list[str]:
    """A text cut at a sign, but not within brackets or braces.  SpecError at `place`: one of these is not closed."""
    items, depth, start = [], 0, 0
    for position, char in enumerate(text):
        depth += (char in "[{") - (char in "]}")
        if char == sign and depth == 0:
            items.append(text[start:position].strip())
            start = position + 1
    if depth:
        raise SpecError("brackets that are not closed", place=place)
    return [*items, text[start:].strip()]


def values(text: str, place: str) -> list[str]:
    """The values of "0.5,0.7", "1..10" (whole numbers, both ends included) or "10us..50us..20us" (from, to, step).

    Commas within brackets or braces separate nothing.  SpecError at `place`: an empty value, or a range that is none.
    """
    items = parts(text, ",", place)
    if not all(items):
        raise SpecError("expected values such as 0.5,0.7 or 1..10", place=place)
    return [value for item in items for value in _range(item, place)]


def seeds(text: str, place: str = "--seeds") -> list[int]:
    """The seeds of "10" (1 to 10), "3..7" or "3,5,9".  SpecError: not whole numbers of at least 0, or one of them twice."""
    given = values(f"1..{text}" if text.isdecimal() and text.isascii() else text, place)
    numbers = [int(seed) if seed.isdecimal() and seed.isascii() and len(seed) < 19 else -1 for seed in given]
    if min(numbers) < 0:
        raise SpecError(
            f"{given[numbers.index(-1)]} is no seed", remedy="give a number of seeds, 10, or seeds: 3..7 or 3,5,9", place=place
        )
    if len(set(numbers)) < len(numbers):
        raise SpecError("names a seed twice", place=place)
    return numbers


def _range(item: str, place: str) -> list[str]:
    match = _RANGE.fullmatch(item)
    if not match:
        return [item]
    low, unit, high, unit_2, step, unit_3 = match.groups()
    whole_numbers = all(n.lstrip("+-").isdecimal() for n in (low, high)) and not unit and not unit_2
    if step is None and not whole_numbers:
        if unit or unit_2:  # a value of its own, such as the bounds of a measurement window
            return [item]
        raise SpecError(f"the range {item} needs a step", remedy=f"such as {item}..0.1", place=place)
    if len({unit, unit_2, unit_3 or unit}) > 1:
        raise SpecError(f"the range {item} has more than one unit", remedy="such as 10us..50us..20us", place=place)
    first, last, by = (decimal(n, place) for n in (low, high, step or "1"))
    if by <= 0 or last < first:
        raise SpecError(
            f"the range {item} is empty", remedy="give a lower bound, an upper bound and a step above zero", place=place
        )
    count = int((last - first) / by) + 1
    if count > MAX_VALUES:
        raise SpecError(f"the range {item} has {count} values", remedy=f"at most {MAX_VALUES}", place=place)
    return [f"{_plain(first + n * by)}{unit}" for n in range(count)]


def _plain(value: Fraction) -> str:
    """A finite decimal as text, without exponent: 0.1, 12."""
    text = format(Decimal(value.numerator) / Decimal(value.denominator), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
