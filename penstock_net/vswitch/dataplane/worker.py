"""The loop of a worker: read doorbells, serve queues, ring doorbells; sleep if there is no work.  The work of a turn is bounded.

A worker serves the transmit queues of the ports at home with it, and delivers to any port.
"""

import cython

if not cython.compiled:
    from penstock_net.vswitch.dataplane.buffers import return_buffers
    from penstock_net.vswitch.dataplane.flowtable import age
    from penstock_net.vswitch.dataplane.forward import deliver
    from penstock_net.vswitch.dataplane.schedule import activate, pause_txq, release, take_head
    from penstock_net.vswitch.dataplane.state import (
        BROKEN_OFF,
        IDLE,
        LEVELS,
        MOST_PROTOCOL_ERRORS,
        PFC,
        QUANTUM,
        UP,
        WAITS,
        WAITS_EVERY,
        WAITS_KEPT,
        bell_in_of,
        bell_out_of,
        driven_side,
        driver_has_doorbell,
        fetch_flow,
        flow_at,
        flow_end,
        idle_time,
        is_pending,
        port_at,
        read_driver,
        run_turn,
        sleeps_of,
        stopped,
        timer_at,
        txq_at,
        txq_end,
        unrung_at,
        view_of,
        wanted_of,
        write_driver,
    )
    from penstock_net.vswitch.dataplane.steps import next_word
    from penstock_net.vswitch.dataplane.worker import (
        AGE_NS,
        FRAMES_AT_ONCE,
        FRESH_NS,
        LEAST_AT_ONCE,
        MISHAP,
        MOST_LUCK,
        MOST_SLEEP_NS,
        NEWS_NS,
        SPINS_EVERY,
    )
    from penstock_net.vswitch.memory.layout import (
        CLOSED,
        bell_of,
        bring_line,
        buffer_of,
        bytes_at,
        full_fence,
        length_of,
        load64,
        priority_of,
        queue_of,
        relax,
        store32,
        store64,
        weight_of,
        word_at,
    )
    from penstock_net.vswitch.memory.rings import answer_bell, is_open, ring_bell, slot_of
    from penstock_net.vswitch.world.calls.table import now_ns, sleep_on, wake_application, wake_switch


def loop(worker, until):
    """Run turns until Python requests the worker, or until a time (ns); sleep without work.

    It looks for work for `spin_ns` before it sleeps as long as that finds some three times in four; else before one sleep of
    SPINS_EVERY, to learn whether it does again.
    A plain worker and one that runs a scheme differ in `turn`, `idle_time` and `has_pending`; a turn may end the loop by
    `worker.until`.
    """
    worker.until = until
    idle_since = now_ns()
    while not stopped(worker):
        now = now_ns()
        if now >= worker.until:
            return
        worker.rounds += 1
        if run_turn(worker, now):
            worker.worked_rounds += 1
            if worker.spins:
                worker.luck = min(worker.luck + 1, MOST_LUCK)
                worker.spins = 0
            idle_since = 0
            continue
        if idle_since == 0:
            idle_since = now
            worker.idles += 1
            worker.spins = worker.luck > 0 or worker.idles % SPINS_EVERY == 0
        if worker.spins and now - idle_since <= worker.spin_ns:
            relax()
            continue
        if worker.spins:
            worker.luck = max(worker.luck - MISHAP, 0)
            worker.spins = 0
        nap(worker, now)


def nap(worker, now):
    """Sleep until an application rings, a pause ends, or idle flows are due for removal."""
    ns = min(10000000 if worker.flow_count else MOST_SLEEP_NS, worker.next_due - now)
    if worker.timer_count > 0:
        ns = min(ns, timer_at(worker, 0).at - now)
    ns = min(ns, idle_time(worker, now))
    if ns < 20000:
        relax()
        return
    set_sleeping(worker, 1)
    full_fence()
    if not is_pending(worker, now) and not stopped(worker):
        worker.naps += 1
        sleep_on(worker.epoll, ns)
        worker.news_at = now_ns() + FRESH_NS
    set_sleeping(worker, 0)


def set_sleeping(worker, value):
    """Tell the applications of this worker whether they have to wake it."""
    for i in range(worker.port_count):
        if port_at(worker, i).state == UP and port_at(worker, i).home == worker.index:
            store64(view_of(port_at(worker, i)).sleeps[1], value)
            if driven_side(worker, i):
                store64(sleeps_of(driven_side(worker, i)), value)


# ---- A plain worker ----


def prepare_worker(worker):
    worker.turn = turn
    worker.idle_time = idle_time_of_ports
    worker.has_pending = has_pending


def turn(worker, now):
    """Serve every port; returns whether there was work."""
    done = begin_turn(worker, now)
    for i in range(worker.port_count):
        port = port_at(worker, i)
        if port.state != UP or port.home != worker.index or port.paused_until > now:
            continue
        if port.waiter:
            end_wait(port, now)
        port.fresh = 0
        done += read_doorbells(worker, port) if worker.doorbells else scan(port)
        if port.fresh and port.waiter == 0 and port.bells_answered >= port.waiter_next:
            begin_wait(port, now)
        if port.levels:
            done += serve(worker, port, now)
    for i in range(worker.port_count):
        port = port_at(worker, i)
        if port.unrung_count and port.state == UP:
            ring_doorbells(port)
        if port.taken_count or port.emptied_count:
            return_buffers(port)
        if port.state == UP:
            check_protocol(worker, port)
    done += end_turn(worker, now)
    age_some(worker, now)
    return done


