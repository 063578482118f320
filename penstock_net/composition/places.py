"""Lays out a composition of schemes: checks it, places each scheme's state after the fabric's structs, sizes its tables."""

import ast
import re
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import ModuleType
from typing import Any

from penstock_net.composition.declare import C_TYPES, OWNERS, Declarations
from penstock_net.composition.hooks import HOOKS
from penstock_net.errors import SchemeError

LINE = 64
MOST = 14
QUEUED = 2  # nic_order
QUEUING = {"admit", "rank_packet"}  # hooks of switches that the scheme which asks for it has at hosts, too
LARGEST_TABLE = 4 << 30  # bytes; memory is used only once it is written
MOST_QUEUES = 32767  # indices of queues are int16


def check_hook(scheme: str, name: str, signature: str) -> None:
    """Check that a compiled hook has the expected argument types; signature: its C type as Cython exports it."""
    found = re.findall(r"_(\w+?) \*", re.sub(r"\w*_(?=[A-Z])", "_", signature))
    wanted = ["Me", *(OWNERS[{"pkt": "packet"}.get(a, a)].split("*")[0] for a in HOOKS[name].arguments.split())]
    if found != wanted:
        raise SchemeError(f"{scheme}.{name} was compiled for ({', '.join(found)}), not ({', '.join(wanted)}): build it again")


@dataclass
class Part:
    """One scheme of a composition: its compiled module, its parameters, and the offsets of its state in each struct, in bytes."""

    module: ModuleType
    declared: Declarations
    values: dict[str, Any]
    index: int
    places: dict[str, int] = field(default_factory=dict)
    hosts: int = 0  # of the network
    upstreams: int = 0  # indices that a packet's queue at a neighbour may have, a multiple of 32

    @property
    def name(self) -> str:
        return self.declared.name

    @cached_property
    def hooks(self) -> set[str]:
        return self.declared.hooks_with(self.values)

    @cached_property
    def sets_priority(self) -> bool:
        return self.declared.sets_priority(self.values)

    @property
    def queues_at_hosts(self) -> bool:
        """Whether packets that its flows may send wait at the ports of hosts, where it admits and ranks them, too."""
        return self.evaluate(self.declared.fabric.get("nic_order", 0)) == QUEUED

    @property
    def counts_packets(self) -> bool:
        """Whether it counts packets at both ends of each link: also those that wait at hosts."""
        return bool(self.evaluate(self.declared.fabric.get("counts_packets", 0)))

    def called(self, control: int) -> list[tuple[str, bool, bool, int]]:
        """Its hooks that events call: name, whether at hosts, at switches, and the place in a table.

        control: the first kind of frame that is a scheme's
        """
        place = {"frame": control + self.index, "scheme": self.index, "": 0}
        found = [(name, HOOKS[name]) for name in sorted(self.hooks) if HOOKS[name].at]
        queued = QUEUING if self.queues_at_hosts else {"on_dequeue"} if self.counts_packets else set()
        return [(name, hook.at != "switch" or name in queued, hook.at != "host", place[hook.by]) for name, hook in found]

    def evaluate(self, expression: str | int, **more: int) -> int:
        """A table's length or a fabric request: a number or an expression of the scheme's parameters, `hosts` and `upstreams`;
        for the table of a node also of its number of `ports`, and `switch`, which is 0 at a host."""
        names = {**self.values, "hosts": self.hosts, "upstreams": self.upstreams, **more, "max": max, "min": min}
        try:
            tree = ast.parse(str(expression), mode="eval")
            if any(isinstance(n, ast.Pow | ast.LShift | ast.Attribute | ast.Lambda | ast.comprehension) for n in ast.walk(tree)):
                raise ValueError("only numbers, names, + - * // %, comparisons, max and min are possible")
            return int(eval(compile(tree, "", "eval"), {"__builtins__": {}}, names))
        except Exception as error:
            raise SchemeError(f'"{expression}" is no number: {error}', path=self.name) from None

    def tables(self, owner: str, **more: int) -> list[tuple[str, int, int, int]]:
        """(name, offset in the owner's area, count, bytes of one element) of each table."""
        found = [(f.name, f.at, self.evaluate(f.length, **more), f.size) for f in self.declared.tables(owner)]
        for name, _, count, size in found:
            if not 0 <= count * size <= LARGEST_TABLE:
                raise SchemeError(
                    f"{count} elements, {count * size / 1e9:.1f} GB for each {owner}",
                    path=f"{self.name}.{name}",
                    remedy=f"at most {LARGEST_TABLE / 1e9:.0f} GB are possible",
                )
        return found

    def settings(self) -> list[tuple[int, str, str, Any]]:
        """(offset, name, C type, value) of the parameters, in the form in which the compiled scheme holds them."""
        fields = {f.name: f for f in self.declared.own.fields}
        return [(fields[n].at, n, C_TYPES[fields[n].element][0], self.values[n]) for n in self.declared.parameters]


