"""Clean configurations of SONiC, written from what shipped tables have: rows of headroom, pools, ECN;
and default maps; and what applies a patch."""

import json

# name: (hwsku, buffers, marking, ports); numbers are bytes as in shipped files.
#   buffers   size and xoff of the ingress pool, size and xon of the profiles (None: given by port), n of alpha, xon_offset
#   marking   min, max, percent
#   ports     how many, Mbit/s, lanes, metres, xoff, [size, xon]
SHIPPED = {
    "Z9864f": (
        "Dell-Z9864f-O64",
        (162539680, 33374584, 18796, 0, 0, 3556),
        (1048576, 2097152, 5),
        [(32, 400000, 4, 5, 393192), (16, 800000, 8, 40, 835406)],
    ),
    "H5": (
        "Nokia-IXR7220-H5-64O",
        (161176208, 29520896, 1248, 2288, 0, 2288),
        (1048576, 2097152, 5),
        [(48, 800000, 8, 5, 572516), (16, 800000, 8, 300, 929132)],
    ),
    "H6": (
        "Nokia-IXR7220-H6-O256",
        (257154240, 59041792, 8400, 0, 0, 4200),
        (1048576, 2097152, 5),
        [(128, 400000, 4, 40, 490980)],
    ),
    "7060X6": (
        "Arista-7060X6-64PE-B-O128",
        (164505640, 22010624, 18796, 0, 0, 3556),
        (1048576, 2097152, 5),
        [(128, 400000, 4, 40, 445770)],
    ),
    "SN5600": (
        "ACS-SN5600",
        (67737959, None, None, None, 0, None),
        (166912, 282624, 5),
        [(24, 400000, 4, 5, 231424, 250880, 19456), (16, 800000, 8, 5, 257024, 304128, 38912)],
    ),
    "SN5640": (
        "Mellanox-SN5640-C512X2",
        (94934016, 0, 19456, 19456, 0, None),
        (1048576, 2097152, 5),
        [(64, 200000, 2, 5, 50176)],
    ),
    "SN4700": (
        "ACS-MSN4700",
        (26451968, None, None, None, 0, None),
        (1048576, 2097152, 5),
        [(16, 100000, 2, 5, 33792, 53248, 19456), (16, 400000, 8, 5, 38912, 86016, 37888)],
    ),
    "Z9332f": (
        "DellEMC-Z9332f-M-O16C64",
        (66394076, 8644128, 2540, 2540, -2, 2540),
        (1048576, 2097152, 5),
        [(64, 100000, 2, 5, 68580), (16, 400000, 8, 300, 373888)],
    ),
    "7260": (
        "Arista-7260CX3-C64",
        (33000000, 7827456, 1248, 1248, 0, 2496),
        (2000000, 10000000, 5),
        [(64, 100000, 4, 40, 59696)],
    ),
    "d64p512t": (
        "d64p512t_128x400G-2x10G",
        (158630302, 71577600, 1518, 0, 1, 13824),
        (1048576, 2097152, 5),
        [(128, 400000, 4, 40, 147072)],
    ),
}
LOSSLESS = "3-4"


