"""The tables of a spec file: their keys, and what is possible for each."""

import re
from dataclasses import fields
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

from penstock_net.inputs import MAX_SEED, as_table, below_one, boolean, known_keys, one_of, time_ps, whole
from penstock_net.sim.config import LINK_CLOCKS

SECTIONS = ("run", "topology", "scheme", "workload", "measure", "host", "in_network")


def _time(path: str) -> BeforeValidator:
    def check(value: Any) -> Any:
        if value is not None:
            time_ps(value, path, positive=True)
        return value

    return BeforeValidator(check)


def _whole(path: str, low: int, high: int) -> BeforeValidator:
    return BeforeValidator(lambda value: whole(value, path, low, high))


def _choice(path: str, choices: tuple[str, ...]) -> BeforeValidator:
    return BeforeValidator(lambda value: value if value is None else one_of(value, path, choices))


def keys_of(path: str, kind: type) -> BeforeValidator:
    """A table whose keys are the fields of a dataclass."""

    def check(value: Any) -> Any:
        if isinstance(value, kind):
            return value
        given = as_table(value, path, f"[{path}]")
        known_keys(given, [field.name for field in fields(kind)], path)
        return kind(**given)

    return BeforeValidator(check)


def _plain_name(value: str | None) -> str | None:
    if value is not None and not (re.fullmatch(r"[^\W_][^/\\]{0,99}", value) and value.isprintable()):
        raise ValueError("must be a plain name: a letter or digit first, no / in it, at most 100 characters")
    return value


def as_list(value: Any) -> Any:
    """A list of tables; [scheme] is one of them, like [[scheme]]."""
    return [value] if isinstance(value, dict) else value


class Closed(BaseModel):
    """Tables that have these keys and no others."""

    model_config = ConfigDict(extra="forbid", strict=True)


class _Open(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)

    @property
    def extra(self) -> dict[str, Any]:
        """The keys that are not penstock's own: they belong to the topology, workload or scheme."""
        return dict(self.__pydantic_extra__ or {})


class RunTable(Closed):
    """[run]: how long flows arrive, the seed of every random stream, and how many threads to use.

    drain: go on after `duration` until every flow has finished, at most until `max_time` (simulated);
    control_loss, paths, link_clock: of Settings.
    """

    duration: Annotated[str | int | float, _time("run.duration")]
    seed: Annotated[int, _whole("run.seed", 0, MAX_SEED)] = 1
    drain: Annotated[bool, BeforeValidator(lambda value: boolean(value, "run.drain"))] = True
    max_time: Annotated[str | int | float | None, _time("run.max_time")] = None
    threads: Annotated[int, _whole("run.threads", 1, 1024)] = 1
    paths: str | None = None
    control_loss: Annotated[float | None, BeforeValidator(lambda v: v if v is None else below_one(v, "run.control_loss"))] = None
    link_clock: Annotated[str | None, _choice("run.link_clock", LINK_CLOCKS)] = None


class TopologyTable(_Open):
    """[topology]: `kind` or `file`, and the keys of that kind."""

    kind: str | None = None
    file: str | None = None


class SchemeTable(_Open):
    """[scheme] or [[scheme]]: `name`, the scheme's parameters, and a `label` for its folder and legend."""

    name: str
    label: Annotated[str | None, AfterValidator(_plain_name)] = None

    @property
    def parameters(self) -> dict[str, Any]:
        """What was set, "part.parameter" for a nested table; everything else keeps the scheme's default."""
        return {".".join(path): value for path, value in scheme_keys(self.extra)}


def scheme_keys(table: dict[str, Any]) -> list[tuple[tuple[str, ...], Any]]:
    """The parameters in a table of a scheme, by path: ("alpha",), or ("pfc", "alpha") in a table of a part."""
    found: list[tuple[tuple[str, ...], Any]] = []
    for key, value in table.items():
        inner = value if isinstance(value, dict) and value else None
        found += [((key, name), one) for name, one in inner.items()] if inner else [((key,), value)]
    return [(path, value) for path, value in found if path[0] not in ("name", "label")]


class WorkloadTable(_Open):
    """[[workload]]: `kind` and the keys of that kind."""

    kind: str
