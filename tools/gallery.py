"""Draws the pictures of docs/gallery.md by running the page, and takes its files from examples/: python tools/gallery.py."""

import hashlib
import os
import re
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1] / "tests/docs")]

from blocks import run_page  # noqa: E402  (tests/docs/blocks.py)
from plots import keep  # noqa: E402  (tools/plots.py)

ROOT = Path(__file__).resolve().parents[1]
PAGE, PICTURES, EXAMPLES = ROOT / "docs/gallery.md", ROOT / "docs/images/gallery", ROOT / "examples"
FILE = re.compile(r"(?P<head><!-- file: examples/(?P<name>[\w.]+) -->\n```\w+\n).*?^```$", re.S | re.M)


def page() -> str:
    """The page, with the files of examples/ as they are now."""
    return FILE.sub(lambda m: f"{m['head']}{(EXAMPLES / m['name']).read_text()}```", PAGE.read_text())


def files() -> list[str]:
    """The examples that the page shows."""
    return [match["name"] for match in FILE.finditer(PAGE.read_text())]


def pictures() -> list[str]:
    """The pictures that the page shows, without suffix."""
    return re.findall(r"\(images/gallery/(\w+)\.png\)", PAGE.read_text())


def made_by() -> str:
    """What the pictures depend on: a hash of the page's code."""
    code = "".join(re.findall(r"^```.*?^```$", page(), re.S | re.M))
    return hashlib.sha256(code.encode()).hexdigest()[:16]


def main() -> int:
    PAGE.write_text(page())
    PICTURES.mkdir(parents=True, exist_ok=True)
    for old in PICTURES.glob("*.png"):
        old.unlink()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        run_page(PAGE)
        for name in pictures():
            keep(Path(f"{name}.png"), PICTURES, made_by())
        os.chdir(ROOT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
