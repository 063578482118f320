"""Switches that are handed over to a new process, for tests: started by a program whose new process the test may spoil."""

import contextlib
import subprocess
import sys
import threading
from pathlib import Path

from daemons import descendants, end_descendants, ended
from proven import accounted

from penstock_net.vswitch.daemon import protocol
from penstock_net.vswitch.daemon.upgrade import VARIABLE

PROGRAM = f"""#!{sys.executable}
import os, sys
folder = os.path.dirname(os.path.abspath(__file__))
part = "new" if "{VARIABLE}" in os.environ else "old"
if os.path.exists(f"{{folder}}/{{part}}.py"):
    exec(open(f"{{folder}}/{{part}}.py").read())
from penstock_net.cli import main
sys.exit(main())
"""
# What differs between two looks at a switch in which nothing moves.
PASSING = ("rounds", "rounds_with_work", "naps", "upgrades", "looks", "steps", "wakes", "waiting_ports", "left_ns", "time")
PASSING += ("paused_ns", "rate_bytes_per_s")  # of queues that wait, as they are tried again


class Upgradable:
    """A switch in a process of its own."""

    def __init__(self, folder, process, path):
        self.folder, self.process, self.path = folder, process, path

    def ask(self, **message):
        return protocol.ask(self.path, message, 120)

    def show(self, what):
        return self.ask(show=what)[what]

    def upgrade(self):
        """Hand the switch over; the process that has it then."""
        pid = self.ask(upgrade=True)["upgraded"]
        self.process.wait(60)
        return pid

    def spoil(self, new, old=""):
        """What the next new process does before all else."""
        (self.folder / "new.py").write_text(new)

    def balanced(self):
        """The conservation law; nothing lost, and the frames that came in and went out."""
        found = self.show("balance")
        accounted(found)
        assert not found["lost"], found
        return found["in"], found["out"], found["parked"]

    def settled(self):
        """All that it says, when nothing moves any longer."""
        one, other = self.everything(), None
        for _ in range(50):
            one, other = self.everything(), one
            if one == other:
                return one
        raise AssertionError(list(differences(one, other)))

    def everything(self, *passing):
        """All that it says of itself, but for what differs from one moment to the next."""
        found = {what: self.show(what) for what in ("ports", "flows", "losses", "balance", "detached", "settings", "changes")}
        return without(found, {*PASSING, *passing})


def without(found, keys):
    if isinstance(found, dict):
        return {key: without(value, keys) for key, value in found.items() if key not in keys}
    return [without(value, keys) for value in found] if isinstance(found, list) else found


def differences(one, other, where=""):
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() | other.keys():
            yield from differences(one.get(key), other.get(key), f"{where}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for i, pair in enumerate(zip(one, other)):
            yield from differences(*pair, f"{where}[{i}]")
    elif one != other:
        yield f"{where}: {one} and {other}"


@contextlib.contextmanager
def upgradable(folder, ports, switch="", old=""):
    """A switch whose [[port]] tables are these."""
    folder = Path(folder)
    path, program, spec = str(folder / "s.sock"), folder / "program", folder / "s.toml"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    (folder / "old.py").write_text(old)
    lines = [f'[switch]\nsocket = "{path}"\n{switch}\n']
    for port in ports:
        lines += ["[[port]]\n", *(f"{key} = {toml(value)}\n" for key, value in port.items())]
    spec.write_text("".join(lines))
    command = [str(program), "vswitch", "up", str(spec), "--log", str(folder / "log")]
    before = set(descendants())
    try:
        with ended(subprocess.Popen(command, stdout=subprocess.PIPE, text=True)) as process:
            assert process.stdout.readline().startswith("up: "), (folder / "log").read_text()
            yield Upgradable(folder, process, path)
    finally:
        end_descendants(except_for=before)


def toml(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return str(value) if isinstance(value, int) else f'"{value}"'


@contextlib.contextmanager
def repeated(act):
    """Call a function again and again in a thread while the `with` lasts."""
    over = threading.Event()
    failed = []

    def run():
        try:
            while not over.is_set():
                act()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(60)
    assert not failed, failed
