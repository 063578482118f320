"""The network plugin of containers, called as a runtime calls it, with a switch and namespaces of the test's own."""

import concurrent.futures
import contextlib
import json
import os
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from unittest import mock

import pytest
from daemons import running
from drawn import examples
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from test_lab import FORBIDDEN
from waiting import until

from penstock_net.vswitch.attach.lab import Namespace
from penstock_net.vswitch.cni import plugin, spec
from penstock_net.vswitch.daemon import kept_ports, protocol
from penstock_net.vswitch.daemon.config import validate_spec

NAMESPACES = pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))
HOST_LOCAL = "/usr/lib/cni/host-local"
ROOT = Path(__file__).parents[2]
STUB = """#!/bin/sh
# An address plugin: container cN has 10.66.0.N. FILE.hook is run first, what FILE.fail says is its error.
cat >/dev/null
echo "$CNI_COMMAND $CNI_CONTAINERID" >>"$0.log"
[ ! -e "$0.hook" ] || . "$0.hook"
if [ -e "$0.fail" ]; then cat "$0.fail"; exit 1; fi
[ "$CNI_COMMAND" = ADD ] || exit 0
echo '{"cniVersion": "1.0.0", "ips": [{"address": "10.66.0.'${CNI_CONTAINERID#c}'/24", "gateway": "10.66.0.254"}],'
echo '"routes": [{"dst": "0.0.0.0/0"}], "dns": {"nameservers": ["10.66.0.254"]}}'
"""
BASE = [{"name": "host", "addresses": ["10.66.0.254"]}]


class Runtime:
    """A container runtime with a network; `call` is what it does for a container."""

    def __init__(self, folder, version="1.1.0", **config):
        self.stub, self.socket = folder / "stub", str(folder / "s.sock")
        self.stub.write_text(STUB)
        self.stub.chmod(0o755)
        self.config = {"cniVersion": version, "name": "pods", "type": "penstock", "socket": self.socket}
        self.config |= {"ipam": {"type": "stub"}, **config}

    def environment(self, command, container, netns):
        found = {"CNI_COMMAND": command, "CNI_CONTAINERID": container, "CNI_IFNAME": "eth0", "CNI_PATH": str(self.stub.parent)}
        return {**found, "PATH": os.environ["PATH"]} | ({"CNI_NETNS": netns} if netns else {})

    def call(self, command, container="c1", netns="", **more):
        data = json.dumps({**self.config, **more}).encode()
        return plugin.answered(self.environment(command, container, netns), data)

    def done(self, *arguments, **more):
        """The output of a call that succeeds."""
        status, answer = self.call(*arguments, **more)
        assert status == 0, answer
        return answer

    def code(self, *arguments, **more):
        """The code of a call that fails, and what it says."""
        status, answer = self.call(*arguments, **more)
        assert status == 1 and answer["cniVersion"] in spec.VERSIONS, answer
        return answer["code"], answer["msg"]

    @property
    def calls(self):
        """The calls of the address plugin since the last look."""
        log = self.stub.with_suffix(".log")
        found = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return found

    def ports(self):
        return {row["port"]: row for row in protocol.ask(self.socket, {"show": "ports"})["ports"]}


@pytest.fixture
def runtime(tmp_path):
    return Runtime(tmp_path)


def path_of(space):
    return f"/proc/{os.getpid()}/fd/{space.fd}"


def udp(space):
    with space.enter():
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


@contextlib.contextmanager
def pods(count):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Namespace()) for _ in range(count)]


def links(space):
    return {row["ifname"]: row for row in json.loads(space.run("ip", "-j", "address"))}


