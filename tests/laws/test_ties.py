"""Packets that arrive in one picosecond take turns by the seed: hosts that are exchangeable are so in the results."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
from networks import HostConfig, Measure, available, flow_list, hosts_under, simulate
from paper.turns import in_turn

from penstock_net.topology import star

HOSTS, SEEDS = 105, 24
MOST = 0.08  # of the mean rank correlation: four standard errors of independent orders, 1 / sqrt((HOSTS - 1) SEEDS) each
SIZE, BUFFER = "80KB", "6MB"  # less than all send, and more than the headrooms of all ports
SCHEMES = [*sorted(available()), "recovery:irn", "bfc+srf", "dcqcn+floodgate"]
LOSSY = ("fifo", "dynamic_threshold")
FEW = ["fifo", "recovery:irn", "dynamic_threshold", "ndp", "expresspass", "homa", "bfc+srf"]


def traffic(kind: str, topo, seed: int):
    """All hosts but the last one do the same; that is all others' peer."""
    jitter = np.random.default_rng(seed).integers(0, 1500, HOSTS)
    if kind == "fan-out":
        return flow_list(topo, [(HOSTS, i, SIZE) for i in range(HOSTS)])
    return flow_list(topo, [(i, HOSTS, SIZE, f"{jitter[i]}ns" if kind == "jitter" else "0ns") for i in range(HOSTS)])


def ranks(scheme: str, kind: str) -> np.ndarray:
    """(seeds, hosts): the order of the hosts by completion time; equal times in a random order."""
    topo = star(hosts=HOSTS + 1, buffer=BUFFER)
    found = []
    for seed in range(SEEDS):
        host, measure = hosts_under(scheme, rto="100us"), Measure(sample="0s")
        run = simulate(topo, traffic(kind, topo, seed), scheme, host=host, seed=seed, measure=measure)
        assert scheme not in LOSSY or kind == "fan-out" or run.summary["drops"] > 0
        peer = "dst" if kind == "fan-out" else "src"
        fct = run.flows.sort(peer)["fct_ns"].to_numpy()
        found.append(np.argsort(np.argsort(fct + np.random.default_rng(seed).uniform(0, 1e-3, HOSTS))))
    return np.array(found)


def correlation(order: np.ndarray) -> float:
    return float(np.mean([np.corrcoef(one, np.arange(HOSTS))[0, 1] for one in order]))


ALIKE = {
    "incast": (SCHEMES, ["incast", "jitter"]),  # not in every run of the tests
    "jitter": (FEW, ["jitter"]),
    "fan-out": (FEW, ["fan-out"]),
}


@pytest.mark.parametrize("case", ALIKE)
def test_hosts_are_exchangeable(case):
    """Completion times and numbers of hosts are not correlated, and no host is the fastest much more often than others: in 24
    seeds the chance that one of 105 is so five times is a thousandth."""
    schemes, kinds = ALIKE[case]
    orders = {(scheme, kind): ranks(scheme, kind) for scheme in schemes for kind in kinds}
    found = {of: correlation(order) for of, order in orders.items()}
    assert {of: round(c, 3) for of, c in found.items() if abs(c) > MOST} == {}
    assert {of: n for of, order in orders.items() if (n := np.bincount(order.argmin(axis=1)).max()) > 4} == {}


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


MISTAKES = {
    "by port": lambda hosts, time, node, seed: list(hosts),
    "the same at all times": lambda hosts, time, node, seed: in_turn(hosts, 0, node, seed),
    "the same for all seeds": lambda hosts, time, node, seed: in_turn(hosts, time, node, 1),
    "the same at all nodes": lambda hosts, time, node, seed: in_turn(hosts, time, 0, seed),
}


def test_the_order_is_that_of_the_transcription_and_mistakes_are_seen():
    """Packets of six hosts meet at a switch in one picosecond, ten times: they leave it as tests/paper/turns.py says."""
    hosts, found, said = 6, [], {name: [] for name in ("", *MISTAKES)}
    topo = star(hosts=hosts + 1)
    for seed in (0, 1, 77):
        starts = [13 * k for k in range(10)]  # us
        flows = flow_list(topo, [(i, hosts, 1000, f"{start}us") for start in starts for i in range(hosts)])
        rows = simulate(topo, flows, "fifo", seed=seed, measure=Measure(sample="0s")).flows.sort("finish_ns")
        for at, start in enumerate(starts):
            found.append(rows["src"][hosts * at : hosts * (at + 1)].to_list())
            came = start * 10**6 + 1048 * 80 + 10**6
            for name, order in {"": in_turn, **MISTAKES}.items():
                said[name].append(list(order(range(hosts), came, topo.hosts, seed)))
    assert found == said[""]
    assert all(found != said[name] for name in MISTAKES)
