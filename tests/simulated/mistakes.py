"""Mistakes that the switch once had, or could have, put back one at a time: the simulation is to find each."""

import contextlib
from unittest import mock

from penstock_net.vswitch.attach import devices
from penstock_net.vswitch.attach.edge import Edge
from penstock_net.vswitch.daemon import server
from penstock_net.vswitch.daemon.config import Switch
from penstock_net.vswitch.daemon.keeper import Keeper
from penstock_net.vswitch.daemon.kept import Kept
from penstock_net.vswitch.daemon.server import Daemon
from penstock_net.vswitch.linux import netns
from penstock_net.vswitch.linux.htb import Htb
from penstock_net.vswitch.linux.monitor import OWN_QDISC, Monitor
from penstock_net.vswitch.simulation import steps
from penstock_net.vswitch.support.losses import Ledger
from penstock_net.vswitch.world import os


def nothing(*_, **__):
    return None


def replaced(owner, name, other):
    return lambda: mock.patch.object(owner, name, other)


def deletions_unseen(self, kept):
    return True


def new_address_unseen(self, kept, link):
    kept.device.mac = link.mac


def number_of_before(self, kept, index):
    """An interface of the same name has another number, which is not noted."""
    if not kept.index:
        RENUMBER(self, kept, index)


RENUMBER, REMOVE, GIVE, CHANGES = Keeper._renumber, Keeper.remove, Keeper._give_addresses, Monitor.changes
REGION, ENDS = Daemon._attach_region, Daemon._wait_for_end


def overruns_ignored(self):
    return CHANGES(self) or []


def namespace_kept(self, kept):
    """The descriptor of a namespace that is gone stays open."""
    kept.device.namespace = None
    LEAVE(self, kept)


LEAVE = Keeper._leave_namespace


def monitor_kept(self, kept):
    """The sockets that watch a namespace stay open."""
    with mock.patch.object(Monitor, "close", nothing):
        LEAVE(self, kept)


def number_is_enough(which):
    """A process is known by its number alone."""
    found = PROCESS(which)
    return found and (found[0], "")


PROCESS = netns.process_of


def class_kept(self, minor):
    """A class that no flow needs any longer stays."""
    return 0


def diagnosis_kept(self, *error):
    """The socket by which an edge asks for senders stays open."""
    with mock.patch.object(self.senders, "close", nothing):
        EDGE_ENDS(self, *error)


EDGE_ENDS = Edge.__exit__

REGIONS = []


class RegionsKept(Switch):
    """Regions of ports that are detached are not freed."""

    def detach(self, number):
        region = super().detach(number)
        REGIONS.append(region)
        return region


class AddressesKept(Switch):
    """Flows go on as before when addresses move."""

    def readdress(self, ports):
        pass


class CountersForgotten(Switch):
    """What an application has lost when it has gone is not added up."""

    def add_up(self, row):
        pass


def process_ends_unseen(self, connection, pid):
    """Only a connection that is closed in order ends an application: the process's descriptor stays open."""
    os.pidfd_open(pid)
    return ENDS(self, connection, pid)


def not_suspended(self, names):
    """Ports are removed with what is on its way to them."""
    switch, self.switch = self.switch, mock.Mock(call=nothing)
    try:
        REMOVE(self, names)
    finally:
        self.switch = switch


def bell_kept(self, name, region, pair):
    os.dup(pair[1])
    return REGION(self, name, region, pair)


def addresses_left(self, kept, addresses):
    """`set` gives an interface its new addresses and leaves the old ones."""
    with mock.patch.object(devices.Plan, "readdress", lambda plan, space, before, after: READDRESS(plan, space, [], after)):
        GIVE(self, kept, addresses)


READDRESS = devices.Plan.readdress


def ledger_forgets(self, row):
    self.now.pop(row["port"], None)


@contextlib.contextmanager
def whole_ports():
    """A receiver that does not read pauses all that its senders send: mode `pfc`, for which the law does not hold."""
    draw = steps.draw_settings
    with mock.patch.object(steps, "draw_settings", lambda random: {**draw(random), "mode": "pfc"}):
        yield


def made(kind):
    """A switch of another class."""
    return replaced(server, "make_switch", lambda content, config: kind(**config.settings))


MISTAKES = {
    "an interface that is deleted is not seen": replaced(Keeper, "_is_there", deletions_unseen),
    "frames go to the Ethernet address that an interface had": replaced(Keeper, "_follow", new_address_unseen),
    "an interface that was made again counts by its old number": replaced(Keeper, "_renumber", number_of_before),
    "reports that were lost are ignored": replaced(Monitor, "changes", overruns_ignored),
    "`set` leaves old addresses": replaced(Keeper, "_give_addresses", addresses_left),
    "`set` changes no address of an interface": replaced(Keeper, "_give_addresses", nothing),
    "`set` and `reload` change no address in the switch": made(AddressesKept),
    "an eventfd of each application stays open": replaced(Daemon, "_attach_region", bell_kept),
    "a descriptor of each application's process stays open": replaced(Daemon, "_wait_for_end", process_ends_unseen),
    "regions are not freed": made(RegionsKept),
    "losses of applications that have gone are forgotten": made(CountersForgotten),
    "the ledger forgets what an earlier device has lost": replaced(Ledger, "close", ledger_forgets),
    "a device is not suspended before it is left": replaced(Keeper, "_leave", lambda self, kept: kept.device.port.close()),
    "a port that is removed is not suspended first": replaced(Keeper, "remove", not_suspended),
    "an interface that is up again is not looked at": replaced(Keeper, "_concerned", lambda self, place: set()),
    "a namespace that is gone is kept by its descriptor": replaced(Keeper, "_leave_namespace", namespace_kept),
    "a namespace that is gone is kept by what watches it": replaced(Keeper, "_leave_namespace", monitor_kept),
    "a namespace of the same name is taken for the old one": replaced(Kept, "has_another_namespace", False),
    "a process is known by its number alone": replaced(netns, "process_of", number_is_enough),
    "an interface that was moved is not seen": replaced(devices, "place_of", lambda fd, here: here),
    "a class of an edge stays": replaced(Htb, "delete_class", class_kept),
    "a filter of an edge stays": replaced(Htb, "delete_filter", nothing),
    "a socket of an edge stays open": replaced(Edge, "__exit__", diagnosis_kept),
    "the queueing discipline of another program is not seen": replaced(Monitor, "root_qdisc", lambda self, i: ("htb", OWN_QDISC)),
    "neighbours stay whose addresses no port has": replaced(Monitor, "remove_neighbour", nothing),
    "`reload` does not try again": replaced(Keeper, "retry", lambda self: {}),
    "a receiver that does not read pauses its senders as a whole": whole_ports,
}
