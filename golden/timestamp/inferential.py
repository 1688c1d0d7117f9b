"""Inferential filters: posteriors of insertion ages, and cost-based decisions (inferential paper).

The inferred quantity is I_x, the number of insertions since key x was last inserted. The prior
assumes a stream in which x is the next key with probability p_x, independent of the past (section
2.3.1). The evidence is taken only from the cells of x.

For a timing Bloom filter (section 4), the probability of the evidence given I_x = i is 0 for all i
below `start`, constant from there to `end`, and `ratio` times that constant from `end` on. Theorems
2 to 5 are special cases of one sum over these three ranges: `start` is at or past the window
(theorem 2), `start` is 0 and `end` is b (theorem 3), or `end` is within the window (theorem 4) or
past it (theorem 5).

The theorems are limits for endless streams. After n insertions they still hold for windows up to n,
because the cells look the same for every i from `end` on as for a key that was never inserted. A
longer window is treated as n.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import require, require_count, require_number
from ..filter import Answers, CountedFilter, Windows, Words, delegated
from ..hash.keys import Keys, Nulls, scalar_or_array
from ..results import Ages
from ..spec.timestamp import InferentialSpec
from .distinct import Distinct, Reals, checked_distinct, checked_probabilities, distinct_function
from .timing import BlockTimingBloomFilter, Evidence, Integers, TimestampFilter


def prior(age: ArrayLike, probabilities: ArrayLike) -> Reals:
    """Return the prior probability that the insertion age of a key is `age` (equation 4)."""
    chances = checked_probabilities(probabilities)
    return chances * np.exp(_times(age, _log_absent(chances)))


def bloom_posterior(
    bits: ArrayLike, indices: ArrayLike, probabilities: ArrayLike, *, insertions: int
) -> Reals:
    """Return the probability that keys were inserted into a Bloom filter (theorem 1).

    `bits` has shape (cells,), `indices` has shape (n, hashes), and the result has shape (n,).
    """
    cells, rows = np.asarray(bits, np.bool_), np.sort(np.asarray(indices), axis=-1)
    require_count("insertions", insertions, low=0)
    if cells.ndim != 1 or rows.ndim != 2:
        raise ValueError(
            f"bits, indices: must have shapes (cells,) and (n, hashes), "
            f"not {cells.shape} and {rows.shape}"
        )
    touched = 1 + (np.diff(rows, axis=1) != 0).sum(axis=1)
    absent = insertions * _log_absent(checked_probabilities(probabilities))
    chance = _log_touched(len(cells), rows.shape[1], np.float64(insertions))
    # Numerator and denominator of theorem 1, multiplied by P(I_x < n).
    inserted = -np.expm1(absent)
    otherwise = np.exp(absent + touched * chance)
    with np.errstate(invalid="ignore"):
        posterior = inserted / (inserted + otherwise)
    return np.where(cells[rows].all(axis=1) & (inserted > 0), posterior, 0.0)


@dataclass(frozen=True)
class AgePosterior:
    """Unnormalised posterior of the insertion ages of n keys (definition 5).

    All attributes have shape (n,).
    """

    start: Integers  # minimum age that the evidence allows
    end: Integers  # minimum age at which only other keys can explain the evidence
    # logarithm of P(evidence | age at least `end`) / P(evidence | age below `end`)
    log_ratio: Reals
    probabilities: Reals  # p_x, 0 < p_x < 1

    def within(self, window: ArrayLike) -> Reals:
        """Return the probability that each age is below `window` (equation 9; theorems 2 to 5)."""
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
        """Return the probability that each key's age is `age` (equation 7), shape (n,)."""
        age = np.asarray(age)
        near, far = self._weights()
        weight = prior(np.maximum(age - self.start, 0), self.probabilities)
        weight *= np.where(age < self.end, 1.0, np.exp(self.log_ratio))
        return np.where(age < self.start, 0.0, weight / (near + far))

    def most_likely(self) -> Integers:
        """Return the most likely age of each key, shape (n,).

        The result is `start`, because the prior and the probability of the evidence both decrease
        from there on (section 2.3.3).
        """
        return self.start.copy()

    def expected(self) -> Reals:
        """Return the expected age of each key (equation 8), shape (n,)."""
        near, far = self._weights()
        rate = -_log_absent(self.probabilities)
        length = (self.end - self.start).astype(np.float64)
        # Means of the geometric distribution below `length`, and from `length` on.
        cut = _excess(rate) - length * _excess(length * rate)
        tail = length + 1 / np.expm1(rate)
        return self.start + (near * cut + far * tail) / (near + far)

    def _weights(self) -> tuple[Reals, Reals]:
        """Return the weights of ages below `end` and from `end` on, relative to (1 - p)**start."""
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

    Only the parameters of `model` are used, not its cells. `distinct` is the function D(j) of the
    stream. With `recurring`, the keys of a block that recur later are not counted: the number of
    other keys in a block is ``D(end) - D(start)`` instead of D(B). This option is not in the paper.
    Equation 25 of the paper assumes that cells are touched in a block independently of later
    blocks, so it predicts too many false positives for skewed streams.
    """
    age, filled = evidence.age, evidence.filled
    chances = np.broadcast_to(_open_probabilities(probabilities), age.shape)
    current = age == 0
    if (current & (filled == 0)).any():
        raise ValueError("evidence: filled must be at least 1 where the age is 0")
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


def _open_probabilities(probabilities: ArrayLike) -> Reals:
    chances = checked_probabilities(probabilities)
    wrong = (chances == 0) | (chances == 1)
    if wrong.any():
        raise ValueError(
            f"probabilities: must be more than 0 and less than 1, not {chances[wrong].flat[0]}"
        )
    return chances


def _log_absent(chances: Reals) -> Reals:
    with np.errstate(divide="ignore"):
        result: Reals = np.log1p(-chances)
    return result


def _times(count: ArrayLike, logarithm: Reals) -> Reals:
    """Return ``count * logarithm``, or 0 if `count` is 0 and the logarithm is infinite."""
    number = np.asarray(count, np.float64)
    with np.errstate(invalid="ignore"):
        return np.where(number == 0, 0.0, number * logarithm)


def _log_touched(cells: int, hashes: int, distinct: "Reals | np.float64") -> Reals:
    """Return the log-probability that any of `distinct` keys touches a cell.

    This is the logarithm of F(1, 0, j) in equation 21.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        untouched = hashes * distinct * np.log1p(-1 / cells)
        result: Reals = np.log(-np.expm1(np.where(np.asarray(distinct) == 0, 0.0, untouched)))
    return result


