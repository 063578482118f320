"""Topologies of other simulators: HPCC's for ns-3 and its forks, SimAI's, htsim's.

HPCC: nodes and switches are numbers, which are their names here, and hosts are all nodes that are not switches.

    9 3 8                        nodes, switches, links; some forks have the ToRs before the links, and more after them
    6 7 8                        the switches
    0 6 100Gbps 0.001ms 0        a, b, rate, delay, loss of a frame; further columns are not read
    ...

SimAI has `nodes, GPUs of a server, NVSwitches, switches, links, kind of GPU` first. What follows the announced links is not read,
as in ns-3. htsim describes a tree of two or three tiers by the ports of each tier's switches (`_Tree`).
"""

import re
from itertools import takewhile

from penstock_net.errors import SpecError, nearest
from penstock_net.inputs import inside, left_out, whole_cell
from penstock_net.topology.attributes import Unread
from penstock_net.topology.graph import MAX_HOSTS
from penstock_net.topology.parts import Link, Node, Parts

_MOST = 2**20  # nodes, and links
_HPCC_COUNTS = {3: (0, 1, 2), 4: (0, 1, 3), 6: (0, 1, 3)}  # where nodes, switches and links stand, by the length of line 1


def read_hpcc(path: str, text: str, unread: Unread) -> Parts:
    """Nodes and links of the HPCC simulator and its forks.  SpecError: it is truncated, or contradicts itself."""
    lines = _lines(text)
    number, first = lines[0]
    with inside(place=f"{path}:{number}"):
        if len(first) not in _HPCC_COUNTS:
            raise SpecError(f"{len(first)} numbers; known are: nodes switches links, and nodes switches ToRs links")
        nodes, switches, links = (_count(first[at]) for at in _HPCC_COUNTS[len(first)])
    if len(first) > 4:
        unread.count(f"numbers of line {number}", " ".join(first[4:]))
    return _numbered(path, lines, nodes, switches, links)


def read_simai(path: str, text: str, unread: Unread) -> Parts:
    """The same for SimAI, whose GPUs have a link to an NVSwitch and others to leaves."""
    lines = _lines(text)
    number, first = lines[0]
    with inside(place=f"{path}:{number}"):
        nodes, nvswitches, switches, links = (_count(first[at]) for at in (0, 2, 3, 4))
    found, joined = _numbered(path, lines, nodes, nvswitches + switches, links)
    listed = [word for _, words in lines[1:] for word in words][:nvswitches]  # NVSwitches come first
    for switch in listed:
        found[str(int(switch))].given["tier"] = 0
    return found, joined


def _lines(text: str) -> list[tuple[int, list[str]]]:
    lines = ((number, line.split()) for number, line in enumerate(text.splitlines(), start=1))
    return [(number, words) for number, words in lines if words and not words[0].startswith("#")]


def _count(word: str) -> int:
    return whole_cell(word, "count", 0, _MOST)


def _numbered(path: str, lines: list[tuple[int, list[str]]], nodes: int, switches: int, links: int) -> Parts:
    """The parts below line 1: so many switches on one or more lines, so many links."""
    at = 1
    kinds: dict[int, int] = {}
    while len(kinds) < switches and at < len(lines):
        number, words = lines[at]
        with inside(place=f"{path}:{number}"):
            for word in words:
                switch = whole_cell(word, "switch", 0, max(nodes - 1, 0))
                if switch in kinds:
                    raise SpecError("this switch is there twice", path="switch", value=switch)
                kinds[switch] = number
            if len(kinds) > switches:
                raise SpecError(f"line 1 announces {switches} switches, here are {len(kinds)}")
        at += 1
    rows = list(takewhile(_joins, lines[at : at + links]))
    if len(kinds) < switches or len(rows) < links:
        rule = f"line 1 announces {switches} switches and {links} links, there are {len(kinds)} and {len(rows)}"
        raise SpecError(rule, remedy="is the file truncated?", place=path)
    if links < nodes - 1:
        raise SpecError(f"{links} links do not join {nodes} nodes", remedy="is line 1 right?", place=path)
    further = sum(map(_joins, lines[at + links :]))
    if further:
        left_out(path, f"{further} more links than line 1 announces, which the simulator does not read either")
    columns = max((len(words) for _, words in rows), default=0)
    if columns > 5:
        left_out(path, f"columns after the fifth of links (there are {columns})")
    found, named = [], dict.fromkeys(range(nodes), 0)
    for number, words in rows:
        with inside(place=f"{path}:{number}"):
            if len(words) < 4:
                raise SpecError(f'"{" ".join(words)}" has {len(words)} columns', remedy="a link is: a b rate delay loss")
            if len(words) == 4 < columns:
                rule = f'"{" ".join(words)}" has 4 columns, another link has {columns}'
                raise SpecError(rule, remedy="a link is: a b rate delay loss")
            ends = [whole_cell(word, key, 0, max(nodes - 1, 0)) for word, key in zip(words, "ab")]
        for end in ends:
            named[end] = named[end] or number
        given = {"rate": _rate(words[2]), "delay": _time(words[3]), "loss": words[4] if len(words) > 4 else 0}
        found.append(Link(f"{path}:{number}", str(ends[0]), str(ends[1]), given))
    read = {
        str(node): Node(f"{path}:{line or kinds.get(node, 1)}", {"kind": "switch" if node in kinds else "host"})
        for node, line in named.items()
    }
    return read, found


