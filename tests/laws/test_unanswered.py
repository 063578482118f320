"""Open-loop flows: bytes sent = received + lost under any scheme, whatever is dropped; nobody answers them; others are as they
were."""

import json

import numpy as np
import polars as pl
import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st
from networks import HostConfig, Measure, available, flow_list, networks, one_dst, simulate, trace
from test_resumed import Interrupted

from penstock_net.composition import parse
from penstock_net.errors import InvariantError, SpecError
from penstock_net.sim import results
from penstock_net.sim import simulate as core
from penstock_net.sim.settings import Settings
from penstock_net.sim.simulate import Runner
from penstock_net.topology import leaf_spine, star
from penstock_net.workload import Flows, flows_from_csv, flows_from_parquet, flows_to_csv, flows_to_parquet

STAR = star(hosts=5, buffer="60KB")  # 100 Gbit/s, 1 us
ROOM = star(hosts=5, buffer="2MB")  # for headroom
GRANTED = [name for name, one in available().items() if one.fabric.get("one_link")]
SENDING = [name for name in available() if name not in GRANTED]
SENDING += ["dcqcn:cnp", "recovery:perfect", "hpcc:ns3", "dctcp:ns3", "floodgate+pfc"]
QUIET = Measure(sample="0s", flows=False)


def udp(src, dst, size, rate=None, **more):
    return {"src": src, "dst": dst, "bytes": size, "open_loop": True} | ({"rate": rate} if rate else {}) | more


def mixed(topo, size=60_000):
    """Half of the flows are open-loop, some of them with a rate, most go to host 0."""
    out = []
    for i in range(1, topo.hosts):
        flow = {"src": i, "dst": 0 if i % 3 else (i + 1) % topo.hosts, "bytes": size + 777 * i, "start": f"{i}us"}
        out.append(flow)
        out.append(flow | {"open_loop": True} | ({"rate": f"{20 + i}Gbps"} if i % 2 else {}))
    return flow_list(topo, [flow for flow in out if flow["src"] != flow["dst"]])


def conserved(run):
    """The table's law, and the same from the packets' trace: every packet arrived or was dropped, once."""
    table = run.frame("open_loop")
    assert (table["sent_bytes"] == table["received_bytes"] + table["lost_bytes"]).all() and table["lost_bytes"].min() >= 0
    flows = run.flows.join(table, on="flow_id")
    assert ((flows["received_bytes"] == flows["bytes"]) == flows["finish_ns"].is_not_null()).all()
    assert flows["acked_ns"].null_count() == len(flows) and flows["sender_slowdown"].null_count() == len(flows)
    assert flows["retransmitted_bytes"].sum() == 0
    return table


@pytest.mark.parametrize("scheme", SENDING)
def test_conserved_under_every_scheme(scheme):
    """With a buffer that overflows where the scheme lets it, random loss and a link that fails; the other flows finish."""
    topo = leaf_spine(hosts=8, tors=2, spines=2, buffer="300KB").with_loss(0.003)
    topo = topo.with_changes(
        [{"time": "12us", "a": "tor0", "b": "spine0", "up": False}, {"time": "60us", "a": "tor0", "b": "spine0", "up": True}]
    )
    run = simulate(topo, mixed(topo), scheme, measure=Measure(sample="0s", packets=True), max_time_ps=10**12)
    table = conserved(run)
    assert table["lost_bytes"].sum() == run.summary["open_loop"]["lost_bytes"] > 0
    others = run.flows.filter(~pl.col("flow_id").is_in(table["flow_id"].implode()))
    assert others["finish_ns"].null_count() == 0
    packets = run.frame("packets").filter((pl.col("kind") == 0) & pl.col("flow_id").is_in(table["flow_id"].implode()))
    drops = packets.filter(pl.col("event") == "drop").join(run.flows.select("flow_id", size="bytes"), on="flow_id")
    payload = drops.select(pl.min_horizontal(pl.col("size") - pl.col("offset_bytes"), 1000).sum()).item()
    if scheme in ("trim", "uec", "mrc"):
        assert 0 < payload < table["lost_bytes"].sum()  # what was cut off is lost, too
    else:
        assert payload == table["lost_bytes"].sum()


