/* Hash functions of keys: `KeyHash` as the loops take it. */
#ifndef LATELY_HASH_H
#define LATELY_HASH_H

#include "core.h"
#include "siphash.h"

#define CHUNK 128 /* keys whose states and places stay in the first cache */
#define MOST_CONSTANTS 16

typedef struct {
    uint64_t mask, size;
    unsigned word, low, bits;
} Field; /* an `IndexField` */

typedef struct {
    PyObject_HEAD
    int keyed;                       /* whether the hash is "siphash" */
    Py_ssize_t key_bits;
    Py_ssize_t words;                /* words of 64 bits of a key */
    Py_ssize_t message;              /* words of its message under "siphash" */
    uint64_t length;                 /* term of the last word of the message */
    Py_ssize_t bytes;                /* tables of "h3" */
    uint64_t (*tables)[256];
    int affine;                      /* whether the processor folds keys by `matrices` */
    uint64_t matrices[8][8];         /* of bits: row d has those from byte o + d to byte o */
    Py_ssize_t rounds;               /* constants of "h3" */
    uint64_t constants[MOST_CONSTANTS];
    Py_ssize_t functions, expanded;  /* hash functions, and words of each */
    uint64_t *rotations;             /* three for each word of each function */
    Py_ssize_t fields;               /* indices of each function */
    Field *field;
} Hash;

/* A secret of "siphash", low half first. */
typedef struct {
    uint64_t low, high;
} Secret;

/* Returns the object as a Hash, or NULL with an error set. */
Hash *hash_of(PyObject *object);

/* States of a chunk of keys. */
void hash_states(const Hash *hash, const uint64_t *keys, Py_ssize_t count, Secret secret,
                 uint64_t *states);

/* Indices of a chunk of states, `fields` rows of CHUNK entries. */
void hash_indices(const Hash *hash, const uint64_t *states, Py_ssize_t count, Py_ssize_t function,
                  uint64_t (*indices)[CHUNK]);

ALWAYS uint64_t hash_mixed(uint64_t state, uint32_t constant) {
    uint32_t left = (uint32_t)(state >> 32), right = (uint32_t)state;
    uint32_t mixed =
        (rotate32(left, 1) & rotate32(left, 8)) ^ rotate32(left, 2) ^ right ^ constant;
    return (uint64_t)mixed << 32 | left;
}

ALWAYS uint64_t hash_folded(const uint64_t (*t)[256], uint64_t k) {
    return t[0][k & 255] ^ t[1][k >> 8 & 255] ^ t[2][k >> 16 & 255] ^ t[3][k >> 24 & 255] ^
           t[4][k >> 32 & 255] ^ t[5][k >> 40 & 255] ^ t[6][k >> 48 & 255] ^ t[7][k >> 56];
}

/* Sum of three rotations of a state: a word of a hash function. */
ALWAYS uint64_t hash_word(const uint64_t *rotations, uint64_t state) {
    return rotate64(state, (unsigned)rotations[0]) ^ rotate64(state, (unsigned)rotations[1]) ^
           rotate64(state, (unsigned)rotations[2]);
}

ALWAYS const uint64_t *hash_rotations(const Hash *hash, Py_ssize_t function, Py_ssize_t word) {
    return hash->rotations + 3 * (function * hash->expanded + word);
}

/* Index that a field takes from a word. A size that is no power of two takes 32 bits. */
ALWAYS uint64_t hash_index(Field field, uint64_t word) {
    uint64_t value = word >> field.low & field.mask;
    if (field.size == field.mask + 1) {
        return value;
    }
    return (value & 0xFFFFFFFF) * (field.size & 0xFFFFFFFF) >> 32;
}

/* State of one key of one word, whose tables are eight. */
ALWAYS uint64_t hash_state(const Hash *hash, uint64_t key, Secret secret) {
    if (hash->keyed) {
        SipState state = sip_start(secret.low, secret.high);
        if (hash->message == 1) {
            sip_word(&state, key | hash->length);
        } else {
            sip_word(&state, key);
            sip_word(&state, hash->length);
        }
        return sip_end(&state);
    }
    uint64_t state = hash->constants[0];
    if (hash->bytes == 8) {
        state ^= hash_folded((const uint64_t(*)[256])hash->tables, key);
    } else {
        for (Py_ssize_t byte = 0; byte < hash->bytes; byte++) {
            state ^= hash->tables[byte][key >> (8 * byte) & 255];
        }
    }
    for (Py_ssize_t number = 1; number < hash->rounds; number++) {
        state = hash_mixed(state, (uint32_t)hash->constants[number]);
    }
    return state;
}

#endif
