/* Rings whose window is a span of time, and their turns alone. */
#include "calls.h"
#include "pure/turns.h"

#define MOST_SLICES 63
#define BLOCK 4096 /* operations at a time, whose slices that count are on the stack */

/* Takes the state of turns and their policy; the buffer of the state must outlive them. */
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
static PyObject *follow(PyObject *module, PyObject *args) {
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
    Engine *ring;    /* owned; it does not turn by itself */
    Py_buffer state; /* of the turns */
    Turns t;
} TimedRing;

static PyTypeObject *timed_type;

/* Performs an operation on one key, whose turns by the clock are done. */
static int64_t perform_key(TimedRing *self, int code, const uint64_t *key, int64_t now) {
    Engine *ring = self->ring;
    int64_t age = -1, alive = turns_alive(&self->t, now);
    if (turns_perform(&self->t, code, now)) {
        /* The query sees the old ring; the insertion does not. */
        age = code & QUERY ? ring->one(ring, QUERY, key) : -1;
        engine_turn(ring);
        ring->one(ring, INSERT, key);
    } else {
        age = ring->one(ring, code, key);
    }
    return age + self->t.writes <= alive ? age : -1;
}

static void turn_by_clock(TimedRing *self, int64_t now, int64_t turns) {
    for (; turns > 0; turns--) {
        turns_shift(&self->t, now);
        engine_turn(self->ring);
    }
}

static int64_t timed_one(Engine *engine, int code, const uint64_t *key) {
    TimedRing *self = (TimedRing *)engine;
    int64_t latest = self->t.state->latest, now = engine->now > latest ? engine->now : latest;
    if (code & INSERT) {
        engine->counts[3] += now != engine->now;
        turn_by_clock(self, now, turns_due_by_clock(&self->t, now));
    }
    return perform_key(self, code, key, now);
}

/* Operations of a call; statuses and spans may be NULL. */
typedef struct {
    const uint8_t *codes;
    const uint64_t *keys;
    const int64_t *times;
    int64_t *ages, *spans;
    uint8_t *statuses;
} Batch;

/* Performs operations of which no insertion turns the ring. */
static void perform_stretch(TimedRing *self, const Batch *b, Py_ssize_t at, Py_ssize_t end) {
    if (at < end) {
        engine_perform(self->ring, b->codes + at, b->keys + at * self->engine.hash->words, end - at,
                       b->ages + at);
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
            b->ages[i] = perform_key(self, code, b->keys + i * words, now);
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
    self->ring = (Engine *)Py_NewRef(ring);
    self->engine.one = timed_one;
    self->engine.timed = 1;
    if (core_take(state, &self->state, 8, TURN_NUMBERS + 1, 1, "state") < 0 ||
        !take_turns(&self->t, self->state.buf, self->state.len / 8, limits, MOST_SLICES) ||
        engine_hash(&self->engine, self->ring->hash_object) < 0 ||
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

int core_add_turns(PyObject *module) {
    PyType_Slot slots[] = {{Py_tp_base, engine_type},
                           {Py_tp_new, timed_new},
                           {Py_tp_dealloc, timed_dealloc},
                           {Py_tp_methods, timed_methods},
                           {0, NULL}};
    return core_add_type(module, &timed_type, "lately.golden._core.TimedRing", sizeof(TimedRing),
                         slots);
}

PyMethodDef core_turns_methods[] = {
    {"follow", follow, METH_VARARGS, "Follow the turns of a ring whose window is a span of time."},
    {NULL, NULL, 0, NULL},
};
