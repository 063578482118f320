"""Scheduling of transmit queues: an active list per priority, and a heap of the paused queues, which are in no list."""

import cython

if not cython.compiled:
    from penstock_net.vswitch.dataplane.state import ACTIVE, IDLE, MOST_PORTS, MOST_RELEASED, PAUSED, timer_at, txq_at, waiting_at


def activate(port, number):
    """Append a transmit queue to the active list of its priority."""
    txq = txq_at(port, number)
    if txq.weight == 0 and port.weight:
        txq.weight = port.weight
        txq.priority = 1
    level = txq.priority
    txq.state = ACTIVE
    txq.next = -1
    if port.levels >> level & 1:
        txq_at(port, port.tail[level]).next = number
    else:
        port.head[level] = number
        port.levels |= 1 << level
    port.tail[level] = number


def take_head(port, level):
    """Remove the first transmit queue from an active list."""
    txq = txq_at(port, port.head[level])
    port.head[level] = txq.next
    if txq.next < 0:
        port.levels &= ~(1 << level)
    txq.state = IDLE


def pause_txq(worker, port, number, until):
    """Pause a transmit queue, which is in no list, until a time (ns)."""
    txq = txq_at(port, number)
    txq.state = PAUSED
    txq.until = until
    add_timer(worker, until, port.number, number)


def set_timer(worker, i, at, port, queue):
    timer = timer_at(worker, i)
    timer.at = at
    timer.port = port
    timer.queue = queue


def add_timer(worker, at, port, queue):
    i = worker.timer_count
    worker.timer_count += 1
    while i > 0:
        above = timer_at(worker, (i - 1) // 2)
        if above.at <= at:
            break
        set_timer(worker, i, above.at, above.port, above.queue)
        i = (i - 1) // 2
    set_timer(worker, i, at, port, queue)


def take_timer(worker):
    worker.timer_count -= 1
    last = timer_at(worker, worker.timer_count)
    set_timer(worker, 0, last.at, last.port, last.queue)
    sift_down(worker, 0)


def sift_down(worker, i):
    at = timer_at(worker, i).at
    port = timer_at(worker, i).port
    queue = timer_at(worker, i).queue
    while 2 * i + 1 < worker.timer_count:
        k = 2 * i + 1
        if k + 1 < worker.timer_count and timer_at(worker, k + 1).at < timer_at(worker, k).at:
            k += 1
        below = timer_at(worker, k)
        if below.at >= at:
            break
        set_timer(worker, i, below.at, below.port, below.queue)
        i = k
    set_timer(worker, i, at, port, queue)


def hasten(worker, port, now):
    """End the pauses of all queues of a port."""
    for i in range(worker.timer_count):
        timer = timer_at(worker, i)
        if timer.port == port and timer.at > now:
            timer.at = now
            txq_at(waiting_at(worker, port), timer.queue).until = now
    order_timers(worker)


def order_timers(worker):
    for k in range(worker.timer_count):
        sift_down(worker, worker.timer_count - 1 - k)


def forget_timers(worker, port):
    """Remove the timers of a port that is detached."""
    kept = 0
    for i in range(worker.timer_count):
        timer = timer_at(worker, i)
        if timer.port & (MOST_PORTS - 1) != port:
            set_timer(worker, kept, timer.at, timer.port, timer.queue)
            kept += 1
    worker.timer_count = kept
    order_timers(worker)


def release(worker, now):
    """Activate the transmit queues whose pause is over."""
    for _ in range(MOST_RELEASED):
        if worker.timer_count == 0 or timer_at(worker, 0).at > now:
            break
        port = waiting_at(worker, timer_at(worker, 0).port)
        number = timer_at(worker, 0).queue
        take_timer(worker)
        activate(port, number)
