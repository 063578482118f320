"""The network plugin for containers (CNI): kubelet, containerd, podman call it for each; it makes a port of a running switch.

The switch opens the interface itself, in the container's namespace, so that no process stays.  The interface outlives the
switch, which takes it over when it is started again.
"""

import contextlib
import json
import sys
from collections.abc import Mapping
from typing import Any

from penstock_net.errors import PenstockError
from penstock_net.vswitch.cni import ipam
from penstock_net.vswitch.cni.spec import (
    CONFIGURATION,
    INPUT_OUTPUT,
    NO_CONTAINER,
    NOT_AS_ADDED,
    NOT_AVAILABLE,
    REFUSED,
    TRY_AGAIN,
    UNSUPPORTED,
    VERSIONS,
    Addresses,
    CniError,
    Request,
)
from penstock_net.vswitch.daemon import kept_ports, protocol
from penstock_net.vswitch.world import os, time

PORT_KEYS = ("name", "kind", "device", "netns", "addresses", "prefix", "routes", "persistent")  # that the plugin sets
BUSY_S = 10.0  # in which the switch may have too many connections


def main() -> None:
    """Do what the environment asks for, as a process of its own."""
    status, answer = answered(os.environ, sys.stdin.buffer.read())
    if answer is not None:
        print(json.dumps(answer))
        sys.stdout.flush()
    os._exit(status)  # nothing is left to do, and to tear an interpreter down takes its time


def answered(environment: Mapping[str, str], data: bytes) -> tuple[int, dict[str, Any] | None]:
    """Exit status and output of a call."""
    version = VERSIONS[-1]
    try:
        request = Request(environment, data)
        version = request.version
        return 0, COMMANDS[request.command](request, environment)
    except CniError as error:
        return 1, error.answer(version)
    except OSError as error:
        return 1, CniError(INPUT_OUTPUT, f"{error.filename or 'input or output'}: {error.strerror or error}").answer(version)


# ---- Commands ----


def add(request: Request, environment: Mapping[str, str]) -> dict[str, Any]:
    _check_first(request)
    if not os.path.exists(request.netns):
        raise CniError(NO_CONTAINER, f"CNI_NETNS = {request.netns}: there is no such namespace")
    if request.port in _ports(request):  # before the addresses: those of the first ADD shall not be given back
        raise CniError(REFUSED, f"port {request.port!r}: exists already; DEL is due before another ADD")
    result = ipam.call(request, environment)
    try:
        addresses = Addresses(result)
        row = _ask(request, {"port_add": [_table(request, addresses)], "keep": True})["added"][request.port]
        return addresses.result(request, row["mac"])
    except CniError as error:
        _give_back(request, environment, error)
        if error.code == REFUSED and not os.path.exists(request.netns):
            raise CniError(NO_CONTAINER, f"CNI_NETNS = {request.netns}: the namespace is gone", str(error)) from None
        raise


def delete(request: Request, environment: Mapping[str, str]) -> None:
    """What does not exist any more is no error, and a switch that is down has no port: it shall not take it up again."""
    try:
        _ask(request, {"port_del": [request.port], "missing_ok": True})
    except CniError as error:
        if error.code != TRY_AGAIN:
            raise
        _forget(request, request.port)
    ipam.call(request, environment)


def check(request: Request, environment: Mapping[str, str]) -> None:
    before = request.config.get("prevResult")
    if before is None:
        raise CniError(CONFIGURATION, "prevResult: is missing; CHECK needs it")
    ipam.call(request, environment)
    row = _ports(request).get(request.port)
    if row is None:
        raise CniError(NOT_AS_ADDED, f"port {request.port!r}: the switch has no such port")
    if row["state"] != "up":
        raise CniError(NOT_AS_ADDED, f"port {request.port!r}: is {row['state']}", row.get("why", ""))
    interfaces = _rows(before, "interfaces")
    ours = [i for i, each in enumerate(interfaces) if each.get("name") == request.interface and each.get("sandbox")]
    if not ours:
        raise CniError(CONFIGURATION, f"prevResult.interfaces: {request.interface} is not among them")
    expected = {str(ip.get("address")).partition("/")[0] for ip in _rows(before, "ips") if ip.get("interface") in ours}
    if missing := expected - set(row["addresses"]):
        raise CniError(NOT_AS_ADDED, f"port {request.port!r}: lacks its address {', '.join(sorted(missing))}")
    if (mac := interfaces[ours[0]].get("mac")) and row.get("mac") and str(mac).lower() != row["mac"]:
        raise CniError(NOT_AS_ADDED, f"port {request.port!r}: its interface has the Ethernet address {row['mac']}, not {mac}")


