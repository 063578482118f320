/* SipHash-2-4 (Aumasson and Bernstein, 2012) of whole words, for the control frames between two switches. */
#ifndef PENSTOCK_SIPHASH_H
#define PENSTOCK_SIPHASH_H
#include <stdint.h>

#define CONTROL_MAGIC ((uint64_t)0x4B4F5453 << 32 | 1 << 8) /* and the version; the lowest byte is the kind */

static inline uint64_t rotated(uint64_t x, int n) { return x << n | x >> (64 - n); }
static inline void sip_round(uint64_t v[4]) {
  v[0] += v[1], v[1] = rotated(v[1], 13) ^ v[0], v[0] = rotated(v[0], 32);
  v[2] += v[3], v[3] = rotated(v[3], 16) ^ v[2];
  v[0] += v[3], v[3] = rotated(v[3], 21) ^ v[0];
  v[2] += v[1], v[1] = rotated(v[1], 17) ^ v[2], v[2] = rotated(v[2], 32);
}
static inline uint64_t siphash(const uint64_t key[2], const uint64_t *words, int count) {
  uint64_t v[4] = {key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du, key[0] ^ 0x6c7967656e657261u,
                   key[1] ^ 0x7465646279746573u};
  for (int i = 0; i <= count; i++) {
    uint64_t word = i < count ? words[i] : (uint64_t)(8 * count) << 56;
    v[3] ^= word, sip_round(v), sip_round(v), v[0] ^= word;
  }
  v[2] ^= 0xff;
  for (int i = 0; i < 4; i++) sip_round(v);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}
#endif
