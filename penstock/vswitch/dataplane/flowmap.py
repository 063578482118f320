"""A hash map from flow keys to queue numbers, for the application's side of a region."""

import cython

if not cython.compiled:
    from penstock.vswitch.dataplane.flowmap import copy_key, name_at
    from penstock.vswitch.dataplane.flowtable import hash_of
    from penstock.vswitch.dataplane.state import same_key


def find_name(worker, names, key):
    """The number of a flow, or -1."""
    number = names.first[hash_of(worker, key) & names.mask] - 1
    while number >= 0 and not same_key(name_at(names, number), key):
        number = names.following[number] - 1
    return number


def add_name(worker, names, number, key):
    """Give a number, which is free, to a flow that has none."""
    at = hash_of(worker, key) & names.mask
    copy_key(name_at(names, number), key)
    names.following[number] = names.first[at]
    names.first[at] = number + 1


def remove_name(worker, names, number):
    """Take a number away from its flow."""
    at = hash_of(worker, name_at(names, number)) & names.mask
    if names.first[at] == number + 1:
        names.first[at] = names.following[number]
        return
    before = names.first[at] - 1
    while names.following[before] != number + 1:
        before = names.following[before] - 1
    names.following[before] = names.following[number]
