"""The simulator's clock driven by the machine's: whatever should have happened by now is made to happen, in its order.

Nodes run one after another for a stretch no longer than the shortest line, in which nothing that they do can reach another:
the windows of sim/engine.py, cut off at the present.
"""

import cython

if not cython.compiled:
    from penstock.fabric.queueing import set_event
    from penstock.fabric.state import CONTROL, KEY_BITS, NEVER, NO_PACKET, TIMER, node_at
    from penstock.fabric.state import port_at as line_at
    from penstock.fabric.switch import receive_control, run_timers
    from penstock.sim.core.engine import collect_mail, has_work, process
    from penstock.vswitch.dataplane.flowtable import age
    from penstock.vswitch.dataplane.forward import return_buffers
    from penstock.vswitch.dataplane.schedule import release
    from penstock.vswitch.dataplane.state import (
        BROKEN_OFF,
        MOST_PROTOCOL_ERRORS,
        UP,
        port_at,
        run_driver,
        stopped,
        timer_at,
        wanted_of,
    )
    from penstock.vswitch.dataplane.worker import MOST_SLEEP_NS, read_doorbells, ring_doorbells, scan, set_sleeping
    from penstock.vswitch.memory.layout import full_fence, load64, now_ns, relax, sleep_on, store32, word_at
    from penstock.vswitch.schemes.endpoint import begin, note_next, retry_delivery, take_in, transmit
    from penstock.vswitch.schemes.state import endpoint_at, trunk_at
    from penstock.vswitch.schemes.trunk import collect_out, pull_in, push_out

if not cython.compiled:
    raise ImportError("penstock.vswitch.schemes.clock works compiled only: run python setup.py build_ext --inplace")


def advance(emulation, until):
    """Everything that happens before `until`."""
    world = emulation.world
    engine = emulation.engine
    while emulation.time < until:
        end = min(emulation.time + world.window, until)
        engine.window_start = emulation.time
        engine.window_end = end
        engine.limit = end << KEY_BITS
        for i in range(world.node_count):
            node = node_at(world, i)
            if emulation.mine[i] and has_work(engine, node):
                if node.is_host:
                    run_endpoint(emulation, endpoint_at(emulation, i))
                else:
                    process(node)
        if emulation.trunk_count:
            collect_out(emulation)
        engine.parity ^= 1
        emulation.time = end
        if engine.sent:
            engine.sent = 0
        else:
            emulation.time = max(end, min(until, next_event_time(world)))


def next_event_time(world):
    """When a node has something to do next, as long as nothing is between nodes."""
    when = NEVER
    for i in range(world.node_count):
        when = min(when, world.next_times[i])
    return when


def run_endpoint(emulation, endpoint):
    """Run the host of an application to the end of the window."""
    node = endpoint.node
    collect_mail(node)
    key = node.tree[1]
    while key < emulation.engine.limit:
        node.now = key >> KEY_BITS
        leaf = key & ((1 << KEY_BITS) - 1)
        if leaf == 0:
            arrive(emulation, endpoint)
        elif leaf == 1:
            transmit(emulation, endpoint)
        elif leaf == 2 + TIMER:
            run_timers(node)
        else:
            set_event(node, leaf, NEVER)
        key = node.tree[1]
    note_next(emulation, node)


def arrive(emulation, endpoint):
    """A packet or a control frame has come down the line to an application."""
    node = endpoint.node
    line = line_at(node, 0)
    pkt = line.in_head
    line.in_head = pkt.next
    set_event(node, 0, line.in_head.time << KEY_BITS if line.in_head else NEVER)
    line.rx_bytes += pkt.size
    if pkt.kind >= CONTROL:
        receive_control(node, 0, pkt)
    else:
        take_in(emulation, endpoint, pkt)


def turn(emulation, now, until):
    """Hear the applications, let the fabric catch up with the clock, tell the applications; whether there was anything."""
    worker = emulation.worker
    emulation.now = now
    release(worker, now)
    worker.next_due = now + MOST_SLEEP_NS
    done = 0
    for i in range(worker.driver_count):
        done += run_driver(worker, i, now)
    done += poll_doorbells(emulation)
    if emulation.trunk_count:
        done += pull_in(emulation)
    if next_event_time(emulation.world) < until or emulation.engine.sent:
        done += 1
    advance(emulation, until)
    if emulation.trunk_count:
        done += push_out(emulation)
    for i in range(emulation.endpoint_count):
        endpoint = endpoint_at(emulation, i)
        if is_held(endpoint):
            if retry_delivery(emulation, endpoint):
                done += 1
        if endpoint.port >= 0:
            port = port_at(worker, endpoint.port)
            if port.unrung_count and port.state == UP:
                ring_doorbells(port)
            return_buffers(port)
    if now > emulation.next_age:
        emulation.next_age = now + 1000000
        if worker.flow_count:
            age(worker, now, 512)
    return done


