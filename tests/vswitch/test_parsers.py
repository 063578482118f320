"""Arbitrary input from outside: headers, datagrams, recordings, requests, files of settings."""

import contextlib
import json
import random
import socket
import struct
import threading
import time
import tomllib

import fuzz_region
import pytest
from drawn import examples
from frames import udp
from hypothesis import given
from hypothesis import strategies as st

from penstock_net.errors import SpecError
from penstock_net.vswitch.attach.open import open_port
from penstock_net.vswitch.daemon import protocol
from penstock_net.vswitch.daemon.config import validate_spec
from penstock_net.vswitch.dataplane.switch import Switch
from penstock_net.vswitch.memory.region import Region
from penstock_net.vswitch.support.pcapfile import PCAP_BEGINNING, PCAPNG_BEGINNING, as_records, parse_frames

A, B = "10.0.0.1", "10.0.0.2"
ANYTHING = [A, B, fuzz_region.C, fuzz_region.SIX_B, fuzz_region.SIX_C, "02:02:02:02:02:02", "04:04:04:04:04:04"]


def reference(frame):
    """What frames.parse says, as the standards have it: a flow's (source, target, protocol, ports), or None: malformed."""
    if len(frame) < 14:
        return None
    at, kind = 14, frame[12:14]
    if kind == b"\x81\0":
        if len(frame) < 18:
            return None
        at, kind = 18, frame[16:18]
    rest = frame[at:]
    if kind == b"\x08\0":
        if len(rest) < 20 or rest[0] >> 4 != 4:
            return None
        header, total = 4 * (rest[0] & 15), struct.unpack_from("!H", rest, 2)[0]
        if header < 20 or header > total or total > len(rest):
            return None
        protocol, body = rest[9], rest[header:total]
        addresses = rest[12:16], rest[16:20]
        if struct.unpack_from("!H", rest, 6)[0] & 0x3FFF:
            return (*addresses, protocol, None)
    elif kind == b"\x86\xdd":
        if len(rest) < 40 or rest[0] >> 4 != 6 or len(rest) < 40 + struct.unpack_from("!H", rest, 4)[0]:
            return None
        protocol, body = rest[6], rest[40 : 40 + struct.unpack_from("!H", rest, 4)[0]]
        addresses = rest[8:24], rest[24:40]
    else:
        return frame[6:12], frame[:6], kind, None
    if protocol in (6, 17):
        return None if len(body) < (20 if protocol == 6 else 8) else (*addresses, protocol, body[:4])
    return (*addresses, protocol, None)


def test_headers():
    """Mutated frames against a parser that was written for reading: the same ones are malformed, the same ones are one flow."""
    rng = random.Random(11)
    switch = Switch(mode="lossy", flows=4096, idle="10s", th_net="100MB")
    app = Region.create(queues=4, buffers=512, buffer_bytes=256)
    switch.attach("all", Region.attach(app.fd, app.shape), ANYTHING, guarded=False)
    for _ in range(60):
        frames = [f[:256] for f in fuzz_region.frames_of(rng)]
        expected = sum(reference(f) is None for f in frames)
        before = switch.ports()[0]["drops"].get("malformed", 0)
        assert app.send(0, frames) == len(frames)
        switch.turns(len(frames))
        assert switch.ports()[0]["drops"].get("malformed", 0) - before == expected
        app.receive(4096)
    assert expected > 5 and switch.ports()[0]["nonsense"] == 0


