"""Broadcasts and multicasts between the ports of the kernel that take part: a copy to each of the others.

Copies go to the devices at once, beside the queues of flows: no flow control keeps them back.  So their rate is bounded by port,
and what a device has no room for is lost; both are counted.
"""

import cython

if not cython.compiled:
    from penstock.vswitch.dataplane.broadcast import FLOOD_BURST_NS, FLOOD_BYTES, FLOOD_NS, same_driver
    from penstock.vswitch.dataplane.driver_state import driver_of
    from penstock.vswitch.dataplane.flowtable import owner_of
    from penstock.vswitch.dataplane.prefixes import is_zero_ipv4
    from penstock.vswitch.dataplane.state import memset, port_at, short_at
    from penstock.vswitch.memory.layout import NO_HIGH, ethernet, mapped, memcpy, word_from
    from penstock.vswitch.ports.base import complete_copy, port_flush, port_send


def flood(worker, driver, frame, size, now):
    """Copy a frame, without its virtio_net_hdr of `size` bytes, to every other port that takes part; or count why not."""
    if not driver.broadcasts:
        driver.multicast += 1
        return
    if port_at(worker, driver.port).guarded and not may_flood(worker, driver, frame, size):
        driver.flood_spoofed += 1
        return
    due = max(driver.flood_at, now - FLOOD_BURST_NS)
    if due > now:
        driver.flood_limited += 1
        return
    driver.flood_at = due + FLOOD_NS
    for i in range(worker.driver_count):
        to = driver_of(worker.drivers[i])
        if to.broadcasts and not same_driver(driver, to):
            if send_copy(driver, to, frame, size):
                driver.flooded += 1
            else:
                to.flood_lost += 1


def send_copy(driver, to, frame, size):
    """Send a frame to another port, with a virtio_net_hdr if that takes one; False: it has no room."""
    header = to.kernel.header
    if header == driver.kernel.header:
        done = port_send(to.kernel, frame - header, size + header)
    elif header + size > FLOOD_BYTES:
        return False
    else:
        if header:
            memset(to.flood_frame, 0, header)
        memcpy(to.flood_frame + header, frame, size)
        if not header:
            complete_copy(frame - driver.kernel.header, to.flood_frame, size)
        done = port_send(to.kernel, to.flood_frame, header + size)
    port_flush(to.kernel)
    return done


def may_flood(worker, driver, frame, size):
    """Whether the source is one of the port's own addresses, or none yet, as of DHCP and duplicate address detection."""
    at = 14
    kind = short_at(frame, 12)
    if kind == 0x8100 and size >= 18:
        at = 18
        kind = short_at(frame, 16)
    if kind == 0x0800:
        if size < at + 20:
            return False
        source = mapped(frame + at + 12)
        return is_zero_ipv4(source) or owner_of(worker, 0, source) == driver.port
    if kind == 0x0806:
        if size < at + 28:
            return False
        source = mapped(frame + at + 14)
        return is_zero_ipv4(source) or owner_of(worker, 0, source) == driver.port
    if kind == 0x86DD:
        if size < at + 40:
            return False
        high = word_from(frame + at + 8)
        source = word_from(frame + at + 16)
        return (high == 0 and source == 0) or owner_of(worker, high, source) == driver.port
    return owner_of(worker, NO_HIGH, ethernet(frame + 6)) == driver.port


def is_carried(worker, driver, key):
    """Whether there may be a port for a frame; one that is not of IP, and has none, is counted here."""
    if key.words[0] != NO_HIGH or worker.scheme or owner_of(worker, NO_HIGH, key.words[3]) >= 0:
        return True
    driver.not_carried += 1
    return False
