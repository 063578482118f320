"""Sources and sinks that drive the application's side of regions without the interpreter, and the clock that all of it follows.

    world = World(switch, costs)
    client = world.app("client", client_region)
    server = world.app("server", server_region, service=[1000])             # ns per frame, by core
    world.stream(client, "10.0.0.1", "10.0.0.2", queue=0, length=64, gap=100)
    world.run(10_000_000)                                                   # ns of a virtual clock, in this thread

Arrivals are open-loop: a frame carries the time at which it was meant to be sent, and latency counts from there, however long
it waited in the application. `step(app, now)` is to an application what `turn(w, now)` is to the switch. In virtual time one
thread calls them in the order of their times, and every step takes what its work costs; in real time `drive` calls the steps
in a thread of its own, beside the switch's.
"""

import cython

from penstock.errors import SpecError

if not cython.compiled:
    raise ImportError("penstock.vswitch.load works compiled only: run python setup.py build_ext --inplace")


def shuffled(r):
    r ^= r << 13
    r ^= r >> 7
    r ^= r << 17
    return r


def interval(stream):
    """Ns between this message and the next."""
    if not stream.poisson:
        return stream.gap
    stream.random = shuffled(stream.random)
    return -log(uniform(stream.random)) * stream.gap


def note(app, kind, ns):
    """One latency more."""
    v = whole(max(ns, 0.0))
    e = log2_of(v | 1)
    i = v
    if e >= 6:
        i = min((e - 5) * 64 + (v >> (e - 6) & 63), BINS - 1)
    app.bins[kind * BINS + i] += 1


# ---- Sending ----


def send_one(app, stream, now):
    """One frame into its transmit queue; whether there was room."""
    view = app_view(app)
    queue = stream.queue
    if app.put[queue] + stream.length - signed_of(load64(word_at(view.consumed[0], queue))) > stream.most:
        return False
    if app.doorbells and load64(word_at(view.bell[0], app.bell_out)):
        return False
    end = out_at(app, queue)
    if not app.opened[queue]:
        if not open_queue(view, end, 0, queue):
            return False
        app.opened[queue] = 1
    buffer = take_buffer(view, 0)
    if buffer < 0:
        return False
    frame = bytes_at(view.buffer[0], buffer * view.buffer_bytes)
    memcpy(frame, stream.head, HEAD)
    put64(frame + STAMP, whole(stream.began))
    put32(frame + WHOSE, stream.peer)
    put8(frame + WHAT, stream.kind)
    put8(frame + WHAT + 1, stream.what)
    put8(frame + WHAT + 2, stream.core)
    if not push(view, end, descriptor(buffer, stream.length)):
        give_buffer(view, 0, buffer)
        return False
    app.put[queue] += stream.length
    stream.sent += 1
    stream.left -= 1
    return True


def begin_message(stream, now):
    """Whether a message is to be sent now; an answer begins when its request is served."""
    if stream.left > 0:
        return stream.what != ANSWER or stream.due <= now
    if stream.what == ANSWER:
        return False
    if stream.waiting:
        if stream.timeout > 0 and now - stream.tried_at > stream.timeout:
            stream.repeated += 1
            stream.tried_at = now
            stream.got = 0
            stream.left = stream.burst
            return True
        return False
    if stream.due > now:
        return False
    stream.began = stream.due if stream.gap > 0 else now
    if stream.gap > 0:
        stream.due += interval(stream)
    stream.left = stream.burst
    stream.got = 0
    stream.tried_at = now
    stream.waiting = 1 if stream.what == REQUEST else 0
    return True


