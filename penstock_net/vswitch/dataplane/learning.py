"""Learning of Ethernet addresses, and frames whose destination no port has: to the port that their station is behind.

A frame to a station that nobody has heard of is copied to all learning ports of its VLAN, as a broadcast is: at once, without
flow control, within the rate of broadcasts of its port.  All frames to known stations go through the queues of flows.
"""

import cython

if not cython.compiled:
    from penstock_net.vswitch.dataplane.broadcast import copy_to, is_due, may_flood, same_driver
    from penstock_net.vswitch.dataplane.driver_state import driver_of, own_key, put_mac
    from penstock_net.vswitch.dataplane.flowtable import owner_of
    from penstock_net.vswitch.dataplane.neighbours import learn, mac_for
    from penstock_net.vswitch.dataplane.parse import parse
    from penstock_net.vswitch.dataplane.state import byte_at, port_at
    from penstock_net.vswitch.dataplane.station_flows import port_to
    from penstock_net.vswitch.dataplane.stations import STATION_BEYOND, STATION_MOVED, refresh, see, station_word
    from penstock_net.vswitch.dataplane.vlan import driver_at, may_meet, vlan_of
    from penstock_net.vswitch.memory.layout import NO_HIGH, ethernet
    from penstock_net.vswitch.ports.base import header_of


def take_sender(worker, driver, frame, now):
    """Learn the Ethernet source of a frame from a learning port; False: it may not have that one, and is dropped."""
    mac = ethernet(frame + 6)
    word = station_word(vlan_of(frame), mac)
    if refresh(worker.stations, driver.port, word, now):
        return True
    if mac == 0 or byte_at(frame, 6) & 1:
        driver.station_spoofed += 1
        return False
    owner = owner_of(worker, NO_HIGH, mac)
    if owner == driver.port:
        return True
    if owner >= 0:
        if not port_at(worker, driver.port).guarded:
            return True
        driver.station_spoofed += 1
        return False
    found = see(worker.stations, driver.port, word, now)
    if found == STATION_BEYOND:
        driver.stations_beyond += 1
    elif found == STATION_MOVED:
        driver.stations_moved += 1
    else:
        driver.stations_learned += 1
    return True


def is_left(worker, driver, frame, size, now):
    """Whether a frame that is not of the link goes on into the queues; otherwise it was copied, or dropped, and counted."""
    key = own_key(driver)
    if not parse(frame, size, 0, key):
        return True
    if driver.learns and driver.mac == 0 and owner_of(worker, key.words[0], key.words[1]) == driver.port:
        learn(driver, key.words[0], key.words[1], ethernet(frame + 6))
    if key.words[0] != NO_HIGH and owner_of(worker, key.words[2], key.words[3]) >= 0:
        return True
    to = port_to(worker, frame, now)
    if to == driver.port:
        driver.same_port += 1
        return False
    if to >= 0 or (port_at(worker, driver.port).guarded and not may_flood(worker, driver, frame, size)):
        return True  # what it may not be is counted where its flow is looked for
    return not flood_unknown(worker, driver, frame, size, now)


def flood_unknown(worker, driver, frame, size, now):
    """Copy a frame to the other learning ports of its VLAN; False: there is none."""
    vlan = vlan_of(frame)
    found = False
    for i in range(worker.driver_count):
        to = driver_of(worker.drivers[i])
        if not to.learns or same_driver(driver, to) or not may_meet(driver, to, vlan):
            continue
        if not found:
            found = True
            driver.to_unknown += 1
            if not is_due(driver, now):
                driver.flood_limited += 1
                return True
        if driver.kernel.header and to.kernel.header == 0 and header_of(frame - driver.kernel.header).gso_type:
            to.flood_lost += 1
        else:
            copy_to(driver, to, frame, size, vlan)
    return found


def pass_on(worker, driver, frame, size, now):
    """Copy an answer to a request for an address, or a request to one address, to the port of its destination."""
    if not driver.in_domain:
        driver.multicast += 1
        return
    if port_at(worker, driver.port).guarded and not may_flood(worker, driver, frame, size):
        driver.flood_spoofed += 1
        return
    port = port_to(worker, frame, now)
    if port == driver.port:
        driver.of_the_link -= 1
        driver.same_port += 1
    elif port < 0:
        if flood_unknown(worker, driver, frame, size, now):
            driver.of_the_link -= 1
        else:
            driver.multicast += 1
    elif driver_at(worker, port) and may_meet(driver, driver_at(worker, port), vlan_of(frame)):
        if is_due(driver, now):
            copy_to(driver, driver_at(worker, port), frame, size, vlan_of(frame))
        else:
            driver.flood_limited += 1
    else:
        driver.multicast += 1


def address_frame(worker, driver, frame, size):
    """Put the Ethernet address of the device into a frame for an address of a learning port; one to a station has its own."""
    key = own_key(driver)
    if parse(frame, size, 0, key) and owner_of(worker, key.words[2], key.words[3]) == driver.port and key.words[0] != NO_HIGH:
        put_mac(frame, mac_for(driver, key))
