"""ConWeave (Song et al., SIGCOMM 2023), sections 3.1 to 3.4: switches move flows off late paths and put packets in order again.

The source switch, the first one with several next hops, numbers a flow's epochs.  The first packet of one asks for a reply; if
none has come within the base RTT and `reply`, the next packet is the TAIL, the last one on the old path, and those after it, of
phase 1, take a new one.  The destination switch, the one before the host, answers and holds early packets of phase 1 in a virtual
output queue of the flow until the TAIL has passed, or a timer expires: `extra` after the TAIL is expected, which packets of phase
0 tell, or `wait` later where none was seen.  The answer to the TAIL, CLEAR, lets the next epoch begin, as does a pause of `idle`.

A new path is drawn at random; one that was marked within `pause` is passed over for a second draw, and if that was marked, too,
the flow stays.  Destinations report marks (NOTIFY); paths to another switch are other paths.  Marks are those of `ecn`
(`dcqcn+conweave`); without them any path is good.  Paths are source routes: a choice for each tier on the way up.

As in the authors' simulator (conweave-project/conweave-ns3), whose run.py sets, for leaf-spines, other values than its classes
have: 16 us for `pause` and `extra`, not 8.  A TAIL lets go a nanosecond later, all at once; a flow whose TAIL or CLEAR is lost
keeps its path until it pauses.  Not as there: tables have a size, and a flow that finds no place is sent by ECMP, or not held;
an epoch is the time of its first packet, so that one that is forgotten at one end only is no older; the base RTT is the largest
between two such switches, also for those in one pod; answers go by ECMP, from switch to switch, all of which need the scheme.
Packets whose payload was cut off are not held.  Hosts do not tolerate reordering unless another scheme says so, as there.

Known numbers: the paper has up to 42 % less mean and 67 % less p99 FCT than the best of others (abstract).  Expected before the
runs, with `dcqcn`, AliCloud's storage sizes and half as much capacity above ToRs as below (64 hosts, 8 spines, 1.5 ms, three
seeds): the smallest slowdowns with `conweave`, `flowlet` about as ECMP; 5 to 20 % of the mean less at a load of 0.5, 15 to 45 %
at 0.8, 10 to 60 % of the p99.  Found, mean and p99 with ECMP, `flowlet`, `conweave`: 1.89, 1.85, 1.53 and 12.4, 11.6, 6.0 at 0.5;
3.66, 3.81, 2.21 and 30.2, 34.0, 10.5 at 0.8: so up to 42 and 69 % less, the p99 more than expected.  No timer was early.
"""

title = "ConWeave"
structs = {
    "sender": {
        "owner": "int32",  # number of the flow, plus one
        "last": "time",  # of its packets
        "epoch": "time",
        "deadline": "time",  # of the reply; NEVER: none is awaited
        "tail": "time",  # when the TAIL of this epoch left
        "port": "int32",  # of its path, plus one
        "rest": "int32",  # and the choices beyond
        "phase": "int8",
        "stable": "int8",
    },
    "receiver": {
        "owner": "int32",
        "last": "time",
        "epoch": "time",
        "sent": "time",  # the last packet of phase 0 at its source
        "came": "time",
        "tail": "time",
        "voq": "int32",  # plus one; 0: nothing is held
        "phase": "int8",
        "known": "int8",  # a packet of phase 0 has come in this epoch
        "passed": "int8",  # the TAIL has, whose followers are held
    },
    "mark": {"until": "time", "there": "int32", "way": "int32"},
}
packet_state = {
    "epoch": "time",  # 0: no switch has had a choice yet
    "sent": "time",
    "tail": "time",
    "home": "int32",  # the source switch
    "way": "int32",  # the port there and the choices beyond
    "rest": "int32",  # choices that are still to come, and how many values they have
    "left": "int32",
    "phase": "int8",
    "asks": "int8",
    "turns": "int8",  # switches that have had a choice
}
frame_state = {"epoch": "time", "flow": "int32", "host": "int32", "home": "int32", "there": "int32", "way": "int32"}
node_state = {
    "senders": "sender[entries * switch]",
    "receivers": "receiver[entries * switch]",
    "marks": "mark[65536 * switch]",
    "holders": "int32[voqs * switch]",  # the entry whose packets a virtual output queue has
    "due": "time[voqs * switch]",
    "busy": "mask[(voqs // 64 + 1) * switch]",
}
scheme_state = {"tors": "int32[hosts]", "fan": "int32[8]", "up": "time[8]"}
parameters = {
    "reply": ("time", "4us", "a reply is late if it takes so much longer than the base RTT"),
    "pause": ("time", "16us", "a path that was marked is no new path for so long"),
    "extra": ("time 1000..1e15", "16us", "early packets are held so much longer than the TAIL is expected to take"),
    "wait": ("time", "200us", "and when nothing tells how long that is"),
    "idle": ("time 1..1e15", "300us", "a flow that pauses for longer begins an epoch, and may take a new path at once"),
    "age": ("time", "2ms", "a flow without packets for so long is forgotten where another one needs its entry"),
    "entries": ("int32 1..16777216", 65536, "of a switch for the flows that it sends, and as many for those that it receives"),
    "voqs": ("int32 1..16384", 1024, "virtual output queues of a switch, one for a flow whose packets it holds"),
    "rtt": ("time", 0, "base RTT between source and destination switches; 0 = that of the network's links"),
}
presets = {"fat_tree": {"extra": "64us", "wait": "600us", "idle": "1ms"}}  # the authors', for lossless fat trees
counts = {
    "rerouted": "times that a flow took another path",
    "held": "packets that came too early and were held",
    "late": "times that a timer let packets go before the TAIL had come",
    "notified": "marks that were reported",
    "crowded": "packets for which there was no entry or no virtual output queue",
}
fabric = {"voqs": "voqs"}

