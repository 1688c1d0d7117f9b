/* Timing filters (inferential paper, section 3): cells that hold the time at which they were last
   written. `Parts`, of lately.golden.timestamp.partitioned_timing, has block numbers as stamps;
   `Timing`, of lately.golden.timestamp.timing, has timestamps that wrap. */
#ifndef LATELY_PURE_TIMING_H
#define LATELY_PURE_TIMING_H

#include "hash.h"

#define MAX_HASHES 64

typedef uint64_t Row[CHUNK];

/* Indices of a chunk of keys, one row for each hash function. */
static inline void timing_indexes(const Hash *hash, const uint64_t *keys, int64_t count,
                                  Row *indexes) {
    const Secret none = {0, 0};
    uint64_t states[CHUNK];
    hash_states(hash, keys, count, none, states);
    hash_indexes(hash, states, count, 0, indexes);
}

/* Partitioned filters */

typedef struct {
    const Hash *hash;
    int64_t parts, cells;      /* number of parts, and cells per part */
    int64_t expired;           /* age that stands for all ages past the window */
    int64_t block;             /* insertions per block, or time if the filter is timed */
    int timed;
    const uint8_t *thresholds; /* table of classes x (expired + 1) x phases, or NULL */
    int64_t classes;
    int phase_bits;
} Parts;

typedef struct {
    int64_t insertions, last; /* `last`: time of the last insertion; -1 if none */
} PartsNumbers;

/* Operations on keys, and their results. */
typedef struct {
    const uint64_t *keys;
    const uint8_t *codes;    /* NULL if all operations have `code` */
    int code;
    const int64_t *windows;  /* in blocks, or classes; NULL: the filter's window, class 0 */
    const int64_t *times;    /* NULL if the filter is not timed */
    uint8_t *seen;
    int64_t *oldest, *cells; /* age and number of the oldest cells; NULL if not needed */
} PartsBatch;

typedef struct {
    int64_t oldest, cells;
} Touched;

/* Reads the cells of a key, and writes them if `inserts`. A stamp is the block number of the last
   insertion plus 1, or 0 if there was none. */
ALWAYS Touched parts_touch(const Parts *f, uint64_t *stamps, int64_t parts, const Row *indexes,
                           int64_t i, int64_t block, int inserts) {
    Touched touched = {INT64_MIN, 0};
    for (int64_t part = 0; part < parts; part++) {
        uint64_t *cell = stamps + part * f->cells + indexes[part][i];
        int64_t age = block + 1 - (int64_t)*cell;
        age = *cell == 0 || age > f->expired ? f->expired : age;
        touched.cells = age > touched.oldest ? 1 : touched.cells + (age == touched.oldest);
        touched.oldest = age > touched.oldest ? age : touched.oldest;
        if (inserts) {
            *cell = (uint64_t)block + 1;
        }
    }
    return touched;
}

/* Whether a key is reported, after `filled` insertions into the current block. */
ALWAYS int parts_report(const Parts *f, Touched touched, int64_t window, int64_t filled) {
    if (!f->thresholds) {
        return touched.oldest <= window;
    }
    int64_t phase = (filled << f->phase_bits) / f->block;
    int64_t row = window * (f->expired + 1) + touched.oldest;
    return touched.cells >= f->thresholds[(row << f->phase_bits) + phase];
}

/* Performs operations on a chunk of keys. If `plain`, all have the same code and window, and the
   number of cells is not needed. Copies of the numbers stay in registers, as no store to a cell can
   change them. */
