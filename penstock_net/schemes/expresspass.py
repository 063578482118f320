"""ExpressPass (Cho, Jang and Han, SIGCOMM 2017), section 3: data moves in answer to credits, which every port limits.

A sender asks (REQUEST); the receiver sends credits, `alpha` of the maximum rate at first; each credit that arrives sends one
packet.  A port sends credits before data, but only as many bytes of them as a token bucket of two credits permits, which is fed
with C credit / (credit + data): the data that they call cannot exceed the link on the way back.  It keeps as many bytes of them
as `credits` of mean size have, and drops the others.  Packets and credits of a flow take the same path.  After its last packet a
sender says STOP; credits on the way are wasted.

Data carry the number and the sending time of their credit, so that the receiver knows the share of credits lost and the RTT.
Once per RTT (Algorithm 1): a loss up to `target` raises the rate, (1 - w) rate + w max (1 + target), and w by
half the way to w_max if the time before did so, too; a higher one cuts it, rate (1 - loss) (1 + target), and halves w.  Losses
are seen an RTT late, and feedback "printed" cuts a rate twice for them: a fifth of a link is unused, not the published 2 to 5 %.
feedback "came", the default, cuts the rate at which credits came through, if that is less, as the authors' simulator does.
feedback "code" is all of that simulator's rule: target (1 - rate / max), w rises by 0.05.  Gaps between
credits vary by `jitter`, sizes of credits by up to `spread` bytes, so that the drops are fair.

`air` and `ecs` are two additions of that simulator: flows with less than 40 packets left begin at a share of the rate, and a
sender says STOP as soon as the credits of the last RTT would do for the rest.  Rates are shares of the maximum.

The rest is our choice.  Frames are 64 B (`host.control`), not 84 as in preset "code", where credits have 76 to 92.  The receiver
acknowledges once, when all has arrived, and sends no credits then.  Data that is lost shows as a gap: NACK, and the sender goes
back to it.  Two RTTs after a STOP that came too early, or after which something is missing, the receiver begins anew, as for a
flow of the packets that are left (in that simulator the sender asks for it, with their number, at that time).  A sender that has
had no use for a credit for an RTO, which does not back off, repeats its REQUEST; if all was sent, also its last packet.
"""

title = "ExpressPass"
packet_state = {"credit": "int64", "sent_at": "time"}
frame_state = {"number": "int64", "sent_at": "time"}
flow_state = {
    "numbers": "int32[16]",  # credits whose packets wait for the line: a ring of MOST
    "times": "time[16]",
    "first": "int32",
    "held": "int32",
    "used": "int64",  # credits in this RTT of the sender
    "rtt": "time",
    "since": "time",
    "heard": "time",  # of the last credit that was used
    "stopped": "int32",
}
incoming_state = {
    "rate": "float64",
    "w": "float64",
    "rtt": "float64",
    "updated": "time",
    "number": "int64",  # of the next credit
    "last": "int64",  # of the last packet that came: the number of its credit plus one
    "total": "int64",
    "lost": "int64",
    "nack_at": "time",
    "packets": "int64",  # of the flow
    "raised": "int32",
    "state": "int32",
}
port_state = {"tokens": "time", "since": "time"}
parameters = {
    "alpha": ("float64 0.0001..1", 0.0625, "first rate, of the maximum (section 6: 1/16)"),
    "w_init": ("float64 0.0001..0.5", 0.0625, "first w (section 6: 1/16)"),
    "w_min": ("float64 0.0001..0.5", 0.01, "least w (section 6)"),
    "w_max": ("float64 0.0001..1", 0.5, "largest w (section 6)"),
    "target": ("float64 0..1", 0.1, "loss of credits to aim at (section 6; authors' code: 0.125)"),
    "credits": ("int32 1..10000", 8, "credits kept at a port, as bytes of credits of mean size (section 3.1)"),
    "drop": ("choice tail random", "tail", "credits that come to a full queue, or at random, the more the longer it is"),
    "feedback": ("choice came code printed", "came", "Algorithm 1 with the cut of the authors' code; its rule; Algorithm 1"),
    "jitter": ("float64 0..0.9", 0.1, "of the gaps between credits (authors' code)"),
    "spread": ("bytes", 8, "sizes of credits vary by up to this, from host.control (section 3.1: 84 to 92 B)"),
    "request_size": ("bytes", 0, "REQUESTs, STOPs and NACKs have this size, or host.control if that is more"),
    "air": ("bool", False, "short flows begin slowly (authors' code)"),
    "ecs": ("bool", False, "senders stop early (authors' code)"),
}
presets = {
    # what the authors' scripts set in their simulator
    "code": {
        "alpha": 0.5,
        "target": 0.125,
        "feedback": "code",
        "spread": "16B",
        "request_size": "84B",
        "air": True,
        "ecs": True,
        "host.control": 76,
    },
    # the BFC paper's baseline: that simulator, with the credits of its text (the script that is public has 8)
    "bfc": {
        "alpha": 0.5,
        "target": 0.125,
        "credits": 16,
        "feedback": "code",
        "spread": "16B",
        "request_size": "84B",
        "air": True,
        "ecs": True,
        "host.control": 76,
    },
}
fabric = {"queues": 2, "nic_queues": 2, "symmetric": 1, "one_link": 1, "own_answers": 1}