REPLY = 3  # commands of frames
CLEAR = 4
NOTIFY = 5
FIRST = 1  # what a packet asks for: a reply
TAIL = 2  # or a CLEAR
ECMP = -1  # an epoch: by the hash
PLACES = 4  # where an entry may be
TIERS = 8
SLOTS = 4096
MARKS = 65536
NS = 1000


def set_up_node(weave, node):
    """Which switch a host is at, and of each tier the uplinks of a switch and their delay.  Of several switches the first one."""
    ups = 0
    tier = min(node.tier, TIERS - 1)
    for slot in range(node.port_count):
        port = port_at(node, slot)
        if port.peer_node < weave.at.world.host_count:
            if weave.tors[port.peer_node] == 0:
                weave.tors[port.peer_node] = node.id
        elif port.up > 0:
            ups += 1
            if port.delay > weave.up[tier]:
                weave.up[tier] = port.delay
    if ups > weave.fan[tier]:
        weave.fan[tier] = ups


def on_send(weave, node, flow, pkt):
    my_packet(weave, pkt).epoch = 0


def is_balanced(pkt):
    return 1 if pkt.kind == DATA and not pkt.flags & RETURNED else 0


# ---- Paths ----


def choose_path(weave, node, port, pkt):
    if is_balanced(pkt):
        mine = my_packet(weave, pkt)
        if mine.epoch == 0:
            return depart(weave, node, pkt)
        if mine.epoch != ECMP:
            mine.turns += 1
            if mine.left > 1:
                count = path_count(node, pkt)
                index = mine.rest % count
                mine.rest //= count
                mine.left //= count
                return index
    return pick(pkt.hash, node.hash_seed, path_count(node, pkt))


def beyond(weave, node):
    """How many ways lead on from the next switch to the top."""
    ways = 1
    for tier in range(min(node.tier, TIERS - 1) + 1, TIERS):
        ways *= max(weave.fan[tier], 1)
    return ways


def base_rtt(weave, node):
    """Propagation to the top and down again, and back; where there is no top, that of hosts."""
    if weave.rtt > 0:
        return weave.rtt
    total = 0
    for tier in range(min(node.tier, TIERS - 1), TIERS):
        total += 4 * weave.up[tier]
    return total if total > 0 else weave.at.world.base_rtt


def mark_of(weave, node, there, way) -> mark:
    return marks_at(my_node(weave, node), hash31(hash31(way, there), node.hash_seed) % MARKS)


def is_marked(weave, node, there, way):
    found = mark_of(weave, node, there, way)
    return 1 if found.until > node.now and found.there == there and found.way == way else 0


def take_path(weave, node, pkt, sender):
    """A new path for a flow unless two that were drawn were marked; whether it has one.  Of a path with one choice the port alone
    is marked."""
    count = path_count(node, pkt)
    ways = beyond(weave, node)
    there = weave.tors[pkt.dst]
    for _i in range(2):
        drawn = draw(node, RANDOM_PATH) % (count * ways)
        slot = path_at(node, pkt, drawn % count).slot
        rest = drawn // count
        if sender.port == 0:  # a new flow has the first one even if all are marked
            sender.port = slot + 1
            sender.rest = rest
        if not is_marked(weave, node, there, ~slot) and not is_marked(weave, node, there, rest * SLOTS + slot):
            sender.port = slot + 1
            sender.rest = rest
            return 1
    return 0


def index_of(node, pkt, slot):
    """Which of a packet's next hops a port is; -1: none, routes have changed."""
    for i in range(path_count(node, pkt)):
        if path_at(node, pkt, i).slot == slot:
            return i
    return -1


