"""A hash map from flow keys to queue numbers, for the application's side of a region."""

import cython

if not cython.compiled:
    from penstock_net.vswitch.dataplane.flowmap import copy_key, name_at
    from penstock_net.vswitch.dataplane.flowtable import hash_of
    from penstock_net.vswitch.dataplane.state import same_key


def find_name(worker, names, key):
    """The number of a flow, or -1."""
    number = names.first[hash_of(worker, key) & names.mask] - 1
    while number >= 0 and not same_key(name_at(names, number), key):
        number = names.following[number] - 1
    return number


def add_name(worker, names, number, key):
    """Map a flow that has no number to a free one."""
    at = hash_of(worker, key) & names.mask
    copy_key(name_at(names, number), key)
    names.following[number] = names.first[at]
    names.first[at] = number + 1


def remove_name(worker, names, number):
    """Remove a number from the map."""
    at = hash_of(worker, name_at(names, number)) & names.mask
    if names.first[at] == number + 1:
        names.first[at] = names.following[number]
        return
    before = names.first[at] - 1
    while names.following[before] != number + 1:
        before = names.following[before] - 1
    names.following[before] = names.following[number]
