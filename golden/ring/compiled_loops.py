"""Compiled loops over the operations of a filter, in order, each key by itself.

The places of some keys in the segments are computed first, in loops that become
vector instructions; then the operations are performed one after another, shifts
and clears included. Two forms of memory serve all families:

- *columns*, where all segments have one hash function (GEBF): for each bit of
  a segment one integer, whose bit *j* is that of physical segment *j*;
- *words* of 64 bits, where each segment has its own (APBF).

All loops are in this file, because numba's cache on disk checks only the file of
a function to tell whether the code is that of the source.
"""

import numpy as np

from ..compilation import jit
from ..operations import Operation

BASE, FILLED, LENGTH, GENERATION, INSERTIONS, SHIFTS, CLEARS = range(7)
"""Place in the vector that carries a `RingPosition` through the loops; counts are of the call."""

OLDER, ROW, OLDER_ROW, WAITING_ROW, REKEYS, RING_SIZE = range(7, 13)
"""Place in the same vector, and its length.

Rows are those of the states, one for each secret; -1 if none waits.
"""

FIELD_WORD, FIELD_LOW, FIELD_MASK, FIELD_SIZE, FIELD_BITS = range(5)
"""Column of the table of index fields."""

BLOCK_STRIDE, PART_STRIDE, SHARD_STRIDE, BLOCKED, SHARDS, SHARD_ROTATIONS = range(6)
"""Place in the vector of strides, which are in bits; the shards' rotations come last."""

STRIDES_SIZE = 8
"""Length of the vector of strides."""

_QUERY, _INSERT, _CHECK = int(Operation.QUERY), int(Operation.INSERT), 3
_SHIFT, _CLEAR = int(Operation.SHIFT), int(Operation.CLEAR)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_HALF = np.uint64(32)
# Values taken modulo this are multiplied by one instruction for several keys. A size that is no
# power of two is below it, and takes as many bits of a word: `RANGE_BITS`.
_LOW_HALF = np.uint64(0xFFFFFFFF)
_SIX = np.uint64(6)
_LOW_SIX = np.uint64(63)
_SHARD_BITS = np.uint64(12)
_SHARD_LOW = np.uint64(52)

_COLUMN_CHUNK = 256
_WORD_ENTRIES = 4096
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_LOWEST = np.zeros(64, np.int64)
for _bit in range(64):
    _LOWEST[(int(_DE_BRUIJN) << _bit) % 2**64 >> 58] = _bit


@jit
def _rotate(value, amount):
    return value << amount | value >> (np.uint64(64) - amount & _LOW_SIX)


@jit
def _sum_of_rotations(states, row, begin, count, rotations, function, word, out):
    first = rotations[function, word, 0]
    second = rotations[function, word, 1]
    third = rotations[function, word, 2]
    for i in range(count):
        state = states[row, begin + i]
        out[i] = _rotate(state, first) ^ _rotate(state, second) ^ _rotate(state, third)


@jit
def _shard_bases(states, row, begin, count, strides, origin, bases):
    """Place of the first bit of the shard of each key, counted from `origin`."""
    first, second, third = strides[SHARD_ROTATIONS], strides[-2], strides[-1]
    shards, stride = strides[SHARDS], strides[SHARD_STRIDE]
    for i in range(count):
        state = states[row, begin + i]
        word = _rotate(state, first) ^ _rotate(state, second) ^ _rotate(state, third)
        bases[i] = ((word >> _SHARD_LOW) * shards >> _SHARD_BITS) * stride + origin


@jit
def _bases(states, row, begin, count, function, rotations, fields, strides, origin, words, bases):
    """Place of the first bit of the block, or of the shard, of each key; and the first words."""
    if strides[SHARDS] > _ONE:
        _shard_bases(states, row, begin, count, strides, origin, bases)
    else:
        for i in range(count):
            bases[i] = origin
    _sum_of_rotations(states, row, begin, count, rotations, function, 0, words)
    if strides[BLOCKED]:
        low, mask = fields[0, FIELD_LOW], fields[0, FIELD_MASK]
        size, stride = fields[0, FIELD_SIZE], strides[BLOCK_STRIDE] & _LOW_HALF
        if size == mask + _ONE:
            for i in range(count):
                bases[i] += (words[i] >> low & mask & _LOW_HALF) * stride
        else:
            size &= _LOW_HALF
            for i in range(count):
                block = (words[i] >> low & _LOW_HALF) * size >> _HALF
                bases[i] += (block & _LOW_HALF) * stride


