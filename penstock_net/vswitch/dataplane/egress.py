"""From the switch to a device: frames in the receive queues go out, round robin, while the device and the sockets have room.

A queue whose first frame waits for a full socket, or for the end of a peer's pause, is passed over.  Once it has been stuck for
a while and the port runs out of queues or buffers, it gives up what it holds.
"""

import cython

if not cython.compiled:
    from penstock_net.vswitch.dataplane.cutting import begin_datagram, is_last_datagram, make_datagram, payload_gone
    from penstock_net.vswitch.dataplane.driver_state import (
        clear_rxq,
        driver_of,
        outgoing_of,
        own_key,
        own_view,
        put_mac,
        returned_at,
        ring_of,
        rxq_at,
        side_of,
    )
    from penstock_net.vswitch.dataplane.egress import BYTES_AT_ONCE, HELD_NS, TURN_BYTES, VISITS_AT_ONCE, WOKEN_NS
    from penstock_net.vswitch.dataplane.flowmap import add_name, find_name, name_at, remove_name
    from penstock_net.vswitch.dataplane.flowtable import may_open
    from penstock_net.vswitch.dataplane.ingress import NO_ROOM_NS
    from penstock_net.vswitch.dataplane.learning import address_frame
    from penstock_net.vswitch.dataplane.neighbours import mac_for
    from penstock_net.vswitch.dataplane.overlay import LEASE_NS, overlay_may_send
    from penstock_net.vswitch.dataplane.parse import parse
    from penstock_net.vswitch.dataplane.receiver import LEAST_NS, MOST_NS
    from penstock_net.vswitch.dataplane.schedule import activate, hasten, pause_txq, release, take_head
    from penstock_net.vswitch.dataplane.socket_room import (
        HELD,
        LOOKED,
        WAKES,
        add_cost,
        load_in,
        may_cost,
        note_peer,
        store_in,
        swapped,
    )
    from penstock_net.vswitch.dataplane.state import IDLE, MOST_PORTS, frames_to, port_at, signed_of, txq_at, whole
    from penstock_net.vswitch.dataplane.steps import next_word
    from penstock_net.vswitch.dataplane.vlan import send_queued
    from penstock_net.vswitch.memory.layout import CLOSED, buffer_of, bytes_at, length_of, load64, queue_of, store64, word_at
    from penstock_net.vswitch.memory.rings import answer_bell, give_buffer, is_open
    from penstock_net.vswitch.ports.base import port_flush, port_send
    from penstock_net.vswitch.ports.segment import is_of_datagrams


def poll_doorbells(driver):
    """Read the doorbells that the workers have rung; how many."""
    side = side_of(driver)
    count = 0
    for k in range(driver.bell_rings):
        for _ in range(VISITS_AT_ONCE):
            bell = answer_bell(own_view(driver), ring_of(driver, k), 1)
            if bell == 0:
                break
            count += 1
            if txq_at(side, queue_of(bell)).state == IDLE:
                activate(side, queue_of(bell))
    return count


def has_doorbell(worker, own, now):
    """Whether a worker has rung, or an edge has looked, since it could have seen that this one sleeps."""
    driver = driver_of(own)
    if driver.held_until and now >= driver.hasten_at and has_news_of_sockets(driver):
        return 1
    for k in range(driver.bell_rings):
        if load64(word_at(driver.side.view.bell[1], driver.bell_in[k])):
            return 1
    return 0


