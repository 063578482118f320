"""`penstock vswitch simulate`: the whole switch in a simulated world."""

from pathlib import Path
from typing import Annotated, Any

import typer


def simulate(
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="The first seed.")] = 0,
    count: Annotated[int, typer.Option("--count", metavar="N", min=1, help="So many seeds, one after the other.")] = 1,
    duration: Annotated[
        str, typer.Option("--for", metavar="TIME", help="Simulated time in which faults and traffic are drawn.")
    ] = "100ms",
    shorten: Annotated[bool, typer.Option("--shorten", help="Of a failure, find a few steps that do.")] = False,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="SPEC.toml", help="Try these ports and settings; the report is per port.")
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="FILE", help="The last events, as text: of the last seed that runs."),
    ] = None,
    pcap: Annotated[Path | None, typer.Option("--pcap", metavar="FILE", help="Its last frames, as pcapng.")] = None,
) -> None:
    """Run the whole switch in a simulated world, under faults that a seed draws; exit status 1 if a law does not hold.

    Nothing of this machine is touched, and no permission is needed. The same seed is the same run.

    Example:

        penstock vswitch simulate --seed 7 --for 1s
    """
    from penstock_net.vswitch.simulation import run
    from penstock_net.vswitch.simulation.report import lines_of

    content, tried = None if config is None else read_spec(config), []
    for number in range(seed, seed + count):
        found = run.simulate(number, duration, content=content, trace=trace, pcap=pcap)
        if found.failure and shorten:
            found = run.shorten(found, content=content)
            if trace or pcap:
                same: dict[str, Any] = {"steps": found.steps, "settings": found.settings, "content": content}
                run.simulate(number, **same, trace=trace, pcap=pcap)
        lost = ", ".join(f"{frames:,} {reason}" for reason, frames in found.lost.items()) or "none"
        typer.echo(f"{found}" if found.failure else f"{found}: {found.came:,} of {found.sent:,} frames came; others: {lost}")
        if found.failure:
            if not (trace and pcap):
                command = f"penstock vswitch simulate --seed {number} --for {duration}{' --shorten' if shorten else ''}"
                command += f" --config {config}" if config else ""
                typer.echo(f"  what led to it: {command} --trace FILE --pcap FILE")
            raise typer.Exit(1)
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
