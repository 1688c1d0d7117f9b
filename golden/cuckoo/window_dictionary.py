"""Dictionary of digests with an exact window; moves of entries are optional.

It has the timestamps and the sharp window of the time-decaying cuckoo dictionary
(Near-optimal Approximate Membership Query over Time-decaying Windows, section
IV); moves are an option. A key becomes a digest of D bits. In each column some of these bits select
a cell, which holds the other bits, the remainder, with a timestamp. Row and remainder together
determine the digest. An insertion writes the cell that already holds the digest. Otherwise it
writes the first free cell in the order of the columns, or else a place in a small stash, which
holds whole digests. With moves, it first takes a cell of the middle column. The displaced entry
takes a cell of the next column, and so on in a ring until a cell is free. So the answers equal a
list of digests with the last insertion of each, until too many digests select the same cells for
the stash. Then the oldest entry of the stash is evicted, and the dictionary reports the windows for
which its answers are still exact.
"""

import inspect
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import compilation
from ..errors import SpecificationError
from ..filter import Answers, AnyWindowFilter, Windows, Words
from ..hash.functions import KeyHash, offset_tables, offset_terms
from ..hash.keys import Keys
from ..hash.siphash import check_secret
from ..operations import Operation, OperationBit
from ..results import Ages, Results
from ..ring.slices import chunks
from ..spec.dictionary_sizes import WindowDictionarySpec, least_columns, least_digest_bits
from .window_loop import Cells, KeyOperations, perform
from .window_state import DictionaryState

_MOST_COLUMNS = 64
"""Most columns that the extension supports."""


