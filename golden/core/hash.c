/* Hash functions of keys: the type `Hash`. */
#include "hash.h"

static PyTypeObject *hash_type;

/* Loops over a chunk of keys. */

#ifdef CLONES
#include <immintrin.h>

#define AFFINE __attribute__((target("gfni,avx512f,avx512bw,avx512vbmi")))

/* Folds keys by products of 8 by 8 bits, eight keys at a time; their bytes are transposed so that
   byte j of all keys is in lane j. */
AFFINE static Py_ssize_t fold_eights(const Hash *hash, const uint64_t *keys, Py_ssize_t count,
                                     uint64_t *states) {
    uint8_t exchange[64];
    for (int i = 0; i < 64; i++) {
        exchange[i] = (uint8_t)(i % 8 * 8 + i / 8);
    }
    __m512i order = _mm512_loadu_si512(exchange);
    __m512i initial = _mm512_set1_epi64((long long)hash->constants[0]);
    Py_ssize_t at = 0;
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

/* Takes the matrices of the tables, if the tables are linear and the processor has products. */
static void take_matrices(Hash *hash) {
    hash->affine = hash->words == 1 && hash->bytes == 8 && __builtin_cpu_supports("gfni") &&
                   __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512bw");
    for (int byte = 0; hash->affine && byte < 8; byte++) {
        const uint64_t *table = hash->tables[byte];
        for (int value = 1; value < 256; value++) {
            int low = value & -value;
            hash->affine &= table[value] == (table[low] ^ table[value ^ low]) && table[0] == 0;
        }
        for (int bit = 0; bit < 64 * 8; bit++) { /* of the result, and of the byte */
            int out = bit / 64, row = (byte - out + 8) % 8, shift = (7 - bit % 8) * 8;
            int from = bit / 8 % 8;
            uint64_t one = table[1 << from] >> (8 * out + bit % 8) & 1;
            hash->matrices[row][out] |= one << (shift + from);
        }
    }
}
#else
static Py_ssize_t fold_eights(const Hash *hash, const uint64_t *keys, Py_ssize_t count,
                              uint64_t *states) {
    (void)hash, (void)keys, (void)count, (void)states;
    return 0;
}

static void take_matrices(Hash *hash) { hash->affine = 0; }
#endif

static void fold_one_word(const Hash *hash, const uint64_t *keys, Py_ssize_t count,
                          uint64_t *states) {
    Py_ssize_t at = hash->affine ? fold_eights(hash, keys, count, states) : 0;
    for (; at < count; at++) {
        states[at] =
            hash->constants[0] ^ hash_folded((const uint64_t(*)[256])hash->tables, keys[at]);
    }
}

static void fold(const Hash *hash, const uint64_t *keys, Py_ssize_t count, uint64_t *states) {
    if (hash->words == 1 && hash->bytes == 8) {
        fold_one_word(hash, keys, count, states);
        return;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        uint64_t state = hash->constants[0];
        for (Py_ssize_t byte = 0; byte < hash->bytes; byte++) {
            state ^= hash->tables[byte][keys[i * hash->words + byte / 8] >> (8 * (byte % 8)) & 255];
        }
        states[i] = state;
    }
}

/* Round by round, not key by key: the inner loop becomes vector instructions. */
WIDE static void mix(const Hash *hash, Py_ssize_t count, uint64_t *states) {
    for (Py_ssize_t number = 1; number < hash->rounds; number++) {
        uint32_t constant = (uint32_t)hash->constants[number];
        for (Py_ssize_t i = 0; i < count; i++) {
            states[i] = hash_mixed(states[i], constant);
        }
    }
}

/* Keys of one word of eight bytes: a message of two words. */
WIDE static void siphash_words(const uint64_t *keys, Py_ssize_t count, Secret secret,
                               uint64_t length, uint64_t *states) {
    for (Py_ssize_t i = 0; i < count; i++) {
        SipState state = sip_start(secret.low, secret.high);
        sip_word(&state, keys[i]);
        sip_word(&state, length);
        states[i] = sip_end(&state);
    }
}

static void siphash_keys(const Hash *hash, const uint64_t *keys, Py_ssize_t count, Secret secret,
                         uint64_t *states) {
    if (hash->words == 1 && hash->message == 2) {
        siphash_words(keys, count, secret, hash->length, states);
        return;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        SipState state = sip_start(secret.low, secret.high);
        for (Py_ssize_t number = 0; number < hash->message; number++) {
            uint64_t word = number < hash->words ? keys[i * hash->words + number] : 0;
            sip_word(&state, number == hash->message - 1 ? word | hash->length : word);
        }
        states[i] = sip_end(&state);
    }
}

void hash_states(const Hash *hash, const uint64_t *keys, Py_ssize_t count, Secret secret,
                 uint64_t *states) {
    if (hash->keyed) {
        siphash_keys(hash, keys, count, secret, states);
    } else {
        fold(hash, keys, count, states);
        mix(hash, count, states);
    }
}

WIDE void hash_indices(const Hash *hash, const uint64_t *states, Py_ssize_t count,
                       Py_ssize_t function, uint64_t (*indices)[CHUNK]) {
    uint64_t words[CHUNK];
    for (Py_ssize_t number = 0; number < hash->fields; number++) {
        Field field = hash->field[number];
        if (number == 0 || field.word != hash->field[number - 1].word) {
            const uint64_t *rotations = hash_rotations(hash, function, field.word);
            for (Py_ssize_t i = 0; i < count; i++) {
                words[i] = hash_word(rotations, states[i]);
            }
        }
        for (Py_ssize_t i = 0; i < count; i++) {
            indices[number][i] = hash_index(field, words[i]);
        }
    }
}

/* The type. */

Hash *hash_of(PyObject *object) {
    if (!PyObject_TypeCheck(object, hash_type)) {
        PyErr_SetString(PyExc_TypeError, "hash: must be a Hash");
        return NULL;
    }
    return (Hash *)object;
}

static int take_fields(Hash *hash, const uint64_t *rows) {
    for (Py_ssize_t number = 0; number < hash->fields; number++, rows += 5) {
        Field field = {.word = (unsigned)rows[0], .low = (unsigned)rows[1], .mask = rows[2],
                       .size = rows[3], .bits = (unsigned)rows[4]};
        int whole = field.size == field.mask + 1 && field.bits <= 32;
        if (rows[0] >= (uint64_t)hash->expanded || rows[1] > 63 || field.size < 1 ||
            field.size > (uint64_t)1 << 32 ||
            !(whole || (field.mask == 0xFFFFFFFF && field.bits == 32))) {
            PyErr_SetString(PyExc_ValueError, "fields: must be index fields of the words");
            return -1;
        }
        hash->field[number] = field;
    }
    return 0;
}

static int take_tables(Hash *hash, PyObject *tables, PyObject *constants, PyObject *rotations,
                       PyObject *fields) {
    Buffers all = {.count = 0};
    uint64_t *t = core_buffer(&all, tables, 8, -1, 0, "tables");
    uint64_t *c = t ? core_buffer(&all, constants, 8, 1, 0, "constants") : NULL;
    uint64_t *r = c ? core_buffer(&all, rotations, 8, 3, 0, "rotations") : NULL;
    uint64_t *f = r ? core_buffer(&all, fields, 8, 5, 0, "fields") : NULL;
    int done = -1;
    if (f) {
        hash->bytes = core_items(&all, 0) / 256;
        hash->rounds = core_items(&all, 1);
        hash->expanded = core_items(&all, 2) / 3 / hash->functions;
        hash->fields = core_items(&all, 3) / 5;
        hash->tables = PyMem_Malloc((size_t)all.views[0].len + 1);
        hash->rotations = PyMem_Malloc((size_t)all.views[2].len);
        hash->field = PyMem_Malloc((size_t)hash->fields * sizeof(Field));
        if (!hash->tables || !hash->rotations || !hash->field) {
            PyErr_NoMemory();
        } else if (hash->bytes > 8 * hash->words || hash->rounds > MOST_CONSTANTS ||
                   hash->expanded < 1) {
            PyErr_SetString(PyExc_ValueError, "tables: must be those of a KeyHash");
        } else {
            memcpy(hash->tables, t, (size_t)hash->bytes * sizeof *hash->tables);
            memcpy(hash->constants, c, (size_t)hash->rounds * 8);
            memcpy(hash->rotations, r, (size_t)all.views[2].len);
            take_matrices(hash);
            done = take_fields(hash, f);
        }
    }
    core_finish(&all, NULL);
    return done;
}

/* Hash(key_bits, keyed, functions, tables, constants, rotations, fields) */
static PyObject *hash_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    Py_ssize_t key_bits, functions;
    int keyed;
    PyObject *a, *b, *c, *d;
    (void)named;
    if (!PyArg_ParseTuple(args, "npnOOOO", &key_bits, &keyed, &functions, &a, &b, &c, &d)) {
        return NULL;
    }
    if (key_bits < 1 || key_bits > 1 << 20 || functions < 1) {
        PyErr_SetString(PyExc_ValueError, "key_bits, functions: must be at least 1");
        return NULL;
    }
    Hash *hash = (Hash *)PyType_GenericAlloc(type, 0);
    if (!hash) {
        return NULL;
    }
    hash->keyed = keyed;
    hash->key_bits = key_bits;
    hash->functions = functions;
    hash->words = (key_bits + 63) / 64;
    hash->message = (key_bits + 7) / 8 / 8 + 1;
    hash->length = (uint64_t)((key_bits + 7) / 8 % 256) << 56;
    if (take_tables(hash, a, b, c, d) < 0) {
        Py_DECREF(hash);
        return NULL;
    }
    return (PyObject *)hash;
}