def put_out(worker, driver, now):
    """Send a few frames of each receive queue in turn while the device has room; how many.

    Not one by one: a TAP hands over datagrams of a flow together if they are sent one after another.
    """
    if now < driver.try_at:
        driver.next_due = min(driver.next_due, driver.try_at)
        return 0
    side = side_of(driver)
    done = 0
    sent_bytes = 0
    for _ in range(VISITS_AT_ONCE):
        if sent_bytes > BYTES_AT_ONCE or not side.levels or (driver.overlay and not overlay_may_send(driver.overlay)):
            break
        number = side.head[0]
        txq = txq_at(side, number)
        if txq.until > now:
            take_head(side, 0)
            pause_txq(worker, side, number, txq.until)
            continue
        word = txq.held
        if word == 0:
            word = next_word(own_view(driver), txq, 1, number)
        if word == 0 or word == CLOSED:
            take_head(side, 0)
            txq.deficit = 0
            if word:
                txq.known = 0
                if rxq_at(driver, number).named:
                    remove_name(worker, outgoing_of(driver), number)
                clear_rxq(rxq_at(driver, number))
                if is_open(own_view(driver), 1, number):
                    activate(side, number)
            continue
        txq.held = word
        length = send_out(worker, driver, txq, number, word, now)
        if length == 0:
            break
        done += 1
        sent_bytes += length
        txq.deficit -= length
        if txq.deficit <= 0:
            txq.deficit = TURN_BYTES
            take_head(side, 0)
            activate(side, number)
    flush_device(driver)
    return done


def send_out(worker, driver, txq, number, word, now):
    """A frame to the device, or the next datagram of one of several: its bytes, also if it waits for a socket; 0: the device has
    no room now."""
    view = own_view(driver)
    header = driver.kernel.header
    whole_frame = bytes_at(view.buffer[1], buffer_of(word) * view.buffer_bytes)
    frame = whole_frame + header
    length = length_of(word)
    rxq = rxq_at(driver, number)
    part = begin_datagram(driver, number, whole_frame, length) if header and is_of_datagrams(whole_frame) else 0
    size = part if part else length
    if not rxq.named:
        key = own_key(driver)
        if parse(frame, length - header, 0, key) and find_name(worker, outgoing_of(driver), key) < 0:
            add_name(worker, outgoing_of(driver), number, key)
            rxq.named = 1
    if is_held_back(worker, driver, txq, number, size, now):
        if not is_evicted(worker, driver, rxq, now):
            return size
        txq.until = 0
        driver.evicted_out += 1
        part = 0
    else:
        if driver.rewrites:
            put_mac(frame, mac_for(driver, name_at(outgoing_of(driver), number)))
        if driver.only_queued:
            if driver.learns:
                address_frame(worker, driver, frame, length - header)
        if part:
            whole_frame = make_datagram(driver, whole_frame)
        if driver.only_queued:
            taken = send_queued(driver, whole_frame, size, now)
        else:
            taken = 1 if port_send(driver.kernel, whole_frame, size) else 0
        if taken <= 0:
            if taken == 0:  # the device has no room; else the peer of an overlay does not permit more
                driver.try_at = now + NO_ROOM_NS
                driver.next_due = min(driver.next_due, driver.try_at)
            return 0
        if rxq.rate >= 1:
            rxq.next_at = max(rxq.next_at, now - MOST_NS) + whole(1e9 * size / rxq.rate)
        rxq.stuck_at = 0
    if part and not is_last_datagram(driver):
        driver.further_out += 1
        size = payload_gone(driver) - rxq.gone
        rxq.gone += size
        count_bytes_out(driver, number, size)
        return part
    txq.held = 0
    give_buffer(view, 1, buffer_of(word))
    count_out(driver, number, length - rxq.gone)
    rxq.gone = 0
    return size


def count_out(driver, number, length):
    """Tell the switch that a frame was taken out of a receive queue: of its bytes, those that it does not know of."""
    count_bytes_out(driver, number, length)
    store64(returned_at(driver, number), load64(returned_at(driver, number)) + 1)
    store64(returned_at(driver, driver.queues), load64(returned_at(driver, driver.queues)) + 1)


def count_bytes_out(driver, number, length):
    """Tell the switch that so many bytes were taken out of a receive queue."""
    view = own_view(driver)
    store64(word_at(view.consumed[1], number), load64(word_at(view.consumed[1], number)) + length)
    store64(view.total[1], load64(view.total[1]) + length)


