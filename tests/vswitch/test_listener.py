"""Who listens at the socket: a client sends nothing to a user that it does not trust, and an answer may be anything."""

import contextlib
import grp
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from daemons import UP, A, B, descendants, ended, running
from frames import udp
from waiting import LIMIT_S, until

from penstock_net.cli import main
from penstock_net.errors import SpecError
from penstock_net.vswitch.client.capture import capture
from penstock_net.vswitch.client.client import connect
from penstock_net.vswitch.daemon import operations, places, protocol, server
from penstock_net.vswitch.daemon.server import Daemon

NOBODY = 65534
PORTS = {"port": [{"name": "a", "addresses": [A]}, {"name": "b", "addresses": [B]}]}
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")

SQUATTER = """
import json, os, socket, sys
path, uid = sys.argv[1], int(sys.argv[2])
os.setgroups([])
os.setgid(uid)
os.setuid(uid)
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
os.chmod(path, 0o777)
listener.listen()
print("listening", flush=True)
while True:
    connection, _ = listener.accept()
    data, fds, _, _ = socket.recv_fds(connection, 65536, 8)
    print(json.dumps([len(data), len(fds)]), flush=True)
    if data:
        connection.sendall(b"{}\\n")
    connection.close()
"""


@contextlib.contextmanager
def squatter(uid):
    """A process of another user that listens first, and says how many bytes and descriptors each connection brought."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    path = str(folder / "s.sock")
    command = [sys.executable, "-c", SQUATTER, path, str(uid)]
    try:
        with ended(subprocess.Popen(command, stdout=subprocess.PIPE, text=True)) as process:
            assert process.stdout.readline() == "listening\n"
            yield path, lambda: json.loads(process.stdout.readline())
    finally:
        shutil.rmtree(folder)


def clients(path):
    """Everything that talks to a switch."""
    yield lambda **trust: protocol.ask(path, {"show": "ports"}, **trust)
    yield lambda **trust: connect("a", path, **trust)
    yield lambda **trust: capture(path=path, seconds=0, **trust)
    yield lambda **trust: plug(path, **trust)


def plug(path, allow_uid=None):
    """What Plug sends, with a descriptor, without a TAP."""
    with socket.socket(socket.AF_UNIX) as connection, open(os.devnull) as file:
        connection.settimeout(60)
        protocol.converse(connection, path, {"plug": "a"}, (file.fileno(),), allow_uid)


@as_root
def test_nothing_is_sent_to_another_user():
    """Above all no descriptor; with the user's name it is sent, and an answer that is none is said to be none."""
    with squatter(NOBODY) as (path, received):
        for client in clients(path):
            with pytest.raises(SpecError, match=f"user {NOBODY} listens there.*nothing was sent; .*--allow-uid {NOBODY}"):
                client()
            assert received() == [0, 0]
            with pytest.raises(SpecError, match="not a switch"):
                client(allow_uid=NOBODY)
            assert received()[0] > 0


@as_root
def test_commands_refuse_another_users_switch(capsys):
    with squatter(NOBODY) as (path, received):
        for words in (["show"], ["set", "burst=1"], ["down"], ["drain"], ["top", "--for", "0"], ["capture", "--for", "0"]):
            assert main(["vswitch", *words, "--socket", path]) == 2
            said = capsys.readouterr().err
            assert f"user {NOBODY} listens there" in said and len(said.splitlines()) == 1
            assert received() == [0, 0]
        assert main(["vswitch", "show", "--socket", path, "--allow-uid", "nobody"]) == 2
        assert "not a switch" in capsys.readouterr().err and received()[0] > 0
        assert main(["vswitch", "show", "--socket", path, "--allow-uid", "no-such-user"]) == 2
        assert "no such user" in capsys.readouterr().err


@as_root
def test_a_switch_does_not_call_a_strangers_socket_a_switch(tmp_path, capsys):
    """It says what the kernel knows: another user's process listens there."""
    with squatter(NOBODY) as (path, _):
        with pytest.raises(SpecError) as refused:
            Daemon(PORTS, path)
        said = str(refused.value)
        assert f"of user {NOBODY} is listening there, not root and not you; " in said and "choose another switch.socket" in said
        assert main(["vswitch", "up", "--check", spec_of(tmp_path), "--socket", path]) == 1
        assert f"of user {NOBODY} is listening there, not root and not you\n" in capsys.readouterr().out


