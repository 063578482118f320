"""Receivers grant one packet for each that arrives, after a blind start; senders serve the flow with the fewest bytes left."""

parameters = {"blind": ("bytes", "10KB", "bytes sent without a grant"), "tick": ("time", "5us", "of the receivers' timers")}
scheme_state = {"ticks": "int64"}
incoming_state = {"granted": "int64"}
frame_state = {"granted": "int64"}
fabric = {"reordering": 1, "nic_order": 1, "symmetric": 1}


def on_start(pull, node, flow, pkt):
    flow.window = pull.blind
    set_rank(node, flow, flow.size)


def on_data(pull, node, incoming, pkt):
    mine = my_incoming(pull, incoming)
    if mine.granted == 0:
        mine.granted = pull.blind
        set_flow_timer(node, incoming, node.now + pull.tick)
    if not incoming.complete:
        mine.granted += pull.at.world.mtu
        frame = new_frame(node, pull.at.kind, 3)
        about_incoming(frame, incoming)
        my_frame(pull, frame).granted = mine.granted
        send_to_host(node, incoming.src, frame)
    return incoming.complete


def on_flow_timer(pull, node, incoming):
    pull.ticks += 1
    if not incoming.complete:
        set_flow_timer(node, incoming, node.now + pull.tick)


def on_control(pull, node, port, pkt):
    flow = flow_of(node, pkt)
    if flow != NO_FLOW:
        flow.window = max(flow.window, my_frame(pull, pkt).granted)
        set_rank(node, flow, flow.size - flow.sent)
        try_send(node, flow)


def on_timeout(pull, node, flow):
    send_from(node, flow, flow.acked)
