"""The last switch of each data packet sends a notice to its source, which is queued like data."""

parameters = {"symmetric": ("bool", True, "the same path there and back")}
fabric = {"reordering": 1, "symmetric": "symmetric"}


def on_enqueue(notice, node, port, queue, pkt):
    if pkt.kind == DATA and not node.is_host and port.peer_node == pkt.dst:
        frame = new_frame(node, notice.at.kind, 3)
        about_flow(frame, pkt)
        send_with_data(node, pkt.src, frame)


def on_control(notice, node, port, pkt):
    flow = flow_of(node, pkt)
    if flow != NO_FLOW:
        flow.window = max(flow.window, 1000)
