"""Decisions and answers of a filter that infers insertion ages (inferential paper)."""

from collections.abc import Callable
from copy import deepcopy
from math import inf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import SpecificationError
from ..filter import Answers, CountedFilter, Windows, Words
from ..hash.keys import Keys, Nulls, one_or_all
from ..results import Ages
from ..spec.timestamp import InferentialSpec
from .distinct import Reals, checked_distinct, distinct_function
from .posteriors import AgePosterior, age_posterior, open_probabilities
from .timing import BlockTimingBloomFilter, Evidence


def minimum_penalty(
    posterior: ArrayLike, *, false_positive: ArrayLike, false_negative: ArrayLike
) -> NDArray[np.bool_]:
    """Decide on the answer to each query that minimises the expected penalty (section 2.6).

    The answers, shape (n,), are True if both answers cost the same.

    Parameters
    ----------
    posterior : array_like of float, shape (n,)
        Probability that the key is in the window.
    false_positive, false_negative : array_like of float, shape (n,) or ()
        Cost of an error, at least 0 and finite.

    Raises
    ------
    ValueError
        If a posterior is not between 0 and 1, or a penalty is negative or not finite.
    """
    chances = np.asarray(posterior, np.float64)
    if not ((chances >= 0) & (chances <= 1)).all():
        raise ValueError("posterior: must be between 0 and 1")
    wrongly_reported = checked_penalties("false_positive", false_positive)
    wrongly_denied = checked_penalties("false_negative", false_negative)
    return wrongly_reported * (1 - chances) <= wrongly_denied * chances


def checked_penalties(name: str, penalties: ArrayLike) -> Reals:
    """Return the `penalties` of a parameter `name`, of any shape, as an array of float64.

    Raises
    ------
    ValueError
        If a penalty is negative, infinite or not a number.
    """
    costs = np.asarray(penalties, np.float64)
    wrong = ~((costs >= 0) & (costs < np.inf))
    if wrong.any():
        raise ValueError(f"{name}: must be 0 or more and finite, not {costs[wrong].flat[0]}")
    return costs


