"""Scheduling latency of a thread on shared processors."""

import platform
import struct

from penstock_net.errors import SpecError
from penstock_net.vswitch.linux.netns import libc
from penstock_net.vswitch.world import os, threading

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


def precede() -> None:
    """Run this thread before all usual ones, from the moment it is woken: real-time class SCHED_RR, at its lowest priority.

    OSError: it takes CAP_SYS_NICE or RLIMIT_RTPRIO.
    """
    os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))


def refusal(realtime: bool = True) -> SpecError | None:
    """Why threads of this process may not `precede`, if they shall."""
    problems: list[OSError] = []

    def attempt() -> None:
        try:
            precede()
        except OSError as error:
            problems.append(error)

    if realtime:
        thread = threading.Thread(target=attempt)  # the scheduling class is that of this thread only
        thread.start()
        thread.join()
    return refusal_of(problems[0]) if problems else None


def refusal_of(problem: OSError) -> SpecError:
    """What is said when the kernel refuses real-time priority."""
    remedy = "give it CAP_SYS_NICE, or LimitRTPRIO=1 and RestrictRealtime=no in its unit (packaging/realtime.conf)"
    return SpecError(f"real-time priority is refused ({problem.strerror})", path="switch.realtime", remedy=remedy)


def permit(realtime: bool) -> None:
    """SpecError: threads of this process shall `precede`, and may not."""
    if error := refusal(realtime):
        raise error