def clean(name, most=4096):
    """A configuration without a fault, as a new object, with at most so many ports of a kind."""
    hwsku, (pool, shared, size, xon, threshold, offset), (low, high, percent), kinds = SHIPPED[name]
    marking = {"ecn": "ecn_all"}
    for colour in ("green", "yellow", "red"):
        marking |= {f"{colour}_min_threshold": str(low), f"{colour}_max_threshold": str(high)}
        marking |= {f"{colour}_drop_probability": str(percent), f"wred_{colour}_enable": "true"}
    same = {str(i): str(i) for i in range(8)}
    tables = {
        "DEVICE_METADATA": {"localhost": {"hostname": "leaf1", "hwsku": hwsku}},
        "PORT": {},
        "CABLE_LENGTH": {"AZURE": {}},
        "BUFFER_POOL": {
            "ingress_lossless_pool": {"type": "ingress", "mode": "dynamic", "size": str(pool)},
            "egress_lossless_pool": {"type": "egress", "mode": "static", "size": str(pool)},
            "egress_lossy_pool": {"type": "egress", "mode": "dynamic", "size": str(pool // 2)},
        },
        "BUFFER_PROFILE": {
            "egress_lossless_profile": {"pool": "egress_lossless_pool", "size": "0", "static_th": str(pool)},
            "egress_lossy_profile": {"pool": "egress_lossy_pool", "size": "1518", "dynamic_th": "3"},
        },
        "BUFFER_PG": {},
        "BUFFER_QUEUE": {},
        "WRED_PROFILE": {"AZURE_LOSSLESS": marking},
        "SCHEDULER": {"scheduler.0": {"type": "DWRR", "weight": "14"}},
        "QUEUE": {},
        "PORT_QOS_MAP": {},
        "DSCP_TO_TC_MAP": {"AZURE": {**{str(i): "1" for i in range(64)}, "3": "3", "4": "4", "46": "5", "48": "6"}},
        "TC_TO_QUEUE_MAP": {"AZURE": dict(same)},
        "TC_TO_PRIORITY_GROUP_MAP": {"AZURE": {**dict.fromkeys("01256", "0"), "3": "3", "4": "4", "7": "7"}},
        "MAP_PFC_PRIORITY_TO_QUEUE": {"AZURE": dict(same)},
        "PFC_WD": {"GLOBAL": {"POLL_INTERVAL": "200"}},
        "VLAN": {"Vlan1000": {"vlanid": "1000"}},
    }
    if shared is not None:
        tables["BUFFER_POOL"]["ingress_lossless_pool"]["xoff"] = str(shared)
    if name == "SN5640":
        tables["LOSSLESS_TRAFFIC_PATTERN"] = {"AZURE": {"mtu": "4096", "small_packet_percentage": "50"}}
    first = 0
    for count, speed, lanes, metres, xoff, *own in kinds:
        profile = f"pg_lossless_{speed}_{metres}m_profile"
        values = {"xoff": xoff, "size": own[0] if own else size, "xon": own[1] if own else xon, "dynamic_th": threshold}
        values |= {"xon_offset": offset} if offset is not None else {}
        row = {key: str(value) for key, value in values.items()}
        tables["BUFFER_PROFILE"][profile] = {"pool": "ingress_lossless_pool", **row}
        for _ in range(min(count, most)):
            port, first = f"Ethernet{first}", first + 8
            tables["PORT"][port] = {"speed": str(speed), "lanes": ",".join(str(first + i) for i in range(lanes)), "mtu": "9100"}
            tables["CABLE_LENGTH"]["AZURE"][port] = f"{metres}m"
            tables["BUFFER_PG"][f"{port}|{LOSSLESS}"] = {"profile": profile}
            tables["BUFFER_QUEUE"][f"{port}|{LOSSLESS}"] = {"profile": "egress_lossless_profile"}
            tables["BUFFER_QUEUE"][f"{port}|0-2"] = {"profile": "egress_lossy_profile"}
            for i in (3, 4):
                tables["QUEUE"][f"{port}|{i}"] = {"scheduler": "scheduler.0", "wred_profile": "AZURE_LOSSLESS"}
            maps = ("dscp_to_tc_map", "tc_to_queue_map", "tc_to_pg_map", "pfc_to_queue_map")
            enabled = {"pfc_enable": "3,4", "pfcwd_sw_enable": "3,4"}
            tables["PORT_QOS_MAP"][port] = {**dict.fromkeys(maps, "AZURE"), **enabled}
            tables["PFC_WD"][port] = {"action": "drop", "detection_time": "200", "restoration_time": "200"}
    return tables


def applied(patch, tables):
    """A JSON patch of removals and replacements, RFC 6902."""
    tables = json.loads(json.dumps(tables))
    for step in patch:
        *path, last = [part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:]]
        place = tables
        for part in path:
            place = place[part]
        assert last in place
        if step["op"] == "remove":
            del place[last]
        else:
            assert step["op"] == "replace"
            place[last] = step["value"]
    return tables
