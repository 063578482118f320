"""What the CNI specification prescribes: versions, environment, configuration, results, error codes.

https://www.cni.dev/docs/spec (1.1.0).  A container runtime calls the plugin once per container; so this folder imports little.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from penstock_net.errors import PenstockError, SpecError
from penstock_net.vswitch.world import os

VERSIONS = ("0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
SINCE = {"CHECK": "0.4.0", "STATUS": "1.1.0", "GC": "1.1.0"}
OF_CONTAINER = ("CNI_CONTAINERID", "CNI_IFNAME")
NEEDS = {
    "ADD": (*OF_CONTAINER, "CNI_NETNS", "CNI_PATH"),
    "CHECK": (*OF_CONTAINER, "CNI_NETNS", "CNI_PATH"),
    "DEL": (*OF_CONTAINER, "CNI_PATH"),
    "GC": ("CNI_PATH",),
    "STATUS": ("CNI_PATH",),
    "VERSION": (),
}
WORD = r"[a-zA-Z0-9][a-zA-Z0-9_.\-]*"
PATTERNS = {"CNI_CONTAINERID": WORD, "CNI_IFNAME": r"(?!\.{1,2}$)[^\s/:]{1,15}"}
VALID = "cni.dev/valid-attachments"
STANDARD = ("cniVersion", "name", "type", "ipam", "dns", "prevResult", "runtimeConfig", "args", "capabilities")
OWN = ("socket", "allow_uid", "port")
# Error codes: those of the specification, and ours from 100 on.
INCOMPATIBLE, UNSUPPORTED, NO_CONTAINER, ENVIRONMENT, INPUT_OUTPUT, UNREADABLE, CONFIGURATION = range(1, 8)
TRY_AGAIN, NOT_AVAILABLE, REFUSED, NOT_AS_ADDED = 11, 50, 100, 101


class CniError(PenstockError):
    """A failure, with its code; `details` is a longer text."""

    def __init__(self, code: int, text: str, details: str = "") -> None:
        super().__init__(text)
        self.code, self.details = code, details

    def answer(self, version: str) -> dict[str, Any]:
        found = {"cniVersion": version, "code": self.code, "msg": str(self)}
        return {**found, "details": self.details} if self.details else found


class Request:
    """What the runtime asks for.  CniError: the environment or the configuration is not valid."""

    def __init__(self, environment: Mapping[str, str], data: bytes) -> None:
        self.version = VERSIONS[-1]  # in which errors are reported, until the configuration says another
        self.data = data
        self.command = environment.get("CNI_COMMAND", "")
        if self.command not in NEEDS:
            raise _wrong("CNI_COMMAND", self.command, f"must be one of {', '.join(NEEDS)}", ENVIRONMENT)
        self._check_environment(environment)
        self.container, self.interface = (environment.get(name, "") for name in OF_CONTAINER)
        self.netns = environment.get("CNI_NETNS", "")
        self.path = environment.get("CNI_PATH", "").split(os.pathsep)
        self.config = {} if self.command == "VERSION" and not data.strip() else _parsed(data)
        self._check_version()
        if self.command != "VERSION":
            self._check_config()

    def _check_environment(self, environment: Mapping[str, str]) -> None:
        for name in NEEDS[self.command]:
            if not environment.get(name):
                raise CniError(ENVIRONMENT, f"{name}: is missing; {self.command} needs it")
            if name in PATTERNS and not re.fullmatch(PATTERNS[name], environment[name]):
                raise _wrong(name, environment[name], f"must match {PATTERNS[name]}", ENVIRONMENT)

    def _check_version(self) -> None:
        given = self.config.get("cniVersion", VERSIONS[-1] if self.command == "VERSION" else "0.1.0")
        if self.command == "VERSION":
            self.version = given if isinstance(given, str) else VERSIONS[-1]
        elif given not in VERSIONS:
            raise _wrong("cniVersion", given, f"is not supported; these are: {', '.join(VERSIONS)}", INCOMPATIBLE)
        else:
            self.version = given
            if VERSIONS.index(given) < VERSIONS.index(SINCE.get(self.command, VERSIONS[0])):
                raise _wrong("cniVersion", given, f"has no {self.command}; {SINCE[self.command]} is the first", INCOMPATIBLE)

    def _check_config(self) -> None:
        config = self.config
        for key, value in config.items():
            if key not in STANDARD and key not in OWN and not re.match(r"cni\.dev/", key):
                raise _wrong(key, value, f"is not supported; known: {', '.join((*STANDARD, *OWN))}", UNSUPPORTED)
        if not isinstance(config.get("name"), str) or not re.fullmatch(WORD, config["name"]):
            raise _wrong("name", config.get("name"), f"must match {WORD}")
        for key, kind in {"socket": str, "allow_uid": str, "port": dict, "ipam": dict, "dns": dict, "prevResult": dict}.items():
            if key in config and not isinstance(config[key], kind):
                raise _wrong(key, config[key], f"must be {'a text' if kind is str else 'an object'}")
        kind = config.get("ipam", {}).get("type")
        if not isinstance(kind, str) or not kind or "/" in kind:
            raise _wrong("ipam.type", kind, 'must name the plugin that assigns addresses, such as "host-local"')

    @property
    def port(self) -> str:
        """The name of the switch's port for this attachment."""
        return port_name(self.config["name"], self.container, self.interface)

    @property
    def valid(self) -> set[str]:
        """The ports of the attachments that GC keeps."""
        rows = self.config.get(VALID, [])
        if not isinstance(rows, list):
            raise _wrong(VALID, rows, "must be a list of objects with containerID and ifname")
        found = set()
        for row in rows:
            container, interface = (row.get("containerID"), row.get("ifname")) if isinstance(row, dict) else (None, None)
            if not isinstance(container, str) or not isinstance(interface, str):
                raise _wrong(VALID, row, "must be an object with containerID and ifname")
            found.add(port_name(self.config["name"], container, interface))
        return found


