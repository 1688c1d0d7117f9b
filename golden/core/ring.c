/* Rings of segments: `Segments` of lately.golden.ring, operation by operation.

   The places of a chunk of keys come first, in loops that become vector instructions. Then the
   operations are performed one after another, shifts and clears included. Two forms of memory
   serve all families:

   - columns, where all segments have one hash function (GEBF): an integer for each bit of a
     segment, whose bit j belongs to physical segment j;
   - words of 64 bits, where each segment has a hash function of its own (APBF). */
#include "calls.h"

#define MOST_SEGMENTS 64
#define MOST_PARTS 64
#define MOST_ROWS 3       /* secrets: the present one, an older one, one that waits */
#define CACHED (1 << 18)  /* bytes of memory up to which nothing is fetched ahead */

/* Where a ring is: `RingPosition`. Rows are those of the secrets; -1 if none waits. Counts are of
   the call. */
typedef struct {
    int64_t base, filled, length, generation, insertions, shifts, clears;
    int64_t older, row, older_row, waiting_row, rekeys;
} Position;

typedef uint64_t Row[CHUNK];

#define POSITION 12 /* numbers of a position; three counts of single keys follow in the vector */

typedef struct {
    Engine engine;
    Py_buffer memory;
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
    Row *scratch;
} Ring;

/* Moves of the ring */

static void mask_secrets(Ring *ring) {
    int64_t segments = ring->segments, segment = ring->at.base;
    ring->young = ring->old = 0;
    for (int64_t index = 0; index < segments - 1; index++) {
        uint64_t bit = (uint64_t)1 << segment;
        if (index < segments - 1 - ring->at.older) {
            ring->young |= bit;
        } else {
            ring->old |= bit;
        }
        segment = segment + 1 < segments ? segment + 1 : 0;
    }
}

static void move(Ring *ring) {
    Position *at = &ring->at;
    at->base = (at->base + ring->segments - 1) % ring->segments;
    at->filled = 0;
    at->length = at->generation;
    at->shifts++;
    at->older = at->older > 0 ? at->older - 1 : 0;
    if (at->rekeys && at->waiting_row >= 0) {
        at->older_row = at->row;
        at->older = ring->segments - 2;
        at->row = at->waiting_row;
        at->waiting_row = -1;
    }
    mask_secrets(ring);
}

static void restart(Ring *ring) {
    Position *at = &ring->at;
    at->base = at->filled = 0;
    at->length = at->generation;
    at->clears++;
    if (at->waiting_row >= 0) {
        at->row = at->waiting_row;
        at->waiting_row = -1;
    }
    at->older = 0;
    mask_secrets(ring);
}

WIDE static void clear_bits(uint64_t *words, Py_ssize_t count, uint64_t keep) {
    for (Py_ssize_t i = 0; i < count; i++) {
        words[i] &= keep;
    }
}

/* Clears the segment outside the ring. */
static void clear_spare(Ring *ring) {
    Py_ssize_t spare = (ring->at.base + ring->segments - 1) % ring->segments;
    if (!ring->size) {
        memset((uint64_t *)ring->memory.buf + spare * ring->words, 0, (size_t)ring->words * 8);
        return;
    }
    /* Several columns at a time, then the rest. */
    uint64_t bit = (uint64_t)1 << spare, bits = 0;
    for (int low = 0; low < 64; low += 8 * ring->size) {
        bits |= bit << low;
    }
    Py_ssize_t whole = ring->memory.len / 8;
    clear_bits(ring->memory.buf, whole, ~bits);
    uint64_t rest = 0;
    uint8_t *end = (uint8_t *)ring->memory.buf + whole * 8;
    size_t left = (size_t)(ring->memory.len % 8);
    memcpy(&rest, end, left);
    rest &= ~bits;
    memcpy(end, &rest, left);
}

static void turn(Ring *ring) {
    move(ring);
    clear_spare(ring);
}

static void erase(Ring *ring) {
    memset(ring->memory.buf, 0, (size_t)ring->memory.len);
    restart(ring);
}

/* Places of keys */

