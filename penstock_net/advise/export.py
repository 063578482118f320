"""Settings as rows of config_db.json, what they make of a configuration, and the patch that takes them back."""

from __future__ import annotations

import copy
from itertools import groupby
from typing import Any

from penstock_net.advise.formulas import Sonic
from penstock_net.advise.settings import Advice, Class
from penstock_net.advise.sonic import Config, Tables, keys_of, lossless_pool, name_in

WRED = "AZURE_LOSSLESS"


def fragment(advice: Advice, before: Config) -> Tables:
    """The rows that are to be set, with the names that the configuration before has for profiles and pools."""
    pool, wred = lossless_pool(before), _wred(advice, before)
    switch = advice.switch
    enabled = ",".join(map(str, switch.lossless))
    size = {"type": "ingress", "mode": "dynamic", "size": str(advice.budget.pool)}
    if all(kind.dynamic for kind in switch.ports) and "size" not in before.rows("BUFFER_POOL").get(pool, {}):
        del size["size"]  # SONiC computes it
    if switch.shares:
        size["xoff"] = str(advice.budget.headroom)
    out: Tables = {
        "CABLE_LENGTH": {"AZURE": {}},
        "BUFFER_POOL": {pool: size},
        "BUFFER_PROFILE": {},
        "BUFFER_PG": {},
        "WRED_PROFILE": {wred: _marking(advice)},
        "QUEUE": {},
        "PORT_QOS_MAP": {},
        "PFC_WD": {"GLOBAL": {"POLL_INTERVAL": str(advice.poll_ms)}},
    }
    formula = switch.platform.formula
    if isinstance(formula, Sonic):
        percent = str(formula.small_percent)
        out["LOSSLESS_TRAFFIC_PATTERN"] = {"AZURE": {"mtu": str(formula.lossless_mtu), "small_packet_percentage": percent}}
    time = str(advice.detection_ms)
    for one in advice.classes:
        profile = f"pg_lossless_{one.ports.gbps * 1000}_{one.ports.metres}m_profile"
        if not one.ports.dynamic:
            out["BUFFER_PROFILE"][profile] = _profile(one, pool, advice.dynamic_th)
        for name in one.ports.names:
            out["CABLE_LENGTH"]["AZURE"][name] = f"{one.ports.metres}m"
            out["PORT_QOS_MAP"][name] = {"pfc_enable": enabled, "pfcwd_sw_enable": enabled}
            out["PFC_WD"][name] = {"action": "drop", "detection_time": time, "restoration_time": time}
            for key in _keys(name, switch.lossless, before.rows("BUFFER_PG")):
                out["BUFFER_PG"][key] = {"profile": "NULL" if one.ports.dynamic else profile}
            for key in _keys(name, switch.lossless, before.rows("QUEUE")):
                out["QUEUE"][key] = {"wred_profile": wred}
    return out


def _profile(one: Class, pool: str, threshold: int) -> dict[str, str]:
    row = {"pool": pool, "size": one.size, "xon": one.xon, "xoff": one.xoff, "dynamic_th": threshold}
    if one.xon_offset is not None:
        row["xon_offset"] = one.xon_offset
    return {key: str(value) for key, value in row.items()}


def _marking(advice: Advice) -> dict[str, str]:
    row = {"ecn": "ecn_all"}
    for colour in ("green", "yellow", "red"):
        row[f"wred_{colour}_enable"] = "true"
        row[f"{colour}_min_threshold"] = str(advice.k_min)
        row[f"{colour}_max_threshold"] = str(advice.k_max)
        row[f"{colour}_drop_probability"] = str(advice.p_max)
    return row


def _wred(advice: Advice, before: Config) -> str:
    """The WRED profile that the configuration has for lossless queues."""
    names = {name for one in advice.classes for name in one.ports.names}
    for key, row in before.rows("QUEUE").items():
        for name, i in keys_of(key):
            found = name_in(row.get("wred_profile", ""))
            if name in names and i in advice.switch.lossless and found in before.rows("WRED_PROFILE"):
                return found
    return WRED


def _keys(name: str, lossless: tuple[int, ...], rows: dict[str, Any]) -> list[str]:
    """Keys for the lossless priorities of a port: those that are there, and runs of the others."""
    there = [key for key in rows if key.partition("|")[0] == name and set(i for _, i in keys_of(key)) <= set(lossless)]
    there = [key for key in there if any(True for _ in keys_of(key))]
    left = set(lossless) - {i for key in there for _, i in keys_of(key)}
    runs = [[i for _, i in run] for _, run in groupby(enumerate(sorted(left)), lambda pair: pair[1] - pair[0])]
    return there + [f"{name}|{run[0]}" + (f"-{run[-1]}" if len(run) > 1 else "") for run in runs]


def merged(before: Config, rows: Tables) -> Config:
    """The configuration with rows loaded into it (`config load`): fields are set, all others stay."""
    tables = copy.deepcopy(before.tables)
    for table, added in rows.items():
        for key, row in added.items():
            tables.setdefault(table, {}).setdefault(key, {}).update(row)
    return Config(tables)


def rollback(before: Config, rows: Tables) -> list[dict[str, Any]]:
    """The JSON patch (RFC 6902, `config apply-patch`) that makes of the merged configuration the one before."""
    patch: list[dict[str, Any]] = []
    for table, added in rows.items():
        if table not in before.tables:
            patch.append({"op": "remove", "path": f"/{_pointer(table)}"})
            continue
        for key, row in added.items():
            path = f"/{_pointer(table)}/{_pointer(key)}"
            old = before.tables[table].get(key)
            if old is None:
                patch.append({"op": "remove", "path": path})
            elif old | row != old:
                patch.append({"op": "replace", "path": path, "value": old})
    return patch


def _pointer(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
