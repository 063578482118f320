"""The simulator's schemes on real frames: the same decisions as in the simulator, losslessness, slow receivers, refusals."""

import contextlib
import mmap
import random
import time

import numpy as np
import pytest
from daemons import running
from frames import payload_of, udp

import penstock_net as ps
from penstock_net.composition import parse
from penstock_net.errors import SpecError
from penstock_net.sim.config import Measure
from penstock_net.sim.settings import Settings
from penstock_net.sim.simulate import Runner
from penstock_net.vswitch.client.client import connect
from penstock_net.vswitch.daemon import protocol
from penstock_net.vswitch.daemon.server import Daemon
from penstock_net.vswitch.memory.region import Region
from penstock_net.vswitch.schemes.switch import SchemeSwitch

FRAME = 1048
COLUMNS = ["event", "port", "in_port", "queue", "upstream_q", "size", "queue_bytes", "port_bytes"]
ACK = 60 * 800  # ps that an ACK of the simulator takes
US = 10**6


def address(i):
    return f"10.0.0.{i + 1}"


def switch_of(ports, links=(), shape=None, delay="1us", parameters=None, **settings):
    """A switch whose ports are (rate, node), or rates, and the applications' regions."""
    places = []
    for i, port in enumerate(ports):
        rate, node = port if isinstance(port, tuple) else (port, 0)
        places.append({"name": f"p{i}", "rate": rate, "delay": delay, "node": node})
    switch, apps = SchemeSwitch(places, links, parameters, **settings), []
    for i in range(len(ports)):
        app = Region.create(**(shape or {"queues": 128, "buffers": 4096, "rings": 1024}))
        switch.attach(f"p{i}", Region.attach(app.fd, app.shape), [address(i)])
        apps.append(app)
    return switch, apps


def simulated(topo, flows, scheme):
    """The simulator's own run: its packet trace, and the pauses that its hosts got."""
    measure = Measure(packets=True, pauses=True, sample="0us", flows=False)
    runner = Runner(Settings(topo, flows, parse(scheme), duration_ps=int(flows.start_ps[-1]) + 1, measure=measure))
    runner.run()
    return runner.logs.whole("trace"), runner.logs.whole("pause")


def frame_of(number, src, dst, size):
    return udp(address(src), address(dst), source_port=number, payload=bytes(size - 42))


def replayed(topo, flows, scheme, trace, ports, links=(), **settings):
    """The same frames to a switch by a clock of ours, each when the simulator's host began to send it; frames by receiver."""
    switch, apps = switch_of(ports, links, scheme=scheme, frame=FRAME, trace=True, **settings)
    came = trace[(trace["node"] == topo.hosts) & np.isin(trace["event"], (0, 4)) & (trace["kind"] == 0)]
    _, first = np.unique(came[["number", "seq"]], return_index=True)  # what was held back is enqueued later
    came = came[first]
    came = came[np.argsort(came["time"] - came["size"].astype(np.int64) * 800, kind="stable")]
    got = [0] * len(apps)
    for row in came:
        number, size = int(row["number"]), int(row["size"])
        switch.to(int(row["time"]) - size * 800 - US)
        src, dst = int(flows.src[number]), int(flows.dst[number])
        assert apps[src].send(int(row["upstream_q"]), [frame_of(number, src, dst, size)], 1, 0)
        for k, app in enumerate(apps):
            got[k] += len(app.receive(64))
    for _ in range(4000):
        switch.to(switch.time + US)
        for k, app in enumerate(apps):
            got[k] += len(app.receive(64))
    return switch, got


def named(numbers):
    """Numbers of flows in the order in which they appear: a real switch cannot know another one."""
    _, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def compare(ours, theirs, columns, slack=0):
    """Every packet in and out of a node; `slack` in the times: only the simulator has ACKs, for which frames may have to wait."""
    ours, theirs = (t[np.isin(t["event"], (0, 1, 4)) & (t["kind"] == 0)] for t in (ours, theirs))
    assert len(theirs) > 900 and len(ours) == len(theirs)
    for column in columns:
        different = np.flatnonzero(ours[column] != theirs[column])
        assert not len(different), (column, len(different), ours[different[0]], theirs[different[0]])
    assert (named(ours["number"]) == named(theirs["number"])).all()
    assert np.abs(ours["time"] - theirs["time"]).max() <= slack
    return len(ours), int((ours["event"] == 4).sum())


