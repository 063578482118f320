"""Backdraft (Sanaee et al., NSDI 2022), sections 3 and 4: virtual switches that lose nothing to slow receivers.

At a virtual switch (a switch in a server, tier 0) every flow has a queue of its own towards the application (DPFQ: dqa with
`edge_queues`).  When it exceeds th_over, an overlay pause frame goes to the virtual switch of the sender: the flow, a pause
time, (Th_curr - Th_goal) / R_recv, and a rate, R_recv, an average of what the receiver took while it had a backlog.  The sender
holds the flow for that time and then paces it.  The next frame goes out when that time is over, if it is still needed.

A queue that is full (`most`) drops: the overlay's promise is that none is.  Doorbells cost the CPU of real switches, not time
on the wires here.  Open in the paper: how a sender gets faster again; here its rate doubles in every `recovery`.
"""

includes = ["dqa"]
queue_state = {"last": "time", "gap": "float64", "quiet_until": "time"}
flow_state = {"told": "time", "gap": "float64"}
frame_state = {"pause": "time", "gap": "float64"}
parameters = {
    "overlay": ("bool", True, "overlay pause frames (section 4.3); without: queues for each flow alone"),
    "th_goal": ("bytes", "32KB", "queue that a pause aims at (section 4.3: a batch of the receiver)"),
    "th_over": ("bytes", "64KB", "queue beyond which the overlay pauses (section 4.3: at least a batch more)"),
    "most": ("bytes", "4MB", "queue beyond which packets are dropped"),
    "weight": ("float64 0.001..1", 0.1, "of a new sample in R_recv (section 4.3: an EWMA; the value is open)"),
    "longest": ("time", "5ms", "no pause is longer (authors' code)"),
    "with_rate": ("bool", True, "frames carry the rate as well as the time"),
    "recovery": ("time 1000..1e15", "1ms", "time in which the rate of a sender doubles that heard nothing more"),
}
presets = {"default": {"dqa.edge_queues": 1024}}


def to_application(backdraft, node, port):
    return node.tier == 0 and port.peer_node < backdraft.at.world.host_count


def admit(backdraft, node, port, pkt):
    if pkt.kind == DATA and to_application(backdraft, node, port):
        return port.bytes + pkt.size <= backdraft.most
    return 1


def on_enqueue(backdraft, node, port, queue, pkt):
    if backdraft.overlay and pkt.kind == DATA and queue.bytes > backdraft.th_over and to_application(backdraft, node, port):
        mine = my_queue(backdraft, queue)
        if queue.length == 1:
            mine.last = node.now
        if node.now >= mine.quiet_until:
            send_pause(backdraft, node, port, queue, pkt)


def send_pause(backdraft, node, port, queue, pkt):
    """An overlay pause frame to the sender of this packet; R_recv is the line's before anything was taken."""
    mine = my_queue(backdraft, queue)
    frame = new_frame(node, backdraft.at.kind, PAUSE)
    frame.slot = pkt.slot
    frame.seq = pkt.number
    what = my_frame(backdraft, frame)
    what.gap = max(mine.gap, float(port.ps_per_byte))
    what.pause = min(whole((queue.bytes - backdraft.th_goal) * what.gap), backdraft.longest)
    mine.quiet_until = node.now + what.pause
    send_to_host(node, pkt.src, frame)


def on_dequeue(backdraft, node, port, queue, pkt):
    """R_recv: bytes over time, between packets that left one after the other."""
    if pkt.kind != DATA or not to_application(backdraft, node, port):
        return
    mine = my_queue(backdraft, queue)
    if mine.last > 0:
        sample = float(node.now - mine.last) / pkt.size
        if mine.gap == 0.0:
            mine.gap = sample
        else:
            mine.gap = (1 - backdraft.weight) * mine.gap + backdraft.weight * sample
    mine.last = node.now
    if queue.length == 0:                           # what comes later was not waiting
        mine.last = 0
        mine.quiet_until = 0


def on_control(backdraft, node, port, pkt):
    """At the sender: hold the flow, then pace it."""
    flow = flow_of(node, pkt)
    if not flow:
        return
    what = my_frame(backdraft, pkt)
    mine = my_flow(backdraft, flow)
    mine.told = node.now + what.pause
    mine.gap = what.gap
    if backdraft.with_rate:
        flow.least_gap = what.gap
    hold_flow(node, flow, mine.told)


def on_send(backdraft, node, flow, pkt):
    mine = my_flow(backdraft, flow)
    if flow.least_gap > 0.0 and node.now > mine.told:
        flow.least_gap = mine.gap / (1.0 + float(node.now - mine.told) / backdraft.recovery)
        if flow.least_gap < port_at(node, 0).ps_per_byte:
            flow.least_gap = 0.0
