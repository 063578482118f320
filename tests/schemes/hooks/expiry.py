"""Go-back-N; what is told of a timeout counts it as a mark of the host's port."""

fabric = {"reordering": 1}


def on_expiry(expiry, node, flow):
    port_of(flow).ecn_marks += 1
