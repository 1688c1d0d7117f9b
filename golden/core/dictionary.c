/* Operations of a window dictionary: `lately.golden.cuckoo.window_loop`, which says how. */
#include "calls.h"

#define MOST_COLUMNS 64
#define FETCHED (1 << 16) /* cells up to which nothing is fetched ahead */

/* State of a dictionary that is not in its cells. */
typedef struct {
    int64_t insertions, lost, youngest_lost, stash_peak;
} Numbers;

#define NUMBERS 4 /* of a dictionary; three counts of single keys follow in the vector */

typedef struct {
    int64_t time, held;
} Cell;

typedef struct {
    Engine engine;
    Buffers buffers; /* offsets and the three arrays */
    const int64_t *offsets;
    uint64_t *packed;    /* offsets of several columns in one word: groups x bytes x 256 */
    Py_ssize_t together; /* columns of a group */
    Cell *cells;
    int64_t *stash_times, *stash;
    Py_ssize_t columns, rows, bytes, places;
    int row_bits;
    int64_t window, moves;
    int64_t stashed; /* places of the stash that are written, while operations run */
    Numbers numbers;
    Secret secret;
} Dictionary;

/* Answers to operations; each may be NULL. */
typedef struct {
    int64_t *ages, *guaranteed;
    uint8_t *seen;
    int64_t hits;
} Answers;

/* The value that a column adds to a row, from the remainder. */
ALWAYS int64_t row_offset(const Dictionary *d, Py_ssize_t column, int64_t rest) {
    const int64_t *tables = d->offsets + column * d->bytes * 256;
    int64_t sum = 0;
    for (Py_ssize_t byte = 0; byte < d->bytes; byte++) {
        sum ^= tables[byte * 256 + (rest >> (8 * byte) & 255)];
    }
    return sum;
}

static int64_t count_stashed(const Dictionary *d) {
    int64_t count = 0;
    for (Py_ssize_t slot = 0; slot < d->places; slot++) {
        count += d->stash_times[slot] != 0;
    }
    return count;
}

static Py_ssize_t oldest_slot(const Dictionary *d) {
    Py_ssize_t oldest = 0;
    for (Py_ssize_t slot = 1; slot < d->places; slot++) {
        if (d->stash_times[slot] < d->stash_times[oldest]) {
            oldest = slot;
        }
    }
    return oldest;
}

/* Puts an entry in the stash, in place of the oldest one. */
static void put_in_stash(Dictionary *d, Py_ssize_t slot, int64_t time, int64_t digest) {
    int64_t now = d->numbers.insertions, live = 0, before = d->stash_times[slot];
    if (before && now - before < d->window) {
        d->numbers.lost++;
        if (before > d->numbers.youngest_lost) {
            d->numbers.youngest_lost = before;
        }
    }
    d->stashed += !before;
    d->stash_times[slot] = time;
    d->stash[slot] = digest;
    for (Py_ssize_t other = 0; other < d->places; other++) {
        live += d->stash_times[other] > 0 && now - d->stash_times[other] < d->window;
    }
    if (live > d->numbers.stash_peak) {
        d->numbers.stash_peak = live;
    }
}

/* Inserts a digest for which no cell is free: moves entries, then takes a place of the stash. */
static void insert_crowded(Dictionary *d, int64_t rest, int64_t place, Py_ssize_t slot) {
    int64_t now = d->numbers.insertions, time = now;
    Py_ssize_t column = d->columns / 2;
    int64_t row = place - column * d->rows;
    for (int64_t moved = 0; moved < d->moves; moved++) {
        Py_ssize_t at = column * d->rows + row, after = (column + 1) % d->columns;
        Cell other = d->cells[at];
        d->cells[at] = (Cell){time, rest};
        time = other.time;
        rest = other.held;
        if (time == 0 || now - time >= d->window) {
            return;
        }
        row ^= row_offset(d, column, rest) ^ row_offset(d, after, rest);
        column = after;
    }
    row ^= row_offset(d, column, rest);
    put_in_stash(d, slot >= 0 ? slot : oldest_slot(d), time, rest << d->row_bits | row);
}

