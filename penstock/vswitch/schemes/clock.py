"""The simulator's clock driven by the machine's: whatever should have happened by now is made to happen, in its order.

Nodes run one after another for a stretch no longer than the shortest line, in which nothing that they do can reach another:
the windows of sim/engine.py, cut off at the present.
"""

import cython

if not cython.compiled:
    from penstock.fabric.line import receive_control, run_timers
    from penstock.fabric.queueing import set_event
    from penstock.fabric.state import CONTROL, KEY_BITS, NEVER, NO_PACKET, TIMER, node_at
    from penstock.fabric.state import port_at as line_at
    from penstock.sim.core.engine import collect_arrivals, has_work, process
    from penstock.vswitch.dataplane.flowtable import age
    from penstock.vswitch.dataplane.forward import settle
    from penstock.vswitch.dataplane.schedule import release
    from penstock.vswitch.dataplane.state import BROKEN_OFF, MOST_NONSENSE, UP, drive_at, port_at, stopped, timer_at, wanted_of
    from penstock.vswitch.dataplane.worker import MOST_SLEEP_NS, answer, flush, scan, set_sleeping
    from penstock.vswitch.memory.layout import full_fence, load64, now_ns, relax, sleep_on, store32, word_at
    from penstock.vswitch.schemes.edge import begin, note_next, relieve, take_in, transmit
    from penstock.vswitch.schemes.state import edge_at, trunk_at
    from penstock.vswitch.schemes.trunk import collect_out, pull_in, push_out

if not cython.compiled:
    raise ImportError("penstock.vswitch.schemes.clock works compiled only: run python setup.py build_ext --inplace")


def advance(f, until):
    """Everything that happens before `until`."""
    world = f.world
    engine = f.engine
    while f.time < until:
        end = min(f.time + world.window, until)
        engine.window_start = f.time
        engine.window_end = end
        engine.limit = end << KEY_BITS
        for i in range(world.node_count):
            node = node_at(world, i)
            if f.mine[i] and has_work(engine, node):
                if node.is_host:
                    run_edge(f, edge_at(f, i))
                else:
                    process(node)
        if f.trunk_count:
            collect_out(f)
        engine.parity ^= 1
        f.time = end
        if engine.sent:
            engine.sent = 0
        else:
            f.time = max(end, min(until, soonest(world)))


def soonest(world):
    """When a node has something to do next, as long as nothing is between nodes."""
    when = NEVER
    for i in range(world.node_count):
        when = min(when, world.next_times[i])
    return when


def run_edge(f, edge):
    """Run the host of an application to the end of the window."""
    node = edge.node
    collect_arrivals(node)
    key = node.tree[1]
    while key < f.engine.limit:
        node.now = key >> KEY_BITS
        leaf = key & ((1 << KEY_BITS) - 1)
        if leaf == 0:
            arrive(f, edge)
        elif leaf == 1:
            transmit(f, edge)
        elif leaf == 2 + TIMER:
            run_timers(node)
        else:
            set_event(node, leaf, NEVER)
        key = node.tree[1]
    note_next(f, node)


def arrive(f, edge):
    """A packet or a control frame has come down the line to an application."""
    node = edge.node
    line = line_at(node, 0)
    pkt = line.in_head
    line.in_head = pkt.next
    set_event(node, 0, line.in_head.time << KEY_BITS if line.in_head else NEVER)
    line.rx_bytes += pkt.size
    if pkt.kind >= CONTROL:
        receive_control(node, 0, pkt)
    else:
        take_in(f, edge, pkt)


