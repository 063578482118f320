"""Files of the simulated kernel that are no sockets, devices or namespaces: small ones, in folders; all belong to the user."""

import errno
import io
import os
import posixpath
import stat
from types import SimpleNamespace
from typing import Any, NoReturn

from penstock_net.vswitch.world.simulated.descriptors import refused


def status(kind: int, number: int = 1, mode: int = 0o755, size: int = 0) -> Any:
    """What os.stat says."""
    return SimpleNamespace(st_mode=kind | mode, st_dev=1, st_ino=number, st_uid=0, st_size=size)


def _missing(path: Any) -> NoReturn:
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


class Files:
    """Folders, and what files have in them; the folder in which a folder is made need not be known."""

    def __init__(self) -> None:
        self.folders: dict[str, int] = {}  # permissions, by path
        self.texts: dict[str, str] = {}

    def __contains__(self, path: Any) -> bool:
        return os.fspath(path) in self.texts or os.fspath(path) in self.folders

    def _in_folder(self, path: Any) -> str:
        """FileNotFoundError: there is no such folder."""
        text = os.fspath(path)
        if posixpath.dirname(text) not in self.folders:
            _missing(path)
        return text

    def make_folder(self, path: Any, mode: int = 0o777) -> None:
        if path in self:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        self.folders[os.fspath(path)] = mode & ~0o022

    def listed(self, path: Any) -> list[str]:
        if os.fspath(path) not in self.folders:
            _missing(path)
        return [posixpath.basename(each) for each in self.texts if posixpath.dirname(each) == os.fspath(path)]

    def status(self, path: Any) -> Any:
        text = os.fspath(path)
        if text in self.folders:
            return status(stat.S_IFDIR, 1, self.folders[text])
        return status(stat.S_IFREG, 1, 0o644, len(self.texts[text].encode()))

    def open(self, path: Any, mode: str = "r") -> io.StringIO:
        """Text that is read, or that is in the file when it is closed."""
        text = self._in_folder(path)
        if mode == "w":
            self.texts[text] = ""
            return _Written(self.texts, text)
        if text not in self.texts:
            _missing(path)
        return io.StringIO(self.texts[text])

    def replace(self, path: Any, name: Any) -> None:
        if os.fspath(path) not in self.texts:
            _missing(path)
        to = self._in_folder(name)
        self.texts[to] = self.texts.pop(os.fspath(path))

    def unlink(self, path: Any) -> None:
        if os.fspath(path) in self.folders:
            raise refused(errno.EISDIR)
        if os.fspath(path) not in self.texts:
            _missing(path)
        del self.texts[os.fspath(path)]


class _Written(io.StringIO):
    """A file that is written."""

    def __init__(self, texts: dict[str, str], path: str) -> None:
        super().__init__()
        self.texts, self.path = texts, path

    def close(self) -> None:
        if not self.closed:
            self.texts[self.path] = self.getvalue()
        super().close()
