"""The compiled core as plain Python: objects instead of structs, types read from the .pxd files, every index and integer checked.

    python -m penstock_net.testing.cases CASE.json --interpreted  # the digest of a tiny case, to compare with the compiled core's

Thousands of times slower than the compiled core; it is for that comparison and for debugging a scheme, since an error in it
gives an ordinary traceback.

    finder    imports the core's modules from their .py, and makes modules of what only a .pxd declares
    structs   a class for each struct, with zeroed fields and checked integers
    schemes   a scheme file as a module
    pointers  the functions of sim/core/pointers.pxd
"""

from penstock_net.sim.interpreted.finder import install
from penstock_net.sim.interpreted.schemes import Left

__all__ = ["Left", "install"]
