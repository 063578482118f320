"""From one device to another without the copy between their regions: the worker writes a frame from where it has read it to.

Only a frame that nothing waits in front of goes this way; all others wait in the receive queue of their flow (egress.py).
"""

import cython

if not cython.compiled:
    from penstock.vswitch.dataplane.direct import LEAST_CHARGED
    from penstock.vswitch.dataplane.driver_state import (
        driver_of,
        outgoing_of,
        own_view,
        put_mac,
        rxq_at,
        side_of,
    )
    from penstock.vswitch.dataplane.egress import count_out, fits
    from penstock.vswitch.dataplane.flowmap import name_at
    from penstock.vswitch.dataplane.ingress import NO_ROOM_NS
    from penstock.vswitch.dataplane.neighbours import mac_for
    from penstock.vswitch.dataplane.state import txq_at, txq_end
    from penstock.vswitch.memory.layout import load64
    from penstock.vswitch.memory.rings import slot_of
    from penstock.vswitch.ports.base import port_send


def send_direct(worker, own, number, frame, length, now):
    """Send a frame of receive queue `number` to its device; False: it has to go into the queue.

    The queue must be known, so that it can be closed, and empty, so that no frame overtakes another of its flow; the device and
    the socket behind it must have room.
    """
    driver = driver_of(own)
    txq = txq_at(side_of(driver), number)
    if driver.direct <= 0 or driver.overlay or now < driver.try_at or not txq.known or not rxq_at(driver, number).named:
        return False
    if txq.held or load64(slot_of(own_view(driver), txq_end(txq))):
        return False
    if driver.limited and not fits(driver, number, length):
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
