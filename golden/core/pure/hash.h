/* Hash functions of keys: `KeyHash` of lately.golden.hash. */
#ifndef LATELY_PURE_HASH_H
#define LATELY_PURE_HASH_H

#include "siphash.h"

#define CHUNK 128 /* number of keys whose states and indexes fit into the L1 cache */

typedef struct {
    uint64_t mask, size;
    unsigned word, low, bits;
} Field; /* see `IndexField` */

/* A secret of "siphash", low half first. */
typedef struct {
    uint64_t low, high;
} Secret;

typedef struct {
    int keyed;                      /* whether the hash is "siphash", not "h3" */
    ptrdiff_t key_bits;
    ptrdiff_t words;                /* 64-bit words of a key */
    ptrdiff_t message;              /* words of the message under "siphash" */
    uint64_t length;                /* length byte in the last word of the message */
    ptrdiff_t bytes;                /* number of tables */
    const uint64_t (*tables)[256];
    const uint64_t (*matrices)[8];  /* bit matrices: row d maps byte o + d to byte o */
    ptrdiff_t rounds;               /* number of constants */
    const uint64_t *constants;
    ptrdiff_t functions, expanded;  /* number of hash functions, and words of each */
    const uint64_t *rotations;      /* three for each word of each function */
    ptrdiff_t fields;               /* number of indexes per function */
    const Field *field;
} Hash;

ALWAYS uint64_t hash_mixed(uint64_t state, uint32_t constant) {
    uint32_t left = (uint32_t)(state >> 32), right = (uint32_t)state;
    uint32_t mixed =
        (rotate32(left, 1) & rotate32(left, 8)) ^ rotate32(left, 2) ^ right ^ constant;
    return (uint64_t)mixed << 32 | left;
}

/* State of a key before the rounds of "h3". */
ALWAYS uint64_t hash_folded(const Hash *hash, const uint64_t *key) {
    const uint64_t(*t)[256] = hash->tables;
    uint64_t state = hash->constants[0], k = *key;
    if (hash->bytes == 8) {
        return state ^ t[0][k & 255] ^ t[1][k >> 8 & 255] ^ t[2][k >> 16 & 255] ^
               t[3][k >> 24 & 255] ^ t[4][k >> 32 & 255] ^ t[5][k >> 40 & 255] ^
               t[6][k >> 48 & 255] ^ t[7][k >> 56];
    }
    for (ptrdiff_t byte = 0; byte < hash->bytes; byte++) {
        state ^= t[byte][key[byte / 8] >> (8 * (byte % 8)) & 255];
    }
    return state;
}

/* XOR of three rotations of a state: a word of a hash function. */
ALWAYS uint64_t hash_word(const uint64_t *rotations, uint64_t state) {
    return rotate64(state, (unsigned)rotations[0]) ^ rotate64(state, (unsigned)rotations[1]) ^
           rotate64(state, (unsigned)rotations[2]);
}

ALWAYS const uint64_t *hash_rotations(const Hash *hash, ptrdiff_t function, ptrdiff_t word) {
    return hash->rotations + 3 * (function * hash->expanded + word);
}

/* Index in a field of a word. For a size that is not a power of two, the field has 32 bits. */
ALWAYS uint64_t hash_index(Field field, uint64_t word) {
    uint64_t value = word >> field.low & field.mask;
    if (field.size == field.mask + 1) {
        return value;
    }
    return (value & 0xFFFFFFFF) * (field.size & 0xFFFFFFFF) >> 32;
}

/* State of a key, its least significant word first. */
ALWAYS uint64_t hash_state(const Hash *hash, const uint64_t *key, Secret secret) {
    if (hash->keyed) {
        SipState state = sip_start(secret.low, secret.high);
        for (ptrdiff_t number = 0; number < hash->message; number++) {
            uint64_t word = number < hash->words ? key[number] : 0;
            sip_word(&state, number == hash->message - 1 ? word | hash->length : word);
        }
        return sip_end(&state);
    }
    uint64_t state = hash_folded(hash, key);
    for (ptrdiff_t number = 1; number < hash->rounds; number++) {
        state = hash_mixed(state, (uint32_t)hash->constants[number]);
    }
    return state;
}

/* Functions for a chunk of keys. A program of several files defines them in one file, where
   HASH_MANY is empty; the other files define HASH_ELSEWHERE. */
#ifdef HASH_ELSEWHERE
void hash_states(const Hash *hash, const uint64_t *keys, ptrdiff_t count, Secret secret,
                 uint64_t *states);
