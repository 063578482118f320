/* What Cython cannot say about memory that two processes share: atomics, and memory itself. */
#ifndef PENSTOCK_SHARED_H
#define PENSTOCK_SHARED_H
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/mman.h>

static inline uint64_t load64(uint64_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static inline void store64(uint64_t *p, uint64_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
static inline int cas64(uint64_t *p, uint64_t expected, uint64_t v) {
  return __atomic_compare_exchange_n(p, &expected, v, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}
static inline uint32_t load32(uint32_t *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
static inline void store32(uint32_t *p, uint32_t v) { __atomic_store_n(p, v, __ATOMIC_RELAXED); }
static inline void full_fence(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
#if defined(__x86_64__)
static inline void relax(void) { __builtin_ia32_pause(); }
static inline uint64_t cycles(void) { return __builtin_ia32_rdtsc(); }
#else
static inline void relax(void) {}
static inline uint64_t cycles(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
#endif
/* Ask for a cache line that will be written. */
static inline void bring_line(void *p) { __builtin_prefetch(p, 1, 3); }
/* Zeroed memory that begins a cache line; in huge pages if there is much of it and the system has them. */
static inline void *lines(size_t bytes) {
  const size_t huge = (size_t)1 << 21;
  size_t align = bytes >= huge ? huge : 64;
  void *p = NULL;
  bytes = (bytes + align - 1) / align * align;
  if (posix_memalign(&p, align, bytes)) return NULL;
  if (align == huge) madvise(p, bytes, MADV_HUGEPAGE);
  return memset(p, 0, bytes);
}
/* The same, of which the kernel provides only what is touched; to be given back by give_untouched(). */
static inline void *untouched(size_t bytes) {
  const size_t huge = (size_t)1 << 21;
  size_t size = (bytes + huge - 1) / huge * huge;
  char *base = (char *)mmap(NULL, size + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return NULL;
  size_t before = (huge - (uintptr_t)base % huge) % huge;
  if (before) munmap(base, before);
  if (huge - before) munmap(base + before + size, huge - before);
  madvise(base + before, size, MADV_HUGEPAGE);
  return base + before;
}
static inline void give_untouched(void *p, size_t bytes) {
  const size_t huge = (size_t)1 << 21;
  if (p) munmap(p, (bytes + huge - 1) / huge * huge);
}
/* The same in small pages, for what is used sparsely; to be given back by give_sparse(). */
static inline void *sparse(size_t bytes) {
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}
static inline void give_sparse(void *p, size_t bytes) {
  if (p) munmap(p, bytes);
}

/* Words of the shared memory: heads of stacks, links to rings, packets, doorbells.  None of them is zero. */
static inline int64_t low(uint64_t word) { return (int64_t)(word & 0xFFFFFFFFu); }
static inline uint64_t tagged(uint64_t head, int64_t number) { return ((head >> 32) + 1) << 32 | (uint32_t)number; }
static inline uint64_t link_to(int64_t ring) { return (uint64_t)1 << 63 | (uint32_t)ring; }
static inline int is_link(uint64_t word) { return (int)(word >> 63); }
static inline uint64_t descriptor(int64_t buffer, int64_t length) { return (uint64_t)length << 32 | (uint32_t)(buffer + 1); }
static inline int64_t buffer_of(uint64_t word) { return (int64_t)(word & 0xFFFFFFFFu) - 1; }
static inline int64_t length_of(uint64_t word) { return (int64_t)(word >> 32 & 0x7FFFFFFFu); }
/* A doorbell: queue 20 bits, priority 4, weight 8 (0: weight and priority stay), count 30. */
static inline uint64_t bell_of(int64_t queue, int64_t count, int64_t weight, int64_t priority) {
  return (uint64_t)1 << 62 | (uint64_t)(count & 0x3FFFFFFF) << 32 | (uint64_t)(weight & 0xFF) << 24 | (uint64_t)(priority & 0xF) << 20 |
         (uint64_t)(queue & 0xFFFFF);
}
static inline int64_t queue_of(uint64_t bell) { return (int64_t)(bell & 0xFFFFF); }
static inline int64_t priority_of(uint64_t bell) { return (int64_t)(bell >> 20 & 0xF); }
static inline int64_t weight_of(uint64_t bell) { return (int64_t)(bell >> 24 & 0xFF); }
static inline int64_t count_of(uint64_t bell) { return (int64_t)(bell >> 32 & 0x3FFFFFFF); }
#define CLOSED ((uint64_t)1 << 61) /* the last word of a queue: its ring is free */
#define ENDLESS ((int64_t)1 << 62)
#define NO_HIGH (~(uint64_t)0) /* the upper half of an address that is an Ethernet address */

static inline uint64_t mixed(uint64_t hash, uint64_t word) {
  __uint128_t product = (__uint128_t)(hash ^ word) * 0x9E3779B97F4A7C15u;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}
static inline uint64_t word_from(const char *p) { uint64_t w; memcpy(&w, p, 8); return w; }
/* A number of 16 bits as it is in packets. */
static inline int64_t short_from(const char *p) { const unsigned char *b = (const unsigned char *)p; return b[0] << 8 | b[1]; }
/* The lower halves of addresses: of ::ffff:a.b.c.d, and of an Ethernet address. */
static inline uint64_t half_from(const char *p) { uint32_t w; memcpy(&w, p, 4); return w; }
static inline uint64_t mapped(const char *p) { return half_from(p) << 32 | 0xFFFF0000u; }
static inline uint64_t ethernet(const char *p) { uint64_t w = 0; memcpy(&w, p, 6); return w; }
#endif
