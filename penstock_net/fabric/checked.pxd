"""What a user's scheme calls instead of the fabric's functions, with every argument checked; see faults.h."""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint64_t
from penstock_net.fabric.incoming cimport about_incoming, about_sent, incoming_at, incoming_of, set_flow_timer
from penstock_net.fabric.line cimport new_frame, pause_port, pause_queue, resume_port, resume_queue
from penstock_net.fabric.line cimport send_along, send_frame, send_to_host, send_with_data, set_timer, wake_by, wake_port
from penstock_net.fabric.pacing cimport about_flow, flow_of, report_loss, send_from
from penstock_net.fabric.queueing_inline cimport draw
from penstock_net.fabric.routing_inline cimport group_towards, passes, path_at, path_count, port_towards
from penstock_net.fabric.rows cimport new_print_row
from penstock_net.fabric.state cimport ACK, BY_DEFAULT, CONTROL, MOST_LEVELS, SCHEME_FAULT, Flow, Guard, Incoming, Node, Packet, Port, Queue, Worker
from penstock_net.fabric.state cimport clear_bit, group_of, has_bit, hash31, node_at, pick, port_at, queue_at, set_bit, voq_at
from penstock_net.fabric.switch cimport release, requeue

cdef extern from "faults.h" nogil:
    ctypedef struct GuardPoint:
        const int64_t* now
        int32_t node, scheme
    enum:
        FAULT_KIND, FAULT_NOT_FRAME, FAULT_NOT_PACKET, FAULT_PAUSE_BIT, FAULT_ROUTE, FAULT_SENT
    enum:
        ROUNDS_PER_EVENT, ROUNDS_OF_SET_UP
    bint guard_enter(Guard* guard, GuardPoint* point, int hook, int scheme, int node, const int64_t* now)
    void guard_count(Guard* guard, GuardPoint* point, int64_t event, int64_t most_rounds)
    GuardPoint* guard_point(Guard* guard)
    bint guard_failed(GuardPoint* point)
    void guard_leave(Guard* guard, GuardPoint* point)
    void g_round(Guard* guard, int line)
    int64_t g_add(Guard* guard, int line, int64_t a, int64_t b)
    int64_t g_sub(Guard* guard, int line, int64_t a, int64_t b)
    int64_t g_mul(Guard* guard, int line, int64_t a, int64_t b)
    int64_t g_floordiv(Guard* guard, int line, int64_t a, int64_t b)
    int64_t g_mod(Guard* guard, int line, int64_t a, int64_t b)
    uint64_t g_udiv(Guard* guard, int line, uint64_t a, uint64_t b)
    uint64_t g_umod(Guard* guard, int line, uint64_t a, uint64_t b)
    int64_t g_shl(Guard* guard, int line, int64_t a, int64_t n)
    int64_t g_shr(Guard* guard, int line, int64_t a, int64_t n)
    uint64_t g_ushl(Guard* guard, int line, uint64_t a, int64_t n)
    uint64_t g_ushr(Guard* guard, int line, uint64_t a, int64_t n)
    uint64_t g_bit(Guard* guard, int line, int64_t n)
    int64_t g_lowest_bit(Guard* guard, int line, uint64_t x)
    int64_t g_abs(Guard* guard, int line, int64_t a)
    uint64_t g_mask(Guard* guard, int line, int64_t a)
    int64_t g_number(Guard* guard, int line, uint64_t a)
    int8_t g_fit8(Guard* guard, int line, int64_t a)
    int16_t g_fit16(Guard* guard, int line, int64_t a)
    int32_t g_fit32(Guard* guard, int line, int64_t a)
    int64_t g_least(Guard* guard, int line, int64_t a, int64_t least)
    int64_t g_index(Guard* guard, int line, int64_t i, int64_t n)
    int64_t g_voq(Guard* guard, int line, int64_t i, int64_t n)
    double g_div(Guard* guard, int line, double a, double b)
    double g_finite(Guard* guard, int line, double a)
    double g_whole(Guard* guard, int line, double a)
    double g_of_root(Guard* guard, int line, double a)
    double g_of_log(Guard* guard, int line, double a)
    double g_rate(Guard* guard, int line, double a)
    double g_gap(Guard* guard, int line, double a)
    void* g_some(Guard* guard, int line, const void* p)
    void g_forget(void* p, size_t size)
    int32_t g_known32(Guard* guard, int line, int32_t a)
    int64_t g_known64(Guard* guard, int line, int64_t a)
    double g_known_float(Guard* guard, int line, double a)
    void g_timer(Guard* guard, int line, int64_t now, int64_t when)
    double fabs(double x)
    void g_need(Guard* guard, int line, bint condition, int fault, int64_t value, int64_t limit)

