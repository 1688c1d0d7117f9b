/* Many operations on a ring, with the results of one after another. First, the positions of a chunk
   of keys are computed in loops that become vector instructions. Then the operations are performed,
   shifts and clears included. */
#ifndef LATELY_BATCH_H
#define LATELY_BATCH_H

#include "ring.h"

#define RING_ROWS 2 /* rows, one per secret: the current one, and an older or waiting one */

typedef uint64_t RingRow[CHUNK];
typedef uint32_t RingPlaces[CHUNK]; /* a segment has at most 2**32 bits */

/* Operations of a chunk, each with its code, and their answers. A value is 0 if the key is not
   reported; otherwise the index of its lowest set bit is the age. Arrays of answers may be NULL. */
typedef struct {
    const Ring *ring;
    RingState *state;
    void *memory;
    RingPlaces *places; /* room for RING_ROOM rows */
    RingRow *masks;     /* masks of words, for each row of places, if the ring is `joint` */
    RingPlaces *ahead;  /* places of the next chunk, to prefetch; NULL: none */
    Secret secrets[RING_ROWS];
    int rows;                /* number of secrets in use */
    int row, older_row;
    ptrdiff_t count;
    int alike;               /* whether all operations are equal, and on keys */
    uint8_t codes[CHUNK];
    RingRow values;
    int64_t *ages;
    uint8_t *seen;
    int64_t hits;
} RingBatch;

/* Rows of places that a batch needs, for a ring with columns or with words. */
#define RING_ROOM(columns, joint, parts, run) \
    (((columns) ? 2 * RING_ROWS : (run) + 1) * ((joint) ? 1 : (parts)))

/* Position of the first bit of each key's block, or shard. */
ALWAYS void ring_bases(const Ring *ring, const uint64_t *states, ptrdiff_t count,
                       const uint64_t *words, uint32_t *bases) {
    Field block = ring->hash->field[0];
    for (ptrdiff_t i = 0; i < count; i++) {
        bases[i] = 0;
    }
    if (ring->shards > 1) {
        for (ptrdiff_t i = 0; i < count; i++) {
            uint64_t word = hash_word(ring->shard_rotations, states[i]);
            bases[i] = (uint32_t)(((word >> 52) * ring->shards >> 12) * ring->shard_stride);
        }
    }
    if (ring->blocked) {
        uint32_t stride = (uint32_t)ring->block_stride;
        for (ptrdiff_t i = 0; i < count; i++) {
            bases[i] += (uint32_t)hash_index(block, words[i]) * stride;
        }
    }
}

/* Positions of the keys' bits in a segment under a hash function: one row of `out` per part. If
   `masks` is given, `out` has a single row of words, and `masks` the bits in each word. */
WIDE static void ring_places(const Ring *ring, const uint64_t *states, ptrdiff_t count,
                             ptrdiff_t function, RingPlaces *out, uint64_t *masks) {
    const Hash *hash = ring->hash;
    RingRow words, bits = {0}; /* locals, so no other pointer aliases them */
    RingPlaces bases;
    for (ptrdiff_t number = 0; number < hash->fields; number++) {
        Field field = hash->field[number];
        ptrdiff_t part = number - ring->blocked;
        uint32_t offset = (uint32_t)((uint64_t)part * ring->part_stride);
        if (number == 0 || field.word != hash->field[number - 1].word) {
            const uint64_t *rotations = hash_rotations(hash, function, field.word);
            for (ptrdiff_t i = 0; i < count; i++) {
                words[i] = hash_word(rotations, states[i]);
            }
        }
        if (number == 0) {
            ring_bases(ring, states, count, words, bases);
        }
        if (part < 0) {
            continue;
        }
        if (masks && field.size == field.mask + 1) {
            for (ptrdiff_t i = 0; i < count; i++) {
                bits[i] |= (uint64_t)1 << ((words[i] >> field.low & field.mask) + offset);
            }
        } else if (masks) {
            for (ptrdiff_t i = 0; i < count; i++) {
                bits[i] |= (uint64_t)1 << (hash_index(field, words[i]) + offset);
            }
        } else if (field.size == field.mask + 1) {
            for (ptrdiff_t i = 0; i < count; i++) {
                out[part][i] = (uint32_t)(words[i] >> field.low & field.mask) + offset + bases[i];
            }
        } else {
            for (ptrdiff_t i = 0; i < count; i++) {
                out[part][i] = (uint32_t)hash_index(field, words[i]) + offset + bases[i];
            }
        }
    }
    for (ptrdiff_t i = 0; masks && i < count; i++) {
        masks[i] = bits[i] << (bases[i] & 63);
        out[0][i] = bases[i] >> 6;
    }
}

