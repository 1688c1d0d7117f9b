/* The type `Ring`: segments, position and secrets of a ring, in buffers that numpy holds. The type
   `TimedRing`: a ring whose window is a span of time. */
#include "calls.h"

#include "pure/batch.h"
#include "pure/turns.h"

#define MAX_SLICES 63
#define BLOCK 4096 /* operations per block; their numbers of alive slices are on the stack */

typedef struct {
    Engine engine; /* whose numbers are the state */
    Ring ring;
    RingState *state;
    Py_buffer memory, live; /* `live` only if several processes map the ring */
    RingPlaces *places;
    RingRow *masks;
} RingObject;

static PyTypeObject *ring_type, *timed_type;

/* Reads the last published position; returns 0 if it is invalid. */
static int ring_follow(const Ring *ring, RingState *state) {
    const RingLive *live = ring->live;
    RingState found = *state;
    uint64_t turns;
    do {
        turns = __atomic_load_n(&live->turns, __ATOMIC_ACQUIRE);
        memcpy(&found.base, live->slots[turns & 1], 4 * sizeof(int64_t));
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
    } while (__atomic_load_n(&live->turns, __ATOMIC_RELAXED) != turns);
    if (!ring_fits(ring, &found)) {
        return 0;
    }
    memcpy(&state->base, &found.base, 4 * sizeof(int64_t));
    return 1;
}

static int64_t perform_one(Engine *engine, int code, const uint64_t *key) {
    RingObject *self = (RingObject *)engine;
    if (engine->reads) {
        ring_follow(&self->ring, self->state);
    }
    return lowest(ring_perform_key(&self->ring, self->state, self->memory.buf, code, key));
}

/* Gets the memory, and the shared position, if there is one. Read-only memory means that another
   process writes the ring. */
static int take_memory(RingObject *self, PyObject *memory, PyObject *live) {
    if (live && core_take(live, &self->live, 8, sizeof(RingLive) / 8, 0, "live") < 0) {
        return -1;
    }
    self->ring.live = self->live.buf;
    if (PyObject_GetBuffer(memory, &self->memory, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) == 0) {
        return 0;
    }
    if (!live) {
        return -1;
    }
    PyErr_Clear();
    self->engine.reads = self->ring.reads = 1;
    return PyObject_GetBuffer(memory, &self->memory, PyBUF_C_CONTIGUOUS);
}

/* The shape is the number of segments, run, the form (1: all bits of a key are in one word, 2:
   lines), whether a new secret takes effect at a turn, whether there are blocks, the strides of
   blocks, parts and shards, the number of shards, and the rotations that select one. */
#define SHAPE 12

static int take_shape(RingObject *self, const uint64_t *shape) {
    Ring *ring = &self->ring;
    Py_ssize_t item = self->memory.itemsize;
    int few = 1;
    for (int i = 0; i < 5; i++) {
        few &= shape[i] <= RING_SEGMENTS;
    }
    ring->hash = self->engine.hash;
    ring->segments = (int)(few ? shape[0] : 0);
    ring->run = (int)shape[1];
    ring->joint = shape[2] == 1;
    ring->rekeys = shape[3] != 0;
    ring->blocked = shape[4] != 0;
    ring->block_stride = shape[5];
    ring->part_stride = shape[6];
    ring->shard_stride = shape[7];
    ring->shards = shape[8];
    memcpy(ring->shard_rotations, shape + 9, sizeof ring->shard_rotations);
    ring->size = ring->hash->functions == 1 ? shape[2] == 2 ? LINE : (int)item : 0;
    ring->parts = ring->hash->fields - ring->blocked;
    ring->bytes = self->memory.len;
    ring->words = ring->size || !ring->segments ? 0 : ring->bytes / 8 / ring->segments;
    ring->whole = ring->size ? ring->bytes : ring->words * 8;
    if (ring->size == LINE && ring->segments) {
        ring->whole = ring->bytes / ring->segments / LINE * LINE;
    }
    if (!ring_is_sound(ring, item)) {
        PyErr_SetString(PyExc_ValueError, "memory: must have the bits of all segments");
        return -1;
    }
    size_t rows = (size_t)RING_ROOM(ring->size, ring->joint, ring->parts, ring->run);
    self->places = PyMem_Calloc(rows, sizeof(RingPlaces));
    self->masks = PyMem_Malloc(ring->joint ? rows * sizeof(RingRow) : 1);
    if (!self->places || !self->masks) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

/* Ring(hash, memory, numbers, shape, live); the last may be left out. All segments outside the ring
   are clear. */
static PyObject *ring_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    PyObject *hash, *memory, *numbers, *shape, *live = NULL;
    Buffers all = {.count = 0};
    (void)named;
    if (!PyArg_ParseTuple(args, "OOOO|O", &hash, &memory, &numbers, &shape, &live)) {
        return NULL;
    }
    uint64_t *sizes = core_buffer(&all, shape, 8, SHAPE, 0, "shape");
    RingObject *self = sizes ? (RingObject *)PyType_GenericAlloc(type, 0) : NULL;
    if (!self) {
        return core_finish(&all, NULL);
    }
    self->engine.one = perform_one;
    if (engine_hash(&self->engine, hash) < 0 || take_memory(self, memory, live) < 0 ||
        take_shape(self, sizes) < 0 ||
        engine_count_in(&self->engine, numbers, sizeof(RingState) / 8) < 0) {
        Py_DECREF(self);
        return core_finish(&all, NULL);
    }
    self->state = (RingState *)self->engine.counts;
    self->state->cleared = self->ring.whole;
    return core_finish(&all, (PyObject *)self);
}