def begin_wait(port, now):
    """Start to measure how long the first frame of the last activated queue waits in the switch."""
    port.waiter = port.fresh
    port.waiter_since = now
    port.waiter_taken = txq_at(port, port.waiter - 1).taken
    port.waiter_next = port.bells_answered + WAITS_EVERY


def end_wait(port, now):
    """Count the measured frame if an earlier turn has delivered it; discard it if its queue was empty.

    That turn has also rung the receiver's doorbell, so its duration is part of the time.
    """
    txq = txq_at(port, port.waiter - 1)
    if txq.taken == port.waiter_taken and txq.state != IDLE:
        return
    if txq.taken != port.waiter_taken:
        ns = now - port.waiter_since
        port.waited_ns += ns
        at = 0
        while at < WAITS_KEPT - 1 and ns > 1000 << at:
            at += 1
        port.waits[at] += 1
    port.waiter = 0


def idle_time_of_ports(worker, now):
    """Ns until a paused port may send again, or a full doorbell ring is retried."""
    ns = MOST_SLEEP_NS
    for i in range(worker.port_count):
        port = port_at(worker, i)
        if port.state == UP and port.paused_until > now:
            ns = min(ns, port.paused_until - now)
        elif port.state == UP and port.unrung_count:
            ns = min(ns, 50000)
    return ns


def has_pending(worker, now):
    """Whether an application has rung that may not have seen the worker's sleep flag."""
    for i in range(worker.port_count):
        port = port_at(worker, i)
        if port.state != UP or port.home != worker.index or port.paused_until > now:
            continue
        if port.levels:
            return 1
        if worker.doorbells:
            if load64(word_at(port.view.bell[0], port.bell_in)):
                return 1
        elif scan(port):
            return 1
    for i in range(worker.driver_count):
        if driver_has_doorbell(worker, i, now):
            return 1
    return 0


# ---- Parts of a turn that all workers share ----


