/* Many operations on a ring, with the results of one after another. First, the bit indexes of a
   chunk of keys are computed in loops that become vector instructions. Then the operations are
   performed, shifts and clears included. */
#ifndef LATELY_BATCH_H
#define LATELY_BATCH_H

#include "ring.h"

#define RING_SECRETS 2 /* the current secret, and an older or waiting secret */

typedef uint64_t RingRow[CHUNK];
typedef uint32_t RingIndexes[CHUNK]; /* a segment has at most 2**32 bits */

/* Operations of a chunk, with their codes and results. A value is 0 if the key is not reported;
   otherwise the index of its lowest set bit is the age. Arrays of results may be NULL. */
typedef struct {
    const Ring *ring;
    RingState *state;
    void *memory;
    RingIndexes *indexes;      /* room for RING_ROOM rows */
    RingRow *masks;            /* masks of words, for each row of indexes, if the ring is `joint` */
    RingIndexes *ahead;        /* indexes of the next chunk, to prefetch, or NULL */
    Secret secrets[RING_SECRETS];
    int secret_count;
    int current, older;        /* numbers of the current and the older secret */
    ptrdiff_t count;
    int alike;                 /* whether all operations are equal, and on keys */
    uint8_t codes[CHUNK];
    RingRow values;
    int64_t *ages;
    uint8_t *seen;
    int64_t hits;
} RingBatch;

/* Rows of indexes that a batch needs, for a ring with columns or with words. */
#define RING_ROOM(columns, joint, parts, run) \
    (((columns) ? 2 * RING_SECRETS : (run) + 1) * ((joint) ? 1 : (parts)))

/* Computes indexes like `ring_index`. */
WIDE static void ring_index_keys(const Ring *ring, const uint64_t *states, ptrdiff_t count,
                                 ptrdiff_t function, RingIndexes *out, uint64_t *masks) {
    RingRow words, bits = {0};
    RingIndexes bases;
    ring_index(ring, states, count, function, *out, CHUNK, masks, words, bits, bases);
}

/* Columns */

/* Finds the segments that have all bits of each key; operations that insert then set the bit
   `base`. If two parts share a column, the first read, before the write, counts. With each key, the
   columns of a key of the next chunk, at `ahead`, are prefetched. */
ALWAYS void ring_match(void *memory, int size, ptrdiff_t parts, RingIndexes *indexes,
                       RingIndexes *ahead, const uint8_t *codes, int64_t base,
                       uint64_t *matches, ptrdiff_t at, ptrdiff_t end) {
    for (ptrdiff_t i = at; i < end; i++) {
        for (ptrdiff_t part = 0; ahead && part < parts; part++) {
            PREFETCH((const char *)memory + (size_t)ahead[part][i] * (size_t)size);
        }
        uint64_t bit = codes ? (uint64_t)(codes[i] >> 1 & 1) << base : 0, all = ~(uint64_t)0;
        for (ptrdiff_t part = 0; part < parts; part++) {
            uint64_t before = ring_column(memory, size, indexes[part][i]);
            if (codes) {
                ring_set_column(memory, size, indexes[part][i], before | bit);
            }
            all &= before;
            IN_ORDER(all);
        }
        matches[i] = all;
    }
}

/* Loops for the usual sizes of columns and numbers of parts, which are unrolled. */
#define RING_MATCH(size, parts)                                                                  \
    if (!codes) {                                                                                \
        ring_match(memory, size, parts, indexes, NULL, NULL, base, matches, at, end);            \
    } else if (ahead) {                                                                          \
        ring_match(memory, size, parts, indexes, ahead, codes, base, matches, at, end);          \
    } else {                                                                                     \
        ring_match(memory, size, parts, indexes, NULL, codes, base, matches, at, end);           \
    }                                                                                            \
    break;
