"""What the sockets behind a device have lost: the kernel says of each how much since it was opened.

A list of all sockets makes a table, in which the next list finds what each had lost before.
"""

import cython

if not cython.compiled:
    from penstock_net.vswitch.dataplane.socket_drops import clear_drops, drops_at, free, new_drops, slot_of


def make_drops(table):
    for i in range(2):
        table.drops[i] = new_drops(64)
        table.mask[i] = 63


def free_drops(table):
    for i in range(2):
        free(table.drops[i])


def drops_before(table, cookie):
    """Those of a socket in the last list; or the place of a socket that was not in it, whose cookie is 0."""
    slot = slot_of(cookie, table.mask[1])
    while drops_at(table.drops[1], slot).cookie and drops_at(table.drops[1], slot).cookie != cookie:
        slot = (slot + 1) & table.mask[1]
    return drops_at(table.drops[1], slot)


def note_drops(table, cookie, count):
    """Add what a socket has lost since the look before, in a list of all."""
    before = drops_before(table, cookie)
    table.lost += max(0, count - (before.count if before.cookie else 0))
    if 2 * table.sockets[0] >= table.mask[0] and not make_room_for_drops(table):
        return
    slot = slot_of(cookie, table.mask[0])
    while drops_at(table.drops[0], slot).cookie:
        slot = (slot + 1) & table.mask[0]
    drops_at(table.drops[0], slot).cookie = cookie
    drops_at(table.drops[0], slot).count = count
    table.sockets[0] += 1


def note_drops_of_one(table, cookie, count):
    """The same of a socket that was asked for alone: it was in the last list."""
    before = drops_before(table, cookie)
    if before.cookie:
        table.lost += max(0, count - before.count)
        before.count = count


def end_list(table):
    """The list is complete: what it says is what was before, from now on."""
    drops = table.drops[1]
    mask = table.mask[1]
    table.drops[1], table.mask[1], table.sockets[1] = table.drops[0], table.mask[0], table.sockets[0]
    table.drops[0], table.mask[0], table.sockets[0] = drops, mask, 0
    clear_drops(drops, mask + 1)


def make_room_for_drops(table):
    """Double the table of this list; False: no memory."""
    size = table.mask[0] + 1
    larger = new_drops(2 * size)
    if not larger:
        return False
    for i in range(size):
        if drops_at(table.drops[0], i).cookie:
            slot = slot_of(drops_at(table.drops[0], i).cookie, 2 * size - 1)
            while drops_at(larger, slot).cookie:
                slot = (slot + 1) & (2 * size - 1)
            larger[slot] = table.drops[0][i]
    free(table.drops[0])
    table.drops[0] = larger
    table.mask[0] = 2 * size - 1
    return True
