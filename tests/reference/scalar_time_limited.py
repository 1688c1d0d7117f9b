"""Scalar twin of the time-limited filter.

One key at a time, Python integers only, the paper's notation. A slice is an
integer, bit i of which is its bit i.
"""

from dataclasses import dataclass
from math import ceil, floor, log
from typing import Any

from lately.golden.hash.scalar_hash import ScalarHash


@dataclass
class ScalarSlice:
    """Slice s_i of Table 1: its m bits, c, n, t, and the number of its hash function."""

    m: int
    h: int
    bits: int = 0
    n: int = 0
    t: int | None = None

    @property
    def c(self) -> int:
        """Insertions that fill it to one half (section 6.1)."""
        return floor(self.m * log(2))


class ScalarTimeLimitedAPBF:
    """Time-limited Bloom filter; parameters as for `TimeLimitedAPBF`."""

    def __init__(
        self,
        *,
        k: int,
        l: int,
        span: int,
        capacity: int,
        slice_bits_limit: int = 1 << 24,
        **hashing: Any,
    ) -> None:
        self.k, self.l, self.T = k, l, span
        self.limit = slice_bits_limit
        m = ceil(k * ceil(capacity / l) / log(2))
        self.hash = ScalarHash(sizes=[1 << 32], functions=k, **hashing)
        self.s = [ScalarSlice(m, h % k) for h in range(k + l)]
        self.last = None
        self.first: int | None = None
        self.generation()

    def bit(self, i: int, key: int) -> int:
        """Bit of slice s_i that a key stands for."""
        (value,) = self.hash(key, self.s[i].h)
        return int(value * self.s[i].m // (1 << 32))

    def matches(self, i: int, key: int) -> bool:
        """Whether slice s_i has the bit of a key."""
        return bool(self.s[i].bits >> self.bit(i, key) & 1)

    def generation(self) -> None:
        """Insertions until the next shift (equations 4 and 5)."""
        u = [ceil((s.c - s.n) / (self.k - i)) for i, s in enumerate(self.s) if i < self.k]
        self.g = self.left = max(1, min(u))

    def insert(self, key: int, t: int) -> None:
        """Insert, after a shift if the generation is used up."""
        if self.last is not None and self.last < t - self.T:
            self.s = [ScalarSlice(s.m, s.h) for s in self.s[: self.k + self.l]]
            self.first = None
            self.generation()
        elif self.left == 0:
            self.shift(t)
        if self.first is None:
            self.first = t
        for i in range(self.k):
            self.s[i].bits |= 1 << self.bit(i, key)
            self.s[i].n += 1
        self.last = t
        self.left -= 1

    def shift(self, t: int) -> None:
        """Retire slices (equation 3) and add one (equations 6 to 8)."""
        assert self.last is not None
        assert self.first is not None
        self.s[self.k - 1].t = self.last
        before = self.s[self.k].t
        dt = t - self.first if before is None else self.last - before
        target = ceil_ratio(self.g * self.T, self.l * max(1, dt))
        while len(self.s) > self.k + self.l and not self.current(len(self.s) - 1, t):
            self.s.pop()
        if not self.current(len(self.s) - 1, t):
            self.s.pop()
        h = (self.s[0].h - 1) % self.k
        # s_0 is not known yet; s_1 to s_{k-1} are.
        self.s.insert(0, ScalarSlice(0, h))
        m = ceil(min(self.capacity(target), self.limit) / log(2))
        self.s[0].m = min(m, self.limit)
        self.generation()

    def current(self, i: int, t: int) -> bool:
        """Whether slice s_i has been updated within the span (equation 3)."""
        t_i = self.last if i < self.k else self.s[i].t
        return t_i is not None and not t_i < t - self.T

    def query(self, key: int, t: int) -> bool:
        """Algorithm 1: look backwards for k consecutive matches."""
        i, p, c = len(self.s) - self.k, 0, 0
        while i >= 0:
            if self.current(i, t) and self.matches(i, key):
                c, i = c + 1, i + 1
                if p + c == self.k:
                    return True
            else:
                i, p, c = i - self.k, c, 0
        return False

    def check_and_insert(self, key: int, t: int) -> bool:
        """Query, then insert."""
        seen = self.query(key, t)
        self.insert(key, t)
        return seen

    def capacity(self, target: int) -> int:
        """Capacity c_0 (equation 7)."""
        i, count = self.k, 0
        while i > 1:
            minimum, limiting = None, None
            for j in range(1, i):
                u = max(1, ceil_ratio(self.s[j].c - self.s[j].n - count, i - j))
                if minimum is None or u < minimum:
                    minimum, limiting = u, j
            assert minimum is not None
            assert limiting is not None
            if not minimum < target:
                break
            count += minimum * (i - limiting)
            i = limiting
        return count + i * target


def ceil_ratio(a: int, b: int) -> int:
    """Return a / b rounded up, exactly."""
    return -(-a // b)
