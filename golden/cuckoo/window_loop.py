"""Operations of a window dictionary, one after another: the extension has the same."""

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
    """Part of each digest that a cell holds."""
    places: Any
    """Cell of each key in each column, numbered through; shape (n, columns)."""
    windows: Any
    """Window of each query."""


class Cells(NamedTuple):
    """Memory of a dictionary, which the operations change."""

    times: Any
    """Insertion that wrote each cell, counted from 1, 0 for an empty one; (columns * rows,)."""
    held: Any
    """Rest in each cell."""
    stash_times: Any
    """The same as `times` for the stash, shape (places,)."""
    stash: Any
    """Digests in the stash."""
    window: int
    """Insertions after which an entry expires, n."""
    moves: int
    """Most entries that an insertion moves; 0 if entries never move."""
    offsets: Any
    """Value that each column adds to a row, by the bytes of the rest, see `offset_tables`; shape
    (columns, bytes, 256). The first column adds nothing: there the row is the low part of the
    digest."""

    def find(self, places: Any, rest: int, now: int) -> tuple[int, int]:
        """Return the cell that holds a rest, and the first free one; -1 if there is none."""
        found = free = -1
        for at in places:
            # As of the insertion of this operation, if it is one.
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

        Returns the entry that finds no cell: its time, its rest, and its row in the first column.
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
        """Write an entry into a place of the stash, and count what is lost and live there."""
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
        Written: insertions since that of the key; -1 if it is not reported, or not queried.
    guaranteed : sequence of int, shape (n,)
        Written: the largest window for which the answer to each is exact.
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
                # The key is written anew, or not at all.
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
