"""Stages of the papers' figures: their list, records, verdicts and pages."""

import json
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

from growth import Stage, Work, made_file

from penstock_papers import claims, command, local, pages, records, registry, sentences, verdicts

FIGURE = 'TITLE, PAPER, CLAIMS = "a title", "A paper, May 2026, figure 1", {}\nmeasure = numbers = plot = lambda *_: None\n'


def figures(number: int) -> registry.Experiments:
    """Figures of one paper, each with a record, and reproduced here."""
    known = json.loads(next(verdicts.RECORDS.glob("bfc/*.paper.json")).read_text())
    folder = Path(str(number))
    for name in ("figures/mine", "records/mine", *(f"here/mine/fig{i}" for i in range(number))):
        (folder / name).mkdir(parents=True, exist_ok=True)
    made_file(f"{number}/figures/mine/__init__.py", 'TITLE, SCHEMES = "Mine", "none"\n')
    for i in range(number):
        made_file(f"{number}/figures/mine/fig{i}.py", FIGURE)
        made_file(f"{number}/records/mine/fig{i}.paper.json", json.dumps(known))
        summary = {"id": f"mine/fig{i}", "schemes": ["bfc"], "code": "", "scale": "paper", "penstock": "1", "verdicts": {}}
        made_file(f"{number}/here/mine/fig{i}/summary.json", json.dumps(summary))
    return registry.Experiments.of_folder(folder / "figures")


def listed(number: int) -> Work:
    found, state, recorded = figures(number), local.state, verdicts.recorded

    def work() -> None:
        with (
            patch.object(registry, "EXPERIMENTS", found),
            patch.object(verdicts, "recorded", lambda: recorded(Path(f"{number}/records"))),
            patch.object(local, "state", lambda id: state(id, f"{number}/here")),
        ):
            command._list()

    return work


def page(number: int) -> Work:
    found, load = figures(number), records.load

    def work() -> None:
        with (
            patch.object(pages, "EXPERIMENTS", found),
            patch.object(records, "load", lambda: load(Path(f"{number}/records"))),
            patch.object(pages, "home", lambda paper: SimpleNamespace(TITLE="Mine", SCHEMES="none")),
        ):
            pages.verdicts_page("mine")
            pages.papers_table()

    return work


def titles(number: int) -> Work:
    found = figures(number)
    return lambda: [experiment.title for experiment in found.values()]


def judged(number: int) -> Work:
    said = [
        sentences.within(f"c{i}", "a claim", "the paper", 1, 2, why="half and double").with_number(1.5) for i in range(number)
    ]
    return lambda: claims.judge(claims.over_seeds([said] * 3), "paper", {})


STAGES = [
    Stage("reproduce --list", listed, (6, 3)),
    Stage("reproduce --list --from", titles, (6, 3)),
    Stage("page of verdicts", page, (6, 3)),
    Stage("judging claims", judged, (20, 3)),
]
