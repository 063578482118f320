"""Several workers: each frame once and in the order of its flow; changes while all run; invalid writes and killed processes."""

import functools
import itertools
import mmap
import os
import threading
import time
import weakref

import numpy as np
import pytest
from daemons import forked
from frames import payload_of, udp

from penstock_net.errors import SpecError
from penstock_net.vswitch.client.client import connect
from penstock_net.vswitch.daemon.config import validate_spec
from penstock_net.vswitch.daemon.server import Daemon
from penstock_net.vswitch.dataplane.switch import Switch
from penstock_net.vswitch.memory.region import Region
from penstock_net.vswitch.support.settings import validate_settings

ADDRESSES = {"a": "10.0.0.1", "b": "10.0.0.2", "c": "10.0.0.3", "d": "10.0.0.4"}


def switch_of(shape=None, **settings):
    """A switch of two workers: a and c are at home with the first, b and d with the second."""
    switch, apps = Switch(**{"workers": 2, **settings}), {}
    for name, address in ADDRESSES.items():
        apps[name] = Region.create(**(shape or {}))
        switch.attach(name, Region.attach(apps[name].fd, apps[name].shape), [address])
    return switch, apps


def frame(source, target, number, port=1000):
    return udp(ADDRESSES[source], ADDRESSES[target], port, payload=b"%d" % number)


class Talk:
    """Everybody sends numbered frames to everybody, in a queue per target; what arrives is checked as it comes."""

    def __init__(self, apps):
        self.apps = apps
        self.flows = [(s, t) for s in apps for t in apps if s != t]
        self.sent = dict.fromkeys(self.flows, 0)
        self.got = dict.fromkeys(self.flows, 0)
        self.names = {bytes(map(int, address.split("."))): name for name, address in ADDRESSES.items()}

    def send(self, count):
        for s, t in self.flows:
            first, queue = self.sent[s, t], "abcd".index(t)
            self.sent[s, t] += self.apps[s].send(queue, [frame(s, t, n) for n in range(first, first + count)])

    def receive(self, most):
        for t, app in self.apps.items():
            for _, found in app.receive(most):
                s = self.names[found[26:30]]
                if (s, t) in self.got:  # frames of strangers are not counted
                    assert int(payload_of(found)) == self.got[s, t], (s, t)
                    self.got[s, t] += 1

    def finish(self):
        end = time.monotonic() + 120
        while self.got != self.sent and time.monotonic() < end:
            self.receive(200)
        assert self.got == self.sent


@pytest.mark.parametrize("mode", ["pfc", "dpfq", "backdraft"])
def test_every_frame_once_and_in_order(mode):
    """Two threads, receivers that are too slow, thresholds that bite, and settings that change."""
    switch, apps = switch_of(mode=mode, th_goal="500B", th_over="2KB", th_net="4KB", idle="100s")
    switch.start()
    talk = Talk(apps)
    for i in itertools.count():
        if i >= 150 and sum(talk.sent.values()) > 3000:
            break
        talk.send(8)
        talk.receive(20)
        if i % 10 == 0:
            assert switch.call(lambda n=i: switch.set({"burst": 1 + n % 32}))["burst"] == 1 + i % 32
    talk.finish()
    rows, flows = switch.call(switch.ports), switch.call(switch.flows)
    assert sum(talk.sent.values()) > 3000 and not any(row["drops"] for row in rows)
    assert [row["received_frames"] for row in rows] == [sum(talk.sent[s, t] for s, t in talk.flows if s == n) for n in ADDRESSES]
    assert [row["sent_frames"] for row in rows] == [sum(talk.got[s, t] for s, t in talk.flows if t == n) for n in ADDRESSES]
    assert sorted((f["from"], f["to"]) for f in flows) == sorted(talk.flows) and sum(f["pauses"] for f in flows) > 0
    assert len({(f["to"], f["queue"]) for f in flows}) == len(flows), "no two workers use the same receive queue"
    assert switch.call(switch.counters)["workers"] == 2
    switch.stop()


def test_both_workers_work():
    """Ports belong to different workers, and a doorbell rung by one worker wakes an application of the other."""
    switch, apps = switch_of()
    assert apps["a"].send(0, [frame("a", "c", 1)]) == 1 and apps["b"].send(0, [frame("b", "c", 2)]) == 1
    assert apps["c"].sleep(), "there is no news yet"
    switch.turns(1)
    assert not apps["c"].sleep()
    assert sorted(payload_of(f) for _, f in apps["c"].receive()) == [b"1", b"2"]
    queues = {f["from"]: f["queue"] for f in switch.flows()}
    assert queues == {"a": 0, "b": 1}, "the receive queues are dealt out"
    assert apps["b"].send(0, [frame("b", "c", 3)]) == 1
    switch.turns(1)
    assert not apps["c"].sleep(), "the second worker's doorbell counts as news"