/* Place of the first bit of the block, or of the shard, of each key. */
ALWAYS void find_bases(const Ring *ring, const uint64_t *states, Py_ssize_t count,
                       const uint64_t *words, uint64_t origin, uint64_t *bases) {
    Field block = ring->engine.hash->field[0];
    for (Py_ssize_t i = 0; i < count; i++) {
        bases[i] = origin;
    }
    if (ring->shards > 1) {
        for (Py_ssize_t i = 0; i < count; i++) {
            uint64_t word = hash_word(ring->shard_rotations, states[i]);
            bases[i] += ((word >> 52) * ring->shards >> 12) * ring->shard_stride;
        }
    }
    if (ring->blocked) {
        for (Py_ssize_t i = 0; i < count; i++) {
            bases[i] += hash_index(block, words[i]) * (ring->block_stride & 0xFFFFFFFF);
        }
    }
}

/* Places of the bits of keys in one segment, a row of `out` for each part. If `masks` is given,
   there is one row: of words, with masks of the bits. */
ALWAYS void find_places(const Ring *ring, const uint64_t *states, Py_ssize_t count,
                        Py_ssize_t function, uint64_t origin, Row *out, uint64_t *masks) {
    const Hash *hash = ring->engine.hash;
    Row words, bases, bits = {0}; /* none of which another pointer reaches */
    for (Py_ssize_t number = 0; number < hash->fields; number++) {
        Field field = hash->field[number];
        Py_ssize_t part = number - ring->blocked;
        uint64_t offset = (uint64_t)part * ring->part_stride;
        if (number == 0 || field.word != hash->field[number - 1].word) {
            const uint64_t *rotations = hash_rotations(hash, function, field.word);
            for (Py_ssize_t i = 0; i < count; i++) {
                words[i] = hash_word(rotations, states[i]);
            }
        }
        if (number == 0) {
            find_bases(ring, states, count, words, origin, bases);
        }
        if (part < 0) {
            continue;
        }
        if (masks && field.size == field.mask + 1) {
            for (Py_ssize_t i = 0; i < count; i++) {
                bits[i] |= (uint64_t)1 << ((words[i] >> field.low & field.mask) + offset);
            }
        } else if (masks) {
            for (Py_ssize_t i = 0; i < count; i++) {
                bits[i] |= (uint64_t)1 << (hash_index(field, words[i]) + offset);
            }
        } else if (field.size == field.mask + 1) {
            for (Py_ssize_t i = 0; i < count; i++) {
                out[part][i] = (words[i] >> field.low & field.mask) + offset + bases[i];
            }
        } else {
            for (Py_ssize_t i = 0; i < count; i++) {
                out[part][i] = hash_index(field, words[i]) + offset + bases[i];
            }
        }
    }
    for (Py_ssize_t i = 0; masks && i < count; i++) {
        masks[i] = bits[i] << (bases[i] & 63);
        out[0][i] = bases[i] >> 6;
    }
}

WIDE static void find_chunk(const Ring *ring, const uint64_t *states, Py_ssize_t count,
                            Py_ssize_t function, uint64_t origin, Row *out, uint64_t *masks) {
    find_places(ring, states, count, function, origin, out, masks);
}

/* Adds to the matches of keys whether a segment with one part, the `index` youngest, has their
   bit; as `find_places`, without blocks and shards. */
WIDE static void match_single(const Ring *ring, const uint64_t *states, Py_ssize_t count,
                              Py_ssize_t function, uint64_t origin, int index, uint64_t *matches) {
    const uint64_t *rotations = hash_rotations(ring->engine.hash, function, 0);
    const uint64_t *memory = ring->memory.buf;
    Field field = ring->engine.hash->field[0];
    Row met; /* of its own, so that nothing that is read can change */
    for (Py_ssize_t i = 0; i < count; i++) {
        uint64_t place = hash_index(field, hash_word(rotations, states[i])) + origin;
        met[i] = memory[place >> 6] >> (place & 63) & 1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        matches[i] |= met[i] << index;
    }
}

static void fetch(const Ring *ring, Row *places, Py_ssize_t rows, Py_ssize_t count, int shift) {
    const char *memory = ring->memory.buf;
    if (ring->memory.len <= CACHED) {
        return;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        for (Py_ssize_t row = 0; row < rows; row++) {
            __builtin_prefetch(memory + (places[row][i] >> (shift > 0 ? shift : 0)
                                                        << (shift < 0 ? -shift : 0)), 1);
        }
    }
}

