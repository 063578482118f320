"""Programs that the switch starts: processes of those that the world was given."""

import errno
import math
import os
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock_net.vswitch.world.simulated.kernel import Simulated


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
