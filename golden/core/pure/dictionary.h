/* Operations of a window dictionary, equal to `lately.golden.cuckoo.window_dictionary`. */
#ifndef LATELY_PURE_DICTIONARY_H
#define LATELY_PURE_DICTIONARY_H

#include "hash.h"

#define DICTIONARY_COLUMNS 64        /* maximum columns */
#define DICTIONARY_FETCHED (1 << 16) /* number of cells up to which nothing is prefetched */

/* Numbers of the filter; callers update the first three, which count operations. */
typedef struct {
    int64_t operations, keys, hits;
    int64_t insertions, lost, youngest_lost, stash_peak; /* since the last clear */
    int64_t all_lost;
    Secret secret;
} DictionaryNumbers;

typedef struct {
    int64_t time; /* number of the insertion that wrote the cell; 0 if the cell is empty */
    int64_t rest; /* remainder of the digest */
} DictionaryCell;

ALWAYS DictionaryCell dictionary_cell(int64_t time, int64_t rest) {
    DictionaryCell cell = {time, rest};
    return cell;
}

typedef struct {
    const Hash *hash;
    /* Offsets, which columns XOR with a row: groups of columns x bytes of the remainder x 256. A
       word has the offsets of all columns of a group. */
    const uint64_t *offsets;
    int64_t together; /* columns per group */
    int64_t columns, rows, bytes, slots, window, moves;
    int row_bits;
} DictionaryShape;

typedef struct {
    DictionaryNumbers *numbers;
    DictionaryCell *cells;
    int64_t *stash_times, *stash;
    int64_t stashed; /* number of used slots of the stash, while operations run */
} DictionaryState;

/* Operations on keys. If `codes` is NULL, all have `code`; if `windows` is NULL, queries have the
   window of the dictionary. Results that are NULL are not written. */
typedef struct {
    const uint8_t *codes;
    int code;
    const uint64_t *keys;
    const int64_t *windows;
    int64_t *ages, *covered;
    uint8_t *seen;
} DictionaryWork;

/* Offset of a column for a remainder. */
ALWAYS int64_t dictionary_offset(const DictionaryShape *d, int64_t column, int64_t rest) {
    const uint64_t *tables = d->offsets + column / d->together * d->bytes * 256;
    uint64_t offsets = 0;
    for (int64_t byte = 0; byte < d->bytes; byte++) {
        offsets ^= tables[byte * 256 + (rest >> (8 * byte) & 255)];
    }
    return (int64_t)(offsets >> column % d->together * d->row_bits) & (d->rows - 1);
}

/* Puts an entry into the stash; if the stash is full, replaces its oldest entry. */
static inline void dictionary_stash(const DictionaryShape *d, DictionaryState *s, int64_t time,
                                    int64_t digest) {
    int64_t now = s->numbers->insertions, live = 0, oldest = 0;
    for (int64_t slot = 1; slot < d->slots; slot++) {
        oldest = s->stash_times[slot] < s->stash_times[oldest] ? slot : oldest;
    }
    int64_t evicted = s->stash_times[oldest];
    if (evicted && now - evicted < d->window) {
        s->numbers->lost++;
        s->numbers->all_lost++;
        if (evicted > s->numbers->youngest_lost) {
            s->numbers->youngest_lost = evicted;
        }
    }
    s->stashed += !evicted;
    s->stash_times[oldest] = time;
    s->stash[oldest] = digest;
    for (int64_t slot = 0; slot < d->slots; slot++) {
        live += s->stash_times[slot] > 0 && now - s->stash_times[slot] < d->window;
    }
    if (live > s->numbers->stash_peak) {
        s->numbers->stash_peak = live;
    }
}

/* Inserts a digest for which no cell is free: moves entries, then uses the stash. */
static inline void dictionary_move(const DictionaryShape *d, DictionaryState *s, int64_t rest,
                                   int64_t index) {
    int64_t now = s->numbers->insertions, time = now;
    int64_t column = d->columns / 2, row = index - column * d->rows;
    for (int64_t moved = 0; moved < d->moves; moved++) {
        int64_t at = column * d->rows + row, after = (column + 1) % d->columns;
        DictionaryCell other = s->cells[at];
        s->cells[at] = dictionary_cell(time, rest);
        time = other.time;
        rest = other.rest;
        if (time == 0 || now - time >= d->window) {
            return;
        }
        row ^= dictionary_offset(d, column, rest) ^ dictionary_offset(d, after, rest);
        column = after;
    }
    row ^= dictionary_offset(d, column, rest);
    dictionary_stash(d, s, time, rest << d->row_bits | row);
}

/* Finds a digest in the stash; removes it if the operation writes or removes the key. Returns its
   time, or `last` if it is not in the stash. */
static inline int64_t dictionary_find(const DictionaryShape *d, DictionaryState *s, int code,
                                      int64_t digest, int64_t last) {
    int64_t now = s->numbers->insertions;
    int is_stashed = 0;
    for (int64_t slot = 0; slot < d->slots; slot++) {
        is_stashed |= s->stash[slot] == digest;
    }
    for (int64_t slot = 0; is_stashed && slot < d->slots; slot++) {
        int64_t time = s->stash_times[slot];
        if (s->stash[slot] == digest && time && now < time + d->window) {
            last = time;
            if (code & (INSERT | REMOVE)) {
                s->stash_times[slot] = 0;
                s->stashed--;
            }
        }
    }
    return last;
}

