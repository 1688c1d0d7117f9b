/* Turns of a ring whose window is a span of time: `RotationState.follow`, one by one. */
#include "calls.h"

#define NEVER (-1)

enum { OVERFILL, SHORTEN, BY_CLOCK }; /* rule at the end of a full generation */
enum { OK, WINDOW_SHORTENED, RATE_EXCEEDED }; /* codes of `PoolStatus` */

/* `RotationState` and `RotationPolicy`; counts are of the call. */
typedef struct {
    int64_t filled, length, generation, first, last, lost, latest;
    int64_t insertions, shifts, shortened, overfilled;
    int64_t writes, span, old, spanned, rule;
} State;

#define STATE 16 /* numbers of a state */

typedef struct {
    State s;
    int64_t *settled;  /* time of each slice that takes no more, by position from the youngest */
    uint8_t *overfull; /* whether a slice has more insertions than it should */
    int64_t slices;
    int64_t counting;  /* slices that take no more and are within the span, at most */
    int64_t over;      /* position of the youngest slice that is overfull, -1 if none is */
} Turns;

/* A row of a `Followed`. */
typedef struct {
    uint8_t *turned;
    int64_t *alive;
    uint8_t *status;
    int64_t *guaranteed;
} Followed;

static void look_at_slices(Turns *t) {
    t->counting = 0;
    t->over = -1;
    for (int64_t position = t->s.writes; position < t->slices; position++) {
        t->counting += t->settled[position] != NEVER;
    }
    for (int64_t position = t->slices - 1; position >= 0; position--) {
        t->over = t->overfull[position] ? position : t->over;
    }
}

static uint8_t status(const Turns *t, int64_t now) {
    const State *s = &t->s;
    if (s->lost != NEVER && now - s->lost <= s->span) {
        return WINDOW_SHORTENED;
    }
    if (t->over < 0) {
        return OK;
    }
    int64_t last = t->over < s->writes ? s->last : t->settled[t->over];
    return now <= last + s->span ? RATE_EXCEEDED : OK;
}

static int64_t guaranteed_span(const State *s, int64_t now) {
    if (!s->spanned) {
        return -1;
    }
    if (s->lost == NEVER || now - s->lost - 1 > s->span) {
        return s->span;
    }
    return now - s->lost - 1;
}

/* Whether the oldest slice counts. */
static int is_out(const Turns *t, int64_t now) {
    int64_t oldest = t->settled[t->slices - 1];
    return oldest != NEVER && now <= oldest + t->s.span;
}

/* Whether the ring turns before an insertion. */
static int is_due(const Turns *t, int64_t now) {
    const State *s = &t->s;
    int full = s->filled >= s->length;
    if (s->rule == BY_CLOCK) {
        return 0;
    }
    if (is_out(t, now)) {
        return full && s->rule == SHORTEN;
    }
    return full || (s->filled > 0 && now >= s->first + s->old);
}

static void turn(Turns *t, int64_t now) {
    State *s = &t->s;
    if (s->spanned && is_out(t, now)) {
        s->lost = t->settled[t->slices - 1];
        s->shortened++;
    }
    t->settled[s->writes - 1] = s->last;
    memmove(t->settled + 1, t->settled, (size_t)(t->slices - 1) * sizeof *t->settled);
    memmove(t->overfull + 1, t->overfull, (size_t)(t->slices - 1));
    t->settled[0] = NEVER;
    t->overfull[0] = 0;
    s->latest = now;
    s->filled = 0;
    s->length = s->generation;
    s->shifts++;
    look_at_slices(t);
}

static void insert(Turns *t, int64_t now) {
    State *s = &t->s;
    if (s->filled == 0) {
        s->first = now;
    }
    if (++s->filled > s->length) {
        s->overfilled++;
        memset(t->overfull, 1, (size_t)s->writes);
        t->over = 0;
    }
    s->insertions++;
    s->last = s->latest = now;
}

static void clear(Turns *t) {
    State *s = &t->s;
    s->length = s->generation;
    s->filled = 0;
    s->first = s->last = s->lost = s->latest = NEVER;
    memset(t->overfull, 0, (size_t)t->slices);
    for (int64_t position = 0; position < t->slices; position++) {
        t->settled[position] = NEVER;
    }
    look_at_slices(t);
}

