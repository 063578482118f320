"""What decided the results of a run beside its scheme, as sentences for `summary["warnings"]`: buffers that queue-by-queue
pauses cannot keep, retransmission timeouts, rates that rise in steps made for slower links."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock_net import scratch
from penstock_net.sim.layouts import DROPS
from penstock_net.units import bits_per_second, format_rate, format_size, format_time

if TYPE_CHECKING:
    from penstock_net.sim.results import Outcome

FULL = DROPS.index("buffer full")
SHARE = 0.01  # of the flows that finished: less decides no 99th percentile
LEAST_STEP = 1 / 5000  # of the line, five times less than steps of 40 Mbit/s at 40 Gbit/s


def overrun(outcome: Outcome) -> list[str]:
    """Full buffers of switches though queues of the neighbours are paused one by one."""
    pausing = [part.name for part in outcome.composition.parts if part.declared.fabric.get("pauses_queues")]
    topo, ports = outcome.settings.topo, outcome.ports
    lost = np.bincount(ports["node"], ports["drops"][:, FULL], topo.nodes).astype(np.int64)
    lost[: topo.hosts] = 0
    if not pausing or not lost.any():
        return []
    worst = int(lost.argmax())
    ingress = ports["peer"] == worst  # what sends to it
    queues = np.where(ports["node"][ingress] < topo.hosts, outcome.composition.nic_queues, outcome.composition.queues)
    burst = _bursts(outcome)[ingress]
    used = int(np.dot(queues, burst))
    buffer = int(topo.buffer_bytes[worst - topo.hosts])
    told = (
        f"{topo.names[worst]} lost {lost[worst]:,} packets in a full buffer of {format_size(buffer)} although {pausing[0]} "
        f"pauses queues: each of the {int(queues.sum()):,} queues that lead to it may send up to {format_size(int(burst.max()))} "
        f"between a resume and the next pause, {format_size(used)} in all"
    )
    more = f" ({lost.sum():,} packets in {np.count_nonzero(lost)} switches)" if np.count_nonzero(lost) > 1 else ""
    remedy = "fewer NIC queues (host.nic_queues), a congestion control beside it, a larger buffer or shorter links keep them"
    return [f"{told}{more}; {remedy}"]


def _bursts(outcome: Outcome) -> np.ndarray:
    """Bytes that each egress sends until a pause has come: a round trip of its link, and the packets that both ends wait for."""
    topo, ports, host = outcome.settings.topo, outcome.ports, outcome.settings.host
    delay = np.zeros(len(ports))
    for end in "ab":
        delay[topo.first_port[topo.links[end]] + topo.links[f"port_{end}"]] = topo.links["delay_ps"]
    return (2 * delay / ports["ps_per_byte"]).astype(np.int64) + 2 * (host.mtu + host.header)


def by_timeouts(outcome: Outcome, start: np.ndarray) -> list[str]:
    """Flows that lost packets, and spent at least half of their completion time waiting for retransmission timeouts.

    start: when each flow was handed to its NIC, ps
    """
    flows, per_flow = outcome.settings.flows, outcome.per_flow
    decided = finished = 0
    longest, of, last, last_decided = 0, 0, -1, False
    for part in scratch.parts(*flows.columns, *per_flow.values()):
        finish, waited = per_flow["finish"][part], per_flow["timeout"][part]
        done = (finish >= 0) & (flows.src[part] != flows.dst[part])
        finished += int(np.count_nonzero(done))
        fct = np.where(done, finish - start[part], -1)
        lost = per_flow["lost_packets"][part if outcome.paths is None else outcome.paths[part]]  # the leader has them
        found = done & (lost > 0) & (waited <= fct) & (2 * waited >= fct) & (waited > 0)
        decided += int(np.count_nonzero(found))
        if done.any() and (at := int(np.where(done, finish, -1).argmax())) >= 0 and finish[at] > last:
            last, last_decided = int(finish[at]), bool(found[at])
        if found.any() and waited[at := int(np.where(found, waited, -1).argmax())] > longest:
            longest, of = int(waited[at]), int(fct[at])
    if not decided or (decided < SHARE * finished and not last_decided):
        return []
    keys = [f"host.rto = {format_time(outcome.settings.host.rto_ps)}"]
    keys += [f"{part.name}.{key}" for part in outcome.composition.parts for key in part.values if key.startswith("rto")]
    return [
        f"{decided:,} of {finished:,} flows lost packets and waited for retransmission timeouts for at least half of their "
        f"completion time, up to {format_time(longest)} of {format_time(of)}: {' and '.join(keys)} decided this, not the scheme; "
        f"lower it, or let losses be repaired without a timeout (column timeout_ns of flows.parquet)"
    ]


def slow_steps(outcome: Outcome) -> list[str]:
    """Rates that rise in steps of less than LEAST_STEP of the fastest host's line, where a rate was changed at all."""
    topo = outcome.settings.topo
    if not outcome.state["reactions"]:
        return []
    fastest = bits_per_second(float(outcome.ports["ps_per_byte"][outcome.ports["node"] < topo.hosts].min()))
    out = []
    for part in outcome.composition.parts:
        key = part.declared.fabric.get("rate_step")
        if key and 0 < (step := part.values[key]) < LEAST_STEP * fastest:
            out.append(
                f"{part.name}.{key} = {format_rate(step)} is {step / fastest:.2g} of a line of {format_rate(fastest)}: a step "
                f"made for slower links, with which rates hardly recover; a thousandth would be {format_rate(fastest // 1000)}"
            )
    return out
