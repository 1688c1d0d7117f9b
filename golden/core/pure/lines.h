/* Lines: memory layout for rings in which a key sets one bit in each 32 bits of a 256-bit block (a
   BlockedGEBF with eight hashes). The blocks of all segments are side by side, so a key needs
   adjacent cache lines, and one instruction tests or sets its bits in a segment. Requires AVX2: a
   program for many processors checks HAVE_LINES at run time. */
#ifndef LATELY_LINES_H
#define LATELY_LINES_H

#include <immintrin.h>

#include "hash.h"

#define LINE_PARTS 8
#define LINE_BITS 32 /* bits in a part */
#define ALL 2 /* value of `writes` if all keys are inserted */

#define LINES __attribute__((target("avx2")))
#define HAVE_LINES __builtin_cpu_supports("avx2")

/* Clears `bytes` of a segment, starting at `at`; both are multiples of LINE. */
ALWAYS void lines_clear(void *memory, int segments, int64_t segment, int64_t at, int64_t bytes) {
    uint8_t *block = (uint8_t *)memory + segment * LINE + at * segments;
    for (; bytes > 0; bytes -= LINE, block += segments * LINE) {
        memset(block, 0, LINE);
    }
}

/* Copies bits from columns of `size` bytes to lines, or back to columns if `back` is set. */
static inline void lines_copy(void *memory, int segments, ptrdiff_t blocks, void *columns, int size,
                              int back) {
    uint64_t *words = (uint64_t *)memory;
    uint8_t *column = (uint8_t *)columns;
    for (ptrdiff_t word = 0; word < blocks * (LINE / 8); word++) {
        uint64_t *first = words + word / (LINE / 8) * segments * (LINE / 8) + word % (LINE / 8);
        for (int bit = 0; bit < 64; bit++, column += size) {
            for (int segment = 0; segment < segments; segment++) {
                uint64_t *from = first + segment * (LINE / 8);
                if (back) {
                    column[segment / 8] |= (uint8_t)((*from >> bit & 1) << segment % 8);
                } else {
                    *from |= (uint64_t)(column[segment / 8] >> segment % 8 & 1) << bit;
                }
            }
        }
    }
}

/* Whether a hash has a block index, and eight indexes below 32, in two words. */
static inline int lines_fit(const Hash *hash) {
    int fits = HAVE_LINES && hash->expanded <= 2 && hash->fields == 1 + LINE_PARTS;
    for (int part = 1; fits && part <= LINE_PARTS; part++) {
        fits = hash->field[part].size == LINE_BITS;
    }
    return fits;
}

/* Hash words of a chunk of keys, and the first line of the block of each key. */
typedef struct {
    uint64_t words[2][CHUNK];
    uint32_t lines[CHUNK];
} Lines;

/* Shift of each index, and a mask that is set if the index is in the second word, in the order of
   `lines_mask`. */
typedef struct {
    uint64_t low[LINE_PARTS], second[LINE_PARTS];
} LineParts;

ALWAYS LineParts lines_parts(const Hash *hash) {
    static const int order[LINE_PARTS] = {0, 1, 4, 5, 2, 3, 6, 7};
    LineParts parts;
    for (int at = 0; at < LINE_PARTS; at++) {
        Field field = hash->field[1 + order[at]];
        parts.low[at] = field.low;
        parts.second[at] = field.word ? ~(uint64_t)0 : 0;
    }
    return parts;
}

/* Mask of the bits of a key in its block. */
LINES static inline __m256i lines_mask(const LineParts *parts, uint64_t first, uint64_t second) {
    const __m256i *low = (const __m256i *)(const void *)parts->low;
    const __m256i *which = (const __m256i *)(const void *)parts->second;
    __m256i a = _mm256_set1_epi64x((long long)first), b = a;
    __m256i other = _mm256_set1_epi64x((long long)second);
    a = _mm256_blendv_epi8(a, other, _mm256_loadu_si256(which));
    b = _mm256_blendv_epi8(b, other, _mm256_loadu_si256(which + 1));
    a = _mm256_srlv_epi64(a, _mm256_loadu_si256(low));
    b = _mm256_srlv_epi64(b, _mm256_loadu_si256(low + 1));
    __m256 low_halves = _mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0x88);
    __m256i index = _mm256_and_si256(_mm256_castps_si256(low_halves),
                                     _mm256_set1_epi32(LINE_BITS - 1));
    return _mm256_sllv_epi32(_mm256_set1_epi32(1), index);
}

/* Mask of the segments, at most eight, that have all bits of a key. Packing maps nonzero to
   nonzero, and leaves four bytes per segment in each half. */
