"""Requests to a served model: when each comes, how many tokens it has, which blocks of tokens it begins with.

read("requests.jsonl")                    # lines of Mooncake's traces, or CSV with arrival_s,input_tokens,output_tokens
poisson(100.0, [1024, 4096], 200, duration_ps=10**12, seed=1)
"""

import json
import os
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from penstock_net import formats
from penstock_net.errors import SpecError
from penstock_net.inputs import (
    MAX_TIME_PS,
    Table,
    as_path,
    decimal,
    elements,
    inside,
    left_out,
    positive,
    read_bytes,
    read_text,
    whole,
    whole_cell,
    within_range,
)
from penstock_net.workload.streams import stream

MAX_TOKENS = 10**8  # of a request
MAX_REQUESTS = 10**6
MAX_RATE = 1e9
FIELDS = ("timestamp", "input_length", "output_length")
OPTIONAL_FIELDS = ("hash_ids",)
COLUMNS = ("arrival_s", "input_tokens", "output_tokens")


class Request(NamedTuple):
    """A request.

    arrival_ps      when it comes
    input_tokens    of its prompt                  output_tokens   of its answer
    blocks          names of the blocks of tokens that its prompt begins with: equal names are equal prefixes
    """

    arrival_ps: int
    input_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()


def read(path: str | os.PathLike[str]) -> list[Request]:
    """The requests of a file, by arrival.  SpecError with file:line: anything that is wrong there."""
    place = os.fspath(as_path(path, "file", "a file of requests"))
    found = formats.refuse_others(read_bytes(place), formats.REQUESTS, place)
    requests = _read_table(place) if found is None else _read_lines(place)
    if not requests:
        raise SpecError("no requests below the header line", remedy="is the file truncated?", place=place)
    if len(requests) > MAX_REQUESTS:
        raise SpecError(f"{len(requests)} requests, more than {MAX_REQUESTS}", remedy="give a part of it", place=place)
    return sorted(requests, key=lambda request: request.arrival_ps)


def poisson(rate: Any, input_tokens: Any, output_tokens: Any, *, duration_ps: int, seed: int, index: int = 0) -> list[Request]:
    """Requests at random times, `rate` per second on average; lengths: a number, or several of which each request draws one."""
    positive(rate, "rate")
    within_range(rate, "rate", None, MAX_RATE)
    lengths = _lengths(input_tokens, "input_tokens", 1), _lengths(output_tokens, "output_tokens", 0)
    expected = rate * duration_ps / 1e12
    if expected > MAX_REQUESTS:
        rule = f"about {expected:.3g} requests would come, more than {MAX_REQUESTS}"
        raise SpecError(rule, path="rate", value=rate, remedy="lower it, or shorten duration")
    gaps, sizes = stream(seed, index, "gaps"), stream(seed, index, "sizes")
    arrivals: list[int] = []
    now = float(gaps.exponential(1e12 / rate))
    while now < duration_ps:
        arrivals.append(int(now))
        now += float(gaps.exponential(1e12 / rate))
    if not arrivals:
        raise SpecError("no request comes within duration", path="rate", value=rate, remedy="raise the rate or the duration")
    drawn = [sizes.choice(np.array(values), len(arrivals)).tolist() for values in lengths]
    return [Request(*values) for values in zip(arrivals, *drawn)]


def _lengths(value: Any, path: str, low: int) -> list[int]:
    if value is None:
        raise SpecError("is missing", path=path, remedy="rate needs input_tokens and output_tokens, such as 4096 or [1024, 4096]")
    if not hasattr(value, "__len__"):
        return [whole(value, path, low, MAX_TOKENS)]
    listed = [whole(each, f"{path}.{i}", low, MAX_TOKENS) for i, each in enumerate(elements(value, path, "such as [1024, 4096]"))]
    if not listed:
        raise SpecError("the list is empty", path=path, remedy="give at least one number of tokens")
    return listed


# -- files


def _read_lines(path: str) -> list[Request]:
    """Of a trace of Mooncake: a JSON object in each line, timestamp in ms."""
    requests, unread = [], Counter[str]()
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip():
            continue
        with inside(place=f"{path}:{number}"):
            given = _object(line)
            for name in FIELDS:
                if name not in given:
                    raise SpecError("is missing", path=name, remedy=f"a request has {', '.join(FIELDS)}")
            unread.update(name for name in given if name not in (*FIELDS, *OPTIONAL_FIELDS))
            requests.append(
                Request(
                    _arrival(given["timestamp"], 10**9, "timestamp"),
                    whole(given["input_length"], "input_length", 1, MAX_TOKENS),
                    whole(given["output_length"], "output_length", 0, MAX_TOKENS),
                    _blocks(given.get("hash_ids", [])),
                )
            )
    if unread:
        left_out(path, f"keys: {', '.join(f'{name} ({count})' for name, count in unread.items())}")
    return requests


def _object(line: str) -> dict[str, Any]:
    def strange(constant: str) -> Any:
        raise ValueError(f"{constant} is no number")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        twice = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
        if twice:
            raise ValueError(f"{twice[0]} is given twice")
        return dict(pairs)

    try:
        given = json.loads(line, parse_float=Decimal, parse_constant=strange, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise SpecError(f"is not JSON: {str(error)[:80]}", remedy="is the file truncated?") from None
    if not isinstance(given, dict):
        raise SpecError("must be an object, as {...}", value=given)
    return given


def _blocks(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise SpecError("must be a list of numbers", path="hash_ids", value=value)
    return tuple(whole(each, f"hash_ids.{i}", 0, 2**63 - 1) for i, each in enumerate(value))


def _arrival(value: Any, unit_ps: int, path: str) -> int:
    """Picoseconds of a number of units, rounded to the next one."""
    if isinstance(value, bool) or not isinstance(value, (int, Decimal, Fraction)):
        raise SpecError("must be a number", path=path, value=value)
    if isinstance(value, Decimal) and abs(value.adjusted()) > 400:
        raise SpecError("is out of range", path=path, value=str(value))
    time = round(Fraction(value) * unit_ps)
    within_range(time, path, 0, MAX_TIME_PS // 2, str(value))
    return time


def _read_table(path: str) -> list[Request]:
    """Of a CSV file."""
    example = ",".join(COLUMNS)
    table = Table(path, example)
    names = [name.lower() for name in table.columns]
    where = table.where(table.header_line)
    for name in COLUMNS:
        if names.count(name) != 1:
            rule = "the column is there twice" if name in names else "the column is missing"
            raise SpecError(rule, path=name, remedy=f"the header must hold {example}", place=where)
    cells_of: dict[str, Callable[[str], int]] = {
        "arrival_s": lambda cell: _arrival(decimal(cell, "arrival_s"), 10**12, "arrival_s"),
        "input_tokens": lambda cell: whole_cell(cell, "input_tokens", 1, MAX_TOKENS),
        "output_tokens": lambda cell: whole_cell(cell, "output_tokens", 0, MAX_TOKENS),
    }
    requests = []
    for line, cells in table.rows():
        row = dict(zip(names, cells))
        with inside(place=table.where(line)):
            arrival, tokens, answer = (cells_of[name](row[name]) for name in COLUMNS)
            requests.append(Request(arrival, tokens, answer))
    others = [given for given, name in zip(table.columns, names) if name not in COLUMNS]
    if others:
        left_out(path, f"columns: {', '.join(f'{name} ({len(requests)})' for name in others)}")
    return requests