/* Searches a digest in the stash; an operation that writes or removes the key takes it out. Returns
   its time, or `last`. */
static int64_t look_in_stash(Dictionary *d, int code, int64_t digest, int64_t last,
                             Py_ssize_t *freed) {
    int64_t now = d->numbers.insertions;
    int there = 0;
    for (Py_ssize_t slot = 0; slot < d->places; slot++) {
        there |= d->stash[slot] == digest;
    }
    for (Py_ssize_t slot = 0; there && slot < d->places; slot++) {
        int64_t time = d->stash_times[slot];
        if (d->stash[slot] == digest && time && now < time + d->window) {
            last = time;
            if (code & (INSERT | REMOVE)) {
                d->stash_times[slot] = 0;
                d->stashed--;
                *freed = slot;
            }
        }
    }
    return last;
}

/* Performs an operation on a key; returns insertions since its own, -1 if it is not reported. */
ALWAYS int64_t perform_key(Dictionary *d, Py_ssize_t columns, int code, int64_t low, int64_t rest,
                           const uint64_t (*places)[CHUNK], Py_ssize_t i, int64_t asked,
                           int64_t *guaranteed) {
    int64_t now = d->numbers.insertions, found = -1, free = -1, window = d->window;
    int64_t expired = now + 1 > window ? now + 1 - window : 0, oldest = expired ? expired : 1;
    /* Without branches, as none could be foreseen. */
    for (Py_ssize_t column = 0; column < columns; column++) {
        int64_t at = (int64_t)places[column][i];
        Cell cell = d->cells[at];
        int match = (cell.time >= oldest) & (cell.held == rest);
        int vacant = (free < 0) & !match & (cell.time <= expired);
        found = match ? at : found;
        free = vacant ? at : free;
    }
    int64_t last = found >= 0 ? d->cells[found].time : 0;
    Py_ssize_t freed = -1;
    if (d->stashed) {
        last = look_in_stash(d, code, rest << d->row_bits | low, last, &freed);
    }
    if (guaranteed) {
        int64_t since = now - d->numbers.youngest_lost;
        *guaranteed = d->numbers.lost && since < window ? since : window;
    }
    int reported = ((code & QUERY) != 0) & (last != 0) & (now - last < asked);
    int64_t age = reported ? now - last : -1;
    if ((code & REMOVE) && found >= 0) {
        d->cells[found].time = 0;
    }
    if (code & INSERT) {
        d->numbers.insertions++;
        found = found >= 0 ? found : free;
        if (found >= 0) {
            d->cells[found] = (Cell){now + 1, rest};
        } else {
            insert_crowded(d, rest, (int64_t)places[columns / 2][i], freed);
        }
    }
    return age;
}

/* Rows of `found`: low part of the digest, rest, then the place in each column. */
typedef uint64_t Found[MOST_COLUMNS + 2][CHUNK];

WIDE static void find_places(const Dictionary *d, const uint64_t *states, Py_ssize_t count,
                             uint64_t (*found)[CHUNK]) {
    hash_indices(d->engine.hash, states, count, 0, found);
    uint64_t sums[CHUNK], mask = (uint64_t)d->rows - 1;
    const uint64_t *table = d->packed;
    for (Py_ssize_t first = 0; first < d->columns; first += d->together) {
        for (Py_ssize_t i = 0; i < count; i++) {
            sums[i] = 0;
        }
        for (Py_ssize_t byte = 0; byte < d->bytes; byte++, table += 256) {
            for (Py_ssize_t i = 0; i < count; i++) {
                sums[i] ^= table[found[1][i] >> (8 * byte) & 255];
            }
        }
        for (Py_ssize_t column = first; column < first + d->together && column < d->columns;
             column++) {
            uint64_t begin = (uint64_t)(column * d->rows);
            int shift = (int)(column - first) * d->row_bits;
            for (Py_ssize_t i = 0; i < count; i++) {
                found[column + 2][i] = begin + (found[0][i] ^ (sums[i] >> shift & mask));
            }
        }
    }
}