def send(app, now):
    """What is due, stream by stream in turns, and a doorbell for every run of frames; returns how many frames."""
    view = app_view(app)
    budget = AT_ONCE
    first = app.stream_at
    for i in range(app.stream_count):
        at = first + i if first + i < app.stream_count else first + i - app.stream_count
        stream = stream_at(app, at)
        count = 0
        while budget > 0 and count < 8 and begin_message(stream, now):
            if not send_one(app, stream, now):
                app.blocked += 1
                break
            count += 1
            budget -= 1
        if count == 0:
            continue
        if app.doorbells:
            ring_bell(view, app_bell_out(app), 0, bell_of(stream.queue, count, 0, 0))
        app.stream_at = at + 1 if at + 1 < app.stream_count else 0      # behind the last that sent: others want room, too
        if budget <= 0:
            break
    return AT_ONCE - budget


# ---- Receiving ----


def find(app, inbox, queue):
    if not inbox.known:
        if not find_queue(app_view(app), inbox_end(inbox), 1, queue):
            return False
        inbox.known = 1
    return True


def core_of(app, inbox):
    """The core that a queue's first frame is for."""
    if app.core_count == 1 or not inbox.known:
        return inbox.core
    view = app_view(app)
    end = inbox.end
    for _ in range(2):
        word = load64(slot_of(view, cython.address(end)))
        if is_link(word):
            end.ring = low(word)
            end.at = 0
    if word == 0 or word == CLOSED or is_link(word):
        return inbox.core
    frame = bytes_at(view.buffer[1], buffer_of(word) * view.buffer_bytes)
    return byte_at(frame, WHAT + 2) % app.core_count


def list_queue(app, queue):
    """Append a queue that has news to the list of its core."""
    inbox = inbox_at(app, queue)
    core = core_at(app, inbox.core)
    inbox.next = -1
    inbox.listed = 1
    if core.head < 0:
        core.head = queue
    else:
        inbox_at(app, core.tail).next = queue
    core.tail = queue


def take_bells(app, now):
    view = app_view(app)
    for _ in range(256):
        bell = answer_bell(view, app_bell_in(app), 1)
        if bell == 0:
            return
        queue = queue_of(bell)
        inbox = inbox_at(app, queue)
        inbox.news += count_of(bell)
        if not inbox.listed and find(app, inbox, queue):
            inbox.core = core_of(app, inbox)
            list_queue(app, queue)


def next_frame(app, inbox, queue):
    """The descriptor of the next frame of a queue, or zero; the end of the queue is seen to."""
    while inbox.news > 0:
        if not find(app, inbox, queue):
            inbox.news = 0
            return 0
        word = pop(app_view(app), inbox_end(inbox))
        if word == 0:
            inbox.news = 0
            return 0
        inbox.news -= 1
        if word != CLOSED:
            return word
        inbox.known = 0
    return 0


def serve(app, core, now, waited):
    """Let a core take the frames that it has time for, a batch from one queue after the other."""
    view = app_view(app)
    served = 0
    start = core.free_at if waited else max(core.free_at, now)
    while core.free_at <= now and core.head >= 0 and served < 256:
        queue = core.head
        inbox = inbox_at(app, queue)
        core.head = inbox.next
        inbox.listed = 0
        for _ in range(app.batch):
            word = next_frame(app, inbox, queue)
            if word == 0:
                break
            served += 1
            buffer = buffer_of(word)
            length = length_of(word)
            frame = bytes_at(view.buffer[1], buffer * view.buffer_bytes)
            start += core.service
            if app.loss > 0:
                app.random = shuffled(app.random)
            if app.loss > 0 and uniform(app.random) < app.loss:
                app.lost += 1
            else:
                handle(app, frame, length, max(start, now))
            give_buffer(view, 1, buffer)
            consumed = word_at(view.consumed[1], queue)
            store64(consumed, load64(consumed) + length)
            store64(view.total[1], load64(view.total[1]) + length)
        core.free_at = start
        if inbox.news > 0:
            inbox.core = core_of(app, inbox)    # one queue may hold frames for several cores, in their order
            list_queue(app, queue)
    return served


