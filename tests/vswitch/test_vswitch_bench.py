"""The measurements of isolation and speed: what is kept, computed and written; the generators of load; a short run of each."""

import json
import shutil
import signal
import socket
import subprocess

import pytest
from daemons import ended
from test_lab import FORBIDDEN

from penstock_net.errors import SpecError
from penstock_net.vswitch.bench import command, compare, isolation, networks, traffic
from penstock_net.vswitch.bench.record import Record, write_between

REAL = [*FORBIDDEN, *([] if shutil.which("iperf3") else ["iperf3 is not installed"])]
real = pytest.mark.skipif(bool(REAL), reason="; ".join(REAL))


def row(run, beside, way, p50, p99, lost=0):
    return {"run": run, "beside": beside, "way": way, "requests": 100, "lost": lost, "p50": p50, "p99": p99, "load": 0.5}


ROWS = [
    row(number, beside, way, 50.0 + number, p99)
    for way, alone, beside_slow in (
        ("switch", (100, 110, 300), (330, 331, 5000)),
        (isolation.ELSEWHERE, (), (200, 130, 120)),
        ("bridge", (80, 90, 85), (90, 95, 99)),
    )
    for beside, values in (("nothing", alone), ("a slow receiver", beside_slow))
    for number, p99 in enumerate(values)
]


def test_a_run_is_good_within_three_times_the_median_of_the_unloaded_ones():
    limit = isolation.tail(ROWS, "nothing", "switch")
    assert limit == 110
    assert isolation.good(ROWS, "a slow receiver", "switch", limit) == 1, "330 is within, 331 is not"
    lines = isolation.table(ROWS).splitlines()
    assert lines[2] == "| nothing | switch | 51.0 (52.0) | 110 (300) | 0 | 3 of 3 |"
    assert lines[3] == "| nothing | bridge | 51.0 (52.0) | 85.0 (90.0) | 0 | 3 of 3 |"
    assert lines[5] == "| a slow receiver | load elsewhere | 51.0 (52.0) | 130 (200) | 0 | 3 of 3 |"
    assert lines[-1].endswith("in 1 of 3 runs (goal 29 of 30: not reached); within 3 times that with the load elsewhere in 2")


def test_what_was_measured_is_kept_and_not_measured_again(tmp_path, monkeypatch):
    measured = []

    def measure(way, beside, seconds):
        if len(measured) == 5:
            raise KeyboardInterrupt
        measured.append((way, beside))
        return {"requests": 10, "lost": 0, "p50": 1.0, "p99": 2.0}

    monkeypatch.setattr(isolation, "measure", measure)
    monkeypatch.setattr(isolation, "need_root", lambda: None)
    monkeypatch.setattr(shutil, "which", lambda name: name)
    path, beside = tmp_path / "x.json", ["nothing", isolation.STOP]
    with pytest.raises(KeyboardInterrupt):
        isolation.run(Record(path, {"seconds": 1}), 2, beside, lambda line: None)
        isolation.run(Record(path, {"seconds": 1}), 2, beside, lambda line: None)
    pair = [("switch", "nothing"), ("bridge", "nothing")]
    assert measured == [*pair, ("switch", isolation.STOP), *pair], "the networks take turns; a bridge cannot be stopped"
    again = Record(path, {"seconds": 1})
    assert len(again.rows) == 5 and again.has(run=1, beside="nothing", way="bridge")
    measured.clear()
    isolation.run(again, 2, beside, lambda line: None)
    assert measured == [("switch", isolation.STOP)]
    with pytest.raises(SpecError, match="was begun with 1"):
        Record(path, {"seconds": 2})
    path.write_text("[]")
    with pytest.raises(SpecError, match="not a record"):
        Record(path, {"seconds": 1})


def test_a_table_is_written_between_its_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- x: written by y -->\n\nold\n\n<!-- end of x -->\nafter\n")
    for _ in range(2):
        write_between(page, "x", "| new \\1 |")
        assert page.read_text() == "before\n<!-- x: written by y -->\n\n| new \\1 |\n\n<!-- end of x -->\nafter\n"
    with pytest.raises(SpecError, match="has no marks"):
        write_between(page, "z", "")


def test_ratios_are_of_one_round():
    name = "TCP, Gbit/s"
    rows = [
        {"run": run, "row": "tcp", "way": way, "values": {name: value}, "load": 1.0}
        for run, values in enumerate(((6, 10), (7, 10), (2, 2)))
        for way, value in zip(("switch", "veth"), values)
    ]
    assert compare.ratios(rows, "veth") == {name: 0.7} and compare.ratios(rows, "ovs") == {}
    assert f"| {name} | 6 | 0.70 | - | - | at least 0.65 of the veth pair: reached |" in compare.table(rows)


