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
    int64_t time, held; /* number of the insertion that wrote the cell, 0 if empty; remainder */
} DictionaryCell;

ALWAYS DictionaryCell dictionary_cell(int64_t time, int64_t held) {
    DictionaryCell cell = {time, held};
    return cell;
}

typedef struct {
    const Hash *hash;
    const int64_t *offsets; /* values XORed with a row: columns x remainder bytes x 256 */
    const uint64_t *packed; /* offsets of several columns in a word: groups x bytes x 256 */
    int64_t together;       /* columns per group */
    int64_t columns, rows, bytes, places, window, moves;
    int row_bits;
} DictionaryShape;

typedef struct {
    DictionaryNumbers *numbers;
    DictionaryCell *cells;
    int64_t *stash_times, *stash;
    int64_t stashed; /* used places of the stash, while operations run */
} DictionaryState;

/* Operations on keys: their codes, or `code` for all if NULL, and the windows of queries, or the
   dictionary's if NULL. Answers that are NULL are not written. */
typedef struct {
    const uint8_t *codes;
    int code;
    const uint64_t *keys;
    const int64_t *windows;
    int64_t *ages, *covered;
    uint8_t *seen;
} DictionaryWork;

/* The value that a column XORs with a row, from the remainder. */
ALWAYS int64_t dictionary_offset(const DictionaryShape *d, int64_t column, int64_t rest) {
    const int64_t *tables = d->offsets + column * d->bytes * 256;
    int64_t sum = 0;
    for (int64_t byte = 0; byte < d->bytes; byte++) {
        sum ^= tables[byte * 256 + (rest >> (8 * byte) & 255)];
    }
    return sum;
}

/* Packs the offsets of the columns of each group into `packed`, which must be zero. */
static inline void dictionary_pack(const DictionaryShape *d, uint64_t *packed) {
    int64_t size = d->bytes * 256;
    for (int64_t column = 0; column < d->columns; column++) {
        uint64_t *table = packed + column / d->together * size;
        int shift = (int)(column % d->together) * d->row_bits;
        for (int64_t i = 0; i < size; i++) {
            table[i] |= (uint64_t)d->offsets[column * size + i] << shift;
        }
    }
}

/* Puts an entry into the stash, replacing the oldest entry if full. */
static inline void dictionary_put_away(const DictionaryShape *d, DictionaryState *s, int64_t time,
                                int64_t digest) {
    int64_t now = s->numbers->insertions, live = 0, oldest = 0;
    for (int64_t place = 1; place < d->places; place++) {
        oldest = s->stash_times[place] < s->stash_times[oldest] ? place : oldest;
    }
    int64_t before = s->stash_times[oldest];
    if (before && now - before < d->window) {
        s->numbers->lost++;
        s->numbers->all_lost++;
        if (before > s->numbers->youngest_lost) {
            s->numbers->youngest_lost = before;
        }
    }
    s->stashed += !before;
    s->stash_times[oldest] = time;
    s->stash[oldest] = digest;
    for (int64_t place = 0; place < d->places; place++) {
        live += s->stash_times[place] > 0 && now - s->stash_times[place] < d->window;
    }
    if (live > s->numbers->stash_peak) {
        s->numbers->stash_peak = live;
    }
}

/* Inserts a digest for which no cell is free: moves entries, then uses the stash. */
static inline void dictionary_move(const DictionaryShape *d, DictionaryState *s, int64_t rest,
                            int64_t place) {
    int64_t now = s->numbers->insertions, time = now;
    int64_t column = d->columns / 2, row = place - column * d->rows;
    for (int64_t moved = 0; moved < d->moves; moved++) {
        int64_t at = column * d->rows + row, after = (column + 1) % d->columns;
        DictionaryCell other = s->cells[at];
        s->cells[at] = dictionary_cell(time, rest);
        time = other.time;
        rest = other.held;
        if (time == 0 || now - time >= d->window) {
            return;
        }
        row ^= dictionary_offset(d, column, rest) ^ dictionary_offset(d, after, rest);
        column = after;
    }
    row ^= dictionary_offset(d, column, rest);
    dictionary_put_away(d, s, time, rest << d->row_bits | row);
}

/* Searches a digest in the stash; removes it if the operation writes or removes the key. Returns
   its time, or `last`. */
static inline int64_t dictionary_look(const DictionaryShape *d, DictionaryState *s, int code,
                               int64_t digest, int64_t last) {
    int64_t now = s->numbers->insertions;
    int there = 0;
    for (int64_t place = 0; place < d->places; place++) {
        there |= s->stash[place] == digest;
    }
    for (int64_t place = 0; there && place < d->places; place++) {
        int64_t time = s->stash_times[place];
        if (s->stash[place] == digest && time && now < time + d->window) {
            last = time;
            if (code & (INSERT | REMOVE)) {
                s->stash_times[place] = 0;
                s->stashed--;
            }
        }
    }
    return last;
}

