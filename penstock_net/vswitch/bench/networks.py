"""The networks under comparison: namespaces with an interface `sw0` each, joined by the switch, a bridge, a veth pair, or OVS.

    with over_switch(["left", "right"]) as network:
        network["right"].start("iperf3", "-s")
        network["left"].run("iperf3", "-c", network.address("right"))

The switch is `penstock vswitch up` in a process of its own, with a port of kind tap for each namespace. The bridge is the
kernel's, with a veth pair to each namespace. Open vSwitch runs with its userspace datapath (`datapath_type=netdev`), whose ports
are TAPs, too. Everything is removed at the end of the `with`.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock_net.errors import PenstockError, SpecError
from penstock_net.vswitch.attach.lab import Namespace, veth
from penstock_net.vswitch.daemon import protocol

DEVICE, ECHO = "sw0", 9000
UP = [sys.executable, "-c", "import sys; from penstock_net.cli import main; sys.exit(main())", "vswitch", "up"]
TRAFFIC = [sys.executable, "-m", "penstock_net.vswitch.bench.traffic"]


@dataclass
class Network:
    """Namespaces by name, and the process that forwards between them (0: the kernel) with its socket."""

    spaces: dict[str, Namespace]
    pid: int = 0
    path: str = ""

    def __getitem__(self, name: str) -> Namespace:
        return self.spaces[name]

    def address(self, name: str) -> str:
        """Address of the interface in a namespace."""
        return f"10.98.0.{1 + list(self.spaces).index(name)}"

    def traffic(self, name: str, *words: object) -> "subprocess.Popen[str]":
        """Start a program of `bench.traffic` in a namespace; returns once it is ready."""
        program = self[name].start(*TRAFFIC, *(str(word) for word in words))
        wait_for(program, "ready")
        return program

    def received(self, name: str) -> int:
        """Packets that the interface in a namespace has received."""
        text = self[name].run("cat", "/proc/net/dev")
        line = next(line for line in text.splitlines() if line.strip().startswith(f"{DEVICE}:"))
        return int(line.split(":")[1].split()[1])

    def lost(self) -> int:
        """Frames lost by the switch, its devices and the sockets behind them; 0 for other networks, which do not count them."""
        if not self.path:
            return 0
        return sum(row["lost"] for row in protocol.ask(self.path, {"show": "ports"})["ports"])


def wait_for(program: "subprocess.Popen[str]", word: str, *, starts: bool = False) -> str:
    """The first line of a program's output with this word, or that starts with it.  PenstockError: the program has ended without.

    A switch says "port up: ..." of each port, whose queueing discipline is set by then; "up: ..." that all are ready.
    """
    assert program.stdout
    said = []
    for line in program.stdout:
        if line.startswith(word) if starts else word in line:
            return line
        said.append(line.strip())
    raise PenstockError(f"{' '.join(map(str, program.args[-4:]))} has ended: {'; '.join(said[-3:]) or 'no output'}")  # type: ignore[index]


@contextlib.contextmanager
def _spaces(names: Sequence[str]) -> Iterator[Network]:
    """Namespaces without interfaces."""
    with contextlib.ExitStack() as stack:
        yield Network({name: stack.enter_context(Namespace(name)) for name in names})


@contextlib.contextmanager
def over_switch(names: Sequence[str]) -> Iterator[Network]:
    """Each namespace has a TAP of the switch."""
    with tempfile.TemporaryDirectory() as folder, _spaces(names) as network, Namespace("switch") as middle:
        network.path = f"{folder}/switch.sock"
        lines = [f'[switch]\nsocket = "{network.path}"\n']
        for name, space in network.spaces.items():
            place = json.dumps(f"/proc/{os.getpid()}/fd/{space.fd}")
            lines.append(f'[[port]]\nname = "{name}"\nkind = "tap"\ndevice = "{DEVICE}"\nnetns = {place}\n')
            lines.append(f'addresses = ["{network.address(name)}"]\n')
        spec = Path(folder) / "switch.toml"
        spec.write_text("".join(lines))
        program = middle.start(*UP, str(spec))
        wait_for(program, "up: ", starts=True)
        network.pid = program.pid
        yield network


@contextlib.contextmanager
def over_bridge(names: Sequence[str]) -> Iterator[Network]:
    """Each namespace has a veth pair to a bridge of the kernel."""
    with _spaces(names) as network, Namespace("bridge") as middle:
        middle.run("ip", "link", "add", "br0", "type", "bridge", "stp_state", "0", "forward_delay", "0")
        middle.run("ip", "link", "set", "br0", "up")
        for i, (name, space) in enumerate(network.spaces.items()):
            far = f"/proc/{os.getpid()}/fd/{space.fd}"
            middle.run("ip", "link", "add", f"p{i}", "type", "veth", "peer", "name", DEVICE, "netns", far)
            middle.run("ip", "link", "set", f"p{i}", "master", "br0", "up")
            set_up(network, name)
        yield network


@contextlib.contextmanager
def over_veth(names: Sequence[str]) -> Iterator[Network]:
    """Two namespaces with a veth pair between them."""
    with _spaces(names) as network, veth(network[names[0]], network[names[1]]):
        for name in names:
            network[name].run("ip", "link", "set", "veth0", "down")
            network[name].run("ip", "link", "set", "veth0", "name", DEVICE)
            set_up(network, name)
        yield network
        network[names[0]].run("ip", "link", "set", DEVICE, "name", "veth0")  # as `veth` knows it


def set_up(network: Network, name: str) -> None:
    """Give the interface of a namespace its address and bring it up."""
    network[name].run("ip", "address", "add", f"{network.address(name)}/24", "dev", DEVICE)
    network[name].run("ip", "link", "set", DEVICE, "up")


@contextlib.contextmanager
def over_ovs(names: Sequence[str]) -> Iterator[Network]:
    """Each namespace has a TAP of Open vSwitch's userspace datapath.  PenstockError: it is not installed or does not work."""
    missing = [p for p in ("ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl") if not shutil.which(p)]
    if missing:
        raise PenstockError(f"{', '.join(missing)} not installed (Debian: apt install openvswitch-switch)")
    with tempfile.TemporaryDirectory() as folder, _spaces(names) as network, Namespace("ovs") as middle:
        database, remote = f"{folder}/conf.db", f"unix:{folder}/db.sock"
        middle.run("ovsdb-tool", "create", database)
        middle.start("ovsdb-server", database, f"--remote=p{remote}", f"--unixctl={folder}/db.ctl", "--verbose=off")
        _until(lambda: Path(f"{folder}/db.sock").exists(), "ovsdb-server")
        middle.run("ovs-vsctl", f"--db={remote}", "--no-wait", "init")
        server = middle.start("ovs-vswitchd", remote, f"--unixctl={folder}/vs.ctl", "--disable-system", "--verbose=off")
        make = ["ovs-vsctl", f"--db={remote}", "--timeout=20"]
        middle.run(*make, "add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev")
        for i, name in enumerate(names):
            middle.run(*make, "add-port", "br0", f"p{i}", "--", "set", "interface", f"p{i}", "type=internal")
            middle.run("ip", "link", "set", f"p{i}", "netns", f"/proc/{os.getpid()}/fd/{network[name].fd}", "name", DEVICE)
            set_up(network, name)
        network.pid = server.pid
        yield network


def _until(condition: Callable[[], bool], what: str, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise PenstockError(f"{what} did not start within {seconds:g} s")
        time.sleep(0.02)


NETWORKS: dict[str, Callable[[Sequence[str]], contextlib.AbstractContextManager[Network]]] = {
    "switch": over_switch,
    "bridge": over_bridge,
    "veth": over_veth,
    "ovs": over_ovs,
}


def echo(network: Network, left: str = "left", right: str = "right") -> str:
    """Start an echo server in one namespace and wait until the other reaches it; returns its address and port."""
    network.traffic(right, "echo", ECHO)
    with network[left].socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(0.5)
        sock.connect((network.address(right), ECHO))
        for _ in range(40):
            with contextlib.suppress(OSError):
                sock.send(b"hello")
                if sock.recv(100) == b"hello":
                    return f"{network.address(right)}:{ECHO}"
    raise PenstockError(f"{left} does not reach {right}")


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Stop a process (SIGSTOP) while the `with` lasts."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def need_root() -> None:
    """SpecError: this process may not create namespaces."""
    if os.geteuid():
        raise SpecError("creates namespaces and interfaces", path="bench", remedy="run it as root")
