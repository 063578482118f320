from penstock_net.fabric.state cimport *
from penstock_net.fabric.tables cimport new_int32, new_int64, new_node_refs

cdef void new_agenda(Worker* worker, list above, list steps, list numbers) noexcept
cdef void forget_end(Worker* worker) noexcept
cdef int64_t least(int64_t* times, long block) noexcept nogil
cdef void set_time(Worker* worker, long place, int64_t time) noexcept nogil
cdef void bring_forward(Worker* worker, long place, int64_t time) noexcept nogil
cdef int64_t next_time(Worker* worker) noexcept nogil
cdef void take_mail(Worker* worker) noexcept nogil
cdef void clear_mail(Worker* worker, int parity) noexcept nogil
