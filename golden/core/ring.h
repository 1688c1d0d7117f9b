/* What the files of rings share: the state of a ring, and places of keys in its segments. */
#ifndef LATELY_RING_H
#define LATELY_RING_H

#include "calls.h"

#define POSITION 12 /* numbers of a position; three counts of single keys follow in the vector */
#define MOST_SEGMENTS 64
#define MOST_PARTS 64
#define MOST_ROWS 3       /* secrets: the present one, an older one, one that waits */
#define CACHED (1 << 18)  /* bytes of memory up to which nothing is fetched ahead */

/* Where a ring is: `RingPosition`. Rows are of the secrets; -1 if none waits. Counts are of the
   call. */
typedef struct {
    int64_t base, filled, length, generation, insertions, shifts, clears;
    int64_t older, row, older_row, waiting_row, rekeys;
} Position;

/* Position of a ring whose memory several processes map: `turns` selects the slot that counts. Only
   one process writes. It publishes a turn before it clears a segment, so that a process that reads
   with an earlier position misses no key of the window. */
typedef struct {
    uint64_t turns;
    Position slots[2];
} Live;

typedef uint64_t Row[CHUNK];
typedef uint32_t Places[CHUNK]; /* a segment has at most 2**32 bits */

typedef struct {
    Engine engine;
    Py_buffer memory;
    Py_buffer live;         /* a `Live`; no buffer if the memory belongs to this process alone */
    int size;               /* bytes of a column; 0 for words */
    int segments, run;
    int joint;              /* whether all bits of a key in a segment are in one word */
    int blocked;            /* whether the first index selects a block */
    Py_ssize_t parts;       /* bits that a key has in a segment */
    Py_ssize_t words;       /* words of a segment */
    uint64_t block_stride, part_stride, shard_stride, shards;
    uint64_t shard_rotations[3];
    Secret secrets[MOST_ROWS];
    Position at;
    int rows;               /* secrets there are */
    uint64_t young, old;    /* segments of the ring that have the present secret, and the older */
    int retired;            /* segment that left the ring last, of which `cleared` bytes are clear */
    Py_ssize_t cleared, whole, pace; /* bytes in all, and bytes for each insertion */
    Places *places;
    const Places *ahead;    /* of the next chunk, which are fetched meanwhile; NULL: none */
    Row *masks;             /* of words, for each row of places, if `joint` */
} Ring;

/* Operations of a chunk, each with its code, and answers to them. A value is 0 if the key is not
   reported; otherwise its lowest bit has the number of the age. Arrays of answers may be NULL. */
typedef struct {
    uint8_t *codes;
    Py_ssize_t count;
    Row values;
    int64_t *ages;
    uint8_t *seen;
    int64_t hits;
} Chunk;

/* Places of the bits of keys in a segment under a function, a row of `out` for each part. If
   `masks` is given, there is one row: of words, with masks of the bits. */
void find_places(const Ring *ring, const uint64_t *states, Py_ssize_t count, Py_ssize_t function,
                 Places *out, uint64_t *masks);

/* The same of one key. */
void find_place(const Ring *ring, uint64_t state, Py_ssize_t function, uint32_t *out,
                uint64_t *mask);

/* Perform operations `at` to `end`, for which the ring does not turn; values take the answers. */
void perform_columns(const Ring *ring, Places *places, Chunk *chunk, Py_ssize_t at, Py_ssize_t end,
                     int writes);
void perform_words(const Ring *ring, Chunk *chunk, Py_ssize_t first, Py_ssize_t at, Py_ssize_t end,
                   int writes);

/* Finds places in the segments that are written, and matches of all others. */
void find_words(const Ring *ring, Row *states, Chunk *chunk, Py_ssize_t at, Py_ssize_t count);

/* Perform an operation on one key; `states` has a state for each secret. They return a value. */
uint64_t perform_column(const Ring *ring, const uint64_t *states, int inserts);
uint64_t perform_word(const Ring *ring, const uint64_t *states, int inserts);
uint64_t query_words(const Ring *ring, const uint64_t *states);
void insert_words(const Ring *ring, const uint64_t *states);

/* Ages of the segments in a mask: bit 0 is the youngest. Bits beyond the ring are never lowest. */
ALWAYS uint64_t by_age(uint64_t met, int64_t base, int segments) {
    return base ? met >> base | met << (segments - base) : met;
}

ALWAYS uint64_t word_bit(const uint64_t *memory, uint32_t place) {
    return memory[place >> 6] >> (place & 63) & 1;
}

/* Whether a key has one place in a segment, which is its only index. */
ALWAYS int is_single(const Ring *ring) {
    return ring->parts == 1 && !ring->blocked && ring->shards == 1;
}

/* Row of the secret of segment `index` of the ring, 0 being the youngest. */
ALWAYS int64_t secret_row(const Ring *ring, int index) {
    return index >= ring->segments - 1 - ring->at.older ? ring->at.older_row : ring->at.row;
}

ALWAYS int64_t segment_of(const Ring *ring, int index) {
    int64_t segment = ring->at.base + index;
    return segment < ring->segments ? segment : segment - ring->segments;
}

#endif