def _excess(rate: Reals) -> Reals:
    """Return 1 / (exp(rate) - 1) - 1 / rate, or the limit -1/2 if `rate` is 0."""
    small = rate < 1e-2
    series = -0.5 + rate / 12 - rate**3 / 720
    safe = np.where(small, 1.0, rate)
    with np.errstate(over="ignore"):
        return np.where(small, series, 1 / np.expm1(safe) - 1 / safe)


def minimum_penalty(
    posterior: ArrayLike, *, false_positive: ArrayLike, false_negative: ArrayLike
) -> NDArray[np.bool_]:
    """Return the answers that minimise the expected penalty (section 2.6); a tie gives True."""
    chances = np.asarray(posterior, np.float64)
    if not ((chances >= 0) & (chances <= 1)).all():
        raise ValueError("posterior: must be between 0 and 1")
    wrongly_reported = _checked_penalties("false_positive", false_positive)
    wrongly_denied = _checked_penalties("false_negative", false_negative)
    return wrongly_reported * (1 - chances) <= wrongly_denied * chances


def _checked_penalties(name: str, penalties: ArrayLike) -> Reals:
    costs = np.asarray(penalties, np.float64)
    wrong = ~((costs >= 0) & (costs < np.inf))
    if wrong.any():
        raise ValueError(f"{name}: must be finite and at least 0, not {costs[wrong].flat[0]}")
    return costs


