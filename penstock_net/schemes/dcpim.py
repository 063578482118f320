"""dcPIM (Cai et al., SIGCOMM 2022): hosts match in rounds, then receivers hand out tokens on the channels that they have.

A link is `k` channels.  Time is in rounds of `beta` control round trips, and `r` rounds are an epoch.  In each round a receiver
asks every sender whose data it waits for, for as many channels as the shortest flow from there fills in an epoch (request).
Half a round later a sender grants what it has left, and with the next round the receiver accepts what it can use.  In the first
round both prefer the shortest flow, in the others they choose at random.  What is matched in an epoch is used in the next one,
while the one after that is matched: each receiver sends tokens, at the pace of its channels, for the shortest flow of each
matched sender.  A token names a packet, and is good until the epoch has ended.  At most `window` tokens, or a channel's share
of them, are out.

A flow of up to `at_once` packets is sent at once, and its receiver holds back as many tokens.  What is lost of it is asked for
as if the flow were longer.  Once all packets have had tokens, the missing ones have new ones after `resend`.  If nothing
arrives for `window_timeout` after the newest token, there is one more.  Control frames go first, then flows by size: those of
up to `base` packets, of `base` squared, and so on, in `levels`.  One acknowledgement says that all has arrived.

Rules and defaults are those of the authors' simulator, where a message of an older round counts for nothing, an accepted
channel beyond `k` is refused, and frames have 40 B (`host.control`).  Packets are sprayed there (`dcpim+spray`).

There a match may be used before its epoch if both ends have idle channels, and a sender uses tokens in the order of the
channels of their receivers; here it does so in the order of what their flows have left.  There a flow whose `resend` ends
within an epoch waits for the next one, here it does not.  `simulator` has its `resend`, with which a packet that waits at a
switch is often sent twice.  With their network, sizes `imc10` and load 0.6 the mean slowdown is 1.52, and the 99th percentile
7.06 (`dcpim+spray`, 4 ms, one seed); their results are 1.51 and 7.01.

The rest is our choice.  All clocks agree, and random choices are hashes of both hosts and the round.  Any packet stands for a
notification that was lost.  A sender without a token for an RTO, or that has sent everything, repeats its notification and its
first packet.  A sender remembers four runs of tokens of a flow, of consecutive numbers and packets.
"""

