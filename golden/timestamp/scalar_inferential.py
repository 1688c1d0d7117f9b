"""Scalar twins of `posteriors` and `inferential`: the paper's equations as they are printed.

Plain Python, one key at a time; accurate where no probability is very near 0
or 1. `D` is a function from a number of insertions to a number of different keys.
"""

from collections.abc import Callable
from math import ceil, inf

from .scalar_timing import ScalarBTBF

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


def f(r_x: int, c_x: int, j: int, *, m: int, k: int, D: Count) -> float:
    """Equation 21."""
    untouched = (1 - 1 / m) ** (k * D(j))
    return float(untouched**c_x * (1 - untouched) ** (r_x - c_x))


def g(
    r_x: int,
    c_x: int,
    lambda_x: int,
    *,
    m: int,
    k: int,
    B: int,
    b: int,
    D: Count,
    recurring: bool = False,
) -> float:
    """Equation 25; `recurring`, which is ours, counts the keys of B that do not come again."""
    since = (lambda_x - 1) * B + b

    def new_keys(j: int) -> float:
        return D(since + j) - D(since) if recurring else D(j)

    return f(c_x, 0, B, m=m, k=k, D=new_keys) * f(r_x, c_x, since, m=m, k=k, D=D)


def p_evidence(
    i: int,
    r_x: int,
    c_x: int,
    lambda_x: int,
    *,
    m: int,
    k: int,
    B: int,
    b: int,
    D: Count,
    recurring: bool = False,
) -> float:
    """Lemmas 1 and 2: conditional probability of the evidence, P(R_x | i)."""
    if lambda_x == 0:
        return 1.0 if i < b else f(r_x, 0, b, m=m, k=k, D=D)
    if i < (lambda_x - 1) * B + b:
        return 0.0
    if i >= lambda_x * B + b:
        return g(r_x, c_x, lambda_x, m=m, k=k, B=B, b=b, D=D, recurring=recurring)
    return f(r_x, c_x, (lambda_x - 1) * B + b, m=m, k=k, D=D)


def theorems_2_to_5(
    w: int,
    r_x: int,
    c_x: int,
    lambda_x: float,
    p_x: float,
    *,
    m: int,
    k: int,
    B: int,
    b: int,
    D: Count,
) -> float:
    """Posterior of I_x < w, for a window of b insertions or more."""
    blocks = ceil((w - b) / B)
    if lambda_x == inf or lambda_x > blocks:
        return 0.0
    q = 1 - p_x
    if lambda_x == 0:
        return 1 - q**w / ((1 - q**b) / f(r_x, 0, b, m=m, k=k, D=D) + q**b)
    touched = f(c_x, 0, B, m=m, k=k, D=D)
    left = w - (int(lambda_x) - 1) * B - b
    if lambda_x < blocks:
        return 1 - q**left / ((1 - q**B) / touched + q**B)
    return (1 - q**left) / (1 - q**B * (1 - touched))


class ScalarInferential:
    """Timing Bloom filter that answers as costs least (sections 2.6 and 4)."""

    def __init__(self, filter: ScalarBTBF, *, D: Count, recurring: bool = False) -> None:
        self.filter, self.D, self.recurring = filter, D, recurring
        self.n = 0

    def insert(self, x: int) -> None:
        """Insert into the timing Bloom filter."""
        self.filter.insert(x)
        self.n += 1

    def posterior(self, x: int, p_x: float, w: int | None = None) -> float:
        """Equation 9: the sum of equation 7 over the ages below w."""
        lambda_x, c_x, r_x, b = self.filter.evidence(x)
        if lambda_x == inf:
            return 0.0
        of = self.filter

        def weight(i: int) -> float:
            evidence = p_evidence(
                i, r_x, c_x, int(lambda_x), m=of.m, k=of.k, B=of.B, b=b, D=self.D,
                recurring=self.recurring,
            )  # fmt: skip
            return p_age(i, p_x) * evidence

        # From `end` on the evidence is as likely at every age.
        end = int(lambda_x) * of.B + b
        tail = weight(end) / p_x
        total = sum(weight(i) for i in range(end)) + tail
        return sum(weight(i) for i in range(min(w or of.w, self.n))) / total

    def query(self, x: int, p_x: float, w: int | None = None, *, c_fp: float, c_fn: float) -> bool:
        """Section 2.6: report x where that is expected to cost no more."""
        inside = self.posterior(x, p_x, w)
        return c_fp * (1 - inside) <= c_fn * inside
