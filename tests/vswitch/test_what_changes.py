"""Every row of the table "What can change under a running switch" of docs/vswitch-operating.md: the change is made, and undone.

A row is what its first cell says, here as there.  What its last cell has in backticks is all that a test may find, and has to.
"""

import contextlib
import os
import re
import select
from pathlib import Path

import pytest
from daemons import running
from test_gone import NAMES, A, B, becomes, ip, named, passes, path_of, row, send, state, tap, tc, udp
from test_lab import FORBIDDEN
from waiting import until

from penstock_net.vswitch.attach.lab import Namespace
from penstock_net.vswitch.client.plug import Plug
from penstock_net.vswitch.daemon import protocol

pytestmark = pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))
PAGE = Path(__file__).parents[2] / "docs/vswitch-operating.md"
TITLE = "## What can change under a running switch"
SMALL, BEHIND, PLUGGED, LOCAL = "10.79.0.3", "10.76.0.4", "10.76.0.5", "172.30.0.1"
SIX, ROUTE, OTHER = "fd76::2", "10.77.0.0/16", "02:00:00:00:77:"
CASES = {}


def rows():
    """The first cell of each row of the table, and the words in backticks of its last one."""
    part = PAGE.read_text().partition(TITLE)[2].partition("\n## ")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("|")]
    return {first: re.findall("`([^`]+)`", last) for first, _, last in cells[2:]}


ROWS = rows()


def case(what):
    def keep(function):
        assert what not in CASES
        CASES[what] = function
        return function

    return keep


class Bed:
    """A switch with ports of several kinds, and what they are connected to; `made` again if a test has left it in pieces."""

    def __init__(self, folder):
        self.folder, self.stack = folder, None

    def open(self):
        self.stack = contextlib.ExitStack()
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self):
        enter = self.stack.enter_context
        enter(named())
        self.left, self.right = NAMES
        self.behind, self.far, self.spare = (enter(Namespace(name)) for name in ("behind", "far", "spare"))
        self.make_packet()
        ip("-n", self.left, "link", "add", "u0", "up", "type", "veth", "peer", "name", "u1")
        ip("-n", self.left, "link", "set", "u1", "up")
        ip("-n", self.left, "address", "add", f"{LOCAL}/24", "dev", "u0")
        ports = [
            tap("a", A, self.left),
            tap("b", B, self.right, routes=[ROUTE]) | {"addresses": [B, SIX]},
            tap("small", SMALL, self.right, mtu=1400, prefix=32) | {"device": "sw1"},
            {"name": "p", "addresses": [BEHIND], "kind": "packet", "device": "v0", "netns": self.left},
            {"name": "wire", "addresses": ["10.76.0.6"], "kind": "udp", "netns": self.left}
            | {"local": f"{LOCAL}:7000", "peer": "172.30.0.2:7000"},
            {"name": "q", "addresses": [PLUGGED]},
        ]
        self.daemon = enter(running(self.folder / "s.sock", {"port": ports}))
        self.plug_in()

    def make_packet(self):
        ip("-n", self.left, "link", "add", "v0", "up", "type", "veth", "peer", "name", "sw2", "netns", path_of(self.behind))
        self.behind.run("ip", "link", "set", "sw2", "up")
        self.behind.run("ip", "address", "add", f"{BEHIND}/24", "dev", "sw2")

    def plug_in(self):
        until(lambda: not self.daemon.plugged)
        with self.far.enter():
            self.plugged = self.stack.enter_context(Plug("q", path=self.daemon.path))

    def rest(self):
        """Wait until everything is up, and has been looked at."""
        until(lambda: sum("edge" in row(self.daemon, port)["device"] for port in ("a", "b", "small")) == 3)
        until(self.is_well, "every device is up and has been looked at")
        until(lambda: state(self.daemon, "q") == "up")

    def is_well(self):
        """Whether nothing is wrong, and the keeper has nothing to do, as it runs programs for that."""
        if not (keeper := self.daemon.keeper):
            return False
        with keeper.lock:
            told = select.select(list(keeper.watched), [], [], 0)[0]
            due = [k for k in keeper.kept if k.again or (k.was_down and k.plan.kind == "tap") or k.has_another_namespace]
            wrong = due or [k for k in keeper.kept if k.state != "up"]
            return len(keeper.kept) == 5 and not told and not wrong

    def close(self):
        if self.stack:
            self.stack.close()
            self.stack = None


