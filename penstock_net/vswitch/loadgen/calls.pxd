from penstock_net.vswitch.loadgen.frames cimport *

cdef double next_gap(Calls* calls) noexcept nogil
cdef void call_wants(Calls* calls, int64_t number) noexcept nogil
cdef void start_calls(Calls* calls, double now) noexcept nogil
cdef void check_calls(Calls* calls, double now) noexcept nogil
cdef bint send_call_frame(App* app, Calls* calls, int64_t number, int64_t what, int64_t length, int64_t index, int64_t mask, double began) noexcept nogil
cdef int64_t send_call(App* app, Calls* calls, int64_t number, int64_t budget, double now) noexcept nogil
cdef int64_t send_calls(App* app, Calls* calls, int64_t budget, double now) noexcept nogil
cdef void handle_call(App* app, int64_t what, char* frame, int64_t length, double done) noexcept nogil
cdef void hear_server(App* app, Calls* calls, int64_t number, int64_t what, char* frame, int64_t length, double began, double done) noexcept nogil
cdef void hear_client(Calls* calls, int64_t number, int64_t what, char* frame, double began, double done) noexcept nogil
