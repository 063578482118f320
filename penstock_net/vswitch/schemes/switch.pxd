from penstock_net.vswitch.schemes.state cimport *
from penstock_net.fabric.queueing_inline cimport free_packet, alloc_packet
from penstock_net.sim.core.build cimport Simulation
from penstock_net.vswitch.schemes.endpoint cimport begin, retry_delivery, woken
from penstock_net.vswitch.schemes.clock cimport is_empty, prepare_emulation, turn
from penstock_net.vswitch.ports.base cimport PortHandle, pointer_to
from penstock_net.vswitch.dataplane.prefixes cimport EXACT
from penstock_net.vswitch.dataplane.schedule cimport activate
from penstock_net.vswitch.dataplane.switch cimport Switch, run_released

cdef extern from "Python.h":
    object PyBytes_FromStringAndSize(const char* text, Py_ssize_t size)
    char* PyBytes_AS_STRING(object text)

cdef inline Emulation* new_emulation(): return <Emulation*>calloc(1, sizeof(Emulation))
cdef inline Endpoint* new_endpoints(int64_t n): return <Endpoint*>calloc(n, sizeof(Endpoint))
cdef inline Packet** new_hands(int64_t n): return <Packet**>calloc(n, sizeof(Packet*))
cdef inline char* flags(int64_t n): return <char*>calloc(n, 1)
cdef inline Trunk* new_trunks(int64_t n): return <Trunk*>calloc(n, sizeof(Trunk))
cdef inline Far* new_fars(int64_t n): return <Far*>calloc(n, sizeof(Far))
cdef inline Node* no_node(): return NULL
cdef inline void set_kernel_port(Trunk* trunk, PortHandle port): trunk.port = pointer_to(port)
cdef inline Packet** no_hands(): return NULL
cdef inline long carried_bytes(): return sizeof(Carried)
cdef inline void set_world(Emulation* emulation, Simulation sim):
    emulation.world = sim.world
    emulation.engine = engine_at(sim.world, 0)
    emulation.world.host_ops.transmit.call = begin
    emulation.world.host_ops.wake.call = woken
cdef inline void turn_to(Emulation* emulation, int64_t ps):
    with nogil:
        turn(emulation, emulation.origin + ps // 1000, ps)
cdef inline uint64_t turns_of_emulation(Emulation* emulation, int64_t count):
    cdef uint64_t start
    cdef int64_t i, now
    with nogil:
        start = cycles()
        for i in range(count):
            now = now_ns()
            turn(emulation, now, 1000 * (now - emulation.origin))
        start = cycles() - start
    return start
cdef inline bytes bytes_of_packet(Packet* pkt, int64_t size): return PyBytes_FromStringAndSize(<char*>pkt, size)
cdef inline Packet* packet_of(Emulation* emulation, bytes data):
    pkt = alloc_packet(emulation.engine)
    memcpy(pkt, PyBytes_AS_STRING(data), len(data))
    return pkt

cdef class SchemeSwitch(Switch):
    cdef Emulation* emulation
    cdef Simulation sim
    cdef int64_t lost_bytes
    cdef readonly int node
    cdef readonly dict peers
    cdef readonly object scheme, network, topo
    cdef readonly dict ours, place, before
    cdef readonly list left_out
