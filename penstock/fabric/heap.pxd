from penstock.fabric.state cimport *
from penstock.fabric.tables cimport new_keyed_refs

cdef bint sooner(Keyed* a, Keyed* b) noexcept nogil
cdef void put(Heap* heap, int i, Keyed* item) noexcept nogil
cdef void sift_up(Heap* heap, int i) noexcept nogil
cdef void sift_down(Heap* heap, int i) noexcept nogil
cdef void grow(Arena* arena, Heap* heap) noexcept nogil
cdef void add(Arena* arena, Heap* heap, Keyed* item) noexcept nogil
cdef void remove(Heap* heap, Keyed* item) noexcept nogil
cdef void fix(Heap* heap, Keyed* item) noexcept nogil
