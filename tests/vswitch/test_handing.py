"""The state of a switch as arrays: another switch that is given it goes on as the first would have."""

import contextlib
import json
import os
import socket

import numpy as np
import pytest
from drawn import examples
from frames import payload_of, udp
from hypothesis import example, given
from hypothesis import strategies as st
from proven import accounted
from test_lab import FORBIDDEN
from waiting import until

from penstock_net.errors import PenstockError
from penstock_net.vswitch.attach import devices, handing
from penstock_net.vswitch.attach.devices import Device
from penstock_net.vswitch.attach.lab import Namespace
from penstock_net.vswitch.attach.open import open_link
from penstock_net.vswitch.dataplane.driver import attach_device, install_device, prepare_device, sizes
from penstock_net.vswitch.dataplane.switch import Switch
from penstock_net.vswitch.memory.region import Region
from penstock_net.vswitch.support import blocks, carried, layouts
from penstock_net.vswitch.support.balance import balance

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"
needs_root = pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))
ADDRESSES = {"a": A, "b": B, "c": C}


def packed(switch):
    """The state of a switch as it is sent: text, and arrays."""
    out = blocks.Blocks()
    found = carried.pack(switch, out, sizes())
    fd, directory = out.write()
    text = json.loads(json.dumps({"found": found, "directory": directory}))
    try:
        return text["found"], blocks.read(fd, text["directory"])
    finally:
        os.close(fd)


def handed_over(switch, devices=(), addresses=ADDRESSES):
    """Another switch with the same regions and the same state; the first one must do nothing more."""
    found, arrays = packed(switch)
    new = Switch(**{**switch.settings, **{key: f"{switch.settings[key]}ns" for key in ("spin", "idle")}})
    for number, region in sorted(switch.regions.items()):
        name = switch.names[number]
        if number in switch.drivers:
            device = devices[name]
            prepare_device(new, name, device, switch.drivers[number].region.fd)
            install_device(new, name, device, [addresses[name]], number=number)
        else:
            new.attach(name, Region.attach(region.fd, region.shape), [addresses[name]], number=number)
    carried.unpack(new, found, arrays, sizes())
    return new


def test_what_an_idle_device_adds_to_the_pause_is_little(monkeypatch):
    """The pause of an upgrade is in proportion to what is carried: not all queues of a port, nor each field of each port."""
    packed_one, counts, sizes_of = layouts.packed, [], []
    monkeypatch.setattr(carried, "packed", lambda array: counts.append(1) or packed_one(array))
    for count in (2, 6):
        switch = Switch()
        ends = [open_link(headers=False) for _ in range(count)]
        for i, (_, port) in enumerate(ends):
            attach_device(switch, f"p{i}", Device(port), [f"10.0.0.{i + 1}"])
        counts.clear()
        out = blocks.Blocks()
        carried.pack(switch, out, sizes())
        sizes_of.append((len(counts), sum(array.nbytes for array in out.arrays.values())))
        switch.close()
    (calls, few), (calls_of_many, many) = sizes_of
    assert calls == calls_of_many and (many - few) / 4 < 16_384, sizes_of


def differences(one, other):
    """The arrays of two states that are not the same."""
    assert one.keys() == other.keys()
    return [name for name in one if one[name].tobytes() != other[name].tobytes()]


