"""Style of the reproduced figures: colours of penstock_net.palette, several panels, one legend above them."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from penstock_net.palette import (
    BLACK,
    BLUE,
    COLUMN,
    DASHES,
    GREEN,
    MARKERS,
    ORANGE,
    PAGE,
    PURPLE,
    RC,
    RED,
    SKY,
    YELLOW,
    family,
    look,
)
from penstock_net.units import format_size

__all__ = [
    "BLACK",
    "BLUE",
    "COLUMN",
    "DASHES",
    "GREEN",
    "MARKERS",
    "ORANGE",
    "PAGE",
    "PURPLE",
    "RC",
    "RED",
    "SKY",
    "YELLOW",
    "active",
    "family",
    "figure",
    "legend_above",
    "lettered",
    "log_axis",
    "look",
    "save",
    "size_text",
]


def figure(rows: int = 1, columns: int = 1, width: float = COLUMN, height: float = 2.4, **kwargs: Any) -> tuple[Any, Any]:
    """A matplotlib Figure in our style and its axes, as `plt.subplots` gives them, without touching global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from penstock_net.printing import Figure

    with active():
        made = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(made)
        axes = made.subplots(rows, columns, **kwargs)
    return made, axes


def active() -> Any:
    """The context in which an experiment's `plot` is called, so that artists created later have the style, too."""
    import matplotlib

    return matplotlib.rc_context(RC)


def save(made: Any, out: Path) -> None:
    """figure.png and figure.pdf, the same bytes for the same figure."""
    with active():
        made.savefig(out / "figure.png", metadata={"Software": None})
        made.savefig(out / "figure.pdf", metadata={"CreationDate": None, "Creator": None, "Producer": None})


def legend_above(made: Any, axes: Any, columns: int, title: str | None = None) -> None:
    """One legend for all panels, above them."""
    with active():
        handles, labels = axes.get_legend_handles_labels()
        made.legend(handles, labels, loc="outside upper center", ncols=columns, title=title, handlelength=2.4, columnspacing=1.2)


def lettered(axes: Iterable[Any], titles: Iterable[str]) -> None:
    """Titles (a), (b), ... over the panels."""
    for letter, (panel, title) in zip("abcdefghijklmnop", zip(axes, titles)):
        panel.set_title(f"({letter}) {title}")


def size_text(value: float, _: Any = None) -> str:
    """1500 as "1.5 KB": for the ticks of an axis in bytes."""
    return format_size(value, " ")


def log_axis(axis: Any, text: Callable[..., str] | None = None, subs: tuple[float, ...] = (1,)) -> None:
    """Make an axis logarithmic, with ticks at `subs` of every decade in plain numbers or as `text` writes them."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    from penstock_net.printing import LogTicks

    (axis.axes.set_xscale if axis is axis.axes.xaxis else axis.axes.set_yscale)("log")
    axis.set_major_locator(LogTicks(base=10, subs=subs, numticks=12))
    axis.set_major_formatter(FuncFormatter(text or (lambda value, _: f"{value:g}")))
    axis.set_minor_formatter(NullFormatter())
