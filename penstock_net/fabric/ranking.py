"""The packets of a port's first queue in the order of the ranks that a scheme's rank_packet gives them.

The packets of a flow are its backlog, in the order of their arrival.  Two heaps order the backlogs of a port: by the packet of
the smallest rank, the earliest of these, and by the one of the largest, the latest.  While the ranks of a flow's packets fall or
stay, as bytes left do on one path, a packet costs the logarithm of the number of flows.  In a backlog in which a rank has risen,
the next best and worst packets are searched for when these leave.
"""

import cython

if not cython.compiled:
    from penstock_net.fabric.heap import add, fix, remove
    from penstock_net.fabric.state import (
        MOST_ARRIVALS,
        NO_BACKLOG,
        NO_PACKET,
        best_of,
        first_standing,
        heap_of_best,
        heap_of_worst,
        keyed_standing,
        one_backlog,
        queue_at,
        rank_of,
        ranking_at,
        standing_in,
        worst_of,
    )
    from penstock_net.fabric.tables import new_backlog_refs, new_backlogs


def ranking_of(node, port):
    return ranking_at(node.worker.world, node.first_port + port.slot)


# ---- Backlogs by number of their flow: a hash table for each port ----


def bucket_of(ranking, number):
    return ((number * 1640531527) & 0x7FFFFFFF) >> (31 - ranking.bits)


def find_backlog(ranking, number):
    if ranking.backlogs == 0:
        return NO_BACKLOG
    backlog = ranking.buckets[bucket_of(ranking, number)]
    while backlog and backlog.number != number:
        backlog = backlog.next
    return backlog


def put_backlog(ranking, backlog):
    i = bucket_of(ranking, backlog.number)
    backlog.next = ranking.buckets[i]
    ranking.buckets[i] = backlog


def grow_buckets(node, ranking):
    """Twice as many buckets, or the first 16."""
    old = ranking.buckets
    count = 1 << ranking.bits
    ranking.bits = ranking.bits + 1 if old else 4
    ranking.buckets = new_backlog_refs(node.worker.arena, 1 << ranking.bits)
    if old:
        for i in range(count):
            backlog = old[i]
            while backlog:
                following = backlog.next
                put_backlog(ranking, backlog)
                backlog = following


def open_backlog(node, ranking, number):
    worker = node.worker
    if not ranking.buckets or ranking.backlogs >= 1 << ranking.bits:
        grow_buckets(node, ranking)
    backlog = worker.free_backlog
    if backlog:
        worker.free_backlog = backlog.next
    else:
        backlog = one_backlog(new_backlogs(worker.arena, 1))
    backlog.number = number
    backlog.falling = 1
    backlog.ranking = ranking
    backlog.head = NO_PACKET
    put_backlog(ranking, backlog)
    ranking.backlogs += 1
    return backlog


def close_backlog(node, ranking, backlog):
    """Remove a backlog whose last packet has left."""
    remove(heap_of_best(ranking), keyed_standing(best_of(backlog)))
    remove(heap_of_worst(ranking), keyed_standing(worst_of(backlog)))
    i = bucket_of(ranking, backlog.number)
    other = ranking.buckets[i]
    if other == backlog:
        ranking.buckets[i] = backlog.next
    else:
        while other.next != backlog:
            other = other.next
        other.next = backlog.next
    ranking.backlogs -= 1
    if ranking.backlogs == 0:
        ranking.arrivals = 0
    backlog.next = node.worker.free_backlog
    node.worker.free_backlog = backlog


# ---- A packet is queued, leaves ----


def stand_best(node, backlog, pkt):
    """Record the best packet of a flow without updating the heap."""
    best = best_of(backlog)
    best.packet = pkt
    best.key = rank_of(node, pkt).rank
    best.number = rank_of(node, pkt).arrival


def stand_worst(node, backlog, pkt):
    worst = worst_of(backlog)
    worst.packet = pkt
    worst.key = ~rank_of(node, pkt).rank
    worst.number = ~rank_of(node, pkt).arrival


