"""The registry of experiments: the files of the paper folders, found by listing and imported on first use."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

from penstock_net.errors import SpecError, nearest

if TYPE_CHECKING:
    import polars as pl

    from penstock_papers.cache import Runs, Spec
    from penstock_papers.claims import Claim, Differs
    from penstock_papers.sentences import Row

SCALES = ("quick", "paper")  # of a figure whose file names none
FOLDER = Path(__file__).resolve().parent
OWN = "own_figures"  # the package that figures of a user's folder are imported as
REQUIRED = ("TITLE", "PAPER", "CLAIMS", "measure", "numbers", "plot")


@dataclass(frozen=True)
class Experiment:
    """One figure of one paper: its runs, measurements, claims and plot.

    measure  the plotted points of the runs at a scale, and of a seed (default: 1) if it draws random numbers itself
    specs    the specs of a scale, and of a seed (default: 1) that all their random numbers derive from
    seeds    number of seeds by scale, where the paper averages over several runs: SEEDS of the figure's file; otherwise one
    window   measurement window of its specs (Measure.window) unless one names its own, with the reason: WINDOW and
             WINDOW_REASON of the figure's file or, without, of the paper's __init__.py
    reduced  what is smaller at scale paper than in the paper, and why: REDUCED of the figure's file, if anything is
    folder   where the folders of the papers are: this package, or one of the user's
    rows     the table of its claims: CLAIMS of the figure's file
    calibrated  ids of its claims that choose between candidates of an unknown: unknowns.toml of the paper
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
    folder: Path = FOLDER
    rows: tuple[Row, ...] = ()
    calibrated: frozenset[str] = frozenset()

    @property
    def takes_seeds(self) -> bool:
        """Whether another seed is another run: of the simulator, or of a `measure` that has one."""
        return bool(self.specs) or _has_seed(self.measure)

    def points(self, runs: Runs, scale: str, seed: int) -> pl.DataFrame:
        """What `measure` finds with this seed."""
        return self.measure(runs, scale, seed) if _has_seed(self.measure) else self.measure(runs, scale)

    def draw(self, data: pl.DataFrame) -> Any:
        """The figure, in our style."""
        from penstock_papers.style import active

        with active():
            return self.plot(data)

    @classmethod
    def of(cls, id: str, module: ModuleType, folder: Path = FOLDER) -> Experiment:
        """The experiment defined by the names of a module."""
        missing = [name for name in REQUIRED if not hasattr(module, name)]
        if missing:
            raise SpecError(f"experiment {id}: its file has no {', '.join(missing)}", remedy="every experiment needs them")
        from penstock_papers.unknowns import calibrated

        window, why = _window(module)
        specs = getattr(module, "specs", None)
        return cls(
            id=id,
            title=module.TITLE,
            paper=module.PAPER,
            measure=module.measure,
            claims=_claims(module),
            plot=module.plot,
            specs=specs and functools.partial(completed, specs, window),
            differs=getattr(module, "DIFFERS", {}),
            about=inspect.getdoc(module) or "",
            scales=getattr(module, "SCALES", SCALES),
            seeds=getattr(module, "SEEDS", {}),
            window=window,
            window_reason=why,
            reduced=getattr(module, "REDUCED", ""),
            folder=folder,
            rows=tuple(module.CLAIMS),
            calibrated=calibrated(id, folder),
        )


def _claims(module: ModuleType) -> Callable[[pl.DataFrame, str], list[Claim]]:
    from penstock_papers.sentences import claims

    return lambda data, scale: claims(module.CLAIMS, module.numbers(data, scale), scale)


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


class _FromSource(SourceFileLoader):
    """Compiles a module each time it is loaded: Python knows by the second and the size whether bytecode is that of a file."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


class _OwnFinder:
    """Finds the modules of a user's folder of figures."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name.startswith(f"{OWN}.") else None
        if spec and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _FromSource(name, spec.loader.path)
        return spec


class Experiments(Mapping[str, Experiment]):
    """`bfc/fig09` -> Experiment. Every file of a paper's folder is one, unless its name starts with an underscore."""

    def __init__(self, folder: Path = FOLDER, package: str = "penstock_papers") -> None:
        self._folder, self._package = folder, package
        self._loaded: dict[str, Experiment] = {}

    @classmethod
    def of_folder(cls, folder: Path) -> Experiments:
        """The figures FOLDER/PAPER/figNN.py of a user; PAPER needs an __init__.py.  SpecError: there are none."""
        found = cls(folder.resolve(), OWN)
        if not folder.is_dir() or not found.ids():
            raise SpecError("has no figure", place=folder, remedy="a figure is FOLDER/PAPER/figNN.py, beside PAPER/__init__.py")
        for name in [name for name in sys.modules if name.startswith(f"{OWN}.")]:
            del sys.modules[name]  # of another folder
        if _OwnFinder not in sys.meta_path:
            sys.meta_path.insert(0, _OwnFinder)
        package = ModuleType(OWN)
        package.__path__ = [str(folder.resolve())]
        sys.modules[OWN] = package
        return found

    def ids(self) -> list[str]:
        """All ids, papers by name and figures in the order of their numbers."""
        return list(self._ids)

    @functools.cached_property
    def _ids(self) -> dict[str, None]:
        papers = [path for path in sorted(self._folder.iterdir()) if (path / "__init__.py").exists()]
        found = [
            f"{paper.name}/{module.name}"
            for paper in papers
            for module in pkgutil.iter_modules([str(paper)])
            if not module.ispkg and not module.name.startswith("_")
        ]
        return dict.fromkeys(sorted(found, key=_natural))

    def __getitem__(self, id: str) -> Experiment:
        if id not in self._loaded:
            if id not in self._ids:
                raise SpecError(f'experiment "{id}": there is no such figure', remedy=nearest(id, self.ids()))
            module = importlib.import_module(f"{self._package}.{id.replace('/', '.')}")
            self._loaded[id] = Experiment.of(id, module, self._folder)
        return self._loaded[id]

    def __contains__(self, id: object) -> bool:
        return id in self._ids

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids())

    def __len__(self) -> int:
        return len(self._ids)


def _natural(id: str) -> list[tuple[int, str]]:
    """Sort key with numbers in numerical order: fig9 before fig10."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", id)]


EXPERIMENTS = Experiments()
