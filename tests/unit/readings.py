"""An independent reading of docs/formats.md: what a spec says that is to be simulated. It shares no code with penstock_net.

Defaults come from the tables of the page. Nodes are names here, links pairs of them, and every time is in ps.
"""

import csv
import itertools
import re
import tomllib
from collections import Counter
from fractions import Fraction
from pathlib import Path
from xml.etree import ElementTree

PAGE = (Path(__file__).parents[2] / "docs/formats.md").read_text()
UNITS = {
    "time": {"ps": 1, "ns": 10**3, "us": 10**6, "ms": 10**9, "s": 10**12},
    "size": {
        **{"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12},
        **{"KiB": 2**10, "MiB": 2**20, "GiB": 2**30},
    },
    "rate": {"bps": 1, "Kbps": 10**3, "Mbps": 10**6, "Gbps": 10**9, "Tbps": 10**12},
}
PLAIN = {"time": 10**12, "size": 1, "rate": 1}  # a number without quotes is in s, bytes, bit/s
GRAPHML = "{http://graphml.graphdrawing.org/xmlns}"
VALUE = re.compile(r"\s*([-+.\deE]*\d\.?)\s*([A-Za-z]+)\s*")


def number(value, what):
    """An exact number of ps, bytes or bit/s."""
    if not isinstance(value, str):
        return Fraction(str(value)) * PLAIN[what]
    digits, unit = VALUE.fullmatch(value).groups()
    return Fraction(digits) * UNITS[what][unit]


def whole(value, what):
    found = number(value, what)
    assert found.denominator == 1
    return int(found)


def ps(value):
    return whole(value, "time")


def size(value):
    return whole(value, "size")


def ps_per_byte(value):
    found = Fraction(8 * 10**12) / number(value, "rate")
    assert found.denominator == 1
    return int(found)


def defaults(table):
    """The keys of a table of the page that have a default, as TOML reads it."""
    block = re.search(rf"<!-- keys: {re.escape(table)} -->\n(.*?)<!-- end of keys -->", PAGE, re.S)[1]
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in block.splitlines() if row.startswith("| `")]
    given = {row[0].strip("`"): row[3].strip("`") for row in rows}
    return {key: tomllib.loads(f"x = {text}")["x"] for key, text in given.items() if text and text != "required"}


