/* Rings in which each segment has its own hash function (APBF): words of 64 bits. */
#include "ring.h"

ALWAYS uint64_t *segment_words(const Ring *ring, int index) {
    return (uint64_t *)ring->memory.buf + segment_of(ring, index) * ring->words;
}

/* Adds to the matches of keys whether a segment with one part, the `index` youngest, has their
   bit; as `find_places`, without blocks and shards. */
WIDE static void match_single(const Ring *ring, const uint64_t *states, Py_ssize_t count,
                              Py_ssize_t function, const uint64_t *memory, int index,
                              uint64_t *matches) {
    const uint64_t *rotations = hash_rotations(ring->engine.hash, function, 0);
    Field field = ring->engine.hash->field[0];
    Row met; /* of its own, so that nothing that is read can change */
    for (Py_ssize_t i = 0; i < count; i++) {
        uint64_t place = hash_index(field, hash_word(rotations, states[i]));
        met[i] = memory[place >> 6] >> (place & 63) & 1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        matches[i] |= met[i] << index;
    }
}

/* The same for a segment with known places. */
WIDE static void match_parts(const uint64_t *memory, const Places *places, Py_ssize_t parts,
                             Py_ssize_t count, int index, uint64_t *matches) {
    Row met;
    for (Py_ssize_t i = 0; i < count; i++) {
        met[i] = word_bit(memory, places[0][i]);
    }
    for (Py_ssize_t part = 1; part < parts; part++) {
        for (Py_ssize_t i = 0; i < count; i++) {
            met[i] &= word_bit(memory, places[part][i]);
        }
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        matches[i] |= met[i] << index;
    }
}

WIDE static void match_masks(const uint64_t *memory, const uint32_t *places, const uint64_t *masks,
                             Py_ssize_t count, int index, uint64_t *matches) {
    Row met;
    for (Py_ssize_t i = 0; i < count; i++) {
        met[i] = (memory[places[i]] & masks[i]) == masks[i];
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        matches[i] |= met[i] << index;
    }
}

static void fetch(const Ring *ring, const uint64_t *memory, const Places *places, Py_ssize_t rows,
                  Py_ssize_t count) {
    int shift = ring->joint ? 0 : 6;
    for (Py_ssize_t row = 0; ring->memory.len > CACHED && row < rows; row++) {
        for (Py_ssize_t i = 0; i < count; i++) {
            __builtin_prefetch(memory + (places[row][i] >> shift), 1);
        }
    }
}

/* Segments that are not written match the same keys until the ring moves. */
void find_words(const Ring *ring, Row *states, Chunk *chunk, Py_ssize_t at, Py_ssize_t count) {
    Py_ssize_t parts = ring->joint ? 1 : ring->parts;
    uint64_t *matches = chunk->values + at;
    int asks = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        asks |= chunk->codes[at + i] & QUERY;
        matches[i] = 0;
    }
    for (int index = 0; index < (asks ? ring->segments - 1 : ring->run); index++) {
        int row = index < ring->run ? index : ring->run; /* the last is for any segment */
        const uint64_t *own = states[secret_row(ring, index)] + at;
        const uint64_t *memory = segment_words(ring, index);
        Py_ssize_t function = segment_of(ring, index) % ring->engine.hash->functions;
        Places *places = ring->places + row * parts;
        uint64_t *masks = ring->joint ? ring->masks[row] : NULL;
        if (index >= ring->run && is_single(ring)) {
            match_single(ring, own, count, function, memory, index, matches);
            continue;
        }
        find_places(ring, own, count, function, places, masks);
        fetch(ring, memory, places, parts, count);
        if (index >= ring->run && masks) {
            match_masks(memory, *places, masks, count, index, matches);
        } else if (index >= ring->run) {
            match_parts(memory, places, parts, count, index, matches);
        }
    }
}

/* Whether a written segment has all bits of a key; an operation that inserts sets them then. */
ALWAYS uint64_t meet(uint64_t *memory, const Places *places, const Row *masks, Py_ssize_t parts,
                     Py_ssize_t i, uint64_t inserts, int writes) {
    uint64_t met = 1;
    if (masks) {
        uint64_t *word = &memory[places[0][i]], before = *word, mask = masks[0][i];
        if (writes) {
            *word = before | (mask & -inserts);
        }
        return (before & mask) == mask;
    }
    for (Py_ssize_t part = 0; part < parts; part++) {
        uint32_t place = places[part][i];
        uint64_t *word = &memory[place >> 6], before = *word;
        if (writes) {
            *word = before | inserts << (place & 63);
        }
        met &= before >> (place & 63);
    }
    return met & 1;
}

