# cython: auto_pickle=False
"""vhost-user: a virtual machine or a DPDK program whose virtqueues the port serves, in memory that they share.

A front end (QEMU, DPDK) sends the guest's memory and the places of its rings through a socket (vhost_peer.py); frames then go
by split rings.  A guest is not trusted: an index, a descriptor or an address is read once and checked before it is used, what a
guest may break is its own port, and a worker never waits for it.  A guest that does not provide buffers has no room.
"""

import contextlib

import cython

from penstock_net.errors import PenstockError
from penstock_net.inputs import boolean
from penstock_net.vswitch.ports.base import PortHandle
from penstock_net.vswitch.support.port_kind import HEADERS, Given, Option, PortKind, between
from penstock_net.vswitch.support.vhost_peer import Peer, socket_path
from penstock_net.vswitch.support.vhost_protocol import PAIRS, GuestFeature
from penstock_net.vswitch.world import os, select

if not cython.compiled:
    from cython.cimports.libc.string import memcpy

    from penstock_net.vswitch.ports.base import (
        ETHERNET_BYTES,
        FRAME_BYTES,
        HEADER_BYTES,
        VIRTIO_NET_HDR_F_NEEDS_CSUM,
        PyBytes_AS_STRING,
        PyBytes_FromStringAndSize,
        bytes_from,
        complete_checksum,
        complete_copy,
        header_of,
        pointer_to,
        received,
        received_too_long,
        sent,
        sent_too_long,
        set_octet,
    )
    from penstock_net.vswitch.ports.segment import GSO_ECN, GSO_TCPV4, GSO_TCPV6, begin_cut, next_segment, shape_of_cut
    from penstock_net.vswitch.ports.vhost import (
        BATCH,
        DESCRIPTOR_BYTES,
        F_WRITE,
        MOST_PAIRS,
        MOST_STEPS,
        acquire16,
        ahead,
        area_at,
        arm,
        available_slot,
        broken_of,
        collect,
        copy_pieces,
        cut_in,
        cut_numbers,
        enter_gate,
        file_bytes,
        find_table,
        gate_of,
        guest_of,
        is_guest,
        is_memory,
        leave_gate,
        map_area,
        new_guest,
        once16,
        put_pair32,
        quieten,
        reserved_length_of,
        reserved_of,
        ring_at,
        ring_for,
        set_cut_numbers,
        show,
        signaller_of,
        unmap_area,
        used_slot,
        zero_bytes,
    )
    from penstock_net.vswitch.world.calls.table import close_signaller, open_signaller, signal_other, wake_switch

# ---- From the guest ----


def vhost_receive(port, to, room):
    guest = guest_of(port)
    if not enter_gate(gate_of(guest)):
        return 0
    show_all(port, guest)
    length = next_frame(port, guest, to, room)
    leave_gate(gate_of(guest))
    return length


def next_frame(port, guest, to, room):
    """A frame of the next ring that has one; a ring has its turn for a batch."""
    if guest.broken:
        return lies(guest)
    for _ in range(guest.from_count):
        ring = ring_at(guest, guest.from_guest[guest.from_at])
        count = available(guest, ring)
        if count < 0:
            return lies(guest)
        if count > 0:
            quieten(guest, ring)
            length = take_frame(port, guest, ring, to, room)
            if ahead(ring.put, ring.shown) < BATCH:
                return length
            show(guest, ring)
        else:
            length = 0
            show(guest, ring)
        guest.from_at = guest.from_at + 1 if guest.from_at + 1 < guest.from_count else 0
        if count > 0:
            return length
    return 0


def available(guest, ring):
    """Buffers that the guest has made available and that are not taken; 0: none, and it will kick; -1: its index is wrong."""
    count = ahead(ring.seen, ring.taken)
    if count > 0:
        return count
    ring.seen = acquire16(ring.available + 2)
    count = ahead(ring.seen, ring.taken)
    if count == 0 and arm(guest, ring):
        ring.seen = acquire16(ring.available + 2)
        count = ahead(ring.seen, ring.taken)
    return count if count <= ring.size else -1