def turn(f, now, until):
    """Hear the applications, let the fabric catch up with the clock, tell the applications; whether there was anything."""
    w = f.w
    f.now = now
    release(w, now)
    w.soon = now + MOST_SLEEP_NS
    done = 0
    for i in range(w.driver_count):
        done += drive_at(w, i, now)
    done += hear(f)
    if f.trunk_count:
        done += pull_in(f)
    if soonest(f.world) < until or f.engine.sent:
        done += 1
    advance(f, until)
    if f.trunk_count:
        done += push_out(f)
    for i in range(f.edge_count):
        edge = edge_at(f, i)
        if is_held(edge):
            if relieve(f, edge):
                done += 1
        if edge.port >= 0:
            port = port_at(w, edge.port)
            if port.news_count and port.state == UP:
                flush(port)
            settle(port)
    if now > f.next_age:
        f.next_age = now + 1000000
        if w.flow_count:
            age(w, now, 512)
    return done


def hear(f):
    """Answer the doorbells; how many there were."""
    w = f.w
    done = 0
    for i in range(f.edge_count):
        edge = edge_at(f, i)
        if edge.port < 0:
            continue
        port = port_at(w, edge.port)
        if port.state != UP:
            continue
        done += answer(w, port) if w.doorbells else scan(port)
        line = line_at(edge.node, 0)
        if port.levels and not line.armed and not line.paused:
            edge.node.now = max(edge.node.now, f.time)
            begin(edge.node, line)
            note_next(f, edge.node)
        if port.view.broken > MOST_NONSENSE:
            port.state = BROKEN_OFF
            w.broken_off = 1
            store32(wanted_of(w), 1)
    return done


def loop(f, until):
    """Work until Python wants to be heard, until then, or until a new world is wanted."""
    w = f.w
    idle_since = now_ns()
    while not stopped(w):
        now = now_ns()
        if now >= until or f.time >= f.renew_at:
            return
        w.rounds += 1
        if turn(f, now, 1000 * (now - f.origin)):
            w.worked_rounds += 1
            idle_since = now
        elif now - idle_since > w.spin_ns:
            nap(f, now)
        else:
            relax()


def nap(f, now):
    """Sleep until an application rings or the fabric has something to do."""
    w = f.w
    if f.engine.sent:
        return
    ns = min(10000000 if w.flow_count else MOST_SLEEP_NS, w.soon - now)
    if w.timer_count > 0:
        ns = min(ns, timer_at(w, 0).at - now)
    when = soonest(f.world)
    if when != NEVER:
        ns = min(ns, f.origin + when // 1000 - now)
    for i in range(f.edge_count):
        edge = edge_at(f, i)
        if is_held(edge) or has_news(f, edge):
            ns = min(ns, 50000)
    for i in range(f.trunk_count):
        if trunk_at(f, i).out:
            ns = 0
        elif trunk_at(f, i).port.fd < 0:
            ns = min(ns, 50000)  # nothing wakes us
    if ns < 20000:
        relax()
        return
    set_sleeping(w, 1)
    full_fence()
    if not any_bell(f) and not stopped(w):
        w.naps += 1
        sleep_on(w.epoll, ns)
    set_sleeping(w, 0)


def is_held(edge):
    """Whether a receiver is too slow, as far as we know."""
    return edge.stop_count > 0 or edge.late != NO_PACKET


def has_news(f, edge):
    """Whether an application has not been told of everything: there was no room for doorbells."""
    return edge.port >= 0 and port_at(f.w, edge.port).news_count > 0


def any_bell(f):
    """Whether an application has rung since it could have seen that the switch sleeps."""
    w = f.w
    for i in range(f.edge_count):
        if edge_at(f, i).port >= 0:
            port = port_at(w, edge_at(f, i).port)
            if port.state == UP:
                if w.doorbells:
                    if load64(word_at(port.view.bell[0], port.bell_in)):
                        return True
                elif scan(port):
                    return True
    return False


def is_empty(f):
    """Whether no packet and no control frame is anywhere between the applications."""
    if f.engine.sent:
        return False
    for i in range(f.world.node_count):
        node = node_at(f.world, i)
        if node.buffer_used:
            return False
        for slot in range(node.port_count):
            line = line_at(node, slot)
            if line.in_head or line.control_head:
                return False
    for i in range(f.edge_count):
        if edge_at(f, i).late:
            return False
    for i in range(f.trunk_count):
        if trunk_at(f, i).out:
            return False
    return True
