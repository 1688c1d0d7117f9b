/* Timing filters: cells that hold the time at which they were last touched. `Stamps` are the cells
   of the partitioned filters (lately.golden.timestamp.partitioned_timing), with the numbers of
   blocks; `insert_stamps` serves the filters of the paper, whose timestamps wrap
   (lately.golden.timestamp.timestamps). */
#include "calls.h"

#define MOST_HASHES 64

typedef uint64_t Row[CHUNK];

/* Partitioned filters */

typedef struct {
    Engine engine;
    Buffers buffers;
    uint64_t *stamps; /* block of the last insertion plus 1, 0 without one; parts x cells */
    Py_ssize_t parts, cells;
    int64_t expired;  /* age of all that are past the window */
    int64_t block;    /* insertions of a block, or time if the engine is timed */
    int64_t insertions, last; /* the time of the last insertion, if it is timed */
} Stamps;

#define NUMBERS 2 /* of the state; counts of single keys follow in the vector, four if timed */

typedef struct {
    int64_t oldest, cells; /* age of the oldest cell of a key, and cells of that age */
} Touched;

/* Looks at the cells of a key in a block; writes them if `inserts`. */
ALWAYS Touched touch(Stamps *s, Py_ssize_t parts, const Row *indices, Py_ssize_t i, int64_t block,
                     int inserts) {
    Touched found = {.oldest = INT64_MIN};
    for (Py_ssize_t part = 0; part < parts; part++) {
        uint64_t *cell = s->stamps + part * s->cells + indices[part][i];
        int64_t age = block + 1 - (int64_t)*cell;
        age = *cell == 0 || age > s->expired ? s->expired : age;
        found.cells = age > found.oldest ? 1 : found.cells + (age == found.oldest);
        found.oldest = age > found.oldest ? age : found.oldest;
        if (inserts) {
            *cell = (uint64_t)block + 1;
        }
    }
    return found;
}

static void find_cells(const Stamps *s, const uint64_t *keys, Py_ssize_t count, Row *indices) {
    uint64_t states[CHUNK];
    hash_states(s->engine.hash, keys, count, (Secret){0}, states);
    hash_indices(s->engine.hash, states, count, 0, indices);
    for (Py_ssize_t i = 0; count > 1 && i < count; i++) {
        for (Py_ssize_t part = 0; part < s->parts; part++) {
            __builtin_prefetch(s->stamps + part * s->cells + indices[part][i], 1);
        }
    }
}

static void touch_keys(Stamps *s, const int64_t *blocks, const uint8_t *inserts,
                       const uint64_t *keys, Py_ssize_t count, int64_t *oldest, int64_t *cells) {
    Row indices[MOST_HASHES];
    for (Py_ssize_t first = 0; first < count; first += CHUNK) {
        Py_ssize_t part = count - first < CHUNK ? count - first : CHUNK;
        find_cells(s, keys + first * s->engine.hash->words, part, indices);
        for (Py_ssize_t i = 0; i < part; i++) {
            Py_ssize_t at = first + i;
            Touched found = touch(s, s->parts, (const Row *)indices, i, blocks[at], inserts[at]);
            oldest[at] = found.oldest;
            cells[at] = found.cells;
        }
    }
}

/* Performs one operation on a chunk of keys; `seen` or `ages` may be NULL. */
ALWAYS int64_t perform_parts(Stamps *s, Py_ssize_t parts, int code, int64_t asked, Row *indices,
                             Py_ssize_t count, uint8_t *seen, int64_t *ages) {
    int64_t now = s->insertions / s->block, filled = s->insertions % s->block, hits = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        Touched found = touch(s, parts, (const Row *)indices, i, now, code & INSERT);
        int reported = (code & QUERY) && found.oldest <= asked;
        hits += reported;
        if (seen) {
            seen[i] = (uint8_t)reported;
        }
        if (ages) {
            ages[i] = reported ? found.oldest : -1;
        }
        if (code & INSERT) {
            s->insertions++;
            if (++filled == s->block) {
                filled = 0;
                now++;
            }
        }
    }
    return hits;
}

static int64_t perform_chunk(Stamps *s, int code, int64_t asked, const uint64_t *keys,
                             Py_ssize_t count, uint8_t *seen, int64_t *ages) {
    Row indices[MOST_HASHES];
    find_cells(s, keys, count, indices);
#define CASE(parts)                                                                              \
    case parts: return perform_parts(s, parts, code, asked, indices, count, seen, ages);
    switch (s->parts) { /* the usual numbers of parts are constants */
        CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(10)
    default: return perform_parts(s, s->parts, code, asked, indices, count, seen, ages);
    }
#undef CASE
}