static void fetch(const Dictionary *d, uint64_t (*found)[CHUNK], Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++) {
        for (Py_ssize_t column = 0; column < d->columns; column++) {
            __builtin_prefetch(d->cells + found[column + 2][i], 1);
        }
    }
}

ALWAYS void perform_columns(Dictionary *d, Py_ssize_t columns, const uint8_t *codes, int code,
                            const int64_t *windows, uint64_t (*found)[CHUNK], Py_ssize_t first,
                            Py_ssize_t count, Answers *answers) {
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_ssize_t at = first + i;
        int64_t *guaranteed = answers->guaranteed ? answers->guaranteed + at : NULL;
        int64_t age = perform_key(d, columns, codes ? codes[at] : code, (int64_t)found[0][i],
                                  (int64_t)found[1][i], (const uint64_t(*)[CHUNK])(found + 2), i,
                                  windows ? windows[at] : d->window, guaranteed);
        answers->hits += age >= 0;
        if (answers->ages) {
            answers->ages[at] = age;
        }
        if (answers->seen) {
            answers->seen[at] = age >= 0;
        }
    }
}

static void perform(Dictionary *d, const uint8_t *codes, int code, const uint64_t *keys,
                    const int64_t *windows, Py_ssize_t count, Answers *answers) {
    uint64_t states[CHUNK];
    Found found;
    d->stashed = count_stashed(d);
    for (Py_ssize_t at = 0; at < count; at += CHUNK) {
        Py_ssize_t part = count - at < CHUNK ? count - at : CHUNK;
        hash_states(d->engine.hash, keys + at * d->engine.hash->words, part, d->secret, states);
        find_places(d, states, part, found);
        if (d->columns * d->rows > FETCHED) {
            fetch(d, found, part);
        }
#define COLUMNS(n)                                                                               \
    case n: perform_columns(d, n, codes, code, windows, found, at, part, answers); break;
        switch (d->columns) { /* the usual numbers of columns are constants */
            COLUMNS(3) COLUMNS(4) COLUMNS(5) COLUMNS(6) COLUMNS(7) COLUMNS(8) COLUMNS(9)
            COLUMNS(10) COLUMNS(11) COLUMNS(12)
        default: perform_columns(d, d->columns, codes, code, windows, found, at, part, answers);
        }
    }
}

static int64_t perform_one(Engine *engine, int code, const uint64_t *key) {
    int64_t age = -1;
    Answers answers = {.ages = &age};
    perform((Dictionary *)engine, NULL, code, key, NULL, 1, &answers);
    return age;
}

/* The type */

static PyTypeObject *dictionary_type;

static int take_arrays(Dictionary *d, PyObject *arrays[4]) {
    const char *names[] = {"offsets", "cells", "stash_times", "stash"};
    void *buffers[4];
    for (int i = 0; i < 4; i++) {
        buffers[i] = core_buffer(&d->buffers, arrays[i], 8, -1, i > 0, names[i]);
        if (!buffers[i]) {
            return -1;
        }
    }
    d->offsets = buffers[0];
    d->cells = buffers[1];
    d->stash_times = buffers[2];
    d->stash = buffers[3];
    d->places = core_items(&d->buffers, 2);
    return 0;
}

/* Whether every row is within its column, and every column within the arrays. */
static int shape_fits(const Dictionary *d) {
    const Hash *hash = d->engine.hash;
    Py_ssize_t cells = core_items(&d->buffers, 1) / 2;
    if (d->columns < 1 || d->columns > MOST_COLUMNS || cells % d->columns || hash->fields != 2 ||
        core_items(&d->buffers, 1) % 2 || d->places < 1 ||
        core_items(&d->buffers, 3) != d->places || d->bytes < 0 || d->bytes > 7 ||
        core_items(&d->buffers, 0) != d->columns * d->bytes * 256 || d->window < 1 ||
        d->window > (int64_t)1 << 61 || d->moves < 0) {
        return 0;
    }
    if (d->rows != (Py_ssize_t)1 << d->row_bits || hash->field[0].size != (uint64_t)d->rows) {
        return 0;
    }
    for (Py_ssize_t i = 0; i < d->columns * d->bytes * 256; i++) {
        if (d->offsets[i] < 0 || d->offsets[i] >= d->rows) {
            return 0;
        }
    }
    return 1;
}

