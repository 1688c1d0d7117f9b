"""Dictionary of digests with an exact window, and optional moves of entries.

It is a variant of the time-decaying cuckoo dictionary (Near-optimal Approximate Membership Query
over Time-decaying Windows, section IV.B), whose notation the comments use: i, tau, n, d, T, S, L.

- A key is hashed to a digest of D bits. In each column some of these bits select a cell, which
  holds a timestamp, the paper's T, and the other bits, the remainder, the paper's S. Row and
  remainder together determine the digest (quotienting: Knuth, The Art of Computer Programming,
  volume 3, section 6.4, exercise 13).
- There can be any number of columns instead of two tables, and a new entry goes to the first column
  with a free cell. Moves start in the middle column, and continue from each column to the next.
- The list L, here called the stash, has a fixed size and holds whole digests. If the stash is full,
  its oldest entry is evicted, which may reduce the `guaranteed_window`. For windows up to this
  limit, the results are those of a list that holds each digest and its last insertion.
- Timestamps never repeat, so no sweep is needed.
"""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import compilation
from ..cached import Secret
from ..filter import (
    Answers,
    Bounded,
    CountedFilter,
    Number,
    State,
    Windows,
    Words,
    check_and_insert_in_window,
    query_in_window,
    taking_single_keys,
)
from ..hash.functions import KeyHash, offset_tables, offset_terms
from ..hash.keys import Keys
from ..hash.siphash import check_secret
from ..operations import Operation, OperationBit
from ..results import Ages, Codes, Results
from ..sampling import sample
from ..spec.dictionary_sizes import WindowDictionarySpec, min_columns, min_digest_bits

_MAX_COLUMNS = 64  # limit of the C extension
_BITS = OperationBit.QUERY, OperationBit.INSERT, OperationBit.REMOVE
_QUERY, _INSERT, _REMOVE = map(int, _BITS)

_INSERTIONS, _LOST, _YOUNGEST_LOST, _STASH_PEAK, _ALL_LOST, _SECRET = range(3, 9)
"""Indices in `_numbers`; the secret is in the last two numbers, low half first."""


def digest_hash(spec: WindowDictionarySpec) -> KeyHash:
    """Return the hash function whose two indices are the row bits and the remainder of a digest."""
    sizes = [spec.rows, 1 << spec.rest_bits]
    return KeyHash(key_bits=spec.key_bits, sizes=sizes, functions=1, seed=spec.seed, hash=spec.hash)


def row_offsets(spec: WindowDictionarySpec) -> Ages:
    """Return the values that each column XORs with a row; shape (columns, remainder bytes, 256)."""
    terms = offset_terms(
        columns=spec.columns, row_bits=spec.row_bits, rest_bits=spec.rest_bits, seed=spec.seed
    )
    return np.array([offset_tables(column, spec.rest_bits) for column in terms], np.int64)


