"""Loops of a deduplication: elapsed time, and copies of the kept records."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..captures.capture_loops import NO_TIME
from ..golden.compilation import core
from ..golden.times import Times

MOST_ELAPSED = 1 << 62
"""Nanoseconds that can pass; a clock stops there."""


class ClockState(NamedTuple):
    """State of a `PacketClock`."""

    reached: int = NO_TIME
    """Latest time since the beginning or the last step; `NO_TIME` before the first."""
    elapsed: int = 0
    """Nanoseconds that have passed."""
    late: int = 0
    """Packets before the latest time."""
    most_late: int = 0
    """Maximum nanoseconds before the latest time."""
    steps: int = 0
    """Steps back."""
    untimed: int = 0
    """Packets without a time."""


class PacketClock:
    """Measures the time that passes up to each packet.

    A time that is at most `span` before the latest counts as the latest. An earlier one is a step
    of the clock: then `silence` passes, and this time becomes the latest. A gap longer than
    `silence` counts as `silence`.

    Parameters
    ----------
    span, silence : int
        In nanoseconds; `silence` is longer.
    """

    def __init__(self, span: int, silence: int) -> None:
        self._span = span
        self._silence = silence
        self._state = np.array(ClockState(), np.int64)

    @property
    def state(self) -> ClockState:
        """Latest time, elapsed time, and counts of packets."""
        return ClockState(*self._state.tolist())

    def follow(self, times: Times) -> Times:
        """Return the nanoseconds from the beginning to each packet, which never decrease.

        Parameters
        ----------
        times : ndarray of int64, shape (n,)
            In nanoseconds, or `NO_TIME`, which counts as the latest.
        """
        elapsed = np.empty(len(times), np.int64)
        if (compiled := core()) is not None:
            times = np.ascontiguousarray(times)
            compiled.follow_clock(times, self._span, self._silence, self._state, elapsed)
            return elapsed
        reached, passed, late, most_late, steps, untimed = self.state
        for number, time in enumerate(times.tolist()):
            before = reached - time
            if passed >= MOST_ELAPSED:
                pass
            elif time == NO_TIME:
                untimed += 1
            elif reached == NO_TIME:
                reached = time
            elif before > self._span:
                reached, passed, steps = time, passed + self._silence, steps + 1
            elif before > 0:
                late, most_late = late + 1, max(most_late, before)
            else:
                reached, passed = time, passed + min(-before, self._silence)
            elapsed[number] = passed
        self._state[:] = reached, passed, late, most_late, steps, untimed
        return elapsed


def keep_lines(
    data: NDArray[np.uint8],
    bounds: NDArray[np.int64],
    keep: NDArray[np.bool_],
    out: NDArray[np.uint8],
) -> int:
    """Copy the kept lines or records of `data` to `out`, and return the number of bytes.

    `bounds` has shape (n + 1,): the starts of all lines, then the end; `keep` has shape (n,).
    """
    if native := core():
        return int(native.keep_lines(data, bounds, keep.view(np.uint8), out))
    kept = data[bounds[0] : bounds[-1]][np.repeat(keep, np.diff(bounds))]
    out[: len(kept)] = kept
    return len(kept)
