"""What is lost anywhere is seen everywhere: in `show`, `top`, `down`, the metrics page; and no counter of it is forgotten."""

import json
import socket
from collections import Counter

import pytest
from daemons import A, B, running
from frames import payload_of, udp
from test_lab import FORBIDDEN
from test_metrics import P, parsed
from test_overlay import Pair
from test_scheme_links import Pair as SchemePair
from test_schemes import numbered
from test_switch import switch_of
from waiting import until

from penstock_net.cli import main
from penstock_net.errors import SpecError
from penstock_net.vswitch.attach.devices import Device
from penstock_net.vswitch.attach.lab import Namespace
from penstock_net.vswitch.attach.open import open_link
from penstock_net.vswitch.client import tables
from penstock_net.vswitch.client.client import connect
from penstock_net.vswitch.client.plug import Plug
from penstock_net.vswitch.daemon import events, metrics, protocol
from penstock_net.vswitch.dataplane.driver import attach_device
from penstock_net.vswitch.dataplane.switch import Switch
from penstock_net.vswitch.memory.region import Region
from penstock_net.vswitch.support import losses
from penstock_net.vswitch.support.losses import LOST, NOT_CARRIED, REFUSED, Ledger
from penstock_net.vswitch.support.settings import DROP_NAMES, REASON_NAMES


def leaves(row, path=()):
    """The paths of all numbers in a row."""
    for key, value in row.items():
        if isinstance(value, dict) and key not in ("drops_by_queue", "waiting_by_queue", "waits"):
            yield from leaves(value, (*path, key))
        elif isinstance(value, (int, float)):
            yield (*path, key)


def check_all_known(rows):
    known = {place.path for place in losses.PLACES}
    found = {path for row in rows for path in leaves(row)} - {(kind,) for kind in losses.KINDS}
    forgotten = {path for path in found - known if not {path[-1], ".".join(path)} & losses.NO_LOSS}
    assert not forgotten, f"neither in PLACES nor in NO_LOSS of support/losses.py: {forgotten}"


def test_no_counter_is_forgotten():
    """Of ports of applications, links, overlays and schemes: each says how frames are lost, or is known not to."""
    switch, a, _ = switch_of(A, B)
    a.send(0, [udp(A, B), udp(A, "10.9.9.9")])
    switch.turns(3)
    attach_device(switch, "link", Device(open_link()[0]), ["10.0.0.7"])
    overlay = Pair()
    overlay.turn()
    scheme = SchemePair("bfc")
    scheme.run(20, [(0, 0, numbered(0, 2, 5))])
    switches = [switch, *overlay.switches, *scheme.switches]
    check_all_known(row for each in switches for row in each.ports())
    check_all_known(row for each in scheme.switches for row in losses.link_rows(each.counters()))
    switch.detach_name("a")
    switch.detach_name("link")
    check_all_known(switch.detached)
    assert {place.path[1] for place in losses.PLACES if place.path[0] == "drops"} >= {*REASON_NAMES, *DROP_NAMES, "gone"}
    assert len({place.reason for place in losses.PLACES}) == len(losses.PLACES)
    assert not {place.path[-1] for place in losses.PLACES} & losses.NO_LOSS


@pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))
def test_no_counter_of_a_tap_is_forgotten(tmp_path):
    with Namespace() as space, space.enter():
        spec = [{"name": "a", "addresses": [A], "kind": "tap", "device": "sw0"}, {"name": "b", "addresses": [B]}]
        with running(tmp_path / "s.sock", {"port": spec}) as daemon:
            rows = until(
                lambda: [row for row in protocol.ask(daemon.path, {"show": "ports"})["ports"] if "edge" in row["device"]]
            )
            check_all_known(rows)


def full_of_losses():
    """A row as the operator met it: "dropped 0" beside half a million frames that were lost."""
    (row, _) = switch_of(A, B)[0].ports()
    edge = {"socket_lost": 4798, "class_dropped": 167_859}
    return row | {"device": {"kind": "tap", "kernel_lost": 317_625, "multicast": 5, "malformed": 2, "edge": edge}}


