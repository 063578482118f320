"""The state of a port of the kernel that a worker drives, and of the overlay to another switch."""
from penstock_net.vswitch.dataplane.state cimport *
from penstock_net.vswitch.dataplane.flowmap cimport Names
from penstock_net.vswitch.ports.segment cimport Cut, Joint, internet_sum, put_short
from penstock_net.vswitch.dataplane.session cimport Session
from penstock_net.vswitch.ports.base cimport KernelPort

cdef enum:
    LEARNED = 256

cdef struct TxFlow:         # a transmit queue that the driver fills, of one flow while there are enough queues
    Key key
    End end
    int32_t open, used
    int32_t pressed         # whether it was reported to hold much
    int64_t sent, used_at
    uint32_t put            # frames put in
    uint32_t seen           # frames that the switch had taken out when it was looked at last
    int64_t moved_at        # when it was seen to take some, or had none to take
    int64_t shared_to       # of `sent`: a flow without a queue waits behind what was sent before
    int64_t quiet_until     # overlay: the end of the last pause that the peer was sent
    int64_t pause_sent_at
    double rate_sent        # the rate that the peer was sent, bytes per second; 0: none; -1: that of a receiver that takes nothing
    int64_t check_at        # overlay: when the flow is looked at again, as it is held; 0: it is not
    int64_t hold_until      # overlay: the end of the last long pause that the peer was sent
    int32_t next_held       # overlay: the next one of the queue of those that are held, plus one; 0: none

cdef struct RxQueueState:   # a receive queue: its flow, and the rate and pause that the peer of an overlay has asked for
    int64_t at, next_at
    double rate             # bytes per second; 0: none
    int32_t named           # whether its flow is known by its key
    int64_t stuck_at        # since when its first frame waits for a socket, or for the end of a peer's pause; 0: it does not
    int64_t pause_number, pause_session     # of the last pause frame
    int64_t gone            # bytes of the first frame's payload that have gone out as datagrams, see cutting.py

cdef struct Learned:        # the Ethernet address that an address was last seen with
    uint64_t high, low, mac

cdef struct Overlay:        # two switches over UDP: the session, frames that are cut or joined, pauses
    Session session
    char* incoming          # a datagram that has come in
    char* outgoing          # a datagram that is being made
    char* parts             # a frame that comes in parts
    char* held              # a frame in one of these that is still to be handed on
    int64_t held_length     # of it; 0: there is none
    int64_t parts_length, parts_next, parts_session
    Cut cut
    Joint joint
    char* sending           # a frame of which only some datagrams have been sent
    int64_t sending_length, sending_room, sending_session, sent_bytes
    int32_t cutting         # into segments; or into parts
    int32_t first_held, last_held, held_count   # flows whose pauses are renewed: a queue of transmit queues, each plus one
    int64_t held_at         # when the next of them is looked at
    int64_t now             # the time of the last turn
    int64_t look_at, lost_seen, drops_seen  # when the socket's losses are looked at, and what they were
    int64_t pauses_out, pauses_in, unknown, old_pauses, no_room, frames_cut, segments_out, joined_in, frames_in_parts, parts_lost, unsendable