/* Columns */

/* Finds the segments in which all bits of each key are set; operations that insert then set the bit
   `base`. If two parts share a column, the first read, before the write, decides. With each key,
   the columns of a key of the next chunk, at `ahead`, are prefetched. */
ALWAYS void ring_meet(void *memory, int size, ptrdiff_t parts, RingPlaces *places,
                      RingPlaces *ahead, const uint8_t *codes, int64_t base, uint64_t *met,
                      ptrdiff_t at, ptrdiff_t end) {
    for (ptrdiff_t i = at; i < end; i++) {
        for (ptrdiff_t part = 0; ahead && part < parts; part++) {
            FETCH((const char *)memory + (size_t)ahead[part][i] * (size_t)size);
        }
        uint64_t bit = codes ? (uint64_t)(codes[i] >> 1 & 1) << base : 0, all = ~(uint64_t)0;
        for (ptrdiff_t part = 0; part < parts; part++) {
            uint64_t before = ring_column(memory, size, places[part][i]);
            if (codes) {
                ring_set_column(memory, size, places[part][i], before | bit);
            }
            all &= before;
            IN_ORDER(all);
        }
        met[i] = all;
    }
}

/* Loops that prefetch and do not write are bound by memory latency, so they need no unrolling. */
#define RING_MEET_OF(size, parts)                                                                \
    if (ahead && codes) {                                                                        \
        ring_meet(memory, size, parts, places, ahead, codes, base, met, at, end);                \
    } else {                                                                                     \
        ring_meet(memory, size, parts, places, NULL, codes, base, met, at, end);                 \
    }
#define RING_CASE(size, parts)                                                                   \
    case 16 * (size) + (parts): RING_MEET_OF(size, parts) break;
#define RING_CASES(size)                                                                         \
    RING_CASE(size, 4) RING_CASE(size, 5) RING_CASE(size, 6) RING_CASE(size, 7)                  \
    RING_CASE(size, 8) RING_CASE(size, 9) RING_CASE(size, 10) RING_CASE(size, 11)                \
    RING_CASE(size, 12) RING_CASE(size, 13)

/* For lines, rows of places hold line numbers. */
#ifdef LINES
#define RING_LINES()                                                                             \
    if (ring->size == LINE) {                                                                    \
        ptrdiff_t rows = row * ring->parts;                                                      \
        lines_meet_all(ring->hash, ring->segments, batch->memory, (Lines *)(void *)(all + rows), \
                       batch->ahead ? (Lines *)(void *)(batch->ahead + rows) : NULL, codes,      \
                       codes ? 1 + batch->alike : 0, batch->state->base, met, at, end);          \
        return;                                                                                  \
    }
#else
#define RING_LINES()
#endif

/* The usual numbers of parts are constants, so that the loop over them is unrolled. The places are
   those in `row`, for one secret. */
#define RING_MEET(name, given)                                                                   \
    static void name(const RingBatch *batch, RingPlaces *all, int row, uint64_t *met,      \
                     ptrdiff_t at, ptrdiff_t end) {                                              \
        const Ring *ring = batch->ring;                                                          \
        const uint8_t *codes = given;                                                            \
        RING_LINES()                                                                             \
        RingPlaces *places = all + row * ring->parts;                                      \
        RingPlaces *ahead = batch->ahead ? batch->ahead + row * ring->parts : NULL;        \
        void *memory = batch->memory;                                                            \
        int64_t base = batch->state->base;                                                       \
        if (ahead && !codes) {                                                                   \
            ring_meet(memory, ring->size, ring->parts, places, ahead, NULL, base, met, at, end); \
            return;                                                                              \
        }                                                                                        \
        switch (ring->parts <= 13 ? 16 * ring->size + (int)ring->parts : 0) {                    \
            RING_CASES(1)                                                                        \
            RING_CASES(2)                                                                        \
        default: RING_MEET_OF(ring->size, ring->parts)                                           \
        }                                                                                        \
    }

RING_MEET(ring_meet_only, NULL)
RING_MEET(ring_meet_and_set, batch->codes)

WIDE static void ring_sort(const RingBatch *batch, const uint64_t *older_met, uint64_t *met,
                           ptrdiff_t at, ptrdiff_t end) {
    int64_t base = batch->state->base, older = batch->state->older;
    int segments = batch->ring->segments;
    for (ptrdiff_t i = at; older && i < end; i++) {
        met[i] = ring_ages(met[i], older_met[i], base, older, segments);
    }
    for (ptrdiff_t i = at; !older && i < end; i++) {
        met[i] = ring_ages(met[i], 0, base, 0, segments);
    }
}

