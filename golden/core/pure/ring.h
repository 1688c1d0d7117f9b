/* Rings of segments, one operation after another: `Segments` of lately.golden.ring. The memory has
   one of three layouts. Columns, with one hash function for all segments (GEBF): an integer for
   each bit of a segment; bit j of the integer belongs to physical segment j. Lines: columns in
   another order (see lines.h). Words, with a hash function for each segment (APBF): one segment
   after another. */
#ifndef LATELY_RING_H
#define LATELY_RING_H

#include "hash.h"

#define LINE 32 /* bytes of a block in a segment; see lines.h */
#ifdef CLONES
#include "lines.h"
#endif

#define RING_PARTS 64                  /* maximum number of bits of a key in a segment */
#define RING_SEGMENTS 64               /* maximum number of segments, the spare included */
#define RING_NUMBER ((int64_t)1 << 62) /* maximum of a number in a state */
#define RING_CACHED (1 << 18)          /* memory size in bytes up to which nothing is prefetched */
#define RING_CLEARED 4096 /* minimum bytes of the retired segment cleared per insertion */

/* Position of a ring whose memory several processes map: `version` selects the valid slot. Only one
   process writes. It publishes a shift before it clears a segment, so that a process that reads
   with an earlier position misses no key in the window. A slot starts with base, filled, length and
   generation. */
typedef struct {
    uint64_t version;
    int64_t slots[2][12];
} RingLive;

/* Constants of a ring. */
typedef struct {
    const Hash *hash;
    int size;          /* bytes per column; LINE for lines, 0 for words */
    int segments, run; /* number of segments, and number of segments that a key needs to match */
    int joint;         /* whether all bits of a key in a segment are in one word */
    int blocked;       /* whether the first index selects a block */
    int rekeys;        /* whether a new secret takes effect at the next shift */
    ptrdiff_t parts;   /* number of bits of a key in a segment */
    ptrdiff_t words;   /* words per segment */
    ptrdiff_t bytes;   /* bytes of the memory */
    ptrdiff_t whole;   /* bytes that contain bits of a segment */
    uint64_t block_stride, part_stride, shard_stride, shards, shard_rotations[3];
    RingLive *live;    /* NULL if only this process uses the memory */
    int reads;         /* whether another process writes the memory */
} Ring;

/* State besides the memory: `RingPosition`. The first numbers are counters of operations. */
typedef struct {
    int64_t operations, keys, hits, late;
    int64_t base, filled, length, generation, insertions, shifts;
    int64_t older; /* number of oldest segments, which have the older secret */
    int64_t waits; /* whether a secret is waiting */
    Secret secret, older_secret, waiting;
    int64_t retired, cleared; /* last retired segment, and number of its bytes that are clear */
    int64_t pace;             /* bytes that each insertion clears */
} RingState;

ALWAYS int ring_within(int64_t value, int64_t min, int64_t max) {
    return value >= min && value <= max;
}

/* Whether all indexes of keys are within the memory, whose columns or words have `item` bytes. */
static inline int ring_is_sound(const Ring *ring, ptrdiff_t item) {
    const Hash *hash = ring->hash;
    const uint64_t max = (uint64_t)1 << 32;
    uint64_t bits = (uint64_t)(ring->size ? ring->bytes / ring->size : ring->words * 64);
    uint64_t block = ring->block_stride, part_end = 0;
    if (!ring_within(ring->segments, 2, RING_SEGMENTS) ||
        !ring_within(ring->run, 1, ring->segments - 1) ||
        !ring_within(ring->parts, 1, RING_PARTS) || ring->shards < 1 || ring->shards > 1 << 12 ||
        block > max || ring->shard_stride > max << 8 || ring->part_stride > max << 8) {
        return 0;
    }
    if (ring->size ? hash->functions != 1 || ring->run != 1 || ring->joint ||
                         ring->segments > 8 * ring->size ||
                         (item != 1 && item != 2 && item != 4 && item != 8)
                   : hash->functions != ring->segments || item != 8) {
        return 0;
    }
#ifdef LINES
    if (ring->size == LINE) {
        bits = (uint64_t)ring->whole * 8;
        if (item != 8 || !ring->blocked || block != LINE_PARTS * LINE_BITS ||
            ring->parts != LINE_PARTS || ring->part_stride != LINE_BITS || ring->shards != 1 ||
            !lines_fit(hash)) {
            return 0;
        }
    }
#endif
    for (ptrdiff_t part = 0; part < ring->parts; part++) {
        uint64_t end = (uint64_t)part * ring->part_stride + hash->field[part + ring->blocked].size;
        part_end = end > part_end ? end : part_end;
    }
    if (ring->joint && (!ring->blocked || block < 1 || block > 64 || part_end > block ||
                        block & (block - 1) || ring->shard_stride % block)) {
        return 0;
    }
    uint64_t last_block = ring->blocked ? (hash->field[0].size - 1) * block : 0;
    return bits <= max && last_block <= max &&
           last_block + (ring->shards - 1) * ring->shard_stride + part_end <= bits;
}

