"""Address plugins such as host-local, which assign the addresses: each is a program that is called as this one is."""

import json
from collections.abc import Mapping
from typing import Any

from penstock_net.vswitch.cni.spec import ENVIRONMENT, INPUT_OUTPUT, UNREADABLE, CniError, Request
from penstock_net.vswitch.world import os


def call(request: Request, environment: Mapping[str, str], command: str = "") -> dict[str, Any]:
    """Call the network's address plugin with a command, that of the request by default; its result.  CniError: as it reports."""
    kind = request.config["ipam"]["type"]
    program = find(kind, request.path)
    status, out = _run(program, request.data, {**environment, "CNI_COMMAND": command or request.command})
    try:
        found = json.loads(out) if out.strip() else {}
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise CniError(UNREADABLE, f"{program}: its answer is not an object of JSON", out[:200].decode(errors="replace"))
    if status:
        code = found.get("code")
        text = f"{kind}: {found.get('msg') or f'exit status {status}'}"
        raise CniError(code if isinstance(code, int) else INPUT_OUTPUT, text, str(found.get("details") or ""))
    return found


def find(kind: str, path: list[str]) -> str:
    """The program of a plugin.  CniError: it is in none of these folders."""
    for folder in path:
        program = os.path.join(folder, kind)
        if folder and os.path.isfile(program) and os.access(program, os.X_OK):
            return program
    raise CniError(ENVIRONMENT, f"CNI_PATH: there is no plugin {kind!r} in {os.pathsep.join(path)}")


def _run(program: str, data: bytes, environment: Mapping[str, str]) -> tuple[int, bytes]:
    """Exit status and output of a program that reads `data`.  (To import `subprocess` takes as long as to run the program.)"""
    given, out = (os.memfd_create(name, os.MFD_CLOEXEC) for name in ("in", "out"))
    try:
        os.pwrite(given, data, 0)
        ends = [(os.POSIX_SPAWN_DUP2, given, 0), (os.POSIX_SPAWN_DUP2, out, 1)]
        try:
            child = os.posix_spawn(program, [program], environment, file_actions=ends)
        except OSError as error:
            raise CniError(INPUT_OUTPUT, f"{program}: cannot be run ({error.strerror})") from None
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return status, os.pread(out, os.fstat(out).st_size, 0)
    finally:
        os.close(given)
        os.close(out)
