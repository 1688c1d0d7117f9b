/* Places of keys in the segments of rings. */
#include "ring.h"

/* Place of the first bit of the block, or of the shard, of each key. */
ALWAYS void find_bases(const Ring *ring, const uint64_t *states, Py_ssize_t count,
                       const uint64_t *words, uint32_t *bases) {
    Field block = ring->engine.hash->field[0];
    for (Py_ssize_t i = 0; i < count; i++) {
        bases[i] = 0;
    }
    if (ring->shards > 1) {
        for (Py_ssize_t i = 0; i < count; i++) {
            uint64_t word = hash_word(ring->shard_rotations, states[i]);
            bases[i] = (uint32_t)(((word >> 52) * ring->shards >> 12) * ring->shard_stride);
        }
    }
    if (ring->blocked) {
        uint32_t stride = (uint32_t)ring->block_stride;
        for (Py_ssize_t i = 0; i < count; i++) {
            bases[i] += (uint32_t)hash_index(block, words[i]) * stride;
        }
    }
}

ALWAYS void find(const Ring *ring, const uint64_t *states, Py_ssize_t count, Py_ssize_t function,
                 Places *out, uint64_t *masks) {
    const Hash *hash = ring->engine.hash;
    Row words, bits = {0}; /* which no other pointer reaches */
    Places bases;
    for (Py_ssize_t number = 0; number < hash->fields; number++) {
        Field field = hash->field[number];
        Py_ssize_t part = number - ring->blocked;
        uint32_t offset = (uint32_t)((uint64_t)part * ring->part_stride);
        if (number == 0 || field.word != hash->field[number - 1].word) {
            const uint64_t *rotations = hash_rotations(hash, function, field.word);
            for (Py_ssize_t i = 0; i < count; i++) {
                words[i] = hash_word(rotations, states[i]);
            }
        }
        if (number == 0) {
            find_bases(ring, states, count, words, bases);
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
                out[part][i] = (uint32_t)(words[i] >> field.low & field.mask) + offset + bases[i];
            }
        } else {
            for (Py_ssize_t i = 0; i < count; i++) {
                out[part][i] = (uint32_t)hash_index(field, words[i]) + offset + bases[i];
            }
        }
    }
    for (Py_ssize_t i = 0; masks && i < count; i++) {
        masks[i] = bits[i] << (bases[i] & 63);
        out[0][i] = bases[i] >> 6;
    }
}

WIDE void find_places(const Ring *ring, const uint64_t *states, Py_ssize_t count,
                      Py_ssize_t function, Places *out, uint64_t *masks) {
    find(ring, states, count, function, out, masks);
}

void find_place(const Ring *ring, uint64_t state, Py_ssize_t function, uint32_t *out,
                uint64_t *mask) {
    const Hash *hash = ring->engine.hash;
    uint64_t word = 0, bits = 0;
    uint32_t base = 0;
    if (ring->shards > 1) {
        uint64_t shard = (hash_word(ring->shard_rotations, state) >> 52) * ring->shards >> 12;
        base = (uint32_t)(shard * ring->shard_stride);
    }
    for (Py_ssize_t number = 0; number < hash->fields; number++) {
        Field field = hash->field[number];
        if (number == 0 || field.word != hash->field[number - 1].word) {
            word = hash_word(hash_rotations(hash, function, field.word), state);
        }
        uint32_t index = (uint32_t)hash_index(field, word);
        if (number < ring->blocked) {
            base += index * (uint32_t)ring->block_stride;
            continue;
        }
        Py_ssize_t part = number - ring->blocked;
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