title = "DcPIM"
parameters = {
    "r": ("int32 1..64", 4, "rounds of an epoch (authors' configuration)"),
    "k": ("int32 1..16", 4, "channels of a link (authors' configuration)"),
    "beta": ("float64 0.1..100", 1.3, "length of a round, in control round trips (authors' configuration)"),
    "crtt": ("time", 0, "control round trip; 0 = the base RTT, in which one packet is of data"),
    "min_rounds": ("int32 0..64", 1, "first rounds of an epoch, which prefer the shortest flow (authors' configuration)"),
    "window": ("int32 0..2000", 0, "tokens that are out on all channels, in packets; 0 = one bandwidth-delay product"),
    "window_timeout": ("float64 0.1..1000", 1.1, "from the newest token until one more, in `window` packet times (there)"),
    "resend": ("float64 0.1..1000", 1.2, "until missing packets have new tokens, in `window` packet times (there: 1)"),
    "at_once": ("int32 0..2000", 0, "packets of the longest flow that is sent at once; 0 = `window`"),
    "levels": ("int32 1..8", 6, "priorities of data at switches (authors' simulator)"),
    "base": ("int32 2..1000", 7, "packets of a flow of the first level, whose powers bound the others (authors' simulator)"),
}
presets = {"default": {"host.control": 40}, "simulator": {"resend": 1.0, "host.control": 40}}
fabric = {"queues": "levels", "reordering": 1, "nic_order": 1, "one_link": 1, "own_answers": 1}
structs = {
    "offer": {"host": "int32", "links": "int32", "left": "int64"},  # a request or a grant; host: who sent it
    "channel": {"src": "int32", "links": "int32", "next": "time", "waits": "int32"},  # next turn; waits: what arrives may end it
    "peer": {"asked": "int64", "best": "int64"},  # round of its last request; its shortest flow; each plus one
    "run": {"token": "int64", "packet": "int64", "count": "int32", "until": "time"},  # the first token, and its packet
}
packet_state = {"token": "int64", "size": "int64"}
# number: of a round or a token; left: bytes of the flow
frame_state = {"host": "int64", "number": "int64", "links": "int32", "left": "int64", "packet": "int64", "until": "time"}
flow_state = {
    "runs": "run[4]",  # of tokens that are held, a ring
    "first": "int32",
    "run_count": "int32",
    "held": "int32",  # tokens
    "heard": "int32",
    "token": "int64",  # of the packet that is being made; NONE: none
    "free": "int64",  # bytes
}
incoming_state = {
    "arrived": "mask[32]",  # packets behind a missing one, by their number modulo RING
    "clear": "int64",  # bits of packets before this one are clear
    "size": "int64",
    "packets": "int64",
    "tokens": "int64",  # sent
    "used": "int64",  # number of the newest one that was used, plus one
    "next": "int64",  # packet that has the next one
    "last": "time",  # when the last one was sent
}
node_state = {
    "peers": "peer[hosts * (1 - switch)]",
    "offers": "offer[2 * hosts * (1 - switch)]",  # in turn requests of round `requested`, and grants of the last round
    "counts": "int64[2]",  # of requests, of grants
    "channels": "channel[32 * (1 - switch)]",  # of this receiver: of epochs with even, with odd numbers
    "matched": "int64[2]",  # senders that have some; 0 of both unless `staged`
    "used": "int64[2]",  # channels
    "requested": "int64",
    "staged": "int32",  # takes part in round `round`
    "round": "int64",
    "giving": "int64",  # of this sender: an epoch, plus one
    "given": "int64",  # its channels
    "hold": "int64",  # turns of tokens that are left out
}
records = {"given": "channels that this sender has given in the last epoch in which it was asked"}
scheme_state = {"period": "int64", "half": "int64", "epoch": "int64", "way": "int64", "most": "int64", "blind": "int64"}

NOTIFY = 3  # commands of frames
REQUEST = 4
GRANT = 5
ACCEPT = 6
REFUSE = 7
TOKEN = 8
ASKED = 0  # which offers
GRANTED = 1
NONE = -1
RUNS = 4
RING = 2048
ROW = 16  # channels of an epoch
LATER = 281474976710656  # 2 to the 48th, added to ranks of flows that need tokens


def set_up(dcpim):
    """Times of a round, its half, an epoch and a frame's way; the window, and the longest flow that is sent at once."""
    world = dcpim.at.world
    crtt = dcpim.crtt if dcpim.crtt > 0 else world.base_rtt
    dcpim.period = max(whole(dcpim.beta * crtt), 2)
    dcpim.half = dcpim.period // 2
    dcpim.epoch = dcpim.r * dcpim.period
    dcpim.most = dcpim.window if dcpim.window > 0 else (world.bdp + world.quantum - 1) // world.quantum
    dcpim.blind = dcpim.at_once if dcpim.at_once > 0 else dcpim.most
    dcpim.way = crtt // 2


def packet_time(dcpim, node):
    """In which a receiver's link brings a full packet."""
    return whole(dcpim.at.world.quantum * inbound_ps_per_byte(node))


def packets_of(dcpim, size):
    return (size + dcpim.at.world.mtu - 1) // dcpim.at.world.mtu


def say(dcpim, node, host, command, number, links, left):
    """A message of the matching of a round."""
    frame = new_frame(node, dcpim.at.kind, command)
    my_frame(dcpim, frame).host = node.id
    my_frame(dcpim, frame).number = number
    my_frame(dcpim, frame).links = links
    my_frame(dcpim, frame).left = left
    send_to_host(node, host, frame)


def note_offer(dcpim, node, which, pkt):
    here = my_node(dcpim, node)
    offer = offers_at(here, 2 * here.counts[which] + which)
    frame = my_frame(dcpim, pkt)
    offer.host = frame.host
    offer.links = frame.links
    offer.left = frame.left
    here.counts[which] += 1


