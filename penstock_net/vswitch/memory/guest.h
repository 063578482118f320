/* Memory that belongs to another process, such as a virtual machine: mapped between guard pages, each word read once, and a file
   that its owner shortens is replaced by zeros instead of ending this process.  Only one module may include this file. */
#ifndef PENSTOCK_GUEST_H
#define PENSTOCK_GUEST_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <linux/magic.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* ---- Areas: what is mapped, for the handler of SIGBUS ---- */

#define AREAS 8192
typedef struct {
  uintptr_t from, end; /* from 0: free */
  uint32_t *broken;
} Area;
static Area areas[AREAS];
static struct sigaction before_areas;

static void area_failed(int number, siginfo_t *info, void *context) {
  uintptr_t at = (uintptr_t)info->si_addr;
  for (int i = 0; i < AREAS; i++) {
    uintptr_t from = __atomic_load_n(&areas[i].from, __ATOMIC_ACQUIRE);
    if (from == 0 || at < from || at >= areas[i].end) continue;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
    if (mmap((void *)from, areas[i].end - from, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED) break;
    __atomic_store_n(areas[i].broken, 1, __ATOMIC_RELEASE);
    return;
  }
  sigaction(SIGBUS, &before_areas, NULL); /* not ours: the access fails again, and then it is as before */
}
static void handle_area_faults(void) { /* again, if another handler was set since */
  struct sigaction now, ours = {.sa_sigaction = area_failed, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  sigaction(SIGBUS, NULL, &now);
  if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == area_failed) return;
  before_areas = now;
  sigaction(SIGBUS, &ours, NULL);
}

/* A file that can be mapped without waiting for anybody: memory, not a disk or a program that pretends to be one. */
static inline int is_memory(int fd) {
  struct statfs found;
  return fstatfs(fd, &found) == 0 && (found.f_type == TMPFS_MAGIC || found.f_type == HUGETLBFS_MAGIC);
}
static inline int64_t file_bytes(int fd) {
  struct stat found;
  return fstat(fd, &found) == 0 ? (int64_t)found.st_size : -1;
}
/* `length` bytes of a file from `offset` on; what is reserved for them has a page on each side that nobody may touch. */
static inline char *map_area(int fd, int64_t offset, int64_t length, uint32_t *broken, char **reserved, int64_t *reserved_length) {
  int64_t page = sysconf(_SC_PAGESIZE), unit = page;
  struct statfs found;
  *reserved = NULL;
  if (fstatfs(fd, &found) == 0 && found.f_type == HUGETLBFS_MAGIC && found.f_bsize > page) unit = found.f_bsize;
  int64_t skip = offset % unit, whole = (skip + length + unit - 1) / unit * unit, all_bytes = whole + unit + 2 * page;
  int i = 0;
  while (i < AREAS && areas[i].from) i++;
  if (i == AREAS) return NULL;
  char *all = (char *)mmap(NULL, all_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return NULL;
  char *at = (char *)(((uintptr_t)all + page + unit - 1) / unit * unit);
  if (mmap(at, whole, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, offset - skip) == MAP_FAILED) {
    munmap(all, all_bytes);
    return NULL;
  }
  handle_area_faults();
  areas[i].end = (uintptr_t)at + whole;
  areas[i].broken = broken;
  __atomic_store_n(&areas[i].from, (uintptr_t)at, __ATOMIC_RELEASE);
  *reserved = all;
  *reserved_length = all_bytes;
  return at + skip;
}
static inline void unmap_area(char *reserved, int64_t length) {
  if (!reserved) return;
  for (int i = 0; i < AREAS; i++)
    if (areas[i].from >= (uintptr_t)reserved && areas[i].from < (uintptr_t)reserved + length)
      __atomic_store_n(&areas[i].from, 0, __ATOMIC_RELEASE);
  munmap(reserved, length);
}

/* ---- Words, each read or written once ---- */

typedef struct { uint64_t value; } __attribute__((packed)) Loose;
static inline uint64_t once64(const char *p) { return ((const volatile Loose *)p)->value; }
static inline uint16_t once16(const char *p) { return __atomic_load_n((const uint16_t *)p, __ATOMIC_RELAXED); }
static inline uint16_t acquire16(const char *p) { return __atomic_load_n((const uint16_t *)p, __ATOMIC_ACQUIRE); }
static inline void put16(char *p, uint16_t value) { __atomic_store_n((uint16_t *)p, value, __ATOMIC_RELAXED); }
static inline void release16(char *p, uint16_t value) { __atomic_store_n((uint16_t *)p, value, __ATOMIC_RELEASE); }
static inline void put_pair32(char *p, uint32_t a, uint32_t b) {
  ((volatile uint32_t *)p)[0] = a;
  ((volatile uint32_t *)p)[1] = b;
}

/* ---- A gate that one thread passes at a time; a worker never waits in front of it ---- */

static inline int enter_gate(uint32_t *gate) { return !__atomic_exchange_n(gate, 1, __ATOMIC_ACQUIRE); }
static inline void leave_gate(uint32_t *gate) { __atomic_store_n(gate, 0, __ATOMIC_RELEASE); }
#endif
