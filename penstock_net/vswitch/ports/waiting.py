"""What a port has taken, and the kernel has not yet, of any kind of port."""

from penstock_net.vswitch.ports import mmsg, tap, vhost


def waiting_frames(handle):
    """Frames, and what else there is."""
    found = mmsg.waiting_frames(handle)
    frames = found["waiting_out"] + tap.waiting_datagrams(handle) + vhost.waiting_segments(handle)
    return {**found, "waiting_out": frames}


def made_by_cutting(handle):
    """Frames that the port has made of others, beyond one of each."""
    return vhost.further_out(handle)


def give_up_waiting(handle):
    """Count the frames that the kernel does not take now as lost."""
    mmsg.give_up_waiting(handle)
    tap.give_up_datagrams(handle)
    vhost.give_up_segments(handle)
