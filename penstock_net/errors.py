"""The exceptions that penstock raises on purpose.

    PenstockError
     +-- SpecError         bad input: a value, a file, a name, an option             exit status 2
     |    +-- SchemeError  a scheme file or a composition of schemes is not usable   exit status 2
     +-- Unavailable       a part of penstock that this installation does not have   exit status 2
     +-- ClaimFailed       a reproduced figure does not show what the paper claims   exit status 1
     +-- InvariantError    an invariant was violated during a run (a bug of ours or of a scheme)  exit status 1

A SpecError is data: what was given and where, the rule it breaks, the remedy. Its text is one or two lines made of them:

    my.toml:12: workload.0.load = 2: must be between 0 and 1; nearest: 1
"""

import difflib
import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock_net.results.run import Run

ABSENT: Any = object()  # the value of an error that is not about a value
_LONGEST = 80  # characters of a value in a message


class PenstockError(Exception):
    """Base of all; `exit_status` is what the command line returns."""

    exit_status = 1


class SpecError(PenstockError):
    """Bad input.

    rule    what is wrong, or what must be: "must be a whole number"
    path    the key in question, with dots: "workload.0.load"; "" if there is none
    value   what was given there; ABSENT if the error is not about a value
    remedy  what to do: 'did you mean "load"?'; "" if the rule says it
    place   where it was given: "my.toml:12", "--set run.seed=x", the file being read; "" if not known

    Whoever catches it on the way out and knows more completes it with `within`. A single text is a rule.
    """

    exit_status = 2

    def __init__(self, rule: str, *, path: str = "", value: Any = ABSENT, remedy: str = "", place: object = "") -> None:
        super().__init__(rule)
        self.rule, self.path, self.value, self.remedy, self.place = rule, path, value, remedy, str(place)

    def __str__(self) -> str:
        subject = self.path if self.path.isprintable() else shown(self.path)
        if self.value is not ABSENT:
            subject = f"{subject} = {shown(self.value)}" if subject else shown(self.value)
        text = ": ".join(part for part in (self.place, subject, self.rule) if part)
        return f"{text}; {self.remedy}" if self.remedy else text

    def __reduce__(self) -> tuple[Any, ...]:
        """ABSENT is told by identity, which a pickle would lose; it becomes the default again."""
        return type(self), (self.rule,), {k: v for k, v in vars(self).items() if v is not ABSENT}

    def within(self, path: str = "", place: object = "") -> "SpecError":
        """Itself, with its key below `path`, at `place`; one that has a place stays as it is, its key is of that place."""
        if not self.place:
            self.path = ".".join(part for part in (path, self.path) if part)
            self.place = str(place)
        return self


class SchemeError(SpecError):
    """A scheme file or a composition of schemes is not usable."""


class Unavailable(PenstockError, ImportError):
    """A part of penstock that this installation does not have."""

    exit_status = 2


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while `simulate` ran, which is no error: a loop over runs ends, as with any KeyboardInterrupt.

    run    the Run with the results up to then
    """

    def __init__(self, run: "Run") -> None:
        remedy = 'the results so far are in this exception\'s `run`; on_interrupt = "return" returns them'
        super().__init__(f"{run.label}: {run.interruption}; {remedy}")
        self.run = run


class ClaimFailed(PenstockError):
    """A reproduced figure does not show what the paper claims."""


class InvariantError(PenstockError):
    """An invariant was violated during a run: bytes lost without a reason, a negative counter, a drop under a lossless scheme."""


def shown(value: Any) -> str:
    """A value as TOML would write it, on one line and not too long."""
    if isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, str):
        text = json.dumps(value[:_LONGEST], ensure_ascii=not value.isprintable())
    elif isinstance(value, list):
        text = f"[{', '.join(shown(item) for item in value[:_LONGEST])}]"
    elif isinstance(value, dict):
        pairs = list(value.items())[:_LONGEST]
        text = f"{{{', '.join(f'{_key(key)} = {shown(item)}' for key, item in pairs)}}}"
    else:
        try:
            text = " ".join(str(value).split())
        except ValueError:  # whole numbers of more than 4300 digits
            text = "a very large number"
    return text if len(text) <= _LONGEST + 2 else f"{text[:_LONGEST]}..."


def _key(key: Any) -> str:
    text = str(key)
    return text if re.fullmatch(r"[\w-]{1,80}", text, re.ASCII) else shown(text)


def closest(name: Any, known: Iterable[Any]) -> str:
    """A remedy: `did you mean "x"?`, or "" if nothing known is like `name`."""
    if not isinstance(name, str):
        return ""
    names = {str(k).lower(): str(k) for k in sorted(map(str, known), reverse=True)}
    close = difflib.get_close_matches(name[:_LONGEST].lower(), sorted(names), n=1, cutoff=0.6)
    return f'did you mean "{names[close[0]]}"?' if close else ""


def nearest(name: Any, known: Iterable[Any]) -> str:
    """A remedy: what `closest` says, else the list of known names; "" if there are none."""
    names = sorted(str(k) for k in known)
    return closest(name, names) or (f"known: {', '.join(names)}" if names else "")
