"""systemd's udev, run for real, beside a switch: TAPs in the host's own namespace are given their names and addresses by it.

The kernel sends the events of an interface to the udev of its network namespace only.  So one runs here in a namespace of its
own, with a /sys that shows that namespace, and with an empty /run, /etc and /dev; of its rules it has those of interfaces only.
"""

import contextlib
import os
import shutil
import signal
from pathlib import Path

import pytest
from daemons import running
from test_gone import A, B, events, passes, path_of, ready, state, tap
from test_lab import FORBIDDEN
from waiting import until

from penstock_net.vswitch.attach.lab import Namespace
from penstock_net.vswitch.attach.open import open_port

UDEVD = next(
    (path for path in map(Path, ("/usr/lib/systemd/systemd-udevd", "/lib/systemd/systemd-udevd")) if path.exists()), None
)
pytestmark = [
    pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN)),
    pytest.mark.skipif(not UDEVD or not shutil.which("unshare"), reason="systemd-udevd or unshare is not installed"),
]
START = f"""
set -e
mount --make-rprivate /
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /etc
echo 0123456789abcdef0123456789abcdef > /etc/machine-id
rules=$(cat /usr/lib/udev/rules.d/80-net-setup-link.rules)
mount -t tmpfs tmpfs /usr/lib/udev/rules.d
echo "$rules" > /usr/lib/udev/rules.d/80-net-setup-link.rules
mkdir /run/dev
touch /run/dev/null
mount --bind /dev/null /run/dev/null
mount --rbind /run/dev /dev
exec {UDEVD} --resolve-names=never
"""
KOBJECT_UEVENT = 15  # the protocol of netlink by which the kernel tells of devices
SET, RANDOM = "3", "1"  # kinds of Ethernet addresses


@contextlib.contextmanager
def udev(space):
    """systemd-udevd of a namespace; a path of files as it sees them."""
    program = space.start("unshare", "--mount", "sh", "-c", START)
    seen = Path(f"/proc/{program.pid}/root")
    until(lambda: program.poll() is not None or hears_the_kernel(program.pid), "systemd-udevd has begun")
    if program.poll() is not None:
        pytest.skip(f"systemd-udevd does not start here: {program.stdout.read().strip()[:200]}")
    assert {each.name for each in (seen / "sys/class/net").iterdir()} == {"lo"}, "it sees no interface of the host"
    yield program.pid, seen


def hears_the_kernel(pid):
    """Whether a process of that network namespace gets events of the kernel.

    udevd makes its control socket before that, and interfaces that are made between the two it never deals with.
    """
    with contextlib.suppress(OSError):  # it has ended
        rows = [line.split() for line in Path(f"/proc/{pid}/net/netlink").read_text().splitlines()[1:]]
        return any(int(row[1]) == KOBJECT_UEVENT and int(row[3], 16) & 1 for row in rows)
    return False


def of(seen, device, what):
    return (seen / "sys/class/net" / device / what).read_text().strip()


def test_udev_leaves_the_address_of_a_tap_alone(tmp_path):
    """It gives another one to a TAP of any other program; the switch's is in use by the time that udev comes to it."""
    with Namespace("host") as host, Namespace("far") as far, udev(host) as (pid, seen):

        def known(device):
            number = of(seen, device, "ifindex")
            until(lambda: (seen / "run/udev/data" / f"n{number}").exists(), f"udev has dealt with {device}")

        os.kill(pid, signal.SIGSTOP)  # as slow as it may be
        host.run("ip", "tuntap", "add", "plain0", "mode", "tap")
        drawn = of(seen, "plain0", "address")
        assert of(seen, "plain0", "addr_assign_type") == RANDOM
        spec = {"port": [tap("a", A, path_of(far)), tap("b", B, path_of(host))]}
        with running(tmp_path / "s.sock", spec) as daemon:
            ready(daemon, 2)
            address = of(seen, "sw0", "address")
            assert of(seen, "sw0", "addr_assign_type") == SET
            os.kill(pid, signal.SIGCONT)
            known("plain0")
            known("sw0")
            assert of(seen, "plain0", "address") != drawn and of(seen, "plain0", "addr_assign_type") == SET
            assert of(seen, "sw0", "address") == address
            assert passes(path_of(far), B, path_of(host)) and passes(path_of(host), A, path_of(far))
            assert state(daemon, "b") == "up" and "address" not in events(daemon, "b")


def test_only_a_new_tap_gets_an_address():
    """One that was there before keeps the kind of its address, and what the kernel knows of its neighbours."""
    with Namespace("host") as host:
        with host.tap("10.76.9.1/24", name="sw0"):
            assert kind_of(host, "sw0") == SET
        host.run("ip", "tuntap", "add", "sw1", "mode", "tap", "vnet_hdr")
        host.run("ip", "link", "set", "sw1", "up")
        host.run("ip", "address", "add", "10.76.9.1/24", "dev", "sw1")
        host.run("ip", "neighbour", "add", "10.76.9.2", "lladdr", "02:00:00:00:00:02", "dev", "sw1", "nud", "permanent")
        with host.enter():
            opened = open_port("tap", name="sw1", persistent=True)
        with opened:
            assert "PERMANENT" in host.run("ip", "neighbour", "show", "10.76.9.2")
            assert kind_of(host, "sw1") == RANDOM


def kind_of(space, device):
    script = f"mount --make-rprivate / && mount -t sysfs sysfs /sys && cat /sys/class/net/{device}/addr_assign_type"
    return space.run("unshare", "--mount", "sh", "-c", script).strip()
