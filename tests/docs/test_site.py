"""The documentation as a site: it builds without a warning, its links lead somewhere, and it needs nothing from elsewhere."""

import ast
import importlib
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from blocks import blocks

ROOT = Path(__file__).resolve().parents[2]


class Page(HTMLParser):
    """The anchors of a page, where its links lead, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.anchors |= {value for key, value in attrs if key in ("id", "name") and value}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        self.loaded += [found[key] for key in ("src", "href") if found.get(key) and tag in ("img", "link", "script")]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("sphinx")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "docs", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return out


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path) for path in site.glob("*.html")}


def outside(link: str) -> bool:
    return bool(re.match(r"[a-z]+:|//", link))


def test_every_page_is_there(site, pages):
    sources = {path.stem for path in (ROOT / "docs").iterdir() if path.suffix in (".md", ".rst")}
    assert sources <= {path.stem for path in pages} and len(sources) > 20


def test_links_lead_somewhere(site, pages):
    dead = []
    for path, page in pages.items():
        for link in page.links:
            target, _, anchor = unquote(link).partition("#")
            other = (path.parent / target).resolve() if target else path
            if outside(link) or link == "#":
                continue
            if not other.exists() or (anchor and other in pages and anchor not in pages[other].anchors):
                dead.append(f"{path.name}: {link}")
    assert not dead, "\n".join(dead)


def test_nothing_is_loaded_from_elsewhere(site, pages):
    """It is read and searched from file://, without a network."""
    for path, page in pages.items():
        assert not [link for link in page.loaded if outside(link)], path.name
        assert all((site / re.split("[?#]", link)[0]).exists() for link in page.loaded), path.name
    assert "simulate" in (site / "searchindex.js").read_text()


NOTEBOOKS = sorted((ROOT / "examples/notebooks").glob("*.ipynb"))


def test_notebooks_are_pages_with_what_their_cells_show(site):
    for path in NOTEBOOKS:
        page = Page(site / "notebooks" / f"{path.stem}.html")
        text = (site / "notebooks" / f"{path.stem}.html").read_text()
        pictures = [link for link in page.loaded if f"{path.stem}-" in link]
        assert pictures and all((site / "notebooks" / link).resolve().exists() for link in pictures)
        assert '<div class="output docutils container">' in text and '<table border="1" class="dataframe">' in text
        assert any(link.endswith(".ipynb") for link in page.links) and not [link for link in page.loaded if outside(link)]
        inside = [unquote(link).partition("#")[0] for link in page.links if not outside(link)]
        assert not [link for link in inside if link and not (site / "notebooks" / link).resolve().exists()]
        assert not re.search(r"/(tmp|home|root|usr|work)/", text), "nothing of the machine"


def test_compiled_modules_are_in_the_api_reference(pages):
    anchors = next(page.anchors for path, page in pages.items() if path.name == "api.html")
    public = {"penstock_net.simulate", "penstock_net.Run.slowdown", "penstock_net.vswitch.memory.region.Region.receive"}
    assert public <= anchors


def public() -> tuple[set[str], set[str]]:
    """(names, whole modules) of docs/api.rst."""
    directives = re.findall(r"^\.\. auto(\w+):: (\S+)(?:\n +:members:( \S+)?)?", (ROOT / "docs/api.rst").read_text(), re.M)
    return {name for kind, name, _ in directives if kind != "module"}, {name for kind, name, _ in directives if kind == "module"}


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda path: path.name)
def test_what_pages_import_is_public(page):
    names, modules = public()
    for block in (each for each in blocks(page) if each.kind == "python"):
        for node in ast.walk(ast.parse(block.text)):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("penstock_net"):
                for imported in (f"{node.module}.{alias.name}" for alias in node.names):
                    listed = imported in names or node.module in modules or any(name.startswith(f"{imported}.") for name in names)
                    assert listed, f"{page.name}: {imported} is not in docs/api.rst"


def private(source: str) -> set[str]:
    """What a program imports of penstock_net that is not on the API page."""
    import penstock_net as ps

    names, modules = public()
    used: set[tuple[str, str]] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "penstock_net":
            used |= {(node.module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            used |= {tuple(alias.name.rpartition(".")[::2]) for alias in node.names if alias.name.startswith("penstock_net.")}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ps":
            used.add(("penstock_net", node.attr))
    return {
        f"{module}.{name}"
        for module, name in used
        if not (module == "penstock_net" and name in ps.__all__)
        and f"{module}.{name}" not in names | modules
        and (module not in modules - {"penstock_net"} or name.startswith("_"))
    }


FIGURES = sorted((ROOT / "penstock_papers").glob("*/*.py"))


@pytest.mark.parametrize("path", FIGURES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_figures_use_public_names_only(path):
    """So that a figure can be written outside of this repository, and changes of the inside break none."""
    assert not (found := private(path.read_text())), f"{found}: use a name of docs/api.rst, or argue for a new one there"


@pytest.mark.parametrize(
    "source",
    [
        "from penstock_net.results.rundir import locked",
        "import penstock_net.identity",
        "import penstock_net as ps\nps.identity",
        "from penstock_net.vswitch.bench.rig import _panel",
        "def later():\n    from penstock_net import inputs",
    ],
)
def test_a_private_name_is_found(source):
    assert len(FIGURES) > 100 and private(source)


def test_public_names_are_on_the_page():
    import penstock_net as ps
    from penstock_net.composition import classes

    names, modules = public()
    missing = {name for name in set(ps.__all__) - set(classes()) if f"penstock_net.{name}" not in names}
    of_modules = {name for module in modules for name in vars(importlib.import_module(module))} | {"__version__", "plot"}
    assert missing <= of_modules, f"not in docs/api.rst: {sorted(missing - of_modules)}"