/* Packs the offsets of several columns together. */
static int pack_offsets(Dictionary *d) {
    d->together = d->row_bits ? 64 / d->row_bits : d->columns;
    Py_ssize_t groups = (d->columns + d->together - 1) / d->together, size = d->bytes * 256;
    d->packed = PyMem_Calloc((size_t)(groups * size) + 1, 8);
    if (!d->packed) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t column = 0; column < d->columns; column++) {
        uint64_t *table = d->packed + column / d->together * size;
        int shift = (int)(column % d->together) * d->row_bits;
        for (Py_ssize_t i = 0; i < size; i++) {
            table[i] |= (uint64_t)d->offsets[column * size + i] << shift;
        }
    }
    return 0;
}

/* Dictionary(hash, columns, window, moves, offsets, cells, stash_times, stash): a cell is two
   words, its time and what it holds. */
static PyObject *dictionary_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    PyObject *a, *arrays[4];
    Py_ssize_t columns;
    long long window, moves;
    (void)named;
    if (!PyArg_ParseTuple(args, "OnLLOOOO", &a, &columns, &window, &moves, &arrays[0], &arrays[1],
                          &arrays[2], &arrays[3])) {
        return NULL;
    }
    const Hash *hash = hash_within(a);
    Dictionary *d = hash ? (Dictionary *)PyType_GenericAlloc(type, 0) : NULL;
    if (!d) {
        return NULL;
    }
    d->engine.one = perform_one;
    engine_hash(&d->engine, a);
    d->columns = columns;
    d->window = window;
    d->moves = moves;
    if (take_arrays(d, arrays) < 0) {
        Py_DECREF((PyObject *)d);
        return NULL;
    }
    d->rows = columns > 0 ? core_items(&d->buffers, 1) / 2 / columns : 0;
    d->bytes = columns > 0 ? core_items(&d->buffers, 0) / columns / 256 : 0;
    while (d->row_bits < 32 && (Py_ssize_t)1 << d->row_bits < d->rows) {
        d->row_bits++;
    }
    if (!shape_fits(d)) {
        Py_DECREF((PyObject *)d);
        PyErr_SetString(PyExc_ValueError, "cells: must have the cells of all columns");
        return NULL;
    }
    if (pack_offsets(d) < 0) {
        Py_DECREF((PyObject *)d);
        return NULL;
    }
    return (PyObject *)d;
}