def test_pictures_are_drawn(tmp_path):
    isolation.picture(ROWS, tmp_path / "a.png")
    values = {"latency p99, UDP, us": 5.0}
    compare.picture([{"run": 0, "row": "latency", "way": way, "values": values} for way in compare.WAYS], tmp_path / "b.png")
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in ("a.png", "b.png"))


def test_percentiles_are_exact():
    found = traffic.percentiles([1000 * n for n in range(1000, 0, -1)])
    assert found["p50"] == 500 and found["p99"] == 990 and found["p99.9"] == 999 and found["p100"] == 1000
    assert set(traffic.percentiles([7000]).values()) == {7.0}


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.mark.parametrize("words", [[], ["--tcp"]])
def test_a_probe_counts_every_answer(words):
    port = free_port()
    with ended(subprocess.Popen([*networks.TRAFFIC, "echo", str(port)], stdout=subprocess.PIPE, text=True)) as program:
        networks.wait_for(program, "ready")
        command = [*networks.TRAFFIC, "probe", f"127.0.0.1:{port}", "--rate", "500", "--seconds", "0.4", "--skip", "0.2", *words]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found = json.loads(said.splitlines()[1])
    assert found["requests"] == 200 and found["lost"] == 0
    assert 0 < found["p50"] <= found["p99"] <= found["p100"]


def test_a_switch_is_up_when_it_says_so_and_not_when_a_port_is():
    said = "2026-01-01 INFO port up: port a: device of kind tap\nup: s.sock, mode backdraft, ports a\n"
    with ended(subprocess.Popen(["printf", "%s", said], stdout=subprocess.PIPE, text=True)) as program:
        assert networks.wait_for(program, "up: ", starts=True) == "up: s.sock, mode backdraft, ports a\n"


def test_a_request_without_an_answer_counts_with_its_age(monkeypatch):
    monkeypatch.setattr(traffic, "LINGER_S", 0.05)
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with here, there:
        here.setblocking(False)
        one = traffic.Probe(here, 1000, 0.004)
        one.run()
        found = one.results(0)
    assert found["requests"] == found["lost"] == 4 and found["p50"] > 50_000, "LINGER_S at least, in us"


def test_a_generator_sends_to_all_ports_from_all_sockets():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as a, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as b:
        for sock in (a, b):
            sock.bind(("127.0.0.1", free_port() if sock is a else a.getsockname()[1] + 1))
            sock.settimeout(60)
        traffic.flows(f"127.0.0.1:{a.getsockname()[1]}", 3, 2, 2000, 100, 0.05)
        for sock in (a, b):
            data, sender = sock.recvfrom(200)
            seen = {sender}
            while len(seen) < 3:
                data, sender = sock.recvfrom(200)
                seen.add(sender)
            assert len(data) == 100


@real
@pytest.mark.parametrize("way", isolation.WAYS)
def test_a_victim_beside_new_flows(way):
    """A short run: the victim's requests and those of the load arrive; how fast is the machine's."""
    found = isolation.measure(way, "10 000 new flows/s", 0.2)
    assert found["requests"] == 400 and found["received_per_s"] > 0 and found["p99"] > 0


@real
def test_a_round_over_a_bridge_and_a_table_of_what_was_measured(tmp_path, capsys):
    out = tmp_path / "c.json"
    values = compare.measure("bridge", "tcp", 1)
    assert values["TCP, Gbit/s"] > 0 and values["CPU per Gbit, ms"] > 0
    Record(out, {"seconds": 3.0}).add({"run": 0, "row": "doorbells", "way": "switch", "values": {compare.IDLE: 0.5}})
    command.main(["compare", "--runs", "1", "--only", "doorbells", "--out", str(out)])
    assert "under 1: reached" in capsys.readouterr().out


def test_errors_are_one_line_and_the_signal_is_what_it_was(capsys, tmp_path):
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for words in (["compare", "--only", "nothing"], ["isolation", "--runs", "0"]):
        with pytest.raises(SystemExit) as stop:
            command.main([*words, "--out", str(tmp_path / "x.json")])
        assert stop.value.code == 2 and capsys.readouterr().err.startswith("error: ")
    assert signal.signal(signal.SIGTERM, before) == signal.SIG_IGN
