"""The table of what the compiled parts ask of the world, and a function for each entry; contract.py says what each does."""
from libc.errno cimport EIO, ENOSYS
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memcpy

cdef extern from "sys/uio.h" nogil:
    struct iovec:
        void* iov_base
        size_t iov_len
cdef extern from "poll.h" nogil:
    struct pollfd:
        int fd
        short events
        short revents
    enum: POLLIN
cdef extern from "sys/socket.h" nogil:
    ctypedef unsigned int socklen_t
    struct sockaddr_storage:
        unsigned short ss_family
    struct msghdr:
        void* msg_name
        socklen_t msg_namelen
        iovec* msg_iov
        size_t msg_iovlen
        void* msg_control
        size_t msg_controllen
        int msg_flags
    struct mmsghdr:
        msghdr msg_hdr
        unsigned int msg_len
    enum: MSG_DONTWAIT, MSG_NOSIGNAL, MSG_TRUNC, MSG_CTRUNC

cdef extern from "Python.h":
    object PyBytes_FromStringAndSize(const char* text, Py_ssize_t size)
    char* PyBytes_AS_STRING(object text)

cdef struct Calls:
    int64_t (*now_ns)() noexcept nogil
    int (*watch_with)(int epoll, int fd, int32_t* empty) noexcept nogil
    void (*sleep_on)(int epoll, int64_t ns) noexcept nogil
    int (*poll_pair)(pollfd* pair, int64_t ns) noexcept nogil
    ssize_t (*readv)(int fd, iovec* vectors, int count) noexcept nogil
    ssize_t (*write)(int fd, const void* source, size_t n) noexcept nogil
    ssize_t (*send)(int fd, const void* data, size_t n, int flags) noexcept nogil
    ssize_t (*recv)(int fd, void* data, size_t n, int flags) noexcept nogil
    int (*recvmmsg)(int fd, mmsghdr* messages, unsigned int count) noexcept nogil
    int (*sendmmsg)(int fd, mmsghdr* messages, unsigned int count) noexcept nogil
    int (*ioctl)(int fd, unsigned long request, void* argument) noexcept nogil
    int64_t (*path_mtu_now)(int fd, sockaddr_storage* peer, unsigned int size) noexcept nogil
    int64_t (*socket_drops)(int fd) noexcept nogil
    int (*open_context)(uint64_t* context) noexcept nogil
    void (*close_context)(uint64_t context) noexcept nogil
    int (*signal_by)(uint64_t context, int ready, int fd) noexcept nogil

cdef struct Signaller:      # signals eventfds of other processes, which could make a write to them block
    uint64_t context
    int ready               # an eventfd that always is

cdef Calls calls
cdef object chosen          # the simulated world; None: the kernel
cdef list failures          # exceptions of the simulated world, which no caller could be told of

cdef inline int64_t now_ns() noexcept nogil: return calls.now_ns()
cdef inline int watch_with(int epoll, int fd, int32_t* empty) noexcept nogil: return calls.watch_with(epoll, fd, empty)
cdef inline void sleep_on(int epoll, int64_t ns) noexcept nogil: calls.sleep_on(epoll, ns)
cdef inline int poll_pair(pollfd* pair, int64_t ns) noexcept nogil: return calls.poll_pair(pair, ns)
cdef inline ssize_t read_into(int fd, iovec* vectors, int count) noexcept nogil: return calls.readv(fd, vectors, count)
cdef inline ssize_t write_to(int fd, const void* source, size_t n) noexcept nogil: return calls.write(fd, source, n)
cdef inline ssize_t send_to(int fd, const void* data, size_t n) noexcept nogil: return calls.send(fd, data, n, MSG_DONTWAIT)
cdef inline ssize_t receive_from(int fd, void* data, size_t n) noexcept nogil: return calls.recv(fd, data, n, MSG_DONTWAIT)
cdef inline int receive_messages(int fd, mmsghdr* messages, unsigned int count) noexcept nogil: return calls.recvmmsg(fd, messages, count)
cdef inline int send_messages(int fd, mmsghdr* messages, unsigned int count) noexcept nogil: return calls.sendmmsg(fd, messages, count)
cdef inline int control(int fd, unsigned long request, void* argument) noexcept nogil: return calls.ioctl(fd, request, argument)
cdef inline int64_t path_mtu_now(int fd, sockaddr_storage* peer, unsigned int size) noexcept nogil: return calls.path_mtu_now(fd, peer, size)
cdef inline int64_t socket_drops(int fd) noexcept nogil: return calls.socket_drops(fd)
# If the counter is full, it wakes all the same.
cdef inline void wake_switch(int eventfd) noexcept nogil:
    cdef uint64_t one = 1
    calls.write(eventfd, &one, 8)
