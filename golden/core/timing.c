/* The types `Stamps` and `Timing`: compiled timing filters; pure/timing.h has their operations. */
#include "core.h"

#include "pure/timing.h"

typedef struct {
    Engine engine;
    void *cells;
    union {
        Parts parts;
        Timing timing;
    } shape;
} Cells;

static PyTypeObject *stamps_type, *timing_type;

/* Numbers of a partitioned filter; they follow the counters. */
static PartsNumbers *parts_numbers(const Cells *c) {
    return (PartsNumbers *)(c->engine.counts + 4);
}

static int64_t stamps_perform_key(Engine *engine, int code, const uint64_t *key) {
    Cells *c = (Cells *)engine;
    PartsNumbers *numbers = parts_numbers(c);
    int64_t now = engine->now > numbers->last ? engine->now : numbers->last;
    if (engine->timed && code & INSERT) {
        engine->counts[3] += now != engine->now;
    }
    return parts_perform_key(&c->shape.parts, numbers, c->cells, code, key, now);
}

static int64_t timing_perform_single(Engine *engine, int code, const uint64_t *key) {
    Cells *c = (Cells *)engine;
    return timing_perform_key(&c->shape.timing, engine->counts + 3, c->cells, code, key);
}

/* Reads the hash, the cells of `size` bytes, and `count` numbers of the filter; returns the number
   of cells. */
static int64_t take_cells(Cells *c, int size, int count) {
    Arguments *a = &c->engine.arguments;
    engine_take_hash(&c->engine, core_object(a));
    c->cells = core_array(a, "cells", size, 1, WRITE);
    int64_t cells = a->items;
    c->engine.counts = core_array(a, "numbers", 8, count, WRITE);
    return cells;
}

/* Ends a constructor; requires that the shape fits the memory, with `cells` cells per index. */
static PyObject *end_if(Cells *c, int64_t cells, int fits) {
    const Hash *hash = c->engine.hash;
    fits = fits && hash->fields <= MAX_HASHES;
    for (Py_ssize_t part = 0; fits && part < hash->fields; part++) {
        fits = hash->field[part].size <= (uint64_t)cells;
    }
    core_require(&c->engine.arguments, fits, "cells: must be those of a timing filter");
    return engine_end(&c->engine);
}

/* Partitioned filters */

/* Stamps(hash, stamps, numbers, thresholds, expired, block, timed, phase_bits): without thresholds,
   windows determine the results. */
static PyObject *stamps_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    Cells *s = (Cells *)engine_start(type, args, stamps_perform_key);
    if (!s) {
        return NULL;
    }
    Arguments *a = &s->engine.arguments;
    int64_t cells = take_cells(s, 8, 6);
    const uint8_t *thresholds = core_array(a, "thresholds", 1, -1, READ);
    int64_t entries = a->items;
    int64_t expired = core_integer(a), block = core_integer(a);
    int timed = core_flag(a);
    int64_t phase_bits = core_integer(a);
    if (!core_ready(a)) {
        return engine_end(&s->engine);
    }
    const Hash *hash = s->engine.hash;
    int fits = expired >= 1 && block >= 1 && phase_bits >= 0 && phase_bits <= 31;
    cells /= hash->fields;
    s->engine.timed = timed;
    s->shape.parts = (Parts){hash, hash->fields, cells, expired, block, timed,
                             entries ? thresholds : NULL,
                             fits ? (entries >> phase_bits) / (expired + 1) : 0, (int)phase_bits};
    return end_if(s, cells, fits);
}

/* perform(operations, keys, times, windows, seen, oldest, cells): performs operations. Times are
   None if the filter counts insertions; windows, in blocks or classes, may be None. The age of each
   key's oldest cells and the number of these cells are written unless `oldest` is None. */
