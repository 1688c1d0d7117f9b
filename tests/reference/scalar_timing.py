"""Scalar twin of the timing Bloom filters, in the notation of the inferential paper, section 3.

One key at a time, plain Python, the hash constants shared and nothing else.
"""

from typing import Any

from lately.golden.hash.scalar_hash import ScalarHash


class ScalarBTBF:
    """Block timing Bloom filter (section 3.2); with B = 1, the timing Bloom filter (3.1)."""

    def __init__(self, *, w: int, m: int, k: int, P: int, B: int = 1, **hashing: Any) -> None:
        self.w, self.m, self.k, self.P, self.B = w, m, k, P, B
        self.T_omega = -(-w // B) + 1 + P
        self.T_epsilon = self.T_omega + 1
        self.T_plus = 0
        self.b = 0
        self.theta = [self.T_epsilon] * m
        self.per_insertion = -(-m // (B * (P + 1)))
        self.next_checked = 0
        self.h = ScalarHash(sizes=[m] * k, **hashing)

    def touched(self, x: int) -> set[int]:
        """Cells that x touches (definition 4)."""
        return set(self.h(x, 0))

    def age(self, i: int) -> float:
        """Age lambda of the timestamp of cell i (definition 7)."""
        if self.theta[i] == self.T_epsilon:
            return float("inf")
        return (self.T_plus - self.theta[i]) % (self.T_omega + 1)

    def has_expired(self, i: int, w: int) -> bool:
        """Definition 9."""
        return self.age(i) >= -(-(w - self.b) // self.B) + 1

    def insert(self, x: int) -> None:
        """Sections 3.1.1 and 3.2.1, then the check of section 3.1.3."""
        for i in self.touched(x):
            self.theta[i] = self.T_plus
        if self.b == self.B - 1:
            self.T_plus = (self.T_plus + 1) % (self.T_omega + 1)
            self.b = 0
        else:
            self.b += 1
        for _ in range(self.per_insertion):
            if self.has_expired(self.next_checked, self.w):
                self.theta[self.next_checked] = self.T_epsilon
            self.next_checked = (self.next_checked + 1) % self.m

    def query(self, x: int, w: int | None = None) -> bool:
        """Sections 3.1.2 and 3.2.2."""
        return not any(self.has_expired(i, w or self.w) for i in self.touched(x))

    def check_and_insert(self, x: int) -> bool:
        """Query, then insert."""
        seen = self.query(x)
        self.insert(x)
        return seen

    def evidence(self, x: int) -> tuple[float, int, int, int]:
        """Return lambda_x, c_x, r_x (definitions 10 and 11) and b."""
        R = self.touched(x)
        ages = [float("inf") if self.has_expired(i, self.w) else self.age(i) for i in R]
        return max(ages), ages.count(max(ages)), len(R), self.b


class ScalarStampedParts:
    """Partitioned timing Bloom filter, with a clock of insertions, or if `timed` of time.

    Every cell has the list of all insertions that touched it, none of which is ever dropped.
    """

    def __init__(self, *, W: int, m: int, k: int, B: int, timed: bool, **hashing: Any) -> None:
        self.W, self.m, self.k, self.B, self.timed = W, m, k, B, timed
        self.theta: list[list[list[int]]] = [[[] for _ in range(m)] for _ in range(k)]
        self.inserted = 0
        self.h = ScalarHash(sizes=[m] * k, **hashing)

    def now(self, time: int = 0) -> int:
        """Present block."""
        return (time if self.timed else self.inserted) // self.B

    def age(self, part: int, cell: int, now: int) -> int:
        """Blocks since the cell was last touched; W / B + 1 if that is past the window."""
        ages = [now - block for block in self.theta[part][cell]]
        return min([*ages, self.W // self.B + 1])

    def ages(self, x: int, time: int = 0) -> list[int]:
        """Ages of the cells of a key."""
        return [self.age(part, cell, self.now(time)) for part, cell in enumerate(self.h(x, 0))]

    def query(self, x: int, w: int, time: int = 0) -> tuple[bool, int, int]:
        """Whether the key is reported, the age of its oldest cell, and how many are so old."""
        ages = self.ages(x, time)
        return max(ages) <= w // self.B, max(ages), ages.count(max(ages))

    def insert(self, x: int, time: int = 0) -> None:
        """Touch the cells of a key."""
        for part, cell in enumerate(self.h(x, 0)):
            self.theta[part][cell].append(self.now(time))
        self.inserted += 1
