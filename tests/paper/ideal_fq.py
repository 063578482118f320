"""Ideal fair queueing on one link: the bit-by-bit round robin (generalised processor sharing) of per-flow queues, and
the number of active flows of an M/G/1-PS queue (BFC, NSDI 2022, section 2.3)."""

from dataclasses import dataclass
from math import inf


@dataclass
class Fluid:
    finish: list  # of every flow, in the order given
    active: list  # (from, until, number of active flows), consecutive


def fluid(flows, C=1):
    """Every active flow gets C / (number of active flows). flows: (arrival, size) -> Fluid. Exact with Fractions."""
    arrivals = sorted(range(len(flows)), key=lambda i: flows[i][0])
    left = {}
    finish = [None] * len(flows)
    active = []
    now = 0
    while arrivals or left:
        arrival = flows[arrivals[0]][0] if arrivals else inf
        first = min(left, key=left.get) if left else None
        done = now + left[first] * len(left) / C if left else inf
        then = min(arrival, done)
        if then > now:
            active.append((now, then, len(left)))
        if left:
            for i in left:
                left[i] -= (then - now) * C / len(left)
        if done <= arrival:
            finish[first] = then
            del left[first]
        else:
            i = arrivals.pop(0)
            left[i] = flows[i][1]
        now = then
    return Fluid(finish, active)


def max_min(demands, C):
    """Max-min fair shares of a link of capacity C."""
    share = [0] * len(demands)
    for n, i in enumerate(sorted(range(len(demands)), key=lambda i: demands[i])):
        share[i] = min(demands[i], C / (len(demands) - n))
        C -= share[i]
    return share


def packets_finish(scheduler, flows, mtu):
    """The packet-by-packet link of rate 1 byte per time unit under a scheduler with enqueue(i, size) and dequeue():
    flow i's packets all arrive at its arrival time, in queue i. -> finishing times."""
    arrivals = sorted(range(len(flows)), key=lambda i: flows[i][0])
    left = [size for _, size in flows]
    finish = [None] * len(flows)
    now = 0
    while any(left):
        while arrivals and flows[arrivals[0]][0] <= now:
            i = arrivals.pop(0)
            size = flows[i][1]
            for start in range(0, size, mtu):
                scheduler.enqueue(i, min(mtu, size - start))
        served = scheduler.dequeue()
        if served is None:
            now = flows[arrivals[0]][0]
            continue
        i, size = served
        now += size
        left[i] -= size
        if not left[i]:
            finish[i] = now
    return finish


def active_flows_probability(n, rho):
    """P(N = n) = (1 - rho) rho^n, whatever the sizes and the link's speed."""
    return (1 - rho) * rho**n


def mean_active_flows(rho):
    return rho / (1 - rho)


def time_shares(active):
    """-> {n: share of the time in which n flows were active}."""
    total = sum(until - since for since, until, _ in active)
    shares = {}
    for since, until, n in active:
        shares[n] = shares.get(n, 0) + (until - since) / total
    return shares