/* The results begin with the operation `first`. */
ALWAYS void meet_all(const Ring *ring, int joint, int run, Py_ssize_t parts, Chunk *chunk,
                     Py_ssize_t first, Py_ssize_t at, Py_ssize_t end, int writes) {
    const Places *places = ring->places;
    const Row *masks = ring->masks;
    uint64_t *memory[MOST_SEGMENTS];
    for (int index = 0; index < run; index++) {
        memory[index] = segment_words(ring, index);
    }
    for (; at < end; at++) {
        uint64_t inserts = chunk->codes[at] >> 1 & 1, matches = 0;
        for (int index = 0; index < run; index++) {
            matches |= meet(memory[index], places + index * parts, joint ? masks + index : NULL,
                            parts, at - first, inserts, writes)
                       << index;
        }
        chunk->values[at] |= matches;
    }
}

#define MEET(joint, run, parts)                                                                  \
    if (writes) {                                                                                \
        meet_all(ring, joint, run, parts, chunk, first, at, end, 1);                             \
    } else {                                                                                     \
        meet_all(ring, joint, run, parts, chunk, first, at, end, 0);                             \
    }                                                                                            \
    break;
#define RUNS(joint, parts)                                                                       \
    switch (ring->run) {                                                                         \
    case 1: MEET(joint, 1, parts)                                                                \
    case 2: MEET(joint, 2, parts)                                                                \
    case 6: MEET(joint, 6, parts)                                                                \
    case 10: MEET(joint, 10, parts)                                                              \
    default: MEET(joint, ring->run, parts)                                                       \
    }

/* From whether each segment matches to whether a run begins with it. */
WIDE static void find_runs(int run, uint64_t *values, Py_ssize_t at, Py_ssize_t end) {
    for (int known = 1, step; known < run; known += step) {
        step = known < run - known ? known : run - known;
        for (Py_ssize_t i = at; i < end; i++) {
            values[i] &= values[i] >> step;
        }
    }
}

void perform_words(const Ring *ring, Chunk *chunk, Py_ssize_t first, Py_ssize_t at, Py_ssize_t end,
                   int writes) {
    switch (ring->joint ? 2 : ring->parts == 1) {
    case 2: RUNS(1, 1) break;
    case 1: RUNS(0, 1) break;
    default: MEET(0, ring->run, ring->parts)
    }
    find_runs(ring->run, chunk->values, at, end);
}

/* One key */

/* Whether a segment has a key; sets its bits there if it is inserted. */
ALWAYS uint64_t touch(const Ring *ring, const uint64_t *states, int index, int inserts) {
    uint32_t places[MOST_PARTS];
    uint64_t mask, met = 1, state = states[secret_row(ring, index)], *word;
    Py_ssize_t function = segment_of(ring, index); /* one for each segment */
    uint64_t *memory = segment_words(ring, index);
    if (ring->joint) {
        find_place(ring, state, function, places, &mask);
        word = &memory[*places];
        met = (*word & mask) == mask;
        *word |= inserts ? mask : 0;
        return met;
    }
    find_place(ring, state, function, places, NULL);
    for (Py_ssize_t part = 0; part < ring->parts; part++) {
        word = &memory[places[part] >> 6];
        met &= *word >> (places[part] & 63);
        *word |= (uint64_t)inserts << (places[part] & 63);
    }
    return met & 1;
}

/* Looks at all segments, of one part: in a small memory that is faster, as no branch depends on a
   key. */
uint64_t perform_word(const Ring *ring, const uint64_t *states, int inserts) {
    const Hash *hash = ring->engine.hash;
    const Field field = hash->field[0];
    uint64_t value = 0;
    for (int index = 0; index < ring->segments - 1; index++) {
        const uint64_t *rotations = hash_rotations(hash, segment_of(ring, index), 0);
        uint64_t place = hash_index(field, hash_word(rotations, states[secret_row(ring, index)]));
        uint64_t *word = segment_words(ring, index) + (place >> 6);
        value |= (*word >> (place & 63) & 1) << index;
        if (inserts && index < ring->run) {
            *word |= (uint64_t)1 << (place & 63);
        }
    }
    for (int known = 1, step; known < ring->run; known += step) {
        step = known < ring->run - known ? known : ring->run - known;
        value &= value >> step;
    }
    return value;
}

/* Looks at the last segment that a run could have, down to the first: a segment without the key
   excludes all runs that it is in (APBF, algorithm 1). */
uint64_t query_words(const Ring *ring, const uint64_t *states) {
    int start = 0, known = 0, index;
    while (start + ring->run < ring->segments) {
        for (index = start + ring->run - 1; index >= start + known; index--) {
            if (!touch(ring, states, index, 0)) {
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

void insert_words(const Ring *ring, const uint64_t *states) {
    for (int index = 0; index < ring->run; index++) {
        touch(ring, states, index, 1);
    }
}