def _joins(line: tuple[int, list[str]]) -> bool:
    """Whether a line begins with two nodes."""
    return len(line[1]) > 1 and line[1][0].isdecimal() and line[1][1].isdecimal()


def _rate(word: str) -> str | float:
    """A rate of ns-3 as one of ours: a number is bit/s, b/s is bps."""
    return _bare(word) if _is_bare(word) else re.sub(r"([A-Za-z]?)b/s$", r"\1bps", word).replace("kbps", "Kbps")


def _time(word: str) -> str | float:
    return _bare(word) if _is_bare(word) else word


def _is_bare(word: str) -> bool:
    return re.fullmatch(r"\d{1,30}(?:\.\d{0,30})?(?:[eE][+-]?\d{1,2})?", word, re.ASCII) is not None


def _bare(word: str) -> float:
    value = float(word)
    return int(value) if value.is_integer() else value


# htsim

_HEADER = ("nodes", "tiers", "podsize")
_TIER = ("downlink_speed_gbps", "radix_down", "radix_up", "queue_down", "queue_up", "oversubscribed", "bundle")
_LATENCY = ("switch_latency_ns", "downlink_latency_ns")
_NAMES = ("tor", "agg", "core")


def read_htsim(path: str, text: str, unread: Unread) -> Parts:
    """Nodes and links of a .topo file of htsim.  SpecError: it contradicts itself, or has several links between two switches."""
    return _Tree(path, text, unread).parts()


