"""Two switches with a scheme of the simulator, each as in a process of its own, and a link of real frames between them."""

import random
import socket
import threading
import time

import pytest
from test_schemes import address, numbered, numbers_of
from waiting import until

from penstock_net.errors import SpecError
from penstock_net.vswitch.attach.open import faults, open_link
from penstock_net.vswitch.client.client import connect
from penstock_net.vswitch.daemon import protocol
from penstock_net.vswitch.daemon.server import Daemon
from penstock_net.vswitch.memory.region import Region
from penstock_net.vswitch.ports.base import Clock
from penstock_net.vswitch.schemes.switch import SchemeSwitch

PLACES = [{"name": f"p{i}", "rate": "10Gbps", "node": int(i >= 2)} for i in range(4)]
LINKS = [{"between": [0, 1], "rate": "10Gbps", "delay": "2us"}]


class Pair:
    """Ports p0 and p1 at one switch, p2 and p3 at the other, and a link."""

    def __init__(self, scheme, wrap=lambda port: port, **settings):
        self.clock = Clock()
        ends = open_link(rate="40Gbps", delay="2us", clock=self.clock)
        self.ports = [wrap(ends[0]), wrap(ends[1])]
        self.switches = [SchemeSwitch(PLACES, LINKS, scheme=scheme, node=i, **settings) for i in range(2)]
        self.apps = []
        for i, place in enumerate(PLACES):
            app = Region.create(queues=64, buffers=8192, rings=1024)
            self.switches[place["node"]].attach(f"p{i}", Region.attach(app.fd, app.shape), [address(i)])
            self.switches[1 - place["node"]].know(f"p{i}", [address(i)])
            self.apps.append(app)
        for i, switch in enumerate(self.switches):
            switch.join(1 - i, self.ports[i])

    def run(self, us, sends=(), wanted=range(4)):
        got = {i: [] for i in wanted}
        for _ in range(us):
            for app, queue, frames in sends:
                del frames[: self.apps[app].send(queue, frames[:32])]
            self.clock.ns += 1000
            for switch in self.switches:
                switch.to(self.clock.ns * 1000)
            for i in wanted:
                got[i] += self.apps[i].receive(64)
        return got


@pytest.mark.parametrize("scheme", ["bfc", "pfc", "floodgate", "floodgate:ideal", "dqa+pfc"])
def test_a_slow_receiver_behind_the_other_switch(scheme):
    """Its flow is held back hop by hop to the application; nothing is lost; the control frames of the schemes arrive."""
    pair = Pair(scheme, buffer="600KB")
    slow, fast = numbered(0, 2, 2500), numbered(1, 3, 2500, source_port=7)
    sends = [(0, 0, slow), (1, 0, fast)]
    got = pair.run(3000, sends, [3])
    near, far = pair.switches
    assert any(p["by"] == "receiver" for p in far.pauses())
    if scheme == "bfc":  # a queue for each flow at both: the other flow has all of the link
        assert numbers_of(got[3]) == list(range(2500))
        assert any(p["port"] == "p0" and p["by"] == "scheme" for p in near.pauses())
        held = near.counters()["stored_bytes"], far.counters()["stored_bytes"]
        assert all(0 < x < 100_000 for x in held), held
    elif scheme == "pfc":  # the link waits, with everything
        assert len(got[3]) < 1500
    elif scheme.startswith("floodgate"):  # credits hold the slow flow back at the first switch, not the other one
        assert numbers_of(got[3]) == list(range(2500))
        if scheme == "floodgate":
            assert near.counters()["stored_bytes"] > far.counters()["stored_bytes"]
        else:  # and pauses its application
            assert [p["by"] for p in near.pauses()] == ["scheme"] and near.counters()["stored_bytes"] < 50_000
    more = pair.run(6000, sends)
    assert numbers_of(more[2]) == list(range(2500)) and numbers_of(got[3] + more[3]) == list(range(2500))
    rows = near.links() + far.links()
    assert rows[0]["sent"] == rows[1]["came"] and rows[1]["sent"] == rows[0]["came"] > (0 if scheme == "dqa+pfc" else 10)
    assert not any(row["lost"] or row["malformed"] or row["replayed"] for row in rows)
    assert not any(p["drops"] for s in pair.switches for p in s.ports()) and not any(s.waiting() for s in pair.switches)


def test_frames_that_the_other_end_cannot_have_sent():
    """Cut short, changed, sent again, of another world or without the secret: counted, and of no effect."""
    pair = Pair("bfc")
    near, far = pair.switches
    seen = []
    a, b = pair.ports
    pair.apps[0].send(0, numbered(0, 2, 20))
    for _ in range(60):
        pair.clock.ns += 1000
        near.to(pair.clock.ns * 1000)
        while frame := b.receive():
            seen.append(frame)
    assert len(seen) == 20
    random.seed(1)
    bad = [frame[:n] for frame in seen[:2] for n in (1, 23, 24, 60, 101, len(frame) - 1)] + [seen[0] + b"x"]
    for _ in range(500):
        frame = bytearray(random.choice(seen))
        frame[random.randrange(10 + 12, len(frame))] ^= 1 << random.randrange(8)
        bad.append(bytes(frame))
    bad += [bytes(random.randrange(256) for _ in range(random.randrange(200))) for _ in range(200)]
    bad = [frame for frame in bad if len(frame) >= 24]  # the link itself refuses shorter ones

    def tell(frames):
        for at in range(0, len(frames), 32):
            for frame in frames[at : at + 32]:
                assert a.send(frame)
            pair.clock.ns += 10_000
            far.to(pair.clock.ns * 1000)

    tell(bad)
    (row,) = far.links()
    assert row["came"] == 0 and row["malformed"] == len(bad)
    tell(seen)
    tell(seen)
    (row,) = far.links()
    assert row["came"] == 20 and row["replayed"] == 20
    for _ in range(50):
        pair.clock.ns += 1000
        far.to(pair.clock.ns * 1000)
    assert numbers_of(pair.apps[2].receive(64)) == list(range(20))
    for other in (Pair("bfc", secret="x"), Pair("bfc:unpaused"), Pair("dqa")):
        for frame in seen:
            assert other.ports[0].send(frame)
        other.run(50)
        assert other.switches[1].links()[0]["malformed"] == 20


