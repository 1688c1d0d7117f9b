"""Merge packets from several inputs, each of which is only roughly in time order.

A packet is due at its time, or `bound` nanoseconds before the latest time of its input if that is
later. Packets are sorted by the time at which they are due. Ties go to the input with the lower
number, then to the packet that was read first. So the order does not depend on how many packets are
read at once, and packets of one input that are at most `bound` late are sorted by time.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..times import Times


def due_times(times: Times, bound: int, reached: int = 0) -> Times:
    """Return the time, in nanoseconds, at which each packet of an input is due.

    A negative time means that the time of the packet is unknown.
    """
    latest = np.maximum(np.maximum.accumulate(times), reached)
    return np.where(times < 0, latest, np.maximum(times, latest - bound))


def merged_order(inputs: Sequence[Times], bound: int) -> NDArray[np.int64]:
    """Return the indices that sort the concatenated packets of all inputs."""
    due = [due_times(times, bound) for times in inputs]
    return np.argsort(np.concatenate([*due, np.empty(0, np.int64)]), kind="stable")