@pytest.fixture(scope="module")
def kept_bed(tmp_path_factory):
    found = Bed(tmp_path_factory.mktemp("bed"))
    yield found
    found.close()


@pytest.fixture
def bed(kept_bed, request):
    if kept_bed.stack is None:
        kept_bed.open()
    kept_bed.rest()
    kept_bed.before, kept_bed.found = kept_bed.daemon.events.count, []
    kept_bed.lost_before = lost(kept_bed)
    yield kept_bed
    if request.node.stash.get(FAILED, True):
        kept_bed.close()  # it may be in any state


FAILED = pytest.StashKey()


def lost(bed):
    return {
        (each["port"], each["reason"]): each["frames"] for each in ask(bed, show="losses")["losses"] if each["kind"] == "lost"
    }


def ask(bed, **request):
    return protocol.ask(bed.daemon.path, request)


def is_said(bed, port, event):
    """Wait for an event of a port since the test has begun."""
    until(
        lambda: any(
            row["number"] > bed.before and (row["port"], row["event"]) == (port, event) for row in bed.daemon.events.rows()
        )
    )
    if event in ("address", "mtu", "detached"):
        bed.found.append(event)


def is_seen(bed, port, wanted, words=""):
    """Wait until a port has a state, everywhere where states are."""
    becomes(bed.daemon, port, wanted)
    until(lambda: words in row(bed.daemon, port)["device"]["why"], words)
    is_said(bed, port, wanted if wanted == "edge failed" else f"port {wanted}")
    assert f'port_state{{port="{port}",penstock_vswitch_port_state="{wanted}"}} 1' in bed.daemon._metrics()
    bed.found.append(wanted)


def is_lost(bed, port, reason, source=None, address=None):
    """Datagrams to a port, in this state, are lost for this reason, each of them."""
    count = 20
    send(source or bed.left, count, address)
    until(lambda: lost(bed).get((port, reason), 0) >= bed.lost_before.get((port, reason), 0) + count, (port, reason))
    bed.found.append(reason)


def flows(bed, address=B, place=None, source=None):
    return passes(source or bed.left, address, place or bed.right)


@pytest.mark.parametrize("what", ROWS)
def test_what_changes(what, bed, request):
    assert what in CASES, "a row without a test"
    request.node.stash[FAILED] = True
    CASES[what](bed)
    assert set(bed.found) == set(ROWS[what]), "what the page says, and what was seen"
    bed.rest()
    request.node.stash[FAILED] = False


def test_the_table_has_all_of_them():
    assert set(CASES) == set(ROWS) and len(ROWS) >= 15


# ---- TAPs ----


@case("a TAP is deleted")
def _(bed):
    ip("-n", bed.right, "link", "del", "sw0")
    is_seen(bed, "b", "gone", "was deleted; `reload` makes it again")
    is_lost(bed, "b", "device_gone", address=B)
    assert bed.daemon.keeper.retry() == {}
    assert flows(bed)


@case("a TAP is moved to another namespace")
def _(bed):
    ip("-n", bed.right, "link", "set", "sw0", "netns", path_of(bed.spare))
    is_seen(bed, "b", "gone", "was moved to another namespace")
    is_lost(bed, "b", "device_gone", address=B)
    bed.spare.run("ip", "link", "set", "sw0", "netns", f"/run/netns/{bed.right}")
    becomes(bed.daemon, "b", "up")
    assert flows(bed)


