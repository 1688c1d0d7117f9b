/* Rings of segments: `Segments` of lately.golden.ring, operation by operation.

   The places of a chunk of keys come first, in loops that become vector instructions. Then the
   operations are performed one after another, shifts and clears included. Two forms of memory
   serve all families: columns and words. */
#include "ring.h"

#define CLEARED_AT_ONCE 4096 /* bytes of the retired segment for each insertion, at least */

/* Moves of the ring */

static void mask_secrets(Ring *ring) {
    int64_t segments = ring->segments, segment = ring->at.base;
    ring->young = ring->old = 0;
    for (int64_t index = 0; index < segments - 1; index++) {
        uint64_t bit = (uint64_t)1 << segment;
        if (index < segments - 1 - ring->at.older) {
            ring->young |= bit;
        } else {
            ring->old |= bit;
        }
        segment = segment + 1 < segments ? segment + 1 : 0;
    }
}

static void move(Ring *ring) {
    Position *at = &ring->at;
    at->base = (at->base + ring->segments - 1) % ring->segments;
    at->filled = 0;
    at->length = at->generation;
    at->shifts++;
    at->older = at->older > 0 ? at->older - 1 : 0;
    if (at->rekeys && at->waiting_row >= 0) {
        at->older_row = at->row;
        at->older = ring->segments - 2;
        at->row = at->waiting_row;
        at->waiting_row = -1;
    }
    mask_secrets(ring);
}

static void restart(Ring *ring) {
    Position *at = &ring->at;
    at->base = at->filled = 0;
    at->length = at->generation;
    at->clears++;
    if (at->waiting_row >= 0) {
        at->row = at->waiting_row;
        at->waiting_row = -1;
    }
    at->older = 0;
    mask_secrets(ring);
}

/* Positions that several processes share */

static void publish(Ring *ring) {
    Live *live = ring->live.buf;
    if (live && !ring->engine.reads) {
        uint64_t next = live->turns + 1;
        memcpy(&live->slots[next & 1], &ring->at, sizeof ring->at);
        __atomic_store_n(&live->turns, next, __ATOMIC_RELEASE);
        /* The clear that follows must not be seen before the turn. */
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    }
}

static int within(int64_t value, int64_t least, int64_t most) {
    return value >= least && value <= most;
}

/* Takes the position that another process has published last. */
static void follow_writer(Ring *ring) {
    const Live *live = ring->live.buf;
    Position at;
    uint64_t turns;
    if (!ring->engine.reads) {
        return;
    }
    do {
        turns = __atomic_load_n(&live->turns, __ATOMIC_ACQUIRE);
        memcpy(&at, &live->slots[turns & 1], sizeof at);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
    } while (__atomic_load_n(&live->turns, __ATOMIC_RELAXED) != turns);
    if (at.base != ring->at.base && within(at.base, 0, ring->segments - 1)) {
        ring->at.base = at.base;
        mask_secrets(ring);
    }
}

/* The retired segment */

WIDE static void keep_bits(uint64_t *words, Py_ssize_t count, uint64_t keep) {
    for (Py_ssize_t i = 0; i < count; i++) {
        words[i] &= keep;
    }
}

/* Clears more bytes of the retired segment; nothing reads it before it is the youngest. */
static void clear_more(Ring *ring, Py_ssize_t bytes) {
    uint8_t *begin = (uint8_t *)ring->memory.buf + ring->cleared;
    Py_ssize_t left = ring->whole - ring->cleared, part = bytes < left ? bytes : left;
    ring->cleared += part;
    if (!ring->size) {
        memset(begin + ring->retired * ring->whole, 0, (size_t)part);
        return;
    }
    /* Several columns at a time, then the rest. */
    uint64_t bit = (uint64_t)1 << ring->retired, bits = 0, rest = 0;
    for (int low = 0; low < 64; low += 8 * ring->size) {
        bits |= bit << low;
    }
    keep_bits((uint64_t *)begin, part / 8, ~bits);
    memcpy(&rest, begin + part / 8 * 8, (size_t)(part % 8));
    rest &= ~bits;
    memcpy(begin + part / 8 * 8, &rest, (size_t)(part % 8));
}

