"""A port of the kernel as a port of the switch: the worker itself acts as the application on the other side of the region.

Frames from the device go into a transmit queue per flow; frames in the receive queues go to the device, round robin.  The
device is read while there are buffers; otherwise frames wait in the kernel, which counts those that it drops.  Requests for the
Ethernet address of an address of the switch are answered here (ARP, and neighbour discovery of IPv6); other broadcasts are
counted and dropped.
"""

import select

import cython

if not cython.compiled:
    from penstock.vswitch.dataplane.driver import (
        BYTES_AT_ONCE,
        FRAMES_AT_ONCE,
        HELD_NS,
        NO_ROOM_NS,
        UNREAD_NS,
        add_driver,
        control_of,
        epoll_of,
        load_signed,
        new_driver,
        new_rxqs,
        new_tx_flows,
        numbers_at,
        pointer_to,
        remove_driver,
        set_side,
        swapped,
        worker_of,
    )
    from penstock.vswitch.dataplane.driver_state import (
        allowed_at,
        clear_rxq,
        clear_tx_flow,
        driver_of,
        end_of_tx_flow,
        incoming_of,
        key_of_tx_flow,
        outgoing_of,
        own_key,
        own_view,
        put_mac,
        ring_of,
        rxq_at,
        side_of,
        spent_at,
        tx_flow_at,
    )
    from penstock.vswitch.dataplane.flowmap import add_name, copy_key, find_name, free_names, make_names, name_at, remove_name
    from penstock.vswitch.dataplane.flowtable import hash_of, owner_of
    from penstock.vswitch.dataplane.neighbours import (
        SOLICITATION_BYTES,
        answer_address_request,
        answer_solicitation,
        learn,
        mac_for,
    )
    from penstock.vswitch.dataplane.overlay import (
        LEASE_NS,
        begin_session,
        free_overlay,
        new_overlay,
        overlay_may_send,
        overlay_receive,
        overlay_row,
        overlay_send,
        overlay_turn,
        send_pause,
        taken_from,
    )
    from penstock.vswitch.dataplane.parse import parse
    from penstock.vswitch.dataplane.receiver import LEAST_NS, MOST_NS
    from penstock.vswitch.dataplane.schedule import activate, pause_txq, take_head
    from penstock.vswitch.dataplane.state import (
        ACTIVE,
        BACKDRAFT,
        IDLE,
        MOST_PORTS,
        bell_out_of,
        byte_at,
        free,
        new_txqs,
        numbers,
        port_at,
        short_at,
        signed_of,
        txq_at,
        whole,
    )
    from penstock.vswitch.dataplane.steps import next_word
    from penstock.vswitch.memory.layout import (
        CLOSED,
        ENDLESS,
        bell_of,
        buffer_of,
        bytes_at,
        descriptor,
        ethernet,
        length_of,
        load64,
        queue_of,
        store64,
        word_at,
    )
    from penstock.vswitch.memory.rings import (
        answer_bell,
        close_queue,
        give_buffer,
        is_drained,
        is_open,
        open_queue,
        push,
        ring_bell,
        take_buffer,
    )
    from penstock.vswitch.ports.base import port_flush, port_receive, port_send


from penstock.errors import SpecError
from penstock.vswitch.memory.region import Region


def drive(worker, own, now):
    """Move frames from the device to the switch and back; how many of both."""
    driver = driver_of(own)
    driver.next_due = ENDLESS
    done = poll_doorbells(driver)
    if driver.side.levels:
        done += put_out(worker, driver, now)
    done += take_in(worker, driver, now)
    if driver.overlay:
        overlay_turn(driver, now)
    worker.next_due = min(worker.next_due, driver.next_due)
    if now > driver.age_next:
        driver.age_next = now + 1000000
        forget_idle_tx_flows(worker, driver, now)
    return done


# ---- From the device to the switch ----


