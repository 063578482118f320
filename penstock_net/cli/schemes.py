"""penstock schemes"""

from typing import Annotated

import typer


def command(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", show_default=False, help="Describe one scheme and its parameters.")
    ] = None,
) -> None:
    """List the schemes, their presets and parameters; compose them with +.

    Examples:

        penstock schemes

        penstock schemes bfc
    """
    from penstock_net.cli._listing import first_line, listing, value
    from penstock_net.composition import available, preset_values
    from penstock_net.errors import SpecError, nearest

    found = available()
    if name is not None and name not in found:
        raise SpecError("no scheme has this name", path="name", value=name, remedy=nearest(name, found))
    if name is None:
        typer.echo(
            listing(
                (
                    key,
                    first_line(s.doc),
                    _with_presets(key, s, ", ".join(f"{p} = {value(default)}" for p, (_, default, _) in s.parameters.items())),
                )
                for key, s in found.items()
            )
        )
        return
    scheme = found[name]
    typer.echo(f"{name}: {scheme.doc}\n")
    if scheme.includes:
        typer.echo(f"brings along: {', '.join(scheme.includes)}   ({scheme.includes[0]} = false leaves it out)")
    for preset in scheme.presets:
        typer.echo(f"{name}:{preset}   " + ", ".join(f"{k} = {value(v)}" for k, v in preset_values(name, preset).items()))
    for key, (kind, default, text) in scheme.parameters.items():
        typer.echo(f"  {key} = {value(default)}   ({kind}) {text}")


def _with_presets(name: str, scheme: object, keys: str) -> str:
    presets = [f"{name}:{preset}" for preset in scheme.presets]  # type: ignore[attr-defined]
    return "; ".join(part for part in (keys, f"presets {', '.join(presets)}" if presets else "") if part)