static void ring_dealloc(PyObject *object) {
    RingObject *self = (RingObject *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (self->memory.obj) {
        PyBuffer_Release(&self->memory);
    }
    if (self->live.obj) {
        PyBuffer_Release(&self->live);
    }
    engine_release(&self->engine);
    PyMem_Free(self->places);
    PyMem_Free(self->masks);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

/* Whether the state is valid, and all operations are queries if another process writes; sets an
   error if not. */
static int may_perform(const RingObject *self, const uint8_t *codes, int code, Py_ssize_t count) {
    int others = codes ? 0 : code & ~QUERY;
    for (Py_ssize_t i = 0; self->ring.reads && codes && i < count; i++) {
        others |= codes[i] & ~QUERY;
    }
    if (!ring_fits(&self->ring, self->state)) {
        PyErr_SetString(PyExc_ValueError, "numbers: must be the position of a ring at rest");
        return 0;
    }
    if (self->ring.reads && others) {
        PyErr_SetString(PyExc_ValueError, CORE_READS);
        return 0;
    }
    return 1;
}

/* perform(operations, keys, ages, seen): performs operations; returns the number of hits.
   `operations` is an array of codes, or one code for all. Ages and seen may be None. */
static PyObject *ring_perform_all(PyObject *object, PyObject *args) {
    RingObject *self = (RingObject *)object;
    const Ring *ring = &self->ring;
    PyObject *a, *b, *c, *d;
    Buffers all = {.count = 0};
    if (!PyArg_ParseTuple(args, "OOOO", &a, &b, &c, &d)) {
        return NULL;
    }
    int code = PyLong_Check(a) ? (int)PyLong_AsLong(a) : 0;
    uint64_t *keys = core_buffer(&all, b, 8, -1, 0, "keys");
    if (!keys) {
        return NULL;
    }
    Py_ssize_t count = core_items(&all, 0) / ring->hash->words;
    int64_t *ages = NULL, hits;
    uint8_t *codes = NULL, *seen = NULL;
    if ((!PyLong_Check(a) && !(codes = core_buffer(&all, a, 1, count, 0, "operations"))) ||
        (c != Py_None && !(ages = core_buffer(&all, c, 8, count, 1, "ages"))) ||
        (d != Py_None && !(seen = core_buffer(&all, d, 1, count, 1, "seen"))) ||
        !may_perform(self, codes, code, count)) {
        return core_finish(&all, NULL);
    }
    if (ring->reads) {
        ring_follow(ring, self->state);
    }
    PyThreadState *thread = count < FREE_KEYS ? NULL : PyEval_SaveThread();
    hits = ring_perform(ring, self->state, self->memory.buf, self->places, self->masks, codes, code,
                        keys, count, ages, seen);
    if (thread) {
        PyEval_RestoreThread(thread);
    }
    ring_publish(ring, self->state);
    return core_finish(&all, PyLong_FromLongLong(hits));
}

/* settle(): clears the rest of the last retired segment. */
static PyObject *settle(PyObject *object, PyObject *nothing) {
    RingObject *self = (RingObject *)object;
    (void)nothing;
    if (may_perform(self, NULL, QUERY, 0)) {
        ring_settle(&self->ring, self->state, self->memory.buf);
        Py_RETURN_NONE;
    }
    return NULL;
}

/* follow(): reads the position from the process that writes. */
static PyObject *follow(PyObject *object, PyObject *nothing) {
    RingObject *self = (RingObject *)object;
    (void)nothing;
    if (self->ring.live && ring_follow(&self->ring, self->state)) {
        Py_RETURN_NONE;
    }
    PyErr_SetString(PyExc_ValueError, "position: does not fit the specification");
    return NULL;
}

#ifdef LINES
/* columns(array, back): copies the bits of lines from an array of columns, or back to a zeroed
   array. */
static PyObject *columns(PyObject *object, PyObject *args) {
    const RingObject *self = (RingObject *)object;
    const Ring *ring = &self->ring;
    PyObject *array;
    Buffers all = {.count = 0};
    int back;
    if (!PyArg_ParseTuple(args, "Op", &array, &back)) {
        return NULL;
    }
    ptrdiff_t count = ring->size == LINE ? ring->whole * 8 : 0;
    int size = ring->segments <= 8 ? 1 : ring->segments <= 16 ? 2 : ring->segments <= 32 ? 4 : 8;
    void *from = core_buffer(&all, array, size, count, back, "columns");
    if (!from || !count) {
        return core_finish(&all, NULL);
    }
    lines_copy(self->memory.buf, ring->segments, ring->whole / LINE, from, size, back);
    return core_finish(&all, Py_NewRef(Py_None));
}
#define COLUMNS {"columns", columns, METH_VARARGS, "Copy bits from or to an array of columns."},
#else
#define COLUMNS
#define HAVE_LINES 0
#endif

static PyMethodDef methods[] = {
    COLUMNS
    {"perform", ring_perform_all, METH_VARARGS, "Perform operations; return the number of hits."},
    {"settle", settle, METH_NOARGS, "Clear the rest of the last retired segment."},
    {"follow", follow, METH_NOARGS, "Read the position from the process that writes."},
    {NULL, NULL, 0, NULL},
};

/* Turns of rings with a time window */

/* Sets up turns from a state and a policy; the buffer of the state must outlive them. */
static int take_turns(Turns *t, int64_t *numbers, Py_ssize_t count, const int64_t *policy,
                      int64_t most) {
    *t = (Turns){.writes = policy[0], .slices = count - TURN_NUMBERS, .span = policy[1],
                 .old = policy[2], .spanned = policy[3], .rule = policy[4],
                 .state = (TurnState *)numbers, .settled = numbers + TURN_NUMBERS,
                 .alive = policy[0]};
    if (t->writes >= 1 && t->writes <= t->slices && t->slices <= most && t->old >= 1) {
        return 1;
    }
    PyErr_SetString(PyExc_ValueError, "state: must be of a ring with these slices");
    return 0;
}

/* follow(operations, times, state, policy, turned, alive, status, guaranteed) */
static PyObject *follow_turns(PyObject *module, PyObject *args) {
    PyObject *o[8];
    Buffers all = {.count = 0};
    Turns t;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOOOOOOO", &o[0], &o[1], &o[2], &o[3], &o[4], &o[5], &o[6],
                          &o[7])) {
        return NULL;
    }
    uint8_t *codes = core_buffer(&all, o[0], 1, -1, 0, "operations"), *turned, *status;
    Py_ssize_t count = codes ? core_items(&all, 0) : 0;
    int64_t *times, *state, *policy, *alive, *guaranteed;
    if (!codes || !(times = core_buffer(&all, o[1], 8, count, 0, "times")) ||
        !(state = core_buffer(&all, o[2], 8, TURN_NUMBERS + 1, 1, "state")) ||
        !(policy = core_buffer(&all, o[3], 8, 5, 0, "policy")) ||
        !(turned = core_buffer(&all, o[4], 1, count, 1, "turned")) ||
        !(alive = core_buffer(&all, o[5], 8, count, 1, "alive")) ||
        !(status = core_buffer(&all, o[6], 1, count, 1, "status")) ||
        !(guaranteed = core_buffer(&all, o[7], 8, count, 1, "guaranteed")) ||
        !take_turns(&t, state, core_items(&all, 2), policy, INT64_MAX)) {
        return core_finish(&all, NULL);
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        alive[i] = turns_alive(&t, times[i]);
        status[i] = turns_status(&t, times[i]);
        guaranteed[i] = turns_guaranteed_span(&t, times[i]);
        turned[i] = (uint8_t)turns_perform(&t, codes[i], times[i]);
    }
    return core_finish(&all, Py_NewRef(Py_None));
}