/* Whether a state is valid between operations. */
RARELY int ring_fits(const Ring *ring, const RingState *s) {
    return ring_within(s->base, 0, ring->segments - 1) && ring_within(s->filled, 0, s->length) &&
           ring_within(s->length, 1, RING_NUMBER) && ring_within(s->generation, 1, RING_NUMBER) &&
           ring_within(s->older, 0, ring->segments - 1) &&
           ring_within(s->waits, 0, !s->older) &&
           ring_within(s->retired, 0, ring->segments - 1) &&
           ring_within(s->cleared, 0, ring->whole) &&
           (s->cleared % LINE == 0 || s->cleared == ring->whole) && s->pace % LINE == 0 &&
           ring_within(s->pace, 0, ring->whole + RING_CLEARED + LINE);
}

/* Physical segment at position `age`; 0 is the youngest. */
ALWAYS int64_t ring_segment(const Ring *ring, const RingState *state, int age) {
    int64_t segment = state->base + age;
    return segment < ring->segments ? segment : segment - ring->segments;
}

/* Whether a segment has the older secret. */
ALWAYS int ring_is_older(const Ring *ring, const RingState *state, int age) {
    return age >= ring->segments - 1 - state->older;
}

/* Rotates a mask of physical segments so that bit 0 is the youngest. */
ALWAYS uint64_t ring_rotated(uint64_t mask, int64_t base, int segments) {
    return base ? mask >> base | mask << (segments - base) : mask;
}

/* Combines the matches of physical segments under the current and the older secret; bit i of the
   result is the segment of age i. */
ALWAYS uint64_t ring_ages(uint64_t matches, uint64_t older_matches, int64_t base, int64_t older,
                          int segments) {
    uint64_t all = ((uint64_t)1 << (segments - 1)) - 1, young = all >> older;
    matches = ring_rotated(matches, base, segments) & young;
    return older ? matches | (ring_rotated(older_matches, base, segments) & all & ~young) : matches;
}

/* Shifts and clears */

RARELY void ring_publish(const Ring *ring, const RingState *state) {
#if defined(__GNUC__) /* with other compilers, processes cannot share a ring */
    RingLive *live = ring->live;
    if (live && !ring->reads) {
        uint64_t next = live->version + 1;
        memcpy(live->slots[next & 1], &state->base, 4 * sizeof(int64_t));
        __atomic_store_n(&live->version, next, __ATOMIC_RELEASE);
        /* The following clear must not become visible before the shift. */
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    }
#else
    (void)ring;
    (void)state;
#endif
}

/* Word access to columns of any size. */
#if defined(__GNUC__)
typedef uint64_t RingWord __attribute__((may_alias));
#else
typedef uint64_t RingWord;
#endif

WIDE static void ring_keep_bits(RingWord *words, ptrdiff_t count, uint64_t keep) {
    for (ptrdiff_t i = 0; i < count; i++) {
        words[i] &= keep;
    }
}