@as_root
def test_a_user_trusts_root_and_itself_only():
    """Root's switch is trusted by all; another user's is not."""
    code = (
        "import os, sys; from penstock_net.vswitch.daemon import protocol\n"
        "os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))\n"
        "try: protocol.ask(sys.argv[2], {'show': 'ports'})\n"
        "except Exception as error: print(type(error).__name__, error)"
    )

    def said(path, uid):
        done = subprocess.run([sys.executable, "-c", code, str(uid), path], capture_output=True, text=True, timeout=120)
        return done.stdout + done.stderr

    with squatter(NOBODY) as (path, received):
        assert "not a switch" in said(path, NOBODY) and received()[0] > 0
        assert f"user {NOBODY} listens there" in said(path, 1) and received() == [0, 0]
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    with running(folder / "s.sock", PORTS):
        os.chmod(folder / "s.sock", 0o777)
        assert "you are user 1:" in said(str(folder / "s.sock"), 1)
    folder.rmdir()


@contextlib.contextmanager
def answering(path, words):
    """A listener of this user that gives each connection these bytes; None: it says nothing."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(120)
        over = threading.Event()

        def serve():
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                if words is None:
                    over.wait(120)
                else:
                    connection.recv(1 << 16)
                    connection.sendall(words)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(60)


ANSWERS = [
    b"{}\n",
    b"[]\n",
    b"3\n",
    b'"ports"\n',
    b"null\n",
    b'{"ports": 3}\n',
    b'{"ports": null}\n',
    b'{"settings": []}\n',
    b'{"ports": [], "x"\n',
    b"\n",
    b"\xff\xfe\n",
    b"HTTP/1.1 400 Bad Request\r\n\r\n",
    b"[" * 100_000 + b"\n",
    b"1" * 10_000 + b"\n",
]


@pytest.mark.parametrize("number", range(len(ANSWERS)))
@pytest.mark.parametrize("words", [["show"], ["set", "burst=1"], ["down"], ["drain"], ["reload"], ["capture", "--for", "0"]])
def test_an_answer_may_be_anything(tmp_path, capsys, words, number):
    """It ends in one line, never in a traceback."""
    path, spec = tmp_path / "s.sock", tmp_path / "s.toml"
    spec.write_text(f'[[port]]\nname = "a"\naddresses = ["{A}"]\n')
    with answering(path, ANSWERS[number]):
        words = [*words, str(spec)] if words == ["reload"] else words
        assert main(["vswitch", *words, "--socket", str(path)]) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1 and ("not a switch" in said or "closed the connection" in said), said


def test_a_listener_that_says_nothing(tmp_path):
    with answering(tmp_path / "s", None), pytest.raises(SpecError, match=r"has not answered for 0\.05 s; is it stopped"):
        protocol.ask(str(tmp_path / "s"), {"show": "ports"}, timeout=0.05)


def test_a_listener_that_says_a_byte_at_a_time(tmp_path):
    """The time is that of the whole answer."""
    path, over = str(tmp_path / "s"), threading.Event()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        def trickle():
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                while not over.wait(0.005):
                    connection.sendall(b" ")

        thread = threading.Thread(target=trickle)
        thread.start()
        try:
            with pytest.raises(SpecError, match="has not answered"):
                protocol.ask(path, {"show": "ports"}, timeout=0.2)
        finally:
            over.set()
            thread.join(60)


# ---- The default socket ----

PLACE = (
    "import os, sys; from penstock_net.vswitch.daemon import places; os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))\n"
    "try: print(places.default_socket())\n"
    "except Exception as error: print(error)\n"
    "if len(sys.argv) > 2: places.make_folder(places.default_socket())"
)
STRANGER = 60_119  # a user that this machine does not have


def default_of(uid, *more, **environment):
    before = {key: value for key, value in os.environ.items() if key != "XDG_RUNTIME_DIR"}
    command = [sys.executable, "-c", PLACE, str(uid), *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**before, **environment})
    assert not done.stderr, done.stderr
    return done.stdout.strip()


@as_root
def test_the_default_is_where_only_its_user_can_listen(tmp_path):
    """Root's in /run/penstock, whatever the environment says; others' in their runtime folder."""
    assert default_of(0) == default_of(0, XDG_RUNTIME_DIR="/tmp") == "/run/penstock/vswitch.sock"
    folder = Path(tempfile.mkdtemp())
    try:
        os.chown(folder, STRANGER, STRANGER)
        given = {"XDG_RUNTIME_DIR": str(folder)}
        assert default_of(STRANGER, **given) == f"{folder}/penstock-vswitch-{STRANGER}.sock"
        assert f"belongs to user {STRANGER}" in default_of(NOBODY, **given)
        folder.chmod(0o777)
        assert "may be written by other users" in default_of(STRANGER, **given)
    finally:
        folder.rmdir()


@as_root
def test_without_a_runtime_folder_it_is_a_private_one():
    """Below /tmp, made for this user only; one that another has made is refused."""
    folder = Path(f"/tmp/penstock-{STRANGER}")
    try:
        path = f"{folder}/penstock-vswitch-{STRANGER}.sock"
        assert default_of(STRANGER) == path and not folder.exists()
        assert default_of(STRANGER, "make") == path
        found = folder.stat()
        assert (found.st_uid, found.st_mode & 0o777) == (STRANGER, 0o700)
        folder.rmdir()
        folder.mkdir()
        assert "belongs to user 0" in default_of(STRANGER)
        folder.rmdir()
        folder.symlink_to("/run")
        assert "is not a folder" in default_of(STRANGER)
    finally:
        folder.unlink() if folder.is_symlink() else shutil.rmtree(folder, ignore_errors=True)


@as_root
def test_root_makes_its_folder(tmp_path, monkeypatch, capsys):
    """A switch without `socket` and a client without --socket find each other there."""
    monkeypatch.setattr(places, "ROOTS_FOLDER", tmp_path / "penstock")
    daemon = Daemon(PORTS)
    thread = threading.Thread(target=daemon.serve)
    thread.start()
    try:
        assert daemon.path == f"{tmp_path}/penstock/vswitch.sock" and (tmp_path / "penstock").stat().st_mode & 0o777 == 0o755
        assert main(["vswitch", "show"]) == 0 and capsys.readouterr().out.startswith("no ports\n")
    finally:
        daemon.over.set()
        thread.join(60)
    (tmp_path / "penstock").chmod(0o777)
    with pytest.raises(SpecError, match="may be written by other users"):
        connect("a")


# ---- The file of the socket ----


def test_a_file_that_is_no_socket_stays(tmp_path):
    """Connecting to it is refused as to a dead switch's; it must not be removed for that."""
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(SpecError, match="a file exists there that is not a socket"):
        Daemon(PORTS, str(tmp_path / "notes"))
    assert (tmp_path / "notes").read_text() == "mine"