class WindowDictionary(DictionaryState):
    """Dictionary of digests: reports recent keys and the insertions since each.

    Sources: timestamps, and cells that become free at expiry, come from the time-decaying cuckoo
    dictionary (its section IV.B). The split of a digest into row and remainder is quotienting
    (Knuth, The Art of Computer Programming, volume 3, section 6.4, exercise 13).

    A query accepts any window from 1 to `window` insertions. A key of the window is always
    reported, with its exact age, while `guaranteed_window` is at least this window. Any other key
    is reported only if a key of the window has the same digest. There is no slack: a key is
    reported for all d < W = `window`, and no longer, where d is the number of insertions after its
    own.

    Keys with equal digests are one key: inserting either renews both, and removing one removes the
    other, which no counter shows. A removal from a full window erases another key with the
    probability `fpr`, about n / 2**D. So choose D by the removals that you expect, and remove only
    keys that were inserted.

    Parameters
    ----------
    window : int
        n, the largest window, in insertions.
    columns, rows : int
        Columns, and cells of each; the rows are a power of two.
    digest_bits : int
        D, bits of a digest: the bits that select a row, and 1 to 32 more.
    stash : int
        Places for digests without a free cell.
    moves : int, optional
        Maximum number of entries that an insertion moves; by default entries never move.
    hash : str
        "h3", or "siphash", which takes a secret.
    secret : int
        Secret of the hash "siphash", at most 128 bits.

    Attributes
    ----------
    insertions : int
        Insertions since construction or `clear`.
    lost : int
        Entries evicted so far, each before it expired.
    stash_peak : int
        Maximum number of live entries in the stash so far.
    compiled : bool
        Whether operations run in a compiled loop; results are the same either way.

    Raises
    ------
    TypeError
        If a parameter is of the wrong kind.
    ValueError
        If the secret is negative, or has more than 128 bits.
    SpecificationError
        If another parameter breaks a rule, or a secret is given and the hash takes none.
    """

    specification = WindowDictionarySpec
    supported = (*AnyWindowFilter.supported, Operation.REMOVE)
    _uncompared = ("lost", "stash_peak")
    _UNSAVED = ("secret",)
    _counts: ClassVar = {
        "insertions": 1 << 61,
        "lost": "insertions",
        "youngest_lost": "insertions",
        "stash_peak": "stash",
    }

    hash: str

    def __init__(self, **parameters: Any) -> None:
        secret = parameters.pop("secret", 0)
        self._secret = self._waiting = self._all_lost = 0
        super().__init__(**parameters)
        if check_secret(secret):
            self.rekey(secret)
            self._empty()
        self._digest_under(secret)

    @classmethod
    def _signature(cls) -> list[inspect.Parameter]:
        secret = inspect.Parameter("secret", inspect.Parameter.KEYWORD_ONLY, default=0)
        return [*super()._signature(), secret]

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        shapes = [
            (columns * rows, columns, rows)
            for rows in (1 << bits for bits in range(1, max(2, keys.bit_length() + 1)))
            if (columns := least_columns(keys, rows)) is not None
        ]
        _, columns, rows = min(shapes)
        bits = max(least_digest_bits(keys, fpr), rows.bit_length())
        return {"window": keys, "columns": columns, "rows": rows, "digest_bits": bits}

    def _prepare(self) -> None:
        spec = self.spec
        self._make_hash([self.rows, 1 << spec.rest_bits])
        terms = offset_terms(
            columns=self.columns, row_bits=spec.row_bits, rest_bits=spec.rest_bits, seed=self.seed
        )
        self._tables = [offset_tables(column, spec.rest_bits) for column in terms]
        self._offsets = np.array(self._tables, np.int64)
        self.compiled = compilation.wanted() and self.columns <= _MOST_COLUMNS
        cells = np.zeros((self.columns * self.rows, 2), np.int64)
        stash = np.zeros((2, self.stash), np.int64)
        self._hold({"cells": cells, "stash_times": stash[0], "stash": stash[1]})

    def _hold(self, arrays: dict[str, NDArray[Any]]) -> None:
        # Both numbers of a cell are in the same cache line.
        self._cells, self._stash_times = arrays["cells"], arrays["stash_times"]
        self._stash, (self._times, self._held) = arrays["stash"], self._cells.T
        if self.compiled:
            core, key_hash = self._hash.compiled()
            memory = self._offsets, self._cells, self._stash_times, self._stash
            self._engine = core.Dictionary(
                key_hash, self.columns, self.window, self.moves or 0, *memory
            )

    def _make_hash(self, sizes: Any, functions: int = 1) -> None:
        self._hash = KeyHash(
            key_bits=self.key_bits, sizes=sizes, functions=functions, seed=self.seed, hash=self.hash
        )

    # Operations

    def remove(self, keys: Keys) -> None:
        """Remove keys; a key whose digest is absent has no effect.

        Parameters, errors: as `insert`.
        """
        words = self._words(keys)
        self._performed(Operation.REMOVE, words)
        self._note_events(len(words))

    def _empty(self) -> None:
        # New memory is zero, and takes no pages until it is written.
        used = vars(self).get("insertions")
        for array in (self._cells, self._stash_times, self._stash) if used else ():
            array[:] = 0
        self.insertions = self.lost = self.youngest_lost = self.stash_peak = 0
        self._secret = self._waiting

    def rekey(self, secret: int) -> None:
        """Load a new secret of at most 128 bits, which takes effect at the next clear.

        Raises
        ------
        TypeError, ValueError, SpecificationError
            If the `secret` is wrong; as for `WindowDictionary`.
        """
        if not self._private:
            raise SpecificationError(
                f"secret: must not be given for hash {self.hash}, which takes none"
            )
        self._waiting = check_secret(secret)

    # Steps

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

    def _perform(
        self,
        codes: NDArray[np.uint8],
        keys: Words,
        times: Any = None,
        windows: "Ages | None" = None,
    ) -> Results:
        asked = np.full(len(keys), self.window) if windows is None else windows
        ages, covered = np.full(len(keys), -1, np.int64), np.zeros(len(keys), np.int64)
        start = 0
        for clear in [*np.flatnonzero(codes == Operation.CLEAR), len(codes)]:
            for part in chunks(clear - start):
                own = slice(start + part.start, start + part.stop)
                answers = ages[own], covered[own]
                self._perform_part(codes[own], keys[own], asked[own], *answers)
            if clear < len(codes):
                covered[clear] = self.guaranteed_window
                self._empty()
            start = clear + 1
        queries = codes & (OperationBit.QUERY | OperationBit.ALONE) == OperationBit.QUERY
        return Results.of(ages >= 0, ages, status=queries & (asked > covered), covered=covered)

    def _perform_part(
        self, codes: NDArray[np.uint8], keys: Words, windows: Ages, ages: Ages, covered: Ages
    ) -> None:
        """Perform operations without CLEAR; write ages and covered windows."""
        if self.compiled:
            self._run(codes, keys, windows, ages, covered, None)
            return
        numbers = self._vector()
        # The interpreter reads elements of lists three times as fast as elements of arrays.
        asked: list[Any] = [codes.astype(np.int64), *self._digests(keys), windows]
        kept: list[Any] = [self._times, self._held, self._stash_times, self._stash]
        views: list[Any] = [memoryview(array) for array in (*kept, numbers, ages, covered)]
        offsets = self._offsets.tolist()
        cells = Cells._make([*views[:4], self.window, self.moves or 0, offsets])
        perform(KeyOperations._make(array.tolist() for array in asked), cells, *views[4:])
        self._take_numbers(numbers)

    def _run(self, codes: Any, keys: Words, windows: Any, *answers: Any) -> None:
        """Perform operations in the extension: `codes`, or one code for all."""
        numbers, secret = self._vector(), compilation.halves([self._secret])
        if not isinstance(codes, Operation):
            codes = np.ascontiguousarray(codes)
        words = np.ascontiguousarray(keys)
        self._engine.perform(numbers, secret, codes, words, windows, *answers)
        self._take_numbers(numbers)

    def _vector(self) -> Ages:
        """Numbers of the state for the loops, and three counts of single keys."""
        state = self.insertions, self.lost, self.youngest_lost, self.stash_peak
        return np.array([*state, 0, 0, 0], np.int64)

    def _take_numbers(self, numbers: Ages) -> list[int]:
        """Take the numbers of the state back; return the counts of single keys."""
        self._all_lost -= self.lost
        state: list[int] = numbers.tolist()
        self.insertions, self.lost, self.youngest_lost, self.stash_peak = state[:4]
        self._all_lost += self.lost
        return state[4:]

    def _lend(self) -> None:
        self._engine.arm(self._vector(), compilation.halves([self._secret]))

    def _regain(self) -> list[int]:
        numbers = np.zeros(7, np.int64)
        self._engine.disarm(numbers)
        return self._take_numbers(numbers)

    def _digests(self, keys: Words) -> tuple[Ages, Ages, Ages]:
        """Return digests, their remainders, and the cell in each column, shape (n, columns)."""
        states = self._hash.state(keys, self._secret)
        low, rest = (part.astype(np.uint64) for part in self._hash.indices(states, 0))
        places = np.empty((len(keys), self.columns), np.int64)
        for column, tables in enumerate(self._tables):
            row = low.copy()
            for byte, table in enumerate(tables):
                row ^= table[(rest >> np.uint64(8 * byte) & np.uint64(0xFF)).astype(np.intp)]
            places[:, column] = row + np.uint64(column * self.rows)
        digests = rest << np.uint64(self.spec.row_bits) | low
        return digests.astype(np.int64), rest.astype(np.int64), places