@NAMESPACES
@pytest.mark.parametrize("version", spec.VERSIONS)
def test_the_life_of_a_container(tmp_path, version):
    """ADD, CHECK, traffic, DEL, in the order and with the data of libcni; both ends of a conversation are containers."""
    runtime = Runtime(tmp_path, version, port={"mtu": 1400})
    with running(runtime.socket, {"port": BASE}), pods(2) as (one, two):
        result = runtime.done("ADD", "c1", path_of(one))
        eth0 = links(one)["eth0"]
        assert result["cniVersion"] == version
        assert result["interfaces"] == [{"name": "eth0", "mac": eth0["address"], "sandbox": path_of(one)}]
        family = {} if version >= "1.0.0" else {"version": "4"}
        assert result["ips"] == [{"address": "10.66.0.1/24", "gateway": "10.66.0.254", "interface": 0, **family}]
        assert result["routes"] == [{"dst": "0.0.0.0/0"}] and result["dns"] == {"nameservers": ["10.66.0.254"]}
        assert eth0["mtu"] == 1400 and "default" in one.run("ip", "route")
        runtime.done("ADD", "c2", path_of(two))
        assert runtime.calls == ["ADD c1", "ADD c2"]
        if version >= "0.4.0":
            assert runtime.done("CHECK", "c1", path_of(one), prevResult=result) is None
            assert runtime.calls == ["CHECK c1"]
            one.run("ip", "link", "set", "eth0", "down")
            until(lambda: runtime.ports()["pods:c1:eth0"]["state"] == "down")
            assert runtime.code("CHECK", "c1", path_of(one), prevResult=result)[0] == spec.NOT_AS_ADDED
            one.run("ip", "link", "set", "eth0", "up")
            until(lambda: runtime.ports()["pods:c1:eth0"]["state"] == "up")
            assert runtime.code("CHECK", "c3", path_of(one), prevResult=result)[0] == spec.NOT_AS_ADDED
        with udp(one) as sender, udp(two) as receiver:
            receiver.bind(("10.66.0.2", 9000))
            receiver.settimeout(60)
            sender.sendto(b"hello", ("10.66.0.2", 9000))
            assert receiver.recvfrom(9)[0] == b"hello"
        assert len(runtime.calls) < 9
        for _ in range(2):  # what is gone is no error
            assert runtime.done("DEL", "c1", path_of(one), prevResult=result) is None
        assert runtime.calls == ["DEL c1"] * 2 and set(runtime.ports()) == {"pods:c2:eth0"}
        assert set(links(one)) == {"lo"}
        assert runtime.done("DEL", "c2") is None, "CNI_NETNS may be missing"
        assert set(links(two)) == {"lo"}


@NAMESPACES
def test_add_twice(runtime):
    """The second one fails without a word to the address plugin, which would give back the address of the first one."""
    with running(runtime.socket, {"port": BASE}), pods(1) as (pod,):
        before = runtime.done("ADD", "c1", path_of(pod))
        code, text = runtime.code("ADD", "c1", path_of(pod))
        assert code == spec.REFUSED and "exists already" in text and runtime.calls == ["ADD c1"]
        assert runtime.done("CHECK", "c1", path_of(pod), prevResult=before) is None
        runtime.done("DEL", "c1")


@NAMESPACES
def test_many_at_a_time(runtime):
    """A runtime calls for many containers at once; GC removes those of this network that it does not know any more."""
    other = Runtime(runtime.stub.parent)
    other.config["name"] = "other"
    with running(runtime.socket, {"port": BASE}), pods(7) as spaces, concurrent.futures.ThreadPoolExecutor(6) as pool:
        numbers = range(1, 7)
        results = list(pool.map(lambda i: runtime.done("ADD", f"c{i}", path_of(spaces[i])), numbers))
        assert [result["ips"][0]["address"] for result in results] == [f"10.66.0.{i}/24" for i in numbers]
        assert all("eth0" in links(spaces[i]) for i in numbers)
        other.done("ADD", "c9", path_of(spaces[0]))
        valid = [{"containerID": f"c{i}", "ifname": "eth0"} for i in (2, 5)]
        assert runtime.done("GC", **{spec.VALID: valid}) is None
        assert set(runtime.ports()) == {"pods:c2:eth0", "pods:c5:eth0", "other:c9:eth0"}
        assert runtime.calls[-1].startswith("GC") and set(links(spaces[1])) == {"lo"}
        list(pool.map(lambda i: runtime.done("DEL", f"c{i}"), numbers))
        assert set(runtime.ports()) == {"other:c9:eth0"}
        other.done("DEL", "c9")


@NAMESPACES
def test_the_switch_is_started_again(runtime):
    """The interface outlives it, with its address; the port comes back, but not that of a namespace that is gone, or of a DEL."""
    with pods(3) as (one, two, three):
        with running(runtime.socket, {"port": BASE}):
            before = runtime.done("ADD", "c1", path_of(one))
            runtime.done("ADD", "c2", path_of(two))
            link = runtime.stub.parent / "ns"
            link.symlink_to(path_of(three))
            runtime.done("ADD", "c3", str(link))
        assert runtime.code("CHECK", "c1", path_of(one), prevResult=before)[0] == spec.TRY_AGAIN
        assert runtime.code("STATUS")[0] == spec.NOT_AVAILABLE
        assert runtime.code("ADD", "c4", path_of(two))[0] == spec.TRY_AGAIN
        assert "eth0" in links(one) and "eth0" in links(two)
        runtime.done("DEL", "c2", path_of(two))
        assert "eth0" not in links(two), "the interface of a switch that is down is removed, too"
        link.unlink()
        with running(runtime.socket, {"port": BASE}):
            until(lambda: runtime.call("STATUS")[0] == 0)
            assert set(runtime.ports()) == {"pods:c1:eth0"}
            assert runtime.done("CHECK", "c1", path_of(one), prevResult=before) is None, "with the same Ethernet address"
            runtime.done("DEL", "c1")
        with running(runtime.socket, {"port": BASE}):
            until(lambda: runtime.call("STATUS")[0] == 0)
            assert not runtime.ports()
        assert not list(Path(f"{runtime.socket}.ports").iterdir())