@case("a TAP has another Ethernet address")
def _(bed):
    assert flows(bed, A, bed.left, bed.right)
    ip("-n", bed.right, "link", "set", "sw0", "address", OTHER + "01")
    is_said(bed, "b", "address")
    assert flows(bed) and flows(bed, A, bed.left, bed.right)
    until(lambda: "PERMANENT" in ip("-n", bed.right, "neighbour", "show", A))


@case("a TAP is set down")
def _(bed):
    ip("-n", bed.right, "link", "set", "sw0", "down")
    is_seen(bed, "b", "down", "is down: ip link set sw0 up")
    is_lost(bed, "b", "errors_out", address=B)
    ip("-n", bed.right, "link", "set", "sw0", "up")
    becomes(bed.daemon, "b", "up")
    assert flows(bed) and ROUTE in ip("-n", bed.right, "route") and SIX in ip("-n", bed.right, "address")


@case("a TAP loses its carrier")
def _(bed):
    ip("-n", bed.right, "link", "set", "sw0", "carrier", "off")
    is_seen(bed, "b", "down", "has no carrier: ip link set sw0 carrier on")
    ip("-n", bed.right, "link", "set", "sw0", "carrier", "on")
    becomes(bed.daemon, "b", "up")
    assert flows(bed) and flows(bed, A, bed.left, bed.right)


@case("a TAP is renamed")
def _(bed):
    ip("-n", bed.right, "link", "set", "sw0", "name", "sw7")
    is_seen(bed, "b", "changed", "is named sw7 now: ip link set sw7 name sw0")
    assert flows(bed)
    losses = bed.daemon.devices["b"].port.losses
    assert losses() >= 0, "the kernel's losses are read by its new name"
    ip("-n", bed.right, "link", "set", "sw7", "name", "sw0")


@case("a TAP has another MTU than `mtu`")
def _(bed):
    ip("-n", bed.right, "link", "set", "sw1", "mtu", "1300")
    is_seen(bed, "small", "changed", "has an MTU of 1300, not 1400; `reload` sets it up again")
    assert bed.daemon.keeper.retry() == {} and "mtu 1400" in ip("-n", bed.right, "link", "show", "sw1")


@case("a TAP without `mtu` has another MTU")
def _(bed):
    ip("-n", bed.right, "link", "set", "sw0", "mtu", "1400")
    is_said(bed, "b", "mtu")
    assert state(bed.daemon, "b") == "up" and flows(bed)
    ip("-n", bed.right, "link", "set", "sw0", "mtu", "1500")


@case("an IP address of a TAP is removed")
def _(bed):
    ip("-n", bed.right, "address", "del", f"{SIX}/64", "dev", "sw0")
    is_seen(bed, "b", "changed", f"lacks its address {SIX}; `reload` sets it up again")
    assert flows(bed) and bed.daemon.keeper.retry() == {}
    assert SIX in ip("-n", bed.right, "address")


@case("a TAP is put into a bridge")
def _(bed):
    ip("-n", bed.right, "link", "add", "br0", "type", "bridge")
    ip("-n", bed.right, "link", "set", "sw0", "master", "br0")
    is_seen(bed, "b", "changed", "ip link set sw0 nomaster")
    ip("-n", bed.right, "link", "set", "sw0", "nomaster")
    becomes(bed.daemon, "b", "up")
    ip("-n", bed.right, "link", "del", "br0")
    assert flows(bed)


@case("a TAP asks for no neighbours (`arp off`)")
def _(bed):
    ip("-n", bed.right, "link", "set", "sw0", "arp", "off")
    assert flows(bed) and flows(bed, A, bed.left, bed.right)
    ip("-n", bed.right, "link", "set", "sw0", "arp", "on")
    assert flows(bed) and flows(bed, A, bed.left, bed.right)


@case("the neighbours of a TAP are removed")
def _(bed):
    assert flows(bed, A, bed.left, bed.right)
    until(lambda: "PERMANENT" in ip("-n", bed.right, "neighbour", "show", A))
    ip("-n", bed.right, "neighbour", "del", A, "dev", "sw0")
    assert flows(bed, A, bed.left, bed.right)
    until(lambda: "PERMANENT" in ip("-n", bed.right, "neighbour", "show", A))


