"""Networks to simulate: the usual shapes, any graph from a file, and the [topology] table of a spec.

    topo = leaf_spine(hosts=128, tors=8, spines=8, rate="100Gbps", delay="1us", buffer="12MB")

shapes has a function per kind of network, graph the Topology that they make, servers virtual switches and slow receivers,
scale_up which hosts are GPUs of one server.
"""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from penstock_net.errors import SpecError
from penstock_net.inputs import as_table, as_tables, known_keys, one_of
from penstock_net.topology import shapes
from penstock_net.topology.changes import CHANGE_EXAMPLE, LinkChange, SwitchChange
from penstock_net.topology.files import from_file
from penstock_net.topology.graph import LINK, Topology, make_links
from penstock_net.topology.routes import Routes
from penstock_net.topology.servers import EXAMPLE as RECEIVER_EXAMPLE
from penstock_net.topology.servers import behind_vswitches, with_receivers
from penstock_net.topology.shapes import *  # noqa: F403

__all__ = [
    "KINDS",
    "LINK",
    "LinkChange",
    "Routes",
    "SwitchChange",
    "Topology",
    "behind_vswitches",
    "build",
    "from_file",
    "make_links",
    "with_receivers",
]
__all__ += shapes.__all__

KINDS: dict[str, Callable[..., Topology]] = {name: getattr(shapes, name) for name in shapes.__all__} | {"file": from_file}
COMMON = ("loss", "llr", "changes", "vswitches", "receivers", "cut_through", "cut_through_header")  # keys of every kind


def build(params: Mapping[str, Any]) -> Topology:
    """The network of a spec's [topology] table: `kind` (or `file`), the kind's own keys, and those of COMMON.

    SpecError names the key, relative to the table.
    """
    table = dict(params)
    kind = table.pop("kind", "file" if "file" in table else None)
    if kind is None:
        raise SpecError("is missing", path="kind", remedy=f'give one of {", ".join(KINDS)}, or file = "network.graphml"')
    builder = KINDS[one_of(kind, "kind", KINDS)]
    common = {key: table.pop(key) for key in COMMON if key in table}
    own = ["file" if name == "path" else name for name in inspect.signature(builder).parameters]
    known_keys(table, [*own, "kind", *COMMON])
    if kind == "file":
        if not isinstance(table.get("file"), (str, Path)):
            raise SpecError('is missing; kind = "file" reads a graph', path="file", remedy='write file = "network.graphml"')
        topo = from_file(table.pop("file"), **table)
    else:
        topo = builder(**table)
    if common.get("vswitches") is not None:
        vswitches = as_table(common["vswitches"], "vswitches", "vswitches = {apps = 2}")
        known_keys(vswitches, ("apps", "rate", "delay", "buffer"), "vswitches")
        topo = behind_vswitches(topo, **vswitches)
    cut = common.get("cut_through"), common.get("cut_through_header")
    topo = topo if cut == (None, None) else topo.with_cut_through(*cut)
    if common.get("loss") is not None:
        topo = topo.with_loss(common["loss"])
    if common.get("llr") is not None:
        topo = topo.with_llr(**as_table(common["llr"], "llr", "llr = {on = true}"))
    receivers = as_tables(common.get("receivers", ()), "receivers", f"[{RECEIVER_EXAMPLE}]")
    topo = with_receivers(topo, receivers) if receivers else topo
    changes = as_tables(common.get("changes", ()), "changes", f"[{CHANGE_EXAMPLE}]")
    return topo.with_changes(changes) if changes else topo
