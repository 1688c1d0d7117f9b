"""Order of packets from several inputs, each of which is only roughly in order of time.

A packet is due at its time, or `bound` nanoseconds before the latest time of its input if that is
later. Packets are sorted by the time at which they are due. Ties go to the input with the lower
number, then to the packet that was read first. So the order does not depend on the number of
packets that are read at a time, and packets of one input that are at most `bound` late are in the
order of their times.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..times import Times


def due_times(times: Times, bound: int, reached: int = 0) -> Times:
    """Return when packets of one input are due, in nanoseconds as `times` and `bound`.

    `reached` is the latest time before them. A packet without a time, which is negative, counts as
    the latest.
    """
    latest = np.maximum(np.maximum.accumulate(times), reached)
    return np.where(times < 0, latest, np.maximum(times, latest - bound))


def merged_order(inputs: Sequence[Times], bound: int) -> NDArray[np.int64]:
    """Return the numbers of packets in order, from 0, counted over all inputs in sequence."""
    due = [due_times(times, bound) for times in inputs]
    return np.argsort(np.concatenate([*due, np.empty(0, np.int64)]), kind="stable")
