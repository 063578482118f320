"""Candidates of an unknown in a figure: its specs with their patches, and whether it shows the chosen one.

`tools/unknowns.py` prints which figures do not, and in which key.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock_net.units import parse_time
from penstock_papers.cache import single
from penstock_papers.patches import Difference, Spec, apply
from penstock_papers.registry import Experiment

SHORT = "2ms"  # at most, of what no claim reads
if TYPE_CHECKING:
    from penstock_papers.unknowns import Candidate, Unknown


def with_candidate(experiment: Experiment, unknown: Unknown, candidate: Candidate) -> Experiment:
    """The figure as it is with a candidate; as it stands if it has no specs, or does not hang on the unknown."""
    if not experiment.specs or experiment.id not in unknown.figures or not candidate.patches:
        return experiment
    return replace(experiment, specs=functools.partial(_patched, experiment, unknown, candidate))


def as_read(experiment: Experiment, unknown: Unknown, candidate: Candidate) -> Experiment:
    """The figure with a candidate, as a calibration runs it: what is declared unread is short, and of the first seed."""
    own = with_candidate(experiment, unknown, candidate)
    if not own.specs or not (unknown.chooser and any(text.startswith(f"{experiment.id} ") for text in unknown.chooser.unread)):
        return own
    return replace(own, specs=functools.partial(_as_read, experiment, own, unknown))


def _as_read(experiment: Experiment, own: Experiment, unknown: Unknown, scale: str, seed: int = 1) -> dict[str, Spec]:
    assert experiment.specs and own.specs
    plain = single(experiment.specs(scale, 1))
    found = single(own.specs(scale, seed))
    return {run: _short(plain[run]) if unknown.is_unread(experiment.id, run) else spec for run, spec in found.items()}


def _short(spec: Spec) -> Spec:
    """The same run, of a few milliseconds."""
    if "duration" not in spec["run"] or parse_time(spec["run"]["duration"]) <= parse_time(SHORT):
        return spec
    return {**spec, "run": {**spec["run"], "duration": SHORT}}


def _patched(experiment: Experiment, unknown: Unknown, candidate: Candidate, scale: str, seed: int = 1) -> dict[str, Spec]:
    assert experiment.specs
    return apply(candidate.patches, experiment.id, experiment.specs(scale, seed), unknown.beside)[0]


def differences(unknown: Unknown, experiment: Experiment) -> list[Difference]:
    """Where the specs of a figure, at scale paper if it has that, are not those of the chosen candidate."""
    scale = "paper" if "paper" in experiment.scales else experiment.scales[0]
    specs = experiment.specs(scale) if experiment.specs else {}
    return apply(unknown.candidates[unknown.chosen].patches, experiment.id, specs, unknown.beside)[1]


def unsettled(unknowns: Iterator[Unknown] | tuple[Unknown, ...], experiments: Mapping[str, Experiment]) -> Iterator[str]:
    """A line for each figure whose set-up is not what the declaration says; those that it says so of must differ."""
    for unknown in unknowns:
        for id in unknown.figures:
            found: list[Any] = differences(unknown, experiments[id])
            who = f"{unknown.paper} {unknown.name}"
            if found and id not in unknown.not_yet:
                yield from (f"{who}: {each}" for each in found)
            if not found and id in unknown.not_yet:
                yield f"{who}: {id} shows the chosen {unknown.chosen!r}: delete it from not_yet"
