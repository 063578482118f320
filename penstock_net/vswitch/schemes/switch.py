"""A switch in this process that runs a scheme of the simulator on real frames; otherwise it behaves like a Switch.

    switch = SchemeSwitch([{"name": "a", "rate": "10Gbps"}, {"name": "b", "rate": "1Gbps"}], scheme="bfc")
    switch.attach("a", region, ["10.0.0.1"])
    switch.start()

Ports have rates and delays, as links of the simulator have, and are declared when the switch is made.  Under a virtual clock,
`to(ps)` instead of `start()`, events happen exactly as in the simulator.
"""

import hashlib

import cython

from penstock_net.errors import SpecError, nearest
from penstock_net.inputs import known_keys
from penstock_net.inputs import whole as whole_number
from penstock_net.sim.core.build import struct_sizes
from penstock_net.sim.logs import Logs
from penstock_net.units import parse_size
from penstock_net.vswitch.support.scheme_network import Network, first_number, network, usable
from penstock_net.vswitch.support.settings import DEFAULTS, DROP_NAMES, LINE_DROPS, address_words

if not cython.compiled:
    from penstock_net.fabric.queueing import free_packet
    from penstock_net.fabric.state import NO_PACKET, node_at, queue_at
    from penstock_net.fabric.state import port_at as line_at
    from penstock_net.vswitch.dataplane.prefixes import EXACT, MOST_ADDRESSES
    from penstock_net.vswitch.dataplane.schedule import activate
    from penstock_net.vswitch.dataplane.state import MOST_PORTS, PAUSED, UP, free, numbers, port_at, stopped, txq_at, watch_only
    from penstock_net.vswitch.dataplane.switch import Switch, run_released
    from penstock_net.vswitch.schemes.clock import is_empty, prepare_emulation
    from penstock_net.vswitch.schemes.endpoint import retry_delivery
    from penstock_net.vswitch.schemes.state import FAR, endpoint_at, endpoint_of_port, far_at, trunk_at
    from penstock_net.vswitch.schemes.switch import (
        bytes_of_packet,
        carried_bytes,
        flags,
        new_emulation,
        new_endpoints,
        new_fars,
        new_hands,
        new_trunks,
        no_hands,
        no_node,
        packet_of,
        set_kernel_port,
        set_world,
        turn_to,
        turns_of_emulation,
    )
    from penstock_net.vswitch.world.calls.table import now_ns

OWN = {"scheme": None, "buffer": "12MB", "frame": 2048, "packets": 32768, "seed": 1, "trace": False, "node": None, "secret": ""}
MODE = "lossy"  # of the worker, which does not use it
RENEW_PS = 1000 * 10**12  # the keys of events hold 2251 s: after 1000 s a new world is begun when this one is empty,
LAST_PS = 2200 * 10**12  # and after 2200 s in any case
SECOND_PS = 10**12


def split(settings):
    """Split settings into those of the scheme switch, validated except for the scheme, and those of Switch."""
    ours = {key: settings.get(key, default) for key, default in OWN.items()}
    rest = {key: value for key, value in settings.items() if key not in OWN}
    known_keys(settings, (*DEFAULTS, *OWN), "switch")
    if "mode" in rest:
        raise SpecError(
            "a scheme takes the place of the modes", path="switch.mode", value=rest["mode"], remedy="give mode or scheme"
        )
    if rest.get("workers", 1) != 1:
        raise SpecError("a switch that runs a scheme has one", path="switch.workers", value=rest["workers"])
    ours["frame"] = parse_size(ours["frame"], "switch.frame", positive=True)
    for key in ("packets", "seed"):
        ours[key] = whole_number(ours[key], f"switch.{key}", 1, 1 << 24)
    return ours, rest