static void hash_dealloc(PyObject *self) {
    Hash *hash = (Hash *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyMem_Free(hash->tables);
    PyMem_Free(hash->rotations);
    PyMem_Free(hash->field);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* states(keys, low, high, states): writes the states of keys under a secret. */
static PyObject *states_of(PyObject *self, PyObject *args) {
    const Hash *hash = (Hash *)self;
    PyObject *a, *b;
    Secret secret;
    Buffers all = {.count = 0};
    if (!PyArg_ParseTuple(args, "OKKO", &a, &secret.low, &secret.high, &b)) {
        return NULL;
    }
    uint64_t *states = core_buffer(&all, b, 8, -1, 1, "states");
    Py_ssize_t count = states ? core_items(&all, 0) : 0;
    uint64_t *keys = states ? core_buffer(&all, a, 8, count * hash->words, 0, "keys") : NULL;
    if (!keys) {
        return core_finish(&all, NULL);
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t begin = 0; begin < count; begin += CHUNK) {
        Py_ssize_t part = count - begin < CHUNK ? count - begin : CHUNK;
        hash_states(hash, keys + begin * hash->words, part, secret, states + begin);
    }
    Py_END_ALLOW_THREADS
    return core_finish(&all, Py_NewRef(Py_None));
}

static PyMethodDef methods[] = {
    {"states", states_of, METH_VARARGS, "Write the states of keys under a secret."},
    {NULL, NULL, 0, NULL},
};

int core_add_hash(PyObject *module) {
    PyType_Slot slots[] = {{Py_tp_new, hash_new},
                           {Py_tp_dealloc, hash_dealloc},
                           {Py_tp_methods, methods},
                           {0, NULL}};
    return core_add_type(module, &hash_type, "lately.golden._core.Hash", sizeof(Hash), slots);
}
