"""All-reduce on a tree of switches, as SHARP and UEC's in-network collectives describe it: written from the description alone.

Each switch waits for one packet of every child with the same group and chunk, then sends one up; the root multicasts the result
down.  Flow control is per edge of the tree: a child may have W chunks without an answer.  A switch that has room for a number of
groups lets others wait: a group asks up its tree, each switch passes that on when it has room, and the root grants it.
"""

import heapq
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count

REQUEST = 64  # bytes of a frame that asks or grants


@dataclass
class Group:
    """parent: by node, its parent; the root has None.  chunks: wire bytes of each.  start: by host, ps."""

    parent: dict[str, str | None]
    chunks: list[int]
    start: dict[str, int]
    done: dict[str, int] = field(default_factory=dict)  # by host: when it has the last result, ps
    most: int = 0  # accumulators in use at once at any switch


class Network:
    """rate: ps per byte, delay: ps, of the direction (from, to); window: W; room: groups at a time, 0: any number."""

    def __init__(self, rate, delay, window, room=0):
        self.rate, self.delay, self.window, self.room = rate, delay, window, room
        self.events, self.order, self.now = [], count(), 0
        self.free = defaultdict(int)

    def at(self, time, act):
        heapq.heappush(self.events, (time, next(self.order), act))

    def send(self, a, b, size, act):
        """Put a packet on the line from a to b behind what is there; `act` when all of it has arrived."""
        begin = max(self.now, self.free[a, b])
        self.free[a, b] = begin + size * self.rate[a, b]
        self.at(self.free[a, b] + self.delay[a, b], act)

    def run(self, groups):
        """Reduce the groups, the earlier ones first where there is no room for all."""
        here = defaultdict(list)
        trees = []
        for group in groups:
            tree = Reduction(self, group)
            trees.append(tree)
            for switch in tree.children:
                before = here[switch][-self.room] if 0 < self.room <= len(here[switch]) else None
                tree.before[switch] = before
                if before:
                    before.behind[switch] = tree
                here[switch].append(tree)
            for host, time in group.start.items():
                self.at(time, lambda tree=tree, host=host: tree.begin(host))
        while self.events:
            self.now, _, act = heapq.heappop(self.events)
            act()


class Reduction:
    def __init__(self, network, group):
        self.network, self.group = network, group
        self.children = defaultdict(list)
        for node, parent in group.parent.items():
            if parent is not None:
                self.children[parent].append(node)
        self.sent, self.answered = defaultdict(int), defaultdict(int)  # by host, chunks
        self.come = defaultdict(set)  # by switch and chunk: children
        self.granted = set()
        self.asked = defaultdict(set)
        self.before, self.behind, self.over = {}, {}, set()
        self.open = defaultdict(set)  # by switch: chunks with an accumulator
        self.waits = set()  # hosts that wait for their line

    # -- a group asks, if there is not room for all
    def begin(self, host):
        if self.network.room:
            self.network.send(host, self.group.parent[host], REQUEST, lambda: self.ask(self.group.parent[host], host))
        else:
            self.grant(host)

    def ask(self, switch, child):
        self.asked[switch].add(child)
        self.may_pass(switch)

    def may_pass(self, switch):
        if len(self.asked[switch]) < len(self.children[switch]):
            return
        if self.before[switch] and switch not in self.before[switch].over:
            return
        above = self.group.parent[switch]
        if above is None:
            self.grant(switch)
        else:
            self.network.send(switch, above, REQUEST, lambda: self.ask(above, switch))

    def grant(self, node):
        if node in self.children:
            for child in self.children[node]:
                self.network.send(node, child, REQUEST, lambda child=child: self.grant(child))
        else:
            self.granted.add(node)
            self.fill(node)

    # -- up and down
    def fill(self, host):
        """A host makes a chunk when its line is free, so a request of another group goes before those that it has not made."""
        free = self.network.free[host, self.group.parent[host]]
        while self.sent[host] < len(self.group.chunks) and self.sent[host] - self.answered[host] < self.network.window:
            if free > self.network.now:
                if host not in self.waits:
                    self.waits.add(host)
                    self.network.at(free, lambda: self.line_is_free(host))
                return
            self.up(host, self.sent[host])
            self.sent[host] += 1
            free = self.network.free[host, self.group.parent[host]]

    def line_is_free(self, host):
        self.waits.remove(host)
        self.fill(host)

    def up(self, node, chunk):
        above = self.group.parent[node]
        self.network.send(node, above, self.group.chunks[chunk], lambda: self.part(above, chunk, node))

    def part(self, switch, chunk, child):
        assert child not in self.come[switch, chunk]
        self.come[switch, chunk].add(child)
        self.open[switch].add(chunk)
        self.group.most = max(self.group.most, len(self.open[switch]))
        if len(self.come[switch, chunk]) == len(self.children[switch]):
            if self.group.parent[switch] is None:
                self.result(switch, chunk)
            else:
                self.up(switch, chunk)

    def result(self, node, chunk):
        if node in self.children:
            self.open[node].remove(chunk)
            for child in self.children[node]:
                self.network.send(node, child, self.group.chunks[chunk], lambda child=child: self.result(child, chunk))
            if chunk == len(self.group.chunks) - 1:
                self.over.add(node)
                if node in self.behind:
                    self.behind[node].may_pass(node)
            return
        assert chunk == self.answered[node]
        self.answered[node] += 1
        if self.answered[node] == len(self.group.chunks):
            self.group.done[node] = self.network.now
        else:
            self.fill(node)