def take_in(worker, driver, now):
    view = own_view(driver)
    if driver.stalled:
        if not put_in(worker, driver, driver.stalled_queue, driver.stalled):
            return 0
        driver.stalled = 0
    if now < driver.read_at:
        return 0
    if worker.doorbells and not bells_have_room(view, driver.side.bell_out):
        return 0
    came = 0
    for i in range(FRAMES_AT_ONCE):
        if came > BYTES_AT_ONCE:
            return i
        if driver.spare < 0:
            driver.spare = take_buffer(view, 0)
            if driver.spare < 0:
                driver.waits_for_buffer += 1
                driver.read_at = now + NO_ROOM_NS
                driver.next_due = min(driver.next_due, driver.read_at)
                return i
        frame = bytes_at(view.buffer[0], driver.spare * view.buffer_bytes)
        if driver.overlay:
            length = overlay_receive(worker, driver, frame, view.buffer_bytes, now)
        else:
            length = port_receive(driver.kernel, frame, view.buffer_bytes)
        if length == 0:
            if i == 0:
                driver.read_at = now + UNREAD_NS
                if driver.kernel.fd < 0:  # nothing will wake us
                    driver.next_due = min(driver.next_due, now + NO_ROOM_NS)
            return i
        if length > 0:
            came += length
            admit(worker, driver, frame, length, now)
            if driver.stalled:
                return i + 1
    return FRAMES_AT_ONCE


def admit(worker, driver, frame, length, now):
    """Classify the frame in the spare buffer and put it into the transmit queue of its flow, or handle it here."""
    frame += driver.kernel.header
    size = length - driver.kernel.header
    key = own_key(driver)
    if size < 14:
        driver.malformed += 1
        return
    kind = short_at(frame, 12)
    if not driver.overlay and kind == 0x0806:
        answer_address_request(worker, driver, frame, size)
        return
    if not driver.overlay and byte_at(frame, 0) & 1:
        if kind == 0x86DD and size >= SOLICITATION_BYTES and byte_at(frame, 20) == 58 and byte_at(frame, 54) == 135:
            answer_solicitation(worker, driver, frame, size)
        else:
            driver.multicast += 1
        return
    if not parse(frame, size, 0, key):
        driver.malformed += 1
        return
    if driver.rewrites and driver.mac == 0 and owner_of(worker, key.words[0], key.words[1]) == driver.port:
        learn(driver, key.words[0], key.words[1], ethernet(frame + 6))
    number = tx_flow_for(worker, driver, key)
    tx_flow = tx_flow_at(driver, number)
    tx_flow.used_at = now
    word = descriptor(driver.spare, length)
    driver.spare = -1
    if not put_in(worker, driver, number, word):
        driver.stalled = word
        driver.stalled_queue = number
    elif driver.overlay and worker.mode == BACKDRAFT:
        send_pause(worker, driver, number, length, now)


def tx_flow_for(worker, driver, key):
    """The transmit queue of a flow; flows share queues when none is free."""
    number = find_name(worker, incoming_of(driver), key)
    if number >= 0:
        return number
    if driver.free_count == 0:
        driver.shared_queues += 1
        return hash_of(worker, key) % driver.queues
    driver.free_count -= 1
    number = driver.free_tx_flows[driver.free_count]
    tx_flow = tx_flow_at(driver, number)
    clear_tx_flow(tx_flow)
    tx_flow.used = 1
    tx_flow.sent = signed_of(load64(word_at(driver.side.view.consumed[0], number)))
    copy_key(key_of_tx_flow(tx_flow), key)
    add_name(worker, incoming_of(driver), number, key)
    return number


def bells_have_room(view, at):
    return load64(word_at(view.bell[0], (at + 2 * FRAMES_AT_ONCE) & (view.bells - 1))) == 0


def put_in(worker, driver, number, word):
    """Append a frame to a transmit queue; False: the region has no free ring."""
    view = own_view(driver)
    tx_flow = tx_flow_at(driver, number)
    if not tx_flow.open:
        if not open_queue(view, end_of_tx_flow(tx_flow), 0, number):
            return False
        tx_flow.open = 1
    if not push(view, end_of_tx_flow(tx_flow), word):
        return False
    tx_flow.sent += length_of(word)
    driver.put += 1
    if worker.doorbells:
        ring_bell(view, bell_out_of(side_of(driver)), 0, bell_of(number, 1, 0, 0))
    return True


