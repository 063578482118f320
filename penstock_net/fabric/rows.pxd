"""Rows of the core's logs, and the counters of a node and a port."""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t
from penstock_net.fabric.state cimport Worker, next_row

# A row of a series stands for `repeat` samples, of which it is the first.
cdef struct SwitchRow:
    int64_t time, repeat, buffer_bytes, max_queue_bytes
    int32_t node, flows

cdef struct PortRow:
    int64_t time, repeat, bytes, tx_bytes, ack_bytes, frame_bytes
    int32_t node, port, active, flows

cdef struct QueueRow:
    int64_t time, repeat, bytes
    int32_t node, port, queue, paused

cdef struct FlowRow:
    int64_t time, repeat, acked, window
    int32_t number, node

cdef struct PauseRow:
    int64_t time
    int32_t node, port, queue, command   # queue -1: the whole port

cdef struct TraceRow:
    int64_t time, seq
    int32_t node, number
    int16_t event, port, in_port, queue, upstream_q, size
    int8_t kind, ecn, flags, spare
    int64_t queue_bytes, port_bytes

cdef struct CountRow:
    int64_t time, value
    int32_t node, number, field, spare

cdef struct RecordRow:
    int64_t time, repeat
    double value
    int32_t node, port, number, field

cdef struct PrintRow:       # one value of a line, or a line without values
    int64_t time, whole
    double number
    int32_t node, scheme, site, place, kind, spare

cdef struct NodeCounters:
    int64_t node, events, hops, control_frames, frame_bytes, frame_bytes_received
    int64_t voqs_max, buffer_used, buffer_max, buffer_size
    int64_t pauses[8]
    int64_t stopped_ps[8]

cdef struct PortCounters:
    int64_t node, port, peer, peer_port, tx_bytes, tx_packets, rx_bytes
    int64_t max_queue_bytes, queued_bytes, held_bytes, control_bytes, wire_bytes
    int64_t pauses_sent, pauses_received, paused_ps, paused, paused_queues
    int64_t cut_bytes, ecn_marks, dropped_bytes, trims, trimmed_bytes, returns, storms, restored
    double ps_per_byte
    int64_t ack_bytes, frame_bytes
    int64_t drops[7]

cdef inline NodeCounters* node_counters_at(NodeCounters* table, long i) noexcept nogil:
    return &table[i]
cdef inline PortCounters* port_counters_at(PortCounters* table, long i) noexcept nogil:
    return &table[i]

# A new row of a log, all zero.
cdef inline SwitchRow* new_switch_row(Worker* worker) noexcept nogil:
    return <SwitchRow*>next_row(&worker.switch_rows, sizeof(SwitchRow))
cdef inline PortRow* new_port_row(Worker* worker) noexcept nogil:
    return <PortRow*>next_row(&worker.port_rows, sizeof(PortRow))
cdef inline QueueRow* new_queue_row(Worker* worker) noexcept nogil:
    return <QueueRow*>next_row(&worker.queue_rows, sizeof(QueueRow))
cdef inline FlowRow* new_flow_row(Worker* worker) noexcept nogil:
    return <FlowRow*>next_row(&worker.flow_rows, sizeof(FlowRow))
cdef inline PauseRow* new_pause_row(Worker* worker) noexcept nogil:
    return <PauseRow*>next_row(&worker.pause_rows, sizeof(PauseRow))
cdef inline TraceRow* new_trace_row(Worker* worker) noexcept nogil:
    return <TraceRow*>next_row(&worker.trace_rows, sizeof(TraceRow))
cdef inline CountRow* new_count_row(Worker* worker) noexcept nogil:
    return <CountRow*>next_row(&worker.count_rows, sizeof(CountRow))
cdef inline RecordRow* new_record_row(Worker* worker) noexcept nogil:
    return <RecordRow*>next_row(&worker.record_rows, sizeof(RecordRow))
cdef inline PrintRow* new_print_row(Worker* worker) noexcept nogil:
    return <PrintRow*>next_row(&worker.print_rows, sizeof(PrintRow))
