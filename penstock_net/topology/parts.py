"""Nodes and links of a network as a file names them, before they are numbered and checked."""

from dataclasses import dataclass, field
from typing import Any

from penstock_net.errors import SpecError

LINK_KEYS = ("rate", "delay", "loss")
NODE_KEYS = ("kind", "tier", "buffer", "cut_through")
NODE_KINDS = ("host", "switch")


@dataclass
class Link:
    """`given` has what the file says of LINK_KEYS; `where` is its file and line."""

    where: str
    a: str
    b: str
    given: dict[str, Any]


@dataclass
class Node:
    """`given` has what the file says of NODE_KEYS."""

    where: str
    given: dict[str, Any] = field(default_factory=dict)
    links: int = 0


Parts = tuple[dict[str, Node], list[Link]]


def check_kind(name: str, node: Node) -> Node:
    """The node.  SpecError: a kind that is none."""
    kind = node.given.get("kind")
    if kind is not None and kind not in NODE_KINDS:
        raise SpecError(f'node {name}: must be "host" or "switch"', path="kind", value=kind, place=node.where)
    return node