REQUEST = 3  # commands of frames
CREDIT = 4
STOP = 5
MISSING = 6
CREDITS = 0  # queues
OTHERS = 1
MOST = 16
LAST_HELD = 15  # mask of the ring
IDLE = 0  # states of a receiver: not asked yet, sends credits, was told to stop
ACTIVE = 1
STOPPED = 2
CODE = 1  # feedback
PRINTED = 2
RANDOM = 1  # drop
AIR_PACKETS = 40


# ---- Every port: credits within their share of the link ----


def choose_queue(expresspass, node, port, pkt):
    if pkt.kind == expresspass.at.kind and command_of(pkt) == CREDIT:
        return CREDITS
    return OTHERS


def admit(expresspass, node, port, pkt):
    if pkt.kind != expresspass.at.kind or command_of(pkt) != CREDIT:
        return ADMITTED
    if not has_room(expresspass, port, pkt.size):
        return DROPPED
    if expresspass.drop == RANDOM and draw(node, RANDOM_QUEUE) % kept_bytes(expresspass) < queue_at(port, CREDITS).bytes:
        return DROPPED
    return ADMITTED


def has_room(expresspass, port, size):
    """For another credit of this size."""
    return queue_at(port, CREDITS).bytes + size <= kept_bytes(expresspass)


def kept_bytes(expresspass):
    """Of credits at a port, at most."""
    return expresspass.credits * mean_credit(expresspass)


def next_queue(expresspass, node, port):
    """The bucket holds the time for which its tokens were fed: a credit costs what it and its data take on the line."""
    mine = my_port(expresspass, port)
    whole_slot = slot_of(expresspass, port)
    mine.tokens = min(mine.tokens + node.now - mine.since, 2 * whole_slot)
    mine.since = node.now
    credits = queue_at(port, CREDITS)
    cost = 0
    if credits.length > 0:
        cost = credits.head.size * whole_slot // mean_credit(expresspass)
        if mine.tokens >= cost:
            mine.tokens -= cost
            return CREDITS
    if queue_at(port, OTHERS).length > 0:
        return OTHERS
    if credits.length > 0:
        wake_port(node, port, node.now + cost - mine.tokens)
    return -1


def mean_credit(expresspass):
    """Bytes."""
    return expresspass.at.world.control + expresspass.spread // 2


def slot_of(expresspass, port):
    """Time of a credit and its data on the line, on the data's way back."""
    return whole((mean_credit(expresspass) + expresspass.at.world.quantum) * port.peer_ps_per_byte)


# ---- Receivers ----


def uniform(node) -> float:
    """A random number from -1 to 1."""
    return draw(node, RANDOM_QUEUE) / 1073741824.0 - 1.0