static PyObject *stamps_perform(PyObject *self, PyObject *args) {
    Cells *s = (Cells *)self;
    const Parts *parts = &s->shape.parts;
    Arguments a = core_arguments(args);
    Operations o = engine_operations(&s->engine, &a);
    PartsBatch b = {.codes = o.codes, .code = o.code, .keys = o.keys};
    b.times = core_array(&a, "times", 8, o.count, READ | OPTIONAL);
    b.windows = core_array(&a, "windows", 8, o.count, READ | OPTIONAL);
    b.seen = core_array(&a, "seen", 1, o.count, WRITE);
    b.oldest = core_array(&a, "oldest", 8, o.count, WRITE | OPTIONAL);
    b.cells = core_array(&a, "cells", 8, o.count, WRITE | OPTIONAL);
    core_require(&a, b.times || !parts->timed, "times: must be an array");
    int fits = !parts->thresholds || parts->classes >= 1;
    for (Py_ssize_t i = 0; !a.failed && parts->thresholds && b.windows && i < o.count; i++) {
        fits &= b.windows[i] >= 0 && b.windows[i] < parts->classes;
    }
    core_require(&a, fits, "windows: must be classes of the table");
    if (!core_ready(&a)) {
        return core_finish(&a, NULL);
    }
    Py_BEGIN_ALLOW_THREADS
    parts_perform(parts, parts_numbers(s), s->cells, &b, o.count);
    Py_END_ALLOW_THREADS
    return core_finish(&a, Py_NewRef(Py_None));
}

static PyMethodDef stamps_methods[] = {
    {"perform", stamps_perform, METH_VARARGS, "Perform operations on keys."},
    {NULL, NULL, 0, NULL},
};

/* Filters whose timestamps wrap */

/* Timing(hash, cells, numbers, window, block, last, swept): the number of insertions follows the
   counters. */
static PyObject *timing_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    const int64_t max = (int64_t)1 << 31;
    Cells *t = (Cells *)engine_start(type, args, timing_perform_single);
    if (!t) {
        return NULL;
    }
    Arguments *a = &t->engine.arguments;
    int64_t cells = take_cells(t, 4, 4), window = core_integer(a), block = core_integer(a);
    int64_t last = core_integer(a), swept = core_integer(a);
    if (!core_ready(a)) {
        return engine_end(&t->engine);
    }
    t->shape.timing = (Timing){t->engine.hash, cells, window, block, last, swept};
    return end_if(t, cells, window >= 1 && window < max && block >= 1 && block < max && last >= 1 &&
                                last < 2 * max && swept >= 0 && swept <= cells);
}

/* look(inserts, keys, windows, ages, counts): like timing_look; windows and counts may be None. */
static PyObject *timing_look_up(PyObject *self, PyObject *args) {
    Cells *t = (Cells *)self;
    Arguments a = core_arguments(args);
    int inserts = core_flag(&a);
    const uint64_t *keys = core_array(&a, "keys", 8, -1, READ);
    Py_ssize_t count = a.items / t->engine.hash->words;
    const int64_t *windows = core_array(&a, "windows", 8, count, READ | OPTIONAL);
    int64_t *ages = core_array(&a, "ages", 8, count, WRITE);
    int64_t *counts = core_array(&a, "counts", 8, 2 * count, WRITE | OPTIONAL);
    if (!core_ready(&a)) {
        return core_finish(&a, NULL);
    }
    Py_BEGIN_ALLOW_THREADS
    timing_look(&t->shape.timing, t->engine.counts + 3, t->cells, inserts, keys, count, windows,
                ages, counts);
    Py_END_ALLOW_THREADS
    return core_finish(&a, Py_NewRef(Py_None));
}

static PyMethodDef timing_methods[] = {
    {"look", timing_look_up, METH_VARARGS, "Look up keys, and optionally insert each one."},
    {NULL, NULL, 0, NULL},
};

int core_add_timing(PyObject *module) {
    int error = engine_add_type(module, &stamps_type, "lately.golden._core.Stamps", sizeof(Cells),
                                stamps_new, stamps_methods);
    return error ? error
                 : engine_add_type(module, &timing_type, "lately.golden._core.Timing",
                                   sizeof(Cells), timing_new, timing_methods);
}
