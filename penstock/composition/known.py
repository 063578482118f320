"""What a scheme file may read, write and call, and of which kind it is; what means nothing in a hook.

Kinds: "int" (64 bits), "bool" (0 or 1), "mask" (64 bits without sign), "float", "*Packet" (one of the fabric's things, or of the
scheme's records), "[int32" (an array of numbers), "" (nothing).
"""

from functools import cache

from penstock import pxd

NUMBERS = {
    "int8_t": "int",
    "int16_t": "int",
    "int32_t": "int",
    "int64_t": "int",
    "uint16_t": "int",
    "uint64_t": "mask",
    "double": "float",
}
C_KINDS = {"int": "int64_t", "mask": "uint64_t", "float": "double", "": "void"}
THINGS = ("Node", "Port", "Queue", "Packet", "Flow", "Incoming", "World", "Worker", "Places")
POINTERS = {
    ("Queue", "head"),
    ("Queue", "tail"),
    ("Packet", "next"),
    ("Incoming", "after"),
    ("Node", "worker"),
    ("Worker", "world"),
    ("Places", "world"),
}
ARRAYS = {("Node", "deadlines")}
MAY_BE_NULL = {"head", "tail", "next", "after"}
# fields that a scheme may set -> function that checks the value, with the least one if it takes it
WRITABLE = {
    ("Packet", "size"): "g_size",
    ("Packet", "ecn"): "g_fit8",
    ("Packet", "priority"): "g_level",
    ("Packet", "hash"): "g_word",
    ("Port", "flows"): "g_least 0",
    ("Port", "ecn_marks"): "g_least 0",
    ("Flow", "window"): "g_least 0",
    ("Flow", "fc_gap"): "g_gap",
    ("Flow", "resend"): "g_count",
    ("Flow", "backoff"): "g_backoff",
    ("Flow", "rto"): "g_least 0",
}
NULLS = {"NO_PACKET": "*Packet", "NO_FLOW": "*Flow", "NO_INCOMING": "*Incoming", "NO_PORT": "*Port", "NO_QUEUE": "*Queue"}

