"""The variant of each scheme that all figures of the paper show and that its claims judge; others only beside it, as (ours).

BFC is a [[scheme]] table. Which empty queue a new flow gets is `assignment` (docs/schemes.md lists the readings of the paper):
`rotating` is section 4, "with a different rotating starting point per pipeline to avoid new flows from being assigned to the same
empty queue", the only sentence of the paper on it. With the first empty queue, two flows at line rate share a queue while others
are free, which contradicts figures 7 and 8.

HPCC is that of the authors' simulator, with which they made the figures: maxStage 0 and telemetry of 42 B, where section 6.2.1
has "maxStage=5" and section 6.3 80 B per packet. docs/differences.md (bfc/fig09 to fig12) has HPCC with maxStage 5 beside it.

ExpressPass is the code that section 6.2.1 names, which the authors have published, see `_without_pfc`.
"""

from typing import Any

BFC: dict[str, Any] = {"name": "bfc", "assignment": "rotating"}
BESIDE: dict[str, Any] = {"name": "bfc", "assignment": "unpaused"}  # in the small set-ups: figures 7 and 8, table 1
VARIANTS: dict[str, Any] = {
    "bfc": BFC,
    "hpcc": "hpcc:bfc",
    "dctcp": "dctcp:bfc",
    "dcqcn": "dcqcn",
    "expresspass": "expresspass:bfc",
}
VARIANTS_REASON = "queues by the rotating start of section 4; rivals with the parameters of the authors' simulator"
