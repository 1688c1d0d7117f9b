"""Scalar twins of `posteriors` and `inferential`: the paper's equations as they are printed.

Plain Python, one key at a time; accurate where no probability is very near 0
or 1. `D` is a function from a number of insertions to a number of different keys.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, inf

from timing_oracle import TimingOracle

Count = Callable[[int], float]
"""D(j): takes a number of insertions, returns a number of different keys."""


def p_age(i: int, p_x: float) -> float:
    """Equation 4: prior of I_x = i."""
    return p_x * (1 - p_x) ** i


def p_fp(m: int, k: int, n: int, r_x: int) -> float:
    """Equation 1."""
    return float((1 - (1 - 1 / m) ** (k * n)) ** r_x)


def theorem_1(m: int, k: int, n: int, r_x: int, c_x: int, p_x: float) -> float:
    """Posterior that x is in a classical Bloom filter of n items."""
    if c_x != r_x:
        return 0.0
    return 1 / (1 + (1 - p_x) ** n * p_fp(m, k, n, r_x) / (1 - (1 - p_x) ** n))


@dataclass
class Cells:
    """Parameters of the cells: m, k and B, the insertions b into the current block, and D.

    `recurring`, which is ours, counts the keys of a block that do not come again.
    """

    m: int
    k: int
    B: int
    b: int
    D: Count
    recurring: bool = False

    def f(self, r_x: int, c_x: int, distinct: float) -> float:
        """Equation 21, with the number of different keys for j."""
        untouched = (1 - 1 / self.m) ** (self.k * distinct)
        return float(untouched**c_x * (1 - untouched) ** (r_x - c_x))

    def g(self, r_x: int, c_x: int, lambda_x: int) -> float:
        """Equation 25."""
        since = (lambda_x - 1) * self.B + self.b
        new_keys = self.D(since + self.B) - self.D(since) if self.recurring else self.D(self.B)
        return self.f(c_x, 0, new_keys) * self.f(r_x, c_x, self.D(since))

    def p_evidence(self, i: int, r_x: int, c_x: int, lambda_x: int) -> float:
        """Lemmas 1 and 2: conditional probability of the evidence, P(R_x | i)."""
        if lambda_x == 0:
            return 1.0 if i < self.b else self.f(r_x, 0, self.D(self.b))
        if i < (lambda_x - 1) * self.B + self.b:
            return 0.0
        if i >= lambda_x * self.B + self.b:
            return self.g(r_x, c_x, lambda_x)
        return self.f(r_x, c_x, self.D((lambda_x - 1) * self.B + self.b))

    def theorems_2_to_5(self, w: int, r_x: int, c_x: int, lambda_x: float, p_x: float) -> float:
        """Posterior of I_x < w, for a window of b insertions or more."""
        B, b = self.B, self.b
        blocks = ceil((w - b) / B)
        if lambda_x == inf or lambda_x > blocks:
            return 0.0
        q = 1 - p_x
        if lambda_x == 0:
            return 1 - q**w / ((1 - q**b) / self.f(r_x, 0, self.D(b)) + q**b)
        touched = self.f(c_x, 0, self.D(B))
        left = w - (int(lambda_x) - 1) * B - b
        if lambda_x < blocks:
            return 1 - q**left / ((1 - q**B) / touched + q**B)
        return (1 - q**left) / (1 - q**B * (1 - touched))


class ScalarInferential:
    """Timing Bloom filter that answers as costs least (sections 2.6 and 4)."""

    def __init__(self, filter: TimingOracle, *, D: Count, recurring: bool = False) -> None:
        self.filter, self.D, self.recurring = filter, D, recurring

    def posterior(self, x: int, p_x: float, w: int | None = None) -> float:
        """Equation 9: the sum of equation 7 over the ages below w."""
        lambda_x, c_x, r_x, b = self.filter.evidence(x)
        if lambda_x == inf:
            return 0.0
        of = self.filter
        cells = Cells(of.m, of.k, of.B, b, self.D, self.recurring)

        def weight(i: int) -> float:
            return p_age(i, p_x) * cells.p_evidence(i, r_x, c_x, int(lambda_x))

        # From `end` on the evidence is as likely at every age.
        end = int(lambda_x) * of.B + b
        tail = weight(end) / p_x
        total = sum(weight(i) for i in range(end)) + tail
        return sum(weight(i) for i in range(min(w or of.w, of.insertions))) / total

    def query(self, x: int, p_x: float, w: int | None = None, *, c_fp: float, c_fn: float) -> bool:
        """Section 2.6: report x where that is expected to cost no more."""
        inside = self.posterior(x, p_x, w)
        return c_fp * (1 - inside) <= c_fn * inside
