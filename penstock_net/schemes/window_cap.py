"""A maximum for every flow's window, for any congestion control or none.  Named last, it applies after the others."""

parameters = {"cap": ("bytes", 0, "bytes that a flow may have unacknowledged; 0 = one bandwidth-delay product")}
scheme_state = {"bytes": "int64"}
fabric = {"acts": 0}


def set_up(window_cap):
    window_cap.bytes = window_cap.cap if window_cap.cap > 0 else window_cap.at.world.bdp


def on_start(window_cap, node, flow, pkt):
    flow.window = min(flow.window, window_cap.bytes)


def on_ack(window_cap, node, flow, pkt):
    flow.window = min(flow.window, window_cap.bytes)