cdef enum:
    UNSENT = -1     # out_port of a frame that has not been sent yet

# ---- Arrays: where they begin and how long they are ----
ctypedef struct Array_int8:
    int8_t* first
    int64_t count
ctypedef struct Array_int16:
    int16_t* first
    int64_t count
ctypedef struct Array_int32:
    int32_t* first
    int64_t count
ctypedef struct Array_int64:
    int64_t* first
    int64_t count
ctypedef struct Array_uint64:
    uint64_t* first
    int64_t count
ctypedef struct Array_double:
    double* first
    int64_t count
cdef inline int8_t* item_int8(Guard* guard, int line, Array_int8 table, int64_t i) noexcept nogil:
    return &table.first[g_index(guard, line, i, table.count)]
cdef inline int16_t* item_int16(Guard* guard, int line, Array_int16 table, int64_t i) noexcept nogil:
    return &table.first[g_index(guard, line, i, table.count)]
cdef inline int32_t* item_int32(Guard* guard, int line, Array_int32 table, int64_t i) noexcept nogil:
    return &table.first[g_index(guard, line, i, table.count)]
cdef inline int64_t* item_int64(Guard* guard, int line, Array_int64 table, int64_t i) noexcept nogil:
    return &table.first[g_index(guard, line, i, table.count)]
cdef inline uint64_t* item_uint64(Guard* guard, int line, Array_uint64 table, int64_t i) noexcept nogil:
    return &table.first[g_index(guard, line, i, table.count)]
cdef inline double* item_double(Guard* guard, int line, Array_double table, int64_t i) noexcept nogil:
    return &table.first[g_index(guard, line, i, table.count)]
cdef inline bint g_has_bit(Guard* guard, int line, Array_uint64 bitmap, int64_t i) noexcept nogil:
    g_index(guard, line, i, 64 * bitmap.count)
    return has_bit(bitmap.first, i)
cdef inline void g_set_bit(Guard* guard, int line, Array_uint64 bitmap, int64_t i) noexcept nogil:
    g_index(guard, line, i, 64 * bitmap.count)
    set_bit(bitmap.first, i)
cdef inline void g_clear_bit(Guard* guard, int line, Array_uint64 bitmap, int64_t i) noexcept nogil:
    g_index(guard, line, i, 64 * bitmap.count)
    clear_bit(bitmap.first, i)

# ---- Elements of the fabric's tables ----
cdef inline Port* g_port_at(Guard* guard, int line, Node* node, int64_t slot) noexcept nogil:
    return port_at(node, g_index(guard, line, slot, node.port_count))
cdef inline Queue* g_queue_at(Guard* guard, int line, Port* port, int64_t index) noexcept nogil:
    return queue_at(port, g_index(guard, line, index, port.queue_count))
cdef inline Queue* g_voq_at(Guard* guard, int line, Node* node, int64_t index) noexcept nogil:
    return voq_at(node, g_index(guard, line, index, node.voq_count))
