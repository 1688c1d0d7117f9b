/* The type `Ring`: segments, position and secrets of a ring, in arrays that numpy also holds. The
   type `TimedRing`: a ring whose window is a span of time. */
#include "core.h"

#include "pure/batch.h"
#include "pure/rotation.h"

#define MAX_SLICES 63
#define BLOCK 4096 /* operations per block; their numbers of alive slices are on the stack */

typedef struct {
    Engine engine;
    Ring ring;
    RingState *state;
    void *memory;
    RingIndexes *indexes;
    RingRow *masks;
} RingObject;

static PyTypeObject *ring_type, *timed_type;

/* Reads the last published position; returns 0 if it is invalid. */
static int ring_follow(const Ring *ring, RingState *state) {
    const RingLive *live = ring->live;
    RingState published = *state;
    uint64_t version;
    do {
        version = __atomic_load_n(&live->version, __ATOMIC_ACQUIRE);
        memcpy(&published.base, live->slots[version & 1], 4 * sizeof(int64_t));
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
    } while (__atomic_load_n(&live->version, __ATOMIC_RELAXED) != version);
    int valid = ring_fits(ring, &published);
    *state = valid ? published : *state;
    return valid;
}

static int64_t perform_key(Engine *engine, int code, const uint64_t *key) {
    RingObject *self = (RingObject *)engine;
    if (engine->reads) {
        ring_follow(&self->ring, self->state);
    }
    return lowest(ring_perform_key(&self->ring, self->state, self->memory, code, key));
}

/* The shape is the number of segments, run, the form (1: all bits of a key are in one word, 2:
   lines), whether a new secret takes effect at a shift, whether there are blocks, the strides of
   blocks, parts and shards, the number of shards, and the rotations that select one. */
#define SHAPE 12

static void set_shape(RingObject *self, const uint64_t *shape) {
    Ring *ring = &self->ring;
    Arguments *a = &self->engine.arguments;
    Py_ssize_t item = a->views[0].itemsize; /* of the memory */
    int valid = 1;
    for (int i = 0; i < 5; i++) {
        valid &= shape[i] <= RING_SEGMENTS;
    }
    ring->hash = self->engine.hash;
    ring->segments = (int)(valid ? shape[0] : 0);
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
    ring->bytes = a->views[0].len;
    ring->words = ring->size || !ring->segments ? 0 : ring->bytes / 8 / ring->segments;
    ring->whole = ring->size ? ring->bytes : ring->words * 8;
    if (ring->size == LINE && ring->segments) {
        ring->whole = ring->bytes / ring->segments / LINE * LINE;
    }
    if (core_require(a, ring_is_sound(ring, item), "memory: must have the bits of all segments")) {
        size_t rows = (size_t)RING_ROOM(ring->size, ring->joint, ring->parts, ring->run);
        size_t row = sizeof(RingIndexes) + (ring->joint ? sizeof(RingRow) : 0);
        self->engine.memory = PyMem_Calloc(rows, row);
        self->indexes = self->engine.memory;
        self->masks = (RingRow *)(self->indexes + rows);
        a->failed = !self->engine.memory;
        if (a->failed) {
            PyErr_NoMemory();
        }
    }
}

/* Ring(hash, memory, numbers, shape, live): `live` is only for a ring that several processes map;
   then another process writes the ring if the memory is read-only. All segments outside the ring
   are clear. */
static PyObject *ring_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    RingObject *self = (RingObject *)engine_start(type, args, perform_key);
    if (!self) {
        return NULL;
    }
    Engine *engine = &self->engine;
    Arguments *a = &engine->arguments;
    engine_take_hash(engine, core_object(a));
    self->memory = core_array(a, "memory", 0, -1, EITHER);
    self->state = core_array(a, "numbers", 8, sizeof(RingState) / 8, WRITE);
    engine->counts = (int64_t *)self->state;
    const uint64_t *shape = core_array(a, "shape", 8, SHAPE, READ);
    self->ring.live = core_array(a, "live", 8, sizeof(RingLive) / 8, READ | OPTIONAL);
    if (core_ready(a)) {
        engine->reads = self->ring.reads = a->views[0].readonly;
        core_require(a, self->ring.live || !engine->reads, "memory: must be writable");
        set_shape(self, shape);
        self->state->cleared = self->ring.whole;
    }
    return engine_end(engine);
}