def test_a_dead_switch_is_replaced_and_a_living_one_is_not(tmp_path):
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)
    with running(path, PORTS):
        with pytest.raises(SpecError, match=f"process {os.getpid()} of user {os.getuid()} is listening there; stop it if"):
            Daemon(PORTS, path)
        assert protocol.ask(path, {"show": "ports"})["ports"] == []
    assert not Path(path).exists()


def test_two_that_start_at_once_do_not_take_each_other_s_socket_away(tmp_path):
    """One is held between seeing the dead switch's socket and listening; without the lock, both would end up there."""
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)
    taken = pytest.raises(SpecError, match="another switch is starting there")
    with places.alone_in(tmp_path), taken, places.alone_in(tmp_path, wait_s=0.05):
        pass
    made: list[Daemon | SpecError] = []

    def make() -> None:
        try:
            made.append(Daemon(PORTS, path))
        except SpecError as error:
            made.append(error)

    threads = [threading.Thread(target=make) for _ in range(4)]
    with places.alone_in(tmp_path):
        for thread in threads:
            thread.start()
    for thread in threads:
        thread.join()
    daemons = [each for each in made if isinstance(each, Daemon)]
    assert len(daemons) == 1 and all("is listening there" in str(each) for each in made if each is not daemons[0])
    with contextlib.closing(daemons[0].switch):
        daemons[0]._unbind()


