/* SipHash-2-4 (Aumasson and Bernstein, 2012): of whole words, and of the datagrams between two switches. */
#ifndef PENSTOCK_SIPHASH_H
#define PENSTOCK_SIPHASH_H
#include <stdint.h>
#include <string.h>

#define TAG_AT 32 /* bytes of a datagram before its tag, and behind it its content */
#define CONTENT_AT 40

static inline uint64_t rotated(uint64_t x, int n) { return x << n | x >> (64 - n); }
static inline void sip_round(uint64_t v[4]) {
  v[0] += v[1], v[1] = rotated(v[1], 13) ^ v[0], v[0] = rotated(v[0], 32);
  v[2] += v[3], v[3] = rotated(v[3], 16) ^ v[2];
  v[0] += v[3], v[3] = rotated(v[3], 21) ^ v[0];
  v[2] += v[1], v[1] = rotated(v[1], 17) ^ v[2], v[2] = rotated(v[2], 32);
}
static inline void sip_start(uint64_t v[4], const uint64_t key[2]) {
  v[0] = key[0] ^ 0x736f6d6570736575u, v[1] = key[1] ^ 0x646f72616e646f6du;
  v[2] = key[0] ^ 0x6c7967656e657261u, v[3] = key[1] ^ 0x7465646279746573u;
}
static inline void sip_word(uint64_t v[4], uint64_t word) { v[3] ^= word, sip_round(v), sip_round(v), v[0] ^= word; }
static inline uint64_t sip_end(uint64_t v[4]) {
  v[2] ^= 0xff;
  for (int i = 0; i < 4; i++) sip_round(v);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}
static inline uint64_t siphash(const uint64_t key[2], const uint64_t *words, int count) {
  uint64_t v[4];
  sip_start(v, key);
  for (int i = 0; i < count; i++) sip_word(v, words[i]);
  sip_word(v, (uint64_t)(8 * count) << 56);
  return sip_end(v);
}
/* SipHash of a datagram without its tag: of the words before it and the content behind it. */
static inline uint64_t datagram_tag(const uint64_t key[2], const char *datagram, int64_t length) {
  uint64_t v[4], word;
  int64_t at = CONTENT_AT;
  sip_start(v, key);
  for (int i = 0; i < TAG_AT; i += 8) memcpy(&word, datagram + i, 8), sip_word(v, word);
  for (; at + 8 <= length; at += 8) memcpy(&word, datagram + at, 8), sip_word(v, word);
  word = (uint64_t)(length - 8) << 56;
  for (int i = 0; at + i < length; i++) word |= (uint64_t)(unsigned char)datagram[at + i] << 8 * i;
  sip_word(v, word);
  return sip_end(v);
}
/* A check word of a datagram's header and length, against damage: not against a forger who sees the traffic. */
static inline uint64_t datagram_check(uint64_t seed, const char *datagram, int64_t length) {
  uint64_t word, sum = seed ^ (uint64_t)length;
  for (int i = 0; i < TAG_AT; i += 8) {
    memcpy(&word, datagram + i, 8);
    sum = (sum ^ word) * 0x9E3779B97F4A7C15u;
    sum ^= sum >> 32;
  }
  return sum * 0xD6E8FEB86659FD93u;
}
#endif
