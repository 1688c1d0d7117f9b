/* The type `Dictionary`: a compiled window dictionary; pure/dictionary.h has its operations. */
#include "core.h"

#include "pure/dictionary.h"

typedef struct {
    Engine engine;
    DictionaryShape shape;
    DictionaryState state;
} Dictionary;

static PyTypeObject *dictionary_type;

static int64_t perform_key(Engine *engine, int code, const uint64_t *key) {
    Dictionary *d = (Dictionary *)engine;
    int64_t age = -1;
    DictionaryWork work = {.code = code, .keys = key, .ages = &age};
    dictionary_perform(&d->shape, &d->state, &work, 1);
    return age;
}

/* Derives the rest of the shape from the number of words in the cells and in the offsets; returns
   whether every row is in its column. */
static int set_shape(DictionaryShape *d, int64_t words, int64_t offsets) {
    const Hash *hash = d->hash;
    if (d->columns < 1 || d->columns > DICTIONARY_COLUMNS || hash->fields != 2 ||
        words % (2 * d->columns) || d->slots < 1 || d->window < 1 ||
        d->window > (int64_t)1 << 61 || d->moves < 0) {
        return 0;
    }
    d->rows = words / 2 / d->columns;
    d->row_bits = (int)hash->field[0].bits;
    d->together = d->row_bits ? 64 / d->row_bits : 64;
    d->bytes = offsets / 256 / ((d->columns + d->together - 1) / d->together);
    return d->bytes <= 7 && d->rows == (int64_t)1 << d->row_bits &&
           hash->field[0].size == (uint64_t)d->rows;
}

/* Dictionary(hash, columns, window, moves, offsets, numbers, cells, stash_times, stash): a cell is
   two words, its time and its remainder. */
static PyObject *dictionary_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    Dictionary *self = (Dictionary *)engine_start(type, args, perform_key);
    if (!self) {
        return NULL;
    }
    Engine *engine = &self->engine;
    Arguments *a = &engine->arguments;
    DictionaryShape *d = &self->shape;
    engine_take_hash(engine, core_object(a));
    d->hash = engine->hash;
    d->columns = core_integer(a);
    d->window = core_integer(a);
    d->moves = core_integer(a);
    d->offsets = core_array(a, "offsets", 8, -1, READ);
    int64_t offsets = a->items;
    engine->counts = core_array(a, "numbers", 8, sizeof(DictionaryNumbers) / 8, WRITE);
    self->state.numbers = (DictionaryNumbers *)engine->counts;
    self->state.cells = core_array(a, "cells", 8, -1, WRITE);
    int64_t words = a->items;
    self->state.stash_times = core_array(a, "stash_times", 8, -1, WRITE);
    d->slots = a->items;
    self->state.stash = core_array(a, "stash", 8, d->slots, WRITE);
    if (core_ready(a)) {
        core_require(a, set_shape(d, words, offsets), "cells: must have the columns of the hash");
    }
    return engine_end(engine);
}

/* perform(operations, keys, windows, ages, covered, seen): performs operations; returns the number
   of hits. The windows and the arrays of results may be None. */
static PyObject *perform(PyObject *self, PyObject *args) {
    Dictionary *d = (Dictionary *)self;
    Arguments a = core_arguments(args);
    Operations o = engine_operations(&d->engine, &a);
    DictionaryWork work = {.codes = o.codes, .code = o.code & 255, .keys = o.keys};
    work.windows = core_array(&a, "windows", 8, o.count, READ | OPTIONAL);
    work.ages = core_array(&a, "ages", 8, o.count, WRITE | OPTIONAL);
    work.covered = core_array(&a, "covered", 8, o.count, WRITE | OPTIONAL);
    work.seen = core_array(&a, "seen", 1, o.count, WRITE | OPTIONAL);
    if (!core_ready(&a)) {
        return core_finish(&a, NULL);
    }
    PyThreadState *thread = o.count < FREE_KEYS ? NULL : PyEval_SaveThread();
    int64_t hits = dictionary_perform(&d->shape, &d->state, &work, o.count);
    if (thread) {
        PyEval_RestoreThread(thread);
    }
    return core_finish(&a, PyLong_FromLongLong(hits));
}

static PyMethodDef methods[] = {
    {"perform", perform, METH_VARARGS, "Perform operations; return the number of hits."},
    {NULL, NULL, 0, NULL},
};

int core_add_dictionary(PyObject *module) {
    return engine_add_type(module, &dictionary_type, "lately.golden._core.Dictionary",
                           sizeof(Dictionary), dictionary_new, methods);
}
