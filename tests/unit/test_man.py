"""The manual pages: they are those of the present commands, troff has nothing to complain of, and an installation has them."""

import importlib.util
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def man():
    spec = importlib.util.spec_from_file_location("man", ROOT / "tools/man.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_of_the_present_commands(man):
    """After a change of a command: python tools/man.py."""
    pages = man.pages()
    assert {path.name for path in (ROOT / "man").iterdir()} == set(pages)
    changed = [name for name, text in pages.items() if (ROOT / "man" / name).read_text() != text]
    assert not changed, f"python tools/man.py writes them again: {changed}"
    assert {"penstock.1", "penstock-run.1", "penstock-vswitch.1", "penstock-vswitch-up.1"} <= set(pages)


def test_every_option_is_on_its_page(man):
    for name, command, _ in man.walk("penstock", man.get_command(man.application(man.COMMANDS))):
        text = (ROOT / "man" / f"{name.replace(' ', '-')}.1").read_text()
        for param in command.params:
            for option in param.opts if param.param_type_name == "option" and param.name != "help" else ():
                assert man.escaped(option) in text, (name, option)


@pytest.mark.skipif(not shutil.which("groff"), reason="no groff")
def test_troff_has_no_complaint():
    for path in sorted((ROOT / "man").glob("*.1")):
        done = subprocess.run(["groff", "-ww", "-man", "-Tutf8", str(path)], capture_output=True, text=True)
        assert done.returncode == 0 and done.stderr == "" and "PENSTOCK" in done.stdout, (path, done.stderr)


def test_an_installation_has_them():
    files = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["data-files"]
    assert files == {"share/man/man1": ["man/*.1"]}
    assert "recursive-include man *.1" in (ROOT / "MANIFEST.in").read_text()


def test_text_is_as_it_was(man):
    """What troff would read as a macro, an escape or another character."""
    assert man.escaped(".x\n'y' a-b \\n") == "\\&.x\n\\(aqy\\(aq a\\-b \\en"
    assert man.prose("run `a-b`\n  now") == "run \\fBa\\-b\\fR now"
