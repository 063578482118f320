"""Names of platforms as people and SONiC write them: in any case, hyphens or not, with a vendor's prefixes and suffixes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from penstock_net.errors import SpecError, closest

PLATFORMS = "penstock advise --platforms"


def meant(text: str, names: Iterable[str]) -> str | None:
    """The longest of some names that a text contains as whole words: "Arista-7260CX3-D108C8" has "7260CX3"; None: none."""
    words = re.findall("[a-z0-9]+", text.lower()[:400])
    runs = {"".join(words[i:j]) for i in range(len(words)) for j in range(i + 1, min(i + 8, len(words)) + 1)}
    return max((name for name in names if squeezed(name) in runs), key=lambda name: len(squeezed(name)), default=None)


def squeezed(name: str) -> str:
    """A name without what people write in different ways."""
    return re.sub("[^a-z0-9]", "", name.lower())


def no_platform(text: Any, names: Iterable[str], chips: Mapping[str, Iterable[str]]) -> SpecError:
    """The error for a text that names none; chips: the platforms with each, by the name of the chip."""
    known = sorted(names)
    plain = re.sub(r"^th(?=\d+$)", "tomahawk", squeezed(str(text)))
    for chip, having in chips.items():
        if squeezed(chip) == plain:
            rule = "is a chip, and platforms with it differ"
            return SpecError(rule, path="platform", value=text, remedy=f"name one: {', '.join(sorted(having))}")
    remedy = closest(text, known) or f"known: {', '.join(sorted({name for having in chips.values() for name in having}))}"
    return SpecError("no such platform", path="platform", value=text, remedy=f"{remedy}; {PLATFORMS} lists all")
