"""Cells that hold the time they were last touched: the base of the timing Bloom filters.

A cell holds a timestamp from 0 to `last_timestamp`, or the mark of an expired cell.
The current timestamp cycles through that range, one step after each block of insertions. An
insertion writes it to the cells of its key. A key is reported unless one of its cells has expired.
An expired timestamp is marked before the current timestamp reaches the same value again. The sweep
examines `swept` cells after each insertion. `padding` makes the range longer than the window needs,
so that the sweep can examine fewer cells at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import compilation
from ..analysis import window_rate
from ..filter import Answers, AnyWindowFilter, Words, require_count
from ..hash.keys import Keys, Nulls, one_or_all
from ..results import Ages
from ..ring.slices import chunks
from ..sampling import sample
from ..sizing import bloom_rate

_CHUNK = 1 << 14
# Times the longest block it fits into 64 bits, and it is past for any window.
_NEVER = -(1 << 32)

Integers = NDArray[np.int64]
"""Array of integers; its shape is given where it is used."""


@dataclass(frozen=True)
class Evidence:
    """Evidence in the cells of each key about its last insertion (definitions 10 and 11)."""

    age: Integers
    """Age in blocks of the oldest timestamp among the cells of the key, the paper's lambda_x; -1
    if one has expired; shape (n,)."""
    oldest: Integers
    """Number of cells with this timestamp, c_x; for -1, number of expired cells; shape (n,)."""
    touched: Integers
    """Distinct cells of the key, r_x, shape (n,)."""
    filled: Integers
    """Insertions into the current block when the key was looked up, the paper's b, shape (n,)."""
    insertions: Integers
    """Insertions before the key was looked up, shape (n,)."""


