"""The defaults of the tables whose keys depend on a kind or on a scheme, for a spec that says everything."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from penstock_net.composition import OPTIONS, PLAIN

FROM_THE_RUN = ("seed", "duration", "index", "force")  # a workload takes these from [run], from its place, from an option


def of_topology(table: Mapping[str, Any]) -> dict[str, Any]:
    """A [topology] table with the defaults of its kind."""
    from penstock_net.topology import KINDS

    return {**table, **_missing(KINDS[table.get("kind") or "file"], table)}


def of_workload(table: Mapping[str, Any]) -> dict[str, Any]:
    """A [[workload]] table with the defaults of its kind."""
    from penstock_net.workload import KINDS

    found = {k: v for k, v in _missing(KINDS[table["kind"]], table).items() if k not in FROM_THE_RUN}
    if "class_name" in found:
        name = found.pop("class_name")
        found = {"class": name, **found} if "class" not in table else found
    return {**table, **found}


def of_scheme(table: Mapping[str, Any], scheme: Any) -> dict[str, Any]:
    """A [scheme] table with every parameter of `scheme`, which was made of it: a table for each part, and one for the hosts."""
    parts: dict[str, dict[str, Any]] = {}
    for key, value in scheme.parameters().items():
        part, _, name = key.rpartition(".")
        parts.setdefault(part, {})[name] = value
    parts |= {"host": dict(scheme.host)} if scheme.host else {}
    kept = ("name", "label", *OPTIONS, PLAIN)
    left_out = {key: False for key, value in scheme.set_by_user.items() if value is False and "." not in key}
    return left_out | {key: value for key, value in table.items() if key in kept} | parts


def _missing(builder: Callable[..., Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a builder with a default other than None that the table does not give."""
    given = {name: p.default for name, p in inspect.signature(builder).parameters.items() if p.default is not p.empty}
    return {name: default for name, default in given.items() if default is not None and name not in table}
