"""Layouts of the core's memory for Python, read from fabric/state.pxd: numpy types of rows, error and drop-reason numbers."""

from functools import cache

import numpy as np

from penstock import pxd

STATE = pxd.read("fabric/state.pxd")
LEVELS = STATE.constants["LEVELS"]
TOO_MANY_FLOWS = STATE.constants["TOO_MANY_FLOWS"]

SWITCH_DOWN = "switch down"
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
    "no_route": "no route",
    "switch": SWITCH_DOWN,
}


@cache
def row_type(struct: str) -> np.dtype:
    """The numpy type of a struct of integers of fabric/state.pxd, such as "PortRow", as the C compiler lays it out."""
    return np.dtype(STATE.dtype(struct), align=True)


def log_type(log: str) -> np.dtype:
    """The type of a row of one of the core's logs: switch, port, queue, flow, pause or trace."""
    return row_type(f"{log.capitalize()}Row")


def _numbered(prefix: str) -> dict[str, int]:
    """The values of an enum by name, without the one that counts them."""
    return {name: value for name, value in pxd.enum("fabric/state.pxd", prefix).items() if name != "reasons"}


NO_SUCH = {number: _NO_SUCH[name] for name, number in _numbered("NO_SUCH_").items()}  # error -> kind of what is missing
DROPS = tuple(_DROPS[name] for name in _numbered("DROP_"))  # why packets are lost, in the order of the core's counters
EVENTS = tuple(_numbered("EVENT_"))  # of the packet trace