ALWAYS int lowest(uint64_t bits) { return __builtin_ctzll(bits); }

/* Answers to a chunk of operations; either array may be NULL. */
typedef struct {
    int64_t *ages;
    uint8_t *seen;
    int64_t hits;
} Answers;

ALWAYS void answer(Answers *answers, Py_ssize_t at, int64_t age) {
    answers->hits += age >= 0;
    if (answers->ages) {
        answers->ages[at] = age;
    }
    if (answers->seen) {
        answers->seen[at] = age >= 0;
    }
}

/* Columns */

ALWAYS uint64_t column(const void *memory, int size, uint64_t place) {
    switch (size) {
    case 1: return ((const uint8_t *)memory)[place];
    case 2: return ((const uint16_t *)memory)[place];
    case 4: return ((const uint32_t *)memory)[place];
    default: return ((const uint64_t *)memory)[place];
    }
}

ALWAYS void set_column(void *memory, int size, uint64_t place, uint64_t value) {
    switch (size) {
    case 1: ((uint8_t *)memory)[place] = (uint8_t)value; break;
    case 2: ((uint16_t *)memory)[place] = (uint16_t)value; break;
    case 4: ((uint32_t *)memory)[place] = (uint32_t)value; break;
    default: ((uint64_t *)memory)[place] = value;
    }
}

/* Segments in which all bits of a key are set; the bits of `bit` are set then. Where two parts
   share a bit, the first read is from before the write, and decides. */
ALWAYS uint64_t meet(void *memory, int size, Py_ssize_t parts, Row *places, Py_ssize_t i,
                     uint64_t bit) {
    uint64_t met = ~(uint64_t)0;
    for (Py_ssize_t part = 0; part < parts; part++) {
        uint64_t place = places[part][i], before = column(memory, size, place);
        if (bit) {
            set_column(memory, size, place, before | bit);
        }
        met &= before;
    }
    return met;
}

/* Age of the youngest of the segments in a mask, -1 if it is empty. */
ALWAYS int64_t youngest(uint64_t met, int64_t base, int segments) {
    if (!met) {
        return -1;
    }
    /* Behind the highest segment comes segment 0; bits beyond that are never lower. */
    return lowest(base ? met >> base | met << (segments - base) : met);
}

/* Performs operations from `at` on, up to one that moves the ring; returns its place. */
ALWAYS Py_ssize_t columns_in_order(Ring *ring, int size, Py_ssize_t parts, const uint8_t *codes,
                                   Row *places, Py_ssize_t at, Py_ssize_t end, Answers *answers) {
    void *memory = ring->memory.buf;
    int64_t base = ring->at.base, room = ring->at.length - ring->at.filled, before = room;
    uint64_t bit = (uint64_t)1 << base, young = ring->young, old = ring->old;
    Row *newer = places + ring->at.row * parts, *older = places + ring->at.older_row * parts;
    for (; at < end; at++) {
        int code = codes[at];
        if (code >= ALONE || ((code & INSERT) && room <= 0)) {
            break;
        }
        if (code & QUERY) {
            uint64_t met = old ? meet(memory, size, parts, older, at, 0) & old : 0;
            met |= (code & INSERT ? meet(memory, size, parts, newer, at, bit)
                                  : meet(memory, size, parts, newer, at, 0)) & young;
            answer(answers, at, answers->ages ? youngest(met, base, ring->segments) : -!met);
        } else if (code & INSERT) {
            meet(memory, size, parts, newer, at, bit);
        }
        room -= code >> 1 & 1;
    }
    ring->at.filled += before - room;
    ring->at.insertions += before - room;
    return at;
}

#define CASE(size, parts)                                                                        \
    case 16 * (size) + (parts):                                                                  \
        return columns_in_order(ring, size, parts, codes, places, at, end, answers);
#define CASES(size)                                                                              \
    CASE(size, 1) CASE(size, 2) CASE(size, 3) CASE(size, 4) CASE(size, 5) CASE(size, 6)          \
    CASE(size, 7) CASE(size, 8) CASE(size, 9) CASE(size, 10)

