"""Marks, and windows that halve; it counts, records and prints what it does."""

parameters = {"k": ("bytes", "20KB", "packets are marked beyond it"), "talks": ("bool", True, "it prints")}
node_state = {"last": "time"}
flow_state = {"factor": "float64"}
counts = {"marked": "packets that were marked here"}
port_counts = {"seen": "data packets that left by this port"}
flow_counts = {"cuts": "times that the window was halved"}
records = {"last": "when the last packet was marked"}
port_records = {"seen": "data packets that left by this port"}
flow_records = {"factor": "of the window", "cuts": "times that the window was halved"}


def on_dequeue(me, node, port, queue, pkt):
    if pkt.kind == DATA:
        my_port(me, port).seen += 1
        if queue.bytes > me.k:
            pkt.ecn = 1
            port.ecn_marks += 1
            my_node(me, node).marked += 1
            my_node(me, node).last = node.now


def on_start(me, node, flow, pkt):
    flow.window = me.at.world.bdp
    my_flow(me, flow).factor = 1.0


def tell(me, node, flow, pkt):
    print("cut", flow, f"to {flow.window} at {node}: {float(flow.window) / 3:.1f}", pkt, NO_PACKET)


def on_ack(me, node, flow, pkt):
    if pkt.ecn:
        flow.window = max(flow.window // 2, 1000)
        my_flow(me, flow).factor = 0.5
        my_flow(me, flow).cuts += 1
        if me.talks:
            tell(me, node, flow, pkt)
    else:
        flow.window += 100


def on_finish(me, node, flow, pkt):
    my_flow(me, flow).cuts += 1
