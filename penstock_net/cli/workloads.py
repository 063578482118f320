"""penstock workloads"""

import typer


def command() -> None:
    """List the kinds of traffic for [[workload]], and the flow-size distributions for `sizes`.

    Example:

        penstock workloads
    """
    from penstock_net.cli._listing import builders
    from penstock_net.workload import KINDS
    from penstock_net.workload.distributions import catalogue

    typer.echo(builders(KINDS, hidden=("topo", "force", "index")))
    typer.echo("\nsizes:")
    for entry in catalogue():
        typer.echo("  " + describe(entry))


def describe(entry: dict[str, object]) -> str:
    """One line about a distribution: name, mean, origin."""
    from penstock_net.units import format_size

    mean = entry.get("mean") or entry.get("mean_bytes")
    shown = f"mean {format_size(float(f'{mean:.3g}'))}" if isinstance(mean, (int, float)) else ""
    return f"{entry.get('name', ''):<26} {shown:<14} {entry.get('paper') or entry.get('origin') or ''}".rstrip()