@jit
def _places(
    states, row, begin, count, function, rotations, fields, strides, origin, words, bases, out,
    first,
):  # fmt: skip
    """Place of each part's bit of each key, in the rows of `out` from the first on."""
    _bases(states, row, begin, count, function, rotations, fields, strides, origin, words, bases)
    blocks = np.int64(strides[BLOCKED])
    known = 0
    for part in range(len(fields) - blocks):
        field = part + blocks
        low, mask, size = (
            fields[field, FIELD_LOW],
            fields[field, FIELD_MASK],
            fields[field, FIELD_SIZE],
        )
        offset = np.uint64(part) * strides[PART_STRIDE]
        if np.int64(fields[field, FIELD_WORD]) != known:
            known = np.int64(fields[field, FIELD_WORD])
            _sum_of_rotations(states, row, begin, count, rotations, function, known, words)
        if size == mask + _ONE:
            for i in range(count):
                out[first + part, i] = (words[i] >> low & mask) + offset + bases[i]
        else:
            size &= _LOW_HALF
            for i in range(count):
                cell = (words[i] >> low & _LOW_HALF) * size >> _HALF
                out[first + part, i] = cell + offset + bases[i]


@jit
def _turn(ring, segments):
    """`RingPosition.turn`."""
    ring[BASE] = (ring[BASE] + segments - 1) % segments
    ring[FILLED] = 0
    ring[LENGTH] = ring[GENERATION]
    ring[SHIFTS] += 1
    ring[OLDER] = max(0, ring[OLDER] - 1)
    if ring[REKEYS] and ring[WAITING_ROW] >= 0:
        ring[OLDER_ROW], ring[OLDER] = ring[ROW], segments - 2
        ring[ROW], ring[WAITING_ROW] = ring[WAITING_ROW], -1


@jit
def _restart(ring):
    """`RingPosition.restart`."""
    ring[BASE] = ring[FILLED] = 0
    ring[LENGTH] = ring[GENERATION]
    ring[CLEARS] += 1
    if ring[WAITING_ROW] >= 0:
        ring[ROW], ring[WAITING_ROW] = ring[WAITING_ROW], -1
    ring[OLDER] = 0


# Columns


@jit
def _column_mask(ring, segments, older):
    """Physical segments of the ring that have the older secret, or the others."""
    mask = _ZERO
    young = segments - 1 - ring[OLDER]
    for index in range(segments - 1):
        if (index >= young) == older:
            mask |= _ONE << np.uint64((ring[BASE] + index) % segments)
    return mask


@jit
def _clear_column(columns, segment):
    keep = ~(_ONE << np.uint64(segment))
    for i in range(len(columns)):
        columns[i] &= keep


@jit
def _turn_columns(columns, ring, segments):
    _turn(ring, segments)
    _clear_column(columns, (ring[BASE] + segments - 1) % segments)


@jit
def _meet(columns, places, first, parts, i):
    """Segments in which all bits of a key are set."""
    met = ~_ZERO
    for part in range(first, first + parts):
        met &= np.uint64(columns[places[part, i]])
    return met


@jit
def _meet_and_write(columns, places, first, parts, i, bit):
    # Where two parts share a bit, the first read is from before the write, and decides.
    met = ~_ZERO
    for part in range(first, first + parts):
        place = places[part, i]
        before = np.uint64(columns[place])
        columns[place] = before | bit
        met &= before
    return met


@jit
def _lowest(bits):
    """Position of the lowest bit that is set."""
    return _LOWEST[(bits & (~bits + _ONE)) * _DE_BRUIJN >> np.uint64(58)]


@jit
def _youngest(met, base, segments):
    """Age of the youngest of the segments in a mask, -1 if it is empty."""
    if met == _ZERO:
        return -1
    above = np.uint64(base)
    below = np.uint64(segments) - above
    # Behind the highest segment comes segment 0; bits beyond that are never lower.
    return _lowest(met >> above | met << below)


@jit
def perform_columns(columns, segments, codes, states, rotations, fields, strides, ring, ages):
    """Perform operations on a memory of columns.

    Parameters
    ----------
    columns : ndarray of unsigned int, shape (bits,)
    segments : int
        Fewer than 64.
    codes : ndarray of uint8, shape (n,)
    states : ndarray of uint64, shape (secrets, n)
    rotations : ndarray of uint64, shape (1, words, 3)
    fields : ndarray of uint64, shape (indices, 5)
    strides : ndarray of uint64, shape (8,)
    ring : ndarray of int64, shape (13,)
        Is moved.
    ages : ndarray of int64, shape (n,)
        Is written.
    """
    rows = len(states)
    parts = len(fields) - np.int64(strides[BLOCKED])
    places = np.empty((rows * parts, _COLUMN_CHUNK), np.uint64)
    words = np.empty(_COLUMN_CHUNK, np.uint64)
    bases = np.empty(_COLUMN_CHUNK, np.uint64)
    for begin in range(0, len(codes), _COLUMN_CHUNK):
        count = min(_COLUMN_CHUNK, len(codes) - begin)
        for row in range(rows):
            first = row * parts
            _places(
                states, row, begin, count, 0, rotations, fields, strides, _ZERO, words, bases,
                places, first,
            )  # fmt: skip
        span = slice(begin, begin + count)
        _columns_in_order(columns, segments, codes[span], places, parts, ring, ages[span])