#define RING_CASE(size, parts) case 16 * (size) + (parts): RING_MATCH(size, parts)
#define RING_CASES(size)                                                                         \
    RING_CASE(size, 4) RING_CASE(size, 5) RING_CASE(size, 6) RING_CASE(size, 7)                  \
    RING_CASE(size, 8) RING_CASE(size, 9) RING_CASE(size, 10) RING_CASE(size, 11)                \
    RING_CASE(size, 12) RING_CASE(size, 13)

/* Matches with the indexes for one secret; sets bits if there are codes. */
static void ring_match_keys(const RingBatch *batch, RingIndexes *indexes, int secret,
                            const uint8_t *codes, uint64_t *matches, ptrdiff_t at, ptrdiff_t end) {
    const Ring *ring = batch->ring;
    RingIndexes *ahead = batch->ahead ? batch->ahead + secret * ring->parts : NULL;
    void *memory = batch->memory;
    int64_t base = batch->state->base;
    indexes += secret * ring->parts;
#ifdef LINES
    if (ring->size == LINE) { /* the rows hold line numbers */
        lines_match(ring->hash, ring->segments, memory, (Lines *)(void *)indexes,
                    (Lines *)(void *)ahead, codes, codes ? 1 + batch->alike : 0, base,
                    matches, at, end);
        return;
    }
#endif
    if (ahead && !codes) { /* bound by memory latency, so not unrolled */
        ring_match(memory, ring->size, ring->parts, indexes, ahead, NULL, base, matches, at, end);
        return;
    }
    switch (ring->parts <= 13 ? 16 * ring->size + (int)ring->parts : 0) {
        RING_CASES(1)
        RING_CASES(2)
    default: RING_MATCH(ring->size, ring->parts)
    }
}

/* Words */

/* Updates the matches of keys with one part for the segment of an age, without stored indexes. */
WIDE static void ring_match_single(const Hash *hash, const uint64_t *states, ptrdiff_t count,
                                   ptrdiff_t function, const uint64_t *segment, int age,
                                   uint64_t *matches) {
    const uint64_t *rotations = hash_rotations(hash, function, 0);
    Field field = hash->field[0];
    RingRow bits; /* a copy, so that nothing that is read can change */
    for (ptrdiff_t i = 0; i < count; i++) {
        uint64_t index = hash_index(field, hash_word(rotations, states[i]));
        bits[i] = segment[index >> 6] >> (index & 63) & 1;
    }
    for (ptrdiff_t i = 0; i < count; i++) {
        matches[i] |= bits[i] << age;
    }
}

/* The same with stored indexes, and masks if the ring is joint. */
WIDE static void ring_match_parts(const uint64_t *segment, RingIndexes *indexes,
                                  const uint64_t *masks, ptrdiff_t parts, ptrdiff_t count, int age,
                                  uint64_t *matches) {
    RingRow bits;
    for (ptrdiff_t i = 0; i < count; i++) {
        bits[i] = masks ? (segment[indexes[0][i]] & masks[i]) == masks[i] : 1;
    }
    for (ptrdiff_t part = 0; !masks && part < parts; part++) {
        for (ptrdiff_t i = 0; i < count; i++) {
            bits[i] &= segment[indexes[part][i] >> 6] >> (indexes[part][i] & 63);
        }
    }
    for (ptrdiff_t i = 0; i < count; i++) {
        matches[i] |= bits[i] << age;
    }
}

/* Computes indexes in the segments that are written, and matches in all others, which stay the same
   until the next shift. */
