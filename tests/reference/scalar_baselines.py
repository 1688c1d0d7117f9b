"""Scalar twins of the baselines, written straight from their sources.

One key at a time, Python integers only, the sources' own notation, slow and
obviously right. They share the constants of the hash
functions with the array models and nothing else.
"""

from collections import Counter, deque
from typing import Any

from lately.golden.hash.functions import ConstantStream
from lately.golden.hash.scalar_hash import ScalarHash


class ScalarBloom:
    """Classical, partitioned or blocked Bloom filter over a set of positions."""

    def __init__(
        self,
        *,
        bits: int,
        hashes: int,
        block_bits: int = 0,
        partitioned: bool = False,
        **hashing: Any,
    ) -> None:
        self.block_bits, self.partitioned = block_bits, partitioned
        self.part_bits = bits // hashes if partitioned else block_bits or bits
        sizes = [self.part_bits] * hashes
        if block_bits:
            sizes = [bits // block_bits, *sizes]
        self.h = ScalarHash(sizes=sizes, **hashing)
        self.ones: set[int] = set()

    def positions(self, key: int) -> list[int]:
        """Return the bits of a key."""
        indices = self.h(key, 0)
        if self.block_bits:
            block, *indices = indices
            return [block * self.block_bits + index for index in indices]
        if self.partitioned:
            return [i * self.part_bits + index for i, index in enumerate(indices)]
        return indices

    def query(self, key: int) -> bool:
        """Whether all bits of a key are set."""
        return all(position in self.ones for position in self.positions(key))

    def insert(self, key: int) -> None:
        """Set the bits of a key."""
        self.ones.update(self.positions(key))


class ScalarCountingBloom:
    """Counting Bloom filter with a queue of the keys of the window."""

    def __init__(
        self,
        *,
        window: int,
        counters: int,
        hashes: int,
        counter_bits: int = 4,
        saturated: str = "kept",
        **hashing: Any,
    ) -> None:
        self.W, self.kept = window, saturated == "kept"
        self.max = 2**counter_bits - 1
        self.h = ScalarHash(sizes=[counters] * hashes, **hashing)
        self.c = [0] * counters
        self.queue: deque[int] = deque()
        self.overflows = 0

    def query(self, key: int) -> bool:
        """Whether no counter of a key is 0."""
        return all(self.c[i] > 0 for i in self.h(key, 0))

    def insert(self, key: int) -> None:
        """Delete the key that leaves the window, and count this one."""
        if len(self.queue) == self.W:
            self._delete(self.queue.popleft())
        self.queue.append(key)
        for i in self.h(key, 0):
            if self.c[i] == self.max:
                self.overflows += 1
            else:
                self.c[i] += 1

    def _delete(self, key: int) -> None:
        for i in self.h(key, 0):
            if self.c[i] == self.max and self.kept:
                continue
            self.c[i] = max(0, self.c[i] - 1)


class ScalarStableBloom:
    """Stable Bloom filter; P cells from a random one on are decremented."""

    def __init__(
        self,
        *,
        cells: int,
        hashes: int,
        decrements: int,
        cell_bits: int = 1,
        seed: int = 0,
        **hashing: Any,
    ) -> None:
        self.m, self.P, self.max = cells, decrements, 2**cell_bits - 1
        self.h = ScalarHash(sizes=[cells] * hashes, seed=seed, **hashing)
        self.sbf = [0] * cells
        self.splitmix = ConstantStream(label="stable", seed=seed).word()

    def query(self, key: int) -> bool:
        """Whether no cell of a key is 0."""
        return all(self.sbf[i] > 0 for i in self.h(key, 0))

    def insert(self, key: int) -> None:
        """Decrement P cells, then set those of the key."""
        start = (self._random() >> 32) * self.m >> 32
        for j in range(self.P):
            i = (start + j) % self.m
            self.sbf[i] = max(0, self.sbf[i] - 1)
        for i in self.h(key, 0):
            self.sbf[i] = self.max

    def _random(self) -> int:
        """Draw 64 bits by SplitMix64."""
        mask = 2**64 - 1
        self.splitmix = (self.splitmix + 0x9E3779B97F4A7C15) & mask
        z = self.splitmix
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        return z ^ z >> 31


class _ScalarTwoBlooms:
    """Two Bloom filters with the same hash functions, and the keys of the present generation."""

    def __init__(self, *, generation: int, bits: int, hashes: int, **hashing: Any) -> None:
        self.g = generation
        self.filled = 0
        self.young, self.old = (
            ScalarBloom(bits=bits // 2, hashes=hashes, **hashing) for _ in range(2)
        )

    def switch(self) -> None:
        """Empty the older filter, and let the two change places."""
        self.young, self.old = self.old, self.young
        self.young.ones.clear()
        self.filled = 0


class ScalarDoubleBuffering(_ScalarTwoBlooms):
    """Both filters are written, the active one is asked."""

    @property
    def active(self) -> ScalarBloom:
        """Filter that is asked."""
        return self.old

    @property
    def warm_up(self) -> ScalarBloom:
        """Filter that comes next."""
        return self.young

    def query(self, key: int) -> bool:
        """Ask the active filter."""
        return self.active.query(key)

    def insert(self, key: int) -> None:
        """Write both filters, after the switch if the warm-up filter is half full."""
        if self.filled == self.g:
            self.switch()
        self.active.insert(key)
        self.warm_up.insert(key)
        self.filled += 1


class ScalarA2Buffering(_ScalarTwoBlooms):
    """One filter is written, both are asked."""

    @property
    def active1(self) -> ScalarBloom:
        """Filter that is written."""
        return self.young

    @property
    def active2(self) -> ScalarBloom:
        """Other filter."""
        return self.old

    def query(self, key: int) -> bool:
        """Ask both filters."""
        return self.active1.query(key) or self.active2.query(key)

    def insert(self, key: int) -> None:
        """Write active1 unless it has the key, after the switch if it is full."""
        if self.active1.query(key):
            return
        if self.filled == self.g:
            self.switch()
        self.active1.insert(key)
        self.filled += 1


class ScalarForgetful:
    """Future, present and N pasts; two neighbours must match."""

    def __init__(
        self, *, generation: int, past: int, bits: int, hashes: int, **hashing: Any
    ) -> None:
        self.g = generation
        self.filled = 0
        self.segments = [
            ScalarBloom(bits=bits // (past + 2), hashes=hashes, **hashing) for _ in range(past + 2)
        ]

    def query(self, key: int) -> bool:
        """Whether two consecutive segments have the key."""
        answers = [segment.query(key) for segment in self.segments]
        return any(answers[i] and answers[i + 1] for i in range(len(answers) - 1))

    def insert(self, key: int) -> None:
        """Write future and present, after the shift if the generation is full."""
        if self.filled == self.g:
            self.segments.insert(0, self.segments.pop())
            self.segments[0].ones.clear()
            self.filled = 0
        for segment in self.segments[:2]:
            segment.insert(key)
        self.filled += 1


class ScalarSwamp:
    """Cyclic fingerprint buffer (CFB) of W fingerprints, and a table of how often each is in it."""

    def __init__(self, *, window: int, fingerprint_bits: int, **hashing: Any) -> None:
        self.W, self.L = window, fingerprint_bits
        self.low = fingerprint_bits // 2
        sizes = [2 ** (fingerprint_bits - self.low), 2**self.low]
        self.h = ScalarHash(sizes=sizes, **hashing)
        self.cfb: list[int | None] = [None] * window
        self.curr = 0
        self.table: Counter[int] = Counter()

    def fingerprint(self, key: int) -> int:
        """Return the L bits that stand for a key."""
        high, low = self.h(key, 0)
        return high << self.low | low

    def insert(self, key: int) -> None:
        """Put the fingerprint where the oldest one was."""
        oldest = self.cfb[self.curr]
        if oldest is not None:
            self.table[oldest] -= 1
            if not self.table[oldest]:
                del self.table[oldest]
        self.cfb[self.curr] = self.fingerprint(key)
        self.table[self.fingerprint(key)] += 1
        self.curr = (self.curr + 1) % self.W

    def multiplicity(self, key: int) -> int:
        """How often the key's fingerprint is in the buffer."""
        return self.table[self.fingerprint(key)]

    def query(self, key: int) -> bool:
        """Whether the key's fingerprint is in the buffer."""
        return self.multiplicity(key) > 0

    def distinct(self) -> int:
        """How many fingerprints there are."""
        return len(self.table)
