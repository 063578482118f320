"""The reader of .pxd files, and what is generated from them."""

import re

import numpy as np
import pytest

from penstock_net import pxd
from penstock_net.results.columns import PER_FLOW, flow_results_pxd, flow_setter_pxd
from penstock_net.sim import layouts
from penstock_net.sim.core.build import struct_sizes

TEXT = """\
cdef enum:
    FIRST                   # a comment, with a comma
    SECOND
    TENTH = 10
    NEXT, SHIFTED = 1 << 4
    SAME = SHIFTED

ctypedef struct Later

cdef struct Thing:          # 16 bytes
    int64_t time
    int16_t a, b
    int8_t flags[4]

    Thing* next             # behind an empty line
    Log rows
    void (*call)(int32_t a, Thing* b) noexcept nogil

cdef inline Thing* thing_at(World* world, int i) noexcept nogil:
    return &world.things[i]
cdef int work(Thing* thing) noexcept nogil
"""


def test_enums():
    assert pxd.parse(TEXT).enums == ({"FIRST": 0, "SECOND": 1, "TENTH": 10, "NEXT": 11, "SHIFTED": 16, "SAME": 16},)


def test_structs():
    fields = pxd.parse(TEXT).structs
    assert fields == {
        "Thing": (
            pxd.Field("time", "int64_t"),
            pxd.Field("a", "int16_t"),
            pxd.Field("b", "int16_t"),
            pxd.Field("flags", "int8_t", length=4),
            pxd.Field("next", "Thing", pointer=True),
            pxd.Field("rows", "Log"),
            pxd.Field("call", "", pointer=True),
        )
    }


def test_functions():
    inline = pxd.parse(TEXT).inline
    assert inline == {"thing_at": pxd.Inline("World* world, int i", "return &world.things[i]")}
    assert pxd.function_of("cdef int work(Thing* thing) noexcept nogil") == "work"
    assert pxd.function_of("    int64_t time") is None


def test_only_integers_become_numpy_types():
    with pytest.raises(KeyError):
        pxd.parse(TEXT).dtype("Thing")


@pytest.mark.parametrize("path", sorted(str(p.relative_to(pxd.PACKAGE)) for p in pxd.PACKAGE.rglob("*.pxd")))
def test_every_pxd_of_the_package_can_be_read(path):
    header, text = pxd.read(path), (pxd.PACKAGE / path).read_text()
    assert len(header.enums) == text.count("\ncdef enum:") and all(header.enums)
    assert all(header.structs.values())


def test_enums_by_prefix_and_by_first_name():
    assert pxd.enum("fabric/constants.pxd", "EVENT_") == {"enqueue": 0, "dequeue": 1, "drop": 2, "receive": 3, "hold": 4}
    lost = "buffer full", "refused by the scheme", "link loss", "link down", "no route", "switch down", "headroom pool full"
    assert lost == layouts.DROPS
    assert layouts.NO_SUCH == {2: "queue", 3: "port", 4: "virtual output queue", 5: "path", 7: "packet", 8: "backlogged queue"}
    assert layouts.TOO_MANY_FLOWS == 1 and layouts.LEVELS == 8
    assert layouts.row_type("Start").itemsize == 40
    assert {log: layouts.log_type(log).itemsize for log in ("switch", "port", "queue", "flow", "pause", "trace")} == {
        "switch": 40,
        "port": 64,
        "queue": 40,
        "flow": 40,
        "pause": 24,
        "trace": 56,
    }
    assert layouts.log_type("trace").fields["queue_bytes"] == (np.dtype("i8"), 40)


def test_a_row_type_is_padded_as_by_the_compiler():
    """Packet holds only integers but for one pointer, which is as large as an int64."""
    fields = [(f.name, "i8" if f.pointer else pxd.FORMATS[f.type]) for f in layouts.STATE.structs["Packet"]]
    assert np.dtype(fields, align=True).itemsize == struct_sizes()["packet"]


def test_the_core_s_arrays_are_those_of_the_columns():
    assert (pxd.PACKAGE / "fabric/flow_results.pxd").read_text() == flow_results_pxd(), "run: python setup.py build_ext --inplace"
    assert (pxd.PACKAGE / "sim/core/flow_setter.pxd").read_text() == flow_setter_pxd()
    assert [f.name for f in pxd.read("fabric/flow_results.pxd").structs["FlowResults"]] == [c.stem for c in PER_FLOW]


@pytest.mark.parametrize("struct, function", [("NodeCounters", "count_node"), ("PortCounters", "count_port")])
def test_every_counter_is_filled_by_its_name(struct, function):
    text = (pxd.PACKAGE / "sim/core/nodes.py").read_text()
    body = text[text.index(f"def {function}(") :].split("\ndef ")[0]
    filled = re.findall(r"^    row\.(\w+) = |^        row\.(\w+)\[i\] = ", body, re.M)
    assert sorted(map("".join, filled)) == sorted(f.name for f in pxd.read("fabric/rows.pxd").structs[struct])