static int64_t perform_one(Engine *engine, int code, const uint64_t *key) {
    Stamps *s = (Stamps *)engine;
    int64_t age;
    if (!engine->timed) {
        perform_chunk(s, code, s->expired - 1, key, 1, NULL, &age);
        return age;
    }
    Row indices[MOST_HASHES];
    int64_t now = engine->now > s->last ? engine->now : s->last;
    find_cells(s, key, 1, indices);
    age = touch(s, s->parts, (const Row *)indices, 0, now / s->block, code & INSERT).oldest;
    if (code & INSERT) {
        s->insertions++;
        s->last = now;
        engine->late += now != engine->now;
    }
    return (code & QUERY) && age < s->expired ? age : -1;
}

/* The type */

static PyTypeObject *stamps_type;

static int stamps_fit(const Stamps *s) {
    const Hash *hash = s->engine.hash;
    if (hash->fields < 1 || hash->fields > MOST_HASHES || s->expired < 1 || s->block < 1) {
        return 0;
    }
    for (Py_ssize_t part = 0; part < hash->fields; part++) {
        if (hash->field[part].size > (uint64_t)s->cells) {
            return 0;
        }
    }
    return 1;
}

/* Stamps(hash, stamps, expired, block, timed) */
static PyObject *stamps_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    PyObject *a, *b;
    long long expired, block;
    int timed;
    (void)named;
    if (!PyArg_ParseTuple(args, "OOLLp", &a, &b, &expired, &block, &timed)) {
        return NULL;
    }
    const Hash *hash = hash_within(a);
    Stamps *s = hash ? (Stamps *)PyType_GenericAlloc(type, 0) : NULL;
    if (!s) {
        return NULL;
    }
    s->engine.one = perform_one;
    engine_hash(&s->engine, a);
    s->expired = expired;
    s->block = block;
    s->engine.timed = timed;
    s->parts = hash->fields;
    if (!(s->stamps = core_buffer(&s->buffers, b, 8, -1, 1, "stamps"))) {
        Py_DECREF((PyObject *)s);
        return NULL;
    }
    s->cells = s->parts ? core_items(&s->buffers, 0) / s->parts : 0;
    if (!stamps_fit(s)) {
        Py_DECREF((PyObject *)s);
        PyErr_SetString(PyExc_ValueError, "stamps: must have the cells of all parts");
        return NULL;
    }
    return (PyObject *)s;
}

