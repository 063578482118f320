"""Arrays on their way to another process: their bytes, one after another in a memfd, and a directory that JSON can hold."""

from typing import Any

import numpy as np

from penstock_net.vswitch.world import mmap, os

ALIGNMENT = 64


class Blocks:
    """Arrays by name."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}

    def add(self, name: str, array: np.ndarray) -> None:
        self.arrays[name] = np.ascontiguousarray(array)

    def write(self) -> tuple[int, dict[str, Any]]:
        """A memfd with all of them, and its directory."""
        types: dict[np.dtype, int] = {}
        places, at = {}, 0
        for name, array in self.arrays.items():
            places[name] = [types.setdefault(array.dtype, len(types)), len(array), at]
            at += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
        fd = os.memfd_create("penstock-state", os.MFD_CLOEXEC)
        os.ftruncate(fd, max(at, 1))
        with mmap.mmap(fd, max(at, 1)) as room:
            for name, array in self.arrays.items():
                start = places[name][2]
                room[start : start + array.nbytes] = array.tobytes()
        return fd, {"types": [_described(kind) for kind in types], "places": places}


def read(fd: int, directory: dict[str, Any]) -> dict[str, np.ndarray]:
    """The arrays that were written."""
    room = mmap.mmap(fd, os.fstat(fd).st_size, prot=mmap.PROT_READ)
    types = [_type_of(kind) for kind in directory["types"]]
    return {name: np.frombuffer(room, types[kind], count, at) for name, (kind, count, at) in directory["places"].items()}


def _described(kind: np.dtype) -> Any:
    """A type as JSON can hold it: the name of a number's, or [name, type, shape] of each field."""
    if kind.names is None:
        return kind.str
    found = []
    for name in kind.names:
        base, shape = kind[name].subdtype or (kind[name], ())
        found.append([name, _described(base), list(shape)])
    return found


def _type_of(found: Any) -> np.dtype:
    if isinstance(found, str):
        return np.dtype(found)
    return np.dtype([(name, _type_of(kind), tuple(shape)) for name, kind, shape in found])
