"""Flows as a notebook shows them."""

from collections.abc import Sequence

import numpy as np

from penstock_net.notebook import block
from penstock_net.units import format_size, format_time


def as_html(classes: Sequence[str], class_id: np.ndarray, sizes: np.ndarray, start_ps: np.ndarray) -> str:
    """A row per class of flows, sizes in bytes, and when the first and the last one start."""
    counts, totals = np.bincount(class_id, minlength=len(classes)), np.bincount(class_id, sizes, len(classes))
    rows = [(name, f"{n:,} flows", format_size(float(f"{total:.4g}"))) for name, n, total in zip(classes, counts, totals)]
    starts = [format_time(float(f"{time:.4g}")) for time in start_ps[[0, -1]].tolist()] if len(start_ps) else []
    return block("Flows", rows, [f"starts: {' to '.join(dict.fromkeys(starts))}"] if starts else [])
