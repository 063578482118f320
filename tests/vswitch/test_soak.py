"""The soak, for a short while; `python tests/vswitch/soak.py --seconds 3600` runs it for as long as one likes."""

import random
import socket

import pytest
import soak
import soak_faults
from soak_traffic import Streams
from test_lab import FORBIDDEN
from waiting import until

LOOPBACK = type("Loopback", (), {"socket": staticmethod(socket.socket)})
pytestmark = pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))


def test_honest_traffic_beside_faults():
    seed = random.randrange(10**6)
    print(f"{seed=}")
    done, text = soak.run(seed, steps=200)
    print(text)
    assert set(done.begun) == set(soak_faults.FAULTS), "each fault has been there"
    assert done.datagrams.received > 1000 and done.frames.received > 1000 and done.streams.complete > 10


def test_streams_to_another_switch_over_a_bad_network():
    """They go on when the network is good again and when the other switch is back; the other traffic is not affected."""
    seed = random.randrange(10**6)
    print(f"{seed=}")
    done, text = soak.run(seed, steps=60, overlay=True, names=list(soak_faults.OF_TWO))
    print(text)
    assert set(done.begun) == set(soak_faults.OF_TWO) and done.far_streams[0].complete > 1


def test_a_stream_that_the_other_end_has_forgotten_begins_anew():
    """A soak of an hour waited for it for ever: all was sent, and the reset that followed was seen by nobody."""
    streams = Streams(LOOPBACK, LOOPBACK, "127.0.0.1", 1, steady=False)
    listening = streams.server
    with socket.socket() as streams.server:
        streams.server.bind(("127.0.0.1", 0))
        streams.server.setblocking(False)
        streams.begin()
        streams.at = len(streams.content)
        until(lambda: streams.offer() or streams.forgotten)
    streams.server = listening

    def complete():
        streams.offer()
        streams.take()
        return streams.complete > 2

    until(complete)
    assert streams.forgotten == 1
    streams.close()
