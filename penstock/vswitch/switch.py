"""A switch in this process: what Python sees of a worker.

    switch = Switch(mode="backdraft")
    switch.attach("a", region, ["10.0.0.1"])        # the switch's side of a region
    switch.start()                                  # a thread, without the interpreter's lock
    switch.call(lambda: switch.ports())             # in that thread, between two turns of its loop

Once it has been started, everything but `call` and `stop` belongs into a `call`.
"""

import collections
import ipaddress
import os
import re
import select
import threading

import cython

from penstock.errors import SpecError, nearest
from penstock.units import parse_size, parse_time

if not cython.compiled:
    raise ImportError("penstock.vswitch.switch works compiled only: run python setup.py build_ext --inplace")

MODES = ["lossy", "pfc", "dpfq", "backdraft"]
REASON_NAMES = ["full", "no_buffer", "no_queue", "no_route", "no_flow", "malformed", "spoofed", "too_long", "bad_descriptor"]
DEFAULTS = {
    "mode": "backdraft",
    "doorbells": True,
    "th_goal": "32KB",
    "th_over": "128KB",
    "th_net": "512KB",
    "burst": 32,
    "flows": 65536,
    "spin": "20us",
    "idle": "100ms",
}
WHILE_RUNNING = ("mode", "th_goal", "th_over", "th_net", "burst", "spin", "idle")
QUEUES_KEPT = 64            # whose drops are remembered of a port that has gone
MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", re.I)


def checked(settings):
    """Settings with every value understood and in range."""
    out = {}
    for key in settings:
        if key not in DEFAULTS:
            raise SpecError(f"switch.{key}: unknown key{nearest(key, DEFAULTS)}")
    for key, default in DEFAULTS.items():
        value = settings.get(key, default)
        if key == "mode":
            if value not in MODES:
                raise SpecError(f"switch.mode = {value!r}: must be one of {', '.join(MODES)}{nearest(str(value), MODES)}")
        elif key == "doorbells":
            if not isinstance(value, bool):
                raise SpecError(f"switch.doorbells = {value!r}: must be true or false")
        elif key.startswith("th_"):
            value = parse_size(value, f"switch.{key}", positive=True)
        elif key in ("spin", "idle"):
            value = parse_time(value, f"switch.{key}") // 1000
        elif isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= (1 << 20):
            raise SpecError(f"switch.{key} = {value!r}: must be a whole number from 1 to {1 << 20}")
        out[key] = value
    if not out["th_goal"] < out["th_over"] < out["th_net"] < 1 << 40:
        raise SpecError(
            f"switch: th_goal = {out['th_goal']} B, th_over = {out['th_over']} B, th_net = {out['th_net']} B: must rise in "
            "this order; the defaults are 32KB, 128KB, 512KB"
        )
    return out


def address_words(text):
    """An IPv4, IPv6 or Ethernet address as the two words of a flow's key."""
    if isinstance(text, str) and MAC.fullmatch(text):
        return (1 << 64) - 1, int.from_bytes(bytes.fromhex(text.replace(":", "")), "little")
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise SpecError(
            f"address {text!r}: must be an IPv4, IPv6 or Ethernet address, such as 10.0.0.1 or 02:00:00:00:00:01"
        ) from None
    whole = (b"\0" * 10 + b"\xff\xff" if address.version == 4 else b"") + address.packed
    return int.from_bytes(whole[:8], "little"), int.from_bytes(whole[8:], "little")


def address_text(high, low_half):
    raw = high.to_bytes(8, "little") + low_half.to_bytes(8, "little")
    if high == (1 << 64) - 1:
        return ":".join(f"{b:02x}" for b in raw[8:14])
    address = ipaddress.IPv6Address(raw)
    return str(address.ipv4_mapped or address)


