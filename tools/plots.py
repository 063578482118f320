"""Writes the kinds of figures into docs/plots.md and draws their pictures with the commands of that page: python tools/plots.py.

A picture notes the command that made it, so that a test can tell whether it is up to date.
"""

import os
import re
import sys
import tempfile
from pathlib import Path

from PIL import Image, PngImagePlugin

from penstock_net.plot_kinds import KINDS, Kind

ROOT = Path(__file__).resolve().parents[1]
PAGE, PICTURES = ROOT / "docs/plots.md", ROOT / "docs/images/plots"
BEGIN, END = "<!-- kinds: written by tools/plots.py -->", "<!-- end of kinds -->"
WIDTH = 680  # pixels
RUNS = {  # kind -> what it is drawn of, if not of all runs
    "throughput": "runs/example/bfc runs/example/hpcc",
    "link_rate": "runs/example/bfc runs/example/hpcc",
    "record": "runs/example/hpcc",
    "against": "runs/loads",
    "pareto": "runs/loads",
    "rank_timeline": "runs/training",
    "ttft": "runs/inference",
    "port": "runs/example/hpcc=HPCC runs/example/dcqcn=DCQCN",
}


def command(name: str) -> str:
    """The command that draws the example of a kind."""
    return " ".join(f"penstock plot {name} {RUNS.get(name, 'runs/example')} {KINDS[name].example} -o {name}.png".split())


def section(name: str, kind: Kind) -> str:
    """What the page says of a kind."""
    needs = f"Needs {', '.join(f'`{need}`' for need in kind.needs)}. " if kind.needs else ""
    return (
        f"## {name}\n\n{kind.text[0].upper()}{kind.text[1:]}. {needs}{kind.detail}\n\n"
        f"```console\n$ {command(name)}\n```\n\n![{name}: {kind.text}](images/plots/{name}.png)\n"
    )


def page() -> str:
    """The page, with the kinds as they are now."""
    kinds = "\n".join(section(name, kind) for name, kind in KINDS.items())
    return re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: f"{BEGIN}\n\n{kinds}\n{END}", PAGE.read_text(), flags=re.S)


def draw() -> None:
    """Run the page in an empty folder, and keep its pictures."""
    sys.path.insert(0, str(ROOT / "tests/docs"))
    from blocks import run_page

    PICTURES.mkdir(parents=True, exist_ok=True)
    for old in PICTURES.glob("*.png"):
        old.unlink()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        run_page(PAGE)
        for name in KINDS:
            keep(Path(f"{name}.png"), PICTURES, command(name))
        os.chdir(ROOT)


def keep(drawn: Path, folder: Path, made_by: str) -> None:
    """Put a picture into a folder of the docs: WIDTH wide, few colours, with a note of what made it."""
    picture = Image.open(drawn).convert("RGB")
    picture = picture.resize((WIDTH, round(picture.height * WIDTH / picture.width)), Image.Resampling.LANCZOS)
    note = PngImagePlugin.PngInfo()
    note.add_text("Comment", made_by)
    picture.quantize(256, dither=Image.Dither.NONE).save(folder / drawn.name, optimize=True, pnginfo=note)


def main() -> int:
    PAGE.write_text(page())
    draw()
    return 0


if __name__ == "__main__":
    sys.exit(main())
