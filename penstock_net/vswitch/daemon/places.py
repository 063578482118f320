"""Default path of a switch's control socket, and IDs of users and groups.

The default is in a folder that only root and the user itself can write to, so that no other user can listen there:
/run/penstock for root, $XDG_RUNTIME_DIR or /run/user/UID for others, and without either a private folder below /tmp.
"""

import contextlib
import stat
from collections.abc import Iterator

from penstock_net.errors import SpecError
from penstock_net.vswitch.world import fcntl, grp, os, pathlib, pwd, time

ROOTS_FOLDER = pathlib.PurePosixPath("/run/penstock")


def runtime_folder() -> pathlib.Path:
    """The folder of the default socket; it may not exist yet."""
    uid = os.geteuid()
    if uid == 0:
        return pathlib.Path(ROOTS_FOLDER)
    if given := os.environ.get("XDG_RUNTIME_DIR"):
        return pathlib.Path(given)
    run = pathlib.Path(f"/run/user/{uid}")
    return run if os.path.isdir(run) else pathlib.Path(f"/tmp/penstock-{uid}")


def default_socket() -> str:
    """The default path of a switch's socket.  SpecError: its folder is another user's, or others may write to it."""
    folder = runtime_folder()
    check_private(folder)
    return str(folder / ("vswitch.sock" if folder == ROOTS_FOLDER else f"penstock-vswitch-{os.geteuid()}.sock"))


def check_private(folder: pathlib.Path) -> None:
    """SpecError unless a folder, if it exists, belongs to this user and only this user may write to it."""
    try:
        found = folder.lstat() if folder.parent == pathlib.Path("/tmp") else folder.stat()  # in /tmp anybody can make a link
    except OSError:
        return
    remedy = "remove it, or give --socket" if folder.parent == pathlib.Path("/tmp") else "give --socket, or set XDG_RUNTIME_DIR"
    if not stat.S_ISDIR(found.st_mode):
        raise SpecError("is not a folder", remedy=remedy, place=folder)
    if found.st_uid != os.geteuid():
        raise SpecError(f"belongs to user {found.st_uid}", remedy=remedy, place=folder)
    if found.st_mode & 0o022:
        raise SpecError("may be written by other users", remedy=remedy, place=folder)


def is_made(path: str) -> bool:
    """Whether a switch creates the folder of this socket if it is missing: true of default sockets."""
    folder = runtime_folder()
    return pathlib.Path(path).parent == folder and folder in (ROOTS_FOLDER, pathlib.Path(f"/tmp/penstock-{os.geteuid()}"))


def make_folder(path: str) -> None:
    """Create the folder of the default socket, if `path` is the default; only its user can write to it."""
    if not is_made(path):
        return
    folder = runtime_folder()
    try:
        folder.mkdir(0o755 if folder == ROOTS_FOLDER else 0o700)
        folder.chmod(0o755 if folder == ROOTS_FOLDER else 0o700)  # whatever the umask is
    except FileExistsError:
        pass
    except OSError as error:
        raise SpecError(f"cannot be made ({error.strerror})", remedy="give --socket", place=folder) from None
    check_private(folder)


@contextlib.contextmanager
def alone_in(folder: pathlib.Path, wait_s: float = 2.0) -> Iterator[None]:
    """Hold the lock of a folder, if it can be opened.  SpecError: another process has held it for longer than `wait_s`."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, opened)
            until = time.monotonic() + wait_s
            while not _locked(opened):
                if time.monotonic() > until:
                    raise SpecError("another switch is starting there", remedy="try again", place=folder)
                time.sleep(0.01)
        yield


def _locked(opened: int) -> bool:
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def user_number(text: str, path: str = "--allow-uid") -> int:
    """The user ID of a name or number."""
    try:
        return int(text) if text.isdecimal() else pwd.getpwnam(text).pw_uid
    except KeyError:
        raise SpecError("there is no such user", path=path, value=text) from None


def group_number(name: str, path: str = "switch.group") -> int:
    """The group ID of a name."""
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise SpecError("there is no such group", path=path, value=name, remedy=f"groupadd {name}") from None