static void clear_all(Ring *ring) {
    if (ring->cleared < ring->whole) {
        clear_more(ring, ring->whole);
    }
}

static void retire(Ring *ring) {
    int64_t pace = (ring->whole / ring->at.length + 8) / 8 * 8; /* whole words */
    ring->retired = (int)segment_of(ring, ring->segments - 1);
    ring->cleared = 0;
    ring->pace = pace > CLEARED_AT_ONCE ? pace : CLEARED_AT_ONCE;
}

static void turn(Ring *ring) {
    clear_all(ring);
    move(ring);
    publish(ring);
    retire(ring);
}

static void erase(Ring *ring) {
    memset(ring->memory.buf, 0, (size_t)ring->memory.len);
    ring->cleared = ring->whole;
    restart(ring);
}

static void count_insertions(Ring *ring, int64_t count) {
    ring->at.filled += count;
    ring->at.insertions += count;
    if (count && ring->cleared < ring->whole) {
        clear_more(ring, (Py_ssize_t)count * ring->pace);
    }
}

/* Operations. A chunk has its codes for itself, and changes them. */

WIDE static void answer(Chunk *chunk, Py_ssize_t at, Py_ssize_t end) {
    int64_t hits = 0;
    for (Py_ssize_t i = at; i < end; i++) {
        hits += (chunk->values[i] != 0) & chunk->codes[i] & QUERY;
    }
    for (Py_ssize_t i = at; chunk->seen && i < end; i++) {
        chunk->seen[i] |= (chunk->values[i] != 0) & chunk->codes[i] & QUERY;
    }
    for (Py_ssize_t i = at; chunk->ages && i < end; i++) {
        if (chunk->values[i] && (chunk->codes[i] & QUERY)) {
            chunk->ages[i] = __builtin_ctzll(chunk->values[i]);
        }
    }
    chunk->hits += hits;
}

/* Performs operations from `at` on, up to one that moves the ring; returns its place. Places of
   words begin with the operation `first`. */
static Py_ssize_t perform_some(Ring *ring, Places *places, Chunk *chunk, Py_ssize_t first,
                               Py_ssize_t at, Py_ssize_t limit) {
    int64_t room = ring->at.length - ring->at.filled, inserts = 0;
    Py_ssize_t end = at;
    for (room = room > 0 ? room : 0; end < limit && chunk->codes[end] < ALONE; end++) {
        int insert = chunk->codes[end] >> 1 & 1;
        if (insert && inserts == room) {
            break;
        }
        inserts += insert;
    }
    if (ring->size) {
        perform_columns(ring, places, chunk, at, end, inserts > 0);
    } else {
        perform_words(ring, chunk, first, at, end, inserts > 0);
    }
    answer(chunk, at, end);
    count_insertions(ring, inserts);
    return end;
}

/* Moves the ring for an operation, and leaves the remaining steps in its code. The query sees the
   old ring; the insertion does not. */
static void move_for(Ring *ring, Places *places, Chunk *chunk, Py_ssize_t first, Py_ssize_t at) {
    uint8_t *code = &chunk->codes[at];
    if (*code == CHECK) {
        *code = QUERY;
        perform_some(ring, places, chunk, first, at, at + 1);
        *code = INSERT;
    }
    if (*code == CLEAR) {
        erase(ring);
    } else if (*code == SHIFT || *code < ALONE) {
        turn(ring);
    }
    *code = *code < ALONE ? INSERT : NONE;
}

static void chunk_of_columns(Ring *ring, Places *places, Chunk *chunk) {
    for (Py_ssize_t at = 0;;) {
        at = perform_some(ring, places, chunk, 0, at, chunk->count);
        if (at == chunk->count) {
            break;
        }
        move_for(ring, places, chunk, 0, at);
    }
}

