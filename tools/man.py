"""Writes man/*.1, a manual page for each command, from the parsers of the command line.

python tools/man.py                         # write all of them again
man -l man/penstock-vswitch-up.1            # look at one
"""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from penstock_net.cli import COMMANDS
from penstock_net.cli._app import application

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "man"
STATUS = {
    "0": "Done.",
    "1": "A failed claim, a violated invariant, or what the command says of itself, such as a drain that took too long.",
    "2": "Bad input: one or two lines say what is wrong, and what to do.",
    "128 + N": "Signal N interrupted the command.",
}
FILES = {
    "/run/penstock/vswitch.sock": "Control socket of root's switch, unless [switch] socket or --socket says otherwise.",
    "$XDG_RUNTIME_DIR/penstock-vswitch-UID.sock": "That of another user; /run/user/UID or a private folder /tmp/penstock-UID "
    "stands for the variable if it is not set.",
}


def escaped(text: str) -> str:
    """Text as troff takes it: no macro at the start of a line, and hyphens that can be copied."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga").replace("^", "\\(ha")
    return re.sub(r"^\.", r"\\&.", text.replace("~", "\\(ti"), flags=re.M)


def prose(text: str) -> str:
    """Text with its `code` in bold."""
    parts = re.split(r"`([^`]*)`", " ".join(text.split()))
    return "".join(f"\\fB{escaped(part)}\\fR" if i % 2 else escaped(part) for i, part in enumerate(parts))


def paragraphs(help: str) -> tuple[list[str], list[str]]:
    """The paragraphs of a help text, and the lines of its examples, which are indented or follow "Example:"."""
    found: list[str] = []
    example: list[str] = []
    for part in re.split(r"\n\s*\n", (help or "").replace("\x08", "")):
        inline = re.fullmatch(r"Examples?:\s*(?:`(.*)`)?", part.strip())
        if inline:
            example += [inline[1]] if inline[1] else []
        elif part.startswith("    "):
            example += [line.strip() for line in part.splitlines()]
        elif part.strip():
            found.append(part)
    return found, example


def signature(param: Any) -> tuple[str, str]:
    """An option or an argument in the synopsis, and as the head of its description."""
    metavar = (param.metavar or param.name.upper()).removesuffix(" ...")
    value = f"\\fI{escaped(metavar)}\\fR"
    if param.param_type_name == "argument":
        shown = f"{value} ..." if param.nargs == -1 or (param.metavar or "").endswith("...") else value
        return (shown if param.required else f"[{shown}]"), value
    names = sorted(param.opts, key=len, reverse=True)
    first, more = names[0], [*names[1:], *param.secondary_opts]
    flag = "" if param.is_flag else f" {value}"
    head = ", ".join(f"\\fB{escaped(name)}\\fR{flag}" for name in [first, *more])
    return f"[\\fB{escaped(first)}\\fR{flag}]{' ...' if param.multiple else ''}", head


def default_of(param: Any) -> str:
    """The default, in words, where the help shows one."""
    if isinstance(param.show_default, str):
        return f"Default: {param.show_default}."
    plain = isinstance(param.default, (str, int, float)) and not isinstance(param.default, bool)
    return f"Default: {param.default}." if param.show_default and plain else ""


def page(name: str, command: Any, others: list[str], version: str) -> str:
    """The manual page of one command."""
    title = name.replace(" ", "-")
    described, example = paragraphs(command.help)
    params = [param for param in command.params if not getattr(param, "hidden", False) and param.name != "help"]
    first = prose(described[0]).split(". ")[0].rstrip(".")
    lines = ['.\\" Written by tools/man.py.', f'.TH "{escaped(title.upper())}" 1 "" "penstock {version}" "penstock"', ".nh"]
    lines += [".SH NAME", f"{escaped(title)} \\- {first}"]
    lines += [".SH SYNOPSIS", f"\\fB{escaped(name)}\\fR", *synopsis(command, params)]
    lines += [".SH DESCRIPTION", *(line for text in described for line in (prose(text), ".PP"))][:-1]
    lines += [*arguments(params), *options(params), *subcommands(title, command)]
    if example:
        lines += [".SH EXAMPLE", ".EX", *map(escaped, example), ".EE"]
    lines += [".SH EXIT STATUS", *listed("B", STATUS)]
    if name.startswith("penstock vswitch"):
        lines += [".SH FILES", *listed("I", FILES)]
    lines += [".SH SEE ALSO", ",\n".join(f"\\fB{escaped(other)}\\fR(1)" for other in others if other != title)]
    return "\n".join(lines) + "\n"


def synopsis(command: Any, params: list[Any]) -> list[str]:
    """Options, then arguments."""
    shown = [signature(param)[0] for param in sorted(params, key=lambda p: p.param_type_name == "argument")]
    return shown + ["\\fICOMMAND\\fR ..."] * hasattr(command, "commands")


def arguments(params: list[Any]) -> list[str]:
    described = _described(params, "argument")
    return [".SH ARGUMENTS", *described] if described else []


def options(params: list[Any]) -> list[str]:
    return [".SH OPTIONS", *_described(params, "option"), ".TP", "\\fB\\-h\\fR, \\fB\\-\\-help\\fR", "Print the help and exit."]


def _described(params: list[Any], kind: str) -> list[str]:
    lines = []
    for param in (param for param in params if param.param_type_name == kind):
        lines += [".TP", signature(param)[1], prose(" ".join([param.help or "", default_of(param)])) or "\\&"]
    return lines


def subcommands(title: str, command: Any) -> list[str]:
    if not hasattr(command, "commands"):
        return []
    lines = [".SH COMMANDS"]
    for each, sub in command.commands.items():
        lines += [".TP", f"\\fB{escaped(f'{title}-{each}')}\\fR(1)", prose(paragraphs(sub.help)[0][0])]
    return lines


def listed(font: str, texts: dict[str, str]) -> list[str]:
    """A list of keys, in a font, and what they mean."""
    return [line for key, text in texts.items() for line in (".TP", f"\\f{font}{escaped(key)}\\fR", escaped(text))]


def walk(name: str, command: Any, parent: str = "") -> Iterator[tuple[str, Any, list[str]]]:
    """Every command with its name, and the pages that it refers to."""
    subs = getattr(command, "commands", {})
    title = name.replace(" ", "-")
    yield name, command, [other for other in [parent, *(f"{title}-{each}" for each in subs)] if other]
    for each, sub in subs.items():
        yield from walk(f"{name} {each}", sub, title)


def tables(markdown: str) -> list[dict[str, str]]:
    """The tables of a page of docs/ with two columns, without what the cells link to."""
    found: list[dict[str, str]] = []
    rows = re.findall(r"^\|(.+?)\|(.*)\|$|^(?!\|)(.*)", re.sub(r"\[(\[*[^\[\]]+\]*)\]\([^()]*\)", r"\1", markdown), re.M)
    inside = False
    for key, text, other in rows:
        if other or not key:
            inside = False
        elif not inside:
            found.append({})
            inside = True
        elif set(key) != {"-"}:
            found[-1][key.strip()] = text.strip()
    return found


def cni_page(version: str) -> str:
    """The page of the network plugin, which has no options: from docs/vswitch-containers.md."""
    keys, commands, codes, *_ = tables((ROOT / "docs/vswitch-containers.md").read_text())
    does = "Network plugin of penstock for containers: adds a port to a running switch, and removes it"
    lines = ['.\\" Written by tools/man.py.', f'.TH "PENSTOCK\\-CNI" 1 "" "penstock {version}" "penstock"', ".nh"]
    lines += [".SH NAME", f"penstock\\-cni \\- {does}", ".SH SYNOPSIS", "\\fBpenstock\\-cni\\fR"]
    lines += [".SH DESCRIPTION"]
    lines += [
        prose("A runtime of containers calls it, as `penstock` in its folder of plugins (`/opt/cni/bin`), with `CNI_COMMAND`")
    ]
    lines += [
        prose(
            "and the other variables of the CNI specification in the environment, and a configuration as JSON on standard input."
        )
    ]
    for title, table in (("COMMANDS", commands), ("CONFIGURATION", keys), ("ERRORS", codes)):
        lines += [f".SH {title}"]
        lines += [line for key, text in table.items() for line in (".TP", prose(key), prose(text))]
    lines += [".SH EXIT STATUS", *listed("B", {"0": "Done.", "1": "An error, as JSON on standard output."})]
    lines += [
        ".SH FILES",
        *listed("I", {"SOCKET.ports/": "Ports that come back when the switch of that socket is started again."}),
    ]
    return "\n".join([*lines, ".SH SEE ALSO", "\\fBpenstock\\-vswitch\\fR(1)"]) + "\n"


def pages() -> dict[str, str]:
    """File name -> text of all manual pages."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    everything = walk("penstock", get_command(application(COMMANDS)))
    found = {f"{name.replace(' ', '-')}.1": page(name, command, others, version) for name, command, others in everything}
    return {**found, "penstock-cni.1": cni_page(version)}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    found = pages()
    for old in FOLDER.glob("*.1"):
        if old.name not in found:
            old.unlink()
    for name, text in found.items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
