from penstock_net.fabric.state cimport *

cdef int64_t ends_at(World* world, Connection* connection) noexcept nogil
cdef int64_t post(World* world, Connection* connection, int64_t number, int64_t begin, int64_t size) noexcept nogil
cdef void join(World* world, Flow* flow) noexcept nogil
cdef int64_t message_of(World* world, Flow* flow, int64_t seq) noexcept nogil
cdef int64_t end_with_message(World* world, Flow* flow, Packet* pkt) noexcept nogil
cdef bint goes_on(World* world, Flow* flow) noexcept nogil
cdef void begin_sink(World* world, Sink* sink, int64_t number) noexcept nogil
cdef int64_t next_arrived(World* world, Sink* sink, int64_t number) noexcept nogil
