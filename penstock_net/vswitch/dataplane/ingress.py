"""From a device into the switch: frames go into a transmit queue per flow, and no flow holds more than its share of the buffers.

A flow may hold as many frames as there are free buffers, less those that are kept for flows that hold few; so one alone gets
nearly half, and each of n a part in n + 1.  What comes beyond that is read from the device and dropped, and counted with the
flow: a flow whose receiver has stopped never stops the device.  When few buffers or no queue are left, the queue that has been
stuck for longest gives up what it holds.  In mode PFC, and with a scheme, the device is not read instead.
"""

import cython

if not cython.compiled:
    from penstock_net.vswitch.dataplane.broadcast import flood, is_carried
    from penstock_net.vswitch.dataplane.buffers import return_buffers
    from penstock_net.vswitch.dataplane.cutting import cut_if_needed, next_cut
    from penstock_net.vswitch.dataplane.driver_state import (
        clear_tx_flow,
        end_of_tx_flow,
        held_in,
        incoming_of,
        key_of_tx_flow,
        note_progress,
        own_key,
        own_view,
        tx_flow_at,
    )
    from penstock_net.vswitch.dataplane.flowmap import add_name, copy_key, find_name, remove_name
    from penstock_net.vswitch.dataplane.flowtable import find_flow, hash_of
    from penstock_net.vswitch.dataplane.ingress import (
        AGED_AT_ONCE,
        BUSY_NS,
        LONG_FRAME,
        NO_ROOM_NS,
        PRESS_NS,
        PRESSED_BYTES,
        QUEUE_LOOKS,
        UNREAD_NS,
        is_of_the_link,
        note_sender,
        port_of_sender,
    )
    from penstock_net.vswitch.dataplane.learning import is_left, pass_on, take_sender
    from penstock_net.vswitch.dataplane.mirror import mirror_drop
    from penstock_net.vswitch.dataplane.neighbours import SOLICITATION_BYTES, answer_address_request, answer_solicitation
    from penstock_net.vswitch.dataplane.overlay import send_pause, taken_from
    from penstock_net.vswitch.dataplane.parse import parse
    from penstock_net.vswitch.dataplane.receiver import LEAST_FRAMES
    from penstock_net.vswitch.dataplane.schedule import activate
    from penstock_net.vswitch.dataplane.socket_room import BUSY_SINCE, has_several, report_pressed, store_in
    from penstock_net.vswitch.dataplane.state import (
        BACKDRAFT,
        FLOW_OVER,
        HEADER,
        IDLE,
        NOT_PAUSED,
        PFC,
        byte_at,
        no_flow,
        port_at,
        short_at,
        signed_of,
        txq_at,
    )
    from penstock_net.vswitch.dataplane.vlan import TAG_BYTES, asks_in_vlan, receive_queued, vlan_of, with_tag, without_tag
    from penstock_net.vswitch.memory.layout import bytes_at, descriptor, length_of, load64, memcpy, word_at
    from penstock_net.vswitch.memory.rings import close_queue, is_drained, open_queue, push, take_buffer
    from penstock_net.vswitch.ports.base import port_flush, port_receive


def take_in(worker, driver, now):
    """Read what has come to the device, at most `worker.frames_each`; how many frames."""
    if driver.limited:
        note_busy(driver, now)
    if driver.kernel.empty:
        worker.empty_drivers += 1
        port_flush(driver.kernel)  # as a read does: it may have had no room when it was written to
        return 0
    if now < driver.read_at:
        driver.next_due = min(driver.next_due, driver.read_at)  # what came since has woken us already, and does not again
        return 0
    view = own_view(driver)
    find_room(worker, driver, now)
    came = 0
    for i in range(worker.frames_each):
        if came > LONG_FRAME * worker.frames_each:
            return i
        if (driver.room <= 0 and stops_device(worker, driver)) or not take_spare(worker, driver):
            driver.waits_for_buffer += 1
            driver.read_at = now + NO_ROOM_NS
            driver.next_due = min(driver.next_due, driver.read_at)
            return i
        frame = bytes_at(view.buffer[0], driver.spare * view.buffer_bytes)
        length = next_cut(driver, frame)
        if length == 0:
            if driver.inspected:
                length = receive_inspected(worker, driver, frame, view.buffer_bytes, now)
            else:
                length = cut_if_needed(worker, driver, frame, port_receive(driver.kernel, frame, view.buffer_bytes), now)
        elif driver.in_domain:
            length = not_for_stations(worker, driver, frame, length, now)
        if length == 0:
            driver.busy_since = 0
            if i == 0 and not driver.kernel.empty:
                driver.read_at = now + UNREAD_NS
                if driver.kernel.fd < 0:  # nothing will wake us
                    driver.next_due = min(driver.next_due, now + NO_ROOM_NS)
            return i
        if length > 0:
            came += length
            take_frame(worker, driver, frame, length, now)
    return worker.frames_each


