"""What is declared once about ports and the data plane: kinds of port, and names that stand beside an enum of a .pxd."""

import importlib
import importlib.util
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import penstock_net.vswitch
from penstock_net.errors import SpecError
from penstock_net.vswitch import ports
from penstock_net.vswitch.attach import devices
from penstock_net.vswitch.attach.open import kinds, kinds_table, open_port
from penstock_net.vswitch.daemon import doctor
from penstock_net.vswitch.ports import base
from penstock_net.vswitch.support import settings

PACKAGE = Path(penstock_net.vswitch.__file__).parent
EXAMPLE = """
from penstock_net.vswitch.support.port_kind import Option, PortKind, between

def attempt(namespace):
    raise OSError("no echo here")

KIND = PortKind("echo", "gives back what it gets", [Option("depth", between(1, 9), "frames that it holds", 4)],
                lambda depth: ("echo", depth), ["depth"], serves="ports that answer", attempt=attempt)
"""


def test_a_kind_dropped_into_the_folder_is_found(tmp_path, monkeypatch):
    (tmp_path / "echo.py").write_text(EXAMPLE)
    monkeypatch.setattr(ports, "__path__", [*ports.__path__, str(tmp_path)])
    importlib.invalidate_caches()
    try:
        assert open_port("echo") == ("echo", 4) and open_port("echo", depth=2) == ("echo", 2)
        with pytest.raises(SpecError, match=r"echo\.depth = 10: must be between 1 and 9"):
            open_port("echo", depth=10)
        assert "| `echo` | `depth` | gives back what it gets |" in kinds_table()
        assert devices.validate_device({"kind": "echo", "depth": 3}, "port 1") == {"kind": "echo", "depth": 3}
        echo = doctor.ability("echo")
        assert (echo.permitted, echo.detail, echo.serves) == (False, "no echo here", "ports that answer")
        assert doctor.kinds([echo])["echo"] == ["echo"]
    finally:
        sys.modules.pop("penstock_net.vswitch.ports.echo", None)
        vars(ports).pop("echo", None)


def test_an_unknown_kind_is_told_the_known_ones():
    with pytest.raises(SpecError, match=f"must be one of {', '.join(kinds())}$"):
        open_port("carrier pigeon")


def test_names_that_users_see_do_not_change():
    assert settings.MODES == ["lossy", "pfc", "dpfq", "backdraft"]
    reasons = ["full", "no_buffer", "no_queue", "no_route", "no_flow", "malformed", "spoofed", "too_long", "bad_descriptor"]
    reasons += ["flow_over", "evicted", "not_paused"]
    assert reasons == settings.REASON_NAMES
    assert settings.STATE_NAMES == ["absent", "up", "nonsense"]
    assert settings.DROP_NAMES == ["buffer", "refused", "line", "line_down", "no_route", "headroom"]
    assert settings.MOST_WORKERS == 4


def test_counters_of_a_port_are_fields_of_its_struct():
    struct = re.search(r"cdef struct KernelPort:.*?\n\n", (PACKAGE / "ports/base.pxd").read_text(), re.S)
    assert struct and set(base.COUNTERS) <= set(re.findall(r"\w+", re.sub("#.*", "", struct[0])))


def test_without_compiled_modules_the_message_says_what_to_run(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: SimpleNamespace(origin="rings.py"))
    with pytest.raises(ImportError, match="not part of this installation: it is built on Linux"):
        importlib.reload(penstock_net.vswitch)
    monkeypatch.undo()
    importlib.reload(penstock_net.vswitch)
