"""The loop over the operations of a window dictionary: the extension has the same."""

from typing import Any

from ..operations import OperationBit

INSERTIONS, LOST, YOUNGEST_LOST, STASH_PEAK, NUMBERS = range(5)
"""Places in the vector that carries a dictionary through the loop; the last is its length."""

_QUERY, _INSERT, _REMOVE = (
    int(bit) for bit in (OperationBit.QUERY, OperationBit.INSERT, OperationBit.REMOVE)
)


def perform(
    codes: Any, digests: Any, rests: Any, places: Any, windows: Any,
    times: Any, held: Any, stash_times: Any, stash: Any, window: int, moves: int, offsets: Any,
    numbers: Any, ages: Any, guaranteed: Any,
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
    moves : int
        Most entries that an insertion moves; 0 if entries never move.
    offsets : sequence of int, shape (columns, bytes, 256)
        What each column adds to a row, by the bytes of the rest; see `offset_tables`. In the first
        column nothing, so that there the row is the low part of the digest.
    numbers : sequence of int
        Changed.
    ages : sequence of int, shape (n,)
        Written: insertions since that of the key; -1 if it is not reported, or none is asked for.
    guaranteed : sequence of int, shape (n,)
        Written: the largest window for which the answer to each is exact.
    """
    now, columns = numbers[INSERTIONS], len(offsets)
    rows = len(times) // columns
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
            time, rest, column = now, rests[i], columns // 2
            row = places[i][column] - column * rows
            for _ in range(moves):
                at = column * rows + row
                time, times[at] = times[at], time
                rest, held[at] = held[at], rest
                if time == 0 or now - time >= window:
                    break
                after = (column + 1) % columns
                for byte in range(len(offsets[0])):
                    part = rest >> 8 * byte & 0xFF
                    row ^= offsets[column][byte][part] ^ offsets[after][byte][part]
                column = after
            else:
                for byte in range(len(offsets[0])):
                    row ^= offsets[column][byte][rest >> 8 * byte & 0xFF]
                if stash_times[oldest] and now - stash_times[oldest] < window:
                    numbers[LOST] += 1
                    numbers[YOUNGEST_LOST] = max(numbers[YOUNGEST_LOST], stash_times[oldest])
                stash_times[oldest], stash[oldest] = time, rest * rows + row
                live = 0
                for slot in range(len(stash)):
                    live += stash_times[slot] > 0 and now - stash_times[slot] < window
                numbers[STASH_PEAK] = max(numbers[STASH_PEAK], live)
    numbers[INSERTIONS] = now
