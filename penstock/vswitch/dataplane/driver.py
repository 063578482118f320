"""A port of the kernel as a port of the switch: the worker itself is the application at the other end of the region.

What comes from the device goes into a transmit queue per flow; what the switch delivers goes from its receive queues to the
device, in turns.  The device is read as long as there are buffers: what it has no room for waits in the kernel, where it is
counted when it is lost.  Who asks for the Ethernet address of an address that the switch knows is answered here (ARP, and
neighbour discovery of IPv6); other broadcasts are counted and not carried.
"""

import select

import cython

if not cython.compiled:
    from penstock.vswitch.dataplane.driver import (
        ADVERTISEMENT_BYTES,
        ARP_BYTES,
        BYTES_AT_ONCE,
        FRAMES_AT_ONCE,
        HELD_NS,
        NO_ROOM_NS,
        SOLICITATION_BYTES,
        UNREAD_NS,
        add_driver,
        control_of,
        epoll_of,
        load_signed,
        new_driver,
        new_lanes,
        new_overlay,
        new_told,
        numbers_at,
        pointer_to,
        remove_driver,
        set_side,
        swapped,
        worker_of,
    )
    from penstock.vswitch.dataplane.driver_state import (
        LEARNED,
        OVERLAY_TYPE,
        allowed_at,
        clear_bytes,
        clear_lane,
        clear_told,
        driver_of,
        end_of_lane,
        incoming_of,
        internet_sum,
        key_of_lane,
        lane_at,
        learned_at,
        outgoing_of,
        own_key,
        own_view,
        put_mac,
        put_short,
        ring_of,
        side_of,
        spent_at,
        told_at,
    )
    from penstock.vswitch.dataplane.flowmap import add_name, copy_key, find_name, free_names, make_names, name_at, remove_name
    from penstock.vswitch.dataplane.flowtable import hash_of, owner_of
    from penstock.vswitch.dataplane.forward import LEAST_NS, MOST_NS
    from penstock.vswitch.dataplane.overlay import (
        FIRST_LIMIT,
        LEASE_NS,
        listen,
        may_send,
        note_received,
        note_sent,
        overlay_turn,
        taken_from,
        tell,
    )
    from penstock.vswitch.dataplane.parse import parse
    from penstock.vswitch.dataplane.schedule import activate, pause_input, take_head
    from penstock.vswitch.dataplane.state import (
        ACTIVE,
        BACKDRAFT,
        IDLE,
        MOST_PORTS,
        bell_out_of,
        byte_at,
        free,
        input_at,
        new_inputs,
        numbers,
        port_at,
        short_at,
        signed_of,
        whole,
    )
    from penstock.vswitch.dataplane.worker import next_word
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
        mapped,
        memcpy,
        queue_of,
        store64,
        word_at,
        word_from,
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

if not cython.compiled:
    raise ImportError("penstock.vswitch.dataplane.driver works compiled only: run python setup.py build_ext --inplace")


def drive(w, own, now):
    """Take frames in and put frames out; how many of both."""
    d = driver_of(own)
    d.soon = ENDLESS
    if d.overlay:
        overlay_turn(d, now)
        d.soon = d.overlay.due
    done = hear(d)
    if d.side.levels:
        done += put_out(w, d, now)
    done += take_in(w, d, now)
    w.soon = min(w.soon, d.soon)
    if now > d.age_next:
        d.age_next = now + 1000000
        forget_idle_lanes(w, d, now)
    return done


# ---- From the device to the switch ----


def take_in(w, d, now):
    view = own_view(d)
    if d.stalled:
        if not put_in(w, d, d.stalled_lane, d.stalled):
            return 0
        d.stalled = 0
    if now < d.read_at:
        return 0
    if w.doorbells and not bells_have_room(view, d.side.bell_out):
        return 0
    came = 0
    for i in range(FRAMES_AT_ONCE):
        if came > BYTES_AT_ONCE:
            return i
        if d.spare < 0:
            d.spare = take_buffer(view, 0)
            if d.spare < 0:
                d.waits_for_buffer += 1
                d.read_at = now + NO_ROOM_NS
                d.soon = min(d.soon, d.read_at)
                return i
        frame = bytes_at(view.buffer[0], d.spare * view.buffer_bytes)
        length = port_receive(d.kernel, frame, view.buffer_bytes)
        if length == 0:
            if i == 0:
                d.read_at = now + UNREAD_NS
                if d.kernel.fd < 0:  # nothing will wake us
                    d.soon = min(d.soon, now + NO_ROOM_NS)
            return i
        if length > 0:
            came += length
            admit(w, d, frame, length, now)
            if d.stalled:
                return i + 1
    return FRAMES_AT_ONCE


