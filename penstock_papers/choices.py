"""What the page of a paper begins with: its unknowns and what chose, what every candidate gives, and PASS by kind of claim."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from penstock_papers import calibrations
from penstock_papers.claims import CALIBRATED, FROM_PAPER, PASS
from penstock_papers.forms import FORMS, form
from penstock_papers.registry import EXPERIMENTS
from penstock_papers.unknowns import CALIBRATION, Candidate, Unknown, of_paper
from penstock_papers.verdicts import ALL_SCALES

UNKNOWNS = """## What the paper leaves open

What decides, in this order: the authors' public code or a public statement, the text, or one declared
[calibration](../figures.md#calibrations). The declarations, `penstock_papers/{paper}/unknowns.toml`, are older than the runs.

| unknown | candidates and their sources | chosen | by | figures |
|---|---|---|---|---|"""
KINDS = """## PASS by kind of claim

A direction can be right by chance more often than a number ([kinds](../figures.md#kinds-of-claims)). Held out are the
claims by which a calibration is checked; calibrated are those that chose, which are no PASS.

| kind | claims | PASS | held out | of them PASS | calibrated |
|---|---|---|---|---|---|"""
Records = Mapping[str, Mapping[str, Any]]


def cell(text: str) -> str:
    """Text for a cell of a table in Markdown."""
    return " ".join(text.split()).replace("|", "\\|")


def beginning(paper: str, known: Records) -> Iterator[str]:
    """Lines of the page, each part with an empty line after it."""
    unknowns = of_paper(paper)
    if unknowns:
        yield UNKNOWNS.format(paper=paper)
        for each in unknowns:
            yield f"| {' | '.join(map(cell, _row(each)))} |"
        yield ""
        for each in unknowns:
            if each.chooser:
                yield from calibration(each)
    yield from kinds(paper, known, unknowns)


def _row(unknown: Unknown) -> Iterator[str]:
    """unknown | candidates and their sources | chosen | by | figures"""
    yield f"**{unknown.name}**: {unknown.question}"
    yield "<br>× ".join("<br>".join(map(_option, axis)) for axis in unknown.axes)
    yield f"`{unknown.chosen}`: {unknown.why}"
    yield f"[{CALIBRATION}](#calibration-{unknown.name})" if unknown.chooser else unknown.by
    figures = [f"[{id.split('/')[1]}](#{id.replace('/', '-')})" for id in unknown.figures]
    reasons: dict[str, list[str]] = {}
    for id, why in unknown.not_yet.items():
        reasons.setdefault(why, []).append(id.split("/")[1])
    yield "; not yet: ".join([", ".join(figures), *(f"{', '.join(ids)} ({why})" for why, ids in reasons.items())])


def _option(option: Candidate) -> str:
    against = f"; never chosen, against it {option.against}" if option.against else ""
    return f"`{option.name}`: {option.source}{against}"


def calibration(unknown: Unknown) -> Iterator[str]:
    """What every candidate gives: its distance where the calibration chooses, and its agreement with what is held out."""
    assert unknown.chooser
    chooser, found = unknown.chooser, calibrations.load(unknown.paper, unknown.name)
    targets = ", ".join(f"`{each.claim}` ({each.target})" for each in chooser.statistics)
    of = " of those that nothing contradicts" if unknown.contradicted() else ""
    yield f'<a id="calibration-{unknown.name}"></a>'
    yield ""
    yield f"### Calibration: {unknown.name}"
    yield ""
    yield (
        f"`{chooser.figure}` chooses, at scale {chooser.scale} with {chooser.seeds} seeds, by {targets}: the candidate with the "
        f"smallest distance{of}. Held out: {', '.join(f'`{each}`' for each in unknown.held_out)}"
        + (f", with seeds 1 to {chooser.held_seeds}." if chooser.held_seeds else ".")
    )
    yield ""
    if not found:
        yield "Not run yet."
        yield ""
        return
    late = "; **the declaration has changed since**" * (found["declaration"] != unknown.declaration)
    late += "; what simulates has changed since" * calibrations.other_code(found)
    left = {id: calibrations.missing(found, id) for id in (chooser.figure, *unknown.held())}
    partly = [f"`{id}` ({len(names)} of {len(unknown.candidates)})" for id, names in left.items() if names]
    late += f"; candidates not run yet: {', '.join(partly)}" if partly else ""
    yield (
        f"Run on {found['date']}, commit {found['commit'][:12]}, scale {found['scale']}{late}. "
        f"{calibrations.moved(found)} held-out verdicts are not the same with all candidates."
    )
    yield ""
    heads = [
        "candidate",
        *(f"`{each.claim}`" for each in chooser.statistics),
        "distance",
        "held out: claims that hold; mean distance",
    ]
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    for name in sorted(found["candidates"], key=lambda name: calibrations.distance(found, name)):
        yield f"| {' | '.join(map(cell, _candidate(unknown, found, name)))} |"
    yield ""


def _candidate(unknown: Unknown, found: calibrations.Calibration, name: str) -> Iterator[str]:
    assert unknown.chooser
    each = found["candidates"][name]
    shown = f"**{name}**" if name == unknown.chosen else name
    yield f"{shown} (contradicted)" if name in unknown.contradicted() else shown
    numbers = each["figures"].get(unknown.chooser.figure, {})
    for statistic in unknown.chooser.statistics:
        yield str(numbers.get(statistic.claim, {}).get("ours", "-"))
    if "error" in each:
        yield from ("-", each["error"])
        return
    yield "-" if each["distance"] is None else f"{each['distance']:.2f}"
    yield str(calibrations.agreement(found, name))


def kinds(paper: str, known: Records, unknowns: tuple[Unknown, ...] = ()) -> Iterator[str]:
    """PASS by kind of the paper's claims, as they were last judged; those that are held out once more by themselves."""
    counts = {name: Counter[str]() for name in ("all", PASS, "held", "held PASS", CALIBRATED)}
    for id in (id for id in EXPERIMENTS if id.startswith(f"{paper}/")):
        for name, claim in last(known.get(id, {})).items():
            kind, passed = form(claim), claim["verdict"] == PASS
            if name in EXPERIMENTS[id].calibrated:
                counts[CALIBRATED][kind] += 1
                continue
            held = any(each.is_held(id, name) for each in unknowns if each.chooser)
            counts["all"][kind] += 1
            counts[PASS][kind] += passed
            counts["held"][kind] += held
            counts["held PASS"][kind] += held and passed
    if not counts["all"]:
        return
    yield KINDS
    for kind in FORMS:
        yield f"| {kind} | {' | '.join(_cells({name: found[kind] for name, found in counts.items()}))} |"
    yield f"| all | {' | '.join(_cells({name: found.total() for name, found in counts.items()}))} |"
    yield ""


def _cells(counts: Mapping[str, int]) -> Iterator[str]:
    yield str(counts["all"])
    yield _share(counts[PASS], counts["all"])
    yield str(counts["held"] or "")
    yield _share(counts["held PASS"], counts["held"])
    yield str(counts[CALIBRATED] or "")


def _share(part: int, whole: int) -> str:
    return f"{part} ({100 * part / whole:.0f} %)" if whole else ""


def last(found: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The paper's claims of a figure at the last scale at which each was judged."""
    claims: dict[str, Mapping[str, Any]] = {}
    for scale in ALL_SCALES:
        kept = found.get(scale, {}).get("claims", {})
        claims |= {name: claim for name, claim in kept.items() if claim["kind"] == FROM_PAPER}
    return claims
