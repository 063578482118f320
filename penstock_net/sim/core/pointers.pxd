"""What building a core needs of pointers: hooks out of compiled modules, memory of schemes, numpy arrays as tables, logs as bytes.

`penstock_net.sim.interpreted.pointers` has the same functions for the core as plain Python.
"""
from penstock_net.fabric.state cimport *
from penstock_net.fabric.flow_results cimport FlowResults
from penstock_net.fabric.pinned cimport choose_pinned, choose_turn
from penstock_net.fabric.ranking cimport rank_dequeued, rank_enqueued
from penstock_net.fabric.reduction cimport reduce
from penstock_net.fabric.recording cimport count_flow
from penstock_net.fabric.rows cimport CountRow, FlowRow, NodeCounters, PauseRow, PortCounters, PortRow, PrintRow, QueueRow, RecordRow
from penstock_net.fabric.rows cimport SwitchRow, TraceRow
from penstock_net.fabric.switch cimport enqueue, transmit, wake
from penstock_net.sim.core.engine cimport deliver, run_windows
from penstock_net.sim.core.kept cimport keep_if_paused
from penstock_net.sim.core.receiver cimport find_incoming, look_up_incoming
from penstock_net.sim.core.sender cimport go_back, reschedule, transmit_host, wake_flows
from penstock_net.sim.core.sums cimport receive_sum

cdef extern from "Python.h":
    void* PyCapsule_GetPointer(object capsule, const char* name) except NULL
    const char* PyCapsule_GetName(object capsule) except NULL
    object PyBytes_FromStringAndSize(const char* text, Py_ssize_t size)

# Hooks of compiled schemes: Cython exports every function of a .pxd as a capsule named by its C signature.
cdef inline void* hook_of(module, str name) except NULL:
    capsule = module.__pyx_capi__[name]
    return PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule))

# The scheme's own struct: places, then its parameters at the offsets that it declares.
cdef inline void* new_me(World* world, part) noexcept:
    return zeroed(world.arena, 1, sizeof(Places) + <size_t>part.declared.own.size + 64)

cdef inline void set_places(World* world, void* me, dict places, int index, int kind) except *:
    at = <Places*>me
    at.packet, at.port, at.queue, at.flow, at.node = places["packet"], places["port"], places["queue"], places["flow"], places["node"]
    at.frame, at.incoming = places["frame"], places["incoming"]
    at.index, at.bit, at.kind = index, 1 << index, kind
    at.world = world

cdef inline void set_parameter(void* me, long offset, str kind, value) except *:
    if isinstance(value, tuple):
        size = {"int8_t": 1, "int16_t": 2, "int32_t": 4}.get(kind, 8)
        for i, number in enumerate(value):
            set_parameter(me, offset + size * i, kind, number)
        return
    field = <char*>me + sizeof(Places) + offset
    if kind == "double":
        (<double*>field)[0] = value
    elif kind == "int64_t":
        (<int64_t*>field)[0] = value
    elif kind == "uint64_t":
        (<uint64_t*>field)[0] = value
    elif kind == "int16_t":
        (<int16_t*>field)[0] = value
    elif kind == "int8_t":
        (<int8_t*>field)[0] = value
    else:
        (<int32_t*>field)[0] = value

cdef inline void put_table(World* world, void* owner, long at, long count, long size) noexcept:
    (<void**>(<char*>owner + at))[0] = zeroed_later(world.arena, count, size)
    (<int64_t*>(<char*>owner + at))[1] = count

cdef inline void put_own_table(World* world, void* me, long at, long count, long size) noexcept:
    put_table(world, <char*>me + sizeof(Places), at, count, size)

# A scheme's fields of a struct become 0, and what is in their tables, but not where these are.
cdef inline void clear_area(void* owner, long size, list tables) except *:
    kept = [<size_t>(<void**>(<char*>owner + <long>at))[0] for _, at, _, _ in tables]
    clear(owner, size)
    for (_, at, count, element), table in zip(tables, kept):
        clear(<void*><size_t>table, count * element)
        (<void**>(<char*>owner + <long>at))[0] = <void*><size_t>table
        (<int64_t*>(<char*>owner + <long>at))[1] = count

