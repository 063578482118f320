"""--set KEY=VALUE: which table of several a name means, and what of a text is a value."""

import pytest

from penstock_net.errors import SpecError
from penstock_net.spec.overrides import _item, _pick, _value

TABLES = [{"kind": "poisson"}, {"kind": "incast"}, {"kind": "poisson", "label": "rpc"}, {"kind": "poisson"}]


def test_a_name_that_several_tables_have_means_none_of_them():
    assert _pick(TABLES, ["rpc", "load"], "workload", "rpc.load=1") == (2, ["load"])
    assert _pick(TABLES, ["incast", "load"], "workload", "incast.load=1") == (1, ["load"])
    with pytest.raises(SpecError, match="which of the 4 workload tables"):
        _pick(TABLES, ["poisson", "load"], "workload", "poisson.load=1")


@pytest.mark.parametrize("text", ["1\nother = 2", "1 # a\nvalue2 = 3"])
def test_a_value_sets_nothing_else(text):
    assert _value(text) == text and _value("1") == 1


@pytest.mark.parametrize("tables", [[], [{}], [{}, {}]])
def test_tables_of_a_list_are_numbered_from_0(tables):
    """The number of the first that is not there is refused, as any other is."""
    for number in (len(tables), len(tables) + 1, -1, "a"):
        with pytest.raises(SpecError, match=f"topology.changes has {len(tables)} tables"):
            _item(tables, f"topology.changes.{number}", "topology.changes.9.up=true")
    assert all(_item(tables, f"topology.changes.{i}", "") is table for i, table in enumerate(tables))
