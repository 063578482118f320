"""Which changes of a network leave pairs of hosts without a route, in sentences, and what was lost by it."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock_net.topology.changes import LinkStates
from penstock_net.units import format_time

MOST_CAUSES = 8  # that a sentence names


@dataclass(frozen=True)
class Outage:
    """A time in which hosts have no route to others that have one when all links are up.

    number   which change of the set of links that are down it begins with, from 0
    end_ps   None: never
    causes   names of the links and switches without which it would not be
    pairs    of hosts; example: the numbers of one
    """

    number: int
    start_ps: int
    end_ps: int | None
    causes: tuple[str, ...]
    pairs: int
    example: tuple[int, int]


def sentences(topo: Any, lost: Sequence[int] | None = None) -> list[str]:
    """What to warn of in a Topology: one sentence for each set of causes.

    lost   packets dropped for lack of a route, between each change of the set of links that are down and the next one, or the
           end; None: before the run.  Outages that begin after the last of them are left out
    """
    alike: dict[tuple[str, ...], list[Outage]] = {}
    for outage in outages(topo):
        if lost is None or outage.number < len(lost):
            alike.setdefault(outage.causes, []).append(outage)
    out = []
    for causes, found in alike.items():
        first, worst = found[0], max(found, key=lambda outage: outage.pairs)
        named = ", ".join(causes[:MOST_CAUSES]) + (f" and {len(causes) - MOST_CAUSES} more" if len(causes) > MOST_CAUSES else "")
        until = "" if first.end_ps is None else f" until {format_time(first.end_ps)}"
        more = f", and {len(found) - 1} more times" if len(found) > 1 else ""
        a, b = (topo.names[host] for host in worst.example)
        pairs = f"{worst.pairs} pair{'s' if worst.pairs > 1 else ''} of hosts, such as {a} and {b}, without a route"
        count = "" if lost is None else f": {sum(lost[outage.number] for outage in found)} packets were lost for it"
        verb = "leave" if len(causes) > 1 else "leaves"
        text = f"{named}, down from {format_time(first.start_ps)}{until}{more}, {verb} {pairs}{count}"
        out.append(f'{text}; with on_down = "hold" in changes packets wait')
    return out


def outages(topo: Any) -> Iterator[Outage]:
    """The outages of a Topology, by time."""
    if not any(change.fails for change in topo.changes):
        return
    states, number = LinkStates(topo.links), -1
    whole, known = _Parts(topo, frozenset()), dict[frozenset[int], tuple[tuple[str, ...], int, tuple[int, int]]]()
    begun: tuple[int, int] | None = None
    for change in topo.changes:
        before = states.down
        states.apply(change)
        if states.down == before:
            continue
        if begun is not None and known[before][1]:
            yield Outage(begun[0], begun[1], change.time_ps, *known[before])
        number += 1
        begun = number, change.time_ps
        if states.down not in known:
            parts = _Parts(topo, states.down)
            pairs = whole.joined - parts.joined
            known[states.down] = (_causes(topo, states, parts), pairs, parts.apart(whole)) if pairs else ((), 0, (0, 0))
    if begun is not None and known[states.down][1]:
        yield Outage(begun[0], begun[1], None, *known[states.down])


class _Parts:
    """The parts into which a network without some of its links falls: paths lead through switches only."""

    def __init__(self, topo: Any, down: frozenset[int]) -> None:
        alive = np.ones(len(topo.links), dtype=bool)
        alive[list(down)] = False
        hosts, a, b = topo.hosts, topo.links["a"].astype(np.int64), topo.links["b"].astype(np.int64)
        label = np.arange(topo.nodes)
        between = alive & (a >= hosts) & (b >= hosts)
        here, there = a[between], b[between]
        while (label[here] != label[there]).any():
            least = np.minimum(label[here], label[there])
            np.minimum.at(label, label[here], least)
            np.minimum.at(label, label[there], least)
            label = label[label]
        self.label = label  # of switches: the part that each is in
        members: list[set[int]] = [set() for _ in range(hosts)]
        to_hosts = alive & ~((a >= hosts) & (b >= hosts))
        for host, switch in zip(np.minimum(a, b)[to_hosts].tolist(), np.maximum(a, b)[to_hosts].tolist()):
            members[host].add(int(label[switch]))
        self.of_host = [frozenset(parts) for parts in members]
        self.kinds = Counter(self.of_host)
        kinds = list(self.kinds.items())
        self.joined = sum(count * (count - 1) // 2 for parts, count in kinds if parts)  # pairs of hosts with a route
        for i, (parts, count) in enumerate(kinds):
            self.joined += sum(count * others for more, others in kinds[:i] if parts & more)

    def apart(self, whole: "_Parts") -> tuple[int, int]:
        """The first two hosts that have no route here, and one in the whole network."""
        for a, here in enumerate(self.of_host):
            for b, there in enumerate(self.of_host[a + 1 :], a + 1):
                if not here & there and whole.of_host[a] & whole.of_host[b]:
                    return a, b
        raise AssertionError("no two hosts are apart")


def _causes(topo: Any, states: LinkStates, parts: _Parts) -> tuple[str, ...]:
    """The failed switches and the links that are down which join parts with hosts; all that is down if none alone does."""
    names, links = topo.names, topo.links
    holding = frozenset[int]().union(*parts.of_host)

    def around(node: int) -> set[Any]:
        """Of a node the parts with hosts that it is in; a host that is in none is one by itself."""
        if node < topo.hosts:
            return set(parts.of_host[node]) or {("host", node)}
        return {int(parts.label[node])} & holding

    def peers(switch: int) -> set[Any]:
        of_it = [(int(links["a"][i]), int(links["b"][i])) for i in states.of_switch(switch)]
        return set[Any]().union(*(around(b if a == switch else a) for a, b in of_it))

    switches = [names[switch] for switch in sorted(states.failed) if len(peers(switch)) > 1]
    single = [i for i in sorted(states.cut) if not {int(links["a"][i]), int(links["b"][i])} & states.failed.keys()]
    ends = {i: (int(links["a"][i]), int(links["b"][i])) for i in single}
    joining = [i for i, (a, b) in ends.items() if around(a) and around(b) and not around(a) & around(b)]
    found = switches + [f"{names[ends[i][0]]} - {names[ends[i][1]]}" for i in joining]
    return tuple(
        found or [names[switch] for switch in sorted(states.failed)] + [f"{names[a]} - {names[b]}" for a, b in ends.values()]
    )
