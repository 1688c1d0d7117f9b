"""Scalar twin of `posteriors`: the paper's equations as they are printed, one key at a time.

Plain Python; accurate where no probability is very near 0 or 1. `D` is a
function from a number of insertions to a number of different keys.
"""

from collections.abc import Callable
from math import ceil, inf

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


def g(r_x: int, c_x: int, lambda_x: int, *, m: int, k: int, B: int, b: int, D: Count) -> float:
    """Equation 25."""
    since = (lambda_x - 1) * B + b
    return f(c_x, 0, B, m=m, k=k, D=D) * f(r_x, c_x, since, m=m, k=k, D=D)


def p_evidence(
    i: int, r_x: int, c_x: int, lambda_x: int, *, m: int, k: int, B: int, b: int, D: Count
) -> float:
    """Lemmas 1 and 2: conditional probability of the evidence, P(R_x | i)."""
    if lambda_x == 0:
        return 1.0 if i < b else f(r_x, 0, b, m=m, k=k, D=D)
    if i < (lambda_x - 1) * B + b:
        return 0.0
    if i >= lambda_x * B + b:
        return g(r_x, c_x, lambda_x, m=m, k=k, B=B, b=b, D=D)
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