def set_best(node, ranking, backlog, pkt):
    stand_best(node, backlog, pkt)
    fix(heap_of_best(ranking), keyed_standing(best_of(backlog)))


def set_worst(node, ranking, backlog, pkt):
    stand_worst(node, backlog, pkt)
    fix(heap_of_worst(ranking), keyed_standing(worst_of(backlog)))


def renumber(node, ranking, queue):
    """Count arrivals from 0 again; their order stays."""
    ranking.arrivals = 0
    pkt = queue.head
    while pkt:
        rank_of(node, pkt).arrival = ranking.arrivals
        ranking.arrivals += 1
        pkt = pkt.next
    for i in range(ranking.backlogs):
        best = standing_in(heap_of_best(ranking), i)
        best.number = rank_of(node, best.packet).arrival
        worst = standing_in(heap_of_worst(ranking), i)
        worst.number = ~rank_of(node, worst.packet).arrival


def insert(node, port, queue, pkt, rank):
    """Insert the last packet of a queue with this rank."""
    ranking = ranking_of(node, port)
    if ranking.arrivals == MOST_ARRIVALS:
        renumber(node, ranking, queue)
    mine = rank_of(node, pkt)
    mine.rank = rank
    mine.arrival = ranking.arrivals
    ranking.arrivals += 1
    mine.before = ranking.last
    ranking.last = pkt
    mine.later = NO_PACKET
    backlog = find_backlog(ranking, pkt.number)
    if backlog:
        mine.backlog = backlog
        mine.earlier = backlog.tail
        before = rank_of(node, backlog.tail)
        before.later = pkt
        if rank > before.rank:
            backlog.falling = 0
        backlog.tail = pkt
        if rank < best_of(backlog).key:
            set_best(node, ranking, backlog, pkt)
        if rank >= ~worst_of(backlog).key:
            set_worst(node, ranking, backlog, pkt)
        return
    backlog = open_backlog(node, ranking, pkt.number)
    mine.backlog = backlog
    mine.earlier = NO_PACKET
    backlog.head = pkt
    backlog.tail = pkt
    stand_best(node, backlog, pkt)
    stand_worst(node, backlog, pkt)
    add(node.worker.arena, heap_of_best(ranking), keyed_standing(best_of(backlog)))
    add(node.worker.arena, heap_of_worst(ranking), keyed_standing(worst_of(backlog)))


def rank_tail(node, port, queue, pkt):
    """Ask the scheme for the rank of the last packet of a queue, which has none yet."""
    hook = node.ops.rank_packet
    rank = hook.call(hook.me, node, port, pkt)
    if queue.tail == pkt:  # the hook may have dropped it
        insert(node, port, queue, pkt, rank)


def next_best(node, backlog, rank, later):
    """The best packet of a flow, when one of this rank was and has left, behind which `later` came."""
    if later and rank_of(node, later).rank == rank:
        return later
    best = backlog.tail
    pkt = rank_of(node, best).earlier
    while pkt:
        if rank_of(node, pkt).rank <= rank_of(node, best).rank:
            best = pkt
        elif backlog.falling:
            return best
        pkt = rank_of(node, pkt).earlier
    return best


def next_worst(node, backlog, rank, earlier):
    """The worst packet of a flow, when one of this rank was and has left, before which `earlier` came."""
    if earlier and rank_of(node, earlier).rank == rank:
        return earlier
    worst = backlog.head
    pkt = rank_of(node, worst).later
    while pkt:
        if rank_of(node, pkt).rank >= rank_of(node, worst).rank:
            worst = pkt
        elif backlog.falling:
            return worst
        pkt = rank_of(node, pkt).later
    return worst


def withdraw(node, pkt):
    """Remove a ranked packet that has left its queue."""
    mine = rank_of(node, pkt)
    backlog = mine.backlog
    ranking = backlog.ranking
    mine.backlog = NO_BACKLOG
    if ranking.last == pkt:
        ranking.last = mine.before
    if mine.earlier:
        rank_of(node, mine.earlier).later = mine.later
    else:
        backlog.head = mine.later
    if mine.later:
        rank_of(node, mine.later).earlier = mine.earlier
    else:
        backlog.tail = mine.earlier
    if not backlog.head:
        close_backlog(node, ranking, backlog)
        return
    if best_of(backlog).packet == pkt:
        set_best(node, ranking, backlog, next_best(node, backlog, mine.rank, mine.later))
    if worst_of(backlog).packet == pkt:
        set_worst(node, ranking, backlog, next_worst(node, backlog, mine.rank, mine.earlier))