/* Performs operations `at` to `end`, none of which turns the ring; writes answers to values. */
static inline void ring_chunk_columns(RingBatch *batch, RingPlaces *places, ptrdiff_t at,
                                      ptrdiff_t end, int writes) {
    RingRow older;
    if (batch->state->older) { /* segments that no operation here writes */
        ring_meet_only(batch, places, batch->older_row, older, at, end);
    }
    (writes ? ring_meet_and_set : ring_meet_only)(batch, places, batch->row, batch->values, at,
                                                  end);
    ring_sort(batch, older, batch->values, at, end);
}

/* Words */

ALWAYS uint64_t ring_bit(const uint64_t *segment, uint32_t place) {
    return segment[place >> 6] >> (place & 63) & 1;
}

/* Updates the matches of keys for segment `index`, of one part; like `ring_places`, but without
   blocks and shards. */
WIDE static void ring_match_single(const Hash *hash, const uint64_t *states, ptrdiff_t count,
                                   ptrdiff_t function, const uint64_t *segment, int index,
                                   uint64_t *matches) {
    const uint64_t *rotations = hash_rotations(hash, function, 0);
    Field field = hash->field[0];
    RingRow met; /* a copy, so that nothing that is read can change */
    for (ptrdiff_t i = 0; i < count; i++) {
        uint64_t place = hash_index(field, hash_word(rotations, states[i]));
        met[i] = segment[place >> 6] >> (place & 63) & 1;
    }
    for (ptrdiff_t i = 0; i < count; i++) {
        matches[i] |= met[i] << index;
    }
}

/* The same for a segment with positions already computed. */
WIDE static void ring_match_parts(const uint64_t *segment, RingPlaces *places,
                                  ptrdiff_t parts, ptrdiff_t count, int index, uint64_t *matches) {
    RingRow met;
    for (ptrdiff_t i = 0; i < count; i++) {
        met[i] = ring_bit(segment, places[0][i]);
    }
    for (ptrdiff_t part = 1; part < parts; part++) {
        for (ptrdiff_t i = 0; i < count; i++) {
            met[i] &= ring_bit(segment, places[part][i]);
        }
    }
    for (ptrdiff_t i = 0; i < count; i++) {
        matches[i] |= met[i] << index;
    }
}

WIDE static void ring_match_masks(const uint64_t *segment, const uint32_t *places,
                                  const uint64_t *masks, ptrdiff_t count, int index,
                                  uint64_t *matches) {
    RingRow met;
    for (ptrdiff_t i = 0; i < count; i++) {
        met[i] = (segment[places[i]] & masks[i]) == masks[i];
    }
    for (ptrdiff_t i = 0; i < count; i++) {
        matches[i] |= met[i] << index;
    }
}

/* Computes positions in the segments that are written, and matches in all others, which stay the
   same until the ring moves. */
static inline void ring_find_words(RingBatch *batch, RingRow *states, ptrdiff_t at,
                                   ptrdiff_t count) {
    const Ring *ring = batch->ring;
    ptrdiff_t parts = ring->joint ? 1 : ring->parts;
    uint64_t *matches = batch->values + at;
    int asks = 0;
    for (ptrdiff_t i = 0; i < count; i++) {
        asks |= batch->codes[at + i] & QUERY;
        matches[i] = 0;
    }
    for (int index = 0; index < (asks ? ring->segments - 1 : ring->run); index++) {
        int written = index < ring->run, row = written ? index : ring->run; /* the last: any */
        int secret = ring_is_older(ring, batch->state, index) ? batch->older_row : batch->row;
        const uint64_t *own = states[secret] + at;
        const uint64_t *segment = ring_words(ring, batch->state, batch->memory, index);
        ptrdiff_t function = ring_segment(ring, batch->state, index) % ring->hash->functions;
        RingPlaces *places = batch->places + row * parts;
        uint64_t *masks = ring->joint ? batch->masks[row] : NULL;
        if (!written && ring_is_single(ring)) {
            ring_match_single(ring->hash, own, count, function, segment, index, matches);
            continue;
        }
        ring_places(ring, own, count, function, places, masks);
        for (ptrdiff_t part = 0; ring->bytes > RING_CACHED && part < parts; part++) {
            for (ptrdiff_t i = 0; i < count; i++) {
                FETCH(segment + (places[part][i] >> (masks ? 0 : 6)));
            }
        }
        if (!written && masks) {
            ring_match_masks(segment, *places, masks, count, index, matches);
        } else if (!written) {
            ring_match_parts(segment, places, parts, count, index, matches);
        }
    }
}