class Native:
    """A switch and three applications."""

    def __init__(self, **settings):
        self.switch = Switch(**settings)
        self.apps = {name: Region.create(queues=16, buffers=256) for name in ADDRESSES}
        for name, app in self.apps.items():
            self.switch.attach(name, Region.attach(app.fd, app.shape), [ADDRESSES[name]])
        self.sent, self.seen = 0, {name: [] for name in self.apps}

    def send(self, name, to, queue, count, port=2000):
        made = []
        for _ in range(count):
            payload = self.sent.to_bytes(8, "big") + bytes(400)  # so that a few frames fill a queue
            made.append(udp(ADDRESSES[name], ADDRESSES[to], 1000 + queue, port, payload))
            self.sent += 1
        taken = self.apps[name].send(queue, made)
        self.sent -= count - taken
        return taken

    def rows(self):
        """What it says of itself, as clients are told it."""
        switch = self.switch
        found = [switch.ports(), switch.flows(), balance(switch), switch.left(), switch.detached, switch.totals]
        return json.loads(json.dumps(found))

    def take(self, name, count):
        self.seen[name] += [frame for _, frame in self.apps[name].receive(count)]

    def turn_and_take(self, turns):
        self.switch.turns(turns)
        for name in self.apps:
            self.take(name, 10_000)


STEP = st.one_of(
    st.tuples(st.just("send"), st.sampled_from("abc"), st.sampled_from("abc"), st.integers(0, 3), st.integers(1, 60)),
    st.tuples(st.just("take"), st.sampled_from("abc"), st.integers(1, 60)),
    st.tuples(st.just("turn"), st.integers(1, 20)),
    st.tuples(st.just("hand over")),
    st.tuples(st.just("detach"), st.sampled_from("abc")),
)


@examples(60)
@given(steps=st.lists(STEP, max_size=40), mode=st.sampled_from(["backdraft", "dpfq", "pfc", "lossy"]))
@example([("send", "a", "b", 0, 60), ("turn", 20), ("hand over",), ("take", "b", 30), ("turn", 20)], "dpfq")
@example([("send", "a", "b", 0, 60), ("turn", 20), ("hand over",), ("take", "b", 30), ("turn", 20)], "pfc")
def test_a_switch_that_is_handed_over_at_any_time_loses_nothing_and_keeps_the_order(steps, mode):
    native = Native(mode=mode, th_goal="1KB", th_over="2KB", th_net="4KB", flows=4096)
    for what, *how in [*steps, ("hand over",)]:
        if what == "send":
            name, to, queue, count = how
            if name in native.switch.names.values():
                native.send(name, to, queue, count)
        elif what == "take":
            native.take(*how)
        elif what == "turn":
            native.switch.turns(how[0])
        elif what == "detach":
            native.switch.detach_name(how[0])
        else:
            rows = native.rows()
            before = packed(native.switch)
            native.switch = handed_over(native.switch)
            after = packed(native.switch)
            assert not differences(before[1], after[1]) and before[0] == after[0]
            assert rows == native.rows()

    def nothing_waits():
        native.turn_and_take(8)
        return not native.switch.waiting() and not any(row["waiting_frames"] for row in native.switch.left())

    until(nothing_waits)
    native.turn_and_take(0)
    found = balance(native.switch)
    accounted(found)
    assert not found["parked"]
    if not native.switch.detached:
        dropped = sum(sum(found[kind].values()) for kind in ("lost", "refused"))
        assert sum(map(len, native.seen.values())) + dropped == native.sent
    for frames in native.seen.values():
        flows = {}
        for frame in frames:
            flows.setdefault(frame[26:38], []).append(payload_of(frame))
        assert all(numbers == sorted(numbers) for numbers in flows.values())


def test_two_workers():
    native = Native(workers=2, th_goal="1KB", th_over="2KB", th_net="4KB", flows=4096)
    sent = sum(native.send(name, to, queue, 5) for name in "abc" for to in "abc" for queue in range(8))
    native.switch.turns(10)
    native.switch = handed_over(native.switch)

    def all_seen():
        native.turn_and_take(2)
        return sum(map(len, native.seen.values())) >= sent

    until(all_seen)
    assert sum(map(len, native.seen.values())) == sent
    accounted(balance(native.switch))


def wired(headers=False, **settings):
    """A switch with an application, and a device whose other end is ours."""
    ends = open_link(rate="10Gbps", delay="1us", headers=headers, memory="16MiB")
    switch, app = Switch(**settings), Region.create(queues=64, buffers=1024)
    switch.attach("a", Region.attach(app.fd, app.shape), [A])
    device = Device(ends[0])
    attach_device(switch, "b", device, [B])
    return switch, app, device, ends[1]


