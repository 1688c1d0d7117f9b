"""What the time-limited filters share: checked timestamps, and slices of bits that are searched."""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

TIME_LIMIT = 1 << 62
"""Timestamps and spans are below this, so that their sums fit into 64 bits with a sign."""

NEVER = -1
"""Stands for the time of what has not happened."""

CHUNK = 1 << 15
"""Keys that are hashed at a time."""


def check_timestamps(timestamps: ArrayLike, count: int, last: int) -> NDArray[np.int64]:
    """Bring the timestamps of insertions into the form that the models take.

    Parameters
    ----------
    timestamps : array_like of int, shape (count,)
    count : int
        Keys that they belong to.
    last : int
        Time of the last insertion before them, or `NEVER`.

    Returns
    -------
    ndarray of int64, shape (count,)

    Raises
    ------
    TypeError
        If they are not integers.
    ValueError
        If the shape is another one, or one of them is negative, 2**62 or more,
        or less than the one before it.
    """
    times = _integers("timestamps", timestamps)
    if times.shape != (count,):
        raise ValueError(f"timestamps: must have shape ({count},), one per key, not {times.shape}")
    before = np.concatenate([[last], times[:-1]])
    backwards = np.flatnonzero(times < before)
    if len(backwards):
        at = backwards[0]
        raise ValueError(f"timestamps: must never decrease, not {times[at]} after {before[at]}")
    return times


def check_now(now: ArrayLike, count: int, last: int) -> NDArray[np.int64]:
    """Bring the times of queries into the form that the models take.

    Parameters
    ----------
    now : array_like of int, shape (count,) or ()
        In any order.
    count, last
        As for `check_timestamps`.

    Returns
    -------
    ndarray of int64, shape (count,)

    Raises
    ------
    TypeError
        If they are not integers.
    ValueError
        If the shape is another one, or one of them is negative, 2**62 or more,
        or before the last insertion.
    """
    times = _integers("now", now)
    if times.shape not in ((), (count,)):
        raise ValueError(f"now: must have shape () or ({count},), not {times.shape}")
    if times.size and times.min() < last:
        raise ValueError(
            f"now: must not be before the last insertion, at {last}, not {times.min()}"
        )
    return np.broadcast_to(times, (count,))


def chunks(count: int) -> Iterator[slice]:
    """Cut `count` keys into stretches of `CHUNK` at most."""
    for start in range(0, count, CHUNK):
        yield slice(start, min(count, start + CHUNK))


def find_runs(matches: Iterable[NDArray[np.bool_]], k: int, count: int) -> NDArray[np.bool_]:
    """Tell which keys match `k` consecutive slices (APBF, section 5.1).

    Parameters
    ----------
    matches : iterable of ndarray of bool, shape (count,)
        Of slice after slice, from either end.
    k : int
        Consecutive matches that make a report.
    count : int
        Number of keys.

    Returns
    -------
    ndarray of bool, shape (count,)
    """
    found = np.zeros(count, bool)
    run = np.zeros(count, np.int16)
    for match in matches:
        run += 1
        run *= match
        found |= run >= k
    return found


def test_and_set(bits: NDArray[np.bool_], positions: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Set bits one after another; tell for each whether it was set before.

    Parameters
    ----------
    bits : ndarray of bool, shape (m,)
        Of a slice; changed.
    positions : ndarray of intp, shape (n,)

    Returns
    -------
    ndarray of bool, shape (n,)
    """
    before = bits[positions]
    order = np.arange(len(positions))
    first = np.empty(len(bits), np.intp)
    # Of several assignments to one place the last one stays: backwards, the earliest.
    first[positions[::-1]] = order[::-1]
    before |= first[positions] < order
    bits[positions] = True
    return before


def check_whole(name: str, value: object, least: int, most: int | None = None) -> None:
    """Refuse a number of a state file that is not an integer in a range.

    Parameters
    ----------
    name : str
        Of the number, for messages.
    value : object
    least, most : int
        Ends of the range; None for no end.

    Raises
    ------
    ValueError
        If it is not.
    """
    if type(value) is not int or value < least or (most is not None and value > most):
        raise ValueError(f"{name}: {value!r} does not fit the filter")


def _integers(name: str, values: ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.size == 0 and array.dtype == np.float64:
        array = array.astype(np.int64)
    if array.dtype.kind not in "ui":
        raise TypeError(f"{name}: must be integers, not {array.dtype}")
    for value in (array.min(), array.max()) if array.size else ():
        if not 0 <= value < TIME_LIMIT:
            raise ValueError(f"{name}: must be at least 0 and below 2**62, not {value}")
    return array.astype(np.int64, copy=False)
