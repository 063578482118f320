"""How a port shares its line: deficit round robin, processor sharing, strict priorities."""

import dataclasses

import numpy as np
import polars as pl
import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st
from networks import DQA, Measure, Topology, available, flow_list, make_links, simulate, trace

from penstock_net.topology import dumbbell, parking_lot, star
from penstock_net.workload import Flows

QUANTUM = 1048


def bottleneck(senders: int, ps_per_byte: int = 80, faster: int = 8, delay_ps: int = 1_000_000) -> Topology:
    """`senders` hosts on fast links to one switch, host 0 behind a slow one; no limit to the buffer."""
    count = senders + 1
    rates = [ps_per_byte] + [max(1, ps_per_byte // faster)] * senders
    return Topology(
        "file",
        count,
        1,
        make_links(np.arange(count), np.full(count, count), rates, delay_ps),
        np.zeros(1, dtype=np.int64),
        (*(f"h{i}" for i in range(count)), "s"),
        np.repeat([0, 1], [count, 1]),
        {},
    )


def most_apart(shares: np.ndarray) -> int:
    """Most that two queues differ by, over all intervals and pairs; shares: cumulative, a column per queue."""
    worst = 0
    for i in range(shares.shape[1]):
        ahead = shares - shares[:, [i]]
        worst = max(worst, int((ahead - np.minimum.accumulate(ahead, axis=0)).max()))
    return worst


def backlogged_shares(flows: int) -> tuple[np.ndarray, int]:
    """Cumulative bytes that each flow got while all of them were backlogged; the number of queues used."""
    topo = bottleneck(flows)
    items = [(i + 1, 0, 400_000, f"{i * 100}ns") for i in range(flows)]  # apart, so that each finds the others' queues taken
    run = simulate(topo, flow_list(topo, items), DQA(), measure=Measure(sample="0s", packets=True))
    rows = run.frame("packets").filter((pl.col("kind") == 0) & (pl.col("port") == 0))
    started = rows.filter(pl.col("event") == "enqueue").group_by("flow_id").agg(pl.col("time_ns").min())["time_ns"].max()
    emptied = rows.filter((pl.col("event") == "dequeue") & (pl.col("queue_bytes") == 0) & (pl.col("time_ns") > started))
    sent = rows.filter(
        (pl.col("event") == "dequeue") & (pl.col("time_ns") > started) & (pl.col("time_ns") < emptied["time_ns"].min())
    )
    shares = np.zeros((sent.height + 1, flows), dtype=np.int64)
    shares[np.arange(1, sent.height + 1), sent["flow_id"].to_numpy()] = sent["bytes"].to_numpy()
    assert sent.height > 100, "too short to mean anything"
    return np.cumsum(shares, axis=0), rows["queue"].n_unique()


@pytest.mark.parametrize("flows", [2, 3, 7, 16])
def test_backlogged_queues_share_within_one_quantum(flows):
    """Full packets in every queue: over any interval no two differ by more than one packet, which is the quantum."""
    shares, queues = backlogged_shares(flows)
    assert queues == flows, f"{flows} flows share {queues} queues: this test wants one each"
    assert most_apart(shares) <= QUANTUM, f"two of {flows} backlogged queues were {most_apart(shares)} B apart"


@examples(25)
@given(st.data())
def test_packets_of_any_size_share_within_the_bound_of_drr(data):
    """Shreedhar and Varghese: two backlogged queues differ by at most one quantum and two packets over any interval."""
    hosts = data.draw(st.integers(2, 6))
    sizes = [data.draw(st.integers(1, 1000)) for _ in range(hosts)]
    count = [max(30, 60_000 // (s + 48)) for s in sizes]
    topo = bottleneck(hosts)
    items = [(h + 1, 0, size) for h, size in enumerate(sizes) for _ in range(count[h])]  # tiny flows make tiny packets
    scheme = DQA(queues=data.draw(st.sampled_from([2, 3, 8])), assignment="stochastic")
    measure = Measure(sample="0s", packets=True)
    run = simulate(topo, flow_list(topo, items), scheme, seed=data.draw(st.integers(0, 1000)), measure=measure)
    rows = run.frame("packets").filter((pl.col("kind") == 0) & (pl.col("port") == 0))
    used = rows["queue"].unique().sort().to_list()
    column = {queue: i for i, queue in enumerate(used)}
    lengths, worst = dict.fromkeys(used, 0), 0
    lead = np.zeros((len(used), len(used)), dtype=np.int64)  # most that i got more than j since both became backlogged
    for event, queue, size, length in rows.select("event", "queue", "bytes", "queue_bytes").iter_rows():
        if event == "dequeue":
            i = column[queue]
            active = [column[q] for q in used if lengths[q] > 0]
            for j in active:
                if j != i:
                    lead[i, j] = max(lead[i, j], 0) + size
                    lead[j, i] -= size
                    lead[j, i] = max(lead[j, i], 0)
                    worst = max(worst, int(lead[i, j]))
        lengths[queue] = length
        if length == 0 or (event == "enqueue" and length == size):
            lead[column[queue], :] = lead[:, column[queue]] = 0
    largest = max(sizes) + 48
    assert worst <= QUANTUM + 2 * largest, f"sizes {sizes}: one queue got {worst} B more than another, both backlogged"


def test_a_queue_that_returns_gets_no_credit_for_its_absence():
    """A flow that was away sends no burst: it waits its turn behind those that are backlogged."""
    topo = bottleneck(3)
    flows = flow_list(topo, [(1, 0, 600_000), (2, 0, 600_000, "100ns"), (3, 0, 5000, "30us")])
    run = simulate(topo, flows, "dqa", measure=Measure(sample="0s", packets=True))
    rows = trace(run).filter(pl.col("port") == 0)
    mine = rows.with_row_index().filter(pl.col("flow_id") == 2)["index"].to_numpy()
    assert (np.diff(mine) == 3).all(), f"the newcomer's packets went at positions {mine}"


# ---- M/G/1 processor sharing ----

PS = [s for s in ("ideal_fq", "dqa") if s in available()]


@pytest.mark.parametrize("scheme", PS)
@pytest.mark.parametrize("rho, kind", [(0.5, "exponential"), (0.8, "exponential"), (0.7, "two sizes")])
def test_active_flows_of_a_shared_link_are_geometric(scheme, rho, kind):
    """Poisson arrivals, fair shares: P(N = n) = (1 - rho) rho^n, with mean rho / (1 - rho), whatever the sizes."""
    topo = bottleneck(40, ps_per_byte=800, faster=80)
    rng = np.random.default_rng(7)
    count = 120_000
    sizes = {
        "exponential": np.maximum(1, rng.exponential(20_000, count)),
        "two sizes": np.where(rng.random(count) < 0.05, 200_000, 10_000),
    }[kind].astype(np.int64)
    wire = sizes + 48 * -(-sizes // 1000)
    gap = wire.mean() * 800 / rho
    start = np.cumsum(rng.exponential(gap, count)).astype(np.int64)
    zeros = np.zeros(count, dtype=np.int64)
    flows = Flows(start, rng.integers(1, 41, count), zeros, sizes, zeros, zeros, ("poisson",))
    name = DQA(queues=256) if scheme == "dqa" else scheme
    real = wire.sum() * 800 / start[-1]
    run = simulate(topo, flows, name, measure=Measure(sample="20us"))
    table = run.frame("active_flows").filter(pl.col("port") == 0).sort("active_flows")
    n, seen = table["active_flows"].to_numpy(), table["samples"].to_numpy()
    share = seen / seen.sum()
    mean = float((n * share).sum())
    assert abs(mean - real / (1 - real)) < 0.1 * real / (1 - real), f"mean {mean:.3f}, M/G/1-PS {real / (1 - real):.3f}"
    for k in range(4):
        expected, found = (1 - real) * real**k, float(share[n == k].sum())
        assert abs(found - expected) < 0.02, f"P(N = {k}) = {found:.4f}, geometric: {expected:.4f} (rho {real:.3f})"


# ---- Strict priorities ----


@pytest.mark.parametrize("scheme", ["fifo", "dqa", "bfc"])
@pytest.mark.parametrize("size", [500, 20_000, 300_000])
def test_a_high_priority_flow_waits_for_one_packet_per_hop(scheme, size):
    """Backlogged flows of low priority on every link of its path delay it by no more than one packet per hop."""
    hops = 4
    topo = dataclasses.replace(parking_lot(hops=hops, cross=2), buffer_bytes=np.zeros(hops + 1, dtype=np.int64))
    low = [{"src": 2 + 2 * i, "dst": 3 + 2 * i, "bytes": 1_500_000, "priority": 3} for i in range(2 * hops)]
    low.append({"src": 0, "dst": 1, "bytes": 1_500_000, "priority": 7})
    flows = flow_list(topo, [*low, {"src": 0, "dst": 1, "bytes": size, "priority": 0, "start": "60us"}])
    run = simulate(topo, flows, scheme, measure=Measure(sample="0s"))
    row = run.flows.filter(pl.col("priority") == 0).row(0, named=True)
    late = row["fct_ns"] - row["ideal_fct_ns"]
    assert late <= (hops + 2) * 1048 * 0.08 + 0.001, f"{scheme}: {size} B of high priority came {late:.1f} ns late"


@pytest.mark.parametrize("scheme", ["fifo"])
def test_every_level_goes_before_the_next(scheme):
    topo = star(hosts=9)
    flows = flow_list(topo, [{"src": h, "dst": 0, "bytes": 300_000, "priority": h - 1} for h in range(1, 9)])
    run = simulate(topo, flows, scheme, measure=Measure(sample="0s"))
    finish = run.flows.sort("priority")["finish_ns"].to_list()
    assert finish == sorted(finish)
    alone = run.flows.row(by_predicate=pl.col("priority") == 0, named=True)
    assert alone["fct_ns"] - alone["ideal_fct_ns"] <= 2 * 83.84


@pytest.mark.parametrize("every_ns", [2000, 0])
@pytest.mark.parametrize("scheme", ["dqa", "bfc"])
def test_equal_flows_get_equal_shares_everywhere(scheme, every_ns):
    """Long flows over one bottleneck, fewer than there are queues: each has its own and all finish together."""
    topo = dumbbell(left=8, right=8, bottleneck_rate="10Gbps")
    flows = flow_list(topo, [(i, 8 + i, 500_000, f"{i * every_ns}ns") for i in range(8)])
    run = simulate(topo, flows, scheme, seed=3, measure=Measure(sample="0s", packets=True))
    rows = run.frame("packets").filter((pl.col("node") == 16) & (pl.col("event") == "enqueue") & (pl.col("kind") == 0))
    used = rows.filter(pl.col("port") == 8)["queue"].n_unique()
    assert used == 8, f"8 flows share {used} of 32 queues"
    finish = run.flows["finish_ns"].to_numpy()
    assert finish.max() - finish.min() <= 8 * 838.4 + 8 * 2.6 * every_ns  # the first had the line alone for a while
