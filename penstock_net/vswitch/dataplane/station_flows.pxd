"""Flows to stations, and of frames that get no flow of their own; station_flows.py describes them."""
from penstock_net.vswitch.dataplane.state cimport *
from penstock_net.vswitch.dataplane.flowtable cimport find_flow, flow_between, host_of, may_send_from, owner_of, renew_flow
from penstock_net.vswitch.dataplane.stations cimport port_behind, station_word
from penstock_net.vswitch.dataplane.vlan cimport driver_at, may_meet, vlan_of

cdef enum:
    TO_STATION = 1 << 25    # in the last word of a flow's key: the third has VLAN and Ethernet address of its destination

cdef inline bint is_to_station(uint64_t* words) noexcept nogil: return words[4] & TO_STATION != 0

cdef Flow* other_flow(Worker* worker, SwitchPort* port, Key* key, int64_t reason, int64_t now) noexcept nogil
cdef Flow* shared_flow(Worker* worker, SwitchPort* port, SwitchPort* to, Key* key, int64_t reason) noexcept nogil
cdef Flow* flow_to_station(Worker* worker, SwitchPort* port, Key* key, int64_t now) noexcept nogil
cdef int64_t port_to(Worker* worker, char* frame, int64_t now) noexcept nogil
cdef bint may_use_mac(Worker* worker, SwitchPort* port, uint64_t mac) noexcept nogil
