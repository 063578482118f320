"""Whether two runs are the same: the key of a run, the cache folder, and which sources can change a result.

Two runs are the same if nothing that decides their results differs: the spec with the files that it names (`Spec.key`), and the
code that simulates (`code`).  Comments and docstrings are no code.  The number of threads, plots, reports, messages of commands,
the real switch, and schemes that do not run decide nothing.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock_net.built import check_built
from penstock_net.errors import SpecError
from penstock_net.files import of_user, write_file
from penstock_net.sources import code_of

if TYPE_CHECKING:
    from penstock_net.spec import Spec

PACKAGE = Path(__file__).resolve().parent
SCHEMES = PACKAGE / "schemes"
SIMULATES = (  # everything that can change a result; of schemes those that run
    "composition",
    "fabric",
    "formats.py",
    "hashing.py",
    "inputs.py",
    "pxd.py",
    "results",
    "scratch.py",
    "sim",
    "spec",
    "topology",
    "units.py",
    "workload",
)
SUFFIXES = (".py", ".pxd", ".h", ".csv")
GENERATED = b"# Generated"  # how the first line of a generated file begins
Code = dict[str, str]  # folder or file of SIMULATES, or schemes/NAME.py -> hash of its code


def home() -> Path:
    """`$XDG_CACHE_HOME/penstock`, or `~/.cache/penstock`: runs, compiled schemes."""
    return of_user("XDG_CACHE_HOME", ".cache")


def key(spec: "Spec") -> str:
    """The key of the run of a spec with one scheme: 32 hex digits, the same for the same results."""
    return _key(spec.key(), parts_of(spec))


def stamp(spec: "Spec") -> dict[str, Any]:
    """What a run's summary says of what makes it the run of this spec: `key`, `spec_key` and `code`."""
    spec_key, parts = spec.key(), parts_of(spec)
    return {"key": _key(spec_key, parts), "spec_key": spec_key, "code": code(parts)}


def _key(spec_key: str, parts: frozenset[str]) -> str:
    return sha256(f"{spec_key} {code_hash(parts)}".encode()).hexdigest()[:32]


def parts_of(spec: "Spec") -> frozenset[str]:
    """The schemes that the runs of a spec consist of."""
    return frozenset(part for table in spec.schemes for part in spec.build_scheme(table).parts)


@cache
def code(schemes: frozenset[str]) -> Code:
    """Hashes of the code that can change the result of a run of these schemes, the same on every machine.

    SpecError: what is compiled was made from other code than this.
    """
    check_built()
    names = [*SIMULATES, *(f"schemes/{name}.py" for name in sorted(schemes))]  # a user's scheme is part of the spec
    return {name: hash_below(name) for name in names if (PACKAGE / name).exists()}


@cache
def hash_below(name: str) -> str:
    """`hash_of` of the sources of a folder or file; it is kept in the cache folder while the files are untouched."""
    stats = [(str(path), path.stat()) for path in (*_found([name]), Path(__file__))]
    untouched = sha256(repr([(path, stat.st_ino, stat.st_size, stat.st_ctime_ns) for path, stat in stats]).encode()).hexdigest()
    with suppress(SpecError, OSError, ValueError):
        before, found = _kept(name).read_text().split()
        if before == untouched:
            return found
    found = hash_of(sources([name]))
    with suppress(SpecError):  # a cache folder that is not there, or cannot be written, costs time only
        write_file(_kept(name), f"{untouched} {found}".encode())
    return found


def _kept(name: str) -> Path:
    return home() / "code" / sha256(str(PACKAGE / name).encode()).hexdigest()[:32]


@cache
def code_hash(schemes: frozenset[str]) -> str:
    """`code` as 16 hex digits."""
    return sha256(json.dumps(code(schemes), sort_keys=True).encode()).hexdigest()[:16]


def difference(made: Mapping[str, Any], spec: "Spec") -> str:
    """Why the run with this summary is not that of a spec; "" if it is."""
    if made.get("key") == key(spec):
        return ""
    if "code" not in made or "spec_key" not in made:
        return "it is of another experiment, or was made by another version of the simulator"
    if made["spec_key"] != spec.key():
        return "it is of another experiment"
    return made_by_another(made["code"], code(parts_of(spec)))


def made_by_another(theirs: Mapping[str, str], ours: Mapping[str, str]) -> str:
    """What is said of a result that other code has made."""
    names = ", ".join(sorted(name for name in {*theirs, *ours} if theirs.get(name) != ours.get(name)))
    return f"it was made by another version of the simulator: the code of {names} differs"


# -- the sources ---------------------------------------------------------------------------------------------------------


def sources(names: Iterable[str]) -> list[Path]:
    """The sources below these folders and files of the package, without what a build generates."""
    return [path for path in _found(names) if not path.read_bytes().startswith(GENERATED)]


def _found(names: Iterable[str]) -> list[Path]:
    roots = [PACKAGE / name for name in names]
    return sorted({path for root in roots for path in (root, *root.rglob("*")) if path.suffix in SUFFIXES})


def hash_of(paths: Iterable[Path]) -> str:
    """16 hex digits of the names and the code of files of the package."""
    digest = sha256()
    for path in sorted(paths):
        code = code_of(path.read_text(), path.suffix)
        digest.update(f"{path.relative_to(PACKAGE).as_posix()}\0{code}\0".encode())
    return digest.hexdigest()[:16]