/* Clears more bytes of the retired segment, which is not read until it is the youngest. */
RARELY void ring_clear_more(const Ring *ring, RingState *state, void *memory, int64_t bytes) {
    uint8_t *begin = (uint8_t *)memory + state->cleared;
    int64_t left = ring->whole - state->cleared, part = bytes < left ? bytes : left;
    state->cleared += part;
    if (!ring->size) {
        memset(begin + state->retired * ring->whole, 0, (size_t)part);
        return;
    }
#ifdef LINES
    if (ring->size == LINE) {
        lines_clear(memory, ring->segments, state->retired, state->cleared - part, part);
        return;
    }
#endif
    /* Several columns at once, then the rest. */
    uint64_t bit = (uint64_t)1 << state->retired, bits = 0, rest = 0;
    for (int low = 0; low < 64; low += 8 * ring->size) {
        bits |= bit << low;
    }
    ring_keep_bits((RingWord *)(void *)begin, part / 8, ~bits);
    memcpy(&rest, begin + part / 8 * 8, (size_t)(part % 8));
    rest &= ~bits;
    memcpy(begin + part / 8 * 8, &rest, (size_t)(part % 8));
}

ALWAYS void ring_settle(const Ring *ring, RingState *state, void *memory) {
    if (state->cleared < ring->whole) {
        ring_clear_more(ring, state, memory, ring->whole);
    }
}

RARELY void ring_shift(const Ring *ring, RingState *state, void *memory) {
    const Secret none = {0, 0};
    ring_settle(ring, state, memory);
    state->base = (state->base ? state->base : ring->segments) - 1;
    state->filled = 0;
    state->length = state->generation;
    state->shifts++;
    state->older -= state->older > 0;
    if (ring->rekeys && state->waits) {
        state->older_secret = state->secret;
        state->older = ring->segments - 2;
        state->secret = state->waiting;
        state->waiting = none;
        state->waits = 0;
    }
    if (!state->older) {
        state->older_secret = none;
    }
    ring_publish(ring, state);
    int64_t pace = (ring->whole / state->length + LINE) / LINE * LINE;
    state->retired = ring_segment(ring, state, ring->segments - 1);
    state->cleared = 0;
    state->pace = pace > RING_CLEARED ? pace : RING_CLEARED;
}

RARELY void ring_clear(const Ring *ring, RingState *state, void *memory) {
    const Secret none = {0, 0};
    memset(memory, 0, (size_t)ring->bytes);
    state->cleared = ring->whole;
    state->base = state->filled = state->older = 0;
    state->length = state->generation;
    if (state->waits) {
        state->secret = state->waiting;
        state->waits = 0;
    }
    state->older_secret = state->waiting = none;
}

ALWAYS void ring_count(const Ring *ring, RingState *state, void *memory, int64_t insertions) {
    state->filled += insertions;
    state->insertions += insertions;
    if (insertions && state->cleared < ring->whole) {
        ring_clear_more(ring, state, memory, insertions * state->pace);
    }
}

/* Bit indexes */

/* Computes the bit indexes of keys in a segment, with a hash function: in `out`, a row for each
   part, `stride` apart. If `masks` is given, `out` has a single row with indexes of words, and
   `masks` the bits in each word. The callers provide local arrays, which no pointer aliases; `bits`
   is zero. */
