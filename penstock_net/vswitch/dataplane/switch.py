"""A switch in this process: the Python interface of its workers.

    switch = Switch(mode="backdraft")
    switch.attach("a", region, ["10.0.0.1"])        # the switch's side of a region
    switch.start()                                  # a thread per worker, without the interpreter's lock
    switch.call(lambda: switch.ports())             # runs in the first of them while all are stopped between two turns

After the start, use all other methods than `call` and `stop` inside a `call`.  Every port has a home worker, which serves its
transmit queues; every worker has its own flows and receive queues, so that none waits for another.
"""

import bisect
import collections

import cython

from penstock_net.errors import SpecError, nearest
from penstock_net.vswitch.support.losses import Ledger
from penstock_net.vswitch.support.settings import (
    DEFAULTS,
    MODES,
    OF_GONE,
    REASON_NAMES,
    STATE_NAMES,
    WHILE_RUNNING,
    address_text,
    validate_settings,
    with_units,
)
from penstock_net.vswitch.support.threads import Crew
from penstock_net.vswitch.world import os, select

if not cython.compiled:
    from penstock_net.vswitch.dataplane.flowtable import enter_flows, remove_flow
    from penstock_net.vswitch.dataplane.inspect import (
        count_waiting,
        details_of,
        forget_macs,
        pick_longest,
        restart_misled_flows,
        share_captures,
    )
    from penstock_net.vswitch.dataplane.prefixes import AddressTable
    from penstock_net.vswitch.dataplane.receiver import waiting_now
    from penstock_net.vswitch.dataplane.schedule import forget_timers
    from penstock_net.vswitch.dataplane.state import (
        BROKEN_OFF,
        MOST_PORTS,
        UP,
        copy_timers,
        flow_at,
        free,
        new_txqs,
        numbers,
        port_at,
        timer_at,
        txq_at,
        wanted_of,
        watch_only,
    )
    from penstock_net.vswitch.dataplane.switch import (
        clear_port,
        delivered_by,
        free_flows_of,
        free_port,
        give_table,
        has_drops,
        is_held,
        key_words,
        new_flows,
        new_timers,
        new_worker,
        place_of,
        plain_words,
        raced_released,
        run_released,
        sender_of,
        set_peer,
        set_view,
        turns_released,
        worker_at,
    )
    from penstock_net.vswitch.dataplane.worker import prepare_worker, turn
    from penstock_net.vswitch.memory.layout import load64, store32, word_at
    from penstock_net.vswitch.world.calls.table import now_ns

MOST_CAPTURES = 8
QUEUES_KEPT = 64  # whose drops are kept when a port is detached


