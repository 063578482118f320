from penstock_net.fabric.state cimport *
from penstock_net.fabric.tables cimport new_keyed_refs

cdef bint goes_first(int64_t number, int64_t other, int64_t seed) noexcept nogil
cdef bint sooner(Heap* heap, Keyed* a, Keyed* b) noexcept nogil
cdef void put(Heap* heap, int i, Keyed* item) noexcept nogil
cdef void sift_up(Heap* heap, int i) noexcept nogil
cdef void sift_down(Heap* heap, int i) noexcept nogil
cdef void grow(Arena* arena, Heap* heap) noexcept nogil
cdef void add(Arena* arena, Heap* heap, Keyed* item) noexcept nogil
cdef void remove(Heap* heap, Keyed* item) noexcept nogil
cdef void fix(Heap* heap, Keyed* item) noexcept nogil