# ---- Source switch ----


def sender_of(weave, node, number):
    """The entry of a flow; less than 0: it has none, and ~ of this one is free, or of the table's size."""
    mine = my_node(weave, node)
    found = weave.entries
    first = hash31(number, node.hash_seed + 5)
    for i in range(min(PLACES, weave.entries)):
        k = (first + i) % weave.entries
        sender = senders_at(mine, k)
        if sender.owner == number + 1:
            return k
        if found == weave.entries and (sender.owner == 0 or sender.last + weave.age < node.now):
            found = k
    return ~found


def depart(weave, node, pkt):
    """A packet at its source switch: its epoch, phase and path."""
    mine = my_packet(weave, pkt)
    k = sender_of(weave, node, pkt.number)
    expired = 1 if k < 0 else 0
    if k < 0:
        k = ~k
        if k == weave.entries:
            mine.epoch = ECMP
            my_node(weave, node).crowded += 1
            return pick(pkt.hash, node.hash_seed, path_count(node, pkt))
        sender = senders_at(my_node(weave, node), k)
        sender.owner = pkt.number + 1
        sender.port = 0
    sender = senders_at(my_node(weave, node), k)
    if sender.last + weave.idle < node.now:
        expired = 1
    mine.asks = 0
    mine.phase = sender.phase
    if expired or sender.stable:
        mine.asks = FIRST
        mine.phase = 0
        sender.epoch = node.now + 1
        sender.phase = 0
        sender.tail = 0
        sender.deadline = node.now + base_rtt(weave, node) + weave.reply
    elif sender.deadline < node.now:
        mine.asks = TAIL
        mine.phase = 0
        sender.phase = 1
        sender.tail = node.now
        sender.deadline = NEVER
    sender.stable = 0
    sender.last = node.now
    before = sender.port
    if expired:
        if take_path(weave, node, pkt, sender) and before > 0:
            my_node(weave, node).rerouted += 1
        before = sender.port
    index = index_of(node, pkt, before - 1)
    if index < 0:  # it is gone: at once, as nothing of it will come back
        sender.port = 0
        take_path(weave, node, pkt, sender)
        index = index_of(node, pkt, sender.port - 1)
    mine.epoch = sender.epoch
    mine.sent = node.now
    mine.tail = sender.tail
    mine.home = node.id
    mine.rest = sender.rest
    mine.left = beyond(weave, node)
    mine.way = sender.rest * SLOTS + path_at(node, pkt, index).slot
    mine.turns = 1
    if mine.asks == TAIL:
        if take_path(weave, node, pkt, sender):
            my_node(weave, node).rerouted += 1
    return index


def on_control(weave, node, port, pkt):
    """At the source switch, or at one on the way there."""
    told = my_frame(weave, pkt)
    if node.id != told.home:
        to = port_towards(node, pkt, told.host)
        if to != NO_PORT and to.peer_node >= weave.at.world.host_count:
            pass_on(weave, node, to, pkt)
        return
    if command_of(pkt) == NOTIFY:
        found = mark_of(weave, node, told.there, told.way)
        found.there = told.there
        found.way = told.way
        found.until = node.now + weave.pause
        return
    k = sender_of(weave, node, told.flow)
    if k < 0:
        return
    sender = senders_at(my_node(weave, node), k)
    in_time = 1 if node.now < sender.deadline and sender.deadline != NEVER else 0
    if told.epoch == sender.epoch and (in_time or command_of(pkt) == CLEAR):
        sender.stable = 1


def pass_on(weave, node, port, pkt):
    told = my_frame(weave, pkt)
    frame = new_frame(node, weave.at.kind, command_of(pkt))
    about_flow(frame, pkt)
    same = my_frame(weave, frame)
    same.epoch = told.epoch
    same.flow = told.flow
    same.host = told.host
    same.home = told.home
    same.there = told.there
    same.way = told.way
    send_frame(node, port.slot, frame)


# ---- Destination switch ----


def receiver_of(weave, node, number):
    """The same as sender_of.  An entry that holds packets is kept."""
    mine = my_node(weave, node)
    found = weave.entries
    first = hash31(number, node.hash_seed + 6)
    for i in range(min(PLACES, weave.entries)):
        k = (first + i) % weave.entries
        receiver = receivers_at(mine, k)
        if receiver.owner == number + 1:
            return k
        if found == weave.entries and (receiver.owner == 0 or (receiver.voq == 0 and receiver.last + weave.age < node.now)):
            found = k
    return ~found


