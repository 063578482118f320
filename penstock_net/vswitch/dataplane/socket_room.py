"""How much room the UDP sockets behind a device have, so that the worker sends them no more than that.

The kernel drops what comes to a socket whose buffer is full, and reports it to nobody.  A look asks it for all UDP sockets of a
network namespace (NETLINK_SOCK_DIAG), or for the full ones alone, and sets for each of their ports what the frames sent there may
cost from then on, in the kernel's memory: a small frame costs much more than its bytes.  No frame is lost as long as the limit is
respected.

When to look is for the worker to say: it reports a port when three quarters of what it may cost are spent, or when a frame goes
to a port that was not looked at (`report_port`), and raises an alarm, an eventfd.  While nothing is sent, nobody looks.
"""

import cython

from penstock_net.vswitch.world import os

if not cython.compiled:
    from penstock_net.vswitch.dataplane.socket_drops import end_list, free_drops, make_drops, note_drops, note_drops_of_one
    from penstock_net.vswitch.dataplane.socket_room import (
        AF_INET,
        AF_INET6,
        ALLOWED,
        ANSWER_BYTES,
        ASKED_MOST,
        ASKED_TIMES,
        EPROTO,
        FULL_SOCKETS,
        GROUPS,
        HELD,
        ID_BYTES,
        LOOKED,
        MOST_COST,
        MOVED,
        PEERS,
        PRESSED,
        PROGRESS,
        PROVISIONAL,
        RAISED,
        READ_FAST,
        RECHECK_BYTES,
        REFUSED,
        REPORT_AT,
        REPORTED,
        REPORTS,
        REPORTS_KEPT,
        REQUEST_BYTES,
        ROOMIER,
        SEVERAL,
        SEVERAL_SECONDS,
        SPENT,
        UDP_PORTS,
        WAITING,
        WAKES,
        at,
        drops_of,
        errno,
        free,
        give_port_rooms,
        load_in,
        look_released,
        memcpy,
        memset,
        new_port_rooms,
        new_ports,
        new_rooms,
        peer_word,
        port_from,
        put8,
        put16,
        put32,
        room_of,
        same_peer,
        second_in,
        second_of,
        signed32,
        store_in,
        table_at,
        word16,
        word32,
        word64,
        word_in,
    )
    from penstock_net.vswitch.memory.layout import ENDLESS, full_fence, mixed, wake_switch
    from penstock_net.vswitch.world.calls.table import receive_from, send_to

# ---- The worker's side ----


def raise_alarm(table, alarm):
    """Wake the edge, unless that was done and it has not answered; what it shall see is written before."""
    full_fence()
    if load_in(table, RAISED) == 0:
        store_in(table, RAISED, 1)
        wake_switch(alarm)


def report_port(table, alarm, port):
    """Ask for a look at the sockets of a UDP port: once, until the edge has looked."""
    store_in(table, REPORT_AT + port, ENDLESS)
    count = load_in(table, REPORTED)
    store_in(table, REPORTS + (count & (REPORTS_KEPT - 1)), port)
    store_in(table, REPORTED, count + 1)
    raise_alarm(table, alarm)


def report_pressed(table, alarm):
    """Ask for a look at the flows that come in by the device."""
    store_in(table, PRESSED, load_in(table, PRESSED) + 1)
    raise_alarm(table, alarm)


def may_cost(table, alarm, port, held, cost):
    """Whether the sockets of a UDP port have buffer space for this frame, in addition to what was sent there and `held`."""
    spent = word_in(table, SPENT + port)[0] + held + cost
    if spent > load_in(table, REPORT_AT + port):
        report_port(table, alarm, port)
    allowed = load_in(table, ALLOWED + port)
    if spent > allowed and spent - cost != -1 - allowed:
        store_in(table, REFUSED, load_in(table, REFUSED) + 1)
        return False
    return True


def add_cost(table, port, cost):
    """Charge a UDP port with frames that its sockets have: a look must not find less in them than was charged before."""
    store_in(table, SPENT + port, word_in(table, SPENT + port)[0] + cost)