def collect(request: Request, environment: Mapping[str, str]) -> None:
    """GC: remove the ports of this network that belong to no valid attachment."""
    valid, prefix = request.valid, f"{request.config['name']}:"
    try:
        left = [name for name in _ports(request) if name.startswith(prefix) and name not in valid]
        if left:
            _ask(request, {"port_del": left, "missing_ok": True})
    except CniError as error:
        if error.code != TRY_AGAIN:
            raise
        for name in kept_ports.names(_socket(request), _trusted(request)):
            if name.startswith(prefix) and name not in valid:
                _forget(request, name)
    ipam.call(request, environment)


def status(request: Request, environment: Mapping[str, str]) -> None:
    try:
        _ask(request, {"show": "settings"})
    except CniError as error:
        raise CniError(NOT_AVAILABLE, str(error)) from None
    ipam.call(request, environment)


def version(request: Request, environment: Mapping[str, str]) -> dict[str, Any]:
    return {"cniVersion": request.version, "supportedVersions": list(VERSIONS)}


COMMANDS = {"ADD": add, "DEL": delete, "CHECK": check, "GC": collect, "STATUS": status, "VERSION": version}


# ---- The switch ----


def _check_first(request: Request) -> None:
    if "prevResult" in request.config:
        raise CniError(CONFIGURATION, "prevResult: this plugin makes the interface; it must be the first of the list")
    if known := [key for key in request.config.get("port", {}) if key in PORT_KEYS]:
        raise CniError(UNSUPPORTED, f"port.{known[0]} = {request.config['port'][known[0]]!r}: is set by the plugin; remove it")


def _table(request: Request, addresses: Addresses) -> dict[str, Any]:
    """The [[port]] of an attachment."""
    return {
        **request.config.get("port", {}),
        "name": request.port,
        "kind": "tap",
        "device": request.interface,
        "netns": request.netns,
        "addresses": addresses.addresses,
        "prefix": addresses.prefix,
        "routes": [route["dst"] for route in addresses.routes],
        "persistent": True,
    }


def _socket(request: Request) -> str:
    if path := request.config.get("socket"):
        return str(path)
    from penstock_net.vswitch.daemon import places

    return places.default_socket()


def _trusted(request: Request) -> int | None:
    """The user whose switch is trusted, beside root's."""
    if not (name := request.config.get("allow_uid")):
        return None
    from penstock_net.vswitch.daemon import places

    return places.user_number(name, "allow_uid")


def _ask(request: Request, message: dict[str, Any]) -> dict[str, Any]:
    """The answer of the switch.  CniError: there is none now, or it refuses."""
    end = time.monotonic() + BUSY_S
    while True:
        try:
            return protocol.ask(_socket(request), message, allow_uid=_trusted(request))
        except protocol.Busy as error:
            if time.monotonic() > end:
                raise CniError(TRY_AGAIN, str(error)) from None
            time.sleep(0.02)
        except protocol.NoAnswer as error:
            raise CniError(TRY_AGAIN, str(error)) from None
        except PenstockError as error:
            raise CniError(REFUSED, str(error)) from None


def _ports(request: Request) -> dict[str, dict[str, Any]]:
    """Rows of the switch's ports by name."""
    return {row["port"]: row for row in _ask(request, {"show": "ports"})["ports"]}


def _forget(request: Request, name: str) -> None:
    """Remove a port of a switch that is down: its interface, which stays without it, and the file that brings it back."""
    from penstock_net.vswitch.linux import netns
    from penstock_net.vswitch.linux.set_up import Interface

    table = kept_ports.read(_socket(request), name, _trusted(request))
    if table and not kept_ports.was_found(_socket(request), name, _trusted(request)):
        with contextlib.suppress(OSError, PenstockError):  # the namespace, or the interface, is gone
            namespace = netns.open_netns(table["netns"])
            try:
                with namespace.enter(), Interface(table["device"]) as interface:
                    interface.delete()
            finally:
                namespace.close()
    kept_ports.forget(_socket(request), name)


def _give_back(request: Request, environment: Mapping[str, str], failed: CniError) -> None:
    """Return the addresses of an ADD that failed; what fails then, too, is told beside it."""
    try:
        ipam.call(request, environment, "DEL")
    except CniError as error:
        failed.details = f"{failed.details}; {error}" if failed.details else str(error)


def _rows(result: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    rows = result.get(key)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise CniError(CONFIGURATION, f"prevResult.{key}: must be a list of objects")
    return rows


if __name__ == "__main__":
    main()
