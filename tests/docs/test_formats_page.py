"""docs/formats.md has every key, as the code has it."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import formats as tool  # noqa: E402  (tools/formats.py)

from penstock_net.spec import keys  # noqa: E402


def test_the_page_is_up_to_date():
    assert tool.page() == tool.PAGE.read_text(), "run: python tools/formats.py"


def test_the_page_has_every_table_once():
    assert sorted(tool.names(tool.PAGE.read_text())) == sorted(keys.tables())
