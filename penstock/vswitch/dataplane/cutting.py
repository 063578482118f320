"""Super-frames for ports that take none: they are cut where they come in, so that a TAP may be beside any other port."""

import cython

if not cython.compiled:
    from penstock.vswitch.dataplane.cutting import VNET, cut_of, header_of, uncut_of
    from penstock.vswitch.dataplane.driver_state import own_key
    from penstock.vswitch.dataplane.flowtable import owner_of
    from penstock.vswitch.dataplane.parse import parse
    from penstock.vswitch.dataplane.segment import begin_cut, next_segment
    from penstock.vswitch.dataplane.state import port_at, view_of
    from penstock.vswitch.memory.layout import memcpy


def next_cut(driver, frame):
    """Write the next segment of the super-frame that is being cut to `frame`; its length, or 0: there is none."""
    if not driver.cuts:
        return 0
    length = next_segment(cut_of(driver), uncut_of(driver), frame)
    driver.cuts = 1 if length else 0
    return length


def cut_if_needed(worker, driver, frame, length):
    """Begin to cut a super-frame that has just come if its receiver takes none; the length of what is in `frame` now."""
    size = length - driver.kernel.header
    if driver.cuts or driver.kernel.header == 0 or size <= 0 or header_of(frame).gso_type == 0:
        return length
    key = own_key(driver)
    if not parse(frame + driver.kernel.header, size, 0, key):
        return length
    to = owner_of(worker, key.words[2], key.words[3])
    if to < 0 or port_at(worker, to).prefix:
        return length
    memcpy(uncut_of(driver), frame, length)
    if not begin_cut(cut_of(driver), uncut_of(driver), length, VNET + view_of(port_at(worker, to)).buffer_bytes):
        return length
    driver.cuts = 1
    driver.cut_frames += 1
    return next_cut(driver, frame)