@NAMESPACES
def test_an_add_that_fails_gives_its_address_back(runtime):
    """The namespace vanishes while the address is assigned; the switch refuses; the address plugin fails."""
    link = runtime.stub.parent / "ns"
    with running(runtime.socket, {"port": BASE}), pods(1) as (pod,):
        link.symlink_to(path_of(pod))
        hook = runtime.stub.with_suffix(".hook")
        hook.write_text(f"rm -f {link}")
        assert runtime.code("ADD", "c1", str(link))[0] == spec.NO_CONTAINER
        hook.unlink()
        assert runtime.calls == ["ADD c1", "DEL c1"]
        assert runtime.code("ADD", "c1", str(link))[0] == spec.NO_CONTAINER and not runtime.calls
        code, text = runtime.code("ADD", "c254", path_of(pod))
        assert code == spec.REFUSED and "10.66.0.254 belongs to port 'host'" in text
        assert runtime.calls == ["ADD c254", "DEL c254"]
        code, text = runtime.code("ADD", "c1", path_of(pod), port={"mtu": 1})
        assert code == spec.REFUSED and "mtu" in text and runtime.calls == ["ADD c1", "DEL c1"]
        Path(f"{runtime.socket}.ports").write_text("no folder")
        code, text = runtime.code("ADD", "c1", path_of(pod))
        assert code == spec.REFUSED and "cannot be kept" in text and runtime.calls == ["ADD c1", "DEL c1"]
        runtime.stub.with_suffix(".fail").write_text('{"code": 77, "msg": "no address is left", "details": "of 10.66.0.0/24"}')
        assert runtime.code("ADD", "c1", path_of(pod)) == (77, "stub: no address is left")
        assert runtime.calls == ["ADD c1"] and set(links(pod)) == {"lo"} and not runtime.ports()


