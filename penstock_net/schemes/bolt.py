"""Bolt: Sub-RTT Congestion Control for Ultra-Low Latency (Arslan et al., NSDI 2023), section 3 and the authors' simulator.

SRC, sub-RTT control: a data packet that finds cc_threshold bytes or more at its egress port makes the switch send a small
packet, SRC, straight back to the source: when the packet was sent, the queue and the rate of the link.  The packet is marked
dec, so that no other switch sends one for it.  The source takes a packet off cwnd, but no more often than rtt_src / (queue in
packets * its share of the link): together the sources drain the queue in the time that an SRC takes.

PRU, proactive ramp-up: packets of a flow's last window (last) will call for no more, so that each leaves a token at its port;
a flow whose first window fits it whole (first) held no share of the link and leaves none.  SM, supply matching: a port counts
what its line could have sent less what came, at most sm_max.  A packet that asks for growth (inc: of no first and no last
window) uses up a token of PRU, or a full packet of SM; the ACK returns inc and cwnd grows by a packet.  Without either inc is
cleared. cwnd also grows by ai packets per RTT, whatever the switches say.

Losses: a NACK or a timeout cuts cwnd by max_md, at most once per RTT.  A cwnd of up to one packet is cut so by each SRC; one
below is a packet every rtt mss / cwnd.

A queue is what is stored for the port, without the packet that has come and what is on the line; control frames do not count.
Nor do ACKs, and what nobody answers (open-loop flows) uses supply alone. Left out: the sender's own port, which in the
authors' simulator is a hop too, and pacing of a last part of a window.  The defaults are those of the authors' experiments.
`pru_max` 0 leaves out PRU, `sm_max` 1 SM.
"""

title = "Bolt"
includes = ["pfc"]
packet_state = {"tx_time": "time", "first": "int8", "last": "int8", "inc": "int8", "dec": "int8"}
frame_state = {"tx_time": "time", "queue_size": "int64", "ps_per_byte": "float64"}
flow_state = {"cwnd": "int64", "rtt": "time", "last_dec_time": "time", "seq_no_at_last_ai": "int64", "paced": "int32"}
port_state = {"sm_token": "float64", "last_sm_time": "time", "pru_token": "int32"}
port_counts = {"srcs": "SRC packets sent because of this port's queue"}
port_records = {"pru_token": "tokens of PRU, packets", "sm_token": "supply, bytes"}
fabric = {"each_acked": 1}
scheme_state = {"full": "int64", "threshold": "int64", "supply": "int64", "largest": "int64"}
parameters = {
    "cc_threshold": ("bytes", 0, "queue from which on SRCs are sent; 0 = two full packets (authors' scripts)"),
    "pru_max": ("int32 0..1000000", 256, "most tokens of PRU at a port (authors' code)"),
    "sm_max": ("bytes", 0, "most supply that a port keeps; 0 = a full packet (authors' scripts)"),
    "ai": ("float64 0..1000", 1.0, "additive increase, packets per RTT"),
    "max_md": ("float64 0..0.99", 0.5, "share by which a loss, or an SRC at a packet or less, cuts cwnd (authors' code)"),
    "target_q": ("bytes", 0, "queue that SRCs are to leave (authors' code)"),
    "least_cwnd": ("bytes 1..1000000", 15, "smallest window (authors' code)"),
    "largest_cwnd": ("bytes", 0, "largest window; 0 = one bandwidth-delay product (authors' star and fat trees)"),
    "stamp_bytes": (
        "bytes 0..1000",
        11,
        "on every data packet: flags, time stamp, drain time and hops (authors' header)",
    ),
}
presets = {
    # what the classes of the authors' simulator have by themselves; their scripts set what is the default here
    "ns3": {"cc_threshold": "62KB", "sm_max": "30KB", "largest_cwnd": 373760},
}

SRC = 3  # command of frames


def set_up(bolt):
    bolt.full = bolt.at.world.quantum + bolt.stamp_bytes
    bolt.threshold = bolt.cc_threshold if bolt.cc_threshold > 0 else 2 * bolt.full
    bolt.supply = bolt.sm_max if bolt.sm_max > 0 else bolt.full
    bolt.largest = bolt.largest_cwnd if bolt.largest_cwnd > 0 else bolt.at.world.bdp


# ---- Switches ----


def on_enqueue(bolt, node, port, queue, pkt):
    if pkt.kind != DATA:
        return
    mine = my_port(bolt, port)
    calculate_supply_token(bolt, node, port, pkt)
    if pkt.flags & UNANSWERED:
        return
    carried = my_packet(bolt, pkt)
    queue_size = port.bytes - pkt.size
    if queue_size >= bolt.threshold:
        carried.inc = 0
        if not carried.dec:
            carried.dec = 1
            send_src(bolt, node, port, pkt, queue_size)
    elif carried.last:
        if not carried.first and mine.pru_token < bolt.pru_max:
            mine.pru_token += 1
    elif carried.inc:
        if mine.pru_token > 0:
            mine.pru_token -= 1
        elif mine.sm_token >= bolt.full:
            mine.sm_token -= bolt.full
        else:
            carried.inc = 0


