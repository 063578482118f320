"""The trees of switches that reduce what groups of hosts have, as tables for the core (see fabric/reduction.py).

A group is a collective whose algorithm is "in_network".  Its flows say who takes part: each host has one that it sends, with what
it has, and one that ends with it, when it has the sums.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from penstock_net.errors import SpecError
from penstock_net.sim.layouts import row_type
from penstock_net.topology.trees import Tree, Trees
from penstock_net.workload.algorithms import IN_NETWORK
from penstock_net.workload.flows import circle

if TYPE_CHECKING:
    from penstock_net.sim.settings import Settings
    from penstock_net.workload.flows import Flows

NONE = -1


class Reductions(NamedTuple):
    """The trees of all groups of a run.

    seat_of   int32 by flow: its sender's seat, plus one; 0: no switch reduces it
    seats     rows of the core's Seat, tree by tree; the core writes to them
    parts     int32, their counters, to which it writes too
    node      int64, the node of each seat
    depth     int64, of each group's tree: links from its root to the farthest host
    """

    seat_of: np.ndarray
    seats: np.ndarray
    parts: np.ndarray
    node: np.ndarray
    depth: np.ndarray

    def record(self, sim: Any) -> dict[str, Any]:
        """What the summary of a run says of it."""
        most = max(sim.accumulators(len(self.seats)))
        return {"in_network": {"groups": len(self.depth), "depth": int(self.depth.max()), "accumulators": most}}


def reductions(settings: Settings) -> Reductions | None:
    """The trees of a run's groups; None: it has none.  SpecError: a group has no tree, or the network may lose its packets."""
    flows, given = settings.flows, settings.in_network
    groups = _groups(flows)
    if not groups:
        return None
    _check_lossless(settings)
    trees = _trees(settings, groups)
    sizes = [len(tree.node) for tree in trees]
    first = np.cumsum(sizes) - sizes
    seats = np.zeros(sum(sizes), dtype=row_type("Seat"))
    node = np.concatenate([tree.node for tree in trees])
    seat_of = np.zeros(len(flows), dtype=np.int32)
    for name, value in (("before", NONE), ("after", NONE), ("sent", NONE), ("awaited", NONE)):
        seats[name] = value
    for numbers, tree, begin in zip(groups, trees, first.tolist()):
        _seat(seats[begin : begin + len(tree.node)], tree, begin, flows, numbers, settings.topo.hosts)
        place = np.zeros(settings.topo.hosts, dtype=np.int64)
        is_host = np.flatnonzero(tree.node < settings.topo.hosts)
        place[tree.node[is_host]] = begin + is_host
        seat_of[numbers] = place[flows.src[numbers]] + 1
    switches = np.flatnonzero(node >= settings.topo.hosts)
    packets = -(-seats["size"][switches] // settings.host.mtu)
    seats["ring"][switches] = ring = np.minimum(packets, given.window)
    seats["parts"][switches] = np.cumsum(ring) - ring
    if given.groups:
        _queue(seats, node, switches, np.repeat(np.arange(len(groups)), sizes), settings, groups)
    parts = np.zeros(int(ring.sum()), dtype=np.int32)
    return Reductions(seat_of, seats, parts, node, np.array([tree.depth for tree in trees]))


def _groups(flows: Flows) -> list[np.ndarray]:
    """The flows of each group, in the order in which groups that have to wait for room are served: by start, then as listed."""
    operations = flows.operations
    if operations is None:
        return []
    wanted = [i for i, operation in enumerate(operations.listed) if operation.algorithm == IN_NETWORK]
    if not wanted:
        return []
    members = np.flatnonzero(np.isin(operations.number, wanted) & ~flows.computes)
    members = members[np.argsort(operations.number[members], kind="stable")]
    groups = np.split(members, np.flatnonzero(np.diff(operations.number[members])) + 1)
    groups = [group for group in groups if len(group)]
    for group in groups:
        _check_group(flows, group)
    return sorted(groups, key=lambda group: int(flows.start_ps[group].min()))


def _check_group(flows: Flows, group: np.ndarray) -> None:
    """SpecError: the flows of a group are not one from each host, and one to each, of as many bytes."""
    src, dst, size = flows.src[group], flows.dst[group], flows.bytes[group]
    fits = len(np.unique(src)) == len(group) and np.array_equal(np.sort(src), np.sort(dst)) and np.all(size == size[0])
    if not fits:
        rule = f'flow {group[0]} is of a collective that is reduced "{IN_NETWORK}"'
        remedy = "let each of its hosts have one flow that it sends and one that it receives, all of as many bytes"
        raise SpecError(rule, path="flows.operation", remedy=remedy)
    if flows.connection is not None and np.any(flows.connection[group] >= 0):
        number = int(group[np.argmax(flows.connection[group] >= 0)])
        rule = f'is of a collective that is reduced "{IN_NETWORK}", which has no connections'
        raise SpecError(rule, path=f"flows.{number}.connection", value=int(flows.connection[number]), remedy="leave it out")


def _check_lossless(settings: Settings) -> None:
    """SpecError: a link may lose packets, which nobody sends again."""
    topo = settings.topo
    fails = any(change.fails for change in topo.changes)
    for lossy, path, what in (
        (bool(topo.links["loss"].any()), "topology.links.loss", "a link loses packets"),
        (bool(settings.control_loss), "control_loss", "links lose control frames"),
        (fails, "topology.changes", "a link or a switch fails"),
    ):
        if lossy:
            rule = f'{what}; what switches reduce (algorithm "{IN_NETWORK}") is not sent again'
            raise SpecError(rule, path=path, remedy='take an algorithm of hosts, such as "ring", or a network without losses')


def _trees(settings: Settings, groups: list[np.ndarray]) -> list[Tree]:
    """The tree of each group, the same for groups of the same hosts; each set of hosts takes its turn of equally good ones."""
    made, found = Trees(settings.topo), dict[bytes, Tree]()
    members = [np.sort(settings.flows.src[group]) for group in groups]
    for hosts in members:
        if hosts.tobytes() not in found:
            found[hosts.tobytes()] = made.tree(hosts, settings.in_network.root, len(found), "in_network.root")
    return [found[hosts.tobytes()] for hosts in members]


def _seat(seats: np.ndarray, tree: Tree, begin: int, flows: Flows, group: np.ndarray, hosts: int) -> None:
    """Fill the seats of a tree, the first of which is number `begin`."""
    seats["size"] = flows.bytes[group[0]]
    seats["parent"] = np.where(tree.parent < 0, NONE, tree.parent + begin)
    seats["up"], seats["down"] = tree.up, tree.down
    below, firsts, counts = np.unique(tree.parent[1:], return_index=True, return_counts=True)
    seats["child"][below], seats["children"][below] = begin + 1 + firsts, counts
    sent, awaited = (np.full(hosts, NONE) for _ in range(2))
    sent[flows.src[group]], awaited[flows.dst[group]] = group, group
    is_host = tree.node < hosts
    seats["sent"][is_host], seats["awaited"][is_host] = sent[tree.node[is_host]], awaited[tree.node[is_host]]


def _queue(
    seats: np.ndarray, node: np.ndarray, switches: np.ndarray, group: np.ndarray, settings: Settings, groups: list[np.ndarray]
) -> None:
    """Let a group wait, at each of its switches, for the one that has been there so many groups before it.

    SpecError: groups would wait for one another for ever.
    """
    room = settings.in_network.groups
    order = switches[np.argsort(node[switches], kind="stable")]
    later, earlier = order[room:], order[:-room]
    same = node[later] == node[earlier]
    later, earlier = later[same], earlier[same]
    seats["before"][later], seats["after"][earlier] = earlier, later
    flows = settings.flows
    if flows.after is None:
        return
    # A node of its own stands for "the group has ended": it waits for all flows of one group, and all of the other for it.
    pairs = np.unique(np.stack([group[later], group[earlier]], axis=1), axis=0)
    child = [np.repeat(np.arange(len(flows)), np.diff(flows.after[0]))]
    parent = [flows.after[1].astype(np.int64)]
    for i, (last, first) in enumerate(pairs.tolist()):
        middle = len(flows) + i
        child += [np.full(len(groups[first]), middle), groups[last]]
        parent += [groups[first], np.full(len(groups[last]), middle)]
    if circle(np.concatenate(child), np.concatenate(parent), len(flows) + len(pairs)):
        raise SpecError(
            f"collectives would wait for one another for ever: a switch serves {room} at a time, by start and then as listed",
            path="in_network.groups",
            value=room,
            remedy="list them in the order in which they wait, or let switches serve more (0: any number)",
        )