/* Performs an operation on key `i` of a chunk; returns its age, -1 if it is not reported. */
ALWAYS int64_t dictionary_key(const DictionaryShape *d, DictionaryState *s, int64_t columns,
                              int code, const uint64_t (*found)[CHUNK], int64_t i, int64_t asked,
                              int64_t *covered) {
    DictionaryNumbers *numbers = s->numbers;
    int64_t now = numbers->insertions, own = -1, free = -1, window = d->window;
    int64_t low = (int64_t)found[0][i], rest = (int64_t)found[1][i];
    int64_t expired = now + 1 > window ? now + 1 - window : 0, oldest = expired ? expired : 1;
    /* Without branches, as they would be unpredictable. */
    for (int64_t column = 0; column < columns; column++) {
        int64_t at = (int64_t)found[column + 2][i];
        DictionaryCell cell = s->cells[at];
        int match = (cell.time >= oldest) & (cell.held == rest);
        int vacant = (free < 0) & !match & (cell.time <= expired);
        own = match ? at : own;
        free = vacant ? at : free;
    }
    int64_t last = own >= 0 ? s->cells[own].time : 0;
    if (s->stashed) {
        last = dictionary_look(d, s, code, rest << d->row_bits | low, last);
    }
    if (covered) {
        int64_t since = now - numbers->youngest_lost;
        *covered = numbers->lost && since < window ? since : window;
    }
    int reported = ((code & QUERY) != 0) & (last != 0) & (now - last < asked);
    int64_t age = reported ? now - last : -1;
    if ((code & REMOVE) && own >= 0) {
        s->cells[own].time = 0;
    }
    if (code & INSERT) {
        numbers->insertions++;
        own = own >= 0 ? own : free;
        if (own >= 0) {
            s->cells[own] = dictionary_cell(now + 1, rest);
        } else {
            dictionary_move(d, s, rest, (int64_t)found[columns / 2 + 2][i]);
        }
    }
    return age;
}

/* Computes low part of the digest, remainder, and position in each column: rows of `found`. */
WIDE static void dictionary_places(const DictionaryShape *d, const uint64_t *states, int64_t count,
                                   uint64_t (*found)[CHUNK]) {
    hash_indices(d->hash, states, count, 0, found);
    uint64_t sums[CHUNK], mask = (uint64_t)d->rows - 1;
    const uint64_t *table = d->packed;
    for (int64_t first = 0; first < d->columns; first += d->together) {
        for (int64_t i = 0; i < count; i++) {
            sums[i] = 0;
        }
        for (int64_t byte = 0; byte < d->bytes; byte++, table += 256) {
            for (int64_t i = 0; i < count; i++) {
                sums[i] ^= table[found[1][i] >> (8 * byte) & 255];
            }
        }
        for (int64_t column = first; column < first + d->together && column < d->columns;
             column++) {
            uint64_t begin = (uint64_t)(column * d->rows);
            int shift = (int)(column - first) * d->row_bits;
            for (int64_t i = 0; i < count; i++) {
                found[column + 2][i] = begin + (found[0][i] ^ (sums[i] >> shift & mask));
            }
        }
    }
}

ALWAYS int64_t dictionary_columns(const DictionaryShape *d, DictionaryState *s, int64_t columns,
                                  const DictionaryWork *work, const uint64_t (*found)[CHUNK],
                                  int64_t first, int64_t count) {
    int64_t hits = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t at = first + i;
        int64_t age = dictionary_key(d, s, columns, work->codes ? work->codes[at] : work->code,
                                     found, i, work->windows ? work->windows[at] : d->window,
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
    uint64_t states[CHUNK], found[DICTIONARY_COLUMNS + 2][CHUNK];
    int64_t hits = 0;
    s->stashed = 0;
    for (int64_t place = 0; place < d->places; place++) {
        s->stashed += s->stash_times[place] != 0;
    }
    for (int64_t at = 0; at < count; at += CHUNK) {
        int64_t part = count - at < CHUNK ? count - at : CHUNK;
        hash_states(d->hash, work->keys + at * d->hash->words, part, s->numbers->secret, states);
        dictionary_places(d, states, part, found);
        for (int64_t i = 0; d->columns * d->rows > DICTIONARY_FETCHED && i < part; i++) {
            for (int64_t column = 0; column < d->columns; column++) {
                FETCH(s->cells + found[column + 2][i]);
            }
        }
#define FOUND (const uint64_t(*)[CHUNK]) found
#define COLUMNS(n)                                                                               \
    case n: hits += dictionary_columns(d, s, n, work, FOUND, at, part); break;
        switch (d->columns) { /* the usual numbers of columns as constants */
            COLUMNS(3) COLUMNS(4) COLUMNS(5) COLUMNS(6) COLUMNS(7) COLUMNS(8) COLUMNS(9)
            COLUMNS(10) COLUMNS(11) COLUMNS(12)
        default:
            hits += dictionary_columns(d, s, d->columns, work, FOUND, at, part);
        }
#undef COLUMNS
#undef FOUND
    }
    return hits;
}

#endif
