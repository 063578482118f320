"""Packets that arrive in one picosecond take turns by the seed: hosts that are exchangeable are so in the results."""

import numpy as np
import pytest
from networks import HostConfig, available, flow_list, hosts_under, simulate

from penstock_net.topology import star

HOSTS, SEEDS = 24, 24
SPREAD = 1 / np.sqrt((HOSTS - 1) * SEEDS)  # standard error of the mean rank correlation of independent orders
SCHEMES = [*sorted(available()), "recovery:irn", "bfc+srf", "dcqcn+floodgate"]
FEW = ["fifo", "recovery:irn", "dynamic_threshold", "ndp", "expresspass", "homa", "bfc+srf"]


def traffic(kind: str, topo, seed: int):
    """Hosts 0 to 23 do the same; the last one is all others' peer."""
    jitter = np.random.default_rng(seed).integers(0, 1500, HOSTS)
    sizes = "20KB"
    if kind == "fan-out":
        return flow_list(topo, [(HOSTS, i, sizes) for i in range(HOSTS)])
    return flow_list(topo, [(i, HOSTS, sizes, f"{jitter[i]}ns" if kind == "jitter" else "0ns") for i in range(HOSTS)])


def ranks(scheme: str, kind: str) -> np.ndarray:
    """(seeds, hosts): the order of the hosts by completion time; equal times in a random order."""
    topo = star(hosts=HOSTS + 1, buffer="1.2MB")
    found = []
    for seed in range(SEEDS):
        run = simulate(topo, traffic(kind, topo, seed), scheme, host=hosts_under(scheme, rto="100us"), seed=seed)
        peer = "dst" if kind == "fan-out" else "src"
        fct = run.flows.sort(peer)["fct_ns"].to_numpy()
        found.append(np.argsort(np.argsort(fct + np.random.default_rng(seed).uniform(0, 1e-3, HOSTS))))
    return np.array(found)


def correlation(order: np.ndarray) -> float:
    return float(np.mean([np.corrcoef(one, np.arange(HOSTS))[0, 1] for one in order]))


@pytest.mark.parametrize("kind", ["incast", "jitter", "fan-out"])
def test_hosts_are_exchangeable(kind):
    """Completion times and numbers of hosts are not correlated beyond four standard errors; no host wins in most seeds."""
    orders = {scheme: ranks(scheme, kind) for scheme in (SCHEMES if kind == "incast" else FEW)}
    found = {scheme: correlation(order) for scheme, order in orders.items()}
    assert {s: round(c, 2) for s, c in found.items() if abs(c) > 4 * SPREAD} == {}
    assert {s: n for s, order in orders.items() if (n := np.bincount(order.argmin(axis=1)).max()) > 8} == {}


def test_two_equal_senders_win_equally_often():
    first = 0
    for seed in range(24):
        topo = star(hosts=3, buffer="200KB")
        flows = flow_list(topo, [(0, 2, "1MB"), (1, 2, "1MB")])
        fct = simulate(topo, flows, "fifo", host=HostConfig(rto="200us"), seed=seed).flows.sort("src")["fct_ns"]
        first += fct[0] < fct[1]
    assert 5 <= first <= 19


def test_every_order_is_drawn():
    orders = set()
    for seed in range(200):
        topo = star(hosts=4)
        run = simulate(topo, flow_list(topo, [(i, 3, 1000) for i in range(3)]), "fifo", seed=seed)
        orders.add(tuple(np.argsort(run.flows.sort("src")["fct_ns"].to_numpy())))
    assert len(orders) == 6
