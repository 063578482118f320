"""Segmentation of super-frames: at the port where they enter the switch if the port that they are for takes none.

Those of several UDP datagrams go whole to devices that take super-frames, and are cut when they leave: so a flow from a device
may hold as many of them as other frames.  There they are datagrams for the room of a socket, and the device may join them again.
The switch counts one as one frame; what it is cut into, beyond one, is counted as `further_in` and `further_out`.
"""

import cython

if not cython.compiled:
    from penstock_net.vswitch.dataplane.cutting import cut_of, datagram_of, leaving_of, uncut_of
    from penstock_net.vswitch.dataplane.driver_state import own_key, rxq_at
    from penstock_net.vswitch.dataplane.flowtable import owner_of
    from penstock_net.vswitch.dataplane.parse import parse
    from penstock_net.vswitch.dataplane.socket_room import FURTHER_BYTES, FURTHER_READ, store_in
    from penstock_net.vswitch.dataplane.state import port_at, view_of
    from penstock_net.vswitch.dataplane.station_flows import port_to
    from penstock_net.vswitch.memory.layout import memcpy
    from penstock_net.vswitch.ports.base import FRAME_BYTES, absent_send, header_of, octet
    from penstock_net.vswitch.ports.segment import VNET, begin_cut, is_of_datagrams, next_length, next_segment, shape_of_cut


def next_cut(driver, frame):
    """Write the next segment of the super-frame in progress to `frame`; returns its length, or 0 if there is none."""
    if not driver.cuts:
        return 0
    length = next_segment(cut_of(driver), uncut_of(driver), frame)
    if length:
        driver.further_in += 1
    else:
        driver.cuts = 0
    return length


def cut_if_needed(worker, driver, frame, length, now):
    """Start to segment a received super-frame if it is to be; returns the length of the frame now in `frame`, or -1: its header
    lies about its datagrams."""
    size = length - driver.kernel.header
    if driver.kernel.header == 0 or size <= 0 or header_of(frame).gso_type == 0:
        return length
    room = length
    datagrams = is_of_datagrams(frame)
    if datagrams and not is_told_truly(driver, frame, length):
        driver.malformed += 1
        return -1
    to = receiver_of(worker, driver, frame, size, now)
    if datagrams and octet(frame, VNET) & 1:  # it may be copied to ports of any kind
        to = -1
    if to >= 0 and port_at(worker, to).prefix:
        return length
    if not datagrams:
        if to < 0:
            return length
        room = VNET + view_of(port_at(worker, to)).buffer_bytes
    memcpy(uncut_of(driver), frame, length)
    if not begin_cut(cut_of(driver), uncut_of(driver), length, room):
        return length
    driver.cuts = 1
    driver.cut_frames += 1
    driver.further_in -= 1
    return next_cut(driver, frame)


def is_told_truly(driver, frame, length):
    """Whether a frame consists of datagrams as its header says; then the edge is told what the kernel counts for them."""
    cut = cut_of(driver)
    if not begin_cut(cut, frame, length, length):
        return False
    if driver.limited:
        further = (cut.total - 1) // cut.most
        store_in(driver.table, FURTHER_READ, driver.table[FURTHER_READ] + further)
        store_in(driver.table, FURTHER_BYTES, driver.table[FURTHER_BYTES] + further * shape_of_cut(cut).head)
    return True


def receiver_of(worker, driver, frame, size, now):
    """The port that a frame of `size` bytes after its header is for; -1: it is not known."""
    key = own_key(driver)
    if not parse(frame + driver.kernel.header, size, 0, key):
        return -1
    to = owner_of(worker, key.words[2], key.words[3])
    if to < 0 and worker.stations:
        to = port_to(worker, frame + driver.kernel.header, now)
    return to


def give_up_cut(driver):
    """Make no more of the super-frame in progress; of how many something is lost: 1, or 0."""
    lost = 1 if driver.cuts and cut_of(driver).at < cut_of(driver).total else 0
    driver.cuts = 0
    return lost


def cut_row(driver, by_port):
    """Super-frames that were cut as they came in, and what was made beyond one of each: of what came in, of what went out.

    by_port   what the kernel port has made of those that went out
    """
    return {"cut_frames": driver.cut_frames, "further_in": driver.further_in, "further_out": driver.further_out + by_port}


def count_cut_before(driver, frames_in):
    """Count what an older version has made by cutting, of which it has told how many frames were cut only."""
    if driver.cut_frames and not driver.further_in:
        went = driver.put + driver.malformed + driver.of_the_link + driver.not_carried + driver.wrong_vlan_in
        driver.further_in = went + driver.station_spoofed + driver.same_port + driver.to_unknown - frames_in


# ---- Datagrams that go out ----


def begin_datagram(driver, number, frame, length):
    """The bytes of the next datagram of the first frame of a receive queue as a frame; 0: it goes out as it is."""
    if not is_of_datagrams(frame) or driver.overlay or driver.kernel.send == absent_send:
        return 0
    cut = leaving_of(driver)
    if not begin_cut(cut, frame, length, FRAME_BYTES):
        return 0
    cut.at = rxq_at(driver, number).gone
    return next_length(cut)


def make_datagram(driver, frame):
    """Make the datagram that was begun; where it is."""
    next_segment(leaving_of(driver), frame, datagram_of(driver))
    return datagram_of(driver)