/* Rings with a clock */

typedef struct {
    Engine engine;
    RingObject *ring; /* owned; turned only by `turns` */
    Py_buffer state;  /* state of the turns */
    Turns t;
} TimedRing;

static void turn_by_clock(TimedRing *self, int64_t now, int64_t turns) {
    for (; turns > 0; turns--) {
        turns_shift(&self->t, now);
        ring_turn(&self->ring->ring, self->ring->state, self->ring->memory.buf);
    }
}

/* Performs an operation on one key after the turns by the clock. */
static int64_t timed_perform_key(TimedRing *self, int code, const uint64_t *key, int64_t now) {
    RingObject *ring = self->ring;
    return turns_perform_key(&self->t, &ring->ring, ring->state, ring->memory.buf, code, key, now);
}

static int64_t timed_one(Engine *engine, int code, const uint64_t *key) {
    TimedRing *self = (TimedRing *)engine;
    int64_t latest = self->t.state->latest, now = engine->now > latest ? engine->now : latest;
    if (code & INSERT) {
        engine->counts[3] += now != engine->now;
        turn_by_clock(self, now, turns_due_by_clock(&self->t, now));
    }
    return timed_perform_key(self, code, key, now);
}

/* Operations of a call; statuses and spans may be NULL. */
typedef struct {
    const uint8_t *codes;
    const uint64_t *keys;
    const int64_t *times;
    int64_t *ages, *spans;
    uint8_t *statuses;
} Batch;

