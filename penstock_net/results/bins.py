"""Bins of flow sizes with equal shares of the flows, as in figure 11 of HPCC (SIGCOMM 2019)."""

import numpy as np

from penstock_net.inputs import whole

MOST = 1000


def equal_shares(sizes: np.ndarray, count: int) -> list[int]:
    """Upper bounds of bins, bytes: of n flows each bin has n / count, by size; fewer bins where many flows have one size.

    SpecError: count is no number from 1 to MOST.
    """
    count = whole(count, "bins", 1, MOST)
    if not len(sizes):
        return [1]
    ordered = np.sort(np.asarray(sizes, dtype=np.int64))
    last = np.ceil(np.arange(1, count + 1) * (len(ordered) / count) - 1e-9).astype(np.int64) - 1
    return [int(bound) for bound in np.unique(ordered[np.maximum(last, 0)])]