@case("a route of `routes` is removed")
def _(bed):
    ip("-n", bed.right, "route", "del", ROUTE)
    with contextlib.closing(udp(bed.right)) as s, pytest.raises(OSError, match="Network is unreachable"):
        s.sendto(b"x", ("10.77.0.1", 9000))
    ip("-n", bed.right, "route", "add", ROUTE, "dev", "sw0")


@case("the queueing discipline of a TAP is deleted")
def _(bed):
    tc("qdisc", "del", "dev", "sw0", "root")
    until(lambda: "htb 1:" in tc("qdisc", "show", "dev", "sw0") and not row(bed.daemon, "b")["device"]["edge"]["failed"])
    assert flows(bed)


@case("another program sets a queueing discipline")
def _(bed):
    tc("qdisc", "replace", "dev", "sw0", "root", "pfifo")
    is_seen(bed, "b", "edge failed", "pfifo")
    assert flows(bed) and bed.daemon.keeper.retry() == {}


# ---- Namespaces ----


@case("a namespace with a name is deleted")
def _(bed):
    ip("netns", "del", bed.right)
    is_seen(bed, "b", "gone", "there is none of that name")
    is_lost(bed, "b", "device_gone", address=B)
    ip("netns", "add", bed.right)


@case("a namespace of that name is made again")
def _(bed):
    ip("netns", "del", bed.right)
    is_seen(bed, "b", "gone")
    ip("netns", "add", bed.right)
    is_seen(bed, "b", "up")
    assert flows(bed) and flows(bed, A, bed.left, bed.right)


@contextlib.contextmanager
def added(bed, where):
    """One more port, in a namespace that is given in another way."""
    address = "10.76.0.9"
    ask(bed, port_add=[tap("more", address, where, edge=False)])
    try:
        yield address
    finally:
        ask(bed, port_del=["more"])


@case("a path or link leads to another namespace")
def _(bed):
    link = bed.folder / "link"
    link.unlink(missing_ok=True)
    link.symlink_to(path_of(bed.behind))
    with added(bed, str(link)) as address:
        assert flows(bed, address, path_of(bed.behind))
        link.unlink()
        link.symlink_to(path_of(bed.spare))
        until(lambda: address in bed.spare.run("ip", "address"))
        assert flows(bed, address, path_of(bed.spare)) and "sw0" not in bed.behind.run("ip", "-o", "link")
    link.unlink()


@case("the process whose namespace it is ends")
def _(bed):
    with Namespace("own") as own:
        process = own.start("sleep", "1000")
        with added(bed, process.pid):
            process.kill()
            process.wait()
            is_seen(bed, "more", "gone", "there is no process of that number")


# ---- Other kinds ----


@case("the interface of a `packet` port is deleted")
def _(bed):
    ip("-n", bed.left, "link", "del", "v0")
    is_seen(bed, "p", "gone", "there is no such interface")
    is_lost(bed, "p", "device_gone", bed.right, BEHIND)
    bed.make_packet()
    becomes(bed.daemon, "p", "up")
    assert flows(bed, BEHIND, path_of(bed.behind), bed.right)


@case("the interface of a `packet` port is renamed or moved")
def _(bed):
    ip("-n", bed.left, "link", "set", "v0", "name", "v1")
    is_seen(bed, "p", "gone", "there is no such interface")
    is_lost(bed, "p", "device_gone", bed.right, BEHIND)
    ip("-n", bed.left, "link", "set", "v1", "name", "v0")
    becomes(bed.daemon, "p", "up")
    ip("-n", bed.left, "link", "set", "v0", "netns", path_of(bed.spare))
    becomes(bed.daemon, "p", "gone")
    bed.spare.run("ip", "link", "set", "v0", "netns", f"/run/netns/{bed.left}")
    ip("-n", bed.left, "link", "set", "v0", "up")
    becomes(bed.daemon, "p", "up")
    assert flows(bed, BEHIND, path_of(bed.behind), bed.right)


