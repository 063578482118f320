"""BFC as Tofino2 can do it (Goyal et al., NSDI 2022, section 4), and sampling (appendix A.8): bfc.py with hardware's limits.

* Ports belong to four ingress pipelines, a quarter each. Flow table and pause counters are those of the pipelines: a pipeline
  has a quarter of the flow table and knows nothing of the others.
* Ingress pipelines know the queues as they were at the last update, every `update`: which ones were empty, for the assignment of
  queues; how long they were and N_active, for the threshold. A flow gets the next queue that was empty, from a point on that
  rotates, one per port and pipeline, or a random one (assignment `dynamic`; `stochastic` and `single` are those of section 6.1;
  `reserved` is that of dqa.py with `if_full` = `unpaused`, for sampling in ns-3, appendix A.8: no hardware is known to have it).
* A packet's dequeue operations are executed when its header has been recirculated to the ingress pipeline that it came from,
  over a link of `bandwidth` relative to the pipeline's ports, with a `latency`, and then in a cycle of the pipeline in which no
  packet arrives. A pipeline has a cycle for every `cycle` bytes at the rates of its ports.
* `resume_at` is that of bfc.py, ours: the counters count packets until their dequeue operations, N_active is that of the update.
* Packets that are not sampled (`recirculated`) count neither in the flow table nor for pauses. Nor do, which is ours, those that
  arrive while `headers` packets of their pipeline wait for their dequeue operations, so that no header is lost.

The paper gives 12 % for the links, and that all headers can be recirculated if packets have more than 500 B on average: hence
headers of 60 B and a cycle every 250 B, a packet and its header. It gives no period and no latency; ours are 1 us, and the 500 ns
that a pipeline takes (footnote 4). The preset `ideal` has none of these limits: it is `bfc` with `assignment = "rotating"`
(dqa.py), and with `assignment = "reserved"` that with `if_full`, unless flows share entries of the table.

State of a switch (section 3.3): `table` entries of 5 B for each queue, a queue's number, a count and a time, 400 KB for 24 ports
with 32 queues (section 6.2.1), and 2 B for each queue upstream.
"""

title = "BFCTofino2"
structs = {
    "entry": {"expires": "time", "size": "int32", "q_assignment": "int32"},
    "header": {
        "ready": "time",
        "entry": "int32",
        "egress": "int16",
        "ingress": "int16",
        "upstream_q": "int16",
        "counter_incr": "int16",
    },
    "pipe": {
        "link_free": "time",
        "cycle_free": "time",
        "link_time": "time",
        "cycle_time": "time",
        "first": "int32",
        "waiting": "int32",
        "counted": "int32",
    },
}
packet_state = {"entry": "int32", "counter_incr": "int16", "upstream_q": "int16"}
queue_state = {"updated": "int64", "depth": "int64", "kept_until": "time"}
port_state = {
    "flow_table": "entry[queues * table]",
    "start": "int16[4]",
    "pause_counter": "int32[upstreams]",
    "asked": "mask[upstreams // 32]",  # as in bfc.py
    "one_hop_bdp": "int64",
    "resume_at": "int32",
    "updated": "int64",
    "active": "int32",
    "quiet": "int32",
}
node_state = {
    "sticky": "time",
    "refresh_due": "time",
    "pipes": "pipe[4]",
    "ring": "header[4 * headers * switch]",
    "obeyed": "mask[upstreams // 32 * ports]",  # as in bfc.py
}
scheme_state = {"limit": "int64"}
parameters = {
    "queues": ("int32 1..1024", 32, "physical queues per port, beside the control queue (section 3.1: 32 or 128)"),
    "table": ("int32 4..10000", 100, "flow-table entries per queue, a quarter of them in each pipeline (section 4)"),
    "sticky": ("float64", 2.0, "sticky threshold in one-hop round trips (section 3.3.2)"),
    "assignment": ("choice dynamic stochastic single reserved", "dynamic", "which queue a flow gets (sections 4 and 6.1)"),
    "th": ("float64", 1.0, "pause threshold in one-hop bandwidth-delay products per active queue (section 3.3.2)"),
    "th_bytes": ("bytes", 0, "a fixed pause threshold instead; 0 = none (figure 7)"),
    "resume_at": (
        "float64 0..1000",
        0.0,
        "marked packets left when a queue is resumed, in one-hop bandwidth-delay products per active queue; 0 = the paper's",
    ),
    "nic_queues": ("int32 1..1024", 128, "NIC queues, given to flows as they start; NICs obey pauses (section 3.3.2)"),
    "refresh": ("time", "10us", "period of the pause bitmap; 0 = never send it"),
    "update": ("time", "1us", "period of what ingress pipelines know of the queues (ours); 0 = the present"),
    "latency": ("time", "500ns", "from a packet's departure to its header's arrival at ingress (footnote 4)"),
    "bandwidth": ("float64 0.001..1", 0.12, "of the recirculation links, relative to that of the ports (section 4)"),
    "header_size": ("bytes", 60, "of a recirculated packet; 0 = the links are no limit"),
    "cycle": ("bytes", 250, "that the ports of a pipeline receive in the time of one packet; 0 = the packet rate is no limit"),
    "headers": (
        "int32 1..65536",
        4096,
        "packets per pipeline that wait for their dequeue operations; others do not count (ours)",
    ),
    "recirculated": ("float64 0..1", 1.0, "part of the packets that is recirculated, so that it counts (appendix A.8)"),
}
presets = {"ideal": {"update": 0, "latency": 0, "header_size": 0, "cycle": 0, "headers": 65536, "table": 400}}
fabric = {"queues": "queues", "nic_queues": "nic_queues", "pauses_queues": 1}