cdef inline int64_t g_path_count(Guard* guard, int line, Node* node, Packet* pkt) noexcept nogil:
    g_index(guard, line, pkt.dst, node.worker.world.host_count)
    g_need(guard, line, group_towards(node, pkt.dst) >= 0, FAULT_ROUTE, pkt.dst, 0)
    return path_count(node, pkt)
cdef inline Port* g_path_at(Guard* guard, int line, Node* node, Packet* pkt, int64_t i) noexcept nogil:
    return path_at(node, pkt, g_index(guard, line, i, g_path_count(guard, line, node, pkt)))

cdef inline Port* g_port_towards(Guard* guard, int line, Node* node, Packet* pkt, int64_t host) noexcept nogil:
    return port_towards(node, pkt, g_index(guard, line, host, node.worker.world.host_count))
cdef inline bint g_passes(
    Guard* guard, int line, Node* node, Port* port, int64_t host, int64_t hash, int64_t switch, int64_t slot
) noexcept nogil:
    world = node.worker.world
    there = node_at(world, g_index(guard, line, switch, world.node_count))
    g_index(guard, line, host, world.host_count)
    return passes(node, port, host, g_word(guard, line, hash), switch, g_index(guard, line, slot, there.port_count))
cdef inline int64_t g_group_of(Guard* guard, int line, Node* node, int64_t host) noexcept nogil:
    return group_of(node, g_index(guard, line, host, node.worker.world.host_count))

# ---- Packets and frames ----
cdef inline int32_t g_answer(int64_t answer) noexcept nogil:
    return BY_DEFAULT if answer == BY_DEFAULT else answer != 0
cdef inline Packet* g_data(Guard* guard, int line, Packet* pkt) noexcept nogil:
    """A packet whose memory holds packet_state: no control frame."""
    g_need(guard, line, pkt.kind <= ACK, FAULT_NOT_PACKET, 0, 0)
    return pkt
cdef inline Packet* g_frame(Guard* guard, int line, Packet* pkt, int kind) noexcept nogil:
    """A control frame of the scheme of this kind."""
    g_need(guard, line, pkt.kind == kind, FAULT_NOT_FRAME, 0, 0)
    return pkt
cdef inline int64_t g_size(Guard* guard, int line, Packet* pkt, int64_t size) noexcept nogil:
    """A new size of a packet, which can only grow; a control frame may be as short as an ordered set, 8 B."""
    return g_fit16(guard, line, g_least(guard, line, size, 8 if pkt.kind > ACK else pkt.size))
cdef inline int g_kind(Guard* guard, int line, Node* node, int64_t kind) noexcept nogil:
    g_need(guard, line, CONTROL <= kind < CONTROL + node.worker.world.scheme_count, FAULT_KIND, kind, 0)
    return <int>kind
cdef inline Packet* g_unsent(Guard* guard, int line, Packet* frame) noexcept nogil:
    """A frame from new_frame that is about to be sent."""
    g_need(guard, line, frame.kind > ACK and frame.out_port == UNSENT, FAULT_SENT, 0, 0)
    frame.out_port = 0
    return frame
cdef inline Packet* g_new_frame(Guard* guard, int line, Node* node, int64_t kind, int64_t command, size_t own) noexcept nogil:
    frame = new_frame(node, g_kind(guard, line, node, kind), g_fit32(guard, line, command))
    frame.out_port = UNSENT
    g_forget(<char*>frame + sizeof(Packet), own)
    return frame
cdef inline void g_send_frame(Guard* guard, int line, Node* node, int64_t slot, Packet* frame) noexcept nogil:
    send_frame(node, g_index(guard, line, slot, node.port_count), g_unsent(guard, line, frame))
cdef inline void g_send_to_host(Guard* guard, int line, Node* node, int64_t host, Packet* frame) noexcept nogil:
    send_to_host(node, g_index(guard, line, host, node.worker.world.host_count), g_unsent(guard, line, frame))
