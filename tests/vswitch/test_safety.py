"""Which regions a switch accepts from an application, and accesses outside of a region."""

import fcntl
import os
import signal
import socket
import subprocess
import sys

import pytest

from penstock_net.errors import SpecError
from penstock_net.vswitch.memory.region import Region

SMALL = {"rings": 32, "queues": 4, "bells": 16, "buffers": 512, "buffer_bytes": 64}
READ = """
import ctypes, sys
from penstock_net.vswitch.memory.region import Region
app = Region.create(rings=32, queues=4, bells=16, buffers=512, buffer_bytes=64)
region = app if sys.argv[1] == "application" else Region.attach(app.fd, app.shape)
start, length = region.place
end = start + (length + 4095) // 4096 * 4096
at = {"first": start, "last": start + length - 1, "before": start - 1, "behind": end, "page behind": end + 4095}[sys.argv[2]]
ctypes.c_char.from_address(at).value
print("read")
"""


OUTSIDE = {"first": False, "last": False, "before": True, "behind": True, "page behind": True}


@pytest.mark.parametrize("side", ["application", "switch"])
@pytest.mark.parametrize("where, dies", OUTSIDE.items())
def test_an_access_outside_of_a_region_dies(side, where, dies):
    done = subprocess.run([sys.executable, "-c", READ, side, where], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == ((-signal.SIGSEGV, "") if dies else (0, "read\n")), done.stderr


def plain():
    return os.memfd_create("plain", os.MFD_ALLOW_SEALING)


def sealed(seals, flags=os.MFD_ALLOW_SEALING):
    fd = os.memfd_create("sealed", flags)
    os.ftruncate(fd, 1 << 21)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def read_only():
    fd = sealed(fcntl.F_SEAL_SHRINK)
    again = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
    os.close(fd)
    return again


FILES = {
    "empty": plain,
    "not sealed": lambda: sealed(0),
    "sealed against growing only": lambda: sealed(fcntl.F_SEAL_GROW),
    "sealed against writing": lambda: sealed(fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_WRITE),
    "for reading only": read_only,
    "huge pages": lambda: sealed(fcntl.F_SEAL_SHRINK, os.MFD_ALLOW_SEALING | os.MFD_HUGETLB),
    "a directory": lambda: os.open("/", os.O_RDONLY),
    "a socket": lambda: socket.socket().detach(),
    "a pipe": lambda: os.pipe2(os.O_CLOEXEC)[0],
    "a device": lambda: os.open("/dev/zero", os.O_RDWR),
    "an eventfd": lambda: os.eventfd(0),
    "a closed one": lambda: 1000,
}


@pytest.mark.parametrize("what", FILES)
def test_what_is_no_region_is_refused(what):
    """Nothing that could become shorter, be read-only, or be larger than it says is ever mapped."""
    fd = FILES[what]()
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises((SpecError, OSError) if what == "a closed one" else SpecError, match=r"^region: |Bad file"):
        Region.attach(fd, SMALL)
    assert len(os.listdir("/proc/self/fd")) == before
    if what != "a closed one":
        os.close(fd)


def test_huge_pages_never_cover_the_guard():
    """Their mapping would be longer than the region; so the region never begins where one may begin."""
    regions = [Region.create(**{**SMALL, "buffers": 4096, "buffer_bytes": 2048}) for _ in range(4)]
    others = [Region.attach(r.fd, r.shape) for r in regions]
    assert all(r.place[0] % (1 << 21) for r in regions + others)
