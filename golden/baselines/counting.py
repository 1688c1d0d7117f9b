"""Counting Bloom filter with a queue of the keys that it deletes."""

from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecificationError
from ..filter import Answers, CountedFilter, Words, key_hash, require_count
from ..sizing import bloom_rate, bloom_sizes
from ..spec.compared import CountingBloomSpec
from .bits import saved_array, saved_count
from .bloom import shared_positions

_CHUNK = 1 << 14


class CountingBloomFilter(CountedFilter):
    """Counting Bloom filter whose oldest key is deleted when a new one comes.

    Source: Li Fan, Pei Cao, Jussara Almeida and Andrei Z. Broder, "Summary
    Cache: A Scalable Wide-Area Web Cache Sharing Protocol", IEEE/ACM
    Transactions on Networking 8(3), 2000. With a queue of the window's keys it
    is the baseline of the GEBF paper, and before that of Ahmed Metwally,
    Divyakant Agrawal and Amr El Abbadi, "Duplicate Detection in Click
    Streams", WWW 2005.

    An insertion deletes the key that was inserted `window` insertions before,
    if there is one, then increments a counter for each hash function: two that
    meet on a counter increment it twice. A counter at its maximum is not
    incremented any more, which counts as an overflow.

    `saturated` says what becomes of a counter that has reached its maximum:

    "kept"
        It stays there for ever, as in the source. There is never a false
        negative: every key among the last `window` insertions is reported.
        What a full counter adds to the false positives remains until `clear`.
    "decremented"
        It is decremented like any other. There is no false negative as long
        as `overflows` is 0. After an overflow a counter may be less than what
        the window's keys make of it, and keys of the window may be missed.

    A key that has left the window is reported by chance alone: no slack, but
    for counters that are kept.

    Parameters
    ----------
    window : int
        Insertions to remember (W).
    counters : int
        Number of counters.
    hashes : int
        Hash functions (k).
    counter_bits : int
        Width of a counter, 1 to 8.
    saturated : str
        "kept" or "decremented".
    seed : int
        Selects the hash functions.
    key_bits : int
        Width of a key.

    Attributes
    ----------
    insertions : int
        Insertions since construction or clear.
    overflows : int
        Increments that a counter at its maximum did not take.

    Raises
    ------
    TypeError
        If a number is not an integer.
    SpecificationError
        If a parameter breaks a rule.
    """

    specification = CountingBloomSpec
    _counters = ("overflows",)

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        counters, hashes = bloom_sizes(keys, fpr)
        return {"window": keys, "counters": counters, "hashes": hashes}

    @property
    def window_false_positive_rate(self) -> float:
        """Expected false-positive rate of a full window of distinct keys, none overflowing."""
        return bloom_rate(self.window, self.counters, self.hashes)

    def _window_text(self) -> str:
        return f"window of {self.window:,} insertions"

    def __init__(
        self,
        *,
        window: int,
        counters: int,
        hashes: int,
        counter_bits: int = 4,
        saturated: str = "kept",
        seed: int = 0,
        key_bits: int = 64,
    ) -> None:
        require_count("window", window)
        require_count("counters", counters, least=2, most=1 << 32)
        require_count("hashes", hashes)
        require_count("counter_bits", counter_bits, most=8)
        if saturated not in ("kept", "decremented"):
            raise SpecificationError(
                f"saturated: must be 'kept' or 'decremented', not {saturated!r}"
            )
        self.window = window
        self.counters = counters
        self.hashes = hashes
        self.counter_bits = counter_bits
        self.saturated = saturated
        self.seed = seed
        self.key_bits = key_bits
        self._hash = key_hash([counters] * hashes, seed=seed, key_bits=key_bits)
        self._most = (1 << counter_bits) - 1
        self._cells = bytearray(counters)
        self._queue = np.zeros((window, -(-key_bits // 64)), np.uint64)
        self.insertions = self.overflows = 0

    @property
    def storage_bits(self) -> int:
        """Bits of the counters; the queue is counted by `queue_bits`, as in the GEBF paper."""
        return self.counters * self.counter_bits

    @property
    def queue_bits(self) -> int:
        """Bits of the queue of keys."""
        return self.window * self.key_bits

    @property
    def memory(self) -> NDArray[np.uint8]:
        """Counters; shape (counters,)."""
        return np.array(self._view())

    @property
    def queue(self) -> NDArray[np.uint64]:
        """Keys of the window, oldest first; shape (min(insertions, window), words)."""
        if self.insertions < self.window:
            return self._queue[: self.insertions].copy()
        return np.roll(self._queue, -(self.insertions % self.window), axis=0)

    def clear(self) -> None:
        """Forget everything, counters that are kept included."""
        self._cells = bytearray(self.counters)
        self._queue[:] = 0
        self.insertions = self.overflows = 0

    def _view(self) -> NDArray[np.uint8]:
        return np.frombuffer(self._cells, np.uint8)

    def _query(self, keys: Words) -> Answers:
        return np.asarray((self._view()[shared_positions(self._hash, keys)] > 0).all(axis=1))

    def _check_and_insert(self, keys: Words) -> Answers:
        return self._insert(keys, asked=True)

    def _insert(self, keys: Words, *, asked: bool = False) -> Answers:
        # The key of each insertion, and before them the ones that they delete first.
        stream = np.concatenate([self.queue, keys])
        ahead = len(stream) - len(keys)
        seen: list[bool] = []
        for start in range(0, len(keys), _CHUNK):
            stop = min(start + _CHUNK, len(keys))
            new = shared_positions(self._hash, keys[start:stop])
            first, last = (max(0, ahead + at - self.window) for at in (start, stop))
            old = shared_positions(self._hash, stream[first:last]).tolist()
            missing: list[list[int]] = [[]] * (stop - start - len(old))
            seen += self._pass(chain(missing, old), new.tolist(), asked=asked)
        self._remember(keys)
        return np.array(seen, np.bool_)

    def _pass(self, leaving: Any, coming: list[list[int]], *, asked: bool) -> list[bool]:
        """Delete and insert, one of each after another, given their counters."""
        cells, most = self._cells, self._most
        stuck = most if self.saturated == "kept" else -1
        seen = []
        overflows = 0
        for old, new in zip(leaving, coming, strict=True):
            if asked:
                seen.append(all(map(cells.__getitem__, new)))
            for cell in old:
                count = cells[cell]
                if count and count != stuck:
                    cells[cell] = count - 1
            for cell in new:
                count = cells[cell]
                if count < most:
                    cells[cell] = count + 1
                else:
                    overflows += 1
        self.overflows += overflows
        return seen

    def _remember(self, keys: NDArray[np.uint64]) -> None:
        count = self.insertions + len(keys)
        last = keys[-self.window :]
        self._queue[np.arange(count - len(last), count) % self.window] = last
        self.insertions = count

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        numbers = {"insertions": self.insertions, "overflows": self.overflows}
        return numbers, {"counters": self.memory, "queue": self._queue}

    def _restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.insertions = saved_count(numbers, "insertions")
        self.overflows = saved_count(numbers, "overflows")
        self._view()[:] = saved_array(arrays, "counters", self._view(), most=self._most)
        most = (1 << 64) - 1
        self._queue[:] = saved_array(arrays, "queue", self._queue, most=most)
        self._hash.check_keys(self._queue)
        if self._queue[self.insertions :].any():
            raise ValueError(f"queue: holds more than {self.insertions} keys")
