"""What a figure is drawn of: frames, flows by class, priority and size, a switch. Bad choices are SpecErrors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from penstock_net.errors import SpecError
from penstock_net.inputs import size_bytes, whole
from penstock_net.plot_kinds import KINDS
from penstock_net.results.chosen import ends_of, listed, names, node_of, span
from penstock_net.results.run import Run
from penstock_net.results.samples import Samples
from penstock_net.units import format_size, parse_size

Class = str | Sequence[str] | None


def need(run: Run, kind: str, present: Any, what: str) -> None:
    """SpecError unless `present`: the run has no `what`; the remedy is what `kind` needs."""
    if not present:
        lines = ", ".join(KINDS[kind].needs)
        raise SpecError(f'run "{run.label}": has no {what}', remedy=f"run it again with [measure] {lines}")


def frame(run: Run, kind: str, name: str, setting: str = "") -> pl.DataFrame:
    """A frame of the whole run that is not empty.  SpecError: it was not recorded.

    setting: what records it, if `kind` does not always need it.
    """
    found = run.frames.get(name)
    if found is None:
        if setting:
            raise SpecError(f'run "{run.label}": has no {name}', remedy=f"run it again with [measure] {setting}")
        need(run, kind, False, name)
    return found  # type: ignore[return-value]


def samples_of(run: Run, kind: str) -> Samples:
    """The samples of the switches of the whole run.  SpecError: none were taken."""
    need(run, kind, run.samples.height, "samples of its switches")
    return run.samples


# -- flows


@dataclass(frozen=True)
class FlowFilter:
    """Which flows a figure shows.

    class_    "background": all but incast, unless there is nothing else; None or "all"; a class, several, or "!incast"
    priority  0 to 7, or a range such as "0..3"; None: all
    size      a range of bytes with its bounds, such as "..3KB", "1MB..", "1KB..10KB"; None: all
    """

    class_: Class = "background"
    priority: int | str | None = None
    size: str | None = None

    def apply(self, run: Run) -> Run:
        """The run with these flows only, whenever they start.  SpecError: there are none."""
        always = run.changed(summary={key: value for key, value in run.summary.items() if key != "window_ns"})
        chosen = always.selected(self.classes(run))
        if self.priority is not None:
            low, high = span(str(self.priority), lambda text: whole(_int(text), "priority", 0, 7), "priority", "0..3")
            chosen = _between(chosen, "priority", low, high)
        if self.size is not None:
            chosen = _between(chosen, "bytes", *span(self.size, lambda text: size_bytes(text, "size"), "size", "1KB..10KB"))
        if not chosen.height and run.flows.height:
            raise SpecError(f'run "{run.label}": has no flows of {self.text(run)}', remedy=self._has(run))
        return run.changed(flows=chosen)

    def classes(self, run: Run) -> Class:
        """As Run.selected takes them."""
        if self.class_ == "background":
            return run.background()
        return None if self.class_ == "all" else self.class_

    def text(self, run: Run) -> str:
        """The choice for a caption: "poisson, priority 0, 1 KB to 10 KB"; "" if it is every flow."""
        classes = self.classes(run)
        parts = [] if classes is None else [classes if isinstance(classes, str) else " + ".join(classes)]
        parts = [part.replace("!", "not ") for part in parts]
        if self.priority is not None:
            parts.append(f"priority {str(self.priority).replace('..', ' to ').strip()}")
        if self.size is not None:
            low, high = (end.strip() and format_size(parse_size(end.strip()), " ") for end in ends_of(self.size))
            parts.append(
                low if low == high else f"{low} to {high}" if low and high else f"from {low}" if low else f"up to {high}"
            )
        return ", ".join(parts)

    def _has(self, run: Run) -> str:
        flows = run.flows
        sizes = " to ".join(format_size(int(end)) for end in (flows["bytes"].min(), flows["bytes"].max()))  # type: ignore[arg-type]
        priorities = ", ".join(map(str, sorted(flows["priority"].unique().to_list())))
        return (
            f"it has classes {', '.join(sorted(flows['class'].cast(pl.String).unique()))}; priorities {priorities}; sizes {sizes}"
        )


def _int(text: str) -> Any:
    return int(text) if text.isdecimal() and text.isascii() else text


def _between(flows: pl.DataFrame, column: str, low: Any, high: Any) -> pl.DataFrame:
    keep = pl.lit(True)
    if low is not None:
        keep &= pl.col(column) >= low
    if high is not None:
        keep &= pl.col(column) <= high
    return flows.filter(keep)


# -- switches


def switch_of(run: Run, given: str | int) -> int:
    """The number of a switch given by name or number.  SpecError: it is a host, or there is none."""
    number = node_of(run, given, "switch")
    switches = run.samples.switches
    if number not in switches:
        called = names(run)
        remedy = f"switches: {listed([(n, called.get(n, n)) for n in switches])}"
        raise SpecError(f"{called.get(number, number)} is no switch", path="switch", value=given, remedy=remedy)
    return number
