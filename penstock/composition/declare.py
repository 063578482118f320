"""Parses what a scheme file declares and generates its .pxd: structs, accessors, function signatures.

    parameters   = {"eta": ("float64", 0.95, "target utilisation (section 3.3)")}   what a user may set: type, default, meaning
    presets      = {"ns3": {"uses": ["pfc:ns3"], "eta": 0.9, "host.ack_priority": "data"}}
    includes     = ["pfc"]                                          schemes that come with it
    title        = "HPCC"                                           its constructor, ps.HPCC; else made of the file's name
    fabric       = {"queues": "queues", "buffer": "unbounded"}      requests to switches and hosts: numbers or expressions
    structs      = {"entry": {"expires": "time", "queue": "int32"}}                 record types
    port_state   = {"empty": "mask[16]", "flow_table": "entry[queues * table]"}   also packet_, queue_, flow_, node_, scheme_state
    frame_state  = {"dsts": "int16[32]"}                            fields of the scheme's control frames
    LIMIT = 3                                                       constants: upper case

An array of more than 256 bytes, or one whose length is an expression of parameters, becomes a pointer to a table that the
fabric allocates.  Elements of a record array are reached through NAME_at(owner, index).
"""

import ast
import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
OWNERS = {
    "packet": "Packet* pkt",
    "port": "Port* port",
    "queue": "Queue* queue",
    "flow": "Flow* flow",
    "node": "Node* node",
    "frame": "Packet* pkt",
}
HOOKS = {
    "choose_path": "node port pkt",
    "choose_voq": "node port pkt",
    "choose_queue": "node port pkt",
    "admit": "node port pkt",
    "on_enqueue": "node port queue pkt",
    "on_dequeue": "node port queue pkt",
    "on_control": "node port pkt",
    "on_timer": "node",
    "on_start": "node flow pkt",
    "on_send": "node flow pkt",
    "on_ack": "node flow pkt",
    "on_finish": "node flow pkt",
    "set_up": "",
    "set_up_node": "node",
    "set_up_port": "node port",
}
# hook that a scheme needs if it calls a verb
COMPANIONS = {
    "send_control": "on_control",
    "send_frame": "on_control",
    "send_to_host": "on_control",
    "set_timer": "on_timer",
    "wake_by": "on_timer",
    "release": "choose_voq",
}
RETURNS = {"choose_path": "int32_t", "choose_voq": "int32_t", "choose_queue": "int32_t", "admit": "int32_t"}
ANNOTATED = {"int": "int64_t", "float": "double"}
INLINE_LIMIT = 256
# C types that the generated .pxd needs, and the names that a scheme is given, by module of the fabric
TYPES = ("int8_t", "int16_t", "int32_t", "int64_t", "uint64_t", "Flow", "Node", "Packet", "Places", "Port", "Queue", "at")
GIVEN = {
    "state": (
        *("ACK", "DATA", "LAST", "NACK", "RETRANSMITTED", "PAUSE", "REFRESH", "RESUME", "CONTROL_SIZE", "NEVER"),
        *("NO_FLOW", "NO_PACKET", "NO_PORT", "NO_QUEUE"),
        *("RANDOM_MARK", "RANDOM_PATH", "RANDOM_QUEUE", "RANDOM_USER"),
        *("command_of", "mask_of", "value_of", "line_rate", "path_at", "path_count", "port_at", "queue_at", "voq_at"),
        *("bit", "bits_set", "clear_bit", "has_bit", "lowest_bit", "set_bit", "hash31", "pick", "whole"),
    ),
    "queueing": ("draw",),
    "pacing": ("about_flow", "flow_of", "hold_flow", "repace", "set_rate"),
    "line": (
        *("new_frame", "send_control", "send_frame", "send_to_host", "set_timer", "wake_by"),
        *("pause_port", "pause_queue", "resume_port", "resume_queue"),
    ),
    "switch": ("release",),
}
INLINED = ("queueing",)  # modules whose bodies setup.py copies into NAME_inline.pxd
RENAMED = {"gap": "pacing_gap", "least_gap": "fc_gap"}  # fields of the fabric's structs that had other names