def compare_pauses(ours, theirs, hosts):
    """What the applications were told, in order."""
    for host in range(hosts):
        a, b = ours[ours["node"] == host], theirs[theirs["node"] == host]
        assert a["queue"].tolist() == b["queue"].tolist() and a["command"].tolist() == b["command"].tolist()
        assert all(0 <= late <= ACK for late in b["time"] - a["time"])
    return int((ours["node"] < hosts).sum())


def incast(topo, count, size):
    """Long flows from all hosts to one, and in between short ones that begin one after another."""
    chosen = [(1 + i % (topo.hosts - 1), 0, size + 700 * i, f"{2 * i}us") for i in range(count)]
    return ps.flow_list(topo, chosen)


@pytest.mark.parametrize(
    "scheme, buffer, pauses",
    [
        ("bfc", "12MB", True),
        ("bfc:unpaused", "12MB", True),
        ("dqa:stochastic+pfc", "300KB", True),
        ("pfc", "300KB", True),
        ("pfc:ns3", "400KB", True),
        ("dqa", "12MB", False),
        ("ideal_fq", "12MB", False),
    ],
)
def test_decisions_are_the_simulators_packet_by_packet(scheme, buffer, pauses):
    """Times, queues, what they held, the upstream queue: equal to the picosecond for every packet in and out of the switch.

    So are the pauses that it sends, and in which order they come.
    """
    topo = ps.star(hosts=5, rate="10Gbps", delay="1us", buffer=buffer)
    flows = incast(topo, 12, 60_000)
    trace, pauses_there = simulated(topo, flows, scheme)
    switch, got = replayed(topo, flows, scheme, trace, ["10Gbps"] * 5, buffer=buffer)
    rows, _ = compare(switch.log("trace"), trace[trace["node"] == topo.hosts], COLUMNS)
    assert got[0] == rows // 2
    count = compare_pauses(switch.log("pause"), pauses_there, topo.hosts)
    assert count > 10 if pauses else count == 0


@pytest.mark.parametrize("scheme, held, paused", [("floodgate", 700, 0), ("floodgate:ideal", 700, 300), ("bfc", 0, 300)])
def test_decisions_of_two_switches(scheme, held, paused):
    """Joined by a link: what waits for a credit, which queue, who is paused. Credits share a line with the simulator's ACKs."""
    topo = ps.dumbbell(left=3, right=2, rate="10Gbps", delay="1us")
    flows = ps.flow_list(topo, [(i % 3, 3 + (i % 4 == 0), 60_000 + 700 * i, f"{2 * i}us") for i in range(12)])
    trace, pauses_there = simulated(topo, flows, scheme)
    ports = [("10Gbps", 0)] * 3 + [("10Gbps", 1)] * 2
    switch, got = replayed(topo, flows, scheme, trace, ports, [{"between": [0, 1], "rate": "10Gbps", "delay": "1us"}])
    ours = switch.log("trace")
    rows, holds = compare(ours[ours["node"] == 5], trace[trace["node"] == 5], COLUMNS, ACK)
    assert (holds > held) == (held > 0) and sum(got) == (rows - holds) // 2
    compare(ours[ours["node"] == 6], trace[trace["node"] == 6], COLUMNS, ACK)
    assert (compare_pauses(switch.log("pause"), pauses_there, topo.hosts) > paused) == (paused > 0)


def numbered(src, dst, count, size=1000, source_port=1000):
    return [udp(address(src), address(dst), source_port, payload=b"%06d" % i + bytes(size - 48)) for i in range(count)]


def numbers_of(frames):
    return [int(payload_of(frame)[:6]) for _, frame in frames]


def pump(switch, apps, wanted, us, sends=(), most=64):
    """Run for a time in steps of 1 us: send while there is room, receive at the given ports; returns frames by application."""
    got = {i: [] for i in wanted}
    for _ in range(us):
        for app, queue, frames in sends:
            del frames[: apps[app].send(queue, frames[:32])]
        switch.to(switch.time + US)
        for i in wanted:
            got[i] += apps[i].receive(most)
    return got


