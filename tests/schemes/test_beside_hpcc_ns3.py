"""Completion times beside those of the HPCC authors' simulator (commit 9f4be2a): the same flows on the same paths.

docs/differences.md, "Beside the HPCC authors' simulator", says how theirs were made and what is not compared.
"""

import math
import random

import numpy as np
import pytest
from helpers import planted

from penstock_net.composition import parse
from penstock_net.sim.config import HostConfig
from penstock_net.sim.simulate import simulate
from penstock_net.topology import leaf_spine
from penstock_net.workload import flow_list

HOSTS, TORS, SPINES = 128, 8, 8
PER_RACK = HOSTS // TORS
PERCENTILES = [5, 25, 50, 75, 95, 99]
PATHS = '''
"""A flow's paths are the last digits of its start in ps: 3 bits for the spine of its data, 3 for that of its ACKs."""
flow_state = {"spines": "int64"}

def on_start(paths, node, flow, pkt):
    my_flow(paths, flow).spines = node.now % 1000

def on_send(paths, node, flow, pkt):
    pkt.hash = my_flow(paths, flow).spines

def choose_path(paths, node, port, pkt):
    if path_count(node, pkt) == 1:
        return 0
    return pkt.hash & 7 if pkt.kind == DATA else (~pkt.hash >> 3) & 7
'''


def drawn(kind):
    """(start in ns, src, dst, bytes), starts all different; by random() alone, which is the same in every Python.

    big: 1000 flows of 1 MB at 60 % of the links to the spines.  mix: 4000 flows of 1 KB to 1 MB at 50 %, and three incasts of 60
    flows of 200 KB, in which PFC pauses links under DCQCN.
    """
    draw, start, listed = random.Random(1).random, 0.0, []
    sizes = [(0.0, 1_000_000)] if kind == "big" else [(0.0, 1_000), (0.6, 20_000), (0.85, 100_000), (0.97, 1_000_000)]
    shares = [first for first, _ in sizes[1:]] + [1.0]
    mean = sum((share - first) * size for (first, size), share in zip(sizes, shares))
    per_ns = TORS * SPINES * 100 * (0.6 if kind == "big" else 0.5) / 8 / mean
    for _ in range(1000 if kind == "big" else 4000):
        start -= math.log(1 - draw()) / per_ns
        src, dst = int(draw() * HOSTS), int(draw() * (HOSTS - 1))
        u = draw()
        size = [size for first, size in sizes if first <= u][-1]
        listed.append((round(start), src, dst + (dst >= src), size))
    for incast in range(3 if kind == "mix" else 0):
        to = int(draw() * HOSTS)
        others = sorted((draw(), host) for host in range(HOSTS) if host // PER_RACK != to // PER_RACK)[:60]
        listed += [(100_000 + 200_000 * incast + int(draw() * 2000), host, to, 200_000) for _, host in others]
    found, last = [], -1
    for start, src, dst, size in sorted(listed):
        last = max(start, last + 1)
        found.append((last, src, dst, size))
    return found


def spine(src, dst, ports, tor):
    """Which spine their ECMP takes: MurmurHash3 of addresses and ports, by the switch's number; next hops in descending order."""
    h = HOSTS + tor
    for word in (address(src), address(dst), ports):
        k = word * 0xCC9E2D51 & 0xFFFFFFFF
        h ^= (k << 15 | k >> 17) * 0x1B873593 & 0xFFFFFFFF
        h = ((h << 13 | h >> 19) & 0xFFFFFFFF) * 5 + 0xE6546B64 & 0xFFFFFFFF
    h ^= 12
    h = (h ^ h >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return SPINES - 1 - (h ^ h >> 16) % SPINES


def address(host):
    return 0x0B000001 + (host << 8)


def on_their_paths(topo, kind):
    """The flows, with their paths in the starts' last three digits; each pair of hosts counts its source ports from 10 000."""
    seen, listed = {}, []
    for start, src, dst, size in drawn(kind):
        port = seen[src, dst] = seen.get((src, dst), 9999) + 1
        data = spine(src, dst, port | 100 << 16, src // PER_RACK)
        acks = spine(dst, src, 100 | port << 16, dst // PER_RACK)
        listed.append((src, dst, f"{size}B", f"{start * 1000 + (data | acks << 3)}ps"))
    return flow_list(topo, listed)


THEIRS = {  # percentiles of their completion times until the last ACK, us
    "hpcc big": [139.6, 230.0, 345.3, 527.7, 1158.7, 1516.5],
    "dctcp big": [125.7, 195.7, 264.4, 354.2, 578.6, 829.1],
    "dcqcn mix": [4.2, 9.9, 24.9, 79.2, 654.2, 951.2],
}
CASES = {  # preset; a rate at which a packet takes whole nanoseconds, as all times there, in Gbit/s; bytes of an ACK
    "hpcc big": ("hpcc:ns3", 100, 88),
    "dctcp big": ("dctcp:ns3", 99.809, 60),
    "dcqcn mix": ("dcqcn:ns3", 99.809, 60),
}
COARSE = """    for i in range(ack.hops):
        new = ack_l_at(ack, i)
        new.tx_bytes = new.tx_bytes // 512 * 512
        new.qlen = new.qlen // 320 * 320
        new.ts = new.ts // 1000 * 1000
    if ack.hops != mine.hops"""


def ratios(tmp_path, name, scheme=None):
    """Percentiles there over those here."""
    preset, gbps, ack = CASES[name]
    (tmp_path / "paths.py").write_text(PATHS)
    topo = leaf_spine(hosts=HOSTS, tors=TORS, spines=SPINES, rate=f"{gbps}Gbps", delay="1us", buffer="32MiB")
    flows = on_their_paths(topo, name.split()[1])
    host = HostConfig(mtu=1000, header=48, ack=ack, ack_priority="data")
    run = simulate(topo, flows, parse(f"{scheme or preset}+{tmp_path / 'paths.py'}"), host=host)
    times = (run.flows["acked_ns"] - run.flows["start_ns"]).to_numpy() / 1000
    return THEIRS[name] / np.percentile(times, PERCENTILES)


@pytest.mark.parametrize("name", ["dctcp big", "dcqcn mix"])
def test_to_three_per_cent(tmp_path, name):
    found = ratios(tmp_path, name)
    assert found[:5] == pytest.approx(np.ones(5), abs=0.03) and found[5] == pytest.approx(1, abs=0.06)


def test_telemetry_of_hpcc_is_coarse_there(tmp_path):
    """In units of 512 B sent, 320 B queued and 1 ns; without them the lower quartile is 4 % below theirs.

    Over four seeds the 99th percentile is 0.96 +- 0.03 of ours.
    """
    exact = ratios(tmp_path, "hpcc big")
    coarse = ratios(tmp_path, "hpcc big", f"{planted(tmp_path, 'hpcc', '    if ack.hops != mine.hops', COARSE)}:ns3")
    assert coarse[:5] == pytest.approx(np.ones(5), abs=0.03) and coarse[5] == pytest.approx(0.96, abs=0.1)
    assert exact[:5] == pytest.approx(np.ones(5), abs=0.06) and exact[1] - coarse[1] > 0.02
