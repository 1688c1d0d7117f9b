"""Decisions and answers of a filter that infers insertion ages (inferential paper)."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .distinct import Distinct, Reals
from .posteriors import AgePosterior, age_posterior, open_probabilities
from .timestamps import Evidence, TimestampFilter


def minimum_penalty(
    posterior: ArrayLike, *, false_positive: ArrayLike, false_negative: ArrayLike
) -> NDArray[np.bool_]:
    """Decide what each query answers, so that the expected penalty is least (section 2.6).

    Parameters
    ----------
    posterior : array_like of float, shape (n,)
        Probability that the key is in the window.
    false_positive, false_negative : array_like of float, shape (n,) or ()
        What an error costs, 0 or more.

    Returns
    -------
    ndarray of bool, shape (n,)
        True also where both answers cost the same.

    Raises
    ------
    ValueError
        If a posterior is not between 0 and 1, or a penalty is negative or no number.
    """
    chances = np.asarray(posterior, np.float64)
    if not ((chances >= 0) & (chances <= 1)).all():
        raise ValueError("posterior: must be between 0 and 1")
    costs = {"false_positive": false_positive, "false_negative": false_negative}
    for name, cost in costs.items():
        if not (np.asarray(cost, np.float64) >= 0).all():
            raise ValueError(f"{name}: must be 0 or more")
    answer: NDArray[np.bool_] = (
        np.asarray(false_positive) * (1 - chances) <= np.asarray(false_negative) * chances
    )
    return answer


class InferentialFilter:
    """A timing Bloom filter that answers with probabilities (section 4).

    Parameters
    ----------
    model : TimestampFilter
        The filter itself, which goes on to be usable alone.
    distinct : callable
        D(j) of the stream: takes numbers of insertions, returns expected
        numbers of different keys, of the same shape.
    recurring : bool
        As for `age_posterior`.

    Attributes
    ----------
    model : TimestampFilter
    distinct : callable
    recurring : bool
    """

    def __init__(
        self, model: TimestampFilter, *, distinct: Distinct, recurring: bool = False
    ) -> None:
        self.model = model
        self.distinct = distinct
        self.recurring = recurring

    def ages(self, keys: ArrayLike, probabilities: ArrayLike) -> AgePosterior:
        """Infer the insertion age of each key; changes nothing.

        Parameters
        ----------
        keys : array_like of int
            As for `CountedFilter.insert`.
        probabilities : array_like of float, shape (n,) or ()
            p_x of each key, 0 to 1, both excluded.
        """
        return self._ages(self.model.inspect(keys), probabilities)

    def posterior(
        self, keys: ArrayLike, probabilities: ArrayLike, window: int | None = None
    ) -> Reals:
        """Probability that each key is among the last insertions; changes nothing.

        Parameters
        ----------
        keys, probabilities
            As for `ages`.
        window : int, optional
            How many insertions, at most those of the filter, which are the default.

        Returns
        -------
        ndarray of float64, shape (n,)
        """
        return self._within(self.model.inspect(keys), probabilities, window)

    def query(
        self,
        keys: ArrayLike,
        probabilities: ArrayLike,
        *,
        false_positive: ArrayLike,
        false_negative: ArrayLike,
        window: int | None = None,
    ) -> NDArray[np.bool_]:
        """Answer as costs least; parameters as for `posterior` and `minimum_penalty`."""
        return minimum_penalty(
            self.posterior(keys, probabilities, window),
            false_positive=false_positive,
            false_negative=false_negative,
        )

    def posterior_and_insert(
        self, keys: ArrayLike, probabilities: ArrayLike, window: int | None = None
    ) -> Reals:
        """As `posterior`, and insert keys one after another, each after its query."""
        self.model.checked_window(window)
        open_probabilities(probabilities)
        return self._within(self.model.inspect_and_insert(keys), probabilities, window)

    def _ages(self, evidence: Evidence, probabilities: ArrayLike) -> AgePosterior:
        return age_posterior(
            evidence,
            probabilities,
            model=self.model,
            distinct=self.distinct,
            recurring=self.recurring,
        )

    def _within(self, evidence: Evidence, probabilities: ArrayLike, window: int | None) -> Reals:
        limit = self.model.checked_window(window)
        ages = self._ages(evidence, probabilities)
        return ages.within(np.minimum(limit, evidence.insertions))
