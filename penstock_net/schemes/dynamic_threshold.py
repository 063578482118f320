"""Dynamic thresholds of a shared buffer (Choudhury and Hahne, IEEE/ACM ToN 1998): a port may queue alpha times what is free.

A packet is dropped if its port would store more than `alpha` times the free part of the buffer.  One congested port can store
alpha / (1 + alpha) of the buffer, two of them 2 alpha / (1 + 2 alpha): the rest stays free for the others.
"""

title = "DynamicThreshold"
parameters = {
    "alpha": ("float64 0.001..1024", 1.0, "bytes of a port relative to the free buffer (HPCC section 5.3: 1 without PFC)")
}


def admit(dynamic_threshold, node, port, pkt):
    if node.buffer_size == NEVER:
        return ADMITTED
    if port.bytes + pkt.size > dynamic_threshold.alpha * (node.buffer_size - node.buffer_used):
        return DROPPED
    return ADMITTED
