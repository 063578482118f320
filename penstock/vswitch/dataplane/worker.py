"""The loop of a worker: doorbells, frames, doorbells; and sleep when there are none.  The work of a turn is bounded.

A worker serves the transmit queues of the ports at home with it, and may deliver to any.
"""

import cython

if not cython.compiled:
    from penstock.vswitch.dataplane.flowtable import age
    from penstock.vswitch.dataplane.forward import deliver, return_buffers
    from penstock.vswitch.dataplane.schedule import activate, pause_txq, release, take_head
    from penstock.vswitch.dataplane.state import (
        BROKEN_OFF,
        IDLE,
        LEVELS,
        MOST_PROTOCOL_ERRORS,
        PFC,
        QUANTUM,
        UP,
        WAITS,
        bell_in_of,
        bell_out_of,
        driven_side,
        driver_has_doorbell,
        fetch_flow,
        flow_at,
        flow_end,
        port_at,
        run_driver,
        sleeps_of,
        stopped,
        timer_at,
        txq_at,
        txq_end,
        unrung_at,
        view_of,
        wanted_of,
    )
    from penstock.vswitch.dataplane.worker import MOST_SLEEP_NS
    from penstock.vswitch.memory.layout import (
        CLOSED,
        bell_of,
        bring_line,
        buffer_of,
        bytes_at,
        full_fence,
        length_of,
        load64,
        now_ns,
        priority_of,
        queue_of,
        relax,
        sleep_on,
        store32,
        store64,
        wake_application,
        wake_switch,
        weight_of,
        word_at,
    )
    from penstock.vswitch.memory.rings import answer_bell, find_queue, is_open, pop, ring_bell, slot_of

if not cython.compiled:
    raise ImportError("penstock.vswitch.dataplane.worker works compiled only: run python setup.py build_ext --inplace")


def loop(worker, until):
    """Work until Python wants to be heard or until then."""
    idle_since = now_ns()
    while not stopped(worker):
        now = now_ns()
        if now >= until:
            return
        worker.rounds += 1
        if turn(worker, now):
            worker.worked_rounds += 1
            idle_since = now
        elif now - idle_since > worker.spin_ns:
            nap(worker, now)
        else:
            relax()


def turn(worker, now):
    """Give every port its turn; whether there was anything to do."""
    release(worker, now)
    done = 0
    worker.next_due = now + MOST_SLEEP_NS
    for i in range(worker.driver_count):
        done += run_driver(worker, i, now)
    for i in range(worker.port_count):
        port = port_at(worker, i)
        if port.state != UP or port.home != worker.index or port.paused_until > now:
            continue
        done += read_doorbells(worker, port) if worker.doorbells else scan(port)
        if port.levels:
            done += serve(worker, port, now)
    for i in range(worker.port_count):
        port = port_at(worker, i)
        if port.unrung_count and port.state == UP:
            ring_doorbells(port)
        if port.taken_count or port.emptied_count:
            return_buffers(port)
        if port.state == UP and port.view.protocol_errors > MOST_PROTOCOL_ERRORS:
            port.state = BROKEN_OFF
            worker.broken_off = 1
            store32(wanted_of(worker), 1)
    if now > worker.next_age:
        worker.next_age = now + 1000000
        if worker.flow_count:
            age(worker, now, 512)
    return done


def read_doorbells(worker, port):
    """Read doorbells; those of queues that are waiting change their weight and priority only."""
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
            activate(port, number)
            prefetch_queue(worker, view, txq)
    return count


def prefetch_queue(worker, view, txq):
    """Ask for where a transmit queue goes on, and for the flow that it very likely carries."""
    bring_line(slot_of(view, txq_end(txq)))
    if txq.last:
        fetch_flow(flow_at(worker, txq.last - 1))


def prefetch_heads(worker, port, level):
    """Ask for the cache lines that the first active queues will need, so that they come together and not one after the other."""
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
    """Without doorbells: look at every transmit queue."""
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