def receive_inspected(worker, driver, frame, room, now):
    """The next frame from a device with VLANs, in a domain with stations, or with another switch behind it."""
    header = driver.kernel.header
    if driver.only_queued:
        length = receive_queued(worker, driver, frame, room, now)
    else:
        length = port_receive(driver.kernel, frame, room)
    if driver.learns and length >= header + 14 and not take_sender(worker, driver, frame + header, now):
        return -1
    if driver.vlans and length > 0:
        length = not_of_the_link(worker, driver, frame, length, now)
    length = cut_if_needed(worker, driver, frame, length, now)
    return not_for_stations(worker, driver, frame, length, now) if driver.in_domain else length


def not_for_stations(worker, driver, frame, length, now):
    """The bytes of a frame, or -1: it was for a station that nobody has heard of, or behind the same port."""
    header = driver.kernel.header
    if length >= header + 14 and not is_of_the_link(frame + header):
        if not is_left(worker, driver, frame + header, length - header, now):
            return -1
    return length


def find_room(worker, driver, now):
    """Count the free buffers; when even few of those are left that are kept for small flows, evict the flow stuck for longest."""
    port = port_at(worker, driver.port)
    driver.room = own_view(driver).buffers - 1 - (driver.put - taken_from(port))
    if driver.room < driver.kept // 2 and now >= driver.press_next:
        driver.press_next = now + PRESS_NS
        longest_stuck(worker, driver, now)


def take_spare(worker, driver):
    """Have a buffer to read into; False: there is none."""
    if driver.spare < 0:
        driver.spare = take_buffer(own_view(driver), 0)
        if driver.spare < 0:
            return_buffers(port_at(worker, driver.port))
            driver.spare = take_buffer(own_view(driver), 0)
    return driver.spare >= 0


def stops_device(worker, driver):
    """Whether a port as a whole waits by design, so that frames wait in the kernel, or in a lossless network."""
    if worker.scheme or driver.lossless:
        return True
    return worker.mode == PFC


def take_frame(worker, driver, frame, length, now):
    """Classify the frame in the spare buffer and put it into the transmit queue of its flow, or handle it here."""
    frame += driver.kernel.header
    size = length - driver.kernel.header
    key = own_key(driver)
    if size < 14:
        driver.malformed += 1
        return
    if not driver.overlay and is_of_the_link(frame):
        take_frame_of_the_link(worker, driver, frame, size, now)
        return
    if not parse(frame, size, 0, key):
        driver.malformed += 1
        return
    if not is_carried(worker, driver, key, now):
        return
    note_sender(worker, driver, key, frame, now)
    number = tx_flow_for(worker, driver, key, now)
    port = port_at(worker, driver.port)
    tx_flow = tx_flow_at(driver, number)
    tx_flow.used_at = now
    held = held_in(tx_flow, txq_at(port, number))
    if held == 0:
        tx_flow.moved_at = now
        tx_flow.seen = tx_flow.put
    if not may_hold(worker, driver, held) or not put_in(worker, driver, port, number, descriptor(driver.spare, length)):
        drop_over(worker, driver, port, number, length, now)
    if driver.overlay and worker.mode == BACKDRAFT:
        note_progress(tx_flow, txq_at(port, number), now)
        send_pause(worker, driver, number, length, now)


def take_frame_of_the_link(worker, driver, frame, size, now):
    """Answer a request for an address that the switch knows, by ARP or neighbour solicitation; pass on any other."""
    driver.of_the_link += 1
    header = driver.kernel.header
    if not driver.vlans:
        if not is_answered(worker, driver, frame, size):
            pass_of_the_link(worker, driver, frame, size, now)
        return
    word = short_at(frame, 14)
    driver.vlan = vlan_of(frame)
    without_tag(frame - header, header)
    answered = is_answered(worker, driver, frame + TAG_BYTES, size - TAG_BYTES)
    with_tag(frame - header + TAG_BYTES, header, word)
    if not answered:
        pass_of_the_link(worker, driver, frame, size, now)


def pass_of_the_link(worker, driver, frame, size, now):
    """Pass on a frame of the link that was not answered."""
    if byte_at(frame, 0) & 1:
        flood(worker, driver, frame, size, now)
    else:
        pass_on(worker, driver, frame, size, now)


