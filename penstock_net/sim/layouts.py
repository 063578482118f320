"""Layouts of the core's memory for Python, from the .pxd files of fabric: numpy types of rows; error and drop-reason numbers."""

from functools import cache

import numpy as np

from penstock_net import pxd

CONSTANTS = pxd.read("fabric/constants.pxd").constants
STATE = pxd.read("fabric/state.pxd")
ROWS = pxd.read("fabric/rows.pxd")
LEVELS = CONSTANTS["LEVELS"]
QUEUED = CONSTANTS["QUEUED"]
TOO_MANY_FLOWS = CONSTANTS["TOO_MANY_FLOWS"]
SCHEME_FAULT = CONSTANTS["SCHEME_FAULT"]

SWITCH_DOWN = "switch down"
NO_ROUTE = "no route"
_NO_SUCH = {
    "queue": "queue",
    "port": "port",
    "voq": "virtual output queue",
    "path": "path",
    "packet": "packet",
    "backlog": "backlogged queue",
}
_DROPS = {
    "buffer": "buffer full",
    "admission": "refused by the scheme",
    "loss": "link loss",
    "down": "link down",
    "no_route": NO_ROUTE,
    "switch": SWITCH_DOWN,
    "headroom": "headroom pool full",
}
REFUSED = tuple(_DROPS[name] for name in ("buffer", "admission", "headroom"))  # for lack of room, or by a scheme


@cache
def row_type(struct: str) -> np.dtype:
    """The numpy type of a struct of integers, such as "PortRow" or "Start", as the C compiler lays it out."""
    return np.dtype((ROWS if struct in ROWS.structs else STATE).dtype(struct), align=True)


def log_type(log: str) -> np.dtype:
    """The type of a row of one of the core's logs: switch, port, queue, flow, pause, trace, count, record or print."""
    return row_type(f"{log.capitalize()}Row")


def _numbered(prefix: str) -> dict[str, int]:
    """The values of an enum by name, without the one that counts them."""
    return {name: value for name, value in pxd.enum("fabric/constants.pxd", prefix).items() if name != "reasons"}


NO_SUCH = {number: _NO_SUCH[name] for name, number in _numbered("NO_SUCH_").items()}  # error -> kind of what is missing
DROPS = tuple(_DROPS[name] for name in _numbered("DROP_"))  # why packets are lost, in the order of the core's counters
EVENTS = tuple(_numbered("EVENT_"))  # of the packet trace
