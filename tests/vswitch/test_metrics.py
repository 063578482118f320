"""The metrics page: an independent parser accepts it, and it has every number that `show` prints."""

import http.client
import json
import re
import socket
import time
from pathlib import Path

import pytest
from daemons import running
from frames import udp
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from test_switch import switch_of
from waiting import Stopwatch

from penstock_net.errors import SpecError
from penstock_net.vswitch.attach.devices import Device
from penstock_net.vswitch.attach.open import open_link
from penstock_net.vswitch.client.client import connect
from penstock_net.vswitch.daemon import config, metrics, protocol
from penstock_net.vswitch.daemon.server import Daemon
from penstock_net.vswitch.dataplane.driver import attach_device
from penstock_net.vswitch.memory.region import Region

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"
P = metrics.PREFIX


def parsed(text):
    """Samples by name and labels; the parser refuses what is not OpenMetrics 1.0."""
    assert text.endswith("# EOF\n") and "\n\n" not in text
    samples = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation.endswith("."), family.name
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in samples
            samples[key] = sample.value
    return samples


def numbers_of(rows, names):
    """(what, value) of every number in rows of `show`, nested ones included; `names` are labels."""
    for row in rows:
        for key, value in row.items():
            if isinstance(value, dict):
                yield from ((f"{key} {k}", v) for k, v in numbers_of([value], names))
            elif isinstance(value, (int, float)) and not isinstance(value, bool):
                yield key, value


def busy():
    """A switch with flows, pauses, drops of several reasons and queues, and odd names."""
    switch, a, b, c = switch_of(A, [B, "fd00::2"], C, th_goal="1KB", th_over="2KB", th_net="4KB")
    for q in range(6):
        a.send(q, [udp(A, B, q, payload=bytes(900))] * (3 + q))
        a.send(q + 10, [udp(A, "10.0.9.9")] * q)
        a.send(q + 20, [udp(C, B)] * (q % 2), weight=2)
    c.send(0, [udp(C, B), b"x"])
    switch.turns(20)
    time.sleep(0.001)
    b.receive(4)
    switch.turns(20)
    return switch, a, b, c


def test_every_number_of_show_is_there():
    switch, *_ = busy()
    ports, flows, pauses, counters = switch.ports(), switch.flows(), switch.pauses(), switch.counters()
    found = metrics.snapshot(switch) | {"pauses": pauses}
    samples = parsed(metrics.page(found))
    assert len(flows) >= 7 and pauses and any(p["drops"] for p in ports)
    for row in ports:
        for key, value in row.items():
            label = frozenset({"port": row["port"]}.items())
            if key == "drops":
                for reason, count in value.items():
                    assert samples[f"{P}port_dropped_frames_total", label | {("reason", reason)}] == count
            elif key == "drops_by_queue":
                for queue, drops in value.items():
                    for reason, count in drops.items():
                        where = label | {("reason", reason), ("queue", str(queue))}
                        assert samples[f"{P}queue_dropped_frames_total", where] == count
            elif key == "state":
                assert samples[f"{P}port_state", label | {(f"{P}port_state", "up")}] == 1
                assert samples[f"{P}port_state", label | {(f"{P}port_state", "nonsense")}] == 0
            elif key == "addresses":
                assert samples[f"{P}port_info", label | {("addresses", ",".join(value))}] == 1
            elif key == "waits":
                name = f"{P}port_wait_seconds"
                assert samples[f"{name}_count", label] == samples[f"{name}_bucket", label | {("le", "+Inf")}] == value["samples"]
                assert samples[f"{name}_bucket", label | {("le", "0.000128")}] == sum(value["counts"][:8])
                assert samples[f"{name}_sum", label] == pytest.approx(value["sum_ns"] / 1e9)
            elif key not in ("port", "device"):
                check(samples, f"port_{key}", label, value)
    for row in flows:
        label = frozenset((key, str(row[key])) for key in metrics.LABELS)
        for key in set(row) - set(metrics.LABELS):
            check(samples, f"flow_{key}", label, row[key])
    for row in pauses:
        label = frozenset({"port": row["port"], "queue": "all" if row["queue"] is None else str(row["queue"])}.items())
        check(samples, "pause_left_ns", label, row["left_ns"])
    for key, value in counters.items():
        check(samples, key, frozenset(), value)
    assert samples[f"{P}switch_info", frozenset({"mode": "backdraft"}.items())] == 1
    assert samples[f"{P}setting_th_net_bytes", frozenset()] == 4000