@NAMESPACES
@pytest.mark.skipif(not os.path.exists(HOST_LOCAL), reason="no host-local")
def test_the_plugin_as_a_program_with_host_local(tmp_path):
    """Two processes at a time, as the runtime starts them: different addresses, and both are free again after DEL."""
    ipam = {"type": "host-local", "dataDir": str(tmp_path / "ipam"), "ranges": [[{"subnet": "10.66.0.0/24"}]]}
    runtime = Runtime(tmp_path, "1.0.0", ipam=ipam)
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from penstock_net.vswitch.cni.plugin import main; main()"

    def start(command, container, space):
        environment = {**runtime.environment(command, container, path_of(space)), "CNI_PATH": os.path.dirname(HOST_LOCAL)}
        return subprocess.Popen(
            [sys.executable, "-IS", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )

    def output(process):
        out, _ = process.communicate(json.dumps(runtime.config).encode(), timeout=120)
        assert process.returncode == 0, out
        return json.loads(out) if out else None

    with running(runtime.socket, {"port": BASE}), pods(2) as spaces:
        results = [output(process) for process in [start("ADD", f"c{i}", space) for i, space in enumerate(spaces)]]
        found = [result["ips"][0]["address"].partition("/")[0] for result in results]
        assert sorted(found) == ["10.66.0.2", "10.66.0.3"]
        held = {path.name for path in (tmp_path / "ipam/pods").iterdir()}
        assert held > set(found)
        assert [output(process) for process in [start("DEL", f"c{i}", space) for i, space in enumerate(spaces)]] == [None] * 2
        assert not {path.name for path in (tmp_path / "ipam/pods").iterdir()} & set(found) and not runtime.ports()


@pytest.mark.parametrize("name", ["a", "net:c1:eth0", "a/b%2F", "..", "über"])
def test_a_kept_port_is_read_as_it_was_written(tmp_path, name):
    path = str(tmp_path / "s.sock")
    kept_ports.keep(path, {"name": name, "addresses": ["10.0.0.1"]})
    assert kept_ports.names(path) == [name]
    assert kept_ports.read(path, name) == {"name": name, "addresses": ["10.0.0.1"]}
    kept_ports.forget(path, name)
    assert not kept_ports.names(path) and kept_ports.read(path, name) is None


def test_what_others_may_write_is_not_read(tmp_path):
    """Else any user could add ports to a switch of root whose socket is in a folder such as /tmp."""
    path = str(tmp_path / "s.sock")
    kept_ports.keep(path, {"name": "a"})
    folder = Path(f"{path}.ports")
    folder.chmod(0o777)
    assert not kept_ports.names(path) and kept_ports.read(path, "a") is None
    with pytest.raises(OSError, match="only this user"):
        kept_ports.keep(path, {"name": "b"})
    folder.chmod(0o700)
    assert kept_ports.names(path) == ["a"]
    if os.getuid() == 0:
        os.chown(folder, 12345, -1)
        assert not kept_ports.names(path) and kept_ports.names(path, 12345) == ["a"]
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    assert not kept_ports.names(path, 12345)


def test_version():
    """Also without a configuration, which old runtimes do not give."""
    for data in (b"", b'{"cniVersion": "0.4.0"}', b'{"cniVersion": "2.0.0"}'):
        status, answer = plugin.answered({"CNI_COMMAND": "VERSION"}, data)
        assert status == 0 and answer["supportedVersions"] == list(spec.VERSIONS)
        assert answer["cniVersion"] == json.loads(data or b'{"cniVersion": "1.1.0"}')["cniVersion"]


@pytest.mark.parametrize(
    "environment, config, code, text",
    [
        ({"CNI_COMMAND": "PLUG"}, {}, spec.ENVIRONMENT, "CNI_COMMAND"),
        ({"CNI_CONTAINERID": ""}, {}, spec.ENVIRONMENT, "CNI_CONTAINERID"),
        ({"CNI_CONTAINERID": "a/b"}, {}, spec.ENVIRONMENT, "CNI_CONTAINERID"),
        ({"CNI_IFNAME": ".."}, {}, spec.ENVIRONMENT, "CNI_IFNAME"),
        ({"CNI_IFNAME": "of-many-characters"}, {}, spec.ENVIRONMENT, "CNI_IFNAME"),
        ({"CNI_NETNS": ""}, {}, spec.ENVIRONMENT, "CNI_NETNS"),
        ({"CNI_NETNS": "/run/netns/not-there"}, {}, spec.NO_CONTAINER, "/run/netns/not-there"),
        ({}, {"cniVersion": "0.2.0"}, spec.INCOMPATIBLE, "cniVersion"),
        ({}, {"cniVersion": None}, spec.INCOMPATIBLE, "cniVersion"),
        ({"CNI_COMMAND": "GC"}, {"cniVersion": "1.0.0"}, spec.INCOMPATIBLE, "GC"),
        ({"CNI_COMMAND": "CHECK"}, {"cniVersion": "0.3.1"}, spec.INCOMPATIBLE, "CHECK"),
        ({"CNI_COMMAND": "CHECK"}, {}, spec.CONFIGURATION, "prevResult"),
        ({"CNI_COMMAND": "GC"}, {spec.VALID: [{"ifname": "eth0"}]}, spec.CONFIGURATION, "containerID"),
        ({}, {"isGateway": True}, spec.UNSUPPORTED, "isGateway = true"),
        ({}, {"port": {"addresses": ["10.0.0.1"]}}, spec.UNSUPPORTED, "port.addresses"),
        ({}, {"name": "a:b"}, spec.CONFIGURATION, "name"),
        ({}, {"ipam": {}}, spec.CONFIGURATION, "ipam.type"),
        ({}, {"ipam": {"type": "../stub"}}, spec.CONFIGURATION, "ipam.type"),
        ({"CNI_COMMAND": "DEL"}, {"ipam": {"type": "none"}}, spec.ENVIRONMENT, "no plugin 'none'"),
        ({}, {"prevResult": {}}, spec.CONFIGURATION, "the first of the list"),
        ({}, {"allow_uid": "no-such-user"}, spec.REFUSED, "no-such-user"),
    ],
)
def test_what_is_refused(runtime, environment, config, code, text):
    base = {**runtime.environment("ADD", "c1", "/proc/self/ns/net"), **environment}
    status, answer = plugin.answered(base, json.dumps({**runtime.config, **config}).encode())
    assert (status, answer["code"]) == (1, code) and text in answer["msg"], answer


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KEYS = st.sampled_from([*spec.STANDARD, *spec.OWN, spec.VALID, "cni.dev/x"])


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=20) | st.dictionaries(KEYS, JSON, max_size=4), command=st.sampled_from(sorted(spec.NEEDS)))
def test_any_input_has_an_answer(tmp_path, data, command):
    """Of a valid form, whatever comes on standard input: deep, long, of other types; no switch answers."""
    runtime = Runtime(tmp_path)
    given = data if isinstance(data, bytes) else json.dumps({**runtime.config, **data, "socket": runtime.socket}).encode()
    assigned = mock.patch.object(plugin.ipam, "_run", lambda *_: (0, b'{"ips": [{"address": "10.66.0.1/24"}]}'))
    asked = mock.patch.object(protocol, "ask", side_effect=protocol.NoAnswer("no switch answers"))
    with assigned, asked:
        status, answer = plugin.answered(runtime.environment(command, "c1", "/proc/self/ns/net"), given)
    if status:
        assert set(answer) <= {"cniVersion", "code", "msg", "details"} and isinstance(answer["code"], int) and answer["msg"]
    else:
        assert answer is None or command == "VERSION"
    assert json.dumps(answer)


