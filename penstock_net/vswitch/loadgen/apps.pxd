from penstock_net.vswitch.loadgen.frames cimport *
from penstock_net.vswitch.loadgen.calls cimport handle_call, send_calls

cdef double interval(Stream* stream) noexcept nogil
cdef bint send_one(App* app, Stream* stream, double now) noexcept nogil
cdef bint begin_message(Stream* stream, double now) noexcept nogil
cdef int64_t send(App* app, double now) noexcept nogil
cdef void take_bells(App* app, double now) noexcept nogil
cdef void list_queue(App* app, int64_t queue) noexcept nogil
cdef int64_t core_of(App* app, Inbox* inbox) noexcept nogil
cdef bint find(App* app, Inbox* inbox, int64_t queue) noexcept nogil
cdef int64_t serve(App* app, Core* core, double now, bint waited) noexcept nogil
cdef uint64_t next_frame(App* app, Inbox* inbox, int64_t queue) noexcept nogil
cdef void handle(App* app, char* frame, int64_t length, double done) noexcept nogil
cdef void answered(App* app, Stream* stream, char* frame, int64_t length, double done) noexcept nogil
cdef void answer(App* app, Stream* stream, char* frame, double done) noexcept nogil
cdef int64_t step(App* app, double now) noexcept nogil
