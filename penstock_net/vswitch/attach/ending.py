"""The end of several devices at once: they wait together for the frames in their classes, and for the kernel.

To remove an interface the kernel waits until no processor uses it any longer, for some 20 ms; of threads that remove several, it
lets all wait at the same time.
"""

import collections
import contextlib
from collections.abc import Callable, Iterable
from typing import Any

from penstock_net.vswitch.attach import edge as edges
from penstock_net.vswitch.attach.devices import Device
from penstock_net.vswitch.attach.ingress_rates import DRAIN_S
from penstock_net.vswitch.world import threading, time

CLOSERS = 16  # threads that close devices


def release_all(devices: Iterable[Device]) -> None:
    """End the edges of devices that will be closed next, all of them, then raise the first error that is not of the kernel, whose
    interface may be gone by then.  They wait a while for the frames in their classes.
    """
    guarded = [(device, device.edge) for device in devices if device.edge]
    errors = list[Exception]()

    def attempt(step: Callable[..., object], *arguments: Any) -> None:
        try:
            step(*arguments)
        except OSError:
            pass
        except Exception as error:
            errors.append(error)

    edges.THREADS.remove(*(edge for _, edge in guarded))
    own = [edge for _, edge in guarded if not edge.rates.htb.replaced]
    for device, edge in guarded:
        edge.rates.htb.stays |= not device.plan.is_persistent  # to remove it takes the kernel some 20 ms, too
    for edge in own:
        attempt(edge.rates.lift)
    end = time.monotonic() + DRAIN_S
    for edge in own:
        attempt(edge.rates.await_empty, end)
    for device, _ in guarded:
        attempt(device.release, False)
    if errors:
        raise errors[0]


def close_all(devices: Iterable[Device]) -> None:
    """Close devices, all of them, then raise the first error."""
    left, errors = collections.deque(devices), list[BaseException]()

    def close_some() -> None:
        while True:
            try:
                device = left.popleft()
            except IndexError:
                return
            try:
                device.close()
            except BaseException as error:
                errors.append(error)

    threads = list[threading.Thread]()
    with contextlib.suppress(RuntimeError):  # no more threads can be started
        for _ in range(min(CLOSERS, len(left)) - 1):
            thread = threading.Thread(target=close_some, name="close")
            thread.start()
            threads.append(thread)
    close_some()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
