"""Broadcasts and multicasts between kernel ports with `broadcast`: a copy to each of the others.

Copies are written to the devices at once and bypass the queues of flows, so flow control does not apply to them.  Their rate is
limited per port, and a copy for which a device has no room is lost; both are counted.
"""

import cython

if not cython.compiled:
    from penstock_net.vswitch.dataplane.broadcast import FLOOD_BURST_NS, FLOOD_BYTES, FLOOD_NS, same_driver, spare_frame
    from penstock_net.vswitch.dataplane.driver_state import driver_of
    from penstock_net.vswitch.dataplane.flowtable import owner_of
    from penstock_net.vswitch.dataplane.prefixes import is_zero_ipv4
    from penstock_net.vswitch.dataplane.state import memset, port_at, short_at
    from penstock_net.vswitch.dataplane.station_flows import port_to
    from penstock_net.vswitch.dataplane.vlan import TAG_BYTES, may_meet, vlan_of, with_tag, without_tag
    from penstock_net.vswitch.memory.layout import NO_HIGH, ethernet, mapped, memcpy, word_from
    from penstock_net.vswitch.ports.base import A_COPY, A_FRAME, complete_copy, port_flush, port_send, set_sends


def flood(worker, driver, frame, size, now):
    """Copy a frame of `size` bytes (without virtio_net_hdr) to every other port with `broadcast`; or count why not."""
    if not driver.broadcasts:
        driver.multicast += 1
        return
    if port_at(worker, driver.port).guarded and not may_flood(worker, driver, frame, size):
        driver.flood_spoofed += 1
        return
    if not is_due(driver, now):
        driver.flood_limited += 1
        return
    vlan = vlan_of(frame)
    for i in range(worker.driver_count):
        to = driver_of(worker.drivers[i])
        if to.broadcasts and not same_driver(driver, to) and may_meet(driver, to, vlan):
            copy_to(driver, to, frame, size, vlan)


def is_due(driver, now):
    """Whether a port may copy one more frame to others now."""
    due = max(driver.flood_at, now - FLOOD_BURST_NS)
    if due > now:
        return False
    driver.flood_at = due + FLOOD_NS
    return True


def copy_to(driver, to, frame, size, vlan):
    """Copy a frame to another port, and count it."""
    set_sends(to.kernel, A_COPY)
    if to.vlans and vlan == to.untagged:
        done = send_untagged(driver, to, frame, size)
    else:
        done = send_copy(driver, to, frame, size)
    set_sends(to.kernel, A_FRAME)
    if done:
        driver.flooded += 1
    else:
        to.flood_lost += 1


def send_untagged(driver, to, frame, size):
    """Send a frame of a VLAN to a port that has that one without tags outside."""
    header = driver.kernel.header
    word = short_at(frame, 14)
    without_tag(frame - header, header)
    done = send_copy(driver, to, frame + TAG_BYTES, size - TAG_BYTES)
    with_tag(frame - header + TAG_BYTES, header, word)
    return done


def send_copy(driver, to, frame, size):
    """Send a frame to another port, with a virtio_net_hdr if the port uses it; False: the port has no room."""
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
    """Whether the source address is one of the port's, or unspecified (DHCP, duplicate address detection)."""
    at = 14
    kind = short_at(frame, 12)
    if kind == 0x8100 and size >= 18:
        at = 18
        kind = short_at(frame, 16)
    if kind == 0x0800:
        if size < at + 20:
            return False
        source = mapped(frame + at + 12)
        return is_zero_ipv4(source) or is_its_own(worker, driver, 0, source)
    if kind == 0x0806:
        if size < at + 28:
            return False
        source = mapped(frame + at + 14)
        return is_zero_ipv4(source) or is_its_own(worker, driver, 0, source)
    if kind == 0x86DD:
        if size < at + 40:
            return False
        high = word_from(frame + at + 8)
        source = word_from(frame + at + 16)
        return (high == 0 and source == 0) or is_its_own(worker, driver, high, source)
    return is_its_own(worker, driver, NO_HIGH, ethernet(frame + 6))


def is_its_own(worker, driver, high, low_half):
    """Whether an address is one of a port, or may be one of its stations."""
    owner = owner_of(worker, high, low_half)
    return owner == driver.port or (owner < 0 and driver.learns)


def is_carried(worker, driver, key, now):
    """Whether a port may exist for a frame; a frame that is not IP and has no port is counted here."""
    if key.words[0] != NO_HIGH or worker.scheme or owner_of(worker, NO_HIGH, key.words[3]) >= 0:
        return True
    if worker.stations and port_to(worker, spare_frame(driver), now) >= 0:
        return True
    driver.not_carried += 1
    return False