/* Performs operations, none of which turns the ring. */
static void perform_stretch(TimedRing *self, const Batch *b, Py_ssize_t at, Py_ssize_t end) {
    if (at < end) {
        RingObject *ring = self->ring;
        ring_perform(&ring->ring, ring->state, ring->memory.buf, ring->places, ring->masks,
                     b->codes + at, 0, b->keys + at * self->engine.hash->words, end - at,
                     b->ages + at, NULL);
    }
}

static void perform_block(TimedRing *self, const Batch *b, Py_ssize_t at, Py_ssize_t end) {
    Turns *t = &self->t;
    uint8_t alive[BLOCK];
    Py_ssize_t begin = at, first = at, words = self->engine.hash->words;
    for (Py_ssize_t i = at; i < end; i++) {
        int64_t now = b->times[i];
        int code = b->codes[i], inserts = (code & (INSERT | ALONE)) == INSERT;
        int64_t turns = inserts ? turns_due_by_clock(t, now) : 0;
        if (turns) {
            perform_stretch(self, b, first, i);
            first = i;
            turn_by_clock(self, now, turns);
        }
        if (b->statuses) {
            b->statuses[i] = turns_status(t, now);
            b->spans[i] = turns_guaranteed_span(t, now);
        }
        alive[i - begin] = (uint8_t)turns_alive(t, now);
        if (inserts && turns_due(t, now)) {
            perform_stretch(self, b, first, i);
            first = i + 1;
            b->ages[i] = timed_perform_key(self, code, b->keys + i * words, now);
        } else {
            turns_perform(t, code, now);
        }
    }
    perform_stretch(self, b, first, end);
    for (Py_ssize_t i = at; i < end; i++) {
        b->ages[i] = b->ages[i] + t->writes <= alive[i - begin] ? b->ages[i] : -1;
    }
}

