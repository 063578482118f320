"""Claims: the paper's value, the measured value, its acceptance band, and the verdict, which is always computed.

An experiment makes its claims with three functions: `within` (a number in a band), `ascending` (an order of several)
and `holds` (a condition). At `--scale quick` only ordering is judged: `ascending` and `holds`, and those `within` that
say `quick=True` because they do not depend on the scale.
"""

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

PASS, FAIL, DIFFERS, OPEN = "PASS", "FAIL", "DIFFERS", "-"
SCALES = ("quick", "paper")


@dataclass(frozen=True)
class Differs:
    """Why a claim may lie outside its band: one sentence, and the heading in docs/differences.md that explains it."""

    reason: str
    anchor: str

    def record(self) -> dict[str, str]:
        """Its entry in summary.json."""
        return {"reason": self.reason, "see": f"docs/differences.md#{self.anchor}"}


@dataclass(frozen=True)
class Claim:
    """One row of claims.json. `verdict` is OPEN until `judge` has seen the scale and the DIFFERS table."""

    id: str
    claim: str
    paper: str
    ours: float | str
    band: str
    ok: bool
    quick: bool = False
    verdict: str = OPEN

    def record(self) -> dict[str, Any]:
        """The six columns of claims.json."""
        kept = asdict(self)
        return {key: kept[key] for key in ("id", "claim", "paper", "ours", "band", "verdict")}


def within(
    id: str,
    claim: str,
    paper: str,
    ours: Any,
    low: float | None = None,
    high: float | None = None,
    quick: bool = False,
) -> Claim:
    """A number that must lie in [low, high]; either end may be open. A number that is not finite never does."""
    ours = float(ours)
    ok = math.isfinite(ours) and (low is None or ours >= low) and (high is None or ours <= high)
    return Claim(id, claim, paper, _rounded(ours), _band(low, high), ok, quick)


def ascending(id: str, claim: str, paper: str, values: Mapping[str, Any], slack: float = 0.0, quick: bool = True) -> Claim:
    """Several numbers that must come in this order. Each may fall short of the one before by `slack` (0.05: 5 %)."""
    names, numbers = list(values), [float(value) for value in values.values()]
    pairs = list(itertools.pairwise(numbers))
    ok = all(b > a if slack == 0 else b >= a * (1 - slack) for a, b in pairs)
    ours = ", ".join(f"{name} {number:.4g}" for name, number in zip(names, numbers))
    band = " < ".join(names) + (f" (within {slack:.0%})" if slack else "")
    return Claim(id, claim, paper, ours, band, ok, quick)


def holds(id: str, claim: str, paper: str, ours: float | str, ok: Any, band: str = "holds", quick: bool = True) -> Claim:
    """A condition that the experiment has evaluated itself."""
    return Claim(id, claim, paper, _rounded(ours) if isinstance(ours, float) else str(ours), band, bool(ok), quick)


def judge(claims: Iterable[Claim], scale: str, differs: Mapping[str, Differs]) -> list[Claim]:
    """The claims with their verdicts. At scale quick only those marked `quick` are judged."""
    return [replace(claim, verdict=_verdict(claim, scale, differs)) for claim in claims]


def _verdict(claim: Claim, scale: str, differs: Mapping[str, Differs]) -> str:
    if scale == "quick" and not claim.quick:
        return OPEN
    if claim.ok:
        return PASS
    return DIFFERS if claim.id in differs else FAIL


def _band(low: float | None, high: float | None) -> str:
    if low is None:
        return "any" if high is None else f"<= {high:g}"
    return f">= {low:g}" if high is None else f"{low:g} .. {high:g}"


def _rounded(value: float) -> float | str:
    """Six significant digits; values that JSON has no number for become text."""
    return float(f"{value:.6g}") if math.isfinite(value) else str(value)
