/* Timing filters for Python: the types Stamps and Timing over pure/timing.h. */
#include "calls.h"

#include "pure/timing.h"

/* Compiled state of a filter of either type. */
typedef struct {
    Engine engine;
    Buffers buffers; /* the memory, and a table of thresholds */
    union {
        Parts parts;
        Timing timing;
    } shape;
} Cells;

static PyTypeObject *stamps_type, *timing_type;

static void *held(const Cells *cells, int index) { return cells->buffers.views[index].buf; }

/* Numbers of a partitioned filter; they follow the counters. */
static PartsNumbers *parts_numbers(const Cells *c) {
    return (PartsNumbers *)(c->engine.counts + 4);
}

static int64_t stamps_one(Engine *engine, int code, const uint64_t *key) {
    Cells *c = (Cells *)engine;
    PartsNumbers *numbers = parts_numbers(c);
    int64_t now = engine->now > numbers->last ? engine->now : numbers->last;
    if (engine->timed && code & INSERT) {
        engine->counts[3] += now != engine->now;
    }
    return parts_one(&c->shape.parts, numbers, held(c, 0), code, key, now);
}

static int64_t timing_single(Engine *engine, int code, const uint64_t *key) {
    Cells *c = (Cells *)engine;
    return timing_one(&c->shape.timing, engine->counts + 3, held(c, 0), code, key);
}

/* Returns a new object with the hash, the memory in items of `size` bytes, and the numbers of a
   filter; NULL with an error set. */
static Cells *new_cells(PyTypeObject *type, PyObject *hash, PyObject *memory, int size,
                        PyObject *numbers, int count) {
    Cells *c = hash_within(hash) ? (Cells *)PyType_GenericAlloc(type, 0) : NULL;
    if (!c) {
        return NULL;
    }
    engine_hash(&c->engine, hash);
    if (!core_buffer(&c->buffers, memory, size, 1, 1, "cells") ||
        engine_count_in(&c->engine, numbers, count) < 0) {
        Py_DECREF((PyObject *)c);
        return NULL;
    }
    return c;
}

/* Returns the object if its shape fits the memory, with `cells` cells per index; else NULL with an
   error set. */
static PyObject *fitting(Cells *c, int64_t cells, int fits) {
    const Hash *hash = c->engine.hash;
    fits &= hash->fields >= 1 && hash->fields <= MAX_HASHES;
    for (Py_ssize_t part = 0; fits && part < hash->fields; part++) {
        fits = hash->field[part].size <= (uint64_t)cells;
    }
    if (!fits) {
        Py_DECREF((PyObject *)c);
        PyErr_SetString(PyExc_ValueError, "cells: must be those of a timing filter");
        return NULL;
    }
    return (PyObject *)c;
}

static void cells_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    core_finish(&((Cells *)self)->buffers, NULL);
    engine_release((Engine *)self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* Partitioned filters */

/* Stamps(hash, stamps, numbers, thresholds, expired, block, timed, phase_bits); without thresholds,
   windows determine answers. */
static PyObject *stamps_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    PyObject *a, *b, *c, *d;
    long long expired, block;
    int timed, phase_bits;
    (void)named;
    if (!PyArg_ParseTuple(args, "OOOOLLpi", &a, &b, &c, &d, &expired, &block, &timed,
                          &phase_bits)) {
        return NULL;
    }
    Cells *s = new_cells(type, a, b, 8, c, 6);
    if (!s || !core_buffer(&s->buffers, d, 1, -1, 0, "thresholds")) {
        Py_XDECREF((PyObject *)s);
        return NULL;
    }
    const Hash *hash = s->engine.hash;
    int64_t cells = core_items(&s->buffers, 0) / (hash->fields ? hash->fields : 1);
    int64_t entries = core_items(&s->buffers, 1);
    int fits = expired >= 1 && block >= 1 && phase_bits >= 0 && phase_bits <= 31;
    s->engine.one = stamps_one;
    s->engine.timed = timed;
    s->shape.parts = (Parts){hash, hash->fields, cells, expired, block, timed,
                             entries ? held(s, 1) : NULL,
                             fits ? (entries >> phase_bits) / (expired + 1) : 0, phase_bits};
    return fitting(s, cells, fits);
}

