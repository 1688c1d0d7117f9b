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
    PyObject *objects[4];
    Py_ssize_t words;
    Py_buffer keys, tables, constants, states;
    PyObject *result = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "OnOOO", &objects[0], &words, &objects[1], &objects[2],
                          &objects[3])) {
        return NULL;
    }
    if (words < 1) {
        PyErr_SetString(PyExc_ValueError, "words: must be at least 1");
        return NULL;
    }
    if (core_take(objects[3], &states, 8, -1, 1, "states") < 0) {
        return NULL;
    }
    Py_ssize_t count = states.len / 8;
    if (core_take(objects[0], &keys, 8, count * words, 0, "keys") < 0) {
        goto states;
    }
    if (core_take(objects[1], &tables, 8, 256, 0, "tables") < 0) {
        goto keys;
    }
    if (core_take(objects[2], &constants, 8, 1, 0, "constants") < 0) {
        goto tables;
    }
    Py_ssize_t bytes = tables.len / (8 * 256);
    if (bytes > 8 * words) {
        PyErr_SetString(PyExc_ValueError, "tables: must be at most 8 for each word of a key");
        goto constants;
    }
    uint64_t *out = states.buf;
    const uint64_t *in = keys.buf, *mixing = constants.buf;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t begin = 0; begin < count; begin += CHUNK) {
        Py_ssize_t part = count - begin < CHUNK ? count - begin : CHUNK;
        fold(in + begin * words, part, words, (const uint64_t(*)[256])tables.buf, bytes, mixing[0],
             out + begin);
        mix(mixing, constants.len / 8, part, out + begin);
    }
    Py_END_ALLOW_THREADS
    result = Py_NewRef(Py_None);
constants:
    PyBuffer_Release(&constants);
tables:
    PyBuffer_Release(&tables);
keys:
    PyBuffer_Release(&keys);
states:
    PyBuffer_Release(&states);
    return result;
}

PyMethodDef core_hash_methods[] = {
    {"h3_states", h3_states, METH_VARARGS, "States of keys under the hash h3."},
    {NULL, NULL, 0, NULL},
};
