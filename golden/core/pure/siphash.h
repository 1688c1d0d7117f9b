/* SipHash-1-3 of bytes: `lately.golden.hash.siphash`. */
#ifndef LATELY_SIPHASH_H
#define LATELY_SIPHASH_H

#include "base.h"

typedef struct {
    uint64_t v[4];
} SipState;

static inline SipState sip_start(uint64_t low, uint64_t high) {
    SipState state = {{0x736F6D6570736575 ^ low, 0x646F72616E646F6D ^ high,
                       0x6C7967656E657261 ^ low, 0x7465646279746573 ^ high}};
    return state;
}

static inline void sip_round(SipState *s) {
    uint64_t *v = s->v;
    v[0] += v[1];
    v[1] = rotate64(v[1], 13) ^ v[0];
    v[0] = rotate64(v[0], 32);
    v[2] += v[3];
    v[3] = rotate64(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate64(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate64(v[1], 17) ^ v[2];
    v[2] = rotate64(v[2], 32);
}

static inline void sip_word(SipState *s, uint64_t word) {
    s->v[3] ^= word;
    sip_round(s);
    s->v[0] ^= word;
}

static inline uint64_t sip_end(SipState *s) {
    s->v[2] ^= 0xFF;
    sip_round(s);
    sip_round(s);
    sip_round(s);
    return s->v[0] ^ s->v[1] ^ s->v[2] ^ s->v[3];
}

/* Loads eight bytes, little-endian on any machine. */
static inline uint64_t sip_load(const uint8_t *bytes) {
    uint64_t word = 0;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(&word, bytes, 8);
#else
    for (int i = 0; i < 8; i++) {
        word |= (uint64_t)bytes[i] << (8 * i);
    }
#endif
    return word;
}

/* Loads the bytes after the last whole word, little-endian, padded with zeros. */
static inline uint64_t sip_rest(const uint8_t *bytes, ptrdiff_t count) {
    unsigned rest = count & 7;
    uint64_t word = 0;
    if (rest && count > 8) {
        return sip_load(bytes + count - 8) >> (64 - 8 * rest);
    }
    for (unsigned i = 0; i < rest; i++) {
        word |= (uint64_t)bytes[i] << (8 * i);
    }
    return word;
}

static inline uint64_t siphash(const uint8_t *bytes, ptrdiff_t count, uint64_t low, uint64_t high) {
    SipState state = sip_start(low, high);
    ptrdiff_t at = 0;
    for (; at + 8 <= count; at += 8) {
        sip_word(&state, sip_load(bytes + at));
    }
    sip_word(&state, (uint64_t)count << 56 | sip_rest(bytes, count));
    return sip_end(&state);
}

#endif
