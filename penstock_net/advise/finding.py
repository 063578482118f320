"""A finding: what is wrong in a configuration, where, and what to do."""

from __future__ import annotations

from dataclasses import dataclass

SEVERITIES = ("error", "warning")


@dataclass(frozen=True)
class Finding:
    """severity  "error": packets can be lost, or the switch refuses it; "warning": it does not do what it seems to
    check     the name of the check      place  "TABLE|ROW FIELD"
    """

    severity: str
    check: str
    place: str
    text: str
    remedy: str = ""
