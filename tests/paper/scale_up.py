"""Collectives of servers with a switch of their own, written from what NCCL and SimAI say, not from penstock's code.

PXN (NCCL 2.12): a GPU that has something for a GPU of another server and another rail writes it, over NVLink, to the GPU of its
own server on the receiver's rail, whose NIC sends it; what the GPUs of a server have for one receiver leaves as one message.

Two levels: every server reduces its buffers so that GPU j has segment j of the sum; the GPUs j of all servers all-reduce segment
j; every server gathers the segments.

GPUs are (server, place). A message is (sender, receiver, bytes, what must have come before, by key). `Network` is a lone network
of servers, one leaf for each place and no spines: messages are one packet, links are first come, first served, and ACKs are
not there: they must be too late to meet anything.
"""

import heapq
from collections import defaultdict


def pxn_all_to_all(servers, gpus, block):
    """{key: message}; keys are ("nvlink", from, to), ("relay", from, for), ("rail", server, for)."""
    everybody = [(s, g) for s in range(servers) for g in range(gpus)]
    out = {}
    for me in everybody:
        for other in everybody:
            if other == me:
                continue
            if other[0] == me[0]:
                out["nvlink", me, other] = (me, other, block, [])
            elif other[1] != me[1]:
                out["relay", me, other] = (me, (me[0], other[1]), block, [])
    for s in range(servers):
        for other in everybody:
            if other[0] != s:
                parts = [("relay", (s, g), other) for g in range(gpus) if g != other[1]]
                out["rail", s, other] = ((s, other[1]), other, gpus * block, parts)
    return out


def two_level_all_reduce(servers, gpus, size):
    """{key: message}; every segment, and each of its parts, has the same length."""
    segment, part = size // gpus, size // gpus // servers
    out = {}
    for s in range(servers):
        for t in range(gpus - 1):
            for g in range(gpus):
                before = [("scatter", s, t - 1, (g - 1) % gpus)] if t else []
                out["scatter", s, t, g] = ((s, g), (s, (g + 1) % gpus), segment, before)
    for t in range(2 * (servers - 1)):
        for s in range(servers):
            for g in range(gpus):
                own = [("scatter", s, gpus - 2, (g - 1) % gpus)] if gpus > 1 else []
                before = [("rail", t - 1, (s - 1) % servers, g)] if t else []
                out["rail", t, s, g] = ((s, g), ((s + 1) % servers, g), part, own + before)
    for s in range(servers):
        for t in range(gpus - 1):
            for g in range(gpus):
                if t:
                    before = [("gather", s, t - 1, (g - 1) % gpus)]
                elif servers > 1:
                    before = [("rail", step, (s - 1) % servers, g) for step in range(2 * (servers - 1))]
                else:
                    before = [("scatter", s, gpus - 2, (g - 1) % gpus)]
                out["gather", s, t, g] = ((s, g), (s, (g + 1) % gpus), segment, before)
    return out


class Network:
    """Rates in ps per byte, delays in ps; latency: of a message within a server and of one between them, ps."""

    def __init__(self, nv, nv_delay, nic, nic_delay, header=48, latency=(0, 0)):
        self.inner, self.outer, self.header, self.latency = (nv, nv_delay), (nic, nic_delay), header, latency

    def ends(self, messages, begins=None):
        """When each message has been received, ps; GPUs begin at 0, or at `begins`, and send in the given order."""
        begins = begins or defaultdict(int)
        waiting = {key: len(before) for key, (_, _, _, before) in messages.items()}
        after = defaultdict(list)
        for key, (_, _, _, before) in messages.items():
            for parent in before:
                after[parent].append(key)
        order = {key: i for i, key in enumerate(messages)}
        free, ends, events = defaultdict(int), {}, []

        def start(key, now):
            src, dst, _, _ = messages[key]
            heapq.heappush(events, (max(now, begins[src]) + self.latency[src[0] != dst[0]], 0, order[key], key))

        for key, count in waiting.items():
            if not count:
                start(key, 0)
        while events:
            now, hop, _, key = heapq.heappop(events)
            src, dst, size, _ = messages[key]
            inside = src[0] == dst[0]
            rate, delay = self.inner if inside else self.outer
            if hop == 2:
                ends[key] = now
                for child in after[key]:
                    waiting[child] -= 1
                    if not waiting[child]:
                        start(child, now)
                continue
            link = (inside, hop, src if hop == 0 else dst)
            free[link] = max(free[link], now) + rate * (size + self.header)
            heapq.heappush(events, (free[link] + delay, hop + 1, order[key], key))
        return ends
