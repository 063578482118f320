"""Network namespaces of the simulated kernel: their names, the files by which they are opened, and when one dies.

A namespace lives as long as something keeps it: a name, a process or thread in it, a descriptor of it, a socket or a TAP that was
opened in it. Then its interfaces are deleted, a while later, and its number is used again.
"""

import errno
import os
import pathlib
import posixpath
import re
import select
import stat
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from penstock_net.vswitch.world.simulated import files
from penstock_net.vswitch.world.simulated.descriptors import File, refused
from penstock_net.vswitch.world.simulated.links import Link, Space

if TYPE_CHECKING:
    from penstock_net.vswitch.world.simulated.kernel import Simulated

FIRST_NUMBER = 4_026_531_840
FOLDER, MOUNTS = "/run/netns", "/proc/self/mountinfo"
NEW_NAMESPACE, GET_KIND = 0x40000000, 0xB703
LONGEST_DEATH_NS = 5_000_000  # from the last that kept it


class Opened(File):
    """A descriptor of a namespace."""

    def __init__(self, space: Space) -> None:
        super().__init__()
        self.space = space


class Mounts(File):
    """The table of mounts: who waits for it is told once after each change."""

    def __init__(self) -> None:
        super().__init__()
        self.changed = False

    def ready(self) -> int:
        return select.EPOLLIN | (select.EPOLLPRI | select.EPOLLERR if self.changed else 0)

    def told(self) -> None:
        self.changed = False


class Spaces:
    """All namespaces. The first one is that in which the world was made, and stays."""

    def __init__(self, world: "Simulated") -> None:
        self.world = world
        self.living: list[Space] = []
        self.names: dict[str, Space | None] = {}  # by path; None: a file on which nothing is mounted
        self.lost_in_classes = 0  # frames, in namespaces that are dead
        self.purged = 0  # frames in rings of interfaces of those that are dead: nobody counts them
        self.first = self.make()
        self.keep(self.first)

    def make(self) -> Space:
        """A namespace that nobody keeps yet."""
        world, number = self.world, FIRST_NUMBER
        while number in {each.number for each in self.living}:
            number += 1
        space = Space(lambda: b"\2" + world.random.randbytes(5), world.report, world.report_address)
        space.number, space.report_neighbour = number, world.report_neighbour
        self.living.append(space)
        return space

    def keep(self, space: Space) -> Space:
        space.keepers += 1
        return space

    def leave(self, space: Space) -> None:
        """One that kept it does so no longer."""
        space.keepers -= 1
        if not space.keepers:
            after = self.world.random.randrange(LONGEST_DEATH_NS)
            self.world.at(self.world.now + after, lambda: self._die(space))

    def _die(self, space: Space) -> None:
        for link in space:
            space.delete(link)
        self.purged += space.purged
        self.lost_in_classes += space.lost_in_classes
        self.living.remove(space)

    def links(self) -> Iterator[Link]:
        return (link for space in self.living for link in space)

    # ---- Names ----

    def name(self, name: str, space: Space | None) -> None:
        """As `ip netns add` does it in two steps: a file (None), on which a namespace is mounted then."""
        self.names[posixpath.join(FOLDER, name)] = space
        if space:
            self.keep(space)
            self._mounts_changed()

    def unname(self, name: str) -> None:
        """As `ip netns del`."""
        if space := self.names.pop(posixpath.join(FOLDER, name)):
            self._mounts_changed()
            self.leave(space)

    def named(self, name: str) -> Space | None:
        return self.names.get(posixpath.join(FOLDER, name))

    def _mounts_changed(self) -> None:
        for file in self.world.table.files.values():
            if isinstance(file, Mounts):
                file.changed = True
                file.happened(select.EPOLLPRI)

    # ---- Files ----

    def at(self, path: Any) -> Space | None:
        """The namespace that a path stands for; None: it is a file of another kind.  OSError: there is nothing."""
        text = os.fspath(path)
        if text == "/proc/thread-self/ns/net":
            return self.world.here
        found = re.fullmatch(r"/proc/(self|\d+)/ns/net", text)
        if found:
            number = self.world.tasks.current.pid if found[1] == "self" else int(found[1])
            process = self.world.tasks.processes.get(number)
            if process and not process.ended_:
                return process.space
        elif text in self.names:
            return self.names[text]
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), text)

    def status(self, path: Any) -> Any:
        """os.stat, of what is a namespace or a file on which none is mounted."""
        space = self.at(path)
        return status_of(space) if space else files.status(stat.S_IFREG)

    def open(self, path: Any) -> File:
        """OSError: there is nothing."""
        if path == MOUNTS:
            return Mounts()
        space = self.at(path)
        return kept_by(Opened(space), self.keep(space)) if space else File()

    def exists(self, path: Any) -> bool:
        try:
            self.at(path)
        except OSError:
            return False
        return True

    def kind(self, file: File) -> int:
        """The request for the kind of a namespace."""
        if not isinstance(file, Opened):
            raise refused(errno.ENOTTY)
        return NEW_NAMESPACE

    def enter(self, fd: int, kind: int) -> int:
        """setns of this thread; -1: refused."""
        file = self.world.table.files.get(fd)
        self.world.tasks.errno = errno.EBADF if file is None else errno.EINVAL
        if not isinstance(file, Opened) or kind not in (0, NEW_NAMESPACE):
            return -1
        task = self.world.tasks.current
        before, task.space = task.space, self.keep(file.space)
        if before:
            self.leave(before)
        return 0


def kept_by(file: File, space: Space) -> File:
    """Have a file keep a namespace, for which `keep` has been called, until its last descriptor is closed."""
    file.keeps = space
    return file


def status_of(space: Space) -> Any:
    return files.status(stat.S_IFREG, space.number)


def paths_of(spaces: Spaces) -> tuple[Any, Any]:
    """What takes the place of os.path and of pathlib.Path: of all files there are those of namespaces and processes."""

    class Path(pathlib.PurePosixPath):
        def read_text(self) -> str:
            if found := re.fullmatch(r"/proc/(\d+)/stat", str(self)):
                process = spaces.world.tasks.processes.get(int(found[1]))
                if process and not process.ended_:
                    return f"{found[1]} (program) S {' '.join(['0'] * 18)} {process.started} 0\n"
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))

        def glob(self, pattern: str) -> list["Path"]:
            return [Path(path) for path in spaces.names if path.startswith(f"{self}/")]

    known: dict[str, Callable[[Any], bool]] = {"exists": spaces.exists, "islink": lambda path: False}
    return SimpleNamespace(**{**vars(posixpath), **known}), Path
