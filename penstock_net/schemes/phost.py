"""pHost (Gao et al., CoNEXT 2015), section 3: a receiver hands out tokens, one per packet time, shortest flow first.

A sender announces a flow (RTS) and sends its first `free` packets without tokens.  The receiver's tokens name the packets that
have not arrived, in order; a sender uses the one for the flow with the fewest bytes left when its line is free, within `expiry`
packet times.  If `ahead` tokens of a flow have been sent since the newest that was used, its sender is busy elsewhere: the flow
pauses for `pause` packet times after the last one, and then has one token at a time until it is used.  Once all packets have had
tokens, the missing ones have new ones, `reissue` packet times after the last.  One acknowledgement says that all has arrived.
Switches send control frames first, then flows of up to `threshold` bytes, then the others; a port keeps `capacity` bytes of data,
and drops a packet of a longer flow for one of a short flow.  The paper's networks spray packets (`phost+spray`).

The defaults are those of the paper and of its simulator in units of a bandwidth-delay product, which is 8 packets there.  RTS
and tokens have 40 B (section 3.1: `host.control`); acknowledgements, of `host.ack`, have as many there.

The code has a rule that the paper does not mention (`hold`): a receiver that hears of a flow gives no tokens, to anybody, for as
many packet times as the flow has free packets, which need its link; the last such flow counts.  Without it tokens go on for all
of the link, and free packets come on top.  `simulator` is the code with short flows first at switches, as section 3.3 says;
`script` is what the script behind the figures runs: it sets no threshold, and all data have one priority.

When a pause ends is neither the paper's nor the code's rule.  Here data that use a newer token end it at once; in the paper it
lasts three RTTs; the code looks at the flow again when the receiver next decides.

The rest is our choice.  A token for a packet that is not the next new one, since others expired, sends the next new one.
Free packets count as if they had tokens from the RTS on.  Any packet stands for an RTS that was lost.  A sender that has no
token for an RTO, or has sent everything, repeats its RTS and its first packet, in case those, or the acknowledgement, were lost.
"""

title = "PHost"
parameters = {
    "free": ("int32 0..2000", 0, "packets of a flow sent without tokens (section 3: 8); 0 = one bandwidth-delay product"),
    "free_for": ("choice all short", "all", "which flows; short: those that need no tokens then (authors' simulator)"),
    "ahead": ("int32 0..2000", 0, "tokens of a flow since the newest that was used (authors' simulator: 8); 0 = as `free`"),
    "expiry": ("float64 0.1..1000", 1.5, "packet times in which a token must be used (authors' simulator)"),
    "hold": ("bool", True, "no tokens for as many packet times as a new flow has free packets (authors' simulator)"),
    "pause": ("int32 0..100000", 0, "packet times without a token (authors' simulator: 25); 0 = three times `ahead`, and one"),
    "reissue": ("int32 0..100000", 0, "packet times until missing packets have new tokens (there: 9); 0 = `ahead`, and one"),
    "levels": ("int32 1..2", 2, "priorities of data at switches; 1: short flows do not go first (authors' script)"),
    "threshold": ("bytes", 0, "flows up to this size go first at switches (section 3); 0 = the free packets"),
    "capacity": ("bytes", 0, "of a port (section 4: 36 KB); 0 = three bandwidth-delay products"),
}
presets = {
    "default": {"host.control": 40},
    # 8 packets of 1500 B are a bandwidth-delay product there
    "simulator": {"free": 8, "free_for": "short", "capacity": "36864B", "host.control": 40},
    "script": {"free": 8, "free_for": "short", "capacity": "36864B", "levels": 1, "host.control": 40},
}
fabric = {"queues": 2, "reordering": 1, "nic_order": 1, "one_link": 1, "own_answers": 1}
packet_state = {"token": "int64", "size": "int64"}
frame_state = {"token": "int64", "packet": "int64", "left": "int64"}
flow_state = {
    "tokens": "int64[8]",  # held ones, a ring of MOST: their numbers, packets and ends
    "packets": "int64[8]",
    "until": "time[8]",
    "first": "int32",
    "held": "int32",
    "heard": "int32",
    "token": "int64",  # of the packet that is being made; NONE: none
    "free": "int64",  # bytes
}
incoming_state = {
    "arrived": "mask[32]",  # packets behind a missing one, by their number modulo RING
    "clear": "int64",  # bits of packets before this one are clear
    "size": "int64",
    "packets": "int64",  # of the flow
    "tokens": "int64",  # sent
    "used": "int64",  # number of the newest one that was used, plus one
    "next": "int64",  # packet that has the next one, unless it has arrived
    "last": "time",  # when the last one was sent
}
node_state = {"next_token": "time"}
scheme_state = {"blind": "int64", "lead": "int64", "resume": "int64", "again": "int64", "limit": "int64", "most": "int64"}

