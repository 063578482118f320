"""The runs of a sweep as jobs, wherever they are simulated."""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock_net.errors import SpecError

if TYPE_CHECKING:
    from penstock_net.results.run import Run


@dataclass(frozen=True)
class Job:
    """One run: a spec with one scheme as text, its key, and the folder for its results."""

    toml: str
    key: str
    folder: Path


Problem = str | None  # why a job failed, in one line
Ended = Generator[tuple[Job, Problem], None, None]
Backend = Callable[[list[Job], bool], Ended]  # `bool`: admit a load above 1


def compute(toml: str, key: str, force: bool, progress: Callable[[Any], None] | None = None) -> "Run":
    """Simulate a spec with one scheme in this process.  SpecError: it is not what the key was made of."""
    from penstock_net import identity
    from penstock_net.spec import parse_spec

    spec = parse_spec(toml)
    if identity.key(spec) != key:
        raise SpecError("a file that the spec names was changed since the sweep began", remedy="give the command again")
    topo = spec.build_topology()
    run = spec.simulate(spec.schemes[0], topo, spec.build_flows(topo, force), progress=progress)
    run.summary |= identity.stamp(spec)
    return run


def problem_of(error: Exception) -> str:
    """What is said of a job that ended with an exception other than penstock's own."""
    return f"{type(error).__name__}: {error}".splitlines()[0]
