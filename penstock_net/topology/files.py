"""Graphs from files: GraphML, GML, JSON, edge lists, CSV, and topologies of other simulators. Errors name file and line."""

import csv
import difflib
import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from penstock_net import formats
from penstock_net.errors import SpecError, nearest
from penstock_net.inputs import (
    as_path,
    boolean,
    delay_ps,
    inside,
    natural,
    read_bytes,
    read_text,
    separator,
    size_bytes,
    unknown_key,
    whole,
)
from penstock_net.topology import graphs, simulators
from penstock_net.topology.attributes import Unread, meaning
from penstock_net.topology.cutthrough import HEADER
from penstock_net.topology.graph import MAX_HOSTS, Topology, make_links
from penstock_net.topology.parts import LINK_KEYS, Link, Node, Parts
from penstock_net.units import parse_size, ps_per_byte

HOST_NAMES = ("gpu", "h", "host", "server")


def _read_graphml(path: str, text: str, unread: Unread) -> Parts:
    from penstock_net.topology import graphml  # and an XML parser

    return graphml.read(path, text, unread)


READERS: dict[str, Callable[[str, str, Unread], Parts]] = {
    "graphml": _read_graphml,
    "gml": graphs.read_gml,
    "json_graph": graphs.read_json,
    "hpcc_topology": simulators.read_hpcc,
    "simai_topology": simulators.read_simai,
    "htsim_topology": simulators.read_htsim,
}


def from_file(
    path: str | Path,
    *,
    rate: str | int | float | None = None,
    delay: str | int | float | None = None,
    buffer: str | int | float = "12MB",
    hosts_per_switch: int | None = None,
    hosts: str | None = None,
) -> Topology:
    """Any graph from a file: GraphML (.graphml, .xml), GML, JSON of networkx, an edge list or CSV, or a topology of HPCC's
    simulator, SimAI or htsim.

    Edge list: `a b rate delay [loss]` per line, # comments. CSV: a header with a, b and any of rate, delay, loss.
    GraphML: edge attributes rate, delay, loss, or names that mean the same (`attributes.SYNONYMS`); node attributes kind ("host"
    or "switch"), tier (0 to 3), buffer, cut_through. A switch of tier 0, or one named nvswitch and a number, joins the GPUs of a
    server.
    `rate`, `delay` and `buffer` are for links and switches that give none. A node is a host if its kind says so; without a
    kind if its name matches the pattern `hosts`, such as "gpu*"; without that, if it has one link or, where no node has one, if
    it is named as hosts are: HOST_NAMES and a number. Hosts may have several links. Hosts and switches are numbered in natural
    order of their names (h2 before h10).
    With `hosts_per_switch`, every node is a switch unless its kind is "host", and has so many hosts at links of `rate` and
    `delay`: those of paris are paris.0, paris.1, ...

    UserWarning: what the file says and is not read, and links that have no rate or delay where others have.
    """
    file = as_path(path, "path", "a file with a graph")
    default = {"rate": rate, "delay": delay, "buffer": buffer, "hosts_per_switch": hosts_per_switch, "hosts": hosts}
    params = {"file": str(path), **{key: value for key, value in default.items() if value is not None}}
    return _read(file, params, rate=rate, delay=delay, buffer=buffer, hosts_per_switch=hosts_per_switch, pattern=hosts)


def _read(
    path: Path, params: dict[str, Any], *, rate: Any, delay: Any, buffer: Any, hosts_per_switch: Any, pattern: Any
) -> Topology:
    """The topology of a file; `rate` and `delay` for links that give none, `buffer` for switches that give none."""
    found = formats.refuse_others(read_bytes(str(path)), formats.TOPOLOGY, path)
    text = read_text(str(path))
    unread = Unread(path)
    xml = path.suffix.lower() in (".graphml", ".xml") or text.lstrip().startswith("<")
    reader = READERS["graphml"] if xml else _read_lines if found is None else READERS[found.name]
    nodes, links = reader(str(path), text, unread)
    unread.say({"rate": rate, "delay": delay})
    if not links:
        raise SpecError("has no links", remedy="write one per line, such as: host0 tor0 100Gbps 1us", place=path)
    if hosts_per_switch is not None:
        _attach_hosts(nodes, links, hosts_per_switch)
    _count_links(nodes, links)
    _name_hosts(nodes, pattern, path)
    hosts = [name for name in sorted(nodes, key=natural) if _is_host(nodes[name])]
    switches = [name for name in sorted(nodes, key=natural) if not _is_host(nodes[name])]
    if len(hosts) < 2:
        raise _no_hosts(hosts, nodes, path)
    numbers = {name: number for number, name in enumerate(hosts + switches)}
    array = _link_array(links, numbers, {"rate": rate, "delay": delay})
    array = array[np.argsort(np.minimum(array["a"], array["b"]) >= len(hosts), kind="stable")]  # host links first
    buffers = [_buffer(nodes[name], buffer) for name in switches]
    tier = _tiers(nodes, hosts, switches, links)
    cut = np.array([_cuts_through(nodes[name], level) for name, level in zip(switches, tier[len(hosts) :])])
    with inside(place=path):
        return Topology(
            kind="file",
            hosts=len(hosts),
            switches=len(switches),
            links=array,
            buffer_bytes=np.array(buffers, dtype=np.int64),
            names=tuple(numbers),
            tier=tier,
            params=params,
            headers=np.where(cut, parse_size(HEADER), 0),
        )


