"""Tables of `show`: as wide as a terminal, readable, and right."""

import sys

import pytest
from frames import udp
from test_metrics import busy
from test_switch import switch_of

from penstock_net.cli import main
from penstock_net.vswitch.client import tables


def test_what_is_shown_of_a_busy_switch():
    switch, *_ = busy()
    lines = tables.shown("ports", switch.ports())
    assert lines[0].split() == [
        "port",
        "state",
        "flows",
        "frames",
        "in",
        "in",
        "frames",
        "out",
        "out",
        "pauses",
        "refused",
        "lost",
    ]
    a = switch.ports()[0]
    assert lines[1].split()[:4] == ["a", "up", "0", str(a["received_frames"])]
    assert "dropped, port a: no_route 15, spoofed 3 (most: queue 15: 5, queue 14: 4, queue 13: 3)" in lines
    assert "dropped, port c: malformed 1 (most: queue 0: 1)" in lines
    lines = tables.shown("flows", switch.flows())
    assert any(line.endswith("10.0.0.1:3 > 10.0.0.2:2000 UDP") for line in lines)
    assert len(tables.shown("pauses", switch.pauses())) == 1 + len(switch.pauses())
    assert tables.shown("pauses", []) == ["no pauses"]
    assert "th_net     4 KB" in tables.shown("settings", switch.settings)
    switch.detach_name("a")
    lost = tables.shown("detached", switch.detached)
    assert lost[1].split()[:2] == ["a", "detached"] and str(switch.detached[0]["waiting_frames"]) in lost[1].split()


def test_the_peer_of_an_overlay_is_shown_when_it_is_not_there():
    switch, *_ = busy()
    rows = switch.ports()[:3]
    peers = ({"state": "up", "silent_ns": 5}, {"state": "connecting", "silent_ns": 0}, {"state": "dead", "silent_ns": 2 * 10**9})
    lines = tables.shown("ports", [row | {"device": {"overlay": peer}} for row, peer in zip(rows, peers)])
    assert [line.split()[1] for line in lines[1:4]] == ["up", "connecting", "dead"] and "dead for 2 s" in lines[3]


@pytest.mark.parametrize("what", ["ports", "flows", "pauses", "detached"])
def test_a_hundred_columns_are_enough(what):
    """With numbers of years and names of any length."""
    switch, *_ = switch_of(["10.0.0.1", "fd00::1"], "fd00:1234:1234:1234:1234:1234:1234:1234")
    row = switch.ports()[0] | {"port": "x" * 200, "state": "nonsense", "waiting_frames": 10**7, "not_taken_frames": 10**7}
    row |= {key: 10**17 for key in row if key.endswith(("_frames", "_bytes"))} | {"flows": 10**5, "pauses": 10**11}
    flow = {
        "source": "fd00:1234:1234:1234:1234:1234:1234:1234",
        "source_port": 65535,
        "target": "fd00::1",
        "target_port": 1,
        "protocol": 17,
        "from": "a",
        "to": "y" * 99,
        "queue": 65535,
        "waiting_bytes": 10**9,
        "longest_bytes": 10**9,
        "rate_bytes_per_s": 10**11,
        "frames": 10**14,
        "bytes": 10**17,
        "dropped": 10**9,
        "pauses": 10**9,
        "paused_ns": 10**17,
    }
    rows = {"flows": [flow], "pauses": [{"port": "x" * 99, "queue": 9, "left_ns": 10**9}]}.get(what, [row])
    lines = tables.shown(what, rows, 100)
    assert len(lines) == 2 and all(len(line) <= 100 for line in lines), lines
    assert all("…" not in line for line in tables.shown(what, [r | {"port": "a", "to": "a"} for r in rows], 1000))


def test_tables_are_cut_at_the_width_of_a_terminal_only(capsys, monkeypatch):
    """Who writes `show` into a file or a pipe gets every word."""
    row = {"port": "a", "kind": "lost", "frames": 1, "reason": "flow_over", "way": "in", "by": "switch", "text": "m" * 300}
    monkeypatch.setattr("penstock_net.cli.vswitch._ask", lambda *_: {"losses": [row]})
    assert main(["vswitch", "show", "losses"]) == 0
    whole = capsys.readouterr().out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["vswitch", "show", "losses"]) == 0
    cut = capsys.readouterr().out
    assert "m" * 300 in whole and "m" * 300 not in cut and max(map(len, cut.splitlines())) == 80


def test_everything_is_in_the_wide_table():
    switch, a, *_ = busy()
    a.send(0, [udp("10.0.0.1", "10.0.0.2")])
    for rows in (switch.ports(), switch.flows(), switch.pauses()):
        lines = tables.wide(rows)
        assert lines[0].split() == list(rows[0]) and len(lines) == 1 + len(rows)
        assert all(str(value) in line for row, line in zip(rows, lines[1:]) for value in row.values() if isinstance(value, int))


def test_units():
    for count, text in (
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 KB"),
        (47_040, "47 KB"),
        (999_499, "999 KB"),
        (999_600, "1 MB"),
        (12_345_678, "12.3 MB"),
        (4_560_000_000, "4.56 GB"),
        (10**13, "10000 GB"),
    ):
        assert tables.size(count) == text
    for count, text in (
        (0, "0"),
        (999_999, "999,999"),
        (1_234_567, "1.2 M"),
        (999_949_999, "999.9 M"),
        (999_950_000, "1.0 G"),
        (10**12, "1.0 T"),
    ):
        assert tables.count(count) == text
    for ns, text in (
        (0, "0"),
        (5, "5 ns"),
        (999, "999 ns"),
        (1500, "1.5 us"),
        (2_340_000, "2.34 ms"),
        (10**10, "10 s"),
        (3_600 * 10**9, "3,600 s"),
    ):
        assert tables.duration(ns) == text
    assert tables.rate(125_000_000) == "1 Gbit/s" and tables.rate(0) == "-" and tables.rate(1) == "8 bit/s"
