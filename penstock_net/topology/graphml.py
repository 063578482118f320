"""What a GraphML file says that a graph made of it would not: lines, nodes declared twice or not at all, several graphs."""

from xml.parsers import expat

from penstock_net.errors import SpecError, nearest

_PARENTS = {"node": "graph", "edge": "graph", "graph": "graphml"}
_SHOWN = 1000  # names among which the nearest is looked for


class Elements:
    """The nodes (name -> line) and the edges (source, target, line) of a well-formed file, in its order, and the attributes that
    nodes and edges have by default.

    SpecError with the line: two graphs, a node without a name or with that of another, an edge without an end or to an undeclared
    node, an element or value that is there twice or in the wrong place.
    """

    def __init__(self, path: object, text: str) -> None:
        self.path = path
        self.nodes: dict[str, int] = {}
        self.edges: list[tuple[str, str, int]] = []
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
