"""Parses what a scheme file declares and generates its .pxd: structs, accessors, function signatures.

    parameters   = {"eta": ("float64", 0.95, "target utilisation (section 3.3)")}   what a user may set: type, default, meaning
    presets      = {"ns3": {"uses": ["pfc:ns3"], "eta": 0.9, "host.ack_priority": "data"}}
    includes     = ["pfc"]                                          schemes that come with it
    title        = "HPCC"                                           its constructor, ps.HPCC; else made of the file's name
    fabric       = {"queues": "queues", "buffer": "unbounded"}      requests to switches and hosts: numbers or expressions
    when         = {"on_data": "cnp_interval"}      a hook that there is only if this parameter is not 0
    governs      = {"watchdog": ["poll"]}   parameters without effect while this one has its default
    structs      = {"entry": {"expires": "time", "queue": "int32"}}                 record types
    port_state   = {"empty": "mask[16]", "flow_table": "entry[queues * table]"}   also packet_, queue_, flow_, node_, scheme_state
    packet_state = "telemetry"                                      that of an included scheme, for this one, too
    frame_state  = {"dsts": "int16[32]"}                            fields of the scheme's control frames
    counts       = {"moved": "flows that took another path"}        numbers of a node that grow; also port_counts, flow_counts
    records      = {"tokens": "tokens left"}        fields of node_state that are recorded; also port_records, flow_records
    LIMIT = 3                                                       constants: upper case

An array of more than 256 bytes, or one whose length is an expression of parameters, becomes a pointer to a table that the
fabric allocates.  Elements of a record array are reached through NAME_at(owner, index).
"""

import ast
import difflib
import keyword
import re
import warnings
from collections.abc import Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from penstock_net.composition.hooks import HOOKS, VERBS, verbs_of

C_TYPES = {
    "int8": ("int8_t", 1),
    "int16": ("int16_t", 2),
    "int32": ("int32_t", 4),
    "int64": ("int64_t", 8),
    "time": ("int64_t", 8),
    "bytes": ("int64_t", 8),
    "rate": ("double", 8),
    "bool": ("int32_t", 4),
    "mask": ("uint64_t", 8),
    "float64": ("double", 8),
}
FORMATS = {"int8_t": "b", "int16_t": "h", "int32_t": "i", "int64_t": "q", "uint64_t": "Q", "double": "d"}  # of memoryview
OWNERS = {
    "packet": "Packet* pkt",
    "port": "Port* port",
    "queue": "Queue* queue",
    "flow": "Flow* flow",
    "node": "Node* node",
    "frame": "Packet* pkt",
    "incoming": "Incoming* incoming",
}
ANNOTATED = {"int": "int64_t", "float": "double"}
INLINE_LIMIT = 256
FLOW_LIMIT = 16384  # of a flow, which has no tables
COUNTING = {"node": "", "port": "port_", "flow": "flow_"}  # what counts and records are of -> how these tables begin
SCHEMES = Path(__file__).parents[1] / "schemes"
# C types that the generated .pxd needs
TYPES = (
    *("int8_t", "int16_t", "int32_t", "int64_t", "uint16_t", "uint64_t"),
    *("Flow", "Incoming", "Node", "Packet", "Places", "Port", "Queue", "at"),
)
CONSTANTS = (
    *("ACK", "DATA", "LAST", "NACK", "RETRANSMITTED", "RETURNED", "TRIMMED", "UNANSWERED"),
    *("PAUSE", "REFRESH", "RESUME", "CONTROL_SIZE", "NEVER"),
    *("DROPPED", "ADMITTED", "TRIM", "RETURN", "NO_HEADROOM", "BY_DEFAULT"),
    *("NO_FLOW", "NO_INCOMING", "NO_PACKET", "NO_PORT", "NO_QUEUE"),
    *("RANDOM_MARK", "RANDOM_PATH", "RANDOM_QUEUE", "RANDOM_USER"),
)
GIVEN = {  # names that a scheme is given, by module of the fabric
    home: (*(CONSTANTS if home == "state" else ()), *verbs_of(home))
    for home in ("state", "arithmetic", "queueing", "routing", "pacing", "incoming", "line", "ranking", "switch")
}
DECLARED = {  # what a file may assign to, beside constants
    *("title", "includes", "presets", "fabric", "parameters", "structs", "scheme_state", "when", "governs"),
    *(f"{owner}_state" for owner in OWNERS),
    *(f"{prefix}{what}" for what in ("counts", "records") for prefix in COUNTING.values()),
}
RESERVED = ("name", "label", "unusual", "unchecked", "plain_switches", "host")  # of [scheme], so no names of parameters
TABLES_OF = ("node", "port")  # whose tables the fabric allocates; and the scheme's own
NO_IMPORT = "a scheme imports nothing: runs are the same everywhere; sqrt, exp, log, power, min, max and abs are there without"
TOP = {  # why other statements are not possible at the top of a file
    ast.Import: NO_IMPORT,
    ast.ImportFrom: NO_IMPORT,
    ast.ClassDef: "a class is not possible; declare structs or ..._state",
    ast.AsyncFunctionDef: "async is not possible",
    ast.Expr: "a scheme file has declarations and functions only; this has no effect",
}
INLINED = ("queueing", "routing")  # modules whose bodies setup.py copies into NAME_inline.pxd
RENAMED = {"gap": "pacing_gap", "least_gap": "fc_gap"}  # fields of the fabric's structs that had other names


