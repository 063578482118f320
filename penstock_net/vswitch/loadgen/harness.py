"""A load-test harness: a switch, the applications at its ports, and the clock that drives them.

    harness = Harness(switch, costs)
    client = harness.app("client", client_region)
    server = harness.app("server", server_region, service=[1000])           # ns per frame, by core
    harness.stream(client, head, queue=0, length=64, gap=100)               # headers of its frames: Ethernet, IPv4, UDP
    harness.run(10_000_000)                                                 # ns of a virtual clock, in this thread

In virtual time one thread calls the turns of the switch and the steps of the applications in the order of their times, and each
takes the time that `costs` gives for its work; in real time `drive` calls the steps in the calling thread, beside the switch's.
"""

import cython

from penstock_net.errors import SpecError
from penstock_net.inputs import inside, within_range

if not cython.compiled:
    from penstock_net.vswitch.dataplane.state import REASONS, UP, free, memset, port_at, whole
    from penstock_net.vswitch.dataplane.worker import turn
    from penstock_net.vswitch.loadgen.apps import interval, step
    from penstock_net.vswitch.loadgen.calls import next_gap
    from penstock_net.vswitch.loadgen.frames import (
        ANSWER,
        BINS,
        DATA,
        HEAD,
        KINDS,
        MOST_CALLS,
        MOST_CORES,
        MOST_FRAMES,
        REQUEST,
        SMALLEST,
        SOURCE_PORT,
        bin_at,
        call_at,
        calls_at,
        core_at,
        note,
        real,
        stream_at,
    )
    from penstock_net.vswitch.loadgen.harness import (
        MOST_APPS,
        app_of,
        new_app,
        new_calls,
        new_inboxes,
        new_marks,
        new_places,
        new_streams,
        new_totals,
        real_released,
        set_app_view,
        set_calls_head,
        set_head,
        virtual_released,
        worker_of,
    )
    from penstock_net.vswitch.world.calls.table import now_ns


def count_work(worker, work):
    """Sum the switch's counters since its start into `work`."""
    work.frames = work.bytes = work.drops = work.bells = 0
    for i in range(worker.port_count):
        port = port_at(worker, i)
        work.frames += port.received_frames
        work.bytes += port.received_bytes
        work.bells += port.bells_answered + port.bells_rung
        for k in range(REASONS):
            work.drops += port.drops[k]


def check_kind(kind):
    if not 0 <= kind < KINDS:
        raise SpecError(f"kind {kind}: there are kinds 0 to {KINDS - 1}")


