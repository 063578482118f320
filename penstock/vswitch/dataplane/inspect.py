"""What operators do with a switch: captures, a look at the longest flows, what is left in it, addresses that change.

All of it is called in the worker's thread, between two turns of its loop.
"""

import cython

if not cython.compiled:
    from penstock.vswitch.dataplane.flowtable import is_misled, renew_flow
    from penstock.vswitch.dataplane.inspect import lengths_of, link_mirror, no_mirrors, set_mirrors, worker_of
    from penstock.vswitch.dataplane.leftovers import next_queue, not_taken
    from penstock.vswitch.dataplane.state import MOST_ADDRESSES, flow_at, port_at, signed_of, view_of
    from penstock.vswitch.memory.layout import load64


import numpy as np

from penstock.errors import SpecError

MOST_CAPTURES = 8
SUMMED = ("flows", "waiting_bytes", "longest_bytes", "rate_bytes_per_s", "frames", "bytes", "dropped", "pauses", "paused_ns")
GONE = (
    "received_frames",
    "received_bytes",
    "sent_frames",
    "sent_bytes",
    "applications",
    "lost_frames",
    "lost_bytes",
    "dropped_frames",
)


class Oversight:
    """The part of a Switch that is for its operators."""

    def __cinit__(self):
        self.captures, self.totals, self.drivers = [], {}, {}

    # ---- Captures ----

    def start_capture(self, capture):
        """From now on write down what passes its ports, also of those that come later."""
        if len(self.captures) >= MOST_CAPTURES:
            raise SpecError(f"{MOST_CAPTURES} captures are running; end one")
        for number, name in self.names.items():
            capture.follow(number, name)
        self.captures.append(capture)
        self.share_captures()

    def end_capture(self, capture):
        """No more; returns its last row."""
        if capture in self.captures:
            self.captures.remove(capture)
            self.share_captures()
        return capture.row()

    def share_captures(self):
        """All workers write into the same ones."""
        self.worker.mirrors = no_mirrors()
        for each in self.captures:
            link_mirror(self.worker, each)
        for k in range(1, self.count):
            set_mirrors(self.worker, k, self.worker.mirrors)

    def follow(self, number, name):
        for capture in self.captures:
            capture.follow(number, name)

    # ---- What there is ----

    def longest_flows(self, most):
        """One dict per flow for which most waits, and one of the others: how many, the sum of each number, the longest queue."""
        rows, others, chosen = [], dict.fromkeys(SUMMED, 0), []
        for k in range(self.count):
            chosen += self.longest_of(k, most, others)
        for _, k, i in sorted(chosen, reverse=True)[most:]:
            self.add_flow(others, k, i)
        behind = {number: driver.behind() for number, driver in self.drivers.items()}
        for _, k, i in sorted(chosen, reverse=True)[:most]:
            rows.append(self.flow_row(k, i, behind.get(flow_at(worker_of(self.worker, k), i).source, {})))
        others["behind_bytes"] = sum(sum(each.values()) for each in behind.values()) - sum(row["behind_bytes"] for row in rows)
        others["rate_bytes_per_s"] = round(others["rate_bytes_per_s"])
        return rows, others

    def longest_of(self, k, most, others):
        """(bytes, worker, number) of the flows of a worker for which most waits; the rest is added up."""
        worker = worker_of(self.worker, k)
        lengths = np.full(worker.flow_top, -1, dtype=np.int64)
        values = lengths_of(lengths.ctypes.data)
        for i in range(worker.flow_top):
            if flow_at(worker, i).used:
                values[i] = flow_at(worker, i).sent - flow_at(worker, i).consumed
        chosen = [(int(lengths[i]), k, i) for i in np.argsort(-lengths, kind="stable")[:most].tolist() if lengths[i] >= 0]
        for _, _, i in chosen:
            lengths[i] = -1
        count = waiting = longest = frames = total = dropped = pauses = paused = 0
        rate = 0.0
        for i in range(worker.flow_top):
            flow = flow_at(worker, i)
            if values[i] >= 0:
                count += 1
                waiting += values[i]
                longest = max(longest, flow.longest)
                rate += flow.rate
                frames += flow.frames
                total += flow.sent
                dropped += flow.dropped
                pauses += flow.pauses
                paused += flow.paused_ns
        self.add(others, count, waiting, longest, rate, frames, total, dropped, pauses, paused)
        return chosen

    def add_flow(self, others, k, i):
        """One more flow among the others."""
        flow = flow_at(worker_of(self.worker, k), i)
        self.add(
            others,
            1,
            flow.sent - flow.consumed,
            flow.longest,
            flow.rate,
            flow.frames,
            flow.sent,
            flow.dropped,
            flow.pauses,
            flow.paused_ns,
        )

    def add(self, others, *numbers):
        for key, number in zip(SUMMED, numbers):
            others[key] = max(others[key], number) if key == "longest_bytes" else others[key] + number

    def left_row(self, number, most=64):
        """What waits at a port: frames that the switch has not taken, of the longest queues also by queue; and frames that
        the application has not."""
        port = port_at(worker_of(self.worker, port_at(self.worker, number).home), number)
        sent = sum([port_at(worker_of(self.worker, k), number).sent_bytes for k in range(self.count)])
        view = view_of(port)
        found = cython.address(self.remains)
        found.steps = 4 * (view.buffers + view.rings)
        queues = {}
        queue = next_queue(port, 0, found)
        while queue >= 0:
            queues[queue] = {"frames": found.frames, "bytes": found.bytes}
            queue = next_queue(port, queue + 1, found)
        longest = sorted(queues, key=lambda q: (-queues[q]["bytes"], q))[:most]
        return {
            "port": self.names[number],
            "waiting_frames": sum(q["frames"] for q in queues.values()),
            "waiting_bytes": sum(q["bytes"] for q in queues.values()),
            "waiting_by_queue": {q: queues[q] for q in longest},
            "not_taken_frames": not_taken(view),
            "not_taken_bytes": max(0, sent - signed_of(load64(view.total[1]) - port.total_base)),
        }

    def left(self):
        """What waits, one dict per port."""
        return [self.left_row(i) for i in sorted(self.regions)]

    def add_up(self, row):
        """An application has gone: what it did remains in the sums of its port. Lost is what the switch had not taken."""
        sums = self.totals.setdefault(row["port"], dict.fromkeys(GONE, 0))
        for key, value in (
            ("applications", 1),
            ("lost_frames", row["waiting_frames"]),
            ("lost_bytes", row["waiting_bytes"]),
            ("dropped_frames", sum(row["drops"].values())),
        ):
            sums[key] += value
        for key in GONE[:4]:
            sums[key] += row[key]

    # ---- Addresses ----

    def readdress(self, ports):
        """Give ports, by name, other addresses (`addresses`) and say whether they may only send from them (`guarded`).

        Nothing is lost: a flow that now leads elsewhere begins anew, and what it has delivered stays where it is.
        """
        worker = self.worker
        wanted = {
            number: ports[name]["addresses"] if name in ports else self.addresses(number) for number, name in self.names.items()
        }
        if (count := sum(map(len, wanted.values()))) > MOST_ADDRESSES:
            raise SpecError(f"{count} addresses: the switch holds {MOST_ADDRESSES}; take fewer")
        before = {number: self.addresses(number) for number in wanted}
        try:
            worker.address_count = 0
            for number, addresses in wanted.items():
                self.set_addresses(number, addresses)
        except SpecError:
            worker.address_count = 0
            for number, addresses in before.items():
                self.set_addresses(number, addresses)
            raise
        for k in range(self.count):
            worker = worker_of(self.worker, k)
            for number, name in self.names.items():
                if name in ports:
                    port_at(worker, number).guarded = ports[name]["guarded"]
            for i in range(worker.flow_top):
                flow = flow_at(worker, i)
                if flow.used and is_misled(worker, flow):
                    renew_flow(worker, flow)