def forget_idle_tx_flows(worker, driver, now):
    """Free the queues of idle flows, among the next 64."""
    view = own_view(driver)
    for _ in range(min(64, driver.queues)):
        driver.age_at = driver.age_at + 1 if driver.age_at + 1 < driver.queues else 0
        tx_flow = tx_flow_at(driver, driver.age_at)
        if (
            not tx_flow.used
            or now - tx_flow.used_at < worker.idle_ns
            or (driver.stalled and driver.stalled_queue == driver.age_at)
        ):
            continue
        if signed_of(load64(word_at(view.consumed[0], driver.age_at))) != tx_flow.sent or not bells_have_room(
            view, driver.side.bell_out
        ):
            continue
        if tx_flow.open:
            if not is_drained(view, end_of_tx_flow(tx_flow)) or not close_queue(view, end_of_tx_flow(tx_flow), 0, driver.age_at):
                continue
            if worker.doorbells:
                ring_bell(view, bell_out_of(side_of(driver)), 0, bell_of(driver.age_at, 1, 0, 0))
        remove_name(worker, incoming_of(driver), driver.age_at)
        tx_flow.used = 0
        tx_flow.open = 0
        driver.free_tx_flows[driver.free_count] = driver.age_at
        driver.free_count += 1


def poll_doorbells(driver):
    """Read the doorbells that the workers have rung; how many."""
    side = side_of(driver)
    heard = 0
    for k in range(driver.bell_rings):
        for _ in range(2 * FRAMES_AT_ONCE):
            bell = answer_bell(own_view(driver), ring_of(driver, k), 1)
            if bell == 0:
                break
            heard += 1
            if txq_at(side, queue_of(bell)).state == IDLE:
                activate(side, queue_of(bell))
    return heard


def has_doorbell(worker, own, now):
    """Whether a worker has rung since it could have seen that this one sleeps."""
    driver = driver_of(own)
    for k in range(driver.bell_rings):
        if load64(word_at(driver.side.view.bell[1], driver.bell_in[k])):
            return 1
    return 0


def put_out(worker, driver, now):
    """Send one frame of each receive queue in turn while the device has room; how many."""
    if now < driver.try_at:
        driver.next_due = min(driver.next_due, driver.try_at)
        return 0
    side = side_of(driver)
    done = 0
    while done < FRAMES_AT_ONCE and side.levels:
        if driver.overlay and not overlay_may_send(driver.overlay):
            break
        number = side.head[0]
        txq = txq_at(side, number)
        if txq.until > now:
            take_head(side, 0)
            pause_txq(worker, side, number, txq.until)
            continue
        word = txq.held
        if word == 0:
            word = next_word(own_view(driver), txq, 1, number)
        if word == 0 or word == CLOSED:
            take_head(side, 0)
            if word:
                txq.known = 0
                if rxq_at(driver, number).named:
                    remove_name(worker, outgoing_of(driver), number)
                clear_rxq(rxq_at(driver, number))
                if is_open(own_view(driver), 1, number):
                    activate(side, number)
            continue
        txq.held = word
        if not send_out(worker, driver, txq, number, word, now):
            break
        done += 1
        if txq.state == ACTIVE and side.levels:
            take_head(side, 0)
            activate(side, number)
    port_flush(driver.kernel)
    return done


def send_out(worker, driver, txq, number, word, now):
    """A frame to the device; False: it, or the socket behind it, has no room now."""
    view = own_view(driver)
    header = driver.kernel.header
    whole_frame = bytes_at(view.buffer[1], buffer_of(word) * view.buffer_bytes)
    frame = whole_frame + header
    length = length_of(word)
    rxq = rxq_at(driver, number)
    if not rxq.named:
        key = own_key(driver)
        if parse(frame, length - header, 0, key) and find_name(worker, outgoing_of(driver), key) < 0:
            add_name(worker, outgoing_of(driver), number, key)
            rxq.named = 1
    if driver.limited and rxq.named and not fits(driver, number, length):
        driver.full_sockets += 1
        txq.until = now + HELD_NS
        return True
    if driver.overlay and rxq.next_at > now + LEAST_NS and now - rxq.at < LEASE_NS:
        txq.until = min(rxq.next_at, now + MOST_NS)  # then the pause is checked again
        return True
    if driver.rewrites:
        put_mac(frame, mac_for(driver, name_at(outgoing_of(driver), number)))
    if driver.overlay:
        taken = overlay_send(driver, whole_frame, length, now)
    else:
        taken = 1 if port_send(driver.kernel, whole_frame, length) else 0
    if taken <= 0:
        if taken == 0:  # the device has no room; else the peer of an overlay does not permit more
            driver.try_at = now + NO_ROOM_NS
            driver.next_due = min(driver.next_due, driver.try_at)
        return False
    if rxq.rate >= 1:
        rxq.next_at = max(rxq.next_at, now - LEAST_NS) + whole(1e9 * length / rxq.rate)
    txq.held = 0
    give_buffer(view, 1, buffer_of(word))
    store64(word_at(view.consumed[1], number), load64(word_at(view.consumed[1], number)) + length)
    store64(view.total[1], load64(view.total[1]) + length)
    return True