def best_offer(dcpim, node, which, number):
    """Index of what is preferred in this round; NONE if nothing is left."""
    here = my_node(dcpim, node)
    shortest = 1 if number % dcpim.r < dcpim.min_rounds else 0
    best = NONE
    least = NEVER
    for i in range(here.counts[which]):
        offer = offers_at(here, 2 * i + which)
        if offer.links > 0:
            key = offer.left if shortest else hash31(offer.host, hash31(node.id, number))
            if key < least or (key == least and offer.host < offers_at(here, best).host):
                best = 2 * i + which
                least = key
    return best


def on_control(dcpim, node, port, pkt):
    command = command_of(pkt)
    if command == TOKEN:
        flow = flow_of(node, pkt)
        if flow != NO_FLOW:
            receive_token(dcpim, node, flow, pkt)
    elif command == NOTIFY:
        incoming = incoming_of(node, pkt)
        if incoming != NO_INCOMING:
            begin(dcpim, node, incoming, my_frame(dcpim, pkt).left)
    elif command == REQUEST:
        receive_request(dcpim, node, pkt)
    elif command == GRANT:
        receive_grant(dcpim, node, pkt)
    elif command == ACCEPT:
        receive_accept(dcpim, node, pkt)
    else:
        receive_refusal(dcpim, node, pkt)


def on_timer(dcpim, node):
    here = my_node(dcpim, node)
    if here.staged and node.now >= here.round * dcpim.period:
        begin_round(dcpim, node)
    if here.counts[ASKED] > 0 and node.now >= here.requested * dcpim.period + dcpim.half:
        grant(dcpim, node)
    give_tokens(dcpim, node)
    if here.staged:
        wake_by(node, dcpim.at.index, here.round * dcpim.period)
    if here.counts[ASKED] > 0:
        wake_by(node, dcpim.at.index, here.requested * dcpim.period + dcpim.half)


# ---- Matching: sender ----


def receive_request(dcpim, node, pkt):
    here = my_node(dcpim, node)
    frame = my_frame(dcpim, pkt)
    due = frame.number * dcpim.period + dcpim.half
    if node.now > due:
        return
    if here.requested != frame.number:
        here.counts[ASKED] = 0
        here.requested = frame.number
    note_offer(dcpim, node, ASKED, pkt)
    wake_by(node, dcpim.at.index, due)


