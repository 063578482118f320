"""penstock explain"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from penstock_net.composition import Scheme
    from penstock_net.spec import Spec
    from penstock_net.topology.backpressure import Backpressure


def command(
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="A run or a sweep. Default: every file and column.", show_default=False)
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
            metavar="SPEC.toml|PRESET|SWEEP",
            help="Print the headroom of its lossless schemes, by link and switch, instead.",
            show_default=False,
        ),
    ] = None,
    buffer: Annotated[
        str | None,
        typer.Option(
            "--buffer",
            metavar="SPEC.toml|PRESET",
            help="Print the buffer that its ports need, to lose nothing and for the full rate, by rate and cable, instead.",
            show_default=False,
        ),
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(
            "--network",
            metavar="SPEC.toml|PRESET",
            help="Print what its network is made of, and what it carries at most, instead.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="The picture of --backpressure (default: backpressure.png) or of --buffer; of --buffer also a table, .csv.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Describe every file and column of a run, and print its warnings.

    Examples:

        penstock explain runs/quickstart/bfc

        penstock explain --backpressure quickstart -o backpressure.pdf

        penstock explain --headroom quickstart

        penstock explain --buffer quickstart -o buffer.pdf

        penstock explain --network quickstart

    The backpressure graph of a network says which egresses may pause which: one by which packets leave may pause those of the
    switches before, from which they come. A cycle is what a deadlock needs. Paths are all equal-cost shortest ones between any
    two hosts; after each change of the links the graph is made anew. The picture shows the first graph with a cycle, or else
    the first one.

    The headroom of a lossless scheme is what an ingress keeps for packets that arrive after it has paused its neighbour: for each
    priority that has pauses of its own. What a link needs for that is shown beside, and what it leaves of a switch's buffer. Of
    a sweep, its folder, it is shown for each point where it differs.

    The buffer that a port needs is for what comes in by one link, of one priority, virtual channel or queue: what a scheme that
    pauses or gives credit must keep never to lose a packet, and never to let the link idle. It is shown for the ports of the
    network, and for other rates and lengths of the cable; schemes of the package that the spec does not have stand beside.

    A network's bisection is what the hosts of one half of its ToRs can send to those of the other half at once.
    """
    from penstock_net.errors import SpecError
    from penstock_net.report import dictionary
    from penstock_net.results.run import Run
    from penstock_net.results.rundir import all_runs
    from penstock_net.results.sweep import is_sweep
    from penstock_net.spec import presets

    if buffer is not None and (markdown or any(value is not None for value in (run, backpressure, headroom, network))):
        raise SpecError("stands alone, but for --out", place="--buffer", remedy="leave out RUN and the other options")
    if buffer is not None:
        _explain_buffer(buffer, out)
        return
    for option, given in (("--headroom", headroom), ("--network", network)):
        others = [value for value in (run, backpressure, headroom, network, out) if value is not None]
        if given is not None and (markdown or len(others) > 1):
            raise SpecError("stands alone", place=option, remedy="leave out RUN and the other options")
    if headroom is not None:
        _explain_headroom(headroom)
        return
    if network is not None:
        _explain_network(network)
        return
    if backpressure is not None:
        if run is not None or markdown:
            raise SpecError("belongs to no run and no page", place="--backpressure", remedy="leave out RUN and --markdown")
        _explain_backpressure(backpressure, out or Path("backpressure.png"))
        return
    if out is not None:
        raise SpecError(
            "is the picture of --backpressure or --buffer",
            place="--out",
            value=out,
            remedy="give a spec with --backpressure or --buffer",
        )
    if run is None or markdown:
        typer.echo(dictionary.markdown(), nl=False)
        return
    if not Path(run).is_dir() and (Path(run).suffix == ".toml" or run in presets()):
        remedy = f"penstock run {run} --dry-run shows it in full, explain --network {run} its network, "
        remedy += f"explain --headroom {run} its buffers"
        raise SpecError("is a spec, not a run directory", place=run, remedy=remedy)
    if is_sweep(run):
        _explain_sweep(run)
        return
    for number, path in enumerate(all_runs([run])):
        typer.echo(("\n" if number else "") + dictionary.text(Run.load(path)))