def test_losses_of_all_kinds_are_in_the_default_table():
    row = full_of_losses()
    by_reason = "317,625 kernel_lost, 167,859 class_dropped, 4,798 socket_lost"
    line = tables.shown("ports", [row], 200)[1]
    assert line.endswith(f"490,282 ({by_reason})") and line.split()[:2] == ["a", "up"]
    assert (
        losses.with_sums(row)[LOST] == 490_282 and losses.with_sums(row)[REFUSED] == 2 and losses.with_sums(row)[NOT_CARRIED] == 5
    )
    ledger = Ledger()
    ledger.look([row])
    rows = ledger.rows()
    assert [r["frames"] for r in rows] == [317_625, 167_859, 4798, 2, 5]
    whole = f"lost since the switch was started, in all: 490,282 ({by_reason})"
    assert tables.loss_line(rows) == f"{whole}; refused 2 (2 device_malformed); not carried 5 (5 multicast)"
    assert tables.loss_line([]) == "lost since the switch was started, in all: 0"
    lines = tables.shown("losses", rows, 300)
    assert len(lines) == 6 and lines[1].split()[:4] == ["a", "lost", "317,625", "kernel_lost"]


def test_losses_of_an_overlay_count_once():
    """What the socket of an overlay had no room for is also missing in the numbers of its datagrams."""
    device = {"kernel_lost": 5, "overlay": {"lost_on_the_way": 7}}
    assert losses.with_sums(full_of_losses() | {"device": device})[LOST] == 7


def test_a_ledger_keeps_what_has_gone():
    """Counters that end or begin anew never lessen a sum: edges close, devices go, other applications attach."""
    ledger, row = Ledger(), full_of_losses()
    ledger.look([row])
    ledger.look([row | {"device": {"kind": "tap", "kernel_lost": 317_626}}])  # its edge was closed
    assert ledger.counts()["a"]["socket_lost"] == 4798 and ledger.counts()["a"]["kernel_lost"] == 317_626
    ledger.close(row | {"device": {}, "not_fetched_frames": 3})
    assert ledger.counts()["a"]["kernel_lost"] == 317_626 and ledger.counts()["a"]["not_fetched"] == 3
    ledger.look([row | {"device": {}, "drops": {"full": 9}}])
    ledger.look([row | {"device": {}, "drops": {"full": 10}}])
    assert ledger.counts()["a"]["full"] == 10 and ledger.counts()["a"]["kernel_lost"] == 317_626
    ledger.close(row | {"device": {}, "drops": {"full": 10}, "not_fetched_frames": 1})
    assert ledger.counts()["a"]["full"] == 10 and ledger.counts()["a"]["not_fetched"] == 4
    assert losses.total(ledger.rows()) == Counter(
        kernel_lost=317_626, class_dropped=167_859, socket_lost=4798, full=10, not_fetched=4
    )


def test_counters_of_a_scheme_do_not_begin_anew():
    ledger = Ledger()
    row = {"port": "a", "drops": {"buffer": 7, "spoofed": 2}, "line": {}}
    for _ in range(3):
        ledger.look([row])
        ledger.close(row)
    assert ledger.counts()["a"]["buffer"] == 7 and ledger.counts()["a"]["spoofed"] == 6


def test_a_reason_that_nobody_described_is_a_loss():
    row = {"port": "a", "drops": {"invented": 4}}
    ledger = Ledger()
    ledger.look([row])
    assert losses.total(ledger.rows()) == {"invented": 4}


@pytest.mark.parametrize("mode", ["lossy", "backdraft"])
def test_what_is_sent_arrives_waits_or_is_counted(mode):
    """Frames in = delivered + lost + refused + still waiting, at any time and after the sender has gone."""
    switch, a, b, _ = switch_of(A, B, "10.0.0.3", mode=mode, th_goal="1KB", th_over="2KB", th_net="4KB")
    sent = 0
    for q in range(8):
        for i, target in enumerate((B, "10.0.0.3", "10.9.9.9")):
            sent += a.send(8 * i + q, [udp(A, target, q, payload=bytes(900))] * 7)
        switch.turns(5)
        b.receive(3)
    row, left = switch.ports()[0], switch.left()[0]
    assert sum(losses.counted(row).values()) + row["received_frames"] + left["waiting_frames"] == sent
    lost = sum(losses.of_kind(losses.counted(row), LOST).values())
    assert (lost > 0) == (mode == "lossy") and losses.of_kind(losses.counted(row), REFUSED)["no_route"] > 0
    switch.detach_name("a")
    assert sum(switch.ledger.counts()["a"].values()) + row["received_frames"] == sent
    page = metrics.snapshot(switch)
    samples = parsed(metrics.page(page))
    of_page = sum(v for (name, label), v in samples.items() if name == f"{P}lost_total" and ("port", "a") in label)
    assert of_page == lost + left["waiting_frames"] == sum(losses.total(switch.ledger.rows()).values())