def admit(w, d, frame, length, now):
    """A frame in the spare buffer: whose it is."""
    frame += d.kernel.header
    size = length - d.kernel.header
    key = own_key(d)
    if size < 14:
        d.malformed += 1
        return
    kind = short_at(frame, 12)
    if d.overlay:
        if kind == OVERLAY_TYPE:
            listen(w, d, frame, size, now)
            return
        note_received(d, length)
    elif kind == 0x0806:
        answer_address_request(w, d, frame, size)
        return
    elif byte_at(frame, 0) & 1:
        if kind == 0x86DD and size >= SOLICITATION_BYTES and byte_at(frame, 20) == 58 and byte_at(frame, 54) == 135:
            answer_solicitation(w, d, frame, size)
        else:
            d.multicast += 1
        return
    if not parse(frame, size, 0, key):
        d.malformed += 1
        return
    if d.rewrites and d.mac == 0 and owner_of(w, key.words[0], key.words[1]) == d.port:
        learn(d, key.words[0], key.words[1], ethernet(frame + 6))
    number = lane_for(w, d, key)
    lane = lane_at(d, number)
    lane.used_at = now
    word = descriptor(d.spare, length)
    d.spare = -1
    if not put_in(w, d, number, word):
        d.stalled = word
        d.stalled_lane = number
    elif d.overlay and w.mode == BACKDRAFT:
        tell(w, d, number, length, now)


def lane_for(w, d, key):
    """The transmit queue of a flow; when there are none left, flows share them."""
    number = find_name(w, incoming_of(d), key)
    if number >= 0:
        return number
    if d.free_count == 0:
        d.shared_lanes += 1
        return hash_of(w, key) % d.queues
    d.free_count -= 1
    number = d.free_lanes[d.free_count]
    lane = lane_at(d, number)
    clear_lane(lane)
    lane.used = 1
    lane.sent = signed_of(load64(word_at(d.side.view.consumed[0], number)))
    copy_key(key_of_lane(lane), key)
    add_name(w, incoming_of(d), number, key)
    return number


def bells_have_room(view, at):
    return load64(word_at(view.bell[0], (at + 2 * FRAMES_AT_ONCE) & (view.bells - 1))) == 0


def put_in(w, d, number, word):
    """A frame into a transmit queue; whether there was a ring for it."""
    view = own_view(d)
    lane = lane_at(d, number)
    if not lane.open:
        if not open_queue(view, end_of_lane(lane), 0, number):
            return False
        lane.open = 1
    if not push(view, end_of_lane(lane), word):
        return False
    lane.sent += length_of(word)
    d.put += 1
    if w.doorbells:
        ring_bell(view, bell_out_of(side_of(d)), 0, bell_of(number, 1, 0, 0))
    return True


def forget_idle_lanes(w, d, now):
    """Give the queues of a few flows back that have been idle long enough."""
    view = own_view(d)
    for _ in range(min(64, d.queues)):
        d.age_at = d.age_at + 1 if d.age_at + 1 < d.queues else 0
        lane = lane_at(d, d.age_at)
        if not lane.used or now - lane.used_at < w.idle_ns or (d.stalled and d.stalled_lane == d.age_at):
            continue
        if signed_of(load64(word_at(view.consumed[0], d.age_at))) != lane.sent or not bells_have_room(view, d.side.bell_out):
            continue
        if lane.open:
            if not is_drained(view, end_of_lane(lane)) or not close_queue(view, end_of_lane(lane), 0, d.age_at):
                continue
            if w.doorbells:
                ring_bell(view, bell_out_of(side_of(d)), 0, bell_of(d.age_at, 1, 0, 0))
        remove_name(w, incoming_of(d), d.age_at)
        lane.used = 0
        lane.open = 0
        d.free_lanes[d.free_count] = d.age_at
        d.free_count += 1


# ---- Ethernet addresses ----


