"""Claims: the paper's value, the measured value, its acceptance band, and the verdict, which is always computed.

An experiment has a table of claims without their numbers, see sentences.py.

Verdicts: PASS, the claim holds; FAIL, it does not; DIFFERS, it does not, the reason is known, and our number is the
predicted one; OPEN, the confidence interval over seeds lies on both sides of an end of the band; CALIBRATED, it holds, and
chooses between the candidates of an unknown (penstock_papers/unknowns.py), so that it is no result; - (NOT_JUDGED).
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock_net.results.intervals import Interval, interval

PASS, FAIL, DIFFERS, OPEN, CALIBRATED, NOT_JUDGED = "PASS", "FAIL", "DIFFERS", "OPEN", "CALIBRATED", "-"
FROM_PAPER, OURS = "paper", "ours"
MORE = "the paper gives no number: a larger effect agrees with it"  # why a band has no upper end
TWICE = "half and double of the paper's number"
ORDER = "an order, of which the paper gives no amount"
CONDITION = "a condition, met or not"
GAIN = "half and double of the paper's gain, by what it is above 1"
# A word that means less than half or double is not judged harder than its curve can be read. A panel is some 25 to 30 mm high
# and has two to three decades, so that a line with its marker, 1 mm, is about a twelfth of a decade, a factor of 1.2: both ends
# of "slightly", 1 to 1.2, and of "similar" and "comparable", 0.8 to 1.25, are by that further out.
WORDS = {  # of a paper without a number: the factors that they mean, in every figure
    "slightly": (0.83, 1.44),
    "similar": (0.67, 1.5),
    "comparable": (0.67, 1.5),
    "significantly": (1.5, None),
    "substantially": (1.5, None),
    "much": (1.5, None),
    "greatly": (2.0, None),
    "dramatically": (2.0, None),
}


@dataclass(frozen=True)
class Differs:
    """Why a claim lies outside its band, and which number of ours that explanation predicts.

    reason    one sentence
    anchor    the heading in docs/differences.md that explains it
    expected  lower and upper bound of our own number, outside of the claim's band; a value outside of them is a FAIL. None: the
              claim is a condition without a number
    scales    the scales at which the claim does not hold; at others the entry says nothing
    width     why the bounds are further apart than a factor of two, if they are
    """

    reason: str
    anchor: str
    expected: tuple[float, float] | None = None
    scales: tuple[str, ...] = ("paper",)
    width: str = ""

    def record(self) -> dict[str, Any]:
        """Its entry in summary.json."""
        return {"reason": self.reason, "see": f"docs/differences.md#{self.anchor}", "expected": self.expected}

    def expecting(self, low: float, high: float) -> "Differs":
        """The same reason, with the bounds of our own number for one of its claims."""
        return replace(self, expected=(low, high))

    def explains(self, claim: "Claim", scale: str) -> bool:
        """Whether a claim that does not hold is the known difference."""
        if scale not in self.scales:
            return False
        if self.expected is None or claim.value is None:
            return self.expected is None and claim.value is None
        return self.expected[0] <= claim.value <= self.expected[1]


@dataclass(frozen=True)
class Claim:
    """One row of claims.json. `verdict` is NOT_JUDGED until `judge` has seen the scale and the DIFFERS table.

    ours         the number, as JSON has it, or a text
    why          the reason of the band, or why one side of it is open
    kind         FROM_PAPER: a sentence or number of the paper; OURS: a check of our own, which no count of a paper has
    value        the number that is judged (the mean over seeds), None without one
    low, high    ends of the band of `within`, None for an open one
    undecided    the interval over seeds lies on both sides of an end of the band
    seeds        number of runs with different seeds
    """

    id: str
    claim: str
    paper: str
    ours: float | str
    band: str
    ok: bool
    quick: bool = False
    verdict: str = NOT_JUDGED
    why: str = ""
    kind: str = FROM_PAPER
    value: float | None = None
    low: float | None = None
    high: float | None = None
    undecided: bool = False
    seeds: int = 1

    def record(self) -> dict[str, Any]:
        """The columns of claims.json."""
        columns = ("id", "kind", "claim", "paper", "ours", "value", "band", "low", "high", "why", "seeds", "verdict")
        value = self.value if self.value is not None and math.isfinite(self.value) else None
        return {column: getattr(self, column) for column in columns} | {"value": value}


SHOWN = ("claim", "paper", "ours", "band", "verdict")


def shown(record: Mapping[str, Any]) -> list[str]:
    """The cells of a claim's record in a table, by SHOWN."""
    said = record["paper"] if record["kind"] == FROM_PAPER else "(ours)"
    ours = f"{record['ours']:.4g}" if isinstance(record["ours"], float) else str(record["ours"])
    return [record["claim"], said, ours, record["band"], record["verdict"]]


