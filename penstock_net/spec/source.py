"""Where a value of a spec came from, the line of its file or an option, and what pydantic found wrong with it as a SpecError."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from penstock_net.errors import SpecError
from penstock_net.inputs import unknown_key
from penstock_net.spec.tables import SECTIONS, RunTable
from penstock_net.spec.toml import line_of


class Source:
    """The file's text and the options, to say where a bad value stands."""

    def __init__(self, name: str, text: str = "", stem: str = "spec") -> None:
        self.name, self.text, self.stem = name, text, stem
        self.sets: dict[str, str] = {}

    def of(self, path: str) -> str:
        """ "file:line", "--set key=value" or "--seed 3" of a dotted path."""
        for key, given in sorted(self.sets.items(), key=lambda item: -len(item[0])):
            if path == key or path.startswith(key + "."):
                return given
        line = line_of(self.text, path.split("."))
        return f"{self.name}:{line}" if line else self.name

    def located(self, error: SpecError) -> SpecError:
        """The error with the place of its key, unless it names a place itself."""
        return error.within(place=self.of(error.path))

    @contextmanager
    def context(self, section: str = "") -> Iterator[None]:
        """Puts the section ("topology", "scheme.0") and the place to a SpecError that comes from a builder."""
        try:
            yield
        except SpecError as error:
            self.located(error.within(section))
            raise


_EXAMPLES = {
    "run": 'add [run] with duration = "5ms"',
    "run.duration": 'for example duration = "5ms"',
    "topology": 'add [topology] with kind = "star"',
    "workload": 'add [[workload]] with kind = "poisson"',
    "workload.kind": 'for example kind = "poisson"',
    "scheme.name": 'for example name = "bfc"',
}


def explained(error: Any, lists: Mapping[str, int]) -> SpecError:
    """What pydantic found, as a SpecError with the dotted path."""
    where, kind, value = list(error["loc"]), error["type"], error["input"]
    if len(where) > 1 and where[0] in lists and isinstance(where[1], int) and lists[where[0]] == 1:
        del where[1]
    where = [str(part) for part in where if str(part) not in ("str", "int", "float")]
    path = ".".join(where)
    if kind == "extra_forbidden":
        return unknown_key(where[-1], SECTIONS if len(where) == 1 else RunTable.model_fields, ".".join(where[:-1]))
    if kind == "missing":
        return SpecError("is missing", path=path, remedy=_EXAMPLES.get(path, ""))
    rule = {
        "string_type": "must be a text",
        "model_type": f"must be a table, [{path}]",
        "list_type": f"must be a table, [{path}] or [[{path}]]",
        "too_short": "needs at least one table",
    }.get(kind) or str(error["msg"]).removeprefix("Value error, ")
    return SpecError(rule, path=path, value=value)