class DeclarationError(Exception):
    """A mistake in what a scheme file declares; `line` is 0 if unknown."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


def class_of(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def c_type(kind: str) -> str:
    """The declared type behind a parameter's: "int32 1..256" is an int32 with a range, "choice a b" an int32 as well."""
    word = kind.split()[0]
    return "int32" if word == "choice" else word


class Field:
    """One field of a record.  size: bytes of one element; table: whether the field is a pointer to memory of its own."""

    def __init__(self, name: str, text: str, records: Mapping[str, "Record"]) -> None:
        match = re.fullmatch(r"(\w+)(\*?)(?:\[(.+)\])?", str(text))
        if not match or (match[1] not in C_TYPES and match[1] not in records):
            raise DeclarationError(f'{name}: unknown type "{text}"; known: {", ".join([*C_TYPES, *records])}')
        self.name, self.element, self.star, self.length = name, match[1], bool(match[2]), match[3]
        self.is_record = self.element in records
        self.size = int(records[self.element].size if self.is_record else C_TYPES[self.element][1])
        fixed = self.length.isdigit() if self.length else True
        self.table = bool(self.length) and (not fixed or self.size * int(self.length or 1) > INLINE_LIMIT)
        self.at = 0

    def c(self) -> str:
        kind = class_of(self.element) if self.is_record else C_TYPES[self.element][0]
        if self.table:
            return f"    {kind}* {self.name}\n    int64_t {self.name}_count"
        return f"    {kind}{'*' if self.star else ''} {self.name}" + (f"[{self.length}]" if self.length else "")

    def space(self) -> tuple[int, int]:
        """Bytes and alignment inside the record."""
        if self.table:
            return 16, 8
        size, align = (8, 8) if self.star else (self.size, 8 if self.is_record else self.size)
        return size * int(self.length or 1), align


