# Acknowledgements that answer several packets, or that take time: a part of state.pxd, which includes it.  See sim/core/acks.py.

ctypedef struct Held:       # packets of a flow that are to be acknowledged together; the first of a table: the ends of a list
    Packet* pkt             # the last one, which becomes the acknowledgement; NULL: there is none
    int64_t due, arrived    # when it is sent at the latest; when the last one came
    int32_t packets, marked # how many; whether the last packet of the flow had a mark
    int32_t before, after   # its neighbours in the order of `due`; after: of those that are free, too

cdef struct Answer:         # what an acknowledgement has of its receiver, behind the state of schemes
    int64_t waited          # ps from the arrival of the packet whose acknowledgement it is
    int32_t packets, spare  # that it answers

cdef inline Answer* answer_of(World* world, Packet* pkt) noexcept nogil:
    return <Answer*>answer_behind(pkt, world.answer_at)
cdef inline int32_t packets_answered(Node* node, Packet* pkt) noexcept nogil:
    return answer_of(node.worker.world, pkt).packets if node.worker.world.answer_at else 1
cdef inline int64_t time_waited(Node* node, Packet* pkt) noexcept nogil:
    return answer_of(node.worker.world, pkt).waited if node.worker.world.answer_at else 0
cdef inline Held* held_at(Host* host, long i) noexcept nogil:
    return &host.held[at(i, host.held_count, b"held")]
cdef inline Held* held_in(Held* table, long i) noexcept nogil:
    return &table[i]
