"""Changes of links and switches as tables, such as those of a spec: one table may stand for many changes."""

from collections.abc import Mapping
from typing import Any

from penstock_net.errors import ABSENT, SpecError
from penstock_net.inputs import boolean, inside, known_keys, one_of, time_ps, whole
from penstock_net.topology.changes import (
    CHANGE_EXAMPLE,
    DROP,
    MOST_CHANGES,
    OF_SWITCHES,
    ON_DOWN,
    SWITCH_EXAMPLE,
    Change,
    LinkChange,
    LinkStates,
    SwitchChange,
    check_change,
    check_switch,
)
from penstock_net.units import bits_per_second, format_time, ps_per_byte

CHANGE_KEYS = ("time", "a", "b", "parallel", "switch", "up", "rate", "llr", "of", "on_down", "night", "every", "until")


def read(topo: Any, table: Mapping[str, Any]) -> tuple[list[Change], dict[str, Any]]:
    """The changes of a Topology that a table stands for, and the table with exact times and rates.  SpecError names the key."""
    known_keys(table, CHANGE_KEYS)
    once = _of_switch(topo, table) if "switch" in table else _of_link(topo, table)
    times = _times(table, once[0].time_ps)
    changes = [change._replace(time_ps=change.time_ps + time - times[0]) for time in times for change in once]
    if len(changes) == 1:
        return changes, written(topo, changes[0])
    return changes, _as_given(topo, table, once)


def written(topo: Any, change: Change) -> dict[str, Any]:
    """A change of a Topology as in TOML; times and rates exact."""
    if isinstance(change, SwitchChange):
        check_change(change, topo.links, topo.hosts, topo.names)
        said = {"on_down": change.on_down} if change.on_down != DROP else {}
        return {"time": f"{change.time_ps}ps", "switch": topo.names[change.switch], "up": change.up, **said}
    if not 0 <= change.link < len(topo.links):
        raise SpecError(f"link {change.link} does not exist", path="changes", remedy=f"links are 0 to {len(topo.links) - 1}")
    table: dict[str, Any] = {"time": f"{change.time_ps}ps", **_ends(topo, change.link)}
    if change.up is not None:
        table["up"] = change.up
    if change.ps_per_byte:
        table["rate"] = f"{bits_per_second(change.ps_per_byte)}bps"
    if change.llr is not None:
        table["llr"] = change.llr
    if change.node is not None:
        table["of"] = topo.names[change.node]
    if change.on_down != DROP:
        table["on_down"] = change.on_down
    return table


def _ends(topo: Any, link: int) -> dict[str, Any]:
    """The keys that name a link."""
    a, b = (int(topo.links[end][link]) for end in ("a", "b"))
    alike = topo.links_between(a, b)
    return {"a": topo.names[a], "b": topo.names[b]} | ({"parallel": alike.index(link)} if len(alike) > 1 else {})


def _as_given(topo: Any, table: Mapping[str, Any], once: list[Change]) -> dict[str, Any]:
    """A table of several changes, of which `once` are the first, with names, and exact times and rates."""
    out: dict[str, Any] = {"time": f"{once[0].time_ps}ps"}
    if "switch" in table:
        out["switch"] = topo.names[topo.node(table["switch"])]
    else:
        assert isinstance(once[0], LinkChange)
        out |= _ends(topo, once[0].link)
    if "up" in table:
        out["up"] = table["up"]
    if "rate" in table:
        out["rate"] = f"{bits_per_second(ps_per_byte(table['rate'], 'rate'))}bps"
    if "llr" in table:
        out["llr"] = table["llr"]
    if "of" in table:
        out["of"] = topo.names[topo.node(table["of"])]
    if "on_down" in table:
        out["on_down"] = table["on_down"]
    return out | {key: f"{time_ps(table[key], key)}ps" for key in ("night", "every", "until") if key in table}


