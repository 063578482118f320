"""Signals that end a command, for processes that tests start: what the background job of a shell starts ignores Ctrl-C."""

import signal

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def usual_signals() -> None:
    """In a new process: these signals do what they do by default."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)