/* Whether a written segment has all bits of a key; if the operation inserts, sets them. */
ALWAYS uint64_t ring_meet_word(uint64_t *segment, RingPlaces *places, RingRow *masks,
                               ptrdiff_t parts, ptrdiff_t i, uint64_t inserts, int writes) {
    uint64_t met = 1;
    if (masks) {
        uint64_t *word = &segment[places[0][i]], before = *word, mask = masks[0][i];
        if (writes) {
            *word = before | (mask & -inserts);
        }
        return (before & mask) == mask;
    }
    for (ptrdiff_t part = 0; part < parts; part++) {
        uint32_t place = places[part][i];
        uint64_t *word = &segment[place >> 6], before = *word;
        if (writes) {
            *word = before | inserts << (place & 63);
        }
        met &= before >> (place & 63);
    }
    return met & 1;
}

/* `places` begins with the operation `first`. */
ALWAYS void ring_meet_words(RingBatch *batch, int joint, int run, ptrdiff_t parts, ptrdiff_t first,
                            ptrdiff_t at, ptrdiff_t end, int writes) {
    RingPlaces *places = batch->places;
    RingRow *masks = batch->masks;
    uint64_t *segment[RING_SEGMENTS];
    for (int index = 0; index < run; index++) {
        segment[index] = ring_words(batch->ring, batch->state, batch->memory, index);
    }
    for (; at < end; at++) {
        uint64_t inserts = batch->codes[at] >> 1 & 1, matches = 0;
        for (int index = 0; index < run; index++) {
            matches |= ring_meet_word(segment[index], places + index * parts,
                                      joint ? masks + index : NULL, parts, at - first, inserts,
                                      writes)
                       << index;
        }
        batch->values[at] |= matches;
    }
}

#define RING_RUN(joint, run, parts)                                                              \
    if (writes) {                                                                                \
        ring_meet_words(batch, joint, run, parts, first, at, end, 1);                            \
    } else {                                                                                     \
        ring_meet_words(batch, joint, run, parts, first, at, end, 0);                            \
    }                                                                                            \
    break;
#define RING_RUNS(joint, parts)                                                                  \
    switch (ring->run) {                                                                         \
    case 1: RING_RUN(joint, 1, parts)                                                            \
    case 2: RING_RUN(joint, 2, parts)                                                            \
    case 6: RING_RUN(joint, 6, parts)                                                            \
    case 10: RING_RUN(joint, 10, parts)                                                          \
    default: RING_RUN(joint, ring->run, parts)                                                   \
    }

WIDE static void ring_find_runs(int run, uint64_t *values, ptrdiff_t at, ptrdiff_t end) {
    for (int known = 1, step; known < run; known += step) {
        step = known < run - known ? known : run - known;
        for (ptrdiff_t i = at; i < end; i++) {
            values[i] &= values[i] >> step;
        }
    }
}

static inline void ring_chunk_words(RingBatch *batch, ptrdiff_t first, ptrdiff_t at, ptrdiff_t end,
                                    int writes) {
    const Ring *ring = batch->ring;
    switch (ring->joint ? 2 : ring->parts == 1) {
    case 2: RING_RUNS(1, 1) break;
    case 1: RING_RUNS(0, 1) break;
    default: RING_RUN(0, ring->run, ring->parts)
    }
    ring_find_runs(ring->run, batch->values, at, end);
}

/* Chunks; their codes change on the way. */

WIDE static void ring_answer(RingBatch *batch, ptrdiff_t at, ptrdiff_t end) {
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
        if (batch->values[i] && (batch->codes[i] & QUERY)) {
            batch->ages[i] = lowest(batch->values[i]);
        }
    }
    batch->hits += hits;
}

/* Performs operations from `at` up to one that moves the ring; returns the index of that operation.
   For words, `places` begins with the operation `first`. */
static inline ptrdiff_t ring_perform_some(RingBatch *batch, RingPlaces *places,
                                          ptrdiff_t first, ptrdiff_t at, ptrdiff_t limit) {
    int64_t room = batch->state->length - batch->state->filled, inserts = 0;
    ptrdiff_t end = at;
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
    if (batch->ring->size) {
        ring_chunk_columns(batch, places, at, end, inserts > 0);
    } else {
        ring_chunk_words(batch, first, at, end, inserts > 0);
    }
    ring_answer(batch, at, end);
    ring_count(batch->ring, batch->state, batch->memory, inserts);
    return end;
}