STOCHASTIC = 1
SINGLE = 2
RESERVED = 3
PIPELINES = 4
PERIODS = 64  # refreshes sent after the last queue of a port was resumed
MIX = 1000003  # a prime, for the sample
ALL = 2147483648  # draws of the sample are below it


def set_up(tofino2):
    tofino2.limit = whole(tofino2.recirculated * ALL)


def set_up_node(tofino2, node):
    """One-hop BDPs, as bfc.py has them, and the time that the links and pipelines take for a packet."""
    here = my_node(tofino2, node)
    frame = tofino2.at.world.mtu + tofino2.at.world.header
    hrtt = 0
    for slot in range(node.port_count):
        hrtt = max(hrtt, 2 * port_at(node, slot).delay)
    here.sticky = whole(tofino2.sticky * hrtt)
    for i in range(PIPELINES):
        bytes_per_ps = 0.0
        for slot in range(node.port_count):
            if pipeline_of(node, slot) == i:
                bytes_per_ps += 1.0 / port_at(node, slot).ps_per_byte
        if bytes_per_ps > 0.0:
            pipe = pipes_at(here, i)
            pipe.link_time = whole(tofino2.header_size / (tofino2.bandwidth * bytes_per_ps) + 0.5)
            pipe.cycle_time = whole(tofino2.cycle / bytes_per_ps + 0.5)
    for slot in range(node.port_count):
        port = port_at(node, slot)
        my_port(tofino2, port).one_hop_bdp = whole(tofino2.th * hrtt / port.ps_per_byte)
        my_port(tofino2, port).resume_at = whole(tofino2.resume_at * hrtt / port.ps_per_byte / frame)


def set_up_port(tofino2, node, port):
    my_node(tofino2, node).refresh_due = NEVER  # here: the set-up of a node is repeated when a rate changes
    for i in range(PIPELINES):
        my_port(tofino2, port).start[i] = i * tofino2.queues // PIPELINES


def pipeline_of(node, slot):
    return slot * PIPELINES // node.port_count


# ---- What ingress knows of the queues: they are as the last update said unless they have changed since ----


def keep(tofino2, node, port, queue, bytes, active):
    """Called with each change of a queue or of N_active, with what they were before."""
    if tofino2.update == 0:
        return
    number = node.now // tofino2.update
    of_queue = my_queue(tofino2, queue)
    if of_queue.updated != number:
        of_queue.updated = number
        of_queue.depth = bytes
    of_port = my_port(tofino2, port)
    if of_port.updated != number:
        of_port.updated = number
        of_port.active = active


def known_depth(tofino2, node, queue):
    """Bytes of a queue at the last update."""
    mine = my_queue(tofino2, queue)
    if tofino2.update and mine.updated == node.now // tofino2.update:
        return mine.depth
    return queue.bytes


def known_active(tofino2, node, port):
    """N_active at the last update."""
    mine = my_port(tofino2, port)
    if tofino2.update and mine.updated == node.now // tofino2.update:
        return mine.active
    return port.active


# ---- On Enqueue, in the ingress pipeline ----


def sampled(tofino2, node, pkt):
    return hash31(pkt.number * MIX + pkt.seq + pkt.kind, node.hash_seed + 4) < tofino2.limit


def dynamic_queue(tofino2, node, port, pkt):
    """The next queue that was empty, paused or not, from the starting point on, which moves behind it; else a random one."""
    mine = my_port(tofino2, port)
    pipeline = pipeline_of(node, pkt.in_port)
    for i in range(tofino2.queues):
        q = (mine.start[pipeline] + i) % tofino2.queues
        if known_depth(tofino2, node, queue_at(port, q)) == 0:
            mine.start[pipeline] = (q + 1) % tofino2.queues
            return q
    return draw(node, RANDOM_QUEUE) % tofino2.queues


