"""Scalar twin of the window dictionary: one key at a time, in plain Python.

It shares the constants of the hash functions with the array model and nothing else.
"""

from typing import Any

from lately.golden.hash.functions import offset_terms
from lately.golden.hash.scalar_hash import ScalarHash


class ScalarWindowDictionary:
    """Cells by column and row, and a stash; arguments as for `WindowDictionary`."""

    def __init__(
        self, *, window: int, columns: int, rows: int, digest_bits: int, stash: int,
        moves: int = 0, seed: int = 0, secret: int = 0, **hashing: Any,
    ) -> None:  # fmt: skip
        self.window, self.places, self.moves, self.secret = window, stash, moves, secret
        self.row_bits = rows.bit_length() - 1
        rest_bits = digest_bits - self.row_bits
        self.hash = ScalarHash(sizes=[rows, 1 << rest_bits], seed=seed, **hashing)
        self.terms = offset_terms(
            columns=columns, row_bits=self.row_bits, rest_bits=rest_bits, seed=seed
        )
        self.insertions = 0
        # (rest, insertion) by (column, row); (digest, insertion), the oldest first.
        self.cells: dict[tuple[int, int], tuple[int, int]] = {}
        self.stash: list[tuple[int, int]] = []
        self.lost: list[tuple[int, int]] = []

    def digest(self, x: int) -> int:
        """Return row and rest in one number."""
        row, rest = self.hash(x, 0, self.secret)
        return rest << self.row_bits | row

    def cell(self, column: int, digest: int) -> tuple[int, int]:
        """Return column and row of a digest's cell."""
        row, rest = digest & (1 << self.row_bits) - 1, digest >> self.row_bits
        for bit, terms in enumerate(self.terms[column]):
            for term in terms:
                row ^= (rest >> term & 1) << bit
        return column, row

    def digest_of(self, column: int, row: int, rest: int) -> int:
        """Return the digest that has a cell and a rest."""
        # What is added to the row, once more, leaves the low part.
        _, low = self.cell(column, rest << self.row_bits | row)
        return rest << self.row_bits | low

    def age(self, x: int) -> int:
        """Return the insertions since that of x; -1 if it is not in the window."""
        digest = self.digest(x)
        times = [time for held, time in self.stash if held == digest]
        if cell := self._own(digest):
            times.append(self.cells[cell][1])
        age = self.insertions - max(times, default=-self.window)
        return age if age < self.window else -1

    def query(self, x: int, w: int) -> bool:
        """Tell whether x is among the last w insertions."""
        return 0 <= self.age(x) < w

    def remove(self, x: int) -> None:
        """Remove x, and every key of its digest."""
        digest = self.digest(x)
        self.stash = [(held, time) for held, time in self.stash if held != digest]
        if cell := self._own(digest):
            del self.cells[cell]

    def insert(self, x: int) -> None:
        """Write the cell that holds the digest, or a free one; or make room, or stash it."""
        digest = self.digest(x)
        own = self._own(digest)
        self.stash = [(held, time) for held, time in self.stash if held != digest]
        self.insertions += 1
        cells = [self.cell(column, digest) for column in range(len(self.terms))]
        for cell in [own] if own else cells:
            if cell not in self.cells or cell == own or self._expired(self.cells[cell][1]):
                self.cells[cell] = digest >> self.row_bits, self.insertions
                return
        left = self._moved(digest, self.insertions)
        if left is None:
            return
        self.stash = [entry for entry in self.stash if not self._expired(entry[1])]
        self.stash.append(left)
        if len(self.stash) > self.places:
            oldest = min(self.stash[:-1], key=lambda entry: entry[1])
            self.stash.remove(oldest)
            self.lost.append(oldest)

    def _moved(self, digest: int, time: int) -> tuple[int, int] | None:
        """Put an entry in the place of another, and so on; return the one that is left."""
        column = len(self.terms) // 2
        for _ in range(self.moves):
            cell = self.cell(column, digest)
            rest, before = self.cells.get(cell, (0, 0))
            self.cells[cell] = digest >> self.row_bits, time
            if not before or self._expired(before):
                return None
            digest, time = self.digest_of(*cell, rest), before
            column = (column + 1) % len(self.terms)
        return digest, time

    @property
    def guaranteed_window(self) -> int:
        """Return the largest window that no lost entry would be in."""
        return min([self.window, *(self.insertions - time for _, time in self.lost)])

    def _own(self, digest: int) -> tuple[int, int] | None:
        """Return the cell that holds a digest of the window."""
        for column in range(len(self.terms)):
            cell = self.cell(column, digest)
            rest, time = self.cells.get(cell, (-1, 0))
            if rest == digest >> self.row_bits and self.insertions - time < self.window:
                return cell
        return None

    def _expired(self, time: int) -> bool:
        return self.insertions - time >= self.window
