"""Paths that a user gives: of flows, hop by hop, or of packets that take turns (fabric/pinned.py has what the core does).

    flow,direction,path             switch,from,first
    0,both,tor0 spine1 tor3         tor0,host0,2

The first kind names the nodes of a flow's path; those at which there is no choice may be left out.  The second says which next
hop the first packet takes that comes to a switch from a neighbour; each later one takes the next of them, in a circle.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from penstock_net import formats
from penstock_net.errors import SpecError, nearest
from penstock_net.inputs import Table, as_path, inside, left_out, one_of, read_bytes, whole_cell
from penstock_net.topology.changes import LinkChange, SwitchChange

if TYPE_CHECKING:
    from penstock_net.topology import Topology
    from penstock_net.workload.flows import Flows

OF_FLOWS, OF_PACKETS = ("flow", "path"), ("switch", "from", "first")
DIRECTIONS = ("both", "there", "back")
EXAMPLE = "flow,direction,path"
MOST_SHOWN = 8
Hops = tuple[tuple[int, int], ...]  # (node, port) of every hop


@dataclass(frozen=True)
class Paths:
    """What a file of paths says, for the core.  A table is None where the file is of the other kind.

    pin_of   int32 by flow: where its entry begins in `pins`; 0: it has none
    pins     int32: entries of source, destination, and where the hops there and back begin: a count, then node and port of each
    turns    int64 by port of the network: which next hop the first packet takes that comes by it; -1: none is given
    given    flows that have paths, of connections all
    links    the links of all given paths
    lopsided the first flow whose path back is not that there, in the other direction; -1: there is none
    """

    pin_of: np.ndarray | None
    pins: np.ndarray | None
    turns: np.ndarray | None
    given: int
    links: tuple[int, ...]
    lopsided: int = -1

    def __call__(self, numbers: np.ndarray, back: int, nodes: np.ndarray, ports: np.ndarray) -> np.ndarray:
        """`ports` by which flows leave nodes on their way there or back, with those that are given in their place."""
        keys, chosen = self._table
        if not len(keys):
            return ports
        wanted = (2 * numbers.astype(np.int64) + back) << 32 | nodes
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[at] == wanted, chosen[at], ports)

    @cached_property
    def _table(self) -> tuple[np.ndarray, np.ndarray]:
        """Sorted keys of flow, direction and node, and their ports."""
        if self.pin_of is None or self.pins is None:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        rows = []
        for number in np.flatnonzero(self.pin_of).tolist():
            entry = int(self.pin_of[number])
            for back in (0, 1):
                hops = self.hops(entry, back)
                rows += [((2 * number + back) << 32 | node, port) for node, port in hops]
        found = np.array(sorted(rows), dtype=np.int64).reshape(-1, 2)
        return found[:, 0], found[:, 1]

    def hops(self, entry: int, back: int) -> Hops:
        """(node, port) of an entry of `pins`, where there is a choice."""
        assert self.pins is not None
        at = int(self.pins[entry + 2 + back])
        found = self.pins[at + 1 : at + 1 + 2 * int(self.pins[at])].tolist()
        return tuple(zip(found[::2], found[1::2]))

    def cautions(self, topo: Topology, flows: Flows) -> list[str]:
        """What is to be said of them in the warnings of a run."""
        if self.turns is not None:
            return []
        out = []
        if left := int(np.count_nonzero(~flows.computes)) - self.given:
            out.append(f"{left} of {self.given + left} flows have no path in the file of paths: ECMP or the scheme chooses it")
        down = {change.link for change in topo.changes if isinstance(change, LinkChange) and change.up is False}
        failing = {change.switch for change in topo.changes if isinstance(change, SwitchChange) and not change.up}
        ends = ((int(topo.links["a"][link]), int(topo.links["b"][link]), link) for link in self.links)
        if any(link in down or a in failing or b in failing for a, b, link in ends):
            out.append("links of given paths go down: while they are, packets take the path that ECMP or the scheme chooses")
        return out


def read_paths(source: Any, topo: Topology, flows: Flows) -> Paths:
    """The paths in a CSV file, or in a frame with its columns.

    SpecError with the line: a column is missing, no such flow or node, a path that is none, a flow or port twice.
    """
    columns, rows, place = _rows(source)
    wanted = next((kind for kind in (OF_FLOWS, OF_PACKETS) if kind[0] in columns), None)
    if wanted is None:
        rule = "there is neither a column flow nor a column switch"
        raise SpecError(rule, remedy=f"the header must hold flow,path or {','.join(OF_PACKETS)}", place=place)
    for name in wanted:
        if name not in columns:
            raise SpecError("the column is missing", path=name, remedy=f"the header must hold {','.join(wanted)}", place=place)
    twice = [name for name in columns if columns.count(name) > 1]
    if twice:
        raise SpecError("the column occurs twice", path=twice[0], remedy="keep one", place=place)
    given = list(rows)
    if not given:
        raise SpecError("no rows below the header line", remedy="is the file truncated?", place=place)
    known = (*wanted, "direction") if wanted is OF_FLOWS else wanted
    if others := [name for name in columns if name not in known]:
        left_out(place, f"columns: {', '.join(f'{name} ({len(given)})' for name in others)}")
    walk = _Walk(topo)
    return _of_flows(given, walk, flows) if wanted is OF_FLOWS else _of_packets(given, walk)


def _rows(source: Any) -> tuple[list[str], Iterator[tuple[str, dict[str, str]]], str]:
    """The columns, (place, cells by column) of each row, and the place of the whole."""
    if isinstance(source, pl.DataFrame):
        texts = source.select(pl.all().cast(pl.String).fill_null(""))
        rows = ((f"paths, row {i}", row) for i, row in enumerate(texts.iter_rows(named=True)))
        return list(source.columns), rows, "paths"
    file = os.fspath(as_path(source, "run.paths", "a CSV file of paths, or a frame"))
    formats.refuse_others(read_bytes(file, "run.paths"), formats.PATHS, file)
    table = Table(file, EXAMPLE, "run.paths")
    cells = ((table.where(line), dict(zip(table.columns, row))) for line, row in table.rows())
    return table.columns, cells, table.path


class _Walk:
    """Follows paths over the shortest routes of a network."""

    def __init__(self, topo: Topology) -> None:
        self.topo, self.routes = topo, topo.routes()
        self.numbers = {name: i for i, name in enumerate(topo.names)}
        links, count = topo.links, int(topo.port_count.sum())
        self.peer, self.peer_port, self.link = (np.zeros(count, dtype=np.int64) for _ in range(3))
        for end, other in (("a", "b"), ("b", "a")):
            at = topo.first_port[links[end]] + links[f"port_{end}"]
            self.peer[at], self.peer_port[at], self.link[at] = links[other], links[f"port_{other}"], np.arange(len(links))
        self.known: dict[tuple[int, int], list[int]] = {}

    def ports(self, node: int, dst: int) -> list[int]:
        """The ports of a node on shortest paths to a host."""
        if (node, dst) not in self.known:
            self.known[node, dst] = self.routes.ports(node, dst)
        return self.known[node, dst]

    def place(self, node: int, port: int) -> int:
        """The number of a port among those of the network."""
        return int(self.topo.first_port[node]) + port

    def fitting(self, word: str, node: int, ports: list[int]) -> list[int]:
        """Which of these ports of a node lead to the neighbour that a word names: "spine1", or "spine1#0" of parallel links."""
        places = {port: self.place(node, port) for port in ports}
        exact = [port for port, at in places.items() if self.topo.names[self.peer[at]] == word]
        name, mark, which = word.rpartition("#")
        peer = self.numbers.get(name)
        if exact or not mark or peer is None or not (which.isdecimal() and which.isascii() and len(which) < 9):
            return exact
        everywhere = [self.place(node, port) for port in range(int(self.topo.port_count[node]))]
        alike = sorted((int(self.link[at]), port) for port, at in enumerate(everywhere) if self.peer[at] == peer)
        return [port for i, (_, port) in enumerate(alike) if i == int(which) and port in places]

    def shown(self, node: int, ports: list[int]) -> str:
        """The neighbours behind ports, for a message."""
        names = dict.fromkeys(self.topo.names[self.peer[self.place(node, port)]] for port in ports)
        return ", ".join(list(names)[:MOST_SHOWN]) + (f" and {len(names) - MOST_SHOWN} more" if len(names) > MOST_SHOWN else "")

    def hops(self, src: int, dst: int, text: str) -> Hops:
        """The hops of the path from one host to another that a text names.  SpecError: it names none, or not which one."""
        topo, names = self.topo, self.topo.names
        words = [word for word in map(str.strip, text.split(">")) if word] if ">" in text else text.split()
        node, at, found = src, int(bool(words) and words[0] == names[src]), list[tuple[int, int]]()
        while node != dst:
            ports = self.ports(node, dst)
            fits = self.fitting(words[at], node, ports) if at < len(words) else []
            if len(ports) > 1 and len(fits) != 1:
                raise self._unclear(node, dst, words[at] if at < len(words) else "", fits, text)
            port = fits[0] if fits else ports[0]
            at += bool(fits)
            found.append((node, port))
            node = int(self.peer[self.place(node, port)])
        if at < len(words):
            rule = (
                f'"{words[at]}" is not on it, where the words before it lead: {" ".join(names[n] for n, _ in found)} {names[dst]}'
            )
            raise SpecError(rule, path="path", value=text, remedy=f"leave it out, or {nearest(words[at], names[topo.hosts :])}")
        return tuple(found)

    def _unclear(self, node: int, dst: int, word: str, fits: list[int], text: str) -> SpecError:
        names, ports = self.topo.names, self.ports(node, dst)
        choice = f"from {names[node]} the shortest paths to {names[dst]} go to {self.shown(node, ports)}"
        if fits:
            rule, remedy = f"{len(fits)} links join {names[node]} and {word}", f'write which one, from "{word}#0" on'
        elif not word:
            rule, remedy = f"does not say all of it: {choice}", "name one of them"
        elif word.partition("#")[0] not in self.numbers and word not in self.numbers:
            rule, remedy = f'no node is called "{word}"', f"{choice}; name one of them"
        else:
            rule, remedy = f'"{word}" is not next: {choice}', "name one of them; a given path is one of the shortest"
        return SpecError(rule, path="path", value=text, remedy=remedy)

    def reversed(self, hops: Hops) -> Hops:
        """The same links in the other direction."""
        places = [self.place(*hop) for hop in reversed(hops)]
        return tuple((int(self.peer[at]), int(self.peer_port[at])) for at in places)

    def choices(self, hops: Hops, dst: int) -> Hops:
        """Those at which there is a choice."""
        return tuple(hop for hop in hops if len(self.ports(hop[0], dst)) > 1)


def _of_flows(rows: list[tuple[str, dict[str, str]]], walk: _Walk, flows: Flows) -> Paths:
    """The paths of flows; those of one connection have one."""
    leader = np.arange(len(flows)) if flows.connections is None else flows.connections.leaders()
    found: dict[int, dict[int, Hops]] = {}
    wheres: dict[tuple[int, int], str] = {}
    for where, row in rows:
        with inside(place=where):
            number = whole_cell(row["flow"], "flow", 0, len(flows) - 1)
            src, dst = int(flows.src[number]), int(flows.dst[number])
            if src == dst:
                raise SpecError("is a computation, which sends nothing", path="flow", value=number, remedy="remove the row")
            direction = one_of(row.get("direction") or "both", "direction", DIRECTIONS)
            first = int(leader[number])
            for back in (0, 1) if direction == "both" else (int(direction == "back"),):
                if (first, back) in wheres:
                    whose = "it has" if first == number else f"flow {first}, of the same connection, has"
                    rule = f"{whose} a path {DIRECTIONS[1 + back]} already, in {wheres[first, back]}"
                    raise SpecError(rule, path="flow", value=number, remedy="keep one of the rows")
                wheres[first, back] = where
            mine = found.setdefault(first, {})
            if direction == "back":
                mine[1] = walk.hops(dst, src, row["path"])
            else:
                mine[0] = walk.hops(src, dst, row["path"])
            if direction == "both":
                mine[1] = walk.reversed(mine[0])
    for first, ways in found.items():
        _check_return(walk, flows, first, ways, wheres)
    return _tables(found, walk, flows, leader)


def _check_return(walk: _Walk, flows: Flows, number: int, ways: dict[int, Hops], wheres: dict[tuple[int, int], str]) -> None:
    """SpecError: answers of a host with several links would not leave by that at which the data come."""
    dst = int(flows.dst[number])
    if 1 not in ways or walk.topo.port_count[dst] == 1:
        return
    came = walk.reversed(ways[0][-1:])[0] if 0 in ways else None
    if came != ways[1][0]:
        name = walk.topo.names[dst]
        rule = f"answers leave {name}, which has several links, by that at which the data come"
        raise SpecError(
            rule, path="flow", value=number, remedy="give the path there, too, with the same last link", place=wheres[number, 1]
        )


def _tables(found: dict[int, dict[int, Hops]], walk: _Walk, flows: Flows, leader: np.ndarray) -> Paths:
    pins: list[int] = [0]
    places: dict[Hops, int] = {(): 0}
    entry = np.zeros(len(flows), dtype=np.int32)
    links: set[int] = set()
    for number, ways in found.items():
        ends = int(flows.src[number]), int(flows.dst[number])
        begins = []
        for back in (0, 1):
            hops = walk.choices(ways.get(back, ()), ends[1 - back])
            links |= {int(walk.link[walk.place(*hop)]) for hop in ways.get(back, ())}
            if hops not in places:
                places[hops] = len(pins)
                pins += [len(hops), *(value for hop in hops for value in hop)]
            begins.append(places[hops])
        entry[number] = len(pins)
        pins += [*ends, *begins]
    pin_of = np.where(flows.computes, 0, entry[leader]).astype(np.int32)
    lopsided = [number for number, ways in found.items() if 0 not in ways or ways.get(1) != walk.reversed(ways[0])]
    given = int(np.count_nonzero(pin_of))
    return Paths(pin_of, np.array(pins, dtype=np.int32), None, given, tuple(sorted(links)), min(lopsided, default=-1))


def _of_packets(rows: list[tuple[str, dict[str, str]]], walk: _Walk) -> Paths:
    """Which next hop the first packet takes, by the port by which it comes to a switch."""
    topo = walk.topo
    turns = np.full(int(topo.port_count.sum()), -1, dtype=np.int64)
    switches = topo.names[topo.hosts :]
    for where, row in rows:
        with inside(place=where):
            node = walk.numbers.get(row["switch"], 0)
            if node < topo.hosts:
                raise SpecError("no such switch", path="switch", value=row["switch"], remedy=nearest(row["switch"], switches))
            everywhere = list(range(int(topo.port_count[node])))
            fits = walk.fitting(row["from"], node, everywhere)
            if len(fits) != 1:
                rule = f"{len(fits) or 'no'} link{'s join' if fits else ' joins'} it to {row['switch']}"
                remedy = (
                    f'write which one, from "{row["from"]}#0" on' if fits else f"its neighbours: {walk.shown(node, everywhere)}"
                )
                raise SpecError(rule, path="from", value=row["from"], remedy=remedy)
            at = walk.place(node, fits[0])
            if turns[at] >= 0:
                rule = f"what comes from there to {row['switch']} has a first next hop already"
                raise SpecError(rule, path="from", value=row["from"], remedy="keep one of the rows")
            turns[at] = whole_cell(row["first"], "first", 0, 2**31 - 1)
    return Paths(None, None, turns, 0, ())
