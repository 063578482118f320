"""The hardware model of BFC in the set-up of the testbed (figures 7 and 8), and the memory that BFC's state takes on a switch.

The `bfc_tofino2` of docs/schemes.md as it is declared; `IDEAL` is without what restricts it. State by sections 3.3 and 4: an
entry of the flow table is a queue's number (1 B), a count (2 B) and a time (2 B); a pause counter has 2 B.
"""

from typing import Any

import penstock_net as ps

TOFINO2: dict[str, Any] = {"name": "bfc_tofino2"}
IDEAL: dict[str, Any] = {"name": "bfc_tofino2:ideal"}
ENTRY_BYTES, COUNTER_BYTES = 5, 2


def state(ports: int, queues: int, upstream_queues: int = 0) -> dict[str, float]:
    """Entries and bytes of a switch's flow table and pause counters; `upstream_queues`: of each neighbour, 0: as many."""
    entries = ports * queues * ps.scheme("bfc_tofino2").values("bfc_tofino2")["table"]
    counters = ports * (upstream_queues or queues)
    return {
        "entries": entries,
        "entry bytes": entries * ENTRY_BYTES,
        "counters": counters,
        "counter bytes": counters * COUNTER_BYTES,
    }
