/* Records of captures, elapsed times and copies of packets: `lately.captures.capture_loops`,
   `lately.dedup.deduplicate` and `lately.golden.packets.copies`. */
#include "core.h"

enum { START, STOP, AT, CAPTURED, LENGTH, LINK, TIME, FROM, ROWS }; /* rows of a table of packets */
enum { MORE, CONTROL, FULL, DAMAGED };                             /* why a scan ended */
enum { LINK_OF, BASE, EXPONENT, OFFSET, SNAPLEN, COLUMNS };        /* columns of interfaces */
enum { SWAPPED = 1, SWAPPED_IF_LESS };                             /* orders of the lengths */
enum { OLD_PACKET = 2, SIMPLE_PACKET = 3, PACKET = 6 };            /* types of blocks */
enum { REACHED, ELAPSED, LATE, MAX_LATE, STEPS, UNTIMED, CLOCK }; /* state of a clock */

#define SECTION 0x0A0D0D0A
#define INTERFACE 1
#define NOT_COPIED 0x40000BAD
#define PACKET_HEADER 28
#define NO_TIME (-1)
#define SECOND 1000000000
#define LATEST ((int64_t)1 << 62)
#define AHEAD 12 /* how many packets ahead rows are prefetched */

static int64_t word(const uint8_t *at, int big) {
    uint32_t little = at[0] | at[1] << 8 | at[2] << 16 | (uint32_t)at[3] << 24;
    uint32_t swapped = at[3] | at[2] << 8 | at[1] << 16 | (uint32_t)at[0] << 24;
    return big ? swapped : little;
}

/* A part of a buffer, and the table to which its packets are written. */
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

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Converts a time in units of an interface to nanoseconds, rounded down. */
static int64_t nanoseconds(uint64_t units, const int64_t *interface) {
    int64_t exponent = interface[EXPONENT], offset = interface[OFFSET];
    uint64_t base = interface[BASE] == 10 ? 10 : 2, one = 1;
    if (exponent < 0 || exponent > (base == 10 ? 19 : 63)) {
        return NO_TIME;
    }
    for (int64_t i = 0; i < exponent; i++) {
        one *= base;
    }
    uint64_t seconds = units / one, rest = units % one;
    /* 64-bit divisions are faster. */
    rest = one >> 34 ? (uint64_t)((unsigned __int128)rest * SECOND / one) : rest * SECOND / one;
    if (seconds >> 33 || offset >> 33 > 0 || offset < -((int64_t)1 << 33)) {
        return NO_TIME;
    }
    int64_t total = (int64_t)seconds + offset;
    if (total < 0 || total > LATEST / SECOND) {
        return NO_TIME;
    }
    int64_t time = total * SECOND + (int64_t)rest;
    return time < LATEST ? time : NO_TIME;
}

/* Adds the packet of a block to the table; returns 0 if the block is too short for it. */
static int add_block(Scan *scan, int64_t kind, int64_t total, const int64_t *interfaces,
                     Py_ssize_t known) {
    const uint8_t *block = scan->bytes + scan->at;
    int64_t number = word(block + 8, scan->big), place = PACKET_HEADER, captured, length;
    int64_t time = NO_TIME;
    if (kind == SIMPLE_PACKET) {
        length = number, number = 0, place = 12;
        captured = least(length, total - 16);
        captured = known && interfaces[SNAPLEN] ? least(captured, interfaces[SNAPLEN]) : captured;
    } else if (total < PACKET_HEADER + 4 ||
               (captured = word(block + 20, scan->big)) > total - PACKET_HEADER - 4) {
        return 0;
    } else {
        length = word(block + 24, scan->big);
        number = kind != OLD_PACKET ? number : scan->big ? number >> 16 : number & 0xFFFF;
    }
    if (captured < 0) {
        return 0;
    }
    const int64_t *interface = number < known ? interfaces + COLUMNS * number : NULL;
    if (interface && kind != SIMPLE_PACKET) {
        uint64_t units = (uint64_t)word(block + 12, scan->big) << 32;
        time = nanoseconds(units | (uint64_t)word(block + 16, scan->big), interface);
    }
    add_packet(scan, (int64_t[]){scan->at, scan->at + total, scan->at + place, captured,
                                 captured > length ? captured : length,
                                 interface ? interface[LINK_OF] : -1, time, number});
    return 1;
}

