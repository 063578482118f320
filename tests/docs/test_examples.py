"""Every hook, verb and declaration that docs/writing-schemes.md names is in an example that a page runs."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from blocks import Block, blocks

from penstock_net.composition.hooks import HOOKS, VERBS
from penstock_net.composition.known import NULLS

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = ("writing-schemes.md", "writing-transports.md")
NAME = re.compile(r"`(\w+)\(")
SETTING = re.compile(r"`(\w+\.\w+) = ")


def section(title: str) -> str:
    """A part of docs/writing-schemes.md, without its blocks."""
    text = (DOCS / "writing-schemes.md").read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]
    return re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)


def is_run(name: str, later: list[Block]) -> bool:
    """Whether a block after that of an example runs it."""
    return any(b.option("skip") is None and b.kind in ("python", "console", "toml") and f"./{name}" in b.text for b in later)


@cache
def examples() -> dict[str, ast.Module]:
    """File -> its syntax tree, of the schemes that the pages write and run."""
    found = {}
    for page in PAGES:
        on_page = list(blocks(DOCS / page))
        for i, block in enumerate(on_page):
            name = block.option("file") or ""
            if name.endswith(".py"):
                assert is_run(name, on_page[i:]), f"{page}:{block.line}: {name} is not run"
                found[name] = ast.parse(block.text)
    return found


@cache
def used() -> set[str]:
    """Functions that are defined or called, names, and fields that are set ("flow.window"), in the examples."""
    found = set()
    for tree in examples().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                found.add(node.name)
            elif isinstance(node, ast.Name):
                found.add(node.id)
            elif isinstance(node, ast.Assign | ast.AugAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found |= {ast.unparse(target) for target in targets if isinstance(target, ast.Attribute)}
    return found


@cache
def requested() -> set[str]:
    """Keys of `fabric` in the examples."""
    return {
        key
        for tree in examples().values()
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "fabric"
        for key in ast.literal_eval(node.value)
    }


def test_the_pages_have_examples():
    assert len(examples()) > 20


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_is_listed_and_has_an_example(hook):
    assert hook in NAME.findall(section("Hooks"))
    assert hook in used(), f"no example that is run defines {hook}"


@pytest.mark.parametrize("verb", [*VERBS, *NULLS])
def test_a_verb_is_listed_and_has_an_example(verb):
    assert re.search(rf"`[^`]*\b{verb}\b", section("Hooks") + section("What can be read and done"))
    assert verb in used(), f"no example that is run calls {verb}"


@pytest.mark.parametrize("name", sorted({*NAME.findall(section("What can be read and done"))} - {*VERBS}))
def test_what_else_is_listed_has_an_example(name):
    assert name in used(), f"no example that is run calls {name}"


@pytest.mark.parametrize("field", sorted({*SETTING.findall(section("What can be read and done"))}))
def test_a_field_that_may_be_set_has_an_example(field):
    assert field in used(), f"no example that is run sets {field}"
