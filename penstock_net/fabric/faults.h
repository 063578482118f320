/* Checks of users' schemes.  penstock_net/composition/translate.py puts a call of them into every operation that can fail; one that
   fails records where and why, and returns from the hook by longjmp.  The engine then stops at the end of its window.
   Of several faults the earliest in simulated time is kept, at equal times that of the node of the lowest number, whichever is
   executed first: until the window ends, hooks run that are earlier still, and no others.
   UNCHECKED leaves all but the bound on loops out. */
#ifndef PENSTOCK_FAULTS_H
#define PENSTOCK_FAULTS_H
#include "state.h"
#include <math.h>
#include <setjmp.h>

enum {   /* kinds of fault; their texts are in penstock_net/composition/faults.py */
  FAULT_NONE, FAULT_DIVISION, FAULT_OVERFLOW, FAULT_FIT, FAULT_INDEX, FAULT_NULL, FAULT_FINITE, FAULT_WHOLE, FAULT_SHIFT,
  FAULT_NEGATIVE, FAULT_ROOT, FAULT_LOG, FAULT_NO_BIT, FAULT_ENDLESS, FAULT_STALE, FAULT_NOT_PACKET, FAULT_NOT_FRAME, FAULT_SENT,
  FAULT_PAST, FAULT_REPEAT, FAULT_RATE, FAULT_KIND, FAULT_PAUSE_BIT, FAULT_LEAST, FAULT_ROUTE
};

#define ROUNDS_PER_EVENT 1000000     /* of loops, in all hooks of one event */
#define ROUNDS_OF_SET_UP 100000000
#define TIMERS_AT_ONCE 10000         /* of a node, set for the present time, one after the other */

typedef struct GuardPoint {          /* a hook that is running */
  struct GuardPoint *previous;       /* the one that called it, by way of the fabric */
  const int64_t *now;
  int32_t node, hook, scheme;
  jmp_buf buffer;
} GuardPoint;

#define guard_point(guard) ((GuardPoint *)(guard)->point)
#define guard_failed(point) setjmp((point)->buffer)

/* Whether a hook is earlier than the fault that is recorded. */
static __attribute__((cold, noinline)) int guard_earlier(const Guard *guard, int32_t node, const int64_t *now) {
  int64_t time = now ? *now : 0;
  return time < guard->time || (time == guard->time && node < guard->fault_node);
}
/* A hook begins; 0: another one has failed, and this one is not to run. */
static inline int guard_enter(Guard *guard, GuardPoint *point, int32_t hook, int32_t scheme, int32_t node, const int64_t *now) {
  if (__builtin_expect(guard->fault, 0) && !guard_earlier(guard, node, now)) return 0;
  point->previous = (GuardPoint *)guard->point;
  point->now = now;
  point->node = node;
  point->hook = hook;
  point->scheme = scheme;
  guard->point = point;
  return 1;
}
/* For a hook with loops or timers: rounds are counted over all hooks of a node's event of this number at `now`. */
static inline void guard_count(Guard *guard, GuardPoint *point, int64_t event, int64_t most_rounds) {
  int64_t time = point->now ? *point->now : 0;
  if (guard->event != event || guard->event_time != time || guard->node != point->node || !guard->most_rounds) {
    guard->event = event;
    guard->event_time = time;
    guard->node = point->node;
    guard->rounds = guard->most_rounds = most_rounds;
  }
}
static inline void guard_leave(Guard *guard, GuardPoint *point) { guard->point = point->previous; }

static __attribute__((cold, noinline, noreturn)) void guard_fault(Guard *guard, int32_t line, int32_t fault, int64_t value,
                                                                 int64_t limit) {
  GuardPoint *point = (GuardPoint *)guard->point;
  if (!guard->fault || guard_earlier(guard, point->node, point->now)) {
    guard->fault = fault;
    guard->line = line;
    guard->value = value;
    guard->limit = limit;
    guard->hook = point->hook;
    guard->scheme = point->scheme;
    guard->fault_node = point->node;
    guard->time = point->now ? *point->now : 0;
  }
  longjmp(point->buffer, 1);
}

