"""Base class of filters whose window is a span of time."""

from abc import abstractmethod
from collections.abc import Callable, Iterable
from datetime import timedelta
from fractions import Fraction
from typing import Any, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .durations import NANOSECONDS, span_nanoseconds, time_text
from .errors import require_count
from .filter import Answers, Filter, Number, Options, State, Words, taking_single_keys
from .hash.keys import Key, Keys, Nulls, scalar_or_array, skipping_nulls
from .results import Ages
from .sizing import check_rate, expected_keys
from .times import (
    SINCE_1970,
    TIME_LIMIT,
    Now,
    SteadyClock,
    Times,
    check_each,
    check_timestamps,
    nanoseconds,
)

DAY = 86_400 * NANOSECONDS  # default for `max_ahead`
MaxAhead = str | timedelta | np.timedelta64 | None


@taking_single_keys
class TimedFilter(Filter):
    """Filter whose window is a span of time.

    A filter that `for_span` built has a clock in nanoseconds, which supplies the time of an
    operation if `now` is omitted. A clock that returns `10**17` or more counts nanoseconds since
    1970; numbers that would then be times before 1973 or after 2116 are refused, because they
    probably have another unit or epoch. Other filters have no clock: you pass each time, as an
    integer in a unit of your choice.

    The time of an insertion never decreases: an insertion with an earlier timestamp than a previous
    insertion is *late*, and gets the time of the previous insertion. A query takes effect at `now`
    or at `latest`, whichever is later, and reports each key that was inserted at most `span`
    earlier. (A ring may shorten its window: see `TimeLimitedRing.status`.) Methods that report the
    state of the filter, such as `TimeLimitedRing.status`, use the clock if `now` is omitted; they
    use `latest` if there is no clock, or if you have passed the time of an insertion.
    """

    age_unit = "generations"
    _NUMBERS = 4
    late = Number(3)
    _chooser = "for_window(span, fpr, rate=rate)"
    _clock: Callable[[], int] | None = None
    _max_ahead: int | None = DAY
    _event_times = False  # whether the caller has passed the time of an insertion
    span: int

    @classmethod
    def for_window(
        cls,
        span: int,
        fpr: float = 0.01,
        *,
        rate: float,
        **options: Unpack[Options],
    ) -> Self:
        """Build a filter without a clock for a span of time and a false-positive rate.

        Every key is reported for `span`, in units of the timestamps. The expected false-positive
        rate is at most `fpr` if there are at most `rate` insertions per unit of time. The
        `options` are passed to the constructor.

        TypeError or SpecificationError if a parameter is not a number or is out of range.
        """
        require_count("span", span, high=TIME_LIMIT - 1)
        keys = expected_keys(int(span), rate)
        return cls._for_keys(keys, check_rate(fpr), {"span": int(span)}, options)

    @classmethod
    def for_span(
        cls,
        span: str | timedelta | np.timedelta64,
        fpr: float = 0.01,
        *,
        rate: float,
        clock: Callable[[], int] | None = None,
        max_ahead: MaxAhead = "1d",
        **options: Unpack[Options],
    ) -> Self:
        """Build a filter with a clock for a span of time and a false-positive rate.

        Every key is reported for `span`, for example "10min". The expected false-positive rate is
        at most `fpr` if there are at most `rate` insertions per second. The default `clock` is a
        `SteadyClock`. `max_ahead` sets the attribute of this name; None means no limit. The
        `options` are passed to the constructor.

        TypeError or SpecificationError if a parameter has the wrong type or is out of range.
        """
        length, given = cls._spanned(span_nanoseconds(span), {**options})
        keys = expected_keys(length / NANOSECONDS, rate)
        self = cls._for_keys(keys, check_rate(fpr), {"span": length}, given)
        self.clock, self.max_ahead = clock or SteadyClock(), max_ahead
        return self

    @classmethod
    def _spanned(cls, span: int, options: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        return span, options

    @property
    def clock(self) -> Callable[[], int] | None:
        """Function that returns the time in nanoseconds; None if the filter has no clock.

        A loaded or unpickled filter has the `clock` that was passed to `load`, or, if the saved
        filter had a clock, a `SteadyClock`.
        """
        return self._clock

    @clock.setter
    def clock(self, clock: Callable[[], int] | None) -> None:
        self._clock = clock

    @property
    def max_ahead(self) -> int | None:
        """Maximum number of nanoseconds by which an insertion may be ahead of the clock.

        None means no limit. An insertion that is further ahead is refused, because all later
        insertions would get its time, and no key would expire until then. You can assign any value
        that `for_span` accepts.
        """
        return self._max_ahead

    @max_ahead.setter
    def max_ahead(self, limit: MaxAhead) -> None:
        self._max_ahead = None if limit is None else span_nanoseconds(limit, "max_ahead")

    @property
    def window(self) -> int:
        """Span of time, in units of the timestamps: every key up to this age is reported."""
        return self.span

    def add(self, key: Key, now: Now = None) -> None:
        """Insert a single key, like `set.add`; TypeError for several keys.

        Other errors are those of `insert`.
        """
        self.insert(self._only_one("add", key), now)

    def update(self, *several: Iterable[Key] | ArrayLike, now: Now = None) -> None:
        """Insert all keys of iterables or arrays, like `set.update`; TypeError for a single key."""
        for keys in several:
            self.insert(self._no_single("update", keys), now)

    def _window_text(self) -> str:
        if self._clock is None:
            return f"window of {self.span:,} units of time"
        return f"window of {time_text(Fraction(self.span, NANOSECONDS))}"

    @property
    @abstractmethod
    def _last(self) -> int: ...

    @property
    def latest(self) -> int:
        """Time of the last insertion; -1 if nothing has been inserted."""
        return self._last

    def _ask_now(self, key: Key) -> Any:
        return self.query(key, max(self._last, 0) if self._clock is None else None)

    @skipping_nulls
    def insert(self, keys: Keys, now: Now = None, *, nulls: Nulls = "refuse") -> None:
        """Insert keys, like `CountedFilter.insert`, one after another at the times `now`.

        `now` has shape (n,) or (); the default is the clock's time. A filter without a clock
        accepts only integers. A filter with a clock accepts integers in nanoseconds since 1970,
        floats in seconds since 1970, datetime64 and datetime; a time must be at most `max_ahead`
        after the clock's time. A time before `latest` is replaced by `latest` and counted in
        `late`. The times of skipped nulls have no effect.

        TypeError if the times have the wrong type, or if there is neither a time nor a clock;
        ValueError if a time is out of range, or an array has the wrong shape. Other errors are
        those of `CountedFilter.insert`. After an error, nothing has been inserted.
        """
        words = self._words(keys)
        times, late = self._arrivals(words, now)
        self._insert(words, times)
        self._note_events(len(words), len(words))
        self.late += int(np.count_nonzero(late))

    @scalar_or_array
    def query(self, keys: Keys, now: Now = None, *, nulls: Nulls = "refuse") -> Answers:
        """Return whether each key is in the filter at the times `now`, without changing the filter.

        Parameters and errors are those of `insert`, but times before `latest` are not counted in
        `late`. The result is an ndarray of bool with shape (n,), or a bool for a single key.
        """
        words = self._words(keys)
        return self._query(words, self._moments(now, len(words)))

    @scalar_or_array
    def check_and_insert(
        self, keys: Keys, now: Now = None, *, refresh: bool = True, nulls: Nulls = "refuse"
    ) -> Answers:
        """Query each key and then insert it, one key after another.

        The result for a key describes the filter before the insertion of this key. `refresh` has
        the same effect as in `CountedFilter.check_and_insert`, with the span as the window. Other
        parameters and errors are those of `insert`; the result, shape (n,), is that of `query`.
        """
        return self._check_each(self._words(keys), now, refresh)

    def _check_each(self, keys: Words, now: Now, refresh: bool, *windows: Any) -> Answers:
        if not refresh:
            given = self._given(now, len(keys), inserts=True)
            return self._checked_and_inserted(keys, given, *windows, refresh=False)
        times, late = self._arrivals(keys, now)
        seen = self._checked_and_inserted(keys, times, *windows)
        self.late += int(np.count_nonzero(late))
        return seen

    def _check_and_insert_new(self, keys: Words, given: Times, windows: Any = None) -> Answers:
        seen = np.empty(len(keys), np.bool_)
        if self._engine is not None and windows is None:
            operands = np.ascontiguousarray(keys), seen, np.ascontiguousarray(given)
            self._engine.check_and_insert_new(*operands)
            return seen
        for at in range(len(keys)):
            part = slice(at, at + 1)
            times = np.maximum(given[part], self._last)
            asked = () if windows is None else (windows[part],)
            seen[at] = self._query(keys[part], times, *asked)[0]
            if not seen[at]:
                self.late += int(times[0] != given[at])
                self._check_and_insert(keys[part], times)
        return seen

    @scalar_or_array
    def age(self, keys: Keys, now: Now = None, *, nulls: Nulls = "refuse") -> Ages:
        """Return the minimum possible age of each key in generations, without changing the filter.

        The age is 0 for the current generation, and -1 for a key that is not reported. Parameters
        and errors are those of `query`. The result is an ndarray of int64 with shape (n,), or an
        int for a single key.
        """
        words = self._words(keys)
        return self._age(words, self._moments(now, len(words)))

    def _arrivals(self, keys: Words, now: Now) -> tuple[Times, Answers]:
        """Return non-decreasing insertion times, and whether each insertion is late."""
        given = self._given(now, len(keys), inserts=True)
        times = np.maximum.accumulate(np.maximum(given, self._last))
        return times, times != given

    def _moments(self, now: Now, count: int) -> Times:
        return np.maximum(self._given(now, count), self._last)

    def _moment(self, now: Now) -> int:
        """Return the time at which the state is reported: `now`, the clock's time, or `latest`."""
        if now is None and (self._clock is None or self._event_times):
            return max(self._last, 0)
        return int(self._moments(now, 1)[0])

    def _given(self, now: Now, count: int, *, inserts: bool = False) -> Times:
        if now is None and self._clock is None:
            raise TypeError(f"now: must be given for a {type(self).__name__} without a clock")
        if now is None:
            return np.full(count, self._clock_time())
        return self._on_clock("now", now, lambda times: check_each("now", times, count), inserts)

    def _checked_times(self, times: ArrayLike | None, count: int) -> Times:
        # As in hardware, where time cannot decrease.
        if times is None:
            raise TypeError(f"times: must be given for {type(self).__name__}")
        return self._on_clock("times", times, lambda t: check_timestamps(t, count, self._last))

    def _on_clock(
        self, name: str, given: Now, check: Callable[[Any], Times], inserts: bool = True
    ) -> Times:
        if self._clock is None:
            return check(given)
        clock = self._clock_time()
        times = check(nanoseconds(given, since_1970=clock >= SINCE_1970, name=name))
        if inserts and len(times):
            ahead, limit = int(times.max()) - clock, self._max_ahead
            if limit is not None and ahead > limit:
                high, actual = (time_text(Fraction(each, NANOSECONDS)) for each in (limit, ahead))
                rule = f"must be at most {high} ahead of the clock (max_ahead)"
                raise ValueError(f"{name}: {rule}, not {actual}")
            self._event_times = True
        return times

    def _clock_time(self) -> int:
        time: Any = self._clock and self._clock()
        if isinstance(time, bool) or not isinstance(time, int | np.integer):
            raise TypeError(f"clock: must return integers, as time.time_ns does, not {time!r}")
        if not 0 <= time < TIME_LIMIT:
            raise ValueError(f"clock: must return at least 0 and below 2**62, not {time}")
        return int(time)

    def _saved(self) -> State:
        numbers, arrays = super()._saved()
        clocked = {"max_ahead": self._max_ahead, "event_times": self._event_times}
        clock = self._clock is not None
        return {**numbers, "late": self.late, "clock": clock, **(clocked if clock else {})}, arrays

    def _take_saved(self, numbers: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        super()._take_saved(numbers, arrays)
        late, clock = numbers.get("late", 0), numbers.get("clock", False)
        require_count("late", late, low=0)
        limit, given = numbers.get("max_ahead", DAY), numbers.get("event_times", False)
        for name, flag in (("clock", clock), ("event_times", given)):
            if not isinstance(flag, bool):
                raise TypeError(f"{name}: must be True or False, not {flag!r}")
        if limit is not None:
            require_count("max_ahead", limit)
        self.late, self._max_ahead, self._event_times = late, limit, given
        self._clock = SteadyClock() if clock else None