/* Performs an operation on key `i` of a chunk; returns its age, -1 if it is not reported. */
ALWAYS int64_t dictionary_key(const DictionaryShape *d, DictionaryState *s, int64_t columns,
                              int code, const uint64_t (*rows)[CHUNK], int64_t i, int64_t queried,
                              int64_t *covered) {
    DictionaryNumbers *numbers = s->numbers;
    int64_t now = numbers->insertions, match_at = -1, free = -1, window = d->window;
    int64_t low = (int64_t)rows[0][i], rest = (int64_t)rows[1][i];
    int64_t expired = now + 1 > window ? now + 1 - window : 0, oldest = expired ? expired : 1;
    /* Without branches, as they would be unpredictable. */
    for (int64_t column = 0; column < columns; column++) {
        int64_t at = (int64_t)rows[column + 2][i];
        DictionaryCell cell = s->cells[at];
        int match = (cell.time >= oldest) & (cell.rest == rest);
        int vacant = (free < 0) & !match & (cell.time <= expired);
        match_at = match ? at : match_at;
        free = vacant ? at : free;
    }
    int64_t last = match_at >= 0 ? s->cells[match_at].time : 0;
    if (s->stashed) {
        last = dictionary_find(d, s, code, rest << d->row_bits | low, last);
    }
    if (covered) {
        int64_t since = now - numbers->youngest_lost;
        *covered = numbers->lost && since < window ? since : window;
    }
    int reported = ((code & QUERY) != 0) & (last != 0) & (now - last < queried);
    int64_t age = reported ? now - last : -1;
    if ((code & REMOVE) && match_at >= 0) {
        s->cells[match_at].time = 0;
    }
    if (code & INSERT) {
        numbers->insertions++;
        int64_t at = match_at >= 0 ? match_at : free;
        if (at >= 0) {
            s->cells[at] = dictionary_cell(now + 1, rest);
        } else {
            dictionary_move(d, s, rest, (int64_t)rows[columns / 2 + 2][i]);
        }
    }
    return age;
}

/* Writes rows: the low part of the digest, the remainder, and the index in each column. */
WIDE static void dictionary_indexes(const DictionaryShape *d, const uint64_t *states, int64_t count,
                                    uint64_t (*rows)[CHUNK]) {
    hash_indexes(d->hash, states, count, 0, rows);
    uint64_t offsets[CHUNK], mask = (uint64_t)d->rows - 1;
    const uint64_t *table = d->offsets;
    for (int64_t first = 0; first < d->columns; first += d->together) {
        for (int64_t i = 0; i < count; i++) {
            offsets[i] = 0;
        }
        for (int64_t byte = 0; byte < d->bytes; byte++, table += 256) {
            for (int64_t i = 0; i < count; i++) {
                offsets[i] ^= table[rows[1][i] >> (8 * byte) & 255];
            }
        }
        for (int64_t column = first; column < first + d->together && column < d->columns;
             column++) {
            uint64_t begin = (uint64_t)(column * d->rows);
            int shift = (int)(column - first) * d->row_bits;
            for (int64_t i = 0; i < count; i++) {
                rows[column + 2][i] = begin + (rows[0][i] ^ (offsets[i] >> shift & mask));
            }
        }
    }
}

ALWAYS int64_t dictionary_columns(const DictionaryShape *d, DictionaryState *s, int64_t columns,
                                  const DictionaryWork *work, const uint64_t (*rows)[CHUNK],
                                  int64_t first, int64_t count) {
    int64_t hits = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t at = first + i;
        int64_t age = dictionary_key(d, s, columns, work->codes ? work->codes[at] : work->code,
                                     rows, i, work->windows ? work->windows[at] : d->window,
                                     work->covered ? work->covered + at : NULL);
        hits += age >= 0;
        if (work->ages) {
            work->ages[at] = age;
        }
        if (work->seen) {
            work->seen[at] = age >= 0;
        }
    }
    return hits;
}

/* Performs operations on keys, one after another, except CLEAR; returns the number of hits. */
static inline int64_t dictionary_perform(const DictionaryShape *d, DictionaryState *s,
                                         const DictionaryWork *work, int64_t count) {
    uint64_t states[CHUNK], rows[DICTIONARY_COLUMNS + 2][CHUNK];
    int64_t hits = 0;
    s->stashed = 0;
    for (int64_t slot = 0; slot < d->slots; slot++) {
        s->stashed += s->stash_times[slot] != 0;
    }
    for (int64_t at = 0; at < count; at += CHUNK) {
        int64_t part = count - at < CHUNK ? count - at : CHUNK;
        hash_states(d->hash, work->keys + at * d->hash->words, part, s->numbers->secret, states);
        dictionary_indexes(d, states, part, rows);
        for (int64_t i = 0; d->columns * d->rows > DICTIONARY_FETCHED && i < part; i++) {
            for (int64_t column = 0; column < d->columns; column++) {
                PREFETCH(s->cells + rows[column + 2][i]);
            }
        }
#define ROWS (const uint64_t(*)[CHUNK]) rows
#define COLUMNS(n)                                                                               \
    case n: hits += dictionary_columns(d, s, n, work, ROWS, at, part); break;
        switch (d->columns) { /* the usual numbers of columns as constants */
            COLUMNS(3) COLUMNS(4) COLUMNS(5) COLUMNS(6) COLUMNS(7) COLUMNS(8) COLUMNS(9)
            COLUMNS(10) COLUMNS(11) COLUMNS(12)
        default:
            hits += dictionary_columns(d, s, d->columns, work, ROWS, at, part);
        }
#undef COLUMNS
#undef ROWS
    }
    return hits;
}

#endif
