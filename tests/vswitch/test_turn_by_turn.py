"""The world of tests that drive a switch turn by turn: its clock, what is random in it, and what it refuses."""

import os
import random
import threading
import time

import pytest
from frames import udp
from test_switch import A, B, switch_of
from turn_by_turn import READ_NS, NotComputed, used

from penstock_net.vswitch import world

S = 10**9


def test_as_much_time_passes_as_is_slept():
    before = time.monotonic_ns()
    time.sleep(5)
    assert time.monotonic_ns() == before + 5 * S + READ_NS
    assert world.time.monotonic_ns() == before + 5 * S + 2 * READ_NS, "the switch has the same clock"
    date = time.time()
    world.time.sleep(60)
    assert 60 <= time.time() - date < 60.001


def test_compiled_code_has_this_clock():
    switch, a, b = switch_of(A, B, idle="1s")
    a.send(0, [udp(A, B)])
    switch.turns(1)
    assert len(b.receive()) == 1
    for seconds, flows in ((0.9, 1), (0.2, 0)):
        time.sleep(seconds)
        switch.turns(2)
        assert len(switch.flows()) == flows, seconds


def test_no_thread_is_started():
    with pytest.raises(NotComputed, match="a thread"):
        threading.Thread(target=print).start()
    switch = switch_of(A)[0]
    with pytest.raises(NotComputed, match="a thread worker 0"):
        switch.start()


def test_the_processors_are_the_same_on_each_machine():
    """Where processor 0 was not to be used, tests of settings with `cpu` and `cpus` failed."""
    assert world.os.sched_getaffinity(0) == {0, 1}


def test_what_is_random_is_the_same_in_each_run():
    found = []
    for _ in range(2):
        with used():
            found.append((os.urandom(8), world.os.urandom(8), random.random(), time.monotonic()))
    assert found[0] == found[1] and found[0][0] != found[0][1]
