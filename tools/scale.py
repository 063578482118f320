"""Writes docs/scale.md's table and its figure: cost per packet-hop, set-up time and memory of fat trees of 128 to 65 536 hosts.

python tools/scale.py               # all sizes, some minutes; about 2 GB of memory
python tools/scale.py 8 16 32       # of these sizes only

Every number is processor time of a process of its own.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
PAGE, PICTURE = ROOT / "docs/scale.md", ROOT / "docs/images/scale.png"
MARKS = ("<!-- numbers -->", "<!-- end of numbers -->")
SIZES = (8, 16, 24, 32, 48, 64)  # k of the fat tree
SCHEMES = ("fifo", "bfc")
LONE_BYTES = 10_000_000  # one flow from end to end
MANY, MANY_BYTES = 10_000, 100_000  # flows that start at once; at most one from each host


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def measure(scheme: str, k: int, flows: int) -> dict[str, Any]:
    """One run in this process: processor time of its parts (s), memory (bytes), packet-hops."""
    from penstock_net.composition import parse
    from penstock_net.sim import results
    from penstock_net.sim.settings import Settings
    from penstock_net.sim.simulate import Runner
    from penstock_net.topology import fat_tree
    from penstock_net.workload import flow_list

    before, began = resident(), time.process_time()
    topo = fat_tree(k=k)
    rng = np.random.default_rng(1)
    pairs = [(0, topo.hosts - 1, LONE_BYTES)]
    if flows > 1:
        src = rng.permutation(topo.hosts)[: min(flows, topo.hosts)]
        dst = (src + 1 + rng.integers(0, topo.hosts - 1, len(src))) % topo.hosts
        pairs = [(int(a), int(b), MANY_BYTES) for a, b in zip(src, dst)]
    made = flow_list(topo, pairs)
    runner = Runner(Settings(topo, made, parse(scheme)))
    built, idle = time.process_time(), resident()
    runner.loop()
    ran = time.process_time()
    summary = results.collect(runner.outcome()).summary
    return {
        "hosts": topo.hosts,
        "scheme": scheme,
        "flows": len(pairs),
        "packet_hops": summary["packet_hops"],
        "setup_s": built - began,
        "loop_s": ran - built,
        "results_s": time.process_time() - ran,
        "idle_bytes": idle - before,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def in_process(*arguments: Any) -> dict[str, Any]:
    """`measure` in a new process."""
    command = [sys.executable, __file__, "--measure", *map(str, arguments)]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def table(rows: list[dict[str, Any]]) -> str:
    """The rows of a page, hosts down."""
    lines = [
        "| hosts | scheme | flows | packet-hops | ns per packet-hop | set-up, s | results, s | KB per idle host | peak, GB |",
        "|--:|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        cost, idle = 1e9 * row["loop_s"] / row["packet_hops"], row["idle_bytes"] / row["hosts"] / 1000
        lines.append(
            f"| {row['hosts']:,} | {row['scheme']} | {row['flows']:,} | {row['packet_hops']:,} | {cost:.0f} | "
            f"{row['setup_s']:.2f} | {row['results_s']:.2f} | {idle:.1f} | {row['peak_bytes'] / 1e9:.2f} |".replace(",", " ")
        )
    return "\n".join(lines)


def draw(rows: list[dict[str, Any]]) -> None:
    """Three panels over the number of hosts: cost, set-up, memory."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullFormatter

    panels = (
        ("processor time per packet-hop, ns", lambda row: 1e9 * row["loop_s"] / row["packet_hops"]),
        ("set-up, s of processor time", lambda row: row["setup_s"]),
        ("peak memory, GB", lambda row: row["peak_bytes"] / 1e9),
    )
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    for axis, (label, value) in zip(axes, panels):
        for scheme in SCHEMES:
            for lone, style in ((True, "o--"), (False, "s-")):
                chosen = [row for row in rows if row["scheme"] == scheme and (row["flows"] == 1) == lone]
                color = f"C{SCHEMES.index(scheme)}"
                name = f"{scheme}, {'one flow' if lone else f'up to {MANY:,} flows'.replace(',', ' ')}"
                axis.plot([r["hosts"] for r in chosen], [value(r) for r in chosen], style, color=color, label=name, markersize=4)
        axis.set(xscale="log", yscale="log", xlabel="hosts", title=label)
        axis.yaxis.set(major_locator=LogLocator(subs=(1, 2, 5)), major_formatter="{x:g}", minor_formatter=NullFormatter())
        axis.grid(True, which="major", alpha=0.3)
    axes[0].set_ylim(bottom=10)
    axes[0].legend(fontsize=8)
    figure.savefig(PICTURE, dpi=140)


def about() -> str:
    """Machine and commit."""
    from penstock_net.testing.bench import machine

    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    return f"Commit {commit}, {machine()}."


def main(sizes: Sequence[int]) -> None:
    rows = [in_process(scheme, k, flows) for k in sizes for scheme in SCHEMES for flows in (1, MANY)]
    text = PAGE.read_text()
    before, after = text.split(MARKS[0])[0], text.split(MARKS[1])[1]
    picture = f"![processor time per packet-hop, set-up and memory by hosts](images/{PICTURE.name})"
    PAGE.write_text(f"{before}{MARKS[0]}\n{picture}\n\n{about()}\n\n{table(rows)}\n{MARKS[1]}{after}")
    draw(rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
    else:
        main([int(k) for k in sys.argv[1:]] or SIZES)