class Network:
    """hosts   names in order        links   {(a, b): (ps per byte, delay)}, sorted names        buffers   by name of a switch"""

    def __init__(self, table, folder="."):
        self.hosts, self.links, self.buffers, self.loss = [], {}, {}, {}
        self.table = {**defaults(f"topology.{table.get('kind', 'file')}"), **table}
        getattr(self, table.get("kind", "file"))(self.table) if "file" not in table else self.file(self.table, folder)
        if "vswitches" in table:
            self.put_vswitches({**defaults("vswitches"), **table["vswitches"]})
        if "loss" in table:
            within = {link for link in self.links if "nvswitch" in link[1] or ("vswitches" in table and link[0] in self.hosts)}
            self.loss = {link: table["loss"] for link in self.links if link not in within}

    def link(self, a, b, rate, delay):
        self.links[tuple(sorted((a, b)))] = (ps_per_byte(rate), ps(delay))

    def add(self, hosts, switches, buffer):
        self.hosts += [f"host{i}" for i in range(hosts)]
        self.buffers |= dict.fromkeys(switches, size(buffer))

    def leaf_spine(self, t):
        tors, spines = ([f"{kind}{i}" for i in range(t[kind + "s"])] for kind in ("tor", "spine"))
        self.add(t["hosts"], [*tors, *spines], t["buffer"])
        for i, host in enumerate(self.hosts):
            self.link(host, tors[i // (t["hosts"] // t["tors"])], t["rate"], t["delay"])
        for tor, spine in itertools.product(tors, spines):
            self.link(tor, spine, t.get("uplink_rate", t["rate"]), t.get("uplink_delay", t["delay"]))

    def fat_tree(self, t):
        k = t.get("k") or next((k for k in range(2, 99, 2) if k**3 // 4 == t.get("hosts")), 8)
        shape = {"pods": k, "tors": k // 2, "aggs": k // 2, "cores": k * k // 4, "hosts_per_tor": k // 2}
        self.clos({**t, "uplink_rate": t.get("uplink_rate", t["rate"]), **shape})

    def clos(self, t):
        each = t["cores"] // t["aggs"]
        switches = [f"{kind}{i}" for kind in ("tor", "agg") for i in range(t["pods"] * t[kind + "s"])]
        self.add(t["pods"] * t["tors"] * t["hosts_per_tor"], [*switches, *(f"core{i}" for i in range(t["cores"]))], t["buffer"])
        for i, host in enumerate(self.hosts):
            self.link(host, f"tor{i // t['hosts_per_tor']}", t["rate"], t["delay"])
        for pod, agg in itertools.product(range(t["pods"]), range(t["aggs"])):
            name = f"agg{pod * t['aggs'] + agg}"
            for tor in range(t["tors"]):
                self.link(f"tor{pod * t['tors'] + tor}", name, t["uplink_rate"], t["delay"])
            for core in range(agg * each, (agg + 1) * each):
                self.link(name, f"core{core}", t["uplink_rate"], t["delay"])

    def dumbbell(self, t):
        self.add(t["left"] + t["right"], ["switch0", "switch1"], t["buffer"])
        for i, host in enumerate(self.hosts):
            self.link(host, f"switch{int(i >= t['left'])}", t["rate"], t["delay"])
        self.link("switch0", "switch1", t.get("bottleneck_rate", t["rate"]), t["delay"])

    def star(self, t):
        self.add(t["hosts"], ["switch0"], t["buffer"])
        for host in self.hosts:
            self.link(host, "switch0", t["rate"], t["delay"])

    def parking_lot(self, t):
        chain = [f"switch{i}" for i in range(t["hops"] + 1)]
        self.add(2 + 2 * t["hops"] * t["cross"], chain, t["buffer"])
        places = [0, t["hops"], *(hop + end for hop in range(t["hops"]) for _ in range(t["cross"]) for end in (0, 1))]
        for host, place in zip(self.hosts, places):
            self.link(host, chain[place], t["rate"], t["delay"])
        for a, b in itertools.pairwise(chain):
            self.link(a, b, t.get("bottleneck_rate", t["rate"]), t["delay"])

    def sites(self, t):
        n, uplink = t["sites"], t.get("uplink_rate", t["rate"])
        switches = [f"{kind}{i}" for kind in ("tor", "spine") for i in range(n * t[kind + "s"])]
        self.add(n * t["hosts_per_site"], switches, t["buffer"])
        self.add(0, [f"gateway{i}" for i in range(n)], t["gateway_buffer"])
        for i, host in enumerate(self.hosts):
            self.link(host, f"tor{i // (t['hosts_per_site'] // t['tors'])}", t["rate"], t["delay"])
        for i, spine in itertools.product(range(n), range(t["spines"])):
            for tor in range(t["tors"]):
                self.link(f"tor{i * t['tors'] + tor}", f"spine{i * t['spines'] + spine}", uplink, t["delay"])
            self.link(f"spine{i * t['spines'] + spine}", f"gateway{i}", uplink, t["delay"])
        for one, other in itertools.combinations(range(n), 2):
            self.link(f"gateway{one}", f"gateway{other}", t["long_rate"], t["long_delay"])

    def rails(self, t):
        planes, ports, gpus = t["planes"], t["ports"], t["gpus"]
        segment = t.get("segment", t["servers"])
        leaves = t["servers"] // segment * gpus * ports
        self.add(t["servers"] * gpus, [f"tor{i}" for i in range(planes * leaves)], t["buffer"])
        for server, gpu, plane, port in itertools.product(*map(range, (t["servers"], gpus, planes, ports))):
            leaf = plane * leaves + server // segment * gpus * ports + gpu * ports + port
            self.link(f"host{server * gpus + gpu}", f"tor{leaf}", t["rate"], t["delay"])
        if "scale_up_rate" in t:
            self.add(0, [f"nvswitch{server}" for server in range(t["servers"])], t["buffer"])
            for host in range(t["servers"] * gpus):
                self.link(f"host{host}", f"nvswitch{host // gpus}", t["scale_up_rate"], t.get("scale_up_delay", "25ns"))
        self.above(t, planes, leaves)

    def planes(self, t):
        self.add(t["hosts"], [f"tor{i}" for i in range(t["planes"] * t["tors"])], t["buffer"])
        for plane, (i, host) in itertools.product(range(t["planes"]), enumerate(self.hosts)):
            self.link(host, f"tor{plane * t['tors'] + i * t['tors'] // t['hosts']}", t["rate"], t["delay"])
        self.above(t, t["planes"], t["tors"])

    def above(self, t, planes, tors):
        """Spines above the ToRs of each plane."""
        self.add(0, [f"spine{i}" for i in range(planes * t["spines"])], t["buffer"])
        for plane, tor, spine in itertools.product(range(planes), range(tors), range(t["spines"])):
            ends = f"tor{plane * tors + tor}", f"spine{plane * t['spines'] + spine}"
            self.link(*ends, t.get("uplink_rate", t["rate"]), t.get("uplink_delay", t["delay"]))

    def dragonfly(self, t):
        p, a, h = t["p"], t["a"], t["h"]
        groups = t.get("groups", a * h + 1)
        self.add(groups * a * p, [f"switch{i}" for i in range(groups * a)], t["buffer"])
        for i, host in enumerate(self.hosts):
            self.link(host, f"switch{i // p}", t["rate"], t["delay"])
        for group, (one, other) in itertools.product(range(groups), itertools.combinations(range(a), 2)):
            self.link(f"switch{group * a + one}", f"switch{group * a + other}", t.get("local_rate", t["rate"]), t["delay"])
        ends = {}  # of each ordered pair of groups: the switches whose links lead there, in their order
        for group, j in itertools.product(range(groups), range(a * h)):
            ends.setdefault((group, (group + 1 + j % (groups - 1)) % groups), []).append(f"switch{group * a + j // h}")
        for (here, there), switches in ends.items():
            for one, other in zip(switches, ends[there, here]):
                self.link(one, other, t.get("global_rate", t["rate"]), t.get("global_delay", t["delay"]))

    def torus(self, t):
        dims, each = t["dims"], t["hosts_per_switch"]
        places = list(itertools.product(*map(range, dims)))
        self.add(len(places) * each, [f"switch{i}" for i in range(len(places))], t["buffer"])
        for i, host in enumerate(self.hosts):
            self.link(host, f"switch{i // each}", t["rate"], t["delay"])
        for (i, place), (d, length) in itertools.product(enumerate(places), enumerate(dims)):
            following = (*place[:d], (place[d] + 1) % length, *place[d + 1 :])
            self.link(f"switch{i}", f"switch{places.index(following)}", t.get("link_rate", t["rate"]), t["delay"])

    def file(self, t, folder):
        path = Path(folder) / t["file"]
        text = path.read_text()
        kinds, buffers = {}, {}
        if text.lstrip().startswith("<"):
            nodes, rows = of_graphml(text)
            kinds = {name: data["kind"] for name, data in nodes.items() if "kind" in data}
            buffers = {name: data["buffer"] for name, data in nodes.items() if "buffer" in data}
        elif path.suffix == ".csv":
            rows = list(csv.DictReader(line for line in text.splitlines() if line.strip() and not line.startswith("#")))
        else:
            lines = [line.split("#")[0].split() for line in text.splitlines()]
            rows = [dict(zip(("a", "b", "rate", "delay", "loss"), line)) for line in lines if line]
        degree = Counter(end for row in rows for end in (row["a"], row["b"]))
        hosts = [name for name in degree if kinds.get(name, "host" if degree[name] == 1 else "switch") == "host"]
        self.hosts = sorted(hosts, key=naturally)
        switches = sorted(set(degree) - set(hosts), key=naturally)
        self.buffers = {name: size(buffers.get(name, t["buffer"])) for name in switches}
        for row in rows:
            link = tuple(sorted((row["a"], row["b"])))
            self.link(*link, row.get("rate") or t["rate"], row.get("delay") or t["delay"])
            self.loss[link] = float(row.get("loss") or 0)

    def put_vswitches(self, t):
        """Application j of server s is host s * apps + j."""
        servers = {host: f"vswitch{i}" for i, host in enumerate(self.hosts)}
        self.links = {tuple(sorted(servers.get(end, end) for end in link)): kind for link, kind in self.links.items()}
        self.buffers |= dict.fromkeys(servers.values(), size(t["buffer"]))
        self.hosts = [f"host{i}" for i in range(len(servers) * t["apps"])]
        for i, host in enumerate(self.hosts):
            self.link(host, f"vswitch{i // t['apps']}", t["rate"], t["delay"])

    def changes(self):
        """(time, what, up, ps per byte, the end that it is of), in the order of their times."""
        found = []
        for change in self.table.get("changes", []):
            what = change.get("switch") or tuple(sorted((change["a"], change["b"])))
            rate = ps_per_byte(change["rate"]) if "rate" in change else None
            found.append((ps(change["time"]), what, change.get("up"), rate, change.get("of")))
        return sorted(found, key=lambda change: change[0])

    def path(self, src, dst):
        """(ps per byte, delay) of the links of a shortest path."""
        beside = {}
        for (a, b), kind in self.links.items():
            beside.setdefault(a, []).append((b, kind))
            beside.setdefault(b, []).append((a, kind))
        reached, ahead = {src: []}, [src]
        for node in ahead:
            for other, kind in beside[node]:
                if other not in reached:
                    reached[other] = [*reached[node], kind]
                    ahead.append(other)
        return reached[dst]


def naturally(name):
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in re.findall(r"\d+|\D+", name)]


def of_graphml(text):
    """({name: its data}, [data of a link, with its ends a and b]); a key may have a default."""
    root = ElementTree.fromstring(text)
    keys = {key.get("id"): key for key in root.iter(GRAPHML + "key")}

    def value(key, text):
        return text if keys[key].get("attr.type") in (None, "string") else float(text)

    def data(element, owner):
        found = {}
        for key in keys.values():
            if key.get("for") in (owner, "all") and key.find(GRAPHML + "default") is not None:
                found[key.get("attr.name")] = value(key.get("id"), key.find(GRAPHML + "default").text)
        given = [(each.get("key"), each.text) for each in element.findall(GRAPHML + "data")]
        return found | {keys[key].get("attr.name"): value(key, text) for key, text in given}

    nodes = {node.get("id"): data(node, "node") for node in root.iter(GRAPHML + "node")}
    edges = root.iter(GRAPHML + "edge")
    return nodes, [{**data(edge, "edge"), "a": edge.get("source"), "b": edge.get("target")} for edge in edges]


class Flow:
    """One flow of a list or a file; `after` are the positions of others in it."""

    def __init__(self, network, src, dst, payload, start=0, flow_class="flows", priority=0, after=(), gap=0):
        self.src, self.dst = (self.host(network, end) for end in (src, dst))
        self.bytes, self.start, self.flow_class = payload, start, flow_class
        self.priority, self.after, self.gap = priority, sorted(after), gap

    @staticmethod
    def host(network, given):
        """A number, or a name."""
        return given if given in network.hosts else network.hosts[int(given)]

    def row(self):
        return (self.start, self.src, self.dst, self.bytes, self.flow_class, self.priority, self.gap, len(self.after))


def of_list(table, network):
    """The flows of kind = "list"."""
    for given in table["flows"]:
        t = given if isinstance(given, dict) else dict(zip(("src", "dst", "bytes", "start"), given))
        yield Flow(
            network,
            t["src"],
            t["dst"],
            size(t["bytes"]),
            ps(t.get("start", 0)),
            t.get("class", table.get("class", "flows")),
            t.get("priority", table.get("priority", 0)),
            t.get("after", []),
            ps(t.get("gap", 0)),
        )


def of_csv(table, network, folder, until):
    """The flows of kind = "flows", a CSV file; those that would start after `until` are left out."""
    lines = [line for line in (Path(folder) / table["file"]).read_text().splitlines() if line and not line.startswith("#")]
    rows = list(csv.DictReader(lines))
    numbers = {row.get("id") or str(i): i for i, row in enumerate(rows)}
    starts = [number(row["start_ns"] + "ns", "time") for row in rows]
    shift = ps(table["start"]) - min(starts) if "start" in table else 0
    for row, start in zip(rows, starts):
        flow = Flow(
            network,
            row["src"],
            row["dst"],
            int(row["bytes"]),
            start + shift,
            row.get("class") or table.get("class", "flows"),
            int(row.get("priority") or table.get("priority", 0)),
            [numbers[word] for word in (row.get("after") or "").split()],
            number((row.get("gap_ns") or "0") + "ns", "time"),
        )
        if flow.start < until:
            yield flow


def arrivals(frames, links, begin):
    """When frames of these sizes have arrived over links (ps per byte, delay); each switch stores a frame, then sends it on."""
    times = [begin] * len(frames) if isinstance(begin, int) else list(begin)
    for rate, delay in links:
        free = 0
        for i, frame in enumerate(frames):
            free = max(free, times[i]) + frame * rate
            times[i] = free + delay
    return times


def lone_flow(payload, links, host, begin):
    """When a flow that nothing is in the way of has been received, and acknowledged."""
    full, rest = divmod(payload, host["mtu"])
    frames = [host["mtu"] + host["header"]] * full + [rest + host["header"]] * bool(rest)
    received = arrivals(frames, links, begin)
    return received[-1], arrivals([host["ack"]] * len(frames), links[::-1], received)[-1]
