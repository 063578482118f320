"""How our figures look: small sans-serif type, light grids, and colours that colour-blind readers can tell apart.

The palette is Okabe and Ito's (2008). Lines differ in dash or marker as well as in colour, so that a black-and-white
print can be read.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

BLUE, ORANGE, GREEN, RED, PURPLE, SKY, YELLOW, BLACK = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#000000",
)  # fmt: skip
PALETTE = (BLUE, RED, GREEN, ORANGE, PURPLE, SKY, BLACK)
DASHES: tuple[Any, ...] = (
    "-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)), (0, (3, 1, 1, 1, 1, 1)), (0, (8, 2)), "-",
)  # fmt: skip
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
COLUMN, PAGE = 3.4, 7.0  # inches: one column, and the whole page, of a two-column paper

RC: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "axes.linewidth": 0.7,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#d9d9d9",
    "grid.linewidth": 0.5,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "lines.markersize": 4,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "xtick.direction": "in",
    "ytick.direction": "in",
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "savefig.dpi": 300,
    "savefig.bbox": "tight",
    "savefig.pad_inches": 0.03,
}


def figure(
    rows: int = 1, columns: int = 1, width: float = COLUMN, height: float = 2.4, **kwargs: Any
) -> tuple[Any, Any]:
    """A matplotlib Figure in our style and its axes, as `plt.subplots` gives them, without touching global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with active():
        made = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(made)
        axes = made.subplots(rows, columns, **kwargs)
    return made, axes


def active() -> Any:
    """The context in which an experiment's `plot` is called, so that what it draws later is in style, too."""
    import matplotlib

    return matplotlib.rc_context(RC)  # type: ignore[arg-type]


def save(made: Any, out: Path) -> None:
    """figure.png and figure.pdf, the same bytes for the same figure."""
    with active():
        made.savefig(out / "figure.png", metadata={"Software": None})
        made.savefig(out / "figure.pdf", metadata={"CreationDate": None, "Creator": None, "Producer": None})


def legend_above(made: Any, axes: Any, columns: int, title: str | None = None) -> None:
    """One legend for all panels, above them, where it covers nothing."""
    with active():
        handles, labels = axes.get_legend_handles_labels()
        made.legend(handles, labels, loc="outside upper center", ncols=columns, title=title, handlelength=2.4,
                    columnspacing=1.2)  # fmt: skip


def lettered(axes: Iterable[Any], titles: Iterable[str]) -> None:
    """Titles (a), (b), ... over the panels."""
    for letter, (panel, title) in zip("abcdefghijklmnop", zip(axes, titles)):
        panel.set_title(f"({letter}) {title}")
