"""Backpressure Flow Control (Goyal et al., NSDI 2022): the backpressure of section 3.3.2; its queue assignment is dqa.py.

A packet that finds its queue longer than Th = HRTT * mu / N_active increments the pause counter of <ingress, upstreamQ>, and
decrements it when it leaves.  0 -> 1 pauses that queue at the upstream switch or NIC, 1 -> 0 resumes it.  A bitmap of the paused
queues is sent every `refresh`, which repairs lost pauses and resumes.

With `elide` (appendix B) a switch never pauses for packets that come from above and leave upwards; what then has no room is
dropped. Above is a higher tier or, within a tier, a higher number of the node. Without these edges no backpressure graph has a
cycle, whatever fails, and in a Clos network whose links are up there are none to remove (topology/backpressure.py).

NICs that ignore pauses (`nic_pauses`, appendix A.8) need a cap on their flows' windows, in the paper one bandwidth-delay product:
`bfc+window_cap`. Switches without BFC are named in `plain_switches`. bfc_tofino2.py has the constraints of hardware.

`resume_at` is ours (docs/early-resume.md): a queue is resumed while some marked packets are left, at most so many one-hop
bandwidth-delay products per active queue. With the paper's 0 its last marked packet is usually the last one of the queue here,
which then is empty for HRTT. `early` is one such product: what is left lasts until the first packet of the resumed queue comes.
"""

title = "BFC"
includes = ["dqa"]
structs = {"need": {"lossless": "int64", "full_rate": "int64", "flows": "int32", "classes": "int32"}}
packet_state = {"counter_incr": "int16", "upstream_q": "int16"}
port_state = {
    "pause_counter": "int32[upstreams]",
    "asked": "mask[upstreams // 32]",  # bitmaps of 32 queues: those that this port pauses at its neighbour
    "one_hop_bdp": "int64",
    "resume_at": "int32",  # full packets, times N_active
    "quiet": "int32",
    "upwards": "int32",
    "buffer": "need[1]",
}
node_state = {"obeyed": "mask[upstreams // 32 * ports]"}  # the same of queues here, by 32 and port: paused, or were of late
parameters = {
    "th": ("float64", 1.0, "pause threshold in one-hop bandwidth-delay products per active queue (section 3.3.2)"),
    "th_bytes": ("bytes", 0, "a fixed pause threshold instead; 0 = none (figure 7)"),
    "edge_th_bytes": ("bytes", 0, "the same from a virtual switch to its applications (Backdraft's Th_net); 0 = as elsewhere"),
    "resume_at": (
        "float64 0..1000",
        0.0,
        "marked packets left when a queue is resumed, in one-hop bandwidth-delay products per active queue; 0 = the paper's",
    ),
    "nic_queues": ("int32 1..1024", 128, "NIC queues, given to flows as they start; NICs obey pauses (section 3.3.2)"),
    "refresh": ("time", "10us", "period of the pause bitmap; 0 = never send it"),
    "elide": ("bool", False, "no backpressure for packets that turn upwards, so that nothing deadlocks (appendix B)"),
    "nic_pauses": ("bool", True, "NICs obey pauses; if not, their flows need a window (section 5, appendix A.8)"),
}
presets = {
    "unpaused": {"dqa.assignment": "unpaused"},
    "early": {"resume_at": 1.0},
    "penstock": {"dqa.assignment": "penstock", "resume_at": 1.0},
    # the BFC in the simulator of Pyrrha's authors: 7 data queues, no bitmap; paused queues are never given away there
    "pyrrha_ns3": {"dqa.queues": 7, "dqa.assignment": "unpaused", "refresh": 0},
    # its flow ids exact (here: a table in which flows hardly meet), sticky queues kept for their flows while others are free
    "pyrrha_ns3_kept": {"dqa.queues": 7, "dqa.table": 10000, "dqa.assignment": "reserved", "refresh": 0},
}
fabric = {"nic_queues": "nic_queues", "pauses_queues": 1}

PERIODS = 64  # refreshes sent after the last queue of a port was resumed


def set_up_node(bfc, node):
    """One-hop BDPs.  HRTT is the largest over the ingresses, since a queue may have packets from each of them."""
    frame = bfc.at.world.mtu + bfc.at.world.header
    hrtt = 0
    for slot in range(node.port_count):
        hrtt = max(hrtt, 2 * port_at(node, slot).delay)
    for slot in range(node.port_count):
        port = port_at(node, slot)
        my_port(bfc, port).one_hop_bdp = whole(bfc.th * hrtt / port.ps_per_byte)
        my_port(bfc, port).resume_at = whole(bfc.resume_at * hrtt / port.ps_per_byte / frame)
        my_port(bfc, port).upwards = 1 if bfc.elide and is_above(node, port) else 0
        say_needs(bfc, port)


