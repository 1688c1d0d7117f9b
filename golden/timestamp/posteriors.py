"""Posterior probabilities of insertion ages, from a filter and a prior (inferential paper).

The inferred quantity is I_x, the number of insertions since key x was last inserted. The prior
assumes a stream in which x is the next key with probability p_x, independent of the past (section
2.3.1). The evidence is in the cells of x alone.

For a timing Bloom filter (section 4), the probability of the evidence given
I_x = i is 0 for all i below `start`, constant from there to `end`, and `ratio`
times that constant from `end` on. Theorems 2 to 5 are cases of one sum over
these three pieces, which this module computes. If `start` is at or past the window, the sum is 0
(theorem 2). The case `start` 0 and `end` b is theorem 3. Theorems 4 and 5 are the cases with `end`
up to the window, and past it. Differences of nearly equal numbers are avoided.

The theorems are limits for endless streams. After n insertions they still hold
for windows up to n, because the cells are the same for every i from `end` on as for a key that
never came. A longer window counts as n.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..filter import require_count
from .distinct import Distinct, Reals, checked_probabilities
from .timing import Evidence, Integers, TimestampFilter

# Priors


def prior(age: ArrayLike, probabilities: ArrayLike) -> Reals:
    """Probability of exactly `age` insertions since the key's last one (equations 3 and 4).

    The age i, array_like of int, is less than the number of insertions so far, and
    broadcast against the `probabilities` p_x of the keys, 0 to 1; so is the result.

    Raises
    ------
    ValueError
        If a probability is not between 0 and 1.
    """
    chances = checked_probabilities(probabilities)
    return chances * np.exp(_times(age, _log_absent(chances)))


def prior_never(insertions: ArrayLike, probabilities: ArrayLike) -> Reals:
    """Probability that none of a number of insertions is the key (equation 3); as `prior`."""
    return np.exp(_times(insertions, _log_absent(checked_probabilities(probabilities))))


def prior_between(low: ArrayLike, high: ArrayLike, probabilities: ArrayLike) -> Reals:
    """Probability of an age of `low` or more and below `high` (equation 5); as `prior`."""
    absent = _log_absent(checked_probabilities(probabilities))
    length = np.maximum(np.asarray(high) - np.asarray(low), 0)
    return np.exp(_times(low, absent)) * -np.expm1(_times(length, absent))


# The classical Bloom filter


def bloom_posterior(
    bits: ArrayLike, indices: ArrayLike, probabilities: ArrayLike, *, insertions: int
) -> Reals:
    """Probability that keys are in a classical Bloom filter, from its bits (theorem 1), shape (n,).

    Parameters
    ----------
    bits : array_like of bool, shape (cells,)
        State of any Bloom filter, or of a separate segment.
    indices : array_like of int, shape (n, hashes)
        Cells of each key.
    probabilities : array_like of float, shape (n,) or ()
        Probability p_x that an insertion is the key.
    insertions : int
        Insertions of distinct keys so far.

    Raises
    ------
    TypeError, ValueError
        If `insertions` is not an integer, a shape is wrong, or a probability is not
        between 0 and 1.
    """
    cells, rows = np.asarray(bits, np.bool_), np.sort(np.asarray(indices), axis=-1)
    require_count("insertions", insertions, least=0)
    if cells.ndim != 1 or rows.ndim != 2:
        raise ValueError(
            f"bits, indices: must have shapes (cells,) and (n, hashes), "
            f"not {cells.shape} and {rows.shape}"
        )
    touched = 1 + (np.diff(rows, axis=1) != 0).sum(axis=1)
    absent = insertions * _log_absent(checked_probabilities(probabilities))
    chance = _log_touched(len(cells), rows.shape[1], np.float64(insertions))
    # Both sides of the quotient of theorem 1, multiplied by P(I_x < n).
    inserted = -np.expm1(absent)
    otherwise = np.exp(absent + touched * chance)
    with np.errstate(invalid="ignore"):
        posterior = inserted / (inserted + otherwise)
    return np.where(cells[rows].all(axis=1) & (inserted > 0), posterior, 0.0)


# Timing Bloom filters


@dataclass(frozen=True)
class AgePosterior:
    """Posterior of the insertion age of each key (definition 5), not normalised."""

    start: Integers
    """Least age that the evidence allows, shape (n,)."""
    end: Integers
    """Least age at which only other keys can explain the evidence, shape (n,)."""
    log_ratio: Reals
    """Logarithm of the probability of the evidence from `end` on, divided by that between `start`
    and `end`, shape (n,)."""
    probabilities: Reals
    """p_x of each key, 0 to 1, both excluded, shape (n,)."""

    def within(self, window: ArrayLike) -> Reals:
        """Probability of an age below `window` (equation 9; theorems 2 to 5), shape (n,).

        Parameters
        ----------
        window : array_like of int, shape (n,) or ()
            Insertions.
        """
        window = np.asarray(window)
        absent = _log_absent(self.probabilities)
        near, far = self._weights()
        # Weights are relative to (1 - p)**start.
        inside = np.clip(window - self.start, 0, self.end - self.start)
        beyond = np.maximum(window - np.maximum(self.end, self.start), 0)
        share = -np.expm1(inside * absent) - far * np.expm1(beyond * absent)
        result: Reals = share / (near + far)
        return result

    def at(self, age: ArrayLike) -> Reals:
        """Probability of an age (equation 7), shape (n,); `age` is as `window` of `within`."""
        age = np.asarray(age)
        near, far = self._weights()
        weight = prior(np.maximum(age - self.start, 0), self.probabilities)
        weight *= np.where(age < self.end, 1.0, np.exp(self.log_ratio))
        return np.where(age < self.start, 0.0, weight / (near + far))

    def most_likely(self) -> Integers:
        """Most likely age (section 2.3.3), shape (n,).

        It is `start`: from there on, both the prior and the probability of the
        evidence fall with the age.
        """
        return self.start.copy()

    def expected(self) -> Reals:
        """Expected age (equation 8), shape (n,)."""
        near, far = self._weights()
        rate = -_log_absent(self.probabilities)
        length = (self.end - self.start).astype(np.float64)
        # Means of the geometric distribution below `length`, and from it on.
        cut = _excess(rate) - length * _excess(length * rate)
        tail = length + 1 / np.expm1(rate)
        return self.start + (near * cut + far * tail) / (near + far)

    def _weights(self) -> tuple[Reals, Reals]:
        """Probabilities of ages before and from `end` on, relative to (1 - p)**start."""
        absent = (self.end - self.start) * _log_absent(self.probabilities)
        return -np.expm1(absent), np.exp(absent + self.log_ratio)


def age_posterior(
    evidence: Evidence,
    probabilities: ArrayLike,
    *,
    model: TimestampFilter,
    distinct: Distinct,
    recurring: bool = False,
) -> AgePosterior:
    """Infer insertion ages from the evidence of a timing Bloom filter (section 4).

    If a cell of a key has expired, only one fact is known: the age is at least the window.

    Parameters
    ----------
    evidence : Evidence
        Evidence for n keys.
    probabilities : array_like of float, shape (n,) or ()
        p_x of each key, 0 to 1, both excluded.
    model : TimestampFilter
        Filter that returned the evidence; only its parameters are used, not its cells.
    distinct : callable
        D(j) of the stream, as `distinct.uniform_distinct` with the universe bound;
        takes and returns an array of the same shape.
    recurring : bool
        Whether to count only the keys of a block that did not recur later: ``D(end) - D(start)``
        instead of D(B). Equation 25 assumes two independent events: cells were touched in a block,
        and were not touched since. If most keys of a block recur soon, as in skewed streams with
        long windows, it predicts too many false positives. This option is not in the paper.

    Raises
    ------
    ValueError
        If a probability is out of range, or a timestamp belongs to the current block although the
        block has no insertions.
    """
    age, filled = evidence.age, evidence.filled
    chances = np.broadcast_to(open_probabilities(probabilities), age.shape)
    current = age == 0
    if (current & (filled == 0)).any():
        raise ValueError("evidence: must not be of the current block before its first insertion")
    start = np.maximum((age - 1) * model.block + filled, 0)
    end = age * model.block + filled
    if recurring:
        past = np.maximum(end, 0)
        others = np.maximum(distinct(past) - distinct(np.minimum(start, past)), 0)
    else:
        others = distinct(np.int64(model.block))
    log_ratio = evidence.oldest * _log_touched(model.cells, model.hashes, others)
    if current.any():
        few = _log_touched(model.cells, model.hashes, distinct(filled[current]))
        log_ratio[current] = evidence.touched[current] * few
    expired = age < 0
    start[expired] = end[expired] = model.window
    log_ratio[expired] = 0.0
    return AgePosterior(start, end, log_ratio, chances)


def open_probabilities(probabilities: ArrayLike) -> Reals:
    """Return `probabilities` as `checked_probabilities` does, but refuse 0 and 1.

    Raises
    ------
    ValueError
        If a probability is not above 0 and below 1.
    """
    chances = checked_probabilities(probabilities)
    wrong = (chances == 0) | (chances == 1)
    if wrong.any():
        raise ValueError(
            f"probabilities: must be more than 0 and less than 1, not {chances[wrong].flat[0]}"
        )
    return chances


# Logarithms


def _log_absent(chances: Reals) -> Reals:
    with np.errstate(divide="ignore"):
        result: Reals = np.log1p(-chances)
    return result


def _times(count: ArrayLike, logarithm: Reals) -> Reals:
    """Product that is 0 for a count of 0, even with an infinite logarithm."""
    number = np.asarray(count, np.float64)
    with np.errstate(invalid="ignore"):
        return np.where(number == 0, 0.0, number * logarithm)


def _log_touched(cells: int, hashes: int, distinct: "Reals | np.float64") -> Reals:
    """Logarithm of the probability that different keys touch a cell: F(1, 0, j) (equation 21)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        untouched = hashes * distinct * np.log1p(-1 / cells)
        result: Reals = np.log(-np.expm1(np.where(np.asarray(distinct) == 0, 0.0, untouched)))
    return result


def _excess(rate: Reals) -> Reals:
    """Return 1 / (exp(rate) - 1) - 1 / rate, which is -1/2 at 0."""
    small = rate < 1e-2
    series = -0.5 + rate / 12 - rate**3 / 720
    safe = np.where(small, 1.0, rate)
    with np.errstate(over="ignore"):
        return np.where(small, series, 1 / np.expm1(safe) - 1 / safe)
