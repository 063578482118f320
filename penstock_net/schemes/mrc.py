"""MRC, Multipath Reliable Connection (OCP, 2026): windows of senders, trimming, and paths that are good, suspect or out.

Transport and switches are those of `uec:nscc`.  Every flow has `values`, numbers that name paths: what switches hash, and, where
its host has several ports (planes), the port, each of which has equally many of them.  Packets take the ports in turn
(`host.ports = "packet"`), and at a port its values, one packet each.

* A mark means that there is a better path: the value is suspect and its turns are those of the next ones for `suspect`
* A packet that `trim` has cut means congestion, for which windows are there: it is sent again at once, and its value kept
* A packet that is lost means that its path is: its value is out at once, and the packet is sent again, by itself and ahead of new
  ones.  It is lost if another one that was sent a time after it has come (`reorder`), or by a timeout
* A value that is out is probed every `probe`, by a frame of 64 B that takes the path of its packets, and whose answer goes where
  ACKs of these go.  It is good again when an answer has come

If a port has no good value left, its suspect ones are taken; if these are out, too, packets pass over the port; if there is no
other one, they take what is out.

Public are the outlines only (Open Compute Project, May 2026).  So this is a reading: that a value which was marked keeps its
number and is good again after a time, which is one base RTT; that what is lost leaves the window as it is, but for a timeout;
the bound of `reorder`; the time between probes, and that the first one waits for it.  Real
values are lists of switches (SRv6); here they hash to paths, so that several may be the same one.
"""

title = "MRC"
includes = ["uec", "reorder", "entropy"]
packet_state = "entropy"
frame_state = {"value": "int32", "way": "int32", "source": "int32"}
flow_state = {
    "value": "int16[4096]",  # of packets by their number modulo RING; plus one
    "state": "int8[256]",  # of values
    "until": "time[256]",  # when one that is suspect is good again, or one that is out is probed
    "turn": "int16[64]",  # by port: which of its values was taken last
    "dead": "int16[64]",  # by port: how many of them are out
    "avoided": "mask",  # ports of which all are
    "gone": "int32",  # values that are out
    "share": "int32",  # values of a port
    "ports": "int32",
}
parameters = {
    "values": ("int32 1..256", 128, "paths that a flow knows, shared equally by the ports of its host"),
    "suspect": ("time", 0, "time for which a value that was marked is passed over; 0 = one base RTT"),
    "probe": ("time 1..1e15", "100us", "between probes of a value that is out"),
}
presets = {"default": {"host.rto": "100us", "uec_receiver.ack_bytes": 1, "uec_receiver.back": True, "host.ports": "packet"}}
flow_counts = {
    "suspected": "times that a value was marked",
    "lost": "times that a value was found to be out",
    "restored": "times that the answer to a probe brought one back",
}
fabric = {"balances": 1, "acts": 0}

RING = 4096
MOST = 64
GOOD = 0
SUSPECT = 1
OUT = 2
PROBE = 3  # commands of frames
ANSWER = 4


