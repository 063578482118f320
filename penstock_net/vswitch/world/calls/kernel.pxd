"""The kernel's functions, for the table alone."""
from penstock_net.vswitch.world.calls.table cimport int32_t, int64_t, iovec, mmsghdr, pollfd, sockaddr_storage, uint64_t

cdef extern from "kernel.h" nogil:
    void kernel_set_errno(int number) noexcept
    int64_t kernel_now_ns() noexcept
    int kernel_watch_with(int epoll, int fd, int32_t* empty) noexcept
    void kernel_sleep_on(int epoll, int64_t ns) noexcept
    int kernel_poll_pair(pollfd* pair, int64_t ns) noexcept
    int kernel_ioctl(int fd, unsigned long request, void* argument) noexcept
    int kernel_recvmmsg(int fd, mmsghdr* messages, unsigned int count) noexcept
    int kernel_sendmmsg(int fd, mmsghdr* messages, unsigned int count) noexcept
    int64_t kernel_path_mtu_now(int fd, sockaddr_storage* peer, unsigned int size) noexcept
    int64_t kernel_socket_drops(int fd) noexcept
    int kernel_open_context(uint64_t* context) noexcept
    void kernel_close_context(uint64_t context) noexcept
    int kernel_signal_by(uint64_t context, int ready, int fd) noexcept
    ssize_t kernel_readv "readv"(int fd, iovec* vectors, int count) noexcept
    ssize_t kernel_write "write"(int fd, const void* source, size_t n) noexcept
    ssize_t kernel_send "send"(int fd, const void* data, size_t n, int flags) noexcept
    ssize_t kernel_recv "recv"(int fd, void* data, size_t n, int flags) noexcept
