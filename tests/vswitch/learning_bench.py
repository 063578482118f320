"""A switch in virtual time whose ports are links, some of which learn Ethernet addresses; and what must come out of it, by a
transcription of its own of docs/vswitch-ports.md, "Stations"."""

import struct

from penstock_net.vswitch.attach.devices import planned, validate_device, vlans_of
from penstock_net.vswitch.attach.open import open_link
from penstock_net.vswitch.dataplane.driver import attach_device
from penstock_net.vswitch.dataplane.switch import Switch
from penstock_net.vswitch.ports.base import Clock
from penstock_net.vswitch.support.balance import unaccounted
from penstock_net.vswitch.support.losses import counted

TURN_NS, TURNS = 200_000, 12
SECOND = 10**9
OWN = [bytes([2, 0, 0, 1, 0, i]) for i in range(8)]  # of the interfaces


def station(i):
    return bytes([2, 0, 0, 9, 0, i])


def tagged(frame, vlan):
    """A frame with a tag (None: without)."""
    return frame if vlan is None else frame[:12] + struct.pack("!HH", 0x8100, vlan) + frame[12:]


class Bench:
    """Its ports are tables as in a specification, of which `mac` says that the interface has an Ethernet address of its own."""

    def __init__(self, ports, headers=False, guarded=True, memory="1MiB", **settings):
        self.clock, self.switch, self.ends, self.devices = Clock(ns=SECOND), Switch(**settings), [], []
        self.tables = [dict(table) for table in ports]
        self.headers = [headers] * len(ports) if isinstance(headers, bool) else headers
        self.guarded, self.memory = guarded, memory
        for i in range(len(ports)):
            self.attach(i)

    def attach(self, i):
        end, port = open_link(rate="8Tbps", delay=0, headers=self.headers[i], clock=self.clock, memory=self.memory)
        table = {key: value for key, value in self.tables[i].items() if key not in ("mac", "addresses")}
        table = validate_device({"kind": "packet", "device": "eth0", **table}, "port")
        device = planned(table, port, None, OWN[i] if self.tables[i].get("mac", True) else "learn")
        attach_device(self.switch, f"p{i}", device, self.tables[i].get("addresses", []), self.guarded)
        self.ends[i : i + 1] = [end]
        self.devices[i : i + 1] = [device]

    def send(self, i, frame, header=bytes(10)):
        assert self.ends[i].send(header + frame if self.ends[i].headers else frame)

    def run(self, turns=TURNS):
        for _ in range(turns):
            self.clock.ns += TURN_NS
            self.switch.turn_at(self.clock.ns)

    def got(self, turns=TURNS):
        """What came out of each port."""
        self.run(turns)
        found = [[] for _ in self.ends]
        for end, frames in zip(self.ends, found):
            while (frame := end.receive()) is not None:
                frames.append(frame[10:] if end.headers else frame)
        return found

    def row(self, i):
        return self.switch.ports()[i]["device"]

    def stations(self, i):
        """(VLAN, address) of the stations of a port."""
        rows = self.switch.drivers[i].station_rows(self.clock.ns)
        return {(row["vlan"], bytes.fromhex(row["address"].replace(":", ""))) for row in rows}

    def counts(self, i):
        return {reason: number for reason, number in counted(self.switch.ports()[i]).items() if number}

    def check(self):
        if self.switch.detached:
            return
        rows = self.switch.ports()
        assert not unaccounted([{**row, **more} for row, more in zip(rows, self.switch.left())])

    def close(self):
        self.check()
        self.switch.close()
        for each in (*self.ends, *(device.port for device in self.devices)):
            each.close()


class Model:
    """Where frames go that are not of IP, one at a time."""

    def __init__(self, ports):
        self.ports = ports
        self.idle = [int(table.get("station_idle", "300s").rstrip("s")) * SECOND for table in ports]
        self.limit = [table.get("stations", 1024) for table in ports]
        self.static = {OWN[i]: i for i, table in enumerate(ports) if table.get("mac", True)}
        self.where = {}  # (VLAN, address): [port, when it was seen]
        self.beyond = self.moved = self.spoofed = self.hairpins = 0

    def learns(self, i):
        return bool(self.ports[i].get("learn"))

    def vlans(self, i):
        return set(vlans_of("packet", self.ports[i], "port")[0])

    def untagged(self, i):
        return self.ports[i].get("vlan") or self.ports[i].get("native")

    def carries(self, i, vlan):
        return vlan in self.vlans(i) if self.vlans(i) else not any(map(self.vlans, range(len(self.ports))))

    def flush(self, i):
        self.where = {key: entry for key, entry in self.where.items() if entry[0] != i}

    def key(self, vlan, mac):
        return vlan, mac

    def live(self, now):
        return {key: entry for key, entry in self.where.items() if now - entry[1] <= self.idle[entry[0]]}

    def learn(self, i, vlan, mac, now):
        """False: the frame is dropped."""
        if mac in self.static:
            if self.static[mac] != i:
                self.spoofed += 1
            return self.static[mac] == i
        self.where = self.live(now)
        entry = self.where.get(self.key(vlan, mac))
        if entry and entry[0] == i:
            entry[1] = now
        elif self.is_full(i):
            self.beyond += 1
        else:
            self.moved += entry is not None
            self.where[self.key(vlan, mac)] = [i, now]
        return True

    def is_full(self, i):
        return sum(entry[0] == i for entry in self.where.values()) >= self.limit[i]

    def find(self, vlan, mac, now):
        entry = self.live(now).get(self.key(vlan, mac))
        return self.static.get(mac) if entry is None else entry[0]

    def inside(self, i, tag):
        """The VLAN of a frame that comes in with a tag, or None."""
        if not self.vlans(i):
            return tag or 0  # which passes as it is
        vlan = self.untagged(i) if tag is None else tag
        return vlan if vlan in self.vlans(i) and not (tag is not None and "vlan" in self.ports[i]) else None

    def outside(self, i, vlan):
        return None if vlan in (0, self.untagged(i)) else vlan

    def flooded(self, i, vlan, among):
        return {to for to in range(len(self.ports)) if to != i and among(to) and self.carries(to, vlan)}

    def send(self, i, tag, source, target, now):
        """The ports that a frame comes out of, with their tags."""
        vlan = self.inside(i, tag)
        if vlan is None:
            return {}
        if self.learns(i) and not self.learn(i, vlan, source, now):
            return {}
        if target[0] & 1 == 0 and (port := self.find(vlan, target, now)) == i:
            self.hairpins += 1
            return {to: self.outside(to, vlan) for to in self.hairpin(i)}
        if not self.learns(i) and self.static.get(source) != i:
            return {}
        if target[0] & 1:
            to = self.flooded(i, vlan, lambda _: True)
        elif port is None:
            to = self.unknown(i, vlan)
        else:
            to = {port} if self.carries(port, vlan) else set()
        return {port: self.outside(port, vlan) for port in to}

    def unknown(self, i, vlan):
        return self.flooded(i, vlan, self.learns)

    def hairpin(self, i):
        return set()
