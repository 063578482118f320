"""Servers with a virtual switch: several applications behind each, and receivers whose speed varies.

    topo = behind_vswitches(leaf_spine(hosts=16, tors=4, spines=4), apps=2, rate="200Gbps", buffer="4MB")
    topo = with_receivers(topo, [{"host": 3, "rate": "3Gbps"}, {"host": 5, "rate": "1Gbps", "on": "2ms", "off": "8ms"}])

Every host of the network becomes a virtual switch (tier 0), every application a host behind it; application j of server s is
host s * apps + j. How fast an application takes its packets is the rate at which its virtual switch may send to it.
"""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from penstock.errors import SpecError, nearest
from penstock.inputs import whole
from penstock.topology.graph import LinkChange, Topology, make_links
from penstock.units import PS_PER_S, parse_rate, parse_size, parse_time, ps_per_byte

MOST_CHANGES = 100_000
EXAMPLE = '{host = 3, rate = "3Gbps"}'
KEYS = ("host", "rate", "start", "on", "off", "until", "trace")


def behind_vswitches(
    topo: Topology,
    *,
    apps: int = 1,
    rate: str | int | float = "100Gbps",
    delay: str | int | float = "500ns",
    buffer: str | int = "4MB",
) -> Topology:
    """The same network with a virtual switch in every server and `apps` applications behind each.

    rate, delay   of the way between an application and its virtual switch, one direction
    buffer        of each virtual switch; "0B" is unbounded
    """
    given = {"apps": apps, "rate": rate, "delay": delay, "buffer": buffer}
    apps = whole(apps, "vswitches.apps", 1, 1000)
    if (topo.tier[topo.hosts :] == 0).any():
        raise SpecError("vswitches: this network has virtual switches already; give them once")
    hosts = topo.hosts * apps
    if "receivers" in topo.params:
        raise SpecError("vswitches: receivers are named before the applications that they are; give the virtual switches first")
    links = topo.links.copy()
    for end in ("a", "b"):
        links[end] += hosts  # a server is now the virtual switch of its number, switches follow
    inner = make_links(
        np.arange(hosts),
        hosts + np.repeat(np.arange(topo.hosts), apps),
        ps_per_byte(rate, "vswitches.rate"),
        parse_time(delay, "vswitches.delay", positive=True),
    )
    names = (*(f"host{i}" for i in range(hosts)), *(f"vswitch{i}" for i in range(topo.hosts)), *topo.names[topo.hosts :])
    changes = tuple(c._replace(link=c.link + hosts, node=None if c.node is None else c.node + hosts) for c in topo.changes)
    params = {**topo.params, "vswitches": given}
    if "changes" in params:
        new = dict(zip(topo.names, names[hosts:]))
        params["changes"] = [{k: new[v] if k in ("a", "b", "of") else v for k, v in c.items()} for c in params["changes"]]
    return Topology(
        kind=topo.kind,
        hosts=hosts,
        switches=topo.nodes,
        links=np.concatenate([inner, links]),
        names=names,
        buffer_bytes=np.concatenate([np.full(topo.hosts, parse_size(buffer, "vswitches.buffer")), topo.buffer_bytes]),
        tier=np.concatenate([np.zeros(hosts, dtype=np.int8), topo.tier]),
        params=params,
        changes=changes,
    )


def with_receivers(topo: Topology, receivers: Iterable[Mapping[str, Any]]) -> Topology:
    """With hosts that take their packets at their own speed, by a list of tables.

    host    number of the application        rate    at which it takes packets, headers included
    start   from when on ("0s")              trace   a CSV file with the columns time, rate instead: any course
    on, off, until   it takes packets at `rate` for `on`, at its link's rate for `off`, and so on until `until`

    SpecError names what is wrong in which table.
    """
    receivers = [dict(table) for table in receivers]
    changes: list[LinkChange] = []
    for i, table in enumerate(receivers):
        changes += _changes(topo, table, f"receivers.{i}")
        if len(changes) > MOST_CHANGES:
            raise SpecError(f"receivers.{i}: {len(changes)} changes of speed; at most {MOST_CHANGES}: let it vary more slowly")
    everybody = [*topo.params.get("receivers", ()), *receivers]
    everything = tuple(sorted((*topo.changes, *changes), key=lambda change: change.time_ps))
    return replace(topo, changes=everything, params={**topo.params, "receivers": everybody})


def _changes(topo: Topology, table: Mapping[str, Any], where: str) -> list[LinkChange]:
    for key in table:
        if key not in KEYS:
            raise SpecError(f'{where}: unknown key "{key}"{nearest(key, KEYS)}')
    if "host" not in table or ("rate" in table) == ("trace" in table):
        raise SpecError(f"{where}: needs a host, and either a rate or a trace, such as {EXAMPLE}")
    host = whole(table["host"], f"{where}.host", 0, topo.hosts - 1)
    link, node = int(topo.host_links[host]), int(topo.host_switches[host])
    if "trace" in table:
        return [LinkChange(time, link, None, rate, node) for time, rate in _trace(str(table["trace"]), where)]
    slow, fast = _pace(table["rate"], f"{where}.rate"), int(topo.links["ps_per_byte"][link])
    start = parse_time(table.get("start", "0s"), f"{where}.start")
    if ("on" in table) != ("off" in table) or ("on" in table) != ("until" in table):
        raise SpecError(f"{where}: on, off and until belong together; give all three or none")
    if "on" not in table:
        return [LinkChange(start, link, None, slow, node)]
    on, off, until = (parse_time(table[key], f"{where}.{key}", positive=True) for key in ("on", "off", "until"))
    if until <= start:
        raise SpecError(f"{where}: until = {table['until']}: must be after start, or it never takes packets at this rate")
    if (until - start) // (on + off) > MOST_CHANGES // 2:
        raise SpecError(f"{where}: on + off = {(on + off) / 1e6:g} us until {until / 1e9:g} ms: at most {MOST_CHANGES} changes")
    beginnings = range(start, until, on + off)
    return [c for t in beginnings for c in (LinkChange(t, link, None, slow, node), LinkChange(t + on, link, None, fast, node))]


def _trace(file: str, where: str) -> list[tuple[int, int]]:
    """(time, ps per byte) of a CSV file with the columns time and rate."""
    try:
        with Path(file).open(newline="") as text:
            rows = list(csv.DictReader(text))
    except (OSError, ValueError, csv.Error) as error:
        raise SpecError(f"{where}.trace: {file} cannot be read ({error}); it has the columns time and rate") from None
    if not rows or any(row.get(key) in (None, "") for row in rows for key in ("time", "rate")):
        raise SpecError(f'{where}.trace: {file} needs the columns time and rate in every row, such as "1ms,3Gbps"')
    return [(parse_time(row["time"], f"{where}.trace time"), _pace(row["rate"], f"{where}.trace rate")) for row in rows]


def _pace(rate: Any, where: str) -> int:
    """Whole picoseconds per byte of an application, to the nearest."""
    return max(1, round(8 * PS_PER_S / parse_rate(rate, where)))
