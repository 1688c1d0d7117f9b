"""Operations of a window dictionary, one after another, as in the extension."""

from typing import Any, NamedTuple

from ..operations import OperationBit

INSERTIONS, LOST, YOUNGEST_LOST, STASH_PEAK = range(4)
"""Places in the vector that carries a dictionary through the loop."""

_QUERY, _INSERT, _REMOVE = (
    int(bit) for bit in (OperationBit.QUERY, OperationBit.INSERT, OperationBit.REMOVE)
)


class KeyOperations(NamedTuple):
    """Operations on keys, in sequences of shape (n,)."""

    codes: Any
    """Bits of `OperationBit`."""
    digests: Any
    rests: Any
    """Remainder of each digest, which a cell holds."""
    places: Any
    """Cell of each key in each column, numbered over all columns; shape (n, columns)."""
    windows: Any
    """Window of each query."""


class Cells(NamedTuple):
    """Memory of a dictionary, which the operations change."""

    times: Any
    """Insertion that wrote each cell, counted from 1; 0 for an empty cell; shape (columns *
    rows,)."""
    held: Any
    """Remainder in each cell."""
    stash_times: Any
    """Insertion that wrote each place of the stash, shape (places,)."""
    stash: Any
    """Digests in the stash."""
    window: int
    """Insertions after which an entry expires, n."""
    moves: int
    """Maximum number of entries that an insertion moves; 0 if entries never move."""
    offsets: Any
    """Value that each column adds to a row, by the bytes of the remainder, see `offset_tables`;
    shape (columns, bytes, 256). The first column adds nothing: its row is the low part of the
    digest."""

    def find(self, places: Any, rest: int, now: int) -> tuple[int, int]:
        """Return the cell that holds a remainder, and the first free cell; -1 if there is none."""
        found = free = -1
        for at in places:
            # Counted at this operation's insertion, if it inserts.
            distance = now + 1 - self.times[at]
            if self.times[at] > 0 and distance <= self.window and self.held[at] == rest:
                found = at
            elif free < 0 and (self.times[at] == 0 or distance >= self.window):
                free = at
        return found, free

    def find_stashed(self, digest: int, now: int) -> int:
        """Return the place in the stash that holds a live digest; -1 if there is none."""
        found = -1
        for slot, time in enumerate(self.stash_times):
            if self.stash[slot] == digest and time and now < time + self.window:
                found = slot
        return found

    def move(self, places: Any, rest: int, now: int) -> tuple[int, int, int] | None:
        """Write a new entry into the middle column, and move the entries that it displaces.

        Returns the entry without a cell: its time, its remainder, and its row in the first column.
        """
        columns = len(self.offsets)
        rows = len(self.times) // columns
        time, column = now, columns // 2
        row = places[column] - column * rows
        for _ in range(self.moves):
            at = column * rows + row
            time, self.times[at] = self.times[at], time
            rest, self.held[at] = self.held[at], rest
            if time == 0 or now - time >= self.window:
                return None
            after = (column + 1) % columns
            row ^= self._offset(column, rest) ^ self._offset(after, rest)
            column = after
        return time, rest, row ^ self._offset(column, rest)

    def _offset(self, column: int, rest: int) -> int:
        offset = 0
        for byte, table in enumerate(self.offsets[column]):
            offset ^= table[rest >> 8 * byte & 0xFF]
        return offset

    def put_away(self, slot: int, time: int, digest: int, now: int, numbers: Any) -> None:
        """Write an entry into a place of the stash, and count evicted and live entries."""
        before = self.stash_times[slot]
        if before and now - before < self.window:
            numbers[LOST] += 1
            numbers[YOUNGEST_LOST] = max(numbers[YOUNGEST_LOST], before)
        self.stash_times[slot], self.stash[slot] = time, digest
        live = sum(1 for one in self.stash_times if one > 0 and now - one < self.window)
        numbers[STASH_PEAK] = max(numbers[STASH_PEAK], live)


def perform(
    operations: KeyOperations, cells: Cells, numbers: Any, ages: Any, guaranteed: Any
) -> None:
    """Perform operations one after another.

    Parameters
    ----------
    operations : KeyOperations
    cells : Cells
        Changed.
    numbers : sequence of int
        Changed.
    ages : sequence of int, shape (n,)
        Written: insertions since the key's own; -1 if the key is not reported or not queried.
    guaranteed : sequence of int, shape (n,)
        Written: the largest window for which each answer is exact.
    """
    now, window = numbers[INSERTIONS], cells.window
    rows = len(cells.times) // len(cells.offsets)
    for i, (code, digest, rest, places, span) in enumerate(zip(*operations, strict=True)):
        found, free = cells.find(places, rest, now)
        last = cells.times[found] if found >= 0 else 0
        slot = cells.find_stashed(digest, now)
        oldest = min(range(len(cells.stash)), key=cells.stash_times.__getitem__, default=0)
        if slot >= 0:
            last = cells.stash_times[slot]
            if code & (_INSERT | _REMOVE):
                # The key is either written again or removed.
                cells.stash_times[slot], oldest = 0, slot
        lost = numbers[LOST] and now - numbers[YOUNGEST_LOST] < window
        guaranteed[i] = now - numbers[YOUNGEST_LOST] if lost else window
        ages[i] = now - last if code & _QUERY and last and now - last < span else -1
        if code & _REMOVE and found >= 0:
            cells.times[found] = 0
        if code & _INSERT:
            now += 1
            found = found if found >= 0 else free
            if found >= 0:
                cells.times[found], cells.held[found] = now, rest
            elif (left := cells.move(places, rest, now)) is not None:
                time, other, row = left
                cells.put_away(oldest, time, other * rows + row, now, numbers)
    numbers[INSERTIONS] = now
