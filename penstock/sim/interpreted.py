"""The compiled core as plain Python: objects instead of structs, types read from the .pxd files, every index and integer checked.

    python -m penstock.sim.interpreted CASE.json          # the digest of a tiny case, to compare with the compiled core's

Thousands of times slower than the compiled core and meant for that comparison and for debugging a scheme: an error in it is an
ordinary traceback.  Call `install()` before anything else of the core is imported.
"""

import __future__

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import re
import sys
import types
from pathlib import Path
from typing import Any, ClassVar

ROOT = Path(__file__).parents[1]
BITS = {"int8_t": 7, "int16_t": 15, "int32_t": 31, "int64_t": 63, "uint64_t": 64}
FORMATS = {"int8_t": "i1", "int16_t": "i2", "int32_t": "i4", "int64_t": "i8"}
FOLDERS = ("fabric", "sim/core")
COMPILED = {f"penstock.{folder.replace('/', '.')}.{p.stem}" for folder in FOLDERS for p in (ROOT / folder).glob("[!_]*.py")}
MASK = 2**64 - 1
AREAS: dict[tuple[str, int], type] = {}  # of the running composition: owner and offset -> class


def at(index: int, count: int, what: bytes) -> int:
    if not 0 <= index < count:
        raise IndexError(f"{what.decode()}: {index} not in 0..{count - 1}")
    return index