# A scheme's fields of a struct by name: numbers and records, or lists of them.
cdef inline dict fields_of(record, void* owner):
    found = {}
    for field in record.fields:
        start = <char*>owner + <long>field.at
        count = int(field.length or 1) if not field.table else (<int64_t*>start)[1]
        if field.table:
            start = (<char**>start)[0]
        elements = field.read(PyBytes_FromStringAndSize(start, count * <long>field.size))
        found[field.name] = elements if field.length else elements[0]
    return found

# A hook of a scheme, at the end of its list. All hooks begin with the function and the scheme's own struct, and end with the next one.
ctypedef struct AnyHook:
    void* call
    void* me
    AnyHook* next

include "install.pxi"

cdef inline void add_hook(Ops* ops, World* world, str name, void* function, void* me, long place) except *:
    end = <AnyHook**>list_of(ops, name, place)
    while end[0]:
        end = &end[0].next
    end[0] = <AnyHook*>zeroed(world.arena, 1, sizeof(AnyHook))
    end[0].call = function
    end[0].me = me

cdef inline void set_fabric_hooks(World* world) noexcept:
    world.host_ops.store.call = enqueue
    world.switch_ops.store.call = world.plain_ops.store.call = enqueue
    world.host_ops.reschedule.call = reschedule
    world.host_ops.go_back.call = go_back
    world.host_ops.find_incoming.call = find_incoming
    world.host_ops.look_up_incoming.call = look_up_incoming
    world.host_ops.transmit.call = transmit_host
    world.host_ops.keep.call = keep_if_paused
    world.host_ops.wake.call = wake_flows
    world.switch_ops.transmit.call = world.plain_ops.transmit.call = transmit
    world.switch_ops.wake.call = world.plain_ops.wake.call = wake
    world.host_ops.deliver.call = world.switch_ops.deliver.call = world.plain_ops.deliver.call = deliver

# The fabric's own part of the ranking of packets, before the hooks of schemes.
cdef inline void add_ranking(World* world) except *:
    add_hook(&world.switch_ops, world, "on_enqueue", <void*>rank_enqueued, NULL, 0)
    add_hook(&world.switch_ops, world, "on_dequeue", <void*>rank_dequeued, NULL, 0)
    if world.ranked == QUEUED:
        add_hook(&world.host_ops, world, "on_enqueue", <void*>rank_enqueued, NULL, 0)
        add_hook(&world.host_ops, world, "on_dequeue", <void*>rank_dequeued, NULL, 0)

# The fabric's own end of a flow, after the hooks of schemes: it keeps the flow's counts.
cdef inline void add_counting(World* world) except *:
    if world.counted_count:
        add_hook(&world.host_ops, world, "on_finish", <void*>count_flow, NULL, 0)

# The fabric's own choice of paths, before that of schemes.
cdef inline void put_first(Ops* ops, World* world, void* function) except *:
    made = <QueueHook*>zeroed(world.arena, 1, sizeof(QueueHook))
    (<AnyHook*>made).call = function
    made.next = ops.choose_path
    ops.choose_path = made

cdef inline void add_first(World* world, str name) except *:
    function = <void*>choose_pinned if name == "pins" else <void*>choose_turn
    put_first(&world.switch_ops, world, function)
    put_first(&world.plain_ops, world, function)

# The fabric's own kind of packet that trees of switches reduce.
cdef inline void add_reduction(World* world) except *:
    add_hook(&world.host_ops, world, "on_control", <void*>receive_sum, NULL, REDUCED)
    add_hook(&world.switch_ops, world, "on_control", <void*>reduce, NULL, REDUCED)
    add_hook(&world.plain_ops, world, "on_control", <void*>reduce, NULL, REDUCED)

cdef inline void call_set_up(void* function, void* me) noexcept:
    (<void (*)(void*) noexcept nogil>function)(me)

cdef inline void call_set_up_node(void* function, void* me, Node* node) noexcept:
    (<void (*)(void*, Node*) noexcept nogil>function)(me, node)

cdef inline void call_set_up_port(void* function, void* me, Node* node, Port* port) noexcept:
    (<void (*)(void*, Node*, Port*) noexcept nogil>function)(me, node, port)

