"""The names that a scheme is given, how its file may use them, and presets that use other presets."""

import re
import tomllib
from pathlib import Path

import pytest

import penstock_net
from penstock_net.composition import available, parse, preset_values
from penstock_net.composition.declare import GIVEN, RENAMED, DeclarationError, Declarations
from penstock_net.composition.load import declarations_of, load
from penstock_net.errors import SchemeError, SpecError
from penstock_net.pxd import with_included

PACKAGE = Path(penstock_net.__file__).parent


def declared(source: str) -> Declarations:
    return Declarations(Path("mine.py"), source)


def test_the_linter_knows_the_names_of_schemes_and_no_others():
    known = set(tomllib.loads((PACKAGE / "schemes/ruff.toml").read_text())["builtins"])
    given = {name for names in GIVEN.values() for name in names}
    assert known == given.union(*(scheme.names() for scheme in available().values()))


@pytest.mark.parametrize("module", GIVEN)
def test_what_is_given_is_declared_by_the_fabric(module):
    text = "".join(
        with_included(PACKAGE / f"fabric/{name}.pxd") for name in (module, "constants" if module == "state" else module)
    )
    assert not [name for name in GIVEN[module] if not re.search(rf"\b{name}\b", text)]


def test_the_documentation_names_what_is_given():
    page = (PACKAGE.parent / "docs/writing-schemes.md").read_text()
    assert not [name for names in GIVEN.values() for name in names if not re.search(rf"\b{name}\b", page)]


def test_a_scheme_may_define_what_it_would_be_given():
    """A new verb of the fabric must not break a scheme that has a function or constant of that name."""
    scheme = declared(
        "NACK = 7\n\n\ndef on_enqueue(me, node, port, queue, pkt):\n    pass\n\n\ndef wake_by(node):\n    return 0\n"
    )
    imported = [line for line in scheme.pxd().splitlines() if "cimport" in line]
    assert not re.search(r"\b(NACK|wake_by)\b", "\n".join(imported)) and "set_timer" in "\n".join(imported)
    assert "wake_by" not in scheme.names() and "set_timer" in scheme.names()


@pytest.mark.parametrize("old, new", RENAMED.items())
def test_every_renamed_field_is_refused_with_its_new_name(old, new):
    with pytest.raises(DeclarationError, match=f'"{old}" is now called "{new}"'):
        declared(f"def on_send(me, node, flow, pkt):\n    flow.{old} = 1.0\n")
    assert re.search(rf"\b{new}\b", (PACKAGE / "fabric/state.pxd").read_text())


CONDITIONAL = """parameters = {"marks": ("int32", 0, "whether it marks")}
when = {"on_dequeue": "marks"}


def on_dequeue(me, node, port, queue, pkt):
    mark(pkt)


def on_enqueue(me, node, port, queue, pkt):
    pass


def mark(pkt):
    pkt.priority = 1
"""


def test_a_hook_may_depend_on_a_parameter():
    """What it does counts only with it."""
    scheme = declared(CONDITIONAL)
    assert scheme.hooks == scheme.hooks_with({"marks": 1}) == {"on_dequeue", "on_enqueue"}
    assert scheme.hooks_with({"marks": 0}) == {"on_enqueue"}
    assert scheme.sets_priority({"marks": 1}) and not scheme.sets_priority({"marks": 0})
    for wrong in ('{"on_drop": "marks"}', '{"mark": "marks"}'):
        with pytest.raises(DeclarationError, match="no hook of this scheme"):
            declared(CONDITIONAL.replace('{"on_dequeue": "marks"}', wrong))
    with pytest.raises(DeclarationError, match="'mark', which is no parameter"):
        declared(CONDITIONAL.replace('"on_dequeue": "marks"', '"on_dequeue": "mark"'))
    with pytest.raises(DeclarationError, match="must be a table"):
        declared(CONDITIONAL.replace('{"on_dequeue": "marks"}', "3"))


def test_a_parameter_may_govern_others():
    assert declared(CONDITIONAL + 'governs = {"marks": ["marks"]}\n').governs == {"marks": ["marks"]}
    for wrong, told in (
        ('{"marks": ["k"]}', "'k' is no parameter"),
        ('{"marks": "marks"}', "must have a list"),
        ("[]", "a table"),
    ):
        with pytest.raises(DeclarationError, match=told):
            declared(f"{CONDITIONAL}governs = {wrong}\n")