/* Requires a valid state, and only queries if another process writes. */
static void require_state(const RingObject *self, Arguments *a, const Operations *o) {
    int others = o->codes ? 0 : o->code & ~QUERY;
    for (Py_ssize_t i = 0; !a->failed && self->ring.reads && o->codes && i < o->count; i++) {
        others |= o->codes[i] & ~QUERY;
    }
    core_require(a, ring_fits(&self->ring, self->state),
                 "numbers: must be the position of a ring at rest");
    core_require(a, !self->ring.reads || !others, CORE_READS);
}

/* perform(operations, keys, ages, seen): performs operations; returns the number of hits. Ages and
   seen may be None. */
static PyObject *ring_perform_all(PyObject *object, PyObject *args) {
    RingObject *self = (RingObject *)object;
    const Ring *ring = &self->ring;
    Arguments a = core_arguments(args);
    Operations o = engine_operations(&self->engine, &a);
    int64_t *ages = core_array(&a, "ages", 8, o.count, WRITE | OPTIONAL), hits;
    uint8_t *seen = core_array(&a, "seen", 1, o.count, WRITE | OPTIONAL);
    require_state(self, &a, &o);
    if (!core_ready(&a)) {
        return core_finish(&a, NULL);
    }
    if (ring->reads) {
        ring_follow(ring, self->state);
    }
    PyThreadState *thread = o.count < FREE_KEYS ? NULL : PyEval_SaveThread();
    hits = ring_perform(ring, self->state, self->memory, self->indexes, self->masks, o.codes,
                        o.code, o.keys, o.count, ages, seen);
    if (thread) {
        PyEval_RestoreThread(thread);
    }
    ring_publish(ring, self->state);
    return core_finish(&a, PyLong_FromLongLong(hits));
}

/* settle(): clears the rest of the last retired segment. */
static PyObject *settle(PyObject *object, PyObject *nothing) {
    RingObject *self = (RingObject *)object;
    Arguments a = {.given = 0};
    require_state(self, &a, &(Operations){.codes = NULL});
    if (a.failed) {
        return NULL;
    }
    ring_settle(&self->ring, self->state, self->memory);
    Py_RETURN_NONE;
}

