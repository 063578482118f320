"""Which transmit queue goes next: active lists by priority, and a heap of those that are paused, which no list holds."""

import cython

if not cython.compiled:
    from penstock.vswitch.dataplane.state import ACTIVE, IDLE, MOST_PORTS, MOST_RELEASED, PAUSED, input_at, timer_at, waiting_at

if not cython.compiled:
    raise ImportError("penstock.vswitch.dataplane.schedule works compiled only: run python setup.py build_ext --inplace")


def activate(port, number):
    """Append a transmit queue to the active list of its priority."""
    input = input_at(port, number)
    level = input.priority
    input.state = ACTIVE
    input.next = -1
    if port.levels >> level & 1:
        input_at(port, port.tail[level]).next = number
    else:
        port.head[level] = number
        port.levels |= 1 << level
    port.tail[level] = number


def take_head(port, level):
    """Take the first transmit queue out of an active list."""
    input = input_at(port, port.head[level])
    port.head[level] = input.next
    if input.next < 0:
        port.levels &= ~(1 << level)
    input.state = IDLE


def pause_input(w, port, number, until):
    """Keep a transmit queue, which is in no list, from sending until then."""
    input = input_at(port, number)
    input.state = PAUSED
    input.until = until
    add_timer(w, until, port.number, number)


def set_timer(w, i, at, port, input):
    timer = timer_at(w, i)
    timer.at = at
    timer.port = port
    timer.input = input


def add_timer(w, at, port, input):
    i = w.timer_count
    w.timer_count += 1
    while i > 0:
        above = timer_at(w, (i - 1) // 2)
        if above.at <= at:
            break
        set_timer(w, i, above.at, above.port, above.input)
        i = (i - 1) // 2
    set_timer(w, i, at, port, input)


def take_timer(w):
    w.timer_count -= 1
    last = timer_at(w, w.timer_count)
    set_timer(w, 0, last.at, last.port, last.input)
    sift_down(w, 0)


def sift_down(w, i):
    at = timer_at(w, i).at
    port = timer_at(w, i).port
    input = timer_at(w, i).input
    while 2 * i + 1 < w.timer_count:
        k = 2 * i + 1
        if k + 1 < w.timer_count and timer_at(w, k + 1).at < timer_at(w, k).at:
            k += 1
        below = timer_at(w, k)
        if below.at >= at:
            break
        set_timer(w, i, below.at, below.port, below.input)
        i = k
    set_timer(w, i, at, port, input)


def forget_timers(w, port):
    """Drop the timers of a port that goes."""
    kept = 0
    for i in range(w.timer_count):
        timer = timer_at(w, i)
        if timer.port & (MOST_PORTS - 1) != port:
            set_timer(w, kept, timer.at, timer.port, timer.input)
            kept += 1
    w.timer_count = kept
    for k in range(kept):
        sift_down(w, kept - 1 - k)


def release(w, now):
    """Let those go on whose pause is over."""
    for _ in range(MOST_RELEASED):
        if w.timer_count == 0 or timer_at(w, 0).at > now:
            break
        port = waiting_at(w, timer_at(w, 0).port)
        number = timer_at(w, 0).input
        take_timer(w)
        activate(port, number)