def handle(app, frame, length, done):
    what = byte_at(frame, WHAT + 1)
    if what == DATA:
        if done >= app.since:
            kind = byte_at(frame, WHAT) % KINDS
            app.frames[kind] += 1
            app.bytes[kind] += length
            note(app, kind, done - real(get64(frame + STAMP)))
        return
    which = get32(frame + WHOSE)
    if which < 0 or which >= app.stream_count:
        return
    if what == REQUEST:
        answer(app, stream_at(app, which), frame, done)
    elif what == ANSWER:
        answered(app, stream_at(app, which), frame, length, done)


def answer(app, stream, frame, done):
    """A request has been served: its answer may go. One that was asked for twice starts again."""
    stream.began = real(get64(frame + STAMP))
    stream.due = done
    stream.left = stream.burst


def answered(app, stream, frame, length, done):
    """A frame of an answer: with the last one its request is over."""
    if not stream.waiting or get64(frame + STAMP) != whole(stream.began):
        return
    stream.got += 1
    if done >= app.since:
        app.frames[stream.kind] += 1
        app.bytes[stream.kind] += length
    if stream.got < stream.answers:
        return
    stream.waiting = 0
    stream.finished += 1
    if stream.gap <= 0:
        stream.due = done
    if done >= app.since:
        note(app, stream.kind, done - stream.began)


def step(app, now):
    """Take what there is to take and send what is due; returns how many frames were sent."""
    waited = 0
    for i in range(app.core_count):
        if core_at(app, i).head >= 0:
            waited |= 1 << i
    take_bells(app, now)
    for i in range(app.core_count):
        core = core_at(app, i)
        if core.head >= 0 and core.free_at <= now:
            serve(app, core, now, waited >> i & 1)
    return send(app, now) if app.stream_count else 0


# ---- The clock ----


def count_work(w, work):
    """What the switch has done since it began, as its counters say."""
    work.frames = work.bytes = work.drops = work.bells = 0
    for i in range(w.port_count):
        port = port_at(w, i)
        work.frames += port.received_frames
        work.bytes += port.received_bytes
        work.bells += port.bells_answered + port.bells_rung
        for k in range(REASONS):
            work.drops += port.drops[k]


