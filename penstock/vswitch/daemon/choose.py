"""Which switch a SPEC.toml asks for: one with the modes of a worker, or one that runs a scheme of the simulator."""

from collections.abc import Mapping
from typing import Any

from penstock.errors import SpecError
from penstock.vswitch.attach.open import open_port
from penstock.vswitch.dataplane.switch import Switch
from penstock.vswitch.schemes.switch import SchemeSwitch

LINE_KEYS = ("rate", "delay", "node")  # of a port


def check_no_lines(content: Mapping[str, Any]) -> None:
    """Rates and links are for schemes."""
    tables = content.get("port", [])
    asked = [key for key in ("scheme", "link") if key in content]
    for table in tables if isinstance(tables, list) else []:
        asked += [f"port.{key}" for key in LINE_KEYS if isinstance(table, Mapping) and key in table]
    if asked:
        raise SpecError(f'{asked[0]}: it is for a switch that runs a scheme of the simulator; give [switch] scheme = "bfc"')


def switch_of(content: Mapping[str, Any], settings: Mapping[str, Any], ports: Mapping[str, Mapping[str, Any]]) -> Any:
    """The switch of a SPEC.toml: with the modes of a worker, or with a scheme of the simulator."""
    if "scheme" not in settings:
        return Switch(**settings)
    places = [{key: port[key] for key in ("name", *LINE_KEYS) if key in port} for port in ports.values()]
    parameters, links = content.get("scheme", {}), content.get("link", [])
    if not isinstance(parameters, Mapping):
        raise SpecError("scheme: must be a table, [scheme], of its parameters")
    if not isinstance(links, list) or not all(isinstance(link, Mapping) for link in links):
        raise SpecError("link: must be tables, [[link]], such as between = [0, 1]")
    switch = SchemeSwitch(places, links, parameters, **settings)
    if switch.node >= 0:
        join(switch, ports, links)
    return switch


def join(switch: Any, ports: Mapping[str, Mapping[str, Any]], links: Any) -> None:
    """The other nodes' addresses, and a UDP port for each link to one of them."""
    for name, port in ports.items():
        if port.get("node", 0) != switch.node:
            switch.know(name, port["addresses"])
    for i, link in enumerate(links):
        if switch.node not in link["between"]:
            continue
        ends, here = link.get("ends"), link["between"].index(switch.node)
        if not isinstance(ends, list) or len(ends) != 2 or not all(isinstance(end, str) for end in ends):
            raise SpecError(
                f'link {i + 1}.ends = {ends!r}: must be the addresses of both nodes, such as ["10.0.0.1:4800", '
                f'"10.0.0.2:4800"], since [switch] node = {switch.node} runs one of them'
            )
        port = open_port("udp", local=ends[here], peer=ends[1 - here], headers=False)
        try:
            switch.join(link["between"][1 - here], port)
        except SpecError:
            port.close()
            raise
