/* Unkeyed BLAKE2b of short texts (RFC 7693): one of the digests of text. */
#ifndef LATELY_BLAKE2B_H
#define LATELY_BLAKE2B_H

#include "siphash.h"

#define BLAKE_BLOCK 128

static const uint64_t blake_initial[8] = {
    0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1,
    0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179};

ALWAYS void blake_mix(uint64_t *v, int a, int b, int c, int d, uint64_t x, uint64_t y) {
    v[a] += v[b] + x;
    v[d] = rotate64(v[d] ^ v[a], 32);
    v[c] += v[d];
    v[b] = rotate64(v[b] ^ v[c], 40);
    v[a] += v[b] + y;
    v[d] = rotate64(v[d] ^ v[a], 48);
    v[c] += v[d];
    v[b] = rotate64(v[b] ^ v[c], 1);
}

/* The indices of a round's message words are constants, so that everything stays in registers. */
#define BLAKE_ROUND(a, b, c, d, e, f, g, h, i, j, k, l, n, o, p, q)                              \
    blake_mix(v, 0, 4, 8, 12, m[a], m[b]);                                                       \
    blake_mix(v, 1, 5, 9, 13, m[c], m[d]);                                                       \
    blake_mix(v, 2, 6, 10, 14, m[e], m[f]);                                                      \
    blake_mix(v, 3, 7, 11, 15, m[g], m[h]);                                                      \
    blake_mix(v, 0, 5, 10, 15, m[i], m[j]);                                                      \
    blake_mix(v, 1, 6, 11, 12, m[k], m[l]);                                                      \
    blake_mix(v, 2, 7, 8, 13, m[n], m[o]);                                                       \
    blake_mix(v, 3, 4, 9, 14, m[p], m[q]);

static inline void blake_compress(uint64_t h[8], const uint8_t *block, uint64_t bytes, int last) {
    uint64_t v[16], m[16];
    for (int i = 0; i < 16; i++) {
        m[i] = sip_load(block + 8 * i);
        v[i] = i < 8 ? h[i] : blake_initial[i - 8];
    }
    v[12] ^= bytes;
    v[14] ^= last ? ~(uint64_t)0 : 0;
    BLAKE_ROUND(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
    BLAKE_ROUND(14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3)
    BLAKE_ROUND(11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4)
    BLAKE_ROUND(7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8)
    BLAKE_ROUND(9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13)
    BLAKE_ROUND(2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9)
    BLAKE_ROUND(12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11)
    BLAKE_ROUND(13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10)
    BLAKE_ROUND(6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5)
    BLAKE_ROUND(10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0)
    BLAKE_ROUND(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
    BLAKE_ROUND(14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3)
    for (int i = 0; i < 8; i++) {
        h[i] ^= v[i] ^ v[i + 8];
    }
}

/* Digests a text to 1 to 8 words. */
static inline void blake2b(const uint8_t *text, ptrdiff_t count, int words, uint64_t *digest) {
    uint64_t h[8];
    uint8_t block[BLAKE_BLOCK];
    ptrdiff_t at = 0;
    memcpy(h, blake_initial, sizeof h);
    h[0] ^= 0x01010000 ^ (uint64_t)(8 * words);
    for (; count - at > BLAKE_BLOCK; at += BLAKE_BLOCK) {
        blake_compress(h, text + at, (uint64_t)(at + BLAKE_BLOCK), 0);
    }
    memset(block, 0, sizeof block);
    if (count > at) {
        memcpy(block, text + at, (size_t)(count - at));
    }
    blake_compress(h, block, (uint64_t)count, 1);
    memcpy(digest, h, (size_t)words * 8);
}

#endif