def _of_link(topo: Any, table: Mapping[str, Any]) -> list[Change]:
    """What a table says of a link, once."""
    for key in ("time", "a", "b"):
        if key not in table:
            raise SpecError("is missing", path=key, remedy=f"write for example {CHANGE_EXAMPLE}")
    time = time_ps(table["time"], "time")
    rate = ps_per_byte(table["rate"], "rate") if "rate" in table else None
    node = topo.node(table["of"]) if "of" in table else None
    up = boolean(table["up"], "up") if table.get("up") is not None else None
    parallel = whole(table["parallel"], "parallel", 0) if "parallel" in table else None
    llr = boolean(table["llr"], "llr") if table.get("llr") is not None else None
    link, night = topo.link(table["a"], table["b"], parallel), _night(table, up)
    on_down = _on_down(table, night is not None or up is False)
    if night is None:
        return [LinkChange(time, link, up, rate, node, on_down, llr)]
    if node is not None:
        raise SpecError("is of one direction, and a night is of both", path="of", value=table["of"], remedy="remove one of them")
    return [LinkChange(time, link, False, on_down=on_down), LinkChange(time + night, link, True, rate, llr=llr)]


def _of_switch(topo: Any, table: Mapping[str, Any]) -> list[Change]:
    """What a table says of a switch, once: it fails or is back, or its links are dark or silent for a night."""
    for key in ("time",) if "night" in table else ("time", "up"):
        if key not in table:
            raise SpecError("is missing", path=key, remedy=f"write for example {SWITCH_EXAMPLE}")
    more = [key for key in table if key in ("a", "b", "parallel", "rate", "llr", "of")]
    if more:
        raise SpecError("is of a link, and this is a switch", path=more[0], remedy="remove it, or switch")
    with inside("switch"):
        switch = topo.node(table["switch"])
    time, up = time_ps(table["time"], "time"), boolean(table["up"], "up") if "up" in table else None
    switch, night = check_switch(switch, topo.hosts, topo.names), _night(table, up)
    on_down = _on_down(table, night is not None or up is False)
    if night is None:
        if on_down not in OF_SWITCHES:
            rule = "is of links, and a switch that fails loses what it stores, and its routes"
            raise SpecError(rule, path="on_down", value=on_down, remedy='give night = "20us" instead of up: its links go down')
        return [SwitchChange(time, switch, bool(up), on_down)]
    if on_down in OF_SWITCHES:
        return [SwitchChange(time, switch, False, on_down), SwitchChange(time + night, switch, True)]
    links = LinkStates(topo.links).of_switch(switch)
    down: list[Change] = [LinkChange(time, link, False, on_down=on_down) for link in links]
    return down + [LinkChange(time + night, link, True) for link in links]


def _night(table: Mapping[str, Any], up: bool | None) -> int | None:
    """How long a link or switch is down, ps; None: until another table says that it is up."""
    if "night" not in table:
        return None
    if up is not None:
        rule = "is what night says: down at `time`, and up again after it"
        raise SpecError(rule, path="up", value=up, remedy="remove up, or night")
    return time_ps(table["night"], "night", positive=True)


def _on_down(table: Mapping[str, Any], goes_down: bool) -> str:
    if "on_down" not in table:
        return DROP
    on_down = one_of(table["on_down"], "on_down", ON_DOWN)
    if not goes_down:
        rule = "is of what goes down"
        raise SpecError(rule, path="on_down", value=table["on_down"], remedy='remove it, or give up = false, or night = "20us"')
    return on_down


def _times(table: Mapping[str, Any], time: int) -> range:
    """When the changes of a table begin, ps: at `time`, and again every `every` before `until`."""
    if ("every" in table) != ("until" in table):
        missing = "until" if "every" in table else "every"
        raise SpecError("is missing; every and until belong together", path=missing, value=ABSENT, remedy="give both or none")
    if "every" not in table:
        return range(time, time + 1)
    every, until = (time_ps(table[key], key, positive=True) for key in ("every", "until"))
    if until <= time:
        raise SpecError("must be after time, or nothing ever changes", path="until", value=table["until"])
    if every <= time_ps(table.get("night", 0), "night"):
        raise SpecError("must be longer than night, or it is never day", path="every", value=table["every"])
    if -(-(until - time) // every) > MOST_CHANGES // 2:
        rule = f"every = {format_time(every)} until {format_time(until)} makes more than {MOST_CHANGES // 2} repetitions"
        raise SpecError(rule, remedy="let it change more slowly, or end earlier")
    return range(time, until, every)
