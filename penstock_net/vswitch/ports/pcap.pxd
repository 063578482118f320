from libc.stdint cimport uint32_t
from penstock_net.vswitch.ports.base cimport *

cdef struct Tape:           # a recording to replay, and one that is being written
    char* bytes             # (time in ns from the first frame, length, frame), ...
    int64_t size, at
    int64_t start           # when the replay began; -1: not yet
    int64_t interval        # ns from frame to frame; -1: as recorded
    int64_t next_time
    int64_t rounds          # that are still to come
    char* page              # what is still to be written
    int64_t filled
    int32_t fd              # of the file to write; -1: none
    int32_t blocks          # whether it is a pcapng
    int64_t origin          # ns of the calendar when the port's clock is 0

cdef enum:
    RECORD_BYTES = 16
    PAGE_BYTES = 262144

cdef inline Tape* tape_of(KernelPort* port) noexcept nogil: return <Tape*>port.own
cdef inline Tape* new_tape(PortHandle port) except NULL: return <Tape*>keep(port, bytearray(sizeof(Tape)))
cdef inline int64_t* number_at(char* base, int64_t offset) noexcept nogil: return <int64_t*>(base + offset)
cdef inline void put32(Tape* tape, int64_t value) noexcept nogil:
    word = <uint32_t>value
    memcpy(tape.page + tape.filled, &word, 4)      # a pcap file knows no alignment
    tape.filled += 4

cdef int64_t pcap_receive(KernelPort* port, char* to, int64_t room) noexcept nogil
cdef bint pcap_send(KernelPort* port, char* frame, int64_t length) noexcept nogil
cdef bint record(KernelPort* port, char* frame, int64_t length, int64_t direction) noexcept nogil
cdef bint pcap_flush(KernelPort* port) noexcept nogil
cdef void connect(PortHandle handle, object frames, int64_t interval, int64_t rounds, int fd, bint blocks, int64_t origin, bytes beginning) except *
