"""What a switch reports while it runs, as lines on standard error or in a file; none of it is needed to operate it.

debug      every request
info       who attaches, detaches, asks and changes what
warning    what an operator should know: refused connections, protocol errors, frames lost, an open metrics page
error      what ended the switch
"""

import logging
import os
import sys
from pathlib import Path

from penstock.errors import SpecError

log = logging.getLogger("penstock.vswitch")
LEVELS = ("debug", "info", "warning", "error")
PRIORITY = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3}  # of syslog


class JournalFormatter(logging.Formatter):
    """Lines for systemd's journal, which has the time by itself: sd-daemon(3)."""

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage().replace("\n", " ")
        return f"<{PRIORITY.get(record.levelno, 6)}>{text}"


def start(level: str, file: Path | None = None) -> None:
    """Send messages of at least `level` to standard error, or append them to a file.  SpecError: it cannot be written."""
    try:
        handler = logging.FileHandler(file) if file else logging.StreamHandler(sys.stderr)
    except OSError as error:
        raise SpecError(f"cannot be written ({error.strerror})", path="--log", value=str(file)) from None
    plain = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    handler.setFormatter(JournalFormatter() if not file and _is_journal() else plain)
    for old in list(log.handlers):
        log.removeHandler(old)
    log.addHandler(handler)
    log.setLevel(level.upper())
    log.propagate = False


def _is_journal() -> bool:
    """Whether standard error goes to the journal: $JOURNAL_STREAM names its device and inode."""
    try:
        found = os.fstat(2)
    except OSError:
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"