@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"cniVersion": 1' + b"0" * 5000 + b"}", b'"text"', b"\xff\xfe{", b""])
def test_input_that_is_no_configuration(runtime, data):
    status, answer = plugin.answered(runtime.environment("DEL", "c1", ""), data)
    assert status == 1 and answer["code"] == spec.UNREADABLE, answer


@pytest.mark.parametrize(
    "result, text",
    [
        ({}, "must assign an address"),
        ({"ips": [{"address": "10.0.0.1"}]}, "the length of its prefix"),
        ({"ips": [{"address": "fd00::1/80"}]}, "64 bits"),
        ({"ips": [{"address": "10.0.0.1/24"}, {"address": "10.1.0.1/16"}]}, "of one length"),
        ({"ips": {"address": "10.0.0.1/24"}}, "list of objects"),
        ({"ips": [{"address": "10.0.0.1/24"}], "routes": [{"gw": "10.0.0.2"}]}, "dst"),
    ],
)
def test_addresses_that_the_switch_cannot_have(result, text):
    with pytest.raises(spec.CniError, match=text) as caught:
        spec.Addresses(result)
    assert caught.value.code == spec.CONFIGURATION


def test_names_of_ports():
    """IDs of 64 digits are cut; no two attachments have the same name."""
    assert spec.port_name("pods", "ab" * 32, "eth0") == "pods:abababababab:eth0"
    assert spec.port_name("pods", "a-name-of-some-length", "net1") == "pods:a-name-of-some-length:net1"


def test_a_switch_that_is_busy_is_asked_again(runtime, monkeypatch):
    """A runtime may call for more containers at a time than the switch takes connections."""
    asked = []

    def ask(path, message, **options):
        asked.append(message)
        if len(asked) < 3:
            raise protocol.Busy("user 0 has 32 connections open")
        return {"settings": {}}

    monkeypatch.setattr(protocol, "ask", ask)
    assert runtime.call("STATUS") == (0, None) and len(asked) == 3
    monkeypatch.setattr(plugin, "BUSY_S", -1.0)
    asked.clear()
    assert runtime.code("STATUS")[0] == spec.NOT_AVAILABLE


def test_it_starts_without_what_takes_long_to_import():
    code = "import sys; from penstock_net.vswitch.cni import plugin; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"numpy", "polars", "typer", "rich", "subprocess", "pathlib", "asyncio", "ssl", "inspect"}
    loaded = set(done.stdout.split())
    bare = subprocess.run([sys.executable, "-c", "import sys; print(*sys.modules)"], capture_output=True, text=True, check=True)
    assert not loaded & heavy - set(bare.stdout.split())


def test_the_example_is_a_configuration():
    """packaging/cni has a list for runtimes, and packaging/debian the switch that belongs to it."""
    conflist = json.loads((ROOT / "packaging/cni/30-penstock.conflist").read_text())
    first = {"cniVersion": conflist["cniVersion"], "name": conflist["name"], **conflist["plugins"][0]}
    environment = {"CNI_COMMAND": "DEL", "CNI_CONTAINERID": "c1", "CNI_IFNAME": "eth0", "CNI_PATH": "/none"}
    assert spec.Request(environment, json.dumps(first).encode()).port == "pods:c1:eth0"
    switch = validate_spec(tomllib.loads((ROOT / "packaging/debian/pods.toml").read_text()))
    assert switch.ports["host"]["addresses"][0] == first["ipam"]["ranges"][0][0]["gateway"]
