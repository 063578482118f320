"""Graphs from files: GraphML, edge lists, CSV. Every error names the file and the line."""

import csv
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from penstock.errors import SpecError
from penstock.inputs import as_path, inside, read_text, size_bytes, time_ps, unknown_key
from penstock.topology.graph import Topology, make_links
from penstock.units import ps_per_byte

LINK_KEYS = ("rate", "delay", "loss")
NODE_KEYS = ("kind", "tier", "buffer")
NODE_KINDS = ("host", "switch")


@dataclass
class _Link:
    where: str
    a: str
    b: str
    given: dict[str, Any]  # of LINK_KEYS


@dataclass
class _Node:
    where: str
    given: dict[str, Any] = field(default_factory=dict)  # of NODE_KEYS
    links: int = 0


def from_file(
    path: str | Path,
    *,
    rate: str | int | float | None = None,
    delay: str | int | float | None = None,
    buffer: str | int | float = "12MB",
) -> Topology:
    """Any graph from a file: GraphML (.graphml, .xml), an edge list or CSV.

    Edge list: `a b rate delay [loss]` per line, # comments. CSV: a header with a, b and any of rate, delay, loss.
    GraphML: edge attributes rate, delay, loss; node attributes kind ("host" or "switch"), tier (1 to 3), buffer.
    `rate`, `delay` and `buffer` are for links and switches that give none. A node is a host if its kind says so or,
    without a kind, if it has one link. Hosts and switches are numbered in natural order of their names (h2 before h10).
    """
    file = as_path(path, "path", "a file with a graph")
    default = {"rate": rate, "delay": delay, "buffer": buffer}
    params = {"file": str(path), **{key: value for key, value in default.items() if value is not None}}
    return _read(file, params, rate=rate, delay=delay, buffer=buffer)


def _read(path: Path, params: dict[str, Any], *, rate: Any, delay: Any, buffer: Any) -> Topology:
    """The topology of a file; `rate` and `delay` for links that give none, `buffer` for switches that give none."""
    text = read_text(str(path))
    graphml = path.suffix.lower() in (".graphml", ".xml") or text.lstrip().startswith("<")
    nodes, links = _read_graphml(path, text) if graphml else _read_lines(path, text)
    if not links:
        raise SpecError("has no links", remedy="write one per line, such as: host0 tor0 100Gbps 1us", place=path)
    _count_links(nodes, links)
    hosts = [name for name in sorted(nodes, key=_natural) if _is_host(nodes[name])]
    switches = [name for name in sorted(nodes, key=_natural) if not _is_host(nodes[name])]
    numbers = {name: number for number, name in enumerate(hosts + switches)}
    array = _link_array(links, numbers, {"rate": rate, "delay": delay})
    array = array[np.argsort(np.minimum(array["a"], array["b"]) >= len(hosts), kind="stable")]  # host links first
    buffers = [_buffer(nodes[name], buffer) for name in switches]
    tier = _tiers(nodes, hosts, switches, links)
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
        )


def _natural(name: str) -> list[tuple[int, int, str]]:
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name) if part]


def _is_host(node: _Node) -> bool:
    kind = node.given.get("kind")
    return node.links == 1 if kind is None else kind == "host"


def _count_links(nodes: dict[str, _Node], links: list[_Link]) -> None:
    """Count each node's links; refuse what makes no network, while the line is known."""
    seen: dict[frozenset[str], str] = {}
    for link in links:
        ends = frozenset((link.a, link.b))
        if len(ends) == 1:
            raise SpecError(
                f"{link.a} is linked to itself", remedy="a link joins two different nodes: remove it", place=link.where
            )
        if ends in seen:
            raise SpecError(
                f"{link.a} - {link.b} was given at {seen[ends]} already",
                remedy="links are full duplex, at most one between two nodes: keep one",
                place=link.where,
            )
        seen[ends] = link.where
        for name in ends:
            node = nodes[name]
            node.links += 1
            if node.given.get("kind") == "host" and node.links > 1:
                raise SpecError(
                    f"host {name} has a second link",
                    remedy=f'a host has exactly one: remove it, or make {name} a "switch"',
                    place=link.where,
                )


def _link_array(links: list[_Link], numbers: dict[str, int], default: dict[str, Any]) -> np.ndarray:
    """The links as numbers, with `default` rate and delay."""
    array = make_links([numbers[link.a] for link in links], [numbers[link.b] for link in links], 0, 0)
    for row, link in zip(array, links):
        with inside(place=link.where):
            row["ps_per_byte"] = ps_per_byte(_value(link, "rate", default["rate"]), "rate")
            row["delay_ps"] = time_ps(_value(link, "delay", default["delay"]), "delay", positive=True)
            row["loss"] = _loss(_value(link, "loss", 0))
    return array


def _buffer(node: _Node, default: Any) -> int:
    with inside(place=node.where):
        return size_bytes(node.given.get("buffer", default), "buffer")