static inline void ring_find_words(RingBatch *batch, RingRow *states, ptrdiff_t at,
                                   ptrdiff_t count) {
    const Ring *ring = batch->ring;
    ptrdiff_t parts = ring->joint ? 1 : ring->parts;
    uint64_t *matches = batch->values + at;
    int queries = 0;
    for (ptrdiff_t i = 0; i < count; i++) {
        queries |= batch->codes[at + i] & QUERY;
        matches[i] = 0;
    }
    for (int age = 0; age < (queries ? ring->segments - 1 : ring->run); age++) {
        int written = age < ring->run, row = written ? age : ring->run; /* the last row is shared */
        int secret = ring_is_older(ring, batch->state, age) ? batch->older : batch->current;
        const uint64_t *key_states = states[secret] + at;
        const uint64_t *segment = ring_words(ring, batch->state, batch->memory, age);
        ptrdiff_t function = ring_segment(ring, batch->state, age) % ring->hash->functions;
        RingIndexes *indexes = batch->indexes + row * parts;
        uint64_t *masks = ring->joint ? batch->masks[row] : NULL;
        if (!written && ring_is_single(ring)) {
            ring_match_single(ring->hash, key_states, count, function, segment, age, matches);
            continue;
        }
        ring_index_keys(ring, key_states, count, function, indexes, masks);
        for (ptrdiff_t part = 0; ring->bytes > RING_CACHED && part < parts; part++) {
            for (ptrdiff_t i = 0; i < count; i++) {
                PREFETCH(segment + (indexes[part][i] >> (masks ? 0 : 6)));
            }
        }
        if (!written) {
            ring_match_parts(segment, indexes, masks, parts, count, age, matches);
        }
    }
}

/* Whether a written segment has all bits of a key; if the operation inserts, sets them. */
ALWAYS uint64_t ring_match_word(uint64_t *segment, RingIndexes *indexes, RingRow *masks,
                                ptrdiff_t parts, ptrdiff_t i, uint64_t inserts, int writes) {
    uint64_t match = 1;
    if (masks) {
        uint64_t *word = &segment[indexes[0][i]], before = *word, mask = masks[0][i];
        if (writes) {
            *word = before | (mask & -inserts);
        }
        return (before & mask) == mask;
    }
    for (ptrdiff_t part = 0; part < parts; part++) {
        uint32_t index = indexes[part][i];
        uint64_t *word = &segment[index >> 6], before = *word;
        if (writes) {
            *word = before | inserts << (index & 63);
        }
        match &= before >> (index & 63);
    }
    return match & 1;
}

/* The rows of indexes begin with operation `first`. */
ALWAYS void ring_match_words(RingBatch *batch, int joint, int run, ptrdiff_t parts, ptrdiff_t first,
                             ptrdiff_t at, ptrdiff_t end, int writes) {
    RingIndexes *indexes = batch->indexes;
    RingRow *masks = batch->masks;
    uint64_t *segment[RING_SEGMENTS];
    for (int age = 0; age < run; age++) {
        segment[age] = ring_words(batch->ring, batch->state, batch->memory, age);
    }
    for (; at < end; at++) {
        uint64_t inserts = batch->codes[at] >> 1 & 1, matches = 0;
        for (int age = 0; age < run; age++) {
            matches |= ring_match_word(segment[age], indexes + age * parts,
                                       joint ? masks + age : NULL, parts, at - first, inserts,
                                       writes)
                       << age;
        }
        batch->values[at] |= matches;
    }
}

#define RING_RUN(joint, run, parts)                                                              \
    if (writes) {                                                                                \
        ring_match_words(batch, joint, run, parts, first, at, end, 1);                           \
    } else {                                                                                     \
        ring_match_words(batch, joint, run, parts, first, at, end, 0);                           \
    }                                                                                            \
    break;
#define RING_RUNS(joint)                                                                         \
    switch (ring->run) {                                                                         \
    case 1: RING_RUN(joint, 1, 1)                                                                \
    case 2: RING_RUN(joint, 2, 1)                                                                \
    case 6: RING_RUN(joint, 6, 1)                                                                \
    case 10: RING_RUN(joint, 10, 1)                                                              \
    default: RING_RUN(joint, ring->run, 1)                                                       \
    }                                                                                            \
    break;

/* Chunks */

