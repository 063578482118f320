"""Watching a switch: rates from counters, the longest queues, a picture; and what the command does with bad input."""

import io
import json
import threading
import time

import pytest
from daemons import A, B, up
from frames import udp
from rich.console import Console
from test_switch import switch_of
from waiting import until

from penstock_net.cli import main
from penstock_net.vswitch.client import top
from penstock_net.vswitch.client.client import connect
from penstock_net.vswitch.client.top import History, Sample
from penstock_net.vswitch.daemon import protocol


def row(sent, waiting=0):
    port = {
        "received_frames": 0,
        "received_bytes": 0,
        "sent_frames": sent,
        "sent_bytes": 1000 * sent,
        "pauses": 0,
        "flows": 1,
        "drops": {"full": 3},
        "device": {"kernel_lost": 4},
    }
    flow = {
        "bytes": 1000 * sent,
        "waiting_bytes": waiting,
        "longest_bytes": waiting,
        "rate_bytes_per_s": 5,
        "pauses": 1,
        "dropped": 0,
    }
    return {"b": port}, {"x": flow}


def test_rates_are_differences_over_time():
    history = History([Sample(0.0, *row(10)), Sample(0.5, *row(20)), Sample(2.5, *row(120, 9))])
    assert top.lost_at(history.samples[-1].ports["b"]) == {"kernel_lost": 4, "full": 3}
    history.samples.append(Sample(3.0, {}, {}))
    assert history.rates("b", "sent_frames") == ([0.5, 2.5], [20.0, 50.0])
    assert history.rates("none", "sent_frames") == ([], []) and history.largest_flows() == ["x"]
    assert history.taken("x") == ([0.5, 2.5], [pytest.approx(0.16), pytest.approx(8e-6 * 99_991 / 2)])
    assert len(top.draw(history).axes) == 2


def shown(history):
    console = Console(width=200, file=io.StringIO())
    console.print(top.table(history))
    return [line.split() for line in console.file.getvalue().splitlines()]


def test_the_rate_of_a_receiver_that_never_lags_is_seen():
    """The switch does not know its R_recv: nothing waits.  The rate is what was delivered, and frames lost have a rate too."""
    samples = [Sample(0.0, *row(0)), Sample(2.0, *row(3_000_000))]
    for sample in samples:
        sample.flows["x"]["rate_bytes_per_s"] = 0
    samples[1].ports["b"]["drops"] = {"full": 43}
    samples[1].losses = [{"port": "b", "kind": "lost", "reason": "full", "frames": 50}]
    lines = shown(History(samples))
    flow = next(line for line in lines if line[:1] == ["x"])
    assert flow[3] == "12,000.0", "Mbit/s"
    port = next(line for line in lines if line[:1] == ["b"])
    assert port[3:5] == ["1,500,000", "12,000.0"] and port[7:] == ["20.0", "47", "(43", "full,", "4", "kernel_lost)"]
    assert next(line for line in lines if line[:1] == ["lost"])[-3:] == ["50", "(50", "full)"]
    found = json.loads(json.dumps(top.interval(History(samples))))
    assert found["interval_s"] == 2.0 and found["lost"] == {"full": 50} and found["flows"][0]["taken_bytes_per_s"] == 1.5e9
    assert found["ports"]["b"]["lost"] == {"full": 43, "kernel_lost": 4} and found["ports"]["b"]["lost_per_s"] == 20.0
    assert top.interval(History(samples[:1]))["interval_s"] == 0.0


def test_busy_flows_are_among_those_that_are_asked_for():
    """Of flows without a backlog, those that have carried more come first."""
    switch, a, b = switch_of(A, B, idle="100s")
    now = 10**9
    for turn in range(9):
        for port in range(20):
            if turn < 2 or port == 15:
                a.send(0, [udp(A, B, port, payload=bytes(100))])
        now += 10**7
        switch.turn_at(now)
        b.receive(64)
    rows, others = switch.longest_flows(1)
    assert others["flows"] == 19 and rows[0]["source_port"] == 15 and rows[0]["frames"] == 9
    assert rows[0]["waiting_bytes"] == 0 == others["waiting_bytes"] and others["longest_bytes"] >= 142, "all was read"


def test_a_slow_receiver_is_seen_and_drawn(tmp_path, capsys):
    over = threading.Event()
    with up(tmp_path) as (process, path):
        with connect("a", path) as a, connect("b", path) as b:

            def talk():
                while not over.is_set():
                    a.send(0, [udp(A, B, payload=bytes(1000))] * 8)
                    time.sleep(0.001)

            def take():
                while not over.is_set():
                    b.receive(2)
                    time.sleep(0.002)

            threads = [threading.Thread(target=work) for work in (talk, take)]
            for thread in threads:
                thread.start()
            try:
                until(lambda: protocol.ask(path, {"show": "flows"})["flows"])
                file = tmp_path / "switch.png"
                assert main(["vswitch", "top", "--for", "0.6", "--interval", "0.1", "--plot", str(file), "--socket", path]) == 0
            finally:
                over.set()
                for thread in threads:
                    thread.join()
        said = capsys.readouterr().out
        assert "waiting B" in said and f"{A}:" in said and "drawn from" in said
        assert file.read_bytes()[:4] == b"\x89PNG"
        assert main(["vswitch", "top", "--plot", str(tmp_path / "x.doc"), "--socket", path]) == 2
        assert main(["vswitch", "top", "--for", "0.05", "--interval", "0.01", "--plot", "/nowhere/x.png", "--socket", path]) == 2
        process.terminate()
        assert process.wait(60) == 0
    assert main(["vswitch", "top", "--socket", path]) == 2
    assert "no switch answers" in capsys.readouterr().err


def test_the_end_of_the_switch_ends_the_watch(tmp_path):
    """Long before its time is over."""
    with up(tmp_path) as (process, path):
        timer = threading.Timer(0.3, process.terminate)
        timer.start()
        history = top.watch(path, 0.05, 600)
        timer.join()
        assert process.wait(60) == 0 and history.samples[-1].at < 300