def note_peer(table, port, high, low, peer_port, now):
    """Note the peer of a frame to or from a UDP port; one of two peers of late says that there are several."""
    peer = peer_word(high, low, peer_port, second_of(now))
    before = word_in(table, PEERS + port)[0]
    if peer == before:
        return
    if before and not same_peer(peer, before) and second_of(now) - second_in(before) <= SEVERAL_SECONDS:
        if word_in(table, SEVERAL + port)[0] != second_of(now):
            store_in(table, SEVERAL + port, second_of(now))
    word_in(table, PEERS + port)[0] = peer


def has_several(table, port, now):
    """Whether the sockets of a UDP port had several peers of late."""
    at = load_in(table, SEVERAL + port)
    return at > 0 and second_of(now) - at <= SEVERAL_SECONDS


# ---- The edge's side ----


def look_at_sockets(rooms):
    """Ask the kernel and set what each port may cost: what was found, or -1: the kernel refused (`failed`)."""
    found = 0
    for _ in range(4):
        rooms.again = 0
        read_reports(rooms)
        rooms.is_partial = are_known(rooms)
        if not rooms.is_partial or not ask_for_each(rooms):
            rooms.is_partial = 0
            if not list_sockets(rooms):
                return -1
        found |= grant(rooms)
        if not rooms.again:
            break
    if found & WAITING and found & ROOMIER and rooms.waker >= 0:
        wake_switch(rooms.waker)
    return found


def are_known(rooms):
    """Whether it is enough to ask for some sockets: nothing is to be known but of full ones, each the only one of its port."""
    if not rooms.full or rooms.asked == ASKED_TIMES:
        return False
    count = 0
    for i in range(rooms.count):
        room = room_of(rooms, rooms.ports[i])
        if room.full or room.due:
            count += 1
            if not room.full or count > ASKED_MOST or room.seen != rooms.look or room.sockets != 1:
                return False
    return True


def list_sockets(rooms):
    """Have the kernel list all sockets; False: it refused."""
    rooms.look += 1
    rooms.asked = 0
    for i in range(rooms.count):  # what is sent from here on may count twice, never not at all
        room_of(rooms, rooms.ports[i]).base = load_in(rooms.table, SPENT + rooms.ports[i])
    return ask(rooms, AF_INET) and ask(rooms, AF_INET6)


def ask_for_each(rooms):
    """Ask for the sockets that are full, one by one; False: one is not there any more.

    A list costs the kernel a walk through all that its table of UDP sockets has place for.
    """
    rooms.asked += 1
    for i in range(rooms.count):
        port = rooms.ports[i]
        room = room_of(rooms, port)
        if not room.full:
            continue
        room.base = load_in(rooms.table, SPENT + port)
        room.groups = 0
        room.sockets = 0
        room.connected_free = room.connected_size = -1
        begin_request(rooms, room.family, 1)  # NLM_F_REQUEST
        asked = at(rooms.request, 24)  # the kernel takes source and destination for those of what comes to the socket
        memcpy(asked, at(room.id, 2), 2)
        memcpy(at(asked, 2), room.id, 2)
        memcpy(at(asked, 4), at(room.id, 20), 16)
        memcpy(at(asked, 20), at(room.id, 4), 16)
        memcpy(at(asked, 36), at(room.id, 36), 12)
        if send_to(rooms.fd, rooms.request, REQUEST_BYTES) < 0:
            return False
        while True:
            length = receive_from(rooms.fd, rooms.answer, ANSWER_BYTES)
            if length < 16:
                return False
            rooms.messages += 1
            if word32(at(rooms.answer, 8)) == rooms.serial:
                break
        if word16(at(rooms.answer, 4)) != 20 or length < word32(rooms.answer):
            return False
        note_socket(rooms, at(rooms.answer, 16), word32(rooms.answer) - 16)
        if room.sockets != 1:
            return False
    return True


def list_port(rooms, port):
    room = room_of(rooms, port)
    if not room.listed:
        room.listed = 1
        room.base = load_in(rooms.table, SPENT + port)
        room.free_before = 0
        rooms.ports[rooms.count] = port
        rooms.count += 1


