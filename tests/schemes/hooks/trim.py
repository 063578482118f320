"""Switches cut payloads off behind a short queue; headers overtake data, and their packets are asked for again one by one."""

parameters = {"limit": ("bytes", "8KB", "of a queue of data"), "send_back": ("bool", False, "send packets back instead")}
flow_state = {"missing": "mask[4]", "count": "int64"}
frame_state = {"seq": "int64"}
fabric = {"queues": 2, "reordering": 1}


def admit(trim, node, port, pkt):
    if pkt.kind != DATA or pkt.flags & (TRIMMED | RETURNED) or queue_at(port, 1).bytes + pkt.size <= trim.limit:
        return ADMITTED
    if trim.send_back:
        return RETURN
    return TRIM


def choose_queue(trim, node, port, pkt):
    if pkt.kind == DATA and not pkt.flags & (TRIMMED | RETURNED):
        return 1
    return 0


def on_send(trim, node, flow, pkt):
    pkt.priority = 1


def on_data(trim, node, incoming, pkt):
    if pkt.flags & TRIMMED:
        frame = new_frame(node, trim.at.kind, 3)
        about_incoming(frame, incoming)
        my_frame(trim, frame).seq = pkt.seq
        send_to_host(node, incoming.src, frame)
        return False
    return True


def on_control(trim, node, port, pkt):
    flow = flow_of(node, pkt)
    if flow != NO_FLOW:
        set_bit(my_flow(trim, flow).missing, my_frame(trim, pkt).seq // trim.at.world.mtu)
        flow.resend += 1
        try_send(node, flow)


def on_return(trim, node, flow, pkt):
    set_bit(my_flow(trim, flow).missing, pkt.seq // trim.at.world.mtu)
    flow.resend += 1


def choose_packet(trim, node, flow):
    missing = my_flow(trim, flow).missing
    for i in range(256):
        if has_bit(missing, i):
            clear_bit(missing, i)
            return i * trim.at.world.mtu
    return -1