def on_start(mrc, node, flow, pkt):
    mine = my_flow(mrc, flow)
    mine.ports = min(node.port_count, MOST) if mrc.at.world.in_turn else 1
    mine.share = max(mrc.values // mine.ports, 1)


def on_send(mrc, node, flow, pkt):
    mine = my_flow(mrc, flow)
    sent = my_packet(mrc, pkt)
    sent.entropy = next_value(mrc, node, flow, port_of(flow).slot % mine.ports)
    sent.way = hash31(flow.hash, sent.entropy)
    mine.value[pkt.seq // mrc.at.world.mtu % RING] = sent.entropy + 1


def next_value(mrc, node, flow, plane):
    """The next good value of a port; if there is none, the next suspect one, else the next one."""
    mine = my_flow(mrc, flow)
    chosen = -1
    for i in range(1, mine.share + 1):
        k = (mine.turn[plane] + i) % mine.share
        value = plane * mine.share + k
        if mine.state[value] == SUSPECT and node.now >= mine.until[value]:
            mine.state[value] = GOOD
        if mine.state[value] == GOOD:
            chosen = k
            break
        if mine.state[value] == SUSPECT and chosen < 0:
            chosen = k
    if chosen < 0:
        chosen = (mine.turn[plane] + 1) % mine.share
    mine.turn[plane] = chosen
    return plane * mine.share + chosen


def on_ack(mrc, node, flow, pkt):
    """A mark; what has been cut says nothing else of a path."""
    mine = my_flow(mrc, flow)
    value = my_packet(mrc, pkt).entropy
    if pkt.ecn and mine.state[value] != OUT:
        mine.state[value] = SUSPECT
        mine.until[value] = node.now + (mrc.suspect if mrc.suspect > 0 else mrc.at.world.base_rtt)
        mine.suspected += 1


def on_loss(mrc, node, flow):
    """The value of a lost packet is out."""
    mine = my_flow(mrc, flow)
    value = mine.value[flow.lost // mrc.at.world.mtu % RING] - 1
    if value < 0 or mine.state[value] == OUT:
        return
    plane = value // mine.share
    mine.state[value] = OUT
    mine.until[value] = node.now + mrc.probe
    mine.gone += 1
    mine.lost += 1
    mine.dead[plane] += 1
    if mine.dead[plane] == mine.share:
        mine.avoided |= bit(plane)
        avoid_ports(flow, mine.avoided)
    wake_by(node, mrc.at.index, mine.until[value])


# ---- Probes ----


def on_timer(mrc, node):
    """Probe what is due, of all flows."""
    soonest = NEVER
    flow = first_flow_of(node)
    while flow != NO_FLOW:
        if my_flow(mrc, flow).gone > 0:
            soonest = min(soonest, probe_all(mrc, node, flow))
        flow = flow.next_active
    set_timer(node, mrc.at.index, soonest)


def probe_all(mrc, node, flow):
    """Probe the values of a flow that are due; returns when the next one is."""
    mine = my_flow(mrc, flow)
    soonest = NEVER
    for value in range(mine.ports * mine.share):
        if mine.state[value] == OUT:
            if mine.until[value] <= node.now:
                mine.until[value] = node.now + mrc.probe
                send_probe(mrc, node, flow, value)
            soonest = min(soonest, mine.until[value])
    return soonest


def send_probe(mrc, node, flow, value):
    """By the port of the value, unless its link is down."""
    mine = my_flow(mrc, flow)
    slot = value // mine.share if mine.ports > 1 else port_of(flow).slot
    if port_at(node, slot).down:
        return
    frame = new_frame(node, mrc.at.kind, PROBE)
    about_sent(frame, flow)
    asked = my_frame(mrc, frame)
    asked.value = value
    asked.way = hash31(flow.hash, value)
    asked.source = node.id
    send_along(node, slot, flow.dst, asked.way, frame)


def on_control(mrc, node, port, pkt):
    if command_of(pkt) == PROBE:
        answer(mrc, node, port, pkt)
        return
    flow = flow_of(node, pkt)
    if flow == NO_FLOW:
        return
    mine = my_flow(mrc, flow)
    value = my_frame(mrc, pkt).value
    if mine.state[value] == OUT:
        mine.state[value] = GOOD
        mine.gone -= 1
        mine.restored += 1
        mine.dead[value // mine.share] -= 1
        mine.avoided &= ~bit(value // mine.share)
        avoid_ports(flow, mine.avoided)


def answer(mrc, node, port, pkt):
    """At the receiver, by the port at which the probe came."""
    asked = my_frame(mrc, pkt)
    frame = new_frame(node, mrc.at.kind, ANSWER)
    about_flow(frame, pkt)
    told = my_frame(mrc, frame)
    told.value = asked.value
    told.way = ~asked.way
    told.source = node.id
    send_along(node, port.slot, asked.source, told.way, frame)