static int classes_fit(const Parts *shape, const int64_t *classes, Py_ssize_t count) {
    int fits = !shape->thresholds || shape->classes >= 1;
    for (Py_ssize_t i = 0; shape->thresholds && classes && i < count; i++) {
        fits &= classes[i] >= 0 && classes[i] < shape->classes;
    }
    return fits;
}

/* perform(codes, keys, times, windows, seen, oldest, cells): performs operations; `codes` may be
   one code for all. Times are None if the filter counts insertions. Windows are in blocks, or
   classes, or None. The age of each key's oldest cells and their number are written, unless
   `oldest` or `cells` is None. */
static PyObject *stamps_perform(PyObject *self, PyObject *args) {
    Cells *s = (Cells *)self;
    PyObject *a, *b, *c, *d, *e, *f, *g;
    Buffers all = {.count = 0};
    PartsBatch batch = {.code = 0};
    if (!PyArg_ParseTuple(args, "OOOOOOO", &a, &b, &c, &d, &e, &f, &g)) {
        return NULL;
    }
    int timed = s->shape.parts.timed, many = !PyLong_Check(a), counts = f != Py_None;
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
    if (!classes_fit(&s->shape.parts, batch.windows, count)) {
        PyErr_SetString(PyExc_ValueError, "windows: must be classes of the table");
        return core_finish(&all, NULL);
    }
    Py_BEGIN_ALLOW_THREADS
    parts_perform(&s->shape.parts, parts_numbers(s), held(s, 0), &batch, count);
    Py_END_ALLOW_THREADS
    return core_finish(&all, Py_NewRef(Py_None));
}

static PyMethodDef stamps_methods[] = {
    {"perform", stamps_perform, METH_VARARGS, "Perform operations on keys."},
    {NULL, NULL, 0, NULL},
};

/* Filters whose timestamps wrap */

/* Timing(hash, cells, numbers, window, block, last, swept); insertions follow the counters. */
static PyObject *timing_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    PyObject *a, *b, *c;
    long long window, block, last, swept;
    const long long most = (long long)1 << 31;
    (void)named;
    if (!PyArg_ParseTuple(args, "OOOLLLL", &a, &b, &c, &window, &block, &last, &swept)) {
        return NULL;
    }
    Cells *t = new_cells(type, a, b, 4, c, 4);
    if (!t) {
        return NULL;
    }
    int64_t cells = core_items(&t->buffers, 0);
    t->engine.one = timing_single;
    t->shape.timing = (Timing){t->engine.hash, cells, window, block, last, swept};
    return fitting(t, cells, window >= 1 && window < most && block >= 1 && block < most &&
                                 last >= 1 && last < 2 * most && swept >= 0 && swept <= cells);
}

/* look(inserts, keys, windows, ages, counts): like timing_look; windows and counts may be None. */
static PyObject *timing_look_up(PyObject *self, PyObject *args) {
    Cells *t = (Cells *)self;
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
    timing_look(&t->shape.timing, t->engine.counts + 3, held(t, 0), inserts, keys, count, windows,
                ages, counts);
    Py_END_ALLOW_THREADS
    return core_finish(&all, Py_NewRef(Py_None));
}

static PyMethodDef timing_methods[] = {
    {"look", timing_look_up, METH_VARARGS, "Look up keys, and optionally insert each one."},
    {NULL, NULL, 0, NULL},
};

static int add_type(PyObject *module, PyTypeObject **type, const char *name, void *make,
                    PyMethodDef *methods) {
    PyType_Slot slots[] = {{Py_tp_base, engine_type}, {Py_tp_new, make},
                           {Py_tp_dealloc, cells_dealloc}, {Py_tp_methods, methods}, {0, NULL}};
    return core_add_type(module, type, name, sizeof(Cells), slots);
}

int core_add_timing(PyObject *module) {
    int added = add_type(module, &stamps_type, "lately.golden._core.Stamps", (void *)stamps_new,
                         stamps_methods);
    return added < 0 ? added : add_type(module, &timing_type, "lately.golden._core.Timing",
                                        (void *)timing_new, timing_methods);
}
