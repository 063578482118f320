"""Ethernet addresses at a kernel port: answers to ARP and IPv6 neighbour discovery, and learning from senders."""

import cython

if not cython.compiled:
    from penstock_net.vswitch.dataplane.driver_state import LEARNED, clear_bytes, learned_at
    from penstock_net.vswitch.dataplane.flowtable import owner_of
    from penstock_net.vswitch.dataplane.neighbours import ADVERTISEMENT_BYTES, ARP_BYTES, GROUP
    from penstock_net.vswitch.dataplane.state import short_at
    from penstock_net.vswitch.dataplane.vlan import TAG_BYTES, driver_at, may_meet, memmove, with_tag
    from penstock_net.vswitch.memory.layout import ethernet, mapped, memcpy, word_from
    from penstock_net.vswitch.ports.base import A_COPY, A_FRAME, port_flush, port_send, set_sends
    from penstock_net.vswitch.ports.segment import internet_sum, put_short


def answer_address_request(worker, driver, frame, size):
    """Answer an ARP request for another port's address with an Ethernet address derived from it; False: it is for stations."""
    if size < ARP_BYTES or short_at(frame, 14) != 1 or short_at(frame, 16) != 0x0800:
        return True
    if short_at(frame, 20) != 1:
        return not worker.stations
    target = mapped(frame + 38)
    owner = owner_of(worker, 0, target)
    if owner < 0:
        return not worker.stations
    if owner == driver.port or not may_meet(driver, driver_at(worker, owner), driver.vlan):
        return True
    if driver.rewrites and driver.mac == 0 and owner_of(worker, 0, mapped(frame + 28)) == driver.port:
        learn(driver, 0, mapped(frame + 28), ethernet(frame + 22))
    header = driver.kernel.header
    reply = driver.reply + header
    clear_bytes(driver.reply, 128)
    memcpy(reply, frame + 22, 6)  # to the one that asked, from 02:00 and the address
    put_short(reply + 6, 0x0200)
    memcpy(reply + 8, frame + 38, 4)
    memcpy(reply + 12, frame + 12, 8)
    put_short(reply + 20, 2)
    memcpy(reply + 22, reply + 6, 6)
    memcpy(reply + 28, frame + 38, 4)
    memcpy(reply + 32, frame + 22, 10)
    send_reply(driver, header + ARP_BYTES)
    return True


def answer_solicitation(worker, driver, frame, size):
    """The same for IPv6 (RFC 4861); False: not for an address of another port, or duplicate address detection."""
    owner = owner_of(worker, word_from(frame + 62), word_from(frame + 70))
    if owner < 0 or owner == driver.port or not may_meet(driver, driver_at(worker, owner), driver.vlan):
        return False
    if word_from(frame + 22) == 0 and word_from(frame + 30) == 0:
        return False
    if driver.rewrites and driver.mac == 0 and owner_of(worker, word_from(frame + 22), word_from(frame + 30)) == driver.port:
        learn(driver, word_from(frame + 22), word_from(frame + 30), ethernet(frame + 6))
    header = driver.kernel.header
    reply = driver.reply + header
    clear_bytes(driver.reply, 128)
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
    send_reply(driver, header + ADVERTISEMENT_BYTES)
    return True


def send_reply(driver, length):
    """Send the answer, with a tag if the request had one outside."""
    if driver.vlan != driver.untagged:
        memmove(driver.reply + TAG_BYTES, driver.reply, length)
        with_tag(driver.reply + TAG_BYTES, driver.kernel.header, driver.vlan)
        length += TAG_BYTES
    set_sends(driver.kernel, A_COPY)
    done = port_send(driver.kernel, driver.reply, length)
    set_sends(driver.kernel, A_FRAME)
    if done:
        driver.answered += 1
        port_flush(driver.kernel)


def learn(driver, high, low_half, mac):
    """Store the Ethernet address of a frame's sender, unless it is that of a group, or none: no sender has such a one."""
    if mac == 0 or mac & GROUP:
        return
    for i in range(driver.learned_count):
        seen = learned_at(driver, i)
        if seen.low == low_half and seen.high == high:
            seen.mac = mac
            return
    if driver.learned_count < LEARNED:
        seen = learned_at(driver, driver.learned_count)
        seen.high = high
        seen.low = low_half
        seen.mac = mac
        driver.learned_count += 1


def mac_for(driver, key):
    """The destination Ethernet address of a frame to the device; broadcast if it is not known."""
    if driver.mac:
        return driver.mac
    for i in range(driver.learned_count):
        seen = learned_at(driver, i)
        if seen.low == key.words[3] and seen.high == key.words[2]:
            return seen.mac
    return 0xFFFFFFFFFFFF