@examples(30)
@given(networks(ps_per_byte=(20, 400), delay_ps=(10_000, 3_000_000)), st.data())
def test_conserved_in_random_networks(topo, data):
    if data.draw(st.booleans()):
        topo = topo.with_loss(data.draw(st.sampled_from([0.001, 0.1])))
    sizes, hosts = st.integers(1, 60_000), st.integers(0, topo.hosts - 1)
    flows = data.draw(st.lists(st.tuples(hosts, hosts, sizes, st.integers(0, 20), st.booleans()), min_size=1, max_size=12))
    listed = [{"src": s, "dst": d, "bytes": b, "start": f"{t}us", "open_loop": o} for s, d, b, t, o in flows if s != d]
    listed.append(udp(0, 1, 5000, "2Gbps"))
    scheme = data.draw(st.sampled_from(["fifo", "bfc", "hpcc", "dcqcn", "recovery:irn", "spray"]))
    run = simulate(topo, flow_list(topo, listed), scheme, measure=QUIET, max_time_ps=10**12)
    conserved(run)
    part = data.draw(st.integers(1, 10**8))  # and stopped at any moment: `check` of sim/open_loop.py is run for each
    stopped = simulate(topo, flow_list(topo, listed), scheme, measure=QUIET, duration_ps=part, drain=False)
    table = stopped.frame("open_loop")
    assert (table["received_bytes"] <= table["sent_bytes"]).all()


@pytest.mark.parametrize("scheme", SENDING)
def test_alone_it_is_as_fast_as_the_line(scheme):
    """As the rate says, without a window; and nothing comes back."""
    for rate, gbps in ((None, 100), ("30Gbps", 30)):
        run = simulate(ROOM, flow_list(ROOM, [udp(0, 1, 400_000, rate)]), scheme, measure=QUIET)
        assert run.frame("open_loop").row(0) == (0, 400_000, 400_000, 0)
        sent = run.ports.filter(pl.col("node") == 0)["tx_bytes"][0]
        assert run.flows["fct_ns"][0] == pytest.approx(sent * 8 / gbps + 2000 + 84, rel=0.005)
        assert run.ports["ack_bytes"].sum() == 0 and run.summary["retransmissions"] == 0


def test_a_transport_has_what_it_leaves():
    """The transport gives way, the open-loop flow does not."""
    flows = flow_list(ROOM, [udp(0, 2, 6_000_000, "75Gbps"), {"src": 1, "dst": 2, "bytes": 1_000_000}])
    for scheme in ("dctcp", "hpcc", "swift"):
        run = simulate(ROOM, flows, scheme, measure=QUIET)
        assert run.flows["fct_ns"][0] <= 6_000_000 * 1.1 * 8 / 75 + 10_000  # with telemetry
        assert 3.2 < run.flows["slowdown"][1] < 6
        assert run.frame("open_loop")["lost_bytes"][0] < 60_000


def test_lossless_schemes_deliver_all():
    """Flow control holds open-loop senders back."""
    topo = ROOM
    flows = flow_list(topo, [udp(i, 0, 900_000) for i in range(1, 5)] + [udp(1, 2, 100_000)])
    for scheme in ("pfc", "bfc", "floodgate+pfc"):
        run = simulate(topo, flows, scheme, measure=QUIET)
        assert run.frame("open_loop")["lost_bytes"].sum() == 0 and run.summary["flows_finished"] == 5, scheme
        assert not any("open-loop" in text for text in run.summary["warnings"])


def test_what_it_says():
    flows = flow_list(STAR, [udp(i, 0, 400_000) for i in (1, 2)] + [{"src": 3, "dst": 4, "bytes": 9000}])
    run = simulate(STAR, flows, measure=QUIET)
    lost = run.frame("open_loop")["lost_bytes"]
    said = [text for text in run.summary["warnings"] if "open-loop" in text]
    assert len(said) == 1 and said[0].startswith(f"{(lost > 0).sum()} of 2 open-loop flows lost {lost.sum():,} of 800,000 bytes")
    assert not any("not finished" in text for text in run.summary["warnings"])  # no drain would finish them
    assert run.summary["open_loop"] == {
        "flows": 2,
        "sent_bytes": 800_000,
        "received_bytes": 800_000 - lost.sum(),
        "lost_bytes": lost.sum(),
    }
    slow = flow_list(STAR, [udp(1, 0, 400_000, "1Mbps"), udp(2, 0, 2000)])
    cut = simulate(STAR, slow, measure=QUIET, max_time_ps=10**10)
    assert any("1 flows had not finished" in text for text in cut.summary["warnings"])
    assert cut.frame("open_loop")["sent_bytes"][0] < 400_000 and cut.frame("open_loop")["received_bytes"][1] == 2000
    with pytest.raises(SpecError, match="has no open_loop; a run has it when the workload has such"):
        simulate(STAR, flow_list(STAR, [(0, 1, 5000)]), measure=QUIET).frame("open_loop")


