"""The part of a run that a trace shows: some of its ports, and a span of its time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import polars as pl

from penstock_net.errors import SpecError, closest
from penstock_net.inputs import time_ps, whole
from penstock_net.results.links import Links, node_names
from penstock_net.results.run import Run

Key = tuple[int, int]  # node, number of the port
Progress = Callable[[int, int], None]  # done, of how many


@dataclass(frozen=True)
class Port:
    """One end of a link.

    name      "tor0:3"
    peer      the other end; its number is -1 if the run does not have it
    rate_bps  0: not known, in runs of an earlier version
    """

    node: int
    number: int
    name: str
    peer: Key
    peer_name: str
    rate_bps: int


@dataclass(frozen=True)
class Part:
    """Some ports of a run from start_ns on and before end_ns.

    names  of all nodes
    links  of all ports
    ports  all of the run's
    shown  those that the trace shows
    """

    run: Run
    names: Sequence[str]
    links: Links
    ports: Mapping[Key, Port]
    shown: frozenset[Key]
    start_ns: float
    end_ns: float

    @classmethod
    def of(
        cls,
        run: Run,
        start: str | int | float | None = None,
        end: str | int | float | None = None,
        nodes: Sequence[str | int] = (),
        ports: Sequence[int] = (),
    ) -> "Part":
        """As `write_trace` takes them.  SpecError: a bad time, or no such node or port."""
        start_ns = 0.0 if start is None else time_ps(start, "from") / 1000
        end_ns = inf if end is None else time_ps(end, "to", positive=True) / 1000
        if start_ns >= end_ns:
            raise SpecError("must be before `to`", path="from", value=start)
        if not run.ports.height:
            raise SpecError(f'run "{run.label}": has no ports', remedy="run again with [measure] ports = true")
        names, links = node_names(run), Links.of(run.ports)
        known = _ports(run, links, names)
        wanted_nodes = {_node(given, names) for given in nodes}
        wanted_ports = {whole(number, "port", 0) for number in ports}
        for number in wanted_ports:
            if not any(key[1] == number and key[0] in (wanted_nodes or {key[0]}) for key in known):
                raise SpecError("no node has a port of that number", path="port", value=number)
        shown = frozenset(key for key in known if key[0] in (wanted_nodes or {key[0]}) and key[1] in (wanted_ports or {key[1]}))
        return cls(run, names, links, known, shown, start_ns, end_ns)

    def frame(self, name: str) -> pl.DataFrame | None:
        """The rows of a frame that are of the ports shown, at any time; None: it was not recorded."""
        frame = self.run.frames.get(name)
        return None if frame is None else self.of_shown(frame)

    def of_shown(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows of the ports shown (columns node and port), in their order."""
        if len(self.shown) == len(self.ports):
            return frame
        schema = {column: frame.schema[column] for column in ("node", "port")}
        return frame.join(
            pl.DataFrame(sorted(self.shown), schema=schema, orient="row"), on=["node", "port"], how="semi", maintain_order="left"
        )

    def within(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows whose time_ns lies in the time shown."""
        return frame.filter((pl.col("time_ns") >= self.start_ns) & (pl.col("time_ns") < self.end_ns))


def _node(given: str | int, names: Sequence[str]) -> int:
    """The number of a node that was named by its name or number."""
    if given in names:
        return names.index(str(given))
    if str(given).isdecimal() and int(given) < len(names):
        return int(given)
    raise SpecError("no such node", path="node", value=given, remedy=closest(given, names))


def _ports(run: Run, links: Links, names: Sequence[str]) -> dict[Key, Port]:
    ports = {}
    for node, number, peer, rate in run.ports.sort("node", "port").select("node", "port", "peer", "rate_bps").iter_rows():
        far = links.far_end.get((node, number), (peer, -1))
        ports[node, number] = Port(node, number, f"{names[node]}:{number}", far, names[int(peer)], rate or 0)
    return ports