def begin(expresspass, node, incoming):
    """Credits for a flow, for the first time or again; with air by the packets that have not arrived."""
    mine = my_incoming(expresspass, incoming)
    left = max(mine.packets - incoming.expected // expresspass.at.world.mtu, 1)
    mine.state = ACTIVE
    mine.rate = expresspass.alpha
    if expresspass.air:
        mine.rate *= min(left / float(AIR_PACKETS), 1.0)
    mine.w = expresspass.w_init
    mine.raised = 0
    mine.total = 0
    mine.lost = 0
    mine.updated = node.now
    send_credit(expresspass, node, incoming)


def send_credit(expresspass, node, incoming):
    """Send a credit, unless the NIC has too many, and set the time of the next one."""
    mine = my_incoming(expresspass, incoming)
    port = port_at(node, 0)
    size = expresspass.at.world.control
    if expresspass.spread > 0:
        size += draw(node, RANDOM_QUEUE) % (expresspass.spread + 1)
    if has_room(expresspass, port, size):
        frame = new_frame(node, expresspass.at.kind, CREDIT)
        about_incoming(frame, incoming)
        my_frame(expresspass, frame).number = mine.number
        my_frame(expresspass, frame).sent_at = node.now
        frame.size = size
        send_with_data(node, incoming.src, frame)
    mine.number += 1
    gap = slot_of(expresspass, port) / mine.rate
    if expresspass.jitter > 0:
        gap *= 1.0 + expresspass.jitter * uniform(node)
    set_flow_timer(node, incoming, node.now + max(whole(gap), 1))


def on_flow_timer(expresspass, node, incoming):
    mine = my_incoming(expresspass, incoming)
    if incoming.complete:
        return
    if mine.state == STOPPED:
        begin(expresspass, node, incoming)
        return
    if mine.total > 0 and node.now - mine.updated >= mine.rtt:
        update_rate(expresspass, node, incoming)
    send_credit(expresspass, node, incoming)


def update_rate(expresspass, node, incoming):
    mine = my_incoming(expresspass, incoming)
    loss = float(mine.lost) / mine.total
    slot = slot_of(expresspass, port_at(node, 0))
    target = expresspass.target
    most = 1.0 + target
    if expresspass.feedback == CODE:
        target *= 1.0 - mine.rate
        most = 1.0
    if loss > target:
        if expresspass.feedback == PRINTED:
            mine.rate = mine.rate * (1.0 - loss) * (1.0 + target)
        else:
            came = float(mine.total - mine.lost) * slot / (node.now - mine.updated)
            mine.rate = min(mine.rate, came * (1.0 + target))
        mine.w = max(mine.w / 2.0, expresspass.w_min)
        mine.raised = 0
    else:
        if mine.raised:
            mine.w = min(mine.w + 0.05, expresspass.w_max) if expresspass.feedback == CODE else (mine.w + expresspass.w_max) / 2.0
        mine.raised = 1
        mine.rate = (1.0 - mine.w) * mine.rate + mine.w * most
    mine.rate = min(max(mine.rate, slot / mine.rtt), most)
    mine.total = 0
    mine.lost = 0
    mine.updated = node.now


def on_data(expresspass, node, incoming, pkt):
    """Note the RTT and the credits lost since the packet before; acknowledge when all has arrived."""
    mine = my_incoming(expresspass, incoming)
    carried = my_packet(expresspass, pkt)
    if carried.credit >= 0:
        rtt = float(node.now - carried.sent_at)
        mine.rtt = 0.8 * mine.rtt + 0.2 * rtt if mine.rtt > 0.0 else rtt
        if carried.credit >= mine.last:
            mine.total += carried.credit + 1 - mine.last
            mine.lost += carried.credit - mine.last
            mine.last = carried.credit + 1
    if pkt.seq > incoming.expected and node.now >= mine.nack_at:
        send_missing(expresspass, node, incoming)
    return incoming.complete


def send_missing(expresspass, node, incoming):
    """NACK: the sender goes back to the first byte that has not arrived."""
    my_incoming(expresspass, incoming).nack_at = node.now + expresspass.at.world.rto
    frame = new_frame(node, expresspass.at.kind, MISSING)
    about_incoming(frame, incoming)
    my_frame(expresspass, frame).number = incoming.expected
    frame.priority = OTHERS
    frame.size = max(frame.size, expresspass.request_size)
    send_with_data(node, incoming.src, frame)


def receive_request(expresspass, node, pkt):
    incoming = incoming_of(node, pkt)
    if incoming == NO_INCOMING:
        return
    mine = my_incoming(expresspass, incoming)
    if mine.state == IDLE:
        mine.packets = my_frame(expresspass, pkt).number
    if mine.state != ACTIVE:
        begin(expresspass, node, incoming)


def receive_stop(expresspass, node, pkt):
    incoming = incoming_of(node, pkt)
    if incoming == NO_INCOMING:
        return
    mine = my_incoming(expresspass, incoming)
    mine.state = STOPPED
    set_flow_timer(node, incoming, node.now + max(whole(2.0 * mine.rtt), 2 * expresspass.at.world.base_rtt))


# ---- Senders ----


def send_about(expresspass, node, flow, command):
    """A REQUEST, which says how many packets are left, or a STOP."""
    frame = new_frame(node, expresspass.at.kind, command)
    about_sent(frame, flow)
    my_frame(expresspass, frame).number = packets_left(expresspass, flow)
    frame.priority = OTHERS
    frame.size = max(frame.size, expresspass.request_size)
    send_with_data(node, flow.dst, frame)


def packets_left(expresspass, flow):
    return (flow.size - flow.sent + expresspass.at.world.mtu - 1) // expresspass.at.world.mtu


def on_start(expresspass, node, flow, pkt):
    flow.window = 0
    my_flow(expresspass, flow).since = node.now
    my_flow(expresspass, flow).heard = node.now
    send_about(expresspass, node, flow, REQUEST)


def permit(expresspass, flow):
    """As many packets as credits are held."""
    flow.window = flow.sent - flow.acked + my_flow(expresspass, flow).held * expresspass.at.world.mtu


def receive_credit(expresspass, node, flow, pkt):
    mine = my_flow(expresspass, flow)
    if mine.rtt == 0:
        mine.rtt = node.now - mine.since
        mine.since = node.now
    if flow.sent + mine.held * expresspass.at.world.mtu >= flow.size or mine.held == MOST:
        return
    i = (mine.first + mine.held) & LAST_HELD
    mine.numbers[i] = my_frame(expresspass, pkt).number
    mine.times[i] = my_frame(expresspass, pkt).sent_at
    mine.heard = node.now
    mine.held += 1
    mine.used += 1
    permit(expresspass, flow)
    if expresspass.ecs and node.now - mine.since >= mine.rtt:
        if mine.used >= packets_left(expresspass, flow) and not mine.stopped:
            mine.stopped = 1
            send_about(expresspass, node, flow, STOP)
        mine.used = 0
        mine.since = node.now
    try_send(node, flow)


def go_back(expresspass, node, flow, offset):
    """Send everything from here on again, a packet for each credit; the last packet is part of it."""
    my_flow(expresspass, flow).stopped = 0
    flow.resend = 0
    flow.window = 0
    send_from(node, flow, offset)
    permit(expresspass, flow)
    try_send(node, flow)


def on_send(expresspass, node, flow, pkt):
    """The packet uses the credit that came first; the last one is followed by a STOP."""
    mine = my_flow(expresspass, flow)
    carried = my_packet(expresspass, pkt)
    carried.credit = -1
    carried.sent_at = 0
    pkt.priority = OTHERS
    if mine.held == 0:  # the last packet once more, after a timeout
        return
    carried.credit = mine.numbers[mine.first]
    carried.sent_at = mine.times[mine.first]
    mine.first = (mine.first + 1) & LAST_HELD
    mine.held -= 1
    permit(expresspass, flow)
    if flow.sent == flow.size and not mine.stopped:
        mine.stopped = 1
        send_about(expresspass, node, flow, STOP)


def on_ack(expresspass, node, flow, pkt):
    permit(expresspass, flow)


def on_timeout(expresspass, node, flow):
    mine = my_flow(expresspass, flow)
    flow.backoff = 0
    if node.now - mine.heard < expresspass.at.world.rto:
        return
    mine.stopped = 0
    send_about(expresspass, node, flow, REQUEST)
    if flow.sent == flow.size:
        flow.resend = 1
        try_send(node, flow)


def choose_packet(expresspass, node, flow):
    mtu = expresspass.at.world.mtu
    return (flow.size - 1) // mtu * mtu


def on_control(expresspass, node, port, pkt):
    if command_of(pkt) == REQUEST:
        receive_request(expresspass, node, pkt)
    elif command_of(pkt) == STOP:
        receive_stop(expresspass, node, pkt)
    else:
        flow = flow_of(node, pkt)
        if flow == NO_FLOW:
            return
        if command_of(pkt) == CREDIT:
            receive_credit(expresspass, node, flow, pkt)
        elif my_frame(expresspass, pkt).number < flow.sent:
            go_back(expresspass, node, flow, my_frame(expresspass, pkt).number)