# verb -> kinds of its arguments, -> kind of its result.  "bits" is an array of masks, "word" an integer or a mask.
VERBS = {
    "port_at": "*Node int -> *Port",
    "queue_at": "*Port int -> *Queue",
    "voq_at": "*Node int -> *Queue",
    "path_at": "*Node *Packet int -> *Port",
    "path_count": "*Node *Packet -> int",
    "line_rate": "*Node -> float",
    "from_incast": "*Node *Packet -> bool",
    "draw": "*Node int -> int",
    "new_frame": "*Node int int -> *Packet",
    "send_frame": "*Node int *Packet ->",
    "send_to_host": "*Node int *Packet ->",
    "send_with_data": "*Node int *Packet ->",
    "send_control": "*Node int int int int word ->",
    "about_sent": "*Packet *Flow ->",
    "about_incoming": "*Packet *Incoming ->",
    "incoming_at": "*Node int -> *Incoming",
    "incoming_of": "*Node *Packet -> *Incoming",
    "set_flow_timer": "*Node *Incoming int ->",
    "rank_incoming": "*Node *Incoming int ->",
    "unrank_incoming": "*Node *Incoming ->",
    "first_ranked": "*Node -> *Incoming",
    "try_send": "*Node *Flow ->",
    "send_from": "*Node *Flow int ->",
    "set_rank": "*Node *Flow int ->",
    "wake_port": "*Node *Port int ->",
    "exchange_with_tail": "*Node *Port *Queue *Packet ->",
    "drop_queued": "*Node *Port *Queue *Packet ->",
    "move_to_head": "*Node *Port *Queue *Packet ->",
    "best_packet": "*Node *Port -> *Packet",
    "worst_packet": "*Node *Port -> *Packet",
    "earliest_packet": "*Node *Port *Packet -> *Packet",
    "about_flow": "*Packet *Packet ->",
    "flow_of": "*Node *Packet -> *Flow",
    "hold_flow": "*Node *Flow time ->",
    "repace": "*Node *Flow ->",
    "set_rate": "*Flow rate ->",
    "release": "*Node int ->",
    "pause_queue": "*Node *Port int int ->",
    "resume_queue": "*Node *Port int int ->",
    "pause_port": "*Node *Port int ->",
    "resume_port": "*Node *Port int ->",
    "set_timer": "*Node int int ->",
    "wake_by": "*Node int int ->",
    "command_of": "*Packet -> int",
    "value_of": "*Packet -> int",
    "mask_of": "*Packet -> int",
    "hash31": "word word -> int",
    "pick": "int int int -> int",
    "bit": "int -> mask",
    "lowest_bit": "mask -> int",
    "bits_set": "mask -> int",
    "has_bit": "bits int -> bool",
    "set_bit": "bits int ->",
    "clear_bit": "bits int ->",
    "whole": "finite -> int",
    "sqrt": "root -> float",
    "exp": "float -> float",
    "log": "log -> float",
    "power": "root float -> float",
    "floor": "finite -> int",
    "ceil": "finite -> int",
}
# those that need no check beyond that of their arguments; the others have a namesake with the prefix g_ in fabric/checked.pxd
PLAIN = {
    *("whole", "line_rate", "hold_flow", "repace", "set_rate", "set_rank", "try_send", "exchange_with_tail", "drop_queued"),
    *("best_packet", "earliest_packet", "worst_packet"),
    *("from_incast", "move_to_head", "first_ranked", "rank_incoming", "unrank_incoming"),
    *("command_of", "value_of", "mask_of", "bits_set"),
    *("sqrt", "exp", "log", "power", "floor", "ceil"),
}
# kind of an argument -> function that checks it
CHECKS = {"rate": "g_rate", "root": "g_of_root", "log": "g_of_log", "finite": "g_whole", "time": "g_least 0"}

# ---- Packets: what means nothing, by where the packet comes from ----
AT_HOST = {
    "held": "the packet is at a host; a switch may store it in packet_state",
    "out_port": "the packet is at a host",
}
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
MEANINGLESS: dict[str, dict[str, str]] = {
    "on_send": {**AT_HOST, "in_port": "the packet has not been sent yet", "time": "the packet has not been sent yet"},
    "on_ack": {**AT_HOST, "queue": "an ACK has no queue at a host"},
    "on_control": IN_FRAME,
    "frame": {
        **OF_NO_FRAME,
        **dict.fromkeys(("number", "slot", "seq"), "put what you send into frame_state"),
        "in_port": "the frame has not been sent yet",
    },
    "on_data": {**AT_HOST, "queue": "the packet has arrived"},
    "on_return": AT_HOST,
    "on_drop": {"out_port": "the packet is lost", "held": "the packet is lost"},
    **dict.fromkeys(("choose_path", "admit", "choose_voq"), BEFORE_QUEUE),
    **dict.fromkeys(("choose_queue", "on_enqueue", "on_dequeue", "rank_packet"), AT_SWITCH),
}
NO_PACKET_IN = ("on_start", "on_finish")
GROWS = {"on_send", "frame"}  # packets whose size a scheme may set


@cache
def fields_of(thing: str) -> dict[str, tuple[str, str]]:
    """Field -> (kind, C type) of one of the fabric's structs; the length of an array stands behind its C type: "int64_t 16"."""
    found: dict[str, tuple[str, str]] = {}
    for field in pxd.read("fabric/state.pxd").structs[thing]:
        key = thing, field.name
        if field.name.startswith(("spare", "padding")):
            continue
        if field.pointer:
            if key in POINTERS:
                found[field.name] = "*" + field.type, field.type + "*"
        elif field.length:
            if key in ARRAYS:
                found[field.name] = "[" + field.type.removesuffix("_t"), f"{field.type} {field.length}"
        elif field.type in NUMBERS:
            found[field.name] = NUMBERS[field.type], field.type
    return found