/* perform(operations, keys, times, ages, statuses, spans); the last two may be left out. */
static PyObject *timed_perform(PyObject *object, PyObject *args) {
    TimedRing *self = (TimedRing *)object;
    PyObject *o[6] = {NULL};
    Buffers all = {.count = 0};
    Batch b = {.spans = NULL};
    if (!PyArg_ParseTuple(args, "OOOO|OO", &o[0], &o[1], &o[2], &o[3], &o[4], &o[5])) {
        return NULL;
    }
    b.codes = core_buffer(&all, o[0], 1, -1, 0, "operations");
    Py_ssize_t count = b.codes ? core_items(&all, 0) : 0;
    if (!b.codes ||
        !(b.keys = core_buffer(&all, o[1], 8, count * self->engine.hash->words, 0, "keys")) ||
        !(b.times = core_buffer(&all, o[2], 8, count, 0, "times")) ||
        !(b.ages = core_buffer(&all, o[3], 8, count, 1, "ages")) ||
        (o[4] && !(b.statuses = core_buffer(&all, o[4], 1, count, 1, "statuses"))) ||
        (o[4] && !(b.spans = core_buffer(&all, o[5], 8, count, 1, "spans")))) {
        return core_finish(&all, NULL);
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t at = 0; at < count; at += BLOCK) {
        perform_block(self, &b, at, count - at < BLOCK ? count : at + BLOCK);
    }
    Py_END_ALLOW_THREADS
    return core_finish(&all, Py_NewRef(Py_None));
}

/* TimedRing(engine, numbers, state, policy): the engine of a ring, the counts of the filter, and
   the turns. */
static PyObject *timed_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    PyObject *ring, *numbers, *state, *policy;
    Buffers all = {.count = 0};
    (void)named;
    if (!PyArg_ParseTuple(args, "O!OOO", ring_type, &ring, &numbers, &state, &policy)) {
        return NULL;
    }
    int64_t *limits = core_buffer(&all, policy, 8, 5, 0, "policy");
    TimedRing *self = limits ? (TimedRing *)PyType_GenericAlloc(type, 0) : NULL;
    if (!self) {
        return core_finish(&all, NULL);
    }
    self->ring = (RingObject *)Py_NewRef(ring);
    self->engine.one = timed_one;
    self->engine.timed = 1;
    if (core_take(state, &self->state, 8, TURN_NUMBERS + 1, 1, "state") < 0 ||
        !take_turns(&self->t, self->state.buf, self->state.len / 8, limits, MAX_SLICES) ||
        engine_hash(&self->engine, self->ring->engine.hash_object) < 0 ||
        engine_count_in(&self->engine, numbers, 4) < 0) {
        Py_DECREF((PyObject *)self);
        return core_finish(&all, NULL);
    }
    return core_finish(&all, (PyObject *)self);
}

static void timed_dealloc(PyObject *object) {
    TimedRing *self = (TimedRing *)object;
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF((PyObject *)self->ring);
    if (self->state.obj) {
        PyBuffer_Release(&self->state);
    }
    engine_release(&self->engine);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyMethodDef timed_methods[] = {
    {"perform", timed_perform, METH_VARARGS, "Perform operations, and turn the ring."},
    {NULL, NULL, 0, NULL},
};

int core_add_ring(PyObject *module) {
    PyType_Slot slots[] = {{Py_tp_base, engine_type},
                           {Py_tp_new, ring_new},
                           {Py_tp_dealloc, ring_dealloc},
                           {Py_tp_methods, methods},
                           {0, NULL}};
    PyType_Slot timed[] = {{Py_tp_base, engine_type},
                           {Py_tp_new, timed_new},
                           {Py_tp_dealloc, timed_dealloc},
                           {Py_tp_methods, timed_methods},
                           {0, NULL}};
    if (PyModule_AddIntConstant(module, "LINES", HAVE_LINES) < 0 ||
        core_add_type(module, &ring_type, "lately.golden._core.Ring", sizeof(RingObject), slots)) {
        return -1;
    }
    return core_add_type(module, &timed_type, "lately.golden._core.TimedRing", sizeof(TimedRing),
                         timed);
}

PyMethodDef core_ring_methods[] = {
    {"follow", follow_turns, METH_VARARGS, "Compute the turns of a ring with a time window."},
    {NULL, NULL, 0, NULL},
};