def test_frames_for_a_device_that_is_removed_are_lost():
    """Nobody can take them any longer."""
    switch = Switch()
    app = Region.create()
    switch.attach("a", Region.attach(app.fd, app.shape), [A])
    attach_device(switch, "link", Device(open_link(rate="8kbps", headers=False, memory="256KiB")[0]), [B])
    assert app.send(0, [udp(A, B, payload=bytes(900))] * 400) == 400
    switch.turns(400)
    out = switch.ports()[1]["device"]["frames_out"]
    fetched = switch.ports()[0]["received_frames"]
    assert 0 < out < fetched
    switch.detach_name("link")
    assert switch.detached[-1]["device"]["frames_out"] == out
    assert losses.total(switch.ledger.rows()) == {"not_delivered": fetched - out}


def test_lost_total_never_falls():
    """Also when applications come and go; every reason of the switch is there before the first frame is lost."""
    switch, a, _ = switch_of(A, B, mode="lossy", th_goal="1KB", th_over="2KB", th_net="3KB")
    before = 0
    for _ in range(3):
        samples = parsed(metrics.page(metrics.snapshot(switch)))
        found = {
            dict(label)["reason"]: v
            for (name, label), v in samples.items()
            if name == f"{P}lost_total" and ("port", "a") in label
        }
        assert {"full", "no_buffer", "no_queue", "no_flow", "too_long"} <= found.keys()
        assert f"{P}refused_total" in {name for name, _ in samples}
        assert sum(found.values()) == before
        a.send(0, [udp(A, B, payload=bytes(900))] * 20)
        switch.turns(10)
        before += switch.ports()[0]["drops"]["full"]
        switch.detach_name("a")
        switch.attach("a", Region.attach((a := Region.create()).fd, a.shape), [A])


@pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))
def test_what_the_kernel_loses_is_seen_by_an_operator(tmp_path, capsys):
    """A burst into a TAP whose ring is too short, while the switch does not read it."""
    path = str(tmp_path / "s.sock")
    with Namespace() as space, space.enter():
        port = {"name": "a", "addresses": [A], "kind": "tap", "device": "sw0", "edge": False}
        spec = {"switch": {"metrics": "127.0.0.1:0"}, "port": [port, {"name": "b", "addresses": [B]}]}
        with running(path, spec) as daemon, connect("b", path) as b:
            space.run("ip", "link", "set", "sw0", "txqueuelen", "8")

            def burst():
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                    for _ in range(200):
                        s.sendto(b"burst", (B, 9))

            daemon.switch.call(burst)
            got = []

            def all_seen():
                got.extend(b.receive(64))
                return len(got) + daemon.switch.call(daemon.switch.ports)[0]["device"]["kernel_lost"] >= 200

            until(all_seen)
            lost = 200 - sum(payload_of(frame)[:5] == b"burst" for _, frame in got)
            assert lost > 100
            assert main(["vswitch", "show", "--socket", path]) == 0
            shown = capsys.readouterr().out
            assert f"  {lost} (" in shown.splitlines()[1]
            assert f"in all: {lost} ({lost} kernel_lost)" in shown.splitlines()[-1]
            assert main(["vswitch", "show", "losses", "--json", "--socket", path]) == 0
            rows = json.loads(capsys.readouterr().out)
            assert [(r["port"], r["reason"], r["frames"], r["way"]) for r in rows if r["kind"] == LOST] == [
                ("a", "kernel_lost", lost, "in")
            ]
            assert main(["vswitch", "show", "events", "--socket", path]) == 0
            assert f"kernel_lost, {lost} frames" in capsys.readouterr().out
            samples = parsed(daemon._metrics())
            assert samples[f"{P}lost_total", frozenset({"port": "a", "reason": "kernel_lost"}.items())] == lost
            assert main(["vswitch", "top", "--json", "--for", "0.05", "--interval", "0.02", "--socket", path]) == 0
            for line in capsys.readouterr().out.splitlines():
                assert json.loads(line)["lost"] == json.loads(line)["ports"]["a"]["lost"] == {"kernel_lost": lost}
            assert main(["vswitch", "drain", "--socket", path]) == 0
            assert f"lost in all: {lost} frames" in capsys.readouterr().out
            assert main(["vswitch", "down", "--socket", path]) == 3
            assert f"port a: {lost} kernel_lost: " in capsys.readouterr().out


@pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))
def test_what_was_not_read_when_a_device_goes_is_lost(tmp_path):
    """In the TAP's ring: the worker has no turn between the datagrams and the end of the port."""
    with Namespace() as space, space.enter():
        spec = [{"name": "a", "addresses": [A], "kind": "tap", "device": "sw0"}, {"name": "b", "addresses": [B]}]
        with running(tmp_path / "s.sock", {"port": spec}) as daemon:

            def send_and_remove():
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                    for _ in range(50):
                        s.sendto(b"late", (B, 9))
                daemon.switch.detach_name("a")

            until(lambda: protocol.ask(daemon.path, {"show": "ports"})["ports"][0]["device"].get("edge"))
            with connect("b", daemon.path) as b, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                s.sendto(b"first", (B, 9))
                assert b.receive(1, timeout=60), "the kernel has resolved its address"
            daemon.switch.call(send_and_remove)
            assert losses.total(protocol.ask(daemon.path, {"show": "losses"})["losses"]) == {"not_read": 50}


@pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))
def test_what_is_lost_at_a_plugged_tap_is_reported(tmp_path):
    """The switch cannot see the kernel of the namespace from which the TAP was plugged in."""
    path = str(tmp_path / "s.sock")
    with running(path, {"port": [{"name": "a", "addresses": [A]}, {"name": "b", "addresses": [B]}]}) as daemon:
        with connect("b", path) as b, Namespace() as space, space.enter(), Plug("a", path=path, guard=False) as plug:
            with space.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                s.sendto(b"first", (B, 9))
                assert b.receive(1, timeout=60), "the kernel has resolved its address"
            space.run("ip", "link", "set", "tap0", "txqueuelen", "8")

            def burst():
                with space.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                    for _ in range(200):
                        s.sendto(b"burst", (B, 9))

            daemon.switch.call(burst)
            lost = plug.losses()["device"]
            assert lost > 100
            until(lambda: losses.total(protocol.ask(path, {"show": "losses"})["losses"]).get("kernel_lost") == lost)
            for wrong in ({"device": -1}, {"device": "x"}, {"disk": 1}, 7, None):
                with pytest.raises(SpecError, match="lost"):
                    protocol.ask(path, {"report": "a", "lost": wrong})
            with pytest.raises(SpecError, match="no TAP is plugged in"):
                protocol.ask(path, {"report": "b", "lost": {"device": 1}})
        until(lambda: not daemon.plugged)
        assert losses.total(protocol.ask(path, {"show": "losses"})["losses"])["kernel_lost"] == lost


def test_nothing_lost_is_status_0(tmp_path, capsys):
    """What is refused by a rule is no loss."""
    path = str(tmp_path / "s.sock")
    with running(path, {"port": [{"name": "a", "addresses": [A]}, {"name": "b", "addresses": [B]}]}):
        with connect("a", path) as a, connect("b", path) as b:
            a.send(0, [udp(A, B), udp(B, A), udp(A, "10.9.9.9")])
            assert b.receive(1, timeout=120)
            until(lambda: a.waiting(0) == 0)
        assert main(["vswitch", "down", "--socket", path]) == 0
    assert capsys.readouterr().out == "down\n"


# ---- Events ----


def test_events_are_bounded_and_in_order():
    log = events.Events(most=5, clock=iter(range(100)).__next__)
    for i in range(12):
        log.add("set", None, f"change\n{i} " + "x" * 1000)
    rows = log.rows()
    assert [row["number"] for row in rows] == [8, 9, 10, 11, 12] == [row["time"] + 1 for row in rows]
    assert all(len(row["text"]) == events.LONGEST and "\n" not in row["text"] for row in rows)


def test_the_first_loss_of_each_kind_is_an_event():
    log = events.Events()
    watch, ledger = events.Watch(log), Ledger()
    row = {"port": "a", "drops": {}, "device": {"overlay": {"greeted": False}, "edge": {"failed": 0}}}
    changes = [
        {},
        {"drops": {"full": 3}},
        {"drops": {"full": 4, "spoofed": 1}},
        {"device": {"overlay": {"greeted": True}, "edge": {"failed": 1}}},
        {"device": {"overlay": {"greeted": True, "state": "dead"}}},
    ]
    for change in changes:
        ledger.look([row | change])
        watch.look([row | change], ledger.counts())
    assert [(each["event"], each["text"].split(",")[0].split(":")[0]) for each in log.rows()] == [
        ("peer", "connecting"),
        ("first lost", "full"),
        ("first refused", "spoofed"),
        ("peer", "up"),
        ("edge", "failed"),
        ("peer", "dead"),
    ]


