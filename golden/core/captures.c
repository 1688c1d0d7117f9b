/* Records of captures, elapsed times and duplicates of packets: `lately.captures.capture_loops`,
   `lately.dedup.deduplicate` and `lately.golden.packets.copies`. */
#include "core.h"

enum { START, STOP, AT, CAPTURED, LENGTH, LINK, TIME, FROM, ROWS }; /* rows of a table of packets */
enum { MORE, CONTROL, FULL, DAMAGED };                             /* why a scan stopped */
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
#define AHEAD 12 /* number of packets by which rows are prefetched */

static int64_t word(const uint8_t *at, int big) {
    uint32_t little = at[0] | at[1] << 8 | at[2] << 16 | (uint32_t)at[3] << 24;
    uint32_t swapped = at[3] | at[2] << 8 | at[1] << 16 | (uint32_t)at[0] << 24;
    return big ? swapped : little;
}

/* A part of a buffer, and the table to which the packets in it are written. */
typedef struct {
    const uint8_t *bytes;
    int64_t *table;
    Py_ssize_t at, end, rows, count;
    int big;
} Scan;

/* Starts a scan: reads the buffer, and the start and end of the part. */
static Scan start_scan(Arguments *a) {
    Scan scan = {.bytes = core_array(a, "buffer", 1, -1, READ)};
    Py_ssize_t size = a->items;
    scan.at = core_integer(a);
    scan.end = core_integer(a);
    scan.big = core_flag(a);
    core_require(a, scan.at >= 0 && scan.at <= scan.end && scan.end <= size,
                 "at, end: must be a part of the buffer");
    return scan;
}

/* Reads the table, the last argument, and returns whether all arguments are valid. */
static int end_arguments(Arguments *a, Scan *scan) {
    scan->table = core_array(a, "table", 8, -1, WRITE);
    scan->rows = a->items / ROWS;
    return core_ready(a);
}

static PyObject *finish_scan(Arguments *a, const Scan *scan, int reason) {
    return core_finish(a, Py_BuildValue("nni", scan->at, scan->count, reason));
}

static void add_packet(Scan *scan, const int64_t row[ROWS]) {
    for (int column = 0; column < ROWS; column++) {
        scan->table[column * scan->rows + scan->count] = row[column];
    }
    scan->count++;
}

static int scan_file(Scan *scan, int64_t unit, int64_t header, int order, int64_t max,
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
        if (captured > max) {
            return DAMAGED;
        }
        if (captured > scan->end - scan->at - header) {
            return MORE;
        }
        int64_t time = word(record, scan->big) * SECOND + word(record + 4, scan->big) * unit;
        Py_ssize_t begin = scan->at + header, stop = begin + captured;
        add_packet(scan, (int64_t[]){scan->at, stop, begin, captured,
                                     captured > length ? captured : length, link, time, 0});
        scan->at = stop;
    }
    return FULL;
}

/* scan_records(buffer, at, end, big, unit, header, order, max, link, table) */
static PyObject *scan_records(PyObject *module, PyObject *args) {
    int reason;
    Arguments a = core_arguments(args);
    Scan scan = start_scan(&a);
    int64_t unit = core_integer(&a), header = core_integer(&a);
    int order = (int)core_integer(&a);
    int64_t max = core_integer(&a), link = core_integer(&a);
    core_require(&a, header >= 16 && unit >= 1 && unit <= SECOND,
                 "header, unit: must be those of a capture");
    if (!end_arguments(&a, &scan)) {
        return core_finish(&a, NULL);
    }
    Py_BEGIN_ALLOW_THREADS
    reason = scan_file(&scan, unit, header, order, max, link);
    Py_END_ALLOW_THREADS
    return finish_scan(&a, &scan, reason);
}

static int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }

/* Converts a time in units of an interface to nanoseconds, rounded down. */
static int64_t nanoseconds(uint64_t units, const int64_t *interface) {
    int64_t exponent = interface[EXPONENT], offset = interface[OFFSET];
    uint64_t base = interface[BASE] == 10 ? 10 : 2, second = 1; /* in units */
    if (exponent < 0 || exponent > (base == 10 ? 19 : 63)) {
        return NO_TIME;
    }
    for (int64_t i = 0; i < exponent; i++) {
        second *= base;
    }
    uint64_t seconds = units / second, rest = units % second;
    /* 64-bit divisions are faster. */
    rest = second >> 34 ? (uint64_t)((unsigned __int128)rest * SECOND / second)
                        : rest * SECOND / second;
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
    int64_t number = word(block + 8, scan->big), header = PACKET_HEADER, captured, length;
    int64_t time = NO_TIME;
    if (kind == SIMPLE_PACKET) {
        length = number, number = 0, header = 12;
        captured = lesser(length, total - 16);
        captured = known && interfaces[SNAPLEN] ? lesser(captured, interfaces[SNAPLEN]) : captured;
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
    add_packet(scan, (int64_t[]){scan->at, scan->at + total, scan->at + header, captured,
                                 captured > length ? captured : length,
                                 interface ? interface[LINK_OF] : -1, time, number});
    return 1;
}

static int scan_section(Scan *scan, int64_t max, const int64_t *interfaces, Py_ssize_t known) {
    while (scan->end - scan->at >= 12) {
        const uint8_t *block = scan->bytes + scan->at;
        int64_t kind = word(block, scan->big), total = word(block + 4, scan->big);
        if (kind == SECTION || kind == INTERFACE || kind == NOT_COPIED) {
            return CONTROL;
        }
        if (total < 12 || total > max || total & 3) {
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

/* scan_blocks(buffer, at, end, big, max, interfaces, table) */
static PyObject *scan_blocks(PyObject *module, PyObject *args) {
    int reason;
    Arguments a = core_arguments(args);
    Scan scan = start_scan(&a);
    int64_t max = core_integer(&a);
    const int64_t *interfaces = core_array(&a, "interfaces", 8, -1, READ);
    Py_ssize_t known = a.items / COLUMNS;
    if (!end_arguments(&a, &scan)) {
        return core_finish(&a, NULL);
    }
    Py_BEGIN_ALLOW_THREADS
    reason = scan_section(&scan, max, interfaces, known);
    Py_END_ALLOW_THREADS
    return finish_scan(&a, &scan, reason);
}

/* follow_clock(times, span, silence, state, elapsed): like `PacketClock.follow`. */
static PyObject *follow_clock(PyObject *module, PyObject *args) {
    Arguments a = core_arguments(args);
    const int64_t *times = core_array(&a, "times", 8, -1, READ);
    Py_ssize_t count = a.items;
    int64_t span = core_integer(&a), silence = core_integer(&a);
    int64_t *state = core_array(&a, "state", 8, CLOCK, WRITE);
    int64_t *elapsed = core_array(&a, "elapsed", 8, count, WRITE);
    if (!core_ready(&a)) {
        return core_finish(&a, NULL);
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
            state[ELAPSED] += step ? silence : started ? lesser(-before, silence) : 0;
            state[REACHED] = times[i];
        }
        elapsed[i] = state[ELAPSED];
    }
    Py_END_ALLOW_THREADS
    return core_finish(&a, Py_NewRef(Py_None));
}

/* The last packet of a digest in a `CopyTable`; `number` is 0 in a free row. */
typedef struct {
    uint64_t digest;
    int64_t number, time;
    uint64_t property;
} Row;

/* Row of a digest; if there is none, the free row for it. */
static Row *find_row(Row *table, uint64_t digest, size_t mask) {
    Row *row = table + (digest & mask);
    for (size_t i = 0; i < mask && row->number && row->digest != digest; i++) {
        row = row == table + mask ? table : row + 1;
    }
    return row;
}

/* judge_copies(digests, seen, elapsed, properties, last, (first, window, span, exact, differs,
   refresh), rows, state): like `CopyTable.judge`; state is the table in use, and its number of
   digests. */
static PyObject *judge_copies(PyObject *module, PyObject *args) {
    Arguments a = core_arguments(args);
    const uint64_t *digests = core_array(&a, "digests", 8, -1, READ);
    Py_ssize_t count = a.items;
    uint8_t *seen = core_array(&a, "seen", 1, count, WRITE);
    const int64_t *elapsed = core_array(&a, "elapsed", 8, count, READ);
    const uint64_t *properties = core_array(&a, "properties", 8, count, READ);
    int64_t *last = core_array(&a, "last", 8, count, WRITE);
    int64_t first = core_integer(&a), window = core_integer(&a), span = core_integer(&a);
    int exact = core_flag(&a), differs = core_flag(&a), refresh = core_flag(&a);
    Row *table = core_array(&a, "rows", 8, 2, WRITE);
    size_t rows = (size_t)a.items / 8, mask = rows - 1;
    core_require(&a, rows >= 2 && !(rows & mask) && a.items % 8 == 0,
                 "rows: must be two tables of a power of two");
    int64_t *state = core_array(&a, "state", 8, 2, WRITE);
    if (!core_ready(&a)) {
        return core_finish(&a, NULL);
    }
    Row *tables[2] = {table, table + rows};
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
        int is_near = first + i - at->number <= window && elapsed[i] - at->time <= span;
        int is_copy = at->number ? is_near && !(differs && at->property == properties[i]) : !exact;
        seen[i] = seen[i] && is_copy;
        if (!seen[i] || refresh) {
            state[1] += !row->number;
            uint64_t property = seen[i] && at->number ? at->property : properties[i];
            *row = (Row){digests[i], first + i, elapsed[i], property};
        }
        if (2 * (size_t)state[1] >= rows) {
            state[0] = ~state[0] & 1;
            state[1] = 0;
            memset(old, 0, rows * sizeof(Row));
        }
    }
    Py_END_ALLOW_THREADS
    return core_finish(&a, Py_NewRef(Py_None));
}

/* copy_parts(source, target, begins, sizes, offsets): like `capture_loops.copy_parts`. */
static PyObject *copy_parts(PyObject *module, PyObject *args) {
    int inside = 1;
    Arguments a = core_arguments(args);
    const uint8_t *source = core_array(&a, "source", 1, -1, READ);
    int64_t size = a.items;
    uint8_t *target = core_array(&a, "target", 1, -1, WRITE);
    int64_t room = a.items;
    const int64_t *begins = core_array(&a, "begins", 8, -1, READ);
    Py_ssize_t count = a.items;
    const int64_t *sizes = core_array(&a, "sizes", 8, count, READ);
    const int64_t *offsets = core_array(&a, "offsets", 8, count, READ);
    if (!core_ready(&a)) {
        return core_finish(&a, NULL);
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < count && inside; i++) {
        inside = begins[i] >= 0 && offsets[i] >= 0 && sizes[i] >= 0 && begins[i] <= size &&
                 offsets[i] <= room && sizes[i] <= size - begins[i] &&
                 sizes[i] <= room - offsets[i];
        if (inside) {
            memcpy(target + offsets[i], source + begins[i], (size_t)sizes[i]);
        }
    }
    Py_END_ALLOW_THREADS
    core_require(&a, inside, "begins, offsets: must be inside the buffers");
    return core_finish(&a, inside ? Py_NewRef(Py_None) : NULL);
}

PyMethodDef core_captures_methods[] = {
    {"scan_records", scan_records, METH_VARARGS, "Find the records in a pcap file."},
    {"scan_blocks", scan_blocks, METH_VARARGS, "Find the packets in a section of a pcapng file."},
    {"follow_clock", follow_clock, METH_VARARGS, "Measure the elapsed time of packets."},
    {"copy_parts", copy_parts, METH_VARARGS, "Copy parts of a buffer to another buffer."},
    {"judge_copies", judge_copies, METH_VARARGS, "Decide which repeated packets are duplicates."},
    {NULL, NULL, 0, NULL},
};