@jit
def _columns_in_order(columns, segments, codes, places, parts, ring, ages):
    moved = True
    bit = young = old = _ZERO
    for i in range(len(codes)):
        code = codes[i]
        age = -1
        if code == _SHIFT:
            _turn_columns(columns, ring, segments)
            moved = True
        elif code == _CLEAR:
            columns[:] = 0
            _restart(ring)
            moved = True
        writes = code == _INSERT or code == _CHECK
        asks = code == _QUERY or code == _CHECK
        turns = writes and ring[FILLED] >= ring[LENGTH]
        if moved:
            bit = _ONE << np.uint64(ring[BASE])
            young = _column_mask(ring, segments, False)
            old = _column_mask(ring, segments, True)
            moved = False
        first = ring[ROW] * parts
        if asks:
            if writes and not turns:
                met = _meet_and_write(columns, places, first, parts, i, bit) & young
            else:
                met = _meet(columns, places, first, parts, i) & young
            if old:
                met |= _meet(columns, places, ring[OLDER_ROW] * parts, parts, i) & old
            age = _youngest(met, ring[BASE], segments)
        if turns:
            # The query has seen the ring as it was; the insertion does not.
            _turn_columns(columns, ring, segments)
            moved = True
            first = ring[ROW] * parts
            bit = _ONE << np.uint64(ring[BASE])
        if writes:
            if turns or not asks:
                _meet_and_write(columns, places, first, parts, i, bit)
            ring[FILLED] += 1
            ring[INSERTIONS] += 1
        ages[i] = age


# Words


@jit
def _joint_places(
    states, row, begin, count, function, rotations, fields, strides, origin, words, bases, places,
    masks, index,
):  # fmt: skip
    """Word of the block of each key, and the mask of its bits in that word."""
    _bases(states, row, begin, count, function, rotations, fields, strides, origin, words, bases)
    for i in range(count):
        places[index, i] = bases[i] >> _SIX
        masks[index, i] = _ZERO
    known = 0
    for part in range(1, len(fields)):
        low, mask = fields[part, FIELD_LOW], fields[part, FIELD_MASK]
        size, bits = fields[part, FIELD_SIZE], fields[part, FIELD_BITS]
        offset = np.uint64(part - 1) * strides[PART_STRIDE]
        if np.int64(fields[part, FIELD_WORD]) != known:
            known = np.int64(fields[part, FIELD_WORD])
            _sum_of_rotations(states, row, begin, count, rotations, function, known, words)
        for i in range(count):
            cell = ((words[i] >> low & mask) * size >> bits) + offset
            masks[index, i] |= _ONE << (cell + (bases[i] & _LOW_SIX))


@jit
def _quick_joint_places(
    states, row, begin, count, function, rotations, fields, strides, origin, places, masks, index
):
    """Do the same in one loop, for four parts of a power of two, with all indices in a word."""
    first, second = rotations[function, 0, 0], rotations[function, 0, 1]
    third = rotations[function, 0, 2]
    low_0, mask_0 = fields[0, FIELD_LOW], fields[0, FIELD_MASK]
    size, bits = fields[0, FIELD_SIZE] & _LOW_HALF, fields[0, FIELD_BITS]
    stride = strides[BLOCK_STRIDE] & _LOW_HALF
    low_1, low_2 = fields[1, FIELD_LOW], fields[2, FIELD_LOW]
    low_3, low_4 = fields[3, FIELD_LOW], fields[4, FIELD_LOW]
    mask, step = fields[1, FIELD_MASK], strides[PART_STRIDE]
    twice, thrice = step * np.uint64(2), step * np.uint64(3)
    for i in range(count):
        state = states[row, begin + i]
        word = _rotate(state, first) ^ _rotate(state, second) ^ _rotate(state, third)
        block = (word >> low_0 & mask_0 & _LOW_HALF) * size >> bits
        base = (block & _LOW_HALF) * stride + origin
        some = _ONE << (word >> low_1 & mask) | _ONE << ((word >> low_2 & mask) + step)
        more = _ONE << ((word >> low_3 & mask) + twice) | _ONE << ((word >> low_4 & mask) + thrice)
        places[index, i] = base >> _SIX
        masks[index, i] = (some | more) << (base & _LOW_SIX)