void hash_indexes(const Hash *hash, const uint64_t *states, ptrdiff_t count, ptrdiff_t function,
                  uint64_t (*indexes)[CHUNK]);
#else
#ifndef HASH_MANY
#define HASH_MANY static inline
#endif

/* Products of 8 by 8 bits: chosen at run time, or if the target processor has them. */
#if defined(CLONES)
#define AFFINE __attribute__((target("gfni,avx512f,avx512bw,avx512vbmi")))
#elif defined(__GFNI__) && defined(__AVX512BW__) && defined(__AVX512VBMI__)
#define AFFINE
#endif

#ifdef AFFINE
#include <immintrin.h>

/* Folds keys by products, eight keys at a time; bytes are transposed so that lane j holds byte j of
   all keys. Returns the number of keys that were folded. */
AFFINE static ptrdiff_t hash_fold_eights(const Hash *hash, const uint64_t *keys, ptrdiff_t count,
                                         uint64_t *states) {
    uint8_t exchange[64];
    for (int i = 0; i < 64; i++) {
        exchange[i] = (uint8_t)(i % 8 * 8 + i / 8);
    }
    __m512i order = _mm512_loadu_si512(exchange);
    __m512i initial = _mm512_set1_epi64((long long)hash->constants[0]);
    ptrdiff_t at = 0;
    for (; at + 8 <= count; at += 8) {
        __m512i sum = _mm512_setzero_si512();
        __m512i lanes = _mm512_permutexvar_epi8(order, _mm512_loadu_si512(keys + at));
        for (int row = 0; row < 8; row++) {
            __m512i matrices = _mm512_loadu_si512(hash->matrices[row]);
            sum = _mm512_xor_si512(sum, _mm512_gf2p8affine_epi64_epi8(lanes, matrices, 0));
            lanes = _mm512_alignr_epi64(lanes, lanes, 1);
        }
        sum = _mm512_xor_si512(_mm512_permutexvar_epi8(order, sum), initial);
        _mm512_storeu_si512(states + at, sum);
    }
    return at;
}
#endif

/* Round by round, not key by key: the inner loop becomes vector instructions. */
WIDE static void hash_mix(const Hash *hash, ptrdiff_t count, uint64_t *states) {
    for (ptrdiff_t number = 1; number < hash->rounds; number++) {
        uint32_t constant = (uint32_t)hash->constants[number];
        for (ptrdiff_t i = 0; i < count; i++) {
            states[i] = hash_mixed(states[i], constant);
        }
    }
}

/* Keys of one word of eight bytes: a message of two words. */
WIDE static void hash_words(const uint64_t *keys, ptrdiff_t count, Secret secret, uint64_t length,
                            uint64_t *states) {
    for (ptrdiff_t i = 0; i < count; i++) {
        SipState state = sip_start(secret.low, secret.high);
        sip_word(&state, keys[i]);
        sip_word(&state, length);
        states[i] = sip_end(&state);
    }
}

HASH_MANY void hash_states(const Hash *hash, const uint64_t *keys, ptrdiff_t count, Secret secret,
                           uint64_t *states) {
    if (!hash->keyed) {
        ptrdiff_t at = 0;
#ifdef AFFINE
        at = hash->matrices ? hash_fold_eights(hash, keys, count, states) : 0;
#endif
        for (; at < count; at++) {
            states[at] = hash_folded(hash, keys + at * hash->words);
        }
        hash_mix(hash, count, states);
    } else if (hash->words == 1 && hash->message == 2) {
        hash_words(keys, count, secret, hash->length, states);
    } else {
        for (ptrdiff_t i = 0; i < count; i++) {
            states[i] = hash_state(hash, keys + i * hash->words, secret);
        }
    }
}

/* Writes `fields` rows of CHUNK entries. */
WIDE HASH_MANY void hash_indexes(const Hash *hash, const uint64_t *states, ptrdiff_t count,
                                 ptrdiff_t function, uint64_t (*indexes)[CHUNK]) {
    uint64_t words[CHUNK];
    for (ptrdiff_t number = 0; number < hash->fields; number++) {
        Field field = hash->field[number];
        if (number == 0 || field.word != hash->field[number - 1].word) {
            const uint64_t *rotations = hash_rotations(hash, function, field.word);
            for (ptrdiff_t i = 0; i < count; i++) {
                words[i] = hash_word(rotations, states[i]);
            }
        }
        for (ptrdiff_t i = 0; i < count; i++) {
            indexes[number][i] = hash_index(field, words[i]);
        }
    }
}
#endif

#endif
