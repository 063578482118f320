"""Graphs in GML, as networkx reads it, and in the JSON of networkx.node_link_data. Errors name elements: lines are not known."""

import json
from collections.abc import Iterable
from typing import Any

from penstock_net.errors import SpecError
from penstock_net.inputs import as_table, as_tables, inside
from penstock_net.topology.attributes import Unread
from penstock_net.topology.parts import Link, Node, Parts, check_kind

_STRUCTURE = ("directed", "multigraph")


def read_gml(path: str, text: str, unread: Unread) -> Parts:
    """The nodes, named by their labels if all have different ones, else by their ids, and the links of a file in GML."""
    import networkx

    try:
        graph = networkx.parse_gml(text, label="id")
    except Exception as error:  # networkx raises many kinds
        rule = f"is not readable GML ({' '.join(str(error).split())[:200]})"
        raise SpecError(rule, remedy="correct it, or give an edge list", place=path) from None
    labels = {node: given.get("label") for node, given in graph.nodes(data=True)}
    named = all(isinstance(label, str) and label for label in labels.values()) and len(set(labels.values())) == len(labels)
    names = {node: str(label if named else node) for node, label in labels.items()}
    nodes = (
        (names[node], {k: v for k, v in given.items() if not (named and k == "label")}) for node, given in graph.nodes(data=True)
    )
    edges = ((names[a], names[b], given) for a, b, given in graph.edges(data=True))
    return _parts(path, nodes, edges, graph.graph, unread)


def read_json(path: str, text: str, unread: Unread) -> Parts:
    """The nodes and links of an object of `nodes` (each with an id) and `links` or `edges` (each with source and target)."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SpecError(f"is not JSON: {str(error)[:80]}", place=path) from None
    with inside(place=path):
        given = as_table(given, "graph")
        if "links" in given and "edges" in given:
            raise SpecError("there are links, too", path="edges", remedy="keep one")
        key = "links" if "links" in given else "edges"
        nodes = []
        for i, node in enumerate(as_tables(given.get("nodes"), "nodes")):
            nodes.append((_end(node, "id", f"nodes.{i}"), {name: value for name, value in node.items() if name != "id"}))
        edges = []
        for i, edge in enumerate(as_tables(given.get(key), key)):
            a, b = (_end(edge, end, f"{key}.{i}") for end in ("source", "target"))
            others = ("source", "target", "key") if given.get("multigraph") else ("source", "target")
            edges.append((a, b, {name: value for name, value in edge.items() if name not in others}))
        more = dict(as_table(given.get("graph", {}), "graph"))
    for name in given.keys() - {"nodes", key, "graph", *_STRUCTURE}:
        unread.count("keys", name)
    return _parts(path, nodes, edges, more, unread)


def _end(given: dict[str, Any], key: str, path: str) -> str:
    if key not in given:
        raise SpecError("is missing", path=f"{path}.{key}")
    value = given[key]
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise SpecError("must be the name or the number of a node", path=f"{path}.{key}", value=value)
    return str(value)


def _parts(
    path: str,
    nodes: Iterable[tuple[str, dict[str, Any]]],
    edges: Iterable[tuple[str, str, dict[str, Any]]],
    more: dict[str, Any],
    unread: Unread,
) -> Parts:
    found: dict[str, Node] = {}
    for name, given in nodes:
        where = f"{path}: node {name}"
        if name in found:
            raise SpecError("another node has this name", place=where)
        found[name] = check_kind(name, Node(where, unread.node(given, where)))
    links = []
    for a, b, given in edges:
        where = f"{path}: edge {a} - {b}"
        for end in (a, b):
            if end not in found:
                raise SpecError("no node has this name", value=end, place=where)
        links.append(Link(where, a, b, unread.link(given, where)))
    for name in more:
        unread.count("attributes of the graph", str(name))
    return found, links
