"""In-band telemetry, as a scheme of the user's reads it; hpcc and powertcp are compared with their transcriptions by it."""

from helpers import DATA, QUEUED_ACKS, acted, senders, traced

from penstock_net.composition import parse
from penstock_net.sim.config import Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import parking_lot, star
from penstock_net.workload import flow_list

READER = """
includes = ["telemetry"]
packet_state = "telemetry"


def on_start(me, node, flow, pkt):
    flow.window = 1


def on_ack(me, node, flow, pkt):
    ack = my_packet(me, pkt)
    last = ack_l_at(ack, ack.hops - 1)
    flow.window = 1 + ack.hops * 100_000_000 + last.tx_bytes
"""


def test_a_scheme_of_the_user_s_reads_it(tmp_path):
    """Packet by packet; its window tells of the number of hops and of the bytes that the last link had sent before."""
    file = tmp_path / "reader.py"
    file.write_text(READER)
    topo = star(hosts=2)
    flows = flow_list(topo, [(1, 0, 20_000, "0us")])
    run, rows = traced(topo, flows, str(file), measure=Measure(sample="0.1us", packets=True, flow_series=True, flows=False))
    assert {r.size for r in rows if r.kind == DATA} == {1090}
    windows = list(dict.fromkeys(run.extra["flow_series"]["window_bytes"].to_list()))
    assert windows[:4] == [1, 100_000_001, 100_000_001 + 1090, 100_000_001 + 2 * 1090]


def test_the_first_five_hops_write_into_it():
    """HPCC section 4.1; on a path of eight switches HPCC runs by those five."""
    topo = parking_lot(hops=7, cross=1)
    flows = flow_list(topo, [(0, 1, 300_000, "0us"), (6, 7, 300_000, "3us")])
    run, rows = traced(topo, flows, "hpcc", host=QUEUED_ACKS)
    _, acks = senders(topo, flows, rows)
    assert {len(a.links) for a in acks[0]} == {8} and acted(run)


def test_parts_and_size():
    assert list(parse("telemetry").parts) == ["telemetry"]
    topo = star(hosts=2)
    flows = flow_list(topo, [(1, 0, 1_000_000, "0us")])
    slowdown = {b: simulate(topo, flows, parse("telemetry", {"int_bytes": b})).flows["slowdown"][0] for b in (0, 42)}
    assert slowdown[0] == 1.0 and 1.03 < slowdown[42] < 1.041
