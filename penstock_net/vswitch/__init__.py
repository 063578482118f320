"""The real switch: in userspace, over shared memory, with a queue per flow.  Its folders memory, ports, dataplane, schemes and
loadgen are compiled and, unlike the simulator's core, do not run as plain Python."""

from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec

from penstock_net.errors import Unavailable

_rings = find_spec("penstock_net.vswitch.memory.rings")
if _rings is None or not str(_rings.origin).endswith(tuple(EXTENSION_SUFFIXES)):
    raise Unavailable(
        "the real switch is not part of this installation: it is built on Linux, where the compiler finds the kernel's headers; "
        "install penstock-net there, without PENSTOCK_VSWITCH=0"
    )
