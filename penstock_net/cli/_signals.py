"""SIGTERM and SIGHUP do what Ctrl-C does, and the exit status is 128 + the number of the signal."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

received: list[int] = []  # numbers of signals, the first one first


def status() -> int:
    """Exit status of an interrupted command."""
    return 128 + (received[0] if received else signal.SIGINT)


@contextmanager
def as_ctrl_c() -> Iterator[None]:
    """Let SIGTERM and SIGHUP do what SIGINT does within the block; a signal that is ignored (nohup) stays so."""
    numbers = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, _interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def only_noted() -> Iterator[None]:
    """Let signals wait in `received` within the block, in which results are saved."""
    before = signal.signal(signal.SIGINT, _note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _note(number: int, frame: Any) -> None:
    received.append(number)


def _interrupt(number: int, frame: Any) -> None:
    handler = signal.getsignal(signal.SIGINT)
    _note(number, frame)
    if handler is _note:
        return
    if not callable(handler):  # SIGINT is ignored, as in a shell's background job
        raise KeyboardInterrupt
    handler(number, frame)
