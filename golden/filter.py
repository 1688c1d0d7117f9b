"""The contract that all golden models share: operations, ages, state files, comparison."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any, ClassVar, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import compilation
from .atomic import Cached, taking_single_keys
from .convenience import Options
from .hash.keys import Key, Keys, Nulls, OneOrAll, one_or_all, skipping_nulls
from .operations import Operation, OperationBit
from .parameters import require_count as require_count
from .results import Ages, Results
from .saved import Saved
from .sizing import check_rate
from .spec.base import Specification
from .times import Times

Words = NDArray[np.uint64]
"""Checked keys, shape (n, words)."""

Answers = NDArray[np.bool_]
"""Whether each key is reported, shape (n,)."""

Windows = ArrayLike | None
"""Window of all queries, or of each query, shape (n,); None for the filter's window."""


class Filter(Saved):
    """Base of all models.

    Keys have shape (n,) for `key_bits` of 64 or fewer, else (n, words), and
    take effect one after another. The window of a `CountedFilter` is a number of insertions. The
    window of a `TimedFilter` is a span of time, and its operations also take timestamps. The
    operations of this class check and count their arguments, and a subclass performs them. A
    subclass implements either `_perform` or the steps `_insert`, `_query` and `_check_and_insert`.
    A filter that knows ages also implements `_age` and `_age_and_insert`. `_empty` clears the
    memory.

    The keyword arguments of a constructor are the fields of the class's
    specification. They become attributes of the same names, unless a subclass documents something
    else. Each class documents its own parameters; all classes have `seed` and `key_bits`.

    Attributes
    ----------
    specification : type
        Class of the specifications from which the class is built.
    supported : tuple of Operation
        Operations that the filter has.
    age_unit : str
        Unit of ages. A filter without ages returns 0, the least possible age, for every key that it
        reports.
    seed : int
        Selects the hash functions; 0 by default.
    key_bits : int
        Width of a key; 64 by default.
    operations, hits : int
        Operations since construction, and the keys that they reported. Calls that change nothing,
        such as `query` and `age`, are not counted.

    Raises
    ------
    TypeError
        If a parameter is missing, unknown, or of the wrong type.
    SpecificationError
        If a parameter is out of its range, or breaks another rule.
    """

    age_unit: ClassVar[str] = "insertions"
    supported: ClassVar[tuple[Operation, ...]] = (
        Operation.NONE,
        Operation.QUERY,
        Operation.INSERT,
        Operation.CHECK_AND_INSERT,
        Operation.CLEAR,
    )

    # Public operations, for the type of a filter of unknown kind, as `load` returns it.
    insert: Callable[..., None]
    add: Callable[..., None]
    update: Callable[..., None]
    query: OneOrAll[..., bool, Answers]
    check_and_insert: OneOrAll[..., bool, Answers]
    age: OneOrAll[..., int, Ages]

    def __new__(cls, *arguments: Any, **_: Any) -> Self:
        """Refuse positional numbers, which the constructors of other libraries accept."""
        if arguments and not isinstance(arguments[0], Specification | None):
            raise TypeError(
                f"{cls.__name__}: must have parameters by name, not {arguments[0]!r}{cls._hint()}"
            )
        compilation.warn_if_missing()
        self = super().__new__(cls)
        self._numbers = np.zeros(cls._NUMBERS, np.int64)
        return self

    def __init__(self, **parameters: Any) -> None:
        self._take(parameters)
        self._prepare()
        self._empty()

    # Operations

    def perform(
        self,
        operations: ArrayLike,
        keys: Keys,
        times: ArrayLike | None = None,
        windows: ArrayLike | None = None,
    ) -> Results:
        """Perform a mixed sequence of operations, one after another.

        Parameters
        ----------
        operations : array_like of int, shape (n,)
            Values of `Operation`.
        keys : array_like of int
            One key per operation, also for operations that ignore the key; as for `insert`.
        times : array_like of int, shape (n,)
            Time of each operation, if the window is a span of time. Times never decrease.
        windows : array_like of int, shape (n,) or (), optional
            Window of each query, for filters that accept a window; by default the filter's window.
            For filters with a table of thresholds, the class of each query; by default 0.

        Raises
        ------
        TypeError, ValueError
            If the operations are not integers, the lengths differ, a value is not an `Operation`
            that the filter has, or times or windows are not as required. Nothing is performed
            then.
        """
        words = self._words(keys)
        moments = self._checked_times(times, len(words))
        codes = self._checked_operations(operations, len(words))
        asked = self._checked_windows(windows, len(words))
        results = self._perform(codes, words, moments, asked)
        inserts = (codes & (OperationBit.INSERT | OperationBit.ALONE)) == OperationBit.INSERT
        self._note_events(len(codes), int(np.count_nonzero(inserts)), results.seen)
        return results

    def look_up(
        self, keys: Keys, times: ArrayLike | None = None, windows: ArrayLike | None = None
    ) -> Results:
        """Return the results of queries; changes nothing, counters included.

        Parameters, errors: as `perform`.
        """
        words = self._words(keys)
        moments = self._checked_times(times, len(words))
        asked = self._checked_windows(windows, len(words))
        return self._performed(Operation.QUERY, words, moments, asked)

    def differing_cells(self, memory: NDArray[Any]) -> int:
        """Return the number of bits or cells in which the hardware's `memory` differs.

        The argument has the shape of the model's `memory`.
        """
        return int((memory != self.memory).sum())

    def clear(self) -> None:
        """Forget all keys, as the operation CLEAR does. A waiting secret takes effect.

        The `counters` keep their values.
        """
        self._empty()
        self._note_events(1)

    def estimated_false_positive_rate(self, *now: Any, **window: Any) -> float:
        """Probability that a fresh key is reported; by default `fpr`."""
        return self.fpr or 0.0

    def fill_ratios(self, *now: Any, **window: Any) -> NDArray[np.float64]:
        """Used share of each part of the memory, shape (parts,); by default one part."""
        return np.array([self.fill])

    @property
    def counters(self) -> dict[str, int]:
        """Events since construction by name, as the hardware of the family counts them."""
        return {
            "operations": self.operations,
            "insertions": self._inserted_keys,
            "hits": self.hits,
            **self._further_counters(),
        }

    def _further_counters(self) -> dict[str, int]:
        """Return the counters that only this family has."""
        return {}

    def _note_events(
        self, operations: int, insertions: int = 0, seen: Answers | None = None
    ) -> None:
        """Count the performed operations, and the keys that they reported."""
        hits = 0 if seen is None else int(np.count_nonzero(seen))
        self._numbers[:3] += operations, insertions, hits

    def _checked_times(self, times: ArrayLike | None, count: int) -> Times | None:
        """Return the times of operations; None if the window is not a span of time."""
        if times is not None:
            raise ValueError(f"times: must not be given for {type(self).__name__}")
        return None

    def _checked_windows(self, windows: ArrayLike | None, count: int) -> "NDArray[np.int64] | None":
        """Return the windows of queries; None if the filter answers for one window only."""
        if windows is not None:
            raise ValueError(
                f"windows: must not be given for {type(self).__name__}, which has one window"
            )
        return None

    # Keys

    def key_words(self, keys: Keys) -> Words:
        """Return the words of keys in this filter; text becomes its digest.

        Parameters, errors: as `insert`. The result is an ndarray of uint64, shape (n,) for
        `key_bits` of 64 or fewer, else (n, words). The filter takes it in place of the keys.
        """
        words = self._words(keys)
        return words[:, 0] if words.shape[1] == 1 else words

    # Steps

    @abstractmethod
    def _empty(self) -> None:
        """Clear the memory, and put the waiting secret into effect."""

    def _perform(
        self,
        codes: NDArray[np.uint8],
        keys: Words,
        times: Times | None,
        windows: "NDArray[np.int64] | None",
    ) -> Results:
        """Perform checked operations: here one run of equal operations after another."""
        age = np.full(len(codes), -1, np.int64)
        for part in _stretches(codes):
            cut = [operand[part] for operand in (keys, times) if operand is not None]
            match codes[part.start]:
                case Operation.QUERY:
                    age[part] = self._age(*cut)
                case Operation.INSERT:
                    self._insert(*cut)
                case Operation.CHECK_AND_INSERT:
                    age[part] = self._age_and_insert(*cut)
                case Operation.CLEAR:
                    self._empty()
        return Results.of(age >= 0, age, time=times)

    def _performed(
        self, operation: Operation, keys: Words, times: Times | None = None, windows: Any = None
    ) -> Results:
        """Perform the same operation on all keys."""
        return self._perform(np.full(len(keys), operation, np.uint8), keys, times, windows)

    def _one_operation(self, operation: Operation, keys: Words, *operands: Any) -> Answers:
        """Perform the same operation on all keys, and return whether each is reported."""
        return self._performed(operation, keys, *operands).seen

    def _insert(self, *operands: Any, **options: Any) -> Any:
        """Insert checked keys, with their timestamps if the filter is timed."""
        self._one_operation(Operation.INSERT, *operands)

    def _query(self, *operands: Any, **options: Any) -> Answers:
        """Answer for checked keys; changes nothing."""
        return self._one_operation(Operation.QUERY, *operands)

    def _check_and_insert(self, *operands: Any, **options: Any) -> Answers:
        """Answer for each checked key, then insert it."""
        return self._one_operation(Operation.CHECK_AND_INSERT, *operands)

    def _checked_and_inserted(self, keys: Words, *operands: Any, refresh: bool = True) -> Answers:
        """Check and insert keys, and count them; without `refresh`, insert only new keys."""
        step = self._check_and_insert if refresh else self._check_and_insert_new
        seen = step(keys, *operands)
        hits = int(np.count_nonzero(seen))
        self._note_events(len(keys), len(keys) if refresh else len(keys) - hits, seen)
        return seen

    def _check_and_insert_new(self, keys: Words, *operands: Any) -> Answers:
        """Answer for each checked key, then insert it unless it is reported."""
        seen = np.empty(len(keys), np.bool_)
        if self._engine is not None and all(one is None for one in operands):
            self._engine.check_and_insert_new(np.ascontiguousarray(keys), seen)
            return seen
        for at in range(len(keys)):
            one = slice(at, at + 1)
            cut = [each[one] if isinstance(each, np.ndarray) else each for each in operands]
            seen[at] = self._query(keys[one], *cut)[0]
            if not seen[at]:
                self._check_and_insert(keys[one], *cut)
        return seen

    def _age(self, *operands: Any, **options: Any) -> Ages:
        """Return ages of checked keys; changes nothing."""
        return _least_ages(self._query(*operands))

    def _age_and_insert(self, *operands: Any, **options: Any) -> Ages:
        """Return the age of each checked key, then insert it."""
        return _least_ages(self._check_and_insert(*operands))

    def _checked_operations(self, operations: ArrayLike, count: int) -> NDArray[np.uint8]:
        codes = np.asarray(operations)
        if codes.shape != (count,):
            raise ValueError(
                f"operations: must have shape ({count},) like the keys, not {codes.shape}"
            )
        if len(codes) and codes.dtype.kind not in "ui":
            raise TypeError(f"operations: must be integers, not {codes.dtype}")
        checked = codes.astype(np.uint8)
        possible = self._possible[checked] & (checked == codes)
        if possible.all():
            return checked
        known = np.isin(codes, list(Operation))
        if not known.all():
            raise ValueError(f"operations: must be values of Operation, not {codes[~known][0]}")
        name = Operation(int(codes[~possible][0])).name
        raise ValueError(f"operations: must not be {name}, which {type(self).__name__} lacks")

    @Cached
    def _possible(self) -> NDArray[np.bool_]:
        """Whether each code of 8 bits is an operation of the filter; faster than `np.isin`."""
        possible = np.zeros(256, np.bool_)
        possible[list(self.supported)] = True
        return possible