def test_frames_that_wait_at_a_device_both_ways():
    switch, app, device, wire = wired(th_goal="1KB", th_over="2KB", th_net="4KB")
    for i in range(200):
        assert wire.send(udp(B, A, 1000 + i % 7, 2000, i.to_bytes(8, "big")))
    assert app.send(0, [udp(A, B, 5, 6, i.to_bytes(8, "big")) for i in range(100)]) == 100
    switch.turns(30)
    before = packed(switch)
    kept = device.driver  # whose memory the state is read from
    new = handed_over(switch, {"b": device})
    after = packed(new)
    assert not differences(before[1], after[1]) and before[0] == after[0] and kept is not device.driver
    for i in range(200, 300):  # of the same flows, behind those that wait
        assert wire.send(udp(B, A, 1000 + i % 7, 2000, i.to_bytes(8, "big")))
    came, went = [], []

    def all_arrived():
        new.turns(4)
        came.extend(int.from_bytes(payload_of(frame), "big") for _, frame in app.receive(100))
        while (frame := wire.receive()) is not None:
            went.append(payload_of(frame)[:8])
        return len(came) >= 300 and len(went) >= 100

    until(all_arrived)
    flows = [[number for number in came if number % 7 == k] for k in range(7)]
    assert len(came) == 300 and flows == [list(range(k, 300, 7)) for k in range(7)], "each in order"
    assert went == [i.to_bytes(8, "big") for i in range(100)]
    accounted(balance(new))
    assert not balance(new)["lost"]


def test_what_was_read_ahead_is_put_back_and_counts_once():
    left, right = open_link(rate="10Gbps", delay="1us", headers=False, memory="16MiB")
    frames = [udp(A, B, payload=bytes([i])) for i in range(3)]
    left.put_back(frames)
    assert left.counters["frames_in"] == 0
    assert left.receive() == frames[0] and left.counters["frames_in"] == 1
    assert left.take_out() == frames[1:] and left.counters["frames_in"] == 1
    left.put_back(frames[1:])
    assert [left.receive(), left.receive(), left.receive()] == [*frames[1:], None]
    assert left.counters["frames_in"] == 3 and left.counters["bytes_in"] == sum(map(len, frames))
    assert right.send(frames[0]) and right.flush()
    for _ in range(10_000):
        if (frame := left.receive()) is not None:
            break
    assert frame == frames[0]


def handed_device(device, table):
    """A device on the same descriptors, which goes on where the first one is; that one must do nothing more."""
    fds = handing.Descriptors()
    found, waits = json.loads(json.dumps([handing.give(device, fds), handing.stop(device)]))
    assert waits["port"]["numbers"]["lengths"] == [], "the network has taken them"
    stopped = {"port": {**found["port"], "back": waits["port"]["back"]}, "edge": None}  # as if it had not
    new = handing.take(table, found, [os.dup(fd) for fd in fds.fds])
    handing.resume(new, stopped)
    return new


def test_a_socket_with_frames_that_were_read_ahead_and_frames_that_wait():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        peer = f"127.0.0.1:{other.getsockname()[1]}"
        table = devices.validate_device({"kind": "udp", "local": "127.0.0.1:0", "peer": peer, "super_frames": False}, "port")
        switch, device = Switch(), devices.open_device(table, [B], [])
        attach_device(switch, "b", device, [B])
        port = device.port
        for i in range(5):
            other.sendto(bytes([i]) * 60, os_address(port.fd))
        assert until(port.receive) == bytes([0]) * 60
        assert all(port.send(bytes([i]) * 60) for i in range(5, 9)), "they wait, as the batch is not full"
        new = handed_device(device, table).port
        assert [new.receive() for _ in range(4)] == [bytes([i]) * 60 for i in range(1, 5)]
        assert new.counters["frames_in"] == 4 and new.flush()
        other.settimeout(60)
        assert [other.recv(100) for _ in range(8)] == 2 * [bytes([i]) * 60 for i in range(5, 9)]
        assert new.send(bytes(60)) and new.flush() and other.recv(100) == bytes(60)
        new.close()
        switch.close()
        device.close()