def say_needs(bfc, port):
    """What one queue of the neighbour may store here: a threshold, and what still comes after a pause, two delays of the link and
    three frames.  Of fewer than `flows` flows, each in a queue of its own, a link idles after each resume for more than a
    packet: the other queues' last packets, and what is left of the resumed ones, do not last until these send again."""
    mine = my_port(bfc, port)
    world = bfc.at.world
    bdp = whole(port.delay / port.peer_ps_per_byte) + 1
    th = bfc.th_bytes if bfc.th_bytes > 0 else mine.one_hop_bdp
    need = buffer_at(mine, 0)
    need.lossless = th + 2 * bdp + 3 * (world.quantum + world.control)
    need.full_rate = need.lossless
    packets = whole(2 * port.delay / (world.quantum * port.ps_per_byte))
    flows = 1
    while flows + flows * (mine.resume_at // flows) <= packets:
        flows += 1
    need.flows = flows
    need.classes = port.peer_queues


def exceeds_threshold(bfc, node, port, queue):
    """Th = HRTT mu / N_active, compared without a division; the arriving packet and its queue are counted."""
    if bfc.edge_th_bytes and node.tier == 0 and port.peer_node < bfc.at.world.host_count:
        return queue.bytes > bfc.edge_th_bytes
    if bfc.th_bytes:
        return queue.bytes > bfc.th_bytes
    n_active = port.active
    if queue.paused:
        n_active += 1
    return queue.bytes * n_active > my_port(bfc, port).one_hop_bdp


def is_above(node, port):
    """Whether a port leads to a node above this one."""
    return 1 if port.up > 0 or (port.up == 0 and port.peer_node > node.id) else 0


def is_elided(bfc, node, port, pkt):
    """Whether the edge of the backpressure graph from this egress to the one that the packet came from is removed."""
    return my_port(bfc, port).upwards & my_port(bfc, port_at(node, pkt.in_port)).upwards


def waited(node, pkt):
    """Whether a packet comes from a queue of the neighbour, which can be paused: a NIC's ACKs are in none."""
    return 1 if pkt.queue < port_at(node, pkt.in_port).peer_queues else 0


def on_enqueue(bfc, node, port, queue, pkt):
    mine = my_packet(bfc, pkt)
    mine.counter_incr = 0
    if exceeds_threshold(bfc, node, port, queue) and waited(node, pkt) and not is_elided(bfc, node, port, pkt):
        mine.counter_incr = 1
        mine.upstream_q = pkt.queue
        ingress = my_port(bfc, port_at(node, pkt.in_port))
        ingress.pause_counter[mine.upstream_q] += 1
        if not ingress.asked[mine.upstream_q >> 5] & bit(mine.upstream_q & 31):
            ingress.asked[mine.upstream_q >> 5] |= bit(mine.upstream_q & 31)
            send_control(node, pkt.in_port, bfc.at.kind, PAUSE, mine.upstream_q, 0)
            expect_refresh(bfc, node, port_at(node, pkt.in_port))


def on_dequeue(bfc, node, port, queue, pkt):
    mine = my_packet(bfc, pkt)
    if mine.counter_incr:
        ingress = my_port(bfc, port_at(node, pkt.in_port))
        ingress.pause_counter[mine.upstream_q] -= 1
        if ingress.pause_counter[mine.upstream_q] <= my_port(bfc, port).resume_at // max(port.active, 1):
            resume(bfc, node, pkt.in_port, mine.upstream_q)


def resume(bfc, node, slot, q):
    """Resume a queue of the neighbour at port `slot`, unless that has been done."""
    ingress = my_port(bfc, port_at(node, slot))
    if ingress.asked[q >> 5] & bit(q & 31):
        ingress.asked[q >> 5] &= ~bit(q & 31)
        send_control(node, slot, bfc.at.kind, RESUME, q, 0)


def on_control(bfc, node, port, pkt):
    if node.is_host and not bfc.nic_pauses:
        return
    q = value_of(pkt)
    if command_of(pkt) == PAUSE:
        obey(bfc, node, port, q, 1)
    elif command_of(pkt) == RESUME:
        obey(bfc, node, port, q, 0)
    else:
        apply_bitmap(bfc, node, port, q, mask_of(pkt))


def obey(bfc, node, port, q, paused):
    if not paused:
        resume_queue(node, port, q, bfc.at.bit)
        return
    pause_queue(node, port, q, bfc.at.bit)
    if q >= 0 and q < port.queue_count:
        my_node(bfc, node).obeyed[(q >> 5) * node.port_count + port.slot] |= bit(q & 31)


def apply_bitmap(bfc, node, port, first, mask):
    """Pause or resume 32 queues, from `first` on, as the bitmap says; those that neither are paused nor were are not visited."""
    if first < 0 or first >= port.queue_count:
        return
    mine = my_node(bfc, node)
    place = (first >> 5) * node.port_count + port.slot
    left = mine.obeyed[place]
    left |= mask
    mine.obeyed[place] = mask
    while left:
        i = lowest_bit(left)
        left &= left - 1
        if first + i < port.queue_count:
            paused = 1 if queue_at(port, first + i).paused & bfc.at.bit else 0
            if paused != mask >> i & 1:
                obey(bfc, node, port, first + i, 1 - paused)


def expect_refresh(bfc, node, port):
    """Bitmaps are sent at multiples of the period while a port has, or recently had, queues paused upstream."""
    my_port(bfc, port).quiet = PERIODS
    if bfc.refresh and node.deadlines[bfc.at.index] == NEVER:
        set_timer(node, bfc.at.index, (node.now // bfc.refresh + 1) * bfc.refresh)


def send_bitmap(bfc, node, slot):
    port = port_at(node, slot)
    ingress = my_port(bfc, port)
    ingress.quiet -= 1
    for first in range(0, ingress.pause_counter_count, 32):
        mask = ingress.asked[first >> 5]
        if mask:
            ingress.quiet = PERIODS
        if first < port.peer_queues:
            send_control(node, slot, bfc.at.kind, REFRESH, first, mask)


def on_timer(bfc, node):
    again = 0
    for slot in range(node.port_count):
        if my_port(bfc, port_at(node, slot)).quiet > 0:
            send_bitmap(bfc, node, slot)
            again = 1
    if again:
        set_timer(node, bfc.at.index, node.now + bfc.refresh)