#ifdef UNCHECKED
#define GUARD(condition, fault, value, limit) ((void)guard, (void)line)
#else
#define GUARD(condition, fault, value, limit) \
  do { if (__builtin_expect(!(condition), 0)) guard_fault(guard, line, fault, (int64_t)(value), (int64_t)(limit)); } while (0)
#endif
#define CHECK(kind, name) static inline __attribute__((always_inline)) kind name
#define HERE Guard *guard, int32_t line

CHECK(void, g_round)(HERE) {         /* of a loop; counted in any case, so that every loop ends */
  if (__builtin_expect(--guard->rounds < 0, 0))
    guard_fault(guard, line, FAULT_ENDLESS, 0, guard->most_rounds);
}

/* ---- Whole numbers ---- */
#ifdef UNCHECKED
#define ARITHMETIC(name, builtin, op) CHECK(int64_t, name)(HERE, int64_t a, int64_t b) { (void)guard; (void)line; return a op b; }
#else
#define ARITHMETIC(name, builtin, op) CHECK(int64_t, name)(HERE, int64_t a, int64_t b) { \
  int64_t c; \
  GUARD(!builtin(a, b, &c), FAULT_OVERFLOW, 0, 0); \
  return c; \
}
#endif
ARITHMETIC(g_add, __builtin_add_overflow, +)
ARITHMETIC(g_sub, __builtin_sub_overflow, -)
ARITHMETIC(g_mul, __builtin_mul_overflow, *)

CHECK(int64_t, g_floordiv)(HERE, int64_t a, int64_t b) {
  GUARD(b != 0, FAULT_DIVISION, 0, 0);
  GUARD(b != -1 || a != INT64_MIN, FAULT_OVERFLOW, 0, 0);
  int64_t q = a / b;
  return q - ((a % b != 0) & ((a ^ b) < 0));
}
CHECK(int64_t, g_mod)(HERE, int64_t a, int64_t b) {
  GUARD(b != 0, FAULT_DIVISION, 0, 0);
  if (__builtin_expect(b == -1, 0)) return 0;
  int64_t r = a % b;
  return r && (r ^ b) < 0 ? r + b : r;
}
CHECK(uint64_t, g_udiv)(HERE, uint64_t a, uint64_t b) { GUARD(b, FAULT_DIVISION, 0, 0); return a / b; }
CHECK(uint64_t, g_umod)(HERE, uint64_t a, uint64_t b) { GUARD(b, FAULT_DIVISION, 0, 0); return a % b; }
CHECK(int64_t, g_shl)(HERE, int64_t a, int64_t n) {
  GUARD((uint64_t)n < 64, FAULT_SHIFT, n, 0);
  int64_t b = (int64_t)((uint64_t)a << n);
  GUARD(b >> n == a, FAULT_OVERFLOW, 0, 0);
  return b;
}
CHECK(int64_t, g_shr)(HERE, int64_t a, int64_t n) { GUARD((uint64_t)n < 64, FAULT_SHIFT, n, 0); return a >> n; }
CHECK(uint64_t, g_ushl)(HERE, uint64_t a, int64_t n) { GUARD((uint64_t)n < 64, FAULT_SHIFT, n, 0); return a << n; }
CHECK(uint64_t, g_ushr)(HERE, uint64_t a, int64_t n) { GUARD((uint64_t)n < 64, FAULT_SHIFT, n, 0); return a >> n; }
CHECK(uint64_t, g_bit)(HERE, int64_t n) { GUARD((uint64_t)n < 64, FAULT_SHIFT, n, 0); return (uint64_t)1 << n; }
CHECK(int64_t, g_lowest_bit)(HERE, uint64_t x) { GUARD(x, FAULT_NO_BIT, 0, 0); return __builtin_ctzll(x); }
CHECK(int64_t, g_abs)(HERE, int64_t a) { GUARD(a != INT64_MIN, FAULT_OVERFLOW, 0, 0); return a < 0 ? -a : a; }
CHECK(uint64_t, g_mask)(HERE, int64_t a) { GUARD(a >= 0, FAULT_NEGATIVE, a, 0); return (uint64_t)a; }
CHECK(int64_t, g_number)(HERE, uint64_t a) { GUARD(a <= INT64_MAX, FAULT_OVERFLOW, 0, 0); return (int64_t)a; }
CHECK(int8_t, g_fit8)(HERE, int64_t a) { GUARD(a == (int8_t)a, FAULT_FIT, a, 8); return (int8_t)a; }
CHECK(int16_t, g_fit16)(HERE, int64_t a) { GUARD(a == (int16_t)a, FAULT_FIT, a, 16); return (int16_t)a; }
CHECK(int32_t, g_fit32)(HERE, int64_t a) { GUARD(a == (int32_t)a, FAULT_FIT, a, 32); return (int32_t)a; }
CHECK(int64_t, g_least)(HERE, int64_t a, int64_t least) { GUARD(a >= least, FAULT_LEAST, a, least); return a; }
CHECK(int64_t, g_index)(HERE, int64_t i, int64_t n) { GUARD((uint64_t)i < (uint64_t)n, FAULT_INDEX, i, n); return i; }
CHECK(int64_t, g_voq)(HERE, int64_t i, int64_t n) { if (i >= 0) g_index(guard, line, i, n); return i; }