def begin_turn(worker, now):
    """End expired pauses and read the devices that may have frames; returns the number of frames.

    The devices that had frames in the last turn share FRAMES_AT_ONCE.
    """
    release(worker, now)
    worker.next_due = now + MOST_SLEEP_NS
    worker.frames_each = max(LEAST_AT_ONCE, FRAMES_AT_ONCE // max(1, worker.busy_drivers))
    if worker.empty_drivers and now >= worker.news_at - (FRESH_NS - NEWS_NS if worker.spins else 0):
        worker.news_at = now + (FRESH_NS if worker.spins else NEWS_NS)
        sleep_on(worker.epoll, 0)
    worker.busy_drivers = 0
    worker.empty_drivers = 0
    done = 0
    for i in range(worker.driver_count):
        done += read_driver(worker, i, now)
    return done


def end_turn(worker, now):
    """Write the frames that this turn has delivered to the devices; returns their number."""
    done = 0
    for i in range(worker.driver_count):
        done += write_driver(worker, i, now)
    return done


def check_protocol(worker, port):
    """Have a port detached if its application has made too many protocol errors."""
    if port.view.protocol_errors > MOST_PROTOCOL_ERRORS:
        port.state = BROKEN_OFF
        worker.broken_off = 1
        store32(wanted_of(worker), 1)


def age_some(worker, now):
    """Every ms, check the next few flows (at most 512) for idle ones, so that all are checked within `idle_ns`."""
    if now > worker.next_age:
        worker.next_age = now + AGE_NS
        if worker.flow_count:
            age(worker, now, min(512, 16 + AGE_NS * worker.flow_top // max(AGE_NS, worker.idle_ns)))


# ---- Doorbells and transmit queues ----


def read_doorbells(worker, port):
    """Read a port's doorbells and activate their queues with the weight and priority given; returns their number."""
    view = view_of(port)
    count = 0
    while count < 32:
        bell = answer_bell(view, bell_in_of(port), 0)
        if bell == 0:
            break
        worker.bells[count] = bell
        count += 1
        if queue_of(bell) < view.queues:
            bring_line(txq_at(port, queue_of(bell)))
    port.bells_answered += count
    for i in range(count):
        bell = worker.bells[i]
        number = queue_of(bell)
        if number >= view.queues or priority_of(bell) >= LEVELS:
            view.protocol_errors += 1
            continue
        txq = txq_at(port, number)
        if weight_of(bell):
            txq.weight = weight_of(bell)
            txq.priority = priority_of(bell)  # from when it next becomes active
        if txq.state == IDLE:
            port.fresh = number + 1
            activate(port, number)
            prefetch_queue(worker, view, txq)
    return count


def prefetch_queue(worker, view, txq):
    """Prefetch the next slot of a transmit queue, and the flow of its last frame."""
    bring_line(slot_of(view, txq_end(txq)))
    if txq.last:
        fetch_flow(flow_at(worker, txq.last - 1))


def prefetch_heads(worker, port, level):
    """Prefetch the cache lines of the first active queues, so that the misses overlap."""
    view = view_of(port)
    count = 0
    number = port.head[level]
    while count < worker.reach and number >= 0:
        worker.ahead[count] = number
        count += 1
        number = txq_at(port, number).next
    for i in range(count):
        txq = txq_at(port, worker.ahead[i])
        bring_line(word_at(view.consumed[0], worker.ahead[i]))
        if txq.known:
            buffer = buffer_of(load64(slot_of(view, txq_end(txq))))
            if buffer < view.buffers:
                bring_line(bytes_at(view.buffer[0], buffer * view.buffer_bytes))
        if txq.last and flow_at(worker, txq.last - 1).used:
            flow = flow_at(worker, txq.last - 1)
            to = port_at(worker, flow.target)
            bring_line(slot_of(view_of(to), flow_end(flow)))
            bring_line(word_at(to.view.consumed[1], flow.queue))
            bring_line(unrung_at(to, flow.queue))


def scan(port):
    """Without doorbells: poll every transmit queue; returns the number of activated ones."""
    view = view_of(port)
    found = 0
    for number in range(view.queues):
        txq = txq_at(port, number)
        if txq.known:
            if load64(slot_of(view, txq_end(txq))) == 0:
                continue
        elif not is_open(view, 0, number):
            continue
        if txq.state == IDLE:
            activate(port, number)
            found += 1
    return found


def serve(worker, port, now):
    """Deficit round robin over the active transmit queues of the highest priority, for about a burst of frames.

    Returns the part of the burst that was used: one per frame and per visit of a queue, more for long frames of applications.
    The burst of a device's port covers all frames that its driver reads in a turn, each in a queue of its own, and failed visits.
    """
    burst = 3 * worker.burst if port.wakes else worker.burst
    budget = burst
    visits = 0
    while budget > 0 and port.levels:
        level = 0
        while not port.levels >> level & 1:
            level += 1
        if visits == 0:
            prefetch_heads(worker, port, level)
        visits += 1
        budget = serve_queue(worker, port, level, budget - 1, now)
        if port.paused_until > now:
            return burst - budget
    worker.reach = min(visits + 2, 32)
    return burst - budget


def serve_queue(worker, port, level, budget, now):
    """Serve the first queue of an active list while it has frames, deficit and budget; returns the remaining budget.

    Afterwards the queue is at the head or the tail of the list, or in no list if it is empty or paused.  Nothing wakes the worker
    at the end of the pause of an empty one: a frame that comes meanwhile waits for it.
    """
    view = view_of(port)
    number = port.head[level]
    txq = txq_at(port, number)
    if txq.until > now:
        take_head(port, level)
        pause_txq(worker, port, number, txq.until)
        return budget
    if txq.deficit <= 0:
        txq.deficit += QUANTUM * txq.weight
    while budget >= 0 and txq.deficit > 0:
        word = txq.held
        if word == 0:
            word = next_word(view, txq, 0, number)
        if word == 0 or word == CLOSED:
            txq.deficit = 0
            take_head(port, level)
            if word:
                txq.known = 0
                if is_open(view, 0, number):
                    activate(port, number)
            return budget
        if deliver(worker, port, txq, word, now) == WAITS:
            txq.held = word
            if worker.mode != PFC:
                take_head(port, level)
                pause_txq(worker, port, number, txq.until)
            return budget
        txq.held = 0
        budget -= 1
        if not port.wakes:  # what a driver takes in is bounded; an application's long frames are charged here
            budget -= length_of(word) // QUANTUM
        txq.deficit -= length_of(word)
        txq.taken += length_of(word)
        txq.served += 1
        store64(word_at(view.consumed[0], number), txq.taken)
        if txq.until > now:
            take_head(port, level)
            word = next_word(view, txq, 0, number)
            if word == CLOSED:
                txq.known = 0
            else:
                txq.held = word
            if txq.held or (txq.known == 0 and is_open(view, 0, number)):
                pause_txq(worker, port, number, txq.until)
            return budget
    if txq.deficit <= 0:
        take_head(port, level)
        activate(port, number)
    return budget


def ring_doorbells(port):
    """Ring the receive doorbells, one per queue with unannounced frames, and wake the application if it sleeps."""
    view = view_of(port)
    rung = False
    while port.unrung_count > 0:
        queue = port.unrung_queues[port.unrung_first]
        if not ring_bell(view, bell_out_of(port), 1, bell_of(queue, port.unrung[queue], 0, 0)):
            break  # the next turn tries again
        port.unrung[queue] = 0
        port.unrung_first = port.unrung_first + 1 if port.unrung_first + 1 < view.queues else 0
        port.unrung_count -= 1
        port.bells_rung += 1
        rung = True
    if rung:
        full_fence()
        if load64(view.sleeps[0]):
            store64(view.sleeps[0], 0)
            if port.wakes:
                wake_switch(port.wakes - 1)
            elif port.fd >= 0:
                wake_application(port.fd)
