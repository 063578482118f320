"""The declarations of the repository's papers: they name what exists, and figures show the candidate that is chosen."""

import pytest

from penstock_papers import EXPERIMENTS, calibrations, unknowns
from penstock_papers.candidates import unsettled
from penstock_papers.unknowns import CALIBRATION

PAPERS = ("bfc", "hpcc", "floodgate", "backdraft")


@pytest.mark.parametrize("paper", PAPERS)
def test_declarations_name_figures_and_claims_that_exist(paper):
    found = unknowns.of_paper(paper)
    assert found and len({each.name for each in found}) == len(found)
    for each in found:
        unknowns.check(each, EXPERIMENTS)


@pytest.mark.parametrize("paper", PAPERS)
def test_every_figure_shows_what_is_declared_or_is_named(paper):
    """`python tools/unknowns.py` prints the same lines."""
    assert list(unsettled(unknowns.of_paper(paper), EXPERIMENTS)) == []


def test_what_a_recorded_calibration_found_nearest_is_chosen():
    for unknown in (each for paper in PAPERS for each in unknowns.of_paper(paper) if each.by == CALIBRATION):
        found = calibrations.load(unknown.paper, unknown.name)
        if found and found["declaration"] == unknown.declaration:
            assert calibrations.nearest(found) == unknown.chosen, f"{unknown.paper} {unknown.name}"