class Record:
    """C layout of {"field": "type"} with natural alignment, as the compiler lays it out; size and align in bytes."""

    def __init__(self, fields: Mapping[str, str], records: Mapping[str, "Record"], pad: int = 8) -> None:
        self.fields: list[Field] = []
        at, widest = 0, 1
        for name, text in fields.items():
            field = Field(name, text, records)
            size, align = field.space()
            field.at = -(-at // align) * align
            at, widest = field.at + size, max(widest, align)
            self.fields.append(field)
        self.size: int = -(-at // widest) * widest if self.fields else 0
        self.align = widest

    def c(self, name: str, first: str = "") -> str:
        return f"cdef struct {name}:\n" + first + "\n".join(f.c() for f in self.fields) + "\n"


class Declarations:
    """What one scheme file declares."""

    def __init__(self, path: Path, source: str | None = None) -> None:
        self.path, self.name = path, path.stem
        self.source = path.read_text() if source is None else source
        tree = ast.parse(self.source)
        self.doc = ast.get_docstring(tree) or ""
        self.functions = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
        values: dict[str, ast.expr] = {}
        for n in tree.body:
            if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name):
                values[n.targets[0].id] = n.value
        self._values = values
        self.constants = {}
        for name, value in values.items():
            if name.isupper():
                constant = self._literal(name, value)
                if not isinstance(constant, (int, float)):
                    raise DeclarationError(f"{name}: a constant must be a number", value.lineno)
                self.constants[name] = "double" if isinstance(constant, float) else "int64_t"
        self.records: dict[str, Record] = {}
        self._check_tables()
        for name, fields in self._read("structs", {}).items():
            self.records[name] = Record(fields, self.records)
        self.state = {owner: Record(self._read(owner + "_state", {}), self.records) for owner in OWNERS}
        for f in self.state["frame"].fields:
            if f.table:
                raise DeclarationError(
                    f"frame_state: {f.name} takes {f.length} elements; a field of a frame has at most {INLINE_LIMIT} bytes",
                    self._values["frame_state"].lineno,
                )
        self.parameters: dict[str, tuple[str, Any, str]] = self._read("parameters", {})
        for name, declared in self.parameters.items():
            if not (isinstance(declared, tuple) and len(declared) == 3):
                raise DeclarationError(f'parameters: {name} must be ("type", default, "meaning")')
        own = {name: c_type(kind) for name, (kind, _, _) in self.parameters.items()}
        self.own = Record({**own, **self._read("scheme_state", {})}, self.records)
        self.presets: dict[str, dict[str, Any]] = self._read("presets", {})
        self.includes: list[str] = self._read("includes", [])
        self.title = str(self._read("title", "".join(part.capitalize() for part in self.name.split("_"))))
        self.fabric: dict[str, Any] = self._read("fabric", {})
        self.me = next((f.args.args[0].arg for f in self.functions if f.name in HOOKS and f.args.args), "me")
        self.hooks = {f.name for f in self.functions if f.name in HOOKS}
        self._check_hooks(tree)

    def _check_tables(self) -> None:
        for name in [*(f"{o}_state" for o in OWNERS), "scheme_state", "structs", "parameters", "presets", "fabric"]:
            if not isinstance(self._read(name, {}), dict):
                raise DeclarationError(f'{name} must be a table {{"field": "type"}}', self._values[name].lineno)
        if not isinstance(self._read("includes", []), list):
            raise DeclarationError('includes must be a list of names, such as ["pfc"]', self._values["includes"].lineno)

    def _check_hooks(self, tree: ast.Module) -> None:
        """Refuse misspelt hooks, verbs whose hook is missing, and fields under their former names."""
        for f in self.functions:
            if f.name not in HOOKS and re.match(r"(on|set_up)_|(choose_queue|choose_voq|choose_path|admit)", f.name):
                near = difflib.get_close_matches(f.name, HOOKS, n=1)
                raise DeclarationError(
                    f'no event calls "{f.name}"'
                    + (f'; did you mean "{near[0]}"?' if near else f"; hooks are {', '.join(HOOKS)}"),
                    f.lineno,
                )
        own_fields = {f.name for r in (self.own, *self.state.values(), *self.records.values()) for f in r.fields}
        for call in ast.walk(tree):
            if isinstance(call, ast.Attribute) and call.attr in RENAMED and call.attr not in own_fields:
                raise DeclarationError(f'"{call.attr}" is now called "{RENAMED[call.attr]}"', call.lineno)
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                hook = COMPANIONS.get(call.func.id)
                if hook and hook not in self.hooks:
                    raise DeclarationError(f"{call.func.id} is of no use without the hook {hook}", call.lineno)

    @staticmethod
    def _literal(name: str, value: ast.expr) -> Any:
        try:
            return ast.literal_eval(value)
        except ValueError:
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
        lines = [f"from penstock.fabric.state cimport {', '.join(TYPES)}"]
        for module, names in GIVEN.items():
            wanted = [name for name in names if name not in self.defined()]
            inline = "_inline" if module in INLINED else ""
            lines.append(f"from penstock.fabric.{module}{inline} cimport {', '.join(wanted)}" if wanted else "")
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
        names, known = [a.arg for a in function.args.args], self.types()
        if function.name in HOOKS and names[1:] != HOOKS[function.name].split():
            wanted = ", ".join([self.me, *HOOKS[function.name].split()])
            raise DeclarationError(f"{function.name} takes ({wanted})", function.lineno)
        returns = any(isinstance(n, ast.Return) and n.value for n in ast.walk(function))
        kind = RETURNS.get(function.name, "int64_t" if returns and function.name not in HOOKS else "void")
        if function.returns:
            name = ast.unparse(function.returns)
            kind = class_of(name) + "*" if name in self.records or name == "packet" else ANNOTATED[name]
        arguments = [
            known.get(a.arg) or f"{ANNOTATED[ast.unparse(a.annotation)] if a.annotation else 'int64_t'} {a.arg}"
            for a in function.args.args
        ]
        return f"cdef {kind} {function.name}({', '.join(arguments)}) noexcept nogil"