@dataclass(frozen=True)
class Composition:
    """Parts in hook order, the size of each struct with their state in bytes, and what they ask of the fabric."""

    parts: tuple[Part, ...]
    sizes: dict[str, int]
    queues: int
    nic_queues: int
    nic_by_destination: bool
    reordering: bool
    ranked: int  # how NICs order flows: 0 in turn, 1 by rank, 2 as ports of switches do, which store their packets
    exact_rto: bool  # timeouts come when they are due
    symmetric: bool
    chooses_ports: str  # the first part that sends packets by other ports than those of routes; "": none
    one_link: str  # the first part whose hosts must have one link; "": none
    voqs: int
    priorities: int  # that flows may have, each with a queue at every port and NIC; 0: any, and queues are as parts choose
    packets_differ: bool  # with priorities: packets of a flow may have several of them
    unbounded: bool
    lossless: bool
    incast: bool
    round_trips: bool  # a part asks for the base RTT of each flow
    by_message: bool  # each message of a connection is a flow by itself, with its path: parts know flows by their sizes
    rank_at: int  # where packets have what ranking needs; 0: none are ranked
    own_answers: str  # the first part whose receivers answer each packet themselves; "": none
    each_acked: str  # the first part whose senders need an acknowledgement of each packet; "": none
    counts_packets: str  # the first part that counts packets at both ends of each link; "": none
    queued_acks: str  # the first part that sees acknowledgements at switches, which are to be queued as data; "": none
    counts_by_port: str  # the same, if it knows nothing of acknowledgements that hosts queue as data
    answer_at: int = 0  # where packets have what acknowledgements say of their receivers; 0: nowhere

    def with_answers(self, size: int) -> "Composition":
        """The same where acknowledgements say how long they have waited and how many packets they answer, in `size` bytes."""
        at = self.sizes["packet"]
        return replace(self, sizes={**self.sizes, "packet": _up(at + size, LINE)}, answer_at=at)


def place_of_packets(parts: list[Part], name: str, shared: str) -> int:
    """Where the packet state of a part is that another one, `name`, reads and writes."""
    for part in parts:
        if part.name == shared:
            return part.places["packet"]
    raise SchemeError(f"{name} needs what {shared} writes into packets", remedy=f"do not leave out {shared}")


def check_priorities(parts: list[Part], levels: int, nic_queues: int) -> int:
    """How many priorities have a queue each; SchemeError: a part queues packets otherwise, or may set priorities beyond them.

    levels: priorities that packets may have if a part does not ask for `queues`.
    """
    counts = {part.name: part.evaluate(part.declared.fabric.get("priorities", 0)) for part in parts}
    asking = next((name for name, count in counts.items() if count), None)
    if not asking:
        return 0
    wanted = f"{asking} needs a queue for each priority of flows at every port and NIC"
    for part in parts:
        asked = {key for key in ("nic_queues", "nic_by_destination") if part.evaluate(part.declared.fabric.get(key, 0))}
        own_queues = "choose_queue" in part.hooks and "classes" not in part.declared.fabric
        what = "chooses queues" if own_queues else "asks for other NIC queues" if asked else ""
        if part.sets_priority and part.hooks & {"admit", "next_queue"}:
            what = what or "sets the priority of packets and decides itself what a port stores or sends"
        if what:
            raise SchemeError(f"{wanted}; {part.name} {what}", remedy="leave one of them out")
    if nic_queues:
        raise SchemeError(wanted, path="host.nic_queues", value=nic_queues, remedy="leave it 0")
    count = min(count for count in counts.values() if count)
    for part in parts:
        own = part.evaluate(part.declared.fabric.get("queues", levels))
        if part.sets_priority and own > count:
            raise SchemeError(
                f"{part.name} gives packets {own} priorities, {asking} has {count}",
                remedy=f"give {asking} {own} of them" if own <= levels else f"give {part.name} at most {levels}",
            )
    return count


def check_order(parts: list[Part], order: int, priorities: int) -> int:
    """In which order NICs serve flows; SchemeError: packets are to wait at hosts, and priorities to have queues of their own."""
    if order == QUEUED and priorities:
        queuing = next(part.name for part in parts if part.queues_at_hosts)
        rule = f"{queuing} queues packets at hosts (nic_order = {QUEUED}), another part needs a queue for each priority there"
        raise SchemeError(rule, remedy="leave one of them out")
    return order


