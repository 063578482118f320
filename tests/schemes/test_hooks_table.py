"""The table of hooks: what a build makes of it, and that a packet which may be missing is checked or refused."""

import re
from dataclasses import replace

import pytest

from penstock_net import SchemeError
from penstock_net.composition import declared, hooks
from penstock_net.composition.hooks import HOOKS, VERBS
from penstock_net.composition.load import PACKAGE, compile_scheme
from penstock_net.composition.translate import Translation

WITH_PACKET = [name for name, hook in HOOKS.items() if "pkt" in hook.arguments]


def using_the_packet(folder, name):
    file = folder / "nul.py"
    answer = "    return 0\n" if HOOKS[name].result else ""
    use = "    me.seen = pkt.size\n"
    arguments = ", ".join(["me", *HOOKS[name].arguments.split()])
    file.write_text(f'"""A test."""\nscheme_state = {{"seen": "int64"}}\n\ndef {name}({arguments}):\n{use}{answer}')
    return declared(str(file))


@pytest.mark.parametrize("name", [name for name in WITH_PACKET if HOOKS[name].packet == "none"])
def test_a_packet_that_never_is_there_is_refused_with_its_line(tmp_path, name):
    with pytest.raises(SchemeError, match=rf"nul\.py:5.*in {name}, pkt is NO_PACKET"):
        compile_scheme(using_the_packet(tmp_path, name))


@pytest.mark.parametrize("name", [name for name in WITH_PACKET if HOOKS[name].packet == "always"])
def test_a_packet_is_checked_unless_the_table_says_that_it_is_always_there(tmp_path, monkeypatch, name):
    found = using_the_packet(tmp_path, name)
    assert "g_some(guard, 5, v_pkt)" not in Translation(found, True).text
    monkeypatch.setitem(HOOKS, name, replace(HOOKS[name], packet="maybe"))
    assert "g_some(guard, 5, v_pkt)" in Translation(found, True).text


def test_a_row_that_says_nothing_of_the_packet_is_the_safe_one():
    assert hooks.Hook("node flow pkt", "host").packet == "maybe"


def test_the_core_is_built_from_the_table():
    assert (PACKAGE / "fabric/hooks.pxi").read_text() == hooks.structs()
    assert (PACKAGE / "sim/core/install.pxi").read_text() == hooks.installer()


def test_every_hook_has_a_list_and_every_verb_a_hook_that_exists():
    for name, hook in HOOKS.items():
        assert not hook.at or (f"{hook.kind}* {name}" in hooks.structs() and f'name == "{name}"' in hooks.installer())
        assert hook.at in ("", "host", "switch", "both") and hook.packet in ("always", "none", "maybe")
        assert hook.real_switch in ("", "runs", "host", "never")
    assert {verb.needs for verb in VERBS.values()} <= {"", *HOOKS}


AT = {"host": "hosts", "switch": "switches", "both": "both"}


def test_the_page_has_every_hook_with_its_arguments_and_who_may_have_it():
    page = (PACKAGE.parent / "docs/writing-schemes.md").read_text()
    table = page.split("\n## Hooks\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`\w+\(me.*?\)`) \| .* \| ?([^|]*?) ?\| ?([^|]*?) ?\|$", table, re.M)
    shown = {call: (at, alone) for calls, at, alone in rows for call in re.findall(r"`(.*?)`", calls)}
    assert shown.keys() == {f"{name}({', '.join(['me', *hook.arguments.split()])})" for name, hook in HOOKS.items()}
    for call, (at, alone) in shown.items():
        hook = HOOKS[call.split("(")[0]]
        assert alone.strip() == hook.alone and (not hook.at or at == AT[hook.at]), call


def test_the_page_has_every_verb():
    page = (PACKAGE.parent / "docs/writing-schemes.md").read_text()
    table = page.split("\n## What can be read and done\n")[1].split("\n## ")[0]
    assert set(VERBS) - set(re.findall(r"`(\w+)\(", table)) == set()
