"""The contract between the fabric and a scheme: every hook that a scheme may define, and every verb that it may call.

This is the one table of them.  A build generates from it the hooks' structs and lists (`Ops`) and what installs a hook
(tools/generate.py); the checks of scheme files, the interpreted core and the real switch read it.  A new hook is a row here, the
place in the fabric or the core that calls it, and its line in docs/writing-schemes.md.

The module imports nothing of the package: it is read before anything is built.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

# arguments, result -> struct of a hook in a list; the fabric's functions that walk a list name it
KINDS = {
    ("node port pkt", "int32_t"): "QueueHook",
    ("node port pkt", "int64_t"): "RankHook",
    ("node port pkt", ""): "FrameHook",
    ("node port queue pkt", ""): "PacketHook",
    ("node port", "int32_t"): "ServeHook",
    ("node port", ""): "PortHook",
    ("node flow pkt", ""): "FlowHook",
    ("node flow", "int64_t"): "OffsetHook",
    ("node flow", ""): "TimeoutHook",
    ("node incoming pkt", "int32_t"): "DataHook",
    ("node incoming", ""): "IncomingHook",
    ("node", ""): "TimerHook",
}
MOST_FRAMES, MOST_SCHEMES = 19, 16  # kinds of control frames, with that of reductions; schemes with timers
FABRIC = {  # what fabric and hosts call of each other: in the same struct as the hooks, and no scheme's -> its type in state.pxd
    "reschedule": "RescheduleHook",
    "go_back": "GoBackHook",
    "find_incoming": "FindHook",
    "look_up_incoming": "LookUpHook",
    "store": "StoreHook",  # a frame among the data
    "transmit": "SendHook",
    "wake": "WakeHook",  # called when a queue is resumed
    "deliver": "StoreHook",  # a packet to a peer that is near
    "keep": "StoreHook",  # a new packet of a host, if its priority is paused
}

# What of a packet means nothing in a hook, and why.
AT_HOST = {"held": "the packet is at a host; a switch may store it in packet_state", "out_port": "the packet is at a host"}
OF_NO_FRAME = {
    **dict.fromkeys(("payload", "hash", "ecn", "held", "out_port", "src", "dst"), "of a control frame it is not set"),
    "number": "write command_of(pkt)",
    "slot": "write value_of(pkt)",
    "seq": "write mask_of(pkt)",
    "flags": "of a control frame it is not set",
    "queue": "of a control frame it is not set; port.slot and value_of(pkt) may be what you want",
}
IN_FRAME = {**OF_NO_FRAME, "priority": "of a control frame it is not set"}
AT_SWITCH = {"out_port": "the packet leaves by this port, port.slot"}
BEFORE_QUEUE = {**AT_SWITCH, "held": "whether the packet is held is decided later"}
NOT_SENT = "the packet has not been sent yet"


@dataclass(frozen=True)
class Hook:
    """A hook.

    arguments    names of a scheme's arguments, behind its own struct
    at           "host", "switch", "both": whose events call it; "": called once, while the network is built
    result       C type of what it returns; "": nothing
    packet       "always": `pkt` is never NO_PACKET; "none": it always is; "maybe": every use of it is checked
    alone        what it decides, if one part of a composition only may have it
    by           its place in a table: of the kinds of "frame", or of the "scheme"s; "": a list
    meaningless  fields of the packet that mean nothing there -> why
    real_switch  "runs" on real frames; "host": needs a host of its own; "never"; "": makes no difference there
    """

    arguments: str
    at: str = ""
    result: str = ""
    packet: str = "maybe"
    alone: str = ""
    by: str = ""
    meaningless: Mapping[str, str] = field(default_factory=dict)
    real_switch: str = ""

    @property
    def kind(self) -> str:
        """The struct of its list."""
        return KINDS[self.arguments, self.result]


HOOKS: dict[str, Hook] = {
    "choose_path": Hook("node port pkt", "switch", "int32_t", "always", "the path", "", BEFORE_QUEUE, "runs"),
    "choose_port": Hook("node port pkt", "switch", "int32_t", "always", "the path", "", BEFORE_QUEUE, "never"),
    "choose_voq": Hook("node port pkt", "switch", "int32_t", "always", "what is held back", "", BEFORE_QUEUE, "runs"),
    "choose_queue": Hook("node port pkt", "switch", "int32_t", "always", "the queue", "", AT_SWITCH, "runs"),
    "admit": Hook("node port pkt", "switch", "int32_t", "always", "", "", BEFORE_QUEUE, "runs"),
    "on_enqueue": Hook("node port queue pkt", "switch", "", "always", "", "", AT_SWITCH, "runs"),
    "on_dequeue": Hook("node port queue pkt", "switch", "", "always", "", "", AT_SWITCH, "runs"),
    "on_control": Hook("node port pkt", "both", "", "always", "", "frame", IN_FRAME, "runs"),
    "on_timer": Hook("node", "both", by="scheme", real_switch="runs"),
    "on_start": Hook("node flow pkt", "host", packet="none", real_switch="host"),
    "on_send": Hook("node flow pkt", "host", "", "always", "", "", {**AT_HOST, "in_port": NOT_SENT, "time": NOT_SENT}),
    "on_ack": Hook("node flow pkt", "host", "", "always", "", "", {**AT_HOST, "queue": "an ACK has no queue at a host"}, "host"),
    "on_finish": Hook("node flow pkt", "host", packet="none", real_switch="host"),
    "on_timeout": Hook("node flow", "host", alone="what a timeout does", real_switch="host"),
    "on_expiry": Hook("node flow", "host", real_switch="host"),
    "on_loss": Hook("node flow", "host", real_switch="host"),
    "on_return": Hook("node flow pkt", "host", "", "always", "", "", AT_HOST, "host"),
    "choose_packet": Hook("node flow", "host", "int64_t", alone="which packet is sent again", real_switch="host"),
    "on_data": Hook(
        "node incoming pkt",
        "host",
        "int32_t",
        "always",
        "what receivers answer",
        "",
        {**AT_HOST, "queue": "the packet has arrived"},
        "host",
    ),
    "on_arrival": Hook("node port pkt", "host", "", "always", "", "", AT_HOST, "never"),
    "on_flow_timer": Hook("node incoming", "host", real_switch="host"),
    "on_drop": Hook(
        "node port pkt",
        "both",
        "",
        "always",
        "what becomes of a drop",
        "",
        {"out_port": "the packet is lost", "held": "the packet is lost"},
        "never",
    ),
    "next_queue": Hook("node port", "both", "int32_t", alone="which queue is served", real_switch="never"),
    "on_link_change": Hook("node port", "both"),
    "rank_packet": Hook("node port pkt", "switch", "int64_t", "always", "the ranks of packets", "", AT_SWITCH, "never"),
    "set_up": Hook(""),
    "set_up_node": Hook("node"),
    "set_up_port": Hook("node port"),
}


@dataclass(frozen=True)
class Verb:
    """A function that a scheme may call.

    kinds        kinds of its arguments -> kind of its result; "bits" is an array of masks, "word" an integer or a mask
    home         the module of the fabric that has it; "": it is the scheme's own, or the translation's
    plain        it needs no check beyond that of its arguments; others have a namesake with the prefix g_ in fabric/checked.pxd
    needs        a hook without which it makes no sense
    host         it is about flows of hosts, which a real switch has not
    gives        of its result: "null" if it may be NO_..., and what it is: a new "frame", a "found" flow, a "queued" packet
    """

    kinds: str
    home: str = ""
    plain: bool = False
    needs: str = ""
    host: bool = False
    gives: tuple[str, ...] = ()


FOUND, QUEUED = ("null", "found"), ("null", "queued")
VERBS: dict[str, Verb] = {
    "port_at": Verb("*Node int -> *Port", "state"),
    "queue_at": Verb("*Port int -> *Queue", "state"),
    "voq_at": Verb("*Node int -> *Queue", "state"),
    "path_at": Verb("*Node *Packet int -> *Port", "routing"),
    "path_count": Verb("*Node *Packet -> int", "routing"),
    "port_towards": Verb("*Node *Packet int -> *Port", "routing", gives=("null",)),
    "passes": Verb("*Node *Port int int int int -> bool", "routing"),
    "group_of": Verb("*Node int -> int", "state"),
    "port_of": Verb("*Flow -> *Port", "state", plain=True, host=True),
    "line_rate": Verb("*Node -> float", "state", plain=True),
    "inbound_ps_per_byte": Verb("*Node -> float", "incoming", plain=True, host=True),
    "from_incast": Verb("*Node *Packet -> bool", "state", plain=True),
    "packets_answered": Verb("*Node *Packet -> int", "state", plain=True, host=True),
    "time_waited": Verb("*Node *Packet -> int", "state", plain=True, host=True),
    "round_trip_of": Verb("*Node *Flow -> int", "state", plain=True, host=True),
    "draw": Verb("*Node int -> int", "queueing"),
    "new_frame": Verb("*Node int int -> *Packet", "line", gives=("frame",)),
    "send_frame": Verb("*Node int *Packet ->", "line", needs="on_control"),
    "send_to_host": Verb("*Node int *Packet ->", "line", needs="on_control"),
    "send_along": Verb("*Node int int int *Packet ->", "line", needs="on_control"),
    "send_with_data": Verb("*Node int *Packet ->", "line", needs="on_control"),
    "send_control": Verb("*Node int int int int word ->", "line", needs="on_control"),
    "about_sent": Verb("*Packet *Flow ->", "incoming"),
    "about_incoming": Verb("*Packet *Incoming ->", "incoming"),
    "incoming_at": Verb("*Node int -> *Incoming", "incoming", needs="on_data", gives=FOUND),
    "incoming_of": Verb("*Node *Packet -> *Incoming", "incoming", needs="on_data", host=True, gives=FOUND),
    "set_flow_timer": Verb("*Node *Incoming int ->", "incoming", needs="on_flow_timer"),
    "rank_incoming": Verb("*Node *Incoming int ->", "incoming", plain=True, needs="on_data"),
    "unrank_incoming": Verb("*Node *Incoming ->", "incoming", plain=True),
    "first_ranked": Verb("*Node -> *Incoming", "incoming", plain=True, gives=FOUND),
    "try_send": Verb("*Node *Flow ->", "pacing", plain=True),
    "send_from": Verb("*Node *Flow int ->", "pacing"),
    "report_loss": Verb("*Node *Flow int ->", "pacing", host=True),
    "avoid_ports": Verb("*Flow word ->", "pacing", plain=True, host=True),
    "set_rank": Verb("*Node *Flow int ->", "pacing", plain=True, host=True),
    "wake_port": Verb("*Node *Port int ->", "line", needs="next_queue"),
    "exchange_with_tail": Verb("*Node *Port *Queue *Packet ->", "switch", plain=True),
    "drop_queued": Verb("*Node *Port *Queue *Packet ->", "switch", plain=True),
    "discard": Verb("*Node *Port *Queue ->", "switch", plain=True),
    "move_to_head": Verb("*Node *Port *Queue *Packet ->", "switch", plain=True, needs="next_queue"),
    "best_packet": Verb("*Node *Port -> *Packet", "ranking", plain=True, needs="rank_packet", gives=QUEUED),
    "worst_packet": Verb("*Node *Port -> *Packet", "ranking", plain=True, needs="rank_packet", gives=QUEUED),
    "earliest_packet": Verb("*Node *Port *Packet -> *Packet", "ranking", plain=True, needs="rank_packet", gives=QUEUED),
    "about_flow": Verb("*Packet *Packet ->", "pacing"),
    "flow_of": Verb("*Node *Packet -> *Flow", "pacing", host=True, gives=FOUND),
    "hold_flow": Verb("*Node *Flow time ->", "pacing", plain=True, host=True),
    "let_go": Verb("*Node *Flow ->", "pacing", plain=True, host=True),
    "first_flow_of": Verb("*Node -> *Flow", "pacing", plain=True, host=True, gives=FOUND),
    "repace": Verb("*Node *Flow ->", "pacing", plain=True, host=True),
    "set_rate": Verb("*Flow rate ->", "pacing", plain=True, host=True),
    "release": Verb("*Node int ->", "switch", needs="choose_voq"),
    "requeue": Verb("*Node int int ->", "switch", needs="choose_voq"),
    "pause_queue": Verb("*Node *Port int int ->", "line"),
    "resume_queue": Verb("*Node *Port int int ->", "line"),
    "pause_port": Verb("*Node *Port int ->", "line"),
    "resume_port": Verb("*Node *Port int ->", "line"),
    "set_timer": Verb("*Node int int ->", "line", needs="on_timer"),
    "wake_by": Verb("*Node int int ->", "line", needs="on_timer"),
    "command_of": Verb("*Packet -> int", "state", plain=True),
    "value_of": Verb("*Packet -> int", "state", plain=True),
    "mask_of": Verb("*Packet -> int", "state", plain=True),
    "hash31": Verb("word word -> int", "state"),
    "pick": Verb("int int int -> int", "state"),
    "bit": Verb("int -> mask", "state"),
    "lowest_bit": Verb("mask -> int", "state"),
    "bits_set": Verb("mask -> int", "state", plain=True),
    "has_bit": Verb("bits int -> bool", "state"),
    "set_bit": Verb("bits int ->", "state"),
    "clear_bit": Verb("bits int ->", "state"),
    "whole": Verb("finite -> int", "state", plain=True),
    "sqrt": Verb("root -> float", "arithmetic", plain=True),
    "exp": Verb("float -> float", "arithmetic", plain=True),
    "log": Verb("log -> float", "arithmetic", plain=True),
    "power": Verb("root float -> float", "arithmetic", plain=True),
    "floor": Verb("finite -> int", "arithmetic", plain=True),
    "ceil": Verb("finite -> int", "arithmetic", plain=True),
}


def verbs_of(home: str) -> tuple[str, ...]:
    """The verbs that a module of the fabric has, by name."""
    return tuple(sorted(name for name, verb in VERBS.items() if verb.home == home))


# ---- what a build generates ----

_C = {"node": "Node*", "port": "Port*", "queue": "Queue*", "pkt": "Packet*", "flow": "Flow*", "incoming": "Incoming*"}


def structs() -> str:
    """fabric/hooks.pxi, which state.pxd includes: a struct for each kind of hook, and Ops, what a node calls."""
    lines = ["# Generated by setup.py from composition/hooks.py"]
    lines.append("# Hooks of one event point: a list in the order in which the schemes were named; NULL if there is none.")
    for (arguments, result), kind in KINDS.items():
        typed = "".join(f", {_C[name]} {name}" for name in arguments.split())
        call = f"{result or 'void'} (*call)(void* me{typed}) noexcept nogil"
        lines += [f"ctypedef struct {kind}:", f"    {call}", "    void* me", f"    {kind}* next", ""]
    called = {name: hook for name, hook in HOOKS.items() if hook.at}
    lengths = {"frame": MOST_FRAMES, "scheme": MOST_SCHEMES}
    lines.append("ctypedef struct Ops:        # one for the hosts, one for the switches")
    lines += [f"    {hook.kind}* {name}" for name, hook in called.items() if not hook.by]
    lines += [f"    {kind} {name}" for name, kind in FABRIC.items()]
    lines += [f"    {hook.kind}* {name}[{lengths[hook.by]}]    # by {hook.by}" for name, hook in called.items() if hook.by]
    return "\n".join(lines) + "\n"


def installer() -> str:
    """sim/core/install.pxi, which pointers.pxd includes: where the list of a hook begins."""
    lines = [
        "# Generated by setup.py from composition/hooks.py",
        "# Where the list of a hook begins; of one with a table, at its place there.",
        "cdef inline void** list_of(Ops* ops, str name, long place) except NULL:",
    ]
    for name, hook in HOOKS.items():
        if hook.at:
            start = f"&ops.{name}[place]" if hook.by else f"&ops.{name}"
            lines += [f'    if name == "{name}":', f"        return <void**>{start}"]
    return "\n".join([*lines, '    raise KeyError(f"no hook {name}")', ""])
