"""The documentation as a site: it builds without a warning, its links lead somewhere, and it needs nothing from elsewhere."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

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


def test_compiled_modules_are_in_the_api_reference(pages):
    anchors = next(page.anchors for path, page in pages.items() if path.name == "api.html")
    public = {"penstock.simulate", "penstock.Run.slowdown", "penstock.vswitch.memory.region.Region.receive"}
    assert public <= anchors