ALWAYS void parts_chunk(const Parts *shape, PartsNumbers *numbers, uint64_t *stamps,
                        const PartsBatch *batch, int64_t first, int64_t count, const Row *indexes,
                        int64_t parts, int plain) {
    const Parts s = *shape, *f = &s;
    const PartsBatch b = *batch;
    PartsNumbers n = *numbers;
    int64_t window = s.thresholds ? 0 : s.expired - 1;
    int64_t block = n.insertions / s.block, filled = n.insertions % s.block;
    for (int64_t i = 0; i < count; i++) {
        int64_t at = first + i;
        int code = plain || !b.codes ? b.code : b.codes[at];
        int inserts = (code & (INSERT | ALONE)) == INSERT;
        if (s.timed) {
            block = b.times[at] / s.block;
            filled = 0;
        }
        Touched touched = parts_touch(f, stamps, parts, indexes, i, block, inserts);
        int reported = plain ? touched.oldest <= window
                             : parts_report(f, touched, b.windows ? b.windows[at] : window, filled);
        b.seen[at] = (uint8_t)((code & (QUERY | ALONE)) == QUERY && reported);
        if (b.oldest) {
            b.oldest[at] = touched.oldest;
        }
        if (!plain && b.cells) {
            b.cells[at] = touched.cells;
        }
        if (inserts) {
            n.insertions++;
            n.last = s.timed ? b.times[at] : 0;
            if (++filled == s.block) {
                filled = 0;
                block++;
            }
        } else if (code == CLEAR) {
            if (n.insertions) {
                memset(stamps, 0, (size_t)(s.parts * s.cells) * sizeof *stamps);
            }
            n.insertions = 0;
            n.last = -1;
            block = filled = 0;
        }
    }
    *numbers = n;
}

static inline void parts_perform(const Parts *f, PartsNumbers *n, uint64_t *stamps,
                                 const PartsBatch *b, int64_t count) {
    Row indexes[MAX_HASHES];
    for (int64_t first = 0; first < count; first += CHUNK) {
        int64_t size = count - first < CHUNK ? count - first : CHUNK;
        timing_indexes(f->hash, b->keys + first * f->hash->words, size, indexes);
        for (int64_t i = 0; size > 1 && i < size; i++) {
            for (int64_t part = 0; part < f->parts; part++) {
                PREFETCH(stamps + part * f->cells + indexes[part][i]);
            }
        }
#define CASE(parts)                                                                              \
    case parts: parts_chunk(f, n, stamps, b, first, size, (const Row *)indexes, parts, 1); break;
        switch (b->codes || b->windows || b->cells || f->thresholds ? 0 : f->parts) {
            CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(10) /* the usual numbers of parts */
        default: parts_chunk(f, n, stamps, b, first, size, (const Row *)indexes, f->parts, 0);
        }
#undef CASE
    }
}

/* Performs QUERY, INSERT or CHECK of one key; returns its age, or -1 if it is not reported. */
static inline int64_t parts_perform_key(const Parts *f, PartsNumbers *n, uint64_t *stamps, int code,
                                        const uint64_t *key, int64_t time) {
    uint8_t seen;
    int64_t oldest;
    PartsBatch batch = {key, NULL, code, NULL, f->timed ? &time : NULL, &seen, &oldest, NULL};
    parts_perform(f, n, stamps, &batch, 1);
    return seen ? oldest : -1;
}

/* Filters whose timestamps wrap */

typedef struct {
    const Hash *hash;
    int64_t cells, window, block;
    int64_t last;  /* last timestamp; the next number marks an expired cell */
    int64_t swept; /* cells that the sweep examines after each insertion */
} Timing;

/* Position of a filter after its insertions. */
typedef struct {
    int64_t stamp, filled; /* current timestamp, and insertions in its block */
    int64_t next;          /* next cell to sweep */
} Clock;

/* Age of an expired cell; its product with the longest block fits into 64 bits. */
#define EXPIRED_AGE ((int64_t)1 << 32)

/* Requires at most 2**62 insertions, and at most 2**30 cells and blocks. */
ALWAYS Clock timing_clock(const Timing *f, int64_t insertions) {
    Clock clock = {insertions / f->block % (f->last + 1), insertions % f->block,
                   insertions % f->cells * f->swept % f->cells};
    return clock;
}

/* Age of a timestamp in blocks (definition 7). */
ALWAYS int64_t timing_age(const Timing *f, const Clock *c, int64_t stamp) {
    int64_t age = c->stamp >= stamp ? c->stamp - stamp : c->stamp - stamp + f->last + 1;
    return stamp > f->last ? EXPIRED_AGE : age;
}

/* Definition 9. */
ALWAYS int timing_expired(const Timing *f, const Clock *c, int64_t age, int64_t window) {
    return age * f->block + c->filled >= window + f->block;
}