# numpy arrays as tables; the caller keeps them alive.
cdef inline int8_t* int8_table(array): return <int8_t*><size_t>array.ctypes.data
cdef inline int16_t* int16_table(array): return <int16_t*><size_t>array.ctypes.data
cdef inline int32_t* int32_table(array): return <int32_t*><size_t>array.ctypes.data
cdef inline int64_t* int64_table(array): return <int64_t*><size_t>array.ctypes.data
cdef inline NodeCounters* node_counter_table(array): return <NodeCounters*><size_t>array.ctypes.data
cdef inline PortCounters* port_counter_table(array): return <PortCounters*><size_t>array.ctypes.data
cdef inline Start* start_table(array): return <Start*><size_t>array.ctypes.data
cdef inline Connection* connection_table(array): return <Connection*><size_t>array.ctypes.data
cdef inline Message* message_table(array): return <Message*><size_t>array.ctypes.data
cdef inline Recorded* recorded_table(array): return <Recorded*><size_t>array.ctypes.data
cdef inline Seat* seat_table(array): return <Seat*><size_t>array.ctypes.data
cdef inline Log* log_of(Worker* worker, str name) noexcept:
    if name == "switch":
        return &worker.switch_rows
    if name == "port":
        return &worker.port_rows
    if name == "queue":
        return &worker.queue_rows
    if name == "flow":
        return &worker.flow_rows
    if name == "pause":
        return &worker.pause_rows
    if name == "count":
        return &worker.count_rows
    if name == "record":
        return &worker.record_rows
    if name == "print":
        return &worker.print_rows
    return &worker.trace_rows
cdef inline int64_t row_bytes(str name):
    sizes = {
        "switch": sizeof(SwitchRow), "port": sizeof(PortRow), "queue": sizeof(QueueRow), "flow": sizeof(FlowRow),
        "pause": sizeof(PauseRow), "count": sizeof(CountRow), "record": sizeof(RecordRow), "print": sizeof(PrintRow),
    }
    return sizes.get(name, sizeof(TraceRow))
cdef inline bytes rows_of(Worker* worker, str name, bint forget):
    log = log_of(worker, name)
    rows = PyBytes_FromStringAndSize(log.rows, log.count * row_bytes(name))
    if forget:
        free_log(log)
    return rows
cdef inline int64_t log_bytes(Worker* worker) noexcept:
    size = worker.switch_rows.count * <int64_t>sizeof(SwitchRow) + worker.port_rows.count * <int64_t>sizeof(PortRow)
    size += worker.queue_rows.count * <int64_t>sizeof(QueueRow) + worker.flow_rows.count * <int64_t>sizeof(FlowRow)
    size += worker.count_rows.count * <int64_t>sizeof(CountRow) + worker.record_rows.count * <int64_t>sizeof(RecordRow)
    size += worker.print_rows.count * <int64_t>sizeof(PrintRow)
    return size + worker.pause_rows.count * <int64_t>sizeof(PauseRow) + worker.trace_rows.count * <int64_t>sizeof(TraceRow)
cdef inline object fault_of(Worker* worker):
    g = worker.guard
    return (g.fault, g.line, g.value, g.limit, g.scheme, g.hook, g.fault_node, g.time) if g.fault else None
cdef inline FlowResults* flow_results(World* world) noexcept: return &world.results
cdef inline void free_world(World* world):
    if not world:
        return
    for i in range(world.worker_count if world.workers else 0):
        worker = worker_at(world, i)
        free_log(&worker.switch_rows)
        free_log(&worker.port_rows)
        free_log(&worker.queue_rows)
        free_log(&worker.flow_rows)
        free_log(&worker.pause_rows)
        free_log(&worker.trace_rows)
        free_log(&worker.count_rows)
        free_log(&worker.record_rows)
        free_log(&worker.print_rows)
    free_arena(world.arena)

cdef inline void run_released(Worker* worker, long count) noexcept:
    with nogil:
        run_windows(worker, count)

cdef inline size_t me_of(void* me) noexcept: return <size_t>me
cdef inline void* me_at(object me): return <void*><size_t>me
cdef inline void* node_area(Node* node, long at) noexcept: return <char*>node + at
cdef inline void* port_area(Port* port, long at) noexcept: return <char*>port + at
cdef inline void* queue_area(Queue* queue, long at) noexcept: return <char*>queue + at
