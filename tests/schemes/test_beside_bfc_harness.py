"""HPCC beside the BFC authors' harness (preeyshah/High-Precision-Congestion-Control 6a3f6d5, branch hpcc), on its own trace.

The trace is drawn as its scratch/simple.cc does: Mersenne twister 5489, Facebook's sizes, log-normal gaps, 60 % of the links to
the spines and incasts of 100 flows of 200 KB; 1.2 ms of it. Paths are those of its hash. docs/agreement.md has 6 ms and DCTCP.
"""

import math
from bisect import bisect_right
from functools import cache
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from test_beside_hpcc_ns3 import spine

import penstock_net as ps
from penstock_net.composition import FOLDER, parse

HOSTS, TORS, PER_RACK = 128, 8, 16
NS = 1e9
FIRST_HOST = 16  # switches are numbers 0 to 15 there
STOP = 1.0012  # s; the first flow starts at 1
INCAST = 200_000
BITS = 64 * 100e9  # of the links to the spines
LOAD, INCAST_LOAD = 0.6, 0.05


class Draws:
    """What std::mt19937 and the distributions of libstdc++ give."""

    def __init__(self):
        bits = np.random.MT19937()
        bits._legacy_seeding(5489)
        self.words, self.saved = bits.random_raw, math.nan

    def uniform(self):
        low = int(self.words())
        return (low + int(self.words()) * 2.0**32) / 2.0**64

    def normal(self):
        """Marsaglia's polar method, which makes two at a time."""
        if not math.isnan(self.saved):
            value, self.saved = self.saved, math.nan
            return value
        square = 0.0
        while not 0 < square <= 1:
            x, y = 2 * self.uniform() - 1, 2 * self.uniform() - 1
            square = x * x + y * y
        scale = math.sqrt(-2 * math.log(square) / square)
        self.saved = x * scale
        return y * scale

    def host(self, other=-1):
        while True:
            host = int(self.uniform() * HOSTS)
            if host != other:
                return host


@cache
def drawn():
    """(start in ns, src, dst, bytes, source port)."""
    table = pl.read_csv(FOLDER.parent / "workload/sizes/facebook_hadoop.csv", comment_prefix="#").rows()
    mean = sum((cdf - before) * (size + smaller) / 2 for (smaller, before), (size, cdf) in pairwise(table))
    size_of = {cdf: size for size, cdf in table}
    steps = sorted(size_of)
    draws, start, incasts, ports, flows = Draws(), 1.0, 0, {}, []
    mu = -2 - math.log(BITS * LOAD / (8 * mean))
    every = (STOP - 1) / int((STOP - 1) * BITS * INCAST_LOAD / (8 * 100 * INCAST))

    def add(src, dst, size):
        ports[src] = ports.get(src, 9999) + 1
        flows.append((round((start - 1) * NS), src, dst, size, ports[src]))

    while start < STOP:
        src = draws.host()
        dst = draws.host(src)
        u = draws.uniform()
        above = bisect_right(steps, u)
        low, high = steps[above - 1], steps[above]
        size = int(size_of[low] + (size_of[high] - size_of[low]) * (high - u) / (high - low))
        add(src, dst, size if size <= 1000 else (size // 1000 + 1) * 1000)
        if int((start - 1) / every) > incasts:
            incasts += 1
            dst = draws.host(dst)
            for _ in range(100):
                add(draws.host(dst), dst, INCAST)
        start += math.exp(2 * draws.normal() + mu)
    return flows


def paths_there():
    """Spines are alike, so their order does not matter."""
    rows = []
    for i, (_, src, dst, _, port) in enumerate(drawn()):
        if src // PER_RACK != dst // PER_RACK:
            a, b, to = src + FIRST_HOST, dst + FIRST_HOST, 40_000 + dst + FIRST_HOST
            rows.append((i, "there", f"spine{spine(a, b, port | to << 16, src // PER_RACK - HOSTS)}"))
            rows.append((i, "back", f"spine{spine(b, a, to | port << 16, dst // PER_RACK - HOSTS)}"))
    return pl.DataFrame(rows, schema=["flow", "direction", "path"], orient="row")


THEIRS = {  # sizes up to, B (0: incast): flows; mean, median, 95th and 99th percentile of their times to the last ACK, us
    3_000: (2513, [17.25, 8.37, 16.16, 420.91]),
    48_000: (396, [23.90, 13.23, 27.33, 443.07]),
    192_000: (468, [33.36, 22.62, 53.89, 369.06]),
    768_000: (134, [112.94, 72.44, 233.03, 826.24]),
    10_000_000: (127, [725.93, 594.78, 1785.77, 2359.97]),
    0: (100, [1601.34, 1664.14, 1825.63, 1835.08]),
}
PAUSES, PAUSED = 115, 1_795_075  # ns
BUFFERS = [1_317_771, 5_297_111]  # 95th and 99th percentile of a switch's, every 2 us while flows start


def test_hpcc_by_sizes_pauses_and_buffers():
    """Bands as before the first run: 15 % for means and 95th percentiles, 25 % for the 99th. Pauses agree much better."""
    topo = ps.leaf_spine(hosts=HOSTS, tors=TORS, spines=8, rate="100Gbps", delay="1us", buffer="12MiB")
    listed = drawn()
    flows = ps.flow_list(topo, [(src, dst, f"{size}B", f"{start}ns") for start, src, dst, size, _ in listed])
    host = ps.HostConfig(mtu=1000, header=48, ack=60)
    measure = ps.Measure(sample="2us")
    run = ps.simulate(topo, flows, parse("hpcc:bfc"), host=host, link_clock="ns", paths=paths_there(), measure=measure)
    times = ((run.flows["acked_ns"] - run.flows["start_ns"]) / 1000).to_numpy()
    sizes = np.array([size for _, _, _, size, _ in listed])
    assert run.flows["bytes"].to_list() == sizes.tolist()
    smaller = 0
    for size, (count, theirs) in THEIRS.items():
        here = times[(sizes == INCAST) if size == 0 else (sizes > smaller) & (sizes <= size) & (sizes != INCAST)]
        smaller = size
        assert len(here) == count
        found = np.array([here.mean(), *np.percentile(here, [50, 95, 99])]) / theirs
        assert found[:3] == pytest.approx(np.ones(3), abs=0.15) and found[3] == pytest.approx(1, abs=0.25)
    assert run.ports["pauses_received"].sum() == pytest.approx(PAUSES, abs=8)
    assert run.ports["paused_ns"].sum() == pytest.approx(PAUSED, rel=0.03)
    buffers = run.frames["switches"].filter(pl.col("time_ns") < listed[-1][0])["buffer_bytes"]
    assert np.percentile(buffers, [95, 99]) == pytest.approx(BUFFERS, rel=0.05)
