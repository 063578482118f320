"""Every code block of README.md and docs/*.md runs; links lead somewhere; what is generated is up to date."""

import importlib.util
import re
import sys
import tomllib
from pathlib import Path

import pytest
from blocks import blocks, run_page

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NOTES = ("file", "skip", "quick", "status", "output")


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def generator():
    spec = importlib.util.spec_from_file_location("docs", ROOT / "tools/docs.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


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


def test_schemes_page_is_up_to_date(generator):
    assert generator.schemes_page() == (ROOT / "docs/schemes.md").read_text(), "run: python tools/docs.py"


def test_tables_of_figures_and_papers_are_up_to_date(generator):
    assert generator.figures_page() == (ROOT / "docs/figures.md").read_text(), "run: python tools/docs.py"
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
