"""A port of the kernel as a port of the switch: the worker itself acts as the application on the other side of the region.

ingress.py moves frames from the device into the switch, egress.py from the switch to the device.  Requests for the Ethernet
address of an address of the switch are answered (neighbours.py); other broadcasts pass where both ports take part (broadcast.py).
"""

import select

import cython

if not cython.compiled:
    from penstock.vswitch.dataplane.broadcast import new_frame
    from penstock.vswitch.dataplane.cutting import new_cutting
    from penstock.vswitch.dataplane.direct import send_direct
    from penstock.vswitch.dataplane.driver import (
        add_driver,
        control_of,
        epoll_of,
        new_counters,
        new_driver,
        new_rxqs,
        new_tx_flows,
        pointer_to,
        remove_driver,
        set_at,
        set_returned,
        set_side,
        worker_of,
    )
    from penstock.vswitch.dataplane.driver_state import driver_of, held_in, incoming_of, outgoing_of, tx_flow_at
    from penstock.vswitch.dataplane.egress import BYTES_AT_ONCE, hand_over, has_doorbell, poll_doorbells, put_out
    from penstock.vswitch.dataplane.flowmap import free_names, make_names
    from penstock.vswitch.dataplane.ingress import forget_idle_tx_flows, take_in
    from penstock.vswitch.dataplane.overlay import (
        begin_session,
        free_overlay,
        new_overlay,
        overlay_row,
        overlay_turn,
        taken_from,
    )
    from penstock.vswitch.dataplane.socket_room import table_at
    from penstock.vswitch.dataplane.state import (
        MOST_PORTS,
        free,
        new_txqs,
        numbers,
        port_at,
        signed_of,
        txq_at,
    )
    from penstock.vswitch.memory.layout import ENDLESS, load64, word_at


from penstock.errors import SpecError
from penstock.vswitch.memory.region import Region

MOST_NOT_READ = 100_000  # frames: as many as the ring of a TAP holds


def read_device(worker, own, now):
    """Move frames from the device to the switch; how many."""
    driver = driver_of(own)
    driver.next_due = ENDLESS
    done = take_in(worker, driver, now)
    if done:
        worker.busy_drivers += 1
    if now > driver.age_next:
        driver.age_next = now + 1000000
        forget_idle_tx_flows(worker, driver, now)
    return done


def write_device(worker, own, now):
    """Move frames from the switch to the device; how many, and how many doorbells there were."""
    driver = driver_of(own)
    if driver.direct < BYTES_AT_ONCE:
        hand_over(driver)
        driver.direct = BYTES_AT_ONCE
    done = poll_doorbells(driver)
    if driver.side.levels:
        done += put_out(worker, driver, now)
    if driver.overlay:
        overlay_turn(driver, now)
    worker.next_due = min(worker.next_due, driver.next_due)
    return done


def attach_device(switch, name, device, addresses, guarded=True):
    """A device (penstock.vswitch.attach.devices) as a port of a switch; returns its number."""
    if device.port.headers and not switch.takes_headers:
        raise SpecError(f"port {name!r}: a switch that runs a scheme takes frames as on a wire", remedy="super_frames = false")
    if device.broadcast and switch.count > 1:
        raise SpecError(f"port {name!r}: broadcast = true takes a switch with one worker", remedy="switch.workers = 1")
    region = Region.create(**device.shape)
    driver = PortDriver(region, device.port, device.mac, device.window, device.secret, device.seed)
    driver.driver.lossless = device.lossless
    if device.broadcast:
        driver.take_broadcasts(device.own_addresses)
    number = switch.attach(name, Region.attach(region.fd, region.shape), [*addresses, *driver.own], guarded=guarded)
    driver.install(switch, number)
    device.driver = driver
    if device.table:
        driver.limit(device.table)
    return number


