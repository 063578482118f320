"""The exceptions that penstock raises on purpose.

    PenstockError
     +-- SpecError         bad input: a value, a file, a name, an option           exit status 2
     |    +-- SchemeError  a scheme file or a composition of schemes is not usable  exit status 2
     +-- ClaimFailed       a reproduced figure does not show what the paper claims  exit status 1
     +-- InvariantError    a law was broken during a run (a bug of ours or of a scheme)  exit status 1

Every message names the value, the rule it breaks and the remedy, in one or two lines.
"""

import difflib
from collections.abc import Iterable


class PenstockError(Exception):
    """Base of all; `exit_status` is what the command line returns."""

    exit_status = 1


class SpecError(PenstockError):
    """Bad input."""

    exit_status = 2


class SchemeError(SpecError):
    """A scheme file or a composition of schemes is not usable."""


class ClaimFailed(PenstockError):
    """A reproduced figure does not show what the paper claims."""


class InvariantError(PenstockError):
    """A law was broken during a run: bytes lost without a reason, a negative counter, a drop under a lossless scheme."""


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean "x"?` or the list of known names, to end a message with."""
    names = sorted(str(k) for k in known)
    close = difflib.get_close_matches(str(name), names, n=1, cutoff=0.6)
    if close:
        return f'; did you mean "{close[0]}"?'
    return f"; known: {', '.join(names)}" if names else ""