RTS = 3  # commands of frames
TOKEN = 4
NONE = -1
MOST = 8
RING = 2048
LAST_HELD = 7  # masks of the two rings
LAST_BIT = 2047
LONG = 1  # free_for; queues
SHORT = 0


def set_up(phost):
    """What is 0, in units of a bandwidth-delay product."""
    world = phost.at.world
    packets = (world.bdp + world.quantum - 1) // world.quantum + 1
    phost.blind = phost.free if phost.free > 0 else packets
    phost.lead = phost.ahead if phost.ahead > 0 else phost.blind
    phost.resume = phost.pause if phost.pause > 0 else 3 * phost.lead + 1
    phost.again = phost.reissue if phost.reissue > 0 else phost.lead + 1
    phost.limit = phost.threshold if phost.threshold > 0 else phost.blind * world.mtu
    if phost.levels == 1:
        phost.limit = 0
    phost.most = phost.capacity if phost.capacity > 0 else 3 * world.bdp


def packet_time(phost, node):
    """In which a receiver's link brings a full packet."""
    return whole(phost.at.world.quantum * inbound_ps_per_byte(node))


def packets_of(phost, size):
    return (size + phost.at.world.mtu - 1) // phost.at.world.mtu


def free_packets(phost, size):
    """Packets of a flow that its sender sends without tokens."""
    packets = packets_of(phost, size)
    if phost.free_for and packets > phost.blind:
        return 0
    return min(packets, phost.blind)


# ---- Switch ----


def admit(phost, node, port, pkt):
    """A short flow's packet takes the room of a longer flow's."""
    longer = queue_at(port, LONG)
    while port.bytes + pkt.size > phost.most:
        if pkt.priority == LONG or longer.length == 0:
            return DROPPED
        drop_queued(node, port, longer, longer.tail)
    return ADMITTED


# ---- Sender ----


def on_start(phost, node, flow, pkt):
    mine = my_flow(phost, flow)
    mine.token = NONE
    mine.free = free_packets(phost, flow.size) * phost.at.world.mtu
    flow.window = mine.free
    set_rank(node, flow, flow.size)
    announce(phost, node, flow)


def announce(phost, node, flow):
    frame = new_frame(node, phost.at.kind, RTS)
    about_sent(frame, flow)
    my_frame(phost, frame).left = flow.size
    send_to_host(node, flow.dst, frame)


def hold(phost, flow, token, number, until):
    """Keep a token for packet `number`; the oldest one gives way, which has expired unless frames were delayed."""
    mine = my_flow(phost, flow)
    if mine.held == MOST:
        mine.first = (mine.first + 1) & LAST_HELD
        mine.held -= 1
    i = (mine.first + mine.held) & LAST_HELD
    mine.tokens[i] = token
    mine.packets[i] = number
    mine.until[i] = until
    mine.held += 1
    flow.resend = mine.held


def choose_packet(phost, node, flow):
    """Use the oldest token that has not expired; -1 and an open window for one that sends the next new packet."""
    mine = my_flow(phost, flow)
    while mine.held > 0:
        i = mine.first
        mine.first = (i + 1) & LAST_HELD
        mine.held -= 1
        if node.now <= mine.until[i]:
            mine.token = mine.tokens[i]
            offset = mine.packets[i] * phost.at.world.mtu
            if offset < flow.sent:
                return offset
            flow.window = max(mine.free, flow.sent - flow.acked + phost.at.world.mtu)
            return -1
    return -1


def on_send(phost, node, flow, pkt):
    mine = my_flow(phost, flow)
    carried = my_packet(phost, pkt)
    carried.token = mine.token
    carried.size = flow.size
    pkt.priority = SHORT if flow.size <= phost.limit else LONG
    if mine.token == NONE:
        set_rank(node, flow, flow.size - flow.sent)
    mine.token = NONE
    flow.window = mine.free
    flow.resend = mine.held


def receive_token(phost, node, flow, pkt):
    frame = my_frame(phost, pkt)
    my_flow(phost, flow).heard = 1
    until = node.now + whole(phost.expiry * whole(phost.at.world.quantum * port_of(flow).ps_per_byte))
    hold(phost, flow, frame.token, frame.packet, until)
    set_rank(node, flow, frame.left)
    try_send(node, flow)