def _explain_backpressure(spec: str, out: Path) -> None:
    """Print each graph of the spec's network, and draw one."""
    from penstock_net.composition import declared
    from penstock_net.report import plots
    from penstock_net.report.plots.backpressure import backpressure
    from penstock_net.topology.backpressure import over_time

    plots.check_format(out)
    loaded = _of_one_network(spec)
    schemes = [loaded.build_scheme(table) for table in loaded.schemes]
    others = [line for scheme in schemes for line in _other_paths(scheme)]
    for line in dict.fromkeys(others):
        typer.echo(line)
    symmetric = all(any(declared(part).fabric.get("symmetric") for part in scheme.parts) for scheme in schemes)
    graphs = over_time(loaded.build_topology(), symmetric=symmetric)
    for graph in graphs:
        typer.echo(_text(graph, of_all=not others))
    plots.save(backpressure(next((graph for graph in graphs if graph.cycles), graphs[0])), out)
    typer.echo(f"written to {out}")


def _other_paths(scheme: "Scheme") -> Iterator[str]:
    """A line for each part whose packets take other paths than those of the graph, or wait in classes that it does not have."""
    from penstock_net.composition import declared

    for part in scheme.parts:
        if "choose_port" not in declared(part).hooks:
            continue
        classes = declared(part).fabric.get("classes")
        count = scheme.values(part).get(str(classes), 1)
        waits = f" and packets wait in {count} classes" if count > 1 else ""
        yield (
            f"{Path(part).stem} chooses the ports{waits}: this graph, of all shortest paths and of pauses of whole links, "
            "may have cycles that cannot arise, and lack others"
        )


def _explain_network(spec: str) -> None:
    """Print a network's description, switches, cables and bisection."""
    from penstock_net.report.inventory import inventory
    from penstock_net.spec import load_spec

    topo = load_spec(spec).build_topology()
    typer.echo("\n".join([topo.describe(), *inventory(topo)]))


def _explain_buffer(spec: str, out: Path | None) -> None:
    """Print what ports need under each scheme of the spec, and others; draw it, or write it as a table."""
    from penstock_net.files import write_file
    from penstock_net.report import plots
    from penstock_net.report.buffers import lines, needs_of
    from penstock_net.report.plots.buffers import buffers
    from penstock_net.workload import Flows

    as_table = out is not None and out.suffix.lower() == ".csv"
    if out is not None and not as_table:
        plots.check_format(out)
    loaded = _of_one_network(spec)
    topo = loaded.build_topology()
    needs = needs_of([loaded.settings(table, topo, Flows.none()) for table in loaded.schemes])
    typer.echo("\n".join(lines(needs)))
    if out is None:
        return
    if as_table:
        write_file(out, needs.table.write_csv().encode())
    else:
        plots.save(buffers(needs.table, needs.own), out)
    typer.echo(f"written to {out}")


def _of_one_network(spec: str) -> "Spec":
    """A spec.  SpecError: it is a sweep."""
    from penstock_net.errors import SpecError
    from penstock_net.results.sweep import is_sweep
    from penstock_net.spec import load_spec

    if is_sweep(spec):
        raise SpecError(
            "is a sweep, whose runs may have different networks", place=spec, remedy="give the folder of one of its runs"
        )
    return load_spec(spec)


