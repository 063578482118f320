"""Drives the simulator's clock by the machine's: runs all due events in the simulator's order.

Nodes run one after another for a window no longer than the shortest link delay, in which nothing that they do can reach another
node: the windows of sim/core/engine.py, cut off at the present.
"""

import cython

if not cython.compiled:
    from penstock_net.fabric.state import KEY_BITS, NEVER, NO_PACKET, agenda_of, node_at
    from penstock_net.fabric.state import port_at as line_at
    from penstock_net.sim.core.agenda import clear_mail, next_time, set_time, take_mail
    from penstock_net.sim.core.engine import process
    from penstock_net.vswitch.dataplane.buffers import return_buffers
    from penstock_net.vswitch.dataplane.state import UP, port_at
    from penstock_net.vswitch.dataplane.worker import (
        MOST_SLEEP_NS,
        age_some,
        begin_turn,
        check_protocol,
        end_turn,
        read_doorbells,
        ring_doorbells,
        scan,
    )
    from penstock_net.vswitch.memory.layout import load64, word_at
    from penstock_net.vswitch.schemes.endpoint import retry_delivery, run_host, start_line
    from penstock_net.vswitch.schemes.state import emulation_of, endpoint_at, trunk_at
    from penstock_net.vswitch.schemes.trunk import collect_out, pull_in, push_out


def prepare_emulation(emulation):
    """Make a worker's loop run an emulation instead of the plain data plane (dataplane/worker.py)."""
    worker = emulation.worker
    worker.scheme = emulation
    worker.turn = real_time_turn
    worker.idle_time = idle_time_of_emulation
    worker.has_pending = has_doorbell


def real_time_turn(worker, now):
    """Run a turn by the machine's clock (ns); it ends the worker's loop when a new world is due."""
    emulation = emulation_of(worker)
    done = turn(emulation, now, 1000 * (now - emulation.origin))
    if emulation.time >= emulation.renew_at:
        worker.until = 0
    return done


def turn(emulation, now, until):
    """Read doorbells at `now` (ns), run all events before `until` (ps), ring doorbells; returns whether there was work."""
    worker = emulation.worker
    emulation.now = now
    done = begin_turn(worker, now)
    done += poll_doorbells(emulation)
    if emulation.trunk_count:
        done += pull_in(emulation)
    if next_time(emulation.engine) < until or emulation.engine.sent:
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
    done += end_turn(worker, now)
    age_some(worker, now)
    return done


def poll_doorbells(emulation):
    """Read the doorbells of all applications and start their lines; returns the number of doorbells."""
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
        if port.levels:
            start_line(emulation, endpoint)
        check_protocol(worker, port)
    return done


def advance(emulation, until):
    """Run all events before `until` (ps)."""
    world = emulation.world
    engine = emulation.engine
    while emulation.time < until:
        end = min(emulation.time + world.window, until)
        engine.window_start = emulation.time
        engine.window_end = end
        engine.limit = end << KEY_BITS
        take_mail(engine)
        for i in range(world.node_count):
            node = node_at(world, i)
            if agenda_of(engine).times[node.place] < end:
                if not emulation.mine[i]:  # collect_out takes what was sent to it
                    set_time(engine, node.place, NEVER)
                elif node.is_host:
                    run_host(emulation, endpoint_at(emulation, i))
                else:
                    set_time(engine, node.place, process(node, engine.limit))
        if emulation.trunk_count:
            collect_out(emulation)
        clear_mail(engine, engine.parity ^ 1)
        engine.parity ^= 1
        emulation.time = end
        if engine.sent:
            engine.sent = 0
        else:
            emulation.time = max(end, min(until, next_time(engine)))


def idle_time_of_emulation(worker, now):
    """Ns until the next event, or until the next retry of a delivery or doorbell."""
    emulation = emulation_of(worker)
    if emulation.engine.sent:
        return 0
    ns = MOST_SLEEP_NS
    when = next_time(emulation.engine)
    if when != NEVER:
        ns = min(ns, emulation.origin + when // 1000 - now)
    for i in range(emulation.endpoint_count):
        endpoint = endpoint_at(emulation, i)
        if is_held(endpoint) or has_unrung(emulation, endpoint):
            ns = min(ns, 50000)
    for i in range(emulation.trunk_count):
        if trunk_at(emulation, i).out:
            return 0
        if trunk_at(emulation, i).port.fd < 0:
            ns = min(ns, 50000)  # nothing wakes the worker
    return ns


def is_held(endpoint):
    """Whether a receiver must take frames before its line may continue."""
    return endpoint.stop_count > 0 or endpoint.late != NO_PACKET


def has_unrung(emulation, endpoint):
    """Whether frames of an application are unrung: its doorbell ring was full."""
    return endpoint.port >= 0 and port_at(emulation.worker, endpoint.port).unrung_count > 0


def has_doorbell(worker, now):
    """Whether an application has rung that may not have seen the worker's sleep flag."""
    emulation = emulation_of(worker)
    for i in range(emulation.endpoint_count):
        if endpoint_at(emulation, i).port >= 0:
            port = port_at(worker, endpoint_at(emulation, i).port)
            if port.state == UP:
                if worker.doorbells:
                    if load64(word_at(port.view.bell[0], port.bell_in)):
                        return 1
                elif scan(port):
                    return 1
    return 0


def is_empty(emulation):
    """Whether no packet or control frame is in flight between the applications."""
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