def read_reports(rooms):
    """List the ports that the worker has reported; all that it may have, if there were too many to keep."""
    reported = load_in(rooms.table, REPORTED)
    if 0 <= reported - rooms.reports_seen <= REPORTS_KEPT:
        for i in range(rooms.reports_seen, reported):
            port = load_in(rooms.table, REPORTS + (i & (REPORTS_KEPT - 1))) & (UDP_PORTS - 1)
            list_port(rooms, port)
            room_of(rooms, port).due = 1
    else:
        for port in range(UDP_PORTS):
            if load_in(rooms.table, REPORT_AT + port) == ENDLESS:
                list_port(rooms, port)
                room_of(rooms, port).due = 1
    rooms.reports_seen = reported


def begin_request(rooms, family, flags):
    """Begin a question for UDP sockets of a family."""
    rooms.serial += 1
    request = at(rooms.request, 0)
    put32(request, REQUEST_BYTES)
    put16(at(request, 4), 20)  # SOCK_DIAG_BY_FAMILY
    put16(at(request, 6), flags)
    put32(at(request, 8), rooms.serial)
    put8(at(request, 16), family)
    put8(at(request, 17), 17)  # UDP
    put8(at(request, 18), 1 << 6)  # INET_DIAG_SKMEMINFO
    put32(at(request, 20), 0xFFFFFFFF)  # in any state
    memset(at(request, 24), 0, ID_BYTES)


def ask(rooms, family):
    """Ask for the UDP sockets of a family; False: the kernel refused."""
    begin_request(rooms, family, 0x301)  # NLM_F_REQUEST | NLM_F_DUMP
    if send_to(rooms.fd, rooms.request, REQUEST_BYTES) < 0:
        rooms.failed = errno
        return False
    while True:
        length = receive_from(rooms.fd, rooms.answer, ANSWER_BYTES)
        if length <= 0:
            rooms.failed = errno if length < 0 else EPROTO
            return False
        rooms.messages += 1
        end = read_answer(rooms, length)
        if end > 0:
            return True
        if end < 0:
            return False


def read_answer(rooms, length):
    """Take note of the sockets in one message of the kernel: 1: it is the last; -1: an error; 0: more follow."""
    place = 0
    while place + 16 <= length:
        message = at(rooms.answer, place)
        size = word32(message)
        if size < 16 or place + size > length:
            rooms.failed = EPROTO
            return -1
        if word32(at(message, 8)) == rooms.serial:  # else of a request that failed
            kind = word16(at(message, 4))
            if kind == 3:  # NLMSG_DONE
                return 1
            if kind == 2:  # NLMSG_ERROR
                rooms.failed = -signed32(at(message, 16))
                return -1
            note_socket(rooms, at(message, 16), size - 16)
        place += (size + 3) & ~3
    return 0


def note_socket(rooms, message, length):
    """The counters of one socket: struct inet_diag_msg, and attributes."""
    port = port_from(at(message, 4))
    place = 72
    while port and place + 4 <= length:
        size = word16(at(message, place))
        if size < 4:
            return
        if word16(at(message, place + 2)) == 7 and size >= 40 and place + size <= length:  # INET_DIAG_SKMEMINFO
            waiting = word32(at(message, place + 4))
            total = word32(at(message, place + 8))
            if rooms.is_partial:
                note_drops_of_one(drops_of(rooms), word64(at(message, 44)), word32(at(message, place + 36)))
            else:
                note_drops(drops_of(rooms), word64(at(message, 44)), word32(at(message, place + 36)))
            address = local_address(message)
            if address == 0:
                return
            room = room_of(rooms, port)
            if not room.listed:
                list_port(rooms, port)
                if load_in(rooms.table, REPORT_AT + port) == ENDLESS:  # reported since the look began
                    rooms.again = 1
            if room.seen != rooms.look:
                room.groups = 0
                room.connected_free = room.connected_size = -1
                room.seen = rooms.look
                room.sockets = 0
            if room.sockets == 0:
                room.family = word16(message) & 0xFF
                memcpy(room.id, at(message, 4), ID_BYTES)
            room.sockets += 1
            if port_from(at(message, 6)) == 0:
                note_room(room, address, total - waiting, total)
            elif room.connected_size < 0 or total - waiting > room.connected_free:
                room.connected_free = total - waiting
                room.connected_size = total
            return
        place += (size + 3) & ~3


