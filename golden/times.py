"""Timestamps of operations, checked."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Times = NDArray[np.int64]
"""Checked timestamps, shape (n,)."""

TIME_LIMIT = 1 << 62
"""Timestamps and spans are below this, so that their sums fit into 64 bits with a sign."""

NEVER = -1
"""Time of an event that has not happened."""


def check_timestamps(timestamps: ArrayLike, count: int, last: int) -> Times:
    """Return the timestamps of insertions in the form that the models take.

    Parameters
    ----------
    timestamps : array_like of int, shape (count,), or () for one key
    count : int
        Keys that they belong to.
    last : int
        Time of the last insertion before them, or `NEVER`.

    Returns
    -------
    ndarray of int64, shape (count,)

    Raises
    ------
    TypeError, ValueError
        If they are not integers, the shape is another one, or one of them is
        negative, 2**62 or more, or less than the one before it.
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
    """Return the `values` of a parameter `name`, which are times, in shape (count,).

    They have shape (count,) or (). Errors: as `check_timestamps`.
    """
    times = _integers(name, values)
    if times.shape not in ((), (count,)):
        raise ValueError(f"{name}: must have shape () or ({count},), not {times.shape}")
    return np.broadcast_to(times, (count,))


def check_now(now: ArrayLike, count: int, last: int) -> Times:
    """Return the times `now` of queries in the form that the models take, shape (count,).

    They have shape (count,) or (), in any order, but not before the last insertion.
    Parameters, errors: as `check_timestamps`.
    """
    times = check_each("now", now, count)
    if times.size and times.min() < last:
        raise ValueError(
            f"now: must not be before the last insertion, at {last}, not {times.min()}"
        )
    return times


def _integers(name: str, values: ArrayLike) -> Times:
    array = np.asarray(values)
    if array.size == 0 and array.dtype == np.float64:
        array = array.astype(np.int64)
    if array.dtype.kind not in "ui":
        raise TypeError(f"{name}: must be integers, not {array.dtype}")
    for value in (array.min(), array.max()) if array.size else ():
        if not 0 <= value < TIME_LIMIT:
            raise ValueError(f"{name}: must be at least 0 and below 2**62, not {value}")
    return array.astype(np.int64, copy=False)