/* follow(): reads the position from the process that writes. */
static PyObject *follow(PyObject *object, PyObject *nothing) {
    RingObject *self = (RingObject *)object;
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
    Arguments a = core_arguments(args);
    ptrdiff_t count = ring->size == LINE ? ring->whole * 8 : 0;
    int size = ring->segments <= 8 ? 1 : ring->segments <= 16 ? 2 : ring->segments <= 32 ? 4 : 8;
    void *array = core_array(&a, "columns", size, count, EITHER);
    int back = core_flag(&a);
    core_require(&a, !back || !a.views[0].readonly, "columns: must be writable");
    if (core_ready(&a) && count) {
        lines_copy(self->memory, ring->segments, ring->whole / LINE, array, size, back);
    }
    return core_finish(&a, a.failed ? NULL : Py_NewRef(Py_None));
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

/* Rings with a time window */

/* Reads the state and the policy of a rotation; the array of the state must outlive it. */
static void take_rotation(Arguments *a, Rotation *r, int64_t max_slices) {
    int64_t *numbers = core_array(a, "state", 8, ROTATION_NUMBERS + 1, WRITE);
    int64_t slices = a->items - ROTATION_NUMBERS;
    const int64_t *policy = core_array(a, "policy", 8, 5, READ);
    if (!a->failed) {
        *r = (Rotation){.writes = policy[0], .slices = slices, .span = policy[1],
                        .old = policy[2], .spanned = policy[3], .rule = policy[4],
                        .state = (RotationState *)numbers, .settled = numbers + ROTATION_NUMBERS,
                        .alive = policy[0]};
        int fits = r->writes >= 1 && r->writes <= slices && slices <= max_slices && r->old >= 1;
        core_require(a, fits, "state: must be of a ring with these slices");
    }
}

/* follow(operations, times, state, policy, turned, alive, status, guaranteed): `turned` is whether
   an insertion shifts the ring. */
static PyObject *follow_rotation(PyObject *module, PyObject *args) {
    Arguments a = core_arguments(args);
    Rotation r;
    const uint8_t *codes = core_array(&a, "operations", 1, -1, READ);
    Py_ssize_t count = a.items;
    const int64_t *times = core_array(&a, "times", 8, count, READ);
    take_rotation(&a, &r, INT64_MAX);
    uint8_t *turned = core_array(&a, "turned", 1, count, WRITE);
    int64_t *alive = core_array(&a, "alive", 8, count, WRITE);
    uint8_t *status = core_array(&a, "status", 1, count, WRITE);
    int64_t *guaranteed = core_array(&a, "guaranteed", 8, count, WRITE);
    if (!core_ready(&a)) {
        return core_finish(&a, NULL);
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        alive[i] = rotation_alive(&r, times[i]);
        status[i] = rotation_status(&r, times[i]);
        guaranteed[i] = rotation_guaranteed_span(&r, times[i]);
        turned[i] = (uint8_t)rotation_perform(&r, codes[i], times[i]);
    }
    return core_finish(&a, Py_NewRef(Py_None));
}

typedef struct {
    Engine engine;
    RingObject *ring; /* shifted only by `rotation` */
    Rotation rotation;
} TimedRing;

static void shift_by_clock(TimedRing *self, int64_t now, int64_t shifts) {
    for (; shifts > 0; shifts--) {
        rotation_shift(&self->rotation, now);
        ring_shift(&self->ring->ring, self->ring->state, self->ring->memory);
    }
}

/* Performs an operation on one key after the shifts by the clock. */
static int64_t perform_now(TimedRing *self, int code, const uint64_t *key, int64_t now) {
    RingObject *ring = self->ring;
    return rotation_perform_key(&self->rotation, &ring->ring, ring->state, ring->memory, code, key,
                                now);
}

static int64_t timed_perform_key(Engine *engine, int code, const uint64_t *key) {
    TimedRing *self = (TimedRing *)engine;
    int64_t latest = self->rotation.state->latest;
    int64_t now = engine->now > latest ? engine->now : latest;
    if (code & INSERT) {
        engine->counts[3] += now != engine->now;
        shift_by_clock(self, now, rotation_due_by_clock(&self->rotation, now));
    }
    return perform_now(self, code, key, now);
}

/* Operations of a call; statuses and spans may be NULL. */
typedef struct {
    Operations o;
    const int64_t *times;
    int64_t *ages, *spans;
    uint8_t *statuses;
} Batch;

/* Performs operations, none of which shifts the ring. */
static void perform_stretch(TimedRing *self, const Batch *b, Py_ssize_t at, Py_ssize_t end) {
    if (at < end) {
        RingObject *ring = self->ring;
        ring_perform(&ring->ring, ring->state, ring->memory, ring->indexes, ring->masks,
                     b->o.codes + at, 0, b->o.keys + at * self->engine.hash->words, end - at,
                     b->ages + at, NULL);
    }
}

static void perform_block(TimedRing *self, const Batch *b, Py_ssize_t begin, Py_ssize_t end) {
    Rotation *r = &self->rotation;
    uint8_t alive[BLOCK];
    Py_ssize_t first = begin, words = self->engine.hash->words;
    for (Py_ssize_t i = begin; i < end; i++) {
        int64_t now = b->times[i];
        int code = b->o.codes[i], inserts = (code & (INSERT | ALONE)) == INSERT;
        int64_t shifts = inserts ? rotation_due_by_clock(r, now) : 0;
        if (shifts) {
            perform_stretch(self, b, first, i);
            first = i;
            shift_by_clock(self, now, shifts);
        }
        if (b->statuses) {
            b->statuses[i] = rotation_status(r, now);
            b->spans[i] = rotation_guaranteed_span(r, now);
        }
        alive[i - begin] = (uint8_t)rotation_alive(r, now);
        if (inserts && rotation_due(r, now)) {
            perform_stretch(self, b, first, i);
            first = i + 1;
            b->ages[i] = perform_now(self, code, b->o.keys + i * words, now);
        } else {
            rotation_perform(r, code, now);
        }
    }
    perform_stretch(self, b, first, end);
    for (Py_ssize_t i = begin; i < end; i++) {
        b->ages[i] = b->ages[i] + r->writes <= alive[i - begin] ? b->ages[i] : -1;
    }
}

/* perform(operations, keys, times, ages, statuses, spans); the last two may be left out. */
static PyObject *timed_perform(PyObject *object, PyObject *args) {
    TimedRing *self = (TimedRing *)object;
    Arguments a = core_arguments(args);
    Batch b = {.o = engine_operations(&self->engine, &a)};
    Py_ssize_t count = b.o.count;
    b.times = core_array(&a, "times", 8, count, READ);
    b.ages = core_array(&a, "ages", 8, count, WRITE);
    b.statuses = core_array(&a, "statuses", 1, count, WRITE | OPTIONAL);
    b.spans = core_array(&a, "spans", 8, count, WRITE | OPTIONAL);
    core_require(&a, b.o.codes && !b.statuses == !b.spans, "operations: must be an array");
    if (!core_ready(&a)) {
        return core_finish(&a, NULL);
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t at = 0; at < count; at += BLOCK) {
        perform_block(self, &b, at, count - at < BLOCK ? count : at + BLOCK);
    }
    Py_END_ALLOW_THREADS
    return core_finish(&a, Py_NewRef(Py_None));
}

/* TimedRing(ring, numbers, state, policy): the engine of a ring, the counts of the filter, and the
   rotation. */
static PyObject *timed_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    TimedRing *self = (TimedRing *)engine_start(type, args, timed_perform_key);
    if (!self) {
        return NULL;
    }
    Engine *engine = &self->engine;
    PyObject *ring = core_object(&engine->arguments);
    int valid = ring && PyObject_TypeCheck(ring, ring_type);
    core_require(&engine->arguments, valid, "ring: must be a Ring");
    self->ring = (RingObject *)ring;
    engine->hash = valid ? self->ring->engine.hash : NULL;
    engine->timed = 1;
    engine->counts = core_array(&engine->arguments, "numbers", 8, 4, WRITE);
    take_rotation(&engine->arguments, &self->rotation, MAX_SLICES);
    return engine_end(engine);
}

static PyMethodDef timed_methods[] = {
    {"perform", timed_perform, METH_VARARGS, "Perform operations, and shift the ring."},
    {NULL, NULL, 0, NULL},
};

int core_add_ring(PyObject *module) {
    int error = PyModule_AddIntConstant(module, "LINES", HAVE_LINES) < 0 ||
                engine_add_type(module, &ring_type, "lately.golden._core.Ring", sizeof(RingObject),
                                ring_new, methods) < 0;
    return error ? -1
                 : engine_add_type(module, &timed_type, "lately.golden._core.TimedRing",
                                   sizeof(TimedRing), timed_new, timed_methods);
}

PyMethodDef core_ring_methods[] = {
    {"follow", follow_rotation, METH_VARARGS, "Compute the shifts of a ring with a time window."},
    {NULL, NULL, 0, NULL},
};