static void stamps_dealloc(PyObject *self) {
    Stamps *s = (Stamps *)self;
    PyTypeObject *type = Py_TYPE(self);
    core_finish(&s->buffers, NULL);
    engine_release(&s->engine);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* touch(blocks, inserts, keys, oldest, cells): looks at the cells of keys in given blocks, and
   inserts some; writes the age of each key's oldest cell, and how many have it. */
static PyObject *stamps_touch(PyObject *self, PyObject *args) {
    Stamps *s = (Stamps *)self;
    PyObject *a, *b, *c, *d, *e;
    Buffers all = {.count = 0};
    if (!PyArg_ParseTuple(args, "OOOOO", &a, &b, &c, &d, &e)) {
        return NULL;
    }
    int64_t *blocks = core_buffer(&all, a, 8, -1, 0, "blocks");
    Py_ssize_t count = blocks ? core_items(&all, 0) : 0, words = s->engine.hash->words;
    uint8_t *inserts = blocks ? core_buffer(&all, b, 1, count, 0, "inserts") : NULL;
    uint64_t *keys = inserts ? core_buffer(&all, c, 8, count * words, 0, "keys") : NULL;
    int64_t *oldest = keys ? core_buffer(&all, d, 8, count, 1, "oldest") : NULL;
    int64_t *cells = oldest ? core_buffer(&all, e, 8, count, 1, "cells") : NULL;
    if (!cells) {
        return core_finish(&all, NULL);
    }
    Py_BEGIN_ALLOW_THREADS
    touch_keys(s, blocks, inserts, keys, count, oldest, cells);
    Py_END_ALLOW_THREADS
    return core_finish(&all, Py_NewRef(Py_None));
}

static int take_numbers(Stamps *s, const int64_t *vector) {
    const int64_t most = (int64_t)1 << 62;
    if (s->engine.armed || vector[0] < 0 || vector[0] > most || vector[1] < -1 ||
        vector[1] > most) {
        PyErr_SetString(PyExc_ValueError, "numbers: must be of a filter at rest");
        return -1;
    }
    s->insertions = vector[0];
    s->last = vector[1];
    return 0;
}

/* perform(numbers, code, asked, keys, seen): performs one operation on all keys; writes whether
   each key is reported: whether its oldest cell is at most `asked` blocks old. */
static PyObject *stamps_perform(PyObject *self, PyObject *args) {
    Stamps *s = (Stamps *)self;
    PyObject *a, *b, *c;
    int code;
    long long asked;
    Buffers all = {.count = 0};
    if (!PyArg_ParseTuple(args, "OiLOO", &a, &code, &asked, &b, &c)) {
        return NULL;
    }
    int64_t *vector = core_buffer(&all, a, 8, NUMBERS + 3, 1, "numbers");
    uint64_t *keys = vector ? core_buffer(&all, b, 8, -1, 0, "keys") : NULL;
    Py_ssize_t words = s->engine.hash->words;
    Py_ssize_t count = keys ? core_items(&all, 1) / words : 0;
    uint8_t *seen = keys ? core_buffer(&all, c, 1, count, 1, "seen") : NULL;
    if (!seen || take_numbers(s, vector) < 0) {
        return core_finish(&all, NULL);
    }
    if (s->engine.timed) {
        PyErr_SetString(PyExc_ValueError, "numbers: must be of a filter that counts insertions");
        return core_finish(&all, NULL);
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t first = 0; first < count; first += CHUNK) {
        Py_ssize_t part = count - first < CHUNK ? count - first : CHUNK;
        perform_chunk(s, code, asked, keys + first * words, part, seen + first, NULL);
    }
    Py_END_ALLOW_THREADS
    vector[0] = s->insertions;
    return core_finish(&all, Py_NewRef(Py_None));
}

/* arm(numbers): takes the state of the filter, for single keys. */
static PyObject *stamps_arm(PyObject *self, PyObject *object) {
    Stamps *s = (Stamps *)self;
    Buffers all = {.count = 0};
    int64_t *vector = core_buffer(&all, object, 8, NUMBERS + 3, 0, "numbers");
    if (!vector || take_numbers(s, vector) < 0) {
        return core_finish(&all, NULL);
    }
    s->engine.armed = 1;
    return core_finish(&all, Py_NewRef(Py_None));
}

/* disarm(numbers): gives the state of the filter back. */
static PyObject *stamps_disarm(PyObject *self, PyObject *object) {
    Stamps *s = (Stamps *)self;
    Buffers all = {.count = 0};
    int64_t *vector = core_buffer(&all, object, 8, NUMBERS + 4, 1, "numbers");
    if (!vector) {
        return NULL;
    }
    vector[0] = s->insertions;
    vector[1] = s->last;
    engine_disarm(&s->engine, vector + NUMBERS);
    return core_finish(&all, Py_NewRef(Py_None));
}

static PyMethodDef methods[] = {
    {"touch", stamps_touch, METH_VARARGS, "Look at cells of keys, and insert some."},
    {"perform", stamps_perform, METH_VARARGS, "Perform one operation on all keys."},
    {"arm", stamps_arm, METH_O, "Take the state of the filter, for single keys."},
    {"disarm", stamps_disarm, METH_O, "Give the state of the filter back."},
    {NULL, NULL, 0, NULL},
};

/* Filters whose timestamps wrap */

/* Numbers that carry a filter through the loop. */
typedef struct {
    int64_t stamp, filled, next;               /* are moved; `next` is the cell to be swept next */
    int64_t window, block, last, swept;        /* last timestamp, and cells that are swept */
} Clock;

ALWAYS int64_t stamp_age(const Clock *c, int64_t touched) {
    return c->stamp >= touched ? c->stamp - touched : c->stamp - touched + c->last + 1;
}

/* A timestamp is alive while its age in blocks, times the block, and the insertions of the present
   block are below this (definition 9). */
ALWAYS int is_alive(const Clock *c, int64_t touched, int64_t window) {
    return touched <= c->last && stamp_age(c, touched) * c->block + c->filled < window + c->block;
}

static void sweep(Clock *c, uint32_t *cells, int64_t count) {
    for (int64_t look = 0; look < c->swept; look++) {
        if (cells[c->next] <= c->last && !is_alive(c, cells[c->next], c->window)) {
            cells[c->next] = (uint32_t)(c->last + 1);
        }
        c->next = c->next + 1 < count ? c->next + 1 : 0;
    }
}

static void insert_keys(const Hash *hash, uint32_t *cells, int64_t cell_count, Clock *c,
                        const uint64_t *keys, Py_ssize_t count, uint8_t *seen,
                        const int64_t *windows) {
    uint64_t states[CHUNK];
    Row indices[MOST_HASHES];
    hash_states(hash, keys, count, (Secret){0}, states);
    hash_indices(hash, states, count, 0, indices);
    for (Py_ssize_t i = 0; i < count; i++) {
        int alive = 1;
        for (Py_ssize_t part = 0; part < hash->fields; part++) {
            alive &= is_alive(c, cells[indices[part][i]], windows ? windows[i] : c->window);
        }
        seen[i] = (uint8_t)alive;
        for (Py_ssize_t part = 0; part < hash->fields; part++) {
            cells[indices[part][i]] = (uint32_t)c->stamp;
        }
        c->filled++;
        sweep(c, cells, cell_count);
        if (c->filled == c->block) {
            c->filled = 0;
            c->stamp = c->stamp < c->last ? c->stamp + 1 : 0;
        }
    }
}

static int clock_fits(const Clock *c, const Hash *hash, Py_ssize_t cells) {
    const int64_t most = (int64_t)1 << 31;
    int fits = c->stamp >= 0 && c->stamp <= c->last && c->last < most && c->filled >= 0 &&
               c->filled < c->block && c->block <= most && c->window >= 1 && c->window <= most &&
               c->next >= 0 && c->next < cells && c->swept >= 0 && hash->fields <= MOST_HASHES;
    for (Py_ssize_t part = 0; fits && part < hash->fields; part++) {
        fits = hash->field[part].size <= (uint64_t)cells;
    }
    return fits;
}

/* insert_stamps(hash, cells, numbers, keys, seen, windows): checks and inserts keys one after another,
   and sweeps after each. The numbers are those of a Clock. Each query has its window, or None. */
static PyObject *insert_stamps(PyObject *module, PyObject *args) {
    PyObject *a, *b, *c, *d, *e, *f;
    Buffers all = {.count = 0};
    (void)module;
    if (!PyArg_ParseTuple(args, "OOOOOO", &a, &b, &c, &d, &e, &f)) {
        return NULL;
    }
    const Hash *hash = hash_within(a);
    uint32_t *cells = hash ? core_buffer(&all, b, 4, 1, 1, "cells") : NULL;
    int64_t *numbers = cells ? core_buffer(&all, c, 8, 7, 1, "numbers") : NULL;
    uint64_t *keys = numbers ? core_buffer(&all, d, 8, -1, 0, "keys") : NULL;
    Py_ssize_t count = keys ? core_items(&all, 2) / hash->words : 0;
    uint8_t *seen = keys ? core_buffer(&all, e, 1, count, 1, "seen") : NULL;
    int64_t *windows = seen && f != Py_None ? core_buffer(&all, f, 8, count, 0, "windows") : NULL;
    if (!seen || (f != Py_None && !windows)) {
        return core_finish(&all, NULL);
    }
    Py_ssize_t cell_count = core_items(&all, 0);
    Clock clock;
    memcpy(&clock, numbers, sizeof clock);
    if (!clock_fits(&clock, hash, cell_count)) {
        PyErr_SetString(PyExc_ValueError, "numbers: must be of a timing filter with these cells");
        return core_finish(&all, NULL);
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t first = 0; first < count; first += CHUNK) {
        Py_ssize_t part = count - first < CHUNK ? count - first : CHUNK;
        insert_keys(hash, cells, cell_count, &clock, keys + first * hash->words, part,
                    seen + first, windows ? windows + first : NULL);
    }
    Py_END_ALLOW_THREADS
    memcpy(numbers, &clock, sizeof clock);
    return core_finish(&all, Py_NewRef(Py_None));
}

static PyMethodDef functions[] = {
    {"insert_stamps", insert_stamps, METH_VARARGS, "Check and insert keys of a timing filter."},
    {NULL, NULL, 0, NULL},
};

int core_add_timing(PyObject *module) {
    PyType_Slot slots[] = {{Py_tp_base, engine_type},
                           {Py_tp_new, stamps_new},
                           {Py_tp_dealloc, stamps_dealloc},
                           {Py_tp_methods, methods},
                           {0, NULL}};
    if (core_add_type(module, &stamps_type, "lately.golden._core.Stamps", sizeof(Stamps), slots) <
        0) {
        return -1;
    }
    return PyModule_AddFunctions(module, functions);
}
