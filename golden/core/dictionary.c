/* The type of a compiled window dictionary, whose operations are in "pure/dictionary.h". */
#include "calls.h"

#include "pure/dictionary.h"

typedef struct {
    Engine engine;
    Buffers buffers; /* offsets, numbers and the three arrays */
    DictionaryShape shape;
    uint64_t *packed; /* owned */
    DictionaryState state;
} Dictionary;

static PyTypeObject *dictionary_type;

static int64_t perform_one(Engine *engine, int code, const uint64_t *key) {
    Dictionary *d = (Dictionary *)engine;
    int64_t age = -1;
    DictionaryWork work = {.code = code, .keys = key, .ages = &age};
    dictionary_perform(&d->shape, &d->state, &work, 1);
    return age;
}

/* Gets offsets, numbers, cells, and times and digests of the stash. Returns whether every row is in
   its column, and every column in the arrays; sets an error if not. */
static int take_arrays(Dictionary *d, PyObject *arrays[5]) {
    const char *names[] = {"offsets", "numbers", "cells", "stash_times", "stash"};
    void *buffers[5];
    for (int i = 0; i < 5; i++) {
        if (!(buffers[i] = core_buffer(&d->buffers, arrays[i], 8, -1, i > 0, names[i]))) {
            return 0;
        }
    }
    DictionaryShape *shape = &d->shape;
    shape->offsets = buffers[0];
    d->state = (DictionaryState){buffers[1], buffers[2], buffers[3], buffers[4], 0};
    const Hash *hash = shape->hash = d->engine.hash;
    int64_t offsets = core_items(&d->buffers, 0), words = core_items(&d->buffers, 2);
    shape->places = core_items(&d->buffers, 3);
    int fits = shape->columns >= 1 && shape->columns <= DICTIONARY_COLUMNS && hash->fields == 2 &&
               core_items(&d->buffers, 1) * 8 >= (Py_ssize_t)sizeof(DictionaryNumbers) &&
               words % (2 * shape->columns) == 0 && offsets % (shape->columns * 256) == 0 &&
               shape->places >= 1 && core_items(&d->buffers, 4) == shape->places &&
               shape->window >= 1 && shape->window <= (int64_t)1 << 61 && shape->moves >= 0;
    if (fits) {
        shape->rows = words / 2 / shape->columns;
        shape->bytes = offsets / 256 / shape->columns;
        shape->row_bits = (int)hash->field[0].bits;
        fits = shape->bytes <= 7 && shape->rows == (int64_t)1 << shape->row_bits &&
               hash->field[0].size == (uint64_t)shape->rows;
    }
    for (int64_t i = 0; fits && i < offsets; i++) {
        fits = shape->offsets[i] >= 0 && shape->offsets[i] < shape->rows;
    }
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "cells: must have the columns of the hash");
    }
    return fits;
}

/* Dictionary(hash, columns, window, moves, offsets, numbers, cells, stash_times, stash): a cell is
   two words, its time and its remainder. */
static PyObject *dictionary_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    PyObject *a, *arrays[5];
    long long columns, window, moves;
    (void)named;
    if (!PyArg_ParseTuple(args, "OLLLOOOOO", &a, &columns, &window, &moves, &arrays[0], &arrays[1],
                          &arrays[2], &arrays[3], &arrays[4])) {
        return NULL;
    }
    const Hash *hash = hash_within(a);
    Dictionary *d = hash ? (Dictionary *)PyType_GenericAlloc(type, 0) : NULL;
    if (!d) {
        return NULL;
    }
    d->engine.one = perform_one;
    engine_hash(&d->engine, a);
    d->shape = (DictionaryShape){.columns = columns, .window = window, .moves = moves};
    DictionaryShape *shape = &d->shape;
    if (!take_arrays(d, arrays) || engine_count_in(&d->engine, arrays[1], 3) < 0) {
        Py_DECREF((PyObject *)d);
        return NULL;
    }
    shape->together = shape->row_bits ? 64 / shape->row_bits : columns;
    int64_t groups = (columns + shape->together - 1) / shape->together;
    d->packed = PyMem_Calloc((size_t)(groups * shape->bytes * 256) + 1, 8);
    if (!d->packed) {
        Py_DECREF((PyObject *)d);
        return PyErr_NoMemory();
    }
    shape->packed = d->packed;
    dictionary_pack(shape, d->packed);
    return (PyObject *)d;
}

static void dictionary_dealloc(PyObject *self) {
    Dictionary *d = (Dictionary *)self;
    PyTypeObject *type = Py_TYPE(self);
    core_finish(&d->buffers, NULL);
    PyMem_Free(d->packed);
    engine_release(&d->engine);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* perform(operations, keys, windows, ages, covered, seen): performs operations; returns the number
   of hits. `operations` is an array of codes, or one code for all. Windows and answers may be None.
   */
static PyObject *perform(PyObject *self, PyObject *args) {
    Dictionary *d = (Dictionary *)self;
    PyObject *c, *k, *w, *a, *g, *s;
    Buffers all = {.count = 0};
    if (!PyArg_ParseTuple(args, "OOOOOO", &c, &k, &w, &a, &g, &s)) {
        return NULL;
    }
    DictionaryWork work = {.code = PyLong_Check(c) ? (int)(PyLong_AsLong(c) & 255) : 0};
    if (!(work.keys = core_buffer(&all, k, 8, -1, 0, "keys"))) {
        return NULL;
    }
    Py_ssize_t count = core_items(&all, 0) / d->engine.hash->words;
    if ((!PyLong_Check(c) && !(work.codes = core_buffer(&all, c, 1, count, 0, "operations"))) ||
        (w != Py_None && !(work.windows = core_buffer(&all, w, 8, count, 0, "windows"))) ||
        (a != Py_None && !(work.ages = core_buffer(&all, a, 8, count, 1, "ages"))) ||
        (g != Py_None && !(work.covered = core_buffer(&all, g, 8, count, 1, "covered"))) ||
        (s != Py_None && !(work.seen = core_buffer(&all, s, 1, count, 1, "seen")))) {
        return core_finish(&all, NULL);
    }
    int64_t hits;
    if (count < FREE_KEYS) {
        hits = dictionary_perform(&d->shape, &d->state, &work, count);
    } else {
        Py_BEGIN_ALLOW_THREADS
        hits = dictionary_perform(&d->shape, &d->state, &work, count);
        Py_END_ALLOW_THREADS
    }
    return core_finish(&all, PyLong_FromLongLong(hits));
}

static PyMethodDef methods[] = {
    {"perform", perform, METH_VARARGS, "Perform operations; return the number of hits."},
    {NULL, NULL, 0, NULL},
};

int core_add_dictionary(PyObject *module) {
    PyType_Slot slots[] = {{Py_tp_base, engine_type},
                           {Py_tp_new, dictionary_new},
                           {Py_tp_dealloc, dictionary_dealloc},
                           {Py_tp_methods, methods},
                           {0, NULL}};
    return core_add_type(module, &dictionary_type, "lately.golden._core.Dictionary",
                         sizeof(Dictionary), slots);
}