class Switch:
    """A worker with its ports."""

    def __init__(self, **settings):
        self.settings = checked(settings)
        self.regions, self.names, self.detached, self.fds = {}, {}, [], {}
        self.commands = collections.deque()
        self.control = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.epoll = select.epoll()
        self.epoll.register(self.control, select.EPOLLIN | select.EPOLLET)
        w = self.w = new_worker()
        w.epoll = self.epoll.fileno()
        w.doorbells = self.settings["doorbells"]
        w.flow_room = self.settings["flows"]
        size = 1 << (2 * w.flow_room - 1).bit_length()
        w.table_mask = size - 1
        w.table = numbers(size)
        w.flows = new_flows(w.flow_room)
        w.free_flows = numbers(w.flow_room)
        w.free_flow_count = w.flow_room
        for i in range(w.flow_room):
            w.free_flows[i] = w.flow_room - 1 - i
        w.seed = int.from_bytes(os.urandom(8), "little")
        self.set_limits()

    def __dealloc__(self):
        if self.w:
            for i in range(self.w.port_count):
                port = port_at(self.w, i)
                free(port.inputs)
                free(port.free_queues)
                free(port.news)
                free(port.news_queues)
            free(self.w.timers)
            free(self.w.flows)
            free(self.w.table)
            free(self.w.free_flows)
            free(self.w)

    def close(self):
        """Give the file descriptors back."""
        for number in list(self.regions):
            self.detach(number)
        if not self.epoll.closed:
            self.epoll.close()
            os.close(self.control)

    def set_limits(self):
        w, s = self.w, self.settings
        w.mode = MODES.index(s["mode"])
        w.th_goal, w.th_over, w.th_net, w.burst = s["th_goal"], s["th_over"], s["th_net"], s["burst"]
        w.spin_ns, w.idle_ns = s["spin"], s["idle"]
        for i in range(w.flow_room):
            if flow_at(w, i).used:  # the next frame sets them anew
                flow_at(w, i).goal, flow_at(w, i).over, flow_at(w, i).net = 0, w.th_over, w.th_net

    def set(self, changes):
        """Change settings while running; what was accepted before stays when one is refused."""
        for key in changes:
            if key not in WHILE_RUNNING:
                known = "; it takes a new start" if key in DEFAULTS else nearest(key, WHILE_RUNNING)
                raise SpecError(f"{key}: cannot be set while running{known}")
        as_given = {**self.settings, "spin": f"{self.settings['spin']}ns", "idle": f"{self.settings['idle']}ns", **changes}
        self.settings = checked(as_given)
        self.set_limits()
        return self.settings

    # ---- Ports ----

    def attach(self, name, region, addresses, fds=(-1, -1), guarded=True):
        """Take a region in as a port; returns its number.

        `fds`, then owned by the switch, wake the application (a socket) and the switch (an eventfd); a guarded port sends from
        its addresses only.
        """
        w = self.w
        if name in self.names.values():
            raise SpecError(f"port {name!r}: there is one of that name; take another name")
        number = next((i for i in range(MOST_PORTS) if i not in self.regions), -1)
        if number < 0:
            raise SpecError(f"port {name!r}: the switch has {MOST_PORTS} ports already; detach one")
        if sum(r.shape["queues"] for r in self.regions.values()) + region.shape["queues"] > w.flow_room:
            raise SpecError(
                f"port {name!r}: {region.shape['queues']} queues are too many; switch.flows = {w.flow_room} must hold "
                "those of all "
                "ports: ask for fewer, or start the switch with more flows"
            )
        self.set_addresses(number, list(addresses))
        queues = region.shape["queues"]
        port = port_at(w, number)
        clear_port(port)
        set_view(port, region)
        fd, bell = fds
        if bell >= 0:
            self.epoll.register(bell, select.EPOLLIN | select.EPOLLET)
        self.fds[number] = fds
        self.serial = (self.serial + 1) & 0xFFFF
        port.number, port.fd, port.guarded, port.serial = number, fd, guarded, self.serial
        port.total_base = load64(port.view.total[1])
        port.inputs = new_inputs(queues)
        for i in range(queues):
            input_at(port, i).weight = 1
            input_at(port, i).priority = 1
        port.free_queues = numbers(queues)
        port.news = numbers(queues)
        port.news_queues = numbers(queues)
        for i in range(queues):
            port.free_queues[i] = queues - 1 - i
        port.free_count = queues
        self.regions[number], self.names[number] = region, name
        w.port_count = max(w.port_count, number + 1)
        self.make_timers()
        port.state = UP
        return number

    def make_timers(self):
        """Room in the heap for every transmit queue there is."""
        w = self.w
        room = sum(r.shape["queues"] for r in self.regions.values()) + 1
        if room > w.timer_room:
            timers = new_timers(room)
            if w.timers:
                copy_timers(timers, w.timers, w.timer_count)
                free(w.timers)
            w.timers = timers
            w.timer_room = room

    def set_addresses(self, number, addresses):
        w = self.w
        found = [address_words(text) for text in addresses]
        for (high, low_half), text in zip(found, addresses):
            for i in range(w.address_count):
                if address_at(w, i).high == high and address_at(w, i).low == low_half:
                    raise SpecError(f"address {text}: port {self.names[address_at(w, i).port]!r} has it; take another one")
        if w.address_count + len(found) > MOST_ADDRESSES:
            raise SpecError(f"{len(found)} more addresses: the switch holds {MOST_ADDRESSES}; take fewer")
        for high, low_half in found:
            address = address_at(w, w.address_count)
            address.high, address.low, address.port = high, low_half, number
            w.address_count += 1

    def detach(self, number):
        """Forget a port and its flows. Returns its region: to unmap it takes time, which need not be the worker's."""
        w = self.w
        port = port_at(w, number)
        if number not in self.regions:
            return None
        self.forget_flows(number)
        forget_timers(w, number)
        kept = 0
        for i in range(w.address_count):
            if address_at(w, i).port != number:
                address, to = address_at(w, i), address_at(w, kept)
                to.high, to.low, to.port = address.high, address.low, address.port
                kept += 1
        w.address_count = kept
        row = self.port_row(number, QUEUES_KEPT)
        self.detached.append({**row, "state": "nonsense" if port.state == BROKEN_OFF else "detached"})
        if len(self.detached) > 100:
            self.detached.pop(0)
        free(port.inputs)
        free(port.free_queues)
        free(port.news)
        free(port.news_queues)
        clear_port(port)
        region = self.regions.pop(number)
        del self.names[number]
        fd, bell = self.fds.pop(number)
        if bell >= 0:
            self.epoll.unregister(bell)
            os.close(bell)
        if fd >= 0:
            os.close(fd)
        w.port_count = max(self.regions, default=-1) + 1
        return region

    def detach_name(self, name):
        """The same by name; None: there is no such port."""
        for number, known in list(self.names.items()):
            if known == name:
                return self.detach(number)
        return None

    def forget_flows(self, number):
        """Those to the port at once; those from it are idle from now on. The next port of that number has another serial."""
        w = self.w
        for i in range(w.flow_room):
            flow = flow_at(w, i)
            if flow.used and flow.target == number:
                remove_flow(w, flow)
            elif flow.used and flow.source == number:
                flow.used_at = 0

    # ---- What there is ----

    def port_row(self, number, most_queues=1 << 20):
        port = port_at(self.w, number)
        drops = {name: port.drops[i] for i, name in enumerate(REASON_NAMES) if port.drops[i]}
        queues = {}
        for i in range(port.view.queues if port.inputs else 0):
            input = input_at(port, i)
            if has_drops(input):
                queues[i] = {name: input.drops[k] for k, name in enumerate(REASON_NAMES) if input.drops[k]}
                if len(queues) == most_queues:
                    break
        return {
            "port": self.names[number],
            "number": number,
            "addresses": self.addresses(number),
            "state": ["absent", "up", "nonsense"][port.state],
            "flows": port.flows,
            "received_frames": port.received_frames,
            "received_bytes": port.received_bytes,
            "sent_frames": port.sent_frames,
            "sent_bytes": port.sent_bytes,
            "pauses": port.pauses,
            "paused_ns": port.paused_ns,
            "bells_answered": port.bells_answered,
            "bells_rung": port.bells_rung,
            "nonsense": port.view.broken,
            "drops": drops,
            "drops_by_queue": queues,
        }

    def addresses(self, number):
        w = self.w
        return [
            address_text(address_at(w, i).high, address_at(w, i).low)
            for i in range(w.address_count)
            if address_at(w, i).port == number
        ]

    def ports(self):
        """One dict per port."""
        return [self.port_row(i) for i in sorted(self.regions)]

    def flow_row(self, number):
        flow = flow_at(self.w, number)
        words = flow.key.words
        ports = (words[4] >> 32).to_bytes(4, "little") if words[0] != (1 << 64) - 1 else bytes(4)
        return {
            "source": address_text(words[0], words[1]),
            "source_port": int.from_bytes(ports[:2], "big"),
            "target": address_text(words[2], words[3]),
            "target_port": int.from_bytes(ports[2:], "big"),
            "protocol": words[4] >> 16 & 0xFF,
            "from": self.names.get(flow.source),
            "to": self.names[flow.target],
            "queue": flow.queue,
            "waiting_bytes": flow.sent - flow.consumed,
            "longest_bytes": flow.longest,
            "rate_bytes_per_s": round(flow.rate),
            "frames": flow.frames,
            "bytes": flow.bytes,
            "dropped": flow.dropped,
            "pauses": flow.pauses,
            "paused_ns": flow.paused_ns,
        }

    def flows(self):
        """One dict per flow."""
        return [self.flow_row(i) for i in range(self.w.flow_room) if flow_at(self.w, i).used]

    def pauses(self):
        """What waits now: whole ports, and transmit queues, with the ns that are left."""
        w, now, found = self.w, now_ns(), []
        for i in sorted(self.regions):
            port = port_at(w, i)
            if port.paused_until > now:
                found.append({"port": self.names[i], "queue": None, "left_ns": port.paused_until - now})
        for i in range(w.timer_count):
            timer = timer_at(w, i)
            found.append({"port": self.names[timer.port], "queue": timer.input, "left_ns": max(0, timer.at - now)})
        return found

    def counters(self):
        """Of the worker itself."""
        w = self.w
        return {
            "rounds": w.rounds,
            "rounds_with_work": w.worked_rounds,
            "naps": w.naps,
            "flows": w.flow_count,
            "ports": len(self.regions),
            "free_flows": w.free_flow_count,
        }

    def waiting(self):
        """Whether a transmit queue holds frames that the switch knows of."""
        w = self.w
        if w.timer_count:
            return True
        for i in self.regions:
            port = port_at(w, i)
            if port.levels or port.news_count or (w.doorbells and load64(word_at(port.view.bell[0], port.bell_in))):
                return True
        return False

    # ---- Running ----

    def run(self, seconds):
        """Work in this thread, so long or until a call comes."""
        run_released(self.w, now_ns() + int(1e9 * seconds))

    def turns(self, count):
        """So many turns of the loop, however busy: for tests and benchmarks. Returns how many cycles they took."""
        return turns_released(self.w, count)

    def start(self, cpu=None, on_nonsense=None):
        """Work in a thread of its own; `on_nonsense(names, regions)` learns there of ports detached for their nonsense."""
        self.thread = threading.Thread(target=self.work, args=(cpu, on_nonsense), name="worker", daemon=True)
        self.thread.start()

    def work(self, cpu, on_nonsense):
        if cpu is not None:
            os.sched_setaffinity(0, {cpu})
        self.stopping = False
        while not self.stopping:
            self.run(3600)
            store32(wanted_of(self.w), 0)
            if self.w.broken_off:
                self.w.broken_off = 0
                numbers = [i for i in self.regions if port_at(self.w, i).state == BROKEN_OFF]
                names = [self.names[i] for i in numbers]
                regions = [self.detach(number) for number in numbers]
                if on_nonsense:
                    on_nonsense(names, regions)
                del regions
            while self.commands:
                function, answer, done = self.commands.popleft()
                try:
                    answer.append(function())
                except BaseException as error:
                    answer.append(error)
                    answer.append(True)
                done.set()

    def call(self, function):
        """Run a function in the worker's thread, between two turns; its answer, or what it raises."""
        answer, done = [], threading.Event()
        self.commands.append((function, answer, done))
        store32(wanted_of(self.w), 1)
        os.eventfd_write(self.control, 1)
        for _ in range(200):
            if done.wait(0.05):
                break
            if not self.thread.is_alive() and not done.is_set():
                raise RuntimeError("the worker has ended")
        else:
            raise RuntimeError("the worker has not answered for 10 s: the machine is overloaded")
        if len(answer) > 1:
            raise answer[0]
        return answer[0]

    def stop(self):
        """End the thread and let all ports go."""
        self.call(self.end)
        self.thread.join(10)
        self.close()

    def end(self):
        self.stopping = True