ALWAYS void ring_index(const Ring *ring, const uint64_t *states, ptrdiff_t count,
                       ptrdiff_t function, uint32_t *out, ptrdiff_t stride, uint64_t *masks,
                       uint64_t *words, uint64_t *bits, uint32_t *bases) {
    const Hash *hash = ring->hash;
    for (ptrdiff_t i = 0; i < count; i++) {
        bases[i] = 0;
    }
    for (ptrdiff_t i = 0; ring->shards > 1 && i < count; i++) {
        uint64_t shard = (hash_word(ring->shard_rotations, states[i]) >> 52) * ring->shards >> 12;
        bases[i] = (uint32_t)(shard * ring->shard_stride);
    }
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
        if (part < 0) {
            for (ptrdiff_t i = 0; i < count; i++) {
                bases[i] += (uint32_t)hash_index(field, words[i]) * (uint32_t)ring->block_stride;
            }
        } else if (masks) {
            for (ptrdiff_t i = 0; i < count; i++) {
                bits[i] |= (uint64_t)1 << (hash_index(field, words[i]) + offset);
            }
        } else if (field.size == field.mask + 1) {
            for (ptrdiff_t i = 0; i < count; i++) {
                out[part * stride + i] =
                    (uint32_t)(words[i] >> field.low & field.mask) + offset + bases[i];
            }
        } else {
            for (ptrdiff_t i = 0; i < count; i++) {
                out[part * stride + i] = (uint32_t)hash_index(field, words[i]) + offset + bases[i];
            }
        }
    }
    for (ptrdiff_t i = 0; masks && i < count; i++) {
        masks[i] = bits[i] << (bases[i] & 63);
        out[i] = bases[i] >> 6;
    }
}

/* The same for one key. Not inlined: inlining makes calls with a single text 10 % slower. */
RARELY void ring_index_key(const Ring *ring, uint64_t state, ptrdiff_t function, uint32_t *out,
                           uint64_t *mask) {
    uint64_t word, bits = 0;
    uint32_t base;
    ring_index(ring, &state, 1, function, out, 1, mask, &word, &bits, &base);
}

/* Columns */

ALWAYS uint64_t ring_column(const void *memory, int size, uint32_t index) {
    switch (size) {
    case 1: return ((const uint8_t *)memory)[index];
    case 2: return ((const uint16_t *)memory)[index];
    case 4: return ((const uint32_t *)memory)[index];
    default: return ((const uint64_t *)memory)[index];
    }
}

ALWAYS void ring_set_column(void *memory, int size, uint32_t index, uint64_t value) {
    switch (size) {
    case 1: ((uint8_t *)memory)[index] = (uint8_t)value; break;
    case 2: ((uint16_t *)memory)[index] = (uint16_t)value; break;
    case 4: ((uint32_t *)memory)[index] = (uint32_t)value; break;
    default: ((uint64_t *)memory)[index] = value;
    }
}

ALWAYS uint64_t ring_touch_indexes(void *memory, int size, ptrdiff_t parts, const uint32_t *indexes,
                                   uint64_t bit) {
    uint64_t matches = ~(uint64_t)0;
    for (ptrdiff_t part = 0; part < parts; part++) {
        uint64_t before = ring_column(memory, size, indexes[part]);
        matches &= before;
        if (bit) {
            ring_set_column(memory, size, indexes[part], before | bit);
        }
    }
    return matches;
}

/* Reads the columns of a key, and sets the bit `base` if the key is inserted. */
static inline uint64_t ring_touch_columns(const Ring *ring, const RingState *state, void *memory,
                                          uint64_t key_state, int inserts) {
    uint32_t indexes[RING_PARTS];
    uint64_t bit = (uint64_t)(inserts != 0) << state->base;
#ifdef LINES
    if (ring->size == LINE) {
        return lines_perform(ring->hash, ring->segments, memory, key_state, state->base,
                             inserts != 0);
    }
#endif
    ring_index_key(ring, key_state, 0, indexes, NULL);
    switch (ring->size) {
    case 1: return ring_touch_indexes(memory, 1, ring->parts, indexes, bit);
    case 2: return ring_touch_indexes(memory, 2, ring->parts, indexes, bit);
    case 4: return ring_touch_indexes(memory, 4, ring->parts, indexes, bit);
    default: return ring_touch_indexes(memory, 8, ring->parts, indexes, bit);
    }
}

/* Words; `states` has the hash state of a key under the current and the older secret. */

ALWAYS uint64_t *ring_words(const Ring *ring, const RingState *state, void *memory, int age) {
    return (uint64_t *)memory + ring_segment(ring, state, age) * ring->words;
}

/* Whether a key has one bit in a segment, at its only index. */
ALWAYS int ring_is_single(const Ring *ring) {
    return ring->parts == 1 && !ring->blocked && ring->shards == 1;
}