WORDS = {  # that are no names in C or Python
    *keyword.kwlist,
    *("auto", "case", "char", "const", "default", "do", "double", "enum", "extern", "float", "goto", "inline", "int", "long"),
    *("register", "restrict", "return", "short", "signed", "sizeof", "static", "struct", "switch", "typedef", "union"),
    *("unsigned", "void", "volatile", "at", "cdef", "cpdef", "cimport", "ctypedef", "include", "bint", "NULL"),
}


class DeclarationError(Exception):
    """A mistake in what a scheme file declares; `line` is 0 if unknown."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


def is_name(name: Any) -> bool:
    """Whether a name can be one in C and in Python."""
    return isinstance(name, str) and bool(re.fullmatch(r"[A-Za-z]\w*", name, re.A)) and name not in WORDS


def class_of(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def c_type(kind: str) -> str:
    """The declared type behind a parameter's: "int32 1..256" is an int32 with a range, as are choices and sets."""
    word = kind.split()[0]
    return "int32" if word in ("choice", "set") else word


class Field:
    """One field of a record.  size: bytes of one element; table: whether the field is a pointer to memory of its own."""

    def __init__(self, name: str, text: str, records: Mapping[str, "Record"], inline: int = INLINE_LIMIT) -> None:
        match = re.fullmatch(r"(\w+)(?:\[(.+)\])?", str(text))
        if not match or (match[1] not in C_TYPES and match[1] not in records):
            raise DeclarationError(f'{name}: unknown type "{text}"; known: {", ".join([*C_TYPES, *records])}')
        if name == "at":
            raise DeclarationError(
                '"at" cannot be the name of a field: me.at is the scheme\'s place in the network; take another'
            )
        if not is_name(name):
            raise DeclarationError(
                f'"{name}" cannot be the name of a field; use letters, digits and _, and no word of C or Python'
            )
        self.name, self.element, self.length = name, match[1], match[2]
        self.record = records.get(self.element)
        self.is_record = self.record is not None
        self.size = int(self.record.size if self.record else C_TYPES[self.element][1])
        fixed = self.length.isdigit() if self.length else True
        self.table = bool(self.length) and (not fixed or self.size * int(self.length or 1) > inline)
        self.at = 0

    def c(self) -> str:
        kind = class_of(self.element) if self.is_record else C_TYPES[self.element][0]
        if self.table:
            return f"    {kind}* {self.name}\n    int64_t {self.name}_count"
        return f"    {kind} {self.name}" + (f"[{self.length}]" if self.length else "")

    def space(self) -> tuple[int, int]:
        """Bytes and alignment inside the record."""
        if self.table:
            return 16, 8
        return self.size * int(self.length or 1), 8 if self.is_record else self.size

    def read(self, memory: bytes) -> list[Any]:
        """Its elements, from the memory of one or more of them: numbers, or records as dicts."""
        if self.record is None:
            return list(memoryview(memory).cast(FORMATS[C_TYPES[self.element][0]]))  # type: ignore[call-overload]
        starts = range(0, len(memory), self.size)
        fields = [(f.name, f.length, f.at, f.space()[0], f) for f in self.record.fields]
        cut = [[(name, length, f.read(memory[i + at : i + at + size])) for name, length, at, size, f in fields] for i in starts]
        return [{name: found if length else found[0] for name, length, found in row} for row in cut]