cdef inline void g_send_along(
    Guard* guard, int line, Node* node, int64_t slot, int64_t host, int64_t way, Packet* frame
) noexcept nogil:
    slot = g_index(guard, line, slot, node.port_count)
    host = g_index(guard, line, host, node.worker.world.host_count)
    send_along(node, slot, host, g_fit32(guard, line, way), g_unsent(guard, line, frame))
cdef inline void g_send_control(
    Guard* guard, int line, Node* node, int64_t slot, int64_t kind, int64_t command, int64_t value, int64_t mask, size_t own
) noexcept nogil:
    frame = g_new_frame(guard, line, node, kind, command, own)
    frame.slot = g_fit32(guard, line, value)
    frame.seq = mask
    g_send_frame(guard, line, node, slot, frame)
cdef inline void g_about_flow(Guard* guard, int line, Packet* frame, Packet* pkt) noexcept nogil:
    g_need(guard, line, frame.kind > ACK, FAULT_NOT_FRAME, 0, 0)
    about_flow(frame, pkt)
cdef inline void g_about_sent(Guard* guard, int line, Packet* frame, Flow* flow) noexcept nogil:
    g_need(guard, line, frame.kind > ACK, FAULT_NOT_FRAME, 0, 0)
    about_sent(frame, flow)
cdef inline void g_about_incoming(Guard* guard, int line, Packet* frame, Incoming* incoming) noexcept nogil:
    g_need(guard, line, frame.kind > ACK, FAULT_NOT_FRAME, 0, 0)
    about_incoming(frame, incoming)
cdef inline Incoming* g_incoming_of(Guard* guard, int line, Node* node, Packet* frame) noexcept nogil:
    g_need(guard, line, frame.kind > ACK, FAULT_NOT_FRAME, 0, 0)
    g_index(guard, line, frame.seq, node.worker.world.flow_count)
    return incoming_of(node, frame)
cdef inline Incoming* g_incoming_at(Guard* guard, int line, Node* node, int64_t number) noexcept nogil:
    return incoming_at(node, g_fit32(guard, line, number))
cdef inline void g_send_with_data(Guard* guard, int line, Node* node, int64_t host, Packet* frame) noexcept nogil:
    send_with_data(node, g_index(guard, line, host, node.worker.world.host_count), g_unsent(guard, line, frame))
cdef inline void g_send_from(Guard* guard, int line, Node* node, Flow* flow, int64_t offset) noexcept nogil:
    send_from(node, flow, g_index(guard, line, offset, flow.sent + 1))
cdef inline void g_report_loss(Guard* guard, int line, Node* node, Flow* flow, int64_t offset) noexcept nogil:
    report_loss(node, flow, g_index(guard, line, offset, flow.sent))
cdef inline int8_t g_level(Guard* guard, int line, int64_t level) noexcept nogil:
    return <int8_t>g_index(guard, line, level, MOST_LEVELS)
cdef inline int32_t g_word(Guard* guard, int line, int64_t hash) noexcept nogil:
    return <int32_t>g_fit32(guard, line, hash)
cdef inline int8_t g_backoff(Guard* guard, int line, int64_t count) noexcept nogil:
    return <int8_t>g_index(guard, line, count, 7)
cdef inline int16_t g_count(Guard* guard, int line, int64_t count) noexcept nogil:
    return g_fit16(guard, line, g_least(guard, line, count, 0))
cdef inline Flow* g_flow_of(Guard* guard, int line, Node* node, Packet* frame) noexcept nogil:
    g_need(guard, line, frame.kind > ACK, FAULT_NOT_FRAME, 0, 0)
    return flow_of(node, frame)

# ---- Pauses, timers, random numbers ----
cdef inline void g_release(Guard* guard, int line, Node* node, int64_t index) noexcept nogil:
    release(node, g_index(guard, line, index, node.voq_count))
