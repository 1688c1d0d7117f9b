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

#define RING_PARTS 64         /* maximum bits of a key in a segment */
#define RING_SEGMENTS 64      /* maximum segments, the spare included */
#define RING_NUMBER ((int64_t)1 << 62) /* maximum of a number in a state */
#define RING_CACHED (1 << 18) /* memory size in bytes up to which nothing is prefetched */
#define RING_CLEARED 4096     /* minimum bytes of the retired segment cleared per insertion */

/* Position of a ring whose memory several processes map: `turns` selects the valid slot. Only one
   process writes. It publishes a turn before it clears a segment, so that a process that reads with
   an earlier position misses no key of the window. A slot starts with base, filled, length and
   generation. */
typedef struct {
    uint64_t turns;
    int64_t slots[2][12];
} RingLive;

/* Constants of a ring. */
typedef struct {
    const Hash *hash;
    int size;          /* bytes per column; LINE for lines, 0 for words */
    int segments, run;
    int joint;         /* whether all bits of a key in a segment are in one word */
    int blocked;       /* whether the first index selects a block */
    int rekeys;        /* whether a new secret takes effect at the next turn */
    ptrdiff_t parts;   /* number of bits of a key in a segment */
    ptrdiff_t words;   /* words per segment */
    ptrdiff_t bytes;   /* bytes of the memory */
    ptrdiff_t whole;   /* bytes that contain bits of a segment */
    uint64_t block_stride, part_stride, shard_stride, shards, shard_rotations[3];
    RingLive *live;    /* NULL: only this process uses the memory */
    int reads;         /* whether another process writes the memory */
} Ring;

/* State besides the memory: `RingPosition`. The first numbers are counters of operations. */
typedef struct {
    int64_t operations, keys, hits, late;
    int64_t base, filled, length, generation, insertions, shifts;
    int64_t older; /* number of oldest segments, which have the older secret */
    int64_t waits; /* whether a secret is waiting */
    Secret secret, older_secret, waiting;
    int64_t retired, cleared; /* last retired segment, and how many of its bytes are clear */
    int64_t pace;             /* bytes that each insertion clears */
} RingState;

ALWAYS int ring_within(int64_t value, int64_t least, int64_t most) {
    return value >= least && value <= most;
}