def check(samples, key, label, value):
    """Under the name that the key has on the page: seconds for nanoseconds, _total for what only grows."""
    name = P + key
    if key.endswith("_ns"):
        name, value = P + key[:-3] + "_seconds", value / 1e9
    name = name.replace("_per_s", "_per_second")
    found = [samples[n, label] for n in (name, name + "_total") if (n, label) in samples]
    assert len(found) == 1 and found[0] == pytest.approx(value, rel=1e-12), (key, label, value)
    assert (key.split("_", 1)[-1] in metrics.COUNTERS or key in metrics.COUNTERS) == ((name + "_total", label) in samples)


@pytest.mark.parametrize("most", [0, 1, 3, 100])
def test_cardinality_is_bounded(most):
    """Shown flows and the sum of the others are all flows; drops and pauses likewise."""
    switch, *_ = busy()
    flows, pauses = switch.flows(), switch.pauses()
    found = metrics.snapshot(switch, most) | {"pauses": pauses}
    samples = parsed(metrics.page(found, most))
    shown = {key: value for key, value in samples.items() if key[0].startswith(P + "flow_waiting")}
    assert len(shown) == min(most, len(flows))
    assert samples[P + "other_flows", frozenset()] == len(flows) - len(shown)
    waiting = sorted((row["waiting_bytes"] for row in flows), reverse=True)
    assert sorted(shown.values(), reverse=True) == waiting[:most]
    assert set(found["other_flows"]) == {"flows", *(set(flows[0]) - set(metrics.LABELS))}
    for key in ("waiting_bytes", "frames", "bytes", "dropped", "pauses", "paused_ns"):
        rest = sum(row[key] for row in flows) - sum(row[key] for row in found["flows"])
        assert found["other_flows"][key] == rest
    assert sum(name == P + "pause_left_seconds" for name, _ in samples) == min(most, len(pauses))
    assert samples[P + "other_pauses", frozenset()] == max(0, len(pauses) - most)
    assert len({dict(label)["queue"] for name, label in samples if name == P + "queue_dropped_frames_total"}) <= 2 * most
    assert samples[P + "port_dropped_frames_total", frozenset({"port": "a", "reason": "no_route"}.items())] == 15


def test_what_has_gone_is_not_forgotten():
    """An application that comes and goes leaves its numbers, and the frames that were lost with it."""
    switch, a, *_ = busy()
    row, left = switch.ports()[0], switch.left()[0]
    assert left["waiting_frames"] > 5 and sum(row["drops"].values()) == 18
    for times in (1, 2):
        switch.detach_name("a")
        samples = parsed(metrics.page(metrics.snapshot(switch)))
        start, of_a = P + "detached_", frozenset({"port": "a"}.items())
        got = {name.removeprefix(start): v for (name, label), v in samples.items() if name.startswith(start) and label == of_a}
        assert got == {
            "applications_total": times,
            "received_frames_total": row["received_frames"],
            "sent_frames_total": 0,
            "received_bytes_total": row["received_bytes"],
            "sent_bytes_total": 0,
            "dropped_frames_total": 18,
            "lost_frames_total": left["waiting_frames"],
            "lost_bytes_total": left["waiting_bytes"],
            "not_delivered_frames_total": 0,
        }
        switch.attach("a", Region.attach((again := Region.create()).fd, again.shape), [A])
    assert a.protocol_errors == 0


def test_names_may_be_odd():
    """Quotation marks, backslashes, new lines and other alphabets in labels come back as they were."""
    switch, *_ = busy()
    found = metrics.snapshot(switch)
    odd = 'a"b\\c\nd{},=é'
    found["ports"][0]["port"] = odd
    samples = parsed(metrics.page(found))
    assert (P + "port_received_frames_total", frozenset({"port": odd}.items())) in samples


def test_what_others_add_to_a_row_is_there_too():
    switch, *_ = busy()
    found = metrics.snapshot(switch)
    found["ports"][0] |= {"kind": "tap", "made_up": 7, "by_kind": 2.5}
    found["counters"] = [found["counters"], found["counters"]]
    samples = parsed(metrics.page(found))
    assert samples[P + "port_made_up", frozenset({"port": "a"}.items())] == 7
    assert (P + "port_info", frozenset({"port": "a", "kind": "tap", "addresses": A}.items())) in samples
    assert (P + "rounds_total", frozenset({"worker": "1"}.items())) in samples


