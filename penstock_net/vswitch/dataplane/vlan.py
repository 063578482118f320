"""VLANs of ports: tags are put in and taken out between a device and the switch, inside of which every frame of a VLAN has one.

A port with `vlan` has untagged frames outside; one with `trunk` tagged ones, but for those of `native`.  A frame goes from a port
with VLANs only to a port that carries its VLAN; others are refused and counted.  Ports without them exchange frames as they are.
"""

import cython

if not cython.compiled:
    from penstock_net.vswitch.dataplane.driver_state import own_key
    from penstock_net.vswitch.dataplane.flowtable import owner_of
    from penstock_net.vswitch.dataplane.overlay import overlay_receive, overlay_send
    from penstock_net.vswitch.dataplane.parse import parse
    from penstock_net.vswitch.dataplane.state import byte_at, short_at
    from penstock_net.vswitch.dataplane.vlan import TAG_BYTES, TAGGED, carries, driver_at, memmove, vlan_of
    from penstock_net.vswitch.ports.base import VIRTIO_NET_HDR_F_NEEDS_CSUM, header_of, port_receive, port_send
    from penstock_net.vswitch.ports.segment import put_short

# ---- Tags ----


def may_meet(source, to, vlan):
    """Whether a frame of a VLAN (0: of none) may go from one port to another, of which NULL are an application's."""
    if (not source or not source.vlans) and (not to or not to.vlans):
        return True
    return to and carries(to, vlan) and (not source or not source.vlans or carries(source, vlan))


def shift_header(frame, count):
    """Change the offsets in a virtio_net_hdr after a tag was put in or taken out."""
    header = header_of(frame)
    if header.hdr_len:
        header.hdr_len += count
    if header.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM:
        header.csum_start += count


def without_tag(frame, header):
    """Take the tag out of a frame, which begins with `header` bytes of virtio_net_hdr; where it begins now."""
    memmove(frame + TAG_BYTES, frame, header + 12)
    if header:
        shift_header(frame + TAG_BYTES, -TAG_BYTES)
    return frame + TAG_BYTES


def with_tag(frame, header, vlan):
    """Put a tag into a frame that has room for it in front; where it begins now."""
    memmove(frame - TAG_BYTES, frame, header + 12)
    put_short(frame - TAG_BYTES + header + 12, TAGGED)
    put_short(frame - TAG_BYTES + header + 14, vlan)
    if header:
        shift_header(frame - TAG_BYTES, TAG_BYTES)
    return frame - TAG_BYTES


# ---- Frames that come in ----


def receive_queued(worker, driver, frame, room, now):
    """The next frame from a device with VLANs, stations, or another switch behind it: its bytes; 0: none now; -1: none yet."""
    if not driver.vlans:
        if driver.overlay:
            return overlay_receive(worker, driver, frame, room, now)
        return port_receive(driver.kernel, frame, room)
    length = receive_tagged(worker, driver, frame, room, now)
    if length <= 0:
        return length
    header = driver.kernel.header
    if length < header + 18 or not is_for_its_vlan(worker, driver, frame + header, length - header):
        driver.wrong_vlan_in += 1
        return -1
    return length


def receive_tagged(worker, driver, frame, room, now):
    """The same with its tag, whatever VLAN that is of."""
    if driver.overlay:
        return overlay_receive(worker, driver, frame, room, now)
    gap = TAG_BYTES if driver.untagged else 0
    length = port_receive(driver.kernel, frame + gap, room - gap)
    return give_tag(driver, frame, length, gap) if length >= driver.kernel.header + 18 and gap else length


def give_tag(driver, frame, length, gap):
    """Put the tag of untagged frames into a frame that begins after a gap, or close the gap if it has one; its bytes now."""
    header = driver.kernel.header
    if short_at(frame + gap + header, 12) != TAGGED:
        with_tag(frame + gap, header, driver.untagged)
        return length + TAG_BYTES
    memmove(frame, frame + gap, length)
    if vlan_of(frame + header) == 0:
        put_short(frame + header + 14, short_at(frame + header, 14) | driver.untagged)
    elif driver.is_access:
        put_short(frame + header + 14, 0)  # a tag is none of its business: of no VLAN
    return length


def is_for_its_vlan(worker, driver, frame, size):
    """Whether the port carries the frame's VLAN, and the port that it is for, if there is one."""
    vlan = vlan_of(frame)
    key = own_key(driver)
    if not carries(driver, vlan):
        return False
    if byte_at(frame, 0) & 1 or not parse(frame, size, 0, key):
        return True
    to = owner_of(worker, key.words[2], key.words[3])
    return to < 0 or may_meet(driver, driver_at(worker, to), vlan)


# ---- Frames that go out ----


def send_queued(driver, frame, length, now):
    """Send a frame to a device with VLANs or stations, or to another switch: 1, or 0 or -1 as overlay_send()."""
    header = driver.kernel.header
    if not driver.vlans:
        if driver.overlay:
            return overlay_send(driver, frame, length, now)
        return 1 if port_send(driver.kernel, frame, length) else 0
    vlan = vlan_of(frame + header) if length >= header + 18 else 0
    if not carries(driver, vlan):
        driver.wrong_vlan_out += 1
        return 1
    if driver.overlay:
        return overlay_send(driver, frame, length, now)
    if vlan != driver.untagged:
        return 1 if port_send(driver.kernel, frame, length) else 0
    word = short_at(frame + header, 14)
    if port_send(driver.kernel, without_tag(frame, header), length - TAG_BYTES):
        return 1
    with_tag(frame + TAG_BYTES, header, word)
    return 0
