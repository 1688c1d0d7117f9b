"""Time-decaying cuckoo dictionary: a timestamp, a position and a signature for each key.

Source: Near-optimal Approximate Membership Query over Time-decaying Windows, section IV.

There are two hash tables of equal size. Each position holds the timestamp of a key, the position of
the key in the other table, and a signature. So an entry can move to the other table although the
key itself is not stored. A key that does not fit is stored whole in a list.

The paper leaves some choices open. Here, a key with two free positions goes to Table-0, and an
empty position matches no key. A xorshift generator selects the table in which a relocation starts.
If a key of the list is inserted again, its older entry, which no query can reach, is removed.
"""

import math
from array import array
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from sys import getsizeof
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lately.golden.errors import SpecificationError, require_count
from lately.golden.filter import (
    Answers,
    Bounded,
    CountedFilter,
    State,
    Words,
    check_and_insert_in_window,
    query_in_window,
)
from lately.golden.hash.functions import ConstantStream, KeyHash
from lately.golden.hash.keys import Keys, scalar_or_array, sortable
from lately.golden.results import Ages
from lately.golden.sampling import chunks
from lately.golden.sizing import bloom_rate, check_rate
from lately.golden.spec.base import Specification, optional, required


@dataclass(frozen=True, kw_only=True)
class CuckooSpec(Specification, family="cuckoo"):
    window: int = required()  # n, the largest window
    signature_bits: int = optional(0, low=0, high=32)
    positions: int = optional(high=1 << 30)  # per table; the paper's 2 n by default
    # Maximum number of entries that an insertion moves, O(log n). Default: 3 times the bits of
    # `window`.
    moves: int = optional()


_CHUNK = 1 << 15
_WORD = (1 << 64) - 1

Name = int | tuple[int, ...]  # Key of the list: one word, or a tuple of words.
MAX_POSITIONS = 1 << 30
MAX_SIGNATURE_BITS = 32


def cuckoo_signature_bits(*, positions: int, error_rate: float) -> int:
    """Return the number of signature bits for an error rate epsilon (Theorem 1).

    It is max{0, log(1 / epsilon) - log(positions) + 1}, rounded up.
    """
    require_count("positions", positions, high=MAX_POSITIONS)
    check_rate(error_rate, "error_rate")
    for bits in range(MAX_SIGNATURE_BITS + 1):
        if cuckoo_error_bound(positions=positions, signature_bits=bits) <= error_rate:
            return bits
    bound = cuckoo_error_bound(positions=positions, signature_bits=MAX_SIGNATURE_BITS)
    raise SpecificationError(
        f"error_rate: must be at least {bound:.3g} with {positions} positions, not {error_rate!r}"
    )


def cuckoo_error_bound(*, positions: int, signature_bits: int) -> float:
    """Return an upper bound on the false-positive rate that holds at any load (Theorem 1).

    In each of the two tables, a fresh key matches one of ``positions * 2**signature_bits`` pairs.
    """
    require_count("positions", positions, high=MAX_POSITIONS)
    require_count("signature_bits", signature_bits, low=0, high=MAX_SIGNATURE_BITS)
    return min(1.0, 2 / (positions << signature_bits))


def time_decaying_space_bound(*, window: int, universe: int, error_rate: float) -> float:
    """Return a lower bound on the memory of any structure, in bits (Theorem 3).

    The bound is (n - epsilon m) log2(n - epsilon m), where the window contains n of m possible
    keys. It is 0 if n - epsilon m is below 1.
    """
    require_count("window", window)
    require_count("universe", universe)
    check_rate(error_rate, "error_rate")
    certain = window - error_rate * universe
    return certain * math.log2(certain) if certain > 1 else 0.0