def test_a_field_of_its_own_may_have_an_old_name():
    hook = "def on_send(me, node, flow, pkt):\n    flow.least_gap = 1.0\n"
    assert declared('flow_state = {"least_gap": "float64"}\n\n\n' + hook).hooks == {"on_send"}


def test_wake_by_needs_the_hook_that_it_wakes():
    with pytest.raises(DeclarationError, match="on_timer"):
        declared("def on_send(me, node, flow, pkt):\n    wake_by(node, me.at.index, 7)\n")


# ---- Presets ----

ECN = {"ecn.k_min": "400KB", "ecn.k_max": "1600KB", "ecn.p_max": 0.2, "ecn.per": "100Gbps"}
PFC = {"pfc.alpha": 0.125, "pfc.reserve": 4096}
WITH_DATA = {"host.ack_priority": "data"}
# the presets as they were when each of them repeated the values of its parts
FORMER = {
    "hpcc:ns3": {"max_stage": 0, "r_ai": "50Mbps", "min_rate": "1Gbps", **PFC, **WITH_DATA},
    "hpcc:bfc": {"max_stage": 0, "r_ai": "50Mbps", "min_rate": "100Mbps", **PFC, "host.ack_priority": "control"},
    "dcqcn:ns3": {
        "alpha_interval": "1us",
        "decrease_interval": "4us",
        "increase_interval": "300us",
        "fast_recovery": 1,
        "r_ai": "20Mbps",
        "r_hai": "200Mbps",
        "min_rate": "1Gbps",
        "clamp_target": False,
        "cut_at_once": False,
        **ECN,
        **PFC,
        **WITH_DATA,
    },
    "dcqcn:ns3_paper": {
        "alpha_interval": "50us",
        "decrease_interval": "50us",
        "increase_interval": "55us",
        "fast_recovery": 1,
        "r_ai": "20Mbps",
        "r_hai": "200Mbps",
        "min_rate": "1Gbps",
        "clamp_target": False,
        **ECN,
        **PFC,
        **WITH_DATA,
    },
    "dcqcn:config": {
        "alpha_interval": "1us",
        "decrease_interval": "4us",
        "increase_interval": "900us",
        "fast_recovery": 1,
        "r_ai": "50Mbps",
        "r_hai": "100Mbps",
        "min_rate": "100Mbps",
        "clamp_target": False,
        "cut_at_once": False,
        **ECN,
        **PFC,
        **WITH_DATA,
    },
    "dctcp:ns3": {
        "form": "rate",
        "min_rate": "1Gbps",
        "ecn.k_min": "300KB",
        "ecn.k_max": "300KB",
        "ecn.per": "100Gbps",
        **PFC,
        **WITH_DATA,
    },
    "dctcp:bfc": {"form": "rate", "g": 0.00390625, "r_ai": "500Mbps", **PFC},
    "dctcp:bfc_slow_start": {"form": "rate", "g": 0.00390625, "r_ai": "500Mbps", "slow_start": 10, **PFC},
    "dctcp:floodgate": {"form": "rate", "g": 0.00390625, "r_ai": "1Gbps", **ECN, **PFC, "pfc.alpha": 0.25, **WITH_DATA},
    "timely:ns3": {
        "delta": "100Mbps",
        "r_hai": "500Mbps",
        "hai": "increases",
        "hai_from": 6,
        "min_rate": "1Gbps",
        **PFC,
        **WITH_DATA,
    },
    "timely:ns3_win": {
        "delta": "100Mbps",
        "r_hai": "500Mbps",
        "hai": "increases",
        "hai_from": 6,
        "min_rate": "1Gbps",
        "window": True,
        **PFC,
        **WITH_DATA,
    },
    "timely:floodgate": {
        "delta": "50Mbps",
        "r_hai": "100Mbps",
        "hai": "increases",
        "hai_from": 6,
        "min_rate": "100Mbps",
        "window": True,
        **PFC,
        "pfc.alpha": 0.25,
        **WITH_DATA,
    },
    "powertcp:ns3": {"eta": 0.95, "least_current": 0.5, "first": 0.5, **PFC, **WITH_DATA},
    "theta_powertcp:ns3": {
        "gamma": 0.7,
        "observe": True,
        "reaction": "per_ack",
        "first": True,
        "margin": 1.05,
        "stamp_bytes": 42,
        **PFC,
        **WITH_DATA,
    },
    "hpcc:floodgate": {
        "max_stage": 5,
        "r_ai": "50Mbps",
        "min_rate": "100Mbps",
        "multi_rate": True,
        **PFC,
        "pfc.alpha": 0.25,
        **WITH_DATA,
    },
}