static int scan_section(Scan *scan, int64_t most, const int64_t *interfaces, Py_ssize_t known) {
    while (scan->end - scan->at >= 12) {
        const uint8_t *block = scan->bytes + scan->at;
        int64_t kind = word(block, scan->big), total = word(block + 4, scan->big);
        if (kind == SECTION || kind == INTERFACE || kind == NOT_COPIED) {
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
            if (!add_block(scan, kind, total, interfaces, known)) {
                return DAMAGED;
            }
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
    const int64_t *interfaces =
        take_scan(&scan, &all, a, c) ? core_buffer(&all, b, 8, -1, 0, "interfaces") : NULL;
    if (!interfaces) {
        return core_finish(&all, NULL);
    }
    Py_ssize_t known = core_items(&all, 2) / COLUMNS;
    Py_BEGIN_ALLOW_THREADS
    reason = scan_section(&scan, most, interfaces, known);
    Py_END_ALLOW_THREADS
    return core_finish(&all, Py_BuildValue("nni", scan.at, scan.count, reason));
}

/* follow_clock(times, span, silence, state, elapsed): like `PacketClock.follow`. */
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
        int64_t before = state[REACHED] - times[i];
        int started = state[REACHED] != NO_TIME, step = started && before > span;
        if (state[ELAPSED] < LATEST && times[i] == NO_TIME) {
            state[UNTIMED]++;
        } else if (state[ELAPSED] < LATEST && started && !step && before > 0) {
            state[LATE]++;
            state[MAX_LATE] = before > state[MAX_LATE] ? before : state[MAX_LATE];
        } else if (state[ELAPSED] < LATEST) {
            state[STEPS] += step;
            state[ELAPSED] += step ? silence : started ? least(-before, silence) : 0;
            state[REACHED] = times[i];
        }
        elapsed[i] = state[ELAPSED];
    }
    Py_END_ALLOW_THREADS
    return core_finish(&all, Py_NewRef(Py_None));
}

/* The last packet of a digest in a `CopyTable`; `number` is 0 in a free row. */
typedef struct {
    uint64_t digest;
    int64_t number, time;
    uint64_t property;
} Row;

/* Row of a digest, or the free row for the digest. */
static Row *find_row(Row *table, uint64_t digest, size_t mask) {
    Row *row = table + (digest & mask);
    for (size_t tried = 0; tried < mask && row->number && row->digest != digest; tried++) {
        row = row == table + mask ? table : row + 1;
    }
    return row;
}

/* judge_copies(digests, seen, elapsed, found, last, (first, window, span, exact, differs, refresh),
   rows, state): like `CopyTable.judge`; state is the table in use, and its number of digests. */