def answer_address_request(w, d, frame, size):
    """ARP: to whoever asks for an address of another port of the switch, one that stands for it."""
    if size < ARP_BYTES or short_at(frame, 14) != 1 or short_at(frame, 16) != 0x0800 or short_at(frame, 20) != 1:
        return
    target = mapped(frame + 38)
    owner = owner_of(w, 0, target)
    if owner < 0 or owner == d.port:
        return
    if d.rewrites and d.mac == 0 and owner_of(w, 0, mapped(frame + 28)) == d.port:
        learn(d, 0, mapped(frame + 28), ethernet(frame + 22))
    header = d.kernel.header
    reply = d.reply + header
    clear_bytes(d.reply, 128)
    memcpy(reply, frame + 22, 6)  # to the one that asked, from 02:00 and the address
    put_short(reply + 6, 0x0200)
    memcpy(reply + 8, frame + 38, 4)
    memcpy(reply + 12, frame + 12, 8)
    put_short(reply + 20, 2)
    memcpy(reply + 22, reply + 6, 6)
    memcpy(reply + 28, frame + 38, 4)
    memcpy(reply + 32, frame + 22, 10)
    send_reply(d, header + ARP_BYTES)


def answer_solicitation(w, d, frame, size):
    """The same of IPv6 (RFC 4861)."""
    owner = owner_of(w, word_from(frame + 62), word_from(frame + 70))
    if owner < 0 or owner == d.port or (word_from(frame + 22) == 0 and word_from(frame + 30) == 0):
        return
    if d.rewrites and d.mac == 0 and owner_of(w, word_from(frame + 22), word_from(frame + 30)) == d.port:
        learn(d, word_from(frame + 22), word_from(frame + 30), ethernet(frame + 6))
    header = d.kernel.header
    reply = d.reply + header
    clear_bytes(d.reply, 128)
    memcpy(reply, frame + 6, 6)
    put_short(reply + 6, 0x0200)
    memcpy(reply + 8, frame + 74, 4)
    memcpy(reply + 12, frame + 12, 10)  # type, version, class, label; length and hop limit follow
    put_short(reply + 18, 32)
    put_short(reply + 20, 58 << 8 | 255)
    memcpy(reply + 22, frame + 62, 16)
    memcpy(reply + 38, frame + 22, 16)
    put_short(reply + 54, 136 << 8)
    put_short(reply + 58, 0x6000)  # solicited, and it replaces what was known
    memcpy(reply + 62, frame + 62, 16)
    put_short(reply + 78, 2 << 8 | 1)
    memcpy(reply + 80, reply + 6, 6)
    total = internet_sum(reply + 22, 64) + 32 + 58
    total = (total & 0xFFFF) + (total >> 16)
    put_short(reply + 56, 0xFFFF - ((total & 0xFFFF) + (total >> 16)))
    send_reply(d, header + ADVERTISEMENT_BYTES)


def send_reply(d, length):
    if port_send(d.kernel, d.reply, length):
        d.answered += 1
        port_flush(d.kernel)


def learn(d, high, low_half, mac):
    """Remember the Ethernet address of the sender of a frame."""
    for i in range(d.learned_count):
        seen = learned_at(d, i)
        if seen.low == low_half and seen.high == high:
            seen.mac = mac
            return
    if d.learned_count < LEARNED:
        seen = learned_at(d, d.learned_count)
        seen.high = high
        seen.low = low_half
        seen.mac = mac
        d.learned_count += 1


def mac_for(d, key):
    """The Ethernet address that a frame to the device is given; broadcast while it is not known."""
    if d.mac:
        return d.mac
    for i in range(d.learned_count):
        seen = learned_at(d, i)
        if seen.low == key.words[3] and seen.high == key.words[2]:
            return seen.mac
    return 0xFFFFFFFFFFFF


# ---- From the switch to the device ----


def hear(d):
    """Answer the switch's doorbells."""
    side = side_of(d)
    heard = 0
    for k in range(d.bell_rings):
        for _ in range(2 * FRAMES_AT_ONCE):
            bell = answer_bell(own_view(d), ring_of(d, k), 1)
            if bell == 0:
                break
            heard += 1
            if input_at(side, queue_of(bell)).state == IDLE:
                activate(side, queue_of(bell))
    return heard


def has_news(w, own, now):
    """Whether a worker has rung since it could have seen that this one sleeps."""
    d = driver_of(own)
    for k in range(d.bell_rings):
        if load64(word_at(d.side.view.bell[1], d.bell_in[k])):
            return 1
    return 0


