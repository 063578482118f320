/* The kernel's entries of the table: the only place in which compiled code of the switch makes a system call, but for memory. */
#ifndef PENSTOCK_KERNEL_H
#define PENSTOCK_KERNEL_H
#include <errno.h>
#include <linux/aio_abi.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif
#ifndef SO_MEMINFO
#define SO_MEMINFO 55
#endif
#ifndef IP_MTU
#define IP_MTU 14
#endif
#ifndef IPV6_MTU
#define IPV6_MTU 24
#endif

static void kernel_set_errno(int number) { errno = number; }
static int64_t kernel_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
static int kernel_watch_with(int epoll, int fd, int32_t *empty) {
  struct epoll_event news = {EPOLLIN | EPOLLET, {empty}};
  return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &news);
}
static void kernel_sleep_on(int epoll, int64_t ns) {
  struct timespec t = {ns / 1000000000, ns % 1000000000};
  struct epoll_event news[64];
  int count = (int)syscall(SYS_epoll_pwait2, epoll, news, 64, &t, NULL, 0);
  for (int i = 0; i < count; i++)
    if (news[i].data.ptr) *(int32_t *)news[i].data.ptr = 0;
}
static int kernel_poll_pair(struct pollfd *pair, int64_t ns) {
  struct timespec t = {ns / 1000000000, ns % 1000000000};
  return ppoll(pair, 2, &t, NULL);
}
static int kernel_ioctl(int fd, unsigned long request, void *argument) { return ioctl(fd, request, argument); }
static int kernel_recvmmsg(int fd, struct mmsghdr *messages, unsigned int count) {
  return recvmmsg(fd, messages, count, MSG_DONTWAIT, NULL);
}
static int kernel_sendmmsg(int fd, struct mmsghdr *messages, unsigned int count) {
  return sendmmsg(fd, messages, count, MSG_DONTWAIT);
}
static int64_t kernel_path_mtu_now(int fd, const struct sockaddr_storage *peer, unsigned int bytes) {
  int mtu = 0, v4 = peer->ss_family == AF_INET;
  socklen_t size = sizeof mtu;
  if (fd < 0 || connect(fd, (const struct sockaddr *)peer, bytes)) return 0;
  return getsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_MTU : IPV6_MTU, &mtu, &size) ? 0 : mtu;
}
static int64_t kernel_socket_drops(int fd) {
  uint32_t info[9] = {0};
  socklen_t size = sizeof info;
  return fd >= 0 && !getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &size) && size == sizeof info ? info[8] : 0;
}

/* ---- Interrupts: the eventfd of another process is signalled by the kernel, since it could make a write to it block ---- */

typedef struct { /* how the kernel lays out a context */
  uint32_t id, size;
  volatile uint32_t head, tail;
} Completions;
static int kernel_open_context(uint64_t *context) { return (int)syscall(SYS_io_setup, 1, (aio_context_t *)context); }
static void kernel_close_context(uint64_t context) { syscall(SYS_io_destroy, (aio_context_t)context); }
static int kernel_signal_by(uint64_t context, int ready, int fd) {
  struct iocb request, *list[1] = {&request};
  Completions *done = (Completions *)context;
  memset(&request, 0, sizeof request);
  request.aio_lio_opcode = IOCB_CMD_POLL;
  request.aio_fildes = ready;
  request.aio_buf = POLLIN;
  request.aio_flags = IOCB_FLAG_RESFD;
  request.aio_resfd = fd;
  int taken = syscall(SYS_io_submit, (aio_context_t)context, 1, list) == 1;
  done->head = done->tail;
  return taken;
}
#endif