def check_trimming(parts: list[Part]) -> None:
    """SchemeError: a part cuts packets, but receivers are not told apart what is whole, or another part lets nothing be lost."""
    trimming = [part.name for part in parts if "TRIM" in part.declared.answers]
    if trimming and not any("on_data" in part.hooks for part in parts):
        raise SchemeError(
            f"{trimming[0]} may cut packets (TRIM), but no part has on_data: receivers would count a header as the whole packet",
            remedy="define on_data, which sees the flag TRIMMED, and have the packet sent again",
        )
    keeping = [part.name for part in parts if part.evaluate(part.declared.fabric.get("lossless", 0))]
    if trimming and keeping:
        raise SchemeError(f"{trimming[0]} cuts packets (TRIM), while {keeping[0]} has them kept", remedy="leave one of them out")


def check_dropping(parts: list[Part]) -> None:
    """SchemeError: a part drops packets, and another one lets nothing be lost."""
    dropping = first_asking(parts, "drops")
    keeping = first_asking(parts, "lossless")
    if dropping and keeping:
        rule = f"{dropping} drops packets that are not ECN capable, while {keeping} has all of them kept"
        raise SchemeError(rule, remedy=f"leave their priorities out of {keeping}.lossless, or give {dropping} none to drop")


def check_counting(parts: list[Part]) -> None:
    """SchemeError: a part counts packets as they are sent and stored, and another one may change or refuse them after that."""
    counting = next((part for part in parts if part.counts_packets), None)
    if not counting:
        return
    for part in parts[counting.index + 1 :]:
        if found := sorted(part.hooks & {"on_send", "admit"}):
            rule = (
                f"{counting.name} counts packets as they are, and {called(part, parts)} may change or refuse them after that"
                f" ({found[0]})"
            )
            raise SchemeError(rule, remedy=f"name {counting.name} last")
    by_priority = counting.evaluate(counting.declared.fabric.get("priorities", 0))
    for part in parts if by_priority else ():
        if part.sets_priority and "classes" not in part.declared.fabric:
            rule = f"{counting.name} counts packets by the priority of their flow, and {part.name} gives them others"
            raise SchemeError(rule, remedy="leave one of them out")