/* Converts matches to values: with columns, sorts them by age; with words, finds the runs. */
WIDE static void ring_evaluate(const RingBatch *batch, const uint64_t *older_matches,
                               uint64_t *values, ptrdiff_t at, ptrdiff_t end) {
    /* Copies, so that no store can change them. */
    int64_t base = batch->state->base, older = batch->state->older;
    int columns = batch->ring->size, segments = batch->ring->segments, run = batch->ring->run;
    for (int length = 1, step; !columns && length < run; length += step) {
        step = length < run - length ? length : run - length;
        for (ptrdiff_t i = at; i < end; i++) {
            values[i] &= values[i] >> step;
        }
    }
    for (ptrdiff_t i = at; columns && older && i < end; i++) {
        values[i] = ring_ages(values[i], older_matches[i], base, older, segments);
    }
    for (ptrdiff_t i = at; columns && !older && i < end; i++) {
        values[i] = ring_ages(values[i], 0, base, 0, segments);
    }
}

WIDE static void ring_report(RingBatch *batch, ptrdiff_t at, ptrdiff_t end) {
    uint8_t reported[CHUNK], hits = 0; /* a chunk has fewer than 256 keys */
    for (ptrdiff_t i = at; i < end; i++) {
        reported[i] = (batch->values[i] != 0) & batch->codes[i] & QUERY;
    }
    for (ptrdiff_t i = at; i < end; i++) {
        hits = (uint8_t)(hits + reported[i]);
    }
    for (ptrdiff_t i = at; batch->seen && i < end; i++) {
        batch->seen[i] |= reported[i];
    }
    for (ptrdiff_t i = at; batch->ages && i < end; i++) {
        if (reported[i]) {
            batch->ages[i] = lowest(batch->values[i]);
        }
    }
    batch->hits += hits;
}

/* Performs operations from `at` up to one that shifts or clears the ring; returns the index of that
   operation. With words, the rows of indexes begin with the operation `first`. */
static inline ptrdiff_t ring_perform_some(RingBatch *batch, RingIndexes *indexes, ptrdiff_t first,
                                          ptrdiff_t at, ptrdiff_t limit) {
    const Ring *ring = batch->ring;
    int64_t room = batch->state->length - batch->state->filled, inserts = 0;
    ptrdiff_t end = at;
    RingRow older;
    room = room > 0 ? room : 0;
    if (batch->alike) {
        int insert = batch->codes[at] >> 1 & 1;
        end = insert && room < limit - at ? at + (ptrdiff_t)room : limit;
        inserts = insert ? end - at : 0;
    }
    for (; !batch->alike && end < limit && batch->codes[end] < ALONE; end++) {
        int insert = batch->codes[end] >> 1 & 1;
        if (insert && inserts == room) {
            break;
        }
        inserts += insert;
    }
    int writes = inserts > 0;
    if (ring->size && batch->state->older) { /* segments that no operation here writes */
        ring_match_keys(batch, indexes, batch->older, NULL, older, at, end);
    }
    switch (ring->size ? 3 : ring->joint ? 2 : ring->parts == 1) {
    case 3:
        ring_match_keys(batch, indexes, batch->current, writes ? batch->codes : NULL,
                        batch->values, at, end);
        break;
    case 2: RING_RUNS(1)
    case 1: RING_RUNS(0)
    default: RING_RUN(0, ring->run, ring->parts)
    }
    ring_evaluate(batch, older, batch->values, at, end);
    ring_report(batch, at, end);
    ring_count(ring, batch->state, batch->memory, inserts);
    return end;
}

/* Shifts or clears the ring for an operation, and replaces its code by the rest of the operation.
   The query reads the ring before the shift; the insertion changes the ring after it. */
static inline void ring_move(RingBatch *batch, RingIndexes *indexes, ptrdiff_t first,
                             ptrdiff_t at) {
    uint8_t *code = &batch->codes[at];
    int waits = (int)batch->state->waits, clears = *code == CLEAR;
    if (*code == CHECK) {
        *code = QUERY;
        ring_perform_some(batch, indexes, first, at, at + 1);
        *code = INSERT;
    }
    if (clears) {
        ring_clear(batch->ring, batch->state, batch->memory);
    } else if (*code == SHIFT || *code < ALONE) {
        ring_shift(batch->ring, batch->state, batch->memory);
    }
    if (waits && !batch->state->waits) {
        batch->current = 1; /* secret 0 is now the older one */
    }
    *code = *code < ALONE ? INSERT : NONE;
}