@pytest.mark.parametrize("scheme", ["bfc", "dqa+pfc", "pfc", "floodgate"])
def test_what_a_stopped_receiver_does(scheme):
    """Nothing is lost. With a queue per flow the other flow of the same sender goes on; under PFC it waits as well."""
    switch, apps = switch_of(["10Gbps"] * 3, scheme=scheme, buffer="400KB", shape={"queues": 8, "buffers": 8192, "rings": 1024})
    slow, fast = numbered(0, 1, 1500), numbered(0, 2, 1500, source_port=7)
    got = pump(switch, apps, [2], 2000, [(0, 0, slow), (0, 1, fast)])
    waits = {(p["port"], p["by"]) for p in switch.pauses()}
    assert ("p1", "receiver") in waits
    if scheme == "bfc":
        assert ("p0", "scheme") in waits and [p["queue"] for p in switch.pauses() if p["by"] == "scheme"] == [0]
        assert numbers_of(got[2]) == list(range(1500)) and not fast
        assert switch.ports()[0]["line"]["pauses_sent"] > 0 == switch.ports()[2]["line"]["stops"]
    elif "pfc" in scheme:
        assert {"port": "p0", "queue": None, "to_device": False, "left_ns": None, "by": "scheme"} in switch.pauses()
        assert len(got[2]) < 600
    held = switch.flows()[0]["waiting_bytes"]
    assert 128_000 < held < 128_000 + 20_000  # th_over, and what was on the line
    got2 = pump(switch, apps, [1, 2], 4000, [(0, 0, slow), (0, 1, fast)])
    assert numbers_of(got2[1]) == list(range(1500)) and numbers_of(got[2] + got2[2]) == list(range(1500))
    assert switch.pauses() == [] and not any(p["drops"] for p in switch.ports()) and not switch.waiting()


def test_every_frame_is_delivered_or_counted():
    """A scheme that drops: the counters account for all missing frames."""
    switch, apps = switch_of(["10Gbps", "10Gbps", "1Gbps"], scheme="fifo", buffer="50KB")
    sends = [(0, 0, numbered(0, 2, 300)), (1, 3, numbered(1, 2, 300))]
    got = pump(switch, apps, [2], 3000, sends)
    row = switch.ports()[2]
    assert len(got[2]) == row["sent_frames"] and 0 < row["drops"]["buffer"] == 600 - len(got[2])
    assert row["line"]["longest_bytes"] <= 50_000


def checksum_is_right(frame, at=14):
    total = sum(int.from_bytes(frame[at + k : at + k + 2], "big") for k in range(0, 20, 2))
    return (total & 0xFFFF) + (total >> 16) == 0xFFFF


def with_ecn(frame, ecn):
    """The frame with its ECN field, and a check sum where there is one."""
    raw = bytearray(frame)
    if raw[12:14] == b"\x86\xdd":
        raw[15] |= ecn << 4
        return bytes(raw)
    raw[15], raw[24:26] = 0xB8 | ecn, b"\0\0"
    total = sum(int.from_bytes(raw[k : k + 2], "big") for k in range(14, 34, 2))
    raw[24:26] = (~((total & 0xFFFF) + (total >> 16)) & 0xFFFF).to_bytes(2, "big")
    assert checksum_is_right(raw)
    return bytes(raw)


@pytest.mark.parametrize("six", [False, True])
def test_marks_of_a_scheme_are_in_the_frames(six):
    """DCTCP's switches mark above a queue length: ECN-capable frames are marked with valid checksums, others are unchanged."""
    switch, apps = switch_of(["10Gbps", "10Gbps", "1Gbps"], scheme="dctcp", parameters={"k_min": "30KB", "k_max": "31KB"})
    assert switch.left_out == ["dctcp"]
    if six:
        for i in (0, 1, 2):
            switch.detach(i)
            apps[i] = Region.create(queues=128, buffers=4096, rings=1024)
            switch.attach(f"p{i}", Region.attach(apps[i].fd, apps[i].shape), [f"fd00::{i + 1}"])
    frames = []
    for ecn in range(4):
        for i in range(60):
            ends = ("fd00::1", "fd00::3") if six else (address(0), address(2))
            frames.append(with_ecn(udp(*ends, 7, ecn, bytes([i]) * 900), ecn))
    sent = sorted(frames, key=lambda frame: frame[-1])
    got = [frame for _, frame in pump(switch, apps, [2], 4000, [(0, 0, list(sent))])[2]]
    field = (lambda frame: frame[15] >> 4 & 3) if six else (lambda frame: frame[15] & 3)
    changed = {ecn: 0 for ecn in range(4)}
    for before, after in zip(sent, got, strict=True):
        if before != after:
            assert field(after) == 3 and before[26:] == after[26:] and before[16:24] == after[16:24] and before[:15] == after[:15]
            assert six or checksum_is_right(after)
            changed[field(before)] += 1
    assert changed[0] == changed[3] == 0 and 20 < changed[1] < 60 and 20 < changed[2] < 60
    assert switch.ports()[2]["line"]["ecn_marks"] > changed[1] + changed[2]