def poll_doorbells(emulation):
    """Answer the doorbells; how many there were."""
    worker = emulation.worker
    done = 0
    for i in range(emulation.endpoint_count):
        endpoint = endpoint_at(emulation, i)
        if endpoint.port < 0:
            continue
        port = port_at(worker, endpoint.port)
        if port.state != UP:
            continue
        done += read_doorbells(worker, port) if worker.doorbells else scan(port)
        line = line_at(endpoint.node, 0)
        if port.levels and not line.armed and not line.paused:
            endpoint.node.now = max(endpoint.node.now, emulation.time)
            begin(endpoint.node, line)
            note_next(emulation, endpoint.node)
        if port.view.protocol_errors > MOST_PROTOCOL_ERRORS:
            port.state = BROKEN_OFF
            worker.broken_off = 1
            store32(wanted_of(worker), 1)
    return done


def loop(emulation, until):
    """Work until Python wants to be heard, until then, or until a new world is wanted."""
    worker = emulation.worker
    idle_since = now_ns()
    while not stopped(worker):
        now = now_ns()
        if now >= until or emulation.time >= emulation.renew_at:
            return
        worker.rounds += 1
        if turn(emulation, now, 1000 * (now - emulation.origin)):
            worker.worked_rounds += 1
            idle_since = now
        elif now - idle_since > worker.spin_ns:
            nap(emulation, now)
        else:
            relax()


def nap(emulation, now):
    """Sleep until an application rings or the fabric has something to do."""
    worker = emulation.worker
    if emulation.engine.sent:
        return
    ns = min(10000000 if worker.flow_count else MOST_SLEEP_NS, worker.next_due - now)
    if worker.timer_count > 0:
        ns = min(ns, timer_at(worker, 0).at - now)
    when = next_event_time(emulation.world)
    if when != NEVER:
        ns = min(ns, emulation.origin + when // 1000 - now)
    for i in range(emulation.endpoint_count):
        endpoint = endpoint_at(emulation, i)
        if is_held(endpoint) or has_unrung(emulation, endpoint):
            ns = min(ns, 50000)
    for i in range(emulation.trunk_count):
        if trunk_at(emulation, i).out:
            ns = 0
        elif trunk_at(emulation, i).port.fd < 0:
            ns = min(ns, 50000)  # nothing wakes us
    if ns < 20000:
        relax()
        return
    set_sleeping(worker, 1)
    full_fence()
    if not any_doorbell(emulation) and not stopped(worker):
        worker.naps += 1
        sleep_on(worker.epoll, ns)
    set_sleeping(worker, 0)


def is_held(endpoint):
    """Whether a receiver is too slow, as far as we know."""
    return endpoint.stop_count > 0 or endpoint.late != NO_PACKET


def has_unrung(emulation, endpoint):
    """Whether an application has not been told of everything: there was no room for doorbells."""
    return endpoint.port >= 0 and port_at(emulation.worker, endpoint.port).unrung_count > 0


def any_doorbell(emulation):
    """Whether an application has rung since it could have seen that the switch sleeps."""
    worker = emulation.worker
    for i in range(emulation.endpoint_count):
        if endpoint_at(emulation, i).port >= 0:
            port = port_at(worker, endpoint_at(emulation, i).port)
            if port.state == UP:
                if worker.doorbells:
                    if load64(word_at(port.view.bell[0], port.bell_in)):
                        return True
                elif scan(port):
                    return True
    return False


def is_empty(emulation):
    """Whether no packet and no control frame is anywhere between the applications."""
    if emulation.engine.sent:
        return False
    for i in range(emulation.world.node_count):
        node = node_at(emulation.world, i)
        if node.buffer_used:
            return False
        for slot in range(node.port_count):
            line = line_at(node, slot)
            if line.in_head or line.control_head:
                return False
    for i in range(emulation.endpoint_count):
        if endpoint_at(emulation, i).late:
            return False
    for i in range(emulation.trunk_count):
        if trunk_at(emulation, i).out:
            return False
    return True