class World:
    """A switch, the applications at its ports, and their time."""

    def __init__(self, switch, costs):
        self.switch = switch
        self.w = worker_of(switch)
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
            free(app.bins)
            free(app)

    # ---- What there is ----

    def app(self, name, region, service=(0,), send=20, poll=100, batch=1, loss=0.0, streams=256, seed=1):
        """Take an application in: its cores' ns per received frame, its ns per sent frame; returns its number."""
        if self.count == MOST_APPS or not 1 <= len(service) <= 16 or batch < 1:
            raise SpecError(f"application {name!r}: at most {MOST_APPS} applications, 1 to 16 cores, a batch of at least 1")
        app = new_app()
        self.apps[self.count] = app
        set_app_view(app, region)
        queues = region.shape["queues"]
        app.doorbells = self.w.doorbells
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

    def at(self, number):
        if not 0 <= number < self.count:
            raise SpecError(f"application {number}: there are {self.count}")
        return self.apps[number]

    def room_for(self, number, queue, length):
        """The number of a new stream of an application."""
        region, streams = self.regions[number]
        app = self.at(number)
        if app.stream_count == streams:
            raise SpecError(f"{self.names[number]}: it has {streams} streams; take it in with more")
        if not 0 <= queue < region.shape["queues"]:
            raise SpecError(f"{self.names[number]}: queue {queue}: its region has queues 0 to {region.shape['queues'] - 1}")
        if not 64 <= length <= region.shape["buffer_bytes"]:
            raise SpecError(f"{self.names[number]}: a frame of {length} B: must be 64 to {region.shape['buffer_bytes']} B")
        app.stream_count += 1
        return app.stream_count - 1

    def stream(self, number, head, queue=0, length=64, gap=0.0, poisson=False, burst=1, most=65536, kind=0, core=0, phase=0.0,
               seed=1):  # fmt: skip
        """Frames whose first 42 bytes are `head`: messages of `burst` frames every `gap` ns (0: as fast as there is room)."""
        which = self.room_for(number, queue, length)
        stream = stream_at(self.at(number), which)
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

    def rpc(self, client, server, head, back, queue=0, answer_queue=0, length=64, answer_length=64, answers=1, timeout=0.0,
            **options):  # fmt: skip
        """Requests of one frame, one at a time, each answered with `answers` frames; a timeout repeats one."""
        asks = self.stream(client, head, queue, length, **options)
        says = self.stream(server, back, answer_queue, answer_length, burst=answers, kind=options.get("kind", 0))
        one, other = stream_at(self.at(client), asks), stream_at(self.at(server), says)
        one.what, one.answers, one.timeout, one.peer = REQUEST, answers, timeout, says
        other.what, other.peer, other.left = ANSWER, asks, 0
        return asks

    def service(self, number, core, ns):
        """Change how long a core of an application takes for a frame, from now on."""
        core_at(self.at(number), core).service = ns

    # ---- Running ----

    def run(self, ns):
        """Go on for so many ns of virtual time, the switch and every application at its times."""
        virtual_released(self, self.now + ns)

    def run_virtual(self, until):
        work = cython.address(self.work)
        w = self.w
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
            if not w.doorbells:
                for i in range(w.port_count):
                    if port_at(w, i).state == UP and port_at(w, i).paused_until <= at:
                        looks += port_at(w, i).view.queues
            turn(w, whole(at))
            count_work(w, work)
            work.looks += looks
            useful = cost.frame * (work.frames - frames) + cost.byte * (work.bytes - bytes)
            wasted = cost.drop * (work.drops - drops)
            looked = cost.turn + cost.bell * (work.bells - bells) + cost.look * looks
            self.turns += 1
            self.working += useful
            self.wasted += wasted
            self.looking += looked
            self.ready[0] = at + useful + wasted + looked

    def begin(self, now):
        """Real time begins: what was due at the virtual clock's beginning is due from now on."""
        for i in range(self.count):
            app = self.apps[i]
            for k in range(app.stream_count):
                stream_at(app, k).due += now - self.now
        self.now = now

    def drive(self, seconds):
        """Drive all applications from this thread in real time, while the switch works in its own."""
        if self.now <= 1e9 * 1e-3:
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
        """Results count from now on."""
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
        looks = self.work.looks
        count_work(self.w, cython.address(self.at_start))
        self.at_start.looks = looks
        self.started = self.now
        self.working = self.wasted = self.looking = 0.0
        self.turns = 0

    def finish(self, number):
        """Requests that have no answer yet have waited until now: they count with that, so that none is left out."""
        app = self.at(number)
        for k in range(app.stream_count):
            stream = stream_at(app, k)
            if stream.what != REQUEST or self.now < app.since:
                continue
            if stream.waiting and self.now > stream.began:
                note(app, stream.kind, self.now - stream.began)
            while stream.gap > 0 and stream.due < self.now:
                note(app, stream.kind, self.now - stream.due)
                stream.due += interval(stream)

    def latencies(self, number, kind=0):
        """(ns, count) of every bin that is not empty; ns is the middle of the bin."""
        found, app = [], self.at(number)
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
        app = self.at(number)
        return app.frames[kind], app.bytes[kind], self.now - self.started

    def streams(self, number):
        """One dict per stream of an application."""
        out, app = [], self.at(number)
        for k in range(app.stream_count):
            stream = stream_at(app, k)
            out.append({
                "queue": stream.queue, "kind": stream.kind, "sent": stream.sent, "finished": stream.finished,
                "repeated": stream.repeated, "due": stream.due,
            })  # fmt: skip
        return out

    def counters(self):
        """Of the switch since `reset`: frames, bytes, drops, bells, looks into queues, and its time by what it was spent on."""
        now, at = cython.address(self.work), cython.address(self.at_start)
        count_work(self.w, now)
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