static void chunk_of_words(Ring *ring, Chunk *chunk, Row *states) {
    for (Py_ssize_t at = 0, first, end; at < chunk->count;) {
        /* Keys after the next turn have their places in other segments. */
        int64_t room = ring->at.length - ring->at.filled, left = chunk->count - at;
        first = at;
        end = left > room && left > 16 ? at + (room > 16 ? room : 16) : chunk->count;
        find_words(ring, states, chunk, at, end - at);
        at = perform_some(ring, NULL, chunk, first, at, end);
        if (at < end) {
            move_for(ring, NULL, chunk, first, at);
        }
    }
}

static void find_states(const Ring *ring, const uint64_t *keys, Py_ssize_t count, Row *states) {
    for (int row = 0; row < ring->rows; row++) {
        hash_states(ring->engine.hash, keys, count, ring->secrets[row], states[row]);
    }
}

/* Finds the columns of a chunk. */
static void find_columns(const Ring *ring, const uint64_t *keys, Py_ssize_t count,
                         Places *places) {
    Row states[MOST_ROWS];
    find_states(ring, keys, count, states);
    for (int row = 0; row < ring->rows; row++) {
        find_places(ring, states[row], count, 0, places + row * ring->parts, NULL);
    }
}

/* Performs all operations: those in `codes`, or `code` for each key. Returns the hits. */
static int64_t perform(Ring *ring, const uint8_t *codes, int code, const uint64_t *keys,
                       Py_ssize_t count, int64_t *ages, uint8_t *seen) {
    uint8_t own[CHUNK];
    Row states[MOST_ROWS];
    Chunk chunk = {.codes = own};
    Py_ssize_t words = ring->engine.hash->words, ahead = ring->memory.len > CACHED ? CHUNK : 0;
    Places *places[2] = {ring->places, ring->places + MOST_ROWS * ring->parts};
    for (Py_ssize_t at = 0, found = 0; at < count; at += CHUNK) {
        chunk.count = count - at < CHUNK ? count - at : CHUNK;
        /* Columns are found a chunk ahead, as a turn does not change them. They are fetched beside
           the operations before them, as many fetches at once would wait for each other. */
        for (; ring->size && found < count && found <= at + ahead; found += CHUNK) {
            find_columns(ring, keys + found * words, count - found < CHUNK ? count - found : CHUNK,
                         places[found / CHUNK & 1]);
        }
        if (codes) {
            memcpy(own, codes + at, (size_t)chunk.count);
        } else {
            memset(own, code, (size_t)chunk.count);
        }
        if (ages) {
            chunk.ages = memset(ages + at, 0xFF, (size_t)chunk.count * 8);
        }
        if (seen) {
            chunk.seen = memset(seen + at, 0, (size_t)chunk.count);
        }
        if (ring->size) {
            ring->ahead = ahead && found > at + CHUNK ? places[(at / CHUNK + 1) & 1] : NULL;
            chunk_of_columns(ring, places[at / CHUNK & 1], &chunk);
        } else {
            find_states(ring, keys + at * words, chunk.count, states);
            chunk_of_words(ring, &chunk, states);
        }
    }
    return chunk.hits;
}

void ring_turn(Engine *ring) { turn((Ring *)ring); }

static int64_t perform_one(Engine *engine, int code, const uint64_t *key) {
    Ring *ring = (Ring *)engine;
    uint64_t states[MOST_ROWS], value = 0;
    follow_writer(ring);
    for (int row = 0; row < ring->rows; row++) {
        if (engine->hash->words == 1) {
            states[row] = hash_state(engine->hash, *key, ring->secrets[row]);
        } else {
            hash_states(engine->hash, key, 1, ring->secrets[row], &states[row]);
        }
    }
    int inserts = code & INSERT, turns = inserts && ring->at.filled >= ring->at.length;
    int due = inserts && (turns || !(code & QUERY)); /* whether the insertion is by itself */
    if ((code & QUERY) && ring->size) {
        value = perform_column(ring, states, inserts && !due);
    } else if ((code & QUERY) && is_single(ring) && ring->memory.len <= CACHED) {
        value = perform_word(ring, states, inserts && !due);
    } else if (code & QUERY) {
        value = query_words(ring, states);
        due = inserts != 0;
    }
    if (turns) {
        turn(ring);
    }
    if (due && !ring->size) {
        insert_words(ring, states);
    } else if (due) {
        perform_column(ring, states, 1);
    }
    count_insertions(ring, inserts != 0);
    if (inserts && ring->live.buf) {
        Live *live = ring->live.buf;
        live->slots[live->turns & 1].filled = ring->at.filled;
    }
    return value ? __builtin_ctzll(value) : -1;
}

