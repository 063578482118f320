"""When each node of a worker has its next event: a tree of minima, eight to a block; a window visits only nodes that have one."""

import cython

if not cython.compiled:
    from penstock.fabric.state import NEVER, agenda_of, lowest_bit, new_int64, node_at, worker_at


def new_agenda(worker):
    """An agenda for the worker's nodes, without any event."""
    agenda = agenda_of(worker)
    count = worker.node_count
    agenda.levels = 0
    while agenda.levels == 0 or count > 1:
        blocks = max(1, (count + 7) >> 3)
        times = new_int64(worker.arena, 8 * blocks)
        for i in range(8 * blocks):
            times[i] = NEVER
        agenda.times[agenda.levels] = times
        agenda.levels += 1
        count = blocks


def least(times, block):
    """The smallest of a block's eight times."""
    soonest = NEVER
    for i in range(8 * block, 8 * block + 8):
        soonest = min(soonest, times[i])
    return soonest


def set_time(worker, place, time):
    """The time of a node's next event has changed."""
    agenda = agenda_of(worker)
    for level in range(agenda.levels):
        times = agenda.times[level]
        times[place] = time
        place >>= 3
        time = least(times, place)


def bring_forward(worker, place, time):
    """A node has an event at `time`, if it had none before it."""
    agenda = agenda_of(worker)
    for level in range(agenda.levels):
        times = agenda.times[level]
        if times[place] <= time:
            return
        times[place] = time
        place >>= 3


def next_time(worker):
    """The time of the worker's next event."""
    agenda = agenda_of(worker)
    return least(agenda.times[agenda.levels - 1], 0)


def take_mail(worker):
    """Nodes to which any worker has sent packets in the last window have something to do in this one."""
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
    """Forget to which nodes this worker has sent, when all have taken note."""
    for top in range(worker.world.mail_words):
        words = worker.mailed_words[parity][top]
        if words:
            worker.mailed_words[parity][top] = 0
            while words:
                worker.mailed[parity][64 * top + lowest_bit(words)] = 0
                words &= words - 1
