"""What a scheme file may read, write and call, and of which kind it is; what means nothing in a hook.

Kinds: "int" (64 bits), "bool" (0 or 1), "mask" (64 bits without sign), "float", "*Packet" (one of the fabric's things, or of the
scheme's records), "[int32" (an array of numbers), "" (nothing).
"""

from collections.abc import Mapping
from functools import cache

from penstock_net import pxd
from penstock_net.composition.hooks import HOOKS, OF_NO_FRAME

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
    ("Flow", "next_active"),
    ("Node", "worker"),
    ("Worker", "world"),
    ("Places", "world"),
}
ARRAYS = {("Node", "deadlines")}
MAY_BE_NULL = {"head", "tail", "next", "after", "next_active"}
# fields that a scheme may set -> function that checks the value, with the least one if it takes it
WRITABLE = {
    ("Packet", "size"): "g_size",
    ("Packet", "ecn"): "g_fit8",
    ("Packet", "priority"): "g_level",
    ("Packet", "hash"): "g_word",
    ("Port", "flows"): "g_least 0",
    ("Port", "ecn_marks"): "g_least 0",
    ("Port", "storms"): "g_least 0",
    ("Port", "restored"): "g_least 0",
    ("Flow", "window"): "g_least 0",
    ("Flow", "fc_gap"): "g_gap",
    ("Flow", "resend"): "g_count",
    ("Flow", "backoff"): "g_backoff",
    ("Flow", "rto"): "g_least 0",
}
NULLS = {"NO_PACKET": "*Packet", "NO_FLOW": "*Flow", "NO_INCOMING": "*Incoming", "NO_PORT": "*Port", "NO_QUEUE": "*Queue"}

# kind of an argument -> function that checks it
CHECKS = {"rate": "g_rate", "root": "g_of_root", "log": "g_of_log", "finite": "g_whole", "time": "g_least 0"}

# Where a packet comes from -> what of it means nothing, and why
MEANINGLESS: dict[str, Mapping[str, str]] = {
    **{name: hook.meaningless for name, hook in HOOKS.items() if hook.meaningless},
    "frame": {
        **OF_NO_FRAME,
        **dict.fromkeys(("number", "slot", "seq"), "put what you send into frame_state"),
        "in_port": "the frame has not been sent yet",
    },
}
GROWS = {"on_send", "on_data", "frame"}  # packets whose size a scheme may set


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
