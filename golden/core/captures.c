/* Records of captures, the time that passes with packets, and the bound in packets of a
   deduplication: `lately.captures.capture_loops` and `lately.dedup.dedup_loops`. */
#include "core.h"

enum { START, STOP, AT, CAPTURED, LENGTH, LINK, TIME, FROM, ROWS }; /* rows of a table of packets */
enum { MORE, CONTROL, FULL, DAMAGED };                             /* why a scan ended */
enum { LINK_OF, BASE, EXPONENT, OFFSET, SNAPLEN, COLUMNS };        /* columns of interfaces */
enum { SWAPPED = 1, SWAPPED_IF_LESS };                             /* orders of the lengths */
enum { OLD_PACKET = 2, SIMPLE_PACKET = 3, PACKET = 6 };            /* types of blocks */
enum { REACHED, ELAPSED, LATE, MOST_LATE, STEPS, UNTIMED, CLOCK }; /* state of a clock */

#define SECTION 0x0A0D0D0A
#define INTERFACE 1
#define PACKET_HEADER 28
#define NO_TIME (-1)
#define SECOND 1000000000
#define LATEST ((int64_t)1 << 62)
#define AHEAD 12 /* packets whose rows are fetched before they are looked up */

static int64_t word(const uint8_t *at, int big) {
    uint32_t little = at[0] | at[1] << 8 | at[2] << 16 | (uint32_t)at[3] << 24;
    uint32_t swapped = at[3] | at[2] << 8 | at[1] << 16 | (uint32_t)at[0] << 24;
    return big ? swapped : little;
}

/* A part of a buffer, and the table that gets the packets in it. */
typedef struct {
    const uint8_t *bytes;
    int64_t *table;
    Py_ssize_t at, end, rows, count;
    int big;
} Scan;

static int take_scan(Scan *scan, Buffers *all, PyObject *buffer, PyObject *table) {
    scan->count = 0;
    scan->bytes = core_buffer(all, buffer, 1, -1, 0, "buffer");
    scan->table = scan->bytes ? core_buffer(all, table, 8, -1, 1, "table") : NULL;
    if (!scan->table) {
        return 0;
    }
    scan->rows = core_items(all, 1) / ROWS;
    if (scan->at < 0 || scan->at > scan->end || scan->end > core_items(all, 0)) {
        PyErr_SetString(PyExc_ValueError, "at, end: must be a part of the buffer");
        return 0;
    }
    return 1;
}

static void add_packet(Scan *scan, const int64_t row[ROWS]) {
    for (int column = 0; column < ROWS; column++) {
        scan->table[column * scan->rows + scan->count] = row[column];
    }
    scan->count++;
}

static int scan_file(Scan *scan, int64_t unit, int64_t header, int order, int64_t most,
                     int64_t link) {
    while (scan->count < scan->rows) {
        if (header > scan->end - scan->at) {
            return MORE;
        }
        const uint8_t *record = scan->bytes + scan->at;
        int64_t captured = word(record + 8, scan->big), length = word(record + 12, scan->big);
        if (order == SWAPPED || (order == SWAPPED_IF_LESS && captured > length)) {
            int64_t first = captured;
            captured = length, length = first;
        }
        if (captured > most) {
            return DAMAGED;
        }
        if (captured > scan->end - scan->at - header) {
            return MORE;
        }
        int64_t time = word(record, scan->big) * SECOND + word(record + 4, scan->big) * unit;
        Py_ssize_t place = scan->at + header, stop = place + captured;
        add_packet(scan, (int64_t[]){scan->at, stop, place, captured,
                                     captured > length ? captured : length, link, time, 0});
        scan->at = stop;
    }
    return FULL;
}

/* scan_records(buffer, at, end, big, unit, header, order, most, link, table) */
static PyObject *scan_records(PyObject *self, PyObject *args) {
    PyObject *a, *b;
    long long header, most, link;
    int order, unit, reason;
    Scan scan;
    Buffers all = {.count = 0};
    (void)self;
    if (!PyArg_ParseTuple(args, "OnnpiLiLLO", &a, &scan.at, &scan.end, &scan.big, &unit, &header,
                          &order, &most, &link, &b)) {
        return NULL;
    }
    if (!take_scan(&scan, &all, a, b)) {
        return core_finish(&all, NULL);
    }
    if (header < 16 || unit < 1 || unit > SECOND) {
        PyErr_SetString(PyExc_ValueError, "header, unit: must be those of a capture");
        return core_finish(&all, NULL);
    }
    Py_BEGIN_ALLOW_THREADS
    reason = scan_file(&scan, unit, header, order, most, link);
    Py_END_ALLOW_THREADS
    return core_finish(&all, Py_BuildValue("nni", scan.at, scan.count, reason));
}