/* ---- Numbers with a fraction ---- */
CHECK(double, g_div)(HERE, double a, double b) { GUARD(b != 0.0, FAULT_DIVISION, 0, 0); return a / b; }
CHECK(double, g_finite)(HERE, double a) { GUARD(a - a == 0.0, FAULT_FINITE, 0, 0); return a; }
CHECK(double, g_whole)(HERE, double a) {       /* a number that can be made whole */
  GUARD(a > -9223372036854775808.0 && a < 9223372036854775808.0, FAULT_WHOLE, 0, 0);
  return a;
}
CHECK(double, g_of_root)(HERE, double a) { GUARD(a >= 0.0, FAULT_ROOT, 0, 0); return a; }
CHECK(double, g_of_log)(HERE, double a) { GUARD(a > 0.0, FAULT_LOG, 0, 0); return a; }
CHECK(double, g_rate)(HERE, double a) { GUARD(a >= 1.0 && a - a == 0.0, FAULT_RATE, 0, 0); return a; }
CHECK(double, g_gap)(HERE, double a) { GUARD(a >= 0.0 && a <= 8e12, FAULT_RATE, 0, 0); return a; }

/* ---- Memory ---- */
CHECK(void *, g_some)(HERE, const void *p) { GUARD(p, FAULT_NULL, 0, 0); return (void *)p; }

/* What a new packet's or frame's own fields hold until they are set; a mask may have this value. */
#define STALE_BYTE 0x80
CHECK(void, g_forget)(void *p, size_t size) {
#ifndef UNCHECKED
  memset(p, STALE_BYTE, size);
#else
  (void)p; (void)size;
#endif
}
CHECK(int32_t, g_known32)(HERE, int32_t a) { GUARD(a != (int32_t)0x80808080u, FAULT_STALE, 0, 0); return a; }
CHECK(int64_t, g_known64)(HERE, int64_t a) { GUARD(a != (int64_t)0x8080808080808080u, FAULT_STALE, 0, 0); return a; }
CHECK(double, g_known_float)(HERE, double a) {
#ifndef UNCHECKED
  int64_t bits;
  memcpy(&bits, &a, sizeof bits);
  g_known64(guard, line, bits);
#else
  (void)guard; (void)line;
#endif
  return a;
}
CHECK(void, g_timer)(HERE, int64_t now, int64_t when) {
  GUARD(when >= now, FAULT_PAST, now - when, 0);
  if (when != now) return;
  int32_t node = ((GuardPoint *)guard->point)->node;
  guard->repeats = guard->repeated_at == now && guard->repeated_node == node ? guard->repeats + 1 : 0;
  guard->repeated_at = now;
  guard->repeated_node = node;
  if (guard->repeats > TIMERS_AT_ONCE) guard_fault(guard, line, FAULT_REPEAT, 0, TIMERS_AT_ONCE);
}
CHECK(void, g_need)(HERE, int condition, int32_t fault, int64_t value, int64_t limit) {
  GUARD(condition, fault, value, limit);
  (void)condition; (void)fault; (void)value; (void)limit;
}
#endif
