"""Traces and captures, read by the programs that they are for: Perfetto's trace processor, and tshark."""

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from trace_processor import MISSING, TraceProcessor

import penstock_net as ps
from penstock_net.cli import main
from penstock_net.errors import SpecError
from penstock_net.results.run import Run
from penstock_net.trace import frames, write_trace

needs_perfetto = pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)} not installed")
needs_tshark = pytest.mark.skipif(not shutil.which("tshark"), reason="tshark not installed")
EVERYTHING = ps.Measure(sample="1us", pauses=True, packets=True, port_series=True, queues=True)


def simulated(scheme, hosts: int = 16, buffer: str = "600KB", measure: ps.Measure = EVERYTHING, **settings) -> Run:
    """An incast to host0 and another to host5, from three racks over two spines: pauses reach the senders."""
    topo = ps.leaf_spine(hosts=hosts, tors=4, spines=2, buffer=buffer)
    flows = [(i, 0, "200KB") for i in range(4, hosts)] + [(i, 5, "100KB") for i in (8, 9, 12)]
    return ps.simulate(topo, ps.flow_list(topo, flows), scheme, measure=measure, **settings)


@pytest.fixture(scope="module")
def pfc() -> Run:
    return simulated("pfc", duration="100us")


@pytest.fixture(scope="module")
def bfc() -> Run:
    return simulated("bfc", hosts=32, buffer="12MB")


@pytest.fixture(scope="module")
def opened(pfc, bfc, tmp_path_factory):
    """(run, what write_trace returned, its trace) by name."""
    runs, traces = {"pfc": pfc, "bfc": bfc}, {}

    def get(name):
        if name not in traces:
            path = tmp_path_factory.mktemp(name) / "x.pftrace"
            traces[name] = runs[name], write_trace(runs[name], path), TraceProcessor(path)
        return traces[name]

    yield get
    for _, _, trace in traces.values():
        trace.close()


def pauses_of(run: Run) -> pl.DataFrame:
    """The pauses with the names of their nodes, by a way of its own: the pairs of rows of each queue."""
    names = run.frames["nodes"]["name"]
    rows = []
    for (node, port, queue), log in run.frame("pauses").group_by("node", "port", "queue", maintain_order=True):
        times, paused = log["time_ns"].to_list(), log["paused"].to_list()
        assert paused == [i % 2 == 0 for i in range(len(paused))]
        rows += [(names[node], port, queue, *([*times[i : i + 2], None][:2])) for i in range(0, len(times), 2)]
    return pl.DataFrame(rows, schema=["node", "port", "queue", "start", "end"], orient="row")


# ---- Perfetto ----

SLICES = """
select p.name as node, p.pid, own.name as track, above.name as port, s.name, s.category, s.ts, s.dur, s.id
from slice s join process_track own on own.id = s.track_id join process p using (upid)
left join track above on above.id = own.parent_id order by s.ts, s.id
"""
ARROWS = """
select cause.ts as cause_ts, effect.ts as effect_ts, a.name as cause, b.name as effect, x.name as cause_track,
    y.name as effect_track
from flow join slice cause on cause.id = slice_out join slice effect on effect.id = slice_in
join process_track x on x.id = cause.track_id join process_track y on y.id = effect.track_id
join process a on a.upid = x.upid join process b on b.upid = y.upid
"""
COUNTERS = """
select c.ts, c.value, p.name as node, above.name as port, two.name as queue_of from counter c
join track own on own.id = c.track_id join process_counter_track t on t.id = own.id join process p using (upid)
join track above on above.id = own.parent_id left join track two on two.id = above.parent_id order by c.ts
"""
PROBLEMS = "select name, value from stats where value > 0 and severity in ('error', 'data_loss')"


def place(row: dict) -> tuple[int, int]:
    """(port, queue) of a slice's track: "port 4 to spine0", or "queue 3" below one."""
    track = row["track"].split()
    return (int(track[1]), -1) if track[0] == "port" else (int(row["port"].split()[1]), int(track[1]))


@needs_perfetto
@pytest.mark.parametrize("name", ["pfc", "bfc"])
def test_every_pause_is_a_slice_of_its_port_or_queue(name, opened):
    run, counts, trace = opened(name)
    expected = pauses_of(run)
    assert counts["pauses"] == expected.height > 50 and trace.query(PROBLEMS) == []
    slices = trace.query(SLICES)
    names = run.frames["nodes"]["name"].to_list()
    assert all(names[row["pid"] - 1] == row["node"] for row in slices)
    assert {(row["name"], row["category"]) for row in slices} == {("paused", "pause")}
    seen = Counter((row["node"], *place(row), row["ts"], row["ts"] + row["dur"]) for row in slices)
    assert seen == Counter((n, p, q, round(start), round(end)) for n, p, q, start, end in expected.rows())
    peers = {(names[n], p): names[peer] for n, p, peer in run.ports.select("node", "port", "peer").rows()}
    ports = [(row["node"], row["port"] if "queue" in row["track"] else row["track"]) for row in slices]
    assert all(f"port {n} to {peers[node, int(n)]}" == track for node, track in ports for n in [track.split()[1]])


