/* What Cython cannot express: memory arenas, index checks, atomics, bit operations. */
#ifndef PENSTOCK_STATE_H
#define PENSTOCK_STATE_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <sys/mman.h>

/* ---- Arena: zeroed, 64-byte aligned memory that lives as long as one simulation. ----
   `zeroed_later` is for what an idle node never touches: any table with `save_memory`, and one of some pages in a network that takes
   much memory, has small pages, which are used only once they are written; otherwise it is like `zeroed`. */
typedef struct ArenaBlock { struct ArenaBlock *next; size_t bytes; } ArenaBlock;
typedef struct Arena { char *next, *end, *later, *later_end; ArenaBlock *blocks; int64_t reserved, huge; int32_t busy, sparse; } Arena;

static inline void *arena_map(Arena *arena, size_t bytes, int huge) {
  bytes = (bytes + 64 + 4095) & ~(size_t)4095;
  char *p = (char *)mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return NULL;
#ifdef MADV_HUGEPAGE
  madvise(p, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
#else
  (void)huge;
#endif
  ArenaBlock *block = (ArenaBlock *)p;
  block->next = arena->blocks;
  block->bytes = bytes;
  arena->blocks = block;
  arena->reserved += (int64_t)bytes;
  return p + 64;
}

#define ARENA_CHUNK ((size_t)16 << 20)
#define ARENA_LAZY ((size_t)128 << 10)   /* larger tables: small pages of their own, touched on demand */
#define ARENA_MUCH ((int64_t)64 << 20)   /* in huge pages: from then on, tables of more than ARENA_PAGES have small ones */
#define ARENA_PAGES ((size_t)8 << 10)
#define ARENA_SMALL ((size_t)256)        /* smaller tables are with those that everything touches */

static inline char *arena_take(Arena *arena, char **next, char **end, size_t bytes, int huge) {
  if ((size_t)(*end - *next) < bytes) {
    char *chunk = (char *)arena_map(arena, ARENA_CHUNK, huge);
    if (!chunk) return NULL;
    *next = chunk;
    *end = chunk - 64 + ARENA_CHUNK;
    if (huge) arena->huge += (int64_t)ARENA_CHUNK;
  }
  char *p = *next;
  *next += bytes;
  return p;
}

static inline void *arena_zeroed(Arena *arena, size_t count, size_t size, int later) {
  size_t bytes = (count * size + 63) & ~(size_t)63;
  if (!bytes) bytes = 64;
#ifdef PENSTOCK_CHECK                    /* separate blocks, so that AddressSanitizer sees their ends */
  (void)arena, (void)later;
  void *p = NULL;
  if (posix_memalign(&p, 64, bytes)) abort();
  return memset(p, 0, bytes);
#else
  while (__atomic_exchange_n(&arena->busy, 1, __ATOMIC_ACQUIRE)) sched_yield();
  size_t limit = arena->sparse ? ARENA_SMALL : arena->huge > ARENA_MUCH ? ARENA_PAGES : ARENA_LAZY;
  char *p = NULL;
  if (bytes > ARENA_LAZY) p = (char *)arena_map(arena, bytes, 0);
  else if (later && bytes > limit) p = arena_take(arena, &arena->later, &arena->later_end, bytes, 0);
  else p = arena_take(arena, &arena->next, &arena->end, bytes, 1);
  __atomic_store_n(&arena->busy, 0, __ATOMIC_RELEASE);
  if (!p) { fprintf(stderr, "penstock: out of memory\n"); abort(); }
  return p;
#endif
}

static inline void *zeroed(Arena *arena, size_t count, size_t size) { return arena_zeroed(arena, count, size, 0); }
static inline void *zeroed_later(Arena *arena, size_t count, size_t size) { return arena_zeroed(arena, count, size, 1); }
static inline void save_memory(Arena *arena) { arena->sparse = 1; }
static inline Arena *new_arena(void) { return (Arena *)calloc(1, sizeof(Arena)); }
static inline void free_arena(Arena *arena) {
  if (!arena) return;
  for (ArenaBlock *b = arena->blocks, *next; b; b = next) { next = b->next; munmap(b, b->bytes); }
  free(arena);
}

/* ---- Logs: rows that grow. ---- */
typedef struct Log { char *rows; int64_t count, capacity; } Log;
static inline void *next_row(Log *log, size_t size) {
  if (log->count == log->capacity) {
    log->capacity = log->capacity ? 2 * log->capacity : 1024;
    log->rows = (char *)realloc(log->rows, (size_t)log->capacity * size);
    if (!log->rows) { fprintf(stderr, "penstock: out of memory for a log\n"); abort(); }
  }
  return memset(log->rows + (size_t)log->count++ * size, 0, size);
}
static inline void free_log(Log *log) { free(log->rows); log->rows = NULL; log->count = log->capacity = 0; }

/* ---- Of a worker: the running hook of a user's scheme, and the earliest fault in one; see faults.h. ---- */
typedef struct Guard {
  void *point;                      /* GuardPoint of the innermost hook that is running */
  int64_t event, event_time;        /* number of the node's event, and its time */
  int64_t rounds, most_rounds;      /* of loops: left to the event, and at its beginning */
  int64_t repeats, repeated_at;     /* timers set for the time at which they were set */
  int64_t time, value, limit;
  int32_t node, repeated_node, fault, line, hook, scheme, fault_node, spare;
} Guard;

/* ---- at(index, count): the index; built with -DPENSTOCK_CHECK, one out of range says so and aborts. ---- */
#ifdef PENSTOCK_CHECK
static inline long at(long i, long n, const char *what) {
  if (i < 0 || i >= n) {
    fprintf(stderr, "penstock: index %ld of %s is not in 0..%ld\n", i, what, n - 1);
    abort();
  }
  return i;
}
#else
#define at(i, n, what) (i)
#endif

/* Element of a table whose elements are `size` bytes long. */
#define step(table, index, size) ((void *)((char *)(table) + (int64_t)(index) * (size)))
#define behind(p, offset) ((void *)((char *)(p) + (int64_t)(offset)))   /* what follows a struct */
#define answer_behind behind
/* A number in the state of a scheme, of one of the types that it may declare (see sim/recording.py). */
static inline double number_in(void *thing, long area, long at, int kind) {
  const char *p = (const char *)thing + area + at;
  switch (kind) {
    case 0: { int8_t x; memcpy(&x, p, sizeof x); return x; }
    case 1: { int16_t x; memcpy(&x, p, sizeof x); return x; }
    case 2: { int32_t x; memcpy(&x, p, sizeof x); return x; }
    case 3: { int64_t x; memcpy(&x, p, sizeof x); return (double)x; }
    case 4: { uint64_t x; memcpy(&x, p, sizeof x); return (double)x; }
    default: { double x; memcpy(&x, p, sizeof x); return x; }
  }
}
static inline void clear(void *p, long size) { memset(p, 0, (size_t)size); }

/* Exchange what two packets hold, but not their places in lists: Packet.next is at SWAP_NEXT (see state.pxd). */
#define SWAP_NEXT 16
static inline void swap_bytes(char *a, char *b, size_t n) {
  for (size_t i = 0; i < n; i++) { char c = a[i]; a[i] = b[i]; b[i] = c; }
}
static inline void swap_packets(void *a, void *b, long size) {
  swap_bytes((char *)a, (char *)b, SWAP_NEXT);
  swap_bytes((char *)a + SWAP_NEXT + sizeof(void *), (char *)b + SWAP_NEXT + sizeof(void *), (size_t)size - SWAP_NEXT - sizeof(void *));
}

/* Copy what a packet holds, but not its place in a list. */
static inline void copy_packet(void *to, void *from, long size) {
  memcpy(to, from, SWAP_NEXT);
  memcpy((char *)to + SWAP_NEXT + sizeof(void *), (char *)from + SWAP_NEXT + sizeof(void *), (size_t)size - SWAP_NEXT - sizeof(void *));
}

/* Macros take the variable itself, so callers need no address-of. */
#define load_relaxed(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define load_acquire(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define store_release(x, v) __atomic_store_n(&(x), (v), __ATOMIC_RELEASE)
#define fetch_add(x, v) __atomic_fetch_add(&(x), (v), __ATOMIC_ACQ_REL)
/* One more at p[i], which any thread may count; p may be NULL. */
#define count_shared(p, i) ((p) ? (void)__atomic_fetch_add(&(p)[i], 1, __ATOMIC_RELAXED) : (void)0)
#if defined(__x86_64__)
#define cpu_pause() __builtin_ia32_pause()
#else
#define cpu_pause() ((void)0)
#endif
#if defined(__x86_64__)                  /* to be written: GCC has prefetchw only where flags allow it */
#define prefetch(p) __asm__ volatile("prefetchw %0" : : "m"(*(const char *)(p)))
#else
#define prefetch(p) __builtin_prefetch(p, 1)
#endif
#define rare(x) __builtin_expect(!!(x), 0) /* a condition that seldom holds: its branch is moved out of the way */
/* A function that does not become a part of its caller, which would save the registers that it needs on every path. */
#define apart(f) ({ __typeof__(&*(f)) f_ = (f); __asm__("" : "+r"(f_)); f_; })
#define within(i, n) ((uint32_t)(i) < (uint32_t)(n)) /* 0 <= i < n, for n >= 0 */
#define lowest_bit(x) __builtin_ctzll(x)
#define bits_set(x) __builtin_popcountll(x)
#define whole(x) ((int64_t)(x))
#define bit(i) ((uint64_t)1 << (i))

/* The arithmetic of penstock_net/hashing.py. */
static inline uint64_t mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}
static inline int32_t hash31(int64_t number, int64_t seed) {
  return (int32_t)(mix64(((uint64_t)(uint32_t)seed << 32) + (uint64_t)number * 0x9E3779B97F4A7C15u) & 0x7fffffff);
}
static inline int32_t pick(int32_t hash, int32_t seed, int32_t n) {   /* hashing.choice */
  return (int32_t)(((mix64((uint64_t)(uint32_t)(hash ^ seed) + 0x9E3779B97F4A7C15u) >> 33) * (uint64_t)n) >> 31);
}
#endif