def test_the_run_ends_with_the_last_packet():
    """Also if that is lost, on the wire to the switch."""
    topo, found = STAR.with_loss(0.3), set()
    flows = flow_list(topo, [udp(1, 0, 1000, start=f"{10 * i}us") for i in range(8)])
    for seed in range(8):
        run = simulate(topo, flows, seed=seed, measure=Measure(sample="0s", packets=True))
        drops = run.frame("packets").filter(pl.col("event") == "drop")["time_ns"].max() or 0.0
        last = run.flows["finish_ns"].max()
        assert run.summary["end_ns"] == max(drops, last)
        found.add(drops > last)
    assert found == {False, True}


def test_a_wrong_count_is_noticed():
    flows = flow_list(STAR, [udp(i, 0, 400_000) for i in (1, 2)])
    for end in (20_000_000, 10**9):
        runner = Runner(Settings(STAR, flows, parse("fifo"), duration_ps=end, drain=False, measure=QUIET))
        runner.loop()
        outcome = runner.outcome()
        results.check_invariants(outcome)
        opened = outcome.opened
        assert (opened.afloat > 0) == (end == 20_000_000)
        for wrong in ({"lost": opened.lost + 10**6}, {"afloat": -1}, {"received": opened.sent + 1}, {"sent": opened.size + 1}):
            with pytest.raises(InvariantError, match="open-loop flows have sent"):
                results.check_invariants(_replace(outcome, opened=_replace(opened, **wrong)))
        if not opened.afloat:
            with pytest.raises(InvariantError):
                results.check_invariants(_replace(outcome, opened=_replace(opened, lost=opened.lost - 1)))


def _replace(value, **parts):
    from dataclasses import replace

    return replace(value, **parts)


@pytest.mark.parametrize("scheme", ["fifo", "bfc", "dcqcn:cnp", "recovery:perfect"])
def test_the_same_bits_on_any_number_of_threads(scheme, tmp_path, monkeypatch):
    """And from a checkpoint in the middle."""
    topo = leaf_spine(hosts=8, tors=2, spines=2, buffer="300KB").with_loss(0.002)
    flows, more = mixed(topo, 30_000), {"measure": QUIET, "max_time_ps": 10**12}
    runs = [simulate(topo, flows, scheme, threads=threads, **more) for threads in (1, 3)]
    assert runs[0] == runs[1] and len({run.summary["end_ns"] for run in runs}) == 1
    assert len({json.dumps(run.summary["open_loop"]) for run in runs}) == 1
    path = tmp_path / "state"
    with monkeypatch.context() as patch:
        patch.setattr(core, "CHUNK_S", 1e-9)  # one window per call of the core
        patch.setattr(core, "Runner", lambda *given: Interrupted(*given, windows=30))
        part = simulate(topo, flows, scheme, checkpoint=path, on_interrupt="return", **more)
    assert part.summary["interrupted"] and part.frame("open_loop")["received_bytes"].sum() > 0
    again = simulate(topo, flows, scheme, threads=2, checkpoint=path, **more)
    assert again == runs[0] and again.summary["end_ns"] == runs[0].summary["end_ns"]
    assert again.summary["open_loop"] == runs[0].summary["open_loop"]


@pytest.mark.parametrize("name", [*GRANTED, "pfabric:simulator"])
def test_who_cannot_refuses(name):
    with pytest.raises(SpecError, match=r"flows\.0\.open_loop = 1: .*; leave it out, or use another scheme"):
        simulate(STAR, flow_list(STAR, [udp(0, 1, 5000)]), name)


