"""Servers with a virtual switch: several applications behind each, and receivers whose speed varies.

    topo = behind_vswitches(leaf_spine(hosts=16, tors=4, spines=4), apps=2, rate="200Gbps", buffer="4MB")
    topo = with_receivers(topo, [{"host": 3, "rate": "3Gbps"}, {"host": 5, "rate": "1Gbps", "on": "2ms", "off": "8ms"}])

Every host of the network becomes a virtual switch (tier 0), every application a host behind it; application j of server s is
host s * apps + j. How fast an application takes its packets is the rate at which its virtual switch may send to it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from penstock_net.errors import SpecError
from penstock_net.inputs import Table, as_table, delay_ps, elements, inside, known_keys, left_out, size_bytes, time_ps, whole
from penstock_net.topology.changes import MOST_CHANGES, LinkChange, SwitchChange, check_agreement
from penstock_net.topology.graph import Topology, check_topology, make_links
from penstock_net.units import format_time, ps_per_byte

EXAMPLE = '{host = 3, rate = "3Gbps"}'
TRACE_COLUMNS = ("time", "rate")
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
    check_topology(topo)
    apps = whole(apps, "vswitches.apps", 1, 1000)
    if topo.servers is not None:
        rule = f"{topo.names[int((topo.servers.server >= 0).argmax())]} has a link to a switch within its server already"
        raise SpecError(rule, path="vswitches", remedy="leave out scale_up_rate, or the virtual switches")
    if (topo.tier[topo.hosts :] == 0).any():
        raise SpecError("this network has virtual switches already", path="vswitches", remedy="give them once")
    hosts = topo.hosts * apps
    if "receivers" in topo.params:
        raise SpecError(
            "receivers are named before the applications that they are",
            path="vswitches",
            remedy="give the virtual switches first",
        )
    links = topo.links.copy()
    for end in ("a", "b"):
        links[end] += hosts  # a server is now the virtual switch of its number, switches follow
    inner = make_links(
        np.arange(hosts),
        hosts + np.repeat(np.arange(topo.hosts), apps),
        ps_per_byte(rate, "vswitches.rate"),
        delay_ps(delay, "vswitches.delay"),
    )
    names = (*(f"host{i}" for i in range(hosts)), *(f"vswitch{i}" for i in range(topo.hosts)), *topo.names[topo.hosts :])
    changes = tuple(
        c._replace(switch=c.switch + hosts)
        if isinstance(c, SwitchChange)
        else c._replace(link=c.link + hosts, node=None if c.node is None else c.node + hosts)
        for c in topo.changes
    )
    params = {**topo.params, "vswitches": given}
    if "changes" in params:
        new = dict(zip(topo.names, names[hosts:]))
        params["changes"] = [
            {k: new[v] if k in ("a", "b", "switch", "of") else v for k, v in c.items()} for c in params["changes"]
        ]
    return Topology(
        kind=topo.kind,
        hosts=hosts,
        switches=topo.nodes,
        links=np.concatenate([inner, links]),
        names=names,
        buffer_bytes=np.concatenate([np.full(topo.hosts, size_bytes(buffer, "vswitches.buffer")), topo.buffer_bytes]),
        tier=np.concatenate([np.zeros(hosts, dtype=np.int8), topo.tier]),
        params=params,
        changes=changes,
        group=np.concatenate([topo.group[topo.host_switches - topo.hosts], topo.group]),
        label=np.concatenate([np.zeros(hosts, dtype=np.int8), topo.label]),
        headers=np.concatenate([np.zeros(topo.hosts, dtype=np.int64), topo.headers]),
    )


def with_receivers(topo: Topology, receivers: Iterable[Mapping[str, Any]]) -> Topology:
    """With hosts that take their packets at their own speed, by a list of tables.

    host    number of the application        rate    at which it takes packets, headers included
    start   from when on ("0s")              trace   a CSV file with the columns time, rate instead: any course
    on, off, until   it takes packets at `rate` for `on`, at its link's rate for `off`, and so on until `until`

    SpecError names what is wrong in which table.
    """
    check_topology(topo)
    tables = elements(receivers, "receivers", f"such as [{EXAMPLE}]")
    receivers = [as_table(table, f"receivers.{i}", EXAMPLE) for i, table in enumerate(tables)]
    changes: list[LinkChange] = []
    parts: list[list[LinkChange]] = []
    for i, table in enumerate(receivers):
        with inside(f"receivers.{i}"):
            parts.append(_changes(topo, table))
            changes += parts[-1]
            if len(changes) > MOST_CHANGES:
                rule = f"{len(changes)} changes of speed are more than {MOST_CHANGES}"
                raise SpecError(rule, remedy="let it vary more slowly")
    with inside("receivers"):
        check_agreement(parts, topo.links, topo.names)
    everybody = [*topo.params.get("receivers", ()), *receivers]
    return replace(topo, changes=(*topo.changes, *changes), params={**topo.params, "receivers": everybody})


def _changes(topo: Topology, table: Mapping[str, Any]) -> list[LinkChange]:
    known_keys(table, KEYS)
    if "host" not in table or ("rate" in table) == ("trace" in table):
        raise SpecError(f"needs a host, and either a rate or a trace, such as {EXAMPLE}")
    host = whole(table["host"], "host", 0, topo.hosts - 1)
    if topo.port_count[host] > 1:
        rule = f"{topo.names[host]} has {topo.port_count[host]} links, and a receiver's speed is that of one"
        raise SpecError(rule, path="host", value=host, remedy="write changes of the rates of its links instead")
    link, node = int(topo.host_links[topo.first_port[host]]), int(topo.host_switches[host])
    if "trace" in table:
        return [LinkChange(time, link, None, rate, node) for time, rate in _trace(str(table["trace"]))]
    slow, fast = ps_per_byte(table["rate"], "rate"), float(topo.links["ps_per_byte"][link])
    start = time_ps(table.get("start", "0s"), "start")
    if ("on" in table) != ("off" in table) or ("on" in table) != ("until" in table):
        raise SpecError("on, off and until belong together", remedy="give all three or none")
    if "on" not in table:
        return [LinkChange(start, link, None, slow, node)]
    on, off, until = (time_ps(table[key], key, positive=True) for key in ("on", "off", "until"))
    if until <= start:
        raise SpecError("must be after start, or it never takes packets at this rate", path="until", value=table["until"])
    if (until - start) // (on + off) > MOST_CHANGES // 2:
        rule = f"on + off = {format_time(on + off)} until {format_time(until)} makes more than {MOST_CHANGES} changes"
        raise SpecError(rule, remedy="let it vary more slowly")
    beginnings = range(start, until, on + off)
    return [c for t in beginnings for c in (LinkChange(t, link, None, slow, node), LinkChange(t + on, link, None, fast, node))]


def _trace(file: str) -> list[tuple[int, float]]:
    """(time, ps per byte) of a CSV file with the columns time and rate."""
    trace = Table(file, "time,rate", "trace")
    for name in TRACE_COLUMNS:
        if name not in trace.columns:
            where = trace.where(trace.header_line)
            raise SpecError("the column is missing", path=name, remedy="the header must hold time,rate", place=where)
    points = []
    for line, cells in trace.rows():
        row = dict(zip(trace.columns, cells))
        with inside(place=trace.where(line)):
            points.append((time_ps(row["time"], "time"), ps_per_byte(row["rate"], "rate")))
            if points[-1][0] in (time for time, rate in points[-2:-1] if rate != points[-1][1]):
                raise SpecError("the row before has another rate at this time", path="time", value=row["time"], remedy="keep one")
    others = [name for name in trace.columns if name not in TRACE_COLUMNS]
    if others:
        left_out(file, f"columns: {', '.join(f'{name} ({len(points)})' for name in others)}")
    if not points:
        raise SpecError("no rows below the header line", remedy='write them as "1ms,3Gbps"', place=trace.path)
    return points