def not_of_the_link(worker, driver, frame, length, now):
    """The bytes of a frame, or -1: it was a unicast ARP request in a VLAN."""
    header = driver.kernel.header
    if driver.overlay or not asks_in_vlan(frame + header, length - header):
        return length
    take_frame_of_the_link(worker, driver, frame + header, length - header, now)
    return -1


def is_answered(worker, driver, frame, size):
    """Whether a frame of the link is a request for an address, which is answered if the switch knows it, and passed to nobody."""
    kind = short_at(frame, 12)
    if kind == 0x0806:
        return answer_address_request(worker, driver, frame, size)
    if kind == 0x86DD and size >= SOLICITATION_BYTES and byte_at(frame, 20) == 58 and byte_at(frame, 54) == 135:
        return answer_solicitation(worker, driver, frame, size)
    return False


# ---- What a flow may hold ----


def may_hold(worker, driver, held):
    """Whether a flow that holds so many frames may hold one more."""
    if held < LEAST_FRAMES or stops_device(worker, driver):
        return driver.room > 0
    return held < driver.room - driver.kept


def drop_over(worker, driver, port, number, length, now):
    """Drop the frame in the spare buffer, since its flow holds its share; it counts as put in and dropped."""
    txq = txq_at(port, number)
    key = own_key(driver)
    key.words[4] |= port.serial
    flow = find_flow(worker, key)
    if flow:
        flow.dropped += 1
    reason = FLOW_OVER
    if driver.limited and key.words[4] >> 16 & 0xFF == 17 and has_several(driver.table, port_of_sender(key), now):
        reason = NOT_PAUSED
    if worker.mirrors:
        memcpy(worker.header, bytes_at(port.view.buffer[0], driver.spare * port.view.buffer_bytes) + port.prefix, HEADER)
        mirror_drop(worker, port, txq, no_flow(), descriptor(driver.spare, length), reason)
    driver.put += 1
    port.drops[reason] += 1
    txq.drops[reason] += 1


def longest_stuck(worker, driver, now):
    """Of the next few transmit queues, the one that has moved no frame for longest, at least for `idle_ns`; -1: there is none.

    What it holds is dropped when it is tried next, unless there is room for it then.
    """
    port = port_at(worker, driver.port)
    found = -1
    if stops_device(worker, driver):
        return -1
    since = now - worker.idle_ns
    for _ in range(QUEUE_LOOKS):
        driver.age_at = driver.age_at + 1 if driver.age_at + 1 < driver.queue_top else 0
        tx_flow = tx_flow_at(driver, driver.age_at)
        txq = txq_at(port, driver.age_at)
        if not tx_flow.used or held_in(tx_flow, txq) == 0:
            continue
        note_progress(tx_flow, txq, now)
        if tx_flow.moved_at < since and txq.evicted < tx_flow.sent:
            found = driver.age_at
            since = tx_flow.moved_at
    if found >= 0:
        evict(driver, port, found, tx_flow_at(driver, found).sent)
    return found


def evict(driver, port, number, sent):
    """Have a transmit queue give up what it holds of the bytes sent so far, but for what there is room for when it is tried."""
    txq_at(port, number).evicted = sent
    driver.evictions += 1


# ---- Transmit queues ----


def tx_flow_for(worker, driver, key, now):
    """The transmit queue of a flow.  When none is free a new flow gets one that is empty, or stuck; or else shares one."""
    number = find_name(worker, incoming_of(driver), key)
    if number >= 0:
        return number
    if driver.free_count:
        driver.free_count -= 1
        number = driver.free_tx_flows[driver.free_count]
        tx_flow = tx_flow_at(driver, number)
        clear_tx_flow(tx_flow)
        tx_flow.used = 1
        tx_flow.sent = signed_of(load64(word_at(driver.side.view.consumed[0], number)))
        tx_flow.put = txq_at(port_at(worker, driver.port), number).served
        driver.queue_top = max(driver.queue_top, number + 1)
    else:
        number = reclaim_tx_flow(worker, driver, now)
        if number < 0:
            driver.shared_queues += 1
            number = signed_of(hash_of(worker, key) % driver.queues)
            tx_flow_at(driver, number).shared_to = tx_flow_at(driver, number).sent
            return number
        remove_name(worker, incoming_of(driver), number)
    name_tx_flow(worker, driver, number, key, now)
    return number