def _explain_headroom(spec: str) -> None:
    """Print the headroom of each scheme of a spec; of a sweep, each text once, with the points that it is of."""
    from penstock_net.report.headroom import lines
    from penstock_net.workload import Flows

    found: dict[str, list[str]] = {}
    for label, loaded in _points(spec):
        topo = loaded.build_topology()
        for table in loaded.schemes:
            text = "\n".join(lines(loaded.settings(table, topo, Flows.none())))
            found.setdefault(text, []).append(label)
    for text, labels in found.items():
        if any(labels):
            typer.echo(f"{'; '.join(dict.fromkeys(labels))}:")
        typer.echo(text)


def _points(spec: str) -> Iterator[tuple[str, "Spec"]]:
    """A spec; of a sweep one for each of its points, with the values of what varies but the seed."""
    from penstock_net.results.sweep import KEY, SCHEME, Sweep, is_sweep
    from penstock_net.spec import load_spec

    if not is_sweep(spec):
        yield "", load_spec(spec)
        return
    sweep = Sweep.load(spec)
    for row in sweep.runs.unique([*sweep.parameters, SCHEME], keep="first", maintain_order=True).iter_rows(named=True):
        label = ", ".join([*(f"{name} = {row[name]}" for name in sweep.parameters), row[SCHEME]])
        yield label, load_spec(sweep.path / row[KEY])


def _explain_sweep(path: str) -> None:
    """What varies in a sweep, its means, what the columns of its table are, and which folder holds which run."""
    from penstock_net.results.cells import heading
    from penstock_net.results.sweep import FILE, KEY, SCHEME, SEED, Sweep

    sweep = Sweep.load(path)
    index = [*sweep.parameters, SCHEME, SEED]
    values = {name: sweep.runs[name].unique(maintain_order=True).to_list() for name in index}
    varied = [f"{name} = {', '.join(map(str, each))}" for name, each in values.items() if len(each) > 1]
    typer.echo(f"{path}: a sweep of {sweep.runs.height} runs, {'; '.join(varied) or 'nothing varies'}\n")
    typer.echo(sweep.table())
    typer.echo(f"\n{FILE}   {sweep.runs.height:,} rows   a row per run")
    for name in (*index, *sweep.statistics, KEY):
        what = {SEED: "seed of every random stream", KEY: "the folder of the run", SCHEME: "the scheme"}.get(name)
        what = what or ("what varies" if name in sweep.parameters else heading(name))
        typer.echo(f"  {name:<32} {what}")
    typer.echo("\nfolders")
    for row in sweep.runs.iter_rows(named=True):
        typer.echo(f"  {row[KEY]}  {', '.join(f'{name} = {row[name]}' for name in index)}")
    typer.echo(f"next: penstock explain {Path(path) / str(sweep.runs[KEY][0])} describes the files of one of them")


def _text(graph: "Backpressure", of_all: bool) -> str:
    """When, which links are down, and the cycles; `of_all`: packets take no other paths than those of the graph."""
    from penstock_net.units import format_time

    names, links = graph.topo.names, graph.topo.links
    single = [i for i in sorted(graph.down) if not {int(links["a"][i]), int(links["b"][i])} & graph.failed]
    lost = [names[switch] for switch in sorted(graph.failed)]
    down = ", ".join([*lost, *(f"{names[links['a'][i]]} - {names[links['b'][i]]}" for i in single)])
    edges = len(graph.edges)
    when = f"from {format_time(graph.time_ps)} on" if graph.time_ps else "at first"
    links_up = f"without {down}" if down else "all links up"
    verdict = "cycles:" if graph.cycles else "no cycle: nothing can deadlock" if of_all else "no cycle"
    lines = [f"{when}, {links_up}: {len(graph.egresses)} egresses, {edges} edges, {verdict}"]
    for cycle in graph.cycles:
        lines.append("  " + ", ".join(graph.name(egress) for egress in cycle))
        lines.append("  each may pause the next one, the last the first")
    elided = edges - len(graph.without_elided().edges)
    lines.append(f"  BFC with elide = true removes {elided} edges{', and with them every cycle' if graph.cycles else ''}")
    return "\n".join(lines)