@taking_single_keys
class CountedFilter(Filter):
    """A filter whose window is counted in insertions."""

    window: int | None = None

    def _window_text(self) -> str:
        return "no window" if self.window is None else f"window of {self.window:,} insertions"

    @classmethod
    def for_window(cls, window: int, fpr: float = 0.01, **options: Unpack[Options]) -> Self:
        """Build a filter sized for a window and a false-positive rate.

        Let d be the number of insertions after a key's own. Filters of every family report the key
        for all d < W, where W is the window: the key is among the last W insertions. Rings and
        double-buffered filters (APBF, GEBF, DoubleBuffering, ...) also report it for d = W.

        All families are sized by one rule: the expected rate of fresh keys is at most `fpr`,
        averaged over the insertions of a generation or block, while the window is full of
        distinct keys. The attribute `fpr` is this average. It is below the given rate if a size is
        rounded to a power of two or to a whole number of hash functions.

        Parameters
        ----------
        window : int
            W, in insertions; the class must guarantee a window.
        fpr : float
            Share of fresh keys that may be reported by chance.
        **options
            Other parameters of the constructor: `seed`, `key_bits`, ...

        Raises
        ------
        TypeError, SpecificationError
            If a parameter is not a number, or out of its range.
        """
        require_count("window", window, most=1 << 40)
        return cls._for_keys(int(window), check_rate(fpr), {}, options)

    def checked_window(self, window: int | None) -> int:
        """Return the `window` of a query as a number; None selects the filter's window.

        Errors: as `require_count`, if it is less than 1 or more than the filter's window.
        """
        most = self.window or 0
        if window is None:
            return most
        require_count("window", window, most=most)
        return int(window)

    def _ask_now(self, key: Key) -> Any:
        return self.query(key)

    @skipping_nulls
    def insert(self, keys: Keys, *, nulls: Nulls = "refuse") -> None:
        """Insert keys one after another.

        Parameters
        ----------
        keys : int, str, bytes, iterable or array of these
            A single key, or n keys. Integers of shape (n, words) are the words
            of wide keys, the least significant first; see `hash.keys`. A tuple is one key.
        nulls : {"refuse", "skip"}
            With "skip", a null is not inserted, nor a key of several columns with a null. Methods
            that answer give False or -1 for it.

        Raises
        ------
        TypeError, ValueError
            If the keys are neither integers nor text nor bytes, one is null, the shape is
            wrong, or a key does not fit into `key_bits`.
        """
        words = self._words(keys)
        self._insert(words)
        self._note_events(len(words), len(words))

    def add(self, key: Key) -> None:
        """Insert a single key, as `set.add`; TypeError for several keys, else as `insert`."""
        self.insert(self._only_one("add", key))

    def update(self, *several: Iterable[Key] | ArrayLike) -> None:
        """Insert all keys of iterables or arrays, as `set.update`; errors as `insert`.

        Raises
        ------
        TypeError
            If a single key is given, text included. The keys before it are then inserted.
        """
        for keys in several:
            self.insert(self._no_single("update", keys))

    @one_or_all
    def query(self, keys: Keys, *, nulls: Nulls = "refuse") -> Answers:
        """Report whether each key is in the filter; changes nothing, counters included.

        Parameters, errors: as `insert`. The result is an ndarray of bool, shape (n,); a
        bool for a single key.
        """
        return self._query(self._words(keys))

    @one_or_all
    def check_and_insert(
        self, keys: Keys, *, refresh: bool = True, nulls: Nulls = "refuse"
    ) -> Answers:
        """Query and insert keys one after another; each answer precedes its insertion.

        A key passes if it is not reported. With either policy, two passes of a key are at least a
        window of insertions apart.

        - With `refresh`, every key is inserted. A key that keeps repeating within the window is
          always reported.
        - Without `refresh`, a reported key is not inserted, and does not count in any window. The
          window of a key begins when the key passes. A key that keeps repeating passes again after
          the window, and at the latest after the window and the filter's slack. A false positive is
          not inserted, so the next copy of its key may pass.

        Parameters, errors, result: as `query`, shape (n,).
        """
        return self._checked_and_inserted(self._words(keys), refresh=refresh)

    @one_or_all
    def age(self, keys: Keys, *, nulls: Nulls = "refuse") -> Ages:
        """Return the least possible age of each key; changes nothing.

        Ages are in units of `age_unit`: 0 for the last insertion or the current generation, -1 for
        a key that is not reported.

        Parameters, errors: as `insert`. The result is an ndarray of int64, shape (n,).
        """
        return self._age(self._words(keys))