def put_out(w, d, now):
    """One frame of each receive queue in turn, as long as the device has room."""
    if now < d.try_at:
        d.soon = min(d.soon, d.try_at)
        return 0
    side = side_of(d)
    done = 0
    while done < FRAMES_AT_ONCE and side.levels:
        if d.overlay and not may_send(d.overlay):
            break
        number = side.head[0]
        input = input_at(side, number)
        if input.until > now:
            take_head(side, 0)
            pause_input(w, side, number, input.until)
            continue
        word = input.held
        if word == 0:
            word = next_word(own_view(d), input, 1, number)
        if word == 0 or word == CLOSED:
            take_head(side, 0)
            if word:
                input.known = 0
                if told_at(d, number).named:
                    remove_name(w, outgoing_of(d), number)
                clear_told(told_at(d, number))
                if is_open(own_view(d), 1, number):
                    activate(side, number)
            continue
        input.held = word
        if not send_out(w, d, input, number, word, now):
            break
        done += 1
        if input.state == ACTIVE and side.levels:
            take_head(side, 0)
            activate(side, number)
    port_flush(d.kernel)
    return done


def send_out(w, d, input, number, word, now):
    """A frame to the device; False: it, or the socket behind it, has no room now."""
    view = own_view(d)
    header = d.kernel.header
    whole_frame = bytes_at(view.buffer[1], buffer_of(word) * view.buffer_bytes)
    frame = whole_frame + header
    length = length_of(word)
    told = told_at(d, number)
    if not told.named:
        key = own_key(d)
        if parse(frame, length - header, 0, key) and find_name(w, outgoing_of(d), key) < 0:
            add_name(w, outgoing_of(d), number, key)
            told.named = 1
    if d.limited and told.named and not fits(d, number, length):
        d.full_sockets += 1
        input.until = now + HELD_NS
        return True
    if d.overlay and told.next_at > now + LEAST_NS and now - told.at < LEASE_NS:
        input.until = min(told.next_at, now + MOST_NS)  # and then it is looked at anew
        return True
    if d.overlay and short_at(frame, 12) == OVERLAY_TYPE:  # nobody but us speaks to the other switch
        d.refused += 1
    else:
        if d.rewrites:
            put_mac(frame, mac_for(d, name_at(outgoing_of(d), number)))
        if not port_send(d.kernel, whole_frame, length):
            d.try_at = now + NO_ROOM_NS
            d.soon = min(d.soon, d.try_at)
            return False
        if d.overlay:
            note_sent(d.overlay, length, now)
            if told.rate >= 1:
                told.next_at = max(told.next_at, now - LEAST_NS) + whole(1e9 * length / told.rate)  # who is late makes up for it
    input.held = 0
    give_buffer(view, 1, buffer_of(word))
    store64(word_at(view.consumed[1], number), load64(word_at(view.consumed[1], number)) + length)
    store64(view.total[1], load64(view.total[1]) + length)
    return True


def fits(d, number, length):
    """Whether a frame certainly fits into the UDP socket that it is for; which is then counted."""
    words = name_at(outgoing_of(d), number).words
    if words[4] >> 16 & 0xFF != 17:
        return True
    port = swapped(words[4] >> 48)
    cost = 2 * length + 1024
    if spent_at(d, port)[0] + cost > load_signed(allowed_at(d, port)):
        return False
    spent_at(d, port)[0] += cost
    return True


# ---- For Python ----


def attach_device(switch, name, device, addresses, guarded=True):
    """A device (penstock.vswitch.attach.devices) as a port of a switch; returns its number."""
    if device.port.headers and not switch.takes_headers:
        raise SpecError(f"port {name!r}: a switch that runs a scheme takes frames as on a wire; super_frames = false")
    region = Region.create(**device.shape)
    drive = Drive(region, device.port, device.mac, device.window, device.secret, device.epoch)
    number = switch.attach(name, Region.attach(region.fd, region.shape), addresses, guarded=guarded)
    drive.install(switch, number)
    device.drive = drive
    if device.table:
        drive.limit(device.table)
    return number