def next_word(view, txq, side, number):
    """The next word of a queue that the other side fills; zero: there is none."""
    if not txq.known:
        if not is_open(view, side, number):  # its last word has been answered already
            return 0
        if not find_queue(view, txq_end(txq), side, number):
            return 0
        txq.known = 1
    return pop(view, txq_end(txq))


def serve(worker, port, now):
    """Deficit round robin over the active transmit queues of the first priority that has any, for a burst of frames."""
    budget = worker.burst
    view = view_of(port)
    visits = 0
    while budget > 0 and port.levels:
        level = 0
        while not port.levels >> level & 1:
            level += 1
        if visits == 0:
            prefetch_heads(worker, port, level)
        visits += 1
        number = port.head[level]
        txq = txq_at(port, number)
        if txq.deficit <= 0:
            txq.deficit += QUANTUM * txq.weight
        budget -= 1
        listed = True
        while budget >= 0 and txq.deficit > 0:
            word = txq.held
            if word == 0:
                word = next_word(view, txq, 0, number)
            if word == 0 or word == CLOSED:
                if word:
                    txq.known = 0
                txq.deficit = 0
                take_head(port, level)
                listed = False
                if word and is_open(view, 0, number):
                    activate(port, number)
                break
            fate = deliver(worker, port, txq, word, now)
            if fate == WAITS:
                txq.held = word
                if worker.mode == PFC:
                    return worker.burst - budget
                take_head(port, level)
                pause_txq(worker, port, number, txq.until)
                listed = False
                break
            txq.held = 0
            budget -= 1
            if not port.wakes:  # a driver has bounded what it took in; of applications nobody
                budget -= length_of(word) // QUANTUM  # has more of the worker's time for longer frames
            txq.deficit -= length_of(word)
            txq.taken += length_of(word)
            store64(word_at(view.consumed[0], number), txq.taken)
            if txq.until > now:
                take_head(port, level)
                pause_txq(worker, port, number, txq.until)
                listed = False
                break
        if listed and txq.deficit <= 0:
            take_head(port, level)
            activate(port, number)
    worker.reach = min(visits + 2, 32)
    return worker.burst - budget


def ring_doorbells(port):
    """Ring the receive doorbells, one per queue that has news, and wake the application if it sleeps."""
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


def set_sleeping(worker, value):
    for i in range(worker.port_count):
        if port_at(worker, i).state == UP and port_at(worker, i).home == worker.index:
            store64(view_of(port_at(worker, i)).sleeps[1], value)
            if driven_side(worker, i):
                store64(sleeps_of(driven_side(worker, i)), value)


def has_pending(worker, now):
    """Whether an application has rung since it could have seen that the switch sleeps."""
    for i in range(worker.port_count):
        port = port_at(worker, i)
        if port.state != UP or port.home != worker.index or port.paused_until > now:
            continue
        if port.levels:
            return True
        if worker.doorbells:
            if load64(word_at(port.view.bell[0], port.bell_in)):
                return True
        elif scan(port):
            return True
    for i in range(worker.driver_count):
        if driver_has_doorbell(worker, i, now):
            return True
    return False


def nap(worker, now):
    """Sleep until an application rings, a pause is over, or idle flows are to be looked for."""
    ns = min(10000000 if worker.flow_count else MOST_SLEEP_NS, worker.next_due - now)
    if worker.timer_count > 0:
        ns = min(ns, timer_at(worker, 0).at - now)
    for i in range(worker.port_count):
        port = port_at(worker, i)
        if port.state == UP and port.paused_until > now:
            ns = min(ns, port.paused_until - now)
        elif port.state == UP and port.unrung_count:
            ns = min(ns, 50000)
    if ns < 20000:
        relax()
        return
    set_sleeping(worker, 1)
    full_fence()
    if not has_pending(worker, now) and not stopped(worker):
        worker.naps += 1
        sleep_on(worker.epoll, ns)
    set_sleeping(worker, 0)
