"""What links with link-level retry have counted: the frame `llr` of a Run, and bytes that were on a link more than once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from penstock_net.results.columns import COLUMNS

if TYPE_CHECKING:
    from penstock_net.sim.core.build import Simulation


def read(sim: Simulation, ports: Any) -> np.ndarray:
    """int64: a row per port with retry, the columns of the frame, then bytes sent again or given up, and bytes thrown away.

    The counters of `ports` contain then what was thrown away where it arrived, as cut off, and what was sent again, as made.
    """
    counted = sim.retry()
    found = np.array(counted, dtype=np.int64).reshape(len(counted), len(COLUMNS["llr"]) + 2)
    at = np.searchsorted(ports["node"], found[:, 0]) + found[:, 1]
    again, thrown = found[:, -2:].T
    ports["cut_bytes"][at] += thrown
    ports["dropped_bytes"][at] += thrown - again
    return found


def frame(found: np.ndarray) -> dict[str, Any]:
    """The columns of the frame."""
    return dict(zip((column.key for column in COLUMNS["llr"].values()), found.T))