def test_doorbells_of_all_workers_are_answered_in_turn():
    """A worker that has always news does not hide those of another."""
    switch, apps = switch_of()
    apps["b"].send(0, [frame("b", "c", 99)])
    seen = []
    for i in range(6):
        apps["a"].send(0, [frame("a", "c", i)])
        switch.turns(1)
        seen += [int(payload_of(f)) for _, f in apps["c"].receive(1)]
    assert 99 in seen[:3]


def test_what_all_workers_have_put_in_counts():
    """Two stopped flows from different workers leave buffers of their receiver for a third."""
    switch, apps = switch_of(mode="dpfq", shape={"buffers": 256, "buffer_bytes": 64})
    for _ in range(40):
        for name in "ab":
            if apps[name].waiting(0) < 5000:
                apps[name].send(0, [frame(name, "c", 1)] * 8)
        switch.turns(2)
        time.sleep(0.0002)
    taken = {f["from"]: f["frames"] for f in switch.flows()}
    assert min(taken.values()) >= 40 and sum(taken.values()) < 240, taken
    apps["d"].send(0, [frame("d", "c", 1)])
    switch.turns(2)
    assert [f["frames"] for f in switch.flows() if f["from"] == "d"] == [1] and not any(p["drops"] for p in switch.ports())


def test_idle_flows_of_all_workers_are_forgotten():
    switch, apps = switch_of(idle="1ms", flows=512)
    talk = Talk(apps)
    for _ in range(3):
        talk.send(70)
        for _ in range(40):
            switch.turns(2)
            talk.receive(500)
        assert talk.got == talk.sent
        end = time.monotonic() + 120
        while switch.flows() and time.monotonic() < end:
            time.sleep(0.002)
            switch.turns(2)
            talk.receive(10)
        switch.turns(2)
        talk.receive(10)
        assert switch.counters()["free_flows"] == 2 * 512 and switch.counters()["flows"] == 0
        assert all(app.free_rings() >= 256 - 3 and app.protocol_errors == 0 for app in apps.values())


def test_a_port_goes_while_all_run_and_comes_again():
    """Frames of others are not lost by it; what was on its way to it is dropped and counted."""
    switch, apps = switch_of(mode="dpfq")
    switch.start()
    talk = Talk({name: apps[name] for name in "abc"})
    for i in range(60):
        talk.send(5)
        if i % 6 == 0:
            apps["a"].send(7, [frame("a", "d", i)] * 3)
            apps["b"].send(7, [frame("b", "d", i)] * 3)
        talk.receive(50)
        if i % 6 == 3:
            assert switch.call(lambda: switch.detach_name("d"))
            gone = apps["d"]
            apps["d"] = Region.create()
            region = Region.attach(apps["d"].fd, apps["d"].shape)
            assert switch.call(lambda r=region: switch.attach("d", r, [ADDRESSES["d"]])) == 3
            assert gone.protocol_errors == 0
    talk.finish()
    assert {f["to"] for f in switch.call(switch.flows)} >= {"a", "b", "c"}
    assert len(switch.detached) == 10 and not any(set(p["drops"]) - {"no_route"} for p in switch.call(switch.ports))
    switch.stop()
    with pytest.raises(RuntimeError, match="has ended"):
        switch.call(switch.ports)


def test_protocol_errors_at_the_second_worker_detach():
    """It is the first that detaches, while all rest."""
    switch, apps = switch_of()
    named = []
    switch.start(on_protocol_errors=lambda names, _: named.extend(names))
    liar = apps["d"]  # at home with the second worker
    for _ in range(200):
        liar.ring_doorbell(1 << 19, 1)
        time.sleep(0.0001)
    end = time.monotonic() + 120
    while "d" in switch.names.values() and time.monotonic() < end:
        liar.ring_doorbell(1 << 19, 1)
        time.sleep(0.001)
    assert named == ["d"] and switch.call(lambda: switch.detached)[0]["state"] == "nonsense"
    talk = Talk({name: apps[name] for name in "abc"})
    talk.send(20)
    talk.finish()
    switch.stop()