def mutated(rng, data):
    data = bytearray(data)
    for _ in range(rng.randrange(1, 8)):
        at = rng.randrange(len(data))
        how = rng.randrange(4)
        if how == 0:
            data[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        elif how == 1:
            del data[at : at + rng.randrange(1, 9)]
        elif how == 2:
            data[at:at] = rng.randbytes(rng.randrange(1, 9))
        else:
            data[at : at + 4] = struct.pack("<I", rng.choice([0, 1, 12, 0xFFFFFFFF, 0x7FFFFFFF, len(data)]))[: len(data) - at]
        if not data:
            break
    return bytes(data)


@pytest.mark.parametrize("kind", ["pcap", "pcapng"])
def test_recordings(kind):
    """Frames, or an error of ours: nothing else, and never more frames than bytes."""
    rng, frame, good, errors = random.Random(5), udp(A, B, payload=b"x" * 20), 0, 0
    size = len(frame)
    if kind == "pcap":
        data = PCAP_BEGINNING + b"".join(struct.pack("<IIII", 1, i, size, size) + frame for i in range(5))
    else:
        padded = frame + bytes(-size % 4)
        total = 32 + len(padded)
        block = struct.pack("<IIIIIII", 6, total, 0, 0, 5, size, size) + padded + struct.pack("<I", total)
        data = PCAPNG_BEGINNING + 5 * block
    assert len(list(parse_frames(data))) == 5
    for _ in range(20_000):
        try:
            found = list(parse_frames(mutated(rng, data)))
            as_records(found)
            assert sum(len(f) for _, f in found) <= len(data) + 100
            good += 1
        except SpecError:
            errors += 1
    assert good > 500 and errors > 500


VALUES = st.recursive(
    st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["backdraft", "1KB", "1ms", A]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
KEYS = ["mode", "th_goal", "th_net", "flows", "spin", "socket", "cpu", "burst", "doorbells", "x"]
SWITCH = st.dictionaries(st.sampled_from(KEYS), VALUES)
PORT = st.dictionaries(st.sampled_from(["name", "addresses", "uid", "memory", "guarded", "x"]), VALUES)


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("magic, unit", [(0xA1B2C3D4, 1000), (0xA1B23C4D, 1)])
def test_recordings_of_both_units_and_orders(order, magic, unit):
    """A file of tcpdump counts microseconds or nanoseconds, in the order of bytes of its machine."""

    def recording(size):
        header = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262_144, 1)
        return header + struct.pack(order + "IIII", 3, 999_999, size, size) + bytes(size)

    for size in (14, 65_550):
        assert list(parse_frames(recording(size))) == [(3 * 10**9 + 999_999 * unit, bytes(size))]
    for size in (13, 65_551):
        with pytest.raises(SpecError, match=f"byte 24: a frame of {size} B"):
            list(parse_frames(recording(size)))


@examples(300)
@given(VALUES | SWITCH, VALUES | st.lists(PORT | VALUES, max_size=3))
def test_specs(switch, port):
    """Any table of settings is understood or refused with an error of ours."""
    with contextlib.suppress(SpecError):
        validate_spec({"switch": switch, "port": port})


def test_spec_files(tmp_path):
    """A file that is no TOML is an error of one line."""
    from penstock_net.cli import main

    rng, good = random.Random(3), f'[switch]\nsocket = "{tmp_path}/none/s"\n[[port]]\nname = "a"\naddresses = ["{A}"]\n'.encode()
    for i in range(60):
        path = tmp_path / f"{i}.toml"
        path.write_bytes(mutated(rng, good))
        with contextlib.suppress(UnicodeDecodeError, tomllib.TOMLDecodeError):
            tomllib.loads(path.read_bytes().decode())
        assert main(["vswitch", "up", str(path)]) == 2, path.read_bytes()


@pytest.mark.parametrize("halves", [False, True])
def test_requests(halves):
    """Half lines, several in one, nesting, numbers and names beyond every limit: an object, or None; no descriptor is kept."""
    rng = random.Random(halves)
    good = [
        json.dumps({"attach": "a", "shape": {"rings": 3}}).encode(),
        b'{"show": "ports"}',
        b"[" * 5000,
        b"1" * 5000,
        b'"\\ud800"',
        b'{"x": 1e999}',
        b"{}",
        b"[]",
        b"null",
        b'{"attach": "\\u0000"}',
    ]
    for _ in range(300):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            data = mutated(rng, rng.choice(good)) + b"\n" * rng.randrange(3)

            def send(data=data, ours=ours):
                with contextlib.suppress(OSError):
                    for i in range(0, len(data), 50 if halves else 1 << 20):
                        ours.sendall(data[i : i + (50 if halves else 1 << 20)])
                    ours.shutdown(socket.SHUT_WR)

            thread = threading.Thread(target=send)
            thread.start()
            message, fds = protocol.receive(theirs, 1 << 12, 1, 2.0)
            thread.join()
            assert (message is None or isinstance(message, dict)) and fds == []


def test_datagrams():
    """The overlay's port listens to its peer only, and hands on nothing that is shorter than an Ethernet header."""
    rng = random.Random(2)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        peer.bind(("127.0.0.1", 0))
        stranger.bind(("127.0.0.1", 0))
        port = open_port("udp", local="127.0.0.1:0", peer=f"127.0.0.1:{peer.getsockname()[1]}", headers=False)
        here = socket.fromfd(port.fd, socket.AF_INET, socket.SOCK_DGRAM)
        try:
            for _ in range(300):
                own = [rng.randbytes(rng.choice([0, 1, 13, 14, 60, 1400, 9000])) for _ in range(8)]
                for data in own:
                    stranger.sendto(rng.randbytes(rng.randrange(0, 2000)), here.getsockname())
                    peer.sendto(data, here.getsockname())
                found, end = [], time.monotonic() + 120
                while len(found) < sum(len(d) >= 14 for d in own) and time.monotonic() < end:
                    if (frame := port.receive()) is not None:
                        found.append(frame)
                assert found == [d for d in own if len(d) >= 14]
        finally:
            here.close()
            port.close()
