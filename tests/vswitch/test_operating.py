"""Draining, stopping, and the report of frames that were left; settings that change during traffic."""

import mmap
import os
import random
import signal
import threading
import time

import numpy as np
import pytest
from daemons import running, up
from frames import udp
from test_switch import switch_of

from penstock_net.cli import main
from penstock_net.errors import SpecError
from penstock_net.vswitch.client.client import connect
from penstock_net.vswitch.daemon import operations, protocol
from penstock_net.vswitch.support import losses

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"


def left(switch):
    return {row["port"]: row for row in switch.left()}


def test_what_is_left_is_counted():
    """By queue, in frames and bytes: not rung, rung, held, in rings that are linked, in queues that were closed and opened."""
    switch, a, b = switch_of(A, B, mode="dpfq", th_goal="1KB", th_over="2KB", th_net="4KB")
    assert left(switch)["a"]["waiting_frames"] == 0
    rng, sent = random.Random(3), {q: [0, 0] for q in range(8)}
    for q in range(8):
        a.send(q, [udp(A, B, q)])
        switch.turns(3)
    for q in range(0, 8, 2):
        assert a.close(q)
    switch.turns(3)
    b.receive(64)
    for _ in range(40):
        q = rng.randrange(8)
        frames = [udp(A, B, q, payload=bytes(rng.randrange(1, 800))) for _ in range(rng.randrange(40))]
        for frame in frames[: a.send(q, frames)]:
            sent[q][0] += 1
            sent[q][1] += len(frame)
        switch.turns(rng.randrange(3))
        row = left(switch)["a"]
        delivered = left(switch)["b"]
        assert row["waiting_frames"] + delivered["not_taken_frames"] == sum(n for n, _ in sent.values())
        assert row["waiting_bytes"] + delivered["not_taken_bytes"] == sum(n for _, n in sent.values())
        assert all(q["frames"] <= sent[number][0] for number, q in row["waiting_by_queue"].items())
    assert row["waiting_frames"] > 300 and delivered["not_taken_frames"] > 8
    switch.detach_name("a")
    assert {k: switch.detached[-1][k] for k in operations.LEFT} == row
    total = 0
    while found := b.receive(64):
        total += len(found)
    assert total == delivered["not_taken_frames"] and left(switch)["b"]["not_taken_frames"] == 0


@pytest.mark.parametrize("seed", range(8))
def test_memory_may_hold_anything(seed):
    """The count ends, stays within what the region can hold, and nothing breaks."""
    switch, a, _ = switch_of(A, B, shape={"rings": 16, "queues": 32, "buffers": 64})
    a.send(0, [udp(A, B)] * 5)
    switch.turns(1)
    rng = np.random.default_rng(seed)
    raw = np.frombuffer(mmap.mmap(a.fd, os.fstat(a.fd).st_size), dtype=np.uint64)
    raw[16:] = rng.integers(0, 1 << 64, len(raw) - 16, dtype=np.uint64)
    if seed % 2:  # links in circles, and queues that all begin in the same ring
        raw[16:] = np.where(rng.random(len(raw) - 16) < 0.7, (1 << 63) | (raw[16:] & np.uint64(15)), raw[16:] & np.uint64(7))
    start = time.process_time()
    row = left(switch)["a"]
    assert time.process_time() - start < 5, "it does not end"
    assert 0 <= row["waiting_frames"] <= 4 * (64 + 16) + 32 and 0 <= row["not_taken_frames"] <= 64
    switch.close()


def test_down_is_no_report_of_losses_before_the_switch_has_ended(tmp_path, monkeypatch):
    """After 12 s it said "down", and that nothing was lost, of a switch with 512 TAPs that was still closing them."""
    monkeypatch.setattr(protocol, "DOWN_S", 0.01)
    path = str(tmp_path / "s.sock")
    with running(path, {"port": [{"name": "a", "addresses": [A]}]}) as daemon:
        monkeypatch.setattr(daemon.ended, "set", lambda: None)
        with pytest.raises(SpecError, match="what it has lost will be in its log"):
            protocol.ask(path, {"down": True})


@pytest.mark.parametrize("way", ["down", "SIGTERM"])
def test_down_reports_what_is_lost(tmp_path, capsys, way):
    with (
        up(tmp_path, "dpfq", th_goal="1KB", th_over="2KB", th_net="3KB") as (process, path),
        connect("a", path) as a,
        connect("b", path),
    ):
        assert a.send_all(4, [udp(A, B, payload=bytes(958))] * 50) == 50
        while protocol.ask(path, {"show": "ports"})["ports"][0]["received_frames"] < 3:
            time.sleep(0.002)
        assert main(["vswitch", "drain", "--for", "0.2", "--socket", path]) == 1
        said = capsys.readouterr().out
        waits = "port a: 47 frames, 47 KB, not taken by the switch (queue 4: 47)\n"
        delivered = "port b: 3 frames, 3 KB, delivered and not yet taken by its application\n"
        assert said == waits + delivered + "not drained in 0.2 s\n"
        in_all = f"lost in all: 47 frames\n  port a: 47 not_fetched: {losses.place_of('not_fetched').text}\n"
        if way == "down":
            assert main(["vswitch", "down", "--socket", path]) == 3
            assert capsys.readouterr().out == f"lost: {waits}{delivered}{in_all}down\n"
        else:
            process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert process.stdout.read() == f"lost: {waits}{delivered}{in_all}down\n"


def test_drain_waits(tmp_path, capsys):
    """Until the last frame is taken from those who send; what receivers have not taken is said."""
    with (
        up(tmp_path, "dpfq", th_goal="1KB", th_over="2KB", th_net="3KB") as (process, path),
        connect("a", path) as a,
        connect("b", path) as b,
    ):
        a.send_all(0, [udp(A, B, payload=bytes(958))] * 30)
        got = []

        def take_slowly():
            while len(got) < 28:
                time.sleep(0.005)
                got.extend(b.receive(1))

        taking = threading.Thread(target=take_slowly)
        taking.start()
        assert main(["vswitch", "drain", "--for", "120", "--socket", path]) == 0
        said = capsys.readouterr().out
        taking.join(60)
        assert said.endswith("drained: the switch has taken all that was sent\n") and a.waiting(0) == 0
        assert "port b: " in said and "delivered and not yet taken" in said
        assert main(["vswitch", "down", "--socket", path]) == 0
        assert "lost" not in (out := capsys.readouterr().out) and "port b: 2 frames, 2 KB, delivered" in out
        assert process.wait(60) == 0
        assert len(b.receive(64)) == 2, "the memory is the application's: what was delivered can still be taken"
