"""A kernel port as a port of the switch: the worker itself acts as the application on the other side of the region.

ingress.py moves frames from the device into the switch, egress.py from the switch to the device.  neighbours.py answers ARP and
neighbour discovery for addresses of the switch; broadcast.py forwards other broadcasts between ports with `broadcast`.
"""

import collections
import contextlib

import cython

from penstock_net.errors import PenstockError, SpecError
from penstock_net.vswitch.memory.region import Region
from penstock_net.vswitch.ports.base import open_absent
from penstock_net.vswitch.ports.waiting import give_up_waiting, made_by_cutting, waiting_frames
from penstock_net.vswitch.support.settings import address_text

if not cython.compiled:
    from penstock_net.vswitch.dataplane.broadcast import new_frame
    from penstock_net.vswitch.dataplane.cutting import count_cut_before, cut_row, give_up_cut, new_cutting
    from penstock_net.vswitch.dataplane.direct import send_direct
    from penstock_net.vswitch.dataplane.driver import (
        add_driver,
        control_of,
        epoll_of,
        inspect_drivers,
        new_counters,
        new_driver,
        new_rxqs,
        new_tx_flows,
        no_stations,
        place_of,
        pointer_to,
        remove_driver,
        set_at,
        set_returned,
        set_side,
        sizes_of_structs,
        watch_kernel,
        worker_of,
    )
    from penstock_net.vswitch.dataplane.driver_state import (
        driver_of,
        held_in,
        incoming_of,
        key_of_tx_flow,
        outgoing_of,
        own_key,
        returned_at,
        rxq_at,
        tx_flow_at,
    )
    from penstock_net.vswitch.dataplane.egress import BYTES_AT_ONCE, flush_device, has_doorbell, poll_doorbells, put_out, try_held
    from penstock_net.vswitch.dataplane.flowmap import add_name, copy_key, free_names, make_names, name_at
    from penstock_net.vswitch.dataplane.ingress import AGED_AT_ONCE, NO_ROOM_NS, forget_idle_tx_flows, take_in
    from penstock_net.vswitch.dataplane.overlay import (
        begin_session,
        free_overlay,
        new_overlay,
        overlay_row,
        overlay_turn,
        taken_from,
    )
    from penstock_net.vswitch.dataplane.socket_room import table_at
    from penstock_net.vswitch.dataplane.state import (
        MOST_PORTS,
        frames_to,
        free,
        free_txqs,
        new_txqs,
        numbers,
        port_at,
        signed_of,
        txq_at,
    )
    from penstock_net.vswitch.dataplane.stations import (
        MOST_STATIONS,
        forget_all,
        forget_idle,
        list_of,
        mac_of_word,
        new_stations,
        see,
        station_at,
    )
    from penstock_net.vswitch.dataplane.vlan import carry, make_vlans
    from penstock_net.vswitch.memory.layout import ENDLESS, NO_HIGH, load64, word_at

MOST_NOT_READ = 100_000  # frames: as many as the ring of a TAP holds


def sizes():
    """Bytes of the structs that are handed over to another process, as the C compiler lays them out."""
    return sizes_of_structs()


def read_device(worker, own, now):
    """Move frames from the device to the switch; returns their number."""
    driver = driver_of(own)
    driver.next_due = ENDLESS
    done = take_in(worker, driver, now)
    if done:
        worker.busy_drivers += 1
    if now > driver.age_next:
        driver.age_next = now + 1000000
        forget_idle_tx_flows(worker, driver, now)
        if driver.learns:
            forget_idle(worker.stations, driver.port, now, AGED_AT_ONCE)
    return done