@needs_perfetto
def test_arrows_lead_from_a_paused_port_to_the_pauses_behind_it(opened):
    """From the spine's port to tor0 to the ports of other ToRs to the spine, and from there to their hosts."""
    run, counts, trace = opened("pfc")
    arrows = trace.query(ARROWS)
    assert len(arrows) == counts["arrows"] > 10
    pauses = {(n, p, round(start)): (start, end) for n, p, _, start, end in pauses_of(run).rows()}
    steps = set()
    for row in arrows:
        cause, effect = ((row[end], int(row[f"{end}_track"].split()[1]), row[f"{end}_ts"]) for end in ("cause", "effect"))
        sent = pauses[effect][0] - 1000  # the delay of a link
        assert pauses[cause][0] <= sent < pauses[cause][1]
        steps.add((cause[0][:3], effect[0][:3], row["effect_track"].split()[-1] == cause[0]))
    assert steps == {("spi", "tor", True), ("tor", "hos", True)}


@needs_perfetto
@pytest.mark.parametrize("name", ["pfc", "bfc"])
def test_counters_are_the_samples_of_queues(name, opened):
    """At each sample of a port, its counter has the sampled value; a queue that is not listed is empty."""
    run, _, trace = opened(name)
    rows = trace.query(COUNTERS)
    names = run.frames["nodes"]["name"]
    times = run.switches["time_ns"].unique().sort().to_list()
    for frame, column, kind in (("port_series", "queue_bytes", "port"), ("queues", "bytes", "queue")):
        sampled: dict = {}
        for row in run.frame(frame).iter_rows(named=True):
            sampled.setdefault((names[row["node"]], row["port"], row.get("queue", -1)), {})[row["time_ns"]] = row[column]
        changes: dict = {}
        for row in rows:
            if row["port"].startswith(kind):
                port, queue = (row["port"], "-1") if kind == "port" else (row["queue_of"], row["port"].split()[1])
                changes.setdefault((row["node"], int(port.split()[1]), int(queue)), {})[row["ts"]] = row["value"]
        assert changes.keys() == {key for key, series in sampled.items() if any(series.values())} and changes
        for key, series in changes.items():
            level = 0
            for time in times:
                level = series.pop(round(time), level)
                assert level == sampled[key].get(time, 0), (key, time)
            assert not series


WINDOWS = "select t.name as track, s.name, s.ts, s.dur from slice s join track t on t.id = s.track_id where s.category = 'window'"


@needs_perfetto
def test_the_measurement_window_is_a_slice(opened, tmp_path):
    run, _, trace = opened("pfc")
    start, end = run.window
    row = {"track": "measurement window", "name": run.window_text, "ts": round(start), "dur": round(end) - round(start)}
    assert trace.query(WINDOWS) == [row]
    write_trace(run, tmp_path / "x.pftrace", start=f"{round(end)}ns", end="1ms")
    with TraceProcessor(tmp_path / "x.pftrace") as other:
        assert other.query(WINDOWS) == []


@needs_perfetto
def test_a_part_of_a_trace(pfc, tmp_path):
    """Pauses that reach beyond the time shown are cut off; other nodes are left out."""
    start, end = 20_000, 60_000
    write_trace(pfc, tmp_path / "x.pftrace", start="20us", end="60us", nodes=["spine0", "5"])
    expected = pauses_of(pfc).filter(pl.col("node").is_in(["spine0", "host5"]), pl.col("start") < end, pl.col("end") >= start)
    with TraceProcessor(tmp_path / "x.pftrace") as trace:
        slices = trace.query(SLICES)
        times = trace.query("select min(ts) as first, max(ts) as last from counter")[0]
    got = Counter((row["node"], row["ts"], row["dur"]) for row in slices)
    assert got == Counter(
        (node, max(round(a), start), round(b) - max(round(a), start) if b < end else -1)
        for node, a, b in expected.select("node", "start", "end").rows()
    )
    assert any(row["dur"] == -1 for row in slices) and any(row["ts"] == start for row in slices)
    assert start <= times["first"] <= times["last"] < end


