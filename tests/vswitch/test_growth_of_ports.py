"""What ports cost at the start, and one that is added: counted in requests to the kernel, sockets, and more.

That it does not depend on how many there are: tests/simulated/test_costs_of_ports.py.
"""

import contextlib
import subprocess
from collections import Counter

import pytest
from daemons import running
from test_gone import FORBIDDEN, path_of, ready, tap
from waiting import until

from penstock_net.vswitch import world
from penstock_net.vswitch.attach import edge
from penstock_net.vswitch.attach.lab import Namespace
from penstock_net.vswitch.daemon import events, protocol
from penstock_net.vswitch.linux import netlink, netns

pytestmark = pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))
MANY = 16


@pytest.fixture
def counted(monkeypatch):
    """How often the kernel is asked, how many answers it gives, how many programs are started, and sockets of netlink opened, how
    often a thread enters a namespace, and an edge is made due, since it was cleared."""
    found = Counter()
    ask, run = netlink.Netlink.ask, subprocess.run

    def count(owner, name, what):
        function = getattr(owner, name)

        def counting(*arguments, **options):
            found[what] += 1
            return function(*arguments, **options)

        monkeypatch.setattr(owner, name, counting)

    def asked(self, *arguments):
        answers = ask(self, *arguments)
        found["asked"] += 1
        found["answers"] += len(answers)
        return answers

    def started(*arguments, **options):
        found["started"] += 1
        return run(*arguments, **options)

    count(netlink.Netlink, "__init__", "opened")
    count(netns.NetNs, "enter", "entered")
    count(edge.Dues, "set", "due")
    monkeypatch.setattr(netlink.Netlink, "ask", asked)
    monkeypatch.setattr(world.subprocess, "run", started)
    monkeypatch.setattr(events, "LOOK_S", 3600.0)
    return found


@contextlib.contextmanager
def many(tmp_path, number):
    """A switch with so many TAPs in one namespace, and the table of one more."""
    with Namespace() as space:
        tables = [tap(f"p{i}", f"10.76.1.{i + 1}", path_of(space), device=f"sw{i}") for i in range(number + 1)]
        path = tmp_path / f"{number}.sock"
        with running(path, {"port": tables[:-1]}) as daemon:
            ready(daemon, number)
            yield daemon, tables, space


def quiet(daemon, counted):
    """Wait until the switch has done what a change has brought about."""
    seen = []

    def rests():
        seen.append((dict(counted), daemon.keeper.lock.locked(), any(each.again for each in daemon.keeper.kept)))
        return len(seen) > 20 and all(each == seen[-1] for each in seen[-20:]) and not any(seen[-1][1:])

    until(rests)


def test_what_a_port_costs_at_the_start(tmp_path, counted):
    """Each TAP opened eight sockets of netlink and entered its namespace nine times; for each, all edges were made due anew."""
    with many(tmp_path, MANY) as (daemon, tables, _):
        quiet(daemon, counted)
        assert counted["opened"] <= MANY + 4, "one that is asked about sockets; and those of the namespace, and of the keeper"
        assert counted["entered"] <= 2 * MANY + 4
        assert counted["due"] <= 6 * MANY
        assert counted["asked"] <= 30 * MANY
        counted.clear()
        protocol.ask(daemon.path, {"port_add": tables[-1:]})
        quiet(daemon, counted)
        assert counted["due"] < MANY