class TimestampFilter(AnyWindowFilter):
    """Base of the timing Bloom filters.

    Attributes
    ----------
    insertions : int
        Insertions since construction, or since `clear`.
    compiled : bool
        Whether keys are inserted in a compiled loop; results are the same either way.
    """

    _counts: ClassVar = {"insertions": 1 << 61}

    window: int
    block: int
    cells: int
    hashes: int
    padding: int

    def _prepare(self) -> None:
        if self.padding is None:
            self.padding = -(-self.cells // (self.hashes * self.block)) - 1
            require_count("padding", self.padding, least=0, most=1 << 30)
        self._make_hash([self.cells] * self.hashes)
        self.compiled = compilation.wanted() and self.hashes <= compilation.MOST_PARTS
        if self.compiled:
            self._core, self._compiled_hash = self._hash.compiled()

    # Sizes

    @property
    def fpr(self) -> float:
        """Expected false-positive rate of distinct keys, averaged over a block."""
        return window_rate(
            lambda load: bloom_rate(load, self.cells, self.hashes), self.window, self.block
        )

    @property
    def fill(self) -> float:
        """Share of cells that have not expired."""
        return float((sample(self._cells) != self.expired).mean())

    @property
    def last_timestamp(self) -> int:
        """Largest timestamp, the paper's T_Omega: blocks of a window, plus 1, plus the padding."""
        return -(-self.window // self.block) + 1 + self.padding

    @property
    def expired(self) -> int:
        """Mark of a cell that has expired or was never touched, the paper's T_epsilon."""
        return self.last_timestamp + 1

    @property
    def timestamp_bits(self) -> int:
        """Bits of a cell, for all timestamps and the mark."""
        return self.expired.bit_length()

    @property
    def storage_bits(self) -> int:
        """Bits of all cells (section 3.2)."""
        return self.cells * self.timestamp_bits

    @property
    def swept(self) -> int:
        """Cells that the sweep examines after each insertion (sections 3.1.3 and 3.2.3)."""
        return -(-self.cells // (self.block * (self.padding + 1)))

    # State

    @property
    def memory(self) -> NDArray[np.uint32]:
        """Contents of the cells, as `timestamps`."""
        return self.timestamps

    @property
    def timestamps(self) -> NDArray[np.uint32]:
        """Contents of the cells; ndarray of uint32, shape (cells,)."""
        return self._cells.copy()

    @property
    def timestamp(self) -> int:
        """The current timestamp, the paper's T_+."""
        return self.insertions // self.block % (self.last_timestamp + 1)

    @property
    def filled(self) -> int:
        """Insertions since the current timestamp began, the paper's b."""
        return self.insertions % self.block

    def _empty(self) -> None:
        self.insertions = 0
        self._cells = np.full(self.cells, self.expired, np.uint32)

    def _arrays(self) -> dict[str, tuple[NDArray[Any], int]]:
        return {"timestamps": (self._cells, self.expired)}

    def _hold(self, arrays: dict[str, NDArray[Any]]) -> None:
        self._cells = arrays["timestamps"]

    def _restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        super()._restore(numbers, arrays)
        for part in chunks(self.cells):
            touched = self._touched(part)
            early = (touched < 0) & (touched != _NEVER)
            if (early | (touched * self.block >= self.insertions)).any():
                raise ValueError(
                    f"timestamps: must be of the {self.insertions} insertions that there were"
                )

    # Operations

    def _insert(self, keys: Words) -> None:
        if self.compiled:
            self._run(keys)
            return
        for indices in self._chunks(keys):
            self._advance(indices)

    def _query(self, keys: Words, windows: Integers | None = None) -> Answers:
        oldest = [self._touched(indices).min(axis=1) for indices in self._chunks(keys)]
        return self._answers(oldest, np.int64(self.insertions), windows)

    def _check_and_insert(self, keys: Words, windows: Integers | None = None) -> Answers:
        if self.compiled:
            return self._run(keys, windows)
        oldest, now = [], self.insertions + np.arange(len(keys))
        for indices in self._chunks(keys):
            oldest.append(self._touched_before(indices).min(axis=1))
            self._advance(indices)
        return self._answers(oldest, now, windows)

    def _answers(
        self, oldest: list[Integers], now: "Integers | np.int64", windows: Integers | None
    ) -> Answers:
        """Return whether keys are reported, from the blocks of their oldest cells in chunks."""
        asked = np.int64(self.window) if windows is None else windows
        return self._alive(np.concatenate([np.empty(0, np.int64), *oldest]), now, asked)

    @one_or_all
    def age(self, keys: Keys, *, nulls: Nulls = "refuse") -> Ages:
        """Return the least possible number of insertions after each key's own; changes nothing.

        The bound follows from the oldest timestamp of the key (section 3.2.2). With
        blocks of one insertion the result is the exact age, unless other keys have touched all
        cells since.

        Parameters, errors: as `insert`. The result of int64 has shape (n,), with -1 for
        a key that is not reported.
        """
        return self._age(self._words(keys))

    def _age(self, keys: Words) -> Ages:
        return self._ages_of(self._inspect(keys))

    def _age_and_insert(self, keys: Words) -> Ages:
        return self._ages_of(self._inspect_and_insert(keys))

    def _ages_of(self, evidence: Evidence) -> Ages:
        least = np.maximum((evidence.age - 1) * self.block + evidence.filled, 0)
        return np.where(evidence.age < 0, -1, least)

    def inspect(self, keys: Keys) -> Evidence:
        """Return the evidence in the cells of each key; changes nothing; errors as `insert`."""
        return self._inspect(self._words(keys))

    def _inspect(self, keys: Words) -> Evidence:
        parts = [
            self._evidence(indices, self._touched(indices), np.full(len(indices), self.insertions))
            for indices in self._chunks(keys, ordered=True)
        ]
        return _joined(parts)

    def inspect_and_insert(self, keys: Keys) -> Evidence:
        """Insert keys one after another; return the earlier evidence of each, as `inspect`."""
        return self._inspect_and_insert(self._words(keys))

    def _inspect_and_insert(self, keys: Words) -> Evidence:
        parts = []
        for indices in self._chunks(keys, ordered=True):
            now = self.insertions + np.arange(len(indices))
            parts.append(self._evidence(indices, self._touched_before(indices), now))
            self._advance(indices)
        return _joined(parts)

    def _run(self, keys: Words, windows: Integers | None = None) -> Answers:
        """Check and insert keys in the extension."""
        seen = np.empty(len(keys), np.bool_)
        moved = [self.timestamp, self.filled, self.insertions * self.swept % self.cells]
        fixed = [self.window, self.block, self.last_timestamp, self.swept]
        numbers = np.array([*moved, *fixed], np.int64)
        keys = np.ascontiguousarray(keys)
        self._core.insert_stamps(self._compiled_hash, self._cells, numbers, keys, seen, windows)
        self.insertions += len(keys)
        return seen

    # Chunks: `indices` has shape (n, hashes), one row per key

    def _chunks(self, keys: Words, *, ordered: bool = False) -> Iterator[NDArray[np.intp]]:
        """Cells of the keys, in chunks of at most one window.

        Hence no cell that a chunk touches expires within the chunk, and no older timestamp wraps to
        the chunk's beginning.
        """
        size = min(_CHUNK, self.window)
        for start in range(0, len(keys), size):
            yield self._indices(keys[start : start + size], ordered)

    def _indices(self, keys: Words, ordered: bool) -> NDArray[np.intp]:
        indices = np.stack(self._hash.indices(self._hash.state(keys), 0), axis=1)
        if ordered:
            indices.sort(axis=1)
        return indices

    def _touched(self, indices: NDArray[np.intp] | slice) -> Integers:
        """Blocks, counted from the first, in which cells were last touched; _NEVER if expired."""
        stamps = self._cells[indices].astype(np.int64)
        ages = (self.timestamp - stamps) % (self.last_timestamp + 1)
        blocks: Integers = self.insertions // self.block - ages
        blocks[stamps == self.expired] = _NEVER
        return blocks

    def _touched_before(self, indices: NDArray[np.intp]) -> Integers:
        """As `_touched`, for each key after the insertions of those before it in the chunk."""
        blocks = self._touched(indices).reshape(-1)
        shift = np.int64(indices.size.bit_length())
        # The sorted order of cell, then place, has each touch of a cell beside the next.
        order = indices.reshape(-1).astype(np.int64) << shift | np.arange(indices.size)
        order.sort()
        cell, place = order >> shift, order & (np.int64(1) << shift) - 1
        key = place // self.hashes
        again = cell[1:] == cell[:-1]
        # A key that selects a cell twice touches it once: both entries see the previous key.
        first = np.concatenate([[True], ~again | (key[1:] != key[:-1])])
        starts = np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
        within = np.concatenate([[False], again])[starts]
        before = key[starts[within] - 1]
        blocks[place[within]] = (self.insertions + before) // self.block
        return blocks.reshape(indices.shape)

    def _alive(
        self, touched: Integers, now: "Integers | np.int64", window: "Integers | np.int64 | int"
    ) -> NDArray[np.bool_]:
        """Whether timestamps of given blocks have not expired after `now` insertions.

        Definition 9, with age and b expressed in insertions: at least
        `window` insertions since the end of the block.
        """
        return now < (touched + 1) * self.block + window

    def _evidence(self, indices: NDArray[np.intp], touched: Integers, now: Integers) -> Evidence:
        """Evidence from sorted rows of cells."""
        touched = np.where(self._alive(touched, now[:, None], self.window), touched, _NEVER)
        oldest = touched.min(axis=1)
        single = np.ones(indices.shape, np.bool_)
        single[:, 1:] = indices[:, 1:] != indices[:, :-1]
        return Evidence(
            age=np.where(oldest == _NEVER, -1, now // self.block - oldest),
            oldest=(single & (touched == oldest[:, None])).sum(axis=1),
            touched=single.sum(axis=1),
            filled=now % self.block,
            insertions=now,
        )

    def _advance(self, indices: NDArray[np.intp]) -> None:
        """Insert the keys of a chunk, and sweep."""
        count = len(indices)
        self._sweep(count)
        blocks = (self.insertions + np.arange(count)) // self.block
        stamps = (blocks % (self.last_timestamp + 1)).astype(np.uint32)
        # In the order of the keys: the last touch of a cell stays.
        self._cells[indices.reshape(-1)] = np.repeat(stamps, self.hashes)
        self.insertions += count

    def _sweep(self, count: int) -> None:
        """Mark the cells that the sweeps of the next `count` insertions find expired.

        A cell that is touched during these insertions is written later, and does not expire so
        soon.
        """
        looks = count * self.swept
        offset = np.arange(min(looks, self.cells))
        # The last examination of a cell counts.
        last = offset + (looks - 1 - offset) // self.cells * self.cells
        now = self.insertions + 1 + last // self.swept
        cells = (self.insertions * self.swept % self.cells + offset) % self.cells
        dead = ~self._alive(self._touched(cells), now, self.window)
        self._cells[cells[dead]] = self.expired


def _joined(parts: list[Evidence]) -> Evidence:
    empty = np.empty(0, np.int64)
    return Evidence(
        *(
            np.concatenate([empty, *(getattr(part, name) for part in parts)])
            for name in Evidence.__dataclass_fields__
        )
    )