def test_a_link_that_loses_frames_is_counted_and_repaired():
    """BFC repeats its pauses: flows go on although control frames are lost, and losses are counted."""
    pair = Pair("bfc", wrap=lambda port: faults(port, drop=0.02, seed=3))
    slow = numbered(0, 2, 2000)
    pair.run(1500, [(0, 0, slow)], [3])
    got = pair.run(8000, [(0, 0, slow)])
    near, far = (switch.links()[0] for switch in pair.switches)
    assert not slow and 1900 < len(got[2]) < 2000
    assert sum(port.counters["lost"] for port in pair.ports) >= near["lost"] + far["lost"] > 2000 - len(got[2]) > 0
    assert not pair.switches[0].pauses() and not pair.switches[0].waiting()


def test_what_cannot_be_joined():
    with pytest.raises(SpecError, match=r"switch\.node"):
        SchemeSwitch(PLACES, LINKS, scheme="bfc", node=2)
    pair = Pair("bfc")
    near, _ = pair.switches
    with pytest.raises(SpecError, match="no link to it"):
        near.join(1, pair.ports[0])
    with pytest.raises(SpecError, match="at another node"):
        near.attach("p3", pair.apps[3], ["10.0.0.9"])
    with pytest.raises(SpecError, match="not one at another node"):
        near.know("p0", ["10.0.0.9"])


def free_ports(count):
    """UDP ports of this machine that nobody has."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    numbers = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return numbers


def test_two_processes_over_udp(tmp_path):
    """By the machine's clock: a slow receiver at one switch pauses the sender at the other; nothing is lost."""
    ends = [f"127.0.0.1:{number}" for number in free_ports(2)]
    ports = [{"name": f"p{i}", "addresses": [address(i)], "rate": "1Gbps", "delay": "50us", "node": int(i > 0)} for i in range(3)]
    link = {"between": [0, 1], "rate": "1Gbps", "delay": "50us", "ends": ends}
    daemons, threads = [], []
    for node in range(2):
        switch = {"scheme": "bfc", "node": node, "secret": "s"}
        # A flow keeps its queue for a second: longer than a frame is on its way, also between processes that wait for a core.
        # Else another flow gets a queue that is paused later, for frames of the first one that were under way.
        spec = {"switch": switch, "scheme": {"refresh": "1ms", "dqa.sticky": 10_000}, "port": ports, "link": [link]}
        daemons.append(Daemon(spec, str(tmp_path / f"{node}.sock")))
        threads.append(threading.Thread(target=daemons[-1].serve))
        threads[-1].start()
    paths = [daemon.path for daemon in daemons]
    try:
        with pytest.raises(SpecError, match="at another node"):
            connect("p1", paths[0])
        with connect("p0", paths[0], buffers=2048) as a, connect("p1", paths[1]) as b, connect("p2", paths[1]) as c:
            slow, fast = numbered(0, 1, 4000), numbered(0, 2, 500, source_port=9)
            got, end = [], time.monotonic() + 120
            while time.monotonic() < end and len(got) < 500:
                del slow[: a.send(0, slow[:32])]
                del fast[: a.send(1, fast[:32])]
                got += c.receive(64, timeout=0.001)
            assert numbers_of(got) == list(range(500))
            paused = {"port": "p0", "queue": 0, "to_device": False, "left_ns": None, "by": "scheme"}
            while time.monotonic() < end and paused not in ask(paths[0], show="pauses")["pauses"]:
                del slow[: a.send(0, slow[:32])]
            assert {(p["port"], p["by"]) for p in ask(paths[1], show="pauses")["pauses"]} == {("p1", "receiver")}
            got = []
            while time.monotonic() < end and len(got) < 4000:
                del slow[: a.send(0, slow[:32])]
                got += b.receive(64, timeout=0.001)
            assert numbers_of(got) == list(range(4000))
            rows = until(lambda: rows_that_agree(paths), "what BFC repeats, it repeats for a while")
            assert rows[1]["came"] == rows[0]["sent"] >= 4500 and rows[1]["sent"] == rows[0]["came"] > 0
            assert not any(row["malformed"] or row["lost"] or row["replayed"] for row in rows)
    finally:
        for daemon, thread in zip(daemons, threads):
            daemon.over.set()
            thread.join(60)
            assert not thread.is_alive()


def rows_that_agree(paths):
    """The counters of both ends of the link, once nothing is under way."""
    rows = [ask(path, show="counters")["counters"]["links"][0] for path in paths]
    return rows if rows[1]["came"] == rows[0]["sent"] and rows[1]["sent"] == rows[0]["came"] else None


def ask(path, **message):
    return protocol.ask(path, message)


def test_a_link_to_another_process_has_two_ends(tmp_path):
    ports = [{"name": f"p{i}", "addresses": [address(i)], "node": i} for i in range(2)]
    with pytest.raises(SpecError, match=r"link 1\.ends = None"):
        Daemon({"switch": {"scheme": "bfc", "node": 0}, "port": ports, "link": [{"between": [0, 1]}]}, str(tmp_path / "s"))
