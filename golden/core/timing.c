/* Timing filters for Python: the types Stamps and Timing over pure/timing.h. */
#include "calls.h"

#include "pure/timing.h"

typedef struct {
    Engine engine;
    Buffers buffers; /* the memory and a table of thresholds */
    Parts shape;
} Stamps;

typedef struct {
    Engine engine;
    Buffers buffers;
    Timing shape;
} TimingCells;

static PyTypeObject *stamps_type, *timing_type;

static void *held(const Buffers *buffers, int index) { return buffers->views[index].buf; }

/* Numbers of a partitioned filter, which follow its counts. */
static PartsNumbers *parts_numbers(const Stamps *s) {
    return (PartsNumbers *)(s->engine.counts + 4);
}

/* Whether all indices of the hash functions are those of cells. */
static int indices_fit(const Hash *hash, int64_t cells) {
    int fits = hash->fields >= 1 && hash->fields <= MOST_HASHES;
    for (Py_ssize_t part = 0; fits && part < hash->fields; part++) {
        fits = hash->field[part].size <= (uint64_t)cells;
    }
    return fits;
}

static PyObject *refused(PyObject *self, const char *message) {
    PyErr_SetString(PyExc_ValueError, message);
    Py_DECREF(self);
    return NULL;
}

static void finish(PyObject *self, Buffers *buffers) {
    PyTypeObject *type = Py_TYPE(self);
    core_finish(buffers, NULL);
    engine_release((Engine *)self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* Partitioned filters */

static int64_t stamps_one(Engine *engine, int code, const uint64_t *key) {
    Stamps *s = (Stamps *)engine;
    PartsNumbers *numbers = parts_numbers(s);
    int64_t now = engine->now > numbers->last ? engine->now : numbers->last;
    engine->late += engine->timed && code & INSERT && now != engine->now;
    return parts_one(&s->shape, numbers, held(&s->buffers, 0), code, key, now);
}

/* Stamps(hash, stamps, numbers, thresholds, expired, block, timed, phase_bits); without thresholds
   a window decides. */
static PyObject *stamps_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    PyObject *a, *b, *c, *d;
    long long expired, block;
    int timed, phase_bits;
    (void)named;
    if (!PyArg_ParseTuple(args, "OOOOLLpi", &a, &b, &c, &d, &expired, &block, &timed,
                          &phase_bits)) {
        return NULL;
    }
    const Hash *hash = hash_within(a);
    Stamps *s = hash ? (Stamps *)PyType_GenericAlloc(type, 0) : NULL;
    if (!s) {
        return NULL;
    }
    s->engine.one = stamps_one;
    engine_hash(&s->engine, a);
    s->engine.timed = timed;
    if (!core_buffer(&s->buffers, b, 8, -1, 1, "stamps") ||
        !core_buffer(&s->buffers, d, 1, -1, 0, "thresholds") ||
        engine_count_in(&s->engine, c, 6) < 0) {
        Py_DECREF((PyObject *)s);
        return NULL;
    }
    int64_t cells = core_items(&s->buffers, 0) / (hash->fields ? hash->fields : 1);
    int64_t entries = core_items(&s->buffers, 1);
    if (!indices_fit(hash, cells) || expired < 1 || block < 1 || phase_bits < 0 ||
        phase_bits > 31) {
        return refused((PyObject *)s, "stamps: must have the cells of all parts");
    }
    s->shape = (Parts){hash, hash->fields, cells, expired, block, timed,
                       entries ? held(&s->buffers, 1) : NULL,
                       (entries >> phase_bits) / (expired + 1), phase_bits};
    return (PyObject *)s;
}

static void stamps_dealloc(PyObject *self) { finish(self, &((Stamps *)self)->buffers); }

static int classes_fit(const Parts *shape, const int64_t *classes, Py_ssize_t count) {
    int fits = !shape->thresholds || shape->classes >= 1;
    for (Py_ssize_t i = 0; shape->thresholds && classes && i < count; i++) {
        fits &= classes[i] >= 0 && classes[i] < shape->classes;
    }
    return fits;
}

/* perform(codes, keys, times, windows, seen, oldest, cells): performs operations, or one for all.
   The times are None in a filter that counts; windows in blocks, classes, or None; the age of each
   key's oldest cells and their number are written unless these are None. */
static PyObject *stamps_perform(PyObject *self, PyObject *args) {
    Stamps *s = (Stamps *)self;
    PyObject *a, *b, *c, *d, *e, *f, *g;
    Buffers all = {.count = 0};
    PartsBatch batch = {.code = 0};
    if (!PyArg_ParseTuple(args, "OOOOOOO", &a, &b, &c, &d, &e, &f, &g)) {
        return NULL;
    }
    int timed = s->shape.timed, many = !PyLong_Check(a), counts = f != Py_None;
    batch.code = many ? 0 : (int)PyLong_AsLong(a);
    Py_ssize_t words = s->engine.hash->words;
    batch.keys = PyErr_Occurred() ? NULL : core_buffer(&all, b, 8, -1, 0, "keys");
    Py_ssize_t count = batch.keys ? core_items(&all, 0) / words : 0;
    if (!batch.keys || !(batch.seen = core_buffer(&all, e, 1, count, 1, "seen")) ||
        (many && !(batch.codes = core_buffer(&all, a, 1, count, 0, "codes"))) ||
        (timed && !(batch.times = core_buffer(&all, c, 8, count, 0, "times"))) ||
        (d != Py_None && !(batch.windows = core_buffer(&all, d, 8, count, 0, "windows"))) ||
        (counts && !(batch.oldest = core_buffer(&all, f, 8, count, 1, "oldest"))) ||
        (counts && !(batch.cells = core_buffer(&all, g, 8, count, 1, "cells")))) {
        return core_finish(&all, NULL);
    }
    if (!classes_fit(&s->shape, batch.windows, count)) {
        PyErr_SetString(PyExc_ValueError, "windows: must be classes of the table");
        return core_finish(&all, NULL);
    }
    Py_BEGIN_ALLOW_THREADS
    parts_perform(&s->shape, parts_numbers(s), held(&s->buffers, 0), &batch, count);
    Py_END_ALLOW_THREADS
    return core_finish(&all, Py_NewRef(Py_None));
}

static PyMethodDef stamps_methods[] = {
    {"perform", stamps_perform, METH_VARARGS, "Perform operations on keys."},
    {NULL, NULL, 0, NULL},
};

/* Filters whose timestamps wrap */

static int64_t timing_single(Engine *engine, int code, const uint64_t *key) {
    TimingCells *t = (TimingCells *)engine;
    return timing_one(&t->shape, engine->counts + 3, held(&t->buffers, 0), code, key);
}

/* Timing(hash, cells, numbers, window, block, last, swept); insertions follow the counts. */
static PyObject *timing_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    PyObject *a, *b, *c;
    long long window, block, last, swept;
    const long long most = (long long)1 << 32;
    (void)named;
    if (!PyArg_ParseTuple(args, "OOOLLLL", &a, &b, &c, &window, &block, &last, &swept)) {
        return NULL;
    }
    const Hash *hash = hash_within(a);
    TimingCells *t = hash ? (TimingCells *)PyType_GenericAlloc(type, 0) : NULL;
    if (!t) {
        return NULL;
    }
    t->engine.one = timing_single;
    engine_hash(&t->engine, a);
    if (!core_buffer(&t->buffers, b, 4, 1, 1, "cells") ||
        engine_count_in(&t->engine, c, 4) < 0) {
        Py_DECREF((PyObject *)t);
        return NULL;
    }
    int64_t cells = core_items(&t->buffers, 0);
    if (!indices_fit(hash, cells) || window < 1 || block < 1 || block >= most / 2 || last < 1 ||
        last >= most || swept < 0 || swept > cells) {
        return refused((PyObject *)t, "cells: must be those of a timing filter");
    }
    t->shape = (Timing){hash, cells, window, block, last, swept};
    return (PyObject *)t;
}

