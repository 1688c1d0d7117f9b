"""Counting Bloom filter with a queue, from which it deletes expired keys."""

from collections import deque
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lately.golden.errors import SpecificationError
from lately.golden.filter import Words
from lately.golden.hash.keys import check_keys
from lately.golden.results import Ages
from lately.golden.sizing import bloom_rate, bloom_sizes
from lately.golden.spec.base import Specification, optional, required

from .bits import ByteCells, ring_order


@dataclass(frozen=True, kw_only=True)
class CountingBloomSpec(Specification, family="counting-bloom"):
    window: int = required()  # W
    counters: int = required(low=2, high=1 << 32)
    hashes: int = required()  # k
    counter_bits: int = optional(4, high=8)
    saturated: str = "kept"  # or "decremented": whether a counter at its maximum is decremented


class CountingBloomFilter(ByteCells):
    """Counting Bloom filter that deletes its oldest key when a new key is inserted.

    Source: Li Fan, Pei Cao, Jussara Almeida and Andrei Z. Broder, "Summary Cache: A Scalable Wide-
    Area Web Cache Sharing Protocol", IEEE/ACM Transactions on Networking 8(3), 2000. With a queue
    of the window's keys it is the baseline of the GEBF paper.

    A key is reported for all d < W = `window`, where d is the number of insertions after its own. A
    counter at its maximum is not incremented; this counts as an overflow. If `saturated` is "kept",
    as in the source, such a counter keeps its value until `clear`. If it is "decremented", keys of
    the window may be missed after an overflow.
    """

    specification = CountingBloomSpec
    _uncompared = ("overflows",)
    _counts: ClassVar = {"insertions": 1 << 61, "overflows": None}

    window: int
    _counters: int
    counter_bits: int
    saturated: str
    overflows: int  # increments skipped because the counter was at its maximum

    @classmethod
    def _sizes(cls, keys: int, fpr: float) -> dict[str, Any]:
        counters, hashes = bloom_sizes(keys, fpr)
        return {"window": keys, "counters": counters, "hashes": hashes}

    @property
    def fpr(self) -> float:
        return bloom_rate(self.window, self._counters, self.hashes)

    def _prepare(self) -> None:
        if self.saturated not in ("kept", "decremented"):
            raise SpecificationError(
                f"saturated: must be 'kept' or 'decremented', not {self.saturated!r}"
            )
        self._make_hash([self._counters] * self.hashes)
        self._max = (1 << self.counter_bits) - 1
        self._queue = np.zeros((self.window, -(-self.key_bits // 64)), np.uint64)

    @property
    def parameters(self) -> dict[str, Any]:
        return {**super().parameters, "counters": self._counters}

    @property
    def storage_bits(self) -> int:
        """Bits of the counters. The GEBF paper does not count the queue; see `queue_bits`."""
        return self._counters * self.counter_bits

    @property
    def queue_bits(self) -> int:
        return self.window * self.key_bits

    @property
    def queue(self) -> NDArray[np.uint64]:
        return ring_order(self._queue, self.insertions)

    def _empty(self) -> None:
        self._cells = bytearray(self._counters)
        self._queue[:] = 0
        self._positions_of_window: deque[list[int]] = deque()
        self.insertions = self.overflows = 0

    def _perform_each(self, keys: Words, *, asked: bool, inserted: bool) -> Ages:
        before = self.insertions
        ages = super()._perform_each(keys, asked=asked, inserted=inserted)
        if inserted:
            last = keys[-self.window :]
            end = before + len(keys)
            self._queue[np.arange(end - len(last), end) % self.window] = last
        return ages

    def _write(self, positions: list[int]) -> None:
        cells, highest = self._cells, self._max
        stuck = highest if self.saturated == "kept" else -1
        if len(self._positions_of_window) == self.window:
            for cell in self._positions_of_window.popleft():
                if cells[cell] and cells[cell] != stuck:
                    cells[cell] -= 1
        self._positions_of_window.append(positions)
        for cell in positions:
            if cells[cell] < highest:
                cells[cell] += 1
            else:
                self.overflows += 1

    def _arrays(self) -> dict[str, tuple[NDArray[Any], int]]:
        return {"counters": (self._view(), self._max), "queue": (self._queue, (1 << 64) - 1)}

    def _restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        super()._restore(numbers, arrays)
        check_keys(self._queue, self._hash.key_bits)
        if self._queue[self.insertions :].any():
            raise ValueError(f"queue: holds more than {self.insertions} keys")
        self._positions_of_window = deque(self._positions(self.queue).tolist())
