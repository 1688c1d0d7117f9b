"""Dictionary of digests with an exact window, whose entries move only if they are asked to.

It has the timestamps and the sharp window of the time-decaying cuckoo dictionary
(Near-optimal Approximate Membership Query over Time-decaying Windows, section
IV), and its moves only as an option. A key becomes a digest of
D bits, in each column a cell is selected by some of them, and the rest is held
there with a timestamp: row and rest together are the digest. An insertion
writes the cell that holds the digest already, else the first free one in the
order of the columns, else a place in a small stash, which holds whole digests.
With moves it takes a cell of the middle column before that, whose entry takes
one of the next column, and so on in a ring until one is free.
So the answers are those of a list of digests and the last insertion of each,
whatever the layout, until more digests than stash and cells can hold want
the same cells. Then the oldest entry of the stash is given up, and the
dictionary says for which windows its answers are exact all the same.
"""

import inspect
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import compilation
from ..atomic import taking_single_keys
from ..errors import SpecificationError
from ..filter import Answers, CountedFilter, Words, require_count
from ..hash.functions import KeyHash, offset_tables, offset_terms
from ..hash.keys import Keys, one_or_all
from ..hash.siphash import check_secret
from ..operations import Operation, OperationBit
from ..results import Ages, Results
from ..ring.slices import chunks
from ..spec.dictionary_sizes import WindowDictionarySpec, least_columns, least_digest_bits
from .window_loop import Cells, KeyOperations, perform
from .window_state import DictionaryState

Windows = ArrayLike | None
"""Window of all queries, or one for each, shape (n,); None for that of the dictionary."""

_MOST_COLUMNS = 64
"""Columns that the extension takes."""


