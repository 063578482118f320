"""The client library: an application's side of a switch.

    with connect("a") as port:
        port.send(0, [frame, frame])            # returns how many fitted; queue 0 should carry one flow
        port.receive(32, timeout=1.0)           # [(queue, frame), ...]
        await port.receive_async(32)

A port belongs to one thread.  Frames are bytes, beginning with the Ethernet header.
"""

from collections.abc import Sequence
from typing import Any

from penstock_net.vswitch.daemon import places, protocol
from penstock_net.vswitch.memory.region import Region
from penstock_net.vswitch.world import asyncio, os, socket, time

AT_ONCE = 256  # frames per call in send_all: each call copies and checks its arguments


def connect(name: str, path: str | None = None, *, allow_uid: int | None = None, **shape: int) -> "Port":
    """Attach to a port of a running switch.

    path       control socket; None: the default
    allow_uid  a user whose switch is trusted, in addition to root's and this user's
    shape      as of `Region.create`: rings, queues, bells, buffers, buffer_bytes
    SpecError: no switch answers, it refuses, or a process of another user listens on the socket.
    """
    path = path or places.default_socket()
    region = Region.create(**shape)
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(15)
    try:
        answer, fds = protocol.converse(connection, path, {"attach": name, "shape": region.shape}, (region.fd,), allow_uid)
    except BaseException:
        connection.close()
        raise
    return Port(region, connection, answer, fds)


class Port:
    """An attached port: a region of memory shared with the switch."""

    def __init__(self, region: Any, connection: socket.socket, answer: dict[str, Any], fds: list[int]) -> None:
        self.region, self.connection, self.addresses = region, connection, answer["addresses"]
        region.doorbells = answer["doorbells"]
        self.bell = fds[0]
        region.wakes = self.bell
        self.wakeups = socket.socket(fileno=fds[1])
        self.wakeups.setblocking(False)

    def __enter__(self) -> "Port":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Detach; frames that the switch has not taken yet are lost."""
        if self.bell >= 0:
            self.region.wakes = -1
            os.close(self.bell)
            self.bell = -1
            self.wakeups.close()
            self.connection.close()

    def fileno(self) -> int:
        """A descriptor that becomes readable when the switch rings the doorbell after `sleep()` has returned True."""
        return self.wakeups.fileno()

    @property
    def gone(self) -> bool:
        """Whether the switch has closed the connection: it has stopped, or has detached this application."""
        return protocol.readable(self.connection)

    def send(self, queue: int, frames: Sequence[bytes], weight: int = 0, priority: int = 0) -> int:
        """Send as many frames as there is room for; returns how many. A weight > 0 sets the queue's weight and priority."""
        return int(self.region.send(queue, frames, weight, priority))

    def send_all(self, queue: int, frames: Sequence[bytes], timeout: float | None = None) -> int:
        """Send all frames, waiting for room up to `timeout` s (None: without limit); returns how many were sent.

        Fewer than all only after the timeout or if the switch has gone.
        """
        sent, wait, end = 0, 0.00005, None if timeout is None else time.monotonic() + timeout
        while sent < len(frames):
            done = self.send(queue, frames[sent : sent + AT_ONCE])
            sent += done
            if done:
                wait = 0.00005
            elif (end is not None and time.monotonic() > end) or self.gone:
                break
            else:
                time.sleep(wait)
                wait = min(2 * wait, 0.002)
        return sent

    def waiting(self, queue: int) -> int:
        """Bytes of a queue that the switch has not taken. Holding frames back while the backlog is large saves buffers."""
        return int(self.region.waiting(queue))

    def close_queue(self, queue: int) -> bool:
        """Release the memory of an idle queue; False: the switch has not emptied it yet."""
        return bool(self.region.close(queue))

    def receive(self, most: int = 32, timeout: float = 0.0) -> list[tuple[int, bytes]]:
        """Up to `most` (queue, frame), waiting up to `timeout` s for the first; empty: a timeout, or the switch has gone."""
        end = time.monotonic() + timeout
        while not (found := self.region.receive(most)):
            left = end - time.monotonic()
            if left <= 0:
                break
            if self.sleep():
                protocol.readable(self.wakeups, self.connection, wait_s=left)
                self.clear()
                if self.gone:
                    return list(self.region.receive(most))
        return list(found)

    async def receive_async(self, most: int = 32) -> list[tuple[int, bytes]]:
        """Up to `most` (queue, frame), at least one; empty only if the switch has gone."""
        loop = asyncio.get_running_loop()
        while not (found := self.region.receive(most)):
            if self.gone:
                break
            if self.sleep():
                woken = asyncio.Event()
                for fd in (self.wakeups, self.connection):
                    loop.add_reader(fd, woken.set)
                try:
                    await woken.wait()
                finally:
                    for fd in (self.wakeups, self.connection):
                        loop.remove_reader(fd)
                    self.clear()
        return list(found)

    def sleep(self) -> bool:
        """Request a wake-up by `fileno()`; False: there are frames to receive already."""
        return bool(self.region.sleep())

    def clear(self) -> None:
        """Clear the wake-up, so that `fileno()` is not readable until the next."""
        try:
            while self.wakeups.recv(4096):
                pass
        except BlockingIOError:
            pass
