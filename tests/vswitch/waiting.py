"""Waiting for a condition however slow the machine is, and durations that do not count the waits for a processor."""

import os
import time
from pathlib import Path

LIMIT_S = 120.0  # of whatever must happen; nothing takes nearly as long, even on a machine with much other load


def until(condition, what="", limit=LIMIT_S, pause=0.002):
    """Call the condition until it holds; returns its value."""
    end = time.monotonic() + limit
    while not (found := condition()):
        assert time.monotonic() < end, f"not within {limit:g} s: {what or condition}"
        time.sleep(pause)
    return found


def run_delays(pids):
    """Seconds that each thread of these processes was ready to run and had no processor, by (process, thread)."""
    found = {}
    for pid in pids:
        for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            try:
                found[pid, file.parent.name] = int(file.read_text().split()[1]) / 1e9
            except (OSError, IndexError):  # the thread has ended
                continue
    return found


class Stopwatch:
    """Seconds since it was made, less those that the threads of this process and of others spent waiting for a processor.

    On a quiet machine that is the time by the clock; on a busy one a bound on it says the same about the program.
    """

    def __init__(self, *pids):
        self.pids = (os.getpid(), *pids)
        self.before, self.start = run_delays(self.pids), time.monotonic()

    def waited(self):
        """Seconds spent waiting for a processor, added up over threads."""
        return sum(delay - self.before.get(thread, 0.0) for thread, delay in run_delays(self.pids).items())

    def elapsed(self):
        return time.monotonic() - self.start - self.waited()
