"""Segmentation of super-frames for ports that do not take them, at the port where they enter the switch.

Those of several UDP datagrams are always cut: a flow's share, and the room of the socket that they are for, count datagrams.
"""

import cython

if not cython.compiled:
    from penstock_net.vswitch.dataplane.cutting import cut_of, uncut_of
    from penstock_net.vswitch.dataplane.driver_state import own_key
    from penstock_net.vswitch.dataplane.flowtable import owner_of
    from penstock_net.vswitch.dataplane.parse import parse
    from penstock_net.vswitch.dataplane.state import port_at, view_of
    from penstock_net.vswitch.dataplane.station_flows import port_to
    from penstock_net.vswitch.memory.layout import memcpy
    from penstock_net.vswitch.ports.base import header_of
    from penstock_net.vswitch.ports.segment import GSO_UDP_L4, VNET, begin_cut, next_segment


def next_cut(driver, frame):
    """Write the next segment of the super-frame in progress to `frame`; returns its length, or 0 if there is none."""
    if not driver.cuts:
        return 0
    length = next_segment(cut_of(driver), uncut_of(driver), frame)
    driver.cuts = 1 if length else 0
    return length


def cut_if_needed(worker, driver, frame, length):
    """Start to segment a received super-frame if it is to be; returns the length of the frame now in `frame`."""
    size = length - driver.kernel.header
    if driver.cuts or driver.kernel.header == 0 or size <= 0 or header_of(frame).gso_type == 0:
        return length
    room = length
    if header_of(frame).gso_type != GSO_UDP_L4:
        to = receiver_of(worker, driver, frame, size)
        if to < 0 or port_at(worker, to).prefix:
            return length
        room = VNET + view_of(port_at(worker, to)).buffer_bytes
    memcpy(uncut_of(driver), frame, length)
    if not begin_cut(cut_of(driver), uncut_of(driver), length, room):
        return length
    driver.cuts = 1
    driver.cut_frames += 1
    return next_cut(driver, frame)


def receiver_of(worker, driver, frame, size):
    """The port that a frame of `size` bytes after its header is for; -1: it is not known."""
    key = own_key(driver)
    if not parse(frame + driver.kernel.header, size, 0, key):
        return -1
    to = owner_of(worker, key.words[2], key.words[3])
    if to < 0 and worker.stations:
        to = port_to(worker, frame + driver.kernel.header, 0)
    return to
