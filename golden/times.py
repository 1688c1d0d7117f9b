"""Checks and conversions of timestamps, and the default clock of timed filters."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Times = NDArray[np.int64]  # checked timestamps, shape (n,)
# times from the caller, see `nanoseconds`; None for the time of the filter's clock
Now = ArrayLike | datetime | None
# timestamps and spans are below this limit, so that their sums fit into signed 64 bits
TIME_LIMIT = 1 << 62
# A clock that returns at least this number (early 1973) counts nanoseconds since 1970.
SINCE_1970 = 10**17
NEVER = -1  # stands for the time of an event that has not happened
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
_UNITS = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}


class SteadyClock:
    """Clock in nanoseconds since 1970 that later changes of the system clock do not affect."""

    def __init__(self) -> None:
        self.offset = time.time_ns() - time.monotonic_ns()

    def __call__(self) -> int:
        return time.monotonic_ns() + self.offset


def nanoseconds(
    now: Any, *, since_1970: bool = False, name: str = "now"
) -> NDArray[np.int64] | Any:
    """Convert integers, floats in seconds, or datetimes to integers in nanoseconds."""
    array = np.asarray(now)
    kinds = "integers (nanoseconds), 64-bit floats (seconds), datetime64 or datetime"
    if array.dtype.kind == "f" and array.size:
        if not np.isfinite(array).all():
            raise ValueError(f"{name}: must be finite, not {array[~np.isfinite(array)].flat[0]}")
        if array.itemsize < 8:
            raise TypeError(f"{name}: must be {kinds}, not {array.dtype}")
        if since_1970:
            _check_unit(name, array, 1, "floats are seconds", "integers of nanoseconds")
        whole = np.floor(array)
        if np.abs(whole).max() > TIME_LIMIT // 10**9:
            raise ValueError(f"{name}: must be at least 0 and below 2**62 ns, not {array.max()} s")
        return whole.astype(np.int64) * 10**9 + np.rint((array - whole) * 1e9).astype(np.int64)
    if array.dtype.kind == "M":
        exact = array.astype("datetime64[ns]")
        if np.isnat(array).any() or (exact.astype(array.dtype) != array).any():
            raise ValueError(f"{name}: must be between 1970 and 2116, and not NaT")
        return exact.astype(np.int64)
    if array.dtype.kind == "O":
        values = [_instant(name, value) for value in array.reshape(-1).tolist()]
        return np.array(values, np.int64).reshape(array.shape)
    if array.dtype.kind not in "ui" and array.size:
        raise TypeError(f"{name}: must be {kinds}, not {array.dtype}")
    if since_1970:
        _check_unit(name, array, 10**9, "integers are nanoseconds", "a float of seconds")
    return array


def _check_unit(name: str, array: NDArray[Any], unit: int, meaning: str, other: str) -> None:
    """Refuse times that lie before 1973, or that seem to be in a different unit.

    `unit` is the number of units per second.
    """
    first, last = SINCE_1970 // 10**9, TIME_LIMIT // 10**9
    for value in (array.min().item(), array.max().item()) if array.size else ():
        for seems, each in _UNITS.items():
            if each != unit and first * each <= value < last * each:
                change = f"* {unit // each:_}" if unit > each else f"/ {each // unit:_}"
                raise ValueError(
                    f"{name}: {value} looks like {seems}, but {meaning} since 1970; "
                    f"pass {name} {change}, {other}, or datetimes"
                )
        if 0 <= value < first * unit:
            raise ValueError(
                f"{name}: {value} is before 1973, because {meaning} since 1970; if your times "
                "have another epoch, set the filter's clock to a clock with this epoch"
            )


def _instant(name: str, value: Any) -> int:
    if not isinstance(value, datetime):
        raise TypeError(f"{name}: must be a datetime with a time zone, not {type(value).__name__}")
    if value.tzinfo is None:
        raise TypeError(f"{name}: must be a datetime with a time zone, not {value!r}")
    return instant(value)


def instant(moment: datetime) -> int:
    return (moment - EPOCH) // MICROSECOND * 1000


def check_timestamps(timestamps: ArrayLike, count: int, last: int) -> Times:
    """Require timestamps of shape (count,) that start at `last` or later and never decrease."""
    times = _integers("times", timestamps)
    if count == 1 and times.shape == ():
        times = times.reshape(1)
    if times.shape != (count,):
        raise ValueError(f"times: must have shape ({count},), one per key, not {times.shape}")
    before = np.concatenate([[last], times[:-1]])
    backwards = np.flatnonzero(times < before)
    if len(backwards):
        at = backwards[0]
        raise ValueError(f"times: must not decrease, but {times[at]} follows {before[at]}")
    return times


def check_each(name: str, values: ArrayLike, count: int) -> Times:
    """Check integers of shape (count,) or (), and broadcast them to shape (count,)."""
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