static void follow_all(Turns *t, const uint8_t *codes, const int64_t *times, Py_ssize_t count,
                       Followed passage) {
    State *s = &t->s;
    look_at_slices(t);
    for (Py_ssize_t i = 0; i < count; i++) {
        int64_t now = times[i];
        while (t->counting && now > t->settled[s->writes + t->counting - 1] + s->span) {
            t->counting--;
        }
        int fresh = s->last != NEVER && now - s->last <= s->span;
        passage.alive[i] = fresh ? s->writes + t->counting : 0;
        passage.status[i] = status(t, now);
        passage.guaranteed[i] = guaranteed_span(s, now);
        passage.turned[i] = 0;
        switch (codes[i]) {
        case CLEAR: clear(t); break;
        case SHIFT: turn(t, now); break;
        case INSERT:
        case CHECK:
            if (is_due(t, now)) {
                passage.turned[i] = 1;
                turn(t, now);
            }
            insert(t, now);
        }
    }
}

/* follow(operations, times, state, settled, overfull, turned, alive, status, guaranteed) */
static PyObject *follow(PyObject *module, PyObject *args) {
    PyObject *o[9];
    Buffers all = {.count = 0};
    (void)module;
    if (!PyArg_ParseTuple(args, "OOOOOOOOO", &o[0], &o[1], &o[2], &o[3], &o[4], &o[5], &o[6], &o[7],
                          &o[8])) {
        return NULL;
    }
    uint8_t *codes = core_buffer(&all, o[0], 1, -1, 0, "operations");
    Py_ssize_t count = codes ? core_items(&all, 0) : 0;
    int64_t *times = codes ? core_buffer(&all, o[1], 8, count, 0, "times") : NULL;
    int64_t *state = times ? core_buffer(&all, o[2], 8, STATE, 1, "state") : NULL;
    Turns t = {0};
    Followed passage = {0};
    if (!state || !(t.settled = core_buffer(&all, o[3], 8, 1, 1, "settled"))) {
        return core_finish(&all, NULL);
    }
    t.slices = core_items(&all, 3);
    if (!(t.overfull = core_buffer(&all, o[4], 1, t.slices, 1, "overfull")) ||
        !(passage.turned = core_buffer(&all, o[5], 1, count, 1, "turned")) ||
        !(passage.alive = core_buffer(&all, o[6], 8, count, 1, "alive")) ||
        !(passage.status = core_buffer(&all, o[7], 1, count, 1, "status")) ||
        !(passage.guaranteed = core_buffer(&all, o[8], 8, count, 1, "guaranteed"))) {
        return core_finish(&all, NULL);
    }
    memcpy(&t.s, state, sizeof t.s);
    if (t.s.writes < 1 || t.s.writes > t.slices) {
        PyErr_SetString(PyExc_ValueError, "state: must be of a ring with these slices");
        return core_finish(&all, NULL);
    }
    follow_all(&t, codes, times, count, passage);
    memcpy(state, &t.s, sizeof t.s);
    return core_finish(&all, Py_NewRef(Py_None));
}

/* Single keys of a ring with a clock */

#define MOST_SLICES 64

typedef struct {
    Engine engine;
    Engine *ring; /* owned; it does not turn by itself */
    Turns t;
    int64_t settled[MOST_SLICES];
    uint8_t overfull[MOST_SLICES];
} TimedRing;

static PyTypeObject *timed_type;

/* Turns of a ring by the clock since its latest time; fewer with the same effect if they clear
   every segment. */
static int64_t turns_of_clock(const Turns *t, int64_t now) {
    int64_t latest = t->s.latest > 0 ? t->s.latest : 0, segments = t->slices + 1;
    int64_t turns = now / t->s.old - latest / t->s.old;
    return turns < 2 * segments ? turns : segments + turns % segments;
}

static int64_t timed_one(Engine *engine, int code, const uint64_t *key) {
    TimedRing *self = (TimedRing *)engine;
    Turns *t = &self->t;
    State *s = &t->s;
    int64_t now = engine->now > s->latest ? engine->now : s->latest, age = -1, alive;
    int64_t due = (code & INSERT) && s->rule == BY_CLOCK ? turns_of_clock(t, now) : 0;
    engine->late += (code & INSERT) && now != engine->now;
    for (; due > 0; due--) {
        turn(t, now);
        engine_turn(self->ring);
    }
    int64_t counting = t->counting;
    while (counting && now > t->settled[s->writes + counting - 1] + s->span) {
        counting--;
    }
    if (code & INSERT) { /* a query may come before another one in time */
        t->counting = counting;
    }
    alive = s->last != NEVER && now - s->last <= s->span ? s->writes + counting : 0;
    if (code & QUERY) {
        age = self->ring->one(self->ring, QUERY, key);
        age = age + s->writes <= alive ? age : -1;
    }
    if (code & INSERT) {
        if (is_due(t, now)) {
            turn(t, now);
            engine_turn(self->ring);
        }
        insert(t, now);
        self->ring->one(self->ring, INSERT, key);
    }
    return age;
}

