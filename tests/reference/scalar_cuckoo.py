"""Scalar twin of the time-decaying cuckoo dictionary, written straight from the paper.

One key at a time, in the notation of section IV.B of Near-optimal Approximate
Membership Query over Time-decaying Windows. It shares the constants of the
hash functions with the array model and nothing else.
"""

from copy import deepcopy
from typing import Any

from lately.golden.hash.functions import ConstantStream
from lately.golden.hash.scalar_hash import ScalarHash


class ScalarCuckoo:
    """Cuckoo dictionary with the tables T, P and S and the list L.

    Arguments as for `CuckooDictionary`: n is the window, gamma the positions
    of a table, K the bits of a signature.
    """

    def __init__(
        self, *, n: int, gamma: int, K: int, moves: int, seed: int = 0, **hashing: Any
    ) -> None:
        self.n, self.gamma, self.moves = n, gamma, moves
        self.hash = ScalarHash(sizes=[gamma, gamma, 1 << K], seed=seed, **hashing)
        self.i = 0
        self.tau = 1
        # T[j][p] is 0 for an empty position; then S and P say nothing.
        self.T = [[0] * gamma, [0] * gamma]
        self.S = [[0] * gamma, [0] * gamma]
        self.P = [[0] * gamma, [0] * gamma]
        # The head, the newest, is the last.
        self.L: list[tuple[int, int]] = []
        self.random = ConstantStream(label="cuckoo", seed=seed).word() | 1

    def d(self, t: int) -> int:
        """Return the distance from a timestamp to the present one (4)."""
        if self.tau >= t:
            return self.tau - t + 1
        return self.tau + 2 * self.n - t + 1

    def free(self, j: int, p: int) -> bool:
        """Tell whether a position is empty or its timestamp has expired."""
        return self.T[j][p] == 0 or self.d(self.T[j][p]) > self.n

    def insert(self, x: int) -> None:
        """Insert an item, then delete expired entries."""
        self.i += 1
        self.tau = self.i % (2 * self.n) + 1
        self.L = [(y, t) for y, t in self.L if y != x]
        self._store(x)
        self._delete()

    def query(self, x: int, w: int) -> bool:
        """Tell whether an item is among the most recent w."""
        h0, h1, signature = self.hash(x, 0)
        h = (h0, h1)
        for j in (0, 1):
            p = h[j]
            if not self.free(j, p) and self.S[j][p] == signature and self.P[j][p] == h[1 - j]:
                return self.d(self.T[j][p]) <= w
        return any(y == x and self.d(t) <= w for y, t in self.L)

    def last_update(self, x: int) -> int:
        """Return the smallest w for which an item is reported, -1 if there is none."""
        return next((w for w in range(1, self.n + 1) if self.query(x, w)), -1)

    def _store(self, x: int) -> None:
        h0, h1, signature = self.hash(x, 0)
        h = (h0, h1)
        for j in (0, 1):
            p = h[j]
            known = self.S[j][p] == signature and self.P[j][p] == h[1 - j]
            if known and self.T[j][p] != 0:
                self.T[j][p] = self.tau
                return
        for j in (0, 1):
            if self.free(j, h[j]):
                self._set(j, h[j], self.tau, signature, h[1 - j])
                return
        j = self._random_table()
        before = deepcopy((self.T, self.S, self.P))
        if not self._move(j, h[j], self.tau, signature, h[1 - j]):
            self.T, self.S, self.P = before
            self.L.append((x, self.tau))

    def _move(self, j: int, p: int, t: int, signature: int, other: int) -> bool:
        """Put an entry where one is, which moves to the other table, and so on (6)."""
        for _ in range(self.moves):
            moved = self.T[j][p], self.S[j][p], self.P[j][p]
            self._set(j, p, t, signature, other)
            t, signature, destination = moved
            j, p, other = 1 - j, destination, p
            if self.free(j, p):
                self._set(j, p, t, signature, other)
                return True
        return False

    def _set(self, j: int, p: int, t: int, signature: int, other: int) -> None:
        """Set timestamp, signature and position in the other table (5)."""
        self.T[j][p], self.S[j][p], self.P[j][p] = t, signature, other

    def _delete(self) -> None:
        """Reset expired entries in block tau mod n of each table, and at the list's tail."""
        size = -(-self.gamma // self.n)
        block = self.tau % self.n
        for p in range(block * size, min((block + 1) * size, self.gamma)):
            for j in (0, 1):
                if self.T[j][p] != 0 and self.d(self.T[j][p]) > self.n:
                    self._set(j, p, 0, 0, 0)
        if self.L and self.d(self.L[0][1]) > self.n:
            self.L.pop(0)

    def _random_table(self) -> int:
        """Draw 0 or 1 by Marsaglia's xorshift64 with shifts 13, 7 and 17."""
        x = self.random
        x = (x ^ x << 13) % 2**64
        x = x ^ x >> 7
        x = (x ^ x << 17) % 2**64
        self.random = x
        return x % 2
