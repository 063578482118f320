"""Every code block of README.md and docs/*.md runs; links lead somewhere; what is generated is up to date."""

import importlib.util
import re
import sys
import tomllib
from pathlib import Path

import pytest
from blocks import blocks, run_page

from penstock_papers.pages import papers

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "docs/notebooks"  # their pages: run by unit/test_notebook.py
PAGES = [path for path in sorted((ROOT / "docs").rglob("*.md")) if path.parent != NOTEBOOKS]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES]
# Made with the site, see test_site.py
GENERATED = {ROOT / "docs/verdicts" / f"{name}.md" for name in (*papers(), "changes")}
GENERATED |= {NOTEBOOKS / f"{path.stem}.md" for path in (ROOT / "examples/notebooks").glob("*.ipynb")}
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


@pytest.fixture(scope="module")
def differences():
    return load("tools/differences.py")


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
            found = (page.parent / target).resolve()
            assert found.exists() or found in GENERATED, f"{page.name}: {target} does not exist"
    headings = re.findall(r"^##? .*", text, re.M)
    assert len(headings) == len(set(headings)), f"{page.name} has a section twice"


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
    package = ROOT / "penstock_net"
    folders = {path.parent.relative_to(package).as_posix() for path in package.rglob("*.py") if path.name != "__init__.py"}
    folders -= {".", *(folder for folder in folders if folder.startswith("report/"))}
    shown = [folder for _, boxes in picture.LAYERS for folder, _, _ in boxes]
    assert sorted(shown) == sorted(folders)
    assert all(sum(columns for _, _, columns in boxes) == 12 for _, boxes in picture.LAYERS)


def test_pictures_of_a_packet_are_up_to_date():
    from penstock_net.composition.hooks import HOOKS

    life = load("tools/packet_life.py")
    for path, text in life.pictures().items():
        assert text == path.read_text(), "run: python tools/packet_life.py"
    steps = life.all_steps()
    for step in steps:
        text = (ROOT / "penstock_net" / step.file).read_text()
        assert all(re.search(rf"^def {name}\b", text, re.M) for name in step.functions), step
    shown = {hook for step in steps for hook in step.hooks}
    assert shown == {hook for hook in HOOKS if not hook.startswith("set_up")}


def test_schemes_page_is_up_to_date(generator):
    page = (ROOT / "docs/schemes.md").read_text()
    assert generator.schemes_page() == page, "run: python tools/docs.py"
    listed = re.findall(r"^\| \[`(\w+)`\]", page.split("\n## All schemes\n")[1].split("\n## ")[0], re.M)
    assert sorted(listed) == sorted(generator.available()), "the table of all schemes in docs/schemes.md"


def test_generated_tables_are_up_to_date(generator):
    assert generator.ports_page() == (ROOT / "docs/vswitch-ports.md").read_text(), "run: python tools/docs.py"
    assert generator.operating_page() == (ROOT / "docs/vswitch-operating.md").read_text(), "run: python tools/docs.py"
    assert generator.readme() == (ROOT / "README.md").read_text(), "run: python tools/docs.py"


def test_differences_have_the_numbers_of_the_records(differences):
    page = differences.PAGE.read_text()
    assert differences.filled(page, differences.records.load()) == page, "run: python tools/differences.py"


@pytest.mark.parametrize("paper", papers())
def test_differences_name_the_claims_that_do_not_pass(differences, paper):
    named = [claim for claim in differences.named(differences.PAGE.read_text()) if claim.figure.startswith(f"{paper}/")]
    outside = [claim for claim in differences.outside(differences.records.load()) if claim.figure.startswith(f"{paper}/")]
    assert not set(outside) - set(named), "these have no row in docs/differences.md"
    assert not set(named) - set(outside), "these have a row in docs/differences.md and pass, or are no claims"
    assert len(named) == len(set(named)), "a claim has two rows in docs/differences.md"


def test_rows_of_differences(differences):
    claim = {"claim": "long", "paper": "said", "band": "<= 1", "ours": 1.23456, "verdict": "FAIL", "kind": "paper"}
    other = claim | {"verdict": "DIFFERS", "kind": "ours"}
    record = {"claims": {"a": claim, "b": other}, "differs": {"b": {"expected": [1, 2]}}}
    known = {"bfc/fig01": {"real": record}}
    table = f"{differences.HEAD}\n{differences.RULE}\n| fig01@real `a`, `b`: long | old | | why | how |"
    text = f"## bfc/fig01: words\n\n{table}\n\n| a | b |"
    ours = "1.235 FAIL; 1.235 DIFFERS (ours), predicted 1 .. 2"
    assert differences.filled(text, known) == text.replace("| old | |", f"| <= 1 | {ours} |")
    assert differences.named(text) == differences.outside(known) == [("bfc/fig01", "real", "a"), ("bfc/fig01", "real", "b")]
    with pytest.raises(ValueError, match="not with fig01 long"):
        differences.named(text.replace("fig01@real `a`, `b`: long", "fig01 long"))


def test_outputs_page_is_up_to_date():
    from penstock_net.report import dictionary

    page = (ROOT / "docs/outputs.md").read_text()
    assert dictionary.markdown() == page, "run: penstock explain --markdown > docs/outputs.md"


def test_version_has_an_entry_in_the_changelog():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert re.search(rf"^## {re.escape(version)}\b", (ROOT / "CHANGELOG.md").read_text(), re.M)