@needs_root
@pytest.mark.parametrize("moved", [False, True])
def test_an_interface_of_the_same_name_is_not_taken_for_the_one_that_was_there(moved):
    """Its queueing discipline was taken for the edge's: its classes got rates, and were removed in the end."""
    with Namespace("left") as left, Namespace("other") as other, contextlib.ExitStack() as stack:
        paths = {space: f"/proc/{os.getpid()}/fd/{space.fd}" for space in (left, other)}
        table = devices.validate_device({"kind": "tap", "device": "sw0", "netns": paths[left]}, "port")
        switch, settings = Switch(), {"th_goal": 16_000, "th_over": 64_000}
        device = devices.open_device(table, [B], "port")
        stack.callback(device.close)
        attach_device(switch, "b", device, [B])
        stack.callback(switch.close)
        device.open_edge(list, settings)
        fds = handing.Descriptors()
        found = json.loads(json.dumps(handing.give(device, fds)))

        def taken():
            new = handing.take(table, found, [os.dup(fd) for fd in fds.fds])
            stack.callback(new.close)
            return new

        assert taken().interface.index == device.interface.index
        left.run("ip", "link", *(("set", "sw0", "netns", paths[other]) if moved else ("delete", "sw0")))
        stack.enter_context(left.tap("10.0.0.9/24", name="sw0"))
        new = taken()
        assert new.interface is None
        with pytest.raises(PenstockError, match="'sw0': the interface is gone"):
            new.guard_on(list, settings)


def os_address(fd):
    with socket.socket(fileno=os.dup(fd)) as s:
        return s.getsockname()


# ---- Layouts ----


def test_the_layouts_are_those_of_the_compiler():
    layouts.check(sizes())
    with pytest.raises(PenstockError, match="this build is broken"):
        layouts.check({"Flow": 1})


def test_every_field_is_carried_but_pointers_and_what_belongs_to_a_process():
    declared, _ = layouts._declared()
    for name in layouts.HANDED_OVER:
        names = layouts.carried_type(name).names
        for field in declared[name]:
            carried_too = any(each == field.name or each.startswith(f"{field.name}.") for each in names)
            if field.pointer or field.name in layouts.OWN.get(name, ()) or (name, field.name) == ("Worker", "ports"):
                assert not carried_too
            else:
                assert carried_too or layouts._is_pointer(field) or only_pointers(field.type), (name, field.name)


def only_pointers(name):
    declared, _ = layouts._declared()
    return all(layouts._is_pointer(field) for field in declared[name])


def test_a_field_that_only_one_of_them_knows_stays_as_it_is():
    new = np.zeros(3, [("a", "i4"), ("c", "i4")])
    new["c"] = 7
    layouts.set_fields(new, np.array([(1, 2)], [("a", "i4"), ("b", "i4")]), [1])
    assert new.tolist() == [(0, 7), (1, 7), (0, 7)]


def test_arrays_of_all_types_come_back():
    out = blocks.Blocks()
    arrays = {
        "numbers": np.arange(5, dtype="i8"),
        "none": np.zeros(0, "u1"),
        "rows": np.array([(1, [2, 3], [(4, 5)])], [("a", "i2"), ("b", "i4", (2,)), ("c", [("d", "u8"), ("e", "f8")], (1,))]),
    }
    for name, array in arrays.items():
        out.add(name, array)
    fd, directory = out.write()
    found = blocks.read(fd, json.loads(json.dumps(directory)))
    os.close(fd)
    assert all(found[name].dtype == array.dtype and found[name].tobytes() == array.tobytes() for name, array in arrays.items())