static PyObject *judge_copies(PyObject *self, PyObject *args) {
    PyObject *given[7];
    long long first, window, span;
    int exact, differs, refresh;
    Buffers all = {.count = 0};
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOOO(LLLppp)OO", &given[0], &given[1], &given[2], &given[3],
                          &given[4], &first, &window, &span, &exact, &differs, &refresh, &given[5],
                          &given[6])) {
        return NULL;
    }
    void *taken[7];
    Py_ssize_t count = -1;
    for (int i = 0; i < 7; i++) {
        Py_ssize_t items = i < 5 ? count : i == 5 ? -1 : 2;
        taken[i] = core_buffer(&all, given[i], i == 1 ? 1 : 8, items, i == 1 || i > 3, "table");
        if (!taken[i]) {
            return core_finish(&all, NULL);
        }
        count = i == 0 ? core_items(&all, 0) : count;
    }
    const uint64_t *digests = taken[0], *found = taken[3];
    const int64_t *elapsed = taken[2];
    uint8_t *seen = taken[1];
    int64_t *last = taken[4], *state = taken[6];
    size_t rows = (size_t)core_items(&all, 5) / 8, mask = rows - 1;
    Row *tables[2] = {taken[5], (Row *)taken[5] + rows};
    if (rows < 2 || rows & mask || core_items(&all, 5) % 8) {
        PyErr_SetString(PyExc_ValueError, "rows: must be two tables of a power of two");
        return core_finish(&all, NULL);
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < count; i++) {
        Row *new = tables[state[0] & 1], *old = tables[~state[0] & 1];
        if (i + AHEAD < count) {
            __builtin_prefetch(new + (digests[i + AHEAD] & mask), 1);
            if (seen[i + AHEAD]) {
                __builtin_prefetch(old + (digests[i + AHEAD] & mask));
            }
        }
        Row *row = find_row(new, digests[i], mask), *at = row;
        if (!row->number && seen[i]) {
            at = find_row(old, digests[i], mask);
        }
        last[i] = at->number;
        int near = first + i - at->number <= window && elapsed[i] - at->time <= span;
        int copied = at->number ? near && !(differs && at->property == found[i]) : !exact;
        seen[i] = seen[i] && copied;
        if (!seen[i] || refresh) {
            state[1] += !row->number;
            uint64_t property = seen[i] && at->number ? at->property : found[i];
            *row = (Row){digests[i], first + i, elapsed[i], property};
        }
        if (2 * (size_t)state[1] >= rows) {
            state[0] = ~state[0] & 1;
            state[1] = 0;
            memset(old, 0, rows * sizeof(Row));
        }
    }
    Py_END_ALLOW_THREADS
    return core_finish(&all, Py_NewRef(Py_None));
}

/* copy_parts(source, target, begins, sizes, places): like `capture_loops.copy_parts`. */
static PyObject *copy_parts(PyObject *self, PyObject *args) {
    PyObject *a, *b, *c, *d, *e;
    int inside = 1;
    Buffers all = {.count = 0};
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOOO", &a, &b, &c, &d, &e)) {
        return NULL;
    }
    const uint8_t *source = core_buffer(&all, a, 1, -1, 0, "source");
    uint8_t *target = source ? core_buffer(&all, b, 1, -1, 1, "target") : NULL;
    const int64_t *begins = target ? core_buffer(&all, c, 8, -1, 0, "begins") : NULL;
    Py_ssize_t count = begins ? core_items(&all, 2) : 0;
    const int64_t *sizes = begins ? core_buffer(&all, d, 8, count, 0, "sizes") : NULL;
    const int64_t *places = sizes ? core_buffer(&all, e, 8, count, 0, "places") : NULL;
    if (!places) {
        return core_finish(&all, NULL);
    }
    int64_t size = core_items(&all, 0), room = core_items(&all, 1);
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < count && inside; i++) {
        inside = begins[i] >= 0 && places[i] >= 0 && sizes[i] >= 0 && begins[i] <= size &&
                 places[i] <= room && sizes[i] <= size - begins[i] && sizes[i] <= room - places[i];
        if (inside) {
            memcpy(target + places[i], source + begins[i], (size_t)sizes[i]);
        }
    }
    Py_END_ALLOW_THREADS
    if (!inside) {
        PyErr_SetString(PyExc_ValueError, "begins, places: must be inside the buffers");
    }
    return core_finish(&all, inside ? Py_NewRef(Py_None) : NULL);
}

PyMethodDef core_captures_methods[] = {
    {"scan_records", scan_records, METH_VARARGS, "Find the records in a pcap file."},
    {"scan_blocks", scan_blocks, METH_VARARGS, "Find the packets in a section of a pcapng file."},
    {"follow_clock", follow_clock, METH_VARARGS, "Measure the elapsed time of packets."},
    {"copy_parts", copy_parts, METH_VARARGS, "Copy parts of a buffer to another buffer."},
    {"judge_copies", judge_copies, METH_VARARGS, "Decide which repeated packets are copies."},
    {NULL, NULL, 0, NULL},
};
