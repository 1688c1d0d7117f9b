"""Checks of the timestamps of operations, and the clock that supplies them."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Times = NDArray[np.int64]
"""Checked timestamps, shape (n,)."""

Now = ArrayLike | datetime | None
"""Times from the caller: as for `nanoseconds`, or None for the time of the filter's clock."""

TIME_LIMIT = 1 << 62
"""Timestamps and spans are below this limit, so that their sums fit into signed 64 bits."""

NEVER = -1
"""Time of an event that has not happened."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class SteadyClock:
    """Nanoseconds since 1970 that never step, set from the system clock at construction.

    After construction the time follows `time.monotonic_ns`, so later changes of the system clock
    have no effect.
    """

    def __init__(self) -> None:
        self.offset = time.time_ns() - time.monotonic_ns()

    def __call__(self) -> int:
        """Return the time now."""
        return time.monotonic_ns() + self.offset


def nanoseconds(now: Any) -> NDArray[np.int64] | Any:
    """Return times as an array of integers, in nanoseconds.

    Parameters
    ----------
    now : array_like of int, float, datetime64 or datetime
        Integers are nanoseconds, floats are seconds. Others become nanoseconds since 1970; a
        datetime must have a time zone, and a datetime64 is in UTC.

    Raises
    ------
    TypeError, ValueError
        If the times are of another type, not finite, NaT, or beyond 64 bits.
    """
    array = np.asarray(now)
    if array.dtype.kind == "f" and array.size:
        if not np.isfinite(array).all():
            raise ValueError(f"now: must be finite, not {array[~np.isfinite(array)].flat[0]}")
        whole = np.floor(array)
        if np.abs(whole).max() > TIME_LIMIT // 10**9:
            raise ValueError(f"now: must be at least 0 and below 2**62 ns, not {array.max()} s")
        return whole.astype(np.int64) * 10**9 + np.rint((array - whole) * 1e9).astype(np.int64)
    if array.dtype.kind == "M":
        exact = array.astype("datetime64[ns]")
        if np.isnat(array).any() or (exact.astype(array.dtype) != array).any():
            raise ValueError("now: must be between 1970 and 2116, not NaT or another time")
        return exact.astype(np.int64)
    if array.dtype.kind == "O":
        values = [_since_1970(value) for value in array.reshape(-1).tolist()]
        return np.array(values, np.int64).reshape(array.shape)
    if array.dtype.kind not in "ui" and array.size:
        raise TypeError(
            "now: must be integers (nanoseconds), floats (seconds), datetime64 or datetime, "
            f"not {array.dtype}"
        )
    return array


def _since_1970(value: Any) -> int:
    if not isinstance(value, datetime):
        raise TypeError(f"now: must be a datetime with a time zone, not {type(value).__name__}")
    if value.tzinfo is None:
        raise TypeError(f"now: must be a datetime with a time zone, not {value!r}")
    return instant(value)


def instant(moment: datetime) -> int:
    """Return the nanoseconds from 1970 to a `moment` that has a time zone."""
    return (moment - _EPOCH) // _MICROSECOND * 1000


def check_timestamps(timestamps: ArrayLike, count: int, last: int) -> Times:
    """Return checked, ordered timestamps in the format of the models.

    Parameters
    ----------
    timestamps : array_like of int, shape (count,), or () for one key
    count : int
        Number of keys.
    last : int
        Time of the previous insertion, or `NEVER`.

    Returns
    -------
    ndarray of int64, shape (count,)

    Raises
    ------
    TypeError, ValueError
        If the timestamps are not integers or have another shape, or if a timestamp is negative,
        2**62 or more, or less than its predecessor.
    """
    times = _integers("timestamps", timestamps)
    if count == 1 and times.shape == ():
        times = times.reshape(1)
    if times.shape != (count,):
        raise ValueError(f"timestamps: must have shape ({count},), one per key, not {times.shape}")
    before = np.concatenate([[last], times[:-1]])
    backwards = np.flatnonzero(times < before)
    if len(backwards):
        at = backwards[0]
        raise ValueError(f"timestamps: must never decrease, not {times[at]} after {before[at]}")
    return times


def check_each(name: str, values: ArrayLike, count: int) -> Times:
    """Return the `values` of a parameter `name` that holds times, with shape (count,).

    The `values` have shape (count,) or (). Errors: as `check_timestamps`.
    """
    times = _integers(name, values)
    if times.shape not in ((), (count,)):
        raise ValueError(f"{name}: must have shape () or ({count},), not {times.shape}")
    return np.broadcast_to(times, (count,))


def _integers(name: str, values: ArrayLike) -> Times:
    array = np.asarray(values)
    if array.size == 0 and array.dtype == np.float64:
        array = array.astype(np.int64)
    if array.dtype.kind not in "ui":
        kind = type(array.flat[0]).__name__ if array.dtype == object and array.size else array.dtype
        raise TypeError(f"{name}: must be integers, not {kind}")
    for value in (array.min(), array.max()) if array.size else ():
        if not 0 <= value < TIME_LIMIT:
            raise ValueError(f"{name}: must be at least 0 and below 2**62, not {value}")
    return array.astype(np.int64, copy=False)
