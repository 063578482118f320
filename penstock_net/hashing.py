"""The hash functions of flows and switches, as numpy arithmetic equal to the compiled code's (fabric/state.h)."""

from typing import Any

import numpy as np

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mix64(x: np.ndarray | int) -> np.ndarray:
    """The finalizer of splitmix64 (Steele, Lea, Flood 2014), element by element."""
    with np.errstate(over="ignore"):
        mixed: Any = np.asarray(x, dtype=np.uint64)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(mixed ^ (mixed >> np.uint64(31)))


def flow_hash(numbers: np.ndarray | int, seed: int) -> np.ndarray:
    """31-bit hash of a flow's 5-tuple (which its number stands for), int32."""
    with np.errstate(over="ignore"):
        x = (np.uint64(seed & 0xFFFFFFFF) << np.uint64(32)) + np.asarray(numbers).astype(np.uint64) * GOLDEN
        return (mix64(x) & np.uint64(0x7FFFFFFF)).astype(np.int32)


def node_seed(nodes: np.ndarray | int, seed: int) -> np.ndarray:
    """31-bit ECMP seed of a switch, int32."""
    return flow_hash(np.asarray(nodes, dtype=np.int64) + (1 << 40), seed)


def choice(hashes: np.ndarray, seeds: np.ndarray, n: np.ndarray | int) -> np.ndarray:
    """Index of the next hop that a switch takes among n, int64."""
    with np.errstate(over="ignore"):
        x = (np.asarray(hashes, dtype=np.int32) ^ np.asarray(seeds, dtype=np.int32)).view(np.uint32).astype(np.uint64)
        return ((mix64(x + GOLDEN) >> np.uint64(33)) * np.asarray(n).astype(np.uint64) >> np.uint64(31)).astype(np.int64)
