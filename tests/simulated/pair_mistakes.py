"""Mistakes in the upgrade of a switch with an overlay, and in a switch that is killed: the simulation of two is to find each."""

import contextlib
from unittest import mock

from penstock_net.vswitch.attach import handing
from penstock_net.vswitch.daemon import server
from penstock_net.vswitch.support import carried
from penstock_net.vswitch.support.port_kind import Given
from penstock_net.vswitch.world import os, socket

DENSE, STOP, TAKEN = carried.Places.dense, handing.stop, handing._taken


def replaced(owner, name, other):
    return lambda: mock.patch.object(owner, name, other)


def without_session(places):
    return {name: array for name, array in DENSE(places).items() if not name.endswith("overlay")}


def unsent_is_lost(row, fds):
    """What waits for room in a socket is not handed over."""
    numbers = row["numbers"]
    return Given(fds, {**numbers, "lengths": []}, b"") if "lengths" in numbers else TAKEN(row, fds)


def rests_for_good(device):
    """A port that was stopped to be handed over sends and receives nothing any more."""
    found = STOP(device)
    device.port.close()
    return found


@contextlib.contextmanager
def in_use(path):
    """The control socket of a switch that was killed counts as that of one that runs."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        yield None
    else:
        yield socket.socket(socket.AF_UNIX)


MISTAKES = {
    "the session of an overlay is not handed over": replaced(carried.Places, "dense", without_session),
    "what waits in front of a socket is not handed over": replaced(handing, "_taken", unsent_is_lost),
    "ports are closed in the old process, which may go on": replaced(handing, "stop", rests_for_good),
    "the control socket of a killed switch is in the way": replaced(server, "listener", in_use),
}
