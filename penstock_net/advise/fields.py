"""Fields of config_db.json: what each may be, and which row another one must name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from penstock_net.advise.finding import Finding
from penstock_net.advise.sonic import Config, keys_of, metres_in, name_in, number
from penstock_net.errors import closest

Rule = tuple[str, Callable[[Any], bool]]


def _whole(low: int, high: int, unit: str = "") -> Rule:
    return f"must be whole{unit}, {low} to {high}", lambda value: number(value, low, high) is not None


def _word(*words: str) -> Rule:
    return f"must be one of {', '.join(words)}", lambda value: value in words


PRIORITIES: Rule = (
    "must be priorities 0 to 7, such as 3,4",
    lambda value: isinstance(value, str) and re.fullmatch(r"([0-7](,[0-7])*)?", value) is not None,
)
ANY: Rule = ("", lambda value: True)
BYTES = _whole(0, 10**15, " bytes")
PERCENT = _whole(0, 100, " percent")
# table: field: rule.  In CLOSED tables no other field means anything.
FIELDS: dict[str, dict[str, Rule]] = {
    "PORT": {"speed": _whole(1, 3_200_000, " Mbit/s"), "mtu": _whole(68, 9216, " bytes")},
    "BUFFER_POOL": {
        "type": _word("ingress", "egress", "both"),
        "mode": _word("static", "dynamic"),
        "size": BYTES,
        "xoff": BYTES,
        "percentage": PERCENT,
    },
    "BUFFER_PROFILE": {
        "pool": ANY,
        "size": BYTES,
        "xon": BYTES,
        "xoff": BYTES,
        "xon_offset": BYTES,
        "dynamic_th": _whole(-8, 7),
        "static_th": BYTES,
        "headroom_type": _word("static", "dynamic"),
        "packet_discard_action": _word("drop", "trim"),
    },
    "BUFFER_PG": {"profile": ANY},
    "BUFFER_QUEUE": {"profile": ANY},
    "DEFAULT_LOSSLESS_BUFFER_PARAMETER": {"default_dynamic_th": _whole(-8, 7), "over_subscribe_ratio": _whole(0, 100)},
    "LOSSLESS_TRAFFIC_PATTERN": {"mtu": _whole(64, 9216, " bytes"), "small_packet_percentage": PERCENT},
    "WRED_PROFILE": {
        "ecn": _word(*("ecn_" + w for w in ("none", "green", "yellow", "red", "green_yellow", "green_red", "yellow_red", "all"))),
        **{f"wred_{colour}_enable": _word("true", "false") for colour in ("green", "yellow", "red")},
        **{f"{colour}_{end}_threshold": BYTES for colour in ("green", "yellow", "red") for end in ("min", "max")},
        **{f"{colour}_drop_probability": PERCENT for colour in ("green", "yellow", "red")},
    },
    "PORT_QOS_MAP": {"pfc_enable": PRIORITIES, "pfcwd_sw_enable": PRIORITIES},
    "SCHEDULER": {"type": _word("DWRR", "WRR", "STRICT"), "weight": _whole(1, 100)},
    "PFC_WD": {
        "action": _word("drop", "forward", "alert"),
        "detection_time": _whole(100, 5000, " ms"),
        "restoration_time": _whole(100, 60000, " ms"),
        "POLL_INTERVAL": _whole(100, 1000, " ms"),
    },
}
CLOSED = ("BUFFER_POOL", "BUFFER_PROFILE", "BUFFER_PG", "BUFFER_QUEUE", "LOSSLESS_TRAFFIC_PATTERN", "WRED_PROFILE")
# table, field: the table whose row it names
REFERENCES = {
    ("BUFFER_PROFILE", "pool"): "BUFFER_POOL",
    ("BUFFER_PG", "profile"): "BUFFER_PROFILE",
    ("BUFFER_QUEUE", "profile"): "BUFFER_PROFILE",
    ("QUEUE", "wred_profile"): "WRED_PROFILE",
    ("QUEUE", "scheduler"): "SCHEDULER",
    ("PORT_QOS_MAP", "dscp_to_tc_map"): "DSCP_TO_TC_MAP",
    ("PORT_QOS_MAP", "tc_to_queue_map"): "TC_TO_QUEUE_MAP",
    ("PORT_QOS_MAP", "tc_to_pg_map"): "TC_TO_PRIORITY_GROUP_MAP",
    ("PORT_QOS_MAP", "pfc_to_queue_map"): "MAP_PFC_PRIORITY_TO_QUEUE",
    ("PORT_QOS_MAP", "pfc_to_pg_map"): "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP",
}
PORTS_OF = {"BUFFER_PG": True, "BUFFER_QUEUE": True, "QUEUE": True, "PORT_QOS_MAP": False, "PFC_WD": False}


def ranges(config: Config) -> Iterator[Finding]:
    """Values that no switch takes, and fields that mean nothing."""
    for table, rules in FIELDS.items():
        for key, row in config.rows(table).items():
            for name, value in row.items():
                if name in rules and not rules[name][1](value):
                    yield Finding("error", "range", f"{table}|{key} {name}", f"{value!r:.60}: {rules[name][0]}")
                elif name not in rules and table in CLOSED:
                    hint = closest(name, rules)
                    yield Finding("warning", "field", f"{table}|{key} {name}", "no such field", hint or "leave it out")
    for key, row in config.rows("CABLE_LENGTH").items():
        for name, value in row.items():
            if metres_in(value) is None:
                yield Finding("error", "range", f"CABLE_LENGTH|{key} {name}", f"{value!r:.60}: must be whole metres, such as 40m")


def references(config: Config) -> Iterator[Finding]:
    """Names of rows and ports that are not there."""
    for (table, name), other in REFERENCES.items():
        for key, row in config.rows(table).items():
            target = name_in(row.get(name, ""))
            if target and target not in config.rows(other) and not (table == "BUFFER_PG" and target == "NULL"):
                hint = closest(target, config.rows(other)) or f"add the row, or name one of {other}"
                text = f"names {target!r:.60}, which {other} does not have"
                if table == "BUFFER_PG":
                    text += "; the priority has no headroom"
                yield Finding("error", "reference", f"{table}|{key} {name}", text, hint)
    ports = config.rows("PORT")
    if not ports:
        yield Finding("error", "reference", "PORT", "has no port, so that nothing can be said of any")
        return
    others = [(table, key, key) for table, numbered in PORTS_OF.items() if not numbered for key in config.rows(table)]
    for table in (table for table, numbered in PORTS_OF.items() if numbered):
        for key in config.rows(table):
            others += [(table, key, name) for name in dict.fromkeys(name for name, _ in keys_of(key))]
    others += [("CABLE_LENGTH", key, name) for key, row in config.rows("CABLE_LENGTH").items() for name in row]
    for table, key, names in others:
        for name in names.split(","):
            elsewhere = name in ("global", "GLOBAL") or name.startswith("PortChannel") or "|" in name
            if name not in ports and not elsewhere:
                yield Finding("warning", "reference", f"{table}|{key}", f"port {name!r:.60} is not in PORT", closest(name, ports))
