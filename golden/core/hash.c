/* The type `Hash`: hash functions of keys. */
#define HASH_MANY
#include "core.h"

#define MAX_CONSTANTS 16
#define MAX_FIELDS 65 /* a block and 64 parts */

typedef struct {
    PyObject_HEAD
    Hash hash;
    Arguments arguments; /* arguments of the constructor, with the tables */
    uint64_t matrices[8][8];
    Field field[MAX_FIELDS];
} HashObject;

static PyTypeObject *hash_type;

const Hash *hash_of(PyObject *object) {
    if (!PyObject_TypeCheck(object, hash_type)) {
        PyErr_SetString(PyExc_TypeError, "hash: must be a Hash");
        return NULL;
    }
    return &((HashObject *)object)->hash;
}

/* Derives the bit matrices from the tables, if the tables are linear and the processor can multiply
   by bit matrices. */
static void derive_matrices(HashObject *self) {
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
            uint64_t entry = table[1 << from] >> (8 * out + bit % 8) & 1;
            self->matrices[row][out] |= entry << (shift + from);
        }
    }
    hash->matrices = affine ? (const uint64_t(*)[8])self->matrices : NULL;
#endif
}

/* Whether a field selects an index from the words. */
static int is_valid(Field field, uint64_t words) {
    int whole = field.size == field.mask + 1 && field.bits <= 32;
    return field.word < words && field.low < 64 && field.size >= 1 &&
           field.size <= (uint64_t)1 << 32 &&
           (whole || (field.mask == 0xFFFFFFFF && field.bits == 32));
}

/* Hash(key_bits, keyed, functions, tables, constants, rotations, fields) */
static PyObject *hash_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    HashObject *self = (HashObject *)PyType_GenericAlloc(type, 0);
    if (!self) {
        return NULL;
    }
    Arguments *a = &self->arguments;
    Hash *hash = &self->hash;
    *a = core_arguments(args);
    hash->key_bits = core_integer(a);
    hash->keyed = core_flag(a);
    hash->functions = core_integer(a);
    core_require(a, hash->key_bits >= 1 && hash->key_bits <= 1 << 20 && hash->functions >= 1,
                 "key_bits, functions: must be at least 1");
    hash->words = (hash->key_bits + 63) / 64;
    hash->message = (hash->key_bits + 7) / 8 / 8 + 1;
    hash->length = (uint64_t)((hash->key_bits + 7) / 8 % 256) << 56;
    hash->tables = core_array(a, "tables", 8, -1, READ);
    hash->bytes = a->items / 256;
    hash->constants = core_array(a, "constants", 8, 1, READ);
    hash->rounds = a->items;
    hash->rotations = core_array(a, "rotations", 8, 3, READ);
    Py_ssize_t rotations = a->items;
    const uint64_t *rows = core_array(a, "fields", 8, 5, READ);
    hash->fields = a->items / 5;
    hash->field = self->field;
    if (core_ready(a)) {
        hash->expanded = rotations / 3 / hash->functions;
        core_require(a, hash->bytes <= 8 * hash->words && hash->rounds <= MAX_CONSTANTS &&
                            hash->expanded >= 1, "tables: must be those of a KeyHash");
        core_require(a, hash->fields <= MAX_FIELDS, "fields: must be at most 65");
    }
    for (Py_ssize_t i = 0; !a->failed && i < hash->fields; i++, rows += 5) {
        self->field[i] = (Field){.word = (unsigned)rows[0], .low = (unsigned)rows[1],
                                 .mask = rows[2], .size = rows[3], .bits = (unsigned)rows[4]};
        core_require(a, is_valid(self->field[i], (uint64_t)hash->expanded),
                     "fields: must be index fields of the words");
    }
    if (a->failed) {
        Py_DECREF(self);
        return NULL;
    }
    derive_matrices(self);
    return (PyObject *)self;
}

static void hash_dealloc(PyObject *object) {
    core_finish(&((HashObject *)object)->arguments, NULL);
    core_free(object);
}

int core_add_hash(PyObject *module) {
    PyType_Slot slots[] = {{Py_tp_new, hash_new},
                           {Py_tp_dealloc, hash_dealloc},
                           {0, NULL}};
    return core_add_type(module, &hash_type, "lately.golden._core.Hash", sizeof(HashObject), slots);
}
