"""Graphs in GraphML, as networkx reads them, with what it does not tell: lines, nodes declared twice or not at all, several
graphs, elements and attributes that it leaves out."""

from collections import Counter
from xml.parsers import expat

from penstock_net.errors import SpecError, nearest
from penstock_net.topology.attributes import Unread
from penstock_net.topology.parts import Link, Node, Parts, check_kind

_PARENTS = {"node": "graph", "edge": "graph", "graph": "graphml"}
_SHOWN = 1000  # names among which the nearest is looked for
_ATTRIBUTES = {  # elements that are read, and those of their attributes that mean something, or have no meaning to lose
    "graphml": (),
    "graph": ("id", "edgedefault"),
    "node": ("id",),
    "edge": ("id", "source", "target", "directed"),
    "key": ("id", "for", "attr.name", "attr.type", "yfiles.type"),
    "data": ("key",),
    "default": (),
}


def read(path: str, text: str, unread: Unread) -> Parts:
    """The nodes and links of a file.  SpecError: it is not GraphML, or see `Elements`."""
    import networkx

    try:
        graph = networkx.parse_graphml(text, node_type=str)
    except Exception as error:  # networkx and its XML parsers raise many kinds
        position = getattr(error, "position", ())
        at = f":{position[0]}" if position else ""
        raise SpecError(
            f"is not readable GraphML ({error})", remedy="correct it, or give an edge list", place=f"{path}{at}"
        ) from None
    found = Elements(path, text)
    if graph.number_of_edges() != len(found.edges):
        rule = f"has {len(found.edges)} edges, of which {graph.number_of_edges()} can be read"
        raise SpecError(rule, remedy="give parallel edges different ids, and all elements one namespace", place=path)
    written: dict[frozenset[str], list[tuple[int, int, tuple[str, str]]]] = {}
    for order, (a, b, line) in enumerate(found.edges):
        written.setdefault(frozenset((a, b)), []).append((order, line, (a, b)))
    nodes = {}
    for name, given in graph.nodes(data=True):
        where = f"{path}:{found.nodes[name]}"
        nodes[name] = check_kind(name, Node(where, unread.node({**found.defaults["node"], **given}, where)))
    links = []
    for a, b, given in graph.edges(data=True):  # in the order of nodes, ends as it pleases: put back as written
        order, line, ends = written[frozenset((a, b))].pop(0)
        where = f"{path}:{line}"
        attributes = {key: value for key, value in {**found.defaults["edge"], **given}.items() if key != "id"}
        links.append((order, Link(where, ends[0], ends[1], unread.link(attributes, where))))
    for name in graph.graph.keys() - {"node_default", "edge_default"}:
        unread.count("attributes of the graph", str(name))
    for what, count in found.unread.items():
        unread.count("XML", what, count)
    return nodes, [link for _, link in sorted(links, key=lambda pair: pair[0])]


class Elements:
    """The nodes (name -> line) and the edges (source, target, line) of a well-formed file, in its order, the attributes that
    nodes and edges have by default, and elements and attributes of XML that mean nothing here.

    SpecError with the line: two graphs, a node without a name or with that of another, an edge without an end or to an undeclared
    node, an element or value that is there twice or in the wrong place.
    """

    def __init__(self, path: object, text: str) -> None:
        self.path = path
        self.nodes: dict[str, int] = {}
        self.edges: list[tuple[str, str, int]] = []
        self.unread: Counter[str] = Counter()
        self.defaults: dict[str, dict[str, str | float]] = {"node": {}, "edge": {}}
        self._key: dict[str, str] = {}  # the attributes of the last <key>
        self._text = ""  # of the present <default>
        self._graph = 0  # line
        self._open: list[str] = []
        self._keys: dict[tuple[str, str], int] = {}  # of <data> in the present node or edge, of <key>
        self._parser = expat.ParserCreate("utf-8")
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._read
        self._parser.Parse(text.encode(), True)
        for source, target, line in self.edges:
            for key, name in (("source", source), ("target", target)):
                if name not in self.nodes:
                    remedy = nearest(name, [*self.nodes][:_SHOWN])
                    raise self._error("no node has this id", line, path=f"edge.{key}", value=name, remedy=remedy)

    def _start(self, tag: str, given: dict[str, str]) -> None:
        tag, line = tag.rpartition(":")[2], self._parser.CurrentLineNumber
        parent = self._open[-1] if self._open else ""
        if tag in _PARENTS and parent != _PARENTS[tag]:
            raise self._error(f"<{tag}> must be in <{_PARENTS[tag]}>", line)
        if "data" not in self._open:  # what is within one is its value
            self._count_unread(tag, given)
        self._open.append(tag)
        if tag == "graph":
            if self._graph:
                raise self._error(f"is a second graph, the first begins at line {self._graph}", line, remedy="keep one")
            self._graph = line
        elif tag == "node":
            name = self._given(given, "node", "id", line)
            if name in self.nodes:
                raise self._error(f"line {self.nodes[name]} has this node already", line, path="node.id", value=name)
            self.nodes[name] = line
        elif tag == "edge":
            ends = [self._given(given, "edge", key, line) for key in ("source", "target")]
            self.edges.append((ends[0], ends[1], line))
        elif tag in ("key", "data"):
            key = (tag, self._given(given, tag, "id" if tag == "key" else "key", line))
            if key in self._keys:
                raise self._error(f"<{tag}> is at line {self._keys[key]} already", line, value=key[1], remedy="keep one")
            self._keys[key] = line
            self._key = given if tag == "key" else self._key
        if tag in _PARENTS:
            self._keys = {key: at for key, at in self._keys.items() if key[0] == "key"}
        self._text = ""

    def _count_unread(self, tag: str, given: dict[str, str]) -> None:
        if tag not in _ATTRIBUTES:
            self.unread[f"<{tag}>"] += 1
            return
        for name in given:
            known = name in _ATTRIBUTES[tag] or name.startswith(("xmlns", "xml:", "xsi:", "parse.", "yfiles."))
            if not known:
                self.unread[f"{name} of <{tag}>"] += 1

    def _read(self, text: str) -> None:
        self._text += text if self._open[-1] == "default" else ""

    def _end(self, tag: str) -> None:
        if self._open.pop() == "default" and self._text.strip():
            number = {"int": int, "long": int, "float": float, "double": float}.get(self._key.get("attr.type", ""))
            value = number(self._text) if number else self._text
            for owner, found in self.defaults.items():
                if self._key.get("for", "all") in (owner, "all"):
                    found[self._key.get("attr.name", "")] = value

    def _given(self, given: dict[str, str], tag: str, key: str, line: int) -> str:
        if not given.get(key, "").strip():
            raise self._error("is missing or empty", line, path=f"{tag}.{key}", remedy=f'write <{tag} {key}="..."')
        return given[key]

    def _error(self, rule: str, line: int, **more: object) -> SpecError:
        return SpecError(rule, place=f"{self.path}:{line}", **more)  # type: ignore[arg-type]
