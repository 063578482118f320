"""What kind of statement a claim is, from its band and the paper's words: how much of it can be right by chance.

* direction  an order, a condition, or a factor above or below 1 of which the paper gives no amount
* bound      zero, a count, or a limit that the paper names
* word       "slightly", "close", "tracks": what a word of the paper means as a factor
* number     a number of the paper, half to double or closer
* range      a range that the paper names, such as 5-30x
"""

import re
from collections.abc import Mapping
from typing import Any

from penstock_papers.claims import MORE

FORMS = ("direction", "bound", "word", "number", "range")


def form(claim: Mapping[str, Any]) -> str:
    """The kind of a claim, as a record has it."""
    low, high, why = claim["low"], claim["high"], claim["why"]
    if low is None and high is None:
        return "direction"
    if low == high:
        return "bound"
    if why.startswith('"'):  # a word of claims.WORDS
        return "word"
    numbers = [float(text.replace(",", "")) for text in re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?", claim["paper"])]
    if low is None or high is None:
        if why.endswith(MORE) and (high if low is None else low) in (0, 1):
            return "direction"
        return "bound" if numbers else "word"
    if re.match(r"(in )?the range", why) or {low, high} <= set(numbers):
        return "range"
    if why.startswith("half and double") or "of the paper's number" in why or any(low <= number <= high for number in numbers):
        return "number"
    return "word"
