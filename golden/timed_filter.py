"""The contract of filters whose window is a span of time."""

from typing import Any, Self, Unpack

from numpy.typing import ArrayLike

from .convenience import Options
from .filter import Answers, Filter, Words, require_count
from .hash.keys import Key, Keys, check_keys, one_or_all
from .results import Ages
from .sizing import check_rate, expected_keys
from .times import TIME_LIMIT, Times, check_now, check_timestamps


class TimedFilter(Filter):
    """A filter whose window is a span of time.

    Timestamps are integers of any unit, for instance nanoseconds, and never
    decrease from one insertion to the next.
    """

    age_unit = "generations"
    _chooser = "for_window(span, fpr, rate=rate)"
    _last: int
    span: int

    @classmethod
    def for_window(
        cls, span: int, fpr: float = 0.01, *, rate: float, **options: Unpack[Options]
    ) -> Self:
        """Build a filter for a span of time and a false-positive rate.

        Parameters
        ----------
        span : int
            Time for which every key is reported, in units of the timestamps.
        fpr : float
            Share of fresh keys that may be reported all the same.
        rate : float
            Highest rate of insertions that is expected, per unit of time.
        **options
            Other parameters of the constructor: `seed`, `key_bits`, ...

        Raises
        ------
        TypeError, SpecificationError
            If a parameter is not a number, or out of its range.
        """
        require_count("span", span, most=TIME_LIMIT - 1)
        keys = expected_keys(int(span), rate)
        return cls._for_keys(keys, check_rate(fpr), {"span": int(span)}, options)

    def _window_text(self) -> str:
        return f"window of {self.span:,} units of time"

    @property
    def latest(self) -> int:
        """Time of the last insertion; -1 if there was none."""
        return self._last

    def _ask_now(self, key: Key) -> Any:
        return self.query(key, max(self._last, 0))

    def insert(self, keys: Keys, timestamps: ArrayLike) -> None:
        """Insert keys one after another.

        Parameters
        ----------
        keys : array_like of int
            As for `CountedFilter.insert`.
        timestamps : array_like of int, shape (n,)
            Time of each insertion.

        Raises
        ------
        TypeError
            If the keys or timestamps are not integers.
        ValueError
            If a shape is wrong, a key does not fit into `key_bits`, or a
            timestamp is before the last. Nothing is inserted then.
        """
        words, times = self._inserted(keys, timestamps)
        self._insert(words, times)
        self._note_events(len(words), len(words))

    @one_or_all
    def query(self, keys: Keys, now: ArrayLike) -> Answers:
        """Ask for keys at a time; changes nothing.

        Parameters
        ----------
        keys : array_like of int
            As for `insert`, with its errors.
        now : array_like of int, shape (n,) or ()
            Time of the query, not before the last insertion.

        Returns
        -------
        ndarray of bool, shape (n,); a bool for a single key
        """
        return self._query(*self._asked(keys, now))

    @one_or_all
    def check_and_insert(self, keys: Keys, timestamps: ArrayLike) -> Answers:
        """Query and insert keys one after another; each answer is from before its insertion.

        Parameters, errors: as `insert`; result of shape (n,) as `query`.
        """
        words, times = self._inserted(keys, timestamps)
        seen = self._check_and_insert(words, times)
        self._note_events(len(words), len(words), seen)
        return seen

    @one_or_all
    def age(self, keys: Keys, now: ArrayLike) -> Ages:
        """Find the least age in generations that each key can have; changes nothing.

        It is 0 for the current generation, -1 for a key that is not reported.

        Parameters, errors: as `query`. The result is an ndarray of int64, shape (n,).
        """
        return self._age(*self._asked(keys, now))

    def _inserted(self, keys: Keys, timestamps: ArrayLike) -> tuple[Words, Times]:
        checked = check_keys(keys, self.key_bits)
        return checked, check_timestamps(timestamps, len(checked), self._last)

    def _checked_times(self, times: ArrayLike | None, count: int) -> Times:
        if times is None:
            raise TypeError(f"times: must be given for {type(self).__name__}")
        return check_timestamps(times, count, self._last)

    def _asked(self, keys: Keys, now: ArrayLike) -> tuple[Words, Times]:
        checked = check_keys(keys, self.key_bits)
        return checked, check_now(now, len(checked), self._last)
