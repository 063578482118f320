"""C structs as Python classes: fixed, zeroed fields, range-checked integers; and the names that fabric's .pxd files declare."""

import re
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, NoReturn

from penstock_net import pxd
from penstock_net.hashing import choice, flow_hash

Zero = Callable[[], Any]


class Struct:
    """A C struct."""

    __slots__ = ("areas",)  # of schemes, by offset
    formats: ClassVar[dict[str, str]] = {}

    def __repr__(self) -> str:
        """Its numbers that are not 0, as a debugger shows it."""
        values = {name: getattr(self, name, None) for name in type(self).__slots__}
        numbers = {name: value for name, value in values.items() if isinstance(value, int | float) and value}
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in numbers.items())})"


def make_class(name: str, initial: dict[str, Zero], bits: dict[str, int], formats: dict[str, str] | None = None) -> type:
    """A class of Struct with these fields; `bits` (of the magnitude) and `formats` (numpy's) of those that are numbers."""
    limits = {field: (0 if n in (16, 64) else -1 << n, 1 << n) for field, n in bits.items()}
    constant = [(field, zero()) for field, zero in initial.items() if zero in (int, float, nothing)]
    made = [(field, zero) for field, zero in initial.items() if zero not in (int, float, nothing)]
    put = object.__setattr__

    def __init__(self: Any) -> None:
        put(self, "areas", {})
        for field, value in constant:
            put(self, field, value)
        for field, zero in made:
            put(self, field, zero())

    def __setattr__(self: Any, field: str, value: Any) -> None:
        """Every store of every event: nothing is computed here."""
        if field in limits:
            low, high = limits[field]
            if not low <= value < high:
                raise OverflowError(f"{name}.{field} = {value} does not fit its C type")
        put(self, field, value)

    methods = {"__init__": __init__, "__setattr__": __setattr__}
    return type(name, (Struct,), {"__slots__": tuple(initial), **methods, "formats": formats or {}})


def nothing() -> None:
    """A null pointer."""


def zero_of(field: pxd.Field, names: dict[str, Any]) -> Zero:
    """The function that returns the initial value of a field."""
    zero = nothing if field.pointer else names.get(field.type, int)
    length = field.length
    return zero if length is None else lambda: [zero() for _ in range(length)]


def struct_class(name: str, fields: tuple[pxd.Field, ...], names: dict[str, Any]) -> type:
    """Make the class of a struct of a .pxd file; `names`: the structs nested in it."""
    numbers = [f for f in fields if f.type in pxd.BITS and not f.pointer and f.length is None]
    return make_class(
        name,
        {f.name: zero_of(f, names) for f in fields},
        {f.name: pxd.BITS[f.type] for f in numbers},
        {f.name: pxd.FORMATS[f.type] for f in fields if f.type in pxd.FORMATS and not f.pointer and f.length is None},
    )


# ---- What state.h defines ----


def at(index: int, count: int, what: bytes) -> int:
    """The index.  IndexError: it is not in 0..count - 1."""
    if not 0 <= index < count:
        raise IndexError(f"{what.decode()}: {index} not in 0..{count - 1}")
    return index


def zeroed(arena: Any, count: int | None, make: Zero) -> Any:
    """A table of `count` elements; None: a single element."""
    return make() if count is None else [make() for _ in range(count)]


def one_thread(*_: Any) -> NoReturn:
    """Stands in for the atomic operations of the barrier between threads."""
    raise RuntimeError("the interpreted core runs on one thread")


def count_shared(counts: Any, i: int) -> None:
    """One more at a place that any thread may count."""
    counts[i] += 1


def behind(pkt: Any, offset: int) -> Any:
    """The additional fields of a packet where packets are ranked."""
    from penstock_net.fabric.state import Ranked

    return pkt.areas.setdefault("ranked", Ranked())


def answer_behind(pkt: Any, offset: int) -> Any:
    """What an acknowledgement has of its receiver."""
    from penstock_net.fabric.state import Answer

    return pkt.areas.setdefault("answer", Answer())


def swap_packets(a: Any, b: Any) -> None:
    """Swap the contents of two packets, but not their places in lists."""
    for name in (name for name in (*a.__slots__, "areas") if name != "next"):
        one, other = getattr(a, name), getattr(b, name)
        object.__setattr__(a, name, other)
        object.__setattr__(b, name, one)


def copy_packet(to: Any, pkt: Any) -> None:
    """Copy the contents of a packet, but not its place in a list."""
    for name in (name for name in pkt.__slots__ if name not in ("next", "areas")):
        object.__setattr__(to, name, getattr(pkt, name))
    object.__setattr__(to, "areas", {at: copied(record) for at, record in pkt.areas.items() if at != "ranked"})


