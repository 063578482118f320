/* What Cython cannot say about memory that two processes share: atomics, a time stamp, a copy. */
#ifndef PENSTOCK_SHARED_H
#define PENSTOCK_SHARED_H
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>
#include <linux/futex.h>

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
static inline int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
/* The low half of a 64-bit word is what a futex looks at. */
static inline int sleep_while(uint64_t *word, uint64_t value, int64_t ns) {
  struct timespec t = {ns / 1000000000, ns % 1000000000};
  return (int)syscall(SYS_futex, (uint32_t *)word, FUTEX_WAIT, (uint32_t)value, &t, NULL, 0);
}
static inline void wake_sleeper(uint64_t *word) { syscall(SYS_futex, (uint32_t *)word, FUTEX_WAKE, 1, NULL, NULL, 0); }

/* Words of the shared memory: heads of stacks, links to rings, packets, doorbells.  None of them is zero. */
static inline int64_t low(uint64_t word) { return (int64_t)(word & 0xFFFFFFFFu); }
static inline uint64_t tagged(uint64_t head, int64_t number) { return ((head >> 32) + 1) << 32 | (uint32_t)number; }
static inline uint64_t link_to(int64_t ring) { return (uint64_t)1 << 63 | (uint32_t)ring; }
static inline int is_link(uint64_t word) { return (int)(word >> 63); }
static inline uint64_t descriptor(int64_t buffer, int64_t length) { return (uint64_t)length << 32 | (uint32_t)(buffer + 1); }
static inline int64_t buffer_of(uint64_t word) { return (int64_t)(word & 0xFFFFFFFFu) - 1; }
static inline int64_t length_of(uint64_t word) { return (int64_t)(word >> 32 & 0x7FFFFFFFu); }
static inline uint64_t bell_of(int64_t queue, int64_t count) {
  return (uint64_t)1 << 62 | (uint64_t)(count & 0x3FFFFFFF) << 32 | (uint32_t)queue;
}
static inline int64_t queue_of(uint64_t bell) { return (int64_t)(bell & 0xFFFFFFFFu); }
static inline int64_t count_of(uint64_t bell) { return (int64_t)(bell >> 32 & 0x3FFFFFFFu); }
#endif
