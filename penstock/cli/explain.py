"""penstock explain"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from penstock.topology.backpressure import Backpressure


def command(
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="A run directory. Default: every file and column.", show_default=False)
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the page docs/outputs.md.")] = False,
    backpressure: Annotated[
        str | None,
        typer.Option(
            "--backpressure",
            metavar="SPEC.toml|PRESET",
            help="Print the cycles of a network's backpressure graph instead.",
            show_default=False,
        ),
    ] = None,
    headroom: Annotated[
        str | None,
        typer.Option(
            "--headroom",
            metavar="SPEC.toml|PRESET",
            help="Print the headroom of its lossless schemes, by link and switch, instead.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="The picture of --backpressure. Default: backpressure.png.", show_default=False
        ),
    ] = None,
) -> None:
    """Describe every file and column of a run, and print its warnings.

    Examples:

        penstock explain runs/quickstart/bfc

        penstock explain --backpressure quickstart -o backpressure.pdf

        penstock explain --headroom quickstart

    The backpressure graph of a network says which egresses may pause which: one by which packets leave may pause those of the
    switches before, from which they come. A cycle is what a deadlock needs. Paths are all equal-cost shortest ones between any
    two hosts; after each change of the links the graph is made anew. The picture shows the first graph with a cycle, or else
    the first one.

    The headroom of a lossless scheme is what an ingress keeps for packets that arrive after it has paused its neighbour: for each
    priority that has pauses of its own. What a link needs for that is shown beside, and what it leaves of a switch's buffer.
    """
    from penstock.errors import SpecError
    from penstock.report import dictionary
    from penstock.results.run import Run
    from penstock.results.rundir import all_runs

    if headroom is not None:
        if run is not None or markdown or backpressure is not None or out is not None:
            raise SpecError("stands alone", place="--headroom", remedy="leave out RUN and the other options")
        _explain_headroom(headroom)
        return
    if backpressure is not None:
        if run is not None or markdown:
            raise SpecError("belongs to no run and no page", place="--backpressure", remedy="leave out RUN and --markdown")
        _explain_backpressure(backpressure, out or Path("backpressure.png"))
        return
    if out is not None:
        raise SpecError("is the picture of --backpressure", place="--out", value=out, remedy="give a spec with --backpressure")
    if run is None or markdown:
        typer.echo(dictionary.markdown(), nl=False)
        return
    for number, path in enumerate(all_runs([run])):
        typer.echo(("\n" if number else "") + dictionary.text(Run.load(path)))


def _explain_backpressure(spec: str, out: Path) -> None:
    """Print each graph of the spec's network, and draw one."""
    from penstock.composition import declared
    from penstock.report import plots
    from penstock.report.plots.backpressure import backpressure
    from penstock.spec import load_spec
    from penstock.topology.backpressure import over_time

    plots.check_format(out)
    loaded = load_spec(spec)
    schemes = [loaded.build_scheme(table) for table in loaded.schemes]
    symmetric = all(any(declared(part).fabric.get("symmetric") for part in scheme.parts) for scheme in schemes)
    graphs = over_time(loaded.build_topology(), symmetric=symmetric)
    for graph in graphs:
        typer.echo(_text(graph))
    plots.save(backpressure(next((graph for graph in graphs if graph.cycles), graphs[0])), out)
    typer.echo(f"written to {out}")


def _explain_headroom(spec: str) -> None:
    """Print the headroom of each scheme of a spec."""
    from penstock.report.headroom import lines
    from penstock.spec import load_spec

    loaded = load_spec(spec)
    topo = loaded.build_topology()
    for table in loaded.schemes:
        for line in lines(topo, loaded.build_scheme(table), loaded.host):
            typer.echo(line)


def _text(graph: "Backpressure") -> str:
    """When, which links are down, and the cycles."""
    from penstock.units import format_time

    names, links = graph.topo.names, graph.topo.links
    single = [i for i in sorted(graph.down) if not {int(links["a"][i]), int(links["b"][i])} & graph.failed]
    lost = [names[switch] for switch in sorted(graph.failed)]
    down = ", ".join([*lost, *(f"{names[links['a'][i]]} - {names[links['b'][i]]}" for i in single)])
    edges = len(graph.edges)
    when = f"from {format_time(graph.time_ps)} on" if graph.time_ps else "at first"
    links_up = f"without {down}" if down else "all links up"
    verdict = "cycles:" if graph.cycles else "no cycle: nothing can deadlock"
    lines = [f"{when}, {links_up}: {len(graph.egresses)} egresses, {edges} edges, {verdict}"]
    for cycle in graph.cycles:
        lines.append("  " + ", ".join(graph.name(egress) for egress in cycle))
        lines.append("  each may pause the next one, the last the first")
    elided = edges - len(graph.without_elided().edges)
    lines.append(f"  BFC with elide = true removes {elided} edges{', and with them every cycle' if graph.cycles else ''}")
    return "\n".join(lines)