def _is_host(node: Node) -> bool:
    kind = node.given.get("kind")
    return node.links == 1 if kind is None else kind == "host"


def _name_hosts(nodes: dict[str, Node], pattern: Any, path: Path) -> None:
    """Gives nodes without a kind the one that their names say: as `pattern` has it or, where no node has one link, HOST_NAMES."""
    of_no_kind = {name: node for name, node in nodes.items() if node.given.get("kind") is None}
    if pattern is not None:
        if not isinstance(pattern, str):
            raise SpecError("must be a pattern of names", path="hosts", value=pattern, remedy='such as "gpu*"', place=path)
        if not any(fnmatchcase(name, pattern) for name in of_no_kind):
            remedy = nearest(pattern, list(of_no_kind)[:1000]) if of_no_kind else "all nodes have a kind already: leave it out"
            raise SpecError("matches no node without a kind", path="hosts", value=pattern, remedy=remedy, place=path)
        chosen = [fnmatchcase(name, pattern) for name in of_no_kind]
    elif of_no_kind and not any(map(_is_host, nodes.values())):
        chosen = [re.fullmatch(rf"({'|'.join(HOST_NAMES)})[-_.]?\d+", name) is not None for name in of_no_kind]
    else:
        return
    for node, is_host in zip(of_no_kind.values(), chosen):
        node.given = {**node.given, "kind": "host" if is_host else "switch"}


def _no_hosts(hosts: list[str], nodes: dict[str, Node], path: Path) -> SpecError:
    only = f" ({hosts[0]}, the only node with one link)" if hosts and "kind" not in nodes[hosts[0]].given else ""
    remedy = 'say which are, such as hosts = "gpu*", or give hosts_per_switch = 1, which makes every node a switch with so many'
    if path.suffix.lower() in (".graphml", ".xml"):
        remedy += ', or nodes a kind, "host" or "switch"'
    rule = f"has {len(hosts)} host{'s' if not hosts else ''}{only}, but a network has 2 to {MAX_HOSTS}"
    return SpecError(rule, remedy=remedy, place=path)