def mix64(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def hash31(number: int, seed: int) -> int:
    return mix64((((seed & 0xFFFFFFFF) << 32) + number * 0x9E3779B97F4A7C15) & MASK) & 0x7FFFFFFF


def pick(hash: int, seed: int, n: int) -> int:
    return (mix64((((hash ^ seed) & 0xFFFFFFFF) + 0x9E3779B97F4A7C15) & MASK) >> 33) * n >> 31


class Struct:
    """A C struct: zeroed fields, no others, integers within their C type."""

    __slots__ = ("areas",)  # of schemes, by offset
    bits: ClassVar[dict[str, int]] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        bits = self.bits.get(name)
        if bits and not (0 if bits == 64 else -1 << bits) <= value < 1 << bits:
            raise OverflowError(f"{type(self).__name__}.{name} = {value} does not fit its C type")
        object.__setattr__(self, name, value)


def make_class(name: str, initial: dict[str, Any], bits: dict[str, int], formats: dict[str, str] | None = None) -> type:
    def __init__(self: Any) -> None:
        object.__setattr__(self, "areas", {})
        for field, zero in initial.items():
            object.__setattr__(self, field, zero())

    return type(name, (Struct,), {"__slots__": tuple(initial), "__init__": __init__, "bits": bits, "formats": formats or {}})


def struct_class(name: str, body: str, names: dict[str, Any]) -> type:
    """`int32_t a, b` / `Packet* head` / `int64_t t[2]` / `void (*hook)(...)` to a class."""
    initial: dict[str, Any] = {}
    bits, formats = {}, {}
    for line in body.splitlines():
        line = line.split("#")[0].strip()
        if hook := re.match(r".*\(\*(\w+)\)", line):
            initial[hook[1]] = lambda: None
        elif line:
            kind, fields = re.match(r"(\w+ ?\**)\s*(.*)", line).groups()  # type: ignore[union-attr]
            kind = kind.strip()
            for text in fields.split(","):
                field, length = re.match(r"\s*(\w+)(?:\[(\d+)\])?", text).groups()  # type: ignore[union-attr]
                zero = (lambda: None) if "*" in kind else names.get(kind, int)
                initial[field] = (lambda n=int(length), z=zero: [z() for _ in range(n)]) if length else zero
                formats[field] = FORMATS.get(kind, "")
                if not length and kind in BITS:
                    bits[field] = BITS[kind]
    return make_class(name, initial, bits, formats)


def zeroed(arena: Any, count: int | None, make: Any) -> Any:
    return make() if count is None else [make() for _ in range(count)]


def python_function(name: str, arguments: str, body: str) -> str:
    """A one-line inline function of the .pxd as Python source."""
    plain = ", ".join(a.split()[-1].lstrip("*") for a in arguments.split(",") if a)
    body = re.sub(r"&(?=\w)", "", body)  # address of
    if row := re.search(r"next_row\(worker\.(\w+), sizeof\((\w+)\)\)", body):
        return f"def {name}(worker): worker.{row[1]}.append({row[2]}()); return worker.{row[1]}[-1]\n"
    body = re.sub(r"<(\w+)\*>zeroed\(arena, n, size\)", r"zeroed(arena, n, \1)", body)

    def table(m: re.Match[str]) -> str:
        return f"zeroed(arena, {'None' if m[1] == '1' else m[1]}, {'type(None)' if m[3] else m[2]})"

    body = re.sub(r"<.*?>zeroed\(arena, (\w+), sizeof\((\w+)(\*?)\)\)", table, body)
    body = re.sub(r"<\w+\*>", "", body).strip()
    return f"def {name}({plain}): {body}\n"


def load_types(path: Path) -> dict[str, Any]:
    """The names of state.pxd."""
    text = path.read_text()
    names: dict[str, Any] = {
        "at": at,
        "hash31": hash31,
        "pick": pick,
        "NEVER": 2**63 - 1,
        "FAILED": -(2**63 - 1) // 128,
        **dict.fromkeys(("fetch_add", "store_release")),  # of the barrier, which one thread never meets
        **dict.fromkeys(("NO_PACKET", "NO_QUEUE", "NO_FLOW", "NO_SINK", "NO_PORT")),
        "step": lambda table, index, size: table[index],
        "sizeof": lambda kind: 64,
        "whole": int,
        "load_relaxed": lambda x: x,
        "load_acquire": lambda x: x,
        "cpu_pause": lambda: None,
        "sched_yield": lambda: None,
        "prefetch": lambda pkt: None,
        "bit": lambda i: 1 << i,
        "lowest_bit": lambda x: (x & -x).bit_length() - 1,
        "bits_set": lambda x: bin(x).count("1"),
        "clear": lambda thing, size: thing.__init__(),
        "new_arena": lambda: None,
        "zeroed": zeroed,
        "Log": list,
        "double": float,
        **dict.fromkeys(BITS, int),
    }
    for body in re.findall(r"^cdef enum:\n((?:    .*\n)+)", text, re.M):
        exec(re.sub("^    ", "", body, flags=re.M), names)
    for name, body in re.findall(r"^c(?:type)?def struct (\w+):.*\n((?:    .*\n)+)", text, re.M):
        names[name] = struct_class(name, body, names)
    inline = r"^cdef inline \S+ (\w+)\((.*?)\) noexcept(?: nogil)?:\s+(.*)\n"
    for name, arguments, body in re.findall(inline, text, re.M):
        exec(python_function(name, arguments, body), names)
    return {k: v for k, v in names.items() if not k.startswith("__")}


# ---- Schemes ----


def record_class(name: str, record: Any, classes: dict[str, type], types_of: dict[str, Any]) -> type:
    """A class for what a scheme declares (a _declare.Record)."""
    initial: dict[str, Any] = {}
    bits = {}
    for field in record.fields:
        zero = (lambda: None) if field.star else classes.get(field.element) or (float if _c(types_of, field) == "double" else int)
        if field.table:
            initial[field.name] = lambda: None
            initial[field.name + "_count"] = int
        else:
            initial[field.name] = (lambda z=zero, n=int(field.length): [z() for _ in range(n)]) if field.length else zero
        if not field.star and not field.length and _c(types_of, field) in BITS:
            bits[field.name] = BITS[_c(types_of, field)]
    made = make_class(name, initial, bits)
    made.fields = {
        f.at: (f.name, classes.get(f.element) or (float if _c(types_of, f) == "double" else int))  # type: ignore[attr-defined]
        for f in record.fields
    }
    return made


def _c(types_of: dict[str, Any], field: Any) -> str:
    return types_of[field.element][0] if field.element in types_of else ""


def scheme_module(declared: Any) -> types.ModuleType:
    """A scheme file, built in or a user's, as a module of plain Python."""
    from penstock.composition.declare import C_TYPES, GIVEN, class_of

    module = types.ModuleType(declared.name)
    names = vars(module)
    for part, given in GIVEN.items():
        fabric = importlib.import_module(f"penstock.fabric.{part}")
        names.update({name: getattr(fabric, name) for name in given})
    classes: dict[str, type] = {}
    for name, record in declared.records.items():
        classes[name] = record_class(class_of(name), record, classes, C_TYPES)
    me = record_class("Me", declared.own, classes, C_TYPES)
    names["Me"] = type("Me", (me,), {"__slots__": ("at",), "fields": me.fields})  # type: ignore[attr-defined]
    names["AREAS"] = {}
    for owner, record in declared.state.items():
        names["AREAS"][owner] = record_class("My" + class_of(owner), record, classes, C_TYPES)
        names["my_" + owner] = lambda me, thing, owner=owner: area(thing, owner, getattr(me.at, owner))
        for field in record.fields:
            names[field.name + "_at"] = accessor(field.name)
    for field in declared.own.fields:
        names[field.name + "_at"] = accessor(field.name)
    flags = __future__.annotations.compiler_flag
    exec(compile(declared.source, str(declared.path), "exec", flags), names)
    return module


def accessor(field: str) -> Any:
    def element(owner: Any, index: int) -> Any:
        table = getattr(owner, field)
        return table[at(index, len(table), field.encode())]

    return element


def area(thing: Any, owner: str, offset: int) -> Any:
    """A scheme's share of a struct."""
    if offset not in thing.areas:
        thing.areas[offset] = AREAS[owner, offset]()
    return thing.areas[offset]


# ---- What simulation.pxd does with pointers ----


def hook_of(module: Any, name: str) -> Any:
    return getattr(module, name)


def new_me(world: Any, part: Any) -> Any:
    if part.index == 0:
        AREAS.clear()
    for owner, made in part.module.AREAS.items():
        if part.declared.state[owner].fields:
            AREAS[owner, part.places[owner]] = made
    return part.module.Me()


def set_places(world: Any, me: Any, places: dict[str, int], index: int, kind: int) -> None:
    from penstock.fabric.state import Places

    me.at = Places()
    for owner, offset in places.items():
        setattr(me.at, owner, offset)
    me.at.index, me.at.bit, me.at.kind, me.at.world = index, 1 << index, kind, world


def set_parameter(me: Any, offset: int, kind: str, value: Any) -> None:
    setattr(me, me.fields[offset][0], value)


def put_table(world: Any, owner: Any, offset: int, count: int, size: int) -> None:
    name, make = owner.fields[offset]
    setattr(owner, name, [make() for _ in range(count)])
    setattr(owner, name + "_count", count)


put_own_table = put_table


def node_area(node: Any, offset: int) -> Any:
    return area(node, "node", offset)


def port_area(port: Any, offset: int) -> Any:
    return area(port, "port", offset)


def new_hook(kind: str, function: Any, me: Any) -> Any:
    from penstock.fabric import state

    hook = getattr(state, kind)()
    hook.call, hook.me = function, me
    return hook


def append_hook(ops: Any, name: str, hook: Any) -> None:
    if not getattr(ops, name):
        setattr(ops, name, hook)
        return
    last = getattr(ops, name)
    while last.next:
        last = last.next
    last.next = hook


def add_frame_hook(world: Any, function: Any, me: Any, kind: int) -> None:
    world.host_ops.on_control[kind] = world.switch_ops.on_control[kind] = new_hook("FrameHook", function, me)


def add_timer_hook(world: Any, function: Any, me: Any, index: int) -> None:
    world.host_ops.on_timer[index] = world.switch_ops.on_timer[index] = new_hook("TimerHook", function, me)


def add_queue_hook(world: Any, name: str, function: Any, me: Any) -> None:
    append_hook(world.switch_ops, name, new_hook("QueueHook", function, me))


def add_packet_hook(world: Any, enqueue: bool, function: Any, me: Any) -> None:
    append_hook(world.switch_ops, "on_enqueue" if enqueue else "on_dequeue", new_hook("PacketHook", function, me))


def add_flow_hook(world: Any, name: str, function: Any, me: Any) -> None:
    append_hook(world.host_ops, name, new_hook("FlowHook", function, me))


def set_fabric_hooks(world: Any) -> None:
    from penstock.fabric.switch import transmit, wake
    from penstock.sim.core.sender import transmit_host, wake_flows

    world.host_ops.transmit.call, world.host_ops.wake.call = transmit_host, wake_flows
    world.switch_ops.transmit.call, world.switch_ops.wake.call = transmit, wake


def call_set_up(function: Any, me: Any) -> None:
    function(me)


def call_set_up_node(function: Any, me: Any, node: Any) -> None:
    function(me, node)


def call_set_up_port(function: Any, me: Any, node: Any, port: Any) -> None:
    function(me, node, port)


def me_of(me: Any) -> Any:
    return me


def me_at(me: Any) -> Any:
    return me


def int8_table(array: Any) -> Any:
    return array.tolist()


def int16_table(array: Any) -> Any:
    return array.tolist()


def int32_table(array: Any) -> Any:
    return array.tolist()


def int64_table(array: Any) -> Any:
    return array


def start_table(array: Any) -> list[Any]:
    from penstock.fabric.state import Start

    out = []
    for row in array:
        start = Start()
        for name in ("time", "size", "number", "src", "dst", "priority"):
            setattr(start, name, int(row[name]))
        out.append(start)
    return out


def rows_of(worker: Any, name: str) -> bytes:
    import numpy as np

    log = getattr(worker, name + "_rows")
    if not log:
        return b""
    formats = type(log[0]).formats
    table = np.zeros(len(log), dtype=list(formats.items()))
    for field in formats:
        table[field] = [getattr(row, field) for row in log]
    return bytes(table.tobytes())


def run_released(worker: Any, count: int) -> None:
    from penstock.sim.core.engine import run_windows

    run_windows(worker, count)


def free_world(world: Any) -> None:
    pass


class CoreLoader(importlib.machinery.SourceFileLoader):
    """A module of the core from its .py; what its .pxd does with pointers is there before it runs."""

    def exec_module(self, module: types.ModuleType) -> None:
        if module.__name__ == "penstock.sim.core.build":
            vars(module).update({name: globals()[name] for name in __all__})
        super().exec_module(module)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The core's modules from their .py even where a compiled one lies beside it; fabric.state from its .pxd."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name == "penstock.fabric.state":
            return importlib.util.spec_from_loader(name, self)
        if name in COMPILED:
            file = ROOT / (name.removeprefix("penstock.").replace(".", "/") + ".py")
            return importlib.util.spec_from_file_location(name, file, loader=CoreLoader(name, str(file)))
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        vars(module).update(load_types(ROOT / "fabric/state.pxd"))


def install() -> None:
    """From now on the core is imported as plain Python."""
    if not any(isinstance(f, Finder) for f in sys.meta_path):
        sys.meta_path.insert(0, Finder())
    from penstock import composition as schemes

    schemes.load = scheme_module  # type: ignore[assignment]


__all__ = [
    "add_flow_hook",
    "add_frame_hook",
    "add_packet_hook",
    "add_queue_hook",
    "add_timer_hook",
    "call_set_up",
    "call_set_up_node",
    "call_set_up_port",
    "free_world",
    "hook_of",
    "int8_table",
    "int16_table",
    "int32_table",
    "int64_table",
    "me_at",
    "me_of",
    "new_me",
    "node_area",
    "port_area",
    "put_own_table",
    "put_table",
    "rows_of",
    "run_released",
    "set_fabric_hooks",
    "set_parameter",
    "set_places",
    "start_table",
]

if __name__ == "__main__":
    from penstock.sim import interpreted  # this module under its own name, once

    interpreted.install()
    from penstock.testing.cases import print_digest

    print_digest(sys.argv[1])
