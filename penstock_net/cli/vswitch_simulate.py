"""`penstock vswitch simulate`: the whole switch in a simulated world."""

import functools
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock_net.errors import SpecError


def simulate(
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="The first seed.")] = 0,
    count: Annotated[
        int, typer.Option("--count", metavar="N", min=1, help="So many seeds, up to the first that breaks a law.")
    ] = 1,
    duration: Annotated[
        str, typer.Option("--for", metavar="TIME", help="Simulated time in which faults and traffic are drawn.")
    ] = "100ms",
    shorten: Annotated[bool, typer.Option("--shorten", help="Of a failure, find a few steps that do.")] = False,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="SPEC.toml", help="Try these ports and settings; the report is per port.")
    ] = None,
    pair: Annotated[bool, typer.Option("--pair", help="Two switches, and an overlay between them over a bad network.")] = False,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="FILE", help="The last events, as text: of the last seed that runs."),
    ] = None,
    pcap: Annotated[Path | None, typer.Option("--pcap", metavar="FILE", help="Its last frames, as pcapng.")] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", metavar="N", min=1, help="Processes for many seeds, by default one per core.", show_default=False
        ),
    ] = None,
) -> None:
    """Run the whole switch in a simulated world, under faults that a seed draws; exit status 1 if a law does not hold.

    Nothing of this machine is touched, and no permission is needed. The same seed is the same run.

    Example:

        penstock vswitch simulate --seed 7 --for 1s
    """
    from penstock_net.vswitch.simulation import run
    from penstock_net.vswitch.simulation.many import run_many
    from penstock_net.vswitch.simulation.pair_run import simulate_pair
    from penstock_net.vswitch.simulation.report import lines_of

    if pair and config:
        raise SpecError("are two runs of different kinds", path="--pair, --config", remedy="leave one of them out")
    content, tried = None if config is None else read_spec(config), []
    once = simulate_pair if pair else functools.partial(run.simulate, content=content)
    seeds = range(seed, seed + count)
    alone = (once(number, duration, trace=trace, pcap=pcap) for number in seeds)
    many = run_many(seeds, duration, pair, content, workers=workers or os.cpu_count() or 1)
    for number, found in zip(seeds, alone if trace or pcap else many):
        if found.failure and shorten:
            many.close()  # its processes would go on meanwhile
            found = run.shorten(found, again=once)
            if trace or pcap:
                once(number, steps=found.steps, settings=found.settings, trace=trace, pcap=pcap)
        lost = ", ".join(f"{frames:,} {reason}" for reason, frames in found.lost.items()) or "none"
        typer.echo(f"{found}" if found.failure else f"{found}: {found.came:,} of {found.sent:,} frames came; others: {lost}")
        if found.failure:
            if not (trace and pcap):
                command = f"penstock vswitch simulate --seed {number} --for {duration}{' --shorten' if shorten else ''}"
                command += f" --config {config}" if config else " --pair" if pair else ""
                typer.echo(f"  what led to it: {command} --trace FILE --pcap FILE")
            raise typer.Exit(1)
        if config:
            tried.append(found)
    if config:
        typer.echo("\n".join(lines_of(tried)))


def read_spec(spec: Path) -> dict[str, Any]:
    """A SPEC.toml of a switch.  SpecError: it cannot be read, or is no TOML."""
    import tomllib

    from penstock_net.inputs import read_text
    from penstock_net.spec.toml import syntax_error

    text = read_text(str(spec), "spec")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # besides syntax: numbers too long, tables too deep
        raise syntax_error(str(spec), text, error) from None