def copied(record: Any) -> Any:
    """A copy of what a scheme has written into a packet."""
    if isinstance(record, list):
        return [copied(each) for each in record]
    if not hasattr(record, "__slots__"):
        return record
    out = type(record)()
    for name in record.__slots__:
        object.__setattr__(out, name, copied(getattr(record, name)))
    return out


def number_in(thing: Any, area: int, at: int) -> float:
    """A number in the state of a scheme; 0 if the scheme has not used the state of this thing."""
    mine = thing.areas.get(area)
    return float(getattr(mine, mine.fields[at][0])) if mine else 0.0


HEADER: dict[str, Any] = {
    "at": at,
    "zeroed": zeroed,
    "hash31": lambda number, seed: int(flow_hash(number, seed)),
    "pick": lambda hash, seed, n: int(choice(hash, seed, n)),
    "NEVER": 2**63 - 1,
    "FAILED": -(2**63 - 1) // 128,
    **dict.fromkeys(("NO_PACKET", "NO_QUEUE", "NO_FLOW", "NO_INCOMING", "NO_BACKLOG", "NO_SINK", "NO_PORT")),
    "step": lambda table, index, size: table[index],
    "behind": behind,
    "answer_behind": answer_behind,
    "sizeof": lambda kind: 64,
    "whole": int,
    "bit": lambda i: 1 << i,
    "rare": bool,
    "apart": lambda verb: verb,
    "within": lambda i, n: 0 <= i < n,
    "save_memory": lambda arena: None,
    "lowest_bit": lambda x: (x & -x).bit_length() - 1,
    "bits_set": lambda x: bin(x).count("1"),
    "clear": lambda thing, size: thing.__init__(),
    "number_in": lambda thing, area, at, kind: number_in(thing, area, at),
    "swap_packets": lambda a, b, size: swap_packets(a, b),
    "copy_packet": lambda to, pkt, size: copy_packet(to, pkt),
    "new_arena": nothing,
    "prefetch": lambda pkt: None,
    "load_relaxed": lambda x: x,
    "count_shared": count_shared,
    **dict.fromkeys(("load_acquire", "fetch_add", "store_release", "cpu_pause", "sched_yield"), one_thread),
    "Log": list,
    "double": float,
    **dict.fromkeys(pxd.BITS, int),
}


# ---- What a .pxd file declares ----


def python_function(name: str, function: pxd.Inline) -> str:
    """A one-line inline function as Python source."""
    plain = ", ".join(a.split()[-1].lstrip("*") for a in function.arguments.split(",") if a)
    body = re.sub(r"&(?=\w)", "", function.body)  # address of
    if row := re.search(r"next_row\(worker\.(\w+), sizeof\((\w+)\)\)", body):
        return f"def {name}(worker): worker.{row[1]}.append({row[2]}()); return worker.{row[1]}[-1]\n"
    body = re.sub(r"<(\w+)\*>zeroed(?:_later)?\(arena, n, size\)", r"zeroed(arena, n, \1)", body)

    def table(m: re.Match[str]) -> str:
        return f"zeroed(arena, {'None' if m[1] == '1' else m[1]}, {'type(None)' if m[3] else m[2]})"

    body = re.sub(r"<.*?>zeroed(?:_later)?\(arena, (\w+), sizeof\((\w+)(\*?)\)\)", table, body)
    body = re.sub(r"<\w+\*>", "", body).strip()
    return f"def {name}({plain}): {body}\n"


def names_of(file: str) -> dict[str, Any]:
    """What a file of fabric/ declares: state, with the constants and what state.h defines; rows; or tables."""
    headers = {name: pxd.read(f"fabric/{name}.pxd") for name in ("rows", "tables")}
    apart = {name: {*header.structs, *header.inline} for name, header in headers.items()}
    names = core_names()
    return {name: names[name] for name in apart.get(file) or names.keys() - set.union(*apart.values())}


@cache
def core_names() -> dict[str, Any]:
    """All of that in one namespace, that of the functions."""
    names = dict(HEADER)
    for file in ("flow_results", "constants", "state", "rows", "tables"):
        header = pxd.read(f"fabric/{file}.pxd")
        names |= header.constants
        for name, fields in header.structs.items():
            names[name] = struct_class(name, fields, names)
        for name, function in header.inline.items():
            exec(python_function(name, function), names)
    return {name: value for name, value in names.items() if not name.startswith("__")}
