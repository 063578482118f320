"""The links and names of a network: how ports are numbered, and what is refused."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

import numpy as np

from penstock_net.errors import SpecError, nearest


def number_ports(links: np.ndarray, nodes: int) -> None:
    """Ports 0.. at every node, in the order of its links."""
    ends = np.stack((links["a"], links["b"]), axis=1).ravel()
    order = np.argsort(ends, kind="stable")
    first = np.concatenate(([0], np.cumsum(np.bincount(ends, minlength=nodes))))
    ports = np.empty(len(ends), dtype=np.int64)
    ports[order] = np.arange(len(ends)) - first[ends[order]]
    links["port_a"], links["port_b"] = ports[0::2], ports[1::2]


def switches_named(pattern: str, names: Sequence[str], path: str) -> np.ndarray:
    """bool by switch: whether its name fits a pattern.  SpecError: none does."""
    found = np.array([fnmatchcase(name, pattern) for name in names])
    if not found.any():
        remedy = f"nearest: {nearest(pattern, names)}; a pattern such as spine* is possible"
        raise SpecError("no switch has this name", path=path, value=pattern, remedy=remedy)
    return found


def check_names(names: Sequence[str]) -> None:
    """SpecError: two nodes have one name."""
    seen: dict[str, int] = {}
    for number, name in enumerate(names):
        if seen.setdefault(name, number) != number:
            raise SpecError(f'nodes {seen[name]} and {number} are both named "{name}"', remedy="names must differ")


def check_links(links: np.ndarray, names: Sequence[str]) -> None:
    """SpecError: a link that is none, is there twice with its ends swapped, or has a rate, delay or loss that cannot be."""

    def first(wrong: np.ndarray) -> tuple[str, int] | None:
        if not wrong.any():
            return None
        at = int(wrong.argmax())
        return f"link {names[links['a'][at]]} - {names[links['b'][at]]}", at

    if found := first(links["a"] == links["b"]):
        raise SpecError(f"{found[0]}: a link joins two different nodes", path="links", remedy="remove it")
    pair = np.minimum(links["a"], links["b"]) * np.int64(len(names)) + np.maximum(links["a"], links["b"])
    order = np.argsort(pair, kind="stable")
    swapped = np.zeros(len(links), dtype=bool)
    swapped[order[1:]] = (np.diff(pair[order]) == 0) & (np.diff(links["a"][order]) != 0)
    if found := first(swapped):
        rule = f"{found[0]} is there with its ends swapped: links are full duplex"
        raise SpecError(rule, path="links", remedy="keep one, or write parallel links with their ends in the same order")
    if found := first(links["ps_per_byte"] <= 0):
        raise SpecError(f"{found[0]}: ps_per_byte = {links['ps_per_byte'][found[1]]:g}: must be greater than zero", path="links")
    if found := first(links["delay_ps"] <= 0):
        delay = links["delay_ps"][found[1]]
        rule = f"{found[0]}: delay = {delay} ps: must be greater than zero"
        raise SpecError(f"{rule}, since the simulator's threads look ahead by the shortest delay", path="links")
    if found := first(~((links["loss"] >= 0) & (links["loss"] < 1))):
        rule = f"{found[0]}: loss = {links['loss'][found[1]]:g}: must be at least 0 and less than 1"
        raise SpecError(rule, path="links")