def compose(parts: list[Part], core: dict[str, int], levels: int, nic_queues: int = 0) -> Composition:
    """Lay the areas of the parts behind the fabric's structs (`core`: their bytes); small areas share the first line.

    nic_queues: of the hosts; 0 = as many as the parts ask for.
    """
    if len(parts) > MOST:
        raise SchemeError(f"{len(parts)} parts in one composition", remedy=f"at most {MOST} are possible")
    check_built(parts)
    give_way(parts)
    check_choices(parts)
    check_trimming(parts)
    check_dropping(parts)
    check_counting(parts)
    sizes, rank_at = placed(parts, core)
    ask = partial(requested, parts)
    by_destination = bool(ask("nic_by_destination"))
    if by_destination and nic_queues:
        raise SchemeError(
            "this scheme needs a NIC queue for each destination", path="host.nic_queues", value=nic_queues, remedy="leave it 0"
        )
    for key in ("queues", "nic_queues", "voqs"):
        if not 0 <= ask(key) <= MOST_QUEUES:
            raise SchemeError(f"asks for {ask(key)} {key}", remedy=f"at most {MOST_QUEUES} are possible")
    priorities = check_priorities(parts, levels, nic_queues)
    order = check_order(parts, ask("nic_order"), priorities)
    queues, nics = ask("queues", levels), parts[0].hosts if by_destination else nic_queues or ask("nic_queues", 1)
    differ = bool(priorities) and any(p.sets_priority and "classes" not in p.declared.fabric for p in parts)
    if priorities:
        nics = levels + differ  # where packets differ, flows have a queue that is never paused
    for part in parts:
        part.upstreams = -(-(max(queues, nics) + 1) // 32) * 32
    return Composition(
        parts=tuple(parts),
        sizes=sizes,
        queues=queues,
        nic_queues=nics,
        nic_by_destination=by_destination,
        reordering=bool(ask("reordering")),
        ranked=order,
        exact_rto=bool(ask("exact_rto")),
        symmetric=bool(ask("symmetric")),
        chooses_ports=chooser_of_ports(parts),
        one_link=first_asking(parts, "one_link"),
        voqs=ask("voqs"),
        priorities=priorities,
        packets_differ=differ,
        unbounded=any(part.declared.fabric.get("buffer") == "unbounded" for part in parts),
        lossless=any(part.evaluate(part.declared.fabric.get("lossless", 0)) for part in parts),
        incast=bool(ask("incast")),
        round_trips=bool(ask("round_trips")),
        by_message=any(part.evaluate(part.declared.fabric.get("by_message", "on_data" in part.hooks)) for part in parts),
        rank_at=rank_at,
        own_answers=first_asking(parts, "own_answers"),
        each_acked=first_asking(parts, "each_acked"),
        queued_acks=first_asking(parts, "queued_acks"),
        counts_packets=first_asking(parts, "counts_packets"),
        counts_by_port=first_asking(parts, "counts_by_port"),
    )


def chooser_of_ports(parts: list[Part]) -> str:
    """The first part that sends packets by other ports than those of routes; "": none."""
    return next((part.name for part in parts if "choose_port" in part.hooks), "")


def first_asking(parts: list[Part], key: str) -> str:
    """The first part that asks the fabric for this; "": none does."""
    return next((part.name for part in parts if requested([part], key)), "")


def requested(parts: list[Part], key: str, default: int = 0) -> int:
    """What the parts ask of the fabric: the largest of several requests."""
    asked = [part.evaluate(part.declared.fabric[key]) for part in parts if key in part.declared.fabric]
    return max([default, *asked])


def check_built(parts: list[Part]) -> None:
    """SchemeError: a compiled scheme is not what its file declares."""
    for part in parts:
        built = getattr(part.module, "__pyx_capi__", None)
        if built is None:  # plain Python
            continue
        if missing := part.declared.hooks - set(built):
            raise SchemeError(f"{part.name} was built without {', '.join(sorted(missing))}: build it again")
        for name in part.declared.hooks:
            check_hook(part.name, name, repr(built[name]))


def give_way(parts: list[Part]) -> None:
    """Parts that choose a path, or what receivers answer, only where no other one does, leave it to one that does."""
    for hook, key in (("choose_path", "yields_path"), ("on_data", "yields_data")):
        choosing = [part for part in parts if hook in part.hooks]
        yielding = [part for part in choosing if requested([part], key)]
        if len(yielding) < len(choosing):
            for part in yielding:
                part.hooks = part.hooks - {hook}


def called(part: Part, parts: list[Part]) -> str:
    """The name by which a user knows a part: that of the load balancer which brought it along, if there is one."""
    using = (other for other in parts if other.declared.shared and other.declared.shared.name == part.name)
    return next((other.name for other in using if requested([other], "balances")), part.name)


def check_choices(parts: list[Part]) -> None:
    """SchemeError: two parts decide the same thing."""
    for alone in {hook.alone: None for hook in HOOKS.values() if hook.alone}:
        deciding = {name for name, hook in HOOKS.items() if hook.alone == alone}
        choosers = [called(part, parts) for part in parts if part.hooks & deciding]
        if len(choosers) > 1:
            raise SchemeError(f"{' and '.join(choosers)} both choose {alone}", remedy="keep one of them")
    balancing = [part.name for part in parts if requested([part], "balances")]
    if len(balancing) > 1:
        raise SchemeError(f"{' and '.join(balancing)} both choose the entropy of packets", remedy="keep one of them")
    way = chooser_of_ports(parts)
    alike = [part.name for part in parts if requested([part], "symmetric")]
    if way and alike:
        rule = f"{alike[0]} needs the same paths there and back, and {way} chooses a path for each packet"
        raise SchemeError(rule, remedy="leave one of them out")


def placed(parts: list[Part], core: dict[str, int]) -> tuple[dict[str, int], int]:
    """Give each part its place in every struct; returns the sizes of the structs, and where packets have what ranking needs."""
    ends = {owner: _place(parts, owner, core[owner]) for owner in OWNERS}
    rank_at = 0
    if any("rank_packet" in part.hooks for part in parts):
        rank_at = _up(max(ends["packet"], ends["frame"]), 8)
        ends["packet"] = ends["frame"] = rank_at + core["rank"]
    for part in parts:
        if part.declared.shared:
            part.places["packet"] = place_of_packets(parts, part.name, part.declared.shared.name)
    return {owner: _up(end, LINE if owner in ("packet", "port", "node", "queue") else 8) for owner, end in ends.items()}, rank_at


def _place(parts: list[Part], owner: str, at: int) -> int:
    """Place the parts' states behind `at`, the smallest first; returns the end."""
    end = at
    owners = [part for part in parts if not (owner == "packet" and part.declared.shared)]
    for part in sorted(owners, key=lambda part: part.declared.state[owner].size):
        record = part.declared.state[owner]
        part.places[owner] = at = _up(at, record.align)
        end = max(end, at + record.size)
        if owner != "frame":  # a control frame belongs to one scheme
            at = end
    return end


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
