/* Rings with one hash function for all segments (GEBF): an integer for each bit of a segment; bit j
   of it belongs to physical segment j. */
#include "ring.h"

ALWAYS uint64_t column(const void *memory, int size, uint32_t place) {
    switch (size) {
    case 1: return ((const uint8_t *)memory)[place];
    case 2: return ((const uint16_t *)memory)[place];
    case 4: return ((const uint32_t *)memory)[place];
    default: return ((const uint64_t *)memory)[place];
    }
}

ALWAYS void set_column(void *memory, int size, uint32_t place, uint64_t value) {
    switch (size) {
    case 1: ((uint8_t *)memory)[place] = (uint8_t)value; break;
    case 2: ((uint16_t *)memory)[place] = (uint16_t)value; break;
    case 4: ((uint32_t *)memory)[place] = (uint32_t)value; break;
    default: ((uint64_t *)memory)[place] = value;
    }
}

/* Segments in which all bits of each key are set. An operation that inserts sets the bit `base`
   then. Where two parts share a bit, the first read is from before the write, and decides. The
   columns of a key of the next chunk, at `ahead`, are fetched beside each key. */
ALWAYS void meet(void *memory, int size, Py_ssize_t parts, const Places *places,
                 const Places *ahead, const uint8_t *codes, int64_t base, uint64_t *met,
                 Py_ssize_t at, Py_ssize_t end) {
    for (Py_ssize_t i = at; i < end; i++) {
        for (Py_ssize_t part = 0; ahead && part < parts; part++) {
            __builtin_prefetch((const char *)memory + (size_t)ahead[part][i] * (size_t)size, 1);
        }
        uint64_t bit = codes ? (uint64_t)(codes[i] >> 1 & 1) << base : 0, all = ~(uint64_t)0;
        for (Py_ssize_t part = 0; part < parts; part++) {
            uint64_t before = column(memory, size, places[part][i]);
            if (codes) {
                set_column(memory, size, places[part][i], before | bit);
            }
            all &= before;
            IN_ORDER(all);
        }
        met[i] = all;
    }
}

/* Loops that fetch and do not write wait for the memory: they need not be written out. */
#define MEET_OF(size, parts)                                                                     \
    if (ahead && codes) {                                                                        \
        meet(memory, size, parts, places, ahead, codes, base, met, at, end);                     \
    } else {                                                                                     \
        meet(memory, size, parts, places, NULL, codes, base, met, at, end);                      \
    }
#define CASE(size, parts)                                                                        \
    case 16 * (size) + (parts): MEET_OF(size, parts) break;
#define CASES(size)                                                                              \
    CASE(size, 4) CASE(size, 5) CASE(size, 6) CASE(size, 7) CASE(size, 8) CASE(size, 9)          \
    CASE(size, 10) CASE(size, 11) CASE(size, 12) CASE(size, 13)

/* The usual numbers of parts are constants: the loop over them is written out. The places are those
   of a secret, the `row` of them. */
#define MEET(name, given)                                                                        \
    static void name(const Ring *ring, const Places *all, int64_t row,                           \
                     const uint8_t *operations, uint64_t *met, Py_ssize_t at, Py_ssize_t end) {  \
        const uint8_t *codes = given;                                                            \
        const Places *places = all + row * ring->parts;                                          \
        const Places *ahead = ring->ahead ? ring->ahead + row * ring->parts : NULL;              \
        void *memory = ring->memory.buf;                                                         \
        int64_t base = ring->at.base;                                                            \
        (void)operations;                                                                        \
        if (ahead && !codes) {                                                                   \
            meet(memory, ring->size, ring->parts, places, ahead, NULL, base, met, at, end);      \
            return;                                                                              \
        }                                                                                        \
        switch (ring->parts <= 13 ? 16 * ring->size + (int)ring->parts : 0) {                    \
            CASES(1)                                                                             \
            CASES(2)                                                                             \
        default: MEET_OF(ring->size, ring->parts)                                                \
        }                                                                                        \
    }

MEET(meet_only, NULL)
MEET(meet_and_set, operations)

WIDE static void sort_by_age(const Ring *ring, const uint64_t *older, uint64_t *met, Py_ssize_t at,
                             Py_ssize_t end) {
    uint64_t young = ring->young, old = ring->old;
    int64_t base = ring->at.base;
    int segments = ring->segments;
    for (Py_ssize_t i = at; old && i < end; i++) {
        met[i] = by_age((met[i] & young) | (older[i] & old), base, segments);
    }
    for (Py_ssize_t i = at; !old && i < end; i++) {
        met[i] = by_age(met[i] & young, base, segments);
    }
}

void perform_columns(const Ring *ring, Places *places, Chunk *chunk, Py_ssize_t at, Py_ssize_t end,
                     int writes) {
    Row older;
    if (ring->old) { /* segments that nothing here writes */
        meet_only(ring, places, ring->at.older_row, NULL, older, at, end);
    }
    (writes ? meet_and_set : meet_only)(ring, places, ring->at.row, chunk->codes, chunk->values, at,
                                        end);
    sort_by_age(ring, older, chunk->values, at, end);
}

/* One key */

#define BY_SIZE(call)                                                                            \
    switch (ring->size) {                                                                        \
    case 1: call(1); break;                                                                      \
    case 2: call(2); break;                                                                      \
    case 4: call(4); break;                                                                      \
    default: call(8);                                                                            \
    }

/* Reads the columns of a key under a secret, and sets the bit `base` if it is inserted. */
static uint64_t touch(const Ring *ring, uint64_t state, int inserts) {
    uint32_t places[MOST_PARTS];
    uint64_t met = ~(uint64_t)0, bit = (uint64_t)(inserts != 0) << ring->at.base, before;
    void *memory = ring->memory.buf;
    find_place(ring, state, 0, places, NULL);
#define TOUCH(size)                                                                              \
    for (Py_ssize_t part = 0; part < ring->parts; part++) {                                      \
        met &= before = column(memory, size, places[part]);                                      \
        if (inserts) {                                                                           \
            set_column(memory, size, places[part], before | bit);                                \
        }                                                                                        \
    }
    BY_SIZE(TOUCH)
    return met;
}

uint64_t perform_column(const Ring *ring, const uint64_t *states, int inserts) {
    uint64_t met = touch(ring, states[ring->at.row], inserts) & ring->young;
    if (ring->old) {
        met |= touch(ring, states[ring->at.older_row], 0) & ring->old;
    }
    return by_age(met, ring->at.base, ring->segments);
}
