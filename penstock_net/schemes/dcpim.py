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
within an epoch waits for the next one; here a flow whose `resend` ends in an epoch has new ones in this one.  `simulator` has
its `resend`, with which a packet that waits at a switch is often sent twice.

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
    "min_rounds": (
        "int32 0..64",
        1,
        "first rounds of an epoch, in which the shortest flow is preferred (authors' configuration)",
    ),
    "window": ("int32 0..2000", 0, "tokens that are out on all channels, in packets; 0 = one bandwidth-delay product"),
    "window_timeout": (
        "float64 0.1..1000",
        1.1,
        "after the newest token, until one more is sent, in `window` packet times (there)",
    ),
    "resend": ("float64 0.1..1000", 1.2, "until missing packets have new tokens, in `window` packet times (there: 1)"),
    "at_once": ("int32 0..2000", 0, "packets of the longest flow that is sent at once; 0 = `window`"),
    "hold": ("bool", True, "as many turns of tokens are left out as a new short flow has packets (authors' simulator)"),
    "levels": ("int32 1..8", 6, "priorities of data at switches (authors' simulator)"),
    "base": ("int32 2..1000", 7, "packets of a flow of the first level, whose powers bound the others (authors' simulator)"),
}
presets = {"default": {"host.control": 40}, "simulator": {"resend": 1.0, "host.control": 40}}
fabric = {"queues": "levels", "reordering": 1, "nic_order": 1, "one_link": 1, "own_answers": 1}
structs = {
    "offer": {"host": "int32", "links": "int32", "left": "int64"},  # a request or a grant; host: who sent it
    "channel": {"src": "int32", "links": "int32", "next": "time", "waits": "int32"},  # next turn; waits: what arrives may end it
    "peer": {
        "asked": "int64",
        "best": "int64",
    },  # round of its last request; its shortest flow; each plus one
}
packet_state = {"token": "int64", "size": "int64"}
frame_state = {
    "host": "int64",
    "round": "int64",
    "links": "int32",
    "left": "int64",
    "token": "int64",
    "packet": "int64",
    "until": "time",
}
flow_state = {
    "tokens": "int64[4]",  # held ones, a ring of runs: their first numbers, packets, how many, and end
    "packets": "int64[4]",
    "counts": "int64[4]",
    "until": "time[4]",
    "first": "int32",
    "runs": "int32",
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
    "requests": "offer[hosts * (1 - switch)]",  # of round `requested`
    "grants": "offer[hosts * (1 - switch)]",  # of the last round
    "channels": "channel[32 * (1 - switch)]",  # of this receiver: of epochs with even, with odd numbers
    "matched": "int64[2]",  # senders that have some
    "used": "int64[2]",  # channels
    "epochs": "int64[2]",  # number of the epoch, plus one
    "request_count": "int64",
    "requested": "int64",
    "grant_count": "int64",
    "staged": "int32",  # takes part in round `round`
    "round": "int64",
    "giving": "int64",  # of this sender: an epoch, plus one
    "given": "int64",  # its channels
    "hold": "int64",
}
records = {"given": "channels that this sender has given in the last epoch in which it was asked"}
scheme_state = {
    "period": "int64",
    "half": "int64",
    "epoch": "int64",
    "way": "int64",
    "most": "int64",
    "blind": "int64",
}

NOTIFY = 3  # commands of frames
REQUEST = 4
GRANT = 5
ACCEPT = 6
REFUSE = 7
TOKEN = 8
NONE = -1
RUNS = 4
LAST_RUN = 3
RING = 2048
LAST_BIT = 2047
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
    """Of a full packet on a host's line."""
    return whole(dcpim.at.world.quantum * port_at(node, 0).ps_per_byte)


def packets_of(dcpim, size):
    return (size + dcpim.at.world.mtu - 1) // dcpim.at.world.mtu


def say(dcpim, node, host, command, number, links, left):
    """A message of the matching of a round."""
    frame = new_frame(node, dcpim.at.kind, command)
    my_frame(dcpim, frame).host = node.id
    my_frame(dcpim, frame).round = number
    my_frame(dcpim, frame).links = links
    my_frame(dcpim, frame).left = left
    send_to_host(node, host, frame)


