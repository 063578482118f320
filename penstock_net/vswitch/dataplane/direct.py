"""The direct path from device to device: a worker writes a frame from the buffer that it was read into, without a copy.

A frame takes it if its receive queue is empty; others wait in the receive queue of their flow (egress.py).
"""

import cython

if not cython.compiled:
    from penstock_net.vswitch.dataplane.direct import LEAST_CHARGED
    from penstock_net.vswitch.dataplane.driver_state import driver_of, outgoing_of, own_view, put_mac, rxq_at, side_of
    from penstock_net.vswitch.dataplane.egress import count_out, fits_socket
    from penstock_net.vswitch.dataplane.flowmap import name_at
    from penstock_net.vswitch.dataplane.ingress import NO_ROOM_NS
    from penstock_net.vswitch.dataplane.neighbours import mac_for
    from penstock_net.vswitch.dataplane.state import txq_at, txq_end
    from penstock_net.vswitch.memory.layout import load64
    from penstock_net.vswitch.memory.rings import slot_of
    from penstock_net.vswitch.ports.base import port_send
    from penstock_net.vswitch.ports.segment import is_of_datagrams


def send_direct(worker, own, number, frame, length, now):
    """Send a frame of receive queue `number` to its device; False: append it to the queue instead.

    The queue must be known, so that it can be closed, and empty, so that the frames of a flow stay in order; the device and the
    socket behind it must have room.
    """
    driver = driver_of(own)
    txq = txq_at(side_of(driver), number)
    if driver.direct <= 0 or driver.only_queued or now < driver.try_at or not txq.known or not rxq_at(driver, number).named:
        return False
    if txq.held or load64(slot_of(own_view(driver), txq_end(txq))):
        return False
    if driver.kernel.header and is_of_datagrams(frame):  # which are cut as the socket has room for them
        return False
    if driver.limited and not fits_socket(driver, number, length, now):
        return False
    if driver.rewrites:
        put_mac(frame + driver.kernel.header, mac_for(driver, name_at(outgoing_of(driver), number)))
    if not port_send(driver.kernel, frame, length):
        driver.try_at = now + NO_ROOM_NS
        return False
    driver.direct -= max(length, LEAST_CHARGED)
    driver.sent_direct += 1
    count_out(driver, number, length)
    return True