def port_name(network: str, container: str, interface: str) -> str:
    """A name that no other attachment has: none of its parts has a colon.  Of an ID of 64 digits it has 12, as usual."""
    short = container[:12] if re.fullmatch(r"[0-9a-f]{64}", container) else container
    return f"{network}:{short}:{interface}"


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        config = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CniError(UNREADABLE, f"the configuration is not JSON: {error}") from None
    if not isinstance(config, dict):
        raise CniError(UNREADABLE, "the configuration is not an object of JSON")
    return config


def _wrong(key: str, value: Any, rule: str, code: int = CONFIGURATION) -> CniError:
    return CniError(code, str(SpecError(rule, path=key, value=value)))


# ---- Addresses ----


class Addresses:
    """What an address plugin has assigned.  CniError: the switch cannot have it."""

    def __init__(self, result: Mapping[str, Any]) -> None:
        self.ips = _objects(result, "ips", "address")
        self.routes = _objects(result, "routes", "dst")
        dns = result.get("dns")
        self.dns = dns if isinstance(dns, dict) else {}
        if not self.ips:
            raise _wrong("ips", result.get("ips"), "an address plugin must assign an address")
        self.addresses, self.prefix = [], 24
        for ip in self.ips:
            address, _, bits = ip["address"].partition("/")
            self.addresses.append(address)
            if ":" in address:
                if bits != "64":
                    raise _wrong("address", ip["address"], "must have a prefix of 64 bits, as all of IPv6 at the switch")
            elif not bits.isdecimal():
                raise _wrong("address", ip["address"], "must have the length of its prefix, such as 10.0.0.2/24")
            else:
                self.prefix = int(bits)
        lengths = {ip["address"].partition("/")[2] for ip in self.ips if ":" not in ip["address"]}
        if len(lengths) > 1:
            raise _wrong("ips", sorted(lengths), "the IPv4 addresses of an interface must have prefixes of one length")

    def result(self, request: Request, mac: str) -> dict[str, Any]:
        """The result of ADD, as the version of the request has it."""
        old = VERSIONS.index(request.version) < VERSIONS.index("1.0.0")
        ips = []
        for ip in self.ips:
            row = {"address": ip["address"], "interface": 0}
            if "gateway" in ip:
                row["gateway"] = ip["gateway"]
            if old:
                row["version"] = "6" if ":" in ip["address"] else "4"
            ips.append(row)
        found = {
            "cniVersion": request.version,
            "interfaces": [{"name": request.interface, "mac": mac, "sandbox": request.netns}],
            "ips": ips,
            "routes": [{key: route[key] for key in ("dst", "gw") if key in route} for route in self.routes],
        }
        dns = self.dns or request.config.get("dns", {})
        return {**found, "dns": dns} if dns else found


def _objects(result: Mapping[str, Any], key: str, needed: str) -> list[dict[str, Any]]:
    """A list of objects with a text of this name."""
    rows = result.get(key) or []
    if not isinstance(rows, list) or not all(isinstance(row, dict) and isinstance(row.get(needed), str) for row in rows):
        raise _wrong(key, rows, f"must be a list of objects with {needed}")
    return rows
