"""SIRD (Prasopoulos et al., NSDI 2025): receivers hand out credit of their link, and learn how much senders can use.

A receiver has `budget` bytes of credit.  It gives a packet's worth at a time, as its link brings them, to the message with the
fewest bytes missing whose sender may have more, until all of it is with senders; what arrives brings its credit back.  A sender
may hold what its bucket allows: one BDP, and as two loops like DCTCP's say, the smaller of them.  One listens to
the marks of switches, whose ports hold more than `n_thr`; the other to those of the sender, which marks what it sends while
credit of more than `s_thr` bytes lies with it unused, as other receivers have given it more than its link takes.  Each loop adds
a packet per limit of bytes without a mark, and takes ratio / 2 of the limit at a mark, once in 1.5 limits of packets; ratio is
the share of marked packets, averaged over limits with weight `g`.

Messages of up to `unsch` bytes are sent at once, and count as credit when the receiver hears of them; longer ones ask first.  A
sender with more than a BDP of unused credit for one receiver waits for credit with the rest, but for one packet.  Its NIC shares
the line among the messages that have credit, `fair` of it equally, the rest for the one with the fewest bytes unsent.  What is
sent unasked goes first at switches.  The paper's networks spray packets (`sird+spray`).

Bytes are those on the wire, defaults those of the authors' configuration, in BDP.  `simulator` is what their simulator does: its
loops add for marked packets, too.  There credit belongs to a receiver, here to a message; it counts packets of both directions
for its loops, here data does.  As there, a limit lets a sender have one packet more, and a message alone is never marked.

Our choice: the BDP is in whole packets, and one more, so that one sender fills a link.  The NIC's shortest message is that of
those that had credit or were served since the last one ended or ran out.  Losses are repaired as in `homa`: a receiver that has
given credit and hears nothing for `resend` asks for the first bytes that are missing; a sender that has heard nothing repeats its
request or first packet after each RTO, as does one that has sent everything.  One acknowledgement says that all has arrived.
"""

title = "SIRD"
parameters = {
    "bdp": ("bytes", 0, "what the next ones multiply, on the wire (authors: 100 KB); 0 = in whole packets, and one"),
    "budget": ("float64 0.01..1000", 1.5, "credit of a receiver, B, in BDP (authors' configuration)"),
    "bucket": ("float64 0.01..1000", 1.0, "most credit of one sender, in BDP (authors' configuration)"),
    "unsch": ("float64 0..1000", 1.0, "longest message sent without credit, UnschT, in BDP (authors' configuration)"),
    "n_thr": ("float64 0..1000", 1.25, "switches mark beyond this at a port, NThr, in BDP (authors' configuration)"),
    "s_thr": ("float64 0..1000", 0.5, "senders mark when more credit is unused, SThr, in BDP (authors' configuration)"),
    "g": ("float64 0..1", 0.08, "weight of the last limit's packets in a ratio (authors' simulator)"),
    "n_min": ("float64 0..1", 0.03, "least limit by the marks of switches, in buckets (authors' simulator)"),
    "s_min": ("float64 0..1", 0.1, "least limit by the marks of a sender, in buckets (authors' simulator)"),
    "fair": ("float64 0.01..1", 0.5, "share of a sender's line that messages have equally (authors' configuration)"),
    "unsch_first": ("bool", True, "what is sent without credit goes first at switches (authors' simulator)"),
    "always_adds": ("bool", False, "marked packets raise a limit, too (authors' simulator)"),
    "resend": ("time", "5ms", "silence after which a receiver asks for what is missing (as in homa)"),
}
presets = {"simulator": {"bdp": "100KB", "always_adds": True}}
fabric = {"queues": 2, "reordering": 1, "nic_order": 1, "one_link": 1, "own_answers": 1}
structs = {
    "loop": {"limit": "float64", "ratio": "float64", "marked": "int32", "count": "int32", "wait": "int32"},
    "sender": {"out": "int64", "limit": "float64", "count": "int32", "wait": "int32"},  # out: bytes of credit
}
packet_state = {"size": "int64", "blind": "int64", "pressed": "int8"}  # pressed: marked by its sender
flow_state = {"blind": "int64", "granted": "int64", "turn": "int64", "missing": "int64", "heard": "int32"}
frame_state = {"size": "int64", "offset": "int64", "granted": "int64"}
incoming_state = {"size": "int64", "granted": "int64", "arrived": "int64", "heard_at": "time"}
node_state = {
    "senders": "sender[hosts * (1 - switch)]",
    "loops": "loop[2 * hosts * (1 - switch)]",  # of each sender: by the marks of switches, by its own
    "out": "int64",  # bytes of credit that are with senders
    "next_credit": "time",
    "unused_of": "int64[hosts * (1 - switch)]",  # bytes of credit of each receiver that is with this sender
    "unused": "int64",
    "messages": "int64",  # with bytes unsent
    "ready": "int64",  # with credit
    "now_served": "int64",  # turn of the message that was served last
    "shortest": "int64",  # number of a message plus one; 0: not known
    "fewest": "int64",  # its bytes unsent
}
records = {"out": "bytes of credit that are with senders", "unused": "bytes of credit that this sender has not used"}
scheme_state = {"unit": "int64", "most": "int64", "each": "int64", "blind": "int64", "queue": "int64", "idle": "int64"}

