"""One look for all figures: small sans-serif type, light grids, and colours that colour-blind readers can tell apart.

A family of schemes has the same colour in every figure; runs of one family differ in dashes and marker, so that a
black-and-white print can be read, too. The palette is Okabe and Ito's (2008), and darker tints of it.
"""

import re
from typing import Any

BLUE, ORANGE, GREEN, RED, PURPLE, SKY, YELLOW, BLACK = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#F0E442",
    "#000000",
)
FAMILIES = {
    "bfc": BLUE,
    "hpcc": RED,
    "dcqcn": ORANGE,
    "dctcp": PURPLE,
    "ideal_fq": BLACK,
    "floodgate": GREEN,
    "backdraft": SKY,
    "timely": "#8C564B",
    "swift": "#7F7F00",
    "expresspass": "#6A3D9A",
    "homa": "#B22222",
    "ndp": "#A6761D",
    "pfc": "#999999",
    "fifo": "#5A5A5A",
}
OTHERS = ("#117733", "#882255", "#44AA99", "#332288", "#AA4499", "#661100")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)), (0, (3, 1, 1, 1, 1, 1)), (0, (8, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
COLUMN, PAGE = 3.4, 7.0  # inches: one column, and the whole page, of a two-column paper

RC: Any = {
    "font.family": "sans-serif",
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "axes.linewidth": 0.7,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.5,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "lines.markersize": 4,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "penstock",
    "savefig.dpi": 300,
    "savefig.bbox": "tight",
    "savefig.pad_inches": 0.03,
}


def family(scheme: str) -> str:
    """ "bfc" of "bfc:ns3", "hpcc" of "hpcc+pfc", "floodgate" of "dcqcn+floodgate": what the colour stands for."""
    parts = [re.split(r"[:,(]", part)[0].lower() for part in scheme.split("+")]
    for special in ("floodgate", "backdraft", "bfc"):
        if special in parts:
            return special
    return parts[0]


def look(scheme: str, nth: int = 0, colour: str | None = None) -> dict[str, Any]:
    """Colour, dashes and marker of the nth run of a scheme's family. Ideals are dashed, so that they hide nothing."""
    name = family(scheme)
    dash = DASHES[1] if name.startswith("ideal") and not nth else DASHES[nth % len(DASHES)]
    place = list(FAMILIES).index(name) if name in FAMILIES else 1
    return {"color": colour or FAMILIES.get(name, OTHERS[0]), "linestyle": dash, "marker": MARKERS[(place + nth) % len(MARKERS)]}
