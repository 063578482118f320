"""How many open files a switch needs, and the limit of them."""

import contextlib
from collections.abc import Mapping
from typing import Any

from penstock_net.errors import SpecError
from penstock_net.vswitch.support.vhost_protocol import PAIRS
from penstock_net.vswitch.world import resource

OWN = 32  # of the switch, with some connections
OF_PORT = {"tap": 13, "xdp": 12, "packet": 8, "udp": 5, "pcap": 5, "shm": 6, "vhost-user": 20}
OF_PAIR = 6  # of queues of a vhost-user port: to kick, call and report errors, each way


def needed(ports: Mapping[str, Mapping[str, Any]]) -> int:
    """Open files of a switch with these ports, applications attached to all."""
    pairs = sum(port.get("pairs", PAIRS) for port in ports.values() if port["kind"] == "vhost-user")
    return OWN + sum(OF_PORT[port["kind"]] for port in ports.values()) + OF_PAIR * pairs


def problem(ports: Mapping[str, Mapping[str, Any]]) -> SpecError | None:
    """What is wrong with the limit, if it is too low for these ports; up to the hard limit a process may raise it itself."""
    count, (_, most) = needed(ports), resource.getrlimit(resource.RLIMIT_NOFILE)
    if not 0 <= most < count:
        return None
    rule = f"this process may have at most {most} files open, and {len(ports)} ports need {count}"
    return SpecError(rule, path="descriptors", remedy=f"ulimit -n {count}, or LimitNOFILE={count} of its unit")


def allow(ports: Mapping[str, Mapping[str, Any]]) -> None:
    """Have a limit that is high enough for these ports.  SpecError: it must not be."""
    if error := problem(ports):
        raise error
    least, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= least < needed(ports):
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (needed(ports), most))
