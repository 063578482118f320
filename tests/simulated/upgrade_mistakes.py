"""Mistakes in upgrades and in ports that are kept, put back one at a time: the simulation is to find each."""

import contextlib
from unittest import mock

from penstock_net.vswitch.attach import handing as device_handing
from penstock_net.vswitch.attach.allowance import Allowance
from penstock_net.vswitch.attach.edge import Edge
from penstock_net.vswitch.attach.ingress_rates import FlowRates
from penstock_net.vswitch.daemon import handing, kept_ports, ports, takeover, upgrade
from penstock_net.vswitch.daemon.keeper import Keeper
from penstock_net.vswitch.daemon.kept import Kept
from penstock_net.vswitch.daemon.server import Daemon, _shut
from penstock_net.vswitch.support import carried
from penstock_net.vswitch.support.losses import Ledger
from penstock_net.vswitch.world import os


def nothing(*_, **__):
    return None


def replaced(owner, name, other):
    return lambda: mock.patch.object(owner, name, other)


DESCRIBE, BUILD, GIVE, TAKE, STAY, END = (
    handing.describe,
    handing.build,
    device_handing.give,
    device_handing.take,
    Daemon.stay_attached,
    upgrade._end,
)
SPARSE, KEEP = carried.Places.sparse, kept_ports.keep


def application_forgotten(daemon, fds):
    """The last application is not handed over."""
    found = DESCRIBE(daemon, fds)
    return {**found, "applications": dict(list(found["applications"].items())[:-1])}


def connection_closed_early(daemon, name, connection, who):
    connection.close()
    STAY(daemon, name, connection, who)


def connections_shut(request, child, channel):
    """The old process hangs up on the applications, as when it goes down."""
    for connection in DAEMONS[-1].attached.values():
        _shut(connection)
    END(request, child, channel)


DAEMONS = []


def remembered(daemon, fds):
    DAEMONS.append(daemon)
    return DESCRIBE(daemon, fds)


@contextlib.contextmanager
def hung_up():
    DAEMONS.clear()
    with mock.patch.object(handing, "describe", remembered), mock.patch.object(upgrade, "_end", connections_shut):
        yield
    DAEMONS.clear()


def bell_closed_early(daemon, found, fds):
    BUILD(daemon, found, fds)
    for row in found["applications"].values():
        os.close(fds[row["bell"]])


def region_kept_open(daemon, found, fds):
    """The descriptors of regions stay open."""
    with mock.patch.object(handing, "os", mock.Mock(close=nothing)):
        BUILD(daemon, found, fds)


def without_edge(device, fds):
    return {**GIVE(device, fds), "is_guarded": False}


def table_of_its_own(table, found, fds):
    device = TAKE(table, found, fds)
    if device.table:
        device.table = Allowance()
    return device


def without(method, prefix):
    return lambda self: {name: value for name, value in method(self).items() if not name.startswith(prefix)}


def kept_without_place(socket, table, found=False):
    KEEP(socket, {key: value for key, value in table.items() if key != "netns"}, found)


def settings_of_the_file(daemon, found, fds):
    BUILD(daemon, {**found, "settings": {}}, fds)


def first_dropped(daemon, found, fds):
    """A port that is added while the switch runs counts as one of its file."""
    BUILD(daemon, {**found, "added": []}, fds)


def rest_for_good(daemon, stack):
    """The edges are not started again when an upgrade fails."""
    REST(daemon, mock.Mock(callback=nothing))


def classes_given_away(self):
    """What the new process is told the old one no longer knows."""
    found = RATES(self)
    self.held = {}
    return found


def taken_down(taken, program):
    """A new process that fails ends the edges that it was given."""
    try:
        return TAKE_OVER(taken, program)
    except BaseException:
        for device in BUILT[-1].devices.values():
            device.release(drain=False)
        raise


BUILT = []


def remembers(daemon, found, fds):
    BUILT.append(daemon)
    BUILD(daemon, found, fds)


@contextlib.contextmanager
def ends_of_its_own():
    BUILT.clear()
    with mock.patch.object(handing, "build", remembers), mock.patch.object(takeover.Taken, "build", taken_down):
        yield
    BUILT.clear()


def limits_lifted(edge, state):
    """The new process lets all sockets be sent to before it has the switch."""
    TAKE_EDGE(edge, state)
    edge.table.free()


REST, RATES, TAKE_OVER, TAKE_EDGE = upgrade._rest, FlowRates.state, takeover.Taken.build, Edge.take


RARE = replaced(handing, "build", settings_of_the_file)  # it is seen only where `set` came before
MISTAKES = {
    "an application is not handed over": replaced(handing, "describe", application_forgotten),
    "a connection is closed too early": replaced(Daemon, "stay_attached", connection_closed_early),
    "the old process hangs up on applications": hung_up,
    "an eventfd is closed too early": replaced(handing, "build", bell_closed_early),
    "regions' descriptors stay open": replaced(handing, "build", region_kept_open),
    "edges are not handed over": replaced(device_handing, "give", without_edge),
    "the budgets of sockets are not handed over": replaced(device_handing, "take", table_of_its_own),
    "transmit queues are not carried over": replaced(carried.Places, "sparse", without(SPARSE, "port")),
    "drivers are not carried over": replaced(carried.Places, "sparse", without(SPARSE, "driver")),
    "losses are not carried over": replaced(Ledger, "take", nothing),
    "added ports are not known as such": replaced(handing, "build", first_dropped),
    "the keeper does not know what was kept": replaced(Kept, "know", nothing),
    "the keeper does not keep devices": replaced(Keeper, "take", nothing),
    "edges rest for good after an upgrade that has failed": replaced(upgrade, "_rest", rest_for_good),
    "classes are given away by an upgrade that fails": replaced(FlowRates, "state", classes_given_away),
    "a new process that fails takes edges down": ends_of_its_own,
    "a new process lifts limits before it has the switch": replaced(Edge, "take", limits_lifted),
    "ports that are removed stay kept": replaced(kept_ports, "forget", nothing),
    "kept ports do not come back": replaced(ports, "add_kept", nothing),
    "a port is kept without its namespace": replaced(kept_ports, "keep", kept_without_place),
}