@needs_perfetto
def test_pauses_that_do_not_end(tmp_path):
    run = simulated("pfc", duration="40us", drain=False)
    write_trace(run, tmp_path / "x.pftrace")
    ended = pauses_of(run)["end"].is_not_null()
    assert 0 < ended.sum() < len(ended)
    with TraceProcessor(tmp_path / "x.pftrace") as trace:
        assert Counter(row["dur"] < 0 for row in trace.query(SLICES)) == Counter((~ended).to_list())


# ---- pcapng ----

FRAME = ["time_epoch", "interface_name", "interface_description", "packet_flags_direction", "comment", "len", "cap_len"]
FIELDS = [f"frame.{name}" for name in FRAME]
FIELDS += ["eth.src", "eth.dst", "eth.type", "macc.opcode", "macc.cbfc.enbv", "ip.src", "ip.dst", "ip.dsfield.ecn", "ip.len"]
FIELDS += ["udp.srcport", "udp.dstport", "data.data"]
TIMES = [f"macc.cbfc.pause_time.c{i}" for i in range(8)]


def decoded(path: Path, fields=(*FIELDS, *TIMES)) -> list[dict[str, str]]:
    """The fields of all frames, as tshark decodes them."""
    options = [part for field in fields for part in ("-e", field)]
    done = subprocess.run(["tshark", "-n", "-r", path, "-T", "fields", *options], capture_output=True, text=True, check=True)
    return [dict(zip(fields, line.split("\t"))) for line in done.stdout.splitlines()]


def ns(row: dict[str, str]) -> int:
    whole, _, rest = row["frame.time_epoch"].partition(".")
    return int(whole) * 10**9 + int(rest.ljust(9, "0"))


@needs_tshark
def test_tshark_finds_nothing_wrong(pfc, bfc, tmp_path):
    """Nothing is malformed, and there are no remarks but our comments."""
    for run in (pfc, bfc):
        counts = write_trace(run, tmp_path / "x.pcapng")
        rows = decoded(tmp_path / "x.pcapng", ["_ws.malformed", "_ws.expert.group", "frame.comment"])
        assert len(rows) == sum(counts.values())
        assert not any(row["_ws.malformed"] for row in rows)
        assert all(row["_ws.expert.group"] == ("184549376" if row["frame.comment"] else "") for row in rows)
    info = subprocess.run(["capinfos", "-M", tmp_path / "x.pcapng"], capture_output=True, text=True).stdout
    assert f"Number of interfaces in file: {run.ports.height}" in info


@needs_tshark
def test_pauses_are_pfc_frames(pfc, tmp_path):
    """Of all classes, since the whole port is paused, with their times in quanta; at the port that was paused."""
    counts = write_trace(pfc, tmp_path / "x.pcapng", "pcapng")
    rows = [row for row in decoded(tmp_path / "x.pcapng") if row["macc.opcode"]]
    log, names = pfc.frame("pauses"), pfc.frames["nodes"]["name"]
    ends = {(node, port): peer for node, port, peer in pfc.ports.select("node", "port", "peer").rows()}
    assert counts["pauses"] == log["paused"].sum() and counts["resumes"] == (~log["paused"]).sum()
    assert [(ns(row), row["frame.interface_name"]) for row in rows] == [
        (round(time), f"{names[node]}:{port}") for time, node, port in log.select("time_ns", "node", "port").rows()
    ]
    lasts = dict(zip(pauses_of(pfc).select("node", "port", "start").rows(), pauses_of(pfc)["end"]))
    for row, (time, node, port, paused) in zip(rows, log.select("time_ns", "node", "port", "paused").rows()):
        assert (row["macc.opcode"], row["macc.cbfc.enbv"]) in {("257", "0x00ff"), ("0x0101", "0x00ff")}
        assert row["eth.dst"] == "01:80:c2:00:00:01" and int(row["eth.type"], 16) == 0x8808
        assert row["frame.interface_description"] == f"to {names[ends[node, port]]}"
        assert row["eth.src"][9:] == ends[node, port].to_bytes(3).hex(":") and row["frame.len"] == "60"
        assert int(row["frame.packet_flags_direction"], 0) == 1
        times = {int(row[field]) for field in TIMES}
        if paused:
            length = lasts[names[node], port, time] - time
            assert len(times) == 1 and -1e-6 < times.pop() * 5.12 - length < 5.12  # 512 bits at 100 Gbit/s
        else:
            assert times == {0}