def on_timeout(phost, node, flow):
    mine = my_flow(phost, flow)
    flow.backoff = 0
    if not mine.heard or flow.sent == flow.size:
        announce(phost, node, flow)
        if flow.sent > 0:
            hold(phost, flow, NONE, 0, node.now + phost.at.world.rto)
            try_send(node, flow)


# ---- Receiver ----


def on_control(phost, node, port, pkt):
    if command_of(pkt) == TOKEN:
        flow = flow_of(node, pkt)
        if flow != NO_FLOW:
            receive_token(phost, node, flow, pkt)
    else:
        incoming = incoming_of(node, pkt)
        if incoming != NO_INCOMING:
            begin(phost, node, incoming, my_frame(phost, pkt).left)
            schedule(phost, node, incoming)


def begin(phost, node, incoming, size):
    """The first that is heard of a flow."""
    mine = my_incoming(phost, incoming)
    if mine.size == 0:
        mine.size = size
        mine.packets = packets_of(phost, size)
        mine.next = free_packets(phost, size)
        mine.last = node.now + mine.next * packet_time(phost, node)
        if phost.hold:
            hold_tokens(phost, node, mine.next)


def hold_tokens(phost, node, count):
    """Give no token at the next `count` turns, whatever an earlier flow has asked for."""
    mine = my_node(phost, node)
    time = packet_time(phost, node)
    left = max(mine.next_token - node.now, 0)
    mine.next_token = node.now + left % time + count * time
    wake_by(node, phost.at.index, mine.next_token)


def on_data(phost, node, incoming, pkt):
    if incoming.complete:
        unrank_incoming(node, incoming)
        set_flow_timer(node, incoming, NEVER)
        return True
    carried = my_packet(phost, pkt)
    begin(phost, node, incoming, carried.size)
    mine = my_incoming(phost, incoming)
    mtu = phost.at.world.mtu
    while (mine.clear + 1) * mtu <= incoming.expected:
        clear_bit(mine.arrived, mine.clear & LAST_BIT)
        mine.clear += 1
    if pkt.seq > incoming.expected:
        set_bit(mine.arrived, pkt.seq // mtu & LAST_BIT)
    mine.used = max(mine.used, carried.token + 1)
    schedule(phost, node, incoming)
    return False


def missing_from(phost, incoming, number):
    """The first packet from this one on that has not arrived; beyond the last one if there is none."""
    mine = my_incoming(phost, incoming)
    number = max(number, mine.clear)
    while number < mine.clear + RING and has_bit(mine.arrived, number & LAST_BIT):
        number += 1
    return number


def schedule(phost, node, incoming):
    """Let a flow wait for its turn to have a token, or until it may have one."""
    mine = my_incoming(phost, incoming)
    mine.next = missing_from(phost, incoming, mine.next)
    again = 0
    resume = 0
    if mine.next >= min(mine.packets, mine.clear + RING):
        again = phost.again
    if mine.tokens - mine.used >= phost.lead:
        resume = phost.resume
    until = mine.last + max(again, resume) * packet_time(phost, node)
    if again + resume > 0 and node.now < until:
        unrank_incoming(node, incoming)
        set_flow_timer(node, incoming, until)
        return
    if again:
        mine.next = mine.clear
    if resume:
        mine.used = mine.tokens - phost.lead + 1
    set_flow_timer(node, incoming, NEVER)
    rank_incoming(node, incoming, mine.size - incoming.received)
    wake_by(node, phost.at.index, max(my_node(phost, node).next_token, node.now))


def on_flow_timer(phost, node, incoming):
    schedule(phost, node, incoming)


def on_timer(phost, node):
    """A packet time has passed: a token for the flow with the fewest bytes left."""
    incoming = first_ranked(node)
    if incoming == NO_INCOMING:
        return
    if node.now < my_node(phost, node).next_token:
        wake_by(node, phost.at.index, my_node(phost, node).next_token)
        return
    mine = my_incoming(phost, incoming)
    frame = new_frame(node, phost.at.kind, TOKEN)
    about_incoming(frame, incoming)
    my_frame(phost, frame).token = mine.tokens
    my_frame(phost, frame).packet = mine.next
    my_frame(phost, frame).left = mine.size - incoming.received
    send_to_host(node, incoming.src, frame)
    mine.tokens += 1
    mine.next += 1
    mine.last = node.now
    my_node(phost, node).next_token = node.now + packet_time(phost, node)
    schedule(phost, node, incoming)
    if first_ranked(node) != NO_INCOMING:
        wake_by(node, phost.at.index, my_node(phost, node).next_token)
