"""The table of stations: which learning port an Ethernet address is behind, by VLAN, as the frames that come from it say.

A port has a number of stations that it may have, which are kept for it: so no port's frames take a place from another port's
station.  A station is forgotten when nothing has come from it for its port's `idle_ns`; those of a port are in a list, the one
that has been quiet for longest first.  One worker uses the table, for a switch with learning ports has one.
"""

import cython

if not cython.compiled:
    from penstock_net.vswitch.dataplane.stations import (
        STATION_BEYOND,
        STATION_MOVED,
        STATION_NEW,
        STATION_SLOTS,
        first_slot,
        list_of,
        mac_of_word,
        station_at,
    )


def slot_for(stations, word):
    """Where an address is in the index; if it is not there, the empty slot where it would be."""
    at = first_slot(stations, word)
    while stations.index[at] and station_at(stations, stations.index[at] - 1).word != word:
        at = (at + 1) & (STATION_SLOTS - 1)
    return at


def is_forgotten(stations, station, now):
    """Whether nothing has come from a station for so long that it counts as forgotten, though it is still in the table."""
    return now - station.seen_at > list_of(stations, station.port).idle_ns


def port_behind(stations, word, now):
    """The port that a station is behind, or -1."""
    at = slot_for(stations, word)
    if stations.index[at] == 0:
        return -1
    station = station_at(stations, stations.index[at] - 1)
    return -1 if is_forgotten(stations, station, now) else station.port


def refresh(stations, port, word, now):
    """Note a frame from a station; False: it is not known to be behind this port."""
    number = stations.index[slot_for(stations, word)] - 1
    if number < 0:
        return False
    station = station_at(stations, number)
    if station.port != port or is_forgotten(stations, station, now):
        return False
    station.seen_at = now
    if station.newer:
        leave_list(stations, number)
        join_list(stations, number, port)
    return True


def see(stations, port, word, now):
    """A frame has come by a port from an address that is not known to be behind it."""
    number = stations.index[slot_for(stations, word)] - 1
    if number >= 0 and is_forgotten(stations, station_at(stations, number), now):
        forget(stations, number)
        number = -1
    if not has_room(stations, port, now):
        return STATION_BEYOND
    if number >= 0:
        station_at(stations, number).seen_at = now
        leave_list(stations, number)
        join_list(stations, number, port)
        return STATION_MOVED
    number = stations.free_number - 1
    if number >= 0:
        stations.free_number = station_at(stations, number).older
    else:
        number = stations.top
        stations.top += 1
    station = station_at(stations, number)
    station.word = word
    station.seen_at = now
    stations.index[slot_for(stations, word)] = number + 1
    join_list(stations, number, port)
    return STATION_NEW


def has_room(stations, port, now):
    """Whether a port may have one more station; one that counts as forgotten makes room."""
    own = list_of(stations, port)
    return own.count < own.most or forget_idle(stations, port, now, 1) > 0


def join_list(stations, number, port):
    """Append a station to those of a port."""
    own, station = list_of(stations, port), station_at(stations, number)
    station.port = port
    station.older = own.newest
    station.newer = 0
    if own.newest:
        station_at(stations, own.newest - 1).newer = number + 1
    else:
        own.oldest = number + 1
    own.newest = number + 1
    own.count += 1


def leave_list(stations, number):
    """Take a station out of those of its port."""
    station = station_at(stations, number)
    own = list_of(stations, station.port)
    if station.older:
        station_at(stations, station.older - 1).newer = station.newer
    else:
        own.oldest = station.newer
    if station.newer:
        station_at(stations, station.newer - 1).older = station.older
    else:
        own.newest = station.older
    own.count -= 1


def forget(stations, number):
    """Remove a station; later entries of its probe sequence move up."""
    station = station_at(stations, number)
    leave_list(stations, number)
    hole = slot_for(stations, station.word)
    stations.index[hole] = 0
    at = (hole + 1) & (STATION_SLOTS - 1)
    while stations.index[at]:
        home = first_slot(stations, station_at(stations, stations.index[at] - 1).word)
        if ((at - home) & (STATION_SLOTS - 1)) >= ((at - hole) & (STATION_SLOTS - 1)):
            stations.index[hole] = stations.index[at]
            stations.index[at] = 0
            hole = at
        at = (at + 1) & (STATION_SLOTS - 1)
    station.port = -1
    station.older = stations.free_number
    stations.free_number = number + 1


def forget_idle(stations, port, now, most):
    """Remove stations of a port that count as forgotten, at most so many; how many."""
    own = list_of(stations, port)
    count = 0
    while count < most and own.oldest and is_forgotten(stations, station_at(stations, own.oldest - 1), now):
        forget(stations, own.oldest - 1)
        count += 1
    return count


def forget_all(stations, port):
    """Remove all stations of a port."""
    own = list_of(stations, port)
    while own.oldest:
        forget(stations, own.oldest - 1)


def forget_mac(stations, mac):
    """Remove an address in all VLANs, since a port has it now."""
    for i in range(stations.top):
        if station_at(stations, i).port >= 0 and mac_of_word(station_at(stations, i).word) == mac:
            forget(stations, i)