def name_tx_flow(worker, driver, number, key, now):
    """Give a transmit queue to a flow; its producer's end stays where it is."""
    tx_flow = tx_flow_at(driver, number)
    copy_key(key_of_tx_flow(tx_flow), key)
    add_name(worker, incoming_of(driver), number, key)
    tx_flow.shared_to = 0
    tx_flow.moved_at = now
    tx_flow.pressed = 0
    tx_flow.seen = txq_at(port_at(worker, driver.port), number).served
    tx_flow.quiet_until = 0
    tx_flow.pause_sent_at = 0
    tx_flow.rate_sent = 0
    tx_flow.hold_until = 0


def reclaim_tx_flow(worker, driver, now):
    """A transmit queue for a new flow while none is free: an empty one among the next few, else one that is stuck; or -1."""
    port = port_at(worker, driver.port)
    paced = -1
    for i in range(QUEUE_LOOKS):
        number = (driver.age_at + 1 + i) % driver.queues
        if held_in(tx_flow_at(driver, number), txq_at(port, number)) == 0:
            paced = number
            if txq_at(port, number).until <= now and not tx_flow_at(driver, number).check_at:
                driver.age_at = number
                return number
    return paced if paced >= 0 else longest_stuck(worker, driver, now)


def put_in(worker, driver, port, number, word):
    """Append the frame in the spare buffer to a transmit queue; False: the region has no free ring."""
    view = own_view(driver)
    tx_flow = tx_flow_at(driver, number)
    if not tx_flow.open:
        if not open_queue(view, end_of_tx_flow(tx_flow), 0, number):
            return False
        tx_flow.open = 1
    if not push(view, end_of_tx_flow(tx_flow), word):
        return False
    driver.spare = -1
    driver.room -= 1
    driver.put += 1
    tx_flow.put += 1
    tx_flow.sent += length_of(word)
    if driver.limited:
        note_held(driver, tx_flow, tx_flow.sent - txq_at(port, number).taken)
    wake_queue(worker, port, number)
    return True


def note_held(driver, tx_flow, held):
    """Tell the edge of a flow that begins to hold much of the region, in bytes; one of TCP waits by itself."""
    if held > PRESSED_BYTES:
        if not tx_flow.pressed and tx_flow.key.words[4] >> 16 & 0xFF != 6:
            tx_flow.pressed = 1
            report_pressed(driver.table, driver.alarm)
    elif tx_flow.pressed and 4 * held < PRESSED_BYTES:
        tx_flow.pressed = 0


def note_busy(driver, now):
    """Tell the edge since when the device was not seen empty, once that is long."""
    if driver.busy_since and now - driver.busy_since > BUSY_NS:
        if driver.table[BUSY_SINCE] != driver.busy_since:
            store_in(driver.table, BUSY_SINCE, driver.busy_since)
            report_pressed(driver.table, driver.alarm)
    elif driver.table[BUSY_SINCE]:
        store_in(driver.table, BUSY_SINCE, 0)


def wake_queue(worker, port, number):
    """Have the switch look at a transmit queue: both sides are this worker, so that no doorbell is needed."""
    if txq_at(port, number).state == IDLE:
        activate(port, number)


def forget_idle_tx_flows(worker, driver, now):
    """Free the queues of idle flows, among the next AGED_AT_ONCE; evict what is stuck in front of a flow that shares a queue."""
    view = own_view(driver)
    port = port_at(worker, driver.port)
    for _ in range(min(AGED_AT_ONCE, driver.queue_top)):
        driver.age_at = driver.age_at + 1 if driver.age_at + 1 < driver.queue_top else 0
        tx_flow = tx_flow_at(driver, driver.age_at)
        txq = txq_at(port, driver.age_at)
        if not tx_flow.used:
            continue
        note_progress(tx_flow, txq, now)
        if txq.evicted < tx_flow.shared_to and now - tx_flow.moved_at > worker.idle_ns and not stops_device(worker, driver):
            evict(driver, port, driver.age_at, tx_flow.shared_to)
        if now - tx_flow.used_at < worker.idle_ns or held_in(tx_flow, txq) or tx_flow.check_at:
            continue
        if tx_flow.open:
            if not is_drained(view, end_of_tx_flow(tx_flow)) or not close_queue(view, end_of_tx_flow(tx_flow), 0, driver.age_at):
                continue
            wake_queue(worker, port, driver.age_at)
        remove_name(worker, incoming_of(driver), driver.age_at)
        tx_flow.used = 0
        tx_flow.open = 0
        driver.free_tx_flows[driver.free_count] = driver.age_at
        driver.free_count += 1