class CuckooDictionary(CountedFilter):
    """Cuckoo dictionary of timestamps, positions and signatures (section IV).

    A query for a window of w, at most `window`, reports a key for all d < w, where d is the number
    of insertions after its own. It reports any other key with a probability of at most
    `error_bound` (Theorem 1), at any load, because keys that do not fit are stored whole in a list.
    A key that is inserted again gets a new timestamp.
    """

    specification = CuckooSpec
    query, check_and_insert = query_in_window, check_and_insert_in_window
    _uncompared = ("moved", "overflow_peak")
    _counts: ClassVar = {"insertions": None, "moved": None, "overflow_peak": None}

    window: int
    signature_bits: int
    positions: int
    moves: int
    insertions: int
    moved: int  # entries moved to the other table so far, by successful insertions
    overflow_peak: int  # highest number of keys in the list so far
    _hash: KeyHash

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        bits = math.ceil(math.log2(1 / (4 * keys * fpr)))
        return {"window": keys, "signature_bits": max(0, bits)}

    @property
    def fpr(self) -> float:
        # A fresh key matches both positions and the signature of a stored key.
        return bloom_rate(self.window, self.positions**2 << self.signature_bits, 1)

    def _prepare(self) -> None:
        if self.positions is None:
            self.positions = 2 * self.window
            require_count("positions", self.positions, high=MAX_POSITIONS)
        if self.moves is None:
            self.moves = 3 * self.window.bit_length()
        self._make_hash([self.positions, self.positions, 1 << self.signature_bits])

    @classmethod
    def for_error_rate(
        cls, *, window: int, error_rate: float, positions: int | None = None, **options: Any
    ) -> Self:
        """Build a dictionary whose signatures are just long enough for an error rate."""
        require_count("window", window)
        positions = 2 * window if positions is None else positions
        bits = cuckoo_signature_bits(positions=positions, error_rate=error_rate)
        return cls(window=window, signature_bits=bits, positions=positions, **options)

    @scalar_or_array
    def last_update(self, keys: Keys) -> Ages:
        """Return the smallest window in which each key is reported, shape (n,).

        The result is -1 for a key that is not reported in any window.
        """
        return self._last_update(self._words(keys))

    @property
    def error_bound(self) -> float:
        return cuckoo_error_bound(positions=self.positions, signature_bits=self.signature_bits)

    def expected_false_positive_rate(self, window: int | None = None) -> float:
        """Return the probability that a fresh key is reported now.

        A fresh key matches an entry with probability 1 / (positions**2 2**signature_bits). It never
        matches two entries, because no two live entries share both positions and the signature.
        """
        window = self.checked_window(window)
        times = self._times_view
        live = np.count_nonzero((times > 0) & (self._distances(times) <= window))
        return float(live) / (self.positions**2 << self.signature_bits)

    def _query(self, keys: Words, windows: Ages | None = None) -> Answers:
        ages = self._last_update(keys)
        return np.asarray((ages > 0) & (ages <= (self.window if windows is None else windows)))

    def _check_and_insert(self, keys: Words, windows: Ages | None = None) -> Answers:
        return np.asarray(self._insert(keys) <= (self.window if windows is None else windows))

    def _age(self, keys: Words) -> Ages:
        ages = self._last_update(keys)
        return np.where(ages > 0, ages - 1, -1)

    def _age_and_insert(self, keys: Words) -> Ages:
        ages = self._insert(keys)
        return np.where(ages <= self.window, ages - 1, -1)

    def _last_update(self, keys: Words) -> Ages:
        return _by_chunks(keys, self._ages_of)

    def _addresses(self, states: NDArray[np.uint64]) -> tuple[Ages, Ages, Ages]:
        first, second, signature = self._hash.indices(states, 0)
        return first, second + self.positions, signature * (2 * self.positions)

    def _ages_of(self, keys: Words) -> Ages:
        first, second, signature = self._addresses(self._hash.state(keys))
        absent = self.window + 1
        ages = np.full(len(keys), absent, np.int64)
        for at, other in (first, second), (second, first):
            times = self._times_view[at]
            known = (times > 0) & (self._codes_view[at] == signature + other)
            np.minimum(ages, self._distances(times), out=ages, where=known)
        if self._overflow:
            missing = np.flatnonzero(ages == absent)
            ages[missing] = self._overflow_ages(keys[missing])
        ages[ages > self.window] = -1
        return ages

    def _overflow_ages(self, keys: Words) -> Ages:
        listed, times = self.overflow_entries
        names, asked = sortable(listed), sortable(keys)
        order = np.argsort(names)
        names = names[order]
        index = np.minimum(np.searchsorted(names, asked), len(names) - 1)
        distances = self._distances(times)[order][index]
        return np.where(names[index] == asked, distances, self.window + 1)

    def _insert(self, keys: Words) -> Ages:
        """Insert keys; return their previous ages, which exceed `window` for absent keys."""
        return _by_chunks(keys, self._insert_chunk)

    def _insert_chunk(self, keys: Words) -> list[int]:
        # One long loop over local names, because calls would halve its speed.
        times, codes, overflow = self._times, self._codes, self._overflow
        n, span, positions, now = self.window, 2 * self.window, self.positions, self._now
        width = -(-positions // n)
        addresses = (each.tolist() for each in self._addresses(self._hash.state(keys)))
        ages = []
        for name, first, second, signature in zip(_names_of(keys), *addresses, strict=True):
            now = now % span + 1
            listed = overflow.pop(name, 0) if overflow else 0
            time, other_time = times[first], times[second]
            if time and codes[first] == signature + second:
                age = (now - time) % span
                times[first] = now
            elif other_time and codes[second] == signature + first:
                age = (now - other_time) % span
                times[second] = now
            else:
                age = span
                if not time or (now - time) % span >= n:
                    times[first], codes[first] = now, signature + second
                elif not other_time or (now - other_time) % span >= n:
                    times[second], codes[second] = now, signature + first
                elif not self._relocate(now, first, second, signature):
                    overflow[name] = now
            ages.append((now - listed) % span if listed and age > n else age)
            low = now % n * width
            for at in range(low, min(low + width, positions)):
                if times[at] and (now - times[at]) % span >= n:
                    times[at] = 0
                if times[at + positions] and (now - times[at + positions]) % span >= n:
                    times[at + positions] = 0
            if overflow:
                oldest = next(iter(overflow))
                if (now - overflow[oldest]) % span >= n:
                    del overflow[oldest]
                elif len(overflow) > self.overflow_peak:
                    self.overflow_peak = len(overflow)
        self.insertions += len(ages)
        return ages

    def _relocate(self, now: int, first: int, second: int, signature: int) -> bool:
        times, codes = self._times, self._codes
        n, span, addresses = self.window, 2 * self.window, 2 * self.positions
        at, other = (second, first) if self._toss() else (first, second)
        time, code = now, signature + other
        before = []
        for moved in range(1, self.moves + 1):
            before.append((at, times[at], codes[at]))
            times[at], time = time, times[at]
            codes[at], code = code, codes[at]
            # The moved entry keeps its signature; its other address is the one it leaves.
            other = code % addresses
            at, code = other, code - other + at
            if not times[at] or (now - times[at]) % span >= n:
                times[at], codes[at] = time, code
                self.moved += moved
                return True
        for at, time, code in reversed(before):
            times[at], codes[at] = time, code
        return False

    def _toss(self) -> int:
        self._coin ^= self._coin << 13 & _WORD
        self._coin ^= self._coin >> 7
        self._coin ^= self._coin << 17 & _WORD
        return self._coin & 1

    # Tables and list (section IV.B)

    def _empty(self) -> None:
        # Both tables, one after the other. An entry is a timestamp and a code: signature * 2
        # positions + address of its position in the other table.
        zeros = bytes(2 * self.positions * 8)
        self._times, self._codes = array("q", zeros), array("q", zeros)
        self._overflow: OrderedDict[Name, int] = OrderedDict()
        self._coin = ConstantStream(label="cuckoo", seed=self.seed).word() | 1
        self.insertions = self.moved = self.overflow_peak = 0

    @property
    def entry_bits(self) -> int:
        timestamp = (2 * self.window).bit_length()
        return timestamp + (self.positions - 1).bit_length() + self.signature_bits

    @property
    def storage_bits(self) -> int:
        """Memory of both tables in bits, with entries of full length; the list is not counted."""
        return 2 * self.positions * self.entry_bits

    @property
    def nbytes(self) -> int:
        return sum(map(getsizeof, (self._times, self._codes, self._overflow)))

    @property
    def variable_length_bits(self) -> int:
        """Memory, in bits, that both tables would now need as arrays of variable length.

        Each position takes one bit, and each entry takes its full length in addition.
        """
        # Counted as in the paper. Such an array also has constant overhead, which the paper omits.
        return self.occupied * self.entry_bits + 2 * self.positions

    @property
    def listed_bits(self) -> int:
        return self.key_bits + (2 * self.window).bit_length()

    @property
    def overflow_bits(self) -> int:
        return len(self._overflow) * self.listed_bits

    @property
    def overflow(self) -> int:
        return len(self._overflow)

    @property
    def overflow_entries(self) -> tuple[NDArray[np.uint64], Ages]:
        """Keys and timestamps of the list, oldest first.

        The keys have shape (overflow, words), and the timestamps have shape (overflow,).
        """
        words = -(-self.key_bits // 64)
        keys = np.array(list(self._overflow), np.uint64).reshape(-1, words)
        return keys, np.array(list(self._overflow.values()), np.int64)

    @property
    def occupied(self) -> int:
        return int(np.count_nonzero(self._times_view))

    @property
    def memory(self) -> Ages:
        """Copy of `timestamps`, `other_positions` and `signatures`, shape (3, 2, positions)."""
        return np.stack([self.timestamps, self.other_positions, self.signatures])

    @property
    def timestamps(self) -> Ages:
        return self._times_view.reshape(2, -1).copy()

    @property
    def other_positions(self) -> Ages:
        """Position of each entry in the other table, the paper's P, shape (2, positions).

        The value is 0 where a position is empty.
        """
        others = self._codes_view % self.positions * (self._times_view > 0)
        return others.reshape(2, -1)

    @property
    def signatures(self) -> Ages:
        signatures = self._codes_view // (2 * self.positions) * (self._times_view > 0)
        return signatures.reshape(2, -1)

    @property
    def _now(self) -> int:
        return self.insertions % (2 * self.window) + 1

    @property
    def _times_view(self) -> Ages:
        return np.frombuffer(self._times, np.int64)

    @property
    def _codes_view(self) -> Ages:
        return np.frombuffer(self._codes, np.int64)

    def _distances(self, times: Ages) -> Ages:
        """Return how far each timestamp is behind the current one, plus 1 (equation 4)."""
        return (self._now - times) % (2 * self.window) + 1

    # State files

    def _arrays(self) -> Bounded:
        return {
            "timestamps": (self.timestamps, 2 * self.window),
            "other_positions": (self.other_positions, self.positions - 1),
            "signatures": (self.signatures, (1 << self.signature_bits) - 1),
        }

    def _hold(self, arrays: dict[str, NDArray[Any]]) -> None:
        others = arrays["other_positions"].copy()
        others[0] += self.positions
        codes = arrays["signatures"] * (2 * self.positions) + others
        self._times = array("q", arrays["timestamps"].tobytes())
        self._codes = array("q", codes.tobytes())

    def _state(self) -> State:
        numbers, arrays = super()._state()
        keys, times = self.overflow_entries
        listed = {"overflow_keys": keys, "overflow_timestamps": times}
        return numbers | {"coin": self._coin}, arrays | listed

    def _restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        super()._restore(numbers, arrays)
        self._coin = numbers["coin"]
        if type(self._coin) is not int or not 0 < self._coin <= _WORD:
            raise ValueError(f"coin: must be 1 to 2**64 - 1, not {self._coin!r}")
        keys, times = arrays["overflow_keys"], arrays["overflow_timestamps"]
        if keys.dtype != np.uint64 or keys.ndim != 2:
            raise ValueError("overflow_keys: must be uint64 of shape (n, words)")
        names = _names_of(self._words(keys))
        if times.dtype != np.int64 or times.shape != (len(names),):
            raise ValueError(
                f"overflow_timestamps: must be int64 of shape ({len(names)},), "
                f"not {times.dtype}{times.shape}"
            )
        distances = self._distances(times)
        lives = (times > 0) & (times <= 2 * self.window) & (distances <= self.window)
        if not lives.all() or (np.diff(distances) >= 0).any():
            raise ValueError("overflow_timestamps: must be in the order of the insertions")
        self._overflow = OrderedDict(zip(names, times.tolist(), strict=True))
        if len(self._overflow) != len(names):
            raise ValueError("overflow_keys: a key occurs twice")
        if self.overflow_peak < len(names):
            raise ValueError(
                f"overflow_peak: must be at least {len(names)}, not {self.overflow_peak}"
            )


def _by_chunks(keys: Words, ages_of: Callable[[Words], ArrayLike]) -> Ages:
    ages = np.empty(len(keys), np.int64)
    for part in chunks(len(keys), _CHUNK):
        ages[part] = ages_of(keys[part])
    return ages


def _names_of(keys: NDArray[np.uint64]) -> list[Any]:
    return keys[:, 0].tolist() if keys.shape[1] == 1 else [tuple(key) for key in keys.tolist()]