/* Whether a segment has all bits of a key; sets them if the key is inserted. */
static inline uint64_t ring_touch_words(const Ring *ring, const RingState *state, void *memory,
                                        const uint64_t *states, int age, int inserts) {
    uint32_t indexes[RING_PARTS];
    uint64_t *segment = ring_words(ring, state, memory, age), *word, mask, match = 1;
    uint64_t key_state = states[ring_is_older(ring, state, age)];
    ptrdiff_t function = ring_segment(ring, state, age); /* each segment has its own */
    if (ring->joint) {
        ring_index_key(ring, key_state, function, indexes, &mask);
        word = &segment[*indexes];
        match = (*word & mask) == mask;
        *word |= inserts ? mask : 0;
        return match;
    }
    if (ring_is_single(ring)) { /* faster than the general function */
        const uint64_t *rotations = hash_rotations(ring->hash, function, 0);
        *indexes = (uint32_t)hash_index(ring->hash->field[0], hash_word(rotations, key_state));
    } else {
        ring_index_key(ring, key_state, function, indexes, NULL);
    }
    for (ptrdiff_t part = 0; part < ring->parts; part++) {
        word = &segment[indexes[part] >> 6];
        match &= *word >> (indexes[part] & 63);
        *word |= (uint64_t)inserts << (indexes[part] & 63);
    }
    return match & 1;
}

/* Tests the segments of a possible run from the oldest to the youngest: a segment that does not
   match excludes all runs that contain it (APBF, algorithm 1). */
static inline uint64_t ring_query_words(const Ring *ring, const RingState *state, void *memory,
                                        const uint64_t *states) {
    int start = 0, known = 0, age;
    while (start + ring->run < ring->segments) {
        for (age = start + ring->run - 1; age >= start + known; age--) {
            if (!ring_touch_words(ring, state, memory, states, age, 0)) {
                break;
            }
        }
        if (age < start + known) {
            return (uint64_t)1 << start;
        }
        known = start + ring->run - 1 - age;
        start = age + 1;
    }
    return 0;
}

/* One key */

/* Computes the hash states of a key if not only the current secret is in use. */
RARELY void ring_states(const Ring *ring, const RingState *state, const uint64_t *key,
                        uint64_t *states) {
    states[0] = hash_state(ring->hash, key, state->secret);
    states[1] = hash_state(ring->hash, key, state->older_secret);
}

/* Performs QUERY, INSERT or CHECK of a key. Returns 0 if the key is not reported; otherwise the
   index of the lowest set bit is the age. */
static inline uint64_t ring_perform_key(const Ring *ring, RingState *state, void *memory, int code,
                                        const uint64_t *key) {
    uint64_t states[2] = {hash_state(ring->hash, key, state->secret), 0}, value = 0, older = 0;
    int inserts = (code & INSERT) != 0, shifts = inserts && state->filled >= state->length;
    int due = inserts && (shifts || !(code & QUERY)); /* insertion apart from the query */
    if (state->older) {
        ring_states(ring, state, key, states);
    }
    if ((code & QUERY) && ring->size) {
        value = ring_touch_columns(ring, state, memory, states[0], inserts && !due);
        older = state->older ? ring_touch_columns(ring, state, memory, states[1], 0) : 0;
        value = ring_ages(value, older, state->base, state->older, ring->segments);
    } else if (code & QUERY) {
        value = ring_query_words(ring, state, memory, states);
        due = inserts;
    }
    if (shifts) {
        int waits = (int)state->waits;
        ring_shift(ring, state, memory);
        if (waits) {
            ring_states(ring, state, key, states);
        }
    }
    if (due && ring->size) {
        ring_touch_columns(ring, state, memory, states[0], 1);
    }
    for (int age = 0; due && !ring->size && age < ring->run; age++) {
        ring_touch_words(ring, state, memory, states, age, 1);
    }
    if (inserts) {
        ring_count(ring, state, memory, 1);
        if (ring->live) {
            ring->live->slots[ring->live->version & 1][1] = state->filled;
        }
    }
    return value;
}

#endif
