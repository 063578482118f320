"""What a checkpoint of the core needs of pointers: a stream of bytes that a struct is copied to, or taken from; see checkpoint.py."""
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy
from penstock_net.fabric.state cimport *
from penstock_net.sim.core.build cimport Simulation
from penstock_net.sim.core.pointers cimport int64_table, log_of, me_at, rows_of

cdef extern from "Python.h":
    object PyBytes_FromStringAndSize(const char* text, Py_ssize_t size)

cdef enum:
    OF_PACKET = 0           # structs of which fields are copied
    OF_FRAME = 1
    OF_PORT = 2
    OF_QUEUE = 3
    OF_FLOW = 4
    OF_NODE = 5
    OF_INCOMING = 6
    OF_HOST = 7
    OF_SINK = 8
    OF_LLR = 9
    OF_SCHEME = 10          # a scheme's own, behind its Places
    KINDS_OF_STRUCT = 11
    PAGE = 4096

cdef struct Spans:          # pairs: offset and length of what is copied; offset of a table's pointer and bytes of an element
    int64_t* table
    int64_t count

cdef struct Stream:
    char* data
    int64_t at, size, room
    int32_t loading         # 1: `keep` takes from it; 0: it appends
    int32_t damaged         # what it holds is not what was expected, or there is no memory
    Spans fields[11]        # by kind of struct
    Spans tables[11]

cdef inline void append(Stream* stream, void* p, int64_t size) noexcept nogil:
    if stream.at + size > stream.room:
        room = 2 * (stream.at + size)
        data = <char*>realloc(stream.data, room)
        if not data:
            stream.damaged = 1
            return
        stream.data = data
        stream.room = room
    memcpy(stream.data + stream.at, p, size)
    stream.at += size

# Memory that holds the same already is not written to: what is not in use stays so.
cdef inline void take(Stream* stream, void* p, int64_t size) noexcept nogil:
    cdef int64_t done = 0
    cdef int64_t part
    if size > stream.size - stream.at:
        stream.damaged = 1
        return
    while done < size:
        part = min(<int64_t>PAGE, size - done)
        if memcmp(<char*>p + done, stream.data + stream.at + done, part):
            memcpy(<char*>p + done, stream.data + stream.at + done, part)
        done += part
    stream.at += size

cdef inline void keep(Stream* stream, void* p, int64_t size) noexcept nogil:
    if stream.damaged or size <= 0:
        return
    if stream.loading:
        take(stream, p, size)
    else:
        append(stream, p, size)

cdef inline int64_t keep_number(Stream* stream, int64_t value) noexcept nogil:
    keep(stream, &value, sizeof(value))
    return 0 if stream.damaged else value

cdef inline void keep_fields(Stream* stream, int kind, void* p) noexcept nogil:
    cdef Spans* spans = &stream.fields[kind]
    cdef int64_t i
    for i in range(spans.count):
        keep(stream, <char*>p + spans.table[2 * i], spans.table[2 * i + 1])

# A table is a pointer and, behind it, the number of its elements; both are as in the simulation that was built.
cdef inline void keep_tables(Stream* stream, int kind, void* p) noexcept nogil:
    cdef Spans* spans = &stream.tables[kind]
    cdef char* table
    cdef int64_t i
    for i in range(spans.count):
        table = <char*>p + spans.table[2 * i]
        keep(stream, (<void**>table)[0], (<int64_t*>table)[1] * spans.table[2 * i + 1])

cdef inline int64_t place_of(Port* port, Queue* queue) noexcept nogil:
    return (<char*>queue - <char*>port.queues) // port.queue_size
cdef inline Outbox* outbox_of(Node* node, Port* port, int parity) noexcept nogil:
    return outbox_at(node.worker, parity, port.peer_port)
cdef inline Flow* flow_in(Heap* heap, int64_t i) noexcept nogil: return <Flow*>heap.items[i]
cdef inline Incoming* incoming_in(Heap* heap, int64_t i) noexcept nogil: return <Incoming*>heap.items[i]

cdef inline World* world_of(Simulation sim): return sim.world
cdef inline object installed_in(Simulation sim): return sim.installed
cdef inline void* own_of(object me): return <char*>me_at(me) + sizeof(Places)
cdef inline object begin(Stream* stream):
    stream.at = stream.damaged = stream.loading = 0
cdef inline void begin_loading(Stream* stream, bytes data) except *:
    begin(stream)
    append(stream, <char*>data, len(data))
    stream.size = stream.at
    stream.at = 0
    stream.loading = 1
cdef inline bytes bytes_of(Stream* stream):
    return PyBytes_FromStringAndSize(stream.data, stream.at)
cdef inline void set_layout(Stream* stream, int kind, fields, tables) except *:
    stream.fields[kind].table = int64_table(fields)
    stream.fields[kind].count = len(fields)
    stream.tables[kind].table = int64_table(tables)
    stream.tables[kind].count = len(tables)
cdef inline void free_stream(Stream* stream) noexcept:
    free(stream.data)

cdef inline void put_rows(Worker* worker, str name, bytes rows, int64_t size) except *:
    log = log_of(worker, name)
    log.rows = <char*>realloc(log.rows, max(1, len(rows)))
    if not log.rows:
        raise MemoryError
    memcpy(log.rows, <char*>rows, len(rows))
    log.count = log.capacity = len(rows) // size
cdef inline int64_t sizes_of(str struct_name) except -1:
    sizes = {
        "Packet": sizeof(Packet), "Port": sizeof(Port), "Queue": sizeof(Queue), "Flow": sizeof(Flow), "Node": sizeof(Node),
        "Incoming": sizeof(Incoming), "Host": sizeof(Host), "Sink": sizeof(Sink), "Ranked": sizeof(Ranked), "Llr": sizeof(Llr),
    }
    return sizes[struct_name]