def grant(dcpim, node):
    """Half of a round has passed: give the channels that are left to those that have asked in this round."""
    here = my_node(dcpim, node)
    number = here.requested
    enter(dcpim, node, number // dcpim.r)
    free = dcpim.k - here.given
    best = best_offer(dcpim, node, ASKED, number)
    while free > 0 and best != NONE:
        offer = offers_at(here, best)
        links = min(offer.links, free)
        free -= links
        say(dcpim, node, offer.host, GRANT, number, links, offer.left)
        offer.links = 0
        best = best_offer(dcpim, node, ASKED, number)
    here.counts[ASKED] = 0


def enter(dcpim, node, epoch):
    """Forget what this sender has given in an older epoch."""
    here = my_node(dcpim, node)
    if here.giving < epoch + 1:
        here.giving = epoch + 1
        here.given = 0


def receive_accept(dcpim, node, pkt):
    here = my_node(dcpim, node)
    frame = my_frame(dcpim, pkt)
    epoch = frame.number // dcpim.r
    enter(dcpim, node, epoch)
    if here.giving == epoch + 1:
        here.given += frame.links
        over = here.given - dcpim.k
        if over > 0:
            here.given = dcpim.k
            say(dcpim, node, frame.host, REFUSE, frame.number, over, 0)


# ---- Matching: receiver ----


def begin_round(dcpim, node):
    """Accept what the last round has granted, begin an epoch if this is its first round, and ask."""
    here = my_node(dcpim, node)
    number = here.round
    epoch = number // dcpim.r
    row = epoch & 1
    accept(dcpim, node, number - 1)
    if number % dcpim.r == 0:
        here.matched[row] = 0
        here.used[row] = 0
    ask(dcpim, node, number)
    here.counts[GRANTED] = 0
    if first_ranked(node) == NO_INCOMING and here.matched[0] + here.matched[1] == 0:
        here.staged = 0
    here.round += 1


def index_of(dcpim, node, epoch, src):
    """Index of the channels that a sender has in the present epoch or the last one; NONE if it has none."""
    here = my_node(dcpim, node)
    first = ROW * (epoch & 1)
    for i in range(first, first + here.matched[epoch & 1]):
        if channels_at(here, i).src == src:
            return i
    return NONE


def links_of(dcpim, node, epoch, src):
    i = index_of(dcpim, node, epoch, src)
    return 0 if i == NONE else channels_at(my_node(dcpim, node), i).links


def ask(dcpim, node, number):
    """A request to each sender whose shortest flow has more left than its channels of this epoch and the next carry."""
    here = my_node(dcpim, node)
    epoch = number // dcpim.r
    free = dcpim.k - here.used[epoch & 1]
    if free <= 0:
        return
    fill = max(dcpim.epoch // packet_time(dcpim, node) // dcpim.k, 1)
    incoming = first_ranked(node)
    while incoming != NO_INCOMING:
        peer = peers_at(here, incoming.src)
        if peer.asked < number + 1:
            peer.asked = number + 1
            left = my_incoming(dcpim, incoming).size - incoming.received
            has = links_of(dcpim, node, epoch, incoming.src) + links_of(dcpim, node, epoch - 1, incoming.src)
            links = min((packets_of(dcpim, left) + fill - 1) // fill - has, free)
            if links > 0:
                say(dcpim, node, incoming.src, REQUEST, number, links, left)
        incoming = incoming.after


def receive_grant(dcpim, node, pkt):
    here = my_node(dcpim, node)
    if here.staged and my_frame(dcpim, pkt).number + 1 == here.round:
        note_offer(dcpim, node, GRANTED, pkt)


def accept(dcpim, node, number):
    """Accept channels granted in a round, as far as there are some left in its epoch."""
    here = my_node(dcpim, node)
    epoch = number // dcpim.r
    row = epoch & 1
    best = best_offer(dcpim, node, GRANTED, number)
    while here.used[row] < dcpim.k and best != NONE:
        offer = offers_at(here, best)
        links = min(offer.links, dcpim.k - here.used[row])
        offer.links = 0
        here.used[row] += links
        i = index_of(dcpim, node, epoch, offer.host)
        if i == NONE:
            i = ROW * row + here.matched[row]
            here.matched[row] += 1
            channel = channels_at(here, i)
            channel.src = offer.host
            channel.links = 0
            channel.next = (epoch + 1) * dcpim.epoch
            channel.waits = 0
        channels_at(here, i).links += links
        say(dcpim, node, offer.host, ACCEPT, number, links, 0)
        best = best_offer(dcpim, node, GRANTED, number)


def receive_refusal(dcpim, node, pkt):
    frame = my_frame(dcpim, pkt)
    epoch = frame.number // dcpim.r
    i = index_of(dcpim, node, epoch, frame.host)
    if i != NONE and node.now // dcpim.epoch <= epoch + 1:
        channel = channels_at(my_node(dcpim, node), i)
        channel.links = max(channel.links - frame.links, 0)


# ---- Tokens: receiver ----


def begin(dcpim, node, incoming, size):
    """The first that is heard of a flow."""
    mine = my_incoming(dcpim, incoming)
    if mine.size > 0:
        return
    mine.size = size
    mine.packets = packets_of(dcpim, size)
    if mine.packets > dcpim.blind:
        want(dcpim, node, incoming)
        return
    mine.tokens = mine.packets
    mine.next = mine.packets
    my_node(dcpim, node).hold = mine.packets
    set_flow_timer(node, incoming, node.now + mine.packets * packet_time(dcpim, node) + resend_time(dcpim, node))


def resend_time(dcpim, node):
    return whole(dcpim.resend * dcpim.most * packet_time(dcpim, node))


def want(dcpim, node, incoming):
    """Place a flow that needs tokens, by what it has left, take part in the next round, and use channels that wait for it."""
    here = my_node(dcpim, node)
    peer = peers_at(here, incoming.src)
    left = my_incoming(dcpim, incoming).size - incoming.received
    if peer.best != incoming.number + 1 or not incoming.ranked:
        best = incoming_at(node, peer.best - 1)
        if best == NO_INCOMING or not best.ranked or left <= best.rank:
            peer.best = 0
    rank_incoming(node, incoming, left)
    if not here.staged:
        here.staged = 1
        here.round = node.now // dcpim.period + 1
        wake_by(node, dcpim.at.index, here.round * dcpim.period)
    i = index_of(dcpim, node, node.now // dcpim.epoch - 1, incoming.src)
    if i != NONE:
        channel = channels_at(here, i)
        if (channel.next == NEVER or channel.waits) and best_of(dcpim, node, incoming.src) == incoming.number:
            channel.next = node.now
            channel.waits = 0
            wake_by(node, dcpim.at.index, node.now)


def best_of(dcpim, node, src):
    """The flow of a sender that has the least left of those that need tokens: its number; NONE if there is none."""
    peer = peers_at(my_node(dcpim, node), src)
    incoming = incoming_at(node, peer.best - 1)
    if incoming == NO_INCOMING or not incoming.ranked:
        incoming = first_ranked(node)
        while incoming != NO_INCOMING and incoming.src != src:
            incoming = incoming.after
        peer.best = incoming.number + 1 if incoming != NO_INCOMING else 0
    return peer.best - 1


def give_tokens(dcpim, node):
    """Of the channels of this epoch, those whose turn has come."""
    here = my_node(dcpim, node)
    epoch = node.now // dcpim.epoch - 1
    first = ROW * (epoch & 1)
    until = (epoch + 2) * dcpim.epoch + dcpim.way + dcpim.k * packet_time(dcpim, node)
    for i in range(first, first + here.matched[epoch & 1]):
        channel = channels_at(here, i)
        if channel.next <= node.now:
            take_turn(dcpim, node, channel, until)
        if channel.next < (epoch + 2) * dcpim.epoch:
            wake_by(node, dcpim.at.index, channel.next)


def take_turn(dcpim, node, channel, until):
    here = my_node(dcpim, node)
    channel.waits = 0
    channel.next = NEVER
    if channel.links == 0:
        return
    step = packet_time(dcpim, node) * dcpim.k // channel.links
    if here.hold > 0:
        here.hold -= 1
        channel.next = node.now + step
        return
    incoming = incoming_at(node, best_of(dcpim, node, channel.src))
    if incoming == NO_INCOMING:
        return
    mine = my_incoming(dcpim, incoming)
    window = dcpim.most * channel.links // dcpim.k
    if mine.tokens - mine.used > window:
        end = mine.last + whole(dcpim.window_timeout * dcpim.most * packet_time(dcpim, node))
        if node.now < end:
            channel.next = end
            channel.waits = 1
            return
        mine.used = mine.tokens - window + 1
    channel.next = node.now + step
    send_token(dcpim, node, incoming, until)


def send_token(dcpim, node, incoming, until):
    mine = my_incoming(dcpim, incoming)
    frame = new_frame(node, dcpim.at.kind, TOKEN)
    about_incoming(frame, incoming)
    my_frame(dcpim, frame).number = mine.tokens
    my_frame(dcpim, frame).packet = mine.next
    my_frame(dcpim, frame).left = mine.size - incoming.received
    my_frame(dcpim, frame).until = until
    send_to_host(node, incoming.src, frame)
    mine.tokens += 1
    mine.last = node.now
    mine.next = missing_from(dcpim, incoming, mine.next + 1)
    if mine.next >= min(mine.packets, mine.clear + RING):
        unrank_incoming(node, incoming)
        set_flow_timer(node, incoming, node.now + resend_time(dcpim, node))


def missing_from(dcpim, incoming, number):
    """The first packet from this one on that has not arrived; beyond the last one if there is none."""
    mine = my_incoming(dcpim, incoming)
    number = max(number, mine.clear)
    while number < mine.clear + RING and has_bit(mine.arrived, number & (RING - 1)):
        number += 1
    return number


def on_flow_timer(dcpim, node, incoming):
    """Missing packets have new tokens."""
    mine = my_incoming(dcpim, incoming)
    mine.next = missing_from(dcpim, incoming, 0)
    want(dcpim, node, incoming)


def on_data(dcpim, node, incoming, pkt):
    if incoming.complete:
        unrank_incoming(node, incoming)
        set_flow_timer(node, incoming, NEVER)
        return True
    carried = my_packet(dcpim, pkt)
    begin(dcpim, node, incoming, carried.size)
    mine = my_incoming(dcpim, incoming)
    mtu = dcpim.at.world.mtu
    while (mine.clear + 1) * mtu <= incoming.expected:
        clear_bit(mine.arrived, mine.clear & (RING - 1))
        mine.clear += 1
    if pkt.seq > incoming.expected:
        set_bit(mine.arrived, pkt.seq // mtu & (RING - 1))
    mine.used = max(mine.used, carried.token + 1)
    if incoming.ranked:
        mine.next = missing_from(dcpim, incoming, mine.next)
        want(dcpim, node, incoming)
    return False


# ---- Tokens: sender ----


def on_start(dcpim, node, flow, pkt):
    mine = my_flow(dcpim, flow)
    mine.token = NONE
    mine.free = flow.size if packets_of(dcpim, flow.size) <= dcpim.blind else 0
    flow.window = mine.free
    set_rank(node, flow, flow.size if mine.free > 0 else LATER + flow.size)
    notify(dcpim, node, flow)


def notify(dcpim, node, flow):
    frame = new_frame(node, dcpim.at.kind, NOTIFY)
    about_sent(frame, flow)
    my_frame(dcpim, frame).left = flow.size
    send_to_host(node, flow.dst, frame)


def receive_token(dcpim, node, flow, pkt):
    frame = my_frame(dcpim, pkt)
    my_flow(dcpim, flow).heard = 1
    keep(dcpim, flow, frame.number, frame.packet, frame.until)
    set_rank(node, flow, LATER + frame.left)
    try_send(node, flow)


def keep(dcpim, flow, token, number, until):
    """A token for packet `number`; the oldest run gives way."""
    mine = my_flow(dcpim, flow)
    run = runs_at(mine, (mine.first + mine.run_count - 1) & (RUNS - 1))
    if mine.run_count == 0 or run.token + run.count != token or run.packet + run.count != number or run.until != until:
        if mine.run_count == RUNS:
            drop_run(dcpim, flow)
        run = runs_at(mine, (mine.first + mine.run_count) & (RUNS - 1))
        mine.run_count += 1
        run.token = token
        run.packet = number
        run.count = 0
        run.until = until
    run.count += 1
    mine.held += 1
    flow.resend = mine.held


def drop_run(dcpim, flow):
    mine = my_flow(dcpim, flow)
    mine.held -= runs_at(mine, mine.first).count
    mine.first = (mine.first + 1) & (RUNS - 1)
    mine.run_count -= 1


def choose_packet(dcpim, node, flow):
    """Use the oldest token that is good; -1 and an open window for one that sends the next new packet."""
    mine = my_flow(dcpim, flow)
    while mine.run_count > 0:
        run = runs_at(mine, mine.first)
        if run.count == 0 or node.now > run.until:
            drop_run(dcpim, flow)
        else:
            mine.token = run.token
            offset = run.packet * dcpim.at.world.mtu
            run.token += 1
            run.packet += 1
            run.count -= 1
            mine.held -= 1
            if offset < flow.sent:
                return offset
            flow.window = max(mine.free, flow.sent - flow.acked + dcpim.at.world.mtu)
            return -1
    return -1


def on_send(dcpim, node, flow, pkt):
    mine = my_flow(dcpim, flow)
    carried = my_packet(dcpim, pkt)
    carried.token = mine.token
    carried.size = flow.size
    if mine.free > 0 and mine.token == NONE:
        carried.token = pkt.seq // dcpim.at.world.mtu
        set_rank(node, flow, flow.size - flow.sent)
    size = packets_of(dcpim, flow.size) - 1
    level = 0
    while size >= dcpim.base and level < dcpim.levels - 1:
        size //= dcpim.base
        level += 1
    pkt.priority = level
    mine.token = NONE
    flow.window = mine.free
    flow.resend = mine.held


def on_timeout(dcpim, node, flow):
    mine = my_flow(dcpim, flow)
    flow.backoff = 0
    if not mine.heard or flow.sent == flow.size:
        notify(dcpim, node, flow)
        if flow.sent > 0:
            keep(dcpim, flow, NONE, 0, node.now + dcpim.at.world.rto)
            try_send(node, flow)