class Switch:
    """Workers with their ports."""

    @property
    def takes_headers(self):
        """Whether frames may have a virtio_net_hdr, as super-frames do."""
        return True

    @property
    def takes_ports(self):
        """Whether ports that the specification does not name may be added."""
        return True

    def __init__(self, *, hash_seed=None, **settings):
        """hash_seed: of the flow tables, for repeatable runs; None: random, so that nobody can provoke collisions."""
        self.settings = validate_settings(settings)
        self.regions, self.names, self.numbers, self.detached, self.fds = {}, {}, {}, [], {}
        self.queues, self.free_numbers = 0, list(range(MOST_PORTS))  # of all ports; in order
        self.captures, self.totals, self.drivers = [], {}, {}
        self.ledger = Ledger()
        self.epolls, self.controls, self.crew = [], [], None
        self.count = self.settings["workers"]
        seed = int.from_bytes(os.urandom(8), "little") if hash_seed is None else hash_seed
        self.worker = new_worker()
        self.table = AddressTable()
        for k in range(self.count):
            set_peer(self.worker, k, self.worker if k == 0 else new_worker())
        for k in range(self.count):
            self.prepare(k, seed)
        self.set_limits()

    def prepare(self, k, seed):
        """Set up a worker: its flow table, its epoll descriptor and eventfd."""
        worker = worker_at(self.worker, k)
        self.controls.append(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
        self.epolls.append(select.epoll())
        watch_only(self.epolls[k], self.controls[k])
        worker.epoll = self.epolls[k].fileno()
        worker.index, worker.workers = k, self.count
        for i in range(self.count):
            set_peer(worker, i, worker_at(self.worker, i))
        give_table(worker, self.table)
        worker.doorbells, worker.seed = self.settings["doorbells"], seed
        worker.flow_room = worker.free_flow_count = self.settings["flows"]
        worker.table_mask = (1 << (2 * worker.flow_room - 1).bit_length()) - 1
        worker.table = numbers(worker.table_mask + 1)
        worker.flows = new_flows(worker.flow_room)
        worker.free_flows = numbers(worker.flow_room)
        prepare_worker(worker)
        worker.reach = 4

    def __dealloc__(self):
        for k in range(self.count if self.worker else 0):
            worker = worker_at(self.worker, self.count - 1 - k)
            for i in range(worker.port_count):
                free_port(port_at(worker, i))
            free(worker.timers)
            free(worker.stations)
            free_flows_of(worker)
            free(worker.table)
            free(worker.free_flows)
            free(worker)

    def close(self):
        """Detach all ports and close the file descriptors."""
        for number in list(self.regions):
            self.detach(number)
        while self.epolls:
            self.epolls.pop().close()
            os.close(self.controls.pop())

    def set_limits(self):
        s = self.settings
        for k in range(self.count):
            worker = worker_at(self.worker, k)
            worker.mode = MODES.index(s["mode"])
            worker.th_goal, worker.th_over, worker.th_net, worker.burst = s["th_goal"], s["th_over"], s["th_net"], s["burst"]
            worker.spin_ns, worker.idle_ns = s["spin"], s["idle"]
            for i in range(worker.flow_top):
                if flow_at(worker, i).used:  # the next frame sets them anew
                    flow_at(worker, i).goal, flow_at(worker, i).over, flow_at(worker, i).net = 0, worker.th_over, worker.th_net

    def set(self, changes):
        """Change settings while running, all or none."""
        for key in changes:
            if key not in WHILE_RUNNING:
                remedy = "it takes a new start" if key in DEFAULTS else nearest(key, WHILE_RUNNING)
                raise SpecError("cannot be set while running", path=key, remedy=remedy)
        self.settings = validate_settings({**with_units(self.settings), **changes})
        self.set_limits()
        return self.settings

    # ---- Ports ----

    def must_take(self, queues):
        """SpecError unless there is room for ports with so many queues each, by name."""
        room = self.worker.flow_room - self.queues
        free = MOST_PORTS - len(self.regions)
        for name, count in queues.items():
            room, free = room - count, free - 1
            if name in self.numbers:
                raise SpecError(f"port {name!r}: there is one of that name", remedy="take another name")
            if free < 0:
                raise SpecError(f"port {name!r}: the switch has {MOST_PORTS} ports already", remedy="detach one")
            if count < self.count:
                rule, remedy = f"{count} queues are too few for {self.count} workers", f"ask for at least {self.count}"
                raise SpecError(f"port {name!r}: {rule}", remedy=remedy)
            if room < 0:
                rule = f"{count} queues are too many: switch.flows = {self.worker.flow_room} must hold those of all ports"
                raise SpecError(f"port {name!r}: {rule}", remedy="ask for fewer, or start the switch with more flows")

    def attach(self, name, region, addresses, fds=(-1, -1), guarded=True, number=-1):
        """Attach a region as a port; returns its number, the first that is free if none is given.

        `fds`, then owned by the switch, wake the application (a socket) and the switch (an eventfd); a guarded port sends from
        its addresses only.
        """
        queues = region.shape["queues"]
        self.must_take({name: queues})
        number = self.free_numbers[0] if number < 0 else number
        self.set_addresses(number, list(addresses))
        self.free_numbers.remove(number)
        home = number % self.count
        fd, bell = fds
        if bell >= 0:
            watch_only(self.epolls[home], bell)
        self.fds[number] = fds
        self.serial = (self.serial + 1) & 0xFFFF
        for k in range(self.count):
            port = port_at(worker_at(self.worker, k), number)
            clear_port(port)
            set_view(port, region)
            port.number, port.fd, port.guarded, port.serial, port.home = number, fd, guarded, self.serial, home
            port.bell_out = k * port.view.bells
            port.total_base = load64(port.view.total[1])
            port.refill = 4
            port.mean = 64
            port.unrung = numbers(queues)
            port.unrung_queues = numbers(queues)
            port.free_queues = numbers(queues)
            port.flow_of = numbers(queues)
            port.flows_from = numbers(MOST_PORTS)
            port.hand = numbers(MOST_PORTS)
            for i in range(queues):  # dealt out to the workers
                if (queues - 1 - i) % self.count == k:
                    port.free_queues[port.free_count] = queues - 1 - i
                    port.free_count += 1
        port = port_at(worker_at(self.worker, home), number)
        port.txqs = new_txqs(queues)
        port.weight = 1
        self.regions[number], self.names[number], self.numbers[name] = region, name, number
        self.queues += queues
        self.follow(number, name)
        for k in range(self.count):
            worker_at(self.worker, k).port_count = max(worker_at(self.worker, k).port_count, number + 1)
            self.make_timers(k)
            port_at(worker_at(self.worker, k), number).state = UP
        return number

    def make_timers(self, k):
        """Resize the timer heap for all transmit queues."""
        worker = worker_at(self.worker, k)
        room = 2 * self.queues + 1  # of both sides, where the worker is both
        if room > worker.timer_room:
            room = max(room, 2 * worker.timer_room)
            timers = new_timers(room)
            if worker.timers:
                copy_timers(timers, worker.timers, worker.timer_count)
                free(worker.timers)
            worker.timers = timers
            worker.timer_room = room

    def set_addresses(self, number, addresses):
        """Add addresses and prefixes to those of a port; none of them is a station's any longer."""
        self.table.add(addresses, number, self.names)
        forget_macs(self.worker, addresses)

    def readdress(self, ports):
        """Change the addresses of ports, by name (`addresses`), and whether they may only send from them (`guarded`).

        No frame is lost: a flow whose target has changed becomes a new flow; delivered frames stay in their queues.
        """
        before = {number: self.addresses(number) for number in self.names}
        try:
            self.table.clear()
            for number, name in self.names.items():
                own = self.drivers[number].own if number in self.drivers else []
                self.set_addresses(number, [*ports[name]["addresses"], *own] if name in ports else before[number])
        except SpecError:
            self.table.clear()
            for number, addresses in before.items():
                self.set_addresses(number, addresses)
            raise
        for k in range(self.count):
            worker = worker_at(self.worker, k)
            for number, name in self.names.items():
                if name in ports:
                    port_at(worker, number).guarded = ports[name]["guarded"]
            restart_misled_flows(worker)

    def detach(self, number):
        """Detach a port and remove its flows; returns its region, to be unmapped outside the worker's thread."""
        worker = self.worker
        if number not in self.regions:
            return None
        if number in self.drivers:
            self.drivers[number].remove(self)
        for k in range(self.count):
            self.forget_flows(k, number)
            forget_timers(worker_at(self.worker, k), number)
        self.table.remove(number)
        row = {**self.port_row(number, QUEUES_KEPT), **self.left_row(number)}
        row["state"] = "nonsense" if row["state"] == "nonsense" else "detached"
        if self.drivers.pop(number, None):  # nobody else takes what is in the region
            row["not_delivered_frames"], row["not_forwarded_frames"] = row["not_taken_frames"], row["waiting_frames"]
        else:
            row["not_fetched_frames"] = row["waiting_frames"]
        self.detached.append(row)
        self.add_up(row)
        self.ledger.close(row)
        if len(self.detached) > 100:
            self.detached.pop(0)
        home = port_at(worker, number).home
        for k in range(self.count):
            free_port(port_at(worker_at(self.worker, k), number))
            clear_port(port_at(worker_at(self.worker, k), number))
        region = self.regions.pop(number)
        self.queues -= region.shape["queues"]
        del self.numbers[self.names.pop(number)]
        bisect.insort(self.free_numbers, number)
        self.follow(number, None)
        fd, bell = self.fds.pop(number)
        if bell >= 0:
            self.epolls[home].unregister(bell)
            os.close(bell)
        if fd >= 0:
            os.close(fd)
        for k in range(self.count):
            worker_at(self.worker, k).port_count = max(self.regions, default=-1) + 1
        return region

    def detach_name(self, name):
        """Detach a port by name; None: there is no such port."""
        return self.detach(self.numbers[name]) if name in self.numbers else None

    def add_up(self, row):
        """Add the counters of a detached application to the totals of its port; its frames not yet taken are lost."""
        sums = self.totals.setdefault(row["port"], dict.fromkeys(OF_GONE, 0))
        for key, value in (
            ("applications", 1),
            ("lost_frames", row["waiting_frames"]),
            ("lost_bytes", row["waiting_bytes"]),
            ("dropped_frames", sum(row["drops"].values())),
            ("not_delivered_frames", row.get("not_delivered_frames", 0)),
            *((key, row[key]) for key in OF_GONE[:4]),
        ):
            sums[key] += value

    def forget_flows(self, k, number):
        """Remove the flows to a port, and let those from it age; the next port of this number has another serial."""
        worker = worker_at(self.worker, k)
        for i in range(worker.flow_top):
            flow = flow_at(worker, i)
            if flow.used and flow.target == number:
                remove_flow(worker, flow)
            elif flow.used and flow.source == number:
                flow.used_at = 0

    # ---- What there is ----

    def port_row(self, number, most_queues=1 << 20):
        home = port_at(worker_at(self.worker, port_at(self.worker, number).home), number)
        drops = {name: home.drops[i] for i, name in enumerate(REASON_NAMES) if home.drops[i]}
        queues = {}
        for i in range(home.view.queues if len(drops) else 0):
            txq = txq_at(home, i)
            if has_drops(txq):
                queues[i] = {name: txq.drops[k] for k, name in enumerate(REASON_NAMES) if txq.drops[k]}
                if len(queues) == most_queues:
                    break
        row, sums = {"port": self.names[number], "number": number, "addresses": self.addresses(number), "state": "up"}, {}
        for k in range(self.count):
            port = port_at(worker_at(self.worker, k), number)
            if port.state != UP:
                row["state"] = STATE_NAMES[port.state]
            counts = {
                "flows": port.flows,
                "received_frames": port.received_frames,
                "received_bytes": port.received_bytes,
                "sent_frames": port.sent_frames,
                "sent_bytes": port.sent_bytes,
                "pauses": port.pauses,
                "paused_ns": port.paused_ns,
                "shared_frames": port.shared,
                "bells_answered": port.bells_answered,
                "bells_rung": port.bells_rung,
                "nonsense": port.view.protocol_errors,
            }
            sums = {key: sums[key] + count for key, count in counts.items()} if sums else counts
        if row["state"] == "up" and number in self.drivers:
            row["state"] = self.drivers[number].present_state
        return {**row, **sums, "drops": drops, "drops_by_queue": queues, **details_of(home, self.drivers.get(number))}

    def addresses(self, number):
        return self.table.of(number)

    def ports(self, names=None):
        """One dict per port, or for each of these that is attached."""
        numbers = self.names if names is None else [self.numbers[name] for name in names if name in self.numbers]
        return [self.port_row(i) for i in sorted(numbers)]

    def flow_row(self, k, number, behind):
        flow = flow_at(worker_at(self.worker, k), number)
        words, source = plain_words(flow.key.words), sender_of(worker_at(self.worker, k), flow)
        ports = (words[4] >> 32).to_bytes(4, "little") if words[0] != (1 << 64) - 1 else bytes(4)
        return {
            "source": address_text(words[0], words[1]),
            "source_port": int.from_bytes(ports[:2], "big"),
            "target": address_text(words[2], words[3]),
            "target_port": int.from_bytes(ports[2:], "big"),
            "protocol": words[4] >> 16 & 0xFF,
            "from": self.names.get(source),
            "to": self.names.get(flow.target),
            "queue": flow.queue,
            "waiting_bytes": waiting_now(worker_at(self.worker, k), flow),
            "behind_bytes": behind.get(source, {}).get(key_words(words), 0),
            "longest_bytes": flow.longest,
            "rate_bytes_per_s": round(flow.rate),
            "frames": flow.frames,
            "bytes": flow.sent,
            "dropped": flow.dropped,
            "pauses": flow.pauses,
            "paused_ns": flow.paused_ns,
        }

    def flows(self):
        """One dict per flow."""
        behind = {number: driver.behind() for number, driver in self.drivers.items()}
        return [
            self.flow_row(k, i, behind)
            for k in range(self.count)
            for i in range(worker_at(self.worker, k).flow_top)
            if flow_at(worker_at(self.worker, k), i).used
        ]

    def held_flows(self, name):
        """One dict per flow from a port that was ever paused or has a backlog in front of the switch; callable in any thread."""
        number = self.numbers.get(name, -1)
        driver = self.drivers.get(number)
        behind, found = driver.behind() if driver is not None else {}, []
        for k in range(self.count):
            worker = worker_at(self.worker, k)
            for i in range(worker.flow_top):
                flow = flow_at(worker, i)
                if is_held(worker, flow, number, behind):
                    found.append(self.flow_row(k, i, {number: behind}))
        return found

    def pauses(self, now=None):
        """Present pauses of ports, transmit queues and queues to a device, with the remaining ns. `now`: as of `turn_at`."""
        now, found = now_ns() if now is None else now, []
        for k in range(self.count):
            worker = worker_at(self.worker, k)
            for i in sorted(self.regions):
                port = port_at(worker, i)
                if port.paused_until > now:
                    found.append({"port": self.names[i], "queue": None, "to_device": False, "left_ns": port.paused_until - now})
            for i in range(worker.timer_count):
                timer = timer_at(worker, i)
                name, device = self.names[timer.port & (MOST_PORTS - 1)], timer.port >= MOST_PORTS
                found.append({"port": name, "queue": timer.queue, "to_device": device, "left_ns": max(0, timer.at - now)})
        return found

    def counters(self):
        """Counters of the workers, summed up."""
        sums = collections.Counter(workers=self.count, ports=len(self.regions))
        for k in range(self.count):
            worker = worker_at(self.worker, k)
            sums.update(
                rounds=worker.rounds,
                rounds_with_work=worker.worked_rounds,
                naps=worker.naps,
                flows=worker.flow_count,
                free_flows=worker.free_flow_count,
                reclaimed_flows=worker.reclaimed,
            )
        return dict(sums)

    def waiting(self):
        """Whether a transmit queue has frames that the switch knows of."""
        for k in range(self.count):
            worker = worker_at(self.worker, k)
            if worker.timer_count:
                return True
            for i in self.regions:
                port = port_at(worker, i)
                if port.levels or port.unrung_count:
                    return True
                if worker.doorbells and port.home == k and load64(word_at(port.view.bell[0], port.bell_in)):
                    return True
        return False

    def delivered(self):
        """Frames put into receive queues so far, of all ports."""
        return sum(delivered_by(worker_at(self.worker, k)) for k in range(self.count))

    def longest_flows(self, most):
        """One dict for each of the flows with the most queued bytes, and one for the others: count, sums, longest queue."""
        chosen, others = pick_longest(self.worker, most)
        behind = {number: driver.behind() for number, driver in self.drivers.items()}
        rows = [self.flow_row(k, i, behind) for _, k, i in chosen]
        others["behind_bytes"] = sum(sum(each.values()) for each in behind.values()) - sum(row["behind_bytes"] for row in rows)
        return rows, others

    def left_row(self, number):
        """The frames queued at a port: not yet taken by the switch, and not yet read by the application."""
        return count_waiting(self.worker, number, self.names[number], cython.address(self.scan))

    def left(self):
        """The frames queued at each port, one dict per port."""
        return [self.left_row(i) for i in sorted(self.regions)]

    # ---- Captures ----

    def start_capture(self, capture):
        """Start a capture of ports, including ports that are attached later."""
        if len(self.captures) >= MOST_CAPTURES:
            raise SpecError(f"{MOST_CAPTURES} captures are running", remedy="end one")
        for number, name in self.names.items():
            capture.follow(number, name)
        self.captures.append(capture)
        share_captures(self.worker, self.captures)

    def end_capture(self, capture):
        """End a capture; returns its last row."""
        if capture in self.captures:
            self.captures.remove(capture)
            share_captures(self.worker, self.captures)
        return capture.row()

    def follow(self, number, name):
        """Notify the captures of an attached port; `name` None: a detached one."""
        for capture in self.captures:
            capture.follow(number, name)

    @property
    def places(self):
        """Addresses of the states of the workers."""
        return [place_of(worker_at(self.worker, k)) for k in range(self.count)]

    def find_flows(self):
        """Enter the flows into the workers' hash tables, after their states were set."""
        for k in range(self.count):
            enter_flows(worker_at(self.worker, k))

    # ---- Running ----

    def turns(self, count):
        """For tests and benchmarks: run `count` turns of the loops without sleeping; returns the cycles that they took."""
        return turns_released(self.worker, count)

    def race(self, k, frames, start):
        """For benchmarks: turns of a worker from the time stamp `start` until it has delivered `frames`; the time stamp then."""
        return raced_released(worker_at(self.worker, k), frames, start)

    def turn_at(self, now):
        """Run one turn of each worker at a time in ns of any clock; returns the amount of work done."""
        return sum(turn(worker_at(self.worker, k), now) for k in range(self.count))

    def run(self, k, seconds):
        """Run a worker's loop in this thread, for so many seconds or until `want`."""
        run_released(worker_at(self.worker, k), now_ns() + int(1e9 * seconds))

    def want(self, k, wanted):
        """Request a worker's loop to return to Python, or withdraw the request."""
        store32(wanted_of(worker_at(self.worker, k)), wanted)
        if wanted and k < len(self.controls):
            os.eventfd_write(self.controls[k], 1)

    def detach_broken(self):
        """Detach the ports whose applications made too many protocol errors; returns their names and regions."""
        names, regions = [], []
        for k in range(self.count):
            if worker_at(self.worker, k).broken_off:
                worker_at(self.worker, k).broken_off = 0
                for number in [i for i in self.regions if port_at(worker_at(self.worker, k), i).state == BROKEN_OFF]:
                    names.append(self.names[number])
                    regions.append(self.detach(number))
        return names, regions

    def start(self, cpus=(), on_protocol_errors=None, realtime=False):
        """A thread per worker, pinned to its CPU if there is one; `realtime`: before all usual threads.

        `on_protocol_errors(names, regions)` is called with the ports that were detached after too many protocol errors.
        """
        self.crew = Crew(self, self.count, cpus, on_protocol_errors, realtime)

    def call(self, function):
        """Run a function in the first worker's thread while all are stopped between two turns; returns or raises its result."""
        return self.crew.call(function)

    def halt(self):
        """End the threads; ports and flows remain."""
        self.crew.stop()

    def stop(self):
        """End the threads and detach all ports."""
        self.halt()
        self.close()