class Drive:
    """A kernel's port and the application's side of the region that it fills and empties.

    `mac` is put into what goes to the device; "learn" puts there what the receiver's address was last seen with.  A port with
    `window` leads to another switch, `secret` (16 bytes) proves who speaks, and `epoch` is larger than it was before a restart.
    """

    def __init__(self, region, kernel, mac=None, window=0, secret=b"", epoch=0):
        self.region = region
        self.kernel = kernel
        self.d = new_driver()
        d = self.d
        d.queues = region.shape["queues"]
        set_side(d, self.region)
        d.kernel = pointer_to(self.kernel)
        d.spare = -1
        d.side.inputs = new_inputs(d.queues)
        d.lanes = new_lanes(d.queues)
        d.told = new_told(d.queues)
        d.free_lanes = numbers(d.queues)
        d.free_count = d.queues
        for i in range(d.queues):
            d.free_lanes[i] = d.queues - 1 - i
        make_names(incoming_of(d), d.queues)
        make_names(outgoing_of(d), d.queues)
        d.rewrites = mac is not None
        if isinstance(mac, bytes):
            d.mac = int.from_bytes(mac, "little")
        if window:
            if secret and len(secret) != 16:
                raise SpecError(f"secret of {len(secret)} B: must be 16 B, that is 32 hexadecimal digits")
            d.overlay = new_overlay()
            d.overlay.window = window
            d.overlay.epoch = epoch
            d.overlay.limit = FIRST_LIMIT
            d.overlay.authentic = len(secret) == 16
            if secret:
                for i in range(2):
                    d.overlay.secret[i] = int.from_bytes(secret[8 * i : 8 * i + 8], "little")

    def __dealloc__(self):
        if self.d:
            free(self.d.side.inputs)
            free(self.d.lanes)
            free(self.d.told)
            free(self.d.free_lanes)
            free_names(incoming_of(self.d))
            free_names(outgoing_of(self.d))
            free(self.d.overlay)
            free(self.d)

    def install(self, switch, number):
        """Begin to drive port `number` of a switch, which has the other side of the region."""
        d = self.d
        self.home = port_at(worker_of(switch, 0), number).home
        if self.kernel.fd >= 0:
            epoll_of(switch, self.home).register(self.kernel.fd, select.EPOLLIN | select.EPOLLET)
        switch.drives[number] = self
        d.port = number
        d.side.number = MOST_PORTS + number
        d.put = taken_from(port_at(worker_of(switch, self.home), number))
        d.bell_rings = switch.count
        for k in range(switch.count):
            d.bell_in[k] = k * d.side.view.bells
            port_at(worker_of(switch, k), number).prefix = d.kernel.header
            port_at(worker_of(switch, k), number).mean = 1500
            port_at(worker_of(switch, k), number).wakes = control_of(switch, self.home) + 1
        w = worker_of(switch, self.home)
        if d.kernel.header:  # a turn is worth a super-frame
            for i in range(d.queues):
                input_at(port_at(w, number), i).weight = 32
        w.drive = drive
        w.has_news = has_news
        add_driver(w, number, d)

    def remove(self, switch):
        """Stop driving; frames that are in the region are lost with it."""
        remove_driver(worker_of(switch, self.home), self.d.port)
        if self.kernel.fd >= 0:
            epoll_of(switch, self.home).unregister(self.kernel.fd)

    def limit(self, table):
        """Keep to what a table (penstock.vswitch.attach.allowance) allows for each UDP port."""
        self.table = table
        self.d.spent = numbers_at(table.spent.ctypes.data)
        self.d.allowed = numbers_at(table.allowed.ctypes.data)
        self.d.limited = 1

    def behind(self):
        """Bytes that wait to get into the switch, by the words of a flow's key."""
        found = {}
        for i in range(self.d.queues):
            lane = lane_at(self.d, i)
            if lane.used:
                waiting = lane.sent - signed_of(load64(word_at(self.d.side.view.consumed[0], i)))
                found[tuple([lane.key.words[k] for k in range(5)])] = waiting
        return found

    def row(self):
        """What passed the kernel and what did not."""
        d = self.d
        row = {
            "kind": self.kernel.kind,
            **self.kernel.counters,
            "malformed": d.malformed,
            "refused_out": d.refused,
            "answered": d.answered,
            "multicast": d.multicast,
            "waits_for_buffer": d.waits_for_buffer,
            "shared_queues": d.shared_lanes,
            "full_sockets": d.full_sockets,
        }
        if self.edge is not None:
            row["edge"] = {**self.edge.counters(), "failed": int(self.edge.error is not None)}
        if d.overlay:
            o = d.overlay
            row["overlay"] = {
                "pauses_sent": o.pauses_out,
                "pauses_received": o.pauses_in,
                "unknown_flow": o.unknown,
                "truncated": o.truncated,
                "forged": o.forged,
                "replayed": o.replayed,
                "greeted": bool(o.greeted),
                "grants_sent": o.grants_out,
                "grants_received": o.grants_in,
                "asked": o.asked,
                "under_way": o.sent - o.granted,
                "limit": o.limit,
                "lost_on_the_way": o.lost,
                "no_room": o.no_room,
            }
        return row