/* Moves the ring for an operation, and leaves the remaining steps in its code. The query is
   answered by the old ring; the insertion goes to the new one. */
static inline void ring_move_for(RingBatch *batch, RingPlaces *places, ptrdiff_t first,
                                 ptrdiff_t at) {
    uint8_t *code = &batch->codes[at];
    int waits = (int)batch->state->waits, clears = *code == CLEAR;
    if (*code == CHECK) {
        *code = QUERY;
        ring_perform_some(batch, places, first, at, at + 1);
        *code = INSERT;
    }
    if (clears) {
        ring_erase(batch->ring, batch->state, batch->memory);
    } else if (*code == SHIFT || *code < ALONE) {
        ring_turn(batch->ring, batch->state, batch->memory);
    }
    if (waits && !batch->state->waits) {
        batch->row = 1; /* row 0 is now the older secret */
    }
    *code = *code < ALONE ? INSERT : NONE;
}

static inline void ring_perform_chunk(RingBatch *batch, RingPlaces *places,
                                      RingRow *states) {
    ptrdiff_t at = 0, first = 0, end = batch->count;
    while (at < batch->count) {
        if (!batch->ring->size) {
            /* After the next turn, keys go to other segments. */
            int64_t room = batch->state->length - batch->state->filled, left = batch->count - at;
            first = at;
            end = left > room && left > 16 ? at + (room > 16 ? room : 16) : batch->count;
            ring_find_words(batch, states, at, end - at);
        }
        at = ring_perform_some(batch, places, first, at, end);
        if (at < end) {
            ring_move_for(batch, places, first, at);
        }
    }
}

static inline void ring_find_states(const RingBatch *batch, const uint64_t *keys, ptrdiff_t count,
                                    RingRow *states) {
    for (int row = 0; row < batch->rows; row++) {
        hash_states(batch->ring->hash, keys, count, batch->secrets[row], states[row]);
    }
}

static inline void ring_find_columns(const RingBatch *batch, const uint64_t *keys, ptrdiff_t count,
                                     RingPlaces *places) {
    RingRow states[RING_ROWS];
    ring_find_states(batch, keys, count, states);
    for (int row = 0; row < batch->rows; row++) {
        RingPlaces *own = places + row * batch->ring->parts;
#ifdef LINES
        if (batch->ring->size == LINE) {
            lines_find(batch->ring->hash, batch->ring->segments, states[row], count, (Lines *)(void *)own);
            continue;
        }
#endif
        ring_places(batch->ring, states[row], count, 0, own, NULL);
    }
}

/* Performs all operations: those in `codes`, or `code` for each key. Returns the number of hits. */
static inline int64_t ring_perform(const Ring *ring, RingState *state, void *memory,
                                   RingPlaces *room, RingRow *masks, const uint8_t *codes,
                                   int code, const uint64_t *keys, ptrdiff_t count, int64_t *ages,
                                   uint8_t *seen) {
    RingBatch batch;
    RingRow states[RING_ROWS];
    ptrdiff_t words = ring->hash->words, ahead = ring->bytes > RING_CACHED ? CHUNK : 0;
    RingPlaces *places[2] = {room, room + RING_ROWS * ring->parts};
    batch.ring = ring;
    batch.state = state;
    batch.memory = memory;
    batch.places = room;
    batch.masks = masks;
    batch.ahead = NULL;
    batch.ages = NULL;
    batch.seen = NULL;
    batch.hits = 0;
    batch.alike = !codes && code < ALONE;
    batch.rows = 1 + (state->older || state->waits);
    batch.row = 0;
    batch.older_row = state->older > 0;
    batch.secrets[0] = state->secret;
    batch.secrets[1] = state->older ? state->older_secret : state->waiting;
    for (ptrdiff_t at = 0, found = 0; at < count; at += CHUNK) {
        batch.count = count - at < CHUNK ? count - at : CHUNK;
        /* Columns are computed a chunk ahead, as a turn does not change them. They are prefetched
           during the operations before them, because many prefetches at once would wait for each
           other. */
        for (; ring->size && found < count && found <= at + ahead; found += CHUNK) {
            ring_find_columns(&batch, keys + found * words,
                              count - found < CHUNK ? count - found : CHUNK,
                              places[found / CHUNK & 1]);
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
        if (ring->size) {
            batch.ahead = ahead && found > at + CHUNK ? places[(at / CHUNK + 1) & 1] : NULL;
        } else {
            ring_find_states(&batch, keys + at * words, batch.count, states);
        }
        ring_perform_chunk(&batch, places[at / CHUNK & 1], states);
    }
    return batch.hits;
}

#endif
