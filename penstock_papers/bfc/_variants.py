"""The variant of each scheme that a figure shows and that its claims judge; others only beside it, as (ours). The one place.

The paper has two implementations of BFC, and a figure has that of the one that made it. BFC is a [[scheme]] table; which empty
queue a new flow gets is `assignment` (docs/schemes.md lists the readings of the paper).

* HARDWARE, Tofino2, figures 7 and 8: `rotating`, by section 4, "with a different rotating starting point per pipeline to avoid
  new flows from being assigned to the same empty queue". With the first empty queue, two flows at line rate share a queue while
  others are free, which contradicts these figures. `IMPLEMENTED` names the figures.
* NS3, section 6.2, "We also implemented BFC in ns-3", all other figures. No code of it is public, and section 3.3.1 has "an empty
  queue" and "a random queue" only, so its queue is an unknown of the paper: ASSIGNMENTS and `if_full` make the candidates. Of
  those that the paper's words do not contradict figure 9 chooses `reserved`, and where none is free a random one that can send
  (docs/differences.md, bfc-fig09).

What a load of X % refers to is an unknown, too: LOAD, see `_fabric`. Figures 9 to 12 have that of the text beside it.

HPCC is that of the authors' simulator, with which they made the figures: maxStage 0 and telemetry of 42 B, where section 6.2.1
has "maxStage=5" and section 6.3 80 B per packet. docs/differences.md (bfc/fig09 to fig12) has HPCC with maxStage 5 beside it.

DCQCN is the candidate that table 1 chooses, see `_dcqcn`: that of its own paper, with a window. Figure 10 and table 1 have it
without one beside it.

ExpressPass is the code that section 6.2.1 names, which the authors have published, see `_without_pfc`.
"""

from typing import Any

ASSIGNMENTS = ("literal", "unpaused", "rotating", "rotating_unpaused", "reserved")
HARDWARE: dict[str, Any] = {"name": "bfc", "assignment": "rotating"}
HARDWARE_BESIDE: dict[str, Any] = {"name": "bfc", "assignment": "unpaused"}
NS3: dict[str, Any] = {"name": "bfc", "assignment": "reserved", "if_full": "unpaused"}
NS3_QUEUES = {key: value for key, value in NS3.items() if key != "name"}  # of `dqa`
NS3_BESIDE: dict[str, Any] = {"name": "bfc", "assignment": "unpaused"}  # in table 1
CORE, UPLINKS = "core", "uplinks"
LOAD, LOAD_BESIDE = UPLINKS, CORE
VARIANTS: dict[str, Any] = {
    "bfc": NS3,
    "hpcc": "hpcc:bfc",
    "dctcp": "dctcp:bfc",
    "dcqcn": "dcqcn:bfc",
    "expresspass": "expresspass:bfc",
}
VARIANTS_REASON = "queues as figure 9 chooses them; rivals with the parameters of the authors' simulator"
IMPLEMENTED: dict[str, dict[str, Any]] = {figure: {"bfc": HARDWARE} for figure in ("fig07", "fig08")}