@jit
def _is_quick(fields, strides):
    quick = len(fields) == 5 and strides[SHARDS] == _ONE and fields[0, FIELD_SIZE] <= _LOW_HALF
    for field in range(len(fields)):
        quick &= fields[field, FIELD_WORD] == _ZERO
        quick &= field == 0 or fields[field, FIELD_SIZE] == fields[field, FIELD_MASK] + _ONE
    return quick


@jit
def perform_words(memory, run, joint, codes, states, rotations, fields, strides, ring, ages):
    """Perform operations on a memory of words.

    Parameters
    ----------
    memory : ndarray of uint64, shape (segments, words)
        Memory of at most 64 segments.
    run : int
    joint : bool
        Whether all bits of a key in a segment lie in one word.
    codes, states, fields, strides, ring, ages
        As for `perform_columns`.
    rotations : ndarray of uint64, shape (segments, words, 3)
    """
    segments = len(memory)
    parts = 1 if joint else len(fields) - np.int64(strides[BLOCKED])
    chunk = max(16, min(256, _WORD_ENTRIES // ((segments - 1) * parts)))
    places = np.empty(((segments - 1) * parts, chunk), np.uint64)
    masks = np.empty((segments - 1 if joint else 0, chunk), np.uint64)
    words = np.empty(chunk, np.uint64)
    bases = np.empty(chunk, np.uint64)
    quick = joint and _is_quick(fields, strides)
    begin = 0
    asked = False
    while begin < len(codes):
        # Keys after the next shift have their places in other segments.
        left = max(16, ring[LENGTH] - ring[FILLED])
        count = min(chunk, len(codes) - begin, left)
        for index in range(segments - 1):
            row = ring[OLDER_ROW] if index >= segments - 1 - ring[OLDER] else ring[ROW]
            segment = (ring[BASE] + index) % segments
            origin = np.uint64(segment * memory.shape[1] * 64)
            if quick:
                _quick_joint_places(
                    states, row, begin, count, segment, rotations, fields, strides, origin,
                    places, masks, index,
                )  # fmt: skip
            elif joint:
                _joint_places(
                    states, row, begin, count, segment, rotations, fields, strides, origin, words,
                    bases, places, masks, index,
                )  # fmt: skip
            else:
                _places(
                    states, row, begin, count, segment, rotations, fields, strides, origin, words,
                    bases, places, index * parts,
                )  # fmt: skip
        end = begin + count
        begin, asked = _words_in_order(
            memory, run, joint, parts, codes, begin, end, asked, places, masks, ring, ages
        )


@jit
def _words_in_order(memory, run, joint, parts, codes, begin, end, asked, places, masks, ring, ages):
    """Perform operations up to a shift.

    The steps for every key stand here and not in functions, to which numba would hand every
    array anew. Returns the first operation that is not performed, and whether it needs no query
    any more, only its insertion.
    """
    flat = memory.reshape(-1)
    # An unsigned index is not looked at for whether it counts from the end.
    ring_segments, run, parts = np.uint64(len(memory) - 1), np.uint64(run), np.uint64(parts)
    room = ring[LENGTH] - ring[FILLED]
    before = room
    full = False
    code = np.uint8(0)
    at = begin
    while at < end:
        code = codes[at]
        i = np.uint64(at - begin)
        if not asked:
            ages[at] = -1
        if (code == _QUERY or code == _CHECK) and not asked:
            # All segments, with no branch: half of the bits are set, so no branch is foreseen.
            matches = _ZERO
            for index in range(ring_segments):
                if joint:
                    mask = masks[index, i]
                    met = np.uint64(flat[places[index, i]] & mask == mask)
                else:
                    met = _ONE
                    for row in range(index * parts, (index + _ONE) * parts):
                        place = places[row, i]
                        met &= flat[place >> _SIX] >> (place & _LOW_SIX)
                matches |= met << index
            runs = matches
            for step in range(_ONE, run):
                runs &= matches >> step
            if runs:
                ages[at] = _lowest(runs)
        asked = False
        if code == _INSERT or code == _CHECK:
            if room <= 0:
                full = True
                break
            for row in range(run * parts):
                place = places[row, i]
                if joint:
                    flat[place] |= masks[row, i]
                else:
                    flat[place >> _SIX] |= _ONE << (place & _LOW_SIX)
            room -= 1
        at += 1
        if code == _SHIFT or code == _CLEAR:
            break
    ring[INSERTIONS] += before - room
    ring[FILLED] += before - room
    if full or code == _SHIFT:
        _turn_words(memory, ring)
    elif code == _CLEAR:
        memory[:] = _ZERO
        _restart(ring)
    return at, full


@jit
def _turn_words(memory, ring):
    _turn(ring, len(memory))
    memory[(ring[BASE] + len(memory) - 1) % len(memory)] = _ZERO
