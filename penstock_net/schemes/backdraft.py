"""Backdraft (Sanaee et al., NSDI 2022), sections 3 and 4.3: virtual switches that drop nothing when receivers are slow.

At a virtual switch (a switch in a server, tier 0) every flow has its own queue towards the application (DPFQ: dqa with
`edge_queues`).  When the queue exceeds th_over, an overlay pause frame is sent to the virtual switch of the sender: the flow, a
pause time, (Th_curr - Th_goal) / R_recv, and a rate, R_recv, an average of the receiver's rate while it was backlogged.  The
sender stops the flow for that time and then paces it.  The next frame is sent when that time is over, if still needed.
A queue that runs empty nevertheless raises Th_goal and Th_over of its application.

Packets beyond `most` in the queues of an application are dropped; the overlay should keep that from happening.  Doorbells, which
cost CPU time in a real switch, are not modelled.  Rates are stored as their inverse, a gap in ps per byte.
"""

includes = ["dqa"]
queue_state = {"last": "time", "taken": "int64", "gap": "float64", "quiet_until": "time", "told_at": "int64"}
port_state = {"raised": "int64"}
flow_state = {"told": "time", "gap": "float64"}
frame_state = {"pause": "time", "gap": "float64"}
parameters = {
    "overlay": ("bool", True, "overlay pause frames (section 4.3); without: queues for each flow alone"),
    "th_goal": ("bytes", "32KB", "queue that a pause aims at (section 4.3: a batch of the receiver)"),
    "th_over": ("bytes", "64KB", "queue beyond which the overlay pauses (section 4.3: at least a batch more)"),
    "adapt": (
        "bool",
        True,
        "a queue that runs empty shortly after a pause raises both by th_goal (section 6.3; the step is open)",
    ),
    "most": ("bytes", "4MB", "queue of an application beyond which packets are dropped"),
    "weight": ("float64 0.001..1", 0.1, "of a new sample in R_recv (section 4.3: an EWMA; the value is open)"),
    "longest": ("time", "5ms", "no pause is longer (authors' code)"),
    "repeat": (
        "float64 0..1000",
        1.0,
        "a queue that grew by this many BDPs in a pause sends the pause again: the frame was lost (not in the paper); 0 = never",
    ),
    "with_rate": ("bool", True, "frames carry the rate as well as the time"),
    "recovery": ("time 1000..1e15", "1ms", "time in which a sender doubles its rate without further frames (open)"),
}
presets = {"default": {"dqa.edge_queues": 1024, "host.pacing": "from start"}}


def to_application(backdraft, node, port):
    return node.tier == 0 and port.peer_node < backdraft.at.world.host_count


def admit(backdraft, node, port, pkt):
    if pkt.kind == DATA and to_application(backdraft, node, port):
        return port.bytes + pkt.size <= backdraft.most
    return 1


def on_enqueue(backdraft, node, port, queue, pkt):
    if not to_application(backdraft, node, port):
        return
    mine = my_queue(backdraft, queue)
    if queue.length == 1:  # a first packet says nothing of the receiver's rate until it is taken
        mine.last = node.now
        mine.taken = 0
    if backdraft.overlay and pkt.kind == DATA and queue.bytes > backdraft.th_over + my_port(backdraft, port).raised:
        if node.now >= mine.quiet_until or unheard(backdraft, queue):
            send_pause(backdraft, node, port, queue, pkt)


def unheard(backdraft, queue):
    """Whether more arrived during the pause than was in flight: the frame was lost, or another flow shares the queue."""
    grown = queue.bytes - my_queue(backdraft, queue).told_at
    return backdraft.repeat > 0.0 and grown > backdraft.repeat * backdraft.at.world.bdp


def receive_gap(backdraft, node, queue, size) -> float:
    """1 / R_recv in ps per byte.  A packet that has waited longer than the average counts as if it were taken now."""
    mine = my_queue(backdraft, queue)
    waited = float(node.now - mine.last) / max(mine.taken, size)
    if mine.gap == 0.0:
        return waited
    return mine.gap + backdraft.weight * max(waited - mine.gap, 0.0)


def send_pause(backdraft, node, port, queue, pkt):
    """Send an overlay pause frame to the sender of this packet."""
    mine = my_queue(backdraft, queue)
    frame = new_frame(node, backdraft.at.kind, PAUSE)
    about_flow(frame, pkt)
    what = my_frame(backdraft, frame)
    what.gap = receive_gap(backdraft, node, queue, pkt.size)
    th_goal = backdraft.th_goal + my_port(backdraft, port).raised
    what.pause = min(whole(max(queue.bytes - th_goal, 0) * what.gap), backdraft.longest)
    mine.quiet_until = node.now + what.pause
    mine.told_at = queue.bytes
    send_to_host(node, pkt.src, frame)


def on_dequeue(backdraft, node, port, queue, pkt):
    """Update R_recv: the bytes of a packet over the time until the next one is taken."""
    if not to_application(backdraft, node, port):
        return
    mine = my_queue(backdraft, queue)
    if mine.taken > 0:
        sample = float(node.now - mine.last) / mine.taken
        if mine.gap == 0.0:
            mine.gap = sample
        else:
            mine.gap = (1 - backdraft.weight) * mine.gap + backdraft.weight * sample
    mine.last = node.now
    mine.taken = pkt.size
    if queue.length == 0:  # later packets did not wait, and may be of another flow
        if backdraft.adapt and mine.quiet_until > 0 and not pkt.flags & LAST:
            if node.now < mine.quiet_until + backdraft.at.world.base_rtt + backdraft.recovery:
                raise_thresholds(backdraft, port)
        mine.quiet_until = 0


def raise_thresholds(backdraft, port):
    """The application starves while its sender is stopped or still paced (before `recovery` is over): raise its thresholds."""
    mine = my_port(backdraft, port)
    if 2 * (backdraft.th_over + mine.raised + backdraft.th_goal) <= backdraft.most:
        mine.raised += backdraft.th_goal


def on_control(backdraft, node, port, pkt):
    """At the sender: stop the flow, then pace it."""
    flow = flow_of(node, pkt)
    if not flow:
        return
    what = my_frame(backdraft, pkt)
    mine = my_flow(backdraft, flow)
    mine.told = node.now + what.pause
    mine.gap = what.gap
    if backdraft.with_rate:
        flow.fc_gap = what.gap
    hold_flow(node, flow, mine.told)


def on_send(backdraft, node, flow, pkt):
    """From the end of the pause on the rate rises linearly, doubling in each `recovery`, up to the line rate."""
    if flow.fc_gap == 0.0:
        return
    mine = my_flow(backdraft, flow)
    line = port_of(flow).ps_per_byte
    while node.now - mine.told >= backdraft.recovery and mine.gap > line:
        mine.told += backdraft.recovery
        mine.gap = mine.gap / 2
    flow.fc_gap = mine.gap / (1.0 + float(max(node.now - mine.told, 0)) / backdraft.recovery)
    if flow.fc_gap <= line:
        flow.fc_gap = 0.0
