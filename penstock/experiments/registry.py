"""The registry of experiments: the files of the paper folders, found by listing and imported on first use."""

import functools
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl

from penstock.errors import SpecError, nearest
from penstock.experiments.cache import Runs, Spec
from penstock.experiments.claims import SCALES, Claim, Differs
from penstock.experiments.style import active

FOLDER = Path(__file__).resolve().parent
REQUIRED = ("TITLE", "PAPER", "measure", "claims", "plot")


@dataclass(frozen=True)
class Experiment:
    """One figure of one paper: its runs, measurements, claims and plot.

    measure  the plotted points of the runs at a scale, and of a seed (default: 1) if it draws random numbers itself
    specs    the specs of a scale, and of a seed (default: 1) that all their random numbers derive from
    seeds    number of seeds by scale, where the paper averages over several runs: SEEDS of the figure's file; otherwise one
    window   measurement window of its specs (Measure.window) unless one names its own, with the reason: WINDOW and
             WINDOW_REASON of the figure's file or, without, of the paper's __init__.py
    reduced  what is smaller at scale paper than in the paper, and why: REDUCED of the figure's file, if anything is
    """

    id: str
    title: str
    paper: str
    measure: Callable[..., pl.DataFrame]
    claims: Callable[[pl.DataFrame, str], list[Claim]]
    plot: Callable[[pl.DataFrame], Any]
    specs: Callable[..., dict[str, Spec]] | None = None
    differs: Mapping[str, Differs] = field(default_factory=dict)
    about: str = ""
    scales: tuple[str, ...] = SCALES
    seeds: Mapping[str, int] = field(default_factory=dict)
    window: str = "run"
    window_reason: str = ""
    reduced: str = ""

    @property
    def takes_seeds(self) -> bool:
        """Whether another seed is another run: of the simulator, or of a `measure` that has one."""
        return bool(self.specs) or _has_seed(self.measure)

    def points(self, runs: Runs, scale: str, seed: int) -> pl.DataFrame:
        """What `measure` finds with this seed."""
        return self.measure(runs, scale, seed) if _has_seed(self.measure) else self.measure(runs, scale)

    def draw(self, data: pl.DataFrame) -> Any:
        """The figure, in our style."""
        with active():
            return self.plot(data)

    @classmethod
    def of(cls, id: str, module: ModuleType) -> "Experiment":
        """The experiment defined by the names of a module."""
        missing = [name for name in REQUIRED if not hasattr(module, name)]
        if missing:
            raise SpecError(f"experiment {id}: its file has no {', '.join(missing)}", remedy="every experiment needs them")
        window, why = _window(module)
        specs = getattr(module, "specs", None)
        return cls(
            id=id,
            title=module.TITLE,
            paper=module.PAPER,
            measure=module.measure,
            claims=module.claims,
            plot=module.plot,
            specs=specs and functools.partial(completed, specs, window),
            differs=getattr(module, "DIFFERS", {}),
            about=inspect.getdoc(module) or "",
            scales=getattr(module, "SCALES", SCALES),
            seeds=getattr(module, "SEEDS", {}),
            window=window,
            window_reason=why,
            reduced=getattr(module, "REDUCED", ""),
        )


def _has_seed(function: Callable[..., Any]) -> bool:
    return "seed" in inspect.signature(function).parameters


def _window(module: ModuleType) -> tuple[str, str]:
    paper = sys.modules.get(module.__name__.rpartition(".")[0])
    place = module if hasattr(module, "WINDOW") else paper
    return getattr(place, "WINDOW", "run"), getattr(place, "WINDOW_REASON", "")


def completed(specs: Callable[..., dict[str, Spec]], window: str, scale: str, seed: int = 1) -> dict[str, Spec]:
    """The specs of a scale and seed; those that name no measurement window get this one.

    A module that draws random numbers of its own has `specs(scale, seed)`; of any other the seed is that of the spec.
    """
    if _has_seed(specs):
        found = specs(scale, seed)
    else:
        found = {label: {**spec, "run": {**spec.get("run", {}), "seed": seed}} for label, spec in specs(scale).items()}
    return {label: {**spec, "measure": {"window": window, **spec.get("measure", {})}} for label, spec in found.items()}


class Experiments(Mapping[str, Experiment]):
    """`bfc/fig09` -> Experiment. Every file of a paper's folder is one, unless its name starts with an underscore."""

    def __init__(self, folder: Path = FOLDER, package: str = "penstock.experiments") -> None:
        self._folder, self._package = folder, package
        self._loaded: dict[str, Experiment] = {}

    def ids(self) -> list[str]:
        """All ids, papers by name and figures in the order of their numbers."""
        papers = [path for path in sorted(self._folder.iterdir()) if (path / "__init__.py").exists()]
        found = [
            f"{paper.name}/{module.name}"
            for paper in papers
            for module in pkgutil.iter_modules([str(paper)])
            if not module.ispkg and not module.name.startswith("_")
        ]
        return sorted(found, key=_natural)

    def __getitem__(self, id: str) -> Experiment:
        if id not in self._loaded:
            if id not in self.ids():
                raise SpecError(f'experiment "{id}": there is no such figure', remedy=nearest(id, self.ids()))
            module = importlib.import_module(f"{self._package}.{id.replace('/', '.')}")
            self._loaded[id] = Experiment.of(id, module)
        return self._loaded[id]

    def __contains__(self, id: object) -> bool:
        return id in self.ids()

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids())

    def __len__(self) -> int:
        return len(self.ids())


def _natural(id: str) -> list[tuple[int, str]]:
    """Sort key with numbers in numerical order: fig9 before fig10."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", id)]


EXPERIMENTS = Experiments()