def gain_band(number: float) -> tuple[float, float, str]:
    """The band of a factor above 1, and its reason: half to twice it; below 2, of its gain, since a factor of 1 is none."""
    if number < 2:
        return (1 + number) / 2, 2 * number - 1, GAIN
    return number / 2, number * 2, TWICE


def over_seeds(found: Sequence[Sequence[Claim]]) -> list[Claim]:
    """The claims of several runs that differ in their seeds, each judged once; those of the first run give their order.

    A number holds if the 95 % confidence interval of its mean lies in the band, and is undecided if the interval
    straddles an end of it; one that may have a single value must have it with every seed. An order or a condition must hold
    with every seed, and is undecided if it does with most.
    """
    by_id = [{claim.id: claim for claim in claims} for claims in found]
    return [_over_seeds([claims[first.id] for claims in by_id]) for first in found[0]]


def _over_seeds(claims: list[Claim]) -> Claim:
    first, seeds = claims[0], len(claims)
    if seeds == 1:
        return first
    values = [claim.value for claim in claims if claim.value is not None]
    if first.low is None and first.high is None:
        held = sum(claim.ok for claim in claims)
        ours = f"{first.ours} (first seed); holds with {held} of {seeds} seeds"
        mean = math.fsum(values) / seeds if len(values) == seeds else None
        return replace(first, ours=ours, value=mean, ok=held == seeds, undecided=seeds < 2 * held < 2 * seeds, seeds=seeds)
    if not all(math.isfinite(value) for value in values):
        return replace(first, ours="not finite with every seed", value=math.nan, ok=False, seeds=seeds)
    alike = min(values) == max(values)  # whose mean may be rounded
    found = Interval(values[0], 0.0, seeds) if alike else interval(values)
    return replace(
        first,
        ours=str(found),
        value=found.mean,
        ok=inside(found.low, found.high, first.low, first.high),
        undecided=first.low != first.high and _straddles(found, first.low, first.high),
        seeds=seeds,
    )


def judge(claims: Iterable[Claim], scale: str, differs: Mapping[str, Differs], calibrated: Collection[str] = ()) -> list[Claim]:
    """The claims with their verdicts. At scale quick only those marked `quick` are judged.

    calibrated: ids of those that choose between candidates; one that holds is CALIBRATED, one that does not is what it would be.
    """
    judged = [replace(claim, verdict=_verdict(claim, scale, differs.get(claim.id))) for claim in claims]
    return [replace(each, verdict=CALIBRATED) if each.verdict == PASS and each.id in calibrated else each for each in judged]


def stale_differences(claims: Iterable[Claim], scale: str, differs: Mapping[str, Differs]) -> list[str]:
    """Ids of the entries of DIFFERS for this scale whose claim passes: they must go."""
    return [claim.id for claim in claims if claim.verdict == PASS and claim.id in differs and scale in differs[claim.id].scales]


def _verdict(claim: Claim, scale: str, known: Differs | None) -> str:
    if scale == "quick" and not claim.quick:
        return NOT_JUDGED
    if claim.ok:
        return PASS
    if claim.undecided:
        return OPEN
    return DIFFERS if known and known.explains(claim, scale) else FAIL


def inside(least: float, most: float, low: float | None, high: float | None) -> bool:
    return math.isfinite(least) and math.isfinite(most) and (low is None or least >= low) and (high is None or most <= high)


def _straddles(found: Interval, low: float | None, high: float | None) -> bool:
    return any(end is not None and found.low < end < found.high for end in (low, high))


def band_of(low: float | None, high: float | None) -> str:
    if low is None:
        return f"<= {high:g}"
    return f">= {low:g}" if high is None else f"{low:g} .. {high:g}"


def rounded(value: float) -> float | str:
    """Six significant digits; values that JSON has no number for become text."""
    return float(f"{value:.6g}") if math.isfinite(value) else str(value)