def _attach_hosts(nodes: dict[str, Node], links: list[Link], count: Any) -> None:
    """Makes each node that is not said to be a host a switch, with so many hosts."""
    switches = [name for name, node in nodes.items() if node.given.get("kind") != "host"]
    count = whole(count, "hosts_per_switch", 1, MAX_HOSTS // max(len(switches), 1))
    for name in switches:
        node = nodes[name]
        node.given = {**node.given, "kind": "switch"}
        for number in range(count):
            host = f"{name}.{number}"
            if host in nodes:
                raise SpecError("hosts_per_switch makes a host of this name", path="node", value=host, place=nodes[host].where)
            nodes[host] = Node(node.where, {"kind": "host"})
            links.append(Link(node.where, host, name, {}))


def _count_links(nodes: dict[str, Node], links: list[Link]) -> None:
    """Count each node's links; refuse what makes no network, while the line is known."""
    seen: dict[tuple[str, str], str] = {}
    for link in links:
        ends = frozenset((link.a, link.b))
        if len(ends) == 1:
            raise SpecError(
                f"{link.a} is linked to itself", remedy="a link joins two different nodes: remove it", place=link.where
            )
        if (link.b, link.a) in seen:
            raise SpecError(
                f"{link.a} - {link.b} was given at {seen[link.b, link.a]} already, as {link.b} - {link.a}",
                remedy="links are full duplex: keep one; write parallel links with their ends in the same order",
                place=link.where,
            )
        seen[link.a, link.b] = link.where
        for name in ends:
            nodes[name].links += 1


def _link_array(links: list[Link], numbers: dict[str, int], default: dict[str, Any]) -> np.ndarray:
    """The links as numbers, with `default` rate and delay."""
    array = make_links([numbers[link.a] for link in links], [numbers[link.b] for link in links], 0, 0)
    for row, link in zip(array, links):
        with inside(place=link.where):
            row["ps_per_byte"] = ps_per_byte(_value(link, "rate", default["rate"]), "rate")
            row["delay_ps"] = delay_ps(_value(link, "delay", default["delay"]), "delay")
            row["loss"] = _loss(_value(link, "loss", 0))
    return array


def _buffer(node: Node, default: Any) -> int:
    with inside(place=node.where):
        return size_bytes(node.given.get("buffer", default), "buffer")


def _cuts_through(node: Node, tier: int) -> bool:
    with inside(place=node.where):
        cuts = boolean(node.given.get("cut_through", False), "cut_through")
        if cuts and tier == 0:
            rule = "is of a switch of tier 0; those within servers store and forward"
            raise SpecError(rule, path="cut_through", value=True, remedy="leave it out, or give the switch a higher tier")
        return cuts


def _value(link: Link, key: str, default: Any) -> Any:
    value = link.given.get(key)
    if value not in (None, ""):
        return value
    if default is None:
        example = {"rate": "100Gbps", "delay": "1us"}[key]
        raise SpecError(
            f"link {link.a} - {link.b} has no {key}",
            remedy=f'add it, or give {key} = "{example}" for such links',
            place=link.where,
        )
    return default


def _loss(value: Any) -> float:
    try:
        loss = float(value)
    except (TypeError, ValueError):
        loss = -1.0
    if not 0 <= loss < 1:
        raise SpecError("must be a probability, at least 0 and less than 1", path="loss", value=value)
    return loss


def _tiers(nodes: dict[str, Node], hosts: list[str], switches: list[str], links: list[Link]) -> np.ndarray:
    """As given; else 0 for those named nvswitch and a number, 1 for others with hosts, one more per hop away from those, at most
    3."""
    peers: dict[str, list[str]] = {name: [] for name in nodes}
    for link in links:
        peers[link.a].append(link.b)
        peers[link.b].append(link.a)
    tier = dict.fromkeys(hosts, 0)
    frontier = hosts
    tier.update((name, 0) for name in switches if re.fullmatch(r"nvswitch[-_.]?\d+", name))
    for level in (1, 2, 3):
        frontier = sorted({peer for name in frontier for peer in peers[name] if peer not in tier})
        tier.update(dict.fromkeys(frontier, level))
    return np.array([0] * len(hosts) + [_tier(nodes[name], tier.get(name, 3)) for name in switches], dtype=np.int8)


def _tier(node: Node, derived: int) -> int:
    given = node.given.get("tier", derived)
    if str(given) not in ("0", "1", "2", "3"):
        rule = "must be 0 (within a server, such as an NVSwitch), 1 (ToR), 2 (aggregation) or 3 (core)"
        raise SpecError(rule, path="tier", value=given, place=node.where)
    return int(given)


# Edge lists and CSV


def _read_lines(path: str, text: str, unread: Unread) -> Parts:
    nodes: dict[str, Node] = {}
    links = []
    for where, row in _rows(path, text, unread):
        for name in (row["a"], row["b"]):
            nodes.setdefault(name, Node(where))
        links.append(Link(where, row.pop("a"), row.pop("b"), unread.link(row, where)))
    return nodes, links


def _rows(path: str, text: str, unread: Unread) -> Iterator[tuple[str, dict[str, str]]]:
    """Place and cells of each line; the ends of a link are "a" and "b", other cells have the names of their columns."""
    lines = [(f"{path}:{number}", line.split("#", 1)[0].strip()) for number, line in enumerate(text.splitlines(), 1)]
    lines = [(where, line) for where, line in lines if line]
    columns = ["a", "b", *LINK_KEYS]
    split: Callable[[str], list[str]] = str.split
    if lines and (separator := _separator(lines[0][1])):
        split = partial(_cells, separator=separator)
        columns = _header(lines[0][0], split(lines.pop(0)[1]))
    for where, line in lines:
        cells = split(line)
        if not 2 <= len(cells) <= len(columns):
            raise SpecError(f'"{line}" has {len(cells)} columns', remedy=f"write {' '.join(columns)}", place=where)
        row = dict(zip(columns, cells))
        if not row.get("a") or not row.get("b"):
            raise SpecError(f'"{line}" names no two nodes', remedy="write a and b", place=where)
        yield where, row


def _separator(line: str) -> str | None:
    """What separates the columns of a header; None: it is none, but a link of an edge list."""
    given = separator(line)
    names = [meaning(cell, ("a", "b"))[0] for cell in _cells(line, given)]
    return given if given in line and (given == "," or ("a" in names and "b" in names)) else None


def _cells(line: str, separator: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([line], delimiter=separator))]


def _header(where: str, names: list[str]) -> list[str]:
    """The names of the columns, "a" and "b" for the ends of a link."""
    columns: list[str] = []
    for name in names:
        key, _ = meaning(name, ("a", "b", *LINK_KEYS))
        if key is None and difflib.get_close_matches(name.lower(), LINK_KEYS, 1, 0.75):
            raise unknown_key(name, ("a", "b", *LINK_KEYS), what="column").within(place=where)
        column = key if key in ("a", "b") else name
        if column in columns:
            raise SpecError("the column occurs twice", path=name, remedy="keep one", place=where)
        columns.append(column)
    for column in ("a", "b"):
        if column not in columns:
            raise SpecError(f'no column "{column}"', remedy="the header is a,b,rate,delay[,loss]", place=where)
    return columns
