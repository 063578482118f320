/* A file's memory between pages that nobody may touch, so that an access past either end dies instead of finding a neighbour. */
#ifndef PENSTOCK_GUARD_H
#define PENSTOCK_GUARD_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_PAGE ((uintptr_t)1 << 21)

/* Three more pages are reserved: one before, one behind, and one to begin where no huge page may begin.  The length of a file
   of huge pages would be rounded up over the guard; so the kernel refuses it. */
static inline int64_t reserved_bytes(int64_t length) {
  int64_t page = sysconf(_SC_PAGESIZE);
  return (length + page - 1) / page * page + 3 * page;
}
static inline char *map_guarded(int fd, int64_t length, char **reserved) {
  int64_t page = sysconf(_SC_PAGESIZE);
  char *all = (char *)mmap(NULL, reserved_bytes(length), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  *reserved = NULL;
  if (all == MAP_FAILED) return NULL;
  char *at = all + page;
  if ((uintptr_t)at % HUGE_PAGE == 0) at += page;
  if (mmap(at, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
    munmap(all, reserved_bytes(length));
    return NULL;
  }
  *reserved = all;
  return at;
}
static inline void unmap_guarded(char *reserved, int64_t length) {
  if (reserved) munmap(reserved, reserved_bytes(length));
}
#endif
