"""What schemes count, record and print: what the core is told of it, and the frames and numbers that come of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from penstock_net.composition import prints
from penstock_net.composition.declare import C_TYPES
from penstock_net.sim.layouts import CONSTANTS, row_type

if TYPE_CHECKING:
    from penstock_net.composition import Composition
    from penstock_net.sim.logs import Logs

KINDS = {"int8_t": 0, "int16_t": 1, "int32_t": 2, "int64_t": 3, "uint64_t": 4, "double": 5}  # as number_in() takes them
OWNERS = {"node": CONSTANTS["IN_NODE"], "port": CONSTANTS["IN_PORT"], "flow": CONSTANTS["IN_FLOW"]}
NOTHING = np.zeros(0, row_type("Recorded"))
PRINTED = 10_000  # lines that are kept of what schemes print


class Inside(NamedTuple):
    """A number in the state of a scheme.

    name     with that of its scheme: "mine.moved"
    text     what its file says of it
    owner    "node", "port" or "flow"
    area     where the state of the scheme begins in the struct of its owner, and the field in it, bytes
    element  its declared type
    """

    name: str
    text: str
    owner: str
    area: int
    at: int
    element: str


def counts_of(composition: Composition) -> list[Inside]:
    """What the schemes of a composition count."""
    return list(_inside(composition, "counts"))


def records_of(composition: Composition) -> list[Inside]:
    """What they record."""
    return list(_inside(composition, "records_of"))


def _inside(composition: Composition, what: str) -> Iterator[Inside]:
    for part in composition.parts:
        for owner, named in getattr(part.declared, what).items():
            fields = {field.name: field for field in part.declared.state[owner].fields}
            for name, text in named.items():
                field = fields[name]
                yield Inside(f"{part.name}.{name}", text, owner, part.places[owner], field.at, field.element)


def counted(composition: Composition) -> np.ndarray:
    """Rows of Recorded: the counts of flows."""
    return _table([count for count in counts_of(composition) if count.owner == "flow"])


def recorded(composition: Composition) -> np.ndarray:
    """Rows of Recorded: what is recorded."""
    return _table(records_of(composition))


def _table(fields: list[Inside]) -> np.ndarray:
    rows = [(f.area, f.at, OWNERS[f.owner], KINDS[C_TYPES[f.element][0]]) for f in fields]
    return np.array(rows, dtype=row_type("Recorded"))


# -- counts


@dataclass(frozen=True)
class Counts:
    """What the schemes of a run have counted so far.

    fields  what they count
    rows    (number of the field, node, port, flow, value): values that are not 0, of nodes, ports and unfinished flows
    """

    fields: list[Inside]
    rows: list[tuple[int, int, int, int, int]]

    @classmethod
    def of(cls, composition: Composition, sim: Any) -> Counts:
        """The present counts of a Simulation."""
        fields, rows = counts_of(composition), []
        for i, field in enumerate(fields):
            if field.owner != "flow":
                found = sim.counts(OWNERS[field.owner], field.area, field.at)
                rows += [(i, node, port, -1, int(value)) for node, port, value in found]
        of_flows = [i for i, field in enumerate(fields) if field.owner == "flow"]
        rows += [(of_flows[i], node, -1, number, int(value)) for node, number, i, value in sim.flow_counts()]
        return cls(fields, rows)

    def frame(self, logs: Logs) -> dict[str, Any]:
        """The columns of counts.parquet, with the flows that have finished, which are in the log of the core."""
        of_flows = np.array([i for i, field in enumerate(self.fields) if field.owner == "flow"], dtype=np.int64)
        done = logs.whole("count")
        table = np.array(self.rows, dtype=np.int64).reshape(-1, 5)
        none = np.full(len(done), -1)
        which = of_flows[done["field"]] if len(done) else none
        finished = np.stack([which, done["node"], none, done["number"], done["value"]], 1)
        table = np.concatenate([table, finished.astype(np.int64)])
        field, node, port, number, value = table[np.lexsort(table.T[3::-1])].T
        return {"name": _names(self.fields, field), "node": node, "port": _known(port), "flow_id": _known(number), "value": value}

    def totals(self, frame: dict[str, Any]) -> dict[str, int]:
        """The sum of each count over all nodes, ports or flows, by name."""
        sums = dict.fromkeys((field.name for field in self.fields), 0)
        table = pl.DataFrame({"name": frame["name"], "value": frame["value"]}).group_by("name").sum()
        return sums | {name: int(value) for name, value in table.rows()}


def meanings(composition: Composition, *, records: bool) -> dict[str, str]:
    """What the files of the schemes say of their counts and, if wanted, of what they record; by name."""
    fields = counts_of(composition) + (records_of(composition) if records else [])
    return {field.name: field.text for field in fields}


def _names(fields: list[Inside], numbers: np.ndarray) -> pl.Series:
    return pl.Series([field.name for field in fields], dtype=pl.String)[numbers.astype(np.int64)]


def _known(numbers: np.ndarray) -> pl.Series:
    """Numbers of ports or flows; null where there is none."""
    return pl.Series(np.where(numbers < 0, np.nan, numbers), nan_to_null=True).cast(pl.Int64)


# -- prints


def printed(composition: Composition, logs: Logs, nodes: Sequence[str]) -> dict[str, Any]:
    """The columns of prints.parquet: the first lines that schemes have printed, by time, then node; nodes: their names."""
    rows = logs.whole("print")
    begins = np.flatnonzero(rows["place"] <= 0)
    ends = np.append(begins[1:], len(rows))[:PRINTED]
    begins = begins[:PRINTED]
    first = rows[begins]
    calls = [prints.calls(part.declared) for part in composition.parts]
    texts, lines = [], []
    for begin, end in zip(begins.tolist(), ends.tolist()):
        call = calls[rows["scheme"][begin]][rows["site"][begin]]
        values = [prints.value_of(row, nodes) for row in rows[begin:end] if row["place"] >= 0]
        texts.append(prints.line_of(call, values))
        lines.append(call.lineno)
    return {
        "time_ps": first["time"],
        "node": _known(first["node"]),
        "scheme": [composition.parts[i].name for i in first["scheme"]],
        "line": lines,
        "text": texts,
    }


# -- records


def changes(logs: Logs) -> Iterator[np.ndarray]:
    """The rows of the log of records whose value is not that of the same thing's row before, in order; 0 is before the first.

    So it does not matter where the core begins a new row for what has not changed.
    """
    last: dict[tuple[int, ...], float] = {}
    for part in logs.sorted_parts("record"):
        order = np.lexsort((np.arange(len(part)), part["number"], part["port"], part["node"], part["field"]))
        rows = part[order]
        keys = np.stack([rows[name] for name in ("field", "node", "port", "number")], 1).astype(np.int64).reshape(-1, 4)
        begins = np.ones(len(rows), dtype=bool)
        begins[1:] = (keys[1:] != keys[:-1]).any(axis=1)
        before = np.concatenate([[0.0], rows["value"][:-1]])[: len(rows)]
        if last:
            before[begins] = [last.get(tuple(key), 0.0) for key in keys[begins].tolist()]
        else:
            before[begins] = 0.0
        ends = np.append(begins[1:], True)[: len(rows)]
        if logs.moved:
            last.update(zip(map(tuple, keys[ends].tolist()), rows["value"][ends].tolist()))
        yield part[np.sort(order[rows["value"] != before])]


def record_columns(composition: Composition, table: np.ndarray) -> dict[str, Any]:
    """The columns of records.parquet, of rows of the core's log; times in ns."""
    fields = records_of(composition)
    scale = np.array([0.001 if field.element == "time" else 1.0 for field in fields] or [1.0])
    return {
        "time_ps": table["time"],
        "name": _names(fields, table["field"]),
        "node": table["node"],
        "port": _known(table["port"]),
        "flow_id": _known(table["number"]),
        "value": table["value"] * scale[table["field"]],
    }