class InferentialFilter(CountedFilter):
    """A timing Bloom filter that gives the answer of least expected cost (sections 2.6 and 4).

    It infers the probability that a key is among the last insertions. It reports the key if a false
    positive has no greater expected cost than a false negative. Hence it may miss keys of its
    window if a miss costs less than a false positive. It may also not report keys that the timing
    Bloom filter reports. With a `false_positive` of 0 it reports every key; with a `false_negative`
    of 0, only keys that are certain to be in the window.

    Parameters
    ----------
    window : int
        w, the largest and default window of a query, in insertions; at most 2**30.
    cells, hashes : int
        As for `TimingBloomFilter`.
    distinct : mapping
        D(j) of the stream, the expected number of distinct keys among j
        insertions; see `checked_distinct` for the kinds. It must be known up to
        `block` insertions; with `recurring`, up to ``window + block - 1``. A
        function is not accepted, because a state file cannot hold a function. To use a function,
        pass it to `age_posterior` with a timing Bloom filter and the result of its method `inspect`
        for the keys.
    probability : float
        p_x, the default probability that a key is the next one; between 0 and 1, both excluded.
    false_positive, false_negative : float
        Default cost of an error; at least 0, finite.
    recurring : bool
        As for `age_posterior`.
    block : int
        Insertions that share a timestamp; 1 for a timing Bloom filter, more for a block timing
        Bloom filter.
    padding : int, optional
        As for `BlockTimingBloomFilter`.

    Attributes
    ----------
    model : BlockTimingBloomFilter
        Stored cells, with the answers of the standard filter.
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
        self.probability = _probability(self.probability)
        self.false_positive = _penalty("false_positive", self.false_positive)
        self.false_negative = _penalty("false_negative", self.false_negative)
        self._hash = self.model._hash

    @property
    def distinct(self) -> dict[str, Any]:
        """D(j) as values for JSON."""
        return deepcopy(self._distinct)

    @property
    def memory(self) -> NDArray[np.uint32]:
        """Contents of the cells; ndarray of uint32, shape (cells,)."""
        return self.model.timestamps

    @property
    def storage_bits(self) -> int:
        """Bits of all cells (section 3.2); the prior needs no memory."""
        return self.model.storage_bits

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the cells occupy in this process."""
        return self.model.nbytes

    @property
    def insertions(self) -> int:
        """Insertions since construction, or since `clear`."""
        return self.model.insertions

    def _empty(self) -> None:
        self.model._empty()

    def _state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return self.model._state()

    def _restore(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.model._restore(numbers, arrays)

    # Operations

    def _insert(self, keys: Words) -> None:
        self.model._insert(keys)

    @property
    def fill(self) -> float:
        """Share of the cells that have not expired."""
        return self.model.fill

    def _query(self, keys: Words) -> Answers:
        return self._decide(self.model._inspect(keys))

    def _check_and_insert(self, keys: Words) -> Answers:
        return self._decide(self.model._inspect_and_insert(keys))

    def _age(self, keys: Words) -> Ages:
        return self._least_ages(self.model._inspect(keys))

    def _age_and_insert(self, keys: Words) -> Ages:
        return self._least_ages(self.model._inspect_and_insert(keys))

    @one_or_all
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
        """Give the answer of least expected cost (section 2.6); changes nothing.

        The `window` is at most the filter's window, which is the default; it is one number, or one
        for each key. In a shorter stream all insertions count. The answers, shape (n,), are True if
        both answers cost the same.

        Parameters
        ----------
        keys : array_like of int
            As for `insert`.
        probabilities : array_like of float, shape (n,) or (), optional
            p_x of each key, between 0 and 1, both excluded; by default `probability`.
        false_positive, false_negative : array_like of float, shape (n,) or (), optional
            Cost of an error, at least 0; by default the filter's cost.

        Raises
        ------
        TypeError, ValueError
            As for `insert` and `checked_window`, or if a probability or penalty is
            out of its range or of another shape.
        """
        posterior, costs = self._asked(
            self.model._inspect, keys, window, probabilities, false_positive, false_negative
        )
        return minimum_penalty(posterior, **costs)

    @one_or_all
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
        """Query and insert keys one after another; each answer precedes its insertion.

        After an error nothing is inserted. Parameters, errors, result of shape (n,): as `query`.
        Every key is inserted: `refresh` must be True.
        """
        if not refresh:
            raise ValueError(f"refresh: must be True for {type(self).__name__}, not {refresh}")
        inspect = self.model._inspect_and_insert
        posterior, costs = self._asked(
            inspect, keys, window, probabilities, false_positive, false_negative
        )
        seen = minimum_penalty(posterior, **costs)
        self._note_events(len(seen), len(seen), seen)
        return seen

    def ages(self, keys: Keys, *, probabilities: ArrayLike | None = None) -> AgePosterior:
        """Infer the insertion age of each key (section 4); changes nothing.

        Parameters, errors: as `query`.
        """
        checked = self._words(keys)
        return self._ages(self.model._inspect(checked), self._chances(checked, probabilities))

    @one_or_all
    def posterior(
        self, keys: Keys, window: Windows = None, *, probabilities: ArrayLike | None = None
    ) -> Reals:
        """Probability that each key is among the last insertions, shape (n,); changes nothing.

        Parameters, errors: as `query`.
        """
        return self._asked(self.model._inspect, keys, window, probabilities)[0]

    @one_or_all
    def posterior_and_insert(
        self, keys: Keys, window: Windows = None, *, probabilities: ArrayLike | None = None
    ) -> Reals:
        """Insert keys one after another; return the earlier `posterior` of each, shape (n,).

        Parameters, errors: as `query`.
        """
        posterior = self._asked(self.model._inspect_and_insert, keys, window, probabilities)[0]
        self._note_events(len(posterior), len(posterior))
        return posterior

    def _decide(self, evidence: Evidence) -> Answers:
        """Give the answer of least expected cost, by the filter's probability and penalties."""
        posterior = self._within(evidence, np.asarray(self.probability), self.window)
        return minimum_penalty(
            posterior, false_positive=self.false_positive, false_negative=self.false_negative
        )

    def _least_ages(self, evidence: Evidence) -> Ages:
        """Return the ages of the reported keys; for an expired key, the window."""
        ages = self.model._ages_of(evidence)
        return np.where(self._decide(evidence), np.where(ages < 0, self.window, ages), -1)

    def _ages(self, evidence: Evidence, chances: Reals) -> AgePosterior:
        return age_posterior(
            evidence, chances, model=self.model, distinct=self._count, recurring=self.recurring
        )

    def _within(self, evidence: Evidence, chances: Reals, limit: "Ages | int") -> Reals:
        return self._ages(evidence, chances).within(np.minimum(limit, evidence.insertions))

    # Values from the query, or else from the filter

    def _asked(
        self,
        inspect: Callable[[Words], Evidence],
        keys: Keys,
        window: Windows,
        probabilities: ArrayLike | None,
        *costs: ArrayLike | None,
    ) -> tuple[Reals, dict[str, Any]]:
        """Check the arguments of a query, inspect the keys, and return posteriors and penalties."""
        checked = self._words(keys)
        penalties = {
            name: getattr(self, name)
            if cost is None
            else _each(name, checked_penalties(name, cost), checked)
            for name, cost in zip(("false_positive", "false_negative"), costs, strict=False)
        }
        limits = self.model._each_window(window, len(checked))
        chances = self._chances(checked, probabilities)
        return self._within(inspect(checked), chances, limits), penalties

    def _chances(self, keys: Words, probabilities: ArrayLike | None) -> Reals:
        if probabilities is None:
            return np.asarray(self.probability, np.float64)
        return _each("probabilities", open_probabilities(probabilities), keys)


def _each(name: str, values: Reals, keys: Words) -> Reals:
    """Refuse values whose number is neither one nor the number of keys."""
    count = (len(keys),)
    if values.shape not in ((), count):
        raise ValueError(f"{name}: must have shape () or {count}, not {values.shape}")
    return values


def _probability(value: object) -> float:
    number = _number("probability", value)
    if not 0 < number < 1:
        raise SpecificationError(f"probability: must be more than 0 and less than 1, not {value}")
    return number


def _penalty(name: str, value: object) -> float:
    number = _number(name, value)
    if not 0 <= number < inf:
        raise SpecificationError(f"{name}: must be 0 or more and finite, not {value}")
    return number


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{name}: must be a number, not {value!r}")
    try:
        return float(value)
    except OverflowError:
        return inf
