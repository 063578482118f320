"""docs/gallery.md shows the files of examples/, and pictures that the page itself made."""

import sys
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import gallery as tool  # noqa: E402  (tools/gallery.py)

REMEDY = "run: python tools/gallery.py"


def test_the_page_is_up_to_date():
    assert tool.page() == tool.PAGE.read_text(), REMEDY


def test_the_page_has_every_example_and_every_picture():
    assert sorted(tool.files()) == sorted(path.name for path in tool.EXAMPLES.iterdir() if path.is_file())
    assert sorted(tool.pictures()) == sorted(path.stem for path in tool.PICTURES.iterdir()), REMEDY


def test_the_guide_to_transports_explains_the_same_scheme():
    assert f"```python\n{(tool.EXAMPLES / 'delay.py').read_text()}```" in (ROOT / "docs/writing-transports.md").read_text()


@pytest.mark.parametrize("name", tool.pictures())
def test_a_picture_is_of_this_page(name):
    picture = Image.open(tool.PICTURES / f"{name}.png")
    assert picture.info["Comment"] == tool.made_by(), REMEDY
    colours = picture.convert("RGB").getcolors(maxcolors=10**6)
    white = sum(count for count, colour in colours if min(colour) > 250)
    assert len(colours) > 20 and 0.2 < white / (picture.width * picture.height) < 0.97
