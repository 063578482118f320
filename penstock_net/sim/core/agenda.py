"""When each node of a worker has its next event: a tree of minima, eight to a block; a window visits only nodes that have one.

The tree comes from sim/lookahead.py.  Nodes that short links join are the only ones below some block, their group: it runs to
the end of a window in steps, each as long as the shortest link within.
"""

import cython

if not cython.compiled:
    from penstock_net.fabric.state import NEVER, agenda_of, lowest_bit, node_at, worker_at
    from penstock_net.fabric.tables import new_int32, new_int64, new_node_refs


def new_agenda(worker, above, steps, numbers):
    """The worker's agenda, without any event.  By block: its place in the block above (-1: none), and its steps, ps; by place:
    the number of the node there, or -1.  A place is 8 * block + 0..7; the last block is the top."""
    agenda = agenda_of(worker)
    arena = worker.arena
    agenda.blocks = len(steps)
    agenda.root = agenda.blocks - 1
    agenda.times = new_int64(arena, 8 * agenda.blocks)
    agenda.steps = new_int64(arena, agenda.blocks)
    agenda.above = new_int32(arena, agenda.blocks)
    agenda.below = new_int32(arena, 8 * agenda.blocks)
    worker.nodes = new_node_refs(arena, 8 * agenda.blocks)
    for place in range(8 * agenda.blocks):
        agenda.times[place] = NEVER
        if numbers[place] >= 0:
            node = node_at(worker.world, numbers[place])
            node.worker = worker
            node.place = place
            worker.nodes[place] = node
            worker.node_count += 1
    for block in range(agenda.blocks):
        agenda.steps[block] = steps[block]
        agenda.above[block] = above[block]
        if above[block] >= 0:
            agenda.below[above[block]] = block


def forget_end(worker):
    """Discard the lower bound on the end of the run: flows were added, or link rates changed."""
    agenda = agenda_of(worker)
    agenda.busy_by[0] = 0
    agenda.busy_by[1] = 0
    agenda.busy_until = 0
    agenda.look_at = 0


def least(times, block):
    """The earliest of a block's eight times."""
    soonest = NEVER
    for i in range(8 * block, 8 * block + 8):
        soonest = min(soonest, times[i])
    return soonest


def set_time(worker, place, time):
    """Update the time of a node's next event."""
    agenda = agenda_of(worker)
    while place >= 0:
        agenda.times[place] = time
        time = least(agenda.times, place >> 3)
        place = agenda.above[place >> 3]


def bring_forward(worker, place, time):
    """Lower the time of a node's next event to `time`, if that is earlier."""
    agenda = agenda_of(worker)
    while place >= 0 and agenda.times[place] > time:
        agenda.times[place] = time
        place = agenda.above[place >> 3]


def next_time(worker):
    """The time of the worker's next event."""
    return least(agenda_of(worker).times, agenda_of(worker).root)


def take_mail(worker):
    """Schedule the nodes that were sent packets in the last window, by any worker."""
    world = worker.world
    parity = worker.parity ^ 1
    for i in range(world.worker_count):
        other = worker_at(world, i)
        for top in range(world.mail_words):
            words = other.mailed_words[parity][top]
            while words:
                word = 64 * top + lowest_bit(words)
                words &= words - 1
                nodes = other.mailed[parity][word] & worker.own[word]
                while nodes:
                    node = node_at(world, 64 * word + lowest_bit(nodes))
                    nodes &= nodes - 1
                    bring_forward(worker, node.place, worker.window_start)


def clear_mail(worker, parity):
    """Clear this worker's list of nodes that it has sent packets to, once all workers have read it."""
    for top in range(worker.world.mail_words):
        words = worker.mailed_words[parity][top]
        if words:
            worker.mailed_words[parity][top] = 0
            while words:
                worker.mailed[parity][64 * top + lowest_bit(words)] = 0
                words &= words - 1