@needs_tshark
def test_queues_of_bfc_are_classes_up_to_the_eighth(bfc, tmp_path):
    """PFC has eight classes: the pauses of other queues are frames of the experimental Ethertype that say so in words."""
    write_trace(bfc, tmp_path / "x.pcapng")
    rows = [row for row in decoded(tmp_path / "x.pcapng") if row["frame.comment"]]
    log = bfc.frame("pauses")
    assert len(rows) == log.height and log["queue"].min() == 0 and log["queue"].max() > 8
    for row, (queue, paused) in zip(rows, log.select("queue", "paused").rows()):
        assert row["frame.comment"] == f"{'pause' if paused else 'resume'} of queue {queue}"
        if queue < 8:
            assert int(row["macc.cbfc.enbv"], 16) == 1 << queue
            assert [int(row[field]) > 0 for field in TIMES] == [paused and i == queue for i in range(8)]
        else:
            assert int(row["eth.type"], 16) == 0x88B5 and not row["macc.opcode"]
            assert row["frame.comment"].encode().hex() in row["data.data"]


@needs_tshark
def test_packets_are_udp_with_their_lengths_and_marks(tmp_path):
    """Each comes in at a switch by one port and leaves by another; headers only are kept."""
    run = simulated("hpcc+ecn")
    counts = write_trace(run, tmp_path / "x.pcapng")
    rows = [row for row in decoded(tmp_path / "x.pcapng") if row["udp.dstport"]]
    names = run.frames["nodes"]["name"]
    events = run.frame("packets").filter(pl.col("event").is_in(["enqueue", "dequeue"]), pl.col("kind") < 2)
    assert counts["packets"] == len(rows) == events.height > 3000 and events["ecn"].any()
    columns = ("time_ns", "node", "port", "in_port", "event", "flow_id", "offset_bytes", "bytes", "ecn")
    expected, seen = Counter(), Counter()
    for time, node, port, in_port, event, flow, offset, size, ecn in events.select(columns).rows():
        src, dst = run.flows.row(flow)[1:3]
        place = (in_port, 1) if event == "enqueue" else (port, 2)
        head = (round(time), f"{names[node]}:{place[0]}", place[1], size, f"10.0.0.{src + 1}", f"10.0.0.{dst + 1}")
        expected[*head, 3 if ecn else 2, flow, offset] += 1
    for row in rows:
        payload = bytes.fromhex(row["data.data"])
        head = (ns(row), row["frame.interface_name"], int(row["frame.packet_flags_direction"], 0), int(row["frame.len"]))
        own = (int(row["ip.dsfield.ecn"]), int.from_bytes(payload[:8]), int.from_bytes(payload[8:]))
        seen[*head, row["ip.src"], row["ip.dst"], *own] += 1
        assert int(row["ip.len"]) == head[3] - 14 and row["frame.cap_len"] == "58" and row["udp.dstport"] == "9"
    assert seen == expected