def reserved_queue(tofino2, node, port):
    """The first queue that was empty, is not paused and has no sticky flow; else the first with one; else one at random that can
    send, if there is one."""
    sticky = -1
    unpaused = 0
    for q in range(tofino2.queues):
        queue = queue_at(port, q)
        if not queue.paused:
            unpaused += 1
            if known_depth(tofino2, node, queue) == 0:
                if node.now > my_queue(tofino2, queue).kept_until:
                    return q
                if sticky < 0:
                    sticky = q
    if sticky >= 0:
        return sticky
    if unpaused == 0:
        return draw(node, RANDOM_QUEUE) % tofino2.queues
    left = draw(node, RANDOM_QUEUE) % unpaused
    for q in range(tofino2.queues):
        if not queue_at(port, q).paused:
            if left == 0:
                return q
            left -= 1
    return 0


def assigned_queue(tofino2, node, port, pkt):
    if tofino2.assignment == RESERVED:
        return reserved_queue(tofino2, node, port)
    if tofino2.assignment == SINGLE:
        return 0
    if tofino2.assignment == STOCHASTIC:
        return pick(pkt.hash, node.hash_seed + 2, tofino2.queues)
    return dynamic_queue(tofino2, node, port, pkt)


def choose_queue(tofino2, node, port, pkt):
    pipeline = pipeline_of(node, pkt.in_port)
    pipe = pipes_at(my_node(tofino2, node), pipeline)
    pipe.cycle_free = max(pipe.cycle_free, node.now) + pipe.cycle_time
    part = tofino2.queues * tofino2.table // PIPELINES
    index = pipeline * part + pick(pkt.hash, node.hash_seed + 1, part)
    entry = flow_table_at(my_port(tofino2, port), index)
    if entry.size == 0 and node.now > entry.expires:
        entry.q_assignment = assigned_queue(tofino2, node, port, pkt)
    entry.expires = node.now + my_node(tofino2, node).sticky
    my_packet(tofino2, pkt).entry = -1
    if pipe.counted < tofino2.headers and sampled(tofino2, node, pkt):
        my_packet(tofino2, pkt).entry = index
        entry.size += 1
        pipe.counted += 1
    return entry.q_assignment


def exceeds_threshold(tofino2, node, port, queue):
    """Th = HRTT mu / N_active, compared without a division."""
    depth = known_depth(tofino2, node, queue)
    if tofino2.th_bytes:
        return depth > tofino2.th_bytes
    n_active = known_active(tofino2, node, port)
    if queue.paused:
        n_active += 1
    return depth * max(n_active, 1) > my_port(tofino2, port).one_hop_bdp


def waited(node, pkt):
    """Whether a packet comes from a queue of the neighbour, which can be paused: a NIC's ACKs are in none."""
    return 1 if pkt.queue < port_at(node, pkt.in_port).peer_queues else 0


def on_enqueue(tofino2, node, port, queue, pkt):
    newly_active = 1 if queue.length == 1 and not queue.paused else 0
    keep(tofino2, node, port, queue, queue.bytes - pkt.size, port.active - newly_active)
    mine = my_packet(tofino2, pkt)
    mine.counter_incr = 0
    if mine.entry >= 0 and exceeds_threshold(tofino2, node, port, queue) and waited(node, pkt):
        mine.counter_incr = 1
        mine.upstream_q = pkt.queue
        ingress = my_port(tofino2, port_at(node, pkt.in_port))
        ingress.pause_counter[mine.upstream_q] += 1
        if not ingress.asked[mine.upstream_q >> 5] & bit(mine.upstream_q & 31):
            ingress.asked[mine.upstream_q >> 5] |= bit(mine.upstream_q & 31)
            send_control(node, pkt.in_port, tofino2.at.kind, PAUSE, mine.upstream_q, 0)
            expect_refresh(tofino2, node, port_at(node, pkt.in_port))


# ---- On Dequeue: in the egress pipeline, which recirculates the header to the ingress pipeline ----


def on_dequeue(tofino2, node, port, queue, pkt):
    keep(tofino2, node, port, queue, queue.bytes + pkt.size, port.active + (1 if queue.length == 0 else 0))
    if queue.length == 0:
        my_queue(tofino2, queue).kept_until = node.now + my_node(tofino2, node).sticky
    mine = my_packet(tofino2, pkt)
    if mine.entry < 0:
        return
    pipeline = pipeline_of(node, pkt.in_port)
    pipe = pipes_at(my_node(tofino2, node), pipeline)
    pipe.link_free = max(pipe.link_free, node.now) + pipe.link_time
    header = header_in(tofino2, node, pipeline, pipe.waiting)
    header.ready = pipe.link_free + tofino2.latency
    header.entry = mine.entry
    header.egress = port.slot
    header.ingress = pkt.in_port
    header.counter_incr = mine.counter_incr
    header.upstream_q = mine.upstream_q if mine.counter_incr else 0
    pipe.waiting += 1
    return_headers(tofino2, node, pipeline)


