"""Time-decaying cuckoo dictionary: a timestamp, a position and a signature for each key.

Near-optimal Approximate Membership Query over Time-decaying Windows, section
IV. There are two hash tables of equal size. Each position holds the timestamp of a key, its
position in the other table and its signature. So an entry can move to the other table although
the key itself is not stored. A key without a place goes to a list, as a whole.

The paper leaves some choices open. Here, a key with two free positions goes to Table-0, and an
empty position matches no key. A xorshift generator chooses the table in which a relocation starts.
If a key of the list is inserted again, its older entry, which no query can find, is removed.
"""

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lately.golden.filter import Answers, Words, require_count
from lately.golden.hash.keys import Keys, one_or_all, sortable
from lately.golden.results import Ages
from lately.golden.ring.slices import chunks

from .cuckoo_sizes import MOST_POSITIONS, cuckoo_error_bound, cuckoo_rate, cuckoo_signature_bits
from .cuckoo_storage import WORD, CuckooTables, names_of
from .specs import CuckooSpec

_CHUNK = 1 << 15


class CuckooDictionary(CuckooTables):
    """Cuckoo dictionary of timestamps, positions and signatures (section IV).

    A query for a window of w, at most `window`, reports a key for all d < w, where d is the
    number of insertions after its own. It reports any other key with a probability of at most
    `error_bound` (Theorem 1), at any load, because keys that find no place are kept whole in a
    list. A key that is inserted again gets a new timestamp.

    Parameters
    ----------
    window : int
        n, the largest window, in insertions.
    signature_bits : int
        Bits of a signature, 0 to 32. `for_error_rate` chooses them.
    positions : int, optional
        Positions of each of the two tables; the paper's 2 n unless given. Fewer
        than n leave many keys to the list.
    moves : int, optional
        Entries that an insertion may move before it gives up, O(log n); 3 times
        the bits of `window` unless given.

    Attributes
    ----------
    insertions : int
        Since construction or `clear`.
    moved : int
        Entries moved to their other table so far, by insertions that succeeded.
    overflow_peak : int
        Most keys that were in the list at a time.
    """

    specification = CuckooSpec

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        bits = math.ceil(math.log2(1 / (4 * keys * fpr)))
        return {"window": keys, "signature_bits": max(0, bits)}

    @property
    def fpr(self) -> float:
        """Expected false-positive rate of a full window of distinct keys."""
        return cuckoo_rate(self.window, self.positions, self.signature_bits)

    def _prepare(self) -> None:
        if self.positions is None:
            self.positions = 2 * self.window
            require_count("positions", self.positions, most=MOST_POSITIONS)
        if self.moves is None:
            self.moves = 3 * self.window.bit_length()
        self._make_hash([self.positions, self.positions, 1 << self.signature_bits])

    @classmethod
    def for_error_rate(
        cls, *, window: int, error_rate: float, positions: int | None = None, **options: Any
    ) -> Self:
        """Build the dictionary with signatures just long enough for an error rate.

        Parameters, errors: as for `CuckooDictionary` and `cuckoo_signature_bits`; the
        `options` are the other parameters of the class.
        """
        require_count("window", window)
        positions = 2 * window if positions is None else positions
        bits = cuckoo_signature_bits(positions=positions, error_rate=error_rate)
        return cls(window=window, signature_bits=bits, positions=positions, **options)

    # Operations

    @one_or_all
    def last_update(self, keys: Keys) -> Ages:
        """Estimate the insertions from the last one of each key on; changes nothing.

        The estimate is never too high within the window: another key with the same
        positions and signature can only make a key look younger.

        Parameters, errors: as `insert`.

        Returns
        -------
        ndarray of int64, shape (n,)
            The smallest window in which the key is reported: 1 for the last key
            inserted, at most `window`; -1 for a key that is not reported.
        """
        return self._last_update(self._words(keys))

    @property
    def error_bound(self) -> float:
        """Bound of the false-positive rate, at any load (Theorem 1)."""
        return cuckoo_error_bound(positions=self.positions, signature_bits=self.signature_bits)

    def expected_false_positive_rate(self, window: int | None = None) -> float:
        """Return the probability that a fresh key is reported now.

        No two live entries have both positions and the signature in common, so a
        fresh key matches each with a probability of
        1 / (positions**2 2**signature_bits), and never two. Parameters, errors: as `query`.
        """
        window = self.checked_window(window)
        times = self._times_view
        live = np.count_nonzero((times > 0) & (self._distances(times) <= window))
        return float(live) / (self.positions**2 << self.signature_bits)

    # Steps

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
        ages = np.empty(len(keys), np.int64)
        for part in chunks(len(keys), _CHUNK):
            ages[part] = self._ages_of(keys[part])
        return ages

    def _addresses(self, states: NDArray[np.uint64]) -> tuple[Ages, Ages, Ages]:
        """Return both addresses of each key, and its signature above the bits of one."""
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
        place = np.minimum(np.searchsorted(names, asked), len(names) - 1)
        distances = self._distances(times)[order][place]
        return np.where(names[place] == asked, distances, self.window + 1)

    def _insert(self, keys: Words) -> Ages:
        """Insert keys; return ages from before, more than `window` for an absent key."""
        ages = np.empty(len(keys), np.int64)
        for part in chunks(len(keys), _CHUNK):
            ages[part] = self._insert_chunk(keys[part])
        return ages

    def _insert_chunk(self, keys: Words) -> list[int]:
        # One long loop on local names: calls would halve its speed.
        times, codes, overflow = self._times, self._codes, self._overflow
        n, span, positions, now = self.window, 2 * self.window, self.positions, self._now
        width = -(-positions // n)
        addresses = (each.tolist() for each in self._addresses(self._hash.state(keys)))
        ages = []
        for name, first, second, signature in zip(names_of(keys), *addresses, strict=True):
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
        """Place an entry by moving others; without a free position, change nothing."""
        times, codes = self._times, self._codes
        n, span, addresses = self.window, 2 * self.window, 2 * self.positions
        at, other = (second, first) if self._toss() else (first, second)
        time, code = now, signature + other
        before = []
        for moved in range(1, self.moves + 1):
            before.append((at, times[at], codes[at]))
            times[at], time = time, times[at]
            codes[at], code = code, codes[at]
            # The moved entry keeps its signature, and the address that it leaves.
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
        """Draw a bit (xorshift64 by Marsaglia)."""
        self._coin ^= self._coin << 13 & WORD
        self._coin ^= self._coin >> 7
        self._coin ^= self._coin << 17 & WORD
        return self._coin & 1