static inline void ring_perform_chunk(RingBatch *batch, RingIndexes *indexes, RingRow *states) {
    ptrdiff_t at = 0, first = 0, end = batch->count;
    while (at < batch->count) {
        if (!batch->ring->size) {
            /* After the next shift, keys go to other segments. */
            int64_t room = batch->state->length - batch->state->filled, left = batch->count - at;
            first = at;
            end = left > room && left > 16 ? at + (room > 16 ? room : 16) : batch->count;
            ring_find_words(batch, states, at, end - at);
        }
        at = ring_perform_some(batch, indexes, first, at, end);
        if (at < end) {
            ring_move(batch, indexes, first, at);
        }
    }
}

/* Computes the states of keys, and with columns also the indexes, for each secret. */
static inline void ring_find(const RingBatch *batch, const uint64_t *keys, ptrdiff_t count,
                             RingRow *states, RingIndexes *indexes) {
    const Ring *ring = batch->ring;
    for (int secret = 0; secret < batch->secret_count; secret++) {
        hash_states(ring->hash, keys, count, batch->secrets[secret], states[secret]);
        RingIndexes *rows = indexes + secret * ring->parts;
#ifdef LINES
        if (ring->size == LINE) {
            lines_find(ring->hash, ring->segments, states[secret], count, (Lines *)(void *)rows);
            continue;
        }
#endif
        if (ring->size) {
            ring_index_keys(ring, states[secret], count, 0, rows, NULL);
        }
    }
}

/* Performs all operations: those in `codes`, or `code` for each key. Returns the number of hits. */
static inline int64_t ring_perform(const Ring *ring, RingState *state, void *memory,
                                   RingIndexes *room, RingRow *masks, const uint8_t *codes,
                                   int code, const uint64_t *keys, ptrdiff_t count, int64_t *ages,
                                   uint8_t *seen) {
    RingBatch batch;
    RingRow states[RING_SECRETS];
    ptrdiff_t ahead = ring->size && ring->bytes > RING_CACHED ? CHUNK : 0;
    RingIndexes *indexes[2] = {room, room + RING_SECRETS * ring->parts};
    batch.ring = ring;
    batch.state = state;
    batch.memory = memory;
    batch.indexes = room;
    batch.masks = masks;
    batch.ages = NULL;
    batch.seen = NULL;
    batch.hits = 0;
    batch.alike = !codes && code < ALONE;
    batch.secret_count = 1 + (state->older || state->waits);
    batch.current = 0;
    batch.older = state->older > 0;
    batch.secrets[0] = state->secret;
    batch.secrets[1] = state->older ? state->older_secret : state->waiting;
    for (ptrdiff_t at = 0, next = 0; at < count; at += CHUNK) {
        batch.count = count - at < CHUNK ? count - at : CHUNK;
        /* Columns are found a chunk ahead, as a shift does not change them. They are prefetched
           during the operations before them, because many prefetches at once would wait for each
           other. */
        for (; next < count && next <= at + ahead; next += CHUNK) {
            ring_find(&batch, keys + next * ring->hash->words,
                      count - next < CHUNK ? count - next : CHUNK, states,
                      indexes[next / CHUNK & 1]);
        }
        if (codes) {
            memcpy(batch.codes, codes + at, (size_t)batch.count);
        } else {
            memset(batch.codes, code, (size_t)batch.count);
        }
        if (ages) {
            batch.ages = (int64_t *)memset(ages + at, 0xFF, (size_t)batch.count * 8);
        }
        if (seen) {
            batch.seen = (uint8_t *)memset(seen + at, 0, (size_t)batch.count);
        }
        batch.ahead = next > at + CHUNK ? indexes[(at / CHUNK + 1) & 1] : NULL;
        ring_perform_chunk(&batch, indexes[at / CHUNK & 1], states);
    }
    return batch.hits;
}

#endif
