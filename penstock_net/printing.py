"""What every figure needs: TrueType fonts however it is saved, labels on every logarithmic axis, a picture in a notebook.

Imports matplotlib: to be imported where figures are made, not at the top of a module.
"""

import io
from typing import Any

import matplotlib
import numpy as np
from matplotlib import figure
from matplotlib.ticker import LogLocator, MaxNLocator

from penstock_net.palette import RC

SHOWN_DPI = 120  # pixels of an inch in a notebook
LEAST = 2  # labels of an axis
FONTS: Any = {name: RC[name] for name in ("pdf.fonttype", "ps.fonttype")}


class Figure(figure.Figure):
    """A matplotlib figure whose own `savefig` embeds fonts as TrueType, as ACM and IEEE require."""

    def savefig(self, *args: Any, **kwargs: Any) -> None:
        """As matplotlib's `Figure.savefig`."""
        with matplotlib.rc_context(FONTS):
            super().savefig(*args, **kwargs)

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """The figure below a cell of a notebook, sharp on fine screens, and its size there."""
        file = io.BytesIO()
        self.savefig(file, format="png", dpi=2 * SHOWN_DPI)
        width, height = (round(float(side) * SHOWN_DPI) for side in self.get_size_inches())
        return file.getvalue(), {"width": width, "height": height}


class LogTicks(LogLocator):
    """Ticks at `subs` of every decade; where fewer than LEAST of them are in view, at more of them, at last evenly spaced."""

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """The ticks for a view from vmin to vmax."""
        low, high = min(vmin, vmax), max(vmin, vmax)
        ticks = super().tick_values(vmin, vmax)
        if _seen(ticks, low, high) >= LEAST or not 0 < low < high:
            return ticks
        for subs in ((1, 2, 5), (1, 1.5, 2, 3, 4, 5, 7)):
            ticks = LogLocator(base=10, subs=subs, numticks=20).tick_values(vmin, vmax)
            if _seen(ticks, low, high) >= LEAST:
                return ticks
        return MaxNLocator(nbins=5, steps=[1, 2, 5, 10]).tick_values(low, high)


def _seen(ticks: Any, low: float, high: float) -> int:
    """How many ticks lie in view."""
    return int(np.count_nonzero((np.asarray(ticks) >= low) & (np.asarray(ticks) <= high)))
