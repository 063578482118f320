"""Every code block of README.md and docs/*.md runs; links lead somewhere; what is generated is up to date."""

import importlib.util
import re
import sys
import tomllib
from pathlib import Path

import pytest
from blocks import blocks, run_page

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
NOTES = ("file", "skip", "quick", "status", "output", "errors")


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def load(path: str):
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def generator():
    return load("tools/docs.py")


@pytest.mark.parametrize("page", PAGES, ids=[p.name for p in PAGES])
def test_every_block_runs(page, tmp_path, monkeypatch, cache):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("MPLBACKEND", "agg")
    run_page(page)


@pytest.mark.parametrize("page", PAGES, ids=[p.name for p in PAGES])
def test_notes_and_links(page):
    for block in blocks(page):
        assert not block.note or block.note.split(":")[0].strip() in NOTES or block.note.startswith("/"), block.note
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text) + re.findall(r'src="([^"]+)"', text):
        if not re.match(r"[a-z]+:", target):
            assert (page.parent / target).exists(), f"{page.name}: {target} does not exist"


def where_is() -> list[tuple[str, str]]:
    """(file, names) of the rows of docs/design.md's table."""
    table = (ROOT / "docs/design.md").read_text().split("## Where is ...")[1].split("\n## ")[0]
    cells = re.findall(r"^\| [^|]+ \| (.*?) \|$", table, re.M)
    return [found for cell in cells for found in re.findall(r"`(\w+/[\w./]+)`:? ?((?:(?!`\w+/).)*)", cell)]


@pytest.mark.parametrize("file, names", where_is(), ids=lambda text: text)
def test_where_is_it(file, names):
    text = (ROOT / file).read_text()
    for name in re.findall(r"`(?:\w+\.)?(\w+)`", names):
        assert re.search(rf"^ *(?:def |class )?{name}\b", text, re.M), f"docs/design.md: {name} is not in {file}"


def test_the_table_of_places_has_rows():
    assert len(where_is()) > 15


def test_architecture_picture_is_up_to_date():
    picture = load("tools/picture.py")
    assert picture.svg() == picture.PICTURE.read_text(), "run: python tools/picture.py"
    package = ROOT / "penstock"
    folders = {path.parent.relative_to(package).as_posix() for path in package.rglob("*.py") if path.name != "__init__.py"}
    folders -= {".", *(folder for folder in folders if folder.startswith(("experiments/", "report/")))}
    shown = [folder for _, boxes in picture.LAYERS for folder, _, _ in boxes]
    assert sorted(shown) == sorted(folders)
    assert all(sum(columns for _, _, columns in boxes) == 12 for _, boxes in picture.LAYERS)


def test_schemes_page_is_up_to_date(generator):
    assert generator.schemes_page() == (ROOT / "docs/schemes.md").read_text(), "run: python tools/docs.py"


def test_generated_tables_are_up_to_date(generator):
    assert generator.figures_page() == (ROOT / "docs/figures.md").read_text(), "run: python tools/docs.py"
    assert generator.differences_page() == (ROOT / "docs/differences.md").read_text(), "run: python tools/docs.py"
    assert generator.ports_page() == (ROOT / "docs/vswitch-ports.md").read_text(), "run: python tools/docs.py"
    assert generator.operating_page() == (ROOT / "docs/vswitch-operating.md").read_text(), "run: python tools/docs.py"
    for paper in generator.PAPER:
        assert generator.verdicts_page(paper) == (ROOT / f"docs/verdicts/{paper}.md").read_text(), "run: python tools/docs.py"
    assert generator.readme() == (ROOT / "README.md").read_text(), "run: python tools/docs.py"


def test_every_figure_belongs_to_a_paper(generator):
    assert set(generator.PAPER) == {id.split("/")[0] for id in generator.EXPERIMENTS}


def test_outputs_page_is_up_to_date():
    from penstock.report import dictionary

    page = (ROOT / "docs/outputs.md").read_text()
    assert dictionary.markdown() == page, "run: penstock explain --markdown > docs/outputs.md"


def test_version_has_an_entry_in_the_changelog():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert re.search(rf"^## {re.escape(version)}\b", (ROOT / "CHANGELOG.md").read_text(), re.M)