def local_address(message):
    """A number for the address of a socket, of struct inet_diag_msg; 0: of loopback, where no frame of the switch arrives."""
    first = word64(at(message, 8))
    if word16(message) & 0xFF == AF_INET:
        return 0 if first & 0xFF == 127 else mixed(AF_INET, first)
    if first == 0 and word32(at(message, 16)) == 0 and word32(at(message, 20)) == 0x01000000:
        return 0
    return mixed(mixed(AF_INET6, first), word64(at(message, 16)))


def note_room(room, address, free, size):
    """One more socket of a port: of those with the same address, the one with most room counts."""
    i = 0
    while i < room.groups and room.group[i] != address and i < GROUPS - 1:
        i += 1
    if i == room.groups:
        room.groups += 1
        room.group[i] = address
    elif free <= room.group_free[i]:
        return
    room.group_free[i] = free
    room.group_size[i] = size


def choose_room(room):
    """What may be sent to a port, to whichever of its sockets; False: none of them gets frames of the switch.

    Of the sockets that share an address (SO_REUSEPORT) the one with most room counts: what the kernel then has for another one,
    which is full, it drops and counts.  Of several addresses the one with least room counts.  Connected sockets count if there
    are no others.
    """
    room.free = room.connected_free
    room.size = room.connected_size
    for i in range(room.groups):
        if i == 0 or room.group_free[i] < room.free:
            room.free = room.group_free[i]
            room.size = room.group_size[i]
    return room.size >= 0