def calculate_supply_token(bolt, node, port, pkt):
    """Supply less demand since the last packet came."""
    mine = my_port(bolt, port)
    supply = float(node.now - mine.last_sm_time) / port.ps_per_byte
    mine.last_sm_time = node.now
    mine.sm_token = min(mine.sm_token + supply - pkt.size, float(bolt.supply))


def send_src(bolt, node, port, pkt, queue_size):
    src = new_frame(node, bolt.at.kind, SRC)
    about_flow(src, pkt)
    says = my_frame(bolt, src)
    says.tx_time = my_packet(bolt, pkt).tx_time
    says.queue_size = queue_size
    says.ps_per_byte = port.ps_per_byte
    send_to_host(node, pkt.src, src)
    my_port(bolt, port).srcs += 1


# ---- Senders ----


def on_start(bolt, node, flow, pkt):
    mine = my_flow(bolt, flow)
    mine.cwnd = bolt.at.world.bdp
    mine.last_dec_time = node.now
    apply(bolt, node, flow)


def on_send(bolt, node, flow, pkt):
    mine = my_flow(bolt, flow)
    carried = my_packet(bolt, pkt)
    carried.tx_time = node.now
    carried.first = 1 if mine.rtt == 0 else 0
    carried.last = 1 if flow.size - pkt.seq <= max(mine.cwnd, bolt.at.world.mtu) else 0
    carried.inc = 0 if carried.first or carried.last else 1
    carried.dec = 0
    pkt.size += bolt.stamp_bytes


def on_ack(bolt, node, flow, pkt):
    """A NACK reports a loss; else an RTT has passed if the ACK is for what was sent after the last additive increase."""
    mine = my_flow(bolt, flow)
    carried = my_packet(bolt, pkt)
    mine.rtt = node.now - carried.tx_time
    if pkt.flags & NACK:
        cut(bolt, node, flow)
    else:
        if pkt.seq > mine.seq_no_at_last_ai:
            mine.cwnd += whole(bolt.ai * bolt.at.world.mtu)
            mine.seq_no_at_last_ai = flow.sent
        if carried.inc:
            mine.cwnd += bolt.at.world.mtu
    apply(bolt, node, flow)


def on_control(bolt, node, port, pkt):
    """HandleSRC; before the first ACK the flow has the rate of its line."""
    flow = flow_of(node, pkt)
    if flow == NO_FLOW:
        return
    mine = my_flow(bolt, flow)
    src = my_frame(bolt, pkt)
    if mine.cwnd <= bolt.at.world.mtu:
        mine.cwnd = whole(mine.cwnd * (1.0 - bolt.max_md))
    else:
        rtt_src = node.now - src.tx_time
        rate = float(mine.cwnd) / mine.rtt if mine.rtt > 0 else 1.0 / port_of(flow).ps_per_byte
        reaction_factor = rate * src.ps_per_byte
        packets = float(src.queue_size - bolt.target_q) / bolt.full
        if (node.now - mine.last_dec_time) * packets * reaction_factor >= rtt_src:
            mine.cwnd -= bolt.at.world.mtu
            mine.last_dec_time = node.now
    apply(bolt, node, flow)


def on_timeout(bolt, node, flow):
    if flow.sent == flow.acked:  # its pace makes it wait
        flow.backoff = 0
        return
    cut(bolt, node, flow)
    apply(bolt, node, flow)
    send_from(node, flow, flow.acked)


def cut(bolt, node, flow):
    mine = my_flow(bolt, flow)
    if node.now - mine.last_dec_time >= mine.rtt:
        mine.cwnd = whole(mine.cwnd * (1.0 - bolt.max_md))
        mine.last_dec_time = node.now


def apply(bolt, node, flow):
    """Set bounds to cwnd and apply it as a window, below one packet as a pace as well; when that changes, at once."""
    mine = my_flow(bolt, flow)
    mtu = bolt.at.world.mtu
    mine.cwnd = min(max(mine.cwnd, bolt.least_cwnd), bolt.largest)
    flow.window = mine.cwnd
    if mine.cwnd >= mtu and not mine.paced:
        return
    rate = 8e12 / port_of(flow).ps_per_byte
    if mine.cwnd < mtu:
        rtt = mine.rtt if mine.rtt > 0 else bolt.at.world.base_rtt
        rate = bolt.full * 8e12 * mine.cwnd / (float(mtu) * rtt)
    set_rate(flow, rate)
    if (mine.cwnd < mtu) != mine.paced:
        mine.paced = 1 - mine.paced
        repace(node, flow)