@pytest.mark.parametrize("preset", FORMER)
def test_a_preset_that_uses_others_sets_what_it_sets(preset):
    name, _, of = preset.partition(":")
    former = {**FORMER[preset], "host.pacing": "from start"}
    assert preset_values(name, of) == former
    host = {k.removeprefix("host."): v for k, v in former.items() if k.startswith("host.")}
    assert parse(preset).host == host


def test_a_preset_that_does_not_exist_is_refused_with_those_that_do():
    for text, remedy in {
        "bfc:xyz": "known: early, penstock, pyrrha_ns3, pyrrha_ns3_kept, unpaused",
        "bfc:unpause": 'did you mean "unpaused"?',
        "bfc:paper": "it is called bfc:unpaused now",
        "pfc+bfc:paper": "it is called bfc:unpaused now",
        "hpcc:xyz": "known: " + ", ".join(sorted({*available()["hpcc"].presets, "paper"})),
        "fifo:xyz": "known: paper",
    }.items():
        with pytest.raises(SpecError) as caught:
            parse(text)
        last = text.rpartition("+")[2]
        name, _, preset = last.partition(":")
        assert str(caught.value) == f'name = "{last}": {name} has no preset "{preset}"; {remedy}'
    assert parse("hpcc:paper").parts == parse("hpcc").parts


def test_every_preset_that_uses_others_is_compared():
    using = {f"{name}:{p}" for name, scheme in available().items() for p, values in scheme.presets.items() if "uses" in values}
    assert using == set(FORMER)


def test_a_part_that_is_left_out_is_not_set():
    assert set(parse("dcqcn:ns3", {"pfc": False}).parts) == {"ecn", "dcqcn"}


@pytest.mark.parametrize("uses", ["pfc:ns33", "pfcc:ns3"])
def test_a_preset_that_uses_what_is_not_there(uses, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        f'includes = ["pfc"]\npresets = {{"x": {{"uses": ["{uses}"]}}}}\n\n\ndef on_send(me, node, flow, pkt):\n    pass\n'
    )
    with pytest.raises((SpecError, SchemeError), match="pfc"):
        parse(f"{file}:x")


def test_what_a_preset_uses_is_a_list(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text('presets = {"x": {"uses": "pfc:ns3"}}\n\n\ndef on_send(me, node, flow, pkt):\n    pass\n')
    with pytest.raises(SchemeError) as caught:
        parse(f"{file}:x")
    assert caught.value.place == str(file) and "must be a list" in caught.value.rule


@pytest.mark.parametrize(
    "source, line",
    [
        ('parameters = {"sizes": ("bytes[33]", [], "too many")}\n\n\ndef on_send(me, node, flow, pkt):\n    pass\n', 1),
        ("def on_send(me, node, flow, pkt)\n    pass\n", 1),
        ("\n\ndef on_sent(me, node, flow, pkt):\n    pass\n", 3),
        ("def on_send(me, node, flow, pkt):\n    flow.window = banana\n", 2),
        ("\nTABLE = (1, 2)\n\n\ndef on_send(me, node, flow, pkt):\n    pass\n", 2),
    ],
)
def test_an_error_in_a_scheme_file_has_its_place(source, line, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = tmp_path / "mine.py"
    file.write_text(source)
    with pytest.raises(SchemeError) as caught:
        load(declarations_of(file))
    assert caught.value.place == f"{file}:{line}" and str(file) not in caught.value.rule


def test_an_unknown_preset_names_each_known_one_once():
    with pytest.raises(SpecError) as caught:
        parse("bfc:zz")
    assert caught.value.remedy == "known: early, penstock, pyrrha_ns3, pyrrha_ns3_kept, unpaused"


def test_a_file_is_read_once_until_it_changes(tmp_path):
    """A run asks for its declarations some twenty times."""
    file = tmp_path / "mine.py"
    file.write_text("def on_ack(me, node, flow, pkt):\n    pass\n")
    first = declarations_of(file)
    assert declarations_of(file) is first
    file.write_text("def on_send(me, node, flow, pkt):\n    pass\n")
    assert declarations_of(file).hooks == {"on_send"}
