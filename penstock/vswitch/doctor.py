"""What this machine permits."""

import os
import platform
import sys
from pathlib import Path
from typing import Any

CAP_NET_ADMIN, CAP_NET_RAW = 12, 13


def examine() -> list[dict[str, Any]]:
    """Rows of what was tried: what, ok, needed (else the switch cannot run), detail."""
    rows: list[dict[str, Any]] = []

    def row(what: str, ok: bool, needed: bool, detail: str) -> None:
        rows.append({"what": what, "ok": ok, "needed": needed, "detail": detail})

    version = tuple(int(n) for n in platform.release().split("-")[0].split(".")[:2])
    row("kernel", version >= (5, 11), True, f"{platform.release()}; 5.11 or later is needed to sleep for microseconds")
    row("byte order", sys.byteorder == "little", True, f"{sys.byteorder}; addresses are compared as little-endian words")
    try:
        from penstock.vswitch.region import Region

        Region.create(rings=2, queues=1, bells=1, buffers=1, buffer_bytes=64)
        row("shared memory", True, True, "a sealed memfd")
    except (OSError, ImportError) as error:
        row("shared memory", False, True, str(error))
    try:
        os.close(os.pidfd_open(os.getpid()))
        row("pidfd", True, False, "the death of an application is seen at once")
    except OSError as error:
        row("pidfd", False, False, f"{error.strerror}; only the end of its connection is seen")
    cpus = sorted(os.sched_getaffinity(0))
    row("processors", len(cpus) > 1, False, f"{len(cpus)} ({', '.join(map(str, cpus))}); the worker wants one for itself")
    load = os.getloadavg()[0]
    row("quiet", load < len(cpus) / 2, False, f"load average {load:.1f}; measure times only on a quiet machine")
    tun = Path("/dev/net/tun")
    row("TAP", os.access(tun, os.R_OK | os.W_OK), False, f"{tun}: for unmodified applications")
    capabilities = effective()
    row("CAP_NET_ADMIN", bool(capabilities >> CAP_NET_ADMIN & 1), False, "for TAP and traffic control")
    row("CAP_NET_RAW", bool(capabilities >> CAP_NET_RAW & 1), False, "for packet sockets")
    return rows


def effective() -> int:
    """The capabilities of this process, as a bit mask."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0
