"""Guests that lie about their rings and memory harm themselves only: the port counts it and sends them away."""

import os
import struct
import time

import pytest
from drawn import examples
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from test_vhost_user import FRAME, NO_HEADER, attached, take
from vhost_front_end import EVENTS, F_INDIRECT, F_NEXT, F_WRITE, GUEST, USUAL, FrontEnd, connect
from waiting import until

from penstock_net.vswitch.attach.open import open_port

SIZE = 1 << 22  # of a guest's memory


def lie_loop(front, ring, flags):
    ring.describe(0, GUEST, 64, flags | F_NEXT, 1)
    ring.describe(1, GUEST, 64, flags | F_NEXT, 0)


def lie_empty_loop(front, ring, flags):
    ring.describe(0, GUEST, 0, flags | F_NEXT, 0)


def lie_long_table(front, ring, flags):
    ring.describe(0, GUEST, 16 * (SIZE // 16), F_INDIRECT)
    front.write(0, struct.pack("<QIHH", GUEST, 0, F_NEXT, 0))


def lie_nested(front, ring, flags):
    at = front.room(16)
    front.write(at, struct.pack("<QIHH", GUEST + at, 16, F_INDIRECT, 0))
    ring.describe(0, GUEST + at, 16, F_INDIRECT)


LIES = {
    "an address outside": lambda front, ring, flags: ring.describe(0, GUEST + SIZE, 64, flags),
    "an address before": lambda front, ring, flags: ring.describe(0, GUEST - 1, 64, flags),
    "an address of the front end": lambda front, ring, flags: ring.describe(0, 0x7000_0000_0000, 64, flags),
    "an address that wraps around": lambda front, ring, flags: ring.describe(0, (1 << 64) - 8, 64, flags),
    "a length beyond the end": lambda front, ring, flags: ring.describe(0, GUEST + SIZE - 63, 64, flags),
    "the longest length": lambda front, ring, flags: ring.describe(0, GUEST, 0xFFFFFFFF, flags),
    "a loop": lie_loop,
    "a loop of nothing": lie_empty_loop,
    "a next one that is not there": lambda front, ring, flags: ring.describe(0, GUEST, 64, flags | F_NEXT, 256),
    "the other direction": lambda front, ring, flags: ring.describe(0, GUEST, 64, flags ^ F_WRITE),
    "a table in a table": lie_nested,
    "a table that goes on": lambda front, ring, flags: ring.describe(0, GUEST, 64, F_INDIRECT | F_NEXT, 1),
    "a table of an odd length": lambda front, ring, flags: ring.describe(0, GUEST, 24, F_INDIRECT),
    "a table of nothing": lambda front, ring, flags: ring.describe(0, GUEST, 0, F_INDIRECT),
    "a table outside": lambda front, ring, flags: ring.describe(0, GUEST + SIZE, 32, F_INDIRECT),
    "a table as long as the memory": lie_long_table,
}


@pytest.mark.parametrize("way", [0, 1])
@pytest.mark.parametrize("what", LIES)
def test_a_chain_that_breaks_the_rules(tmp_path, what, way):
    with attached(tmp_path, memory=SIZE) as (port, front):
        ring = front.rings[way]
        LIES[what](front, ring, 0 if way else F_WRITE)
        ring.offer(0)
        if way:
            assert port.receive() is None
        else:
            assert port.send(NO_HEADER + FRAME) and port.counters["lost"] == 1
        assert front.has_ended and os.eventfd_read(ring.err) == 1, "the guest is told"
        until(lambda: not port.report()["connected"])
        assert port.report()["bad_descriptors"] == 1 and "breaks the rules" in port.report()["why"]
        assert port.receive() is None and port.send(NO_HEADER + FRAME)


@pytest.mark.parametrize("way", [0, 1])
@pytest.mark.parametrize("index", [257, 0x8000, 0xFFFF])
def test_an_index_that_jumps(tmp_path, way, index):
    with attached(tmp_path) as (port, front):
        front.rings[way].put = index
        front.rings[way].show()
        assert port.receive() is None and port.send(NO_HEADER + FRAME)
        assert front.has_ended


def test_a_head_that_is_not_there(tmp_path):
    with attached(tmp_path) as (port, front):
        front.rings[1].offer(256)
        assert port.receive() is None and front.has_ended


@pytest.mark.parametrize("rest", [0, 4096, 1 << 17, SIZE - 4096])
def test_memory_that_is_taken_away(tmp_path, rest):
    """An access to it would end the process (SIGBUS); other guests go on."""
    path = str(tmp_path / "other.sock")
    with (
        attached(tmp_path, memory=SIZE) as (port, front),
        open_port("vhost-user", path=path) as other,
        FrontEnd(connect(path)) as good,
    ):
        good.begin()
        front.next = SIZE - 2048
        front.transmit(FRAME)
        os.ftruncate(front.fd, rest)
        port.receive()
        assert port.receive() is None and port.send(NO_HEADER + FRAME)
        assert front.has_ended
        until(lambda: not port.report()["connected"])
        assert port.report()["why"] == "vhost-user: the guest's memory was taken away"
        good.transmit(FRAME)
        assert take(other) == [NO_HEADER + FRAME]


def test_a_guest_that_lied_may_come_back(tmp_path):
    path = str(tmp_path / "v.sock")
    with open_port("vhost-user", path=path) as port:
        with FrontEnd(connect(path)) as front:
            front.begin()
            front.rings[1].offer(999)
            assert port.receive() is None and front.has_ended
        before = time.monotonic()
        with FrontEnd(connect(path)) as front:
            front.begin()
            assert time.monotonic() - before > 0.1, "not at once: a guest could keep its port's thread busy"
            front.transmit(FRAME)
            assert take(port) == [NO_HEADER + FRAME]


# ---- Any memory at all ----

WORDS = st.one_of(
    st.integers(0, 2**64 - 1),
    st.integers(GUEST - 100, GUEST + 3000),
    st.integers(GUEST + SIZE - 3000, GUEST + SIZE + 100),
    st.builds(lambda length, flags, following: length | flags << 32 | following << 48,
              st.integers(0, 3000), st.integers(0, 7), st.integers(0, 12)),
)  # fmt: skip


@examples(30, suppress_health_check=list(HealthCheck))
@example(words=[0, 0, 1 << 32, 65563, *[0] * 12], heads=[1], indices=[0, 1], features=USUAL)  # a frame that is too long
@given(
    words=st.lists(WORDS, min_size=16, max_size=40),
    heads=st.lists(st.one_of(st.integers(0, 9), st.integers(0, 65535)), min_size=1, max_size=12),
    indices=st.lists(st.one_of(st.integers(0, 12), st.integers(0, 65535)), min_size=2, max_size=4),
    features=st.sampled_from([USUAL, USUAL | EVENTS, USUAL & ~(1 << 15)]),
)
def test_any_rings(tmp_path_factory, words, heads, indices, features):
    """Whatever a guest writes, the port neither ends nor writes outside of the guest's memory, and takes the next guest."""
    folder = tmp_path_factory.mktemp("guest", numbered=True)
    with attached(folder, features, size=16, memory=1 << 20) as (port, front):
        for ring in front.rings:
            front.write(ring.at, struct.pack(f"<{min(len(words), 32)}Q", *words[:32]))
            front.write(ring.available + 4, struct.pack(f"<{len(heads)}H", *heads))
        too_long = 0  # of what was sent to the guest: the port counts both ways together
        for index in indices:
            for ring in front.rings:
                front.write(ring.available + 2, struct.pack("<H", index))
            for _ in range(20):
                port.receive()
                before = port.counters["too_long"]
                port.send(NO_HEADER + FRAME)
                too_long += port.counters["too_long"] - before
            port.flush()
        counters = port.counters
        assert counters["frames_out"] + counters["lost"] + too_long + counters["no_room"] == 20 * len(indices)
        report = port.report()
        assert report["bad_descriptors"] <= 1