def take_frame(port, guest, ring, to, room):
    head = once16(available_slot(ring, ring.taken))
    guest.count = guest.at = 0
    guest.done = 0
    if not collect(guest, ring, head, 0):
        return lies(guest)
    ring.taken += 1
    put_pair32(used_slot(ring, ring.put), head, 0)
    ring.put += 1
    size = guest.total - guest.header
    if size < ETHERNET_BYTES:
        port.refused += 1
        return -1
    if size + port.header > room:
        return received_too_long(port)
    copy_pieces(guest, guest.scratch, guest.header, False)
    copy_pieces(guest, bytes_from(to, port.header), size, False)
    if not take_header(port, guest, to, size):
        return -1
    return received(port, size + port.header)


def take_header(port, guest, to, size):
    """Make the port's header of the guest's; False: the frame is refused."""
    header = header_of(guest.scratch)
    kind = header.gso_type & 0x7F
    partial = header.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM
    if (
        (kind and (not partial or header.gso_size == 0 or (kind != GSO_TCPV4 and kind != GSO_TCPV6)))
        or (partial and header.csum_start + header.csum_offset + 2 > size)
        or (kind and port.header == 0)
    ):
        port.refused += 1
        return False
    header.flags = partial
    if not kind:
        header.gso_type = 0
        header.gso_size = 0
    if port.header:
        memcpy(to, guest.scratch, HEADER_BYTES)
        if not partial:
            zero_bytes(to, HEADER_BYTES)
    elif partial:
        complete_copy(guest.scratch, to, size)
    return True


def lies(guest):
    """Do nothing more with a guest whose rings break the rules, until its front end was sent away; -1."""
    if not guest.broken:
        guest.bad_descriptors += 1
    guest.broken = 1
    if guest.from_count or guest.to_count:
        guest.from_count = 0
        guest.to_count = 0
        wake_switch(guest.wake)
    return -1


# ---- To the guest ----


def vhost_send(port, frame, length):
    guest = guest_of(port)
    if not enter_gate(gate_of(guest)):
        port.no_room += 1
        return False
    taken = put_segments(port, guest) and put_frame(port, guest, frame, length)
    leave_gate(gate_of(guest))
    return taken


def put_frame(port, guest, frame, length):
    """A frame as this guest takes it; without a guest it is lost."""
    if guest.broken:
        lies(guest)
    if guest.to_count == 0:
        port.lost += 1
        return True
    if port.header:
        header = header_of(frame)
        if header.gso_type and not takes_super_frame(guest, header.gso_type):
            if not header.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM or length > FRAME_BYTES:
                return sent_too_long(port)
            if not begin_cut(cut_in(guest), frame, length, FRAME_BYTES):
                return sent_too_long(port)
            memcpy(guest.uncut, frame, length)
            guest.cutting = 1
            guest.segment_length = 0
            guest.further_out -= 1
            put_segments(port, guest)
            return True
        if header.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM and not guest.takes_sums:
            complete_checksum(frame, length)
    return put_whole(port, guest, frame, length)


def takes_super_frame(guest, kind):
    if not guest.takes_sums or (kind & GSO_ECN and not guest.takes_ecn):
        return False
    if kind & 0x7F == GSO_TCPV4:
        return guest.takes_tcp4
    return kind & 0x7F == GSO_TCPV6 and guest.takes_tcp6


def put_segments(port, guest):
    """The segments of a super-frame that is being cut; False: there is no room for all of them now."""
    while guest.cutting:
        if guest.segment_length == 0:
            guest.segment_length = next_segment(cut_in(guest), guest.uncut, guest.segment)
            if guest.segment_length == 0:
                guest.cutting = 0
                break
            guest.further_out += 1
            if not guest.takes_sums:
                complete_checksum(guest.segment, guest.segment_length)
        if guest.to_count == 0:
            port.lost += 1
        elif not put_whole(port, guest, guest.segment, guest.segment_length):
            return False
        guest.segment_length = 0
    return True


