"""penstock trace"""

import sys
from pathlib import Path
from typing import Annotated

import typer


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="The file; default: LABEL.pftrace or .pcapng here.", show_default=False),
    ] = None,
    format: Annotated[
        str | None, typer.Option(help="perfetto or pcapng; default: by the suffix of FILE, else perfetto.", show_default=False)
    ] = None,
    start: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Leave out what was before.", show_default=False)
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Leave out this time and what was after.", show_default=False)
    ] = None,
    node: Annotated[
        list[str] | None,
        typer.Option(
            "--node", metavar="NODE", help="Only this host or switch, by name or number; repeatable.", show_default=False
        ),
    ] = None,
    port: Annotated[
        list[int] | None, typer.Option("--port", metavar="N", help="Only ports of this number; repeatable.", show_default=False)
    ] = None,
) -> None:
    """Write a run as a trace for Perfetto, or as a capture for Wireshark.

    A trace shows pauses, which pause caused which, and queues over time: open it at https://ui.perfetto.dev. A capture
    (--format pcapng) holds pauses as 802.1Qbb frames, and packets. Each needs `[measure]` settings when the run is made:
    pauses, port_series or queues, packets.

    Examples:

        penstock trace runs/quickstart/bfc -o bfc.pftrace

        penstock trace runs/quickstart/bfc -o bfc.pcapng --node tor0 --from 100us --to 200us
    """
    from rich.console import Console
    from rich.progress import Progress

    from penstock_net.results.run import Run
    from penstock_net.trace import SUFFIXES, write_trace

    loaded = Run.load(run)
    out = out or Path(f"{loaded.label}{SUFFIXES.get(format or 'perfetto', '')}")
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(out.name)
        counts = write_trace(
            loaded,
            out,
            format,
            start=start,
            end=end,
            nodes=node or (),
            ports=port or (),
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    typer.echo(f"written to {out}: {', '.join(f'{count:,} {what}' for what, count in counts.items())}")
