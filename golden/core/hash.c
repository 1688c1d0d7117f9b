/* The type `Hash`: hash functions of keys. */
#define HASH_MANY
#include "hash.h"

#define MAX_CONSTANTS 16

typedef struct {
    PyObject_HEAD
    Hash hash;
    uint64_t *numbers; /* owned: tables, constants and rotations */
    uint64_t matrices[8][8];
    Field *field;
} HashObject;

static PyTypeObject *hash_type;

const Hash *hash_within(PyObject *object) {
    if (!PyObject_TypeCheck(object, hash_type)) {
        PyErr_SetString(PyExc_TypeError, "hash: must be a Hash");
        return NULL;
    }
    return &((HashObject *)object)->hash;
}

/* Derives the bit matrices from the tables, if the tables are linear and the processor has
   products. */
static void take_matrices(HashObject *self) {
#ifdef CLONES
    Hash *hash = &self->hash;
    int affine = hash->words == 1 && hash->bytes == 8 && __builtin_cpu_supports("gfni") &&
                 __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512bw");
    for (int byte = 0; affine && byte < 8; byte++) {
        const uint64_t *table = hash->tables[byte];
        for (int value = 1; value < 256; value++) {
            int low = value & -value;
            affine &= table[value] == (table[low] ^ table[value ^ low]) && table[0] == 0;
        }
        for (int bit = 0; bit < 64 * 8; bit++) { /* bits of the result, and of the byte */
            int out = bit / 64, row = (byte - out + 8) % 8, shift = (7 - bit % 8) * 8;
            int from = bit / 8 % 8;
            uint64_t one = table[1 << from] >> (8 * out + bit % 8) & 1;
            self->matrices[row][out] |= one << (shift + from);
        }
    }
    hash->matrices = affine ? (const uint64_t(*)[8])self->matrices : NULL;
#else
    (void)self;
#endif
}

static int take_fields(HashObject *self, const uint64_t *rows) {
    for (Py_ssize_t number = 0; number < self->hash.fields; number++, rows += 5) {
        Field field = {.word = (unsigned)rows[0], .low = (unsigned)rows[1], .mask = rows[2],
                       .size = rows[3], .bits = (unsigned)rows[4]};
        int whole = field.size == field.mask + 1 && field.bits <= 32;
        if (rows[0] >= (uint64_t)self->hash.expanded || rows[1] > 63 || field.size < 1 ||
            field.size > (uint64_t)1 << 32 ||
            !(whole || (field.mask == 0xFFFFFFFF && field.bits == 32))) {
            PyErr_SetString(PyExc_ValueError, "fields: must be index fields of the words");
            return -1;
        }
        self->field[number] = field;
    }
    return 0;
}

static int take_tables(HashObject *self, PyObject *const *arrays) {
    Buffers all = {.count = 0};
    Hash *hash = &self->hash;
    const uint64_t *given[4];
    const char *const names[4] = {"tables", "constants", "rotations", "fields"};
    size_t counts[4], total = 0;
    int done = -1;
    for (int i = 0; i < 4; i++) {
        if (!(given[i] = core_buffer(&all, arrays[i], 8, i ? 2 * i - 1 : -1, 0, names[i]))) {
            core_finish(&all, NULL);
            return -1;
        }
        counts[i] = (size_t)core_items(&all, i);
        total += counts[i];
    }
    hash->bytes = (Py_ssize_t)counts[0] / 256;
    hash->rounds = (Py_ssize_t)counts[1];
    hash->expanded = (Py_ssize_t)counts[2] / 3 / hash->functions;
    hash->fields = (Py_ssize_t)counts[3] / 5;
    self->numbers = PyMem_Malloc(total * 8);
    self->field = PyMem_Malloc((size_t)hash->fields * sizeof(Field));
    if (!self->numbers || !self->field) {
        PyErr_NoMemory();
    } else if (hash->bytes > 8 * hash->words || hash->rounds > MAX_CONSTANTS ||
               hash->expanded < 1) {
        PyErr_SetString(PyExc_ValueError, "tables: must be those of a KeyHash");
    } else {
        uint64_t *at = self->numbers;
        hash->tables = (const uint64_t(*)[256])memcpy(at, given[0], counts[0] * 8);
        hash->constants = memcpy(at += counts[0], given[1], counts[1] * 8);
        hash->rotations = memcpy(at += counts[1], given[2], counts[2] * 8);
        hash->field = self->field;
        take_matrices(self);
        done = take_fields(self, given[3]);
    }
    core_finish(&all, NULL);
    return done;
}

/* Hash(key_bits, keyed, functions, tables, constants, rotations, fields) */
static PyObject *hash_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    Py_ssize_t key_bits, functions;
    int keyed;
    PyObject *a[4];
    (void)named;
    if (!PyArg_ParseTuple(args, "npnOOOO", &key_bits, &keyed, &functions, &a[0], &a[1], &a[2],
                          &a[3])) {
        return NULL;
    }
    if (key_bits < 1 || key_bits > 1 << 20 || functions < 1) {
        PyErr_SetString(PyExc_ValueError, "key_bits, functions: must be at least 1");
        return NULL;
    }
    HashObject *self = (HashObject *)PyType_GenericAlloc(type, 0);
    if (!self) {
        return NULL;
    }
    Hash *hash = &self->hash;
    hash->keyed = keyed;
    hash->key_bits = key_bits;
    hash->functions = functions;
    hash->words = (key_bits + 63) / 64;
    hash->message = (key_bits + 7) / 8 / 8 + 1;
    hash->length = (uint64_t)((key_bits + 7) / 8 % 256) << 56;
    if (take_tables(self, a) < 0) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void hash_dealloc(PyObject *object) {
    HashObject *self = (HashObject *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyMem_Free(self->numbers);
    PyMem_Free(self->field);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

/* states(keys, low, high, states): writes the states of keys under a secret. */
static PyObject *states_of(PyObject *self, PyObject *args) {
    const Hash *hash = &((HashObject *)self)->hash;
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
    return core_add_type(module, &hash_type, "lately.golden._core.Hash", sizeof(HashObject), slots);
}