cdef inline void g_requeue(Guard* guard, int line, Node* node, int64_t index, int64_t other) noexcept nogil:
    requeue(node, g_index(guard, line, index, node.voq_count), g_index(guard, line, other, node.voq_count))
cdef inline int g_pause_bit(Guard* guard, int line, Node* node, int64_t bit) noexcept nogil:
    g_need(guard, line, 0 < bit < 1 << node.worker.world.scheme_count and bit & (bit - 1) == 0, FAULT_PAUSE_BIT, bit, 0)
    return <int>bit
cdef inline void g_pause_queue(Guard* guard, int line, Node* node, Port* port, int64_t i, int64_t bit) noexcept nogil:
    pause_queue(node, port, g_index(guard, line, i, port.queue_count), g_pause_bit(guard, line, node, bit))
cdef inline void g_resume_queue(Guard* guard, int line, Node* node, Port* port, int64_t i, int64_t bit) noexcept nogil:
    resume_queue(node, port, g_index(guard, line, i, port.queue_count), g_pause_bit(guard, line, node, bit))
cdef inline void g_pause_port(Guard* guard, int line, Node* node, Port* port, int64_t bit) noexcept nogil:
    pause_port(node, port, g_pause_bit(guard, line, node, bit))
cdef inline void g_resume_port(Guard* guard, int line, Node* node, Port* port, int64_t bit) noexcept nogil:
    resume_port(node, port, g_pause_bit(guard, line, node, bit))
cdef inline void g_set_flow_timer(Guard* guard, int line, Node* node, Incoming* incoming, int64_t when) noexcept nogil:
    g_timer(guard, line, node.now, when)
    set_flow_timer(node, incoming, when)
cdef inline void g_wake_port(Guard* guard, int line, Node* node, Port* port, int64_t when) noexcept nogil:
    g_timer(guard, line, node.now, when)
    wake_port(node, port, when)
cdef inline void g_set_timer(Guard* guard, int line, Node* node, int64_t index, int64_t when) noexcept nogil:
    g_timer(guard, line, node.now, when)
    set_timer(node, g_index(guard, line, index, node.worker.world.scheme_count), when)
cdef inline void g_wake_by(Guard* guard, int line, Node* node, int64_t index, int64_t when) noexcept nogil:
    g_timer(guard, line, node.now, when)
    wake_by(node, g_index(guard, line, index, node.worker.world.scheme_count), when)
cdef inline int64_t g_draw(Guard* guard, int line, Node* node, int64_t stream) noexcept nogil:
    return draw(node, g_index(guard, line, stream, 5))
cdef inline int64_t g_hash31(Guard* guard, int line, int64_t number, int64_t seed) noexcept nogil:
    return hash31(number, seed)
cdef inline int64_t g_pick(Guard* guard, int line, int64_t hash, int64_t seed, int64_t n) noexcept nogil:
    return pick(<int32_t>hash, <int32_t>seed, g_fit32(guard, line, g_least(guard, line, n, 1)))

# print: a row of the worker's log for each value of a line (place -1: it has none); whole and number stand for it, by its kind.
# Of lines that are later than those which are kept, whatever other workers print, there is only the number.
cdef inline void g_print(Guard* guard, int site, int place, int kind, int64_t value, double number) noexcept nogil:
    there = <Worker*><size_t>4096  # any address but 0: only the distance to its member is taken
    worker = <Worker*>(<char*>guard - (<char*>&there.guard - <char*>there))
    point = guard_point(guard)
    time = point.now[0] if point.now else 0
    if place <= 0:
        worker.printed += 1
    if worker.print_until and time >= worker.print_until:
        return
    row = new_print_row(worker)
    row.time, row.node, row.scheme, row.site, row.place = time, point.node, point.scheme, site, place
    row.kind, row.whole, row.number = kind, value, number
    if not worker.print_until and worker.printed >= worker.world.print_limit:
        worker.print_until = max(worker.window_end, time + 1)