def put_whole(port, guest, frame, length):
    """One frame into one buffer, or into as many as it takes if the guest permits that; False: there are not enough now."""
    size = length - port.header
    need = guest.header + size
    ring = ring_at(guest, ring_for(guest, bytes_from(frame, port.header), size))
    guest.count = guest.at = 0
    guest.done = 0
    got = 0
    buffers = 0
    while got < need:
        if ahead(ring.seen, ring.taken) <= buffers and not more_available(guest, ring, buffers):
            if guest.broken:
                lies(guest)
                port.lost += 1
                return True
            port.no_room += 1
            return False
        head = once16(available_slot(ring, ring.taken + buffers))
        if not collect(guest, ring, head, F_WRITE):
            lies(guest)
            port.lost += 1
            return True
        got += guest.total
        put_pair32(used_slot(ring, ring.put + buffers), head, min(guest.total, need - got + guest.total))
        buffers += 1
        if got < need and (not guest.mergeable or buffers == ring.size or guest.count > MOST_STEPS):
            return sent_too_long(port)
    zero_bytes(guest.scratch, 16)
    if port.header and header_of(frame).flags & VIRTIO_NET_HDR_F_NEEDS_CSUM:
        memcpy(guest.scratch, frame, HEADER_BYTES)
    set_octet(guest.scratch, 10, buffers & 0xFF)
    set_octet(guest.scratch, 11, buffers >> 8)
    copy_pieces(guest, guest.scratch, guest.header, True)
    copy_pieces(guest, bytes_from(frame, port.header), size, True)
    ring.taken += buffers
    ring.put += buffers
    quieten(guest, ring)
    if ahead(ring.put, ring.shown) >= BATCH:
        show(guest, ring)
    return sent(port, length)


def more_available(guest, ring, buffers):
    """Whether the guest has made more than so many buffers available; if not, it kicks when it does."""
    ring.seen = acquire16(ring.available + 2)
    if ahead(ring.seen, ring.taken) <= buffers and arm(guest, ring):
        ring.seen = acquire16(ring.available + 2)
    if ahead(ring.seen, ring.taken) > ring.size:
        guest.bad_descriptors += 1
        guest.broken = 1
        return False
    return ahead(ring.seen, ring.taken) > buffers


def vhost_flush(port):
    guest = guest_of(port)
    if not enter_gate(gate_of(guest)):
        return False
    done = show_all(port, guest)
    leave_gate(gate_of(guest))
    return done


def show_all(port, guest):
    """Finish what can be, and show the guest its frames; False: a super-frame is still being cut."""
    done = put_segments(port, guest)
    for i in range(guest.to_count):
        show(guest, ring_at(guest, guest.to_guest[i]))
    return done


def waiting_segments(handle):
    """1: a segment has no room yet; of its super-frame the others are not made."""
    return guest_of(pointer_to(handle)).cutting if is_guest(handle) else 0


def further_out(handle):
    """Segments that were made, beyond one for each super-frame."""
    return guest_of(pointer_to(handle)).further_out if is_guest(handle) else 0


def give_up_segments(handle):
    """Count the segments for which there is no room now as lost: what is left of their super-frame is one frame."""
    if is_guest(handle) and not vhost_flush(pointer_to(handle)):
        guest = guest_of(pointer_to(handle))
        pointer_to(handle).errors_out += guest.cutting
        guest.cutting = 0


# ---- What the front end says, for the thread that talks with it ----


