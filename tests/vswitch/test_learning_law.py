"""Any frames, from any addresses, at any time, through ports that learn: what comes out of each port is what the model says."""

import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learning_bench import OWN, SECOND, TURN_NS, Bench, Model, station, tagged

PLAIN = (
    {"broadcast": True},
    {"learn": True, "stations": 2, "station_idle": "1s", "mac": False},
    {"learn": True, "stations": 3, "station_idle": "2s"},
    {"learn": True, "stations": 1, "station_idle": "1s", "mac": False},
)
VLANS = (
    {"broadcast": True, "vlan": 10},
    {"learn": True, "stations": 3, "station_idle": "1s", "trunk": [10, 20], "native": 30, "mac": False},
    {"learn": True, "stations": 2, "station_idle": "2s", "vlan": 10},
    {"learn": True, "stations": 2, "station_idle": "1s", "trunk": [20, 30], "mac": False},
)
ALL = b"\xff" * 6
SOURCES = [*map(station, range(5)), *OWN[:3]]
TARGETS = [*SOURCES, station(77), ALL, b"\x01\x80\xc2\0\0\x0e"]
FRAME = st.tuples(
    st.integers(0, 3), st.sampled_from([None, None, 10, 20, 30]), st.sampled_from(SOURCES), st.sampled_from(TARGETS)
)
STEP = st.one_of(FRAME, FRAME, FRAME, st.sampled_from([0.3, 0.7, 1.1]), st.sampled_from(["flush 1", "flush 2", "again 2"]))


class Run:
    """Steps, done by a switch and by models; `seen` is what the switch did."""

    def __init__(self, ports, headers=False):
        self.bench, self.ports, self.seen, self.number = Bench(ports, headers), ports, [], 0

    def do(self, step):
        bench = self.bench
        if isinstance(step, float):
            bench.clock.ns += int(step * SECOND)
        elif isinstance(step, str):
            what, port = step.split()
            if what == "flush":
                bench.switch.drivers[int(port)].forget_stations()
            else:  # port del, and port add
                bench.switch.detach(int(port))
                bench.attach(int(port))
        else:
            port, tag, source, target = step
            self.number += 1
            frame = target + source + b"\x88\xb5" + struct.pack("!I", self.number) + bytes(50)
            now = bench.clock.ns + TURN_NS
            bench.send(port, tagged(frame, tag))
            got = {i: frames for i, frames in enumerate(bench.got()) if frames}
            self.seen.append((now, got, frame))
            return
        self.seen.append(None)


def first_difference(model, steps, seen):
    """The number of the first step that a model does not agree with, or -1."""
    for i, (step, did) in enumerate(zip(steps, seen)):
        if did is None:
            if isinstance(step, str):
                model.flush(int(step.split()[1]))
            continue
        now, got, frame = did
        port, tag, source, target = step
        expected = model.send(port, tag, source, target, now)
        if got != {to: [tagged(frame, out)] for to, out in expected.items()}:
            return i
    return -1


def run(ports, steps, headers=False):
    found = Run(ports, headers)
    for step in steps:
        found.do(step)
    return found


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([PLAIN, VLANS]), st.booleans(), st.lists(STEP, max_size=40))
def test_frames_come_out_where_the_model_says(ports, headers, steps):
    found, model = run(ports, steps, headers), Model(ports)
    at = first_difference(model, steps, found.seen)
    assert at < 0, (steps[: at + 1], found.seen[at])
    rows = [found.bench.row(i) for i in range(len(ports))]
    if not any(isinstance(step, str) for step in steps):  # counters begin anew with a port
        assert sum(row["stations_beyond"] for row in rows) == model.beyond
        assert sum(row["stations_moved"] for row in rows) == model.moved
        assert sum(row["station_spoofed"] for row in rows) == model.spoofed
        assert sum(row["same_port"] for row in rows) == model.hairpins
    live = model.live(found.bench.clock.ns)
    for i, table in enumerate(ports):
        assert found.bench.stations(i) == {key for key, entry in live.items() if entry[0] == i}
        assert found.bench.row(i)["stations"] <= table.get("stations", 0)
    found.bench.close()


# ---- Mistakes in the model, which the same steps must find ----


class NeverForgets(Model):
    def live(self, now):
        return self.where


class NotRefreshed(Model):
    def learn(self, i, vlan, mac, now):
        before = self.live(now).get(self.key(vlan, mac))
        before = before and list(before)
        found = super().learn(i, vlan, mac, now)
        if before and before[0] == i:
            self.where[self.key(vlan, mac)] = before
        return found


class OneLimit(Model):
    def is_full(self, i):
        return len(self.where) >= sum(self.limit)


class EvictsTheOldest(Model):
    def is_full(self, i):
        own = {key: entry for key, entry in self.where.items() if entry[0] == i}
        if len(own) >= self.limit[i]:
            del self.where[min(own, key=lambda key: own[key][1])]
        return False


class StaysWhereItWas(Model):
    def learn(self, i, vlan, mac, now):
        entry = self.live(now).get(self.key(vlan, mac))
        return True if entry and entry[0] != i else super().learn(i, vlan, mac, now)


class NoVlans(Model):
    def key(self, vlan, mac):
        return 0, mac


class LearnsStaticOnes(Model):
    def learn(self, i, vlan, mac, now):
        self.static = {}
        return super().learn(i, vlan, mac, now)


class DropsUnknown(Model):
    def unknown(self, i, vlan):
        return set()


class FloodsToAll(Model):
    def unknown(self, i, vlan):
        return self.flooded(i, vlan, lambda _: True)


class SendsBack(Model):
    def hairpin(self, i):
        return {i}


class KeepsStationsOfPorts(Model):
    def flush(self, i):
        pass


class OneIdleTime(Model):
    def live(self, now):
        return {key: entry for key, entry in self.where.items() if now - entry[1] <= self.idle[1]}


MISTAKES = [each for each in globals().values() if isinstance(each, type) and issubclass(each, Model) and each is not Model]


def walk(ports):
    """Some hundred steps, always the same."""
    draw, steps = random.Random(5), []
    for _ in range(700):
        if draw.random() < 0.15:
            steps.append(draw.choice([0.3, 0.7, 1.1, "flush 1", "again 2"]))
        else:
            tags = [None] if ports is PLAIN else [None, 10, 20, 30]
            steps.append((draw.randrange(4), draw.choice(tags), draw.choice(SOURCES), draw.choice(TARGETS)))
    return steps


@pytest.fixture(scope="module")
def walks():
    found = []
    for ports in (PLAIN, VLANS):
        done = run(ports, walk(ports))
        found.append((ports, walk(ports), done.seen))
        done.bench.close()
    return found


def test_the_walks_are_the_model_s(walks):
    assert [first_difference(Model(ports), steps, seen) for ports, steps, seen in walks] == [-1, -1]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(walks, mistake):
    assert any(first_difference(mistake(ports), steps, seen) >= 0 for ports, steps, seen in walks)