class InferentialFilter(CountedFilter):
    """Timing Bloom filter that gives the answer with the minimum expected cost (sections 2.6, 4).

    It infers the probability that a key is among the last insertions, and reports the key if a
    false positive has no greater expected cost than a false negative. So it may miss keys of its
    window, and may not report keys that the timing Bloom filter reports. With a `false_positive` of
    0, it reports every key. With a `false_negative` of 0, it reports only keys that are certain to
    be in the window.

    Its parameters are those of `InferentialSpec`. `distinct` describes D(j), the expected number of
    distinct keys in j insertions, so that a state file can hold it. For any other function, pass a
    timing Bloom filter and a result of its `inspect` to `age_posterior`. The attribute `model` is
    the `BlockTimingBloomFilter` that holds the cells.
    """

    specification = InferentialSpec

    window: int
    cells: int
    hashes: int
    block: int
    padding: int
    probability: float
    false_positive: float
    false_negative: float
    recurring: bool
    _distinct: dict[str, Any]

    def _prepare(self) -> None:
        shared = BlockTimingBloomFilter.__signature__.parameters
        self.model = BlockTimingBloomFilter(**{name: getattr(self, name) for name in shared})
        self.model._lock = self._lock
        self.padding = self.model.padding
        if not isinstance(self.recurring, bool):
            raise TypeError(f"recurring: must be True or False, not {self.recurring!r}")
        reach = self.window + self.block - 1 if self.recurring else self.block
        self._distinct = checked_distinct(self._distinct, reach=reach)
        self._count = distinct_function(self._distinct)
        rule = "more than 0 and less than 1"
        self.probability = _number("probability", self.probability, lambda p: 0 < p < 1, rule)
        for name in ("false_positive", "false_negative"):
            rule = "finite and at least 0"
            setattr(self, name, _number(name, getattr(self, name), lambda c: 0 <= c < inf, rule))
        self._hash = self.model._hash

    @property
    def distinct(self) -> dict[str, Any]:
        """Description of D(j), the expected number of distinct keys in j insertions."""
        return deepcopy(self._distinct)

    memory: NDArray[np.uint32] = delegated("model.memory", "Cells of `model`, shape (cells,).")
    storage_bits: int = delegated("model.storage_bits", "Total width of all cells in bits.")
    nbytes: int = delegated("model.nbytes", "Bytes of memory that the cells occupy.")
    fill: float = delegated("model.fill", "Fraction of cells that have not expired.")
    insertions: int = delegated("model.insertions", "Insertions since construction or `clear`.")

    def _empty(self) -> None:
        self.model._empty()

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return self.model._state()

    def _restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.model._restore(numbers, arrays)

    def _insert(self, keys: Words) -> None:
        self.model._insert(keys)

    def _query(self, keys: Words) -> Answers:
        return self._decide(self.model._inspect(keys))

    def _check_and_insert(self, keys: Words) -> Answers:
        return self._decide(self.model._inspect(keys, insert=True))

    def _age(self, keys: Words) -> Ages:
        return self._min_ages(self.model._inspect(keys))

    def _age_and_insert(self, keys: Words) -> Ages:
        return self._min_ages(self.model._inspect(keys, insert=True))

    @scalar_or_array
    def query(
        self,
        keys: Keys,
        window: Windows = None,
        *,
        nulls: Nulls = "refuse",
        probabilities: ArrayLike | None = None,
        false_positive: ArrayLike | None = None,
        false_negative: ArrayLike | None = None,
    ) -> NDArray[np.bool_]:
        """Return the answer with the minimum expected cost for each key (section 2.6).

        The filter is not changed. `window` is one number, or an array with a number for each key;
        the maximum and the default are the filter's window. If the stream is shorter than the
        window, all insertions count. `probabilities` are the p_x, above 0 and below 1, and costs
        are at least 0; both have shape (n,) or (), and default to those of the filter. The answers
        have shape (n,); if both answers cost the same, the answer is True. Raises TypeError or
        ValueError like `insert` and `checked_window`, and if a probability or cost is out of range
        or has another shape.
        """
        return self._answers(keys, window, probabilities, false_positive, false_negative)

    @scalar_or_array
    def check_and_insert(
        self,
        keys: Keys,
        window: Windows = None,
        *,
        refresh: bool = True,
        nulls: Nulls = "refuse",
        probabilities: ArrayLike | None = None,
        false_positive: ArrayLike | None = None,
        false_negative: ArrayLike | None = None,
    ) -> NDArray[np.bool_]:
        """Query each key and then insert it, one key after another.

        The answer for a key describes the filter before the insertion of this key. Every key is
        inserted, so `refresh` must be True. Other parameters, errors and the result, shape (n,),
        are those of `query`.
        """
        if not refresh:
            raise ValueError(f"refresh: must be True for {type(self).__name__}, not {refresh}")
        costs = false_positive, false_negative
        seen = self._answers(keys, window, probabilities, *costs, insert=True)
        self._note_events(len(seen), len(seen), seen)
        return seen

    def ages(self, keys: Keys, *, probabilities: ArrayLike | None = None) -> AgePosterior:
        """Infer the insertion age of each key (section 4), without changing the filter.

        The arrays of the result have shape (n,).
        """
        checked = self._words(keys)
        return self._ages(self.model._inspect(checked), self._chances(checked, probabilities))

    @scalar_or_array
    def posterior(
        self, keys: Keys, window: Windows = None, *, probabilities: ArrayLike | None = None
    ) -> Reals:
        """Return the probability that each key is in the window, without changing the filter.

        The result has shape (n,).
        """
        return self._posterior(self._words(keys), window, probabilities, False)

    @scalar_or_array
    def posterior_and_insert(
        self, keys: Keys, window: Windows = None, *, probabilities: ArrayLike | None = None
    ) -> Reals:
        """Insert keys, and return the `posterior` of each before its insertion, shape (n,)."""
        posterior = self._posterior(self._words(keys), window, probabilities, True)
        self._note_events(len(posterior), len(posterior))
        return posterior

    def _decide(self, evidence: Evidence) -> Answers:
        posterior = self._within(evidence, np.asarray(self.probability), self.window)
        return minimum_penalty(
            posterior, false_positive=self.false_positive, false_negative=self.false_negative
        )

    def _min_ages(self, evidence: Evidence) -> Ages:
        ages = self.model._ages_of(evidence)
        return np.where(self._decide(evidence), np.where(ages < 0, self.window, ages), -1)

    def _ages(self, evidence: Evidence, chances: Reals) -> AgePosterior:
        return age_posterior(
            evidence, chances, model=self.model, distinct=self._count, recurring=self.recurring
        )

    def _within(self, evidence: Evidence, chances: Reals, limit: "Ages | int") -> Reals:
        return self._ages(evidence, chances).within(np.minimum(limit, evidence.insertions))

    def _answers(
        self,
        keys: Keys,
        window: Windows,
        probabilities: ArrayLike | None,
        *costs: ArrayLike | None,
        insert: bool = False,
    ) -> Answers:
        words = self._words(keys)
        penalties = {
            name: getattr(self, name)
            if cost is None
            else _each(name, _checked_penalties(name, cost), words)
            for name, cost in zip(("false_positive", "false_negative"), costs, strict=True)
        }
        return minimum_penalty(self._posterior(words, window, probabilities, insert), **penalties)

    def _posterior(
        self, keys: Words, window: Windows, probabilities: ArrayLike | None, insert: bool
    ) -> Reals:
        limits = self.model._each_window(window, len(keys))
        chances = self._chances(keys, probabilities)
        return self._within(self.model._inspect(keys, insert=insert), chances, limits)

    def _chances(self, keys: Words, probabilities: ArrayLike | None) -> Reals:
        if probabilities is None:
            return np.asarray(self.probability, np.float64)
        return _each("probabilities", _open_probabilities(probabilities), keys)


def _each(name: str, values: Reals, keys: Words) -> Reals:
    count = (len(keys),)
    if values.shape not in ((), count):
        raise ValueError(f"{name}: must have shape () or {count}, not {values.shape}")
    return values


def _number(name: str, value: Any, fits: Callable[[float], bool], rule: str) -> float:
    require_number(name, value)
    try:
        number = float(value)
    except OverflowError:
        number = inf
    require(fits(number), name, f"must be {rule}", value)
    return number
