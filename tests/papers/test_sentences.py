"""The table of claims: what a row makes of its number, at which scales it is judged, and which tables are refused."""

import math

import pytest

from penstock_net.errors import SpecError
from penstock_papers.claims import CONDITION, FROM_PAPER, GAIN, ORDER, OURS, TWICE
from penstock_papers.sentences import about, as_said, ascending, claims, holds, within

MICE = within("mice", "mice, latency p5, us", "higher than 35us", 35, why="the paper's bound")


def judged(row, number, scale="paper"):
    """The claim of a table of one row."""
    (claim,) = claims((row,), {row.id: number}, scale)
    return claim


def test_a_number_lies_in_its_band_or_not():
    claim = judged(MICE, 41.25)
    assert (claim.id, claim.claim, claim.paper, claim.why) == (MICE.id, MICE.claim, MICE.paper, MICE.why)
    assert (claim.ours, claim.value, claim.low, claim.high, claim.ok) == (41.25, 41.25, 35, None, True)
    assert judged(MICE, 35).ok and not judged(MICE, 34.9).ok and not judged(MICE, math.nan).ok
    assert (claim.kind, claim.quick, claim.seeds) == (FROM_PAPER, False, 1)


@pytest.mark.parametrize(
    ("row", "low", "high", "why"),
    [
        (about("a", "queue, KB", "550 KB", 550), 275, 1100, TWICE),
        (about("a", "goodput, gain", "1.5x", 1.5, gain=True), 1.25, 2, GAIN),
        (about("a", "goodput, gain", "5x", 5, gain=True), 2.5, 10, TWICE),
        (as_said("a", "slowdown, ratio", "much lower", "much"), 1.5, None, '"much": a factor of 1.5 or more'),
        (as_said("a", "slowdown, ratio", "Similar tails", "similar"), 0.67, 1.5, '"similar": a factor from 0.67 to 1.5'),
        (
            as_said("a", "slowdown, ratio", "a little larger", "slightly", said="a little"),
            0.83,
            1.44,
            '"a little" as "slightly": a factor from 0.83 to 1.44',
        ),
    ],
)
def test_bands_by_hand(row, low, high, why):
    claim = judged(row, 3.0)
    assert (claim.low, claim.high, claim.why, claim.band) == (low, high, why, row.band)
    assert claim.ok == (low <= 3 <= (high or math.inf))


def test_bands_that_say_nothing_are_refused():
    with pytest.raises(ValueError, match="two open ends"):
        within("a", "b", "c", why="d")
    with pytest.raises(ValueError, match="needs its reason"):
        within("a", "b", "c", 1, why="")
    with pytest.raises(ValueError, match='have no "much"'):
        as_said("a", "b", "a little lower", "much")
    with pytest.raises(ValueError, match='have no "a bit"'):
        as_said("a", "b", "a little lower", "slightly", said="a bit")


def test_the_text_names_what_the_number_is_of():
    row = as_said("short", "slowdown, other scheme / HPCC, least ({})", "much lower", "much")
    assert judged(row, (1.7, "DCTCP")).claim == "slowdown, other scheme / HPCC, least (DCTCP)"
    assert judged(row, (1.7, "DCTCP")).value == 1.7
    row = within("long", "HPCC ({} flows) / {}", "worse", 1, why="worse")
    assert judged(row, (1.7, 0, "DCTCP")).claim == "HPCC (0 flows) / DCTCP"


def test_an_order_has_the_names_and_numbers_of_its_schemes():
    row = ascending("order", "latency p95, us", "DCTCP outperforms DCQCN")
    claim = judged(row, {"DCTCP": 30.0, "DCQCN": 42})
    assert (claim.ours, claim.band, claim.ok, claim.quick, claim.why) == (
        "DCTCP 30, DCQCN 42",
        "DCTCP < DCQCN",
        True,
        True,
        ORDER,
    )
    assert not judged(row, {"DCTCP": 42.0, "DCQCN": 42.0}).ok
    assert not judged(row, {"DCTCP": 1.0, "DCQCN": math.nan}).ok


def test_a_condition_shows_a_number_or_a_text():
    row = holds("none", "packets lost", "no loss", "0")
    claim = judged(row, (True, 0.0))
    assert (claim.ours, claim.value, claim.ok, claim.band, claim.why) == (0.0, 0.0, True, "0", CONDITION)
    assert isinstance(claim.ours, float) and not judged(row, (False, 3.0)).ok
    claim = judged(row, (False, "BFC 2, HPCC 0"))
    assert (claim.ours, claim.value, claim.ok) == ("BFC 2, HPCC 0", None, False)


def test_a_row_is_judged_at_its_scales():
    table = (MICE, MICE.at("paper", id="long"), MICE.at("real", id="load", kind=OURS), MICE.at("quick", "paper", id="load"))
    assert [(claim.id, claim.kind) for claim in claims(table, {"mice": 40, "load": 40}, "real")] == [
        ("mice", FROM_PAPER),
        ("load", OURS),
    ]
    assert [claim.id for claim in claims(table, {"load": 40, "mice": 40}, "quick")] == ["mice", "load"]
    found = claims(table, {"mice": 40, "long": 30, "load": 40}, "paper")
    assert [(claim.id, claim.ok, claim.kind) for claim in found] == [
        ("mice", True, FROM_PAPER),
        ("long", False, FROM_PAPER),
        ("load", True, FROM_PAPER),
    ]


@pytest.mark.parametrize(
    ("table", "numbers", "message"),
    [
        ((MICE, MICE), {"mice": 1}, "two rows .* at scale paper have the id mice"),
        ((MICE, MICE.at("paper", kind=OURS)), {"mice": 1}, "two rows .* the id mice"),
        ((MICE, MICE.at("paper", id="long")), {"mice": 1}, "claims without a number at scale paper: long"),
        ((MICE,), {"mice": 1, "rats": 1, "elephants": 2}, "numbers without a claim at scale paper: elephants, rats"),
        ((MICE, MICE.at("real", id="long")), {"mice": 1, "long": 2}, "numbers without a claim at scale paper: long"),
    ],
)
def test_tables_that_do_not_fit_their_numbers_are_refused(table, numbers, message):
    with pytest.raises(SpecError, match=message):
        claims(table, numbers, "paper")