/* The type */

PyTypeObject *ring_type;

/* Whether all places of keys are within the memory. */
static int places_fit(const Ring *ring) {
    const Hash *hash = ring->engine.hash;
    const uint64_t most = (uint64_t)1 << 40;
    uint64_t bits = ring->size ? (uint64_t)(ring->memory.len / ring->size)
                               : (uint64_t)ring->words * 64;
    uint64_t last = 0, reach = 0;
    if (ring->shards > 1 << 12 || ring->block_stride > (uint64_t)1 << 32 ||
        ring->shard_stride > most || ring->part_stride > most) {
        return 0;
    }
    for (Py_ssize_t part = 0; part < ring->parts; part++) {
        uint64_t end = (uint64_t)part * ring->part_stride + hash->field[part + ring->blocked].size;
        reach = end > reach ? end : reach;
    }
    if (ring->blocked) {
        unsigned __int128 blocks = (unsigned __int128)(hash->field[0].size - 1);
        last = blocks * ring->block_stride > most ? most : (uint64_t)blocks * ring->block_stride;
    }
    if (ring->joint && (!ring->blocked || ring->block_stride > 64 || reach > ring->block_stride ||
                        ring->block_stride & (ring->block_stride - 1) ||
                        ring->shard_stride % (ring->block_stride ? ring->block_stride : 1))) {
        return 0;
    }
    return last + (ring->shards - 1) * ring->shard_stride + reach <= bits &&
           bits <= (uint64_t)1 << 32;
}

static int take_shape(Ring *ring, const uint64_t *strides, Py_ssize_t functions) {
    Py_ssize_t item = ring->memory.itemsize;
    ring->size = functions == 1 ? (int)item : 0;
    ring->block_stride = strides[0];
    ring->part_stride = strides[1];
    ring->shard_stride = strides[2];
    ring->blocked = strides[3] != 0;
    ring->shards = strides[4];
    memcpy(ring->shard_rotations, strides + 5, sizeof ring->shard_rotations);
    ring->parts = ring->engine.hash->fields - ring->blocked;
    int whole = item == 8 || (ring->size && (item == 1 || item == 2 || item == 4));
    if (whole && ring->segments >= 2 && ring->segments <= MOST_SEGMENTS && ring->run >= 1 &&
        ring->run < ring->segments && ring->parts >= 1 && ring->parts <= MOST_PARTS &&
        (functions == 1 || functions == ring->segments) && ring->shards >= 1 &&
        (!ring->size || (ring->segments <= 8 * ring->size && ring->run == 1 && !ring->joint))) {
        ring->words = ring->size ? 0 : ring->memory.len / 8 / ring->segments;
        ring->whole = ring->cleared = ring->size ? ring->memory.len : ring->words * 8;
        if (places_fit(ring)) {
            return 0;
        }
    }
    PyErr_SetString(PyExc_ValueError, "memory: must have the bits of all segments");
    return -1;
}