class Harness:
    """A switch, the applications at its ports, and their clock.  SpecError: the switch has more than one worker."""

    def __init__(self, switch, costs):
        if switch.count != 1:
            raise SpecError(f"a harness needs a switch with one worker, this one has {switch.count}")
        self.switch = switch
        self.worker = worker_of(switch)
        self.regions, self.names = [], []
        c = cython.address(self.costs)
        c.turn, c.frame, c.byte = costs.turn, costs.frame, costs.byte
        c.drop, c.bell, c.look = costs.drop, costs.bell, costs.look
        self.now = 1e6

    def __dealloc__(self):
        for i in range(self.count):
            app = self.apps[i]
            free(app.out)
            free(app.opened)
            free(app.put)
            free(app.inboxes)
            free(app.streams)
            for k in range(app.calls_count):
                free(calls_at(app, k).all)
            free(app.bins)
            free(app)

    # ---- Applications and streams ----

    def app(self, name, region, service=(0,), send=20, poll=100, batch=1, loss=0.0, streams=256, seed=1):
        """Add an application and return its number.

        service  ns per received frame, by core; `batch`: frames that a core takes from one queue in a row
        send     ns per sent frame; `poll`: shortest time between two steps, ns
        loss     probability that it drops a received frame; `streams`: the most streams that it can have
        SpecError: a value is out of range, or there are too many applications.
        """
        if self.count == MOST_APPS:
            raise SpecError(f"application {name!r}: the harness has {MOST_APPS} applications already")
        with inside(place=f"application {name!r}"):
            within_range(len(service), "cores", 1, MOST_CORES)
            within_range(batch, "batch", 1)
            within_range(poll, "poll", 1)
            within_range(send, "send", 0)
            if not 0 <= loss < 1:
                raise SpecError("must be at least 0 and below 1", path="loss", value=loss)
        app = new_app()
        self.apps[self.count] = app
        set_app_view(app, region)
        queues = region.shape["queues"]
        app.doorbells = self.worker.doorbells
        app.out = new_places(queues)
        app.opened = new_marks(queues)
        app.put = new_totals(queues)
        app.inboxes = new_inboxes(queues)
        app.streams = new_streams(streams)
        app.bins = new_totals(KINDS * BINS)
        app.core_count, app.batch = len(service), batch
        for i, ns in enumerate(service):
            core = core_at(app, i)
            core.service, core.head = ns, -1
        app.send_ns, app.poll_ns, app.loss = send, poll, loss
        app.random = 0x9E3779B97F4A7C15 ^ (seed << 32) ^ (self.count + 1)
        self.regions.append((region, streams))
        self.names.append(name)
        self.count += 1
        return self.count - 1

    def known(self, number):
        """Validate the number of an application.  SpecError: it does not exist."""
        if not 0 <= number < self.count:
            raise SpecError(f"application {number}: there are {self.count}")
        return number

    def room_for(self, number, queue, length):
        """Allocate a stream of an application and return its number.  SpecError: a value is out of range."""
        streams = self.regions[number][1]
        app = app_of(self, self.known(number))
        if app.stream_count == streams:
            raise SpecError(f"it has {streams} streams", path=self.names[number], remedy="add it with more")
        self.check_frame(number, queue, length)
        app.stream_count += 1
        return app.stream_count - 1

    def check_frame(self, number, queue, length):
        """SpecError: a region has not this queue, or no room for frames of this length."""
        shape = self.regions[number][0].shape
        if not 0 <= queue < shape["queues"]:
            raise SpecError(f"queue {queue}: its region has queues 0 to {shape['queues'] - 1}", path=self.names[number])
        if not SMALLEST <= length <= shape["buffer_bytes"]:
            raise SpecError(f"a frame of {length} B: must be {SMALLEST} to {shape['buffer_bytes']} B", path=self.names[number])

    def stream(
        self, number, head, queue=0, length=64, gap=0.0, poisson=False, burst=1, most=65536, kind=0, core=0, phase=0.0, seed=1
    ):
        """Add a stream: messages of `burst` frames of `length` bytes every `gap` ns (0: whenever there is room).

        head     the first 42 bytes of its frames; `queue`: the transmit queue
        poisson  exponential gaps of mean `gap`, from `seed`; `phase`: ns until the first message
        most     bytes that may be in the transmit queue; `kind`: the class of its results; `core`: which receives it
        Returns its number.  SpecError: a value is out of range.
        """
        with inside(place=self.names[number]):
            within_range(kind, "kind", 0, KINDS - 1)
            within_range(burst, "burst", 1)
            within_range(gap, "gap", 0)
            within_range(core, "core", 0, MOST_CORES - 1)
        which = self.room_for(number, queue, length)
        stream = stream_at(app_of(self, self.known(number)), which)
        text = bytes(head)
        if len(text) < HEAD:
            raise SpecError(f"a head of {len(text)} B: must be {HEAD} B: Ethernet, IPv4, UDP")
        set_head(stream, text)
        stream.queue, stream.length, stream.what, stream.kind, stream.core = queue, length, DATA, kind, core
        stream.gap, stream.poisson, stream.burst, stream.most = gap, poisson, burst, most
        stream.random = (0x9E3779B97F4A7C15 * (2 * seed + 1) + (number + 1) * 7919 + which * 104729) & 0xFFFFFFFFFFFFFFFF
        stream.due = self.now + phase
        stream.peer = -1
        return which

    def rpc(
        self, client, server, head, back, queue=0, answer_queue=0, length=64, answer_length=64, answers=1, timeout=0.0, **options
    ):
        """Add requests of one frame, one at a time, each answered with `answers` frames; repeated after `timeout` ns (0: never).

        head and back: headers of requests and answers; other options as of `stream`.  Returns the number of the requests' stream.
        """
        asks = self.stream(client, head, queue, length, **options)
        says = self.stream(server, back, answer_queue, answer_length, burst=answers, kind=options.get("kind", 0))
        one, other = stream_at(app_of(self, self.known(client)), asks), stream_at(app_of(self, self.known(server)), says)
        one.what, one.answers, one.timeout, one.peer = REQUEST, answers, timeout, says
        other.what, other.peer, other.left = ANSWER, asks, 0
        return asks

    def calls(
        self,
        client,
        server,
        head,
        back,
        *,
        count,
        gap,
        queue=0,
        answer_queue=0,
        queues=1,
        length=64,
        frames=1,
        answer_length=64,
        poisson=False,
        resend=0.0,
        most=65536,
        spills=False,
        kind=0,
        core=0,
        seed=1,
    ):
        """Add RPCs, at most `count` at a time, of `frames` frames of `length` bytes and an answer of one frame, every `gap` ns.

        head, back  the first 42 bytes of the frames of client and server
        resend      ns after which the server asks for missing frames; the client asks after three times as long; 0: never
        queues      of either side: call i has the (i mod `queues`)th, counted from `queue` or `answer_queue` on, and so with
                    the client's UDP port, from that of `head` on
        spills      a frame of the client is lost if its queue has `most` bytes, as at a network card; without, it waits
        Other options as of `stream`.  A request that arrives while `count` are under way waits, and its latency counts from its
        arrival.  Returns their number at the client.  SpecError: a value is out of range.
        """
        ends = ((client, head, queue, length), (server, back, answer_queue, answer_length))
        numbers = [app_of(self, self.known(number)).calls_count for number, _, _, _ in ends]
        for (number, text, first, size), which in zip(ends, numbers):
            with inside(place=self.names[number]):
                within_range(which + 1, "calls of an application", 1, MOST_CALLS)
                within_range(count, "count", 1)
                within_range(queues, "queues", 1, count)
                within_range(gap, "gap", 1e-3)
                within_range(frames, "frames", 1, MOST_FRAMES)
                within_range(kind, "kind", 0, KINDS - 1)
                within_range(core, "core", 0, MOST_CORES - 1)
                within_range(resend, "resend", 0)
                within_range(len(text), "bytes of a head", HEAD)
            self.check_frame(number, first, size)
            self.check_frame(number, first + queues - 1, size)
        for i, (number, text, first, size) in enumerate(ends):
            app = app_of(self, number)
            calls = calls_at(app, numbers[i])
            app.calls_count += 1
            set_calls_head(calls, bytes(text))
            calls.all = new_calls(count)
            calls.client, calls.peer = i == 0, numbers[1 - i]
            calls.count, calls.frames, calls.whole_mask = count, frames, (1 << frames) - 1
            calls.queue, calls.queues, calls.length = first, queues, size
            calls.port = int.from_bytes(bytes(head)[SOURCE_PORT : SOURCE_PORT + 2], "big")
            calls.kind, calls.core, calls.spills, calls.most = kind, core if i == 0 else 0, i == 0 and spills, most
            calls.first, calls.free, calls.resend = -1, -1, resend
            for k in reversed(range(count)):
                call_at(calls, k).after = calls.free
                calls.free = k
            calls.random = (0x9E3779B97F4A7C15 * (2 * seed + 1) + (number + 1) * 7919 + numbers[i] * 104729) & 0xFFFFFFFFFFFFFFFF
            calls.gap, calls.poisson = gap, poisson
            calls.due = self.now + next_gap(calls)
        return numbers[0]

    def called(self, number):
        """One dict for each `calls` of an application, of its side.

        sent      frames of requests, or answers; `repeated`: those of them that had been sent before
        asked     frames that ask for missing ones, or about a call without news; `spilled`: of both, those lost for lack of room
        finished  calls; `busy`: those that are not
        """
        app = app_of(self, self.known(number))
        found = []
        for k in range(app.calls_count):
            calls = calls_at(app, k)
            found.append(
                {
                    "kind": calls.kind,
                    "sent": calls.sent,
                    "repeated": calls.repeated,
                    "asked": calls.asked,
                    "spilled": calls.spilled,
                    "finished": calls.finished,
                    "busy": calls.busy,
                }
            )
        return found

    def service(self, number, core, ns):
        """Change the ns that a core of an application takes for a frame, from now on."""
        app = app_of(self, self.known(number))
        if not 0 <= core < app.core_count:
            raise SpecError(f"core {core}: it has cores 0 to {app.core_count - 1}", path=self.names[number])
        core_at(app, core).service = ns

    # ---- Running ----

    def run(self, ns):
        """Advance the virtual clock by `ns`.  SpecError: it has run in real time before."""
        if self.real_time:
            raise SpecError("a harness that has run in real time cannot return to virtual time", remedy="make another one")
        virtual_released(self, self.now + ns)

    def run_virtual(self, until):
        work = cython.address(self.work)
        worker = self.worker
        cost = cython.address(self.costs)
        while True:
            next = 0
            for i in range(1, self.count + 1):
                if self.ready[i] < self.ready[next]:
                    next = i
            at = max(self.ready[next], self.now)
            if at >= until:
                self.now = until
                return
            self.now = at
            if next > 0:
                app = self.apps[next - 1]
                self.ready[next] = at + max(app.poll_ns, app.send_ns * step(app, at))
                continue
            frames, bytes, drops, bells = work.frames, work.bytes, work.drops, work.bells
            looks = 0
            if not worker.doorbells:
                for i in range(worker.port_count):
                    if port_at(worker, i).state == UP and port_at(worker, i).paused_until <= at:
                        looks += port_at(worker, i).view.queues
            turn(worker, whole(at))
            count_work(worker, work)
            work.looks += looks
            useful = cost.frame * (work.frames - frames) + cost.byte * (work.bytes - bytes)
            wasted = cost.drop * (work.drops - drops)
            looked = cost.turn + cost.bell * (work.bells - bells) + cost.look * looks
            self.turns += 1
            self.working += useful
            self.wasted += wasted
            self.looking += looked
            self.ready[0] = at + max(1.0, useful + wasted + looked)

    def begin(self, now):
        """Start real time: shift what is due from the virtual clock to `now`."""
        for i in range(self.count):
            app = self.apps[i]
            for k in range(app.stream_count):
                stream_at(app, k).due += now - self.now
            for k in range(app.calls_count):
                calls_at(app, k).due += now - self.now
        self.now = now

    def drive(self, seconds):
        """Drive all applications from this thread in real time, while the switch runs in its own."""
        if not self.real_time:
            self.real_time = True
            self.begin(now_ns())
        real_released(self, now_ns() + 1e9 * seconds)

    def run_real(self, until):
        now = real(now_ns())
        while now < until:
            for i in range(self.count):
                step(self.apps[i], now)
                now = real(now_ns())
        self.now = now

    # ---- Results ----

    def reset(self):
        """Start the measurement: results count from now on."""
        for i in range(self.count):
            app = self.apps[i]
            app.since = self.now
            app.lost = app.blocked = 0
            for k in range(KINDS):
                app.frames[k] = app.bytes[k] = 0
            memset(app.bins, 0, KINDS * BINS * 8)
            for k in range(app.stream_count):
                stream = stream_at(app, k)
                stream.sent = stream.finished = stream.repeated = 0
            for k in range(app.calls_count):
                calls = calls_at(app, k)
                calls.sent = calls.repeated = calls.asked = calls.spilled = calls.finished = 0
        looks = self.work.looks
        count_work(self.worker, cython.address(self.at_start))
        self.at_start.looks = looks
        self.started = self.now
        self.working = self.wasted = self.looking = 0.0
        self.turns = 0

    def finish(self, number):
        """Count requests without an answer with their age, so that the latencies include all requests."""
        app = app_of(self, self.known(number))
        for k in range(app.stream_count):
            stream = stream_at(app, k)
            if stream.what != REQUEST or self.now < app.since:
                continue
            if stream.waiting and self.now > stream.began:
                note(app, stream.kind, self.now - stream.began)
            while stream.gap > 0 and stream.due < self.now:
                note(app, stream.kind, self.now - stream.due)
                stream.due += interval(stream)
        for k in range(app.calls_count):
            calls = calls_at(app, k)
            if not calls.client or self.now < app.since:
                continue
            for i in range(calls.count):
                if call_at(calls, i).open:
                    note(app, calls.kind, self.now - call_at(calls, i).began)
            while calls.due < self.now:
                note(app, calls.kind, self.now - calls.due)
                calls.due += next_gap(calls)

    def latencies(self, number, kind=0):
        """(ns, count) of every bin of the histogram that is not empty; ns is the middle of the bin."""
        found, app = [], app_of(self, self.known(number))
        check_kind(kind)
        for i in range(BINS):
            count = bin_at(app, kind * BINS + i)[0]
            if count:
                low_end = i if i < 64 else (64 + i % 64) << (i // 64 - 1)
                width = 1 if i < 64 else 1 << (i // 64 - 1)
                found.append((low_end + width / 2, count))
        return found

    def quantile(self, number, share, kind=0):
        """A quantile of the latencies in ns; nan without any."""
        found = self.latencies(number, kind)
        left = share * sum(count for _, count in found)
        for ns, count in found:
            left -= count
            if left <= 0:
                return ns
        return float("nan")

    def received(self, number, kind=0):
        """Frames and bytes of a kind that an application has received, and the ns since `reset`."""
        app = app_of(self, self.known(number))
        check_kind(kind)
        return app.frames[kind], app.bytes[kind], self.now - self.started

    def streams(self, number):
        """One dict per stream of an application."""
        out, app = [], app_of(self, self.known(number))
        for k in range(app.stream_count):
            stream = stream_at(app, k)
            out.append(
                {
                    "queue": stream.queue,
                    "kind": stream.kind,
                    "sent": stream.sent,
                    "finished": stream.finished,
                    "repeated": stream.repeated,
                    "due": stream.due,
                }
            )
        return out

    def counters(self):
        """Counters of the switch since `reset`: frames, bytes, drops, doorbells, queue checks, and its time (ns) by activity."""
        now, at = cython.address(self.work), cython.address(self.at_start)
        count_work(self.worker, now)
        return {
            "frames": now.frames - at.frames,
            "bytes": now.bytes - at.bytes,
            "drops": now.drops - at.drops,
            "bells": now.bells - at.bells,
            "looks": now.looks - at.looks,
            "working_ns": self.working,
            "wasted_ns": self.wasted,
            "looking_ns": self.looking,
            "lost": sum(self.apps[i].lost for i in range(self.count)),
            "blocked": sum(self.apps[i].blocked for i in range(self.count)),
        }