@needs_tshark
def test_packets_of_a_part(pfc, tmp_path):
    counts = write_trace(pfc, tmp_path / "x.pcapng", nodes=["tor1"], ports=[4], start="10us", end="50us")
    rows = decoded(tmp_path / "x.pcapng")
    assert len(rows) == sum(counts.values()) > 100
    assert {row["frame.interface_name"] for row in rows} == {"tor1:4"} and {ns(row) // 10_000 for row in rows} == {1, 2, 3, 4}
    assert {row["frame.packet_flags_direction"][-1] for row in rows} == {"1", "2"}


def packet_counts(run: Run, tmp_path: Path) -> Counter:
    """Frames by their comments."""
    write_trace(run, tmp_path / "x.pcapng")
    return Counter(
        row["frame.comment"] for row in decoded(tmp_path / "x.pcapng", ["frame.comment", "udp.dstport"]) if row["udp.dstport"]
    )


@needs_tshark
def test_packets_that_wait_in_a_virtual_output_queue_came_in_once(tmp_path):
    run = simulated("pfc_tagged")
    events = Counter(run.frame("packets").filter(pl.col("kind") < 2)["event"])
    assert events["hold"] > 0
    assert sum(packet_counts(run, tmp_path).values()) == events["enqueue"] + events["dequeue"]


@needs_tshark
def test_dropped_packets_say_so(tmp_path):
    run = simulated("fifo", buffer="100KB", measure=ps.Measure(packets=True), host=ps.HostConfig(rto="100us"))
    events = Counter(run.frame("packets").filter(pl.col("kind") < 2)["event"])
    assert packet_counts(run, tmp_path)["dropped"] == events["drop"] == run.summary["drops"] > 0


@needs_tshark
def test_packets_shorter_than_their_headers(tmp_path):
    topo = ps.star(hosts=2)
    host = ps.HostConfig(mtu=10, header=0, ack=1, ack_priority="data")
    run = ps.simulate(topo, ps.flow_list(topo, [(0, 1, 15)]), host=host, measure=ps.Measure(packets=True))
    sizes = Counter(f"{size} B in the simulation" for size in run.frame("packets").filter(pl.col("event") != "receive")["bytes"])
    assert packet_counts(run, tmp_path) == sizes and len(sizes) == 3


@pytest.mark.parametrize(
    ("length", "rate", "expected"),
    [
        (5.12, 10**11, 1),
        (5.121, 10**11, 2),
        (0.0, 10**11, 1),
        (335_539.2, 10**11, 65535),
        (10**9, 10**11, 65535),
        (None, 10**11, 65535),
        (51.2, 10**10, 1),
        (51.2, 0, 65535),
    ],
)
def test_quanta(length, rate, expected):
    assert frames.quanta(length, rate) == expected


# ---- Errors and the command ----


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"nodes": ["spine"]}, 'node = "spine": no such node; did you mean "spine'),
        ({"nodes": [99]}, "node = 99: no such node"),
        ({"ports": [99]}, "port = 99: no node has a port of that number"),
        ({"nodes": ["host0"], "ports": [1]}, "port = 1: no node has a port of that number"),
        ({"ports": [-1]}, "port = -1: must be at least 0"),
        ({"start": "2us", "end": "2us"}, 'from = "2us": must be before `to`'),
        ({"end": "0us"}, 'to = "0us": must be greater than zero'),
        ({"start": "soon"}, 'from = "soon": must be a number with a unit, such as "1us"'),
        ({"format": "pcap"}, 'format = "pcap": must be one of perfetto, pcapng'),
    ],
)
def test_bad_input(pfc, tmp_path, settings, message):
    with pytest.raises(SpecError) as error:
        write_trace(pfc, tmp_path / "x", **settings)
    assert str(error.value).startswith(message) and list(tmp_path.iterdir()) == []


def test_what_was_not_recorded(tmp_path):
    run = simulated("pfc", measure=ps.Measure())
    for name, remedy in (
        ("x.pftrace", "pauses = true and port_series = true"),
        ("x.pcapng", "pauses = true, and packets = true"),
    ):
        with pytest.raises(SpecError, match=rf"neither pauses nor .* were recorded; run again with \[measure\] {remedy}"):
            write_trace(run, tmp_path / name)
    without = Run(run.flows, run.switches, run.ports.clear(), extra=run.extra)
    with pytest.raises(SpecError, match=r"has no ports; run again with \[measure\] ports = true"):
        write_trace(without, tmp_path / "x.pcapng")
    assert list(tmp_path.iterdir()) == []


def test_without_the_package(pfc, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "penstock_net.trace.perfetto", raising=False)
    monkeypatch.setitem(sys.modules, "perfetto.protos.perfetto.trace", None)
    with pytest.raises(SpecError, match=r"needs the package perfetto; pip install 'penstock-net\[trace\]'"):
        write_trace(pfc, tmp_path / "x.pftrace")


def test_files_that_cannot_be_written(pfc, tmp_path):
    with pytest.raises(SpecError, match="is a folder"):
        write_trace(pfc, tmp_path, "pcapng")
    with pytest.raises(SpecError, match="No space left on device"):
        write_trace(pfc, "/dev/full", "pcapng")
    assert Path("/dev/full").is_char_device()
    old = tmp_path / "x.pcapng"
    old.write_text("before")
    with pytest.raises(ZeroDivisionError):
        write_trace(pfc, old, progress=lambda done, total: 1 // 0)
    assert old.read_text() == "before" and list(tmp_path.iterdir()) == [old]


def test_progress(pfc, tmp_path):
    said: list[tuple[int, int]] = []
    counts = write_trace(pfc, tmp_path / "x.pcapng", progress=lambda *step: said.append(step))
    assert said == sorted(said) and said[-1] == (sum(counts.values()),) * 2 and len(said) > 2


def test_command(pfc, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pfc.save("run")
    assert main(["trace", "run", "--format", "pcapng", "--node", "spine0", "--from", "10us"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("written to pfc.pcapng: ") and " pauses, " in out and " packets" in out
    assert (tmp_path / "pfc.pcapng").stat().st_size > 10_000
    assert main(["trace", "run", "--node", "spin0"]) == 2
    assert capsys.readouterr().err == 'error: node = "spin0": no such node; did you mean "spine0"?\n'