@pytest.mark.parametrize("name", ["c", "d"])
def test_invalid_writes_while_both_run(name):
    """It scribbles over its region while both workers deliver to it; it goes, comes again, and the others lose nothing."""
    rng = np.random.default_rng(11)
    shape = {"rings": 64, "queues": 8, "bells": 32, "buffers": 128, "buffer_bytes": 128}
    switch, apps = switch_of(mode="dpfq", shape=shape, idle="1ms")
    others = [other for other in apps if other != name]
    gone = []
    switch.start(on_protocol_errors=lambda names, _: gone.extend(names))
    talk = Talk({other: apps[other] for other in others})
    number = list(ADDRESSES).index(name)
    region = np.frombuffer(mmap.mmap(apps[name].fd, os.fstat(apps[name].fd).st_size), dtype=np.uint64)
    start, i = time.monotonic(), 0
    while time.monotonic() - start < 1.0 or min(talk.sent.values()) <= 20:
        i += 1
        words = rng.integers(0, 140, 30, dtype=np.uint64)
        region[rng.integers(0, len(region), 30)] = words | np.uint64([0, 1 << 63, 1 << 62, 3 << 61][i % 4])
        apps[name].send(int(rng.integers(0, 8)), [frame(name, others[0], i, port=1 + i % 50)] * 3)
        for other in others:
            if apps[other].waiting(7) < 500:
                apps[other].send(7, [frame(other, name, i)])
        if i % 8 == 0:
            talk.send(1)
        talk.receive(40)
        if gone:
            gone.clear()
            apps[name] = Region.create(**shape)
            region = np.frombuffer(mmap.mmap(apps[name].fd, os.fstat(apps[name].fd).st_size), dtype=np.uint64)
            again = Region.attach(apps[name].fd, shape)
            assert switch.call(lambda r=again: switch.attach(name, r, [ADDRESSES[name]])) == number
    switch.call(lambda: switch.detach_name(name))
    talk.finish()
    assert min(talk.sent.values()) > 20
    end = time.monotonic() + 120
    while switch.call(switch.counters)["flows"] and time.monotonic() < end:
        for other in others:
            apps[other].receive(1000)
    assert switch.call(switch.counters)["free_flows"] == 2 * switch.settings["flows"], "no flow has leaked"
    assert len(switch.detached) >= 1 and all(apps[other].protocol_errors == 0 for other in others)
    switch.stop()


def flood(path, name, target):
    with connect(name, path) as port:
        number = 0
        while True:
            port.send_all(0, [frame(name, target, number + i) for i in range(16)], 1)
            port.receive(64)
            number += 16


def test_a_killed_application_is_detached_and_others_go_on(tmp_path):
    spec = {
        "switch": {"workers": 2, "mode": "dpfq"},
        "port": [{"name": name, "addresses": [address]} for name, address in ADDRESSES.items()],
    }
    daemon = Daemon(spec, str(tmp_path / "s.sock"))
    serving = threading.Thread(target=daemon.serve)
    serving.start()
    try:
        with connect("a", daemon.path) as a, connect("b", daemon.path) as b:
            talk = Talk({"a": a, "b": b})
            for target in ("a", "b", "c"):
                with forked(flood, daemon.path, "d", target):
                    talked = time.monotonic() + 0.3
                    while time.monotonic() < talked or min(talk.sent.values()) <= 100:
                        talk.send(4)
                        talk.receive(200)
                end = time.monotonic() + 120
                while "d" in daemon.switch.names.values() and time.monotonic() < end:
                    time.sleep(0.001)
                assert "d" not in daemon.switch.names.values()
            talk.finish()
            assert min(talk.sent.values()) > 100
    finally:
        daemon.over.set()
        serving.join()


@pytest.mark.parametrize("settings", [{"workers": 0}, {"workers": 5}, {"workers": "two"}, {"workers": True}])
def test_workers_may_be_anything(settings):
    with pytest.raises(SpecError, match=r"switch\.workers"):
        validate_settings(settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"workers": 2, "cpu": 0}, "one CPU for each of 2 workers"),
        ({"workers": 2, "cpus": [0, 0]}, "one CPU for each"),
        ({"cpus": [-1]}, "must be of"),
        ({"cpus": "all"}, "must be of"),
        ({"cpu": 0, "cpus": [0]}, "leave one out"),
    ],
)
def test_cpus_may_be_anything(settings, message):
    with pytest.raises(SpecError, match=message):
        validate_spec({"switch": settings, "port": [{"name": "a", "addresses": ["10.0.0.1"]}]})


def test_a_region_needs_a_queue_for_every_worker():
    switch = Switch(workers=4)
    app = Region.create(queues=3)
    with pytest.raises(SpecError, match="too few for 4 workers"):
        switch.attach("a", Region.attach(app.fd, app.shape), ["10.0.0.1"])
    with pytest.raises(SpecError, match="new start"):
        switch.set({"workers": 1})


def test_an_error_of_a_call_keeps_nothing_alive(uncollected):
    """Neither the worker's thread nor the error itself holds what the function used: a device would stay open with it."""
    switch, used = switch_of()[0], {1}

    def fail(device):
        raise SpecError(f"for {len(device)}")

    seen = weakref.ref(used)
    switch.start()
    try:
        with pytest.raises(SpecError, match="for 1"):
            switch.call(functools.partial(fail, used))
        del used
        assert seen() is None
    finally:
        switch.stop()