class Record:
    """C layout of {"field": "type"} with natural alignment, as the compiler lays it out; size and align in bytes."""

    def __init__(
        self, fields: Mapping[str, str], records: Mapping[str, "Record"], pad: int = 8, inline: int = INLINE_LIMIT
    ) -> None:
        self.fields: list[Field] = []
        at, widest = 0, 1
        for name, text in fields.items():
            field = Field(name, text, records, inline)
            size, align = field.space()
            field.at = -(-at // align) * align
            at, widest = field.at + size, max(widest, align)
            self.fields.append(field)
        self.size: int = -(-at // widest) * widest if self.fields else 0
        self.align = widest

    def c(self, name: str, first: str = "") -> str:
        return f"cdef struct {name}:\n" + first + "\n".join(f.c() for f in self.fields) + "\n"


def _sets_rate(node: ast.AST) -> bool:
    """Whether a statement sets a flow's rate or window as a congestion control does: not as a bound on what it was."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "set_rate"
    if not isinstance(node, ast.Assign):
        return False
    window = [ast.unparse(t) for t in node.targets if isinstance(t, ast.Attribute) and t.attr == "window"]
    flows = [text for text in window if text == "flow.window"]
    return bool(flows) and not any(
        isinstance(n, ast.Attribute) and n.attr == "window" and ast.unparse(n) in flows for n in ast.walk(node.value)
    )


def _sets_priority(node: ast.AST) -> bool:
    """Whether a statement sets the priority of a packet or frame."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
    return any(isinstance(t, ast.Attribute) and t.attr == "priority" for t in targets)


def _called(nodes: list[ast.AST]) -> set[str]:
    """The functions that are called by their name."""
    return {n.func.id for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}


def _answers(nodes: list[ast.AST]) -> set[str]:
    """TRIM and RETURN, if the functions have them: `admit`, or what it calls, may give these answers."""
    return {n.id for n in nodes if isinstance(n, ast.Name) and n.id in ("TRIM", "RETURN")}


def _target(n: ast.Assign) -> str:
    """The one name that an assignment declares; "" if it is not one name."""
    return n.targets[0].id if len(n.targets) == 1 and isinstance(n.targets[0], ast.Name) else ""


class Declarations:
    """What one scheme file declares."""

    def __init__(self, path: Path, source: str | None = None) -> None:
        self.path, self.name = path, path.stem
        self.source = path.read_text() if source is None else source
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(self.source)
        self.doc = ast.get_docstring(tree) or ""
        self.functions = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
        self._values = {_target(n): n.value for n in tree.body if isinstance(n, ast.Assign) and _target(n)}
        self._check_top(tree)
        named = [name for name in self._values if name.isupper()]
        self.constants = {name: "double" if isinstance(self.constant(name), float) else "int64_t" for name in named}
        self._check_tables()
        self.includes: list[str] = self._read("includes", [])
        self.shared = self._shared()
        self._read_structs()
        self.state = self._states()
        self.records_of = self._recorded()
        self.parameters = self._parameters()
        self.own = self._own()
        self.presets: dict[str, dict[str, Any]] = self._read("presets", {})
        self.title = str(self._read("title", class_of(self.name)))
        self.fabric: dict[str, Any] = self._read("fabric", {})
        nodes = [node for function in self.functions for node in ast.walk(function)]
        self.controls_congestion = any(map(_sets_rate, nodes))
        self.answers = _answers(nodes) - self.defined()
        self.me = next((f.args.args[0].arg for f in self.functions if f.name in HOOKS and f.args.args), "me")
        self.hooks = {f.name for f in self.functions if f.name in HOOKS}
        self.when: dict[str, str] = self._read("when", {})
        self.governs: dict[str, list[str]] = self._read("governs", {})
        self._check_hooks(nodes)
        self._check_when()

    def hooks_with(self, values: Mapping[str, Any]) -> set[str]:
        """The hooks that the scheme has with these values of its parameters."""
        return {name for name in self.hooks if name not in self.when or values[self.when[name]]}

    def sets_priority(self, values: Mapping[str, Any]) -> bool:
        """Whether a hook that the scheme has with these values, or what it calls, sets the priority of a packet or frame."""
        return bool(self.hooks_with(values) & self._setting_priority)

    @cached_property
    def _setting_priority(self) -> set[str]:
        """The functions that set a priority, or call one that does."""
        bodies = {f.name: list(ast.walk(f)) for f in self.functions}
        found = {name for name, nodes in bodies.items() if any(map(_sets_priority, nodes))}
        while more := {name for name, nodes in bodies.items() if found & _called(nodes)} - found:
            found |= more
        return found

    def _check_top(self, tree: ast.Module) -> None:
        """Refuse what is neither a declaration nor a function, and functions that are none of a scheme's."""
        for i, n in enumerate(tree.body):
            if isinstance(n, ast.FunctionDef):
                self._check_function(n)
            elif isinstance(n, ast.Assign):
                self._check_assignment(n)
            elif not (i == 0 and isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)):
                raise DeclarationError(next((t for k, t in TOP.items() if isinstance(n, k)), TOP[ast.Expr]), n.lineno)

    def _check_function(self, n: ast.FunctionDef) -> None:
        a = n.args
        if n.decorator_list or a.vararg or a.kwarg or a.kwonlyargs or a.posonlyargs or a.defaults:
            raise DeclarationError(f"{n.name}: a function has plain arguments, no defaults and no decorator", n.lineno)
        if sum(f.name == n.name for f in self.functions) > 1:
            raise DeclarationError(f"{n.name} is defined twice", n.lineno)
        if not is_name(n.name):
            raise DeclarationError(f'"{n.name}" cannot be the name of a function; choose another', n.lineno)

    def _check_assignment(self, n: ast.Assign) -> None:
        name = _target(n)
        if not name:
            raise DeclarationError("one assignment declares one name", n.lineno)
        if not name.isupper() and name not in DECLARED:
            near = difflib.get_close_matches(name, sorted(DECLARED), n=1)
            hint = f'did you mean "{near[0]}"?' if near else "a constant is in upper case"
            hint = f"those of nodes are {name[5:]}" if name in ("node_counts", "node_records") else hint
            raise DeclarationError(f'"{name}" is nothing that a scheme declares; {hint}', n.lineno)

    def _read_structs(self) -> None:
        """The record types; those of an included scheme whose packet state this one shares come first."""
        self.records: dict[str, Record] = dict(self.shared.records) if self.shared else {}
        taken = {*OWNERS, *self.records}
        for name, fields in self._read("structs", {}).items():
            if not is_name(name) or class_of(name) in TYPES or class_of(name).startswith(("Me", "My", "Guard")) or name in taken:
                raise self._mistake("structs", f'structs: "{name}" is taken or no name; choose another')
            self.records[name] = self._record("structs", fields, name)

    def _states(self) -> dict[str, Record]:
        """What the scheme adds to packets, ports, queues, flows, nodes, frames and incoming flows."""
        own = {owner: {} if owner == "packet" and self.shared else self._read(owner + "_state", {}) for owner in OWNERS}
        self.counts = {owner: self._named(prefix + "counts") for owner, prefix in COUNTING.items()}
        for owner, counts in self.counts.items():
            if both := [name for name in counts if isinstance(own[owner], dict) and name in own[owner]]:
                table = COUNTING[owner] + "counts"
                raise self._mistake(table, f'{table}: "{both[0]}" is a field of {owner}_state; give the count another name')
            own[owner] = {**own[owner], **dict.fromkeys(counts, "int64")} if counts else own[owner]
        state = {owner: self._record(owner + "_state", fields) for owner, fields in own.items()}
        if self.shared:
            state["packet"] = self.shared.state["packet"]
        for owner, record in state.items():
            for f in record.fields:
                if f.table and owner not in TABLES_OF:
                    raise self._mistake(
                        f"{owner}_state",
                        f"{owner}_state: {f.name} takes {f.length} elements; only node_state, port_state and scheme_state have "
                        f"tables, a field of others has at most {FLOW_LIMIT if owner == 'flow' else INLINE_LIMIT} bytes",
                    )
        return state

    def _named(self, table: str) -> dict[str, str]:
        """A table of names and what they mean."""
        found = self._read(table, {})
        if not isinstance(found, dict) or not all(isinstance(text, str) and text.strip() for text in found.values()):
            raise self._mistake(table, f'{table} must be a table {{"name": "what it is"}}')
        return found

    def _recorded(self) -> dict[str, dict[str, str]]:
        """Owner -> fields of its state that are recorded, with what they mean."""
        found = {owner: self._named(prefix + "records") for owner, prefix in COUNTING.items()}
        for owner, records in found.items():
            numbers = [f.name for f in self.state[owner].fields if not f.length and not f.is_record]
            for name in records:
                if name not in numbers:
                    table = COUNTING[owner] + "records"
                    known = f"; numbers of it are {', '.join(numbers)}" if numbers else ""
                    raise self._mistake(table, f'{table}: "{name}" is no number of {owner}_state{known}')
        return found

    def forgotten(self, owner: str) -> int:
        """How many bytes of the state of a node or port a switch forgets when it fails: all that is before the counts."""
        return next((f.at for f in self.state[owner].fields if f.name in self.counts[owner]), self.state[owner].size)

    def _parameters(self) -> dict[str, tuple[str, Any, str]]:
        """What a user may set: name -> type, default, meaning."""
        parameters: dict[str, tuple[str, Any, str]] = self._read("parameters", {})
        for name, declared in parameters.items():
            if not (isinstance(declared, tuple) and len(declared) == 3 and isinstance(declared[0], str) and declared[0].strip()):
                raise self._mistake("parameters", f'parameters: {name} must be ("type", default, "meaning")')
            if name in RESERVED:
                raise self._mistake("parameters", f"parameters: {name} has a meaning for every scheme")
        return parameters

    def _own(self) -> Record:
        """The scheme's own struct: its parameters, then its scheme_state."""
        parameters = {name: c_type(kind) for name, (kind, _, _) in self.parameters.items()}
        own = self._record("parameters", {**parameters, **self._read("scheme_state", {})})
        for f in own.fields:
            if f.table and f.name in parameters:
                most = INLINE_LIMIT // f.size
                raise self._mistake("parameters", f"parameters: {f.name} has {f.length} values; a list has at most {most}")
        return own

    def _mistake(self, table: str, message: str) -> DeclarationError:
        """A mistake in a table, on its line."""
        return DeclarationError(message, self._values[table].lineno)

    def _record(self, table: str, fields: Any, name: str = "") -> Record:
        """A record of declared fields; an error in it is on the line of its table."""
        where = self._values[table].lineno if table in self._values else 0
        if not isinstance(fields, dict):
            raise DeclarationError(f'{table}: {name} must be a table {{"field": "type"}}', where)
        try:
            record = Record(fields, self.records, inline=FLOW_LIMIT if table == "flow_state" else INLINE_LIMIT)
        except DeclarationError as error:
            raise DeclarationError(str(error), error.line or where) from None
        for f in record.fields:
            if f.length and f.is_record and any(f.name + "_at" in names for names in GIVEN.values()):
                raise DeclarationError(
                    f'{table}: a record of "{f.name}" would be {f.name}_at(), which is a verb; rename it', where
                )
        return record

    def constant(self, name: str) -> int | float:
        """The value of a constant."""
        value = self._literal(name, self._values[name])
        if not isinstance(value, int | float):
            raise DeclarationError(f"{name}: a constant is a number", self._values[name].lineno)
        return value

    def _check_tables(self) -> None:
        named = ("scheme_state", "structs", "parameters", "presets", "fabric", "when", "governs")
        for name in [*(f"{o}_state" for o in OWNERS), *named]:
            value = self._read(name, {})
            if not isinstance(value, dict) and not (name == "packet_state" and isinstance(value, str)):
                raise DeclarationError(f'{name} must be a table {{"field": "type"}}', self._values[name].lineno)
        if not all(isinstance(preset, dict) for preset in self._read("presets", {}).values()):
            raise DeclarationError('a preset is a table {"parameter": value}', self._values["presets"].lineno)
        includes = self._read("includes", [])
        if not isinstance(includes, list) or not all(isinstance(name, str) for name in includes):
            raise DeclarationError('includes must be a list of names, such as ["pfc"]', self._values["includes"].lineno)

    def _shared(self) -> "Declarations | None":
        """The included scheme whose packet state this one reads and writes."""
        name = self._read("packet_state", {})
        if isinstance(name, dict):
            return None
        if name not in self.includes or not (SCHEMES / f"{name}.py").is_file():
            raise DeclarationError(
                f'packet_state: "{name}" is no scheme of the package that this one includes', self._values["packet_state"].lineno
            )
        path = SCHEMES / f"{name}.py"
        return declarations(path, path.read_text(encoding="utf-8-sig"))

    def _check_hooks(self, nodes: list[ast.AST]) -> None:
        """Refuse misspelt hooks, verbs whose hook is missing, and fields under their former names."""
        for f in self.functions:
            if f.name in HOOKS and [a.arg for a in f.args.args] != [self.me, *HOOKS[f.name].arguments.split()]:
                raise DeclarationError(f"{f.name} takes ({', '.join([self.me, *HOOKS[f.name].arguments.split()])})", f.lineno)
            if f.name not in HOOKS and re.match(
                r"(on|set_up)_|(choose_queue|choose_voq|choose_path|choose_port|choose_packet|next_queue|rank_packet|admit)",
                f.name,
            ):
                near = difflib.get_close_matches(f.name, HOOKS, n=1)
                raise DeclarationError(
                    f'no event calls "{f.name}"'
                    + (f'; did you mean "{near[0]}"?' if near else f"; hooks are {', '.join(HOOKS)}"),
                    f.lineno,
                )
        own_fields = {f.name for r in (self.own, *self.state.values(), *self.records.values()) for f in r.fields}
        for call in nodes:
            if isinstance(call, ast.Attribute) and call.attr in RENAMED and call.attr not in own_fields:
                raise DeclarationError(f'"{call.attr}" is now called "{RENAMED[call.attr]}"', call.lineno)
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                hook = VERBS[call.func.id].needs if call.func.id in VERBS else ""
                if hook and hook not in self.hooks:
                    raise DeclarationError(f"{call.func.id} is of no use without the hook {hook}", call.lineno)

    def _check_when(self) -> None:
        """Refuse conditions of what is no hook that events call, or that are no parameter; and `governs` of what is none."""
        for name, parameter in self.when.items():
            if name not in self.hooks or not HOOKS[name].at:
                raise self._mistake("when", f"when: {name} is no hook of this scheme that an event calls")
            if parameter not in self.parameters:
                raise self._mistake("when", f"when: {name} depends on {parameter!r}, which is no parameter")
        for name, others in self.governs.items():
            if not isinstance(others, list):
                raise self._mistake("governs", f'governs: {name} must have a list of parameters, such as ["poll"]')
            for parameter in (name, *others):
                if parameter not in self.parameters:
                    raise self._mistake("governs", f"governs: {parameter!r} is no parameter")

    @staticmethod
    def _literal(name: str, value: ast.expr) -> Any:
        try:
            return ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            raise DeclarationError(f"{name} must be a literal value", value.lineno) from None

    def _read(self, name: str, default: Any) -> Any:
        return self._literal(name, self._values[name]) if name in self._values else default

    def tables(self, owner: str) -> list[Field]:
        """Fields of one owner whose memory the fabric allocates."""
        record = self.own if owner == "scheme" else self.state[owner]
        return [f for f in record.fields if f.table]

    def types(self) -> dict[str, str]:
        kinds = {name: class_of(name) + "* " + name for name in self.records}
        kinds.update({text.split()[1]: text for text in OWNERS.values()})
        kinds[self.me] = f"Me* {self.me}"
        return kinds

    def names(self) -> set[str]:
        """Every name that the scheme may use and does not define: those of GIVEN and the accessors of its declarations."""
        fields = [f for r in (self.own, *self.state.values()) for f in r.fields]
        owners = [owner for owner, record in self.state.items() if record.fields]
        given = {name for names in GIVEN.values() for name in names} - self.defined()
        accessors = {f"{f.name}_at" for f in fields if f.length and f.is_record}
        return given | accessors | {"my_" + owner for owner in owners} | set(self.records) | {"packet"}

    def defined(self) -> set[str]:
        """Functions and constants of the scheme; they take precedence over the names in GIVEN."""
        return {f.name for f in self.functions} | set(self.constants)

    def imports(self) -> str:
        lines = [f"from penstock_net.fabric.state cimport {', '.join(TYPES)}"]
        for module, names in GIVEN.items():
            wanted = [name for name in names if name not in self.defined()]
            inline = "_inline" if module in INLINED else ""
            lines.append(f"from penstock_net.fabric.{module}{inline} cimport {', '.join(wanted)}" if wanted else "")
        return "\n".join(lines) + "\n"

    def pxd(self) -> str:
        """The whole .pxd of the scheme."""
        out = [f"# Generated from {self.name}.py", self.imports()]
        out += [record.c(class_of(name)) for name, record in self.records.items()]
        out += [record.c("My" + owner.capitalize()) for owner, record in self.state.items() if record.fields]
        out += [self.own.c("Me", "    Places at\n")]
        out += [f"cdef {kind} {name}" for name, kind in self.constants.items()]
        for owner, record in self.state.items():
            if record.fields:
                kind, variable = OWNERS[owner].split()
                mine = "My" + owner.capitalize()
                out.append(
                    f"cdef inline {mine}* my_{owner}(Me* me, {kind} {variable}) noexcept nogil:\n"
                    f"    return <{mine}*>(<char*>{variable} + me.at.{owner})"
                )
        for struct, record in [("Me", self.own), *(("My" + o.capitalize(), r) for o, r in self.state.items())]:
            for f in record.fields:
                if f.length and f.is_record:
                    count = f"owner.{f.name}_count" if f.table else f.length
                    out.append(
                        f"cdef inline {class_of(f.element)}* {f.name}_at({struct}* owner, int64_t index) noexcept nogil:\n"
                        f'    return &owner.{f.name}[at(index, {count}, b"{f.name}")]'
                    )
        out += [self.signature(f) for f in self.functions]
        return "\n".join(out) + "\n"

    def signature(self, function: ast.FunctionDef) -> str:
        known = self.types()
        returns = any(isinstance(n, ast.Return) and n.value for n in ast.walk(function))
        hook = HOOKS.get(function.name)
        kind = (hook.result if hook else "int64_t" if returns else "") or "void"
        if function.returns:
            name = ast.unparse(function.returns)
            kind = class_of(name) + "*" if name in self.records or name == "packet" else ANNOTATED[name]
        arguments = [
            known.get(a.arg) or f"{ANNOTATED[ast.unparse(a.annotation)] if a.annotation else 'int64_t'} {a.arg}"
            for a in function.args.args
        ]
        return f"cdef {kind} {function.name}({', '.join(arguments)}) noexcept nogil"


@lru_cache(maxsize=64)
def declarations(path: Path, source: str) -> Declarations:
    """A run asks for those of its file some twenty times, and parts that share packet state for one another's; the file may
    change between two runs."""
    return Declarations(path, source)