def grant(rooms):
    """Set what each port may cost from what was found; what a look found."""
    found = 0
    full = 0
    rooms.lasts = ENDLESS
    refused = load_in(rooms.table, REFUSED)
    for i in range(rooms.count):
        port = rooms.ports[i]
        room = room_of(rooms, port)
        if rooms.is_partial and not room.full:
            if load_in(rooms.table, SPENT + port) != room.base:
                found |= MOVED
            continue
        room.due = 0
        sent = room.base - room.base_before
        if sent:
            found |= MOVED
        room.base_before = room.base
        if room.seen != rooms.look or not choose_room(room):  # no socket
            found |= allow(rooms, port, ENDLESS)
            store_in(rooms.table, REPORT_AT + port, room.base + RECHECK_BYTES)
            room.full = 0
            continue
        left = max(0, room.free)
        if room.free == room.size and room.size < MOST_COST and refused != rooms.refused and sent == 0:
            found |= allow(rooms, port, -1 - room.base)  # an empty socket takes a frame of any length
            store_in(rooms.table, REPORT_AT + port, room.base)
            room.full = 0
            continue
        found |= allow(rooms, port, room.base + left)
        if 2 * left >= room.size:
            store_in(rooms.table, REPORT_AT + port, room.base + left * 3 // 4)
            room.full = 0
        else:
            # while it is read fast, a frame that finds no room is reported; else the clock has it looked at, see socket_watch.py
            taken = room.free + sent - room.free_before
            held = room.size - room.free
            store_in(rooms.table, REPORT_AT + port, room.base + left if READ_FAST * taken > held else ENDLESS)
            full += 1
            if not room.full:
                rooms.episodes += 1
            elif taken > 0:
                found |= PROGRESS
                rooms.lasts = min(rooms.lasts, held // taken)
            room.full = 1
        room.free_before = room.free
    store_in(rooms.table, LOOKED, load_in(rooms.table, LOOKED) + 1)
    if not rooms.is_partial:
        end_list(drops_of(rooms))
    rooms.full = full
    full_fence()  # a frame that begins to wait after this has been tried with what is allowed now
    if refused != rooms.refused or load_in(rooms.table, HELD):
        found |= WAITING
    rooms.refused = refused
    return found | (FULL_SOCKETS if full else 0)


def allow(rooms, port, value):
    """Set what a port may cost; ROOMIER: that is more, and it had no room for a frame of any length."""
    before = load_in(rooms.table, ALLOWED + port)
    store_in(rooms.table, ALLOWED + port, value)
    if before - room_of(rooms, port).base >= MOST_COST or value == before:
        return 0
    return ROOMIER if value > before or value < 0 else 0


def stop_looking(rooms):
    """Have the next frame to any port reported; False: one was sent since the last look.

    A port without a socket may have one by then: it is forgotten.
    """
    for i in range(rooms.count):
        if load_in(rooms.table, SPENT + rooms.ports[i]) != room_of(rooms, rooms.ports[i]).base:
            return False
    kept = 0
    for i in range(rooms.count):
        port = rooms.ports[i]
        room = room_of(rooms, port)
        if room.seen == rooms.look:
            rooms.ports[kept] = port
            kept += 1
        else:
            room.listed = 0
            store_in(rooms.table, ALLOWED + port, room.base + PROVISIONAL)
        store_in(rooms.table, REPORT_AT + port, room.base)
    rooms.count = kept
    return True


class SocketRooms:
    """The UDP sockets of a namespace, and the table that tells a worker how much each port may be sent.

    `diag` is a netlink socket (an object with `fileno`), `table` an Allowance; `goes_on`: what it allows stays until `begin`.
    """

    def __init__(self, diag, table, goes_on=False):
        self.diag, self.table = diag, table
        self.rooms = new_rooms()
        rooms = self.rooms
        rooms.fd = diag.fileno()
        rooms.waker = -1
        rooms.table = table_at(table.address)
        rooms.rooms = new_port_rooms()
        rooms.ports = new_ports()
        make_drops(drops_of(rooms))
        rooms.reports_seen = load_in(rooms.table, REPORTED)
        if goes_on:
            return
        for port in range(UDP_PORTS):
            store_in(rooms.table, ALLOWED + port, load_in(rooms.table, SPENT + port) + PROVISIONAL)
            store_in(rooms.table, REPORT_AT + port, load_in(rooms.table, SPENT + port))
        self.begin()

    def begin(self):
        """Look, and count what is lost from here on; nothing may be sent meanwhile."""
        self.look()
        self.rooms.drops.lost = 0
        self.rooms.episodes = 0

    def __dealloc__(self):
        if self.rooms:
            free_drops(drops_of(self.rooms))
            give_port_rooms(self.rooms.rooms)
            free(self.rooms.ports)
            free(self.rooms)

    def wake(self, fd):
        """Wake the worker by this eventfd when a look has found room for frames that wait; -1: nobody."""
        self.rooms.waker = fd
        store_in(self.rooms.table, WAKES, fd >= 0)

    def tell(self):
        """Have the worker try again what waits for room, since all limits were lifted."""
        store_in(self.rooms.table, LOOKED, load_in(self.rooms.table, LOOKED) + 1)
        if self.rooms.waker >= 0:
            wake_switch(self.rooms.waker)

    def takes(self, port, length):
        """Whether a frame for this port fits, which then counts: for a switch that is no worker."""
        if not may_cost(self.rooms.table, self.table.alarm, port, 0, 2 * length + 1024):
            return False
        add_cost(self.rooms.table, port, 2 * length + 1024)
        return True

    def press(self):
        """Raise the alarm, since a flow holds much: for a switch that is no worker."""
        report_pressed(self.rooms.table, self.table.alarm)

    def answer(self):
        """Reset the alarm: what happens from here on raises it again.  Whether ports were reported since the last look."""
        store_in(self.rooms.table, RAISED, 0)
        full_fence()
        return load_in(self.rooms.table, REPORTED) != self.rooms.reports_seen

    def look(self):
        """Query the kernel: a bit set of MOVED, FULL_SOCKETS, WAITING and PROGRESS.  OSError: the kernel refused."""
        found = look_released(self.rooms)
        if found < 0:
            raise OSError(self.rooms.failed, os.strerror(self.rooms.failed))
        return found

    def rest(self):
        """Have the next frame reported, to whatever port; False: one was sent since the last look."""
        return stop_looking(self.rooms)

    def room(self, port):
        """Bytes that the sockets of a port have left; None: the last look found none."""
        room = room_of(self.rooms, port)
        return room.free if room.listed and room.seen == self.rooms.look else None

    @property
    def lost(self):
        """Datagrams lost at sockets since this began; of sockets that are gone, what was seen of them."""
        return self.rooms.drops.lost

    @property
    def messages(self):
        """Messages of the kernel that were read."""
        return self.rooms.messages

    @property
    def lasts(self):
        """What the first full socket still holds lasts so many times as long as what was read of it since the look before."""
        return self.rooms.lasts

    @property
    def full(self):
        """Ports with a socket of which more than half is taken."""
        return self.rooms.full

    @property
    def episodes(self):
        """How often a port became one of these."""
        return self.rooms.episodes
