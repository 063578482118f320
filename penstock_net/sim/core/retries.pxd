from penstock_net.fabric.state cimport *
from penstock_net.fabric.tables cimport new_llr

cdef list act_on_retry(World* world, ends, int on, given)
cdef void set_up(World* world, ends, dict given) except *
cdef list counters(World* world)