# An application could make a write to an eventfd block; a send like this one never does.
cdef inline void wake_application(int socket) noexcept nogil: calls.send(socket, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL)
cdef inline int open_signaller(Signaller* signaller, int ready) noexcept nogil:
    signaller.context, signaller.ready = 0, ready
    return calls.open_context(&signaller.context)
cdef inline void close_signaller(Signaller* signaller) noexcept nogil:
    if signaller.context:
        calls.close_context(signaller.context)
    signaller.context = 0
cdef inline bint signal_other(Signaller* signaller, int fd) noexcept nogil: return calls.signal_by(signaller.context, signaller.ready, fd)

cdef inline size_t place_of_flag(int32_t* flag) noexcept: return <size_t>flag
cdef inline void clear_flag(size_t place) noexcept: (<int32_t*>place)[0] = 0
cdef inline size_t vector_bytes(iovec* vectors, int i) noexcept: return vectors[i].iov_len
cdef inline object bytes_at_place(const void* source, size_t n): return PyBytes_FromStringAndSize(<const char*>source, n)
cdef inline void put_bytes(void* to, bytes data, size_t n) noexcept: memcpy(to, PyBytes_AS_STRING(data), n)
cdef inline void fill_vector(iovec* vectors, int i, bytes data, size_t n) noexcept: put_bytes(vectors[i].iov_base, data, n)
cdef inline msghdr* message_at(mmsghdr* messages, int i) noexcept: return &messages[i].msg_hdr
cdef inline void set_length(mmsghdr* messages, int i, size_t n) noexcept: messages[i].msg_len = <unsigned int>n
cdef inline bytes name_of(msghdr* message): return bytes_at_place(message.msg_name, message.msg_namelen) if message.msg_name else b""
cdef inline bytes control_of(msghdr* message): return bytes_at_place(message.msg_control, message.msg_controllen) if message.msg_control else b""
cdef inline object peer_at(sockaddr_storage* peer, unsigned int size): return bytes_at_place(peer, size)
cdef inline void fill_name(msghdr* message, bytes name) noexcept:
    if message.msg_name:
        put_bytes(message.msg_name, name, min(<size_t>message.msg_namelen, <size_t>len(name)))
    message.msg_namelen = <socklen_t>len(name)
cdef inline void fill_control(msghdr* message, bytes control) noexcept:
    if <size_t>len(control) > message.msg_controllen:
        message.msg_flags |= MSG_CTRUNC
        control = b""
    put_bytes(message.msg_control, control, len(control))
    message.msg_controllen = len(control)
cdef bytes vectors_bytes(iovec* vectors, size_t count)
cdef size_t fill_vectors(iovec* vectors, size_t count, bytes data) noexcept
cdef void failed(object error) noexcept
cdef ssize_t answered(object answer) noexcept
cdef int64_t simulated_now_ns() noexcept with gil
cdef int simulated_watch_with(int epoll, int fd, int32_t* empty) noexcept with gil
cdef void simulated_sleep_on(int epoll, int64_t ns) noexcept with gil
cdef int simulated_poll_pair(pollfd* pair, int64_t ns) noexcept with gil
cdef ssize_t simulated_readv(int fd, iovec* vectors, int count) noexcept with gil
cdef ssize_t simulated_write(int fd, const void* source, size_t n) noexcept with gil
cdef ssize_t simulated_send(int fd, const void* data, size_t n, int flags) noexcept with gil
cdef ssize_t simulated_recv(int fd, void* data, size_t n, int flags) noexcept with gil
cdef int simulated_recvmmsg(int fd, mmsghdr* messages, unsigned int count) noexcept with gil
cdef int simulated_sendmmsg(int fd, mmsghdr* messages, unsigned int count) noexcept with gil
cdef int simulated_ioctl(int fd, unsigned long request, void* argument) noexcept with gil
cdef int64_t simulated_path_mtu_now(int fd, sockaddr_storage* peer, unsigned int size) noexcept with gil
cdef int64_t simulated_socket_drops(int fd) noexcept with gil
cdef int simulated_open_context(uint64_t* context) noexcept with gil
cdef void simulated_close_context(uint64_t context) noexcept with gil
cdef int simulated_signal_by(uint64_t context, int ready, int fd) noexcept with gil