def test_who_counts_on_it_refuses():
    for flows, rule in (
        ([udp(0, 1, 5000), {"src": 1, "dst": 2, "bytes": 5, "after": 0}], "0.open_loop = 1: flow 1 waits for it"),
        ([udp(0, 1, 5000, connection=2), udp(0, 1, 5000, connection=2)], "0.open_loop = 1: it is a message of a connection"),
        ([udp(0, 1, 5000, window="3KB")], "0.open_loop = 1: nobody acknowledges it"),
        ([udp(0, 0, 0)], "0.open_loop = 1: is a computation"),
        ([udp(0, 1, 5000) | {"open_loop": 1}], "0.open_loop = 1: must be true or false"),
    ):
        with pytest.raises(SpecError, match=rf"flows\.{rule}"):
            flow_list(STAR, flows)
    waits = flow_list(STAR, [{"src": 1, "dst": 0, "bytes": 5000}, udp(0, 1, 5000) | {"after": 0}])
    run = simulate(STAR, waits, measure=QUIET)  # but it may wait for others
    assert run.flows["start_ns"][1] == run.flows["finish_ns"][0] and run.summary["flows_finished"] == 2


def test_files_have_them(tmp_path):
    flows = flow_list(STAR, [udp(0, 1, 9000, "2Gbps"), (1, 2, 9), udp(2, 0, 9)])
    for write, read, name in ((flows_to_csv, flows_from_csv, "f.csv"), (flows_to_parquet, flows_from_parquet, "f.parquet")):
        write(flows, tmp_path / name)
        again = read(tmp_path / name, STAR)
        assert np.array_equal(again.limits, flows.limits) and again.limits.open_loop.tolist() == [1, 0, 1]
    plain = [{"src": 0, "dst": 1, "bytes": 9000, "rate": "2Gbps"}, (1, 2, 9), (2, 0, 9)]
    assert flows.key() != flow_list(STAR, plain).key() and "open_loop" not in flow_list(STAR, plain).to_frame().columns
    both = flow_list(STAR, [(3, 1, 9, "1us")]) + flows
    assert both.limits.open_loop.tolist() == [1, 0, 1, 0] and both.until(1).limits.open_loop.tolist() == [1, 0, 1]
    assert isinstance(both, Flows)
    for cell, rule in (("2", "must be between 0 and 1"), ("x", "is not a number")):
        (tmp_path / "bad.csv").write_text(f"src,dst,bytes,start_ns,open_loop\n0,1,9,0,{cell}\n")
        with pytest.raises(SpecError, match=rf"bad\.csv:2: open_loop = \"{cell}\": {rule}"):
            flows_from_csv(tmp_path / "bad.csv", STAR)


def test_others_are_as_they_were():
    """Beside an open-loop flow of another part of the network, no bit of a flow changes."""
    topo = leaf_spine(hosts=8, tors=2, spines=2)
    pairs = [(i, (i + 1) % 3, 20_000 + i) for i in range(3)]
    alone = simulate(topo, flow_list(topo, pairs), "hpcc", measure=QUIET)
    beside = simulate(topo, flow_list(topo, [*pairs, udp(7, 6, 50_000)]), "hpcc", measure=QUIET)
    assert alone.flows.equals(beside.flows.head(3))


def test_hosts_of_several_links():
    """Packets take turns of the links, also of flows that end once they are sent."""
    from penstock_net.topology import rails

    topo = rails(servers=4, gpus=2, segment=2, spines=2, ports=2)
    flows = flow_list(topo, [udp(0, 5, 100_000), udp(2, 7, 30_001, "5Gbps"), {"src": 1, "dst": 6, "bytes": 70_000}])
    for ports in ("packet", "flow"):
        run = simulate(topo, flows, "recovery:irn", measure=QUIET, host=HostConfig(ports=ports, pacing="from start"))
        assert run.frame("open_loop")["lost_bytes"].sum() == 0 and run.summary["flows_finished"] == 3
        sent = run.ports.filter(pl.col("node") == 0)["tx_bytes"].to_list()
        assert (min(sent) > 40_000) == (ports == "packet")


def test_one_packet_and_many_flows():
    flows = one_dst(STAR, 1)
    opened = Flows(
        **{name: getattr(flows, name) for name in ("start_ps", "src", "dst", "bytes", "class_id", "priority", "classes")},
        limits=(np.zeros(len(flows), int), np.zeros(len(flows), int), np.ones(len(flows), int)),
    )
    run = simulate(STAR, opened, measure=Measure(sample="0s", packets=True))
    assert run.summary["flows_finished"] == len(flows) and len(trace(run)) > 0
