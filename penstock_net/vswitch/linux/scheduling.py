"""Scheduling latency of a thread on shared processors."""

import platform
import struct

from penstock_net.vswitch.linux.netns import libc
from penstock_net.vswitch.world import os

SLICE_NS = 100_000  # the least that Linux takes; that of a usual thread is 1 to 3 ms
CALLS = {"x86_64": 314, "aarch64": 274}  # the number of sched_setattr, for which there is no function everywhere


def hasten_thread(steps: int) -> None:
    """Reduce the wake-up latency of this thread: a short time slice, and a nice value `steps` below that of the process.

    The slice needs Linux 6.12 and no permission; a lower nice value needs CAP_SYS_NICE.  A setting that is not permitted is left
    unchanged, and so is a thread of another scheduling class.
    """
    number = CALLS.get(platform.machine())
    if number is None or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    for value in (max(-20, nice - steps), nice):
        attributes = struct.pack("=IIQiIQQQ", 48, os.SCHED_OTHER, 0, value, 0, SLICE_NS, 0, 0)  # struct sched_attr
        if libc().syscall(number, 0, attributes, 0) == 0:
            return
