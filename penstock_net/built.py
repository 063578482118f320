"""Whether the compiled simulator was made from the sources beside it: a run says of which code it is by hashing these.

A build writes `built.json`, with two digests of every source of a compiled module: of its bytes, and of its code (sources.py).
"""

import json
from functools import cache
from pathlib import Path

from penstock_net.errors import SpecError
from penstock_net.sources import BUILT, code_digest, digest

PACKAGE = Path(__file__).resolve().parent
REMEDY = "build it again: python setup.py -q build_ext --inplace (or install the package again)"


def changed(package: Path = PACKAGE) -> list[str]:
    """The sources whose code is not that which the compiled modules were made from. SpecError: it is not known what they were."""
    try:
        made: dict[str, list[str]] = json.loads((package / BUILT).read_text())
    except (OSError, ValueError) as error:
        raise SpecError(f"no {BUILT}: it is not known what the compiled simulator was made from", remedy=REMEDY) from error
    found = []
    for name, (whole, code) in made.items():
        path = package / name
        source = path.read_bytes() if path.exists() else b""
        if digest(source) != whole and code_digest(source, path.suffix) != code:
            found.append(name)
    return found


@cache
def check_built() -> None:
    """SpecError: the compiled simulator was made from other code than that of the sources."""
    if found := changed():
        names = ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")
        raise SpecError(f"the compiled simulator was made before {names} was changed", remedy=REMEDY)
