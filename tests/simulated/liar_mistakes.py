"""Mistakes by which the switch believes those who lie, or does not count what it refuses: the simulation is to find each."""

from unittest import mock

from penstock_net.vswitch.attach import devices
from penstock_net.vswitch.daemon import server
from penstock_net.vswitch.support import losses

ATTACH, OTHERS = server.attach_device, losses._OTHERS


def replaced(owner, name, other):
    return lambda: mock.patch.object(owner, name, other)


def for_everybody(switch, name, device, addresses, guarded):
    return ATTACH(switch, name, device, addresses, False)


def not_counted(reason):
    return replaced(losses, "_OTHERS", [place for place in OTHERS if place.reason != reason])


ON_PORTS = {
    "devices may send for everybody": replaced(server, "attach_device", for_everybody),
    "malformed frames of devices are counted nowhere": not_counted("device_malformed"),
    "frames of other protocols are counted nowhere": not_counted("not_carried"),
}
OF_DATAGRAMS = {"the secret of an overlay is not used": replaced(devices, "parse_secret", lambda text, where: b"")}