REQUEST = 3  # commands of frames
CREDIT = 4
RESEND = 5
FIRST = 0  # queues
SECOND = 1
TURN = 1024.0  # of the only message
NOTED = 4095  # packets from the first missing one on: a receiver has no place for others


def set_up(sird):
    """In bytes: the BDP, B, the bucket, UnschT, NThr, SThr."""
    packet = sird.at.world.quantum
    sird.unit = sird.bdp if sird.bdp > 0 else ((sird.at.world.bdp + packet - 1) // packet + 1) * packet
    sird.most = max(whole(sird.budget * sird.unit), packet)
    sird.each = max(whole(sird.bucket * sird.unit), packet)
    sird.blind = whole(sird.unsch * sird.unit)
    sird.queue = whole(sird.n_thr * sird.unit)
    sird.idle = whole(sird.s_thr * sird.unit)


def wire_bytes(sird, size):
    """Bytes on the wire of a message, or of the first ones of a message, in whole packets."""
    return size + (size + sird.at.world.mtu - 1) // sird.at.world.mtu * sird.at.world.header


# ---- Switch ----


def on_dequeue(sird, node, port, queue, pkt):
    if pkt.kind == DATA and port.bytes > sird.queue:
        pkt.ecn = 1
        port.ecn_marks += 1


# ---- Sender ----


def on_start(sird, node, flow, pkt):
    """Send without credit what may go, or ask."""
    here = my_node(sird, node)
    mine = my_flow(sird, flow)
    here.messages += 1
    flow.window = 0
    if wire_bytes(sird, flow.size) <= sird.blind:
        room = max((sird.each - here.unused_of[flow.dst]) // sird.at.world.quantum, 1)
        mine.blind = min(flow.size, room * sird.at.world.mtu)
        have_credit(sird, node, flow, mine.blind)
    else:
        ask(sird, node, flow)


def ask(sird, node, flow):
    frame = new_frame(node, sird.at.kind, REQUEST)
    about_sent(frame, flow)
    my_frame(sird, frame).size = flow.size
    send_to_host(node, flow.dst, frame)


def have_credit(sird, node, flow, granted):
    """Up to this byte of a message may be sent.  One that had no credit takes its turn with the one that is served."""
    here = my_node(sird, node)
    mine = my_flow(sird, flow)
    if granted <= mine.granted:
        return
    more = wire_bytes(sird, granted) - wire_bytes(sird, mine.granted)
    here.unused += more
    here.unused_of[flow.dst] += more
    if mine.granted <= flow.sent:
        here.ready += 1
        mine.turn = max(mine.turn, here.now_served)
        set_rank(node, flow, mine.turn)
        note_shortest(sird, node, flow)
    mine.granted = granted
    flow.window = granted


def note_shortest(sird, node, flow):
    here = my_node(sird, node)
    left = flow.size - flow.sent
    if here.shortest == 0 or here.shortest == flow.number + 1 or left < here.fewest:
        here.shortest = flow.number + 1
        here.fewest = left


def on_send(sird, node, flow, pkt):
    here = my_node(sird, node)
    mine = my_flow(sird, flow)
    if not pkt.flags & RETRANSMITTED:
        here.unused -= pkt.payload + sird.at.world.header
        here.unused_of[flow.dst] -= pkt.payload + sird.at.world.header
        take_turn(sird, node, flow)
    carried = my_packet(sird, pkt)
    carried.size = flow.size
    carried.blind = mine.blind
    carried.pressed = 1 if here.messages > 1 and here.unused > sird.idle else 0
    pkt.priority = FIRST if sird.unsch_first and pkt.seq < mine.blind else SECOND
    if flow.sent == flow.size and not pkt.flags & RETRANSMITTED:
        here.messages -= 1


def take_turn(sird, node, flow):
    """The next turn of a message comes the later, the less of the line is its share."""
    here = my_node(sird, node)
    mine = my_flow(sird, flow)
    note_shortest(sird, node, flow)
    here.now_served = mine.turn
    share = sird.fair / here.ready
    if here.shortest == flow.number + 1:
        share += 1.0 - sird.fair
    mine.turn += whole(TURN / share)
    set_rank(node, flow, mine.turn)
    if flow.sent >= mine.granted:
        here.ready -= 1
        if here.shortest == flow.number + 1:
            here.shortest = 0


def receive_credit(sird, node, flow, pkt):
    """CREDIT: send up to a byte.  RESEND: the same, and send again what has been sent from an offset on."""
    mine = my_flow(sird, flow)
    frame = my_frame(sird, pkt)
    mine.heard = 1
    have_credit(sird, node, flow, frame.granted)
    if command_of(pkt) == RESEND:
        mtu = sird.at.world.mtu
        mine.missing = frame.offset
        flow.resend = max(min(frame.granted, flow.sent) - frame.offset + mtu - 1, 0) // mtu
    try_send(node, flow)


def choose_packet(sird, node, flow):
    mine = my_flow(sird, flow)
    offset = mine.missing
    mine.missing += sird.at.world.mtu
    return offset


def on_timeout(sird, node, flow):
    mine = my_flow(sird, flow)
    flow.backoff = 0
    if flow.sent == 0 and mine.blind == 0:
        if not mine.heard:
            ask(sird, node, flow)
    elif flow.sent > 0 and (not mine.heard or flow.sent == flow.size):
        mine.missing = 0
        flow.resend = 1
        try_send(node, flow)


# ---- Receiver ----


def on_control(sird, node, port, pkt):
    if command_of(pkt) != REQUEST:
        flow = flow_of(node, pkt)
        if flow != NO_FLOW:
            receive_credit(sird, node, flow, pkt)
        return
    incoming = incoming_of(node, pkt)
    if incoming != NO_INCOMING:
        if my_incoming(sird, incoming).size == 0:
            begin(sird, node, incoming, my_frame(sird, pkt).size, 0)
            rank_incoming(node, incoming, my_incoming(sird, incoming).size)
        give(sird, node)


def begin(sird, node, incoming, size, blind):
    """The first that is heard of a message: what is sent without credit is taken from the budget."""
    here = my_node(sird, node)
    mine = my_incoming(sird, incoming)
    mine.size = size
    mine.granted = blind
    mine.heard_at = node.now
    here.out += wire_bytes(sird, blind)
    sender_of(sird, node, incoming.src)
    senders_at(here, incoming.src).out += wire_bytes(sird, blind)
    set_flow_timer(node, incoming, node.now + sird.resend)


def sender_of(sird, node, src):
    """Make what is known of a sender, of whom nothing has come before."""
    here = my_node(sird, node)
    sender = senders_at(here, src)
    if sender.wait == 0:
        sender.wait = 1
        sender.limit = sird.each * 1.0
        for i in range(2):
            loops_at(here, 2 * src + i).limit = sird.each * 1.0
            loops_at(here, 2 * src + i).wait = sird.each // sird.at.world.quantum


def on_data(sird, node, incoming, pkt):
    here = my_node(sird, node)
    mine = my_incoming(sird, incoming)
    carried = my_packet(sird, pkt)
    if mine.size == 0:
        begin(sird, node, incoming, carried.size, carried.blind)
    listen(sird, node, incoming.src, pkt)
    if incoming.received > mine.arrived:  # what a sender repeats is no news
        back = incoming.received - mine.arrived + sird.at.world.header
        here.out -= back
        senders_at(here, incoming.src).out -= back
        mine.arrived = incoming.received
        mine.heard_at = node.now
    if incoming.complete:
        set_flow_timer(node, incoming, NEVER)
    else:
        if mine.granted < mine.size:
            rank_incoming(node, incoming, mine.size - incoming.received)
        if pkt.flags & RETRANSMITTED and incoming.received > incoming.expected:
            ask_again(sird, node, incoming)
    give(sird, node)
    return incoming.complete


def listen(sird, node, src, pkt):
    """Both loops, and the limit of a sender, after one of its packets."""
    here = my_node(sird, node)
    sender = senders_at(here, src)
    by_switches = loops_at(here, 2 * src)
    by_sender = loops_at(here, 2 * src + 1)
    sender.count += 1
    packets = sender.count if sender.count >= sender.wait else 0
    follow(sird, by_switches, pkt.ecn, packets, sender.limit, sird.n_min)
    follow(sird, by_sender, my_packet(sird, pkt).pressed, packets, sender.limit, sird.s_min)
    sender.limit = min(by_switches.limit, by_sender.limit)
    if packets > 0:
        sender.count = 0
        sender.wait = max(whole(sender.limit / sird.at.world.quantum), 1)


def follow(sird, loop, marked, packets, limit: float, least: float):
    """One loop; `packets`: those of a limit that has ended with this one, else 0; `limit`: the smaller one of both loops."""
    packet = float(sird.at.world.quantum)
    loop.count += 1
    loop.marked += marked
    if packets > 0:
        loop.ratio = (1.0 - sird.g) * loop.ratio + sird.g * loop.marked / packets
        loop.marked = 0
    change = 0.0
    if sird.always_adds or not marked:
        change = packet * packet / limit
    if marked and loop.count >= loop.wait:
        change -= loop.limit * loop.ratio / 2.0
        loop.count = 0
        loop.wait = whole(1.5 * limit / packet)
    loop.limit = min(max(loop.limit + change, least * sird.each, 1.0), sird.each * 1.0)


def on_timer(sird, node):
    give(sird, node)


def give(sird, node):
    """A packet's worth of credit to the first message whose sender may have it, if the last one's time on the link has passed."""
    here = my_node(sird, node)
    incoming = first_ranked(node)
    if incoming == NO_INCOMING:
        return
    if node.now < here.next_credit:
        wake_by(node, sird.at.index, here.next_credit)
        return
    while incoming != NO_INCOMING:
        mine = my_incoming(sird, incoming)
        sender = senders_at(here, incoming.src)
        payload = min(sird.at.world.mtu, mine.size - mine.granted)
        bytes = payload + sird.at.world.header
        if here.out + bytes > sird.most:
            return
        if sender.out + bytes <= sird.each and sender.out <= sender.limit:
            if mine.granted + payload - incoming.expected <= NOTED * sird.at.world.mtu:
                credit(sird, node, incoming, payload)
                return
        incoming = incoming.after


def credit(sird, node, incoming, payload):
    here = my_node(sird, node)
    mine = my_incoming(sird, incoming)
    bytes = payload + sird.at.world.header
    if mine.granted == incoming.received:
        mine.heard_at = node.now
    mine.granted += payload
    here.out += bytes
    senders_at(here, incoming.src).out += bytes
    here.next_credit = node.now + whole(bytes * inbound_ps_per_byte(node))
    tell(sird, node, incoming, CREDIT, mine.granted)
    if mine.granted == mine.size:
        unrank_incoming(node, incoming)
    if first_ranked(node) != NO_INCOMING:
        wake_by(node, sird.at.index, here.next_credit)


def tell(sird, node, incoming, command, granted):
    frame = new_frame(node, sird.at.kind, command)
    about_incoming(frame, incoming)
    my_frame(sird, frame).offset = incoming.expected
    my_frame(sird, frame).granted = granted
    send_to_host(node, incoming.src, frame)


def ask_again(sird, node, incoming):
    """Ask for the first missing packet if later ones have arrived, else for all that has credit."""
    missing_to = my_incoming(sird, incoming).granted
    if incoming.received > incoming.expected:
        missing_to = min(incoming.expected + sird.at.world.mtu, missing_to)
    tell(sird, node, incoming, RESEND, missing_to)


def on_flow_timer(sird, node, incoming):
    mine = my_incoming(sird, incoming)
    if mine.granted == incoming.received:
        mine.heard_at = node.now
    elif node.now >= mine.heard_at + sird.resend:
        mine.heard_at = node.now
        ask_again(sird, node, incoming)
    set_flow_timer(node, incoming, mine.heard_at + sird.resend)