/* The usual numbers of parts are constants: the loop over them is written out. */
static Py_ssize_t columns(Ring *ring, const uint8_t *codes, Row *places, Py_ssize_t at,
                          Py_ssize_t end, Answers *answers) {
    switch (ring->parts <= 10 ? 16 * ring->size + (int)ring->parts : 0) {
        CASES(1)
        CASES(2)
    default:
        return columns_in_order(ring, ring->size, ring->parts, codes, places, at, end, answers);
    }
}

/* Words */

ALWAYS uint64_t word_bit(const uint64_t *memory, uint64_t place) {
    return memory[place >> 6] >> (place & 63) & 1;
}

/* Adds to the matches of keys whether a segment, the `index` youngest, has all of their bits. */
WIDE static void match_parts(const uint64_t *memory, Row *places, Py_ssize_t parts,
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

WIDE static void match_masks(const uint64_t *memory, const uint64_t *places, const uint64_t *masks,
                             Py_ssize_t count, int index, uint64_t *matches) {
    Row met;
    for (Py_ssize_t i = 0; i < count; i++) {
        met[i] = (memory[places[i]] & masks[i]) == masks[i];
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        matches[i] |= met[i] << index;
    }
}

/* Places and masks of the youngest segments, which are written, and matches of the others. */
typedef struct {
    Row *places, *masks;
    Row matches;
} Found;

/* Finds what segment `index` of the ring, 0 being the youngest, has of keys; only whether it
   matches, if there is no room for places. */
static void find_segment(const Ring *ring, Row *states, Py_ssize_t at, Py_ssize_t count, int index,
                         Row *places, uint64_t *masks, uint64_t *matches) {
    int older = index >= ring->segments - 1 - ring->at.older;
    int segment = (int)((ring->at.base + index) % ring->segments);
    Py_ssize_t parts = ring->joint ? 1 : ring->parts;
    const uint64_t *own = states[older ? ring->at.older_row : ring->at.row] + at;
    Py_ssize_t function = segment % ring->engine.hash->functions;
    uint64_t origin = (uint64_t)(segment * ring->words) << 6;
    if (!places) {
        match_single(ring, own, count, function, origin, index, matches);
        return;
    }
    find_chunk(ring, own, count, function, origin, places, masks);
    fetch(ring, places, parts, count, ring->joint ? -3 : 3);
}

/* Segments that are not written match the same keys until the ring moves. */
static void find_words(const Ring *ring, Row *states, const uint8_t *codes, Py_ssize_t at,
                       Py_ssize_t count, Found *found) {
    Py_ssize_t parts = ring->joint ? 1 : ring->parts;
    Row *scratch = found->places + ring->run * parts;
    int asks = 0, single = ring->parts == 1 && !ring->blocked && ring->shards == 1;
    for (Py_ssize_t i = 0; i < count; i++) {
        asks |= codes[at + i] & QUERY;
        found->matches[i] = 0;
    }
    for (int index = 0; index < ring->run; index++) {
        find_segment(ring, states, at, count, index, found->places + index * parts,
                     ring->joint ? found->masks[index] : NULL, NULL);
    }
    for (int index = ring->run; asks && index < ring->segments - 1; index++) {
        uint64_t *masks = ring->joint ? found->masks[ring->run] : NULL;
        find_segment(ring, states, at, count, index, single ? NULL : scratch, masks,
                     found->matches);
        if (single) {
            continue;
        }
        if (ring->joint) {
            match_masks(ring->memory.buf, scratch[0], masks, count, index, found->matches);
        } else {
            match_parts(ring->memory.buf, scratch, parts, count, index, found->matches);
        }
    }
}

/* Whether a written segment has all bits of a key. */
ALWAYS uint64_t has_bits(const uint64_t *memory, const Found *found, int joint, Py_ssize_t parts,
                         int index, Py_ssize_t i) {
    if (joint) {
        uint64_t mask = found->masks[index][i];
        return (memory[found->places[index][i]] & mask) == mask;
    }
    uint64_t met = 1;
    for (Py_ssize_t part = 0; part < parts; part++) {
        met &= word_bit(memory, found->places[index * parts + part][i]);
    }
    return met;
}

ALWAYS void set_bits(uint64_t *memory, const Found *found, int joint, Py_ssize_t rows,
                     Py_ssize_t i) {
    for (Py_ssize_t row = 0; row < rows; row++) {
        uint64_t place = found->places[row][i];
        if (joint) {
            memory[place] |= found->masks[row][i];
        } else {
            memory[place >> 6] |= (uint64_t)1 << (place & 63);
        }
    }
}

/* As `columns_in_order`. What was found begins with the operation `first`. */
ALWAYS Py_ssize_t words_in_order(Ring *ring, int joint, int run, Py_ssize_t parts,
                                 const uint8_t *codes, const Found *found, Py_ssize_t first,
                                 Py_ssize_t at, Py_ssize_t end, Answers *answers) {
    uint64_t *memory = ring->memory.buf;
    int64_t room = ring->at.length - ring->at.filled, before = room;
    for (; at < end; at++) {
        int code = codes[at];
        Py_ssize_t i = at - first;
        if (code >= ALONE || ((code & INSERT) && room <= 0)) {
            break;
        }
        if (code & QUERY) {
            uint64_t matches = found->matches[i];
            for (int index = 0; index < run; index++) {
                matches |= has_bits(memory, found, joint, parts, index, i) << index;
            }
            uint64_t runs = matches;
            for (int step = 1; step < run; step++) {
                runs &= matches >> step;
            }
            answer(answers, at, runs ? lowest(runs) : -1);
        }
        if (code & INSERT) {
            set_bits(memory, found, joint, run * parts, i);
            room--;
        }
    }
    ring->at.filled += before - room;
    ring->at.insertions += before - room;
    return at;
}

#define WORDS(joint, run, parts)                                                                 \
    return words_in_order(ring, joint, run, parts, codes, found, first, at, end, answers);
#define RUNS(joint, parts)                                                                       \
    switch (ring->run) {                                                                         \
    case 1: WORDS(joint, 1, parts)                                                               \
    case 2: WORDS(joint, 2, parts)                                                               \
    case 6: WORDS(joint, 6, parts)                                                               \
    case 10: WORDS(joint, 10, parts)                                                             \
    default: WORDS(joint, ring->run, parts)                                                      \
    }

static Py_ssize_t words(Ring *ring, const uint8_t *codes, const Found *found, Py_ssize_t first,
                        Py_ssize_t at, Py_ssize_t end, Answers *answers) {
    if (ring->joint) {
        RUNS(1, 1)
    }
    if (ring->parts == 1) {
        RUNS(0, 1)
    }
    WORDS(0, ring->run, ring->parts)
}

/* All operations. A chunk has its codes for itself, and changes them. */

/* Moves the ring for an operation, and leaves in its code what is still due. */
static void move_for(Ring *ring, uint8_t *code) {
    if (*code == CLEAR) {
        erase(ring);
    } else if (*code == SHIFT || *code < ALONE) {
        turn(ring);
    }
    *code = *code < ALONE ? INSERT : NONE;
}

static void chunk_of_columns(Ring *ring, uint8_t *codes, Row *states, Py_ssize_t count,
                             Answers *answers) {
    Row *places = ring->scratch;
    for (int row = 0; row < ring->rows; row++) {
        find_chunk(ring, states[row], count, 0, 0, places + row * ring->parts, NULL);
        fetch(ring, places + row * ring->parts, ring->parts, count,
              -__builtin_ctz((unsigned)ring->size));
    }
    for (Py_ssize_t at = 0;;) {
        at = columns(ring, codes, places, at, count, answers);
        if (at == count) {
            break;
        }
        if (codes[at] == CHECK) {
            /* The query sees the ring as it was; the insertion does not. */
            codes[at] = QUERY;
            columns(ring, codes, places, at, at + 1, answers);
        }
        move_for(ring, &codes[at]);
    }
}

static void chunk_of_words(Ring *ring, uint8_t *codes, Row *states, Py_ssize_t count,
                           Answers *answers) {
    Found found = {.places = ring->scratch,
                   .masks = ring->scratch + (ring->run + 1) * (ring->joint ? 1 : ring->parts)};
    for (Py_ssize_t at = 0, first, end; at < count;) {
        /* Keys after the next turn have their places in other segments. */
        int64_t room = ring->at.length - ring->at.filled;
        first = at;
        end = count - at > room && count - at > 16 ? at + (room > 16 ? room : 16) : count;
        find_words(ring, states, codes, at, end - at, &found);
        at = words(ring, codes, &found, first, at, end, answers);
        if (at == end) {
            continue;
        }
        if (codes[at] == CHECK) {
            codes[at] = QUERY;
            words(ring, codes, &found, first, at, at + 1, answers);
        }
        move_for(ring, &codes[at]);
    }
}

static void perform_chunk(Ring *ring, uint8_t *codes, const uint64_t *keys, Py_ssize_t count,
                          Answers *answers) {
    Row states[MOST_ROWS];
    for (int row = 0; row < ring->rows; row++) {
        hash_states(ring->engine.hash, keys, count, ring->secrets[row], states[row]);
    }
    if (ring->size) {
        chunk_of_columns(ring, codes, states, count, answers);
    } else {
        chunk_of_words(ring, codes, states, count, answers);
    }
}

/* Performs all operations: those in `codes`, or `code` for each key. */
static void perform(Ring *ring, const uint8_t *codes, int code, const uint64_t *keys,
                    Py_ssize_t count, Answers *answers) {
    uint8_t own[CHUNK];
    Answers part = {0};
    for (Py_ssize_t at = 0; at < count; at += CHUNK) {
        Py_ssize_t size = count - at < CHUNK ? count - at : CHUNK;
        if (codes) {
            memcpy(own, codes + at, (size_t)size);
        } else {
            memset(own, code, (size_t)size);
        }
        if (answers->ages) {
            part.ages = answers->ages + at;
            memset(part.ages, 0xFF, (size_t)size * 8);
        }
        if (answers->seen) {
            part.seen = answers->seen + at;
            memset(part.seen, 0, (size_t)size);
        }
        perform_chunk(ring, own, keys + at * ring->engine.hash->words, size, &part);
    }
    answers->hits = part.hits;
}

static int64_t perform_one(Engine *engine, int code, uint64_t key) {
    Ring *ring = (Ring *)engine;
    int64_t age = -1;
    uint8_t own = (uint8_t)code;
    Answers answers = {.ages = &age};
    perform_chunk(ring, &own, &key, 1, &answers);
    return age;
}

/* The type */

static PyTypeObject *ring_type;

/* Whether all places of keys are within the memory. */
static int places_fit(const Ring *ring) {
    const Hash *hash = ring->engine.hash;
    const uint64_t most = (uint64_t)1 << 40;
    uint64_t bits = ring->size ? (uint64_t)(ring->memory.len / ring->size)
                               : (uint64_t)ring->words * 64;
    uint64_t last = 0, reach = 0;
    if (ring->shards > 1 << 12 || ring->block_stride > (uint64_t)1 << 32 ||
        ring->shard_stride > most || ring->part_stride > most) {
        return 0;
    }
    for (Py_ssize_t part = 0; part < ring->parts; part++) {
        uint64_t end = (uint64_t)part * ring->part_stride + hash->field[part + ring->blocked].size;
        reach = end > reach ? end : reach;
    }
    if (ring->blocked) {
        unsigned __int128 blocks = (unsigned __int128)(hash->field[0].size - 1);
        last = blocks * ring->block_stride > most ? most : (uint64_t)blocks * ring->block_stride;
    }
    if (ring->joint && (!ring->blocked || ring->block_stride > 64 || reach > ring->block_stride ||
                        ring->block_stride & (ring->block_stride - 1) ||
                        ring->shard_stride % (ring->block_stride ? ring->block_stride : 1))) {
        return 0;
    }
    return last + (ring->shards - 1) * ring->shard_stride + reach <= bits;
}

static int take_shape(Ring *ring, const uint64_t *strides, Py_ssize_t functions) {
    Py_ssize_t item = ring->memory.itemsize;
    ring->size = functions == 1 ? (int)item : 0;
    ring->block_stride = strides[0];
    ring->part_stride = strides[1];
    ring->shard_stride = strides[2];
    ring->blocked = strides[3] != 0;
    ring->shards = strides[4];
    memcpy(ring->shard_rotations, strides + 5, sizeof ring->shard_rotations);
    ring->parts = ring->engine.hash->fields - ring->blocked;
    int whole = item == 8 || (ring->size && (item == 1 || item == 2 || item == 4));
    if (whole && ring->segments >= 2 && ring->segments <= MOST_SEGMENTS && ring->run >= 1 &&
        ring->run < ring->segments && ring->parts >= 1 && ring->parts <= MOST_PARTS &&
        (functions == 1 || functions == ring->segments) && ring->shards >= 1 &&
        (!ring->size || (ring->segments <= 8 * ring->size && ring->run == 1 && !ring->joint))) {
        ring->words = ring->size ? 0 : ring->memory.len / 8 / ring->segments;
        if (places_fit(ring)) {
            return 0;
        }
    }
    PyErr_SetString(PyExc_ValueError, "memory: must have the bits of all segments");
    return -1;
}

static int allocate_scratch(Ring *ring) {
    Py_ssize_t parts = ring->joint ? 1 : ring->parts;
    Py_ssize_t rows = ring->size ? MOST_ROWS * parts : (ring->run + 1) * (parts + ring->joint);
    ring->scratch = PyMem_Malloc((size_t)rows * sizeof(Row));
    if (!ring->scratch) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

/* Ring(hash, memory, segments, run, joint, strides) */
static PyObject *ring_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    PyObject *a, *b, *c;
    int segments, run, joint;
    Buffers all = {.count = 0};
    (void)named;
    if (!PyArg_ParseTuple(args, "OOiipO", &a, &b, &segments, &run, &joint, &c)) {
        return NULL;
    }
    Hash *hash = hash_of(a);
    uint64_t *strides = hash ? core_buffer(&all, c, 8, 8, 0, "strides") : NULL;
    Ring *ring = strides ? (Ring *)PyType_GenericAlloc(type, 0) : NULL;
    if (!ring) {
        return core_finish(&all, NULL);
    }
    ring->engine.one = perform_one;
    ring->engine.hash = (Hash *)Py_NewRef((PyObject *)hash);
    ring->segments = segments;
    ring->run = run;
    ring->joint = joint;
    if (PyObject_GetBuffer(b, &ring->memory, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) < 0 ||
        take_shape(ring, strides, hash->functions) < 0 || allocate_scratch(ring) < 0) {
        Py_DECREF(ring);
        return core_finish(&all, NULL);
    }
    return core_finish(&all, (PyObject *)ring);
}

static void ring_dealloc(PyObject *self) {
    Ring *ring = (Ring *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (ring->memory.obj) {
        PyBuffer_Release(&ring->memory);
    }
    Py_XDECREF((PyObject *)ring->engine.hash);
    PyMem_Free(ring->scratch);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static int within(int64_t value, int64_t least, int64_t most) {
    return value >= least && value <= most;
}

/* Takes position and secrets; an armed ring has its own. */
static int take_position(Ring *ring, const int64_t *vector, const Secret *secrets,
                         Py_ssize_t rows) {
    Position at;
    const int64_t most = (int64_t)1 << 62;
    memcpy(&at, vector, sizeof at);
    if (ring->engine.armed || !within(rows, 1, MOST_ROWS) ||
        !within(at.base, 0, ring->segments - 1) || !within(at.filled, 0, most) ||
        !within(at.length, 1, most) || !within(at.generation, 1, most) ||
        !within(at.older, 0, ring->segments - 1) || !within(at.row, 0, rows - 1) ||
        !within(at.older_row, 0, rows - 1) || !within(at.waiting_row, -1, rows - 1)) {
        PyErr_SetString(PyExc_ValueError, "vector: must be the position of a ring at rest");
        return -1;
    }
    ring->at = at;
    ring->rows = (int)rows;
    memcpy(ring->secrets, secrets, (size_t)rows * sizeof(Secret));
    mask_secrets(ring);
    return 0;
}

/* perform(vector, secrets, operations, keys, ages, seen): performs operations; returns the hits.

   The operations are an array of codes, or the code of all. Ages and seen may be None. */
static PyObject *ring_perform(PyObject *self, PyObject *args) {
    Ring *ring = (Ring *)self;
    PyObject *a, *b, *c, *d, *e, *f;
    Buffers all = {.count = 0};
    if (!PyArg_ParseTuple(args, "OOOOOO", &a, &b, &c, &d, &e, &f)) {
        return NULL;
    }
    long code = PyLong_Check(c) ? PyLong_AsLong(c) : 0;
    int64_t *vector = core_buffer(&all, a, 8, POSITION + 3, 1, "vector");
    Secret *secrets = vector ? core_buffer(&all, b, 8, 2, 0, "secrets") : NULL;
    uint64_t *keys = secrets ? core_buffer(&all, d, 8, -1, 0, "keys") : NULL;
    if (!keys) {
        return core_finish(&all, NULL);
    }
    Py_ssize_t count = core_items(&all, 2) / ring->engine.hash->words;
    Answers answers = {0};
    uint8_t *codes = NULL;
    if ((!PyLong_Check(c) && !(codes = core_buffer(&all, c, 1, count, 0, "operations"))) ||
        (e != Py_None && !(answers.ages = core_buffer(&all, e, 8, count, 1, "ages"))) ||
        (f != Py_None && !(answers.seen = core_buffer(&all, f, 1, count, 1, "seen"))) ||
        take_position(ring, vector, secrets, core_items(&all, 1) / 2) < 0) {
        return core_finish(&all, NULL);
    }
    if (count < FREE_KEYS) {
        perform(ring, codes, (int)code, keys, count, &answers);
    } else {
        Py_BEGIN_ALLOW_THREADS
        perform(ring, codes, (int)code, keys, count, &answers);
        Py_END_ALLOW_THREADS
    }
    memcpy(vector, &ring->at, sizeof ring->at);
    return core_finish(&all, PyLong_FromLongLong(answers.hits));
}

/* arm(vector, secrets): takes the state of the filter, for single keys. */
static PyObject *ring_arm(PyObject *self, PyObject *args) {
    Ring *ring = (Ring *)self;
    PyObject *a, *b;
    Buffers all = {.count = 0};
    if (!PyArg_ParseTuple(args, "OO", &a, &b)) {
        return NULL;
    }
    int64_t *vector = core_buffer(&all, a, 8, POSITION + 3, 0, "vector");
    Secret *secrets = vector ? core_buffer(&all, b, 8, 2, 0, "secrets") : NULL;
    if (!secrets || take_position(ring, vector, secrets, core_items(&all, 1) / 2) < 0) {
        return core_finish(&all, NULL);
    }
    ring->engine.armed = 1;
    return core_finish(&all, Py_NewRef(Py_None));
}

/* disarm(vector): gives the state of the filter back. */
static PyObject *ring_disarm(PyObject *self, PyObject *object) {
    Ring *ring = (Ring *)self;
    Buffers all = {.count = 0};
    int64_t *vector = core_buffer(&all, object, 8, POSITION + 3, 1, "vector");
    if (!vector) {
        return NULL;
    }
    memcpy(vector, &ring->at, sizeof ring->at);
    engine_disarm(&ring->engine, vector + POSITION);
    return core_finish(&all, Py_NewRef(Py_None));
}

static PyMethodDef methods[] = {
    {"perform", ring_perform, METH_VARARGS, "Perform operations; return the hits."},
    {"arm", ring_arm, METH_VARARGS, "Take the state of the filter, for single keys."},
    {"disarm", ring_disarm, METH_O, "Give the state of the filter back."},
    {NULL, NULL, 0, NULL},
};

int core_add_ring(PyObject *module) {
    PyType_Slot slots[] = {{Py_tp_base, engine_type},
                           {Py_tp_new, ring_new},
                           {Py_tp_dealloc, ring_dealloc},
                           {Py_tp_methods, methods},
                           {0, NULL}};
    return core_add_type(module, &ring_type, "lately.golden._core.Ring", sizeof(Ring), slots);
}
