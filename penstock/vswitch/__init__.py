"""The real switch: in userspace, over shared memory, with a queue per flow.  Its folders memory, ports, dataplane, schemes and
loadgen are compiled and, unlike the simulator's core, do not run as plain Python."""

from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec

_rings = find_spec("penstock.vswitch.memory.rings")
if _rings is None or not str(_rings.origin).endswith(tuple(EXTENSION_SUFFIXES)):
    raise ImportError("penstock.vswitch works compiled only: run python setup.py build_ext --inplace")
