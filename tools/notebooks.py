"""The notebooks of examples/notebooks: executed in a kernel, and as pages of the site with what their cells have shown.

python tools/notebooks.py [NAME ...]     executes them, all by default; says how long each has taken
"""

import base64
import logging
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "examples" / "notebooks"
BOOKS = sorted(FOLDER.glob("*.ipynb"))
LIMIT_S = 600  # of a cell
WRITES = "%%writefile "
HIGHLIGHTED = {".py": "python", ".toml": "toml"}  # files that a cell writes
PLACE = "~/notebooks"  # what a page calls the folder in which it was executed


def execute(path: Path, folder: Path) -> Any:
    """A notebook with its outputs. It runs in `folder`, which also holds what the kernel writes.

    No network: the kernel is spoken to by sockets that are files.  RuntimeError: a cell failed, or wrote to stderr.
    """
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError
    from traitlets.config import Config

    logging.getLogger("traitlets").setLevel(logging.WARNING)  # where somebody logs, as Sphinx does
    book = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory(prefix="nb") as sockets:  # their names must be short
        files = Config(KernelManager={"transport": "ipc", "connection_file": f"{sockets}/kernel.json"})
        options: dict[str, Any] = {"timeout": LIMIT_S, "coalesce_streams": True, "resources": {"metadata": {"path": str(folder)}}}
        client = NotebookClient(book, config=files, kernel_name="python3", **options)
        private = {"IPYTHONDIR": f"{sockets}/ipython", "JUPYTER_RUNTIME_DIR": sockets}
        paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        try:
            client.execute(env=os.environ | private | {"PYTHONPATH": paths})
        except CellExecutionError as error:
            raise RuntimeError(f"{path.name}: {error}") from None
    for cell in book.cells:
        for said in cell.get("outputs", ()):
            if said.get("name") == "stderr":
                raise RuntimeError(f"{path.name}: a cell wrote to stderr: {said['text'][:500]}")
            _tidy(said, folder)
    return book


def _tidy(said: Any, folder: Path) -> None:
    """The folder as a reader may call his; lines of commands end as on a terminal."""
    if "text" in said:
        said["text"] = said["text"].replace("\r\n", "\n")
        for name in (folder.resolve(), folder):
            said["text"] = said["text"].replace(str(name), PLACE)


def as_page(book: Any, name: str) -> tuple[str, dict[str, bytes]]:
    """The page of an executed notebook as MyST Markdown, and its pictures by file name."""
    pictures: dict[str, bytes] = {}
    parts: list[str] = []
    for cell in book.cells:
        if cell.cell_type == "markdown":
            parts.append(re.sub(r"\]\((\w+)\.ipynb\)", r"](\1.md)", cell.source.replace("](../../docs/", "](../")))
            if len(parts) == 1:
                parts.append(f"[This page as a notebook](../../examples/notebooks/{name}.ipynb)")
            continue
        parts.append(_code(cell.source))
        if cell.source.startswith(WRITES):
            continue  # it says only that it did
        shown = [made for said in cell.outputs if (made := _output(said, name, pictures))]
        if shown:
            parts.append("\n\n".join([":::{container} output", *shown, ":::"]))
    return "\n\n".join(parts) + "\n", pictures


def _code(source: str) -> str:
    magic, _, rest = source.partition("\n")
    if magic.startswith(WRITES):
        file = magic.split()[1]
        return fenced(rest, f"{{code-block}} {HIGHLIGHTED.get(Path(file).suffix, 'text')}", f":caption: {file}")
    return fenced(source, "ipython3")


def _output(said: Any, name: str, pictures: dict[str, bytes]) -> str:
    if said.output_type == "stream":
        return fenced(said.text.rstrip(), "text")
    data, about = said.data, said.metadata
    if "image/png" in data:
        file = f"{name}-{len(pictures) + 1}.png"
        pictures[file] = base64.b64decode(data["image/png"])
        options = f":width: {about['image/png']['width']}\n:alt: figure {len(pictures)} of this page"
        return f"```{{image}} {file}\n{options}\n```"
    if "text/html" in data:
        return fenced(data["text/html"].strip(), "{raw} html") if data["text/html"].strip() else ""
    return fenced(data["text/plain"], "text")


def fenced(text: str, kind: str, *options: str) -> str:
    """A block of code or of what it printed."""
    return "\n".join([f"````{kind}", *options, *([""] if options else []), text, "````"])


def write(out: Path) -> None:
    """Execute all, and write their pages and pictures."""
    out.mkdir(parents=True, exist_ok=True)
    for path in BOOKS:
        with tempfile.TemporaryDirectory() as folder:
            text, pictures = as_page(execute(path, Path(folder)), path.stem)
        (out / f"{path.stem}.md").write_text(text)
        for file, content in pictures.items():
            (out / file).write_bytes(content)


def main(names: list[str]) -> int:
    """Execute some notebooks."""
    for path in [FOLDER / f"{name}.ipynb" for name in names] or BOOKS:
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            execute(path, Path(folder))
        print(f"{path.stem}: {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