/* Time of a number of units of an interface, in nanoseconds, rounded down. */
static int64_t nanoseconds(uint64_t units, const int64_t *interface) {
    int64_t exponent = interface[EXPONENT];
    uint64_t seconds, rest, one = 1;
    if (exponent < 0 || exponent > (interface[BASE] == 10 ? 19 : 63)) {
        return NO_TIME;
    }
    if (interface[BASE] == 10) {
        for (int64_t i = 0; i < exponent; i++) {
            one *= 10;
        }
        seconds = units / one, rest = units % one;
        for (int64_t i = exponent; i < 9; i++) {
            rest *= 10;
        }
        for (int64_t i = 9; i < exponent; i++) {
            rest /= 10;
        }
    } else {
        seconds = units >> exponent, rest = units & ((one << exponent) - 1);
        if (exponent <= 32) {
            rest = rest * SECOND >> exponent;
        } else {
            rest = ((rest >> 32) * SECOND + ((rest & 0xFFFFFFFF) * SECOND >> 32)) >> (exponent - 32);
        }
    }
    if (seconds >> 33 || interface[OFFSET] >> 33 > 0 || interface[OFFSET] < -((int64_t)1 << 33)) {
        return NO_TIME;
    }
    int64_t total = (int64_t)seconds + interface[OFFSET];
    if (total < 0 || total > LATEST / SECOND) {
        return NO_TIME;
    }
    int64_t time = total * SECOND + (int64_t)rest;
    return time < LATEST ? time : NO_TIME;
}

/* Interface, place, bytes captured, which are -1 if the block cannot hold them, and bytes on the
   line of the packet of a block. */
typedef struct {
    int64_t interface, place, captured, length;
} Placed;

static Placed place_packet(const Scan *scan, int64_t kind, int64_t total, const int64_t *interfaces,
                           Py_ssize_t known) {
    const uint8_t *block = scan->bytes + scan->at;
    int64_t interface = word(block + 8, scan->big);
    if (kind == SIMPLE_PACKET) {
        int64_t captured = interface < total - 16 ? interface : total - 16;
        if (known && interfaces[SNAPLEN] && interfaces[SNAPLEN] < captured) {
            captured = interfaces[SNAPLEN];
        }
        return (Placed){0, 12, captured, interface};
    }
    if (total < PACKET_HEADER + 4) {
        return (Placed){0, 0, -1, 0};
    }
    if (kind == OLD_PACKET) {
        interface = scan->big ? interface >> 16 : interface & 0xFFFF;
    }
    int64_t captured = word(block + 20, scan->big);
    if (captured > total - PACKET_HEADER - 4) {
        captured = -1;
    }
    return (Placed){interface, PACKET_HEADER, captured, word(block + 24, scan->big)};
}

static int scan_section(Scan *scan, int64_t most, const int64_t *interfaces, Py_ssize_t known) {
    while (scan->end - scan->at >= 12) {
        const uint8_t *block = scan->bytes + scan->at;
        int64_t kind = word(block, scan->big), total = word(block + 4, scan->big);
        if (kind == SECTION || kind == INTERFACE) {
            return CONTROL;
        }
        if (total < 12 || total > most || total & 3) {
            return DAMAGED;
        }
        if (total > scan->end - scan->at) {
            return MORE;
        }
        if (word(block + total - 4, scan->big) != total) {
            return DAMAGED;
        }
        if (kind == PACKET || kind == OLD_PACKET || kind == SIMPLE_PACKET) {
            if (scan->count == scan->rows) {
                return FULL;
            }
            Placed found = place_packet(scan, kind, total, interfaces, known);
            if (found.captured < 0) {
                return DAMAGED;
            }
            int64_t link = -1, time = NO_TIME;
            if (found.interface < known) {
                const int64_t *interface = interfaces + COLUMNS * found.interface;
                link = interface[LINK_OF];
                if (kind != SIMPLE_PACKET) {
                    uint64_t units = (uint64_t)word(block + 12, scan->big) << 32;
                    time = nanoseconds(units | (uint64_t)word(block + 16, scan->big), interface);
                }
            }
            int64_t length = found.captured > found.length ? found.captured : found.length;
            add_packet(scan, (int64_t[]){scan->at, scan->at + total, scan->at + found.place,
                                         found.captured, length, link, time,
                                         found.interface});
        }
        scan->at += total;
    }
    return MORE;
}