def get(port, path="/metrics", method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request(method, path)
    answer = connection.getresponse()
    return answer, answer.read().decode()


def test_the_page_is_served(tmp_path):
    path = str(tmp_path / "s.sock")
    ports = [{"name": "a", "addresses": [A]}, {"name": "b", "addresses": [B]}]
    with running(path, {"switch": {"metrics": "127.0.0.1:0"}, "port": ports}) as daemon:
        port = daemon.metrics.port
        served(port, path)
        with pytest.raises(SpecError, match="cannot listen there"):
            Daemon({"switch": {"metrics": f"127.0.0.1:{port}"}, "port": ports}, path + "2")
    with pytest.raises(ConnectionRefusedError):
        get(port)


def served(port, path):
    with connect("a", path) as a, connect("b", path) as b:
        a.send_all(0, [udp(A, B)] * 100)
        got = 0
        while got < 100:
            got += len(b.receive(100, timeout=120))
        answer, text = get(port)
        assert answer.status == 200 and answer.getheader("Content-Type") == metrics.CONTENT_TYPE
        assert parsed(text)[P + "port_received_frames_total", frozenset({"port": "a"}.items())] == 100
        assert protocol.ask(path, {"show": "ports"})["ports"][0]["received_frames"] == 100
    answer, text = get(port, method="HEAD")
    assert answer.status == 200 and text == "" and int(answer.getheader("Content-Length")) > 500
    assert get(port, "/")[0].status == 404 and get(port, "/metrics?x=1")[0].status == 200
    assert get(port, method="POST")[0].status == 501
    with socket.create_connection(("127.0.0.1", port)) as rude:
        rude.sendall(b"\xff\xfe\n\n")
    with socket.create_connection(("127.0.0.1", port)):  # says nothing: others wait at most 2 s
        watch = Stopwatch()
        assert get(port)[0].status == 200 and watch.elapsed() < 9


@pytest.mark.parametrize(
    "wrong", ["", "9464", ":9464", "localhost:9464", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", "::1:9464", 3, None]
)
def test_addresses(wrong):
    with pytest.raises(SpecError, match=r"switch\.metrics = .*must be an address"):
        config.parse_address(wrong)
    assert config.parse_address("[::1]:9464") == ("::1", 9464)


def test_nanoseconds_stay_whole():
    assert metrics.seconds(12_345_678_901_234_567_891) == "12345678901.234567891" and metrics.seconds(5) == "0.000000005"


def test_the_dashboard_shows_metrics_that_exist():
    """Every name and label in the Grafana file is on the page of a switch with applications and a device."""
    switch, *_ = busy()
    attach_device(switch, "wire", Device(open_link()[0]), ["10.0.0.77"])
    samples = parsed(metrics.page(metrics.snapshot(switch) | {"pauses": switch.pauses()}))
    names, labels = {name for name, _ in samples}, {key for _, label in samples for key, _ in label}
    path = Path(__file__).resolve().parents[2] / "packaging" / "grafana-vswitch.json"
    board = json.loads(path.read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    legends = [target["legendFormat"] for panel in board["panels"] for target in panel["targets"]]
    asked += [each["query"]["query"] for each in board["templating"]["list"] if each["type"] == "query"]
    for text in asked:
        found = set(re.findall(rf"\b{P}\w+", text))
        assert found and found <= names | labels, (text, found - names)
    used = {label for text in asked for group in re.findall(r"by \(([^)]*)\)", text) for label in group.split(", ")}
    used |= {label for text in legends for label in re.findall(r"\{\{(\w+)\}\}", text)}
    assert used <= labels and {"port", "reason", "le"} <= used
    assert f"{P}lost_total" in " ".join(asked) and len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    places = [tuple(panel["gridPos"][key] for key in "xywh") for panel in board["panels"]]
    cells = [(x + i, y + j) for x, y, w, h in places for i in range(w) for j in range(h)]
    assert len(set(cells)) == len(cells) and max(x for x, _ in cells) < 24, "no panel covers another"