def fits(driver, number, length):
    """Whether a frame fits into the UDP socket that it is for, whose allowance is then charged."""
    words = name_at(outgoing_of(driver), number).words
    if words[4] >> 16 & 0xFF != 17:
        return True
    port = swapped(words[4] >> 48)
    cost = 2 * length + 1024
    if spent_at(driver, port)[0] + cost > load_signed(allowed_at(driver, port)):
        return False
    spent_at(driver, port)[0] += cost
    return True


# ---- For Python ----


def attach_device(switch, name, device, addresses, guarded=True):
    """A device (penstock.vswitch.attach.devices) as a port of a switch; returns its number."""
    if device.port.headers and not switch.takes_headers:
        raise SpecError(f"port {name!r}: a switch that runs a scheme takes frames as on a wire", remedy="super_frames = false")
    region = Region.create(**device.shape)
    driver = PortDriver(region, device.port, device.mac, device.window, device.secret, device.seed)
    number = switch.attach(name, Region.attach(region.fd, region.shape), addresses, guarded=guarded)
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
        self.driver = new_driver()
        driver = self.driver
        driver.queues = region.shape["queues"]
        set_side(driver, self.region)
        driver.kernel = pointer_to(self.kernel)
        driver.spare = -1
        driver.side.txqs = new_txqs(driver.queues)
        driver.tx_flows = new_tx_flows(driver.queues)
        driver.rxqs = new_rxqs(driver.queues)
        driver.free_tx_flows = numbers(driver.queues)
        driver.free_count = driver.queues
        for i in range(driver.queues):
            driver.free_tx_flows[i] = driver.queues - 1 - i
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
            free_names(incoming_of(self.driver))
            free_names(outgoing_of(self.driver))
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
        worker = worker_of(switch, self.home)
        if driver.kernel.header:  # a turn is worth a super-frame
            for i in range(driver.queues):
                txq_at(port_at(worker, number), i).weight = 32
        worker.drive = drive
        worker.has_doorbell = has_doorbell
        add_driver(worker, number, driver)

    def remove(self, switch):
        """Stop driving; frames that are in the region are lost with it."""
        remove_driver(worker_of(switch, self.home), self.driver.port)
        if self.kernel.fd >= 0:
            epoll_of(switch, self.home).unregister(self.kernel.fd)

    def limit(self, table):
        """Keep to what a table (penstock.vswitch.attach.allowance) allows for each UDP port."""
        self.table = table
        self.driver.spent = numbers_at(table.spent.ctypes.data)
        self.driver.allowed = numbers_at(table.allowed.ctypes.data)
        self.driver.limited = 1

    def behind(self):
        """Bytes that wait to get into the switch, by the words of a flow's key."""
        found = {}
        for i in range(self.driver.queues):
            tx_flow = tx_flow_at(self.driver, i)
            if tx_flow.used:
                waiting = tx_flow.sent - signed_of(load64(word_at(self.driver.side.view.consumed[0], i)))
                found[tuple([tx_flow.key.words[k] for k in range(5)])] = waiting
        return found

    def row(self):
        """Counters of the device, the driver, and the overlay."""
        driver = self.driver
        row = {
            "kind": self.kernel.kind,
            **self.kernel.counters,
            "malformed": driver.malformed,
            "answered": driver.answered,
            "multicast": driver.multicast,
            "waits_for_buffer": driver.waits_for_buffer,
            "shared_queues": driver.shared_queues,
            "full_sockets": driver.full_sockets,
        }
        if self.edge is not None:
            row["edge"] = {**self.edge.counters(), "failed": int(self.edge.error is not None)}
        if driver.overlay:
            row["overlay"] = overlay_row(driver)
        return row
