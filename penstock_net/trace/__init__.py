"""Files that other programs open: what happened in a run, for Perfetto (its events over time) and Wireshark (its frames).

    write_trace(run, "bfc.pftrace")                    queues and pauses of every port, and what caused each pause
    write_trace(run, "bfc.pcapng", nodes=["tor0"])     pauses as 802.1Qbb frames, and packets if they were recorded

docs/trace.md describes both.
"""

from collections.abc import Sequence
from pathlib import Path

from penstock_net.files import new_file
from penstock_net.inputs import one_of
from penstock_net.results.run import Run
from penstock_net.trace.part import Part, Progress

SUFFIXES = {"perfetto": ".pftrace", "pcapng": ".pcapng"}


def write_trace(
    run: Run,
    path: str | Path,
    format: str | None = None,
    *,
    start: str | int | float | None = None,
    end: str | int | float | None = None,
    nodes: Sequence[str | int] = (),
    ports: Sequence[int] = (),
    progress: Progress | None = None,
) -> dict[str, int]:
    """Write a run to one file; returns how many of each thing it holds, such as {"pauses": 460, "arrows": 123}.

    format      "perfetto" or "pcapng"; None: by the suffix of `path`
    start, end  simulated time: what happened from `start` on and before `end`; a pause that reaches beyond is cut off
    nodes       by name or number; none: all
    ports       numbers of ports of these nodes; none: all
    progress    called now and then with the number of items written and of all
    SpecError: bad input, nothing of the kind was recorded, the package perfetto is missing, or the file cannot be written.
    """
    path = Path(path)
    if format is None:
        format = next((name for name, suffix in SUFFIXES.items() if path.suffix == suffix), "perfetto")
    one_of(format, "format", tuple(SUFFIXES))
    part = Part.of(run, start, end, nodes, ports)
    if format == "perfetto":
        from penstock_net.trace.perfetto import write
    else:
        from penstock_net.trace.capture import write
    with new_file(path) as out:
        return write(part, out, progress or (lambda done, total: None))