def write_device(worker, own, now):
    """Move frames from the switch to the device; returns the number of frames and doorbells."""
    driver = driver_of(own)
    if driver.direct < BYTES_AT_ONCE or driver.holds:
        flush_device(driver)
        driver.direct = BYTES_AT_ONCE
    done = poll_doorbells(driver)
    if driver.held_until:
        try_held(worker, driver, now)
    if driver.side.levels:
        done += put_out(worker, driver, now)
    if driver.overlay:
        overlay_turn(worker, driver, now)
    if driver.holds:
        driver.next_due = min(driver.next_due, now + 100 * NO_ROOM_NS)  # often enough for `is_down_shortly`
    worker.next_due = min(worker.next_due, driver.next_due)
    return done


def attach_device(switch, name, device, addresses, guarded=True):
    """Attach a device (penstock_net.vswitch.attach.devices) as a port of a switch; returns the port's number."""
    prepare_device(switch, name, device)
    return install_device(switch, name, device, addresses, guarded)


def prepare_device(switch, name, device, given=-1):
    """Make what a device needs to become a port of a switch, which takes time, so not in the worker's thread.

    given   the descriptor of the region that the device has had in another process; -1: it has none
    """
    if device.port.headers and not switch.takes_headers:
        raise SpecError(f"port {name!r}: a switch that runs a scheme takes frames as on a wire", remedy="super_frames = false")
    if device.broadcast and switch.count > 1:
        raise SpecError(f"port {name!r}: broadcast = true takes a switch with one worker", remedy="switch.workers = 1")
    region = Region.create(**device.shape) if given < 0 else Region.attach(given, device.shape, switch=False)
    driver = PortDriver(region, device.port, device.mac, device.window, device.secret, device.seed)
    driver.driver.lossless = device.lossless
    if device.vlans and switch.count > 1:
        raise SpecError(f"port {name!r}: a VLAN takes a switch with one worker", remedy="switch.workers = 1")
    if device.vlans:
        driver.set_vlans(device.vlans, device.untagged)
    if device.broadcast:
        driver.take_broadcasts(device.own_addresses)
    if device.stations and (switch.count > 1 or not switch.takes_ports):
        what, remedy = ("a scheme", "remove `learn`") if switch.count == 1 else ("several workers", "switch.workers = 1")
        raise SpecError(f"port {name!r}: learn = true is not possible in a switch with {what}", remedy=remedy)
    if device.stations:
        driver.learn_stations(device.stations, device.station_idle_ns)
    driver.theirs = Region.attach(region.fd, region.shape)
    device.driver = driver
    if device.table:
        driver.limit(device.table)


def install_device(switch, name, device, addresses, guarded=True, number=-1):
    """Attach a device that is prepared as a port of a switch; returns the port's number, the first free one if none is given."""
    driver = device.driver
    driver.must_have_stations(switch)
    number = switch.attach(name, driver.theirs, [*addresses, *driver.own], guarded=guarded, number=number)
    driver.theirs = None
    driver.install(switch, number)
    return number


