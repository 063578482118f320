"""A binary heap of flows by key: paced ones by the time of their next packet, ready ones by rank, timers.  Those of the same key
are in the order of a hash, so that none is always the first one."""

import cython

if not cython.compiled:
    from penstock_net.fabric.state import hash31
    from penstock_net.fabric.tables import new_keyed_refs


def sooner(heap, a, b):
    if a.key != b.key:
        return a.key < b.key
    if heap.seed:
        return goes_first(a.number, b.number, a.key ^ heap.seed)
    return a.number < b.number


def goes_first(number, other, seed):
    """Whether a number comes before another one in an order that the seed decides."""
    turn = hash31(number, seed)
    other_turn = hash31(other, seed)
    if turn != other_turn:
        return turn < other_turn
    return number < other


def put(heap, i, item):
    heap.items[i] = item
    item.heap_at = i


def sift_up(heap, i):
    item = heap.items[i]
    while i > 0 and sooner(heap, item, heap.items[(i - 1) >> 1]):
        put(heap, i, heap.items[(i - 1) >> 1])
        i = (i - 1) >> 1
    put(heap, i, item)


def sift_down(heap, i):
    item = heap.items[i]
    child = 2 * i + 1
    while child < heap.size:
        if child + 1 < heap.size and sooner(heap, heap.items[child + 1], heap.items[child]):
            child += 1
        if not sooner(heap, heap.items[child], item):
            break
        put(heap, i, heap.items[child])
        i = child
        child = 2 * i + 1
    put(heap, i, item)


def grow(arena, heap):
    capacity = max(16, 2 * heap.capacity)
    items = new_keyed_refs(arena, capacity)
    for i in range(heap.size):
        items[i] = heap.items[i]
    heap.items = items
    heap.capacity = capacity


def add(arena, heap, item):
    if heap.size == heap.capacity:
        grow(arena, heap)
    heap.size += 1
    put(heap, heap.size - 1, item)
    sift_up(heap, heap.size - 1)


def remove(heap, item):
    i = item.heap_at
    heap.size -= 1
    last = heap.items[heap.size]
    item.heap_at = -1
    if i < heap.size:
        put(heap, i, last)
        sift_down(heap, i)
        sift_up(heap, last.heap_at)


def fix(heap, item):
    """Restore the heap after the key of one of its items has changed."""
    sift_down(heap, item.heap_at)
    sift_up(heap, item.heap_at)