LINES static inline unsigned lines_eight(const __m256i *line, int segments, __m256i mask) {
    __m256i missing[8], packed[2];
    for (int at = 0; at < 8; at++) {
        missing[at] =
            at < segments ? _mm256_andnot_si256(_mm256_loadu_si256(line + at), mask) : mask;
    }
    for (int four = 0; four < 2; four++) {
        __m256i *half = missing + 4 * four;
        packed[four] = _mm256_packs_epi16(_mm256_packs_epi32(half[0], half[1]),
                                          _mm256_packs_epi32(half[2], half[3]));
    }
    __m256i any = _mm256_or_si256(_mm256_permute2x128_si256(packed[0], packed[1], 0x20),
                                  _mm256_permute2x128_si256(packed[0], packed[1], 0x31));
    __m256i matches = _mm256_cmpeq_epi32(any, _mm256_setzero_si256());
    return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(matches));
}

/* Mask of the segments that have all bits of a key. */
LINES static inline uint64_t lines_test(const __m256i *line, int segments, __m256i mask) {
    uint64_t matches = 0;
    for (int at = 0; at < segments; at += 8) {
        matches |= (uint64_t)lines_eight(line + at, segments - at, mask) << at;
    }
    return matches;
}

/* Sets bits of a key in the segment `base`. */
LINES static inline void lines_set(__m256i *line, int64_t base, __m256i mask, int64_t inserts) {
    __m256i written = _mm256_and_si256(mask, _mm256_set1_epi64x(-inserts));
    _mm256_storeu_si256(line + base, _mm256_or_si256(_mm256_loadu_si256(line + base), written));
}

WIDE static void lines_find(const Hash *hash, int segments, const uint64_t *states, ptrdiff_t count,
                            Lines *out) {
    Field block = hash->field[0];
    for (ptrdiff_t word = 0; word < hash->expanded; word++) {
        const uint64_t *rotations = hash_rotations(hash, 0, word);
        for (ptrdiff_t i = 0; i < count; i++) {
            out->words[word][i] = hash_word(rotations, states[i]);
        }
    }
    for (ptrdiff_t i = 0; i < count; i++) {
        out->lines[i] = (uint32_t)hash_index(block, out->words[block.word][i]) * (uint32_t)segments;
    }
}

/* Finds the segments that have all bits of each key. If `writes` is set, sets the bits of keys
   whose code inserts. With each key, prefetches the block of a key of the next chunk. */
LINES static inline void lines_match_of(int segments, void *memory, const LineParts *parts,
                                        const Lines *keys, const Lines *ahead, const uint8_t *codes,
                                        int writes, int64_t base, uint64_t *matches, ptrdiff_t at,
                                        ptrdiff_t end) {
    for (ptrdiff_t i = at; i < end; i++) {
        const char *later = (const char *)memory;
        later += ahead ? (size_t)ahead->lines[i] * LINE : 0;
        for (int byte = 0; ahead && byte < segments * LINE; byte += 64) {
            PREFETCH(later + byte);
        }
        __m256i *line = (__m256i *)memory + keys->lines[i];
        __m256i mask = lines_mask(parts, keys->words[0][i], keys->words[1][i]);
        matches[i] = lines_test(line, segments, mask);
        if (writes) {
            lines_set(line, base, mask, writes == ALL ? 1 : codes[i] >> 1 & 1);
        }
    }
}

/* Tests the key with a hash state, and sets its bits if it is inserted. */
LINES RARELY uint64_t lines_perform(const Hash *hash, int segments, void *memory, uint64_t state,
                                    int64_t base, int inserts) {
    LineParts parts = lines_parts(hash);
    Lines keys;
    uint64_t matches;
    lines_find(hash, segments, &state, 1, &keys);
    lines_match_of(segments, memory, &parts, &keys, NULL, NULL, inserts ? ALL : 0, base, &matches,
                   0, 1);
    return matches;
}

/* The same, with constants for the usual numbers of segments if all keys are inserted. */
#define LINES_MATCH(segments, writes)                                                            \
    lines_match_of(segments, memory, &parts, keys, ahead, codes, writes, base, matches, at, end); \
    break;
#define LINES_CASE(segments) case segments: LINES_MATCH(segments, ALL)

LINES static void lines_match(const Hash *hash, int segments, void *memory, const Lines *keys,
                              const Lines *ahead, const uint8_t *codes, int writes, int64_t base,
                              uint64_t *matches, ptrdiff_t at, ptrdiff_t end) {
    LineParts parts = lines_parts(hash);
    switch (writes == ALL ? segments : -writes) {
        LINES_CASE(4) LINES_CASE(5) LINES_CASE(6) LINES_CASE(7) LINES_CASE(8)
    case 0: LINES_MATCH(segments, 0)
    default: LINES_MATCH(segments, writes)
    }
}

#endif