def is_held_back(worker, driver, txq, number, length, now):
    """Whether the first frame of a receive queue must wait, for a full socket or the end of the peer's pause; until when."""
    rxq = rxq_at(driver, number)
    if driver.limited and rxq.named:
        looks = load_in(driver.table, LOOKED)
        if looks != driver.looks:
            driver.looks = looks
            driver.looked_at = now
        if not fits_socket(driver, number, length, now):
            driver.full_sockets += 1
            hold(worker, driver, txq, looks, now)
            return True
    if driver.overlay and rxq.next_at > now + LEAST_NS and now - rxq.at < LEASE_NS:
        txq.until = min(rxq.next_at, now + MOST_NS)  # then the pause is checked again
        return True
    return False


def hold(worker, driver, txq, looks, now):
    """Have the first frame of a receive queue wait for its socket; `looks` is how many there had been when it was tried."""
    ns = WOKEN_NS if load_in(driver.table, WAKES) else HELD_NS
    txq.until = now + max(ns, 1000 * worker.timer_count)  # so attempts are bounded however many queues wait
    if driver.held_until == 0:
        driver.held_looks = looks
        store_in(driver.table, HELD, 1)
    driver.held_until = max(driver.held_until, txq.until)


def try_held(worker, driver, now):
    """Have all frames that wait for sockets tried again if there was a look since; at most one for each us."""
    if now < driver.held_until:
        if not has_news_of_sockets(driver):
            return
        if now < driver.hasten_at:
            driver.next_due = min(driver.next_due, driver.hasten_at)
            return
        driver.hasten_at = now + 1000 * worker.timer_count
        hasten(worker, MOST_PORTS + driver.port, now)
        release(worker, now)
    driver.held_until = 0
    store_in(driver.table, HELD, 0)


def has_news_of_sockets(driver):
    return load_in(driver.table, LOOKED) != driver.held_looks


def is_evicted(worker, driver, rxq, now):
    """Whether a frame that is held back is dropped: its queue has been stuck for `idle_ns`, and others need buffers or queues."""
    if rxq.stuck_at == 0:
        rxq.stuck_at = now
    if driver.limited:  # what the last look has found counts, by which it was tried: the edge may be late itself
        now = driver.looked_at
    if now - rxq.stuck_at <= worker.idle_ns:
        return False
    sent = 0
    for k in range(worker.workers):
        if is_crowded(worker.peers[k], port_at(worker.peers[k], driver.port)):
            return True
        sent += frames_to(worker.peers[k], driver.port)
    return sent - signed_of(load64(returned_at(driver, driver.queues))) > driver.side.view.buffers - driver.kept // 2


def is_crowded(worker, port):
    """Whether a sender has as many of a worker's queues to this port as it may: then its new flows share them."""
    for i in range(worker.port_count):
        if port.flows_from[i] and not may_open(worker, port_at(worker, i), port):
            return True
    return False


def flush_device(driver):
    """Have the device take what it holds together, and then charge its socket for it; False: it has no room now."""
    driver.holds = not port_flush(driver.kernel)
    if driver.holds:
        return False
    if driver.charged:
        add_cost(driver.table, driver.charged_port, driver.charged)
        driver.charged = 0
    return True


def fits_socket(driver, number, length, now):
    """Whether a frame fits into the UDP socket that it is for, which is charged for it once it has it."""
    words = name_at(outgoing_of(driver), number).words
    if words[4] >> 16 & 0xFF != 17:
        return True
    port = swapped(words[4] >> 48)
    note_peer(driver.table, port, words[0], words[1], words[4] >> 32 & 0xFFFF, now)
    if port != driver.charged_port:
        if not flush_device(driver):
            return False
        driver.charged_port = port
    cost = 2 * length + 1024
    if not may_cost(driver.table, driver.alarm, port, driver.charged, cost):
        return False
    driver.charged += cost
    return True
