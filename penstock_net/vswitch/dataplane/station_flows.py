"""Flows to stations, which frames find by their Ethernet address, and the flows that frames share which get none of their own.

Addresses of ports come first: a frame whose destination is one of these never gets here.  The key of a flow to a station has
VLAN and Ethernet address of the destination, so that one flow has one way; of an IPv6 destination it has the lower half only.
"""

import cython

if not cython.compiled:
    from penstock_net.vswitch.dataplane.flowtable import find_flow, flow_between, host_of, may_send_from, owner_of, renew_flow
    from penstock_net.vswitch.dataplane.state import NO_FLOW, NO_QUEUE, NO_ROUTE, SPOOFED, byte_at, flow_at, no_flow, port_at
    from penstock_net.vswitch.dataplane.station_flows import TO_STATION
    from penstock_net.vswitch.dataplane.stations import port_behind, station_word
    from penstock_net.vswitch.dataplane.vlan import driver_at, may_meet, vlan_of
    from penstock_net.vswitch.memory.layout import NO_HIGH, ethernet


def other_flow(worker, port, key, reason, now):
    """The flow of a frame, of which new_flow() says why it has none: to a station, or one to share; NULL: `worker.reason`."""
    if reason == NO_ROUTE and worker.stations:
        return flow_to_station(worker, port, key, now)
    if reason != NO_QUEUE and reason != NO_FLOW:
        worker.reason = reason
        return no_flow()
    return shared_flow(worker, port, port_at(worker, owner_of(worker, key.words[2], key.words[3])), key, reason)


def shared_flow(worker, port, to, key, reason):
    """Another flow between two ports, whose receive queue is shared; or NULL."""
    worker.reason = reason
    flow = host_of(worker, port, to, key)
    if flow:
        port.shared += 1
    return flow


def flow_to_station(worker, port, key, now):
    """The flow of the frame in `worker.header`, which no port has the destination of; a station that has moved gets a new one."""
    frame = worker.header
    worker.reason = NO_ROUTE
    target = port_to(worker, frame, now)
    if target < 0 or not may_meet(driver_at(worker, port.number), driver_at(worker, target), vlan_of(frame)):
        return no_flow()
    worker.reason = SPOOFED
    if port.guarded and not (port.learns or may_use_mac(worker, port, ethernet(frame + 6))):
        return no_flow()
    if port.guarded and not may_send_from(worker, port, key):
        return no_flow()
    key.words[2] = station_word(vlan_of(frame), ethernet(frame))
    key.words[4] |= TO_STATION
    flow = find_flow(worker, key)
    if flow:
        if flow.target == target:
            return flow
        renew_flow(worker, flow)
    number = flow_between(worker, port, port_at(worker, target), key, now)
    if number >= 0:
        return flow_at(worker, number)
    return shared_flow(worker, port, port_at(worker, target), key, -1 - number)


def port_to(worker, frame, now):
    """The port of a frame's Ethernet destination: the one that has it as an address, or that it is a station of; or -1."""
    if byte_at(frame, 0) & 1:
        return -1
    port = port_behind(worker.stations, station_word(vlan_of(frame), ethernet(frame)), now)
    return port if port >= 0 else owner_of(worker, NO_HIGH, ethernet(frame))


def may_use_mac(worker, port, mac):
    """Whether an Ethernet address is one of those of a port."""
    return owner_of(worker, NO_HIGH, mac) == port.number
