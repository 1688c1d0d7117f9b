"""The loop over the operations of a window dictionary: the same interpreted and compiled."""

from typing import Any

from ..operations import OperationBit

INSERTIONS, LOST, YOUNGEST_LOST, STASH_PEAK, NUMBERS = range(5)
"""Places in the vector that carries a dictionary through the loop; the last is its length."""

_QUERY, _INSERT, _REMOVE = (
    int(bit) for bit in (OperationBit.QUERY, OperationBit.INSERT, OperationBit.REMOVE)
)


def perform(
    codes: Any, digests: Any, rests: Any, places: Any, windows: Any,
    times: Any, held: Any, stash_times: Any, stash: Any, window: int, numbers: Any, ages: Any,
    guaranteed: Any,
) -> None:  # fmt: skip
    """Perform operations one after another.

    Parameters
    ----------
    codes : sequence of int, shape (n,)
        Bits of `OperationBit`.
    digests, rests : sequence of int, shape (n,)
        The digest of each key, and the part of it that a cell holds.
    places : sequence of int, shape (n, columns)
        The cell of each key in each column, numbered through.
    windows : sequence of int, shape (n,)
        Window of each query.
    times, held : sequence of int, shape (columns * rows,)
        Insertion that wrote each cell, counted from 1, 0 for an empty one; and its rest. Changed.
    stash_times, stash : sequence of int, shape (places,)
        The same of the stash, and its digests. Changed.
    window : int
        Insertions after which an entry expires, n.
    numbers : sequence of int
        Changed.
    ages : sequence of int, shape (n,)
        Written: insertions since that of the key; -1 if it is not reported, or none is asked for.
    guaranteed : sequence of int, shape (n,)
        Written: the largest window for which the answer to each is exact.
    """
    now = numbers[INSERTIONS]
    for i in range(len(codes)):
        code, found, free = codes[i], -1, -1
        for at in places[i]:
            # As of the insertion of this operation, if it is one.
            distance = now + 1 - times[at]
            if times[at] > 0 and distance <= window and held[at] == rests[i]:
                found = at
            elif free < 0 and (times[at] == 0 or distance >= window):
                free = at
        last = times[found] if found >= 0 else 0
        oldest = 0
        for slot in range(len(stash)):
            if stash_times[slot] < stash_times[oldest]:
                oldest = slot
        for slot in range(len(stash)):
            if stash[slot] == digests[i] and now < stash_times[slot] + window and stash_times[slot]:
                last = stash_times[slot]
                if code & (_INSERT | _REMOVE):
                    # The key is written anew, or not at all.
                    stash_times[slot], oldest = 0, slot
        guaranteed[i] = window
        if numbers[LOST] and now - numbers[YOUNGEST_LOST] < window:
            guaranteed[i] = now - numbers[YOUNGEST_LOST]
        ages[i] = now - last if code & _QUERY and last and now - last < windows[i] else -1
        if code & _REMOVE and found >= 0:
            times[found] = 0
        if code & _INSERT:
            now += 1
            found = found if found >= 0 else free
            if found >= 0:
                times[found], held[found] = now, rests[i]
                continue
            if stash_times[oldest] and now - stash_times[oldest] < window:
                numbers[LOST] += 1
                numbers[YOUNGEST_LOST] = max(numbers[YOUNGEST_LOST], stash_times[oldest])
            stash_times[oldest], stash[oldest] = now, digests[i]
            live = 0
            for slot in range(len(stash)):
                live += stash_times[slot] > 0 and now - stash_times[slot] < window
            numbers[STASH_PEAK] = max(numbers[STASH_PEAK], live)
    numbers[INSERTIONS] = now