def test_a_switch_removes_its_own_socket_only(tmp_path):
    """Not that of another, which has taken the path meanwhile."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "other"))
        other.listen()
        with running(path, PORTS):
            (tmp_path / "other").rename(path)
        assert path.is_socket()


@pytest.mark.parametrize("path", ["x" * 200, "a\0b"])
def test_a_path_that_cannot_be_one(path):
    with pytest.raises(SpecError, match=r"at most 107 bytes"):
        Daemon(PORTS, path)


# ---- Who may look ----

LOOK = """
import json, os, sys
from penstock_net.errors import SpecError
from penstock_net.vswitch.daemon import protocol
os.setgroups(json.loads(sys.argv[3]))
os.setgid(int(sys.argv[2]))
os.setuid(int(sys.argv[2]))
for what in ("ports", "flows", "pauses", "counters", "settings", "changes", "detached", "captures"):
    try: print(what, sorted(protocol.ask(sys.argv[1], {"show": what})))
    except SpecError as error: print(error)
changes = [{"set": {"burst": 1}}, {"undo": True}, {"reload": {}}]
for request in [*changes, {"capture": []}, {"drain": True}, {"down": True}, {"plug": "a"}]:
    try: print("permitted", protocol.ask(sys.argv[1], request))
    except SpecError as error: print(error)