@pytest.mark.parametrize("counter", ["forged", "other_version", "other_super_frames"])
def test_what_the_two_switches_do_not_agree_on_is_a_warning(caplog, counter):
    caplog.set_level("INFO", "penstock_net.vswitch")
    ledger = Ledger()
    row = {"port": "wire", "drops": {"spoofed": 1}, "device": {"overlay": {counter: 7}}}
    ledger.look([row])
    events.Watch(events.Events()).look([row], ledger.counts())
    levels = {record.getMessage().split(",")[0].split()[-1]: record.levelname for record in caplog.records}
    assert levels == {counter: "WARNING", "spoofed": "INFO"}


def test_what_the_daemon_does_is_in_the_log(tmp_path, caplog):
    caplog.set_level("INFO", "penstock_net.vswitch")
    path = str(tmp_path / "s.sock")
    with running(path, {"port": [{"name": "a", "addresses": [A]}, {"name": "b", "addresses": [B]}]}) as daemon:
        with connect("a", path):
            until(lambda: daemon.events.rows())  # the answer to "attach" is sent before its row is added
            assert main(["vswitch", "set", "th_over=64KB", "port.b.addresses=10.0.0.9", "--socket", path]) == 0
        until(lambda: any(row["event"] == "detached" for row in daemon.events.rows()))
        rows = daemon.events.rows()
    assert [(row["event"], row["port"]) for row in rows] == [("attached", "a"), ("set", None), ("set", "b"), ("detached", "a")]
    assert rows[1]["text"] == "th_over = 64000, before 128000" and "['10.0.0.9'], before ['10.0.0.2']" in rows[2]["text"]
    assert rows[3]["text"] == "it has closed its connection" and rows[0]["time"] <= rows[3]["time"]
    logged = [record.getMessage() for record in caplog.records if record.name == "penstock_net.vswitch"]
    assert [line for line in logged if "detached" in line] == ["detached: port a: it has closed its connection"]
    assert all("\n" not in line for line in logged)


# ---- Waiting times ----


def test_waiting_times_are_measured():
    """From the turn that reads a doorbell to the first one after the frame's delivery; one doorbell in 64 is measured."""
    switch, a, b, c = switch_of(A, B, "10.0.0.3", mode="dpfq", th_goal="1KB", th_over="2KB", th_net="3KB")
    now = 10**9

    def turn(ns):
        nonlocal now
        now += ns
        switch.turn_at(now)
        return switch.ports()[0]["waits"]

    frame = udp(A, B, payload=bytes(958))
    a.send(0, [frame] * 3)
    assert turn(0)["samples"] == 0
    row = turn(5000)
    assert (row["samples"], row["sum_ns"], row["p50_us"], row["p99_us"]) == (1, 5000, 8, 8) and row["counts"][3] == 1
    for _ in range(63):
        a.send(1, [udp(A, "10.0.0.3")])
        turn(1000)
        assert c.receive(1)
    a.send(2, [frame])  # of the flow whose receive queue is full
    for _ in range(100):
        turn(30_000)
    assert turn(0)["samples"] == 1 and len(b.receive(64)) == 3
    while (row := turn(10_000))["samples"] == 1:
        assert now < 2 * 10**9
    assert 3_000_000 <= row["sum_ns"] <= 5_000_000 and row["p99_us"] in (4096, 8192) and row["p50_us"] == 8
    samples = parsed(metrics.page(metrics.snapshot(switch)))
    assert samples[f"{P}port_wait_seconds_bucket", frozenset({"port": "a", "le": "+Inf"}.items())] == 2


def test_an_empty_queue_is_no_sample():
    """A doorbell without a frame does not end the measurement of later ones."""
    switch, a, b = switch_of(A, B)
    a.send(0, [udp(A, B)])
    switch.turns(3)
    before = switch.ports()[0]["waits"]["samples"]
    for _ in range(70):
        assert a.close(0)
        switch.turns(3)
        a.send(0, [udp(A, B)])
        switch.turns(3)
        b.receive(4)
    assert switch.ports()[0]["waits"]["samples"] > before