def packed_offsets(offsets: Ages, row_bits: int) -> NDArray[np.uint64]:
    """Pack the offsets of several columns into each word, for the C extension and C headers."""
    together = 64 // max(row_bits, 1)
    packed = np.zeros((-(-len(offsets) // together), *offsets.shape[1:]), np.uint64)
    for column, table in enumerate(offsets.astype(np.uint64)):
        packed[column // together] |= table << np.uint64(column % together * row_bits)
    return packed


@taking_single_keys
class WindowDictionary(CountedFilter):
    """Dictionary of digests: reports recent keys and their ages in insertions (section IV.B).

    A query accepts any window from 1 to `window` insertions. While `guaranteed_window` is at least
    this window, a key in the window is always reported, with its exact age. Any other key is
    reported only if a key in the window has the same digest. There is no slack: a key is reported
    for all d < W = `window`, and no longer, where d is the number of insertions after its own.

    Keys with equal digests are one key: inserting or removing one of them also renews or removes
    the other. A removal from a full window erases another key with the probability `fpr`, about
    window / 2**`digest_bits`. So choose `digest_bits` for the expected number of removals, and
    remove only keys that were inserted.

    Its parameters are those of `WindowDictionarySpec`, and the `secret` of the hash "siphash", at
    most 128 bits. Raises TypeError or ValueError if the secret is not an integer or is out of
    range, and SpecificationError if the hash uses no secret or another parameter violates a rule.
    """

    specification = WindowDictionarySpec
    supported = (*CountedFilter.supported, Operation.REMOVE)
    _uncompared = ("lost", "stash_peak")
    _UNSAVED = ("secret",)
    _extras: ClassVar = {"secret": 0}
    _counts: ClassVar = {
        "insertions": 1 << 61,
        "lost": "insertions",
        "youngest_lost": "insertions",
        "stash_peak": "stash",
    }

    window: int
    columns: int
    rows: int
    digest_bits: int
    stash: int
    moves: int | None
    hash: str
    spec: WindowDictionarySpec
    fpr: float

    query, check_and_insert = query_in_window, check_and_insert_in_window
    _NUMBERS = _SECRET + 2
    # Number of insertions since construction or `clear`; number of entries evicted before they
    # expired; timestamp of the youngest of them; maximum number of live entries in the stash.
    insertions, lost, youngest_lost = Number(_INSERTIONS), Number(_LOST), Number(_YOUNGEST_LOST)
    stash_peak, _all_lost = Number(_STASH_PEAK), Number(_ALL_LOST)
    _secret = Secret(_SECRET)

    def __init__(self, **parameters: Any) -> None:
        secret = parameters.pop("secret", 0)
        self._secret = self._waiting = 0
        super().__init__(**parameters)
        if check_secret(secret):
            self.rekey(secret)
            self._empty()
        self._digest_under(secret)

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        shapes = [
            (columns * rows, columns, rows)
            for rows in (1 << bits for bits in range(1, max(2, keys.bit_length() + 1)))
            if (columns := min_columns(keys, rows)) is not None
        ]
        _, columns, rows = min(shapes)
        bits = max(min_digest_bits(keys, fpr), rows.bit_length())
        return {"window": keys, "columns": columns, "rows": rows, "digest_bits": bits}

    def _prepare(self) -> None:
        self._row_bits = self.spec.row_bits
        self._hash, self._offsets = digest_hash(self.spec), row_offsets(self.spec)
        self.compiled = compilation.wanted() and self.columns <= _MAX_COLUMNS
        cells = np.zeros((self.columns * self.rows, 2), np.int64)
        stash = np.zeros((2, self.stash), np.int64)
        self._hold({"cells": cells, "stash_times": stash[0], "stash": stash[1]})

    def _hold(self, arrays: dict[str, NDArray[Any]]) -> None:
        self._cells, self._stash_times = arrays["cells"], arrays["stash_times"]
        self._stash = arrays["stash"]
        # Both arrays are interleaved, so that a cell is in one cache line.
        self._times, self._held = self._cells.T.reshape(2, self.columns, self.rows)
        if self.compiled:
            core, key_hash = self._hash.compiled()
            packed = packed_offsets(self._offsets, self._row_bits)
            memory = packed, self._numbers, self._cells, self._stash_times, self._stash
            self._engine = core.Dictionary(
                key_hash, self.columns, self.window, self.moves or 0, *memory
            )

    def remove(self, keys: Keys) -> None:
        """Remove keys; a key whose digest is absent is ignored.

        Types, shapes and errors of keys are those of `insert`.
        """
        words = self._words(keys)
        self._performed(Operation.REMOVE, words)
        self._note_events(len(words))

    def rekey(self, secret: int) -> None:
        """Load a new secret of at most 128 bits, which takes effect at the next clear."""
        self._waiting = self._checked_secret(secret)

    def _empty(self) -> None:
        # New memory is zero, and occupies no pages until it is written.
        for array in (self._cells, self._stash_times, self._stash) if self.insertions else ():
            array[:] = 0
        self._numbers[_INSERTIONS:_ALL_LOST] = 0
        self._secret = self._waiting

    def _perform(
        self, codes: Codes, keys: Words, times: Any = None, windows: Ages | None = None
    ) -> Results:
        asked = np.full(len(keys), self.window) if windows is None else windows
        ages, covered = np.full(len(keys), -1, np.int64), np.zeros(len(keys), np.int64)
        start = 0
        for clear in [*np.flatnonzero(codes == Operation.CLEAR).tolist(), len(codes)]:
            part = slice(start, clear)
            if self.compiled:
                answers = ages[part], covered[part], None
                self._run(codes[part], keys[part], asked[part], *answers)
            else:
                columns = codes[part], *self._digests(keys[part]), asked[part]
                operations = zip(*(column.tolist() for column in columns), strict=True)
                for at, operation in enumerate(operations, start):
                    covered[at], ages[at] = self.guaranteed_window, self._operate(*operation)
            if clear < len(codes):
                covered[clear] = self.guaranteed_window
                self._empty()
            start = clear + 1
        queries = codes & (OperationBit.QUERY | OperationBit.ALONE) == OperationBit.QUERY
        return Results.of(ages >= 0, ages, status=queries & (asked > covered), covered=covered)

    def _one_operation(
        self, operation: Operation, keys: Words, window: Any = None, *_: Any
    ) -> Answers:
        if not self.compiled:
            return self._performed(operation, keys, None, window).seen
        seen = np.empty(len(keys), np.bool_)
        self._run(operation, keys, window, None, None, seen)
        return seen

    def _age(self, keys: Words) -> Ages:
        return self._performed(Operation.QUERY, keys).age

    def _further_counters(self) -> dict[str, int]:
        return {"lost": self._all_lost}

    def _checked_windows(self, windows: Windows, count: int) -> Ages:
        return self._each_window(windows, count)

    # One operation after another, as in section IV.B. The current timestamp tau is i, the number of
    # insertions; T and S are `_times` and `_held`, indexed by column and row; L is the stash.

    def _operate(self, code: int, digest: int, rows: list[int], w: int) -> int:
        """Perform an operation on a digest; return the age, or -1 if the digest is not reported."""
        tau, rest = int(self._numbers[_INSERTIONS]), digest >> self._row_bits
        key_cell = free = None
        for cell in enumerate(rows):
            t = self._times[cell]
            # 3) Query: T has not expired, and S and P are those of the key.
            if self._is_live(t, tau) and self._held[cell] == rest:
                key_cell = cell
            elif free is None and not self._is_live(t, tau + 1):
                free = cell
        t = self._times[key_cell] if key_cell else 0
        for index, time in enumerate(self._stash_times.tolist()):
            if self._stash[index] == digest and self._is_live(time, tau):
                t = time
                if code & (_INSERT | _REMOVE):
                    self._stash_times[index] = 0
        if code & _REMOVE and key_cell:
            self._times[key_cell] = 0
        if code & _INSERT:
            # 2) Insertion: into the cell of the key, or else into the first free cell.
            self._numbers[_INSERTIONS] = tau + 1
            if chosen := key_cell or free:
                self._times[chosen], self._held[chosen] = tau + 1, rest  # (5)
            else:
                self._move(digest, tau + 1)
        return tau - t if code & _QUERY and t and tau - t < w else -1

    def _move(self, digest: int, tau: int) -> None:
        """Store a digest in an occupied cell; its entry moves to the next column, and so on."""
        time, column = tau, self.columns // 2
        for _ in range(self.moves or 0):
            cell = column, self._row(column, digest)
            before, rest = self._times[cell], self._held[cell]
            self._times[cell], self._held[cell] = time, digest >> self._row_bits  # (6)
            if not self._is_live(before, tau):
                return
            time, digest = before, self._digest(*cell, rest)
            column = (column + 1) % self.columns
        # Into L (7), replacing the oldest entry, which is lost if still live.
        oldest = self._stash_times.argmin()
        if self._is_live(before := self._stash_times[oldest], tau):
            self._numbers[[_LOST, _ALL_LOST]] += 1
            self._numbers[_YOUNGEST_LOST] = max(self._numbers[_YOUNGEST_LOST], before)
        self._stash_times[oldest], self._stash[oldest] = time, digest
        self._numbers[_STASH_PEAK] = max(self._numbers[_STASH_PEAK], self.stashed)

    def _is_live(self, time: int, tau: int) -> bool:
        return time > 0 and tau - time + 1 <= self.window

    def _digests(self, keys: Words) -> tuple[Ages, Ages]:
        low, rest = self._hash.indices(self._hash.state(keys, self._secret), 0)
        digests = rest.astype(np.int64) << self._row_bits | low
        return digests, self._row(np.arange(self.columns), digests[:, np.newaxis])

    def _row(self, column: Any, digest: Any) -> Any:
        """Row of a digest in a column: the low bits of the digest XOR bits of the remainder."""
        return digest & self.rows - 1 ^ self._offset(column, digest >> self._row_bits)

    def _digest(self, column: Any, row: Any, rest: Any) -> Any:
        return rest << self._row_bits | row ^ self._offset(column, rest)

    def _offset(self, column: Any, rest: Any) -> Any:
        offset = 0
        for byte in range(self._offsets.shape[1]):
            offset = offset ^ self._offsets[column, byte, rest >> 8 * byte & 0xFF]
        return offset

    def _run(self, codes: Any, keys: Words, windows: Any, *answers: Any) -> None:
        if not isinstance(codes, Operation):
            codes = np.ascontiguousarray(codes)
        self._engine.perform(codes, np.ascontiguousarray(keys), windows, *answers)

    @property
    def guaranteed_window(self) -> int:
        """Maximum window for which the results are exact.

        It is `window`, unless an entry was evicted within the window. Then it is the number of
        insertions after the youngest evicted entry, until that entry would have expired.
        """
        since = self._numbers[_INSERTIONS] - self._numbers[_YOUNGEST_LOST]
        return min(self.window, int(since)) if self._numbers[_LOST] else self.window

    def expected_false_positive_rate(self, window: int | None = None) -> float:
        """Probability that a key that was never inserted is reported in the `window`.

        It is the number of live digests in the window, divided by 2**`digest_bits`.
        """
        window, live = self.checked_window(window), 0
        for times in (self._times, self._stash_times):
            live += int((self._distances(times) <= window).sum())
        return live / 2.0**self.digest_bits

    def estimated_false_positive_rate(self, window: int | None = None) -> float:
        """Return `expected_false_positive_rate`, under the name that all filters share."""
        return self.expected_false_positive_rate(window)

    def fill_ratios(self) -> NDArray[np.float64]:
        """Return the fraction of cells in each column that hold a live entry; shape (columns,)."""
        fills: NDArray[np.float64] = np.mean(self.memory[0] != 0, axis=1)
        return fills

    def differing_cells(self, memory: Ages) -> int:
        """Count cells of the hardware's `memory`, of the same shape, that differ from the model's.

        With moves, equal entries may be in different cells, so entries are counted instead: those
        that only the hardware has, and the missing ones that exceed the capacity of the stash.
        """
        if not self.moves:
            return int((memory != self.memory).any(axis=0).sum())
        present = {tuple(entry) for entry in self.entries_of(memory).tolist()}
        due = {tuple(entry) for entry in self.entries.tolist()}
        return len(present - due) + max(0, len(due - present) - self.stash)

    @property
    def stashed(self) -> int:
        """Number of live entries in the stash."""
        return int((self._distances(self._stash_times) <= self.window).sum())

    @property
    def memory(self) -> Ages:
        """Age + 1 and remainder of each cell, both 0 if not live; shape (2, columns, rows)."""
        distances = self._distances(self._times)
        live = distances <= self.window
        return np.stack([distances * live, self._held * live])

    @property
    def entries(self) -> Ages:
        """Live entries as pairs of digest and age plus 1, sorted by digest; shape (live, 2)."""
        distances = self._distances(self._stash_times)
        stashed = np.stack([self._stash, distances], axis=1)[distances <= self.window]
        present = np.concatenate([self.entries_of(self.memory), stashed])
        return present[np.argsort(present[:, 0])]

    def entries_of(self, memory: Ages) -> Ages:
        """Return each entry of an array like `memory` as digest and age plus 1; shape (live, 2)."""
        distances, rests = memory
        column, row = used = np.nonzero(distances)
        return np.stack([self._digest(column, row, rests[used]), distances[used]], axis=1)

    @property
    def fill(self) -> float:
        """Fraction of cells that hold a live entry."""
        return float(np.mean(self._distances(sample(self._times)) <= self.window))

    def _distances(self, times: Ages) -> Ages:
        return np.where(times > 0, self.insertions + 1 - times, self.window + 1)

    @property
    def _private(self) -> bool:
        return self.hash == "siphash"

    def _take_saved(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        super()._take_saved(numbers, arrays)
        self._all_lost = numbers.get("events", {}).get("lost", self.lost)

    def _other_secrets(self) -> list[int]:
        return [self._waiting, *super()._other_secrets()]

    def _numbers_of_secrets(self, secrets: list[int]) -> dict[str, Any]:
        waiting = {"secrets": [self._secret, secrets[0]]} if self._private else {}
        return super()._numbers_of_secrets(secrets) | waiting

    def _arrays(self) -> Bounded:
        return {
            "cells": (self._cells, (self.insertions, (1 << self.spec.rest_bits) - 1)),
            "stash_times": (self._stash_times, self.insertions),
            "stash": (self._stash, (1 << self.digest_bits) - 1),
        }

    def _state(self) -> State:
        numbers, arrays = super()._state()
        if self._private:
            numbers["secrets"] = [self._secret, self._waiting]
        return numbers, arrays

    def _restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        if "times" in arrays:  # Format 2.
            arrays["cells"] = np.stack([arrays["times"], arrays["held"]], axis=1)
        super()._restore(numbers, arrays)
        if self._private:
            self._secret, self._waiting = (check_secret(secret) for secret in numbers["secrets"])
