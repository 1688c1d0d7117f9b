/* Hash states of keys: `KeyHash.state`. */
#include "core.h"

#define CHUNK 128 /* keys whose states stay in the first cache */

WIDE static void fold_word(const uint64_t *keys, Py_ssize_t count, const uint64_t (*t)[256],
                           uint64_t initial, uint64_t *states) {
    for (Py_ssize_t i = 0; i < count; i++) {
        uint64_t k = keys[i];
        states[i] = initial ^ t[0][k & 255] ^ t[1][k >> 8 & 255] ^ t[2][k >> 16 & 255] ^
                    t[3][k >> 24 & 255] ^ t[4][k >> 32 & 255] ^ t[5][k >> 40 & 255] ^
                    t[6][k >> 48 & 255] ^ t[7][k >> 56];
    }
}

static void fold(const uint64_t *keys, Py_ssize_t count, Py_ssize_t words,
                 const uint64_t (*tables)[256], Py_ssize_t bytes, uint64_t initial,
                 uint64_t *states) {
    if (words == 1 && bytes == 8) {
        fold_word(keys, count, tables, initial, states);
        return;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        uint64_t state = initial;
        for (Py_ssize_t byte = 0; byte < bytes; byte++) {
            state ^= tables[byte][keys[i * words + byte / 8] >> (8 * (byte % 8)) & 255];
        }
        states[i] = state;
    }
}

/* Round by round, not key by key: the inner loop becomes vector instructions. */
WIDE static void mix(const uint64_t *constants, Py_ssize_t rounds, Py_ssize_t count,
                     uint64_t *states) {
    for (Py_ssize_t number = 1; number < rounds; number++) {
        uint32_t constant = (uint32_t)constants[number];
        for (Py_ssize_t i = 0; i < count; i++) {
            uint32_t left = (uint32_t)(states[i] >> 32), right = (uint32_t)states[i];
            uint32_t mixed = (rotate32(left, 1) & rotate32(left, 8)) ^ rotate32(left, 2) ^ right ^
                             constant;
            states[i] = (uint64_t)mixed << 32 | left;
        }
    }
}

/* h3_states(keys, words, tables, constants, states): states of keys under "h3". */
static PyObject *h3_states(PyObject *self, PyObject *args) {
    PyObject *a, *b, *c, *d;
    Py_ssize_t words;
    Buffers all = {.count = 0};
    (void)self;
    if (!PyArg_ParseTuple(args, "OnOOO", &a, &words, &b, &c, &d)) {
        return NULL;
    }
    uint64_t *states = core_buffer(&all, d, 8, -1, 1, "states");
    Py_ssize_t count = states ? core_items(&all, 0) : 0;
    const uint64_t *keys = states ? core_buffer(&all, a, 8, count * words, 0, "keys") : NULL;
    const uint64_t(*tables)[256] = keys ? core_buffer(&all, b, 8, 256, 0, "tables") : NULL;
    const uint64_t *constants = tables ? core_buffer(&all, c, 8, 1, 0, "constants") : NULL;
    if (!constants) {
        return core_finish(&all, NULL);
    }
    Py_ssize_t bytes = core_items(&all, 2) / 256, rounds = core_items(&all, 3);
    if (words < 1 || bytes > 8 * words) {
        PyErr_SetString(PyExc_ValueError, "words: must be 1 or more, with 8 tables each");
        return core_finish(&all, NULL);
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t begin = 0; begin < count; begin += CHUNK) {
        Py_ssize_t part = count - begin < CHUNK ? count - begin : CHUNK;
        fold(keys + begin * words, part, words, tables, bytes, constants[0], states + begin);
        mix(constants, rounds, part, states + begin);
    }
    Py_END_ALLOW_THREADS
    return core_finish(&all, Py_NewRef(Py_None));
}

PyMethodDef core_hash_methods[] = {
    {"h3_states", h3_states, METH_VARARGS, "States of keys under the hash h3."},
    {NULL, NULL, 0, NULL},
};