/* Returns the age of the oldest cell of a key, or -1 if that cell has expired. */
ALWAYS int64_t timing_oldest(const Timing *f, const Clock *c, const uint32_t *cells,
                             const Row *indexes, int64_t i, int64_t window) {
    int64_t oldest = 0;
    for (int64_t part = 0; part < f->hash->fields; part++) {
        int64_t age = timing_age(f, c, cells[indexes[part][i]]);
        oldest = age > oldest ? age : oldest;
    }
    return timing_expired(f, c, oldest, window) ? -1 : oldest;
}

/* Counts the distinct cells of a key that have the oldest age (the expired cells if it is -1), and
   all distinct cells. */
static inline void timing_count(const Timing *f, const Clock *c, const uint32_t *cells,
                                const Row *indexes, int64_t i, int64_t window, int64_t oldest,
                                int64_t *old, int64_t *all) {
    *old = *all = 0;
    for (int64_t part = 0; part < f->hash->fields; part++) {
        int64_t again = 0, age = timing_age(f, c, cells[indexes[part][i]]);
        for (int64_t earlier = 0; earlier < part; earlier++) {
            again |= indexes[earlier][i] == indexes[part][i];
        }
        *all += !again;
        *old += !again && (oldest < 0 ? timing_expired(f, c, age, window) : age == oldest);
    }
}

/* Inserts a key, and sweeps (sections 3.1.1 to 3.1.3, 3.2.1 to 3.2.3). */
ALWAYS void timing_insert(const Timing *f, Clock *c, uint32_t *cells, const Row *indexes,
                          int64_t i) {
    for (int64_t part = 0; part < f->hash->fields; part++) {
        cells[indexes[part][i]] = (uint32_t)c->stamp;
    }
    if (++c->filled == f->block) {
        c->filled = 0;
        c->stamp = c->stamp < f->last ? c->stamp + 1 : 0;
    }
    for (int64_t swept = 0; swept < f->swept; swept++) {
        if (timing_expired(f, c, timing_age(f, c, cells[c->next]), f->window)) {
            cells[c->next] = (uint32_t)(f->last + 1);
        }
        c->next = c->next + 1 < f->cells ? c->next + 1 : 0;
    }
}

/* Looks up keys one after another; if `inserts`, inserts each key afterwards. Writes the age of the
   oldest cell of each key, or -1 if that cell has expired, and two rows with the counts of
   `timing_count` to `counts`, unless NULL. `windows` has a window for each key, or is NULL. */
static inline void timing_look(const Timing *f, int64_t *insertions, uint32_t *cells, int inserts,
                               const uint64_t *keys, int64_t count, const int64_t *windows,
                               int64_t *ages, int64_t *counts) {
    Row indexes[MAX_HASHES];
    Clock clock = timing_clock(f, *insertions);
    for (int64_t first = 0; first < count; first += CHUNK) {
        int64_t size = count - first < CHUNK ? count - first : CHUNK;
        timing_indexes(f->hash, keys + first * f->hash->words, size, indexes);
        const Row *rows = (const Row *)indexes;
        for (int64_t i = 0; i < size; i++) {
            int64_t at = first + i, window = windows ? windows[at] : f->window;
            ages[at] = timing_oldest(f, &clock, cells, rows, i, window);
            if (counts) {
                timing_count(f, &clock, cells, rows, i, window, ages[at], counts + at,
                             counts + count + at);
            }
            if (inserts) {
                timing_insert(f, &clock, cells, rows, i);
            }
        }
    }
    *insertions += inserts ? count : 0;
}

/* Performs QUERY, INSERT or CHECK of one key; returns its minimum age in insertions, or -1 if it is
   not reported (section 3.2.2). */
static inline int64_t timing_perform_key(const Timing *f, int64_t *insertions, uint32_t *cells,
                                         int code, const uint64_t *key) {
    int64_t age, filled = *insertions % f->block;
    timing_look(f, insertions, cells, code & INSERT, key, 1, NULL, &age, NULL);
    return !(code & QUERY) || age < 0 ? -1 : age == 0 ? 0 : (age - 1) * f->block + filled;
}

#endif