@taking_single_keys
class WindowDictionary(DictionaryState):
    """Dictionary of digests: which keys were inserted lately, and how many insertions ago.

    Source: timestamps, and cells that are free when theirs has expired, are those of the
    time-decaying cuckoo dictionary (its section IV.B); that row and rest tell the digest is
    quotienting (Knuth, The Art of Computer Programming, volume 3, section 6.4, exercise 13).

    A query may ask for any window of 1 to `window` insertions. A key among them is
    always reported, with its exact age, while `guaranteed_window` is not less; any
    other key only if one of them has its digest. There is no slack: a key is reported
    for all d < W = `window`, where d is the number of insertions after its own, and no
    longer.

    Keys of one digest are one key: an insertion of either renews both, and removing
    one removes the other. So only keys that were inserted should be removed.

    Parameters
    ----------
    window : int
        n, the largest window, in insertions.
    columns, rows : int
        Columns, and cells of each; the rows are a power of two.
    digest_bits : int
        D, bits of a digest: those that select a row, and 1 to 32 more.
    stash : int
        Places for digests that find no cell.
    moves : int, optional
        Most entries that an insertion moves; they never move if it is not given.
    hash : str
        "h3", or "siphash", which takes a secret.
    secret : int
        Of the hash "siphash", at most 128 bits.

    Attributes
    ----------
    insertions : int
        Since construction or `clear`.
    lost : int
        Entries given up so far, each before it expired.
    stash_peak : int
        Most live entries that were in the stash at a time.
    compiled : bool
        Whether operations run in a compiled loop; nothing else depends on it.

    Raises
    ------
    TypeError
        If a parameter is of the wrong kind.
    ValueError
        If the secret is negative, or has more than 128 bits.
    SpecificationError
        If another parameter breaks a rule, or there is a secret and the hash takes none.
    """

    specification = WindowDictionarySpec
    supported = (*CountedFilter.supported, Operation.REMOVE)
    _uncompared = ("lost", "stash_peak")
    _UNSAVED = ("secret",)
    _counts: ClassVar = {
        "insertions": 1 << 62,
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
        # The two numbers of a cell are in one line of a cache.
        both = np.zeros((self.columns * self.rows, 2), np.int64)
        self._times, self._held = both.T
        self._stash_times = np.zeros(self.stash, np.int64)
        self._stash = np.zeros_like(self._stash_times)
        self.compiled = compilation.wanted() and self.columns <= _MOST_COLUMNS
        if self.compiled:
            core, key_hash = self._hash.compiled()
            arrays = self._offsets, both, self._stash_times, self._stash
            self._engine = core.Dictionary(
                key_hash, self.columns, self.window, self.moves or 0, *arrays
            )

    def _make_hash(self, sizes: Any, functions: int = 1) -> None:
        self._hash = KeyHash(
            key_bits=self.key_bits, sizes=sizes, functions=functions, seed=self.seed, hash=self.hash
        )

    # Operations

    @one_or_all
    def query(self, keys: Keys, window: Windows = None) -> Answers:
        """Ask which keys are among the last `window` insertions; changes nothing.

        The window is one for all keys or one for each, shape (n,), 1 to that of the
        dictionary, which is the default.

        Parameters, errors: as `insert` and `checked_window`. Result: ndarray of bool, shape (n,).
        """
        words = self._words(keys)
        return self._query(words, self._asked_windows(window, len(words)))

    @one_or_all
    def check_and_insert(
        self, keys: Keys, window: Windows = None, *, refresh: bool = True
    ) -> Answers:
        """Query and insert keys one after another; each answer is from before its insertion.

        Parameters, errors, result: as `query`, shape (n,); `refresh` as for `CountedFilter`.
        """
        words = self._words(keys)
        windows = self._asked_windows(window, len(words))
        return self._checked_and_inserted(words, windows, refresh=refresh)

    def remove(self, keys: Keys) -> None:
        """Remove keys; nothing happens for those whose digest is not there.

        Parameters, errors: as `insert`.
        """
        words = self._words(keys)
        self._performed(Operation.REMOVE, words)
        self._note_events(len(words))

    def _empty(self) -> None:
        for array in (self._times, self._held, self._stash_times, self._stash):
            array[:] = 0
        self.insertions = self.lost = self.youngest_lost = self.stash_peak = 0
        self._secret = self._waiting

    def rekey(self, secret: int) -> None:
        """Load a new secret, of at most 128 bits, which counts from the next clear on.

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

    def _insert(self, keys: Words) -> None:
        self._one_operation(Operation.INSERT, keys)

    def _query(self, keys: Words, window: Any = None) -> Answers:
        return self._one_operation(Operation.QUERY, keys, window)

    def _check_and_insert(self, keys: Words, window: Any = None) -> Answers:
        return self._one_operation(Operation.CHECK_AND_INSERT, keys, window)

    def _one_operation(self, operation: Operation, keys: Words, window: Any = None) -> Answers:
        if not self.compiled:
            return self._performed(operation, keys, None, window).seen
        seen = np.empty(len(keys), np.bool_)
        self._run(operation, keys, window, None, None, seen)
        return seen

    def _age(self, keys: Words) -> Ages:
        return self._performed(Operation.QUERY, keys).age

    def _further_counters(self) -> dict[str, int]:
        return {"lost": self._all_lost}

    def _asked_windows(self, windows: Windows, count: int) -> "Ages | None":
        """Return the windows of queries; None for that of the dictionary."""
        return None if windows is None else self._checked_windows(windows, count)

    def _checked_windows(self, windows: Windows, count: int) -> Ages:
        if windows is None or np.ndim(windows) == 0:
            asked: Any = windows
            return np.full(count, self.checked_window(asked))
        array = np.asarray(windows)
        if array.shape != (count,):
            raise ValueError(f"window: must have shape ({count},), one per key, not {array.shape}")
        for value in (array.min(), array.max()) if count else ():
            require_count("window", value, most=self.window)
        return array.astype(np.int64)

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
        """Perform operations, none of which is a CLEAR; write ages and windows that are covered."""
        if self.compiled:
            self._run(codes, keys, windows, ages, covered, None)
            return
        numbers = self._numbers()
        # An interpreter takes elements from these three times as fast as from arrays.
        asked: list[Any] = [codes.astype(np.int64), *self._digests(keys), windows]
        kept: list[Any] = [self._times, self._held, self._stash_times, self._stash]
        views: list[Any] = [memoryview(array) for array in (*kept, numbers, ages, covered)]
        offsets = self._offsets.tolist()
        cells = Cells._make([*views[:4], self.window, self.moves or 0, offsets])
        perform(KeyOperations._make(array.tolist() for array in asked), cells, *views[4:])
        self._take_numbers(numbers)

    def _run(self, codes: Any, keys: Words, windows: Any, *answers: Any) -> None:
        """Perform operations in the extension: `codes`, or one code for all."""
        numbers, secret = self._numbers(), compilation.halves([self._secret])
        if not isinstance(codes, Operation):
            codes = np.ascontiguousarray(codes)
        words = np.ascontiguousarray(keys)
        self._engine.perform(numbers, secret, codes, words, windows, *answers)
        self._take_numbers(numbers)

    def _numbers(self) -> Ages:
        """Numbers of the state as the loops take them, and three counts of single keys."""
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
        self._engine.arm(self._numbers(), compilation.halves([self._secret]))

    def _regain(self) -> list[int]:
        numbers = np.zeros(7, np.int64)
        self._engine.disarm(numbers)
        return self._take_numbers(numbers)

    def _digests(self, keys: Words) -> tuple[Ages, Ages, Ages]:
        """Return digests, the part that cells hold, and the cell in each column, (n, columns)."""
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
