"""docs/plots.md has every kind of figure, with a picture that its own command made."""

import sys
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import plots as tool  # noqa: E402  (tools/plots.py)

REMEDY = "run: python tools/plots.py"


def test_the_page_is_up_to_date():
    assert tool.page() == tool.PAGE.read_text(), REMEDY


def test_there_is_a_picture_of_every_kind_and_no_other():
    assert {path.stem for path in tool.PICTURES.iterdir()} == set(tool.KINDS), REMEDY


@pytest.mark.parametrize("kind", tool.KINDS)
def test_a_picture_is_of_its_command(kind: str):
    picture = Image.open(tool.PICTURES / f"{kind}.png")
    assert picture.info["Comment"] == tool.command(kind), REMEDY
    assert picture.width == tool.WIDTH
    colours = picture.convert("RGB").getcolors(maxcolors=10**6)
    white = sum(count for count, colour in colours if min(colour) > 250)
    assert len(colours) > 20 and 0.2 < white / (picture.width * picture.height) < 0.97