def key_of(dcpim, node, offer, number):
    """What is preferred has the smallest one."""
    if number % dcpim.r < dcpim.min_rounds:
        return offer.left
    return hash31(offer.host, hash31(node.id, number))


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
    if here.request_count > 0 and node.now >= here.requested * dcpim.period + dcpim.half:
        grant(dcpim, node)
    give_tokens(dcpim, node)
    if here.staged:
        wake_by(node, dcpim.at.index, here.round * dcpim.period)
    if here.request_count > 0:
        wake_by(node, dcpim.at.index, here.requested * dcpim.period + dcpim.half)


# ---- Matching: sender ----


def receive_request(dcpim, node, pkt):
    here = my_node(dcpim, node)
    frame = my_frame(dcpim, pkt)
    due = frame.round * dcpim.period + dcpim.half
    if node.now > due:
        return
    if here.requested != frame.round:
        here.request_count = 0
        here.requested = frame.round
    offer = requests_at(here, here.request_count)
    offer.host = frame.host
    offer.links = frame.links
    offer.left = frame.left
    here.request_count += 1
    wake_by(node, dcpim.at.index, due)


def grant(dcpim, node):
    """Half of a round has passed: give the channels that are left to those that have asked in this round."""
    here = my_node(dcpim, node)
    number = here.requested
    enter(dcpim, node, number // dcpim.r)
    free = dcpim.k - here.given
    while free > 0:
        best = NONE
        least = NEVER
        for i in range(here.request_count):
            offer = requests_at(here, i)
            if offer.links > 0:
                key = key_of(dcpim, node, offer, number)
                if key < least or (key == least and offer.host < requests_at(here, best).host):
                    best = i
                    least = key
        if best == NONE:
            break
        offer = requests_at(here, best)
        links = min(offer.links, free)
        free -= links
        say(dcpim, node, offer.host, GRANT, number, links, offer.left)
        offer.links = 0
    here.request_count = 0


def enter(dcpim, node, epoch):
    """Forget what this sender has given in an older epoch."""
    here = my_node(dcpim, node)
    if here.giving < epoch + 1:
        here.giving = epoch + 1
        here.given = 0


def receive_accept(dcpim, node, pkt):
    here = my_node(dcpim, node)
    frame = my_frame(dcpim, pkt)
    epoch = frame.round // dcpim.r
    enter(dcpim, node, epoch)
    if here.giving == epoch + 1:
        here.given += frame.links
        over = here.given - dcpim.k
        if over > 0:
            here.given = dcpim.k
            say(dcpim, node, frame.host, REFUSE, frame.round, over, 0)


# ---- Matching: receiver ----


def join(dcpim, node):
    """Take part in the next round."""
    here = my_node(dcpim, node)
    if not here.staged:
        here.staged = 1
        here.round = node.now // dcpim.period + 1
        wake_by(node, dcpim.at.index, here.round * dcpim.period)


def begin_round(dcpim, node):
    """Accept what the last round has granted, begin an epoch if this is its first round, and ask."""
    here = my_node(dcpim, node)
    number = here.round
    epoch = number // dcpim.r
    row = epoch & 1
    accept(dcpim, node, number - 1)
    if here.epochs[row] != epoch + 1:
        here.epochs[row] = epoch + 1
        here.matched[row] = 0
        here.used[row] = 0
    if number % dcpim.r == 0:
        start_channels(dcpim, node, epoch - 1)
    ask(dcpim, node, number)
    here.grant_count = 0
    more = here.matched[row]
    if here.epochs[1 - row] == epoch:
        more += here.matched[1 - row]
    if first_ranked(node) == NO_INCOMING and more == 0:
        here.staged = 0
    here.round += 1


def start_channels(dcpim, node, epoch):
    here = my_node(dcpim, node)
    row = epoch & 1
    if here.epochs[row] == epoch + 1:
        for i in range(here.matched[row]):
            channels_at(here, ROW * row + i).next = node.now
            channels_at(here, ROW * row + i).waits = 0


def index_of(dcpim, node, epoch, src):
    """Index of the channels that a sender has in an epoch; NONE if it has none."""
    here = my_node(dcpim, node)
    row = epoch & 1
    if epoch >= 0 and here.epochs[row] == epoch + 1:
        for i in range(here.matched[row]):
            if channels_at(here, ROW * row + i).src == src:
                return ROW * row + i
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
    frame = my_frame(dcpim, pkt)
    if here.staged and frame.round + 1 == here.round:
        offer = grants_at(here, here.grant_count)
        offer.host = frame.host
        offer.links = frame.links
        offer.left = frame.left
        here.grant_count += 1


def accept(dcpim, node, number):
    """Accept channels granted in a round, as far as there are some left in its epoch."""
    here = my_node(dcpim, node)
    row = number // dcpim.r & 1
    while here.grant_count > 0 and here.used[row] < dcpim.k:
        best = NONE
        least = NEVER
        for i in range(here.grant_count):
            offer = grants_at(here, i)
            if offer.links > 0:
                key = key_of(dcpim, node, offer, number)
                if key < least or (key == least and offer.host < grants_at(here, best).host):
                    best = i
                    least = key
        if best == NONE:
            return
        offer = grants_at(here, best)
        links = min(offer.links, dcpim.k - here.used[row])
        offer.links = 0
        here.used[row] += links
        i = index_of(dcpim, node, number // dcpim.r, offer.host)
        if i == NONE:
            i = ROW * row + here.matched[row]
            here.matched[row] += 1
            channels_at(here, i).src = offer.host
            channels_at(here, i).links = 0
            channels_at(here, i).next = NEVER
        channels_at(here, i).links += links
        say(dcpim, node, offer.host, ACCEPT, number, links, 0)


def receive_refusal(dcpim, node, pkt):
    frame = my_frame(dcpim, pkt)
    i = index_of(dcpim, node, frame.round // dcpim.r, frame.host)
    if i != NONE:
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
    if dcpim.hold:
        my_node(dcpim, node).hold = mine.packets
    set_flow_timer(node, incoming, node.now + mine.packets * packet_time(dcpim, node) + resend_time(dcpim, node))


def resend_time(dcpim, node):
    return whole(dcpim.resend * dcpim.most * packet_time(dcpim, node))


def want(dcpim, node, incoming):
    """Tokens for what is missing: in the order of flows, by what they have left."""
    rank(dcpim, node, incoming)
    join(dcpim, node)
    wake_channel(dcpim, node, incoming)


def rank(dcpim, node, incoming):
    """Place a flow, and note it if it is its sender's shortest one now."""
    peer = peers_at(my_node(dcpim, node), incoming.src)
    left = my_incoming(dcpim, incoming).size - incoming.received
    rank_incoming(node, incoming, left)
    if peer.best != incoming.number + 1 and peer.best != 0:
        best = incoming_at(node, peer.best - 1)
        if best == NO_INCOMING or left <= best.rank:
            peer.best = 0


def unrank(dcpim, node, incoming):
    peer = peers_at(my_node(dcpim, node), incoming.src)
    if peer.best == incoming.number + 1:
        peer.best = 0
    unrank_incoming(node, incoming)


def best_of(dcpim, node, src):
    """The flow of a sender that has the least left: its number; NONE if there is none."""
    peer = peers_at(my_node(dcpim, node), src)
    if peer.best == 0:
        incoming = first_ranked(node)
        while incoming != NO_INCOMING and incoming.src != src:
            incoming = incoming.after
        if incoming != NO_INCOMING:
            peer.best = incoming.number + 1
    return peer.best - 1


def wake_channel(dcpim, node, incoming):
    """What has been heard of a flow, if it is the shortest one of its sender, lets channels go on that have waited for it."""
    epoch = node.now // dcpim.epoch - 1
    i = index_of(dcpim, node, epoch, incoming.src)
    if i == NONE:
        return
    channel = channels_at(my_node(dcpim, node), i)
    if (channel.next == NEVER or channel.waits) and best_of(dcpim, node, incoming.src) == incoming.number:
        channel.next = node.now
        channel.waits = 0
        wake_by(node, dcpim.at.index, node.now)


def give_tokens(dcpim, node):
    """Of the channels of this epoch, those whose turn has come."""
    here = my_node(dcpim, node)
    epoch = node.now // dcpim.epoch - 1
    row = epoch & 1
    if epoch < 0 or here.epochs[row] != epoch + 1:
        return
    until = (epoch + 2) * dcpim.epoch + dcpim.way + dcpim.k * packet_time(dcpim, node)
    for i in range(here.matched[row]):
        channel = channels_at(here, ROW * row + i)
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
    my_frame(dcpim, frame).token = mine.tokens
    my_frame(dcpim, frame).packet = mine.next
    my_frame(dcpim, frame).left = mine.size - incoming.received
    my_frame(dcpim, frame).until = until
    send_to_host(node, incoming.src, frame)
    mine.tokens += 1
    mine.last = node.now
    mine.next = missing_from(dcpim, incoming, mine.next + 1)
    if mine.next >= min(mine.packets, mine.clear + RING):
        unrank(dcpim, node, incoming)
        set_flow_timer(node, incoming, node.now + resend_time(dcpim, node))


def missing_from(dcpim, incoming, number):
    """The first packet from this one on that has not arrived; beyond the last one if there is none."""
    mine = my_incoming(dcpim, incoming)
    number = max(number, mine.clear)
    while number < mine.clear + RING and has_bit(mine.arrived, number & LAST_BIT):
        number += 1
    return number


def on_flow_timer(dcpim, node, incoming):
    """Missing packets have new tokens."""
    mine = my_incoming(dcpim, incoming)
    mine.next = missing_from(dcpim, incoming, 0)
    want(dcpim, node, incoming)


def on_data(dcpim, node, incoming, pkt):
    if incoming.complete:
        unrank(dcpim, node, incoming)
        set_flow_timer(node, incoming, NEVER)
        return True
    carried = my_packet(dcpim, pkt)
    begin(dcpim, node, incoming, carried.size)
    mine = my_incoming(dcpim, incoming)
    mtu = dcpim.at.world.mtu
    while (mine.clear + 1) * mtu <= incoming.expected:
        clear_bit(mine.arrived, mine.clear & LAST_BIT)
        mine.clear += 1
    if pkt.seq > incoming.expected:
        set_bit(mine.arrived, pkt.seq // mtu & LAST_BIT)
    mine.used = max(mine.used, carried.token + 1)
    if incoming.ranked:
        mine.next = missing_from(dcpim, incoming, mine.next)
        rank(dcpim, node, incoming)
        wake_channel(dcpim, node, incoming)
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
    keep(dcpim, flow, frame.token, frame.packet, frame.until)
    set_rank(node, flow, LATER + frame.left)
    try_send(node, flow)


def keep(dcpim, flow, token, number, until):
    """A token for packet `number`; the oldest run gives way."""
    mine = my_flow(dcpim, flow)
    last = (mine.first + mine.runs - 1) & LAST_RUN
    count = mine.counts[last]
    if mine.runs == 0 or mine.tokens[last] + count != token or mine.packets[last] + count != number or mine.until[last] != until:
        if mine.runs == RUNS:
            drop_run(dcpim, flow)
        last = (mine.first + mine.runs) & LAST_RUN
        mine.runs += 1
        mine.tokens[last] = token
        mine.packets[last] = number
        mine.counts[last] = 0
        mine.until[last] = until
    mine.counts[last] += 1
    mine.held += 1
    flow.resend = mine.held


def drop_run(dcpim, flow):
    mine = my_flow(dcpim, flow)
    mine.held -= mine.counts[mine.first]
    mine.first = (mine.first + 1) & LAST_RUN
    mine.runs -= 1


def choose_packet(dcpim, node, flow):
    """Use the oldest token that is good; -1 and an open window for one that sends the next new packet."""
    mine = my_flow(dcpim, flow)
    while mine.runs > 0:
        i = mine.first
        if mine.counts[i] == 0 or node.now > mine.until[i]:
            drop_run(dcpim, flow)
        else:
            mine.token = mine.tokens[i]
            offset = mine.packets[i] * dcpim.at.world.mtu
            mine.tokens[i] += 1
            mine.packets[i] += 1
            mine.counts[i] -= 1
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
    pkt.priority = level_of(dcpim, packets_of(dcpim, flow.size))
    mine.token = NONE
    flow.window = mine.free
    flow.resend = mine.held


def level_of(dcpim, packets):
    level = 0
    most = 1 * dcpim.base
    while packets > most and level < dcpim.levels - 1:
        most *= dcpim.base
        level += 1
    return level


def on_timeout(dcpim, node, flow):
    mine = my_flow(dcpim, flow)
    flow.backoff = 0
    if not mine.heard or flow.sent == flow.size:
        notify(dcpim, node, flow)
        if flow.sent > 0:
            keep(dcpim, flow, NONE, 0, node.now + dcpim.at.world.rto)
            try_send(node, flow)
