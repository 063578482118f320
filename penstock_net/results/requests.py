"""What became of the requests to a served model: queue, prefill, transfer, time to the first token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from penstock_net.workload.operations import HERE, PREFILL, ROLES

if TYPE_CHECKING:
    from penstock_net.workload.flows import Flows

_LATE = np.iinfo(np.int64).max
KNOWN = ("input_tokens", "output_tokens", "prefill", "decode", "cached_tokens", "fetched_tokens", "sent_tokens", "kv_bytes")


def request_frame(flows: Flows, start: np.ndarray, finish: np.ndarray) -> dict[str, Any]:
    """The columns of the frame requests, a row for each request that has flows; none if there are no requests.

    start, finish: by flow, ps; a negative time means "not before the end of the run".
    """
    requests = None if flows.operations is None else flows.operations.requests
    if requests is None:
        return {}
    begin = _by_request(requests.part, requests.count, PREFILL, start, start - flows.gap_ps, least=True)
    computed = _by_request(requests.part, requests.count, PREFILL, finish, finish)
    here = _by_request(requests.part, requests.count, HERE, finish, finish)
    there = np.unique(requests.part[requests.part >= 0] // ROLES)
    table = {name: column[there] for name, column in requests.table.items()}
    begin, computed, here, arrival = begin[there], computed[there], here[there], table["arrival_ps"]
    first = np.where(here == _LATE, _LATE, here + table["first_step_ps"] * (here != _LATE))
    times = {
        "queue_ns": _between(arrival, begin),
        "prefill_ns": _between(begin, computed),
        "transfer_ns": _between(computed, here),
        "first_token_ns": _between(np.zeros_like(first), first),
        "ttft_ns": _between(arrival, first),
    }
    known = {name: table[name] for name in KNOWN}
    return {"request": there, "arrival_ps": arrival, **known, **times, "ttft_without_network_ps": table["without_ps"]}


def _by_request(part: np.ndarray, count: int, role: int, known: np.ndarray, times: np.ndarray, least: bool = False) -> np.ndarray:
    """By request, the last time (or the first) of its flows of a role; _LATE: not all are known."""
    chosen = np.flatnonzero((part >= 0) & (part % ROLES == role))
    which, values = part[chosen] // ROLES, times[chosen]
    found = np.full(count, _LATE if least else -1, dtype=np.int64)
    (np.minimum if least else np.maximum).at(found, which, np.where(known[chosen] < 0, _LATE, values))
    return found


def _between(low: np.ndarray, high: np.ndarray) -> pl.Series:
    """high - low in ns; null where one is not known."""
    never = (low == _LATE) | (high == _LATE)
    values = np.where(never, 0, high - np.where(never, 0, low)) / 1000
    values[never] = np.nan
    return pl.Series(values, nan_to_null=True)