static void dictionary_dealloc(PyObject *self) {
    Dictionary *d = (Dictionary *)self;
    PyTypeObject *type = Py_TYPE(self);
    core_finish(&d->buffers, NULL);
    PyMem_Free(d->packed);
    engine_release(&d->engine);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static int take_numbers(Dictionary *d, const int64_t *vector, const Secret *secret) {
    const int64_t most = (int64_t)1 << 62;
    for (int i = 0; i < NUMBERS; i++) {
        if (vector[i] < 0 || vector[i] > most || d->engine.armed) {
            PyErr_SetString(PyExc_ValueError, "numbers: must be of a dictionary at rest");
            return -1;
        }
    }
    memcpy(&d->numbers, vector, sizeof d->numbers);
    d->secret = *secret;
    return 0;
}

/* perform(numbers, secret, operations, keys, windows, ages, guaranteed, seen): performs
   operations; returns the hits.

   The operations are an array of codes, or the code of all. Windows and answers may be None. */
static PyObject *dictionary_perform(PyObject *self, PyObject *args) {
    Dictionary *d = (Dictionary *)self;
    PyObject *a, *b, *c, *k, *w, *e, *f, *g;
    Buffers all = {.count = 0};
    if (!PyArg_ParseTuple(args, "OOOOOOOO", &a, &b, &c, &k, &w, &e, &f, &g)) {
        return NULL;
    }
    long code = PyLong_Check(c) ? PyLong_AsLong(c) & 255 : 0;
    int64_t *vector = core_buffer(&all, a, 8, NUMBERS + 3, 1, "numbers");
    Secret *secret = vector ? core_buffer(&all, b, 8, 2, 0, "secret") : NULL;
    uint64_t *keys = secret ? core_buffer(&all, k, 8, -1, 0, "keys") : NULL;
    if (!keys) {
        return core_finish(&all, NULL);
    }
    Py_ssize_t count = core_items(&all, 2) / d->engine.hash->words;
    Answers answers = {0};
    uint8_t *codes = NULL;
    int64_t *windows = NULL;
    if ((!PyLong_Check(c) && !(codes = core_buffer(&all, c, 1, count, 0, "operations"))) ||
        (w != Py_None && !(windows = core_buffer(&all, w, 8, count, 0, "windows"))) ||
        (e != Py_None && !(answers.ages = core_buffer(&all, e, 8, count, 1, "ages"))) ||
        (f != Py_None && !(answers.guaranteed = core_buffer(&all, f, 8, count, 1, "covered"))) ||
        (g != Py_None && !(answers.seen = core_buffer(&all, g, 1, count, 1, "seen"))) ||
        take_numbers(d, vector, secret) < 0) {
        return core_finish(&all, NULL);
    }
    if (count < FREE_KEYS) {
        perform(d, codes, (int)code, keys, windows, count, &answers);
    } else {
        Py_BEGIN_ALLOW_THREADS
        perform(d, codes, (int)code, keys, windows, count, &answers);
        Py_END_ALLOW_THREADS
    }
    memcpy(vector, &d->numbers, sizeof d->numbers);
    return core_finish(&all, PyLong_FromLongLong(answers.hits));
}

/* arm(numbers, secret): takes the state of the filter, for single keys. */
static PyObject *dictionary_arm(PyObject *self, PyObject *args) {
    Dictionary *d = (Dictionary *)self;
    PyObject *a, *b;
    Buffers all = {.count = 0};
    if (!PyArg_ParseTuple(args, "OO", &a, &b)) {
        return NULL;
    }
    int64_t *vector = core_buffer(&all, a, 8, NUMBERS + 3, 0, "numbers");
    Secret *secret = vector ? core_buffer(&all, b, 8, 2, 0, "secret") : NULL;
    if (!secret || take_numbers(d, vector, secret) < 0) {
        return core_finish(&all, NULL);
    }
    d->engine.armed = 1;
    return core_finish(&all, Py_NewRef(Py_None));
}

/* disarm(numbers): gives the state of the filter back. */
static PyObject *dictionary_disarm(PyObject *self, PyObject *object) {
    Dictionary *d = (Dictionary *)self;
    Buffers all = {.count = 0};
    int64_t *vector = core_buffer(&all, object, 8, NUMBERS + 3, 1, "numbers");
    if (!vector) {
        return NULL;
    }
    memcpy(vector, &d->numbers, sizeof d->numbers);
    engine_disarm(&d->engine, vector + NUMBERS);
    return core_finish(&all, Py_NewRef(Py_None));
}

static PyMethodDef methods[] = {
    {"perform", dictionary_perform, METH_VARARGS, "Perform operations; return the hits."},
    {"arm", dictionary_arm, METH_VARARGS, "Take the state of the filter, for single keys."},
    {"disarm", dictionary_disarm, METH_O, "Give the state of the filter back."},
    {NULL, NULL, 0, NULL},
};

int core_add_dictionary(PyObject *module) {
    PyType_Slot slots[] = {{Py_tp_base, engine_type},
                           {Py_tp_new, dictionary_new},
                           {Py_tp_dealloc, dictionary_dealloc},
                           {Py_tp_methods, methods},
                           {0, NULL}};
    return core_add_type(module, &dictionary_type, "lately.golden._core.Dictionary",
                         sizeof(Dictionary), slots);
}
