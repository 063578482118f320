"""The log of a running switch, on standard error or in a file. Operating the switch does not depend on it.

A thread of its own writes the lines, so that a blocked reader (a terminal, a pipe, a full disk) delays nothing else.

debug      every request
info       clients that attach and detach, requests, changes
warning    refused connections, protocol errors, lost frames, a metrics page that is open to other hosts
error      the error that ended the switch
"""

import contextlib
import logging

from penstock_net.errors import SpecError
from penstock_net.vswitch.world import os, pathlib, queue, threading

log = logging.getLogger("penstock_net.vswitch")
LEVELS = ("debug", "info", "warning", "error")
MOST_WAITING = 1000  # lines; more are dropped, and counted
LAST_S = 1.0  # for the lines that wait when the process ends
PRIORITY = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3}  # of syslog


class JournalFormatter(logging.Formatter):
    """Lines for systemd's journal, which adds the time itself: sd-daemon(3)."""

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage().replace("\n", " ")
        return f"<{PRIORITY.get(record.levelno, 6)}>{text}"


class Writer(logging.Handler):
    """Writes lines to a descriptor in a thread, so that logging never blocks."""

    def __init__(self, fd: int) -> None:
        super().__init__()
        self.fd, self.dropped = fd, 0
        self.lines: queue.Queue[str] = queue.Queue(MOST_WAITING)
        threading.Thread(target=self._write, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.lines.put_nowait(self.format(record))
        except queue.Full:
            self.dropped += 1

    def _write(self) -> None:
        while True:
            text = self.lines.get() + "\n"
            if self.dropped:
                text, self.dropped = f"{text}({self.dropped} lines were dropped: nobody read them)\n", 0
            _write_all(self.fd, text.encode(errors="replace"))
            self.lines.task_done()

    def flush(self) -> None:
        """Wait until all lines are written, for a second at most; `logging` calls it when the process ends."""
        with self.lines.all_tasks_done:
            self.lines.all_tasks_done.wait_for(lambda: not self.lines.unfinished_tasks, LAST_S)


def _write_all(fd: int, data: bytes) -> None:
    with contextlib.suppress(OSError):  # the reader has gone, or the disk is full
        while data:  # not by a file object, whose lock would keep the process from ending
            data = data[os.write(fd, data) :]


def say(lines: list[str]) -> None:
    """Print the last lines of the process to standard output; a blocked reader delays its end by LAST_S at most."""
    data = "".join(f"{line}\n" for line in lines).encode(errors="replace")
    writer = threading.Thread(target=_write_all, args=(1, data), daemon=True)
    writer.start()
    writer.join(LAST_S)


def start(level: str, file: pathlib.Path | None = None) -> None:
    """Send messages of at least `level` to standard error, or append them to a file.  SpecError: it cannot be written."""
    try:
        fd = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644) if file else 2
    except OSError as error:
        raise SpecError(f"cannot be written ({error.strerror})", path="--log", value=str(file)) from None
    handler = Writer(fd)
    plain = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    handler.setFormatter(JournalFormatter() if not file and _is_journal() else plain)
    for old in list(log.handlers):
        log.removeHandler(old)
    log.addHandler(handler)
    log.setLevel(level.upper())
    log.propagate = False


def finish() -> None:
    """Have the lines written that wait, before a process ends at once."""
    for handler in log.handlers:
        handler.flush()


def _is_journal() -> bool:
    """Whether standard error goes to the journal: $JOURNAL_STREAM names its device and inode."""
    try:
        found = os.fstat(2)
    except OSError:
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"
