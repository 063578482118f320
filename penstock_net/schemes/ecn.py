"""ECN marking at egress, as DCQCN (Zhu et al., SIGCOMM 2015) and DCTCP (Alizadeh et al., SIGCOMM 2010) need it.

RED on the instantaneous length of the packet's queue, at dequeue and without the packet itself: no mark up to K_min, a
probability that rises linearly to P_max at K_max, and 1 beyond.  The receiver echoes the mark on the ACK.  Packets in
virtual output queues count as queued at their port.
"""

title = "ECN"
parameters = {
    "k_min": ("bytes", "100KB", "no packet is marked up to this queue length (BFC section 6.2.1)"),
    "k_max": ("bytes", "400KB", "every packet is marked beyond this queue length (BFC section 6.2.1)"),
    "p_max": ("float64 0..1", 1.0, "marking probability at k_max (the BFC authors' simulator; 0.2 in HPCC's)"),
    "per": ("rate", 0, "rate for which the lengths hold, others in proportion (HPCC section 5.1); 0 = all alike"),
}
presets = {"ns3": {"k_min": "400KB", "k_max": "1600KB", "p_max": 0.2, "per": "100Gbps"}}
scheme_state = {"low": "float64", "high": "float64"}

ALWAYS = 2147483648.0  # draws are below it


def set_up(ecn):
    """Thresholds that scale with the rate are compared as queueing delays, in ps instead of bytes."""
    unit = 8e12 / ecn.per if ecn.per > 0 else 1.0
    ecn.low = ecn.k_min * unit
    ecn.high = ecn.k_max * unit


def chance(ecn, port, queue) -> float:
    """Marking probability, scaled to 2^31."""
    length = float(queue.bytes + port.held)
    if ecn.per > 0:
        length *= port.ps_per_byte
    if length > ecn.high:
        return ALWAYS
    if length <= ecn.low:
        return 0.0
    return ecn.p_max * (length - ecn.low) / (ecn.high - ecn.low) * ALWAYS


def on_dequeue(ecn, node, port, queue, pkt):
    if pkt.kind != DATA:
        return
    marks = chance(ecn, port, queue)
    if marks > 0 and draw(node, RANDOM_MARK) < marks:
        pkt.ecn = 1
        port.ecn_marks += 1