/* TimedRing(engine): the engine of a ring, for single keys at the time of a clock. */
static PyObject *timed_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    PyObject *ring;
    (void)named;
    if (!PyArg_ParseTuple(args, "O!", ring_type, &ring)) {
        return NULL;
    }
    TimedRing *self = (TimedRing *)PyType_GenericAlloc(type, 0);
    if (self) {
        self->ring = (Engine *)Py_NewRef(ring);
        engine_hash(&self->engine, self->ring->hash_object);
        self->engine.one = timed_one;
        self->engine.timed = 1;
        self->t.settled = self->settled;
        self->t.overfull = self->overfull;
    }
    return (PyObject *)self;
}

static void timed_dealloc(PyObject *object) {
    TimedRing *self = (TimedRing *)object;
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF((PyObject *)self->ring);
    engine_release(&self->engine);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

/* Arrays of the state of turns, as `follow` takes them. */
typedef struct {
    Buffers all;
    int64_t *state, *settled, *counts;
    uint8_t *overfull;
    Py_ssize_t slices;
} Arrays;

static int take_arrays(Arrays *a, PyObject *state, PyObject *settled, PyObject *overfull) {
    if ((a->state = core_buffer(&a->all, state, 8, STATE, 1, "state")) &&
        (a->settled = core_buffer(&a->all, settled, 8, 1, 1, "settled"))) {
        a->slices = core_items(&a->all, 1);
        a->overfull = core_buffer(&a->all, overfull, 1, a->slices, 1, "overfull");
    }
    return a->overfull != NULL;
}

/* arm(state, settled, overfull): takes the state of the filter, for single keys. */
static PyObject *timed_arm(PyObject *object, PyObject *args) {
    TimedRing *self = (TimedRing *)object;
    PyObject *o[3];
    Arrays a = {.slices = 0};
    if (!PyArg_ParseTuple(args, "OOO", &o[0], &o[1], &o[2]) ||
        !take_arrays(&a, o[0], o[1], o[2])) {
        return core_finish(&a.all, NULL);
    }
    State s;
    memcpy(&s, a.state, sizeof s);
    if (a.slices > MOST_SLICES || s.writes < 1 || s.old < 1 || s.writes > a.slices) {
        PyErr_SetString(PyExc_ValueError, "state: must be of a ring with these slices");
        return core_finish(&a.all, NULL);
    }
    self->t.s = s;
    self->t.slices = a.slices;
    memcpy(self->settled, a.settled, (size_t)a.slices * 8);
    memcpy(self->overfull, a.overfull, (size_t)a.slices);
    look_at_slices(&self->t);
    self->engine.armed = 1;
    return core_finish(&a.all, Py_NewRef(Py_None));
}

/* disarm(state, settled, overfull, counts): gives the state back; counts of single keys are
   operations, insertions, hits, and insertions that were late. */
static PyObject *timed_disarm(PyObject *object, PyObject *args) {
    TimedRing *self = (TimedRing *)object;
    PyObject *o[4];
    Arrays a = {.slices = 0};
    if (!PyArg_ParseTuple(args, "OOOO", &o[0], &o[1], &o[2], &o[3]) ||
        !take_arrays(&a, o[0], o[1], o[2]) || a.slices != self->t.slices ||
        !(a.counts = core_buffer(&a.all, o[3], 8, 4, 1, "counts"))) {
        return core_finish(&a.all, NULL);
    }
    memcpy(a.state, &self->t.s, sizeof self->t.s);
    memcpy(a.settled, self->settled, (size_t)a.slices * 8);
    memcpy(a.overfull, self->overfull, (size_t)a.slices);
    engine_disarm(&self->engine, a.counts);
    return core_finish(&a.all, Py_NewRef(Py_None));
}

static PyMethodDef timed_methods[] = {
    {"arm", timed_arm, METH_VARARGS, "Take the state of the filter, for single keys."},
    {"disarm", timed_disarm, METH_VARARGS, "Give the state of the filter back."},
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
