"""A command that goes to the background once it serves, and whose caller is told how it began."""

import os
import signal
import traceback
from collections.abc import Callable

from penstock_net.errors import PenstockError


class NotStarted(PenstockError):
    """What a process in the background reported before it served, with its exit status."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.exit_status = status


def serve_in_background(serve: Callable[[Callable[[str], None]], None]) -> str:
    """Run `serve(ready)` in a process of its own; returns the text given to `ready`, from then on without a terminal.

    NotStarted: it ended before.
    """
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        _serve(serve, theirs)
    os.close(theirs)
    try:
        with open(ours, "rb") as pipe:
            said = pipe.read()
    except KeyboardInterrupt:
        os.kill(child, signal.SIGTERM)
        os.waitpid(child, 0)
        raise
    kind, text = said[:1], said[1:].decode(errors="replace")
    if kind == b"+":
        return text
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    raise NotStarted(text or f"the process has ended with status {status} before it served", status if status > 0 else 1)


def _serve(serve: Callable[[Callable[[str], None]], None], pipe: int) -> None:
    """The child's part: it ends the process."""
    status = 0
    begun = False

    def ready(text: str) -> None:
        nonlocal begun
        nothing = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(nothing, fd)
        os.close(nothing)
        os.write(pipe, b"+" + text.encode())
        os.close(pipe)
        begun = True

    try:
        os.setsid()
        serve(ready)
    except PenstockError as error:
        status = error.exit_status
        if not begun:
            os.write(pipe, b"-" + str(error).encode())
    except BaseException:
        status = 1
        traceback.print_exc()
    finally:
        os._exit(status)
