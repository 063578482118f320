"""How many examples a test of hypothesis draws: half of what it says in ./test, and twice as many in ./test --all."""

import os
from typing import Any

from hypothesis import settings

SHARE = float(os.environ.get("PENSTOCK_EXAMPLES", "0.5"))


def number(count: int) -> int:
    """So many in a run, of which a test says `count`."""
    return max(1, round(count * SHARE))


def examples(count: int, **more: Any) -> settings:
    """The settings of a test, above it; `more`: other settings."""
    return settings(max_examples=number(count), **more)
