"""ECN marking at egress, as DCQCN (Zhu et al., SIGCOMM 2015) and DCTCP (Alizadeh et al., SIGCOMM 2010) need it.

RED on the instantaneous length of the packet's queue, at dequeue and without the packet itself: no mark up to K_min, a
probability that rises linearly to P_max at K_max, and 1 beyond.  The receiver echoes the mark on the ACK.  Packets in
virtual output queues count as queued at their port.

Each priority may have a curve of its own.  Packets of the priorities in `drop` are not ECN capable, as TCP's beside RoCE in a
switch with WRED profiles: they are never marked, but dropped when they arrive, by the length of their queue then, with the
probability of the same curve, or of one for drops.  There is then a queue for each priority at every port and NIC.
"""

title = "ECN"
parameters = {
    "k_min": ("bytes", "100KB", "no packet is marked up to this queue length (BFC section 6.2.1)"),
    "k_max": ("bytes", "400KB", "every packet is marked beyond this queue length (BFC section 6.2.1)"),
    "p_max": ("float64 0..1", 1.0, "marking probability at k_max (the BFC authors' simulator; 0.2 in HPCC's)"),
    "per": ("rate", 0, "rate for which the lengths hold, others in proportion (HPCC section 5.1); 0 = all alike"),
    "priority_k_min": ("bytes[8]", [], "k_min of each priority, from 0 on; 0 or none given = k_min"),
    "priority_k_max": ("bytes[8]", [], "k_max of each priority, from 0 on; 0 or none given = k_max"),
    "priority_p_max": ("float64[8] 0..1", [], "p_max of each priority, from 0 on; 0 or none given = p_max"),
    "drop": ("set 0..7", [], "priorities whose packets are not ECN capable: they are dropped, where others are marked"),
    "drop_k_min": ("bytes", 0, "none of these is dropped up to this queue length; 0 = that of marks"),
    "drop_k_max": ("bytes", 0, "all of these are dropped beyond this queue length; 0 = that of marks"),
    "drop_p_max": ("float64 0..1", 0, "probability of a drop at this k_max; 0 = that of marks"),
}
presets = {"ns3": {"k_min": "400KB", "k_max": "1600KB", "p_max": 0.2, "per": "100Gbps"}}
when = {"admit": "drop"}
fabric = {"priorities": "8 * (drop > 0)", "drops": "drop > 0"}
scheme_state = {"least": "float64", "low": "float64[8]", "high": "float64[8]", "most": "float64[8]"}

PRIORITIES = 8
ALWAYS = 2147483648.0  # draws are below it


def set_up(ecn):
    """Thresholds that scale with the rate are compared as queueing delays, in ps instead of bytes."""
    unit = 8e12 / ecn.per if ecn.per > 0 else 1.0
    ecn.least = unit * NEVER
    for i in range(PRIORITIES):
        low = ecn.priority_k_min[i] if ecn.priority_k_min[i] > 0 else ecn.k_min
        high = ecn.priority_k_max[i] if ecn.priority_k_max[i] > 0 else ecn.k_max
        most = ecn.priority_p_max[i] if ecn.priority_p_max[i] > 0 else ecn.p_max
        if ecn.drop & 1 << i:
            low = ecn.drop_k_min if ecn.drop_k_min > 0 else low
            high = ecn.drop_k_max if ecn.drop_k_max > 0 else high
            most = ecn.drop_p_max if ecn.drop_p_max > 0 else most
        ecn.low[i] = low * unit
        ecn.high[i] = high * unit
        ecn.most[i] = most
        ecn.least = min(ecn.least, ecn.low[i])


def chance(ecn, port, queue, priority) -> float:
    """Probability of a mark, or a drop, scaled to 2^31."""
    length = float(queue.bytes + port.held)
    if ecn.per > 0:
        length *= port.ps_per_byte
    if length <= ecn.least:
        return 0.0
    i = min(priority, PRIORITIES - 1)
    if length > ecn.high[i]:
        return ALWAYS
    if length <= ecn.low[i]:
        return 0.0
    return ecn.most[i] * (length - ecn.low[i]) / (ecn.high[i] - ecn.low[i]) * ALWAYS


def admit(ecn, node, port, pkt):
    if pkt.kind == DATA and ecn.drop & 1 << pkt.priority:
        drops = chance(ecn, port, queue_at(port, pkt.priority), pkt.priority)
        if drops > 0 and draw(node, RANDOM_MARK) < drops:
            return DROPPED
    return ADMITTED


def on_dequeue(ecn, node, port, queue, pkt):
    if pkt.kind != DATA:
        return
    marks = chance(ecn, port, queue, pkt.priority)
    if marks > 0 and not ecn.drop >> pkt.priority & 1 and draw(node, RANDOM_MARK) < marks:
        pkt.ecn = 1
        port.ecn_marks += 1