def test_what_may_not_enter_does_not():
    switch, (a, b) = switch_of(["10Gbps"] * 2, scheme="bfc", frame=1100)
    good = udp(address(0), address(1), payload=b"good")
    bad = [good[:30], udp(address(5), address(1)), udp(address(0), address(7)), udp(address(0), address(1), payload=bytes(1200))]
    assert a.send(3, [*bad, good]) == 5
    for _ in range(10):
        switch.to(switch.time + US)
    assert [frame for _, frame in b.receive()] == [good]
    assert switch.ports()[0]["drops"] == {"malformed": 1, "spoofed": 1, "no_route": 1, "too_long": 1}


@pytest.mark.parametrize("count", [1, 3])
def test_memory_is_bounded_and_no_reason_to_drop(count):
    """With little memory for frames the applications' queues wait."""
    switch, apps = switch_of(["10Gbps"] * 3 + ["1Gbps"], scheme="dqa", packets=count)
    sends = [(i, 0, numbered(i, 3, 100)) for i in range(3)]
    got = pump(switch, apps, [3], 60_000 // count, sends)
    assert len(got[3]) == 300 and switch.counters()["packets"] <= count


def test_a_receiver_without_memory_holds_frames_and_loses_none():
    """A region of few buffers: they are full before a threshold is reached."""
    switch, apps = switch_of(["10Gbps"] * 3, scheme="bfc")
    switch.detach(1)
    apps[1] = Region.create(queues=4, buffers=2, rings=8)
    switch.attach("p1", Region.attach(apps[1].fd, apps[1].shape), [address(1)])
    sends, got = [(0, 0, numbered(0, 1, 200)), (0, 1, numbered(0, 1, 200, source_port=7))], []
    pump(switch, apps, [], 500, sends[:1])
    pump(switch, apps, [], 500, sends[1:])
    sends.append((2, 0, numbered(2, 1, 200, source_port=9)))
    pump(switch, apps, [], 500, sends[2:])
    assert switch.waiting() and switch.counters()["packets"] < 100  # most of them wait where they were
    assert {"port": "p1", "queue": None, "to_device": False, "left_ns": None, "by": "receiver"} in switch.pauses()
    for _ in range(1200):
        pump(switch, apps, [], 20, sends)
        got += apps[1].receive(3)
    for port in (b"\x03\xe8", b"\0\7", b"\0\t"):
        assert numbers_of([each for each in got if each[1][34:36] == port]) == list(range(200))
    line = switch.ports()[1]["line"]
    assert line["held_late"] > 0 < line["stops"]


def test_applications_come_and_go():
    """Those that leave take their frames along; nothing stays paused for them, and their place is free again."""
    switch, apps = switch_of(["10Gbps"] * 3, scheme="bfc")
    sends = [(0, 0, numbered(0, 1, 2000)), (2, 0, numbered(2, 1, 2000))]
    for _ in range(20):
        pump(switch, apps, [], 300, sends)
        assert any(p["by"] == "scheme" for p in switch.pauses())
        switch.detach(1)
        pump(switch, apps, [], 100)
        switch.detach(0)
        pump(switch, apps, [], 300)
        assert not [p for p in switch.pauses() if p["by"] == "receiver"] and not switch.counters()["stored_bytes"]
        for i in (0, 1):
            apps[i] = Region.create(queues=128, buffers=4096, rings=1024)
            switch.attach(f"p{i}", Region.attach(apps[i].fd, apps[i].shape), [address(i)])
        sends[0] = (0, 0, numbered(0, 1, 2000))
        sends[1] = (2, 0, numbered(2, 1, 2000))
    frames = numbered(0, 1, 50, source_port=77)
    apps[0].send(5, frames)
    got = pump(switch, apps, [1], 4000)[1]
    assert [frame for _, frame in got if frame[34:36] == b"\0M"] == frames
    assert switch.counters()["packets"] < 1000
    with pytest.raises(SpecError, match="none of that name"):
        switch.attach("p9", apps[0], ["10.0.0.9"])


@pytest.mark.parametrize("seed", range(4))
def test_invalid_words_in_a_region_harm_no_other_application(seed):
    """Random words anywhere in its region, while it sends, is paused and receives; two others lose nothing."""
    draw = random.Random(seed)
    switch, apps = switch_of(["10Gbps"] * 4, scheme=["bfc", "pfc", "dqa+pfc", "floodgate:ideal"][seed], buffer="1MB")
    memory = mmap.mmap(apps[0].fd, 0)
    others, got = numbered(1, 2, 3000, source_port=5), []
    for turn in range(3000):
        for _ in range(draw.randrange(4)):
            at = draw.randrange(len(memory) // 8 if draw.random() < 0.3 else 8192) * 8
            memory[at : at + 8] = draw.choice([0, 1, 5, 2**31 - 1, 2**64 - 1, draw.getrandbits(64)]).to_bytes(8, "little")
        with contextlib.suppress(SpecError):
            apps[0].send(draw.randrange(128), numbered(0, draw.choice([0, 2, 3]), 3, draw.randrange(60, 1500)))
            apps[3].send(1, numbered(3, 0, 3, source_port=turn % 100))
        del others[: apps[1].send(0, others[:4])]
        switch.to(switch.time + 3 * US)
        got += [frame for _, frame in apps[2].receive(64) if frame[26:30] == bytes([10, 0, 0, 2])]
    for _ in range(200):
        switch.to(switch.time + 100 * US)
        got += [frame for _, frame in apps[2].receive(256) if frame[26:30] == bytes([10, 0, 0, 2])]
        del others[: apps[1].send(0, others[:32])]
    assert [int(payload_of(frame)[:6]) for frame in got] == list(range(3000))
    switch.detach(0)
    assert switch.counters()["error_of_scheme"] == 0


def test_a_new_world_begins_without_a_loss():
    """Time in the keys of events ends after 37 minutes: what waits goes over into a new world."""
    switch, apps = switch_of(["10Gbps"] * 3, scheme="bfc")
    slow, fast = numbered(0, 1, 2000), numbered(0, 2, 2000, source_port=9)
    sends, got = [(0, 0, slow), (0, 1, fast)], {1: [], 2: []}
    for _ in range(4):
        for i, frames in pump(switch, apps, [2], 400, sends).items():
            got[i] += frames
        pauses = switch.ports()[0]["pauses"]
        assert pauses > 0
        assert not switch.renew()  # not while a receiver holds frames up
        for i, frames in pump(switch, apps, [1, 2], 100).items():
            got[i] += frames
        time.sleep(0.01)  # it goes by the machine's clock, which ours must not be ahead of
        assert switch.waiting() and switch.renew() and switch.time == 0
        assert switch.ports()[0]["pauses"] >= pauses
    for i, frames in pump(switch, apps, [1, 2], 6000, sends).items():
        got[i] += frames
    assert [numbers_of(got[i]) for i in (1, 2)] == [list(range(2000))] * 2
    assert not any(p["drops"] for p in switch.ports())


@pytest.mark.parametrize(
    "settings, says",
    [
        ({"scheme": "hpcc"}, "needs its hosts"),
        ({"scheme": "backdraft"}, "needs its hosts"),
        ({"scheme": "homa"}, "needs its hosts"),
        ({"scheme": "ndp"}, "only simulated switches do"),
        ({"scheme": "srf"}, "next_queue, which only simulated switches do"),
        ({"scheme": "bcf"}, 'switch.scheme = "bcf": no scheme has this name; did you mean "bfc"?'),
        ({"scheme": "window_cap"}, "nothing of it runs at a switch"),
        ({"scheme": "bfc", "mode": "lossy"}, "give mode or scheme"),
        ({"scheme": "bfc", "bufer": 3}, "unknown key"),
        ({"scheme": "bfc", "packets": 0}, "must be between 1 and"),
        ({"scheme": "bfc", "frame": 40}, "must be more than"),
        ({"scheme": "pfc", "buffer": "10KB"}, "headroom"),
        ({"scheme": "pfc", "buffer": "4MB", "parameters": {"priorities": 2}}, "frames at a switch have none"),
    ],
)
def test_what_cannot_be_is_refused(settings, says):
    with pytest.raises(SpecError, match=says):
        switch_of(["10Gbps"] * 2, **settings)


@pytest.mark.parametrize("answer", ["TRIM", "RETURN"])
def test_a_scheme_that_may_cut_packets_is_refused(tmp_path, answer):
    file = tmp_path / "mine.py"
    file.write_text(f"def admit(me, node, port, pkt):\n    return ADMITTED if port.bytes < 9000 else {answer}\n")
    with pytest.raises(SpecError, match=f"has {answer}, which only simulated switches do"):
        switch_of(["10Gbps"] * 2, scheme=str(file))


@pytest.fixture
def daemon(tmp_path):
    """A switch process's insides, in a thread: two fast ports and a slow one, under BFC."""
    ports = [{"name": f"p{i}", "addresses": [address(i)], "rate": "1Gbps", "delay": "20us"} for i in range(3)]
    with running(tmp_path / "switch.sock", {"switch": {"scheme": "bfc"}, "scheme": {"queues": 16}, "port": ports}) as made:
        yield made


def test_a_process_with_a_scheme(daemon):
    """By the machine's clock, with sockets and doorbells: a stopped receiver pauses one transmit queue, nothing is lost."""
    path = daemon.path
    ask = lambda **message: protocol.ask(path, message)  # noqa: E731
    with connect("p0", path, buffers=2048) as a, connect("p1", path) as b, connect("p2", path) as c:
        slow, fast = numbered(0, 1, 600), numbered(0, 2, 600, source_port=9)
        got, end = [], time.monotonic() + 120
        while time.monotonic() < end and len(got) < 600:
            del slow[: a.send(0, slow[:32])]
            del fast[: a.send(1, fast[:32])]
            got += c.receive(64, timeout=0.001)
        assert numbers_of(got) == list(range(600))
        pauses = ask(show="pauses")["pauses"]
        assert {(p["port"], p["by"]) for p in pauses} == {("p0", "scheme"), ("p1", "receiver")}
        assert ask(show="settings")["settings"]["parameters"]["dqa.queues"] == 16
        assert ask(set={"th_over": "100KB"})["settings"]["th_over"] == 100_000
        with pytest.raises(SpecError, match="takes a new start"):
            ask(set={"scheme": "pfc"})
        got = []
        while time.monotonic() < end and len(got) < 600:
            del slow[: a.send(0, slow[:32])]
            got += b.receive(64, timeout=0.001)
        assert numbers_of(got) == list(range(600))
        assert ask(drain=True)["drained"] and not any(p["drops"] for p in ask(show="ports")["ports"])
        start, before = time.monotonic(), ask(show="counters")["counters"]["rounds"]
        time.sleep(0.3)
        rounds = ask(show="counters")["counters"]["rounds"] - before
        assert rounds < 10_000 * (time.monotonic() - start)  # it sleeps


@pytest.mark.parametrize(
    "content, says",
    [
        (
            {"port": [{"name": "a", "addresses": ["10.0.0.1"], "rate": "1Gbps"}]},
            "port.rate: is only for a switch that runs a scheme",
        ),
        ({"port": [{"name": "a", "addresses": ["10.0.0.1"]}], "link": []}, "link: is only for"),
        ({"port": [{"name": "a", "addresses": ["10.0.0.1"]}], "switch": {"scheme": "bfc"}, "link": 3}, "must be tables"),
        (
            {"port": [{"name": "a", "addresses": ["10.0.0.1"]}], "switch": {"scheme": "bfc"}, "scheme": {"queus": 3}},
            "^scheme.queus: .*queues",
        ),
        ({"port": [{"name": "a", "addresses": ["10.0.0.1"]}], "switch": {"scheme": "bfc", "frame": 1 << 20}}, "bytes or less"),
    ],
)
def test_what_a_spec_may_not_say(content, says, tmp_path):
    with pytest.raises(SpecError, match=says):
        Daemon({**content, "port": [*content["port"], {"name": "b", "addresses": ["10.0.0.2"]}]}, str(tmp_path / "s"))