/* scan_blocks(buffer, at, end, big, most, interfaces, table) */
static PyObject *scan_blocks(PyObject *self, PyObject *args) {
    PyObject *a, *b, *c;
    long long most;
    int reason;
    Scan scan;
    Buffers all = {.count = 0};
    (void)self;
    if (!PyArg_ParseTuple(args, "OnnpLOO", &a, &scan.at, &scan.end, &scan.big, &most, &b, &c)) {
        return NULL;
    }
    const int64_t *interfaces = NULL;
    if (take_scan(&scan, &all, a, c)) {
        interfaces = core_buffer(&all, b, 8, -1, 0, "interfaces");
    }
    if (!interfaces) {
        return core_finish(&all, NULL);
    }
    Py_ssize_t known = core_items(&all, 2) / COLUMNS;
    Py_BEGIN_ALLOW_THREADS
    reason = scan_section(&scan, most, interfaces, known);
    Py_END_ALLOW_THREADS
    return core_finish(&all, Py_BuildValue("nni", scan.at, scan.count, reason));
}

/* follow_clock(times, span, silence, state, elapsed): as `PacketClock.follow`. */
static PyObject *follow_clock(PyObject *self, PyObject *args) {
    PyObject *a, *b, *c;
    long long span, silence;
    Buffers all = {.count = 0};
    (void)self;
    if (!PyArg_ParseTuple(args, "OLLOO", &a, &span, &silence, &b, &c)) {
        return NULL;
    }
    const int64_t *times = core_buffer(&all, a, 8, -1, 0, "times");
    Py_ssize_t count = times ? core_items(&all, 0) : 0;
    int64_t *state = times ? core_buffer(&all, b, 8, CLOCK, 1, "state") : NULL;
    int64_t *elapsed = state ? core_buffer(&all, c, 8, count, 1, "elapsed") : NULL;
    if (!elapsed) {
        return core_finish(&all, NULL);
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < count; i++) {
        int64_t time = times[i];
        if (state[ELAPSED] < LATEST && time == NO_TIME) {
            state[UNTIMED]++;
        } else if (state[ELAPSED] < LATEST && state[REACHED] == NO_TIME) {
            state[REACHED] = time;
        } else if (state[ELAPSED] < LATEST) {
            int64_t before = state[REACHED] - time;
            if (before > span) {
                state[STEPS]++;
                state[REACHED] = time;
                state[ELAPSED] += silence;
            } else if (before > 0) {
                state[LATE]++;
                state[MOST_LATE] = before > state[MOST_LATE] ? before : state[MOST_LATE];
            } else {
                state[REACHED] = time;
                state[ELAPSED] += -before < silence ? -before : silence;
            }
        }
        elapsed[i] = state[ELAPSED];
    }
    Py_END_ALLOW_THREADS
    return core_finish(&all, Py_NewRef(Py_None));
}

/* Row of a digest, or the free row for the digest. */
static size_t find_row(const uint64_t *keys, const int64_t *numbers, uint64_t digest, size_t mask) {
    size_t row = digest & mask;
    for (size_t tried = 0; tried < mask && numbers[row] && keys[row] != digest; tried++) {
        row = (row + 1) & mask;
    }
    return row;
}

/* hold_window(digests, seen, first, window, keys, numbers, state): as `PacketWindow.hold`; state
   is the table in use and the number of its digests. */