def choose_voq(weave, node, port, pkt):
    """A data packet that has come to the switch before its host: answer it, and hold it if it is early."""
    mine = my_packet(weave, pkt)
    if not is_balanced(pkt) or port.peer_node >= weave.at.world.host_count or mine.epoch <= 0:
        return -1
    k = receiver_of(weave, node, pkt.number)
    if k < 0:
        k = ~k
        if k == weave.entries:
            my_node(weave, node).crowded += 1
            return -1
        receiver = receivers_at(my_node(weave, node), k)
        receiver.owner = pkt.number + 1
        receiver.epoch = 0
    receiver = receivers_at(my_node(weave, node), k)
    receiver.last = node.now
    if mine.epoch < receiver.epoch:
        return -1
    early = note(weave, node, receiver, pkt)
    held = -1
    if mine.phase == 0 and receiver.voq > 0:
        if mine.asks == TAIL:
            receiver.passed = 1
        set_due(weave, node, receiver.voq - 1, node.now + NS if mine.asks == TAIL else expected(weave, node, receiver))
    elif early and not pkt.flags & TRIMMED:
        held = hold(weave, node, receiver, k)
    if pkt.ecn:
        my_node(weave, node).notified += 1
        tell(weave, node, pkt, NOTIFY)
    if mine.asks == FIRST:
        tell(weave, node, pkt, REPLY)
    elif mine.asks == TAIL:
        tell(weave, node, pkt, CLEAR)
    return held


def note(weave, node, receiver, pkt):
    """What a packet of this epoch or of a new one says of the flow; whether it is early."""
    mine = my_packet(weave, pkt)
    if mine.phase == 0:
        receiver.sent = mine.sent
        receiver.came = node.now
    if receiver.epoch < mine.epoch:
        receiver.epoch = mine.epoch
        receiver.phase = 0
        receiver.known = 0
        if mine.asks == TAIL:
            receiver.phase = 1
    elif mine.asks == TAIL and receiver.voq == 0:  # else when what is held has been let go
        receiver.phase = 1
    if mine.phase == 0:
        receiver.known = 1
    if mine.asks == TAIL or mine.phase == 1:
        receiver.tail = mine.tail
    return 1 if mine.phase > receiver.phase else 0


def expected(weave, node, receiver):
    """When what is held is let go without a TAIL: it should come as long after the last packet of phase 0 as it was sent."""
    if receiver.known:
        return receiver.came + max(receiver.tail - receiver.sent, 0) + weave.extra
    return node.now + weave.wait + weave.extra


def hold(weave, node, receiver, k):
    """The virtual output queue of a flow; -1: there is none left."""
    mine = my_node(weave, node)
    if receiver.voq == 0:
        i = free_voq(weave, node)
        if i < 0:
            mine.crowded += 1
            return -1
        receiver.voq = i + 1
        mine.holders[i] = k
        set_bit(mine.busy, i)
        set_due(weave, node, i, expected(weave, node, receiver))
    mine.held += 1
    return receiver.voq - 1


def free_voq(weave, node):
    mine = my_node(weave, node)
    for w in range(mine.busy_count):
        if bits_set(mine.busy[w]) < 64:
            i = (w << 6) + lowest_bit(~mine.busy[w])
            return i if i < weave.voqs else -1
    return -1


def set_due(weave, node, i, when):
    my_node(weave, node).due[i] = max(when, node.now)
    wake_by(node, weave.at.index, max(when, node.now))


def tell(weave, node, pkt, command):
    """Answer a packet, or report its mark, to its source switch."""
    mine = my_packet(weave, pkt)
    to = port_towards(node, pkt, pkt.src)
    if to == NO_PORT:
        return
    frame = new_frame(node, weave.at.kind, command)
    about_flow(frame, pkt)
    told = my_frame(weave, frame)
    told.epoch = mine.epoch
    told.flow = pkt.number
    told.host = pkt.src
    told.home = mine.home
    told.there = node.id
    told.way = mine.way if mine.turns > 1 else ~(mine.way % SLOTS)
    send_frame(node, to.slot, frame)


def on_timer(weave, node):
    """Let go what is due, all of a flow at once."""
    mine = my_node(weave, node)
    soonest = NEVER
    for w in range(mine.busy_count):
        words = mine.busy[w]
        while words:
            i = (w << 6) + lowest_bit(words)
            words &= words - 1
            if mine.due[i] <= node.now:
                flush(weave, node, i)
            else:
                soonest = min(soonest, mine.due[i])
    wake_by(node, weave.at.index, soonest)


def flush(weave, node, i):
    mine = my_node(weave, node)
    receiver = receivers_at(mine, mine.holders[i])
    if not receiver.passed:
        mine.late += 1
    receiver.passed = 0
    receiver.voq = 0
    receiver.phase = 1
    clear_bit(mine.busy, i)
    while voq_at(node, i).length > 0:
        release(node, i)