def header_in(tofino2, node, pipeline, i) -> header:
    """The header at place i among those that wait for a pipeline."""
    here = my_node(tofino2, node)
    return ring_at(here, pipeline * tofino2.headers + (pipes_at(here, pipeline).first + i) % tofino2.headers)


def return_headers(tofino2, node, pipeline):
    """Let a pipeline execute the dequeue operations of the headers that have come back and find a free cycle, in their order."""
    pipe = pipes_at(my_node(tofino2, node), pipeline)
    while pipe.waiting > 0:
        header = header_in(tofino2, node, pipeline, 0)
        due = max(header.ready, pipe.cycle_free)
        if due > node.now:
            wake_by(node, tofino2.at.index, due)
            return
        pipe.cycle_free = node.now + pipe.cycle_time
        pipe.first = (pipe.first + 1) % tofino2.headers
        pipe.waiting -= 1
        pipe.counted -= 1
        finish(tofino2, node, header)


def finish(tofino2, node, header):
    """The dequeue operations of a packet that has left."""
    port = port_at(node, header.egress)
    entry = flow_table_at(my_port(tofino2, port), header.entry)
    entry.size -= 1
    entry.expires = node.now + my_node(tofino2, node).sticky
    if header.counter_incr:
        ingress = my_port(tofino2, port_at(node, header.ingress))
        ingress.pause_counter[header.upstream_q] -= 1
        active = max(known_active(tofino2, node, port), 1)
        if ingress.pause_counter[header.upstream_q] <= my_port(tofino2, port).resume_at // active:
            resume(tofino2, node, header.ingress, header.upstream_q)


def resume(tofino2, node, slot, q):
    """Resume a queue of the neighbour at port `slot`, unless that has been done."""
    ingress = my_port(tofino2, port_at(node, slot))
    if ingress.asked[q >> 5] & bit(q & 31):
        ingress.asked[q >> 5] &= ~bit(q & 31)
        send_control(node, slot, tofino2.at.kind, RESUME, q, 0)


# ---- Upstream: the switch or NIC that is paused ----


def on_control(tofino2, node, port, pkt):
    if command_of(pkt) == REFRESH:
        apply_bitmap(tofino2, node, port, value_of(pkt), mask_of(pkt))
    else:
        obey(tofino2, node, port, value_of(pkt), 1 if command_of(pkt) == PAUSE else 0)


def apply_bitmap(tofino2, node, port, first, mask):
    if first < 0 or first >= port.queue_count:
        return
    mine = my_node(tofino2, node)
    place = (first >> 5) * node.port_count + port.slot
    left = mine.obeyed[place]
    left |= mask
    mine.obeyed[place] = mask
    while left:
        i = lowest_bit(left)
        left &= left - 1
        if first + i < port.queue_count:
            paused = 1 if queue_at(port, first + i).paused & tofino2.at.bit else 0
            if paused != mask >> i & 1:
                obey(tofino2, node, port, first + i, 1 - paused)


def obey(tofino2, node, port, q, paused):
    if not node.is_host:
        queue = queue_at(port, q)
        keep(tofino2, node, port, queue, queue.bytes, port.active)
    if not paused:
        resume_queue(node, port, q, tofino2.at.bit)
        return
    pause_queue(node, port, q, tofino2.at.bit)
    if q >= 0 and q < port.queue_count:
        my_node(tofino2, node).obeyed[(q >> 5) * node.port_count + port.slot] |= bit(q & 31)


# ---- Bitmaps of paused queues, as bfc.py sends them ----


def expect_refresh(tofino2, node, port):
    my_port(tofino2, port).quiet = PERIODS
    here = my_node(tofino2, node)
    if tofino2.refresh and here.refresh_due == NEVER:
        here.refresh_due = (node.now // tofino2.refresh + 1) * tofino2.refresh
        wake_by(node, tofino2.at.index, here.refresh_due)


def send_bitmap(tofino2, node, port):
    mine = my_port(tofino2, port)
    mine.quiet -= 1
    for first in range(0, min(mine.pause_counter_count, port.peer_queues), 32):
        mask = mine.asked[first >> 5]
        if mask:
            mine.quiet = PERIODS
        send_control(node, port.slot, tofino2.at.kind, REFRESH, first, mask)


def on_timer(tofino2, node):
    here = my_node(tofino2, node)
    for i in range(PIPELINES):
        return_headers(tofino2, node, i)
    if here.refresh_due <= node.now:
        here.refresh_due = NEVER
        for slot in range(node.port_count):
            port = port_at(node, slot)
            if my_port(tofino2, port).quiet > 0:
                send_bitmap(tofino2, node, port)
                here.refresh_due = node.now + tofino2.refresh
    wake_by(node, tofino2.at.index, here.refresh_due)