/* Whether all positions of keys are within the memory, whose columns or words have `item` bytes. */
static inline int ring_is_sound(const Ring *ring, ptrdiff_t item) {
    const Hash *hash = ring->hash;
    const uint64_t most = (uint64_t)1 << 32;
    uint64_t bits = (uint64_t)(ring->size ? ring->bytes / ring->size : ring->words * 64);
    uint64_t block = ring->block_stride, reach = 0;
#ifdef LINES
    bits = ring->size == LINE ? (uint64_t)ring->whole * 8 : bits;
#endif
    if (ring->segments < 2 || ring->segments > RING_SEGMENTS || ring->run < 1 ||
        ring->run >= ring->segments || ring->parts < 1 || ring->parts > RING_PARTS ||
        ring->shards < 1 || ring->shards > 1 << 12 || block > most ||
        ring->shard_stride > most << 8 || ring->part_stride > most << 8 || bits > most) {
        return 0;
    }
    if (ring->size ? hash->functions != 1 || ring->run != 1 || ring->joint ||
                         ring->segments > 8 * ring->size ||
                         (item != 1 && item != 2 && item != 4 && item != 8)
                   : hash->functions != ring->segments || item != 8) {
        return 0;
    }
    for (ptrdiff_t part = 0; part < ring->parts; part++) {
        uint64_t end = (uint64_t)part * ring->part_stride + hash->field[part + ring->blocked].size;
        reach = end > reach ? end : reach;
    }
#ifdef LINES
    int fits = ring->blocked && block == LINE_PARTS * LINE_BITS && ring->parts == LINE_PARTS &&
               ring->part_stride == LINE_BITS && ring->shards == 1;
    if (ring->size == LINE && (item != 8 || !fits || !lines_fit(hash))) {
        return 0;
    }
#endif
    if (ring->joint && (!ring->blocked || block < 1 || block > 64 || reach > block ||
                        block & (block - 1) || ring->shard_stride % block)) {
        return 0;
    }
    uint64_t last = ring->blocked ? (hash->field[0].size - 1) * block : 0;
    return last <= most && last + (ring->shards - 1) * ring->shard_stride + reach <= bits;
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

ALWAYS int64_t ring_segment(const Ring *ring, const RingState *state, int index) {
    int64_t segment = state->base + index;
    return segment < ring->segments ? segment : segment - ring->segments;
}

/* Whether segment `index` of the ring, 0 being the youngest, has the older secret. */
ALWAYS int ring_is_older(const Ring *ring, const RingState *state, int index) {
    return index >= ring->segments - 1 - state->older;
}

/* Rotates a mask of physical segments so that bit 0 is the youngest. */
ALWAYS uint64_t ring_turned(uint64_t met, int64_t base, int segments) {
    return base ? met >> base | met << (segments - base) : met;
}

/* Combines masks of matches under the current and the older secret; bit i is segment i by age. */
ALWAYS uint64_t ring_ages(uint64_t met, uint64_t older_met, int64_t base, int64_t older,
                          int segments) {
    uint64_t all = ((uint64_t)1 << (segments - 1)) - 1, young = all >> older;
    met = ring_turned(met, base, segments) & young;
    return older ? met | (ring_turned(older_met, base, segments) & all & ~young) : met;
}

/* Moves of the ring */

RARELY void ring_publish(const Ring *ring, const RingState *state) {
#if defined(__GNUC__) /* with other compilers, processes cannot share a ring */
    RingLive *live = ring->live;
    if (live && !ring->reads) {
        uint64_t next = live->turns + 1;
        memcpy(live->slots[next & 1], &state->base, 4 * sizeof(int64_t));
        __atomic_store_n(&live->turns, next, __ATOMIC_RELEASE);
        /* The following clear must not become visible before the turn. */
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

RARELY void ring_turn(const Ring *ring, RingState *state, void *memory) {
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

RARELY void ring_erase(const Ring *ring, RingState *state, void *memory) {
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

/* Positions of a key's bits in a segment under a hash function; or of the word, if `mask` is given.
   Not inlined: inlining makes calls with a single text 10 % slower. */
RARELY void ring_place(const Ring *ring, uint64_t state, ptrdiff_t function, uint32_t *out,
                       uint64_t *mask) {
    const Hash *hash = ring->hash;
    uint64_t word = 0, bits = 0;
    uint32_t base = 0;
    if (ring->shards > 1) {
        uint64_t shard = (hash_word(ring->shard_rotations, state) >> 52) * ring->shards >> 12;
        base = (uint32_t)(shard * ring->shard_stride);
    }
    for (ptrdiff_t number = 0; number < hash->fields; number++) {
        Field field = hash->field[number];
        if (number == 0 || field.word != hash->field[number - 1].word) {
            word = hash_word(hash_rotations(hash, function, field.word), state);
        }
        uint32_t index = (uint32_t)hash_index(field, word);
        if (number < ring->blocked) {
            base += index * (uint32_t)ring->block_stride;
            continue;
        }
        ptrdiff_t part = number - ring->blocked;
        index += (uint32_t)((uint64_t)part * ring->part_stride);
        if (mask) {
            bits |= (uint64_t)1 << index;
        } else {
            out[part] = index + base;
        }
    }
    if (mask) {
        *mask = bits << (base & 63);
        *out = base >> 6;
    }
}

/* Columns */

ALWAYS uint64_t ring_column(const void *memory, int size, uint32_t place) {
    switch (size) {
    case 1: return ((const uint8_t *)memory)[place];
    case 2: return ((const uint16_t *)memory)[place];
    case 4: return ((const uint32_t *)memory)[place];
    default: return ((const uint64_t *)memory)[place];
    }
}

ALWAYS void ring_set_column(void *memory, int size, uint32_t place, uint64_t value) {
    switch (size) {
    case 1: ((uint8_t *)memory)[place] = (uint8_t)value; break;
    case 2: ((uint16_t *)memory)[place] = (uint16_t)value; break;
    case 4: ((uint32_t *)memory)[place] = (uint32_t)value; break;
    default: ((uint64_t *)memory)[place] = value;
    }
}

ALWAYS uint64_t ring_touch_places(void *memory, int size, ptrdiff_t parts, const uint32_t *places,
                                  uint64_t bit) {
    uint64_t met = ~(uint64_t)0;
    for (ptrdiff_t part = 0; part < parts; part++) {
        uint64_t before = ring_column(memory, size, places[part]);
        met &= before;
        if (bit) {
            ring_set_column(memory, size, places[part], before | bit);
        }
    }
    return met;
}

/* Reads the columns of a key, and sets the bit `base` if the key is inserted. */
static inline uint64_t ring_touch_columns(const Ring *ring, const RingState *state, void *memory,
                                          uint64_t own, int inserts) {
    uint32_t places[RING_PARTS];
    uint64_t bit = (uint64_t)(inserts != 0) << state->base;
#ifdef LINES
    if (ring->size == LINE) {
        return lines_perform(ring->hash, ring->segments, memory, own, state->base, inserts != 0);
    }
#endif
    ring_place(ring, own, 0, places, NULL);
    switch (ring->size) {
    case 1: return ring_touch_places(memory, 1, ring->parts, places, bit);
    case 2: return ring_touch_places(memory, 2, ring->parts, places, bit);
    case 4: return ring_touch_places(memory, 4, ring->parts, places, bit);
    default: return ring_touch_places(memory, 8, ring->parts, places, bit);
    }
}

static inline uint64_t ring_perform_columns(const Ring *ring, const RingState *state, void *memory,
                                            const uint64_t *own, int inserts) {
    uint64_t met = ring_touch_columns(ring, state, memory, own[0], inserts), older = 0;
    if (state->older) {
        older = ring_touch_columns(ring, state, memory, own[1], 0);
    }
    return ring_ages(met, older, state->base, state->older, ring->segments);
}

/* Words; `own` holds the state under each secret */

ALWAYS uint64_t *ring_words(const Ring *ring, const RingState *state, void *memory, int index) {
    return (uint64_t *)memory + ring_segment(ring, state, index) * ring->words;
}

/* Whether a key has one position in a segment, which is the only index. */
ALWAYS int ring_is_single(const Ring *ring) {
    return ring->parts == 1 && !ring->blocked && ring->shards == 1;
}

/* Whether segment `index` of the ring has all bits of a key; sets them if the key is inserted. */
static inline uint64_t ring_touch_words(const Ring *ring, const RingState *state, void *memory,
                                        const uint64_t *own, int index, int inserts) {
    uint32_t places[RING_PARTS];
    uint64_t *segment = ring_words(ring, state, memory, index), *word, mask, met = 1;
    uint64_t under = own[ring_is_older(ring, state, index)];
    ptrdiff_t function = ring_segment(ring, state, index); /* each segment has its own */
    if (ring->joint) {
        ring_place(ring, under, function, places, &mask);
        word = &segment[*places];
        met = (*word & mask) == mask;
        *word |= inserts ? mask : 0;
        return met;
    }
    ring_place(ring, under, function, places, NULL);
    for (ptrdiff_t part = 0; part < ring->parts; part++) {
        word = &segment[places[part] >> 6];
        met &= *word >> (places[part] & 63);
        *word |= (uint64_t)inserts << (places[part] & 63);
    }
    return met & 1;
}

/* Converts a mask of matching segments to a mask of segments where a matching run starts. */
ALWAYS uint64_t ring_runs(uint64_t met, int run) {
    for (int known = 1, step; known < run; known += step) {
        step = known < run - known ? known : run - known;
        met &= met >> step;
    }
    return met;
}

/* Reads all segments (of one part each): faster in a small memory, as no branch depends on a key.
   */
static inline uint64_t ring_perform_words(const Ring *ring, const RingState *state, void *memory,
                                          const uint64_t *own, int inserts) {
    /* Copies, so that no store can change them. */
    const Field field = ring->hash->field[0];
    const uint64_t *all = ring->hash->rotations;
    ptrdiff_t apart = 3 * ring->hash->expanded, words = ring->words;
    int64_t segment = state->base, older = ring->segments - 1 - state->older;
    int segments = ring->segments, run = ring->run;
    uint64_t met = 0;
    for (int index = 0; index < segments - 1; index++) {
        uint64_t place = hash_index(field, hash_word(all + segment * apart, own[index >= older]));
        uint64_t *word = (uint64_t *)memory + segment * words + (place >> 6);
        met |= (*word >> (place & 63) & 1) << index;
        if (inserts && index < run) {
            *word |= (uint64_t)1 << (place & 63);
        }
        segment = segment + 1 < segments ? segment + 1 : 0;
    }
    return ring_runs(met, run);
}

/* Tests the last segment that a run could have, down to the first: a segment that does not match
   excludes all runs that contain it (APBF, algorithm 1). */
static inline uint64_t ring_query_words(const Ring *ring, const RingState *state, void *memory,
                                        const uint64_t *own) {
    int start = 0, known = 0, index;
    while (start + ring->run < ring->segments) {
        for (index = start + ring->run - 1; index >= start + known; index--) {
            if (!ring_touch_words(ring, state, memory, own, index, 0)) {
                break;
            }
        }
        if (index < start + known) {
            return (uint64_t)1 << start;
        }
        known = start + ring->run - 1 - index;
        start = index + 1;
    }
    return 0;
}

/* One key */

/* Called if not only the current secret is in use. */
RARELY void ring_states(const Ring *ring, const RingState *state, const uint64_t *key,
                        uint64_t *own) {
    const Secret secrets[2] = {state->secret, state->older_secret};
    for (int row = 0; row < 2; row++) {
        own[row] = hash_state(ring->hash, key, secrets[row]);
    }
}

/* Performs QUERY, INSERT or CHECK of a key. Returns 0 if the key is not reported; otherwise the
   index of the lowest set bit is the age. */
static inline uint64_t ring_perform_key(const Ring *ring, RingState *state, void *memory, int code,
                                        const uint64_t *key) {
    uint64_t own[2] = {hash_state(ring->hash, key, state->secret), 0}, value = 0;
    int inserts = (code & INSERT) != 0, turns = inserts && state->filled >= state->length;
    int due = inserts && (turns || !(code & QUERY)); /* insertion apart from the query */
    if (state->older) {
        ring_states(ring, state, key, own);
    }
    if ((code & QUERY) && ring->size) {
        value = ring_perform_columns(ring, state, memory, own, inserts && !due);
    } else if ((code & QUERY) && ring_is_single(ring) && ring->bytes <= RING_CACHED) {
        value = ring_perform_words(ring, state, memory, own, inserts && !due);
    } else if (code & QUERY) {
        value = ring_query_words(ring, state, memory, own);
        due = inserts;
    }
    if (turns) {
        int waits = (int)state->waits;
        ring_turn(ring, state, memory);
        if (waits) {
            ring_states(ring, state, key, own);
        }
    }
    if (due && ring->size) {
        ring_touch_columns(ring, state, memory, own[0], 1);
    }
    for (int index = 0; due && !ring->size && index < ring->run; index++) {
        ring_touch_words(ring, state, memory, own, index, 1);
    }
    if (inserts) {
        ring_count(ring, state, memory, 1);
        if (ring->live) {
            ring->live->slots[ring->live->turns & 1][1] = state->filled;
        }
    }
    return value;
}

#endif