@case("the interface of a `packet` port is set down")
def _(bed):
    ip("-n", bed.left, "link", "set", "v0", "down")
    is_seen(bed, "p", "down", "is down: ip link set v0 up")
    is_lost(bed, "p", "errors_out", bed.right, BEHIND)
    ip("-n", bed.left, "link", "set", "v0", "up")
    becomes(bed.daemon, "p", "up")
    assert flows(bed, BEHIND, path_of(bed.behind), bed.right)


@case("the interface of a `packet` port loses its carrier")
def _(bed):
    bed.behind.run("ip", "link", "set", "sw2", "down")
    is_seen(bed, "p", "down", "has no carrier: its other end is down")
    is_lost(bed, "p", "errors_out", bed.right, BEHIND)
    bed.behind.run("ip", "link", "set", "sw2", "up")
    becomes(bed.daemon, "p", "up")
    assert flows(bed, BEHIND, path_of(bed.behind), bed.right)


@case("a host behind a `packet` port has another Ethernet address")
def _(bed):
    bed.behind.run("ip", "link", "set", "sw2", "address", OTHER + "02")
    assert flows(bed, A, bed.left, path_of(bed.behind))
    assert flows(bed, BEHIND, path_of(bed.behind))


@case("the local address of a `udp` port is removed")
def _(bed):
    ip("-n", bed.left, "address", "del", f"{LOCAL}/24", "dev", "u0")
    is_seen(bed, "wire", "down", f"no interface has the address {LOCAL}")
    port = bed.daemon.devices["wire"].port
    before = bed.daemon.switch.call(lambda: port.counters)
    until(lambda: bed.daemon.switch.call(lambda: port.counters["messages_lost"]) > before["messages_lost"])
    assert bed.daemon.switch.call(lambda: port.counters["errors_out"]) == before["errors_out"], "a message is no frame"
    assert bed.daemon.switch.call(lambda: port.send(bytes(200)) and port.flush())  # as if the other end were there
    until(lambda: lost(bed).get(("wire", "errors_out"), 0) > bed.lost_before.get(("wire", "errors_out"), 0))
    bed.found.append("errors_out")
    ip("-n", bed.left, "address", "add", f"{LOCAL}/24", "dev", "u0")


@case("a TAP of `plug` has another Ethernet address")
def _(bed):
    bed.far.run("ip", "link", "set", "tap0", "address", OTHER + "03")
    is_said(bed, "q", "address")
    assert flows(bed, PLUGGED, path_of(bed.far)) and flows(bed, A, bed.left, path_of(bed.far))


@case("a TAP of `plug` is set down")
def _(bed):
    bed.far.run("ip", "link", "set", "tap0", "down")
    is_seen(bed, "q", "down", "tap0 is down: ip link set tap0 up")
    is_lost(bed, "q", "errors_out", address=PLUGGED)
    bed.far.run("ip", "link", "set", "tap0", "up")
    becomes(bed.daemon, "q", "up")
    assert flows(bed, PLUGGED, path_of(bed.far))


@case("a TAP of `plug` is renamed")
def _(bed):
    bed.far.run("ip", "link", "set", "tap0", "name", "tap9")
    is_seen(bed, "q", "changed", "tap0 is named tap9 now: ip link set tap9 name tap0")
    assert flows(bed, PLUGGED, path_of(bed.far))
    bed.far.run("ip", "link", "set", "tap9", "name", "tap0")


@case("a TAP of `plug` is deleted")
def _(bed):
    bed.far.run("ip", "link", "del", "tap0")
    until(lambda: bed.plugged.gone)
    bed.plugged.close()  # as `penstock vswitch plug` does then
    is_said(bed, "q", "detached")
    bed.plug_in()


@case("the control socket is removed")
def _(bed):
    os.unlink(bed.daemon.path)
    until(lambda: os.path.exists(bed.daemon.path))
    assert state(bed.daemon, "b") == "up"
