"""Rings of a family for a span of time."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, Unpack

import numpy as np

from ..convenience import Options
from ..durations import NANOSECONDS, span_nanoseconds
from ..saved import Saved
from ..sizing import check_rate, expected_keys
from ..spec.base import require
from ..timed_filter import MaxAhead
from ..times import SteadyClock
from .sliding import SlidingFilter
from .timed_ring import TimeLimitedRing


class Spanned(SlidingFilter):
    """Ring of a family that also has a form with a span of time."""

    @classmethod
    def for_span(
        cls,
        span: str | timedelta | np.timedelta64,
        fpr: float = 0.01,
        *,
        rate: float,
        when_full: str = "overfill",
        joinable: bool = False,
        clock: Callable[[], int] | None = None,
        max_ahead: MaxAhead = "1d",
        **options: Unpack[Options],
    ) -> TimeLimitedRing:
        """Build a ring of this family with a clock, for a span of time and a rate.

        Parameters
        ----------
        span : str, timedelta or timedelta64
            Time for which every key is reported, such as "10min".
        fpr : float
            Share of fresh keys that may be reported by chance, while keys arrive at most at the
            `rate`.
        rate : float
            Highest expected rate of insertions, per second.
        when_full : str
            Behaviour if keys arrive faster. With "overfill", `fpr` no longer holds, and every key
            is reported for the span. With "shorten", some keys are reported for a shorter time.
        joinable : bool
            Whether `TimeLimitedRing.union` can join the ring with others. The clock alone turns
            such rings; keys that arrive in bursts then raise the false-positive rate.
        clock : callable, optional
            Function that returns the time in nanoseconds; by default a `SteadyClock`.
        max_ahead : str, timedelta or timedelta64, optional
            As `TimeLimitedRing.max_ahead`; None for no limit.
        **options
            `seed`, `key_bits`, `hash`, `secret` and `rekey`, as for the constructor.

        Returns
        -------
        TimeLimitedRing
            Its times are nanoseconds.

        Raises
        ------
        TypeError, SpecificationError
            If a parameter is of the wrong kind, or out of its range.
        """
        shared = options.get("partitioned", True)
        require(shared is True, "partitioned", "must be True with a span", shared)
        length = span_nanoseconds(span)
        keys = expected_keys(length / NANOSECONDS, rate)
        sized = cls._for_keys(keys, check_rate(fpr), {}, options)
        spec = replace(sized.spec, span=length, when_full=when_full)
        ring = TimeLimitedRing(spec, secret=options.get("secret", 0), joinable=joinable)
        ring.clock, ring.max_ahead = clock or SteadyClock(), max_ahead
        return ring

    @classmethod
    def _loads(cls, kind: type[Saved], parameters: dict[str, Any]) -> bool:
        """Whether `load` accepts a state: also that of a ring that `for_span` returned."""
        if kind is not TimeLimitedRing:
            return super()._loads(kind, parameters)
        return cls._specified(parameters).family == cls.specification.family
