"""Expected number of distinct keys among insertions: D(j) of the inferential paper, section 2.5."""

from collections.abc import Callable, Sequence
from math import log

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..filter import require_count

Reals = NDArray[np.float64]
"""Array of real numbers; its shape is given where it is used."""

Distinct = Callable[[ArrayLike], Reals]
"""Takes numbers of insertions, of any shape; returns the expected numbers of distinct keys."""


def all_distinct(insertions: ArrayLike) -> Reals:
    """Return D(j) = j, for a stream of distinct keys.

    The `insertions` j are integers, array_like of any shape. The result is float64 of the same
    shape.

    Raises
    ------
    TypeError, ValueError
        If they are not integers, or one is negative.
    """
    return _counts(insertions).astype(np.float64)


def expected_distinct(insertions: ArrayLike, probabilities: ArrayLike) -> Reals:
    """Expected distinct keys of a stream whose keys have these probabilities (equation 15).

    Each of the `probabilities`, array_like of shape (keys,), is the probability that the next key
    is this key. They are 0 to 1, and their sum is at most 1.

    Parameters, errors, shape of the result: as for `all_distinct` and `checked_probabilities`.
    """
    counts = _counts(insertions)
    chances = checked_probabilities(probabilities).reshape(-1)
    with np.errstate(divide="ignore"):
        logarithms = np.log1p(-chances)
    result = np.zeros(counts.size)
    for index, count in enumerate(counts.reshape(-1).tolist()):
        if count:
            result[index] = -np.expm1(count * logarithms).sum()
    return result.reshape(counts.shape)


def uniform_distinct(insertions: ArrayLike, universe: int) -> Reals:
    """Expected distinct keys of a stream of `universe` equally likely keys (equation 16).

    Parameters, errors, shape of the result: as for `all_distinct`.
    """
    require_count("universe", universe)
    counts = _counts(insertions)
    if universe == 1:
        return (counts > 0).astype(np.float64)
    result: Reals = -universe * np.expm1(counts * np.log1p(-1 / universe))
    return result


def power_law_distinct(insertions: ArrayLike, universe: int) -> Reals:
    """Expected distinct keys of a stream in which the x-th key is as likely as 1 / x (equation 17).

    The equation is an approximation for numbers that are neither small nor
    near ``U H exp(-gamma)``, U being the universe and H its harmonic number.
    It peaks there, and the peak is returned for larger j. It exceeds j for small j, and j is
    returned instead.

    Parameters, errors, shape of the result: as for `all_distinct`; `universe` is U.
    """
    require_count("universe", universe)
    harmonic = _harmonic(universe)
    total = universe * harmonic
    counts = _counts(insertions).astype(np.float64)
    clipped = np.clip(counts, 1, total * np.exp(-np.euler_gamma))
    value = clipped / harmonic * (1 - np.euler_gamma + np.log(total / clipped))
    return np.minimum(value, counts)


def interpolated_distinct(insertions: ArrayLike, at: ArrayLike, distinct: ArrayLike) -> Reals:
    """Interpolate D(j) linearly between points in log-log scale (equation 18).

    Parameters
    ----------
    insertions : array_like of int
        Numbers of insertions: 0, or between the ends of `at`. The result has the same shape.
    at : array_like of int, shape (n,)
        Numbers of insertions for which D is known, ascending.
    distinct : array_like of float, shape (n,)
        D at these numbers, positive.

    Raises
    ------
    TypeError
        If numbers of insertions are not integers.
    ValueError
        If they are outside the range of `at`, or `at` does not ascend.
    """
    counts, known = _counts(insertions), _counts(at)
    values = np.asarray(distinct, np.float64)
    if known.ndim != 1 or known.shape != values.shape or len(known) == 0:
        raise ValueError(
            f"distinct: must have shape (n,) like at, not {values.shape} beside {known.shape}"
        )
    if known[0] < 1 or (np.diff(known) <= 0).any():
        raise ValueError(f"at: must ascend from 1 or more, not {known.tolist()}")
    if not (values > 0).all():
        raise ValueError(f"distinct: must be positive, not {values.min()}")
    some = counts[counts > 0]
    if some.size and (some.min() < known[0] or some.max() > known[-1]):
        raise ValueError(
            f"insertions: must be 0 or between {known[0]} and {known[-1]}, "
            f"not {some.min()} to {some.max()}"
        )
    logarithms = np.interp(np.log(np.maximum(counts, 1)), np.log(known), np.log(values))
    return np.where(counts > 0, np.exp(logarithms), 0.0)


def sampled_distinct(keys: ArrayLike, at: Sequence[int], trials: int) -> Reals:
    """Return mean counts of distinct keys in stretches of a stream, over trials (section 5.3.2).

    The trials start at evenly spaced positions. A stretch that reaches the end of the stream
    continues at the beginning.

    Parameters
    ----------
    keys : array_like of int, shape (n,)
        The stream.
    at : sequence of int
        Lengths of stretches, at most n; the result has one number for each, for
        `interpolated_distinct`.
    trials : int
        Number of trials.

    Raises
    ------
    TypeError, SpecificationError
        If a number is not an integer, or a length exceeds the length of the stream.
    """
    require_count("trials", trials)
    stream = np.unique(np.asarray(keys), return_inverse=True)[1].reshape(-1)
    for length in at:
        require_count("at", length, most=len(stream))
    totals = np.zeros(len(at))
    for trial in range(trials):
        turned = np.roll(stream, -(trial * len(stream) // trials))
        first = np.unique(turned, return_index=True)[1]
        totals += [(first < length).sum() for length in at]
    return totals / trials


def checked_probabilities(probabilities: ArrayLike) -> Reals:
    """Return `probabilities`, array_like of any shape, as an array of float64.

    Raises
    ------
    ValueError
        If a probability is not between 0 and 1.
    """
    chances = np.asarray(probabilities, np.float64)
    wrong = ~((chances >= 0) & (chances <= 1))
    if wrong.any():
        raise ValueError(f"probabilities: must be between 0 and 1, not {chances[wrong].flat[0]}")
    return chances


def _harmonic(universe: int) -> float:
    """Sum of 1 / x for x up to `universe`."""
    if universe <= 1 << 20:
        return float((1 / np.arange(1, universe + 1)).sum())
    # The asymptotic series is exact to universe**-4 / 120.
    return log(universe) + np.euler_gamma + 1 / (2 * universe) - 1 / (12 * universe**2)


def _counts(insertions: ArrayLike) -> NDArray[np.int64]:
    counts = np.asarray(insertions)
    if counts.dtype.kind not in "ui":
        raise TypeError(f"insertions: must be integers, not {counts.dtype}")
    if counts.size and counts.min() < 0:
        raise ValueError(f"insertions: must not be negative, not {counts.min()}")
    return counts.astype(np.int64)
