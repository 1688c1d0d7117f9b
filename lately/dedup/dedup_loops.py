"""Compiled loops of a deduplication: the time that passes, and the bound in packets.

All loops are in this file, because numba's cache on disk checks only the file of a function to
see whether the code is up to date.
"""

import numpy as np

from ..captures.capture_loops import NO_TIME
from ..golden.compilation import jit

REACHED, ELAPSED, LATE, MOST_LATE, STEPS, UNTIMED, CLOCK_STATE = range(7)
"""Place in the state of a clock, and the number of places.

Latest time since the beginning or the last step, or `NO_TIME`; nanoseconds that have passed;
packets before the latest time, and the most nanoseconds before it; steps back; and packets without
a time.
"""

MOST_ELAPSED = 1 << 62
"""Nanoseconds that can pass; a loop stops there."""

TABLE, FILLED, TABLE_STATE = range(3)
"""Place in the state of `hold_window`, and the number of places: table in use, its digests."""


@jit
def follow_clock(times, span, silence, state, elapsed):
    """Measure the time that passes with each packet.

    A time that is at most `span` before the latest counts as the latest. An earlier one is a step
    of the clock: then `silence` passes, and the latest time starts from there. A gap longer than
    `silence` counts as `silence`.

    Parameters
    ----------
    times : ndarray of int64, shape (n,)
        In nanoseconds, or `NO_TIME`, which counts as the latest.
    span, silence : int
        In nanoseconds; `silence` is longer.
    state : ndarray of int64, shape (CLOCK_STATE,)
        Updated; at the beginning `NO_TIME`, then zeros.
    elapsed : ndarray of int64, shape (n,)
        Gets the nanoseconds since the beginning, which never decrease.
    """
    for i in range(len(times)):
        time, before = times[i], state[REACHED] - times[i]
        if state[ELAPSED] >= MOST_ELAPSED:
            before = 0
        elif time == NO_TIME:
            state[UNTIMED] += 1
        elif state[REACHED] == NO_TIME:
            state[REACHED] = time
        elif before > span:
            state[STEPS] += 1
            state[REACHED] = time
            state[ELAPSED] += silence
        elif before > 0:
            state[LATE] += 1
            state[MOST_LATE] = max(state[MOST_LATE], before)
        else:
            state[REACHED] = time
            state[ELAPSED] += min(-before, silence)
        elapsed[i] = state[ELAPSED]


@jit
def hold_window(digests, seen, first, window, keys, numbers, state):
    """Clear `seen` where the last packet of the same digest is further back than the window.

    The tables find at least the last `m` / 2 digests. They take turns: one that is half full
    becomes the older one, and the older one is cleared for new digests.

    Parameters
    ----------
    digests : ndarray of uint64, shape (n,)
    seen : ndarray of bool, shape (n,)
        Updated. It stays set if the digest is not found, as for a false positive.
    first : int
        Number of the first packet, at least 1.
    window : int
        Packets.
    keys, numbers : ndarray of uint64 and int64, shape (2, m)
        Digests and the numbers of their last packets, or zeros; `m` is a power of two.
    state : ndarray of int64, shape (TABLE_STATE,)
        Updated; zeros at the beginning.
    """
    mask = np.uint64(numbers.shape[1] - 1)
    for i in range(len(digests)):
        digest, new = digests[i], state[TABLE]
        place = _place(keys[new], numbers[new], digest, mask)
        last = numbers[new, place]
        if last == 0:
            state[FILLED] += 1
            if seen[i]:
                old = 1 - new
                last = numbers[old, _place(keys[old], numbers[old], digest, mask)]
        if last and first + i - last > window:
            seen[i] = False
        keys[new, place], numbers[new, place] = digest, first + i
        if 2 * state[FILLED] >= numbers.shape[1]:
            state[TABLE], state[FILLED] = 1 - new, 0
            numbers[1 - new] = 0


@jit
def _place(keys, numbers, digest, mask):
    """Return the row of a digest, or the free row for it."""
    place = digest & mask
    while numbers[place] and keys[place] != digest:
        place = (place + np.uint64(1)) & mask
    return place