def _value(link: _Link, key: str, default: Any) -> Any:
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


def _tiers(nodes: dict[str, _Node], hosts: list[str], switches: list[str], links: list[_Link]) -> np.ndarray:
    """As given; else 1 for switches with hosts, one more per hop away from those, at most 3."""
    peers: dict[str, list[str]] = {name: [] for name in nodes}
    for link in links:
        peers[link.a].append(link.b)
        peers[link.b].append(link.a)
    tier = dict.fromkeys(hosts, 0)
    frontier = hosts
    for level in (1, 2, 3):
        frontier = sorted({peer for name in frontier for peer in peers[name] if peer not in tier})
        tier.update(dict.fromkeys(frontier, level))
    return np.array([0] * len(hosts) + [_tier(nodes[name], tier.get(name, 3)) for name in switches], dtype=np.int8)


def _tier(node: _Node, derived: int) -> int:
    given = node.given.get("tier", derived)
    if str(given) not in ("1", "2", "3"):
        raise SpecError("must be 1 (ToR), 2 (aggregation) or 3 (core)", path="tier", value=given, place=node.where)
    return int(given)


# Edge lists and CSV


def _read_lines(path: Path, text: str) -> tuple[dict[str, _Node], list[_Link]]:
    rows = _rows(path, text)
    nodes: dict[str, _Node] = {}
    links = []
    for where, row in rows:
        for name in (row["a"], row["b"]):
            nodes.setdefault(name, _Node(where))
        links.append(_Link(where, row["a"], row["b"], {key: row[key] for key in LINK_KEYS if key in row}))
    return nodes, links


def _rows(path: Path, text: str) -> Iterator[tuple[str, dict[str, str]]]:
    lines = [(f"{path}:{number}", line.split("#", 1)[0].strip()) for number, line in enumerate(text.splitlines(), 1)]
    lines = [(where, line) for where, line in lines if line]
    columns = ["a", "b", *LINK_KEYS]
    split: Callable[[str], list[str]] = str.split
    if lines and "," in lines[0][1]:
        columns, split = _header(*lines.pop(0)), _cells
    for where, line in lines:
        cells = split(line)
        if not 2 <= len(cells) <= len(columns):
            raise SpecError(f'"{line}" has {len(cells)} columns', remedy=f"write {' '.join(columns)}", place=where)
        row = dict(zip(columns, cells))
        if not row.get("a") or not row.get("b"):
            raise SpecError(f'"{line}" names no two nodes', remedy="write a and b", place=where)
        yield where, row


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([line]))]


def _header(where: str, line: str) -> list[str]:
    columns = _cells(line)
    for column in columns:
        if column not in ("a", "b", *LINK_KEYS):
            raise unknown_key(column, ("a", "b", *LINK_KEYS), what="column").within(place=where)
    for column in ("a", "b"):
        if column not in columns:
            raise SpecError(f'no column "{column}"', remedy="the header is a,b,rate,delay[,loss]", place=where)
    return columns


# GraphML


def _read_graphml(path: Path, text: str) -> tuple[dict[str, _Node], list[_Link]]:
    try:
        graph = nx.parse_graphml(text, node_type=str)
    except Exception as error:  # networkx and its XML parsers raise many kinds
        at = f":{error.position[0]}" if hasattr(error, "position") else ""
        raise SpecError(
            f"is not readable GraphML ({error})", remedy="correct it, or give an edge list", place=f"{path}{at}"
        ) from None
    node_lines = {ends[0]: line for ends, line in _positions(text, "node", "id")}
    written: dict[frozenset[str], list[tuple[int, int, tuple[str, ...]]]] = {}
    for order, (ends, line) in enumerate(_positions(text, "edge", "source", "target")):
        written.setdefault(frozenset(ends), []).append((order, line, ends))
    nodes = {}
    for name, given in graph.nodes(data=True):
        node = nodes[name] = _Node(f"{path}:{node_lines.get(name, 1)}", given)
        kind = given.get("kind")
        if kind is not None and kind not in NODE_KINDS:
            raise SpecError(f'node {name}: must be "host" or "switch"', path="kind", value=kind, place=node.where)
    links = []
    for a, b, given in graph.edges(data=True):  # in the order of nodes, ends as it pleases: put back as written
        order, line, ends = (written.get(frozenset((a, b))) or [(0, 1, (a, b))]).pop(0)
        links.append((order, _Link(f"{path}:{line}", ends[0], ends[1], given)))
    return nodes, [link for _, link in sorted(links, key=lambda pair: pair[0])]


def _positions(text: str, tag: str, *keys: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """(attributes, line) of each such element."""
    for element in re.finditer(rf"<{tag}\b[^>]*>", text):
        found = {key: re.search(rf"""\b{key}\s*=\s*["']([^"']*)["']""", element.group()) for key in keys}
        line = text.count("\n", 0, element.start()) + 1
        yield tuple(match.group(1) if match else "" for match in found.values()), line
