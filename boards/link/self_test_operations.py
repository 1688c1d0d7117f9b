"""Operations and signature of the self-test, for the host.

This module does not import Amaranth.
"""

from itertools import accumulate, repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...golden.operations import Operation
from .information import Information

SEED = 0x9E3779B97F4A7C15
"""State of the generator before the first operation."""

SHIFTS = (13, 7, 17)
"""Shifts of the generator, a 64-bit xorshift: left, right, left."""

NUMBER_BITS = 24
"""Width of a key's number."""

KIND_BITS, NEAR_BITS, NEAR_DISTANCE_BITS = 6, 2, 2
"""Bits of the state that select the operation; a near key, if 0; and the key's distance."""

DISTANCE_AT, WINDOW_AT, TICK_AT, RARE_AT = 8, 32, 40, 50
"""Lowest bits of the state for the distance; the window or class; and, if 0, for a tick, or a
CLEAR or SHIFT."""

FRESH, AGAIN, SHIFT, REMOVE, CLEAR = 24, 32, 61, 62, 63
"""Kinds: below the first, a new key is checked and inserted; below the second, an earlier key.
Three kinds are rarer operations. All others are queries."""


class SelfTestOperations(NamedTuple):
    """Operations of a self-test, each of shape (n,)."""

    codes: NDArray[np.uint8]
    keys: NDArray[np.uint64]
    """Shape (n, words)."""
    windows: NDArray[np.int64]
    """Windows, or classes."""
    times: NDArray[np.int64]
    """Ticks since reset."""


def advance(state: int) -> int:
    """Return the next state of the generator."""
    left, right, again = SHIFTS
    state ^= state << left & (1 << 64) - 1
    state ^= state >> right
    return state ^ (state << again & (1 << 64) - 1)


def self_test_operations(information: Information) -> SelfTestOperations:
    """Return the operations of the self-test of a board.

    Parameters
    ----------
    information : Information
        Description of the board.
    """
    plan = information.plan
    steps = accumulate(repeat(None, plan.operations - 1), lambda state, _: advance(state),
                       initial=SEED)  # fmt: skip
    states = np.fromiter(steps, np.uint64, plan.operations)

    def digits(at: int, count: int) -> NDArray[np.int64]:
        return (states >> np.uint64(at) & np.uint64((1 << count) - 1)).astype(np.int64)

    kinds = digits(0, KIND_BITS)
    codes = np.select(
        [
            kinds < AGAIN,
            (kinds == CLEAR) & (digits(RARE_AT, plan.clear_bits) == 0),
            (kinds == SHIFT) & (digits(RARE_AT, plan.shift_bits) == 0) & information.shifts,
            (kinds == REMOVE) & information.removes,
        ],
        [Operation.CHECK_AND_INSERT, Operation.CLEAR, Operation.SHIFT, Operation.REMOVE],
        Operation.QUERY,
    )
    near = digits(KIND_BITS, NEAR_BITS) == 0
    distances = np.where(near, digits(DISTANCE_AT, NEAR_DISTANCE_BITS),
                         digits(DISTANCE_AT, plan.distance_bits))  # fmt: skip
    fresh = kinds < FRESH
    numbers: NDArray[np.int64] = np.cumsum(fresh) - np.where(fresh, 0, distances)
    ticks = (digits(TICK_AT, plan.tick_bits) == 0) & information.timed
    return SelfTestOperations(
        codes=codes.astype(np.uint8),
        keys=_keys(numbers, information.key_bits),
        windows=_windows(information, digits),
        times=np.cumsum(ticks),
    )


def _windows(information: Information, digits: Any) -> NDArray[np.int64]:
    """Return random windows except 0, or random classes."""
    longest = information.longest
    drawn: NDArray[np.int64] = digits(WINDOW_AT, longest.bit_length())
    if information.decides:
        return np.where(drawn > longest, 0, drawn)
    return np.where((drawn > longest) | (drawn == 0), longest, drawn)


def _keys(numbers: NDArray[np.int64], key_bits: int) -> NDArray[np.uint64]:
    """Return keys that repeat the bits of their numbers, shape (n, words)."""
    low = numbers.astype(np.uint64) & np.uint64((1 << NUMBER_BITS) - 1)
    words = []
    for at in range(0, key_bits, 64):
        word = np.zeros_like(low)
        for copy in range(at // NUMBER_BITS, (at + 63) // NUMBER_BITS + 1):
            place = copy * NUMBER_BITS - at
            word |= low << np.uint64(place) if place >= 0 else low >> np.uint64(-place)
        left = key_bits - at
        words.append(word & np.uint64((1 << left) - 1) if left < 64 else word)
    return np.stack(words, axis=1)
