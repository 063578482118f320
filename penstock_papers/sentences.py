"""The table of a figure's claims: a row for each sentence of the paper, with the band that its number must lie in and why.

    CLAIMS = (
        within("mice", "mice, DCQCN: latency p5, us", "consistently higher than 35us", 35, why=f"the paper's bound; {MORE}"),
        about("incast", "incast, DCQCN: longest queue, KB", "the queue builds up to 550 KB", 550),
        as_said("short", "slowdown p95, other scheme / HPCC, least ({})", "much lower FCTs than all the other schemes", "much"),
        ascending("order", "latency p95, us", "DCTCP outperforms DCQCN"),
        holds("best", "HPCC has the lowest latency", "they cannot keep the latency low", "HPCC smallest"),
    )

    def numbers(data, scale) -> Numbers:
        return {"mice": 41.0, ..., "short": (1.7, "DCTCP"), "order": {"DCTCP": 30.0, "DCQCN": 42.0}, "best": (True, "12 us")}

`numbers` gives for every row, by its id: of `within`, `about` and `as_said` a number, or (number, name) if the claim has a place
"{}" for what it is the number of; of `ascending` the numbers by name, in the order that the paper says; of `holds` (whether it
does, what is shown), and as a third the name if its claim has that place.  A claim may have several places, and then as many
names.  A row is judged at every scale, or at those of `row.at("paper")`; then its id may have another row.

At scale quick only ordering is judged: `ascending` and `holds`, and those bands that say `quick=True` because they do not
depend on the scale.
"""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock_net.errors import SpecError
from penstock_papers.claims import CONDITION, FROM_PAPER, ORDER, TWICE, WORDS, Claim, band_of, gain_band, inside, rounded

Numbers = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """A claim without its number.

    low, high  ends of the band of a number, None for an open one
    condition  in the place of a band; "" of an order, whose names come with the numbers
    scales     those at which it is judged; none: all
    """

    id: str
    claim: str
    paper: str
    why: str
    quick: bool
    kind: str
    low: float | None = None
    high: float | None = None
    condition: str = ""
    scales: tuple[str, ...] = ()

    @property
    def band(self) -> str:
        """What must hold, as text."""
        return self.condition if self.low is self.high is None else band_of(self.low, self.high)

    def at(self, *scales: str, **changes: Any) -> "Row":
        """The row, judged at these scales only, and with these fields."""
        return replace(self, scales=scales, **changes)

    def with_number(self, found: Any) -> Claim:
        """The claim that this number makes of the row."""
        if isinstance(found, Mapping):
            return self._with_order({name: float(number) for name, number in found.items()})
        if self.low is None and self.high is None:
            ok, ours, *names = found
            row = replace(self, claim=self.claim.format(*names)) if names else self
            return row._with_condition(ok, ours)
        ours, *names = found if isinstance(found, tuple) else (found,)
        claim = self.claim.format(*names) if names else self.claim
        value = float(ours)
        ok = inside(value, value, self.low, self.high)
        return self._claim(rounded(value), ok, claim=claim, value=value, low=self.low, high=self.high)

    def _with_order(self, numbers: dict[str, float]) -> Claim:
        ok = all(b > a for a, b in itertools.pairwise(numbers.values()))
        ours = ", ".join(f"{name} {number:.4g}" for name, number in numbers.items())
        return self._claim(ours, ok, band=" < ".join(numbers))

    def _with_condition(self, ok: Any, ours: float | str) -> Claim:
        if isinstance(ours, float):
            return self._claim(rounded(ours), bool(ok), value=ours)
        return self._claim(str(ours), bool(ok))

    def _claim(self, ours: float | str, ok: bool, **more: Any) -> Claim:
        same = {name: getattr(self, name) for name in ("id", "claim", "paper", "band", "quick", "why", "kind")}
        return Claim(**{**same, "ours": ours, "ok": ok, **more})


def within(
    id: str,
    claim: str,
    paper: str,
    low: float | None = None,
    high: float | None = None,
    *,
    why: str,
    quick: bool = False,
    kind: str = FROM_PAPER,
) -> Row:
    """A number that must lie in [low, high], and the reason of that band.  A number that is not finite never does.

    One end may be open, then `why` says so.  ValueError: both ends are open, so that the claim could not fail, or no reason.
    """
    if low is None and high is None:
        raise ValueError(f"claim {id}: a band with two open ends cannot fail")
    if not why:
        raise ValueError(f"claim {id}: a band needs its reason")
    return Row(id, claim, paper, why, quick, kind, low, high)


def about(
    id: str, claim: str, paper: str, number: float, *, gain: bool = False, quick: bool = False, kind: str = FROM_PAPER
) -> Row:
    """A number that must lie between half and twice the paper's; `gain`: in the band of `gain_band`."""
    low, high, why = gain_band(number) if gain else (number / 2, number * 2, TWICE)
    return within(id, claim, paper, low, high, why=why, quick=quick, kind=kind)


def as_said(
    id: str,
    claim: str,
    paper: str,
    word: str,
    *,
    said: str = "",
    quick: bool = False,
    kind: str = FROM_PAPER,
) -> Row:
    """A factor in the band of a word of WORDS; above 1 is what the paper says.  ValueError: `paper` does not say that word.

    said  what the paper says in the place of that word
    """
    if (said or word) not in paper.lower():
        raise ValueError(f'claim {id}: the paper\'s words "{paper}" have no "{said or word}"')
    low, high = WORDS[word]
    why = (f'"{said}" as "{word}": ' if said else f'"{word}": ') + (
        f"a factor of {low:g} or more" if high is None else f"a factor from {low:g} to {high:g}"
    )
    return within(id, claim, paper, low, high, why=why, quick=quick, kind=kind)


def ascending(id: str, claim: str, paper: str, *, quick: bool = True, kind: str = FROM_PAPER) -> Row:
    """Several numbers that must come in the order in which `numbers` has them."""
    return Row(id, claim, paper, ORDER, quick, kind)


def holds(id: str, claim: str, paper: str, band: str = "holds", *, quick: bool = True, kind: str = FROM_PAPER) -> Row:
    """A condition that the experiment has evaluated itself."""
    return Row(id, claim, paper, CONDITION, quick, kind, condition=band)


def claims(table: Iterable[Row], numbers: Numbers, scale: str) -> list[Claim]:
    """The claims of a scale.  SpecError: a row without a number, a number without a row, or two rows of one id."""
    rows = [row for row in table if not row.scales or scale in row.scales]
    ids = [row.id for row in rows]
    if twice := sorted({id for id in ids if ids.count(id) > 1}):
        raise SpecError(f"two rows of the table of claims at scale {scale} have the id {twice[0]}", remedy="rename one of them")
    if missing := [id for id in ids if id not in numbers]:
        raise SpecError(f"claims without a number at scale {scale}: {', '.join(missing)}", remedy="let `numbers` give them")
    if unknown := sorted(numbers.keys() - set(ids)):
        raise SpecError(f"numbers without a claim at scale {scale}: {', '.join(unknown)}", remedy="write their rows in CLAIMS")
    return [row.with_number(numbers[row.id]) for row in rows]
