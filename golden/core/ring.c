/* The type `Ring`: segments, position and secrets of a ring, in buffers that numpy holds. */
#include "calls.h"

#include "pure/batch.h"

typedef struct {
    Engine engine; /* whose numbers are the state */
    Ring ring;
    RingState *state;
    Py_buffer memory, live; /* the latter of a ring that several processes map */
    RingPlaces *places;
    RingRow *masks;
} RingObject;

PyTypeObject *ring_type;

void engine_turn(Engine *engine) {
    RingObject *self = (RingObject *)engine;
    ring_turn(&self->ring, self->state, self->memory.buf);
}

void engine_perform(Engine *engine, const uint8_t *codes, const uint64_t *keys, Py_ssize_t count,
                    int64_t *ages) {
    RingObject *self = (RingObject *)engine;
    ring_perform(&self->ring, self->state, self->memory.buf, self->places, self->masks, codes, 0,
                 keys, count, ages, NULL);
}

static int64_t perform_one(Engine *engine, int code, const uint64_t *key) {
    RingObject *self = (RingObject *)engine;
    if (engine->reads) {
        ring_follow(&self->ring, self->state);
    }
    return lowest(ring_perform_key(&self->ring, self->state, self->memory.buf, code, key));
}

/* Takes the memory, and the position that several processes share, if there is one. A ring with
   read-only memory reads the ring of another process. */
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

/* The shape has segments, run, whether all bits of a key are in one word, whether a new secret
   takes effect at a turn, whether there are blocks, the strides of blocks, parts and shards, the
   number of shards, and the rotations that select one. */
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
    ring->joint = shape[2] != 0;
    ring->rekeys = shape[3] != 0;
    ring->blocked = shape[4] != 0;
    ring->block_stride = shape[5];
    ring->part_stride = shape[6];
    ring->shard_stride = shape[7];
    ring->shards = shape[8];
    memcpy(ring->shard_rotations, shape + 9, sizeof ring->shard_rotations);
    ring->size = ring->hash->functions == 1 ? (int)item : 0;
    ring->parts = ring->hash->fields - ring->blocked;
    ring->bytes = self->memory.len;
    ring->words = ring->size || !ring->segments ? 0 : ring->bytes / 8 / ring->segments;
    ring->whole = ring->size ? ring->bytes : ring->words * 8;
    if (!ring_is_sound(ring, item)) {
        PyErr_SetString(PyExc_ValueError, "memory: must have the bits of all segments");
        return -1;
    }
    size_t rows = (size_t)ring_room(ring);
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

/* Whether the state is that of a ring, and only queries come if another process writes; else sets
   an error. */
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

/* perform(operations, keys, ages, seen): performs operations; returns the hits.

   The operations are an array of codes, or the code of all. Ages and seen may be None. */
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

/* settle(): clears the rest of the segment that left the ring last. */
static PyObject *settle(PyObject *object, PyObject *nothing) {
    RingObject *self = (RingObject *)object;
    (void)nothing;
    if (may_perform(self, NULL, QUERY, 0)) {
        ring_settle(&self->ring, self->state, self->memory.buf);
        Py_RETURN_NONE;
    }
    return NULL;
}

/* follow(): takes the position of the process that writes. */
static PyObject *follow(PyObject *object, PyObject *nothing) {
    RingObject *self = (RingObject *)object;
    (void)nothing;
    if (self->ring.live && ring_follow(&self->ring, self->state)) {
        Py_RETURN_NONE;
    }
    PyErr_SetString(PyExc_ValueError, "position: does not fit the specification");
    return NULL;
}

static PyMethodDef methods[] = {
    {"perform", ring_perform_all, METH_VARARGS, "Perform operations; return the hits."},
    {"settle", settle, METH_NOARGS, "Clear the rest of the segment that left the ring last."},
    {"follow", follow, METH_NOARGS, "Take the position of the process that writes."},
    {NULL, NULL, 0, NULL},
};

int core_add_ring(PyObject *module) {
    PyType_Slot slots[] = {{Py_tp_base, engine_type},
                           {Py_tp_new, ring_new},
                           {Py_tp_dealloc, ring_dealloc},
                           {Py_tp_methods, methods},
                           {0, NULL}};
    return core_add_type(module, &ring_type, "lately.golden._core.Ring", sizeof(RingObject), slots);
}
