"""Random streams of traffic: one per seed, source and purpose, so that none depends on another."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock_net.inputs import whole

PURPOSES = (
    "gaps",
    "sizes",
    "src",
    "dst",
    "permutation",
    "incast gaps",
    "incast dst",
    "incast src",
    "incast jitter",
    "incast sizes",
    "placement",
    "experts",
)


def stream(seed: Any, index: Any, purpose: str) -> np.random.Generator:
    """A Philox generator keyed by (seed, index of the source), far from those of the other purposes.

    Adding a source, or drawing more sizes, changes nothing elsewhere. SpecError unless 0 <= seed, index < 2**64.
    """
    key = [whole(seed, "seed", 0, 2**64 - 1), whole(index, "index", 0, 2**64 - 1)]
    counter = [0, 0, 0, PURPOSES.index(purpose)]
    return np.random.Generator(np.random.Philox(key=np.array(key, np.uint64), counter=np.array(counter, np.uint64)))