static PyObject *hold_window(PyObject *self, PyObject *args) {
    PyObject *a, *b, *c, *d, *e;
    long long first, window;
    Buffers all = {.count = 0};
    (void)self;
    if (!PyArg_ParseTuple(args, "OOLLOOO", &a, &b, &first, &window, &c, &d, &e)) {
        return NULL;
    }
    const uint64_t *digests = core_buffer(&all, a, 8, -1, 0, "digests");
    Py_ssize_t count = digests ? core_items(&all, 0) : 0;
    uint8_t *seen = digests ? core_buffer(&all, b, 1, count, 1, "seen") : NULL;
    uint64_t *keys = seen ? core_buffer(&all, c, 8, 4, 1, "keys") : NULL;
    size_t rows = keys ? (size_t)core_items(&all, 2) / 2 : 0, mask = rows - 1;
    int64_t *numbers = keys ? core_buffer(&all, d, 8, 2 * rows, 1, "numbers") : NULL;
    int64_t *state = numbers ? core_buffer(&all, e, 8, 2, 1, "state") : NULL;
    if (!state) {
        return core_finish(&all, NULL);
    }
    if (rows & mask) {
        PyErr_SetString(PyExc_ValueError, "keys: must be two rows of a power of two");
        return core_finish(&all, NULL);
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < count; i++) {
        size_t table = state[0] & 1, new = table * rows, old = rows - new;
        if (i + AHEAD < count) {
            size_t ahead = digests[i + AHEAD] & mask;
            __builtin_prefetch(keys + new + ahead, 1);
            __builtin_prefetch(numbers + new + ahead, 1);
            if (seen[i + AHEAD]) {
                __builtin_prefetch(keys + old + ahead);
                __builtin_prefetch(numbers + old + ahead);
            }
        }
        size_t row = new + find_row(keys + new, numbers + new, digests[i], mask);
        int64_t last = numbers[row];
        if (last == 0) {
            state[1]++;
            if (seen[i]) {
                last = numbers[old + find_row(keys + old, numbers + old, digests[i], mask)];
            }
        }
        if (last && first + i - last > window) {
            seen[i] = 0;
        }
        keys[row] = digests[i];
        numbers[row] = first + i;
        if (2 * (size_t)state[1] >= rows) {
            state[0] = (int64_t)(1 - table);
            state[1] = 0;
            memset(numbers + old, 0, 8 * rows);
        }
    }
    Py_END_ALLOW_THREADS
    return core_finish(&all, Py_NewRef(Py_None));
}

/* judge_copies(digests, seen, elapsed, found, (first, window, span, differs, refresh), keys, numbers,
   times, properties, state): as `CopyTable.judge`. */
static PyObject *judge_copies(PyObject *self, PyObject *args) {
    PyObject *given[9];
    long long first, window, span;
    int differs, refresh;
    Buffers all = {.count = 0};
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOO(LLLpp)OOOOO", &given[0], &given[1], &given[2], &given[3],
                          &first, &window, &span, &differs, &refresh, &given[4], &given[5],
                          &given[6], &given[7], &given[8])) {
        return NULL;
    }
    void *taken[9];
    Py_ssize_t count = -1, rows = 4;
    for (int i = 0; i < 9; i++) {
        Py_ssize_t items = i < 4 ? count : i < 8 ? rows : 2;
        taken[i] = core_buffer(&all, given[i], i == 1 ? 1 : 8, items, i == 1 || i > 3, "table");
        if (!taken[i]) {
            return core_finish(&all, NULL);
        }
        count = i == 0 ? core_items(&all, 0) : count;
        rows = i == 4 ? core_items(&all, 4) : rows;
    }
    const uint64_t *digests = taken[0], *found = taken[3];
    const int64_t *elapsed = taken[2];
    uint8_t *seen = taken[1];
    uint64_t *keys = taken[4], *properties = taken[7];
    int64_t *numbers = taken[5], *times = taken[6], *state = taken[8];
    size_t half = (size_t)rows / 2, mask = half - 1;
    if (half & mask) {
        PyErr_SetString(PyExc_ValueError, "keys: must be two rows of a power of two");
        return core_finish(&all, NULL);
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < count; i++) {
        size_t new = state[0] & 1 ? half : 0, old = half - new;
        size_t row = new + find_row(keys + new, numbers + new, digests[i], mask), at = row;
        if (!numbers[row] && seen[i]) {
            at = old + find_row(keys + old, numbers + old, digests[i], mask);
        }
        int near = numbers[at] && first + i - numbers[at] <= window && elapsed[i] - times[at] <= span;
        seen[i] = seen[i] && near && !(differs && properties[at] == found[i]);
        if (!seen[i] || refresh) {
            state[1] += !numbers[row];
            properties[row] = seen[i] ? properties[at] : found[i];
            keys[row] = digests[i];
            numbers[row] = first + i;
            times[row] = elapsed[i];
        }
        if (2 * (size_t)state[1] >= half) {
            state[0] = new ? 0 : 1;
            state[1] = 0;
            memset(numbers + old, 0, 8 * half);
        }
    }
    Py_END_ALLOW_THREADS
    return core_finish(&all, Py_NewRef(Py_None));
}

PyMethodDef core_captures_methods[] = {
    {"scan_records", scan_records, METH_VARARGS, "Find the records of a pcap file."},
    {"scan_blocks", scan_blocks, METH_VARARGS, "Find the packets of a section of a pcapng file."},
    {"follow_clock", follow_clock, METH_VARARGS, "Measure the time that passes with packets."},
    {"hold_window", hold_window, METH_VARARGS, "Hold the bound in packets of a deduplication."},
    {"judge_copies", judge_copies, METH_VARARGS, "Tell copies of packets from repeats."},
    {NULL, NULL, 0, NULL},
};
