"""Draws docs/images/architecture.svg from the text below: python tools/picture.py.

A row is a layer; each calls the ones below it.  A box is (folder, what it does, how many of twelve columns).
"""

import sys
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs/images/architecture.svg"
Box = tuple[str, str, int]
LAYERS: list[tuple[str, list[Box]]] = [
    (
        "what users call",
        [
            ("cli", "commands", 4),
            ("sweeps", "many runs", 4),
            ("vswitch/simulation", "the switch under a seed's faults", 4),
        ],
    ),
    (
        "what that calls",
        [
            ("report", "tables, plots, pages", 3),
            ("testing", "conformance, bench", 3),
            ("vswitch/client", "capture, plug, top", 2),
            ("vswitch/bench", "speed of the switch", 2),
            ("vswitch/cni", "ports of containers", 2),
        ],
    ),
    (
        "inputs and results",
        [
            ("spec", "TOML", 1),
            ("topology", "nodes, links, routes", 2),
            ("workload", "flows as columns", 2),
            ("workload/traces", "GOAL, Chakra, ...", 2),
            ("results", "columns", 1),
            ("trace", "Perfetto, pcapng", 2),
            ("vswitch/daemon", "sockets, metrics", 2),
        ],
    ),
    (
        "set up and run",
        [
            ("sim", "a run: set-up, checks, results", 3),
            ("sim/interpreted", "the core as Python", 2),
            ("composition", "declarations, a + b", 2),
            ("vswitch/attach", "opens devices", 2),
            ("vswitch/support", "threads, settings, networks", 3),
        ],
    ),
    (
        "hot loops",
        [
            ("sim/core", "engine, sender, receiver", 3),
            ("vswitch/schemes", "schemes on real frames", 3),
            ("vswitch/dataplane", "flow table, schedule, workers", 3),
            ("vswitch/loadgen", "applications, virtual time", 3),
        ],
    ),
    (
        "leaves",
        [
            ("schemes", "a file per scheme", 2),
            ("fabric", "queues, switch, pacing", 2),
            ("advise", "vendors' headroom", 2),
            ("vswitch/ports", "TAP, AF_XDP, UDP, ...", 2),
            ("vswitch/memory", "shared rings", 2),
            ("vswitch/linux", "netlink, namespaces", 2),
        ],
    ),
    (
        "the outside",
        [
            ("vswitch/world", "what the switch asks of the world", 4),
            ("vswitch/world/calls", "what compiled code asks", 4),
            ("vswitch/world/simulated", "a kernel in Python, for tests", 4),
        ],
    ),
]
WIDTH, LEFT, TOP, HEIGHT, GAP, ROW = 1000, 130, 16, 56, 8, 84


def compiled(folder: str) -> bool:
    """Whether a folder of the package holds compiled modules."""
    files = (ROOT / "penstock_net" / folder).glob("[!_]*.py")
    return folder == "schemes" or any(f.with_suffix(".pxd").exists() for f in files)


def box(x: float, y: float, width: float, name: str, text: str) -> str:
    fill, line = ("#fde9d0", "#b8762a") if compiled(name) else ("#dfebf7", "#3f77ad")
    middle = x + width / 2
    return (
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{HEIGHT}" rx="6" fill="{fill}" stroke="{line}"/>'
        f'<text x="{middle:.0f}" y="{y + 24:.0f}" class="name">{escape(name)}</text>'
        f'<text x="{middle:.0f}" y="{y + 43:.0f}" class="text">{escape(text)}</text>'
    )


def svg() -> str:
    """The whole picture."""
    unit = (WIDTH - LEFT - TOP) / 12
    height = TOP + ROW * len(LAYERS) + 24
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" role="img">',
        "<title>Layers of penstock</title>",
        "<style>.name{font-weight:bold;font-size:15px;text-anchor:middle}.text{font-size:12px;text-anchor:middle}"
        ".layer{font-size:13px;font-style:italic}</style>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for i, (layer, boxes) in enumerate(LAYERS):
        x, y = float(LEFT), TOP + i * ROW
        out.append(f'<text x="{TOP}" y="{y + 34}" class="layer">{escape(layer)}</text>')
        for name, text, span in boxes:
            out.append(box(x, y, span * unit - GAP, name, text))
            x += span * unit
        if i + 1 < len(LAYERS):
            middle, end = LEFT + 6 * unit - GAP / 2, y + ROW - 4
            out.append(f'<path d="M{middle:.0f} {y + HEIGHT + 3} V{end - 6}" stroke="#555555" stroke-width="1.5"/>')
            out.append(f'<path d="M{middle - 5:.0f} {end - 8} h10 l-5 8 z" fill="#555555"/>')
    y = height - 12
    out.append(f'<rect x="{LEFT}" y="{y - 10}" width="14" height="12" fill="#dfebf7" stroke="#3f77ad"/>')
    out.append(f'<text x="{LEFT + 22}" y="{y}" font-size="12">Python</text>')
    out.append(f'<rect x="{LEFT + 90}" y="{y - 10}" width="14" height="12" fill="#fde9d0" stroke="#b8762a"/>')
    out.append(f'<text x="{LEFT + 112}" y="{y}" font-size="12">compiled by Cython</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def main() -> int:
    PICTURE.write_text(svg())
    return 0


if __name__ == "__main__":
    sys.exit(main())