"""


@as_root
def test_members_of_the_group_may_look_and_change_nothing():
    """By a supplementary group or the first one; without `group`, or outside of it, nobody may look."""
    group = 1
    name = grp.getgrgid(group).gr_name
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    path = str(folder / "s.sock")

    def lines(uid, groups):
        command = [sys.executable, "-c", LOOK, path, str(uid), json.dumps(groups)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout.splitlines()

    for spec, members in (({"switch": {"group": name}, **PORTS}, True), (PORTS, False)):
        with running(path, spec) as daemon:
            found = os.stat(path)
            assert (found.st_gid == group and found.st_mode & 0o070 == 0o070) == members
            os.chmod(path, 0o777)
            for uid, groups, looks in ((NOBODY, [7, group], members), (group, [], members), (NOBODY, [7], False)):
                said = lines(uid, groups)
                assert len(said) == 15
                assert all(line.split()[0] in line.split("[")[1] if looks else f"you are user {uid}" in line for line in said[:8])
                assert all(f"you are user {uid}" in line for line in said[8:]), said
            assert not daemon.draining and not daemon.over.is_set() and daemon.switch.settings["burst"] == 32
    folder.rmdir()


def test_members_of_the_group_see_a_part_of_many_flows(tmp_path, monkeypatch):
    """Collecting all of them takes time of the worker; how many the others are is in the answer."""
    monkeypatch.setattr(server, "MOST_FLOWS_OF_OTHERS", 3)
    path = str(tmp_path / "s")
    with running(path, PORTS) as daemon, connect("a", path) as a, connect("b", path):
        for queue in range(5):
            assert a.send(queue, [udp(A, B, 1000 + queue)]) == 1
        until(lambda: len(protocol.ask(path, {"show": "flows"})["flows"]) == 5)
        member = operations.Peer(1, NOBODY, False, True)
        for most in ({}, {"most": 100}, {"most": 3}):
            found = daemon._show({"show": "flows", **most}, member)
            assert len(found["flows"]) == 3 and found["others"]["flows"] == 2


def test_a_group_that_there_is_not(tmp_path):
    with pytest.raises(SpecError, match=r'switch.group = "no-such-group": there is no such group; groupadd'):
        Daemon({"switch": {"group": "no-such-group"}, **PORTS}, str(tmp_path / "s"))
    for wrong in (3, "", ["x"]):
        with pytest.raises(SpecError, match=r"switch\.group"):
            Daemon({"switch": {"group": wrong}, **PORTS}, str(tmp_path / "s"))


# ---- up: check, wait, log ----


def spec_of(folder, text="", **switch):
    lines = [f'{key} = "{value}"' for key, value in {"socket": folder / "s.sock", **switch}.items()]
    port = f'[[port]]\nname = "a"\naddresses = ["{A}"]'
    (folder / "s.toml").write_text("\n".join(["[switch]", *lines, port, text]))
    return str(folder / "s.toml")


def command(*words):
    return subprocess.run([*UP, *words], capture_output=True, text=True, timeout=120)


def test_check_names_what_is_missing(tmp_path, capsys):
    """A line each, exit status 1, and nothing is left behind; 2 for a specification that is not valid."""
    before = sorted(os.listdir(tmp_path))
    with running(tmp_path / "living", PORTS), socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        metrics = f"127.0.0.1:{taken.getsockname()[1]}"
        more = (
            f'[[port]]\nname = "t"\naddresses = ["10.0.0.3"]\nkind = "tap"\ndevice = "sw0"\nnetns = "no-such-namespace"\n'
            f'[[port]]\nname = "l"\naddresses = ["10.0.0.7"]\nkind = "tap"\ndevice = "a-name-of-16-char"\n'
            f'[[port]]\nname = "p"\naddresses = ["10.0.0.4"]\nkind = "packet"\ndevice = "nosuch0"\n'
            f'[[port]]\nname = "u"\naddresses = ["10.0.0.5"]\nkind = "udp"\nlocal = "192.0.2.1:7000"\npeer = "192.0.2.2:7000"\n'
            f'[[port]]\nname = "f"\naddresses = ["10.0.0.6"]\nkind = "pcap"\nread = "{tmp_path}/none.pcap"\n'
            f'write = "{tmp_path}/none/x.pcap"\n'
        )
        spec = spec_of(tmp_path, more, socket=tmp_path / "living", metrics=metrics, group="no-such-group")
        assert main(["vswitch", "up", "--check", spec]) == 1
    said = capsys.readouterr().out
    for line in (
        f"missing: socket {tmp_path}/living: process {os.getpid()} of user {os.getuid()} is listening there\n",
        "switch.group",
        f"missing: metrics {metrics}: cannot listen there",
        "missing: port t: ",
        'missing: port l: device = "a-name-of-16-char": must be 1 to 15 characters',
        "missing: port p: ",
        "missing: port u: ",
        f"missing: port f: read {tmp_path}/none.pcap: cannot be read",
        f"missing: port f: write {tmp_path}/none/x.pcap: its folder does not exist",
    ):
        assert line in said, said
    assert main(["vswitch", "up", "--check", spec_of(tmp_path), "--socket", "/nowhere/s"]) == 1
    assert capsys.readouterr().out == "missing: socket /nowhere/s: its folder does not exist\n"
    assert main(["vswitch", "up", "--check", spec_of(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{tmp_path}/s.toml: can run on this machine\n"
    assert main(["vswitch", "up", "--check", spec_of(tmp_path, "x = 1")]) == 2
    assert "unknown key" in capsys.readouterr().err
    nodes = (
        '[[port]]\nname = "b"\naddresses = ["10.0.0.2"]\nnode = 1\n[[link]]\nbetween = [0, 1]\n'
        'ends = ["192.0.2.1:4800", "192.0.2.2:4800"]\n'
    )
    spec = spec_of(tmp_path, nodes, scheme="bfc")
    Path(spec).write_text(Path(spec).read_text().replace("[switch]", "[switch]\nnode = 0", 1))
    assert main(["vswitch", "up", "--check", spec]) == 1
    assert "missing: link 1: " in (said := capsys.readouterr().out) and "is not an address of this machine" in said
    assert sorted(os.listdir(tmp_path)) == [*before, "s.toml"]


def test_wait_returns_when_the_switch_serves(tmp_path, capsys):
    """And leaves it in the background, without the terminal, with its log; a second one says why not."""
    path = str(tmp_path / "s.sock")
    spec = spec_of(tmp_path)
    done = command("--wait", spec, "--log", str(tmp_path / "log"), "--log-level", "info")
    try:
        assert (done.returncode, done.stderr) == (0, "") and done.stdout == f"up: {path}, mode backdraft, ports a\n"
        with connect("a", path), socket.socket(socket.AF_UNIX) as probe:
            probe.connect(path)
            pid, _, _ = protocol.peer(probe)
            assert {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in range(3)} == {os.devnull}
            assert os.getsid(pid) != os.getsid(0)
        again = command("--wait", spec)
        assert again.returncode == 2 and again.stdout == ""
        assert again.stderr.startswith(f"error: {path}: process {pid} of user {os.getuid()} is listening there; stop it")
        assert len(again.stderr.splitlines()) == 1
    finally:
        assert main(["vswitch", "down", "--socket", path]) == 0
    until(lambda: pid not in descendants())
    log = (tmp_path / "log").read_text()
    assert log.endswith("down\n")
    for what in (
        f"INFO serving at {path}, mode backdraft, ports a",
        "attached: port a: application of process",
        "detached: port a:",
    ):
        assert what in log, log
    assert not Path(path).exists()


def test_wait_says_what_went_wrong(tmp_path):
    for text, words, message in (
        ("x = 1", (), "unknown key"),
        ("", ("--socket", "/nowhere/s"), "cannot listen there"),
        ("", ("--log", "/nowhere/log"), "cannot be written"),
        ("", ("--log-level", "loud"), "must be one of debug, info, warning, error"),
    ):
        done = command("--wait", spec_of(tmp_path, text), *words)
        assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr and not done.stdout


@pytest.mark.parametrize(
    "content, message",
    [
        (b'[[port]]\naddresses = ["10.0.0.1"]', "error: port 1.name: is missing"),
        (b'[[port]]\nname = "a"', 'error: port 1.addresses: is missing; such as addresses = ["10.0.0.1"]'),
        (b'[[port]]\nname = "a"\naddresses = ["10.0.0.999"]', "error: port 1.addresses: address '10.0.0.999': must be an IPv4"),
        (b'[[port]]\nname = "a"\naddresses = ["10.0.0.1"]\nuid = -1', "error: port 1.uid = -1: must be a user ID"),
        (b"\xef\xbb\xbf[[prt]]", "error: prt: unknown key"),
        (b"[[port]\n", "spec.toml:1:7: not valid TOML: "),
        (b"hello\n", "spec.toml:1:6: not valid TOML: Expected '=' after a key in a key/value pair, in the line \"hello\"\n"),
        (b"a = " + b"[" * 100_000, "not valid TOML: "),
        (b"a = \xff", "spec.toml:1: byte 0xff is not UTF-8 text"),
    ],
)
def test_a_bad_specification_is_named_with_its_place(tmp_path, capsys, content: bytes, message: str):
    (tmp_path / "spec.toml").write_bytes(content)
    assert main(["vswitch", "up", "--check", str(tmp_path / "spec.toml")]) == 2
    assert message in capsys.readouterr().err


def test_a_limit_of_open_files_that_is_too_low_is_named_with_what_is_needed(tmp_path):
    """A soft limit is raised by the switch itself."""
    ports = "".join(f'[[port]]\nname = "p{i}"\naddresses = ["10.0.0.{i}"]\n' for i in range(2, 21))
    spec = spec_of(tmp_path, ports)
    with ended(subprocess.Popen(["prlimit", "--nofile=64:64", *UP, spec], stdout=-1, stderr=-1, text=True)) as process:
        said = "".join(process.communicate(timeout=LIMIT_S))
        assert process.returncode == 2 and "at most 64 files open, and 20 ports need 152; ulimit -n 152" in said
    with ended(subprocess.Popen(["prlimit", "--nofile=64:1000", *UP, spec], stdout=-1, stderr=-1, text=True)) as process:
        assert process.stdout.readline().startswith("up: ")
        assert "Max open files            152 " in Path(f"/proc/{process.pid}/limits").read_text()
        process.terminate()
        assert process.wait(LIMIT_S) == 0


def test_a_specification_without_end_is_refused(capsys):
    assert main(["vswitch", "up", "--check", "/dev/zero"]) == 2
    assert "is not a regular file" in capsys.readouterr().err


def test_a_switch_ends_though_nobody_reads_what_it_says(tmp_path):
    """A soak of an hour ended with a switch that could not write "down" into a full pipe."""
    with ended(subprocess.Popen([*UP, spec_of(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)) as process:
        assert b"up: " in process.stdout.readline() + process.stdout.readline()
        pipe = os.open(f"/proc/{process.pid}/fd/1", os.O_WRONLY | os.O_NONBLOCK)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(pipe, b"x")
        os.close(pipe)
        process.terminate()
        assert process.wait(LIMIT_S) == 0
