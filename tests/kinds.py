"""The kinds of the tests in vswitch/, from vswitch/kinds.txt: which are computed, which need something real, and what.

python tests/kinds.py            # how many tests each kind has
python tests/kinds.py --write    # the table in CONTRIBUTING.md
"""

import contextlib
import io
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

FOLDER = "vswitch/"
FILE = Path(__file__).parent / FOLDER / "kinds.txt"
PAGE = Path(__file__).parents[1] / "CONTRIBUTING.md"
TURNS, KERNELS, CODE = "turns", "kernels", "code"  # computed; KERNELS: those that ask the simulated kernel
HEAD = "| kind | what its tests need | files |\n|---|---|---|\n"


def sections() -> dict[str, tuple[str, list[str]]]:
    """Of each kind what it is, and its files and tests, in the order of the file."""
    found: dict[str, tuple[str, list[str]]] = {}
    for line in FILE.read_text().splitlines():
        if line and line[0] not in "# ":
            name, _, what = line.partition(": ")
            found[name] = (what, lines := [])
        elif line.startswith(" "):
            lines.append(line.strip())
    return found


def read() -> dict[str, str]:
    """The kind of each file, and of each test that is of another one than its file: FILE or FILE::TEST."""
    found: dict[str, str] = {}
    for kind, (_, lines) in sections().items():
        for line in lines:
            assert line not in found, f"{FILE.name}: {line} is there twice"
            found[line] = kind
    return found


def kind_of(item: Any, known: dict[str, str]) -> str:
    """Of a test; "": no line says it."""
    file, test = item.path.name, getattr(item, "originalname", item.name)
    return known.get(f"{file}::{test}") or known.get(file, "")


def is_computed(item: Any, known: dict[str, str]) -> bool:
    kind = kind_of(item, known)
    return kind in (TURNS, CODE) or (kind == KERNELS and item.callspec.params.get("kernel") == "simulated")


def may_be(file: str, known: dict[str, str]) -> tuple[bool, bool]:
    """Whether all tests of a file are of real time, and whether some are."""
    name = file.removeprefix(FOLDER)
    found = {kind for line, kind in known.items() if line.partition("::")[0] == name}
    return not found & {TURNS, KERNELS, CODE}, not found <= {TURNS, CODE}


def table() -> str:
    """A row for each kind: its files without `test_`; those in parentheses have some tests of it."""
    rows = []
    for kind, (what, lines) in sections().items():
        names = [line.removeprefix("test_").partition(".py")[0] for line in lines if "::" not in line]
        some = sorted({line.removeprefix("test_").partition(".py")[0] for line in lines if "::" in line})
        rows.append(f"| `{kind}` | {what} | {', '.join(names + [f'({name})' for name in some])} |\n")
    return HEAD + "".join(rows)


def count() -> None:
    """Print a line for each kind."""
    import pytest

    known, found = read(), Counter[tuple[str, bool]]()

    class Counts:
        def pytest_collection_finish(self, session: Any) -> None:
            found.update((kind_of(item, known), is_computed(item, known)) for item in session.items)

    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main(["--collect-only", "-q", "-n", "0", str(FILE.parent)], plugins=[Counts()])
    for kind in sections():
        print(f"{kind:8} {found[kind, True]:5} computed {found[kind, False]:5} of real time")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(re.sub(re.escape(HEAD) + r"(\|.*\n)+", lambda _: table(), PAGE.read_text()))
    else:
        count()