@taking_single_keys
class AnyWindowFilter(CountedFilter):
    """A filter whose queries may each have a window of their own, up to the filter's window."""

    @one_or_all
    def query(self, keys: Keys, window: Windows = None, *, nulls: Nulls = "refuse") -> Answers:
        """Report whether each key is among the last `window` insertions; changes nothing.

        The `window` is one number, or one for each key with shape (n,), from 1 to the filter's
        window, which is the default. If the filter has blocks, a key is reported until its whole
        block has left the window; `PartitionedTimingFilter` first rounds the window up to a
        multiple of its `block`.

        Parameters, errors: as `insert` and `checked_window`. Result: ndarray of bool, shape (n,).
        """
        words = self._words(keys)
        return self._query(words, self._asked_windows(window, len(words)))

    @one_or_all
    def check_and_insert(
        self,
        keys: Keys,
        window: Windows = None,
        *,
        refresh: bool = True,
        nulls: Nulls = "refuse",
    ) -> Answers:
        """Query and insert keys one after another; each answer precedes its insertion.

        Parameters, errors, result: as `query`, shape (n,); `refresh` as for `CountedFilter`.
        """
        words = self._words(keys)
        asked = self._asked_windows(window, len(words))
        return self._checked_and_inserted(words, asked, refresh=refresh)

    def _asked_windows(self, windows: Windows, count: int) -> "NDArray[np.int64] | None":
        """Return the windows of queries, shape (count,); None for the filter's window."""
        return None if windows is None else self._each_window(windows, count)

    def _each_window(self, windows: Windows, count: int) -> NDArray[np.int64]:
        if windows is None or np.ndim(windows) == 0:
            asked: Any = windows
            return np.full(count, self.checked_window(asked))
        array = np.asarray(windows)
        if array.shape != (count,):
            raise ValueError(f"window: must have shape ({count},), one per key, not {array.shape}")
        for value in (array.min(), array.max()) if count else ():
            require_count("window", value, most=self.window)
        return array.astype(np.int64)


def _stretches(codes: NDArray[np.uint8]) -> Iterator[slice]:
    """Cut operations where they change."""
    cuts = np.flatnonzero(codes[1:] != codes[:-1]) + 1
    bounds = [0, *cuts.tolist(), len(codes)]
    for start, stop in pairwise(bounds):
        if start < stop:
            yield slice(start, stop)


def _least_ages(seen: Answers) -> Ages:
    return np.where(seen, 0, -1)
