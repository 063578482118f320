"""`penstock reproduce --from FOLDER`: figures of a user's own."""

import json

import pytest

from penstock_net.cli import main
from penstock_papers import local, registry
from penstock_papers.registry import Experiments

FIGURE = """
import polars as pl

from penstock_papers import within
from penstock_papers.style import figure

from ._values import VALUE

TITLE = "A figure of mine"
PAPER = "Mine, section 1, figure 1"


def measure(runs, scale):
    return pl.DataFrame({"series": ["a"], "x": [1.0], "y": [VALUE]})


CLAIMS = (within("two", "it is two", "2", 1, 4, why="half to double", quick=True),)


def numbers(data, scale):
    return {"two": data["y"][0]}


def plot(data):
    made, axes = figure()
    axes.plot(data["x"], data["y"])
    return made
"""


@pytest.fixture
def folder(tmp_path):
    paper = tmp_path / "figures" / "mine"
    paper.mkdir(parents=True)
    (paper / "__init__.py").write_text("")
    (paper / "_values.py").write_text("VALUE = 2.0\n")
    (paper / "fig01.py").write_text(FIGURE)
    return paper.parent


def test_a_figure_of_a_users_folder(folder, tmp_path, capsys):
    assert main(["reproduce", "mine/fig01", "--from", str(folder), "--out", str(tmp_path / "out")]) == 0
    assert [claim["verdict"] for claim in json.loads((tmp_path / "out/claims.json").read_text())] == ["PASS"]
    assert (tmp_path / "out/figure.png").exists()
    assert local.state("mine/fig01") is None, "the list of the package's figures knows none of the user's"


def test_its_list_and_all_of_them(folder, tmp_path, capsys):
    assert main(["reproduce", "--list", "--from", str(folder)]) == 0
    assert capsys.readouterr().out == "mine/fig01  A figure of mine\n"
    assert main(["reproduce", "--all", "--from", str(folder), "--out", str(tmp_path / "all")]) == 0
    made = (tmp_path / "all/mine/fig01/figure.png").stat().st_mtime_ns
    assert main(["reproduce", "--all", "--from", str(folder), "--out", str(tmp_path / "all")]) == 0
    assert (tmp_path / "all/mine/fig01/figure.png").stat().st_mtime_ns == made, "finished figures are kept"
    (folder / "mine/_values.py").write_text("VALUE = 8.0\n")
    assert main(["reproduce", "--all", "--from", str(folder), "--out", str(tmp_path / "all")]) == 1


def test_another_folder_has_figures_of_its_own(folder, tmp_path):
    other = tmp_path / "other" / "mine"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("")
    (other / "fig01.py").write_text(FIGURE.replace("._values", "._own").replace("of mine", "of another"))
    (other / "_own.py").write_text("VALUE = 3.0\n")
    assert Experiments.of_folder(folder)["mine/fig01"].title == "A figure of mine"
    assert Experiments.of_folder(other.parent)["mine/fig01"].title == "A figure of another"
    assert "mine/fig01" not in registry.EXPERIMENTS


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["mine/fig1"], 'did you mean "mine/fig01"?'),
        (["mine/fig01", "--confirm"], "--from goes without"),
        (["mine/fig01", "--record", "records"], "--from goes without"),
    ],
)
def test_what_is_refused(folder, capsys, arguments, said):
    assert main(["reproduce", *arguments, "--from", str(folder)]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("name", ["empty", "absent"])
def test_a_folder_without_a_figure(tmp_path, capsys, name):
    (tmp_path / "empty").mkdir()
    assert main(["reproduce", "--list", "--from", str(tmp_path / name)]) == 2
    assert "has no figure" in capsys.readouterr().err