cdef struct Driver:
    SwitchPort side         # the application's side of the region: its txqs are the receive queues
    KernelPort* kernel
    SwitchPort* at          # the switch's side of the region, at the worker that drives it; NULL: none
    Overlay* overlay        # NULL: none
    int32_t port            # of the switch
    int32_t spare           # a buffer to read into; -1: none
    int32_t free_count, age_at, queues
    int32_t queue_top       # of the transmit queues used so far, plus one
    int32_t bell_rings      # one of each worker
    int32_t bell_in[4]
    int32_t rewrites        # puts the device's Ethernet address, or a learned one, into what it sends
    int32_t learned_count
    int32_t lossless        # whether the network at the device holds frames back while it is not read, as by PFC
    char* vlans             # by number, whether it carries that VLAN; NULL: it has none, and frames are as they are
    int32_t untagged        # the VLAN of untagged frames outside; 0: none
    int32_t is_access       # whether it has no other
    int32_t only_queued     # whether frames to it pass its queues, as it has VLANs, learns, or is an overlay
    int32_t learns          # whether it has stations, see stations.py
    int32_t in_domain       # whether broadcasts pass and the switch has stations: to these its frames go, too
    int32_t inspected       # whether frames from it are looked at by receive_inspected()
    int64_t wrong_vlan_in, wrong_vlan_out
    int64_t vlan            # of the request that is being answered
    int32_t limited         # whether an allowance limits what the sockets behind the device are sent
    uint64_t mac            # of the device; 0: learned ones
    int64_t read_at, try_at, next_due, age_next, press_next
    int32_t holds           # whether the device has not taken all that was handed over to it: tried again soon
    int64_t room            # free transmit buffers, but for the spare one
    int64_t kept            # of them, those that only flows which hold few may take
    int64_t* returned       # by receive queue, and of all: frames taken out
    int64_t direct          # bytes that may still go straight to the device in this turn, see direct.py
    int64_t sent_direct     # frames that did
    int64_t put             # frames that were put into transmit queues
    int64_t of_the_link     # frames from the device that were for the switch itself, or broadcasts
    TxFlow* tx_flows
    RxQueueState* rxqs      # by receive queue
    int32_t* free_tx_flows
    Names incoming          # numbers of transmit queues, by flow
    Names outgoing          # numbers of receive queues, by flow
    Learned learned[256]    # of the addresses of the port
    void* cutting           # a super-frame for a port that takes none, see cutting.py
    int32_t cuts            # whether there is one
    int64_t cut_frames
    int64_t further_in, further_out     # frames made by cutting, beyond one for each that was cut
    int32_t broadcasts      # whether broadcasts and multicasts pass, see broadcast.py
    int64_t flood_at        # ns: when the next of them is due at the rate that is allowed
    char* flood_frame       # one of them, as another port takes it
    int64_t flooded, flood_limited, flood_lost, flood_spoofed, not_carried
    int64_t stations_learned, stations_moved, stations_beyond    # addresses: new ones, those from other ports, those not learned
    int64_t station_spoofed, same_port, to_unknown      # frames: from an address that it may not have; for a station behind itself; for none that is known
    int64_t* table          # of socket_room.pxd: what the frames to each UDP port have cost and may
    int64_t charged, charged_port       # socket memory that frames to a UDP port take, of which the table does not know yet
    int32_t alarm           # an eventfd that wakes the edge
    int64_t looks, looked_at    # at the sockets, as the worker has seen: how many, and when the last
    int64_t held_until      # ns: until when frames wait for sockets, unless a look comes before; 0: none does
    int64_t held_looks      # looks so far, when the first of them was tried
    int64_t hasten_at       # they are not tried again before
    int64_t busy_since      # since when there were frames, but for TCP's, and the device was never seen empty; 0: there were none
    int64_t answered, malformed, waits_for_buffer, shared_queues, multicast, full_sockets
    int64_t evictions       # transmit queues that had to give up what they held
    int64_t evicted_out     # frames dropped at the device's side, after they had been delivered
    Key key
    char reply[128]

cdef inline uint64_t* returned_at(Driver* driver, int64_t i) noexcept nogil: return <uint64_t*>&driver.returned[i]
cdef inline int64_t held_in(TxFlow* tx_flow, TxQueue* txq) noexcept nogil: return <uint32_t>(tx_flow.put - txq.served)
cdef inline void note_progress(TxFlow* tx_flow, TxQueue* txq, int64_t now) noexcept nogil:
    if txq.served != tx_flow.seen:
        tx_flow.seen = txq.served
        tx_flow.moved_at = now
cdef inline TxFlow* tx_flow_at(Driver* driver, int64_t i) noexcept nogil: return &driver.tx_flows[i]
cdef inline RxQueueState* rxq_at(Driver* driver, int64_t i) noexcept nogil: return &driver.rxqs[i]
cdef inline int32_t* ring_of(Driver* driver, int64_t i) noexcept nogil: return &driver.bell_in[i]
cdef inline SwitchPort* side_of(Driver* driver) noexcept nogil: return &driver.side
cdef inline View* own_view(Driver* driver) noexcept nogil: return &driver.side.view
cdef inline Names* incoming_of(Driver* driver) noexcept nogil: return &driver.incoming
cdef inline Names* outgoing_of(Driver* driver) noexcept nogil: return &driver.outgoing
cdef inline Key* own_key(Driver* driver) noexcept nogil: return &driver.key
cdef inline Key* key_of_tx_flow(TxFlow* tx_flow) noexcept nogil: return &tx_flow.key
cdef inline End* end_of_tx_flow(TxFlow* tx_flow) noexcept nogil: return &tx_flow.end
cdef inline void clear_tx_flow(TxFlow* tx_flow) noexcept nogil: memset(tx_flow, 0, sizeof(TxFlow))
cdef inline void clear_rxq(RxQueueState* rxq) noexcept nogil: memset(rxq, 0, sizeof(RxQueueState))
cdef inline Learned* learned_at(Driver* driver, int64_t i) noexcept nogil: return &driver.learned[i]
cdef inline Driver* driver_of(void* own) noexcept nogil: return <Driver*>own
cdef inline void put_mac(char* to, uint64_t mac) noexcept nogil: memcpy(to, &mac, 6)
cdef inline void clear_bytes(char* to, int64_t n) noexcept nogil: memset(to, 0, n)