class PortDriver:
    """A kernel port, and the application's side of the region between it and the switch.

    `mac` is the destination address of frames to the device; "learn": the Ethernet address last seen with the receiver's
    address.  A port with `window` leads to another switch; `secret` (16 bytes) authenticates datagrams, `seed` (16 bytes) is
    random.
    """

    def __init__(self, region, kernel, mac=None, window=0, secret=b"", seed=b""):
        self.region = region
        self.kernel = kernel
        self.own = []
        self.state, self.why, self.waker = "up", "", -1
        self.absent, self.queued_now = open_absent(kernel.headers), -1
        self.before, self.edge_seen, self.edge_before = collections.Counter(), {}, collections.Counter()
        self.driver = new_driver()
        driver = self.driver
        driver.queues = region.shape["queues"]
        set_side(driver, self.region)
        driver.kernel = pointer_to(self.kernel)
        driver.spare = -1
        driver.cutting = new_cutting()
        driver.side.txqs = new_txqs(driver.queues)
        driver.tx_flows = new_tx_flows(driver.queues)
        driver.rxqs = new_rxqs(driver.queues)
        driver.free_tx_flows = numbers(driver.queues)
        driver.free_count = driver.queues
        for i in range(driver.queues):
            driver.free_tx_flows[i] = driver.queues - 1 - i
        driver.returned = new_counters(driver.queues + 1)
        driver.kept = region.shape["buffers"] // 8
        make_names(incoming_of(driver), driver.queues)
        make_names(outgoing_of(driver), driver.queues)
        driver.rewrites = mac is not None
        self.set_mac(mac)
        if window:
            if secret and len(secret) != 16:
                raise SpecError(f"secret of {len(secret)} B: must be 16 B, that is 32 hexadecimal digits")
            driver.overlay = new_overlay()
            driver.only_queued = 1
            begin_session(driver, window, secret, seed)

    def __dealloc__(self):
        if self.driver:
            free_txqs(self.driver.side.txqs, self.driver.queues)
            free(self.driver.tx_flows)
            free(self.driver.rxqs)
            free(self.driver.free_tx_flows)
            free(self.driver.returned)
            free_names(incoming_of(self.driver))
            free_names(outgoing_of(self.driver))
            free(self.driver.flood_frame)
            free(self.driver.cutting)
            free(self.driver.vlans)
            free_overlay(self.driver.overlay)
            free(self.driver)

    def install(self, switch, number):
        """Start to drive port `number` of a switch, which has the other side of the region."""
        driver = self.driver
        self.home = port_at(worker_of(switch, 0), number).home
        self.waker = control_of(switch, self.home)
        self.watch(switch)
        switch.drivers[number] = self
        driver.port = number
        driver.side.number = MOST_PORTS + number
        driver.put = taken_from(port_at(worker_of(switch, self.home), number))
        driver.bell_rings = switch.count
        for k in range(switch.count):
            driver.bell_in[k] = k * driver.side.view.bells
            port_at(worker_of(switch, k), number).prefix = driver.kernel.header
            port_at(worker_of(switch, k), number).mean = 1500
            port_at(worker_of(switch, k), number).wakes = self.waker + 1
            set_returned(port_at(worker_of(switch, k), number), driver)
        worker = worker_of(switch, self.home)
        set_at(driver, port_at(worker, number))
        if driver.kernel.header:  # a turn is worth a super-frame
            port_at(worker, number).weight = 32
        worker.read_device = read_device
        worker.write_device = write_device
        worker.has_doorbell = has_doorbell
        worker.send_direct = send_direct
        self.begin_stations(worker)
        add_driver(worker, number, driver)
        inspect_drivers(worker)

    def remove(self, switch):
        """Stop driving the port. Frames in its region, in the ring of a TAP, and in the port itself are lost, and counted."""
        self.end_stations(worker_of(switch, self.home))
        remove_driver(worker_of(switch, self.home), self.driver.port)
        if self.edge is not None:
            self.edge.wake_worker_by(-1)
        inspect_drivers(worker_of(switch, self.home))
        self.swallow()
        self.count_read()
        if self.queued_now < 0:
            self.unwatch(switch)
        if not self.driver.overlay:
            give_up_waiting(self.kernel)

    def count_read(self):
        """Count the frames that the port has read, and nobody will forward; an overlay misses its datagrams by their numbers."""
        if not self.driver.overlay and not self.kernel.closed:
            self.before["lost"] += len(self.kernel.take_out()) + give_up_cut(self.driver)

    def watch(self, switch):
        """Have frames from the device wake its worker."""
        if self.kernel.fd >= 0:
            watch_kernel(epoll_of(switch, self.home), pointer_to(self.kernel))

    def unwatch(self, switch):
        if self.kernel.fd >= 0:
            epoll_of(switch, self.home).unregister(self.kernel.fd)

    def swallow(self):
        """Count the frames in the ring of a TAP, which nobody will read."""
        if self.kernel.kind == "tap" and not self.kernel.closed:
            count = self.kernel.swallow(MOST_NOT_READ)
            self.not_read, self.swallowed = self.not_read + count, self.swallowed + count

    def set_mac(self, mac):
        """The destination address of frames to the device, of 6 bytes."""
        if isinstance(mac, bytes):
            self.driver.mac = int.from_bytes(mac, "little")

    def set_carrier(self, is_there):
        """Whether the interface has a carrier; without one, frames are lost as if it were down."""
        pointer_to(self.kernel).no_carrier = not is_there

    # ---- Handing it over to another process ----

    @property
    def place(self):
        """Address of its state, a Driver."""
        return place_of(self.driver)

    @property
    def absent_place(self):
        """Address of the counters of what was sent while the interface was away."""
        return self.absent.place

    def counted(self):
        """What it has counted itself, for `set_counted`."""
        edge_before = collections.Counter(self.edge_before)
        if self.edge is not None and self.edge.error:
            edge_before.update(self.edge.losses())
        return {
            "queued": self.queued,
            "refused": self.refused,
            "queued_now": self.queued_now,
            "not_read": self.not_read,
            "swallowed": self.swallowed,
            "before": dict(self.before),
            "edge_seen": self.edge_seen,
            "edge_before": dict(edge_before),
        }

    def set_counted(self, found):
        self.queued, self.refused, self.queued_now = found["queued"], found["refused"], found["queued_now"]
        self.not_read, self.swallowed, self.edge_seen = found["not_read"], found["swallowed"], found["edge_seen"]
        self.before, self.edge_before = collections.Counter(found["before"]), collections.Counter(found["edge_before"])
        count_cut_before(self.driver, self.driver.kernel.frames_in + self.before["frames_in"] - self.swallowed)

    def find_names(self, switch):
        """Enter its flows into the maps of their queues, after its state was set."""
        driver, worker = self.driver, worker_of(switch, self.home)
        for i in range(driver.queues):
            if i < driver.queue_top and tx_flow_at(driver, i).used:
                add_name(worker, incoming_of(driver), i, key_of_tx_flow(tx_flow_at(driver, i)))
            if rxq_at(driver, i).named:
                copy_key(own_key(driver), name_at(outgoing_of(driver), i))
                add_name(worker, outgoing_of(driver), i, own_key(driver))

    # ---- An interface that goes, and one that comes ----

    def suspend(self, switch):
        """Read nothing from the device, and count what is sent to it instead of sending it, until `resume`."""
        if self.queued_now >= 0:
            return
        driver = self.driver
        flush_device(driver)
        self.count_read()
        self.forget_stations()
        self.unwatch(switch)
        sent = sum([frames_to(worker_of(switch, k), driver.port) for k in range(switch.count)])
        self.queued_now = sent - signed_of(load64(returned_at(driver, driver.queues)))
        driver.kernel = pointer_to(self.absent)
        driver.read_at, driver.busy_since, driver.try_at = ENDLESS, 0, 0

    def resume(self, switch, kernel, mac=None):
        """Drive a device again, perhaps by another kernel port; addresses that were learned before are forgotten."""
        if self.queued_now < 0:
            return
        driver = self.driver
        self.queued, self.refused = self.while_away()
        self.queued_now = -1
        if kernel is not self.kernel:
            self.before += collections.Counter(self.kernel.counters)
            self.kernel = kernel
        driver.learned_count = 0
        self.set_mac(mac)
        driver.kernel = pointer_to(self.kernel)
        driver.read_at = 0
        self.watch(switch)

    @property
    def is_away(self):
        """Whether the interface is, from `suspend` to `resume`."""
        return self.queued_now >= 0

    def while_away(self):
        """Frames lost with the device, as they were queued for it, and frames refused since it was away."""
        lost = self.absent.counters["lost"] - self.queued - self.refused
        queued = min(lost, max(0, self.queued_now))
        return self.queued + queued, self.refused + lost - queued

    def edge_row(self, edge):
        """Counters of the edge; those that can be read, when its interface has gone."""
        with contextlib.suppress(OSError, PenstockError):
            self.edge_seen = edge.counters()
        sums = {key: number + self.edge_before[key] for key, number in edge.losses().items()}
        return {**self.edge_seen, **sums, "failed": int(edge.error is not None)}

    def end_edge(self):
        """Forget the edge, but for the losses that it has counted."""
        edge, self.edge = self.edge, None
        self.edge_before.update(edge.losses())

    def take_broadcasts(self, own):
        """Forward broadcasts and multicasts; `own` are the device's own addresses, in addition to those of its port."""
        self.driver.flood_frame = new_frame()
        self.driver.broadcasts = 1
        self.own = own

    def set_vlans(self, vlans, untagged):
        """Carry these VLANs, of which one may be without tags outside (0: none)."""
        make_vlans(self.driver)
        for vlan in vlans:
            carry(self.driver, vlan)
        self.driver.untagged = untagged
        self.driver.is_access = list(vlans) == [untagged]
        self.driver.only_queued = 1

    # ---- Stations ----

    def learn_stations(self, most, idle_ns):
        """Learn the Ethernet addresses that frames come from, at most so many; those of quiet stations are forgotten."""
        self.most_stations, self.station_idle_ns = most, idle_ns
        self.driver.learns = 1
        self.driver.only_queued = 1
        self.driver.rewrites = 0

    def must_have_stations(self, switch):
        """SpecError unless the switch has room for the stations of this port."""
        stations = worker_of(switch, 0).stations
        left = MOST_STATIONS - (stations.promised if stations else 0)
        if self.most_stations > left:
            rule = f"stations = {self.most_stations}: the switch has room for {left} more of {MOST_STATIONS}"
            raise SpecError(rule, remedy="fewer at this port, or at others")

    def begin_stations(self, worker):
        """Keep room for stations."""
        if not self.most_stations:
            return 0
        if not worker.stations:
            worker.stations = new_stations()
            worker.stations.seed = worker.seed
        stations, own = worker.stations, list_of(worker.stations, self.driver.port)
        stations.learning += 1
        stations.promised += self.most_stations
        own.most, own.idle_ns = self.most_stations, self.station_idle_ns
        self.driver.at.learns = 1
        self.stations = stations
        return 0

    def end_stations(self, worker):
        """Forget all, and need no room any longer."""
        if not self.stations:
            return 0
        forget_all(self.stations, self.driver.port)
        self.stations.learning -= 1
        self.stations.promised -= self.most_stations
        list_of(self.stations, self.driver.port).most = 0
        self.stations = no_stations()
        if not worker.stations.learning:
            free(worker.stations)
            worker.stations = no_stations()
        return 0

    def forget_stations(self):
        """Forget the stations of the port; in the worker's thread."""
        if self.stations:
            forget_all(self.stations, self.driver.port)

    def station_rows(self, now):
        """VLAN, Ethernet address and age (ns) of each station that is known at a time, the one seen last first."""
        found = []
        if self.stations:
            forget_idle(self.stations, self.driver.port, now, MOST_STATIONS)
            number = list_of(self.stations, self.driver.port).newest
            while number:
                station = station_at(self.stations, number - 1)
                mac = address_text(NO_HIGH, mac_of_word(station.word))
                found.append({"vlan": station.word >> 48, "address": mac, "age_ns": now - station.seen_at})
                number = station.older
        return found

    def station_words(self):
        """The words and times of its stations, the one that has been quiet for longest first, for `take_stations`."""
        found = []
        number = list_of(self.stations, self.driver.port).oldest if self.stations else 0
        while number:
            station = station_at(self.stations, number - 1)
            found.append((station.word, station.seen_at))
            number = station.newer
        return found

    def take_stations(self, found):
        """Have the stations that this port had in another process."""
        for word, seen_at in found:
            see(self.stations, self.driver.port, word, seen_at)

    def limit(self, table):
        """Respect the limit of each UDP port in a table (penstock_net.vswitch.attach.allowance), and raise its alarm."""
        self.table = table
        self.driver.table = table_at(table.address)
        self.driver.alarm, self.driver.limited = table.alarm, 1

    def behind(self):
        """Backlog in front of the switch, in bytes by the words of a flow's key; flows without backlog are left out."""
        found = {}
        for i in range(self.driver.queue_top):
            tx_flow = tx_flow_at(self.driver, i)
            if tx_flow.used:
                waiting = tx_flow.sent - signed_of(load64(word_at(self.driver.side.view.consumed[0], i)))
                if waiting > 0:
                    found[tuple([tx_flow.key.words[k] for k in range(5)])] = waiting
        return found

    def held(self):
        """Transmit buffers and queues in use: summed up over the queues, and as the driver counts them."""
        driver = self.driver
        each = [held_in(tx_flow_at(driver, i), txq_at(driver.at, i)) for i in range(driver.queues)]
        used = [i for i in range(driver.queues) if tx_flow_at(driver, i).used]
        return {
            "frames": sum(each),
            "most": max(each),
            "counted": driver.put - taken_from(driver.at),
            "queues": len(used),
            "queues_counted": driver.queues - driver.free_count,
            "by_queue": {i: each[i] for i in used},
        }

    @property
    def present_state(self):
        """What is wrong with the device, which for a virtual machine may be that there is none, or "up"."""
        if self.state == "up" and self.kernel.kind == "vhost-user" and not self.kernel.report()["rings_to_guest"]:
            return "no guest"
        return self.state

    @property
    def due(self):
        """Latest time of the next work here, in ns of the worker's clock, as of its last turn; events may wake it earlier."""
        return self.driver.next_due

    def counters(self):
        """Counters of the kernel port, with those of its predecessors."""
        found = {key: value + self.before[key] for key, value in self.kernel.counters.items()}
        return {**found, "frames_in": found["frames_in"] - self.swallowed}

    def row(self):
        """Counters of the device, the driver, and the overlay."""
        driver = self.driver
        queued, refused = self.while_away()
        row = {
            "kind": self.kernel.kind,
            **self.counters(),
            "why": self.why,
            **waiting_frames(self.kernel),
            "taken_in": driver.put,
            "taken_out": signed_of(load64(returned_at(driver, driver.queues))),
            "of_the_link": driver.of_the_link,
            "queued_when_gone": queued,
            "device_gone": refused,
            "malformed": driver.malformed,
            "answered": driver.answered,
            "multicast": driver.multicast,
            **cut_row(driver, made_by_cutting(self.kernel)),
            "not_carried": driver.not_carried,
            "wrong_vlan": driver.wrong_vlan_in,
            "wrong_vlan_out": driver.wrong_vlan_out,
            "stations": list_of(self.stations, driver.port).count if self.stations else 0,
            "stations_learned": driver.stations_learned,
            "stations_moved": driver.stations_moved,
            "stations_beyond": driver.stations_beyond,
            "station_spoofed": driver.station_spoofed,
            "same_port": driver.same_port,
            "to_unknown": driver.to_unknown,
            "flooded": driver.flooded,
            "flood_limited": driver.flood_limited,
            "flood_spoofed": driver.flood_spoofed,
            "flood_lost": driver.flood_lost,
            "waits_for_buffer": driver.waits_for_buffer,
            "shared_queues": driver.shared_queues,
            "full_sockets": driver.full_sockets,
            "queues": driver.queues,
            "queues_used": driver.queues - driver.free_count,
            "buffers": driver.side.view.buffers,
            "buffers_used": driver.put - taken_from(driver.at) if driver.at else 0,
            "sent_direct": driver.sent_direct,
            "evictions": driver.evictions,
            "evicted_out": driver.evicted_out,
            "not_read": self.not_read,
        }
        if self.kernel.report is not None:
            row["front_end"] = self.kernel.report()
        if self.present_state == "no guest":
            row["why"] = row["front_end"]["why"] or "its guest has no rings yet"
        edge = self.edge  # which another thread may end
        if edge is not None:
            row["edge"] = self.edge_row(edge)
        if driver.overlay:
            row["overlay"] = overlay_row(driver)
        return row