class _Tree:
    """A tree of two or three tiers: hosts in pods, `radix_down` of them at a ToR; each ToR of a pod is linked to each
    aggregation switch of the pod; the i-th of these in every pod is linked to the i-th, (i + n)-th, ... core, of n in a pod.

    A switch that takes its time to forward (switch_latency_ns) has half of it on each of its links.
    """

    def __init__(self, path: str, text: str, unread: Unread) -> None:
        self.path = path
        self.header: dict[str, int] = {}
        self.tiers: dict[int, dict[str, int]] = {}
        self.lines: dict[int, int] = {}
        tier: dict[str, int] | None = None
        for number, words in _lines(text):
            with inside(place=f"{path}:{number}"):
                key = words[0].lower()
                if len(words) < 2 or (len(words) > 2 and not words[2].startswith("#")):
                    raise SpecError("expected a word and a number", value=" ".join(words))
                value = whole_cell(words[1], words[0], 0, 10**9)
                if key == "tier":
                    if value > 2 or value in self.tiers:
                        raise SpecError("tiers are 0, 1 and 2, each once", path="Tier", value=value)
                    tier = self.tiers[value] = {}
                    self.lines[value] = number
                    continue
                known, into = (_HEADER, self.header) if key in _HEADER else ((*_TIER, *_LATENCY), tier)
                if into is None or key not in known:
                    raise SpecError("unknown word", value=words[0], remedy=nearest(key, ("tier", *_HEADER, *_TIER, *_LATENCY)))
                if key in into:
                    raise SpecError("occurs twice", path=words[0])
                into[key] = value
        for key in _HEADER:
            if not self.header.get(key):
                raise SpecError(f"there is no {key.capitalize()} N", remedy="is the file truncated?", place=path)
        count = self.header["tiers"]
        if count not in (2, 3) or sorted(self.tiers) != list(range(count)):
            rule = f"Tiers says {count}, which must be 2 or 3, and described are {sorted(self.tiers)}"
            raise SpecError(rule, remedy="is the file truncated?", place=path)
        if any(key in tier for tier in self.tiers.values() for key in ("queue_up", "queue_down")):
            left_out(path, "Queue_up and Queue_Down, of each port of a switch; give the buffer that its ports share as buffer")

        if scaled := sum(tier.get("oversubscribed", 1) != 1 for tier in self.tiers.values()):
            unread.count("words of tiers", "Oversubscribed", scaled)

    def parts(self) -> Parts:
        """The nodes and links, hosts first."""
        hosts, pod = self.header["nodes"], self.header["podsize"]
        top = self.header["tiers"] - 1
        down = [self._of(tier, "radix_down") for tier in range(top + 1)]
        up = [self._of(tier, "radix_up") for tier in range(top)]
        for tier in range(1, top + 1):
            if (bundle := self.tiers[tier].get("bundle", 1)) != 1:
                raise SpecError(
                    f"has {bundle} links between two switches (Bundle), where at most one may be",
                    remedy=f"describe it as one of {bundle} times the speed, with Radix_Up and Radix_Down divided by {bundle}",
                    place=f"{self.path}:{self.lines[tier]}",
                )
        if hosts > MAX_HOSTS or hosts % pod or pod % down[0]:
            rule = f"{hosts} nodes in pods of {pod}, {down[0]} at a ToR: each must be a multiple of the next"
            raise SpecError(rule, remedy=f"at most {MAX_HOSTS} nodes", place=self.path)
        pods, tors = hosts // pod, pod // down[0]
        if pods * tors * up[0] + (pods * up[0] * up[1] if top == 2 else 0) > _MOST:
            raise SpecError(
                f"more than {_MOST} links between switches", remedy="are Radix_Up and Podsize right?", place=self.path
            )
        if down[1] != tors:
            raise self._contradiction(1, f"Radix_Down is {down[1]}, but a pod has {tors} ToRs")
        cores = 0
        if top == 2:
            if pods * up[0] * up[1] % down[2]:
                raise self._contradiction(2, f"Radix_Down is {down[2]}, which does not divide the {pods * up[0] * up[1]} uplinks")
            cores = pods * up[0] * up[1] // down[2]
            if cores != up[0] * up[1]:
                raise self._contradiction(2, f"Radix_Down is {down[2]}, but there are {pods} pods")
        elif pods > 1:
            raise self._contradiction(1, f"two tiers are one pod, but there are {pods}")
        nodes, links = {}, []
        names = [[f"host{i}" for i in range(hosts)]]
        for tier, n in enumerate((pods * tors, pods * up[0], cores)[: top + 1]):
            names.append([f"{_NAMES[tier]}{i}" for i in range(n)])
        for tier, of_tier in enumerate(names):
            kind = {"kind": "switch", "tier": tier} if tier else {"kind": "host"}
            nodes.update({name: Node(f"{self.path}:{self.lines[max(tier - 1, 0)]}", dict(kind)) for name in of_tier})
        links += [self._link(0, names[0][i], names[1][i // down[0]]) for i in range(hosts)]
        for p in range(pods):
            for t in range(tors):
                links += [self._link(1, names[1][p * tors + t], names[2][p * up[0] + a]) for a in range(up[0])]
        for agg in range(pods * up[0] if top == 2 else 0):
            links += [self._link(2, names[2][agg], names[3][agg % up[0] + up[0] * i]) for i in range(up[1])]
        return nodes, links

    def _link(self, tier: int, lower: str, upper: str) -> Link:
        """A link below a switch of this tier."""
        given: dict[str, str] = {}
        of_tier = self.tiers[tier]
        if of_tier.get("downlink_speed_gbps"):
            given["rate"] = f"{of_tier['downlink_speed_gbps']}Gbps"
        if of_tier.get("downlink_latency_ns"):
            switches = (tier, tier - 1) if tier else (tier,)
            half = sum(self.tiers[each].get("switch_latency_ns", 0) for each in switches) * 500
            given["delay"] = f"{of_tier['downlink_latency_ns'] * 1000 + half}ps"
        return Link(f"{self.path}:{self.lines[tier]}", lower, upper, dict(given))

    def _of(self, tier: int, key: str) -> int:
        value = self.tiers[tier].get(key)
        if not value:
            raise SpecError(f"tier {tier} has no {key}", remedy="is the file truncated?", place=f"{self.path}:{self.lines[tier]}")
        return value

    def _contradiction(self, tier: int, rule: str) -> SpecError:
        return SpecError(rule, remedy="correct one of them", place=f"{self.path}:{self.lines[tier]}")