def withdraw_first(node, queue, pkt):
    """Remove a ranked packet that was the first of its queue and has left it."""
    if queue.length > 0:
        rank_of(node, queue.head).before = NO_PACKET
    withdraw(node, pkt)


def sort_arrivals(node, queue):
    """Chain the packets of a queue by `earlier` and `later` in the order of their arrivals; returns the last one."""
    last = NO_PACKET
    pkt = queue.head
    while pkt:
        following = NO_PACKET
        previous = last
        while previous and rank_of(node, previous).arrival > rank_of(node, pkt).arrival:
            following = previous
            previous = rank_of(node, previous).earlier
        rank_of(node, pkt).earlier = previous
        rank_of(node, pkt).later = following
        if previous:
            rank_of(node, previous).later = pkt
        if following:
            rank_of(node, following).earlier = pkt
        else:
            last = pkt
        pkt = pkt.next
    return last


def restore(node, port, arrivals):
    """Rank the packets of a port, of which only rank and arrival are set, as if each had just arrived; none is ranked yet."""
    ranking = ranking_of(node, port)
    queue = queue_at(port, 0)
    pkt = sort_arrivals(node, queue)
    while pkt and rank_of(node, pkt).earlier:
        pkt = rank_of(node, pkt).earlier
    while pkt:
        following = rank_of(node, pkt).later
        ranking.arrivals = rank_of(node, pkt).arrival
        insert(node, port, queue, pkt, rank_of(node, pkt).rank)
        pkt = following
    ranking.arrivals = arrivals
    ranking.last = NO_PACKET
    pkt = queue.head
    while pkt:
        rank_of(node, pkt).before = ranking.last
        ranking.last = pkt
        pkt = pkt.next


# ---- What the fabric calls: the first hooks of on_enqueue and on_dequeue ----


def rank_enqueued(me, node, port, queue, pkt):
    if queue.index == 0:
        rank_tail(node, port, queue, pkt)


def rank_dequeued(me, node, port, queue, pkt):
    if queue.index == 0 and rank_of(node, pkt).backlog:
        withdraw_first(node, queue, pkt)


def is_ranked(node, port, queue, pkt):
    """Whether a packet is in this queue, and ranked."""
    if not node.ops.rank_packet or queue != queue_at(port, 0):
        return False
    backlog = rank_of(node, pkt).backlog
    if backlog and backlog.ranking == ranking_of(node, port):
        return True
    return False


def lead(node, pkt, first):
    """Note that a ranked packet is now in front of the first one of its queue."""
    mine = rank_of(node, pkt)
    ranking = mine.backlog.ranking
    if ranking.last == pkt:
        ranking.last = mine.before
    mine.before = NO_PACKET
    rank_of(node, first).before = pkt


# ---- Verbs ----


def best_packet(node, port):
    """The queued packet of the smallest rank, the earliest of these; NO_PACKET if there is none."""
    if not node.ops.rank_packet or ranking_of(node, port).backlogs == 0:
        return NO_PACKET
    return first_standing(heap_of_best(ranking_of(node, port))).packet


def worst_packet(node, port):
    """The queued packet of the largest rank, the latest of these; NO_PACKET if there is none."""
    if not node.ops.rank_packet or ranking_of(node, port).backlogs == 0:
        return NO_PACKET
    return first_standing(heap_of_worst(ranking_of(node, port))).packet


def earliest_packet(node, port, pkt):
    """The earliest queued packet of a packet's flow; NO_PACKET if none is queued."""
    if not node.ops.rank_packet:
        return NO_PACKET
    backlog = find_backlog(ranking_of(node, port), pkt.number)
    if backlog:
        return backlog.head
    return NO_PACKET
