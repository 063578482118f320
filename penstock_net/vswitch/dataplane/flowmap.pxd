from penstock_net.vswitch.dataplane.state cimport *
from penstock_net.vswitch.dataplane.flowtable cimport hash_of

cdef struct Names:          # numbers of queues by flow: chains
    int32_t* first
    int32_t* following
    Key* keys
    int64_t mask

cdef inline Key* name_at(Names* names, int64_t i) noexcept nogil: return &names.keys[i]
cdef inline void copy_key(Key* to, Key* key) noexcept nogil: memcpy(to, key, sizeof(Key))
cdef inline void make_names(Names* names, int64_t count):
    names.mask = 1
    while names.mask < count:
        names.mask *= 2
    names.first = <int32_t*>calloc(names.mask, 4)
    names.following = <int32_t*>calloc(count, 4)
    names.keys = <Key*>calloc(count, sizeof(Key))
    names.mask -= 1
cdef inline void free_names(Names* names):
    free(names.first)
    free(names.following)
    free(names.keys)

cdef int64_t find_name(Worker* worker, Names* names, Key* key) noexcept nogil
cdef void add_name(Worker* worker, Names* names, int64_t number, Key* key) noexcept nogil
cdef void remove_name(Worker* worker, Names* names, int64_t number) noexcept nogil