class Rings:
    """The guest's memory and rings, for Python.  What changes them comes between `stop` and `go`."""

    def __init__(self, handle, epoll):
        self.port = handle
        self.wake_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.nudge = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.ready = os.eventfd(1, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        epoll.register(self.nudge, select.EPOLLIN | select.EPOLLET)
        self.guest = connect(handle)
        self.guest.wake = self.wake_fd
        if open_signaller(signaller_of(self.guest), self.ready) < 0:
            self.close()
            raise PenstockError(
                "vhost-user: the kernel permits no asynchronous input and output (io_setup), by which guests are interrupted",
                remedy="permit the system calls io_setup and io_submit; sysctl fs.aio-max-nr has their limit",
            )

    def close(self):
        close_signaller(signaller_of(self.guest))
        for fd in (self.wake_fd, self.nudge, self.ready):
            os.close(fd)

    def wake(self):
        """Wake the thread that waits for `wake_fd`, and be `woken`."""
        os.eventfd_write(self.wake_fd, 1)

    def woken(self):
        os.eventfd_read(self.wake_fd)

    def stop(self):
        """Wait until no worker uses the rings, and keep them from it."""
        while not enter_gate(gate_of(self.guest)):
            os.sched_yield()

    def go(self):
        """Workers go on, and look at the rings."""
        leave_gate(gate_of(self.guest))
        os.eventfd_write(self.nudge, 1)

    @property
    def broken(self):
        return bool(self.guest.broken)

    def reason(self):
        if self.guest.bad_descriptors == self.before:
            return "the guest's memory was taken away"
        return "a ring of the guest breaks the rules: an index, a descriptor or an address"

    @property
    def has_memory(self):
        return self.guest.areas > 0

    def row(self):
        guest = self.guest
        return {
            "rings_to_guest": guest.to_count,
            "rings_from_guest": guest.from_count,
            "bad_descriptors": guest.bad_descriptors,
            "interrupts": guest.signals,
        }

    def set_features(self, features):
        guest = self.guest
        new = features & (GuestFeature.VERSION_1 | GuestFeature.MERGEABLE)
        guest.header = HEADER_BYTES + 2 if new else HEADER_BYTES
        guest.mergeable = bool(features & GuestFeature.MERGEABLE)
        guest.indirect = bool(features & GuestFeature.INDIRECT)
        guest.events = bool(features & GuestFeature.EVENT_INDEX)
        guest.takes_sums = bool(features & GuestFeature.SUMS_TO)
        guest.takes_tcp4 = bool(features & GuestFeature.TCP4_TO)
        guest.takes_tcp6 = bool(features & GuestFeature.TCP6_TO)
        guest.takes_ecn = bool(features & GuestFeature.ECN_TO)

    def set_memory(self, areas):
        """Map areas (guest address, bytes, front end's address, descriptor, offset), and no others; why not, or nothing."""
        self.unmap()
        guest = self.guest
        for address, size, user, fd, offset in areas:
            if not is_memory(fd):
                return "memory must be a memfd, or a file in tmpfs or hugetlbfs; others can make the switch wait"
            if offset + size > file_bytes(fd):
                return f"a file of {file_bytes(fd)} B does not have {size} B from {offset} on"
            area = area_at(guest, guest.areas)
            area.base = map_area(fd, offset, size, broken_of(guest), reserved_of(area), reserved_length_of(area))
            if not area.base:
                return f"{size} B of memory cannot be mapped"
            area.guest, area.size, area.user = address, size, user
            guest.areas += 1
        return ""

    def unmap(self):
        guest = self.guest
        for i in range(guest.areas):
            unmap_area(area_at(guest, i).reserved, area_at(guest, i).reserved_length)
        guest.areas = guest.last = 0

    def place(self, number, size, descriptors, available_at, used):
        """Find a ring's tables in the guest's memory; False: they are not there."""
        guest = self.guest
        a = find_table(guest, descriptors, DESCRIPTOR_BYTES * size, 16)
        b = find_table(guest, available_at, 6 + 2 * size, 2)
        c = find_table(guest, used, 6 + 8 * size, 4)
        if not a or not b or not c:
            return False
        ring = ring_at(guest, number)
        ring.descriptors, ring.available, ring.used, ring.size = a, b, c, size
        return True

    def begin(self, number, call):
        """Begin where the ring's memory says that its last user has ended: buffers are used in the order in which they came."""
        ring = ring_at(self.guest, number)
        ring.taken = ring.seen = ring.put = ring.shown = ring.told = once16(ring.used + 2)
        ring.call = call
        ring.quiet = 0
        quieten(self.guest, ring)

    def ring_state(self, number):
        """Where a ring is, for `set_ring`."""
        ring = ring_at(self.guest, number)
        return [ring.taken, ring.seen, ring.put, ring.shown, ring.told, ring.quiet]

    def set_ring(self, number, call, state):
        """Go on with a ring where another process has left it; its memory is as it was."""
        ring = ring_at(self.guest, number)
        ring.taken, ring.seen, ring.put, ring.shown, ring.told, ring.quiet = state
        ring.call = call

    def state(self):
        """Counters, and the super-frame that is being cut."""
        guest = self.guest
        found = {"bad_descriptors": guest.bad_descriptors, "signals": guest.signals, "broken": guest.broken}
        found["further_out"] = guest.further_out
        if guest.cutting:
            shape = shape_of_cut(cut_in(guest))
            found["cut"] = [shape.version, shape.ip, shape.tcp, shape.head, shape.size, *cut_numbers(guest)]
            found["uncut"] = PyBytes_FromStringAndSize(guest.uncut, shape.size + HEADER_BYTES).hex()
            found["segment"] = PyBytes_FromStringAndSize(guest.segment, guest.segment_length).hex()
        return found

    def take(self, found):
        guest = self.guest
        guest.bad_descriptors, guest.signals, guest.broken = found["bad_descriptors"], found["signals"], found["broken"]
        guest.further_out = found.get("further_out", 0)  # older versions do not say it
        self.before = guest.bad_descriptors - (1 if guest.broken else 0)
        if "cut" in found:
            shape = shape_of_cut(cut_in(guest))
            shape.version, shape.ip, shape.tcp, shape.head, shape.size = found["cut"][:5]
            set_cut_numbers(guest, found["cut"][5:])
            uncut, segment = bytes.fromhex(found["uncut"]), bytes.fromhex(found["segment"])
            memcpy(guest.uncut, PyBytes_AS_STRING(uncut), len(uncut))
            memcpy(guest.segment, PyBytes_AS_STRING(segment), len(segment))
            guest.segment_length = len(segment)
            guest.cutting = 1

    def end(self, number):
        """Show what was put, and return where the ring ends."""
        ring = ring_at(self.guest, number)
        if not self.guest.broken:
            show(self.guest, ring)
        return ring.taken

    def set_call(self, number, call):
        ring_at(self.guest, number).call = call

    def use(self, to_guest, from_guest):
        guest = self.guest
        guest.to_count = guest.from_count = guest.from_at = 0
        if guest.broken:
            return
        for i, number in enumerate(to_guest):
            guest.to_guest[i] = number
        for i, number in enumerate(from_guest):
            guest.from_guest[i] = number
        guest.to_count, guest.from_count = len(to_guest), len(from_guest)

    def clear(self):
        """Forget the guest."""
        self.use([], [])
        self.unmap()
        self.guest.broken = 0
        self.before = self.guest.bad_descriptors

    def signal(self, fd):
        signal_other(signaller_of(self.guest), fd)


def connect(handle):
    port = pointer_to(handle)
    guest = new_guest(handle)
    port.own = guest
    guest.header = HEADER_BYTES
    port.receive = vhost_receive
    port.send = vhost_send
    port.flush = vhost_flush
    return guest


def open_vhost(path, server, pairs, headers):
    handle = connected({"path": path, "server": server, "pairs": pairs, "headers": headers})
    handle.front.start()
    return handle


def connected(options, given=None):
    """A port whose thread has not begun; with what another process has `given`."""
    epoll = select.epoll()
    handle = PortHandle("vhost-user", epoll.fileno(), options["headers"], epoll.close)
    handle.name = options["path"]
    with contextlib.ExitStack() as on_failure:
        on_failure.callback(handle.close)
        rings = Rings(handle, epoll)
        handle.on_close(rings.close)
        peer = Peer(rings=rings, epoll=epoll, given=given, **options)
        handle.on_close(peer.close)
        on_failure.pop_all()
    handle.front, handle.report = peer, peer.row
    return handle


def give(handle):
    fds, numbers = handle.front.state()
    return Given(fds, numbers, b"")


def take(options, given):
    return connected({"server": True, "pairs": PAIRS, "headers": True, **options}, given)


def resume(handle, given):
    handle.front.go_on_from(given.numbers)


KIND = PortKind(
    "vhost-user",
    "a virtual machine (QEMU) or a DPDK program, in memory that it shares",
    [
        Option("path", socket_path, "of the unix socket between the port and its front end"),
        Option("server", boolean, "the port listens there; else the front end does", True),
        Option("pairs", between(1, MOST_PAIRS), "of queues that are offered", PAIRS),
        HEADERS,
    ],
    open_vhost,
    ["path", "server", "pairs", "super_frames", "broadcast"],
    ["path"],
    give=give,
    take=take,
    resume=resume,
)
