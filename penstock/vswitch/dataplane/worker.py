"""The loop of a worker: doorbells, frames, doorbells; and sleep when there are none.  The work of a turn is bounded.

A worker serves the transmit queues of the ports at home with it, and may deliver to any.
"""

import cython

if not cython.compiled:
    from penstock.vswitch.dataplane.flowtable import age
    from penstock.vswitch.dataplane.forward import deliver, settle
    from penstock.vswitch.dataplane.schedule import activate, pause_input, release, take_head
    from penstock.vswitch.dataplane.state import (
        BROKEN_OFF,
        IDLE,
        LEVELS,
        MOST_NONSENSE,
        PFC,
        QUANTUM,
        UP,
        WAITS,
        bell_in_of,
        bell_out_of,
        drive_at,
        driven_side,
        driver_has_news,
        fetch_flow,
        flow_at,
        flow_end,
        input_at,
        input_end,
        news_at,
        port_at,
        sleeps_of,
        stopped,
        timer_at,
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


def loop(w, until):
    """Work until Python wants to be heard or until then."""
    idle_since = now_ns()
    while not stopped(w):
        now = now_ns()
        if now >= until:
            return
        w.rounds += 1
        if turn(w, now):
            w.worked_rounds += 1
            idle_since = now
        elif now - idle_since > w.spin_ns:
            nap(w, now)
        else:
            relax()


def turn(w, now):
    """Give every port its turn; whether there was anything to do."""
    release(w, now)
    done = 0
    w.soon = now + MOST_SLEEP_NS
    for i in range(w.driver_count):
        done += drive_at(w, i, now)
    for i in range(w.port_count):
        port = port_at(w, i)
        if port.state != UP or port.home != w.index or port.paused_until > now:
            continue
        done += answer(w, port) if w.doorbells else scan(port)
        if port.levels:
            done += serve(w, port, now)
    for i in range(w.port_count):
        port = port_at(w, i)
        if port.news_count and port.state == UP:
            flush(port)
        if port.taken_count or port.emptied_count:
            settle(port)
        if port.state == UP and port.view.broken > MOST_NONSENSE:
            port.state = BROKEN_OFF
            w.broken_off = 1
            store32(wanted_of(w), 1)
    if now > w.next_age:
        w.next_age = now + 1000000
        if w.flow_count:
            age(w, now, 512)
    return done


def answer(w, port):
    """Read doorbells; those of queues that are waiting change their weight and priority only."""
    view = view_of(port)
    count = 0
    while count < 32:
        bell = answer_bell(view, bell_in_of(port), 0)
        if bell == 0:
            break
        w.bells[count] = bell
        count += 1
        if queue_of(bell) < view.queues:
            bring_line(input_at(port, queue_of(bell)))
    port.bells_answered += count
    for i in range(count):
        bell = w.bells[i]
        number = queue_of(bell)
        if number >= view.queues or priority_of(bell) >= LEVELS:
            view.broken += 1
            continue
        input = input_at(port, number)
        if weight_of(bell):
            input.weight = weight_of(bell)
            input.priority = priority_of(bell)  # from when it next becomes active
        if input.state == IDLE:
            activate(port, number)
            ask_for(w, view, input)
    return count


def ask_for(w, view, input):
    """Ask for where a transmit queue goes on, and for the flow that it very likely carries."""
    bring_line(slot_of(view, input_end(input)))
    if input.last:
        fetch_flow(flow_at(w, input.last - 1))


def look_ahead(w, port, level):
    """Ask for the cache lines that the first active queues will need, so that they come together and not one after the other."""
    view = view_of(port)
    count = 0
    number = port.head[level]
    while count < w.reach and number >= 0:
        w.ahead[count] = number
        count += 1
        number = input_at(port, number).next
    for i in range(count):
        input = input_at(port, w.ahead[i])
        bring_line(word_at(view.consumed[0], w.ahead[i]))
        if input.known:
            buffer = buffer_of(load64(slot_of(view, input_end(input))))
            if buffer < view.buffers:
                bring_line(bytes_at(view.buffer[0], buffer * view.buffer_bytes))
        if input.last and flow_at(w, input.last - 1).used:
            flow = flow_at(w, input.last - 1)
            to = port_at(w, flow.target)
            bring_line(slot_of(view_of(to), flow_end(flow)))
            bring_line(word_at(to.view.consumed[1], flow.queue))
            bring_line(news_at(to, flow.queue))


def scan(port):
    """Without doorbells: look at every transmit queue."""
    view = view_of(port)
    found = 0
    for number in range(view.queues):
        input = input_at(port, number)
        if input.known:
            if load64(slot_of(view, input_end(input))) == 0:
                continue
        elif not is_open(view, 0, number):
            continue
        if input.state == IDLE:
            activate(port, number)
            found += 1
    return found


def next_word(view, input, side, number):
    """The next word of a queue that the other side fills; zero: there is none."""
    if not input.known:
        if not is_open(view, side, number):  # its last word has been answered already
            return 0
        if not find_queue(view, input_end(input), side, number):
            return 0
        input.known = 1
    return pop(view, input_end(input))


def serve(w, port, now):
    """Deficit round robin over the active transmit queues of the first priority that has any, for a burst of frames."""
    budget = w.burst
    view = view_of(port)
    visits = 0
    while budget > 0 and port.levels:
        level = 0
        while not port.levels >> level & 1:
            level += 1
        if visits == 0:
            look_ahead(w, port, level)
        visits += 1
        number = port.head[level]
        input = input_at(port, number)
        if input.deficit <= 0:
            input.deficit += QUANTUM * input.weight
        budget -= 1
        listed = True
        while budget >= 0 and input.deficit > 0:
            word = input.held
            if word == 0:
                word = next_word(view, input, 0, number)
            if word == 0 or word == CLOSED:
                if word:
                    input.known = 0
                input.deficit = 0
                take_head(port, level)
                listed = False
                if word and is_open(view, 0, number):
                    activate(port, number)
                break
            fate = deliver(w, port, input, word, now)
            if fate == WAITS:
                input.held = word
                if w.mode == PFC:
                    return w.burst - budget
                take_head(port, level)
                pause_input(w, port, number, input.until)
                listed = False
                break
            input.held = 0
            budget -= 1
            if not port.wakes:  # a driver has bounded what it took in; of applications nobody
                budget -= length_of(word) // QUANTUM  # has more of the worker's time for longer frames
            input.deficit -= length_of(word)
            input.taken += length_of(word)
            store64(word_at(view.consumed[0], number), input.taken)
            if input.until > now:
                take_head(port, level)
                pause_input(w, port, number, input.until)
                listed = False
                break
        if listed and input.deficit <= 0:
            take_head(port, level)
            activate(port, number)
    w.reach = min(visits + 2, 32)
    return w.burst - budget


def flush(port):
    """Ring the receive doorbells, one per queue that has news, and wake the application if it sleeps."""
    view = view_of(port)
    rung = False
    while port.news_count > 0:
        queue = port.news_queues[port.news_first]
        if not ring_bell(view, bell_out_of(port), 1, bell_of(queue, port.news[queue], 0, 0)):
            break  # the next turn tries again
        port.news[queue] = 0
        port.news_first = port.news_first + 1 if port.news_first + 1 < view.queues else 0
        port.news_count -= 1
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


def set_sleeping(w, value):
    for i in range(w.port_count):
        if port_at(w, i).state == UP and port_at(w, i).home == w.index:
            store64(view_of(port_at(w, i)).sleeps[1], value)
            if driven_side(w, i):
                store64(sleeps_of(driven_side(w, i)), value)


def any_news(w, now):
    """Whether an application has rung since it could have seen that the switch sleeps."""
    for i in range(w.port_count):
        port = port_at(w, i)
        if port.state != UP or port.home != w.index or port.paused_until > now:
            continue
        if port.levels:
            return True
        if w.doorbells:
            if load64(word_at(port.view.bell[0], port.bell_in)):
                return True
        elif scan(port):
            return True
    for i in range(w.driver_count):
        if driver_has_news(w, i, now):
            return True
    return False


def nap(w, now):
    """Sleep until an application rings, a pause is over, or idle flows are to be looked for."""
    ns = min(10000000 if w.flow_count else MOST_SLEEP_NS, w.soon - now)
    if w.timer_count > 0:
        ns = min(ns, timer_at(w, 0).at - now)
    for i in range(w.port_count):
        port = port_at(w, i)
        if port.state == UP and port.paused_until > now:
            ns = min(ns, port.paused_until - now)
        elif port.state == UP and port.news_count:
            ns = min(ns, 50000)
    if ns < 20000:
        relax()
        return
    set_sleeping(w, 1)
    full_fence()
    if not any_news(w, now) and not stopped(w):
        w.naps += 1
        sleep_on(w.epoll, ns)
    set_sleeping(w, 0)
