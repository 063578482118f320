"""A job: the traffic that a switch is to carry, and the fabric that it is part of, as `job.toml` says."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock_net.advise.network import Fabric
from penstock_net.errors import SpecError
from penstock_net.inputs import as_table, as_tables, inside, known_keys, read_text, time_ps, whole
from penstock_net.spec.files import absolute
from penstock_net.spec.toml import line_of, syntax_error
from penstock_net.units import parse_metres, parse_rate

KEYS = ("switch", "fabric", "run", "dcqcn", "host", "workload")
EXAMPLE = 'uplinks = { rate = "800Gbps" }'


@dataclass(frozen=True)
class Job:
    """Tables of a spec, as they are written, and what is not in a spec.

    path      its file                               switch    name of the site's switch; "": the first
    fabric    None: the switch alone                 duration, max_time, drain  of [run]
    workload  tables [[workload]]                    host, dcqcn  tables
    """

    path: Path
    text: str
    switch: str
    fabric: Fabric | None
    run: dict[str, Any]
    workload: list[dict[str, Any]]
    host: dict[str, Any] = field(default_factory=dict)
    dcqcn: dict[str, Any] = field(default_factory=dict)

    def placed(self, error: SpecError) -> SpecError:
        """An error with the line of its key."""
        line = line_of(self.text, error.path.split("."))
        return error.within(place=f"{self.path}:{line}" if line else self.path)


def read_job(path: Path) -> Job:
    """The job in a file.  SpecError: what is wrong, and in which line; values of a spec's tables are checked later."""
    text = read_text(str(path), "--job")
    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise syntax_error(str(path), text, error) from None
    job = Job(path, text, "", None, {}, [])
    try:
        return _job(job, tables)
    except SpecError as error:
        raise job.placed(error) from None


def _job(job: Job, tables: dict[str, Any]) -> Job:
    known_keys(tables, KEYS)
    switch = tables.get("switch", "")
    if not isinstance(switch, str):
        raise SpecError("must be the name of a switch of the site", path="switch", value=switch)
    run = as_table(tables.get("run", {}), "run", '[run] with duration = "100us"')
    known_keys(run, ("duration", "max_time", "drain"), "run")
    run = {"duration": "100us", **run}
    with inside("run"):
        duration = time_ps(run["duration"], "duration", positive=True)
        if "max_time" not in run:
            run["max_time"] = f"{20 * duration}ps"
        if time_ps(run["max_time"], "max_time", positive=True) < duration:
            raise SpecError("must be at least duration", path="max_time", value=run["max_time"])
    tables = absolute(tables, job.path.parent)
    workload = as_tables(tables.get("workload", []), "workload", '[[workload]] with kind = "poisson"')
    if not workload:
        raise SpecError("is missing", path="workload", remedy='add [[workload]] with kind = "poisson" and load = 0.3')
    host = as_table(tables.get("host", {}), "host", "[host] with mtu = 4096")
    dcqcn = as_table(tables.get("dcqcn", {}), "dcqcn", '[dcqcn] with r_ai = "1Gbps"')
    fabric = _fabric(as_table(tables["fabric"], "fabric", f"[fabric] with {EXAMPLE}")) if "fabric" in tables else None
    return Job(job.path, job.text, switch, fabric, run, workload, host, dcqcn)


def _fabric(table: dict[str, Any]) -> Fabric:
    with inside("fabric"):
        known_keys(table, ("uplinks", "leaves", "spines"))
        uplinks = as_table(table.get("uplinks", {}), "uplinks", EXAMPLE)
        known_keys(uplinks, ("rate", "cable"), "uplinks")
        if not uplinks:
            raise SpecError("is missing", path="uplinks", remedy=f"say which ports lead to spines, such as {EXAMPLE}")
        gbps = metres = None
        if "rate" in uplinks:
            gbps = parse_rate(uplinks["rate"], "uplinks.rate") // 10**9
        if "cable" in uplinks:
            metres = int(parse_metres(uplinks["cable"], "uplinks.cable"))
        leaves = whole(table["leaves"], "leaves", 2, 1024) if "leaves" in table else 0
        spines = whole(table["spines"], "spines", 1, 1024) if "spines" in table else 0
    return Fabric(gbps, metres, leaves, spines)
