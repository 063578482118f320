"""The declarations of the repository's papers: they name what exists, and figures show the candidate that is chosen."""

from dataclasses import replace

import pytest

from penstock_papers import EXPERIMENTS, calibrations, unknowns
from penstock_papers.cache import single
from penstock_papers.candidates import unsettled
from penstock_papers.claims import FROM_PAPER
from penstock_papers.framework import measured, run_all
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
        if found and found["declaration"] == unknown.declaration and not calibrations.missing(found, unknown.chooser.figure):
            assert calibrations.nearest(found, unknown.contradicted()) == unknown.chosen, f"{unknown.paper} {unknown.name}"


UNREAD = [
    (each, id)
    for paper in PAPERS
    for each in unknowns.of_paper(paper)
    for id in dict.fromkeys(text.partition(" ")[0] for text in (each.chooser.unread if each.chooser else ()))
]


@pytest.mark.parametrize(("unknown", "id"), UNREAD, ids=[f"{each.name} {id}" for each, id in UNREAD])
def test_what_is_declared_unread_moves_no_claim_that_chooses_or_is_held_out(unknown, id, tmp_path):
    """The figure at scale quick, and with the unread runs of another seed: all numbers that are read are the same."""
    own = EXPERIMENTS[id]
    plain, other = single(own.specs("quick", 1)), single(own.specs("quick", 2))
    unread = [name for name in plain if unknown.is_unread(id, name)]
    assert unread
    mixed = replace(own, specs=lambda scale, seed: {**plain, **{name: other[name] for name in unread}})
    chooses = {each.claim for each in unknown.chooser.statistics if id == unknown.chooser.figure}
    points, read = [], []
    for each in (own, mixed):
        points.append(measured(each, run_all(each, "quick", 1, tmp_path, 1, None), "quick"))
        claims = [claim for claim in own.claims(points[-1], "quick") if claim.kind == FROM_PAPER and claim.value is not None]
        read.append({claim.id: claim.value for claim in claims if claim.id in chooses or unknown.is_held(id, claim.id)})
    assert not points[0].equals(points[1]), "the runs are others"
    assert read[0] == pytest.approx(read[1], rel=1e-9)  # means in any order of the rows
