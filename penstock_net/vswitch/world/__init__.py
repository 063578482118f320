"""All that the switch asks of the world: the clock, the kernel, other processes, files. `contract.py` says what that is.

    from penstock_net.vswitch.world import os, socket, time

These names have what the standard modules have, as far as the contract lists it, from the world that was chosen last: the kernel,
unless `use` says otherwise. A module is imported when it is first taken. Compiled code asks through `calls/table.pxd`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock_net.vswitch.world.contract import ASKED, COMPUTED, World, asked
from penstock_net.vswitch.world.kept import forget


class Kernel:
    """The real world: the standard modules as they are."""

    calls = None

    def part(self, name: str) -> Any:
        """The standard module."""
        return import_module(name)


KERNEL = Kernel()
_chosen: World = KERNEL


class Part:
    """A standard module as the switch sees it; a name is looked up once, until another world is chosen."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        part = self.__name__
        if name in asked(part):
            found = getattr(_chosen.part(part), name)
        elif name.isupper() or name in COMPUTED.get(part, ()):
            found = getattr(import_module(part), name)
        else:
            raise AttributeError(f"{part}.{name} is not part of the contract (vswitch/world/contract.py)")
        self.__dict__[name] = found
        return found


def chosen() -> World:
    """The world that is asked."""
    return _chosen


def use(world: World) -> None:
    """Ask this world from now on; no other thread may run meanwhile."""
    global _chosen
    from penstock_net.vswitch.world.calls import table  # only where the switch is built

    _chosen = world
    for name in ASKED.keys() & globals().keys():
        part = globals()[name]
        part.__dict__.clear()
        part.__name__ = name
    forget()
    table.use(world.calls)


if TYPE_CHECKING:
    import asyncio as asyncio
    import ctypes as ctypes
    import fcntl as fcntl
    import grp as grp
    import io as io
    import mmap as mmap
    import os as os
    import pathlib as pathlib
    import pwd as pwd
    import queue as queue
    import resource as resource
    import select as select
    import shutil as shutil
    import socket as socket
    import subprocess as subprocess
    import threading as threading
    import time as time
else:

    def __getattr__(name: str) -> Part:
        """A part that is taken for the first time: its module is imported now, while this process may still read it."""
        if name not in ASKED:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import_module(name)
        part: Part = globals().setdefault(name, Part(name))
        return part