static int allocate_scratch(Ring *ring) {
    Py_ssize_t rows = ring->size ? 2 * MOST_ROWS * ring->parts
                                 : (ring->run + 1) * (ring->joint ? 1 : ring->parts);
    ring->places = PyMem_Calloc((size_t)rows, sizeof(Places));
    ring->masks = ring->joint ? PyMem_Malloc((size_t)rows * sizeof(Row)) : NULL;
    if (!ring->places || (ring->joint && !ring->masks)) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

/* Takes the memory, and the position that several processes share, if there is one. A ring with
   read-only memory reads the ring of another process. */
static int take_memory(Ring *ring, PyObject *memory, PyObject *live) {
    if (live && core_take(live, &ring->live, 8, sizeof(Live) / 8, 0, "live") < 0) {
        return -1;
    }
    if (PyObject_GetBuffer(memory, &ring->memory, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) == 0) {
        return 0;
    }
    if (!live) {
        return -1;
    }
    PyErr_Clear();
    ring->engine.reads = 1;
    return PyObject_GetBuffer(memory, &ring->memory, PyBUF_C_CONTIGUOUS);
}

/* Ring(hash, memory, segments, run, joint, strides, live); the last may be left out. */
static PyObject *ring_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    PyObject *a, *b, *c, *d = NULL;
    int segments, run, joint;
    Buffers all = {.count = 0};
    (void)named;
    if (!PyArg_ParseTuple(args, "OOiipO|O", &a, &b, &segments, &run, &joint, &c, &d)) {
        return NULL;
    }
    Hash *hash = hash_of(a);
    uint64_t *strides = hash ? core_buffer(&all, c, 8, 8, 0, "strides") : NULL;
    Ring *ring = strides ? (Ring *)PyType_GenericAlloc(type, 0) : NULL;
    if (!ring) {
        return core_finish(&all, NULL);
    }
    ring->engine.one = perform_one;
    ring->engine.hash = (Hash *)Py_NewRef((PyObject *)hash);
    ring->segments = segments;
    ring->run = run;
    ring->joint = joint;
    if (take_memory(ring, b, d) < 0 || take_shape(ring, strides, hash->functions) < 0 ||
        allocate_scratch(ring) < 0) {
        Py_DECREF(ring);
        return core_finish(&all, NULL);
    }
    return core_finish(&all, (PyObject *)ring);
}