static void timing_dealloc(PyObject *self) { finish(self, &((TimingCells *)self)->buffers); }

/* look(inserts, keys, windows, ages, counts): as timing_look; windows and counts may be None. */
static PyObject *timing_look_up(PyObject *self, PyObject *args) {
    TimingCells *t = (TimingCells *)self;
    PyObject *a, *b, *c, *d;
    Buffers all = {.count = 0};
    int inserts;
    if (!PyArg_ParseTuple(args, "pOOOO", &inserts, &a, &b, &c, &d)) {
        return NULL;
    }
    uint64_t *keys = core_buffer(&all, a, 8, -1, 0, "keys");
    Py_ssize_t count = keys ? core_items(&all, 0) / t->engine.hash->words : 0;
    int64_t *ages = keys ? core_buffer(&all, c, 8, count, 1, "ages") : NULL;
    int64_t *windows = NULL, *counts = NULL;
    if (!ages || (b != Py_None && !(windows = core_buffer(&all, b, 8, count, 0, "windows"))) ||
        (d != Py_None && !(counts = core_buffer(&all, d, 8, 2 * count, 1, "counts")))) {
        return core_finish(&all, NULL);
    }
    Py_BEGIN_ALLOW_THREADS
    timing_look(&t->shape, t->engine.counts + 3, held(&t->buffers, 0), inserts, keys, count,
                windows, ages, counts);
    Py_END_ALLOW_THREADS
    return core_finish(&all, Py_NewRef(Py_None));
}

static PyMethodDef timing_methods[] = {
    {"look", timing_look_up, METH_VARARGS, "Look up keys, and insert each after its look."},
    {NULL, NULL, 0, NULL},
};

int core_add_timing(PyObject *module) {
    PyType_Slot stamps[] = {{Py_tp_base, engine_type},
                            {Py_tp_new, stamps_new},
                            {Py_tp_dealloc, stamps_dealloc},
                            {Py_tp_methods, stamps_methods},
                            {0, NULL}};
    PyType_Slot timing[] = {{Py_tp_base, engine_type},
                            {Py_tp_new, timing_new},
                            {Py_tp_dealloc, timing_dealloc},
                            {Py_tp_methods, timing_methods},
                            {0, NULL}};
    if (core_add_type(module, &stamps_type, "lately.golden._core.Stamps", sizeof(Stamps), stamps) <
        0) {
        return -1;
    }
    return core_add_type(module, &timing_type, "lately.golden._core.Timing", sizeof(TimingCells),
                         timing);
}
