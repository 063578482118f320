"""Runs the code blocks of a Markdown page, in order, in one folder: `python` in one namespace, `console` by command.

An HTML comment on the line before a block says more about it (readers do not see it):

    <!-- file: my.toml -->      write the block to a file
    <!-- skip: why -->          do not run it
    <!-- quick -->              every `penstock run` in it simulates 200 us only
    <!-- status: 2 -->          the exit status of its last command (default 0)
    <!-- output -->             the block is what the block before it printed: same words and numbers, spacing apart
    <!-- errors -->             the same for what the console block before it wrote to stderr
"""

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^(?:<!-- (?P<note>[^\n]*?) -->\n)?```(?P<kind>[\w{}]*)[^\n]*\n(?P<text>.*?)^```$", re.M | re.S)
QUICK = ["--set", "run.duration=200us"]
RUNNABLE = ("python", "console")
KNOWN = (*RUNNABLE, "toml", "text", "csv", "{include}", "")


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, the comment before it, its line."""

    kind: str
    text: str
    note: str
    line: int

    def option(self, name: str) -> str | None:
        word, _, value = self.note.partition(":")
        return value.strip() if word.strip() == name else None


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page."""
    text = page.read_text()
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start("text"))
        yield Block(match["kind"], match["text"], match["note"] or "", line)


def tokens(text: str) -> list[str]:
    """Words and numbers of an output, without spacing and the lines of tables."""
    return re.sub(r"[─-╿\s]+", " ", text).split()


def run_page(page: Path) -> int:
    """Run everything on a page in the current folder; returns how many blocks ran. AssertionError names the line."""
    names: dict[str, Any] = {"__name__": "__main__"}
    printed, errors, ran = "", "", 0
    for block in blocks(page):
        where = f"{page.name}:{block.line}"
        assert block.kind in KNOWN, f"{where}: a block of unknown kind {block.kind}"
        if block.option("skip") is not None:
            continue
        if file := block.option("file"):
            Path(file).parent.mkdir(parents=True, exist_ok=True)
            Path(file).write_text(block.text)
        elif block.option("output") is not None:
            assert tokens(printed) == tokens(block.text), f"{where}: what is printed has changed:\n{printed}"
        elif block.option("errors") is not None:
            assert tokens(errors) == tokens(block.text), f"{where}: what is written to stderr has changed:\n{errors}"
        elif block.kind == "python":
            ran += 1
            printed = run_python(block, names, where)
        elif block.kind == "console":
            ran += 1
            printed, errors = run_console(block, where)
    return ran


def run_python(block: Block, names: dict[str, Any], where: str) -> str:
    out = io.StringIO()
    code = compile("\n" * block.line + block.text, where, "exec")
    with contextlib.redirect_stdout(out):
        exec(code, names)
    return out.getvalue()


def run_console(block: Block, where: str) -> tuple[str, str]:
    """What the commands of a block print, and what the last one writes to stderr; penstock's own only, others must be skipped."""
    from penstock_net.cli import main

    out, errors = io.StringIO(), io.StringIO()
    joined = block.text.replace("\\\n", " ")
    commands = [line[2:] for line in joined.splitlines() if line.startswith("$ ")]
    assert commands, f"{where}: a console block without a command"
    for i, command in enumerate(commands):
        words = shlex.split(command, comments=True)
        assert words[0] == "penstock", f"{where}: {command}: mark the block with skip, or use penstock only"
        if block.option("quick") is not None and words[1] == "run":
            words += QUICK
        wanted = int(block.option("status") or 0) if i == len(commands) - 1 else 0
        errors = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            status = main(words[1:])
        assert status == wanted, f"{where}: {command}: exit status {status}, not {wanted}: {errors.getvalue()[-500:]}"
    return out.getvalue(), errors.getvalue()