class PortDriver:
    """A kernel's port and the application's side of the region that it fills and empties.

    `mac` is put into what goes to the device; "learn" puts there what the receiver's address was last seen with.  A port with
    `window` leads to another switch, `secret` (16 bytes) authenticates datagrams, `seed` (16 bytes) is random.
    """

    def __init__(self, region, kernel, mac=None, window=0, secret=b"", seed=b""):
        self.region = region
        self.kernel = kernel
        self.own = []
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
        if isinstance(mac, bytes):
            driver.mac = int.from_bytes(mac, "little")
        if window:
            if secret and len(secret) != 16:
                raise SpecError(f"secret of {len(secret)} B: must be 16 B, that is 32 hexadecimal digits")
            driver.overlay = new_overlay()
            begin_session(driver, window, secret, seed)

    def __dealloc__(self):
        if self.driver:
            free(self.driver.side.txqs)
            free(self.driver.tx_flows)
            free(self.driver.rxqs)
            free(self.driver.free_tx_flows)
            free(self.driver.returned)
            free_names(incoming_of(self.driver))
            free_names(outgoing_of(self.driver))
            free(self.driver.flood_frame)
            free(self.driver.cutting)
            free_overlay(self.driver.overlay)
            free(self.driver)

    def install(self, switch, number):
        """Begin to drive port `number` of a switch, which has the other side of the region."""
        driver = self.driver
        self.home = port_at(worker_of(switch, 0), number).home
        if self.kernel.fd >= 0:
            epoll_of(switch, self.home).register(self.kernel.fd, select.EPOLLIN | select.EPOLLET)
        switch.drivers[number] = self
        driver.port = number
        driver.side.number = MOST_PORTS + number
        driver.put = taken_from(port_at(worker_of(switch, self.home), number))
        driver.bell_rings = switch.count
        for k in range(switch.count):
            driver.bell_in[k] = k * driver.side.view.bells
            port_at(worker_of(switch, k), number).prefix = driver.kernel.header
            port_at(worker_of(switch, k), number).mean = 1500
            port_at(worker_of(switch, k), number).wakes = control_of(switch, self.home) + 1
            set_returned(port_at(worker_of(switch, k), number), driver)
        worker = worker_of(switch, self.home)
        set_at(driver, port_at(worker, number))
        if driver.kernel.header:  # a turn is worth a super-frame
            for i in range(driver.queues):
                txq_at(port_at(worker, number), i).weight = 32
        worker.read_device = read_device
        worker.write_device = write_device
        worker.has_doorbell = has_doorbell
        worker.send_direct = send_direct
        add_driver(worker, number, driver)

    def remove(self, switch):
        """Stop driving; frames that are in the region are lost with it, and those in the ring of a TAP, which are counted."""
        remove_driver(worker_of(switch, self.home), self.driver.port)
        if self.kernel.kind == "tap" and not self.kernel.closed:
            self.not_read += self.kernel.swallow(MOST_NOT_READ)
        if self.kernel.fd >= 0:
            epoll_of(switch, self.home).unregister(self.kernel.fd)

    def take_broadcasts(self, own):
        """Let broadcasts and multicasts pass; `own` are the addresses of the device itself, beside those of its port."""
        self.driver.flood_frame = new_frame()
        self.driver.broadcasts = 1
        self.own = own

    def limit(self, table):
        """Keep to what a table (penstock.vswitch.attach.allowance) allows for each UDP port, and raise its alarm."""
        self.table = table
        self.driver.table = table_at(table.address)
        self.driver.alarm = table.alarm
        self.driver.limited = 1

    def behind(self):
        """Bytes that wait to get into the switch, by the words of a flow's key, of flows that have some."""
        found = {}
        for i in range(self.driver.queue_top):
            tx_flow = tx_flow_at(self.driver, i)
            if tx_flow.used:
                waiting = tx_flow.sent - signed_of(load64(word_at(self.driver.side.view.consumed[0], i)))
                if waiting > 0:
                    found[tuple([tx_flow.key.words[k] for k in range(5)])] = waiting
        return found

    def held(self):
        """What is taken of the port's transmit buffers and queues: summed up by queue, and as the driver counts it."""
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
    def due(self):
        """When the worker has something to do here at the latest, as of its last turn, in its ns; until then events wake it."""
        return self.driver.next_due

    def row(self):
        """Counters of the device, the driver, and the overlay."""
        driver = self.driver
        row = {
            "kind": self.kernel.kind,
            **self.kernel.counters,
            "malformed": driver.malformed,
            "answered": driver.answered,
            "multicast": driver.multicast,
            "cut_frames": driver.cut_frames,
            "not_carried": driver.not_carried,
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
        if self.edge is not None:
            row["edge"] = {**self.edge.counters(), "failed": int(self.edge.error is not None)}
        if driver.overlay:
            row["overlay"] = overlay_row(driver)
        return row
