"""Commands, options and Python names in the text and tables of pages for newcomers are there; blocks are run by test_pages.py."""

import re
from functools import cache
from pathlib import Path

import pytest

import penstock_net as ps
from penstock_net import cli
from penstock_net.composition import parse

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = ("coming-from", "which-command", "cost", "limits")


def inline(page: str) -> list[str]:
    text = re.sub(r"```.*?```", "", (DOCS / f"{page}.md").read_text(), flags=re.S)
    return re.findall(r"`([^`\n]+)`", text)


@cache
def help_of(command: str) -> str:
    import contextlib
    import io

    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert cli.main([command, "--help"]) == 0
    return printed.getvalue()


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_their_options(page, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    named = [text for text in inline(page) if text.startswith("penstock ")]
    assert named
    for text in named:
        command, *words = text.split()[1:]
        if command == "vswitch":
            continue
        for option in (word for word in words if word.startswith("--")):
            assert option in help_of(command), f"{page}: {text}"
        if command == "plot" and words[0][0] != "-":
            assert re.search(rf"\b{words[0]}\b", help_of("plot")), f"{page}: {text}"


@pytest.mark.parametrize("page", PAGES)
def test_python_names(page):
    for text in inline(page):
        for name in re.findall(r"\bps\.([\w.]+)", text):
            found = ps
            for part in name.split("."):
                found = getattr(found, part)


def test_schemes_that_stand_for_others():
    """In the tables of coming-from.md: NAME:PRESET, and +NAME."""
    known = [
        text for text in inline("coming-from") if re.fullmatch(r"\+?[a-z_]+(:\w+)?", text) and (":" in text or text[0] == "+")
    ]
    assert {"hpcc:ns3", "dcqcn:ns3", "timely:ns3_win", "swift:htsim", "+spray", "+reps"} <= set(known)
    for text in known:
        parse("pfc" + text if text[0] == "+" else text, {})