static void ring_dealloc(PyObject *self) {
    Ring *ring = (Ring *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (ring->memory.obj) {
        PyBuffer_Release(&ring->memory);
    }
    if (ring->live.obj) {
        PyBuffer_Release(&ring->live);
    }
    engine_release(&ring->engine);
    PyMem_Free(ring->places);
    PyMem_Free(ring->masks);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* Takes position and secrets; an armed ring has its own. */
static int take_position(Ring *ring, const int64_t *vector, const Secret *secrets,
                         Py_ssize_t rows) {
    Position at;
    const int64_t most = (int64_t)1 << 62;
    memcpy(&at, vector, sizeof at);
    if (ring->engine.armed || !within(rows, 1, MOST_ROWS) ||
        !within(at.base, 0, ring->segments - 1) || !within(at.filled, 0, most) ||
        !within(at.length, 1, most) || !within(at.generation, 1, most) ||
        !within(at.older, 0, ring->segments - 1) || !within(at.row, 0, rows - 1) ||
        !within(at.older_row, 0, rows - 1) || !within(at.waiting_row, -1, rows - 1)) {
        PyErr_SetString(PyExc_ValueError, "vector: must be the position of a ring at rest");
        return -1;
    }
    ring->at = at;
    ring->rows = (int)rows;
    memcpy(ring->secrets, secrets, (size_t)rows * sizeof(Secret));
    mask_secrets(ring);
    return 0;
}

/* Whether all operations are queries, or the memory belongs to this process; else sets an error. */
static int may_perform(const Ring *ring, const uint8_t *codes, int code, Py_ssize_t count) {
    int others = codes ? 0 : code & ~QUERY;
    for (Py_ssize_t i = 0; ring->engine.reads && codes && i < count; i++) {
        others |= codes[i] & ~QUERY;
    }
    if (!ring->engine.reads || !others) {
        return 1;
    }
    PyErr_SetString(PyExc_ValueError, CORE_READS);
    return 0;
}

/* perform(vector, secrets, operations, keys, ages, seen): performs operations; returns the hits.

   The operations are an array of codes, or the code of all. Ages and seen may be None. */
static PyObject *ring_perform(PyObject *self, PyObject *args) {
    Ring *ring = (Ring *)self;
    PyObject *a, *b, *c, *d, *e, *f;
    Buffers all = {.count = 0};
    if (!PyArg_ParseTuple(args, "OOOOOO", &a, &b, &c, &d, &e, &f)) {
        return NULL;
    }
    long code = PyLong_Check(c) ? PyLong_AsLong(c) : 0;
    int64_t *vector = core_buffer(&all, a, 8, POSITION + 3, 1, "vector");
    Secret *secrets = vector ? core_buffer(&all, b, 8, 2, 0, "secrets") : NULL;
    uint64_t *keys = secrets ? core_buffer(&all, d, 8, -1, 0, "keys") : NULL;
    if (!keys) {
        return core_finish(&all, NULL);
    }
    Py_ssize_t count = core_items(&all, 2) / ring->engine.hash->words;
    int64_t *ages = NULL, hits;
    uint8_t *codes = NULL, *seen = NULL;
    if ((!PyLong_Check(c) && !(codes = core_buffer(&all, c, 1, count, 0, "operations"))) ||
        (e != Py_None && !(ages = core_buffer(&all, e, 8, count, 1, "ages"))) ||
        (f != Py_None && !(seen = core_buffer(&all, f, 1, count, 1, "seen"))) ||
        !may_perform(ring, codes, (int)code, count) ||
        take_position(ring, vector, secrets, core_items(&all, 1) / 2) < 0) {
        return core_finish(&all, NULL);
    }
    follow_writer(ring);
    if (count < FREE_KEYS) {
        hits = perform(ring, codes, (int)code, keys, count, ages, seen);
    } else {
        Py_BEGIN_ALLOW_THREADS
        hits = perform(ring, codes, (int)code, keys, count, ages, seen);
        Py_END_ALLOW_THREADS
    }
    publish(ring);
    memcpy(vector, &ring->at, sizeof ring->at);
    return core_finish(&all, PyLong_FromLongLong(hits));
}

/* arm(vector, secrets): takes the state of the filter, for single keys. */
static PyObject *ring_arm(PyObject *self, PyObject *args) {
    Ring *ring = (Ring *)self;
    PyObject *a, *b;
    Buffers all = {.count = 0};
    if (!PyArg_ParseTuple(args, "OO", &a, &b)) {
        return NULL;
    }
    int64_t *vector = core_buffer(&all, a, 8, POSITION + 3, 0, "vector");
    Secret *secrets = vector ? core_buffer(&all, b, 8, 2, 0, "secrets") : NULL;
    if (!secrets || take_position(ring, vector, secrets, core_items(&all, 1) / 2) < 0) {
        return core_finish(&all, NULL);
    }
    ring->engine.armed = 1;
    return core_finish(&all, Py_NewRef(Py_None));
}

/* disarm(vector): gives the state of the filter back. */
static PyObject *ring_disarm(PyObject *self, PyObject *object) {
    Ring *ring = (Ring *)self;
    Buffers all = {.count = 0};
    int64_t *vector = core_buffer(&all, object, 8, POSITION + 3, 1, "vector");
    if (!vector) {
        return NULL;
    }
    memcpy(vector, &ring->at, sizeof ring->at);
    engine_disarm(&ring->engine, vector + POSITION);
    return core_finish(&all, Py_NewRef(Py_None));
}

/* settle(): clears the rest of the segment that left the ring last. */
static PyObject *ring_settle(PyObject *self, PyObject *nothing) {
    (void)nothing;
    clear_all((Ring *)self);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"perform", ring_perform, METH_VARARGS, "Perform operations; return the hits."},
    {"arm", ring_arm, METH_VARARGS, "Take the state of the filter, for single keys."},
    {"disarm", ring_disarm, METH_O, "Give the state of the filter back."},
    {"settle", ring_settle, METH_NOARGS, "Clear the rest of the segment that left the ring last."},
    {NULL, NULL, 0, NULL},
};

int core_add_ring(PyObject *module) {
    PyType_Slot slots[] = {{Py_tp_base, engine_type},
                           {Py_tp_new, ring_new},
                           {Py_tp_dealloc, ring_dealloc},
                           {Py_tp_methods, methods},
                           {0, NULL}};
    return core_add_type(module, &ring_type, "lately.golden._core.Ring", sizeof(Ring), slots);
}
