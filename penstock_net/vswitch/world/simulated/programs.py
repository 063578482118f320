"""Programs that the switch starts: `ip`, links and addresses, one request a line; and those that the world was given."""

import errno
import ipaddress
import math
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from penstock_net.vswitch.world.simulated.links import Link

if TYPE_CHECKING:
    from penstock_net.vswitch.world.simulated.kernel import Simulated


class Failed(Exception):
    """What `ip` prints as its error."""


def run(world: "Simulated", command: list[str], **options: Any) -> "subprocess.CompletedProcess[str]":
    """subprocess.run."""
    lines = [command[1:]]
    if command[1:2] == ["-batch"]:
        lines = [line.split() for line in options["input"].splitlines()]
    try:
        for line in lines:
            if line:
                _do(world, line)
    except Failed as error:
        return subprocess.CompletedProcess(command, 1, "", f"{error}\n")
    return subprocess.CompletedProcess(command, 0, "", "")


def _do(world: "Simulated", words: list[str]) -> None:
    """Failed: as `ip` says it."""
    match words:
        case ["link", "set", name, *changes]:
            _set(_named(world, name), changes)
        case ["address", "replace", text, "dev", name, *_]:
            found = ipaddress.ip_interface(text)
            _named(world, name).add_address(found.ip.packed, found.network.prefixlen)
        case ["address", "del", text, "dev", name]:
            if not _named(world, name).remove_address(ipaddress.ip_interface(text).ip.packed):
                raise Failed("RTNETLINK answers: Cannot assign requested address")
        case ["route", "replace", _, "dev", name]:
            _named(world, name)
        case _:
            raise Failed(f"not simulated: {' '.join(words)}")


def _named(world: "Simulated", name: str) -> Link:
    link = world.here.named(name)
    if link is None:
        raise Failed(f'Cannot find device "{name}"')
    return link


def _set(link: Link, words: list[str]) -> None:
    """The kernel takes all changes of a line as one request; the state of an interface is the last of them."""
    given = dict(zip(words[::2], words[1::2]))
    if "mtu" in given:
        link.mtu = int(given["mtu"])
        link.change()
    if "txqueuelen" in given:
        link.set_queue(int(given["txqueuelen"]))
    if "address" in given:
        link.set_mac(bytes.fromhex(given["address"].replace(":", "")))
    if words[-1] in ("up", "down"):
        link.set_up(words[-1] == "up")


# ---- Programs of the world ----


class Environment(MutableMapping[str, str]):
    """os.environ of the process that asks."""

    def __init__(self, world: "Simulated") -> None:
        self.world = world

    @property
    def own(self) -> dict[str, str]:
        return self.world.tasks.processes[self.world.tasks.current.pid].environment

    def __getitem__(self, name: str) -> str:
        return self.own[name]

    def __setitem__(self, name: str, value: str) -> None:
        self.own[name] = value

    def __delitem__(self, name: str) -> None:
        del self.own[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.own)

    def __len__(self) -> int:
        return len(self.own)


class Started:
    """subprocess.Popen: a process of `Simulated.programs`, with the descriptors that are passed to it."""

    def __init__(
        self, world: "Simulated", command: list[str], env: Mapping[str, str] | None = None, pass_fds: Iterable[int] = ()
    ) -> None:
        if command[0] not in world.programs:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command[0])
        self.world, tasks = world, world.tasks
        environment = tasks.processes[tasks.current.pid].environment if env is None else env
        self.pid = tasks.hold(tasks.current.space)
        self.process = tasks.processes[self.pid]
        self.process.environment = dict(environment)
        for fd in pass_fds:
            world.table.inherit(fd, self.pid)
        tasks.start(command[0], world.programs[command[0]], self.pid)

    def kill(self) -> None:
        if not self.process.ended_:
            self.world.tasks.stop(self.pid, -9)

    def wait(self) -> int:
        self.world.wait_unless(math.inf, lambda: self.process.ended_, [self.process])
        return self.process.status
