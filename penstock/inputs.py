"""Checks of what a user hands in: numbers, choices, tables. Whatever is wrong ends in a SpecError that names it."""

import csv
import difflib
import io
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from penstock.errors import SpecError, nearest
from penstock.units import format_time, parse_time

MAX_FLOW_BYTES = 10**12  # so that the bytes of millions of flows still add up in int64
MAX_TIME_PS = 2**62

# Bounded, so that no cell can make exact arithmetic slow.
_NUMBER = re.compile(r"[+-]?(?:\d{1,40}\.?\d{0,40}|\.\d{1,40})(?:[eE][+-]?\d{1,3})?", re.ASCII)


def whole(value: Any, what: str, low: int, high: int | None = None) -> int:
    """`value` as an int in [low, high]; numpy's integers and 3.0 are welcome, 2.5, True and "3" are not."""
    integer = hasattr(value, "__index__") or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not integer:
        raise SpecError(f"{what} = {value!r}: expected a whole number")
    number = int(value)
    if number < low or (high is not None and number > high):
        limit = f"at least {low}" if high is None else f"between {low} and {high}"
        raise SpecError(f"{what} = {number}: must be {limit}")
    return number


def positive(value: Any, what: str) -> float:
    """`value` as a finite float above zero."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
        raise SpecError(f"{what} = {value!r}: expected a finite number greater than zero")
    return float(value)


def boolean(value: Any, what: str) -> bool:
    """`value` if it is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise SpecError(f"{what} = {value!r}: expected true or false")
    return bool(value)


def time_ps(value: Any, what: str, *, positive: bool = False) -> int:
    """Picoseconds of "1us", at most 53 days, so that times fit into int64."""
    time = parse_time(value, what, positive=positive)
    if time > MAX_TIME_PS:
        raise SpecError(f"{what} = {value}: more than {format_time(MAX_TIME_PS)}; make it shorter")
    return time


def one_of(value: Any, what: str, known: Iterable[str]) -> str:
    """`value` if it is one of the known words."""
    known = list(known)
    if not isinstance(value, str) or value not in known:
        raise SpecError(f"{what} = {value!r}: expected one of {', '.join(known)}" + _suggestion(value, known))
    return value


def _suggestion(value: Any, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(str(value), known, n=1)
    return f'; did you mean "{close[0]}"?' if close else ""


def known_keys(params: Iterable[str], known: Iterable[str], prefix: str = "") -> None:
    """SpecError if one of the keys is not known; the message begins with prefix + key."""
    known = list(known)
    for key in params:
        if key not in known:
            raise SpecError(f"{prefix}{key}: unknown key{nearest(str(key), known)}")


def decimal(cell: str, what: str) -> Fraction:
    """The exact value of a cell such as "12", "0.25", "1e6"."""
    if _NUMBER.fullmatch(cell):
        return Fraction(cell)
    if not cell:
        raise SpecError(f"{what} is empty; write a number")
    if cell.lstrip("+-").lower() in ("inf", "infinity", "nan"):
        raise SpecError(f"{what} = {cell}: must be a finite number")
    raise SpecError(f"{what} = {cell[:60]!r}: is not a number; write digits only, such as 1500 or 0.25")


def whole_cell(cell: str, what: str, low: int, high: int) -> int:
    """A cell as an int in [low, high]."""
    if cell.isdecimal() and cell.isascii() and len(cell) < 19:
        number = int(cell)
        if low <= number <= high:
            return number
    exact = decimal(cell, what)
    if exact.denominator != 1:
        near = max(low, min(high, round(exact)))
        raise SpecError(f"{what} = {cell}: must be a whole number, such as {near}")
    if not low <= exact <= high:
        raise SpecError(f"{what} = {cell}: must be between {low} and {high}")
    return int(exact)


class Table:
    """A CSV file with a header line; lines that begin with # are comments, kept apart.

    `comments` are the texts after the #, `columns` the header's names, `rows()` the cells with their line numbers.
    Anything that is not such a file (missing, not UTF-8, empty, a row of another width) is a SpecError with file:line.
    """

    def __init__(self, path: str | os.PathLike[str], example: str) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise SpecError(f"file = {path!r}: expected the path of a CSV file")
        self.path = os.fspath(path)
        text = _read_text(self.path)
        self.comments: list[str] = []
        self._reader = csv.reader(self._without_comments(text), strict=True, skipinitialspace=True)
        first = next(self._cells(), None)
        if first is None:
            raise SpecError(f'{self.path}: the file is empty; it must begin with a header line such as "{example}"')
        self.header_line, self.columns = first
        if _NUMBER.fullmatch(self.columns[0]):
            where = self.where(self.header_line)
            raise SpecError(f'{where}: the header line is missing; put "{example}" above the data')

    def where(self, line: int) -> str:
        """file:line, to begin a message with."""
        return f"{self.path}:{line}"

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """(line number, cells) of every data row; all have as many cells as the header."""
        for line, cells in self._cells():
            if len(cells) != len(self.columns):
                raise SpecError(
                    f"{self.where(line)}: {len(cells)} columns, but the header has {len(self.columns)} "
                    f"({','.join(self.columns)}); is the file truncated?"
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
            raise SpecError(f"{self.where(self._reader.line_num)}: is not CSV: {error}; check the quotes") from None


def _read_text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SpecError(f"{path!r}: cannot be read: {reason}; check the path") from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        byte = f"0x{raw[error.start]:02x}"
        raise SpecError(f"{path}:{line}: byte {byte} is not UTF-8 text; save the file as UTF-8") from None
