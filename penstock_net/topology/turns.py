"""Flows whose packets take turns of the links of their host."""

import numpy as np

from penstock_net.topology.routes import Routes


def ports(table: Routes, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
    """On how many ports of its host the shortest paths of each flow begin."""
    groups = np.stack((src, table.groups(src, dst)))
    pairs, which = np.unique(groups, axis=1, return_inverse=True)
    return np.array([table.next_hops[host][group] for host, group in pairs.T.tolist()], dtype=np.int64)[which.ravel()]


def busiest(sizes: int | np.ndarray, mtu: int, count: np.ndarray) -> np.ndarray:
    """Bytes of the port that is done last, of a flow alone whose packets leave by so many ports in turn; exact if they are alike.

    All packets but the last one are full: that port has the most of these, or the last one.
    """
    others = (np.asarray(sizes, dtype=np.int64) - 1) // mtu
    most, last = -(-others // count) * mtu, others // count * mtu + sizes - others * mtu
    return np.maximum(most, last)
