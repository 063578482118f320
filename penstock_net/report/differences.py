"""What differs between runs that are compared, besides their schemes."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import polars as pl

from penstock_net.errors import shown
from penstock_net.results.run import Run
from penstock_net.units import format_time

# keys of a spec: what a comparison is about, what the results do not depend on, what was recorded besides
# (a scheme's own file is the scheme)
NOT_COMPARED = re.compile(r"scheme\b|run\.threads$|measure\.(?!window|warmup|sample)|inputs\..*\.py$")
BY_SCHEME = re.compile(r"host\.")  # what a spec leaves out of these is as the scheme's preset has it


class Difference(NamedTuple):
    """A setting that is not the same in all runs: its key, and what each run has, as text ("-": nothing)."""

    key: str
    values: list[str]


def differences(runs: Sequence[Run]) -> list[Difference]:
    """Settings that differ between the runs, apart from the scheme; if none does: a different network or different flows.

    Settings are those of the specs.  Unless every run has one: seed, duration, network and flows.
    """
    specs = all(run.summary.get("spec") for run in runs)
    settings = [dict(_settings(run, specs)) for run in runs]
    keys = list(dict.fromkeys(key for one in settings for key in one))
    found = [Difference(key, [one.get(key, "-") for one in settings]) for key in keys]
    found = [difference for difference in found if len(_compared(difference)) > 1]
    if not (specs and found):
        for key, values in (("network", [_network(run) for run in runs]), ("flows", [_flows(run) for run in runs])):
            if len(set(values)) > 1:
                first = list(dict.fromkeys(values))
                found.append(Difference(key, [f"{key} {first.index(value) + 1}" for value in values]))
    return found


def _compared(difference: Difference) -> set[str]:
    """The values that are compared: not that a scheme decides a setting."""
    return set(difference.values) - ({"-"} if BY_SCHEME.match(difference.key) else set())


def _settings(run: Run, specs: bool) -> Iterator[tuple[str, str]]:
    summary = run.summary
    yield "penstock", str(summary.get("penstock", "-"))
    if specs:
        spec = tomllib.loads(str(summary["spec"]))
        yield from ((key, value) for key, value in _flat(spec, "") if not NOT_COMPARED.match(key))
    else:
        yield "seed", str(summary.get("seed", "-"))
        if "duration_ns" in summary:
            yield "duration", format_time(1000 * Fraction(summary["duration_ns"]))


def _flat(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """The values of nested tables by dotted keys."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value and isinstance(value[0], Mapping):
        for number, inner in enumerate(value):
            yield from _flat(inner, f"{path}.{number}")
    else:
        yield path, value if isinstance(value, str) else shown(value)


def _network(run: Run) -> int:
    return hash(tuple(run.ports.select("node", "port", "peer").sort("node", "port").iter_rows()))


def _flows(run: Run) -> tuple[int, int]:
    rows = run.flows.select("src", "dst", "bytes", pl.col("class").cast(pl.String)).hash_rows()
    return run.flows.height, int(rows.cast(pl.Int128).sum()) if len(rows) else 0