class SchemeSwitch(Switch):
    """A worker with its ports, and the fabric between them."""

    @property
    def takes_headers(self):
        return False

    @property
    def takes_ports(self):
        return False

    def __init__(self, places, links=(), parameters=None, **settings):
        ours, rest = split(settings)
        Switch.__init__(self, **rest)
        self.scheme, self.left_out = usable(ours["scheme"], parameters)
        self.ours = {**ours, "scheme": self.scheme.name}
        self.settings = self.described()
        self.topo = network(places, links, ours["buffer"])
        if self.topo.hosts > MOST_PORTS:
            raise SpecError(f"{self.topo.hosts} ports: a switch has at most {MOST_PORTS}")
        self.place = {str(place["name"]): i for i, place in enumerate(places)}
        emulation = self.emulation = new_emulation()
        emulation.worker = self.worker
        prepare_emulation(emulation)
        emulation.endpoint_count = self.topo.hosts
        emulation.endpoints = new_endpoints(emulation.endpoint_count)
        emulation.endpoint_of = numbers(MOST_PORTS)
        emulation.names = numbers(self.worker.flow_room)
        emulation.longest = ours["frame"]
        emulation.most_packets = ours["packets"]
        emulation.renew_at = RENEW_PS
        emulation.origin = now_ns()
        emulation.mine = flags(self.topo.nodes)
        emulation.trunks = new_trunks(self.topo.nodes)
        emulation.fars = new_fars(MOST_ADDRESSES)
        self.peers = {}
        self.take_node(ours["node"], places)
        self.before = {}
        for i in range(emulation.endpoint_count):
            endpoint_at(emulation, i).port = -1
        self.begin_world()

    def __dealloc__(self):
        if self.emulation:
            for i in range(self.emulation.endpoint_count):
                endpoint = endpoint_at(self.emulation, i)
                free(endpoint.hand)
                free(endpoint.parked)
                free(endpoint.last_parked)
                free(endpoint.stopped)
                free(endpoint.stops)
            free(self.emulation.endpoints)
            free(self.emulation.endpoint_of)
            free(self.emulation.names)
            free(self.emulation.mine)
            for i in range(self.emulation.trunk_count):
                free(trunk_at(self.emulation, i).scratch)
            free(self.emulation.trunks)
            free(self.emulation.fars)
            free(self.emulation)

    def begin_world(self):
        """Build a new, empty world."""
        emulation = self.emulation
        self.network = Network(self.topo, self.scheme, self.ours["frame"], carried_bytes(), self.ours["seed"], self.ours["trace"])
        self.sim = self.network.sim
        set_world(emulation, self.sim)
        emulation.at = self.network.carried_at
        emulation.packet_state = emulation.at - struct_sizes()["packet"]
        emulation.frame_state = self.network.composition.sizes["frame"] - struct_sizes()["frame"]
        for i in range(emulation.trunk_count):
            trunk = trunk_at(emulation, i)
            trunk.node = node_at(emulation.world, self.topo.hosts + self.node)
            trunk.out = NO_PACKET
        emulation.by_destination = self.network.composition.nic_by_destination
        emulation.time = 0
        nic_queues, queues = self.network.composition.nic_queues, self.network.composition.queues
        for i in range(emulation.endpoint_count):
            endpoint = endpoint_at(emulation, i)
            endpoint.node = node_at(emulation.world, i)
            endpoint.queues = nic_queues
            endpoint.stop_count = 0
            endpoint.stop_room = queues
            endpoint.late = NO_PACKET
            free(endpoint.parked)
            free(endpoint.last_parked)
            free(endpoint.stopped)
            free(endpoint.stops)
            endpoint.parked = numbers(nic_queues)
            endpoint.last_parked = numbers(nic_queues)
            endpoint.stopped = numbers(queues)
            endpoint.stops = numbers(queues)

    # ---- Ports ----

    def attach(self, name, region, addresses, fds=(-1, -1), guarded=True, number=-1):
        """Attach a region to one of the ports that the switch was made with; returns its number."""
        if name not in self.place:
            raise SpecError(f"port {name!r}: the switch has none of that name", remedy=nearest(str(name), self.place))
        if not self.emulation.mine[self.place[name]]:
            raise SpecError(f"port {name!r}: it is at another node", remedy=f"this switch is node {self.node}")
        number = Switch.attach(self, name, region, addresses, fds, guarded, number)
        endpoint = endpoint_at(self.emulation, self.place[name])
        endpoint.hand = new_hands(region.shape["queues"])
        endpoint.hand_count = region.shape["queues"]
        endpoint.port = number
        self.emulation.endpoint_of[number] = self.place[name] + 1
        for i in range(region.shape["queues"]):
            txq_at(port_at(self.worker, number), i).weight = 1
            txq_at(port_at(self.worker, number), i).priority = 1
        return number

    def detach(self, number):
        """Detach a port; frames for it that are in flight are lost and counted."""
        emulation = self.emulation
        if number not in self.regions:
            return None
        endpoint = endpoint_of_port(emulation, number)
        for i in range(endpoint.hand_count):
            if endpoint.hand[i]:
                endpoint.lost += 1
                free_packet(emulation.engine, endpoint.hand[i])
        free(endpoint.hand)
        endpoint.hand = no_hands()
        endpoint.hand_count = 0
        for i in range(endpoint.queues):
            endpoint.parked[i] = 0
        endpoint.port = -1
        region = Switch.detach(self, number)
        retry_delivery(emulation, endpoint)  # its pauses end
        emulation.endpoint_of[number] = 0
        return region

    # ---- Other switches ----

    def take_node(self, node, places):
        """Run one node of the world, with the others in other processes; None: run all of them."""
        emulation, nodes = self.emulation, self.topo.switches
        if node is not None and (isinstance(node, bool) or not isinstance(node, int) or not 0 <= node < nodes):
            raise SpecError(
                f"must be one of the nodes, 0 to {nodes - 1}, or left out: all of them", path="switch.node", value=node
            )
        if node is not None and self.topo.hosts >= MOST_PORTS:
            raise SpecError(f"{self.topo.hosts} ports: a switch with others has at most {MOST_PORTS - 1}")
        self.node = -1 if node is None else node
        for i, place in enumerate(places):
            emulation.mine[i] = node is None or place.get("node", 0) == node
        for i in range(nodes):
            emulation.mine[self.topo.hosts + i] = node is None or i == node
        said = repr(
            (
                self.scheme.key(),
                sorted(self.scheme.parameters().items()),
                self.topo.links.tolist(),
                self.topo.hosts,
                self.topo.buffer_bytes.tolist(),
                self.ours["frame"],
                self.ours["seed"],
            )
        )
        emulation.digest = int.from_bytes(hashlib.blake2b(said.encode(), digest_size=8).digest(), "little")
        emulation.secret = int.from_bytes(hashlib.blake2b(str(self.ours["secret"]).encode(), digest_size=8).digest(), "little")
        far = port_at(self.worker, FAR)
        if node is not None:
            far.state, far.number = UP, FAR

    def know(self, name, addresses):
        """Declare the addresses of a port at another node."""
        emulation = self.emulation
        if name not in self.place or emulation.mine[self.place[name]]:
            raise SpecError(f"port {name!r}: it is not one at another node")
        for high, low_half, bits in [address_words(text) for text in addresses]:
            if bits < EXACT:
                raise SpecError("a prefix cannot be at another node", path=name, remedy="list its addresses")
            if emulation.far_count == MOST_ADDRESSES:
                raise SpecError(f"a switch knows {MOST_ADDRESSES} addresses of others", path=name, remedy="take fewer")
            far = far_at(emulation, emulation.far_count)
            far.high, far.low, far.host = high, low_half, self.place[name]
            emulation.far_count += 1

    def join(self, node, port):
        """Exchange frames with a neighbouring node through a kernel port (a PortHandle, see attach/open.py)."""
        emulation, hosts = self.emulation, self.topo.hosts
        ours = node_at(emulation.world, hosts + self.node) if self.node >= 0 else no_node()
        slots = [k for k in range(ours.port_count) if line_at(ours, k).peer_node == hosts + node] if ours else []
        if not slots or node in self.peers:
            raise SpecError(f"node {node}: this switch has no link to it that is still to be joined")
        trunk = trunk_at(emulation, emulation.trunk_count)
        trunk.node, trunk.slot = ours, slots[0]
        set_kernel_port(trunk, port)
        trunk.room = 256 + carried_bytes() + emulation.packet_state + emulation.frame_state + emulation.longest
        trunk.scratch = flags(trunk.room)
        trunk.sequence = first_number()
        trunk.heard = 0
        if trunk.port.fd >= 0:
            watch_only(self.epolls[0], trunk.port.fd)
        self.peers[node] = port
        emulation.trunk_count += 1

    def close(self):
        """Detach all ports, close those to other switches, and close the file descriptors."""
        for i in range(self.emulation.trunk_count):
            if self.epolls and trunk_at(self.emulation, i).port.fd >= 0:
                self.epolls[0].unregister(trunk_at(self.emulation, i).port.fd)
            free(trunk_at(self.emulation, i).scratch)
        self.emulation.trunk_count = 0
        for port in self.peers.values():
            port.close()
        self.peers = {}
        Switch.close(self)

    def links(self):
        """Counters of the links to other switches, by node."""
        found = []
        for i, node in enumerate(self.peers):
            trunk = trunk_at(self.emulation, i)
            found.append(
                {
                    "node": node,
                    "sent": trunk.sent_frames,
                    "came": trunk.came_frames,
                    "lost": trunk.lost,
                    "malformed": trunk.malformed - trunk.replayed,
                    "replayed": trunk.replayed,
                    "restarts": trunk.restarts,
                    "no_memory": trunk.no_memory,
                }
            )
        return found

    # ---- What there is ----

    def line_row(self, i):
        """Counters of the fabric at the place of a port, since the beginning."""
        row = self.line_now(i)
        before = self.before.get(i, {})
        return {key: value + before.get(key, 0) if isinstance(value, int) else value for key, value in row.items()}

    def line_now(self, i):
        emulation = self.emulation
        endpoint = endpoint_at(emulation, i)
        line = line_at(endpoint.node, 0)
        node = node_at(emulation.world, line.peer_node)
        ours = line_at(node, line.peer_slot)
        row = {f"dropped_{name}": ours.drops[k] for k, name in enumerate(DROP_NAMES)}
        row |= {
            "pauses": line.pauses_received,
            "paused_ns": line.paused_ps // 1000,
            "frames_of_scheme": ours.frame_bytes // 64,
            "pauses_sent": ours.pauses_sent,
            "held_late": endpoint.held_frames,
            "stops": endpoint.stop_total,
            "lost": endpoint.lost,
            "longest_bytes": ours.max_bytes,
            "ecn_marks": ours.ecn_marks,
        }
        return row

    def port_row(self, number, most_queues=1 << 20):
        row = Switch.port_row(self, number, most_queues)
        i = self.place[self.names[number]]
        line = self.line_row(i)
        row["pauses"], row["paused_ns"] = line.pop("pauses"), line.pop("paused_ns")
        row["drops"] |= {name: line.pop(f"dropped_{name}") for name in DROP_NAMES if line[f"dropped_{name}"]}
        if line["lost"]:
            row["drops"]["gone"] = line["lost"]
        row["line"] = {key: value for key, value in line.items() if not key.startswith("dropped_")}
        return row

    def lost_on_lines(self):
        """Frames that were taken, and that the scheme, a full buffer or the end of their sender has cost."""
        rows = [self.line_row(i) for i in range(self.emulation.endpoint_count)]
        names = [f"dropped_{name}" for name in DROP_NAMES if name in LINE_DROPS]
        return sum([row["lost"] + sum([row[name] for name in names]) for row in rows])

    def add_up(self, row):
        """Those of a line go on with the next application."""
        drops = {name: number for name, number in row["drops"].items() if name not in LINE_DROPS}
        Switch.add_up(self, {**row, "drops": drops})

    def start_capture(self, capture):
        raise SpecError(
            f"a capture: not of a switch that runs a scheme ({self.scheme.name})", remedy="its trace has every packet"
        )

    def pauses(self, now=None):
        """The applications' queues that the scheme pauses now, and the switch's queues that slow receivers pause; see `by`."""
        emulation, found = self.emulation, []
        for name, i in self.place.items():
            endpoint = endpoint_at(emulation, i)
            line = line_at(endpoint.node, 0)
            by_scheme = [None] if line.paused else []
            by_scheme += [k for k in range(endpoint.queues) if queue_at(line, k).paused]
            by_receiver = ([None] if endpoint.late else []) + [endpoint.stops[k] for k in range(endpoint.stop_count)]
            for by, queues in (("scheme", by_scheme), ("receiver", by_receiver)):
                found += [{"port": name, "queue": k, "to_device": False, "left_ns": None, "by": by} for k in queues]
        return found

    def counters(self):
        emulation = self.emulation
        row = Switch.counters(self)
        row["stored_bytes"] = sum(
            [node_at(emulation.world, i).buffer_used for i in range(emulation.endpoint_count, emulation.world.node_count)]
        )
        row["lost_on_lines"] = self.lost_on_lines()
        row["lost_bytes"] = self.lost_bytes  # that were in flight when a world was replaced
        row["links"] = self.links()
        row["packets"] = emulation.engine.packets
        row["error_of_scheme"] = emulation.engine.error
        return row

    def described(self):
        """All settings: of the worker, of the scheme switch, and the scheme's parameters."""
        more = {"mode": f"scheme {self.scheme.name}", "parameters": self.scheme.parameters(), "left_out": self.left_out}
        return {**self.settings, **self.ours, **more}

    def set(self, changes):
        """Change settings of the worker while running; those of the fabric need a restart."""
        for key in changes:
            if key in OWN or key == "mode":
                raise SpecError("cannot be set while a scheme runs", path=key, remedy="it takes a new start")
        before = self.settings
        self.settings = {key: before[key] if key != "mode" else MODE for key in DEFAULTS}
        try:
            Switch.set(self, changes)
        except SpecError:
            self.settings = before
            raise
        self.settings = self.described()
        return self.settings

    def waiting(self):
        """Whether a frame is in flight, or in a transmit queue that the switch knows of."""
        emulation = self.emulation
        if not is_empty(emulation) or Switch.waiting(self):
            return True
        for i in range(emulation.endpoint_count):
            endpoint = endpoint_at(emulation, i)
            for k in range(endpoint.hand_count):
                if endpoint.hand[k]:
                    return True
        return False

    def log(self, name):
        """With trace: the simulator's logs so far, "trace" of packets at every hop or "pause" (numpy, see sim/logs.py)."""
        return Logs(self.sim, 0).whole(name)

    # ---- Running ----

    def run(self, k, seconds):
        until = now_ns() + int(1e9 * seconds)
        while now_ns() < until and not stopped(self.worker):
            run_released(self.worker, until)
            if self.emulation.time >= self.emulation.renew_at:
                self.renew()

    def turns(self, count):
        """Run `count` turns of the loop, by the machine's clock; returns the cycles that they took."""
        return turns_of_emulation(self.emulation, count)

    def to(self, ps):
        """Under a virtual clock: read the doorbells, then run all events before `ps`.  SpecError: `ps` is in the past."""
        if ps < self.emulation.time:
            raise SpecError(f"{ps} ps: it is {self.emulation.time} ps already", remedy="time goes forward")
        turn_to(self.emulation, self.emulation.time)
        turn_to(self.emulation, ps)

    @property
    def time(self):
        """ps: all events before it have been run."""
        return self.emulation.time

    def renew(self):
        """Begin a new world, since time gets too large for event keys, once this one is empty; waits 10 ms for that at most."""
        emulation = self.emulation
        emulation.closed = 1
        until = now_ns() + 10**7
        while now_ns() < until and not is_empty(emulation):
            turns_of_emulation(emulation, 1)
        emulation.closed = 0
        if not is_empty(emulation) and emulation.time < LAST_PS:
            emulation.renew_at = emulation.time + SECOND_PS
            return False
        self.take_over()
        return True

    def take_over(self):
        """Replace the world by a new one, which takes over the packets fetched and not yet sent; counters continue."""
        emulation = self.emulation
        self.before = {i: self.line_row(i) for i in range(emulation.endpoint_count)}
        self.lost_bytes += sum(
            [node_at(emulation.world, i).buffer_used for i in range(emulation.endpoint_count, emulation.world.node_count)]
        )
        old, engine = self.sim, emulation.engine
        emulation.origin += emulation.time // 1000
        hands = {}
        for i in range(emulation.endpoint_count):
            endpoint = endpoint_at(emulation, i)
            endpoint.held_frames, endpoint.stop_total, endpoint.lost = 0, 0, 0
            for k in range(endpoint.hand_count):
                if endpoint.hand[k]:
                    hands[i, k] = bytes_of_packet(endpoint.hand[k], engine.packet_size)
        self.begin_world()
        emulation.renew_at = RENEW_PS
        for (i, k), data in hands.items():
            endpoint = endpoint_at(emulation, i)
            endpoint.hand[k] = packet_of(emulation, data)
        for i in range(emulation.endpoint_count):
            endpoint = endpoint_at(emulation, i)
            for k in range(endpoint.hand_count):
                port = port_at(self.worker, endpoint.port)
                if txq_at(port, k).state == PAUSED:
                    activate(port, k)
        del old
